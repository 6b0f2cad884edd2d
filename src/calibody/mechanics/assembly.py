"""What every element type contributes to the discrete equations: a wrench per link and 6x6 blocks, all elements of a type at once.

Arrays are (components, elements, nodes). Functions named after an element type add to `Sums` and to the `Evaluation`; the formulas are
in `elements/`, in closed form, one file each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibody.mechanics import kernels
from calibody.mechanics.elements import ball, bushing, constraint, coordinate, law, spring
from calibody.mechanics.kinematics import Geometry, poses, twists
from calibody.mechanics.plan import Plan, plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import LAW, TREE, Numbers, Structure
from calibody.mechanics.sums import NODES, Sums
from calibody.spatial import algebra as al

LEFT, RIGHT = slice(0, -1), slice(1, None)


@dataclass
class Frames:
    """Poses, twists and joint coordinates of all nodes: the kinematic half of an evaluation."""

    H: np.ndarray
    """(3, 4, n + 1, K)"""
    T: np.ndarray
    """(6, nv, K)"""
    s: np.ndarray
    """(scalar coordinates, K) unwrapped."""
    gradient: np.ndarray
    """(6, scalar coordinates, K): ds on the child (its opposite on the parent); `free` only."""
    acts: np.ndarray
    """(6, scalar coordinates, K): wrench of a unit joint force on the child; `free` only."""

    def pose(self, links: Any, nodes: slice = slice(None)) -> al.Pose:
        return al.unpack_pose(self.H[:, :, links, nodes])

    def between(self, first: int, end: int) -> Frames:
        """The nodes from `first` to before `end`."""
        return Frames(*(x[..., first:end] for x in (self.H, self.T, self.s, self.gradient, self.acts)))


def frames(structure: Structure, numbers: Numbers, point: Point) -> Frames:
    return frames_at(structure, numbers, point.q, point.turns)


def frames_at(structure: Structure, numbers: Numbers, q: np.ndarray, turns: np.ndarray | None) -> Frames:
    """`turns` as of `turns_along`; `tree` needs none."""
    geometry = Geometry.of(structure, numbers)
    H = poses(structure, geometry, q)
    T = twists(structure, geometry, H)
    if structure.coordinates == TREE:
        empty = np.zeros((6, 0, q.shape[1]))
        return Frames(H, T, q[structure.scalar_positions], empty, empty)
    assert turns is not None
    return Frames(H, T, *measured(plan_of(structure), numbers, H, turns))


def measured(plan: Plan, numbers: Numbers, H: np.ndarray, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Joint coordinates between links, their gradients and wrenches (`free`)."""
    count, K = len(plan.rotational), H.shape[3]
    s, gradient, acts = np.zeros((count, K)), np.zeros((6, count, K)), np.zeros((6, count, K))
    for mask in (plan.rotational, ~plan.rotational):
        if not mask.any():
            continue
        parent, child = (al.unpack_pose(H[:, :, plan.coordinate_links[mask, k]]) for k in (0, 1))
        f = numbers.frame[:, mask, None]
        if mask is plan.rotational:
            s[mask] = coordinate.hinge_angle(parent, child, f) + turns[mask]
            g, a = coordinate.hinge_wrenches(parent, child, f)
            gradient[:, mask], acts[:, mask] = np.stack(g), np.stack(a)
        else:
            s[mask] = coordinate.slide_position(parent, child, f)
            gradient[:, mask] = acts[:, mask] = np.stack(coordinate.slide_wrench(parent, child, f))
    return s + plan.coordinate_reference(numbers)[:, None], gradient, acts


def turns_along(structure: Structure, numbers: Numbers, q: np.ndarray) -> np.ndarray:
    """(scalar coordinates, K): what to add to the hinges' angles in (-pi, pi] so that they do not jump (`free`)."""
    plan = plan_of(structure)
    zero = np.zeros((len(plan.rotational), q.shape[1]))
    if not plan.rotational.any():
        return zero
    angles, _, _ = measured(plan, numbers, poses(structure, Geometry.of(structure, numbers), q), zero)
    return np.where(plan.rotational[:, None], np.unwrap(angles, axis=1) - angles, 0.0)


