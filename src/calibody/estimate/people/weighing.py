"""What force plates tell of the masses of a mechanism that hangs on nothing, whatever its joints exert.

Beside unknown drives the likelihood of a fit takes masses partly from what is random about those (`weighed.py`): the least of assumptions that decides most. The balances of the coordinates that carry the mechanism
hold no joint force: with q the motion, y the plates and theta the masses,

    e(q, y, theta) = rows of the root of the equations of motion = 0

The motion is that of the markers alone (`smoothed.py`), known to a covariance Sigma in which no mass occurs; deviations of plates and residual forces have their stated covariances. To first order around that motion e is
normal with mean zero, and

    -2 log p(y | markers, theta) = e'S^-1 e + log |S|,     S(theta) = H Sigma H' + D V D',     H = de/dq,   D = de/d(deviations)

The second term is what keeps noise of accelerations from making masses too small (errors in variables): S grows with them. Fisher's scoring maximises it with the priors,

    score_i = -e_i'a + 1/2 a'S_i a - 1/2 tr(S^-1 S_i),  a = S^-1 e;       I_ij = e_i'S^-1 e_j + 1/2 tr(S^-1 S_i S^-1 S_j)

Where what is left of e is larger than S says (`chi2` per row above 1), bars are larger by its root. The balances are of second order in the step: the same motion over steps twice as long gives numbers whose differences,
a third of them, are the error of the mesh, which is in the bars too (quick legs over 10 ms: 4 to 15 of the bars without it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from calibody.errors import CalibodyError
from calibody.estimate.channels import transcribed
from calibody.estimate.draws.solved import Setting
from calibody.estimate.layout import MULTIPLIERS, NODES, States, cubic
from calibody.estimate.noise.unknown_drives import carrying
from calibody.estimate.people.smoothed import Smoothed, balances, smoothed
from calibody.estimate.problem import Problem
from calibody.estimate.unknowns import Entry, Unknown, entries
from calibody.model.elements import INERTIAL
from calibody.model.paths import number_at
from calibody.solve.condensed import Sparse
from calibody.solve.threads import one_thread

if TYPE_CHECKING:
    from calibody.estimate.result import Result
    from calibody.model import Model

ROUNDS, ENOUGH = 30, 1e-3
"""Most rounds of scoring, and the largest step in standard deviations that ends it."""
NUDGE = 1e-2
"""Relative step of differences of S, which is a polynomial of low order in the masses."""
LEAST = 0.5
"""Part of a positive number that one round may leave of it."""
COARSE = 0.8
"""Part of an error bar from which the mesh is most of it."""
LARGE = 1.3
"""chi2 per row from which that is said: of 500 rows, 1 +- 0.06."""


@dataclass(frozen=True)
class Weight:
    """One number: what plates and prior say, and what the prior said."""

    value: float
    sd: float
    prior: tuple[float, float]
    unit: str
    discretisation_error: float
    """A third of what steps of the mesh twice as long would change; in `sd`."""

    @property
    def gained(self) -> float:
        """The prior's standard deviation over that of both."""
        return self.prior[1] / self.sd


@dataclass(frozen=True, eq=False)
class Weighed:
    weights: Mapping[str, Weight]
    covariance: np.ndarray = field(repr=False)
    total: tuple[float, float]
    """Mass of all bodies and its standard deviation [kg]."""
    total_prior: tuple[float, float]
    chi2: float
    """Of the root's balances, per row: 1 where markers, plates and model are as stated; bars are larger by its root, where it is above 1."""
    model: Model = field(repr=False)
    """With what was found."""

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.weights, "total mass"))
        out = [f"{'':{width}}  {'plates and prior':>20}  {'prior':>20}"]
        for name, w in self.weights.items():
            out.append(f"{name:{width}}  {_told(w.value, w.sd):>20}  {_told(*w.prior):>20}  {w.unit}")
        out.append(f"{'total mass':{width}}  {_told(*self.total):>20}  {_told(*self.total_prior):>20}  kg")
        if self.chi2 > LARGE:
            out.append(
                f"The balances of the root are off by {np.sqrt(self.chi2):.2g} times what markers and plates explain (soft tissue that moves for several frames, places of markers, a plate's origin); the bars are larger by that, "
                "and allow for its scatter, not for a bias it causes."
            )
        worst = max(self.weights.values(), key=lambda w: w.discretisation_error / w.sd)
        if worst.discretisation_error > COARSE * worst.sd:
            out.append("The mesh is too coarse for these motions, and the bars are mostly its errors: give the fit a smaller h.")
        return "\n".join(out)


