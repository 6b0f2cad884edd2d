"""`calibody check`: what is missing, looks wrong, or cannot be determined."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from calibody.cli.base import USER_MISTAKE, ExperimentFile, Json, Quiet, show, table_of
from calibody.errors import CalibodyError

if TYPE_CHECKING:
    from rich.table import Table


def check(file: ExperimentFile, as_json: Json = False, quiet: Quiet = False) -> None:
    """Read all that an experiment names, and say what is missing, what looks wrong, and what can be determined.

    \b
    Example:
        calibody check furuta.toml
    """
    from calibody.experiment import load
    from calibody.experiment.check import ERROR, Check, Finding, check as examine

    try:
        found = examine(load(file), foresight=True)
    except CalibodyError as error:
        if as_json:
            typer.echo(json.dumps(_check_summary(file, Check((Finding(ERROR, str(error)),), None, (), ())), indent=2))
        raise
    if as_json:
        typer.echo(json.dumps(_check_summary(file, found), indent=2))
    elif not quiet:
        for run in found.runs:
            show(_recording_table(run), [])
        for finding in (f for f in found.findings if f.level != ERROR):
            typer.echo(f"{finding.level}: {finding.sentence}")
        if found.ok:
            counts = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in ((len(found.runs), "run"), (len(found.unknowns), "unknown"))]
            typer.echo(f"{file} can be fitted: {', '.join(counts)}.")
    for finding in (f for f in found.findings if f.level == ERROR):
        print(f"error: {finding.sentence}", file=sys.stderr)
    if not found.ok:
        raise typer.Exit(USER_MISTAKE)


def _check_summary(file: Path, found: Any) -> dict[str, Any]:
    return {
        "experiment": str(file),
        "ok": found.ok,
        "model": found.model and found.model.name,
        "runs": [{"name": r.name, "start": r.start, "end": r.end, "source": r.source, "sha256": r.sha256, "channels": _channel_rows(r)} for r in found.runs],
        "unknowns": [e.name for e in found.unknowns],
        "findings": [{"level": f.level, "sentence": f.sentence} for f in found.findings],
    }


def _channel_rows(run: Any) -> list[dict[str, Any]]:
    rows = [("observed", o.channel, o.times[o.present], o.values[o.present], o.period, o.sd) for o in run.observations]
    rows += [("driven", d.channel, d.signal.times, d.signal.values, d.period, d.sd) for d in run.drives]
    return [
        {"channel": channel, "role": role, "samples": len(t), "rate": 1.0 / period, "from": float(t[0]), "to": float(t[-1])}
        | {"least": float(x.min()), "largest": float(x.max()), "sd": sd}
        for role, channel, t, x, period, sd in rows
    ]


def _recording_table(run: Any) -> Table:
    from rich.text import Text

    table = table_of(f"{run.name}: {run.start:g} s to {run.end:g} s", "channel", "", "samples", "rate [Hz]", "range", "sd")
    for row in _channel_rows(run):
        sd = "" if row["sd"] is None else f"{row['sd']:.3g}"
        table.add_row(Text(row["channel"]), row["role"], str(row["samples"]), f"{row['rate']:.4g}", f"{row['least']:.3g} .. {row['largest']:.3g}", sd)
    return table
