"""From a model to arrays: what is solved for, in `tree` or in `free` coordinates, and the numbers every kernel reads.

A *unit* is one joint (or the rigid attachment of a body without joints); unit i ends in *link* i, whose pose is

    H_i = H_parent(i) o T_i o J_i(q),

`T_i` the fixed placement, `J_i` the joint's motion about its anchor and axis. The last unit of a body carries the body's inertia; the
others are massless frames between several joints of one body. Link n (one past the last) is the world.

- `tree`: the units of the model, depth first, so that the degrees of freedom below any unit are a contiguous range.
- `free`: the same links, each a unit of its own with six degrees of freedom and the world as parent; the joints become constraint
  rows. Links that hang rigidly on the world stay fixed.

What holds links together, cut joints and loops, are *connections*; the constraint types (`elements`) say which of their elements a connection consists of.

So both are one mechanics: `free` is the tree in which every joint has been cut. Elements act on links and never know which it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from calibody.errors import ModelError, SimulationError
from calibody.mechanics import channels
from calibody.mechanics.channels import Channel
from calibody.mechanics.elements import CONSTRAINTS, COORDINATE_FORCES, FORCES, PUSHES, compliant, inplane, path, prescribed, push
from calibody.mechanics.elements.base import CoordinateConstraint, Ends, VelocityConstraint
from calibody.model import Body, Joint, Model
from calibody.model.elements import BALL, FIXED, FREE, HINGE, SLIDE, WORLD
from calibody.spatial import algebra as al
from calibody.spatial.inertia import pseudo_inertia, ten_of

TREE = "tree"
AUTO = "auto"
COORDINATES = (AUTO, TREE, FREE)
POSITIONS = {HINGE: 1, SLIDE: 1, BALL: 4, FREE: 7, FIXED: 0}
VELOCITIES = {HINGE: 1, SLIDE: 1, BALL: 3, FREE: 6, FIXED: 0}


@dataclass(frozen=True)
class Unit:
    """One joint, or the rigid attachment of a body; `joint` is None for the latter."""

    kind: str
    parent: int
    joint: Joint | None
    body: Body
    first: bool
    """Whether this is the first unit of its body, the one that carries the body's placement."""
    last: bool
    """Whether this is the last unit of its body, the one that carries the body's inertia."""


@dataclass(frozen=True)
class Coordinate:
    """A scalar joint coordinate `s`: a hinge's angle, a slide's position, or one of the three positions of a free joint."""

    name: str
    joint: str
    unit: int
    rotational: bool
    dof: int
    """Index among the velocities of the tree."""
    component: int
    """0 for hinges and slides, 0..2 for the positions of a free joint."""


@dataclass(frozen=True)
class BallCoordinate:
    """The relative rotation of a ball joint, or of the rotational half of a free joint."""

    joint: str
    unit: int
    dof: int
    """First of its three velocities in the tree."""


@dataclass(frozen=True)
class Connection:
    """A cut joint, a rigid attachment (in `free`), a loop, or what a drive prescribes."""

    owner: str
    kind: str
    bodies: tuple[int, ...]
    """The links it joins."""
    unit: int
    """Of a cut joint or attachment; -1 for others."""
    source: Any = None
    """The loop, or the channel of a drive that prescribes."""


@dataclass(frozen=True)
class Row:
    """One element of a constraint type."""

    connection: Connection
    touches: tuple[int, ...]
    """Links, or scalar coordinates (`CoordinateConstraint`)."""
    which: Any
    """Tells apart several elements of a type in one connection."""


