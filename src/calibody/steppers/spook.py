"""The regularised stepper of real-time engines (SPOOK): first order, every joint slightly soft, dry friction exact. The scheme is in `spook_step.py`.

Here because numbers that were calibrated in such an engine are right for that engine: with its compliance, its damping time and its step.
For motions as such the variational stepper is the better one (second order, rigid joints).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from calibody.complementarity import lcp
from calibody.errors import SimulationError
from calibody.mechanics import host
from calibody.mechanics.compilation import jax
from calibody.mechanics.kinematics import Geometry, poses
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import AUTO, FREE, Numbers, Structure, refuse_driven
from calibody.model import Model, Muscle
from calibody.steppers import spook_inverse, spook_step
from calibody.steppers.base import AbstractStepper, Start, Trajectory
from calibody.steppers.contact import gaps_along, refuse_inside
from calibody.steppers.motion import Motion
from calibody.steppers.spook_contact import Places
from calibody.steppers.spook_inverse import Forces
from calibody.steppers.spook_rows import Rows, Values, moving, step_velocities
from calibody.steppers.step import PIECE, axes_of, piece, size_of_dofs
from calibody.steppers.variational import Variational


@dataclass(frozen=True)
class Gone:
    """What came of some steps."""

    q: np.ndarray
    """(nq, steps + 1)"""
    forces: np.ndarray
    """(nc, steps): of the constraints."""
    pushes: np.ndarray
    """(steps, places, 3): of contacts and limits."""
    normals: np.ndarray
    """(steps, places): the normal parts of these."""
    pivots: int
    failure: str | None


@dataclass(frozen=True)
class Spook(AbstractStepper):
    """Settings of the regularised stepper. What a joint or loop states itself (`joint.X.compliance`, ...) goes before the first four."""

    compliance: float = 1e-8
    """How far a joint gives way per force [m/N]. Physical joints: 1e-8 (steel bearings) to 1e-5 (plastic); must be above zero."""
    angular_compliance: float = 1e-8
    """How far a joint's directions give way per torque [rad/(N m)]."""
    relaxation: float = 0.02
    """Damping time tau [s]: a violated constraint of places comes back as exp(-t/tau) (compliance small); 2 to 5 steps damp all vibration."""
    angular_relaxation: float = 0.02
    """The same for directions [s]."""
    slip: float = 1e-6
    """S_t [1/kg, 1/(kg m^2)]: a joint that sticks under a force f creeps at the rate S_t h f. 0: not at all, but then friction has no derivative
    while it sticks, and no inverse dynamics."""
    limit_slope: float = 0.0
    """L [kg, kg m^2]: the limit of dry friction grows with the rate of sliding by L/h; a viscous friction that engines add to regularise."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if not isinstance(value, (int, float, np.integer, np.floating)) or not math.isfinite(value) or value < 0.0:
                raise SimulationError(f"Spook({f.name}={value!r}): give a finite number that is not negative.")
            object.__setattr__(self, f.name, float(value))
        for name in ("compliance", "angular_compliance"):
            if getattr(self, name) == 0.0:
                raise SimulationError(f'Spook({name}=0.0): this stepper needs soft joints, give a small number such as 1e-12, or use stepper="variational".')

    def coordinates(self, asked: str) -> str:
        if asked not in (AUTO, FREE):
            raise SimulationError(f'stepper="spook" moves every body by itself, so coordinates = {asked!r} does not fit; leave it out, or give "free".')
        return FREE

    def viscous_below(self) -> float:
        """Friction is exact here; forces computed from a motion afterwards need some rate, as the variational stepper's."""
        return Variational().friction_rate

    def softness(self, structure: Structure, numbers: Numbers) -> np.ndarray:
        """(2, nc) compliance and damping time of every constraint row: the model's where it has one, else the settings."""
        angular = np.array(structure.row_angular, dtype=bool)
        own = np.where(angular, [[self.angular_compliance], [self.angular_relaxation]], [[self.compliance], [self.relaxation]])
        return np.where(numbers.softness[0] > 0.0, numbers.softness, own)

    def values(self, rows: Rows, numbers: Numbers, model: Model, possible: bool = True) -> Values:
        found = Values.of(rows, numbers, model, self.softness(rows.structure, numbers), self.slip, self.limit_slope, possible)
        if rows.places is None:
            return found
        settings = (self.compliance, self.angular_compliance), (self.relaxation, self.angular_relaxation), self.slip, self.limit_slope
        return found._replace(places=rows.places.values(*settings))

    def run(self, structure: Structure, numbers: Numbers, start: Start, control: np.ndarray, applied: np.ndarray, h: float) -> Trajectory:
        refuse_driven(structure, "spook")
        if structure.rolling.any():
            owner = structure.row_owners[int(np.argmax(structure.rolling))]
            raise SimulationError(f'{owner} rolls or glides, which stepper="spook" does not know; use stepper="variational".')
        places = Places.of(structure)
        rows = _rows(structure, numbers, places)
        values = self.values(rows, numbers, structure.model)
        if places is not None:
            gaps = gaps_along(places.spots, numbers, start.q[:, None], start.s)[:, 0]
            refuse_inside(places.spots, structure.model, gaps, float(size_of_dofs(structure, numbers).max(initial=1.0)))
        v = velocities(structure, numbers, values, start)
        state = spook_step.State(start.q, v, start.s, axis_rates(structure, numbers, start), np.zeros(rows.complementary, dtype=bool))
        gone = self.go(rows, values, state, control, applied, h)
        last = gone.forces[:, -1:] if gone.forces.shape[1] else np.zeros((structure.nc, 1))
        log = None if places is None else places.log(numbers, gone.q, gone.pushes, gone.normals, applied.shape[1] + 1)
        return Trajectory(gone.q, np.concatenate([gone.forces, last], axis=1), gone.pivots, np.ones(structure.nc, dtype=bool), gone.failure, contacts=log)

    def go(self, rows: Rows, values: Values, state: spook_step.State, control: np.ndarray, applied: np.ndarray, h: float) -> Gone:
        """Steps from any state."""
        advance = spook_step.compiled(rows, values, state, len(control))
        nodes, n = [np.asarray(state.q)[None]], applied.shape[1]
        made = [[np.zeros((0, rows.structure.nc)), np.zeros((0, rows.normals, 3)), np.zeros((0, rows.normals))]]
        pivots, failure = 0, None
        for first in range(0, n, PIECE):
            count = min(PIECE, n - first)
            u, f = piece(control, first), piece(applied, first)
            done, state, q, forces, status, used = advance(values, state, u, f, np.int32(count), np.float64(h))
            done, status = int(done), int(status)
            nodes.append(np.asarray(q)[:done])
            made.append([np.asarray(x)[:done] for x in forces])
            pivots += int(used)
            if status != spook_step.CONVERGED:
                failure = self._why(spook_step.Step(rows), values, state, u[:, done], f[:, done], status, (first + done) * h, h)
                break
        lam, pushes, normals = (np.concatenate(parts) for parts in zip(*made, strict=True))
        return Gone(np.concatenate(nodes).T, lam.T, pushes, normals, pivots, failure)

    def _why(
        self, step: spook_step.Step, values: Values, state: spook_step.State, u: np.ndarray, applied: np.ndarray, status: int, time: float, h: float
    ) -> str:
        rows = step.rows
        fastest = _fastest(rows.structure, np.asarray(state.v))
        springs = "; springs are explicit here and need h < 2 sqrt(mass/stiffness)" if _has_springs(rows.structure) else ""
        if status == spook_step.TURNED:
            return f"At t = {time:.6g} s {fastest} turns by more than 1 rad in one step of {h:g} s; try a step of {h / 4:g} s{springs}."
        if status == spook_step.NOT_FINITE:
            return f"At t = {time:.6g} s the step of {h:g} s gives no finite velocity, fastest is {fastest}; try a step of {h / 4:g} s{springs}."
        problem = jax.jit(lambda: step.problem(values, step.pieces(values, state.q, state.v, state.s, u, applied), state, h))()
        owner = rows.complementary_owners[int(np.argmin(np.asarray(problem.q)))]
        why = lcp.SENTENCES[int(jax.jit(step.solve)(problem, state.active).status)].split(":")[0].rstrip(".")
        return f"At t = {time:.6g} s {owner} cannot be resolved ({why}); try a step of {h / 4:g} s, or more compliance."

    def inverse_dynamics(self, motion: Motion) -> Forces:
        """What a motion (of any stepper, in `free` coordinates) needs beyond the model's own forces, as this stepper would have to exert it."""
        structure, numbers = motion.structure, motion.numbers
        if structure.coordinates != FREE:
            raise SimulationError('The inverse dynamics of this stepper needs the pose of every body; simulate with coordinates="free" first.')
        rows = _rows(structure, numbers)
        if rows.dry and self.slip == 0.0:
            raise SimulationError(f"Spook(slip=0.0) leaves the friction of joint.{rows.dry[0].joint} undetermined while it sticks; give a slip above zero.")
        values = self.values(rows, numbers, motion.model)
        units = moving(structure)
        v = step_velocities(structure, values, motion.q, motion.h)
        wrench, reactions, friction = spook_inverse.forces(
            spook_step.Step(rows), values, motion.q, motion.frames.s, v, motion.control, motion.applied, motion.h
        )
        unexplained = np.asarray(wrench).T.reshape(len(units), 6, -1)
        owners = tuple(d.joint for d in rows.dry for _ in d.axes)
        return Forces(unexplained, np.asarray(reactions).T, np.asarray(friction).T, tuple(structure.units[i].body.name for i in units), owners)


