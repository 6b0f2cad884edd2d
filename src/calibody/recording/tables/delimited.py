"""CSV: one header line; `,`, `;` or tab between cells, found from the header; with `;` or tab a column may use the decimal comma.

UTF-8 with or without byte order mark, UTF-16 with it, else Latin-1. Lines that begin with # are comments, as is a first line `sep=;`; a
header may stand in the last one before the numbers (as numpy.savetxt writes it). Empty cells, NaN, NA, null and none are gaps.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from calibody.errors import CalibodyError
from calibody.recording.tables.files import bytes_of, one_line
from calibody.recording.tables.table import Table

MISSING = ("", "nan", "-nan", "nan(ind)", "-nan(ind)", "na", "n/a", "null", "none")


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
    def repeated(self) -> frozenset[str]:
        """Names that head more than one column."""
        return frozenset(name for name, count in Counter(self.names).items() if count > 1)

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


def read(path: Path) -> Table:
    content = bytes_of(path)
    text = _split_header(path.name, _decode(content))
    frame, repeated = _parse(text), text.repeated
    columns = {name: frame[f"{k}"].alias(name) for k, name in enumerate(text.names) if name not in repeated}
    return Table(path.name, columns, hashlib.sha256(content).hexdigest(), repeated=repeated, text_numbers=partial(_text_numbers, text))


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
        raise CalibodyError(f'"{text.source}" cannot be read as CSV: {one_line(error)}.') from None
    return out


def _text_numbers(text: CsvText, column: pl.Series, what: str) -> np.ndarray:
    cells = column.str.strip_chars()
    if text.delimiter != ",":
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


def _bad_cell(what: str, cell: str, row: int, text: CsvText, name: str) -> str:
    short = cell if len(cell) <= 40 else cell[:37] + "..."
    first = next(text.rows(), (0, []))[1] if row == 0 else []
    if first and not any(_is_number(c) for c in first):
        return f'{what}: the line after the header holds {short!r}, not a number; if it names units, remove the line and give unit = "..." with each channel.'
    where = text.line_of(name, cell)
    if text.delimiter == "," and re.fullmatch(r"[+-]?\d+,\d+", cell):
        return f"{what}, {where} is {short!r}, with a comma inside the number; separate the cells by ; or write decimal points."
    return f"{what}, {where} is {short!r}, not a number; leave gaps empty or write NaN."
