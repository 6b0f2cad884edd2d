"""Generalised Gauss-Newton for constrained least squares: linearise, step, line search on an exact penalty function.

The merit function is `1/2 |F|^2 + slope'theta + sum mu_i |C_i|`, with mu_i kept above the multiplier of its row, so that a Gauss-Newton step is a descent direction ([bock1987]; [nocedal2006], section 18.3). When the line search has to shorten the
step much, the parameters are damped (Levenberg-Marquardt in their declared scales) and the step is computed again. Where that does not help, or one short step follows
another, it is the states that the data hardly determine: far away is as good as near to the linear problem, and only to that. Then the states are damped instead (`AbstractProblem.tethered`),
until steps go through again; the last steps are always undamped. Instead of the merit function natural level functions may judge a step (`natural.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.solve.arrow import Arrow
from calibody.solve.chain import Chain
from calibody.solve.condensed import REFINED, Linearisation, Step, step
from calibody.solve.globalisation import PENALISED, PENALTY, Globalisation
from calibody.solve.natural import Held, bend, search as by_level
from calibody.solve.threads import one_thread

RESPONSE = 1e-7
"""How precise the response of the states to the parameters is in a step (relative): the next step mends it, and refinement costs as much as the
factorisation where parameters are many. Error bars take more (`condensed.REFINED`)."""

LONGEST_CYCLE = 4
"""Steps of a cycle between pieces of piecewise equations that is looked for; two and three were seen."""

BACK = 0.6
"""Part of the step before that a step goes back by from which only half of it is tried."""

ATTEMPTS = 12
"""See `Settings.attempts`."""

SHORT, PATIENCE = 0.1, 1
"""A step is short that is cut to less than this; one that follows so many short ones is computed again with the states damped."""

LONG = 0.25
"""Damping of the states is raised tenfold until so much of the step can be taken, ..."""

FIRST, TIGHTEST = 1.0, 1e4
"""... from the first (every node as if known to 1 rad or m where it is) up to the second (1e-2), from where any step will do: tighter ones only make the
parameters pay for what the states may not."""

RELAXED = 100.0
"""What damping of the states is divided by after a full step; below `FIRST` there is none."""


class AbstractProblem(ABC):
    """States x on a manifold (opaque to the solver), parameters theta a vector."""

    lower: np.ndarray
    upper: np.ndarray
    scale: np.ndarray
    """Size of a change of each parameter that counts as one."""
    slope: np.ndarray | float = 0.0
    """A linear term `slope'theta` of the cost."""

    @property
    def tethered(self) -> np.ndarray | float:
        """What the square of a change of each state counts where the states are damped: 1 where a change of 1 is a large one, 0 where none is too large. 0: they never are."""
        return 0.0

    @property
    def small(self) -> bool:
        """Whether the last linearisation is kept, so that asking for it again costs nothing."""
        return False

    @abstractmethod
    def linearise(self, x: Any, theta: np.ndarray) -> Any:
        """A `Linearisation` (sparse) or a `Chain` (blocks)."""

    @abstractmethod
    def values(self, x: Any, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F and C only."""

    @abstractmethod
    def move(self, x: Any, d: np.ndarray) -> Any:
        """The states displaced by a tangent vector."""

    def settled(self, x: Any, theta: np.ndarray) -> tuple[AbstractProblem, Any] | None:
        """What has become of the problem, and its states, where a step changes more than numbers (which interval an impact is in); None: nothing has."""
        return None

    def shift(self, theta: np.ndarray, d: np.ndarray) -> np.ndarray:
        """The parameters displaced by d, within their bounds; to first order the sum."""
        return np.clip(theta + d, self.lower, self.upper)


