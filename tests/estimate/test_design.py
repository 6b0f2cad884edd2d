"""What to record next: error bars that are foreseen against differences of simulations and against fits, limits on finer meshes, and what cannot be asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calibody as cb
import calibody.report.design as page
from calibody.estimate.designs.design import less_known
from calibody.estimate.designs.excitation import Followed
from calibody.estimate.designs.waves import BASES
from calibody.estimate.designs.within import Within, limits_of, shapeless, with_pairs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TIMES = np.arange(0.0, 4.0 + 1e-9, 0.02)


def pendulum() -> cb.Model:
    arm = cb.Body("arm", mass=1.2, com=(0, 0, -0.25), inertia=(0.03, 0.03, 0.03))
    return cb.Model("pendulum", [arm], [cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.05)], actuators=[cb.Actuator("motor", "hinge")])


def two_links() -> cb.Model:
    upper = cb.Body("upper", mass=1.5, com=(0, 0, -0.2), inertia=(0.02, 0.02, 0.004))
    lower = cb.Body("lower", "upper", position=(0, 0, -0.4), mass=0.8, com=(0.02, 0, -0.15), inertia=(0.008, 0.008, 0.001))
    joints = [cb.Joint("shoulder", "upper", axis=(0, 1, 0), damping=0.2, friction=0.1), cb.Joint("elbow", "lower", axis=(0, 1, 0), damping=0.1, friction=0.05)]
    return cb.Model("arm", [upper, lower], joints, actuators=[cb.Actuator("m1", "shoulder"), cb.Actuator("m2", "elbow")])


UNKNOWNS = {
    f"{path}": cb.Unknown()
    for path in ("body.upper.inertia.yy", "body.lower.mass", "body.lower.inertia.yy", "joint.shoulder.damping", "joint.shoulder.friction", "joint.elbow.damping", "joint.elbow.friction")
}  # fmt: skip
ANGLES = ["joint.shoulder.angle", "joint.elbow.angle"]
LIMITS = {
    "joint.shoulder.angle": 1.2,
    "joint.elbow.angle": (-0.2, 2.0),
    "joint.shoulder.rate": 4.0,
    "joint.elbow.rate": 6.0,
    "joint.shoulder.force": 15.0,
    "joint.elbow.force": 4.0,
}


@pytest.mark.parametrize("basis", list(BASES))
@pytest.mark.parametrize("calm", [1, 3])
def test_functions_of_time_begin_and_end_at_rest(basis: str, calm: int) -> None:
    waves = BASES[basis](4.0, 5, 2.0, calm)
    t, step = np.linspace(0.0, 4.0, 4001), 1e-3
    B = waves.at(t)
    assert waves.size >= 5 and np.linalg.matrix_rank(B) == waves.size
    assert np.allclose(np.sqrt((B**2).mean(axis=0)), 1.0, atol=0.01)
    for end in (B[:5], B[::-1][:5]):
        assert np.abs(end[0]).max() < 1e-9
        if calm == 3:
            assert np.abs(end[1]).max() < 20.0 * step**3 * (2.0 * np.pi * 2.0) ** 3  # value, rate and acceleration vanish: what is left is of third order
    assert np.abs(waves.at(np.array([-1.0, 5.0]))).max() < 1e-9


def test_the_information_is_that_of_differences_of_simulations() -> None:
    """The start is unknown in a fit: the information about the rest is what is left once it is projected out."""
    model, u = pendulum(), 0.8 * np.sin(3.0 * TIMES)
    paths = ["body.arm.mass", "body.arm.inertia.yy", "joint.hinge.damping"]
    found = cb.forecast(model, dict.fromkeys(paths), ["joint.hinge.angle"], 0.003, 4.0, {"actuator.motor": (TIMES, u)}, rate=50.0)

    def angle(change: np.ndarray) -> np.ndarray:
        other = model.replace({p: model[p] * (1.0 + c) for p, c in zip(paths, change[:3], strict=True)})
        start = {"joint.hinge.angle": change[3], "joint.hinge.rate": change[4]}
        return cb.simulate(other, 4.0, 0.02, start, {"actuator.motor": (TIMES, u)})["joint.hinge.angle"] / 0.003

    J = np.stack([(angle(1e-4 * e) - angle(-1e-4 * e)) / 2e-4 for e in np.eye(5)], axis=1)
    covariance = np.linalg.inv(J.T @ J)[:3, :3]
    expected = np.sqrt(np.diag(covariance)) * [model[p] for p in paths]
    assert np.allclose([found.parameters[p].sd for p in paths], expected, rtol=0.01)
    assert found.worst == pytest.approx(np.sqrt(np.linalg.eigvalsh(covariance).max()), rel=0.01)


def test_forces_along_a_way_are_those_of_inverse_dynamics() -> None:
    model = replace(two_links(), actuators=())
    ways: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "joint.elbow.angle": lambda t: 0.7 + 0.5 * np.sin(4.0 * t),
        "joint.shoulder.angle": lambda t: 0.6 * np.cos(3.0 * t),
    }
    motion = Followed(ways).motion(model, 2.0, 0.001)
    for k in (300, 1000, 1700):
        t = motion.time[k]
        q, v, a = ([0.6 * np.cos(3 * t), 0.7 + 0.5 * np.sin(4 * t)], [-1.8 * np.sin(3 * t), 2 * np.cos(4 * t)], [-5.4 * np.cos(3 * t), -8 * np.sin(4 * t)])
        expected = cb.inverse_dynamics(model, q, v, a)
        assert np.allclose([motion[f"joint.{j}.force"][k] for j in ("shoulder", "elbow")], expected, atol=2e-4)


def _simulated(model: cb.Model, drive: dict[str, np.ndarray], times: np.ndarray, sd: float, seed: int) -> cb.Recording:
    motion = cb.simulate(model, float(times[-1]), 0.002, {}, {c: (times, u) for c, u in drive.items()})
    noise = np.random.default_rng(seed)
    every = round((times[1] - times[0]) / 0.002)
    observed = tuple(cb.Observation(c, times, motion[c][::every] + sd * noise.standard_normal(len(times)), sd) for c in ANGLES)
    return cb.Recording("planned", observed, tuple(cb.Drive(c, cb.Signal(times, u)) for c, u in drive.items()))


@pytest.fixture(scope="module")
def played() -> cb.Design:
    limits = {**LIMITS, "actuator.m1": 12.0, "actuator.m2": 3.0}
    return cb.design(
        two_links(),
        UNKNOWNS,
        ANGLES,
        0.003,
        4.0,
        limits,
        rate=50.0,
        starts=6,
        improved=1,
        rounds=6,
        functions=5,
        sensors={"joint.shoulder.rate": 0.01, "joint.shoulder.force": 0.05},
    )


def test_played_drives_keep_their_limits_on_a_finer_mesh(played: cb.Design) -> None:
    motion = cb.simulate(two_links(), 4.0, 0.001, {}, {c: (played.times, u) for c, u in played.excited.items()})
    for channel, limit in LIMITS.items():
        lower, upper = limit if isinstance(limit, tuple) else (-limit, limit)
        assert lower <= motion[channel].min() and motion[channel].max() <= upper, channel
    assert np.abs(played.excited["actuator.m1"]).max() <= 12.0 and played.excited["actuator.m1"][0] == pytest.approx(0.0, abs=1e-9)


def test_a_fit_of_the_designed_experiment_has_the_error_bars_that_were_foreseen(played: cb.Design) -> None:
    run = _simulated(two_links(), dict(played.excited), played.times, 0.003, 0)
    result = cb.fit(two_links(), run, UNKNOWNS)
    assert result.converged
    for path, e in result.parameters.items():
        foreseen, found = played.forecast.parameters[path].sd, e.sd
        assert foreseen is not None and found is not None and 0.8 < foreseen / found < 1.25, path
        assert abs(e.value - two_links()[path]) < 4.0 * found


def test_a_design_tells_more_than_a_chirp_and_sensors_tell_more_still(played: cb.Design) -> None:
    chirp = np.sin(2.0 * np.pi * (0.1 * TIMES + (5.0 - 0.1) / 8.0 * TIMES**2))
    size = {c: np.sqrt(2.0 * np.mean(u**2)) for c, u in played.excited.items()}
    beside = cb.forecast(two_links(), UNKNOWNS, ANGLES, 0.003, 4.0, {c: (TIMES, a * chirp) for c, a in size.items()}, rate=50.0)
    assert played.forecast.worst < beside.worst / 2.0
    assert played.sensors["joint.shoulder.rate"].worst < played.forecast.worst
    assert str(played).count("with joint.") == 2 and "played" in played.notes[-1]


def test_the_same_seed_gives_the_same_file(played: cb.Design, tmp_path: Path) -> None:
    again = cb.design(
        two_links(), UNKNOWNS, ANGLES, 0.003, 4.0, {**LIMITS, "actuator.m1": 12.0, "actuator.m2": 3.0}, rate=50.0, starts=6, improved=1, rounds=6, functions=5
    )
    assert again.save(tmp_path / "a.csv").read_bytes() == played.save(tmp_path / "b.csv").read_bytes()


def test_joints_that_follow_a_way_stay_clear_of_a_box() -> None:
    """A box beside the arm and torques with noise: angles, rates, forces and the distance to the box on a mesh that is finer and not a multiple."""
    ball = cb.Geometry("hand", "lower", "sphere", (0.05,), (0, 0, -0.3))
    box = cb.Geometry("box", "world", "box", (0.1, 0.3, 0.3), (0.45, 0, -0.5))
    model = replace(two_links(), geometries=(ball, box))
    channels, sd = (
        [*ANGLES, "joint.shoulder.force", "joint.elbow.force"],
        {**dict.fromkeys(ANGLES, 1e-3), "joint.shoulder.force": 0.1, "joint.elbow.force": 0.05},
    )
    how = {"excite": ANGLES, "rate": 100.0, "starts": 6, "improved": 1, "rounds": 5, "functions": 5}
    free = cb.design(model, UNKNOWNS, channels, sd, 4.0, LIMITS, **how)
    found = cb.design(model, UNKNOWNS, channels, sd, 4.0, LIMITS, clearance=0.03, **how)
    ways = {c: (lambda t, c=c: np.interp(t, found.times, found.excited[c])) for c in ANGLES}
    fine = Followed(ways).motion(replace(with_pairs(model), actuators=()), 4.0, 4.0 / 3001)
    assert fine["contact.hand and box.gap"].min() >= 0.029
    for channel in ANGLES:
        low, high = found.limits[channel][:2]
        assert low <= found.excited[channel].min() and found.excited[channel].max() <= high
    assert free.forecast.worst <= 1.3 * found.forecast.worst
    table = found.table()
    assert np.allclose(np.gradient(table["joint.elbow.angle"], found.times)[1:-1], table["joint.elbow.rate"][1:-1], atol=0.05)
    assert np.abs(table["joint.shoulder.force"]).max() <= 15.0


def test_a_design_begins_at_a_fit_and_adds_to_it(played: cb.Design) -> None:
    run = _simulated(two_links(), {"actuator.m1": 3.0 * np.sin(TIMES), "actuator.m2": 0.5 * np.sin(2.0 * TIMES)}, TIMES, 0.003, 1)
    present = cb.fit(two_links(), run, UNKNOWNS)
    limits = {**LIMITS, "actuator.m1": 12.0, "actuator.m2": 3.0}
    found = cb.design(two_links(), UNKNOWNS, ANGLES, 0.003, 4.0, limits, present=present, beside=run, rate=50.0, starts=3, improved=1, rounds=1, functions=4)
    assert found.before is not None and found.forecast.worst < found.before.worst
    for path, e in found.forecast.parameters.items():
        assert e.value == pytest.approx(present.parameters[path].value)
        before, recorded = found.before.parameters[path].sd, found.recorded[path]
        assert before == pytest.approx(present.parameters[path].sd, rel=0.02)
        assert e.sd is not None and before is not None and e.sd < before
        assert recorded is not None and 0.5 < recorded / before < 2.0
    assert less_known(found.forecast, found.recorded) == []
    assert (
        "5 of 7 parameters would be known less well"
        in less_known(found.forecast, {p: (0.5 if k < 5 else 2.0) * (e.sd or 0.0) for k, (p, e) in enumerate(found.forecast.parameters.items())})[0]
    )
    with pytest.raises(cb.CalibodyError, match="other unknowns"):
        cb.design(two_links(), {"body.lower.mass": None}, ANGLES, 0.003, 4.0, limits, present=present)


def test_a_design_begins_at_moments_that_no_body_has(tmp_path: Path) -> None:
    """The file's two others are too small, so that the estimate of one alone exceeds their sum: the fit says so, and the next experiment is designed all the same."""
    made = pendulum().replace({"body.arm.inertia.yy": 0.07}, check=False)
    u = 1.2 * np.sin(3.0 * TIMES)
    motion = cb.simulate(made, 4.0, 0.02, {}, {"actuator.motor": (TIMES, u)})
    y = motion["joint.hinge.angle"] + 0.002 * np.random.default_rng(0).standard_normal(len(motion.time))
    run = cb.Recording("run", (cb.Observation("joint.hinge.angle", motion.time, y, 0.002),), (cb.Drive("actuator.motor", cb.Signal(TIMES, u)),))
    unknowns = dict.fromkeys(["body.arm.inertia.yy", "joint.hinge.damping"])
    present = cb.fit(pendulum(), run, unknowns, h=0.02)
    assert present.converged and any("not physically possible" in note for note in present.notes)
    how = {"present": present, "rate": 50.0, "starts": 1, "improved": 1, "rounds": 0, "functions": 3}
    found = cb.design(pendulum(), unknowns, ["joint.hinge.angle"], 0.002, 2.0, {"actuator.motor": 1.0, "joint.hinge.angle": 1.2}, **how)
    e = found.forecast.parameters["body.arm.inertia.yy"]
    assert e.value == pytest.approx(0.07, abs=0.002) and found.before is not None and found.forecast.worst < found.before.worst
    assert found.lacking == ()
    for one, words in ((found, 'headline good">Drives are played'), (replace(found, lacking=("something",)), "would be known to")):
        page.write(one, tmp_path)
        assert words in (tmp_path / "design.html").read_text()


