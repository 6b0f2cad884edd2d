"""The marginal likelihood: its derivatives, its maximum from poor guesses, and where it starts from."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from race_problems import problem as race

import calibody as cb
from calibody.estimate.dry import rms_rates
from calibody.estimate.equation_error import EquationError, FirstMotion
from calibody.estimate.meshes import Meshes
from calibody.estimate.nodes import Noise
from calibody.estimate.noise.coupling import Shared, belief, belief_by
from calibody.estimate.noise.given import noises, process_noise
from calibody.estimate.noise.hyper import ChannelSize, ForceSize, Hyper, MemoryTime, SlowSize
from calibody.estimate.noise.likelihood import Likelihood, Spot
from calibody.estimate.noise.marginal import dependent
from calibody.estimate.noise.maximise import maximise
from calibody.estimate.problem import Problem
from calibody.estimate.reported import theta_of
from calibody.estimate.run import Run
from calibody.estimate.unknowns import entries
from calibody.mechanics.structure import Structure
from calibody.solve.condensed import Factor
from calibody.solve.selected import Selected


def pendulum(damping: float = 4e-4, friction: float = 0.0) -> cb.Model:
    return cb.Model(
        "pendulum",
        bodies=[cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))],
        joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=damping, friction=friction)],
        actuators=[cb.Actuator("motor", "hinge")],
        world=cb.World(gravity=(0, 0, -9.82)),
    )


def shaken(seed: int = 3, duration: float = 2.0, force: float = 0.02, noise: float = 2e-3, friction: float = 0.0, sd: float | None = None) -> cb.Recording:
    """A pendulum under a white force, every hundredth of a second; its noise is not stated unless `sd` is."""
    rng = np.random.default_rng(seed)
    times = np.arange(0.0, duration + 0.1, 0.01)
    shake = cb.Signal(times, force * rng.normal(size=len(times)))
    motion = cb.simulate(pendulum(friction=friction), duration, 0.005, {"joint.hinge.angle": 2.0}, {"joint.hinge.force": shake})
    y = motion["joint.hinge.angle"][::2] + noise * rng.normal(size=len(motion.time[::2]))
    return cb.Recording("shaken", (cb.Observation("joint.hinge.angle", motion.time[::2], y, sd),))


PENDULUM = {"body.arm.inertia.yy": 0.0044, "joint.hinge.damping": 6e-4, "body.arm.com.z": -0.105, "joint.hinge.friction": 0.004}
FRICTIONS = {name: value for name, value in PENDULUM.items() if not name.endswith("com.z")}
FORCE, ANGLE, MEMORY = ForceSize("hinge"), ChannelSize("joint.hinge.angle"), MemoryTime("hinge")
SLOW = SlowSize("hinge")


def begun(
    model: cb.Model, run: cb.Recording, unknowns: dict[str, float], h: float, coordinates: str, hypers: list[Hyper] | None = None, hold: float = 0.0
) -> tuple[Problem, list, np.ndarray]:
    """A problem with process noise of 0.03 on every joint and its first motion, with what the noise sizes are about."""
    memory = {h.name: 0.03 for h in hypers or [] if isinstance(h, MemoryTime)}
    coupled = {(h.name, h.beside): 0.4 * (-1.0) ** k for k, h in enumerate(hypers or []) if isinstance(h, Shared)}
    structure = Structure.build(model, coordinates)
    wanted = entries(model, {k: cb.Unknown(v) for k, v in unknowns.items()}, [run.name])
    found, given, _ = noises([run], process_noise(model, 0.03, run.period))
    worker = Meshes(structure, [run], wanted, found, given)
    theta = theta_of(wanted, {})
    problem, x = worker.begin(
        Problem.of([Run.of(structure, run, h, replace(found[0], slow=dict.fromkeys(memory, 5e-6), memory=memory, coupled=coupled), hold)], wanted),
        theta,
    )
    return problem.smoothed(0.1 * rms_rates(problem, x, theta)), x, theta


def four_bar() -> tuple[cb.Model, cb.Recording]:
    """A loop: the window of the four-bar, its first rod observed."""
    from problems import four_bar as window, four_bar_start, rates

    model = window()
    motion = cb.simulate(model, 1.0, 0.005, rates(four_bar_start()))
    y = motion["joint.ground0.angle"][::2] + 1e-3 * np.random.default_rng(1).normal(size=len(motion.time[::2]))
    return model, cb.Recording("window", (cb.Observation("joint.ground0.angle", motion.time[::2], y),))


def chain(links: int = 3, seed: int = 0, duration: float = 0.6) -> tuple[cb.Model, cb.Recording]:
    """Links under white forces that go together."""
    bodies = [cb.Body(f"b{k}", f"b{k - 1}" if k else "world", 0.4, (0, 0, -0.1), (0.004,) * 3, (0, 0, -0.2 if k else 0)) for k in range(links)]
    model = cb.Model("chain", bodies=bodies, joints=[cb.Joint(f"j{k}", f"b{k}", axis=(0, 1, 0), damping=0.01) for k in range(links)])
    rng, times = np.random.default_rng(seed), np.arange(0.0, duration + 0.1, 0.01)
    common, own = rng.normal(size=len(times)), rng.normal(size=(links, len(times)))
    pushed = {f"joint.j{k}.force": cb.Signal(times, 0.02 * (common + 0.5 * own[k])) for k in range(links)}
    motion = cb.simulate(model, duration, 0.005, {"joint.j0.angle": 1.0, "joint.j1.angle": 0.5}, pushed)
    channels = [f"joint.j{k}.angle" for k in range(links)]
    observed = tuple(cb.Observation(c, motion.time[::2], motion[c][::2] + 1e-3 * rng.normal(size=len(motion.time[::2]))) for c in channels)
    return model, cb.Recording("chain", observed)


JOINED = [ForceSize(f"j{k}") for k in range(3)] + [Shared(f"j{a}", beside=f"j{b}", unit=0.7) for a, b in ((0, 1), (0, 2), (1, 2))]
CASES = {
    "forces that go together": (chain, {"body.b1.mass": 0.45, "body.b2.inertia.yy": 0.005}, JOINED, "tree"),
    "the same in free ": (lambda: chain(2, duration=0.4), {"body.b1.mass": 0.45}, [JOINED[0], JOINED[1], JOINED[3]], "free"),
    "tree": (lambda: (pendulum(friction=0.003), shaken(friction=0.003)), PENDULUM, [FORCE, ANGLE], "tree"),
    "forces with a memory that last two steps": (lambda: (pendulum(friction=0.003), shaken(friction=0.003)), FRICTIONS, [FORCE, ANGLE, MEMORY, SLOW], "tree"),
    "the same in free": (lambda: (pendulum(), shaken(duration=0.6)), {"body.arm.mass": 0.4}, [FORCE, ANGLE, MEMORY, SLOW], "free"),
    "free": (lambda: (pendulum(friction=0.003), shaken(friction=0.003, duration=0.6)), PENDULUM, [FORCE, ANGLE], "free"),
    "loop": (four_bar, {"body.rod0.mass": 1.1, "body.coupler0.com.x": 0.45}, [ForceSize("ground0"), ChannelSize("joint.ground0.angle")], "tree"),
}


@pytest.mark.parametrize("case", CASES)
def test_gradient_and_hessian_of_the_likelihood(case: str) -> None:
    """The gradient against differences of L, by parameters and noise sizes; the rows of the noise sizes in the Hessian against differences of the cost's part of the gradient."""
    make, unknowns, hypers, coordinates = CASES[case]
    problem, x, theta = begun(*make(), unknowns, 0.01, coordinates, hypers, 0.02 if any(isinstance(h, MemoryTime) for h in hypers) else 0.0)
    function = Likelihood(problem, hypers)
    here = function.at(x, theta, function.sizes(problem) + np.array([0.2, -0.1, 0.1, 0.3, 0.2, -0.2])[: len(hypers)], most=60)
    assert np.isfinite(here.value)
    found = function.derivatives(here)
    steps = np.concatenate([0.02 * np.abs(theta), np.full(len(hypers), 0.02)])
    p = function.p
    for k, by in enumerate(steps):
        ends = []
        for sign in (by, -by):
            at = np.concatenate([theta, here.sizes])
            at[k] += sign
            ends.append(tight(function, here, at[:p], at[p:]))
        slope = (ends[0][0].value - ends[1][0].value) / (2.0 * by)
        assert found.gradient[k] == pytest.approx(slope, rel=2e-2, abs=2e-3 * float(np.abs(found.gradient * steps).max()) / by)
        rows = np.array([found_.taken.gradient[p:] for _, found_ in ends])
        np.testing.assert_allclose(
            found.hessian[p:, k], (rows[0] - rows[1]) / (2.0 * by), rtol=3e-2, atol=2e-2 * float(np.abs(found.hessian[p:] * steps).max()) / by
        )


