"""The immutable model of a mechanism: a tree of bodies, its joints, and what acts on them."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

import calibody.model.paths as paths
from calibody import html, upward
from calibody.errors import ModelError, nearest
from calibody.model.contact import Contact, Limit, check_contacts
from calibody.model.elements import (
    BETWEEN_COORDINATES,
    FREE,
    HINGE,
    SLIDE,
    WORLD,
    Actuator,
    Body,
    Bushing,
    Geometry,
    Joint,
    Locked,
    Loop,
    Sensor,
    Site,
    Spring,
    Transmission,
    World,
    numbers,
    unchecked,
)
from calibody.model.native import MUJOCO, Native
from calibody.model.path import UNITS, Path
from calibody.model.paths import Parameter
from calibody.spatial import algebra as al

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclasses.dataclass(frozen=True)
class Model:
    """A mechanism. Built from elements, or by `calibody.load`; a model with other numbers is a new model (`replace`).

    Bodies may be listed in any order; `ordered_bodies` has parents first, depth first. `notes` tells what the file contained that
    does not act here. `source` remembers the file for `save`.
    """

    name: str = "model"
    bodies: Sequence[Body] = ()
    joints: Sequence[Joint] = ()
    loops: Sequence[Loop] = ()
    springs: Sequence[Spring] = ()
    bushings: Sequence[Bushing] = ()
    actuators: Sequence[Actuator] = ()
    sites: Sequence[Site] = ()
    sensors: Sequence[Sensor] = ()
    geometries: Sequence[Geometry] = ()
    transmissions: Sequence[Transmission] = ()
    world: World = World()
    notes: tuple[str, ...] = ()
    source: Any = dataclasses.field(default=None, compare=False, repr=False)
    """What the format that read the model needs to write it back (`formats.Source`); None for a model built in Python."""
    contacts: Sequence[Contact] = ()
    limits: Sequence[Limit] = ()
    natives: Sequence[Native] = ()
    """What only MuJoCo's engine has, of a model that was read for it (`load(engine="mujoco")`): such a model runs in no other stepper."""
    paths: Sequence[Path] = ()
    locked: Sequence[Locked] = ()
    """Joints that the file has and holds where they are: they do not move here, but a fit says where the data have them moved."""

    _TABLES = {
        "body": "bodies", "joint": "joints", "loop": "loops", "spring": "springs", "bushing": "bushings", "transmission": "transmissions", "path": "paths",
        "actuator": "actuators", "site": "sites", "sensor": "sensors", "geometry": "geometries", "contact": "contacts", "limit": "limits", MUJOCO: "natives",
    }  # fmt: skip

    def __post_init__(self) -> None:
        for field in self._TABLES.values():
            object.__setattr__(self, field, tuple(getattr(self, field)))
        object.__setattr__(self, "locked", tuple(self.locked))
        _check_names(self)
        _check_tree(self)
        _check_references(self)
        check_contacts(self)

    # -- look-up ---------------------------------------------------------------------------------------------------------------

    @cached_property
    def tables(self) -> dict[str, dict[str, Any]]:
        """kind -> name -> element."""
        return {kind: {e.name: e for e in getattr(self, field)} for kind, field in self._TABLES.items()}

    def body(self, name: str) -> Body:
        return self._find("body", name)

    def joint(self, name: str) -> Joint:
        return self._find("joint", name)

    def first_joint(self, element: Any) -> Joint:
        """The joint whose units those of an actuator, a limit or a transmission are."""
        through = self._find("transmission", element.transmission) if isinstance(element, Actuator) and element.transmission else element
        return self.joint(through.joints[0] if isinstance(through, Transmission) else through.joint)

    def units_of(self, element: Any) -> Mapping[str, str]:
        """Units of the coordinate, the force and the inertia of what has a law, a limit or a drive: as its first joint's, or as a path's."""
        if isinstance(element, Path) or (isinstance(element, Actuator) and element.path):
            return UNITS
        return element.units if isinstance(element, Joint) else self.first_joint(element).units

    def acted_on(self, actuator: Actuator) -> tuple[str, ...]:
        """The joints that an actuator acts on by itself; none if it pulls on a path."""
        if actuator.path:
            return ()
        return self._find("transmission", actuator.transmission).joints if actuator.transmission else (actuator.joint,)

    @property
    def collides(self) -> bool:
        """Whether something is in the way of something: rigid contacts and limits."""
        return not all(x.compliant for x in (*self.contacts, *self.limits))

    def _find(self, kind: str, name: str) -> Any:
        table = self.tables[kind]
        if name not in table:
            others = f"; it has {', '.join(list(table)[:8]) or 'none'}."
            raise ModelError(f'The model has no {kind} "{name}"{nearest(name, table) or others}')
        return table[name]

    @cached_property
    def ordered_bodies(self) -> tuple[Body, ...]:
        """The bodies depth first, parents before children, siblings in the order given."""
        children: dict[str, list[Body]] = {}
        for body in self.bodies:
            children.setdefault(body.parent, []).append(body)
        out: list[Body] = []
        stack = list(reversed(children.get(WORLD, [])))
        while stack:
            body = stack.pop()
            out.append(body)
            stack.extend(reversed(children.get(body.name, [])))
        return tuple(out)

    @property
    def freed(self) -> Model:
        """With the locked joints among the others, each at zero where it was locked."""
        joints: list[Joint] = []
        for joint in self.joints:
            joints += [held.joint for held in self.locked if held.before == joint.name]
            joints.append(joint)
        joints += [held.joint for held in self.locked if not held.before]
        return dataclasses.replace(self, joints=joints, locked=())

    def joints_of(self, body: str) -> tuple[Joint, ...]:
        return self._joints_by_body.get(body, ())

    @cached_property
    def _joints_by_body(self) -> dict[str, tuple[Joint, ...]]:
        out: dict[str, tuple[Joint, ...]] = {}
        for joint in self.joints:
            out[joint.body] = (*out.get(joint.body, ()), joint)
        return out

    # -- numbers ---------------------------------------------------------------------------------------------------------------

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """Every number of the model by its path, with value and unit."""
        return {p.path: Parameter(p.path, self._value(p), p.unit) for p in paths.all_places(self)}

    def __getitem__(self, path: str) -> Any:
        """The number (or the tuple of numbers) at a path: `model["body.arm.mass"]`."""
        return self._value(paths.resolve(self, path))

    def _value(self, place: paths.Place) -> Any:
        if place.kind == "world":
            value = getattr(self.world, place.field)
        else:
            element = self.tables[place.kind][place.name]
            value = self.joint_position(element) if (place.kind, place.field) == ("joint", "position") else getattr(element, place.field)
        return value if place.component is None else value[place.component]

    def joint_position(self, joint: Joint) -> tuple[float, ...]:
        """The joint's anchor in the parent body's frame, all joints of the body at their reference."""
        body = self.body(joint.body)
        R = al.quaternion_matrix(al.quaternion_normalised(body.orientation))
        return al.add(body.position, al.matvec(R, joint.anchor))

    def replace(self, values: Mapping[str, Any], check: bool = True) -> Model:
        """A new model with other numbers: `model.replace({"body.arm.mass": 0.3, "body.arm.com": (0.1, 0, 0)})`.

        `check=False` accepts numbers that no mechanism can have (an indefinite inertia on the way of an estimation).
        """
        given: dict[tuple[str, str, str], Any] = {}
        components: dict[tuple[str, str, str], dict[int, Any]] = {}
        for path, value in values.items():
            place = paths.resolve(self, path)
            key = (place.kind, place.name, place.field)
            if place.component is None:
                given[key] = value
            else:
                components.setdefault(key, {})[place.component] = value
            if key in given and key in components:
                raise ModelError(f'Two of the given paths set {".".join(key)} ("{path}" is one); give only one of them.')
        for key, parts in components.items():
            current = self._value(paths.Place("", *key, None, ""))
            given[key] = [parts.get(i, x) for i, x in enumerate(current)]
        return self._with(self._changes(given), dataclasses.replace if check else unchecked)

    def _changes(self, given: Mapping[tuple[str, str, str], Any]) -> dict[tuple[str, str], dict[str, Any]]:
        """The new fields of each element; a moved joint becomes its moved body."""
        changes: dict[tuple[str, str], dict[str, Any]] = {}
        for (kind, name, field), value in given.items():
            if (kind, field) == ("joint", "position"):
                kind, name, value = "body", self.joint(name).body, self._shifted_position(self.joint(name), value)
            fields = changes.setdefault((kind, name), {})
            if field in fields:
                raise ModelError(f"Two of the given paths set {kind}.{name}.{field}; give only one of them.")
            fields[field] = value
        return changes

    def _shifted_position(self, joint: Joint, value: Any) -> Any:
        """Where the body must be for its joint to be at `value` in the parent's frame."""
        new = numbers(value, 3, f"joint.{joint.name}.position")
        return al.add(self.body(joint.body).position, al.sub(new, self.joint_position(joint)))

    def _with(self, changes: Mapping[tuple[str, str], Mapping[str, Any]], changed: Callable[..., Any]) -> Model:
        fields: dict[str, Any] = {}
        for kind, table in self.tables.items():
            if any(k == kind for k, _ in changes):
                fields[self._TABLES[kind]] = tuple(changed(e, **changes[kind, n]) if (kind, n) in changes else e for n, e in table.items())
        if ("world", "gravity") in changes:
            fields["world"] = dataclasses.replace(self.world, **changes["world", "gravity"])
        return dataclasses.replace(self, **fields)

    @property
    def gravity(self) -> np.ndarray:
        """Gravity with its tilt [m/s^2]: `exp([tilt.x, tilt.y, 0]) exp([0, 0, tilt.z]) gravity`."""
        tx, ty, tz = self.world.tilt
        turn = al.quaternion_product(al.quaternion_exp((tx, ty, 0.0)), al.quaternion_exp((0.0, 0.0, tz)))
        return np.array(al.matvec(al.quaternion_matrix(turn), self.world.gravity), dtype=float)

    # -- files -----------------------------------------------------------------------------------------------------------------

    def save(self, path: str | pathlib.Path) -> pathlib.Path:
        """Write the model in the format it was read from, changing only the numbers that differ from the file."""
        return upward.carry_out("Model.save", self, path)

    def __str__(self) -> str:
        counts = [f"{len(t)} {self._TABLES[k] if len(t) != 1 else k}" for k, t in self.tables.items() if t and k != "geometry"]
        lines = [f"Model {self.name!r}: " + (", ".join(counts) or "empty")]
        for body in self.ordered_bodies:
            joints = ", ".join(f"{j.name} ({j.kind})" for j in self.joints_of(body.name)) or "fixed"
            lines.append(f"  {body.parent} -> {body.name}: {joints}, mass {body.mass:g} kg")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """For notebooks: the bodies in their order with what moves and drives them, and the notes."""
        title, *_ = str(self).splitlines()
        rows = []
        for body in self.ordered_bodies:
            joints = self.joints_of(body.name)
            drives = [a.name for a in self.actuators if a.joint in {j.name for j in joints}]
            rows.append((body.name, body.parent, ", ".join(f"{j.name} ({j.kind})" for j in joints) or "fixed", ", ".join(drives), f"{body.mass:.6g}"))
        return html.block(title, html.table(("body", "parent", "joints", "actuators", "mass [kg]"), rows, numbers=(4,)), html.sentences(self.notes))

    def view(self, initial: Mapping[str, Any] | None = None) -> Figure:
        """The model in three dimensions, as a plotly figure: at its reference, or where `initial` (channels, as of `simulate`) puts it."""
        return upward.carry_out("Model.view", self, initial)


