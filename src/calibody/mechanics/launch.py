"""The rates with which a motion starts, of joint coordinates: what the balance of the first node says of the first interval.

A known start has an equation of its own (DESIGN section 3), the momentum of the rates v and half of the first interval's forces,

    M(q_0) v = P_0'[V_0 E - (h/2) F_0] + J_a rho_0 - (h/2) t_0 - (h/2) G_0' lambda_0,     G_0 v = 0

which `cb.simulate` steps from. Read the other way it says v, whatever is known of it, as a function of the first two nodes: with `mu = -(h/2) lambda_0`

    [M -G'; G 0] [v; mu] = [left(q_0, q_1); slope of what is prescribed]

exactly as the stepper has it, where a difference of nodes would need forces that hardly change over some steps.
A freedom without mass (two parallel hinges with nothing between) has no momentum that would say its rate: its springs and dampers balance each other from the first node on. Along such freedoms, and nowhere else, M is given
a part of what these resist a step with, m, and the other side `m v` of the rates that are known, which changes nothing where they hold.

**Derivatives.** `left` is half of an ordinary evaluation: the equations of the node in the middle of (q_0, q_0, q_1), without half of those of (q_0, q_0, q_0). Those of `M v - G' mu` and `G v` at fixed v and mu
are the difference of two evaluations over a time e that is far shorter than the step, from `q_0 - e v` to q_0 and from there to `q_0 + e v`: forces cancel, and what is left over is of second order in e.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from calibody.mechanics import assembly, host
from calibody.mechanics.assembly import Frames
from calibody.mechanics.equations import evaluate
from calibody.mechanics.kinematics import retract
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import BALL, FREE, Numbers, Structure

MASSLESS = 1e-6
"""What a freedom's inertia is, relative to what a step is resisted with, mass or not, where it has no mass."""
GIVEN = 1e-3
"""m in the same measure."""
SHORT = 1e-3
"""e in steps: its square is lost against one, and rounding errors are divided by it."""


