"""`calibody convert`: a model in another format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from calibody import overwriting
from calibody.cli.base import Json, ModelFile, Quiet, show
from calibody.errors import CalibodyError


def convert(
    model: ModelFile,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; its suffix gives the format (.xml: MJCF, .urdf: URDF).")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there, the given model included.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a model in another format.

    \b
    Example:
        calibody convert robot.urdf robot.xml
    """
    import calibody as cb
    from calibody import formats

    mechanism = cb.load(model)
    if not force:
        overwriting.refuse([out], formats.source_files(mechanism), "give another name, or --force")
        if out.exists():
            raise CalibodyError(f'"{out}" exists; give another name, or --force to write over it.')
    formats.convert(mechanism, out)
    notes = [*mechanism.notes, *formats.convert_notes(mechanism, out)]
    if as_json:
        typer.echo(json.dumps({"model": str(model), "out": str(out), "notes": notes}, indent=2))
    elif not quiet:
        show(None, notes)
        typer.echo(f"wrote {out}")
