"""Files are read as a whole, and some twice: a pipe or a device would be waited for without end, and is refused before it is opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from calibody.errors import CalibodyError


def refuse_stream(path: Path, what: str) -> None:
    """A sentence for what is there and neither a file nor a folder."""
    try:
        kind = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # who opens it says why it cannot
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise CalibodyError(f'{what} "{path}" is a pipe or a device, not a file; write its content into a file and name that.')
