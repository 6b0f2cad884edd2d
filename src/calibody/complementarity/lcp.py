"""The linear complementarity problem, by Lemke's method, compiled and batched.

    w = M z + q,    z >= 0,    w >= 0,    z'w = 0

**Method** ([cottle1992], section 4.4). With the covering vector `d = 1` and one more unknown `z0`, the equations
`w - M z - d z0 = q` have the solution `z = 0`, `z0 = max(-q)`. From there one pivots along the almost complementary path: whenever one of a
pair (z_i, w_i) leaves the basis, its partner enters. The path ends when z0 leaves (a solution), or on a ray: no basic unknown bounds the
one that enters. On a ray nothing is known in general. If M is copositive plus (symmetric positive semidefinite matrices are, and the
friction problems of `steppers/spook`) a ray means that no solution exists; `infeasible` decides on the host whether `M z + q >= 0, z >= 0`
has a point at all.

**Degeneracy.** Ties of the ratio test are broken lexicographically by the rows of the basis inverse (as if q were perturbed by
(e, e^2, ...)), so that the path cannot cycle; z0 leaves whenever it is among the tied.

**Scaling.** `z = D y` with a positive diagonal D turns (M, q) into (D M D, D q), the same problem: D makes the diagonal 1 (where it is 0,
the largest coupling to the rest), and q is divided by its largest entry. All tolerances below are relative to that.

**Accuracy.** The pivots carry the explicit inverse of the basis; when they end, the complementary system of the active set is solved
once more from the given numbers, and the result counts as solved only if its residual `max |min(z, w)|` says so.

Three tiers: per shape one compilation; per problem the scaling, `2 n^2` operations per pivot and one solve at the end. A batch is solved in
tiles of fixed size (`solve_many`): a tile runs as many pivots as its worst problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from calibody.complementarity.double import jax
from calibody.errors import CalibodyError

# An entry of the entering column below this (the scaled problem has entries of about one) is zero: it bounds nothing.
PIVOT = 1e-11
# Ratios closer than this are tied. q is known to 1e-16 of its largest entry, and a few pivots lose some digits.
TIE = 1e-13
# z0 below this after a pivot is zero: the path has arrived (the residual is checked afterwards).
GONE = 1e-11
# Largest `|min(z, w)|` of the scaled problem that counts as a solution.
RESIDUAL = 1e-9
# Pivots before giving up, per row and at least. Lemke's path is a few times n long; it can be 2^n (Murty's example, which has 6 rows).
PIVOTS_PER_ROW, LEAST_PIVOTS = 50, 200
# Problems solved side by side: enough to fill vector registers, few enough that one long path does not hold up many short ones.
TILE = 32
# What is compiled has a whole number of tiles and of rows: sizes are padded to them.
BLOCK, ROWS = 32 * TILE, 4

SOLVED, RAY, TOO_LONG, INACCURATE = 0, 1, 2, 3
SENTENCES = {
    SOLVED: "Solved.",
    RAY: "Lemke's path ends on a ray: the problem has no solution, or its matrix is of a kind for which the method may miss one.",
    TOO_LONG: "Lemke's path did not end within the allowed number of pivots.",
    INACCURATE: "Lemke's path ended, but the complementary equations there are too close to singular to be solved.",
}


class Solution(NamedTuple):
    """`z`, `w` (zero unless solved), and how it went."""

    z: Any
    w: Any
    status: Any
    """`SOLVED`, `RAY`, `TOO_LONG` or `INACCURATE`; `SENTENCES` has the words."""
    active: Any
    """True where z_i is basic (may be positive), False where w_i is."""
    pivots: Any
    margin: Any
    """min over i of max(z_i, w_i) in the scaled problem: 0 where strict complementarity fails, and with it the derivative."""


class _Path(NamedTuple):
    """The basis of Lemke's path: columns 0 .. n-1 of `X` are its inverse, column n the basic unknowns' values."""

    X: Any
    basis: Any
    """Which unknown is basic in each row: i for w_i, n + i for z_i, 2 n for z0."""
    entering: Any
    count: Any
    status: Any
    """-1 while under way."""


def scales(M: Any) -> Any:
    """D of the module docstring."""
    diagonal = jnp.diagonal(M)
    positive = diagonal > 0.0
    first = jnp.where(positive, 1.0 / jnp.sqrt(jnp.where(positive, diagonal, 1.0)), 0.0)
    size = jnp.maximum(jnp.abs(M), jnp.abs(M.T))
    coupling = jnp.max(size * first[None, :], axis=1, initial=0.0)
    alone = jnp.max(size, axis=1, initial=0.0)  # neither it nor its neighbours have a diagonal
    other = jnp.where(coupling > 0.0, coupling, jnp.sqrt(alone))
    return jnp.where(positive, first, jnp.where(other > 0.0, 1.0 / jnp.where(other > 0.0, other, 1.0), 1.0))


def _first_of_ties(tied: Any, X: Any, y: Any) -> Any:
    """The row of `X/y` that is lexicographically smallest among the tied ones."""
    n = y.shape[0]
    rows = X[:, :n] / jnp.where(tied, y, 1.0)[:, None]

    def undecided(state: tuple) -> Any:
        tied, column = state
        return (jnp.sum(tied) > 1) & (column < n)

    def narrower(state: tuple) -> tuple:
        tied, column = state
        x = jnp.where(tied, rows[:, column], jnp.inf)
        return tied & (x <= jnp.min(x) + TIE), column + 1

    tied, _ = jax.lax.while_loop(undecided, narrower, (tied, jnp.int32(0)))
    return jnp.argmax(tied)


def _exchange(path: _Path, y: Any, row: Any, n: int) -> _Path:
    """The entering unknown, with column `y`, becomes basic in `row`; the partner of the one that leaves enters next."""
    pivot_row = path.X[row] / y[row]
    here = (jnp.arange(n) == row)[:, None]
    X = jnp.where(here, pivot_row[None, :], path.X - y[:, None] * pivot_row[None, :])
    leaving = path.basis[row]
    basis = jnp.where(jnp.arange(n) == row, path.entering, path.basis)
    partner = jnp.where(leaving < n, leaving + n, leaving - n)
    status = jnp.where(leaving == 2 * n, SOLVED, path.status)
    return _Path(X, basis, partner, path.count + 1, status)


def _lemke(M: Any, q: Any) -> _Path:
    n = q.shape[0]
    limit = max(LEAST_PIVOTS, PIVOTS_PER_ROW * n)
    index = jnp.arange(n, dtype=jnp.int32)

    def start() -> _Path:
        X = jnp.concatenate([jnp.eye(n), q[:, None]], axis=1)
        last = n - 1 - jnp.argmin(q[::-1])  # of several smallest the last: that row of (q, 1) is lexicographically smallest
        path = _Path(X, index, jnp.int32(2 * n), jnp.int32(0), jnp.int32(-1))
        done = jnp.min(q) >= 0.0
        entered = _exchange(path, -jnp.ones(n), last, n)
        return jax.tree.map(lambda a, b: jnp.where(done, a, b), path._replace(status=jnp.int32(SOLVED)), entered)

    def under_way(path: _Path) -> Any:
        return (path.status < 0) & (path.count < limit)

    def pivot(path: _Path) -> _Path:
        k = path.entering
        column = jnp.where(k < n, (index == k).astype(q.dtype), -M[:, k % n])
        y = jnp.sum(path.X[:, :n] * column[None, :], axis=1)
        bounding = y > PIVOT
        ratio = jnp.where(bounding, path.X[:, n] / jnp.where(bounding, y, 1.0), jnp.inf)
        least = jnp.min(ratio)
        tied = bounding & (ratio <= least + TIE)
        final = bounding & (path.basis == 2 * n) & (path.X[:, n] - y * least <= GONE)
        row = jnp.where(jnp.any(final), jnp.argmax(final), _first_of_ties(tied, path.X, y))
        after = _exchange(path, y, row, n)
        ray = ~jnp.any(bounding)
        return jax.tree.map(lambda a, b: jnp.where(ray, a, b), path._replace(status=jnp.int32(RAY)), after)

    return jax.lax.while_loop(under_way, pivot, start())


def complementary(M: Any, active: Any) -> Any:
    """`A = [-M_a, 1_b]`: with y = z on the active indices and w on the others the equations are `A y = q` ([marklund2025], equation D.3)."""
    return jnp.where(active[None, :], -M, jnp.eye(M.shape[0]))


def _finished(M: Any, q: Any, active: Any, linear: Callable[[Any, Any], Any]) -> tuple[Any, Any, Any, Any]:
    """z, w, residual and margin of the complementary solution of an active set."""
    y = linear(complementary(M, active), q)
    z = jnp.where(active, jnp.maximum(y, 0.0), 0.0)
    w = M @ z + q
    residual = jnp.max(jnp.abs(jnp.minimum(z, w)), initial=0.0)
    residual = jnp.where(jnp.all(jnp.isfinite(y)), residual, jnp.inf)
    return z, w, residual, jnp.min(jnp.maximum(z, w), initial=jnp.inf)


def solve(M: Any, q: Any, guess: Any = None, linear: Callable[[Any, Any], Any] = jnp.linalg.solve) -> Solution:
    """One problem, inside a compiled program or a `vmap`. `guess` is an active set that is tried first (that of the step before); `linear` solves `A y = q`."""
    n = q.shape[0]
    if n == 0:
        return Solution(q, q, jnp.int32(SOLVED), jnp.zeros(0, bool), jnp.int32(0), jnp.inf)
    D = scales(M)
    size = jnp.max(jnp.abs(D * q))
    size = jnp.where(size > 0.0, size, 1.0)
    scaled, right = D[:, None] * M * D[None, :], D * q / size

    def pivoted(_: Any) -> tuple:
        path = _lemke(scaled, right)
        active = jnp.any(path.basis[None, :] == n + np.arange(n)[:, None], axis=1)
        status = jnp.where(path.status < 0, TOO_LONG, path.status)
        return active, status.astype(jnp.int32), path.count, *_finished(scaled, right, active, linear)

    def guessed(_: Any) -> tuple:
        return guess, jnp.int32(SOLVED), jnp.int32(0), *first

    if guess is None:
        active, status, count, z, w, residual, margin = pivoted(None)
    else:
        first = _finished(scaled, right, guess, linear)
        active, status, count, z, w, residual, margin = jax.lax.cond(first[2] <= RESIDUAL, guessed, pivoted, None)
    status = jnp.where((status == SOLVED) & ~(residual <= RESIDUAL), INACCURATE, status).astype(jnp.int32)
    good = status == SOLVED
    z, w = jnp.where(good, size * D * z, 0.0), jnp.where(good, size * w / D, 0.0)
    return Solution(z, w, status, active, count, jnp.where(good, margin, 0.0))


@jax.jit
def _block(M: Any, q: Any) -> Solution:
    return jax.lax.map(lambda tile: jax.vmap(solve)(*tile), (M, q))


def solve_many(M: Any, q: Any) -> Solution:
    """Many problems of one size: M (problems, n, n), q (problems, n); every field of the result has the problems first."""
    M, q = (np.asarray(x, dtype=float) for x in (M, q))
    if M.ndim != 3 or q.ndim != 2 or M.shape != (*q.shape, q.shape[1]):
        raise CalibodyError(f"M has the shape {M.shape} and q {q.shape}; give (problems, n, n) and (problems, n).")
    if not (np.isfinite(M).all() and np.isfinite(q).all()):
        raise CalibodyError("A complementarity problem contains a number that is not finite; look where its matrix comes from.")
    count, n = q.shape
    blocks = [_block(*_padded(M[k : k + BLOCK], q[k : k + BLOCK])) for k in range(0, max(count, 1), BLOCK)]
    merged = (np.concatenate([np.asarray(x).reshape(BLOCK, -1) for x in parts])[:count] for parts in zip(*blocks, strict=True))
    z, w, status, active, pivots, margin = merged
    return Solution(z[:, :n], w[:, :n], status[:, 0], active[:, :n], pivots[:, 0], margin[:, 0])


def _padded(M: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Further rows `w = a z + b` and whole problems of them (solved by z = 0), so that few shapes are ever compiled.

    a is the largest diagonal and b the largest |q| of the problem: the padding never sets the scale of the rest.
    """
    count, n = q.shape
    size = max(1, -(-n // ROWS)) * ROWS
    a, b = (np.ones(BLOCK), np.ones(BLOCK))
    if n:
        a[:count], b[:count] = np.diagonal(M, axis1=1, axis2=2).max(1), np.abs(q).max(1)
    a, b = (np.where(x > 0.0, x, 1.0) for x in (a, b))
    wide_M, wide_q = a[:, None, None] * np.eye(size), np.repeat(b[:, None], size, axis=1)
    wide_M[:count, :n, :n], wide_q[:count, :n] = M, q
    return wide_M.reshape(-1, TILE, size, size), wide_q.reshape(-1, TILE, size)


def infeasible(M: Any, q: Any) -> bool:
    """Whether no z >= 0 has `M z + q >= 0` (host; a linear program): then no method can find a solution."""
    from scipy.optimize import linprog

    M, q = np.asarray(M, dtype=float), np.asarray(q, dtype=float)
    if not q.size:
        return False
    return linprog(np.zeros(q.size), A_ub=-M, b_ub=q, bounds=(0.0, None), method="highs").status == 2


def sentence(M: Any, q: Any, status: int) -> str:
    """Why a problem was not solved, one sentence (empty if it was)."""
    if status == SOLVED:
        return ""
    if status == RAY and infeasible(M, q):
        return "The problem is infeasible: no z >= 0 makes M z + q >= 0."
    return SENTENCES[int(status)]
