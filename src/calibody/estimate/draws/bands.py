"""Bands of a posterior: what it predicts of a recording that was not fitted, and what it leaves open of the motion and forces of those that were.

**Prediction.** With every draw of the parameters the start of the recording is found from its first `window` seconds (the motion alone, by the factor that is there: `target.py`), and a motion is drawn from what those seconds leave open: with K the matrix
of the states and e white noise of unit variance, `-K^-1 [Fx'e; 0]` has the covariance `(K^-1)_xx`. From its first node on it is simulated; where there are unmodelled forces, from the last node but two of the window, with forces drawn anew as the fit has found
them. The band holds the measurement noise too: at every sample the distribution is the mean of as many Gaussians as there are draws, whose quantiles are found by bisection. What the band holds of the samples after the window, its `coverage`, judges the
posterior and the model together; it says nothing if the recording was fitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError, NumericalError, SimulationError, nearest
from calibody.estimate.draws.target import SETTLED, Motion, Target, settle
from calibody.estimate.layout import PROCESS
from calibody.estimate.nodes import Nodes, Noise
from calibody.estimate.noise.hyper import resized
from calibody.estimate.observed import predicted
from calibody.estimate.predict import FEWEST_SIMULATED, beginning, own_name, per_run, played, signals, start, starting
from calibody.estimate.problem import Problem
from calibody.recording.signal import Signal
from calibody.solve.threads import one_thread

if TYPE_CHECKING:
    from calibody.estimate.draws.drawn import Posterior
    from calibody.estimate.layout import States
    from calibody.estimate.run import Run
    from calibody.recording.recording import Recording

LEVEL = 0.9
BISECTIONS = 50
FEWEST = 10
"""Draws that a band needs."""
KEY = 1 << 34
"""Of the random numbers of bands, beside those of draws."""


@dataclass(frozen=True, eq=False)
class Band:
    """One channel over time."""

    channel: str
    times: np.ndarray = field(repr=False)
    quantiles: np.ndarray = field(repr=False)
    """(3, samples): lower end, median and upper end of the band."""
    level: float
    """The probability that it should hold."""
    measured: np.ndarray | None = field(default=None, repr=False)
    """None where the channel was not measured."""
    judged: np.ndarray | None = field(default=None, repr=False)
    """Which samples are judged: those after the window."""
    log_density: np.ndarray | None = field(default=None, repr=False)
    """Of every measured sample, by the draws and the noise."""

    @property
    def inside(self) -> np.ndarray:
        """Which samples are in the band, of those that are judged."""
        if self.measured is None or self.judged is None:
            raise CalibodyError(f'"{self.channel}" was not measured here, so nothing is known about what its band holds.')
        return ((self.measured >= self.quantiles[0]) & (self.measured <= self.quantiles[2]))[self.judged]

    @property
    def coverage(self) -> float:
        """The share of the measured samples that the band holds; NaN if none is judged."""
        inside = self.inside
        return float(np.mean(inside)) if len(inside) else float("nan")

    @property
    def rms(self) -> float:
        """Of measured minus median."""
        assert self.measured is not None and self.judged is not None
        return float(np.sqrt(np.mean((self.measured - self.quantiles[1])[self.judged] ** 2)))


@dataclass(frozen=True, eq=False)
class Predicted:
    """A recording as a posterior predicts it."""

    run: str
    channels: dict[str, Band]
    draws: int
    failed: int
    """Draws that could not be simulated to the end."""
    level: float

    def __getitem__(self, channel: str) -> Band:
        if channel not in self.channels:
            raise CalibodyError(
                f'"{channel}" was not observed in the run "{self.run}"{nearest(channel, self.channels) or "; there are " + ", ".join(self.channels) + "."}'
            )
        return self.channels[channel]

    @property
    def coverage(self) -> float:
        """Of all channels together."""
        return float(np.mean(np.concatenate([b.inside for b in self.channels.values()])))

    def __str__(self) -> str:
        lines = [f"{self.run}: {100.0 * self.level:.0f} % bands of {self.draws} draws hold {100.0 * self.coverage:.0f} % of the samples after the window"]
        lines += [f"  {name}: {100.0 * b.coverage:.0f} %, rms of the error {b.rms:.3g}" for name, b in self.channels.items()]
        return "\n".join([*lines, *([f"  {self.failed} draws could not be simulated to the end"] if self.failed else [])])


@one_thread
def predict(post: Posterior, recording: Recording, window: float | None, draws: int, level: float) -> Predicted:
    """See `Posterior.predict`."""
    _refuse(post, draws, level)
    span = beginning(recording, window)
    result = post.result
    begun = start(result, recording, span)
    problem, found, failed = begun.problem, [], 0
    assert isinstance(problem, Problem)
    target = Target.of(problem, begun.states, begun.theta)
    numbers, reason = _Numbers.of(post, target, recording), ""
    for number, row in enumerate(_some(post, draws)):
        random = _random(post.seed, number)
        theta = numbers.drawn(post.raw.eta[row], random)
        try:
            motion = _motion(target, theta, 0)
            if motion is None:
                raise SimulationError("No motion was found.")
            x = drawn_motion(problem, 0, motion, theta, random)
            found.append(_simulated(problem, recording, x, theta, result.mesh.h, random))
        except (SimulationError, NumericalError, np.linalg.LinAlgError) as error:
            failed, reason = failed + 1, f" ({str(error).rstrip('.')})" if isinstance(error, SimulationError) else reason
    if len(found) < FEWEST:
        raise CalibodyError(
            f'Of {draws} draws only {len(found)} could be simulated over the run "{recording.name}"{reason}; take a shorter part of it, recording.cut(end=...).'
        )
    return Predicted(recording.name, _bands(recording, span, found, problem, level), len(found), failed, level)


@dataclass(frozen=True, eq=False)
class _Numbers:
    """The parameters of a recording, of draws of those of the fit.

    What differs between runs is that of the run, if it was fitted. Of another it is what its first seconds and the other runs leave open: with I the information of both, and s the shared numbers,
    `o^ - I_oo^-1 I_os (s - s^)` give or take `I_oo^-1`.
    """

    target: Target
    shared: tuple[list[int], list[int]]
    """Where they stand here, and in the fit."""
    own: list[int]
    known: list[int] | None
    """Where the run's own stand in the fit; None where it was not fitted."""

    @classmethod
    def of(cls, post: Posterior, target: Target, recording: Recording) -> _Numbers:
        entries, fitted = target.problem.entries, post.result.problem.entries
        here, there = ([k for k, e in enumerate(es) if e.run is None] for es in (entries, fitted))
        own, places = [k for k, e in enumerate(entries) if e.run is not None], per_run(post.result)
        r = next((r for r, run in enumerate(post.result.recordings) if _same(run, recording)), None)
        return cls(target, (here, there), own, None if r is None else [places[own_name(entries[k])][r] for k in own])

    def drawn(self, eta: np.ndarray, random: np.random.Generator) -> np.ndarray:
        theta, (here, there), own = self.target.theta.copy(), self.shared, self.own
        theta[here] = eta[there]
        if self.known is not None:
            theta[own] = eta[self.known]
        elif own:
            d = theta[here] - self.target.theta[here]
            away = self._spread @ random.standard_normal(len(own)) - self._following @ d
            theta[own] = np.clip(theta[own] + away, self.target.problem.lower[own], self.target.problem.upper[own])
        return theta

    @cached_property
    def _following(self) -> np.ndarray:
        """How the run's own follow the shared ones."""
        I, own = self.target.information, self.own
        return np.linalg.pinv(I[np.ix_(own, own)], hermitian=True) @ I[np.ix_(own, self.shared[0])]

    @cached_property
    def _spread(self) -> np.ndarray:
        """A square root of what is left open of them."""
        mu, V = np.linalg.eigh(self.target.information[np.ix_(self.own, self.own)])
        return V / np.sqrt(np.maximum(mu, 1e-12 * mu.max()))


