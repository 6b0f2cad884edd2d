"""Observed orientations: angles in a plane that turn over, rotation vectors and quaternions in space."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calibody as cb
from calibody.estimate.nodes import Noise
from calibody.estimate.observed import predicted
from calibody.estimate.run import Run
from calibody.estimate.start import first_motion
from calibody.experiment import load
from calibody.experiment.check import check
from calibody.mechanics import assembly
from calibody.mechanics.kinematics import retract
from calibody.mechanics.structure import Numbers, Structure

DOWN = cb.World(gravity=(0.0, 0.0, -9.81))
TURN = 2.0 * np.pi


def double() -> cb.Model:
    """Two links about y; the second is mounted at a quarter turn and its hinge is turned round."""
    quarter = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)
    bodies = [
        cb.Body("one", mass=1.0, com=(0.0, 0.0, -0.2), inertia=(0.02, 0.02, 0.01)),
        cb.Body("two", "one", position=(0.0, 0.0, -0.4), orientation=quarter, mass=0.5, com=(0.15, 0.0, 0.0), inertia=(0.01, 0.01, 0.01)),
    ]
    joints = [cb.Joint("a", "one", axis=(0, 1, 0), damping=0.01), cb.Joint("b", "two", axis=(0, -1, 0), damping=0.01)]
    return cb.Model("double", bodies, joints, world=DOWN)


def ball() -> cb.Model:
    """A top on an arm: the ball's parent moves too."""
    bodies = [
        cb.Body("arm", mass=0.5, com=(0.1, 0.0, 0.0), inertia=(1e-3, 2e-3, 2e-3)),
        cb.Body("top", "arm", position=(0.3, 0.0, 0.0), orientation=(0.8, 0.0, 0.6, 0.0), mass=0.4, com=(0.0, 0.0, -0.1), inertia=(2e-3, 3e-3, 1e-3)),
    ]
    return cb.Model("top", bodies, [cb.Joint("mast", "arm", damping=0.01), cb.Joint("tip", "top", "ball", damping=1e-3)], world=DOWN)


def thrown() -> cb.Model:
    return cb.Model("thrown", [cb.Body("brick", mass=1.0, com=(0.02, 0.0, 0.01), inertia=(1e-3, 2e-3, 2.5e-3))], [cb.Joint("air", "brick", "free")], world=DOWN)


def flown() -> cb.Motion:
    return cb.simulate(thrown(), 1.0, 0.002, {"joint.air.rate": (0.3, 0.2, 4.0, 9.0, 0.5, 3.0)})


def whirled() -> cb.Motion:
    return cb.simulate(double(), 1.5, 0.001, {"joint.a.rate": 14.0, "joint.b.rate": -25.0})


def turned() -> cb.Motion:
    return cb.simulate(ball(), 3.0, 0.001, {"joint.mast.rate": 3.0, "joint.tip.rate": (1.0, 2.0, 9.0)})


