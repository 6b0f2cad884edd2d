"""K of a chain of nodes with equations that hold at single nodes, on the null spaces of those: small where `free` coordinates make it large.

The states are the tangents q_k of K nodes, the forces `f_k` of the inner ones, and others; the equations are balances `A x + H f = 0` of the inner nodes, constraints
`G_k q_k = 0` of every node, and others. The multipliers y of the balances obey `H'y = 0`, as the tangents obey `G q = 0`: with Z_k an orthonormal basis of the null space of G_k,
`G_k^+ = Q R^-T` from the decomposition `G_k' = [Q, Z] [R; 0]`, and Y, H'^+ likewise of `-H_k` in place of `G_k'` (they are the same unless forces act through something else than G),

    q = q0 + Z u,  q0 = G^+ b_constraint,     y = y0 + Y v,  y0 = H'^+ b_force,
    [[Z'P Z, Z'A'Y], [Y'A Z, 0]] [u; v] = [Z'(b_q - P q0 - A'y0); Y'(b_balance - A q0)]

and forces and the constraints' multipliers follow node by node. What is factored has as many unknowns as the mechanism has freedoms (twice), not six per body and six per joint.
The transformation is orthogonal but for R, so `log |det K|` is that of the small matrix and those of all R.

Parameters are eliminated in the small problem too: with x0 the tangents that their constraints ask for (`G x0 = C_constraint`), its residuals are `F - Fx x0`, its equations
`Y'(C - Cx x0)`, and information and gradient are those of the large one. Only the step itself is carried back; the response to every parameter where it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from calibody.solve.condensed import REFINED, AbstractFollowing, Factor, Linearisation, Refined, Sparse

if TYPE_CHECKING:
    from calibody.solve.chain import Chain

DEPENDENT = 1e-9
"""Part of a constraint that the others of its node do not explain, relative to the largest, below which nothing is projected."""
CHUNK = 1 << 18
"""Numbers of the dense blocks that are made at a time: 2 MB, which stay near the core."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Matrices with one pattern, one per node: `values` (entries, nodes) at (`row`, `column`)."""

    row: np.ndarray
    column: np.ndarray
    values: np.ndarray

    def dense(self, rows: int, columns: int, nodes: slice = slice(None)) -> np.ndarray:
        """(nodes, rows, columns)"""
        values = self.values[:, nodes]
        out = np.zeros((values.shape[1], rows * columns))
        out[:, self.row * columns + self.column] = values.T
        return out.reshape(-1, rows, columns)


@dataclass(frozen=True)
class OnNodes(Linearisation):
    """One whose states begin with the tangents of all nodes and the constraint forces of the inner ones, and whose equations begin with a balance per tangent of the inner
    nodes and all constraints (one after the other, each at all nodes). What `Cx` has of these is given by blocks too."""

    nodes: tuple[int, int, int] = (0, 0, 0)
    """Nodes, tangents of each, constraints kept at each."""
    balance: tuple[Entries, ...] = ()
    """Derivatives of the balances by the nodes before, at and after each."""
    gradient: Entries | None = None
    """Of the constraints by their nodes ..."""
    acting: Entries | None = None
    """... and what their forces act through, at all nodes; the same object, if that is the gradient."""

    def factor(self, damping: np.ndarray | float = 0.0) -> Refined:
        found = None if np.any(damping) else bases(self)
        return super().factor(damping) if found is None else Projected(self, *found)


@dataclass(frozen=True, eq=False)
class Basis:
    """`G_k' = [Q, Z] [R; 0]` of every node."""

    Q: np.ndarray
    R: np.ndarray
    Z: np.ndarray

    @classmethod
    def of(cls, G: np.ndarray) -> Basis | None:
        """Of (K, kept, width); None where constraints depend on each other."""
        kept = G.shape[1]
        Q, R = np.linalg.qr(G.swapaxes(1, 2), mode="complete")
        sizes = np.abs(np.diagonal(R, axis1=1, axis2=2))
        if not sizes.min() > DEPENDENT * sizes.max():
            return None
        return cls(Q[:, :, :kept], R[:, :kept], np.ascontiguousarray(Q[:, :, kept:]))

    @cached_property
    def volume(self) -> np.ndarray:
        """(K,) log of the volume that the constraints span."""
        return np.log(np.abs(np.diagonal(self.R, axis1=1, axis2=2))).sum(axis=1)

    def inner(self) -> Basis:
        """Of the inner nodes."""
        return Basis(*(a[1:-1] for a in (self.Q, self.R, self.Z)))

    def least(self, b: np.ndarray) -> np.ndarray:
        """`G^+ b` (K, width, columns) of (K, kept, columns)."""
        x = np.empty_like(b)
        for i in range(self.R.shape[1]):  # R'x = b, all nodes at once
            x[:, i] = (b[:, i] - np.einsum("kj,kjc->kc", self.R[:, :i, i], x[:, :i])) / self.R[:, i, i, None]
        return self.Q @ x

    def multipliers(self, b: np.ndarray) -> np.ndarray:
        """x (K, kept, columns) of `G'x = b`, (K, width, columns)."""
        x = self.Q.swapaxes(1, 2) @ b
        for i in range(self.R.shape[1] - 1, -1, -1):  # R x = Q'b
            x[:, i] = (x[:, i] - np.einsum("kj,kjc->kc", self.R[:, i, i + 1 :], x[:, i + 1 :])) / self.R[:, i, i, None]
        return x


