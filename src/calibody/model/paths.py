"""Paths: the user's names for every number of a model.

    body.arm.mass            kind.name.field
    body.arm.com.x           kind.name.field.component
    joint.hinge2.position.x  the joint's anchor in the parent's frame; setting it moves the body
    world.gravity.z          gravity; world.gravity.tilt.x|y|z its rotation
    world.ground.height      the ground; world.ground.tilt.x|y its rotation

A path resolves to a `Place`: which element, which field, which component. Names may contain dots: the longest known name wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibody.errors import ModelError, meant, nearest
from calibody.model.contact import GROUND, Limit
from calibody.model.elements import Actuator, Joint, Number, Transmission, World
from calibody.model.path import Path

if TYPE_CHECKING:
    from calibody.model.model import Model


OTHER_WORDS = {
    "mass": ("weight", "m"),
    "com": ("cog", "center", "centre", "origin"),
    "inertia": ("moment", "moments", "i", "diaginertia", "fullinertia"),
    "damping": ("viscous", "viscosity", "friction_viscous", "fv", "b"),
    "friction": ("coulomb", "dry", "frictionloss", "fc", "stiction"),
    "stiffness": ("spring", "k"),
    "springref": ("rest", "neutral"),
    "armature": ("rotor", "rotor_inertia"),
    "gain": ("kt", "kp", "torque_constant"),
    "delay": ("latency", "lag"),
    "restitution": ("bounce", "elasticity", "cor", "e"),
    "bias": ("offset", "zero"),
}
"""What other programs call the numbers of a model."""


@dataclass(frozen=True)
class Place:
    """Where a path points: `component` is None for a scalar, or for a whole field."""

    path: str
    kind: str
    name: str
    field: str
    component: int | None
    unit: str


@dataclass(frozen=True)
class Parameter:
    """One number of a model: its path, value and unit."""

    path: str
    value: float
    unit: str


def _field_table(element: Any) -> dict[str, Number]:
    return {**element.NUMBERS, **getattr(element, "DERIVED", {})}


def number_at(model: Model, path: str) -> Number:
    """What kind of number a path names."""
    return number_of(model, resolve(model, path))


def number_of(model: Model, place: Place) -> Number:
    return _field_table(model.world if place.kind == "world" else model.tables[place.kind][place.name])[place.field]


def _unit(element: Any, field: str, model: Model) -> str:
    unit = _field_table(element)[field].unit
    return unit.format(**model.units_of(element)) if isinstance(element, (Joint, Actuator, Limit, Transmission, Path)) else unit


WORLD_FIELDS = {"gravity": "gravity", "gravity.tilt": "tilt", "ground.height": "ground_height", "ground.tilt": "ground_tilt"}
"""Words of a path after "world." -> field of `World`."""


def _world_place(model: Model, path: str) -> Place:
    rest = path.partition(".")[2]
    for words, field in sorted(WORLD_FIELDS.items(), key=lambda item: -len(item[0])):
        number = World.NUMBERS[field]
        if rest == words:
            return Place(path, "world", "gravity", field, None, number.unit)
        if rest.startswith(words + ".") and rest[len(words) + 1 :] in number.components:
            return Place(path, "world", "gravity", field, number.components.index(rest[len(words) + 1 :]), number.unit)
    raise ModelError(
        f'The path "{path}" is not known; the world has world.gravity.x|y|z and world.gravity.tilt.x|y|z, world.ground.height and world.ground.tilt.x|y.'
    )


def resolve(model: Model, path: str) -> Place:
    """The place a path points to, or a sentence with the nearest known name."""
    if not isinstance(path, str) or "." not in path:
        raise ModelError(f'The path {path!r} is not of the form kind.name.field, for instance "body.arm.mass"{nearest(path, model.tables) or "."}')
    kind, rest = path.split(".", 1)
    if kind == "world":
        return _world_place(model, path)
    if kind not in model.tables:
        kinds = [*model.tables, "world"]
        raise ModelError(f'The path "{path}" starts with "{kind}"; a path starts with one of {", ".join(kinds)}{nearest(kind, kinds) or "."}')
    table = model.tables[kind]
    names = [n for n in table if rest == n or rest.startswith(n + ".")]
    if not names:
        wanted = rest.rsplit(".", 1)[0] if "." in rest else rest
        others = f"; it has {', '.join(list(table)[:8]) or 'none'}."
        raise ModelError(f'The path "{path}" names a {kind} that the model does not have{nearest(wanted, table) or others}')
    name = max(names, key=len)
    element = table[name]
    words = rest[len(name) + 1 :].split(".")
    fields = _field_table(element)
    if words[0] not in fields:
        others = f"; it has {', '.join(fields)}."
        found = meant(words[0], fields, OTHER_WORDS)
        raise ModelError(f'The path "{path}": a {kind} has no number "{words[0]}"{others if found is None else f"; did you mean {chr(34)}{found}{chr(34)}?"}')
    components = fields[words[0]][0]
    unit = _unit(element, words[0], model)
    if len(words) == 1:
        return Place(path, kind, name, words[0], None, unit)
    if len(words) == 2 and words[1] in components:
        return Place(path, kind, name, words[0], components.index(words[1]), unit)
    expected = f"one of {', '.join(components)}" if components else "nothing: it is a single number"
    raise ModelError(f'The path "{path}": after "{words[0]}" comes {expected}.')


def all_places(model: Model) -> list[Place]:
    """Every single number of the model, in the order of the tables."""
    places = [resolve(model, f"world.gravity.{c}") for c in "xyz"] + [resolve(model, f"world.gravity.tilt.{c}") for c in "xyz"]
    if any(contact.b == GROUND for contact in model.contacts):
        places += [resolve(model, f"world.ground.{c}") for c in ("height", "tilt.x", "tilt.y")]
    for kind, table in model.tables.items():
        for name, element in table.items():
            for field, number in _field_table(element).items():
                unit = _unit(element, field, model)
                if number.components:
                    places += [Place(f"{kind}.{name}.{field}.{c}", kind, name, field, i, unit) for i, c in enumerate(number.components)]
                else:
                    places.append(Place(f"{kind}.{name}.{field}", kind, name, field, None, unit))
    return places
