"""What estimates rest on: numbers that every fit takes as known, and that its data cannot tell.

Free swings know `length/(gravity period^2)` and no more: lengths are in proportion to gravity as it was given, and to the square of the clock's unit. Where only forces that are given move a
mechanism, all masses and frictions are in proportion to them: what a torque constant or a gear ratio is off by, they are off by. Such a scale leaves no trace in the residuals, so that no
test finds it, no error bar has it, and more recordings do not average it out. It can only be said how much hangs on it.

With a column of the linearisation for a relative change e of such a number (residuals and equations differenced, the motion and the parameters being the same), the parameters follow by `-I_tt^-1 I_te` as for
any number that is held (`scores.py`).

Who knows how accurate such a number is, a relative standard deviation a, can have it in the error bars (`allowing`): with the moves m of the estimates per relative change, `C + a^2 m m'`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError, nearest, shown
from calibody.estimate.identifiability import Determined
from calibody.estimate.layout import States
from calibody.estimate.missing.terms import Term
from calibody.estimate.problem import Problem
from calibody.estimate.result import DRIVES, EXACT, HELD, Rest, worst_held
from calibody.estimate.run import Run
from calibody.estimate.unknowns import Unknown, entries
from calibody.mechanics import channels
from calibody.model import Model
from calibody.recording.finite import is_finite

if TYPE_CHECKING:
    from calibody.estimate.result import Result

NAMED = 3
"""Elements of the model's file whose held numbers are named; `result.rests_on` has all."""
APART = 1e-5
"""Relative change over which residuals and equations are differenced, to one side: they are smooth, and known to rounding."""

_Values = tuple[np.ndarray, np.ndarray]


def scales(problem: Problem, x: Sequence[States], theta: np.ndarray) -> list[Term]:
    """Gravity, the clock and the forces that are given, as far as they are not estimated and do anything (and a model with them exists: of no equations the values are infinite)."""
    here = problem.values(x, theta)
    others = [
        other
        for other in (*_gravity(problem, x, theta), *_clock(problem, x, theta), *_forces(problem, x, theta))
        if all(np.isfinite(part).all() for part in other[-1])
    ]
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


def _forces(problem: Problem, x: Sequence[States], theta: np.ndarray) -> Iterator[tuple[str, str, _Values]]:
    """All drives that are no prescribed motion and no muscle's activation, unless a gain is estimated."""
    if problem.model.paths or any(
        place.path.startswith("actuator.") and place.path.endswith((".gain", ".gear")) for e in problem.entries for place in e.places
    ):
        return
    runs = [_stronger(problem.model, run, 1.0 + APART) for run in problem.runs]
    if any(run is not other for run, other in zip(runs, problem.runs, strict=True)):
        yield "forces", DRIVES, replace(problem, runs=tuple(runs)).values(x, theta)


def _stronger(model: Model, run: Run, factor: float) -> Run:
    """With all forces that are given so many times as large."""
    drives = tuple(
        d if channels.prescribes(channels.drivable(model, d.channel)) else replace(d, signal=replace(d.signal, values=factor * d.signal.values))
        for d in run.recording.drives
    )
    return run if not drives else replace(run, recording=replace(run.recording, drives=drives))


def _slower(run: Run, factor: float) -> Run:
    """The same nodes, samples and unmodelled forces, all times so many times as large."""
    slow = Run.of(run.structure, run.recording.slower(factor), factor * run.h, run.noise)
    hold = slow.h * (run.K - 1) / (run.draws + 1)  # as many forces, however the time that they last was rounded
    return replace(
        slow,
        hold=hold,
        active=run.active,
        implied=run.implied,
        choices=run.choices,
        typical=run.typical,
        weights=run.weights,
        deltas=run.deltas,
        turning=run.turning,
        smooth=run.smooth,
    )


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
    scales, numbers = [rest for rest in rests if rest.telling and not rest.held], worst_held(rests, NAMED)
    more = sum(rest.held and rest.telling for rest in rests) - len(numbers)
    others = f"; {more} more such {'numbers are' if more > 1 else 'number is'} in result.rests_on" if more else ""
    return [f"{begin}: {_listed(some)}{end}." for begin, some, end in ((EXACT, scales, ""), (HELD, numbers, others)) if some]


def _listed(rests: Sequence[Rest]) -> str:
    each = [f"{rest.words} ({rest.amount} more of it moves {rest.moved})" for rest in rests]
    return f"{', '.join(each[:-1])}{' and ' if each[1:] else ''}{each[-1]}"


# -- where their accuracy is stated ----------------------------------------------------------------------------------------------------------


def allowing(result: Result, accuracy: Mapping[str, float]) -> Result:
    """With error bars that allow for relative standard deviations of what estimates rest on."""
    known = {rest.path: rest for rest in result.rests_on}
    for path, sd in accuracy.items():
        if path not in known:
            raise CalibodyError(
                f'An accuracy of "{path}" was given, on which these estimates do not rest{nearest(path, list(known)) or "; result.rests_on has the paths that they do."}'
            )
        if not is_finite(sd) or sd < 0.0:
            wanted = (
                f"standard deviation in {known[path].unit}, 0.001 for a millimetre"
                if known[path].unit
                else "relative standard deviation, 0.001 for a thousandth"
            )
            raise CalibodyError(f"The accuracy of {path} was given as {shown(sd)}; give a {wanted}.")
    estimates = result.parameters
    moves = [{name: sd * known[path].moves.get(name, 0.0) * e.value for name, e in estimates.items()} for path, sd in accuracy.items()]
    each = np.array([list(one.values()) for one in moves]).reshape(len(moves), len(estimates))
    covariance = result.covariance + each.T @ each
    size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    wider = np.sqrt((each**2).sum(axis=0))
    notes = [note for note in result.notes if not note.startswith((EXACT, HELD))] + sentences([rest for rest in result.rests_on if rest.path not in accuracy])
    return replace(
        result,
        parameters={name: e if e.sd is None else replace(e, sd=float(np.hypot(e.sd, w))) for (name, e), w in zip(estimates.items(), wider, strict=True)},
        determined=tuple(_allowed(d, moves, result) for d in result.determined),
        covariance=covariance,
        correlation=covariance / size[:, None] / size[None, :],
        notes=(
            *notes,
            f"The error bars allow for an accuracy of {' and '.join(f'{replace(known[path], small=sd).amount} of {known[path].words}' for path, sd in accuracy.items())}.",
        ),
    )


def _allowed(d: Determined, moves: Sequence[Mapping[str, float]], result: Result) -> Determined:
    """A sum or a ratio of estimates; of numbers that are not reported nothing is known here."""
    terms = d.terms
    if not terms:
        above, below = d.expression.split(" / ")
        terms = ((above, 1.0 / result.parameters[below].value), (below, -d.value / result.parameters[below].value))
    wider = [sum(c * one.get(name, 0.0) for name, c in terms) for one in moves]
    return replace(d, sd=float(np.linalg.norm([d.sd, *wider])))
