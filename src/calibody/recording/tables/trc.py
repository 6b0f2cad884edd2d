"""TRC files of marker positions, as OpenSim and motion-capture programs write them.

A marker `LASI` has the columns LASI.x, LASI.y, LASI.z in metres, whatever unit the header states, on the clock t: as from a C3D file. Frames without
a number are gaps.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from calibody.errors import CalibodyError
from calibody.recording.tables.files import bytes_of
from calibody.recording.tables.lines import cells, rows_of, text_of
from calibody.recording.tables.table import Table
from calibody.recording.units import DIMENSIONS

_LEAST_LINES = 5
"""File type, two lines of settings, two of names."""
_PRINTED = 1e-3
"""Times are printed with three digits or more, some programs cut the rest off [s]."""


def read(path: Path) -> Table:
    content = bytes_of(path)
    lines = text_of(content)
    if len(lines) < _LEAST_LINES or not lines[0].startswith("PathFileType"):
        raise CalibodyError(f'"{path.name}" is not a TRC file: its first line does not begin with PathFileType.')
    settings = dict(zip(cells(lines[1]), cells(lines[2]), strict=False))
    factor = _metres(settings, path.name)
    names = _markers(lines[3])
    rows = rows_of(lines, _first_row(lines), 2 + 3 * len(names), path.name)
    columns = {"t": _clock(rows[:, 0], rows[:, 1], settings.get("DataRate", ""))}
    for k, name in enumerate(names):
        columns |= {f"{name}.{axis}": factor * rows[:, 2 + 3 * k + i] for i, axis in enumerate("xyz")}
    repeated = frozenset(f"{n}.{axis}" for n in names if names.count(n) > 1 for axis in "xyz")
    return Table(path.name, {n: c for n, c in columns.items() if n not in repeated}, hashlib.sha256(content).hexdigest(), nested=True, repeated=repeated)


def _clock(frame: np.ndarray, time: np.ndarray, rate: str) -> np.ndarray:
    """The times; where they are those of the stated rate but for the digits they are printed with, these: a millisecond is a millimetre of a fast foot."""
    try:
        exact = time[0] + (frame - frame[0]) / float(rate)
    except (ValueError, IndexError, ZeroDivisionError):
        return time
    return exact if np.abs(exact - time).max() <= _PRINTED else time


def _metres(settings: dict[str, str], name: str) -> float:
    unit = settings.get("Units", "")
    lengths = DIMENSIONS["length"]
    if unit not in lengths:
        raise CalibodyError(f'"{name}" states the unit "{unit}"; the third line of a TRC file has the unit of its markers, one of {", ".join(lengths)}.')
    return lengths[unit]


def _markers(line: str) -> list[str]:
    """Every third cell behind Frame# and Time; spaces in names as they are."""
    row = line.split("\t") if "\t" in line else line.split()
    return [cell.strip() for cell in row[2:] if cell.strip()]


def _first_row(lines: list[str]) -> int:
    """The first line behind the names of axes (X1 Y1 Z1 ...)."""
    return next((k for k, line in enumerate(lines) if k >= _LEAST_LINES and line.strip() and _begins_with_number(line)), len(lines))


def _begins_with_number(line: str) -> bool:
    try:
        return bool(np.isfinite(float(cells(line)[0])))
    except ValueError:
        return False
