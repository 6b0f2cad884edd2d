"""Chains of states against dense linear algebra, and Levenberg-Marquardt on one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.solve import levenberg_marquardt
from calibody.solve.chain import Chain, Rows
from calibody.solve.condensed import Linearisation, step
from calibody.solve.gauss_newton import AbstractProblem


def random_chain(equations: int, inner: int, seed: int = 0) -> Chain:
    random, K, n, p = np.random.default_rng(seed), 7, 5, 3

    def rows(r: int) -> Rows:
        before = random.normal(size=(K, r, n))
        before[0] = 0.0
        before[:, :, n - inner :] = 0.0
        return Rows(random.normal(size=(K, r)), before, random.normal(size=(K, r, n)), random.normal(size=(K, r, p)))

    loose = np.zeros((4, K * n))
    for i in range(4):
        loose[i, [i * n, i * n + 1, (i + 1) * n]] = random.normal(size=3)
    return Chain(rows(n + 1), rows(equations), random.normal(size=4), sp.csr_matrix(loose), random.normal(size=(4, p)), inner)


def dense(rows: Rows) -> np.ndarray:
    K, r, n = rows.after.shape
    out = np.zeros((K, r, K, n))
    for k in range(K):
        out[k, :, k] = rows.after[k]
        if k:
            out[k, :, k - 1] = rows.before[k]
    return out.reshape(K * r, K * n)


@pytest.mark.parametrize(("equations", "inner"), [(0, 0), (0, 2), (2, 0), (2, 2), (1, 3)])
def test_a_step_is_that_of_the_sparse_solver(equations: int, inner: int) -> None:
    chain = random_chain(equations, inner)
    Fx = np.concatenate([chain.loose_x.toarray(), dense(chain.residuals)])
    assert chain.Fx.shape == Fx.shape and chain.Fx.T.shape == Fx.T.shape
    assert np.allclose(chain.Fx @ np.eye(Fx.shape[1]), Fx) and np.allclose(chain.Fx.T @ np.eye(len(Fx)), Fx.T)
    Cx = dense(chain.equations) if equations else np.zeros((0, Fx.shape[1]))
    lin = Linearisation(chain.F, sp.csr_matrix(Fx), chain.Ft, chain.C, sp.csr_matrix(Cx), chain.Ct)
    theta, bounds = np.zeros(3), np.array([0.05, np.inf, np.inf])
    for states in (0.0, 0.3):
        a, b = (step(x, theta, -bounds, bounds, np.zeros(3), np.ones(3), states=states) for x in (chain, lin))
        for name in ("states", "multipliers", "parameters", "information", "response"):
            assert np.allclose(getattr(a, name), getattr(b, name), rtol=1e-8, atol=1e-9), name


@pytest.mark.parametrize(("equations", "inner"), [(0, 0), (0, 2), (2, 0), (2, 2), (1, 3)])
def test_its_determinant_is_that_of_the_dense_matrix(equations: int, inner: int) -> None:
    chain = random_chain(equations, inner)
    Fx = np.concatenate([chain.loose_x.toarray(), dense(chain.residuals)])
    Cx = dense(chain.equations) if equations else np.zeros((0, Fx.shape[1]))
    for damping in (0.0, 0.3):
        K = np.block([[Fx.T @ Fx + damping * np.eye(Fx.shape[1]), Cx.T], [Cx, np.zeros((len(Cx), len(Cx)))]])
        assert chain.factor(damping).log_determinant == pytest.approx(np.linalg.slogdet(K)[1], rel=1e-10)


def test_residuals_over_more_than_two_states_are_refused() -> None:
    chain = random_chain(0, 0)
    far = chain.loose_x.tolil()
    far[0, 0] = far[0, 20] = 1.0
    with pytest.raises(CalibodyError, match="not neighbours"):
        Chain(chain.residuals, chain.equations, chain.loose, far.tocsr(), chain.loose_theta, 0).factor()


class Decay(AbstractProblem):
    """`x_(k+1) = a x_k^2 + b x_k` along a chain, observed: theta = (a, b); b bounded."""

    def __init__(self, upper: float = np.inf) -> None:
        x = [0.9]
        for _ in range(60):
            x.append(-0.3 * x[-1] ** 2 + 0.98 * x[-1])
        self.y = np.array(x) + 1e-3 * np.random.default_rng(2).normal(size=61)
        self.lower, self.upper, self.scale = np.array([-np.inf, -np.inf]), np.array([np.inf, upper]), np.ones(2)

    def linearise(self, x: np.ndarray, theta: np.ndarray) -> Chain:
        K, w = len(x), 1e5
        value, before, after, by = np.zeros((K, 1)), np.zeros((K, 1, 1)), np.zeros((K, 1, 1)), np.zeros((K, 1, 2))
        value[1:, 0] = w * (x[1:] - theta[0] * x[:-1] ** 2 - theta[1] * x[:-1])
        before[1:, 0, 0] = -w * (2.0 * theta[0] * x[:-1] + theta[1])
        after[1:, 0, 0] = w
        by[1:, 0] = -w * np.stack([x[:-1] ** 2, x[:-1]], axis=1)
        none = Rows(np.zeros((K, 0)), np.zeros((K, 0, 1)), np.zeros((K, 0, 1)), np.zeros((K, 0, 2)))
        return Chain(Rows(value, before, after, by), none, (x - self.y) / 1e-3, sp.eye(K, format="csr") * 1e3, np.zeros((K, 2)), 0)

    def values(self, x: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lin = self.linearise(x, theta)
        return lin.F, lin.C

    def move(self, x: np.ndarray, d: np.ndarray) -> np.ndarray:
        return x + d


@pytest.mark.parametrize("plain", [False, True])
def test_levenberg_marquardt_finds_the_law(plain: bool) -> None:
    problem = Decay()
    found = levenberg_marquardt.minimise(problem, problem.y.copy(), np.array([0.5, 0.2]), levenberg_marquardt.Settings(plain=plain, iterations=60))
    assert found.converged
    sd = np.sqrt(np.diag(np.linalg.inv(found.last.information)))  # type: ignore[union-attr]
    assert np.all(np.abs(found.theta - [-0.3, 0.98]) < 4.0 * sd)
    costs = [it.cost for it in found.history]
    assert all(b <= a for a, b in itertools.pairwise(costs))
    if not plain:
        assert len(costs) <= 8


def test_levenberg_marquardt_keeps_to_bounds() -> None:
    problem = Decay(upper=0.9)
    found = levenberg_marquardt.minimise(problem, problem.y.copy(), np.array([0.5, 0.2]))
    assert found.converged and found.theta[1] == 0.9