def tight(function: Likelihood, here: Spot, theta: np.ndarray, sizes: np.ndarray):
    """The motion found twice over, so that nothing of its end is left."""
    spot = function.at(here.x, theta, sizes, most=60)
    spot = function.at(spot.x, theta, sizes, most=60)
    return spot, function.derivatives(spot)


def test_entries_of_the_inverse() -> None:
    problem, x, theta = begun(pendulum(), shaken(duration=0.5), {"body.arm.mass": 0.4}, 0.01, "free")
    lin = problem.linearise(x, theta, parameters=False).whole
    selected = Selected(lin)
    assert selected.good
    inverse = Factor(lin).solve(np.eye(len(selected.block)))
    P, C, n = (lin.Fx.T @ lin.Fx).tocoo(), lin.Cx.tocoo(), lin.Fx.shape[1]
    for rows, columns in ((P.row, P.col), (n + C.row, C.col), (C.col, n + C.row)):
        np.testing.assert_allclose(selected.at(rows, columns), inverse[rows, columns], rtol=1e-6, atol=1e-9 * float(np.abs(inverse).max()))


def test_the_regression_does_not_depend_on_the_scale_of_forces() -> None:
    """phi is the same when masses, inertias, frictions and drives are all larger by a factor."""
    rng = np.random.default_rng(0)
    times = np.arange(0.0, 3.0, 0.01)
    torque = cb.Signal(times, 0.3 * np.sin(5 * times))
    motion = cb.simulate(pendulum(), 2.9, 0.005, {"joint.hinge.angle": 1.0}, {"actuator.motor": torque})
    y = motion["joint.hinge.angle"][::2] + 1e-3 * rng.normal(size=len(motion.time[::2]))
    values = {"body.arm.mass": 0.5, "body.arm.inertia.yy": 0.005, "joint.hinge.damping": 1e-3, "actuator.motor.gain": 1.2}
    run = cb.Recording("r", (cb.Observation("joint.hinge.angle", motion.time[::2], y, 1e-3),), (cb.Drive("actuator.motor", torque),))
    problem, x, theta = begun(pendulum(), run, values, 0.01, "tree")
    for cutoff in (3.0, 10.0):
        error = EquationError(FirstMotion(problem, x, theta), cutoff)
        assert error.phi(7.0 * theta) == pytest.approx(error.phi(theta), abs=1e-6 * abs(error.phi(theta)))
        found = error.solve(theta)
        assert found[0] / found[3] == pytest.approx(0.4, rel=0.1)


