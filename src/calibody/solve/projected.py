"""K of a chain of nodes with equations that hold at single nodes, on the null spaces of those: small where `free` coordinates make it large.

The states are the tangents q_k of K nodes, the forces `f_k` of the inner ones, and others; the equations are balances `A x + H f = 0` of the inner nodes, constraints
`G_k q_k = 0` of every node, and others. The multipliers y of the balances obey `H'y = 0`, as the tangents obey `G q = 0`: with Z_k an orthonormal basis of the null space of G_k,
`G_k^+ = Q R^-T` from the decomposition `G_k' = [Q, Z] [R; 0]`, and Y, H'^+ likewise of `-H_k` in place of `G_k'` (they are the same but for friction by load),

    q = q0 + Z u,  q0 = G^+ b_constraint,     y = y0 + Y v,  y0 = H'^+ b_force,
    [[Z'P Z, Z'A'Y], [Y'A Z, 0]] [u; v] = [Z'(b_q - P q0 - A'y0); Y'(b_balance - A q0)]

and forces and the constraints' multipliers follow node by node. What is factored has as many unknowns as the mechanism has freedoms (twice), not six per body and six per joint.
The transformation is orthogonal but for R, so `log |det K|` is that of the small matrix and those of all R.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from calibody.solve.condensed import Factor, Linearisation, Refined, Sparse

DEPENDENT = 1e-9
"""Part of a constraint that the others of its node do not explain, relative to the largest, below which nothing is projected."""
SAME = 1e-12
"""Difference of H and -G', relative to the largest entry, below which one basis serves both."""


@dataclass(frozen=True)
class OnNodes(Linearisation):
    """One whose states begin with the tangents of all nodes and the constraint forces of the inner ones, and whose equations begin with a balance per tangent of the inner
    nodes and all constraints (one after the other, each at all nodes)."""

    nodes: tuple[int, int, int] = (0, 0, 0)
    """Nodes, tangents of each, constraints kept at each."""

    def factor(self, damping: np.ndarray | float = 0.0) -> Refined:
        found = None if np.any(damping) else basis(self)
        return super().factor(damping) if found is None else Projected(self, found)


@dataclass(frozen=True)
class Basis:
    """Of nodes: null space Z (nodes, width, freedoms), `G^+` (nodes, width, kept), and log |det R| (nodes,)."""

    Z: np.ndarray
    inverse: np.ndarray
    volume: np.ndarray

    @classmethod
    def of(cls, transposed: np.ndarray) -> Basis | None:
        """Of `G'` (nodes, width, kept); None where rows are dependent."""
        kept = transposed.shape[2]
        Q, R = np.linalg.qr(transposed, mode="complete")
        sizes = np.abs(np.diagonal(R, axis1=1, axis2=2))
        if not sizes.min() > DEPENDENT * sizes.max():
            return None
        return cls(Q[:, :, kept:], Q[:, :, :kept] @ np.linalg.inv(R[:, :kept]).swapaxes(1, 2), np.log(sizes).sum(axis=1))

    @property
    def inner(self) -> Basis:
        return Basis(self.Z[1:-1], self.inverse[1:-1], self.volume[1:-1])


