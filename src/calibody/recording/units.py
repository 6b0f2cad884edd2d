"""Units of measured columns, and their factors to SI (radians for angles).

    angle          rad mrad deg ° arcmin arcsec rev turn
    length         m cm mm um µm in ft
    angular rate   rad/s mrad/s deg/s °/s rpm rev/s
    speed          m/s cm/s mm/s km/h
    acceleration   m/s^2 (m/s2) g mg
    force          N mN kN lbf
    torque         N m (Nm), mN m, N cm, N mm, kN m
    electrical     V mV A mA
    number         1 %
    time           s ms us µs ns        (clocks only)

A unit that cannot belong to a channel (millimetres of an angle) is refused. What a unit cannot tell is whether the column really is in it.
"""

from __future__ import annotations

import math

from calibody.errors import CalibodyError, nearest

_TORQUES = {"N m": 1.0, "mN m": 1e-3, "N cm": 1e-2, "N mm": 1e-3, "kN m": 1e3}
DIMENSIONS: dict[str, dict[str, float]] = {
    "angle": {
        "rad": 1.0,
        "mrad": 1e-3,
        "deg": math.pi / 180,
        "°": math.pi / 180,
        "arcmin": math.pi / 10800,
        "arcsec": math.pi / 648000,
        "rev": 2 * math.pi,
        "turn": 2 * math.pi,
    },
    "length": {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "\u00b5m": 1e-6, "\u03bcm": 1e-6, "in": 0.0254, "ft": 0.3048},
    "angular rate": {
        "rad/s": 1.0,
        "mrad/s": 1e-3,
        "deg/s": math.pi / 180,
        "°/s": math.pi / 180,
        "rpm": 2 * math.pi / 60,
        "rev/s": 2 * math.pi,
    },
    "speed": {"m/s": 1.0, "cm/s": 1e-2, "mm/s": 1e-3, "km/h": 1 / 3.6},
    "acceleration": {"m/s^2": 1.0, "m/s2": 1.0, "g": 9.80665, "mg": 9.80665e-3},
    "force": {"N": 1.0, "mN": 1e-3, "kN": 1e3, "lbf": 4.4482216152605},
    "torque": _TORQUES | {unit.replace(" ", ""): factor for unit, factor in _TORQUES.items()},
    "electrical": {"V": 1.0, "mV": 1e-3, "A": 1.0, "mA": 1e-3},
    "number": {"1": 1.0, "%": 1e-2},
}
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ns": 1e-9}

UNITS = {unit: factor for table in DIMENSIONS.values() for unit, factor in table.items()}

# What the last word of a channel (before a component) can be measured in; channels without such a word take any unit.
_QUANTITIES = {
    "angle": ("angle",),
    "position": ("length",),
    "com": ("length",),
    "pose": ("length", "number"),
    "orientation": ("number",),
    "rate": ("angular rate", "speed"),
    "angular_rate": ("angular rate",),
    "acceleration": ("acceleration",),
    "force": ("force", "torque"),
    "torque": ("torque",),
}


def quantity(channel: str) -> str:
    """The word of a channel that says what is measured ("angle" in joint.a.angle and body.b.angle.x), or the empty string."""
    for word in reversed(channel.split(".")[2:][-2:]):
        if word in _QUANTITIES:
            return word
    return ""


def fitting(channel: str) -> dict[str, float]:
    """The units a channel can be measured in, and their factors to SI."""
    dimensions = _QUANTITIES.get(quantity(channel), tuple(DIMENSIONS))
    return {name: f for dimension in dimensions for name, f in DIMENSIONS[dimension].items()}


def factor(unit: str | None, channel: str) -> float:
    """SI units per `unit`, checked against what the channel measures; None means SI already."""
    if unit is None:
        return 1.0
    known = fitting(channel)
    if unit in known:
        return known[unit]
    choice = ", ".join(f'"{name}"' for name in known) if quantity(channel) else "one of the documented units"
    if unit in UNITS:
        raise CalibodyError(f'The channel "{channel}" cannot be measured in "{unit}"; give {choice}, or a scale instead of a unit.')
    raise CalibodyError(f'The unit "{unit}" of the channel "{channel}" is not known{nearest(unit, known) or f"; give {choice}, or a scale instead of a unit."}')


def time_factor(unit: str, what: str) -> float:
    """Seconds per `unit` of a clock."""
    if isinstance(unit, str) and unit in TIME_UNITS:
        return TIME_UNITS[unit]
    raise CalibodyError(f'{what}: time_unit = {unit!r} is not known; give "s", "ms", "us" or "ns".')
