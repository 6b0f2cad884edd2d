"""Natural level functions: what they do not change with, when they shorten a step, and what bending a step back onto its path gains."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from solve.test_gauss_newton import LotkaVolterra, first

from calibody.solve.condensed import Linearisation, step
from calibody.solve.gauss_newton import AbstractProblem, Settings, minimise
from calibody.solve.globalisation import GLOBALISATIONS, Globalisation
from calibody.solve.natural import Held, bend

INF = np.inf


class Curved(AbstractProblem):
    """Two states and two parameters: x + curvature (x^2, x y) are measured, and M theta by the equations, which a regular matrix multiplies."""

    M = np.array([[1.0, 0.3], [-0.2, 1.2]])

    def __init__(
        self, curvature: float = 0.0, factor: np.ndarray | None = None, upper: tuple[float, float] = (INF, INF), target: tuple[float, float] = (1.0, 2.0)
    ) -> None:
        self.lower, self.upper, self.scale = np.full(2, -INF), np.array(upper), np.ones(2)
        self.curvature, self.factor, self.target = curvature, np.eye(2) if factor is None else factor, np.array(target)

    @property
    def tethered(self) -> float:
        return 1.0

    def values(self, x: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        bent = x + self.curvature * np.array([x[0] ** 2, x[0] * x[1]])
        return 10.0 * (bent - self.target), self.factor @ (bent + self.curvature * x**2 - self.M @ theta)

    def linearise(self, x: np.ndarray, theta: np.ndarray) -> Linearisation:
        F, C = self.values(x, theta)
        Cx = np.eye(2) + self.curvature * np.array([[2.0 * x[0], 0.0], [x[1], x[0]]])
        more = 2.0 * self.curvature * np.diag(x)
        return Linearisation(F, sp.csr_matrix(10.0 * Cx), np.zeros((2, 2)), C, sp.csr_matrix(self.factor @ (Cx + more)), -self.factor @ self.M)

    def move(self, x: np.ndarray, d: np.ndarray) -> np.ndarray:
        return x + d


def bent(problem: Curved, length: float, damping: float = 0.0, tether: float = 0.0) -> np.ndarray:
    x, theta = np.array([0.4, -0.3]), np.array([0.2, 0.1])
    lin, held = problem.linearise(x, theta), np.full(2, damping)
    taken = step(lin, theta, problem.lower, problem.upper, held, problem.scale, 0.0, tether)
    values = problem.values(x + length * taken.states, theta + length * taken.parameters)
    b = bend(lin, taken, Held(held, tether, 0.0), length, *values, problem.scale)
    return np.concatenate([b.states, b.parameters])


@pytest.mark.parametrize("upper", [(INF, INF), (0.5, INF), (0.5, 0.3)])
def test_what_is_linear_does_not_bend(upper: tuple[float, float]) -> None:
    """Bounds, damped parameters and damped states included."""
    for length in (1.0, 0.3):
        assert np.abs(bent(Curved(upper=upper), length, damping=7.0, tether=3.0)).max() < 1e-12


def test_the_bend_is_of_second_order_and_the_same_for_equations_multiplied_by_a_matrix() -> None:
    sizes = [np.linalg.norm(bent(Curved(0.5), e)) for e in (0.2, 0.1, 0.05)]
    assert sizes[0] / sizes[1] == pytest.approx(4.0, rel=1e-6) and sizes[1] / sizes[2] == pytest.approx(4.0, rel=1e-6)  # the equations are quadratic
    other = bent(Curved(0.5, np.array([[3.0, -40.0], [0.2, 7.0]])), 0.2)
    assert other == pytest.approx(bent(Curved(0.5), 0.2), rel=1e-9)


@pytest.mark.parametrize("test", GLOBALISATIONS)
def test_back_projection_raises_the_order_of_a_step(test: str) -> None:
    """What one step leaves of the distance to the solution, exact data: of second order in it without, of third with it."""
    at = np.array([0.6, 0.8])
    problem = Curved(0.5, target=(0.6 + 0.5 * 0.36, 0.8 + 0.5 * 0.48))
    truth = np.linalg.solve(problem.M, np.array(problem.target) + 0.5 * at**2)

    def left(part: float, back: bool) -> float:
        settings = Settings(iterations=1, proximal=0.0, globalisation=Globalisation(test, back))
        found = minimise(problem, at + part * np.array([0.2, -0.3]), truth + 0.1 * part, settings)
        return float(np.linalg.norm(found.theta - truth))

    orders = [float(np.log2(left(0.2, back) / left(0.1, back))) for back in (False, True)]
    assert orders == pytest.approx([2.0, 3.0], abs=0.2)


class Bend(AbstractProblem):
    """One parameter, arctan(theta) = 0: the whole step diverges from 1.39 on."""

    lower, upper, scale = np.array([-INF]), np.array([INF]), np.ones(1)

    def values(self, x: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.append(np.arctan(theta), 1e-3 * x), np.zeros(0)

    def linearise(self, x: np.ndarray, theta: np.ndarray) -> Linearisation:
        F, C = self.values(x, theta)
        return Linearisation(F, sp.csr_matrix([[0.0], [1e-3]]), np.array([[1.0 / (1.0 + theta[0] ** 2)], [0.0]]), C, sp.csr_matrix((0, 1)), np.zeros((0, 1)))

    def move(self, x: np.ndarray, d: np.ndarray) -> np.ndarray:
        return x + d


@pytest.mark.parametrize("test", GLOBALISATIONS)
@pytest.mark.parametrize("back", [False, True])
def test_steps_that_lead_too_far_are_shortened(test: str, back: bool) -> None:
    found = minimise(Bend(), np.zeros(1), np.array([20.0]), Settings(proximal=0.0, globalisation=Globalisation(test, back)))
    assert found.converged and abs(found.theta[0]) < 1e-4
    assert min(i.length for i in found.history) < 0.5 and found.history[-1].length == 1.0


@pytest.mark.parametrize("test", GLOBALISATIONS)
@pytest.mark.parametrize("back", [False, True])
def test_all_of_them_find_the_same_solution(test: str, back: bool) -> None:
    known = minimise(LotkaVolterra(), first(), np.array([0.5, 0.5]))
    found = minimise(LotkaVolterra(), first(), np.array([0.5, 0.5]), Settings(globalisation=Globalisation(test, back)))
    assert found.converged and found.theta == pytest.approx(known.theta, rel=1e-6) and len(found.history) <= len(known.history) + 2
