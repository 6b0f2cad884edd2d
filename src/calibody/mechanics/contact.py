"""The places where a mechanism can touch: what contacts and limits consist of, their gaps, and the rows that their forces act through.

A contact of the model is one or several *spots*, each a kernel of `shapes.py` between two links:

| a | b | spots |
|---|---|---|
| sphere, site | plane, sphere, site, box | 1 |
| capsule | plane | its 2 ends |
| box | plane | its 8 corners, rounded |
| ellipsoid | plane | its lowest point |
| cylinder | plane | of both discs the lowest point, and 8 points of the rim for when it lies flat |
| sphere, site | capsule | 1 |
| capsule | capsule | the 4 ends against the other, and the nearest points |
| capsule | box | its 2 ends, and its nearest point |

Each is a true bound of the distance; one that would be another's place once more counts as nowhere near. A limit is a spot on a joint coordinate, with
the gap `+-(s - position)` and without friction.

Rows. With the twists T of the degrees of freedom (`kinematics.py`), a force f on a at x and -f on b changes nothing but `f . (v_a(x) - v_b(x))`, so the row of a direction u is

    J_u = u . dx/dq on a - on b:   [x x u, u]' T of the degrees of freedom above a, minus those above b

The normal acts at the two nearest points, whose line it lies in; the two tangents on both at that of a, so that the forces are opposite and have one line, and
angular momentum is kept. In `free` a limit acts through something else than the gradient of its coordinate (DESIGN section 3), so both are returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.mechanics import shapes
from calibody.mechanics.shapes import Pose, Touch
from calibody.model import Contact, Geometry, Limit, Model, Site
from calibody.model.contact import BOX, CAPSULE, CYLINDER, ELLIPSOID, PLANE, POISSON, ROUND, SPHERE, kind_of, shape_of
from calibody.model.elements import WORLD
from calibody.spatial import algebra as al

if TYPE_CHECKING:
    from calibody.mechanics.structure import Structure

RIM = 8
"""Points on the rim of a disc that lies flat."""


def _axes(quaternion: Sequence[float]) -> np.ndarray:
    return np.array(al.quaternion_matrix(al.quaternion_normalised(tuple(quaternion))), dtype=float)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Spot:
    """One kernel between two bodies."""

    kernel: str
    owner: int
    """Which of the model's contacts."""
    bodies: tuple[str, str]
    data: tuple[float, ...]
    flipped: bool
    """Whether the kernel's a is the contact's b."""


# -- from shapes to spots ------------------------------------------------------------------------------------------------------------


def _plane_numbers(model: Model, shape: Geometry | None) -> list[float]:
    """A point and the normal."""
    if shape is not None:
        return [*shape.position, *_axes(shape.orientation)[:, 2]]
    tx, ty = model.world.ground_tilt
    return [0.0, 0.0, model.world.ground_height, *_axes(al.quaternion_exp((tx, ty, 0.0)))[:, 2]]


def _ends(shape: Geometry) -> np.ndarray:
    """The centres of the two round ends of a capsule, or of the two discs of a cylinder."""
    along = _axes(shape.orientation)[:, 2] * shape.size[1]
    return np.array(shape.position) + np.array([along, -along])


def _balls_of(shape: Geometry | Site, radius: float) -> list[list[float]]:
    """(point, radius) of what a round shape consists of: itself, or the ends of a capsule."""
    if isinstance(shape, Site):
        return [[*shape.position, radius]]
    if shape.kind == SPHERE:
        return [[*shape.position, shape.size[0]]]
    return [[*end, shape.size[0]] for end in _ends(shape)]


def _frame(shape: Geometry) -> list[float]:
    return [*shape.position, *_axes(shape.orientation).ravel(), *shape.size[:3]]


def _segment(shape: Geometry) -> list[float]:
    return [*_ends(shape).ravel(), shape.size[0]]


