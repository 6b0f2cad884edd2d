"""Parquet files, read by polars."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import polars as pl

from calibody.errors import CalibodyError
from calibody.recording.tables.files import bytes_of, one_line
from calibody.recording.tables.table import Table


def read(path: Path) -> Table:
    content = bytes_of(path)
    try:
        frame = pl.read_parquet(io.BytesIO(content))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, OverflowError) as error:
        raise CalibodyError(f'"{path.name}" cannot be read as Parquet: {one_line(error)}.') from None
    return Table(path.name, {name: frame[name] for name in frame.columns}, hashlib.sha256(content).hexdigest())
