"""Where the posterior has its maxima: the fit's solution, fits from elsewhere, and what symmetries make of them.

Methods that walk over the prior cannot find them: far from a mode the motion of a mechanism cannot be found at given parameters, where motions are chaotic not even some tens of standard deviations away. Fits can, because motion and parameters move together. So
`starts` fits begin at Sobol points of the box, on the fit's coarsest mesh; solutions closer than `CLOSE` standard deviations are one mode.

Each mode has a Gaussian, truncated to the bounds: with I the information and g the gradient of log p at the solution theta^ the mean is `theta^ + I^-1 g`, which a bound that is active leaves outside of the box. By it the mode's evidence is (Laplace's method)

    log Z = log p(theta^) - log N(theta^) + log(mass of the box)

Modes below `NEGLIGIBLE` of all evidence are left out, and listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.common import Common
from calibody.estimate.draws.solved import Setting, Solved, apart, drawn_on, solved_by
from calibody.estimate.draws.stretch import Kind, kind_of, stretch
from calibody.estimate.draws.symmetries import symmetric
from calibody.estimate.draws.target import Target
from calibody.estimate.problem import Problem
from calibody.estimate.reported import values_of
from calibody.estimate.sweep import sweep
from calibody.solve.importance import STUDENT
from calibody.solve.truncated import Truncated

if TYPE_CHECKING:
    from calibody.estimate.result import Result
    from calibody.estimate.unknowns import Entry

CLOSE = 3.0
"""Standard deviations within which two solutions are one mode."""
NEGLIGIBLE = 1e-4
WORSE = 60.0
"""Cost above the least from which a solution cannot count, whatever its width: e^-60."""
FACTOR = 3.0
"""Where an unknown has no bounds, starts are its value times and divided by up to this; where that is zero, within so many scales."""
WIDER = 1.05
"""Times its standard deviations a mode's Gaussian is drawn: what is too narrow costs more than what is too wide."""
MANY = 200.0
"""Degrees of freedom from which Student's distribution is the Gaussian."""
WIDEST = 3.0
"""Standard deviation, in units of the box, of what the data do not determine: all but uniform within the bounds."""


@dataclass(frozen=True, eq=False)
class Mode:
    """One explanation of the data."""

    found_by: str
    """ "fit", "start 3", or the symmetry that makes it."""
    target: Target
    gaussian: Truncated
    log_evidence: float
    """By Laplace's method."""

    @property
    def values(self) -> np.ndarray:
        """As reported."""
        return values_of(self.target.problem.entries, self.target.centre[: self.target.p])


@dataclass(frozen=True, eq=False)
class Modes:
    kept: tuple[Mode, ...]
    """The largest evidence first; the fit's own is among them unless another leaves nothing of it."""
    dropped: tuple[tuple[str, np.ndarray, float], ...]
    """(found by, values, share of the evidence) of those that count for nothing."""
    tried: int
    """Starts ..."""
    converged: int
    """... and how many of them ended in a solution."""
    kind: Kind
    stretched: float
    """The largest ratio of an error bar to that of the likelihood."""
    h: float
    """Step of the mesh that is drawn on [s]."""


def find(result: Result, starts: int, seed: int, executor: Executor | None, known: Sequence[Solved] = ()) -> Modes:
    """All that the starts and symmetries lead to; `known`: solutions that were found otherwise."""
    setting, fine = Setting.of(result), solved_by(result)
    coarse = fine if fine.forced or fine.struck else setting.carried(fine, setting.coarsest) or fine
    common = Common((setting, fine.problem))
    starts = 0 if fine.struck else starts
    begun = sweep(_begun, [{"common": common, "theta": t} for t in _points(fine, starts, seed)], executor) if starts else []
    others = _distinct(coarse, [(f"start {k + 1}", s) for k, s in enumerate(begun) if s is not None] + [("particles", s) for s in known])
    on = drawn_on(setting, fine)
    ends = [("fit", fine, on)]
    for words, s in others:
        own_fine = setting.carried(s, fine.h)
        own = None if own_fine is None else setting.carried(own_fine, on.h)
        if own_fine is not None and own is not None and all(apart(own, e[2], [own.information(), e[2].information()]) > CLOSE for e in ends):
            ends.append((words, own_fine, own))
    for words, best, drawn in tuple(ends):
        for how, other in symmetric(best):
            same = Solved(drawn.problem, drawn.x, drawn.theta + (other.theta - best.theta))
            if all(apart(same, e[2], [drawn.information(), e[2].information()]) > CLOSE for e in ends):
                ends.append((how if words == "fit" else f"{words}, {how}", other, same))
    forces = fine.forced
    kind = kind_of(result.uncertainty, result.noise_given, forces)
    modes, widest = [], 1.0
    for words, best, drawn in ends:
        target = Target.of(drawn.problem, drawn.x, drawn.theta, setting.hypers)
        omega, largest = stretch(target, result.uncertainty, kind, forces)
        widest = max(widest, largest)
        centre = np.concatenate([best.theta, target.eta[target.p :]])
        mode = _mode(words, target.seen(centre, np.linalg.inv(omega)))
        if mode is not None:
            modes.append(mode)
    if not modes:
        raise CalibodyError(
            "The posterior cannot be drawn: the motion does not settle at the fit's own solution, as at a kink of dry friction; fit on another mesh (h)."
        )
    kind = "naive" if widest <= 1.0 else kind
    return _sorted(modes, len(begun), sum(s is not None for s in begun), kind, widest, on.h)


