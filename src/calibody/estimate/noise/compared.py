"""A fit with unmodelled forces beside one without, as Hausman compares two estimators [hausman1978].

If the forces that a model lacks are the noise they are taken to be, both fits are right and agree within their error bars: that without them weighs the data otherwise, nothing else. Where they do not agree, what the
estimates are depends on what was assumed about forces that nobody knows. A motion that repeats itself near a resonance is the case in point: small forces that go with the motion can stand for inertias, and each fit on its
own looks certain.

The fit without begins where the first attempt of "auto" has ended, if it has, or at the motion and the parameters of the one with forces, which costs a fraction of that. Its residuals are mostly many times the noise; they are its noise here, so that steps are judged by
error bars that hold.

**What the difference says.** Where the two do not agree, the difference d of a parameter shows the model's error in it, as far as it is more than chance. Two estimates with errors of the variance tau^2 each, beside their scatter, are apart by `E d^2 = sd_d^2 + 2 tau^2`, sd_d what chance makes of the
difference: the error bars of the fit with forces allow for `tau^2 = (d^2 - sd_d^2)/2` as for what something named would move (`misled.py`), and then hold the other estimate. Where the fit without forces has gone to another minimum, they are as large as that is far; neither is worth more then.
But for a minimum that gives the motion up: one that leaves most of a channel over (a real cart whose pole hardly swings, ten times its inertia) describes no data, and differs from nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.layout import PROCESS, States
from calibody.estimate.problem import Problem
from calibody.estimate.reported import reported
from calibody.estimate.result import LEFT_OVER, UNEXPLAINED, Comparison
from calibody.estimate.uncertainty import Uncertainty, assess
from calibody.solve.gauss_newton import Settings, Solution, minimise

FIRST, THEN = 15, 45
"""Most iterations with the noise as it is, and then with that which the residuals show."""
NEAR = 0.1
"""Standard deviations that the last step may move the parameters by."""


def compared(problem: Problem, solution: Solution, known: Uncertainty, tried: tuple[Problem, Solution] | None = None) -> tuple[Comparison, np.ndarray]:
    """The estimates of a solution with unmodelled forces, whose error bars are known, beside those without; and by how much what is solved for may be off by what they differ beyond chance, zero where both agree. `tried`: a solution without
    them that was found before, on this mesh or another.

    Where that one leads to other estimates, it may be another minimum than the one nearby: then both are found, and the better one is compared.
    """
    calm, found = _calm(problem, 1.0), []
    if tried is not None:
        found.append(_without(problem, calm, tried[0].carried(tried[1].x, calm), tried[1].theta, known))
    if not found or not found[0].comparison.agrees:
        x = [States({name: part for name, part in states.parts.items() if name != PROCESS}) for states in solution.x]
        found.append(_without(problem, calm, x, solution.theta, known))
    best = min(reversed(found), key=lambda one: one.squares)
    return best.comparison, np.zeros(len(solution.theta)) if best.beyond is None or best.comparison.agrees else best.beyond


@dataclass(frozen=True)
class _Found:
    comparison: Comparison
    squares: float = np.inf
    """Of the residuals in units of the noise that was found; infinite where the fit did not converge."""
    beyond: np.ndarray | None = None
    """By how much what is solved for may be off for that (tau)."""


def _without(problem: Problem, calm: Problem, x: Sequence[States], theta: np.ndarray, known: Uncertainty) -> _Found:
    """A fit without unmodelled forces from a motion and parameters on."""
    times = 1.0
    try:
        found = minimise(calm, x, theta, Settings(iterations=FIRST, tolerance=NEAR))
        if not found.converged:
            times = max(float(np.sqrt(2.0 * found.cost / sum(run.samples for run in calm.runs))), 1.0)
            calm = _calm(problem, times)
            found = minimise(calm, found.x, found.theta, Settings(iterations=THEN, tolerance=NEAR))
        if not found.converged:
            return _Found(Comparison(found.status, {}, {}, {}))
        if left := _left_over(calm, found):
            return _Found(Comparison(f"{LEFT_OVER} most of {', '.join(left)}", {}, {}, {}))
        freedom = calm.runs[0].structure.nv - calm.runs[0].kept
        bars = assess(calm, found.x, found.theta, freedom, True).sd
    except (CalibodyError, np.linalg.LinAlgError) as failure:
        return _Found(Comparison(f"stopped: {failure}", {}, {}, {}))
    values = reported(problem.entries, found.theta).values
    names = [e.name for e in problem.entries]
    joint = np.hypot(np.where(known.analysis.resolved, known.sd, np.inf), bars)
    apart = {n: float((v - w) / s) for n, v, w, s in zip(names, values, known.reported.values, joint, strict=True) if np.isfinite(s) and s > 0.0}
    told = np.isfinite(joint)  # what both determine
    d, chance = np.where(told, values - known.reported.values, 0.0), np.where(told, joint, 0.0)
    beyond = np.linalg.solve(known.reported.by_theta, np.sign(d) * np.sqrt(0.5 * np.maximum(d**2 - chance**2, 0.0)))
    sds = {n: float(s) if np.isfinite(s) else None for n, s in zip(names, bars, strict=True)}
    return _Found(Comparison("converged", {n: float(v) for n, v in zip(names, values, strict=True)}, sds, apart), times**2 * found.cost, beyond)


def _left_over(problem: Problem, found: Solution) -> list[str]:
    """Channels of which a solution says little."""
    out: dict[str, None] = {}
    for r, states in enumerate(found.x):
        for d, fitted in problem.fitted(r, states, found.theta):
            if float(np.sqrt(np.mean((d.y - fitted) ** 2))) > UNEXPLAINED * float(np.std(d.y)) > 0.0:
                out[d.channel.path] = None
    return list(out)


def _calm(problem: Problem, times: float) -> Problem:
    """The same runs without unmodelled forces, their channels' noise so many times as large."""
    return replace(problem.with_noise([run.noise.calm(times) for run in problem.runs]), slope=0.0)