def basis(lin: OnNodes) -> tuple[Basis, Basis] | None:
    """Of G at all nodes and of -H at the inner ones; None where the problem is not of this kind: forces that are observed, constraints over several nodes, or dependent ones."""
    K, width, kept = lin.nodes
    balance, forces = (K - 2) * width, slice(K * width, K * width + (K - 2) * kept)
    loops = lin.Cx[balance : balance + K * kept].tocoo()
    row, node = np.divmod(loops.row, K)
    own = loops.col - node * width
    if not 0 < kept < width or np.any((own < 0) | (own >= width)) or np.any((lin.Fx.indices >= forces.start) & (lin.Fx.indices < forces.stop)):
        return None
    G, H = np.zeros((K, width, kept)), np.zeros((K - 2, width, kept))
    G[node, own, row] = loops.data
    acts = lin.Cx[:balance, forces].tocoo()
    H[acts.row // width, acts.row % width, acts.col % kept] = -acts.data
    found = Basis.of(G)
    other = found.inner if found is not None and np.abs(H - G[1:-1]).max() <= SAME * np.abs(G).max() else Basis.of(H)
    return None if found is None or other is None else (found, other)


class Projected(Refined):
    stable = True

    def __init__(self, lin: OnNodes, found: tuple[Basis, Basis]) -> None:
        assert lin.when is not None
        K, width, kept = lin.nodes
        self.n, m = lin.Fx.shape[1], lin.Cx.shape[0]
        self.K, self.width, self.kept = K, width, kept
        nq, self.balance = K * width, (K - 2) * width
        self.forces, self.loops = slice(nq, nq + (K - 2) * kept), slice(self.balance, self.balance + K * kept)
        self.x = np.concatenate([np.arange(nq), np.arange(self.forces.stop, self.n)])
        """States but the forces ..."""
        self.y = np.concatenate([np.arange(self.balance), np.arange(self.loops.stop, m)])
        """... and equations but the constraints."""
        self.scale, self.found, self.other = np.ones(self.n + m), *found
        Fx, self.C, self.Fx = lin.Fx[:, self.x], lin.Cx.tocsr(), lin.Fx
        self.A = self.C[self.y][:, self.x]
        self.P = (Fx.T @ Fx).tocsr()
        self.Zx, self.Zy = _diagonal(self.found.Z, len(self.x) - nq), _diagonal(self.other.Z, len(self.y) - self.balance)
        free = width - kept
        when = [np.repeat(lin.when[:nq:width], free), lin.when[self.x[nq:]], np.repeat(lin.when[self.n :][: self.balance : width], free)]
        when.append(lin.when[self.n + self.y[self.balance :]])
        small = (self.Zy.T @ self.A @ self.Zx).tocsr()
        nothing = np.zeros((small.shape[0], lin.Ct.shape[1]))
        self.small = Factor(Linearisation(lin.F, (Fx @ self.Zx).tocsr(), lin.Ft, np.zeros(small.shape[0]), small, nothing, np.concatenate(when)))

    @property
    def log_determinant(self) -> float:
        """log |det K|"""
        return self.small.log_determinant + 2.0 * float(self.found.volume.sum() + self.other.volume.sum())

    def apply(self, x: np.ndarray) -> np.ndarray:
        states, multipliers = x[: self.n], x[self.n :]
        return np.concatenate([self.Fx.T @ (self.Fx @ states) + self.C.T @ multipliers, self.C @ states])

    def direct(self, b: np.ndarray) -> np.ndarray:
        K, width, kept, columns = self.K, self.width, self.kept, b.shape[1]
        inverse, inner = self.found.inverse, self.other.inverse
        states, equations = b[: self.n], b[self.n :]
        x, y = np.zeros((len(self.x), columns)), np.zeros((len(self.y), columns))
        x[: K * width] = (inverse @ equations[self.loops].reshape(kept, K, columns).swapaxes(0, 1)).reshape(-1, columns)
        y[: self.balance] = -(inner @ states[self.forces].reshape(K - 2, kept, columns)).reshape(-1, columns)
        right = states[self.x] - self.P @ x - self.A.T @ y, equations[self.y] - self.A @ x
        solved = self.small.solve(np.concatenate([self.Zx.T @ right[0], self.Zy.T @ right[1]]), 1.0)
        x += self.Zx @ solved[: self.small.n]
        y += self.Zy @ solved[self.small.n :]
        left = (states[self.x] - self.P @ x - self.A.T @ y)[: K * width].reshape(K, width, columns)
        missing = (equations[self.y] - self.A @ x)[: self.balance].reshape(K - 2, width, columns)
        out = np.empty_like(b)
        out[self.x], out[self.n + self.y] = x, y
        out[self.forces] = -(inner.swapaxes(1, 2) @ missing).reshape(-1, columns)
        out[self.n :][self.loops] = (inverse.swapaxes(1, 2) @ left).swapaxes(0, 1).reshape(-1, columns)
        return out


def _diagonal(blocks: np.ndarray, more: int) -> Sparse:
    """A block-diagonal matrix, with a unit matrix behind it."""
    count = len(blocks)
    out = sp.bsr_matrix((np.ascontiguousarray(blocks), np.arange(count), np.arange(count + 1))).tocsr()
    return sp.block_diag([out, sp.eye(more)], format="csr") if more else out
