"""What the commands share: options that several have, exit codes, tables and notes."""

from __future__ import annotations

import enum
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table


NOT_TRUSTED, USER_MISTAKE, DEFECT, INTERRUPTED = 1, 2, 70, 130
BEGAN = time.perf_counter()


class Coordinates(enum.StrEnum):
    auto = "auto"
    tree = "tree"
    free = "free"


class Interrupted(Exception):
    """Ctrl-C at a moment where there is something to say about it."""


ExperimentFile = Annotated[Path, typer.Argument(metavar="FILE", help="An experiment file (TOML).")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="An MJCF, URDF or OpenSim file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def table_of(title: str, *headings: str) -> Table:
    from calibody.console import table

    return table(title, *headings)


def plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def show(table: Table | None, notes: list[str]) -> None:
    from calibody.console import output

    console = output()
    if table is not None:
        console.print(table)
    for note in notes:
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)


def tell(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
