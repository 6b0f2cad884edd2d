"""Which mistake in the files the data believe: a fit of a piece of them, without and with each (`mistakes.py`).

After a fit that did not converge, or whose residuals are absurd, every suspected mistake is undone in turn and a piece of the recording that it describes worst is fitted anew: from the initial values, on a coarse mesh,
`STEPS` iterations at most. The right one makes the residuals collapse to the noise, the others do not: on the same piece, with the same mesh, that comparison needs no statistics. Where several do, the
simplest is named first (one without a number to be found before one with), and the others beside it: these data cannot tell. Numbers that the model was found to lack (`suspects.py`) take
part; where one of them explains the data better than any mistake, no mistake is named.

Unmodelled forces describe any data: with them residuals are small whatever is wrong. Such a fit is first asked whether its own values, without forces, follow the motion of the piece. Those of real machines do, to 0.1 or 0.2 % of
the motion (a cart, Furuta's pendulum, double and triple ones, some from poor guesses), and nothing more is tried; those of a fit with a sign or a column mistaken do not end, or miss a tenth of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.dry import rms_rates
from calibody.estimate.mesh import first_step
from calibody.estimate.meshes import Meshes
from calibody.estimate.missing.mistakes import Suspicion, suspicions
from calibody.estimate.noise.given import found_sd
from calibody.estimate.recipe import prepared
from calibody.estimate.result import Mistake
from calibody.estimate.unknowns import Unknown
from calibody.solve.gauss_newton import Settings, minimise

if TYPE_CHECKING:
    from calibody.estimate.estimator import Unknowns
    from calibody.estimate.layout import States
    from calibody.estimate.problem import Problem
    from calibody.estimate.result import ChannelFit, Result
    from calibody.model import Model
    from calibody.recording.recording import Recording
    from calibody.solve.gauss_newton import Iteration

NODES, FEWER = 160, 60
"""Of the piece that is fitted: a mistake shows in a few swings. The second where the motion has to be found from places, node by node, which takes longer than the fit."""
SMOOTH = 0.1
"""Rate below which dry friction is viscous, in units of the joint's own rms rate."""
STEPS = 15
"""Iterations of a trial: a fit that is right is done after five to ten."""
TOLERANCE = 0.3
"""Standard deviations that the last step of a trial may move the parameters by."""
SHORTEST, LABOURED, PATIENCE = 0.05, 0.3, 3
"""The shortest step of a trial; a step is laboured that is shorter than the second, or damped, and so many of them end a trial: one that is right goes straight to its end."""
ABSURD = 3.0
"""Residuals over noise from which a fit is looked into: those that the verdict is red for."""
ENOUGH, HALF, MUCH = 3.0, 0.5, 0.05
"""Residuals collapse where they end below the first, times the noise, and below the second of what they were; or at the third of what they were."""
FOLLOWED, FIFTH = 0.005, 0.2
"""Encoders are so fine that no model of a real machine comes near their noise: residuals collapse as well where they end below the first share of the motion, and below the second of what they were."""
LOST = 0.05
"""Share of the motion from which it is not followed."""
ALIKE = 1.1
"""Ratio of mean squares up to which two explain the data alike."""
NAMED = 3
"""Mistakes that are named."""


def doubtful(result: Result) -> bool:
    """Whether the data may be so far from what the model makes of them that something is wrong with either."""
    if _forced(result):  # trials know nothing of contacts and of forces that are to be found
        return not result.converged or not (result.problem.contacts or any(run.unknown for run in result.recordings))
    return not result.converged or any(_absurd(result, c) for c in result.fit)


def _forced(result: Result) -> bool:
    return bool(result.process_noise or result.slow_forces)


def _absurd(result: Result, c: ChannelFit) -> bool:
    if result.noise_given:
        return c.rms_over_sd > ABSURD
    return c.unexplained


@dataclass(frozen=True)
class _Tried:
    ratio: float
    """Residuals over noise; infinite for a trial that did not converge."""
    values: Mapping[str, float]
    """Of the unknowns that belong to the suspicion."""


