"""What stops bodies from passing through each other, and joints from going on: contacts and limits.

A `Contact` lets two shapes touch: `a` (a `Geometry`, or a `Site` as a ball of the contact's `radius`) and `b` (a `Geometry`, or "ground": the plane of `World`). The gap
between them never gets negative. While they touch, b pushes a along the normal with f_n >= 0 and rubs with `|f_t| <= friction f_n` against the slip.
An impact gives back the share `restitution` of the approach speed (law "newton") or of the normal impulse (law "poisson").

With law "compliant" the shapes may overlap, by the penetration p = -gap, and push each other apart the more they do (`mechanics/elements/compliant.py`):

    N = stiffness p^exponent (1 - (exponent - 1)/(exponent + 1) p/depth) damped by `damping` p',    from p = depth on a straight line;    depth 0: stiffness p^exponent
    F = -N (friction/sqrt(|v|^2 + friction_rate^2) + viscous) v      against the slip v

at every place of the contact (`mechanics/contact.py`: a box on a plane has eight). There are no impacts then; it is a force like a spring's.

A `Limit` is a contact on the coordinate of a hinge or slide: it ends at `position`, from above or from below. With law "compliant" it is a stop that gives way, by the same N of how far the coordinate is beyond `position`.

| a, b | plane, ground | sphere, site | capsule | box | ellipsoid, cylinder |
|---|---|---|---|---|---|
| sphere, site | x | x | x | x | |
| capsule | x | x | x | x | |
| box, ellipsoid, cylinder | x | sphere and capsule with box | | | |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from calibody.errors import ModelError, nearest
from calibody.model.elements import CONTACT, HINGE, SCALAR, SLIDE, WORLD, Geometry, Number, Site, _coerce, _not_negative

if TYPE_CHECKING:
    from calibody.model.model import Model

GROUND = "ground"
NEWTON, POISSON = "newton", "poisson"
COMPLIANT = "compliant"
LAWS = (NEWTON, POISSON)
"""Of impacts."""
RIGID_NUMBERS = ("sliding_friction", "restitution")
SOFT_NUMBERS = {"stiffness": 0.0, "exponent": 1.5, "depth": 0.0, "damping": 0.0, "friction_rate": 0.01, "viscous": 0.0}
"""Numbers that only compliant contacts and limits have (limits but the last two), and what they are where nothing is said."""
UPPER, LOWER = "upper", "lower"

POINT, PLANE, SPHERE, CAPSULE, BOX, ELLIPSOID, CYLINDER = "point", "plane", "sphere", "capsule", "box", "ellipsoid", "cylinder"
ROUND = (POINT, SPHERE, CAPSULE)
SOLID = (*ROUND, BOX, ELLIPSOID, CYLINDER)
EDGED = (BOX, CYLINDER)
"""Shapes whose edges a radius rounds off."""


def can_touch(first: str, second: str) -> bool:
    """Whether shapes of two kinds can collide, in either order."""
    for a, b in ((first, second), (second, first)):
        if (b == PLANE and a in SOLID) or (a in ROUND and b in (*ROUND, BOX)):
            return True
    return False


@dataclass(frozen=True)
class Contact:
    """Two shapes that touch: `a` a geometry or a site, `b` a geometry, a site or "ground" (a geometry, where a site has the same name). Forces of its channels are those of b on a.

    `friction` is the coefficient of dry friction of impacts, and of lasting contact unless `sliding_friction` is above zero: then that is the latter's. `radius` rounds the
    edges of boxes and cylinders (whose outer size stays), and is the radius of a site's ball. The other numbers are those of law "compliant" alone.
    """

    KIND: ClassVar[str] = "contact"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "friction": Number(SCALAR, "", CONTACT, signed=False),
        "sliding_friction": Number(SCALAR, "", CONTACT, signed=False),
        "restitution": Number(SCALAR, "", CONTACT, signed=False),
        "radius": Number(SCALAR, "m", CONTACT, signed=False),
        "stiffness": Number(SCALAR, "N/m^exponent", CONTACT, signed=False, linear=True),
        "exponent": Number(SCALAR, "", CONTACT, signed=False),
        "depth": Number(SCALAR, "m", CONTACT, signed=False),
        "damping": Number(SCALAR, "s/m", CONTACT, signed=False),
        "friction_rate": Number(SCALAR, "m/s", CONTACT, signed=False),
        "viscous": Number(SCALAR, "s/m", CONTACT, signed=False),
    }

    name: str
    a: str
    b: str = GROUND
    friction: float = 0.0
    sliding_friction: float = 0.0
    restitution: float = 0.0
    radius: float = 0.0
    law: str = NEWTON
    stiffness: float = SOFT_NUMBERS["stiffness"]
    exponent: float = SOFT_NUMBERS["exponent"]
    depth: float = SOFT_NUMBERS["depth"]
    damping: float = SOFT_NUMBERS["damping"]
    friction_rate: float = SOFT_NUMBERS["friction_rate"]
    viscous: float = SOFT_NUMBERS["viscous"]

    def __post_init__(self) -> None:
        _coerce(self)
        _not_negative(self, "friction", "sliding_friction", "radius", "stiffness", "depth", "damping", "viscous")
        _restitution(self, (*LAWS, COMPLIANT))
        _softness(self)
        if self.a == self.b:
            raise ModelError(f'contact.{self.name} lets "{self.a}" touch itself; give two different shapes.')

    @property
    def sliding(self) -> float:
        """The coefficient of friction of lasting contact."""
        return self.sliding_friction or self.friction

    @property
    def compliant(self) -> bool:
        """Whether it is a force, not something that nothing passes through."""
        return self.law == COMPLIANT


@dataclass(frozen=True)
class Limit:
    """A stop of a hinge or slide at the coordinate `position`: `side` "upper" (it cannot go beyond) or "lower" (it cannot go below)."""

    KIND: ClassVar[str] = "limit"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "position": Number(SCALAR, "{s}", CONTACT),
        "restitution": Number(SCALAR, "", CONTACT, signed=False),
        "stiffness": Number(SCALAR, "{f}/{s}^exponent", CONTACT, signed=False, linear=True),
        "exponent": Number(SCALAR, "", CONTACT, signed=False),
        "depth": Number(SCALAR, "{s}", CONTACT, signed=False),
        "damping": Number(SCALAR, "s/{s}", CONTACT, signed=False),
    }

    name: str
    joint: str
    position: float = 0.0
    side: str = UPPER
    restitution: float = 0.0
    law: str = NEWTON
    stiffness: float = SOFT_NUMBERS["stiffness"]
    exponent: float = SOFT_NUMBERS["exponent"]
    depth: float = SOFT_NUMBERS["depth"]
    damping: float = SOFT_NUMBERS["damping"]

    def __post_init__(self) -> None:
        _coerce(self)
        _not_negative(self, "stiffness", "depth", "damping")
        _restitution(self, (*LAWS, COMPLIANT))
        _softness(self)
        if self.side not in (UPPER, LOWER):
            raise ModelError(f'limit.{self.name}.side is {self.side!r}; give "upper" (the joint cannot go beyond) or "lower".')

    @property
    def compliant(self) -> bool:
        """Whether it is a force, not something that the joint never goes beyond."""
        return self.law == COMPLIANT

    @property
    def sign(self) -> float:
        """The gap is `sign (s - position)`."""
        return -1.0 if self.side == UPPER else 1.0


def _restitution(element: Contact | Limit, laws: tuple[str, ...]) -> None:
    if not 0.0 <= element.restitution <= 1.0:
        raise ModelError(
            f"{element.KIND}.{element.name}.restitution is {element.restitution:g}; give a number from 0 (no rebound) to 1 (all of it): more would make energy."
        )
    if element.law not in laws:
        raise ModelError(f"{element.KIND}.{element.name}.law is {element.law!r}; give one of {', '.join(laws)}.")


def _softness(element: Contact | Limit) -> None:
    """Numbers that the law of a contact or limit does not have, or cannot have."""
    where = f"{element.KIND}.{element.name}"
    own = {name: usual for name, usual in SOFT_NUMBERS.items() if name in element.NUMBERS}
    if not element.compliant:
        if odd := next((name for name, usual in own.items() if getattr(element, name) != usual), None):
            raise ModelError(f'{where}.{odd} is {getattr(element, odd):g}, but its law "{element.law}" is rigid; give law = "{COMPLIANT}", or leave it out.')
        return
    if odd := next((name for name in RIGID_NUMBERS if getattr(element, name, 0.0)), None):
        raise ModelError(
            f'{where}.{odd} is {getattr(element, odd):g}, which law = "{COMPLIANT}" does not have (it loses energy by its damping and friction); leave it out.'
        )
    if element.exponent <= 1.0:
        raise ModelError(f"{where}.exponent is {element.exponent:g}; give a number above 1 (1.5: Hertz), so that the force begins smoothly.")
    if isinstance(element, Contact) and element.friction_rate <= 0.0:
        raise ModelError(
            f"{where}.friction_rate is {element.friction_rate:g}; give a speed above zero [m/s], the slip from which on friction acts nearly in full."
        )


# -- in a model ----------------------------------------------------------------------------------------------------------------------


def shape_of(model: Model, contact: Contact, side: str) -> Geometry | Site | None:
    """What touches on one side ("a" or "b") of a contact; None for the ground."""
    name = getattr(contact, side)
    if side == "b" and name == GROUND and name not in model.tables["geometry"]:
        return None
    return model.tables["geometry"].get(name) or model.tables["site"].get(name)


def kind_of(shape: Geometry | Site | None) -> str:
    """Of what touches: a site is a point, the ground a plane."""
    return PLANE if shape is None else POINT if isinstance(shape, Site) else shape.kind


def check_contacts(model: Model) -> None:
    """A sentence for contacts and limits of which the model has no part, or that can do nothing."""
    for contact in model.contacts:
        _check_contact(model, contact)
    for limit in model.limits:
        joint = model.tables["joint"].get(limit.joint)
        if joint is None:
            raise ModelError(f'limit.{limit.name}.joint is "{limit.joint}", which the model does not have{nearest(limit.joint, model.tables["joint"]) or "."}')
        if joint.kind not in (HINGE, SLIDE):
            raise ModelError(f'limit.{limit.name} stops joint "{limit.joint}", a {joint.kind} joint; it needs a hinge or a slide.')


def _check_contact(model: Model, contact: Contact) -> None:
    where, shapes = f"contact.{contact.name}", []
    for side in ("a", "b"):
        name = getattr(contact, side)
        shape = shape_of(model, contact, side)
        if shape is None and not (side == "b" and name == GROUND):
            known = [*model.tables["geometry"], *model.tables["site"], *([GROUND] if side == "b" else [])]
            raise ModelError(f'{where}.{side} is "{name}", which is neither a geometry nor a site of the model{nearest(str(name), known) or "."}')
        shapes.append(shape)
    kinds, bodies = [kind_of(s) for s in shapes], [WORLD if s is None else s.body for s in shapes]
    if not can_touch(*kinds):
        raise ModelError(
            f"{where} is between a {kinds[0]} and a {kinds[1]}, which cannot collide yet; planes collide with everything but planes and meshes, "
            "spheres, capsules and sites with each other and with boxes."
        )
    if bodies[0] == bodies[1]:
        raise ModelError(f'{where} lets two shapes of body "{bodies[0]}" touch, which do not move against each other; give shapes of different bodies.')
    if not any(_moving_mass(model, body) for body in bodies):
        moving = next((b for b in bodies if b != WORLD), bodies[0])
        raise ModelError(f"{where}: body.{moving} has no mass, nor has anything that moves with it, so the contact would push at nothing; give it a mass.")
    if contact.compliant and (CYLINDER in kinds or (CAPSULE in kinds and not {PLANE, SPHERE, POINT} & set(kinds))):
        raise ModelError(
            f'{where} is between a {kinds[0]} and a {kinds[1]}, whose places of contact come and go, so that law = "{COMPLIANT}" would jump there; planes collide compliantly with '
            "spheres, sites, capsules, boxes and ellipsoids, and spheres and sites with each other, with capsules and with boxes."
        )
    _check_sizes(where, contact, shapes)


def _check_sizes(where: str, contact: Contact, shapes: list[Any]) -> None:
    rounded = [s for s in shapes if kind_of(s) in (POINT, *EDGED)]
    if contact.radius and not rounded:
        raise ModelError(f"{where}.radius is {contact.radius:g}, but neither shape has edges to round; leave it out (a sphere's radius is its size).")
    for shape in shapes:
        kind = kind_of(shape)
        needed = {SPHERE: 1, CAPSULE: 2, CYLINDER: 2, BOX: 3, ELLIPSOID: 3}.get(kind, 0)
        if needed and (len(shape.size) < needed or min(shape.size[:needed]) <= 0.0):
            raise ModelError(f"geometry.{shape.name}.size is {shape.size}; a {kind} that touches needs {needed} lengths above zero.")
        if kind in EDGED and contact.radius > min(shape.size[:needed]):
            raise ModelError(f"{where}.radius is {contact.radius:g}, more than half the width of geometry.{shape.name}; give a smaller radius for its edges.")


def _moving_mass(model: Model, name: str) -> bool:
    """Whether something with mass moves when a body does: of the body and what hangs on it, or of what it hangs on by way of joints."""
    family, moves = [], False
    while name != WORLD:
        family.append(name)
        moves = moves or bool(model.joints_of(name))
        name = model.body(name).parent
    if not moves:
        return False
    root = {family[-1]}
    for body in model.ordered_bodies:
        if body.parent in root:
            root.add(body.name)
    return any(model.body(b).mass > 0.0 or any(model.body(b).inertia) for b in root) or any(j.armature for b in root for j in model.joints_of(b))
