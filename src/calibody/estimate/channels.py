"""The estimated motion as a `Motion`, and the standard deviation of any of its channels.

A channel at a node depends on few unknowns: the nodes and multipliers around it, and the parameters. With `o_x`, `o_theta` its gradient (central
differences of the channel itself on a window of nodes), X = dx/dtheta the response of the states and K^-1 the inverse of their KKT matrix,

    variance = factor o_x' (K^-1)_xx o_x + (o_theta + X'o_x)' cov (o_theta + X'o_x)

the part of the states at fixed parameters, and the part that the parameters carry along.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.run import Run, States
from calibody.mechanics import assembly
from calibody.mechanics.kinematics import difference
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.spatial import algebra as al
from calibody.steppers.motion import Motion

if TYPE_CHECKING:
    from calibody.estimate.result import Result
    from calibody.estimate.transcription import Transcription

REACH = 2
"""Nodes on either side that a channel can depend on: reaction forces take second differences."""
STEP = 1e-6
"""Of the differences, relative to 1 rad, 1 m or the size of the number."""


def as_motion(run: Run, model: Model, numbers: Numbers, states: States) -> Motion:
    """All nodes but the last, which serves as the neighbour of the one before."""
    s, point = run.structure, run.point(model, numbers, states)
    steps = [difference(s, states.q[:, k + 1 : k + 2], states.q[:, k : k + 1])[:, 0] for k in (0, 1)]
    rate = (1.5 * steps[0] - 0.5 * steps[1]) / run.h  # second order
    frames = assembly.frames(s, numbers, replace(point, q=states.q[:, :3], turns=None if point.turns is None else point.turns[:, :3]))
    joint_rate = np.zeros(s.tree_nv)
    joint_rate[plan_of(s).coordinate_dof] = (-1.5 * frames.s[:, 0] + 2.0 * frames.s[:, 1] - 0.5 * frames.s[:, 2]) / run.h
    for k, dof in enumerate(plan_of(s).ball_dof):
        R = assembly.relative_rotation(plan_of(s), numbers, frames, k)
        turned = [np.array(al.matrix_log(al.matmul(al.transpose(_at(R, i)), _at(R, i + 1)))) for i in (0, 1)]
        joint_rate[dof : dof + 3] = (1.5 * turned[0] - 0.5 * turned[1]) / run.h
    return Motion(
        model, s, numbers, run.h, states.q, states.multipliers, point.control, point.applied, point.turns, run.delta, rate, joint_rate,
        run.active.astype(float), 0, model.notes, float(run.times[0]),
    )  # fmt: skip


def _at(R: al.Matrix, node: int) -> al.Matrix:
    return tuple(tuple(x[node] for x in row) for row in R)  # type: ignore[return-value]


def _window(whole: Motion, first: int, end: int) -> Motion:
    """The nodes first .. end - 1 as a motion of their own."""
    nodes, intervals = slice(first, end), slice(first, end - 1)
    turns = None if whole.turns is None else whole.turns[:, nodes]
    return replace(
        whole,
        q=whole.q[:, nodes],
        multipliers=whole.multipliers[:, nodes],
        control=whole.control[:, intervals],
        applied=whole.applied[:, intervals],
        turns=turns,
    )


def channel_sd(result: Result, problem: Transcription, run: int, channel: str, times: np.ndarray) -> np.ndarray:
    """Standard deviations of a scalar channel at the inner nodes nearest to `times`."""
    found = result.uncertainty
    r = problem.runs[run]
    whole = result.motion(run)
    if whole[channel].ndim != 1:
        raise CalibodyError(f'The channel "{channel}" has several components; ask for one of them, for instance "{channel}.x".')
    first = sum(other.size for other in problem.runs[:run])
    nodes = np.clip(np.round((times - r.times[0]) / r.h).astype(int), 1, r.K - 3)
    o_x = np.zeros((len(found.step.factor.scale), len(nodes)))
    o_theta = np.zeros((len(result.theta), len(nodes)))
    for column, k in enumerate(nodes):
        a, b = max(0, k - REACH), min(r.K, k + REACH + 2)
        for index, slope in _gradient(r, result.states[run], whole, channel, k, a, b):
            o_x[first + index, column] = slope
        for p, entry in enumerate(problem.entries):
            if entry.run in (None, run) and np.isfinite(found.sd[p]):
                step = STEP * entry.scale
                ends = []
                for sign in (step, -step):
                    theta = result.theta.copy()
                    theta[p] += sign
                    model, numbers, _ = problem.model_of(run, theta)
                    ends.append(_window(replace(whole, model=model, numbers=numbers), a, b)[channel][k - a])
                o_theta[p, column] = (ends[0] - ends[1]) / (2.0 * step)
    inner = np.einsum("ij,ij->j", o_x, found.step.factor.solve(o_x, 1e-15)) * found.factor
    along = o_theta + found.step.response.T @ o_x
    return np.sqrt(np.maximum(inner + np.einsum("ij,ik,kj->j", along, found.covariance_theta, along), 0.0))


def _gradient(run: Run, states: States, whole: Motion, channel: str, node: int, a: int, b: int) -> list[tuple[int, float]]:
    """(index of the unknown, derivative of the channel at `node`) over the nodes a .. b - 1."""
    s, kept = run.structure, int(run.active.sum())
    out = []
    indices = [k * s.nv + i for k in range(a, b) for i in range(s.nv)]
    indices += [run.nq + (k - 1) * kept + c for k in range(max(a, 1), min(b, run.K - 1)) for c in range(kept)]
    for index in indices:
        step = STEP if index < run.nq else STEP * max(1.0, float(np.abs(states.multipliers).max(initial=0.0)))
        ends = []
        for sign in (step, -step):
            d = np.zeros(run.size)
            d[index] = sign
            moved = run.move(states, d)
            ends.append(_window(replace(whole, q=moved.q, multipliers=moved.multipliers), a, b)[channel][node - a])
        slope = (ends[0] - ends[1]) / (2.0 * step)
        if slope:
            out.append((index, float(slope)))
    return out
