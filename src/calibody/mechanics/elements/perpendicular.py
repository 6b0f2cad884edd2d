"""Two directions that stay perpendicular: `g = d_a . d_b`, with the torque `d_a x d_b` on a and its opposite on b.

A hinge has two of them (the parent's axis against the child's other two). Two frames are parallel where `x_a . y_b = y_a . z_b = z_a . x_b = 0`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibody.mechanics.elements.base import ON_FIRST, Blocks, Constraint, Ends, Measure, Poses
from calibody.mechanics.elements.inplane import GUIDED
from calibody.mechanics.elements.wrenches import outer
from calibody.model.elements import CYLINDRICAL, FIXED, HINGE, SLIDE, UNIVERSAL, WELD
from calibody.spatial import algebra as al

PARALLEL = ((0, 1), (1, 2), (2, 0))
AXIS = ((2, 0), (2, 1))
CROSS = ((2, 0),)


def directions(poses: Poses, data: Any) -> tuple[al.Vector, al.Vector]:
    return al.direction(poses[0], tuple(data[:3])), al.direction(poses[1], tuple(data[3:]))  # type: ignore[arg-type]


def value(poses: Poses, data: Any) -> tuple:
    return (al.dot(*directions(poses, data)),)


def wrenches(poses: Poses, data: Any) -> tuple:
    return ((al.cross(*directions(poses, data)),),)


def turned(poses: Poses, data: Any, force: Any) -> Blocks:
    a, b = directions(poses, data)
    f, product = force[0], al.dot(a, b)
    by_a = tuple(tuple(f * (x - (product if i == j else 0.0)) for j, x in enumerate(row)) for i, row in enumerate(outer(a, b)))
    by_b = tuple(tuple(f * ((product if i == j else 0.0) - x) for j, x in enumerate(row)) for i, row in enumerate(outer(b, a)))
    return {(0, 0): by_a, (0, 1): by_b}


def numbers(ends: Ends, which: Any) -> Sequence[float]:
    """`which`: an axis of a and one of b."""
    return [*ends.axes_a[:, which[0]], *ends.axes_b[:, which[1]]]


TYPE = Constraint(
    "perpendicular",
    Measure(1, ON_FIRST, value, wrenches, turned),
    {HINGE: AXIS, CYLINDRICAL: AXIS, UNIVERSAL: CROSS, **dict.fromkeys((SLIDE, GUIDED, FIXED, WELD), PARALLEL)},
    numbers,
    "N m",
)
