"""Paths through sites and around shapes, and muscles on them: lengths, moment arms and forces against MuJoCo's, laws that they keep, fits, files and sentences."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize

import calibody as cb
from calibody.mechanics import assembly, host
from calibody.mechanics.elements import wrap
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import TREE, Numbers, Structure

MJX, MYO, DM = "mujoco/mjx/test_data", "myosuite/simhive/myo_sim", "dm_control/suite"
LOADED = ' stiffness="3" damping="0.2" springlength="0.1"'


def file_of(folder: str, name: str) -> Path:
    """In an installed package, or in wheels that were unpacked into the folders of CALIBODY_WHEELS."""
    package = importlib.util.find_spec(folder.split("/")[0])
    places = [Path(p).parent for p in (package.submodule_search_locations or [])] if package is not None else []
    places += [p for p in Path(os.environ.get("CALIBODY_WHEELS", "/nonexistent")).glob("*") if p.is_dir()]
    found = next((path for place in places if (path := place / folder / name).is_file()), None)
    if found is None:
        pytest.skip(f"{folder}/{name} is in no installed package, nor in wheels unpacked under CALIBODY_WHEELS")
    return found


def lengths_and_arms(path: Path, configurations: int) -> tuple[int, float, float]:
    """Number of paths, and the largest deviations of their lengths and moment arms from MuJoCo's at random configurations."""
    import mujoco

    model, theirs = cb.load(path), mujoco.MjModel.from_xml_path(str(path))
    data, structure, random = mujoco.MjData(theirs), Structure.build(model, TREE), np.random.default_rng(0)
    numbers, plan = Numbers.of(structure), plan_of(structure)
    which = [mujoco.mj_name2id(theirs, mujoco.mjtObj.mjOBJ_TENDON, p.name) for p in model.paths]
    which = [i if i >= 0 else int(p.name.removeprefix("tendon_")) - 1 for i, p in zip(which, model.paths, strict=True)]
    length = arm = 0.0
    for _ in range(configurations):
        mujoco.mj_resetData(theirs, data)
        mujoco.mj_integratePos(theirs, data.qpos, random.normal(size=theirs.nv), 1.0)
        mujoco.mj_forward(theirs, data)
        f = host.configuration(structure, numbers, data.qpos.copy()).frames.between(0, 1)
        ours, J = assembly.pulls(plan, numbers, f)[..., 0], np.zeros((theirs.ntendon, theirs.nv))
        for t in range(theirs.ntendon):
            at = slice(theirs.ten_J_rowadr[t], theirs.ten_J_rowadr[t] + theirs.ten_J_rownnz[t])
            J[t, theirs.ten_J_colind[at]] = data.ten_J.ravel()[at]
        length = max(length, np.abs(f.s[plan.first_path :, 0] - data.ten_length[which]).max(initial=0.0))
        arm = max(arm, np.abs(ours - J[which]).max(initial=0.0))
    return len(model.paths), length, arm


def arm26(folder: Path) -> Path:
    """Six muscles over two cylinders. MuJoCo 4.0 does not find the range of their lengths, so it is stated."""
    text = file_of(MJX, "actuator/arm26.xml").read_text()
    (folder / "arm26.xml").write_text(re.sub(r'<muscle name="(\w+)" tendon="\w+"/>', r'<muscle name="\1" tendon="\1" lengthrange="0.2 0.5"/>', text))
    return folder / "arm26.xml"


@pytest.mark.peer
@pytest.mark.parametrize("name", ["fixed_site_wrap", "pulley_fixed_site_wrap", "pulley_site", "pulley_wrap", "site_wrap", "tendon"])
def test_lengths_and_moment_arms(name: str, tmp_path: Path) -> None:
    text = file_of(MJX, f"tendon/{name}.xml").read_text()
    (tmp_path / "model.xml").write_text(text.replace("<spatial", f"<spatial{LOADED}"))
    count, length, arm = lengths_and_arms(tmp_path / "model.xml", 60)
    assert count and length < 1e-12 and arm < 1e-12


