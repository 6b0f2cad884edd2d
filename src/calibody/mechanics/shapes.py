"""Where two shapes are nearest: gap, normal, and the points that will touch.

Every kernel takes the poses of two links and the numbers of its elements, all with the elements as first axis after the components and any further axes (nodes) behind:
`H = (R, o)` with R (3, 3, m, ...) and o (3, m, ...). It returns a `Touch`: the gap, the unit normal n that points from b to a, and the material points of a and b that are
nearest. Since these points are where the distance is stationary, their own motion over the surfaces does not change it, and

    d gap/dt = n . (v_a - v_b),      v_a, v_b the velocities of the two material points

exactly, for every kernel (that is what the derivative check of the tests says). A ball of radius r around a body's point p touches at `p - r n`: the arm includes -r n.

- point against plane: balls, ends of capsules, corners of boxes (rounded: moved in by the radius), rims;
- ellipsoid against plane by its support function: with `m = Q'n` the normal in the ellipsoid's axes, `S = |a m|` (a the half axes) and the lowest point is `-a^2 m/S`;
- disc against plane: with w the part of -n in the disc's plane and s = |w|^2 (the squared sine of the tilt), the support function is R sqrt(s), and S(s) touches at `c + 2 S'(s) w`. A disc
  that lies flat has no lowest point, and the lowest point of one that is nearly flat runs round the rim with any small tilt. So `S = R (sqrt(s + e^2 (1 - s)) - 2 e exp(-s/(10 e)^2))`
  lifts it there, e = `FLAT`, by e R, and points of the rim carry the disc instead. From a tilt of 20 e (3 degrees) on it is exact to 1e-4 R, on edge to rounding; the gradient is exact everywhere;
- point or segment against point or segment: nearest points of lines, cut off at the ends;
- point against box: the nearest point of the box, or, inside, of its nearest face; segment against box: the point of the segment where the (convex) distance is least, by bisection.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from calibody.spatial import algebra as al

FLAT = 3e-3
"""A tenth of the tilt below which a disc stands on points of its rim."""
TINY = 1e-12
"""Metres between two centres that count as the same point: the normal is then the z axis."""
AWAY = 10.0
"""Metres that stand for nowhere near."""
EDGE = 1e-9
"""Of the length of a segment: as near its end counts as the end."""
BISECTIONS = 50
"""Of the nearest point of a segment to a box: its place is known to 2^-50 of the length."""


class Pose(NamedTuple):
    """Of one link per element."""

    R: np.ndarray
    o: np.ndarray


class Touch(NamedTuple):
    """m elements (and nodes)."""

    gap: np.ndarray
    """(m, ...)"""
    normal: np.ndarray
    """(3, m, ...) from b to a."""
    at_a: np.ndarray
    at_b: np.ndarray
    """(3, m, ...) the nearest material points, in the world."""


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(0)


def turned(R: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`R x`, of arrays of numpy or of a program that is compiled."""
    return (R * x[None]).sum(1)


