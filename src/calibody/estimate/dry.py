"""How sharp dry friction is on a mesh: below which rate it is viscous.

On the first mesh in stages, on finer ones in proportion to their step; where a joint turns round, so that the impulse of an interval is that of friction without any width (`turning`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from calibody.estimate.layout import States
from calibody.estimate.problem import Problem, owners
from calibody.estimate.unknowns import WIDTH, Entry, owner_of
from calibody.mechanics.assembly import interval_rates
from calibody.model import paths

FRICTION_STAGES = (1.0, 0.1, 0.02)
"""Rates below which dry friction is viscous, in units of the joint's own rms rate: the last at once, or one after the other where that fails."""
SHARPER = 0.5
"""On finer meshes that rate is smaller by this and shrinks with h: a joint that sticks creeps by it. Where a joint turns round it is larger (`turning`)."""
FINER = 0.75
"""Part of the coarsest mesh's step from which on a mesh is a finer one."""


def unknown_widths(problem: Problem, unknowns: Sequence[Entry], smooth: np.ndarray, sharp: np.ndarray, theta: np.ndarray) -> tuple[Problem, np.ndarray]:
    """None is less than `sharp`, what this mesh resolves, and one that was given as zero, where nothing would move it, begins as `smooth`."""
    structure = problem.runs[0].structure
    names, theta, entries = owners(structure), theta.copy(), list(unknowns)
    for k, e in enumerate(entries):
        for place in e.places:
            if place.sensor is None and place.expression is None and place.path.endswith(WIDTH):
                i = names.index(owner_of(paths.resolve(structure.model, place.path)))
                theta[k] = min(max(theta[k] or smooth[i], sharp[i]), e.upper)
                entries[k] = replace(e, lower=min(max(e.lower, sharp[i]), e.upper), initial=e.initial or theta[k], scale=max(e.scale, theta[k]))
    return replace(problem, entries=tuple(entries)), theta


def turning(problem: Problem, x: Sequence[States], theta: np.ndarray) -> Problem:
    """With sharp dry friction that is viscous at least below half of what the rate changes by from one interval to the next.

    Where a joint turns round within an interval, with the acceleration a, the mean of the sign of its rate over the interval is `clip(rho/(a h/2), -1, 1)`, rho the mean
    rate: with `delta = a h/2` the impulse of the interval is that of friction without any width, and dry friction is of second order in h as everything else is. And the ramps of successive intervals,
    which are a h apart and as wide, add up to a straight line: the impulse of a reversal is linear in its time, whichever interval it is in, and Gauss-Newton does not see where one
    interval ends. (The bend of the law, `law.py`, keeps that: its slope is one box folded with another.) Narrower ramps are jumped over, wider ones move the reversal.
    """
    runs = []
    for run, rates in zip(problem.runs, _rates(problem, x, theta), strict=True):
        change = np.pad(np.abs(np.diff(rates, axis=1)), ((0, 0), (1, 1)), mode="edge")
        torn = np.flatnonzero(~run.flying)  # from one flight to the next: as beside it
        change[:, torn], change[:, torn + 1] = change[:, torn - 1], change[:, np.minimum(torn + 2, change.shape[1] - 1)]
        runs.append(replace(run, turning=0.5 * np.maximum(change[:, 1:], change[:, :-1])))
    return replace(problem, runs=tuple(runs))


def rms_rates(problem: Problem, x: list[States], theta: np.ndarray) -> np.ndarray:
    """Of every scalar coordinate over all runs [rad/s, m/s]; one that hardly moves counts as a hundredth of the fastest."""
    squares = [np.mean(rates[:, run.flying] ** 2, axis=1) for run, rates in zip(problem.runs, _rates(problem, x, theta), strict=True)]
    rates = np.sqrt(np.mean(squares, axis=0))
    return np.maximum(rates, max(0.01 * float(rates.max(initial=0.0)), 1e-6))


def _rates(problem: Problem, x: Sequence[States], theta: np.ndarray) -> Iterator[np.ndarray]:
    """(scalar coordinates, intervals) of every run."""
    for r, run in enumerate(problem.runs):
        model, numbers, _ = problem.model_of(r, theta)
        yield interval_rates(problem.frames(r, x[r], model, numbers), run.h)[1]
