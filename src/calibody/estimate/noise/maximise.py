"""The parameters and noise sizes that the data make most likely: Newton's method on L (`likelihood.py`), every trial judged by L itself.

**Step.** `1/2 d'H d + g'd` is minimised within a box: the bounds; log sds by at most `FARTHEST`; masses and inertias (where they cannot be negative) within the factors `LIGHTEST` to `HEAVIEST` of
what they are, a trust region in logarithms for what is a scale, while the numbers themselves stay linear, so that a friction can reach zero. H is what one linearisation knows, with what
the change of the gradient over the steps so far says that it lacks (symmetric rank one, [conn1991]: no positive definiteness is forced on
what has none), its eigenvalues then taken positive. On a cart whose accelerations are mostly noise, Gauss-Newton's curvature along "everything heavier" is 13 times too large, and without the correction iterations
crawl and stop where they are.

**Length.** 1, 1/4, 1/16 by Armijo's rule on L; then the step is damped. Trials whose motion is not found count as infinitely unlikely.

**End.** A full step promises a decrease below `DECREMENT`: `sqrt(2 DECREMENT)` standard deviations.

The force of a joint that the data want none of (`Likelihood.vanished`) is held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calibody.estimate.noise.likelihood import Derivatives, Likelihood, Spot
from calibody.estimate.noise.marginal import FARTHEST
from calibody.estimate.unknowns import Entry
from calibody.solve.condensed import bounded
from calibody.solve.gauss_newton import Iteration
from calibody.solve.threads import one_thread

LIGHTEST, HEAVIEST = 0.5, 2.0
RISES = 0.1
"""Declared scales by which a mass or inertia may grow in any step: from next to nothing, where another fit may have left it, doubling leads nowhere, and steps that can promise nothing look like the end."""
DECREMENT = 1e-4
SHORTEST = 0.04
"""Length below which a step is damped instead."""
DAMPINGS = 8
PROXIMAL = 1e-2
"""Every step is held to where it starts from as if that were known to ten declared scales: nothing where the data say more, and what they do not determine stays where it is."""
LEARNT = 1e-3
"""Cosine between a step and what it lacked below which nothing is learnt from it (the update would divide by next to nothing)."""
NOTHING = 0.05
"""Standard deviations: three steps in a row below it that promise next to nothing are the end, though noise sizes may go on to where they have no effect."""
SLACK = 1e-3
"""Decrease of L that rounding and the end of smoothing may leave unfulfilled."""


@dataclass(frozen=True)
class Found:
    """The best spot, the derivatives where the last step was taken from, and "converged" or a sentence."""

    spot: Spot
    last: Derivatives | None
    status: str


@one_thread
def maximise(function: Likelihood, spot: Spot, report: Callable[[Iteration], None], most: int = 60) -> Found:
    """From a spot on."""
    p = function.p
    if not np.isfinite(spot.value):
        return Found(spot, None, "stopped at the start: no motion was found that fits the initial values; give better ones.")
    inertial = np.append(scales(function.problem.entries), np.zeros(function.n, dtype=bool))
    lacking = Lacking(p + function.n)
    damping, decrement, small = 0.0, np.inf, 0
    here: Derivatives | None = None
    for number in range(1, most + 1):
        here = function.derivatives(spot)
        H = positive(_in_variances(function, lacking.seen(spot, here), here.gradient), np.asarray(here.taken.information))
        low, high = _room(function, spot, here, inertial)
        new, d, length = spot, np.zeros(p + function.n), 0.0
        for _ in range(DAMPINGS):
            held = (1e-6 + damping) * np.diag(H) + np.concatenate([PROXIMAL / function.problem.scale**2, np.zeros(function.n)])
            d, _ = bounded(H + np.diag(held), here.gradient, low, high, function.scale)
            decrement = float(-(here.gradient @ d) - 0.5 * d @ H @ d)
            new, length = _search(function, spot, here, d)
            if length > 0.0 or decrement < SLACK:
                break
            damping = max(10.0 * damping, 0.1)
        change = float(np.sqrt(max(d[:p] @ np.asarray(here.taken.information)[:p, :p] @ d[:p], 0.0)))
        report(Iteration(number, spot.value, float(np.abs(here.lin.C).max(initial=0.0)), length, change, damping, new.theta))
        if length == 0.0:
            good = decrement < SLACK
            return Found(spot, here, "converged" if good else f"stopped at iteration {number}: no step makes the data more likely; give better initial values.")
        spot = new
        small = small + 1 if decrement < 10.0 * SLACK and change < NOTHING else 0
        if (length == 1.0 and damping < 1e-6 and decrement < DECREMENT) or small >= 3:
            return Found(spot, here, "converged")
        if length > 0.9:
            damping = damping / 10.0 if damping > 1e-3 else 0.0
    sentence = f"stopped after {most} iterations without converging; the last step promised a likelihood larger by a factor of exp({decrement:.2g})."
    return Found(spot, here, sentence)


def _in_variances(function: Likelihood, H: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """H with the curvature of forces that are to become smaller as Newton's step for their variances `v = exp(2 l)` has it, `H - 2 g`.

    A force that the data do not want has L nearly linear in v, down to v = 0; in l that is an exponential, along which Newton's own steps are 1/2, however far the end.
    """
    out = H.copy()
    for k, h in enumerate(function.hypers, start=function.p):
        if h.force and gradient[k] > 0.0:
            out[k, k] = max(H[k, k] - 2.0 * gradient[k], gradient[k] / FARTHEST)
    return out


def scales(entries: Sequence[Entry]) -> np.ndarray:
    """Which parameters are masses or inertias that cannot be negative."""
    words = ("mass", "armature")
    return np.array(
        [
            bool(e.places) and all(p.sensor is None and (p.path.rsplit(".", 1)[-1] in words or ".inertia." in p.path) for p in e.places) and e.initial > 0.0
            for e in entries
        ],
        dtype=bool,
    )


def positive(H: np.ndarray, information: np.ndarray) -> np.ndarray:
    """H with its eigenvalues positive, in units of its own diagonal."""
    d = np.sqrt(np.maximum(np.abs(np.diag(H)), np.maximum(1e-6 * np.diag(information), 1e-300)))
    mu, V = np.linalg.eigh(H / d[:, None] / d[None, :])
    mu = np.maximum(np.abs(mu), 1e-9 * np.abs(mu).max(initial=1e-300))
    return (V * mu) @ V.T * d[:, None] * d[None, :]


class Lacking:
    """What one linearisation's Hessian lacks, from the change of the gradient over the steps so far (symmetric rank one)."""

    def __init__(self, size: int) -> None:
        self.matrix = np.zeros((size, size))
        self.before: tuple[np.ndarray, np.ndarray] | None = None

    def seen(self, spot: Spot, here: Derivatives) -> np.ndarray:
        """The corrected Hessian at a spot, after what the way there has taught."""
        at = np.concatenate([spot.theta, spot.sizes])
        if self.before is not None:
            moved, changed = at - self.before[0], here.gradient - self.before[1]
            lacks = changed - (here.hessian + self.matrix) @ moved
            along, size = float(lacks @ moved), np.sqrt(np.maximum(np.abs(np.diag(here.hessian)), 1e-300))
            if abs(along) > LEARNT * float(np.linalg.norm(lacks / size) * np.linalg.norm(moved * size)):
                self.matrix = self.matrix + np.outer(lacks, lacks) / along
        self.before = at, here.gradient
        return here.hessian + self.matrix


