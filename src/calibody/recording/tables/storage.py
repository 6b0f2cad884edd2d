"""OpenSim's storage files, .mot and .sto: motions, forces under the feet, results.

Columns are called as in the file, the clock is `time`. Angles of a file that says `inDegrees=yes` are in degrees: give `unit = "deg"` to the channels
that are angles (a file does not say which of its columns are).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

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
