"""Levenberg-Marquardt for least squares on a manifold with bounds on the parameters ([marklund2025], algorithm 1, with its two slips mended).

    (J'J + alpha D) d = -J'F      within the bounds on theta

with D = 1 as printed, and alpha starting at 1e-6 of the largest diagonal entry of J'J; or, by default, D the diagonal of J'J [marquardt1963] and alpha
starting at 1e-10: where some directions are stiff, the diagonal is large everywhere and more would hold back what is soft. A step that raises the cost is taken back and alpha multiplied by 2, 4, 8, ... (the printed
algorithm doubles the factor before its first use); after one that lowers it, alpha is multiplied by `max(1/3, 1 - (2 rho - 1)^3)`,

    rho = (C - C_new)/(-2 g'd - d'J'J d),   C = |F|^2,   g = J'F

the gain over what the linear model promised (the printed one has the other sign). With D = 1 the damping knows no units: where residuals are stiff in some
directions of the states it holds all others back, so that the iteration creeps, and the more so the stiffer the constraints are.

Stiff constraints also make the valley of the cost narrow and curved: a step along its tangent climbs its side. A step that gains much less than promised
is bent by what its residuals have beyond the linear model (`condensed.corrected`), with the same factors, and the better of both is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibody.errors import NumericalError
from calibody.solve.condensed import Step, corrected, singular, step
from calibody.solve.gauss_newton import AbstractProblem, Iteration, Solution, exhausted
from calibody.solve.threads import one_thread

FIRST, FIRST_PLAIN = 1e-10, 1e-6
"""First damping, relative to the diagonal of J'J, and to its largest entry."""
LARGEST = 1e8
"""Damping, relative likewise, at which no step is sought any more."""
CURVED = 0.9
"""Share of the expected gain below which a step is bent."""
RAMP = 10.0
"""By which the damping grows after the first step that is taken back; then by twice as much each time. As printed: 2."""
ROUGH = 1.0
"""The linear solution of a step is not refined: the damping changes it by more, and the gain ratio judges it."""


@dataclass(frozen=True)
class Settings:
    plain: bool = False
    """As printed: D = 1, and no step is bent."""
    iterations: int = 20
    """Most accepted steps."""
    tolerance: float = 0.1
    """Converged when a step moves the parameters by less than this many standard deviations (in the weights given) ..."""
    settled: float = 1e-3
    """... and the cost by less than this share, down or (dry friction has kinks) up; ..."""
    gain: float = 1e-6
    """... or when the linear model expects to lower it by less than this share; ..."""
    slight: float = 1e-2
    """... the damping being below this: steps are short under a large one."""
    proximal: np.ndarray | float = 0.0
    """Every step is held to the point it starts from, as in `gauss_newton.Settings`."""


@dataclass(frozen=True)
class _Trial:
    """A step, where it leads, and |F|^2 there: as the linear model has it, and as it is."""

    step: Step
    x: Any
    theta: np.ndarray
    expected: float
    cost: float

    @property
    def change(self) -> float:
        """Standard deviations by which it moves the parameters."""
        d = self.step.parameters
        return float(np.sqrt(max(d @ self.step.information @ d, 0.0)))


@one_thread
@np.errstate(over="ignore")
def minimise(
    problem: AbstractProblem, x: Any, theta: np.ndarray, settings: Settings | None = None, report: Callable[[Iteration], None] | None = None
) -> Solution:
    settings = Settings() if settings is None else settings
    theta = np.clip(np.asarray(theta, dtype=float), problem.lower, problem.upper)
    history: list[Iteration] = []
    alpha, unit, cost = FIRST_PLAIN if settings.plain else FIRST, 1.0, np.inf
    last: _Trial | None = None
    for number in range(1, settings.iterations + 1):
        lin = problem.linearise(x, theta)
        cost = float(lin.F @ lin.F)
        states, parameters = lin.diagonal, (lin.Ft**2).sum(axis=0)
        if settings.plain:
            unit = max(float(states.max()), float(parameters.max(initial=0.0))) if number == 1 else unit
            states, parameters = np.full_like(states, unit), np.full_like(parameters, unit)
        factor = 2.0 if settings.plain else RAMP
        while True:
            held = alpha * parameters + settings.proximal / problem.scale**2
            trial = _try(problem, lin, x, theta, alpha * states, held, not settings.plain)
            if trial is not None:
                last = trial
                if trial.cost < cost:
                    break
                if _settled(trial, cost, alpha, settings):
                    return Solution(x, theta, "converged", 0.5 * cost, history, trial.step)
            alpha, factor = alpha * factor, factor * 2.0
            if alpha >= LARGEST:
                if last is None:
                    raise singular()
                sentence = f"stopped at iteration {number}: no step lowers the cost any more; the constraints may be too stiff for this form."
                return Solution(x, theta, sentence, 0.5 * cost, history, last.step)
        history.append(Iteration(number, 0.5 * cost, 0.0, 1.0, trial.change, alpha, trial.theta))
        if report is not None:
            report(history[-1])
        x, theta = trial.x, trial.theta
        if _settled(trial, cost, alpha, settings):
            return Solution(x, theta, "converged", 0.5 * trial.cost, history, trial.step)
        rho = (cost - trial.cost) / (cost - trial.expected)
        alpha, cost = alpha * max(1.0 / 3.0, 1.0 - (2.0 * rho - 1.0) ** 3), trial.cost
    return Solution(x, theta, exhausted(history), 0.5 * cost, history, last.step if last is not None else None)


def _try(problem: AbstractProblem, lin: Any, x: Any, theta: np.ndarray, states: np.ndarray, held: np.ndarray, bend: bool) -> _Trial | None:
    """The step with the dampings `states` and `held`, or the same bent; None where the matrix is not positive definite to rounding."""
    cost, bounds = float(lin.F @ lin.F), (problem.lower, problem.upper)
    try:
        taken = step(lin, theta, *bounds, held, problem.scale, states=states, refined=ROUGH)
    except NumericalError:
        return None
    predicted = lin.F + lin.Fx @ taken.states + lin.Ft @ taken.parameters
    expected = float(predicted @ predicted)

    def at(taken: Step) -> tuple[_Trial, np.ndarray]:
        point = problem.move(x, taken.states), problem.shift(theta, taken.parameters)
        F, _ = problem.values(*point)
        return _Trial(taken, *point, expected, float(F @ F) if np.isfinite(F).all() else np.inf), F

    straight, F = at(taken)
    if not bend or not np.isfinite(straight.cost) or cost - straight.cost >= CURVED * (cost - expected):
        return straight
    bent, _ = at(corrected(lin, taken, F - predicted, theta, *bounds, held, problem.scale))
    return bent if bent.cost < straight.cost else straight


def _settled(trial: _Trial, cost: float, alpha: float, settings: Settings) -> bool:
    expected = cost - trial.expected
    moved = expected if settings.plain else min(expected, abs(cost - trial.cost))
    slight = settings.plain or alpha < settings.slight
    return slight and (expected < settings.gain * cost or (trial.change < settings.tolerance and moved < settings.settled * cost))
