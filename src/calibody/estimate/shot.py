"""`sampler = "svgd"` and `"csvgd"`: particles over parameters and the starts of windows, as in [heiden2022].

Parameters u, in [0, 1] of their bounds, go where Stein's direction leads (`solve/stein.py`), starts of windows where their own gradient does, both by Adam. Windows are constraints (csvgd): with g = |defect|^2 of each junction (in units of
DEFECT times the spread of the motion), `multiplier g + g^2/2` is taken off log p, and the multipliers rise with g. Bounds are constraints of the same kind. With one window (svgd) there is no junction.

What is left open in the paper is as in `examples/stein_study.py`, where both are beside other samplers. Stein's particles are no independent draws: they are spread too little in more than a few dimensions, the starts of windows do not take part in the
kernel, and nothing says when to stop. It is here for those who want it; `"auto"` never takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.layout import States
from calibody.estimate.windows import Linear, windows_of
from calibody.solve.importance import Weights
from calibody.solve.stein import Adam, clipped, direction
from calibody.solve.threads import one_thread

if TYPE_CHECKING:
    from calibody.estimate.posterior import Drawing, Drawn
    from calibody.estimate.problem import Problem

RATE = 0.01
"""Of Adam, of the bounds' width and of the motion's spread."""
DEFECT = 0.1
"""Of the motion's spread: what counts as one defect."""
STEEP, MOST = 1e4, 1e3
"""Of the penalty on bounds; and the most by which a multiplier rises at once."""
APPROACH = 12
"""Steps in which a particle goes from the fit to where it begins, its motion following."""
CLOSED = 1.0
"""Defect, in units of DEFECT, below which a junction is closed."""
SETTLED, LAST = 0.1, 10
"""Of the particles' spread: what their mean may still move by in the last tenth of the iterations, and so many at least."""