def slopes_of_lengths(path: Path, configurations: int) -> float:
    """The largest deviation of moment arms from the five-point differences of MuJoCo's lengths at random configurations."""
    import mujoco

    model, theirs = cb.load(path), mujoco.MjModel.from_xml_path(str(path))
    data, structure, random, step, worst = mujoco.MjData(theirs), Structure.build(model, TREE), np.random.default_rng(0), 5e-4, 0.0
    numbers, plan = Numbers.of(structure), plan_of(structure)

    def moved(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        data.qpos[:] = q
        mujoco.mj_integratePos(theirs, data.qpos, v, 1.0)
        mujoco.mj_forward(theirs, data)
        return data.ten_length.copy()

    for _ in range(configurations):
        moved(theirs.qpos0, random.normal(size=theirs.nv))
        q = data.qpos.copy()
        ours = assembly.pulls(plan, numbers, host.configuration(structure, numbers, q).frames.between(0, 1))[..., 0]
        for j, e in enumerate(np.eye(theirs.nv)):
            ends = [moved(q, k * step * e) for k in (-2, -1, 1, 2)]
            slope = (ends[0] - 8.0 * ends[1] + 8.0 * ends[2] - ends[3]) / (12.0 * step)
            worst = max(worst, float(np.abs(ours[:, j] - slope).max()))
    return worst


@pytest.mark.peer
def test_through_a_ring(tmp_path: Path) -> None:
    """MuJoCo's moment arms through rings are not the derivatives of its lengths (to 8e-9 here, by the tolerance of the point that is touched); ours are."""
    text = file_of(MJX, "tendon/wrap_sidesite.xml").read_text()
    (tmp_path / "model.xml").write_text(text)
    count, length, arm = lengths_and_arms(tmp_path / "model.xml", 60)
    assert count == 3 and length < 1e-13 and arm < 1e-7
    assert slopes_of_lengths(tmp_path / "model.xml", 20) < 1e-10


def test_a_ring_is_touched_where_the_way_is_shortest() -> None:
    """Length and gradient through a ring against the least |a - t| + |t - b| on its edge, found to rounding."""
    rng, seen = np.random.default_rng(2), 0
    for _ in range(60):
        (ra, rb), start, apart, R = rng.uniform(1.1, 3.0, 2), rng.uniform(-3, 3), rng.uniform(0.2, 3.0), 1.0
        a, b = (r * np.array([np.cos(t), np.sin(t)]) for r, t in ((ra, start), (rb, start + apart)))

        def slope(t: float, a: np.ndarray = a, b: np.ndarray = b, R: float = R) -> float:
            p, along = R * np.array([np.cos(t), np.sin(t)]), np.array([-np.sin(t), np.cos(t)])
            return float(along @ ((p - a) / np.linalg.norm(p - a) + (p - b) / np.linalg.norm(p - b)))

        found = wrap._ring(tuple(a), tuple(b), R)
        if not found.touches:
            continue
        seen += 1
        t = scipy.optimize.brentq(slope, start, start + apart, xtol=1e-15, rtol=1e-15)
        touched = R * np.array([np.cos(t), np.sin(t)])
        assert found.length == pytest.approx(np.linalg.norm(a - touched) + np.linalg.norm(b - touched), rel=1e-13)
        for p, gradient in ((a, found.a), (b, found.b)):
            assert np.abs(np.array(gradient) - (p - touched) / np.linalg.norm(p - touched)).max() < 1e-12
    assert seen > 20


@pytest.mark.peer
def test_arm26(tmp_path: Path) -> None:
    count, length, arm = lengths_and_arms(arm26(tmp_path), 100)
    assert count == 6 and length < 1e-12 and arm < 1e-12


@pytest.mark.peer
def test_ball_in_cup() -> None:
    count, length, arm = lengths_and_arms(file_of(DM, "ball_in_cup.xml"), 50)
    assert count == 1 and length < 1e-12 and arm < 1e-12


@pytest.mark.peer
@pytest.mark.parametrize(
    ("name", "muscles", "arms"), [("elbow/myoelbow_2dof6muscles.xml", 6, 1e-10), pytest.param("hand/myohand.xml", 39, 1e-6, marks=pytest.mark.slow)]
)
def test_muscles_of_a_person(name: str, muscles: int, arms: float) -> None:
    """Muscles of the hand run through rings (see above)."""
    count, length, arm = lengths_and_arms(file_of(MYO, name), 5)
    assert count == muscles and length < 1e-10 and arm < arms


def accelerations(path: Path, activated: bool) -> float:
    """The largest relative deviation of accelerations from MuJoCo's at random configurations, rates and controls, contacts and limits switched off."""
    import mujoco

    model, theirs, random, worst = cb.load(path), mujoco.MjModel.from_xml_path(str(path)), np.random.default_rng(1), 0.0
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    data = mujoco.MjData(theirs)
    for _ in range(20):
        mujoco.mj_resetData(theirs, data)
        mujoco.mj_integratePos(theirs, data.qpos, random.normal(size=theirs.nv), 1.0)
        data.qvel[:], data.ctrl[:] = random.normal(size=theirs.nv), random.uniform(0, 1, theirs.nu)
        if activated:
            data.act[:] = data.ctrl
        mujoco.mj_forward(theirs, data)
        found = cb.forward_dynamics(model, data.qpos.copy(), data.qvel.copy(), control=data.ctrl.copy())
        worst = max(worst, float(np.abs(found - data.qacc).max() / (1.0 + np.abs(data.qacc).max())))
    return worst


@pytest.mark.peer
def test_forces_of_muscles(tmp_path: Path) -> None:
    assert accelerations(arm26(tmp_path), activated=True) < 1e-11


@pytest.mark.peer
@pytest.mark.parametrize(("name", "more"), [("site_wrap", ""), ("pulley_site", ' armature="0.3"'), ("armature", "")])
def test_forces_of_springs(name: str, more: str, tmp_path: Path) -> None:
    text = file_of(MJX, f"tendon/{name}.xml").read_text()
    (tmp_path / "model.xml").write_text(text.replace("<spatial", f"<spatial{LOADED}{more}") if name != "armature" else text)
    assert accelerations(tmp_path / "model.xml", activated=False) < 1e-9


def floating() -> cb.Model:
    """Three bodies in space, and a cable from the first around the second to the third."""
    bodies = [cb.Body(n, mass=m, com=(0.02, 0.01, 0.0), inertia=(0.02, 0.03, 0.025)) for n, m in (("a", 1.0), ("b", 2.0), ("c", 1.5))]
    joints = [cb.Joint(n, body=n, kind="free") for n in "abc"]
    sites = [cb.Site("start", "a", (0.1, 0.0, 0.05)), cb.Site("end", "c", (-0.1, 0.05, 0.0)), cb.Site("by", "b", (0.0, 0.0, 1.0))]
    cable = cb.Path("cable", ("start", cb.Wrap("drum", "by"), "end"), stiffness=40.0, springref=0.9)
    drum = cb.Geometry("drum", "b", "cylinder", (0.2, 1.0), orientation=(0.7, 0.7, 0.1, 0.0))
    return cb.Model("floating", bodies, joints, sites=sites, geometries=[drum], paths=[cable], world=cb.World(gravity=(0, 0, 0)))


def test_momentum_and_energy() -> None:
    """A cable around a drum that floats conserves momentum and angular momentum to rounding, and energy to the square of the step."""
    start = {
        "joint.a.position": (-0.6, 0.0, 0.05),
        "joint.c.position": (0.6, 0.1, -0.02),
        "joint.b.rate": (0, 0.1, 0, 0.3, 0.2, 0.1),
        "joint.a.rate": (0, 0.2, 0.1, 0.5, 0, 0),
    }
    drift = []
    for h in (0.004, 0.002):
        motion = cb.simulate(floating(), duration=1.0, h=h, initial=start)
        v = {n: np.diff(motion[f"body.{n}.com"], axis=0) / h for n in "abc"}
        mass = {"a": 1.0, "b": 2.0, "c": 1.5}
        momentum = sum(mass[n] * v[n] for n in "abc")
        assert np.abs(momentum - momentum[0]).max() < 1e-10
        drift.append(float(np.ptp(motion.energy[2:])))
        assert np.ptp(motion["path.cable.length"]) > 0.1
    assert drift[1] < 0.3 * drift[0] and drift[1] < 1e-3


def elbow() -> cb.Model:
    bodies = [cb.Body("arm", mass=1.2, com=(0.12, 0, 0), inertia=(0.001, 0.008, 0.008))]
    sites = [cb.Site("origin", "world", (-0.25, 0.0, 0.03)), cb.Site("insertion", "arm", (0.05, 0.0, 0.02)), cb.Site("behind", "world", (0.0, 0.0, -0.1))]
    sites += [cb.Site("back", "world", (-0.25, 0.0, -0.03)), cb.Site("olecranon", "arm", (0.04, 0.0, -0.02))]
    bone = cb.Geometry("bone", "arm", "cylinder", (0.02, 0.1), orientation=(0.7071067811865476, 0.7071067811865476, 0.0, 0.0))
    paths = [
        cb.Path("flexor", ("origin", "insertion")),
        cb.Path("extensor", ("back", cb.Wrap("bone", "behind"), "olecranon"), stiffness=90.0, springref=0.27, damping=2.0),
    ]
    biceps = cb.Muscle("biceps", path="flexor", peak_force=300.0, optimal_length=0.2, slack_length=0.09, vmax=8.0)
    hinge = cb.Joint("elbow", body="arm", axis=(0, -1, 0), damping=0.1, stiffness=8.0, springref=0.9)
    return cb.Model("elbow", bodies, [hinge], sites=sites, geometries=[bone], paths=paths, actuators=[biceps])


def test_a_muscle_is_calibrated() -> None:
    """Peak force and optimal length of a muscle, and the stiffness of a cable, from a recording of the angle and of the cable's length."""
    model = elbow()
    true = model.replace({"actuator.biceps.peak_force": 380.0, "actuator.biceps.optimal_length": 0.21, "path.extensor.stiffness": 120.0})
    t = np.arange(0.0, 2.0, 0.01)
    activation = cb.Signal(t, 0.25 + 0.2 * np.sin(5.0 * t), "linear")
    motion = cb.simulate(true, duration=1.98, h=0.002, initial={"joint.elbow.angle": 0.8}, drive={"actuator.biceps": activation})
    random = np.random.default_rng(0)
    observed = [(c, 2e-4, motion[c][::5]) for c in ("joint.elbow.angle", "path.extensor.length")]
    run = cb.Recording(
        "swing",
        tuple(cb.Observation(c, motion.time[::5], x + sd * random.standard_normal(len(x)), sd) for c, sd, x in observed),
        (cb.Drive("actuator.biceps", activation),),
    )
    unknowns = ("actuator.biceps.peak_force", "actuator.biceps.optimal_length", "path.extensor.stiffness")
    result = cb.fit(model, run, dict.fromkeys(unknowns), h=0.005)
    assert result.converged and not result.unresolved
    for name, e in result.parameters.items():
        assert e.sd is not None and abs(e.value - true[name]) < 4.0 * e.sd + 2e-3 * abs(true[name]), name


def test_a_file_and_back(tmp_path: Path) -> None:
    """A model that is written as MJCF reads as the same numbers, and a file changes in nothing but them."""
    model = elbow()
    (tmp_path / "new").mkdir()
    again = cb.load(model.save(tmp_path / "new" / "elbow.xml"))
    assert again.paths == model.paths
    for name in ("peak_force", "optimal_length", "slack_length", "vmax", "fvmax", "gear"):
        assert again[f"actuator.biceps.{name}"] == pytest.approx(model[f"actuator.biceps.{name}"], rel=1e-12)
    changed = {"actuator.biceps.peak_force": 321.0, "actuator.biceps.optimal_length": 0.23, "path.extensor.stiffness": 77.0, "path.extensor.springref": 0.25}
    third = cb.load(again.replace(changed).save(tmp_path / "third.xml"))
    for name, value in changed.items():
        assert third[name] == pytest.approx(value, rel=1e-12)
    assert third["actuator.biceps.slack_length"] == pytest.approx(again["actuator.biceps.slack_length"], rel=1e-9)


def test_mistakes_are_sentences() -> None:
    site, body = cb.Site("s", "world"), cb.Body("b", mass=1.0, inertia=(1, 1, 1))
    box = cb.Geometry("box", "b", "box", (0.1, 0.1, 0.1))

    def model(*through: object, **more: object) -> cb.Model:
        return cb.Model("m", [body], [cb.Joint("j", "b")], sites=[site, cb.Site("t", "b", (1, 0, 0))], geometries=[box], paths=[cb.Path("p", through)], **more)  # type: ignore[arg-type]

    cases = [
        (lambda: cb.Path("p", ("s",)), "give at least two sites that follow one another"),
        (lambda: cb.Path("p", (cb.Wrap("g"), "s", "t")), "a shape stands between two sites"),
        (lambda: cb.Path("p", ("s", "t", cb.Wrap("g"))), "has nothing after the geometry"),
        (lambda: cb.Path("p", ("s", cb.Pulley(0.0), "t", "s")), "give a number above zero"),
        (lambda: cb.Path("p", ("s", 3.0)), "give names of sites"),  # type: ignore[arg-type]
        (lambda: model("s", "u"), 'runs through the site "u", which the model does not have'),
        (lambda: model("s", cb.Wrap("nothing"), "t"), 'runs around the geometry "nothing"'),
        (lambda: model("s", cb.Wrap("box"), "t"), "it can run around spheres and cylinders"),
        (lambda: model("s", "t", actuators=[cb.Actuator("a", path="q")]), 'actuator.a.path is "q"'),
        (lambda: cb.Actuator("a", "j", path="p"), "either a joint, a transmission or a path"),
        (lambda: cb.Muscle("a", path="p", fvmax=0.9), "it must be above 1"),
        (lambda: cb.Muscle("a", path="p", optimal_length=0.0), "it must be above zero"),
        (lambda: cb.simulate(model("s", "t"), 0.1, 0.01, stepper="spook"), "does not know paths yet"),
    ]
    for make, sentence in cases:
        with pytest.raises(cb.CalibodyError, match=re.escape(sentence)):
            make()
