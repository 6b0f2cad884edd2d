"""Error bars where what is missing has no name: it repeats itself from run to run, or shows in that a fit without unmodelled forces says something else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import calibody as cb
from calibody.estimate.noise import bars
from calibody.estimate.noise.colour import Forces, added
from calibody.estimate.noise.likelihood import Likelihood

TIMES, SD = np.arange(0.0, 3.005, 0.01), 1e-3
MASS, LENGTH, INERTIA, DAMPING = 0.4, 0.1, 0.004, 0.002
TRUTH = {"body.arm.mass": MASS, "body.arm.inertia.yy": INERTIA, "joint.hinge.damping": DAMPING}


def recorded(run: int, torque: Callable[[float, float], float]) -> cb.Recording:
    """A swing with a torque that the model does not have, a function of angle and rate: driven a little differently in every run."""
    random = np.random.default_rng([0, run])
    size, phase = 0.2 * (1.0 + 0.1 * random.standard_normal()), 0.3 * random.standard_normal()
    drive = size * np.sin(5.0 * TIMES + phase) + 0.1 * np.sin(11.0 * TIMES + phase)

    def motion(t: float, y: np.ndarray) -> list[float]:
        known = np.interp(t, TIMES, drive) - MASS * 9.81 * LENGTH * np.sin(y[0]) - DAMPING * y[1]
        return [y[1], (known + torque(y[0], y[1])) / (INERTIA + MASS * LENGTH**2)]

    angle = solve_ivp(motion, (0.0, TIMES[-1]), [0.5, 0.0], t_eval=TIMES, rtol=1e-8, atol=1e-9, max_step=0.02).y[0]
    noisy = angle + SD * random.standard_normal(len(TIMES))
    return cb.Recording(f"run{run}", (cb.Observation("joint.hinge.angle", TIMES, noisy, SD),), (cb.Drive("actuator.motor", cb.Signal(TIMES, drive, "linear")),))


def fitted(torque: Callable[[float, float], float]) -> cb.Result:
    """Five runs."""
    arm = cb.Body("arm", mass=MASS, com=(0.0, 0.0, -LENGTH), inertia=(INERTIA,) * 3)
    model = cb.Model("pendulum", [arm], [cb.Joint("hinge", "arm", axis=(0.0, 1.0, 0.0), damping=DAMPING)], actuators=[cb.Actuator("motor", "hinge")])
    unknowns = {path: cb.Unknown(1.1 * value, lower=0.0) for path, value in TRUTH.items()}
    return cb.fit(model, [recorded(k, torque) for k in range(5)], unknowns, process_noise="auto", h=0.005)


def deviations(result: cb.Result) -> np.ndarray:
    return np.array([result.parameters[path].value - value for path, value in TRUTH.items()])


@pytest.mark.slow
def test_what_every_run_repeats_does_not_average_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A motor that cogs three times per turn: nothing names it, and it pushes alike in every run. Bars that shrink with their number as if it did not are missed by four."""
    result = fitted(lambda q, _: -0.03 * np.sin(3.0 * q + 0.4))
    assert result.converged and result.force_tests["hinge"].slow and not any(s.shifts for s in result.lacks)
    off, bar = deviations(result), np.array([result.parameters[path].sd for path in TRUTH], dtype=float)
    assert np.abs(off / bar).max() < 2.5
    monkeypatch.setattr(bars, "added", lambda runs, repeated: added(runs))
    function = Likelihood(result.problem, result.hypers)
    spot = function.at(result.states, result.theta, function.sizes(result.problem))
    averaged = np.sqrt(np.diag(bars.bars(function, spot).covariance))
    assert np.abs(off / averaged).max() > 3.5


@pytest.mark.slow
def test_error_bars_allow_for_what_a_fit_without_forces_says() -> None:
    """Viscous friction in one direction only: estimates with and without unmodelled forces are three standard deviations apart, and the bar has what of that is more than chance."""
    result = fitted(lambda _, v: -0.004 * abs(v))
    assert result.without_forces is not None and not result.without_forces.agrees
    name, apart = result.without_forces.largest
    e = result.parameters[name]
    assert e.sd is not None and e.missing is not None and e.scatter is not None
    beyond = abs(result.without_forces.values[name] - e.value) * np.sqrt(0.5 - 0.5 / apart**2)
    assert e.missing >= 0.999 * beyond > e.scatter
    assert np.abs(deviations(result)[:2] / [result.parameters[path].sd for path in list(TRUTH)[:2]]).max() < 2.0


def test_the_part_with_a_memory_is_counted_as_the_same_in_every_run() -> None:
    """Five equal runs: of slow forces five times the variance of independent ones; of a single run nothing changes."""
    random, n = np.random.default_rng(2), 300
    moves = np.sin(4.0 * np.pi * np.arange(n) / n)[:, None]
    force = random.standard_normal(n)
    for k in range(1, n):
        force[k] = 0.95 * force[k - 1] + np.sqrt(1.0 - 0.95**2) * force[k]
    run = Forces(force, random.standard_normal((n, 48)), moves)
    white = float((moves**2).sum())
    alone, alike, once, again = added([run] * 5), added([run] * 5, repeated=True), added([run]), added([run], repeated=True)
    assert alone is not None and alike is not None and once is not None and again is not None
    assert alike[0] + 5.0 * white == pytest.approx(5.0 * (alone[0] + 5.0 * white), rel=0.1) and alike[0] + 5.0 * white < 5.0 * (alone[0] + 5.0 * white)
    assert once[0] == pytest.approx(again[0], rel=1e-12)
