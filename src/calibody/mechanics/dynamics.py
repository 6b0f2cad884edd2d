"""Forward and inverse dynamics at one configuration: accelerations from forces and forces from accelerations.

In natural coordinates the equations are `P'(Hddot E - F) + (armatures) = (joint forces) + G' lambda`. With the twist of link l
`t_l = sum_j t_j v_j` and its rate `sum_j (t_j a_j + [t_(carrier of j), t_j] v_j)`,

    Hdot = [w]x H + v e4',   Hddot = [w']x H + v' e4' + [w]x Hdot

so inverse dynamics is two sweeps over the tree; forward dynamics solves with the mass matrix and, for closed loops, the constraints.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibody.errors import SimulationError
from calibody.mechanics import host
from calibody.mechanics.assembly import Frames, combined, pulls
from calibody.mechanics.elements import body as body_element
from calibody.mechanics.elements.base import Setting
from calibody.mechanics.kinematics import bracket
from calibody.mechanics.plan import plan_of
from calibody.mechanics.shapes import Pose
from calibody.mechanics.structure import POSITIONS, TREE, Numbers, Structure, refuse_load_friction
from calibody.mechanics.sums import composite
from calibody.model import Model
from calibody.spatial import algebra as al

# Rate below which dry friction is viscous when a single instant is asked for [rad/s, m/s]: at rest it exerts nothing.
FRICTION_RATE = 1e-6


def _vector(value: Any, size: int, name: str) -> np.ndarray:
    try:
        array = np.zeros(size) if value is None else np.array(value, dtype=float).ravel()
    except (TypeError, ValueError):
        raise SimulationError(f"{name} is {value!r}; give {size} numbers.") from None
    if array.shape != (size,) or not np.isfinite(array).all():
        raise SimulationError(f"{name} has {array.size} numbers (or one that is not finite); give {size} finite numbers in the order of the joints.")
    return array


def _unit_quaternions(structure: Structure, q: np.ndarray) -> np.ndarray:
    """Normalised rotations; a quaternion of zero length is refused."""
    q = q.copy()
    for i, unit in enumerate(structure.units):
        if POSITIONS[unit.kind] >= 4:
            e = slice(int(structure.q_start[i + 1]) - 4, int(structure.q_start[i + 1]))
            norm = np.linalg.norm(q[e])
            if norm < 1e-12:
                raise SimulationError(f"q has a zero quaternion for {structure.dof_name(int(structure.v_start[i]))}; give a unit quaternion (w, x, y, z).")
            q[e] /= norm
    return q


def link_motion(structure: Structure, T: np.ndarray, v: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Twist and rate of twist of every link, (6, n + 1) each."""
    n = structure.n
    twist, rate = np.zeros((6, n + 1)), np.zeros((6, n + 1))
    for i, unit in enumerate(structure.units):
        parent = structure.parent[i]
        dofs = np.arange(structure.v_start[i], structure.v_start[i + 1])
        twist[:, i] = twist[:, parent] + T[:, dofs] @ v[dofs]
        rate[:, i] = rate[:, parent] + T[:, dofs] @ a[dofs]
        for j in dofs:
            follows = structure.follows[j]
            carrier = twist[:, parent].copy()
            own = [k for k in dofs if follows[k]]
            carrier += T[:, own] @ v[own]
            if unit.kind != "fixed":
                rate[:, i] += bracket(carrier, T[:, j]) * v[j]
    return twist, rate


