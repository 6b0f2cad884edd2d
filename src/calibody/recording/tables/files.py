"""What every reader does with a file: its bytes, its digest, the package it needs, and a sentence when one of them is missing."""

from __future__ import annotations

import hashlib
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from calibody.errors import CalibodyError, nearest
from calibody.streams import refuse_stream


def existing(path: Path) -> Path:
    """The path of a file or folder, or a sentence with the nearest name in its folder."""
    if os.path.exists(path):  # unlike Path.exists, False for a name that is too long
        refuse_stream(path, "The recording")
        return path
    there = sorted(os.listdir(path.parent)) if os.path.isdir(path.parent) else []
    raise CalibodyError(f'The recording "{path}" does not exist{nearest(path.name, there) or "; check its folder and name."}')


def bytes_of(path: Path) -> bytes:
    """The content of a file."""
    try:
        return existing(path).read_bytes()
    except OSError as error:
        raise CalibodyError(f'The recording "{path}" cannot be read: {one_line(error)}.') from None


def digest(path: Path) -> str:
    """The SHA-256 of a file, read piece by piece; of a folder, that of its files' digests, one per line, in the order of their names."""
    try:
        if existing(path).is_dir():
            return joined([digest(file) for file in sorted(path.iterdir()) if file.is_file()])
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CalibodyError(f'The recording "{path}" cannot be read: {one_line(error)}.') from None


def joined(digests: list[str]) -> str:
    """One digest for several: the SHA-256 of their hexadecimal digits, one per line."""
    return hashlib.sha256("".join(f"{one}\n" for one in digests).encode()).hexdigest()


def package(module: str, extra: str, source: str) -> Any:
    """An optional package, or a sentence that says how to install it."""
    try:
        return import_module(module)
    except ImportError:
        raise CalibodyError(f'"{source}" is read with {module.split(".")[0]}, which is not installed; run pip install "calibody[{extra}]".') from None


def one_line(error: BaseException) -> str:
    """What another library said, short enough for a sentence."""
    text = " ".join(str(error).split()) or type(error).__name__
    return (text if len(text) <= 160 else text[:157] + "...").rstrip(".")
