"""`sampler = "smc"`: from a distribution that is far wider than the modes to the posterior, a little at a time (sequential Monte Carlo, [delmoral2006]).

    log p_t = (1 - t) log q + t log p,        t from 0 to 1, each time as far as leaves half of the draws of weight

with q the mixture of the modes with Student's tails and `WIDE` times their width. After every step draws are taken by their weights and moved by Hamiltonian Monte Carlo at that temperature. It costs tens of evaluations per draw, and is the one method here that
can find an explanation between or beside those that the starts have found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.estimate.common import Common
from calibody.solve import chains, importance
from calibody.solve.importance import Mixture, Weights

if TYPE_CHECKING:
    from calibody.estimate.draws.posterior import Drawing, Drawn
    from calibody.estimate.draws.target import Target

WIDE = 2.0
HALF = 0.5
"""Share of the draws that count after a step of the temperature."""
MOVES = 2
"""Trajectories of every draw at every temperature."""
STAGES = 30
"""Most temperatures."""
BLOCK = 16
STEP = 1e-4
"""Of the differences of log q, in standard deviations."""


def tempered(drawing: Drawing, before: Drawn) -> tuple[Drawn, int]:
    """Draws of the posterior, and how often log p was computed."""
    wide = before.mixture.with_tails()
    q = Mixture(tuple(replace(c, covariance=WIDE**2 * c.covariance) for c in wide.components), np.full(len(wide.components), 1.0 / len(wide.components)))
    label = f"smc-{drawing.seed}-{drawing.samples}-{drawing.modes.tried}"
    own, eta = q.draws(drawing.seed, STAGES, np.arange(drawing.samples))
    log_p = np.concatenate(
        drawing.mapped(
            valued, {f"{label}-0-{k}": {"targets": drawing.common, "own": own[k : k + BLOCK], "eta": eta[k : k + BLOCK]} for k in range(0, len(own), BLOCK)}
        )
    )
    log_q, t, total, count, weight = _log_q(q, eta), 0.0, 0.0, len(own), np.full(len(own), 1.0 / len(own))
    failed = int((~np.isfinite(log_p)).sum())
    for stage in range(1, STAGES):
        t, weight, gained = _warmed(log_p - log_q, t)
        total += gained
        drawing.report(f"tempering: {100.0 * t:.3g} %")
        picked = importance.resampled(weight, len(own), drawing.seed + stage)
        own, eta, log_p, log_q = own[picked], eta[picked], log_p[picked], log_q[picked]
        tasks = {
            f"{label}-{stage}-{k}": {"targets": drawing.common, "q": q, "t": t, "own": own[k : k + BLOCK], "eta": eta[k : k + BLOCK], "seed": drawing.seed, "first": stage * len(own) + k}
            for k in range(0, len(own), BLOCK)
        }  # fmt: skip
        moved = drawing.mapped(moved_block, tasks)
        eta, log_p = (np.concatenate([m[i] for m in moved]) for i in range(2))
        log_q, count = _log_q(q, eta), count + sum(m[2] for m in moved)
        if t >= 1.0:
            break
    ess = len(np.unique(np.round(eta, 12), axis=0)) if t >= 1.0 else 0.0
    weights = Weights(np.full(len(own), 1.0 / len(own)), before.weights.khat, total, failed)
    nearest = before.mixture.log_densities(eta).argmax(axis=0)
    return replace(
        before, sampler="smc", own=nearest, eta=eta, log_p=log_p, log_q=before.mixture.log_density(eta, nearest), weights=weights, ess=float(ess)
    ), count


def _warmed(ratio: np.ndarray, t: float) -> tuple[float, np.ndarray, float]:
    """The next temperature, the weights that lead there, and log of their mean."""
    from scipy.special import logsumexp

    def at(new: float) -> tuple[np.ndarray, float]:
        log = np.where(np.isfinite(ratio), (new - t) * np.where(np.isfinite(ratio), ratio, 0.0), -np.inf)
        return np.exp(log - logsumexp(log)), float(logsumexp(log) - np.log(len(log)))

    low, high = t, 1.0
    if 1.0 / float((at(1.0)[0] ** 2).sum()) >= HALF * len(ratio):
        return 1.0, *at(1.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if 1.0 / float((at(middle)[0] ** 2).sum()) >= HALF * len(ratio) else (low, middle)
    new = max(low, t + 1e-6)
    return new, *at(new)


def valued(targets: Common[tuple[Target, ...]], own: np.ndarray, eta: np.ndarray) -> np.ndarray:
    return np.array([targets.value[m](point).value for m, point in zip(own, eta, strict=True)])


def moved_block(
    targets: Common[tuple[Target, ...]], q: Mixture, t: float, own: np.ndarray, eta: np.ndarray, seed: int, first: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Some draws after moves at a temperature, with log p there."""
    ends, values, count = eta.copy(), np.zeros(len(eta)), 0
    for k, (m, point) in enumerate(zip(own, eta, strict=True)):
        target, component = targets.value[m], q.components[m]
        box = chains.Box(component.mean, np.linalg.cholesky(component.covariance / WIDE**2), target.lower, target.upper)
        known: dict[bytes, float] = {}

        def function(x: np.ndarray, target: Target = target, known: dict[bytes, float] = known) -> tuple[float, np.ndarray | None]:
            found = target(x, derivatives=True)
            if found.gradient is None:
                return -np.inf, None
            known[x.tobytes()] = found.value
            value, gradient = _with_gradient(q, x)
            return (1.0 - t) * value + t * found.value, (1.0 - t) * gradient + t * found.gradient

        walk = chains.walk(function, box, point, MOVES, seed, (1 << 20) + first + k)
        ends[k], count = walk.draws[-1], count + walk.evaluations
        value = known.get(walk.draws[-1].tobytes())
        values[k] = target(walk.draws[-1]).value if value is None else value
    return ends, values, count


def _log_q(q: Mixture, eta: np.ndarray) -> np.ndarray:
    from scipy.special import logsumexp

    return np.asarray(logsumexp(q.log_densities(eta), axis=0))


def _with_gradient(q: Mixture, x: np.ndarray) -> tuple[float, np.ndarray]:
    """log q and its gradient by differences."""
    size = STEP * np.sqrt(np.diag(q.components[0].covariance))
    points = np.vstack([x, x + np.diag(size), x - np.diag(size)])
    with np.errstate(invalid="ignore"):
        log = _log_q(q, np.clip(points, q.components[0].lower, q.components[0].upper))
    n = len(x)
    return float(log[0]), (log[1 : n + 1] - log[n + 1 :]) / (2.0 * size)
