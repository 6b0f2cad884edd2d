"""From files to a `Recording`: which column is which channel, in what unit, with what noise.

    read("swingup.csv", observe={"joint.arm.angle": {"column": "theta", "unit": "deg", "sd": 0.1}}, drive={"actuator.motor": "u"})

The value of a channel is `unit * (scale * column + offset)`: `offset` and `sd` are in `unit`, which is SI if left out. An encoder with
2048 counts per turn is `scale = 360/2048, unit = "deg"`. Several rates in one file are columns with gaps, or columns with clocks of their own; a
channel may also come from a file of its own. Rows whose time and value are both missing are padding and left out.

Without a clock (`time=None`) every row is a pose at rest: rows are counted from 1, and angles are not unwrapped, since one pose says nothing about the next.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from calibody.errors import CalibodyError, nearest
from calibody.recording.orientations import continuous, rotation_vectors
from calibody.recording.plates import PlateSpec, plate_spec
from calibody.recording.recording import Drive, Observation, Recording, check_channel, check_clock, check_resolution, check_sd, check_valid, is_finite
from calibody.recording.signal import HOLDS, Signal
from calibody.recording.tables import Table, open_table
from calibody.recording.tables.files import joined
from calibody.recording.units import factor, fitting, quantity
from calibody.recording.unknown import EVERY, UNKNOWN, UnknownDrive, is_unknown, unknown_drive

# The components of vector channels by their number: points and rotation vectors, quaternions, twists, poses.
COMPONENTS = {
    3: ("x", "y", "z"),
    4: ("w", "x", "y", "z"),
    6: ("x", "y", "z", "rx", "ry", "rz"),
    7: ("x", "y", "z", "qw", "qx", "qy", "qz"),
}
_COUNTS = {"orientation": (4,), "pose": (7,), "rate": (3, 6), "force": (3, 6)}
ORIENTATIONS = ("angle", "orientation", "pose")
"""Quantities whose columns are those of a rotation."""


@dataclass(frozen=True)
class ObserveSpec:
    """Where an observed channel comes from. A plain string instead of it is the column."""

    column: str | None = None
    """The column of a scalar channel."""
    columns: tuple[str, ...] | None = None
    """The columns of a vector channel, which then becomes as many scalar ones (.x, .y, .z)."""
    sd: float | str | None = None
    """Standard deviation of the noise in `unit`, of a quaternion that of its rotation [rad]: a number, or the column that has it sample by sample; left out, it
    is found."""
    scale: float = 1.0
    """Factor from the column to `unit`."""
    offset: float = 0.0
    """Added after `scale`, in `unit`."""
    unit: str | None = None
    """One of `units`; left out, SI."""
    file: str | None = None
    """Another file than the run's, relative to its folder."""
    time: str | None = None
    """Another clock column than the run's."""
    time_unit: str | None = None
    """Of this clock: "s", "ms", "us" or "ns"; left out, the run's."""
    resolution: float | None = None
    """Step of a sensor that counts, in `unit`: adds resolution^2/12 to the variance."""
    valid: tuple[float, float] | None = None
    """Limits of the sensor in `unit`: samples at or beyond them are ignored."""
    unwrap: bool | None = None
    """Undo jumps of a turn. Left out: for one column of an angle, unless the series has counted its turns."""


@dataclass(frozen=True)
class DriveSpec:
    """Where a drive comes from; the fields it shares with `ObserveSpec` mean the same. A plain string instead of it is the column."""

    column: str | None = None
    columns: tuple[str, ...] | None = None
    hold: str = "zero"
    """ "zero": constant until the next sample; "linear": joined by straight lines. Gaps are bridged the same way."""
    sd: float | None = None
    """Standard deviation of the drive itself in `unit`; left out, it is known exactly."""
    scale: float = 1.0
    offset: float = 0.0
    unit: str | None = None
    file: str | None = None
    time: str | None = None
    time_unit: str | None = None


Spec = TypeVar("Spec", ObserveSpec, DriveSpec)


