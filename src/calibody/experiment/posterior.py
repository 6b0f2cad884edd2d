"""The posterior of an experiment in its run folder: drawn, written, gone on with.

posterior.parquet   draw, mode, log_p, log_q, weight and every parameter: one row per draw
posterior.json      status, explanations, quantiles, checks, how the draws were made
channels.parquet    gains predicted_05, predicted_50, predicted_95: the band of free predictions
.posterior/         pieces of the calculation: what `--resume` goes on from, and what more samples later begin with
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.kept import Kept
from calibody.experiment import atomic
from calibody.experiment.check import refuse
from calibody.experiment.folder import CHANNELS, RESULT, versions
from calibody.experiment.lock import locked
from calibody.experiment.saved import DRAWS, PARTS, POSTERIOR, Saved, open as open_folder
from calibody.experiment.session import check_same, fit_into
from calibody.solve import threads

if TYPE_CHECKING:
    import polars

    from calibody.estimate.draws.drawn import Posterior
    from calibody.estimate.draws.sampling import Sampling
    from calibody.estimate.result import Result
    from calibody.experiment.spec import Experiment

SCHEMA = "calibody-posterior-1"
BANDS = 20
"""Runs whose bands are computed, the first ones."""
CHECKED = 50
"""Draws by which the checks are made: on the fit's own mesh, where each takes longest."""
FITTED = "result"
"""The piece that holds the fit."""


def posterior_into(
    experiment: Experiment,
    folder: Path,
    *,
    sampling: Sampling | None = None,
    resume: bool = False,
    fitting: Callable[..., None] | None = None,
    report: Callable[[str], None] | None = None,
    command: str | None = None,
) -> Saved:
    """Draw from the posterior of an experiment and write it beside the fit in its run folder; one that is not there yet is fitted first. `resume`: go on from the pieces that are there."""
    sampling, kept = sampling or experiment.posterior, Kept(folder / PARTS)
    known = kept.load(FITTED) if resume else None
    if known is None and not fitted(experiment, folder):
        return fit_into(experiment, folder, report=fitting, command=command, then=lambda result: draw_into(result, folder, sampling, report=report))
    with locked(folder):
        result = known if known is not None else again(experiment, folder)
        draw_into(result, folder, sampling, resume=known is not None, report=report)
        saved = open_folder(folder)
        saved.report()
        return saved


def fitted(experiment: Experiment, folder: Path) -> bool:
    """Whether the folder holds a fit of this experiment that has a posterior."""
    if not (folder / RESULT).is_file():
        return False
    before = open_folder(folder)
    if not (before.finished and before.converged):
        return False
    try:
        check_same(before, _names(experiment), experiment.runs())
    except CalibodyError:
        return False
    return True


def _names(experiment: Experiment) -> list[str]:
    from calibody.estimate.unknowns import entries

    return [e.name for e in entries(experiment.model(), experiment.estimate(), [run.label for run in experiment.recordings])]


def again(experiment: Experiment, folder: Path) -> Result:
    """The fit of a folder, from its estimates on: a few iterations."""
    from calibody.estimate.fit import fit

    model = experiment.model()
    refuse(model, experiment)
    start = {name: e.value for name, e in open_folder(folder).parameters.items()}
    return fit(model, experiment.runs(), experiment.estimate(), method=experiment.method, start=start)


def draw_into(result: Result, folder: Path, sampling: Sampling, *, resume: bool = False, report: Callable[[str], None] | None = None) -> None:
    """Draw from the posterior of a result, and write it into its run folder. A posterior that is refused is written as the sentence that says why."""
    from calibody.estimate.draws.posterior import posterior

    kept = Kept(folder / PARTS)
    if not resume:
        kept.remove()
        kept.store(FITTED, result)
    try:
        with at_work(sampling.processes) as executor:
            given = {k: v for k, v in asdict(sampling).items() if k != "processes"}
            post = posterior(result, **given, executor=executor, kept=kept, report=report)
    except CalibodyError as refused:
        atomic.write_json(folder / POSTERIOR, {"schema": SCHEMA, "status": str(refused), "refused": True})
        (folder / DRAWS).unlink(missing_ok=True)
        return
    write(post, folder)


class Here:
    """An executor that does everything itself, one after the other."""

    def map(self, function: Callable[..., Any], *tasks: Iterable[Any]) -> Iterator[Any]:
        return map(function, *tasks)


