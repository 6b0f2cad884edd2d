"""Contact that lasts on the flights of a run: from hits that last to holds and back, which of their rows depend on each other, and their forces where flights change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from calibody.estimate.contacts.flights import SHORTEST, Struck
from calibody.estimate.contacts.hits import Hit, gaps
from calibody.estimate.contacts.lasting import BEGIN, END, STICKS, Hold, touched, turned
from calibody.estimate.contacts.staying import gap_sd, noise, slipping
from calibody.estimate.contacts.strikes import directions
from calibody.estimate.layout import PUSHES, SEATS, States
from calibody.mechanics.kinematics import difference
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.steppers.events import SLIP, STICK

RELEASED = 2.0
"""Steps, or sampling periods, before an impact within which a place that leaves does so by it."""
HIGH = 0.5
"""Standard deviations that a sample leaves of a gap, above which a place would bounce that does not stay closed then."""
NEARLY = 0.03
"""The same beside an impact, whose place touches not yet at the node that is looked at."""
PULLED = 0.3, 3.0
"""Times gravity with which it falls back at least and at most."""
MANY = 10
"""Bounces that are taken to be of one height, at most."""
CLOSE = 0.2
"""Steps by which the time that bounces take may be off."""
DEPENDENT = 1e-6
"""Part of a row that others do not explain, from which it is one of its own."""


def landings(hits: Sequence[Hit], start: float) -> list[Hit]:
    """Of hits, those that are impacts: not what is closed from the beginning, comes softly, or lands together with another."""
    out: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: hit.time):
        if hit.soft or (hit.until is not None and (hit.time <= start or (out and out[-1].time == hit.time))):
            continue
        out.append(hit)
    return out


def joined(before: Sequence[Hit], then: Sequence[Hit], h: float) -> list[Hit]:
    """Impacts of a place before it stays closed, and what then happens. The last of them is its landing where it comes back at once."""
    out, after = list(before), list(then)
    while out and (own := next((hit for hit in after if hit.until is not None and hit.spot == out[-1].spot), None)) and own.time - out[-1].time < RELEASED * h:
        after = [replace(hit, time=out[-1].time) if hit.time == own.time else hit for hit in after]
        out.pop()
    return [*out, *after]


def holds_of(run: Struck, hits: Sequence[Hit]) -> list[Hold]:
    """Of hits that last, by flight; `run` has the impacts of `landings`. They stick everywhere until something is known of their slip."""
    assert run.mesh is not None
    times, K, out = run.mesh.times, run.mesh.K, []
    period = min((float(np.median(np.diff(d.times))) for d in run.data if len(d.times) > 1), default=run.h)
    near = RELEASED * max(period, run.h)
    ends = [float(times[0]), *run.taus, float(times[-1])]
    for hit in (h for h in hits if h.until is not None):
        assert hit.until is not None
        for f, (begin, end) in enumerate(pairwise(ends)):
            last_flight = f == len(ends) - 2
            if hit.time >= end - 1e-12 or hit.until <= begin + (near if f else 0.0):
                continue
            from_start = hit.time <= begin + 1e-12
            to_end = hit.until >= end - (1e-12 if last_flight else near)
            first = BEGIN if from_start else int(np.ceil((hit.time - times[0]) / run.h - 1e-9))
            last = END if to_end else int(np.floor((hit.until - times[0]) / run.h + 1e-9))
            out.append(Hold(f, hit.spot, np.full(K, STICKS), first, last))
    return sorted(out, key=lambda hold: hold.flight)


def hits_of(run: Struck) -> list[Hit]:
    """The impacts and lasting contacts of a run as hits."""
    assert run.mesh is not None
    times, out = run.mesh.times, []
    own = {(s.strike, s.spot) for s in run.seats if s.own}
    out += [Hit(t, s.spot) for i, (t, s) in enumerate(zip(run.taus, run.strikes, strict=True)) if (i, s.spot) not in own]
    going: dict[int, Hit] = {}
    for f, until in enumerate([*run.taus, float(times[-1])]):
        mine, begin, on = [h for h in run.holds if h.flight == f], float(times[0]) if not f else run.taus[f - 1], dict[int, Hit]()
        for hold in mine:
            begun = going.pop(hold.spot, None) if hold.first == BEGIN else None
            first = begin if hold.first == BEGIN else float(times[min(hold.first, len(times) - 1)])
            hit = replace(
                begun or Hit(first, hold.spot, soft=hold.first != BEGIN), until=until if hold.last == END else float(times[min(hold.last, len(times) - 1)])
            )
            if hold.last == END:
                on[hold.spot] = hit
            else:
                out.append(hit)
        out += going.values()  # what did not go on after the impact
        going = on
    return sorted([*out, *going.values()], key=lambda hit: hit.time)


def seen(run: Struck, model: Model, numbers: Numbers, states: States) -> Struck:
    """The run with directions of friction, and where the motion shows that places slip."""
    assert run.mesh is not None
    spots, held, new = run.spots(model), run.closed, []
    spread = noise(run, model, numbers, states)
    period = min((float(np.median(np.diff(d.times))) for d in run.data if len(d.times) > 1), default=run.h)
    for i, hold in enumerate(run.holds):
        node, mesh = held.node[held.hold == i], held.mesh[held.hold == i]
        _, J = touched(run.structure, numbers, spots, states.q[:, node], np.full(len(node), hold.spot), np.arange(len(node)))
        middle = len(node) // 2
        tangents, turn = directions(J[middle] @ J[middle].T) if hold.spot < len(spots.links[0]) else (0, 0.0)
        c, s = np.cos(turn), np.sin(turn)
        across = np.stack([c * J[:, 1] + s * J[:, 2], c * J[:, 2] - s * J[:, 1]], axis=1)
        modes = hold.modes.copy()
        if tangents:
            slip = np.einsum("mki,mi->mk", across, _rates(run, states, node))
            slip[:, tangents:] = 0.0
            sd = float(np.sqrt(max(np.einsum("i,ij,j", across[middle, 0], spread[..., node[middle]], across[middle, 0]), 0.0)))
            found = slipping(slip, sd, period)
            modes[:] = found[-1]
            modes[: mesh[0]] = found[0]
            modes[mesh] = found
        new.append(replace(hold, tangents=tangents, turn=turn, modes=modes))
    return run.held_by(new)


def _rates(run: Struck, states: States, nodes: np.ndarray) -> np.ndarray:
    """(nodes, nv), at the ends of flights those of the nodes beside them."""
    flight = np.searchsorted(run.offsets, nodes, side="right") - 1
    k = np.clip(nodes, run.offsets[flight] + 1, run.offsets[flight + 1] - 2)
    return (difference(run.structure, states.q[:, k + 1], states.q[:, k]) - difference(run.structure, states.q[:, k - 1], states.q[:, k])).T / (2.0 * run.h)


def friction(run: Struck, strike: int) -> dict[str, Any]:
    """What an impact is whose place stays closed: it sticks or slips as it does then."""
    seat = next(s for s in run.seats if s.strike == strike and s.own)
    towards = float(seat.mode) if seat.tangents == 1 else 0.0
    return {"mode": STICK if seat.tangents and seat.mode == STICKS else SLIP, "tangents": seat.tangents, "turn": seat.turn, "towards": towards}


def merged(run: Struck, flights: Mapping[int, int]) -> list[Hold]:
    """The holds of a run of whose impacts some are left out, by what its flights become."""
    out: list[Hold] = []
    for hold in run.holds:
        new = flights[hold.flight]
        first = hold.first if hold.first != BEGIN or not hold.flight or flights[hold.flight - 1] != new else run.strikes[hold.flight - 1].node + 1
        last = hold.last if hold.last != END or flights.get(hold.flight + 1, -1) != new else run.strikes[hold.flight].node
        before = next((h for h in out if h.flight == new and h.spot == hold.spot and h.last + 1 == first), None)
        if before is not None:
            modes = np.where(np.arange(len(hold.modes)) <= before.last, before.modes, hold.modes)
            out[out.index(before)] = replace(before, last=last, modes=modes, flips=None)
        else:
            out.append(replace(hold, flight=new, first=first, last=last))
    return out


def finer(hold: Hold, old: np.ndarray, new: np.ndarray) -> Hold:
    """A hold on another mesh: over the same time."""
    h, step = old[1] - old[0], new[1] - new[0]
    index = np.clip(np.round((new - old[0]) / h).astype(int), 0, len(old) - 1)
    first = hold.first if hold.first == BEGIN else round((old[min(hold.first, len(old) - 1)] - new[0]) / step)
    last = hold.last if hold.last == END else round((old[min(hold.last, len(old) - 1)] - new[0]) / step)
    return replace(hold.on_mesh(index), first=first, last=last)


# -- rows that depend on each other ----------------------------------------------------------------------------------------------------


def marked(run: Struck, model: Model, numbers: Numbers, states: States) -> Struck:
    """With the rows that are of their own, and impacts that stick or slip as what they begin does."""
    run = _marked(run, model, numbers, states)
    if not run.seats:
        return run
    own = {s.strike for s in run.seats if s.own}
    strikes = [replace(s, **friction(run, i)) if i in own else replace(s, across=_across(run, i, model, numbers, states)) for i, s in enumerate(run.strikes)]
    return replace(run, strikes=tuple(strikes))


def _across(run: Struck, strike: int, model: Model, numbers: Numbers, states: States) -> tuple[bool, bool]:
    """Whether it is an equation of its own, beside those of places that stay closed, that an impact sticks."""
    seats, s = [seat for seat in run.seats if seat.strike == strike], run.strikes[strike]
    if not seats or not s.tangents:
        return (True, True)
    node, which = run.around[1, 1, strike], [*(seat.spot for seat in seats), s.spot]
    _, J = touched(run.structure, numbers, run.spots(model), states.q[:, node : node + 1], np.array(which), np.zeros(len(which), dtype=np.int64))
    J = turned(J, np.array([*(seat.turn for seat in seats), s.turn]), np.array([*(seat.tangents for seat in seats), s.tangents]))
    closed, stuck = [True] * len(which), [*(seat.tangents if seat.mode == STICKS else 0 for seat in seats), s.tangents]
    return _independent(list(J), closed, stuck, NEARLY)[1][-1]


def _marked(run: Struck, model: Model, numbers: Numbers, states: States) -> Struck:
    """Of places that touch at the same nodes the first rows that others do not explain."""
    assert run.mesh is not None
    plain = [replace(h, normal=None, across=None) for h in run.holds]
    if not any(run.holds[i].flight == run.holds[j].flight for i in range(len(plain)) for j in range(i)):
        return run if all(h.normal is None for h in run.holds) else run.held_by(plain)
    free = run.held_by(plain)
    held, K = free.closed, run.mesh.K
    _, J = held.places(run.structure, numbers, run.spots(model), states.q)
    normal, across = [np.ones(K, dtype=bool) for _ in plain], [np.ones((K, 2), dtype=bool) for _ in plain]
    by_node: dict[int, list[int]] = {}
    for e, node in enumerate(held.node):
        by_node.setdefault(int(node), []).append(e)
    closed = np.zeros(len(held.hold), dtype=bool)
    closed[held.gaps] = True
    known: dict[tuple, tuple[list[bool], list[tuple[bool, bool]]]] = {}
    for entries in by_node.values():
        if len(entries) < 2:
            continue
        key = tuple((int(held.hold[e]), bool(closed[e]), int(held.modes[e])) for e in entries)
        if key not in known:
            known[key] = _independent(
                [J[e] for e in entries], [bool(closed[e]) for e in entries], [plain[held.hold[e]].tangents if held.modes[e] == STICKS else 0 for e in entries]
            )
        for e, own, stuck in zip(entries, *known[key], strict=True):
            normal[held.hold[e]][held.mesh[e]], across[held.hold[e]][held.mesh[e]] = own, stuck
    return run.held_by([replace(h, normal=n, across=a) for h, n, a in zip(plain, normal, across, strict=True)])


def _independent(J: list[np.ndarray], closed: list[bool], tangents: list[int], dependent: float = DEPENDENT) -> tuple[list[bool], list[tuple[bool, bool]]]:
    """Which normals, and then which tangents that stick, are rows of their own."""
    basis: list[np.ndarray] = []

    def own(row: np.ndarray) -> bool:
        left = row - sum(((b @ row) * b for b in basis), np.zeros_like(row))
        size = float(np.linalg.norm(left))
        if size <= dependent * max(float(np.linalg.norm(row)), 1e-300):
            return False
        basis.append(left / size)
        return True

    normals = [not c or own(j[0]) for j, c in zip(J, closed, strict=True)]
    return normals, [tuple(c >= n or own(j[1 + c]) for c in range(2)) for j, n in zip(J, tangents, strict=True)]  # type: ignore[misc]


def unfolded(
    run: Struck, hits: Sequence[Hit], landings: Sequence[Hit], speeds: np.ndarray, model: Model, numbers: Numbers, states: States
) -> list[Hit] | None:  # fmt: skip
    """The hits of a run, those that land alone and so fast that they come back higher than data hide as impacts, after whose bounce they land; None where none does."""
    own = [i for i, s in enumerate(landings) if s.until is not None and sum(h.time == s.time for h in hits) == 1]
    if not own:
        return None
    out, (times, heights) = list(hits), rebounds(run, speeds, model, numbers, states)
    for i in own:
        hit, later = landings[i], landings[i].time + float(times[i])
        if heights[i] > HIGH and hit.until is not None and later + SHORTEST * run.h < hit.until:
            out[out.index(hit)] = replace(hit, time=later)
            out.append(Hit(hit.time, hit.spot))
    return out if len(out) > len(hits) else None


def rebounds(run: Struck, speeds: np.ndarray, model: Model, numbers: Numbers, states: States) -> tuple[np.ndarray, np.ndarray]:
    """(impacts,) how long places that strike with these speeds are away by the law of impacts [s], and how high they come in standard deviations that a sample leaves of the gap."""
    which = np.array([s.spot for s in run.strikes])
    sds, falls = gap_sd(run, model, numbers, states, np.unique(which)), falling(run, model, numbers, states)
    back = run.spots(model).restitution[which] * np.maximum(speeds, 0.0)
    sd = np.array([sds[int(spot)][node] for spot, node in zip(which, run.around[0, 1], strict=True)])
    return 2.0 * back / falls, back**2 / (2.0 * falls) / np.maximum(sd, 1e-300)


def falling(run: Struck, model: Model, numbers: Numbers, states: States) -> np.ndarray:
    """(impacts,) acceleration with which the place that strikes falls towards the other [m/s^2, rad/s^2]: about gravity, less or more of it where it turns about another place; of a limit, or without gravity,
    what it is, infinite where it does not fall."""
    gap = gaps(run.structure, model, numbers, states.q[:, run.around[0].ravel()]).reshape(-1, *run.around[0].shape)
    own = gap[[s.spot for s in run.strikes], :, np.arange(len(run.strikes))]
    falls, g = -np.diff(own, 2, axis=1)[:, 0] / run.h**2, float(np.linalg.norm(model.gravity))
    limits = np.array([s.spot >= len(run.spots(model).links[0]) for s in run.strikes])
    return np.where(limits | (g == 0.0), np.where(falls > 0.0, falls, np.inf), np.clip(falls, *(g * np.array(PULLED))))


def bounced(run: Struck, speeds: np.ndarray, model: Model, numbers: Numbers, states: States) -> list[Hold] | None:
    """The holds with the time in which they still bounce as long as it takes by the law of impacts, `2 e v / (1 - e) a` after a landing with the speed v; None where nothing changes, or
    friction is the same then."""
    assert run.mesh is not None
    spots, times, out = run.spots(model), run.mesh.times, list(run.holds)
    if not run.strikes:
        return None
    falls, more = falling(run, model, numbers, states), False
    for i, strike in enumerate(run.strikes):
        e = float(spots.restitution[strike.spot])
        for k, hold in enumerate(out):
            if hold.flight != i + 1 or hold.spot != strike.spot or hold.first != BEGIN or spots.friction[hold.spot] == spots.sliding[hold.spot]:
                continue
            ends = run.taus[i] + np.array([0.0, 2.0 * e * max(speeds[i], 0.0) / (max(1.0 - e, e / MANY) * falls[i])])
            share = np.clip(np.minimum(times + 0.5 * run.h, ends[1]) - np.maximum(times - 0.5 * run.h, ends[0]), 0.0, None) / run.h
            if np.abs(share - (0.0 if hold.bouncing is None else hold.bouncing)).sum() > CLOSE:
                out[k], more = replace(hold, bouncing=share), True
    return out if more else None


def alike(old: Struck, new: Struck) -> int:
    """Nodes of the first flights that two runs on the same mesh have in common."""
    same = 0
    while same < min(len(old.strikes), len(new.strikes)) and all(getattr(old.strikes[same], a) == getattr(new.strikes[same], a) for a in ("node", "spot")):
        same += 1
    count = int(old.offsets[same])
    return count if same and np.array_equal(old.place[:count], new.place[:count]) else 0


def closed_already(run: Struck, model: Model, numbers: Numbers, states: States) -> list[int]:
    """Impacts of places that others hold closed in the flight before (the last corner of a face that slides): no time can be said of them, and the equations would be singular."""
    held, out = run.closed, []
    if not len(held.hold):
        return out
    _, J = held.places(run.structure, numbers, run.spots(model), states.q)
    closed = np.zeros(len(held.hold), dtype=bool)
    closed[held.gaps] = True
    for i, strike in enumerate(run.strikes):
        node = run.around[0, 1, i]
        entries = np.flatnonzero((held.node == node) & closed)
        if len(entries):
            _, own = touched(run.structure, numbers, run.spots(model), states.q[:, node : node + 1], np.array([strike.spot]), np.zeros(1, dtype=np.int64))
            rows = [*J[entries], own[0]]
            if not _independent(rows, [True] * len(rows), [0] * len(rows))[0][-1]:
                out.append(i)
    return out


# -- forces where flights change -------------------------------------------------------------------------------------------------------


def remembered(old: Struck, states: States, flights: Mapping[int, int], strikes: Mapping[int, int], new: Struck, to: States) -> States:
    """States `to` of a new run with the forces of holds and the impulses of seats that the old one has; by what its flights and impacts are in the new one."""
    parts = {}
    if PUSHES in to.parts:
        out, known = to.parts[PUSHES].copy(), {}
        if PUSHES in states.parts:
            held, e = old.closed, old.closed.pushes
            flight = held.of_holds("flight")[e]
            keys = zip([flights[int(f)] for f in flight], held.spots[e].tolist(), held.mesh[e].tolist(), strict=True)
            known = dict(zip(keys, states.parts[PUSHES], strict=True))
        held, e = new.closed, new.closed.pushes
        for m, key in enumerate(zip(held.of_holds("flight")[e].tolist(), held.spots[e].tolist(), held.mesh[e].tolist(), strict=True)):
            out[m] = known.get(key, out[m])
            out[m, 1 + held.tangents[e[m]] :] = 0.0
        parts[PUSHES] = out
    if SEATS in to.parts:
        out = to.parts[SEATS].copy()
        seats = {(strikes[s.strike], s.spot): v for s, v in zip(old.seats, states.parts.get(SEATS, np.zeros((0, 4))), strict=True) if s.strike in strikes}
        for i, seat in enumerate(new.seats):
            out[i] = seats.get((seat.strike, seat.spot), out[i])
        parts[SEATS] = out
    return to.changed(**parts)


def held_anew(run: Struck, states: States, holds: Sequence[Hold], model: Model, numbers: Numbers) -> tuple[Struck, States]:
    """The run with other holds on the same flights, and its motion."""
    new = marked(run.held_by(holds), model, numbers, states)
    same = {f: f for f in range(len(run.strikes) + 1)}
    plain = new.still(states.q[:, 0])
    kept = {name: value for name, value in states.parts.items() if name in plain.parts and name not in (PUSHES, SEATS)}
    return new, remembered(run, states, same, same, new, plain.changed(**kept))


def begun(run: Struck, hits: Sequence[Hit], model: Model, numbers: Numbers, states: States) -> tuple[Struck, States]:
    """A run that has the impacts of some hits with their lasting contacts too, as its first motion shows them."""
    holds = holds_of(run, hits)
    if not holds:
        return run, states
    shown = seen(run.held_by(holds), model, numbers, states)
    return held_anew(run, states, shown.holds, model, numbers)
