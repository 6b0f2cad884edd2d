"""Scores: how strongly data pull at numbers that a fit holds fixed, and how much such a pull scatters by chance.

At a solution with residuals F (samples, noise in units of sd) and `T` their response to a number, the states following, `T'F` is the slope of the cost. What
the estimated parameters cannot take up of it is that of `t = T - T_theta b`, `b = I_tt^-1 T_theta'T`:

    score s = t'F,     information i = t't,     one-step estimate -s/i,     shift of the parameters  b s/i,     chi2 = s^2/var(s)

With process noise the missing term has been taken for force noise, whose size is in the units of F: s^2/i then cannot exceed the number n of effective forces, however large what is missing. chi2 is
therefore twice the gain of the logarithmic likelihood, the forces' size found anew (`_unmixed`); for n of them it is that over 1 + 1.5/n which is chi-square (Bartlett's correction).

var(s) = i for white residuals of the stated size. Real ones are neither: `long_run` estimates it from the sums `u_k` of `t_i e_i` over the residuals near node k
(e the residuals after the one-step estimate: what the number explains does not count as scatter). The larger of both is used; found from few independent stretches of a run it is itself
uncertain, and probabilities are Student's. Smoothed residuals of
channels and of process noise are correlated with one another; their sums per node are not, which is why they are summed first.

Several numbers are asked about together in the same way: s, i and b then are vectors and matrices, `d = i^-1 s` is the one step, the gain `s'd`, and the scatter that of `t d`. Two offsets can each pull at nothing, because
the one without the other is out of the question, and both together at much: the joint pull sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from calibody.estimate.chi_square import exceeded, fisher, student
from calibody.estimate.layout import PROCESS
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.estimate.uncertainty import autocorrelation, few, flat_top
from calibody.solve.arrow import own_parameters
from calibody.solve.condensed import Eliminated, Runs, Step, eliminated
from calibody.solve.threads import spread

FEW, LEAST = 3.0, 0.05
"""Effective forces from which their size is known at all, and the least share of their squares that is taken to be left: a suspect is not credited with a force that vanishes."""
UNREMARKABLE = 6.0
"""chi2 below which nothing is named however it is distributed."""
NOTHING_NEW = 1e-6
"""Share of its information that a number must keep beside the estimated ones to count as something else."""
UNTOLD = 1e-100
"""Information below which a number does nothing at all: its standard deviation is 1e50 of its units, and products of such information are no numbers any more. What rounding leaves of a derivative that is zero looks like that."""
FOLLOWED = 1e-4
"""The motion takes up part of what a number does to the readings: of an offset of a joint that turns about the vertical all of it, but for rounding. Information before that, times this, counts as its own: an information below
1e-10 of it (`FOLLOWED NOTHING_NEW`), 1e-5 of the readings' change, is none."""


def nodes_of_rows(run: Run) -> np.ndarray:
    """(rows of a run's F,) the node each residual belongs to."""
    near = [np.clip(np.round((d.times - run.times[0]) / run.h), 0, run.K - 1) for d in run.data]
    near += [np.clip(np.round(np.repeat(b.when, b.width)), 0, run.K - 1) for b in run.layout.held]
    return np.concatenate(near).astype(np.int64)


def forces_of(problem: Problem, first: Sequence[int] | np.ndarray) -> dict[str, list[np.ndarray]]:
    """The residuals that are unmodelled forces, by joint: those of every run and velocity, draw by draw. `first` is where the residuals of each run begin."""
    found: dict[str, list[np.ndarray]] = {}
    for run, start in zip(problem.runs, first, strict=True):
        for k, (joint, _) in enumerate(run.disturbed):
            found.setdefault(joint, []).append(int(start) + run.samples + run.layout.prior_rows(PROCESS, k))
    return found


def long_run(u: np.ndarray) -> float:
    """Variance of the sum of a stationary series: all its autocovariances under a flat-top window, or under Bartlett's of three times its width if that
    is larger (the flat top can come out too small, even negative, where correlations are slow)."""
    return _scatter(u)[0]


