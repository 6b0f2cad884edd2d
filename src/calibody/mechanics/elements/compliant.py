"""Contact that gives way: a force between two links from how far their shapes overlap and how they slip, one type for every kernel of `shapes.py`.

Over an interval from L to R, with the gap g, the normal n and the place x of contact on a (`shapes.py`) at both ends, mean m = (L + R)/2,

    p = -g_m,   p' = -(g_R - g_L)/h,   N = f(p) damped(d p'),   damped(y) = 1 + y closing (y > 0), 1/(1 - y) opening: never below zero
    f = k p^e (1 - c p/r),  c = (e - 1)/(e + 1),  up to p = r, and from there on straight on with its slope k r^(e-1);   r = 0: k p^e

For e = 2 this is the sphere of radius r that is pressed into a surface, `k (p^2 - p^3/(3 r))` and `k r (p - r/3)`; e = 3/2 is Hertz. The slip is that of the material points at the mean
place x_m, with the turn theta of a link over the interval and the displacement of its origin o,

    v = (o_R - o_L)/h + theta/h x (x_m - o_m)  of a, less that of b;   v_t = v - n (n . v), n the direction of n_L + n_R;   F_t = -N (mu/sqrt(|v_t|^2 + v_0^2) + c_v) v_t

Links a and b receive at both ends the opposite wrenches of the force `N n + F_t` at x, so that momentum is kept exactly; of second order, as all interval forces. Everything is
differentiated in closed form: by the twists of the links at L and R through g, n, x (`curvature.py`) and v, by numbers of shapes through g, n and x, by the law's own directly.

Arrays: (components, m, ...), m elements; twists and other columns after the components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from calibody.mechanics import curvature, shapes
from calibody.mechanics.contact import Spot, spots_of
from calibody.mechanics.curvature import cross
from calibody.mechanics.elements.ball import inverse_right_jacobian
from calibody.mechanics.shapes import Pose, Touch
from calibody.model import Model
from calibody.spatial import algebra as al

LAW = ("stiffness", "exponent", "depth", "damping", "friction", "friction_rate", "viscous")
Pair = tuple[Pose, Pose]


class Pressed(NamedTuple):
    """A normal force and its derivatives."""

    force: Any
    by_depth: Any
    by_rate: Any
    by_law: tuple[Any, Any, Any, Any]
    """By stiffness, exponent, depth and damping."""


class Exchange(NamedTuple):
    """What two links do to each other over an interval."""

    impulses: tuple[Any, Any]
    """`-(h/2)` times the wrenches on a at L and R, (6, m, ...); b receives the opposite."""
    force: Any
    """(3, m, ...) on a."""
    normal: Any
    ends: tuple[tuple[Pose, Pose, Touch], ...]
    pressed: Pressed
    n: Any
    """The mean normal."""
    sum_length: Any
    """|n_L + n_R|"""
    v: Any
    turning: Any
    """(3, m, ...): by how much a turns faster than b."""
    slip: Any
    rubbing: Any
    """F_t = -N rubbing slip."""
    fading: Any
    """How rubbing changes, over the slip: d rubbing = -fading slip . d slip."""
    h: Any


@dataclass(frozen=True)
class Type:
    """All places of one kernel."""

    name: str
    kernel: str

    def exchange(self, left: Pair, right: Pair, data: Any, h: Any) -> Exchange:
        shape, law = data[: -len(LAW)], data[-len(LAW) :]
        ends = tuple((a, b, shapes.KERNELS[self.kernel](a, b, shape)) for a, b in (left, right))
        (aL, bL, L), (aR, bR, R) = ends
        lib = al.library(L.gap)
        pressed = press(-0.5 * (L.gap + R.gap), (L.gap - R.gap) / h, law)
        both = L.normal + R.normal
        length = lib.sqrt((both * both).sum(0))
        n, x = both / length, 0.5 * (L.at_a + R.at_a)
        (va, wa), (vb, wb) = (_motion(*link, x, h) for link in ((aL, aR), (bL, bR)))
        v = va - vb
        slip = v - n * (n * v).sum(0)
        speed2 = (slip * slip).sum(0) + law[5] ** 2
        speed = lib.sqrt(speed2)
        rubbing = law[4] / speed + law[6]
        tangential = -pressed.force * rubbing * slip
        impulses = tuple(-0.5 * h * _wrench(t.at_a, pressed.force * t.normal + tangential) for t in (L, R))
        force = pressed.force * n + tangential
        return Exchange(impulses, force, pressed.force, ends, pressed, n, length, v, wa - wb, slip, rubbing, law[4] / (speed2 * speed), h)  # type: ignore[arg-type]

    def by_twists(self, found: Exchange, data: Any, end: int) -> tuple[Any, Any]:
        """(6, 12, m, ...) of both impulses by the twists of a and b at one end."""
        a, b, touch = found.ends[end]
        dg, dn, dx = curvature.by_twists(self.kernel, a, b, data[: -len(LAW)], touch)
        x, lib = 0.5 * (found.ends[0][2].at_a + found.ends[1][2].at_a), al.library(dg)
        links = ((found.ends[0][0], found.ends[1][0]), (found.ends[0][1], found.ends[1][1]))
        dv = lib.concatenate([sign * _by_twist(*link, x, found.h, end) for link, sign in zip(links, (1.0, -1.0), strict=True)], axis=1)
        return self.by_end(found, end, dg, dn, dx, dv)

    def by_end(self, found: Exchange, end: int, dg: Any, dn: Any, dx: Any, dv: Any) -> tuple[Any, Any]:
        """Of both impulses by what changes gap (columns, m, ...), normal and place (3, columns, m, ...) at one end, and moves the links with dv while the place stays."""
        sign = 1.0 if end == 0 else -1.0
        dN = (-0.5 * found.pressed.by_depth + sign * found.pressed.by_rate / found.h) * dg
        n, across = found.n, curvature.across(found.n, dn)
        turned, dv = across / found.sum_length, dv + 0.5 * cross(found.turning, dx)
        dslip = curvature.across(n, dv) - turned * (n * found.v).sum(0) - n[:, None] * (turned * found.v[:, None]).sum(0)
        own, other = found.ends[end][2], found.ends[1 - end][2]
        dF = self._tangential(found, dN, -found.fading * (found.slip[:, None] * dslip).sum(0)) - found.normal * found.rubbing * dslip
        F = found.normal * own.normal - found.normal * found.rubbing * found.slip
        dF_own = own.normal[:, None] * dN + found.normal * dn + dF
        here, there = _wrench(own.at_a, dF_own), _wrench(other.at_a, other.normal[:, None] * dN + dF)
        lib = al.library(here)
        here = here + lib.concatenate([-cross(F, dx), 0.0 * dx])
        pair = (-0.5 * found.h * here, -0.5 * found.h * there)
        return pair if end == 0 else (pair[1], pair[0])

    def by_law(self, found: Exchange, data: Any, field: str) -> tuple[Any, Any]:
        """(6, 1, m, ...) of both impulses by one of the numbers of the law."""
        k, law = LAW.index(field), data[-len(LAW) :]
        none = 0.0 * found.normal
        dN = found.pressed.by_law[k] + none if k < 4 else none
        speed = ((found.slip * found.slip).sum(0) + law[5] ** 2) ** 0.5
        dc = {4: 1.0 / speed, 5: -law[4] * law[5] / speed**3, 6: 1.0 + none}.get(k, none)
        dF = self._tangential(found, dN[None], dc[None] + none)
        return tuple(-0.5 * found.h * _wrench(t.at_a, t.normal[:, None] * dN[None] + dF) for _, _, t in found.ends)  # type: ignore[return-value]

    def _tangential(self, found: Exchange, dN: Any, dc: Any) -> Any:
        """(3, columns, m, ...): of F_t by the normal force and the coefficient, the slip as it is."""
        return -found.slip[:, None] * (found.rubbing * dN + found.normal * dc)

    def energy(self, at: Pair, data: Any) -> Any:
        """(m, ...): the integral of f."""
        return stored(-shapes.KERNELS[self.kernel](*at, data[: -len(LAW)]).gap, data[-len(LAW) :])


def _wrench(x: Any, F: Any) -> Any:
    """A force at a place; either may have columns."""
    F = F + 0.0 * (x if F.ndim == x.ndim else x[:, None])
    return al.library(F).concatenate([cross(x, F), F])


def _motion(left: Pose, right: Pose, x: Any, h: Any) -> tuple[Any, Any]:
    """Mean velocity of the point of a link that is at x, and how fast the link turns."""
    turn = _turn(left, right) / h
    return (right.o - left.o) / h + cross(turn, x - 0.5 * (left.o + right.o)), turn


def _turn(left: Pose, right: Pose) -> Any:
    between = al.matmul(_rows(right.R), al.transpose(_rows(left.R)))
    return al.library(left.o).stack(al.matrix_log(between))  # type: ignore[arg-type]


def _rows(R: Any) -> al.Matrix:
    return tuple(tuple(R[i, j] for j in range(3)) for i in range(3))  # type: ignore[return-value]


def _by_twist(left: Pose, right: Pose, x: Any, h: Any, end: int) -> Any:
    """(3, 6, m, ...): of the velocity of the point at x, which stays, by the twist of the link at one end."""
    lib = al.library(left.o)
    theta = _turn(left, right)
    J = inverse_right_jacobian(tuple(theta), 1.0 if end == 0 else -1.0)  # type: ignore[arg-type]
    sign = -1.0 if end == 0 else 1.0
    by_turn = sign / h * lib.stack([lib.stack([y + 0.0 * theta[0] for y in row]) for row in J])  # of theta/h by w
    arm, own = x - 0.5 * (left.o + right.o), curvature.moved((left, right)[end].o)
    turned = -cross(arm, by_turn)
    return sign / h * own - 0.5 * cross(theta / h, own) + lib.concatenate([turned, 0.0 * turned], axis=1)


def _parts(depth: Any, r: Any) -> tuple[Any, Any, Any]:
    """The parts of the penetration within and beyond the depth, and 1/depth (0: none)."""
    lib = al.library(depth)
    p = lib.maximum(depth, 0.0)
    limited = r > 0.0
    inner = lib.where(limited, lib.minimum(p, r), p)
    return inner, p - inner, lib.where(limited, 1.0 / lib.where(limited, r, 1.0), 0.0)


def press(depth: Any, rate: Any, law: Any) -> Pressed:
    """N of the law's numbers."""
    k, e, r, d = law[:4]
    lib = al.library(depth)
    inner, over, s = _parts(depth, r)
    touching = inner > 0.0
    q = lib.where(touching, inner, 1.0)
    c, power, log = (e - 1.0) / (e + 1.0), lib.where(touching, q**e, 0.0), lib.log(q)
    slope = k * power / q  # k q^(e-1)
    f = k * power * (1.0 - c * inner * s) + slope * over
    f_p = lib.where(over > 0.0, slope, e * slope * (1.0 - (e - 1.0) / e * inner * s))
    y = d * rate
    closing = y > 0.0
    damped = lib.where(closing, 1.0 + y, 1.0 / (1.0 - lib.where(closing, 0.0, y)))
    steep = lib.where(closing, 1.0, damped * damped)
    f_k = power * (1.0 - c * inner * s) + power / q * over
    f_e = k * power * (log * (1.0 - c * inner * s) - 2.0 / (e + 1.0) ** 2 * inner * s) + slope * log * over
    beyond = slope * ((e - 1.0) / (e + 1.0) + (e - 1.0) * over / q)
    f_r = lib.where(over > 0.0, beyond, k * power * c * inner * s * s)
    return Pressed(f * damped, f_p * damped, f * steep * d, (f_k * damped, f_e * damped, f_r * damped, f * steep * rate))