def read(
    path: str | Path | Mapping[str, Any] | Any,
    time: str | None = "t",
    observe: Mapping[str, Any] | None = None,
    drive: Mapping[str, Any] | str | None = None,
    name: str | None = None,
    start: float | None = None,
    end: float | None = None,
    *,
    time_unit: str = "s",
    initial: Mapping[str, Any] | None = None,
    plates: Sequence[Mapping[str, Any] | PlateSpec] = (),
) -> Recording:
    """The recording in a file (CSV, Parquet, NPZ, MAT, ROS bag, MCAP, C3D), a mapping of arrays or a polars DataFrame.

    `time` is the clock column, in `time_unit`; None: there is no clock, every row is a pose at rest. `observe` and `drive` map channels to columns (a name, a mapping of options, or the spec itself).
    `start` and `end` [s] cut the run; by default it goes from the first to the last observed sample. `initial` are values of joints at the start that are
    known: `{"joint.a.angle": 0.3, "joint.a.rate": {"value": 0.0, "sd": 0.01}}`, in SI units.

    A force on a joint that acts and was not measured is `"joint.NAME.force": "unknown"`, or `{"unknown": True, "sd": 50.0, "correlation_time": 0.1}` with its size; `drive = "unknown"` are all joints,
    and so is `"joint.*.force"` beside measured drives. `plates` are force plates: `{"body": "foot", "force": "force_*", "point": "point_*", "sd": 20.0}`, a star standing for x, y and z.
    """
    run = _Run(path, time, time_unit)
    observations = [o for channel, given in _entries("observe", observe) for o in run.observations(channel, spec_of(ObserveSpec, channel, given))]
    known, unknown = split_drives(drive)
    drives = [d for channel, given in known for d in run.drives(channel, spec_of(DriveSpec, channel, given))]
    return Recording(
        name=name or (Path(path).stem if isinstance(path, (str, Path)) else "run"),
        observations=tuple(observations),
        drives=tuple(drives),
        start=math.nan if start is None else start,
        end=math.nan if end is None else end,
        source=run.source,
        sha256=run.sha256,
        initial={} if initial is None else initial,
        poses=time is None,
        unknown=tuple(unknown),
        plates=tuple(plate_spec(given).read(run.column) for given in plates),
    )


def mistakes(
    path: str | Path | Mapping[str, Any] | Any,
    time: str | None = "t",
    observe: Mapping[str, Any] | None = None,
    drive: Mapping[str, Any] | None = None,
    *,
    time_unit: str = "s",
    plates: Sequence[Mapping[str, Any] | PlateSpec] = (),
) -> list[str]:
    """All sentences of the channels that `read` would refuse, of which it raises only the first."""
    run = _Run(path, time, time_unit)
    attempts = [lambda c=c, g=g: run.observations(c, spec_of(ObserveSpec, c, g)) for c, g in _entries("observe", observe)]
    attempts += [lambda c=c, g=g: run.drives(c, spec_of(DriveSpec, c, g)) for c, g in _entries("drive", drive) if not is_unknown(g)]
    attempts += [lambda g=g: plate_spec(g).read(run.column) for g in plates]
    out = []
    for attempt in attempts:
        try:
            attempt()
        except CalibodyError as error:
            out.append(str(error))
    return list(dict.fromkeys(out))


def spec_of(kind: type[Spec], channel: str, given: Any) -> Spec:
    """The checked spec that a user's string or mapping means."""
    what = f'The {"observed channel" if kind is ObserveSpec else "drive"} "{check_channel(channel)}"'
    if isinstance(given, kind):
        given = {field.name: getattr(given, field.name) for field in dataclasses.fields(kind)}
    if isinstance(given, str):
        given = {"column": given}
    if not isinstance(given, Mapping):
        raise CalibodyError(f'{what} is {given!r}; give the name of a column, or options such as {{column = "..."}}.')
    known = [field.name for field in dataclasses.fields(kind)]
    for key in given:
        if key not in known:
            raise CalibodyError(f'{what} has an unknown option "{key}"{nearest(key, known) or "; it takes " + ", ".join(known) + "."}')
    options = dict(given)
    _check_columns(what, options)
    _check_options(what, options, kind)
    return kind(**options)


def _check_columns(what: str, options: dict[str, Any]) -> None:
    column, columns = options.get("column"), options.get("columns")
    if (column is None) == (columns is None):
        raise CalibodyError(f"{what} needs either column (a name) or columns (a list of names).")
    if columns is not None:
        if isinstance(columns, str) or not isinstance(columns, (list, tuple)) or not all(isinstance(c, str) for c in columns):
            raise CalibodyError(f'{what} has columns = {columns!r}; give a list of names, such as ["x", "y", "z"].')
        options["columns"] = tuple(columns)


def _check_options(what: str, options: dict[str, Any], kind: type[ObserveSpec] | type[DriveSpec]) -> None:
    for key in ("column", "unit", "file", "time", "time_unit"):
        if options.get(key) is not None and not isinstance(options[key], str):
            raise CalibodyError(f"{what} has {key} = {options[key]!r}; give a text.")
    for key in ("scale", "offset"):
        value = options.get(key, 1.0)
        if not is_finite(value) or (key == "scale" and value == 0):
            raise CalibodyError(f"{what} has {key} = {value!r}; give a finite number{' other than zero' if key == 'scale' else ''}.")
    if options.get("unwrap") not in (None, True, False):
        raise CalibodyError(f"{what} has unwrap = {options['unwrap']!r}; give true or false.")
    if options.get("hold", "zero") not in HOLDS:
        raise CalibodyError(f'{what} has hold = {options["hold"]!r}; give "zero" or "linear".')
    if not isinstance(options.get("sd"), str):
        check_sd(options.get("sd"), what)
    elif kind is DriveSpec:
        raise CalibodyError(f"{what} has sd = {options['sd']!r}; give one number (only observed channels have an sd per sample).")
    check_resolution(options.get("resolution"), what)
    if options.get("valid") is not None:
        options["valid"] = check_valid(options["valid"], what)


