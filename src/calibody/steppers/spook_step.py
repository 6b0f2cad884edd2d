"""One step of the regularised scheme, as a compiled program for one mechanism.

Every body that moves has its own velocity `v = (velocity of the centre of mass, angular velocity)` in world axes, `M = diag(m 1, R J R')`, and

    M (v+ - v) - A' lam_A - B' lam_B = h (f + f_gyro),   f_gyro = (0, -omega x R J R' omega)
    A v+ + S_A lam_A = a                                 holonomic, viscous and shaft rows (`spook_rows`)
    B v+ + S_B lam_B + b = w_B,  lam_B, w_B >= 0         load, slip and limit rows, and those of contacts (`spook_contact`), complementary
    x+ = x + h v+,   e+ = exp(h omega+) e

with `Y = diag(1/(1 + 4 tau/h))`, `S = (4/h^2) eps Y` for compliance eps and damping time tau of a row ([marklund2025], equations 2.8 to 2.28; multipliers
are impulses). With `v0 = v + h M^-1 (f + f_gyro)` and `v+ = v0 + M^-1 (A' lam_A + B' lam_B)` what is left is the mixed problem

    [A M^-1 A' + S_A    A M^-1 B'      ] [lam_A]   [A v0 - a]   [0  ]
    [B M^-1 A'          B M^-1 B' + S_B] [lam_B] + [B v0 + b] = [w_B]

whose free block is regular. It is eliminated first (`solve/dense.py`); then Lemke's method (`complementarity`). Rows of B, normals apart, come in pairs of opposite signs, so
the elimination has half as many right-hand sides: D, one of each pair, `W = D M^-1 D' - D M^-1 A' (A M^-1 A' + S_A)^-1 A M^-1 D'`. The active set of the step
before is tried first, and is nearly always right.

All forces but constraints, dampers, shafts and friction are explicit: springs and bushings at the old positions and rates. They are stable for
`h < 2 sqrt(m/k)` only.

First order in h; nothing is iterated, so a step costs the same whatever happens in it, switches of dry friction apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from calibody.complementarity import lcp
from calibody.mechanics.compilation import program
from calibody.mechanics.elements.drive import exerted
from calibody.mechanics.elements.law import LAW
from calibody.mechanics.kinematics import Geometry, poses
from calibody.mechanics.structure import Structure
from calibody.solve.dense import Factors, factored, put_at, solved
from calibody.spatial import algebra as al
from calibody.steppers.spook_contact import RIGID, At, PlaceValues
from calibody.steppers.spook_rows import Rows, Values, force_limited, moving, regularised
from calibody.steppers.step import PIECE, Node, Program, column

CREEPING = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
"""Of the mobility of a slip (of S_t, where that is larger) what is added to S_t, one after the other until a step with contacts is solved. With 1e-4 a body on the ground that needs all its friction creeps by 1e-4 g h."""
CONVERGED, NO_SOLUTION, NOT_FINITE, TURNED = 0, 1, 2, 3


class State(NamedTuple):
    """What is carried from step to step."""

    q: Any
    v: Any
    """(nv,) per moving body: velocity of its centre of mass, angular velocity; world axes."""
    s: Any
    """(scalar coordinates,) unwrapped."""
    rate: Any
    """(axis rows,) `N v` with the axes of the step before: what the shafts turn at."""
    active: Any
    """(complementary rows,) active set of the step before."""


class Problem(NamedTuple):
    """The mixed problem of one step, its free multipliers eliminated, and what turns its solution into a velocity."""

    M: Any
    """(complementary, complementary), of `w = M z + q`."""
    q: Any
    S: Any
    """(free, free) and (free, D): the rows of the free multipliers, `S lam_A + S_D lam_D + b = 0`."""
    S_D: Any
    b: Any
    factors: Factors
    """Of S."""
    v0: Any
    MJ: Any
    """`J M^-1` of A and D."""
    at: At | None
    """Of the places of contacts and limits."""


class Pieces(NamedTuple):
    """Everything about one state that the equations are made of."""

    node: Node
    axes: Any
    """(axis rows, nv): N."""
    R: Any
    """(3, 3, bodies)"""
    force: Any
    """(nv,) f + f_gyro, without what acts through shafts."""
    drive: Any
    """(axis rows,) what drives exert."""


@dataclass(frozen=True, eq=False)
class Step:
    """The functions of one mechanism, not yet compiled."""

    rows: Rows

    @property
    def structure(self) -> Structure:
        return self.rows.structure

    @cached_property
    def program(self) -> Program:
        """Kinematics and constraint rows are those of the variational step, with other velocities."""
        return Program(self.structure)

    @cached_property
    def units(self) -> np.ndarray:
        return moving(self.structure)

    # -- one state ---------------------------------------------------------------------------------------------------------------

    def centres(self, values: Values, H: Any) -> Any:
        """(3, bodies) centres of mass in the world."""
        return jnp.stack(al.point(al.unpack_pose(H[:, :, self.units]), tuple(values.com)))  # type: ignore[arg-type]

    def pieces(self, values: Values, q: Any, v: Any, s_near: Any, u: Any, applied: Any) -> Pieces:
        base = values.base
        H = poses(self.structure, Geometry(*base.geometry), q)
        T = self._twists(self.centres(values, H))
        s, Z, A = self.program.coordinates(base, q, H, T, s_near)
        node = Node(q, H, T, s, Z, A, *self.program.constraints(base, H, T, s, Z, A), *self.program.paths(base, H, T))
        R = H[:, :3, self.units]
        axes, turns = A, None
        if len(self.program.plan.ball_links):
            turns, gradient = self.program.ball_node(base, node)
            axes = jnp.concatenate([A, jnp.moveaxis(gradient, 0, 1).reshape(-1, self.structure.nv)])
        drive = self._drive(values, s, A @ v, u, applied)
        force = self._bodies(values, R, v) + axes.T @ self._joints(values, s, axes @ v, turns, drive) + self._between(base, node, v)
        return Pieces(node, axes, R, force, drive)

    def _twists(self, x: Any) -> Any:
        """(6, nv): the twist about the world's origin of every velocity; a turn about the centre x is `(e, x x e)`."""
        n = len(self.units)
        eye, zero = jnp.broadcast_to(jnp.eye(3)[:, None], (3, n, 3)), jnp.zeros((3, n, 3))
        x0, x1, x2 = x
        o = jnp.zeros(n)
        cross = jnp.stack([jnp.stack([o, -x2, x1], 1), jnp.stack([x2, o, -x0], 1), jnp.stack([-x1, x0, o], 1)])
        upper, lower = jnp.concatenate([zero, eye], axis=2), jnp.concatenate([eye, cross], axis=2)
        return jnp.concatenate([upper, lower]).reshape(6, -1)

    def momentum(self, values: Values, R: Any, v: Any) -> Any:
        """`M v`."""
        split = v.reshape(-1, 6)
        angular = jnp.einsum("ijk,jlk,mlk,km->ki", R, values.inertia, R, split[:, 3:])
        return jnp.concatenate([values.mass[:, None] * split[:, :3], angular], axis=1).reshape(-1)

    def _bodies(self, values: Values, R: Any, v: Any) -> Any:
        """Gravity and the gyroscopic torque."""
        angular = self.momentum(values, R, v).reshape(-1, 6)[:, 3:]
        weight = values.mass[:, None] * values.base.gravity
        return jnp.concatenate([weight, -jnp.cross(v.reshape(-1, 6)[:, 3:], angular)], axis=1).reshape(-1)

    def _drive(self, values: Values, s: Any, rate: Any, u: Any, applied: Any) -> Any:
        """(axis rows,) actuators (their damping is a viscous row, unless their force is limited) and applied joint forces."""
        plan = self.program.plan
        scalars = applied[plan.coordinate_dof]
        if len(plan.actuator_coordinate):
            c = plan.actuator_coordinate
            t, *_ = exerted(s[c], jnp.where(force_limited(values.base), rate[c], 0.0), u, tuple(values.base.elements["drive"]))
            scalars = scalars + t @ (c[:, None] == np.arange(len(plan.coordinate_dof))).astype(float)
        balls = (plan.ball_dof[:, None] + np.arange(3)).reshape(-1)
        return jnp.concatenate([scalars, applied[balls]])

    def _joints(self, values: Values, s: Any, rate: Any, turns: Any, drive: Any) -> Any:
        """(axis rows,) explicit forces: springs, drives where there is no shaft, and damping below zero, which no row can have."""
        base, plan = values.base, self.program.plan
        stiffness, rest = (base.elements["law"][LAW.index(name)] for name in ("stiffness", "springref"))
        parts = [-stiffness * (s - rest)]
        if turns is not None:
            reference = al.quaternion_matrix(tuple(base.ball_reference))  # type: ignore[arg-type]
            psi = jnp.stack(al.matrix_log(al.matmul(al.transpose(reference), turns)))  # (3, balls)
            parts.append((-base.ball_law[0] * psi).T.reshape(3 * len(plan.ball_links)))
        on_shaft = np.zeros(drive.shape[0], bool)
        on_shaft[self.rows.shaft] = True
        return jnp.concatenate(parts) + jnp.where(on_shaft, 0.0, drive) - jnp.minimum(values.damping, 0.0) * rate

    def _between(self, base: Any, node: Node, v: Any) -> Any:
        """Forces between links."""
        out = jnp.zeros(self.structure.nv)
        for group in self.program.plan.forces:
            kind, data = group.type, base.elements[group.name]
            z, Z, A = self.program.measured(kind.measure, group.touches, data, node.H, node.T)
            rate = jnp.einsum("cej,j->ce", Z, v)
            # an interval of length 2 whose ends are z -+ rate has the mean z and the rate `rate`; its impulse is `-f`
            impulse, _, _ = kind.impulse(tuple(z - rate), tuple(z + rate), data, 2.0)
            out = out - jnp.einsum("cej,ce->j", A, jnp.stack(impulse))
        return out

    # -- the equations -----------------------------------------------------------------------------------------------------------

    def over_mass(self, values: Values, R: Any, rows: Any) -> Any:
        """`rows M^-1`, (rows, nv)."""
        inverse = jnp.einsum("ijk,jlk,mlk->kim", R, values.inverse, R)
        split = rows.reshape(rows.shape[0], len(self.units), 6)
        linear, angular = split[..., :3] / values.mass[:, None], jnp.einsum("rki,kim->rkm", split[..., 3:], inverse)
        return jnp.concatenate([linear, angular], axis=2).reshape(rows.shape)

    def free_rows(self, values: Values, p: Pieces, v: Any, rate: Any, h: Any) -> tuple[Any, Any, Any]:
        """A, the diagonal of `S_A^-1`, and `S_A^-1 a` (finite for coefficients that are zero). `rate` is `N v` with the axes of the step before.

        A shaft resists the change of its rate, `d(N v)/dt = N v' + N' v`. For hinges `N' v = 0` and `N v` will do ([marklund2025], F.3); the axes
        of a slide on a turning body and of a ball move under the velocity, so there the rate is remembered.
        """
        r = self.rows
        Y, S = values.regularisation(h)
        G, g = p.node.G[r.holonomic], p.node.g[r.holonomic]
        viscous, shaft = p.axes[r.viscous], p.axes[r.shaft]
        J = values.armature[r.shaft]
        before = jnp.where(r.hinge[r.shaft], shaft @ v, rate[r.shaft])
        stiff = 1.0 / S[r.holonomic]
        K = jnp.concatenate([stiff, values.damping[r.viscous] * h, J])
        Ka = jnp.concatenate([stiff * Y[r.holonomic] * (G @ v - 4.0 / h * g), jnp.zeros(len(r.viscous)), J * before + h * p.drive[r.shaft]])
        return jnp.concatenate([G, viscous, shaft]), K, Ka

    def limits(self, values: Values, p: Pieces, v: Any, h: Any) -> tuple[Any, Any]:
        """(dry joints,) impulse limit without load, and the friction coefficient, both at the old rate (Stribeck)."""
        first = np.searchsorted(self.rows.axis_joint, np.arange(len(self.rows.dry)))
        rate = p.axes[self.rows.axes[first]] @ v
        bump = jnp.exp(-((rate / values.stribeck_rate) ** 2))
        limit, mu = values.limit, values.load_limit
        return h * (limit[0] + limit[1] * bump), mu[0] + mu[1] * bump

    def problem(self, values: Values, p: Pieces, state: State, h: Any) -> Problem:
        r, v = self.rows, state.v
        A, K, Ka = self.free_rows(values, p, v, state.rate, h)
        S_A, a = 1.0 / K, Ka / K
        v0 = v + h * self.over_mass(values, p.R, p.force[None])[0]
        G, g, N = p.node.G[r.loaded], p.node.g[r.loaded], p.axes[r.axes]
        D, at, idle, soft, slip, slope, friction = jnp.concatenate([G, N]), None, jnp.zeros(0), jnp.zeros(0), jnp.zeros(0), jnp.zeros(0), jnp.zeros(0)
        if r.places is not None:
            assert isinstance(values.places, PlaceValues)
            Y, soft = regularised(values.places.softness, h)
            at = r.places.at(values.places, p.node, v, v0, Y, h)
            D, idle, slip, slope, friction = (
                jnp.concatenate([D, at.normals, at.tangents]),
                at.idle,
                values.places.slip,
                values.places.slope,
                values.places.friction,
            )
        MJ = self.over_mass(values, p.R, jnp.concatenate([A, D]))
        MA, MD = MJ[: r.free], MJ[r.free :]
        S, S_D, b = A @ MA.T + jnp.diag(S_A), A @ MD.T, A @ v0 - a
        factors = factored(S)
        if not r.complementary:
            return Problem(jnp.zeros((0, 0)), jnp.zeros(0), S, S_D, b, factors, v0, MJ, at)
        X = solved(factors, jnp.concatenate([S_D, b[:, None]], axis=1))
        W, rest = D @ MD.T - S_D.T @ X[:, :-1], D @ v0 - S_D.T @ X[:, -1]
        Y, S_G = values.regularisation(h)
        Y, S_G = Y[r.loaded], S_G[r.loaded]
        known = Y * (4.0 / h * g - G @ v)
        limit, mu = self.limits(values, p, v, h)
        if at is not None:
            first = len(r.loaded) + len(r.axes)
            stiff = RIGID * jnp.diagonal(W)[first : first + r.normals]
            soft = jnp.where(at.thrown, jnp.minimum(soft, stiff), soft)
        E, U = self._couplings(values, mu, friction)
        own, sign = self.pairs
        diagonal = jnp.concatenate([S_G, S_G, values.slip, values.slip, soft, slip, slip])
        upper = W[own[:, None], own[None, :]] * (sign[:, None] * sign[None, :]) + jnp.diag(diagonal)
        M = jnp.block([[upper, E], [U - E.T, jnp.diag(jnp.concatenate([values.limit_slope, slope]))]])
        q = sign * rest[own] + jnp.concatenate([known, -known, jnp.zeros(2 * len(r.axes)), idle, jnp.zeros(4 * len(r.rubbing))])
        return Problem(M, jnp.concatenate([q, limit, jnp.zeros(len(r.rubbing))]), S, S_D, b, factors, v0, MJ, at)

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Row of D and sign of the complementary rows before the limits."""
        own, sign, first = [], [], 0
        for count, both in self.rows.blocks:
            for one in (1.0, -1.0) if both else (1.0,):
                own.append(first + np.arange(count))
                sign.append(np.full(count, one))
            first += count
        return np.concatenate(own), np.concatenate(sign)

    def _couplings(self, values: Values, mu: Any, friction: Any) -> tuple[Any, Any]:
        """E (rows before the limits, limits), one where a slip is limited, and U (limits, rows before them): what a load adds to its limit."""
        r = self.rows
        of_joints, of_places = np.arange(len(r.dry)), np.arange(len(r.rubbing))
        nothing = np.zeros((len(r.rubbing), 2 * (len(r.loaded) + len(r.axes))))
        slips = np.tile(r.axis_joint[:, None] == of_joints, (2, 1)).astype(float)
        own = (of_joints[:, None] == r.row_joint[None, :]).astype(float)
        loads = mu[:, None] * own * values.lever[None, :]
        above, beside = np.zeros((2 * len(r.loaded), r.limits)), np.zeros((len(r.dry), r.normals + 4 * len(r.rubbing)))
        E = [above, np.hstack([slips, np.zeros((len(slips), len(r.rubbing)))]), np.zeros((r.normals, r.limits))]
        E.append(np.hstack([np.zeros((4 * len(r.rubbing), len(r.dry))), np.tile(np.eye(len(r.rubbing)), (4, 1))]))
        normals = friction[:, None] * (r.rubbing[:, None] == np.arange(r.normals))
        of_dry = jnp.concatenate([loads, loads, np.zeros((len(r.dry), 2 * len(r.axes))), beside], axis=1)
        rubs = jnp.concatenate([nothing, normals, np.zeros((len(of_places), 4 * len(r.rubbing)))], axis=1)
        return jnp.asarray(np.vstack(E)), jnp.concatenate([of_dry, rubs])

    def solve(self, problem: Problem, guess: Any) -> lcp.Solution:
        """Where a path is lost in rounding, as it may be among places that share a load and stick, once more with what sticks creeping more (`CREEPING`)."""

        def found(more: Any) -> lcp.Solution:
            return lcp.solve(problem.M + jnp.diag(more * self.creeps * jnp.diagonal(problem.M)), problem.q, guess, lambda A, b: solved(factored(A), b))

        if self.rows.places is None:
            return lcp.solve(problem.M, problem.q, guess, lambda A, b: solved(factored(A), b))
        tries = jnp.asarray(CREEPING)

        def again(carry: tuple) -> tuple:
            k, _ = carry
            return k + 1, found(tries[k])

        def unsolved(carry: tuple) -> Any:
            return (carry[1].status != lcp.SOLVED) & (carry[0] < len(CREEPING))

        n = self.rows.complementary
        nothing, none = jnp.zeros(n), jnp.zeros((), jnp.int32)
        begun = lcp.Solution(nothing, nothing, none + lcp.RAY, jnp.zeros(n, bool), none, jnp.zeros(()))
        return jax.lax.while_loop(unsolved, again, (none, begun))[1]

    @cached_property
    def creeps(self) -> np.ndarray:
        """(complementary rows,) 1 for slips and tangents."""
        out, first = np.zeros(self.rows.complementary), 0
        for k, (count, both) in enumerate(self.rows.blocks):
            out[first : first + count * (1 + both)] = k in (1, 3)
            first += count * (1 + both)
        return out

    def multipliers(self, problem: Problem, z: Any) -> Any:
        """(A and D rows,) impulses, for a solution z of the complementary problem."""
        parts, first = [], 0
        for count, both in self.rows.blocks:
            parts.append(z[first : first + count] - (z[first + count : first + 2 * count] if both else 0.0))
            first += count * (1 + both)
        z_D = jnp.concatenate(parts)
        right = -(problem.b + problem.S_D @ z_D)
        z_A = solved(problem.factors, right)
        z_A = z_A + solved(problem.factors, right - problem.S @ z_A)  # what an inverse loses where rows nearly depend on each other
        return jnp.concatenate([z_A, z_D])

    def pushes(self, problem: Problem, lam: Any, h: Any) -> tuple[Any, Any]:
        """Forces (places, 3) of contacts and limits in the world, and their normal parts, from the impulses of A and D."""
        if self.rows.places is None or problem.at is None:
            return jnp.zeros((0, 3)), jnp.zeros(0)
        first = self.rows.free + len(self.rows.loaded) + len(self.rows.axes)
        normal, rub = lam[first : first + self.rows.normals] / h, lam[first + self.rows.normals :] / h
        return self.rows.places.forces(problem.at, normal, rub), normal

    def step(self, values: Values, state: State, u: Any, applied: Any, h: Any) -> tuple[State, tuple, Any, Any]:
        """The next state, forces (of constraint rows (nc,); of places (places, 3), and their normal parts), a status and the pivots."""
        p = self.pieces(values, state.q, state.v, state.s, u, applied)
        problem = self.problem(values, p, state, h)
        solution = self.solve(problem, state.active if self.rows.complementary else None)
        lam = self.multipliers(problem, solution.z)
        v = problem.v0 + problem.MJ.T @ lam
        q = self.moved(values, p, v, h)
        turn = h * jnp.sqrt(jnp.max(jnp.sum(v.reshape(-1, 6)[:, 3:] ** 2, axis=1)))
        finite = jnp.all(jnp.isfinite(v)) & jnp.all(jnp.isfinite(problem.S)) & jnp.all(jnp.isfinite(problem.M))
        status = jnp.where(finite, jnp.where(solution.status == lcp.SOLVED, jnp.where(turn < 1.0, CONVERGED, TURNED), NO_SOLUTION), NOT_FINITE).astype(
            jnp.int32
        )
        return State(q, v, p.node.s, p.axes @ v, solution.active), (self.reactions(lam) / h, *self.pushes(problem, lam, h)), status, solution.pivots

    def reactions(self, lam: Any) -> Any:
        """(nc,) impulses of the constraint rows, from those of A and D."""
        r = self.rows
        both = jnp.concatenate([lam[: len(r.holonomic)], lam[r.free : r.free + len(r.loaded)]])
        return both[np.argsort(np.concatenate([r.holonomic, r.loaded]))]

    def moved(self, values: Values, p: Pieces, v: Any, h: Any) -> Any:
        """The coordinates after the step: centres moved, bodies turned, origins put back."""
        starts = self.structure.q_start[self.units]
        split = v.reshape(-1, 6)
        e = tuple(p.node.q[starts + 3 + k] for k in range(4))
        turn = al.quaternion_exp(tuple(h * split[:, 3 + k] for k in range(3)))  # type: ignore[arg-type]
        e = al.quaternion_normalised(al.quaternion_product(turn, e))  # type: ignore[arg-type]
        x = self.centres(values, p.node.H) + h * split[:, :3].T
        o = x - jnp.stack(al.matvec(al.quaternion_matrix(e), tuple(values.com)))
        return jnp.concatenate([*o, *e])[np.argsort(np.concatenate([starts + k for k in range(7)]))]

    # -- many steps --------------------------------------------------------------------------------------------------------------

    def advance(self, values: Values, state: State, control: Any, applied: Any, count: Any, h: Any) -> tuple:
        """Up to `PIECE` steps; control (actuators, PIECE), applied (tree velocities, PIECE). Stops before the first step that fails."""
        s = self.structure

        def unfinished(carry: tuple) -> Any:
            return (carry[0] < count) & (carry[4] == CONVERGED)

        def body(carry: tuple) -> tuple:
            i, state, q, made, _, pivots = carry
            new, forces, status, used = self.step(values, state, column(control, i), column(applied, i), h)
            good = status == CONVERGED
            state = jax.tree.map(lambda a, b: jnp.where(good, a, b), new, state)
            q = put_at(q, state.q[None], (i, 0))
            made = tuple(put_at(all_, x[None], (i, *[0] * x.ndim)) for all_, x in zip(made, forces, strict=True))
            return i + good.astype(jnp.int32), state, q, made, status, pivots + used

        zero, places = jnp.zeros((), jnp.int32), self.rows.normals
        made = jnp.zeros((PIECE, s.nc)), jnp.zeros((PIECE, places, 3)), jnp.zeros((PIECE, places))
        return jax.lax.while_loop(unfinished, body, (zero, state, jnp.zeros((PIECE, s.nq)), made, zero, zero))


def compiled(rows: Rows, values: Values, state: State, actuators: int) -> Callable[..., tuple]:
    """`Step.advance` of these rows, compiled: for a topology, and for which of its joints have dampers, shafts and dry friction."""
    control, applied = np.zeros((actuators, PIECE)), np.zeros((rows.structure.tree_nv, PIECE))
    return program(Step(rows).advance, ("spook", rows.topology), (values, state, control, applied, np.int32(0), np.float64(0.0)))
