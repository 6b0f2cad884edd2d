"""Text tables with a header of their own kind: lines, and rows of numbers in which an empty cell is a gap."""

from __future__ import annotations

import numpy as np

from calibody.errors import CalibodyError


def text_of(content: bytes) -> list[str]:
    try:
        return content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        return content.decode("latin-1").splitlines()  # names with accents, written by older programs


def cells(line: str) -> list[str]:
    """Cells between tabs; where there are no tabs, between spaces."""
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()


def rows_of(lines: list[str], first: int, width: int, name: str) -> np.ndarray:
    """(rows, width) numbers of the lines from `first` on (counted from 0), empty lines left out; what a row lacks at its end is a gap."""
    out = []
    for k, line in enumerate(lines[first:], first + 1):
        if not line.strip():
            continue
        row = cells(line)
        while len(row) > width and not row[-1]:
            row.pop()
        if len(row) > width:
            raise CalibodyError(f'"{name}", line {k} has {len(row)} cells where the header names {width} columns; export the file again.')
        out.append([_number(cell, name, k) for cell in row] + [np.nan] * (width - len(row)))
    return np.array(out, dtype=float).reshape(len(out), width)


def _number(cell: str, name: str, line: int) -> float:
    if not cell:
        return np.nan
    try:
        return float(cell)
    except ValueError:
        raise CalibodyError(f'"{name}", line {line} has {cell[:40]!r} where a number belongs; leave gaps empty.') from None
