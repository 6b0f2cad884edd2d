"""Truncated distributions: their density, mass and draws against those of scipy and of quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.stats import qmc

from calibody.solve.truncated import Truncated

INF = np.full(2, np.inf)
COVARIANCE = np.array([[1.0, 0.6], [0.6, 0.8]])


def test_without_bounds_it_is_the_gaussian_and_students() -> None:
    mean, points = np.array([0.3, -0.2]), np.random.default_rng(0).standard_normal((5, 2))
    gaussian, student = Truncated(mean, COVARIANCE, -INF, INF), Truncated(mean, COVARIANCE, -INF, INF, 5.0)
    assert gaussian.log_mass == 0.0
    np.testing.assert_allclose(gaussian.log_density(points), stats.multivariate_normal(mean, COVARIANCE).logpdf(points), rtol=1e-12)
    np.testing.assert_allclose(student.log_density(points), stats.multivariate_t(mean, COVARIANCE, 5.0).logpdf(points), rtol=1e-12)


@pytest.mark.parametrize("freedom", [np.inf, 5.0])
@pytest.mark.parametrize("mean", [(0.3, -0.2), (-3.0, 0.1), (2.5, 2.0)])
def test_the_density_in_a_box_adds_up_to_one(mean: tuple[float, float], freedom: float) -> None:
    lower, upper = np.array([-0.5, -1.0]), np.array([1.0, 0.7])
    found = Truncated(np.array(mean), COVARIANCE, lower, upper, freedom)
    x, y = (np.linspace(a, b, 201)[:-1] + 0.5 * (b - a) / 200 for a, b in zip(lower, upper, strict=True))
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    assert abs(np.exp(found.log_density(grid)).mean() * np.prod(upper - lower) - 1.0) < 1e-3
    assert found.log_density(np.array([[1.1, 0.0]]))[0] == -np.inf


@pytest.mark.parametrize("mean", [(0.3, -0.2), (-2.0, 0.1)])
def test_the_mass_of_a_box_is_that_of_scipy(mean: tuple[float, float]) -> None:
    lower, upper = np.array([-0.5, -1.0]), np.array([1.0, 0.7])
    exact = stats.multivariate_normal(np.array(mean), COVARIANCE).cdf(upper, lower_limit=lower)
    assert abs(Truncated(np.array(mean), COVARIANCE, lower, upper).log_mass - np.log(exact)) < 2e-3


@pytest.mark.parametrize("mean", [0.5, -4.0, 30.0])
def test_draws_of_one_dimension_are_those_of_the_truncated_gaussian(mean: float) -> None:
    """Also far outside of the box, where one minus the distribution function is rounding."""
    found = Truncated(np.array([mean]), np.eye(1), np.zeros(1), np.full(1, 2.0))
    draws = found.drawn(qmc.Sobol(1, rng=np.random.default_rng(0)).random(1024))[:, 0]
    exact = stats.truncnorm(-mean, 2.0 - mean, loc=mean)
    assert stats.kstest(draws, exact.cdf).statistic < 0.01
    assert draws.min() >= 0.0 and draws.max() <= 2.0


def test_weighted_draws_have_the_moments_of_the_truncated_gaussian() -> None:
    """Draws of several truncated coordinates are near it, their density makes up for the rest."""
    mean, lower, upper = np.array([-0.5, 0.8]), np.zeros(2), np.ones(2)
    found = Truncated(mean, COVARIANCE, lower, upper)
    draws = found.drawn(qmc.Sobol(2, rng=np.random.default_rng(0)).random_base2(12))
    weight = np.exp(stats.multivariate_normal(mean, COVARIANCE).logpdf(draws) - found.log_density(draws))
    x = np.linspace(0, 1, 401)[:-1] + 1 / 800
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    exact = np.average(grid, axis=0, weights=stats.multivariate_normal(mean, COVARIANCE).pdf(grid))
    np.testing.assert_allclose(np.average(draws, axis=0, weights=weight), exact, atol=2e-3)
