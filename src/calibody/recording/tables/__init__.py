"""Tables of columns from files of many kinds, data frames and mappings of arrays. One file here per kind, each with `read(path)`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import polars as pl

from calibody.errors import CalibodyError
from calibody.recording.tables.table import Table, split_columns

READERS = {
    ".csv": "delimited",
    ".tsv": "delimited",
    ".txt": "delimited",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
    ".mat": "mat",
    ".bag": "bag",
    ".mcap": "bag",
    ".db3": "bag",
    ".c3d": "c3d",
    ".trc": "trc",
    ".mot": "storage",
    ".sto": "storage",
}


def open_table(data: object) -> Table:
    """The table in a file (by its suffix; a folder is a ROS 2 bag), a data frame or a mapping of arrays."""
    if isinstance(data, pl.DataFrame):
        return Table("data frame", {name: data[name] for name in data.columns})
    if isinstance(data, Mapping):
        return Table("data in memory", split_columns(data))
    if not isinstance(data, (str, Path)):
        raise CalibodyError(f"A recording cannot be read from {type(data).__name__}; give a file, a mapping of arrays or a polars DataFrame.")
    path = Path(data)
    kind = READERS.get(path.suffix.lower())
    if os.path.isdir(path):  # unlike Path.is_dir, False for a name that is too long
        if not (path / "metadata.yaml").is_file():
            raise CalibodyError(f'"{path}" is a folder, and no ROS 2 bag (it has no metadata.yaml), so it cannot be read; name a file in it.')
        kind = "bag"
    if kind is None:
        raise CalibodyError(
            f'"{path.name}" is not a kind of recording that can be read; give a file ending in {", ".join(READERS)}, or the folder of a ROS 2 bag.'
        )
    return import_module(f"{__name__}.{kind}").read(path)


__all__ = ["Table", "open_table"]
