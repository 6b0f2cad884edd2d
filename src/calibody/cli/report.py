"""`calibody report`: pages anew from run folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from calibody.cli.base import Json, Quiet
from calibody.errors import CalibodyError


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="A run folder, as calibody fit writes it; two with --compare.")],
    compare: Annotated[bool, typer.Option("--compare", help="Put two fits side by side: parameters, residuals, motion.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Of --compare: the page; without it, compare.html in the second folder.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write report.html anew from a run folder, or compare two (nothing is computed again).

    \b
    Examples:
        calibody report furuta-fit
        calibody report --compare furuta-fit furuta-fit-2
    """
    if len(folders) != 1 + compare or (out is not None and not compare):
        expected = "two run folders, as in calibody report --compare A B" if compare else "one run folder, or two with --compare; --out is of --compare"
        raise CalibodyError(f"calibody report was given {len(folders)} folder{'s' if len(folders) > 1 else ''}{' and --out' if out else ''}; give {expected}.")
    if compare:
        from calibody.report.compare import compare as side_by_side

        path = side_by_side(*folders, out=out)
    else:
        from calibody.report import write

        path = write(folders[0])
    if as_json:
        typer.echo(json.dumps({"report": str(path)}, indent=2))
    elif not quiet:
        typer.echo(f"wrote {path}")
