"""Constraint rows between two links a and b at one node: points that coincide, directions that stay perpendicular, points on a line.

    Point          g = p_a - p_b               (3 rows, world axes)
    Perpendicular  g = d_a . d_b               (1 row)
    Inline         g = (p_b - p_a) . d_a       (1 row)

For multipliers `lambda` the constraint force is the wrench `G' lambda` on each link; its change with the links' twists is the 12x12
block `K = d(G' lambda)/d(twist_a, twist_b)`. All three are bilinear in the poses, so everything is closed form:

    Point:          W_a = (p_a x l, l),  W_b = -(p_b x l, l)
    Perpendicular:  W_a = (l d_a x d_b, 0) = -W_b
    Inline:         W_b = l (p_b x d_a, d_a) = -W_a
"""

from __future__ import annotations

from typing import Any

from calibody.spatial import algebra as al

E3 = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def _outer(a: al.Vector, b: al.Vector) -> tuple:
    return tuple(tuple(x * y for y in b) for x in a)


def force_turned(p: al.Vector, f: al.Vector) -> tuple:
    """The 3x6 map from a twist to the change of `p x f` when p moves with the link: `(v + w x p) x f`."""
    pf = al.dot(p, f)
    outer = _outer(p, f)
    ww = tuple(tuple(outer[i][j] - (pf if i == j else 0.0) for j in range(3)) for i in range(3))
    zero = 0.0 * pf
    x, y, z = f
    wv = ((zero, z, -y), (-z, zero, x), (y, -x, zero))  # v x f
    return tuple((*a, *b) for a, b in zip(ww, wv, strict=True))


def point_value(Ha: al.Pose, Hb: al.Pose, data: Any) -> tuple:
    return al.sub(al.point(Ha, tuple(data[:3])), al.point(Hb, tuple(data[3:])))  # type: ignore[arg-type]


def point_rows(Ha: al.Pose, Hb: al.Pose, data: Any) -> tuple:
    """For each of the 3 rows the 12 numbers (wrench on a, wrench on b)."""
    pa, pb = al.point(Ha, tuple(data[:3])), al.point(Hb, tuple(data[3:]))  # type: ignore[arg-type]
    zero = 0.0 * pa[0]
    rows = []
    for e in E3:
        f = tuple(x + zero for x in e)
        rows.append((*al.cross(pa, f), *f, *al.scale(-1.0, al.cross(pb, f)), *al.scale(-1.0, f)))  # type: ignore[arg-type]
    return tuple(rows)


def point_turned(Ha: al.Pose, Hb: al.Pose, data: Any, force: Any) -> tuple[tuple, tuple]:
    """The upper halves (torque rows, 3x6) of the blocks a-a and b-b; there are no others."""
    pa, pb = al.point(Ha, tuple(data[:3])), al.point(Hb, tuple(data[3:]))  # type: ignore[arg-type]
    f = tuple(force)
    return force_turned(pa, f), force_turned(pb, al.scale(-1.0, f))  # type: ignore[arg-type]


def perpendicular_value(Ha: al.Pose, Hb: al.Pose, data: Any) -> Any:
    return al.dot(al.direction(Ha, tuple(data[:3])), al.direction(Hb, tuple(data[3:])))  # type: ignore[arg-type]


def perpendicular_row(Ha: al.Pose, Hb: al.Pose, data: Any) -> tuple:
    """The torque on a (that on b is its opposite)."""
    return al.cross(al.direction(Ha, tuple(data[:3])), al.direction(Hb, tuple(data[3:])))  # type: ignore[arg-type]


def perpendicular_turned(Ha: al.Pose, Hb: al.Pose, data: Any, force: Any) -> tuple[tuple, tuple]:
    """Change of the torque on a with the turns of a and of b (3x3 each); that on b is the opposite."""
    da, db = al.direction(Ha, tuple(data[:3])), al.direction(Hb, tuple(data[3:]))  # type: ignore[arg-type]
    product = al.dot(da, db)
    ab, ba = _outer(da, db), _outer(db, da)
    by_a = tuple(tuple(force * (ab[i][j] - (product if i == j else 0.0)) for j in range(3)) for i in range(3))
    by_b = tuple(tuple(force * ((product if i == j else 0.0) - ba[i][j]) for j in range(3)) for i in range(3))
    return by_a, by_b


def inline_value(Ha: al.Pose, Hb: al.Pose, data: Any) -> Any:
    pa, d, pb = al.point(Ha, tuple(data[:3])), al.direction(Ha, tuple(data[3:6])), al.point(Hb, tuple(data[6:]))  # type: ignore[arg-type]
    return al.dot(al.sub(pb, pa), d)


def inline_row(Ha: al.Pose, Hb: al.Pose, data: Any) -> tuple:
    """The wrench on b (that on a is its opposite)."""
    return line_wrench(al.point(Hb, tuple(data[6:])), al.direction(Ha, tuple(data[3:6])))  # type: ignore[arg-type]


def line_wrench(p: al.Vector, d: al.Vector) -> tuple:
    """A unit force along d at the point p."""
    return (*al.cross(p, d), *d)


def line_wrench_turned(p: al.Vector, d: al.Vector, force: Any) -> tuple[tuple, tuple]:
    """Change of `force * line_wrench` with the twist of the link that carries p (torque rows only, 3x6), and of that which carries d (6x3,
    by its turn `w`: `d -> w x d`)."""
    by_point = force_turned(p, al.scale(force, d))
    pd = al.dot(p, d)
    dp = _outer(d, p)
    # p x (w x d) = w (p . d) - d (p . w)
    upper = tuple(tuple(force * ((pd if i == j else 0.0) - dp[i][j]) for j in range(3)) for i in range(3))
    zero = 0.0 * pd
    x, y, z = al.scale(force, d)
    lower = ((zero, z, -y), (-z, zero, x), (y, -x, zero))  # w x d
    return by_point, (*upper, *lower)
