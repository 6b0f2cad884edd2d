"""Fresh files: a model built in Python, or read from the other format, written and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="MuJoCo's compiler reads the files")

from formats.models import RICH, URDF

import calibody as cb
from calibody import formats
from calibody.errors import FormatError
from calibody.formats.source import differences


def built(**joint) -> cb.Model:
    """A two-link arm with a motor, built in Python."""
    return cb.Model(
        name="built",
        bodies=(
            cb.Body("lower", parent="upper", mass=0.5, com=(0.0, 0.0, -0.2), inertia=(0.01, 0.01, 0.001), position=(0.0, 0.0, -0.5)),
            cb.Body("upper", mass=1.0, com=(0.0, 0.0, -0.25), inertia=(0.02, 0.02, 0.001, 0.0005, 0.0, 0.0), orientation=(0.9, 0.1, 0.0, 0.0)),
        ),
        joints=(cb.Joint("elbow", "lower", axis=(0, 1, 0), damping=0.1), cb.Joint("shoulder", "upper", axis=(0, 1, 0), friction=0.2, **joint)),
        actuators=(cb.Actuator("motor", "shoulder", gain=2.0, control_range=(-1.0, 1.0)),),
        sites=(cb.Site("tip", "lower", (0.0, 0.0, -0.4)),),
        sensors=(cb.Sensor("encoder", "joint.elbow.angle", sd=0.001),),
        geometries=(cb.Geometry("rod", "upper", "cylinder", (0.02, 0.25), (0.0, 0.0, -0.25)), cb.Geometry("mesh", "upper", "mesh")),
        world=cb.World(gravity=(0.0, 0.0, -9.81)),
    )


def test_python_model_to_mjcf(tmp_path: Path) -> None:
    model = built(stiffness=3.0, reference=0.2, springref=0.1, armature=0.05, anchor=(0.0, 0.0, 0.1))
    out = formats.save(model, tmp_path / "a.xml")
    back = formats.load(out)
    assert not differences(model, back)
    assert {k: set(t) for k, t in back.tables.items() if k != "geometry"} == {k: set(t) for k, t in model.tables.items() if k != "geometry"}
    assert "Left out, because this format has no place for it: shape mesh (mesh)" in out.read_text()


def test_python_model_to_urdf(tmp_path: Path) -> None:
    model = built()
    out = formats.save(model, tmp_path / "a.urdf")
    back = formats.load(out)
    assert not differences(model, back)
    assert "actuator motor; site tip; sensor encoder; shape mesh" in out.read_text()


def test_rich_mjcf_to_fresh_mjcf(tmp_path: Path) -> None:
    (tmp_path / "rich.xml").write_text(RICH)
    model = formats.load(tmp_path / "rich.xml")
    back = formats.load(formats.convert(model, tmp_path / "fresh.mjcf"))
    assert not differences(model, back)
    assert set(back.tables["loop"]) == set(model.tables["loop"]) and set(back.tables["actuator"]) == set(model.tables["actuator"])


def test_urdf_to_mjcf_and_back(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(URDF)
    model = formats.load(tmp_path / "arm.urdf")
    mjcf = formats.load(formats.save(model, tmp_path / "arm.xml"))
    assert mjcf.source.format == "mjcf" and not differences(model, mjcf)
    urdf = formats.load(formats.save(mjcf, tmp_path / "back.urdf"))
    assert urdf.source.format == "urdf" and not differences(model, urdf)


def test_several_joints_become_massless_links(tmp_path: Path) -> None:
    model = cb.Model(
        bodies=(cb.Body("cart", mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.0, 0.0, 1.0)),),
        joints=(cb.Joint("x", "cart", "slide", (1, 0, 0)), cb.Joint("turn", "cart", "hinge", (0, 0, 1))),
    )
    back = formats.load(formats.convert(model, tmp_path / "cart.urdf"))
    assert [b.name for b in back.bodies] == ["cart_x", "cart"] and [j.name for j in back.joints] == ["x", "turn"]
    assert back.body("cart_x").position == (0.0, 0.0, 1.0) and back.body("cart").mass == 1.0


def test_free_body(tmp_path: Path) -> None:
    body = cb.Body("puck", mass=1.0, inertia=(0.1, 0.1, 0.1))
    model = cb.Model(bodies=(body,), joints=(cb.Joint("float", "puck", "free", damping=0.1),))
    assert not differences(model, formats.load(formats.convert(model, tmp_path / "puck.xml")))
    resting = cb.Model(bodies=(body,), joints=(cb.Joint("float", "puck", "free"),))
    assert not differences(resting, formats.load(formats.convert(resting, tmp_path / "puck.urdf")))


@pytest.mark.parametrize(
    ("model", "suffix", "words"),
    [
        (built(stribeck=0.1), ".xml", r"joint\.shoulder\.stribeck has no place in MJCF"),
        (built(compliance=0.1), ".xml", r"joint\.shoulder\.compliance has no place in MJCF"),
        (built(armature=0.1), ".urdf", r"joint\.shoulder\.armature has no place in URDF; save the model as MJCF"),
        (built(anchor=(0.1, 0, 0)), ".urdf", r"joint\.shoulder\.anchor"),
        (cb.Model(bodies=(cb.Body("b", mass=1.0, inertia=(1, 1, 1)),), world=cb.World(gravity=(0, 0, -1))), ".urdf", r"world\.gravity has no place in URDF"),
        (
            cb.Model(bodies=(cb.Body("b", mass=1.0, inertia=(1, 1, 1)),), bushings=(cb.Bushing("s", body2="b"),)),
            ".xml",
            r"bushing\.s has no place in this format",
        ),
        (cb.Model(bodies=(cb.Body("b"),), joints=(cb.Joint("j", "b"),)), ".xml", r"cannot be written as MJCF \(.*mass and inertia"),
    ],
)
def test_what_has_no_place_is_refused(tmp_path: Path, model: cb.Model, suffix: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        formats.convert(model, tmp_path / ("o" + suffix))
    assert not list(tmp_path.iterdir())
