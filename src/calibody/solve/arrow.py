"""Symmetric matrices over the parameters of many runs, and quadratic programmes with bounds on them.

Parameters that several runs share meet all others; those of one run alone meet only each other and the shared ones. Ordered so, the matrix is an arrow

    [ A    B_1  B_2  ...]
    [ B_1' D_1          ]
    [ B_2'      D_2     ]

and is solved by eliminating the own parameters of each run first: memory and time grow linearly with the number of runs. With one run, or with nothing of
its own, it is the dense matrix A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

SINGULAR = 1e-11
"""Directions of the parameters with less than this share of the largest information are not moved: rounding would decide."""


def own_parameters(size: int, columns: Sequence[np.ndarray], loose: Any) -> np.ndarray:
    """Which parameters belong to one run of several alone: no other run depends on them, and no row of `loose` ties them to others."""
    used = np.zeros(size, dtype=np.int64)
    for own in columns:
        used[own] += 1
    tied = np.zeros(size, dtype=bool)
    tied[loose[np.diff(loose.indptr) > 1].indices] = True
    return (used == 1) & ~tied if len(columns) > 1 else np.zeros(size, dtype=bool)


@dataclass(frozen=True, eq=False)
class Arrow:
    """A symmetric matrix over all parameters."""

    size: int
    shared: np.ndarray
    """(s,) which parameters are shared."""
    own: np.ndarray
    """(runs, w) which are a run's own; `size` where it has fewer."""
    A: np.ndarray
    """(s, s)"""
    B: np.ndarray
    """(runs, s, w)"""
    D: np.ndarray
    """(runs, w, w)"""

    __array_ufunc__ = None  # so that `vector @ arrow` is ours

    @classmethod
    def dense(cls, M: np.ndarray) -> Arrow:
        """All parameters shared."""
        return cls.of(len(M), [(np.arange(len(M)), M)])

    @classmethod
    def of(cls, size: int, parts: Sequence[tuple[np.ndarray, np.ndarray]], loose: Any = None) -> Arrow:
        """The sum of matrices of runs, each over (its parameters, ascending), and of the Gram matrix of the sparse rows `loose` (none of them: None)."""
        loose = sp.csr_matrix((0, size)) if loose is None else loose.tocsr()
        alone = own_parameters(size, [columns for columns, _ in parts], loose)
        shared = np.flatnonzero(~alone)
        place = np.full(size, -1)
        place[shared] = np.arange(len(shared))
        mine = [columns[alone[columns]] for columns, _ in parts] if alone.any() else []
        w = max(map(len, mine), default=0)
        own = np.full((len(mine), w), size)
        A, B, D = np.zeros((len(shared), len(shared))), np.zeros((len(mine), len(shared), w)), np.zeros((len(mine), w, w))
        weight = np.bincount(loose.indices, loose.data**2, minlength=size)
        for r, (columns, M) in enumerate(parts):
            theirs, k = ~alone[columns], len(mine[r]) if mine else 0
            at = place[columns[theirs]]
            A[np.ix_(at, at)] += M[np.ix_(theirs, theirs)]
            if k:
                own[r, :k] = mine[r]
                B[r, at, :k] = M[np.ix_(theirs, ~theirs)]
                D[r, :k, :k] = M[np.ix_(~theirs, ~theirs)] + np.diag(weight[mine[r]])
        among = loose[:, shared]
        A += (among.T @ among).toarray()
        return cls(size, shared, own, A, B, D)

    def _own(self, v: np.ndarray) -> np.ndarray:
        """(runs, w) of a vector; zero where a run has fewer."""
        return np.append(v, 0.0)[self.own]

    def _together(self, shared: np.ndarray, own: np.ndarray) -> np.ndarray:
        out = np.zeros(self.size + 1)
        out[self.own] = own
        out[self.shared] = shared
        return out[:-1]

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        s, o = v[self.shared], self._own(v)
        shared = self.A @ s + np.einsum("rsw,rw->s", self.B, o)
        return self._together(shared, np.einsum("rsw,s->rw", self.B, s) + np.einsum("rwv,rv->rw", self.D, o))

    __rmatmul__ = __matmul__

    def diagonal(self) -> np.ndarray:
        return self._together(np.diag(self.A), np.diagonal(self.D, axis1=1, axis2=2))

    def plus(self, diagonal: np.ndarray) -> Arrow:
        """With something added to the diagonal."""
        D = self.D + np.eye(self.D.shape[1]) * self._own(diagonal)[:, :, None]
        return replace(self, A=self.A + np.diag(diagonal[self.shared]), D=D)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Dense."""
        out = np.zeros((self.size + 1, self.size + 1))
        for r in range(len(self.own)):
            out[np.ix_(self.shared, self.own[r])] = self.B[r]
            out[np.ix_(self.own[r], self.shared)] = self.B[r].T
            out[np.ix_(self.own[r], self.own[r])] = self.D[r]
        out[np.ix_(self.shared, self.shared)] = self.A
        return out[:-1, :-1]

    def solve(self, right: np.ndarray, free: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """The free parameters' part of the solution (zero elsewhere), in units of `scale`; directions that the matrix does not determine are not moved."""
        S = np.where(free, scale, 0.0)
        s, o = S[self.shared], self._own(S)
        right_s, right_o = right[self.shared] * s, self._own(right) * o
        D = self.D * o[:, :, None] * o[:, None, :] + np.eye(o.shape[1]) * (o == 0.0)[:, :, None]
        B = self.B * s[None, :, None] * o[:, None, :]
        inverse = np.linalg.pinv(D, rcond=SINGULAR, hermitian=True) if D.size else D
        eliminated = B @ inverse
        schur = self.A * s[:, None] * s[None, :] - np.einsum("rsw,rtw->st", eliminated, B)
        there = s > 0.0
        y = np.zeros(len(s))
        if there.any():
            y[there] = np.linalg.lstsq(schur[np.ix_(there, there)], (right_s - np.einsum("rsw,rw->s", eliminated, right_o))[there], rcond=SINGULAR)[0]
        z = np.einsum("rwv,rv->rw", inverse, right_o - np.einsum("rsw,s->rw", B, y))
        return self._together(y * s, z * o)


