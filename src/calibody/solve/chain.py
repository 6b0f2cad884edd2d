"""Least squares and equations along a chain of states, each row on two neighbours: block-tridiagonal with an arrow of shared parameters.

Rows of the state k are `R_k(x_(k-1), x_k, theta)` (least squares) and `C_k(x_(k-1), x_k, theta) = 0` (equations, perhaps none); more residuals, sparse in the
states, come with them (observations, priors). `Chain` is a `Linearisation` whose matrices are dense blocks, and factors itself: the matrix of `condensed.Factor` is block-tridiagonal in the order of states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import blas, lapack

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
    def shape(self) -> tuple[int, int]:
        rows, columns = self.sparse.shape[0] + self.rows.value.size, self.sparse.shape[1]
        return (columns, rows) if self.transposed else (rows, columns)

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

    @cached_property
    def gram(self) -> tuple[np.ndarray, np.ndarray]:
        """`Fx'Fx`: its blocks on the diagonal (K, n, n), and below it by the outer unknowns, (K - 1, n, n - inner)."""
        R, n, outer = self.residuals, self.residuals.after.shape[2], self.residuals.after.shape[2] - self.inner
        after, before = R.after.swapaxes(1, 2), R.before[1:]
        own, next_ = after @ R.after, after[1:] @ before[:, :, :outer]
        own[:-1] += before.swapaxes(1, 2) @ before
        loose = (self.loose_x.T @ self.loose_x).tocoo()  # each depends on outer unknowns of one state or of two neighbours
        row, column = np.divmod(loose.row, n), np.divmod(loose.col, n)
        same, later = row[0] == column[0], row[0] == column[0] + 1
        if np.any(np.abs(row[0] - column[0]) > 1) or np.any(column[1][later] >= outer):
            raise CalibodyError("A residual of a chain depends on states that are not neighbours; use a sparse linearisation.")
        own[row[0][same], row[1][same], column[1][same]] += loose.data[same]
        next_[column[0][later], row[1][later], column[1][later]] += loose.data[later]
        return own, next_

    @cached_property
    def diagonal(self) -> np.ndarray:
        """Of `Fx'Fx`."""
        own, _ = self.gram
        return np.diagonal(own, axis1=1, axis2=2).ravel()

    def size(self, theta: np.ndarray) -> float:
        """The equations are in units in which 1 is of the size of their terms."""
        return 1.0

    def factor(self, damping: np.ndarray | float = 0.0) -> ChainFactor:
        """`damping` is added to the diagonal of the states."""
        return ChainFactor(self, damping)


class ChainFactor(Refined):
    """The matrix of the states (and equations), equilibrated and factored.

    Block-tridiagonal, a block being one state in the order (its equations, its inner unknowns, the others: `outer`): Cholesky without equations, which finds
    out whether the matrix is positive definite to rounding; else LU with pivoting.
    """

    def __init__(self, chain: Chain, damping: np.ndarray | float) -> None:
        E = chain.equations
        K, c, n = *E.value.shape, E.after.shape[2]
        self.K, self.size, self.rows, self.n = K, n, c, K * n
        self.chain, self.damping = chain, np.broadcast_to(damping, (self.n,))
        outer, m = n - chain.inner, n + c
        self.parts = [(slice(0, outer), slice(m - outer, m)), (slice(outer, n), slice(c, m - outer))]
        """Of the unknowns of a state, where they stand in its block; its equations come first."""
        S = 1.0 / np.sqrt(np.maximum(chain.diagonal + self.damping, 1e-300)).reshape(K, n)
        T = np.maximum(np.abs(E.after * S[:, None, :]).max(axis=2, initial=0.0), 1e-300)
        T[1:] = 1.0 / np.maximum(T[1:], np.abs(E.before[1:] * S[:-1, None, :]).max(axis=2, initial=0.0))
        T[0] = 1.0 / T[0]
        self.scale = np.concatenate([S.ravel(), T.ravel()])
        own, next_ = chain.gram
        own = own * S[:, :, None]
        own *= S[:, None, :]
        own[:, np.arange(n), np.arange(n)] += self.damping.reshape(K, n) * S * S
        next_ = next_ * S[1:, :, None]
        next_ *= S[:-1, None, :outer]
        if not c:
            self.eliminated: _Cholesky | _Pivoted = _Cholesky(*((own, next_) if not chain.inner else self._arranged(own, next_, outer)))
            return
        blocks, after = self._arranged(own, next_, outer)
        for mine, there in self.parts:
            blocks[:, :c, there] = E.after[:, :, mine] * T[:, :, None] * S[:, None, mine]
            blocks[:, there, :c] = blocks[:, :c, there].swapaxes(1, 2)
        after[:, :c] = E.before[1:, :, :outer] * T[1:, :, None] * S[:-1, None, :outer]
        self.eliminated = _Pivoted(blocks, after)

    def _arranged(self, own: np.ndarray, next_: np.ndarray, outer: int) -> tuple[np.ndarray, np.ndarray]:
        """In the order of a block."""
        m = self.size + self.rows
        blocks, after = np.zeros((self.K, m, m)), np.zeros((self.K - 1, m, outer))
        for mine, there in self.parts:
            after[:, there] = next_[:, mine]
            for other, where in self.parts:
                blocks[:, there, where] = own[:, mine, other]
        return blocks, after

    @property
    def log_determinant(self) -> float:
        """log |det K|"""
        return self.eliminated.log_determinant - 2.0 * float(np.log(self.scale).sum())

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
        y, states = np.empty((K, columns, n + c)), b[: self.n].reshape(K, n, columns).swapaxes(1, 2)
        y[:, :, :c] = b[self.n :].reshape(K, c, columns).swapaxes(1, 2)
        for mine, there in self.parts:
            y[:, :, there] = states[:, :, mine]
        self.eliminated.solve(y)
        out = np.concatenate([y[:, :, there] for _, there in self.parts], axis=2).swapaxes(1, 2)
        return np.concatenate([out.reshape(self.n, columns), y[:, :, :c].swapaxes(1, 2).reshape(K * c, columns)]).reshape(b.shape)


class _Cholesky:
    """Blocks D_k and `A_k`, the rows of the block k + 1 by the last columns of the block k:

        L_k L_k' = D_k - W_(k-1)'W_(k-1),     W_k = L_k^-1 A_k'

    LAPACK's and BLAS's matrices are in Fortran's order, and all of these are factored in place: those of numpy, transposed.
    """

    def __init__(self, D: np.ndarray, A: np.ndarray) -> None:
        K, m, outer = len(D), D.shape[1], A.shape[2]
        if outer < m:
            A = np.concatenate([np.zeros((K - 1, m, m - outer)), A], axis=2)
        self.L, self.W, square = [], [], np.empty((m, m))
        for k in range(K):
            if k:
                D[k] -= np.matmul(self.W[-1].T, self.W[-1], out=square)
            L, info = lapack.dpotrf(D[k].T, lower=1, overwrite_a=1)  # pyright: ignore[reportAttributeAccessIssue]
            if info or not np.isfinite(L[-1, -1]):
                raise singular()
            self.L.append(L)
            if k < K - 1:
                self.W.append(_triangular(L, A[k].T))

    @property
    def log_determinant(self) -> float:
        return 2.0 * sum(float(np.log(np.diag(L)).sum()) for L in self.L)

    def solve(self, y: np.ndarray) -> None:
        """In place, y (K, columns, m)."""
        K, product = len(y), np.empty(y.shape[1:])
        for k in range(K):
            if k:
                y[k] -= np.matmul(y[k - 1], self.W[k - 1], out=product)
            _triangular(self.L[k], y[k].T)
        for k in range(K - 1, -1, -1):
            if k < K - 1:
                y[k] -= np.matmul(y[k + 1], self.W[k].T, out=product)
            _triangular(self.L[k], y[k].T, transposed=1)


def _triangular(L: np.ndarray, b: np.ndarray, transposed: int = 0) -> np.ndarray:
    """L^-1 b or L'^-1 b, in place."""
    return blas.dtrsm(1.0, L, b, lower=1, trans_a=transposed, overwrite_b=1)  # pyright: ignore[reportAttributeAccessIssue]


