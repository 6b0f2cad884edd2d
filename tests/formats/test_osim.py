"""OpenSim models: kinematics, mass matrix and gravity against OpenSim itself; what is written back; what is refused."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calibody as cb
from calibody.errors import FormatError
from calibody.formats.functions import Knots, simm_spline
from calibody.mechanics import host
from calibody.mechanics.dynamics import inverse_dynamics
from calibody.mechanics.structure import Numbers, Structure

HERE = Path(__file__).parent
RAJAGOPAL = "data/human_running/Rajagopal2015_scaled.osim"
opensim = pytest.mark.skipif(importlib.util.find_spec("opensim") is None, reason="OpenSim, the reference, is not installed")


def coordinate(name: str, more: str = "") -> str:
    return f'<Coordinate name="{name}"><default_value>0.3</default_value><range>-1 1</range>{more}</Coordinate>'


def joint(kind: str, name: str, parent: str, child: str, coordinates: str, more: str = "") -> str:
    base = "/ground" if parent == "ground" else f"/bodyset/{parent}"
    return (
        f'<{kind} name="{name}"><socket_parent_frame>{name}_parent</socket_parent_frame><socket_child_frame>{name}_child</socket_child_frame>'
        f'<coordinates>{coordinates}</coordinates><frames><PhysicalOffsetFrame name="{name}_parent"><socket_parent>{base}</socket_parent>'
        f'<translation>0.1 -0.3 0.05</translation><orientation>0.2 -0.4 0.3</orientation></PhysicalOffsetFrame><PhysicalOffsetFrame name="{name}_child">'
        f"<socket_parent>/bodyset/{child}</socket_parent><translation>0.02 0.2 -0.03</translation><orientation>-0.1 0.5 0.2</orientation>"
        f"</PhysicalOffsetFrame></frames>{more}</{kind}>"
    )


def axis(name: str, direction: str, function: str, of: str = "") -> str:
    return f'<TransformAxis name="{name}"><coordinates>{of}</coordinates><axis>{direction}</axis>{function}</TransformAxis>'


def spline(x: str, y: str) -> str:
    return f'<SimmSpline name="function"><x>{x}</x><y>{y}</y></SimmSpline>'


LINE = '<LinearFunction name="function"><coefficients>{}</coefficients></LinearFunction>'
CONSTANT = '<Constant name="function"><value>{}</value></Constant>'
SCALED = '<MultiplierFunction name="function"><function>{}</function><scale>0.8</scale></MultiplierFunction>'
KNEE = (
    axis("rotation1", "1 0 0", LINE.format("-1 0.1"), "knee") + axis("rotation2", "0 0 1", spline("-0.6 -0.2 0.1 0.4 0.8", "0.1 0 0.05 0.2 0.3"), "knee")
    + axis("rotation3", "0 1 0", CONSTANT.format(0.2)) + axis("translation1", "0 1 0", SCALED.format(spline("-0.6 0 0.3 0.7", "0 0.02 0.03 0.01")), "knee")
    + axis("translation2", "0 0 1", LINE.format("0.05 0.01"), "knee") + axis("translation3", "1 0 0", CONSTANT.format(0.03))
)  # fmt: skip
BODIES = ("pelvis", "thigh", "shank", "foot", "toe", "tail", "arm", "cap")
JOINTS = "".join(
    [
        joint("PlanarJoint", "root", "ground", "pelvis", "".join(coordinate(n) for n in ("tilt", "tx", "ty"))),
        joint("GimbalJoint", "hip", "pelvis", "thigh", "".join(coordinate(n, "<locked>true</locked>" if n == "hip_b" else "") for n in ("hip_a", "hip_b", "hip_c"))),
        joint("CustomJoint", "knee_joint", "thigh", "shank", coordinate("knee"), f"<SpatialTransform>{KNEE}</SpatialTransform>"),
        joint("UniversalJoint", "ankle", "shank", "foot", coordinate("ankle_a") + coordinate("ankle_b")),
        joint("WeldJoint", "mtp", "foot", "toe", ""),
        joint("SliderJoint", "spine", "pelvis", "tail", coordinate("spine")),
        joint("PinJoint", "shoulder", "pelvis", "arm", coordinate("shoulder")),
        joint("PinJoint", "elbow", "arm", "cap", coordinate("elbow")),
    ]
)  # fmt: skip
COUPLER = (
    '<CoordinateCouplerConstraint name="tie"><coupled_coordinates_function><LinearFunction><coefficients>0.5 0.1</coefficients></LinearFunction>'
    "</coupled_coordinates_function><independent_coordinate_names>shoulder</independent_coordinate_names><dependent_coordinate_name>elbow</dependent_coordinate_name>"
    "</CoordinateCouplerConstraint>"
)


def document(joints: str = JOINTS, constraints: str = COUPLER, forces: str = "", version: str = "40000") -> str:
    bodies = "".join(
        f'<Body name="{b}"><mass>{1.0 + 0.3 * k}</mass><mass_center>0.01 {-0.1 - 0.01 * k} 0.02</mass_center><inertia>0.02 0.03 0.025 0.001 -0.002 0.003</inertia></Body>'
        for k, b in enumerate(BODIES)
    )
    markers = "".join(
        f'<Marker name="m_{b}"><socket_parent_frame>/bodyset/{b}</socket_parent_frame><location>0.03 0.1 -0.02</location></Marker>' for b in BODIES
    )
    return (
        f'<?xml version="1.0"?><OpenSimDocument Version="{version}"><Model name="puppet"><gravity>0 -9.8 0.1</gravity><BodySet><objects>{bodies}</objects></BodySet>'
        f"<JointSet><objects>{joints}</objects></JointSet><ConstraintSet><objects>{constraints}</objects></ConstraintSet><ForceSet><objects>{forces}</objects></ForceSet>"
        f"<MarkerSet><objects>{markers}</objects></MarkerSet></Model></OpenSimDocument>"
    )


def puppet(folder: Path, **changes: str) -> Path:
    path = folder / "puppet.osim"
    path.write_text(document(**changes))
    return path


def compare(path: Path, folder: Path, anew: str = "") -> list[tuple[float, float, float]]:
    """Largest differences from OpenSim in three poses: markers [m], reduced mass matrix, forces that hold the pose [N, N m]; the last two over the largest entry."""
    read = cb.load(path)
    inertias = {b.name: b.inertia for b in read.bodies if any("nearest possible" in n and b.name in n for n in read.notes)}
    out = folder / "opensim.json"
    call = [sys.executable, str(HERE / "opensim_peer.py"), str(path), str(out), json.dumps(inertias), anew]
    subprocess.run(call, check=True, cwd=folder, capture_output=True, timeout=300)
    model = cb.load(anew or path)
    return [_differences(model, pose) for pose in json.loads(out.read_text())]


def _differences(model: cb.Model, pose: dict) -> tuple[float, float, float]:
    structure = Structure.build(model, "tree")
    numbers, names = Numbers.of(structure), [u.joint.name for u in structure.tree_units if u.joint is not None]
    ties = {lp.joint1: lp for lp in model.loops}

    def at(name: str, shift: float = 0.0) -> float:
        if name not in ties or name in pose["q"]:
            return pose["q"][name] + shift
        lp = ties[name]
        f = Knots(lp.curve) if lp.curve else lambda x: float(np.polynomial.polynomial.polyval(x, lp.polynomial))
        return f(pose["q"][lp.joint2] + shift)

    q = np.array([at(name) for name in names])
    independent = [name for name in names if name not in ties]
    P, step = np.zeros((len(names), len(independent))), 1e-4  # dq over the independent ones, by differences of fourth order
    for i, name in enumerate(names):
        leader = ties[name].joint2 if name in ties else name
        own = (lambda x, n=name: at(n, x)) if name not in pose["q"] or name not in ties else (lambda x, n=name: ties[n].polynomial[1] * x)
        P[i, independent.index(leader)] = (8 * (own(step) - own(-step)) - own(2 * step) + own(-2 * step)) / (12 * step)
    frames = host.configuration(structure, numbers, q).frames
    mass = P.T @ host.mass_matrix(structure, numbers, frames) @ P
    rest = P.T @ inverse_dynamics(model, q)
    theirs = np.zeros((len(pose["M"]), len(independent)))
    for name, k in pose["order"].items():
        leader = name if name in independent else ties[name].joint2 if name in ties else name.removesuffix("_beta")
        theirs[k, independent.index(leader)] = 1.0 if name not in ties else ties[name].polynomial[1]
    M, held = theirs.T @ np.array(pose["M"]) @ theirs, theirs.T @ np.array(pose["at_rest"])
    sites = [frames.H[:, :3, structure.body_link[s.body], 0] @ s.position + frames.H[:, 3, structure.body_link[s.body], 0] for s in model.sites]
    markers = np.abs(np.array(sites) - [pose["markers"][s.name] for s in model.sites]).max()
    return markers, np.abs(mass - M).max() / np.abs(M).max(), np.abs(rest - held).max() / np.abs(held).max()


@opensim
@pytest.mark.peer
def test_every_kind_of_joint_against_opensim(tmp_path: Path) -> None:
    for markers, mass, held in compare(puppet(tmp_path), tmp_path):
        assert markers < 1e-12
        assert mass < 1e-8
        assert held < 1e-8


@opensim
@pytest.mark.peer
def test_the_whole_body_against_opensim(tmp_path: Path, shared: Path) -> None:
    """In version 4, as OpenSim writes it. Version 3 as it stands is read with more digits than OpenSim itself keeps of it (six, where it brings a file up to date)."""
    for markers, mass, held in compare(shared / RAJAGOPAL, tmp_path, str(tmp_path / "version4.osim")):
        assert markers < 1e-12
        assert mass < 1e-8
        assert held < 1e-8
    for markers, mass, held in compare(shared / RAJAGOPAL, tmp_path):
        assert markers < 1e-5
        assert mass < 1e-5
        assert held < 1e-5


def test_what_the_whole_body_has(shared: Path) -> None:
    model = cb.load(shared / RAJAGOPAL)
    assert (len(model.bodies), len(model.sites), len(model.actuators)) == (22, 64, 13)
    assert sum(b.mass for b in model.bodies) == pytest.approx(70.0)
    assert tuple(model.gravity) == (0.0, -9.80665, 0.0)
    assert {lp.joint2 for lp in model.loops} == {"knee_angle_r", "knee_angle_l"}
    assert "80 Millard2012EquilibriumMuscle" in model.notes[0]
    assert "subtalar_angle_r, mtp_angle_r" in model.notes[1]
    assert "toes_r, toes_l" in model.notes[2]


def test_only_the_changed_numbers_are_written(tmp_path: Path) -> None:
    path = puppet(tmp_path)
    model = cb.load(path)
    changed = model.replace(
        {"body.thigh.mass": 2.5, "body.thigh.com.y": -0.2, "body.foot.inertia.xx": 0.021, "site.m_arm.position.z": 0.5, "joint.knee.position.x": 0.17}
    )
    target = changed.save(tmp_path / "new.osim")
    again = cb.load(target)
    for name in ("thigh", "foot", "shank"):
        assert again.body(name).mass == changed.body(name).mass
        assert again.body(name).inertia == changed.body(name).inertia
        assert again.body(name).position == pytest.approx(changed.body(name).position, abs=1e-15)
    assert again.tables["site"]["m_arm"] == changed.tables["site"]["m_arm"]
    assert cb.load(path).save(tmp_path / "same.osim").read_bytes() == path.read_bytes()
    with pytest.raises(FormatError, match=r"joint\.elbow.damping differs from puppet\.osim, but has no place in its text; save the model as MJCF"):
        model.replace({"joint.elbow.damping": 0.1}).save(tmp_path / "new.osim")


def test_converted_to_mjcf(tmp_path: Path) -> None:
    from calibody import formats

    model = cb.load(puppet(tmp_path))
    [note] = formats.convert_notes(model, tmp_path / "puppet.xml")
    assert "they differ by at most" in note
    again = cb.load(formats.convert(model, tmp_path / "puppet.xml"))
    assert [b.name for b in again.bodies] == [b.name for b in model.bodies]
    for before, after in zip(model.loops, again.loops, strict=True):
        x = np.linspace(-0.6, 0.7, 9)
        f = Knots(before.curve) if before.curve else np.polynomial.Polynomial(before.polynomial)
        assert [f(v) for v in x] == pytest.approx(np.polynomial.Polynomial(after.polynomial)(x), abs=0.01 if before.curve else 1e-15)
    with pytest.raises(FormatError, match="OpenSim files are not written afresh"):
        formats.convert(model, tmp_path / "other.osim")


def test_splines_go_through_their_points_with_two_continuous_derivatives() -> None:
    x, y = [0.0, 0.3, 0.5, 1.1, 1.4], [0.1, 0.4, 0.3, -0.2, 0.0]
    f, e = simm_spline(x, y), 1e-5
    assert [f(v) for v in x] == pytest.approx(y, abs=1e-15)
    for knot in x[1:-1]:
        left, right = ((f(knot + s * 2 * e) - 2 * f(knot + s * e) + f(knot)) / e**2 for s in (-1, 1))
        assert left == pytest.approx(right, abs=1e-3)
    cubic = simm_spline([0.0, 1.0, 2.0, 4.0], [0.0, 1.0, 8.0, 64.0])
    assert [cubic(v) for v in (0.5, 3.0)] == pytest.approx([0.125, 27.0])  # through four points: their cubic


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": "10000"}, "is of version 10000; open and save it with OpenSim"),
        ({"joints": JOINTS.replace("SliderJoint", "ScapulothoracicJoint")}, 'joint "spine" is a ScapulothoracicJoint, which is not represented'),
        ({"joints": JOINTS.replace(LINE.format("-1 0.1"), LINE.format("-2 0.1"))}, 'moves one to one with its coordinate "knee"'),
        ({"joints": JOINTS.replace("<axis>1 0 0</axis>", "<axis>0 0 0</axis>")}, "axis of no length"),
        ({"joints": JOINTS.replace("<translation>0.1 -0.3 0.05</translation>", "<translation>0.1 -0.3</translation>")}, "it needs 3 numbers"),
        ({"joints": JOINTS.replace("<x>-0.6 -0.2", "<x>-0.2 -0.2")}, "the x of a SimmSpline do not increase"),
        ({"joints": JOINTS.replace("/bodyset/cap", "/bodyset/arm")}, 'body "arm" is the child of more than one joint'),
        ({"constraints": '<PointConstraint name="x"/>'}, "a PointConstraint is not represented"),
        ({"constraints": COUPLER.replace(">elbow<", ">elboe<")}, "'shoulder' and 'elboe'"),
    ],
)
def test_mistakes(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    with pytest.raises(FormatError, match=said):
        cb.load(puppet(tmp_path, **changes))


def test_a_setup_file_is_no_model(shared: Path) -> None:
    with pytest.raises(FormatError, match=r"the file has no <Model> \(a setup file of a tool, perhaps\); give the model it names"):
        cb.load(shared / "data" / "human_running" / "opensim_id_setup.xml")
