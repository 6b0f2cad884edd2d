"""One place that touches alone, many times over: the law of `cone.py` where nothing else touches, without iteration over places and without compiling anything.

With A (3, 3) and the velocity r of a place that approaches, in the order normal, tangent, tangent: it sticks where `L = -A^-1 r` is inside the cone. Else it slips in a direction s = (cos p, sin p) with

    n = -r_n/(A_nn - mu A_nt.s),   t = -mu n s,   u_t = r_t + A_tn n + A_tt t   along s:   s x u_t = 0,  s.u_t >= 0

one equation for one angle. Its sign changes are looked for on `GRID` angles, and the one along which u_t points is narrowed down by `STEPS` steps of the Illinois variant of regula falsi.
"""

from __future__ import annotations

import numpy as np

GRID = 24
STEPS = 12
LEAST = 1e-9
"""Of the mobility of the normal: where friction in a direction takes more than the rest of it away, a place cannot slip that way."""


def alone(A: np.ndarray, r: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Impulses (problems, 3): A (problems, 3, 3), r (problems, 3), mu (problems,)."""
    L = -np.linalg.solve(A, r[..., None])[..., 0]
    inside = (L[:, 0] >= 0.0) & (np.hypot(L[:, 1], L[:, 2]) <= mu * L[:, 0])
    out = np.where(inside[:, None], L, 0.0)
    slips = np.flatnonzero(~inside & (r[:, 0] < 0.0))
    if len(slips):
        out[slips] = _slipping(A[slips], r[slips], mu[slips], L[slips])
    return out


def _slipping(A: np.ndarray, r: np.ndarray, mu: np.ndarray, stick: np.ndarray) -> np.ndarray:
    free = np.arctan2(r[:, 2], r[:, 1])
    angles = free[:, None] + 2.0 * np.pi * (
        np.arange(GRID + 1) / GRID - 0.5 - 1.0 / (3.0 * GRID)
    )  # no angle of the grid is that of the free slip or against it
    f, along, _ = _at(A, r, mu, angles)
    changed = (f[:, :-1] * f[:, 1:] <= 0.0) & (along[:, :-1] + along[:, 1:] > 0.0)
    middle = 0.5 * (angles[:, :-1] + angles[:, 1:])
    k = np.argmin(np.where(changed, np.abs(middle - free[:, None]), np.inf), axis=1)
    at = np.arange(len(k))
    a, b, fa, fb = (x[at, k + i][:, None] for x in (angles, f) for i in (0, 1))
    for _ in range(STEPS):
        width = fb - fa
        c = np.where(width != 0.0, (a * fb - b * fa) / np.where(width != 0.0, width, 1.0), 0.5 * (a + b))
        fc = _at(A, r, mu, c)[0]
        left = fc * fb < 0.0  # the root is between c and b
        a, fa = np.where(left, b, a), np.where(left, fb, 0.5 * fa)
        b, fb = c, fc
    L = _at(A, r, mu, b)[2][:, 0]
    none = ~changed.any(axis=1)
    if none.any():  # as far as friction can hold it
        L[none] = stick[none]
        size = np.hypot(L[none, 1], L[none, 2])
        L[none, 1:] *= np.minimum(1.0, mu[none] * np.maximum(L[none, 0], 0.0) / np.maximum(size, 1e-300))[:, None]
    return L


def _at(A: np.ndarray, r: np.ndarray, mu: np.ndarray, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For slips in directions (problems, angles): s x u, s . u, and the impulses (problems, angles, 3)."""
    s = np.stack([np.cos(angles), np.sin(angles)], axis=2)
    give = A[:, None, 0, 0] - mu[:, None] * np.einsum("pi,pai->pa", A[:, 0, 1:], s)
    least = LEAST * A[:, None, 0, 0]
    n = np.maximum(-r[:, None, 0] / np.where(give > least, give, least), 0.0)
    t = -(mu[:, None] * n)[..., None] * s
    u = r[:, None, 1:] + n[..., None] * A[:, None, 1:, 0] + np.einsum("pij,paj->pai", A[:, 1:, 1:], t)
    return s[..., 0] * u[..., 1] - s[..., 1] * u[..., 0], (s * u).sum(axis=2), np.concatenate([n[..., None], t], axis=2)