class _Pivoted:
    """As `_Cholesky`, for symmetric blocks that are not positive definite: `S_k = D_k - A_(k-1) X_(k-1) A_(k-1)'`, X_k the outer part of S_k^-1."""

    def __init__(self, D: np.ndarray, A: np.ndarray) -> None:
        K, m, outer = len(D), D.shape[1], A.shape[2]
        self.A, self.outer = A, slice(m - outer, m)
        self.lu, self.carried = [], []  # S_k^-1 [0; 1]
        unit = np.zeros((m, outer), order="F")
        unit[self.outer] = np.eye(outer)
        for k in range(K):
            if k:
                D[k] -= A[k - 1] @ self.carried[-1][self.outer] @ A[k - 1].T
            lu, pivots, info = lapack.dgetrf(D[k].T, overwrite_a=1)  # pyright: ignore[reportAttributeAccessIssue]
            if info or not np.isfinite(lu[-1, -1]):
                raise singular()
            self.lu.append((lu, pivots))
            if k < K - 1:
                self.carried.append(lapack.dgetrs(lu, pivots, unit)[0])  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def log_determinant(self) -> float:
        """Of its absolute value."""
        return sum(float(np.log(np.abs(np.diag(lu))).sum()) for lu, _ in self.lu)

    def solve(self, y: np.ndarray) -> None:
        """In place, y (K, columns, m)."""
        for k in range(len(y)):
            if k:
                y[k] -= y[k - 1][:, self.outer] @ self.A[k - 1].T
            lapack.dgetrs(*self.lu[k], y[k].T, overwrite_b=1)  # pyright: ignore[reportAttributeAccessIssue]
        for k in range(len(y) - 2, -1, -1):
            y[k] -= (y[k + 1] @ self.A[k]) @ self.carried[k].T