def spread_of(u: np.ndarray, fitted: float) -> float:
    """The same for an error bar, where `fitted` numbers were found from what u is made of: it is smaller by that than it would be (m independent values, `m/(m - fitted)`), and known with few
    degrees of freedom, for which Student's quantile is in it."""
    variance, freedom = _scatter(u)
    independent = float(u @ u) * len(u) / variance if variance > 0.0 else 1.0
    return variance * independent / max(independent - fitted, 0.5 * independent) * few(freedom) ** 2


def _scatter(u: np.ndarray) -> tuple[float, float]:
    """The same, and how many degrees of freedom it is known with: 3 n/(2 w) under Bartlett's window of width w."""
    n = len(u)
    r = n * autocorrelation(u)
    if r[0] <= 0.0:
        return 0.0, float(n)
    weighted = flat_top(r)
    end = int(np.flatnonzero(weighted).max(initial=0)) // 2 + 1
    width = min(3 * end, n - 1)
    bartlett = r[: width + 1] * (1.0 - np.arange(width + 1) / (width + 1))
    return float(max(r[0] + 2.0 * weighted[1:].sum(), r[0] + 2.0 * bartlett[1:].sum())), 1.5 * n / width


@dataclass(frozen=True)
class Pull:
    """What the data say of a number that was held, or of several together."""

    changes: np.ndarray
    """One-step estimate of how far each is from where it was held."""
    sds: np.ndarray
    gain: float
    """Twice that of the logarithmic likelihood, if the residuals are white and of their size: what suspects are compared by."""
    chi2: float
    """The same by the scatter that the residuals show: how certain it is."""
    freedom: float
    """Degrees of freedom that this scatter is known with; infinite where it is as stated."""
    shift: np.ndarray
    """How the parameters would move with it, the unmodelled forces being as large as they are."""
    explained: float
    """Share of the squares of the unmodelled force that it stands for, of the joint where that is most."""

    @property
    def change(self) -> float:
        return float(self.changes[0])

    @property
    def sd(self) -> float:
        return float(self.sds[0])

    @property
    def probability(self) -> float:
        return self.by_chance(self.chi2, len(self.changes))

    def by_chance(self, chi2: float, dof: int) -> float:
        """Probability of more: where the scatter had to be found from the residuals, by Student's distribution (several numbers: Fisher's)."""
        plain = chi2 < UNREMARKABLE + dof - 1 or np.isinf(self.freedom)
        return exceeded(dof, chi2) if plain else student(sqrt(chi2), self.freedom) if dof == 1 else fisher(chi2 / dof, dof, self.freedom)


