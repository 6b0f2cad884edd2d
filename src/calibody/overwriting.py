"""A user's file is never written over: what was given is compared with what would be written, however their paths are spelt."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from calibody.errors import CalibodyError


def refuse(targets: Iterable[Path], given: Iterable[Path], remedy: str) -> None:
    """A sentence if one of the files to be written is one of those that were given; call it before anything is written."""
    given = list(given)
    for target in targets:
        if any(same(target, file) for file in given):
            raise CalibodyError(f'"{target}" was given and would be written over; {remedy}.')


def same(a: Path, b: Path) -> bool:
    """Whether both are one file, also through links and other spellings; what does not exist yet is no file."""
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False