@dataclass(frozen=True, eq=False)
class Structure:
    """What is solved for: indices, and the model they were made from (hashed by identity, so that what is derived from it is derived once)."""

    model: Model
    coordinates: str
    tree_units: tuple[Unit, ...]
    units: tuple[Unit, ...]
    loaded: tuple[str, ...] = ()
    """Joints with friction in proportion to their load."""
    driven: tuple[Channel, ...] = ()
    """Channels of drives that prescribe motion, push bodies or pull springs, in the order of their rows."""

    @classmethod
    def build(cls, model: Model, coordinates: str = AUTO, unknown: Collection[str] = (), driven: Collection[str] = (), engine: bool = False) -> Structure:
        """`unknown`: paths of numbers that may be zero now and are not to stay so; `driven`: channels of all drives, each a single number; `engine`: of a model whose forces
        are MuJoCo's (`model/native.py`), for its kinematics alone."""
        if model.natives and not engine:
            raise ModelError(
                f'The model "{model.name}" was read for MuJoCo\'s engine; use stepper="mujoco" (in fits method = "shooting"), or load it without engine="mujoco".'
            )
        if coordinates not in COORDINATES:
            raise ModelError(f"coordinates = {coordinates!r}; give one of {', '.join(COORDINATES)}.")
        loaded = tuple(j.name for j in model.joints if any(getattr(j, f) or f"joint.{j.name}.{f}" in unknown for f in LOADED))
        if coordinates == AUTO:
            coordinates = FREE if loaded or any(j.soft for j in model.joints) else TREE
        if coordinates == TREE and (soft := [j.name for j in model.joints if j.soft]):
            raise ModelError(f'joint.{soft[0]} is compliant, but coordinates = "tree" makes joints rigid; use "free", or "auto".')
        tree_units = _tree_units(model)
        units = tree_units if coordinates == TREE else _free_units(tree_units)
        return cls(model, coordinates, tree_units, units, loaded, _in_order([channels.driven(model, path) for path in driven]))

    @cached_property
    def topology(self) -> tuple:
        """All that the indices depend on, without numbers and names: equal for two mechanisms that differ in these only, so that they share what is compiled."""
        loaded = tuple(i for i, j in enumerate(self.model.joints) if j.name in self.loaded)
        places = {kind: list(table) for kind, table in self.model.tables.items()}
        driven = tuple((c.kind, places[c.kind].index(c.name), c.quantity, c.component, self._driven_link(c)) for c in self.driven)
        return (self.coordinates, loaded, driven, *_topology(self.model))

    def _driven_link(self, channel: Channel) -> int:
        """The link that a drive acts on; -1 where it is a joint's or a spring's."""
        if channel.kind == "site":
            return self.body_link[self.model.tables["site"][channel.name].body]
        return self.body_link[channel.name] if channel.kind == "body" else -1

    # -- drives ----------------------------------------------------------------------------------------------------------------

    @cached_property
    def prescribed(self) -> tuple[Channel, ...]:
        """What drives prescribe."""
        return tuple(c for c in self.driven if channels.prescribes(c))

    @cached_property
    def prescribed_rows(self) -> np.ndarray:
        """The constraint row of each."""
        return np.array([self.row_owners.index(f"drive.{c.path}") for c in self.prescribed], dtype=np.int64)

    def holding(self, channel: Channel) -> int | None:
        """The constraint row whose multiplier a channel is, the force that moves a joint or site as prescribed; None of all others."""
        of = {("joint", "force"): ("angle", "position"), ("site", "applied"): ("position",)}.get((channel.kind, channel.quantity), ())
        found = [
            r
            for c, r in zip(self.prescribed, self.prescribed_rows, strict=True)
            if (c.kind, c.name, c.component) == (channel.kind, channel.name, channel.component) and c.quantity in of
        ]
        return int(found[0]) if found else None

    @cached_property
    def pushed(self) -> tuple[Channel, ...]:
        """Given forces on bodies."""
        return tuple(c for c in self.driven if (c.kind, c.quantity) in push.TYPES)

    @cached_property
    def pulled(self) -> tuple[Channel, ...]:
        """Springs with a given tension."""
        return tuple(c for c in self.driven if c.kind == "spring")

    def applied_row(self, channel: Channel) -> int:
        """Where a drive that prescribes, pushes or pulls stands among the applied: after the velocities of the tree."""
        if channel not in self.driven:
            raise SimulationError(
                f'Drive "{channel.path}" is not known to this method, which has drives of actuators and joint forces only; use the variational stepper, or transcription.'
            )
        return self.tree_nv + self.driven.index(channel)

    @property
    def applied_rows(self) -> int:
        """Forces on the velocities of the tree, on bodies, on springs; and what is prescribed, at the end of the interval."""
        return self.tree_nv + len(self.driven)

    # -- sizes -----------------------------------------------------------------------------------------------------------------

    @cached_property
    def n(self) -> int:
        """Number of units, and the index of the world."""
        return len(self.units)

    @cached_property
    def q_start(self) -> np.ndarray:
        return np.cumsum([0] + [POSITIONS[u.kind] for u in self.units])

    @cached_property
    def v_start(self) -> np.ndarray:
        return np.cumsum([0] + [VELOCITIES[u.kind] for u in self.units])

    @cached_property
    def tree_v_start(self) -> np.ndarray:
        """First velocity of every unit of the tree, whatever is solved for: the layout of joint rates and applied joint forces."""
        return np.cumsum([0] + [VELOCITIES[u.kind] for u in self.tree_units])

    @property
    def tree_nv(self) -> int:
        return int(self.tree_v_start[-1])

    @property
    def nq(self) -> int:
        return int(self.q_start[-1])

    @property
    def nv(self) -> int:
        return int(self.v_start[-1])

    # -- constraints -----------------------------------------------------------------------------------------------------------

    @cached_property
    def connections(self) -> tuple[Connection, ...]:
        """Joints and attachments that `free` has cut, then loops, then what is prescribed."""
        out, n = [], len(self.tree_units)
        for i, (unit, fixed) in enumerate(zip(self.tree_units, _static(self.tree_units), strict=True)):
            if self.coordinates == FREE and not fixed:
                owner = f"joint.{unit.joint.name}" if unit.joint is not None else f"body.{unit.body.name}"
                out.append(Connection(owner, unit.kind, (unit.parent if unit.parent >= 0 else n, i), i))
        link = self.body_link
        loops = (Connection(f"loop.{lp.name}", inplane.rows_of(lp), (link[lp.body1], link[lp.body2]), -1, lp) for lp in self.model.loops)
        kinds = {"joint": prescribed.JOINT, "site": prescribed.SITE}
        return (*out, *loops, *(Connection(f"drive.{c.path}", kinds[c.kind], (self._driven_link(c),), -1, c) for c in self.prescribed))

    @cached_property
    def rows(self) -> dict[str, tuple[Row, ...]]:
        """The elements of every constraint type, by its name."""
        return {t.name: tuple(Row(c, self._touched(t, c), which) for c in self.connections for which in t.holds.get(c.kind, ())) for t in CONSTRAINTS}

    def _touched(self, constraint: Any, connection: Connection) -> tuple[int, ...]:
        if not isinstance(constraint, CoordinateConstraint):
            return connection.bodies if constraint.measure.links > 1 else connection.bodies[:1]
        names = {c.name: i for i, c in enumerate(self.scalar_coordinates)}
        return tuple(names[name] for name in constraint.joints(connection.source))

    @cached_property
    def nc(self) -> int:
        """Number of constraint rows, type by type in the order of `CONSTRAINTS`, the rows of one element together."""
        return len(self.row_owners)

    @cached_property
    def rolling(self) -> np.ndarray:
        """(nc,) whether a constraint row is one on velocities."""
        return np.array([isinstance(t, VelocityConstraint) for t in CONSTRAINTS for _ in self.rows[t.name] for _ in range(t.rows)], dtype=bool)

    @cached_property
    def row_owners(self) -> tuple[str, ...]:
        return tuple(r.connection.owner for t in CONSTRAINTS for r in self.rows[t.name] for _ in range(t.rows))

    @cached_property
    def row_angular(self) -> tuple[bool, ...]:
        """Whether a constraint row holds a direction (its multiplier is a torque) or a place (a force); couplings go by their first joint."""
        units = [(t.unit_of(r.connection.source, self.model), t.rows) for t in CONSTRAINTS for r in self.rows[t.name]]
        return tuple(unit == "N m" for unit, rows in units for _ in range(rows))

    # -- tree ------------------------------------------------------------------------------------------------------------------

    @cached_property
    def parent(self) -> np.ndarray:
        """Parent link of every unit; the world is n."""
        return np.array([u.parent if u.parent >= 0 else self.n for u in self.units], dtype=np.int32)

    @cached_property
    def tree_parent(self) -> np.ndarray:
        return np.array([u.parent if u.parent >= 0 else self.n for u in self.tree_units], dtype=np.int32)

    @cached_property
    def jumps(self) -> tuple[np.ndarray, ...]:
        """For pointer doubling: in round r link i is composed with its ancestor `jumps[r][i]` (see `kinematics.poses`)."""
        return doubling(self.parent)

    @cached_property
    def unit_end(self) -> np.ndarray:
        """Subtree of unit i is the range i .. unit_end[i]."""
        end = np.arange(1, self.n + 1)
        for i in range(self.n - 1, -1, -1):
            if self.parent[i] < self.n:
                end[self.parent[i]] = max(end[self.parent[i]], end[i])
        return end

    @cached_property
    def dof_unit(self) -> np.ndarray:
        return np.repeat(np.arange(self.n), np.diff(self.v_start)).astype(np.int32)

    @cached_property
    def dof_end(self) -> np.ndarray:
        """Degrees of freedom at or below that of dof j are the range (first of its unit) .. dof_end[j]."""
        return self.v_start[self.unit_end[self.dof_unit]]

    @cached_property
    def dofs_above(self) -> tuple[np.ndarray, ...]:
        """For every link, the degrees of freedom that move it; none for the world (the last entry)."""
        out: list[np.ndarray] = []
        for i in range(self.n):
            above = out[self.parent[i]] if self.parent[i] < self.n else np.empty(0, dtype=np.int64)
            out.append(np.concatenate([above, np.arange(self.v_start[i], self.v_start[i + 1])]))
        return (*out, np.empty(0, dtype=np.int64))

    @cached_property
    def follows(self) -> np.ndarray:
        """`follows[j, i]`: the axis of dof j is carried along by dof i, so that its twist changes by the bracket of the two."""
        out = np.zeros((self.nv, self.nv), dtype=bool)
        for j in range(self.nv):
            out[j, self.dofs_above[self.units[self.dof_unit[j]].parent if self.units[self.dof_unit[j]].parent >= 0 else self.n]] = True
            unit = self.units[self.dof_unit[j]]
            start = self.v_start[self.dof_unit[j]]
            if unit.kind == BALL or (unit.kind == FREE and j - start >= 3):
                out[j, start : self.v_start[self.dof_unit[j] + 1]] = True  # axes fixed in the child turn with the child
        return out

    @cached_property
    def below(self) -> np.ndarray:
        """`below[i, l]`: link l is at or below unit i (dense, for small mechanisms inside a compiled step)."""
        index = np.arange(self.n)
        return (index[None, :] >= index[:, None]) & (index[None, :] < self.unit_end[:, None])

    # -- joint coordinates -------------------------------------------------------------------------------------------------------

    @cached_property
    def scalar_coordinates(self) -> tuple[Coordinate, ...]:
        out = []
        starts = self.tree_v_start
        for i, unit in enumerate(self.tree_units):
            if unit.kind in (HINGE, SLIDE) and unit.joint is not None:
                out.append(Coordinate(unit.joint.name, unit.joint.name, i, unit.kind == HINGE, int(starts[i]), 0))
            elif unit.kind == FREE and unit.joint is not None:
                out += [Coordinate(f"{unit.joint.name}.{c}", unit.joint.name, i, False, int(starts[i]) + k, k) for k, c in enumerate("xyz")]
        return tuple(out)

    @cached_property
    def scalar_positions(self) -> np.ndarray:
        """`tree`: where the scalar coordinates stand in q."""
        return np.array([self.q_start[c.unit] + c.component for c in self.scalar_coordinates], dtype=np.int64)

    @cached_property
    def ball_coordinates(self) -> tuple[BallCoordinate, ...]:
        starts = self.tree_v_start
        offset = {BALL: 0, FREE: 3}
        return tuple(
            BallCoordinate(u.joint.name, i, int(starts[i]) + offset[u.kind]) for i, u in enumerate(self.tree_units) if u.kind in offset and u.joint is not None
        )

    @cached_property
    def coordinate_index(self) -> dict[str, int]:
        """Joint name -> index of its scalar coordinate (hinges and slides)."""
        return {c.joint: i for i, c in enumerate(self.scalar_coordinates) if self.model.joint(c.joint).kind != FREE}

    @cached_property
    def combinations(self) -> np.ndarray:
        """(transmissions, scalar coordinates): their coefficients."""
        out = np.zeros((len(self.model.transmissions), len(self.scalar_coordinates)))
        for row, transmission in zip(out, self.model.transmissions, strict=True):
            row[[self.coordinate_index[joint] for joint in transmission.joints]] = transmission.coefficients
        return out

    @cached_property
    def law_owners(self) -> tuple[tuple[str, str], ...]:
        """Kind and name of what has the laws on coordinates: the joint of every scalar coordinate, then the transmissions, then the paths."""
        combined = (("transmission", t.name) for t in self.model.transmissions)
        return (*(("joint", c.joint) for c in self.scalar_coordinates), *combined, *(("path", p.name) for p in self.model.paths))

    @cached_property
    def body_link(self) -> dict[str, int]:
        return {u.body.name: i for i, u in enumerate(self.units) if u.last} | {WORLD: self.n}

    def dof_name(self, dof: int) -> str:
        """What to call a degree of freedom in a sentence."""
        unit = self.units[self.dof_unit[dof]]
        return f"joint.{unit.joint.name}" if self.coordinates == TREE and unit.joint is not None else f"body.{unit.body.name}"


