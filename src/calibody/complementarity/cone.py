"""Contact with dry friction at several places at once: complementarity on exact (round) friction cones, compiled.

For every place i an impulse `L_i = (n, t1, t2)` and a velocity `u = A L + r` with

    0 <= n  _|_  u_n >= 0,      |t| <= mu (n + b),    t = -mu (n + b) u_t/|u_t|  where u_t /= 0

(b is zero but for the second phase of an impact with Poisson's law). A is the mobility J M^-1 J', symmetric and at least semidefinite; r the velocities without these impulses.

**Method.** Sweeps of block Gauss-Seidel that solve each place exactly while the others wait ([jean1999]): open if it would part, else stick if the impulse that stops it is inside the
cone, else slip in the direction that the law asks for, by fixed-point iteration. Friction is no potential, and where places of one body press against each other such sweeps may
cycle; so every other round has cautious sweeps instead, which move normals and tangents by a share of what would be right, projected on the cone. Both are slow where many places share
a load. So after every round Newton's method on the equations of [alart1991],

    n = max(0, n - c u_n),    t = projection of (t - c u_t) on the disc of radius mu (max(0, n - c u_n) + b)

tries to finish: where open, sticking and sliding places are known it converges in a few steps, to rounding. What counts is the residual of these equations; the best point is
returned, with its residual.

**What is not unique.** Four corners of a face share one load in many ways. `SHARED` is added to the diagonal of A, relative to each block, which picks the smallest impulses among
them and moves the sum by nothing that can be seen.

**Painlevé.** With much friction and a slanting body the slipping solution may not exist; the sticking one then does, and the blocks try it first.

Sizes are padded to `SIZES` places, so that all mechanisms share a few programs; a start (the impulses of the step before) makes most problems one Newton step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from calibody.complementarity.double import jax
from calibody.errors import CalibodyError
from calibody.solve.dense import factored, put_at, slice_at, solved

SIZES = (1, 4, 8, 16, 32, 96, 256)
SHARED = 1e-10
# Residual, relative to the largest velocity of the problem, at which it counts as solved; and that which is still good enough where it cannot be reached.
EXACT, GOOD = 3e-12, 1e-4
# Sweeps between attempts of Newton's method, its steps, and rounds of both before giving up.
SWEEPS, NEWTON, ROUNDS = 6, 5, 16
# Share of the step of projected sweeps that is taken: with all of it they may cycle.
CAUTION = 0.7
# Fixed-point iterations for the direction of slip of one place.
TURNS = 8


class Impulses(NamedTuple):
    """`L` (places, 3) and how well it solves the problem."""

    L: Any
    u: Any
    residual: Any
    """Relative to the largest velocity of the problem."""
    rounds: Any


class _Problem(NamedTuple):
    A: Any
    r: Any
    mu: Any
    b: Any


def _velocity(p: _Problem, L: Any) -> Any:
    return (p.A @ L.ravel() + p.r.ravel()).reshape(-1, 3)


def _scales(p: _Problem) -> tuple[Any, Any]:
    """1/c for normals and tangents: what a unit impulse does to its own place."""
    own = jnp.diagonal(p.A).reshape(-1, 3)
    return own[:, 0], jnp.maximum(jnp.maximum(own[:, 1], own[:, 2]), 1e-6 * own[:, 0])


def _parts(p: _Problem, L: Any) -> tuple:
    """Of the projected equations: pushed normals, radii of the discs, where tangents want to be, and their lengths."""
    u = _velocity(p, L)
    one, two = _scales(p)
    push = L[:, 0] - u[:, 0] / one
    limit = p.mu * (jnp.maximum(push, 0.0) + p.b)
    y = L[:, 1:] - u[:, 1:] / two[:, None]
    return u, push, limit, y, jnp.sqrt((y * y).sum(1))


def _residual(p: _Problem, L: Any) -> Any:
    """(places, 3) of the projected equations, as velocities."""
    _, push, limit, y, length = _parts(p, L)
    one, two = _scales(p)
    shrunk = y * jnp.where(length > limit, limit / jnp.where(length > 0.0, length, 1.0), 1.0)[:, None]
    normal = (L[:, 0] - jnp.maximum(push, 0.0)) * one
    return jnp.concatenate([normal[:, None], (L[:, 1:] - shrunk) * two[:, None]], axis=1)


def _block(B: Any, r: Any, mu: Any, b: Any, before: Any) -> Any:
    """One place alone: B (3, 3), r (3,) its velocity without its own impulse."""
    stick = -solved(factored(B), r)
    inside = (stick[0] >= 0.0) & (stick[1] ** 2 + stick[2] ** 2 <= (mu * (stick[0] + b)) ** 2)
    free = r[1:] + B[1:, 1:] @ before[1:]
    way = jnp.where(jnp.any(before[1:] != 0.0), -before[1:], free)

    def towards(_: Any, state: tuple) -> tuple:
        s, n, _ = state
        length = jnp.sqrt(s @ s)
        s = jnp.where(length > 0.0, s / jnp.where(length > 0.0, length, 1.0), 0.0 * s)
        give = B[0, 0] - mu * (B[0, 1:] @ s)
        want = -(r[0] - mu * b * (B[0, 1:] @ s))
        n = jnp.maximum(jnp.where(give > 1e-9 * B[0, 0], want / jnp.where(give > 1e-9 * B[0, 0], give, 1.0), stick[0]), 0.0)
        t = -mu * (n + b) * s
        return r[1:] + B[1:, 0] * n + B[1:, 1:] @ t, n, t

    _, n, t = jax.lax.fori_loop(jnp.int32(0), jnp.int32(TURNS), towards, (way, jnp.maximum(before[0], 0.0), 0.0 * way))
    slip = jnp.concatenate([n[None], t])
    parted = (r[0] >= 0.0) & (mu * b == 0.0)
    return jnp.where(parted, 0.0 * slip, jnp.where(inside, stick, slip))


def _projected(B: Any, r: Any, mu: Any, b: Any, before: Any) -> Any:
    """One place alone, one cautious step: first the normal, then the tangents, each projected on what it may be."""
    n = jnp.maximum(before[0] - CAUTION * (r[0] + B[0] @ before) / B[0, 0], 0.0)
    t = before[1:]
    size = jnp.maximum(jnp.maximum(B[1, 1], B[2, 2]) + jnp.abs(B[1, 2]), 1e-6 * B[0, 0])
    t = t - CAUTION * (r[1:] + B[1:, 0] * n + B[1:, 1:] @ t) / size
    length, limit = jnp.sqrt(t @ t), mu * (n + b)
    return jnp.concatenate([n[None], t * jnp.where(length > limit, limit / jnp.where(length > 0.0, length, 1.0), 1.0)])


def _sweep(p: _Problem, L: Any, count: Any, alone: Callable[..., Any]) -> Any:
    size = p.r.size

    def place(i: Any, L: Any) -> Any:
        rows = slice_at(p.A, (3 * i, 0), (3, size))
        own, B = slice_at(L, (3 * i,), (3,)), slice_at(rows, (0, 3 * i), (3, 3))
        r = rows @ L + slice_at(p.r.ravel(), (3 * i,), (3,)) - B @ own
        mu, b = slice_at(p.mu, (i,), (1,))[0], slice_at(p.b, (i,), (1,))[0]
        return put_at(L, alone(B, r, mu, b, own), (3 * i,))

    return jax.lax.fori_loop(jnp.int32(0), count, place, L.ravel()).reshape(-1, 3)


def _newton_step(p: _Problem, L: Any) -> Any:
    u, push, limit, y, length = _parts(p, L)
    one, two = _scales(p)
    m = L.shape[0]
    A = p.A.reshape(m, 3, 3 * m)
    E = np.eye(3 * m).reshape(m, 3, 3 * m)
    closed, slipping = push > 0.0, length > limit
    s = y / jnp.where(slipping, length, 1.0)[:, None]
    by_push = E[:, 0] - A[:, 0] / one[:, None]
    by_y = E[:, 1:] - A[:, 1:] / two[:, None, None]
    across = by_y - s[:, :, None] * jnp.einsum("ma,mak->mk", s, by_y)[:, None]
    slide = E[:, 1:] - s[:, :, None] * (p.mu * closed)[:, None, None] * by_push[:, None] - (limit / jnp.where(slipping, length, 1.0))[:, None, None] * across
    normal = jnp.where(closed[:, None], A[:, 0] / one[:, None], E[:, 0])
    tangent = jnp.where(slipping[:, None, None], slide, A[:, 1:] / two[:, None, None])
    F = jnp.concatenate(
        [jnp.where(closed, u[:, 0] / one, L[:, 0])[:, None], jnp.where(slipping[:, None], L[:, 1:] - limit[:, None] * s, u[:, 1:] / two[:, None])], axis=1
    )
    J = jnp.concatenate([normal[:, None], tangent], axis=1).reshape(3 * m, 3 * m)
    new = L - solved(factored(J), F.ravel()).reshape(m, 3)
    return jnp.where(jnp.all(jnp.isfinite(new)), new, L)


def solve_in_program(A: Any, r: Any, mu: Any, b: Any, start: Any, count: Any) -> Impulses:
    own = jnp.max(jnp.diagonal(A).reshape(-1, 3), axis=1)
    p = _Problem(A + jnp.diag(SHARED * jnp.repeat(own, 3)), r, mu, b)
    scale = jnp.max(jnp.abs(r)) + 1e-300

    def size(L: Any) -> Any:
        return jnp.max(jnp.abs(_residual(p, L))) / scale

    def better(new: Any, at: tuple) -> tuple:
        found = size(new)
        return jax.tree.map(lambda x, y: jnp.where(found < at[1], x, y), (new, found), at)

    def newton(L: Any, best: tuple) -> tuple:
        def one(state: tuple) -> tuple:
            k, L, best = state
            L = _newton_step(p, L)
            return k + 1, L, better(L, best)

        return jax.lax.while_loop(lambda state: (state[0] < NEWTON) & (state[2][1] > EXACT), one, (jnp.int32(0), L, best))[2]

    def another(state: tuple) -> tuple:
        k, exact, cautious, best = state
        odd = k % 2 == 1
        exact = jax.lax.fori_loop(jnp.int32(0), jnp.where(odd, 0, SWEEPS).astype(jnp.int32), lambda _, x: _sweep(p, x, count, _block), exact)
        cautious = jax.lax.fori_loop(jnp.int32(0), jnp.where(odd, 4 * SWEEPS, 0).astype(jnp.int32), lambda _, x: _sweep(p, x, count, _projected), cautious)
        L = jnp.where(odd, cautious, exact)
        best = newton(L, better(L, best))
        return k + 1, exact, cautious, best

    best = newton(start, (start, size(start)))
    rounds, _, _, best = jax.lax.while_loop(lambda s: (s[0] < ROUNDS) & (s[3][1] > EXACT), another, (jnp.int32(0), start, start, best))
    return Impulses(best[0], _velocity(p, best[0]), best[1], rounds)


@lru_cache(maxsize=len(SIZES))
def _compiled(size: int) -> Callable[..., Impulses]:
    return jax.jit(solve_in_program)


def solve(A: np.ndarray, r: np.ndarray, mu: np.ndarray, start: np.ndarray | None = None, b: np.ndarray | None = None) -> Impulses:
    """`A` (3 m, 3 m) with the places' rows together, `r` (m, 3), `mu` (m,); `start` (m, 3) impulses to begin with."""
    m = len(r)
    if m > SIZES[-1]:
        raise CalibodyError(f"{m} places touch at once; at most {SIZES[-1]} can be solved together, leave out contacts.")
    n = next(s for s in SIZES if s >= m)
    whole, velocity = np.eye(3 * n), np.zeros((n, 3))
    whole[: 3 * m, : 3 * m] = A
    velocity[:m], velocity[m:, 0] = r, 0.0
    friction, base, first = np.zeros(n), np.zeros(n), np.zeros((n, 3))
    friction[:m] = mu
    if b is not None:
        base[:m] = b
    if start is not None:
        first[:m] = start
    L, u, residual, rounds = _compiled(n)(whole, velocity, friction, base, first, np.int32(m))
    return Impulses(np.asarray(L)[:m], np.asarray(u)[:m], float(residual), int(rounds))
