"""Descent within inequalities, for functions that are dear and fail here and there: sequential quadratic programming in a trust box.

    minimise f(z)   subject to  g(z) <= 0

In every round the quadratic model `f + f'd + d'Bd/2` is minimised over `g + G d <= 0, |d_i| <= radius` (a problem of cheap functions, by SLSQP), B an approximation of the Hessian of f that secants keep positive (BFGS,
damped [powell1978]). The step is taken if `f + PENALTY max(g, 0)` falls, and the box grows; if not, it shrinks. A line search along Newton steps, as SLSQP does by itself, ends where f cannot be computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

PENALTY = 10.0
"""On the largest g, in units of f per unit of g."""
GROWS, SHRINKS = 1.6, 0.4
SMALLEST = 1e-3
"""Of the first radius: where a round ends that has found nothing better."""
ENOUGH = 1e-3
"""Two rounds in a row that gain less than this end it."""

Both = Callable[[np.ndarray], tuple[float, np.ndarray]]
Slopes = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Found:
    z: np.ndarray
    f: float


def descend(both: Both, slopes: Slopes, z: np.ndarray, rounds: int, radius: float, report: Callable[[float], None] | None = None) -> Found:
    """From z on, at most so many rounds; `both` gives f and g, `slopes` the gradient of f and the Jacobian of g; f may be infinite but not at z."""
    f, g = both(z)
    B, first, little = np.eye(len(z)), radius, 0
    gradient, G = slopes(z) if rounds else (np.zeros(len(z)), np.zeros((len(g), len(z))))
    for _ in range(rounds):
        before = _merit(f, g)
        while radius > SMALLEST * first:
            d = _step(gradient, B, g, G, radius)
            f_new, g_new = both(z + d)
            if _merit(f_new, g_new) < before:
                break
            radius *= SHRINKS
        else:
            break
        z = z + d
        slope, G = slopes(z)
        B = _updated(B, d, slope - gradient)
        f, g, gradient, radius = f_new, g_new, slope, GROWS * radius
        if report is not None:
            report(f)
        little = little + 1 if before - _merit(f, g) < ENOUGH else 0
        if little == 2:
            break
    return Found(z, f)


def _merit(f: float, g: np.ndarray) -> float:
    return f + PENALTY * max(float(g.max(initial=0.0)), 0.0)


def _step(gradient: np.ndarray, B: np.ndarray, g: np.ndarray, G: np.ndarray, radius: float) -> np.ndarray:
    """The minimum of the model; where its inequalities have none in the box, as near to them as SLSQP gets."""
    from scipy.optimize import minimize

    wanted = np.minimum(g + np.abs(G).sum(1) * 0.5 * radius, 0.0) - g  # what the box allows of g + G d <= 0
    found = minimize(
        lambda d: float(gradient @ d + 0.5 * d @ B @ d), np.zeros(len(gradient)), jac=lambda d: gradient + B @ d, method="SLSQP", bounds=[(-radius, radius)] * len(gradient),
        constraints={"type": "ineq", "fun": lambda d: np.maximum(-g, wanted) - G @ d, "jac": lambda d: -G} if len(g) else (), options={"maxiter": 100},
    )  # fmt: skip
    d = np.clip(found.x, -radius, radius)
    return d if np.isfinite(d).all() else -radius * np.sign(gradient)


def _updated(B: np.ndarray, d: np.ndarray, y: np.ndarray) -> np.ndarray:
    Bd = B @ d
    curved, along = float(d @ Bd), float(d @ y)
    if curved <= 0.0:
        return B
    share = 1.0 if along >= 0.2 * curved else 0.8 * curved / (curved - along)
    y = share * y + (1.0 - share) * Bd
    return B - np.outer(Bd, Bd) / curved + np.outer(y, y) / float(d @ y)
