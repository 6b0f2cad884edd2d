"""Error bars of `method = "shadow"`: linear propagation of the residuals' own scatter ([marklund2025], section 3.7, with degrees of freedom).

With weighted residuals F and `T = Ft + Fx dx/dtheta` (the states being free) the estimate follows the noise as `-(T'T)^-1 T'e`, so

    cov = (T'T)^-1 T' C T (T'T)^-1,     C = blockdiag(Omega, R)

Omega (2 nv x 2 nv) is the covariance of a step's impulses and R that of each channel, estimated from the residuals over their degrees of freedom: their
number less the trace of their block of the hat matrix `J (J'J)^-1 J'`. (The paper divides by the number, and its bars are too small: those stand
beside ours as `sd_naive`.) The traces are estimated with random signs [hutchinson1990], whose error for so many residuals is below a percent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibody.errors import NumericalError
from calibody.estimate import identifiability
from calibody.estimate.regularised.shadow_problem import ShadowProblem, States
from calibody.estimate.reported import reported
from calibody.estimate.uncertainty import Uncertainty, in_reported, whiteness
from calibody.solve.chain import Chain
from calibody.solve.condensed import Step, step
from calibody.solve.threads import one_thread

PROBES = 16
"""Random vectors for the traces."""
ROUGH = 1e-3
"""Relative residual of the linear solutions for the traces."""


@one_thread
def assess(problem: ShadowProblem, x: Sequence[States], theta: np.ndarray) -> Uncertainty:
    lin = problem.linearise(x, theta)
    taken = _step(problem, lin, theta)
    at_bound = (theta <= problem.lower) | (theta >= problem.upper)
    T = lin.Ft + lin.Fx @ taken.response[: taken.factor.n]
    groups = _groups(problem, lin)
    free = np.flatnonzero(~at_bound)
    traces = _traces(lin, taken, free, groups)
    chi2 = float(lin.F @ lin.F)
    count, used = len(lin.F), float(sum(traces))
    factor = chi2 / max(count - used, 1.0)
    analysis = identifiability.analyse(np.asarray(taken.information), [e.name for e in problem.entries], theta, problem.scale, at_bound, factor)
    inverse = analysis.covariance / factor
    covariance, printed = (inverse @ _middle(lin, T, groups, shares) @ inverse for shares in (traces, [0.0] * len(traces)))
    white, observed, lost = {}, 0.0, 0.0
    for (r, channel, rows), trace in zip(groups, traces, strict=True):
        if channel is not None:
            white[r, channel] = whiteness(lin.F[rows])
            observed += float(lin.F[rows] @ lin.F[rows])
            lost += trace
    dof = round(sum(len(lin.F[rows]) for _, channel, rows in groups if channel is not None) - lost)
    found = Uncertainty(
        reported=reported(problem.entries, theta),
        analysis=analysis,
        at_bound=at_bound,
        sd=0.0 * theta,
        sd_naive=0.0 * theta,
        covariance=covariance,
        chi2=observed,
        dof=max(dof, 1),
        white=white,
        agreement=None,
        robust=False,
        covariance_theta=covariance,
        factor=factor,
        step=taken,
    )
    return in_reported(problem.entries, theta, problem.scale, found, printed)


def _step(problem: ShadowProblem, lin: Chain, theta: np.ndarray) -> Step:
    """Undamped; with as little damping as it takes where stiff constraints make the matrix indefinite to rounding."""
    for damping in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):
        try:
            return step(lin, theta, problem.lower, problem.upper, 0.0 * theta, problem.scale, states=damping * lin.diagonal)
        except NumericalError:
            continue
    return step(lin, theta, problem.lower, problem.upper, 0.0 * theta, problem.scale, states=1e-6 * lin.diagonal)


def _groups(problem: ShadowProblem, lin: Chain) -> list[tuple[int, str | None, slice]]:
    """(run, channel or None for impulses, rows of F); priors belong to none."""
    out, first = [], len(lin.loose) - sum(run.samples for run in problem.runs)
    for r, run in enumerate(problem.runs):
        for d in run.data:
            out.append((r, d.channel.path, slice(first, first + len(d.y))))
            first += len(d.y)
    per_state = lin.residuals.value.shape[1]
    for r, run in enumerate(problem.runs):
        out.append((r, None, slice(first, first + per_state * run.K)))
        first += per_state * run.K
    return out


def _middle(lin: Chain, T: np.ndarray, groups: Sequence[tuple[int, str | None, slice]], traces: Sequence[float]) -> np.ndarray:
    """T' C T; the priors count as they were stated."""
    used = np.zeros(len(lin.F), dtype=bool)
    middle = np.zeros((T.shape[1], T.shape[1]))
    per_state = lin.residuals.value.shape[1]
    for (_, channel, rows), trace in zip(groups, traces, strict=True):
        used[rows] = True
        e, t = lin.F[rows], T[rows]
        kept = max(1.0 - trace / max(len(e), 1), 1e-3)
        if channel is not None:
            middle += float(e @ e) / (len(e) * kept) * (t.T @ t)
            continue
        e = e.reshape(-1, per_state)
        t = t.reshape(len(e), per_state, T.shape[1])
        omega = e.T @ e / (len(e) * kept)
        middle += np.einsum("kip,ij,kjq->pq", t, omega, t, optimize=True)
    return middle + T[~used].T @ T[~used]


def _traces(lin: Chain, taken: Step, free: np.ndarray, groups: Sequence[tuple[int, str | None, slice]]) -> list[float]:
    """Of every group's block of the hat matrix."""
    random = np.random.default_rng(0)
    information = np.asarray(taken.information)[np.ix_(free, free)]
    scale = 1.0 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    inverse = scale[:, None] * np.linalg.pinv(information * scale[:, None] * scale[None, :], rcond=1e-10, hermitian=True) * scale[None, :]
    response, equations = taken.response[:, free], len(lin.C)
    signs = random.choice([-1.0, 1.0], size=(len(lin.F), PROBES))
    by_state = np.concatenate([lin.Fx.T @ signs, np.zeros((equations, PROBES))])
    moved = inverse @ (lin.Ft[:, free].T @ signs + response.T @ by_state)
    states = taken.factor.solve(by_state, ROUGH) + response @ moved
    hat = signs * (lin.Fx @ states[: taken.factor.n] + lin.Ft[:, free] @ moved)
    return [float(hat[rows].sum()) / PROBES for _, _, rows in groups]
