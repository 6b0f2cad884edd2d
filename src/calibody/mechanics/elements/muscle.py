"""A muscle on a path, a joint's coordinate or a transmission, with the activation a as its control (`model/path.py` has the words):

    t = -gear F (a FL(L) FV(V) + FP(L)),      L = (gear s - L_T)/L_0,     V = gear rho/(L_0 v)

    FL   two parabolas on each side: 0 at lmin, 1/2 at (lmin + 1)/2, 1 at 1, and the same down to lmax
    FV   (1 + V)^2 for -1 <= V <= 0;   f - (y - V)^2/y up to y = f - 1;   f beyond (f = fvmax)
    FP   (x^2/2) fpmax with x = (L - 1)/(b - 1) up to b = (1 + lmax)/2, then (1/2 + (L - b)/(b - 1)) fpmax

All three have continuous slopes, FV at rest (2 on both sides) too, so steps of Newton converge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibody.mechanics.elements.base import CoordinateForce, Setting
from calibody.mechanics.elements.drive import acted_on
from calibody.model import Model, Muscle
from calibody.spatial import algebra as al

FIELDS = ("peak_force", "optimal_length", "slack_length", "lmin", "lmax", "vmax", "fpmax", "fvmax", "gear")
STEP = 1e-6
"""Relative, of the differences for the numbers that shape the curves: of smooth formulas, so that the error is its square."""


def by_length(L: Any, lmin: Any, lmax: Any) -> tuple[Any, Any]:
    """FL and its slope."""
    lib = al.library(L)
    a, b = 0.5 * (lmin + 1.0), 0.5 * (1.0 + lmax)
    low, up = (L - lmin) / (a - lmin), (1.0 - L) / (1.0 - a)
    down, high = (L - 1.0) / (b - 1.0), (lmax - L) / (lmax - b)
    value = lib.where(L <= a, 0.5 * low * low, lib.where(L <= 1.0, 1.0 - 0.5 * up * up, lib.where(L <= b, 1.0 - 0.5 * down * down, 0.5 * high * high)))
    slope = lib.where(L <= a, low / (a - lmin), lib.where(L <= 1.0, up / (1.0 - a), lib.where(L <= b, -down / (b - 1.0), -high / (lmax - b))))
    inside = (L >= lmin) & (L <= lmax)
    return lib.where(inside, value, 0.0), lib.where(inside, slope, 0.0)


def by_rate(V: Any, fvmax: Any) -> tuple[Any, Any]:
    """FV and its slope."""
    lib = al.library(V)
    y = fvmax - 1.0
    value = lib.where(V <= -1.0, 0.0, lib.where(V <= 0.0, (V + 1.0) ** 2, lib.where(V <= y, fvmax - (y - V) ** 2 / y, fvmax)))
    slope = lib.where(V <= -1.0, 0.0, lib.where(V <= 0.0, 2.0 * (V + 1.0), lib.where(V <= y, 2.0 * (y - V) / y, 0.0)))
    return value, slope


def passive(L: Any, lmax: Any, fpmax: Any) -> tuple[Any, Any]:
    """FP and its slope."""
    lib = al.library(L)
    half = 0.5 * (lmax - 1.0)  # b - 1
    x = (L - 1.0) / half
    value = lib.where(x <= 0.0, 0.0, lib.where(x <= 1.0, 0.5 * x * x, x - 0.5))
    return fpmax * value, fpmax / half * lib.clip(x, 0.0, 1.0)


def exerted(sm: Any, rho: Any, a: Any, p: Any) -> tuple[Any, Any, Any, Any]:
    """t, and its derivatives by s_m, rho and the activation; p as in `FIELDS`."""
    force, length, slack, lmin, lmax, vmax, fpmax, fvmax, gear = p
    FL, FL_L = by_length((gear * sm - slack) / length, lmin, lmax)
    FV, FV_V = by_rate(gear * rho / (length * vmax), fvmax)
    FP, FP_L = passive((gear * sm - slack) / length, lmax, fpmax)
    pull = -gear * force
    return pull * (a * FL * FV + FP), pull * gear / length * (a * FL_L * FV + FP_L), pull * gear / (length * vmax) * a * FL * FV_V, pull * FL * FV


# -- what the protocol asks for ------------------------------------------------------------------------------------------------------


def _force(sm: Any, rho: Any, data: Any, at: Setting) -> tuple[Any, Any, Any, Any]:
    return exerted(sm, rho, at.control, tuple(data))


def _by_numbers(sm: Any, rho: Any, data: Any, at: Setting) -> tuple[Any, ...]:
    """The peak force scales; the others by central differences."""
    out = []
    for k in range(len(FIELDS)):
        step = STEP * (abs(data[k]) + 1e-3)
        high, low = (exerted(sm, rho, at.control, (*data[:k], data[k] + sign * step, *data[k + 1 :]))[0] for sign in (1.0, -1.0))
        out.append((high - low) / (2.0 * step))
    return tuple(out)


def _energy(s: Any, data: Any) -> Any:
    """None, as drives: what is stretched in it is not told from what pulls."""
    return 0.0 * s


def _muscles(structure: Any) -> list[int]:
    return [i for i, a in enumerate(structure.model.actuators) if isinstance(a, Muscle)]


def _owners(structure: Any) -> Sequence[tuple[str, str]]:
    return [("actuator", structure.model.actuators[i].name) for i in _muscles(structure)]


def _touches(structure: Any) -> Sequence[int]:
    return [acted_on(structure)[i] for i in _muscles(structure)]


def _numbers(structure: Any, model: Model) -> Sequence[Sequence[float]]:
    return [[getattr(model.actuators[i], f) for f in FIELDS] for i in _muscles(structure)]


TYPE = CoordinateForce("muscle", FIELDS, _owners, _touches, _numbers, _force, _by_numbers, _energy, controls=_muscles)
