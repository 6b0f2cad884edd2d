"""How links move when a number changes that places a body or its joint, at fixed coordinates.

In `tree` coordinates `H_i = H_parent o T_i o J_i(q)`: a number of unit i moves everything that the unit carries by one twist, constant in the axes of
the parent link or of the link itself,

    position, orientation of the body    T_i moves: a twist t in the parent's axes; the joint goes along
    anchor, axis of the joint            the joint moves by a twist t in the placement's axes, and the link by -t in its own:
                                         `J(q; a + da) = (1 + t) J(q; a) (1 - t)`
    reference                            the link moves by minus the twist of the joint itself

So a number is a degree of freedom that nobody moves, and the equations depend on it as on any other (`equations.py`), except that it is the same at all
nodes. A `Shift` is that pair of twists. In `free` coordinates links have places of their own and only those that hang rigidly on the world are moved so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibody.mechanics.structure import BALL, FIXED, FREE, SLIDE, TREE, Numbers, Structure
from calibody.model import Model
from calibody.model.paths import Place
from calibody.spatial import algebra as al

NOTHING = np.zeros(6)
PLACES = {"body": ("position", "orientation"), "joint": ("position", "axis", "anchor", "reference")}
"""Numbers that place links, by kind of element."""


@dataclass(frozen=True)
class Shift:
    """What one number does to a unit: twists (w, v) per unit of the number, about the origins and in the axes of two links."""

    unit: int
    joint: np.ndarray
    """(6,) in the parent link: moves the joint's axes and all that it carries."""
    link: np.ndarray
    """(6,) in the link itself: moves what the joint carries, not its axes."""

    def twists(self, structure: Structure, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(6, K) in the world: of the joint's own axes, and of the unit's link and all links beyond it; H is (3, 4, n + 1, K)."""
        joint = in_world(H[:, :, structure.parent[self.unit]], self.joint)
        return joint, joint + in_world(H[:, :, self.unit], self.link)

    def moves(self, structure: Structure, link: int) -> bool:
        """Whether a link is carried by the unit."""
        return self.unit <= link < int(structure.unit_end[self.unit])


def in_world(H: np.ndarray, twist: np.ndarray) -> np.ndarray:
    """(6, K): a twist given in the axes and about the origin of a link with the poses H (3, 4, K)."""
    w, v = np.einsum("ijk,j->ik", H[:, :3], twist[:3]), np.einsum("ijk,j->ik", H[:, :3], twist[3:])
    return np.concatenate([w, v + np.cross(H[:, 3], w, axis=0)])


def shift_of(structure: Structure, numbers: Numbers, model: Model, place: Place) -> Shift | None:
    """What a number of the model does to links; None if it moves none."""
    if place.field not in PLACES.get(place.kind, ()):
        return None
    i = _unit_of(structure, model, place)
    kind = structure.units[i].kind
    if structure.coordinates != TREE and kind != FIXED:
        return None
    T, component = numbers.placement[:, :, i], place.component or 0
    if place.field == "position":
        return Shift(i, np.concatenate([np.zeros(3), np.eye(3)[component]]), NOTHING)
    if place.field == "orientation":
        w = turn_of(model.body(place.name).orientation, component)
        return Shift(i, np.concatenate([w, np.cross(T[:, 3], w)]), NOTHING)
    axis, anchor = numbers.axis[:, i], numbers.anchor[:, i]
    if kind == FREE or (kind == BALL and place.field in ("axis", "reference")):
        return None
    if place.field == "reference":
        return Shift(i, NOTHING, -np.concatenate([np.zeros(3), axis] if kind == SLIDE else [axis, np.cross(anchor, axis)]))
    if place.field == "anchor":
        twist = np.concatenate([np.zeros(3), np.eye(3)[component]])
    else:
        w = np.cross(axis, np.eye(3)[component]) / float(np.linalg.norm(model.joint(place.name).axis))
        twist = np.concatenate([w, np.cross(anchor, w)])
    return Shift(i, in_world(T[..., None], twist)[:, 0], -twist)


def _unit_of(structure: Structure, model: Model, place: Place) -> int:
    """The unit that a number belongs to: a joint's own, or the first of its body (which a joint's position moves)."""
    if place.kind == "joint" and place.field != "position":
        return next(i for i, u in enumerate(structure.tree_units) if u.joint is not None and u.joint.name == place.name)
    body = place.name if place.kind == "body" else model.joint(place.name).body
    return next(i for i, u in enumerate(structure.tree_units) if u.first and u.body.name == body)


def turn_of(quaternion: tuple, component: int) -> np.ndarray:
    """(3,) w with `dR = [w]x R` when one component of a quaternion changes, which is normalised when it is used."""
    e = np.array(quaternion) / float(np.linalg.norm(quaternion))
    change = (np.eye(4)[component] - e * e[component]) / float(np.linalg.norm(quaternion))
    return 2.0 * np.array(al.quaternion_product(tuple(change), al.quaternion_conjugate(tuple(e))))[1:]  # type: ignore[arg-type]