def bounded(H: Arrow | np.ndarray, g: np.ndarray, lower: np.ndarray, upper: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimise `d'H d/2 + g'd` within bounds that contain zero: primal active set, exact for a positive definite H.

    Starts at d = 0; moves to the minimiser of the free variables, stops at the first bound met and fixes it there; releases the bound
    whose multiplier has the wrong sign most. Directions that H does not determine (in the declared scales) are not moved. Every pass lowers the objective, so it ends.
    """
    H = H if isinstance(H, Arrow) else Arrow.dense(H)
    p = len(g)
    pinned = upper <= lower  # nowhere to go: never released, or it would be tried in turns with the bound on its other side
    d, fixed = np.zeros(p), pinned.copy()
    if not p:
        return d, fixed
    for _ in range(20 * p + 20):
        free = ~fixed
        held = np.where(fixed, d, 0.0)
        target = held + H.solve(-(g + H @ held), free, scale) if free.any() else held
        move = target - d
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(move > 0, (upper - d) / move, np.where(move < 0, (lower - d) / move, np.inf))
        room = np.where(free, np.maximum(room, 0.0), np.inf)
        alpha = min(1.0, float(room.min(initial=np.inf)))
        d = d + alpha * move
        if alpha < 1.0:
            hit = int(np.argmin(room))
            d[hit] = upper[hit] if move[hit] > 0 else lower[hit]
            fixed[hit] = True
            continue
        slope = H @ d + g
        wrong = np.where(pinned, -np.inf, np.where(fixed & (d <= lower), -slope, np.where(fixed & (d >= upper), slope, -np.inf))) * scale
        worst = int(np.argmax(wrong))
        if wrong[worst] <= 1e-12 * max(1.0, float(np.abs(g * scale).max())):
            return d, fixed
        fixed[worst] = False
    return d, fixed