def mistakes(model: Model, recordings: Sequence[Recording], unknowns: Unknowns, result: Result, coordinates: str = "auto") -> tuple[Mistake, ...]:
    """The mistakes that explain the data, the most convincing first; empty where none does, or none is suspected."""
    if not doubtful(result) or result.problem.struck:  # trials know nothing of impacts
        return ()
    try:
        trials = _Trials(model, _piece(_worst(recordings, result)), unknowns, coordinates)
    except CalibodyError:  # too few samples for a piece
        return ()
    motion = _motion(trials.piece)
    if result.converged and _forced(result) and trials.fitted(model, trials.piece, _ended(result, unknowns), moved=False).ratio < LOST * motion:
        return ()
    before = trials.fitted(model, trials.piece, unknowns, moved=False).ratio
    lacking = {
        s.path: trials.fitted(model, trials.piece, {**unknowns, s.path: Unknown(s.value)}).ratio for s in result.lacks[:2] if not s.remedy and not s.parts
    }
    found: list[tuple[Suspicion, _Tried]] = []
    for suspicion in sorted(suspicions(model, trials.piece), key=lambda s: s.complexity):
        if found and suspicion.complexity > found[0][0].complexity:
            break  # what needs a number to be found is not looked for where something simpler explains the data
        tried = trials.without(suspicion)
        if _collapsed(tried.ratio, before, motion):
            found.append((suspicion, tried))
    return tuple(_named(found, before, lacking))


def _collapsed(ratio: float, before: float, motion: float) -> bool:
    """Whether residuals are next to nothing; `before` is infinite where nothing was found with the mistake."""
    if ratio < max(ENOUGH, FOLLOWED * motion):
        return ratio < (HALF if ratio < ENOUGH else FIFTH) * before
    return ratio < MUCH * before < math.inf


def _named(found: list[tuple[Suspicion, _Tried]], before: float, lacking: Mapping[str, float]) -> Iterator[Mistake]:
    found = [(s, tried) for s, tried in found if not _as_well(s, tried, lacking)]
    best = min((tried.ratio for _, tried in found), default=math.inf)
    if not best < math.inf or min(lacking.values(), default=math.inf) ** 2 < best**2 / ALIKE:
        return
    close = sorted((pair for pair in found if pair[1].ratio ** 2 <= ALIKE * best**2), key=lambda pair: pair[0].complexity)
    simplest, seen = close[0][0].complexity, set()
    for suspicion, tried in close:
        if suspicion.complexity > simplest or (suspicion.kind, suspicion.subjects) in seen or len(seen) == NAMED:
            continue
        seen.add((suspicion.kind, suspicion.subjects))
        yield Mistake(suspicion.kind, suspicion.subjects, suspicion.words(tried.values), before if math.isfinite(before) else None, tried.ratio)


def _motion(piece: Sequence[Recording]) -> float:
    """The motion over the noise (rms): what is left where nothing is described."""
    squares = [((o.values[o.present] - o.values[o.present].mean()) / o.sd) ** 2 for run in piece for o in run.observations if o.sd and o.present.any()]
    return float(np.sqrt(np.mean(np.concatenate(squares)))) if squares else math.inf


def _ended(result: Result, unknowns: Unknowns) -> Unknowns:
    """The same unknowns, beginning where a fit ended; those of one run where they began."""
    found = {e.name: float(value) for e, value in zip(result.problem.entries, result.theta, strict=True)}
    return {name: replace(u if isinstance(u, Unknown) else Unknown(), initial=found[name]) if name in found else u for name, u in unknowns.items()}


def _as_well(suspicion: Suspicion, tried: _Tried, lacking: Mapping[str, float]) -> bool:
    """Whether another number that the model lacks explains as much as a factor that is no unit: scaled angles of a swing look like a longer pendulum, and nobody has mistyped anything."""
    others = [ratio for path, ratio in lacking.items() if path not in suspicion.unknowns]
    return suspicion.kind == "gain" and min(others, default=math.inf) ** 2 < ALIKE * tried.ratio**2


# -- trials ------------------------------------------------------------------------------------------------------------------------


