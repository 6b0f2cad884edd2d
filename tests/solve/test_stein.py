"""Stein's direction: against its definition, and where particles of a Gaussian, and of two, end."""

from __future__ import annotations

import numpy as np
import pytest

from calibody.solve.stein import direction


def test_the_direction_is_that_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    u, g = rng.standard_normal((6, 3)), rng.standard_normal((6, 3))
    A = rng.standard_normal((6, 3, 3))
    H = A @ A.transpose(0, 2, 1) + np.eye(3)

    def kernel(i: int, at: np.ndarray) -> float:
        return float(np.exp(-0.5 * (at - u[i]) @ H[i] @ (at - u[i]) / 3.0))

    for i in range(6):
        phi, B = np.zeros(3), np.zeros((3, 3))
        for j in range(6):
            slope = np.array([(kernel(i, u[j] + 1e-6 * e) - kernel(i, u[j] - 1e-6 * e)) / 2e-6 for e in np.eye(3)])
            phi, B = phi + kernel(i, u[j]) * g[j] + slope, B + kernel(i, u[j]) * H[j]
        assert np.allclose(direction(u, g, H)[i], np.linalg.solve(B, phi), atol=1e-7)


@pytest.mark.parametrize(("p", "count"), [(2, 40), (6, 60), (11, 100)])
def test_particles_end_as_the_gaussian_that_they_climb(p: int, count: int) -> None:
    """Standard deviations along the axes of its ellipsoid, between 1 and 100 times apart, within a tenth."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((p, p)) * np.geomspace(1e-2, 1.0, p)
    P, mean, u = np.linalg.inv(A @ A.T), rng.standard_normal(p), rng.uniform(-1.0, 1.0, (count, p))
    for _ in range(120):
        d = direction(u, (mean - u) @ P, np.tile(P, (count, 1, 1)))
        u = u + d * np.minimum(1.0, 0.15 / np.abs(d).max(axis=1, keepdims=True))
    z = (u - mean) @ np.linalg.cholesky(P)
    assert np.abs(z.mean(axis=0)).max() < 0.1 and np.abs(z.std(axis=0) - 1.0).max() < 0.1


def test_particles_of_two_gaussians_stay_with_the_nearer_one() -> None:
    """Each with a curvature of its own, a thousand times apart."""
    rng, places, sizes = np.random.default_rng(2), np.array([[-1.0, 0.0], [1.0, 0.5]]), np.array([1e-3, 1e-1])
    u = rng.uniform(-2.0, 2.0, (60, 2))
    own = np.zeros(len(u), int)
    for _ in range(150):
        own = np.argmin(np.linalg.norm(u[:, None] - places, axis=2), axis=1)
        H = np.eye(2) / sizes[own][:, None, None] ** 2
        d = direction(u, np.einsum("iab,ib->ia", H, places[own] - u), H)
        u = u + d * np.minimum(1.0, 0.15 / np.abs(d).max(axis=1, keepdims=True))
    for k in range(2):
        near = u[own == k]
        assert len(near) > 10 and np.allclose(near.mean(axis=0), places[k], atol=0.1 * sizes[k])
        assert np.allclose(near.std(axis=0), sizes[k], rtol=0.15)
