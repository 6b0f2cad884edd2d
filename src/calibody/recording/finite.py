"""Whether what a user gave is a number."""

from __future__ import annotations

import math
from typing import TypeGuard

import numpy as np


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a number, not a bool, that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of more than 308 digits
        return False
