"""What changes of lasting contact while a fit is on its way: where it sticks and slips, and how long it lasts.

After every step, node by node, all places of a contact together (of corners that rest on each other only the sum of their forces is known): what sticks with more friction than
`mu lambda_n` slips against it, what slips backwards sticks. Each node is changed `MOST` times at most, and sticks then: a slip of no speed has no direction, and equations that have none no solution.
Once that is settled: a place that would have to pull has left (`released`). Once the equations hold: where the motion goes through something again right after, it has not (`prolonged`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.lasting import BEGIN, END, STICKS, Hold
from calibody.estimate.layout import IMPACTS, PUSHES, SEATS, States
from calibody.mechanics.contact import Spots
from calibody.mechanics.structure import Numbers
from calibody.model import Model

MOST = 3
MORE = 1e-4
"""By how much more than the law allows friction is too much, relative."""
CREEPS = 3e-4
"""Of the fastest slip of a hold in space, below which a place at rest is taken to stick: rounding and noise decide its direction."""
SHORTEST = 3
"""Nodes of a hold that is worth one."""
PULLING = 1e-6
"""Of the largest force of a hold, from which one that pulls does."""


def flipped(run: Struck, model: Model, numbers: Numbers, states: States) -> list[Hold] | None:
    """The holds with friction as it is now; None where nothing changes."""
    held, spots = run.closed, run.spots(model)
    if not any(h.tangents for h in held.holds) or PUSHES not in states.parts:
        return None
    force, e = states.parts[PUSHES], held.pushes
    _, J = held.places(run.structure, numbers, spots, states.q)
    v = _ahead(run, J, states, e)
    before = _behind(run, J, states, e)
    speed = np.sqrt(np.maximum((v**2).sum(axis=1), (before**2).sum(axis=1)))
    fastest = np.array([speed[held.hold[e] == i].max(initial=0.0) for i in range(len(held.holds))])
    still = (speed < CREEPS * fastest[held.hold[e]]) & (held.tangents[e] == 2)
    modes = [h.modes.copy() for h in held.holds]
    flips = [np.zeros(len(h.modes), dtype=np.int64) if h.flips is None else h.flips.copy() for h in held.holds]
    for group in _groups(run, spots.owner):
        now = held.modes[e[group]]
        new = _mode(now, force[group], v[group], before[group], held.tangents[e[group]], held.friction(spots, e[group]))
        if still[group][now != STICKS].all():
            new[now != STICKS] = STICKS
        for m, mode, old in zip(group, new, now, strict=True):
            i, k = held.hold[e[m]], held.mesh[e[m]]
            if mode != old and flips[i][k] < MOST + (mode == STICKS):
                modes[i][k], flips[i][k] = mode, flips[i][k] + 1
    landed = _landed(run, J, states, spots)
    for i, hold in enumerate(held.holds):  # at the start of a flight, which has no force, as right after, but for what an impact in the plane did
        own = held.mesh[e][held.hold[e] == i]
        if len(own):
            first, now = run.spans[hold.flight, 0], int(hold.modes[run.spans[hold.flight, 0]])
            modes[i][: own[0]] = modes[i][own[0]]
            modes[i][own[-1] + 1 :] = modes[i][own[-1]]
            if i in landed:
                change = landed[i] != now and flips[i][first] < MOST
                flips[i][first] += change
                modes[i][first] = landed[i] if change else now
    if all(np.array_equal(h.modes, m) for h, m in zip(held.holds, modes, strict=True)):
        return None
    return [replace(h, modes=m, flips=f) for h, m, f in zip(held.holds, modes, flips, strict=True)]


def _landed(run: Struck, J: np.ndarray, states: States, spots: Spots) -> dict[int, int]:
    """Whether places in the plane that are closed from an impact on stick or slip by it, by their holds: what lands and sticks may slide the instant after."""
    held, impulses, out = run.closed, states.parts.get(SEATS), dict[int, int]()
    of = {(s.strike + 1, s.spot): k for k, s in enumerate(run.seats)}
    mine = [(i, of[h.flight, h.spot]) for i, h in enumerate(held.holds) if h.first == BEGIN and (h.flight, h.spot) in of]
    for key in {(run.seats[k].strike, int(spots.owner[run.seats[k].spot])) for _, k in mine}:
        group = [(i, k) for i, k in mine if (run.seats[k].strike, int(spots.owner[run.seats[k].spot])) == key]
        seats = [run.seats[k] for _, k in group]
        if impulses is None or any(s.tangents != 1 for s in seats):
            continue
        L = np.array([states.parts[IMPACTS][s.strike, 1:] if s.own else impulses[k, 1:] for (_, k), s in zip(group, seats, strict=True)])
        strike = run.strikes[seats[0].strike]
        if not all(strike.across) and not any(s.own for s in seats):  # they rub for it
            L[0] += states.parts[IMPACTS][seats[0].strike, 1:]
        start = np.array([np.flatnonzero(held.hold == i)[0] for i, _ in group])
        v = _ahead(run, J, states, start)
        new = _mode(np.array([s.mode for s in seats]), L, v, v, np.ones(len(seats), dtype=int), spots.friction[[s.spot for s in seats]])
        out.update({i: int(mode) for (i, _), mode in zip(group, new, strict=True)})
    return out


def _mode(now: np.ndarray, force: np.ndarray, ahead: np.ndarray, behind: np.ndarray, tangents: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Modes of the places of a contact at a node, from forces (places, 3) and velocities of slip (places, 2) over the steps before and after it."""
    new = now.copy()
    stuck = (now == STICKS) & (tangents > 0)
    if stuck.any():
        rubbed, most = force[stuck, 1:].sum(axis=0), float((mu * np.maximum(force[:, 0], 0.0))[stuck].sum())
        if float(np.hypot(*rubbed)) > (1.0 + MORE) * most:
            new[stuck] = np.where(tangents[stuck] == 1, -np.sign(rubbed[0]) or 1.0, 1)
    slips = now != STICKS
    if slips.any():
        back = np.where(tangents == 1, now * ahead[:, 0], np.einsum("mk,mk->m", ahead, behind))
        if float(back[slips].sum()) < 0.0:
            new[slips] = STICKS
    return new


