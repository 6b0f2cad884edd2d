"""Two joint coordinates tied by a polynomial: `g = s_1 - r_1 - p(s_2 - r_2)`, r the joints' references. Without a second joint p is its constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibody.mechanics.elements.base import CoordinateConstraint, Ends
from calibody.model import Loop, Model
from calibody.model.elements import COUPLING


def value(s: Sequence[Any], data: Any) -> tuple[Any, tuple, tuple]:
    c, x = data[:5], s[1] - data[6]
    level = c[0] + x * (c[1] + x * (c[2] + x * (c[3] + x * c[4])))
    slope = c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4]))
    curvature = 2 * c[2] + x * (6 * c[3] + x * 12 * c[4])
    return s[0] - data[5] - level, (1.0 + 0.0 * x, -slope), (0.0 * x, -curvature)


def joints(loop: Loop) -> tuple[str, ...]:
    """Without a second joint the first one, which then does not count: all coefficients but the constant are zero."""
    return loop.joint1, loop.joint2 or loop.joint1


def numbers(ends: Ends, which: Any) -> Sequence[float]:
    loop, references = ends.source, [ends.model.joint(name).reference for name in joints(ends.source)]
    return [*(loop.polynomial if loop.joint2 else (loop.polynomial[0], 0.0, 0.0, 0.0, 0.0)), *references]


def unit_of(loop: Loop, model: Model) -> str:
    return model.joint(loop.joint1).units["f"]


TYPE = CoordinateConstraint("coupling", {COUPLING: (None,)}, joints, numbers, value, unit_of)
