"""Error bars of a fit with unmodelled forces; whether those are the white noise they were taken to be is tested too (`slow.py`).

**Curvature.** Gauss-Newton's `T'T` counts noise in accelerations as information and takes the noise sizes as known: on a real cart it is 13 times the curvature of L along "everything heavier". The covariance
is therefore that of the Hessian of L over parameters and noise sizes, from differences of the gradient (`Likelihood.curvature`; where random directions show that Gauss-Newton's is the same among
the parameters, that), noise sizes eliminated.

**Correlation.** The score of node k, `s_k`, adds up `T_i F_i` of the residuals near it (of a noise size `-F_i^2`); all scores together are minus the slope of the volume, which is shared out evenly. Node k moves the
estimate by `psi_k = -H^-1 s_k`. If the forces are white the psi_k have a short memory and their long-run variance (`scores.spread_of`) is H^-1; if not, it is what the parameters really scatter by. Residuals of
channels and forces are correlated with one another after smoothing, their sums per node are not: hence sums first.

**Few.** Noise sizes are found, some of them from a handful of observations in effect: then errors are not normal but Student's, and bars are larger by the ratio of the quantiles.

**Colour.** Of a force with a memory of a tenth of the run these scores tell too little; its spectrum is found within a family, and what that does to the estimates is calculated (`colour.py`). What is slow beyond doubt
(`slow.py`) does not average out over runs there.

The largest of curvature, colour and Gauss-Newton's is taken. The scatter of the scores counts where the spectrum of the forces that matter cannot be told: it is a poor measure of itself (of the mass of a real cart, the same machine moved in the same way, from 1.2 to 3.3 times the
curvature), and the largest of a good and a poor measure is mostly the poor one's error. Without it the intervals of eight kinds of forces and noise held the truth as often.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from calibody.estimate.missing.scores import forces_of, nodes_of_rows, spread_of
from calibody.estimate.noise.colour import Forces, added
from calibody.estimate.noise.hyper import At, forces
from calibody.estimate.noise.likelihood import Derivatives, Likelihood, Spot
from calibody.estimate.noise.marginal import FEW
from calibody.estimate.noise.slow import slow_forces
from calibody.estimate.result import ForceTest
from calibody.estimate.uncertainty import few
from calibody.solve.threads import one_thread

MOST = 24
"""Parameters and noise sizes up to which the Hessian of L is differenced: its cost grows with their square."""
DRAWS, SEED = 48, 0
"""Draws of the noise: with neighbours averaged, the variance of a wave is then known to a tenth."""
UNTOLD = 0.5
"""Share of a variance from which it is mostly that of forces whose spectrum the data do not tell."""
LEAST = 1e-4
"""Smallest eigenvalue of the scaled Hessian over its largest from which it is taken; below, the differences decide."""


@dataclass(frozen=True)
class Bars:
    covariance: np.ndarray
    """Of the parameters; zero for those at a bound."""
    slow: dict[str, ForceTest]
    """By joint."""
    asked: dict[str, float]
    """By channel whose noise is as stated, the least it can be: what the data would have it, by one update."""


@one_thread
def bars(function: Likelihood, spot: Spot) -> Bars:
    """At a maximum."""
    here = function.derivatives(spot)
    p, at = function.p, np.concatenate([spot.theta, spot.sizes])
    free = (at > function.lower) & (at < function.upper)
    free[p:] &= ~function.vanished(here)
    inverse = None
    if free.sum() <= MOST:
        W, H = function.curvature(spot, here, free)
        inverse = _inverse(H)
        inverse = None if inverse is None else W @ inverse @ W.T
    if inverse is None:
        inverse = np.zeros((len(at), len(at)))
        known = np.flatnonzero(free[:p])
        inverse[np.ix_(known, known)] = np.linalg.pinv(np.asarray(here.taken.information)[np.ix_(known, known)], hermitian=True)
    moves = -_scores(function, spot, here) @ inverse
    fitted = p + 2 * sum(run.structure.nv for run in spot.problem.runs)
    curved, scattered = np.diag(inverse)[:p], np.array([spread_of(moves[:, k], fitted) for k in range(p)])
    slow = _slow(function, spot, here, free[:p])
    more, untold = _colour(function, here, free[:p], inverse[:p, :p], {joint for joint, test in slow.items() if test.slow})
    student = np.array(
        [few(f) for f in freedoms(function, here, inverse)]
    )  # by how much bars are larger because the noise that they come from is itself known to so much
    larger = np.maximum.reduce([student**2 * curved, curved + more, np.where(untold > UNTOLD, scattered, 0.0)])
    ratio = np.sqrt(larger / np.maximum(curved, 1e-300))
    return Bars(inverse[:p, :p] * ratio[:, None] * ratio[None, :], slow, _asked(function, spot, here))


def freedoms(function: Likelihood, here: Derivatives, inverse: np.ndarray) -> np.ndarray:
    """(parameters,) with how many degrees of freedom the noise is known that their bars come from: `2/var(log variance)`.

    With f_j the share of a parameter's variance that noise of size l_j makes, its logarithm changes by 2 f_j with l_j: `var = 4 f'C f`, C the covariance of the sizes.
    """
    p = function.p
    moved = (here.T[:, :p] @ inverse[:p, :p]) ** 2
    whole, shares = np.maximum(moved.sum(axis=0), 1e-300), np.zeros((function.n, p))
    for j, (h, rows) in enumerate(zip(function.hypers, here.rows, strict=True)):
        if h.force or not h.process:
            shares[j] = moved[rows].sum(axis=0) / whole
    return 0.5 / np.maximum(np.einsum("jp,jk,kp->p", shares, inverse[p:, p:], shares), 1e-9)


def _asked(function: Likelihood, spot: Spot, here: Derivatives) -> dict[str, float]:
    """`sd sqrt(squares/number)`, with as many squares as there are observations in effect."""
    squares = [float((here.lin.F[rows] ** 2).sum()) for rows in here.rows]
    bounded = [not h.process and size <= h.lower and n > FEW for h, size, n in zip(function.hypers, spot.sizes, here.numbers, strict=True)]
    sizes = zip(function.hypers, bounded, squares, here.numbers, strict=True)
    return {h.name: float(np.exp(h.lower) * np.sqrt(square / n)) for h, held, square, n in sizes if held}


def _inverse(H: np.ndarray) -> np.ndarray | None:
    """Where H is positive."""
    if not len(H) or not np.isfinite(H).all() or not np.all(np.diag(H) > 0.0):
        return None
    size = np.sqrt(np.diag(H))
    mu, V = np.linalg.eigh(H / size[:, None] / size[None, :])
    return (V / mu) @ V.T / size[:, None] / size[None, :] if mu.min() > LEAST * mu.max() else None


def _scores(function: Likelihood, spot: Spot, here: Derivatives) -> np.ndarray:
    """(nodes, eta), their mean taken out."""
    nodes = _nodes(function, len(here.lin.F))
    each = here.T * here.lin.F[:, None]
    at = At(spot.problem, here.lin, forces(spot.problem, spot.x))
    for j, h in enumerate(function.hypers):
        each[:, function.p + j] = h.scores(at)
    out = np.zeros((int(nodes.max()) + 1, each.shape[1]))
    np.add.at(out, nodes[nodes >= 0], each[nodes >= 0])
    return out - out.mean(axis=0)


def _nodes(function: Likelihood, count: int) -> np.ndarray:
    """(rows of F,) the node each residual belongs to, runs one after the other; -1 for priors."""
    near, first = [], 0
    for run in function.problem.runs:
        near.append(first + nodes_of_rows(run))
        first += run.K
    out = np.concatenate(near)
    return np.concatenate([np.full(count - len(out), -1), out])


def _colour(function: Likelihood, here: Derivatives, free: np.ndarray, inverse: np.ndarray, slow: Container[str]) -> tuple[np.ndarray, np.ndarray]:
    """Variance that forces with a memory add to that of every parameter, those of `slow` joints alike in every run, and the share of its variance that is of forces whose spectrum the data do not tell. Where T is mostly noise, that noise is of the forces themselves: what goes with them is a matter of their size, not of their colour, and forces move the
    estimates by less than T says: white ones by as much as the curvature has it."""
    runs, p = function.problem.runs, function.p
    sizes = [run.samples + run.layout.priors for run in runs]
    first = len(here.lin.F) - np.cumsum(sizes[::-1])[::-1]
    drawn, moves = _drawn(here, here.T[:, :p][:, free]), here.T[:, :p] @ inverse
    joints, whole = forces_of(function.problem, first), np.maximum((moves**2).sum(axis=0), 1e-300)
    each = [added([Forces(here.lin.F[k], drawn[k], _without(moves[k], here.lin.F[k])) for k in rows], joint in slow) for joint, rows in joints.items()]
    more = sum((one for one in each if one is not None), np.zeros(p))
    untold = sum(((moves[k] ** 2).sum(axis=0) for rows, one in zip(joints.values(), each, strict=True) if one is None for k in rows), np.zeros(p))
    return more * np.minimum(1.0, np.diag(inverse) / whole), untold / whole


def coloured(function: Likelihood, here: Derivatives, free: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Variance that forces with a memory add to that of every parameter of one run; nothing where their spectrum cannot be told."""
    return _colour(function, here, free, inverse, ())[0]


def _without(moves: np.ndarray, forces: np.ndarray) -> np.ndarray:
    """What does not go with the forces as they were found."""
    return moves - np.outer(forces, forces @ moves) / max(float(forces @ forces), 1e-300)


def _drawn(here: Derivatives, T: np.ndarray) -> np.ndarray:
    """(residuals, DRAWS): of white noise what motion and parameters leave of it."""
    lin, factor = here.lin, here.taken.factor
    noise = np.random.default_rng(SEED).standard_normal((len(lin.F), DRAWS))
    left = noise - lin.Fx @ factor.solve(np.vstack([lin.Fx.T @ noise, np.zeros((len(lin.C), DRAWS))]))[: factor.n]
    Q, _ = np.linalg.qr(T / np.maximum(np.linalg.norm(T, axis=0), 1e-300)) if T.shape[1] else (T, None)
    return left - Q @ (Q.T @ left)


def _slow(function: Likelihood, spot: Spot, here: Derivatives, free: np.ndarray) -> dict[str, ForceTest]:
    """The test of every disturbed joint, all runs together."""
    return slow_forces(spot.problem, spot.x, spot.theta, here.lin, here.taken.factor, here.T[:, : function.p][:, free])
