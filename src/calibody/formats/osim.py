"""Reading OpenSim models (.osim, of versions 3 and 4): bodies, joints, coordinates with their locks, markers, couplers and motors of coordinates.

A joint places the frame M of the child in the frame F of the parent by translations along and then rotations about given axes, each a function of a
coordinate (`spatial`). An axis that is `+-q + constant` is a hinge or slide with the name of the coordinate q; the others of the same coordinate (a knee whose
bones roll on each other) are hinges and slides tied to it by a coupling or a curve; constants are part of where the body is placed. A locked
coordinate is a constant too (`Model.locked` has its joint, so that a fit can say that it moved). What moves the mechanism but has no counterpart here (muscles, ligaments, contact) is listed in the model's notes.

OpenSim's z axis is no vertical: gravity is the file's vector, usually along -y.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from calibody.errors import FormatError
from calibody.formats.edit import Document, Element
from calibody.formats.functions import MOST_COEFFICIENTS, Function, Knots, Polynomial, simm_spline
from calibody.formats.possible import nearest_possible, repaired_note
from calibody.formats.source import OSIM, Key, Source
from calibody.model import Actuator, Body, Joint, Loop, Model, Site, World
from calibody.model.elements import BALL, COUPLING, CURVE, FREE, HINGE, SLIDE, WORLD, Locked
from calibody.spatial import algebra as al

GROUND = "ground"
OLDEST = 20000
"""Version (of the root element): older files are not read."""
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
TURN, SHIFT = "rotation", "translation"
SPLINES = ("SimmSpline", "NaturalCubicSpline", "natCubicSpline")
OWN_AXES = {
    "WeldJoint": (), "PinJoint": ((TURN, Z),), "SliderJoint": ((SHIFT, X),), "UniversalJoint": ((TURN, X), (TURN, Y)),
    "GimbalJoint": ((TURN, X), (TURN, Y), (TURN, Z)), "PlanarJoint": ((TURN, Z), (SHIFT, X), (SHIFT, Y)), "BallJoint": (), "FreeJoint": (), "CustomJoint": (),
}  # fmt: skip
"""Kinds of joints and the axes of those that are not described by themselves, in the order of their coordinates."""
MOTORS = ("CoordinateActuator",)


@dataclass(frozen=True)
class Coordinate:
    name: str
    default: float
    locked: bool


@dataclass(frozen=True)
class Axis:
    """One of the six motions of a joint."""

    name: str
    kind: str
    """`TURN` or `SHIFT`."""
    direction: np.ndarray
    """In F."""
    coordinate: str
    """Empty for a constant."""
    function: Function


@dataclass(frozen=True)
class OpenSimJoint:
    name: str
    element: Element
    parent: str
    child: str
    in_parent: np.ndarray
    """(4, 4) F in the parent body."""
    in_child: np.ndarray
    """M in the child body."""
    coordinates: tuple[Coordinate, ...]
    axes: tuple[Axis, ...]
    """Translations first: they are along the axes of F."""
    whole: str = ""
    """`BALL` or `FREE`: three rotations at once."""
    placed_by: Element | None = None
    """The element that has the place of F."""


@dataclass
class Reading:
    """What is found while a file is read."""

    bodies: list[Body] = field(default_factory=list)
    joints: list[Joint] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    elements: dict[Key, Element] = field(default_factory=dict)
    locked: list[Locked] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    """Bodies whose inertia was not possible."""


def read(document: Document, path: Path, touching: bool = False) -> tuple[Model, Source]:
    """The model in an OpenSim document, and what is needed to write it back."""
    root = _model(document)
    found = Reading()
    joints = _one_joint_each(_joints(root))
    followers = _couplers(root, {c.name: c for j in joints for c in j.coordinates})
    placements = {j.child: j.placed_by for j in joints if j.placed_by is not None}
    _bodies(root, joints, followers, found)
    sites = _markers(root, found)
    actuators = _motors(root, found)
    notes = [*_not_represented(root, joints, touching), *repaired_note(found.repaired, "bodies")]
    x, y, z = _floats(root, "gravity", 3, (0.0, -9.80665, 0.0))
    model = Model(
        root.attributes.get("name") or path.stem, found.bodies, found.joints, found.loops, actuators=actuators, sites=sites, world=World(gravity=(x, y, z)), notes=tuple(notes), locked=found.locked
    )  # fmt: skip
    return model, Source(path, OSIM, document, model, found.elements, {("placement", child): e for child, e in placements.items()})


def _model(document: Document) -> Element:
    root = document.root
    version = root.attributes.get("Version", "")
    if not version.isdigit() or int(version) < OLDEST:
        raise FormatError(f"{root.where}: the file is of version {version or 'unknown'}; open and save it with OpenSim 3 or 4.")
    model = root.first("Model")
    if model is None:
        raise FormatError(f"{root.where}: the file has no <Model> (a setup file of a tool, perhaps); give the model it names.")
    return model


# -- numbers and texts ---------------------------------------------------------------------------------------------------------------


def _objects(root: Element, name: str) -> list[Element]:
    holder = root.first(name)
    objects = holder.first("objects") if holder is not None else None
    return list(objects.children) if objects is not None else []


def _text(element: Element, tag: str, default: str = "") -> str:
    child = element.first(tag)
    return child.text if child is not None else default


def _name(element: Element) -> str:
    name = element.attributes.get("name", "").strip()
    if not name:
        raise FormatError(f"{element.where}: <{element.tag}> has no name; give it one.")
    return name


def _floats(element: Element, tag: str, count: int, default: Iterable[float] | None = None) -> tuple[float, ...]:
    child = element.first(tag)
    if (child is None or not child.text) and default is not None:
        return tuple(default)
    words = child.text.split() if child is not None else []
    try:
        values = tuple(float(w) for w in words)
    except ValueError:
        values = ()
    if len(values) != count or not np.isfinite(values).all():
        where = (child or element).where
        raise FormatError(f"{where}: <{tag}> of <{element.tag}> is {' '.join(words)[:60]!r}; it needs {count} number{'s' if count > 1 else ''}.")
    return values


def _true(element: Element, tag: str) -> bool:
    return _text(element, tag).lower() == "true"


def _frame(translation: Iterable[float], orientation: Iterable[float]) -> np.ndarray:
    """Rotations about x, then the new y, then the new z."""
    a, b, c = orientation
    R = al.matmul(al.matmul(al.axis_angle(X, a), al.axis_angle(Y, b)), al.axis_angle(Z, c))
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = np.array(R), tuple(translation)
    return out


# -- joints as they stand in the file ------------------------------------------------------------------------------------------------


def _joints(root: Element) -> list[OpenSimJoint]:
    nested = [(body, joint) for body in _objects(root, "BodySet") if (holder := body.first("Joint")) is not None for joint in holder.children]
    if nested:
        return [_nested_joint(joint, _name(body)) for body, joint in nested]
    return [_joint(joint) for joint in _objects(root, "JointSet")]


def _nested_joint(element: Element, child: str) -> OpenSimJoint:
    """Version 3: the joint stands in its child and has the places of its frames."""
    in_parent = _frame(_floats(element, "location_in_parent", 3, (0,) * 3), _floats(element, "orientation_in_parent", 3, (0,) * 3))
    in_child = _frame(_floats(element, "location", 3, (0,) * 3), _floats(element, "orientation", 3, (0,) * 3))
    holder = element.first("CoordinateSet")
    objects = holder.first("objects") if holder is not None else None
    coordinates = [c for c in (objects.children if objects is not None else ()) if c.tag == "Coordinate"]
    return _described(element, _text(element, "parent_body", GROUND), child, in_parent, in_child, coordinates, element.first("location_in_parent"))


def _joint(element: Element) -> OpenSimJoint:
    """Version 4: frames are named, those of the joint's own stand in it."""
    frames: dict[str, tuple[str, np.ndarray]] = {}
    places: dict[str, Element | None] = {}
    holder = element.first("frames")
    for frame in holder.children if holder is not None else ():
        body = _body_of(_text(frame, "socket_parent") or _text(frame, "socket_parent_frame"))
        pose = _frame(_floats(frame, "translation", 3, (0,) * 3), _floats(frame, "orientation", 3, (0,) * 3))
        frames[_name(frame)], places[_name(frame)] = (body, pose), frame.first("translation")
    parent, child = _text(element, "socket_parent_frame"), _text(element, "socket_child_frame")
    held = element.first("coordinates")
    coordinates = [c for c in (held.children if held is not None else ()) if c.tag == "Coordinate"]
    (parent_body, in_parent), (child_body, in_child) = (frames.get(n.rpartition("/")[2], (_body_of(n), np.eye(4))) for n in (parent, child))
    return _described(element, parent_body, child_body, in_parent, in_child, coordinates, places.get(parent.rpartition("/")[2]))


