"""One step of the variational scheme, as a compiled program for one mechanism.

State at node k: coordinates `q_k` and discrete momentum

    p_k = P_k'[V_(k-1) E + (h/2) F_(k-1)] + A_k'[J_a rho_(k-1) + (h/2) t_(k-1)]        (p_0 = P_0' Hdot_0 E + A_0' J_a s'_0)

Friction in proportion to the load of a joint depends on `lambda_k` and both neighbours of the node: its part of the interval before is carried along (`State.rubbing`).

The step solves, by Newton's method on `q_(k+1)` and `lambda_k`,

    left(q_k, q_(k+1)) - h c C_k' lambda_k = p_k,       g(q_(k+1)) = 0        (c = 1; 1/2 at a known start; C = dg/dq nearly always)

where `left` and `right` are what an interval contributes at its two nodes (`mechanics/elements`), and then `p_(k+1) = -right`.
A compliant row replaces `g(q_(k+1)) = 0` by `(g_(k-1) + 2 g_k + g_(k+1))/4 + tau (g_(k+1) - g_(k-1))/(2h) + eps lambda_k = 0`.

Every force element is a set of coordinates z with gradient `Z = dz/dq`, a force f on them and its stiffness, so that

    left += Z_L' f_L,     d left/dq_(k+1) += Z_L' (df_L/dz_R) Z_R

and the program is a handful of small dense products, whatever the number of bodies. The Newton iteration is damped by the natural
monotonicity test ([deuflhard2004], section 3.3): a step is halved until the simplified correction `K_old^-1 r_new`, the new residual in the
measure of the old point, is shorter than the step. The next correction itself is no measure: it grows, rightly, where dry friction lets go;
nor is a norm with fixed weights, which stalls where several joints stick at once.

What is compiled is a loop over steps (`advance`), a loop over Newton iterations in it, and the equations once. It depends on the mechanism's topology only, so
mechanisms of equal topology share it (`compiled`), and contains nothing that keeps it from becoming one piece of machine code while the mechanism is small
(`solve/dense.py`): no LAPACK, no scattered writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from calibody.mechanics.assembly import Frames, combined, pulls
from calibody.mechanics.compilation import jax, program
from calibody.mechanics.elements import ball, body, coordinate, law, load
from calibody.mechanics.elements.base import CoordinateConstraint, Measure, Setting, VelocityConstraint
from calibody.mechanics.elements.law import LAW
from calibody.mechanics.host import Configuration
from calibody.mechanics.kinematics import Geometry, difference, layout_of, poses, retract, twists
from calibody.mechanics.plan import Group, Plan, plan_of
from calibody.mechanics.shapes import Pose
from calibody.mechanics.structure import FREE, TREE, Numbers, Structure
from calibody.solve.dense import Factors, factored, identity, put_at, slice_at, solved
from calibody.spatial import algebra as al
from calibody.steppers.base import Start

# Steps per call of the compiled program: results come back in pieces of this length, whatever the duration.
PIECE = 512
# A correction below this (in radians, or in units of the mechanism's size) leaves an error of its square: accepted and applied.
QUADRATIC = 1e-9
MAXIMAL_ITERATIONS = 60
# Evaluations from which on corrections below that which no longer shrink count as rounding errors: twice what a step takes, so that none else is cut short.
FLOOR = 6
# Shortest damped Newton step before giving up.
SHORTEST = 1e-5

CONVERGED, STALLED, NOT_FINITE, TURNED, OPENED = 0, 1, 2, 3, 4


class Values(NamedTuple):
    """Numbers of a mechanism as the compiled step takes them."""

    geometry: tuple
    inertia: Any
    gravity: Any
    coordinate_inertia: Any
    """(scalar coordinates and transmissions,)"""
    ball_law: Any
    ball_reference: Any
    ball_placement: Any
    combinations: Any
    """(transmissions, scalar coordinates)"""
    elements: Any
    """Numbers of force and constraint elements by type."""
    softness: Any
    load: Any
    frame: Any
    reference: Any
    scale: Any
    """(nv,) size of a displacement of each dof that counts as one: 1 rad, or the mechanism's size."""
    active: Any
    """(nc,) 1 for rows that are kept, 0 for rows that depend on others and were dropped."""
    gap: Any
    """How far a dropped row may open before the rows are chosen again."""
    given: Any
    """(nc,) what is prescribed at the next node, and zero of all other rows; set step by step."""

    @classmethod
    def of(cls, structure: Structure, numbers: Numbers, active: np.ndarray, gap: float = np.inf) -> Values:
        """`active` marks the constraint rows that are kept."""
        plan = plan_of(structure)
        g = Geometry.of(structure, numbers)
        geometry = (g.placement, g.axis, g.anchor, g.reference, g.dof_axis, g.dof_point)
        units = [b.unit for b in structure.ball_coordinates]
        return cls(
            geometry, numbers.inertia, numbers.gravity, plan.coordinate_inertia(numbers), numbers.ball_law, numbers.ball_reference, numbers.placement[:, :3, units], structure.combinations, numbers.elements, numbers.softness, numbers.load, numbers.frame, plan.coordinate_reference(numbers), size_of_dofs(structure, numbers), active.astype(float),
            np.float64(gap), np.zeros(structure.nc),
        )  # fmt: skip


