"""Joint coordinates measured between two links, for `free`: the value `s`, its gradient, and the wrench through which its force acts.

Hinge, with the parent's axes x, y, z (z the joint's axis) and the child's x axis c:

    s = atan2(y . c, x . c),   ds = (w_child - w_parent) . b,   b = ((x . c) (c x y) - (y . c) (c x x))/((x . c)^2 + (y . c)^2)

and a force f on s is the torque `f z` on the child and `-f z` on the parent: the same vector, the parent's axis at the node. When the
hinge's constraints hold, b = z. Slide: `s = z . (p_child - p_parent)`, force `f z` at the child's point and its opposite on the parent.
"""

from __future__ import annotations

from typing import Any

from calibody.mechanics.elements.constraint import line_wrench, line_wrench_turned
from calibody.spatial import algebra as al


def _parts(frame: Any) -> tuple[tuple, ...]:
    return tuple(tuple(frame[3 * i : 3 * i + 3]) for i in range(6))


def hinge_angle(parent: al.Pose, child: al.Pose, frame: Any) -> Any:
    """The angle in (-pi, pi]; turns are counted by the caller."""
    x, y, _, c, _, _ = _parts(frame)
    xw, yw, cw = al.direction(parent, x), al.direction(parent, y), al.direction(child, c)  # type: ignore[arg-type]
    return al.library(xw[0]).arctan2(al.dot(yw, cw), al.dot(xw, cw))


def hinge_wrenches(parent: al.Pose, child: al.Pose, frame: Any) -> tuple[tuple, tuple]:
    """(gradient of s, wrench of a unit force), both on the child; the parent's are the opposite."""
    x, y, z, c, _, _ = _parts(frame)
    xw, yw, zw, cw = al.direction(parent, x), al.direction(parent, y), al.direction(parent, z), al.direction(child, c)  # type: ignore[arg-type]
    X, Y = al.dot(xw, cw), al.dot(yw, cw)
    norm = X * X + Y * Y
    b = al.sub(al.scale(X / norm, al.cross(cw, yw)), al.scale(Y / norm, al.cross(cw, xw)))
    zero = (0.0 * X,) * 3
    return (*b, *zero), (*zw, *zero)


def hinge_turned(parent: al.Pose, frame: Any, force: Any) -> tuple:
    """6x6: the change of the wrench `force z` (on the child) with the parent's twist."""
    zw = al.direction(parent, _parts(frame)[2])  # type: ignore[arg-type]
    zero = 0.0 * zw[0]
    x, y, z = al.scale(force, zw)
    upper = ((zero, z, -y, zero, zero, zero), (-z, zero, x, zero, zero, zero), (y, -x, zero, zero, zero, zero))
    return (*upper, *(((zero,) * 6,) * 3))


def slide_position(parent: al.Pose, child: al.Pose, frame: Any) -> Any:
    _, _, z, _, a, p = _parts(frame)
    return al.dot(al.direction(parent, z), al.sub(al.point(child, a), al.point(parent, p)))  # type: ignore[arg-type]


def slide_wrench(parent: al.Pose, child: al.Pose, frame: Any) -> tuple:
    """Gradient of s and wrench of a unit force in one, on the child; the parent's is the opposite."""
    _, _, z, _, a, _ = _parts(frame)
    return line_wrench(al.point(child, a), al.direction(parent, z))  # type: ignore[arg-type]


def slide_turned(parent: al.Pose, child: al.Pose, frame: Any, force: Any) -> tuple[tuple, tuple]:
    """6x6 each: the change of the wrench on the child with the child's and with the parent's twist."""
    _, _, z, _, a, _ = _parts(frame)
    by_point, by_direction = line_wrench_turned(al.point(child, a), al.direction(parent, z), force)  # type: ignore[arg-type]
    zero = 0.0 * by_point[0][0]
    by_child = (*by_point, *(((zero,) * 6,) * 3))
    by_parent = tuple((*row, zero, zero, zero) for row in by_direction)
    return by_child, by_parent
