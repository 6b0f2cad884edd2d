"""The impacts of a fit with error bars.

Time and impulse of an impact are unknowns of the fit, so their error bars are those of unknowns, given the sequence of impacts: with K the KKT matrix of the states and X their response to
the parameters, `variance = factor (K^-1)_ii + X_i cov X_i'` (as of channels, `channels.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibody.estimate.channels import ROUNDING, lost, stepped_of
from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.happened import happened
from calibody.estimate.identifiability import HIDDEN
from calibody.estimate.layout import IMPACTS

if TYPE_CHECKING:
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


def events(result: Result) -> tuple[Happened, ...]:
    """Of all runs of a fit, in the order of time."""
    out: list[Happened] = []
    for r, run in enumerate(result.problem.runs):
        if not isinstance(run, Struck) or not run.strikes:
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
