"""Motion from observed places alone, with its covariance: no forces, no masses.

Nodes q of a fit's mesh follow the observations o(q) with their noise, and their third derivatives are white, of a size s_j that is each coordinate's own:

    minimise  1/2 sum |(o(q) - y)/sd|^2  +  1/2 sum_j h^-5/s_j^2 sum_k (q_(k+3) - 3 q_(k+2) + 3 q_(k+1) - q_k)_j^2        (accelerations are a random walk)

in the coordinates u that are free; those that couplings tie follow, `dq = T du`. The matrix is banded in the order of nodes. Sizes are those of the greatest marginal likelihood, found by the fixed point

    s_j^2 = h^-5 sum_k (D3 q_j)_k^2 / (n - tr(D3'D3 K^-1_jj) h^-5/s_j^2)                 [mackay1992]

whose trace is estimated from random signs. Masses do not enter, so what is inferred about them from this motion owes nothing to what forces were taken to be (`weighing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_solve_banded, cholesky_banded

from calibody.errors import CalibodyError
from calibody.estimate.layout import BALANCE, CONSTRAINTS, NODES, States
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.mechanics.structure import TREE
from calibody.model.elements import COUPLING, CURVE
from calibody.solve.condensed import Sparse

THIRD = (-1.0, 3.0, -3.0, 1.0)
ROUNDS, SAME = 40, 0.02
"""Most rounds in which sizes are found, and the relative change of all of them that ends it."""
LINEARISED = 4
"""Rounds at whose beginning observations are linearised anew: from the motion of a fit they are straight over what is left."""
STILL = 1e-2
"""Least size, of that in the motion that it begins with: what does not move at all has none, and the matrix no digits left."""
PROBES = 24
"""Vectors of random signs that a trace is the mean of: known to a few per cent, which sizes do not feel."""


@dataclass(frozen=True, eq=False)
class Smoothed:
    """The motion of one run, and how well its nodes are known."""

    states: States
    tangents: Sparse
    """(tangents of all nodes, free ones): T."""
    factor: np.ndarray
    """Cholesky's, banded, of the free tangents' information."""
    rough: np.ndarray
    """(free coordinates,) s_j"""

    def covered(self, rows: Sparse) -> np.ndarray:
        """K^-1 H' of rows H (rows, free tangents)."""
        return cho_solve_banded((self.factor, True), rows.T.toarray(), check_finite=False)


def smoothed(problem: Problem, r: int, states: States, theta: np.ndarray) -> Smoothed:
    """From a motion of the run that is near."""
    run = problem.runs[r]
    free, tied = _free(run)
    K, n = run.K, len(free)
    random, D = np.random.default_rng(0), sp.diags(list(THIRD), [0, 1, 2, 3], shape=(K - 3, K), format="csr") * run.h**-2.5  # type: ignore[arg-type]
    bends = (D.T @ D).tocsr()
    q = states.q.copy()
    rough = np.maximum(np.sqrt(np.mean((D @ q[free].T) ** 2, axis=0)), 1e-9)
    least = STILL * rough
    signs = random.choice([-1.0, 1.0], size=(K, n, PROBES))
    T, J, F, q = _observed(problem, r, states, theta, free, tied)
    for number in range(ROUNDS):
        if 0 < number < LINEARISED:
            T, J, F, q = _observed(problem, r, states.changed(nodes=q), theta, free, tied)
        bent, factor = _factored(J, bends, rough)
        d = -cho_solve_banded((factor, True), J.T @ F + bent @ q[free].T.ravel(), check_finite=False)
        q, F = q + (T @ d).reshape(K, -1).T, F + J @ d
        z = cho_solve_banded((factor, True), signs.reshape(K * n, PROBES), check_finite=False).reshape(K, n, PROBES)
        told = np.einsum("kjp,kjp->j", signs, (bends @ z.reshape(K, -1)).reshape(z.shape)) / PROBES / rough**2
        new = np.maximum(np.sqrt(np.sum((D @ q[free].T) ** 2, axis=0) / np.maximum((K - 3) - told, 1.0)), least)
        change = float(np.max(np.abs(np.log(new / rough))))
        rough = new
        if number >= LINEARISED and change < SAME:
            break
    return Smoothed(states.changed(nodes=q), T, _factored(J, bends, rough)[1], rough)


