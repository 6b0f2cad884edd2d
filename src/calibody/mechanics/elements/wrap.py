"""The shortest way from one point to another around a sphere or a cylinder of radius R, with first and second derivatives: what a tendon does at a bone.

Everything is in the frame of the shape (a cylinder along z, without ends), from a to b. In the plane of the circle, with the radii r_a, r_b and the angle
`Theta` from a to b on the side `sigma` on which the way passes,

    l2 = g(r_a) + g(r_b) + R Theta,      g(r) = sqrt(r^2 - R^2) - R acos(R/r),      g' = sqrt(r^2 - R^2)/r,   g'' = R^2/(r^2 sqrt(r^2 - R^2))

(two tangents and the arc between them). Of a sphere the plane goes through both points and the centre, and Theta is the angle between them (or what it lacks to a turn). On a cylinder, unrolled, the way is straight:
`l = sqrt(l2^2 + (z_b - z_a)^2)`. With a side point inside the shape the way passes through it as through a ring: where the straight line does not, it touches the inner edge in one point t, where both parts make the same angle with the edge,

    l2 = |a - t| + |t - b|,   asin(A z) + asin(B z) - 2 asin(z) + angle(a, b) = 0,   A = R/r_a, B = R/r_b,  z the sine of that angle

and its second derivatives are those at fixed t less `l_at l_tt^-1 l_ta`. When the way touches at all, and on which side, is decided as MuJoCo (4.0) decides it. With a side point it goes round without crossing the ray opposite to that point,
and straight where the tangents of that side cross. Without one it is straight where it misses the circle, and else goes where the two tangent points are nearer to each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from calibody.spatial import algebra as al

SPHERE, CYLINDER = "sphere", "cylinder"
TINY = 1e-15
"""MuJoCo's: what is smaller counts as zero."""
STEPS = 20
"""Of Newton's method for the sine z; it is convex and begun on the far side, so that it converges without a safeguard, and quadratically."""
BEGIN = 1.0 - 1e-7
"""z that it begins with."""
Two = tuple[Any, Any]


class Way(NamedTuple):
    """Length, gradients at a and b, second derivatives, and whether the shape is touched; what is not touched has numbers without meaning."""

    length: Any
    a: al.Vector
    b: al.Vector
    aa: tuple
    ab: tuple
    bb: tuple
    touches: Any


class _Plane(NamedTuple):
    """The same in the plane of the circle, a and b in its two axes."""

    length: Any
    a: Two
    b: Two
    aa: tuple
    ab: tuple
    bb: tuple
    touches: Any


def way(kind: str, inside: bool, a: al.Vector, b: al.Vector, side: al.Vector | None, R: Any) -> Way:
    """From a to b around the shape; `side` is a point that says on which side, or, with `inside`, that the way passes through."""
    return _around_cylinder(inside, a, b, side, R) if kind == CYLINDER else _around_sphere(inside, a, b, side, R)


# -- in the plane ----------------------------------------------------------------------------------------------------------------------


def _dot(a: Two, b: Two) -> Any:
    return a[0] * b[0] + a[1] * b[1]


def _cross(a: Two, b: Two) -> Any:
    return a[0] * b[1] - a[1] * b[0]


def _outer(a: tuple, b: tuple) -> tuple:
    return tuple(tuple(x * y for y in b) for x in a)


def _sum(*blocks: tuple) -> tuple:
    return tuple(tuple(sum(entries[1:], entries[0]) for entries in zip(*rows, strict=True)) for rows in zip(*blocks, strict=True))


def _times(k: Any, block: tuple) -> tuple:
    return tuple(tuple(k * x for x in row) for row in block)


def _unit(a: Two, lib: Any) -> Two:
    length = lib.maximum(lib.sqrt(_dot(a, a)), TINY)
    return a[0] / length, a[1] / length


def _nearest(a: Two, b: Two, lib: Any) -> tuple[Two, Any, Any]:
    """The point of the line through a and b that is nearest to the centre, where on it that is (0 at a, 1 at b), and the square of |b - a|."""
    d = b[0] - a[0], b[1] - a[1]
    dd = _dot(d, d)
    part = -_dot(d, a) / lib.maximum(dd, TINY)
    return d, part, dd


