"""Dense linear systems inside a compiled program.

LAPACK is a call out of the program: a loop that makes it is run operation by operation, and for a mechanism of a few joints that costs ten times what the
operations do. So small systems are solved with operations of the program alone, and the whole loop around them becomes one piece of machine code
(`mechanics/compilation.py`); larger ones go to LAPACK, whose blocked elimination is then what counts.

**Small.** Gauss-Jordan elimination in place with row exchanges: after step k the columns 0 .. k of the array are columns of the inverse,

    row_k <- row_k/a_kk,    row_i <- row_i - a_ik row_k    (i /= k),    column k of the array holding that of the inverse

so that at the end the array X is the inverse of P A and `A^-1 r = X (P r)`. An inverse is as exact as it needs to be where it is applied to a residual: what it
leaves is corrected in the next Newton iteration.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Rows up to which the program's own elimination, in one piece with everything around it, is faster than LAPACK with a call per operation.
SMALL = 40


class Factors(NamedTuple):
    """The inverse of `P A` (small) or the LU factors of A, and the exchanges of rows."""

    array: Any
    order: Any


def slice_at(a: Any, start: tuple, sizes: tuple[int, ...]) -> Any:
    """`a[start : start + sizes]`, the start known only when the program runs."""
    return jax.lax.dynamic_slice(a, tuple(jnp.asarray(x, jnp.int32) for x in start), sizes)


def put_at(a: Any, part: Any, start: tuple) -> Any:
    """`a` with `part` at `start`; not `a.at[...].set`, which is an operation that no loop in one piece may contain."""
    return jax.lax.dynamic_update_slice(a, part, tuple(jnp.asarray(x, jnp.int32) for x in start))


def identity(n: int) -> Factors:
    """The factors of the identity."""
    return Factors(jnp.eye(n), jnp.arange(n, dtype=jnp.int32))


def factored(A: Any) -> Factors:
    """A regular matrix (n, n), ready to be applied to many right-hand sides; not finite where A is singular."""
    n = A.shape[0]
    if n > SMALL:
        return Factors(*jax.scipy.linalg.lu_factor(A, check_finite=False))
    index = np.arange(n)[:, None]

    def exchanged(k: Any, factors: Factors) -> Factors:
        X, order = factors
        column, row = slice_at(X, (0, k), (n, 1)), slice_at(X, (k, 0), (1, n))
        p = jnp.argmax(jnp.where(index >= k, jnp.abs(column), -1.0))
        pivot_row = slice_at(X, (p, 0), (1, n))
        pivot_row = put_at(pivot_row, jnp.ones((1, 1)), (0, k)) / slice_at(pivot_row, (0, k), (1, 1))
        column = put_at(column, slice_at(row, (0, k), (1, 1)), (p, 0))  # rows k and p change places
        X = put_at(put_at(X, row, (p, 0)), jnp.zeros((n, 1)), (0, k)) - column * pivot_row
        here, there = slice_at(order, (k,), (1,)), slice_at(order, (p,), (1,))
        return Factors(put_at(X, pivot_row, (k, 0)), put_at(put_at(order, here, (p,)), there, (k,)))

    return jax.lax.fori_loop(jnp.int32(0), jnp.int32(n), exchanged, Factors(A, jnp.arange(n, dtype=jnp.int32))) if n else identity(0)


def solved(factors: Factors, r: Any) -> Any:
    """`A^-1 r` for a vector or the columns of a matrix r."""
    if r.shape[0] > SMALL:
        return jax.scipy.linalg.lu_solve(tuple(factors), r, check_finite=False)
    return factors.array @ r[factors.order]
