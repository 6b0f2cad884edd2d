"""Contact that lasts, from the data alone: where a gap stays closed along a motion that was smoothed without knowing of contacts.

A place is closed where its gap is zero to within `SURE` standard deviations that single samples leave of it, for at least `LEAST` seconds; where the place of the contact is itself unknown, as low as
the gap gets in the mean over so long. What comes there fast enough to move by a good part of its noise in a step (`FAST`) lands at a time of its own, with an impulse; what comes slower
is closed from a node on. From the motion also: where it slips, and which way.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from calibody.estimate import observe
from calibody.estimate.contacts.hits import Hit, gaps
from calibody.estimate.contacts.kinks import representatives
from calibody.estimate.contacts.lasting import STICKS
from calibody.estimate.layout import States
from calibody.estimate.run import Run
from calibody.mechanics import assembly
from calibody.mechanics.contact import Spots
from calibody.mechanics.structure import Numbers
from calibody.model import Model

SURE = 4.0
BOUNCE = 2.0
"""Times that far from the other is no noise in between, but a bounce."""
HIDDEN, SHARP = 0.1, 2.0
"""A place lands up to this long before it is closed [s], where its gap bends so many times more than there."""
INSIDE = 2.0
"""Standard deviations that a gap is taken to be below zero at most."""
LEAST, SAMPLES, NODES = 0.04, 6, 4
"""Least duration [s], in sampling periods and in nodes."""
FAST = 0.3
SMALL = 1e-3
"""Of the range of the gaps of a contact: as far from zero is closed, whatever the noise."""
STILL = 0.8
"""Standard deviations, as before, of the mean distance from zero over the middle half of a stretch. That of noise alone is as large, where nodes are samples: so a stretch ..."""
QUARTER = 8
"""... with so many nodes in each of its quarters is still, too, whose means in these are all zero to within `SURE` standard deviations of a mean: what comes straight and goes is not, at its ends."""
EDGE = 3
"""Nodes from the ends of a recording that a contact lasts to."""
TOGETHER = 1.5
"""Steps, or sampling periods, within which places land together."""
SLOW, SMOOTHED = 0.1, 0.02
"""A place slips where it is faster than this share of its fastest, and than `SURE` standard deviations of a speed over this time [s]."""


def noise(run: Run, model: Model, numbers: Numbers, states: States) -> np.ndarray:
    """(nv, nv, nodes): covariance of the coordinates, had they been measured once where each node is; directions that nobody observes have none."""
    f = assembly.frames(run.structure, numbers, run.point(model, numbers, states))
    A = np.zeros((run.K, run.structure.nv, run.structure.nv))
    for d in run.data:
        if not observe.is_kinematic(d.channel) or observe.is_rate(d.channel) or observe.is_initial(d.channel):
            continue
        if d.rotation is not None:
            R, dofs, w = observe.orientation(run.structure, model, numbers, f, d.channel)
            gradient = np.einsum("ik,idk->dk", R[:, d.channel.component], w)
        else:
            found = observe.at_nodes(run.structure, model, numbers, f, d.channel)
            dofs, gradient = found.dofs, found.gradient
        A[:, dofs[:, None], dofs] += np.einsum("ik,jk->kij", gradient, gradient) / run.noise.measured[d.channel.path] ** 2
    return np.moveaxis(np.linalg.pinv(A, rcond=1e-10, hermitian=True), 0, 2)


def found(run: Run, model: Model, numbers: Numbers, states: States, loose: Collection[str]) -> tuple[list[Hit], dict[int, np.ndarray]]:
    """Places that stay closed, as hits that last; and at which nodes each spot is closed."""
    gap, spots = gaps(run.structure, model, numbers, states.q), Spots.of(run.structure, model)
    some = representatives(gap)
    if not len(some):
        return [], {}
    period = min((float(np.median(np.diff(d.times))) for d in run.data if len(d.times) > 1), default=run.h)
    least = max(NODES, round(max(LEAST, SAMPLES * period) / run.h))
    if least > run.K:
        return [], {}
    sd = gap_sd(run, model, numbers, states, some)
    hits: list[Hit] = []
    closed: dict[int, np.ndarray] = {}
    for owner in np.unique(spots.owner[some]):
        mine = some[spots.owner[some] == owner]
        wide = SMALL * float(np.ptp(gap[mine]))
        lowest, loose_ = 0.0, spots.owner_name(int(mine[0])) in loose
        if loose_:
            lowest = min(float(np.convolve(gap[s], np.full(least, 1.0 / least), mode="valid").min()) for s in mine)
        for s in mine:
            own = gap[s] - lowest
            near = own < SURE * sd[s] + wide  # nothing is inside: a motion that is goes round an impact that it does not know
            closed[int(s)] = np.zeros(run.K, dtype=bool)
            for a, b in _stretches(near, own > BOUNCE * SURE * sd[s] + wide, least):
                away = float(own[a : b + 1].mean()) if loose_ else 0.0
                spread = float(sd[s][(a + b) // 2]) + wide
                if not _rests(np.maximum(own[a : b + 1] - away, -INSIDE * spread), spread):
                    continue
                hit = _hit(run, own, a, b, int(s), float(sd[s][a]) + wide / SURE, max(2, round(3 * period / run.h)))
                closed[int(s)][max(0, a - 2 * least // 3) : b + 1 + least // 3] = True
                hits.append(hit)
    return _together(sorted(hits, key=lambda hit: hit.time), TOGETHER * max(period, run.h)), closed


def certain(hits: Collection[Hit], run: Run, model: Model, numbers: Numbers, states: States) -> bool:
    """Whether something stays closed for longer than noise could hide that it flies: over the last three quarters of that time a bounce would rise by more than `SURE` standard deviations of a sample, and the mean gap of each
    is zero to within as many of a mean."""
    spots = np.array(sorted({hit.spot for hit in hits}), dtype=np.int64)
    if not len(spots):
        return False
    gap, g = gaps(run.structure, model, numbers, states.q)[spots], float(np.linalg.norm(model.gravity))
    sd = {s: own + SMALL * float(np.ptp(gap)) for s, own in gap_sd(run, model, numbers, states, spots).items()}
    samples = np.median([len(d.times) for d in run.data]) / run.K
    for hit in hits:
        until, own = hit.until or hit.time, gap[np.searchsorted(spots, hit.spot)]
        at = np.flatnonzero((run.times >= hit.time) & (run.times <= until))
        spread = float(np.median(sd[hit.spot]))
        parts = [part for part in np.array_split(np.maximum(own[at], -INSIDE * spread), 4)[1:] if len(part)]
        still = all(abs(part.mean()) < SURE * spread / np.sqrt(max(samples * len(part), 1.0)) for part in parts)
        if still and g * (0.75 * (until - hit.time)) ** 2 / 8.0 > SURE * spread:
            return True
    return False


def gap_sd(run: Run, model: Model, numbers: Numbers, states: States, some: np.ndarray) -> dict[int, np.ndarray]:
    """(nodes,) of every spot: what single samples leave of its gap."""
    from calibody.estimate.contacts.lasting import touched

    covariance, K = noise(run, model, numbers, states), run.K
    which, at = np.repeat(some, K), np.tile(np.arange(K), len(some))
    _, rows = touched(run.structure, numbers, Spots.of(run.structure, model), states.q, which, at)
    J = rows[:, 0].reshape(len(some), K, -1)
    return {int(s): np.sqrt(np.maximum(np.einsum("ki,ijk,kj->k", j, covariance, j), 0.0)) for s, j in zip(some, J, strict=True)}


def _stretches(near: np.ndarray, far: np.ndarray, least: int) -> list[tuple[int, int]]:
    """First and last nodes of where something is near for long enough; shorter holes are none, but where it is far in them."""
    at = np.flatnonzero(near)
    if not len(at):
        return []
    ends = np.flatnonzero((np.diff(at) > max(2, least)) | (np.diff(np.cumsum(far)[at]) > 0))
    firsts, lasts = at[np.append(0, ends + 1)], at[np.append(ends, len(at) - 1)]
    return [(int(a), int(b)) for a, b in zip(firsts, lasts, strict=True) if b - a + 1 >= least]


def _rests(gap: np.ndarray, sd: float) -> bool:
    """Whether a gap that is small for a while stays so, and does not just come and go."""
    quarter = len(gap) // 4
    if float(np.abs(gap[quarter : len(gap) - quarter]).mean()) < STILL * sd:
        return True
    return quarter >= QUARTER and all(abs(float(part.mean())) < SURE * sd / np.sqrt(len(part)) for part in np.array_split(gap, 4))


def _hit(run: Run, gap: np.ndarray, a: int, b: int, spot: int, sd: float, side: int) -> Hit:
    """A place that is closed from node a to node b: when it lands, and whether softly."""
    until = float(run.times[-1]) if b >= run.K - 1 - EDGE else _left(run, gap, a, b, side)
    if a <= EDGE:
        return Hit(float(run.times[0]), spot, until)
    a = _knee(run, gap, a, sd, side)
    first = max(0, a - 1 - side)
    speed = (gap[first] - gap[a - 1]) / max((a - 1 - first) * run.h, run.h) if a - 1 > first else (gap[a - 1] - gap[a]) / run.h
    if speed * run.h < FAST * sd:
        return Hit(float(run.times[a]), spot, until, soft=True)
    return Hit(float(run.times[a - 1] + min(max(gap[a - 1], 0.0) / speed, 2.0 * run.h)), spot, until)


def _knee(run: Run, gap: np.ndarray, a: int, sd: float, side: int) -> int:
    """Where a gap that is small from node a on stopped falling: bounces that the smoothing has hidden come between."""
    k = np.arange(max(side, a - round(HIDDEN / run.h)), min(a + 1, len(gap) - side))
    if len(k) < 2:
        return a
    bend = gap[k + side] - 2.0 * gap[k] + gap[k - side]
    back = gap[k][::-1]
    falls = np.maximum.accumulate(np.maximum.accumulate(back) - back)[::-1] <= INSIDE * sd  # from there on, as far as can be seen
    knee = int(k[np.argmax(np.where(falls, bend, -np.inf))])
    most = float(bend[knee - k[0]])
    sharp = most > SHARP * max(float(bend[k >= a - 1].max()), 0.0) and gap[knee] < most and gap[knee] < gap[knee - side] - gap[knee]
    return knee + 1 if sharp else a


def _left(run: Run, gap: np.ndarray, a: int, b: int, side: int) -> float:
    """When a gap that is open after node b began to be so: straight, or as the square of the time, whichever fits."""
    after = slice(b + 1, min(b + 2 + 2 * side, run.K))
    t, y = run.times[after] - run.times[b], np.maximum(gap[after], 0.0)
    if len(t) < 3:
        return float(run.times[b])
    fits = [(np.polyfit(t, f, 1), f) for f in (y, np.sqrt(y))]
    misfits = [float(np.ptp((f - np.polyval(p, t)) / max(float(np.ptp(f)), 1e-300))) for p, f in fits]
    p = fits[int(np.argmin(misfits))][0]
    back = min(max(float(p[1] / p[0]), 0.0), 0.5 * (b - a) * run.h) if p[0] > 0.0 else 0.0
    return float(run.times[b]) - back


def _together(hits: list[Hit], apart: float) -> list[Hit]:
    """Places that land together do so at the same time."""
    out: list[Hit] = []
    for hit in hits:
        with_ = next((h for h in reversed(out) if not (h.soft or hit.soft) and hit.time - h.time < apart), None)
        out.append(replace(hit, time=with_.time) if with_ is not None else hit)
    return out


def slipping(slip: np.ndarray, sd: float, period: float) -> np.ndarray:
    """Modes of friction along velocities of slip (nodes, 2) in the directions of friction, of which the second is zero where there is only one."""
    speed = np.sqrt((slip**2).sum(axis=1))
    slow = max(SURE * sd / SMOOTHED * np.sqrt(min(period / SMOOTHED, 1.0)), SLOW * float(speed.max(initial=0.0)))
    return np.where(speed <= slow, STICKS, np.where(slip[:, 0] < 0.0, -1, 1))
