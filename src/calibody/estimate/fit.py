"""`fit`: parameters, motion and forces from recordings, by transcription.

The recipe: a first motion from the observations alone (`start.py`); Gauss-Newton on the coarsest mesh, dry friction sharpened in stages; the
mesh halved while the parameters still move by more than a fraction of their standard deviation; error bars and what they cannot tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate import identifiability
from calibody.estimate.result import ChannelFit, Estimate, Result
from calibody.estimate.start import first_motion
from calibody.estimate.transcription import Motion, Run, Transcription, independent, multipliers_of, refined
from calibody.estimate.unknowns import Entry, Unknown, entries, values_at
from calibody.mechanics.assembly import interval_rates
from calibody.mechanics.structure import Structure
from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.condensed import step
from calibody.solve.gauss_newton import Iteration, Settings, Solution, minimise

FRICTION_STAGES = (1.0, 0.1, 0.02)
"""Rates below which dry friction is viscous, in units of the rms joint rate, one after the other."""
MOVES = 0.3
"""The mesh is fine enough when halving h moves no parameter by more than this many standard deviations."""
MAXIMAL_REFINEMENTS = 4


def fit(
    model: Model,
    runs: Recording | Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    process_noise: str | float = "none",
    coordinates: str = "auto",
    h: float | None = None,
    report: Callable[[Iteration], None] | None = None,
) -> Result:
    """Estimate the unknowns of a model from recordings.

    `estimate` maps paths to `Unknown`s (or initial values, or None for the model's value). `h` fixes the mesh; otherwise it starts at the data's
    rate and is refined. Never raises for a fit that does not converge: `result.status` says why.
    """
    began = time.perf_counter()
    recordings = [runs] if isinstance(runs, Recording) else list(runs)
    if not recordings:
        raise CalibodyError("No recording was given; give at least one.")
    if process_noise != "none":
        raise CalibodyError(f'process_noise = {process_noise!r} is not available yet; use "none" (the model is exact, only the measurements are noisy).')
    soft = [f"joint.{j.name}" for j in model.joints if j.compliance] + [f"loop.{lp.name}" for lp in model.loops if lp.compliance]
    if soft:
        raise CalibodyError(f"{soft[0]} is compliant, and fitting compliant joints and loops is not available yet; set its compliance to zero.")
    unknowns = entries(model, estimate, [r.name for r in recordings])
    structure = Structure.build(model, coordinates)
    sds, given = _noise(recordings)
    theta = np.array([e.initial for e in unknowns])
    base = _sampling_period(recordings) if h is None else h
    worker = _Fit(structure, recordings, unknowns, sds, report)
    levels: list[tuple[float, np.ndarray, np.ndarray]] = []
    motions: list[Motion] | None = None
    while True:
        solution, problem, motions = worker.solve(base / 2 ** len(levels), theta, motions)
        theta = solution.theta
        found = worker.uncertainty(problem, solution, given)
        levels.append((problem.runs[0].h, theta, found.sd))
        if h is not None or not solution.converged or len(levels) > MAXIMAL_REFINEMENTS or (len(levels) > 1 and _settled(levels)):
            break
    return worker.result(problem, solution, found, levels, given, time.perf_counter() - began)


def _noise(recordings: Sequence[Recording]) -> tuple[list[dict[str, float]], bool]:
    """The standard deviation of every channel: given, or a first estimate; and whether all were given."""
    from calibody.recording.filters import noise_sd

    given, out = True, []
    for r in recordings:
        sds = {}
        for o in r.observations:
            if o.sd is None:
                given = False
                sds[o.channel] = noise_sd(o.times, o.values)
            else:
                sds[o.channel] = float(o.sd)
        out.append(sds)
    return out, given


def _sampling_period(recordings: Sequence[Recording]) -> float:
    """The finest sampling interval of the observations."""
    return min(r.period for r in recordings)


def _settled(levels: list[tuple[float, np.ndarray, np.ndarray]]) -> bool:
    (_, before, _), (_, now, sd) = levels[-2:]
    moved = np.abs(now - before)
    return bool(np.all((moved <= MOVES * sd) | ~np.isfinite(sd) | (sd == 0.0)))


def _sharpen(runs: Sequence[Run], delta: float) -> None:
    """The rate below which dry friction is viscous, in all runs."""
    for run in runs:
        run.delta = delta


class _Uncertainty:
    """Covariance and what it means at a solution."""

    def __init__(self, analysis: identifiability.Identifiability, at_bound: np.ndarray, chi2: float, dof: int) -> None:
        self.analysis, self.at_bound, self.chi2, self.dof = analysis, at_bound, chi2, dof
        self.sd = np.where(analysis.resolved, np.sqrt(np.maximum(np.diag(analysis.covariance), 0.0)), np.inf)


class _Fit:
    def __init__(self, structure: Structure, recordings: Sequence[Recording], unknowns: Sequence[Entry], sds: list[dict[str, float]], report: Any) -> None:
        self.structure, self.recordings, self.unknowns, self.sds, self.report = structure, recordings, list(unknowns), sds, report
        self.history: list[Iteration] = []
        self.notes: list[str] = []
        self.friction = any(j.friction > 0.0 or j.stribeck > 0.0 for j in structure.model.joints) or any(
            p.path.endswith((".friction", ".stribeck")) for e in unknowns for p in e.places
        )

    def solve(self, h: float, theta: np.ndarray, motions: list[Motion] | None) -> tuple[Solution, Transcription, list[Motion]]:
        first = motions is None
        runs = [Run(self.structure, r, h, 1.0, sds) for r, sds in zip(self.recordings, self.sds, strict=True)]
        problem = Transcription(runs, self.unknowns)
        x = [self._begin(problem, r, theta) if motions is None else refined(self.coarse[r], runs[r], motions[r]) for r in range(len(runs))]
        if not first:
            for run, old in zip(runs, self.coarse, strict=True):
                run.active = old.active  # type: ignore[misc]
        rate = self._rms_rate(problem, x, theta)
        stages = (FRICTION_STAGES if first else FRICTION_STAGES[-1:]) if self.friction else (1.0,)
        for stage in stages[:-1]:
            _sharpen(runs, stage * rate)
            rough = minimise(problem, x, theta, Settings(iterations=15, tolerance=0.1), self._note)
            x, theta = rough.x, rough.theta
        _sharpen(runs, stages[-1] * rate)
        solution = minimise(problem, x, theta, Settings(), self._note)
        self.coarse = runs
        return solution, problem, solution.x

    def _note(self, iteration: Iteration) -> None:
        self.history.append(iteration)
        if self.report is not None:
            self.report(iteration)

    def _begin(self, problem: Transcription, r: int, theta: np.ndarray) -> Motion:
        run = problem.runs[r]
        model, numbers, _ = problem.model_of(r, theta)
        if run.structure.nc:
            from calibody.estimate.start import resting

            run.active = independent(run.structure, numbers, resting(run.structure, model))  # type: ignore[misc]
        motion = first_motion(run, model, numbers)
        return multipliers_of(run, model, numbers, motion)

    def _rms_rate(self, problem: Transcription, x: list[Motion], theta: np.ndarray) -> float:
        """Of all joints over all runs [rad/s, m/s]."""
        squares = []
        for r, motion in enumerate(x):
            model, numbers, _ = problem.model_of(r, theta)
            _, frames = problem._frames(r, motion, model, numbers)
            squares.append(float(np.mean(interval_rates(frames, problem.runs[r].h)[1] ** 2)) if frames.s.size else 0.0)
        return max(float(np.sqrt(np.mean(squares))), 1e-6)

    def uncertainty(self, problem: Transcription, solution: Solution, given: bool) -> _Uncertainty:
        problem.hold_scale = False
        lin = problem.linearise(solution.x, solution.theta)
        problem.hold_scale = True
        taken = step(lin, solution.theta, problem.lower, problem.upper, 0.0 * solution.theta, problem.scale)
        at_bound = (solution.theta <= problem.lower) | (solution.theta >= problem.upper)
        chi2 = 2.0 * solution.cost
        samples = sum(run.samples for run in problem.runs)
        dof = samples - len(solution.theta) - 2 * self._freedom() * len(problem.runs)
        factor = chi2 / dof if dof > 0 else 1.0
        factor = max(1.0, factor) if given else factor
        analysis = identifiability.analyse(taken.information, [e.name for e in self.unknowns], solution.theta, problem.scale, at_bound, factor)
        return _Uncertainty(analysis, at_bound, chi2, dof)

    def _freedom(self) -> int:
        """Degrees of freedom of the mechanism."""
        run = self.coarse[0]
        return self.structure.nv - int(run.active.sum())

    def result(
        self, problem: Transcription, solution: Solution, found: _Uncertainty, levels: list[tuple[float, np.ndarray, np.ndarray]], given: bool, seconds: float
    ) -> Result:
        error = _discretisation(levels)
        parameters = {
            e.name: Estimate(
                float(x), float(found.sd[k]) if found.analysis.resolved[k] else None, e.unit, e.initial, e.lower, e.upper, bool(found.at_bound[k]),
                bool(found.analysis.resolved[k]), None if error is None else float(error[k]),
            )
            for k, (e, x) in enumerate(zip(self.unknowns, solution.theta, strict=True))
        }  # fmt: skip
        covariance = found.analysis.covariance
        size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        numbers, _ = values_at(
            [e for e in self.unknowns if e.run is None], np.array([x for e, x in zip(self.unknowns, solution.theta, strict=True) if e.run is None]), 0
        )
        return Result(
            solution.status, parameters, found.analysis.determined, found.analysis.sentences, covariance, covariance / size[:, None] / size[None, :],
            tuple(self._channels(problem, solution)), found.chi2, found.dof, given, self._calibrated(problem.model, numbers), levels[-1][0], len(levels) - 1,
            len(self.history), self.history, {"total": seconds}, self._warnings(found, given), solution.x,
        )  # fmt: skip

    def _calibrated(self, model: Model, numbers: dict[str, float]) -> Model:
        """The model with the estimates; if no mechanism can have them, it says so and keeps them all the same."""
        try:
            return model.replace(numbers)
        except CalibodyError as error:
            self.notes.append(f"The estimates are not physically possible together: {error}")
            return model.replace(numbers, check=False)

    def _channels(self, problem: Transcription, solution: Solution) -> list[ChannelFit]:
        out = []
        for r, motion in enumerate(solution.x):
            model, numbers, sensors = problem.model_of(r, solution.theta)
            _, frames = problem._frames(r, motion, model, numbers)
            for d in problem.runs[r].data:
                fitted = problem._predict(problem.runs[r], model, frames, sensors, d)[0]
                out.append(ChannelFit(self.recordings[r].name, d.channel.path, d.times, d.y, fitted, d.sd))
        return out

    def _warnings(self, found: _Uncertainty, given: bool) -> tuple[str, ...]:
        notes = [*self.structure.model.notes, *self.notes]
        ratio = np.sqrt(found.chi2 / found.dof) if found.dof > 0 else 1.0
        if given and ratio > 1.2:
            notes.append(
                f"The residuals are {ratio:.2f} times larger than the stated noise; the error bars were inflated accordingly, but look for a model error."
            )
        if given and ratio < 0.7:
            notes.append(f"The residuals are only {ratio:.2f} of the stated noise; the error bars may be too large.")
        notes += [f"{e.name} ended at its bound and has no error bar." for e, b in zip(self.unknowns, found.at_bound, strict=True) if b]
        return tuple(notes)


def _discretisation(levels: list[tuple[float, np.ndarray, np.ndarray]]) -> np.ndarray | None:
    """`(theta_h - theta_2h)/3` where successive differences shrink by 3 to 5, else their size; None for one mesh."""
    if len(levels) < 2:
        return None
    last = levels[-1][1] - levels[-2][1]
    if len(levels) < 3:
        return np.abs(last)
    before = levels[-2][1] - levels[-3][1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.abs(before / last)
    return np.where((ratio > 3.0) & (ratio < 5.0), np.abs(last) / 3.0, np.abs(last))
