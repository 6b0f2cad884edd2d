"""Scores: how strongly data pull at numbers that a fit holds fixed, and how much such a pull scatters by chance.

At a solution with residuals F (samples, noise in units of sd) and `T` their response to a number, the states following, `T'F` is the slope of the cost. What
the estimated parameters cannot take up of it is that of `t = T - T_theta b`, `b = I_tt^-1 T_theta'T`:

    score s = t'F,     information i = t't,     one-step estimate -s/i,     shift of the parameters  b s/i,     chi2 = s^2/var(s)

var(s) = i for white residuals of the stated size. Real ones are neither: `long_run` estimates it from the sums `u_k` of `t_i e_i` over the residuals near node k
(e the residuals after the one-step estimate: what the number explains does not count as scatter). The larger of both is used. Smoothed residuals of
channels and of process noise are correlated with one another; their sums per node are not, which is why they are summed first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.estimate.uncertainty import autocorrelation, flat_top
from calibody.solve.arrow import own_parameters
from calibody.solve.condensed import Runs, Step

NOTHING_NEW = 1e-6
"""Share of its information that a number must keep beside the estimated ones to count as something else."""


def nodes_of_rows(run: Run) -> np.ndarray:
    """(rows of a run's F,) the node each residual belongs to."""
    near = [np.clip(np.round((d.times - run.times[0]) / run.h), 0, run.K - 1) for d in run.data]
    near += [np.clip(np.round(np.repeat(b.when, b.width)), 0, run.K - 1) for b in run.layout.held]
    return np.concatenate(near).astype(np.int64)


def long_run(u: np.ndarray) -> float:
    """Variance of the sum of a stationary series: all its autocovariances under a flat-top window, or under Bartlett's of three times its width if that
    is larger (the flat top can come out too small, even negative, where correlations are slow)."""
    n = len(u)
    r = n * autocorrelation(u)
    if r[0] <= 0.0:
        return 0.0
    weighted = flat_top(r)
    end = int(np.flatnonzero(weighted).max(initial=0)) // 2 + 1
    width = min(3 * end, n - 1)
    bartlett = r[: width + 1] * (1.0 - np.arange(width + 1) / (width + 1))
    return float(max(r[0] + 2.0 * weighted[1:].sum(), r[0] + 2.0 * bartlett[1:].sum()))


@dataclass(frozen=True)
class Pull:
    """What the data say of one number that was held."""

    change: float
    """One-step estimate of how far it is from where it was held."""
    sd: float
    chi2: float
    shift: np.ndarray
    """How the parameters would move with it."""


def pulls(problem: Problem, lin: Runs, taken: Step, parameters: int, free: np.ndarray, volume: np.ndarray | float = 0.0) -> list[Pull | None]:
    """Of every column after the first `parameters` ones; None where it is nothing new beside them.

    `free` marks the parameters that may move; `volume` is the slope of the likelihood's volume with respect to all columns (process noise). The own
    parameters of a run are taken up first, run by run.
    """
    slope = np.broadcast_to(np.asarray(volume, dtype=float), (lin.parameters,))
    movable = np.append(free, np.zeros(lin.parameters - parameters, dtype=bool))
    alone = own_parameters(lin.parameters, lin.columns, lin.loose_theta)
    common, suspects = np.flatnonzero(movable & ~alone), np.arange(parameters, lin.parameters)
    reduced = [_reduced(problem, lin, taken, r, alone & movable, common, suspects) for r in range(len(lin.parts))]
    among = lin.loose_theta[:, np.concatenate([common, suspects])].toarray()
    T, F = np.concatenate([among, *(x.T for x in reduced)]), np.concatenate([lin.loose, *(x.F for x in reduced)])
    nodes = np.concatenate([np.full(len(among), -1), *(x.nodes for x in reduced)])
    theta = T[:, : len(common)]
    own = np.linalg.norm(theta, axis=0)
    basis, kept = _orthonormal(theta / np.where(own > 0.0, own, 1.0))
    out: list[Pull | None] = []
    for c in range(len(suspects)):
        whole, total = T[:, len(common) + c], sum(x.size[c] for x in reduced)
        t = whole - basis @ (basis.T @ whole)
        i = float(t @ t)
        if total == 0.0 or i < NOTHING_NEW * total:
            out.append(None)
            continue
        b = np.zeros(parameters)
        b[common] = (kept @ (basis.T @ whole)) / np.where(own > 0.0, own, 1.0)
        for x in reduced:
            b[x.own] = x.taken_up[:, len(common) + c] - x.taken_up[:, : len(common)] @ b[common]
        s = float(t @ F) + float(slope[suspects[c]] - slope[:parameters] @ b)
        u = np.bincount(nodes[nodes >= 0], (t * (F - t * (s / i)))[nodes >= 0])
        variance = max(i, long_run(u - u.mean()))
        out.append(Pull(-s / i, float(np.sqrt(variance)) / i, s**2 / variance, b * (s / i)))
    return out


@dataclass(frozen=True)
class _Reduced:
    """How the residuals of a run follow common parameters and suspects, beside its own parameters."""

    T: np.ndarray
    F: np.ndarray
    nodes: np.ndarray
    """Counted through all runs; -1 for priors of its own parameters."""
    own: np.ndarray
    taken_up: np.ndarray
    """(own parameters, columns): what these take up."""
    size: np.ndarray
    """Of every suspect: its information before anything is taken up."""


def _reduced(problem: Problem, lin: Runs, taken: Step, r: int, alone: np.ndarray, common: np.ndarray, suspects: np.ndarray) -> _Reduced:
    part, e, columns = lin.parts[r], taken.runs[r], lin.columns[r]
    T = part.Ft + part.Fx @ e.response[: e.factor.n]
    at = columns[alone[columns]]
    held = lin.loose_theta[:, at]
    prior = np.flatnonzero(np.diff(held.indptr))
    mine = np.concatenate([T[:, alone[columns]], held[prior].toarray()])
    rest = np.concatenate([T[:, np.searchsorted(columns, np.concatenate([common, suspects]))], np.zeros((len(prior), len(common) + len(suspects)))])
    own = np.linalg.norm(mine, axis=0)
    basis, kept = _orthonormal(mine / np.where(own > 0.0, own, 1.0))
    taken_up = (kept @ (basis.T @ rest)) / np.where(own > 0.0, own, 1.0)[:, None]
    size = (rest[:, len(common) :] ** 2).sum(axis=0)
    nodes = np.append(nodes_of_rows(problem.runs[r]) + sum(run.K for run in problem.runs[:r]), np.full(len(prior), -1))
    return _Reduced(rest - basis @ (basis.T @ rest), np.append(part.F, lin.loose[prior]), nodes, at, taken_up, size)


def _orthonormal(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A basis of the columns of A, and how its coefficients become those of the columns."""
    if not A.shape[1]:
        return A, np.zeros((0, 0))
    U, size, Vt = np.linalg.svd(A, full_matrices=False)
    good = size > 1e-8 * size[0]
    return U[:, good], Vt[good].T / size[good]