def _body_of(socket: str) -> str:
    return socket.rpartition("/")[2]


def _described(
    element: Element, parent: str, child: str, in_parent: np.ndarray, in_child: np.ndarray, coordinates: list[Element], placed_by: Element | None
) -> OpenSimJoint:
    kind, name = element.tag, _name(element)
    if kind not in OWN_AXES:
        raise FormatError(f'{element.where}: joint "{name}" is a {kind}, which is not represented; replace it by a CustomJoint.')
    if _true(element, "reverse"):
        raise FormatError(f'{element.where}: joint "{name}" is reversed; exchange its parent and child bodies.')
    own = tuple(Coordinate(_name(c), _floats(c, "default_value", 1, (0.0,))[0], _true(c, "locked")) for c in coordinates)
    if kind == "CustomJoint":
        axes = _spatial_transform(element, name)
    else:
        fixed = OWN_AXES[kind]
        if len(own) < len(fixed):
            raise FormatError(f'{element.where}: joint "{name}" is a {kind} with {len(own)} coordinates; it has {len(fixed)}.')
        axes = [Axis(c.name, k, np.array(d), c.name, Polynomial((0.0, 1.0))) for (k, d), c in zip(fixed, own, strict=False)]
    axes = sorted(axes, key=lambda axis: axis.kind == TURN)  # stable: translations first
    whole = {"BallJoint": BALL, "FreeJoint": FREE}.get(kind, "")
    return OpenSimJoint(name, element, parent, child, in_parent, in_child, own, tuple(axes), whole, placed_by)


