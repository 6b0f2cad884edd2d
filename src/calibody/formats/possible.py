"""Inertias that no distribution of mass has, replaced by the nearest that one has.

Published robots and skeletons are full of them (one robot in eight of those we tried), mostly on parts that hardly matter; refusing the model would help
nobody, and a body outside the physical set cannot be simulated or estimated reliably. Nearest: in the second moment of mass, whose
negative eigenvalues become zero.
"""

from __future__ import annotations

import numpy as np

from calibody.spatial.inertia import second_moment, six_of, smallest_principal_second_moment, symmetric

_LARGEST = 1e100
"""Numbers above have no square in float64; they are left for the model to refuse."""
_ROUNDING = 1e-6
"""Of the largest moment: files give about seven digits."""


def nearest_possible(inertia: tuple[float, ...]) -> tuple[float, ...]:
    """The inertia itself where it is possible."""
    smallest, largest = smallest_principal_second_moment(inertia) if np.abs(inertia).max() < _LARGEST else (0.0, 0.0)
    if smallest >= -_ROUNDING * largest:
        return inertia
    values, vectors = np.linalg.eigh(second_moment(symmetric(inertia)))
    moment = vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T
    return six_of(np.trace(moment) * np.eye(3) - moment)


def repaired_note(names: list[str], what: str) -> list[str]:
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return [f"No distribution of mass has the inertia that the file gives to these {what}; the nearest possible one is used: {shown}."] if names else []
