"""The estimated motion as a `Motion`, and the standard deviation of any of its channels.

A channel at a node depends on few unknowns: the nodes and multipliers around it, deviations of noisy drives, and the parameters. With `o_x`, `o_theta` its gradient (central
differences of the channel itself on a window of nodes), X = dx/dtheta the response of the states and K^-1 the inverse of their KKT matrix,

    variance = factor o_x' (K^-1)_xx o_x + (o_theta + X'o_x)' cov (o_theta + X'o_x)

the part of the states at fixed parameters, and the part that the parameters carry along. A channel that moves along a direction of the
parameters that the data leave open has no error bar (the rule of `identifiability.py` for a parameter).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.happened import log_of
from calibody.estimate.contacts.pressed import is_contact_force, slopes as pressed_slopes
from calibody.estimate.identifiability import HIDDEN
from calibody.estimate.layout import MULTIPLIERS, NODES, PROCESS, States, drive_block
from calibody.estimate.run import Run
from calibody.estimate.started import Started
from calibody.mechanics import assembly, channels
from calibody.mechanics.kinematics import difference, retract
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.model.elements import HINGE
from calibody.recording.plate import Deviation
from calibody.spatial import algebra as al
from calibody.steppers.motion import Motion

if TYPE_CHECKING:
    from calibody.estimate.problem import Problem
    from calibody.estimate.result import Result
    from calibody.estimate.uncertainty import Uncertainty
    from calibody.solve.condensed import Step

WINDOW = 3
"""Nodes that a channel at the middle one can depend on: reaction forces take second differences."""
INSTANTS_BUDGET, FEWEST_INSTANTS, MOST_INSTANTS = 2e7, 8, 40
BAND_INSTANTS = 20, 80
"""Of forces that were found with the motion, whose bands are drawn: fewest and most."""
STEP = 1e-6
"""Of the differences, relative to 1 rad, 1 m or the size of the number."""
ROUNDING = 1e-18
"""Square of a change that is nothing but the rounding of the differences."""


def as_motion(run: Run, model: Model, numbers: Numbers, states: States, flights: bool = False) -> Motion:
    """All nodes but the last, which serves as the neighbour of the one before; of a run with impacts those that are the motion, or (`flights`) the nodes of all flights one after the other."""
    s, point = run.structure, run.point(model, numbers, states)
    if isinstance(run, Struck) and not flights:
        assert run.mesh is not None
        plain = as_motion(run.mesh, model, numbers, run.mesh.still(states.q[:, 0]).changed(nodes=states.q[:, run.actual]))
        return replace(plain, touched=log_of(run, model, numbers, states))
    steps = [difference(s, states.q[:, k + 1 : k + 2], states.q[:, k : k + 1])[:, 0] for k in (0, 1)]
    rate = (1.5 * steps[0] - 0.5 * steps[1]) / run.h  # second order
    frames = assembly.frames(s, numbers, replace(point, q=states.q[:, :3], turns=None if point.turns is None else point.turns[:, :3]))
    joint_rate = np.zeros(s.tree_nv)
    first = frames.s[: len(plan_of(s).coordinate_dof), :3]
    joint_rate[plan_of(s).coordinate_dof] = first @ np.array([-1.5, 2.0, -0.5]) / run.h
    for k, dof in enumerate(plan_of(s).ball_dof):
        R = assembly.relative_rotation(plan_of(s), numbers, frames, k)
        turned = [np.array(al.matrix_log(al.matmul(al.transpose(_at(R, i)), _at(R, i + 1)))) for i in (0, 1)]
        joint_rate[dof : dof + 3] = (1.5 * turned[0] - 0.5 * turned[1]) / run.h
    if (started := Started.of(run, model, numbers, point)) is not None:
        rate = joint_rate = started.launch.rates
    unknown = np.zeros((0, 0))
    if run.driving:
        unknown = run.pushed(states, run.driving)
        unknown[:, [0, -1]] = unknown[:, [1, -2]]  # at the ends that of the node beside
    return Motion(
        model=model,
        structure=s,
        numbers=numbers,
        h=run.h,
        q=states.q,
        multipliers=states.multipliers,
        control=point.control,
        applied=point.applied,
        turns=point.turns,
        delta=run.delta,
        start_rate=rate,
        joint_rate=joint_rate,
        active=run.active.astype(float) if not run.choices else run.mask[:, 0].astype(float),
        choices=tuple((int(k), run.mask[:, k]) for k in (np.searchsorted(run.times, time) for time, _ in run.choices)),
        iterations=0,
        notes=model.notes,
        start=float(run.times[0]),
        given=run.given,
        unknown=unknown,
        held=run.jumping(model),
    )


def _at(R: al.Matrix, node: int) -> al.Matrix:
    return tuple(tuple(x[node] for x in row) for row in R)  # type: ignore[return-value]


def transcribed(result: Result) -> Problem:
    """The problem of a fit by transcription; other methods have no error bars of channels."""
    if not result.problem.bars:
        raise CalibodyError('Standard deviations of channels are known for method = "transcription" only.')
    return cast("Problem", result.problem)


def stepped_of(result: Result) -> Step:
    """The step at the solution of a fit, with the factors of its runs."""
    return result.uncertainty.stepped(transcribed(result), result.states, result.theta)


def channel_sd(result: Result, run: int, channel: str, times: np.ndarray) -> np.ndarray:
    """Standard deviations of a scalar channel at the inner nodes nearest to `times`."""
    if result.motion(run)[channel].ndim != 1:
        raise CalibodyError(f'The channel "{channel}" has several components; ask for one of them, for instance "{channel}.x".')
    return channel_sds(result, run, [channel], times)[0]


def driven_sds(result: Result, run: int, joints: Sequence[str], times: np.ndarray) -> np.ndarray:
    """(3, joints, times): of the forces of hinges and slides, of their angles or positions, and of the power `force * rate`, by one solve. The power to first order, `d(force rate) = rate d(force) + force d(rate)`, with what force and rate have in common."""
    kinds, n = {j.name: j.kind for j in result.model.joints}, len(joints)
    forces, rates = ([f"joint.{j}.{what}" for j in joints] for what in ("force", "rate"))
    places = [f"joint.{j}.{'angle' if kinds[j] == HINGE else 'position'}" for j in joints]
    motion, nodes = result.motion(run), transcribed(result).runs[run].near(times)
    force, rate = (np.stack([motion[name][nodes] for name in names], axis=1) for names in (forces, rates))
    combined = np.zeros((len(nodes), 3 * n, 3 * n))
    combined[:, : 2 * n, : 2 * n] = np.eye(2 * n)
    combined[:, 2 * n :, :n], combined[:, 2 * n :, 2 * n :] = np.eye(n) * rate[:, None, :], np.eye(n) * force[:, None, :]
    return channel_sds(result, run, [*forces, *places, *rates], times, combined).reshape(3, n, -1)


def channel_sds(result: Result, run: int, names: Sequence[str], times: np.ndarray, combined: np.ndarray | None = None) -> np.ndarray:
    """(scalar channels of `names`, times): as `channel_sd`, vectors as their components; one gradient and one solve serve them all. `combined` (times, sums, scalar channels): of these sums of them instead.

    inf where a channel follows what the data do not determine.
    """
    problem, found = transcribed(result), result.uncertainty
    pressing = [is_contact_force(channels.resolve(problem.model, name), problem.model) for name in names]
    if any(pressing) and isinstance(problem.runs[run], Struck):
        return _with_forces(result, run, names, pressing, times)
    if not np.isfinite(times).all():
        raise CalibodyError(f"Standard deviations are asked for at the time {times[~np.isfinite(times)][0]}; give finite times in seconds.")
    r, e = problem.runs[run], stepped_of(result).runs[run]
    nodes = r.near(times)
    model, numbers, _ = problem.model_of(run, result.theta)
    windows = _Windows(as_motion(r, model, numbers, result.states[run], flights=True) if problem.struck else result.motion(run), nodes, names)
    by_states = _by_states(r, windows, nodes)
    by_theta = np.zeros((len(by_states[0]), len(nodes), len(e.columns)))
    for k, p in enumerate(e.columns):
        by_theta[..., k] = _by_parameter(result, run, windows, int(p))
    if combined is not None:
        by_states = [w @ g for w, g in zip(combined, by_states, strict=True)]
        by_theta = np.einsum("tsc,ctp->stp", combined, by_theta)
    covariance = found.covariance_theta[np.ix_(e.columns, e.columns)]
    variance, hidden = (np.empty((by_theta.shape[0], len(nodes))) for _ in range(2))
    for k, (rows, g) in enumerate(zip(_local(r, nodes), by_states, strict=True)):
        basis = g.T if len(g) < len(rows) else np.eye(len(rows))
        sides = np.zeros((len(e.factor.scale), basis.shape[1]))
        sides[rows] = basis
        solved = e.factor.solve(sides)[rows]
        spread = solved if len(g) < len(rows) else solved @ g.T
        along = by_theta[:, k] + g @ e.response[rows]
        variance[:, k] = found.factor * np.einsum("ci,ic->c", g, spread) + np.einsum("ci,ij,cj->c", along, covariance, along)
        hidden[:, k] = lost(found, along, e.columns)
    variance = np.maximum(variance, 0.0)  # of what is known exactly, a known start, it is rounding of either sign
    return np.where(hidden > np.maximum(HIDDEN * variance, ROUNDING), np.inf, np.sqrt(variance))


def _with_forces(result: Result, run: int, names: Sequence[str], pressing: Sequence[bool], times: np.ndarray) -> np.ndarray:
    """As `channel_sds`, forces of contacts, which are unknowns themselves, and all others."""
    parts = {True: contact_force_sds(result, run, [n for n, p in zip(names, pressing, strict=True) if p], times)}
    others = [n for n, p in zip(names, pressing, strict=True) if not p]
    if others:
        parts[False] = channel_sds(result, run, others, times)
    at, out = {True: 0, False: 0}, []
    for name, p in zip(names, pressing, strict=True):
        count = len(channels.scalar_names(result.problem.model, name))
        out.append(parts[p][at[p] : at[p] + count])
        at[p] += count
    return np.concatenate(out)


def contact_force_sds(result: Result, run: int, names: Sequence[str], times: np.ndarray) -> np.ndarray:
    """(scalar channels, times): of forces of contacts and limits; 0 where nothing touches, inf where a force follows what the data do not determine."""
    problem, found = transcribed(result), result.uncertainty
    r, e = problem.runs[run], stepped_of(result).runs[run]
    assert isinstance(r, Struck)
    model, numbers, _ = problem.model_of(run, result.theta)
    wanted, nodes = [n for name in names for n in channels.scalar_names(model, name)], r.near(times)
    columns = [int(p) for p in e.columns]

    def moved(p: int, size: float) -> tuple[Model, Numbers]:
        theta = result.theta.copy()
        theta[p] += size
        return problem.model_of(run, theta)[:2]

    steps = [STEP * problem.entries[p].scale for p in columns]
    models = [(moved(p, s), moved(p, -s), s) for p, s in zip(columns, steps, strict=True)]
    by_states, by_theta = pressed_slopes(r, model, numbers, result.states[run], wanted, nodes, models)
    flat = by_states.reshape(-1, by_states.shape[-1])
    sides = np.zeros((len(e.factor.scale), len(flat)))
    sides[: flat.shape[1]] = flat.T
    own = np.einsum("iu,ui->i", flat, e.factor.solve(sides)[: flat.shape[1]])
    along = by_theta.reshape(len(flat), -1) + flat @ e.response[: flat.shape[1]]
    covariance = found.covariance_theta[np.ix_(e.columns, e.columns)]
    variance = np.maximum(found.factor * own + np.einsum("ij,jk,ik->i", along, covariance, along), 0.0)
    hidden = lost(found, along, e.columns)
    return np.where(hidden > np.maximum(HIDDEN * variance, ROUNDING), np.inf, np.sqrt(variance)).reshape(len(wanted), len(nodes))


def instants(result: Result, run: int, few: int | None = None) -> np.ndarray:
    """Times for error bars of a run, of all channels or of so `few`, as many as some seconds allow (a solve costs 1e-7 s per unknown and column)."""
    r = transcribed(result).runs[run]
    whole = WINDOW * r.structure.nv + r.kept
    columns, (fewest, most) = (whole, (FEWEST_INSTANTS, MOST_INSTANTS)) if few is None else (min(few, whole), BAND_INSTANTS)
    factor = stepped_of(result).runs[run].factor
    cost = factor.dear * len(factor.scale) * columns * len(result.problem.runs)
    count = int(np.clip(INSTANTS_BUDGET / cost, fewest, most))
    K = len(r.clock)
    return r.clock[np.unique(np.linspace(1, K - 3, min(count, K - 3)).round().astype(int))]


def lost(found: Uncertainty, along: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(channels,): square of the change of the channels, given along some parameters, in the directions that the data leave open, each parameter moved by its own scale."""
    shown, analysis = found.reported, found.analysis
    if not analysis.weak.shape[1]:
        return np.zeros(len(along))
    whole = np.zeros((len(along), len(shown.scale)))
    whole[:, columns] = along
    per_scale = np.linalg.solve(shown.by_theta.T, whole.T).T * shown.scale
    return ((per_scale[:, analysis.free] @ analysis.weak) ** 2).sum(axis=1)


