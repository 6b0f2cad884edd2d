"""Another sequence of impacts, where the one that the first motion shows does not explain the data.

Two corners that strike within some milliseconds look like one; a corner may be taken for its neighbour; a kink may be none. So where a fit does not converge, or chi2 of a run is more than
`UNLIKELY` standard deviations too large, other sequences of that run are tried, each by a fit of the run alone: with an impact of a neighbouring place just before or after one, with the place of
one exchanged for the next lowest, and without one. The one with the least cost is kept, if it is less than that of the sequence at hand. What explains the data as well, to `ALIKE`, and gives other values, is listed.

Where friction is unknown, sticking is always consistent: more friction than needed does no harm. So the least friction for which impacts slip is tried as well (`slipping`). At its limit a slip that stops is
a stick, with the same cost: that impacts slip has to explain the data better by `ALIKE`, else they stick, and friction is at least so much.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.hits import Hit, gaps
from calibody.estimate.contacts.kinks import representatives
from calibody.estimate.contacts.landing import hits_of
from calibody.estimate.contacts.proposals import Proposed
from calibody.estimate.contacts.settle import met
from calibody.estimate.contacts.touching import Touching
from calibody.estimate.contacts.untouched import UNLIKELY
from calibody.estimate.layout import IMPACTS, States
from calibody.estimate.problem import Problem
from calibody.estimate.result import IMPACTS_DOUBTED
from calibody.estimate.run import Run
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.solve.gauss_newton import Settings, Solution
from calibody.steppers.events import SLIP, STICK

ROUNDS = 3
"""How often the sequences of runs are exchanged."""
TRIED = 24
"""Sequences of a run that are tried at most in each."""
STEPS, ATTEMPTS, SHORTEST = 12, 2, 0.05
"""Of a fit of one, which goes straight to its end from the right sequence: most steps, how often one is tried again with damping, and the shortest that is taken."""
POLISHED = 8
"""Different sequences of particles from which a fit is tried."""
FAR = 60.0
"""Sum of squares by which a particle may be worse than the best: they are not at their optimum."""
BESIDE = 1.5
"""Sampling periods between an impact and one that is put beside it."""
ALIKE = 3.0
"""Difference of costs (halves of sums of squares) within which two sequences explain the data alike."""
APART = 1.0
"""Standard deviations by which the values of two such sequences differ, where that is worth saying."""
LESS, MORE = 0.7, 1.05
"""Share of the friction that an impact needs to stick, from which it slips; and times the friction with which it slips, from which it is tried whether it sticks ..."""
CREEPS = 0.1
"""... where it slips no faster after it than this share of the speed at which it approached."""

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
    touching: Touching, begun: tuple[Problem, Sequence[States]], solution: Solution, begin: np.ndarray, solve: Solve, settings: Settings, given: bool,
    proposed: Mapping[int, Proposed],
) -> tuple[Solution, list[Other]]:  # fmt: skip
    """The solution with sequences that explain the data better, where there are any; and what explains them as well. `begun`: what it began with, from where the search does where it did not converge."""
    others: list[Other] = []
    alone = 0 if len(solution.problem.runs) == 1 and proposed else None
    for turn in range(ROUNDS):
        bad = [r for r in unexplained(solution, given) if not solution.problem.runs[r].recording.impacts] or ([0] if alone == turn else [])
        if not bad:
            break
        problem, x = (solution.problem, list(solution.x)) if solution.converged else (begun[0], list(begun[1]))
        runs, found = list(problem.runs), []
        theta = solution.theta if solution.converged else begin
        for r in bad:
            candidates = proposed_runs(touching, problem, r, begin, proposed[r]) if r in proposed else varied_runs(touching, problem, r, x[r], theta, begin)
            best, alike = _best(problem, r, x[r], theta, solution, candidates, solve)
            others += alike
            if best is not None:
                (runs[r],), (x[r],) = best.problem.runs, best.x
                found.append((r, best))
        if not found:
            break
        guess = begin
        if len(runs) == 1:
            guess = found[0][1].theta
        new = solve(replace(problem, runs=tuple(runs)), x, guess, settings)
        if not new.converged or (solution.converged and new.cost > solution.cost):
            break
        solution = new
    return sticking(slipping(solution, solve, settings), solve, settings), others


def _best(
    problem: Problem, r: int, states: States, theta: np.ndarray, solution: Solution, candidates: Iterable[tuple[Run, States, np.ndarray]], solve: Solve
) -> tuple[Solution | None, list[Other]]:
    """The best other sequence of a run, as a fit of that alone, and those that are as good."""
    single, alone = problem.singles[r], len(problem.runs) == 1
    now = costs(problem, [*[states] * len(problem.runs)], theta)[r][0] / 2.0 if solution.converged else np.inf
    tried: list[Solution] = [solution] if solution.converged and alone else []
    for candidate, start, begin in candidates:
        if any(same(candidate, other.problem.runs[0]) for other in tried):
            continue
        try:
            with np.errstate(all="ignore"):
                found = solve(
                    replace(single, runs=(candidate,)), [start], begin, Settings(iterations=STEPS, tolerance=0.03, attempts=ATTEMPTS, shortest=SHORTEST)
                )
        except (CalibodyError, NumericalError, np.linalg.LinAlgError, FloatingPointError):
            continue
        if found.converged and not any(same(found.problem.runs[0], other.problem.runs[0]) for other in tried):
            tried.append(found)
    tried.sort(key=lambda found: found.cost)
    if not tried:
        return None, []
    least, spots = tried[0].cost, _spots(tried[0])
    tried.sort(key=lambda found: (found.cost > least + ALIKE or _spots(found) != spots, _slips(found), found.cost))
    if alone:
        return (tried[0] if tried[0] is not solution else None), list(_alike(tried, problem, r))
    return (tried[0], list(_alike(tried, problem, r))) if tried[0].cost <= now - ALIKE else (None, [])


def _spots(solution: Solution) -> list[int]:
    """Places that are struck."""
    run = solution.problem.runs[0]
    return [s.spot for s in run.strikes] if isinstance(run, Struck) else []


def _slips(solution: Solution) -> int:
    """How many impacts slip, where that is all that tells a friction."""
    problem = solution.problem
    asked = {p.path.removesuffix(".friction") for e in problem.entries for p in e.places if p.path.endswith(".friction")}
    return sum(s.mode != STICK and name in asked for run in problem.runs if isinstance(run, Struck) for s, name in zip(run.strikes, run.owners, strict=True))


def same(a: Run, b: Run) -> bool:
    """Whether two runs have the same impacts, in the same modes."""
    mine, its = (run.strikes if isinstance(run, Struck) else () for run in (a, b))
    stays = [run.holds if isinstance(run, Struck) else () for run in (a, b)]
    return stays[0] == stays[1] and [(s.spot, s.mode, s.towards) for s in mine] == [(s.spot, s.mode, s.towards) for s in its]


def proposed_runs(touching: Touching, problem: Problem, r: int, begin: np.ndarray, found: Proposed) -> Iterator[tuple[Run, States, np.ndarray]]:
    """Runs with the sequences of particles that come near the data, the first of each, their motions and numbers."""
    run, seen = problem.runs[r], set()
    found = replace(found, mesh=run.changed((), ()) if isinstance(run, Struck) else run)  # with what the fit has made of it
    for proposal in found.proposals:
        key = tuple(h.spot for h in proposal.hits), proposal.slips if touching.unknown_friction else ()
        if key in seen or len(seen) >= POLISHED or proposal.score > found.best.score + FAR:
            continue
        seen.add(key)
        candidate, start = touching.as_proposed(problem, found, proposal, begin)
        yield candidate, start, proposal.theta


def varied_runs(touching: Touching, problem: Problem, r: int, states: States, theta: np.ndarray, begin: np.ndarray) -> Iterator[tuple[Run, States, np.ndarray]]:
    """Runs with a sequence that is a little different, and their first motions."""
    run, columns = problem.runs[r], problem.columns[r]
    model, numbers, sensors = problem.model_of(r, theta)
    mesh = run.changed((), ()) if isinstance(run, Struck) else run
    alone = mesh.still(states.q[:, 0]).changed(nodes=states.q[:, run.actual])
    for hits in _options(run, mesh, model, numbers, states):
        try:
            with np.errstate(all="ignore"):
                candidate, start = touching.struck(mesh, hits, model, numbers, sensors) if hits else (mesh, alone)
        except (CalibodyError, NumericalError, np.linalg.LinAlgError, FloatingPointError):
            continue
        yield candidate, start, begin[columns]


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
        if not ratios or (len(problem.runs) > 1 and _told(problem, owner)):
            continue
        theta = solution.theta.copy()
        theta[k] = max(LESS * float(np.max(ratios)), e.lower)
        try:
            other = solve(problem, solution.x, theta, settings)
        except (NumericalError, np.linalg.LinAlgError):
            continue
        if other.converged and other.cost < solution.cost - ALIKE:
            solution, problem = other, other.problem
    return solution


def sticking(solution: Solution, solve: Solve, settings: Settings) -> Solution:
    """The fit with more friction, where that is unknown and an impact that slips hardly does: unless slipping explains the data better by `ALIKE`."""
    if not solution.converged:
        return solution
    problem = solution.problem
    for k, e in enumerate(problem.entries):
        owners = {p.path.removesuffix(".friction") for p in e.places if p.sensor is None and p.path.startswith("contact.") and p.path.endswith(".friction")}
        if len(problem.runs) > 1 and any(_told(problem, owner) for owner in owners):
            continue
        runs = [_stuck(problem, r, solution, owners) for r in range(len(problem.runs))] if owners else []
        if all(new is old for new, old in zip(runs, problem.runs, strict=False)):
            continue
        theta = solution.theta.copy()
        theta[k] = min(MORE * theta[k], e.upper)
        try:
            other = solve(replace(problem, runs=tuple(runs)), solution.x, theta, settings)
        except (NumericalError, np.linalg.LinAlgError):
            continue
        if other.converged and other.cost < solution.cost + ALIKE and _slips(other) < _slips(solution):
            solution, problem = other, other.problem
    return solution


def _stuck(problem: Problem, r: int, solution: Solution, owners: Collection[str]) -> Run:
    """A run in which impacts on these contacts that hardly slip stick."""
    run = problem.runs[r]
    if not isinstance(run, Struck) or not any(s.mode == SLIP and name in owners for s, name in zip(run.strikes, run.owners, strict=True)):
        return run
    model, numbers, _ = problem.model_of(r, solution.theta)
    found = met(run, model, numbers, solution.x[r])
    creeps = np.hypot(*found.parting[:, 1:].T) < CREEPS * np.abs(found.approach[:, 0])
    free = {s.strike for s in run.seats}
    strikes = [
        replace(s, mode=STICK, towards=0.0) if s.mode == SLIP and s.tangents and name in owners and creeps[i] and i not in free else s
        for i, (s, name) in enumerate(zip(run.strikes, run.owners, strict=True))
    ]
    return run if tuple(strikes) == run.strikes else replace(run, strikes=tuple(strikes))


def _told(problem: Problem, owner: str | None) -> bool:
    """Whether a run has nothing but impacts on a contact that slip: what its friction is."""
    modes = [[s.mode for s, name in zip(run.strikes, run.owners, strict=True) if name == owner] for run in problem.runs if isinstance(run, Struck)]
    return any(own and all(mode == SLIP for mode in own) for own in modes)


def _needed(problem: Problem, x: Sequence[States], owner: str) -> Iterator[float]:
    """What friction the impacts on a contact that stick need."""
    for run, states in zip(problem.runs, x, strict=True):
        if isinstance(run, Struck):
            for strike, name, (_, n, *t) in zip(run.strikes, run.owners, states.parts[IMPACTS], strict=True):
                if name == owner and strike.mode == STICK and n > 0.0:
                    yield float(np.hypot(*t)) / n
