"""Least squares and equations along a chain of states, each row on two neighbours: block-tridiagonal with an arrow of shared parameters.

Rows of the state k are `R_k(x_(k-1), x_k, theta)` (least squares) and `C_k(x_(k-1), x_k, theta) = 0` (equations, perhaps none); more residuals, sparse in the
states, come with them (observations, priors). `Chain` is a `Linearisation` whose matrices are dense blocks, and factors itself: the matrix of `condensed.Factor` is block-tridiagonal in the order of states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from calibody.errors import CalibodyError
from calibody.solve.condensed import Refined, Sparse, singular


@dataclass(frozen=True)
class Rows:
    """Rows of all K states: value (K, r), derivatives by the state before and the state itself (K, r, n), by parameters (K, r, p)."""

    value: np.ndarray
    before: np.ndarray
    after: np.ndarray
    by_theta: np.ndarray

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        """By all states: (K n,) or (K n, columns) to (K r,) or (K r, columns)."""
        K, r, n = self.after.shape
        states = x.reshape(K, n, -1)
        out = self.after @ states
        out[1:] += self.before[1:] @ states[:-1]
        return out.reshape(K * r, *x.shape[1:])

    def back(self, y: np.ndarray) -> np.ndarray:
        """The transposed."""
        K, r, n = self.after.shape
        rows = y.reshape(K, r, -1)
        out = self.after.swapaxes(1, 2) @ rows
        out[:-1] += self.before[1:].swapaxes(1, 2) @ rows[1:]
        return out.reshape(K * n, *y.shape[1:])


@dataclass(frozen=True)
class _Matrix:
    """Rows of a chain, below a sparse matrix, as something that multiplies."""

    sparse: Sparse
    rows: Rows
    transposed: bool = False

    @property
    def T(self) -> _Matrix:
        return _Matrix(self.sparse, self.rows, not self.transposed)

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        if not self.transposed:
            return np.concatenate([self.sparse @ x, self.rows @ x])
        count = self.sparse.shape[0]
        return self.sparse.T @ x[:count] + self.rows.back(x[count:])


@dataclass(frozen=True)
class Chain:
    """Residuals F (the sparse ones first) and equations C of all chains one after the other, with their derivatives."""

    residuals: Rows
    equations: Rows
    loose: np.ndarray
    """Residuals that are not rows of states ..."""
    loose_x: Sparse
    loose_theta: np.ndarray
    inner: int
    """How many unknowns of a state, its last ones, no other state's rows depend on."""

    @cached_property
    def F(self) -> np.ndarray:
        return np.concatenate([self.loose, self.residuals.value.ravel()])

    @cached_property
    def Ft(self) -> np.ndarray:
        return np.concatenate([self.loose_theta, self.residuals.by_theta.reshape(self.residuals.value.size, self.residuals.by_theta.shape[2])])

    @property
    def Fx(self) -> _Matrix:
        return _Matrix(self.loose_x, self.residuals)

    @cached_property
    def C(self) -> np.ndarray:
        return self.equations.value.ravel()

    @property
    def Cx(self) -> Rows:
        return self.equations

    @cached_property
    def Ct(self) -> np.ndarray:
        return self.equations.by_theta.reshape(self.equations.value.size, self.equations.by_theta.shape[2])

    @property
    def diagonal(self) -> np.ndarray:
        """Of `Fx'Fx`."""
        R = self.residuals
        out = np.einsum("kri,kri->ki", R.after, R.after)
        out[:-1] += np.einsum("kri,kri->ki", R.before[1:], R.before[1:])
        return out.ravel() + np.asarray(self.loose_x.multiply(self.loose_x).sum(axis=0)).ravel()

    def size(self, theta: np.ndarray) -> float:
        """The equations are in units in which 1 is of the size of their terms."""
        return 1.0

    def factor(self, damping: np.ndarray | float = 0.0) -> ChainFactor:
        """`damping` is added to the diagonal of the states."""
        return ChainFactor(self, damping)


