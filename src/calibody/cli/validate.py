"""`calibody validate`: recordings that a saved fit has not seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from calibody.cli.base import Json, Quiet, plain, show, table_of


def validate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder, as calibody fit writes it.")],
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Recordings with the columns of those that were fitted, or an experiment file (TOML).")],
    window: Annotated[float | None, typer.Option(metavar="SECONDS", help="How much of the beginning gives the start; left out: a tenth.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict recordings with a saved fit: from a start taken from their beginning, simulated without looking at the rest.

    \b
    Example:
        calibody validate log-fit another-log.csv
    The table is kept in result.json and in report.html.
    """
    import calibody as cb
    from calibody.experiment.held_out import validate as predicted

    found = predicted(cb.open(folder), data, window)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif not quiet:
        for name, r in found.items():
            table = table_of(
                f"{name}: {r['seconds']:g} s predicted from its beginning", "channel", "rms of the error", "times the noise", "of the motion explained"
            )
            for channel, c in r["channels"].items():
                times = "" if c["rms_over_sd"] is None else f"{c['rms_over_sd']:.3g}"
                share = "" if c["explained"] is None else f"{100.0 * c['explained']:.2f} %"
                table.add_row(plain(channel), f"{c['rms']:.3g}", times, share)
            seen = ["This recording was part of the fit: what is predicted here has been seen."] if r["fitted"] else []
            show(table, [*seen, *([r["incomplete"]] if r["incomplete"] else [])])
        typer.echo(f"report: {folder / 'report.html'}")
