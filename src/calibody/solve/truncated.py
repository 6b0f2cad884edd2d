"""A Gaussian or Student's distribution truncated to a box: drawn, its density and its mass, coordinate by coordinate.

With `theta = m + L z`, L lower triangular in an order of the coordinates, z has independent entries (or, of Student's distribution, each has Student's distribution given those before), and the bounds of coordinate k are bounds of z_k
once those before are drawn. So every z_k is drawn from a truncated distribution of one dimension by inverting it at a uniform number (GHK: Geweke, Hajivassiliou, Keane; [genz2009], section 4.2), and the density of what was drawn
is known in closed form,

    q(theta) = prod_k f(z_k) / (L_kk (F(b_k) - F(a_k)))

It is the truncated distribution itself where only the first coordinate is truncated, else near it: hence the most truncated come first. Its mean weight, `mean of prod_k (F(b_k) - F(a_k))`, is the mass of the box.

Of Student's distribution with nu degrees of freedom, z_k given those before is Student's with nu + k degrees, times `sqrt((nu + z_0^2 + ... + z_(k-1)^2)/(nu + k))`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

LOG_2PI = float(np.log(2.0 * np.pi))
TINY = 1e-300
POINTS = 11
"""Powers of two of the Sobol points by which the mass of a box is found: a per cent in ten dimensions."""


@dataclass(frozen=True, eq=False)
class Truncated:
    mean: np.ndarray
    """Of the distribution without bounds; may lie outside them."""
    covariance: np.ndarray
    """Of the Gaussian; the scale matrix of Student's."""
    lower: np.ndarray
    upper: np.ndarray
    freedom: float = np.inf
    """Degrees of freedom of Student's distribution; inf: Gaussian."""

    @cached_property
    def order(self) -> np.ndarray:
        """The coordinates, the most truncated first."""
        sd = np.sqrt(np.diag(self.covariance))
        return np.argsort(np.minimum(self.mean - self.lower, self.upper - self.mean) / sd, kind="stable")

    @cached_property
    def L(self) -> np.ndarray:
        return np.linalg.cholesky(self.covariance[np.ix_(self.order, self.order)])

    def drawn(self, uniforms: np.ndarray) -> np.ndarray:
        """(n, dimensions) from as many uniform numbers."""
        z = np.zeros_like(uniforms)
        for k in range(z.shape[1]):
            low, high, scale = self._room(z, k)
            z[:, k] = np.clip(_between(low, high, uniforms[:, k], self.freedom + k), low, high) * scale
        theta = np.empty_like(z)
        theta[:, self.order] = self.mean[self.order] + z @ self.L.T
        return np.clip(theta, self.lower, self.upper)

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """(n,) of what `drawn` draws; -inf outside."""
        from scipy.linalg import solve_triangular

        theta = np.atleast_2d(theta)
        z = solve_triangular(self.L, (theta - self.mean)[:, self.order].T, lower=True).T
        out = np.full(len(theta), -float(np.log(np.diag(self.L)).sum()))
        for k in range(z.shape[1]):
            low, high, scale = self._room(z, k)
            out += _log_f(z[:, k] / scale, self.freedom + k) - np.log(scale) - np.log(_mass(low, high, self.freedom + k))
        inside = np.all((theta >= self.lower) & (theta <= self.upper), axis=1)
        return np.where(inside, out, -np.inf)

    def log_unbounded(self, theta: np.ndarray) -> float:
        """Of one point, as if there were no bounds."""
        free = Truncated(self.mean, self.covariance, np.full(len(self.mean), -np.inf), np.full(len(self.mean), np.inf), self.freedom)
        return float(free.log_density(theta)[0])

    @cached_property
    def log_mass(self) -> float:
        """Of the box."""
        from scipy.special import logsumexp
        from scipy.stats import qmc

        if not (np.isfinite(self.lower).any() or np.isfinite(self.upper).any()):
            return 0.0
        uniforms = qmc.Sobol(len(self.mean), rng=np.random.default_rng(0)).random_base2(POINTS)
        z, log = np.zeros_like(uniforms), np.zeros(len(uniforms))
        for k in range(z.shape[1]):
            low, high, scale = self._room(z, k)
            log += np.log(_mass(low, high, self.freedom + k))
            z[:, k] = np.clip(_between(low, high, uniforms[:, k], self.freedom + k), low, high) * scale
        return float(logsumexp(log) - np.log(len(log)))

    def _room(self, z: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bounds of z_k given those before, in units of its scale, and that."""
        scale = np.ones(len(z))
        if np.isfinite(self.freedom):
            scale = np.sqrt((self.freedom + (z[:, :k] ** 2).sum(axis=1)) / (self.freedom + k))
        middle = self.mean[self.order[k]] + z[:, :k] @ self.L[k, :k]
        size = self.L[k, k] * scale
        return (self.lower[self.order[k]] - middle) / size, (self.upper[self.order[k]] - middle) / size, scale


def _between(low: np.ndarray, high: np.ndarray, u: np.ndarray, freedom: float) -> np.ndarray:
    """The quantile u of a distribution of one dimension between two bounds; above the middle from the other side, where the distribution function is not all but one."""
    flipped = low > 0.0
    a, b = np.where(flipped, -high, low), np.where(flipped, -low, high)
    v = np.where(flipped, 1.0 - u, u)
    x = _quantile(np.clip(_F(a, freedom) + v * (_F(b, freedom) - _F(a, freedom)), TINY, 1.0 - 1e-16), freedom)
    return np.where(flipped, -x, x)


def _mass(low: np.ndarray, high: np.ndarray, freedom: float) -> np.ndarray:
    flipped = low > 0.0
    a, b = np.where(flipped, -high, low), np.where(flipped, -low, high)
    return np.maximum(_F(b, freedom) - _F(a, freedom), TINY)


def _F(x: np.ndarray, freedom: float) -> np.ndarray:
    from scipy.special import ndtr, stdtr

    if not np.isfinite(freedom):
        return ndtr(x)
    return np.where(np.isposinf(x), 1.0, np.where(np.isneginf(x), 0.0, stdtr(freedom, np.where(np.isfinite(x), x, 0.0))))


def _quantile(u: np.ndarray, freedom: float) -> np.ndarray:
    from scipy.special import ndtri, stdtrit

    return ndtri(u) if not np.isfinite(freedom) else stdtrit(freedom, u)


def _log_f(x: np.ndarray, freedom: float) -> np.ndarray:
    from scipy.special import gammaln

    if not np.isfinite(freedom):
        return -0.5 * x**2 - 0.5 * LOG_2PI
    norm = gammaln(0.5 * (freedom + 1.0)) - gammaln(0.5 * freedom) - 0.5 * np.log(freedom * np.pi)
    return norm - 0.5 * (freedom + 1.0) * np.log1p(x**2 / freedom)