def _factored(J: Sparse, bends: Sparse, rough: np.ndarray) -> tuple[Sparse, np.ndarray]:
    """The weight of third differences of all free tangents, and Cholesky's factor of this and the observations' information."""
    bent = sp.kron(bends, sp.diags(rough**-2.0), format="csr")
    return bent, cholesky_banded(_lower(J.T @ J + bent, 4 * len(rough)), lower=True, check_finite=False)


def _free(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Which coordinates are free, and which are tied to them."""
    s = run.structure
    if s.coordinates != TREE or s.nv != s.nq or any(loop.kind not in (COUPLING, CURVE) for loop in s.model.loops):
        raise CalibodyError(
            "Segments are weighed where all joints are hinges and slides, and loops are couplings of these; this model has others: give its free joint as three slides and three hinges."
        )
    where = {unit.joint.name: int(s.v_start[k]) for k, unit in enumerate(s.units) if unit.joint is not None and s.v_start[k + 1] > s.v_start[k]}
    tied = np.array([where[loop.joint1] for loop in s.model.loops], dtype=np.int64)
    return np.setdiff1d(np.arange(s.nv), tied), tied


def _observed(problem: Problem, r: int, states: States, theta: np.ndarray, free: np.ndarray, tied: np.ndarray) -> tuple[Sparse, Sparse, np.ndarray, np.ndarray]:
    """T, derivatives of the observations by the free tangents, what they are off by, and the coordinates with couplings closed."""
    run = problem.runs[r]
    K, nv = run.K, run.structure.nv
    part = problem.linearised(r, states, theta, parameters=False).part
    nodes, q = run.layout.place[NODES], states.q.copy()
    rows = np.arange(len(part.F) - run.layout.priors - run.samples, len(part.F) - run.layout.priors)
    T = _columns(K, nv, free, np.ones((K, len(free))))
    moved = np.zeros(K * nv)
    if len(tied):
        G = part.Cx[run.layout.row_place[CONSTRAINTS]][:, nodes].toarray().reshape(run.kept, K, K, nv)[:, np.arange(K), np.arange(K)].swapaxes(0, 1)
        off = part.C[run.layout.row_place[CONSTRAINTS]].reshape(run.kept, K).T
        follows = -np.linalg.solve(G[:, :, tied], np.concatenate([G[:, :, free], off[:, :, None]], axis=2))
        T = T + _blocks(K, nv, tied, follows[:, :, :-1])
        moved.reshape(K, nv)[:, tied] = follows[:, :, -1]
        q = q + moved.reshape(K, nv).T
    J = part.Fx[rows][:, nodes]
    return T.tocsr(), (J @ T).tocsr(), part.F[rows] + J @ moved, q


def _columns(K: int, nv: int, free: np.ndarray, values: np.ndarray) -> Sparse:
    node, j = np.divmod(np.arange(K * len(free)), len(free))
    return sp.csr_matrix((values.ravel(), (node * nv + free[j], np.arange(K * len(free)))), shape=(K * nv, K * len(free)))


def _blocks(K: int, nv: int, tied: np.ndarray, follows: np.ndarray) -> Sparse:
    """(K, tied, free) as a matrix of all nodes."""
    _, t, n = follows.shape
    node, i, j = (x.ravel() for x in np.meshgrid(np.arange(K), np.arange(t), np.arange(n), indexing="ij"))
    return sp.csr_matrix((follows.ravel(), (node * nv + tied[i], node * n + j)), shape=(K * nv, K * n))


def _lower(matrix: Sparse, half: int) -> np.ndarray:
    """The lower band of a symmetric matrix."""
    coo = matrix.tocoo()
    away = coo.row - coo.col
    if away.max(initial=0) > half:
        raise CalibodyError(
            "An observation depends on nodes that are far apart, which the smoothing of markers does not know; leave out what is delayed or filtered."
        )
    band, mine = np.zeros((half + 1, matrix.shape[0])), away >= 0
    np.add.at(band, (away[mine], coo.col[mine]), coo.data[mine])
    return band


def balances(run: Run, dofs: Sequence[int]) -> np.ndarray:
    """The rows of the equations that are the balances of some coordinates at the inner nodes."""
    return (run.layout.row_place[BALANCE].start + np.arange(run.inner)[:, None] * run.structure.nv + np.array(dofs)).ravel()
