"""What a loaded model remembers of its file, and which XML element each of its elements is."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from calibody.formats.edit import Document, Element
from calibody.model import Model, Muscle, Path, Transmission

MJCF, URDF, OSIM = "mjcf", "urdf", "osim"
ENGINE = "engine"
"""Detail of a source: whether the model was read for MuJoCo's own engine."""

Key = tuple[str, str]
"""Kind and name of a model element: ("body", "arm")."""
Change = tuple[str, str, str]
"""Kind, name and field of a number that differs: ("body", "arm", "mass")."""


@dataclass(frozen=True)
class Source:
    """The file a model was read from: enough to write it back with other numbers."""

    path: pathlib.Path
    format: str
    document: Document
    original: Model
    """The model as it was read (its own `source` is None)."""
    elements: Mapping[Key, Element]
    """The XML element of each model element; those made by `<replicate>`, `<attach>` and the like are missing."""
    details: Mapping[Any, Any]
    """What else the format needs to write numbers back: frames, angle units, actuator damping."""


def changes(model: Model, other: Model) -> list[Change]:
    """Every field in which two models of the same elements differ, in the order of the tables."""
    found = [("world", "gravity", "gravity")] if tuple(model.gravity) != tuple(other.gravity) else []
    for kind, table in model.tables.items():
        for name, element in table.items():
            before = other.tables[kind].get(name)
            if before is None or before == element:
                continue
            found += [(kind, name, f.name) for f in fields(element) if getattr(element, f.name) != getattr(before, f.name)]
    return found


def differences(model: Model, written: Model) -> list[Change]:
    """The changes that are more than rounding: what a file does not yet say."""
    out = []
    for kind, name, field in changes(model, written):
        if kind == "world":
            a, b = tuple(model.gravity), tuple(written.gravity)
        else:
            a, b = getattr(model.tables[kind][name], field), getattr(written.tables[kind][name], field)
        if not _same(field, a, b):
            out.append((kind, name, field))
    return out


def _same(field: str, a: Any, b: Any) -> bool:
    """Equal but for rounding: 1e-11 of the largest number (degrees, quaternions and principal axes cost a few digits)."""
    if a is None or b is None or isinstance(a, str) or field == "joints":
        return a == b
    a, b = _flat(a), _flat(b)
    if len(a) != len(b):
        return False
    if field in ("axis", "orientation", "orientation1", "orientation2", "spring_orientation"):
        a, b = _unit(a), _unit(b)
        if field != "axis" and sum(x * y for x, y in zip(a, b, strict=True)) < 0.0:
            b = [-x for x in b]
    scale = max(max(map(abs, a), default=0.0), max(map(abs, b), default=0.0))
    floor = 1e-14 if field not in ("mass", "inertia") else 0.0
    return all(abs(x - y) <= 1e-11 * scale + floor for x, y in zip(a, b, strict=True))


def _flat(value: Any) -> list[float]:
    return [x for part in value for x in _flat(part)] if isinstance(value, (tuple, list)) else [float(value)]


def _unit(values: list[float]) -> list[float]:
    norm = math.hypot(*values) or 1.0
    return [x / norm for x in values]


def number(value: float) -> str:
    """The shortest text that reads back as the same float; whole numbers without `.0`, as authors write them."""
    value = float(value) + 0.0  # no "-0"
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def numbers(values: Any) -> str:
    return " ".join(number(x) for x in values)


def length_range(muscle: Muscle, normalised: Sequence[float]) -> tuple[float, ...]:
    """MuJoCo's range of a muscle's lengths, at whose ends L has these values."""
    return tuple(muscle.slack_length + muscle.optimal_length * x for x in normalised)


def spring_length(t: Transmission | Path) -> str:
    """MJCF's two ends of the dead band of a tendon; both -1 would mean "where the joints' springs are relaxed"."""
    low, high = t.springref - 0.5 * t.backlash, t.springref + 0.5 * t.backlash
    return numbers((low, math.nextafter(high, 0.0) if low == high == -1.0 else high))