# -- forces between nodes --------------------------------------------------------------------------------------------------------------


def _flat(H: np.ndarray, links: np.ndarray, nodes: slice) -> np.ndarray:
    """(12, links x nodes) poses, row-major 3x4."""
    return H[:, :, links, nodes].reshape(12, -1)


def body_inputs(plan: Plan, numbers: Numbers, f: Frames) -> list[np.ndarray]:
    links = plan.massive
    return [_flat(f.H, links, LEFT), _flat(f.H, links, RIGHT), np.repeat(numbers.inertia[:, links], f.H.shape[3] - 1, axis=1)]


def bodies(plan: Plan, numbers: Numbers, point: Point, f: Frames, sums: Sums) -> None:
    """Inertia and gravity. The blocks are put together from the kernel's terms as `elements/body.py` says."""
    links = plan.massive
    if not len(links):
        return
    kernel = kernels.body_terms if sums.derivatives else kernels.body_values
    result = kernels.run(kernel, body_inputs(plan, numbers, f), (numbers.gravity, point.h))
    result = result.reshape(-1, len(links), f.H.shape[3] - 1)
    W = result[:6, :, 1:] + result[6:12, :, :-1]
    sums.wrench[:, links] += W
    if not sums.derivatives:
        return
    left, right, cross, own = (result[12 + 9 * k : 21 + 9 * k].reshape(3, 3, len(links), -1) for k in range(4))
    cL, cR = result[48:51] / point.h, result[51:54] / point.h
    mass = (numbers.inertia[9, links] / point.h)[:, None]
    ww = (_identity(cross) - cross.swapaxes(0, 1)) / point.h
    _fill(sums.own[0], links, ww[..., :-1].swapaxes(0, 1), cR[..., :-1], -cL[..., :-1], mass)
    _fill(sums.own[2], links, ww[..., 1:], cL[..., 1:], -cR[..., 1:], mass)
    turned, N = left[..., 1:] + right[..., :-1], own[..., 1:]
    ww = turned - _identity(turned) - (2.0 / point.h) * (_identity(N) - N)
    _fill(sums.own[1], links, ww, -2.0 * cL[..., 1:] - W[3:], 2.0 * cL[..., 1:], -2.0 * mass)


def _identity(M: np.ndarray) -> np.ndarray:
    """`tr(M) 1` for (3, 3, ...) matrices."""
    return (M[0, 0] + M[1, 1] + M[2, 2]) * np.eye(3).reshape(3, 3, *(1,) * (M.ndim - 2))


def _fill(target: np.ndarray, links: np.ndarray, ww: np.ndarray, wv: np.ndarray, vw: np.ndarray, vv: np.ndarray) -> None:
    """Add the blocks `[[ww, [wv]x], [[vw]x, vv 1]]` to links."""
    target[:3, :3, links] += ww
    for row, column, a in ((0, 3, wv), (3, 0, vw)):
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):  # [a]x: -a_k at (i, j), +a_k at (j, i)
            target[row + i, column + j, links] -= a[k]
            target[row + j, column + i, links] += a[k]
    for i in range(3):
        target[3 + i, 3 + i, links] += vv


