"""Sequences of impacts from the data alone, where one body flies freely: by many simulated motions.

Particles are motions from the end of the first flight on: its state there, spread as the data of that flight leave it, and the unknown numbers anywhere in their boxes (of what is always positive
and may be many times off by the logarithm). They are simulated through impacts (`steppers/flying.py`) and scored by what they are away from the data, no sample counting more than `CAP`, over a horizon
that grows: a best tenth is kept, the others are drawn anew around them (Rubinstein's cross-entropy method with a kernel at each of the kept, so that several hypotheses stay alive). What is left are
sequences of places that touch, each with the motion and the numbers that explain the data best, to begin a fit with (`sequence.py`).

Where something stays closed from some time on, a toss that ends in sliding and rest, particles are followed up to there only; what is known of the rest (`Proposed.then`) comes from the data.

Rates next to an impact are not compared, as in fits. Where none of it comes near the data, it is done again with more particles and with noise that counts as larger (`TEMPERS`): a landscape that is
less steep.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from calibody.estimate.contacts.flights import MASKED, Struck
from calibody.estimate.contacts.hits import Hit, gaps
from calibody.estimate.contacts.kinks import representatives
from calibody.estimate.contacts.watched import Start, Watched, coordinates
from calibody.estimate.layout import States
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.estimate.unknowns import DIAGONAL, Entry
from calibody.mechanics.structure import Numbers
from calibody.steppers.flying import Bodies, Flyer, Log, Swarm, stepped

PARTICLES = 300
FIRST = 3
"""Times as many at the beginning."""
STAGES, INNER = 6, 3
"""Horizons, and how often particles are drawn anew on each."""
KEPT = 0.1
LEAST = 20
"""Particles that are kept at least."""
CAP = 200.0
"""Largest sum of squares of a sample."""
KERNELS = (1.0, 0.3, 0.1)
"""Sizes of the kernels around kept particles, relative to half their covariance."""
NARROWEST = 1e-3
"""Of the first spread, below which kernels do not shrink."""
MOST = 12
"""Impacts of a particle."""
WIDE = 8.0
"""Times which a number may be off that has no bounds of its own."""
RUBBING = 1.2
"""Largest friction that is tried, where it is unknown and has no bound."""
SURE = 2.0
"""Sampling periods before the first contact at which the first flight ends."""
SEED = 1
"""Of the particles of the first run: a fit is the same every time."""
NEAR = 3.0
"""Standard deviations of a sum of squares, above what is expected of it, within which the best particle has to come for the search to end."""
HOPELESS = 10.0
"""Times the expected sum of squares from which on no particle is like the data: something else happens there than single impacts."""
FLIGHTS = 8
"""Times that the first flight is fitted, each to where the last says that it ends."""
SPREAD, FEW = 40, 0.1
"""Flights that the data of the first allow, which are drawn to see when it ends, and the share of them that may touch before."""
TEMPERS = ((1.0, 1), (3.0, 2), (10.0, 2), (1.0, 3))
"""What noise is multiplied by, and the number of particles, try after try."""
BRIEF = 2
"""Tries of a run in which something seems to stay closed: chatter looks like rest, and rest is not explained by impacts however long they are looked for."""
NARROW, SURELY, SCATTER = 0.1, 3.0, 1.4826
"""Once all runs have been searched: the least relative half width within which numbers that they share are looked for again, how many standard deviations of their median, and what the median
distance from it is multiplied by to be a standard deviation."""
SHARPENED, SHARPENABLE = 4, 3.0
"""Sequences whose best particle is brought to its optimum at the end of a try, and times the score of the best up to which one is worth it."""
STEPS, STEP, DAMPINGS = 8, 1e-6, np.array([0.01, 1.0, 100.0])
"""Of Gauss-Newton there: most steps, of the differences, and what its damping is multiplied by at each, all tried at once."""
TYPICAL = 2.0
"""Times what is typical for the runs of a fit up to which a score explains one of them."""
BETTER = 0.7
"""Share of the score before that a try has to come down to for another to be worth while."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """A sequence, and the particle that has it."""

    hits: tuple[Hit, ...]
    slips: tuple[bool, ...]
    theta: np.ndarray
    """Of the unknowns of the run."""
    score: float
    """Sum of squares."""
    start: Start
    z: np.ndarray
    at: float
    """Time of the start [s]."""


class Search:
    """Of one run, up to the time `end`."""

    def __init__(self, problem: Problem, r: int, theta: np.ndarray, flyer: Flyer, watched: Watched, random: np.random.Generator, end: float) -> None:
        self.problem, self.r, self.theta, self.flyer, self.watched, self.random, self.end = problem, r, theta, flyer, watched, random, end
        self.columns = problem.columns[r]
        self.entries = problem.entries_of[r]
        self.base = flyer.vector(problem.model_of(r, theta)[0])
        by = [self._by(k) for k in range(len(self.entries))]
        self.free = np.array([k for k, d in enumerate(by) if d.any()], dtype=np.int64)
        """Which unknowns of the run matter."""
        if len(told := self._scales(by)):
            self.free = self.free[self.free != told[0]]
        self.by = np.array([by[k] for k in self.free]).reshape(len(self.free), len(self.base))
        self.box = np.array([box(self.entries[k]) for k in self.free]).reshape(-1, 2)
        self.logarithmic = np.array([self.box[i, 0] > 0.0 and self.box[i, 1] > 4.0 * self.box[i, 0] for i in range(len(self.free))], dtype=bool)

    def _scales(self, by: Sequence[np.ndarray]) -> np.ndarray:
        """Unknowns that are masses and inertias, if these are all unknown: free flight and impacts tell their ratios only, and the first is held."""
        own = np.flatnonzero(self.problem.proportional[self.columns])
        inertial, values = Flyer.INERTIAL, self.theta[self.columns]
        all_ = np.sum([values[k] * by[int(k)] for k in own], axis=0) if len(own) else np.zeros_like(self.base)
        scale = np.abs(self.base[inertial]).max()
        return own if len(own) > 1 and np.allclose(all_[inertial], self.base[inertial], atol=1e-6 * scale) else own[:0]

    @classmethod
    def of(cls, problem: Problem, r: int, theta: np.ndarray, mesh: Run, q: np.ndarray, seed: int, end: float = np.inf) -> Search | None:
        """None where no body flies freely, or its pose is not observed; q (nq, nodes) its motion, roughly. `end`: up to when, if not to the end of the recording."""
        model, numbers, _ = problem.model_of(r, theta)
        if mesh.recording.drives or mesh.disturbed:
            return None
        flyer = Flyer.of(mesh.structure, model, numbers, q[:, 0])
        if flyer is None:
            return None
        flyer = replace(flyer, kept=representatives(gaps(mesh.structure, model, numbers, q)))
        watched = Watched.of(flyer, mesh, numbers)
        if watched is None or not len(flyer.kept):
            return None
        return cls(problem, r, theta, flyer, watched.until(end), np.random.default_rng(seed), min(end, mesh.recording.end))

    def _by(self, k: int) -> np.ndarray:
        """The derivative of the flyer's numbers: they are linear in most unknowns."""
        column = self.columns[k]
        step = 0.01 * self.problem.scale[column] * (np.arange(len(self.theta)) == column)
        ends = [self.flyer.vector(self.problem.made_of(self.r, self.theta + sign * step)[0]) for sign in (1.0, -1.0)]
        return (ends[0] - ends[1]) / (2.0 * step[column])

    def bodies(self, values: np.ndarray) -> Bodies:
        """values (unknowns that matter, particles)."""
        away = values - self.theta[self.columns[self.free]][:, None]
        return self.flyer.bodies(self.base[:, None] + self.by.T @ away)

    # -- the first flight ----------------------------------------------------------------------------------------------------------

    def first_flight(self) -> tuple[Start, np.ndarray, int] | None:
        """Its state at its last sample, the information (2 freedom, 2 freedom) that its data have of it, and which sample that is."""
        n, last = len(self.watched.times), 8
        here = self.theta[self.columns[self.free]][:, None]
        if last >= n:
            return None
        start, information = self._fitted(last, here)
        for _ in range(FLIGHTS):
            new = min(max(6, self._first_contact(start, here, last)), n - 1)  # as far as is known
            if new == last:
                break
            last = min(new, 2 * last + 1)
            start, information = self._fitted(last, here)
        if last >= n - 1:
            return None
        spread = _root(np.linalg.pinv(information, rcond=1e-14, hermitian=True)) @ self.random.standard_normal((2 * self.flyer.freedom, SPREAD))
        early = self._early(start, here, last, spread)
        if early < last:
            last = max(early, 6)
            start, information = self._fitted(last, here)
        return start, information, last

    def _fitted(self, last: int, here: np.ndarray) -> tuple[Start, np.ndarray]:
        """The flight through the samples up to `last`, by Gauss-Newton."""
        size = 2 * self.flyer.freedom
        start = self.watched.around(last, min(last, 8))
        z = np.concatenate([np.zeros((size, 1)), 1e-6 * np.eye(size)], axis=1)
        bodies, J = self.bodies(np.repeat(here, size + 1, axis=1)), np.zeros((0, size))
        for _ in range(5):
            s, rows = start.swarm(bodies, z), []
            for j in range(last, -1, -1):
                rows += self.watched.residuals(bodies, s, j)
                if j:
                    s = bodies.flown(s, self.watched.times[j - 1] - self.watched.times[j])
            F = np.concatenate(rows)
            J = (F[:, 1:] - F[:, :1]) / 1e-6
            step = -np.linalg.lstsq(J, F[:, 0], rcond=None)[0]
            start = start.moved(step)
            if np.linalg.norm(J @ step) < 1e-3:
                break
        return start, J.T @ J

    def _first_contact(self, start: Start, here: np.ndarray, last: int) -> int:
        """The sample before which the flight should end, as far as is known."""
        bodies, times = self.bodies(here), self.watched.times
        s, log = start.swarm(bodies, np.zeros((2 * self.flyer.freedom, 1))), Log.empty(1, 1)
        if bodies.gaps(s).min() < 0.0:
            return last // 2
        for j in range(last, len(times) - 1):
            s = stepped(bodies, s, times[j], times[j + 1] - times[j], log)
            if log.count[0]:
                return int(np.searchsorted(times, log.times[0, 0] - SURE * self.watched.period)) - 1
        return len(times)

    def _early(self, start: Start, here: np.ndarray, last: int, z: np.ndarray) -> int:
        """The last sample at which no more than a few of the flights that the data allow, with the states z at sample `last`, touch already."""
        bodies, times = self.bodies(np.repeat(here, z.shape[1], axis=1)), self.watched.times
        s = start.swarm(bodies, z)
        for j in range(last, 0, -1):
            if (bodies.gaps(s).min(axis=0) < 0.0).mean() <= FEW:
                return j
            s = bodies.flown(s, times[j - 1] - times[j])
        return 0

    # -- particles ---------------------------------------------------------------------------------------------------------------

    def simulated(self, start: Start, first: int, end: int, Z: np.ndarray, temper: float = 1.0, least: int = 1) -> tuple[np.ndarray, Log]:
        """Scores of particles (numbers, particles) over the samples from `first` to before `end`, and their impacts."""
        width, w = 2 * self.flyer.freedom, self.watched
        bodies = self.bodies(Z[width:])
        s, log = start.swarm(bodies, Z[:width]), Log.empty(MOST, Z.shape[1])
        pose, rates, count = [], [], 0
        for j in range(first, end - 1):
            s = stepped(bodies, s, w.times[j], w.times[j + 1] - w.times[j], log)
            own, rate = w.residuals(bodies, s, j + 1)
            count = len(rate)
            pose.append((own * own).sum(axis=0))
            rates.append((rate * rate).sum(axis=0))
        if not pose:
            return np.zeros(Z.shape[1]), log
        squares = np.array(pose) + np.where(self._masked(log, first, end, least), count, np.array(rates))
        return np.minimum(squares / temper**2, CAP).sum(axis=0), log

    def _masked(self, log: Log, first: int, end: int, least: int = 1) -> np.ndarray:
        """(samples, particles) next to whose impacts they are."""
        t = self.watched.times[first + 1 : end]
        near = np.zeros((len(t), log.times.shape[1]), dtype=bool)
        for own in log.times[: max(least, int(log.count.max(initial=0)))]:
            near |= np.abs(t[:, None] - own) < MASKED * self.watched.period
        return near

    def _deviations(self, start: Start, root: np.ndarray, first: int, Z: np.ndarray) -> np.ndarray:
        """(numbers, particles) whose squares are the score without `CAP`; `root` of the information of the first flight."""
        width, w, n = 2 * self.flyer.freedom, self.watched, len(self.watched.times)
        Z = self.values(Z)
        bodies = self.bodies(Z[width:])
        s, log, both = start.swarm(bodies, Z[:width]), Log.empty(MOST, Z.shape[1]), []
        for j in range(first, n - 1):
            s = stepped(bodies, s, w.times[j], w.times[j + 1] - w.times[j], log)
            both.append(w.residuals(bodies, s, j + 1))
        masked = self._masked(log, first, n)[:, None, :1]  # of the particle that the others are near to
        rates = np.where(masked, 0.0, np.array([rate for _, rate in both]))
        return np.concatenate([np.concatenate([pose for pose, _ in both]), rates.reshape(-1, Z.shape[1]), root @ Z[:width]])

    def _sharpened(self, start: Start, information: np.ndarray, first: int, Z: np.ndarray, score: np.ndarray, log: Log) -> np.ndarray:
        """The best particle of each of some sequences at its optimum, nearly: in data that are precise none of some hundreds is near it."""
        seen, out, root = set(), [], _root(information).T
        for p in np.argsort(score):
            key = tuple(log.spots[: int(log.count[p]), p])
            if key in seen or score[p] > SHARPENABLE * score.min():
                continue
            seen.add(key)
            out.append(self._descended(start, root, first, Z[:, p]))
            if len(seen) == SHARPENED:
                break
        return np.array(out).T.reshape(len(Z), -1)

    def _descended(self, start: Start, root: np.ndarray, first: int, z: np.ndarray) -> np.ndarray:
        """One particle, by Gauss-Newton with differences for derivatives, damped where a step leads nowhere."""
        width = 2 * self.flyer.freedom
        size = np.append(np.full(width, STEP), STEP * np.maximum(self._spread(), 1e-300))
        low, high = (np.append(np.full(width, sign * np.inf), self._inner(self.box[:, k])) for sign, k in ((-1.0, 0), (1.0, 1)))
        damping = 1e-3
        for _ in range(STEPS):
            F = self._deviations(start, root, first, z[:, None] + np.concatenate([np.zeros((len(z), 1)), np.diag(size)], axis=1))
            J = np.nan_to_num((F[:, 1:] - F[:, :1]) / size)
            A, g = J.T @ J, J.T @ F[:, 0]
            steps = np.array([-np.linalg.lstsq(A + d * np.diag(np.diag(A) + 1e-300), g, rcond=1e-14)[0] for d in damping * DAMPINGS])
            tried = np.clip(z[:, None] + steps.T, low[:, None], high[:, None])
            costs = np.nan_to_num((self._deviations(start, root, first, tried) ** 2).sum(axis=0), nan=np.inf)
            best, now = int(np.argmin(costs)), float((F[:, 0] ** 2).sum())
            if not costs[best] < now:
                break
            z, damping = tried[:, best], damping * DAMPINGS[best]
            if now - costs[best] < 0.1:
                break
        return z

    def scored(self, start: Start, information: np.ndarray, first: int, end: int, Z: np.ndarray, temper: float) -> tuple[np.ndarray, Log]:
        width = 2 * self.flyer.freedom
        score, log = self.simulated(start, first, end, Z, temper)
        return score + np.einsum("ip,ij,jp->p", Z[:width], information, Z[:width]) / temper**2, log

    def within(self, centre: np.ndarray, width: np.ndarray) -> Search:
        """The same with the unknowns of the problem so near these values; where the width is infinite, in their boxes."""
        new = copy(self)
        near, wide = centre[self.columns[self.free]], width[self.columns[self.free]]
        new.box = np.stack([np.maximum(self.box[:, 0], near - wide), np.minimum(self.box[:, 1], near + wide)], axis=1)
        new.box[:, 1] = np.maximum(new.box[:, 1], new.box[:, 0])
        new.logarithmic = self.logarithmic & (new.box[:, 0] > 0.0)
        return new

    def found(self, tries: int = len(TEMPERS), level: float = 1.0) -> tuple[list[Proposal], bool]:
        """The best particle of every sequence, in the order of their scores, and whether it explains the data. `level`: what the truth's score is expected to be, for each number that is compared."""
        if self.flight is None:
            return [], False
        start, information, first = self.flight
        out: list[Proposal] = []
        plain, before = self._expected(first), np.inf
        expected = level * plain
        near = max(expected, plain + NEAR * np.sqrt(2.0 * plain))
        for temper, more in TEMPERS[:tries]:
            out += self._tried(start, information, first, temper, PARTICLES * more)
            out.sort(key=lambda p: p.score)
            best = out[0].score if out else np.inf
            if best < (expected if level > 1.0 else near) or BETTER * before < best < HOPELESS * expected:
                break
            before = best
        return (
            (self._distinct(out), out[0].score < (near if level == 1.0 else TYPICAL * expected)) if out and out[0].score < HOPELESS * expected else ([], False)
        )

    @cached_property
    def flight(self) -> tuple[Start, np.ndarray, int] | None:
        """See `first_flight`."""
        return self.first_flight()

    def level(self, proposal: Proposal) -> float:
        """The score of a proposal for each number that is compared."""
        assert self.flight is not None
        return proposal.score / max(self._expected(self.flight[2]), 1.0)

    def _expected(self, first: int) -> float:
        """Of the score of the truth: a one for every number that is compared."""
        w = self.watched
        return float(sum((x[:, first + 1 :] > 0.0).sum() for x in (w.along_weight, w.turned_weight, w.rates_weight)))

    @staticmethod
    def _distinct(out: list[Proposal]) -> list[Proposal]:
        seen, kept = set(), []
        for p in out:
            key = tuple(h.spot for h in p.hits), p.slips
            if key not in seen:
                seen.add(key)
                kept.append(p)
        return kept

    def _tried(self, start: Start, information: np.ndarray, first: int, temper: float, particles: int) -> list[Proposal]:
        """The cross-entropy method."""
        n = len(self.watched.times)
        covariance = np.linalg.pinv(information, rcond=1e-14, hermitian=True)
        spread = np.concatenate([1.5 * temper * np.sqrt(np.maximum(np.diag(covariance), 0.0)), self._spread()])
        Z = self._drawn(covariance * temper**2, FIRST * particles)
        for stage in range(STAGES):
            end = round(first + 1 + (n - first - 1) * (stage + 1) / STAGES)
            for _ in range(INNER):
                score, _ = self.scored(start, information, first, end, self.values(Z), temper)
                Z = self._again(Z, score, spread, particles)
        score, log = self.scored(start, information, first, n, self.values(Z), 1.0)
        Z = np.concatenate([Z, self._sharpened(start, information, first, Z, score, log)], axis=1)
        score, log = self.scored(start, information, first, n, self.values(Z), 1.0)
        return list(self._proposals(Z, score, log, start, float(self.watched.times[first])))

    def _spread(self) -> np.ndarray:
        low, high = self._inner(self.box[:, 0]), self._inner(self.box[:, 1])
        return 0.5 * (high - low)

    def _inner(self, values: np.ndarray) -> np.ndarray:
        return np.where(self.logarithmic, np.log(np.where(self.logarithmic, values, 1.0)), values)

    def values(self, Z: np.ndarray) -> np.ndarray:
        """Particles with their numbers instead of logarithms."""
        width, out = 2 * self.flyer.freedom, Z.copy()
        if len(self.free):
            own = out[width:]
            out[width:] = np.where(self.logarithmic[:, None], np.exp(np.where(self.logarithmic[:, None], own, 0.0)), own)
        return out

    def _drawn(self, covariance: np.ndarray, count: int) -> np.ndarray:
        L = _root(covariance)
        low, high = self._inner(self.box[:, 0])[:, None], self._inner(self.box[:, 1])[:, None]
        return np.concatenate([1.5 * L @ self.random.standard_normal((len(L), count)), low + (high - low) * self.random.random((len(self.free), count))])

    def _again(self, Z: np.ndarray, score: np.ndarray, spread: np.ndarray, particles: int) -> np.ndarray:
        """The best, and others around them."""
        best = np.argsort(score)[: max(int(KEPT * Z.shape[1]), LEAST)]
        elite = Z[:, best]
        kernel = _root(0.5 * np.cov(elite) + np.diag((NARROWEST * spread) ** 2))
        count = particles - len(best)
        pick, size = self.random.integers(0, len(best), count), self.random.choice(KERNELS, count)
        new = elite[:, pick] + size * (kernel @ self.random.standard_normal((len(Z), count)))
        width = 2 * self.flyer.freedom
        new[width:] = np.clip(new[width:], self._inner(self.box[:, 0])[:, None], self._inner(self.box[:, 1])[:, None])
        return np.concatenate([elite, new], axis=1)

    def _proposals(self, Z: np.ndarray, score: np.ndarray, log: Log, start: Start, at: float) -> Iterator[Proposal]:
        width, values = 2 * self.flyer.freedom, self.values(Z)
        seen = set()
        for p in np.argsort(score):
            count = self._told(log.times[:, p], log.spots[:, p])
            spots, slips = tuple(int(self.flyer.kept[k]) for k in log.spots[:count, p]), tuple(map(bool, log.slips[:count, p]))
            if count and (spots, slips) not in seen:
                seen.add((spots, slips))
                theta = self.theta[self.columns].copy()
                theta[self.free] = values[width:, p]
                yield Proposal(
                    tuple(Hit(float(t), s) for t, s in zip(log.times[:count, p], spots, strict=True)), slips, theta, float(score[p]), start, Z[:width, p], at
                )

    def _told(self, times: np.ndarray, spots: np.ndarray) -> int:
        """How many of a particle's impacts are those of a run: not what comes after its end, nor what one place does that bounces ever faster until it rests."""
        count = int((times < self.end).sum())
        quick = np.flatnonzero((np.diff(times[:count]) < self.problem.runs[self.r].h) & (np.diff(spots[:count]) == 0))
        return int(quick[0]) + 1 if len(quick) else count

    # -- a motion to begin a fit with ----------------------------------------------------------------------------------------------

    def motion(self, proposal: Proposal, run: Struck, numbers: Numbers, near: np.ndarray, flights: int) -> np.ndarray:
        """(nq, nodes) of the first `flights` of a run, as a proposal has them whose impacts it has; near (nq, nodes of the mesh) a motion, roughly."""
        bodies = self.bodies(proposal.theta[self.free][:, None])
        s, log, t = proposal.start.swarm(bodies, proposal.z[:, None]), Log.empty(MOST, 1), self.watched.times
        begun = [(proposal.at, s)]
        for j in range(int(np.searchsorted(t, proposal.at)), len(t) - 1):
            s = stepped(bodies, s, t[j], t[j + 1] - t[j], log, keep=True)
        begun += [(float(when), after) for when, after in zip(log.times[:, 0], log.after[0], strict=False)]
        o, R = [], []
        for f, (when, s) in enumerate(begun[:flights]):
            times = run.times[run.offsets[f] : run.offsets[f + 1]]
            for here in _flight(bodies, s, when, times):
                o.append(bodies.origin(here)[:, 0])
                R.append(here.R[..., 0])
        return coordinates(self.flyer, numbers, np.array(o).T, np.moveaxis(np.array(R), 0, 2), near[:, run.place[: len(o)]])


