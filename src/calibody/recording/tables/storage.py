"""OpenSim's storage files, .mot and .sto: motions, forces under the feet, results.

Columns are called as in the file, the clock is `time`. Angles of a file that says `inDegrees=yes` are in degrees: give `unit = "deg"` to the channels
that are angles (a file does not say which of its columns are).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from calibody.errors import CalibodyError
from calibody.recording.tables.files import bytes_of
from calibody.recording.tables.lines import cells, rows_of, text_of
from calibody.recording.tables.table import Table

_LONGEST_HEADER = 200
"""Lines among which `endheader` must stand."""


def read(path: Path) -> Table:
    content = bytes_of(path)
    lines = text_of(content)
    end = next((k for k, line in enumerate(lines[:_LONGEST_HEADER]) if line.strip().lower() == "endheader"), None)
    names_at = None if end is None else next((k for k in range(end + 1, len(lines)) if lines[k].strip()), None)
    if names_at is None:
        raise CalibodyError(f'"{path.name}" is not a storage file of OpenSim: it has no line "endheader" with column names and numbers below it.')
    names = [name for name in cells(lines[names_at]) if name]
    rows = rows_of(lines, names_at + 1, len(names), path.name)
    repeated = frozenset(n for n in names if names.count(n) > 1)
    columns = {n: rows[:, k] for k, n in enumerate(names) if n not in repeated}
    return Table(path.name, columns, hashlib.sha256(content).hexdigest(), repeated=repeated)


def write(path: Path, name: str, columns: Mapping[str, np.ndarray], degrees: bool = False) -> None:
    """A storage file with the clock `time` first, as OpenSim reads it; `degrees` says that its angles are in degrees. Digits are all that a number has."""
    table = np.column_stack(list(columns.values()))
    if next(iter(columns)) != "time":
        raise CalibodyError(f'The first column of "{path.name}" is "{next(iter(columns))}"; a storage file begins with time.')
    header = [
        name,
        "version=1",
        f"nRows={len(table)}",
        f"nColumns={table.shape[1]}",
        f"inDegrees={'yes' if degrees else 'no'}",
        "endheader",
        "\t".join(columns),
    ]
    path.write_text("\n".join([*header, *("\t".join(repr(float(x)) for x in row) for row in table)]) + "\n", encoding="utf-8")