def springs(plan: Plan, numbers: Numbers, point: Point, f: Frames, sums: Sums) -> None:
    links = plan.two_body["spring"]
    if not len(links):
        return
    data = numbers.spring[:, :, None]
    pa, pb = (np.stack(p) for p in spring.points(f.pose(links[:, 0]), f.pose(links[:, 1]), data))
    d = pa - pb
    impulse, by_L, by_R = spring.impulse(tuple(d[..., :-1]), tuple(d[..., 1:]), data, point.h)  # type: ignore[arg-type]
    F, K = np.stack(impulse), (np.array(by_L), np.array(by_R))
    at = F[..., 1:] + F[..., :-1]  # what node k receives from its two intervals
    by = [K[0][..., :-1], K[0][..., 1:] + K[1][..., :-1], K[1][..., 1:]]  # its change with d at k-1, k, k+1
    for row, p, sign in ((0, pa, 1.0), (1, pb, -1.0)):
        lever = np.array(spring.moved(tuple(p[..., 1:-1])))  # its transpose turns a force at p into a wrench
        sums.push(links[:, row], sign * np.einsum("item,iem->tem", lever, at))
        if not sums.derivatives:
            continue
        sums.block(links[:, row], links[:, row], 1, np.array(constraint.force_turned(tuple(p[..., 1:-1]), tuple(sign * at))))  # type: ignore[arg-type]
        for offset, nodes in enumerate(NODES):
            for column, other, other_sign in ((0, pa, 1.0), (1, pb, -1.0)):
                reach = np.array(spring.moved(tuple(other[..., nodes])))
                stiff = np.einsum("ijem,jsem->isem", by[offset], reach)
                sums.block(links[:, row], links[:, column], offset, np.einsum("item,isem->tsem", lever, stiff), sign * other_sign)


def bushings(plan: Plan, numbers: Numbers, point: Point, f: Frames, sums: Sums) -> None:
    links = plan.two_body["bushing"]
    if not len(links):
        return
    a, b = links[:, 0], links[:, 1]
    data = numbers.bushing[:, :, None]
    frame_a, frame_b = bushing.frames(f.pose(a), f.pose(b), data)
    d = np.stack(bushing.displacement(frame_a, frame_b))
    impulse, by_L, by_R = bushing.impulse(tuple(d[..., :-1]), tuple(d[..., 1:]), data, point.h)
    t = np.stack(impulse)
    at = t[..., 1:] + t[..., :-1]
    A = np.array(bushing.rows(frame_a, frame_b, tuple(d)))  # (6 coordinates, 6, elements, K)
    wrench = np.einsum("ctem,cem->tem", A[..., 1:-1], at)
    sums.push(b, wrench)
    sums.push(a, -wrench)
    if not sums.derivatives:
        return
    K = np.array(by_L)[..., 0], np.array(by_R)[..., 0]
    for offset, (nodes, stiff) in enumerate(zip(NODES, (K[0], K[0] + K[1], K[1]), strict=True)):
        reach = np.einsum("cde,dsem->csem", stiff, A[..., nodes])
        sums.relative(a, b, offset, np.einsum("ctem,csem->tsem", A[..., 1:-1], reach))

    def inner(frame: bushing.Frame) -> bushing.Frame:
        return tuple(x[..., 1:-1] for x in frame[0]), tuple(tuple(x[..., 1:-1] for x in row) for row in frame[1])  # type: ignore[return-value]

    by_b, by_a = (np.array(x) for x in bushing.turned(inner(frame_a), inner(frame_b), tuple(d[..., 1:-1]), tuple(at)))
    sums.opposite(b, a, b, 1, by_b)
    sums.opposite(b, a, a, 1, by_a)


# -- constraints -------------------------------------------------------------------------------------------------------------------


class Gradient:
    """Collects G entry by entry: a row's wrenches on two links times the twists of the dofs above them."""

    def __init__(self, plan: Plan, f: Frames, out: Evaluation) -> None:
        self.plan, self.T = plan, f.T
        out.gradient_rows, out.gradient_columns, self.index = plan.gradient_index
        self.values = out.gradient = np.zeros((len(out.gradient_rows), f.H.shape[3]))

    def add(self, row: int, link: int, wrenches: np.ndarray) -> None:
        """Rows `row`, `row` + 1, ...: wrenches (rows, 6, K) on one link."""
        dofs = self.plan.structure.dofs_above[link]
        if len(dofs):
            values = np.einsum("rtk,tjk->rjk", wrenches, self.T[:, dofs])
            for r in range(len(wrenches)):
                self.values[self.index[row + r, dofs]] += values[r]

    def add_dof(self, row: int, dof: int, value: np.ndarray) -> None:
        self.values[self.index[row, dof]] += value


