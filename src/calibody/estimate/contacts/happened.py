"""What the impacts of a run did, as events of a motion: speeds before and after follow from the flights, impulses are unknowns of the fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from calibody.estimate.contacts import strikes as law
from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.lasting import STICKS
from calibody.estimate.contacts.pressed import logged
from calibody.estimate.contacts.settle import met
from calibody.estimate.layout import IMPACTS, PUSHES, States
from calibody.mechanics.contact import basis
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.steppers.events import SLIP, STICK, ContactLog, Event

if TYPE_CHECKING:
    from calibody.estimate.observed import Observed


def happened(run: Struck, model: Model, numbers: Numbers, states: States) -> list[Event]:
    """The impacts of a run as events of a motion."""
    if not run.strikes:
        return []
    found, values, spots = met(run, model, numbers, states), states.parts[IMPACTS], run.spots(model)
    approach, parting = found.approach, found.parting
    between, out = len(spots.links[0]), []
    for i, strike in enumerate(run.strikes):
        L = values[i, 1:].copy()
        c, s = np.cos(strike.turn), np.sin(strike.turn)
        L[1:] = c * L[1] - s * L[2], s * L[1] + c * L[2]
        k = strike.spot
        world = spots.sign[k - between] * L if k >= between else spots.side[k] * (L @ basis(found.touch.normal[:, k, i][None])[0])
        lost = 0.5 * (found.before[:, i] @ found.mass[..., i] @ found.before[:, i] - found.after[:, i] @ found.mass[..., i] @ found.after[:, i])
        three = (float(world[0]), float(world[1]), float(world[2]))
        restitution = float(spots.restitution[k]) if strike.mode != law.LAWLESS else float(-parting[i, 0] / approach[i, 0])
        out.append(
            Event(
                float(values[i, 0]),
                spots.owner_name(k),
                strike.mode,
                three,
                float(L[0]),
                float(-approach[i, 0]),
                float(parting[i, 0]),
                float(lost),
                restitution,
            )
        )
    return out


def log_of(run: Struck, model: Model, numbers: Numbers, states: States) -> ContactLog:
    """Events, impulses by step and kinetic energies beside impacts, for a motion on the nodes of the mesh."""
    assert run.mesh is not None
    events, spots = happened(run, model, numbers, states), run.spots(model)
    log = ContactLog.empty(len(model.contacts) + len(model.limits), run.structure.n + 1, run.mesh.K)
    log.events.extend(events)
    for strike, event in zip(run.strikes, events, strict=True):
        step = int(np.clip((event.time - run.mesh.times[0]) // run.h, 0, run.mesh.K - 2))
        log.impulse[spots.owner[strike.spot], :, step] += event.impulse
        for node in (step, step + 1):
            log.kinetic[node] = _kinetic(run, numbers, states, node)
    logged(run, model, numbers, states, log)
    return log


def _kinetic(run: Struck, numbers: Numbers, states: States, node: int) -> float:
    """Kinetic energy at a node of the mesh, from the flight that it is in."""
    at, flight = int(run.actual[node]), int(run.flight_of(run.times[run.actual[node]][None])[0])
    middle = int(np.clip(at, run.offsets[flight] + 1, run.offsets[flight + 1] - 2))
    nodes = states.q[:, middle - 1 : middle + 2, None]
    q, v = law.parabola(run.structure, nodes, np.array([float(at - middle)]), run.h)
    return float(0.5 * v[:, 0] @ law.masses(run.structure, numbers, q)[..., 0] @ v[:, 0])


def slipping(problem: Observed, x: Sequence[States], owner: str, impacts: bool = True, lasting: bool = True) -> tuple[int, float]:
    """How many `impacts` on a contact, and nodes where it is `lasting`, slip, and the largest tangential impulse or force over the normal one of those that stick."""
    slips, least = 0, 0.0
    for run, states in zip(problem.runs, x, strict=True):
        if not isinstance(run, Struck):
            continue
        for strike, name, (_, n, *t) in zip(run.strikes, run.owners, states.parts[IMPACTS], strict=True) if impacts else ():
            slips += name == owner and strike.mode == SLIP
            least = max(least, float(np.hypot(*t)) / n if name == owner and strike.mode == STICK and n > 0.0 else 0.0)
        if not lasting:
            continue
        e, held = run.closed.pushes, run.closed
        mine = np.array([name == owner for name in run.lasting_on], dtype=bool)[held.hold[e]] if len(e) else np.zeros(0, dtype=bool)
        slips += int((mine & (held.modes[e] != STICKS)).sum())
        force, stuck = states.parts[PUSHES][mine & (held.modes[e] == STICKS)] if mine.any() else np.zeros((0, 3)), 0.0
        if len(force) and not slips:
            usual = float(np.median(force[:, 0]))
            stuck = max((float(np.hypot(*f[1:]) / f[0]) for f in force if f[0] > 0.1 * usual), default=0.0)
        least = max(least, stuck)
    return slips, least


def spells(run: Struck, owner: str) -> list[tuple[float, float, float]]:
    """(first, last time, share that slips) of every time that a contact stays closed, one or several of its places."""
    held, times, nodes = run.closed, run.clock, np.zeros((2, len(run.clock)), dtype=bool)
    actual = np.full(run.K, -1)
    actual[run.actual] = np.arange(len(run.actual))
    mine = np.array([name == owner for name in run.lasting_on], dtype=bool)[held.hold]
    for row, which in enumerate((np.isin(np.arange(len(mine)), held.gaps) & mine, mine & (held.modes != STICKS) & (held.tangents > 0))):
        at = actual[held.node[which]]
        nodes[row, at[at >= 0]] = True
    closed = np.flatnonzero(nodes[0])
    if not len(closed):
        return []
    ends = np.flatnonzero(np.diff(closed) > 2)
    spans = zip(closed[np.append(0, ends + 1)], closed[np.append(ends, len(closed) - 1)], strict=True)
    return [(float(times[a]), float(times[b]), float(nodes[1, a : b + 1].mean())) for a, b in spans]