def test_joints_stay_within_the_stops_of_the_model_where_nothing_else_is_asked_for() -> None:
    """Rigid ones: those that give way are forces. Bodies that a clearance cannot know are named."""
    stops = (
        cb.Limit("a", "elbow", position=-0.3, side="lower"),
        cb.Limit("b", "elbow", position=1.8),
        cb.Limit("c", "shoulder", position=0.9),
        cb.Limit("soft", "shoulder", position=-0.5, side="lower", law="compliant", stiffness=100.0),
    )
    model = replace(two_links(), limits=stops)
    found = {limit.channel: (limit.lower, limit.upper) for limit in limits_of(model, {"joint.elbow.rate": 2.0}, {}) if isinstance(limit, Within)}
    assert found == {"joint.elbow.rate": (-2.0, 2.0), "joint.shoulder.angle": (-np.inf, 0.9), "joint.elbow.angle": (-0.3, 1.8)}
    asked = [limit.channel for limit in limits_of(model, {"joint.elbow.angle": 1.0, "joint.shoulder.angle": 1.0}, {})]
    assert asked == ["joint.elbow.angle", "joint.shoulder.angle"]
    assert shapeless(replace(model, geometries=(cb.Geometry("hand", "lower", "sphere", (0.05,)),))) == ["upper"]