def constraints(plan: Plan, numbers: Numbers, point: Point, f: Frames, sums: Sums, out: Evaluation) -> None:
    """Values of g at all nodes, G, and the constraint forces `-h G' lambda` at the inner nodes."""
    gradient = Gradient(plan, f, out) if sums.derivatives else None
    force = -point.h * point.multipliers
    _points(plan, numbers, f, force, sums, out, gradient)
    _perpendiculars(plan, numbers, f, force, sums, out, gradient)
    _inlines(plan, numbers, f, force, sums, out, gradient)
    _couplings(plan, numbers, f, out, gradient)


def _points(plan: Plan, numbers: Numbers, f: Frames, force: np.ndarray, sums: Sums, out: Evaluation, gradient: Gradient | None) -> None:
    a, b, row = plan.rows_by_kind["point"]
    if not len(a):
        return
    Ha, Hb, data = f.pose(a), f.pose(b), numbers.point[:, :, None]
    count = 3 * len(a)
    out.constraint[row : row + count] = np.stack(constraint.point_value(Ha, Hb, data)).swapaxes(0, 1).reshape(count, -1)
    rows = np.array(constraint.point_rows(Ha, Hb, data))  # (3, 12, elements, K)
    pull = force[row : row + count].reshape(len(a), 3, -1).swapaxes(0, 1)
    wrench = np.einsum("rtek,rek->tek", rows[..., 1:-1], pull[..., 1:-1])
    sums.push(a, wrench[:6])
    sums.push(b, wrench[6:])
    if gradient is not None:
        for e in range(len(a)):
            gradient.add(row + 3 * e, a[e], rows[:, :6, e])
            gradient.add(row + 3 * e, b[e], rows[:, 6:, e])
        inner_a, inner_b = f.pose(a, NODES[1]), f.pose(b, NODES[1])
        on_a, on_b = constraint.point_turned(inner_a, inner_b, data, pull[..., 1:-1])
        sums.block(a, a, 1, np.array(on_a))
        sums.block(b, b, 1, np.array(on_b))


def _perpendiculars(plan: Plan, numbers: Numbers, f: Frames, force: np.ndarray, sums: Sums, out: Evaluation, gradient: Gradient | None) -> None:
    a, b, row = plan.rows_by_kind["perpendicular"]
    if not len(a):
        return
    Ha, Hb, data = f.pose(a), f.pose(b), numbers.perpendicular[:, :, None]
    out.constraint[row : row + len(a)] = constraint.perpendicular_value(Ha, Hb, data)
    torque = np.stack(constraint.perpendicular_row(Ha, Hb, data))
    pull = force[row : row + len(a)]
    for e in range(len(a)):
        sums.wrench[:3, a[e]] += torque[:, e, 1:-1] * pull[e, 1:-1]
        sums.wrench[:3, b[e]] -= torque[:, e, 1:-1] * pull[e, 1:-1]
    if gradient is not None:
        rows = np.concatenate([torque, np.zeros_like(torque)])
        for e in range(len(a)):
            gradient.add(row + e, a[e], rows[None, :, e])
            gradient.add(row + e, b[e], -rows[None, :, e])
        # the rows of one joint are neighbours: sum their blocks before spreading them
        starts = np.flatnonzero(np.append(True, (np.diff(a) != 0) | (np.diff(b) != 0)))
        turned = constraint.perpendicular_turned(f.pose(a, NODES[1]), f.pose(b, NODES[1]), data, pull[:, 1:-1])
        by_a, by_b = (np.add.reduceat(np.array(x), starts, axis=2) for x in turned)
        sums.opposite(a[starts], b[starts], a[starts], 1, by_a)
        sums.opposite(a[starts], b[starts], b[starts], 1, by_b)


