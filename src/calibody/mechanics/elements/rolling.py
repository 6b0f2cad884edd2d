"""What rolls or glides without slipping: rows on velocities that are no derivative of rows on places.

**Knife edge** (a skate, the rear wheel of a car): the point p of body a does not move along the direction d fixed in a,

    phi = (d_L + d_R)/2 . (p_R - p_L)

**Rolling** (a disc of radius r, its centre c and its axle a in the body, on a plane with the normal n): what touches the plane is the lowest point `x = c - r u` of the rim, u the direction in the disc nearest
to n. It is on the plane, and as a point of the body it stands still:

    g   = (c - p) . n - r n . u                                                    one row on places, p a point of the plane
    phi = t . [(c_R - c_L) - r log(R_R R_L') x u_m]                                 for two directions t in the plane

with `u = (n - (n . a) a)/s`, `s = |n - (n . a) a| = n . u`, and u_m that of the mean axle: the displacement over an interval of the point that touches in its middle. Rolling straight at a constant rate is exact.

The multipliers are the forces of node k, at p along d, and at x along n and t (discrete Lagrange-d'Alembert, second order because phi is symmetric in time). Their work over an interval vanishes up to the scheme's order.
With `da = w x a` and `P = 1 - a a'` for the mean axle `a = (a_L + a_R)/|a_L + a_R|`,

    du = [-(n . a) da - (n . da) a + u (n . a)(n . da)/s]/s
    d log(R_R R_L') = Jl^-1 w_R - Jr^-1 w_L
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibody.mechanics.elements.ball import inverse_right_jacobian
from calibody.mechanics.elements.base import ALONE, Blocks, Constraint, Ends, Measure, Poses, VelocityConstraint
from calibody.mechanics.elements.push import no_value, own_force, own_force_turned, place
from calibody.mechanics.elements.wrenches import line_wrench, moved, negative, outer, spin
from calibody.model.elements import KNIFE, ROLLING
from calibody.spatial import algebra as al

FLAT = 1e-9
"""Sine of the angle between axle and normal below which a disc lies flat and has no lowest point: it touches under its centre then."""

# -- knife edge ------------------------------------------------------------------------------------------------------------------------


def knife_slip(left: Poses, right: Poses, data: Any) -> tuple:
    (p, d), (q, e) = place(left, data), place(right, data)
    return (al.dot(al.scale(0.5, al.add(d, e)), al.sub(q, p)),)


def knife_slip_by(left: Poses, right: Poses, data: Any) -> tuple[tuple, tuple]:
    """By the twists at both ends: the points move, the directions turn (`w . (d x step)`)."""
    (p, d), (q, e) = place(left, data), place(right, data)
    mean, step = al.scale(0.5, al.add(d, e)), al.sub(q, p)

    def by(point: al.Vector, own: al.Vector, sign: float) -> tuple:
        row = tuple(sign * x for x in _across(mean, moved(point)))
        turn = al.scale(0.5, al.cross(own, step))
        return ((*(x + y for x, y in zip(row[:3], turn, strict=True)), *row[3:]),)

    return by(p, d, -1.0), by(q, e, 1.0)


def _across(v: al.Vector, matrix: tuple) -> tuple:
    """`v' M`."""
    return tuple(sum(x * row[j] for x, row in zip(v, matrix, strict=True)) for j in range(len(matrix[0])))


def knife_numbers(ends: Ends, which: Any) -> Sequence[float]:
    return [*ends.point_a, *ends.axes_a[:, 1]]


KNIFE_EDGE = VelocityConstraint(
    "knife edge", Measure(1, ALONE, no_value, own_force, own_force_turned, apart=True), {KNIFE: (None,)}, knife_numbers, knife_slip, knife_slip_by, "N"
)

# -- rolling ---------------------------------------------------------------------------------------------------------------------------


def _disc(poses: Poses, data: Any) -> tuple[al.Vector, al.Vector]:
    """Centre and axle."""
    return al.point(poses[0], tuple(data[:3])), al.direction(poses[0], tuple(data[3:6]))  # type: ignore[arg-type]


def _upward(a: al.Vector, n: al.Vector) -> tuple[al.Vector, Any, Any]:
    """u, s and n . a."""
    tilt = al.dot(n, a)
    v = al.sub(n, al.scale(tilt, a))
    lib = al.library(v[0])
    s = lib.sqrt(lib.maximum(al.dot(v, v), FLAT * FLAT))
    return al.scale(1.0 / s, v), s, tilt


def _upward_by(a: al.Vector, n: al.Vector, u: al.Vector, s: Any, tilt: Any) -> tuple:
    """The 3x3 map from da to du."""
    bend = al.scale(1.0 / s, al.sub(al.scale(tilt / s, u), a))  # what n . da does, beside -(n . a) da/s
    return tuple(tuple(x - (tilt / s if i == j else 0.0) for j, x in enumerate(row)) for i, row in enumerate(outer(bend, n)))


def _touching(poses: Poses, data: Any) -> tuple[al.Vector, tuple]:
    """x, and the 3x6 map from the link's twist to its change: `dc - r du`."""
    c, a = _disc(poses, data)
    n, r = _plane(data, 9), data[15]
    u, s, tilt = _upward(a, n)
    turning = al.matmul(_upward_by(a, n, u, s, tilt), spin(a))
    reach = tuple((*(x - r * y for x, y in zip(row[:3], t, strict=True)), *row[3:]) for row, t in zip(moved(c), turning, strict=True))
    return al.sub(c, al.scale(r, u)), reach


