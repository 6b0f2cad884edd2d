"""The first mesh of a fit: as coarse as the motion allows, not as fine as it was sampled.

The time of an iteration grows with the number of nodes, and a first, coarse solution is where the finer ones start. What counts is how fast the
motion is: a low-pass finds the slowest cutoff that leaves no more of the recording than its noise. Samples between nodes are interpolated and
drives averaged exactly, so a coarse mesh uses all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.nodes import Noise
from calibody.recording.filters import lowpass
from calibody.recording.recording import Recording

SLOWEST = 10.0
"""Hz: the first cutoff tried (as in `start.py`)."""
PER_PERIOD = 10.0
"""Nodes per period of the cutoff: the scheme's error of second order is then below 2 % for the fastest part of the motion."""
LEFT = 2.0
"""Mean square of what the cutoff leaves, over that of the noise, up to which it passes: a few events may be faster, they are left to finer meshes."""
NODES = 1000
"""Of all runs together: there is nothing to gain below."""


def refuse_step(h: float, recordings: Sequence[Recording]) -> None:
    """A sentence where recordings have no mesh of steps h."""
    if not 0.0 < h < min(r.duration for r in recordings) / 4:
        raise CalibodyError(f"h = {h!r}; give a step in seconds, larger than zero and shorter than a quarter of the shortest recording.")


def first_step(recordings: Sequence[Recording], noises: Sequence[Noise]) -> float:
    """The step of the first mesh: the shortest sampling period, doubled as long as the motion allows."""
    h = period = min(r.period for r in recordings)
    longest = sum(r.duration for r in recordings) / NODES
    if 2.0 * h > longest:
        return h
    cutoff = SLOWEST
    while 2.0 * period * PER_PERIOD * cutoff <= 1.0 and not _passes(recordings, noises, cutoff):
        cutoff *= 2.0
    while 2.0 * h <= min(longest, 1.0 / (PER_PERIOD * cutoff)) * (1.0 + 1e-9):
        h *= 2.0
    return h


def _passes(recordings: Sequence[Recording], noises: Sequence[Noise], cutoff: float) -> bool:
    left = []
    for recording, noise in zip(recordings, noises, strict=True):
        for o in recording.observations:
            t, y = o.times[o.present], o.values[o.present]
            left.append(np.mean(((lowpass(t, y, cutoff)(t) - y) / noise.measured[o.channel]) ** 2))
    return float(np.mean(left)) < LEFT