class Scores:
    """Residuals and their responses at a solution, without what the parameters that may move take up; those of a single run first, run by run.

    `free` marks the columns of `lin` that may move, `asked` those that were held and are asked about. Without a step that is `taken` already every run is eliminated here and forgotten: with hundreds of columns the responses
    of eight runs of a large mechanism are gigabytes.
    """

    def __init__(self, problem: Problem, lin: Runs, taken: Step | None, free: np.ndarray, asked: np.ndarray) -> None:
        self.problem, self.lin, self.taken, self.asked = problem, lin, taken, asked
        alone = own_parameters(lin.parameters, lin.columns, lin.loose_theta)
        self.common = np.flatnonzero(free & ~alone)
        self.reduced = spread(lambda r: _reduced(problem, lin, self._eliminated(r), r, alone & free, self.common, asked), len(lin.parts))
        among = lin.loose_theta[:, np.concatenate([self.common, asked])].toarray()
        self.T, self.F = np.concatenate([among, *(x.T for x in self.reduced)]), np.concatenate([lin.loose, *(x.F for x in self.reduced)])
        self.nodes = np.concatenate([np.full(len(among), -1), *(x.nodes for x in self.reduced)])
        self.first = np.cumsum([len(among), *(len(x.F) for x in self.reduced)])[:-1]
        """Where the residuals of every run begin."""
        theta = self.T[:, : len(self.common)]
        self.own = np.linalg.norm(theta, axis=0)
        self.basis, self.kept = _orthonormal(theta / np.where(self.own > 0.0, self.own, 1.0))

    def _eliminated(self, r: int) -> Eliminated:
        return eliminated(self.lin.parts[r], self.lin.columns[r]) if self.taken is None else self.taken.runs[r]

    def pulls(self, volume: np.ndarray | float = 0.0) -> list[Pull | None]:
        """Of every number asked about; None where it is nothing new beside the parameters. `volume` is the slope of the likelihood's volume with respect to all columns
        (process noise)."""
        slope = np.broadcast_to(np.asarray(volume, dtype=float), (self.lin.parameters,))
        return [self._pull([c], slope) for c in range(len(self.asked))]

    def independent(self, numbers: Sequence[int]) -> list[int]:
        """Those of the numbers asked about that are something new beside the parameters and one another, the strongest first."""
        t, size = self._taken_out(self.T[:, [len(self.common) + c for c in numbers]]), self._sizes(numbers)
        t, out = t / np.sqrt(np.where(size > UNTOLD, size, 1.0)), []
        while len(out) < len(numbers):
            left = (t**2).sum(axis=0)
            best = int(np.argmax(left))
            if left[best] < NOTHING_NEW:
                break
            out.append(numbers[best])
            t = t - np.outer(t[:, best], t[:, best] @ t) / left[best]
        return out

    def together(self, numbers: Sequence[int], volume: np.ndarray | float = 0.0) -> Pull | None:
        """Of independent numbers at once."""
        return self._pull(numbers, np.broadcast_to(np.asarray(volume, dtype=float), (self.lin.parameters,)))

    def _pull(self, numbers: Sequence[int], slope: np.ndarray) -> Pull | None:
        t = self._taken_out(self.T[:, [len(self.common) + c for c in numbers]])
        i, size = t.T @ t, self._sizes(numbers)
        if np.any(size <= UNTOLD) or np.any(np.diag(i) < NOTHING_NEW * size):
            return None
        b = np.stack([self.taken_up(c) for c in numbers], axis=1)
        s = t.T @ self.F + slope[self.asked[list(numbers)]] - slope @ b
        inverse = np.linalg.inv(i)
        d = inverse @ s
        along, expected = t @ d, float(s @ d)
        after = self.F - along
        u = np.bincount(self.nodes[self.nodes >= 0], (along * after)[self.nodes >= 0])
        if not np.isfinite(u).all():  # a derivative beyond all numbers, as that of friction whose width is all but zero: it says nothing
            return None
        shown, freedom = _scatter(u - u.mean())
        larger = max(1.0, shown / expected) if expected > 0.0 else 1.0
        freed, explained = self._unmixed(after)
        gain = expected + freed
        return Pull(-d, np.sqrt(larger * np.diag(inverse)), gain, gain / larger, freedom if larger > 1.0 else np.inf, b @ d, explained)

    def _sizes(self, numbers: Sequence[int]) -> np.ndarray:
        """Information of numbers asked about before anything is taken up."""
        return np.sum([x.size[list(numbers)] for x in self.reduced], axis=0)

    def told(self, c: int) -> float:
        """Root of the information that is left of a number asked about: by how many standard deviations the data tell a change of one."""
        return float(np.linalg.norm(self._taken_out(self.T[:, [len(self.common) + c]])))

    def taken_up(self, c: int) -> np.ndarray:
        """What the parameters take up of a number asked about."""
        b, whole = np.zeros(self.lin.parameters), self.T[:, len(self.common) + c]
        b[self.common] = (self.kept @ (self.basis.T @ whole)) / np.where(self.own > 0.0, self.own, 1.0)
        for x in self.reduced:
            b[x.own] = x.taken_up[:, len(self.common) + c] - x.taken_up[:, : len(self.common)] @ b[self.common]
        return b

    def _unmixed(self, after: np.ndarray) -> tuple[float, float]:
        """What the likelihood gains besides because unmodelled forces are then smaller: n of them in effect, their squares Q afterwards, `2 dlogL = Q - n - n log(Q/n)`; and the largest of `1 - Q/n`."""
        gain, explained = 0.0, 0.0
        for rows in self.forces:
            n, Q = float(self.F[rows] @ self.F[rows]), float(after[rows] @ after[rows])
            if FEW < n and Q < n:
                Q = max(Q, LEAST * n)
                gain += (Q - n - n * np.log(Q / n)) / (1.0 + 1.5 / n)
                explained = max(explained, 1.0 - Q / n)
        return float(gain), explained

    @cached_property
    def forces(self) -> list[np.ndarray]:
        """The residuals that are unmodelled forces, joint by joint."""
        return [np.concatenate(rows) for rows in forces_of(self.problem, self.first).values()]

    def _taken_out(self, rows: np.ndarray) -> np.ndarray:
        """What the parameters that may move do not explain."""
        return rows - self.basis @ (self.basis.T @ rows)

    def left(self, numbers: Sequence[int], changes: np.ndarray) -> np.ndarray:
        """The residuals after changes of some numbers, the parameters following."""
        return self.F + self._taken_out(self.T[:, [len(self.common) + c for c in numbers]]) @ changes

    def simulated(self, draws: int, rng: np.random.Generator, runs: int) -> np.ndarray:
        """(residuals of the first `runs`, draws): what is left of white noise of unit size in all of them after motion and parameters have followed it: how residuals of a fit look
        where nothing is missing. Smoothing leaves them correlated, the more the more the motion is free."""
        last = self.first[runs] if len(self.first) > runs else len(self.F)
        noise = rng.standard_normal((int(last), draws))
        for r, (first, part, x) in enumerate(list(zip(self.first, self.lin.parts, self.reduced, strict=True))[:runs]):
            factor = part.factor() if self.taken is None else self.taken.runs[r].factor
            mine, n = noise[first : first + len(part.F)], factor.n
            right = np.concatenate([part.Fx.T @ mine, np.zeros((len(part.C), draws))])
            noise[first : first + len(part.F)] = mine - part.Fx @ factor.solve(right)[:n]
            rows = slice(first, first + len(x.F))
            noise[rows] -= x.basis @ (x.basis.T @ noise[rows])
        return noise - self.basis[:last] @ (self.basis[:last].T @ noise)


