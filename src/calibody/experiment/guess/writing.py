"""The experiment file with a reason beside every guess."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibody.estimate.unknowns import Unknown
from calibody.experiment.guess.numbers import Guess
from calibody.experiment.spec import Experiment, RunSpec
from calibody.experiment.writing import changed, key_text, value_text, written

HEAD = """\
# Written by calibody new: guesses, with their reasons. Look at every line, then
#     calibody check {file}
#     calibody fit {file}
# Paths are relative to this file. A channel is called joint.NAME.angle, actuator.NAME, site.NAME.position.x, ...;
# calibody inspect {model} lists the names of the model.
"""
TAIL = """
# What may be added (one [[estimate]] each): body.NAME.inertia for all ten inertial numbers of a body, joint.NAME.friction,
# joint.NAME.angle.bias for the zero of an encoder, actuator.NAME.delay.

# [method]
# process_noise = "auto"    # where residuals are much larger than the noise: forces that the model lacks are found too
"""


def document(experiment: Experiment, out: Path, comments: Mapping[str, str], unused: Mapping[str, Mapping[str, str]], guesses: tuple[Guess, ...]) -> str:
    """`comments` by "model", "payload", "RUN time", "RUN CHANNEL" and parameter; `unused` by run and column."""
    lines = [HEAD.format(file=out.name, model=experiment.model_file), "[model]", _line("file", experiment.model_file, comments.get("model", ""))]
    lines += [_line("held", dict(experiment.held), comments.get("held", ""))] if experiment.held else []
    lines.append("")
    for payload in experiment.payloads:
        lines += ["[[payload]]", *(_line(k, v, comments["payload"] if k == "frame" else "") for k, v in changed(payload).items()), ""]
    for run in experiment.recordings:
        lines += [*_run(run, comments, unused[run.label]), ""]
    said = next(g for g in guesses if g.what == "unknowns")
    lines.append(f"# {said.value} unknowns: {said.why}.")
    for name, unknown in experiment.unknowns.items():
        lines += ["[[estimate]]", _line("parameter", name, comments.get(name, "")), *(_line(k, v, "") for k, v in _unknown(unknown).items()), ""]
    return "\n".join(lines).rstrip("\n") + "\n" + TAIL


def _run(run: RunSpec, comments: Mapping[str, str], unused: Mapping[str, str]) -> list[str]:
    values = {k: v for k, v in changed(run).items() if k not in ("observe", "drive", "initial", "unknown", "plates")}
    values.setdefault("time", run.time)
    plates = ["plates = [", *(f"  {value_text(p)}," for p in run.plates), "]"] if run.plates else []
    out = ["[[run]]", *(_line(k, v, comments.get(f"{run.label} {k}", "")) for k, v in values.items()), *plates]
    given = {word: {channel: changed(spec) for channel, spec in specs.items()} for word, specs in (("observe", run.observe), ("drive", run.drive))}
    given["drive"] |= {u.channel: written(u) for u in run.unknown}
    for word, specs in given.items():
        if specs:
            out += [f"[run.{word}]", *(_line(channel, spec, comments.get(f"{run.label} {channel}", "")) for channel, spec in specs.items())]
    return out + [f"# not used: {column} ({why})" for column, why in unused.items()]


def _unknown(unknown: Unknown) -> dict[str, Any]:
    return changed(unknown)


def _line(key: str, value: Any, comment: str) -> str:
    return f"{key_text(key)} = {value_text(value)}" + (f"    # {comment}" if comment else "")