def _begun(common: Common[tuple[Setting, Problem]], theta: np.ndarray) -> Solved | None:
    setting, problem = common.value
    return setting.begun(problem, theta)


def _sorted(modes: Sequence[Mode], tried: int, converged: int, kind: Kind, widest: float, h: float) -> Modes:
    logs = np.array([m.log_evidence for m in modes])
    share = np.exp(logs - logs.max())
    share /= share.sum()
    order = [int(k) for k in np.argsort(-np.round(logs, 1), kind="stable")]
    kept = tuple(modes[k] for k in order if share[k] >= NEGLIGIBLE)
    dropped = tuple((modes[k].found_by, modes[k].values, float(share[k])) for k in order if share[k] < NEGLIGIBLE)
    return Modes(kept, dropped, tried, converged, kind, widest, h)


def _points(solved: Solved, count: int, seed: int) -> list[np.ndarray]:
    """Sobol points of the box; bodies whose ten numbers are unknown stay as they are."""
    from scipy.stats import qmc

    entries = solved.problem.entries
    free = [k for k, e in enumerate(entries) if e.group is None and e.lower < e.upper]
    if not free:
        return []
    unit = qmc.Sobol(len(free), rng=np.random.default_rng(seed)).random_base2(max(int(np.ceil(np.log2(count))), 0))[:count]
    out = []
    for point in unit:
        theta = solved.theta.copy()
        for k, u in zip(free, point, strict=True):
            theta[k] = _within(entries[k], solved.theta[k], float(u))
        out.append(theta)
    return out


def _within(e: Entry, value: float, u: float) -> float:
    if np.isfinite(e.lower) and np.isfinite(e.upper):
        return e.lower + u * (e.upper - e.lower)
    x = value * FACTOR ** (2.0 * u - 1.0) if value else e.scale * FACTOR * (2.0 * u - 1.0)
    return float(np.clip(x, e.lower, e.upper))


def _distinct(first: Solved, others: Sequence[tuple[str, Solved]]) -> list[tuple[str, Solved]]:
    """Those that are not where another is, and not hopelessly worse than the best."""
    out: list[tuple[str, Solved, np.ndarray]] = [("fit", first, first.information())]
    costs = {"fit": _cost(first)} | {words: _cost(s) for words, s in others}
    least = min(costs.values())
    for words, s in others:
        if not first.forced and costs[words] - least > WORSE and not s.problem.runs[0].noise.missing:
            continue
        own = s.information()
        if all(apart(s, o, [own, i]) > CLOSE for _, o, i in out):
            out.append((words, s, own))
    return [(words, s) for words, s, _ in out[1:]]


def _cost(s: Solved) -> float:
    F, _ = s.problem.values(list(s.x), s.theta)
    return 0.5 * float(F @ F)


def _mode(words: str, target: Target) -> Mode | None:
    """With its Gaussian; None where log p cannot be had at its own solution."""
    here = target(target.centre)
    if not np.isfinite(here.value):
        return None
    width = target.upper - target.lower
    size = np.where(np.isfinite(width), width, np.append(target.problem.scale, np.ones(len(target.eta) - target.p)))
    size = np.where(size > 0.0, size, 1.0)
    mu, V = np.linalg.eigh(target.seen_information * size[:, None] * size[None, :])
    mu = np.maximum(mu, WIDEST**-2)
    covariance = (V / mu) @ V.T * size[:, None] * size[None, :]
    mean = target.centre + covariance @ target.seen_gradient
    gaussian = Truncated(mean, covariance, target.lower, target.upper)
    evidence = here.value - gaussian.log_unbounded(target.centre) + gaussian.log_mass
    return Mode(words, target, replace(gaussian, covariance=WIDER**2 * covariance, freedom=_freedom(target)), float(evidence))


def _freedom(target: Target) -> float:
    """Degrees of freedom: where a standard deviation was found, its own uncertainty makes Student's distributions of Gaussians."""
    if not target.hypers:
        return np.inf
    known = np.diag(target.information)[target.p :]  # twice the number of observations, of the noise of a channel
    return float(np.clip(0.5 * known.min(), STUDENT, MANY))
