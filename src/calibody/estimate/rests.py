"""What estimates rest on: numbers that every fit takes as known, and that its data cannot tell.

Free swings know `length/(gravity period^2)` and no more: lengths are in proportion to gravity as it was given, and to the square of the clock's unit. Such a scale leaves no trace in the residuals, so that no
test finds it, no error bar has it, and more recordings do not average it out. It can only be said how much hangs on it.

With a column of the linearisation for a relative change e of such a number (residuals and equations differenced, the motion and the parameters being the same), the parameters follow by `-I_tt^-1 I_te` as for
any number that is held (`scores.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from calibody.estimate.layout import States
from calibody.estimate.problem import Problem
from calibody.estimate.result import Rest
from calibody.estimate.run import Run
from calibody.estimate.terms import Term
from calibody.estimate.unknowns import Unknown, entries

APART = 1e-5
"""Relative change over which residuals and equations are differenced, to one side: they are smooth, and known to rounding."""

_Values = tuple[np.ndarray, np.ndarray]


def scales(problem: Problem, x: Sequence[States], theta: np.ndarray) -> list[Term]:
    """Gravity and the clock, as far as they are not estimated and do anything (and a model with them exists: of no equations the values are infinite)."""
    here = problem.values(x, theta)
    others = [other for other in (*_gravity(problem, x, theta), *_clock(problem, x, theta)) if all(np.isfinite(part).all() for part in other[-1])]
    found = [_term(path, words, problem, here, there) for path, words, there in others]
    return [t for t in found if any(F.any() or C.any() for F, C in t.by_run)]


def _gravity(problem: Problem, x: Sequence[States], theta: np.ndarray) -> Iterator[tuple[str, str, _Values]]:
    model = problem.model
    size = float(np.linalg.norm(model.world.gravity))
    if size == 0.0 or any(place.path.startswith("world.gravity") for e in problem.entries for place in e.places):
        return
    scale = Unknown(1.0, places={f"world.gravity.{axis}": f"{g!r} * times" for axis, g in zip("xyz", map(float, model.world.gravity), strict=True) if g})
    wide = replace(problem, entries=(*problem.entries, *entries(model, {"times": scale}, [run.recording.name for run in problem.runs])))
    yield "world.gravity", f"gravity ({size:.5g} m/s^2)", wide.values(x, np.append(theta, 1.0 + APART))


def _clock(problem: Problem, x: Sequence[States], theta: np.ndarray) -> Iterator[tuple[str, str, _Values]]:
    runs = [_slower(run, 1.0 + APART) for run in problem.runs]
    if all(
        slow.samples == run.samples and slow.layout.size == run.layout.size for slow, run in zip(runs, problem.runs, strict=True)
    ):  # but for roundings of times
        yield "time", "the sampling period", replace(problem, runs=tuple(runs)).values(x, theta)


def _slower(run: Run, factor: float) -> Run:
    """The same nodes, samples and unmodelled forces, all times so many times as large."""
    slow = Run.of(run.structure, run.recording.slower(factor), factor * run.h, run.noise)
    hold = slow.h * (run.K - 1) / (run.draws + 1)  # as many forces, however the time that they last was rounded
    return replace(slow, hold=hold, active=run.active, typical=run.typical, weights=run.weights, deltas=run.deltas, turning=run.turning, smooth=run.smooth)


def _term(path: str, words: str, problem: Problem, here: _Values, there: _Values) -> Term:
    F, C = ((after[len(after) - len(before) :] - before) / APART for before, after in zip(here, there, strict=True))
    row, equation, by = len(F) - sum(run.samples + run.layout.priors for run in problem.runs), 0, []
    for run in problem.runs:
        rows = run.samples + run.layout.priors
        by.append((F[row : row + rows], C[equation : equation + run.layout.rows]))
        row, equation = row + rows, equation + run.layout.rows
    return Term(path, words, "", "", tuple(by))


def sentences(rests: Sequence[Rest]) -> list[str]:
    """Where error bars are smaller than what a small error of such a number would do."""
    telling = [rest for rest in rests if rest.largest[1] > 1.0]
    if not telling:
        return []
    each = " and ".join(f"{rest.words} ({100.0 * rest.small:g} % more of it moves {_moved(rest)})" for rest in telling)
    return [f"The error bars take as exact what no residual shows: {each}."]


def _moved(rest: Rest) -> str:
    name, sds = rest.largest
    return f"{name} by {100.0 * rest.small * rest.moves[name]:+.2g} %, {sds:.2g} of its standard deviations"
