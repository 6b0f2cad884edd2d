"""One fit at a time in a folder: a file that the operating system locks for the process that fits there, and that says who that is.

The lock ends with its process, however that ends: a file that a crash has left behind locks nothing.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from calibody.errors import CalibodyError

FILE = ".fitting"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, or a sentence that names who holds it."""
    path = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise CalibodyError(
            f'The folder "{folder}" cannot be written ({error.strerror or error}); give another folder, or check its permissions and the space left.'
        ) from None
    try:
        if not _acquired(descriptor):
            raise CalibodyError(f'Another fit is writing into "{folder}" ({_owner(path)}); wait for it, stop it, or give another folder.')
        os.truncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode())
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    except OSError as error:
        if error.filename is not None:
            raise
        raise CalibodyError(f'The folder "{folder}" cannot be written ({error.strerror or error}); give another folder, or check the space left.') from None
    finally:
        os.close(descriptor)


def _owner(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()[:200] or "it has just begun"
    except OSError:
        return "it has just ended"


def _acquired(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # beyond the text, which others may read
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
