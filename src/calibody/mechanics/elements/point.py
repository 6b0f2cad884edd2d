"""Two points that coincide: `g = p_a - p_b`, three rows in world axes, with the wrenches `(p_a x e, e)` and `-(p_b x e, e)` of the axes e."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibody.mechanics.elements.base import EACH, Blocks, Constraint, Ends, Measure, Poses
from calibody.mechanics.elements.wrenches import force_turned, line_wrench
from calibody.model.elements import BALL, FIXED, HINGE, POINT, UNIVERSAL, WELD
from calibody.spatial import algebra as al

AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def points(poses: Poses, data: Any) -> tuple[al.Vector, al.Vector]:
    """The two points in the world; the first six numbers are where they are in their links."""
    return al.point(poses[0], tuple(data[:3])), al.point(poses[1], tuple(data[3:6]))  # type: ignore[arg-type]


def value(poses: Poses, data: Any) -> tuple:
    return al.sub(*points(poses, data))


def wrenches(poses: Poses, data: Any) -> tuple:
    a, b = points(poses, data)
    zero = 0.0 * a[0]
    axes = [tuple(x + zero for x in axis) for axis in AXES]
    return tuple((line_wrench(a, e), line_wrench(b, al.scale(-1.0, e))) for e in axes)  # type: ignore[arg-type]


def turned(poses: Poses, data: Any, force: Any) -> Blocks:
    """A force that keeps its direction: only its lever changes, with the point's own link."""
    a, b = points(poses, data)
    return {(0, 0): force_turned(a, tuple(force)), (1, 1): force_turned(b, al.scale(-1.0, tuple(force)))}  # type: ignore[arg-type]


def numbers(ends: Ends, which: Any) -> Sequence[float]:
    return [*ends.point_a, *ends.point_b]


TYPE = Constraint(
    "point", Measure(3, EACH, value, wrenches, turned, apart=True), dict.fromkeys((HINGE, BALL, FIXED, POINT, WELD, UNIVERSAL), (None,)), numbers, "N"
)
