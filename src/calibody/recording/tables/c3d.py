"""C3D files of motion capture, read by ezc3d from the extra `calibody[c3d]`.

A marker `LASI` has the columns LASI.x, LASI.y, LASI.z in metres, whatever unit the file is in (a file that names none is taken as it is), on the
clock t. Analog signals are `analog.NAME` in the file's own units on the clock analog.t. Both clocks begin at zero with the first frame.
Frames in which a marker was not seen are gaps. Names that stand several times in a file (labels of four letters, cut off: RKNE for the outer and for the inner side of the knee) are numbered, RKNE_1 and RKNE_2; RKNE alone is refused.

A force plate has the columns plate.1.force.x|y|z [N], what the plate does to the foot, plate.1.moment.x|y|z [N m], the moment of that about the origin of the laboratory, and
plate.1.point.x|y|z [m], where the force acts on the surface (a gap where it is too small to tell), all in the axes of the laboratory on the clock plate.t. ezc3d makes them of the analog
channels, the calibration and the corners.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.recording.tables.files import digest, one_line, package
from calibody.recording.tables.table import Table
from calibody.recording.units import DIMENSIONS

LEAST_FORCE = 25.0
"""Below this vertical force [N] the place where it acts is noise: a plate's drift is up to that size (15 N, with 3 N of noise, in a public gait trial), a step is 400 and more."""


def read(path: Path) -> Table:
    sha256 = digest(path)
    ezc3d = package("ezc3d", "c3d", path.name)
    try:
        file = ezc3d.c3d(str(path), extract_forceplat_data=True)
        columns, ambiguous = _points(file) | _analogs(file) | _plates(file), _ambiguous(file)
    except CalibodyError:
        raise
    except Exception as error:  # ezc3d passes on whatever its C++ raises
        raise CalibodyError(f'"{path.name}" cannot be read as C3D: {one_line(error)}.') from None
    return Table(path.name, columns, sha256, nested=True, unreadable=ambiguous)


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


def _plates(file: Any) -> dict[str, np.ndarray]:
    out: dict[str, np.ndarray] = {}
    for number, plate in enumerate(file["data"].get("platform", ()), 1):
        metres, newtons = DIMENSIONS["length"].get(plate["unit_position"], 1.0), DIMENSIONS["force"].get(plate["unit_force"], 1.0)
        force, newton_metres = newtons * plate["force"], DIMENSIONS["torque"].get(plate["unit_moment"], 1.0)
        centre = metres * plate["corners"].mean(axis=1)
        point = np.where(np.abs(force[2]) > LEAST_FORCE, metres * plate["center_of_pressure"], np.nan)
        moment = newton_metres * plate["moment"] + np.cross(centre, force, axisb=0).T  # the file's is about the centre of the surface
        for what, values in (("force", force), ("moment", moment), ("point", point)):
            out |= {f"plate.{number}.{what}.{axis}": values[i] for i, axis in enumerate("xyz")}
    if out:
        out["plate.t"] = _clock(_value(file["parameters"]["ANALOG"], "RATE"), len(out["plate.1.force.x"]), "analog signals")
    return out


def _value(group: Any, name: str) -> list[Any]:
    return list(group[name]["value"]) if name in group else []


def _labels(group: Any, number: int) -> list[str]:
    """The names; beyond 255 they go on in LABELS2, LABELS3, ..., what has no name gets its number, and of those that stand several times each gets one."""
    given = [label.strip() for k in ("", *range(2, 10)) for label in _value(group, f"LABELS{k}")][:number]
    names = [label or f"{k}" for k, label in enumerate(given + [""] * (number - len(given)))]
    return [f"{name}_{names[: k + 1].count(name)}" if names.count(name) > 1 else name for k, name in enumerate(names)]


def _ambiguous(file: Any) -> dict[str, str]:
    """Names that several markers or analog signals have, and what to ask for instead."""
    out = {}
    for group, prefix in (("POINT", ""), ("ANALOG", "analog.")):
        labels = [label.strip() for label in _value(file["parameters"].get(group, {}), "LABELS")]
        for name in {label for label in labels if label and labels.count(label) > 1}:
            numbered = [f'"{prefix}{name}_{k + 1}"' for k in range(labels.count(name))]
            out[f"{prefix}{name}"] = f"{len(numbered)} signals of the file have this name, {' and '.join(numbered)} here, in the order of the file"
    return out


def _clock(rate: list[Any], number: int, what: str) -> np.ndarray:
    if not rate or not float(rate[0]) > 0:
        raise CalibodyError(f"The C3D file states no rate of its {what}; set {'POINT' if what == 'points' else 'ANALOG'}:RATE in Hz.")
    return np.arange(number) / float(rate[0])
