"""Two joint coordinates tied by a smooth curve through knots: `g = s_1 - r_1 - f(s_2 - r_2)`, r the joints' references.

Between neighbouring knots f is the cubic with their values and slopes, beyond the first and the last the straight line of their slope. With
`t_i = clip(x - x_i, 0, w_i)` the part of the way that lies in piece i of the width w_i,

    f = y_0 + d_0 min(x - x_0, 0) + sum_i (d_i t_i + c_i t_i^2 + e_i t_i^3) + d_n max(x - x_n, 0)

so that pieces need no search; a curve with fewer knots than another of the model has pieces of no width at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from calibody.mechanics.elements import coupling
from calibody.mechanics.elements.base import CoordinateConstraint, Ends
from calibody.model.elements import CURVE
from calibody.spatial import algebra as al

PIECE = 5
"""Numbers of a piece: x_i, w_i, d_i, c_i, e_i."""
BEFORE = 7
"""Numbers before the pieces: both references, then x_0, y_0, d_0, x_n, d_n."""


def value(s: Sequence[Any], data: Any) -> tuple[Any, tuple, tuple]:
    first, second, x0, y0, d0, xn, dn = data[:BEFORE]
    x = s[1] - second
    lib = al.library(x)
    level = y0 + d0 * lib.minimum(x - x0, 0.0) + dn * lib.maximum(x - xn, 0.0)
    slope = lib.where(x < x0, d0, 0.0) + lib.where(x >= xn, dn, 0.0)
    curvature = 0.0 * x
    for k in range(BEFORE, len(data), PIECE):
        begin, width, d, c, e = data[k : k + PIECE]
        t = lib.clip(x - begin, 0.0, width)
        inside = (x >= begin) & (x < begin + width)
        level = level + t * (d + t * (c + t * e))
        slope = slope + lib.where(inside, d + t * (2.0 * c + t * 3.0 * e), 0.0)
        curvature = curvature + lib.where(inside, 2.0 * c + 6.0 * e * t, 0.0)
    return s[0] - first - level, (1.0 + 0.0 * x, -slope), (0.0 * x, -curvature)


def numbers(ends: Ends, which: Any) -> Sequence[float]:
    loop, model = ends.source, ends.model
    pieces = [number for a, b in pairwise(loop.curve) for number in _piece(a, b)]
    widest = max(len(other.curve) for other in model.loops if other.kind == CURVE) - 1
    idle = [loop.curve[-1][0], 0.0, 0.0, 0.0, 0.0] * (widest - len(loop.curve) + 1)
    (x0, y0, d0), (xn, _, dn) = loop.curve[0], loop.curve[-1]
    return [*(model.joint(name).reference for name in coupling.joints(loop)), x0, y0, d0, xn, dn, *pieces, *idle]


def _piece(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """The cubic with the values and slopes of two knots."""
    w, rise = b[0] - a[0], (b[1] - a[1]) / (b[0] - a[0])
    return [a[0], w, a[2], (3.0 * rise - 2.0 * a[2] - b[2]) / w, (a[2] + b[2] - 2.0 * rise) / (w * w)]


TYPE = CoordinateConstraint("curve", {CURVE: (None,)}, coupling.joints, numbers, value, coupling.unit_of)
