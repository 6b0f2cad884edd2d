"""Posterior predictive checks: would data that the model makes look like those that it was fitted to?

With every draw of parameters and motion the residuals of a channel in units of their noise are, if the model is right, white with unit variance. So three numbers of them are compared with those of white noise: the sum of their squares, Ljung-Box's statistic of
their memory, and the largest. The probability that noise alone would be as far off or further is near 0 where something is missing (and near 1, for the squares, where the stated noise is too large).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.bands import FEWEST, motions
from calibody.estimate.observe import is_initial
from calibody.estimate.uncertainty import LAGS, autocorrelation
from calibody.solve.threads import one_thread

if TYPE_CHECKING:
    from calibody.estimate.drawn import Posterior

DOUBTFUL = 0.01
KEY = 1 << 35
REPLICATES = 20
"""Of white noise for every draw: a probability is then known to 1/2000 of 100 draws."""


@dataclass(frozen=True)
class ChannelCheck:
    """Probabilities that a run like this would have, if the model were right, ..."""

    run: str
    channel: str
    chi2: float
    """... squares of residuals as large, ..."""
    ljung_box: float
    """... residuals with as much memory, ..."""
    largest: float
    """... a residual as large."""

    @property
    def doubts(self) -> list[str]:
        said = {
            "its residuals are larger than its noise": self.chi2 < DOUBTFUL,
            "its noise is stated too large": self.chi2 > 1.0 - DOUBTFUL,
            "its residuals have a memory": self.ljung_box < DOUBTFUL,
            "a sample is too far off": self.largest < DOUBTFUL,
        }
        return [words for words, true in said.items() if true]


@dataclass(frozen=True)
class Check:
    channels: tuple[ChannelCheck, ...]

    @property
    def passed(self) -> bool:
        return not any(c.doubts for c in self.channels)

    def __str__(self) -> str:
        width = max((len(f"{c.run}: {c.channel}") for c in self.channels), default=10)
        lines = [f"{'channel':{width}}  {'squares':>8} {'memory':>8} {'largest':>8}"]
        for c in self.channels:
            said = "; ".join(c.doubts)
            lines.append(f"{f'{c.run}: {c.channel}':{width}}  {c.chi2:8.3f} {c.ljung_box:8.3f} {c.largest:8.3f}" + (f"  {said}" if said else ""))
        return "\n".join(lines)


@one_thread
def check(post: Posterior, draws: int = 100) -> Check:
    """See `Posterior.check`."""
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < FEWEST:
        raise CalibodyError(f"draws = {draws!r}; give {FEWEST} or more.")
    out = []
    for r, recording in enumerate(post.result.recordings):
        seen: dict[str, list[tuple[float, float, float]]] = {}
        for _, problem, theta, x in motions(post, r, draws):
            run = problem.runs[r]
            for d, fitted in problem.fitted(r, x, theta):
                seen.setdefault(d.channel.path, []).append(_three((fitted - d.y) * run.weight(d)))
        counts = {d.channel.path: len(d.y) for d in post.targets[0].problem.runs[r].data if not is_initial(d.channel)}
        for path, n in counts.items():
            out.append(_compared(recording.name, path, np.array(seen.get(path, [])).reshape(-1, 3), n, post.seed + r))
    return Check(tuple(out))


def _three(F: np.ndarray) -> tuple[float, float, float]:
    """Squares, memory and the largest of residuals."""
    r, n = autocorrelation(F), len(F)
    lags = min(LAGS, n // 5)
    memory = 0.0 if lags < 1 or r[0] <= 0.0 else n * (n + 2) * float(((r[1 : lags + 1] / r[0]) ** 2 / (n - np.arange(1, lags + 1))).sum())
    return float(F @ F), memory, float(np.abs(F).max(initial=0.0))


def _compared(run: str, channel: str, seen: np.ndarray, n: int, seed: int) -> ChannelCheck:
    random = np.random.Generator(np.random.Philox(key=[seed, KEY]))
    noise = np.sort(np.array([_three(random.standard_normal(n)) for _ in range(REPLICATES * max(len(seen) // 2, 10))]), axis=0)
    p = [float(np.mean(1.0 - np.searchsorted(noise[:, k], seen[:, k]) / len(noise))) if len(seen) else 0.0 for k in range(3)]
    return ChannelCheck(run, channel, *p)
