"""Forces on a scalar joint coordinate `s` over one interval: spring, damper, dry friction, armature and drives.

    t = -k y(s_m - s_0) - b rho - (c + c_s exp(-(rho/r)^2)) clip(rho/delta, -1, 1) + applied
    s_m = (s_L + s_R)/2,   rho = (s_R - s_L)/h
    contribution at L:  J_a rho - (h/2) t,   at R:  -J_a rho - (h/2) t

The same scalars in `tree` (where `s` is a coordinate) and in `free` (where `s` is measured between two links): one scheme.
y is the deflection beyond the play of a transmission, without play the deflection itself: with half the play p and w = `ROUND` p

    y(x) = (x - p + sqrt((x - p)^2 + w^2))/2 + (x + p - sqrt((x + p)^2 + w^2))/2

Closed-form derivatives throughout; `delta` is the rate below which dry friction is viscous (DESIGN section 3). Where the likelihood of a motion is made of
derivatives of its equations, the share `clip(rho/delta, -1, 1)` is taken without kinks, `rho/sqrt(rho^2 + delta^2)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibody.spatial import algebra as al

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


def share(rho: Any, delta: Any, side: Any = None, smooth: bool = False) -> tuple[Any, Any]:
    """`clip(rho/delta, -1, 1)` and its derivative; with `side` (-1, 0, 1) that piece of it, wherever rho is; `smooth`: without kinks."""
    lib = al.library(rho)
    if smooth:
        norm = lib.sqrt(rho * rho + delta * delta)
        return rho / norm, delta * delta / (norm * norm * norm)
    if side is None:
        return lib.clip(rho / delta, -1.0, 1.0), lib.where(lib.abs(rho) < delta, 1.0, 0.0) / delta
    return lib.where(side == 0, rho / delta, side), lib.where(side == 0, 1.0, 0.0) / delta


def force(sm: Any, rho: Any, p: Any, delta: Any, side: Any = None, smooth: bool = False) -> tuple[Any, Any, Any]:
    """`t` without drives, and its derivatives with respect to `s_m` and `rho`; p as in `structure.LAW`."""
    k, s0, b, c, cs, rate, _, play = p
    lib = al.library(rho)
    x = rho / rate
    bump = cs * lib.exp(-x * x)
    clipped, inside = share(rho, delta, side, smooth)
    y, slope = beyond(sm - s0, play)
    t = -k * y - b * rho - (c + bump) * clipped
    return t, -k * slope + 0.0 * rho, -b - (c + bump) * inside + 2.0 * x / rate * bump * clipped


def force_by_numbers(sm: Any, rho: Any, p: Any, delta: Any, side: Any = None, smooth: bool = False) -> tuple[Any, ...]:
    """`dt/dp` for each of `structure.LAW` (armature does not enter `t`)."""
    k, s0, _, _, cs, rate, _, play = p
    lib = al.library(rho)
    x = rho / rate
    e = lib.exp(-x * x)
    clipped, _ = share(rho, delta, side, smooth)
    y, slope = beyond(sm - s0, play)
    by_play = -k * _beyond_by_play(sm - s0, play)
    return (-y, k * slope, -rho, -clipped, -e * clipped, -cs * e * clipped * 2.0 * x * x / rate, 0.0 * rho, by_play)


def _drive(sm: Any, rho: Any, u: Any, p: Any) -> tuple[Any, Any]:
    """What is in front of the gear, and 1 where it is not at a limit, else 0."""
    gain, gear, bias, stiffness, damping, lowest, highest = p
    f = gain * u + bias - stiffness * gear * sm - damping * gear * rho
    lib = al.library(f)
    return lib.clip(f, lowest, highest), lib.where((f > lowest) & (f < highest), 1.0, 0.0)


def drive(sm: Any, rho: Any, u: Any, p: Any) -> tuple[Any, Any, Any, Any]:
    """An actuator's force on `s`, and its derivatives with respect to `s_m`, `rho` and `u`; p as in `structure.ACTUATOR`, then the force range."""
    gain, gear, _, stiffness, damping, *_ = p
    f, inside = _drive(sm, rho, u, p)
    return gear * f, -stiffness * gear * gear * inside, -damping * gear * gear * inside, gear * gain * inside


def drive_by_numbers(sm: Any, rho: Any, u: Any, p: Any) -> tuple[Any, ...]:
    """`dt/dp` for each of `structure.ACTUATOR`."""
    _, gear, _, stiffness, damping, *_ = p
    f, inside = _drive(sm, rho, u, p)
    by_gear = f - inside * gear * (stiffness * sm + damping * rho)
    return (inside * gear * u, by_gear, inside * gear, -inside * gear * gear * sm, -inside * gear * gear * rho)


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