def _same(run: Recording, other: Recording) -> bool:
    """Whether a recording is the one that was fitted."""
    mine, others = ({o.channel: o.values for o in r.observations} for r in (run, other))
    return run.name == other.name and mine.keys() == others.keys() and all(np.array_equal(mine[c], others[c], equal_nan=True) for c in mine)


def _refuse(post: Posterior, draws: int, level: float) -> None:
    if not 0.0 < level < 1.0:
        raise CalibodyError(f"level = {level!r}; give a probability, such as 0.9.")
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < FEWEST:
        raise CalibodyError(f"draws = {draws!r}; give {FEWEST} or more.")
    if not post.converged:
        raise CalibodyError(f"A posterior that is not sampled well has no bands ({post.status.rstrip('.')}).")
    if not post.targets:
        raise CalibodyError("Bands and checks follow the variational step, and this was fitted in an engine; simulate there with the rows of post.draws.")


def _some(post: Posterior, draws: int) -> np.ndarray:
    """Rows of `raw`, evenly among those of the same weight."""
    count = min(draws, post.samples)
    return post.picked[np.linspace(0, post.samples - 1, count).round().astype(int)]


def _random(seed: int, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, KEY + number]))


def _motion(target: Target, eta: np.ndarray, r: int) -> Motion | None:
    """That of a run at some parameters, the likeliest."""
    given = list(target.predicted(target.problem, eta))[r]
    return settle(*given, SETTLED)


