"""Impacts from the data alone: where a gap has a kink.

Along a motion that was smoothed without knowing of impacts the gap of a place comes down, turns round within the width of the smoothing, and goes up again. A hinge that is turned round by a drive,
or a throw at its top, does so too, but slowly. So an impact is a local minimum of a gap

- whose rate, from a straight line over `SIDE` before to one after, jumps by `SUDDEN` times what the gap's accelerations elsewhere would make of it, and
- that is near zero; where the place of the contact is itself unknown, near the lowest that the gap gets in the run.

What is missed here is found where the fitted motion goes through something (`settle.missed`); what is none pulls, and is taken out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from calibody.estimate.contacts.hits import Hit, gaps
from calibody.estimate.layout import States
from calibody.estimate.run import Run
from calibody.mechanics.contact import Spots
from calibody.mechanics.structure import Numbers
from calibody.model import Model

SIDE = 0.012
"""Time over which rates before and after are taken [s], at least `SAMPLES` sampling periods."""
SAMPLES = 3
SUDDEN = 3.0
NEAR = 1.0
"""How far from zero the minimum of a smoothed gap may be, in what the gap changes by within `SIDE` before and after."""
ALIKE = 1e-6
"""Gaps that differ by less than this, relative to their range, are of one place (the front and the back corner of a box that moves in a plane)."""


def representatives(gap: np.ndarray) -> np.ndarray:
    """Of places (spots, nodes) whose gaps are the same all along, the first of each."""
    out: list[int] = []
    for k, own in enumerate(gap):
        if not np.isfinite(own).all():
            continue
        if not any(np.abs(own - gap[j]).max() <= ALIKE * max(float(np.ptp(own)), 1e-300) for j in out):
            out.append(k)
    return np.array(out, dtype=np.int64)


def found(run: Run, model: Model, numbers: Numbers, states: States, loose: Collection[str], closed: Mapping[int, np.ndarray] | None = None) -> list[Hit]:
    """The impacts that a motion of a run without any shows; `loose`: contacts whose place is not known, `closed`: nodes at which places stay closed, which show none."""
    gap = gaps(run.structure, model, numbers, states.q)
    spots = Spots.of(run.structure, model)
    period = min((float(np.median(np.diff(d.times))) for d in run.data if len(d.times) > 1), default=run.h)
    side = max(2, round(max(SIDE, SAMPLES * period) / run.h))
    hits: list[Hit] = []
    for spot in representatives(gap):
        own = gap[spot]
        offset = float(own.min()) if spots.owner_name(int(spot)) in loose else 0.0
        open_ = ~(closed or {}).get(int(spot), np.zeros(run.K, dtype=bool))
        hits += [Hit(float(run.times[k]), int(spot)) for k in _minima(own - offset, side, open_)]
    return _lowest(hits, gap, run, side)


def _minima(gap: np.ndarray, side: int, open_: np.ndarray) -> list[int]:
    """Nodes at which a gap has a kink near zero, of those where it is open."""
    K = len(gap)
    if K < 4 * side + 3 or not open_[side:-side].any():
        return []
    bend = np.abs(gap[2 * side :] - 2.0 * gap[side:-side] + gap[: -2 * side])  # over two sides: what its accelerations make of it
    usual = float(np.median(bend[open_[side:-side]]))
    out = []
    for k in np.flatnonzero(open_[side : K - side]) + side:
        around = gap[max(k - side, 0) : k + side + 1]
        if gap[k] > around.min() or gap[k] == gap[k - 1]:
            continue
        down, up = gap[k - side] - gap[k], gap[k + side] - gap[k]
        if down + up > SUDDEN * usual and down > 0.0 and gap[k] <= NEAR * (down + up):
            out.append(int(k))
    return out


def _lowest(hits: list[Hit], gap: np.ndarray, run: Run, side: int) -> list[Hit]:
    """Of hits within `side` nodes of each other the one whose gap is lowest: neighbouring corners come down together."""
    out: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: hit.time):
        k = round((hit.time - run.times[0]) / run.h)
        if out and hit.time - out[-1].time < side * run.h:
            j = round((out[-1].time - run.times[0]) / run.h)
            if gap[hit.spot, k] < gap[out[-1].spot, j]:
                out[-1] = hit
        else:
            out.append(hit)
    return out
