"""Contact with friction at several places: the law holds at every solution, planar problems are those of Lemke's method, and hard ones are solved."""

from __future__ import annotations

import numpy as np
import pytest

from calibody.complementarity import cone, lcp
from calibody.errors import CalibodyError


def problem(rng: np.random.Generator, places: int, bodies: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places on bodies with six degrees of freedom each; more places than these determine is the rule."""
    J = rng.normal(size=(3 * places, 6 * bodies))
    return J @ J.T, (J @ rng.normal(size=6 * bodies)).reshape(places, 3), rng.uniform(0.0, 1.2, places)


def _law(A: np.ndarray, r: np.ndarray, mu: np.ndarray, L: np.ndarray, close: float) -> None:
    u = (A @ L.ravel()).reshape(-1, 3) + r
    size = np.abs(r).max()
    n, t, limit = L[:, 0], np.linalg.norm(L[:, 1:], axis=1), mu * L[:, 0]
    assert n.min() >= -close and u[:, 0].min() > -close * size and np.abs(n * u[:, 0]).max() < close * size
    assert (t <= limit + close).all()
    slip = np.linalg.norm(u[:, 1:], axis=1)
    for i in np.flatnonzero(slip > 1e-4 * size):
        assert np.allclose(L[i, 1:], -limit[i] * u[i, 1:] / slip[i], atol=1e-4 * (1.0 + limit[i]))


@pytest.mark.parametrize("places", [1, 2, 4, 8])
def test_the_law_holds(places: int) -> None:
    rng, solved = np.random.default_rng(places), 0
    for _ in range(30):
        A, r, mu = problem(rng, places, max(1, places // 2))
        found = cone.solve(A, r, mu)
        if found.residual < 1e-9:
            _law(A, r, mu, np.asarray(found.L), 1e-7)
            solved += 1
    assert solved >= 28


def test_planar_problems_are_lemkes() -> None:
    """With one tangent the cone is a fan: the linear complementarity problem with both directions of slip."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        J = np.zeros((6, 6))
        J[[0, 1, 3, 4]] = rng.normal(size=(4, 6))
        A, r, mu = J @ J.T, (J @ rng.normal(size=6)).reshape(2, 3), rng.uniform(0.1, 0.8, 2)
        found = cone.solve(A, r, mu)
        rows = np.concatenate([J[[0, 3]], J[[1, 4]], -J[[1, 4]]])
        M, q = np.zeros((8, 8)), np.zeros(8)
        M[:6, :6] = rows @ rows.T
        M[2:4, 6:] = M[4:6, 6:] = np.eye(2)
        M[6:, :2], M[6:, 2:4], M[6:, 4:6] = np.diag(mu), -np.eye(2), -np.eye(2)
        q[:6] = np.concatenate([r[:, 0], r[:, 1], -r[:, 1]])
        z = np.asarray(lcp.solve(M, q).z)
        assert np.allclose(np.asarray(found.L)[:, 0], z[:2], atol=1e-6) and np.allclose(np.asarray(found.L)[:, 1], z[2:4] - z[4:6], atol=1e-6)


def test_a_face_shares_its_load() -> None:
    """Four corners under one load: a quarter each, and their sum to rounding."""
    corners = np.array([(x, y, 0.0) for x in (-1, 1) for y in (-1, 1)])
    J = np.zeros((12, 6))
    for i, c in enumerate(corners):
        for k, d in enumerate(((0, 0, 1), (1, 0, 0), (0, 1, 0))):
            J[3 * i + k] = [*d, *np.cross(c, d)]
    A = J @ np.diag([1, 1, 1, 6, 6, 3.0]) @ J.T
    found = cone.solve(A, np.tile((-1.0, 0.0, 0.0), (4, 1)), np.full(4, 0.5))
    assert np.allclose(np.asarray(found.L)[:, 0], 0.25, atol=1e-6) and np.asarray(found.L)[:, 0].sum() == pytest.approx(1.0, abs=1e-9)


def test_too_many_places_are_refused() -> None:
    with pytest.raises(CalibodyError, match="257 places touch at once; at most 256"):
        cone.solve(np.eye(771), np.zeros((257, 3)), np.zeros(257))