# Tables of elements that exert no force and carry none (rigid contacts act from outside of a step, `steppers/contact.py`), and the fields of the others that name another element.
FORCELESS = ("site", "sensor", "geometry", "contact", "limit")
REFERENCES = {
    "parent": "body", "body": "body", "body1": "body", "body2": "body", "joint": "joint", "joint1": "joint", "joint2": "joint", "joints": "joint",
    "transmission": "transmission", "path": "path",
}  # fmt: skip


def _topology(model: Model) -> tuple:
    """Per element what is not a number: names of others as their places in the tables, words such as a joint's kind as they are."""
    places = {kind: {name: i for i, name in enumerate(table)} for kind, table in model.tables.items()}

    def kept(field: str, value: object) -> object:
        if field == "joints" and isinstance(value, tuple):
            return tuple(places["joint"][name] for name in value)
        if field == "through":
            return ""  # below
        if field in REFERENCES and isinstance(value, str):
            return places[REFERENCES[field]].get(value, value)  # the world, and no joint, stand for themselves
        if isinstance(value, float) or (isinstance(value, tuple) and all(isinstance(x, float) for x in value)):
            return 0.0
        return value if isinstance(value, (str, int, bool, tuple)) or value is None else repr(value)

    tables = tuple(
        (kind, *(tuple(kept(f.name, getattr(e, f.name)) for f in fields(e) if f.name != "name") for e in table.values()))
        for kind, table in model.tables.items()
        if kind not in FORCELESS
    )
    bodies = (tuple(places["body"].get(body, body) for body in path.bodies_of(model, p)) for p in model.paths)
    touching = ((t.name, *(tuple(places["body"].get(body, body) for body in spot.bodies) for spot in spots)) for t, spots in compliant.groups_of(model).items())
    return (
        *tables,
        *touching,
        *((path.pattern_of(model, p), links) for p, links in zip(model.paths, bodies, strict=True)),
        *(type(a).__name__ for a in model.actuators),
    )


