"""`calibody posterior`, and what `calibody fit --posterior` has of it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from calibody.cli.base import NOT_TRUSTED, ExperimentFile, Interrupted, Json, Quiet, plain, show, table_of, tell
from calibody.cli.fitting import show_fit


def posterior(
    file: ExperimentFile,
    samples: Annotated[int | None, typer.Option(metavar="N", help="Draws; without it, those of [posterior], or 400.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the draws that are there: after Ctrl-C or a crash, or for more of them.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run folder; without it, NAME-fit beside NAME.toml.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw from the posterior of an experiment: is there a second explanation, what do bounds and curvature do, how wide are predictions?

    \b
    The run folder (made by calibody fit, or now) gains
        posterior.parquet   the draws, with weights
        posterior.json      explanations, quantiles, checks
        report.html         a section on them
    Exit code 0 if the posterior is as sampled, 1 if not (it says why).

    \b
    Examples:
        calibody posterior furuta.toml
        calibody posterior furuta.toml --samples 2000 --resume
    """
    from calibody.experiment import load
    from calibody.experiment.posterior import changed, posterior_into

    experiment, folder = load(file), out if out is not None else file.with_name(f"{file.stem}-fit")
    command = shlex.join(["calibody", "posterior", str(file), *(["--samples", str(samples)] if samples else []), *(["--out", str(out)] if out else [])])
    try:
        found = posterior_into(
            experiment, folder, sampling=changed(experiment.posterior, samples), resume=resume, report=None if as_json or quiet else tell, command=command
        )
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: calibody posterior {file} --resume") from None
    if found.posterior is None:
        show_fit(found, as_json, quiet)
        return
    if as_json:
        typer.echo(json.dumps(found.posterior, indent=2))
    else:
        show_posterior(found, quiet)
    exit_by_posterior(found)


def drawing(experiment: Any, folder: Path, show: bool) -> Any:
    """What is done with a result that converged: its posterior."""

    def draw(result: Any) -> None:
        from calibody.experiment.posterior import draw_into

        draw_into(result, folder, experiment.posterior, report=tell if show else None)

    return draw


def show_posterior(found: Any, quiet: bool) -> None:
    if quiet or found.posterior is None or found.posterior["refused"]:
        return
    d = found.posterior
    table = table_of("posterior", "parameter", "median", "5 %", "95 %", "fit", "sd", "unit")
    for name, m in d["parameters"].items():
        e = found.parameters[name]
        sd = f"{e.sd:.2g}" if e.sd is not None else "at bound" if e.at_bound else ""
        sd += "" if m.get("allowed") is None else " ~"
        table.add_row(plain(name), f"{m['median']:.6g}", f"{m['q05']:.6g}", f"{m['q95']:.6g}", f"{e.value:.6g}", sd, plain(m["unit"]))
    show(table, [])
    if any(m.get("allowed") is not None for m in d["parameters"].values()):
        typer.echo("~ wider than the draws: it allows for what the model lacks, and the draws do not")
    from calibody.report.posterior import section

    said = section(found)
    typer.echo(f"{said.verdict}\nIs there more than one explanation? {said.explanations}" if said else "")
    if len(d["modes"]) > 1:
        modes = table_of("explanations", "", "found by", "probability", *(said.differing if said else ()))
        for k, m in enumerate(d["modes"], 1):
            modes.add_row(str(k), plain(m["found_by"]), f"{100 * m['mass']:.3g} %", *(f"{m['values'][name]:.5g}" for name in (said.differing if said else ())))
        show(modes, [])
    for c in d["checks"]:
        if c["doubts"]:
            typer.echo(f"check: {c['run']}: {c['channel']}: {'; '.join(c['doubts'])}")
    show(None, d["notes"])
    typer.echo(f"report: {found.folder / 'report.html'}")


def exit_by_posterior(found: Any) -> None:
    d = found.posterior
    if d is not None and d["status"] != "converged":
        print(f"error: {d['status']}", file=sys.stderr)
        raise typer.Exit(NOT_TRUSTED)
