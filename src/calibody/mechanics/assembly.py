"""What every element type contributes to the discrete equations: a wrench per link and 6x6 blocks, all elements of a type at once.

Arrays are (components, elements, nodes). The formulas are in `elements/`, in closed form, one file each; here is what is done with a `Measure` of any
type, and what has no measure: inertia, and the forces on joint coordinates, which in `tree` go into their rows directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibody.mechanics import kernels
from calibody.mechanics.elements import ball, coordinate, law, load, spring
from calibody.mechanics.elements.base import ON_FIRST, CoordinateConstraint, Measure, Setting, VelocityConstraint
from calibody.mechanics.elements.law import LAW
from calibody.mechanics.kinematics import Geometry, poses, twists
from calibody.mechanics.plan import Group, Plan, plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.shapes import Pose
from calibody.mechanics.structure import TREE, Numbers, Structure
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
    """(scalar coordinates, then transmissions, then paths, K) unwrapped."""
    gradient: np.ndarray
    """(6, scalar coordinates, K): ds on the child (its opposite on the parent); `free` only."""
    acts: np.ndarray
    """(6, scalar coordinates, K): wrench of a unit joint force on the child; `free` only."""

    def cut(self, first: int, end: int) -> Frames:
        """Of some of the nodes."""
        return Frames(*(a[..., first:end] for a in (self.H, self.T, self.s, self.gradient, self.acts)))

    def pose(self, links: Any, nodes: slice = slice(None)) -> al.Pose:
        return al.unpack_pose(self.H[:, :, links, nodes])

    def between(self, first: int, end: int) -> Frames:
        """The nodes from `first` to before `end`."""
        return Frames(*(x[..., first:end] for x in (self.H, self.T, self.s, self.gradient, self.acts)))

    def poses(self, links: np.ndarray, nodes: slice = slice(None)) -> list[al.Pose]:
        """Of elements that touch links (elements, links)."""
        return [self.pose(column, nodes) for column in links.T]


def frames(structure: Structure, numbers: Numbers, point: Point) -> Frames:
    return frames_at(structure, numbers, point.q, point.turns)


def frames_at(structure: Structure, numbers: Numbers, q: np.ndarray, turns: np.ndarray | None) -> Frames:
    """`turns` as of `turns_along`; `tree` needs none."""
    geometry = Geometry.of(structure, numbers)
    H = poses(structure, geometry, q)
    T = twists(structure, geometry, H)
    if structure.coordinates == TREE:
        empty = np.zeros((6, 0, q.shape[1]))
        return Frames(H, T, np.concatenate([combined(structure, q[structure.scalar_positions]), lengths(structure, numbers, H)]), empty, empty)
    assert turns is not None
    s, gradient, acts = measured(plan_of(structure), numbers, H, turns)
    return Frames(H, T, np.concatenate([combined(structure, s), lengths(structure, numbers, H)]), gradient, acts)


def combined(structure: Structure, s: np.ndarray) -> np.ndarray:
    """Values of all scalar coordinates (or their rates), and of transmissions after them."""
    return np.concatenate([s, structure.combinations @ s]) if len(structure.combinations) else s


def lengths(structure: Structure, numbers: Numbers, H: np.ndarray) -> np.ndarray:
    """(paths, K)"""
    out = np.zeros((len(structure.model.paths), H.shape[3]))
    plan = plan_of(structure)
    for group, which in zip(plan.paths, plan.path_order, strict=True):
        poses_ = [al.unpack_pose(H[:, :, column]) for column in group.touches.T]
        out[which] = group.type.measure.value(poses_, numbers.elements[group.name][:, :, None])[0]
    return out


def path_acts(plan: Plan, numbers: Numbers, f: Frames) -> Iterator[tuple[np.ndarray, Act]]:
    """Which paths, and what they do to links, type by type."""
    for group, which in zip(plan.paths, plan.path_order, strict=True):
        yield which, Act.of(group.type.measure, group.touches, numbers.elements[group.name][:, :, None], f.poses(group.touches))


def pulls(plan: Plan, numbers: Numbers, f: Frames) -> np.ndarray:
    """(paths, nv, K): gradients of their lengths, which is how they pull."""
    s = plan.structure
    out = np.zeros((len(s.model.paths), s.nv, f.H.shape[3]))
    for which, act in path_acts(plan, numbers, f):
        for e, link, W, _ in act.rows(0):
            dofs = s.dofs_above[link]
            out[which[e], dofs] += np.einsum("tk,tjk->jk", W[0], f.T[: W.shape[1], dofs])
    return out


def rows_of(plan: Plan, numbers: Numbers, f: Frames, c: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the equations that a unit force on a scalar coordinate, a transmission or a path enters, and its values (rows, K)."""
    if c >= plan.first_path:
        pull = pulls(plan, numbers, f)[c - plan.first_path]
        dofs = np.flatnonzero(np.abs(pull).max(axis=1) > 0.0)
        return dofs, pull[dofs]
    parts = [(acting(plan, f, int(plan.coordinate_dof[j])), share) for j, share in plan.shares(c)]
    return np.concatenate([dofs for (dofs, _), _ in parts]), np.concatenate([share * acts for (_, acts), share in parts])


