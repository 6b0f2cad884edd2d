"""Wrenches and blocks of all links at the inner nodes, as the elements add to them, and their projection on degrees of freedom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from calibody.mechanics import kernels
from calibody.mechanics.elements.base import Arms
from calibody.mechanics.plan import Plan
from calibody.mechanics.point import Evaluation
from calibody.mechanics.structure import BALL, FREE, TREE
from calibody.spatial import algebra as al

NODES = (slice(0, -2), slice(1, -1), slice(2, None))
"""Nodes k-1, k, k+1 of all inner nodes k."""


class Sums:
    """`wrench` is (6, n + 1, M). `own[o]` is (6, 6, n + 1, M): blocks within one link by twists at node k - 1 + o; `cross[o]` is
    (6, 6, pairs of links, M): blocks between two links, in the order of `Plan.cross`."""

    def __init__(self, plan: Plan, M: int, derivatives: bool) -> None:
        self.plan = plan
        self.derivatives = derivatives
        n = plan.structure.n
        self.wrench = np.zeros((6, n + 1, M))
        if derivatives:
            self.own = [np.zeros((6, 6, n + 1, M)) for _ in range(3)]
            self.cross = [np.zeros((6, 6, len(plan.cross), M)) for _ in range(3)]

    def push(self, arms: Arms, links: np.ndarray, wrenches: np.ndarray) -> None:
        """Add wrenches (arms, 3 or 6, elements, M) to the links (elements, links) that the arms name."""
        for arm, wrench in zip(arms, wrenches, strict=True):
            for k, sign in arm:
                for e, link in enumerate(links[:, k].tolist()):
                    target = self.wrench[: len(wrench), link]
                    if sign > 0:
                        target += wrench[:, e]
                    else:
                        target -= wrench[:, e]

    def spread(self, arms: Arms, links: np.ndarray, offset: int, blocks: Mapping[tuple[int, int], np.ndarray]) -> None:
        """Add the blocks of arms by the twists of links."""
        for (arm, by), block in blocks.items():
            for k, sign in arms[arm]:
                self.block(links[:, k], links[:, by], offset, block, sign)

    def stiffness(self, arms: Arms, links: np.ndarray, offset: int, pairs: Mapping[tuple[int, int], np.ndarray]) -> None:
        """Add the blocks of arms by the motions along arms."""
        for (arm, along), block in pairs.items():
            for by, sign in arms[along]:
                for k, own in arms[arm]:
                    self.block(links[:, k], links[:, by], offset, block, own * sign)

    def block(self, rows: np.ndarray, columns: np.ndarray, offset: int, blocks: np.ndarray, sign: float = 1.0) -> None:
        """Add blocks (r <= 6, c <= 6, elements, M), the upper left corner of 6x6, one per element."""
        moving, index = self.plan.moving, self.plan.cross_index
        height, width = blocks.shape[:2]
        for e, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
            if moving[row] and moving[column]:
                place, where = (self.own, row) if row == column else (self.cross, index[row, column])
                target = place[offset][:height, :width, where]
                if sign > 0:
                    target += blocks[:, :, e]
                else:
                    target -= blocks[:, :, e]


def project(plan: Plan, H: np.ndarray, T: np.ndarray, sums: Sums, out: Evaluation) -> None:
    """`r_j = t_j . Wc_j` and its derivatives; H is (3, 4, n + 1, K), T is (6, nv, K)."""
    s = plan.structure
    composite(s.parent, sums.wrench)
    Tk = T[:, :, 1:-1]
    W = sums.wrench[:, s.dof_unit]
    out.residual += np.einsum("ajm,ajm->jm", Tk, W)
    if not sums.derivatives:
        return
    carried = carried_along(Tk, W)
    if s.coordinates == TREE:
        results = [np.zeros((len(out.rows), out.residual.shape[1])) for _ in range(3)]
        _project_tree(plan, T, carried, sums, results)
    else:
        results = _project_free(plan, H, T, carried, sums)
    out.minus, out.zero, out.plus = results


def composite(parents: np.ndarray, sums: np.ndarray) -> None:
    """In place: every link's entry becomes the sum over its subtree; the links are on the axis before the last."""
    n = len(parents)
    for i in range(n - 1, -1, -1):
        if parents[i] < n:
            sums[..., parents[i], :] += sums[..., i, :]


