"""Descent within inequalities: against minima that are known, and where the function cannot be computed."""

from __future__ import annotations

import numpy as np

from calibody.solve.descent import descend


def _both(z: np.ndarray) -> tuple[float, np.ndarray]:
    """Rosenbrock's valley in a disc: its minimum (1, 1) is outside."""
    return float(100.0 * (z[1] - z[0] ** 2) ** 2 + (1.0 - z[0]) ** 2), np.array([z @ z - 1.5])


def _slopes(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    bend = z[1] - z[0] ** 2
    return np.array([-400.0 * bend * z[0] - 2.0 * (1.0 - z[0]), 200.0 * bend]), 2.0 * z[None, :]


def test_the_minimum_in_a_disc_is_found() -> None:
    from scipy.optimize import minimize

    found = descend(_both, _slopes, np.array([-0.5, 0.3]), 200, 0.1)
    oracle = minimize(lambda z: _both(z)[0], [0.8, 0.6], constraints={"type": "ineq", "fun": lambda z: 1.5 - z @ z}, tol=1e-10)
    assert found.f < oracle.fun + 2e-3 and np.abs(found.z - oracle.x).max() < 0.05
    assert found.z @ found.z <= 1.5 + 1e-3


def test_it_goes_on_beside_places_where_nothing_can_be_computed() -> None:
    """Beyond 0.9 there is a wall of infinities, which a line search would end at."""

    def both(z: np.ndarray) -> tuple[float, np.ndarray]:
        return (np.inf if z[0] > 0.9 else float((z[0] - 1.0) ** 2 + 10.0 * (z[1] - 0.5) ** 2)), np.zeros(0)

    def slopes(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.array([2.0 * (z[0] - 1.0), 20.0 * (z[1] - 0.5)]), np.zeros((0, 2))

    found = descend(both, slopes, np.array([-2.0, 3.0]), 100, 1.0)
    assert found.f < 0.04 and found.z[0] <= 0.9