def drawn_motion(problem: Problem, r: int, motion: Motion, theta: np.ndarray, random: np.random.Generator) -> States:
    """A motion as likely as others that the data leave open at these parameters."""
    single = problem.singles[r]
    lin = single.linearised(0, motion.x, theta[problem.columns[r]], parameters=False).part
    noise = random.standard_normal(len(lin.F))
    dx = motion.factor.solve(np.concatenate([lin.Fx.T @ noise, np.zeros(len(lin.C))]))[: motion.factor.n]
    return problem.runs[r].move(motion.x, dx)


def _simulated(problem: Problem, recording: Recording, x: States, theta: np.ndarray, h: float, random: np.random.Generator) -> dict[str, tuple]:
    """By channel: samples, and what a simulation says of them."""
    run, (model, _, sensors) = problem.runs[0], problem.model_of(0, theta)
    motion, node = problem.motion(0, x, theta), run.K - 3 if run.disturbed else 0
    begin = float(run.times[node])
    duration = recording.end - begin
    steps = max(1, round(duration / h))
    drive = signals(recording, begin)
    for channel, force in _forces(run, x, duration, random):
        drive[channel] = _added(drive.get(channel), force)
    stepper = problem.stepper()
    simulated = played(
        model, duration, duration / steps, starting(motion, drive, stepper, node), drive, stepper, run.structure.coordinates, contacts=problem.contacts
    )
    times = begin + simulated.h * np.arange(simulated.q.shape[1])
    if len(times) < FEWEST_SIMULATED:
        raise SimulationError("It ended at once.")
    nodes = Nodes(simulated.structure, recording, times, simulated.h, Noise({}, frozenset(), {})).with_data()
    return {
        d.channel.path: (d, predicted(nodes, simulated.model, simulated.numbers, simulated.frames, simulated.multipliers, sensors, d).value) for d in nodes.data
    }


def _forces(run: Run, x: States, duration: float, random: np.random.Generator) -> Iterator[tuple[str, Signal]]:
    """Unmodelled forces that may come, of joints of one coordinate: white, or going on from where they were at the end of the window."""
    if not run.disturbed:
        return
    joints, sds, memory = [joint for joint, _ in run.disturbed], run.process_sd(), run.memory
    t = run.held * np.arange(int(duration / run.held) + 2)
    for k, joint in enumerate(joints):
        if run.structure.model.joint(joint).kind not in ("hinge", "slide"):
            continue
        a, noise = float(memory[k]), random.standard_normal(len(t))
        values = np.zeros(len(t))
        last = float(x.parts[PROCESS][-1, k])
        for i in range(len(t)):
            last = values[i] = a * last + np.sqrt(1.0 - a * a) * noise[i]
        yield f"joint.{joint}.force", Signal(t, float(sds[k]) * values, hold="zero")


