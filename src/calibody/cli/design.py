"""`calibody design`: what to record next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from calibody.cli.base import ExperimentFile, Json, Quiet, plain, show, table_of, tell


def design(
    file: ExperimentFile,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The folder to write; without it, NAME-design beside NAME.toml.")] = None,
    fit: Annotated[Path | None, typer.Option(metavar="DIR", help="The fit to begin from; without it, NAME-fit beside NAME.toml, if it is there.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the excitation that tells most about the unknowns of an experiment, within the limits of its table [design].

    \b
    The folder holds
        design.csv    what the robot plays: drives, or places, rates and forces of joints that a controller moves
        design.html   error bars to be expected, beside those of the present fit or recording; which sensor would help
        design.json   the same as numbers
    The file needs no recording yet.

    \b
    Example:
        calibody design furuta.toml
    """
    from calibody.experiment import load
    from calibody.experiment.design import design_into, document
    from calibody.report.design import write

    experiment = load(file)
    folder = out if out is not None else file.with_name(f"{file.stem}-design")
    begun = fit if fit is not None else file.with_name(f"{file.stem}-fit")
    found = design_into(experiment, folder, fit=begun, report=None if as_json or quiet else lambda s: tell(f"design: {s}"))
    write(found, folder)
    if as_json:
        typer.echo(json.dumps(document(found), indent=2))
    elif not quiet:
        _show(found)
        typer.echo(f"wrote {folder / 'design.csv'}; report: {folder / 'design.html'}")


def _show(found: Any) -> None:
    before = {} if found.before is None else {path: e.sd for path, e in found.before.parameters.items()}
    known = before or found.recorded
    table = table_of(
        "error bars to be expected", "parameter", "value", "sd", "of its scale", *(["sd now" if before else "sd of the recording"] if known else []), "unit"
    )
    for path, e in found.forecast.parameters.items():
        beside = [] if not known else ["" if known.get(path) is None else f"{known[path]:.2g}"]
        table.add_row(
            plain(path),
            f"{e.value:.6g}",
            "not determined" if e.sd is None else f"{e.sd:.2g}",
            "" if e.sd is None else f"{100 * e.relative:.2g} %",
            *beside,
            plain(e.unit),
        )
    show(table, [*found.forecast.sentences, *found.notes])
    if found.sensors:
        sensors = table_of("which sensor would help", "with this channel too", "worst combination", "times better")
        for path, f in found.sensors.items():
            sensors.add_row(plain(path), f"{100 * f.worst:.3g} %", f"{found.forecast.worst / f.worst:.3g}")
        show(sensors, [])
    typer.echo(
        f"worst combination: {100 * found.forecast.worst:.3g} % of its scale" + ("" if found.before is None else f", now {100 * found.before.worst:.3g} %")
    )
