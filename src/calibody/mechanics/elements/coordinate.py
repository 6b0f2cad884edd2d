"""Joint coordinates measured between two links, parent and child, for `free`: the value `s`, its gradient, and the wrench through which its force acts.

Hinge, with the parent's axes x, y, z (z the joint's axis) and the child's x axis c:

    s = atan2(y . c, x . c),   ds = (w_child - w_parent) . b,   b = ((x . c) (c x y) - (y . c) (c x x))/((x . c)^2 + (y . c)^2)

and a force f on s is the torque `f z` on the child and `-f z` on the parent: the same vector, the parent's axis at the node. When the
hinge's constraints hold, b = z. Slide: `s = z . (p_child - p_parent)`, force `f z` at the child's point and its opposite on the parent.
The three turns of a ball act along the child's axes (their value is a rotation: `ball.py`).
"""

from __future__ import annotations

from typing import Any

from calibody.mechanics.elements.base import ON_SECOND, Blocks, Measure, Poses
from calibody.mechanics.elements.wrenches import line_wrench, line_wrench_turned, spin
from calibody.spatial import algebra as al


def _parts(frame: Any) -> tuple[tuple, ...]:
    return tuple(tuple(frame[3 * i : 3 * i + 3]) for i in range(6))


def _hinge_axes(poses: Poses, frame: Any) -> tuple[al.Vector, al.Vector, al.Vector, al.Vector]:
    """x, y, z of the parent and c of the child, in the world."""
    x, y, z, c, _, _ = _parts(frame)
    return *(al.direction(poses[0], a) for a in (x, y, z)), al.direction(poses[1], c)  # type: ignore[arg-type, return-value]


def hinge_angle(poses: Poses, frame: Any) -> tuple:
    """The angle in (-pi, pi]; turns are counted by the caller."""
    x, y, _, c = _hinge_axes(poses, frame)
    return (al.library(x[0]).arctan2(al.dot(y, c), al.dot(x, c)),)


def hinge_gradient(poses: Poses, frame: Any) -> tuple:
    x, y, _, c = _hinge_axes(poses, frame)
    X, Y = al.dot(x, c), al.dot(y, c)
    norm = X * X + Y * Y
    return ((al.sub(al.scale(X / norm, al.cross(c, y)), al.scale(Y / norm, al.cross(c, x))),),)


def hinge_acts(poses: Poses, frame: Any) -> tuple:
    return ((_hinge_axes(poses, frame)[2],),)


def hinge_turned(poses: Poses, frame: Any, force: Any) -> Blocks:
    return {(0, 0): spin(al.scale(force[0], _hinge_axes(poses, frame)[2]))}


def _slide_line(poses: Poses, frame: Any) -> tuple[al.Vector, al.Vector]:
    """The child's point and the parent's axis, in the world."""
    _, _, z, _, a, _ = _parts(frame)
    return al.point(poses[1], a), al.direction(poses[0], z)  # type: ignore[arg-type]


def slide_position(poses: Poses, frame: Any) -> tuple:
    point, axis = _slide_line(poses, frame)
    return (al.dot(axis, al.sub(point, al.point(poses[0], _parts(frame)[5]))),)  # type: ignore[arg-type]


def slide_wrench(poses: Poses, frame: Any) -> tuple:
    """Gradient of s and wrench of a unit force in one."""
    return ((line_wrench(*_slide_line(poses, frame)),),)


def slide_turned(poses: Poses, frame: Any, force: Any) -> Blocks:
    by_point, by_direction = line_wrench_turned(*_slide_line(poses, frame), force[0])
    return {(0, 1): by_point, (0, 0): by_direction}


def ball_axes(poses: Poses, frame: Any) -> tuple:
    """The child's axes."""
    return tuple((axis,) for axis in al.transpose(al.rotation_part(poses[1])))


def ball_turned(poses: Poses, frame: Any, force: Any) -> Blocks:
    return {(0, 1): spin(al.matvec(al.rotation_part(poses[1]), tuple(force)))}


def _no_value(poses: Poses, frame: Any) -> tuple:
    zero = 0.0 * poses[1][0][0]
    return zero, zero, zero


HINGE = Measure(1, ON_SECOND, hinge_angle, hinge_gradient, hinge_turned, hinge_acts)
SLIDE = Measure(1, ON_SECOND, slide_position, slide_wrench, slide_turned)
BALL = Measure(3, ON_SECOND, _no_value, ball_axes, ball_turned)