def size_of_dofs(structure: Structure, numbers: Numbers) -> np.ndarray:
    """1 for rotations; for translations the largest length in the model (1 m if there is none)."""
    lengths = [np.abs(numbers.placement[:, 3]).max(initial=0.0), np.abs(numbers.anchor).max(initial=0.0), np.abs(numbers.elements["point"]).max(initial=0.0)]
    mass = numbers.inertia[9]
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths.append(np.nan_to_num(np.abs(numbers.inertia[[3, 6, 8]]) / mass, nan=0.0, posinf=0.0).max(initial=0.0))
    size = max(lengths) or 1.0
    rotational = np.zeros(structure.nv, dtype=bool)
    for i, unit in enumerate(structure.units):
        first, end = structure.v_start[i], structure.v_start[i + 1]
        rotational[first:end] = [unit.kind != "slide" and not (unit.kind == FREE and k < 3) for k in range(end - first)]
    return np.where(rotational, 1.0, size)


class Node(NamedTuple):
    """Kinematics of one node."""

    q: Any
    H: Any
    T: Any
    s: Any
    """(scalar coordinates,) unwrapped."""
    Z: Any
    """(scalar coordinates, nv) gradient of s."""
    A: Any
    """(scalar coordinates, nv) how a force on s acts; equal to Z in `tree`."""
    g: Any
    G: Any
    C: Any
    """(nc, nv) what multipliers act through; G where that is it."""
    length: Any
    """(paths,)"""
    pull: Any
    """(paths, nv) gradient of the lengths, and what forces on paths act through."""


class State(NamedTuple):
    """What is carried from step to step."""

    node: Node
    p: Any
    g_before: Any
    d: Any
    """Displacements of the last three steps: the next is extrapolated from them."""
    d_before: Any
    d_before_that: Any
    multipliers: Any
    rubbing: Any
    """(loaded axes,) what friction by load of the interval before contributes at the node, per load."""
    first: Any
    """1 at a known start, else 0."""


class _Trial(NamedTuple):
    """The damped Newton iteration of one step: base point, correction, damping; and the last node that was evaluated."""

    q: Any
    impulse: Any
    d: Any
    di: Any
    t: Any
    factors: Factors
    """Of the matrix of the equations at the base point: the damping measures the next residual by it (simplified correction)."""
    count: Any
    final: Any
    """The correction is so small that the next evaluation, with it applied, is the result."""
    done: Any
    node: Node
    at_node: Any
    """The impulse at `node`."""
    right: Any


