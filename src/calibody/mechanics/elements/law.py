"""The law of a joint, a transmission or a path on its coordinate `s` over one interval: spring, damper, dry friction, armature.

    t = -k y(s_m - s_0) - b rho - (c + c_s exp(-(rho/r)^2)) share(rho) - b' rho share(rho) - c' share(rho)^2
    s_m = (s_L + s_R)/2,   rho = (s_R - s_L)/h
    contribution at L:  J_a rho - (h/2) t,   at R:  -J_a rho - (h/2) t

The same scalars in `tree` (where `s` is a coordinate) and in `free` (where `s` is measured between two links): one scheme.
y is the deflection beyond the play of a transmission, without play the deflection itself: with half the play p and w = `ROUND` p

    y(x) = (x - p + sqrt((x - p)^2 + w^2))/2 + (x + p - sqrt((x + p)^2 + w^2))/2

b' and c' are the skews: where the share is full, friction and damping are c + c' and b + b' in the positive direction, c - c' and b - b' in the negative one.

Closed-form derivatives throughout. The share of its full size that dry friction has at a rate is a ramp that bends into the full size: with the width w, x = |rho|/w,
e = BEND and the slope m = 1/(1 - e/2),

    share = sign(rho) * (m x   for x <= 1 - e;   1 - m (1 - x)^2/(2 e)   up to x = 1;   1 beyond)

Its slope is continuous: nothing jumps from piece to piece, and steps of Newton and Gauss converge (a ramp with corners, `clip(rho/delta, -1, 1)`, sends fits round between its pieces).
Friction that is soft by itself has a width of its own, `joint.X.friction_rate` (engines, whose friction is a soft constraint and creeps below its limit; lubricated bearings; belts),
which can be estimated. Sharp friction has the width m delta, and so the slope 1/delta at rest: `delta` is a rate that the method chooses, below which it is viscous (DESIGN section 3).
(Laws with tails, `rho/sqrt(rho^2 + delta^2)` or a hyperbolic tangent, trade width with c and b: on data of an engine, which clips, they moved c by 3 to 10 %, the ramp by less than 0.3 %.)
Where the likelihood of a motion is made of derivatives of its equations (`smooth`), sharp friction is taken as `rho/sqrt(rho^2 + delta^2)`, which has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibody.mechanics.elements.base import CoordinateForce, Setting
from calibody.model import Model
from calibody.model.elements import FREE
from calibody.spatial import algebra as al

LAW = ("stiffness", "springref", "damping", "friction", "friction_rate", "stribeck", "stribeck_rate", "armature", "damping_skew", "friction_skew", "backlash")
# Corners of play are rounded over this part of half of it: inside, half a percent of the stiffness is left.
ROUND = 0.1


def _corners(x: Any, play: Any) -> tuple[Any, ...]:
    """x - p, x + p, the roots of both, and w."""
    lib, p = al.library(x), 0.5 * play
    a, b, w = x - p, x + p, ROUND * p
    return a, b, lib.sqrt(a * a + w * w), lib.sqrt(b * b + w * w), w


def beyond(x: Any, play: Any) -> tuple[Any, Any]:
    """y and its derivative."""
    lib = al.library(x)
    if lib is np and not np.any(play):
        return x, 1.0 + 0.0 * x
    a, b, ra, rb, _ = _corners(x, play)
    loose = play > 0.0
    slope = 1.0 + 0.5 * (a / lib.where(loose, ra, 1.0) - b / lib.where(loose, rb, 1.0))
    return lib.where(loose, x + 0.5 * (ra - rb), x), lib.where(loose, slope, 1.0)


def _beyond_by_play(x: Any, play: Any) -> Any:
    lib = al.library(x)
    a, b, ra, rb, w = _corners(x, play)
    ra, rb = lib.where(ra > 0.0, ra, 1.0), lib.where(rb > 0.0, rb, 1.0)
    return 0.25 * ((ROUND * w - a) / ra - (ROUND * w + b) / rb)


def strain(x: Any, play: Any) -> Any:
    """The integral of y from 0: the energy of a spring of stiffness 1."""
    lib = al.library(x)
    a, b, ra, rb, w = _corners(x, play)
    narrow = lib.where(w > 0.0, w, 1.0)
    return 0.5 * x * x + 0.25 * (a * ra - b * rb + w * w * (lib.arcsinh(a / narrow) - lib.arcsinh(b / narrow))) - _strain_at_rest(play, lib)


def _strain_at_rest(play: Any, lib: Any) -> Any:
    p = 0.5 * play
    w = ROUND * p
    return -0.5 * (p * lib.sqrt(p * p + w * w) + w * w * lib.arcsinh(p / lib.where(w > 0.0, w, 1.0)))


BEND = 0.3
"""Part of the width over which the ramp bends into the full size."""
STEEP = 1.0 / (1.0 - 0.5 * BEND)
"""Its slope at rest, in units of full size over width."""


def share(rho: Any, width: Any, delta: Any, smooth: bool = False) -> tuple[Any, Any]:
    """The share of its full size that dry friction has, and its derivative; a width of zero: that of sharp friction."""
    lib = al.library(rho)
    value, slope, _ = ramp(rho, lib.where(width > 0.0, width, STEEP * delta))
    if not smooth:
        return value, slope
    norm = lib.sqrt(rho * rho + delta * delta)
    return lib.where(width > 0.0, value, rho / norm), lib.where(width > 0.0, slope, delta * delta / (norm * norm * norm))


def ramp(rho: Any, width: Any) -> tuple[Any, Any, Any]:
    """The share of friction that acts in full from the rate `width` on, and its derivatives with respect to both."""
    lib = al.library(rho)
    x = lib.clip(rho / width, -1.0, 1.0)
    left = lib.clip(1.0 - lib.abs(x), 0.0, BEND)  # of the way through the bend
    value = lib.where(left < BEND, lib.sign(x) * (1.0 - 0.5 * STEEP / BEND * left * left), STEEP * x)
    slope = STEEP / BEND * left / width
    return value, slope, -x * slope


def force(sm: Any, rho: Any, p: Any, delta: Any, smooth: bool = False) -> tuple[Any, Any, Any]:
    """`t` without drives, and its derivatives with respect to `s_m` and `rho`; p as in `LAW`."""
    k, s0, b, c, width, cs, rate, _, b_skew, c_skew, play = p
    lib = al.library(rho)
    x = rho / rate
    bump = cs * lib.exp(-x * x)
    clipped, inside = share(rho, width, delta, smooth)
    y, slope = beyond(sm - s0, play)
    t = -k * y - b * rho - (c + bump) * clipped - (b_skew * rho + c_skew * clipped) * clipped
    skewed = b_skew * (clipped + rho * inside) + 2.0 * c_skew * clipped * inside
    return t, -k * slope + 0.0 * rho, -b - (c + bump) * inside + 2.0 * x / rate * bump * clipped - skewed


def force_by_numbers(sm: Any, rho: Any, p: Any, delta: Any, smooth: bool = False) -> tuple[Any, ...]:
    """`dt/dp` for each of `LAW` (armature does not enter `t`)."""
    k, s0, _, c, width, cs, rate, _, b_skew, c_skew, play = p
    lib = al.library(rho)
    x = rho / rate
    e = lib.exp(-x * x)
    clipped, _ = share(rho, width, delta, smooth)
    y, slope = beyond(sm - s0, play)
    by_play = -k * _beyond_by_play(sm - s0, play)
    of_share = c + cs * e + b_skew * rho + 2.0 * c_skew * clipped
    by_width = -of_share * lib.where(width > 0.0, ramp(rho, lib.where(width > 0.0, width, 1.0))[2], 0.0)
    by_skew = -rho * clipped, -clipped * clipped
    return (-y, k * slope, -rho, -clipped, by_width, -e * clipped, -cs * e * clipped * 2.0 * x * x / rate, 0.0 * rho, *by_skew, by_play)


def ends(t: Any, rho: Any, armature: Any, h: Any) -> tuple[Any, Any]:
    """What the interval contributes at L and at R."""
    momentum = armature * rho
    return momentum - 0.5 * h * t, -momentum - 0.5 * h * t


def ends_by_coordinates(t_sm: Any, t_rho: Any, armature: Any, h: Any) -> tuple[Any, Any, Any, Any]:
    """Derivatives of the contributions: L by s_L, L by s_R, R by s_L, R by s_R."""
    by_left = 0.5 * t_sm - t_rho / h  # dt/ds_L
    by_right = 0.5 * t_sm + t_rho / h
    a = armature / h
    return -a - 0.5 * h * by_left, a - 0.5 * h * by_right, a - 0.5 * h * by_left, -a - 0.5 * h * by_right


# -- what the protocol asks for ------------------------------------------------------------------------------------------------------


def _force(sm: Any, rho: Any, data: Any, at: Setting) -> tuple[Any, Any, Any, Any]:
    return *force(sm, rho, tuple(data), at.delta, at.smooth), None


def _by_numbers(sm: Any, rho: Any, data: Any, at: Setting) -> tuple[Any, ...]:
    return force_by_numbers(sm, rho, tuple(data), at.delta, at.smooth)


def _energy(s: Any, data: Any) -> Any:
    return data[0] * strain(s - data[1], data[-1])


def _owners(structure: Any) -> Sequence[tuple[str, str]]:
    return structure.law_owners


def _touches(structure: Any) -> Sequence[int]:
    return range(len(structure.law_owners))


def _numbers(structure: Any, model: Model) -> Sequence[Sequence[float]]:
    """Joints have no backlash; the three positions of a free joint have no friction and springs of their own."""
    out = []
    for coordinate in structure.scalar_coordinates:
        joint = model.joint(coordinate.joint)
        row = dict(zip(LAW, (*(getattr(joint, f) for f in LAW[:-1]), 0.0), strict=True))
        if joint.kind == FREE:
            row |= {"springref": joint.spring_position[coordinate.component], "friction": 0.0}
        out.append([*row.values()])
    return [*out, *([getattr(t, f) for f in LAW] for t in (*model.transmissions, *model.paths))]


TYPE = CoordinateForce("law", LAW, _owners, _touches, _numbers, _force, _by_numbers, _energy, inertia="armature")
