"""What a mechanism is made of: frozen descriptions, one dataclass per kind of element.

Frames. Every body has a frame. `Body.position` and `Body.orientation` place it in the frame of its parent body when all joints of the
body are at their `reference`. A joint turns or shifts the body about its `anchor` and `axis`, both given in the body's own frame, in
the order in which the joints of one body are listed. A body without a joint is fixed to its parent. The world is the body "world".

Units are SI: metre, kilogram, second, radian, newton. Quaternions are (w, x, y, z).

Each class lists its numbers in `NUMBERS` (field -> component names, unit and what kind of number it is): that table is all that paths such as
`body.arm.com.x` know about the class (`paths.py`), and what estimators ask before they bound a number, call it linear or refuse it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from calibody.errors import ModelError
from calibody.spatial.inertia import smallest_principal_second_moment

WORLD = "world"
SCALAR: tuple[str, ...] = ()
XYZ = ("x", "y", "z")
WXYZ = ("w", "x", "y", "z")
SYMMETRIC = ("xx", "yy", "zz", "xy", "xz", "yz")
SIX = ("x", "y", "z", "rx", "ry", "rz")
SIX_BY_SIX = tuple(f"{a}{b}" for a in ("x", "y", "z", "rx", "ry", "rz") for b in ("x", "y", "z", "rx", "ry", "rz"))

HINGE, SLIDE, BALL, FREE = "hinge", "slide", "ball", "free"
JOINT_KINDS = (HINGE, SLIDE, BALL, FREE)
SCALARS, TIED = (HINGE, SLIDE), (HINGE, SLIDE, BALL)
"""Joints with one coordinate; joints that tie a body to its parent."""
FIXED = "fixed"
"""How a body without a joint hangs on its parent."""

Vector3 = tuple[float, float, float]
Quaternion4 = tuple[float, float, float, float]
INERTIAL, PLACE, FORCE, SOFTNESS, LOAD, SIGNAL, CONTACT = "inertial", "place", "force", "softness", "load", "signal", "contact"
"""What a number is for: mass and its distribution; where things are; forces; how constraints give way; friction by load; what a control or sample passes
through; contact."""


class Number(NamedTuple):
    """One field of numbers of an element."""

    components: tuple[str, ...]
    """Their names; empty for a scalar."""
    unit: str
    role: str = PLACE
    signed: bool = True
    """Whether it may be below zero."""
    linear: bool = False
    """Whether the equations of motion are linear in it, as in every inertia and every force per something."""
    kinds: tuple[str, ...] = ()
    """The kinds of its element that have it; empty: all."""


ABSURD = 1e150
"""No number of a mechanism is larger: its square would be infinite in float64 (and that of its inverse zero)."""

IDENTITY: Quaternion4 = (1.0, 0.0, 0.0, 0.0)
ZERO: Vector3 = (0.0, 0.0, 0.0)


def _coerce(element: Any) -> None:
    """Turn the numeric fields into floats and tuples of floats, and refuse what is not a finite number or has the wrong length."""
    if not isinstance(element.name, str) or not element.name.strip():
        raise ModelError(f"A {element.KIND} has the name {element.name!r}; a name must be a text that is not empty.")
    for name, number in element.NUMBERS.items():
        if not hasattr(element, name):
            continue
        where = f"{element.KIND}.{element.name}.{name}"
        object.__setattr__(element, name, numbers(getattr(element, name), len(number.components), where))


def numbers(value: Any, length: int, where: str) -> Any:
    """One float (`length` 0) or a tuple of floats, or a sentence about the field `where`."""
    try:
        if length and isinstance(value, str):
            raise TypeError
        flat = [float(value)] if length == 0 else [float(x) for x in value]
    except (TypeError, ValueError):
        expected = "a number" if length == 0 else f"{length} numbers"
        raise ModelError(f"{where} is {value!r}; give {expected}.") from None
    if length and len(flat) != length:
        raise ModelError(f"{where} has {len(flat)} numbers; give {length}.")
    if not all(abs(x) < ABSURD for x in flat):  # false for NaN too
        raise ModelError(f"{where} is {value!r}; it must be finite, give a number in SI units.")
    return flat[0] if length == 0 else tuple(flat)


def _not_negative(element: Any, *names: str) -> None:
    for name in names:
        if getattr(element, name) < 0.0:
            raise ModelError(f"{element.KIND}.{element.name}.{name} is {getattr(element, name):g}; it must not be negative.")


def _not_zero(element: Any, *names: str) -> None:
    for name in names:
        value = getattr(element, name)
        norm = math.hypot(*value)
        if not 1.0 / ABSURD < norm < ABSURD:
            raise ModelError(f"{element.KIND}.{element.name}.{name} is {value}; its length must not be zero (or absurdly large), give a direction.")


def _not_skewed(element: Any) -> None:
    """Friction that is skewed by more than itself would drive in one direction."""
    for what in ("damping", "friction"):
        skew, whole = getattr(element, f"{what}_skew"), getattr(element, what)
        if skew and getattr(element, "kind", HINGE) not in SCALARS:
            raise ModelError(
                f"{element.KIND}.{element.name} is a {element.kind} joint with {what}_skew; only hinges and slides have a direction, set it to zero."
            )
        if abs(skew) > abs(whole):
            raise ModelError(f"{element.KIND}.{element.name}.{what}_skew is {skew:g}, more than its {what} of {whole:g}; it would drive in one direction.")


@dataclass(frozen=True)
class Body:
    """A rigid body. `inertia` is about the centre of mass in body axes: (xx, yy, zz, xy, xz, yz); three numbers mean the diagonal."""

    KIND: ClassVar[str] = "body"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "mass": Number(SCALAR, "kg", INERTIAL, signed=False, linear=True),
        "com": Number(XYZ, "m", INERTIAL),
        "inertia": Number(SYMMETRIC, "kg m^2", INERTIAL, linear=True),
        "position": Number(XYZ, "m"),
        "orientation": Number(WXYZ, ""),
    }

    name: str
    parent: str = WORLD
    mass: float = 0.0
    com: Vector3 = ZERO
    inertia: tuple[float, ...] = (0.0,) * 6
    position: Vector3 = ZERO
    orientation: Quaternion4 = IDENTITY

    def __post_init__(self) -> None:
        if hasattr(self.inertia, "__len__") and len(self.inertia) == 3 and not isinstance(self.inertia, str):
            object.__setattr__(self, "inertia", (*self.inertia, 0.0, 0.0, 0.0))
        _coerce(self)
        _not_negative(self, "mass")
        _not_zero(self, "orientation")
        smallest, largest = smallest_principal_second_moment(self.inertia)
        # 1e-6: model files give about seven digits, and a flat body sits exactly on the border.
        if smallest < -1e-6 * largest or (largest > 0.0 and min(self.inertia[:3]) < 0.0):
            raise ModelError(
                f"body.{self.name}.inertia = {self.inertia} (xx yy zz xy xz yz about the centre of mass) is not the inertia of any distribution "
                "of mass: no principal moment may be negative or exceed the sum of the two others; check the signs and the reference point."
            )
        if self.mass == 0.0 and largest > 0.0 and any(self.com):
            raise ModelError(f"body.{self.name} has no mass but a centre of mass {self.com}; give it a mass or put com at zero.")


@dataclass(frozen=True)
class Joint:
    """A joint between a body and its parent. `kind`: hinge (1), slide (1), ball (3) or free (6 degrees of freedom).

    The joint's own force on its coordinate `s` (angle or position; a ball's rotation vector) at the rate `rho`:

        -stiffness (s - springref) - damping rho - (friction + stribeck exp(-(rho/stribeck_rate)^2)) sign(rho)
        - damping_skew |rho| - friction_skew

    (the second line while it moves: friction and damping are larger by the skew in the positive direction, and smaller by it in the negative one), with the sign regularised to `clip(rho/delta, -1, 1)` by the stepper, or, where dry friction is soft by itself, rounded: it acts in full from `friction_rate` on
    (`mechanics/elements/law.py`; zero: at once). `armature` is an inertia on `s` (a rotor behind a gear).
    `compliance` and `relaxation` soften the joint's constraints in `free` coordinates: `g + relaxation g' + compliance lambda = 0`;
    `angular_compliance` and `angular_relaxation` are those of the rows that hold directions (zero: the same numbers as for the others).
    Dry friction in proportion to what the joint carries (`free` coordinates) has the limit

        (load_friction + load_stribeck exp(-(rho/stribeck_rate)^2)) load

    with `load = r |force| + |torque|` of the joint's reaction for hinges and balls and `|force| + |torque|/r` for slides,
    `r = friction_radius` (a bearing's radius, a guide's length); `stepper="spook"` takes the sums of absolute components for the norms.
    """

    KIND: ClassVar[str] = "joint"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "axis": Number(XYZ, "", kinds=SCALARS),
        "anchor": Number(XYZ, "m", kinds=TIED),
        "reference": Number(SCALAR, "{s}", kinds=SCALARS),
        "stiffness": Number(SCALAR, "{f}/{s}", FORCE, linear=True),
        "springref": Number(SCALAR, "{s}", FORCE, kinds=SCALARS),
        "damping": Number(SCALAR, "{f} s/{s}", FORCE, linear=True),
        "friction": Number(SCALAR, "{f}", FORCE, signed=False, linear=True),
        "friction_rate": Number(SCALAR, "{s}/s", FORCE, signed=False, kinds=SCALARS),
        "stribeck": Number(SCALAR, "{f}", FORCE, signed=False, linear=True, kinds=SCALARS),
        "stribeck_rate": Number(SCALAR, "{s}/s", FORCE, kinds=SCALARS),
        "damping_skew": Number(SCALAR, "{f} s/{s}", FORCE, linear=True, kinds=SCALARS),
        "friction_skew": Number(SCALAR, "{f}", FORCE, linear=True, kinds=SCALARS),
        "armature": Number(SCALAR, "{i}", FORCE, signed=False, linear=True),
        "compliance": Number(SCALAR, "m/N", SOFTNESS, signed=False, kinds=TIED),
        "relaxation": Number(SCALAR, "s", SOFTNESS, signed=False, kinds=TIED),
        "angular_compliance": Number(SCALAR, "rad/(N m)", SOFTNESS, signed=False, kinds=TIED),
        "angular_relaxation": Number(SCALAR, "s", SOFTNESS, signed=False, kinds=TIED),
        "load_friction": Number(SCALAR, "", LOAD, signed=False, kinds=TIED),
        "load_stribeck": Number(SCALAR, "", LOAD, signed=False, kinds=SCALARS),
        "friction_radius": Number(SCALAR, "m", LOAD, kinds=TIED),
    }
    DERIVED: ClassVar[Mapping[str, Number]] = {"position": Number(XYZ, "m")}
    """`joint.X.position`: the anchor in the parent's frame at the reference. Setting it moves the body (`paths.py`)."""

    name: str
    body: str
    kind: str = HINGE
    axis: Vector3 = (0.0, 0.0, 1.0)
    anchor: Vector3 = ZERO
    reference: float = 0.0
    stiffness: float = 0.0
    springref: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    friction_rate: float = 0.0
    stribeck: float = 0.0
    stribeck_rate: float = 0.1
    armature: float = 0.0
    compliance: float = 0.0
    relaxation: float = 0.0
    angular_compliance: float = 0.0
    angular_relaxation: float = 0.0
    load_friction: float = 0.0
    load_stribeck: float = 0.0
    friction_radius: float = 1.0
    spring_orientation: Quaternion4 = IDENTITY
    """Where the spring of a ball or free joint is relaxed (a quaternion in place of `springref`)."""
    spring_position: Vector3 = ZERO
    """Where the spring of a free joint is relaxed."""
    damping_skew: float = 0.0
    friction_skew: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in JOINT_KINDS:
            raise ModelError(f"joint.{self.name}.kind is {self.kind!r}; give one of {', '.join(JOINT_KINDS)} (a body without a joint is fixed to its parent).")
        _coerce(self)
        for name, length in (("spring_orientation", 4), ("spring_position", 3)):
            object.__setattr__(self, name, numbers(getattr(self, name), length, f"joint.{self.name}.{name}"))
        _not_zero(self, "axis", "spring_orientation")
        _not_negative(self, "friction", "friction_rate", "stribeck", "armature", "compliance", "relaxation", "angular_compliance", "angular_relaxation")
        _not_negative(self, "load_friction", "load_stribeck")
        if self.friction_radius <= 0.0:
            raise ModelError(f"joint.{self.name}.friction_radius is {self.friction_radius:g}; give a length above zero (the radius of the bearing).")
        if self.stribeck_rate <= 0.0:
            raise ModelError(
                f"joint.{self.name}.stribeck_rate is {self.stribeck_rate:g}; give a rate above zero (the rate at which the extra friction has fallen to 37 %)."
            )
        if max(self.stribeck, self.load_stribeck) > 0.0 and self.kind in (BALL, FREE):
            raise ModelError(f"joint.{self.name} is a {self.kind} joint with Stribeck friction; only hinges and slides have it, use friction instead.")
        _not_skewed(self)
        if self.load_friction > 0.0 and self.kind == FREE:
            raise ModelError(f"joint.{self.name} is free and carries no load, so its load_friction would do nothing; set it to zero.")

    @property
    def soft(self) -> bool:
        """Whether any of the joint's constraints is compliant."""
        return self.compliance > 0.0 or self.angular_compliance > 0.0

    @property
    def units(self) -> dict[str, str]:
        """What `{s}`, `{f}` and `{i}` stand for: the coordinate, its force and its inertia."""
        linear = self.kind == SLIDE
        return {"s": "m" if linear else "rad", "f": "N" if linear else "N m", "i": "kg" if linear else "kg m^2"}


@dataclass(frozen=True)
class Locked:
    """A joint that a file has and holds where it is."""

    joint: Joint
    """Its coordinate is zero where it is held."""
    before: str = ""
    """The joint of the same body that comes after it; empty: none."""


@dataclass(frozen=True)
class Site:
    """A named frame fixed in a body: a marker, an attachment, the place of a sensor."""

    KIND: ClassVar[str] = "site"
    NUMBERS: ClassVar[Mapping[str, Number]] = {"position": Number(XYZ, "m"), "orientation": Number(WXYZ, "")}

    name: str
    body: str
    position: Vector3 = ZERO
    orientation: Quaternion4 = IDENTITY

    def __post_init__(self) -> None:
        _coerce(self)
        _not_zero(self, "orientation")


POINT, WELD, COUPLING, DISTANCE, CURVE, UNIVERSAL, CYLINDRICAL, ROLLING, KNIFE = (
    "point",
    "weld",
    "coupling",
    "distance",
    "curve",
    "universal",
    "cylindrical",
    "rolling",
    "knife",
)
LOOP_KINDS = (POINT, WELD, COUPLING, DISTANCE, CURVE, HINGE, UNIVERSAL, CYLINDRICAL, SLIDE, ROLLING, KNIFE)
BETWEEN_COORDINATES = (COUPLING, CURVE)
"""Loops that tie joint coordinates, not bodies."""
PLACED = tuple(kind for kind in LOOP_KINDS if kind not in BETWEEN_COORDINATES)
ORIENTED = (WELD, HINGE, UNIVERSAL, CYLINDRICAL, SLIDE, ROLLING, KNIFE)
MAY_BE_SOFT = tuple(kind for kind in LOOP_KINDS if kind not in (ROLLING, KNIFE))
MASKS = ("xyz", "xy", "xz", "yz", "x", "y", "z")
"""Along which axes of its first frame a point is held."""


def along(axis: Vector3) -> Quaternion4:
    """The orientation of a frame whose z axis is `axis`, by the shortest turn: for the frames of loops that are hinges or slides."""
    x, y, z = axis
    length = math.hypot(x, y, z)
    if not 1.0 / ABSURD < length < ABSURD:
        raise ModelError(f"The axis {axis} has no direction; give one whose length is not zero.")
    if z < -0.999_999 * length:  # nearly opposite: a half turn about x, then the short rest
        w, a, b, c = along((x, -y, -z))
        return (-a, w, -c, b)
    w, a, b = 1.0 + z / length, -y / length, x / length
    norm = math.hypot(w, a, b)
    return (w / norm, a / norm, b / norm, 0.0)


@dataclass(frozen=True)
class Loop:
    """What closes a kinematic loop, beyond the tree of bodies.

    - point: the point `anchor1` of `body1` coincides with `anchor2` of `body2` (three equations); with a `mask` such as "x" or "xy" only along these
      axes of the frame (`anchor1`, `orientation1`): on a plane, on a line (one, two);
    - weld: the frame (`anchor1`, `orientation1`) of `body1` coincides with that of `body2` (six);
    - coupling: `s1 - reference1 = polynomial(s2 - reference2)` between the coordinates of two hinges or slides (one); without
      `joint2`, `s1` is held at `reference1 + polynomial[0]`;
    - distance: the two points are joined by a massless rod of the given `length` (one);
    - curve: `s1 - reference1 = f(s2 - reference2)`, f the smooth curve through the knots `curve` (one): a knee whose bones roll on each other;
    - hinge: the points coincide, and so do the z axes of the two frames (five);
    - universal: the points coincide, and the z axis of the first frame is perpendicular to the x axis of the second: the two arms of the cross (four);
    - cylindrical: the second point is on the z axis of the first frame, and the z axes are parallel (four);
    - slide: the same, and the frames do not turn against each other (five);
    - rolling: a disc of radius `length` with its centre at `anchor1` and its axle along the z axis of the first frame rolls without slipping on the x-y plane of the
      second, which is fixed to the world (one on places, two on velocities);
    - knife: the point `anchor1` does not move along the y axis of the first frame, against the world (one on velocities): a skate, a wheel.
    """

    KIND: ClassVar[str] = "loop"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "anchor1": Number(XYZ, "m", kinds=PLACED),
        "anchor2": Number(XYZ, "m", kinds=PLACED),
        "orientation1": Number(WXYZ, "", kinds=(POINT, *ORIENTED)),
        "orientation2": Number(WXYZ, "", kinds=ORIENTED),
        "polynomial": Number(("c0", "c1", "c2", "c3", "c4"), "", kinds=(COUPLING,)),
        "length": Number(SCALAR, "m", signed=False, kinds=(DISTANCE, ROLLING)),
        "compliance": Number(SCALAR, "m/N", SOFTNESS, signed=False, kinds=MAY_BE_SOFT),
        "relaxation": Number(SCALAR, "s", SOFTNESS, signed=False, kinds=MAY_BE_SOFT),
    }

    name: str
    kind: str = POINT
    body1: str = WORLD
    body2: str = WORLD
    anchor1: Vector3 = ZERO
    anchor2: Vector3 = ZERO
    orientation1: Quaternion4 = IDENTITY
    orientation2: Quaternion4 = IDENTITY
    joint1: str = ""
    joint2: str = ""
    polynomial: tuple[float, float, float, float, float] = (0.0, 1.0, 0.0, 0.0, 0.0)
    compliance: float = 0.0
    relaxation: float = 0.0
    length: float = 0.0
    """Of a rod, or the radius of a disc that rolls [m]."""
    curve: tuple[tuple[float, float, float], ...] = ()
    """Knots (x, y, slope) with x increasing: cubics between them, straight lines beyond."""
    mask: str = "xyz"
    """Of a point."""

    @property
    def holds(self) -> str:
        """Its kind, or what the mask makes of it: "point.xy"."""
        return self.kind if self.mask == MASKS[0] else f"{self.kind}.{self.mask}"

    def __post_init__(self) -> None:
        if self.kind not in LOOP_KINDS:
            raise ModelError(f"loop.{self.name}.kind is {self.kind!r}; give one of {', '.join(LOOP_KINDS)}.")
        _coerce(self)
        if self.mask not in (MASKS if self.kind == POINT else MASKS[:1]):
            raise ModelError(f"loop.{self.name}.mask is {self.mask!r}; give one of {', '.join(MASKS)}, and only to a loop of kind point.")
        _not_zero(self, "orientation1", "orientation2")
        _not_negative(self, "compliance", "relaxation")
        if self.kind == ROLLING and self.length <= 0.0:
            raise ModelError(f"loop.{self.name}.length is {self.length:g}; it is the radius of the disc that rolls, give a length above zero.")
        if self.kind not in MAY_BE_SOFT and (self.body2 != WORLD or self.compliance):
            raise ModelError(f"loop.{self.name} is of kind {self.kind}, which is rigid and against the world; leave body2 and compliance out.")
        if self.kind == DISTANCE and self.length <= 0.0:
            raise ModelError(f"loop.{self.name}.length is {self.length:g}; a rod has a length above zero (two points that coincide are a loop of kind point).")
        if self.kind in BETWEEN_COORDINATES and not self.joint1:
            raise ModelError(f"loop.{self.name} couples joints but names no joint1; give the joint whose coordinate it determines.")
        if self.kind == CURVE:
            self._check_curve()
        if self.kind not in BETWEEN_COORDINATES and self.body1 == self.body2:
            raise ModelError(f"loop.{self.name} ties body {self.body1!r} to itself; give two different bodies.")

    def _check_curve(self) -> None:
        if not self.joint2:
            raise ModelError(f"loop.{self.name} is a curve but names no joint2; give the joint whose coordinate it follows.")
        knots = tuple(numbers(knot, 3, f"loop.{self.name}.curve") for knot in self.curve)
        if len(knots) < 2 or any(b[0] <= a[0] for a, b in pairwise(knots)):
            raise ModelError(f"loop.{self.name}.curve has {len(knots)} knots; give at least two, as (x, y, slope), with x increasing.")
        object.__setattr__(self, "curve", knots)


@dataclass(frozen=True)
class Spring:
    """A spring-damper between the point `point1` of `body1` and `point2` of `body2`, along the line that joins them.

    The tension is `stiffness (length - rest_length) + damping d(length)/dt`.
    """

    KIND: ClassVar[str] = "spring"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "point1": Number(XYZ, "m"),
        "point2": Number(XYZ, "m"),
        "stiffness": Number(SCALAR, "N/m", FORCE, linear=True),
        "damping": Number(SCALAR, "N s/m", FORCE, linear=True),
        "rest_length": Number(SCALAR, "m", FORCE, signed=False),
    }

    name: str
    body1: str = WORLD
    body2: str = WORLD
    point1: Vector3 = ZERO
    point2: Vector3 = ZERO
    stiffness: float = 0.0
    damping: float = 0.0
    rest_length: float = 0.0

    def __post_init__(self) -> None:
        _coerce(self)
        _not_negative(self, "rest_length")


@dataclass(frozen=True)
class Bushing:
    """A 6x6 spring-damper between two frames. With `d` the displacement (in frame 1) and the rotation vector of frame 2 against frame 1,
    `(force, moment) = -K d - D d'`, both matrices row by row (36 numbers) in the order x y z rx ry rz. Each of the six may give in addition

        -k_plus max(d, 0) - k_minus min(d, 0) - k3 d^3

    where it is stiffer in one direction than in the other (tension and compression of a disc) or the more the further it goes (the soft tissue of a wobbling mass,
    which is a body with a free joint on a bushing)."""

    KIND: ClassVar[str] = "bushing"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "point1": Number(XYZ, "m"),
        "point2": Number(XYZ, "m"),
        "orientation1": Number(WXYZ, ""),
        "orientation2": Number(WXYZ, ""),
        "stiffness": Number(SIX_BY_SIX, "N/m, N/rad or N m/rad", FORCE, linear=True),
        "damping": Number(SIX_BY_SIX, "N s/m, N s/rad or N m s/rad", FORCE, linear=True),
        "k_plus": Number(SIX, "N/m or N m/rad", FORCE, linear=True),
        "k_minus": Number(SIX, "N/m or N m/rad", FORCE, linear=True),
        "k3": Number(SIX, "N/m^3 or N m/rad^3", FORCE, linear=True),
    }

    name: str
    body1: str = WORLD
    body2: str = WORLD
    point1: Vector3 = ZERO
    point2: Vector3 = ZERO
    orientation1: Quaternion4 = IDENTITY
    orientation2: Quaternion4 = IDENTITY
    stiffness: tuple[float, ...] = (0.0,) * 36
    damping: tuple[float, ...] = (0.0,) * 36
    k_plus: tuple[float, ...] = (0.0,) * 6
    k_minus: tuple[float, ...] = (0.0,) * 6
    k3: tuple[float, ...] = (0.0,) * 6

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping"):
            value = getattr(self, name)
            try:
                value = [x for row in value for x in row] if len(value) == 6 and hasattr(value[0], "__len__") else value
                if len(value) == 6:  # a diagonal
                    value = [value[i] if i == j else 0.0 for i in range(6) for j in range(6)]
            except TypeError:
                pass  # not a sequence: refused below, in a sentence
            object.__setattr__(self, name, value)
        _coerce(self)
        _not_zero(self, "orientation1", "orientation2")


@dataclass(frozen=True)
class Transmission:
    """A combination `z` of the coordinates of hinges and slides, the sum of `coefficients` times coordinates, with a law like a joint's: a gear train, a coupled wrist, the
    flexible shaft between a motor and its link. The force on z, at the rate rho = z',

        -stiffness y(z - springref) - damping rho - (friction + stribeck exp(-(rho/stribeck_rate)^2)) sign(rho)

    acts on every joint times its coefficient; `armature` is an inertia on z (a rotor that turns by z). `backlash` is the play of the spring, y the part of a deflection x
    that is beyond it: x -+ backlash/2, and nothing between; its corners are rounded over a tenth of half the play (`mechanics/elements/law.py`). `damping_skew` and
    `friction_skew` as of a joint.
    """

    KIND: ClassVar[str] = "transmission"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "stiffness": Number(SCALAR, "{f}/{s}", FORCE, linear=True),
        "springref": Number(SCALAR, "{s}", FORCE),
        "damping": Number(SCALAR, "{f} s/{s}", FORCE, linear=True),
        "friction": Number(SCALAR, "{f}", FORCE, signed=False, linear=True),
        "friction_rate": Number(SCALAR, "{s}/s", FORCE, signed=False),
        "stribeck": Number(SCALAR, "{f}", FORCE, signed=False, linear=True),
        "stribeck_rate": Number(SCALAR, "{s}/s", FORCE),
        "damping_skew": Number(SCALAR, "{f} s/{s}", FORCE, linear=True),
        "friction_skew": Number(SCALAR, "{f}", FORCE, linear=True),
        "armature": Number(SCALAR, "{i}", FORCE, signed=False, linear=True),
        "backlash": Number(SCALAR, "{s}", FORCE, signed=False),
    }

    name: str
    joints: tuple[str, ...]
    coefficients: tuple[float, ...]
    stiffness: float = 0.0
    springref: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    friction_rate: float = 0.0
    stribeck: float = 0.0
    stribeck_rate: float = 0.1
    armature: float = 0.0
    backlash: float = 0.0
    damping_skew: float = 0.0
    friction_skew: float = 0.0

    def __post_init__(self) -> None:
        _coerce(self)
        if isinstance(self.joints, str) or not self.joints or not all(isinstance(j, str) for j in self.joints) or len(set(self.joints)) < len(self.joints):
            raise ModelError(f"transmission.{self.name}.joints is {self.joints!r}; give the names of one or more different joints.")
        object.__setattr__(self, "joints", tuple(self.joints))
        object.__setattr__(self, "coefficients", numbers(self.coefficients, len(self.joints), f"transmission.{self.name}.coefficients"))
        if not all(self.coefficients):
            raise ModelError(f"transmission.{self.name}.coefficients is {self.coefficients}; leave out joints that it does not turn with.")
        _not_negative(self, "friction", "friction_rate", "stribeck", "armature", "backlash")
        _not_skewed(self)
        if self.stribeck_rate <= 0.0:
            raise ModelError(f"transmission.{self.name}.stribeck_rate is {self.stribeck_rate:g}; give a rate above zero.")


@dataclass(frozen=True)
class Actuator:
    """A drive on the coordinate `s` of a hinge, a slide or a `transmission` (its force is then shared out by the coefficients), or on the length of a `path`. With the control `u` (mean over an interval, `delay` seconds late and behind a
    first-order lag, `time_constant x' + x = u`)

        force = gear clip(gain u + bias - stiffness gear s - damping gear s', force_range)

    A DC motor with torque constant k and resistance R driven by a voltage: `gain = k/R`, `damping = k^2/R`.
    A position servo: `gain = stiffness = kp`. `control_range` clips `u`, `force_range` what is in front of the gear.
    """

    KIND: ClassVar[str] = "actuator"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "gain": Number(SCALAR, "{f}/unit of control", FORCE, linear=True),
        "gear": Number(SCALAR, "", FORCE),
        "bias": Number(SCALAR, "{f}", FORCE, linear=True),
        "stiffness": Number(SCALAR, "{f}/{s}", FORCE, linear=True),
        "damping": Number(SCALAR, "{f} s/{s}", FORCE, linear=True),
        "delay": Number(SCALAR, "s", SIGNAL, signed=False),
        "time_constant": Number(SCALAR, "s", SIGNAL, signed=False),
    }

    name: str
    joint: str = ""
    gain: float = 1.0
    gear: float = 1.0
    bias: float = 0.0
    stiffness: float = 0.0
    damping: float = 0.0
    delay: float = 0.0
    control_range: tuple[float, float] | None = None
    time_constant: float = 0.0
    force_range: tuple[float, float] | None = None
    transmission: str = ""
    path: str = ""

    def __post_init__(self) -> None:
        _coerce(self)
        _not_negative(self, "delay", "time_constant")
        if sum(map(bool, (self.joint, self.transmission, self.path))) != 1:
            raise ModelError(f"actuator.{self.name} needs one thing to act on; give it either a joint, a transmission or a path.")
        for name in ("control_range", "force_range"):
            if getattr(self, name) is not None:
                low, high = numbers(getattr(self, name), 2, f"actuator.{self.name}.{name}")
                if low > high:
                    raise ModelError(f"actuator.{self.name}.{name} is ({low:g}, {high:g}); give the lower limit first.")
                object.__setattr__(self, name, (low, high))


@dataclass(frozen=True)
class Sensor:
    """A measured channel: `gain * channel(t - delay) + bias`, with white noise of standard deviation `sd` (0: unknown)."""

    KIND: ClassVar[str] = "sensor"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "bias": Number(SCALAR, "channel unit", SIGNAL),
        "gain": Number(SCALAR, "", SIGNAL),
        "delay": Number(SCALAR, "s", SIGNAL, signed=False),
        "sd": Number(SCALAR, "channel unit", SIGNAL, signed=False),
    }

    name: str
    channel: str
    bias: float = 0.0
    gain: float = 1.0
    delay: float = 0.0
    sd: float = 0.0

    def __post_init__(self) -> None:
        _coerce(self)
        _not_negative(self, "delay", "sd")


@dataclass(frozen=True)
class Geometry:
    """A shape to draw, and to touch others with where a `Contact` names it: kind sphere, capsule, cylinder, box, ellipsoid, plane or mesh, sizes as half-lengths [m].

    Capsules and cylinders lie along their z axis; a plane is its x-y plane, and what touches it is on the side of z.
    """

    KIND: ClassVar[str] = "geometry"
    NUMBERS: ClassVar[Mapping[str, Number]] = {"position": Number(XYZ, "m"), "orientation": Number(WXYZ, "")}

    name: str
    body: str
    kind: str
    size: tuple[float, ...] = ()
    position: Vector3 = ZERO
    orientation: Quaternion4 = IDENTITY
    color: tuple[float, float, float, float] = (0.5, 0.5, 0.5, 1.0)

    def __post_init__(self) -> None:
        _coerce(self)
        _not_zero(self, "orientation")


@dataclass(frozen=True)
class World:
    """Gravity [m/s^2] and its tilt [rad]: `gravity` is turned by tilt.z about the z axis, then by the rotation vector (tilt.x, tilt.y, 0).

    With gravity along z, tilt.z changes nothing. The ground, for contacts that name it, is the plane through (0, 0, ground_height), turned from the horizontal by the
    rotation vector (ground_tilt.x, ground_tilt.y, 0).
    """

    KIND: ClassVar[str] = "world"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "gravity": Number(XYZ, "m/s^2", FORCE),
        "tilt": Number(XYZ, "rad", FORCE),
        "ground_height": Number(SCALAR, "m", CONTACT),
        "ground_tilt": Number(("x", "y"), "rad", CONTACT),
    }

    name: str = "gravity"
    gravity: Vector3 = (0.0, 0.0, -9.81)
    tilt: Vector3 = ZERO
    ground_height: float = 0.0
    ground_tilt: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        _coerce(self)


def unchecked(element: Any, **changes: Any) -> Any:
    """A copy with other numbers whose physical possibility is not checked (an iterate of an estimation, never a user's input)."""
    new = object.__new__(type(element))
    for f in fields(element):
        object.__setattr__(new, f.name, changes.get(f.name, getattr(element, f.name)))
    _coerce(new)
    return new


__all__ = [
    "along", "Actuator", "Body", "Bushing", "Geometry", "Joint", "Loop", "Sensor", "Site", "Spring", "Transmission", "World",
    "BALL", "COUPLING", "CURVE", "CYLINDRICAL", "DISTANCE", "FREE", "HINGE", "MASKS", "KNIFE", "POINT", "ROLLING", "SLIDE", "UNIVERSAL", "WELD", "WORLD", "JOINT_KINDS", "LOOP_KINDS",
]  # fmt: skip