def _local(run: Run, nodes: np.ndarray) -> list[np.ndarray]:
    """Of every instant the unknowns that its channels depend on: the coordinates of the window around its node, the multipliers of the node itself,
    and the deviations of noisy drives in the intervals on both sides."""
    around = [run.layout.member(NODES, i)[nodes + j] for j in range(-1, WINDOW - 1) for i in range(run.structure.nv)]
    fixed = np.stack([*around, *(run.layout.member(MULTIPLIERS, c)[nodes - 1] for c in range(run.kept))], axis=1)
    places = [run.layout.place[drive_block(d.name)].start for d in run.uncertain]
    samples = [[first + _touched(run, d, int(k)) for first, d in zip(places, run.uncertain, strict=True)] for k in nodes]
    draws = [_draws(run, int(k)) for k in nodes]
    pushing = [run.layout.member(PROCESS, i) for i in range(len(run.disturbed))] if run.driving else []
    return [np.concatenate([own, *driven, *(one[drawn] for one in pushing)]) for own, driven, (drawn, _) in zip(fixed, samples, draws, strict=True)]


def _draws(run: Run, node: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the unmodelled forces that act one after the other make that of an inner node, and their parts in it."""
    row = run.lasting[node - 1]
    return row.indices, row.data


def _by_states(run: Run, windows: _Windows, nodes: np.ndarray) -> list[np.ndarray]:
    """Of every instant (channels, unknowns): the gradient by the unknowns of `_local`."""
    columns = [windows.by_coordinate(j, i) for j in range(WINDOW) for i in range(run.structure.nv)]
    forces = {int(c): windows.by_multiplier(int(c)) for c in np.flatnonzero(run.active)}
    columns += [np.stack([forces[int(c)][:, k] for k, c in enumerate(run.rows[a, nodes])], axis=1) for a in range(run.kept if len(nodes) else 0)]
    fixed = np.stack(columns, axis=2)
    driven = list(dict.fromkeys(channel for d in run.uncertain for channel in d.gains))
    forces = {channel: [windows.by_drive(*run.driven(windows.motion.model, channel)[:2], side) for side in (0, 1)] for channel in driven}
    pushed = _by_unknown_drives(run, windows)
    out = []
    for k, node in enumerate(nodes):
        parts = [fixed[:, k]]
        for d in run.uncertain:
            touched = _touched(run, d, int(node))
            means = {channel: _two_means(run, d, channel, int(node))[:, touched] for channel in d.gains}
            parts.append(
                sum(np.stack([side[:, k] for side in forces[channel]], axis=1) @ mean for channel, mean in means.items()) + np.zeros((len(fixed), len(touched)))
            )
        if run.driving:
            parts += [by[:, k, None] * _draws(run, int(node))[1] for by in pushed]
        out.append(np.concatenate(parts, axis=1))
    return out


def _by_unknown_drives(run: Run, windows: _Windows) -> list[np.ndarray]:
    """Of every unmodelled force (channels, instants): the gradient by its noise, through the unknown drives that it is a part of."""
    by = {k: windows.by_unknown(run.disturbed[k][1]) for k in run.driving}
    shares = run.mixing * run.process_sd()
    return [sum(shares[k, j] * gradient for k, gradient in by.items()) for j in range(len(run.disturbed) if by else 0)]  # type: ignore[misc]


def _two_means(run: Run, deviation: Deviation, channel: str, node: int) -> np.ndarray:
    """(2, samples): what a deviation of each sample by one sd adds to the mean of a drive over the intervals before and after a node."""
    _, _, delay = run.driven(run.structure.model, channel)
    return deviation.weights(channel, run.times[node - 1 : node + 2], delay).toarray()


def _touched(run: Run, deviation: Deviation, node: int) -> np.ndarray:
    """The samples that do."""
    return np.flatnonzero(np.any([_two_means(run, deviation, channel, node).any(axis=0) for channel in deviation.gains], axis=0))


def _by_parameter(result: Result, run: int, windows: _Windows, p: int) -> np.ndarray:
    entry = result.problem.entries[p]
    if entry.run not in (None, run):
        return np.zeros_like(windows.values(windows.motion))
    step, ends = STEP * entry.scale, []
    for sign in (step, -step):
        theta = result.theta.copy()
        theta[p] += sign
        model, numbers, _ = result.problem.model_of(run, theta)
        ends.append(windows.values(replace(windows.motion, model=model, numbers=numbers)))
    return (ends[0] - ends[1]) / (2.0 * step)


class _Windows:
    """The nodes around each of some instants, side by side as one motion: at the middle of a window its channels are those of the whole motion."""

    def __init__(self, whole: Motion, nodes: np.ndarray, names: Sequence[str]) -> None:
        every = (nodes[:, None] + np.arange(-1, WINDOW - 1)).ravel()
        between = np.minimum(every[:-1], whole.control.shape[1] - 1)
        self.names, self.size = names, STEP * max(1.0, float(np.abs(whole.multipliers).max(initial=0.0)))
        self.motion = replace(
            whole,
            q=whole.q[:, every],
            multipliers=whole.multipliers[:, every],
            control=whole.control[:, between],
            applied=whole.applied[:, between],
            turns=None if whole.turns is None else whole.turns[:, every],
            given=whole.given[:, every],
            unknown=whole.unknown[:, every] if len(whole.unknown) else whole.unknown,
        )

    def values(self, moved: Motion) -> np.ndarray:
        """(channels, instants)."""
        columns = [moved[name] for name in self.names]
        return np.concatenate([(c[:, None] if c.ndim == 1 else c)[1::WINDOW].T for c in columns])

    def by_coordinate(self, place: int, dof: int) -> np.ndarray:
        """Derivative by one coordinate of the nodes at `place` of every window."""
        d = np.zeros((self.motion.structure.nv, self.motion.q.shape[1]))
        d[dof, place::WINDOW] = STEP
        ends = [self.values(replace(self.motion, q=retract(self.motion.structure, self.motion.q, sign * d))) for sign in (1.0, -1.0)]
        return (ends[0] - ends[1]) / (2.0 * STEP)

    def by_drive(self, target: str, row: int, side: int) -> np.ndarray:
        """Derivative by the mean of a control or an applied force over the interval before (0) or after (1) the middle nodes."""
        signals = getattr(self.motion, target)
        size = STEP * max(1.0, float(np.abs(signals).max(initial=0.0)))
        d = np.zeros_like(signals)
        d[row, side::WINDOW] = size
        ends = [self.values(replace(self.motion, **{target: signals + sign * d})) for sign in (1.0, -1.0)]
        return (ends[0] - ends[1]) / (2.0 * size)

    def by_unknown(self, dof: int) -> np.ndarray:
        """Derivative by the unknown drive of one velocity of the tree at the middle nodes."""
        size = STEP * max(1.0, float(np.abs(self.motion.unknown).max(initial=0.0)))
        d = np.zeros_like(self.motion.unknown)
        d[dof, 1::WINDOW] = size
        ends = [self.values(replace(self.motion, unknown=self.motion.unknown + sign * d)) for sign in (1.0, -1.0)]
        return (ends[0] - ends[1]) / (2.0 * size)

    def by_multiplier(self, row: int) -> np.ndarray:
        """Derivative by one multiplier of the middle nodes."""
        d = np.zeros_like(self.motion.multipliers)
        d[row, 1::WINDOW] = self.size
        ends = [self.values(replace(self.motion, multipliers=self.motion.multipliers + sign * d)) for sign in (1.0, -1.0)]
        return (ends[0] - ends[1]) / (2.0 * self.size)
