"""Whether forces that a model lacks are slow: a test of every joint.

Forces `cos(pi m (k + 1/2)/M)`, m = 0 .. 19, on a joint are 20 more parameters, at zero. With Tc their response and F the residuals, both without what T of the parameters explains, `Tc'F` has the
covariance `Tc'Tc` if the forces are white, smoothing or not, and its square in these units is chi-square. (Ljung-Box on smoothed forces always rejects.) Neither bar sees a bias: where this test fails, something slow is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from calibody.estimate.chi_square import exceeded
from calibody.estimate.layout import States
from calibody.estimate.problem import Problem
from calibody.estimate.result import ForceTest
from calibody.mechanics import assembly
from calibody.mechanics.plan import plan_of
from calibody.solve.condensed import Linearisation, Refined, Runs, Sparse, Together

MODES = 20
ALONE = 10
"""Runs up to which each may have slow forces of its own; beyond, their modes would outgrow the data."""
KNOWN = 1e-2
"""Share of the largest information below which a mode counts as none (what the parameters do themselves)."""


def slow_forces(
    problem: Problem, x: Sequence[States], theta: np.ndarray, lin: Linearisation | Runs, factor: Refined | Together, T: np.ndarray
) -> dict[str, ForceTest]:
    """The test of every disturbed joint, all runs together; `lin` and its factor are the states' at this point, T how the residuals follow the parameters that may move."""
    Q, _ = np.linalg.qr(T / np.maximum(np.linalg.norm(T, axis=0), 1e-300)) if T.shape[1] else (T, None)
    out = {}
    for joint in dict.fromkeys(joint for joint, _ in problem.runs[0].disturbed):
        columns = _waves(problem, x, theta, joint)
        response = -factor.solve(np.vstack([np.zeros((factor.n, columns.shape[1])), columns]))
        moved = lin.Fx @ response[: factor.n]
        moved = moved - Q @ (Q.T @ moved)
        mu, V = np.linalg.eigh(moved.T @ moved)
        good = mu > KNOWN * max(float(mu.max(initial=0.0)), 1e-300)
        chi2, dof = float((((V.T @ (moved.T @ lin.F))[good]) ** 2 / mu[good]).sum()), int(good.sum())
        out[joint] = ForceTest(exceeded(dof, chi2) if dof else 1.0, chi2, dof)
    return out


def _waves(problem: Problem, x: Sequence[States], theta: np.ndarray, joint: str) -> np.ndarray:
    """(equations, modes): slow forces on a joint, in units of the sd of its unmodelled force; of every run and velocity on its own, of more than `ALONE` runs together."""
    out = []
    for r, (run, states) in enumerate(zip(problem.runs, x, strict=True)):
        waves = np.cos(np.pi * (np.arange(run.inner)[:, None] + 0.5) * np.arange(min(MODES, run.inner)) / run.inner)
        for k, (name, _) in enumerate(run.disturbed):
            if name == joint:
                forces = -run.process_sd()[k] * (acting(problem, r, states, theta, k) @ waves)
                above, below = (sum(other.layout.rows for other in others) for others in (problem.runs[:r], problem.runs[r + 1 :]))
                out.append(np.vstack([np.zeros((above, waves.shape[1])), forces, np.zeros((below, waves.shape[1]))]))
    if len(problem.runs) <= ALONE:
        return np.hstack(out)
    fewest = min(columns.shape[1] for columns in out)
    return np.sum([columns[:, :fewest] for columns in out], axis=0)


def acting(problem: Problem, r: int, states: States, theta: np.ndarray, number: int) -> Sparse:
    """(equations of a run, inner nodes): what a unit force in place of the unmodelled one of that number does."""
    run = problem.runs[r]
    model, numbers, _ = problem.model_of(r, theta)
    _, frames = problem.framed(r, states, model, numbers)
    dofs, acts = assembly.acting(plan_of(run.structure), frames, run.disturbed[number][1])
    m = np.arange(run.inner)
    rows, nodes = m[None, :] * run.structure.nv + dofs[:, None], np.broadcast_to(m, (len(dofs), run.inner))
    return sp.csr_matrix((acts[:, 1:-1].ravel(), (rows.ravel(), nodes.ravel())), shape=(run.layout.rows, run.inner))
