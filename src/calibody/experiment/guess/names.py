"""What the name of a column says: which quantity, of which element, in which unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

POSITION, RATE, TORQUE, COMMAND, CONTROL, UNUSED = "position", "rate", "torque", "command", "control", "unused"
"""Of a joint: coordinate, rate, measured and commanded torque or force; the control of an actuator; what a fit does not read."""

_ANGLE = {"angle", "angles", "ang", "theta", "th", "phi", "psi", "alpha", "beta", "gamma", "θ", "φ", "ψ", "α", "β"}
_LENGTH = {"x", "y", "z", "s", "disp", "displacement", "travel"}
_POSITION = _ANGLE | _LENGTH | {"q", "qpos", "pos", "position", "positions", "enc", "encoder"}
_SHORT = {"x", "y", "z", "s"}
"""Letters that mean a position only where nothing else in the name means anything."""
_RATE = {"qd", "qvel", "vel", "velocity", "velocities", "rate", "omega", "speed", "ω", "v"} | {f"{p}dot" for p in _POSITION} | {f"d{p}" for p in _POSITION}
_ACCELERATION = {"qdd", "qacc", "acc", "accel", "acceleration"} | {f"{p}ddot" for p in _POSITION} | {f"dd{p}" for p in _POSITION}
_TORQUE = {"tau", "torque", "torques", "trq", "effort", "efforts", "moment", "force", "forces", "qfrc", "τ"}
_ELECTRIC = {"voltage", "volt", "volts", "pwm", "duty", "current", "i"}
_CONTROL = _ELECTRIC | {"u", "cmd", "command", "ctrl", "control", "input", "action", "actions"}
_WANTED = {"des", "desired", "target", "ref", "reference", "setpoint", "goal", "wanted", "planned"}
_IGNORED = {
    "filt",
    "filtered",
    "smooth",
    "smoothed",
    "est",
    "estimated",
    "error",
    "err",
    "residual",
    "ext",
    "external",
    "temperature",
    "temp",
    "status",
    "mode",
    "tcp",
    "ee",
    "eef",
    "cartesian",
    "wrench",
    "pose",
}
_FILLERS = {"joint", "joints", "jnt", "j", "link", "motor", "measured", "meas", "actual", "act", "state", "states", "value", "sensor", "robot", "arm"}
"""Words that say nothing about the quantity, and that names of joints are full of."""
UNIT_WORDS = {
    "deg": "deg", "degree": "deg", "degrees": "deg", "rad": "rad", "radian": "rad", "radians": "rad", "mrad": "mrad", "mm": "mm", "cm": "cm", "m": "m", "rpm": "rpm", "nm": "N m",
    "mnm": "mN m", "n": "N", "dps": "deg/s",
}  # fmt: skip
TIME_WORDS = {"s": "s", "sec": "s", "seconds": "s", "ms": "ms", "us": "us", "ns": "ns", "nsec": "ns", "usec": "us", "msec": "ms", "millis": "ms"}
CLOCKS = {"t", "time", "times", "timestamp", "stamp", "clock", "seconds", "elapsed"}


def words(name: str) -> list[str]:
    """The words and whole numbers of a name, in lower case: "jointPos_deg[2]" is joint, pos, deg, 2."""
    return re.findall(r"[^\W\d_]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def quantity(column: Iterable[str]) -> str | None:
    """What a column measures by the words of its name; None if they do not say."""
    given = [w for w in column if not w.isdigit()]
    found = set(given)
    dots = given.count("dot") + 2 * given.count("ddot")
    if found & _IGNORED or found & _ACCELERATION or dots > 1:
        return UNUSED
    if found & _TORQUE:
        return COMMAND if found & (_WANTED | _CONTROL) else TORQUE
    if found & _WANTED and not found & _CONTROL:
        return UNUSED
    if found & _RATE or dots:
        return RATE
    if found & (_POSITION - _SHORT):
        return POSITION
    if found & _CONTROL:
        return CONTROL
    return POSITION if found & _POSITION else None


def measured(column: Iterable[str]) -> bool:
    """Whether a name says that it was measured, not commanded."""
    return bool({"meas", "measured", "actual", "sensed", "sensor"} & set(column))


def electric(column: Iterable[str]) -> bool:
    """A voltage, a current, a duty cycle: never a torque."""
    return bool(_ELECTRIC & set(column))


def angular(column: Iterable[str]) -> bool | None:
    """Whether a name means an angle (or a torque), not a length (a force); None if it does not say."""
    stems = {w.removesuffix("ddot").removesuffix("dot") if w.endswith("dot") else w.removeprefix("d") if w in _RATE else w for w in column}
    if stems & (_ANGLE | {"torque", "torques", "moment", "omega", "ω", "deg", "degree", "degrees", "rad", "rpm", "nm"}):
        return True
    return False if stems & (_LENGTH | {"force", "forces", "mm", "cm"}) else None


def left_over(column: Sequence[str], element: Sequence[str]) -> list[str]:
    """The words of a column that do not name the element, a unit, or nothing in particular."""
    return [w for w in column if w not in element and w not in UNIT_WORDS and w not in _FILLERS and not w.isdigit()]


def own_words(names: Sequence[str]) -> dict[str, list[str]]:
    """The words of each name that tell it from the others."""
    split = {name: words(name) for name in names}
    common = set.intersection(*(set(w) for w in split.values())) if len(split) > 1 else set()
    tells = {name: [w for w in given if w not in common] for name, given in split.items()}
    return {name: [w for w in tells[name] if w not in _FILLERS] or tells[name] or given for name, given in split.items()}


def named(column: Sequence[str], elements: dict[str, list[str]]) -> str | None:
    """The element whose whole name stands in a column's, else the one whose own words do, the longest of them; numbers alone name nothing."""
    for parts in ({name: words(name) for name in elements}, elements):
        found = [(len("".join(w)), name) for name, w in parts.items() if not all(x.isdigit() for x in w) and _contains(column, w)]
        if found:
            return max(found)[1]
    return None


def _contains(column: Sequence[str], part: Sequence[str]) -> bool:
    return any(list(column[k : k + len(part)]) == list(part) for k in range(len(column) - len(part) + 1))


def stated_unit(name: str, brackets: str) -> str | None:
    """The unit in brackets, or the last word if that is one."""
    if brackets:
        return brackets
    given = words(name)
    return UNIT_WORDS.get(given[-1]) if len(given) > 1 and given[-1] not in ("n", "m") else None


def number_in(column: Sequence[str]) -> int | None:
    """The last whole number of a name."""
    digits = [w for w in column if w.isdigit()]
    return int(digits[-1]) if digits else None