def refuse_load_friction(structure: Structure, remedy: str = 'use coordinates = "free" or "auto"') -> None:
    """Friction in proportion to the load needs the reactions of the joint, which `tree` does not solve for."""
    if structure.coordinates == TREE and structure.loaded:
        name = structure.loaded[0]
        field = next((f for f in LOADED if getattr(structure.model.joint(name), f)), LOADED[0])
        raise SimulationError(
            f"joint.{name}.{field} goes with the reactions of the joint, which are not known in joint coordinates; {remedy}, or joint.{name}.friction instead."
        )


def _in_order(driven: Sequence[Channel]) -> tuple[Channel, ...]:
    """Those that push bodies type by type, those that pull springs, those that prescribe; without repetition."""
    types = [*push.TYPES]

    def order(c: Channel) -> tuple:
        return (types.index((c.kind, c.quantity)), c.path) if (c.kind, c.quantity) in push.TYPES else (len(types) + (c.kind != "spring"), c.path)

    return tuple(sorted({c for c in driven if channels.pushes(c) or channels.prescribes(c)}, key=order))


def refuse_driven(structure: Structure, stepper: str) -> None:
    """For steppers that know forces on joints only."""
    if structure.driven:
        raise SimulationError(
            f'Drive "{structure.driven[0].path}": stepper="{stepper}" knows drives of actuators and joint forces only; use stepper="variational".'
        )


