"""What several tests of motions need of frames."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from calibody.spatial import algebra as al


def rotation(quaternion: Iterable[float]) -> np.ndarray:
    """The matrix of a unit quaternion (w, x, y, z)."""
    return np.array(al.quaternion_matrix(tuple(quaternion)), dtype=float)  # type: ignore[arg-type]
