"""What to record next, for an experiment file with a table [design]: designed, written.

design.csv     what a robot plays: t, drives or places (of joints that follow a way rates and forces besides), by the names of channels
design.json    error bars before and after, limits and what is reached, sensors
design.html    the same for people (`report/design.py`)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibody.errors import CalibodyError
from calibody.experiment import atomic
from calibody.experiment.folder import versions
from calibody.experiment.posterior import again, fitted

if TYPE_CHECKING:
    from calibody.estimate.designs.design import Design
    from calibody.estimate.designs.forecast import Forecast
    from calibody.estimate.result import Result
    from calibody.experiment.spec import Experiment

SCHEMA = "calibody-design-1"
PLAYED, DOCUMENT = "design.csv", "design.json"


def design_into(experiment: Experiment, folder: Path, *, fit: Path | None = None, report: Callable[[str], None] | None = None) -> Design:
    """Design what the table [design] asks for and write it. It begins at the fit in the folder `fit`, if that is one of this experiment."""
    from calibody.estimate.designs.design import design

    how = experiment.design
    if how is None:
        raise CalibodyError(f"{experiment.source} has no table [design]; give one with duration, limits and, where there is no run yet, channels.")
    model, channels = experiment.model(), _channels(experiment)
    present = again(experiment, fit) if fit is not None and experiment.recordings and fitted(experiment, fit) else None
    options = {f.name: getattr(how, f.name) for f in fields(how) if f.name not in ("duration", "limits", "channels")}
    with experiment.told_where("design"):
        found = design(
            model,
            experiment.estimate(),
            list(channels),
            channels,
            how.duration,
            how.limits,
            present=present,
            beside=_beside(experiment, present),
            report=report,
            **options,
        )
    write(found, folder)
    return found


def _beside(experiment: Experiment, present: Result | None) -> list[Any]:
    return [] if present is not None or not experiment.recordings else experiment.runs()


def _channels(experiment: Experiment) -> dict[str, float]:
    """What will be recorded with its sd: as the table says, or as the runs observe."""
    assert experiment.design is not None
    if experiment.design.channels:
        return dict(experiment.design.channels)
    out: dict[str, float] = {}
    for k in range(len(experiment.recordings)):
        for o in experiment.read(k).observations:
            if o.noise[0] is None:
                raise CalibodyError(
                    f'The sd of "{o.channel}" is not given; error bars are in proportion to it, so give [design] channels = {{ "{o.channel}" = 0.001 }}.'
                )
            out.setdefault(o.channel, float(o.noise[0]))
    if not out:
        raise CalibodyError(
            f'{experiment.source} does not say what will be recorded; give [design] channels = {{ "joint.NAME.angle" = 0.001 }}, each with its sd.'
        )
    return out


def write(found: Design, folder: Path) -> None:
    """The files for machines."""
    import polars as pl

    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_text(folder / PLAYED, str(pl.DataFrame(found.table()).write_csv()))
    atomic.write_json(folder / DOCUMENT, document(found))


def document(found: Design) -> dict[str, Any]:
    """`design.json`"""
    return {
        "schema": SCHEMA,
        "versions": versions(),
        "model": found.motion.model.name,
        "kind": "joints follow a way" if found.following else "drives are played",
        "duration": float(found.times[-1]),
        "worst": found.forecast.worst,
        "before": None if found.before is None else found.before.worst,
        "parameters": _parameters(found),
        "determined": [{"expression": d.expression, "value": d.value, "sd": d.sd} for d in found.forecast.determined],
        "not_determined": list(found.forecast.sentences),
        "limits": {path: dict(zip(("lower", "upper", "least", "most"), map(_number, four), strict=True)) for path, four in found.limits.items()},
        "rms": {path: {"limit": a, "reached": b} for path, (a, b) in found.rms.items()},
        "sensors": {path: {"worst": f.worst, "sd": _bars(f)} for path, f in found.sensors.items()},
        "evaluations": found.evaluations,
        "seconds": found.seconds,
        "notes": list(found.notes),
    }


def _parameters(found: Design) -> dict[str, Any]:
    before = {} if found.before is None else _bars(found.before)
    return {
        path: {"value": e.value, "unit": e.unit, "sd": e.sd, "sd_before": before.get(path), "sd_recorded": found.recorded.get(path)}
        for path, e in found.forecast.parameters.items()
    }


def _bars(f: Forecast) -> dict[str, float | None]:
    return {path: e.sd for path, e in f.parameters.items()}


def _number(x: float) -> float | None:
    return x if abs(x) < float("inf") else None
