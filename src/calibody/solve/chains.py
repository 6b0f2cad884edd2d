"""Hamiltonian Monte Carlo on a function and its gradient, in coordinates in which the distribution is about round; bounds are walls.

`theta = mean + L z` with L L' the covariance of a Gaussian that is near: in z one step size does for all directions. A trajectory has `STEPS` leapfrog steps of about `LENGTH` (drawn anew each time, so that no period of the motion is met), and its end is
accepted by the change of energy. At a wall, a plane of z with the normal `L_k` for coordinate k, the momentum is reflected; reflections keep volume and energy and can be run backwards, so that the chain stays exact. The gradient need not be exact for that: any
field that is a function of z will do, a poor one is rejected more often.

Chains agree where the rank-normalised split R-hat is below 1.01, and tell as much as `bulk ESS` independent draws ([vehtari2021]).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

STEPS, LENGTH = 3, 0.6
JITTER = 0.2
REFLECTIONS = 50
"""Most in one step: more are a corner, and the trajectory is rejected."""
AGREE, ENOUGH = 1.01, 400.0
"""R-hat up to which chains agree, and how many independent draws they should be worth."""

Function = Callable[[np.ndarray], tuple[float, np.ndarray | None]]
"""log p and its gradient; -inf and None where it cannot be had."""


@dataclass(frozen=True, eq=False)
class Walk:
    """One chain."""

    draws: np.ndarray
    log_p: np.ndarray
    accepted: float
    evaluations: int
    failed: int


@dataclass(frozen=True, eq=False)
class Box:
    """Coordinates in which the distribution is round, and the walls there."""

    mean: np.ndarray
    L: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def theta(self, z: np.ndarray) -> np.ndarray:
        return np.clip(self.mean + self.L @ z, self.lower, self.upper)

    def z(self, theta: np.ndarray) -> np.ndarray:
        return np.linalg.solve(self.L, theta - self.mean)

    def moved(self, z: np.ndarray, q: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray] | None:
        """A straight way with the momentum q, reflected at walls; None if it does not get out of a corner."""
        for _ in range(REFLECTIONS):
            at, speed = self.mean + self.L @ z, self.L @ q
            with np.errstate(divide="ignore", invalid="ignore"):
                ahead = np.where(speed > 0.0, (self.upper - at) / speed, np.where(speed < 0.0, (self.lower - at) / speed, np.inf))
            ahead = np.where(np.isnan(ahead), np.inf, np.maximum(ahead, 0.0))
            wall = int(np.argmin(ahead))
            if ahead[wall] >= length:
                return z + length * q, q
            z, length = z + ahead[wall] * q, length - ahead[wall]
            normal = self.L[wall] / np.linalg.norm(self.L[wall])
            q = q - 2.0 * (q @ normal) * normal
        return None


def walk(function: Function, box: Box, start: np.ndarray, draws: int, seed: int, chain: int) -> Walk:
    """A chain from a point where the function can be had; it depends on (seed, chain) alone."""
    random = np.random.Generator(np.random.Philox(key=[seed, (1 << 40) + chain]))
    z = box.z(start)
    value, gradient = _pulled(function, box, z)
    out, log_p, accepted, evaluations, failed = np.zeros((draws, len(z))), np.zeros(draws), 0, 1, 0
    for i in range(draws):
        q = random.standard_normal(len(z))
        length = LENGTH * (1.0 - JITTER + 2.0 * JITTER * random.random())
        luck = np.log(random.random())
        end = _trajectory(function, box, z, q, gradient, length)
        evaluations += STEPS
        if end is None:
            failed += 1
        elif luck < end[2] - value - 0.5 * (end[1] @ end[1] - q @ q):
            z, _, value, gradient = end
            accepted += 1
        out[i], log_p[i] = box.theta(z), value
    return Walk(out, log_p, accepted / max(draws, 1), evaluations, failed)


def joined(parts: Sequence[Walk]) -> Walk:
    """A chain that has gone on."""
    draws, log_p = np.concatenate([w.draws for w in parts]), np.concatenate([w.log_p for w in parts])
    return Walk(draws, log_p, float(np.mean([w.accepted for w in parts])), sum(w.evaluations for w in parts), sum(w.failed for w in parts))


def _pulled(function: Function, box: Box, z: np.ndarray) -> tuple[float, np.ndarray]:
    value, gradient = function(box.theta(z))
    return value, np.zeros(len(z)) if gradient is None else box.L.T @ gradient


def _trajectory(
    function: Function, box: Box, z: np.ndarray, q: np.ndarray, gradient: np.ndarray, length: float
) -> tuple[np.ndarray, np.ndarray, float, np.ndarray] | None:
    """Its end, with the momentum, log p and gradient there."""
    value = -np.inf
    for _ in range(STEPS):
        gone = box.moved(z, q + 0.5 * length * gradient, length)
        if gone is None:
            return None
        z, q = gone
        value, gradient = _pulled(function, box, z)
        if not np.isfinite(value):
            return None
        q = q + 0.5 * length * gradient
    return z, q, value, gradient


def agreement(chains: np.ndarray) -> tuple[float, float]:
    """R-hat and bulk ESS, the worst over the columns of (chains, draws, columns)."""
    from arviz_stats.base.array import array_stats

    stats: Any = array_stats  # its types say less than what it gives
    columns = [chains[:, :, k] for k in range(chains.shape[2])]
    rhat = max(float(stats.rhat(c, chain_axis=0, draw_axis=1)) for c in columns)
    ess = min(float(stats.ess(c, chain_axis=0, draw_axis=1)) for c in columns)
    return rhat, ess
