"""Which rows the regularised stepper has for a mechanism, and the numbers in them.

| rows | equation | where |
|---|---|---|
| holonomic | `G v+ + S lam = -(4/h) Y g + Y G v` | every joint and loop without load-dependent friction |
| viscous | `N v+ + lam/(b h) = 0` | coordinates with damping b > 0 (joint and actuators) |
| shaft | `N v+ + lam/J = N v + h t/J` | coordinates with an armature J; t is what drives exert |
| load (complementary) | the holonomic rows with both signs, `lam >= 0` | joints with load-dependent friction |
| slip (complementary) | `+-N v+ + S_t lam_t + sig = w_t` | joints with any dry friction, every axis with both signs |
| limit (complementary) | `h c + U lam_c - sum lam_t + L sig = w_s` | one for each of these joints |
| contact (complementary) | normals, slips and limits of places (`spook_contact.py`) | contacts and limits of coordinates, in simulations |

A hinge or slide has one axis (its coordinate's), a ball and the rotation of a free joint three, in the child's axes, which share one limit:
their friction torques add up to at most the limit in the sum of their absolute values.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from calibody.errors import SimulationError
from calibody.mechanics.elements import body
from calibody.mechanics.elements.drive import ACTUATOR, UNLIMITED
from calibody.mechanics.elements.law import LAW
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import FREE, SLIDE, Numbers, Structure
from calibody.model import Model
from calibody.model.paths import resolve
from calibody.spatial import algebra as al
from calibody.steppers import step
from calibody.steppers.spook_contact import Places, PlaceValues

# Smallest principal moment relative to the largest that can still be inverted without losing half the digits.
THIN = 1e-8


@dataclass(frozen=True)
class Dry:
    """A joint with dry friction: its axes among the axis rows, and the constraint rows whose multipliers are its load."""

    joint: str
    axes: tuple[int, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Rows:
    """Indices only. Axis rows are the scalar coordinates, then three for every ball coordinate."""

    structure: Structure
    viscous: np.ndarray
    shaft: np.ndarray
    dry: tuple[Dry, ...]
    places: Places | None = None
    """Of contacts and limits; None where there are none, or they are left out."""

    @classmethod
    def of(cls, structure: Structure, numbers: Numbers, unknown: Collection[str] = (), places: Places | None = None) -> Rows:
        """Rows for what acts, and for what is `unknown` (paths): that may be zero now."""
        damping, armature = (a > 0.0 for a in axis_numbers(structure, numbers))
        scalars = len(structure.scalar_coordinates)
        axes: dict[str, tuple[int, ...]] = {}
        for i, c in enumerate(structure.scalar_coordinates):
            if structure.model.joint(c.joint).kind != FREE:
                axes[c.joint] = (i,)
        for k, b in enumerate(structure.ball_coordinates):
            axes[b.joint] = tuple(scalars + 3 * k + i for i in range(3))
        dry, found = [], [resolve(structure.model, path) for path in unknown if path.startswith("joint.")]
        for joint in structure.model.joints:
            fields = {place.field for place in found if (place.kind, place.name) == ("joint", joint.name)}
            for field, rows in (("damping", damping), ("armature", armature)):
                if field in fields:
                    rows[list(axes[joint.name])] = True
            loaded = joint.load_friction > 0.0 or joint.load_stribeck > 0.0 or bool(fields & {"load_friction", "load_stribeck"})
            if loaded or joint.friction > 0.0 or joint.stribeck > 0.0 or fields & {"friction", "stribeck"}:
                rows = tuple(i for i, owner in enumerate(structure.row_owners) if loaded and owner == f"joint.{joint.name}")
                dry.append(Dry(joint.name, axes[joint.name], rows))
        return cls(structure, np.flatnonzero(damping), np.flatnonzero(armature), tuple(dry), places)

    @cached_property
    def topology(self) -> tuple:
        """All that the indices depend on, without numbers and names."""
        own = (self.structure.topology, tuple(self.viscous.tolist()), tuple(self.shaft.tolist()), tuple((d.axes, d.rows) for d in self.dry))
        return own if self.places is None else (*own, self.places.topology)

    @cached_property
    def hinge(self) -> np.ndarray:
        """(axis rows,) True for the coordinates of hinges."""
        balls = 3 * len(self.structure.ball_coordinates)
        return np.array([*(c.rotational for c in self.structure.scalar_coordinates), *[False] * balls], dtype=bool)

    @cached_property
    def loaded(self) -> np.ndarray:
        """Constraint rows of joints with load-dependent friction, joint by joint."""
        return np.array([r for d in self.dry for r in d.rows], dtype=np.int64)

    @cached_property
    def holonomic(self) -> np.ndarray:
        return np.setdiff1d(np.arange(self.structure.nc), self.loaded)

    @cached_property
    def axes(self) -> np.ndarray:
        """Axis rows with dry friction, joint by joint."""
        return np.array([a for d in self.dry for a in d.axes], dtype=np.int64)

    @cached_property
    def axis_joint(self) -> np.ndarray:
        """Which of `dry` each of `axes` belongs to."""
        return np.repeat(np.arange(len(self.dry)), [len(d.axes) for d in self.dry])

    @cached_property
    def row_joint(self) -> np.ndarray:
        """Which of `dry` each of `loaded` belongs to."""
        return np.repeat(np.arange(len(self.dry)), [len(d.rows) for d in self.dry]).astype(np.int64)

    @property
    def free(self) -> int:
        """Number of rows whose multipliers are free."""
        return len(self.holonomic) + len(self.viscous) + len(self.shaft)

    @cached_property
    def rubbing(self) -> np.ndarray:
        """Places with friction."""
        return np.zeros(0, dtype=np.int64) if self.places is None else self.places.rubbing

    @property
    def normals(self) -> int:
        """Number of places."""
        return 0 if self.places is None else self.places.count

    @property
    def blocks(self) -> tuple[tuple[int, bool], ...]:
        """Complementary rows before the limits, as they are made of the rows of D: how many, and whether they come with both signs. Loads, slips, normals, tangents."""
        return (len(self.loaded), True), (len(self.axes), True), (self.normals, False), (2 * len(self.rubbing), True)

    @property
    def limits(self) -> int:
        """Number of limits of friction: of dry joints, then of places."""
        return len(self.dry) + len(self.rubbing)

    @property
    def complementary(self) -> int:
        return sum(count * (1 + both) for count, both in self.blocks) + self.limits

    @cached_property
    def complementary_owners(self) -> tuple[str, ...]:
        """What every complementary row is of, in words: loads (+, -), slips (+, -), normals, tangents (+, -), limits."""
        joint = "the dry friction of joint.{}".format
        loads, slips = [joint(d.joint) for d in self.dry for _ in d.rows], [joint(d.joint) for d in self.dry for _ in d.axes]
        names = [] if self.places is None else [f"what happens at {name}" for name in self.places.names]
        rubs = [names[k] for k in self.rubbing]
        return (*loads, *loads, *slips, *slips, *names, *rubs, *rubs, *rubs, *rubs, *(joint(d.joint) for d in self.dry), *rubs)


def axis_numbers(structure: Structure, numbers: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Damping (of joints and of actuators whose force has no limits) and armature of every axis row."""
    plan = plan_of(structure)
    damping, armature = (numbers.law[LAW.index(what)].copy() for what in ("damping", "armature"))
    gear, own = numbers.drive[ACTUATOR.index("gear")], numbers.drive[ACTUATOR.index("damping")]
    np.add.at(damping, plan.actuator_coordinate, np.where(force_limited(numbers), 0.0, gear * gear * own))
    return np.concatenate([damping, np.repeat(numbers.ball_law[1], 3)]), np.concatenate([armature, np.repeat(numbers.ball_law[3], 3)])


