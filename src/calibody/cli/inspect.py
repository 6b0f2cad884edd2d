"""`calibody inspect`: what a model has, by the names that experiment files use."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from calibody.cli.base import Json, ModelFile, Quiet, plain, show, table_of


def inspect(
    model: ModelFile,
    everything: Annotated[bool, typer.Option("--all", help="Also numbers that are zero and rarely used, and those of shapes.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List bodies, joints, actuators, sites, sensors and parameters of a model, with the names that experiment files use.

    \b
    Example:
        calibody inspect ur5.urdf
    """
    import calibody as cb
    from calibody import listing

    mechanism = cb.load(model)
    if as_json:
        typer.echo(json.dumps(listing.document(mechanism), indent=2))
    elif not quiet:
        for title, headings, rows in listing.tables(mechanism, everything):
            if rows:
                table = table_of(title, *headings)
                for column in table.columns:
                    column.justify = "left"
                for row in rows:
                    table.add_row(*(plain(x) for x in row))
                show(table, [])
        show(None, list(mechanism.notes))