def measured(plan: Plan, numbers: Numbers, H: np.ndarray, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Joint coordinates between links, their gradients and wrenches (`free`)."""
    count, K = len(plan.rotational), H.shape[3]
    s, gradient, acts = turns.copy(), np.zeros((6, count, K)), np.zeros((6, count, K))
    for kind, which in plan.coordinate_kinds:
        poses_, frame = [al.unpack_pose(H[:, :, links]) for links in plan.coordinate_links[which].T], numbers.frame[:, which, None]
        s[which] += kind.value(poses_, frame)[0]
        W = np.stack(kind.wrenches(poses_, frame)[0][0])
        gradient[: len(W), which] = W
        acts[: len(W), which] = W if kind.acts is None else np.stack(kind.acts(poses_, frame)[0][0])
    return s + plan.coordinate_reference(numbers)[:, None], gradient, acts


def turns_along(structure: Structure, numbers: Numbers, q: np.ndarray, near: np.ndarray | None = None) -> np.ndarray:
    """(scalar coordinates, K): what to add to the hinges' angles in (-pi, pi] so that they do not jump (`free`), and begin within half a turn of `near`, where that is known."""
    plan = plan_of(structure)
    zero = np.zeros((len(plan.rotational), q.shape[1]))
    if not plan.rotational.any():
        return zero
    angles, _, _ = measured(plan, numbers, poses(structure, Geometry.of(structure, numbers), q), zero)
    whole = np.unwrap(angles, axis=1)
    if near is not None:
        whole = whole + 2.0 * np.pi * np.round((near - whole[:, 0]) / (2.0 * np.pi))[:, None]
    return np.where(plan.rotational[:, None], whole - angles, 0.0)


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


@dataclass(frozen=True)
class Act:
    """Elements of one measure at all nodes: wrenches of their rows, (rows, arms, 3 or 6, elements, K)."""

    measure: Measure
    links: np.ndarray
    data: np.ndarray
    """(numbers, elements, 1)"""
    W: np.ndarray
    """Gradient of the rows."""
    A: np.ndarray
    """What forces on the rows act through."""

    @classmethod
    def of(cls, measure: Measure, links: np.ndarray, data: np.ndarray, poses: list[al.Pose]) -> Act:
        W = np.array(measure.wrenches(poses, data))
        return cls(measure, links, data, W, W if measure.acts is None else np.array(measure.acts(poses, data)))

    def rows(self, first: int) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
        """Element by element and link by link: the first row of the element, the link, and W and A (rows, 3 or 6, K) of its rows on it."""
        for a, arm in enumerate(self.measure.arms):
            for k, sign in arm:
                W = self.W[:, a] if sign > 0 else -self.W[:, a]
                A = W if self.A is self.W else sign * self.A[:, a]
                for e, link in enumerate(self.links[:, k].tolist()):
                    yield first + self.measure.rows * e, link, W[:, :, e], A[:, :, e]

    def add(self, f: Frames, sums: Sums, force: np.ndarray, by: list[np.ndarray] | None = None) -> None:
        """Forces (rows, elements, M) on the rows at the inner nodes, and their derivatives `by` z at k-1, k, k+1, (rows, rows, elements, M) each."""
        arms, A = self.measure.arms, self.A[..., 1:-1]
        sums.push(arms, self.links, np.einsum("catem,cem->atem", A, force))
        if not sums.derivatives:
            return
        for offset, nodes in enumerate(NODES if by is not None else ()):
            reach = np.einsum("cdem,datem->catem", by[offset], self.W[..., nodes])  # type: ignore[index]
            pairs = {(i, j): np.einsum("csem,ctem->stem", A[:, i], reach[:, j]) for i in range(len(arms)) for j in range(len(arms))}
            sums.stiffness(arms, self.links, offset, pairs)
        turned = self.measure.turned(f.poses(self.links, NODES[1]), self.data, tuple(force))
        # several elements between the same links are mostly neighbours: sum their blocks before spreading them
        starts = np.flatnonzero(np.append(True, (np.diff(self.links, axis=0) != 0).any(axis=1)))
        blocks = {key: np.array(block) for key, block in turned.items()}
        if len(starts) < len(self.links):
            blocks = {key: np.add.reduceat(block, starts, axis=2) for key, block in blocks.items()}
        sums.spread(arms, self.links[starts], 1, blocks)


def forces(plan: Plan, numbers: Numbers, point: Point, f: Frames, sums: Sums) -> None:
    """Forces between links."""
    for group in plan.forces:
        measure, data, poses_ = group.type.measure, numbers.elements[group.name][:, :, None], f.poses(group.touches)
        z = np.stack(measure.value(poses_, data))
        law_data = pulled_data(plan, group, data, point.applied, z.shape[-1] - 1)
        F, *K = group.type.impulse(tuple(z[..., :-1]), tuple(z[..., 1:]), law_data, point.h)
        L, R = (np.broadcast_to(k, (*np.shape(k)[:3], z.shape[-1] - 1)) for k in map(np.array, K))
        by = [L[..., :-1], L[..., 1:] + R[..., :-1], R[..., 1:]]  # what node k receives from its two intervals, by z at k-1, k, k+1
        force = np.stack(F)
        Act.of(measure, group.touches, data, poses_).add(f, sums, force[..., 1:] + force[..., :-1], by)


def link_pairs(f: Frames, links: np.ndarray, nodes: slice) -> tuple[Pose, Pose]:
    """Poses of elements that touch two links (elements, 2)."""
    first, second = (Pose(f.H[:, :3, column, nodes], f.H[:, 3, column, nodes]) for column in links.T)
    return first, second


def encounters(plan: Plan, numbers: Numbers, point: Point, f: Frames, sums: Sums) -> None:
    """Compliant contact."""
    for group in plan.encounters:
        kind, links, data = group.type, group.touches, numbers.elements[group.name][:, :, None]
        found = kind.exchange(link_pairs(f, links, LEFT), link_pairs(f, links, RIGHT), data, point.h)
        left, right = found.impulses
        sums.push(ON_FIRST, links, (left[..., 1:] + right[..., :-1])[None])
        if sums.derivatives:
            (LL, RL), (LR, RR) = (kind.by_twists(found, data, end) for end in (0, 1))
            for offset, by in enumerate((RL[..., :-1], LL[..., 1:] + RR[..., :-1], LR[..., 1:])):
                sums.spread(ON_FIRST, links, offset, {(0, 0): by[:, :6], (0, 1): by[:, 6:]})


def pulled_data(plan: Plan, group: Group, data: np.ndarray, applied: np.ndarray, intervals: int) -> Any:
    """The numbers of force elements with the tensions that drives add: rows (elements, 1), the last (elements, K - 1)."""
    which, rows = plan.pulled
    if not (group.type.pulled and len(which) and len(applied)):
        return data
    tension = np.zeros((data.shape[1], intervals))
    tension[which] = applied[rows]
    return (*data[:-1], tension)


def pushes(plan: Plan, numbers: Numbers, point: Point, f: Frames, sums: Sums) -> None:
    """Given forces on links: `-(h/2) f W` at both ends of the intervals."""
    for group in plan.pushes if len(point.applied) else ():
        act = push_act(group, numbers, f)
        force = -0.5 * point.h * point.applied[group.applied]
        act.add(f, sums, (force[:, 1:] + force[:, :-1])[None])


def push_act(group: Group, numbers: Numbers, f: Frames) -> Act:
    return Act.of(group.type.measure, group.touches, numbers.elements[group.name][:, :, None], f.poses(group.touches))


# -- constraints -------------------------------------------------------------------------------------------------------------------


class Gradient:
    """Collects G entry by entry, wrenches on links times the twists of the dofs above them; and what the multipliers act through, where it is not G."""

    def __init__(self, plan: Plan, f: Frames, out: Evaluation) -> None:
        self.plan, self.T = plan, f.T
        out.gradient_rows, out.gradient_columns, self.index = plan.gradient_index
        out.gradient = np.zeros((len(out.gradient_rows), f.H.shape[3]))
        self.targets = [out.gradient]
        if plan.multipliers_apart:
            out.apart = np.zeros_like(out.gradient)
            self.targets.append(out.apart)
        if plan.structure.rolling.any():
            out.before = np.zeros_like(out.gradient)
        self.before = out.before

    def add(self, row: int, link: int, *wrenches: np.ndarray) -> None:
        """Rows `row`, `row` + 1, ...: wrenches (rows, 3 or 6, K) on one link, of the gradient and of the multipliers."""
        dofs = self.plan.structure.dofs_above[link]
        if len(dofs):
            for target, wrench in zip(self.targets, wrenches, strict=False):
                values = np.einsum("rtk,tjk->rjk", wrench, self.T[: wrench.shape[1], dofs])
                for r, value in enumerate(values):
                    target[self.index[row + r, dofs]] += value

    def add_before(self, row: int, link: int, wrenches: np.ndarray) -> None:
        """The derivative (rows, 6, K) of the rows of every node by the twist of a link at the node before; the first node has none."""
        dofs, T = self.plan.structure.dofs_above[link], self.T
        if len(dofs) and self.before is not None:
            values = np.einsum("rtk,tjk->rjk", wrenches[:, :, 1:], T[:, dofs, :-1])
            for r, value in enumerate(values):
                self.before[self.index[row + r, dofs], 1:] += value

    def add_dof(self, row: int, dof: int, value: np.ndarray) -> None:
        for target in self.targets:
            target[self.index[row, dof]] += value


def constraints(plan: Plan, numbers: Numbers, point: Point, f: Frames, sums: Sums, out: Evaluation) -> None:
    """Values of g at all nodes, G, and the constraint forces `-h A' lambda` on links at the inner nodes (those on coordinates: `joint_forces`)."""
    gradient = Gradient(plan, f, out) if sums.derivatives else None
    for group in plan.constraints:
        if isinstance(group.type, CoordinateConstraint):
            _between_coordinates(plan, group, numbers, f, out, gradient)
        elif isinstance(group.type, VelocityConstraint):
            _over_intervals(group, numbers, -point.h * point.multipliers[group.rows, 1:-1], f, sums, out, gradient)
        else:
            _between_links(group, numbers, -point.h * point.multipliers[group.rows, 1:-1], f, sums, out, gradient)
    if point.given is not None:
        out.constraint[plan.structure.prescribed_rows] -= point.given


def constraint_acts(plan: Plan, numbers: Numbers, f: Frames) -> list[tuple[Group, Act]]:
    """The constraints between links."""
    groups = [g for g in plan.constraints if not isinstance(g.type, CoordinateConstraint)]
    return [(g, Act.of(g.type.measure, g.touches, numbers.elements[g.name][:, :, None], f.poses(g.touches))) for g in groups]


def _between_links(group: Group, numbers: Numbers, force: np.ndarray, f: Frames, sums: Sums, out: Evaluation, gradient: Gradient | None) -> None:
    measure, links, data, poses_ = group.type.measure, group.touches, numbers.elements[group.name][:, :, None], f.poses(group.touches)
    out.constraint[group.rows] = np.stack(measure.value(poses_, data)).swapaxes(0, 1).reshape(len(links) * measure.rows, -1)
    act = Act.of(measure, links, data, poses_)
    act.add(f, sums, force.reshape(len(links), measure.rows, -1).swapaxes(0, 1))
    if gradient is not None:
        for row, link, W, A in act.rows(group.row):
            gradient.add(row, link, W, A)


def _over_intervals(group: Group, numbers: Numbers, force: np.ndarray, f: Frames, sums: Sums, out: Evaluation, gradient: Gradient | None) -> None:
    """Rows on velocities: that of the interval before a node stands at the node; the first node has none."""
    kind, links, data = group.type, group.touches, numbers.elements[group.name][:, :, None]
    count, (left, right) = kind.rows, (f.poses(links, nodes) for nodes in (LEFT, RIGHT))
    out.constraint[group.rows, 1:] = np.stack(kind.slip(left, right, data)).swapaxes(0, 1).reshape(len(links) * count, -1)
    act = Act.of(kind.measure, links, data, f.poses(links))
    act.add(f, sums, force.reshape(len(links), count, -1).swapaxes(0, 1))
    if gradient is None:
        return
    shape = (len(links), f.H.shape[3] - 1)
    by_left, by_right = (
        np.array([[np.broadcast_to(x, shape) for x in row] for row in by]) for by in kind.slip_by(left, right, data)
    )  # (rows, 6, elements, K - 1)
    acts = np.einsum("rtek->ertk", act.A[:, 0])
    nothing = np.zeros((count, 6, 1))
    for e, (link,) in enumerate(links.tolist()):
        at, before = (np.concatenate([nothing, by[:, :, e]], axis=2) for by in (by_right, by_left))
        at[:, : acts.shape[2], 0] = acts[e, :, :, 0]  # of one node alone: what keeps rates compatible
        gradient.add(group.row + count * e, link, at, acts[e])
        gradient.add_before(group.row + count * e, link, before)


def _between_coordinates(plan: Plan, group: Group, numbers: Numbers, f: Frames, out: Evaluation, gradient: Gradient | None) -> None:
    out.constraint[group.rows], slopes, _ = group.type.value([f.s[c] for c in group.touches.T], numbers.elements[group.name][:, :, None])
    if gradient is None:
        return
    for coordinates, slope in zip(group.touches.T, slopes, strict=True):
        for e, c in enumerate(coordinates.tolist()):
            if plan.structure.coordinates == TREE:
                gradient.add_dof(group.row + e, int(plan.coordinate_dof[c]), slope[e])
            else:
                for link, weight in zip(plan.coordinate_links[c], (-slope[e], slope[e]), strict=True):
                    gradient.add(group.row + e, link, (f.gradient[:, c] * weight)[None], (f.acts[:, c] * weight)[None])


# -- joint forces --------------------------------------------------------------------------------------------------------------------


@dataclass
class JointForces:
    """Forces on the scalar coordinates at the inner nodes and their derivatives with respect to s at k-1, k, k+1."""

    value: np.ndarray
    by: list[np.ndarray]
    across: dict[tuple[int, int], list[np.ndarray]] = field(default_factory=dict)
    """Of one by another coordinate, where a transmission ties them together."""

    def shared_out(self, plan: Plan) -> JointForces:
        """What acts on transmissions acts on their joints."""
        C, count = plan.structure.combinations, len(plan.coordinate_dof)
        if not len(C):
            return JointForces(self.value[:count], [b[:count] for b in self.by])
        tied = slice(count, plan.first_path)
        across = {(i, j): [(C[:, i] * C[:, j]) @ b[tied] for b in self.by] for i, j in plan.combined}
        return JointForces(self.value[:count] + C.T @ self.value[tied], [b[:count] + (C * C).T @ b[tied] for b in self.by], across)


def interval_rates(f: Frames, h: float) -> tuple[np.ndarray, np.ndarray]:
    """`s_m` and `rho` of every interval."""
    return 0.5 * (f.s[:, :-1] + f.s[:, 1:]), (f.s[:, 1:] - f.s[:, :-1]) / h


def scalar_force(plan: Plan, numbers: Numbers, point: Point, sm: np.ndarray, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`t` of every interval, dt/ds_m, dt/drho, and by the controls (actuators, K - 1)."""
    out = [np.zeros_like(sm) for _ in range(3)]
    out[0][: len(plan.coordinate_dof)] = point.applied[plan.coordinate_dof]
    by_control = np.zeros_like(point.control)
    for group in plan.coordinate_forces:
        c = group.touches
        *found, by_u = group.type.force(sm[c], rho[c], numbers.elements[group.name][:, :, None], setting(group, point, len(sm)))
        for target, value in zip(out, found, strict=True):
            np.add.at(target, c, value)
        if group.controls is not None:
            np.add.at(by_control, group.controls, by_u)
    return *out, by_control  # type: ignore[return-value]


def exerted(plan: Plan, numbers: Numbers, actuator: int, sm: np.ndarray, rho: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, ...]:
    """The force of one actuator on what it acts on over the intervals, and its derivatives by s_m, rho and u; s_m and rho of all coordinates."""
    total: list[Any] = [np.zeros(sm.shape[1]) for _ in range(4)]
    for group, e in driven_by(plan, actuator):
        c = group.touches[e]
        found = group.type.force(sm[c], rho[c], tuple(numbers.elements[group.name][:, e]), Setting(1.0, control=u))
        total = [t + x for t, x in zip(total, found, strict=True)]
    return tuple(total)


def driven_by(plan: Plan, actuator: int) -> Iterator[tuple[Group, int]]:
    """The elements of forces on coordinates that have an actuator's control."""
    for group in plan.coordinate_forces:
        if group.controls is not None:
            yield from ((group, int(e)) for e in np.flatnonzero(group.controls == actuator))


def setting(group: Group, point: Point, count: int, e: Any = slice(None)) -> Setting:
    """Of the elements of a group of forces on coordinates, or of some of them, in all intervals; `count` coordinates and transmissions."""
    c = group.touches[e]
    control = None if group.controls is None else point.control[group.controls[e]]
    return Setting(point.friction_rates(count)[c], point.smooth, control)


def joint_forces(plan: Plan, numbers: Numbers, point: Point, f: Frames, sums: Sums, out: Evaluation) -> None:
    """Springs, dampers, friction, armature, drives and couplings of all joints. In `tree` they add to rows directly (`add_tree_forces`)."""
    sm, rho = interval_rates(f, point.h)
    t, t_s, t_r, by_control = scalar_force(plan, numbers, point, sm, rho)
    armature = plan.coordinate_inertia(numbers)[:, None]
    left, right = law.ends(t, rho, armature, point.h)
    LL, LR, RL, RR = law.ends_by_coordinates(t_s, t_r, armature, point.h)
    everything = JointForces(left[:, 1:] + right[:, :-1], [RL[:, :-1], LL[:, 1:] + RR[:, :-1], LR[:, 1:]])
    for which, act in path_acts(plan, numbers, f):
        c = plan.first_path + which
        act.add(f, sums, everything.value[None, c], [b[None, None, c] for b in everything.by])
    scalar = everything.shared_out(plan)
    _constraint_forces(plan, numbers, point, f, scalar)
    if sums.derivatives and len(plan.actuator_coordinate):
        out.control = -0.5 * point.h * by_control
    balls = [ball_force(plan, numbers, point, f, k) for k in range(len(plan.ball_links))]
    if plan.loaded_joint:
        _load_friction(plan, numbers, point, f, rho, scalar, balls, out)
    if point.unmodelled is not None:
        impulse = point.h * point.unmodelled[:, 1:-1]
        scalar.value[:] -= impulse[plan.coordinate_dof]
        balls = [(value - impulse[dof : dof + 3], by) for dof, (value, by) in zip(plan.ball_dof, balls, strict=True)]
    if plan.structure.coordinates == TREE:
        out.direct = (scalar, balls)
        return
    for kind, which in plan.coordinate_kinds:
        links, data = plan.coordinate_links[which], numbers.frame[:, which, None]
        act = Act(kind, links, data, f.gradient[None, None, :, which], f.acts[None, None, :, which])
        act.add(f, sums, scalar.value[None, which], [b[None, None, which] for b in scalar.by])
    if sums.derivatives:
        _tied(plan, f, sums, scalar)
    if balls:
        act = Act.of(coordinate.BALL, plan.ball_links, np.zeros((0, len(balls), 1)), f.poses(plan.ball_links))
        act.add(f, sums, np.stack([value for value, _ in balls], axis=1), [np.stack(b, axis=2) for b in zip(*(by for _, by in balls), strict=True)])


def _tied(plan: Plan, f: Frames, sums: Sums, scalar: JointForces) -> None:
    """`free`: derivatives of the force on one coordinate by another, between the links of both."""
    for (i, j), by in scalar.across.items():
        for offset, nodes in enumerate(NODES):
            block = np.einsum("am,bm,m->abm", f.acts[:, i, 1:-1], f.gradient[:, j, nodes], by[offset])[:, :, None]
            for a, own in zip(plan.coordinate_links[i], (-1.0, 1.0), strict=True):
                for b, sign in zip(plan.coordinate_links[j], (-1.0, 1.0), strict=True):
                    sums.block(np.array([a]), np.array([b]), offset, block, own * sign)


def _constraint_forces(plan: Plan, numbers: Numbers, point: Point, f: Frames, scalar: JointForces) -> None:
    """What constraints between coordinates exert on them."""
    for group in plan.constraints:
        if not isinstance(group.type, CoordinateConstraint):
            continue
        force = -point.h * point.multipliers[group.rows, 1:-1]
        _, slopes, curvatures = group.type.value([f.s[c, 1:-1] for c in group.touches.T], numbers.elements[group.name][:, :, None])
        for coordinates, slope, curvature in zip(group.touches.T, slopes, curvatures, strict=True):
            np.add.at(scalar.value, coordinates, slope * force)
            np.add.at(scalar.by[1], coordinates, curvature * force)


def loads(plan: Plan, numbers: Numbers, point: Point) -> tuple[np.ndarray, np.ndarray]:
    """What the joints with friction by load carry at the inner nodes, (joints, M), and its derivative by the multipliers (joints, nc, M)."""
    return load.load(point.multipliers[:, 1:-1], *plan.load_rows, numbers.load[2:])


def load_law(numbers: Numbers, c: Any, j: Any) -> np.ndarray:
    """(8, ...) the law of scalar coordinates c of loaded joints j with the coefficients of friction by load in place of its limits, and nothing else."""
    out = np.zeros_like(numbers.law[:, c])
    out[LAW.index("friction")], out[LAW.index("stribeck")] = numbers.load[:2, j]
    for rate in ("friction_rate", "stribeck_rate"):
        out[LAW.index(rate)] = numbers.law[LAW.index(rate), c]
    return out


def _load_friction(
    plan: Plan,
    numbers: Numbers,
    point: Point,
    f: Frames,
    rho: np.ndarray,
    scalar: JointForces,
    balls: list[tuple[np.ndarray, list[np.ndarray]]],
    out: Evaluation,
) -> None:
    """Friction in proportion to the load of the node (`elements/load.py`), and how it changes with the multipliers."""
    carried, by_multipliers = loads(plan, numbers, point)
    c, joints = plan.loaded_coordinates
    if len(c):
        numbers_of = tuple(load_law(numbers, c, joints)[:, :, None])
        t, t_s, t_r = law.force(0.0 * rho[c], rho[c], numbers_of, point.friction_rates(len(rho))[c], point.smooth)
        left, right = law.ends(t, rho[c], 0.0, point.h)
        LL, LR, RL, RR = law.ends_by_coordinates(t_s, t_r, 0.0, point.h)
        both = left[:, 1:] + right[:, :-1]
        scalar.value[c] += carried[joints] * both
        for target, by in zip(scalar.by, (RL[:, :-1], LL[:, 1:] + RR[:, :-1], LR[:, 1:]), strict=True):
            target[c] += carried[joints] * by
        for e, dof in enumerate(plan.coordinate_dof[c].tolist()):
            _act_through(plan, f, out, dof, joints[e], both[e] / point.h * by_multipliers[joints[e]])
    for k, j in zip(*plan.loaded_balls, strict=True):
        both, by = ball_force(plan, numbers, replace(point, applied=0.0 * point.applied), f, k, (0.0, 0.0, numbers.load[0, j], 0.0))
        value, old = balls[k]
        balls[k] = value + carried[j] * both, [a + carried[j] * b for a, b in zip(old, by, strict=True)]
        for axis in range(3):
            _act_through(plan, f, out, int(plan.ball_dof[k]) + axis, j, both[axis] / point.h * by_multipliers[j])


def _act_through(plan: Plan, f: Frames, out: Evaluation, velocity: int, joint: int, share: np.ndarray) -> None:
    """Multipliers of a loaded joint act against its velocity (of the tree), too, by `share` (nc, M) of themselves at the inner nodes."""
    if out.apart is None:
        return
    dofs, acts = acting(plan, f, velocity)
    for row in np.flatnonzero(sum(rows[joint] for rows in plan.load_rows)):
        out.apart[plan.gradient_index[2][row, dofs], 1:-1] -= share[row] * acts[:, 1:-1]


def relative_rotation(plan: Plan, numbers: Numbers, f: Frames, k: int) -> al.Matrix:
    """A ball's rotation: the child against the parent's side of the joint."""
    parent, child = (f.pose(link) for link in plan.ball_links[k])
    placement = numbers.placement[:, :3, plan.structure.ball_coordinates[k].unit]
    side = al.matmul(al.rotation_part(parent), tuple(map(tuple, placement)))
    return al.matmul(al.transpose(side), al.rotation_part(child))


def ball_interval(plan: Plan, numbers: Numbers, point: Point, f: Frames, k: int, own: tuple | None = None) -> tuple:
    """`own`: other numbers for its law."""
    R = relative_rotation(plan, numbers, f, k)
    RL, RR = (tuple(tuple(x[nodes] for x in row) for row in R) for nodes in (LEFT, RIGHT))
    reference = al.quaternion_matrix(tuple(numbers.ball_reference[:, k]))  # type: ignore[arg-type]
    dof = plan.ball_dof[k]
    applied = tuple(point.applied[dof : dof + 3])
    return ball.interval(RL, RR, reference, tuple(numbers.ball_law[:, k]) if own is None else own, point.delta, point.h, applied, point.smooth)  # type: ignore[arg-type]


def ball_force(plan: Plan, numbers: Numbers, point: Point, f: Frames, k: int, own: tuple | None = None) -> tuple[np.ndarray, list[np.ndarray]]:
    """(3, M) force in the child's axes and three (3, 3, M) derivatives with respect to relative turns at k-1, k, k+1."""
    left, right, LL, LR, RL_, RR_, *_ = ball_interval(plan, numbers, point, f, k, own)
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


def driving(plan: Plan, numbers: Numbers, f: Frames, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a unit of one of the applied (`Point.applied`) is in the rows of the equations: the dofs, and its values at the left and the right end of
    every interval, (dofs, K - 1) each; a force f contributes `-(h/2) f` times these."""
    s = plan.structure
    if row < s.tree_nv:
        dofs, acts = acting(plan, f, row)
        return dofs, acts[:, :-1], acts[:, 1:]
    found = driving_wrenches(plan, numbers, f, row)
    dofs, place = np.unique(np.concatenate([s.dofs_above[link] for link, _, _ in found]), return_inverse=True)
    out = np.zeros((2, len(dofs), f.H.shape[3] - 1))
    for k, nodes in enumerate((LEFT, RIGHT)):
        np.add.at(out[k], place, np.concatenate([np.einsum("tk,tjk->jk", x[1 + k], f.T[: len(x[1]), s.dofs_above[x[0]], nodes]) for x in found]))
    return dofs, out[0], out[1]


def driving_wrenches(plan: Plan, numbers: Numbers, f: Frames, row: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Of a force on a body, or the tension of a spring: the links, and the wrench of a unit of it at the left and the right end of every interval, (3 or 6, K - 1)."""
    for group in plan.pushes:
        if group.applied.start <= row < group.applied.stop:
            W = push_act(group, numbers, f).W[0, 0, :, row - group.row]
            return [(int(group.touches[row - group.row, 0]), W[:, LEFT], W[:, RIGHT])]
    which, rows = plan.pulled
    group = next(g for g in plan.forces if g.type.pulled)
    e = int(which[np.flatnonzero(rows == row)[0]])
    links, data = group.touches[e : e + 1], numbers.elements[group.name][:, e : e + 1, None]
    z = np.stack(group.type.measure.value(f.poses(links), data))[:, 0]
    d = 0.5 * (z[:, LEFT] + z[:, RIGHT])
    u = -d / np.maximum(np.sqrt((d * d).sum(0)), spring.TINY)  # along the line of the mean points, on the first
    acts = [(link, W) for _, link, W, _ in Act.of(group.type.measure, links, data, f.poses(links)).rows(0)]
    return [(link, *(np.einsum("rk,rtk->tk", u, W[..., nodes]) for nodes in (LEFT, RIGHT))) for link, W in acts]


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
        for (i, j), by in scalar.across.items():
            for target, block in zip(values, by, strict=True):
                target[plan.index[dofs[i], dofs[j]]] += block  # type: ignore[index]
    out.direct = None
