"""Poses at rest as a problem: every node is a pose of its own, nothing ties one to the next.

    minimise    1/2 sum |(y - o(q_k, theta))/sd|^2 + 1/2 |(theta - prior)/sd|^2     subject to  g(q_k, theta) = 0 in every pose

over the poses q_k and the parameters: what measured joint angles and measured places of the same pose say about the geometry, errors in both allowed for. It is transcription (`problem.py`) without its
equations of motion: the same unknowns, the same channels and derivatives, the same elimination of the states before the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.layout import BALANCE, CONSTRAINTS, MULTIPLIERS, NODES, START, Coordinates, Forces, Layout, Rows, States, Term
from calibody.estimate.nodes import Noise
from calibody.estimate.observed import predicted
from calibody.estimate.problem import Linearised, Problem
from calibody.estimate.run import Run
from calibody.estimate.start import FIRST, NEXT, Target, reached, resting
from calibody.estimate.unknowns import named
from calibody.mechanics import channels
from calibody.mechanics.equations import evaluate
from calibody.mechanics.parameters import columns
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Evaluation
from calibody.mechanics.structure import Numbers, Structure
from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.condensed import Linearisation, Sparse
from calibody.steppers.rest import Rest

UNSEEN = 1e-9
"""Share of the largest singular value of what a pose is observed by below which a direction of it is not."""


@dataclass(frozen=True, eq=False)
class PoseRun(Run):
    """A recording of poses; `times` are their numbers."""

    @classmethod
    def of(cls, structure: Structure, recording: Recording, h: float, noise: Noise, hold: float = 0.0) -> PoseRun:
        rows = np.ones(structure.nc)
        return cls(structure, recording, recording.numbered, h, noise, active=rows > 0.0, soft=rows < 0.0, typical=rows).with_data()

    @property
    def clocked(self) -> bool:
        return False

    def free_states(self, freedom: int) -> int:
        return self.K * freedom

    def interpolation(self, times: np.ndarray) -> Sparse:
        """(samples, K): every sample is of one pose."""
        at = np.searchsorted(self.times, times)
        return sp.csr_matrix((np.ones(len(at)), (np.arange(len(at)), at)), shape=(len(at), self.K))

    def sampled(self, channel: channels.Channel, times: np.ndarray) -> tuple[Sparse, Sparse]:
        if not is_placed(channel):
            raise CalibodyError(
                f'The run "{self.recording.name}" has poses at rest and observes "{channel.path}"; in a pose only angles, positions and orientations are observed.'
            )
        return self.interpolation(times), sp.csr_matrix((len(times), self.K))

    @cached_property
    def layout(self) -> Layout:
        s, K = self.structure, self.K
        poses = Coordinates(NODES, np.arange(K), s.nv, structure=s, times=self.times)
        none = Forces(MULTIPLIERS, np.zeros(K - 2), 0, rows=np.zeros((0, K), dtype=np.int64), times=self.times)
        constraints = Rows(CONSTRAINTS, np.tile(np.arange(K) + 0.3, self.kept))
        return Layout((poses, none), (Rows(BALANCE, np.zeros(0)), constraints, Rows(START, np.zeros(0))))


@dataclass(frozen=True, eq=False)
class PoseProblem(Problem):
    """Several recordings of poses with shared and per-run parameters."""

    bars: ClassVar[bool] = False
    dynamic: ClassVar[bool] = False

    def motion(self, r: int, states: States, theta: np.ndarray) -> Rest:
        model, numbers, _ = self.model_of(r, theta)
        return Rest.of(model, self.runs[r].structure, numbers, states.q, self.runs[r].times)

    def _closed(self, r: int, motion: States, model: Model, numbers: Numbers, derivatives: bool) -> Evaluation:
        """Loops at all poses (of the rest of an evaluation, which is about motion, nothing is used)."""
        point, frames = self.framed(r, motion, model, numbers)
        return evaluate(self.runs[r].structure, numbers, point, derivatives, frames)

    def _values(self, r: int, motion: States, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        run = self.runs[r]
        model, numbers, sensors = self.model_of(r, theta)
        frames = self.frames(r, motion, model, numbers)
        F = [(predicted(run, model, numbers, frames, motion.multipliers, sensors, d).value - d.y) * run.weight(d) for d in run.data]
        C = self._closed(r, motion, model, numbers, False).constraint[run.active].ravel() if run.kept else np.zeros(0)
        return np.concatenate(F), C

    def _linearised(self, motion: States, theta: np.ndarray, parameters: bool, residuals: bool) -> Linearised:
        run, p = self.runs[0], len(self.entries)
        model, numbers, sensors = self.model_of(0, theta)
        frames = self.frames(0, motion, model, numbers)
        none = np.zeros(0), sp.csr_matrix((0, run.layout.size)), np.zeros((0, p))
        F, Fx, Ft = self._observed(0, theta, frames, sensors, model, numbers, motion, parameters) if residuals else none
        C, Cx, Ct = np.zeros(0), sp.csr_matrix((0, run.layout.size)), np.zeros((0, p))
        evaluation = Evaluation(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0), np.zeros(0))
        if run.kept:
            evaluation = self._closed(0, motion, model, numbers, True)
            C = evaluation.constraint[run.active].ravel()
            gradient, _ = run.kept_gradient(evaluation)
            Cx = run.layout.jacobian([Term(CONSTRAINTS, NODES, gradient.row * run.K, gradient.column, gradient.values, (1, run.structure.nv))])
            Ct = self._closed_by_parameters(theta, motion, model, numbers) if parameters else np.zeros((len(C), p))
        return Linearised(Linearisation(F, Fx, Ft, C, Cx, Ct, run.layout.when), evaluation)

    def _closed_by_parameters(self, theta: np.ndarray, motion: States, model: Model, numbers: Numbers) -> np.ndarray:
        """(constraint rows, parameters)"""
        run, known = self.runs[0], named(self.entries, theta, 0)
        placed = [(k, place) for k, e in enumerate(self.entries) for place in e.places if place.sensor is None]
        point, frames = self.framed(0, motion, model, numbers)
        found = columns(run.structure, numbers, point, [place.path for _, place in placed], model, frames)
        out = np.zeros((run.layout.rows, len(self.entries)))
        for (k, place), constraint in zip(placed, found.constraint, strict=True):
            out[:, k] += place.slope(theta[k], known) * constraint[run.active].ravel()
        return out

    def refuse_unseen(self, r: int, motion: States, theta: np.ndarray) -> None:
        """A sentence where a pose is not determined by what was observed in it: nothing else would say where its joints were."""
        run = self.runs[r]
        part, nv = self.linearised(r, motion, theta, parameters=False).part, run.structure.nv
        rows = sp.csc_matrix(sp.vstack([part.Fx, part.Cx]))
        for k in range(run.K):
            mine = rows[:, k * nv : (k + 1) * nv]
            seeing = mine.tocsr()[np.unique(mine.indices)].toarray()  # of all poses, only the rows of this one
            _, size, directions = np.linalg.svd(np.linalg.qr(seeing, mode="r"))
            seen = np.zeros(nv)
            seen[: len(size)] = size
            if seen[-1] <= UNSEEN * seen[0]:
                away = np.abs(directions[-1])
                names = dict.fromkeys(run.structure.dof_name(int(i)) for i in np.flatnonzero(away > 0.3 * away.max()))
                raise CalibodyError(
                    f'In pose {run.times[k]:g} of the run "{run.recording.name}" nothing says where {", ".join(names)} {"is" if len(names) == 1 else "are"}; '
                    "observe the joints, or more places, or leave the pose out."
                )


def is_placed(channel: channels.Channel) -> bool:
    """Whether a channel says where something is."""
    return observe.is_kinematic(channel) and not observe.is_rate(channel)


def first_poses(run: PoseRun, model: Model, numbers: Numbers, sensors: Mapping[tuple[str, str], float]) -> States:
    """Where to begin: every pose on its own, from the measured coordinates of its joints, or of the pose before where they were not measured."""
    s, q = run.structure, resting(run.structure, model)
    direct = {d.channel.path: int(s.scalar_positions[s.coordinate_index[d.channel.name]]) for d in run.data if is_coordinate(d.channel)}
    targets = [(Target(d, d.times, sensors, clocked=False), d) for d in run.data]
    poses = []
    for k, number in enumerate(run.times):
        seen = [(target, d, int(i[0])) for target, d in targets if len(i := np.flatnonzero(d.times == number))]
        for target, d, i in seen:
            if d.channel.path in direct:
                q = q.copy()
                q[direct[d.channel.path]] = target.y[i]
        if s.nc or len([d for _, d, _ in seen if d.channel.path in direct]) < len(plan_of(s).coordinate_dof):
            q = reached(s, model, numbers, [(target, i) for target, _, i in seen], q, FIRST if k == 0 else 4 * NEXT)
        poses.append(q)
    return run.still(q).changed(nodes=np.stack(poses, axis=1))


def is_coordinate(channel: channels.Channel) -> bool:
    """Whether a channel is the coordinate of a hinge or a slide."""
    return channel.kind == "joint" and not channel.components
