"""Is the noise of the channels what the fit took it for: white, and not the steps of a counter?

**Memory.** The score of a correlation `phi^|k - l|` of a channel's noise, phi = exp(-1/m) with a memory of m samples, is `S = sum_l phi^l sum_k e_k e_(k+l)`, e the residuals. A fit's residuals are
correlated even where the noise is not: motion and parameters have followed the noise, with unmodelled forces very much so, and Ljung-Box then always rejects. So S over `sum e^2` is compared with its own
mean and scatter where nothing is missing, from residuals that are made of white noise and smoothed as those of the fit (`Scores.simulated`).

**Counts.** Samples that all lie on a grid are those of a counter (`recording/counting.py`). That matters where its step is more than the stated noise: `step/sqrt(12) > COARSE sd`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np

from calibody.estimate import observe
from calibody.estimate.chi_square import student
from calibody.estimate.missing.scores import Scores
from calibody.estimate.problem import Problem
from calibody.recording.counting import step_of

MEMORIES = (1.0, 3.0, 10.0)
"""Samples over which noise is tried to be correlated."""
DRAWS, LARGEST, FEWEST = 200, 5_000_000, 40
"""Simulated residuals: so many that their scatter is known to 5 %, fewer where all of their numbers would be more than the second, but never fewer than the third."""
FIRST, REMARKABLE = 20, 2.5
"""Draws that the test begins with, and the score from which it is made with all of them: from twenty its scatter is known to 16 %, and what counts is beyond four."""
SEED = 20
RUNS = 16
"""Runs that are looked at for a memory: if a sensor's noise has one, it has it in all of them."""
COARSE = 0.5
"""Noise of counting over stated noise from which the count is named: together they are 12 % more than stated."""


@dataclass(frozen=True)
class Memory:
    """The test of one channel, all runs together, at the memory that the data want most."""

    channel: str
    seconds: float
    score: float
    """In units of its scatter where nothing is missing."""
    draws: int

    @property
    def probability(self) -> float:
        """Of such a score where nothing is missing; its scatter is known from so many draws (Student)."""
        return 1.0 if abs(self.score) < 2.0 else student(self.score, self.draws - 1)


@dataclass(frozen=True)
class Rows:
    """Where the residuals of a channel stand among those of all runs."""

    channel: str
    runs: tuple[tuple[int, slice], ...]


def rows_of(problem: Problem, scores: Scores) -> list[Rows]:
    """Of every channel that a sensor reads, in the first runs."""
    found: dict[str, list[tuple[int, slice]]] = {}
    for r, (run, first) in enumerate(zip(problem.runs[:RUNS], scores.first[:RUNS], strict=True)):
        for d in run.data:
            if not observe.is_initial(d.channel):
                found.setdefault(d.channel.path, []).append((r, slice(int(first), int(first) + len(d.y))))
            first = first + len(d.y)
    return [Rows(channel, tuple(where)) for channel, where in found.items()]


def memories(problem: Problem, scores: Scores, residuals: np.ndarray) -> list[Memory]:
    """Every channel's; `residuals` may have been rid of what a suspect explains. A few draws show where nothing is remarkable, as mostly."""
    last = scores.first[RUNS] if len(scores.first) > RUNS else len(scores.F)
    found = _tested(problem, scores, residuals, FIRST)
    remarkable = any(abs(m.score) > REMARKABLE for m in found)
    return _tested(problem, scores, residuals, int(np.clip(LARGEST // max(int(last), 1), FEWEST, DRAWS))) if remarkable else found


def _tested(problem: Problem, scores: Scores, residuals: np.ndarray, draws: int) -> list[Memory]:
    simulated, out = scores.simulated(draws, np.random.default_rng(SEED), RUNS), []
    for rows in rows_of(problem, scores):
        if max(where.stop - where.start for _, where in rows.runs) < 3 * max(MEMORIES):
            continue
        here, there = (_correlations([x[where] for _, where in rows.runs]) for x in (residuals[:, None], simulated))
        z = (here[:, 0] - there.mean(axis=1)) / (there.std(axis=1, ddof=1) * sqrt(1.0 + 1.0 / draws))
        best = int(np.argmax(np.abs(z)))
        period = float(np.median(np.concatenate([np.diff(d.times) for r, _ in rows.runs for d in problem.runs[r].data if d.channel.path == rows.channel])))
        out.append(Memory(rows.channel, MEMORIES[best] * period, float(z[best]), draws))
    return out


def _correlations(runs: list[np.ndarray]) -> np.ndarray:
    """(memories, columns): `sum_l phi^l sum_k e_k e_(k+l)` over `sum e^2`, of residuals (samples, columns) of several runs."""
    out, squares = 0.0, 0.0
    for e in runs:
        each = np.array([(e * _following(e, np.exp(-1.0 / m))).sum(axis=0) for m in MEMORIES])
        out, squares = out + each, squares + (e**2).sum(axis=0)
    return out / np.maximum(squares, 1e-300)


def _following(e: np.ndarray, phi: float) -> np.ndarray:
    """`sum_l phi^l e_(k+l)` over l = 1, 2, ... of every k, twice as many terms in every round: a_k + phi^L a_(k+L) has the first 2 L."""
    a, terms = np.zeros_like(e), 1
    a[:-1] = phi * e[1:]
    while terms < len(e) and phi**terms > 1e-16:
        a[:-terms] += phi**terms * a[terms:]
        terms *= 2
    return a


@dataclass(frozen=True)
class Counted:
    """A channel whose samples are counts, and that nobody has said so of: the step, and minus twice the logarithm of the probability of that by chance."""

    channel: str
    step: float
    surprise: float


def counts(problem: Problem) -> Iterator[Counted]:
    seen = set()
    for run in problem.runs:
        for o in run.recording.observations:
            if o.channel in seen or o.resolution is not None or o.sd is None:
                continue
            found = step_of(o.values[o.present])
            if found is not None and found.step / sqrt(12.0) > COARSE * o.sd:
                seen.add(o.channel)
                yield Counted(o.channel, found.step, found.surprise)
