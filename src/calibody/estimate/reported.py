"""From what is solved for to what is reported: most unknowns are reported as they are, all ten numbers of a body by the model's paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    names, values, scale = [e.name for e in entries], theta.copy(), np.array([e.scale for e in entries])
    by_theta = np.eye(len(theta))
    for group, at in groups(entries):
        phi = theta[at]
        names[at] = list(group.linear_names if linear else group.paths)
        values[at] = group.linear(phi) if linear else group.reported(phi)
        scale[at] = group.scales(linear)
        by_theta[at, at] = group.jacobian(phi, linear)
    return Reported(tuple(names), values, scale, by_theta)


def groups(entries: Sequence[Entry]) -> list:
    """(chart, slice of theta) of every body whose ten numbers are unknown."""
    return [(e.group, slice(k, k + 10)) for k, e in enumerate(entries) if e.group is not None and e.member == 0]
