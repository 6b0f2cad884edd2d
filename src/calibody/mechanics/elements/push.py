"""Forces and torques on one link that a drive gives: unit wrenches, one for every channel.

    site.NAME.force.x         (p x e, e)          e an axis of the world, p the site
    site.NAME.torque.x        (e, 0)
    site.NAME.force.own.x     (p x u, u)          u an axis of the site, which turns with the link
    site.NAME.torque.own.x    (u, 0)
    body.NAME.force.x         (0, e)              along a line through the world's origin: with the torque below the wrench that a force plate measures,
    body.NAME.torque.x        (e, 0)              whatever the body does

A force f, the mean over an interval, contributes `-(h/2) f W` at both ends, W the wrench there: of second order, and the work of a constant force is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibody.mechanics.elements.base import ALONE, Blocks, Measure, Poses, Push
from calibody.mechanics.elements.wrenches import force_turned, line_wrench, line_wrench_turned, spin
from calibody.model import Model
from calibody.spatial import algebra as al


def place(poses: Poses, data: Any) -> tuple[al.Vector, al.Vector]:
    """Where the force acts, and its direction in the world if that is given in the axes of the link."""
    return al.point(poses[0], tuple(data[:3])), al.direction(poses[0], tuple(data[3:6]))  # type: ignore[arg-type]


def _fixed(poses: Poses, data: Any) -> al.Vector:
    """A direction given in the axes of the world."""
    zero = 0.0 * poses[0][0][0]
    return tuple(x + zero for x in data[3:6])  # type: ignore[return-value]


def no_value(poses: Poses, data: Any) -> tuple:
    return (0.0 * poses[0][0][0],)


def world_force(poses: Poses, data: Any) -> tuple:
    return ((line_wrench(place(poses, data)[0], _fixed(poses, data)),),)


def world_force_turned(poses: Poses, data: Any, force: Any) -> Blocks:
    return {(0, 0): force_turned(place(poses, data)[0], al.scale(force[0], _fixed(poses, data)))}


def own_force(poses: Poses, data: Any) -> tuple:
    return ((line_wrench(*place(poses, data)),),)


def own_force_turned(poses: Poses, data: Any, force: Any) -> Blocks:
    """The point and the direction move with the same link."""
    by_point, by_direction = line_wrench_turned(*place(poses, data), force[0])
    whole = tuple((*(x + y for x, y in zip(a[:3], b, strict=True)), *a[3:]) for a, b in zip(by_point, by_direction[:3], strict=True))
    zero = 0.0 * whole[0][0]
    return {(0, 0): (*whole, *((*row, zero, zero, zero) for row in by_direction[3:]))}


def world_torque(poses: Poses, data: Any) -> tuple:
    return ((_fixed(poses, data),),)


def own_torque(poses: Poses, data: Any) -> tuple:
    return ((place(poses, data)[1],),)


def own_torque_turned(poses: Poses, data: Any, force: Any) -> Blocks:
    return {(0, 0): spin(al.scale(force[0], place(poses, data)[1]))}


def through_origin(poses: Poses, data: Any) -> tuple:
    d = _fixed(poses, data)
    return ((tuple(0.0 * x for x in d) + d,),)


def unturned(poses: Poses, data: Any, force: Any) -> Blocks:
    return {}


def _at_site(model: Model, channel: Any) -> Sequence[float]:
    site = model.tables["site"][channel.name]
    axes = np.array(al.quaternion_matrix(al.quaternion_normalised(site.orientation))) if channel.quantity.endswith(".own") else np.eye(3)
    return [*site.position, *axes[:, channel.component]]


def _on_body(model: Model, channel: Any) -> Sequence[float]:
    return [0.0, 0.0, 0.0, *np.eye(3)[channel.component]]


def _body_of_site(model: Model, channel: Any) -> str:
    return model.tables["site"][channel.name].body


def _body(model: Model, channel: Any) -> str:
    return channel.name


TYPES = {
    ("site", "force"): Push("force at a site", Measure(1, ALONE, no_value, world_force, world_force_turned), _at_site, _body_of_site),
    ("site", "torque"): Push("torque at a site", Measure(1, ALONE, no_value, world_torque, unturned), _at_site, _body_of_site),
    ("site", "force.own"): Push("own force at a site", Measure(1, ALONE, no_value, own_force, own_force_turned), _at_site, _body_of_site),
    ("site", "torque.own"): Push("own torque at a site", Measure(1, ALONE, no_value, own_torque, own_torque_turned), _at_site, _body_of_site),
    ("body", "force"): Push("force on a body", Measure(1, ALONE, no_value, through_origin, unturned), _on_body, _body),
    ("body", "torque"): Push("torque on a body", Measure(1, ALONE, no_value, world_torque, unturned), _on_body, _body),
}
"""By kind and quantity of the channel."""
