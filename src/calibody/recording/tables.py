"""Tables of columns from CSV, Parquet and NPZ files, data frames and mappings of arrays.

A table keeps its columns as they came and turns one into numbers when it is asked for, so that a column of text that nobody uses does no
harm and a bad cell is reported with the name of the column and the line.

CSV: one header line; `,`, `;` or tab between cells, found from the header; with `;` or tab a column may use the decimal comma. UTF-8 with
or without byte order mark, UTF-16 with it, else Latin-1. Lines that begin with # are comments, as is a first line `sep=;`; a header may stand in the last one before
the numbers (as numpy.savetxt writes it). Empty cells, NaN, NA, null and none are gaps.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from calibody.errors import CalibodyError, nearest
from calibody.recording.units import time_factor

MISSING = ("", "nan", "-nan", "nan(ind)", "-nan(ind)", "na", "n/a", "null", "none")
SUFFIXES = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet", ".npz": "npz"}


@dataclass(frozen=True)
class Table:
    """Named columns of equal or different length."""

    source: str
    columns: Mapping[str, Any]
    """Each a polars Series or something numpy can read."""
    sha256: str | None = None
    text: CsvText | None = None
    """For CSV: the text, to say in which line a bad cell stands."""

    def numbers(self, name: str, wanted_for: str) -> np.ndarray:
        """A column as floats, gaps as NaN."""
        column, what = self._find(name, wanted_for), f'"{self.source}", column "{name}"'
        if isinstance(column, pl.Series):
            return _text_numbers(column, what, self.text) if column.dtype == pl.String else _series_numbers(column, what)
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
        return self.numbers(name, wanted_for) * factor

    def _find(self, name: str, wanted_for: str) -> Any:
        if name in self.columns:
            return self.columns[name]
        if self.text is not None and name in self.text.repeated:
            raise CalibodyError(f'"{self.source}" has the column "{name}", wanted for {wanted_for}, more than once; rename one in the header.')
        names = list(self.columns)
        listed = "; it has " + ", ".join(f'"{n}"' for n in names[:8]) + (", ..." if len(names) > 8 else ".") if names else "; it has no columns."
        raise CalibodyError(f'"{self.source}" has no column "{name}", wanted for {wanted_for}{nearest(name, names) or listed}')


def open_table(data: object) -> Table:
    """The table in a file (by its suffix), a data frame or a mapping of arrays."""
    if isinstance(data, pl.DataFrame):
        return Table("data frame", {name: data[name] for name in data.columns})
    if isinstance(data, Mapping):
        return Table("data in memory", _split_columns(data))
    if not isinstance(data, (str, Path)):
        raise CalibodyError(f"A recording cannot be read from {type(data).__name__}; give a file, a mapping of arrays or a polars DataFrame.")
    path = Path(data)
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise CalibodyError(f'"{path.name}" is not a kind of recording that can be read; give a file ending in {", ".join(SUFFIXES)}.')
    content = _bytes_of(path)
    read = {"csv": _read_csv, "parquet": _read_parquet, "npz": _read_npz}[kind]
    return read(path.name, content, hashlib.sha256(content).hexdigest())


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        there = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        raise CalibodyError(f'The recording "{path}" does not exist{nearest(path.name, there) or "; check its folder and name."}') from None
    except (OSError, ValueError) as error:
        raise CalibodyError(f'The recording "{path}" cannot be read: {_one_line(error)}.') from None


# CSV


@dataclass(frozen=True)
class CsvText:
    """A CSV file's text, split into header and body."""

    source: str
    names: tuple[str, ...]
    body: str
    first_line: int
    """Line number of the body's first line."""
    delimiter: str

    @property
    def repeated(self) -> set[str]:
        """Names that head more than one column."""
        return {name for name in self.names if self.names.count(name) > 1}

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line number, cells) of each row that is neither empty nor a comment; slow, for odd files and error messages."""
        reader = csv.reader(io.StringIO(self.body), delimiter=self.delimiter)
        for cells in reader:
            if cells and not cells[0].startswith("#"):
                yield self.first_line + reader.line_num - 1, cells

    def line_of(self, name: str, cell: str) -> str:
        """Where a cell stands, for a message."""
        column = self.names.index(name)
        try:
            for line, cells in self.rows():
                if len(cells) > column and cells[column].strip() == cell:
                    return f"line {line}"
        except csv.Error:
            pass
        return "one line"


def _read_csv(source: str, content: bytes, sha256: str) -> Table:
    text = _split_header(source, _decode(content))
    frame = _parse(text)
    columns = {name: frame[f"{k}"].alias(name) for k, name in enumerate(text.names) if name not in text.repeated}
    return Table(source, columns, sha256, text)


def _decode(content: bytes) -> str:
    """The text with newlines as newlines."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _split_header(source: str, text: str) -> CsvText:
    lines = text.split("\n")
    k, comment = 0, None
    while k < len(lines) and (not lines[k].strip() or lines[k].startswith("#") or re.fullmatch("sep=.", lines[k])):
        comment = lines[k] if lines[k].startswith("#") else comment
        k += 1
    if k == len(lines):
        raise CalibodyError(f'"{source}" is empty; it needs a header line with the names of the columns, and numbers.')
    header = lines[k]
    if _all_numbers(_cells(header, _delimiter(header))):
        header = (comment or "").lstrip("# ")
        k -= 1
        if len(_cells(header, _delimiter(header))) != len(_cells(lines[k + 1], _delimiter(lines[k + 1]))) or _all_numbers(_cells(header, _delimiter(header))):
            raise CalibodyError(f'"{source}" begins with numbers in line {k + 2}; put a header line with the names of the columns before them.')
    delimiter = _delimiter(header)
    names = tuple(name.strip() for name in _cells(header, delimiter))
    return CsvText(source, names, "\n".join(lines[k + 1 :]), k + 2, delimiter)


