"""The motion that the data make most likely for given parameters and noise: Gauss-Newton on the states alone.

With process noise this is easy from anywhere near: the forces take up what the equations lack. It ends where a further step promises a decrease of the cost below `SMOOTHED`; the
last factorisation is kept, because the volume of the likelihood (`marginal.py`) is made of its determinant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibody.estimate.layout import States
from calibody.estimate.noise import marginal
from calibody.estimate.problem import Problem
from calibody.solve.condensed import Factor, Linearisation, step
from calibody.solve.gauss_newton import AbstractProblem, penalised, search
from calibody.solve.projected import Projected

SMOOTHED = 1e-4
"""Decrease of the cost that a further step promises, below which that step is the last: what is left after it is of second order."""
NEAR = 0.1
"""Promised decrease of the cost below which a step is taken at full length without looking: it is sqrt(0.2) = 0.4 standard deviations long, over which the cost is a parabola."""
SLOW = 1e-3
"""The same for a motion that comes no nearer: rounding, or the kink of a friction law."""


@dataclass(frozen=True)
class Smoothed:
    x: Sequence[States]
    cost: float
    volume: float
    converged: bool


class _States(AbstractProblem):
    """A problem whose parameters do not move."""

    def __init__(self, problem: Problem, theta: np.ndarray) -> None:
        self.problem, self.theta = problem, theta
        self.lower = self.upper = self.scale = np.zeros(0)

    def linearise(self, x: Any, theta: np.ndarray) -> Linearisation:
        lin = self.problem.linearise(x, self.theta, parameters=False).whole
        return replace(lin, Ft=np.zeros((len(lin.F), 0)), Ct=np.zeros((len(lin.C), 0)))

    def values(self, x: Any, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.problem.values(x, self.theta)

    def move(self, x: Any, d: np.ndarray) -> Any:
        return self.problem.move(x, d)


def smooth(problem: Problem, x: Sequence[States], theta: np.ndarray, most: int = 25) -> Smoothed:
    """From x on, in at most so many steps."""
    inner, none = _States(problem, theta), np.zeros(0)
    penalty: np.ndarray | float = 0.0
    cost = promise = before = np.inf
    for _ in range(most):
        lin = inner.linearise(x, none)
        cost = 0.5 * float(lin.F @ lin.F)
        if not (np.isfinite(cost) and np.isfinite(lin.C).all()):
            break
        taken = step(lin, none, none, none, none, none)
        if not (np.isfinite(taken.states).all() and np.isfinite(taken.multipliers).all()):
            break
        penalty = penalised(penalty, taken.multipliers)
        after = lin.F + lin.Fx @ taken.states
        promise = cost + float(penalty @ np.abs(lin.C)) - 0.5 * float(after @ after)
        if promise < SMOOTHED or (promise < SLOW and promise > 0.3 * before):
            assert isinstance(taken.factor, (Factor, Projected))
            volume = 0.5 * taken.factor.log_determinant - marginal.dependent(problem, lin)
            return Smoothed(problem.move(x, taken.states), 0.5 * float(after @ after), volume, True)
        before = promise
        if promise < NEAR:
            x = problem.move(x, taken.states)
            continue
        length, (x, _) = search(inner, lin, taken, x, none, penalty, 1e-3)
        if length == 0.0:
            break
    return Smoothed(x, cost, 0.0, False)
