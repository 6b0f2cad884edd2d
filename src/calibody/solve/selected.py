"""The entries of K^-1 next to its diagonal, K the matrix of chained states and their equations (`condensed.py`): what traces like `tr(K^-1 dK)` need.

K is cut into blocks that touch only their neighbours. With A_i on the diagonal and B_i below it, elimination from the first block to the last and back gives

    D_i = A_i - B_i D_(i-1)^-1 B_i',          W_i = B_(i+1) D_i^-1
    S_ii = D_i^-1 + W_i' S_(i+1,i+1) W_i,     S_(i+1,i) = -S_(i+1,i+1) W_i                       S = K^-1 [takahashi1973]

Without pivoting across blocks every D_i has to be regular although K is indefinite. It is, if a block holds a node q_k together with the equations r_(k+1) that are the
first to tell it from the nodes before (and their multipliers and forces): `[[P, R'], [R, 0]]` with R = dr_(k+1)/dq_k regular is regular for any P that the nodes before have left,
nothing at all included. Hence `blocks` puts what stands at `when` = k + 0.1, k + 0.2 (multipliers, forces, balance of node k) with node k - 1. Whether it went well can be seen: `sum S_ij K_ij` over
all entries is the number of rows.
"""

from __future__ import annotations

import numpy as np

from calibody.solve.condensed import Linearisation, Sparse, pattern_of

LEAST = 20
"""Unknowns per block, at least: below, the calls cost more than the arithmetic."""
GOOD = 1e-5
"""Relative error of that sum up to which the entries are taken."""


class Selected:
    """Entries of K^-1 between unknowns of the same block and of neighbouring ones; `good` says whether the elimination was stable."""

    def __init__(self, lin: Linearisation) -> None:
        assert lin.when is not None
        by_states, equations = (lin.Fx.T @ lin.Fx).tocsr(), lin.Cx.tocsr()
        pattern = pattern_of(by_states, equations, lin.when)
        self.scale = pattern.equilibration(pattern.of_P(by_states), equations.data)
        P, C = by_states.tocoo(), equations.tocoo()
        rows, columns = np.concatenate([P.row, P.shape[0] + C.row]), np.concatenate([P.col, C.col])
        data = np.concatenate([P.data, C.data]) * self.scale[rows] * self.scale[columns]
        node = earlier(lin.when)
        reach = max(int(np.abs(node[rows] - node[columns]).max(initial=0)), 1)
        nodes = int(node.max(initial=0)) + 1
        reach = max(reach, -(-LEAST * nodes // max(len(node), 1)))
        self.block = node // reach
        count = np.bincount(self.block)
        order = np.argsort(self.block, kind="stable")
        self.place = np.empty(len(node), dtype=np.int64)
        self.place[order] = np.arange(len(node)) - np.repeat(np.cumsum(count) - count, count)
        size = int(count.max(initial=1))
        A, B = np.zeros((len(count), size, size)), np.zeros((max(len(count) - 1, 0), size, size))
        A[:, np.arange(size), np.arange(size)] = np.arange(size)[None, :] >= count[:, None]
        for i, j, value in ((rows, columns, data), (columns[len(P.data) :], rows[len(P.data) :], data[len(P.data) :])):  # P, C and C'
            upper, lower = self.block[j], self.block[i]
            for mine, out in ((upper == lower, A), (upper + 1 == lower, B)):
                out[upper[mine], self.place[i[mine]], self.place[j[mine]]] = value[mine]
        self.diagonal, self.below = _selected(A, B)
        here = self._equilibrated(rows, columns)
        total = float(data @ here) + float(data[len(P.data) :] @ here[len(P.data) :])
        self.good = bool(np.isfinite(total)) and abs(total - len(node)) < GOOD * len(node)

    def at(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Entries of K^-1."""
        return self._equilibrated(row, column) * self.scale[row] * self.scale[column]

    def weigh(self, change: Sparse, first_row: int = 0) -> float:
        """`sum S_ij change_ij`, the rows of `change` being those of K from `first_row` on."""
        entries = change.tocoo()
        return float(entries.data @ self.at(entries.row + first_row, entries.col)) if entries.nnz else 0.0

    def _equilibrated(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        swap = self.block[row] < self.block[column]
        row, column = np.where(swap, column, row), np.where(swap, row, column)
        upper, lower = self.block[column], self.block[row]
        same = upper == lower
        out = np.empty(len(row))
        out[same] = self.diagonal[upper[same], self.place[row[same]], self.place[column[same]]]
        out[~same] = self.below[upper[~same], self.place[row[~same]], self.place[column[~same]]]
        return out


def earlier(when: np.ndarray) -> np.ndarray:
    """The node that every unknown and every equation is eliminated with."""
    node = np.floor(when + 1e-9).astype(np.int64)
    part = when - node
    return np.where((part > 0.05) & (part < 0.25), node - 1, node)


def _selected(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of the inverse on the diagonal and below it."""
    inverse, W = np.empty_like(A), np.empty_like(B)
    inverse[0] = np.linalg.inv(A[0])
    for i in range(len(B)):
        W[i] = B[i] @ inverse[i]
        inverse[i + 1] = np.linalg.inv(A[i + 1] - W[i] @ B[i].T)
    S, below = inverse, np.empty_like(B)
    for i in range(len(B) - 1, -1, -1):
        below[i] = -S[i + 1] @ W[i]
        S[i] = inverse[i] - W[i].T @ below[i]
    return S, below
