"""First and last samples that are not of the motion: recorders start late, or write a value of before.

A sample at an end is a glitch if its second difference with its two neighbours is `FAR` times larger than those of the next `NEXT` samples and larger than any other of the channel. One such sample pulls a fit by hundreds of standard
deviations, and as process noise it makes the unmodelled forces of the whole run ten times too large. Inside a run large second differences may be impacts: nothing is left out there (`jumps.py` names what is none).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibody.recording.filters import noise_sd
from calibody.recording.jumps import FAR, FEWEST, NEXT, spoilt
from calibody.recording.recording import Observation, Recording

LARGEST = 1.3
"""Ratio to the largest second difference of the channel, but for spikes and jumps, from which it is."""


@dataclass(frozen=True)
class Glitch:
    channel: str
    index: int
    """Of the sample."""
    time: float
    size: float
    """By how much it is off the line through its neighbours."""
    ratio: float
    """To the largest second difference next to it."""

    @property
    def sentence(self) -> str:
        which = "first" if self.index == 0 else "last"
        return (
            f'The {which} sample of "{self.channel}" ({self.time:g} s) is off by {self.size:.2g}, {self.ratio:.0f} times more than the samples next to it are from their neighbours; '
            "it is taken for a glitch of the recorder and left out."
        )


def glitches(o: Observation) -> list[Glitch]:
    """Of one channel."""
    here = np.flatnonzero(o.present)
    if len(here) < FEWEST:
        return []
    t, y = o.times[here], o.values[here]
    bent = np.abs(np.diff(y, 2))
    steps = np.diff(t)
    even = float(steps.max()) < 3.0 * float(np.median(steps))
    if not even:
        return []
    most, noise, out = float(np.where(spoilt(t, y), 0.0, bent)[1:-1].max()), noise_sd(t[1:-1], y[1:-1]), []
    for k, size, near in ((0, bent[0], bent[1 : NEXT + 1]), (len(here) - 1, bent[-1], bent[-NEXT - 1 : -1])):
        usual = max(float(near.max()), noise)
        if usual > 0.0 and size > FAR * usual and size > LARGEST * most:
            out.append(Glitch(o.channel, int(here[k]), float(t[k]), float(size), float(size / usual)))
    return out


def without(recording: Recording) -> tuple[Recording, list[str]]:
    """The recording with its glitches made gaps, and a sentence for each."""
    found = {o.channel: glitches(o) for o in recording.observations}
    if not any(found.values()):
        return recording, []
    observations = []
    for o in recording.observations:
        values = o.values.copy()
        values[[g.index for g in found[o.channel]]] = np.nan
        observations.append(replace(o, values=values) if found[o.channel] else o)
    return replace(recording, observations=tuple(observations)), [g.sentence for each in found.values() for g in each]
