"""Contacts and limits are left out of fits: what a fit has to say about them.

That alone, as long as nothing comes near. Where the fitted motion reaches a contact, its force is missing from the equations and the estimates make up for it with whatever they can: then
the sentence says where, and that they cannot be trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.gauss_newton import Solution

if TYPE_CHECKING:
    from calibody.estimate.observed import Observed

NEAR = 0.01
"""A gap below this share of the range that it has in a run counts as touching: impacts lie between samples."""


def sentences(problem: Observed, solution: Solution, recordings: list[Recording]) -> list[str]:
    """Nothing for a model that nothing touches."""
    names = _names(problem.model)
    if not names or not problem.dynamic:
        return []
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    out = [f"Contacts and limits do not act in fits ({', '.join(names[:3])}{more})."]
    for r, states in enumerate(solution.x):
        motion = problem.motion(r, states, solution.theta)
        for name in names:
            gap = motion[f"{name}.gap"]
            touching = gap <= NEAR * np.ptp(gap)
            if touching.any() and gap.min() < NEAR * max(float(gap.max()), 1e-300):
                first = motion.time[int(np.argmax(touching))]
                out.append(
                    f"The fitted motion of {recordings[r].name} reaches {name} at t = {first:.4g} s, whose force the fit leaves out: do not trust the estimates, and cut "
                    "the recording to where nothing touches."
                )
    return out


def _names(model: Model) -> list[str]:
    return [*(f"contact.{c.name}" for c in model.contacts), *(f"limit.{x.name}" for x in model.limits)]