@pytest.mark.parametrize("kind", ["box", "cylinder", "ellipsoid"])
@pytest.mark.parametrize("size", [(0.3, 0.1, 0.2), (0.1, 0.4, 0.2), (0.05, 0.1, 0.3)])
def test_a_shape_lies_in_the_capsule_that_holds_it(kind: str, size: tuple[float, float, float]) -> None:
    """Points of the shape's surface, turned and moved as it is, are within the capsule's radius of its middle line."""
    placed = {"position": (0.1, -0.2, 0.3), "orientation": (0.8, 0.2, -0.4, 0.4)}
    a, b = (cb.Geometry(name, name, kind, size, **placed) for name in ("one", "two"))  # type: ignore[arg-type]
    bodies = [cb.Body("one", mass=1.0), cb.Body("rod", "one", mass=1.0), cb.Body("two", "rod", mass=1.0)]
    model = cb.Model("m", bodies, [cb.Joint(f"j{n}", n, axis=(0, 0, 1)) for n in ("one", "rod", "two")], geometries=[a, b])
    made = with_pairs(model)
    assert [c.name for c in made.contacts] == ["one and two"]
    capsule = made.geometries[0]
    x = np.random.default_rng(0).uniform(-1.0, 1.0, (4000, 3))
    if kind == "box":
        x = np.sign(x) * np.array(size)
    elif kind == "ellipsoid":
        x = x / np.linalg.norm(x, axis=1, keepdims=True) * np.array(size)
    else:
        turn = np.pi * x[:, 0]
        x = np.stack([size[0] * np.cos(turn), size[0] * np.sin(turn), size[1] * np.sign(x[:, 1])], axis=1)
    shape_axes, axes = (_axes(q) for q in (placed["orientation"], capsule.orientation))
    away = (x @ shape_axes.T) @ axes  # about the common middle, along the capsule's axes
    beyond = np.maximum(np.abs(away[:, 2]) - capsule.size[1], 0.0)
    assert capsule.kind == "capsule" and np.all(np.sqrt(away[:, 0] ** 2 + away[:, 1] ** 2 + beyond**2) <= capsule.size[0] + 1e-9)