# -- checks ------------------------------------------------------------------------------------------------------------------------


def _check_names(model: Model) -> None:
    for kind, field in Model._TABLES.items():
        seen: set[str] = set()
        for element in getattr(model, field):
            if getattr(element, "KIND", None) != kind:
                raise ModelError(f"Among the {field} of model {model.name!r} is a {type(element).__name__}; give {kind} elements there.")
            if element.name in seen:
                raise ModelError(f"The model has two elements named {kind}.{element.name}; give each {kind} a name of its own.")
            seen.add(element.name)
    if any(b.name == WORLD for b in model.bodies):
        raise ModelError('A body is named "world"; that name is taken by the fixed world, choose another.')


def _check_tree(model: Model) -> None:
    names = {b.name for b in model.bodies}
    for body in model.bodies:
        if body.parent != WORLD and body.parent not in names:
            raise ModelError(f'body.{body.name} has the parent "{body.parent}", which is not a body of the model{nearest(body.parent, [*names, WORLD]) or "."}')
    if len(model.ordered_bodies) != len(model.bodies):
        lost = sorted(names - {b.name for b in model.ordered_bodies})
        raise ModelError(f"The bodies {', '.join(lost[:6])} are their own ancestors; close a kinematic loop with a Loop, not with parents.")


def _check_references(model: Model) -> None:
    bodies = [b.name for b in model.bodies] + [WORLD]
    joints = model.tables["joint"]

    def known(element: Any, field: str, names: Iterable[str]) -> None:
        name = getattr(element, field)
        if name not in names:
            raise ModelError(f'{element.KIND}.{element.name}.{field} is "{name}", which the model does not have{nearest(name, names) or "."}')

    for joint in model.joints:
        known(joint, "body", bodies[:-1])
        if joint.kind == FREE and len(model.joints_of(joint.body)) > 1:
            raise ModelError(f"body.{joint.body} has a free joint and others; a free joint must be the only joint of its body.")
        if joint.kind == FREE and model.body(joint.body).parent != WORLD:
            raise ModelError(f"joint.{joint.name} is free but body.{joint.body} has the parent {model.body(joint.body).parent!r}; give it the parent 'world'.")
    for element in (*model.sites, *model.geometries):
        known(element, "body", bodies)
    for element in (*model.springs, *model.bushings, *(lp for lp in model.loops if lp.kind not in BETWEEN_COORDINATES)):
        known(element, "body1", bodies)
        known(element, "body2", bodies)
        if element.body1 == element.body2:
            raise ModelError(f'{element.KIND}.{element.name} joins body "{element.body1}" to itself; give two different bodies.')
    for loop in model.loops:
        if loop.kind in BETWEEN_COORDINATES:
            for field in ("joint1", "joint2"):
                if field == "joint1" or loop.joint2:
                    known(loop, field, joints)
                    _scalar_joint(loop, joints[getattr(loop, field)])
            if loop.joint1 == loop.joint2:
                raise ModelError(f'loop.{loop.name} couples joint "{loop.joint1}" to itself; give two different joints.')
    for transmission in model.transmissions:
        for name in transmission.joints:
            if name not in joints:
                raise ModelError(f'transmission.{transmission.name}.joints has "{name}", which the model does not have{nearest(name, joints) or "."}')
            _scalar_joint(transmission, joints[name])
    for path in model.paths:
        path.check(model)
    for actuator in model.actuators:
        if actuator.transmission or actuator.path:
            through = "transmission" if actuator.transmission else "path"
            known(actuator, through, model.tables[through])
        else:
            known(actuator, "joint", joints)
            _scalar_joint(actuator, joints[actuator.joint])


def _scalar_joint(element: Any, joint: Joint) -> None:
    if joint.kind not in (HINGE, SLIDE):
        raise ModelError(f'{element.KIND}.{element.name} acts on joint "{joint.name}", a {joint.kind} joint; it needs a hinge or a slide.')
