"""Outliers: iteratively reweighted least squares with a loss that lets go of samples far off.

Cauchy's loss `c^2/2 log(1 + (r/c)^2)` weighs a residual r (in units of its noise) by `1/(1 + (r/c)^2)`; with c = 2.385 it needs 5 % more data
than least squares where the noise is normal. The noise is the channel's sd or, where that is larger, the median of the residuals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from calibody.estimate.problem import Problem
from calibody.solve.gauss_newton import Solution

TUNING = 2.385
REWEIGHTINGS = 10
FAR = 6.0
"""Times the noise of its channel from which a sample is an outlier: normal noise is that far off once in 5e8 samples."""
LET_GO = float(1.0 / np.hypot(1.0, FAR / TUNING))
"""The square root of the weight that such a sample has."""


def noise_size(residual: np.ndarray, sd: float) -> float:
    """The channel's sd, or that of the bulk of its residuals if it is larger (1.4826: from the median of normal noise to its sd)."""
    return max(sd, 1.4826 * float(np.median(np.abs(residual))))


def weights(residual: np.ndarray, sd: float) -> np.ndarray:
    """Square roots of the weights: what residuals are multiplied by."""
    return 1.0 / np.sqrt(1.0 + (residual / (TUNING * noise_size(residual, sd))) ** 2)


def reweighted(problem: Problem, solution: Solution, again: Callable[[Problem, Solution], Solution]) -> tuple[Problem, Solution]:
    """Weights from residuals, residuals from weights, until no weight changes by more than a hundredth; the problem with these weights."""
    for _ in range(REWEIGHTINGS):
        problem, change = weighed(problem, solution)
        if change < 0.01:
            break
        solution = again(problem, solution)
    return problem, solution


def weighed(problem: Problem, solution: Solution) -> tuple[Problem, float]:
    """The problem with weights from the residuals of a solution, and the largest change of a weight."""
    change, runs = 0.0, []
    for r, (run, states) in enumerate(zip(problem.runs, solution.x, strict=True)):
        both = problem.fitted(r, states, solution.theta)
        new = {d.channel.path: weights((fitted - d.y) / d.relative, run.noise.measured[d.channel.path]) for d, fitted in both}
        change = max(change, *(float(np.abs(new[path] - run.weights[path]).max()) for path in new))
        runs.append(replace(run, weights=new))
    return replace(problem, runs=tuple(runs)), change