def noise(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def vectors(motion: cb.Motion, *wholes: str, sd: float = 1e-3, step: int = 10) -> cb.Recording:
    """All components of every channel, as they are (jumping from pi to -pi)."""
    scalars = [(f"{w}.{c}", motion[w][::step, i]) for w in wholes for i, c in enumerate(("x", "y", "z", "rx", "ry", "rz")[: motion[w].shape[1]])]
    return cb.Recording("run", tuple(cb.Observation(path, motion.time[::step], values, sd) for path, values in scalars))


def quaternion_noise(q: np.ndarray, sd: float, seed: int) -> np.ndarray:
    """Quaternions (samples, 4) turned by random vectors in the sensor's axes, with signs as they come."""
    from calibody.spatial import algebra as al

    turned = np.stack(al.quaternion_product(tuple(q.T), al.quaternion_exp(tuple(sd * noise(seed, 3, len(q)))))).T
    return turned * np.random.default_rng(seed).choice([-1.0, 1.0], len(q))[:, None]


LEFT = {"angle": 1e-2, "position": 5e-2, "rate": 0.5}
"""What the first motion, a spline, may leave of each quantity."""
MOTIONS = {
    "a plane": (double, whirled, ("body.two.angle", "body.one.angle")),
    "a ball": (ball, turned, ("joint.tip.angle", "body.top.angle", "joint.tip.rate")),
    "a free body": (thrown, flown, ("joint.air.angle", "joint.air.position", "body.brick.position", "joint.air.rate")),
}


@pytest.mark.parametrize("coordinates", ["tree", "free"])
@pytest.mark.parametrize("case", MOTIONS)
def test_the_first_motion_and_the_derivatives(case: str, coordinates: str) -> None:
    """Samples between nodes of a motion that turns over: seen as they were measured, and moved by the nodes as the derivative says."""
    make, simulated, wholes = MOTIONS[case]
    model, motion = make(), simulated()
    recording = vectors(motion, *wholes)
    if case == "a plane":
        one = cb.Observation("body.one.angle.y", motion.time[::10], np.unwrap(motion["body.one.angle.y"])[::10] + 3 * TURN, 1e-3)
        recording = cb.Recording("run", (*(o for o in recording.observations if "two" in o.channel), one))
    structure = Structure.build(model, coordinates)
    numbers = Numbers.of(structure)
    run = Run.of(structure, recording, 0.013, Noise(dict.fromkeys(recording.channels, 1e-3), frozenset(), {}))
    _, states = first_motion(run, model, numbers, {})

    def samples(q: np.ndarray) -> list[np.ndarray]:
        turns = assembly.turns_along(structure, numbers, q) if coordinates == "free" else None
        frames = assembly.frames_at(structure, numbers, q, turns)
        found = [predicted(run, model, numbers, frames, states.multipliers, {}, d) for d in run.data]
        matrices.append([p.matrix(structure.nv) for p in found])
        return [p.value for p in found]

    matrices: list = []
    for d, value in zip(run.data, samples(states.q), strict=True):
        assert np.sqrt(np.mean((value - d.y) ** 2)) < LEFT[d.channel.quantity], d.channel.path
    direction = noise(1, structure.nv, run.K)
    ends = [samples(retract(structure, states.q, sign * 1e-6 * direction)) for sign in (1.0, -1.0)]
    for above, below, matrix, d in zip(*ends, matrices[0], run.data, strict=True):
        assert np.allclose((above - below) / 2e-6, matrix @ direction.T.ravel(), atol=2e-6), d.channel.path


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_absolute_angles_that_turn_over(coordinates: str) -> None:
    """Both encoders measure against the world, one wraps and is out by an unknown offset; the pendulum turns over several times."""
    motion = whirled()
    t, one, two = motion.time[::10], np.unwrap(motion["body.one.angle.y"][::10]), np.unwrap(motion["body.two.angle.y"][::10])
    assert np.ptp(one) > 2 * TURN or np.ptp(two) > 2 * TURN
    e = 1e-3 * noise(2, 2, len(t))
    log = {"t": t, "one": np.rad2deg((one + 0.3 + e[0]) % TURN), "two": two + e[1] - 5 * TURN}
    observe = {"body.one.angle.y": {"column": "one", "unit": "deg", "sd": np.rad2deg(1e-3)}, "body.two.angle.y": {"column": "two", "sd": 1e-3}}
    run = cb.read(log, observe=observe)
    unknown = {"body.two.inertia.yy": 0.02, "joint.a.damping": 0.02, "joint.b.position.z": cb.Unknown(-0.36), "body.one.angle.y.bias": None}
    result = cb.fit(double(), run, unknown, coordinates=coordinates)
    truth = {"body.two.inertia.yy": 0.01, "joint.a.damping": 0.01, "joint.b.position.z": -0.4, "body.one.angle.y.bias": 0.3}
    assert result.converged, result.status
    for path, true in truth.items():
        p = result.parameters[path]
        true = true - TURN if path.endswith("bias") and p.value < -3 else true
        assert p.sd is not None and abs(p.value - true) < 3.5 * p.sd, (path, p)
    assert all(c.rms_over_sd < 1.2 for c in result.fit)
    prediction = result.predict(run, 1.0)
    assert prediction.rms["body.one.angle.y"] < 0.05 and prediction.rms["body.two.angle.y"] < 0.1


def test_an_absolute_angle_of_a_compliant_mechanism() -> None:
    model = double().replace({"joint.b.compliance": 1e-6, "joint.b.relaxation": 0.02})
    motion = cb.simulate(model, 0.6, 0.002, {"joint.a.angle": 1.0})
    angles = [cb.Observation(f"body.{b}.angle.y", motion.time[::5], motion[f"body.{b}.angle.y"][::5], 1e-3) for b in ("one", "two")]
    result = cb.fit(model, cb.Recording("run", tuple(angles)), {"body.two.inertia.yy": 0.012}, h=0.01)
    assert result.converged and result.parameters["body.two.inertia.yy"].value == pytest.approx(0.01, rel=0.02)


def test_a_hinge_that_starts_beyond_half_a_turn_in_free_coordinates() -> None:
    """Poses know an angle up to whole turns: it is the recording that counts them."""
    model = cb.Model(
        "pendulum", [cb.Body("rod", mass=1.0, com=(0.0, 0.0, 0.2), inertia=(0.02, 0.02, 0.01))], [cb.Joint("a", "rod", axis=(0, 1, 0))], world=DOWN
    )
    motion = cb.simulate(model, 2.0, 0.002, {"joint.a.angle": 4.5})
    run = cb.Recording("run", (cb.Observation("joint.a.angle", motion.time[::5], motion["joint.a.angle"][::5] + TURN, 1e-3),))
    result = cb.fit(model, run, {"body.rod.inertia.yy": 0.03}, coordinates="free", h=0.01)
    assert result.converged and result.parameters["body.rod.inertia.yy"].value == pytest.approx(0.02, rel=0.01)
    assert result.predict(run)["joint.a.angle"].rms < 0.01


@pytest.mark.parametrize("coordinates", ["tree", pytest.param("free", marks=pytest.mark.slow)])
def test_quaternions_of_a_ball(coordinates: str) -> None:
    """A tracker that sits askew on the top and one that knows the joint; quaternions of either sign, some lost."""
    from calibody.spatial import algebra as al

    motion, askew = turned(), (0.2, -0.1, 0.15)
    t = motion.time[::10]
    q = np.stack(al.quaternion_product(tuple(motion["body.top.orientation"][::10].T), al.quaternion_exp(askew))).T
    q = quaternion_noise(q, 2e-3, 3)
    q[40:60] = 0.0
    tip = quaternion_noise(motion["joint.tip.orientation"][::10], 2e-3, 4)
    log = {"t": t, "q": q, "tip": tip}
    columns = {w: [f"{w}[{i}]" for i in range(4)] for w in ("q", "tip")}
    log = {"t": t} | {name: log[w][:, i] for w, names in columns.items() for i, name in enumerate(names)}
    observe = {"body.top.orientation": {"columns": columns["q"], "sd": 2e-3}, "joint.tip.orientation": {"columns": columns["tip"], "sd": 2e-3}}
    run = cb.read(log, observe=observe)
    assert run.channels == tuple(f"{w}.angle.{c}" for w in ("body.top", "joint.tip") for c in "xyz")
    assert run["body.top.angle.x"].present.sum() == len(t) - 20
    unknown = {"body.top.inertia.xx": 3e-3, "joint.tip.damping": 2e-3, **{f"body.top.angle.{c}.bias": None for c in "xyz"}}
    result = cb.fit(ball(), run, unknown, coordinates=coordinates)
    truth = {"body.top.inertia.xx": 2e-3, "joint.tip.damping": 1e-3, **{f"body.top.angle.{c}.bias": b for c, b in zip("xyz", askew, strict=True)}}
    assert result.converged, result.status
    for path, true in truth.items():
        p = result.parameters[path]
        assert p.sd is not None and abs(p.value - true) < 3.5 * p.sd, (path, p)
    assert all(0.9 < c.rms_over_sd < 1.1 for c in result.fit)


def test_poses_of_a_thrown_brick(tmp_path: Path) -> None:
    """A tracked pose in millimetres, and what its run folder says."""
    motion = flown()
    t = motion.time[::5]
    position = motion["body.brick.position"][::5] + 1e-4 * noise(5, len(t), 3)
    q = quaternion_noise(motion["body.brick.orientation"][::5], 1e-3, 6)
    log = {"t": t} | {f"p{i}": 1e3 * position[:, i] for i in range(3)} | {f"q{i}": q[:, i] for i in range(4)}
    run = cb.read(log, observe={"body.brick.pose": {"columns": [k for k in log if k != "t"], "unit": "mm"}})
    assert run.channels == tuple(f"body.brick.{w}.{c}" for w in ("position", "angle") for c in "xyz")
    sd = {"position": 1e-4, "angle": 1e-3}
    run = replace(run, observations=tuple(replace(o, sd=sd[o.channel.split(".")[2]]) for o in run.observations))
    unknown = {"body.brick.com.x": 0.0, "body.brick.inertia.yy": 1.5e-3, "body.brick.com.z": 0.0}
    result = cb.fit(thrown(), run, unknown, h=0.005)
    assert result.converged, result.status
    for path, true in {"body.brick.com.x": 0.02, "body.brick.com.z": 0.01, "body.brick.inertia.yy": 2e-3}.items():
        p = result.parameters[path]
        assert p.sd is not None and abs(p.value - true) < 3.5 * p.sd, (path, p)
    result.report(tmp_path)
    saved = cb.open(tmp_path)
    assert {c.channel for c in saved.fit} == set(run.channels) and all(c.rms_over_sd < 1.2 for c in saved.fit)


def test_cross_validation_of_absolute_angles() -> None:
    motion = whirled()
    angle = cb.Observation("body.one.angle.y", motion.time[::10], np.unwrap(motion["body.one.angle.y"][::10]), 1e-3)
    tip = cb.Observation("body.two.angle.y", motion.time[::10], np.unwrap(motion["body.two.angle.y"][::10]), 1e-3)
    runs = [cb.Recording(name, (angle, tip), start=start, end=start + 0.7) for name, start in (("early", 0.0), ("late", 0.75))]
    found = cb.cross_validate(double(), runs, {"body.two.inertia.yy": 0.011}, window=0.3, h=0.005)
    assert found.score < 1.0 and all(rms < 0.1 for fold in found.folds for free in fold.prediction_rms.values() for rms in free.values())


def test_an_orientation_has_one_delay() -> None:
    """The arm is known at once, the top's tracker is late (and starts later, so that it never shows what was before the run)."""
    motion = turned()
    t = motion.time[100::10]
    arm = cb.Observation("joint.mast.angle", t, motion["joint.mast.angle"][100::10] + 1e-3 * noise(8, len(t)), 1e-3)
    q = quaternion_noise(motion["body.top.orientation"][75:-25:10], 1e-3, 7)
    columns = {f"q{i}": q[:, i] for i in range(4)}
    tracked = cb.read({"t": t[: len(q)], **columns}, observe={"body.top.orientation": {"columns": list(columns), "sd": 1e-3}})
    run = cb.Recording("late", (arm, *(o.between(0.15, 3.0) for o in tracked.observations)), end=float(t[len(q) - 1]))
    result = cb.fit(ball(), run, {"body.top.angle.delay": None, "body.top.inertia.xx": 2.2e-3})
    p = result.parameters["body.top.angle.delay"]
    assert result.converged and p.sd is not None and abs(p.value - 0.025) < 3.5 * p.sd


def test_a_gyroscope() -> None:
    """Rates of a ball with an unknown bias, and roughly where the top points."""
    motion = turned()
    t, rates = motion.time[::10], motion["joint.tip.rate"][::10] + 0.05 + 0.01 * noise(9, 301, 3)
    gyroscope = [cb.Observation(f"joint.tip.rate.{c}", t, rates[:, i], 0.01) for i, c in enumerate("xyz")]
    seen = vectors(motion, "body.top.angle", sd=0.02, step=20).observations
    mast = cb.Observation("joint.mast.angle", t, motion["joint.mast.angle"][::10] + 1e-3 * noise(10, 301), 1e-3)
    unknown = {"body.top.inertia.xx": 2.5e-3, "joint.tip.damping": 2e-3, **{f"joint.tip.rate.{c}.bias": None for c in "xyz"}}
    result = cb.fit(ball(), cb.Recording("run", (*gyroscope, *seen, mast)), unknown)
    assert result.converged, result.status
    for path, true in {"body.top.inertia.xx": 2e-3, "joint.tip.damping": 1e-3, **{f"joint.tip.rate.{c}.bias": 0.05 for c in "xyz"}}.items():
        p = result.parameters[path]
        assert p.sd is not None and abs(p.value - true) < 3.5 * p.sd, (path, p)


@pytest.mark.parametrize(("rates", "off"), [(False, 1e-6), (True, 0.02)])
def test_the_shadow_method_sees_orientations(rates: bool, off: float) -> None:
    """Exactly; its rates are those of the engine's steps, which a moving parent turns by half a step against the axes of the nodes."""
    model = ball()
    motion = cb.simulate(model, 1.0, 0.004, {"joint.mast.rate": 1.0, "joint.tip.rate": (1.0, 2.0, 4.0)}, stepper="spook")
    run = vectors(motion, "body.top.angle", step=1)
    arm = cb.Observation("body.arm.angle.z", motion.time, motion["body.arm.angle.z"], 1e-3)
    gyroscope = [cb.Observation(f"joint.tip.rate.{c}", motion.time[1:], motion["joint.tip.rate"][1:, i], 1e-2) for i, c in enumerate("xyz")]
    run = cb.Recording("run", (*run.observations, arm, *(gyroscope if rates else ())))
    result = cb.fit(model, run, {"body.top.inertia.xx": 2.2e-3}, method="shadow", h=0.004, formulation="lifted")
    assert result.converged, result.status
    assert result.parameters["body.top.inertia.xx"].value == pytest.approx(2e-3, rel=off)


# -- sentences -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "channels", "words"),
    [
        (ball(), ["body.top.angle.x"], "does not turn about x of the world only; observe all three"),
        (double(), ["body.two.angle.z"], "does not turn about z of the world only"),
        (ball(), ["body.top.angle.x", "body.top.angle.y"], "without y and z"),
        (ball(), ["joint.tip.angle.z"], "mean little one by one"),
        (ball(), ["joint.tip.orientation.w"], 'give all of w, x, y, z as columns of "joint.tip.orientation"'),
        (ball(), ["body.top.pose.qx"], "as columns"),
    ],
)
def test_components_that_say_nothing_alone(model: cb.Model, channels: list[str], words: str) -> None:
    t = np.linspace(0.0, 1.0, 50)
    run = cb.Recording("run", tuple(cb.Observation(c, t, np.sin(t), 1e-3) for c in channels))
    with pytest.raises(cb.CalibodyError, match=words.replace(".", "[.]")):
        cb.fit(model, run, {"body.top.mass" if "top" in model.tables["body"] else "body.two.mass": None})