def _axes(quaternion: tuple[float, ...]) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(np.array(quaternion)[[1, 2, 3, 0]]).as_matrix()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"limits": {"actuator.m1": 1.0}}, '"actuator.m2" is excited and has no limits'),
        ({"limits": {"actuator.m1": (-1.0, 2.0), "actuator.m2": 1.0}}, "begins and ends at zero"),
        ({"limits": {"actuator.m1": 1.0, "actuator.m2": "much"}}, "give a number above zero for both sides"),
        ({"limits": {"joint.shoulder.reaction.force": 1.0}}, "several numbers at once"),
        ({"sd": {}}, "give a standard deviation above zero"),
        ({"channels": ["actuator.m1.force"], "sd": 0.1}, "angle, position or rate"),
        ({"channels": [], "sd": 0.1}, "Nothing is measured"),
        ({"excite": ["joint.shoulder.angle"]}, '"joint.elbow.angle" has no way'),
        ({"excite": ["joint.shoulder.angle", "actuator.m2"]}, "either drives or the joints' ways"),
        ({"unknowns": {"actuator.m1.gain": None}, "excite": ANGLES}, "their forces are what is known"),
        ({"excite": ANGLES, "limits": {}}, "load the model with contacts=True"),
        ({"clearance": 0.1}, "no two shapes that could meet"),
        ({"criterion": "best"}, "criterion = "),
        ({"duration": -1.0}, "duration = "),
        ({"limits": {"actuator.m1": 1.0, "actuator.m2": 1.0, "joint.elbow.angle": (0.5, 1.0)}, "starts": 1, "rounds": 0}, "however small"),
    ],
)
def test_what_cannot_be_asked_for_is_a_sentence(change: dict[str, object], sentence: str) -> None:
    given: dict[str, object] = {
        "unknowns": UNKNOWNS,
        "channels": ANGLES,
        "sd": 0.003,
        "duration": 2.0,
        "limits": {"actuator.m1": 1.0, "actuator.m2": 1.0},
        **change,
    }
    with pytest.raises(cb.CalibodyError, match=sentence) as told:
        cb.design(two_links(), **given)  # type: ignore[arg-type]
    assert "\n" not in str(told.value)