@dataclass(frozen=True)
class Settings:
    """When to stop and how hard to try."""

    iterations: int = 60
    """Most Gauss-Newton steps."""
    tolerance: float = 1e-4
    """Converged when a full step moves the parameters by less than this many standard deviations (given the stated noise) ..."""
    feasibility: float = 1e-7
    """... and no equation is off by more than this after it, relative to the size of its terms: what a step leaves of them is of second order in it, so the states
    moved little too. (Without parameters there is only that to go by, and the equations have to hold before the step already.)"""
    close: float = 0.03
    """Where a kink (dry friction) keeps the iteration between two neighbouring pieces, it counts as converged after three steps in a row
    that move the parameters by less than this many standard deviations each (rms), the equations holding to `close_feasibility`."""
    close_feasibility: float = 1e-4
    proximal: np.ndarray | float = 1.0
    """Every step is held to the point it starts from as if that were known to one declared scale, times this to the power -1/2: nothing where the data say
    more, and what they do not determine stays where it is."""
    shortest: float = 1e-3
    """Shortest step length before damping is raised."""
    attempts: int = ATTEMPTS
    """Steps tried with more and more damping of the parameters, and as many then of the states, before giving up."""
    repeats: int = 4
    """So many points in a row that it has been at before end an iteration that goes round between the sides of kinks. Before that the line search may still find a way out; where
    there is another way to go on, one is enough."""
    globalisation: Globalisation = PENALISED
    """How long steps are, and whether they are bent."""
    jagged: bool = False
    """Whether the cost has teeth finer than differences see (an engine whose friction sticks in one step or the next): a step as short as `close` that does not lower it, the equations holding, is then not
    taken and the last. It would go on along a tooth, up or down, for as many more as it takes to be shorter than `tolerance`."""


@dataclass
class Iteration:
    """One line of the table of iterations."""

    number: int
    cost: float
    violation: float
    length: float
    change: float
    """Size of the parameter step in standard deviations."""
    damping: float
    """Of the parameters."""
    theta: np.ndarray = field(repr=False)
    """The parameters after the step."""
    tether: float = 0.0
    """Damping of the states."""
    stage: str = ""
    """What it is part of, in words; this and the two below are for people and are added by estimators (`estimate/telling.py`)."""
    h: float = 0.0
    """Step of its mesh [s]."""
    moving: str = ""
    """The parameter that the step has changed most."""


@dataclass
class Solution:
    """The end of the iteration; `status` is "converged" or a sentence."""

    x: Any
    theta: np.ndarray
    status: str
    cost: float
    history: list[Iteration]
    last: Step | None
    """Without its runs."""
    problem: Any = None
    """What was solved: another than what it began with where that has settled differently (`AbstractProblem.settled`)."""

    @property
    def converged(self) -> bool:
        return self.status == "converged"


def exhausted(history: Sequence[Iteration]) -> str:
    """The sentence of an iteration that came to its limit."""
    return f"stopped after {len(history)} iterations without converging; the last step still moved the parameters by {history[-1].change:.2g} sd."


