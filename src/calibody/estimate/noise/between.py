"""Do runs agree whose motions have unmodelled forces?

Each run by itself has its estimates elsewhere: at the maximum of its own likelihood, a few steps from the joint one, e_r from it in the parameters that all runs share, with the curvature H_r there (parameters of its own, and its
noise sizes, eliminated). By chance e_r has the covariance

    V_r = D_r H_r^-1 D_r

D_r by how much more its forces scatter the estimates if they have a memory (`colour.py`). Neither Gauss-Newton's `T'T` nor slopes at the joint estimate will do: where noise dominates the accelerations `T'T` is many times the curvature, and
runs that are many standard deviations apart would seem to agree; and far from its maximum the likelihood of a run whose noise size is found is not even convex. Noise sizes are those of the run: runs of which one is shaken more
are no runs that disagree. With `W_r = V_r^-1`

    chi2 = sum e_r'W_r e_r - (sum W_r e_r)' (sum W_r)^-1 (sum W_r e_r)

has as many degrees of freedom as runs know parameters, less the parameters. Where the size of the forces is known from few of them it is Fisher's variable. Directions of which a run knows less than `KNOWS` of what all know are left out: it
says nothing there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibody.estimate.chi_square import fisher
from calibody.estimate.noise.bars import LEAST, MOST, coloured, freedoms
from calibody.estimate.noise.likelihood import Derivatives, Likelihood, Spot
from calibody.estimate.noise.maximise import maximise
from calibody.estimate.problem import Problem
from calibody.estimate.result import Agreed
from calibody.estimate.uncertainty import DISAGREE, Apart
from calibody.solve.threads import one_thread

KNOWS = 0.01
"""Share of what all runs know of a direction below which one of them knows nothing of it."""
STEPS = 25
"""Of a run by itself, from the joint estimate on: most take five."""
FOREVER = 1e6
"""Degrees of freedom that are as many as any."""


@dataclass(frozen=True)
class _Alone:
    """What one run has to say."""

    weight: np.ndarray
    """W_r, over the shared parameters."""
    pull: np.ndarray
    """W_r e_r"""
    rank: int
    freedom: float
    """With how many degrees of freedom its noise is known."""

    @property
    def chi2(self) -> float:
        return float(self.pull @ np.linalg.pinv(self.weight, hermitian=True) @ self.pull)


@one_thread
def between(function: Likelihood, spot: Spot, covariance: np.ndarray, open_: np.ndarray) -> Apart | None:
    """Whether the runs agree in the parameters `open_`, which the data determine, and by how much each moves the estimates; `covariance` of all of them as `bars.py` has it.
    None where that is not to be had: too many parameters, or a run that has no maximum nearby."""
    problem = spot.problem
    shared = np.flatnonzero(open_ & np.array([e.run is None for e in problem.entries]))
    if not len(shared) or function.p + function.n > MOST:
        return None
    sd = np.sqrt(np.diag(covariance)[shared])
    each = [_alone(function, spot, r, open_, shared, sd) for r in range(len(problem.runs))]
    runs = [one for one in each if one is not None]
    if len(runs) < len(each):
        return None
    whole, pulled = np.sum([run.weight for run in runs], axis=0), np.sum([run.pull for run in runs], axis=0)
    inverse = np.linalg.pinv(whole, hermitian=True)
    moves = np.zeros((len(runs), function.p))
    moves[:, shared] = [inverse @ (run.pull - run.weight @ inverse @ pulled) * sd for run in runs]
    dof = sum(run.rank for run in runs) - int(np.linalg.matrix_rank(whole, hermitian=True))
    if dof <= 0:
        return None
    expected = sum(run.rank * run.freedom / max(run.freedom - 2.0, 1.0) for run in runs) / sum(run.rank for run in runs)
    chi2 = max(sum(run.chi2 for run in runs) - float(pulled @ inverse @ pulled), 0.0) / expected
    probability = fisher(chi2 / dof, dof, sum(run.freedom for run in runs))
    return Apart(Agreed(probability >= DISAGREE, chi2, dof, probability), moves)


def _alone(function: Likelihood, spot: Spot, r: int, open_: np.ndarray, shared: np.ndarray, sd: np.ndarray) -> _Alone | None:
    """One run at its own maximum, in units of the joint standard deviations."""
    columns = spot.problem.columns[r]
    one = _single(function, spot.problem, r)
    found = maximise(one, one.at([spot.x[r]], spot.theta[columns], one.sizes(one.problem)), lambda _: None, STEPS)
    if found.status != "converged":
        return None
    at = found.spot
    here, eta = one.derivatives(at), np.concatenate([at.theta, at.sizes])
    free = (eta > one.lower) & (eta < one.upper) & np.append(open_[columns], ~one.vanished(here))
    inverse = _inverse(one, at, here, free)
    ours = np.isin(columns, shared)
    here_free = free[: one.p][ours]
    own, e = inverse[: one.p, : one.p][np.ix_(ours, ours)] / np.outer(sd, sd), (at.theta - spot.theta[columns])[ours] / sd
    mu, U = np.linalg.eigh(np.linalg.pinv(own[np.ix_(here_free, here_free)], hermitian=True))
    V, keep = np.zeros((len(shared), len(mu))), mu > KNOWS
    V[here_free] = U
    U, mu = V[:, keep], mu[keep]
    more = coloured(one, here, free[: one.p], inverse[: one.p, : one.p])[ours] / sd**2
    D = np.sqrt(np.maximum(1.0 + more / np.maximum(np.diag(own), 1e-300), 1.0))
    weight = np.linalg.inv(U.T @ (D[:, None] * ((U / mu) @ U.T) * D) @ U) if len(mu) else np.zeros((0, 0))
    known = freedoms(one, here, inverse)[: one.p][ours][here_free].min(initial=FOREVER)
    return _Alone(U @ weight @ U.T, U @ (weight @ (U.T @ e)), len(mu), float(known))


def _inverse(one: Likelihood, at: Spot, here: Derivatives, free: np.ndarray) -> np.ndarray:
    """The covariance of eta at the maximum, zero for what is not free."""
    W, H = one.curvature(at, here, free)
    size = np.sqrt(np.maximum(np.abs(np.diag(H)), 1e-300))
    mu, U = np.linalg.eigh(H / np.outer(size, size))
    mu = np.maximum(mu, LEAST * mu.max(initial=1e-300))  # what the run does not tell is known badly
    W = (W / size) @ U
    return (W / mu) @ W.T


def _single(function: Likelihood, problem: Problem, r: int) -> Likelihood:
    """The likelihood of one run, without what was known before."""
    alone = problem.singles[r]
    alone = replace(alone, entries=tuple(replace(e, prior=None) for e in alone.entries))
    (run,) = alone.runs
    return Likelihood(alone, [h for h in function.hypers if h.process or any(h.covers(run, d.channel.path) for d in run.data)])