def test_volume_of_the_equations_follows_the_masses() -> None:
    """`log |det C_b|` of a pendulum: every node's is proportional to its inertia about the pivot."""
    problem, x, _ = begun(pendulum(damping=0.0), shaken(duration=0.5), {"body.arm.inertia.yy": 0.004}, 0.01, "tree")
    inertia = np.array([0.004, 0.012])
    both = [dependent(problem, problem.linearise(x, np.array([i]), parameters=False).whole) for i in inertia]
    about = inertia + 0.4 * 0.1**2
    assert both[1] - both[0] == pytest.approx(problem.runs[0].inner * np.log(about[1] / about[0]), rel=1e-2)


@pytest.mark.parametrize("guess", [3.0, pytest.param(0.3, marks=pytest.mark.slow)])
def test_gentle_double_with_process_noise(shared: Path, guess: float) -> None:
    """From 3 times and 0.3 times the truth; L never rises."""
    model, recording, truth = race(shared, "gentle_double")
    result = cb.fit(model, recording.cut(end=5.0), {path: cb.Unknown(guess * value) for path, value in truth.items()}, process_noise="auto", h=0.02)
    assert result.converged
    first = max(k for k, i in enumerate(result.history) if i.number == 1)  # before it: the attempt without unmodelled forces, whose mesh is too coarse
    values = [i.cost for i in result.history[first:]]
    assert 3 < len(values) <= 20 and all(after <= before + 1e-3 for before, after in pairwise(values))
    for path, value in truth.items():
        e = result.parameters[path]
        assert e.sd is not None and abs(e.value - value) < 3.5 * e.sd, path


def test_auto_finds_more_noise_than_was_stated_never_less() -> None:
    result = cb.fit(pendulum(), shaken(duration=4.0, sd=5e-4), {"body.arm.inertia.yy": cb.Unknown(0.004)}, process_noise="auto", h=0.01)
    assert result.converged and result.fit[0].sd == pytest.approx(2e-3, rel=0.15)
    result = cb.fit(pendulum(), shaken(duration=4.0, sd=4e-3), {"body.arm.inertia.yy": cb.Unknown(0.004)}, process_noise="auto", h=0.01)
    assert result.converged and result.fit[0].sd == pytest.approx(4e-3, rel=1e-9)


