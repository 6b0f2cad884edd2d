"""The discrete adjoint's last sum: how `sum_k mu_k'r_k + nu_k'g_k` depends on all numbers of a mechanism at once, along a motion whose nodes stay where they are.

The residuals of the scheme are sums over intervals (`step.py`), so

    sum_k mu_k'r_k + nu_k'g_k = sum over intervals (a, b) of   mu_a'left(q_a, q_b) + mu_b'right(q_a, q_b) - h mu_b'C_b'lambda_b + nu_b'g_b

and its gradient by the numbers of the compiled step is one backward pass over that, compiled like the step: it costs a few evaluations of the residuals, however many numbers are unknown.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibody.mechanics.compilation import jax, program
from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers.step import PIECE, Program, Values


def gradient(
    structure: Structure, numbers: Numbers, active: np.ndarray, motion: tuple[np.ndarray, ...], adjoint: tuple[np.ndarray, np.ndarray], h: float, delta: float
) -> Values:
    """By every number of the step; `motion` has q (nq, K), scalar coordinates (count, K), multipliers (nc, K), control and applied (.., K - 1), `adjoint` mu (nv, K) and nu (nc, K)."""
    q, s, multipliers, control, applied = motion
    mu, nu = adjoint
    values, total = Values.of(structure, numbers, active), None
    for first in range(0, q.shape[1] - 1, PIECE):
        pieces = tuple(_ends(x, first) for x in (q, s)), tuple(_ends(x, first, quiet=True) for x in (mu,)), *(_ahead(x, first) for x in (multipliers, nu))
        given = values, *pieces, _piece(control, first), _piece(applied, first), np.float64(h), np.float64(delta)
        pull = program(_Pull(structure), ("pullback", structure.topology), given)
        found = jax.tree.map(np.asarray, pull(*given))
        total = found if total is None else jax.tree.map(np.add, total, found)
    assert total is not None
    return total


def _ends(x: np.ndarray, first: int, quiet: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(PIECE, ...) at both ends of the intervals from `first` on; beyond the last they repeat it, or, if `quiet`, are zero."""
    at = first + np.arange(PIECE)
    inside = (at < x.shape[1] - 1)[:, None]
    ends = tuple(x[:, np.minimum(at + k, x.shape[1] - 1)].T for k in (0, 1))
    return tuple(np.where(inside, e, 0.0) for e in ends) if quiet else ends  # type: ignore[return-value]


def _ahead(x: np.ndarray, first: int) -> np.ndarray:
    """(PIECE, ...) at the later ends, zero beyond the last."""
    return _ends(x, first, quiet=True)[1]


def _piece(x: np.ndarray, first: int) -> np.ndarray:
    """(PIECE, ...) of the intervals."""
    part = x[:, first : first + PIECE].T
    return np.concatenate([part, np.zeros((PIECE - len(part), x.shape[0]))])


class _Pull:
    """What is compiled."""

    def __init__(self, structure: Structure) -> None:
        self.program = Program(structure)

    def __call__(self, values: Values, ends: Any, mu: Any, multipliers: Any, nu: Any, control: Any, applied: Any, h: Any, delta: Any) -> Values:
        def whole(values: Values) -> Any:
            parts = jax.vmap(lambda *interval: self._interval(values, interval, h, delta))(ends, mu, multipliers, nu, control, applied)
            return parts.sum()

        return jax.grad(whole)(values)

    def _interval(self, values: Values, interval: tuple, h: Any, delta: Any) -> Any:
        ((qa, qb), (sa, sb)), ((mu_a, mu_b),), multipliers, nu, u, applied = interval
        a, b = self.program.node(values, qa, sa), self.program.node(values, qb, sb)
        left, right, _ = self.program.left_right(values, a, b, u, applied, h, delta)
        out = mu_a @ left + mu_b @ right
        return out - h * mu_b @ (b.C.T @ multipliers) + nu @ b.g if self.program.structure.nc else out