def _spatial_transform(element: Element, name: str) -> list[Axis]:
    holder = element.first("SpatialTransform")
    if holder is None:
        raise FormatError(f'{element.where}: the CustomJoint "{name}" has no <SpatialTransform>.')
    out = []
    for axis in (a for a in holder.children if a.tag == "TransformAxis"):
        label = _name(axis)
        kind = TURN if label.startswith(TURN) else SHIFT
        names = _text(axis, "coordinates").split()
        function = _function_in(axis)
        if len(names) > 1:
            raise FormatError(f'{axis.where}: {label} of joint "{name}" depends on {len(names)} coordinates; one is represented.')
        direction = np.array(_floats(axis, "axis", 3))
        if not np.linalg.norm(direction):
            raise FormatError(f'{axis.where}: {label} of joint "{name}" has an axis of no length; give a direction.')
        out.append(Axis(label, kind, direction / np.linalg.norm(direction), names[0] if names else "", function if names else Polynomial((function(0.0),))))
    return out


def _function_in(element: Element) -> Function:
    """The function that an element holds, directly or inside <function>."""
    holder = element.first("function") or element.first("coupled_coordinates_function") or element
    known = [c for c in holder.children if c.tag in FUNCTIONS]
    if known:
        return FUNCTIONS[known[0].tag](known[0])
    others = [c.tag for c in holder.children if c.tag.endswith(("Function", "Spline"))]
    if others:
        raise FormatError(f"{holder.where}: a {others[0]} is not represented in joints; use one of {', '.join(FUNCTIONS)}.")
    return Polynomial((0.0,))


