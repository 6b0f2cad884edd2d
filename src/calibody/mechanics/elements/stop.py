"""A joint limit that gives way: the force of a stop on the coordinate of a hinge or slide, one-sided, as that of compliant contact between shapes.

With the sign of the limit (`Limit.sign`: the gap is `sign (s - position)`), the penetration and its rate

    p = -sign (s_m - position),   p' = -sign rho,   t = sign N(p, p')

N the law of `compliant.py`: `k p^e` up to a depth, damped by Hunt and Crossley's `1 + d p'` while it closes. It pushes and never pulls, is smooth, and acts over an interval as every force on a coordinate does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibody.mechanics.elements.base import CoordinateForce, Setting
from calibody.mechanics.elements.compliant import press, stored
from calibody.model import Model

STOP = ("position", "stiffness", "exponent", "depth", "damping")


def pushed(sm: Any, rho: Any, data: Any) -> tuple[Any, Any, Any, tuple[Any, ...]]:
    """t, its derivatives by `s_m` and `rho`, and by each of `STOP`; data as in `STOP`, then the sign."""
    position, *law, sign = data
    found = press(-sign * (sm - position), -sign * rho, law)
    by_depth = -sign * sign * found.by_depth
    return sign * found.force, by_depth, -sign * sign * found.by_rate, (-by_depth, *(sign * x for x in found.by_law))


# -- what the protocol asks for ------------------------------------------------------------------------------------------------------


def _force(sm: Any, rho: Any, data: Any, at: Setting) -> tuple[Any, Any, Any, Any]:
    return *pushed(sm, rho, tuple(data))[:3], None


def _by_numbers(sm: Any, rho: Any, data: Any, at: Setting) -> tuple[Any, ...]:
    return pushed(sm, rho, tuple(data))[3]


def _energy(s: Any, data: Any) -> Any:
    position, *law, sign = tuple(data)
    return stored(-sign * (s - position), law)


def _soft(model: Model) -> list[Any]:
    return [x for x in model.limits if x.compliant]


def _owners(structure: Any) -> Sequence[tuple[str, str]]:
    return [("limit", x.name) for x in _soft(structure.model)]


def _touches(structure: Any) -> Sequence[int]:
    return [structure.coordinate_index[x.joint] for x in _soft(structure.model)]


def _numbers(structure: Any, model: Model) -> Sequence[Sequence[float]]:
    return [[*(getattr(x, f) for f in STOP), x.sign] for x in _soft(model)]


TYPE = CoordinateForce("stop", STOP, _owners, _touches, _numbers, _force, _by_numbers, _energy)
