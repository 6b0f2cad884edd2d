"""The mixed linear complementarity problem: some unknowns are free and their equations exact, the others complementary.

    [w_A]   [S_AA  S_AB] [z_A]   [b_A]      w_A = 0,  z_A free
    [w_B] = [S_BA  S_BB] [z_B] + [b_B],     z_B >= 0,  w_B >= 0,  z_B'w_B = 0

The free unknowns come first (`free` of them). They are eliminated, what remains is an LCP for z_B (`lcp`), and the active set that it finds
gives the whole solution by one more solve with the numbers as given.

**Symmetric S_AA, S_AB = S_BA'** ([marklund2025], appendix A; the constraints of a time stepper). Block LDL': with blocks k of fixed width

    D_k = S_kk,   L_k' = D_k^-1 S_k,:,   S <- S - L_k D_k L_k'        for the blocks of A, in order

so that what is left at B is `D_BB = S_BB - S_BA S_AA^-1 S_AB`. S_BB itself is never used as a pivot and need not be symmetric. Blocks are
not permuted: each must be regular when its turn comes, which a definite or quasi-definite S_AA guarantees for any width.

**Unsymmetric S_AA.** Gaussian elimination with complete pivoting among the free unknowns (an LU factorisation of S_AA, written as
exchanges of basic and non-basic unknowns). If S_AA is singular, an equation r without a free unknown is paired with a complementary pair j
and a free unknown f that is left over: z_j is computed from equation r and z_f from row j. The pair then appears in the LCP with its two
unknowns exchanged, which is the same problem (a principal pivot transform). Equations for which there is no such pair determine nothing:
`UNDETERMINED`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from calibody.complementarity import lcp
from calibody.complementarity.double import jax
from calibody.complementarity.lcp import SENTENCES, Solution

UNDETERMINED = 4
SENTENCES[UNDETERMINED] = (
    "The equations of the free unknowns are singular and no complementary pair resolves them: they contradict each other or leave an unknown open."
)
# Width of the blocks of LDL': a hinge has five or six rows, and a small dense solve costs about the same for 1 as for 8.
BLOCK = 8
# A pivot below this, relative to the largest entry of its row in the problem as given, is zero.
ZERO = 1e-12


def _padded(S: Any, b: Any, free: int, block: int) -> tuple[Any, int]:
    """`[S | -b]` with rows of the identity after the free ones, so that these fill whole blocks."""
    extra = -free % block
    N = b.shape[0] + extra
    place = jnp.concatenate([jnp.arange(free), jnp.arange(free + extra, N)])
    T = jnp.zeros((N, N + 1)).at[place[:, None], place[None, :]].set(S).at[place, N].set(-b)
    filler = jnp.arange(free, free + extra)
    return T.at[filler, filler].set(1.0), free + extra


def eliminate(S: Any, b: Any, free: int, block: int = BLOCK) -> tuple[Any, int]:
    """Block LDL' of the free rows of `[S | -b]`: free rows hold `L'` and `D^-1 y`, the others `D_BB` and `y_B = -b_B - ...`; and how many are free."""
    T, width = _padded(S, b, free, block)
    N = T.shape[0]
    index = jnp.arange(N)

    def eliminated(k: Any, T: Any) -> Any:
        first = k * block
        rows = jax.lax.dynamic_slice(T, (first, 0), (block, N + 1))
        scaled = jnp.linalg.solve(jax.lax.dynamic_slice(rows, (0, first), (block, block)), rows)
        column = jax.lax.dynamic_slice(T, (0, first), (N, block))
        below = jnp.where((index >= first + block)[:, None], column, 0.0)
        return jax.lax.dynamic_update_slice(T - below @ scaled, scaled, (first, 0))

    return (jax.lax.fori_loop(0, width // block, eliminated, T) if width else T), width


def substitute(T: Any, width: int, free: int, z_B: Any, block: int = BLOCK) -> Any:
    """z_A by backward substitution in what `eliminate` returned."""
    N = T.shape[0]
    index = jnp.arange(N)
    z = jnp.zeros(N).at[width:].set(z_B)

    def known(i: Any, z: Any) -> Any:
        first = width - (i + 1) * block
        rows = jax.lax.dynamic_slice(T, (first, 0), (block, N + 1))
        later = jnp.where(index >= first + block, z, 0.0)
        return jax.lax.dynamic_update_slice(z, rows[:, N] - rows[:, :N] @ later, (first,))

    return (jax.lax.fori_loop(0, width // block, known, z) if width else z)[:free]


def solve_symmetric(S: Any, b: Any, free: int, block: int = BLOCK, guess: Any = None) -> Solution:
    """One problem with a symmetric free block, inside a compiled program or a `vmap`; `guess` is an active set of B to try first."""
    T, width = eliminate(S, b, free, block)
    N = T.shape[0]
    inner = lcp.solve(T[width:, width:N], -T[width:, N], guess)
    z_A = substitute(T, width, free, inner.z, block)
    finite = jnp.all(jnp.isfinite(z_A))
    status = jnp.where(finite | (inner.status != lcp.SOLVED), inner.status, UNDETERMINED).astype(jnp.int32)
    good = status == lcp.SOLVED
    z = jnp.where(good, jnp.concatenate([z_A, inner.z]), 0.0)
    w = jnp.concatenate([jnp.zeros(free), jnp.where(good, inner.w, 0.0)])
    active = jnp.concatenate([jnp.ones(free, bool), inner.active])
    return Solution(z, w, status, active, inner.pivots, jnp.where(good, inner.margin, 0.0))


class _Exchanges(NamedTuple):
    """The problem with some basic and non-basic unknowns exchanged."""

    T: Any
    """(N, N + 1): basic = T (non-basic, 1)."""
    row_left: Any
    """(free,) equations whose slack is still basic."""
    column_left: Any
    """(free,) free unknowns that are still non-basic."""
    free_row: Any
    """(free,) row in which a free unknown is basic."""
    row_of: Any
    """(pairs,) row in which one unknown of the pair is basic."""
    column_of: Any
    """(pairs,) column in which the other is non-basic."""
    swapped: Any
    """(pairs,) True where z_j is basic instead of w_j."""
    good: Any


def _exchanged(T: Any, r: Any, c: Any) -> Any:
    """The unknown of column c becomes basic in row r."""
    p = T[r, c]
    column, row = T[:, c] / p, T[r] / p
    out = T - T[:, c][:, None] * row[None, :]
    out = out.at[:, c].set(column).at[r].set(-row)
    return out.at[r, c].set(1.0 / p)


def _exchange_free(S: Any, b: Any, free: int) -> _Exchanges:
    """All free unknowns made basic, all their equations' slacks non-basic (they are zero and their columns are ignored)."""
    pairs = b.shape[0] - free
    size = jnp.max(jnp.abs(S[:free]), axis=1, initial=0.0)
    size = jnp.where(size > 0.0, size, 1.0)

    def left_over(e: _Exchanges) -> Any:
        """Entries at which an equation and a free unknown can still be exchanged, relative to the size of the equation."""
        return jnp.abs(e.T[:free, :free]) * (e.row_left[:, None] & e.column_left[None, :]) / size[:, None]

    def one(e: _Exchanges) -> _Exchanges:
        entries = left_over(e)
        best = jnp.argmax(entries)
        r, f = best // free, best % free
        left = e.row_left.at[r].set(False), e.column_left.at[f].set(False), e.free_row.at[f].set(r)
        return _Exchanges(_exchanged(e.T, r, f), *left, e.row_of, e.column_of, e.swapped, e.good & (entries[r, f] > ZERO))

    def two(e: _Exchanges) -> _Exchanges:
        by_pair = jnp.abs(e.T[:free, free:-1]) * (e.row_left[:, None] & ~e.swapped[None, :]) / size[:, None]
        by_free = jnp.abs(e.T[free:, :free]) * e.column_left[None, :]
        worth = jnp.minimum(by_pair[:, :, None], by_free[None, :, :])  # equation, pair, free unknown
        best = jnp.argmax(worth)
        r, j, f = best // (pairs * free), best // free % pairs, best % free
        T = _exchanged(_exchanged(e.T, r, free + j), free + j, f)
        left = e.row_left.at[r].set(False), e.column_left.at[f].set(False), e.free_row.at[f].set(free + j)
        pair = e.row_of.at[j].set(r), e.column_of.at[j].set(f), e.swapped.at[j].set(True)
        return _Exchanges(T, *left, *pair, e.good & (worth.reshape(-1)[best] > ZERO))

    def next_(_: Any, e: _Exchanges) -> _Exchanges:
        return one(e) if not pairs else jax.lax.cond(jnp.max(left_over(e)) > ZERO, one, two, e)

    places = jnp.arange(free, free + pairs)
    T = jnp.concatenate([S, b[:, None]], axis=1)
    start = _Exchanges(T, jnp.ones(free, bool), jnp.ones(free, bool), jnp.arange(free), places, places, jnp.zeros(pairs, bool), jnp.ones((), bool))
    return jax.lax.fori_loop(0, free, next_, start) if free else start


def solve(S: Any, b: Any, free: int) -> Solution:
    """One problem with any free block, inside a compiled program or a `vmap`."""
    N = b.shape[0]
    e = _exchange_free(S, b, free)
    good = e.good & jnp.all(jnp.isfinite(e.T))
    M = jnp.where(good, e.T[e.row_of[:, None], e.column_of[None, :]], jnp.eye(N - free))
    q = jnp.where(good, e.T[e.row_of, N], 0.0)
    inner = lcp.solve(M, q)
    active = jnp.concatenate([jnp.ones(free, bool), inner.active ^ e.swapped])
    outside = jnp.zeros(N).at[e.column_of].set(inner.z)  # the non-basic unknowns; slacks of equations are zero
    basic = e.T[:, :N] @ outside + e.T[:, N]
    z = jnp.concatenate([basic[e.free_row], jnp.maximum(jnp.where(e.swapped, basic[e.row_of], inner.z), 0.0)])
    w = S @ z + b
    exact_row = jnp.arange(N) < free
    size = jnp.max(jnp.maximum(jnp.abs(b), jnp.max(jnp.abs(S * z[None, :]), axis=1, initial=0.0)), initial=0.0)
    exact = jnp.all(jnp.abs(jnp.where(exact_row, w, jnp.minimum(z, w))) <= lcp.RESIDUAL * jnp.maximum(size, jnp.max(jnp.abs(z), initial=0.0)))
    status = jnp.where(good, jnp.where((inner.status == lcp.SOLVED) & ~exact, lcp.INACCURATE, inner.status), UNDETERMINED).astype(jnp.int32)
    solved = status == lcp.SOLVED
    z, w = jnp.where(solved, z, 0.0), jnp.where(solved & ~exact_row, w, 0.0)
    return Solution(z, w, status, active, inner.pivots, jnp.where(solved, inner.margin, 0.0))
