"""Constraint rows and joint axes at many nodes, and how they turn: first and second derivatives in velocities of centres of mass.

For `free` coordinates, with every moving body's velocity `(velocity of its centre of mass x, angular velocity)` in world axes. A row c acts on two links
as a wrench `(torque about the world's origin, force)`, `W_l`; elements give it and its change with the links' twists, `B_lm = dW_l/dt_m` (closed form,
`elements/`). A twist is `t = X xi` for a displacement `xi = (of the centre, turn)`, `X = [[0, 1], [1, [x]x]]`, so that the row in these velocities is

    G_l = X_l' W_l,      dG_l/dxi_m = X_l' B_lm X_m + [l = m] [[0, 0], [[f]x, 0]]

(f the force of W_l; the last term because x moves). Contracted with a velocity on the left it is the change of `G v`, contracted with multipliers that of
the force `G'lam`. Of rows whose force does not turn (points, directions, hinges) only torques by turns are left, a 3x3 block for every pair of links.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibody.mechanics.assembly import Frames
from calibody.mechanics.elements import coordinate
from calibody.mechanics.elements.base import CoordinateConstraint, Measure
from calibody.mechanics.plan import Group, plan_of
from calibody.mechanics.structure import Numbers, Structure


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
    """One row: its value (K,), its links, the wrenches on them (links, 6, K), and `B`: for pairs of links the upper left corner of 6x6, (r, c, K)."""

    value: np.ndarray
    links: list[int]
    on: np.ndarray
    by: dict[tuple[int, int], np.ndarray]


def constraint_rows(structure: Structure, numbers: Numbers, f: Frames, centres: np.ndarray) -> Rows:
    """G of all constraint rows; `centres` (3, links, K) are the centres of mass of all links."""
    parts = []
    for group in plan_of(structure).constraints:
        if isinstance(group.type, CoordinateConstraint):
            parts.append(_between_coordinates(structure, group, numbers, f, centres))
        else:
            data = numbers.elements[group.name]
            parts.append(_rows(structure, [w for e, links in enumerate(group.touches) for w in _wrenches(group.type.measure, links, data[:, e], f)], centres))
    return _joined(structure, f, parts)


def axis_rows(structure: Structure, numbers: Numbers, f: Frames, centres: np.ndarray) -> Rows:
    """N: the scalar coordinates (forces act through the parent's axis), then three rows for every ball (in the child's axes)."""
    balls = [w for links in plan_of(structure).ball_links for w in _wrenches(coordinate.BALL, links, np.zeros(0), f)]
    return _joined(structure, f, [_rows(structure, [*_coordinates(structure, numbers, f, f.acts), *balls], centres)])


def _joined(structure: Structure, f: Frames, parts: list[Rows]) -> Rows:
    K, second, row = f.H.shape[3], [], 0
    for part in parts:
        second += [replace(t, row=t.row + row) for t in part.second]
        row += part.value.shape[1]
    value, first = [np.zeros((K, 0)), *(p.value for p in parts)], [np.zeros((K, 0, structure.nv)), *(p.first for p in parts)]
    return Rows(np.concatenate(value, axis=1), np.concatenate(first, axis=1), tuple(second))


def _rows(structure: Structure, wrenches: list[_Wrench], centres: np.ndarray) -> Rows:
    K = centres.shape[2]
    value = np.zeros((K, len(wrenches)))
    first = np.zeros((K, len(wrenches), structure.nv))
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
    return Rows(value, first, tuple(second))


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


def _between_coordinates(structure: Structure, group: Group, numbers: Numbers, f: Frames, centres: np.ndarray) -> Rows:
    """Combinations of the rows of coordinates (the curvature of z(s) is left out of the second derivative)."""
    axes = _rows(structure, _coordinates(structure, numbers, f, f.acts), centres)
    gradient = _rows(structure, _coordinates(structure, numbers, f, f.gradient), centres).first
    value, slopes, _ = group.type.value([f.s[c] for c in group.touches.T], numbers.elements[group.name][:, :, None])
    first, second = np.zeros((f.H.shape[3], len(group.touches), structure.nv)), []
    for coordinates, slope in zip(group.touches.T, slopes, strict=True):
        for row, c in enumerate(coordinates):
            first[:, row] += slope[row][:, None] * gradient[:, c]
            second += [replace(t, row=row, block=slope[row][:, None, None] * t.block) for t in axes.second if t.row == c]
    return Rows(value.T, first, tuple(second))


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


def _wrenches(measure: Measure, links: np.ndarray, data: np.ndarray, f: Frames) -> list[_Wrench]:
    """The rows of one element."""
    poses, K = [f.pose(link) for link in links], f.H.shape[3]
    value, acts = measure.value(poses, data), (measure.acts or measure.wrenches)(poses, data)
    out = []
    for r in range(measure.rows):
        on, by = np.zeros((len(links), 6, K)), {}
        for arm, wrench in zip(measure.arms, acts[r], strict=True):
            for k, sign in arm:
                on[k, : len(wrench)] += sign * _broadcast((wrench,), K)[0]
        for (a, m), block in measure.turned(poses, data, np.eye(measure.rows)[r]).items():
            for k, sign in measure.arms[a]:
                by[k, m] = sign * _broadcast(block, K)
        out.append(_Wrench(value[r], links.tolist(), on, by))
    return out


def _coordinates(structure: Structure, numbers: Numbers, f: Frames, wrenches: np.ndarray) -> list[_Wrench]:
    """The rows of the scalar coordinates, acting through the given wrenches (6, coordinates, K) on the child."""
    plan = plan_of(structure)
    kinds = {c: kind for kind, which in plan.coordinate_kinds for c in which}
    rows = [_wrenches(kinds[c], links, numbers.frame[:, c], f)[0] for c, links in enumerate(plan.coordinate_links)]
    return [replace(w, value=f.s[c], on=np.stack([-wrenches[:, c], wrenches[:, c]])) for c, w in enumerate(rows)]
