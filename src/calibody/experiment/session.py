"""One fit from an experiment to its run folder: begin or go on, keep the best point so far, write everything at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from calibody.errors import CalibodyError
from calibody.estimate.kept import Kept
from calibody.experiment.check import refuse
from calibody.experiment.checkpoint import FILE as MESHES, Meshes
from calibody.experiment.folder import REPORT, RESULT, Progress, refuse_overwriting, write
from calibody.experiment.lock import locked
from calibody.experiment.saved import DRAWS, PARTS, POSTERIOR, Saved, open as open_folder
from calibody.experiment.spec import Experiment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibody.estimate.result import Result
    from calibody.recording.recording import Recording
    from calibody.solve.gauss_newton import Iteration


def fit_into(
    experiment: Experiment,
    folder: Path,
    *,
    resume: bool = False,
    report: Callable[[Iteration, Progress], None] | None = None,
    command: str | None = None,
    began: float | None = None,
    truth: Mapping[str, float] | None = None,
    extend: bool = False,
    validate: bool | None = None,
    then: Callable[[Result], None] | None = None,
) -> Saved:
    """Fit an experiment and write the folder with its report. A fit that is stopped leaves the best point so far, from which `resume` goes on.
    With `extend`, what the model lacks is added to the unknowns, also to those of the experiment in the folder.

    `then` is called with a result that converged, before the report is written. `validate`: whether runs are left out and predicted; None: where that takes some seconds at most. `began` is when the program started (`time.perf_counter`), for the time that imports took.
    """
    began = time.perf_counter() if began is None else began
    with _compile_time() as compiled:
        from calibody.estimate.fit import fit, questioned
        from calibody.estimate.missing.extend import extended
        from calibody.estimate.transcription import Transcription
        from calibody.estimate.unknowns import entries

        imported = time.perf_counter()
        if validate and not isinstance(experiment.method, Transcription):
            raise CalibodyError(f'Validation needs method = "transcription", not "{experiment.method.name}"; leave --validate out, or use cb.cross_validate.')
        model, recordings = experiment.model(), experiment.runs()
        refuse(model, experiment)
        refuse_overwriting(folder, model, experiment)
        unknowns = entries(model, experiment.estimate(), [r.name for r in recordings])
        start: dict[str, float] = {}
        if resume:
            before = open_folder(folder)
            check_same(before, [e.name for e in unknowns], recordings)
            if before.finished and before.converged:
                return _reported(before)
            start = {name: e.value for name, e in before.parameters.items()}
        with locked(folder):
            progress, meshes = Progress(folder, unknowns, recordings, experiment, command), Meshes(folder, experiment, recordings)
            if resume:
                meshes.resume()
            progress.begin(start)

            def note(iteration: Iteration) -> None:
                known = replace(iteration, theta=iteration.theta[: len(unknowns)])  # a fit may add unknowns to those that it was given, after them
                progress(known)
                if report is not None:
                    report(known, progress)

            ready = time.perf_counter()
            result = fit(model, recordings, experiment.estimate(), method=experiment.method, report=note, start=start, checkpoint=meshes)
            if extend:
                more = extended(experiment.method, model, recordings, experiment.estimate(), result)
                result, experiment = more.result, replace(experiment, unknowns=more.unknowns)
                result = questioned(result, experiment.method, model, recordings, experiment.estimate())
            solved = time.perf_counter()
            seconds = {"import": imported - began, "compile": compiled[0], "solve": solved - ready, "total": time.perf_counter() - began}
            _forget_posterior(folder)
            write(result, folder, experiment, command=command, seconds=seconds, truth=truth, validate=validate)
            if then is not None and result.converged:
                then(result)
            saved = open_folder(folder)
            saved.report()
            meshes.remove()
            return saved


def _forget_posterior(folder: Path) -> None:
    """That of an earlier fit."""
    for name in (POSTERIOR, DRAWS):
        (folder / name).unlink(missing_ok=True)
    Kept(folder / PARTS).remove()


def _reported(saved: Saved) -> Saved:
    """A finished fit; its report is the last that is written, and may be what was missing."""
    if not (saved.folder / REPORT).is_file():
        saved.report()
    (saved.folder / MESHES).unlink(missing_ok=True)
    return saved


def check_same(before: Saved, names: list[str], recordings: list[Recording]) -> None:
    """A sentence if the folder holds another experiment."""
    there = list(before.parameters)
    if there != names:
        other = next((n for n in [*names, *there] if (n in names) != (n in there)), "their order")
        raise CalibodyError(f'"{before.folder / RESULT}" was fitted with other unknowns ({other} differs); fit without --resume, or into another folder.')
    stored = before.document["data_sha256"]
    for r in recordings:
        if stored.get(r.name) != r.sha256:
            raise CalibodyError(f'"{before.folder / RESULT}" was fitted with other data (the run "{r.name}" differs); fit without --resume.')


@contextmanager
def _compile_time() -> Iterator[list[float]]:
    """Seconds that jax spends compiling kernels or loading compiled ones, summed over its threads."""
    from jax import monitoring

    total, counting = [0.0], [True]

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if counting[0] and ("/compile/" in event or "cache_retrieval" in event):
            total[0] += duration_secs

    monitoring.register_event_duration_secs_listener(listen)
    try:
        yield total
    finally:
        counting[0] = False