def _tangents(a: Two, b: Two, R: Any, sigma: float, lib: Any) -> tuple[Two, Two]:
    """Where the tangents from a and b touch the circle on one side."""
    out = []
    for p, turn in ((a, sigma), (b, -sigma)):
        square = _dot(p, p)
        root = lib.sqrt(lib.maximum(square - R * R, TINY))
        square = lib.maximum(square, TINY)
        out.append(((p[0] * R * R - turn * R * p[1] * root) / square, (p[1] * R * R + turn * R * p[0] * root) / square))
    return out[0], out[1]


def _meet(a: Two, t: Two, b: Two, u: Two, lib: Any) -> Any:
    """Whether the segments from a to t and from b to u cross."""
    one, other, apart = (t[0] - a[0], t[1] - a[1]), (u[0] - b[0], u[1] - b[1]), (a[0] - b[0], a[1] - b[1])
    det = _cross(one, other)
    safe = lib.where(lib.abs(det) < TINY, 1.0, det)
    x, y = _cross(other, apart) / safe, _cross(one, apart) / safe
    return (lib.abs(det) >= TINY) & (x >= 0.0) & (x <= 1.0) & (y >= 0.0) & (y <= 1.0)


def _outside(a: Two, b: Two, side: Two | None, R: Any) -> tuple[Any, Any]:
    """Whether the way touches the circle, and on which side it passes."""
    lib = al.library(a[0])
    within = (_dot(a, a) < R * R) | (_dot(b, b) < R * R)
    if side is not None:
        return _on_side(a, b, side, R, within)
    d, part, dd = _nearest(a, b, lib)
    part = lib.clip(part, 0.0, 1.0)
    near = a[0] + part * d[0], a[1] + part * d[1]
    good, crossed = [], []
    for sigma in (-1.0, 1.0):
        t, u = _tangents(a, b, R, sigma, lib)
        apart = t[0] - u[0], t[1] - u[1]
        crossed.append(_meet(a, t, b, u, lib))
        good.append(lib.where(crossed[-1], -1e4, -_dot(apart, apart)))
    second = good[1] > good[0]
    touches = ~((_dot(near, near) > R * R) | within | (dd < TINY) | lib.where(second, crossed[1], crossed[0]))
    return touches, lib.where(second, 1.0, -1.0)


def _on_side(a: Two, b: Two, side: Two, R: Any, within: Any) -> tuple[Any, Any]:
    """Round the circle without crossing the ray opposite to the side point; straight where the tangents of that side would cross."""
    lib = al.library(a[0])
    turns = [lib.arctan2(_cross(side, p), _dot(side, p)) for p in (a, b)]
    reach = sum(lib.arccos(lib.clip(R / lib.maximum(lib.sqrt(_dot(p, p)), TINY), -1.0, 1.0)) for p in (a, b))
    swept = turns[1] - turns[0]
    return ~within & (lib.abs(swept) > reach), lib.where(swept > 0.0, 1.0, -1.0)


def _around(a: Two, b: Two, side: Two | None, R: Any) -> _Plane:
    touches, sigma = _outside(a, b, side, R)
    lib = al.library(a[0])
    turn = lib.mod(sigma * lib.arctan2(_cross(a, b), _dot(a, b)), 2.0 * np.pi)
    gradients, blocks, length, free = [], [], 0.0, turn
    for p, sign in ((a, -1.0), (b, 1.0)):
        square = lib.where(touches, _dot(p, p), 4.0 * R * R)
        r, root = lib.sqrt(square), lib.sqrt(lib.maximum(square - R * R, TINY * TINY))
        out, round_ = (p[0] / r, p[1] / r), (-p[1] / r, p[0] / r)
        along = sign * sigma * R
        gradients.append((root / r * out[0] + along / r * round_[0], root / r * out[1] + along / r * round_[1]))
        mixed = _sum(_outer(out, round_), _outer(round_, out))
        blocks.append(_sum(_times(R * R / (square * root), _outer(out, out)), _times(root / square, _outer(round_, round_)), _times(-along / square, mixed)))
        length, free = length + root, free - lib.arccos(lib.clip(R / r, -1.0, 1.0))
    none = _times(0.0 * turn, blocks[0])
    length = length + R * lib.mod(free, 2.0 * np.pi)
    return _Plane(length, gradients[0], gradients[1], blocks[0], none, blocks[1], touches)


