"""Posterior predictive checks: would data that the model makes look like those that it was fitted to?

With every draw of parameters and motion the residuals of a channel in units of their noise are, if the model is right, white with unit variance. So three numbers of them are compared with those of white noise: the sum of their squares, Ljung-Box's statistic of
their memory, and the largest. The probability that noise alone would be as far off or further, the mean over the draws, is near 0 where something is missing (and near 1, for the squares, where the stated noise is too large). All tests of a posterior together raise a false alarm in
one of a hundred at most. Outliers that a robust fit has let go of are left out. The motion is that of the fit's own mesh: a coarser one would leave its own error in the residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.draws.bands import FEWEST, motions
from calibody.estimate.observe import is_initial
from calibody.estimate.robust import LET_GO
from calibody.estimate.uncertainty import whiteness
from calibody.solve.threads import one_thread

if TYPE_CHECKING:
    from calibody.estimate.draws.drawn import Posterior

DOUBTFUL = 0.01
"""Probability, of all tests of a posterior together, with which something is said although nothing is wrong."""


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
    tests: int = 3
    """Of the whole posterior."""

    @property
    def doubts(self) -> list[str]:
        level = DOUBTFUL / self.tests
        said = {
            "its residuals are larger than its noise": self.chi2 < level,
            "its noise is stated too large": self.chi2 > 1.0 - level,
            "its residuals have a memory": self.ljung_box < level,
            "a sample is too far off": self.largest < level,
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
    if not post.targets:
        raise CalibodyError("Bands and checks follow the variational step, and this was fitted in an engine; simulate there with the rows of post.draws.")
    out: list[ChannelCheck] = []
    for r, recording in enumerate(post.result.recordings):
        seen: dict[str, list[tuple[float, float, float]]] = {}
        for _, problem, theta, x in motions(post, r, draws):
            run = problem.runs[r]
            for d, fitted in problem.fitted(r, x, theta):
                if not is_initial(d.channel):
                    kept = run.weights[d.channel.path] > LET_GO
                    seen.setdefault(d.channel.path, []).append(_three(((fitted - d.y) / (run.noise.measured[d.channel.path] * d.relative))[kept]))
        out += [ChannelCheck(recording.name, path, *np.mean(found, axis=0).tolist()) for path, found in seen.items()]
    return Check(tuple(replace(c, tests=3 * len(out)) for c in out))


def _three(F: np.ndarray) -> tuple[float, float, float]:
    """Probabilities of squares, memory and a largest residual like these of white noise of unit variance."""
    from scipy.special import chdtrc, ndtr

    largest = float(np.abs(F).max(initial=0.0))
    return float(chdtrc(len(F), F @ F)), whiteness(F), float(-np.expm1(len(F) * np.log1p(-2.0 * ndtr(-largest))))