def _ahead(run: Struck, J: np.ndarray, states: States, e: np.ndarray) -> np.ndarray:
    return np.einsum("mki,mi->mk", 0.5 * (J[e, 1:] + J[e + 1, 1:]), run.closed.step(run.structure, states.q, e)) / run.h


def _behind(run: Struck, J: np.ndarray, states: States, e: np.ndarray) -> np.ndarray:
    return 2.0 * np.einsum("mki,mi->mk", J[e, 1:], run.closed.central(run.structure, states.q, e, run.h)) - _ahead(run, J, states, e)


def _groups(run: Struck, owner: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers of the forces of one contact at one node."""
    held = run.closed
    e = held.pushes
    key = held.node[e] * (int(owner.max(initial=0)) + 1) + owner[held.spots[e]]
    order = np.argsort(key, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(key[order])) + 1)


# -- how long it lasts -----------------------------------------------------------------------------------------------------------------


def released(run: Struck, states: States) -> list[Hold] | None:
    """The holds without the nodes at which they would pull; None where all push."""
    if PUSHES not in states.parts:
        return None
    held, out, changed = run.closed, [], False
    force = _shared(run, states.parts[PUSHES][:, 0])
    least = PULLING * float(np.abs(force).max(initial=0.0))
    for i, hold in enumerate(held.holds):
        mine = np.flatnonzero(held.hold[held.pushes] == i)
        actual = np.isin(held.node[held.pushes[mine]], run.actual)
        pulls = (force[mine] < -least) & actual & hold.kept(held.mesh[held.pushes[mine]] + 1)
        if not pulls.any():
            out.append(hold)
            continue
        changed = True
        out += _pieces(hold, held.mesh[held.pushes[mine]], pulls)
    return out if changed else None


def _shared(run: Struck, force: np.ndarray) -> np.ndarray:
    """Normal forces; where some places of a contact say nothing of their own, of which the others carry what is theirs, their sum."""
    out = force.copy()
    for group in _groups(run, Spots.of(run.structure).owner):
        if run.closed.idle[group].any():
            out[group] = force[group].sum()
    return out


def _pieces(hold: Hold, nodes: np.ndarray, pulls: np.ndarray) -> list[Hold]:
    """What is left of a hold whose forces at some of these nodes pull: stretches in which they push."""
    pushing, out = np.flatnonzero(~pulls), []
    if not len(pushing):
        return []
    ends = np.flatnonzero(np.diff(pushing) > 1)
    for a, b in zip(pushing[np.append(0, ends + 1)], pushing[np.append(ends, len(pushing) - 1)], strict=True):
        if b - a + 1 < SHORTEST:
            continue
        first = hold.first if a == 0 else int(nodes[a]) + 1
        last = hold.last if b == len(nodes) - 1 else int(nodes[b]) + 1
        out.append(replace(hold, first=first, last=last, normal=None, across=None, flips=None))
    return out


def prolonged(run: Struck, gap: np.ndarray, spot: int, node: int) -> list[Hold] | None:
    """Where the motion goes through a place at a node of the mesh soon after that was let go: the holds with this one as long as it does. `gap` (nodes of the mesh,) of the place."""
    for i, hold in enumerate(run.holds):
        first, end = run.spans[hold.flight]
        if hold.spot != spot or hold.last >= end or not first <= node <= end or node < hold.last:
            continue
        if np.abs(gap[hold.last : node + 1]).max() > float(np.abs(gap[node:]).max()):
            continue
        inside = np.flatnonzero(gap[node : end + 1] > 0.0)
        last = END if not len(inside) else node + int(inside[0])
        return [*run.holds[:i], replace(hold, last=last, normal=None, across=None, flips=None), *run.holds[i + 1 :]]
    return None