def _told(value: float, sd: float) -> str:
    return f"{value:.4g} +- {sd:.2g}"


@one_thread
def weigh(result: Result, unknowns: Mapping[str, Unknown]) -> Weighed:
    asked = entries(result.model, unknowns, [r.name for r in result.recordings])
    _refuse(result, asked)
    held = Problem.of(transcribed(result).runs, asked)
    first = np.array([e.initial for e in asked])
    motions = [smoothed(held, r, result.states[r], first) for r in range(len(held.runs))]
    fine = _scored(asked, [_Root(held, r, m.states, m, m.tangents) for r, m in enumerate(motions)], first)
    coarse = _scored(asked, _coarser(result, held, motions), fine.theta)
    mesh = np.abs(fine.theta - coarse.theta) / 3.0
    prior = np.array([e.prior for e in asked], dtype=float)
    covariance = fine.covariance + np.diag(mesh**2)
    sds = np.minimum(np.sqrt(np.diag(covariance)), prior[:, 1])  # a prior is not made worse by data that tell nothing
    model, masses = held.model_of(0, fine.theta)[0], _masses(held, fine.theta)
    before = sum(b.mass for b in held.model_of(0, prior[:, 0])[0].bodies)
    weights = zip(asked, fine.theta, sds, mesh, prior, strict=True)
    return Weighed(
        {e.name: Weight(float(x), float(sd), (float(p[0]), float(p[1])), e.unit, float(m)) for e, x, sd, m, p in weights},
        covariance,
        (sum(b.mass for b in model.bodies), float(np.sqrt(masses @ fine.covariance @ masses + (masses @ (fine.theta - coarse.theta) / 3.0) ** 2))),
        (before, float(np.sqrt(np.sum((masses * prior[:, 1]) ** 2)))),
        fine.chi2,
        model,
    )


@dataclass(frozen=True, eq=False)
class _Found:
    theta: np.ndarray
    covariance: np.ndarray
    chi2: float
    """Per row."""


def _scored(asked: Sequence[Entry], roots: Sequence[_Root], theta: np.ndarray) -> _Found:
    """Fisher's scoring."""
    prior = np.array([e.prior for e in asked], dtype=float)
    size = np.inf
    for _ in range(ROUNDS):
        score, information = -(theta - prior[:, 0]) / prior[:, 1] ** 2, np.diag(prior[:, 1] ** -2.0)
        squares, rows = 0.0, 0
        for root in roots:
            one = root.scored(theta)
            score, information, squares, rows = score + one[0], information + one[1], squares + one[2], rows + one[3]
        if size < ENOUGH:
            return _Found(theta, max(1.0, squares / rows) * np.linalg.inv(information), squares / rows)
        step = np.linalg.solve(information, score)
        lowest = np.where(prior[:, 0] > 0.0, LEAST * theta, -np.inf)
        theta, size = np.maximum(theta + step, lowest), float(np.max(np.abs(step) * np.sqrt(np.diag(information))))
    raise CalibodyError(
        f"The weighing of segments did not converge after {ROUNDS} rounds (the last one still moved a number by {size:.2g} sd); look at the fit's residuals, the priors and where markers are."
    )


def _coarser(result: Result, held: Problem, motions: Sequence[Smoothed]) -> list[_Root]:
    """The balances of the same motion over steps twice as long."""
    setting, h = Setting.of(result), 2.0 * held.runs[0].h
    worker = setting.worker(held, hypers=False)
    coarse = worker.problem(h, worker.noises)
    runs = [replace(run, active=o.active, typical=o.typical) for run, o in zip(coarse.runs, held.runs, strict=True)]
    coarse = replace(coarse, runs=tuple(runs))
    states = held.carried([m.states for m in motions], coarse)
    out = []
    for r, (m, run, old) in enumerate(zip(motions, runs, held.runs, strict=True)):
        _, first, weights = cubic(old.layout.by_name[NODES].times, run.layout.by_name[NODES].times)  # type: ignore[attr-defined]
        onto = sp.csr_matrix((weights.T.ravel(), (first[:, None] + np.arange(4)).ravel(), 4 * np.arange(run.K + 1)), shape=(run.K, old.K))
        out.append(_Root(coarse, r, states[r], m, (sp.kron(onto, sp.identity(run.structure.nv)) @ m.tangents).tocsr()))
    return out


