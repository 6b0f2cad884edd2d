"""Derivatives of one step by the implicit function theorem, never through the Newton loop.

The step `(q_(k-1), q_k) -> (q_(k+1), lambda_k)` is defined by

    r_k(q_(k-1), q_k, q_(k+1), lambda_k, u, theta) = 0,     c_k = weight g_(k+1) + ... + eps lambda_k = 0

so with K = d(r, c)/d(q_(k+1), lambda_k) (assumed regular: the step converged and redundant rows were dropped)

    d(q_(k+1), lambda_k)/dz = -K^-1 d(r, c)/dz       for z = q_(k-1), q_k, u_(k-1), u_k, theta

All are tangent quantities (`kinematics.retract`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibody.errors import SimulationError
from calibody.mechanics.assembly import Frames, rows_of
from calibody.mechanics.equations import evaluate
from calibody.mechanics.parameters import columns
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers.motion import Motion


@dataclass(frozen=True)
class StepDerivatives:
    """Rows: the tangent of q_(k+1), then lambda_k (zero rows for dropped equations)."""

    by_before: np.ndarray
    """(nv + nc, nv) with respect to q_(k-1)."""
    by_now: np.ndarray
    """(nv + nc, nv) with respect to q_k."""
    by_control_before: np.ndarray
    """(nv + nc, actuators) with respect to the control of the interval before."""
    by_control: np.ndarray
    """(nv + nc, actuators) with respect to the control of the interval stepped over."""
    by_parameters: np.ndarray
    """(nv + nc, paths)"""


def step_derivatives(motion: Motion, node: int, parameters: Sequence[str] = ()) -> StepDerivatives:
    """Derivatives of the step from `node` (1 or later) to `node` + 1 of a simulated motion."""
    last = motion.q.shape[1] - 2
    if not 1 <= node <= last:
        raise SimulationError(f"node = {node}; the steps with two known nodes before them start at nodes 1 to {last}.")
    s, point = motion.structure, three_nodes(motion, node)
    result = evaluate(s, motion.numbers, point)
    minus, zero, plus = result.dense()
    active = motion.active_at(node)
    G = [result.dense_gradient(k) * active[:, None] for k in range(3)] if s.nc else [np.zeros((0, s.nv))] * 3
    acting = result.dense_acting(1) * active[:, None] if s.nc else G[1]
    weights, eps = constraint_weights(motion)
    h = motion.h
    K = np.block([[plus, -h * acting.T], [weights[2][:, None] * G[2], np.diag(np.where(active > 0, eps, 1.0))]])
    sides = [np.vstack([minus, weights[0][:, None] * G[0]]), np.vstack([zero, weights[1][:, None] * G[1] + result.dense_before(2) * active[:, None]])]
    sides += [control_columns(s, motion.numbers, motion.frames, result, node, k) for k in (0, 1)]
    theta = columns(s, motion.numbers, point, parameters)
    combined = sum(w[None, :] * theta.constraint[:, :, k] for k, w in enumerate(weights)) * active[None, :]
    sides.append(np.vstack([theta.residual[:, :, 0].T, np.asarray(combined).T.reshape(s.nc, len(parameters))]))
    solved = np.linalg.solve(K, -np.hstack(sides))
    return StepDerivatives(*np.split(solved, np.cumsum([x.shape[1] for x in sides])[:-1], axis=1))


def three_nodes(motion: Motion, node: int) -> Point:
    return motion.point.at(slice(node - 1, node + 2), slice(node - 1, node + 1))


def constraint_weights(motion: Motion) -> tuple[list[np.ndarray], np.ndarray]:
    """Weights of g at the three nodes in the constraint equation of the step, and the compliance."""
    eps, tau = motion.numbers.softness
    soft, t = eps > 0.0, tau / (2.0 * motion.h)
    return [np.where(soft, 0.25 - t, 0.0), np.where(soft, 0.5, 0.0), np.where(soft, 0.25 + t, 1.0)], np.where(soft, eps, 0.0)


def control_columns(structure: Structure, numbers: Numbers, frames: Frames, result: Evaluation, node: int, interval: int) -> np.ndarray:
    """(nv + nc, actuators): d(r_k, c_k)/du of one interval; `node` is k among the frames' nodes, `interval` counts those of `result`."""
    plan = plan_of(structure)
    out = np.zeros((structure.nv + structure.nc, len(plan.actuator_coordinate)))
    for a, c in enumerate(plan.actuator_coordinate):
        assert result.control is not None
        dofs, acts = rows_of(plan, numbers, frames, int(c))
        np.add.at(out[:, a], dofs, result.control[a, interval] * acts[:, node])
    return out
