"""`stepper="mujoco"`: MuJoCo's own engine steps the model, as the file has it (`engine.py`); joint coordinates are calibody's, channels are read from the engine's sensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibody.mechanics import channels
from calibody.mechanics.structure import TREE, Numbers, Structure, refuse_driven
from calibody.model import Model
from calibody.model.native import MUJOCO
from calibody.steppers.base import AbstractStepper, Start, Trajectory
from calibody.steppers.motion import Motion

if TYPE_CHECKING:
    from calibody.steppers.engine import Engine


@dataclass(frozen=True)
class MuJoCo(AbstractStepper):
    """MuJoCo's engine with the options, contacts, tendons, muscles and actuators of the file, and the step `h` that is simulated with; of first order, as its integrators are (RK4 apart)."""

    @property
    def engine(self) -> bool:
        return True

    def coordinates(self, asked: str) -> str:
        return TREE

    def viscous_below(self) -> float:
        return 1.0

    def run(self, structure: Structure, numbers: Numbers, start: Start, control: np.ndarray, applied: np.ndarray, h: float) -> Trajectory:
        from calibody.steppers.engine import Engine  # with MuJoCo, which few simulations need
        from calibody.steppers.engine_channels import is_sensed

        refuse_driven(structure, "mujoco")
        model = structure.model
        read = [c for c in _scalars(model) if c.quantity != "orientation" and is_sensed(model, c)]
        engine = Engine(model, read, h)
        steps = control.shape[1]
        driven = {f"actuator.{a.name}": row for a, row in zip(model.actuators, control, strict=False)}
        driven |= {f"{MUJOCO}.{n.name}": row for n, row in zip((n for n in model.natives if n.control), control[len(model.actuators) :], strict=True)}
        forces = engine.controls(model, driven, steps + 1)
        forces[:steps, engine.m.nu :] += applied[_velocities(engine, structure)].T
        first = state_of(engine, structure, start.q, start.v)
        for path, value in start.activations.items():
            first[engine.place(channels.resolve(model, path))[0]] = value
        batch = engine.steps([engine.with_numbers(model)], first[None], forces[None])
        good = np.isfinite(batch.states[0]).all(axis=1) & np.isfinite(batch.sensors[0]).all(axis=1)
        count = steps if good[:steps].all() else int(np.argmin(good[:steps]))
        states = np.concatenate([first[None], batch.states[0, :count]])
        q = coordinates_of(engine, structure, states)
        failure = (
            None
            if count == steps
            else f"At t = {count * h:.6g} s the engine's state is not finite: the motion is unstable; take a smaller h, or look at the options of the file."
        )
        none = np.zeros((structure.nc, q.shape[1]))
        return Trajectory(q, none, 0, np.ones(structure.nc, dtype=bool), failure, read=_wholes(read, batch.sensors[0, : count + 1]))


def _scalars(model: Model) -> list[channels.Channel]:
    """Every single number of every channel."""
    out = []
    for path, (_, _, _, components, _) in channels.catalogue(model).items():
        out += [channels.resolve(model, f"{path}.{c}") for c in components] if components else [channels.resolve(model, path)]
    return out


def _wholes(read: list[channels.Channel], values: np.ndarray) -> dict[str, np.ndarray]:
    """By channel, vectors whole."""
    parts: dict[str, list[np.ndarray]] = {}
    for c, column in zip(read, values.T, strict=True):
        parts.setdefault(c.whole, []).append(column)
    alone = {c.path for c in read if not c.components}
    return {path: columns[0] if path in alone else np.stack(columns, axis=1) for path, columns in parts.items()}


def _places(engine: Engine, structure: Structure) -> list[tuple[slice, int, slice, int]]:
    """(coordinates here, first in qpos, velocities here, first in qvel) of every joint."""
    out, m = [], engine.m
    for i, unit in enumerate(structure.tree_units):
        if unit.joint is None:
            continue
        j = engine.index("joint", unit.joint.name)
        q, v = (slice(int(x[i]), int(x[i + 1])) for x in (structure.q_start, structure.v_start))
        out.append((q, int(m.jnt_qposadr[j]), v, int(m.jnt_dofadr[j])))
    return out


def _velocities(engine: Engine, structure: Structure) -> np.ndarray:
    """(nv,) which velocity of the tree each of the engine's is."""
    out = np.zeros(engine.nv, dtype=int)
    for _, _, v, first in _places(engine, structure):
        out[first : first + v.stop - v.start] = np.arange(v.start, v.stop)
    return out


def state_of(engine: Engine, structure: Structure, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The engine's state from coordinates and rates of the tree, activations zero."""
    out = engine.resting
    for qs, q_first, vs, v_first in _places(engine, structure):
        out[q_first : q_first + qs.stop - qs.start] = q[qs]
        out[engine.nq + v_first : engine.nq + v_first + vs.stop - vs.start] = v[vs]
    return out


def coordinates_of(engine: Engine, structure: Structure, states: np.ndarray) -> np.ndarray:
    """(nq, K) coordinates of the tree."""
    q = np.zeros((structure.nq, len(states)))
    for qs, first, _, _ in _places(engine, structure):
        q[qs] = states[:, first : first + qs.stop - qs.start].T
    return q


def as_motion(engine: Engine, model: Model, structure: Structure, numbers: Numbers, states: np.ndarray, h: float, start: float) -> Motion:
    """A motion of the engine, from its states at all nodes."""
    q, K = coordinates_of(engine, structure, states), len(states)
    rate = np.zeros(structure.nv)
    for _, _, v, first in _places(engine, structure):
        rate[v] = states[0, engine.nq + first : engine.nq + first + v.stop - v.start]
    return Motion(
        model=model, structure=structure, numbers=numbers, h=h, q=q, multipliers=np.zeros((structure.nc, K)), control=np.zeros((len(model.actuators), K - 1)),
        applied=np.zeros((structure.tree_nv, K - 1)), turns=None, delta=1.0, start_rate=rate, joint_rate=rate, active=np.ones(structure.nc), iterations=0,
        notes=model.notes, start=start,
    )  # fmt: skip