def _against_plane(shape: Any, radius: float) -> list[tuple[str, list[float]]]:
    kind = kind_of(shape)
    if kind in ROUND:
        return [("point_plane", ball) for ball in _balls_of(shape, radius)]
    Q, centre = _axes(shape.orientation), np.array(shape.position)
    if kind == BOX:
        inner = np.array(shape.size[:3]) - radius
        signs = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        return [("point_plane", [*(centre + Q @ (s * inner)), radius]) for s in signs]
    if kind == ELLIPSOID:
        return [("ellipsoid_plane", _frame(shape))]
    assert kind == CYLINDER
    inner, half, out = shape.size[0] - radius, shape.size[1] - radius, []
    for sign in (1.0, -1.0):
        middle = centre + sign * half * Q[:, 2]
        out.append(("disc_plane", [*middle, *Q[:, 2], inner, radius]))
        for k in range(RIM):
            angle = 2.0 * np.pi * k / RIM
            out.append(("point_plane", [*(middle + inner * (np.cos(angle) * Q[:, 0] + np.sin(angle) * Q[:, 1])), radius]))
    return out


def _pair(a: Any, b: Any, radius: float) -> list[tuple[str, list[float], bool]]:
    """Round against round, or round (a) against a box (b)."""
    kinds = kind_of(a), kind_of(b)
    if kinds[1] == BOX:
        out = [("point_box", [*ball, *_frame(b)], False) for ball in _balls_of(a, radius)]
        return [*out, ("segment_box", [*_segment(a), *_frame(b)], False)] if kinds[0] == CAPSULE else out
    if CAPSULE not in kinds:
        return [("point_point", [*_balls_of(a, radius)[0], *_balls_of(b, radius)[0]], False)]
    out = []
    if kinds[1] == CAPSULE:
        out += [("point_segment", [*ball, *_segment(b), 0.0], False) for ball in _balls_of(a, radius)]
    if kinds[0] == CAPSULE:
        out += [("point_segment", [*ball, *_segment(a), float(kinds[1] == CAPSULE)], True) for ball in _balls_of(b, radius)]
    return [*out, ("segment_segment", [*_segment(a), *_segment(b)], False)] if kinds == (CAPSULE, CAPSULE) else out


def spots_of(model: Model, owner: int, contact: Contact) -> list[Spot]:
    """What a contact consists of."""
    a, b = shape_of(model, contact, "a"), shape_of(model, contact, "b")
    bodies, swapped = (WORLD if a is None else a.body, WORLD if b is None else b.body), False
    if kind_of(a) == PLANE or (kind_of(a) == BOX and kind_of(b) != PLANE):
        a, b, bodies, swapped = b, a, (bodies[1], bodies[0]), True
    if kind_of(b) == PLANE:
        plane = _plane_numbers(model, b)  # type: ignore[arg-type]
        found = [(kernel, [*numbers, *plane], False) for kernel, numbers in _against_plane(a, contact.radius)]
    else:
        found = _pair(a, b, contact.radius)
    return [Spot(kernel, owner, (bodies[1], bodies[0]) if turned else bodies, tuple(data), swapped != turned) for kernel, data, turned in found]


