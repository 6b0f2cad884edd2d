"""What changes of impacts while a fit is on its way: which interval each is in, whether it sticks or slips, whether it is one at all.

After every step (`minimise` asks): an impact whose time has left its interval by more than `BEYOND` steps is handed to the interval it is in; stick or slip is what the law of impacts
decides from the velocity before. Each is changed `MOST` times at most, not counting how far it goes one way: what goes back and forth between two states stays in the last.
Contact that lasts sticks or slips at every node as its own forces and velocities say (`held.py`).
Once the equations hold: an impact that pulls is taken out (`pushing`), and where the motion goes through something, one is put in (`missed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibody.estimate.contacts import held, landing, strikes as law
from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.hits import gaps
from calibody.estimate.contacts.staying import gap_sd
from calibody.estimate.contacts.strikes import LAWLESS, Met, Strike
from calibody.estimate.layout import IMPACTS, NODES, States, interpolated
from calibody.estimate.run import Run
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.steppers.events import SLIP, STICK

BEYOND = 0.25
"""Steps beyond its interval from which on an impact is handed over."""
MOST = 4
MET = 0.1
"""How far apart the flights before and after an impact may be where its mode is decided, in what they go in a step."""
SLIPPING = 0.2
"""Speed of the slip after an impact, as the data show it, over the speed before, from which it slips where friction is unknown."""
TAIL = 3.0
"""Sampling periods before the end of a recording in which nothing is missed: what follows an impact there is hardly seen."""
THROUGH = 1e-3
"""How deep a motion may be inside something, relative to the range of the gap in the run; and as deep as one standard deviation that a sample leaves of the gap."""


def met(run: Struck, model: Model, numbers: Numbers, states: States) -> Met:
    """What happens at the impacts of a run."""
    which = np.array([s.spot for s in run.strikes])
    return law.meet(run.structure, numbers, run.spots(model), which, run.sides(states), run.h)


def decided(strike: Strike, W: np.ndarray, before: np.ndarray, friction: float, restitution: float) -> tuple[Strike, np.ndarray]:
    """Stick or slip as the law of impacts says from the velocities (3,) before and the mobility W (3, 3) of a place, and its impulse."""
    from calibody.steppers.impact import impact  # with jax, which a fit without impacts does not wait for

    tangents, turn = law.directions(W)
    closing = before.copy()
    closing[0] = min(closing[0], -1e-9)
    held = W + 1e-9 * W[0, 0] * np.diag([0.0, 1.0, 1.0])  # of a tangent that moves nothing
    found = impact(held, closing[None], np.array([friction]), np.array([restitution]), np.array([False]))
    after, L = found.after[0], found.impulse[0]
    c, s = np.cos(turn), np.sin(turn)
    slip = c * after[1] + s * after[2]
    L = np.array([L[0], c * L[1] + s * L[2], c * L[2] - s * L[1]])
    L[1 + tangents :] = 0.0
    inside = float(np.hypot(*L[1:])) < friction * L[0] * (1.0 - 1e-9)
    mode = STICK if tangents and inside else SLIP
    return replace(strike, mode=mode, tangents=tangents, turn=turn, towards=float(np.sign(slip) or 1.0) if tangents == 1 and mode == SLIP else 0.0), L


def shown(strike: Strike, W: np.ndarray, before: np.ndarray, after: np.ndarray) -> tuple[Strike, np.ndarray]:
    """Stick or slip as the velocities (3,) before and after say, and the impulse between them: where friction is unknown, a law that has it wrong decides nothing."""
    tangents, turn = law.directions(W)
    c, s = np.cos(turn), np.sin(turn)
    held = W + 1e-9 * W[0, 0] * np.diag([0.0, 1.0, 1.0])
    L = np.linalg.solve(held, after - before)
    L = np.array([max(L[0], 1e-3 * abs(before[0]) / W[0, 0]), c * L[1] + s * L[2], c * L[2] - s * L[1]])
    L[1 + tangents :] = 0.0
    slip = np.array([c * after[1] + s * after[2], c * after[2] - s * after[1]])[: max(tangents, 1)]
    slips = not tangents or float(np.linalg.norm(slip)) > SLIPPING * float(np.linalg.norm(before))
    towards = float(np.sign(slip[0]) or 1.0) if tangents == 1 and slips else 0.0
    return replace(strike, mode=SLIP if slips else STICK, tangents=tangents, turn=turn, towards=towards), L


def settled(run: Struck, model: Model, numbers: Numbers, states: States, balanced: bool = True) -> tuple[Run, States] | None:
    """The run with its impacts, and where its equations are `balanced` its lasting contact, as they are now; None where nothing changes."""
    new = _impacts(run, model, numbers, states) if run.strikes else None
    run, states = (run, states) if new is None else new  # type: ignore[assignment]
    if not balanced:
        return new
    changed = held.flipped(run, model, numbers, states)
    if changed is None and new is None:  # where it sticks and slips is settled: so is then what pulls
        changed = held.released(run, states)
    return new if changed is None else landing.held_anew(run, states, changed, model, numbers)


def _impacts(run: Struck, model: Model, numbers: Numbers, states: States) -> tuple[Struck, States] | None:
    """The run with its impacts as they are now."""
    spots, found = run.spots(model), met(run, model, numbers, states)
    values, W = states.parts[IMPACTS], law.mobility(found)
    approach = found.approach
    new: list[Strike] = []
    sampled, stays = values[:, 0].copy(), {s.strike: s for s in run.seats}
    for i, strike in enumerate(run.strikes):
        changed = strike
        if strike.changes >= MOST:
            sampled[i] = run.taus[i]
        else:
            changed = _handed(run, changed, float(values[i, 0]))
            if i in stays:  # friction is that of the flight after
                changed = replace(changed, **landing.friction(run, i)) if any(s.own for s in run.seats if s.strike == i) else changed
            elif strike.mode != LAWLESS and _joined_well(found, i, run.h):
                changed, _ = decided(changed, W[i], approach[i], spots.friction[strike.spot], spots.restitution[strike.spot])
        if changed != strike or _passed(run, i, sampled[i]):
            changed = _counted(strike, changed, float(sampled[i] - run.taus[i]))
        new.append(changed)
    order = _order(values[:, 0], new)
    new = [new[i] if i == k else replace(new[i], changes=max(new[i].changes, run.strikes[i].changes + 1)) for k, i in enumerate(order)]
    taus, keep = np.sort(sampled), order
    if tuple(new) == run.strikes:
        return None
    moved_, to = moved(run, states, keep, new, taus, model, numbers)
    assert isinstance(moved_, Struck)
    return moved_, to


def _counted(old: Strike, new: Strike, later: float) -> Strike:
    """A changed impact with one change more, but where it only goes on the way that it went: that ends."""
    way = int(np.sign(later))
    goes_on = replace(new, node=old.node) == old and old.went in (0, way)
    return replace(new, went=way, changes=old.changes + (not goes_on))


def _order(times: np.ndarray, strikes: Sequence[Strike]) -> list[int]:
    """In which order impacts come: that of their times, but two that have changed often stay as they are, since two corners that strike at once go back and forth otherwise."""
    order = list(range(len(times)))
    for _ in order:
        for k in range(len(order) - 1):
            a, b = order[k], order[k + 1]
            if times[a] > times[b] and min(strikes[a].changes, strikes[b].changes) < MOST:
                order[k], order[k + 1] = b, a
    return order


def _joined_well(found: Met, i: int, h: float) -> bool:
    """Whether the flights on both sides of an impact meet: before they do, velocities decide nothing."""
    speed = np.abs(found.before[:, i]).max() + np.abs(found.after[:, i]).max()
    return bool(np.abs(found.apart[:, i]).max() <= MET * h * speed)


def pushing(run: Struck, states: States, model: Model, numbers: Numbers) -> tuple[Run, States] | None:
    """The run without impacts that pull; None where all push."""
    values = states.parts[IMPACTS]
    keep = np.flatnonzero(values[:, 1] > 0.0).tolist()
    return None if len(keep) == len(values) else moved(run, states, keep, [run.strikes[i] for i in keep], values[keep, 0], model, numbers)


def _handed(run: Struck, strike: Strike, tau: float) -> Strike:
    assert run.mesh is not None
    position = (tau - run.mesh.times[0]) / run.h
    if -BEYOND <= position - strike.node <= 1.0 + BEYOND:
        return strike
    return replace(strike, node=int(np.clip(np.floor(position), 0, run.mesh.K - 2)))


def _passed(run: Struck, i: int, tau: float) -> bool:
    """Whether a sample is in another flight than it was taken to be, with an impact at tau."""
    return any(np.searchsorted(d.times, run.taus[i]) != np.searchsorted(d.times, tau) for d in run.data)


def moved(run: Struck, states: States, keep: Sequence[int], new: Sequence[Strike], taus: np.ndarray, model: Model, numbers: Numbers) -> tuple[Run, States]:
    """The run with other impacts, of which number k was number keep[k] before, and its motion."""
    flights = {f: sum(i < f for i in keep) for f in range(len(run.strikes) + 1)}
    holds = landing.merged(run, flights)
    if not new and not holds:
        plain = run.changed((), ())
        return plain, plain.still(states.q[:, 0]).changed(**{NODES: states.q[:, run.actual]})
    to = run.changed(new, taus, holds)
    assert isinstance(to, Struck)
    parts = []
    for flight in range(len(new) + 1):
        # a flight that has lost its beginning or its end to a neighbour that was taken out goes on from the longest that is left of both
        first, last = (-1 if flight == 0 else keep[flight - 1]), (len(run.strikes) if flight == len(new) else keep[flight])
        own = range(first + 1, last + 1) if last > first else range(last + 1, first + 1)
        q, times = _joined(run, states, own)
        parts.append(interpolated(run.structure, q, times, to.times[to.offsets[flight] : to.offsets[flight + 1]]))
    impacts = states.parts[IMPACTS][list(keep)].copy()
    for k, strike in enumerate(new):
        impacts[k, 2 + strike.tangents :] = 0.0
    if run.turning is not None:
        to = replace(to, turning=_on_mesh(run, run.turning)[:, to.intervals])
    nodes = np.concatenate(parts, axis=1)
    to = landing.marked(to, model, numbers, to.still(states.q[:, 0]).changed(nodes=nodes))
    rest = to.still(states.q[:, 0]).changed(**{NODES: nodes, IMPACTS: impacts})
    return to, landing.remembered(run, states, flights, {i: k for k, i in enumerate(keep)}, to, rest)


def _on_mesh(run: Struck, by_interval: np.ndarray) -> np.ndarray:
    """What the intervals of all flights have, by interval of the mesh."""
    at = np.minimum(run.actual[:-1], run.K - 2)
    return by_interval[:, np.where(run.flying[at], at, at - 1)]


def _joined(run: Struck, states: States, flights: range) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of flights that become one, each where it was the motion; of a single one all its nodes."""
    assert run.mesh is not None
    if len(flights) == 1:
        f = flights[0]
        at = slice(int(run.offsets[f]), int(run.offsets[f + 1]))
        return states.q[:, at], run.times[at]
    ends = run.spans[flights[0], 0], run.spans[flights[-1], 1]  # the other way round where impacts have changed places
    k = np.arange(min(ends), max(ends) + 1)
    flight = np.clip(run.flight_of(run.mesh.times[k]), flights[0], flights[-1])
    at = run.offsets[flight] + np.clip(k, *run.spans[flight].T) - run.spans[flight, 0]
    return states.q[:, at], run.mesh.times[k]


