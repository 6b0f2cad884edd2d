"""Limits that an experiment has to keep: of any channel of the motion, and of the root mean square of drives.

A limit says how far beyond it a motion goes, in units of its own half width (of its size, where it has one side only): `g = max(x - upper, lower - x)/size`, which has to be below zero at every instant. For
the search all instants count together by `log(sum exp(SHARP g))/SHARP`, which is smooth and never less than the largest g.

What must not collide: contacts of the model, whose `gap` is a channel, or, with a `clearance`, all shapes of bodies that are not neighbours. Boxes, cylinders and ellipsoids, which do not collide with each other in
simulations, are taken with the capsule that holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.mechanics import channels
from calibody.mechanics.structure import Structure
from calibody.model import Contact, Geometry, Model
from calibody.model.contact import BOX, CAPSULE, CYLINDER, ELLIPSOID, LOWER, PLANE, SPHERE, UPPER, can_touch
from calibody.model.elements import WORLD
from calibody.spatial import algebra as al
from calibody.steppers.motion import Motion

SHARP = 100.0
"""Per half width: with 300 instants at the limit at once the smooth largest g is 6 % above the largest, with the usual few of them 2 %."""


@dataclass(frozen=True)
class Within:
    """A channel stays between two numbers."""

    channel: str
    lower: float
    upper: float

    @property
    def size(self) -> float:
        half = 0.5 * (self.upper - self.lower)
        return half if np.isfinite(half) else max(abs(self.lower if np.isfinite(self.lower) else self.upper), 0.1)

    def beyond(self, motion: Motion) -> np.ndarray:
        """g at every node."""
        x = motion[self.channel]
        return np.maximum(x - self.upper, self.lower - x) / self.size

    def smooth(self, motion: Motion) -> float:
        g = self.beyond(motion)
        most = float(g.max())
        return most + float(np.log(np.exp(SHARP * (g - most)).sum())) / SHARP

    def reached(self, motion: Motion) -> tuple[float, float]:
        x = motion[self.channel]
        return float(x.min()), float(x.max())


@dataclass(frozen=True)
class Rms:
    """The root mean square of a channel is at most so much."""

    channel: str
    most: float

    def beyond(self, motion: Motion) -> np.ndarray:
        return np.array([np.sqrt(np.mean(motion[self.channel] ** 2)) / self.most - 1.0])

    def smooth(self, motion: Motion) -> float:
        return float(self.beyond(motion)[0])


Limits = tuple[Within | Rms, ...]


def limits_of(model: Model, given: Mapping[str, Any], rms: Mapping[str, float]) -> Limits:
    """From what a user gives, a number (both sides alike) or (lower, upper) by channel, and where the model's own joint limits are, if nothing is given there."""
    out: list[Within | Rms] = [_within(model, path, value) for path, value in given.items()]
    out += [stop for stop in _stops(model) if stop.channel not in given]
    for path, most in rms.items():
        _scalar(model, path)
        if not isinstance(most, (int, float)) or isinstance(most, bool) or not 0.0 < most < np.inf:
            raise CalibodyError(f'The rms of "{path}" is limited to {most!r}; give a number above zero.')
        out.append(Rms(path, float(most)))
    return tuple(out)


def _stops(model: Model) -> list[Within]:
    """Of joints that the model stops: contacts and limits do not act in a design, so it has to stay within them."""
    out = []
    for joint in model.joints:
        at = {side: [x.position for x in model.limits if x.joint == joint.name and x.side == side and not x.compliant] for side in (LOWER, UPPER)}
        if at[LOWER] or at[UPPER]:
            word = "position" if joint.kind == "slide" else "angle"
            out.append(Within(f"joint.{joint.name}.{word}", max(at[LOWER], default=-np.inf), min(at[UPPER], default=np.inf)))
    return out


def _scalar(model: Model, path: str) -> None:
    channel = channels.resolve(model, path)
    if channel.components and channel.component is None:
        raise CalibodyError(f'"{path}" is several numbers at once; limit them one by one, such as "{path}.{channel.components[0]}".')


def _within(model: Model, path: str, value: Any) -> Within:
    _scalar(model, path)
    pair: Any = (-value, value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
    try:
        lower, upper = (float(x) for x in pair)
    except (TypeError, ValueError):
        lower = upper = np.nan
    if not lower < upper or not (np.isfinite(lower) or np.isfinite(upper)):
        raise CalibodyError(f'The limit of "{path}" is {value!r}; give a number above zero for both sides, or (lower, upper).')
    return Within(path, lower, upper)


# -- collisions ----------------------------------------------------------------------------------------------------------------------------


def with_pairs(model: Model) -> Model:
    """The model with a contact for every pair of shapes that could collide; its own, where it has some."""
    if model.contacts:
        return model
    shapes = {g.name: g for g in (_held_by(g) for g in model.geometries) if g is not None}
    pairs = [(a, b) for a, b in combinations(shapes.values(), 2) if _apart(model, a.body, b.body) and can_touch(a.kind, b.kind)]
    contacts = tuple(Contact(f"{a.name} and {b.name}", *((b.name, a.name) if a.kind == PLANE else (a.name, b.name))) for a, b in pairs)
    return replace(model, geometries=tuple(shapes.get(g.name, g) for g in model.geometries), contacts=contacts)


def shapeless(model: Model) -> list[str]:
    """Bodies with a joint that nothing with a shape moves with: a clearance knows nothing of them."""
    shaped = {_moving(model, g.body) for g in model.geometries if _held_by(g) is not None}
    return [b.name for b in model.bodies if model.joints_of(b.name) and b.name not in shaped]


def _apart(model: Model, a: str, b: str) -> bool:
    """Whether two bodies move against each other without being neighbours at a joint."""
    first, second = _moving(model, a), _moving(model, b)
    return first != second and _moving_parent(model, first) != second and _moving_parent(model, second) != first


def _moving(model: Model, name: str) -> str:
    """The body with a joint that carries it; the world if none does."""
    while name != WORLD and not model.joints_of(name):
        name = model.body(name).parent
    return name


def _moving_parent(model: Model, name: str) -> str:
    return WORLD if name == WORLD else _moving(model, model.body(name).parent)


def _held_by(shape: Geometry) -> Geometry | None:
    """The shape, or a capsule that holds it, along its longest side; None of what has no size."""
    if shape.kind in (SPHERE, CAPSULE, PLANE):
        return shape
    if shape.kind not in (BOX, CYLINDER, ELLIPSOID):
        return None
    half = np.array([shape.size[0], shape.size[0], shape.size[1]] if shape.kind == CYLINDER else shape.size[:3])
    k = int(np.argmax(half))
    across = np.delete(half, k)
    radius = float(np.max(across)) if shape.kind in (CYLINDER, ELLIPSOID) and k == 2 else float(np.hypot(*across))
    turned = {0: (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0), 1: (np.sqrt(0.5), -np.sqrt(0.5), 0.0, 0.0), 2: (1.0, 0.0, 0.0, 0.0)}[k]
    orientation = al.quaternion_product(shape.orientation, turned)
    return replace(shape, kind=CAPSULE, size=(radius, float(half[k])), orientation=tuple(float(x) for x in orientation))


def touching(model: Model, motion: Motion) -> Motion:
    """The same motion of the model with its contacts, so that their gaps are channels."""
    if not model.contacts:
        return motion
    full = replace(motion.model, geometries=model.geometries, contacts=model.contacts)
    return replace(motion, model=full, structure=Structure.build(full, motion.structure.coordinates, driven=[c.path for c in motion.structure.driven]))
