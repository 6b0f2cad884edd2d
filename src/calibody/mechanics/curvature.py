"""How the place where two shapes touch goes with them: the second derivatives of the gaps of `shapes.py`.

When shape a moves by a twist (w, v) and b stays, a point p of a moves by `dp = w x p + v`, and of every kernel follow dn and dx, the changes of the normal and of the place x on a,

    plane                    dn = 0, dx = dp of the point of a
    ball against point,      dn = (1 - nn')(dp - dq)/|p - q|,  dx = dp - r dn
    segment or box           with the nearest point q = P dp, P the projection on the directions in which it is free: none at a corner, the edge, both of a face
    ellipsoid against plane  dx = dc + w x e - (D - (a^2 m)(a^2 m)'/S^3) dm in the ellipsoid's axes; e = x - c, D = a^2/S, dm = Q'(n x w)

When both move alike the normal turns with them, `dn = w x n`, and x goes along: what b alone does is the difference. The gradient of the gap, a unit force along n at x, changes by
both. Arrays are as in `shapes.py`, with the six components of a twist after those of a vector: (3, 6, m, ...).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibody.mechanics.shapes import TINY, Pose, Touch, back, place
from calibody.spatial import algebra as al


def cross(a: Any, b: Any) -> Any:
    """Of vectors, either of which may have columns."""
    return al.library(b).stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def identity(like: Any) -> Any:
    """(3, 3, ...) of the shape of a vector's components."""
    return np.eye(3).reshape(3, 3, *(1,) * (like.ndim - 1)) + 0.0 * like[0]


def spun(a: Any) -> Any:
    """(3, 3, ...): the map `w -> w x a`."""
    return -cross(a, identity(a))


def moved(p: Any) -> Any:
    """(3, 6, ...): how a point goes with a twist."""
    return al.library(p).concatenate([spun(p), identity(p)], axis=1)


def across(n: Any, columns: Any) -> Any:
    """The part of vectors that is across n."""
    return columns - n[:, None] * (n[:, None] * columns).sum(0)


def _still(n: Any) -> Any:
    """Of a normal that is fixed in b."""
    return 0.0 * moved(n)


def on_plane(a: Pose, b: Pose, data: Any, touch: Touch) -> tuple[Any, Any]:
    return _still(touch.normal), moved(place(a, data[:3])) + 0.0 * moved(touch.normal)


def ellipsoid(a: Pose, b: Pose, data: Any, touch: Touch) -> tuple[Any, Any]:
    n, half2 = touch.normal, data[12:15] ** 2
    Q = data[3:12].reshape(3, 3, *data.shape[1:])
    m = back(Q, back(a.R, n))
    S = al.library(n).sqrt((half2 * m * m).sum(0))
    own = back_columns(Q, back_columns(a.R, cross(n, identity(n))))  # n x w in the ellipsoid's axes
    bent = (half2 / S)[:, None] * own - (half2 * m / S**3)[:, None] * ((half2 * m)[:, None] * own).sum(0)
    centre = place(a, data[:3])
    by_turn = spun(touch.at_a) - turned_columns(a.R, turned_columns(Q, bent))
    return _still(n), al.library(n).concatenate([by_turn, identity(centre) + 0.0 * by_turn], axis=1)


def turned_columns(R: Any, X: Any) -> Any:
    return (R[:, :, None] * X[None]).sum(1)


def back_columns(R: Any, X: Any) -> Any:
    return (R[:, :, None] * X[:, None]).sum(0)


def _ball(p: Any, r: Any, touch: Touch, distance: Any, free: Any) -> tuple[Any, Any]:
    """A ball around p; `distance` from p to the nearest point, `free` maps columns to the part that it follows."""
    xp, dp = al.library(touch.normal), moved(p)
    far = xp.maximum(abs(distance), TINY)
    dn = xp.where(distance > TINY, across(touch.normal, dp - free(dp)) / far, 0.0)
    return dn, dp - r * dn


def two_points(a: Pose, b: Pose, data: Any, touch: Touch) -> tuple[Any, Any]:
    return _ball(place(a, data[:3]), data[3], touch, touch.gap + data[3] + data[7], lambda dp: 0.0 * dp)


def on_segment(a: Pose, b: Pose, data: Any, touch: Touch) -> tuple[Any, Any]:
    p, q0, q1 = place(a, data[:3]), place(b, data[4:7]), place(b, data[7:10])
    xp, d = al.library(p), q1 - q0
    length2 = xp.maximum((d * d).sum(0), TINY * TINY)
    t = ((p - q0) * d).sum(0) / length2
    inner = 1.0 * ((t > 0.0) & (t < 1.0)) / length2
    distance = xp.sqrt(((p - q0 - xp.clip(t, 0.0, 1.0) * d) ** 2).sum(0))
    return _ball(p, data[3], touch, distance, lambda dp: inner * d[:, None] * (d[:, None] * dp).sum(0))


def on_box(a: Pose, b: Pose, data: Any, touch: Touch) -> tuple[Any, Any]:
    p, box = place(a, data[:3]), data[4:]
    Q, half = box[3:12].reshape(3, 3, *box.shape[1:]), box[12:15]
    x = back(Q, back(b.R, p - b.o) - box[:3])
    within = 1.0 * (abs(x) < half)

    def free(dp: Any) -> Any:
        return turned_columns(b.R, turned_columns(Q, within[:, None] * back_columns(Q, back_columns(b.R, dp))))

    return _ball(p, data[3], touch, touch.gap + data[3], free)  # inside, where the distance is negative, the normal is that of a face


BY_FIRST: dict[str, Callable[[Pose, Pose, Any, Touch], tuple[Any, Any]]] = {
    "point_plane": on_plane,
    "ellipsoid_plane": ellipsoid,
    "point_point": two_points,
    "point_segment": on_segment,
    "point_box": on_box,
}
"""By kernel: dn and dx, (3, 6, m, ...) each, by the twist of a."""


def by_twists(kernel: str, a: Pose, b: Pose, data: Any, touch: Touch) -> tuple[Any, Any, Any]:
    """(12, m, ...), (3, 12, m, ...) twice: of the gap, the normal and the place on a by the twists of a and b."""
    xp, n, x = al.library(touch.normal), touch.normal, touch.at_a
    dn, dx = BY_FIRST[kernel](a, b, data, touch)
    zero = 0.0 * dx + 0.0 * dn
    both_n = xp.concatenate([spun(n), 0.0 * spun(n)], axis=1)
    wrench = xp.concatenate([cross(x, n), n + 0.0 * x])
    return (
        xp.concatenate([wrench, -wrench]),
        xp.concatenate([dn + zero, both_n - dn + zero], axis=1),
        xp.concatenate([dx + zero, moved(x) - dx + zero], axis=1),
    )
