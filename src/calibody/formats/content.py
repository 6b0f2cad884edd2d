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


def read(content: bytes, path: Path, touching: bool = False, engine: bool = False) -> tuple[Model, Source]:
    """The model in a file's content, which stands (or would stand) at `path`, and its source; `touching`: with its contacts and limits; `engine`: for MuJoCo's own engine."""
    document = edit.parse(content, str(path))
    reader = READERS.get(document.root.tag)
    if reader is None:
        raise FormatError(
            f"{path}:{document.root.line}: the root element is <{document.root.tag}>; give an MJCF (<mujoco>), URDF (<robot>) or OpenSim (<OpenSimDocument>) file."
        )
    if engine and reader is not mjcf.read:
        raise FormatError(f'{path} is no MJCF, which is what MuJoCo\'s engine reads; convert it (calibody convert), and load that with engine="mujoco".')
    with np.errstate(all="ignore"):  # absurd numbers overflow on their way to being refused
        return mjcf.read(document, path, touching, engine) if engine else reader(document, path, touching)
