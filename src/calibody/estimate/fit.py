"""`fit`: parameters, motion and forces from recordings, by one of the estimators that stand beside this file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from calibody.errors import CalibodyError, either, nearest, shown
from calibody.estimate.estimator import AbstractEstimator
from calibody.estimate.missing.extend import extended
from calibody.estimate.poses import Poses
from calibody.estimate.shadow import Shadow
from calibody.estimate.shooting import Shooting
from calibody.estimate.transcription import Transcription
from calibody.recording.recording import Recording

if TYPE_CHECKING:
    from calibody.estimate.estimator import Checkpoint, Report, Unknowns
    from calibody.estimate.result import Result
    from calibody.model import Model

ESTIMATORS: dict[str, type[AbstractEstimator]] = {kind.name: kind for kind in (Transcription, Shooting, Shadow, Poses)}
"""By their short forms, in the order in which they are offered; the first is the default."""


def fit(
    model: Model,
    runs: Recording | Sequence[Recording],
    estimate: Unknowns,
    *,
    method: str | AbstractEstimator | None = None,
    report: Report | None = None,
    start: Mapping[str, float] | None = None,
    extend: bool = False,
    checkpoint: Checkpoint | None = None,
    **options: Any,
) -> Result:
    """Estimate the unknowns of a model from recordings.

    `estimate` maps paths to `Unknown`s (or initial values, or None for the model's value). `method` is an estimator with its options, such as
    `cb.Transcription(process_noise="auto")` or `cb.Shadow(h=0.01)`, or the name of one; then `options` are its options, as in
    `fit(model, run, {...}, process_noise="auto")`. Left out, it is transcription, or `cb.Poses()` for recordings of poses at rest. `report` is called with every iteration (`cb.Progress()` shows them); `start` has values, as a result reports them, to begin from instead
    of the initial ones (those of a fit that was stopped), and `checkpoint` keeps what is solved on the way. `extend` adds what the model lacks, as far as fits confirm it (`result.lacks`, docs: noise). Never raises for a fit that does not converge: `result.status` says why.
    Where it does not, or leaves absurd residuals, `result.mistakes` says what is probably wrong in the files.
    """
    if not isinstance(extend, bool):
        raise CalibodyError(f"extend = {shown(extend)}; give true or false.")
    recordings = recordings_of(runs)
    chosen = estimator(default_method(r.poses for r in recordings) if method is None else method, options)
    refuse_poses(chosen, recordings)
    refuse_unknown_drives(chosen, recordings)
    with _while(report):
        if checkpoint is not None and isinstance(chosen, Transcription):  # others solve one mesh: nothing is solved before all is
            result = chosen.estimate(model, recordings, estimate, report=report, start=start, checkpoint=checkpoint)
        else:
            result = chosen.estimate(model, recordings, estimate, report=report, start=start)
        result = extended(chosen, model, recordings, estimate, result, report).result if extend else result
        return questioned(result, chosen, model, recordings, estimate)


def _while(report: Any) -> AbstractContextManager[Any]:
    """What shows iterations may have to be begun and ended."""
    return report if isinstance(report, AbstractContextManager) else nullcontext()


def questioned(result: Result, method: AbstractEstimator, model: Model, recordings: Sequence[Recording], unknowns: Unknowns) -> Result:
    """With what is probably wrong in the files, where the data are not described at all."""
    from calibody.estimate.missing.trials import mistakes
    from calibody.estimate.people import captured, locked
    from calibody.estimate.people.exchanged import taken_for_each_other
    from calibody.estimate.result import Result

    if not isinstance(result, Result):  # of an estimator that answers something else
        return result
    began = time.perf_counter()
    found = taken_for_each_other(model, recordings, result)
    if not found and result.problem.dynamic:  # trials need dynamics
        found = mistakes(model, recordings, unknowns, result, getattr(method, "coordinates", "auto"))
    placed = [place.path for e in result.problem.entries for place in e.places]
    notes = (*result.notes, *captured.unplaced(model, recordings, placed), *(() if found else locked.moved(model, recordings)))
    return replace(result, mistakes=found, notes=notes, seconds={**result.seconds, "total": result.seconds["total"] + time.perf_counter() - began})


def default_method(poses: Iterable[bool]) -> str:
    """For recordings of motion, or of poses at rest (whether each is); where there are none yet, for those of motion."""
    known = list(poses)
    return Poses.name if known and all(known) else Transcription.name


def refuse_poses(method: AbstractEstimator, recordings: Sequence[Recording]) -> None:
    """A sentence for poses at rest where a motion is needed."""
    still = next((r.name for r in recordings if r.poses), None)
    if still is not None and not isinstance(method, Poses):
        moving = next((r.name for r in recordings if not r.poses), None)
        what = f'method = "{method.name}" needs a motion' if moving is None else f'and the recording "{moving}" a motion'
        remedy = 'leave the method out, or ask for "poses"' if moving is None else "fit the poses first, and hold what they determine in a fit of the motion"
        raise CalibodyError(f'The recording "{still}" has poses at rest, {what}; {remedy}.')


def refuse_unknown_drives(method: AbstractEstimator, recordings: Sequence[Recording]) -> None:
    """A sentence for unknown drives where they cannot be found."""
    asked = next((u.channel for r in recordings for u in r.unknown), None)
    if asked is not None and not isinstance(method, Transcription):
        raise CalibodyError(f'The drive "{asked}" is unknown, which method = "{method.name}" cannot find; use method = "transcription".')


def estimator(method: str | AbstractEstimator, options: Mapping[str, Any]) -> AbstractEstimator:
    """The estimator that a method and options beside it stand for."""
    if isinstance(method, AbstractEstimator):
        if options:
            raise CalibodyError(f"{next(iter(options))} stands beside a method that has its own options; give it there, cb.{type(method).__name__}(...).")
        return method
    if not isinstance(method, str) or method not in ESTIMATORS:
        kinds = " or ".join(f"cb.{kind.__name__}(...)" for kind in ESTIMATORS.values())
        raise CalibodyError(f"method = {shown(method)}; give {either(list(ESTIMATORS))}, or {kinds}.")
    for option in options:
        if option not in option_names(ESTIMATORS[method]):
            raise CalibodyError(f'method = "{method}" has no {option}{elsewhere(option, method) or _suggestion(option, method)}')
    return ESTIMATORS[method](**options)


def option_names(kind: type[AbstractEstimator]) -> tuple[str, ...]:
    """The options of an estimator, which are the fields of its dataclass."""
    return tuple(f.name for f in fields(kind))  # pyright: ignore[reportArgumentType]


def elsewhere(option: str, method: str) -> str:
    """The rest of a sentence about an option that another estimator has; empty if none does."""
    other = next((name for name, kind in ESTIMATORS.items() if name != method and option in option_names(kind)), None)
    return "" if other is None else f', which belongs to method = "{other}"; leave it out, or ask for that method.'


def _suggestion(option: str, method: str) -> str:
    known = option_names(ESTIMATORS[method])
    return nearest(option, known) or f"; its options are {', '.join(known)}."


def recordings_of(runs: Recording | Sequence[Recording]) -> list[Recording]:
    """One run or several as a list, each with a name of its own."""
    if not isinstance(runs, (Recording, Iterable)):
        raise CalibodyError(f"The recordings are given as {shown(runs)}; give one recording, or a list of them.")
    recordings = [runs] if isinstance(runs, Recording) else list(runs)
    if not recordings:
        raise CalibodyError("No recording was given; give at least one.")
    for r in recordings:
        if not isinstance(r, Recording):
            raise CalibodyError(f"A run is given as {type(r).__name__}; give recordings, for instance from cb.read(FILE, ...).")
    names = [r.name for r in recordings]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise CalibodyError(f'Two recordings are called "{twice}"; give each its own name.')
    return recordings