def _refuse(result: Result, asked: tuple[Entry, ...]) -> None:
    loose = carrying(result.model)
    if not loose:
        raise CalibodyError(
            f'The model "{result.model.name}" does not hang on nothing: what it stands on carries an unknown part of its weight, and no plate weighs it.'
        )
    if not result.converged:
        raise CalibodyError(f"Segments are weighed on the motion of a fit that converged: {result.status}")
    for e in asked:
        if e.prior is None:
            raise CalibodyError(f'"{e.name}" has no prior; give what a table says, cb.Unknown(prior=(value, sd)): plates tell some sums of segments only.')
        if e.group is not None or any(p.sensor is not None or number_at(result.model, p.path).role != INERTIAL for p in e.places):
            raise CalibodyError(f'"{e.name}" is no mass, centre of mass or inertia; only these are weighed.')
    if not asked:
        raise CalibodyError('Nothing is to be weighed; give segments with a prior, {"body.thigh_r.mass": cb.Unknown(prior=(9.0, 0.9))}.')


def _masses(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """How the whole mass follows theta."""

    def whole(x: np.ndarray) -> float:
        return sum(b.mass for b in problem.model_of(0, x)[0].bodies)

    return np.array([(whole(theta + d) - whole(theta - d)) / (2.0 * d.max()) for d in np.diag(NUDGE * np.maximum(np.abs(theta), 1e-6))])


class _Root:
    """The balances of the coordinates that carry the mechanism, of one run."""

    def __init__(self, problem: Problem, r: int, states: States, motion: Smoothed, tangents: Sparse) -> None:
        """`states` are nodes of the motion, perhaps not its own, and `tangents` how they follow its free coordinates."""
        run = problem.runs[r]
        s, loose = run.structure, carrying(run.structure.model)
        dofs = [int(s.v_start[k]) for k, unit in enumerate(s.units) if unit.joint is not None and unit.joint.name in loose]
        self.problem, self.r, self.motion, self.tangents, self.rows = problem, r, motion, tangents, balances(run, dofs)
        place = run.layout.place
        amounts = [b for b in run.layout.held if b.name != NODES]
        self.states = states.changed(**{b.name: np.zeros_like(states.parts[b.name]) for b in amounts})
        self.nodes = np.arange(place[NODES].start, place[NODES].stop)
        part = problem.linearised(r, self.states, np.array([e.initial for e in problem.entries]), parameters=False).part
        by = part.Cx[self.rows]
        if MULTIPLIERS in place and abs(by[:, place[MULTIPLIERS]]).sum() > 0.0:
            raise CalibodyError("A loop closes on what carries the mechanism, and takes an unknown part of its weight: it cannot be weighed.")
        self.given = np.zeros((len(self.rows),) * 2)
        """D V D'."""
        for block in amounts:
            acts = by[:, place[block.name]]
            if acts.nnz:
                white = np.linalg.solve(block.whitening.T.toarray(), acts.T.toarray())
                self.given += white.T @ white

    def _at(self, theta: np.ndarray, parameters: bool) -> tuple[np.ndarray, Sparse, np.ndarray]:
        """e, H and de/dtheta."""
        part = self.problem.linearised(self.r, self.states, theta, parameters).part
        by = np.zeros((len(self.rows), len(theta)))
        by[:, self.problem.columns[self.r]] = part.Ct[self.rows]
        return part.C[self.rows], part.Cx[self.rows][:, self.nodes] @ self.tangents, by

    def scored(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, int]:
        """Score and information of theta, the squares of e in units of S, and how many rows it has."""
        e, H, by = self._at(theta, True)
        covered = self.motion.covered(H)
        S = cho_factor(H @ covered + self.given, lower=True)
        a, inverse = cho_solve(S, e), cho_solve(S, np.eye(len(e)))
        changes = []
        for k in range(len(theta)):
            d = NUDGE * max(abs(theta[k]), 1e-6)
            half = ((self._at(theta + d * (np.arange(len(theta)) == k), False)[1] - H) / d) @ covered
            changes.append(half + half.T)
        weighed = [inverse @ change for change in changes]
        score = -by.T @ a + np.array([0.5 * a @ change @ a - 0.5 * np.trace(w) for change, w in zip(changes, weighed, strict=True)])
        information = by.T @ inverse @ by + 0.5 * np.array([[np.sum(v * w.T) for w in weighed] for v in weighed])
        return score, information, float(e @ a), len(e)
