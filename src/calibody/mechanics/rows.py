"""Constraint rows and joint axes at many nodes, and how they turn: first and second derivatives in velocities of centres of mass.

For `free` coordinates, with every moving body's velocity `(velocity of its centre of mass x, angular velocity)` in world axes. A row c acts on two links
as a wrench `(torque about the world's origin, force)`, `W_l`; elements give it and its change with the links' twists, `B_lm = dW_l/dt_m` (closed form,
`elements/`). A twist is `t = X xi` for a displacement `xi = (of the centre, turn)`, `X = [[0, 1], [1, [x]x]]`, so that the row in these velocities is

    G_l = X_l' W_l,      dG_l/dxi_m = X_l' B_lm X_m + [l = m] [[0, 0], [[f]x, 0]]

(f the force of W_l; the last term because x moves). Contracted with a velocity on the left it is the change of `G v`, contracted with multipliers that of
the force `G'lam`. Of rows whose force does not turn (points, directions, hinges) only torques by turns are left, a 3x3 block for every pair of links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from calibody.mechanics.assembly import Frames, polynomial
from calibody.mechanics.elements import constraint, coordinate
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import Numbers, Structure
from calibody.spatial import algebra as al


@dataclass(frozen=True)
class Turned:
    """A block of the second derivative of one row: by which velocities (rows) and displacements (columns), and (K, a, b)."""

    row: int
    rows: slice
    columns: slice
    block: np.ndarray


@dataclass(frozen=True)
class Rows:
    """Rows at K nodes, the nodes first."""

    value: np.ndarray
    """(K, rows): g of constraints, coordinates of axes (zero for balls)."""
    first: np.ndarray
    """(K, rows, nv): G."""
    second: tuple[Turned, ...]

    def at(self, nodes: slice) -> Rows:
        """Some of the nodes."""
        return Rows(self.value[nodes], self.first[nodes], tuple(replace(t, block=t.block[nodes]) for t in self.second))

    def along(self, v: np.ndarray) -> np.ndarray:
        """(K, rows, nv): derivative of `G v` by displacements, for v (K, nv)."""
        out = np.zeros_like(self.first)
        for t in self.second:
            out[:, t.row, t.columns] += (v[:, None, t.rows] @ t.block)[:, 0]
        return out

    def bent(self, lam: np.ndarray) -> np.ndarray:
        """(K, nv, nv): derivative of `G'lam` by displacements, for lam (K, rows)."""
        K, _, nv = self.first.shape
        out = np.zeros((K, nv, nv))
        for t in self.second:
            out[:, t.rows, t.columns] += lam[:, t.row, None, None] * t.block
        return out


@dataclass(frozen=True)
class _Wrench:
    """One row: its value (K,), its links, the wrenches on them (2, 6, K), and `B`: for pairs of links the upper left corner of 6x6, (r, c, K)."""

    value: np.ndarray
    links: tuple[int, int]
    on: np.ndarray
    by: dict[tuple[int, int], np.ndarray]


def constraint_rows(structure: Structure, numbers: Numbers, f: Frames, centres: np.ndarray) -> Rows:
    """G of all constraint rows; `centres` (3, links, K) are the centres of mass of all links."""
    return _rows(structure, [*_points(structure, numbers, f), *_perpendiculars(structure, numbers, f), *_inlines(structure, numbers, f)], centres, f, numbers)


def axis_rows(structure: Structure, numbers: Numbers, f: Frames, centres: np.ndarray) -> Rows:
    """N: the scalar coordinates (forces act through the parent's axis), then three rows for every ball (in the child's axes)."""
    return _rows(structure, [*_coordinates(structure, numbers, f), *_balls(structure, f)], centres, f, None)


def _rows(structure: Structure, wrenches: list[_Wrench], centres: np.ndarray, f: Frames, coupled: Numbers | None) -> Rows:
    K, couplings = f.H.shape[3], len(structure.couplings) if coupled is not None else 0
    value = np.zeros((K, len(wrenches) + couplings))
    first = np.zeros((K, len(wrenches) + couplings, structure.nv))
    second: list[Turned] = []
    for r, w in enumerate(wrenches):
        value[:, r] = w.value
        own = [structure.dofs_above[link] for link in w.links]
        for k, dofs in enumerate(own):
            if len(dofs):
                torque, force, x = w.on[k, :3], w.on[k, 3:], centres[:, w.links[k]]
                first[:, r, dofs[:3]] += force.T
                first[:, r, dofs[3:]] += (torque - np.cross(x, force, axis=0)).T
        for (k, m), block in w.by.items():
            if len(own[k]) and len(own[m]):
                second += _turned(r, own[k], own[m], block, w.on[k, 3:] if k == m else None, centres[:, w.links[k]], centres[:, w.links[m]])
    rows = Rows(value, first, tuple(second))
    return _with_couplings(structure, coupled, rows, f, centres) if couplings and coupled is not None else rows


def _turned(r: int, on: np.ndarray, by: np.ndarray, block: np.ndarray, force: np.ndarray | None, x: np.ndarray, y: np.ndarray) -> list[Turned]:
    """`X' B X (+ [[0, 0], [[f]x, 0]])`; a torque that turns, or moves with its point, leaves a 3x3 block."""
    block = np.ascontiguousarray(block.transpose(2, 0, 1))
    K, height, width = block.shape
    turn = slice(int(on[3]), int(on[3]) + 3), slice(int(by[3]), int(by[3]) + 3)
    if height == 3 and (width == 3 or force is not None):  # by displacement: `v x f`, which `[f]x` takes away again
        return [Turned(r, *turn, block if width == 3 else block[:, :, :3] + block[:, :, 3:] @ cross(y.T))]
    whole = np.zeros((K, 6, 6))
    whole[:, :height, :width] = block
    whole = _to_twist(x).swapaxes(1, 2) @ whole @ _to_twist(y)
    if force is not None:
        whole[:, 3:, :3] += cross(force.T)
    return [Turned(r, slice(int(on[0]), int(on[0]) + 6), slice(int(by[0]), int(by[0]) + 6), whole)]


def _with_couplings(structure: Structure, numbers: Numbers, rows: Rows, f: Frames, centres: np.ndarray) -> Rows:
    """`s_1 - p(s_2)`: combinations of the rows of two coordinates (the polynomial's curvature is left out of the second derivative)."""
    plan, count = plan_of(structure), len(structure.couplings)
    axes = axis_rows(structure, numbers, f, centres)
    gradient = _rows(structure, _coordinates(structure, numbers, f, f.gradient), centres, f, None).first
    value, first, second = rows.value, rows.first, list(rows.second)
    for k, (c1, c2) in enumerate(plan.couplings):
        x = f.s[c2] - numbers.coupling[6, k] if c2 >= 0 else np.zeros(f.s.shape[1])
        level, slope, _ = polynomial(numbers.coupling[:, k], x)
        row = first.shape[1] - count + k
        value[:, row] = f.s[c1] - numbers.coupling[5, k] - level
        first[:, row] = gradient[:, c1] - (slope[:, None] * gradient[:, c2] if c2 >= 0 else 0.0)
        second += [replace(t, row=row) for t in axes.second if t.row == c1]
        second += [replace(t, row=row, block=-slope[:, None, None] * t.block) for t in axes.second if t.row == c2]
    return Rows(value, first, tuple(second))


def _to_twist(x: np.ndarray) -> np.ndarray:
    """(K, 6, 6): X of the module docstring."""
    out = np.zeros((x.shape[1], 6, 6))
    out[:, :3, 3:] = out[:, 3:, :3] = np.eye(3)
    out[:, 3:, 3:] = cross(x.T)
    return out


def cross(a: np.ndarray) -> np.ndarray:
    """(..., 3, 3): [a]x for vectors in the last axis."""
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    zero = np.zeros_like(x)
    return np.stack([np.stack([zero, -z, y], -1), np.stack([z, zero, -x], -1), np.stack([-y, x, zero], -1)], -2)


def _broadcast(block: tuple, K: int) -> np.ndarray:
    return np.array([[np.broadcast_to(x, (K,)) for x in row] for row in block])


def _pairs(structure: Structure, f: Frames, kind: str, data: np.ndarray) -> Iterator[tuple[tuple[int, int], al.Pose, al.Pose, np.ndarray]]:
    """Of all constraint elements of a kind: their links, the poses of these, and their numbers."""
    a, b, _ = plan_of(structure).rows_by_kind[kind]
    for e, links in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        yield links, f.pose(links[0]), f.pose(links[1]), data[:, e]


def _points(structure: Structure, numbers: Numbers, f: Frames) -> list[_Wrench]:
    out, K = [], f.H.shape[3]
    for links, Ha, Hb, data in _pairs(structure, f, "point", numbers.point):
        rows, value = _broadcast(constraint.point_rows(Ha, Hb, data), K).reshape(3, 2, 6, K), constraint.point_value(Ha, Hb, data)
        for i in range(3):
            by = {(k, k): _broadcast(turned, K) for k, turned in enumerate(constraint.point_turned(Ha, Hb, data, np.eye(3)[i]))}
            out.append(_Wrench(value[i], links, rows[i], by))
    return out


def _perpendiculars(structure: Structure, numbers: Numbers, f: Frames) -> list[_Wrench]:
    out, K = [], f.H.shape[3]
    for links, Ha, Hb, data in _pairs(structure, f, "perpendicular", numbers.perpendicular):
        on, by = np.zeros((2, 6, K)), {}
        torque = np.stack(constraint.perpendicular_row(Ha, Hb, data))
        on[0, :3], on[1, :3] = torque, -torque
        for m, turned in enumerate(constraint.perpendicular_turned(Ha, Hb, data, 1.0)):
            block = _broadcast(turned, K)
            by[0, m], by[1, m] = block, -block
        out.append(_Wrench(constraint.perpendicular_value(Ha, Hb, data), links, on, by))
    return out


def _inlines(structure: Structure, numbers: Numbers, f: Frames) -> list[_Wrench]:
    out, K = [], f.H.shape[3]
    for links, Ha, Hb, data in _pairs(structure, f, "inline", numbers.inline):
        wrench = np.stack(constraint.inline_row(Ha, Hb, data))
        point, direction = al.point(Hb, tuple(data[6:])), al.direction(Ha, tuple(data[3:6]))  # type: ignore[arg-type]
        by_point, by_direction = constraint.line_wrench_turned(point, direction, 1.0)
        out.append(_between(constraint.inline_value(Ha, Hb, data), links, wrench, _broadcast(by_direction, K), _broadcast(by_point, K)))
    return out


def _between(value: np.ndarray, links: tuple[int, int], wrench: np.ndarray, by_first: np.ndarray, by_second: np.ndarray) -> _Wrench:
    """A wrench on the second link, its opposite on the first, and its change (upper left corners of 6x6) with the twists of both."""
    by = {}
    for m, block in enumerate((by_first, by_second)):
        if block.size:
            by[1, m], by[0, m] = block, -block
    return _Wrench(value, links, np.stack([-wrench, wrench]), by)


def _coordinates(structure: Structure, numbers: Numbers, f: Frames, wrenches: np.ndarray | None = None) -> list[_Wrench]:
    plan = plan_of(structure)
    out, K = [], f.H.shape[3]
    for c, (parent, child) in enumerate(plan.coordinate_links):
        frame = numbers.frame[:, c]
        Hp, Hc = f.pose(parent), f.pose(child)
        if plan.rotational[c]:
            by_child, by_parent = np.zeros((0, 0, K)), _broadcast(coordinate.hinge_turned(Hp, frame, 1.0), K)[:3, :3]
        else:
            by_child, by_parent = (_broadcast(x, K) for x in coordinate.slide_turned(Hp, Hc, frame, 1.0))
        out.append(_between(f.s[c], (int(parent), int(child)), (f.acts if wrenches is None else wrenches)[:, c], by_parent, by_child))
    return out


def _balls(structure: Structure, f: Frames) -> list[_Wrench]:
    out, K = [], f.H.shape[3]
    for parent, child in plan_of(structure).ball_links:
        for i in range(3):
            torque = f.H[:, i, child]
            wrench = np.concatenate([torque, np.zeros((3, K))])
            turned = -cross(torque.T).transpose(1, 2, 0)  # w x torque
            out.append(_between(np.zeros(K), (int(parent), int(child)), wrench, np.zeros((0, 0, K)), turned))
    return out
