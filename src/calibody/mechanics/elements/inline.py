"""A point of b on a plane through a point of a: `g = (p_b - p_a) . d_a`; two of them hold it on a line. The wrench `(p_b x d_a, d_a)` acts on b."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibody.mechanics.elements.base import ON_SECOND, Blocks, Constraint, Ends, Measure, Poses
from calibody.mechanics.elements.wrenches import line_wrench, line_wrench_turned
from calibody.model.elements import SLIDE
from calibody.spatial import algebra as al


def line(poses: Poses, data: Any) -> tuple[al.Vector, al.Vector]:
    """The point of b and the direction of a, in the world."""
    return al.point(poses[1], tuple(data[6:])), al.direction(poses[0], tuple(data[3:6]))  # type: ignore[arg-type]


def value(poses: Poses, data: Any) -> tuple:
    p, d = line(poses, data)
    return (al.dot(al.sub(p, al.point(poses[0], tuple(data[:3]))), d),)  # type: ignore[arg-type]


def wrenches(poses: Poses, data: Any) -> tuple:
    return ((line_wrench(*line(poses, data)),),)


def turned(poses: Poses, data: Any, force: Any) -> Blocks:
    by_point, by_direction = line_wrench_turned(*line(poses, data), force[0])
    return {(0, 1): by_point, (0, 0): by_direction}


def numbers(ends: Ends, which: Any) -> Sequence[float]:
    """`which`: an axis of a."""
    return [*ends.point_a, *ends.axes_a[:, which], *ends.point_b]


TYPE = Constraint("inline", Measure(1, ON_SECOND, value, wrenches, turned), {SLIDE: (0, 1)}, numbers, "N")
