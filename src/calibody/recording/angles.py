"""Unwrapping angles that jump by a turn, also across gaps.

Between neighbouring samples the true change is taken to be the one closest to zero, |change| <= pi. Across a gap (longer than 1.5 sampling
periods) that guess fails for anything that rotates, so the change closest to the mean of the rates on both sides times the length of
the gap is taken instead. A series that has counted its turns already (its bulk, from the 1st to the 99th percentile, spans more than
one turn) is left as it is: there a jump across a gap is a motion, not a wrap. The percentiles keep one wild sample from deciding this.
"""

from __future__ import annotations

import numpy as np

TURN = 2 * np.pi
GAP = 1.5  # sampling periods: beyond this, at least one sample is missing


def counts_turns(values: np.ndarray) -> bool:
    """Whether a series spans more than a turn, and so cannot have been wrapped."""
    low, high = np.nanpercentile(values, [1.0, 99.0])
    return bool(high - low > 1.001 * TURN)


def unwrap(times: np.ndarray, values: np.ndarray, force: bool = False) -> np.ndarray:
    """The angles `values` [rad] without jumps of a turn; NaN stay NaN. `force` also treats series that seem to have counted their turns."""
    here = np.isfinite(values)
    if here.sum() < 2 or (not force and counts_turns(values)):
        return values
    t, x = times[here], values[here]
    change, dt = np.diff(x), np.diff(t)
    gap = dt > GAP * np.median(dt)
    nearest_zero = change - TURN * np.round(change / TURN)
    expected = np.where(gap, _rate_at_gaps(nearest_zero / dt, gap) * dt, 0.0)
    turns = np.round((expected - change) / TURN)
    out = values.copy()
    out[here] = x + TURN * np.concatenate([[0.0], np.cumsum(turns)])
    return out


def _rate_at_gaps(rates: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """For each interval the mean of the nearest rates before and after it that are not in a gap (zero if there are none)."""
    good = np.flatnonzero(~gap)
    if not len(good):
        return np.zeros_like(rates)
    k = np.arange(len(rates))
    before = good[np.clip(np.searchsorted(good, k, side="right") - 1, 0, len(good) - 1)]
    after = good[np.clip(np.searchsorted(good, k, side="left"), 0, len(good) - 1)]
    return 0.5 * (rates[before] + rates[after])
