"""Several runs of which some are not explained as the others are.

With sequences found run by run (`proposals.py`) a fit of all runs together goes straight to its end, one iteration costing as much as there are runs. What can go wrong is one of many: a corner taken for its neighbour, two that
strike at once, a hand that catches what was tossed. Such a run keeps the fit from converging, or stands out:

- of a fit that has not converged every run is fitted alone, the unknown numbers held where they began: who does not converge there stands out;
- of one that has, who is worse than `OUTLYING` times what is typical for its runs (their median, where residuals are larger than the noise: no law of impacts is exact), or whose motion goes through something.

For these other sequences are tried, again each alone and with the numbers held: what fits with numbers of its own explains nothing. The best is taken if it explains the run better than the one at hand, and all runs are fitted
anew. A run that still stands out is used only up to where it first touches something, if most others do not, and a note says so: a fit of all but one is worth more than none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.proposals import BRIEF, SEED, Proposed, Search
from calibody.estimate.contacts.sequence import ALIKE, ATTEMPTS, SHORTEST, STEPS, Solve, costs, proposed_runs, same, slipping, sticking, varied_runs
from calibody.estimate.contacts.settle import missed
from calibody.estimate.contacts.touching import Touching
from calibody.estimate.contacts.untouched import UNLIKELY
from calibody.estimate.layout import NODES, States, interpolated
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.solve.gauss_newton import Settings, Solution

ROUNDS = 2
"""How often sequences of runs that stand out are exchanged."""
OUTLYING = 4.0
FEW = 0.34
"""Share of the runs that may be cut short: if more stand out, it is the model."""
SHARED = 0.05
"""Relative half width within which numbers may be when other sequences are searched."""
HELD = Settings(iterations=STEPS, tolerance=0.03, attempts=ATTEMPTS, shortest=SHORTEST)


@dataclass(frozen=True)
class Cut:
    """A run that is used up to a time only."""

    run: int
    end: float

    def told(self, name: str) -> str:
        return (
            f"{name} is used up to {self.end:.4g} s only, before anything touches: no sequence of impacts was found that explains it as the other runs are explained. "
            "Look at it; leave it out, or cut it where something else happens."
        )


def explained(
    touching: Touching, begun: tuple[Problem, Sequence[States]], solution: Solution, begin: np.ndarray, solve: Solve, settings: Settings, found: Mapping[int, Proposed]
) -> tuple[Solution, list[Cut]]:  # fmt: skip
    """The solution with sequences that explain runs better which stand out, and which of them are cut short. `begun`: what it began with."""
    tried: set[int] = set()
    for _ in range(ROUNDS):
        problem, x, theta = _here(begun, solution, begin)
        standing = _outlying(touching, problem, x, theta, solution, solve)
        new = [r for r in standing if r not in tried]
        if not new:
            break
        runs, better = list(problem.runs), False
        for r in new:
            tried.add(r)
            other = _better(touching, problem, r, x[r], theta, standing[r], solve, found)
            if other is not None:
                (runs[r],), (x[r],), better = other.problem.runs, other.x, True
        if not better:
            break
        again = solve(replace(problem, runs=tuple(runs)), x, theta, settings)
        if again.converged or not solution.converged:
            solution = again
    solution, cuts = _without(touching, begun, solution, begin, solve, settings, found)
    return sticking(slipping(solution, solve, settings), solve, settings), cuts


def _here(begun: tuple[Problem, Sequence[States]], solution: Solution, begin: np.ndarray) -> tuple[Problem, list[States], np.ndarray]:
    """Where the fit has come to; of one that has not converged, where it began."""
    return (solution.problem, list(solution.x), solution.theta) if solution.converged else (begun[0], list(begun[1]), begin)


def _without(
    touching: Touching, begun: tuple[Problem, Sequence[States]], solution: Solution, begin: np.ndarray, solve: Solve, settings: Settings, found: Mapping[int, Proposed]
) -> tuple[Solution, list[Cut]]:  # fmt: skip
    """The solution with runs cut short that stand out."""
    problem, x, theta = _here(begun, solution, begin)
    standing = _outlying(touching, problem, x, theta, solution, solve)
    if not standing or len(standing) > FEW * len(problem.runs):
        return solution, []
    flights = {r: found[r] if r in found else _flight(problem, r, x[r], theta) for r in standing}
    flown = {r: flight for r, flight in flights.items() if flight is not None}
    cuts = [Cut(r, _free_until(flight)) for r, flight in flown.items()]
    if not cuts:
        return solution, []
    runs = list(problem.runs)
    for cut in cuts:
        runs[cut.run], x[cut.run] = _short(flown[cut.run], runs[cut.run], cut.end)
    new = solve(replace(problem, runs=tuple(runs)), x, theta, settings)
    return (new, cuts) if new.converged else (solution, [])


def _flight(problem: Problem, r: int, states: States, theta: np.ndarray) -> Proposed | None:
    """The first flight of a run of which no sequence was found; None where nothing flies."""
    run = problem.runs[r]
    mesh, q = run.changed((), ()) if isinstance(run, Struck) else run, states.q[:, run.actual]
    search = Search.of(problem, r, theta, mesh, q, SEED + r)
    return None if search is None or search.flight is None else Proposed(search, mesh, q, ())


def _free_until(found: Proposed) -> float:
    assert found.search.flight is not None
    return float(found.search.watched.times[found.search.flight[2]])


def _short(found: Proposed, old: Run, end: float) -> tuple[Run, States]:
    """A run up to a time, without impacts."""
    mesh = old.changed((), ()) if isinstance(old, Struck) else old
    run = Run.of(mesh.structure, mesh.recording.cut(end=end), mesh.h, mesh.noise, mesh.hold)
    run = replace(run, deltas=mesh.deltas, smooth=mesh.smooth)
    q = interpolated(run.structure, found.q, found.mesh.times, run.times)
    return run, run.still(q[:, 0]).changed(**{NODES: q})


def _outlying(touching: Touching, problem: Problem, x: list[States], theta: np.ndarray, solution: Solution, solve: Solve) -> dict[int, float]:
    """Runs that stand out, and their costs (infinite: they do not converge)."""
    if not solution.converged:
        alone = [_held(problem, r, run, x[r], theta, solve) for r, run in enumerate(problem.runs)]
        found = [(2.0 * s.cost if s is not None else np.inf, run.samples) for s, run in zip(alone, problem.runs, strict=True)]
    else:
        found = costs(problem, x, theta)
    ratio = np.array([chi2 / max(n, 1) for chi2, n in found])
    typical = max(1.0, float(np.median(ratio)))
    most = np.array([OUTLYING * typical * (1.0 + UNLIKELY * np.sqrt(2.0 / max(n, 1))) for _, n in found])
    return {r: found[r][0] / 2.0 for r, run in enumerate(problem.runs) if ratio[r] > most[r] or (solution.converged and _through(problem, r, run, x[r], theta))}


def _through(problem: Problem, r: int, run: Run, states: States, theta: np.ndarray) -> bool:
    model, numbers, _ = problem.model_of(r, theta)
    return missed(run, model, numbers, states) is not None


def _held(problem: Problem, r: int, run: Run, states: States, theta: np.ndarray, solve: Solve) -> Solution | None:
    """A fit of one run alone with the numbers as they are; None where it does not converge."""
    single, own = problem.singles[r], theta[problem.columns[r]]
    fixed = tuple(replace(e, lower=float(v), upper=float(v), initial=float(v)) for e, v in zip(single.entries, own, strict=True))
    try:
        with np.errstate(all="ignore"):
            found = solve(replace(single, runs=(run,), entries=fixed), [states], own, HELD)
    except (CalibodyError, NumericalError, np.linalg.LinAlgError, FloatingPointError):
        return None
    return found if found.converged else None


def _better(
    touching: Touching, problem: Problem, r: int, states: States, theta: np.ndarray, now: float, solve: Solve, found: Mapping[int, Proposed]
) -> Solution | None:
    """The best other sequence of a run, if it explains it better."""
    best, tried = None, [problem.runs[r]]
    limit = now - ALIKE * max(1.0, 2.0 * now / max(problem.runs[r].samples, 1)) if np.isfinite(now) else np.inf
    for run, start in _candidates(touching, problem, r, states, theta, found):
        if any(same(run, other) for other in tried):
            continue
        tried.append(run)
        other = _held(problem, r, run, start, theta, solve)
        if other is not None and other.cost < limit:
            best, limit = other, other.cost
    return best


def _candidates(touching: Touching, problem: Problem, r: int, states: States, theta: np.ndarray, found: Mapping[int, Proposed]) -> Iterator[tuple[Run, States]]:
    """Runs with other sequences: of a new search with the numbers near where they are; and a little different from the one at hand."""
    if r in found:
        search = found[r].search
        near = search.within(theta, np.where([e.run is None for e in problem.entries], SHARED * np.maximum(np.abs(theta), 1e-12), np.inf))
        with np.errstate(all="ignore"):
            again, _ = near.found(BRIEF)
        for one in (replace(found[r], search=near, proposals=tuple(again)), found[r]):
            if one.proposals:
                yield from ((run, start) for run, start, _ in proposed_runs(touching, problem, r, theta, one))
    yield from ((run, start) for run, start, _ in varied_runs(touching, problem, r, states, theta, theta))
