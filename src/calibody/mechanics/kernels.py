"""Kernels on struct-of-arrays: compiled for one shape for ever, or evaluated on the host.

A kernel is a pure function on scalars of one element (`elements/`). Compiled, it takes arrays `(components, TILE)` and is applied to any number
of (elements x nodes) by cutting the flattened batch into tiles and padding the last one. The compiled shape depends neither on the model nor on
the recording, so the persistent cache serves every later process (DESIGN section 4).

Three tiers of work: *once ever* compile a kernel (seconds, cached on disk); *once per process* import jax and load it (a second);
*per call* run tiles, two at a time on two cores. What evaluates a few times only (`calibody check`) leaves the first two out: the same
formulas on numpy arrays take some milliseconds a tile, up to twice as long as compiled ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from typing import Any

import numpy as np

from calibody.mechanics.elements import body
from calibody.spatial import algebra as al

# Columns per compiled call: small enough that a kernel's inputs and outputs (some hundred doubles a column) stay in a core's cache and that
# padding a small problem costs little, large enough that the call itself (tens of microseconds against half a millisecond) does not count.
TILE = 2048


@cache
def workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=max(1, min(8, os.cpu_count() or 1)), thread_name_prefix="calibody")


class Kernel:
    """A function from rows of numbers to rows of numbers."""

    def __init__(self, rows: Callable[..., Sequence[Any]]) -> None:
        self.rows = rows

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        from calibody.mechanics.compilation import jax

        def kernel(*arguments: Any) -> Any:
            return jax.numpy.stack(self.rows(*arguments))

        kernel.__name__ = self.rows.__name__
        return jax.jit(kernel)


def run(kernel: Kernel, arrays: list[np.ndarray], shared: tuple[Any, ...] = (), compiled: bool = True) -> np.ndarray:
    """Apply a kernel to arrays (components, count): (outputs, count). `shared` are scalars or small vectors common to all columns."""
    count = arrays[0].shape[1]
    out = None
    for i in range(0, count, TILE):
        tile = [a[:, i : i + TILE] for a in arrays]
        result = np.asarray(kernel.compiled(*map(_padded, tile), *shared)) if compiled else np.stack(kernel.rows(*tile, *shared))
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


@Kernel
def body_terms(HL: Any, HR: Any, ten: Any, g: Any, h: Any) -> Sequence[Any]:
    """12 + 36 + 6 rows: `body.interval_terms`."""
    wl, wr, *moments, a, b = body.interval_terms(_pose(HL), _pose(HR), tuple(ten), (g[0], g[1], g[2]), h)
    return [*wl, *wr, *(x for m in moments for x in _flat(m)), *a, *b]


@Kernel
def body_values(HL: Any, HR: Any, ten: Any, g: Any, h: Any) -> Sequence[Any]:
    wl, wr = body.interval(_pose(HL), _pose(HR), tuple(ten), (g[0], g[1], g[2]), h)
    return [*wl, *wr]


@Kernel
def body_regressor(HL: Any, HR: Any, ten: Any, g: Any, h: Any) -> Sequence[Any]:
    """120 + 36 rows: wrenches at L (10 x 6) and R (10 x 6) per number, then per component of gravity at L (3 x 6) and R (3 x 6)."""
    left, right = _pose(HL), _pose(HR)
    a, b = body.regressor(left, right, (g[0], g[1], g[2]), h)
    ga, gb = body.gravity_columns(left, tuple(ten), h), body.gravity_columns(right, tuple(ten), h)
    return [x for part in (a, b, ga, gb) for column in part for x in column]


@Kernel
def project_blocks(B: Any, row: Any, column: Any) -> Sequence[Any]:
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
    return _flat((*((*x, *y) for x, y in zip(vv, Y2, strict=True)), *lower))
