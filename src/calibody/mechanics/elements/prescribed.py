"""Motion that a drive prescribes: `z(q_k) = given_k` at every node, z a joint's coordinate or a coordinate of a site in the world.

The rows here are z; what is given is subtracted where the nodes' times are known (`Point.given`, `step.Values.given`). The multiplier is the force that it takes: on the
coordinate, or at the site along the axis of the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibody.mechanics.elements.base import ALONE, Constraint, CoordinateConstraint, Ends, Measure, Poses
from calibody.mechanics.elements.push import place, world_force, world_force_turned
from calibody.model import Model
from calibody.spatial import algebra as al

JOINT, SITE = "prescribed joint", "prescribed site"
AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def coordinate(s: Sequence[Any], data: Any) -> tuple[Any, tuple, tuple]:
    return s[0], (1.0 + 0.0 * s[0],), (0.0 * s[0],)


def no_numbers(ends: Ends, which: Any) -> Sequence[float]:
    return []


def joints(channel: Any) -> tuple[str, ...]:
    """The scalar coordinate as `Structure.coordinate_name` has it: of a free joint one of its three."""
    return (channel.name if channel.component is None else f"{channel.name}.{channel.components[channel.component]}",)


def unit_of(channel: Any, model: Model) -> str:
    return "N" if channel.quantity == "position" else "N m"


def value(poses: Poses, data: Any) -> tuple:
    return (al.dot(place(poses, data)[0], tuple(data[3:6])),)  # type: ignore[arg-type]


def numbers(ends: Ends, which: Any) -> Sequence[float]:
    return [*ends.point_a, *AXES[ends.source.component]]


OF_JOINT = CoordinateConstraint("prescribed joint", {JOINT: (None,)}, joints, no_numbers, coordinate, unit_of)
OF_SITE = Constraint("prescribed site", Measure(1, ALONE, value, world_force, world_force_turned, apart=True), {SITE: (None,)}, numbers, "N")
