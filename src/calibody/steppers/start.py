"""Consistent initial values: from the user's channels to coordinates and rates that close every loop.

What is given is kept; what is left out is zero (joints at their reference, or at the limit that this is beyond), or follows from the loops by projection: the smallest change,
measured by the coordinates themselves (euclidean) or by the mass matrix (mass), that satisfies `g = 0` and `G v = 0`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibody.errors import SimulationError
from calibody.mechanics import channels, host
from calibody.mechanics.kinematics import Geometry, poses, twists
from calibody.mechanics.structure import FREE, HINGE, SLIDE, TREE, Numbers, Structure
from calibody.model import Model
from calibody.model.contact import LOWER
from calibody.spatial import algebra as al
from calibody.steppers.base import Start

PROJECTIONS = ("mass", "euclidean")


@dataclass
class _Guess:
    """Tree coordinates and rates as given, and which of them are held."""

    q: np.ndarray
    v: np.ndarray
    held_q: np.ndarray
    """(nv,) degrees of freedom whose position was given."""
    held_v: np.ndarray


def tree_start(
    tree: Structure, numbers: Numbers, initial: Mapping[str, Any], projection: str, size: float, given: tuple[np.ndarray, np.ndarray] | None = None
) -> Start:
    """Coordinates and rates of the tree; `given`: values and rates of what is prescribed."""
    if projection not in PROJECTIONS:
        raise SimulationError(f'projection = "{projection}"; give one of {", ".join(PROJECTIONS)}.')
    guess = _Guess(host.zero_coordinates(tree, numbers), np.zeros(tree.nv), np.zeros(tree.nv, dtype=bool), np.zeros(tree.nv, dtype=bool))
    for path, value in initial.items():
        _put(tree, guess, path, value)
    values, rates = given if given is not None else (None, None)
    for channel, value, rate in zip(tree.prescribed, *given, strict=True) if given is not None else ():
        _put_prescribed(tree, guess, channel, value, rate, initial)
    for limit in tree.model.limits:  # a joint that nothing is said about starts where it may be
        unit = next(i for i, u in enumerate(tree.units) if u.joint is not None and u.joint.name == limit.joint)
        at, dof = int(tree.q_start[unit]), int(tree.v_start[unit])
        if not guess.held_q[dof]:
            guess.q[at] = (max if limit.side == LOWER else min)(guess.q[at], limit.position)
    q = host.closed(tree, numbers, guess.q, guess.held_q, projection, size, values)
    v = host.compatible(tree, numbers, q, guess.v, guess.held_v, projection, rates)
    return Start(q, v, q[tree.scalar_positions])


def _put(tree: Structure, guess: _Guess, path: str, value: Any) -> None:
    channel = channels.resolve(tree.model, path)
    numbers = channels.as_values(channel, value, "The initial value of")
    if channel.kind == "body":
        unit = next((i for i, u in enumerate(tree.units) if u.last and u.body.name == channel.name and u.kind == FREE), None)
        if unit is None or channel.quantity not in ("position", "pose", "angle"):
            raise SimulationError(
                f'The initial value of "{path}" cannot be set: only the position, pose or angle of a body with a free joint can; give the joints instead.'
            )
    elif channel.kind == "joint" and channel.quantity in ("angle", "position", "orientation", "rate"):
        unit = next(i for i, u in enumerate(tree.units) if u.joint is not None and u.joint.name == channel.name)
    else:
        raise SimulationError(f'The initial value of "{path}" cannot be set; give angles, positions and rates of joints.')
    kind, qs, vs = tree.units[unit].kind, int(tree.q_start[unit]), int(tree.v_start[unit])
    quantity, c = channel.quantity, channel.component
    if quantity == "rate":
        target = slice(vs, int(tree.v_start[unit + 1])) if c is None else slice(vs + c, vs + c + 1)
        guess.v[target], guess.held_v[target] = numbers, True
    elif kind in (HINGE, SLIDE):
        guess.q[qs], guess.held_q[vs] = numbers[0], True
    else:
        _put_pose(guess, kind, quantity, c, numbers, qs, vs)


def _put_prescribed(tree: Structure, guess: _Guess, channel: channels.Channel, value: float, rate: float, initial: Mapping[str, Any]) -> None:
    """A joint that a drive moves starts where and as fast as the drive has it; sites follow from the joints."""
    owner = f"{channel.kind}.{channel.name}"
    both = [path for path in initial if path in (channel.path, f"{owner}.rate", channel.whole)]
    if both:
        raise SimulationError(f'The initial value of "{both[0]}" is given, and a drive prescribes "{channel.path}"; leave out the initial value.')
    if channel.kind != "joint":
        return
    unit = next(i for i, u in enumerate(tree.units) if u.joint is not None and u.joint.name == channel.name)
    at, dof = int(tree.q_start[unit]) + (channel.component or 0), int(tree.v_start[unit]) + (channel.component or 0)
    guess.q[at], guess.v[dof] = value, rate
    guess.held_q[dof] = guess.held_v[dof] = True


def _put_pose(guess: _Guess, kind: str, quantity: str, component: int | None, numbers: np.ndarray, qs: int, vs: int) -> None:
    offset_q, offset_v = (qs + 3, vs + 3) if kind == FREE else (qs, vs)
    if quantity in ("position", "pose"):
        position = numbers[:3] if component is None else numbers
        target = slice(qs, qs + 3) if component is None else slice(qs + component, qs + component + 1)
        guess.q[target] = position
        guess.held_q[vs : vs + 3] = True
    if quantity == "angle":
        vector = np.zeros(3)
        vector[:] = numbers if component is None else al.quaternion_log(tuple(guess.q[offset_q : offset_q + 4]))  # type: ignore[arg-type]
        if component is not None:
            vector[component] = numbers[0]
        guess.q[offset_q : offset_q + 4] = al.quaternion_exp(tuple(vector))  # type: ignore[arg-type]
    elif quantity in ("orientation", "pose"):
        e = numbers[-4:]
        norm = float(np.linalg.norm(e))
        if component is not None or norm < 1e-12:
            raise SimulationError("An orientation is a quaternion (w, x, y, z) that is not zero; give all four numbers at once.")
        guess.q[offset_q : offset_q + 4] = e / norm
    if quantity != "position":
        guess.held_q[offset_v : offset_v + 3] = True


def free_start(tree: Structure, free: Structure, numbers: Numbers, start: Start) -> Start:
    """The same start as poses and twists of all links."""
    geometry = Geometry.of(tree, numbers)
    H = poses(tree, geometry, start.q)
    T = twists(tree, geometry, H)
    q, v = np.zeros(free.nq), np.zeros(free.nv)
    for i, unit in enumerate(free.units):
        if unit.kind != FREE:
            continue
        above = tree.dofs_above[i]
        twist = T[:, above] @ start.v[above]
        R, o = H[:, :3, i], H[:, 3, i]
        qs, vs = int(free.q_start[i]), int(free.v_start[i])
        q[qs : qs + 3], q[qs + 3 : qs + 7] = o, al.matrix_quaternion(R)
        v[vs : vs + 3], v[vs + 3 : vs + 6] = twist[3:] + np.cross(twist[:3], o), R.T @ twist[:3]
    return Start(q, v, start.s)


def start_of(
    structure: Structure, numbers: Numbers, initial: Mapping[str, Any], projection: str, size: float, given: tuple[np.ndarray, np.ndarray] | None = None
) -> tuple[Start, np.ndarray]:
    """The start in the coordinates of `structure`, and the rates of the joints."""
    if structure.coordinates == TREE:
        of_joints, activations = _apart(structure.model, initial)
        start = tree_start(structure, numbers, of_joints, projection, size, given)
        return replace(start, activations=activations), start.v
    tree = Structure.build(stiffened(structure.model), TREE, driven=[c.path for c in structure.driven])
    tree_numbers = Numbers.of(tree)
    start = tree_start(tree, tree_numbers, initial, projection, size, given)
    return free_start(tree, structure, tree_numbers, start), start.v


def _apart(model: Model, initial: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """What is said of joints, and of activations, which only models for an engine have."""
    active = {path: c for path in initial if (c := channels.resolve(model, path)).quantity == "activation"}
    return (
        {path: value for path, value in initial.items() if path not in active},
        {path: float(channels.as_values(c, initial[path], "The initial value of")[0]) for path, c in active.items()},
    )


def stiffened(model: Model) -> Model:
    """The model with all joints rigid, and without what only an engine has: for its kinematics."""
    model = replace(model, natives=()) if model.natives else model
    soft = [j.name for j in model.joints if j.soft]
    return model.replace({f"joint.{name}.{field}": 0.0 for name in soft for field in ("compliance", "angular_compliance")}, check=False) if soft else model