@contextmanager
def at_work(processes: int) -> Iterator[Any]:
    """So many processes; None for all cores."""
    if processes < 2:
        yield None if processes == 0 else Here()
        return
    executor: Executor
    with ProcessPoolExecutor(processes, get_context("spawn"), threads.limit, (1,)) as executor:
        yield executor


# -- files ---------------------------------------------------------------------------------------------------------------------------------


def write(post: Posterior, folder: Path) -> None:
    """The draws, then what they amount to."""
    import polars as pl

    raw = post.raw
    columns: dict[str, Any] = {"draw": raw.draw, "mode": raw.mode + 1, "log_p": _null(raw.log_p), "log_q": _null(raw.log_q), "weight": raw.weight}
    columns |= {name: raw.values[:, k] for k, name in enumerate(post.parameters)}
    columns |= {name: raw.eta[:, k] for k, name in enumerate(raw.names) if k >= len(post.parameters)}
    atomic.write_parquet(folder / DRAWS, pl.DataFrame(columns))
    coverage = _bands(post, folder) if post.converged else {}
    atomic.write_json(folder / POSTERIOR, {**document(post), "coverage": coverage})


def document(post: Posterior) -> dict[str, Any]:
    """`posterior.json`, but for the coverage of bands."""
    return {
        "schema": SCHEMA,
        "status": post.status,
        "refused": False,
        "sampler": post.sampler,
        "samples": post.samples,
        "seed": post.seed,
        "khat": _number(post.khat),
        "ess": _number(post.ess),
        "rhat": _number(post.rhat),
        "log_evidence": _number(post.log_evidence),
        "noise": post.noise,
        "stretched": post.stretched,
        "starts": {"tried": post.starts, "converged": post.converged_starts},
        "evaluations": post.evaluations,
        "failed": post.failed,
        "mesh": {"h": post.h, "lost": post.lost},
        "seconds": post.seconds,
        "parameters": {name: _marginal(m) for name, m in post.parameters.items()},
        "modes": [
            {"values": m.values, "mass": m.mass, "laplace_mass": m.laplace_mass, "log_evidence": _number(m.log_evidence), "found_by": m.found_by}
            | {"covariance": [[float(x) for x in row] for row in m.covariance]}
            for m in post.modes
        ],
        "dropped": [{"found_by": words, "values": dict(zip(post.parameters, map(float, values), strict=True)), "share": share} for words, values, share in post.dropped],
        "checks": [asdict(c) | {"doubts": c.doubts} for c in post.check(CHECKED).channels] if post.converged else [],
        "notes": list(post.notes),
        "versions": versions(),
    }  # fmt: skip


def _marginal(m: Any) -> dict[str, Any]:
    low, high = m.interval
    out = {"unit": m.unit, "median": m.median, "q05": low, "q95": high, "mean": m.mean, "sd": m.sd, "skewness": m.skewness}
    return out | {"shift": _number(m.shift), "ratio": _number(m.ratio), "remarkable": m.remarkable, "allowed": _number(m.allowed), "limit": _number(m.limit)}


def _number(x: float | None) -> float | None:
    return None if x is None or not np.isfinite(x) else float(x)


def _null(x: np.ndarray) -> polars.Series:
    import polars as pl

    return pl.Series([v if np.isfinite(v) else None for v in x.tolist()], dtype=pl.Float64)


def _bands(post: Posterior, folder: Path) -> dict[str, Any]:
    """Bands of free predictions into the table of channels, and how many samples each holds, by run and channel: of runs that were fitted."""
    import polars as pl

    found: dict[str, Any] = {}
    frames = []
    for recording in post.result.recordings[:BANDS]:
        try:
            predicted = post.predict(recording)
        except CalibodyError as error:
            found[recording.name] = {"failed": str(error)}
            continue
        found[recording.name] = {"channels": {name: _number(b.coverage) for name, b in predicted.channels.items()}}
        for name, b in predicted.channels.items():
            q = dict(zip(("predicted_05", "predicted_50", "predicted_95"), b.quantiles, strict=True))
            frames.append(pl.DataFrame({"run": [recording.name] * len(b.times), "channel": [name] * len(b.times), "time": b.times, **q}))
    table = pl.read_parquet(folder / CHANNELS)
    table = table.drop([c for c in table.columns if c.startswith("predicted_")])
    if frames:
        table = table.join(pl.concat(frames), on=["run", "channel", "time"], how="left", maintain_order="left")
    atomic.write_parquet(folder / CHANNELS, table)
    return found


def changed(sampling: Sampling, samples: int | None) -> Sampling:
    """With another number of samples, if one is given."""
    return sampling if samples is None else replace(sampling, samples=samples)