class _Run:
    """The tables of one run, each read once."""

    def __init__(self, data: Any, time: str | None, time_unit: str) -> None:
        self.data, self.time, self.time_unit = data, time, time_unit
        self.folder = Path(data).parent if isinstance(data, (str, Path)) else Path()
        self.tables: dict[str, Table] = {}

    def table(self, file: str | None) -> Table:
        key = "" if file is None else str(self.folder / file)
        if key not in self.tables:
            self.tables[key] = open_table(key or self.data)
        return self.tables[key]

    @property
    def source(self) -> str:
        return ", ".join(table.source for table in self.tables.values()) or "nothing"

    @property
    def sha256(self) -> str | None:
        digests = [table.sha256 for table in self.tables.values() if table.sha256]
        if len(digests) < 2:
            return digests[0] if digests else None
        return joined(digests)

    def observations(self, channel: str, spec: ObserveSpec) -> list[Observation]:
        unit = factor(spec.unit, channel)
        read = [self.series(f'the channel "{path}"', path, spec, column) for path, column in _scalars(channel, spec)]
        times, paths, values = [t for t, _ in read], observed_paths(channel, spec.columns), [x for _, x in read]
        if spec.columns is not None and quantity(channel) in ORIENTATIONS:
            if any(not np.array_equal(t, times[0]) for t in times):
                raise CalibodyError(f'The columns of the channel "{channel}" have different clocks; an orientation needs all of them at the same instants.')
            values = _oriented(channel, spec, np.stack(values), unit)
        sd = self.spread(channel, spec, times) if isinstance(spec.sd, str) else [None if spec.sd is None else unit * spec.sd] * len(times)
        resolution, valid = (
            None if spec.resolution is None else abs(unit) * spec.resolution,
            None if spec.valid is None else tuple(unit * x for x in spec.valid),
        )
        found = [Observation(path, t, x, s, resolution=resolution, valid=valid) for path, t, x, s in zip(paths, times, values, sd, strict=False)]  # type: ignore[arg-type]
        automatic = spec.unwrap is None and spec.columns is None and quantity(channel) == "angle" and self.time is not None
        return [o.unwrapped(force=spec.unwrap is True) for o in found] if automatic or spec.unwrap else found

    def spread(self, channel: str, spec: ObserveSpec, times: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The sd of every sample, from a column beside the values."""
        clock, sd = self.series(f'the sd of the channel "{channel}"', channel, dataclasses.replace(spec, scale=1.0, offset=0.0), str(spec.sd), padding=False)
        at = {t: x for t, x in zip(clock, sd, strict=True)}
        return [np.array([at.get(t, math.nan) for t in instants]) for instants in times]

    def drives(self, channel: str, spec: DriveSpec) -> list[Drive]:
        unit = factor(spec.unit, channel)
        sd = None if spec.sd is None else unit * spec.sd
        out = []
        for path, column in _scalars(channel, spec):
            times, values = self.series(f'the drive "{path}"', path, spec, column)
            known = ~np.isnan(values)
            if not known.any():
                raise CalibodyError(f'The drive "{path}" has no finite sample; check the column "{column}" and its missing values.')
            if np.isinf(values).any():
                raise CalibodyError(f'The drive "{path}" is infinite at sample {int(np.argmax(np.isinf(values))) + 1}; leave the cell empty if it is missing.')
            out.append(Drive(path, Signal(times[known], values[known], spec.hold, f'the drive "{path}"'), sd, missing=int((~known).sum())))
        return out

    def column(self, file: str | None, time: str | None, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Clock [s] and values of a column of a force plate, in the units of the file."""
        table = self.table(file)
        if self.time is None:
            raise CalibodyError(f'"{table.source}" has poses at rest, and force plates; poses need no forces: leave one of them out.')
        raw = table.numbers(name, "a force plate")
        return table.seconds(table.clock(self.time if time is None else time, name, "a force plate"), self.time_unit, "a force plate"), raw

    def series(self, what: str, path: str, spec: ObserveSpec | DriveSpec, column: str, padding: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Clock [s] and values [SI] of one column, without padding (rows without time and value; without `padding`, only without time)."""
        table, unit = self.table(spec.file), factor(spec.unit, path)
        _check_stated_unit(table, what, path, spec, column)
        if self.time is None:
            return self.numbered(what, path, table, spec, column)
        clock = table.clock(self.time if spec.time is None else spec.time, column, what)
        times = table.seconds(clock, self.time_unit if spec.time_unit is None else spec.time_unit, what)
        raw = table.numbers(column, what)
        if len(times) != len(raw):
            raise CalibodyError(f'"{table.source}": the clock "{clock}" has {len(times)} samples and "{column}" has {len(raw)}; they must be equally long.')
        used = ~(np.isnan(times) & np.isnan(raw)) if padding else ~np.isnan(times)
        times, raw = times[used], raw[used]
        check_clock(f'"{table.source}", clock "{clock}" of {what}', times)
        with np.errstate(over="ignore", invalid="ignore"):
            return times, unit * (spec.scale * raw + spec.offset)

    @staticmethod
    def numbered(what: str, path: str, table: Table, spec: ObserveSpec | DriveSpec, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Without a clock: the numbers of the rows, from 1, and their values [SI]."""
        if spec.time is not None or spec.time_unit is not None:
            raise CalibodyError(f'"{table.source}": {what} has a clock of its own, but this recording has poses at rest and no clock; leave it out.')
        raw = table.numbers(column, what)
        with np.errstate(over="ignore", invalid="ignore"):
            return 1.0 + np.arange(len(raw)), factor(spec.unit, path) * (spec.scale * raw + spec.offset)


def _check_stated_unit(table: Table, what: str, path: str, spec: ObserveSpec | DriveSpec, column: str) -> None:
    """A column called "theta [deg]" must not be taken for radians."""
    stated = table.stated_unit(column)
    if spec.unit is None and spec.scale == 1.0 and fitting(path).get(stated, 1.0) != 1.0:
        raise CalibodyError(
            f'"{table.source}": the column "{column}" of {what} is in {stated} by its name; give unit = "{stated}" (offset and sd are then in it too), or a scale.'
        )


def _entries(word: str, given: object) -> list[tuple[str, Any]]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise CalibodyError(f'{word} is {type(given).__name__}; give a mapping from channels to columns, such as {{"joint.NAME.angle": "theta"}}.')
    return list(given.items())


def split_drives(given: Any) -> tuple[list[tuple[str, Any]], list[UnknownDrive]]:
    """Drives that come from columns, and those that are unknown."""
    pairs = _entries("drive", {EVERY: UNKNOWN} if given == UNKNOWN else given)
    return [(c, g) for c, g in pairs if not is_unknown(g)], [unknown_drive(c, g) for c, g in pairs if is_unknown(g)]


def observed_paths(channel: str, columns: tuple[str, ...] | None) -> list[str]:
    """The scalar channels that an observed channel becomes: quaternions are kept as rotation vectors, a pose as a position and one of these."""
    if columns is None:
        return [channel]
    head, word = channel.rpartition(".")[0], quantity(channel)
    wholes = {"orientation": [f"{head}.angle"], "pose": [f"{head}.position", f"{head}.angle"]}.get(word, [channel])
    return [f"{whole}.{part}" for whole in wholes for part in (COMPONENTS[3] if word in ORIENTATIONS else COMPONENTS.get(len(columns), ()))]


def _oriented(channel: str, spec: ObserveSpec, values: np.ndarray, unit: float) -> list[np.ndarray]:
    """Positions and rotation vectors from the columns of a pose, of a quaternion or of a rotation vector."""
    if spec.unwrap:
        raise CalibodyError(f'The channel "{channel}" is an orientation, whose components are not angles of their own; leave unwrap out.')
    if quantity(channel) == "angle":
        return list(continuous(values))
    if quantity(channel) == "pose" and spec.sd is not None:
        body = channel.rpartition(".")[0]
        raise CalibodyError(f'The channel "{channel}" has one sd for metres and radians; observe "{body}.position" and "{body}.orientation" with an sd each.')
    return [*values[:-4], *rotation_vectors(f'The channel "{channel}"', values[-4:] / (unit * spec.scale))]


def _scalars(channel: str, spec: ObserveSpec | DriveSpec) -> list[tuple[str, str]]:
    """The scalar channels a spec stands for, each with its column."""
    if spec.columns is None:
        assert spec.column is not None  # checked by spec_of
        return [(channel, spec.column)]
    counts = _COUNTS.get(quantity(channel), (3,))
    if len(spec.columns) not in counts:
        expected = " or ".join(f"{n} ({', '.join(COMPONENTS[n])})" for n in counts)
        raise CalibodyError(f'The channel "{channel}" was given {len(spec.columns)} columns; give {expected}, or column for a scalar.')
    return [(f"{channel}.{part}", column) for part, column in zip(COMPONENTS[len(spec.columns)], spec.columns, strict=True)]
