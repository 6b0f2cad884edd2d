"""Between what is solved for and what is reported: most unknowns are the same in both, all ten numbers of a body are solved for in a chart.

What is written, read and shown is always what is reported; `theta_of` brings it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibody.errors import CalibodyError, nearest
from calibody.estimate.unknowns import Entry


@dataclass(frozen=True)
class Reported:
    """Names, values and scales of the reported numbers, and their derivative with respect to theta."""

    names: tuple[str, ...]
    values: np.ndarray
    scale: np.ndarray
    by_theta: np.ndarray


def reported(entries: Sequence[Entry], theta: np.ndarray, linear: bool = False) -> Reported:
    """In the order of theta. `linear`: inertias by their mass, first moment and inertia about the origin."""
    names, scale, by_theta = [e.name for e in entries], np.array([e.scale for e in entries]), np.eye(len(theta))
    for group, at in groups(entries):
        names[at] = list(group.linear_names if linear else group.paths)
        scale[at] = group.scales(linear)
        by_theta[at, at] = group.jacobian(theta[at], linear)
    return Reported(tuple(names), values_of(entries, theta, linear), scale, by_theta)


def values_of(entries: Sequence[Entry], theta: np.ndarray, linear: bool = False) -> np.ndarray:
    """The reported numbers alone."""
    values = theta.copy()
    for group, at in groups(entries):
        values[at] = group.linear(theta[at]) if linear else group.reported(theta[at])
    return values


def initial_theta(entries: Sequence[Entry]) -> np.ndarray:
    return np.array([e.initial for e in entries])


def theta_of(entries: Sequence[Entry], start: Mapping[str, float]) -> np.ndarray:
    """theta where reported numbers are given by name (within their bounds), at its initial values where not."""
    names, theta = [e.name for e in entries], initial_theta(entries)
    for name in start:
        if name not in names:
            raise CalibodyError(f'The fit is to start from a value of "{name}", which is not estimated{nearest(name, names) or "; leave it out."}')
    values = np.array([start.get(name, x) for name, x in zip(names, values_of(entries, theta), strict=True)], dtype=float)
    for group, at in groups(entries):
        given = any(name in start for name in names[at])
        values[at] = group.phi(values[at]) if given else theta[at]
    return np.clip(values, [e.lower for e in entries], [e.upper for e in entries])


def groups(entries: Sequence[Entry]) -> list:
    """(chart, slice of theta) of every body whose ten numbers are unknown."""
    return [(e.group, slice(k, k + 10)) for k, e in enumerate(entries) if e.group is not None and e.member == 0]