def doubling(parent: np.ndarray) -> tuple[np.ndarray, ...]:
    n = len(parent)
    rounds = []
    jump = np.append(parent, n).astype(np.int32)
    while (jump[:n] < n).any():
        rounds.append(jump[:n].copy())
        jump = jump[jump]
    return tuple(rounds)


def _tree_units(model: Model) -> tuple[Unit, ...]:
    units: list[Unit] = []
    link: dict[str, int] = {WORLD: -1}
    for body in model.ordered_bodies:
        joints = model.joints_of(body.name)
        parent = link[body.parent]
        if not joints:
            units.append(Unit(FIXED, parent, None, body, True, True))
        for k, joint in enumerate(joints):
            units.append(Unit(joint.kind, parent, joint, body, k == 0, k == len(joints) - 1))
            parent = len(units) - 1
        link[body.name] = len(units) - 1
    return tuple(units)


def _static(units: tuple[Unit, ...]) -> list[bool]:
    static: list[bool] = []
    for unit in units:
        static.append(unit.kind == FIXED and (unit.parent < 0 or static[unit.parent]))
    return static


def _free_units(units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    return tuple(u if s else replace(u, kind=FREE, parent=-1) for u, s in zip(units, _static(units), strict=True))


# -- numbers -------------------------------------------------------------------------------------------------------------------------

LOADED = ("load_friction", "load_stribeck")


@dataclass(frozen=True)
class Numbers:
    """Every number the kernels read, struct-of-arrays. One instance belongs to one `Structure` and one set of values."""

    placement: np.ndarray
    """(3, 4, n) fixed transform before each tree unit's joint."""
    axis: np.ndarray
    """(3, n) unit axis of each tree unit in the link's frame."""
    anchor: np.ndarray
    """(3, n)"""
    reference: np.ndarray
    """(n,)"""
    inertia: np.ndarray
    """(10, n) pseudo-inertia of each link (zero where a link carries no body, or hangs rigidly on the world)."""
    gravity: np.ndarray
    """(3,)"""
    ball_law: np.ndarray
    """(4, number of ball coordinates): stiffness, damping, friction, armature."""
    ball_reference: np.ndarray
    """(4, number of ball coordinates): quaternion at which the spring is relaxed."""
    elements: dict[str, np.ndarray]
    """(numbers, elements) of every constraint and force type, by its name."""
    softness: np.ndarray
    """(2, nc): compliance and relaxation time of every constraint row."""
    load: np.ndarray
    """(4, loaded joints): load_friction, load_stribeck, and the levers of forces and of torques (`elements/load.py`)."""
    frame: np.ndarray
    """(18, scalar coordinates): for `free`, the axes x, y, z of the parent's side and the axis x, anchor of the child's side, and the anchor
    of the parent's side: px py pz | cx | ca | pa."""
    standing: np.ndarray
    """(4, n): mass times centre of mass, and mass, of links that hang rigidly on the world; zero of others."""

    @property
    def law(self) -> np.ndarray:
        """(11, scalar coordinates and transmissions), rows as in `elements/law.py`; joints have no backlash."""
        return self.elements["law"]

    @property
    def drive(self) -> np.ndarray:
        """(7, actuators), rows as in `elements/drive.py`, then the force range."""
        return self.elements["drive"]

    @classmethod
    def of(cls, structure: Structure, model: Model | None = None) -> Numbers:
        model = structure.model if model is None else model
        units = structure.tree_units
        n = len(units)
        placement = np.zeros((3, 4, n))
        placement[:, :3, :] = np.eye(3)[:, :, None]
        axis, anchor, reference = np.zeros((3, n)), np.zeros((3, n)), np.zeros(n)
        axis[2] = 1.0
        inertia, standing = np.zeros((10, n)), np.zeros((4, n))
        static = _static(units)
        for i, unit in enumerate(units):
            body = model.body(unit.body.name)
            if unit.first:
                placement[:, :, i] = _pose(body.position, body.orientation)
            if unit.joint is not None:
                joint = model.joint(unit.joint.name)
                axis[:, i] = np.asarray(joint.axis) / np.linalg.norm(joint.axis)
                anchor[:, i] = joint.anchor
                reference[i] = joint.reference
            if unit.last and not static[i]:
                inertia[:, i] = ten_of(pseudo_inertia(body.mass, body.com, body.inertia))
            elif unit.last:
                standing[:, i] = *(body.mass * c for c in body.com), body.mass
        return cls(
            placement, axis, anchor, reference, inertia, model.gravity,
            *_ball_numbers(structure, model),
            _constraint_numbers(structure, model, placement, axis, anchor) | _force_numbers(structure, model), _softness(structure, model), _load(structure, model),
            _frames(structure, placement, axis, anchor), standing,
        )  # fmt: skip


def _rotation(quaternion: tuple) -> np.ndarray:
    return np.array(al.quaternion_matrix(al.quaternion_normalised(quaternion)), dtype=float)


def _pose(position: tuple, orientation: tuple) -> np.ndarray:
    return np.column_stack([_rotation(orientation), position])


def basis(axis: np.ndarray) -> np.ndarray:
    """Columns x, y, z of a right-handed frame whose z is the unit vector `axis`; x is the projection of the coordinate axis least along it."""
    helper = np.eye(3)[int(np.argmin(np.abs(axis)))]
    x = helper - axis * (axis @ helper)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(axis, x), axis])