@one_thread
def minimise(
    problem: AbstractProblem, x: Any, theta: np.ndarray, settings: Settings | None = None, report: Callable[[Iteration], None] | None = None
) -> Solution:
    settings = Settings() if settings is None else settings
    theta = np.clip(np.asarray(theta, dtype=float), problem.lower, problem.upper)
    damping, tether, short = 0.0, 0.0, 0
    penalty: np.ndarray | float = 0.0
    history: list[Iteration] = []
    lin = problem.linearise(x, theta)
    taken: Step | None = None
    before: np.ndarray | None = None
    close = 0
    tethered = problem.tethered
    loose = not np.any(tethered)
    precision = np.append(np.full(len(theta), RESPONSE), REFINED)
    for number in range(1, settings.iterations + 1):
        cost = 0.5 * float(lin.F @ lin.F)
        violation = _violation(lin)
        for attempt in range(settings.attempts if loose else 2 * settings.attempts):
            held = (settings.proximal + damping) / problem.scale**2
            taken = step(lin, theta, problem.lower, problem.upper, held, problem.scale, problem.slope, tether * tethered, precision)
            if not all(np.isfinite(a).all() for a in (taken.states, taken.multipliers, taken.parameters)):
                damping = max(10.0 * damping, 1e-3)
                continue
            change = float(np.sqrt(max(taken.parameters @ taken.information @ taken.parameters, 0.0)))
            trial = penalised(penalty, taken.multipliers)
            back = before is not None and _goes_back(taken, before)
            length, new = advanced(problem, lin, taken, x, theta, trial, Held(held, tether * tethered, problem.slope), settings, 0.5 if back else 1.0)
            size = lin.size(theta)
            free = damping == tether == 0.0
            done = free and change < settings.tolerance and violation < settings.feasibility * size
            near = free and change < settings.close * np.sqrt(max(len(theta), 1)) and violation < settings.close_feasibility * size
            close = close + 1 if near else 0
            if settings.jagged and near and violation < settings.feasibility * size and _cost(problem, *new) >= cost:
                length, new = 0.0, (x, theta)
            stuck = near and length < settings.shortest  # at the bottom, as far as rounding and kinks allow
            done = done or stuck or close >= 3
            creeping = not loose and tether == 0.0 and short >= PATIENCE and length < SHORT
            if done or (length >= (LONG if 0.0 < tether < TIGHTEST else settings.shortest) and not creeping):
                break
            if tether > 0.0:
                tether *= 10.0
            elif creeping or attempt == settings.attempts - 1:
                damping, tether = 0.0, FIRST
            else:
                penalty = trial
                damping = max(10.0 * damping, 1e-2 * float(np.max(taken.information.diagonal() * problem.scale**2, initial=1e-8)))
        else:
            sentence = f"stopped at iteration {number}: no step lowers the cost any more; look at the residuals, or give better initial values."
            return Solution(x, theta, sentence, cost, history, None if taken is None else taken.alone, problem)
        penalty = trial
        history.append(Iteration(number, cost, violation, length, change, damping, new[1], tether))
        if report is not None:
            report(history[-1])
        short = short + 1 if length < SHORT else 0
        before, taken = length * taken.parameters, taken.alone
        x, theta = new
        changed = problem.settled(x, theta)
        if changed is not None:
            problem, x = changed
            lin, penalty, before, close = problem.linearise(x, theta), 0.0, None, 0
            tethered = problem.tethered
            continue
        if length > 0.0:
            lin = problem.linearise(x, theta)
        small = done or (len(theta) > 0 and free and length == 1.0 and change < settings.tolerance)
        if small and _violation(lin) < (settings.close_feasibility if close else settings.feasibility) * size:
            return Solution(x, theta, "converged", 0.5 * float(lin.F @ lin.F), history, taken, problem)
        if _alternates(history, taken.information, settings.repeats):
            sentence = f"stopped after {number} iterations: it goes back and forth by {change:.2g} sd, as between two sides of a kink."
            return Solution(x, theta, sentence, 0.5 * float(lin.F @ lin.F), history, taken, problem)
        if length > 0.9:
            damping = 0.0 if damping < 1e-6 else damping / 10.0
            tether = 0.0 if tether < FIRST * RELAXED else tether / RELAXED
    return Solution(x, theta, exhausted(history), 0.5 * float(lin.F @ lin.F), history, taken, problem)


def _goes_back(taken: Step, before: np.ndarray) -> bool:
    """Whether a step goes back most of the way that the one before went: over a kink, or where residuals bend much; the bottom is then between the two."""
    return float(taken.parameters @ taken.information @ before) < -BACK * float(before @ taken.information @ before)


def _alternates(history: Sequence[Iteration], information: Arrow, repeats: int) -> bool:
    """Whether the last `repeats` points are those of two, three or four steps before, to a fiftieth of the shortest way between them."""
    for period in range(2, min(LONGEST_CYCLE, len(history) - repeats) + 1):
        way = min(i.change for i in history[-period:])
        back = [a.theta - b.theta for a, b in zip(history[-repeats:], history[-repeats - period : -period], strict=True)]
        if all(d @ information @ d < (0.02 * way) ** 2 for d in back):
            return True
    return False