def _delimiter(header: str) -> str:
    """The most frequent of `;`, tab and `,` outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    return max(";\t,", key=lambda c: (bare.count(c), c == ","))


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return line.split(delimiter)


def _all_numbers(cells: list[str]) -> bool:
    return bool(cells) and all(_is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell.strip().replace(",", "."))
    except ValueError:
        return False
    return True


def _parse(text: CsvText) -> pl.DataFrame:
    """All cells as text; a row may end in delimiters without content, but not have more cells than the header."""
    schema = {f"{k}": pl.String() for k in range(len(text.names))}
    if not text.body.strip():
        raise CalibodyError(f'"{text.source}" has a header but no rows.')

    try:
        return pl.read_csv(
            text.body.encode("utf-8", "replace"),
            has_header=False,
            schema=schema,
            separator=text.delimiter,
            comment_prefix="#",
            quote_char='"' if '"' in text.body else None,
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return pl.DataFrame(_ragged_rows(text), schema=schema, orient="row")


def _ragged_rows(text: CsvText) -> list[list[str]]:
    """The rows cell by cell, for files whose rows are of different length: short ones end in gaps, long ones may only have empty cells more."""
    width, out = len(text.names), []
    try:
        for line, cells in text.rows():
            if any(cell.strip() for cell in cells[width:]):
                raise CalibodyError(
                    f'"{text.source}", line {line} has {len(cells)} cells but the header names {width} columns; '
                    f"remove lines before the header, and use a decimal comma only with ; or tab between the cells ({text.delimiter!r} was taken)."
                )
            out.append((cells + [""] * width)[:width])
    except csv.Error as error:
        raise CalibodyError(f'"{text.source}" cannot be read as CSV: {_one_line(error)}.') from None
    return out


def _text_numbers(column: pl.Series, what: str, text: CsvText | None) -> np.ndarray:
    cells = column.str.strip_chars()
    if text is not None and text.delimiter != ",":
        commas = cells.str.contains(",", literal=True)
        if commas.any():
            if cells.str.contains(".", literal=True).any():
                raise CalibodyError(f"{what} has decimal commas and decimal points; write one kind, without separators of thousands.")
            cells = cells.str.replace_all(",", ".", literal=True)
    numbers = cells.cast(pl.Float64, strict=False)
    bad = numbers.is_null() & ~(cells.is_null() | cells.str.to_lowercase().is_in(list(MISSING)))
    if bad.any():
        k = int(bad.arg_max() or 0)
        raise CalibodyError(_bad_cell(what, str(column[k]).strip(), k, text, str(column.name)))
    return numbers.fill_null(np.nan).to_numpy().astype(float)


def _bad_cell(what: str, cell: str, row: int, text: CsvText | None, name: str) -> str:
    short = cell if len(cell) <= 40 else cell[:37] + "..."
    if text is None:
        return f"{what}, row {row + 1} is {short!r}, not a number; leave gaps empty."
    first = next(text.rows(), (0, []))[1] if row == 0 else []
    if first and not any(_is_number(c) for c in first):
        return f'{what}: the line after the header holds {short!r}, not a number; if it names units, remove the line and give unit = "..." with each channel.'
    return f"{what}, {text.line_of(name, cell)} is {short!r}, not a number; leave gaps empty or write NaN."


# Parquet, NPZ, memory


def _read_parquet(source: str, content: bytes, sha256: str) -> Table:
    try:
        frame = pl.read_parquet(io.BytesIO(content))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, OverflowError) as error:
        raise CalibodyError(f'"{source}" cannot be read as Parquet: {_one_line(error)}.') from None
    return Table(source, {name: frame[name] for name in frame.columns}, sha256)


def _read_npz(source: str, content: bytes, sha256: str) -> Table:
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise CalibodyError(f'"{source}" is not an NPZ archive; write it with numpy.savez.')
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # a damaged archive can raise nearly anything out of zipfile, zlib and numpy's header parser
        raise CalibodyError(f'"{source}" cannot be read as NPZ: {_one_line(error)}.') from None
    return Table(source, _split_columns(arrays), sha256)


def _split_columns(arrays: Mapping[Any, Any]) -> dict[str, Any]:
    """The arrays by name; the columns of a matrix `pos` are called pos[0], pos[1], ..."""
    out: dict[str, Any] = {}
    for name, array in arrays.items():
        if isinstance(array, np.ndarray) and array.ndim == 2:
            out |= {f"{name}[{k}]": array[:, k] for k in range(array.shape[1])}
        else:
            out[str(name)] = array
    return out


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
        raise CalibodyError(f"{what} has the shape {array.shape}; give one number per sample.")
    return array


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return (text if len(text) <= 160 else text[:157] + "...").rstrip(".")