# -- all of a mechanism --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Spots:
    """All spots of a mechanism that nothing passes through, kernel by kernel, then those of limits. `owner` counts the model's contacts, then its limits."""

    structure: Structure
    groups: tuple[tuple[str, np.ndarray, np.ndarray, np.ndarray], ...]
    """(kernel, links of a, links of b, data (numbers, spots)) for every kernel that occurs."""
    coordinate: np.ndarray
    """The scalar coordinate of every limit."""
    sign: np.ndarray
    position: np.ndarray
    owner: np.ndarray
    side: np.ndarray
    """(spots,) +1 where the normal pushes the contact's a, -1 where it pushes its b."""
    friction: np.ndarray
    sliding: np.ndarray
    restitution: np.ndarray
    poisson: np.ndarray

    @classmethod
    def of(cls, structure: Structure, model: Model | None = None, compliant: bool = False) -> Spots:
        """`compliant`: also those of contacts and limits that give way."""
        model = structure.model if model is None else model
        found = [spot for i, contact in enumerate(model.contacts) if compliant or not contact.compliant for spot in spots_of(model, i, contact)]
        groups, order = [], []
        for kernel in shapes.KERNELS:
            here = [s for s in found if s.kernel == kernel]
            if here:
                links = np.array([[structure.body_link[b] for b in s.bodies] for s in here], dtype=np.int64)
                groups.append((kernel, links[:, 0], links[:, 1], np.array([s.data for s in here]).T))
                order += here
        stops = [(k, x) for k, x in enumerate(model.limits, len(model.contacts)) if compliant or not x.compliant]
        limits = [x for _, x in stops]
        elements: list[Contact | Limit] = [*(model.contacts[s.owner] for s in order), *limits]
        return cls(
            structure,
            tuple(groups),
            np.array([structure.coordinate_index[x.joint] for x in limits], dtype=np.int64),
            np.array([x.sign for x in limits]),
            np.array([x.position for x in limits]),
            np.array([*(s.owner for s in order), *(k for k, _ in stops)], dtype=np.int64),
            np.array([*(-1.0 if s.flipped else 1.0 for s in order), *[1.0] * len(limits)]),
            np.array([getattr(e, "friction", 0.0) for e in elements]),
            np.array([getattr(e, "sliding", 0.0) for e in elements]),
            np.array([e.restitution for e in elements]),
            np.array([e.law == POISSON for e in elements], dtype=bool),
        )

    @property
    def count(self) -> int:
        return len(self.owner)

    @cached_property
    def links(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the spots between links: a and b."""
        return tuple(np.concatenate([np.zeros(0, dtype=np.int64), *(g[k] for g in self.groups)]) for k in (1, 2))  # type: ignore[return-value]

    @cached_property
    def above(self) -> tuple[np.ndarray, np.ndarray]:
        """(spots between links, nv) 1 where the degree of freedom moves the link, of a and of b."""
        moves = np.zeros((self.structure.n + 1, self.structure.nv))
        for link, dofs in enumerate(self.structure.dofs_above):
            moves[link, dofs] = 1.0
        return moves[self.links[0]], moves[self.links[1]]

    def owner_name(self, spot: int) -> str:
        model = self.structure.model
        k = int(self.owner[spot])
        return f"contact.{model.contacts[k].name}" if k < len(model.contacts) else f"limit.{model.limits[k - len(model.contacts)].name}"

    # -- kinematics --------------------------------------------------------------------------------------------------------------

    def touch(self, H: np.ndarray) -> Touch:
        """Of the spots between links; poses H (3, 4, links, ...)."""
        parts, more = [], (1,) * (H.ndim - 3)
        for kernel, a, b, data in self.groups:
            first, second = (Pose(H[:, :3, links], H[:, 3, links]) for links in (a, b))
            parts.append(shapes.KERNELS[kernel](first, second, data.reshape(*data.shape, *more)))
        if not parts:
            empty = np.zeros((3, 0, *H.shape[3:]))
            return Touch(empty[0], empty, empty, empty)
        return Touch(*(np.concatenate(x, axis=-1 - len(more)) for x in zip(*parts, strict=True)))

    def gaps(self, touch: Touch, s: np.ndarray) -> np.ndarray:
        """(spots, ...) of all, with the joint coordinates s."""
        more = (1,) * (s.ndim - 1)
        limits = self.sign.reshape(-1, *more) * (s[self.coordinate] - self.position.reshape(-1, *more))
        return np.concatenate([touch.gap, limits]) if len(limits) else touch.gap

    def rows(
        self, touch: Touch, T: np.ndarray, Z: np.ndarray, A: np.ndarray, which: np.ndarray, normals: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of some spots at one node: rates of (gap, slip, slip) by the velocities, (spots, 3, nv); what forces on them act through; and the directions (spots, 3, 3) as rows.

        `normals`: those of the gaps alone, the others zero. T (6, nv) twists; Z, A (coordinates, nv) gradients of joint coordinates and what forces on them act through.
        """
        between = len(self.links[0])
        nv = T.shape[1]
        rates = np.zeros((len(which), 3, nv))
        acts = rates
        directions = np.zeros((len(which), 3, 3))
        here = np.flatnonzero(which < between)
        if len(here):
            spots = which[here]
            n, a, b = touch.normal[:, spots].T, touch.at_a[:, spots].T, touch.at_b[:, spots].T
            directions[here] = basis(n)
            moves = (self.above[0][spots], self.above[1][spots])
            for k in range(1 if normals else 3):
                rates[here, k] = rate_along(directions[here, k], a, a if k else b, T, moves)
        there = np.flatnonzero(which >= between)
        if len(there):
            c = which[there] - between
            acts = rates.copy()
            rates[there, 0] = self.sign[c][:, None] * Z[self.coordinate[c]]
            acts[there, 0] = self.sign[c][:, None] * A[self.coordinate[c]]
        return rates, acts, directions


def rates_of(spots: Spots, touch: Touch, T: np.ndarray, Z: np.ndarray, which: np.ndarray, nodes: np.ndarray | None = None) -> np.ndarray:
    """(places, 3, nv): of spots, each at one of several nodes (`nodes`; None: one after the other), the rates of (gap, slip, slip) by the velocities, as `Spots.rows`; twists T (6, nv, nodes),
    gradients Z (coordinates, nv) that are the same at all nodes, as in `tree`."""
    nodes = np.arange(len(which)) if nodes is None else nodes
    rates = np.zeros((len(which), 3, T.shape[1]))
    between = len(spots.links[0])
    here, there = np.flatnonzero(which < between), np.flatnonzero(which >= between)
    if len(here):
        spot, at = which[here], nodes[here]
        n, a, b = (x[:, spot, at].T for x in (touch.normal, touch.at_a, touch.at_b))
        directions, Th = basis(n), T[..., at]
        for k in range(3):
            u = directions[:, k]
            along = np.einsum("mi,ijm->mj", u, Th[3:])
            for point, moves, sign in ((a, spots.above[0][spot], 1.0), (a if k else b, spots.above[1][spot], -1.0)):
                rates[here, k] += sign * moves * (np.einsum("mi,ijm->mj", cross(point, u), Th[:3]) + along)
    if len(there):
        c = which[there] - between
        rates[there, 0] = spots.sign[c][:, None] * Z[spots.coordinate[c]]
    return rates


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of rows (m, 3); numpy's own takes five times as long for a few of them."""
    return a[:, [1, 2, 0]] * b[:, [2, 0, 1]] - a[:, [2, 0, 1]] * b[:, [1, 2, 0]]


def rate_along(u: Any, a: Any, b: Any, T: Any, moves: tuple[Any, Any]) -> Any:
    """(m, nv) of spots: by the velocities, how fast the points a (m, 3) and b of their two links part along the directions u (m, 3); `moves` (m, nv) which of them moves which link."""
    along = u @ T[3:]
    return (cross(a, u) @ T[:3] + along) * moves[0] - (cross(b, u) @ T[:3] + along) * moves[1]


def basis(n: Any, xp: Any = np) -> Any:
    """(m, 3, 3): rows n and two directions across it, from unit normals (m, 3); `xp` numpy, or jax's in a program that is compiled."""
    helper = 1.0 * (xp.argmin(abs(n), axis=1)[:, None] == np.arange(3))
    x = helper - n * (n * helper).sum(1, keepdims=True)
    x = x / xp.sqrt((x * x).sum(1, keepdims=True))
    return xp.stack([n, x, cross(n, x)], axis=1)
