"""What commands that fit share: progress while it runs, the result afterwards, the exit code by the verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from calibody.cli.base import NOT_TRUSTED, Interrupted


def fitted(experiment: Any, folder: Path, file: Path, show: bool, **settings: Any) -> Any:
    """`fit_into`, which `settings` are of, with a live table; Ctrl-C says where the best point is."""
    from contextlib import nullcontext

    from calibody.console import Progress
    from calibody.experiment.session import fit_into

    try:
        with Progress(f"fitting {file}") if show else nullcontext() as lines:
            return fit_into(experiment, folder, report=lines, **settings)
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; the best point so far is in {folder}, go on with: calibody fit {file} --out {folder} --resume"
            if (folder / "result.json").is_file()
            else "interrupted before the fit began."
        ) from None


def show_fit(found: Any, as_json: bool, quiet: bool, truth: dict[str, float] | None = None) -> None:
    from calibody.console import document, print_result

    path = found.folder / "report.html"
    if as_json:
        typer.echo(json.dumps(document(found, report=str(path)), indent=2))
    elif not quiet:
        print_result(found, truth)
        typer.echo(f"report: {path}")
    from calibody.report.verdict import mistaken, verdict

    said = verdict(found)
    if not found.converged:
        print(f"error: the fit did not converge: {found.status}{mistaken(found)}", file=sys.stderr)
        raise typer.Exit(NOT_TRUSTED)
    if not said.trusted:
        print(f"error: {said.headline}", file=sys.stderr)
        raise typer.Exit(NOT_TRUSTED)
    if not (as_json or quiet):
        typer.echo(said.headline)
