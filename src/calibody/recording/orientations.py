"""Measured orientations as rotation vectors.

However it was recorded, an orientation becomes the three components of its rotation vector r (the axis times the angle). The vectors that differ by whole
turns along their own direction, `r + 2 pi m r/|r|`, are the same orientation: of these the one nearest to the sample before is kept, so that a body that turns about
one axis has a smooth series that counts its turns. What a fit compares are the rotations themselves; the series are for people and for the size of the noise.
"""

from __future__ import annotations

import numpy as np

from calibody.errors import CalibodyError
from calibody.spatial import algebra as al

TURN = 2.0 * np.pi
LENGTH = 0.1
"""How far the length of most quaternions may be from 1."""
LOST = 1e-3
"""Length of a quaternion below which it is a gap: trackers write zeros for what they do not see."""


def rotation_vectors(what: str, quaternions: np.ndarray) -> np.ndarray:
    """(3, samples) from quaternions (4, samples), w first; NaN are gaps."""
    length = np.sqrt((quaternions**2).sum(0))
    seen = length > LOST
    if seen.any() and abs(float(np.median(length[seen])) - 1.0) > LENGTH:
        raise CalibodyError(f"{what} has quaternions of length {np.median(length[seen]):.3g}; give w, x, y and z, in this order, of unit quaternions.")
    unit = quaternions / np.where(seen, length, np.nan)
    out = np.full((3, quaternions.shape[1]), np.nan)
    out[:, seen] = np.stack(al.quaternion_log(tuple(unit[:, seen])))  # type: ignore[arg-type]
    return continuous(out)


def continuous(vectors: np.ndarray) -> np.ndarray:
    """The same orientations (3, samples), each as the vector nearest to the one before; NaN are gaps."""
    out, before = vectors.copy(), None
    for k in np.flatnonzero(np.isfinite(vectors).all(axis=0)):
        r = vectors[:, k]
        angle = float(np.linalg.norm(r))
        if before is not None and angle > 0.0:
            out[:, k] = r + TURN * np.round((before @ r / angle - angle) / TURN) * r / angle
        before = out[:, k]
    return out


def rotations(vectors: np.ndarray) -> np.ndarray:
    """(3, 3, samples) rotation matrices; NaN are gaps."""
    return np.array(al.quaternion_matrix(al.quaternion_exp(tuple(vectors))))  # type: ignore[arg-type]