@dataclass(frozen=True)
class Program:
    """The functions of one mechanism, not yet compiled; `advance` is what runs."""

    structure: Structure

    @property
    def plan(self) -> Plan:
        return plan_of(self.structure)

    def _above(self, links: np.ndarray) -> np.ndarray:
        """(links, nv) 1 where the dof moves the link."""
        out = np.zeros((len(links), self.structure.nv))
        for k, link in enumerate(links):
            out[k, self.structure.dofs_above[link]] = 1.0
        return out

    # -- kinematics --------------------------------------------------------------------------------------------------------------

    def node(self, values: Values, q: Any, s_near: Any) -> Node:
        """Everything about one node; hinges in `free` take the turn nearest to `s_near`."""
        s = self.structure
        geometry = Geometry(*values.geometry)
        H = poses(s, geometry, q)
        T = twists(s, geometry, H)
        coordinates, Z, A = self.coordinates(values, q, H, T, s_near)
        return Node(q, H, T, coordinates, Z, A, *self.constraints(values, H, T, coordinates, Z, A), *self.paths(values, H, T))

    def paths(self, values: Values, H: Any, T: Any) -> tuple[Any, Any]:
        """Lengths of all paths, and their gradients."""
        plan = self.plan
        if not plan.paths:
            return np.zeros(0), np.zeros((0, self.structure.nv))
        parts = [self.measured(group.type.measure, group.touches, values.elements[group.name], H, T)[:2] for group in plan.paths]
        back = np.argsort(np.concatenate(plan.path_order))
        length, pull = (jnp.concatenate([part[k][0] for part in parts])[back] for k in (0, 1))
        return length, pull

    def coordinates(self, values: Values, q: Any, H: Any, T: Any, s_near: Any) -> tuple[Any, Any, Any]:
        s, plan = self.structure, self.plan
        count = len(s.scalar_coordinates)
        if s.coordinates == TREE:
            Z = np.zeros((count, s.nv))
            Z[np.arange(count), plan.coordinate_dof] = 1.0
            return q[s.scalar_positions], Z, Z
        parts, order = [(jnp.zeros(0), jnp.zeros((0, s.nv)), jnp.zeros((0, s.nv)))], [np.zeros(0, dtype=np.int64)]
        for kind, which in plan.coordinate_kinds:
            parts.append(tuple(x[0] for x in self.measured(kind, plan.coordinate_links[which], values.frame[:, which], H, T)))
            order.append(np.arange(count)[which])
        back = np.argsort(np.concatenate(order))  # kind by kind, and back in their order: a write at given places would break the loop into pieces
        value, Z, A = (jnp.concatenate(x)[back] for x in zip(*parts, strict=True))
        value = value + values.reference
        turns = 2.0 * np.pi * jnp.round((s_near - value) / (2.0 * np.pi))
        return value + jnp.where(plan.rotational, turns, 0.0), Z, A

    def measured(self, measure: Measure, links: np.ndarray, data: Any, H: Any, T: Any) -> tuple[Any, Any, Any]:
        """z (rows, elements) of a measure, its gradient and what forces on it act through, (rows, elements, nv) each."""
        poses_ = [al.unpack_pose(H[:, :, column]) for column in links.T]
        above = [sum(sign * self._above(links[:, k]) for k, sign in arm) for arm in measure.arms]

        def on_dofs(wrenches: tuple) -> Any:
            W = jnp.array(wrenches)  # (rows, arms, 3 or 6, elements)
            return sum(jnp.einsum("rte,tj->rej", W[:, a], T[: W.shape[2]]) * moves for a, moves in enumerate(above))

        Z = on_dofs(measure.wrenches(poses_, data))
        return jnp.stack(measure.value(poses_, data)), Z, Z if measure.acts is None else on_dofs(measure.acts(poses_, data))

    def constraints(self, values: Values, H: Any, T: Any, s: Any, Z: Any, A: Any) -> tuple[Any, Any, Any]:
        """g (nc,), G and what the multipliers act through, (nc, nv) each."""
        nothing = jnp.zeros((0, self.structure.nv))
        g: list[Any] = [jnp.zeros(0)]
        G: list[Any] = [nothing]
        C: list[Any] = [nothing]
        for group in self.plan.constraints:
            data = values.elements[group.name]
            if isinstance(group.type, CoordinateConstraint):
                z, slopes, _ = group.type.value([s[c] for c in group.touches.T], data)
                rows, acts = (sum(slope[:, None] * X[c] for c, slope in zip(group.touches.T, slopes, strict=True)) for X in (Z, A))
            else:
                z, *both = self.measured(group.type.measure, group.touches, data, H, T)
                z, rows, acts = z.T.reshape(-1), *(jnp.swapaxes(x, 0, 1).reshape(-1, self.structure.nv) for x in both)
            for collected, new in ((g, z), (G, rows), (C, acts)):
                collected.append(new)
        gradient = jnp.concatenate(G)
        return jnp.concatenate(g), gradient, jnp.concatenate(C) if self.plan.multipliers_apart else gradient

    def slips(self, values: Values, a: Node, b: Node) -> tuple[Any, Any]:
        """Rows on velocities over the interval a .. b among all rows, (nc,), and their derivative by the coordinates of b, (nc, nv); zero elsewhere."""
        s = self.structure
        phi, by = jnp.zeros(s.nc), jnp.zeros((s.nc, s.nv))
        for group in (g for g in self.plan.constraints if isinstance(g.type, VelocityConstraint)):
            data, left, right = values.elements[group.name], *([al.unpack_pose(x.H[:, :, group.touches[:, 0]])] for x in (a, b))
            E = np.eye(s.nc)[group.rows]
            W = jnp.array(
                [[jnp.broadcast_to(x, (len(group.touches),)) for x in row] for row in group.type.slip_by(left, right, data)[1]]
            )  # (rows, 6, elements)
            found = jnp.einsum("rte,tj->erj", W, b.T) * self._above(group.touches[:, 0])[:, None]
            phi = phi + jnp.stack(group.type.slip(left, right, data)).T.reshape(-1) @ E
            by = by + E.T @ found.reshape(-1, s.nv)
        return phi, by

    # -- forces ------------------------------------------------------------------------------------------------------------------

    def left_right(self, values: Values, a: Node, b: Node, u: Any, applied: Any, h: Any, delta: Any) -> tuple[Any, Any, Any]:
        """`left` and `right` of the interval a .. b (nv each), and d left/dq_b (nv, nv)."""
        left, right, J = self.bodies(values, a, b, h)
        left, right, J = _add((left, right, J), self._joints(values, a, b, u, applied, h, delta))
        if len(self.plan.ball_links):
            left, right, J = _add((left, right, J), self._balls(values, a, b, applied, h, delta))
        for group in self.plan.forces:
            left, right, J = _add((left, right, J), self._force(group, values, a, b, applied, h))
        for group in self.plan.encounters:
            left, right, J = _add((left, right, J), self._encounter(group, values, a, b, h))
        for group in self.plan.pushes:
            force = -0.5 * h * applied[group.applied]
            acts = [self.measured(group.type.measure, group.touches, values.elements[group.name], node.H, node.T)[1][0] for node in (a, b)]
            left, right = left + force @ acts[0], right + force @ acts[1]
        return left, right, J

    def _force(self, group: Group, values: Values, a: Node, b: Node, applied: Any, h: Any) -> tuple[Any, Any, Any]:
        """Force elements of one type."""
        kind, data, (which, rows) = group.type, values.elements[group.name], self.plan.pulled
        if kind.pulled and len(which):
            data = jnp.concatenate([data[:-1], (applied[rows] @ np.eye(data.shape[1])[which])[None]])
        (zL, _, AL), (zR, ZR, AR) = (self.measured(kind.measure, group.touches, data, node.H, node.T) for node in (a, b))
        impulse, _, by_R = kind.impulse(tuple(zL), tuple(zR), data, h)
        force = jnp.stack(impulse)
        J = jnp.einsum("cej,cde,del->jl", AL, jnp.array(by_R), ZR)
        return jnp.einsum("cej,ce->j", AL, force), jnp.einsum("cej,ce->j", AR, force), J

    def _encounter(self, group: Group, values: Values, a: Node, b: Node, h: Any) -> tuple[Any, Any, Any]:
        """Compliant contacts of one type."""
        kind, data, moves = group.type, values.elements[group.name], [self._above(links) for links in group.touches.T]
        left, right = (tuple(Pose(node.H[:, :3, links], node.H[:, 3, links]) for links in group.touches.T) for node in (a, b))
        found = kind.exchange(left, right, data, h)
        block, _ = kind.by_twists(found, data, 1)
        on = [node.T[:, None] * (moves[0] - moves[1]) for node in (a, b)]  # (6, elements, nv)
        reach = sum(jnp.einsum("tse,sl->tel", block[:, k : k + 6], b.T) * above for k, above in ((0, moves[0]), (6, moves[1])))
        out = [jnp.einsum("tej,te->j", acts, wrench) for acts, wrench in zip(on, found.impulses, strict=True)]
        return out[0], out[1], jnp.einsum("tej,tel->jl", on[0], reach)

    def bodies(self, values: Values, a: Node, b: Node, h: Any) -> tuple[Any, Any, Any]:
        s = self.structure
        n, units = s.n, s.dof_unit
        L, R = al.unpack_pose(a.H[:, :, :n]), al.unpack_pose(b.H[:, :, :n])
        wl, wr = (jnp.stack(w) for w in body.interval(L, R, tuple(values.inertia), tuple(values.gravity), h))
        E = body.matrix(values.inertia)
        block = jnp.array(body.mixed(L, R, E)) / h  # (6, 6, n)
        if s.coordinates == TREE:
            below = s.below.astype(float)
            wl, wr, block = wl @ below.T, wr @ below.T, block @ below.T
        left = (a.T * wl[:, units]).sum(0)
        right = (b.T * wr[:, units]).sum(0)
        B = block[:, :, units]
        X = (B * b.T[None]).sum(1)  # B t_i, per column dof
        index = np.arange(s.nv)
        same = units[:, None] == units[None, :]
        above = (index[None, :] >= index[:, None]) & (index[None, :] < s.dof_end[:, None])  # column at or below row
        J = jnp.where(above | same, a.T.T @ X, 0.0)
        if s.coordinates == TREE and s.n > 1:
            Z = (B * a.T[:, None]).sum(0)
            J = J + jnp.where(above.T & ~same, Z.T @ b.T, 0.0)
        return left, right, J

    def _joints(self, values: Values, a: Node, b: Node, u: Any, applied: Any, h: Any, delta: Any) -> tuple[Any, Any, Any]:
        plan, count = self.plan, len(self.structure.law_owners)
        sL, sR = (self.combined(values, x.s, x.length) for x in (a, b))
        AL, AR, ZR = (self.combined(values, x, node.pull) for x, node in ((a.A, a), (b.A, b), (b.Z, b)))
        sm, rho = 0.5 * (sL + sR), (sR - sL) / h
        t, t_s, t_r = jnp.concatenate([applied[plan.coordinate_dof], jnp.zeros(count - len(plan.coordinate_dof))]), jnp.zeros(count), jnp.zeros(count)
        for group in plan.coordinate_forces:
            c, every = group.touches, np.array_equal(group.touches, np.arange(count))
            control = u if group.controls is None or len(group.controls) == len(u) else u[group.controls]
            found = group.type.force(sm if every else sm[c], rho if every else rho[c], values.elements[group.name], Setting(delta, control=control))
            t, t_s, t_r = (total + (new if every else new @ np.eye(count)[c]) for total, new in zip((t, t_s, t_r), found[:3], strict=True))
        left, right = law.ends(t, rho, values.coordinate_inertia, h)
        _, LR, _, _ = law.ends_by_coordinates(t_s, t_r, values.coordinate_inertia, h)
        return AL.T @ left, AR.T @ right, AL.T @ (LR[:, None] * ZR)

    def combined(self, values: Values, rows: Any, of_paths: Any) -> Any:
        """Rows of the scalar coordinates, of transmissions after them, and of paths."""
        rows = jnp.concatenate([rows, values.combinations @ rows]) if len(self.structure.combinations) else rows
        return jnp.concatenate([rows, of_paths]) if self.plan.paths else rows

    def _balls(self, values: Values, a: Node, b: Node, applied: Any, h: Any, delta: Any) -> tuple[Any, Any, Any]:
        plan = self.plan
        rotations, gradients = zip(*(self.ball_node(values, x) for x in (a, b)), strict=True)
        reference = al.quaternion_matrix(tuple(values.ball_reference))  # type: ignore[arg-type]
        dofs = plan.ball_dof[None, :] + np.arange(3)[:, None]
        left, right, _, LR, *_ = ball.interval(rotations[0], rotations[1], reference, tuple(values.ball_law), delta, h, tuple(applied[dofs]))
        stiff = jnp.array([[jnp.broadcast_to(x, left[0].shape) for x in row] for row in LR])  # (3, 3, balls)
        Za, Zb = gradients  # (3, balls, nv)
        J = jnp.einsum("akj,abk,bki->ji", Za, stiff, Zb)
        return jnp.einsum("akj,ak->j", Za, jnp.stack(left)), jnp.einsum("akj,ak->j", Zb, jnp.stack(right)), J

    def ball_node(self, values: Values, node: Node) -> tuple[al.Matrix, Any]:
        """The relative rotations, and the gradient of the relative turn in child's axes (3, balls, nv)."""
        links = self.plan.ball_links
        parent, child = (al.unpack_pose(node.H[:, :, links[:, k]]) for k in (0, 1))
        placement = tuple(tuple(values.ball_placement[i, j] for j in range(3)) for i in range(3))
        side = al.matmul(al.rotation_part(parent), placement)
        _, gradient, _ = self.measured(coordinate.BALL, links, None, node.H, node.T)
        return al.matmul(al.transpose(side), al.rotation_part(child)), gradient

    def _rubbing(self, values: Values, a: Node, b: Node, h: Any, delta: Any) -> tuple[Any, Any, Any]:
        """Friction by load of the interval a .. b per load: (loaded axes,) its part at either node, that by q_b (axes, nv), and the axes at a (axes, nv)."""
        plan = self.plan
        (c, joints), (k, of_ball) = plan.loaded_coordinates, plan.loaded_balls
        rho = (b.s[c] - a.s[c]) / h
        zero, numbers = 0.0 * rho, values.load[:, joints]
        width, rate = (values.elements["law"][LAW.index(name)][c] for name in ("friction_rate", "stribeck_rate"))
        t, _, t_r = law.force(zero, rho, (zero, zero, zero, numbers[0], width, numbers[1], rate, zero, zero, zero, zero), delta)
        parts = [(-0.5 * h * t, -0.5 * t_r[:, None] * b.Z[c], a.A[c])]
        if len(k):
            (RL, Za), (RR, Zb) = ((jax.tree.map(lambda x: x[k], R), Z[:, k]) for R, Z in (self.ball_node(values, x) for x in (a, b)))
            none, nothing = 0.0 * values.load[0, of_ball], (jnp.zeros(len(k)),) * 3
            left, _, _, LR, *_ = ball.interval(RL, RR, al.transpose(RL), (none, none, values.load[0, of_ball], none), delta, h, nothing)
            by = jnp.einsum("ijk,jkl->ikl", jnp.array([[jnp.broadcast_to(x, left[0].shape) for x in row] for row in LR]), Zb)
            parts.append((jnp.stack(left).ravel(), by.reshape(-1, self.structure.nv), Za.reshape(-1, self.structure.nv)))
        at, by_b, axes = (jnp.concatenate(x) for x in zip(*parts, strict=True))
        return at, by_b, axes

    def _loaded(self, values: Values, state: State, node: Node, impulse: Any, c: Any, h: Any, delta: Any) -> tuple[Any, Any, Any]:
        """Friction by load at the node that is stepped from: (nv,), and its derivatives by the next coordinates (nv, nv) and by the impulse (nv, nc)."""
        plan = self.plan
        at, by_next, axes = self._rubbing(values, state.node, node, h, delta)
        carried, by_multipliers = (x[..., 0] for x in load.load(impulse[:, None] / c, *plan.load_rows, values.load[2:]))
        joints = np.concatenate([plan.loaded_coordinates[1], np.tile(plan.loaded_balls[1], 3)])
        both, carried, by = at + state.rubbing, carried[joints], by_multipliers[joints] / c
        return axes.T @ (carried * both), axes.T @ (carried[:, None] * by_next), axes.T @ (both[:, None] * by)

    # -- the step ----------------------------------------------------------------------------------------------------------------

    def constraint_row(self, values: Values, state: State, h: Any) -> tuple[Any, Any, Any]:
        """(weight of g at the next node, what is added to it, compliance): rigid rows ask for g = 0 there."""
        eps, tau = values.softness
        g, before = state.node.g, state.g_before
        first = state.first
        weight = jnp.where(first > 0, 0.5 + tau / h, 0.25 + 0.5 * tau / h)
        known = jnp.where(first > 0, (0.5 - tau / h) * g, 0.25 * (before + 2.0 * g) - 0.5 * tau / h * before)
        soft = eps > 0.0
        return jnp.where(soft, weight, 1.0), jnp.where(soft, known, 0.0), jnp.where(soft, eps, 0.0)

    def equations(self, values: Values, state: State, node: Node, impulse: Any, left: Any, J: Any, h: Any, delta: Any) -> tuple[Any, Any]:
        """The residual of the step's equations at a trial node and impulse `h c lambda`, and minus its derivative by both."""
        if not self.structure.nc:
            return state.p - left, J
        c = h * jnp.where(state.first > 0, 0.5, 1.0)
        weight, known, eps = self.constraint_row(values, state, h)
        C = state.node.C * values.active[:, None]
        soft = jnp.where(values.active > 0, eps / c, 1.0)
        upper = jnp.concatenate([J, -C.T], axis=1)
        if self.plan.loaded_joint:
            friction, by_next, by_impulse = self._loaded(values, state, node, impulse, c, h, delta)
            left, upper = left + friction, upper + jnp.concatenate([by_next, by_impulse], axis=1)
        lower = jnp.concatenate([(values.active * weight)[:, None] * node.G, jnp.diag(soft)], axis=1)
        rows = values.active * (weight * node.g + known - values.given)
        if self.structure.rolling.any():
            phi, by_next = self.slips(values, state.node, node)
            rows = rows + values.active * phi
            lower = jnp.concatenate(
                [jnp.where(self.structure.rolling[:, None], values.active[:, None] * by_next, lower[:, : self.structure.nv]), jnp.diag(soft)], axis=1
            )
        return jnp.concatenate([state.p - left + C.T @ impulse, -rows - soft * impulse]), jnp.concatenate([upper, lower])

    def step(self, values: Values, state: State, u: Any, applied: Any, h: Any, delta: Any) -> tuple[State, Any, Any]:
        """The next state, a status (`CONVERGED`, ...) and the number of evaluations.

        One loop body serves the first guess, the damped Newton iterations and the final evaluation, so that the program contains the
        equations once: they are what compiling it costs. The guess continues the last three displacements by a parabola, which is so near where the
        motion is smooth that one correction is enough.
        """
        s = self.structure
        if s.prescribed:
            values = values._replace(given=applied[np.array([s.applied_row(c) for c in s.prescribed])] @ np.eye(s.nc)[s.prescribed_rows])

        def norm(d: Any) -> Any:
            return jnp.max(jnp.abs(d) / values.scale) if s.nv else jnp.zeros(())

        def unfinished(trial: _Trial) -> Any:
            return ~trial.done & (trial.count < MAXIMAL_ITERATIONS) & (trial.t > SHORTEST)

        def iterate(trial: _Trial) -> _Trial:
            node = self.node(values, retract(s, trial.q, trial.t * trial.d), state.node.s)
            impulse = trial.impulse + trial.t * trial.di
            left, right, J = self.left_right(values, state.node, node, u, applied, h, delta)
            residual, K = self.equations(values, state, node, impulse, left, J, h, delta)
            factors = jax.lax.cond(trial.final, lambda: trial.factors, lambda: factored(K))  # the final evaluation needs no correction
            x = solved(factors, residual)
            before, after = norm(trial.d), norm(x[: s.nv])
            simplified = norm(solved(trial.factors, residual)[: s.nv])  # what is left, in the measure of the base point
            accept = (trial.count < unmeasured) | (simplified <= (1.0 - 0.1 * trial.t) * before) | (after < QUADRATIC)
            # near a dead point rounding errors are magnified: corrections that have stopped shrinking are theirs
            rounding = (trial.count >= FLOOR) & (before < QUADRATIC) & (after > 0.3 * before)
            final = accept & ((after < 1e-3 * QUADRATIC) | ((after < QUADRATIC) & ((after < 0.03 * before) | rounding)))

            def pick(x: Any, y: Any) -> Any:
                return jnp.where(accept, x, y)

            return _Trial(
                pick(node.q, trial.q), pick(impulse, trial.impulse), pick(x[: s.nv], trial.d), pick(x[s.nv :], trial.di), pick(1.0, 0.5 * trial.t),
                Factors(*map(pick, factors, trial.factors)), trial.count + 1, final, trial.final, node, impulse, right,
            )  # fmt: skip

        # nothing measures the first correction; nor, at a start, the second if friction goes with a load that was not known in the first
        unmeasured = jnp.where(state.first > 0, 2, 1) if self.plan.loaded_joint else 1
        c = h * jnp.where(state.first > 0, 0.5, 1.0)
        impulse = c * state.multipliers
        guess = 3.0 * (state.d - state.d_before) + state.d_before_that
        no, one = jnp.zeros((), bool), jnp.ones(())
        start = _Trial(state.node.q, impulse, guess, 0.0 * impulse, one, identity(s.nv + s.nc), jnp.zeros((), jnp.int32), no, no, state.node, impulse, state.p)
        end = jax.lax.while_loop(unfinished, iterate, start)
        finite = jnp.all(jnp.isfinite(end.node.q)) & jnp.all(jnp.isfinite(end.at_node))
        moved = difference(s, end.node.q, state.node.q)
        turn = jnp.max(jnp.where(layout_of(s).dof_rotational, jnp.abs(moved), 0.0), initial=0.0)  # a whole turn does not show in the poses
        turned = (_largest_turn(state.node.H, end.node.H) >= 1.0) | (turn >= 1.0)
        opened = jnp.max(jnp.where(values.active > 0, 0.0, jnp.abs(end.node.g)), initial=0.0) > values.gap
        arrived = jnp.where(turned, TURNED, jnp.where(opened, OPENED, CONVERGED))
        status = jnp.where(finite, jnp.where(end.done, arrived, STALLED), NOT_FINITE).astype(jnp.int32)
        before, before_that = (jnp.where(state.first > 0, moved, x) for x in (state.d, state.d_before))
        before = jnp.where(end.done, before, guess)  # what a step that failed was to do
        rubbing = self._rubbing(values, state.node, end.node, h, delta)[0] if self.plan.loaded_joint else state.rubbing
        return State(end.node, -end.right, state.node.g, moved, before, before_that, end.at_node / c, rubbing, jnp.zeros(())), status, end.count

    def between(self, values: Values, before: Any, near: Any, now: Any, u: Any, applied: Any, h: Any, delta: Any) -> State:
        """The state at the second of two nodes that are known, the coordinates of the first near those given: no step is taken."""
        s = self.structure
        a = self.node(values, before, near)
        b = self.node(values, now, a.s)
        _, right, _ = self.left_right(values, a, b, u, applied, h, delta)
        moved = difference(s, now, before)
        rubbing = self._rubbing(values, a, b, h, delta)[0] if self.plan.loaded_joint else jnp.zeros(0)
        return State(b, -right, a.g, moved, moved, moved, jnp.zeros(s.nc), rubbing, jnp.zeros(()))

    def advance(self, values: Values, state: State, control: Any, applied: Any, count: Any, h: Any, delta: Any) -> tuple:
        """Up to `PIECE` steps; control (actuators, PIECE), applied (tree velocities, PIECE). Stops at the first step that fails."""
        s = self.structure
        q, multipliers = jnp.zeros((PIECE, s.nq)), jnp.zeros((PIECE, s.nc))

        def unfinished(carry: tuple) -> Any:
            return (carry[0] < count) & (carry[4] == CONVERGED)

        def body_(carry: tuple) -> tuple:
            i, state, q, multipliers, _, iterations = carry
            state, status, used = self.step(values, state, column(control, i), column(applied, i), h, delta)
            q, multipliers = put_at(q, state.node.q[None], (i, 0)), put_at(multipliers, state.multipliers[None], (i, 0))
            return i + (status == CONVERGED).astype(jnp.int32), state, q, multipliers, status, iterations + used

        start = (jnp.zeros((), jnp.int32), state, q, multipliers, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return jax.lax.while_loop(unfinished, body_, start)


def _add(a: tuple, b: tuple) -> tuple:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _largest_turn(HA: Any, HB: Any) -> Any:
    """The largest rotation of a link between two nodes [rad]: `tr(R_a' R_b) = 1 + 2 cos`."""
    cosine = 0.5 * (jnp.sum(HA[:, :3] * HB[:, :3], axis=(0, 1)) - 1.0)
    return jnp.max(jnp.arccos(jnp.clip(cosine, -1.0, 1.0)))


def piece(array: np.ndarray, first: int) -> np.ndarray:
    """`PIECE` columns of an array from `first` on, zero beyond its end."""
    out = np.zeros((array.shape[0], PIECE))
    part = array[:, first : first + PIECE]
    out[:, : part.shape[1]] = part
    return out


def column(array: Any, i: Any) -> Any:
    """`array[:, i]`, i known only when the program runs."""
    return slice_at(array, (0, i), (array.shape[0], 1))[:, 0]


def axes_of(structure: Structure, f: Frames) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """At the first of the nodes, on the host: gradients Z of the scalar coordinates and what forces on them act through, A, (coordinates, nv) each; and the
    relative turns of balls in world axes (balls, 3, nv)."""
    plan, T = plan_of(structure), f.T[:, :, 0]
    count = len(structure.scalar_coordinates)
    Z, A, turns = np.zeros((count, structure.nv)), np.zeros((count, structure.nv)), np.zeros((len(plan.ball_links), 3, structure.nv))
    for link, sign in ((1, 1.0), (0, -1.0)):
        for k, links in enumerate(plan.ball_links):
            dofs = structure.dofs_above[links[link]]
            turns[k][:, dofs] += sign * T[:3, dofs]
        for c, links in enumerate(plan.coordinate_links if structure.coordinates != TREE else ()):
            dofs = structure.dofs_above[links[link]]
            Z[c, dofs] += sign * f.gradient[:, c, 0] @ T[:, dofs]
            A[c, dofs] += sign * f.acts[:, c, 0] @ T[:, dofs]
    if structure.coordinates == TREE:
        Z[np.arange(count), plan.coordinate_dof] = A[np.arange(count), plan.coordinate_dof] = 1.0
    return Z, A, turns


def first_state(structure: Structure, numbers: Numbers, at: Configuration, start: Start, h: float) -> State:
    """The state at a known start, on the host: `p_0 = M v_0` (bodies and armatures), and a straight extrapolation as first guess."""
    f, M = at.frames, at.M
    Z, A, turns = axes_of(structure, f)
    pull = pulls(plan_of(structure), numbers, f.between(0, 1))[..., 0]
    if structure.coordinates != TREE:
        own, other = (np.concatenate([combined(structure, x), pull]) for x in (A, Z))
        M = M + own.T @ (plan_of(structure).coordinate_inertia(numbers)[:, None] * other) + np.einsum("kij,k,kil->jl", turns, numbers.ball_law[3], turns)
    node = Node(start.q, f.H[..., 0], f.T[:, :, 0], start.s, Z, A, at.g, at.G, at.C, f.s[plan_of(structure).first_path :, 0], pull)
    d = h * start.v
    rubbing = np.zeros(len(plan_of(structure).loaded_coordinates[0]) + 3 * len(plan_of(structure).loaded_balls[0]))
    return State(node, M @ start.v, at.g, d, d, d, np.zeros(structure.nc), rubbing, np.ones(()))


def compiled(structure: Structure, values: Values, state: State, actuators: int) -> Callable[..., tuple]:
    """`Program.advance` of this topology, compiled."""
    control, applied = np.zeros((actuators, PIECE)), np.zeros((structure.applied_rows, PIECE))
    return program(
        Program(structure).advance, ("variational", structure.topology), (values, state, control, applied, np.int32(0), np.float64(0.0), np.float64(0.0))
    )