def test_a_robust_fit_with_process_noise() -> None:
    run = shaken(duration=4.0, sd=2e-3)
    o = run.observations[0]
    values = o.values.copy()
    values[[50, 120, 200, 260]] += 0.4
    spoilt = replace(run, observations=(replace(o, values=values),))
    result = cb.fit(pendulum(), spoilt, {"body.arm.inertia.yy": cb.Unknown(0.006)}, process_noise="auto", h=0.01, robust=True)
    e = result.parameters["body.arm.inertia.yy"]
    assert result.converged and e.sd is not None and abs(e.value - 0.004) < 3.5 * e.sd
    assert len(result.outliers) == 4


def drifting(seed: int, duration: float = 4.0, force: float = 0.02, memory: float = 0.3) -> cb.Recording:
    """The pendulum under a force with a memory (Ornstein-Uhlenbeck)."""
    rng = np.random.default_rng(seed)
    times, keeps = np.arange(0.0, duration + 0.1, 0.01), np.exp(-0.01 / memory)
    pushes = np.zeros(len(times))
    for k in range(1, len(times)):
        pushes[k] = keeps * pushes[k - 1] + np.sqrt(1.0 - keeps**2) * force * rng.normal()
    motion = cb.simulate(pendulum(), duration, 0.005, {"joint.hinge.angle": 2.0}, {"joint.hinge.force": cb.Signal(times, pushes)})
    y = motion["joint.hinge.angle"][::2] + 2e-3 * rng.normal(size=len(motion.time[::2]))
    return cb.Recording("drifting", (cb.Observation("joint.hinge.angle", motion.time[::2], y),))


TRUTH = {"body.arm.inertia.yy": 0.004, "joint.hinge.damping": 4e-4}


def scores(make, seeds: range) -> tuple[np.ndarray, int]:
    """z of both parameters in every fit, and in how many the force was said not to be white."""
    z, slow = [], 0
    for seed in seeds:
        result = cb.fit(pendulum(), make(seed), {k: cb.Unknown(2.0 * v) for k, v in TRUTH.items()}, process_noise="auto", h=0.01)
        z.append([(result.parameters[k].value - v) / (result.parameters[k].sd or np.nan) for k, v in TRUTH.items()])
        slow += any(note.startswith("The unmodelled force is not white") for note in result.notes)
    return np.array(z), slow


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(200, 230), marks=pytest.mark.slow)])
def test_white_forces_are_covered_and_not_called_slow(seeds: range) -> None:
    z, slow = scores(lambda seed: shaken(seed, 4.0), seeds)
    assert slow <= 2 * (len(seeds) > 10)
    assert np.all(np.abs(z) < 4.0) and np.mean(np.abs(z) < 1.96) > (0.85 if len(seeds) > 10 else 0.5)


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(200, 230), marks=pytest.mark.slow)])
def test_forces_with_a_memory_are_covered_and_mostly_seen(seeds: range) -> None:
    z, slow = scores(drifting, seeds)
    assert slow >= (20 if len(seeds) > 10 else 1)
    assert np.all(np.abs(z) < 4.0) and float(np.std(z)) < 1.5


def test_noise_that_dominates_the_accelerations_is_no_information(shared: Path) -> None:
    """The Quanser cart: the curvature of the likelihood is a tenth of Gauss-Newton's along "everything heavier"."""
    t, x, angle, volts = np.genfromtxt(shared / "data/cartpole_quanser/c05.csv", delimiter=",", skip_header=1)[1:-1].T
    mass, half = 0.127, 0.16825
    bodies = [
        cb.Body("cart", mass=0.57, inertia=(1e-3, 1e-3, 1e-3)),
        cb.Body("pole", parent="cart", mass=mass, com=(0, 0, -half), inertia=(2e-3, 1.2e-3, 2e-3)),
    ]
    joints = [cb.Joint("rail", "cart", "slide", axis=(1, 0, 0), damping=5.4), cb.Joint("pivot", "pole", axis=(0, -1, 0), damping=2.4e-3)]
    model = cb.Model("cart", bodies=bodies, joints=joints, actuators=[cb.Actuator("motor", "rail", gain=1.7)])
    observed = (cb.Observation("joint.rail.position", t, x, 6.6e-6), cb.Observation("joint.pivot.angle", t, angle, 4.43e-4))
    run = cb.Recording("c05", observed, (cb.Drive("actuator.motor", cb.Signal(t, volts)),))
    paths = ("body.cart.mass", "body.pole.inertia.yy", "joint.rail.damping", "joint.pivot.damping", "actuator.motor.gain")
    result = cb.fit(model, run, {p: cb.Unknown(3.0 * model[p], lower=0.0) for p in paths}, process_noise="auto", h=0.004)
    cart, pole = result.parameters["body.cart.mass"], result.parameters["body.pole.inertia.yy"]
    assert result.converged and 0.9 < cart.value < 1.6
    assert pole.value / (mass * half) + half == pytest.approx(0.2195, rel=0.02)
    assert cart.sd is not None and cart.sd_naive is not None and cart.sd > 2.0 * cart.sd_naive


