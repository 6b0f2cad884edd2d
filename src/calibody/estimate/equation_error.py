"""First values of the parameters from the first motion: the equations of motion as a regression, no states unknown.

On the first motion (`start.py`) the equations lack the joint forces r_k(theta) [N, N m]. Residuals and their derivatives by theta go through the same zero-phase low-pass of cutoff f (the weak form: what
differencing the motion twice adds is taken out again), which passes the share `beta = 2 f h` of all frequencies; the ends are cut. With n = beta times the number of nodes,

    phi(theta) = n/2 log |det mean r r'|  -  beta sum_k log |det dr_k/dq_(k+1)|                                                       (1)

is minimised: minus the logarithm of the likelihood if the motion were measured exactly and white forces of unknown size, whatever goes together of them, acted on all joints. The second term makes phi independent of
the scale of the forces; without it (1) is the classical inverse dynamic identification (weighted least squares), whose masses come out too small because the accelerations that multiply them
are noisy: on a real cart 0.10 to 0.25 kg instead of 1.2. Gauss-Newton with the weights `n (sum r r')^-1`, bounds, and steps that change masses and inertias by at most a factor of two.

With loops or in `free` coordinates the constraint forces are unknown. Of all joint forces w and constraint forces that balance the residual, `A w + G' lambda = r`, the smallest w are taken, node by
node; w has as many independent components as the mechanism has freedoms. If those are fewer than joints, the first term of (1) is the sum of `n/2 log mean r^2` over the joints, each counted by that share, so that phi
stays independent of scale.

No single cutoff is right: a gentle motion needs 3 Hz, a quick one 30; `candidates` gives the answers of several, and the likelihood decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.layout import BALANCE, States
from calibody.estimate.noise.coupling import factored
from calibody.estimate.noise.maximise import HEAVIEST, LIGHTEST, scales
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.mechanics import assembly
from calibody.mechanics.equations import evaluate
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import TREE
from calibody.solve.condensed import bounded

CUTOFFS = (3.0, 10.0, 30.0)
"""Hz"""
WIDEST = 0.8
"""Share of the band from which nothing is filtered."""
ORDER = 6
"""The filter passes 1/(1 + (frequency/cutoff)^ORDER): as a Butterworth filter of half that order, forwards and backwards."""
STEPS = 25
ENOUGH = 0.05
"""Decrease of phi below which Gauss-Newton ends: a third of a standard deviation, and it is a start."""
THINNED = 100
"""Nodes of a run at which the determinants are evaluated; their mean stands for all."""


@dataclass(frozen=True)
class Candidate:
    """Values of the parameters and the density of the force of each disturbed joint that go with them, with what of it goes together (`coupling.py`)."""

    theta: np.ndarray
    density: dict[str, float]
    coupled: dict[tuple[str, str], float]


def candidates(problem: Problem, x: Sequence[States], theta: np.ndarray, hints: Sequence[np.ndarray] = ()) -> list[Candidate]:
    """What the regressions with every cutoff find, and the values that are there (and `hints`), with the forces that each leaves."""
    out: list[Candidate] = []
    motion = FirstMotion(problem, x, theta)
    for cutoff in CUTOFFS:
        error = EquationError(motion, cutoff)
        if cutoff > CUTOFFS[0] and error.share == 1.0:
            continue
        found = error.solve(theta)
        out.append(error.candidate(found))
        if len(out) == 1:
            out += [error.candidate(values) for values in (theta, *hints)]
    return out


class FirstMotion:
    """The equations of a problem on a given motion, at any values of the parameters; `theta` are values to find the directions of the joints' forces with.

    Masses, inertias, frictions and gains enter linearly. Where all unknowns do, one evaluation and its derivatives are those of all values.
    """

    def __init__(self, problem: Problem, x: Sequence[States], theta: np.ndarray) -> None:
        self.problem, self.x, self.theta = problem, list(x), theta
        self.maps = [_to_joints(problem, r, states, theta) for r, states in enumerate(x)]
        self.thinned = [_thinned(problem, r, states, theta) for r, states in enumerate(self.x)]
        _, by = self.here
        seen = np.any([np.any(J, axis=(0, 1)) for J in by], axis=0)
        self.linear = bool(np.all(problem.proportional[seen]))

    @cached_property
    def here(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return self.evaluated(self.theta, True)

    def evaluated(self, theta: np.ndarray, parameters: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Of every run the joint forces that the equations lack (inner, joints), and their derivatives (inner, joints, p)."""
        value, by = [], []
        for r, (run, states, to_joints) in enumerate(zip(self.problem.runs, self.x, self.maps, strict=True)):
            part, columns = self.problem.linearised(r, states, theta, parameters).part, self.problem.columns[r]
            balance, nv = run.layout.row_place[BALANCE], run.structure.nv
            value.append(_joined(to_joints, part.C[balance].reshape(run.inner, nv, 1))[..., 0])
            if parameters:
                found = _joined(to_joints, part.Ct[balance].reshape(run.inner, nv, -1))
                by.append(np.zeros((*found.shape[:2], len(theta))))
                by[-1][..., columns] = found
        return value, by

    def blocks(self, theta: np.ndarray) -> list[np.ndarray]:
        """Of every run dr_k/dq_(k+1) of some nodes (nodes, freedoms, freedoms)."""
        if self.linear:
            at, by = self._blocks_here
            return [B + np.tensordot(theta - self.theta, dB, 1) for B, dB in zip(at, by, strict=True)]
        return self._blocks(theta)

    def blocks_by(self, theta: np.ndarray) -> list[np.ndarray]:
        """Their derivatives (p, nodes, freedoms, freedoms)."""
        if self.linear:
            return self._blocks_here[1]
        return self._differences(theta, self._blocks(theta))

    @cached_property
    def _blocks_here(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        at = self._blocks(self.theta)
        return at, self._differences(self.theta, at)

    def _differences(self, theta: np.ndarray, at: Sequence[np.ndarray]) -> list[np.ndarray]:
        out = [np.zeros((len(theta), *B.shape)) for B in at]
        for k in np.flatnonzero(self.linear | moves_masses(self.problem)):
            moved = theta.copy()
            moved[k] += 1e-4 * self.problem.scale[k]
            for dB, B, other in zip(out, at, self._blocks(moved), strict=True):
                dB[k] = (other - B) / (1e-4 * self.problem.scale[k])
        return out

    def _blocks(self, theta: np.ndarray) -> list[np.ndarray]:
        out = []
        for r, (run, (point, basis)) in enumerate(zip(self.problem.runs, self.thinned, strict=True)):
            _, numbers, _ = self.problem.model_of(r, theta)
            found = evaluate(run.structure, numbers, point)
            assert found.plus is not None
            blocks = np.zeros((found.plus.shape[1], run.structure.nv, run.structure.nv))
            blocks[:, found.rows, found.columns] = found.plus.T / run.h
            blocks = blocks[::3]
            out.append(blocks if basis is None else np.einsum("kvi,kvw,kwj->kij", basis, blocks, basis))
        return out


class EquationError:
    """phi on a given motion with one cutoff [Hz]."""

    def __init__(self, motion: FirstMotion, cutoff: float) -> None:
        self.motion, self.problem, self.cutoff = motion, motion.problem, cutoff
        runs = self.problem.runs
        share = 2.0 * cutoff * max(run.h for run in runs)
        self.share = 1.0 if share > WIDEST or min(run.inner for run in runs) < 40 else share
        self.count = self.share * sum(run.inner for run in runs)
        self.freedoms = runs[0].structure.nv - runs[0].kept

    def forces(self, theta: np.ndarray, parameters: bool) -> tuple[np.ndarray, np.ndarray]:
        """Filtered forces (nodes, joints) of all runs, in units such that each node counts `share`, and their derivatives (nodes, joints, p)."""
        if self.motion.linear:
            r, J = self._here
            return r + J @ (theta - self.motion.theta), J
        value, by = self.motion.evaluated(theta, parameters)
        return self._weighed(value), self._weighed(by) if parameters else np.zeros(0)

    @cached_property
    def _here(self) -> tuple[np.ndarray, np.ndarray]:
        value, by = self.motion.here
        return self._weighed(value), self._weighed(by)

    def _weighed(self, of_runs: Sequence[np.ndarray]) -> np.ndarray:
        filtered = [(run, self._filtered(run, rows)) for run, rows in zip(self.problem.runs, of_runs, strict=True)]
        return np.concatenate([np.sqrt(self.share * run.inner / len(rows)) * rows for run, rows in filtered])

    def _filtered(self, run: Run, rows: np.ndarray) -> np.ndarray:
        """(inner, ...) through the low-pass, ends cut."""
        if self.share == 1.0:
            return rows
        n = len(rows)
        ends = 2.0 * rows[:1] - rows[:0:-1], 2.0 * rows[-1:] - rows[-2::-1]
        long = np.concatenate([ends[0], rows, ends[1]])
        gain = 1.0 / (1.0 + (np.fft.rfftfreq(len(long), run.h) / self.cutoff) ** ORDER)
        out = np.fft.irfft(np.fft.rfft(long, axis=0) * gain.reshape(-1, *(1,) * (rows.ndim - 1)), len(long), axis=0)[n - 1 : 2 * n - 1]
        cut = min(int(0.5 / (self.cutoff * run.h)) + 1, n // 8)
        return out[cut:-cut]

    def phi(self, theta: np.ndarray) -> float:
        try:
            r, _ = self.forces(theta, False)
            value = self._spread(r) - self.masses(theta)
        except (CalibodyError, np.linalg.LinAlgError):
            return np.inf
        return value if np.isfinite(value) else np.inf

    def _spread(self, r: np.ndarray) -> float:
        return 0.5 * self.count * self._part(r) * float(np.linalg.slogdet(self._covariance(r))[1])

    def _covariance(self, r: np.ndarray) -> np.ndarray:
        """Of the forces; diagonal where they cannot be told apart."""
        out = r.T @ r / self.count
        least = np.diag(np.maximum(np.diag(out) * 1e-9, 1e-300))  # what goes together entirely, or is nothing, still has a determinant
        return out + least if self._part(r) == 1.0 else np.diag(np.diag(out)) + least

    def _part(self, r: np.ndarray) -> float:
        """By which every joint counts."""
        return min(1.0, self.freedoms / max(r.shape[1], 1))

    def masses(self, theta: np.ndarray) -> float:
        """`beta sum_k log |det dr_k/dq_(k+1)|`, up to a constant."""
        both = zip(self.problem.runs, self.motion.blocks(theta), strict=True)
        return sum(self.share * run.inner * float(np.linalg.slogdet(blocks)[1].mean()) for run, blocks in both)

    def candidate(self, theta: np.ndarray) -> Candidate:
        """With the forces [N^2 s, (N m)^2 s] that these values leave."""
        r, _ = self.forces(theta, False)
        run = self.problem.runs[0]
        own = [_columns(run).index(velocity) for _, velocity in run.disturbed]
        covariance = self._covariance(r)[np.ix_(own, own)] * run.h / self.share
        joints, both = [joint for joint, _ in run.disturbed], run.noise.coupled
        U, variances = factored(covariance) if both else (np.eye(len(own)), np.diag(covariance))
        density = {joint: max(float(np.mean([v for name, v in zip(joints, variances, strict=True) if name == joint])), 1e-30) for joint in joints}
        return Candidate(theta, density, {pair: float(U[joints.index(pair[1]), joints.index(pair[0])]) for pair in both})

    def solve(self, theta: np.ndarray) -> np.ndarray:
        """The parameters that minimise phi, from theta on."""
        problem, heavy = self.problem, scales(self.problem.entries)
        theta = np.clip(theta, problem.lower, problem.upper)
        phi, damping = self.phi(theta), 0.0
        for _ in range(STEPS):
            r, J = self.forces(theta, True)
            weight = self._part(r) * np.linalg.inv(self._covariance(r))
            weighed = np.einsum("vw,kwp->kvp", weight, J)
            g, H = np.einsum("kv,kvp->p", r, weighed), np.einsum("kvp,kvq->pq", J, weighed)
            seen = np.diag(H) > 0.0
            g -= np.where(seen, self._masses_slope(theta), 0.0)
            low, high = np.where(seen, problem.lower - theta, 0.0), np.where(seen, problem.upper - theta, 0.0)
            size = 2.0 * np.maximum(problem.scale, np.abs(theta))
            low, high = np.maximum(low, -size), np.minimum(high, size)
            box = heavy & (theta > 0.0)
            low = np.where(box, np.maximum(low, (LIGHTEST - 1.0) * theta), low)
            high = np.where(box, np.minimum(high, (HEAVIEST - 1.0) * theta), high)
            new, trial = np.inf, theta
            for _ in range(6):
                held = damping * np.diag(H) + 1e-6 / problem.scale**2
                d, _ = bounded(H + np.diag(held), g, np.minimum(low, 0.0), np.maximum(high, 0.0), problem.scale)
                trial = problem.shift(theta, d)
                new = self.phi(trial)
                if new < phi:
                    break
                damping = max(10.0 * damping, 0.1)
            if not new < phi:
                break
            gained, theta, phi, damping = phi - new, trial, new, damping / 10.0
            if gained < ENOUGH:
                break
        return theta

    def _masses_slope(self, theta: np.ndarray) -> np.ndarray:
        out = np.zeros(len(theta))
        for run, B, dB in zip(self.problem.runs, self.motion.blocks(theta), self.motion.blocks_by(theta), strict=True):
            inverse = np.linalg.inv(B)
            out += self.share * run.inner * np.einsum("kij,pkji->p", inverse, dB) / len(B)
        return out


def moves_masses(problem: Problem) -> np.ndarray:
    """Which parameters can change dr_k/dq_(k+1) noticeably: all but forces that are not accelerations'."""
    words = ("damping", "friction", "friction_rate", "stribeck", "stribeck_rate", "stiffness", "springref", "gain", "bias", "delay", "viscosity")
    return np.array([not e.places or any(p.sensor is None and p.path.rsplit(".", 1)[-1] not in words for p in e.places) for e in problem.entries], dtype=bool)


def _columns(run: Run) -> list[int]:
    """The velocities of the tree whose forces are told apart, in order."""
    s = run.structure
    if s.coordinates == TREE:
        return list(range(s.nv))
    return [c.dof for c in s.scalar_coordinates] + [c.dof + axis for c in s.ball_coordinates for axis in range(3)]


def _to_joints(problem: Problem, r: int, states: States, theta: np.ndarray) -> np.ndarray | None:
    """(inner, joints' velocities, nv): from the residual to the smallest joint forces that balance it beside constraint forces; None: it is those."""
    run = problem.runs[r]
    s = run.structure
    if s.coordinates == TREE and not run.active.any():
        return None
    model, numbers, _ = problem.model_of(r, theta)
    point, frames = problem.framed(r, states, model, numbers)
    columns = _columns(run)
    A = np.zeros((run.inner, s.nv, len(columns)))
    for k, velocity in enumerate(columns):
        dofs, acts = assembly.acting(plan_of(s), frames, velocity)
        A[:, dofs, k] = acts[:, 1:-1].T
    across = _across(run, evaluate(s, numbers, point))[1:-1]
    return np.linalg.pinv(across @ A) @ across


def _across(run: Run, found: Evaluation) -> np.ndarray:
    """(K, nv, nv): projection of forces across those of constraints."""
    nv = run.structure.nv
    G = np.stack([found.dense_gradient(k)[run.rows[:, k]] for k in range(run.K)])
    return np.eye(nv) - np.linalg.pinv(G) @ G


def _joined(to_joints: np.ndarray | None, rows: np.ndarray) -> np.ndarray:
    return rows if to_joints is None else to_joints @ rows


def _thinned(problem: Problem, r: int, states: States, theta: np.ndarray) -> tuple[Point, np.ndarray | None]:
    """Some nodes of a run with their neighbours, one triple after the other, and a basis of the free directions of each (None: all)."""
    run = problem.runs[r]
    model, numbers, _ = problem.model_of(r, theta)
    point = run.point(model, numbers, states)
    middle = np.unique(np.linspace(1, run.K - 2, min(THINNED, run.inner)).round().astype(int))
    nodes = (middle[:, None] + np.array([-1, 0, 1])).ravel()
    between = np.minimum(nodes, run.K - 2)[:-1]
    thin = replace(point.at(nodes, between), unmodelled=None)
    if not run.active.any():
        return thin, None
    found = evaluate(run.structure, numbers, point)
    G = np.stack([found.dense_gradient(k)[run.rows[:, k]] for k in middle])
    return thin, np.linalg.svd(G)[2][:, G.shape[1] :].swapaxes(1, 2)
