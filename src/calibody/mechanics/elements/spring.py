"""A spring-damper between two points, a natural force on the mean of the two node poses.

    d = p_a - p_b at the mean pose,   f = -(k (|d| - L0) + c d . d'/|d| + u) d/|d| on a, its opposite on b

Both act along the line of the mean points, so angular momentum is conserved exactly. What both nodes receive is `-(h/2) f`: with
`z = (k (1 - L0/|d|) + c d . d'/|d|^2 + u/|d|)`, u the tension that a drive adds, the force is `-z d`, and

    dz/dd = (k L0 - u) d/|d|^3 + c (d'/|d|^2 - 2 (d . d') d/|d|^4),   dz/dd' = c d/|d|^2

Where the two points coincide the direction is undefined: the length is kept above `TINY`, and the force there is that of a spring with
no rest length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibody.mechanics.elements.base import EACH, Force, Measure, Poses, two_bodies
from calibody.mechanics.elements.point import points, turned, value
from calibody.mechanics.elements.wrenches import moved, negative
from calibody.model import Spring
from calibody.spatial import algebra as al

# metres; far below any length that matters, far above the square root of the smallest float
TINY = 1e-12


def wrenches(poses: Poses, data: Any) -> tuple:
    a, b = points(poses, data)
    return tuple(zip(moved(a), negative(moved(b)), strict=True))


def impulse(dL: tuple, dR: tuple, data: Any, h: Any) -> tuple[tuple, tuple, tuple]:
    """`-(h/2) f` on a from `d` at L and at R, and its 3x3 derivatives with respect to both."""
    k, c, rest, pull = data[6], data[7], data[8], data[9]
    d = al.scale(0.5, al.add(dL, dR))
    rate = al.scale(1.0 / h, al.sub(dR, dL))
    lib = al.library(d[0])
    length2 = lib.maximum(al.dot(d, d), TINY * TINY)
    length = lib.sqrt(length2)
    along = al.dot(d, rate)
    z = k * (1.0 - rest / length) + c * along / length2 + pull / length
    z_d = al.add(al.scale((k * rest - pull) / (length2 * length) - 2.0 * c * along / (length2 * length2), d), al.scale(c / length2, rate))
    z_rate = al.scale(c / length2, d)
    by_d = tuple(tuple(0.5 * h * (d[i] * z_d[j] + (z if i == j else 0.0)) for j in range(3)) for i in range(3))
    by_rate = tuple(tuple(0.5 * h * d[i] * z_rate[j] for j in range(3)) for i in range(3))
    by_L = tuple(tuple(0.5 * x - y / h for x, y in zip(a, b, strict=True)) for a, b in zip(by_d, by_rate, strict=True))
    by_R = tuple(tuple(0.5 * x + y / h for x, y in zip(a, b, strict=True)) for a, b in zip(by_d, by_rate, strict=True))
    return al.scale(0.5 * h * z, d), by_L, by_R


def energy(d: tuple, data: Any) -> Any:
    length = al.library(d[0]).sqrt(al.dot(d, d))
    return 0.5 * data[6] * (length - data[8]) ** 2


def numbers(spring: Spring) -> Sequence[float]:
    return [*spring.point1, *spring.point2, spring.stiffness, spring.damping, spring.rest_length, 0.0]


TYPE = Force("spring", Measure(3, EACH, value, wrenches, turned), two_bodies, numbers, impulse, energy, pulled=True)