def force_limited(numbers: Numbers | step.Values) -> np.ndarray:
    """(actuators,) whether the force has limits: then their damping has, too, and is explicit instead of a viscous row."""
    low, high = numbers.elements["drive"][-2:]
    return (low > UNLIMITED[0]) | (high < UNLIMITED[1])


class Values(NamedTuple):
    """Numbers as the compiled step takes them."""

    base: step.Values
    mass: Any
    """(bodies,) of the units that move."""
    com: Any
    """(3, bodies) in the body's frame."""
    inertia: Any
    """(3, 3, bodies) about the centre of mass, body axes; and its inverse."""
    inverse: Any
    softness: Any
    """(2, nc) compliance and damping time of every constraint row."""
    damping: Any
    """(axis rows,)"""
    armature: Any
    limit: Any
    """(2, dry joints): friction and stribeck [N m, N]."""
    load_limit: Any
    """(2, dry joints): load_friction and load_stribeck."""
    stribeck_rate: Any
    """(dry joints,)"""
    lever: Any
    """(loaded rows,) what turns a reaction into a friction force: r, 1 or 1/r."""
    slip: Any
    """S_t [1/kg, 1/(kg m^2)] of every dry axis."""
    limit_slope: Any
    """L [kg, kg m^2] of every dry joint."""
    places: PlaceValues | tuple = ()
    """Of contacts and limits."""

    def regularisation(self, h: Any) -> tuple[Any, Any]:
        """Y and S of the constraint rows (`spook_step`)."""
        return regularised(self.softness, h)

    @classmethod
    def of(cls, rows: Rows, numbers: Numbers, model: Model, softness: np.ndarray, slip: float, limit_slope: float, possible: bool = True) -> Values:
        """`possible`: the step is to be taken, so that all inertias must be invertible; otherwise `inverse` is zero."""
        structure = rows.structure
        mass, com, inertia = body_numbers(structure, numbers, possible)
        inverse = np.linalg.inv(inertia.transpose(2, 0, 1)).transpose(1, 2, 0) if possible else np.zeros_like(inertia)
        joints = [model.joint(d.joint) for d in rows.dry]
        if soft := next((j for j in joints if j.friction_rate > 0.0), None):
            raise SimulationError(
                f'joint.{soft.name}.friction_rate is {soft.friction_rate:g}, but friction is sharp in stepper="spook"; set it to zero here, or use stepper="variational".'
            )
        if skewed := next((j for j in model.joints if j.damping_skew or j.friction_skew), None):
            raise SimulationError(
                f'joint.{skewed.name} has friction that depends on the direction, which stepper="spook" does not know; use stepper="variational".'
            )
        damping, armature = axis_numbers(structure, numbers)

        def pair(*fields: str) -> np.ndarray:
            return np.array([[getattr(j, f) for j in joints] for f in fields], dtype=float).reshape(len(fields), -1)

        lever = []
        for d, j in zip(rows.dry, joints, strict=True):
            r = j.friction_radius
            lever += [(1.0 / r if j.kind == SLIDE else 1.0) if structure.row_angular[i] else (1.0 if j.kind == SLIDE else r) for i in d.rows]
        return cls(
            step.Values.of(structure, numbers, np.ones(structure.nc)), mass, com, inertia, inverse, softness, damping,
            armature, pair("friction", "stribeck"), pair("load_friction", "load_stribeck"), pair("stribeck_rate")[0], np.array(lever, dtype=float),
            np.full(len(rows.axes), slip), np.full(len(rows.dry), limit_slope),
        )  # fmt: skip