def natural_forces(structure: Structure, numbers: Numbers, H: np.ndarray, twist: np.ndarray) -> np.ndarray:
    """(6, n + 1) wrenches of forces between links."""
    out = np.zeros((6, structure.n + 1))
    tiny = 1e-7  # a difference over this time turns the rates into a displacement; the forces are linear in the rates
    poses = [_moved(H, twist, time) for time in (-0.5 * tiny, 0.5 * tiny, 0.0)]
    for group in plan_of(structure).forces:
        kind = group.type
        for links, data in zip(group.touches, numbers.elements[group.name].T, strict=True):
            behind, ahead, now = ([al.unpack_pose(p[:, :, link]) for link in links] for p in poses)
            impulse, _, _ = kind.impulse(kind.measure.value(behind, data), kind.measure.value(ahead, data), data, tiny)
            wrenches = np.einsum("c,cat->at", -2.0 / tiny * np.array(impulse), np.array(kind.measure.wrenches(now, data)))
            for arm, wrench in zip(kind.measure.arms, wrenches, strict=True):
                for k, sign in arm:
                    out[:, links[k]] += sign * wrench
    for group in plan_of(structure).encounters:
        behind, ahead = (tuple(Pose(p[:, :3, column], p[:, 3, column]) for column in group.touches.T) for p in poses[:2])
        found = group.type.exchange(behind, ahead, numbers.elements[group.name], tiny)
        for links, wrench in zip(group.touches, -sum(found.impulses).T / tiny, strict=True):  # type: ignore[union-attr]
            out[:, links[0]] += wrench
            out[:, links[1]] -= wrench
    return out


def _moved(H: np.ndarray, twist: np.ndarray, time: float) -> np.ndarray:
    out = H + time * np.cross(twist[:3][:, None], H, axis=0)
    out[:, 3] += time * twist[3:]
    return out


def joint_forces(structure: Structure, numbers: Numbers, f: Frames, v: np.ndarray, control: np.ndarray, force: np.ndarray) -> np.ndarray:
    """(nv,) springs, dampers, friction and drives on the joints' coordinates."""
    plan = plan_of(structure)
    out = force.copy()
    s, pull, count = f.s[:, 0], pulls(plan, numbers, f.between(0, 1))[..., 0], len(plan.coordinate_dof)
    rate = np.concatenate([combined(structure, v[plan.coordinate_dof]), pull @ v])
    t = np.zeros(len(s))
    for group in plan.coordinate_forces:
        c, at = group.touches, Setting(FRICTION_RATE, control=None if group.controls is None else control[group.controls])
        np.add.at(t, c, group.type.force(s[c], rate[c], numbers.elements[group.name], at)[0])
    out[plan.coordinate_dof] += t[:count] + structure.combinations.T @ t[count : plan.first_path]
    out += pull.T @ t[plan.first_path :]
    for k, dof in enumerate(plan.ball_dof):
        stiffness, damping, friction, _ = numbers.ball_law[:, k]
        parent, child = (al.unpack_pose(f.H[:, :, link, 0]) for link in plan.ball_links[k])
        side = al.matmul(al.rotation_part(parent), tuple(map(tuple, numbers.placement[:, :3, structure.ball_coordinates[k].unit])))
        reference = al.quaternion_matrix(tuple(numbers.ball_reference[:, k]))  # type: ignore[arg-type]
        relative = al.matmul(al.transpose(side), al.rotation_part(child))
        psi = np.array(al.quaternion_log(tuple(al.matrix_quaternion(al.matmul(al.transpose(reference), relative)))))  # type: ignore[arg-type]
        rho = v[dof : dof + 3]
        out[dof : dof + 3] += -stiffness * psi - damping * rho - friction * rho / max(float(np.linalg.norm(rho)), FRICTION_RATE)
    return out


