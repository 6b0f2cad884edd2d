"""The step of a sensor that counts, from its samples.

Differences of neighbouring values (sorted, repetitions left out) of a counter are whole multiples of its step, and where it is coarse some are one step. The candidate is the smallest difference,
made precise by the whole range; it is one if every value is within `NEAR` of a multiple. By chance a sample is with probability 2 NEAR, all n of them but the two that made the grid with `(2 NEAR)^(n - 2)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

NEAR = 0.02
"""Share of a step within which a value is on the grid: single precision of an angle of many turns is less."""
FEWEST = 8
"""Different values from which there is a grid."""
ROUNDING = 1e-9
"""Share of the largest value below which two are the same."""


@dataclass(frozen=True)
class Grid:
    step: float
    surprise: float
    """Minus twice the logarithm of the probability that as many values lie on a grid by chance."""


def step_of(values: np.ndarray) -> Grid | None:
    """None where the values are not those of a counter."""
    x = np.sort(values)
    apart = np.diff(x)
    x = x[np.append(True, apart > ROUNDING * max(float(np.abs(x).max(initial=0.0)), 1e-300))]
    if len(x) < FEWEST:
        return None
    apart = np.diff(x)
    step = float(np.median(apart[apart < 1.5 * apart.min()]))
    step = float(x[-1] - x[0]) / float(np.round(apart / step).sum())  # neighbours are few steps apart, the ends are many: a thousand times more precise
    number = (x - x[0]) / step
    if np.any(np.abs(number - np.round(number)) > NEAR):
        return None
    return Grid(step, -2.0 * (len(x) - 2) * log(2.0 * NEAR))