def test_a_force_with_a_memory_is_found() -> None:
    """Asked for, its size and correlation time come out as they were put in; with both given the estimate is the same to what it is known to."""
    run, path = drifting(0, 8.0, 0.05, 0.2), "body.arm.inertia.yy"
    found, timed, given = (
        cb.fit(pendulum(), run, {path: 1.3 * TRUTH[path]}, process_noise=noise, h=0.01)
        for noise in ({"sd": "auto", "correlation_time": "auto"}, {"correlation_time": 0.2}, {"joint.hinge": {"sd": 0.05, "correlation_time": 0.2}})
    )
    for result in (found, timed, given):
        assert result.converged and result.process_noise == {}, result.status
        force, e, known = result.slow_forces["hinge"], result.parameters[path], given.parameters[path].sd
        assert force.sd == pytest.approx(0.05, rel=0.3) and force.correlation_time == pytest.approx(0.2, rel=0.5)
        assert not any("not white" in note for note in result.notes)
        assert e.sd is not None and known is not None and abs(e.value - TRUTH[path]) < 3.0 * e.sd
        assert e.value == pytest.approx(given.parameters[path].value, abs=0.5 * known)


def test_unmodelled_forces_are_the_same_on_every_mesh() -> None:
    """They last as long as a sampling period on both, so that refining it changes the discretisation and nothing else."""
    run, unknown = shaken(4, 3.0, 0.3, 5e-3), {"body.arm.inertia.yy": 0.005}
    coarse, fine = (cb.fit(pendulum(), run, unknown, process_noise="auto", h=h) for h in (0.005, 0.0025))
    assert fine.process_noise["hinge"] == pytest.approx(coarse.process_noise["hinge"], rel=5e-4)
    assert fine.fit[0].sd == pytest.approx(coarse.fit[0].sd, rel=5e-4)


def test_an_inertia_grows_from_next_to_nothing() -> None:
    """Where another fit has left it, begun there by `extend` for one: by doubling alone it stayed, and that was called converged."""
    path, ends = "body.arm.inertia.yy", []
    problem, x, theta = begun(pendulum(), shaken(sd=2e-3), {path: 0.004}, 0.01, "tree", [FORCE])
    function = Likelihood(problem, [FORCE])
    for first in (theta, np.array([1e-20])):
        found = maximise(function, function.at(x, first, function.sizes(problem)), lambda _: None)
        assert found.status == "converged"
        ends.append(found.spot)
    assert ends[1].theta == pytest.approx(ends[0].theta, rel=1e-3) and ends[1].value == pytest.approx(ends[0].value, abs=1e-3)


def test_a_fit_without_forces_agrees_where_they_are_noise() -> None:
    """It is the fit without forces, which "auto" has tried first and goes on from."""
    guesses = {name: 1.5 * truth for name, truth in TRUTH.items()}
    result, exact = (cb.fit(pendulum(), shaken(0, 4.0), guesses, process_noise=noise, h=0.01) for noise in ("auto", "none"))
    other = result.without_forces
    assert other is not None and other.status == "converged" and set(other.apart) == set(TRUTH) and abs(other.largest[1]) < 2.0
    for name, value in other.values.items():
        assert (value - result.parameters[name].value) / np.hypot(other.sds[name] or 0.0, result.parameters[name].sd or 0.0) == pytest.approx(other.apart[name])
        assert value == pytest.approx(exact.parameters[name].value, abs=0.15 * (exact.parameters[name].sd or 0.0)), name
    plain = cb.fit(pendulum(), shaken(0, 4.0), {"body.arm.inertia.yy": 0.005}, h=0.01)
    assert plain.without_forces is None