@dataclass(frozen=True, eq=False)
class Proposed:
    """What was found for a run, on its mesh without impacts and near its first motion q (nq, nodes)."""

    search: Search
    mesh: Run
    q: np.ndarray
    proposals: tuple[Proposal, ...]
    first: bool = True
    """Whether a fit begins with the best of them, and does not come to them only where what it begins with does not explain the data."""
    then: tuple[Hit, ...] = ()
    """What stays closed from the end of the search on, and what strikes meanwhile."""

    @property
    def best(self) -> Proposal:
        return self.proposals[0]


def proposed(
    problem: Problem, x: Sequence[States], theta: np.ndarray, runs: Sequence[int], doubtful: Collection[int] = (), then: Mapping[int, tuple[Hit, ...]] | None = None
) -> dict[int, Proposed]:  # fmt: skip
    """Of those of these runs in which a body flies freely and strikes something, by their number; `doubtful`: those in which something may stay closed instead, `then`: what certainly does in a run, before
    which it is searched.

    Several runs are searched twice: first each with numbers of its own, then all with those that they share near the median of what the first search found. A single run may explain itself best by numbers
    that no other has, and with another sequence.
    """
    searches, then = {}, then or {}
    for r in runs:
        search = Search.of(problem, r, theta, problem.runs[r], x[r].q, SEED + r, then[r][0].time if r in then else np.inf)
        if search is not None:
            searches[r] = search
    out: dict[int, Proposed] = {}

    def put(r: int, search: Search, found: tuple[list[Proposal], bool]) -> None:
        if found[0]:
            out[r] = Proposed(search, problem.runs[r], x[r].q, tuple(found[0]), found[1] or r not in doubtful, then.get(r, ()))

    with np.errstate(all="ignore"):  # particles may go anywhere
        for r, search in searches.items():
            put(r, search, search.found(BRIEF if r in doubtful and len(searches) > 1 else len(TEMPERS)))
        if len(out) < 2:
            return out
        centre, width = shared(problem, theta, out)
        level = max(1.0, float(np.median([p.search.level(p.best) for p in out.values()])))
        for r, search in searches.items():
            if search.flight is not None and (r in out or r not in doubtful):
                near = search.within(centre, width)
                put(r, near, near.found(BRIEF, level))
    return out


