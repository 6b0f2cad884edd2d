"""Mixed problems: the published ones, symmetric ones by block LDL', singular free blocks."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from calibody.complementarity import lcp, mlcp

SOLVE, SYMMETRIC = jax.jit(mlcp.solve, static_argnums=2), jax.jit(mlcp.solve_symmetric, static_argnums=(2, 3))


def test_published_problems(shared: Path) -> None:
    cases = json.loads((shared / "reference" / "lcp_cases.json").read_text())["mlcp"]
    assert len(cases) == 8
    for name, case in cases.items():
        S, b, free = np.array(case["M"]), np.array(case["q"]), case["n_eq"]
        solution = SOLVE(S, b, free)
        z = np.asarray(solution.z)
        w = S @ z + b
        assert int(solution.status) == lcp.SOLVED, name
        assert np.abs(w[:free]).max() < 1e-10, name
        assert np.abs(np.minimum(z, w)[free:]).max() < 1e-10, name
        assert min(np.abs(z - s["z"]).max() for s in case["solutions"]) < 1e-10, name


def friction_like(seed: int, free: int = 9, pairs: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """A symmetric free block `A A' + S` coupled symmetrically to complementary rows whose own block is not symmetric."""
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(free + pairs, 8))
    S = J @ J.T + np.diag(rng.uniform(1e-4, 1e-2, free + pairs))
    S[free:, free:] += np.triu(rng.uniform(0.0, 0.3, (pairs, pairs)), 1)
    return S, rng.normal(size=free + pairs)


@pytest.mark.parametrize("block", [1, 4, 6, 16])
def test_blocks_of_any_width_give_the_same(block: int) -> None:
    S, b = friction_like(1)
    whole, parts = SOLVE(S, b, 9), SYMMETRIC(S, b, 9, block)
    assert int(whole.status) == int(parts.status) == lcp.SOLVED
    np.testing.assert_allclose(parts.z, whole.z, atol=1e-9)
    w = S @ np.asarray(parts.z) + b
    assert np.abs(w[:9]).max() < 1e-9 and np.abs(np.minimum(parts.z, w)[9:]).max() < 1e-9


def test_the_complementary_block_is_no_pivot() -> None:
    """It may be singular, even zero: a quasi-definite free block and a contact without any regularisation."""
    S = np.array([[-2.0, 0.5, 1.0], [0.5, 1.0, 0.0], [1.0, 0.0, 0.0]])
    b = np.array([1.0, 0.2, -0.3])
    solution = SYMMETRIC(S, b, 2, 1)
    w = S @ np.asarray(solution.z) + b
    other = SOLVE(S, b, 2)
    assert int(solution.status) == int(other.status) == lcp.SOLVED
    np.testing.assert_allclose(solution.z, other.z, atol=1e-14)
    assert np.abs(w[:2]).max() < 1e-14 and abs(min(solution.z[2], w[2])) < 1e-14


def test_only_free_unknowns_or_none() -> None:
    S, b = friction_like(2)
    free_only = SYMMETRIC(S[:9, :9], b[:9], 9)
    np.testing.assert_allclose(free_only.z, -np.linalg.solve(S[:9, :9], b[:9]), rtol=1e-9)
    np.testing.assert_allclose(SOLVE(S[:9, :9], b[:9], 9).z, free_only.z, rtol=1e-7)
    np.testing.assert_allclose(SOLVE(S[9:, 9:], b[9:], 0).z, jax.jit(lcp.solve)(S[9:, 9:], b[9:]).z, atol=1e-12)


def test_equations_that_contradict_each_other_are_reported() -> None:
    """Two equal rows without any pair that could resolve them."""
    S = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    solution = SOLVE(S, np.array([1.0, 2.0, 1.0]), 2)
    assert int(solution.status) == mlcp.UNDETERMINED
    assert not np.asarray(solution.z).any()
    assert "free unknowns" in lcp.SENTENCES[mlcp.UNDETERMINED]
