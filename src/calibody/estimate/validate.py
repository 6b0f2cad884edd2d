"""Validation: what a fit says about samples that it has not seen, with a band that says how far off it may be.

Some samples are left out and the rest is fitted again, from the optimum of all of them on its last mesh, noise sizes as found there: a few steps. Of several runs each is left out once, but for its
beginning, from which its start (and what is unknown per run) has to come; more than `FOLDS` are left out in groups. Of a single run the second half is left out. From the last node but two that is fitted
the motion is simulated: without the data, and without unmodelled forces.

**Band.** With the row o_x, o_theta of a sample (in units of its noise), X = dx/dtheta and K of the samples that were kept, on the nodes of the whole run,

    variance = factor (1 + o_x' (K^-1)_xx o_x) + (o_theta + X'o_x)' cov (o_theta + X'o_x)

its own noise, the motion at fixed parameters (its start, and the unmodelled forces that may come), and what the parameters carry along (`channels.py` has the same without the first). It is to first order, so that a run is judged
until the band of one of its channels is wider than `FAR` of what the channel does: motions that amplify small differences, and unmodelled forces, end there sooner or later. The errors of a run have few causes, its start and the parameters, so that they leave the band together or not at all: a run is judged by its errors in units of the band
(`Validation.in_bands`, 1 on average).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.channels import lost, transcribed
from calibody.estimate.identifiability import HIDDEN
from calibody.estimate.layout import MULTIPLIERS, NODES, PROCESS, States
from calibody.estimate.noise.likelihood import Likelihood
from calibody.estimate.noise.maximise import maximise
from calibody.estimate.observe import Data, is_initial
from calibody.estimate.predict import FEWEST_NODES, beginning, signals, starting
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.estimate.uncertainty import Uncertainty, assess
from calibody.estimate.validation import Unseen, Validation
from calibody.model import Model
from calibody.recording.signal import Signal
from calibody.solve.condensed import Eliminated, Sparse, step
from calibody.solve.gauss_newton import Settings, minimise
from calibody.solve.threads import one_thread
from calibody.steppers.base import AbstractStepper
from calibody.steppers.motion import Motion
from calibody.steppers.rollout import simulate

if TYPE_CHECKING:
    from calibody.estimate.result import Result

FOLDS = 10
"""Fits at most."""
CHEAP = 3_000_000
"""Entries of the derivative of the equations with respect to the parameters, times fits, up to which a report validates without being asked: some seconds."""
STEPS, TOLERANCE = 20, 0.05
"""Most steps of such a fit, and by how many standard deviations the last may move the parameters."""
CLOSE, CLOSELY = 0.3, 1e-3
"""The same at the kinks of dry friction, and how well the equations hold there: what is predicted is simulated."""
COLUMNS, FEWEST, MOST = 5e6, 24, 400
"""Samples of a run whose band is computed, so many at most as unknowns of the run allow; between them it is interpolated."""
FAR, NEAR = 0.1, 3.0
"""Standard deviation of the band over that of the measured channel up to which a run is judged; over its noise up to which it is in any case."""
CHUNK = 64
"""Samples solved for at a time."""


def cheap(result: Result) -> bool:
    """Whether validating takes some seconds at most."""
    if not (result.converged and result.problem.bars) or _refusal(result) is not None:
        return False
    problem = transcribed(result)
    entries = sum(run.K * run.structure.nv * max(1, len(columns)) for run, columns in zip(problem.runs, problem.columns, strict=True))
    return entries * min(len(problem.runs), FOLDS) <= CHEAP


def _refusal(result: Result) -> str | None:
    """Why parts of it cannot be left out and predicted."""
    if result.problem.struck:
        return "A fit with impacts is not validated by leaving parts of it out; fit some of the recordings and predict the others, result.predict(recording)."
    asked = next((u.channel for r in result.recordings for u in r.unknown), None)
    if asked is not None:
        return (
            f'The drive "{asked}" is unknown, so nothing says how the motion goes on where samples are left out; such a fit cannot be validated by prediction.'
        )
    return None


@one_thread
def validate(result: Result) -> Validation:
    """Every run predicted from a fit of the others, or the second half of a single run from the first."""
    if (why := _refusal(result)) is not None:
        raise CalibodyError(why)
    if not result.converged:
        raise CalibodyError(f"A fit that did not converge predicts nothing that could be judged ({result.status.rstrip('.')}).")
    problem, found, failed = transcribed(result), [], {}
    count = len(problem.runs)
    groups = [range(k, count, min(count, FOLDS)) for k in range(min(count, FOLDS))]
    for group in groups:
        ends = {r: _end(result, r) for r in group}
        try:
            found += _fold(result, problem, ends)
        except (CalibodyError, NumericalError, np.linalg.LinAlgError) as error:
            failed |= {result.recordings[r].name: str(error) for r in group}
    return Validation(count == 1, tuple(found), failed)


def _end(result: Result, r: int) -> float:
    """The instant up to which the samples of a run are kept."""
    recording = result.recordings[r]
    return recording.start + (0.5 * recording.duration if len(result.recordings) == 1 else beginning(recording))


def _fold(result: Result, problem: Problem, ends: dict[int, float]) -> list[Unseen]:
    """A fit without what comes after `ends` of some runs, and what it says about that."""
    begun = replace(problem, runs=tuple(_begun(run, ends[r]) if r in ends else run for r, run in enumerate(problem.runs)))
    x, theta, found = _fitted(result, begun, problem.carried(result.states, begun))
    return [unseen for r in ends for unseen in _unseen(result, begun, found, r, x[r], theta)]


def _begun(run: Run, end: float) -> Run:
    """A run up to an instant: its first nodes, and the samples among them."""
    nodes = max(int(np.searchsorted(run.times, end - 1e-9 * run.h)) + 1, FEWEST_NODES)
    if run.K < nodes + 2:
        raise CalibodyError("it is too short to leave a part of it out.")
    turning = None if run.turning is None else run.turning[:, : nodes - 1]
    short = replace(run, times=run.times[:nodes], turning=turning).with_data()
    if len(short.data) < len(run.data):
        raise CalibodyError("a channel begins later than the part of it that is fitted.")
    return replace(short, weights={path: run.weights[path][: len(weight)] for path, weight in short.weights.items()})


def _fitted(result: Result, problem: Problem, x: Sequence[States]) -> tuple[Sequence[States], np.ndarray, Uncertainty]:
    """From the optimum of all samples on; an error where it does not converge."""
    theta, freedom = result.theta, problem.runs[0].structure.nv - problem.runs[0].kept
    if any(len(run.disturbed) for run in problem.runs) and bool(np.any(problem.lower < problem.upper)):
        function = Likelihood(problem, ())
        likely = maximise(function, function.at(x, theta, np.zeros(0)), lambda _: None, STEPS)
        x, theta, status = likely.spot.x, likely.spot.theta, likely.status
        problem = replace(problem, slope=0.0 if likely.last is None else likely.last.slope)
    else:
        solution = minimise(problem, list(x), theta, Settings(iterations=STEPS, tolerance=TOLERANCE, close=CLOSE, close_feasibility=CLOSELY), lambda _: None)
        x, theta, status = solution.x, solution.theta, solution.status
    if status != "converged":
        raise CalibodyError(f"the fit without it {status}")
    found = assess(problem, x, theta, freedom, result.noise_given)
    return x, theta, replace(found, covariance_theta=_inflated(result, found))


def _inflated(result: Result, found: Uncertainty) -> np.ndarray:
    """The covariance of the parameters with what made that of all samples larger than its information says (a likelihood's own curvature, the scatter of runs), if that is more."""
    whole, naive = np.diag(result.uncertainty.covariance_theta), np.diag(result.uncertainty.analysis.covariance)
    if len(naive) != len(whole) or any(e.group is not None for e in result.problem.entries):
        return found.covariance_theta
    by_information = np.diag(found.analysis.covariance)
    wanted = np.maximum(np.diag(found.covariance_theta), by_information * whole / np.maximum(naive, 1e-300))
    ratio = np.sqrt(wanted / np.maximum(np.diag(found.covariance_theta), 1e-300))
    return found.covariance_theta * ratio[:, None] * ratio[None, :]


def _unseen(result: Result, begun: Problem, found: Uncertainty, r: int, x: States, theta: np.ndarray) -> list[Unseen]:
    """What is predicted of a run from its beginning on."""
    short, whole, name = begun.runs[r], transcribed(result).runs[r], result.recordings[r].name
    columns, entries = begun.columns[r], begun.singles[r].entries
    model, _, _ = begun.model_of(r, theta)
    states = _continued(short, whole, x, model, begun.motion(r, x, theta), begun.stepper())
    held = Problem.of([_only(whole, short.times[-1], after=True)], entries)
    if not held.runs[0].data:
        return []
    part, e = (
        held.linearised(0, states, theta[columns]).part,
        _factored(Problem.of([_only(whole, short.times[-1], after=False)], entries), states, theta[columns]),
    )
    first, predicted = 0, []
    for d in held.runs[0].data:
        rows = slice(first, first + len(d.y))
        first += len(d.y)
        sd = whole.noise.measured[d.channel.path] * np.broadcast_to(d.relative, d.y.shape)
        most = int(np.clip(COLUMNS / len(e.factor.scale), FEWEST, MOST)) // len(held.runs[0].data) + 2
        at = np.unique(np.linspace(0, len(d.y) - 1, min(len(d.y), most)).round().astype(int))
        sizes = np.sqrt(_variance(found, e, columns, part.Fx[rows][at], part.Ft[rows][at]))
        band = sd * np.interp(d.times, d.times[at], sizes)
        predicted.append(Unseen(name, d.channel.path, d.times, d.y, d.y + sd * part.F[rows], sd, band, np.ones(len(band), dtype=bool)))
    return _foreseen(predicted, whole)


def _foreseen(channels: Sequence[Unseen], run: Run) -> list[Unseen]:
    """The channels of a run with the samples marked that are judged; an error if there are none."""
    spread = {d.channel.path: float(np.std(d.y)) for d in run.data}
    wide = [c.times[c.band > np.maximum(FAR * spread[c.channel], NEAR * c.noise)] for c in channels]
    end = min((float(times[0]) for times in wide if len(times)), default=np.inf)
    judged = [replace(c, foreseen=c.times < end) for c in channels]
    if not all(c.foreseen.any() for c in judged):
        raise CalibodyError("what the data leave open, or small differences that grow, move it so much that nothing can be foreseen.")
    return judged


def _continued(short: Run, whole: Run, x: States, model: Model, motion: Motion, stepper: AbstractStepper) -> States:
    """The motion of the whole run: as fitted, and from the last node but two on as simulated."""
    node = short.K - 3
    lasting = _lasting(short, x)
    drive = {**lasting.drive(whole.h, whole.K - node), **signals(whole.recording, float(short.times[node]))}
    simulated = simulate(
        model, (whole.K - 1 - node) * whole.h, whole.h, starting(motion, drive, stepper, node), drive, stepper, whole.structure.coordinates, contacts=False
    )
    states, rest = short.layout.carried(x, whole.layout), whole.K - node
    parts = dict(states.parts)
    parts[NODES] = np.concatenate([x.q[:, :node], simulated.q[:, :rest]], axis=1)
    parts[MULTIPLIERS] = np.concatenate([x.multipliers[:, :node], simulated.multipliers[:, :rest]], axis=1)
    if whole.disturbed:
        drawn = whole.times[0] + whole.held * np.arange(1, whole.draws + 1)
        since = np.maximum(drawn - short.times[-1], 0.0)[:, None]
        parts[PROCESS] = parts[PROCESS] * np.where(since > 0.0, lasting.share(since), 1.0)
    return States(parts)


@dataclass(frozen=True)
class _Lasting:
    """Unmodelled forces with a memory at the end of what was fitted: they die away from there on, the others are over."""

    joints: tuple[str, ...]
    values: np.ndarray
    times: np.ndarray
    """[s] of their memory; 0: none."""

    def share(self, since: np.ndarray) -> np.ndarray:
        """What is left of each."""
        return np.where(self.times > 0.0, np.exp(-since / np.maximum(self.times, 1e-300)), 0.0)

    def drive(self, h: float, nodes: int) -> dict[str, Signal]:
        t = h * np.arange(nodes + 2)
        scalar = [k for k, joint in enumerate(self.joints) if self.times[k] > 0.0 and self.joints.count(joint) <= 2]
        return {f"joint.{self.joints[k]}.force": Signal(t, self.values[k] * self.share(t[:, None])[:, k], hold="linear") for k in scalar}


def _lasting(run: Run, x: States) -> _Lasting:
    if not run.disturbed:
        return _Lasting((), np.zeros(0), np.zeros(0))
    joints = tuple(joint for joint, _ in run.disturbed)
    times = np.array([run.noise.memory[joint] if slow else 0.0 for joint, slow in zip(joints, run.remembering, strict=True)])
    return _Lasting(joints, run.unmodelled(x.parts[PROCESS][-1]), times)


def _factored(kept: Problem, states: States, theta: np.ndarray) -> Eliminated:
    """A whole run with the samples that were kept: K, and how its states follow the parameters."""
    lin = kept.linearise([states], theta, hold_scale=False)
    wide = np.full(len(theta), np.inf)
    return step(lin, theta, -wide, wide, 0.0 * theta, kept.scale).runs[0]


def _only(run: Run, end: float, after: bool) -> Run:
    """A run with its samples up to an instant, or only with those after it; these weigh 1 each."""
    data, weights = [], {}
    for d in run.data:
        keep = (d.times > end) & (not is_initial(d.channel)) if after else (d.times <= end) | is_initial(d.channel)
        if keep.any():
            data.append(_rows(d, keep))
            weights[d.channel.path] = np.ones(int(keep.sum())) if after else run.weights[d.channel.path][keep]
    return replace(run, data=tuple(data), weights=weights)


def _rows(d: Data, keep: np.ndarray) -> Data:
    relative = d.relative if np.ndim(d.relative) == 0 else np.asarray(d.relative)[keep]
    return replace(
        d, y=d.y[keep], times=d.times[keep], W=d.W[keep], dW=d.dW[keep], rotation=None if d.rotation is None else d.rotation[..., keep], relative=relative
    )


def _variance(found: Uncertainty, e: Eliminated, columns: np.ndarray, by_states: Sparse, by_theta: np.ndarray) -> np.ndarray:
    """(samples,): of measured - predicted in units of the noise."""
    n, covariance = by_states.shape[1], found.covariance_theta[np.ix_(columns, columns)]
    spread = np.empty(by_states.shape[0])
    for k in range(0, len(spread), CHUNK):
        some = by_states[k : k + CHUNK].toarray()
        sides = np.zeros((len(e.factor.scale), len(some)))
        sides[:n] = some.T
        spread[k : k + CHUNK] = np.einsum("ci,ic->c", some, e.factor.solve(sides)[:n])
    along = by_theta + by_states @ e.response[:n]
    carried = np.einsum("ci,ij,cj->c", along, covariance, along)
    variance = found.factor * (1.0 + np.maximum(spread, 0.0)) + np.maximum(carried, 0.0)
    if not np.isfinite(variance).all():
        raise NumericalError("small differences grow so much in it that no band can be computed.")
    return np.where(lost(found, along, columns) > HIDDEN * variance, np.inf, variance)
