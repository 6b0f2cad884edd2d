"""Scores: how strongly data pull at numbers that a fit holds fixed, and how much such a pull scatters by chance.

At a solution with residuals F (samples, noise in units of sd) and `T` their response to a number, the states following, `T'F` is the slope of the cost. What
the estimated parameters cannot take up of it is that of `t = T - T_theta b`, `b = I_tt^-1 T_theta'T`:

    score s = t'F,     information i = t't,     one-step estimate -s/i,     shift of the parameters  b s/i,     chi2 = s^2/var(s)

var(s) = i for white residuals of the stated size. Real ones are neither: `long_run` estimates it from the sums `u_k` of `t_i e_i` over the residuals near node k
(e the residuals after the one-step estimate: what the number explains does not count as scatter). The larger of both is used. Smoothed residuals of
channels and of process noise are correlated with one another; their sums per node are not, which is why they are summed first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibody.estimate.problem import Problem
from calibody.estimate.uncertainty import autocorrelation, flat_top
from calibody.solve.condensed import Linearisation, Step

NOTHING_NEW = 1e-6
"""Share of its information that a number must keep beside the estimated ones to count as something else."""


def node_of_rows(problem: Problem, count: int) -> np.ndarray:
    """(rows of F,) the node each residual belongs to, runs one after the other; -1 for priors."""
    samples = sum(run.samples + run.layout.priors for run in problem.runs)
    out, first = [np.full(count - samples, -1, dtype=np.int64)], 0
    for run in problem.runs:
        near = [np.clip(np.round((d.times - run.times[0]) / run.h), 0, run.K - 1) for d in run.data]
        near += [np.clip(np.round(np.repeat(b.when, b.width)), 0, run.K - 1) for b in run.layout.held]
        out += [first + x.astype(np.int64) for x in near]
        first += run.K
    return np.concatenate(out)


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


def pulls(problem: Problem, lin: Linearisation, taken: Step, parameters: int, free: np.ndarray, volume: np.ndarray | float = 0.0) -> list[Pull | None]:
    """Of every column after the first `parameters` ones; None where it is nothing new beside them.

    `free` marks the parameters that may move; `volume` is the slope of the likelihood's volume with respect to all columns (process noise).
    """
    T = lin.Ft + lin.Fx @ taken.response[: taken.factor.n]
    theta, nodes = T[:, :parameters][:, free], node_of_rows(problem, len(lin.F))
    own = np.linalg.norm(theta, axis=0)
    basis, kept = _orthonormal(theta / np.where(own > 0.0, own, 1.0))
    slope = np.broadcast_to(np.asarray(volume, dtype=float), (T.shape[1],))
    out: list[Pull | None] = []
    for c in range(parameters, T.shape[1]):
        whole = T[:, c]
        t = whole - basis @ (basis.T @ whole)
        i, total = float(t @ t), float(whole @ whole)
        if total == 0.0 or i < NOTHING_NEW * total:
            out.append(None)
            continue
        b = (kept @ (basis.T @ whole)) / np.where(own > 0.0, own, 1.0)
        s = float(t @ lin.F) + float(slope[c] - slope[:parameters][free] @ b)
        u = np.bincount(nodes[nodes >= 0], (t * (lin.F - t * (s / i)))[nodes >= 0])
        variance = max(i, long_run(u - u.mean()))
        shift = np.zeros(parameters)
        shift[free] = b * (s / i)
        out.append(Pull(-s / i, float(np.sqrt(variance)) / i, s**2 / variance, shift))
    return out


def _orthonormal(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A basis of the columns of A, and how its coefficients become those of the columns."""
    if not A.shape[1]:
        return A, np.zeros((0, 0))
    U, size, Vt = np.linalg.svd(A, full_matrices=False)
    good = size > 1e-8 * size[0]
    return U[:, good], Vt[good].T / size[good]


def extended(lin: Linearisation, columns: Sequence[np.ndarray]) -> Linearisation:
    """With further columns of the equations, whose numbers no sample shows directly."""
    from dataclasses import replace

    more = np.column_stack(columns)
    return replace(lin, Ft=np.hstack([lin.Ft, np.zeros((len(lin.F), more.shape[1]))]), Ct=np.hstack([lin.Ct, more]))