def _polynomial(element: Element) -> Function:
    """Coefficients are highest first."""
    count = len(_text(element, "coefficients").split())
    if count > MOST_COEFFICIENTS:
        raise FormatError(f"{element.where}: a polynomial of degree {count - 1} is not represented; use at most {MOST_COEFFICIENTS - 1}, or a SimmSpline.")
    return Polynomial(tuple(reversed(_floats(element, "coefficients", max(count, 1)))))


def _spline(element: Element) -> Function:
    count = len(_text(element, "x").split())
    x, y = (_floats(element, tag, max(count, 2)) for tag in ("x", "y"))
    if any(b <= a for a, b in pairwise(x)):
        raise FormatError(f"{element.where}: the x of a {element.tag} do not increase; sort its points.")
    return simm_spline(x, y)


FUNCTIONS = {
    "Constant": lambda e: Polynomial(_floats(e, "value", 1)),
    "LinearFunction": _polynomial,
    "PolynomialFunction": _polynomial,
    "MultiplierFunction": lambda e: _function_in(e).scaled(_floats(e, "scale", 1, (1.0,))[0]),
    **{tag: _spline for tag in SPLINES},
}


def _one_joint_each(joints: list[OpenSimJoint]) -> list[OpenSimJoint]:
    repeated = [child for child, count in Counter(j.child for j in joints).items() if count > 1]
    if repeated:
        joint = next(j for j in joints if j.child == repeated[0])
        raise FormatError(f'{joint.element.where}: body "{repeated[0]}" is the child of more than one joint; close the loop with a constraint.')
    return joints


# -- couplers ------------------------------------------------------------------------------------------------------------------------


def _couplers(root: Element, coordinates: dict[str, Coordinate]) -> dict[str, tuple[str, Function, Element]]:
    """Dependent coordinate -> the one it follows, how, and where that stands."""
    out = {}
    for element in _objects(root, "ConstraintSet"):
        if _true(element, "isDisabled") or _text(element, "isEnforced", "true").lower() == "false":
            continue
        if element.tag != "CoordinateCouplerConstraint":
            raise FormatError(f"{element.where}: a {element.tag} is not represented; disable it, or replace it by joints and couplers of coordinates.")
        leaders, follower = _text(element, "independent_coordinate_names").split(), _text(element, "dependent_coordinate_name")
        missing = [n for n in (*leaders, follower) if n not in coordinates]
        if len(leaders) != 1 or missing:
            raise FormatError(
                f"{element.where}: a coupler needs one leading and one following coordinate of the model; it has {' '.join(leaders)!r} and {follower!r}."
            )
        out[follower] = (leaders[0], _function_in(element).scaled(_floats(element, "scale_factor", 1, (1.0,))[0]), element)
    return out


# -- bodies with their hinges and slides ---------------------------------------------------------------------------------------------


def _bodies(root: Element, joints: list[OpenSimJoint], followers: dict[str, tuple[str, Function, Element]], found: Reading) -> None:
    by_child = {j.child: j for j in joints}
    for element in _objects(root, "BodySet"):
        name = _name(element)
        if name == GROUND:
            continue
        joint = by_child.get(name)
        if joint is None:
            raise FormatError(f'{element.where}: body "{name}" is the child of no joint; OpenSim needs one, give it a FreeJoint to the ground.')
        _JointReading(joint, followers, found).place(element)
    for follower, (leader, function, element) in followers.items():
        if {follower, leader} <= {j.name for j in found.joints}:
            found.loops.append(_tie(f"{follower}_coupler", follower, leader, function))
            found.elements["loop", f"{follower}_coupler"] = element