def axis_rates(structure: Structure, numbers: Numbers, start: Start) -> np.ndarray:
    """(axis rows,) rates of the scalar coordinates, then of the balls in the child's axes, at a start."""
    f = host.configuration(structure, numbers, start.q).frames
    _, acts, turns = axes_of(structure, f)
    children = f.H[:, :3, plan_of(structure).ball_links[:, 1], 0]
    return np.concatenate([acts @ start.v, np.einsum("iak,kij,j->ka", children, turns, start.v).ravel()])


def velocities(structure: Structure, numbers: Numbers, values: Values, start: Start) -> np.ndarray:
    """From rates of `free` coordinates (origin in world axes, turn in body axes) to velocity of the centre and turn in world axes."""
    H = np.asarray(poses(structure, Geometry.of(structure, numbers), start.q))
    out = start.v.copy()
    for k, i in enumerate(moving(structure)):
        at = int(structure.v_start[i])
        R = H[:, :3, i]
        omega = R @ start.v[at + 3 : at + 6]
        out[at : at + 3] += np.cross(omega, R @ values.com[:, k])
        out[at + 3 : at + 6] = omega
    return out


def _rows(structure: Structure, numbers: Numbers, places: Places | None = None) -> Rows:
    muscles = [a for a in structure.model.actuators if isinstance(a, Muscle)]
    for one in (*structure.model.transmissions, *structure.model.paths, *muscles):
        word = "muscles" if isinstance(one, Muscle) else f"{one.KIND}s"
        raise SimulationError(f'stepper="spook" does not know {word} yet ({one.KIND}.{one.name}); use stepper="variational".')
    return Rows.of(structure, numbers, places=places)


def _has_springs(structure: Structure) -> bool:
    model = structure.model
    return bool(model.springs or model.bushings or any(j.stiffness for j in model.joints) or any(a.stiffness for a in model.actuators))


def _fastest(structure: Structure, v: np.ndarray) -> str:
    """The joint (else the body) whose body has the largest velocity."""
    speed = np.nan_to_num(np.abs(v), nan=np.inf)
    unit = structure.units[structure.dof_unit[int(np.argmax(speed))]]
    return f"body.{unit.body.name} (joint.{unit.joint.name})" if unit.joint is not None else f"body.{unit.body.name}"