def _required(structure: Structure, numbers: Numbers, f: Frames, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """(nv,) what the motion needs beyond gravity, springs and bushings: `P'(Hddot E - F) + armatures`."""
    plan = plan_of(structure)
    H, T = f.H[..., 0], f.T[..., 0]
    twist, rate = link_motion(structure, T, v, a)
    W = -natural_forces(structure, numbers, H, twist)
    for i in plan.massive:
        w, w_rate = twist[:3, i], rate[:3, i]
        Hdot = np.cross(w[:, None], H[:, :, i], axis=0)
        Hdot[:, 3] += twist[3:, i]
        Hddot = np.cross(w_rate[:, None], H[:, :, i], axis=0) + np.cross(w[:, None], Hdot, axis=0)
        Hddot[:, 3] += rate[3:, i]
        E = np.array(body_element.matrix(numbers.inertia[:, i]))
        Y = Hddot @ E - np.outer(numbers.gravity, E[3])
        W[:, i] += body_element.wrench(tuple(map(tuple, H[:, :, i])), tuple(map(tuple, Y)))
    composite(structure.parent, W[..., None])
    out = (T * W[:, structure.dof_unit]).sum(0)
    pull = pulls(plan, numbers, f.between(0, 1))[..., 0]
    along = np.concatenate([combined(structure, a[plan.coordinate_dof]), _stretching(structure, numbers, H, twist, rate)])
    needed, count = plan.coordinate_inertia(numbers) * along, len(plan.coordinate_dof)
    out[plan.coordinate_dof] += needed[:count] + structure.combinations.T @ needed[count : plan.first_path]
    out += pull.T @ needed[plan.first_path :]
    for k, dof in enumerate(plan.ball_dof):
        out[dof : dof + 3] += numbers.ball_law[3, k] * a[dof : dof + 3]
    return out


def _stretching(structure: Structure, numbers: Numbers, H: np.ndarray, twist: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """(paths,) second derivatives of their lengths: `W . t' + t_l . (dW_l/dt_m) t_m` with the links' twists t and their rates."""
    plan = plan_of(structure)
    out = np.zeros(len(structure.model.paths))
    for group, which in zip(plan.paths, plan.path_order, strict=True):
        measure = group.type.measure
        for i, links, data in zip(which, group.touches, numbers.elements[group.name].T, strict=True):
            poses = [al.unpack_pose(H[:, :, link]) for link in links]
            on = [links[arm[0][0]] for arm in measure.arms]
            out[i] = sum(np.dot(W, rate[:, link]) for W, link in zip(measure.wrenches(poses, data)[0], on, strict=True))
            out[i] += sum(twist[:, on[arm]] @ np.array(block) @ twist[:, links[slot]] for (arm, slot), block in measure.turned(poses, data, (1.0,)).items())
    return out


def _prepared(model: Model, q: Any, v: Any) -> tuple[Structure, Numbers, np.ndarray, np.ndarray]:
    if any(j.soft for j in model.joints):
        raise SimulationError("forward_dynamics and inverse_dynamics treat joints as rigid; set the compliance of the joints to zero first.")
    structure = Structure.build(model, TREE)
    refuse_load_friction(structure, "set it to zero here")
    numbers = Numbers.of(structure)
    position = _vector(host.zero_coordinates(structure, numbers) if q is None else q, structure.nq, "q")
    return structure, numbers, _unit_quaternions(structure, position), _vector(v, structure.nv, "v")


def _control(model: Model, control: Any) -> np.ndarray:
    """One number per actuator, clipped to its range."""
    values = _vector(control, len(model.actuators), "control")
    return np.array([x if a.control_range is None else np.clip(x, *a.control_range) for x, a in zip(values, model.actuators, strict=True)], dtype=float)


def inverse_dynamics(model: Model, q: Any = None, v: Any = None, a: Any = None, control: Any = None) -> np.ndarray:
    """The joint forces (nv,) that produce the accelerations `a`, beyond the model's own springs, dampers, friction and actuators.

    `q` (nq) and `v`, `a` (nv) are in the order of the joints, bodies depth first (`model.ordered_bodies`): a ball has a quaternion (w, x, y, z) and a rate in the child's axes, a free joint
    a position and a quaternion, and a linear rate in the world's and an angular one in the body's axes. With closed loops the result is
    what the joints would need if the loops were cut.
    """
    structure, numbers, q, v = _prepared(model, q, v)
    return _inverse(structure, numbers, q, v, _vector(a, structure.nv, "a"), _control(model, control))


def inverse_dynamics_along(model: Model, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The same (nv, instants) along a motion, `q` (nq, instants), `v` and `a` (nv, instants), controls zero: the model is prepared once."""
    structure, numbers, _, _ = _prepared(model, None, None)
    control = _control(model, None)
    found = [_inverse(structure, numbers, _unit_quaternions(structure, q[:, k]), v[:, k], a[:, k], control) for k in range(q.shape[1])]
    return np.array(found).reshape(-1, structure.nv).T


def _inverse(structure: Structure, numbers: Numbers, q: np.ndarray, v: np.ndarray, a: np.ndarray, control: np.ndarray) -> np.ndarray:
    f = host.configuration(structure, numbers, q).frames
    return _required(structure, numbers, f, v, a) - joint_forces(structure, numbers, f, v, control, np.zeros(structure.nv))


def forward_dynamics(model: Model, q: Any = None, v: Any = None, control: Any = None, force: Any = None, coordinates: str = TREE) -> np.ndarray:
    """The accelerations (nv,) at `q`, `v` under `control` (one number per actuator) and further joint forces `force` (nv).

    Layout as in `inverse_dynamics`. Closed loops are kept: `G a + Gdot v = 0`. Dry friction acts at its full size against any motion.
    """
    if coordinates not in (TREE, "auto"):
        raise SimulationError(f'forward_dynamics works in joint coordinates; coordinates = "{coordinates}" is for simulate, leave it out here.')
    structure, numbers, q, v = _prepared(model, q, v)
    control, force = _control(model, control), _vector(force, structure.nv, "force")
    c = host.configuration(structure, numbers, q)
    right = joint_forces(structure, numbers, c.frames, v, control, force) - _required(structure, numbers, c.frames, v, np.zeros(structure.nv))
    if not structure.nv:
        return right
    keep = host.independent_rows(structure, c.G, numbers.softness)
    G = c.G[keep]
    K = np.block([[c.M, -G.T], [G, np.zeros((len(G), len(G)))]])
    bias = _constraint_bias(structure, numbers, q, v)[keep]
    scale = 1.0 / np.sqrt(np.maximum(np.diag(c.M), 1e-300))
    if np.linalg.matrix_rank(K * np.concatenate([scale, np.ones(len(G))])[:, None] * np.concatenate([scale, np.ones(len(G))])) < len(K):
        weak = structure.dof_name(int(np.argmin(np.diag(c.M))))
        raise SimulationError(f"The acceleration of {weak} is not determined: nothing with mass moves with it; give its body a mass, or the joint an armature.")
    return np.linalg.solve(K, np.concatenate([right, -bias]))[: structure.nv]


def acceleration(structure: Structure, numbers: Numbers, at: host.Configuration, v: np.ndarray, control: np.ndarray, force: np.ndarray) -> np.ndarray:
    """(nv,) of a tree without closed loops, at a configuration that is at hand."""
    needed = _required(structure, numbers, at.frames, v, np.zeros(structure.nv))
    return np.linalg.solve(at.M, joint_forces(structure, numbers, at.frames, v, control, force) - needed)


def _constraint_bias(structure: Structure, numbers: Numbers, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """`Gdot v` by a central difference along the motion, Richardson-extrapolated (G is smooth and cheap)."""
    from calibody.mechanics.kinematics import retract

    if not structure.nc:
        return np.zeros(0)

    def rate(step: float) -> np.ndarray:
        ahead, behind = (retract(structure, q[:, None], s * step * v[:, None])[:, 0] for s in (1.0, -1.0))
        return (host.configuration(structure, numbers, ahead).G - host.configuration(structure, numbers, behind).G) @ v / (2.0 * step)

    step = 1e-3 / max(1.0, float(np.abs(v).max()))
    return (4.0 * rate(0.5 * step) - rate(step)) / 3.0


def forces_along(model: Model, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """`inverse_dynamics` at many instants, (instants, nq) and (instants, nv), without actuators."""
    structure, numbers, _, _ = _prepared(model, None, None)
    nothing, control = np.zeros(structure.nv), np.zeros(len(model.actuators))
    out = []
    for position, rate, acceleration in zip(q, v, a, strict=True):
        f = host.configuration(structure, numbers, position).frames
        out.append(_required(structure, numbers, f, rate, acceleration) - joint_forces(structure, numbers, f, rate, control, nothing))
    return np.array(out)
