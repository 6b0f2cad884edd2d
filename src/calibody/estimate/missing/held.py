"""How accurate numbers of a model's file may be taken to be that were held, and which of them anything hangs on.

A payload that moves a centre of mass fits as well as no payload, if a mass is estimated beside it: the data know the product. Such a number leaves no trace in the residuals, so that no test of what is missing (`suspects.py`)
finds it; like gravity and the clock (`rests.py`) it can only be named, with what hangs on it. Its column of the linearisation is there already, or is made as for a suspect. A change is judged that drawings, scales and data sheets
are easily wrong by:

    1 %   of masses, of lengths, of what drives exert; of places and centres of mass 1 % of the size of their body
    10 %  of moments of inertia, frictions, stiffnesses
    0.1 % of the scale of places that are measured, 1 % of that of forces, rates of bodies and accelerations (encoders of angles count a turn as a turn)

or, where the residuals would tell that, the change that they just would not (three standard deviations). Where that is less than a tenth of it the data know the number, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibody.errors import ModelError
from calibody.estimate.result import ROUGH, SMALL
from calibody.estimate.unknowns import SENSOR
from calibody.mechanics import channels
from calibody.model import Model, paths
from calibody.model.elements import FORCE, INERTIAL, WORLD

LAWS = 0.1
"""Relative error of moments of inertia, frictions and stiffnesses that is easily made."""
KNOWN = 0.1
"""Share of such an error within which the data know a number."""
NOTHING = 0.1
"""Standard deviations of an estimate that such an error has to move it by to be listed."""
PLACED, COUNTED = ("position", "length"), ("angle", "rate")
"""Quantities whose instruments have a scale that is seldom off, and those of joints whose instruments have none that could be."""
RULED, ANYWHERE = ("gain", "gear", "rest_length", "length"), ("springref",)
"""Fields that are known as well as masses; those of a law in which zero is nothing special."""
FURTHER = ("spring", "transmission", "path", "loop", "actuator", "muscle")
"""Kinds of elements whose numbers are held and are no suspects."""


def small(model: Model, path: str, value: float) -> tuple[float, str] | None:
    """A change of a held number that is easily made, and its unit where it is not relative; None of what is no number of this kind, or zero and has no size."""
    head, _, field = path.rpartition(".")
    if field in SENSOR and channels.is_known(model, head) and (channel := channels.resolve(model, head)).quantity:
        scaled = field == "gain" and not (channel.kind == "joint" and channel.quantity in COUNTED)
        return (SMALL if channel.quantity in PLACED else ROUGH, "") if scaled else None
    try:
        number, place = paths.number_at(model, path), paths.resolve(model, path)
    except ModelError:  # a term that the model has no number for
        return (ROUGH, "") if field == "gain" else None
    if place.kind == "world":
        return None
    if place.component is not None and number.unit == "m":  # a vector of lengths
        return (ROUGH * of, "m") if (of := _size(model, place)) else None
    if not value:
        return None
    if place.field in RULED or (number.role == INERTIAL and place.field != "inertia"):
        return ROUGH, ""
    return (LAWS, "") if place.field == "inertia" or (number.role == FORCE and place.field not in ANYWHERE) else None


def _size(model: Model, place: paths.Place) -> float:
    """The extent of the body in whose frame a place is: of what is on it, or of its inertia."""
    element = model.tables[place.kind][place.name]
    if place.kind in ("body", "joint"):
        body = element if place.kind == "body" else model.body(element.body)
        return size(model, body.name if place.field == "com" or body.parent == WORLD else body.parent)
    if place.kind in ("loop", "spring"):
        return size(model, getattr(element, f"body{place.field[-1]}"))
    return size(model, element.body) if place.kind == "site" else 0.0


def size(model: Model, body: str) -> float:
    """How far a body extends: its centre of mass, the places of bodies, sites and loops on it, its radius of gyration."""
    own = model.tables["body"].get(body)
    if own is None:
        return 0.0
    far = [b.position for b in model.bodies if b.parent == body]
    far += [s.position for s in model.sites if s.body == body]
    far += [anchor for loop in model.loops for b, anchor in ((loop.body1, loop.anchor1), (loop.body2, loop.anchor2)) if b == body]
    gyration = float(np.sqrt(max(own.inertia[:3]) / own.mass)) if own.mass > 0.0 else 0.0
    return max(gyration, *(float(np.linalg.norm(place)) for place in (*far, own.com)))


def further(model: Model) -> Iterator[str]:
    """Paths of numbers of elements that are no suspects."""
    for place in paths.all_places(model):
        if place.kind in FURTHER and small(model, place.path, float(model[place.path])) is not None:
            yield place.path