def regularised(softness: Any, h: Any) -> tuple[Any, Any]:
    """Y and S, from compliances and damping times."""
    eps, tau = softness
    Y = 1.0 / (1.0 + 4.0 * tau / h)
    return Y, 4.0 / (h * h) * eps * Y


def moving(structure: Structure) -> np.ndarray:
    """The units that move."""
    return np.array([i for i, u in enumerate(structure.units) if u.kind == FREE], dtype=np.int64)


def body_numbers(structure: Structure, numbers: Numbers, possible: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about it; a body that cannot be accelerated by a force of any direction is refused if it must be `possible`."""
    units = moving(structure)
    mass, com, inertia = np.zeros(len(units)), np.zeros((3, len(units))), np.zeros((3, 3, len(units)))
    for k, i in enumerate(units):
        unit = structure.units[i]
        E = np.array(body.matrix(numbers.inertia[:, i]))
        if not unit.last:
            raise SimulationError(
                f'body.{unit.body.name} has several joints, and stepper="spook" would need a mass between them; put a body with a small mass and inertia '
                'between the joints, or use stepper="variational".'
            )
        if E[3, 3] <= 0.0:
            raise SimulationError(
                f'body.{unit.body.name} has no mass, and stepper="spook" moves every body by its own mass; give it one, or use stepper="variational".'
            )
        mass[k], com[:, k] = E[3, 3], E[:3, 3] / E[3, 3]
        second = E[:3, :3] - mass[k] * np.outer(com[:, k], com[:, k])
        inertia[:, :, k] = np.trace(second) * np.eye(3) - second
        moments = np.linalg.eigvalsh(inertia[:, :, k])
        if possible and moments[0] <= THIN * max(moments[2], 1e-300):
            raise SimulationError(
                f"body.{unit.body.name} has no inertia about one of its axes (principal moments {moments[0]:.3g}, {moments[1]:.3g}, {moments[2]:.3g} kg m^2), "
                'and stepper="spook" turns every body by its own inertia; give it a small one, or use stepper="variational".'
            )
    return mass, com, inertia


def step_velocities(structure: Structure, values: Values, q: np.ndarray, h: float) -> np.ndarray:
    """(nv, K - 1): the velocities that take the stepper from node to node: of the centres of mass, and `log(R_(k+1) R_k')/h`."""
    out = np.zeros((structure.nv, q.shape[1] - 1))
    for k, i in enumerate(moving(structure)):
        at, to = int(structure.q_start[i]), int(structure.v_start[i])
        e = tuple(q[at + 3 + j] for j in range(4))
        centre = q[at : at + 3] + np.stack(al.matvec(al.quaternion_matrix(e), tuple(values.com[:, k, None])))  # type: ignore[arg-type]
        out[to : to + 3] = np.diff(centre, axis=1) / h
        before, after = (tuple(x[nodes] for x in e) for nodes in (slice(0, -1), slice(1, None)))
        turn = al.quaternion_product(after, al.quaternion_conjugate(before))  # type: ignore[arg-type]
        out[to + 3 : to + 6] = np.stack(al.quaternion_log(turn)) / h
    return out
