"""One-sided limits of estimates that sit at a bound: a damping that ended at zero is not zero, it is at most so much.

There the cost rises by `g d + i d^2/2` with the distance d from the bound, the other parameters following (g >= 0: the data want it beyond). The limit is where twice that is the square of the one-sided
95 % quantile: with a = g/sqrt(i), how many standard deviations beyond the bound the data want it,

    d = sd (sqrt(a^2 + q^2) - a),      q = 1.645

At a = 0 that is the usual limit q sd; the further beyond, the nearer to the bound, but never at it. It is never below `q - a` sd, the limit without the bound, so it holds at least as often as that: in 95 of 100 cases or more.
sd is that of the score as the residuals show it (`scores.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibody.estimate.layout import States
from calibody.estimate.missing.scores import Scores
from calibody.estimate.problem import Problem
from calibody.estimate.uncertainty import Uncertainty
from calibody.solve.threads import one_thread

QUANTILE = 1.6449
"""Of the normal distribution, 95 % on one side."""


@one_thread
def limits(problem: Problem, x: Sequence[States], theta: np.ndarray, known: Uncertainty) -> np.ndarray:
    """Of every parameter that is estimated and sits at a bound; NaN for all others, and where the data say nothing."""
    out = np.full(len(theta), np.nan)
    held = np.flatnonzero(known.at_bound & (problem.lower < problem.upper))
    if not len(held):
        return out
    scores = Scores(problem, problem.linearise(x, theta, hold_scale=False), known.stepped(problem, x, theta), ~known.at_bound, held)
    for k, pull in zip(held, scores.pulls(problem.slope), strict=True):
        if pull is not None:
            inward = 1.0 if theta[k] <= problem.lower[k] else -1.0
            beyond = -inward * pull.change / pull.sd
            out[k] = np.clip(theta[k] + inward * pull.sd * (np.hypot(beyond, QUANTILE) - beyond), problem.lower[k], problem.upper[k])
    return out
