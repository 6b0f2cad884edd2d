"""`calibody demo`: examples with a known answer."""

from __future__ import annotations

import enum
import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from calibody.cli.base import Json, Quiet
from calibody.cli.fitting import fitted, show_fit


class Demo(enum.StrEnum):
    pendulum = "pendulum"
    furuta = "furuta"
    fourbar = "fourbar"
    arm = "arm"
    stop = "stop"
    toss = "toss"
    gait = "gait"


def demo(
    name: Annotated[Demo, typer.Argument(metavar="[NAME]", help="pendulum, furuta, fourbar, arm, stop, toss or gait.")] = Demo.pendulum,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder to write the example into; without it, calibody-demo/NAME.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a complete example whose answer is known, and fit it.

    \b
        pendulum    one hinge with a motor; the shortest complete example
        furuta      rotary pendulum with 13 unknowns, of which some cannot be determined: the report says which
        fourbar     a closed loop, with the forces in its joints
        arm         seven joints, masses and friction at once
        stop        a driven pendulum that hits a stop: impacts found in the recording
        toss        a cube that is tossed five times: friction, restitution, and why its mass cannot be told
        gait        a person walks over two force plates: joint moments with error bars
    All files are made to be edited: change them, then run calibody fit NAME.toml.
    """
    from calibody import demos
    from calibody.experiment import load

    folder = out if out is not None else Path("calibody-demo") / name.value
    file = demos.write(name.value, folder)
    if not (as_json or quiet):
        typer.echo(f"wrote {file} with its model and recording; fitting it")
    truth = demos.truth_of(folder)
    command = shlex.join(["calibody", "demo", name.value, *(["--out", str(out)] if out else [])])
    found = fitted(load(file), folder / f"{file.stem}-fit", file, show=not (as_json or quiet), command=command, began=time.perf_counter(), truth=truth)
    show_fit(found, as_json, quiet, truth)
