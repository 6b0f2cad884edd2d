"""What becomes of a damaged file; in a module of its own, so that another process can import it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from calibody import formats
from calibody.errors import CalibodyError


def outcome(content: bytes, suffix: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("m" + suffix)
        path.write_bytes(content)
        try:
            model = formats.load(path)
            out = formats.save(model, path)
            assert out.read_bytes() == content
            return "read"
        except CalibodyError as error:
            assert "\n" not in str(error) and str(error)
            return str(error)