def stored(depth: Any, law: Any) -> Any:
    """The integral of f."""
    k, e, r = law[:3]
    inner, over, s = _parts(depth, r)
    c = (e - 1.0) / (e + 1.0)
    return k * inner ** (e + 1.0) * (1.0 / (e + 1.0) - c * inner * s / (e + 2.0)) + k * over * inner ** (e - 1.0) * (2.0 / (e + 1.0) * inner + 0.5 * over)


# -- from the model --------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def type_of(kernel: str) -> Type:
    return Type(f"contact:{kernel}", kernel)


def groups_of(model: Model) -> dict[Type, list[Spot]]:
    """The places of all compliant contacts by type."""
    found = [spot for i, contact in enumerate(model.contacts) if contact.compliant for spot in spots_of(model, i, contact)]
    return {type_of(kernel): own for kernel in curvature.BY_FIRST if (own := [s for s in found if s.kernel == kernel])}


def numbers_of(model: Model, spot: Spot) -> Sequence[float]:
    """`data` of a place: of its shapes, then of its law."""
    contact = model.contacts[spot.owner]
    return [*spot.data, *(getattr(contact, field) for field in LAW)]


def shapes_of(model: Model) -> set[tuple[str, str]]:
    """Kind and name of what touches compliantly: geometries, sites, the contacts themselves, and the world where it is the ground."""
    out: set[tuple[str, str]] = set()
    for contact in model.contacts:
        if contact.compliant:
            out.add(("contact", contact.name))
            for name in (contact.a, contact.b):
                known = next((kind for kind in ("geometry", "site") if name in model.tables[kind]), None)
                out.add((known, name) if known else ("world", ""))
    return out