def _room(function: Likelihood, spot: Spot, here: Derivatives, inertial: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far each of eta may go in this step."""
    p, at = function.p, np.concatenate([spot.theta, spot.sizes])
    low, high = function.lower - at, function.upper - at
    held = function.vanished(here)
    low[p:], high[p:] = np.where(held, 0.0, np.maximum(low[p:], -FARTHEST)), np.where(held, 0.0, np.minimum(high[p:], FARTHEST))
    scale = inertial & (at > 0.0)
    most = np.maximum((HEAVIEST - 1.0) * at, RISES * function.scale)
    low, high = np.where(scale, np.maximum(low, (LIGHTEST - 1.0) * at), low), np.where(scale, np.minimum(high, most), high)
    return np.minimum(low, 0.0), np.maximum(high, 0.0)


def _search(function: Likelihood, spot: Spot, here: Derivatives, d: np.ndarray) -> tuple[Spot, float]:
    """The first length of the step that makes the data more likely; the spot itself and 0 if none does."""
    p, promised, length = function.p, float(here.gradient @ d), 1.0
    while length > SHORTEST:
        sizes = spot.sizes + length * d[p:]
        x = function.resized(spot.problem, sizes).move(spot.x, length * (here.response @ d))
        trial = function.at(x, function.problem.shift(spot.theta, length * d[:p]), sizes)
        if trial.value <= spot.value + 1e-4 * length * promised + 1e-9 * abs(spot.value) + (SLACK if -promised < 1.0 else 0.0):
            return trial, length
        length *= 0.25
    return spot, 0.0
