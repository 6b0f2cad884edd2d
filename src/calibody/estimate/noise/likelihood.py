"""The likelihood of parameters and noise sizes together, the motion integrated out: the one function that a fit with unmodelled forces is about.

With eta = (theta, l), l the logarithms of the noise sizes that are found (the force of a joint, the noise of a channel),

    L(eta) = cost(x*, eta) + V(x*, eta) + sum_channels N l,       x*(eta) = argmin_x cost  subject to the equations (smoothing)
    V = 1/2 log |det K| - log |det C_b|                           (`marginal.py`; K the matrix of the states, `solve/condensed.py`)

and, where forces of several joints may go together, what is believed of that (`coupling.py`), is minus the logarithm of the marginal likelihood by Laplace's method. It judges the step, its length, the noise sizes and the start; the cost is never minimised over motion and parameters
together, which would favour light mechanisms (V holds `-log det` of the masses of all nodes).

**Gradient.** A noise size is a parameter like any other: at fixed z the force `sd z` grows with l, so its column of the equations is `Cx_z z`; the residuals of a channel shrink, its column of F is
-F. One factorisation gives the slope of the cost (by the envelope theorem; for a force `-sum z^2`) and how the states follow, `X = dx/d eta`. With S the entries of K^-1 next to the diagonal
(`solve/selected.py`) the volume follows along (eta_i, X_i) by

    dV = sum S_cx dCx + 1/2 sum S_xx d(Fx'Fx) - d log |det C_b|

with dCx and dFx from one more linearisation a small step along (no factorisation); where S cannot be had, from differences of V itself.

**Hessian.** Gauss-Newton's `T'T`, T how the residuals follow eta, for theta; for the noise sizes the derivative of `-sum z^2` itself, `-2 z'dz/d eta` (and `-2 F_c'T_c` of a channel), of which
Gauss-Newton has half: mass and noise size would seem bound together that are not. For the same reason the states' response to a noise size is completed by the change of their derivatives with it (`_followed`). What both lack, the curvature of V and of the residuals, is learnt from gradients (`maximise.py`) and, once at the end, taken from
differences of the gradient (`curvature`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.layout import States
from calibody.estimate.noise import coupling, marginal
from calibody.estimate.noise.hyper import At, Hyper, forces, resized
from calibody.estimate.noise.marginal import FARTHEST, FEW
from calibody.estimate.noise.smoothing import Smoothed, smooth
from calibody.estimate.problem import Problem
from calibody.solve.condensed import Following, Linearisation, Step, step
from calibody.solve.selected import Selected

NEAR = 1e-4
"""Step of the differences along a parameter, in units of its sd or of a tenth of its scale, whichever is less; of a log sd as it is. V' is off by half of it times V'': nothing."""
RISES = (2.0, 4.0, 6.0)
"""By how much log sds of forces are raised to find a motion."""
ASIDE = 0.5
"""Step of differences of the gradient, in units of the directions (standard deviations): the two ends are one apart, so that the curvature is that over the width of what it is the width of. Its error,
a 24th of the fourth derivative, is a few per cent where an error bar means anything; much shorter steps see rounding and the bends of friction."""
PROBES = 3
NEGLIGIBLE = 0.1
"""Root of the sum of squares of what Gauss-Newton's matrix lacks, in its own units, that is nothing: error bars are off by a twentieth at most. Three probes miss one of 0.3 in one case of twenty."""


@dataclass(frozen=True)
class Spot:
    """A value of eta with the motion that belongs to it. `value` is L, infinite where no motion was found."""

    problem: Problem
    """With the noise sizes of this spot."""
    x: Sequence[States]
    theta: np.ndarray
    sizes: np.ndarray
    value: float
    cost: float
    smoothed: Smoothed | None


@dataclass(frozen=True)
class Derivatives:
    """Of L at a spot, by theta and then by the noise sizes."""

    gradient: np.ndarray
    hessian: np.ndarray
    """As far as one linearisation knows it."""
    slope: np.ndarray
    """The volume's part of the gradient."""
    taken: Step
    lin: Linearisation
    """With a column for each noise size."""
    rows: tuple[np.ndarray, ...]
    """Of F: those that each noise size scales."""
    numbers: np.ndarray
    """Effective observations of each noise size at fixed motion: `d V/d l` of a force, `N + dV/d l` of a channel."""

    @property
    def response(self) -> np.ndarray:
        """How the states follow eta."""
        return self.taken.response[: self.taken.factor.n]

    @cached_property
    def T(self) -> np.ndarray:
        """How the residuals follow eta."""
        return self.lin.Ft + self.lin.Fx @ self.response


