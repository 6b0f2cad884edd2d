"""Profile likelihood of one parameter: the best that the others can do at every value of it. A cross-check of error bars and posteriors that needs neither a Gaussian nor draws.

At values on both sides of the estimate everything else is fitted again, from where it follows to first order; `rise` is by how much twice the negative logarithm of the likelihood is larger than at the estimate, and the interval is where that stays below the quantile of
chi-square (3.84 for 95 %). Where the error bars of the fit are larger than the likelihood's (residuals that are not white, runs that disagree), it is divided by the square of their ratio.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError, NumericalError, nearest
from calibody.estimate.draws.proper import likelihood_of
from calibody.estimate.draws.solved import Solved, solved_by
from calibody.estimate.noise.likelihood import Likelihood
from calibody.estimate.noise.maximise import maximise
from calibody.solve.gauss_newton import Settings, minimise
from calibody.solve.threads import one_thread

if TYPE_CHECKING:
    from calibody.estimate.result import Result

POINTS, WIDTH = 6, 3.0
"""Values on each side, and how many standard deviations the last is away."""


@dataclass(frozen=True, eq=False)
class Profile:
    path: str
    unit: str
    values: np.ndarray = field(repr=False)
    rise: np.ndarray = field(repr=False)
    """Of twice the negative logarithmic likelihood above that of the estimate; inf where no fit was found."""
    estimate: float
    sd: float | None

    def interval(self, level: float = 0.95) -> tuple[float | None, float | None]:
        """Where the likelihood is not too far below its best; None on a side that the values do not reach far enough on: at a bound there is no end, the other side is a one-sided limit."""
        from scipy.special import ndtri

        quantile = float(ndtri(0.5 + 0.5 * level)) ** 2
        below = self.values <= self.estimate
        return _crossing(self.values[below][::-1], self.rise[below][::-1], quantile), _crossing(self.values[~below], self.rise[~below], quantile, self.estimate)

    def __str__(self) -> str:
        low, high = ("no end" if x is None else f"{x:.6g}" for x in self.interval())
        return f"{self.path} = {self.estimate:.6g} {self.unit}; by its profile likelihood from {low} to {high} (95 %)"


def _crossing(values: np.ndarray, rise: np.ndarray, quantile: float, begin: float | None = None) -> float | None:
    """Where the rise, from the estimate outwards, reaches the quantile: its root is about straight."""
    x = np.concatenate([[] if begin is None else [begin], values])
    y = np.sqrt(np.maximum(np.concatenate([[] if begin is None else [0.0], rise]), 0.0))
    for k in range(1, len(x)):
        if y[k] >= np.sqrt(quantile) > y[k - 1]:
            if not np.isfinite(y[k]):
                return None
            return float(x[k - 1] + (np.sqrt(quantile) - y[k - 1]) / (y[k] - y[k - 1]) * (x[k] - x[k - 1]))
    return None


@one_thread
def profile(result: Result, path: str, points: int = POINTS, width: float = WIDTH) -> Profile:
    """See `Result.profile`."""
    k, sd = _which(result, path)
    fine = solved_by(result)
    if isinstance(points, bool) or not isinstance(points, int) or points < 2 or not width > 0.0:
        raise CalibodyError(f"points = {points!r} and width = {width!r}; give at least two points on each side and a number of standard deviations.")
    inverse = np.linalg.pinv(fine.information(), hermitian=True)
    size = float(np.sqrt(max(inverse[k, k], 0.0)))
    ratio = max((result.parameters[path].sd or size) / size, 1.0) if size > 0.0 else 1.0
    step = ratio * size * width / points
    least, best, at = _value(fine), {}, fine.theta[k]
    for sign in (1.0, -1.0):
        here = fine
        for i in range(1, points + 1):
            value = float(np.clip(at + sign * i * step, fine.problem.lower[k], fine.problem.upper[k]))
            if value in best or value == at:
                break
            moved = _at(here, k, value)
            best[value] = np.inf if moved is None else 2.0 * (_value(moved) - least) / ratio**2
            if moved is None:
                break
            here = moved
    values = np.array(sorted([*best, at]))
    return Profile(path, result.parameters[path].unit, values, np.array([0.0 if v == at else best[v] for v in values]), float(at), sd)


def _which(result: Result, path: str) -> tuple[int, float | None]:
    if not result.converged:
        raise CalibodyError(f"A fit that did not converge has no profile ({result.status.rstrip('.')}).")
    if not result.problem.bars:
        raise CalibodyError(f"A profile likelihood needs {likelihood_of(result)}.")
    names = list(result.parameters)
    if path not in names:
        raise CalibodyError(f'"{path}" was not estimated{nearest(path, names) or "; there are " + ", ".join(names) + "."}')
    k = names.index(path)
    if result.problem.entries[k].group is not None:
        raise CalibodyError(f'"{path}" is one of the ten numbers of a body that are estimated together; name it as an unknown of its own to see its profile.')
    return k, result.parameters[path].sd


def _at(solved: Solved, k: int, value: float) -> Solved | None:
    """The best with one parameter held."""
    problem, d = solved.problem, value - solved.theta[k]
    entries = list(problem.entries)
    entries[k] = replace(entries[k], lower=value, upper=value)
    held = replace(problem, entries=tuple(entries))
    I = solved.information()
    others = np.flatnonzero((np.arange(len(I)) != k) & (problem.lower < problem.upper))
    theta = solved.theta.copy()
    if len(others):
        theta[others] -= np.linalg.pinv(I[np.ix_(others, others)], hermitian=True) @ I[others, k] * d
    theta[k] = value
    theta = np.clip(theta, held.lower, held.upper)
    try:
        if solved.forced and len(others):
            function = Likelihood(held, ())
            found = maximise(function, function.at(solved.x, theta, np.zeros(0)), lambda _: None)
            return Solved(held, tuple(found.spot.x), found.spot.theta) if found.status == "converged" else None
        done = minimise(held, list(solved.x), theta, Settings(tolerance=1e-3))
    except (CalibodyError, NumericalError, np.linalg.LinAlgError):
        return None
    return Solved(held, tuple(done.x), done.theta) if done.converged else None


def _value(solved: Solved) -> float:
    """Minus log likelihood; with unmodelled forces the motion is integrated out."""
    if solved.forced:
        return Likelihood(solved.problem, ()).at(solved.x, solved.theta, np.zeros(0)).value
    F, _ = solved.problem.values(list(solved.x), solved.theta)
    return 0.5 * float(F @ F)