def _ring(a: Two, b: Two, R: Any) -> _Plane:
    """Through the circle, touching it inside."""
    lib = al.library(a[0])
    ra, rb = (lib.maximum(lib.sqrt(_dot(p, p)), TINY) for p in (a, b))
    d, part, dd = _nearest(a, b, lib)
    near = a[0] + part * d[0], a[1] + part * d[1]
    through = (dd > TINY) & (part > 0.0) & (part < 1.0) & (_dot(near, near) <= R * R)
    angle = lib.arctan2(lib.abs(_cross(a, b)), _dot(a, b))
    touches = ~((ra <= R) | (rb <= R) | through | (angle > np.pi - 1e-7))
    A, B = (lib.where(touches, R / r, 0.5) for r in (ra, rb))
    G = lib.where(touches, angle, 0.5)
    z = BEGIN + 0.0 * G
    for _ in range(STEPS):
        f = lib.arcsin(A * z) + lib.arcsin(B * z) - 2.0 * lib.arcsin(z) + G
        slope = A / lib.sqrt(1.0 - (A * z) ** 2) + B / lib.sqrt(1.0 - (B * z) ** 2) - 2.0 / lib.sqrt(1.0 - z * z)
        z = lib.clip(z - f / slope, 0.0, BEGIN)
    first = _cross(a, b) > 0.0
    turn = lib.arcsin(z) - lib.where(first, lib.arcsin(A * z), lib.arcsin(B * z))
    begin = tuple(lib.where(first, x / ra, y / rb) for x, y in zip(a, b, strict=True))
    t = R * (lib.cos(turn) * begin[0] - lib.sin(turn) * begin[1]), R * (lib.sin(turn) * begin[0] + lib.cos(turn) * begin[1])
    return _touched(a, b, t, R, touches)


def _touched(a: Two, b: Two, t: Two, R: Any, touches: Any) -> _Plane:
    """From a to t on the circle, and on to b."""
    lib = al.library(a[0])
    along, length, curve, parts = (-t[1], t[0]), 0.0, 0.0, []
    for p in (a, b):
        v = p[0] - t[0], p[1] - t[1]
        l = lib.maximum(lib.sqrt(_dot(v, v)), TINY)
        u = v[0] / l, v[1] / l
        across = u[1] * (u[1] * along[0] - u[0] * along[1]), -u[0] * (u[1] * along[0] - u[0] * along[1])  # (1 - uu') along
        length, curve = length + l, curve + (R * R + _dot(v, t) - _dot(u, along) ** 2) / l
        parts.append((u, _times(1.0 / l, _outer((u[1], -u[0]), (u[1], -u[0]))), (-across[0] / l, -across[1] / l)))
    (ua, Ha, ta), (ub, Hb, tb) = parts
    curve = lib.where(touches, curve, 1.0)
    aa, ab, bb = (_times(-1.0 / curve, _outer(x, y)) for x, y in ((ta, ta), (ta, tb), (tb, tb)))
    return _Plane(length, ua, ub, _sum(Ha, aa), ab, _sum(Hb, bb), touches)


# -- in space --------------------------------------------------------------------------------------------------------------------------