def _foreseen(result: cb.Result, unknowns: dict[str, cb.Unknown]) -> cb.Forecast:
    """From the drives of a recording and the start of its motion alone, at the estimate."""
    run, motion = result.recordings[0], result.motion()
    sd = {o.channel: float(o.noise[0] or 0.0) for o in run.observations}
    drive = {d.channel: cb.Signal(d.signal.times - run.start, d.signal.values, d.signal.hold) for d in run.drives}
    initial = {f"joint.{j.name}.{word}": float(motion[f"joint.{j.name}.{word}"][0]) for j in result.model.joints for word in ("angle", "rate")}
    values = {path: replace(unknowns[path], initial=e.value) for path, e in result.parameters.items()}
    return cb.forecast(result.model, values, list(sd), sd, run.duration, drive, initial=initial, rate=1.0 / run.period)


def _within_a_fifth(result: cb.Result, unknowns: dict[str, cb.Unknown]) -> int:
    """How many error bars, and that each was foreseen to 20 %."""
    found, count = _foreseen(result, unknowns), 0
    for path, e in result.parameters.items():
        foreseen = found.parameters[path].sd
        assert (e.sd is None) == (foreseen is None), path
        if e.sd is not None and foreseen is not None:
            assert 0.8 < foreseen / e.sd < 1.2, path
            count += 1
    for d in result.determined:
        assert 0.8 < found.sd(dict(d.terms)) / d.sd < 1.2, d.expression
        count += 1
    return count