def _ball_numbers(structure: Structure, model: Model) -> tuple[np.ndarray, np.ndarray]:
    balls = [model.joint(b.joint) for b in structure.ball_coordinates]
    ball_law = np.array([[b.stiffness, b.damping, b.friction, b.armature] for b in balls]).reshape(-1, 4).T
    reference = np.array([al.quaternion_normalised(b.spring_orientation) for b in balls], dtype=float).reshape(-1, 4).T
    return ball_law, reference


def _constraint_numbers(structure: Structure, model: Model, placement: np.ndarray, axis: np.ndarray, anchor: np.ndarray) -> dict[str, np.ndarray]:
    loops = {f"loop.{lp.name}": lp for lp in model.loops}
    ends: dict[str, Ends] = {}
    for c in structure.connections:
        source: Any = loops.get(c.owner, c.source)
        if isinstance(source, Channel):
            site = model.tables[source.kind][source.name]
            sides = (np.array(getattr(site, "position", np.zeros(3))), np.eye(3), np.zeros(3), np.eye(3))
        elif (loop := source) is not None:
            sides = (np.array(loop.anchor1), _rotation(loop.orientation1), np.array(loop.anchor2), _rotation(loop.orientation2))
        else:
            R, own, point = placement[:, :3, c.unit], basis(axis[:, c.unit]), anchor[:, c.unit]
            sides = (R @ point + placement[:, 3, c.unit], R @ own, point, own)
        ends[c.owner] = Ends(*sides, source, model)
    return {t.name: _table([t.numbers(ends[r.connection.owner], r.which) for r in structure.rows[t.name]]) for t in CONSTRAINTS}


