"""Kernels on struct-of-arrays: a formula of one element (`elements/`), for all elements and nodes at once.

A kernel is a pure function on the rows of arrays `(components, columns)`, a column being one element at one node or interval. It runs on numpy arrays, a tile of
columns at a time: as fast as the same formulas compiled (0.3 microseconds a column for all terms of a body), which would have to be loaded first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibody.mechanics.elements import body
from calibody.spatial import algebra as al

# Columns per tile: every operation makes an array of that length. Shorter ones make the calls into numpy count (twice the time at 1024), longer ones leave the cache.
TILE = 8192


def run(kernel: Callable[..., Sequence[Any]], arrays: list[np.ndarray], shared: tuple[Any, ...] = ()) -> np.ndarray:
    """Apply a kernel to arrays (components, count): (outputs, count). `shared` are scalars or small vectors common to all columns."""
    count = arrays[0].shape[1]
    out = None
    for i in range(0, count, TILE):
        result = kernel(*(a[:, i : i + TILE] for a in arrays), *shared)
        if out is None:
            out = np.empty((len(result), count))
        for row, values in zip(out[:, i : i + TILE], result, strict=True):
            row[:] = values
    assert out is not None
    return out


def _pose(rows: Any) -> al.Pose:
    return tuple(tuple(rows[4 * i + j] for j in range(4)) for i in range(3))


def _flat(block: tuple) -> list:
    return [x for row in block for x in row]


def body_terms(HL: Any, HR: Any, ten: Any, g: Any, h: Any) -> Sequence[Any]:
    """12 + 36 + 6 rows: `body.interval_terms`."""
    wl, wr, *moments, a, b = body.interval_terms(_pose(HL), _pose(HR), tuple(ten), (g[0], g[1], g[2]), h)
    return [*wl, *wr, *(x for m in moments for x in _flat(m)), *a, *b]


def body_values(HL: Any, HR: Any, ten: Any, g: Any, h: Any) -> Sequence[Any]:
    wl, wr = body.interval(_pose(HL), _pose(HR), tuple(ten), (g[0], g[1], g[2]), h)
    return [*wl, *wr]


def body_regressor(HL: Any, HR: Any, g: Any, h: Any, which: Sequence[int] = range(10)) -> Sequence[Any]:
    """Wrenches at L (6 rows for each number in question), then at R."""
    a, b = body.regressor(_pose(HL), _pose(HR), (g[0], g[1], g[2]), h, which)
    return [x for part in (a, b) for column in part for x in column]


def body_gravity(HL: Any, HR: Any, ten: Any, h: Any) -> Sequence[Any]:
    """36 rows: wrenches per component of gravity at L (3 x 6), then at R."""
    return [x for H in (HL, HR) for column in body.gravity_columns(_pose(H), tuple(ten), h) for x in column]


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