def back(R: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`R' x`"""
    return (R * x[:, None]).sum(0)


def place(H: Pose, x: np.ndarray) -> np.ndarray:
    return turned(H.R, x) + H.o


def _plane(H: Pose, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normal and point of a plane from its six numbers."""
    return turned(H.R, data[3:6]), place(H, data[:3])


def point_plane(a: Pose, b: Pose, data: np.ndarray) -> Touch:
    """data: point, radius | point of the plane, normal."""
    n, origin = _plane(b, data[4:10])
    p, r = place(a, data[:3]), data[3]
    distance = _dot(n, p - origin)
    return Touch(distance - r, n, p - r * n, p - distance * n)


def ellipsoid_plane(a: Pose, b: Pose, data: np.ndarray) -> Touch:
    """data: centre, axes Q (row by row), half axes | point of the plane, normal."""
    n, origin = _plane(b, data[15:21])
    Q, half, c = data[3:12].reshape(3, 3, *data.shape[1:]), data[12:15], place(a, data[:3])
    m = back(Q, back(a.R, n))
    S = al.library(n).sqrt(_dot(half * m, half * m))
    at = c - turned(a.R, turned(Q, half * half * m / S))
    gap = _dot(n, c - origin) - S
    return Touch(gap, n, at, at - gap * n)


def disc_plane(a: Pose, b: Pose, data: np.ndarray) -> Touch:
    """data: centre, axis, radius, radius of the edge | point of the plane, normal."""
    n, origin = _plane(b, data[8:14])
    c, z, R, r = place(a, data[:3]), turned(a.R, data[3:6]), data[6], data[7]
    w = _dot(n, z) * z - n
    s = _dot(w, w)
    xp = al.library(s)
    length, lift = xp.sqrt(s + FLAT * FLAT * (1.0 - s)), 2.0 * FLAT * xp.exp(-0.01 * s / FLAT**2)
    gap = _dot(n, c - origin) - R * (length - lift) - r
    at = c + R * ((1.0 - FLAT * FLAT) / length + 0.02 * lift / FLAT**2) * w - r * n
    return Touch(gap, n, at, at - gap * n)


def _balls(p: np.ndarray, ra: Any, q: np.ndarray, rb: Any) -> Touch:
    """Two balls."""
    d = p - q
    xp = al.library(d)
    length = xp.sqrt(_dot(d, d))
    up = np.array([0.0, 0.0, 1.0]).reshape(3, *(1,) * (d.ndim - 1))
    n = xp.where(length > TINY, d / xp.maximum(length, TINY), up)
    return Touch(length - ra - rb, n, p - ra * n, q + rb * n)


def point_point(a: Pose, b: Pose, data: np.ndarray) -> Touch:
    """data: point, radius | point, radius."""
    return _balls(place(a, data[:3]), data[3], place(b, data[4:7]), data[7])


def _only(inside: np.ndarray, touch: Touch) -> Touch:
    """Nowhere near where `inside` does not hold: another element has that place already."""
    return touch._replace(gap=al.library(touch.gap).where(inside, touch.gap, touch.gap + AWAY))


def point_segment(a: Pose, b: Pose, data: np.ndarray) -> Touch:
    """data: point, radius | end, end, radius, whether its ends are left to others."""
    p, q0, q1 = place(a, data[:3]), place(b, data[4:7]), place(b, data[7:10])
    d = q1 - q0
    xp = al.library(d)
    t = xp.clip(_dot(p - q0, d) / xp.maximum(_dot(d, d), TINY * TINY), 0.0, 1.0)
    return _only((data[11] == 0.0) | ((t > 0.0) & (t < 1.0)), _balls(p, data[3], q0 + t * d, data[10]))


def segment_segment(a: Pose, b: Pose, data: np.ndarray) -> Touch:
    """data: end, end, radius | end, end, radius; only where both nearest points are between the ends. Of parallel segments any of the nearest points."""
    p0, p1, q0, q1 = place(a, data[:3]), place(a, data[3:6]), place(b, data[7:10]), place(b, data[10:13])
    u, v, w = p1 - p0, q1 - q0, p0 - q0
    uu, uv, vv, uw, vw = _dot(u, u), _dot(u, v), _dot(v, v), _dot(u, w), _dot(v, w)
    least, xp = TINY * TINY, al.library(uv)
    across = uu * vv - uv * uv
    s = xp.where(across > 1e-12 * uu * vv, xp.clip((uv * vw - vv * uw) / xp.maximum(across, least), 0.0, 1.0), 0.5)
    t = xp.clip((uv * s + vw) / xp.maximum(vv, least), 0.0, 1.0)
    s = xp.clip((uv * t - uw) / xp.maximum(uu, least), 0.0, 1.0)
    t = xp.clip((uv * s + vw) / xp.maximum(vv, least), 0.0, 1.0)
    return _only((s > 0.0) & (s < 1.0) & (t > 0.0) & (t < 1.0), _balls(p0 + s * u, data[6], q0 + t * v, data[13]))


def _in_box(b: Pose, data: np.ndarray, p: np.ndarray) -> np.ndarray:
    """A point in the axes of a box whose numbers are: centre, axes Q, half sizes."""
    Q = data[3:12].reshape(3, 3, *data.shape[1:])
    return back(Q, back(b.R, p - b.o) - data[:3])


def _ball_box(p: np.ndarray, r: Any, b: Pose, data: np.ndarray) -> Touch:
    Q, half = data[3:12].reshape(3, 3, *data.shape[1:]), data[12:15]
    x = _in_box(b, data, p)
    xp = al.library(x)
    y = xp.clip(x, -half, half)
    d = x - y
    length = xp.sqrt(_dot(d, d))
    depth = half - abs(x)  # inside: how far it is to each face
    nearest = np.arange(3).reshape(3, *(1,) * (x.ndim - 1)) == xp.argmin(depth, axis=0)
    inside = length <= TINY
    face = xp.where(nearest, xp.where(x < 0.0, -1.0, 1.0), 0.0)
    n = xp.where(inside, face, d / xp.maximum(length, TINY))
    y = xp.where(inside & nearest, face * half, y)
    distance = xp.where(inside, -xp.min(depth, axis=0), length)
    n, y = turned(b.R, turned(Q, n)), place(b, turned(Q, y) + data[:3])
    return Touch(distance - r, n, p - r * n, y)


def point_box(a: Pose, b: Pose, data: np.ndarray) -> Touch:
    """data: point, radius | centre, axes, half sizes."""
    return _ball_box(place(a, data[:3]), data[3], b, data[4:19])


def segment_box(a: Pose, b: Pose, data: np.ndarray) -> Touch:
    """data: end, end, radius | centre, axes, half sizes; only where the nearest point is between the ends."""
    p0, p1, box = place(a, data[:3]), place(a, data[3:6]), data[7:22]
    x0, x1, half = _in_box(b, box, p0), _in_box(b, box, p1), box[12:15]
    xp = al.library(x0)
    low, high = 0.0 * x0[0], 0.0 * x0[0] + 1.0
    for _ in range(BISECTIONS):
        t = 0.5 * (low + high)
        x = x0 + t * (x1 - x0)
        rising = _dot(x - xp.clip(x, -half, half), x1 - x0) > 0.0
        low, high = xp.where(rising, low, t), xp.where(rising, t, high)
    t = 0.5 * (low + high)
    return _only((t > EDGE) & (t < 1.0 - EDGE), _ball_box(p0 + t * (p1 - p0), data[6], b, box))


KERNELS = {k.__name__: k for k in (point_plane, ellipsoid_plane, disc_plane, point_point, point_segment, segment_segment, point_box, segment_box)}
