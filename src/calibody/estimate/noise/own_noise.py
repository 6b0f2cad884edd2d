"""The noise of channels where it was not stated, in turns with the parameters: the root mean square of what is left, in all runs together. Of motions without forces of their own, where that is all there is to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from calibody.estimate.observed import Observed
from calibody.solve.gauss_newton import Solution

SETTLED, ROUNDS = 0.02, 8
"""Relative change of a channel's noise that ends the turns; most of them."""

Shot = TypeVar("Shot", bound=Observed[Any, Any])


def with_noise(problem: Shot, solution: Solution, solve: Callable[[Shot, Solution], Solution]) -> tuple[Shot, Solution]:
    """The problem with the noise that was found, and its solution; `solve` goes on from one with other noise."""
    missing = {c for run in problem.runs for c in run.noise.missing}
    for _ in range(ROUNDS if missing else 0):
        squares: dict[str, list[np.ndarray]] = {}
        for r, states in enumerate(solution.x):
            for d, fitted in problem.fitted(r, states, solution.theta):
                squares.setdefault(d.channel.path, []).append(((fitted - d.y) / d.relative) ** 2)
        sizes = {c: float(np.sqrt(np.mean(np.concatenate(squares[c])))) for c in missing}
        change = max(abs(np.log(sizes[c] / run.noise.measured[c])) for run in problem.runs for c in run.noise.missing)
        if change < SETTLED or not solution.converged:
            break
        runs = [replace(run, noise=replace(run.noise, measured={**run.noise.measured, **{c: sizes[c] for c in run.noise.missing}})) for run in problem.runs]
        problem = replace(problem, runs=tuple(runs))
        solution = solve(problem, solution)
    return problem, solution


def found_noise(problem: Observed[Any, Any]) -> list[str]:
    channels = dict.fromkeys(c for run in problem.runs for c in run.noise.missing)
    return [f"The noise of {c} was not stated; it was estimated with the parameters." for c in channels]