def _inlines(plan: Plan, numbers: Numbers, f: Frames, force: np.ndarray, sums: Sums, out: Evaluation, gradient: Gradient | None) -> None:
    a, b, row = plan.rows_by_kind["inline"]
    if not len(a):
        return
    Ha, Hb, data = f.pose(a), f.pose(b), numbers.inline[:, :, None]
    out.constraint[row : row + len(a)] = constraint.inline_value(Ha, Hb, data)
    on_b = np.stack(constraint.inline_row(Ha, Hb, data))
    pull = force[row : row + len(a), 1:-1]
    sums.push(b, on_b[..., 1:-1] * pull)
    sums.push(a, -on_b[..., 1:-1] * pull)
    if gradient is not None:
        for e in range(len(a)):
            gradient.add(row + e, b[e], on_b[None, :, e])
            gradient.add(row + e, a[e], -on_b[None, :, e])
        p, d = al.point(f.pose(b, NODES[1]), tuple(data[6:])), al.direction(f.pose(a, NODES[1]), tuple(data[3:6]))  # type: ignore[arg-type]
        by_point, by_direction = constraint.line_wrench_turned(p, d, pull)
        sums.opposite(b, a, b, 1, np.array(by_point))
        sums.opposite(b, a, a, 1, np.array(by_direction))


def polynomial(c: Any, x: Any) -> tuple[Any, Any, Any]:
    """Value, first and second derivative of c0 + c1 x + ... + c4 x^4."""
    value = c[0] + x * (c[1] + x * (c[2] + x * (c[3] + x * c[4])))
    first = c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4]))
    second = 2 * c[2] + x * (6 * c[3] + x * 12 * c[4])
    return value, first, second


def _couplings(plan: Plan, numbers: Numbers, f: Frames, out: Evaluation, gradient: Gradient | None) -> None:
    s = plan.structure
    first_row = s.nc - len(s.couplings)
    for k, (c1, c2) in enumerate(plan.couplings):
        data = numbers.coupling[:, k]
        x = f.s[c2] - data[6] if c2 >= 0 else np.zeros(f.s.shape[1])
        value, slope, _ = polynomial(data, x)
        out.constraint[first_row + k] = f.s[c1] - data[5] - value
        for c, weight in ((c1, np.ones_like(x)), (c2, -slope)):
            if c < 0 or gradient is None:
                continue
            if s.coordinates == TREE:
                gradient.add_dof(first_row + k, int(plan.coordinate_dof[c]), weight)
            else:
                parent, child = plan.coordinate_links[c]
                gradient.add(first_row + k, child, (f.gradient[:, c] * weight)[None])
                gradient.add(first_row + k, parent, -(f.gradient[:, c] * weight)[None])


# -- joint forces --------------------------------------------------------------------------------------------------------------------


@dataclass
class JointForces:
    """Forces on the scalar coordinates at the inner nodes and their derivatives with respect to s at k-1, k, k+1."""

    value: np.ndarray
    by: list[np.ndarray]


def interval_rates(f: Frames, h: float) -> tuple[np.ndarray, np.ndarray]:
    """`s_m` and `rho` of every interval."""
    return 0.5 * (f.s[:, :-1] + f.s[:, 1:]), (f.s[:, 1:] - f.s[:, :-1]) / h


