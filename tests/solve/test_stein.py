"""Stein's direction: against its definition, and where particles of a Gaussian end."""

from __future__ import annotations

import numpy as np

from calibody.solve.stein import LARGEST, Adam, clipped, direction


def test_the_direction_is_that_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    u, g = rng.standard_normal((6, 3)), rng.standard_normal((6, 3))
    squares = ((u[:, None] - u[None]) ** 2).sum(-1)
    width = np.median(squares) / np.log(7.0)

    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.exp(-((a - b) @ (a - b)) / width))

    step = 1e-6
    for i in range(6):
        expected = np.zeros(3)
        for j in range(6):
            slope = np.array([(kernel(u[j] + step * e, u[i]) - kernel(u[j] - step * e, u[i])) / (2.0 * step) for e in np.eye(3)])
            expected += (kernel(u[j], u[i]) * g[j] + slope) / 6.0
        assert np.allclose(direction(u, g)[i], expected, atol=1e-8)


def test_particles_end_as_the_gaussian_that_they_climb() -> None:
    rng, mean, L = np.random.default_rng(1), np.array([1.0, -2.0]), np.array([[0.5, 0.0], [0.3, 0.4]])
    precision, adam, u = np.linalg.inv(L @ L.T), Adam(0.05), rng.standard_normal((80, 2))
    for _ in range(600):
        u = u + adam.step(direction(u, (mean - u) @ precision))
    assert np.allclose(u.mean(axis=0), mean, atol=0.05)
    assert np.allclose(np.cov(u.T), L @ L.T, rtol=0.25, atol=0.03)


def test_gradients_without_end_are_clipped() -> None:
    found = clipped(np.array([[3.0, 4.0], [1e9, 0.0], [np.nan, 1.0], [np.inf, 0.0]]))
    assert np.allclose(found, [[3.0, 4.0], [LARGEST, 0.0], [0.0, 1.0], [LARGEST, 0.0]])
