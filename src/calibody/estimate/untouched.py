"""Contacts and limits in the notes of a fit: what they did, or that they are left out.

Where they act: how many impacts there were, and where the answer cannot be trusted. Where they do not: that alone, as long as nothing comes near. Where the fitted motion reaches a contact, its
force is missing from the equations and the estimates make up for it with whatever they can: then the sentence says where, and that they cannot be trusted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from calibody.estimate.flights import Struck
from calibody.estimate.happened import slipping
from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.gauss_newton import Solution

if TYPE_CHECKING:
    from calibody.estimate.observed import Observed
    from calibody.estimate.uncertainty import Uncertainty

NEAR = 0.01
"""A gap below this share of the range that it has in a run counts as touching: impacts lie between samples."""
COARSE = 0.1
"""Relative standard deviation from which estimates from impacts are not trusted: their distributions are long-tailed there, and intervals cover less than they say."""
UNLIKELY = 4.0
"""Standard deviations of chi2 from which on a sequence of impacts is not believed."""
DOUBT = "The sequence of impacts cannot be trusted"
"""How the note begins that says so; the verdict looks for it."""


def sentences(problem: Observed, solution: Solution, recordings: list[Recording], found: Uncertainty) -> list[str]:
    """Nothing for a model that nothing touches."""
    names = _names(problem.model)
    if not names or not problem.dynamic:
        return []
    return _acted(problem, solution, found) if problem.contacts else _left_out(problem, solution, recordings, names)


def _acted(problem: Observed, solution: Solution, found: Uncertainty) -> list[str]:
    """Of contacts that act."""
    count = Counter(name for run in problem.runs if isinstance(run, Struck) for name in run.owners)
    if not count:
        return ["Nothing touches in these recordings: contacts and limits say nothing."]
    out = [f"{', '.join(f'{n} impacts on {name}' if n > 1 else f'one impact on {name}' for name, n in sorted(count.items()))}."]
    if not solution.converged:
        return out
    ratio = found.chi2 / found.dof if found.dof > 0 else 1.0
    if found.dof > 0 and ratio > 1.0 + UNLIKELY * np.sqrt(2.0 / found.dof):
        out.append(
            f"{DOUBT}: with it chi2 is {ratio:.3g} per degree of freedom, {(ratio - 1.0) / np.sqrt(2.0 / found.dof):.0f} standard deviations too much; an impact is missing, too many or wrong, or the "
            'law of impacts is not the model\'s (try contacts = "free").'
        )
    wide = [
        (name, sd / abs(x))
        for name, x, sd in zip(found.reported.names, found.reported.values, found.sd, strict=True)
        if np.isfinite(sd) and x and sd > COARSE * abs(x)
    ]
    out += [
        f"{name} has a standard deviation of {100 * relative:.0f} % of itself: from impacts, intervals that wide may cover less than they say."
        for name, relative in wide
    ]
    return [*out, *_sticking(problem, solution)]


def _sticking(problem: Observed, solution: Solution) -> list[str]:
    """Unknown friction of which no impact slipped."""
    out = []
    for contact in problem.model.contacts:
        name = f"contact.{contact.name}"
        if not any(place.path == f"{name}.friction" for e in problem.entries for place in e.places):
            continue
        slips, least = slipping(problem, solution.x, name)
        if not slips:
            out.append(f"No impact on {name} slipped, so its friction is at least {least:.3g}, and not determined beyond that.")
    return out


def _left_out(problem: Observed, solution: Solution, recordings: list[Recording], names: list[str]) -> list[str]:
    """Of contacts that do not act."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    out = [f"Contacts and limits do not act in this fit ({', '.join(names[:3])}{more})."]
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