def stand(seed: int) -> tuple[cb.Model, cb.Recording, dict[str, float]]:
    """A double pendulum, driven at its first joint, whose stand shakes: its joints' unmodelled forces have a correlation of -0.86."""
    model, _ = chain(2, duration=0.1)
    rng, times = np.random.default_rng(seed), np.arange(0.0, 2.1, 0.01)
    drive, common, own = 0.6 * np.sin(3 * times) + 0.4 * np.sin(7.3 * times), rng.normal(size=len(times)), rng.normal(size=(2, len(times)))
    pushed = {
        "joint.j0.force": cb.Signal(times, drive + 0.1 * common + 0.04 * own[0]),
        "joint.j1.force": cb.Signal(times, -0.05 * common + 0.02 * own[1]),
    }
    motion = cb.simulate(model, 2.0, 0.0025, {"joint.j0.angle": 1.0, "joint.j1.angle": 0.5}, pushed)
    observed = [cb.Observation(c, motion.time[::4], motion[c][::4] + 1e-3 * rng.normal(size=201), 1e-3) for c in ("joint.j0.angle", "joint.j1.angle")]
    run = cb.Recording("stand", observed, [cb.Drive("joint.j0.force", cb.Signal(times, drive))])
    return model, run, {"body.b0.inertia.yy": 0.004, "body.b1.inertia.yy": 0.004, "joint.j1.damping": 0.01}


def test_forces_of_two_joints_that_go_together() -> None:
    """What pushes at both joints is found to be mostly one force, which leaves more to be known than two."""
    model, run, truth = stand(4)
    unknown = {name: cb.Unknown(1.5 * value) for name, value in truth.items()}
    result = cb.fit(model, run, unknown, process_noise="auto", h=0.005)
    assert result.converged and any("go together" in note for note in result.notes)
    (both,) = result.forces_together
    assert both.joints == ("j0", "j1") and both.correlation == pytest.approx(-0.86, abs=0.12)
    assert result.process_noise == pytest.approx({"j0": 0.108, "j1": 0.054}, rel=0.3)
    apart = cb.fit(model, run, unknown, process_noise={"j0": 0.108, "j1": 0.054}, h=0.005)  # stated forces have nothing in common
    assert not apart.forces_together
    for name, value in truth.items():
        e, alone = result.parameters[name], apart.parameters[name]
        assert (
            e.sd is not None
            and e.scatter is not None
            and alone.scatter is not None
            and e.scatter < 0.8 * alone.scatter
            and abs(e.value - value) < 3.0 * e.sd + 0.02 * value
        ), name


@pytest.mark.slow
def test_forces_that_go_together_are_covered() -> None:
    z = []
    for seed in range(30, 50):
        model, run, truth = stand(seed)
        result = cb.fit(model, run, {name: cb.Unknown(value) for name, value in truth.items()}, process_noise="auto", h=0.0025)
        z += [abs(e.value - truth[name]) / (e.sd or np.nan) for name, e in result.parameters.items()]
    assert np.mean(np.array(z) < 1.96) >= 0.85


def test_what_is_believed_of_forces_that_go_together() -> None:
    """Its derivatives against differences; nothing where each joint has a force of its own."""
    noise = Noise({}, frozenset(), {"a": 2.0, "b": 0.01, "c": 0.3}, coupled={("a", "b"): 0.7, ("a", "c"): -1.0, ("b", "c"): 0.4})
    hypers = [ForceSize(name) for name in "abc"] + [Shared(a, beside=b, unit=unit) for a, b, unit in (("a", "b", 0.3), ("a", "c", 2.0), ("b", "c", 1.0))]
    by = [(belief(h.changed(noise, 1e-5)) - belief(h.changed(noise, -1e-5))) / 2e-5 for h in hypers]
    np.testing.assert_allclose(belief_by(noise, hypers), by, rtol=1e-6, atol=1e-8)
    assert belief(replace(noise, coupled=dict.fromkeys(noise.coupled, 0.0))) == 0.0 < belief(noise)


def test_noise_that_was_overstated_is_said() -> None:
    result = cb.fit(pendulum(), shaken(duration=4.0, sd=6e-3), {"body.arm.inertia.yy": cb.Unknown(0.004)}, process_noise="auto", h=0.01)
    (note,) = (note for note in result.notes if "by these data it is about" in note)
    assert "stated as 0.006" in note and 0.0012 < float(note.split("about ")[1].split(". ")[0]) < 0.0031
