"""Sensitivities along any discrete motion whose steps are implicit equations, forwards and backwards.

A step from x_k to x_(k+1) is a root of `R(x_k, x_(k+1), theta) = 0`, so, by the implicit function theorem with the matrix that solved it,

    A_k = -(dR/dx_(k+1))^-1 dR/dx_k,     B_k = -(dR/dx_(k+1))^-1 dR/dtheta          (partial derivatives of one step)
    forwards    S_(k+1) = A_k S_k + B_k,                     S_k = dx_k/dtheta
    backwards   lambda_k = lambda_(k+1) A_k + dl/dx_k,       dJ/dtheta = sum_k lambda_(k+1) B_k + dl/dtheta,    dJ/dx_0 = lambda_0

of the cost `J = sum_k l(x_k, theta)` ([caldwell2014], lemma 1; its equation (8b) as printed has B_k depend on B_(k-1), which counts the past twice). Forwards costs as many directions as there are parameters, backwards
one, whatever their number. On meshes of nodes the same algebra is one sparse factorisation (`windows.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Transition:
    """All steps of a motion: A (steps, n, n) and B (steps, n, p)."""

    A: np.ndarray
    B: np.ndarray

    @classmethod
    def of(cls, by_before: np.ndarray, by_after: np.ndarray, by_theta: np.ndarray) -> Transition:
        """From the derivatives of the steps' equations (steps, n, n or p)."""
        n = by_before.shape[2]
        solved = -np.linalg.solve(by_after, np.concatenate([by_before, by_theta], axis=2))
        return cls(solved[:, :, :n], solved[:, :, n:])

    def forwards(self, start: np.ndarray) -> np.ndarray:
        """(steps + 1, n, p): S of every state, from `start` = dx_0/dtheta."""
        out = np.empty((len(self.A) + 1, *start.shape))
        out[0] = start
        for k, (A, B) in enumerate(zip(self.A, self.B, strict=True)):
            out[k + 1] = A @ out[k] + B
        return out

    def backwards(self, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(p,) dJ/dtheta without dl/dtheta, and (n,) dJ/dx_0; `slopes` (steps + 1, n) are dl/dx_k."""
        gradient, lam = np.zeros(self.B.shape[2]), slopes[-1].copy()
        for k in range(len(self.A) - 1, -1, -1):
            gradient += lam @ self.B[k]
            lam = lam @ self.A[k] + slopes[k]
        return gradient, lam
