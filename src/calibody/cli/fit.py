"""`calibody fit`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from calibody.cli.base import BEGAN, ExperimentFile, Json, Quiet
from calibody.cli.fitting import fitted, show_fit
from calibody.cli.posterior import drawing, exit_by_posterior, show_posterior


def fit(
    file: ExperimentFile,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run folder; without it, NAME-fit beside NAME.toml.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the best point in the folder, after Ctrl-C or a crash.")] = False,
    extend: Annotated[bool, typer.Option("--extend", help="Add what the model lacks to the unknowns, as far as further fits confirm it.")] = False,
    validate: Annotated[
        bool | None,
        typer.Option(
            "--validate/--no-validate",
            help="Fit again without each run (or without the second half of a single one) and predict it; left out: where that is quick.",
        ),
    ] = None,
    posterior: Annotated[bool, typer.Option("--posterior", help="Draw from the posterior afterwards, as calibody posterior does.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate what an experiment leaves unknown, and write everything that was found.

    \b
    The folder holds
        report.html       open this first: what is determined, how well it fits, a replay
        MODEL             the calibrated model, in the format of the original file
        result.json       parameters, error bars, what could not be determined
        *.parquet         measured, fitted and predicted channels; motion; forces; what was left out and predicted
    While the fit runs, the folder holds the best point so far: Ctrl-C loses nothing, --resume goes on.

    \b
    Exit code 0 where the verdict is green or amber, 1 where it is red: the fit did not converge, the model does not describe
    the data, or something is missing that moves estimates by more than they scatter.

    \b
    Example:
        calibody fit furuta.toml --out furuta-fit
    """
    from calibody.experiment import load

    experiment = load(file)
    folder = out if out is not None else file.with_name(f"{file.stem}-fit")
    command = shlex.join(
        [
            *("calibody", "fit", str(file), *(["--out", str(out)] if out else [])),
            *(["--resume"] if resume else []),
            *(["--extend"] if extend else []),
            *([] if validate is None else ["--validate" if validate else "--no-validate"]),
            *(["--posterior"] if posterior else []),
        ]
    )
    then = drawing(experiment, folder, show=not (as_json or quiet)) if posterior else None
    found = fitted(
        experiment, folder, file, show=not (as_json or quiet), resume=resume, extend=extend, validate=validate, command=command, began=BEGAN, then=then
    )
    try:
        show_fit(found, as_json, quiet)
    finally:
        if posterior and found.converged and not as_json:
            show_posterior(found, quiet)
    if posterior:
        exit_by_posterior(found)
