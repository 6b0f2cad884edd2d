"""Where things touch along a motion, and with what force: what a replay draws at contacts and limits.

While a contact presses, its places whose gap is closed are marked, and its force acts at their middle: of redundant places only the sum of their forces is known (`estimate/contacts/lasting.py`).
Where its b moves and its a is fixed to the world, the force on b is shown. A limit acts on a coordinate: it is marked at its joint and has no arrow.
An impact says which contact struck, not where: the place whose gap is least at that time, and for several impacts of one contact at once, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibody.mechanics.contact import Spots
from calibody.model.contact import shape_of
from calibody.model.elements import WORLD
from calibody.steppers.events import Event
from calibody.steppers.motion import Motion

CLOSED = 2e-3
"""Of the size of the mechanism: how far open a place may look that takes part in a contact that presses (resting places are closed to 1e-9 m, those between two nodes of a fit less so)."""
DIGITS, SIGNIFICANT = 5, 5
"""Of places [m], as of poses; of forces, whose size is anything."""


@dataclass(frozen=True, eq=False)
class Pushes:
    """Rows of what touches, frame by frame."""

    places: list[list[float]]
    """(frame, x, y, z)"""
    forces: list[list[float]]
    """(frame, x, y, z, force x, y, z)"""
    impacts: list[list[float]]
    """(time, x, y, z, impulse x, y, z); of a limit, and of what did nothing, the impulse is zero."""


def pushes(motion: Motion, nodes: np.ndarray, size: float) -> Pushes:
    """`nodes` of the motion are the frames; `size` of the mechanism [m]."""
    found = Pushes([], [], [])
    if not motion.model.contacts and not motion.model.limits:
        return found
    spots = Spots.of(motion.structure, compliant=True)
    gaps, at = _places(motion, spots, nodes)
    for owner, (name, sign) in enumerate(_owners(motion)):
        force = motion[f"{name}.force"][nodes]
        mine = np.flatnonzero(spots.owner == owner)
        for frame in np.flatnonzero(np.abs(force).reshape(len(nodes), -1).max(axis=1) > 0.0):
            closed = mine[gaps[mine, frame] <= max(gaps[mine, frame].min(), 0.0) + CLOSED * size]
            where = at[:, closed, frame]
            found.places.extend([int(frame), *_place(p)] for p in where.T)
            if sign:
                found.forces.append([int(frame), *_place(where.mean(axis=1)), *_force(sign * force[frame])])
    found.impacts.extend(_impacts(motion, spots, size))
    return found


def _owners(motion: Motion) -> list[tuple[str, float]]:
    """Contacts and limits as spots count them: their path, and the sign of the force that is shown; 0: none."""
    model, out = motion.model, []
    for c in model.contacts:
        a = shape_of(model, c, "a")
        out.append((f"contact.{c.name}", -1.0 if a is None or a.body == WORLD else 1.0))
    return [*out, *((f"limit.{x.name}", 0.0) for x in model.limits)]


def _places(motion: Motion, spots: Spots, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gaps (spots, nodes), and where in the world (3, spots, nodes)."""
    H = motion.frames.H[..., nodes]
    touch = spots.touch(H)
    places = [touch.at_a]
    for limit in [x for k, x in enumerate(motion.model.limits, len(motion.model.contacts)) if k in spots.owner]:
        joint = motion.model.joint(limit.joint)
        pose = H[:, :, motion.structure.body_link[joint.body]]
        places.append((np.einsum("ijk,j->ik", pose[:, :3], np.array(joint.anchor)) + pose[:, 3])[:, None])
    return spots.gaps(touch, motion.frames.s[:, nodes]), np.concatenate(places, axis=1)


def _impacts(motion: Motion, spots: Spots, size: float) -> list[list[float]]:
    owners, out = _owners(motion), []
    names = [name for name, _ in owners]
    for i, event in enumerate(motion.events):
        owner = names.index(event.contact)
        k = int(np.clip(np.searchsorted(motion.time, event.time) - 1, 0, len(motion.time) - 2))
        part = float(np.clip((event.time - motion.time[k]) / motion.h, 0.0, 1.0))
        gaps, at = (x @ np.array([1.0 - part, part]) for x in _places(motion, spots, np.array([k, k + 1])))
        mine = np.flatnonzero(spots.owner == owner)
        order = mine[np.argsort(gaps[mine])]
        rank, together = _rank(motion.events, i, motion.h)
        struck = order[gaps[order] <= gaps[order[0]] + CLOSED * size] if together == 1 else order[[min(rank, len(order) - 1)]]
        out.append([round(event.time, 6), *_place(at[:, struck].mean(axis=1)), *_force(owners[owner][1] * np.array(event.impulse))])
    return out


def _rank(events: Sequence[Event], i: int, h: float) -> tuple[int, int]:
    """Of an impact among those of the same contact within a step, and how many these are."""
    together = [j for j, e in enumerate(events) if e.contact == events[i].contact and abs(e.time - events[i].time) < h]
    return together.index(i), len(together)


def _place(p: np.ndarray) -> list[float]:
    return np.round(p, DIGITS).tolist()


def _force(f: np.ndarray) -> list[float]:
    return [float(f"{x:.{SIGNIFICANT}g}") + 0.0 for x in f]
