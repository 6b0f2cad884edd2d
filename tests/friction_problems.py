"""Random friction problems as a time stepper meets them: contacts and joints with dry friction on a few moving bodies.

A contact has one normal row, `2 p` tangential rows (p directions, both signs) and one row for the limit `mu lam_n - sum lam_t`; a joint has two
tangential rows and a limit that is given. With J the stacked gradients and a random positive definite mass matrix,

    M = [[J Mass^-1 J' + S, E], [mu - E', 0]],    q = (velocities without friction, limits)

`M` is copositive and q keeps the limits non-negative, so a solution exists (Stewart and Trinkle 1996) and Lemke's method finds it.
"""

from __future__ import annotations

import numpy as np

# (normal rows, directions): 3, 4 and 6 rows
JOINT, PLANAR, SPATIAL = (0, 1), (1, 1), (1, 2)
ROWS = {JOINT: 3, PLANAR: 4, SPATIAL: 6}


def random_problem(kinds: list[tuple[int, int]], rng: np.random.Generator, softness: float = 1e-6) -> tuple[np.ndarray, np.ndarray]:
    """M and q of one problem; `softness` is the regularisation S relative to the typical diagonal."""
    n = sum(ROWS[k] for k in kinds)
    moving = max(3, n // 2)  # degrees of freedom: fewer than rows, as in a pile of bodies
    root = rng.normal(size=(moving, moving))
    inverse_mass = root @ root.T + 0.1 * np.eye(moving)
    J, S = np.zeros((n, moving)), np.zeros(n)
    M, q = np.zeros((n, n)), np.zeros(n)
    row = 0
    for normals, directions in kinds:
        tangential = slice(row + normals, row + normals + 2 * directions)
        limit = row + normals + 2 * directions
        if normals:
            J[row], S[row] = rng.normal(size=moving), softness
            M[limit, row] = rng.uniform(0.0, 1.5)
        else:
            q[limit] = rng.uniform(0.0, 1.0)
        axes = rng.normal(size=(directions, moving))
        J[tangential], S[tangential] = np.concatenate([axes, -axes]), softness
        M[tangential, limit], M[limit, tangential] = 1.0, -1.0
        row = limit + 1
    M += J @ inverse_mass @ J.T + np.diag(S)
    q += J @ rng.normal(size=moving)
    return M, q


def random_kinds(rows: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Contacts and joints with exactly so many rows in all (at least 3, not 5)."""
    while True:
        kinds: list[tuple[int, int]] = []
        while sum(ROWS[k] for k in kinds) < rows:
            kinds.append((JOINT, PLANAR, SPATIAL)[int(rng.integers(3))])
        if sum(ROWS[k] for k in kinds) == rows:
            return kinds
