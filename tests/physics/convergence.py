"""Measured orders and extrapolated limits of results computed with steps h, h/2, h/4, ..."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np


def order(steps: Sequence[float], errors: Sequence[float]) -> float:
    """The slope of log(error) over log(h), by least squares."""
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


def extrapolated(values: Sequence[np.ndarray], rounds: int | None = None) -> np.ndarray:
    """Richardson's limit of values computed with h, h/2, h/4, ... whose error is a series in h^2 (the scheme is symmetric in time)."""
    table = [np.asarray(v) for v in values]
    for k in range(len(table) - 1 if rounds is None else rounds):
        table = [(4.0 ** (k + 1) * fine - coarse) / (4.0 ** (k + 1) - 1.0) for coarse, fine in pairwise(table)]
    return table[-1]
