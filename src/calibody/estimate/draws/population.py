"""What runs that differ have in common: mean and covariance of unknowns that are `per_run`, over the population that the runs are drawn from.

Every run r has numbers of its own, `x_r ~ N(mean, covariance)`, of which a fit knows estimates `x_r + e_r`. About their mean the estimates scatter by `T = covariance + E`, E the covariance of the errors of a run less what all runs have in
common, of which the mean of the estimates keeps the whole, B. With R runs of d numbers and their scatter S about their mean,

    T ~ inverse Wishart(S, R + d - 2),      covariance = T - E (what is positive of it),      mean ~ N(mean of the estimates, T/R + B)

are draws whose intervals are the classical ones: Student's with R - 1 degrees of freedom for every mean, chi-square with as many for every variance of the estimates, less that of the errors; those of the covariances and correlations match closely
([berger2008]). Draws of a hierarchical posterior were tried first and thrown away: no prior of a covariance is flat enough near zero and narrow enough elsewhere, and with errors as large as the scatter it collapses or covers too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.result import Result

DRAWS = 4000


@dataclass(frozen=True, eq=False)
class Population:
    """Draws of mean and covariance of numbers that differ between runs."""

    names: tuple[str, ...]
    estimates: np.ndarray = field(repr=False)
    """(runs, names) of the fit."""
    means: np.ndarray = field(repr=False)
    """(draws, names)"""
    covariances: np.ndarray = field(repr=False)
    """(draws, names, names)"""

    @property
    def mean(self) -> np.ndarray:
        """(names,) its median."""
        return np.median(self.means, axis=0)

    @property
    def covariance(self) -> np.ndarray:
        """(names, names) medians, element by element."""
        return np.median(self.covariances, axis=0)

    @property
    def correlations(self) -> np.ndarray:
        """(draws, names, names)"""
        sd = np.sqrt(np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 1e-300))
        return self.covariances / (sd[:, :, None] * sd[:, None, :])

    def mean_interval(self, level: float = 0.95) -> np.ndarray:
        """(2, names): lower and upper end."""
        return np.quantile(self.means, _ends(level), axis=0)

    def covariance_interval(self, level: float = 0.95) -> np.ndarray:
        """(2, names, names), element by element."""
        return np.quantile(self.covariances, _ends(level), axis=0)

    def correlation_interval(self, level: float = 0.95) -> np.ndarray:
        return np.quantile(self.correlations, _ends(level), axis=0)

    def __str__(self) -> str:
        (low, high), spread = self.mean_interval(), np.sqrt(np.quantile(np.diagonal(self.covariances, axis1=1, axis2=2), [0.025, 0.5, 0.975], axis=0))
        lines = [f"{len(self.estimates)} runs; 95 % intervals"]
        for k, name in enumerate(self.names):
            lines.append(
                f"{name}: mean {self.mean[k]:.5g} ({low[k]:.5g} to {high[k]:.5g}), sd between runs {spread[1, k]:.3g} ({spread[0, k]:.3g} to {spread[2, k]:.3g})"
            )
        low, high = self.correlation_interval()
        for i, j in zip(*np.triu_indices(len(self.names), 1), strict=True):
            lines.append(f"{self.names[i]} and {self.names[j]}: correlation {np.median(self.correlations[:, i, j]):.2f} ({low[i, j]:.2f} to {high[i, j]:.2f})")
        return "\n".join(lines)


def _ends(level: float) -> list[float]:
    if not 0.0 < level < 1.0:
        raise CalibodyError(f"An interval of probability {level!r} was asked for; give a number between 0 and 1.")
    return [0.5 * (1.0 - level), 0.5 * (1.0 + level)]


def population(result: Result, names: Sequence[str] | None = None, *, seed: int = 0) -> Population:
    """Mean and covariance of `per_run` unknowns over the population that the runs were drawn from; `names` of some of them, without any all."""
    runs = [r.name for r in result.recordings]
    per_run = list(dict.fromkeys(path.rpartition("[")[0] for path in result.parameters if path.endswith("]")))
    chosen = per_run if names is None else [names] if isinstance(names, str) else list(names)
    for name in chosen:
        if name not in per_run:
            known = ", ".join(per_run) or "none"
            raise CalibodyError(f'"{name}" does not differ between runs; those with per_run = true are {known}.')
    _refuse(result, chosen, len(runs))
    order = {path: k for k, path in enumerate(result.parameters)}
    places = np.array([[order[f"{name}[{run}]"] for name in chosen] for run in runs])
    estimates = np.array([e.value for e in result.parameters.values()])[places]
    return drawn(tuple(chosen), estimates, result.covariance[np.ix_(places.ravel(), places.ravel())], seed)


def _refuse(result: Result, chosen: Sequence[str], runs: int) -> None:
    """A sentence where there is no population to speak of."""
    if not chosen:
        raise CalibodyError("No unknown of this fit differs between runs; give those that do per_run = true.")
    if not result.converged:
        raise CalibodyError(f"A fit that did not converge has no population: {result.status}")
    if runs < len(chosen) + 2:
        raise CalibodyError(f"{runs} runs are too few for mean and covariance of {len(chosen)} numbers; give {len(chosen) + 2} or more.")
    for path, e in result.parameters.items():
        if path.rpartition("[")[0] in chosen and e.sd is None:
            raise CalibodyError(f'"{path}" has no error bar, so it cannot be weighed; leave out its run, or hold what it trades against.')


def drawn(names: tuple[str, ...], estimates: np.ndarray, errors: np.ndarray, seed: int) -> Population:
    """From estimates (runs, names) and the covariance of their errors (all runs and names, names of a run together)."""
    rng, (R, d) = np.random.default_rng(seed), estimates.shape
    blocks = errors.reshape(R, d, R, d)
    own, all_ = np.einsum("rirj->ij", blocks) / R, blocks.sum(axis=(0, 2)) / R**2
    common = (R * all_ - own) / (R - 1)
    centre = estimates.mean(axis=0)
    scatter = (estimates - centre).T @ (estimates - centre)
    totals = _inverse_wishart(rng, scatter, R + d - 2)
    z = rng.standard_normal((DRAWS, d))
    means = centre + np.einsum("kij,kj->ki", np.linalg.cholesky(totals / R + _positive(common)), z)
    return Population(names, estimates, means, _positive(totals - (own - common)))


def _positive(S: np.ndarray) -> np.ndarray:
    """Symmetric matrices without what is negative of them."""
    mu, V = np.linalg.eigh(0.5 * (S + np.swapaxes(S, -1, -2)))
    return (V * np.maximum(mu, 0.0)[..., None, :]) @ np.swapaxes(V, -1, -2)


def _inverse_wishart(rng: np.random.Generator, scatter: np.ndarray, freedom: int) -> np.ndarray:
    """(draws, d, d), by Bartlett's decomposition of the Wishart matrices of their inverses."""
    d = len(scatter)
    A = np.tril(rng.standard_normal((DRAWS, d, d)), -1)
    A[:, np.arange(d), np.arange(d)] = np.sqrt(rng.chisquare(freedom - np.arange(d), (DRAWS, d)))
    X = np.linalg.solve(A, np.broadcast_to(np.linalg.cholesky(scatter).T, A.shape))
    return np.swapaxes(X, 1, 2) @ X
