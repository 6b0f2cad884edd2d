"""Another sequence of impacts, where the one that the first motion shows does not explain the data.

Two corners that strike within some milliseconds look like one; a corner may be taken for its neighbour; a kink may be none. So where a fit does not converge, or chi2 of a run is more than
`UNLIKELY` standard deviations too large, other sequences of that run are tried, each by a fit of the run alone: with an impact of a neighbouring place just before or after one, with the place of
one exchanged for the next lowest, and without one. The one with the least cost is kept, if it is less than that of the sequence at hand. What explains the data as well, to `ALIKE`, and gives other values, is listed.

Where friction is unknown, sticking is always consistent: more friction than needed does no harm. So the least friction for which impacts slip is tried as well (`slipping`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.flights import Struck
from calibody.estimate.hits import Hit, gaps
from calibody.estimate.kinks import representatives
from calibody.estimate.landing import hits_of
from calibody.estimate.layout import IMPACTS, States
from calibody.estimate.problem import Problem
from calibody.estimate.result import IMPACTS_DOUBTED
from calibody.estimate.run import Run
from calibody.estimate.touching import Touching
from calibody.estimate.untouched import UNLIKELY
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.solve.gauss_newton import Settings, Solution
from calibody.steppers.events import STICK

ROUNDS = 3
"""How often the sequences of runs are exchanged."""
TRIED = 24
"""Sequences of a run that are tried at most in each."""
STEPS, ATTEMPTS, SHORTEST = 12, 2, 0.05
"""Of a fit of one, which goes straight to its end from the right sequence: most steps, how often one is tried again with damping, and the shortest that is taken."""
BESIDE = 1.5
"""Sampling periods between an impact and one that is put beside it."""
ALIKE = 3.0
"""Difference of costs (halves of sums of squares) within which two sequences explain the data alike."""
APART = 1.0
"""Standard deviations by which the values of two such sequences differ, where that is worth saying."""
LESS = 0.7
"""Share of the friction that an impact needs to stick, from which it slips."""

Solve = Callable[[Problem, Sequence[States], np.ndarray, Settings], Solution]


@dataclass(frozen=True)
class Other:
    """A sequence of a run that explains the data as well."""

    run: str
    times: tuple[float, ...]
    values: dict[str, float]


def told_of(other: Other) -> str:
    """It, as a sentence."""
    values = ", ".join(f"{name} = {value:.4g}" for name, value in other.values.items())
    times = ", ".join(f"{t:.4g}" for t in other.times)
    return f"{IMPACTS_DOUBTED}: impacts of {other.run} at {times} s explain the data as well, and with them {values}."


def costs(problem: Problem, x: Sequence[States], theta: np.ndarray) -> list[tuple[float, int]]:
    """Sum of squares and number of samples of every run."""
    out = []
    for r, run in enumerate(problem.runs):
        fits = problem.fitted(r, x[r], theta)
        out.append((sum(float((((y - d.y) * run.weight(d)) ** 2).sum()) for d, y in fits), run.samples))
    return out


def unexplained(solution: Solution, given: bool) -> list[int]:
    """Runs whose sequence of impacts is not believed."""
    if not solution.converged:
        return list(range(len(solution.problem.runs)))
    if not given:
        return []
    return [r for r, (chi2, n) in enumerate(costs(solution.problem, solution.x, solution.theta)) if chi2 > n + UNLIKELY * np.sqrt(2.0 * n)]


def searched(
    touching: Touching, begun: tuple[Problem, Sequence[States]], solution: Solution, begin: np.ndarray, solve: Solve, settings: Settings, given: bool
) -> tuple[Solution, list[Other]]:
    """The solution with sequences that explain the data better, where there are any; and what explains them as well. `begun`: what it began with, from where the search does where it did not converge."""
    others: list[Other] = []
    for _ in range(ROUNDS):
        bad = unexplained(solution, given)
        if not bad:
            break
        problem, x = (solution.problem, list(solution.x)) if solution.converged else (begun[0], list(begun[1]))
        runs, found = list(problem.runs), []
        theta = solution.theta if solution.converged else begin
        for r in bad:
            best, alike = _best(touching, problem, r, x[r], theta, begin, solve, solution.converged)
            others += alike
            if best is not None:
                (runs[r],), (x[r],) = best.problem.runs, best.x
                found.append(r)
        if not found:
            break
        new = solve(replace(problem, runs=tuple(runs)), x, begin, settings)
        if not new.converged or (solution.converged and new.cost > solution.cost):
            break
        solution = new
    return slipping(solution, solve, settings), others


def _best(
    touching: Touching, problem: Problem, r: int, states: States, theta: np.ndarray, begin: np.ndarray, solve: Solve, converged: bool
) -> tuple[Solution | None, list[Other]]:
    """The best other sequence of a run, as a fit of that alone, and those that are as good."""
    run, single, columns = problem.runs[r], problem.singles[r], problem.columns[r]
    model, numbers, sensors = problem.model_of(r, theta)
    mesh = run.changed((), ()) if isinstance(run, Struck) else run
    now = costs(problem, [*[states] * len(problem.runs)], theta)[r][0] / 2.0 if converged else np.inf
    alone = mesh.still(states.q[:, 0]).changed(nodes=states.q[:, run.actual])
    tried: list[Solution] = []
    for hits in _options(run, mesh, model, numbers, states):
        try:
            with np.errstate(all="ignore"):
                candidate, start = touching.struck(mesh, hits, model, numbers, sensors) if hits else (mesh, alone)
                found = solve(
                    replace(single, runs=(candidate,)),
                    [start],
                    begin[columns],
                    Settings(iterations=STEPS, tolerance=0.03, attempts=ATTEMPTS, shortest=SHORTEST),
                )
        except (CalibodyError, NumericalError, np.linalg.LinAlgError, FloatingPointError):
            continue
        if found.converged:
            tried.append(found)
    tried.sort(key=lambda found: found.cost)
    if not tried or tried[0].cost > now - ALIKE:
        return None, []
    return tried[0], list(_alike(tried, problem, r))


def _alike(tried: Sequence[Solution], problem: Problem, r: int) -> Iterator[Other]:
    """Those within `ALIKE` of the best whose values are elsewhere."""
    best = tried[0]
    names = [e.name for e in problem.entries_of[r]]
    for other in tried[1:]:
        step = other.theta - best.theta
        far = best.last is not None and float(step @ best.last.information @ step) > APART**2
        if other.cost < best.cost + ALIKE and far:
            times = other.x[0].parts[IMPACTS][:, 0] if isinstance(other.problem.runs[0], Struck) else ()
            yield Other(problem.runs[r].recording.name, tuple(map(float, times)), dict(zip(names, map(float, other.theta), strict=True)))


def _options(run: Run, mesh: Run, model: Model, numbers: Numbers, states: States) -> Iterator[list[Hit]]:
    """Other sequences than that of a run."""
    hits = hits_of(run) if isinstance(run, Struck) else []
    gap = gaps(run.structure, model, numbers, states.q[:, run.actual])
    places = representatives(gap)
    period = min((float(np.median(np.diff(d.times))) for d in run.data if len(d.times) > 1), default=run.h)
    count = 0
    for option in _varied(hits, gap, places, mesh, BESIDE * period):
        yield option
        count += 1
        if count >= TRIED:
            return


def _varied(hits: list[Hit], gap: np.ndarray, places: np.ndarray, mesh: Run, beside: float) -> Iterator[list[Hit]]:
    for i, hit in enumerate(hits):
        node = int(np.clip(round((hit.time - mesh.times[0]) / mesh.h), 0, gap.shape[1] - 1))
        near = [int(p) for p in places[np.argsort(gap[places, node])] if p != hit.spot][:1]
        for spot in near:
            yield [*hits[:i], hit, Hit(hit.time + beside, spot), *hits[i + 1 :]]
            yield [*hits[:i], Hit(hit.time - beside, spot), hit, *hits[i + 1 :]]
    for i, hit in enumerate(hits):
        node = int(np.clip(round((hit.time - mesh.times[0]) / mesh.h), 0, gap.shape[1] - 1))
        for spot in [int(p) for p in places[np.argsort(gap[places, node])] if p != hit.spot][:1]:
            yield [*hits[:i], Hit(hit.time, spot), *hits[i + 1 :]]
        yield [*hits[:i], *hits[i + 1 :]]


def slipping(solution: Solution, solve: Solve, settings: Settings) -> Solution:
    """The fit with less friction, where that is unknown and impacts stick that would slip with a little less: the better of the two."""
    if not solution.converged:
        return solution
    problem = solution.problem
    for k, e in enumerate(problem.entries):
        owner = next(
            (p.path.removesuffix(".friction") for p in e.places if p.sensor is None and p.path.startswith("contact.") and p.path.endswith(".friction")), None
        )
        ratios = [] if owner is None else list(_needed(problem, solution.x, owner))
        if not ratios:
            continue
        theta = solution.theta.copy()
        theta[k] = max(LESS * float(np.max(ratios)), e.lower)
        try:
            other = solve(problem, solution.x, theta, settings)
        except (NumericalError, np.linalg.LinAlgError):
            continue
        if other.converged and other.cost < solution.cost - 1e-6:
            solution, problem = other, other.problem
    return solution


def _needed(problem: Problem, x: Sequence[States], owner: str) -> Iterator[float]:
    """What friction the impacts on a contact that stick need."""
    for run, states in zip(problem.runs, x, strict=True):
        if isinstance(run, Struck):
            for strike, name, (_, n, *t) in zip(run.strikes, run.owners, states.parts[IMPACTS], strict=True):
                if name == owner and strike.mode == STICK and n > 0.0:
                    yield float(np.hypot(*t)) / n