def carried_along(T: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Q_j with `[t_i, t_j] . W_j = t_i . Q_j`: `(w x n + v x f, w x f)`."""
    w, v, n, f = tuple(T[:3]), tuple(T[3:]), tuple(W[:3]), tuple(W[3:])
    return np.stack([*al.add(al.cross(w, n), al.cross(v, f)), *al.cross(w, f)])  # type: ignore[arg-type]


def along(plan: Plan, T: np.ndarray, sums: Sums, moved: Sequence[tuple[int, np.ndarray, np.ndarray]]) -> np.ndarray:
    """(moved, nv, M): derivative of `r_j = t_j . Wc_j` of a tree when a unit and all that it carries move at all nodes alike.

    Every entry of `moved` is a unit, the twist (6, K) of its joint's axes and that of its links. As in `_project_tree`: with i the unit,
    `t_j . Bc_deeper(i,j) t_i` within links, `t_j . B_ab t_i` between them, and `[t_i, t_j] . Wc_j` for axes that are carried along.
    """
    s, Tk = plan.structure, T[:, :, 1:-1]
    composite(s.parent, sums.wrench)
    turned = carried_along(Tk, sums.wrench[:, s.dof_unit])
    for blocks in sums.own:
        composite(s.parent, blocks)
    Z = [np.einsum("abjm,ajm->bjm", blocks[:, :, s.dof_unit], Tk) for blocks in sums.own]
    out = np.zeros((len(moved), s.nv, Tk.shape[2]))
    for row, (i, joint, link) in zip(out, moved, strict=True):
        first, own, end = s.v_start[i], s.v_start[i + 1], s.v_start[s.unit_end[i]]
        above = s.dofs_above[s.parent[i]]
        for offset, nodes in enumerate(NODES):
            row[first:end] += np.einsum("bjm,bm->jm", Z[offset][:, first:end], link[:, nodes])
            if len(above):
                row[above] += np.einsum("ajm,am->jm", Tk[:, above], np.einsum("abm,bm->am", sums.own[offset][:, :, i], link[:, nodes]))
            for c, (a, b) in enumerate(plan.cross):
                if i <= b < s.unit_end[i]:
                    push = np.einsum("abm,bm->am", sums.cross[offset][:, :, c], link[:, nodes])
                    row[s.dofs_above[a]] += np.einsum("ajm,am->jm", Tk[:, s.dofs_above[a]], push)
        row[first:own] += np.einsum("ajm,am->jm", turned[:, first:own], joint[:, 1:-1])
        row[own:end] += np.einsum("ajm,am->jm", turned[:, own:end], link[:, 1:-1])
    return out


def _project_tree(plan: Plan, T: np.ndarray, carried: np.ndarray, sums: Sums, results: list[np.ndarray]) -> None:
    s = plan.structure
    units = s.dof_unit
    Tk = T[:, :, 1:-1]
    for offset in range(3):
        composite(s.parent, sums.own[offset])
        B = sums.own[offset][:, :, units]
        column = T[:, :, NODES[offset]]
        X = np.einsum("abjm,bjm->ajm", B, column)
        Z = np.einsum("abjm,ajm->bjm", B, Tk)
        if offset == 1:
            Z += carried
        values = results[offset]
        for j in range(s.nv):
            end = int(s.dof_end[j])
            np.einsum("am,aim->im", Tk[:, j], X[:, j:end], out=values[plan.upper[j] : plan.upper[j + 1]])
            if end > j + 1:
                np.einsum("ajm,am->jm", Z[:, j + 1 : end], column[:, j], out=values[plan.lower[j] : plan.lower[j + 1]])
        for c, (a, b) in enumerate(plan.cross):
            rows, columns = s.dofs_above[a], s.dofs_above[b]
            X = np.einsum("abm,bim->aim", sums.cross[offset][:, :, c], column[:, columns])
            values[plan.index[np.ix_(rows, columns)]] += np.einsum("ajm,aim->jim", Tk[:, rows], X)
    _add_own_axes(plan, Tk, carried, results[1])


def _add_own_axes(plan: Plan, T: np.ndarray, carried: np.ndarray, zero: np.ndarray) -> None:
    """The axes of a ball turn with the ball itself: the bracket for pairs (j, i >= j) of one ball, which the lower pairs do not have."""
    s = plan.structure
    for u, unit in enumerate(s.units):
        if unit.kind not in (BALL, FREE):
            continue
        first = s.v_start[u + 1] - 3
        for j in range(first, first + 3):
            for i in range(j, first + 3):
                zero[plan.index[j, i]] += np.einsum("am,am->m", T[:, i], carried[:, j])


def _project_free(plan: Plan, H: np.ndarray, T: np.ndarray, carried: np.ndarray, sums: Sums) -> list[np.ndarray]:
    """Every moving link has six dofs of its own, so all blocks have one shape and go through one kernel."""
    s = plan.structure
    rows, columns = plan.blocks
    own = int(plan.moving.sum())
    M = carried.shape[2]
    row_poses = H[:, :, rows, 1:-1].reshape(12, -1)
    results = []
    for offset in range(3):
        B = np.concatenate([sums.own[offset][:, :, rows[:own]], sums.cross[offset]], axis=2).reshape(36, -1)
        column_poses = H[:, :, columns, NODES[offset]].reshape(12, -1)
        results.append(kernels.run(kernels.project_blocks, [B, row_poses, column_poses]).reshape(-1, M))
    dofs = s.v_start[:-1][rows[:own]] + np.arange(6)[:, None]
    blocks = results[1].reshape(6, 6, len(rows), M)
    blocks[3:, :, :own] += np.einsum("aicm,ajcm->jicm", T[:, dofs, 1:-1], carried[:, dofs[3:]])  # the rotational axes turn with the link
    return results
