"""`Table`: columns as they came, turned into numbers when they are asked for.

So a column of text that nobody uses does no harm, and a bad cell is reported with the name of the column and the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from calibody.errors import CalibodyError, nearest
from calibody.recording.units import TIME_UNITS, time_factor

MOST_COLUMNS = 1000
"""A matrix with more columns than this is not split into them: its samples go the other way."""
MINUS = "-"
_WITH_UNIT = re.compile(r"(?P<name>.*?)\s*[\[(](?P<unit>[^\[\]()]+)[\])]")


@dataclass(frozen=True)
class Table:
    """Named columns of equal or different length."""

    source: str
    columns: Mapping[str, Any]
    """Each a polars Series or something numpy can read."""
    sha256: str | None = None
    nested: bool = False
    """Whether names are dotted paths, so that a clock is looked for beside its column first, then further out."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Names of what cannot be read, and why."""
    repeated: frozenset[str] = frozenset()
    """Names that head more than one column."""
    text_numbers: Callable[[pl.Series, str], np.ndarray] | None = None
    """How a column of text becomes numbers, if the format knows better than polars."""

    def numbers(self, name: str, wanted_for: str) -> np.ndarray:
        """A column as floats, gaps as NaN; with its sign changed where the name begins with a minus that is not its own."""
        if name.startswith(MINUS) and name not in self.columns:
            return -self.numbers(name.removeprefix(MINUS), wanted_for)
        column, what = self._find(name, wanted_for), f'"{self.source}", column "{name}"'
        if isinstance(column, pl.Series):
            if column.dtype == pl.String:
                return (self.text_numbers or _text_numbers)(column, what)
            return _series_numbers(column, what)
        return _array_numbers(column, what)

    def seconds(self, name: str, unit: str, wanted_for: str) -> np.ndarray:
        """A clock in seconds. Columns of dates or durations know their unit: seconds, dates since 1970."""
        factor = time_factor(unit, wanted_for)
        column = self._find(name, wanted_for)
        if isinstance(column, pl.Series) and isinstance(column.dtype, (pl.Datetime, pl.Duration)):
            column = column.to_numpy()
        if isinstance(column, np.ndarray) and column.dtype.kind in "mM":
            ns = column.astype("m8[ns]" if column.dtype.kind == "m" else "M8[ns]")
            return np.where(np.isnat(ns), np.nan, ns.astype(np.int64) * 1e-9)
        stated = self.stated_unit(name)
        if TIME_UNITS.get(stated, factor) != factor:
            raise CalibodyError(f'"{self.source}": the clock "{name}" is in {stated} by its name; give time_unit = "{stated}", or rename the column.')
        return self.numbers(name, wanted_for) * factor

    def clock(self, name: str, column: str, wanted_for: str) -> str:
        """The full name of the clock that `name` means for a column: beside `/joints.position[elbow]`, "t" is `/joints.t`."""
        if not self.nested:
            return name
        scope = column if column in self.columns else column.removeprefix(MINUS)
        self._find(scope, wanted_for)
        while scope:
            scope = scope.rpartition(".")[0]
            if scope and f"{scope}.{name}" in self.columns:
                return f"{scope}.{name}"
        return name

    def stated_unit(self, name: str) -> str:
        """The unit in brackets at the end of a column's name, or the empty string."""
        found = None if self.nested else _WITH_UNIT.fullmatch(name)
        return found["unit"].strip() if found else ""

    def _find(self, name: str, wanted_for: str) -> Any:
        if name in self.columns:
            return self.columns[name]
        if name in self.repeated:
            raise CalibodyError(f'"{self.source}" has the column "{name}", wanted for {wanted_for}, more than once; rename one in the header.')
        for prefix, reason in self.unreadable.items():
            if name == prefix or name.startswith((f"{prefix}.", f"{prefix}[")):
                raise CalibodyError(f'"{self.source}": "{prefix}", wanted for {wanted_for}, cannot be read: {reason}.')
        names = list(self.columns)
        listed = "; it has " + ", ".join(f'"{n}"' for n in names[:8]) + (", ..." if len(names) > 8 else ".") if names else "; it has no columns."
        raise CalibodyError(f'"{self.source}" has no column "{name}", wanted for {wanted_for}{self._nearest(name, names) or listed}')

    def _nearest(self, name: str, names: list[str]) -> str:
        for known in names:
            if self.stated_unit(known) and _WITH_UNIT.fullmatch(known)["name"] == name:  # type: ignore[index]
                return f'; did you mean "{known}"?'
        return nearest(name, names)


def split_columns(arrays: Mapping[Any, Any]) -> dict[str, Any]:
    """The arrays by name; the columns of a matrix `pos` are called pos[0], pos[1], ..."""
    out: dict[str, Any] = {}
    for name, array in arrays.items():
        if isinstance(array, np.ndarray) and array.ndim == 2 and array.shape[1] <= MOST_COLUMNS:
            out |= {f"{name}[{k}]": array[:, k] for k in range(array.shape[1])}
        else:
            out[str(name)] = array
    return out


def _text_numbers(column: pl.Series, what: str) -> np.ndarray:
    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    bad = numbers.is_null() & column.is_not_null()
    if bad.any():
        k = int(bad.arg_max() or 0)
        raise CalibodyError(f"{what}, row {k + 1} is {str(column[k])[:40]!r}, not a number; leave gaps empty.")
    return numbers.fill_null(np.nan).to_numpy().astype(float)


def _series_numbers(column: pl.Series, what: str) -> np.ndarray:
    if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
        raise CalibodyError(f"{what} holds {column.dtype}; give a column of numbers.")
    return column.cast(pl.Float64).fill_null(np.nan).to_numpy().astype(float)


def _array_numbers(column: Any, what: str) -> np.ndarray:
    if isinstance(column, np.ma.MaskedArray) and column.dtype.kind in "biuf":
        column = np.ma.filled(column.astype(float), np.nan)
    try:
        array = np.asarray(column)
        if array.dtype.kind not in "biufO":
            raise TypeError
        array = array.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise CalibodyError(f"{what} does not hold numbers; give an array of numbers.") from None
    if array.ndim != 1:
        raise CalibodyError(f"{what} has the shape {array.shape}; give one number per sample (a matrix has one row per sample).")
    return array