# -- where something is in the way -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Missed:
    """A place that the motion goes through."""

    time: float
    spot: int


def missed(run: Run, model: Model, numbers: Numbers, states: States) -> Missed | None:
    """Where the motion goes deepest through something, at the time when it enters; None: nowhere."""
    mesh = run.mesh if isinstance(run, Struck) and run.mesh is not None else run
    at = run.actual_with(np.sort(states.parts[IMPACTS][:, 0])) if isinstance(run, Struck) and run.strikes else run.actual
    gap = gaps(run.structure, model, numbers, states.q[:, at])
    if isinstance(run, Struck):
        gap[run.shut] = np.inf
    depth = np.where(np.isfinite(gap), -gap, -1.0) / np.maximum(np.ptp(np.where(np.isfinite(gap), gap, 0.0), axis=1, keepdims=True), 1e-300)
    depth[:, mesh.times > run.recording.end - TAIL * run.recording.period] = -1.0
    deep = [int(s) for s in np.flatnonzero(depth.max(axis=1) > THROUGH)]
    if deep:  # and deeper than what samples can tell
        sd = gap_sd(run, model, numbers, states, np.array(deep))
        for s in deep:
            depth[s, -gap[s] <= sd[s][at]] = -1.0
    spot, node = np.unravel_index(int(np.argmax(depth)), depth.shape)
    if depth[spot, node] <= THROUGH:
        return None
    k = int(node)
    while k > 0 and gap[spot, k - 1] < 0.0:
        k -= 1
    if k == 0:
        return None
    a, b = float(gap[spot, k - 1]), float(gap[spot, k])
    return Missed(float(mesh.times[k - 1] + (mesh.h * a / (a - b) if np.isfinite(a) else mesh.h)), int(spot))
