"""How wrenches and points change with twists: what several element types share."""

from __future__ import annotations

from typing import Any

from calibody.spatial import algebra as al


def outer(a: al.Vector, b: al.Vector) -> tuple:
    return tuple(tuple(x * y for y in b) for x in a)


def negative(block: tuple) -> tuple:
    return tuple(tuple(-x for x in row) for row in block)


def spin(a: al.Vector) -> tuple:
    """The 3x3 map `w -> w x a`."""
    zero = 0.0 * a[0]
    x, y, z = a
    return ((zero, z, -y), (-z, zero, x), (y, -x, zero))


def moved(p: al.Vector) -> tuple:
    """The 3x6 map from a twist to the motion of the point p: `w x p + v`."""
    zero = 0.0 * p[0]
    one = zero + 1.0
    a, b, c = spin(p)
    return ((*a, one, zero, zero), (*b, zero, one, zero), (*c, zero, zero, one))


def force_turned(p: al.Vector, f: al.Vector) -> tuple:
    """The 3x6 map from a twist to the change of `p x f` when p moves with the link: `(v + w x p) x f`."""
    pf = al.dot(p, f)
    by_turn = tuple(tuple(x - (pf if i == j else 0.0) for j, x in enumerate(row)) for i, row in enumerate(outer(p, f)))
    return tuple((*a, *b) for a, b in zip(by_turn, spin(f), strict=True))


def line_wrench(p: al.Vector, d: al.Vector) -> tuple:
    """A unit force along d at the point p."""
    return (*al.cross(p, d), *d)


def line_wrench_turned(p: al.Vector, d: al.Vector, force: Any) -> tuple[tuple, tuple]:
    """Change of `force * line_wrench` with the twist of the link that carries p (torque rows only, 3x6), and of that which carries d (6x3,
    by its turn `w`: `d -> w x d`)."""
    by_point = force_turned(p, al.scale(force, d))
    pd = al.dot(p, d)
    # p x (w x d) = w (p . d) - d (p . w)
    upper = tuple(tuple(force * ((pd if i == j else 0.0) - x) for j, x in enumerate(row)) for i, row in enumerate(outer(d, p)))
    return by_point, (*upper, *spin(al.scale(force, d)))
