"""A massless rod: two points at a fixed distance, `g = |d| - length` with `d = p_a - p_b`.

The multiplier is the force along the rod, positive where it pushes the points apart. With `u = d/|d|` the wrench on a is `(p_a x u, u)`, that on b its opposite (both points lie on the line),
and it turns by

    du = (1 - u u') (dp_a - dp_b)/|d|,     d(p_a x u) = dp_a x u + p_a x du

Where the two points coincide there is no direction: `|d|` is kept above `TINY`, and the rod exerts nothing there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibody.mechanics.elements.base import ON_FIRST, Blocks, Constraint, Ends, Measure, Poses
from calibody.mechanics.elements.point import points
from calibody.mechanics.elements.spring import TINY
from calibody.mechanics.elements.wrenches import line_wrench, moved, negative, outer, spin
from calibody.model.elements import DISTANCE
from calibody.spatial import algebra as al


def _line(poses: Poses, data: Any) -> tuple[al.Vector, al.Vector, al.Vector, Any]:
    """Both points, u and |d|."""
    a, b = points(poses, data)
    d = al.sub(a, b)
    lib = al.library(d[0])
    length = lib.sqrt(lib.maximum(al.dot(d, d), TINY * TINY))
    return a, b, al.scale(1.0 / length, d), length


def value(poses: Poses, data: Any) -> tuple:
    return (_line(poses, data)[3] - data[6],)


def wrenches(poses: Poses, data: Any) -> tuple:
    a, _, u, _ = _line(poses, data)
    return ((line_wrench(a, u),),)


def turned(poses: Poses, data: Any, force: Any) -> Blocks:
    a, b, u, length = _line(poses, data)
    f = force[0] / length
    across = tuple(tuple(f * ((1.0 if i == j else 0.0) - x) for j, x in enumerate(row)) for i, row in enumerate(outer(u, u)))

    def by(p: al.Vector) -> tuple[tuple, tuple]:
        """`p_a x du` and `du`, by the twist of the link that carries p."""
        du = al.matmul(across, moved(p))
        return al.matmul(negative(spin(a)), du), du  # [a]x = -spin(a)

    torque, du = by(a)
    lever = al.matmul(spin(al.scale(force[0], u)), moved(a))  # dp_a x u
    own = tuple(al.add(x, y) for x, y in zip(torque, lever, strict=True))
    return {(0, 0): (*own, *du), (0, 1): negative(tuple(row for part in by(b) for row in part))}


def numbers(ends: Ends, which: Any) -> Sequence[float]:
    return [*ends.point_a, *ends.point_b, ends.source.length]


TYPE = Constraint("distance", Measure(1, ON_FIRST, value, wrenches, turned), {DISTANCE: (None,)}, numbers, "N")