def test_the_error_bars_of_the_furuta_pendulum_are_foreseen(tmp_path: Path) -> None:
    from calibody.demos import write
    from calibody.experiment import load

    experiment = load(write("furuta", tmp_path))
    result = cb.fit(experiment.model(), experiment.runs(), experiment.estimate())
    assert _within_a_fifth(result, experiment.estimate()) == 10


def test_the_error_bars_of_the_race_are_foreseen(shared: Path) -> None:
    from race_problems import problem

    model, run, truth = problem(shared, "gentle_double")
    unknowns = {path: cb.Unknown(1.5 * x) for path, x in truth.items()}
    assert _within_a_fifth(cb.fit(model, run, unknowns), unknowns) == 8


@pytest.mark.slow
def test_the_error_bars_of_a_seven_joint_arm_are_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frictions, single numbers and base combinations, 76 bars, of a fit whose mesh is refined until it moves nothing."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = importlib.import_module("design").of_the_arm()
    if found is None:
        pytest.skip("pybullet's data are not installed")
    assert len(found) > 60 and 0.8 < found.min() and found.max() < 1.2


@pytest.mark.slow
def test_played_drives_tell_three_times_as_much_as_a_chirp_to_5_hz(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the defaults: of the same root mean square of both drives and within the same limits, which hold on a mesh of 1 ms."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    benchmark = importlib.import_module("design")
    model, unknowns, sd, limits = benchmark.two_joints("played")
    excited, angles = benchmark.EXCITED, benchmark.ANGLES
    ways, motion = benchmark.largest_chirp(model, 5.0, 8.0, limits, excited, 100.0)
    rms = {path: float(np.sqrt(np.mean(motion[path] ** 2))) for path in excited}
    chirp = cb.forecast(model, unknowns, angles, sd, 8.0, ways, rate=100.0)
    found = cb.design(model, unknowns, angles, sd, 8.0, limits, excite=excited, rms=rms, rate=100.0)
    assert found.forecast.worst < chirp.worst / 3.0
    fine = benchmark.played_again(found, model, 8.0, 100.0)
    assert all(limit.beyond(fine).max() <= 0.0 for limit in limits_of(model, limits, {}))
    assert all(np.sqrt(np.mean(fine[path] ** 2)) <= 1.001 * most for path, most in rms.items())


@pytest.mark.parametrize(("basis", "criterion"), [("splines", "worst"), ("fourier", "determinant")])
def test_other_functions_and_criteria_lower_what_they_are_to_lower(basis: str, criterion: str) -> None:
    how = {"basis": basis, "criterion": criterion, "rate": 50.0, "starts": 3, "improved": 1, "functions": 4, "rms": {"actuator.motor": 0.8}}
    given = (
        pendulum(),
        dict.fromkeys(["body.arm.mass", "joint.hinge.damping"]),
        ["joint.hinge.angle"],
        0.003,
        3.0,
        {"actuator.motor": 2.0, "joint.hinge.angle": 1.0},
    )
    first, last = (cb.design(*given, rounds=rounds, **how) for rounds in (0, 20))  # type: ignore[arg-type]
    word = "worst" if criterion == "worst" else "volume"
    assert getattr(last.forecast, word) < getattr(first.forecast, word)
    for found in (first, last):
        assert np.sqrt(np.mean(found.excited["actuator.motor"] ** 2)) <= 0.801 and np.abs(found.motion["joint.hinge.angle"]).max() <= 1.0