class _Trials:
    """Short fits of a piece."""

    def __init__(self, model: Model, piece: Recording, unknowns: Unknowns, coordinates: str) -> None:
        self.model, self.piece, self.unknowns, self.coordinates = model, [piece], unknowns, coordinates
        self.begun: tuple[Problem, list[States]] | None = None
        """The first motion of the piece as it is."""

    def without(self, suspicion: Suspicion) -> _Tried:
        """With a mistake undone."""
        try:
            model, runs = suspicion.change(self.model, self.piece)
        except CalibodyError:
            return _Tried(math.inf, {})
        return self.fitted(model, runs, {**self.unknowns, **suspicion.unknowns}, tuple(suspicion.unknowns), suspicion.moved)

    def fitted(self, model: Model, runs: Sequence[Recording], unknowns: Unknowns, asked: Sequence[str] = (), moved: bool = True) -> _Tried:
        try:
            with np.errstate(all="ignore"):
                worker, base = prepared(model, runs, unknowns, "none", self.coordinates, None, contacts="none")
                return self._solved(worker, base, asked, moved)
        except (CalibodyError, NumericalError, FloatingPointError, np.linalg.LinAlgError):
            return _Tried(math.inf, {})

    def _solved(self, worker: Meshes, base: float, asked: Sequence[str], moved: bool) -> _Tried:
        theta = np.array([e.initial for e in worker.unknowns])
        problem, x = self._begun(worker, worker.problem(base, worker.noises), theta, moved)
        if worker.friction:
            problem = problem.sharpened(SMOOTH * rms_rates(problem, x, theta))
        solution = minimise(problem, x, theta, Settings(iterations=STEPS, tolerance=TOLERANCE, shortest=SHORTEST), _Patience())
        if not solution.converged:
            return _Tried(math.inf, {})
        squares = count = 0.0
        for r, states in enumerate(solution.x):
            for d, fitted in problem.fitted(r, states, solution.theta):
                squares += float((((fitted - d.y) * problem.runs[r].weight(d)) ** 2).sum())
                count += len(d.y)
        values = {e.name: float(value) for e, value in zip(worker.unknowns, solution.theta, strict=True)}
        return _Tried(math.sqrt(squares / count), {name: values[name] for name in asked})

    def _begun(self, worker: Meshes, problem: Problem, theta: np.ndarray, moved: bool) -> tuple[Problem, list[States]]:
        """The first motion: that of the piece as it is, where it is the same (it can take longer than the fit)."""
        if moved:
            return worker.begin(problem, theta)
        if self.begun is None:
            self.begun = worker.begin(problem, theta)
        old, x = self.begun
        runs = [
            replace(run, active=o.active, implied=o.implied, choices=o.choices, typical=o.typical, weights=o.weights)
            for run, o in zip(problem.runs, old.runs, strict=True)
        ]
        return replace(problem, runs=tuple(runs)), x


class _GivenUp(CalibodyError):
    """A trial that gets nowhere."""


class _Patience:
    """Ends a trial after a few laboured steps."""

    def __init__(self) -> None:
        self.left = PATIENCE

    def __call__(self, iteration: Iteration) -> None:
        self.left -= iteration.length < LABOURED or iteration.damping > 0.0 or iteration.tether > 0.0
        if not self.left:
            raise _GivenUp("It gets nowhere.")


def _worst(recordings: Sequence[Recording], result: Result) -> Recording:
    """The run that the fit describes worst."""
    size = {r.name: 0.0 for r in recordings}
    for c in result.fit:
        size[c.run] = max(size[c.run], c.rms_over_sd if math.isfinite(c.rms_over_sd) else math.inf)
    return max(recordings, key=lambda r: size[r.name])


def _piece(run: Recording) -> Recording:
    """The part of a run in which most happens, of as many nodes as a trial has; known starts left out (they are in the units of a channel), noise stated."""
    run = replace(run, initial={}, observations=tuple(o if o.sd is not None else replace(o, sd=max(found_sd(o), 1e-300)) for o in run.observations))
    nodes = NODES if all(o.channel.startswith("joint.") for o in run.observations) else FEWER
    length = nodes * first_step([run], [_Noise({o.channel: float(o.sd) for o in run.observations})])  # pyright: ignore[reportArgumentType]
    if run.duration <= 1.5 * length:
        return run
    starts = np.arange(run.start, run.end - length, 0.5 * length)
    start = float(max(starts, key=lambda a: _activity(run, a, a + length)))
    try:
        return run.cut(start, start + length)
    except CalibodyError:  # a channel with too few samples there
        return run


@dataclass(frozen=True)
class _Noise:
    """As much of a noise as the choice of a mesh asks for."""

    measured: Mapping[str, float]


def _activity(run: Recording, start: float, end: float) -> float:
    """How much of all scatter of channels and drives lies in a part."""
    series = [(o.times[o.present], o.values[o.present]) for o in run.observations] + [(d.signal.times, d.signal.values) for d in run.drives]
    total = 0.0
    for t, x in series:
        inside = (t >= start) & (t <= end)
        if inside.sum() > 1 and np.ptp(x) > 0.0:
            total += float(np.std(x[inside]) / np.std(x))
    return total