def _force_numbers(structure: Structure, model: Model) -> dict[str, np.ndarray]:
    between = {t.name: _table([t.numbers(e) for e in model.tables[t.name].values()]) for t in FORCES}
    between |= {t.name: _table([compliant.numbers_of(model, spot) for spot in spots]) for t, spots in compliant.groups_of(model).items()}
    between |= {t.name: _table([path.numbers_of(model, model.paths[i]) for i in which]) for t, which in path.groups_of(structure.model).items()}
    pushes = {t.name: _table([t.numbers(model, c) for c in structure.pushed if push.TYPES[c.kind, c.quantity] is t]) for t in PUSHES}
    return between | pushes | {t.name: _table(list(t.numbers(structure, model)), len(t.fields)) for t in COORDINATE_FORCES}


def _table(elements: list[Any], width: int = 0) -> np.ndarray:
    """(numbers, elements)"""
    return np.array(elements, dtype=float).T if elements else np.zeros((width, 0))


def _softness(structure: Structure, model: Model) -> np.ndarray:
    linear = {f"loop.{lp.name}": (lp.compliance, lp.relaxation) for lp in model.loops} | {f"joint.{j.name}": (j.compliance, j.relaxation) for j in model.joints}
    angular = {f"joint.{j.name}": (j.angular_compliance or j.compliance, j.angular_relaxation or j.relaxation) for j in model.joints}
    rows = [(linear | angular if turns else linear).get(owner, (0.0, 0.0)) for owner, turns in zip(structure.row_owners, structure.row_angular, strict=True)]
    return np.array(rows, dtype=float).reshape(-1, 2).T


def _load(structure: Structure, model: Model) -> np.ndarray:
    joints = [model.joint(name) for name in structure.loaded]
    levers = [(1.0, 1.0 / j.friction_radius) if j.kind == SLIDE else (j.friction_radius, 1.0) for j in joints]
    return np.array([[*(getattr(j, f) for f in LOADED), *lever] for j, lever in zip(joints, levers, strict=True)]).reshape(-1, 4).T


def _frames(structure: Structure, placement: np.ndarray, axis: np.ndarray, anchor: np.ndarray) -> np.ndarray:
    out = np.zeros((18, len(structure.scalar_coordinates)))
    if structure.coordinates == TREE:
        return out
    for k, c in enumerate(structure.scalar_coordinates):
        i = c.unit
        if structure.tree_units[i].kind == FREE:
            b, a = np.roll(np.eye(3), -c.component, axis=1)[:, [1, 2, 0]], np.zeros(3)
        else:
            b, a = basis(axis[:, i]), anchor[:, i]
        p = placement[:, :3, i] @ b
        out[:, k] = [*p[:, 0], *p[:, 1], *p[:, 2], *b[:, 0], *a, *(placement[:, :3, i] @ a + placement[:, 3, i])]
    return out