@dataclass(frozen=True)
class _JointReading:
    """One joint, turned into what the model has."""

    joint: OpenSimJoint
    followers: dict[str, tuple[str, Function, Element]]
    found: Reading

    def place(self, element: Element) -> None:
        """The body, and its joints in the order in which they move it."""
        j = self.joint
        steps = list(self._steps())
        where, moving, joints, held = j.in_parent, [], [], []
        for step in steps:
            if isinstance(step, np.ndarray):
                where, back = where @ step, np.linalg.inv(step)
                moving = [(joint, back[:3, :3] @ axis, back[:3, :3] @ anchor + back[:3, 3]) for joint, axis, anchor in moving]
            else:
                moving.append((step[0], step[1], np.zeros(3)))
        to_child = j.in_child
        where = where @ np.linalg.inv(to_child)
        body = self._inertial(element, where)
        self.found.bodies.append(body)
        self.found.elements["body", body.name] = element
        before = ""
        for (name, kind), axis, anchor in reversed(moving):
            at = to_child[:3, :3] @ anchor + to_child[:3, 3]
            joint = Joint(name, body.name, kind, axis=_tuple(to_child[:3, :3] @ axis), anchor=_tuple(at))
            if any(c.name == name and c.locked for c in j.coordinates):
                held.insert(0, Locked(joint, before))
            else:
                before, self.found.elements["joint", name] = name, j.element
                joints.insert(0, joint)
        self.found.joints += joints
        self.found.locked += held
        if j.whole:
            self._whole(body)

    def _inertial(self, element: Element, where: np.ndarray) -> Body:
        name, parent = _name(element), WORLD if self.joint.parent == GROUND else self.joint.parent
        mass, com, given = _floats(element, "mass", 1, (0.0,))[0], _floats(element, "mass_center", 3, (0.0,) * 3), _inertia(element)
        inertia = nearest_possible(given)
        if inertia != given:
            self.found.repaired.append(name)
        orientation = tuple(float(x) for x in al.matrix_quaternion(where[:3, :3]))
        return Body(name, parent, mass, com if mass else (0.0,) * 3, inertia, _tuple(where[:3, 3]), orientation)  # type: ignore[arg-type]

    def _whole(self, body: Body) -> None:
        """Three rotations at once; a free joint of a body that does not hang on the ground is three slides and a ball."""
        j = self.joint
        if any(c.locked for c in j.coordinates):
            raise FormatError(f'{j.element.where}: joint "{j.name}" is a {j.element.tag} with a locked coordinate; replace it by a CustomJoint.')
        anchor = _tuple(j.in_child[:3, 3])
        if j.whole == FREE and body.parent != WORLD:
            names = [c.name for c in j.coordinates[3:6]] if len(j.coordinates) == 6 else [f"{j.name}_t{a}" for a in "xyz"]
            self.found.joints += [Joint(n, body.name, SLIDE, axis=_tuple(j.in_child[:3, k])) for k, n in enumerate(names)]
            self.found.joints.append(Joint(j.name, body.name, BALL, anchor=anchor))
        else:
            self.found.joints.append(Joint(j.name, body.name, j.whole, anchor=anchor if j.whole == BALL else (0.0, 0.0, 0.0)))

    def _steps(self) -> Iterator[np.ndarray | tuple[tuple[str, str], np.ndarray]]:
        """In the order of the motion: constant transforms, and (name, kind) of joints with their axis."""
        own = {c.name: c for c in self.joint.coordinates}
        for axis in self.joint.axes:
            function, name = axis.function, axis.coordinate
            if name and name not in own:
                raise FormatError(
                    f'{self.joint.element.where}: {axis.name} of joint "{self.joint.name}" depends on "{name}", which is no coordinate of this joint.'
                )
            if not name or function.constant:
                yield from self._constant(axis, function(0.0))
            elif own[name].locked:
                yield from self._constant(axis, function(own[name].default))
                if axis is self._leading(name):
                    yield (name, HINGE if axis.kind == TURN else SLIDE), axis.direction * function.line[0]  # type: ignore[index]
            elif axis is self._leading(name):
                yield from self._constant(axis, function(0.0))
                yield (name, HINGE if axis.kind == TURN else SLIDE), axis.direction * function.line[0]  # type: ignore[index]
            else:
                yield self._tied(axis)

    def _leading(self, coordinate: str) -> Axis | None:
        """The axis that moves one to one with a coordinate, a rotation before a translation."""
        alike = [a for a in self.joint.axes if a.coordinate == coordinate and (line := a.function.line) is not None and abs(line[0]) == 1.0]
        return next((a for a in alike if a.kind == TURN), alike[0] if alike else None)

    def _constant(self, axis: Axis, value: float) -> Iterator[np.ndarray]:
        if value:
            out = np.eye(4)
            if axis.kind == TURN:
                out[:3, :3] = np.array(al.axis_angle(_tuple(axis.direction), value))
            else:
                out[:3, 3] = value * axis.direction
            yield out

    def _tied(self, axis: Axis) -> tuple[tuple[str, str], np.ndarray]:
        """A hinge or slide of its own that follows the coordinate, or what that follows."""
        joint, leader, function = self.joint, axis.coordinate, axis.function
        if self._leading(leader) is None:
            line = self.followers[leader][1].line if leader in self.followers else None
            if line is None:
                raise FormatError(
                    f'{joint.element.where}: no axis of joint "{joint.name}" moves one to one with its coordinate "{leader}", which is not represented unless a linear '
                    "coupler ties the coordinate to another one."
                )
            leader, function = self.followers[leader][0], function.of(*line)
        name = f"{joint.name}_{axis.name}"
        self.found.loops.append(_tie(name, name, leader, function))
        return (name, HINGE if axis.kind == TURN else SLIDE), axis.direction