class Likelihood:
    """L of a problem and of the noise sizes that are found in it."""

    def __init__(self, problem: Problem, hypers: Sequence[Hyper]) -> None:
        self.problem, self.hypers = problem, tuple(hypers)
        self.p, self.n = len(problem.entries), len(self.hypers)
        self.lower = np.concatenate([problem.lower, [h.lower for h in self.hypers]])
        self.upper = np.concatenate([problem.upper, [h.upper for h in self.hypers]])
        self.scale = np.concatenate([problem.scale, np.ones(self.n)])

    # -- noise sizes -------------------------------------------------------------------------------------------------------------

    def sizes(self, problem: Problem) -> np.ndarray:
        """The logarithm of each sd."""
        return np.array([h.log_sd(problem) for h in self.hypers])

    def resized(self, problem: Problem, sizes: np.ndarray) -> Problem:
        return resized(problem, self.hypers, sizes)

    @cached_property
    def counts(self) -> np.ndarray:
        """Samples of each channel; 0 for forces."""
        return np.array(
            [0.0 if h.process else sum(len(d.y) for run in self.problem.runs for d in run.data if h.covers(run, d.channel.path)) for h in self.hypers]
        )

    # -- the function ---------------------------------------------------------------------------------------------------------------

    def at(self, x: Sequence[States], theta: np.ndarray, sizes: np.ndarray, most: int = 25) -> Spot:
        """L with the motion found from x on, in at most so many steps."""
        problem = self.resized(self.problem, sizes)
        try:
            found = smooth(problem, x, theta, most)
        except (CalibodyError, np.linalg.LinAlgError):  # no mechanism has such numbers
            return Spot(problem, x, theta, sizes, np.inf, np.inf, None)
        value = found.cost + found.volume + float(self.counts @ sizes) + coupling.belief(problem.runs[0].noise) if found.converged else np.inf
        return Spot(problem, found.x, theta, sizes, value if np.isfinite(value) else np.inf, found.cost, found)

    def found(self, x: Sequence[States], theta: np.ndarray, sizes: np.ndarray) -> Spot:
        """L where the motion of another mesh begins: if forces are next to nothing it may not be found from there at once, but with larger ones."""
        spot = self.at(x, theta, sizes)
        process = np.array([h.force for h in self.hypers], dtype=bool)
        for rise in RISES if process.any() else ():
            if np.isfinite(spot.value):
                break
            raised = sizes + rise * process
            spot = self.at(self.problem.carried(x, self.resized(self.problem, raised)), theta, raised)
        return spot

    def refreshed(self, spot: Spot) -> Spot:
        """With every noise size moved to where L would have its minimum if the effective numbers of observations did not change: `l += 1/2 log(squares/number)`."""
        problem = spot.problem
        lin = problem.linearise(spot.x, spot.theta, parameters=False).whole
        at = At(problem, lin, forces(problem, spot.x))
        rows = [at.rows(h) for h in self.hypers]
        selected = self._selected(lin)
        if selected is None:
            return spot
        squares = np.array([float(lin.F[mine] @ lin.F[mine]) for mine in rows])
        numbers = self._numbers(lin, rows, selected, np.zeros(self.p + self.n))
        asked = (numbers >= FEW) & np.isfinite(numbers)
        change = 0.5 * np.log(np.maximum(squares, 1e-300) / np.where(asked, numbers, 1.0))
        change = np.where(asked, np.clip(change, -FARTHEST, FARTHEST), 0.0)
        sizes = np.maximum(spot.sizes + change, self.lower[self.p :])
        return self.at(problem.carried(spot.x, self.resized(problem, sizes)), spot.theta, sizes)

    def derivatives(self, spot: Spot) -> Derivatives:
        problem = spot.problem
        lin, at = self._augmented(problem, spot)
        rows = [at.rows(h) for h in self.hypers]
        wide = np.full(self.p + self.n, np.inf)
        taken = step(lin, np.zeros(self.p + self.n), -wide, wide, np.zeros(self.p + self.n), self.scale)
        taken = self._followed(taken, at)
        selected = self._selected(lin)
        slope = self._slope(problem, spot, lin, taken, selected)
        gradient = taken.gradient + slope
        gradient[self.p :] += self.counts + coupling.belief_by(problem.runs[0].noise, self.hypers)
        H = np.array(taken.information)
        T = lin.Ft + lin.Fx @ taken.response[: taken.factor.n]
        for j, h in enumerate(self.hypers):
            H[self.p + j] = H[:, self.p + j] = h.curved(at, T, taken.response[: taken.factor.n], self.hypers)
        both = slice(self.p, None)
        H[both, both] = 0.5 * (H[both, both] + H[both, both].T) + coupling.belief_by_twice(problem.runs[0].noise, self.hypers)
        return Derivatives(gradient, H, slope, taken, lin, tuple(rows), self._numbers(lin, rows, selected, slope))

    def vanished(self, here: Derivatives) -> np.ndarray:
        """(noise sizes,) which are of a joint of whose force there are fewer than `FEW` effective observations, and which L does not want larger: the data want none."""
        of = zip(self.hypers, here.numbers, here.gradient[self.p :], strict=True)
        joints = {h.name for h, number, slope in of if h.process and not (number > FEW or slope < -FEW)}
        return np.array([h.process and h.name in joints for h in self.hypers], dtype=bool)

    def _augmented(self, problem: Problem, spot: Spot) -> tuple[Linearisation, At]:
        """The linearisation with a column per noise size, and where that is."""
        lin = problem.linearise(spot.x, spot.theta).whole
        at = At(problem, lin, forces(problem, spot.x))
        F, C = np.zeros((len(lin.F), self.n)), np.zeros((len(lin.C), self.n))
        for j, h in enumerate(self.hypers):
            F[:, j], C[:, j] = h.columns(at)
        return replace(lin, Ft=np.hstack([lin.Ft, F]), Ct=np.hstack([lin.Ct, C])), at

    def _followed(self, taken: Step, at: At) -> Step:
        """With the response of the states to the noise sizes complete: Gauss-Newton leaves out how the derivatives themselves change with a size, which here is as much as the rest."""
        changed = np.zeros((len(taken.response), self.n))
        for j, h in enumerate(self.hypers):
            changed[: at.lin.Fx.shape[1], j] = h.pulled(at)
        (only,) = taken.runs
        solved = np.column_stack([taken.response, only.following.step(np.zeros(self.p + self.n))])
        solved[:, self.p : -1] -= taken.factor.solve(changed)
        return replace(taken, runs=(replace(only, following=Following(solved)),))

    @staticmethod
    def _selected(lin: Linearisation) -> Selected | None:
        """The entries of K^-1, where they can be had."""
        if lin.when is None:
            return None
        try:
            found = Selected(lin)
        except np.linalg.LinAlgError:
            return None
        return found if found.good else None

    def _slope(self, problem: Problem, spot: Spot, lin: Linearisation, taken: Step, selected: Selected | None) -> np.ndarray:
        """dV/d eta, the states following."""
        sd = np.sqrt(1.0 / np.maximum(taken.information.diagonal(), 1e-300))
        steps = np.minimum(sd, 0.1 * self.scale)
        steps[self.p :] = 1.0
        steps *= NEAR if selected is not None else 0.1
        response, out = taken.response[: taken.factor.n], np.zeros(self.p + self.n)
        still = self.lower >= self.upper
        before = marginal.dependent(problem, lin) if selected is not None else 0.0
        seen = np.any(lin.Ft, axis=0)  # by the sensors: others move Fx only with the states, and if one does not, none does
        bent = True
        for k in np.flatnonzero(~still).tolist():
            if selected is None:
                ends = [marginal.volume(*self._aside(spot, k, sign * steps[k], response)) for sign in (1.0, -1.0)]
                out[k] = (ends[0] - ends[1]) / (2.0 * steps[k])
                continue
            other, x, theta = self._aside(spot, k, steps[k], response)
            residuals = bent or bool(seen[k])
            moved = other.linearise(x, theta, parameters=False, residuals=residuals).whole
            change = selected.weigh(moved.Cx - lin.Cx, taken.factor.n)
            if residuals:
                by_states = moved.Fx - lin.Fx if moved.Fx.shape == lin.Fx.shape else moved.Fx - lin.Fx[len(lin.F) - len(moved.F) :]
                by_states.eliminate_zeros()
                bent = bent and (bool(seen[k]) or by_states.nnz > 0)
                change += selected.weigh(lin.Fx[len(lin.F) - len(moved.F) :].T @ by_states) if by_states.nnz else 0.0
            out[k] = (change - (marginal.dependent(other, moved) - before)) / steps[k]
        return out

    def _aside(self, spot: Spot, k: int, by: float, response: np.ndarray) -> tuple[Problem, list[States], np.ndarray]:
        """A step along (eta_k, X_k)."""
        theta, sizes = spot.theta.copy(), spot.sizes.copy()
        if k < self.p:
            theta[k] += by
        else:
            sizes[k - self.p] += by
        problem = self.resized(spot.problem, sizes)
        return problem, problem.move(spot.x, by * response[:, k]), theta

    def _numbers(self, lin: Linearisation, rows: Sequence[np.ndarray], selected: Selected | None, slope: np.ndarray) -> np.ndarray:
        """How many observations of each noise there are, in effect, at fixed motion; of a correlation time that is not asked."""
        out = np.zeros(self.n)
        for j, (h, mine) in enumerate(zip(self.hypers, rows, strict=True)):
            if not h.sizing:
                out[j] = np.inf
            elif selected is None:
                out[j] = slope[self.p + j] + self.counts[j]
            elif h.process:
                columns = lin.Fx[mine].indices
                out[j] = selected.weigh(_only(lin.Cx, columns), lin.Fx.shape[1])
            else:
                part = lin.Fx[mine]
                out[j] = self.counts[j] - selected.weigh(part.T @ part)
        return out

    # -- once, at the end --------------------------------------------------------------------------------------------------------

    def curvature(self, spot: Spot, here: Derivatives, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Directions W (eta, count) among the free of eta, and the second derivatives of L along them, from differences of its gradient, the motion found anew for each.

        The directions are the principal axes of Gauss-Newton's information, a standard deviation long: where parameters are nearly indistinguishable their own axes would drown what tells
        them apart in the differences' error. What Gauss-Newton lacks among the parameters, D, is often nothing: for normal v, the mean of |D v|^2 is the sum of the squares of D, and where
        `PROBES` of them are below `NEGLIGIBLE` its own matrix is taken. That of the noise sizes lacks the volume's and is always differenced.
        """
        W = self._axes(spot, here, free)
        known = W.T @ here.hessian @ W
        H, parameters = known.copy(), int(free[: self.p].sum())
        for k in range(parameters, W.shape[1]):
            H[:, k] = H[k] = self._along(spot, here, W, W[:, k])
        random = np.random.default_rng(0)
        lacking = []
        for _ in range(PROBES if parameters > PROBES else 0):
            v = random.standard_normal(parameters)
            length = float(np.linalg.norm(v))
            there = self._along(spot, here, W, W[:, :parameters] @ v / length)[:parameters] * length
            lacking.append(float(((there - known[:parameters, :parameters] @ v) ** 2).sum()))
        if not lacking or np.mean(lacking) > NEGLIGIBLE**2:
            for k in range(parameters):
                H[:parameters, k] = self._along(spot, here, W, W[:, k])[:parameters]
        return W, 0.5 * (H + H.T)

    def _along(self, spot: Spot, here: Derivatives, W: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The change of the gradient along w, in the directions W."""
        ends = []
        for sign in (ASIDE, -ASIDE):
            sizes = spot.sizes + sign * w[self.p :]
            x = self.resized(spot.problem, sizes).move(spot.x, sign * (here.response @ w))
            there = self.at(x, spot.theta + sign * w[: self.p], sizes)
            ends.append((sign, self.derivatives(there).gradient) if np.isfinite(there.value) else (0.0, here.gradient))
        far = ends[0][0] - ends[1][0]
        return W.T @ (ends[0][1] - ends[1][1]) / far if far else W.T @ here.hessian @ w

    def _axes(self, spot: Spot, here: Derivatives, free: np.ndarray) -> np.ndarray:
        theta = np.flatnonzero(free[: self.p])
        information = np.asarray(here.taken.information)[np.ix_(theta, theta)]
        size = np.sqrt(np.maximum(np.diag(information), 1e-300))
        mu, V = np.linalg.eigh(information / size[:, None] / size[None, :])
        W = np.zeros((self.p + self.n, len(theta)))
        W[theta] = V / np.sqrt(np.maximum(mu, 1e-12 * mu.max(initial=1.0))) / size[:, None]
        far = np.abs(W[: self.p]) / (0.3 * np.maximum(self.problem.scale, np.abs(spot.theta)))[:, None]
        W = W / np.maximum(far.max(axis=0, initial=0.0), 1.0)
        sizes = self.p + np.flatnonzero(free[self.p :])
        own = np.zeros((self.p + self.n, len(sizes)))
        own[sizes, np.arange(len(sizes))] = np.minimum(1.0 / np.sqrt(np.maximum(np.diag(here.hessian)[sizes], 1e-300)), 0.3)
        return np.hstack([W, own])


def _only(matrix: Any, columns: np.ndarray) -> Any:
    """A sparse matrix with all but these columns zero."""
    entries = matrix.tocoo()
    keep = np.zeros(matrix.shape[1], dtype=bool)
    keep[columns] = True
    kept = keep[entries.col]
    return type(entries)((entries.data[kept], (entries.row[kept], entries.col[kept])), shape=matrix.shape)
