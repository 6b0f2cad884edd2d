"""A model from the content of a file, whichever of the formats it is in; the writers read back what they wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import FormatError
from calibody.formats import edit, mjcf, osim, urdf

if TYPE_CHECKING:
    from calibody.formats.source import Source
    from calibody.model import Model

READERS = {"mujoco": mjcf.read, "robot": urdf.read, "OpenSimDocument": osim.read}
"""By the root element."""


def read(content: bytes, path: Path, touching: bool = False) -> tuple[Model, Source]:
    """The model in a file's content, which stands (or would stand) at `path`, and its source; `touching`: with its contacts and limits."""
    document = edit.parse(content, str(path))
    reader = READERS.get(document.root.tag)
    if reader is None:
        raise FormatError(
            f"{path}:{document.root.line}: the root element is <{document.root.tag}>; give an MJCF (<mujoco>), URDF (<robot>) or OpenSim (<OpenSimDocument>) file."
        )
    with np.errstate(all="ignore"):  # absurd numbers overflow on their way to being refused
        return reader(document, path, touching)
