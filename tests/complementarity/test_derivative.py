"""The active-set derivative against central differences, forward and reverse, and the diagnostic where it has none."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from friction_problems import random_kinds, random_problem

from calibody.complementarity import derivative, lcp

STEP = 1e-6
SOLVE, Z = jax.jit(lcp.solve), jax.jit(derivative.lcp_solution)


@jax.jit
def along(M: jax.Array, q: jax.Array, M_dot: jax.Array, q_dot: jax.Array) -> tuple:
    return jax.jvp(derivative.lcp_solution, (M, q), (M_dot, q_dot))


@jax.jit
def weighted_gradient(M: jax.Array, q: jax.Array, weight: jax.Array) -> tuple:
    return jax.grad(lambda M, q: jnp.dot(weight, derivative.lcp_solution(M, q)), argnums=(0, 1))(M, q)


def strict_problem(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A friction problem whose indices all stay put within the step of a central difference."""
    rng = np.random.default_rng(seed)
    while True:
        M, q = random_problem(random_kinds(rows, rng), rng, softness=1e-2)
        q = q + 0.05 * (np.diagonal(M) == 0.0)  # limits above zero
        solution = SOLVE(M, q)
        if int(solution.status) == lcp.SOLVED and float(solution.margin) > 1e-3 and np.asarray(solution.active).any():
            return M, q


@pytest.mark.parametrize("seed", range(6))
def test_forward_and_reverse_against_central_differences(seed: int) -> None:
    M, q = strict_problem(12, seed)
    rng = np.random.default_rng(seed)
    M_dot, q_dot = rng.normal(size=M.shape), rng.normal(size=q.shape)
    M_dot /= np.abs(M_dot).max()
    numeric = np.asarray(Z(M + STEP * M_dot, q + STEP * q_dot) - Z(M - STEP * M_dot, q - STEP * q_dot)) / (2.0 * STEP)
    z, z_dot = along(M, q, M_dot, q_dot)
    scale = max(1.0, float(np.abs(numeric).max()))
    np.testing.assert_allclose(z_dot, numeric, atol=1e-6 * scale)
    weight = rng.normal(size=q.shape)
    by_M, by_q = weighted_gradient(M, q, weight)
    assert float(jnp.sum(by_M * M_dot) + jnp.dot(by_q, q_dot)) == pytest.approx(float(weight @ np.asarray(z_dot)), rel=1e-9, abs=1e-12)
    assert derivative.doubt(M, q) is None
    np.testing.assert_array_equal(z, SOLVE(M, q).z)


def test_mixed_problem_against_central_differences() -> None:
    rng = np.random.default_rng(7)
    free, n = 4, 9
    J = rng.normal(size=(n, n))
    S = J @ J.T + 0.2 * np.eye(n)
    S[free:, free:] += np.triu(rng.uniform(0.0, 0.3, (n - free, n - free)), 1)
    b, S_dot, b_dot = rng.normal(size=n), rng.normal(size=(n, n)), rng.normal(size=n)
    S_dot[:free, :] = S_dot[:, :free].T  # keeps the free block and its coupling symmetric
    S_dot[:free, :free] = 0.5 * (S_dot[:free, :free] + S_dot[:free, :free].T)
    for symmetric in (False, True):
        solve = jax.jit(lambda S, b, s=symmetric: derivative.mlcp_solution(S, b, free, s))
        numeric = np.asarray(solve(S + STEP * S_dot, b + STEP * b_dot) - solve(S - STEP * S_dot, b - STEP * b_dot)) / (2.0 * STEP)
        tangent = jax.jit(lambda S, b, S_dot, b_dot, solve=solve: jax.jvp(solve, (S, b), (S_dot, b_dot)))(S, b, S_dot, b_dot)[1]
        np.testing.assert_allclose(tangent, numeric, atol=1e-6 * max(1.0, np.abs(numeric).max()))


def test_a_batch_is_differentiated_problem_by_problem() -> None:
    problems = [strict_problem(6, seed) for seed in range(3)]
    M, q = (np.array(x) for x in zip(*problems, strict=True))
    batched = jax.jit(jax.vmap(jax.jacfwd(derivative.lcp_solution, argnums=1)))(M, q)
    backward = jax.jit(jax.jacrev(derivative.lcp_solution, argnums=1))
    for k in range(3):
        np.testing.assert_allclose(batched[k], backward(M[k], q[k]), atol=1e-10)


def test_both_sides_of_a_switch() -> None:
    """w = z + q: z = max(-q, 0) has the slopes -1 and 0, and at q = 0 a kink that is reported."""
    slope = jax.jit(jax.grad(lambda q: derivative.lcp_solution(jnp.eye(1), q[None])[0]))
    assert float(slope(-0.1)) == -1.0
    assert float(slope(0.1)) == 0.0
    assert "Strict complementarity fails at index 0" in str(derivative.doubt(np.eye(1), np.zeros(1)))


def test_what_has_no_derivative_says_so() -> None:
    M = np.array([[0.0, -1.0, -1.0], [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    q = np.array([-1e-4, -1.0, 1.0])  # infeasible
    assert "no solution to differentiate" in str(derivative.doubt(M, q))
    assert np.isnan(along(M, q, M, q)[1]).all()
    touching = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]])  # z_2 + z_3 = 1 in any proportion
    assert "Strict complementarity" in str(derivative.doubt(touching, -np.ones(3)))
    nearly = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-10]])
    assert "not locally unique" in str(derivative.doubt(nearly, -nearly @ [0.5, 0.5]))
