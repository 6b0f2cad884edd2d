"""Search among rugged functions that are dear and cannot be differentiated: a normal distribution that is moved and bent towards the better half of its draws (CMA-ES, [hansen2016]).

    z_k = m + s A y_k,   y_k standard normal,   A A' = C;       m <- m + s sum_k w_k A y_k        over the better half, the best with the largest weight

C learns from the steps of the mean (a path p_c) and from the draws (the better half, weighed), s from whether the mean's steps go together (a path p_s as long as that of a random walk: as it is; longer: s grows). All rates are those of [hansen2016], table 1.

    minimise f(z)   subject to  g(z) <= 0

by f + PENALTY max(g): draws beyond the limits count as worse than any within them that the distribution knows of, the less they go beyond the better; so f of those that are far beyond need not be known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

PENALTY = 10.0
"""On the largest g, in units of f per unit of g."""
SMALLEST = 1e-3
"""Of the first size: where nothing is found any more."""


@dataclass(frozen=True)
class Rates:
    """For so many numbers and draws."""

    weights: np.ndarray
    effective: float
    size: float
    damped: float
    path: float
    one: float
    many: float
    length: float
    """Of a standard normal vector."""

    @classmethod
    def of(cls, n: int, count: int) -> Rates:
        half = count // 2
        w = np.log(half + 0.5) - np.log(np.arange(1, half + 1))
        w /= w.sum()
        mu = 1.0 / float((w**2).sum())
        size = (mu + 2.0) / (n + mu + 5.0)
        one = 2.0 / ((n + 1.3) ** 2 + mu)
        return cls(
            w, mu, size, 1.0 + size + 2.0 * max(0.0, float(np.sqrt((mu - 1.0) / (n + 1.0))) - 1.0), (4.0 + mu / n) / (n + 4.0 + 2.0 * mu / n), one,
            min(1.0 - one, 2.0 * (mu - 2.0 + 1.0 / mu) / ((n + 2.0) ** 2 + mu)), float(np.sqrt(n)) * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
        )  # fmt: skip


class Evolution:
    """From z on, with steps of about `size`; `both` gives f (infinite where it is not known) and g. It can be asked to go on."""

    def __init__(
        self, both: Callable[[np.ndarray], tuple[float, np.ndarray]], z: np.ndarray, size: float, seed: int, report: Callable[[float], None] | None = None
    ) -> None:
        n = len(z)
        self.both, self.report, self.random = both, report, np.random.default_rng(seed)
        self.count = 4 + int(3.0 * np.log(n))
        self.rates = Rates.of(n, self.count)
        self.mean, self.C, self.towards, self.path = z.copy(), np.eye(n), np.zeros(n), np.zeros(n)
        self.size, self.end, self.turns = size, SMALLEST * size, 0
        self.best, self.least = z, merit(*both(z))

    def go(self, evaluations: int) -> None:
        """About so many more."""
        for _ in range(evaluations // self.count):
            if self.size < self.end:
                break
            self._turn()

    def _turn(self) -> None:
        r, n = self.rates, len(self.mean)
        self.turns += 1
        spread, V = np.linalg.eigh(self.C)
        root = np.sqrt(np.maximum(spread, 1e-20))
        steps = (self.random.standard_normal((self.count, n)) * root) @ V.T
        good = steps[self._sorted(steps)[: len(r.weights)]]
        y = r.weights @ good
        self.mean = self.mean + self.size * y
        self.towards = (1.0 - r.size) * self.towards + np.sqrt(r.size * (2.0 - r.size) * r.effective) * (V @ ((V.T @ y) / root))
        far = float(np.linalg.norm(self.towards))
        slow = far / np.sqrt(1.0 - (1.0 - r.size) ** (2 * self.turns)) < (1.4 + 2.0 / (n + 1.0)) * r.length
        self.path = (1.0 - r.path) * self.path + slow * np.sqrt(r.path * (2.0 - r.path) * r.effective) * y
        self.C = (1.0 - r.one - r.many) * self.C + r.one * np.outer(self.path, self.path) + r.many * (good.T * r.weights) @ good
        self.size *= float(np.exp(r.size / r.damped * (far / r.length - 1.0)))

    def _sorted(self, steps: np.ndarray) -> np.ndarray:
        """The draws from the best to the worst; the best ever is kept."""
        values = np.array([merit(*self.both(self.mean + self.size * y)) for y in steps])
        order = np.argsort(values, kind="stable")
        if values[order[0]] < self.least:
            self.best, self.least = self.mean + self.size * steps[order[0]], float(values[order[0]])
            if self.report is not None:
                self.report(self.least)
        return order


def merit(f: float, g: np.ndarray) -> float:
    beyond = max(float(g.max(initial=0.0)), 0.0)
    return PENALTY * (10.0 + min(beyond, 1e3)) if not np.isfinite(f) else f + PENALTY * beyond
