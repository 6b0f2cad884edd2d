"""The impacts of a fit: when they were, what they did, and how well that is known.

Time and impulse of an impact are unknowns of the fit, so their error bars are those of unknowns, given the sequence of impacts: with K the KKT matrix of the states and X their response to
the parameters, `variance = factor (K^-1)_ii + X_i cov X_i'` (as of channels, `channels.py`). Speeds before and after follow from the flights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibody.estimate import strikes as law
from calibody.estimate.flights import Struck
from calibody.estimate.identifiability import HIDDEN
from calibody.estimate.layout import IMPACTS, States
from calibody.estimate.settle import met
from calibody.mechanics.contact import basis
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.steppers.events import SLIP, STICK, ContactLog, Event

if TYPE_CHECKING:
    from calibody.estimate.observed import Observed
    from calibody.estimate.result import Result


@dataclass(frozen=True)
class Happened:
    """One impact of a run, with standard deviations given the sequence; None where the data do not determine a number, and of a fit that did not converge."""

    run: str
    contact: str
    """`contact.NAME` or `limit.NAME`."""
    time: float
    time_sd: float | None
    mode: str
    """ "stick", "slip", or "free": an impulse that follows no law."""
    normal_impulse: float
    """[N s, N m s]"""
    normal_impulse_sd: float | None
    impulse: tuple[float, float, float]
    """Of b on a in world axes [N s]; of a limit on the coordinate, as the first number."""
    tangential_impulse: float
    """Its part across the normal [N s]."""
    approach_speed: float
    separation_speed: float
    energy_lost: float
    """[J]"""


def happened(run: Struck, model: Model, numbers: Numbers, states: States) -> list[Event]:
    """The impacts of a run as events of a motion."""
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
    return log


def _kinetic(run: Struck, numbers: Numbers, states: States, node: int) -> float:
    """Kinetic energy at a node of the mesh, from the flight that it is in."""
    at, flight = int(run.actual[node]), int(run.flight_of(run.times[run.actual[node]][None])[0])
    middle = int(np.clip(at, run.offsets[flight] + 1, run.offsets[flight + 1] - 2))
    nodes = states.q[:, middle - 1 : middle + 2, None]
    q, v = law.parabola(run.structure, nodes, np.array([float(at - middle)]), run.h)
    return float(0.5 * v[:, 0] @ law.masses(run.structure, numbers, q)[..., 0] @ v[:, 0])


def slipping(problem: Observed, x: Sequence[States], owner: str) -> tuple[int, float]:
    """How many impacts on a contact slip, and the largest tangential impulse over the normal one of those that stick."""
    slips, least = 0, 0.0
    for run, states in zip(problem.runs, x, strict=True):
        if isinstance(run, Struck):
            for strike, name, (_, n, *t) in zip(run.strikes, run.owners, states.parts[IMPACTS], strict=True):
                slips += name == owner and strike.mode == SLIP
                least = max(least, float(np.hypot(*t)) / n if name == owner and strike.mode == STICK and n > 0.0 else 0.0)
    return slips, least


def events(result: Result) -> tuple[Happened, ...]:
    """Of all runs of a fit, in the order of time."""
    out: list[Happened] = []
    for r, run in enumerate(result.problem.runs):
        if not isinstance(run, Struck):
            continue
        model, numbers, _ = result.problem.model_of(r, result.theta)
        found = happened(run, model, numbers, result.states[r])
        sds = _sds(result, r, run) if result.converged else np.full((len(run.strikes), 2), np.inf)
        for event, (time_sd, impulse_sd) in zip(found, sds, strict=True):
            tangential = float(np.sqrt(max(float(np.sum(np.square(event.impulse))) - event.normal_impulse**2, 0.0)))
            known = [float(sd) if np.isfinite(sd) else None for sd in (time_sd, impulse_sd)]
            out.append(
                Happened(
                    result.recordings[r].name,
                    event.contact,
                    event.time,
                    known[0],
                    event.mode,
                    event.normal_impulse,
                    known[1],
                    event.impulse,
                    tangential,
                    event.approach_speed,
                    event.separation_speed,
                    event.energy_lost,
                )
            )
    return tuple(out)


def _sds(result: Result, r: int, run: Struck) -> np.ndarray:
    """(impacts, 2) of times and normal impulses; inf where they follow what the data do not determine."""
    from calibody.estimate.channels import ROUNDING, lost, stepped_of

    found, e = result.uncertainty, stepped_of(result).runs[r]
    rows = np.stack([run.layout.member(IMPACTS, k) for k in (0, 1)], axis=1)
    sides = np.zeros((len(e.factor.scale), rows.size))
    sides[rows.ravel(), np.arange(rows.size)] = 1.0
    own = e.factor.solve(sides)[rows.ravel(), np.arange(rows.size)]
    along = e.response[rows.ravel()]
    covariance = found.covariance_theta[np.ix_(e.columns, e.columns)]
    variance = np.maximum(found.factor * own + np.einsum("ij,jk,ik->i", along, covariance, along), 0.0)
    hidden = lost(found, along, e.columns)
    sd = np.where(hidden > np.maximum(HIDDEN * variance, ROUNDING), np.inf, np.sqrt(variance)).reshape(rows.shape)
    return sd * np.array([run.h, 1.0])
