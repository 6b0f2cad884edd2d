"""A simulated motion: nodes, and every channel of the model computed from them when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from calibody import html, upward
from calibody.errors import SimulationError
from calibody.mechanics import assembly, channels, imu, transmitted
from calibody.mechanics.assembly import Frames
from calibody.mechanics.contact import Spots
from calibody.mechanics.elements import body as body_element, compliant, stop
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Point
from calibody.mechanics.shapes import Touch
from calibody.mechanics.structure import Numbers, Structure
from calibody.model import Model
from calibody.spatial import algebra as al
from calibody.steppers.events import ContactLog, Event

if TYPE_CHECKING:
    import polars
    from plotly.graph_objects import Figure


@dataclass(frozen=True, eq=False, kw_only=True)
class Motion:
    """`motion["joint.hinge.angle"]`, `motion.time`, `motion.energy`. Arrays have one row per node; vectors have their components last.

    The trajectory holds one node beyond the last: rates and reaction forces of a node need its two neighbours.
    """

    model: Model
    structure: Structure = field(repr=False)
    numbers: Numbers = field(repr=False)
    h: float
    q: np.ndarray = field(repr=False)
    """(nq, n + 2) coordinates of `structure`, one node more than `time` has."""
    multipliers: np.ndarray = field(repr=False)
    control: np.ndarray = field(repr=False)
    applied: np.ndarray = field(repr=False)
    turns: np.ndarray | None = field(repr=False)
    delta: float
    start_rate: np.ndarray = field(repr=False)
    """(nv,) rates of `structure` at the start."""
    joint_rate: np.ndarray = field(repr=False)
    """Rates of the joints at the start, in the order of the tree."""
    active: np.ndarray = field(repr=False)
    """(nc,) 1 for constraint rows that were kept, 0 for those that depend on others."""
    iterations: int
    """Evaluations of the equations of motion in all steps."""
    notes: tuple[str, ...] = ()
    start: float = 0.0
    """Time of the first node [s]."""
    choices: tuple[tuple[int, np.ndarray], ...] = field(default=(), repr=False)
    """Where the constraint rows that were kept changed: the first step with each choice, and the choice."""
    given: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    """(prescribed, n + 2) where drives have joints and sites."""
    unknown: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    """(velocities of the tree, n + 2) forces of unknown drives at the nodes, as they were found; empty where there are none."""
    touched: ContactLog | None = field(default=None, repr=False)
    """Forces, impulses and events of contacts; None of a motion without any."""
    held: tuple[frozenset[int], frozenset[int]] = field(default=(frozenset(), frozenset()), repr=False)
    """Rows of the control and of the applied forces that jump from one interval to the next: at a node they are what they are from there on."""
    read: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    """Channels that an engine has measured itself, (nodes,) or (nodes, components)."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The impacts in the order of time."""
        return tuple(self.touched.events) if self.touched is not None else ()

    @cached_property
    def time(self) -> np.ndarray:
        return self.start + self.h * np.arange(self.q.shape[1] - 1)

    @property
    def coordinates(self) -> str:
        return self.structure.coordinates

    def active_at(self, step: int) -> np.ndarray:
        """(nc,) 1 for the rows that were kept in the step from a node, else 0."""
        return next((rows.astype(float) for first, rows in reversed(self.choices) if first <= step), self.active)

    @cached_property
    def channels(self) -> tuple[str, ...]:
        """Every channel of the model, vectors as a whole."""
        return tuple(channels.catalogue(self.model))

    def __getitem__(self, path: str) -> np.ndarray:
        channel = channels.resolve(self.model, path)
        if channel.whole in self.read:
            whole = self.read[channel.whole][: len(self.time)]
            return whole.copy() if channel.component is None else whole[..., channel.component].copy()
        whole = getattr(self, f"_{channel.kind}")(channel.name, channel.quantity)
        return whole if channel.component is None else whole[..., channel.component]

    # -- frames ------------------------------------------------------------------------------------------------------------------

    @cached_property
    def point(self) -> Point:
        """What the discrete equations were satisfied at."""
        return Point(self.q, self.multipliers, self.control, self.applied, self.h, self.delta, self.turns, given=self.given if len(self.given) else None)

    @cached_property
    def frames(self) -> Frames:
        return assembly.frames(self.structure, self.numbers, self.point)

    @cached_property
    def _H(self) -> np.ndarray:
        return self.frames.H[..., :-1]

    @cached_property
    def _rates(self) -> np.ndarray:
        """(scalar coordinates, transmissions and paths, nodes): `(rho_(k-1) + rho_k)/2`, at the start the given rate."""
        rho, plan = np.diff(self.frames.s, axis=1) / self.h, plan_of(self.structure)
        pull = assembly.pulls(plan, self.numbers, self.frames.between(0, 1))[..., 0]
        start = np.concatenate([assembly.combined(self.structure, self.joint_rate[plan.coordinate_dof]), pull @ self.start_rate])[:, None]
        return np.concatenate([start, 0.5 * (rho[:, :-1] + rho[:, 1:])], axis=1)

    def _ball_rates(self, k: int) -> np.ndarray:
        R = assembly.relative_rotation(plan_of(self.structure), self.numbers, self.frames, k)
        left, right = (tuple(tuple(x[nodes] for x in row) for row in R) for nodes in (slice(0, -1), slice(1, None)))
        rho = np.stack(al.matrix_log(al.matmul(al.transpose(left), right))) / self.h
        dof = plan_of(self.structure).ball_dof[k]
        start = self.joint_rate[dof : dof + 3, None]
        return np.concatenate([start, 0.5 * (rho[:, :-1] + rho[:, 1:])], axis=1)

    # -- channels ----------------------------------------------------------------------------------------------------------------

    def _indices(self, joint: str) -> tuple[list[int], int | None]:
        """The scalar coordinates of a joint, and its ball coordinate."""
        scalars = [i for i, c in enumerate(self.structure.scalar_coordinates) if c.joint == joint]
        ball = next((k for k, b in enumerate(self.structure.ball_coordinates) if b.joint == joint), None)
        return scalars, ball

    def _joint(self, name: str, quantity: str) -> np.ndarray:
        scalars, ball = self._indices(name)
        if quantity.startswith("reaction."):
            return self._transmitted(f"joint.{name}.{quantity}")
        if quantity == "rate":
            parts = [self._rates[scalars]] + ([self._ball_rates(ball)] if ball is not None else [])
            return _scalar_or_vector(np.concatenate(parts))
        if quantity == "force":
            return self._drive_force(scalars, ball)
        if quantity in ("angle", "orientation") and ball is not None:
            R = assembly.relative_rotation(plan_of(self.structure), self.numbers, self.frames, ball)
            matrices = np.array(R)[..., :-1].transpose(2, 0, 1)
            quaternions = np.array([al.matrix_quaternion(m) for m in matrices])
            return quaternions if quantity == "orientation" else np.stack(al.quaternion_log(tuple(quaternions.T))).T  # type: ignore[arg-type]
        return _scalar_or_vector(self.frames.s[scalars, :-1])

    def _drive_force(self, scalars: list[int], ball: int | None) -> np.ndarray:
        """Forces of actuators and applied forces at the nodes."""
        plan = plan_of(self.structure)
        rows = []
        for c in scalars:
            total = self._applied(int(plan.coordinate_dof[c]))
            for a, on in enumerate(plan.actuator_coordinate):
                if weight := dict(plan.shares(on)).get(c, 0.0):
                    total += weight * self._exerted(a)
            rows.append(total)
        if ball is not None:
            dof = plan.ball_dof[ball]
            rows += [self._applied(row) for row in range(dof, dof + 3)]
        out = np.array(rows)
        if len(self.unknown):
            dofs = [int(plan.coordinate_dof[c]) for c in scalars] + ([] if ball is None else list(range(plan.ball_dof[ball], plan.ball_dof[ball] + 3)))
            out = out + self.unknown[dofs, :-1]
        for k, c in enumerate(scalars):
            coordinate = self.structure.scalar_coordinates[c]
            for channel, row in zip(self.structure.prescribed, self.structure.prescribed_rows, strict=True):
                if (channel.kind, channel.name, channel.component or 0) == ("joint", coordinate.joint, coordinate.component):
                    out[k] += self.multipliers[row, :-1]
        return _scalar_or_vector(out)

    def _applied_at(self, name: str) -> np.ndarray:
        """(3, nodes): the force that drives exert at a site, world axes."""
        s, out = self.structure, np.zeros((3, len(self.time)))
        link = s.body_link[self.model.tables["site"][name].body]
        for channel, row in zip(s.prescribed, s.prescribed_rows, strict=True):
            if (channel.kind, channel.name) == ("site", name):
                out[channel.component] += self.multipliers[row, :-1]
        for channel in s.pushed:
            if (channel.kind, channel.name) == ("site", name) and channel.quantity.startswith("force"):
                own = channel.quantity != "force"
                axes = imu.sensor_axes(self._H[:, :, link], self.model.tables["site"][name]) if own else np.eye(3)[..., None]
                out += axes[:, channel.component] * _at_nodes(self.applied[s.applied_row(channel)][None])
        return out

    def _site(self, name: str, quantity: str) -> np.ndarray:
        site = self.model.tables["site"][name]
        if quantity == "position":
            return self._point_on(site.body, site.position)
        if quantity in ("force", "torque"):
            return self._transmitted(f"site.{name}.{quantity}")
        if quantity == "applied":
            return self._applied_at(name).T
        link = self.structure.body_link[site.body]
        H = self.frames.H[:, :, link]
        if quantity in ("angle", "orientation", "pose"):
            return self._turned(imu.sensor_axes(H[..., :-1], site), self._point_on(site.body, site.position), quantity)
        if quantity == "angular_rate":
            rho, dofs = imu.angular_rates(H, site, self.h), self.structure.dofs_above[link]
            turning = imu.sensor_axes(H, site)[..., 0].T @ (self.frames.T[:3, dofs, 0] @ self.start_rate[dofs])
            return np.concatenate([turning[:, None], 0.5 * (rho[:, :-1] + rho[:, 1:])], axis=1).T
        felt = imu.specific_force(H, site, self.numbers.gravity, self.h)
        return self._started(felt).T

    def _point_on(self, body: str, position: tuple[float, float, float]) -> np.ndarray:
        H = al.unpack_pose(self._H[:, :, self.structure.body_link[body]])
        return np.stack(al.point(H, position)).T

    def _body(self, name: str, quantity: str) -> np.ndarray:
        H = self._H[:, :, self.structure.body_link[name]]
        if quantity == "position":
            return H[:, 3].T.copy()
        if quantity == "com":
            return self._point_on(name, self.model.body(name).com)
        return self._turned(H[:, :3], H[:, 3].T, quantity)

    @staticmethod
    def _turned(R: np.ndarray, position: np.ndarray, quantity: str) -> np.ndarray:
        """Axes (3, 3, nodes) as rotation vectors (`angle`) or quaternions (`orientation`), or with a position (nodes, 3) as a pose."""
        quaternions = np.array([al.matrix_quaternion(one) for one in R.transpose(2, 0, 1)])
        if quantity == "angle":
            return np.stack(al.quaternion_log(tuple(quaternions.T))).T  # type: ignore[arg-type]
        return quaternions if quantity == "orientation" else np.concatenate([position, quaternions], axis=1)

    def _actuator(self, name: str, quantity: str) -> np.ndarray:
        a = [x.name for x in self.model.actuators].index(name)
        if quantity == "":
            return self.control[a].copy()
        return self._exerted(a)

    def _exerted(self, actuator: int) -> np.ndarray:
        """The force of an actuator at the nodes: the mean of the two intervals that meet there; of a control that jumps, that of the second, with the mean coordinate and rate."""
        (sm, rho), control = assembly.interval_rates(self.frames, self.h), self.control[actuator]
        jumps = actuator in self.held[0]
        if jumps:
            sm, rho = _at_nodes(sm), _at_nodes(rho)
        force = assembly.exerted(plan_of(self.structure), self.numbers, actuator, sm, rho, control)[0]
        return force if jumps else _at_nodes(force[None])[0]

    def _applied(self, row: int) -> np.ndarray:
        """An applied force at the nodes."""
        return self.applied[row].copy() if row in self.held[1] else _at_nodes(self.applied[[row]])[0]

    def _path(self, name: str, quantity: str) -> np.ndarray:
        c = self.structure.law_owners.index(("path", name))
        return self._rates[c].copy() if quantity == "rate" else self.frames.s[c, :-1].copy()

    def _transmission(self, name: str, quantity: str) -> np.ndarray:
        c = self.structure.law_owners.index(("transmission", name))
        return self._rates[c].copy() if quantity == "rate" else self.frames.s[c, :-1].copy()

    def _mujoco(self, name: str, quantity: str) -> np.ndarray:
        raise SimulationError(f'The channel "mujoco.{name}" was not measured in this motion; simulate with stepper="mujoco".')

    def _loop(self, name: str, quantity: str) -> np.ndarray:
        rows = [i for i, owner in enumerate(self.structure.row_owners) if owner == f"loop.{name}"]
        width = max(1, len(channels.resolve(self.model, f"loop.{name}.{quantity}").components))
        return _scalar_or_vector(self.multipliers[rows[:width], :-1])

    # -- contacts ----------------------------------------------------------------------------------------------------------------

    @cached_property
    def _spots(self) -> Spots:
        return Spots.of(self.structure, compliant=True)

    @cached_property
    def _touch(self) -> Touch:
        return self._spots.touch(self._H)

    def _contact(self, name: str, quantity: str) -> np.ndarray:
        return self._touching([c.name for c in self.model.contacts].index(name), quantity)

    def _limit(self, name: str, quantity: str) -> np.ndarray:
        whole = self._touching(len(self.model.contacts) + [x.name for x in self.model.limits].index(name), quantity)
        return whole[:, 0] if whole.ndim > 1 else whole

    def _touching(self, owner: int, quantity: str) -> np.ndarray:
        """A channel of a contact or limit."""
        log, spots, nodes = self.touched, self._spots, len(self.time)
        mine = np.flatnonzero(spots.owner == owner)
        if quantity in ("gap", "slip"):
            gaps = spots.gaps(self._touch, self.frames.s[:, :-1])[mine]
            return gaps.min(0) if quantity == "gap" else self._slip(mine, np.argmin(gaps, axis=0))
        if owner in self._pressed and quantity != "impulse":
            return self._pressed[owner][quantity == "force.normal"]
        if log is None:
            return np.zeros(nodes) if quantity == "force.normal" else np.zeros((nodes, 3))
        values = {"force": log.force, "force.normal": log.normal, "impulse": log.impulse}[quantity][owner]
        return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, max(0, nodes - values.shape[-1]))])[..., :nodes].T.copy()

    @cached_property
    def _pressed(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """By compliant contact: the force on its a (nodes, 3), and the sum of its normal forces; by compliant limit: twice that on the coordinate (nodes, 1). Of the mean over both intervals of a node."""
        plan, f, out = plan_of(self.structure), self.frames, {}
        for group, spots in zip(plan.encounters, compliant.groups_of(self.model).values(), strict=True):
            ends = (assembly.link_pairs(f, group.touches, nodes) for nodes in (assembly.LEFT, assembly.RIGHT))
            found = group.type.exchange(*ends, self.numbers.elements[group.name][:, :, None], self.h)
            for e, spot in enumerate(spots):
                force, normal = out.get(spot.owner, (0.0, 0.0))
                force = force + (-1.0 if spot.flipped else 1.0) * _at_nodes(found.force[:, e]).T
                out[spot.owner] = force, normal + _at_nodes(found.normal[None, e])[0]
        sm, rho = assembly.interval_rates(f, self.h)
        for group in (g for g in plan.coordinate_forces if g.type is stop.TYPE):
            names = [x.name for x in self.model.limits]
            for (_, name), c, data in zip(stop.TYPE.owners(self.structure), group.touches, self.numbers.elements[group.name].T, strict=True):
                force = _at_nodes(stop.pushed(sm[c], rho[c], data)[0][None]).T
                out[len(self.model.contacts) + names.index(name)] = force, force
        return out

    def _slip(self, mine: np.ndarray, nearest: np.ndarray) -> np.ndarray:
        """The sliding speed of the nearest place over the step after each node."""
        touch, H, at, k = self._touch, self.frames.H, mine[nearest], np.arange(len(self.time))
        n, x = touch.normal[:, at, k], touch.at_a[:, at, k]
        ends = []
        for links in self._spots.links:
            now, then = (H[:, :, links[at], k + j] for j in (0, 1))
            ends.append(np.einsum("ijk,jk->ik", then[:, :3], np.einsum("jik,jk->ik", now[:, :3], x - now[:, 3])) + then[:, 3])
        v = (ends[0] - ends[1]) / self.h
        return np.linalg.norm(v - n * (n * v).sum(0), axis=0)

    # -- reactions ---------------------------------------------------------------------------------------------------------------

    @cached_property
    def _through(self) -> np.ndarray:
        """(6, n + 1, nodes): what goes through the cuts above all links (`transmitted.py`)."""
        found = transmitted.through(self.structure, self.numbers, self.multipliers, self.frames, self.h, self._contact_wrench, self.applied)
        return self._started(found)

    @property
    def _contact_wrench(self) -> np.ndarray | None:
        """(6, links, inner nodes): what contacts do to links."""
        return None if self.touched is None else self.touched.wrench[:, :, 1 : self.q.shape[1] - 1]

    def _transmitted(self, path: str) -> np.ndarray:
        """What goes through the cut above a link, as a channel has it."""
        channel = channels.resolve(self.model, path)
        link = transmitted.cut_of(self.structure, self.model, channel)
        return transmitted.readings(self.structure, self.model, self.numbers, channel, self._H[:, :, link], self._through[:, link]).T

    @staticmethod
    def _started(inner: np.ndarray) -> np.ndarray:
        """With the first node, which has no neighbour before it: a straight line."""
        return np.concatenate([2.0 * inner[..., :1] - inner[..., 1:2] if inner.shape[-1] > 1 else inner[..., :1], inner], axis=-1)

    # -- energy ------------------------------------------------------------------------------------------------------------------

    @cached_property
    def kinetic_energy(self) -> np.ndarray:
        """`tr(Hdot E Hdot')/2` with `Hdot` the central difference (the given rates at the start), plus armatures [J]."""
        f = self.frames
        out = np.zeros(self.q.shape[1] - 1)
        for i in plan_of(self.structure).massive:
            E = np.array(body_element.matrix(self.numbers.inertia[:, i]))
            Hdot = np.empty((3, 4, len(out)))
            Hdot[..., 1:] = (f.H[:, :, i, 2:] - f.H[:, :, i, :-2]) / (2.0 * self.h)
            above = self.structure.dofs_above[i]
            twist = f.T[:, above, 0] @ self.start_rate[above]
            Hdot[..., 0] = np.cross(twist[:3][:, None], f.H[:, :, i, 0], axis=0)
            Hdot[:, 3, 0] += twist[3:]
            out += 0.5 * np.einsum("iak,ab,ibk->k", Hdot, E, Hdot)
        out += 0.5 * plan_of(self.structure).coordinate_inertia(self.numbers) @ self._rates**2
        for k in range(len(self.structure.ball_coordinates)):
            out += 0.5 * self.numbers.ball_law[3, k] * (self._ball_rates(k) ** 2).sum(0)
        for node, energy in self.touched.kinetic.items() if self.touched is not None else ():
            if node < len(out):
                out[node] = energy  # next to an impact the difference of coordinates is no rate
        return out

    @cached_property
    def potential_energy(self) -> np.ndarray:
        """Gravity, joint springs and forces between links [J]."""
        plan, numbers = plan_of(self.structure), self.numbers
        f = self.frames
        out = np.zeros(self.q.shape[1] - 1)
        for i in plan.massive:
            E = np.array(body_element.matrix(numbers.inertia[:, i]))
            out -= np.einsum("i,iak,a->k", numbers.gravity, f.H[:, :, i, :-1], E[3])
        for group in plan.coordinate_forces:
            out += group.type.energy(f.s[group.touches, :-1], numbers.elements[group.name][:, :, None]).sum(0)
        for k in range(len(plan.ball_links)):
            R = assembly.relative_rotation(plan, numbers, f, k)
            reference = al.transpose(al.quaternion_matrix(tuple(numbers.ball_reference[:, k])))  # type: ignore[arg-type]
            psi = np.stack(al.matrix_log(al.matmul(reference, R)))[:, :-1]
            out += 0.5 * numbers.ball_law[0, k] * (psi**2).sum(0)
        for group in plan.encounters:
            out += group.type.energy(assembly.link_pairs(f, group.touches, slice(None, -1)), numbers.elements[group.name][:, :, None]).sum(0)
        for group in plan.forces:
            data = numbers.elements[group.name][:, :, None]
            out += group.type.energy(group.type.measure.value(f.poses(group.touches), data), data).sum(0)[:-1]
        return out

    @cached_property
    def energy(self) -> np.ndarray:
        return self.kinetic_energy + self.potential_energy

    # -- tables ------------------------------------------------------------------------------------------------------------------

    def to_frame(self, names: Iterable[str] | None = None) -> polars.DataFrame:
        """A table with `time` and one column per scalar channel (all of them, or those named)."""
        import polars

        columns = {"time": self.time}
        for path in self.channels if names is None else names:
            values = self[path]
            parts = [values] if values.ndim == 1 else list(values.T)
            columns.update(zip(channels.scalar_names(self.model, path), parts, strict=True))
        return polars.DataFrame(columns)

    def __str__(self) -> str:
        e = self.energy
        return f"Motion of {self.model.name!r}: {self.time[-1]:g} s in {len(self.time) - 1} steps of {self.h:g} s, {self.coordinates} coordinates, energy {e[0]:.6g} -> {e[-1]:.6g} J"

    def _repr_html_(self) -> str:
        """For notebooks: where every joint starts and ends and how far it goes, and the energy."""
        rows = []
        for path in (p for p in self.channels if p.startswith("joint.") and p.rpartition(".")[2] in ("angle", "position")):
            values = self[path] if self[path].ndim > 1 else self[path][:, None]
            for name, column in zip(channels.scalar_names(self.model, path), values.T, strict=True):
                rows.append((name, *(f"{x:.5g}" for x in (column[0], column[-1], column.min(), column.max()))))
        rows.append(("energy [J]", *(f"{x:.6g}" for x in (self.energy[0], self.energy[-1], self.energy.min(), self.energy.max()))))
        return html.block(str(self), html.table(("channel", "start", "end", "least", "most"), rows, numbers=(1, 2, 3, 4)), html.sentences(self.notes))

    def plot(self, *names: str) -> Figure:
        """Channels over time, as a plotly figure; without names, the coordinates of all joints."""
        return upward.carry_out("Motion.plot", self, names)


def _scalar_or_vector(rows: np.ndarray) -> np.ndarray:
    return rows[0].copy() if len(rows) == 1 else rows.T.copy()


def _at_nodes(intervals: np.ndarray) -> np.ndarray:
    return np.concatenate([intervals[:, :1], 0.5 * (intervals[:, :-1] + intervals[:, 1:])], axis=1)