def _plane(data: Any, first: int) -> al.Vector:
    return tuple(data[first : first + 3])  # type: ignore[return-value]


def height(poses: Poses, data: Any) -> tuple:
    c, a = _disc(poses, data)
    n = _plane(data, 9)
    return (al.dot(al.sub(c, _plane(data, 6)), n) - data[15] * _upward(a, n)[1],)


def _along(poses: Poses, data: Any, directions: Sequence[int]) -> tuple:
    x, zero = _touching(poses, data)[0], 0.0 * poses[0][0][0]
    return tuple((line_wrench(x, tuple(d + zero for d in _plane(data, k))),) for k in directions)  # type: ignore[arg-type]


def _along_turned(poses: Poses, data: Any, force: al.Vector) -> Blocks:
    """`dx x f`."""
    _, reach = _touching(poses, data)
    return {(0, 0): al.matmul(spin(force), reach)}


def normal(poses: Poses, data: Any) -> tuple:
    return _along(poses, data, (9,))


def normal_turned(poses: Poses, data: Any, force: Any) -> Blocks:
    return _along_turned(poses, data, al.scale(force[0], _plane(data, 9)))


def tangents(poses: Poses, data: Any) -> tuple:
    return _along(poses, data, (12, 16))


def tangents_turned(poses: Poses, data: Any, force: Any) -> Blocks:
    return _along_turned(poses, data, al.add(al.scale(force[0], _plane(data, 12)), al.scale(force[1], _plane(data, 16))))


def no_values(poses: Poses, data: Any) -> tuple:
    return (0.0 * poses[0][0][0],) * 2


def _rolled(left: Poses, right: Poses, data: Any) -> tuple[al.Vector, al.Vector, al.Vector]:
    """`(c_R - c_L) - r log x u_m`, the rotation vector, and u_m."""
    (c, a), (e, b) = _disc(left, data), _disc(right, data)
    turn = al.matrix_log(al.matmul(al.rotation_part(right[0]), al.transpose(al.rotation_part(left[0]))))
    u, _, _ = _upward(_mean(a, b)[0], _plane(data, 9))
    return al.sub(al.sub(e, c), al.scale(data[15], al.cross(turn, u))), turn, u


def _mean(a: al.Vector, b: al.Vector) -> tuple[al.Vector, Any]:
    """The direction between two, and the length of their sum."""
    both = al.add(a, b)
    length = al.library(both[0]).sqrt(al.dot(both, both))
    return al.scale(1.0 / length, both), length


def slip(left: Poses, right: Poses, data: Any) -> tuple:
    moved_by = _rolled(left, right, data)[0]
    return tuple(al.dot(_plane(data, k), moved_by) for k in (12, 16))


def slip_by(left: Poses, right: Poses, data: Any) -> tuple[tuple, tuple]:
    (c, a), (e, b) = _disc(left, data), _disc(right, data)
    _, turn, u = _rolled(left, right, data)
    n, r = _plane(data, 9), data[15]
    axle, length = _mean(a, b)
    u_by = _upward_by(axle, n, *_upward(axle, n))
    square = tuple(tuple(((1.0 if i == j else 0.0) - x) / length for j, x in enumerate(row)) for i, row in enumerate(outer(axle, axle)))

    def by(centre: al.Vector, own: al.Vector, logarithm: tuple, sign: float) -> tuple:
        """`sign (w x c + v) - r (dlog x u + log x du)`."""
        by_axle = al.matmul(al.matmul(u_by, square), spin(own))
        # [log x] = -spin(log), [x u] = spin(u)
        turned = tuple(al.sub(x, y) for x, y in zip(al.matmul(spin(u), logarithm), al.matmul(spin(turn), by_axle), strict=True))
        rows = tuple(
            (*(sign * x - r * y for x, y in zip(m[:3], t, strict=True)), *(sign * x for x in m[3:])) for m, t in zip(moved(centre), turned, strict=True)
        )
        return tuple(_across(_plane(data, k), rows) for k in (12, 16))

    return by(c, a, negative(inverse_right_jacobian(turn)), -1.0), by(e, b, inverse_right_jacobian(turn, -1.0), 1.0)


def numbers(ends: Ends, which: Any) -> Sequence[float]:
    """Centre and axle in the body; a point of the plane, its normal, one direction in it; the radius; the other direction."""
    x, y, z = ends.axes_b.T
    return [*ends.point_a, *ends.axes_a[:, 2], *ends.point_b, *z, *x, ends.source.length, *y]


HEIGHT = Constraint("rolling height", Measure(1, ALONE, height, normal, normal_turned, apart=True), {ROLLING: (None,)}, numbers, "N")
ROLLS = VelocityConstraint("rolling", Measure(2, ALONE, no_values, tangents, tangents_turned, apart=True), {ROLLING: (None,)}, numbers, slip, slip_by, "N")
