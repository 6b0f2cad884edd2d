"""Files that are there as a whole or not at all: written beside their place, then moved into it."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibody.errors import CalibodyError

if TYPE_CHECKING:
    import polars


def write_bytes(path: Path, content: bytes) -> Path:
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise CalibodyError(f"{path} cannot be written ({error.strerror or error}); check the folder, its permissions and the space left.") from None
    return path


def write_text(path: Path, text: str) -> Path:
    return write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, document: Any) -> Path:
    return write_text(path, json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def write_parquet(path: Path, frame: polars.DataFrame) -> Path:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return write_bytes(path, buffer.getvalue())
