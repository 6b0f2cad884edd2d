"""Sensitivities of implicit steps against trep's printed ones and central differences; windows where a single one cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from calibody.solve.condensed import Linearisation
from calibody.solve.gauss_newton import AbstractProblem, Settings, minimise
from calibody.solve.transition import Transition
from calibody.solve.windows import Shot, Windows, bounds_of, spans, unrolled

# trep's pendulum: m = l = 1, g = 9.8, dt = 0.1, midpoint rule, L = q'^2/2 + g cos q, generalised force u
GRAVITY, DT = 9.8, 0.1


def step_equations(x: np.ndarray, y: np.ndarray, u: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """trep's two equations `p + D1 Ld + dt u = 0`, `p+ = D2 Ld` and their derivatives by (q, p), (q+, p+) and u."""
    (q, p), (q1, p1) = x, y
    mid, rate = 0.5 * (q + q1), (q1 - q) / DT
    force, stiff = -GRAVITY * np.sin(mid), -0.25 * DT * GRAVITY * np.cos(mid)
    value = np.array([p - rate + 0.5 * DT * force + DT * u, p1 - rate - 0.5 * DT * force])
    before = np.array([[1.0 / DT + stiff, 1.0], [1.0 / DT - stiff, 0.0]])
    after = np.array([[-1.0 / DT + stiff, 0.0], [-1.0 / DT - stiff, 1.0]])
    return value, before, after, np.array([[DT], [0.0]])


def stepped(x: np.ndarray, u: float) -> tuple[np.ndarray, Transition]:
    y = x + np.array([DT * x[1], 0.0])
    for _ in range(50):
        value, _, after, _ = step_equations(x, y, u)
        y = y - np.linalg.solve(after, value)
    _, *slopes = step_equations(x, y, u)
    return y, Transition.of(*(s[None] for s in slopes))


def test_the_single_step_that_trep_prints() -> None:
    y, found = stepped(np.array([0.2, 0.5]), 0.8)
    np.testing.assert_allclose(y, [0.24713619415556165, 0.36272388311133485], rtol=1e-12)
    np.testing.assert_allclose(found.A[0], [[0.9533343385552316, 0.09766671692776158], [-0.9333132288953667, 0.9533343385552316]], rtol=1e-12)
    np.testing.assert_allclose(found.B[0][:, 0], [0.009766671692776159, 0.09533343385552318], rtol=1e-12)


def test_forwards_and_backwards_are_the_same_gradient_and_that_of_central_differences() -> None:
    steps, target = 30, np.linspace(0.2, 0.5, 31)

    def motion(u: float) -> tuple[np.ndarray, Transition]:
        x, all_, parts = np.array([0.2, 0.5]), [np.array([0.2, 0.5])], []
        for _ in range(steps):
            x, found = stepped(x, u)
            all_.append(x)
            parts.append(found)
        return np.array(all_), Transition(np.concatenate([p.A for p in parts]), np.concatenate([p.B for p in parts]))

    def cost(u: float) -> float:
        return 0.5 * float(np.sum((motion(u)[0][:, 0] - target) ** 2))

    x, found = motion(0.8)
    slopes = np.stack([x[:, 0] - target, 0.0 * target], axis=1)
    backwards, _ = found.backwards(slopes)
    forwards = np.einsum("kn,knp->p", slopes, found.forwards(np.zeros((2, 1))))
    assert backwards[0] == pytest.approx(forwards[0], rel=1e-12)
    assert backwards[0] == pytest.approx((cost(0.8 + 1e-5) - cost(0.8 - 1e-5)) / 2e-5, rel=1e-6)


# -- Bock's unstable problem -------------------------------------------------------------------------------------------------------------

MU, NODES, PER = 60.0, 101, 8
"""`y1' = y2, y2' = mu^2 y1 - (mu^2 + p^2) sin(p t)` on [0, 1], whose solution sin(pi t) for p = pi is lost as e^60; measured at 101 times, between which 8 steps of Runge and Kutta are taken."""
TIMES = np.linspace(0.0, 1.0, NODES)


