"""Force plates in files: which columns are the force, the point where it acts and the moment, and on which body it acts.

A name with a star stands for three columns, `"R_ground_force_v*"` for those that end in x, y and z.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibody.errors import CalibodyError, nearest, shown
from calibody.recording.plate import AXES, Plate

STAR = "*"
POINT, ORIGIN = ABOUT = ("point", "origin")
IDLE = 0.05
"""Share of its largest force below which a plate carries nothing where it has no point: what it reads there is its drift."""
Column = Callable[[str | None, str | None, str], tuple[np.ndarray, np.ndarray]]
"""From a file, its clock and a column (None: the run's) to times [s] and values."""


@dataclass(frozen=True)
class PlateSpec:
    """One plate; sizes of its errors and its normal are those of a `Plate`."""

    body: str
    force: str | tuple[str, ...]
    """Its columns [N]: what the plate does to the body."""
    point: str | tuple[str, ...]
    """Where that acts [m]."""
    moment: str | tuple[str, ...] | None = None
    """Beside it [N m]; left out, none."""
    about: str = POINT
    """What the moment is about: the "point" where the force acts, or the "origin" of the world (C3D files)."""
    file: str | None = None
    """Another file than the run's."""
    time: str | None = None
    """Another clock column than the run's."""
    sd: float | None = None
    sd_point: float | None = None
    sd_moment: float | None = None
    correlation_time: float = 0.1
    normal: str = ""
    name: str = ""

    def read(self, column: Column) -> Plate:
        (times, force), (_, point) = self._three(column, self.force), self._three(column, self.point)
        moment = np.zeros_like(force) if self.moment is None else self._three(column, self.moment)[1]
        if len({len(force), len(point), len(moment)}) > 1:
            raise CalibodyError(
                f'The plate under "{self.body}" has columns of different length ({len(force)}, {len(point)} and {len(moment)}); give those of one file.'
            )
        idle = ~np.isfinite(point).all(axis=1) & (np.linalg.norm(force, axis=1) < IDLE * np.linalg.norm(force, axis=1).max(initial=0.0))
        force, moment = (np.where(idle[:, None], 0.0, x) for x in (force, moment))
        if self.about == ORIGIN:
            moment = moment - np.cross(np.where(np.isfinite(point), point, 0.0), force)
        return Plate(self.body, times, force, point, moment, self.sd, self.sd_point, self.sd_moment, self.correlation_time, self.normal, self.name)

    def _three(self, column: Column, names: str | tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        each = [names.replace(STAR, axis) for axis in AXES] if isinstance(names, str) else names
        read = [column(self.file, self.time, name) for name in each]
        return read[0][0], np.stack([values for _, values in read], axis=1)


def plate_spec(given: Any) -> PlateSpec:
    """The checked spec that a user's mapping means."""
    if isinstance(given, PlateSpec):
        return given
    what = "A plate"
    if not isinstance(given, Mapping):
        raise CalibodyError(f'{what} is {shown(given)}; give a table such as {{ body = "foot", force = "force_*", point = "point_*", sd = 20 }}.')
    known = {f.name: f for f in dataclasses.fields(PlateSpec)}
    what = f'The plate under "{given["body"]}"' if isinstance(given.get("body"), str) else what
    for key in given:
        if key not in known:
            raise CalibodyError(f'{what} has an unknown option "{key}"{nearest(key, list(known)) or "; it takes " + ", ".join(known) + "."}')
    options = dict(given)
    for key in ("body", "force", "point"):
        if key not in options:
            raise CalibodyError(f"{what} has no {key}; give {'the body that it pushes' if key == 'body' else f'its columns, such as {key}_*'}.")
    for key in ("force", "point", "moment"):
        if key in options and (key != "moment" or options[key] is not None):
            options[key] = _columns(what, key, options[key])
    for key in ("body", "about", "file", "time", "normal", "name"):
        if options.get(key) is not None and not isinstance(options[key], str):
            raise CalibodyError(f"{what} has {key} = {shown(options[key])}; give a text.")
    if options.get("about", POINT) not in ABOUT:
        raise CalibodyError(f'{what} has about = {shown(options["about"])}; give "point" or "origin".')
    return PlateSpec(**options)


def _columns(what: str, key: str, given: Any) -> str | tuple[str, ...]:
    if isinstance(given, str) and STAR in given:
        return given
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 3 and all(isinstance(name, str) for name in given):
        return tuple(given)
    raise CalibodyError(f'{what} has {key} = {shown(given)}; give three columns, or one name with a star that stands for x, y and z, such as "{key}_*".')
