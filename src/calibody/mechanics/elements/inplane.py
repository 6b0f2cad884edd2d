"""The rows of `inline.py` for loops: the point of b on planes through a point of a, `g = (p_a - p_b) . d_a`. The multiplier is the force on body a along d_a, as of all loops."""

from __future__ import annotations

from typing import Any

from calibody.mechanics.elements import inline
from calibody.mechanics.elements.base import ON_FIRST, Constraint, Measure, Poses
from calibody.model.elements import CYLINDRICAL, MASKS, POINT, SLIDE, Loop

GUIDED = "slide loop"
"""What a loop of kind slide is here: a cut joint of that kind has the rows of `inline.py`."""
HELD = {f"{POINT}.{mask}": tuple("xyz".index(axis) for axis in mask) for mask in MASKS[1:]}


def rows_of(loop: Loop) -> str:
    """What a loop is called in `Constraint.holds`."""
    return GUIDED if loop.kind == SLIDE else loop.holds


def value(poses: Poses, data: Any) -> tuple:
    return (-inline.value(poses, data)[0],)


TYPE = Constraint("inplane", Measure(1, ON_FIRST, value, inline.wrenches, inline.turned), {GUIDED: (0, 1), CYLINDRICAL: (0, 1), **HELD}, inline.numbers, "N")