class Unstable(AbstractProblem):
    """All states (node by node) with the steps between them as equations."""

    def __init__(self, y: np.ndarray, sd: float) -> None:
        self.y, self.sd = y, sd
        self.lower, self.upper, self.scale = np.array([-np.inf]), np.array([np.inf]), np.array([1.0])

    @staticmethod
    def step(x: np.ndarray, t: float, p: float) -> np.ndarray:
        h = (TIMES[1] - TIMES[0]) / PER
        for _ in range(PER):
            k = []
            for a, s in ((0.0, 0.0), (0.5, 0.5), (0.5, 0.5), (1.0, 1.0)):
                z = x + (h * a * k[-1] if k else 0.0)
                k.append(np.array([z[1], MU**2 * z[0] - (MU**2 + p**2) * np.sin(p * (t + s * h))]))
            x, t = x + h / 6.0 * (k[0] + 2.0 * k[1] + 2.0 * k[2] + k[3]), t + h
        return x

    def values(self, x: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        C = np.array([x[k + 1] - self.step(x[k], TIMES[k], theta[0]) for k in range(NODES - 1)])
        return ((x - self.y) / self.sd).ravel(), C.ravel()

    def linearise(self, x: np.ndarray, theta: np.ndarray) -> Linearisation:
        F, C = self.values(x, theta)
        rows, Ct = [], []
        for k in range(NODES - 1):
            d = [(self.step(x[k] + e, TIMES[k], theta[0]) - self.step(x[k] - e, TIMES[k], theta[0])) / 2e-4 for e in 1e-4 * np.eye(2)]  # linear: exact
            rows.append(sp.hstack([sp.csr_matrix((2, 2 * k)), -np.array(d).T, np.eye(2), sp.csr_matrix((2, 2 * (NODES - 2 - k)))]))
            Ct.append(-(self.step(x[k], TIMES[k], theta[0] + 1e-6) - self.step(x[k], TIMES[k], theta[0] - 1e-6)) / 2e-6)
        when = np.concatenate([np.repeat(np.arange(NODES), 2.0), np.repeat(np.arange(NODES - 1) + 0.5, 2)])
        return Linearisation(
            F, sp.identity(2 * NODES, format="csr") / self.sd, np.zeros((2 * NODES, 1)), C, sp.vstack(rows, format="csr"), np.concatenate(Ct)[:, None], when
        )

    def move(self, x: np.ndarray, d: np.ndarray) -> np.ndarray:
        return x + d.reshape(NODES, 2)


@pytest.mark.parametrize("count", [1, 10, 25])
def test_windows_tame_what_grows_by_e_to_the_60(count: int) -> None:
    random = np.random.default_rng(1)
    exact = np.stack([np.sin(np.pi * TIMES), np.pi * np.cos(np.pi * TIMES)], axis=1)
    whole = Unstable(exact + 0.05 * random.standard_normal(exact.shape), 0.05)
    bounds = bounds_of(NODES, count, 2)

    def roll(x: np.ndarray, theta: np.ndarray) -> Any:
        out = x.copy()
        for first, end in spans(bounds):
            for k in range(first, end - 1):
                out[k + 1] = Unstable.step(out[k], TIMES[k], theta[0])
        return out if np.isfinite(out).all() else None

    found = unrolled(minimise(Windows(whole, roll), Shot(whole.y.copy()), np.array([1.0]), Settings(iterations=4 if count == 1 else 30, tolerance=1e-3)))
    if count == 1:
        assert not found.converged and found.status.startswith("stopped")
        return
    assert found.converged and found.last is not None
    sd = 1.0 / np.sqrt(float(np.asarray(found.last.information)[0, 0]))
    assert abs(found.theta[0] - np.pi) < 3.0 * sd and sd < 0.01
    assert np.abs(found.x[:, 0] - exact[:, 0]).max() < 0.1
