"""Places inside a run that no motion has: single samples beside the curve of their neighbours (spikes), and readings that go on beside where they were (jumps: lost counts, a marker that slipped).

Let `e_k` be how far sample k is off the line through its two neighbours. A spike of size s is `e = (-s/2, s, -s/2)`, a jump `(-s/2, s/2)`, an impact `-(1 - a, a) v`, v the change of the rate within a period: both parts
of one sign, so that impacts are neither. What is called one is `FAR` times larger than every other `e` nearby, than the noise and than a count, and what it leaves behind in its own samples is no larger than a `LEFT`-th of it.
It is also larger than the motion moves between two samples nearby: two impacts in one period look like a small jump (a cube that hits a board with 2 m/s, every tenth toss), and what is smaller a fit sees better.
Only places and angles are looked at: rates and forces do jump. Nothing is left out, a fit lists what it misses; but a jump spoils all that comes after it, and a note says so beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calibody.recording.counting import step_of
from calibody.recording.filters import noise_sd
from calibody.recording.recording import Observation

FAR = 6.0
"""Ratio to the largest second difference of the samples next to it, and to the noise, from which something is no motion. Of eleven normal values one is six times larger than all others once in a million."""
NEXT = 10
FEWEST = 12
"""Samples below which nothing is said."""
LEFT = 3.0
"""Parts of a spike or jump, of which one may be left over in its own samples: it is then mostly what it is taken for."""
SPIKE, JUMP = np.array([-0.5, 1.0, -0.5]), np.array([-0.5, 0.5])
"""Shapes in `e`."""
PLACES = ("angle", "position", "com")
"""Quantities that go on smoothly, whatever happens."""
NAMED = 3
"""Times that a sentence lists."""


@dataclass(frozen=True)
class Jump:
    channel: str
    time: float
    """Of the sample, or of the first one after a jump."""
    size: float
    lasting: bool
    """Whether what follows is beside what was before, too."""


def jumps(o: Observation) -> list[Jump]:
    """Of one channel, in the order of time; both ends are left to `glitches`."""
    here = np.flatnonzero(o.present)
    if not {*o.channel.split(".")[-2:]} & set(PLACES) or len(here) < FEWEST:
        return []
    t, y = o.times[here], o.values[here]
    # e_k is of sample k + 1, and of both shapes the second is where it is
    out = [Jump(o.channel, float(t[k + 2]), size, len(shape) == 2) for k, size, shape in _found(t, y)]
    return sorted(out, key=lambda jump: jump.time)


def spoilt(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(samples - 2,) which second differences a spike or a jump has made."""
    out = np.zeros(len(y) - 2, dtype=bool)
    for k, _, shape in _found(t, y):
        out[k : k + len(shape)] = True
    return out


def _found(t: np.ndarray, y: np.ndarray) -> Iterator[tuple[int, float, np.ndarray]]:
    """Where in `e`, how large, and of which shape."""
    e = y[1:-1] - y[:-2] - (y[2:] - y[:-2]) * (t[1:-1] - t[:-2]) / (t[2:] - t[:-2])
    grid = step_of(y)
    least = max(noise_sd(t[1:-1], y[1:-1]), 0.0 if grid is None else grid.step)
    for shape in (SPIKE, JUMP):
        yield from ((k, size, shape) for k, size in _shaped(e, y, shape, least))


def _shaped(e: np.ndarray, y: np.ndarray, shape: np.ndarray, least: float) -> Iterator[tuple[int, float]]:
    """Where `e` has a shape that stands out, and how large it is."""
    n, beside = len(shape), NEXT // 2
    size = np.correlate(e, shape, "valid") / float(shape @ shape)
    for k in np.flatnonzero(np.abs(size) > FAR * least):
        if not beside <= k <= len(e) - n - beside:
            continue
        usual = max(float(np.abs(np.concatenate([e[k - beside : k], e[k + n : k + n + beside]])).max()), least)
        moves = max(float(np.abs(np.diff(part)).max()) for part in (y[k - beside : k + 2], y[k + n : k + n + 2 + beside]))
        left = float(np.abs(e[k : k + n] - size[k] * shape).max())
        if abs(size[k]) > max(FAR * usual, LEFT * left, moves):
            yield int(k), float(size[k])


def sentences(o: Observation) -> list[str]:
    """What to know about a channel: one for its spikes, one for its jumps."""
    found, out = jumps(o), []
    for lasting in (False, True):
        if some := [jump for jump in found if jump.lasting == lasting]:
            when = ", ".join(f"{jump.time:.6g} s" for jump in some[:NAMED]) + (f" and {len(some) - NAMED} more" if len(some) > NAMED else "")
            largest = max(abs(jump.size) for jump in some)
            many = len(some) > 1
            out.append(
                f'The channel "{o.channel}" jumps by {"up to " if many else ""}{largest:.2g} from one sample to the next and stays there ({when}); if counts were lost or a marker slipped, cut the run there or leave the channel out.'
                if lasting
                else f'{len(some) if many else "One"} sample{"s" if many else ""} of "{o.channel}" {"are" if many else "is"} {"up to " if many else ""}{largest:.2g} beside the curve of {"their" if many else "its"} neighbours ({when}); leave {"them" if many else "it"} out (empty values) or fit with robust = true.'
            )
    return out
