"""`calibody new`: a first experiment file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from calibody import overwriting
from calibody.cli.base import Json, ModelFile, Quiet, plain, show, table_of
from calibody.errors import CalibodyError


def new(
    model: ModelFile,
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Recordings of it: CSV, Parquet, NPZ, MAT, ROS bags, ...")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The experiment file to write; without it, NAME.toml beside the first log NAME.")] = None,
    payload: Annotated[
        str | None, typer.Option(metavar="FRAME", help="A body or site that carries an unknown payload: mass and centre of mass are estimated.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an experiment file that is there.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Guess which column is what, units, clock, noise and what can be estimated; write a commented experiment file.

    \b
    Example:
        calibody new ur5.urdf log.csv --payload tool0
    Every guess is printed with its reason and stands in the file beside what it decided: look at it, then calibody check and fit.
    """
    from calibody.experiment import atomic
    from calibody.experiment.guess.new import propose

    target = logs[0].with_suffix(".toml") if out is None else out
    overwriting.refuse([target], [model, *logs], "give another name to --out")
    if target.exists() and not force:
        raise CalibodyError(f'"{target}" exists; give another name to --out, or --force to write over it.')
    found = propose(model, logs, target, payload)
    atomic.write_text(target, found.text)
    if as_json:
        guesses = [{"what": g.what, "value": g.value, "why": g.why, "sure": g.sure} for g in found.guesses]
        typer.echo(json.dumps({"experiment": str(target), "guesses": guesses, "unknowns": list(found.experiment.unknowns)}, indent=2))
    elif not quiet:
        table = table_of(f"guessed for {target}", "what", "taken for", "sure?", "because")
        for column in table.columns:
            column.justify = "left"
        for g in found.guesses:
            table.add_row(*(plain(x) for x in (g.what, g.value, g.sure, g.why)))
        show(table, [])
        typer.echo(f"wrote {target}; next: calibody check {shlex.quote(str(target))}")
