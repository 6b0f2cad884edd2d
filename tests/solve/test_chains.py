"""Hamiltonian Monte Carlo: the right distribution, also between walls; what says that chains do not agree."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibody.solve import chains
from calibody.solve.chains import Box

COVARIANCE = np.array([[1.0, 0.7], [0.7, 2.0]])
INVERSE = np.linalg.inv(COVARIANCE)


def _log_p(theta: np.ndarray) -> tuple[float, np.ndarray]:
    return -0.5 * float(theta @ INVERSE @ theta), -INVERSE @ theta


def _sampled(lower: np.ndarray, upper: np.ndarray, draws: int, gradient: float = 1.0) -> np.ndarray:
    box = Box(np.zeros(2), np.linalg.cholesky(COVARIANCE), lower, upper)
    start = np.clip(np.zeros(2), lower, upper)

    def function(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _log_p(theta)
        return value, gradient * slope

    return np.stack([chains.walk(function, box, start, draws, 0, c).draws for c in range(4)])


@pytest.mark.parametrize("gradient", [1.0, 0.8])
def test_a_gaussian_has_its_covariance_even_with_a_wrong_gradient(gradient: float) -> None:
    found = _sampled(np.full(2, -np.inf), np.full(2, np.inf), 1500, gradient)
    np.testing.assert_allclose(np.cov(found.reshape(-1, 2).T), COVARIANCE, rtol=0.08)
    rhat, ess = chains.agreement(found)
    assert rhat < 1.01 and ess > 400


def test_walls_reflect() -> None:
    """Between walls that cut most of it away the mean is that of the truncated Gaussian, by quadrature."""
    lower, upper = np.array([0.2, -1.0]), np.array([1.5, 0.6])
    found = _sampled(lower, upper, 1500)
    assert np.all(found.min(axis=(0, 1)) >= lower) and np.all(found.max(axis=(0, 1)) <= upper)
    x, y = (np.linspace(a, b, 301)[:-1] + 0.5 * (b - a) / 300 for a, b in zip(lower, upper, strict=True))
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    density = stats.multivariate_normal(np.zeros(2), COVARIANCE).pdf(grid)
    mean = np.average(grid, axis=0, weights=density)
    sd = np.sqrt(np.average((grid - mean) ** 2, axis=0, weights=density))
    np.testing.assert_allclose(found.reshape(-1, 2).mean(axis=0), mean, atol=0.06 * sd.max())
    np.testing.assert_allclose(found.reshape(-1, 2).std(axis=0), sd, rtol=0.06)


def test_a_straight_way_can_be_run_backwards_after_reflections() -> None:
    box = Box(np.zeros(2), np.linalg.cholesky(COVARIANCE), np.array([-0.3, -0.5]), np.array([0.4, 0.5]))
    z, q = np.array([0.1, 0.05]), np.array([1.3, -2.1])
    there = box.moved(z, q, 3.0)
    assert there is not None
    back = box.moved(there[0], -there[1], 3.0)
    assert back is not None
    np.testing.assert_allclose(back[0], z, atol=1e-9)
    np.testing.assert_allclose(back[1], -q, atol=1e-9)
    assert abs(np.linalg.norm(there[1]) - np.linalg.norm(q)) < 1e-12


def test_chains_that_are_in_two_places_do_not_agree() -> None:
    random = np.random.default_rng(0)
    apart = random.standard_normal((4, 250, 1)) + np.array([0.0, 0.0, 3.0, 3.0])[:, None, None]
    assert chains.agreement(apart)[0] > 1.5


def test_a_point_without_a_density_is_not_entered() -> None:
    def function(theta: np.ndarray) -> tuple[float, np.ndarray | None]:
        return (-np.inf, None) if theta[0] > 0.5 else _log_p(theta)

    found = chains.walk(function, Box(np.zeros(2), np.eye(2), np.full(2, -np.inf), np.full(2, np.inf)), np.zeros(2), 200, 0, 0)
    assert found.draws[:, 0].max() <= 0.5 and found.failed > 0
