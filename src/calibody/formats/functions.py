"""Functions of one coordinate as OpenSim's joints use them: polynomials, and cubics through knots that go on as straight lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST_COEFFICIENTS = 5
"""A polynomial of a coupling has degree four at most."""


@dataclass(frozen=True)
class Polynomial:
    coefficients: tuple[float, ...]
    """Lowest degree first."""

    def __call__(self, x: float) -> float:
        return float(np.polynomial.polynomial.polyval(x, self.coefficients))

    @property
    def constant(self) -> bool:
        return not any(self.coefficients[1:])

    @property
    def line(self) -> tuple[float, float] | None:
        """Slope and offset of a straight line that is not level."""
        return None if self.constant or any(self.coefficients[2:]) else (self.coefficients[1], self.coefficients[0])

    def scaled(self, factor: float) -> Polynomial:
        return Polynomial(tuple(factor * c for c in self.coefficients))

    def of(self, slope: float, offset: float) -> Polynomial:
        """The function of z where `x = slope z + offset`."""
        inner, out = np.polynomial.Polynomial((offset, slope)), np.polynomial.Polynomial((0.0,))
        for c in reversed(self.coefficients):
            out = out * inner + c
        return Polynomial(tuple(float(c) for c in out.coef))


@dataclass(frozen=True)
class Knots:
    knots: tuple[tuple[float, float, float], ...]
    """x, y, slope; x increasing."""

    constant = False
    line = None

    def __call__(self, x: float) -> float:
        (x0, y0, d0), (xn, yn, dn) = self.knots[0], self.knots[-1]
        if x <= x0:
            return y0 + d0 * (x - x0)
        if x >= xn:
            return yn + dn * (x - xn)
        k = max(i for i, knot in enumerate(self.knots) if knot[0] <= x)
        (xa, ya, da), (xb, yb, db) = self.knots[k : k + 2]
        w, t = xb - xa, (x - xa) / (xb - xa)
        return (1 + 2 * t) * (1 - t) ** 2 * ya + t * (1 - t) ** 2 * w * da + t * t * (3 - 2 * t) * yb + t * t * (t - 1) * w * db

    def scaled(self, factor: float) -> Knots:
        return Knots(tuple((x, factor * y, factor * d) for x, y, d in self.knots))

    def of(self, slope: float, offset: float) -> Knots:
        """The function of z where `x = slope z + offset`."""
        return Knots(tuple(sorted(((x - offset) / slope, y, d * slope) for x, y, d in self.knots)))

    def quartic(self) -> tuple[tuple[float, ...], float]:
        """The polynomial of degree four that is nearest over the knots' range, and the largest difference there."""
        x = np.linspace(self.knots[0][0], self.knots[-1][0], 20 * len(self.knots))
        y = np.array([self(v) for v in x])
        fitted = np.polynomial.Polynomial.fit(x, y, MOST_COEFFICIENTS - 1)
        c = fitted.convert().coef
        return tuple(float(v) for v in [*c, *[0.0] * (MOST_COEFFICIENTS - len(c))]), float(np.abs(fitted(x) - y).max())


Function = Polynomial | Knots


def simm_spline(x: Sequence[float], y: Sequence[float]) -> Function:
    """The twice differentiable cubics through points whose third derivative in the first and the last piece is that of the cubic through the first and the last
    four points (none with three points): OpenSim's SimmSpline. With m the second derivatives at the knots and w the widths,

        w_(i-1) m_(i-1) + 2 (w_(i-1) + w_i) m_i + w_i m_(i+1) = 6 (rise_i - rise_(i-1))
    """
    return _through(np.asarray(x, dtype=float), np.asarray(y, dtype=float))


def _through(x: np.ndarray, y: np.ndarray) -> Function:
    n, w = len(x), np.diff(x)
    rise = np.diff(y) / w
    if n == 2:
        return Polynomial((float(y[0] - rise[0] * x[0]), float(rise[0])))
    A, b = np.zeros((n, n)), np.zeros(n)
    for i in range(1, n - 1):
        A[i, i - 1 : i + 2] = w[i - 1], 2.0 * (w[i - 1] + w[i]), w[i]
        b[i] = 6.0 * (rise[i] - rise[i - 1])
    A[0, :2] = A[-1, -2:] = -1.0, 1.0
    if n > 3:
        b[0], b[-1] = 6.0 * _third(x[:4], y[:4]) * w[0], 6.0 * _third(x[-4:], y[-4:]) * w[-1]
    m = np.linalg.solve(A, b)
    slope = np.append(rise - w * (2.0 * m[:-1] + m[1:]) / 6.0, rise[-1] + w[-1] * (m[-2] + 2.0 * m[-1]) / 6.0)
    return Knots(tuple((float(a), float(v), float(d)) for a, v, d in zip(x, y, slope, strict=True)))


def _third(x: np.ndarray, y: np.ndarray) -> float:
    """The divided difference of four points."""
    for _ in range(3):
        y = np.diff(y) / (x[len(x) - len(y) + 1 :] - x[: len(y) - 1])
    return float(y[0])
