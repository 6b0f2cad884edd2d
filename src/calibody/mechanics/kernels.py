"""Compiled kernels on struct-of-arrays: one shape for ever.

A kernel is a pure function on scalars of one element (`elements/`). Here it is compiled once for arrays `(components, TILE)` and applied to
any number of (elements x nodes) by cutting the flattened batch into tiles and padding the last one. The compiled shape depends neither
on the model nor on the recording, so the persistent cache serves every later process (DESIGN section 4).

Three tiers of work: *once ever* compile a kernel (seconds, cached on disk); *once per process* load it (tens of milliseconds);
*per call* run tiles, two at a time on two cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from calibody.mechanics.elements import body
from calibody.spatial import algebra as al

# Columns per compiled call: small enough that a kernel's inputs and outputs (some hundred doubles a column) stay in a core's cache and that
# padding a small problem costs little, large enough that the call itself (tens of microseconds against half a millisecond) does not count.
TILE = 2048


def cache_folder() -> Path:
    """Where compiled kernels are kept: CALIBODY_CACHE, or `calibody` in the user's cache folder."""
    if folder := os.environ.get("CALIBODY_CACHE"):
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "calibody"


def configure() -> None:
    """float64, and the persistent compilation cache for everything that is compiled, however small. Called when this module is imported."""
    jax.config.update("jax_enable_x64", True)
    try:
        folder = cache_folder() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    except OSError:
        pass  # a home that cannot be written only costs the compile time of every start


configure()


@cache
def workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=max(1, min(8, os.cpu_count() or 1)), thread_name_prefix="calibody")


def run(kernel: Callable[..., jax.Array], arrays: list[np.ndarray], shared: tuple[Any, ...] = ()) -> np.ndarray:
    """Apply a tiled kernel to arrays (components, count): (outputs, count). `shared` are scalars or small vectors common to all columns."""
    count = arrays[0].shape[1]
    out = None
    for i in range(0, count, TILE):
        result = np.asarray(kernel(*(_padded(a[:, i : i + TILE]) for a in arrays), *shared))
        if out is None:
            out = np.empty((result.shape[0], count))
        out[:, i : i + TILE] = result[:, : count - i]
    assert out is not None
    return out


def _padded(a: np.ndarray) -> np.ndarray:
    if a.shape[1] == TILE:
        return np.ascontiguousarray(a)
    out = np.empty((a.shape[0], TILE))
    out[:, : a.shape[1]] = a
    out[:, a.shape[1] :] = a[:, :1]  # a real column: no kernel ever sees numbers that could not occur
    return out


def _pose(rows: Any) -> al.Pose:
    return tuple(tuple(rows[4 * i + j] for j in range(4)) for i in range(3))


def _flat(block: tuple) -> list:
    return [x for row in block for x in row]


@jax.jit
def body_terms(HL: jax.Array, HR: jax.Array, ten: jax.Array, g: jax.Array, h: jax.Array) -> jax.Array:
    """12 + 36 + 6 rows: `body.interval_terms`."""
    wl, wr, *moments, a, b = body.interval_terms(_pose(HL), _pose(HR), tuple(ten), (g[0], g[1], g[2]), h)
    return jnp.stack([*wl, *wr, *(x for m in moments for x in _flat(m)), *a, *b])


@jax.jit
def body_values(HL: jax.Array, HR: jax.Array, ten: jax.Array, g: jax.Array, h: jax.Array) -> jax.Array:
    wl, wr = body.interval(_pose(HL), _pose(HR), tuple(ten), (g[0], g[1], g[2]), h)
    return jnp.stack([*wl, *wr])


@jax.jit
def body_regressor(HL: jax.Array, HR: jax.Array, ten: jax.Array, g: jax.Array, h: jax.Array) -> jax.Array:
    """120 + 36 rows: wrenches at L (10 x 6) and R (10 x 6) per number, then per component of gravity at L (3 x 6) and R (3 x 6)."""
    left, right = _pose(HL), _pose(HR)
    a, b = body.regressor(left, right, (g[0], g[1], g[2]), h)
    ga, gb = body.gravity_columns(left, tuple(ten), h), body.gravity_columns(right, tuple(ten), h)
    return jnp.stack([x for part in (a, b, ga, gb) for column in part for x in column])


@jax.jit
def project_blocks(B: jax.Array, row: jax.Array, column: jax.Array) -> jax.Array:
    """36 rows: `T_row' B T_column` for two free links of poses `row` and `column`.

    The dofs of a free link (three translations, three turns about its own axes) have the twists `T = [[0, R], [1, S]]`, `S = [o]x R`, so with
    `B T_column = [[X1, X2], [Y1, Y2]]` the product is `[[Y1, Y2], [R'(X1 - o x Y1), R'(X2 - o x Y2)]]`.
    """
    b = tuple(tuple(B[6 * i + j] for j in range(6)) for i in range(6))
    ww, wv = tuple(r[:3] for r in b[:3]), tuple(r[3:] for r in b[:3])
    vw, vv = tuple(r[:3] for r in b[3:]), tuple(r[3:] for r in b[3:])
    Hr, Hc = _pose(row), _pose(column)
    Rc, oc = al.rotation_part(Hc), al.origin(Hc)
    Sc = al.transpose(tuple(al.cross(oc, axis) for axis in al.transpose(Rc)))
    X2 = tuple(al.add(x, y) for x, y in zip(al.matmul(ww, Rc), al.matmul(wv, Sc), strict=True))
    Y2 = tuple(al.add(x, y) for x, y in zip(al.matmul(vw, Rc), al.matmul(vv, Sc), strict=True))
    turn, o = al.transpose(al.rotation_part(Hr)), al.origin(Hr)

    def about(X: tuple, Y: tuple) -> tuple:
        moved = al.transpose(tuple(al.sub(x, al.cross(o, y)) for x, y in zip(al.transpose(X), al.transpose(Y), strict=True)))
        return al.matmul(turn, moved)

    lower = tuple((*x, *y) for x, y in zip(about(wv, vv), about(X2, Y2), strict=True))
    return jnp.stack(_flat((*((*x, *y) for x, y in zip(vv, Y2, strict=True)), *lower)))