def _tie(name: str, joint: str, leader: str, function: Function) -> Loop:
    if isinstance(function, Knots):
        return Loop(name, CURVE, joint1=joint, joint2=leader, curve=function.knots)
    padded = (*function.coefficients, *[0.0] * (MOST_COEFFICIENTS - len(function.coefficients)))
    return Loop(name, COUPLING, joint1=joint, joint2=leader, polynomial=padded)  # type: ignore[arg-type]


def _inertia(element: Element) -> tuple[float, ...]:
    """xx yy zz xy xz yz, in one list (version 4) or six elements (version 3)."""
    if element.first("inertia") is not None:
        return _floats(element, "inertia", 6)
    return tuple(_floats(element, f"inertia_{k}", 1, (0.0,))[0] for k in ("xx", "yy", "zz", "xy", "xz", "yz"))


def _tuple(values: np.ndarray) -> tuple[float, float, float]:
    x, y, z = (float(v) + 0.0 for v in values)
    return x, y, z


# -- markers, motors, and what is left -----------------------------------------------------------------------------------------------


def _markers(root: Element, found: Reading) -> list[Site]:
    out, bodies = [], {b.name for b in found.bodies} | {WORLD}
    for element in _objects(root, "MarkerSet"):
        body = _text(element, "body") or _body_of(_text(element, "socket_parent_frame"))
        body = WORLD if body == GROUND else body
        if body not in bodies:
            raise FormatError(f'{element.where}: marker "{_name(element)}" is on "{body}", which is no body of the model.')
        out.append(Site(_name(element), body, _floats(element, "location", 3, (0.0,) * 3)))  # type: ignore[arg-type]
        found.elements["site", _name(element)] = element
    return out


def _motors(root: Element, found: Reading) -> list[Actuator]:
    out, moving = [], {j.name for j in found.joints if j.kind in (HINGE, SLIDE)}
    for element in _objects(root, "ForceSet"):
        if element.tag in MOTORS and (joint := _text(element, "coordinate")) in moving:
            low, high = (float(_text(element, f"{end}_control", "inf")) for end in ("min", "max"))  # they may be infinite
            limited = (low, high) if np.isfinite([low, high]).all() else None
            out.append(Actuator(_name(element), joint, gain=_floats(element, "optimal_force", 1, (1.0,))[0], control_range=limited))
            found.elements["actuator", _name(element)] = element
    return out


def _not_represented(root: Element, joints: list[OpenSimJoint], touching: bool) -> list[str]:
    notes = []
    forces = Counter(e.tag for e in _objects(root, "ForceSet") if e.tag not in MOTORS)
    if forces:
        listed = ", ".join(f"{count} {tag}" for tag, count in sorted(forces.items()))
        notes.append(f"Forces of the file that do not act here: {listed}.")
    locked = [c.name for j in joints for c in j.coordinates if c.locked]
    if locked:
        notes.append(f"Coordinates that the file locks are fixed at their default values: {', '.join(locked)}.")
    if touching:
        notes.append("Contacts and ranges of coordinates of OpenSim files are not read.")
    return notes
