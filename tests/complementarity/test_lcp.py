"""Lemke's method: the published problems, random friction problems, and what it says where there is no solution."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from friction_problems import random_kinds, random_problem

import calibody as cb
from calibody.complementarity import lcp

# Bimatrix game in one matrix: nonnegative with zero diagonal blocks, on which Lemke's path ends on a ray at once ([cottle1992], section 4.4).
RAYS = {"CPS_3", "Pang_isolated_sol_perturbed"}


def residual(M: np.ndarray, q: np.ndarray, z: np.ndarray) -> float:
    return float(np.abs(np.minimum(z, M @ z + q)).max())


def one(M: Any, q: Any) -> lcp.Solution:
    many = lcp.solve_many(np.array(M, dtype=float)[None], np.array(q, dtype=float)[None])
    return lcp.Solution(*(x[0] for x in many))


def enumerated(M: np.ndarray, q: np.ndarray) -> list[np.ndarray]:
    """All solutions with a regular active set."""
    n, out = len(q), []
    for active in itertools.product((False, True), repeat=n):
        A = np.where(active, -M, np.eye(n))
        if np.linalg.cond(A) < 1e12 and (y := np.linalg.solve(A, q)).min() > -1e-12:
            out.append(np.where(active, y, 0.0))
    return out


def test_published_problems(shared: Path) -> None:
    cases = json.loads((shared / "reference" / "lcp_cases.json").read_text())["lcp"]
    assert len(cases) == 16
    for name, case in cases.items():
        M, q = np.array(case["M"]), np.array(case["q"])
        solution = one(M, q)
        if name in RAYS:
            assert solution.status == lcp.RAY, name
            assert not solution.z.any() and not solution.w.any()
            continue
        assert solution.status == lcp.SOLVED, name
        assert residual(M, q, solution.z) < 1e-10, name
        if case["solutions"]:  # `mmc` has none printed: its residual is the test
            assert min(np.abs(solution.z - s).max() for s in case["solutions"]) < 1e-10, name


def test_an_infeasible_problem_is_told_from_a_ray(shared: Path) -> None:
    cases = json.loads((shared / "reference" / "lcp_cases.json").read_text())["lcp"]
    said = {}
    for name in RAYS:
        M, q = cases[name]["M"], cases[name]["q"]
        said[name] = lcp.sentence(M, q, int(one(M, q).status))
    assert "infeasible" in said["Pang_isolated_sol_perturbed"]
    assert "ray" in said["CPS_3"] and "infeasible" not in said["CPS_3"]
    assert lcp.sentence([[1.0]], [1.0], lcp.SOLVED) == ""


def test_degenerate_problems_do_not_cycle() -> None:
    """Ties at every pivot: equal rows and a q of zeros and ones; solved, and reported as degenerate by the margin."""
    for n in (2, 5, 8):
        M, q = np.ones((n, n)), -np.ones(n)
        solution = one(M, q)
        assert solution.status == lcp.SOLVED and residual(M, q, solution.z) < 1e-12
        assert solution.margin == 0.0
    regular = one(np.eye(3), -np.ones(3))
    assert regular.margin == 1.0


def test_a_path_of_two_to_the_n_pivots_is_walked_to_its_end() -> None:
    """Murty's problem visits all 2^n bases."""
    n = 8
    M = np.triu(np.full((n, n), 2.0), 1) + np.eye(n)
    q = 2.0 ** np.arange(1, n + 1) - 2.0 ** (n + 1)
    solution = one(M, q)
    assert solution.status == lcp.SOLVED and solution.pivots == 2**n
    assert residual(M, q, solution.z) == 0.0


@pytest.mark.parametrize("factor", [1e-12, 1e9])
def test_units_do_not_matter(factor: float) -> None:
    """The same problem with impulses and velocities in other units: the same active set."""
    rng = np.random.default_rng(3)
    M, q = random_problem(random_kinds(12, rng), rng)
    D = factor ** rng.uniform(0.0, 0.5, len(q))
    plain, scaled = one(M, q), one(D[:, None] * M * D, factor * D * q)
    np.testing.assert_array_equal(plain.active, scaled.active)
    np.testing.assert_allclose(factor * plain.z, D * scaled.z, rtol=1e-9, atol=1e-9 * factor * plain.z.max())


def test_small_problems_against_all_active_sets() -> None:
    """P-matrices have exactly one solution."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        root, skew = rng.normal(size=(2, 5, 5))
        M, q = root @ root.T + 0.1 * np.eye(5) + skew - skew.T, rng.normal(size=5)
        (expected,) = enumerated(M, q)
        np.testing.assert_allclose(one(M, q).z, expected, atol=1e-11)


def test_ten_thousand_friction_problems() -> None:
    rng = np.random.default_rng(0)
    solved = count = 0
    for rows in (r for r in range(3, 25) if r != 5):  # 3, 4 and 6 rows add up to everything but 5
        problems = [random_problem(random_kinds(rows, rng), rng) for _ in range(480)]
        M, q = (np.array(x) for x in zip(*problems, strict=True))
        solution = lcp.solve_many(M, q)
        w = np.einsum("kij,kj->ki", M, solution.z) + q
        good = (solution.status == lcp.SOLVED) & (np.abs(np.minimum(solution.z, w)).max(1) < 1e-9)
        solved, count = solved + int(good.sum()), count + len(good)
    assert count >= 10_000
    assert solved >= 0.999 * count


def test_a_guess_is_used_when_it_is_right_and_harmless_when_it_is_wrong() -> None:
    rng = np.random.default_rng(5)
    M, q = random_problem(random_kinds(12, rng), rng)
    plain, solve = one(M, q), jax.jit(lcp.solve)
    right, wrong = solve(M, q, plain.active), solve(M, q, ~plain.active)
    assert int(right.pivots) == 0 and int(wrong.pivots) == int(plain.pivots) > 0
    for other in (right, wrong):
        np.testing.assert_allclose(other.z, plain.z, atol=1e-12)


def test_no_problems_and_no_rows() -> None:
    assert lcp.solve_many(np.zeros((0, 3, 3)), np.zeros((0, 3))).z.shape == (0, 3)
    assert lcp.solve_many(np.zeros((2, 0, 0)), np.zeros((2, 0))).status.tolist() == [lcp.SOLVED] * 2
    assert not lcp.infeasible(np.zeros((0, 0)), np.zeros(0))


@pytest.mark.parametrize(
    ("M", "q", "words"),
    [
        (np.eye(3), np.ones(3), ["(3, 3)", "(problems, n, n)"]),
        (np.ones((2, 3, 3)), np.ones((2, 4)), ["(2, 3, 3)", "(2, 4)"]),
        (np.full((1, 2, 2), np.nan), np.ones((1, 2)), ["not finite"]),
    ],
)
def test_bad_input_is_refused_in_a_sentence(M: np.ndarray, q: np.ndarray, words: list[str]) -> None:
    with pytest.raises(cb.CalibodyError) as caught:
        lcp.solve_many(M, q)
    assert all(w in str(caught.value) for w in words)