class ChainFactor(Refined):
    """The matrix of the states (and equations), equilibrated and factored.

    Block-tridiagonal, a block being one state in the order (its equations, its inner unknowns, the others: `outer`). With `A_k` the rows of the state k + 1
    by the outer unknowns of the state k, forward elimination is

        S_k = D_k - A_(k-1) X_(k-1) A_(k-1)',     X_k = the outer part of S_k^-1

    one factorisation per state (LU with pivoting; Cholesky without equations), after which all right-hand sides go through together.
    """

    def __init__(self, chain: Chain, damping: np.ndarray | float) -> None:
        R, E = chain.residuals, chain.equations
        K, n, c, inner = R.after.shape[0], R.after.shape[2], E.value.shape[1], chain.inner
        self.K, self.size, self.rows, self.n = K, n, c, K * n
        self.chain, self.damping = chain, np.broadcast_to(damping, (self.n,))
        outer, m = n - inner, n + c
        self.parts = [(slice(0, outer), slice(c + inner, m)), (slice(outer, n), slice(c, c + inner))]
        """Of the unknowns of a state, where they stand in its block; its equations come first."""
        S = 1.0 / np.sqrt(np.maximum(chain.diagonal + self.damping, 1e-300)).reshape(K, n)
        T = np.maximum(np.abs(E.after * S[:, None, :]).max(axis=2, initial=0.0), 1e-300)
        T[1:] = 1.0 / np.maximum(T[1:], np.abs(E.before[1:] * S[:-1, None, :]).max(axis=2, initial=0.0))
        T[0] = 1.0 / T[0]
        self.scale = np.concatenate([S.ravel(), T.ravel()])
        own = R.after.swapaxes(1, 2) @ R.after
        own[:-1] += R.before[1:].swapaxes(1, 2) @ R.before[1:]
        own[:, np.arange(n), np.arange(n)] += self.damping.reshape(K, n)
        next_ = R.after[1:].swapaxes(1, 2) @ R.before[1:, :, :outer]
        own, next_ = self._with_loose(own, next_, outer)
        blocks, after = np.zeros((K, m, m)), np.zeros((K - 1, m, outer))
        own *= S[:, :, None] * S[:, None, :]
        next_ *= S[1:, :, None] * S[:-1, None, :outer]
        for mine, there in self.parts:
            after[:, there] = next_[:, mine]
            blocks[:, :c, there] = E.after[:, :, mine] * T[:, :, None] * S[:, None, mine]
            blocks[:, there, :c] = blocks[:, :c, there].swapaxes(1, 2)
            for other, where in self.parts:
                blocks[:, there, where] = own[:, mine, other]
        after[:, :c] = E.before[1:, :, :outer] * T[1:, :, None] * S[:-1, None, :outer]
        self._eliminate(blocks, after)

    def _with_loose(self, own: np.ndarray, next_: np.ndarray, outer: int) -> tuple[np.ndarray, np.ndarray]:
        """The loose residuals' part; each of them depends on outer unknowns of one state or of two neighbours."""
        gram = (self.chain.loose_x.T @ self.chain.loose_x).tocoo()
        row, column = np.divmod(gram.row, self.size), np.divmod(gram.col, self.size)
        same, later = row[0] == column[0], row[0] == column[0] + 1
        if np.any(np.abs(row[0] - column[0]) > 1) or np.any(column[1][later] >= outer):
            raise CalibodyError("A residual of a chain depends on states that are not neighbours; use a sparse linearisation.")
        own[row[0][same], row[1][same], column[1][same]] += gram.data[same]
        next_[column[0][later], row[1][later], column[1][later]] += gram.data[later]
        return own, next_

    def _eliminate(self, blocks: np.ndarray, after: np.ndarray) -> None:
        K, m, outer = len(blocks), blocks.shape[1], after.shape[2]
        self.outer, self.after = slice(m - outer, m), after
        self.lu, self.pivots = np.empty((K, m, m)), np.empty((K, m), dtype=np.int32)
        self.carried = np.empty((K - 1, m, outer))  # S_k^-1 [0; 1]
        unit = np.zeros((m, outer), order="F")
        unit[self.outer] = np.eye(outer)
        for k in range(K):
            if k:
                A = after[k - 1]
                blocks[k] -= A @ self.carried[k - 1, self.outer] @ A.T
            if not self._factored(k, blocks[k]):
                raise singular()
            if k < K - 1:
                self.carried[k] = self._inverse(k, unit)

    def _factored(self, k: int, block: np.ndarray) -> bool:
        """Cholesky without equations, which finds out whether the matrix is positive definite to rounding; else LU."""
        if self.rows:
            self.lu[k], self.pivots[k], info = lapack.dgetrf(block)  # pyright: ignore[reportAttributeAccessIssue]
        else:
            self.lu[k], info = lapack.dpotrf(block, lower=1)  # pyright: ignore[reportAttributeAccessIssue]
        return info == 0 and bool(np.isfinite(self.lu[k, -1, -1]))

    def _inverse(self, k: int, b: np.ndarray) -> np.ndarray:
        """S_k^-1 b"""
        if self.rows:
            return lapack.dgetrs(self.lu[k], self.pivots[k], b)[0]  # pyright: ignore[reportAttributeAccessIssue]
        return lapack.dpotrs(self.lu[k], b, lower=1)[0]  # pyright: ignore[reportAttributeAccessIssue]

    # -- solving ---------------------------------------------------------------------------------------------------------------------

    def apply(self, x: np.ndarray) -> np.ndarray:
        """The equilibrated matrix times columns."""
        scale = self.scale if x.ndim == 1 else self.scale[:, None]
        x = x * scale
        states = x[: self.n]
        out = self.chain.Fx.T @ (self.chain.Fx @ states) + (self.damping * states.T).T
        if self.rows:
            out = np.concatenate([out + self.chain.equations.back(x[self.n :]), self.chain.equations @ states])
        return out * scale

    def direct(self, b: np.ndarray) -> np.ndarray:
        K, n, c = self.K, self.size, self.rows
        columns = b.shape[1] if b.ndim == 2 else 1
        y, states = np.empty((K, n + c, columns)), b[: self.n].reshape(K, n, columns)
        y[:, :c] = b[self.n :].reshape(K, c, columns)
        for mine, there in self.parts:
            y[:, there] = states[:, mine]
        for k in range(K):
            if k:
                y[k] -= self.after[k - 1] @ y[k - 1, self.outer]
            y[k] = self._inverse(k, y[k])
        for k in range(K - 2, -1, -1):
            y[k] -= self.carried[k] @ (self.after[k].T @ y[k + 1])
        out = np.concatenate([y[:, there] for _, there in self.parts], axis=1)
        return np.concatenate([out.reshape(self.n, columns), y[:, :c].reshape(K * c, columns)]).reshape(b.shape)
