"""Levenberg-Marquardt for least squares on a manifold with bounds on the parameters (seed 000, algorithm 1, with its two slips mended).

    (J'J + alpha D) d = -J'F      within the bounds on theta

with D = 1 as printed, and alpha starting at 1e-6 of the largest diagonal entry of J'J; or, by default, D the diagonal of J'J (Marquardt 1963) and alpha
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

from calibody.errors import CalibodyError
from calibody.solve.condensed import Step, corrected, singular, step
from calibody.solve.gauss_newton import AbstractProblem, Iteration, Solution, exhausted
from calibody.solve.threads import one_thread

FIRST, FIRST_PLAIN = 1e-10, 1e-6
"""First damping, relative to the diagonal of J'J, and to its largest entry."""
LARGEST = 1e8
"""Damping, relative likewise, at which no step is sought any more."""
CURVED = 0.9
"""Share of the expected gain below which a step is bent."""
ROUGH = 1.0
"""The linear solution of a step is not refined: the damping changes it by more, and the gain ratio judges it."""


@dataclass(frozen=True)
class Settings:
    plain: bool = False
    """D = 1, as printed."""
    iterations: int = 20
    """Most accepted steps."""
    tolerance: float = 0.1
    """Converged when the parameters would move by less than this many standard deviations (in the weights given) without damping ..."""
    gain: float = 1e-6
    """... or when the last step lowered the cost by less than this share, and the linear model expects no more of the next; ..."""
    slight: float = 1e-2
    """... the damping being below this: steps are short under a large one."""
    proximal: np.ndarray | float = 0.0
    """Every step is held to the point it starts from, as in `gauss_newton.Settings`."""


@one_thread
@np.errstate(over="ignore")
def minimise(
    problem: AbstractProblem, x: Any, theta: np.ndarray, settings: Settings | None = None, report: Callable[[Iteration], None] | None = None
) -> Solution:
    settings = Settings() if settings is None else settings
    theta = np.clip(np.asarray(theta, dtype=float), problem.lower, problem.upper)
    history: list[Iteration] = []
    lin = problem.linearise(x, theta)
    alpha, unit = FIRST_PLAIN if settings.plain else FIRST, 1.0
    taken: Step | None = None
    for number in range(1, settings.iterations + 1):
        cost = float(lin.F @ lin.F)
        states, parameters = lin.diagonal, (lin.Ft**2).sum(axis=0)
        if settings.plain:
            unit = max(float(states.max()), float(parameters.max(initial=0.0))) if number == 1 else unit
            states, parameters = np.full_like(states, unit), np.full_like(parameters, unit)
        factor, rho, new, expected, after = 2.0, -1.0, (x, theta), 0.0, cost
        while rho <= 0.0 and alpha < LARGEST:
            held = alpha * parameters + (0.0 if settings.plain else settings.proximal / problem.scale**2)
            try:
                taken = step(lin, theta, problem.lower, problem.upper, held, problem.scale, states=alpha * states, refined=ROUGH)
            except CalibodyError:  # not positive definite to rounding: more damping
                alpha, factor = alpha * factor, factor * 2.0
                continue
            predicted = lin.F + lin.Fx @ taken.states + lin.Ft @ taken.parameters
            expected = cost - float(predicted @ predicted)
            new = problem.move(x, taken.states), problem.shift(theta, taken.parameters)
            F, _ = problem.values(*new)
            after = float(F @ F) if np.isfinite(F).all() else np.inf
            if not settings.plain and np.isfinite(after) and after > cost - CURVED * expected:
                bent = corrected(lin, taken, F - predicted, theta, problem.lower, problem.upper, held, problem.scale)
                other = problem.move(x, bent.states), problem.shift(theta, bent.parameters)
                F, _ = problem.values(*other)
                if np.isfinite(F).all() and float(F @ F) < after:
                    taken, new, after = bent, other, float(F @ F)
            rho = (cost - after) / expected if expected > 0.0 else -1.0
            if expected <= settings.gain**2 * cost:  # nothing left to gain, to rounding
                break
            if rho <= 0.0:
                alpha, factor = alpha * factor, factor * 2.0
        if taken is None:
            raise singular()
        change = float(np.sqrt(max(taken.parameters @ taken.information @ taken.parameters, 0.0)))
        if rho <= 0.0:
            small = expected <= 10.0 * settings.gain * cost and (settings.plain or alpha < settings.slight)
            sentence = (
                "converged" if small else f"stopped at iteration {number}: no step lowers the cost any more; the constraints may be too stiff for this form."
            )
            return Solution(x, theta, sentence, 0.5 * cost, history, taken)
        history.append(Iteration(number, 0.5 * cost, 0.0, 1.0, change, alpha, new[1]))
        if report is not None:
            report(history[-1])
        x, theta = new
        lin = problem.linearise(x, theta)
        slight = settings.plain or alpha < settings.slight
        alpha *= max(1.0 / 3.0, 1.0 - (2.0 * rho - 1.0) ** 3)
        if slight and ((change < settings.tolerance and expected < 1e-3 * cost) or expected < settings.gain * cost):
            return Solution(x, theta, "converged", 0.5 * after, history, taken)
    return Solution(x, theta, exhausted(history), 0.5 * float(lin.F @ lin.F), history, taken)
