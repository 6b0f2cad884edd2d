"""MAT files: MATLAB 4 to 7 by scipy, 7.3 (which is HDF5) by h5py from the extra `calibody[hdf5]`.

Fields of structs get dotted names (`log.theta`), elements of struct arrays and cells are numbered (`log.signals[0].values`), as are the
columns of a matrix (`log.pos[2]`). Dimensions of length one are left out. Objects of MATLAB's classes (timeseries, table, datetime) have no
public format: they are refused when they are asked for.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.recording.tables.files import bytes_of, one_line, package
from calibody.recording.tables.table import MOST_COLUMNS, Table, split_columns

HDF5 = b"\x89HDF\r\n\x1a\n"
HDF5_OFFSETS = (0, 512, 1024, 2048)
"""Where the signature of an HDF5 file can stand; MATLAB puts 512 bytes of its own before it."""
OBJECT = "it is an object of a MATLAB class; save its arrays instead, for instance t = ts.Time; x = ts.Data; save('log.mat', 't', 'x')"


def read(path: Path) -> Table:
    content = bytes_of(path)
    version_73 = any(content[k : k + len(HDF5)] == HDF5 for k in HDF5_OFFSETS)
    h5py = package("h5py", "hdf5", path.name) if version_73 else None
    columns: dict[str, Any] = {}
    unreadable: dict[str, str] = {}
    try:
        for name, value in (_version_73(h5py, content) if h5py else _version_5(content)).items():
            _flatten(name, value, columns, unreadable)
    except Exception as error:  # damaged files raise nearly anything
        raise CalibodyError(f'"{path.name}" cannot be read as a MAT file: {one_line(error)}.') from None
    return Table(path.name, columns, hashlib.sha256(content).hexdigest(), nested=True, unreadable=unreadable)


def _flatten(name: str, value: Any, columns: dict[str, Any], unreadable: dict[str, str]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(f"{name}.{key}", inner, columns, unreadable)
    elif isinstance(value, list) or (isinstance(value, np.ndarray) and value.dtype == object):
        for k, inner in enumerate(np.ravel(value) if isinstance(value, np.ndarray) else value[:MOST_COLUMNS]):
            _flatten(f"{name}[{k}]", inner, columns, unreadable)
    elif isinstance(value, (np.ndarray, np.number, int, float)) and np.asarray(value).dtype.kind in "biufc":
        columns |= split_columns({name: np.atleast_1d(value)})
    elif not isinstance(value, (str, bytes, np.ndarray)):
        unreadable[name] = OBJECT


# MATLAB 4 to 7


def _version_5(content: bytes) -> dict[str, Any]:
    from scipy.io import loadmat

    return {name: value for name, value in loadmat(io.BytesIO(content), simplify_cells=True).items() if not name.startswith("__")}


# MATLAB 7.3: groups are structs, datasets are arrays with their dimensions reversed, cells and struct arrays are references


def _version_73(h5py: Any, content: bytes) -> dict[str, Any]:
    with h5py.File(io.BytesIO(content), "r") as file:
        return {name: _node(h5py, file, item) for name, item in file.items() if not name.startswith("#")}


def _node(h5py: Any, file: Any, item: Any) -> Any:
    kind = _text(item.attrs.get("MATLAB_class", b""))
    if "MATLAB_object_decode" in item.attrs:
        return None
    if isinstance(item, h5py.Group):
        return {name: _node(h5py, file, inner) for name, inner in item.items()}
    if item.dtype == h5py.ref_dtype:
        return [_node(h5py, file, file[reference]) for reference in np.ravel(item[()])[:MOST_COLUMNS]]
    if kind == "char":
        return ""
    if "MATLAB_empty" in item.attrs:
        return np.empty(0)
    return np.squeeze(np.transpose(item[()]))


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
