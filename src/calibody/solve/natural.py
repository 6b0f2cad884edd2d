"""How far a step of Gauss-Newton goes, judged by the step that the same factors would take from there: natural level functions ([bock1987]; [kraus2006], 1.30 to 1.33).

With the residuals r = (F, C) and J^+ the generalised inverse of their derivative at x_k, which every step has factored already,

    dx = -J^+ r(x_k),       b(e) = -J^+ (r(x_k + e dx) - (1 - e) r(x_k)),       T(e) = |J^+ r(x_k + e dx)| = |(1 - e) dx + b(e)|

b(e) is what the equations bend away from the straight line within the part e of a step, of second order in e. It costs the residuals there and one solution with the factors at hand, and serves three times:

    natural (monotonicity test)      T(e) <= (1 - SHARE e) T(0)         a point nearer to the solution of the linear problem
    restrictive test                 |b(e)| <= ETA/2 e |dx|             near the path that follows dx all the way; the next length to try is that of equality
    back projection                  x_(k+1) = x_k + e dx + b(e)        onto that path again, a correction of second order, unless it is longer than the step

All three do not change when equations are multiplied by any regular matrix, which a sum of squares and penalties does. Lengths |.| are those of the parameters in their scales and of the states, root mean squares of both, in the problem's
own units (`AbstractProblem.tethered`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.solve.arrow import bounded
from calibody.solve.condensed import Runs, runs_of, split_by_run
from calibody.solve.globalisation import RESTRICTIVE, Globalisation

if TYPE_CHECKING:
    from calibody.solve.chain import Chain
    from calibody.solve.condensed import Linearisation, Step

SHARE = 0.25
"""Of the linear decrease of T that a step has to show."""
ETA = 1.0
"""The bend of a step may be half of this times its length: below 2 the path is followed; 1 is what [bock2000] take as usual."""
SLACK = 1.5
"""A length is good whose bend is up to so many times what it may be: another one would be hardly shorter."""
SLIGHT = 1e-3
"""Part of a step that is not bent back: the next step does it by the way, and the residuals there are saved."""
SHORTENED = 0.1, 0.7
"""A shorter length is at least and at most this part of the one before."""


@dataclass(frozen=True, eq=False)
class Held:
    """What a step was damped with, and the linear term of the cost: they belong to r."""

    parameters: np.ndarray
    states: np.ndarray | float
    slope: np.ndarray | float


@dataclass(frozen=True, eq=False)
class Bend:
    """b(e)."""

    states: np.ndarray
    parameters: np.ndarray


def bend(lin: Linearisation | Chain | Runs, taken: Step, held: Held, length: float, F: np.ndarray, C: np.ndarray, scale: np.ndarray) -> Bend:
    """From the residuals at x_k + e dx. Parameters that the step has put on a bound stay there."""
    runs = runs_of(lin, len(scale))
    F, C = F - (1.0 - length) * lin.F, C - (1.0 - length) * lin.C
    Fs = np.split(F[len(runs.loose) :], np.cumsum([len(part.F) for part in runs.parts])[:-1])
    Cs = np.split(C, np.cumsum([len(part.C) for part in runs.parts])[:-1])
    moved = split_by_run(runs, held.states * length * taken.states) if np.any(held.states) else [0.0] * len(runs.parts)
    gradient = runs.loose_theta.T @ F[: len(runs.loose)] + length * (held.slope + held.parameters * taken.parameters)
    sides = [np.concatenate([part.Fx.T @ f + m, c]) for part, f, c, m in zip(runs.parts, Fs, Cs, moved, strict=True)]
    for part, own, side, f in zip(runs.parts, taken.runs, sides, Fs, strict=True):
        n = own.factor.n
        z = own.factor.solve(-side)
        gradient[own.columns] += part.Ft.T @ (f + part.Fx @ z[:n]) + part.Ct.T @ z[n:]
    free = np.where(taken.at_bound, 0.0, np.inf)
    d, _ = bounded(taken.information.plus(held.parameters), gradient, -free, free, scale)
    states = []
    for part, own, side in zip(runs.parts, taken.runs, sides, strict=True):
        n, by = own.factor.n, d[own.columns]
        along = part.Ft @ by
        states.append(own.factor.solve(-side - np.concatenate([part.Fx.T @ along, part.Ct @ by]))[:n])
    return Bend(np.concatenate(states), d)


@dataclass(frozen=True, eq=False)
class Metric:
    """The length of a step."""

    states: np.ndarray | float
    scale: np.ndarray

    def __call__(self, states: np.ndarray, parameters: np.ndarray) -> float:
        weight = np.broadcast_to(self.states, states.shape)
        by_states = float(weight @ states**2) / max(float(weight.sum()), 1.0)
        return float(np.sqrt(by_states + float(np.mean((parameters / self.scale) ** 2)) if len(parameters) else by_states))


def search(
    problem: Any, lin: Any, taken: Step, x: Any, theta: np.ndarray, held: Held, how: Globalisation, shortest: float, first: float
) -> tuple[float, tuple]:  # fmt: skip
    """As `gauss_newton.search`, by one of the tests above."""
    size = Metric(problem.tethered, problem.scale)
    whole, length = size(taken.states, taken.parameters), first
    while length >= shortest:
        candidate = problem.move(x, length * taken.states), problem.shift(theta, length * taken.parameters)
        values = problem.values(*candidate)
        if not all(np.isfinite(v).all() for v in values):
            length *= 0.5
            continue
        b = bend(lin, taken, held, length, *values, problem.scale)
        bent = size(b.states, b.parameters)
        if how.test == RESTRICTIVE:
            allowed = 0.5 * ETA * length * whole
            good, shorter = bent <= SLACK * allowed, allowed / max(bent, 1e-300)
        else:
            left = size((1.0 - length) * taken.states + b.states, (1.0 - length) * taken.parameters + b.parameters)
            good, shorter = left <= (1.0 - SHARE * length) * whole, 0.5
        if good:
            return length, _projected(problem, candidate, b) if how.back_projection and SLIGHT * length * whole < bent <= length * whole else candidate
        length *= float(np.clip(shorter, *SHORTENED))
    return 0.0, (x, theta)


def _projected(problem: Any, candidate: tuple, b: Bend) -> tuple:
    """Back onto the path, where the problem has values there."""
    there = problem.move(candidate[0], b.states), problem.shift(candidate[1], b.parameters)
    return there if all(np.isfinite(v).all() for v in problem.values(*there)) else candidate