@one_thread
def shot(drawing: Drawing, before: Drawn, windows: int, iterations: int) -> tuple[Drawn, int]:
    """The particles as draws, and how often a motion was linearised."""
    target = drawing.modes.kept[0].target
    problem = target.problem
    refuse_unbounded(problem)
    cloud = Cloud(problem, target.x, target.theta, drawing.samples, windows, drawing.seed)
    means, closed = [], 0.0
    for i in range(iterations):
        if i % max(iterations // 10, 1) == 0:
            drawing.report(f"moving {drawing.samples} particles: {100 * i // iterations} %")
        closed = cloud.step()
        means.append(cloud.u.mean(axis=0))
    settled = iterations >= 2 * LAST and bool(
        np.all(np.abs(means[-1] - means[-max(iterations // 10, LAST)]) <= SETTLED * np.maximum(cloud.u.std(axis=0), 1e-9))
    )
    eta = np.concatenate([cloud.theta, np.tile(target.eta[target.p :], (len(cloud.u), 1))], axis=1)
    eta = np.stack([target.centre + np.linalg.solve(target.turn, point - target.eta) for point in eta])
    own = before.mixture.log_densities(eta).argmax(axis=0)
    log_p = np.array([drawing.targets[m](point).value for m, point in zip(own, eta, strict=True)])
    weights = Weights(np.full(len(eta), 1.0 / len(eta)), np.inf, before.weights.log_evidence, int((~np.isfinite(log_p)).sum()))
    name = "csvgd" if windows > 1 else "svgd"
    trust = 0.0 if not settled or closed > CLOSED else float(len(eta))
    found = replace(before, sampler=name, own=own, eta=eta, log_p=log_p, log_q=before.mixture.log_density(eta, own), weights=weights, ess=trust, closed=closed)
    return found, cloud.evaluations


def refuse_unbounded(problem: Problem) -> None:
    """A sentence where particles cannot be spread over the bounds."""
    for e in problem.entries:
        if not (np.isfinite(e.lower) and np.isfinite(e.upper)) or e.group is not None:
            raise CalibodyError(
                f'Particles of Stein\'s method are spread over the bounds, and "{e.name}" has none on both sides; give it lower and upper, or use another sampler.'
            )


class Cloud:
    """All particles: parameters, motions of all runs, multipliers."""

    def __init__(self, problem: Problem, x: tuple[States, ...], theta: np.ndarray, count: int, windows: int, seed: int) -> None:
        from scipy.stats import qmc

        self.problem, self.runs = problem, windows_of(problem, x, theta, windows)
        self.low, self.width = problem.lower, problem.upper - problem.lower
        self.evaluations = 0
        self.u = np.tile((theta - self.low) / self.width, (count, 1))
        self.x: list[list[States]] = [list(x) for _ in range(count)]
        self.at_windows = np.zeros((count, len(self.runs), windows - 1))
        self.at_bounds = np.zeros_like(self.u)
        self.adam_u = Adam(RATE)
        self.adam_s = Adam(RATE)
        power = int(np.ceil(np.log2(max(count, 2))))
        self._approach(np.asarray(qmc.Sobol(len(theta), rng=np.random.default_rng(seed)).random_base2(power))[:count])

    @property
    def theta(self) -> np.ndarray:
        return self.low + self.width * np.clip(self.u, 0.0, 1.0)

    def _approach(self, wanted: np.ndarray) -> None:
        """From the fit to where particles begin; one whose motion is lost on the way stays where it was."""
        for i, goal in enumerate(wanted):
            begun = self.u[i].copy()
            for part in range(1, APPROACH + 1):
                ahead = np.clip(begun + part / APPROACH * (goal - begun), 0.0, 1.0)
                still = [np.zeros((w.count, len(w.spread))) for w in self.runs]
                if not self._move(i, self._linear(i), still, ahead - self.u[i]):
                    break

    def _linear(self, i: int) -> list[Linear] | None:
        self.evaluations += len(self.runs)
        theta, out = self.theta[i], []
        try:
            for w, x, columns, multipliers in zip(self.runs, self.x[i], self.problem.columns, self.at_windows[i], strict=True):
                out.append(w.linear(x, theta[columns], multipliers, DEFECT))
        except (CalibodyError, NumericalError, np.linalg.LinAlgError, RuntimeError):
            return None
        return out if all(np.isfinite(f.log_p) for f in out) else None

    def _move(self, i: int, found: list[Linear] | None, starts: Sequence[np.ndarray], change: np.ndarray) -> bool:
        """Parameters of one particle (in units of the bounds) and starts of its windows, with their motions; False where that cannot be."""
        if found is None:
            return False
        u = self.u[i] + change
        d = self.width * (np.clip(u, 0.0, 1.0) - np.clip(self.u[i], 0.0, 1.0))
        x = [w.moved(s, f, by, d[columns]) for w, s, f, by, columns in zip(self.runs, self.x[i], found, starts, self.problem.columns, strict=True)]
        if not all(np.isfinite(states.q).all() for states in x):
            return False
        self.u[i], self.x[i] = u, x
        return True

    def step(self) -> float:
        """One iteration; the median over the particles of their largest defect."""
        count, p = self.u.shape
        gradients, away, worst = np.zeros((count, p)), np.zeros((count, p)), np.zeros(count)
        shape = sum(w.count * len(w.spread) for w in self.runs)
        on_starts = np.zeros((count, shape))
        linear: list[list[Linear] | None] = []
        for i in range(count):
            found = self._linear(i)
            linear.append(found)
            if found is None:
                continue
            for f, columns in zip(found, self.problem.columns, strict=True):
                gradients[i, columns] += self.width[columns] * f.by_theta
                away[i, columns] += 2.0 * self.width[columns] * f.away_theta
            on_starts[i] = np.concatenate([(f.by_starts - 2.0 * f.away).ravel() for f in found])
            worst[i] = max((float(np.sqrt((f.defects**2).mean(axis=1)).max(initial=0.0)) for f in found), default=0.0)
            for r, f in enumerate(found):
                self.at_windows[i, r] += RATE * np.minimum((f.defects**2).sum(axis=1), MOST)
        outside = np.clip(self.u, 0.0, 1.0) - self.u
        up = direction(self.u, gradients) - clipped(away) + self.at_bounds * (outside != 0.0) + STEEP * outside
        self.at_bounds += outside
        change, moved = self.adam_u.step(up), self.adam_s.step(clipped(on_starts))
        sizes = np.cumsum([w.count * len(w.spread) for w in self.runs])[:-1]
        for i, found in enumerate(linear):
            starts = [part.reshape(w.count, -1) for part, w in zip(np.split(moved[i], sizes), self.runs, strict=True)]
            self._move(i, found, starts, change[i])
        return float(np.median(worst))