@dataclass(frozen=True, eq=False)
class Launch:
    """The start of a motion of a tree with rigid loops and without friction by load."""

    structure: Structure
    numbers: Numbers
    active: np.ndarray
    point: Point
    """The nodes q_0, q_0, q_0, q_1 with what acts in the first interval; no multipliers."""
    slope: np.ndarray
    """(kept rows,) how fast what is prescribed goes at the start."""
    known: np.ndarray
    """(nv,) rates that are known, zero where none is."""

    @classmethod
    def of(cls, structure: Structure, numbers: Numbers, active: np.ndarray, point: Point, slope: np.ndarray, known: np.ndarray) -> Launch:
        """`point` is that of the whole motion; `slope` (nc,)."""
        nodes = replace(point.at([0, 0, 0, 1], [0, 0, 0]), unmodelled=None)
        return cls(structure, numbers, active, replace(nodes, multipliers=np.zeros((structure.nc, 4))), slope[active], known)

    @cached_property
    def frames(self) -> Frames:
        return assembly.frames(self.structure, self.numbers, self.point)

    @cached_property
    def evaluated(self) -> Evaluation:
        return evaluate(self.structure, self.numbers, self.point, frames=self.frames)

    @staticmethod
    def left(residual: np.ndarray) -> np.ndarray:
        """Of residuals (..., 2) of the two nodes in the middle."""
        return residual[..., 1] - 0.5 * residual[..., 0]

    @cached_property
    def solved(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rates, mu, and the matrix that they are solved from."""
        s, at = self.structure, host.configuration(self.structure, self.numbers, self.point.q[:, 0])
        G, C = at.G[self.active], at.C[self.active]
        held = self._held(at.M, G)
        K = np.block([[at.M + held, -C.T], [G, np.zeros((len(G), len(G)))]])
        x = _solved(K, np.concatenate([self.left(self.evaluated.residual) + held @ self.known, self.slope]))
        return x[: s.nv], x[s.nv :], K

    def _held(self, M: np.ndarray, G: np.ndarray) -> np.ndarray:
        """(nv, nv): m."""
        size = np.sqrt(np.maximum(np.maximum(self.point.h * np.diag(self.evaluated.dense(1)[2]), np.diag(M)), 1e-300))
        free = np.linalg.svd(G / size)[2][int(np.linalg.matrix_rank(G / size)) :].T if len(G) else np.eye(len(size))
        inertia, along = np.linalg.eigh(free.T @ (M / size / size[:, None]) @ free)
        bare = size[:, None] * (free @ along[:, inertia < MASSLESS])
        return GIVEN * bare @ bare.T

    @property
    def rates(self) -> np.ndarray:
        """(nv,)"""
        return self.solved[0]

    @property
    def e(self) -> float:
        return SHORT * self.point.h

    @cached_property
    def short(self) -> Point:
        """q_0 - e v, q_0, q_0, q_0 + e v, with multipliers such that half of the difference of both residuals is `M v - G' mu`."""
        q, (v, mu, _) = self.point.q[:, :1], self.solved
        ends = [retract(self.structure, q, sign * self.e * v[:, None]) for sign in (-1.0, 1.0)]
        forces = np.zeros((self.structure.nc, 4))
        forces[self.active, 1], forces[self.active, 2] = -mu / self.e, mu / self.e
        given = None if self.point.given is None else np.repeat(self.point.given[:, :1], 4, axis=1)
        return replace(self.point, q=np.concatenate([ends[0], q, q, ends[1]], axis=1), multipliers=forces, h=self.e, given=given)

    @cached_property
    def shortly(self) -> Evaluation:
        return evaluate(self.structure, self.numbers, self.short)

    @cached_property
    def weights(self) -> np.ndarray:
        """(nv, nv + kept): what the rates change by with both sides of the equations."""
        K = self.solved[2]
        return _solved(K, np.eye(len(K)))[: self.structure.nv]

    @cached_property
    def by_nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """(nv, nv) twice: by the first node and by the second."""
        s, W = self.structure, self.weights
        (still, now), (before, after) = ((found.dense(0), found.dense(1)) for found in (self.evaluated, self.shortly))
        ahead, behind = self._carried(-1.0), self._carried(1.0)
        first = now[0] + now[1] - 0.5 * sum(still)
        momentum = 0.5 * ((after[0] + after[1] + after[2] @ ahead) - (before[0] @ behind + before[1] + before[2]))
        by_first = W[:, : s.nv] @ (first - momentum)
        if self.active.any():
            rows = (self.shortly.dense_gradient(3) @ ahead - self.shortly.dense_gradient(0) @ behind)[self.active]
            by_first -= W[:, s.nv :] @ rows / (2.0 * self.e)
        return by_first, W[:, : s.nv] @ now[2]

    def _carried(self, sign: float) -> np.ndarray:
        """(nv, nv): how `q_0 +- e v` goes with q_0, v being in axes that turn with balls: as q_0 does, but for a turn by e v."""
        s, v, out = self.structure, self.rates, np.eye(self.structure.nv)
        for i, unit in enumerate(s.units):
            if unit.kind in (BALL, FREE):
                own = slice(int(s.v_start[i + 1]) - 3, int(s.v_start[i + 1]))
                out[own, own] += sign * self.e * np.cross(v[own], np.eye(3), axisa=0, axisb=0, axisc=0)
        return out

    def by_numbers(self, residual: np.ndarray, short_residual: np.ndarray, short_rows: np.ndarray) -> np.ndarray:
        """(nv, numbers): by numbers by which the residuals of `point` change so (numbers, nv, 2), those of `short`, and its constraints (numbers, nc, 4)."""
        s, W = self.structure, self.weights
        sides = self.left(residual) - 0.5 * (short_residual[..., 1] - short_residual[..., 0])
        rows = (short_rows[..., 3] - short_rows[..., 0])[:, self.active] / (2.0 * self.e)
        return W[:, : s.nv] @ sides.T - W[:, s.nv :] @ rows.T

    def by_control(self, actuator: int) -> np.ndarray:
        """(nv,): by the mean control of the first interval."""
        assert self.evaluated.control is not None
        plan = plan_of(self.structure)
        rows, acts = assembly.rows_of(plan, self.numbers, self.frames, int(plan.actuator_coordinate[actuator]))
        return self.weights[:, rows] @ (self.evaluated.control[actuator, -1] * acts[:, 2])

    def by_applied(self, row: int) -> np.ndarray:
        """(nv,): by the mean of an applied force over the first interval."""
        rows, left, _ = assembly.driving(plan_of(self.structure), self.numbers, self.frames, row)
        return self.weights[:, rows] @ (-0.5 * self.point.h * left[:, -1])


def _solved(K: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where rows depend on each other in the starting pose, or nothing has mass, the shortest solution."""
    try:
        x = np.linalg.solve(K, b)
        if np.isfinite(x).all():
            return x
    except np.linalg.LinAlgError:
        pass
    return np.linalg.lstsq(K, b, rcond=None)[0]