@dataclass(frozen=True)
class _Reduced:
    """How the residuals of a run follow common parameters and numbers asked about, beside its own parameters."""

    T: np.ndarray
    F: np.ndarray
    nodes: np.ndarray
    """Counted through all runs; -1 for priors of its own parameters."""
    own: np.ndarray
    basis: np.ndarray
    """Of what these do to the residuals."""
    taken_up: np.ndarray
    """(own parameters, columns): what these take up."""
    size: np.ndarray
    """Of every number asked about: its information before anything is taken up by parameters (and of what it is before the motion follows, `FOLLOWED`)."""


def _reduced(problem: Problem, lin: Runs, e: Eliminated, r: int, alone: np.ndarray, common: np.ndarray, asked: np.ndarray) -> _Reduced:
    part, columns = lin.parts[r], lin.columns[r]
    T = part.Ft + part.Fx @ e.response[: e.factor.n]
    at = columns[alone[columns]]
    held = lin.loose_theta[:, at]
    prior = np.flatnonzero(np.diff(held.indptr))
    mine = np.concatenate([T[:, alone[columns]], held[prior].toarray()])
    here, place = np.nonzero(np.concatenate([common, asked])[:, None] == columns[None, :])
    if len(mine) == len(T) and len(here) == len(common) + len(asked):  # a single run that everything acts on
        rest = T[:, place]
    else:
        rest = np.zeros((len(mine), len(common) + len(asked)))
        rest[: len(T), here] = T[:, place]
    own = np.linalg.norm(mine, axis=0)
    basis, kept = _orthonormal(mine / np.where(own > 0.0, own, 1.0))
    taken_up = (kept @ (basis.T @ rest)) / np.where(own > 0.0, own, 1.0)[:, None]
    direct = np.zeros(rest.shape[1])
    direct[here] = (part.Ft[:, place] ** 2).sum(axis=0)
    size = np.maximum((rest**2).sum(axis=0), FOLLOWED * direct)[len(common) :]
    nodes = np.append(nodes_of_rows(problem.runs[r]) + sum(run.K for run in problem.runs[:r]), np.full(len(prior), -1))
    left = rest - basis @ (basis.T @ rest) if basis.shape[1] else rest
    return _Reduced(left, np.append(part.F, lin.loose[prior]), nodes, at, basis, taken_up, size)


def _orthonormal(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A basis of the columns of A, and how its coefficients become those of the columns."""
    if not A.shape[1]:
        return A, np.zeros((0, 0))
    U, size, Vt = np.linalg.svd(A, full_matrices=False)
    good = size > 1e-8 * size[0]
    return U[:, good], Vt[good].T / size[good]