def scalar_force(plan: Plan, numbers: Numbers, point: Point, sm: np.ndarray, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`t` of every interval with drives, and dt/ds_m, dt/drho."""
    t, t_s, t_r = law.force(sm, rho, tuple(numbers.law[:, :, None]), point.friction_rates(len(sm))[:, None], point.sides)
    t = t + point.applied[plan.coordinate_dof]
    for a, c in enumerate(plan.actuator_coordinate):
        ta, ta_s, ta_r, _ = law.drive(sm[c], rho[c], point.control[a], tuple(numbers.actuator[:, a]))
        t[c] += ta
        t_s[c] += ta_s
        t_r[c] += ta_r
    return t, t_s, t_r


def joint_forces(plan: Plan, numbers: Numbers, point: Point, f: Frames, sums: Sums, out: Evaluation) -> None:
    """Springs, dampers, friction, armature, drives and couplings of all joints. In `tree` they add to rows directly (`add_tree_forces`)."""
    sm, rho = interval_rates(f, point.h)
    t, t_s, t_r = scalar_force(plan, numbers, point, sm, rho)
    armature = numbers.law[LAW.index("armature")][:, None]
    left, right = law.ends(t, rho, armature, point.h)
    LL, LR, RL, RR = law.ends_by_coordinates(t_s, t_r, armature, point.h)
    scalar = JointForces(left[:, 1:] + right[:, :-1], [RL[:, :-1], LL[:, 1:] + RR[:, :-1], LR[:, 1:]])
    _coupling_forces(plan, numbers, point, f, scalar)
    if sums.derivatives and len(plan.actuator_coordinate):
        gains = numbers.actuator[0] * numbers.actuator[1]
        out.control = np.repeat(-0.5 * point.h * gains[:, None], point.control.shape[1], axis=1)
    balls = [ball_force(plan, numbers, point, f, k) for k in range(len(plan.ball_links))]
    if point.unmodelled is not None:
        impulse = point.h * point.unmodelled[:, 1:-1]
        scalar.value[:] -= impulse[plan.coordinate_dof]
        balls = [(value - impulse[dof : dof + 3], by) for dof, (value, by) in zip(plan.ball_dof, balls, strict=True)]
    if plan.structure.coordinates == TREE:
        out.direct = (scalar, balls)
        return
    _scalar_on_links(plan, numbers, f, sums, scalar)
    for k, (value, by) in enumerate(balls):
        _ball_on_links(plan, f, sums, k, value, by)


def _coupling_forces(plan: Plan, numbers: Numbers, point: Point, f: Frames, scalar: JointForces) -> None:
    s = plan.structure
    first_row = s.nc - len(s.couplings)
    for k, (c1, c2) in enumerate(plan.couplings):
        force = -point.h * point.multipliers[first_row + k, 1:-1]
        scalar.value[c1] += force
        if c2 >= 0:
            _, slope, curvature = polynomial(numbers.coupling[:, k], f.s[c2, 1:-1] - numbers.coupling[6, k])
            scalar.value[c2] -= slope * force
            scalar.by[1][c2] -= curvature * force


def relative_rotation(plan: Plan, numbers: Numbers, f: Frames, k: int) -> al.Matrix:
    """A ball's rotation: the child against the parent's side of the joint."""
    parent, child = (f.pose(link) for link in plan.ball_links[k])
    placement = numbers.placement[:, :3, plan.structure.ball_coordinates[k].unit]
    side = al.matmul(al.rotation_part(parent), tuple(map(tuple, placement)))
    return al.matmul(al.transpose(side), al.rotation_part(child))


def ball_interval(plan: Plan, numbers: Numbers, point: Point, f: Frames, k: int) -> tuple:
    R = relative_rotation(plan, numbers, f, k)
    RL, RR = (tuple(tuple(x[nodes] for x in row) for row in R) for nodes in (LEFT, RIGHT))
    reference = al.quaternion_matrix(tuple(numbers.ball_reference[:, k]))  # type: ignore[arg-type]
    dof = plan.ball_dof[k]
    return ball.interval(RL, RR, reference, tuple(numbers.ball_law[:, k]), point.delta, point.h, tuple(point.applied[dof : dof + 3]))  # type: ignore[arg-type]


def ball_force(plan: Plan, numbers: Numbers, point: Point, f: Frames, k: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """(3, M) force in the child's axes and three (3, 3, M) derivatives with respect to relative turns at k-1, k, k+1."""
    left, right, LL, LR, RL_, RR_, *_ = ball_interval(plan, numbers, point, f, k)
    left, right = np.stack(left), np.stack(right)
    LL, LR, RL_, RR_ = (np.array([[np.broadcast_to(x, left.shape[1:]) for x in row] for row in b]) for b in (LL, LR, RL_, RR_))
    return left[:, 1:] + right[:, :-1], [RL_[..., :-1], LL[..., 1:] + RR_[..., :-1], LR[..., 1:]]


def acting(plan: Plan, f: Frames, velocity: int) -> tuple[np.ndarray, np.ndarray]:
    """Column `velocity` (of the tree) of A(q_k)': the rows that a unit joint force enters and its values (rows, K)."""
    s = plan.structure
    if s.coordinates == TREE:
        return np.array([velocity]), np.ones((1, f.H.shape[3]))
    scalar = np.flatnonzero(plan.coordinate_dof == velocity)
    if len(scalar):
        parent, child = plan.coordinate_links[scalar[0]]
        wrench = f.acts[:, scalar[0]]
    else:
        k, axis = next((k, velocity - dof) for k, dof in enumerate(plan.ball_dof) if 0 <= velocity - dof < 3)
        parent, child = plan.ball_links[k]
        wrench = np.concatenate([f.H[:, axis, child], np.zeros((3, f.H.shape[3]))])
    ends = [(s.dofs_above[link], sign) for link, sign in ((child, 1.0), (parent, -1.0)) if len(s.dofs_above[link])]
    return np.concatenate([dofs for dofs, _ in ends]), np.concatenate([sign * np.einsum("tk,tjk->jk", wrench, f.T[:, dofs]) for dofs, sign in ends])


def _scalar_on_links(plan: Plan, numbers: Numbers, f: Frames, sums: Sums, scalar: JointForces) -> None:
    """`free`: each coordinate's force as a wrench on the child and its opposite on the parent."""
    parent, child = plan.coordinate_links[:, 0], plan.coordinate_links[:, 1]
    acts = f.acts[..., 1:-1]
    sums.push(child, acts * scalar.value)
    sums.push(parent, -acts * scalar.value)
    if not sums.derivatives:
        return
    for offset, nodes in enumerate(NODES):
        sums.relative(parent, child, offset, (acts * scalar.by[offset])[:, None] * f.gradient[None, ..., nodes])
    for mask in (plan.rotational, ~plan.rotational):
        p, c, force = parent[mask], child[mask], scalar.value[mask]
        if not len(p):
            continue
        frame = numbers.frame[:, mask, None]
        Hp, Hc = f.pose(p, NODES[1]), f.pose(c, NODES[1])
        if mask is plan.rotational:
            sums.opposite(c, p, p, 1, np.array(coordinate.hinge_turned(Hp, frame, force)))
        else:
            by_child, by_parent = (np.array(x) for x in coordinate.slide_turned(Hp, Hc, frame, force))
            sums.opposite(c, p, c, 1, by_child)
            sums.opposite(c, p, p, 1, by_parent)


def _ball_on_links(plan: Plan, f: Frames, sums: Sums, k: int, value: np.ndarray, by: list[np.ndarray]) -> None:
    """`free`: torque `R_child t` on the child and its opposite on the parent."""
    parent, child = plan.ball_links[k : k + 1, 0], plan.ball_links[k : k + 1, 1]
    R = f.H[:, :3, child[0]]
    torque = np.einsum("ijk,jk->ik", R[..., 1:-1], value)
    sums.wrench[:3, child[0]] += torque
    sums.wrench[:3, parent[0]] -= torque
    if not sums.derivatives:
        return
    for offset, nodes in enumerate(NODES):
        inner = np.einsum("abk,jbk->ajk", by[offset], R[..., nodes])
        sums.relative(parent, child, offset, np.einsum("iak,ajk->ijk", R[..., 1:-1], inner)[:, :, None])
    x, y, z = torque
    zero = np.zeros_like(x)
    turned = np.array([[zero, z, -y], [-z, zero, x], [y, -x, zero]])  # w x torque
    sums.opposite(child, parent, child, 1, turned[:, :, None])


def add_tree_forces(plan: Plan, out: Evaluation) -> None:
    """`tree`: the coordinate is a degree of freedom, its force goes into its row."""
    scalar, balls = out.direct
    dofs = plan.coordinate_dof
    out.residual[dofs] += scalar.value
    values = (out.minus, out.zero, out.plus)
    for k, (value, by) in enumerate(balls):
        three = plan.ball_dof[k] + np.arange(3)
        out.residual[three] += value
        if out.zero is not None:
            for target, block in zip(values, by, strict=True):
                target[plan.index[np.ix_(three, three)]] += block  # type: ignore[index]
    if out.zero is not None:
        for target, by_s in zip(values, scalar.by, strict=True):
            target[plan.index[dofs, dofs]] += by_s  # type: ignore[index]
    out.direct = None