def shared(problem: Problem, theta: np.ndarray, found: Mapping[int, Proposed]) -> tuple[np.ndarray, np.ndarray]:
    """Where unknowns that all runs share are, by what most of them say, and how sure that is; infinite of what is a run's own, or says nothing to them."""
    centre, width = theta.copy(), np.full(len(theta), np.inf)
    for k, e in enumerate(problem.entries):
        own = np.array([p.best.theta[list(problem.columns[r]).index(k)] for r, p in found.items() if k in problem.columns[r][p.search.free]])
        if e.run is None and len(own) > 1:
            centre[k] = np.median(own)
            sd = SCATTER * float(np.median(np.abs(own - centre[k]))) / np.sqrt(len(own))
            width[k] = max(SURELY * sd, NARROW * abs(centre[k]))
    return centre, width


def hinted(problem: Problem, theta: np.ndarray, found: Mapping[int, Proposed]) -> np.ndarray:
    """The unknowns with what most runs' best particles have."""
    out = theta.copy()
    for k in range(len(theta)):
        own = [p.best.theta[list(problem.columns[r]).index(k)] for r, p in found.items() if k in problem.columns[r] and p.first]
        if own:
            out[k] = float(np.median(own))
    return out


def _flight(bodies: Bodies, s: Swarm, when: float, times: np.ndarray) -> list[Swarm]:
    """At several times of one flight, which is at s at the time `when`."""
    out: dict[int, Swarm] = {}
    split = int(np.searchsorted(times, when))
    for way in (range(split, len(times)), range(split - 1, -1, -1)):
        now, t = s, when
        for k in way:
            now, t = bodies.flown(now, float(times[k]) - t), float(times[k])
            out[k] = now
    return [out[k] for k in range(len(times))]


def _root(covariance: np.ndarray) -> np.ndarray:
    """A square root of a matrix that may be singular."""
    size, axes = np.linalg.eigh(0.5 * (covariance + covariance.T))
    return axes * np.sqrt(np.maximum(size, 0.0))


def box(entry: Entry) -> tuple[float, float]:
    """Where an unknown is looked for."""
    path = entry.places[0].path if entry.places else ""
    if path.endswith(".restitution"):
        return max(entry.lower, 0.0), min(entry.upper, 1.0)
    if path.endswith("friction"):
        return max(entry.lower, 0.0), min(entry.upper, max(RUBBING, 2.0 * entry.initial))
    positive = entry.lower >= 0.0 or path.endswith((".mass", *DIAGONAL))  # also of a name that stands in such places
    if entry.initial > 0.0 and positive:
        return max(entry.lower, entry.initial / WIDE), min(entry.upper, entry.initial * WIDE)
    return max(entry.lower, entry.initial - WIDE * entry.scale), min(entry.upper, entry.initial + WIDE * entry.scale)