def bases(lin: OnNodes) -> tuple[Basis, Basis] | None:
    """Of the tangents at all nodes, and of the balances at the inner ones; None where the problem is not of this kind: forces that are observed, or dependent constraints."""
    K, width, kept = lin.nodes
    forces = slice(K * width, K * width + (K - 2) * kept)
    if lin.gradient is None or lin.acting is None or not 0 < kept < width or np.any((lin.Fx.indices >= forces.start) & (lin.Fx.indices < forces.stop)):
        return None
    tangents = Basis.of(lin.gradient.dense(kept, width))
    if tangents is None or lin.acting is lin.gradient:
        return None if tangents is None else (tangents, tangents.inner())
    balances = Basis.of(lin.acting.dense(kept, width, slice(1, -1)))
    return None if balances is None else (tangents, balances)


class Projected(Refined):
    stable = True

    def __init__(self, lin: OnNodes, tangents: Basis, balances: Basis) -> None:
        assert lin.when is not None
        K, width, kept = lin.nodes
        self.K, self.width, self.kept = K, width, kept
        self.tangents, self.balances = tangents, balances
        self.n, self.m, self.C, self.Fx = lin.Fx.shape[1], lin.Cx.shape[0], lin.Cx, lin.Fx
        self.scale = np.ones(self.n + self.m)
        nq, nb = K * width, (K - 2) * width
        self.q, self.forces, self.others = slice(0, nq), slice(nq, nq + (K - 2) * kept), slice(nq + (K - 2) * kept, self.n)
        self.b, self.loops, self.more = slice(0, nb), slice(nb, nb + K * kept), slice(nb + K * kept, self.m)
        free = width - kept
        when = [np.repeat(lin.when[:nq:width], free), lin.when[self.others], np.repeat(lin.when[self.n :][:nb:width], free), lin.when[self.n :][self.more]]
        Fx, Cx = self._reduced(lin)
        none = np.zeros((Fx.shape[0], 0)), np.zeros((Cx.shape[0], 0))
        self.problem = Linearisation(lin.F, Fx, none[0], np.zeros(Cx.shape[0]), Cx, none[1], np.concatenate(when))
        self.small = Factor(self.problem, columns=lin.Ct.shape[1])

    def _reduced(self, lin: OnNodes) -> tuple[Sparse, Sparse]:
        """Fx and Cx of the small problem."""
        K, width, free = self.K, self.width, self.width - self.kept
        Z, Y = self.tangents.Z, self.balances.Z
        blocks = np.empty((K - 2, free, 3, free))
        count = max(1, CHUNK // width**2)
        for first in range(0, K - 2, count):
            for offset, entries in enumerate(lin.balance):
                nodes = slice(first, first + count)
                A = entries.dense(width, width, nodes)
                blocks[nodes, :, offset] = Y[nodes].swapaxes(1, 2) @ (A @ Z[first + offset : first + offset + len(A)])
        by_nodes = _repeated(blocks.reshape(-1, 3 * free), free, K * free, free)
        onto = _repeated(Z.reshape(-1, free), free, K * free, width)
        if self.others.start == self.n and self.more.start == self.m:
            return sp.csr_matrix((lin.Fx.data, lin.Fx.indices, lin.Fx.indptr), shape=(lin.Fx.shape[0], K * width)) @ onto, by_nodes
        by_others, more = lin.Cx[self.b, self.others], lin.Cx[self.more]
        from_balances = _repeated(Y.reshape(-1, free), free, (K - 2) * free, width)
        Fx = sp.hstack([lin.Fx[:, self.q] @ onto, lin.Fx[:, self.others]], format="csr")
        return Fx, sp.bmat([[by_nodes, from_balances.T @ by_others], [more[:, self.q] @ onto, more[:, self.others]]], format="csr")

    @property
    def log_determinant(self) -> float:
        """log |det K|"""
        return self.small.log_determinant + float(self.tangents.volume.sum() + self.balances.volume.sum()) * 2.0

    def apply(self, x: np.ndarray) -> np.ndarray:
        states, multipliers = x[: self.n], x[self.n :]
        return np.concatenate([self.Fx.T @ (self.Fx @ states) + self.C.T @ multipliers, self.C @ states])

    def direct(self, b: np.ndarray) -> np.ndarray:
        started = self._started(b)
        left = b - self.apply(started) if np.any(started) else b
        states, equations = left[: self.n], left[self.n :]
        right = np.concatenate([_down(self.tangents.Z, states[self.q]), states[self.others], _down(self.balances.Z, equations[self.b]), equations[self.more]])
        return self.expanded(b, self.small.solve(right, 1.0), started)

    def _started(self, b: np.ndarray) -> np.ndarray:
        """The tangents that the constraints ask for, and the multipliers of balances that the forces do."""
        out = np.zeros_like(b)
        loops, forces = b[self.n :][self.loops], b[self.forces]
        if np.any(loops):
            out[self.q] = self._asked(loops)
        if np.any(forces):
            out[self.n :][self.b] = -self.balances.least(forces.reshape(self.K - 2, self.kept, -1)).reshape(-1, b.shape[1])
        return out

    def _asked(self, loops: np.ndarray) -> np.ndarray:
        return self.tangents.least(loops.reshape(self.kept, self.K, -1).swapaxes(0, 1)).reshape(self.K * self.width, -1)

    def expanded(self, b: np.ndarray, small: np.ndarray, started: np.ndarray) -> np.ndarray:
        """The solution for the right-hand sides b from that of the small problem; it takes the place of `started`."""
        out, n = started, self.small.n
        states, equations = out[: self.n], out[self.n :]
        freedoms = self.K * (self.width - self.kept)
        states[self.q] += _up(self.tangents.Z, small[:freedoms])
        states[self.others] += small[freedoms:n]
        balances = (self.K - 2) * (self.width - self.kept)
        equations[self.b] += _up(self.balances.Z, small[n : n + balances])
        equations[self.more] += small[n + balances :]
        left = (b[self.q] - (self.Fx.T @ (self.Fx @ states) + self.C.T @ equations)[self.q]).reshape(self.K, self.width, -1)
        missing = (b[self.n :] - self.C @ states)[self.b].reshape(self.K - 2, self.width, -1)
        states[self.forces] = -self.balances.multipliers(missing).reshape(-1, b.shape[1])
        equations[self.loops] = self.tangents.multipliers(left).swapaxes(0, 1).reshape(-1, b.shape[1])
        return out

    def eliminate(self, lin: Linearisation | Chain, refined: np.ndarray | float = REFINED) -> tuple[AbstractFollowing, np.ndarray, np.ndarray]:
        """That of the small problem, whose states and multipliers are carried back when they are asked for."""
        F, C = np.column_stack([lin.Ft, lin.F]), np.column_stack([lin.Ct, lin.C])
        moving = np.flatnonzero(C[self.loops].any(axis=0))
        asked = np.zeros((self.n, len(moving)))
        if len(moving):
            asked[self.q] = self._asked(C[self.loops][:, moving])
            F[:, moving] -= self.Fx @ asked
            C[:, moving] -= self.C @ asked
        C = np.concatenate([_down(self.balances.Z, C[self.b]), C[self.more]])
        small = replace(self.problem, F=F[:, -1], Ft=F[:, :-1], C=C[:, -1], Ct=C[:, :-1])
        following, information, gradient = self.small.eliminate(small, refined)
        return Expanded(self, lin, following, moving, asked), information, gradient


@dataclass(frozen=True, eq=False)
class Expanded(AbstractFollowing):
    """What follows from the small problem."""

    factor: Projected
    lin: Linearisation | Chain
    small: AbstractFollowing
    moving: np.ndarray
    """Parameters, and one past the last for the residual, that constraints depend on, ..."""
    asked: np.ndarray
    """... and the states that these then ask for."""

    @property
    def response(self) -> np.ndarray:
        return self._response

    @cached_property
    def _response(self) -> np.ndarray:
        right = np.concatenate([self.lin.Fx.T @ self.lin.Ft, self.lin.Ct])
        return self._expanded(right, self.small.response, np.eye(right.shape[1] + 1, right.shape[1]))

    def step(self, d: np.ndarray) -> np.ndarray:
        right = np.concatenate([self.lin.Fx.T @ (self.lin.F + self.lin.Ft @ d), self.lin.C + self.lin.Ct @ d])
        return self._expanded(right[:, None], self.small.step(d)[:, None], np.append(d, 1.0)[:, None])[:, 0]

    def _expanded(self, right: np.ndarray, small: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """`parts`: of every parameter, and of the residual, in the right-hand sides."""
        right, started = -right, np.zeros_like(right)
        if not right.shape[1]:  # a fit without unknowns
            return right
        started[: self.factor.n] = -self.asked @ parts[self.moving]
        return self.factor.expanded(right, small, started)


def _down(Z: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Z'b node by node, of (nodes width, columns)."""
    return (Z.swapaxes(1, 2) @ b.reshape(len(Z), Z.shape[1], -1)).reshape(-1, b.shape[1])


def _up(Z: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Z u node by node, of (nodes freedoms, columns)."""
    return (Z @ u.reshape(len(Z), Z.shape[2], -1)).reshape(-1, u.shape[1])


def _repeated(rows: np.ndarray, step: int, columns: int, each: int) -> Sparse:
    """A sparse matrix from rows without gaps, of which every `each` begin `step` columns further on."""
    count, width = rows.shape
    indices = (np.arange(count) // each * step)[:, None] + np.arange(width)
    return sp.csr_matrix((rows.ravel(), indices.ravel(), width * np.arange(count + 1)), shape=(count, columns))
