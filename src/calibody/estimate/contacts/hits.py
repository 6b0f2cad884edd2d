"""Where a motion touches: a place and a time, and the gaps of all places along coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibody.mechanics.contact import Spots
from calibody.mechanics.kinematics import Geometry, poses
from calibody.mechanics.structure import Numbers, Structure
from calibody.model import Model
from calibody.model.contact import NEWTON

LAWS = (NEWTON,)
"""Of contacts and limits that strike; forces of contacts that give way are no impacts."""


@dataclass(frozen=True)
class Hit:
    """A place that touches at a time."""

    time: float
    """[s]; of what touches from the beginning, that of the first node."""
    spot: int
    until: float | None = None
    """When it leaves again, of a place that stays closed; None: at once."""
    soft: bool = False
    """Whether it comes to stay so slowly that no velocity jumps."""


def gaps(structure: Structure, model: Model, numbers: Numbers, q: np.ndarray) -> np.ndarray:
    """(spots, nodes) along coordinates q (nq, nodes) of a tree; infinite of what does not strike because its law is another."""
    spots = Spots.of(structure, model)
    H = poses(structure, Geometry.of(structure, numbers), q)
    strikes = np.array([x.law in LAWS for x in (*model.contacts, *model.limits)], dtype=bool)
    return np.where(strikes[spots.owner][:, None], spots.gaps(spots.touch(H), q[structure.scalar_positions]), np.inf)
