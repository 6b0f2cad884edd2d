"""Where the likelihood is maximised from: of several first values, those that it prefers.

The candidates are what regressions on the first motion find (`equation_error.py`), what a fit without unmodelled forces has found, and the initial values themselves, each with the forces that it leaves. The noise sizes of every one are improved
twice at fixed parameters before they are compared, because L depends on them more than on anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibody.estimate.equation_error import Candidate, candidates
from calibody.estimate.layout import States
from calibody.estimate.likelihood import Likelihood, Spot
from calibody.solve.threads import one_thread

IMPROVED = 2
"""Updates of the noise sizes of a candidate."""
ALIKE = 1e-3
"""Relative difference of all parameters below which two candidates are one."""


@one_thread
def best_start(function: Likelihood, x: Sequence[States], theta: np.ndarray, hints: Sequence[np.ndarray] = ()) -> Spot:
    """The most likely candidate with its motion; of infinite value if none has one. `hints` are further values of the parameters."""
    spots = [_improved(function, x, c) for c in _distinct(candidates(function.problem, x, theta, hints))]
    return min(spots, key=lambda spot: spot.value)


def _distinct(found: Sequence[Candidate]) -> list[Candidate]:
    out: list[Candidate] = []
    for c in found:
        if not any(np.all(np.abs(c.theta - o.theta) <= ALIKE * np.abs(o.theta)) and _close(c, o) for o in out):
            out.append(c)
    return out


def _close(a: Candidate, b: Candidate) -> bool:
    """Whether their forces are of one size, to a factor of two."""
    return all(0.25 < a.density[joint] / b.density[joint] < 4.0 for joint in a.density)


def _improved(function: Likelihood, x: Sequence[States], candidate: Candidate) -> Spot:
    sizes = function.sizes(function.problem)
    for k, h in enumerate(function.hypers):
        if h.process:
            sizes[k] = 0.5 * np.log(candidate.density[h.name])
    spot = function.at(x, candidate.theta, sizes)
    for _ in range(IMPROVED if function.n and np.isfinite(spot.value) else 0):
        better = function.refreshed(spot)
        if not better.value < spot.value:
            break
        spot = better
    return spot
