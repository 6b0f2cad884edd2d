"""Clocks, units and noise from the values of columns, where names do not say them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibody.errors import CalibodyError
from calibody.experiment.guess import names
from calibody.experiment.guess.columns import LIKELY, SURE, UNSURE
from calibody.recording.filters import noise_sd
from calibody.recording.tables import Table
from calibody.recording.units import TIME_UNITS, fitting

SLOWEST = 0.25
"""s: the largest sampling period that is taken for a recording's; a clock whose steps are larger counts in a smaller unit."""
MOST_RADIANS, SURELY_DEGREES = 4.0 * math.pi, 40.0
"""Largest value of a joint's angle: up to the first it is taken for radians, from the second on for degrees; between them it is not sure."""
LONGEST_SLIDE = 20.0
"""m: what moves further is in millimetres."""
NOTHING = 1e-7
"""Noise below this share of a channel's range is that of numbers, not of an instrument."""
COUNTS = 400
"""Values that a series has at most, if it is a sensor's counts that are looked at for their step."""


@dataclass(frozen=True)
class Guess:
    """Something that was not said and had to be found."""

    what: str
    value: str
    why: str
    sure: str


def clock(table: Table) -> tuple[str, str, Guess]:
    """The column of the clock, its unit, and why."""
    name = _clock_column(table)
    column = table.columns[name]
    values = np.asarray(table.seconds(name, table.stated_unit(name) if table.stated_unit(name) in TIME_UNITS else "s", "the clock"))
    if str(getattr(column, "dtype", "")).startswith(("Datetime", "Duration", "datetime64", "timedelta64")):
        return name, "s", Guess("clock", name, "its values are instants", SURE)
    stated = table.stated_unit(name) or next((names.TIME_WORDS[w] for w in names.words(name)[1:] if w in names.TIME_WORDS), "")
    if stated in TIME_UNITS:
        return name, stated, Guess("clock", f"{name} [{stated}]", "the unit is in its name", SURE)
    step = float(np.median(np.diff(values[np.isfinite(values)])))
    unit = next((u for u in ("s", "ms", "us") if step * TIME_UNITS[u] <= SLOWEST), "ns")
    why = f"its steps of {step:.4g} {unit} are {1.0 / (step * TIME_UNITS[unit]):.4g} samples per second"
    return name, unit, Guess("clock", f"{name} [{unit}]", why, SURE if unit == "s" else LIKELY)


def _clock_column(table: Table) -> str:
    named = [c for c in table.columns if set(names.words(c)) & names.CLOCKS]
    for column in [*sorted(named, key=len), *table.columns]:
        try:
            values = table.seconds(column, table.stated_unit(column) if table.stated_unit(column) in TIME_UNITS else "s", "the clock")
        except CalibodyError:
            continue
        values = values[np.isfinite(values)]
        if len(values) > 3 and (np.diff(values) > 0).all():
            return column
    raise CalibodyError(f'"{table.source}" has no column whose numbers increase from row to row, so none can be its clock; sort the rows, or add a column "t".')


def unit_of(table: Table, column: str, channel: str) -> tuple[str | None, str]:
    """The unit that a column's name states, if the channel can be measured in it."""
    stated = names.stated_unit(column, table.stated_unit(column))
    return (stated, "the unit is in its name") if stated in fitting(channel) else (None, "")


def angles(values: Sequence[np.ndarray]) -> tuple[str, str, str]:
    """The unit of all angles of a log, why, and how sure."""
    largest = max(float(np.nanmax(np.abs(x))) for x in values)
    if largest <= MOST_RADIANS:
        return "rad", f"no angle exceeds {largest:.3g}", LIKELY if largest > 0.05 else UNSURE
    return "deg", f"angles go up to {largest:.3g}", SURE if largest > SURELY_DEGREES else UNSURE


def lengths(values: Sequence[np.ndarray]) -> tuple[str, str, str]:
    largest = max(float(np.nanmax(x) - np.nanmin(x)) for x in values)
    unit = "mm" if largest > LONGEST_SLIDE else "m"
    return unit, f"the largest travel is {largest:.3g}", LIKELY


def rates(times: np.ndarray, rate: np.ndarray, coordinate: np.ndarray, units: dict[str, float]) -> tuple[str | None, str]:
    """The unit in which a rate is the slope of its coordinate (SI)."""
    slope = np.gradient(coordinate, times)
    here = np.isfinite(slope) & np.isfinite(rate)
    ratio = float(np.std(rate[here]) / max(float(np.std(slope[here])), 1e-300))
    best = min(units, key=lambda u: abs(math.log(max(ratio * units[u], 1e-300))))
    return (best, f"in this unit it is {ratio * units[best]:.2g} times the slope of the position") if 0.5 < ratio * units[best] < 2.0 else (None, "")


def noise(times: np.ndarray, values: np.ndarray) -> tuple[float | None, float | None]:
    """The sd of the noise, and the step of a sensor that counts; None where there is none to be seen."""
    here = np.isfinite(values)
    t, x = times[here], values[here]
    sd, span = noise_sd(t, x), float(np.ptp(x))
    step = _step(x)
    if not sd > NOTHING * span:
        return None, step
    return (None if step is not None and sd < step else sd), (step if step is not None and step > 0.5 * sd else None)


def _step(x: np.ndarray) -> float | None:
    """The grid that all samples lie on, if there is one that is not that of written digits."""
    levels = np.unique(x)
    if not 3 < len(levels) < min(COUNTS, len(x) // 4):
        return None
    step = float(np.min(np.diff(levels)))
    return step if np.allclose((levels - levels[0]) / step, np.round((levels - levels[0]) / step), atol=0.05) else None