@pytest.mark.parametrize(
    ("unknown", "words"),
    [
        ("body.top.angle.x.gain", 'has "body.top.angle.x.bias"'),
        ("body.top.angle.y.delay", 'its delay is "body.top.angle.delay"'),
        ("body.top.angle.bias", "several numbers at once"),
        ("body.top.position.gain", 'for instance "body.top.position.x.gain"'),
    ],
)
def test_what_an_orientation_does_not_have(unknown: str, words: str) -> None:
    with pytest.raises(cb.CalibodyError, match=words.replace(".", "[.]")):
        cb.fit(ball(), vectors(turned(), "body.top.angle"), {unknown: None})


@pytest.mark.parametrize(
    ("channel", "options", "words"),
    [
        ("body.b.orientation", {"columns": ["a", "b", "c"]}, "was given 3 columns; give 4"),
        ("body.b.orientation", {"columns": ["a", "a", "a", "t"]}, "quaternions of length"),
        ("body.b.pose", {"columns": ["a"] * 7, "sd": 0.1}, "one sd for metres and radians"),
        ("body.b.angle", {"columns": ["a"] * 3, "unwrap": True}, "leave unwrap out"),
    ],
)
def test_columns_that_are_no_orientation(channel: str, options: dict, words: str) -> None:
    log = {"t": np.arange(9.0), "a": 4 * np.ones(9), "b": np.ones(9), "c": np.ones(9)}
    with pytest.raises(cb.CalibodyError, match=words):
        cb.read(log, observe={channel: options})


def test_components_with_different_clocks() -> None:
    run = vectors(turned(), "body.top.angle")
    x, *rest = run.observations
    odd = cb.Observation(x.channel, x.times + 1e-3, x.values, 1e-3)
    with pytest.raises(cb.CalibodyError, match="different clocks"):
        cb.fit(ball(), cb.Recording("run", (odd, *rest)), {"body.top.mass": None})


def test_check_says_so(tmp_path: Path) -> None:
    ball_model = ball()
    ball_model.save(tmp_path / "top.xml")
    pl.DataFrame({"t": np.arange(50) / 50, "x": np.sin(np.arange(50.0))}).write_csv(tmp_path / "log.csv")
    (tmp_path / "e.toml").write_text(
        '[model]\nfile = "top.xml"\n[[run]]\ndata = "log.csv"\nobserve = { "body.top.angle.x" = "x" }\n[[estimate]]\nparameter = "body.top.mass"\n'
    )
    found = check(load(tmp_path / "e.toml"))
    assert not found.ok and any("observe all three components" in f.sentence for f in found.findings)