def _around_cylinder(inside: bool, a: al.Vector, b: al.Vector, side: al.Vector | None, R: Any) -> Way:
    lib = al.library(a[0])
    near = None if side is None else _unit((side[0], side[1]), lib)
    p = _ring(a[:2], b[:2], R) if inside else _around(a[:2], b[:2], near, R)
    rise = b[2] - a[2]
    length = lib.sqrt(lib.maximum(p.length * p.length + rise * rise, TINY * TINY))
    ga, gb = (tuple(p.length / length * x for x in g) for g in (p.a, p.b))
    ga, gb = (*ga, -rise / length), (*gb, rise / length)
    flat = {"a": (*p.a, 0.0 * rise), "b": (*p.b, 0.0 * rise)}
    up = {"a": -1.0, "b": 1.0}
    whole = {"a": ga, "b": gb}

    def block(x: str, y: str, plane: tuple) -> tuple:
        """`(grad l2 grad l2' + l2 H + grad z grad z' - grad l grad l')/l`"""
        bent = tuple((*(p.length * e for e in row), 0.0 * rise) for row in plane)
        bent = (*bent, (0.0 * rise, 0.0 * rise, 0.0 * rise + up[x] * up[y]))
        return _times(1.0 / length, _sum(_outer(flat[x], flat[y]), bent, _times(-1.0, _outer(whole[x], whole[y]))))

    return Way(length, ga, gb, block("a", "a", p.aa), block("a", "b", p.ab), block("b", "b", p.bb), p.touches)


def _around_sphere(inside: bool, a: al.Vector, b: al.Vector, side: al.Vector | None, R: Any) -> Way:
    """In the plane of both points and the centre, with the axes e (towards a) and f; n is its normal. Out of the plane the gradient does not reach, but it turns with the plane."""
    lib = al.library(a[0])
    ra, rb = (lib.maximum(lib.sqrt(al.dot(p, p)), TINY) for p in (a, b))
    e = al.scale(1.0 / ra, a)
    normal = al.cross(a, b)
    sine = lib.sqrt(al.dot(normal, normal))
    flat = sine < TINY
    other = _any_normal(e, lib)
    n = tuple(lib.where(flat, y, x / lib.where(flat, 1.0, sine)) for x, y in zip(normal, other, strict=True))
    f = al.cross(n, e)  # type: ignore[arg-type]
    pa, pb = (ra, 0.0 * ra), (al.dot(b, e), al.dot(b, f))
    near = None if side is None else _unit((al.dot(side, e), al.dot(side, f)), lib)
    p = _ring(pa, pb, R) if inside else _around(pa, pb, near, R)

    def space(g: Two) -> al.Vector:
        return al.add(al.scale(g[0], e), al.scale(g[1], f))

    def block(plane: tuple) -> tuple:
        columns = [space(column) for column in zip(*plane, strict=True)]
        return _sum(_outer(columns[0], e), _outer(columns[1], f))

    # the plane turns about the centre when a point leaves it: with l a function of r_a, r_b and the angle t between them, `d2l/dn2 = (dl/dr_a + cot t l_t/r_a)/r_a` and `-l_t/(r_a r_b sin t)`
    t = lib.arctan2(pb[1], pb[0])
    wide = lib.where(lib.abs(lib.sin(t)) < 1e-12, 1.0, lib.sin(t))
    by_angle = -p.a[1] * ra
    out = {
        "aa": (p.a[0] + by_angle * lib.cos(t) / (wide * ra)) / ra,
        "bb": (_along(p.b, pb, rb) + by_angle * lib.cos(t) / (wide * rb)) / rb,
        "ab": -by_angle / (wide * ra * rb),
    }
    turned = _outer(n, n)
    aa, ab, bb = (_sum(block(x), _times(out[key], turned)) for key, x in (("aa", p.aa), ("ab", p.ab), ("bb", p.bb)))
    return Way(p.length, space(p.a), space(p.b), aa, ab, bb, p.touches)


def _along(g: Two, p: Two, r: Any) -> Any:
    """The part of a gradient along its point."""
    return _dot(g, p) / r


def _any_normal(e: al.Vector, lib: Any) -> al.Vector:
    """A direction across e, where two points and the centre lie on a line."""
    x = lib.abs(e[0]) < 0.6
    helper = (lib.where(x, 1.0, 0.0), lib.where(x, 0.0, 1.0), 0.0 * e[0])
    n = al.cross(e, helper)
    return al.scale(1.0 / lib.sqrt(al.dot(n, n)), n)
