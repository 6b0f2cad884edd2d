"""Dry friction in proportion to what a joint carries: the joint's own law with the coefficients in place of the limits, times the load of the node.

    load_k = a |lambda_k of the rows that hold places| + b |lambda_k of the rows that hold directions|

with `a = r, b = 1` for hinges and balls and `a = 1, b = 1/r` for slides. `law.py` (`ball.py`) with friction and stribeck replaced by load_friction and
load_stribeck gives what the two intervals of a node contribute, `D_k = (h/2)(m_(k-1) + m_k)`, `m = (load_friction + load_stribeck exp(-(rho/r)^2)) clip(rho/delta, -1, 1)`; then

    contribution at node k:  load_k D_k,      by the multipliers:  D_k dload_k/dlambda_k

so multipliers act through more than the gradient of their row.
"""

from __future__ import annotations

from typing import Any

from calibody.spatial import algebra as al

# Newton, newton-metres: far below any load that matters; keeps the direction of a load that vanishes from being 0/0.
TINY = 1e-9


def load(multipliers: Any, places: Any, directions: Any, levers: Any) -> tuple[Any, Any]:
    """Of multipliers (nc, M): the load (joints, M), and its derivative (joints, nc, M). `places` and `directions` (joints, nc) are 1 for the rows of the joint of
    either kind, `levers` (2, joints) are a and b."""
    lib = al.library(multipliers)
    total = by = 0.0
    for lever, rows in zip(levers, (places, directions), strict=True):
        norm = lib.sqrt(rows @ (multipliers * multipliers) + TINY * TINY)
        total = total + lever[:, None] * norm
        by = by + (lever[:, None] / norm)[:, None] * rows[:, :, None] * multipliers[None]
    return total, by
