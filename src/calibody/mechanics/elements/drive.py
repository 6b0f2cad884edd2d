"""An actuator's force on a joint's coordinate, a transmission or a path: `gear clip(gain u + bias - stiffness gear s - damping gear rho, force_range)`, u its control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibody.mechanics.elements.base import CoordinateForce, Setting
from calibody.model import Model
from calibody.spatial import algebra as al

ACTUATOR = ("gain", "gear", "bias", "stiffness", "damping")
UNLIMITED = (-1e300, 1e300)
"""The force range of an actuator without one: finite, so that differences of it are zero."""


def _limited(sm: Any, rho: Any, u: Any, p: Any) -> tuple[Any, Any]:
    """What is in front of the gear, and 1 where it is not at a limit, else 0."""
    gain, gear, bias, stiffness, damping, lowest, highest = p
    f = gain * u + bias - stiffness * gear * sm - damping * gear * rho
    lib = al.library(f)
    return lib.clip(f, lowest, highest), lib.where((f > lowest) & (f < highest), 1.0, 0.0)


def exerted(sm: Any, rho: Any, u: Any, p: Any) -> tuple[Any, Any, Any, Any]:
    """An actuator's force on `s`, and its derivatives with respect to `s_m`, `rho` and `u`; p as in `ACTUATOR`, then the force range."""
    gain, gear, _, stiffness, damping, *_ = p
    f, inside = _limited(sm, rho, u, p)
    return gear * f, -stiffness * gear * gear * inside, -damping * gear * gear * inside, gear * gain * inside


def exerted_by_numbers(sm: Any, rho: Any, u: Any, p: Any) -> tuple[Any, ...]:
    """`dt/dp` for each of `ACTUATOR`."""
    _, gear, _, stiffness, damping, *_ = p
    f, inside = _limited(sm, rho, u, p)
    by_gear = f - inside * gear * (stiffness * sm + damping * rho)
    return (inside * gear * u, by_gear, inside * gear, -inside * gear * gear * sm, -inside * gear * gear * rho)


# -- what the protocol asks for ------------------------------------------------------------------------------------------------------


def _force(sm: Any, rho: Any, data: Any, at: Setting) -> tuple[Any, Any, Any, Any]:
    return exerted(sm, rho, at.control, tuple(data))


def _by_numbers(sm: Any, rho: Any, data: Any, at: Setting) -> tuple[Any, ...]:
    return exerted_by_numbers(sm, rho, at.control, tuple(data))


def _energy(s: Any, data: Any) -> Any:
    """Drives have none: their springs are servos."""
    return 0.0 * s


def _owners(structure: Any) -> Sequence[tuple[str, str]]:
    return [("actuator", a.name) for a in structure.model.actuators]


def acted_on(structure: Any) -> Sequence[int]:
    """What every actuator acts on: a joint's coordinate, or, counted on after these, a transmission or a path."""
    owner = {kind_and_name: c for c, kind_and_name in enumerate(structure.law_owners)}
    through = ((("path", a.path) if a.path else ("transmission", a.transmission) if a.transmission else ("joint", a.joint)) for a in structure.model.actuators)
    return [owner[one] for one in through]


def _controls(structure: Any) -> Sequence[int]:
    return range(len(structure.model.actuators))


def _numbers(structure: Any, model: Model) -> Sequence[Sequence[float]]:
    return [[*(getattr(a, f) for f in ACTUATOR), *(a.force_range or UNLIMITED)] for a in model.actuators]


TYPE = CoordinateForce("drive", ACTUATOR, _owners, acted_on, _numbers, _force, _by_numbers, _energy, controls=_controls)
