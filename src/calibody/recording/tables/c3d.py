"""C3D files of motion capture, read by ezc3d from the extra `calibody[c3d]`.

A marker `LASI` has the columns LASI.x, LASI.y, LASI.z in metres, whatever unit the file is in (a file that names none is taken as it is), on the
clock t. Analog signals are `analog.NAME` in the file's own units on the clock analog.t. Both clocks begin at zero with the first frame.
Frames in which a marker was not seen are gaps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.recording.tables.files import digest, one_line, package
from calibody.recording.tables.table import Table
from calibody.recording.units import DIMENSIONS


def read(path: Path) -> Table:
    sha256 = digest(path)
    ezc3d = package("ezc3d", "c3d", path.name)
    try:
        file = ezc3d.c3d(str(path))
        columns = _points(file) | _analogs(file)
    except CalibodyError:
        raise
    except Exception as error:  # ezc3d passes on whatever its C++ raises
        raise CalibodyError(f'"{path.name}" cannot be read as C3D: {one_line(error)}.') from None
    return Table(path.name, columns, sha256, nested=True)


def _points(file: Any) -> dict[str, np.ndarray]:
    points = np.asarray(file["data"]["points"])[:3]
    values = file["parameters"]["POINT"]
    unit = (_value(values, "UNITS") or [""])[0].strip()
    factor = DIMENSIONS["length"].get(unit, 1.0)
    out = {"t": _clock(_value(values, "RATE"), points.shape[2], "points")} if points.size else {}
    for k, name in enumerate(_labels(values, points.shape[1])):
        out |= {f"{name}.{axis}": factor * points[i, k] for i, axis in enumerate("xyz")}
    return out


def _analogs(file: Any) -> dict[str, np.ndarray]:
    analogs = np.asarray(file["data"]["analogs"])[0]
    values = file["parameters"].get("ANALOG", {})
    if not analogs.size:
        return {}
    names = _labels(values, len(analogs))
    return {"analog.t": _clock(_value(values, "RATE"), analogs.shape[1], "analog signals")} | {f"analog.{n}": analogs[k] for k, n in enumerate(names)}


def _value(group: Any, name: str) -> list[Any]:
    return list(group[name]["value"]) if name in group else []


def _labels(group: Any, count: int) -> list[str]:
    """The names; beyond 255 they go on in LABELS2, LABELS3, ..., and what has no name gets its number."""
    names = [label.strip() for k in ("", *range(2, 10)) for label in _value(group, f"LABELS{k}")][:count]
    return [name or f"{k}" for k, name in enumerate(names + [""] * (count - len(names)))]


def _clock(rate: list[Any], count: int, what: str) -> np.ndarray:
    if not rate or not float(rate[0]) > 0:
        raise CalibodyError(f"The C3D file states no rate of its {what}; set {'POINT' if what == 'points' else 'ANALOG'}:RATE in Hz.")
    return np.arange(count) / float(rate[0])