def _added(known: Signal | None, force: Signal) -> Signal:
    """A force beside one that is driven already."""
    if known is None:
        return force
    return Signal(force.times, force.values + np.interp(force.times, known.times, known.values), hold="zero")


def _bands(recording: Recording, span: float, found: list[dict[str, tuple]], problem: Problem, level: float) -> dict[str, Band]:
    out = {}
    noise = problem.runs[0].noise.measured
    for path, (d, _) in found[0].items():
        middles = np.stack([f[path][1] for f in found])
        sd = noise[path] * np.broadcast_to(d.relative, d.y.shape)
        out[path] = Band(path, d.times, mixed(middles, sd, level), level, d.y, d.times > recording.start + span, _log_density(middles, sd, d.y))
    return out


def _log_density(middles: np.ndarray, sd: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(samples,) of the mean of Gaussians about `middles` (draws, samples)."""
    from scipy.special import logsumexp

    return logsumexp(-0.5 * ((y - middles) / sd) ** 2, axis=0) - np.log(len(middles)) - np.log(sd) - 0.5 * np.log(2.0 * np.pi)


def mixed(middles: np.ndarray, sd: np.ndarray, level: float) -> np.ndarray:
    """(3, samples): quantiles of the mean of Gaussians about `middles` (draws, samples)."""
    from scipy.special import ndtr, ndtri

    out = []
    for q in (0.5 - 0.5 * level, 0.5, 0.5 + 0.5 * level):
        low, high = middles.min(axis=0) + ndtri(q) * sd, middles.max(axis=0) + ndtri(q) * sd
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            below = ndtr((middle - middles) / sd).mean(axis=0) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        out.append(0.5 * (low + high))
    return np.stack(out)


@one_thread
def band(post: Posterior, channel: str, run: str | int, draws: int, level: float) -> Band:
    """See `Posterior.band`."""
    _refuse(post, draws, level)
    r = post.result._run(run)
    times, values = np.zeros(0), []
    for _, problem, theta, x in motions(post, r, draws):
        times = problem.runs[r].times
        values.append(np.asarray(problem.motion(r, x, theta)[channel], dtype=float))
    if len(values) < FEWEST:
        raise CalibodyError(f"Of {draws} draws only {len(values)} have a motion.")
    if np.ndim(values[0]) != 1:
        raise CalibodyError(f'"{channel}" has several components; name one of them, such as "{channel}.x".')
    with np.errstate(invalid="ignore"):
        found = np.quantile(np.stack(values), [0.5 - 0.5 * level, 0.5, 0.5 + 0.5 * level], axis=0)
    good = np.isfinite(found).all(axis=0)
    return Band(channel, times[: found.shape[1]][good], found[:, good], level)


def motions(post: Posterior, r: int, draws: int) -> Iterator[tuple[np.ndarray, Problem, np.ndarray, States]]:
    """For some draws: all that was drawn, the problem with its noise, the parameters on its mesh, and a motion of a run that was drawn too."""
    for number, row in enumerate(_some(post, draws)):
        mode = int(post.raw.mode[row])
        target = post.fine[1] if post.fine is not None and post.fine[0] == mode else post.targets[mode]
        eta = target.eta + post.raw.eta[row] - target.centre  # on the target's own mesh
        problem = resized(target.problem, target.hypers, eta[target.p :])
        try:
            given = list(target.predicted(problem, eta))[r]
            motion = settle(*given, SETTLED)
        except (CalibodyError, NumericalError, np.linalg.LinAlgError):
            continue
        if motion is not None:
            theta = eta[: target.p]
            yield eta, problem, theta, drawn_motion(problem, r, motion, theta, _random(post.seed, number))
