"""NPZ archives of numpy arrays. The columns of a matrix `pos` are called pos[0], pos[1], ..."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np

from calibody.errors import CalibodyError
from calibody.recording.tables.files import bytes_of, one_line
from calibody.recording.tables.table import Table, split_columns


def read(path: Path) -> Table:
    content = bytes_of(path)
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise CalibodyError(f'"{path.name}" is not an NPZ archive; write it with numpy.savez.')
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # a damaged archive can raise nearly anything out of zipfile, zlib and numpy's header parser
        raise CalibodyError(f'"{path.name}" cannot be read as NPZ: {one_line(error)}.') from None
    return Table(path.name, split_columns(arrays), hashlib.sha256(content).hexdigest())