def _cost(problem: AbstractProblem, x: Any, theta: np.ndarray) -> float:
    F, _ = problem.values(x, theta)
    return 0.5 * float(F @ F)


def _violation(lin: Linearisation | Chain) -> float:
    """The largest violation of an equation."""
    return float(np.abs(lin.C).max(initial=0.0))


def penalised(before: np.ndarray | float, multipliers: np.ndarray) -> np.ndarray:
    """Half as much again as the largest multiplier each row has had, and a little for rows that have none."""
    size = np.abs(multipliers)
    return np.maximum(before, 1.5 * size + 1e-3 * float(size.max(initial=0.0)))


def _tried(problem: AbstractProblem, candidate: tuple) -> tuple[np.ndarray, np.ndarray]:
    """F and C of a step that is likely taken, with all their derivatives, which are then known."""
    try:
        lin = problem.linearise(*candidate)
    except CalibodyError:
        return np.full(1, np.inf), np.full(1, np.inf)
    return lin.F, lin.C


def advanced(
    problem: AbstractProblem, lin: Linearisation | Chain, taken: Step, x: Any, theta: np.ndarray, penalty: np.ndarray, held: Held, settings: Settings, first: float
) -> tuple[float, tuple]:  # fmt: skip
    """How much of a step is taken, and where it leads; 0 and the old point if none is."""
    if settings.globalisation.test != PENALTY:
        return by_level(problem, lin, taken, x, theta, held, settings.globalisation, settings.shortest, first)
    length, new = search(problem, lin, taken, x, theta, penalty, settings.shortest, first)
    if length == 0.0 or not settings.globalisation.back_projection:
        return length, new
    values = problem.values(*new)
    b = bend(lin, taken, held, length, *values, problem.scale)
    there = problem.move(new[0], b.states), problem.shift(new[1], b.parameters)
    at = problem.values(*there)
    better = all(np.isfinite(v).all() for v in at) and merit(problem, *at, there[1], penalty) < merit(problem, *values, new[1], penalty)
    return length, there if better else new


def merit(problem: AbstractProblem, F: np.ndarray, C: np.ndarray, theta: np.ndarray, penalty: np.ndarray) -> float:
    return 0.5 * float(F @ F) + float(np.sum(problem.slope * theta)) + float(penalty @ np.abs(C))


def search(
    problem: AbstractProblem, lin: Linearisation | Chain, taken: Step, x: Any, theta: np.ndarray, penalty: np.ndarray, shortest: float, first: float = 1.0
) -> tuple[float, tuple]:
    """Halve the step, `first` times its length to begin with, until the merit function decreases; 0 and the old point if it does not.

    A first step that fails only because the equations curve is tried once more with the states corrected for it (against the Maratos effect).
    """

    start = merit(problem, lin.F, lin.C, theta, penalty)
    predicted = lin.F + lin.Fx @ taken.states + lin.Ft @ taken.parameters
    expected = start - merit(problem, predicted, np.zeros_like(lin.C), theta + taken.parameters, penalty)
    length = first
    while length >= shortest:
        candidate = problem.move(x, length * taken.states), problem.shift(theta, length * taken.parameters)
        values = _tried(problem, candidate) if length == first and problem.small else problem.values(*candidate)
        if all(np.isfinite(v).all() for v in values):
            # rounding: the merit cannot be trusted below 1e-12 of itself
            enough = start - 1e-4 * length * max(expected, 0.0) + 1e-12 * abs(start)
            if merit(problem, *values, candidate[1], penalty) <= enough:
                return length, candidate
            if length == first and len(values[1]):
                curved = taken.factor.solve(np.concatenate([np.zeros(taken.factor.n), -values[1]]))[: taken.factor.n]
                corrected = problem.move(candidate[0], curved), candidate[1]
                values = problem.values(*corrected)
                if all(np.isfinite(v).all() for v in values) and merit(problem, *values, corrected[1], penalty) <= enough:
                    return length, corrected
        length *= 0.5
    return 0.0, (x, theta)
