"""Contacts and limits in the notes of a fit: what they did, or that they are left out.

Where they act: how many impacts there were, and where the answer cannot be trusted. Where they do not: that alone, as long as nothing comes near. Where the fitted motion reaches a contact, its
force is missing from the equations and the estimates make up for it with whatever they can: then the sentence says where, and that they cannot be trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from calibody.estimate.contacts import landing
from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.happened import slipping, spells
from calibody.estimate.contacts.hits import gaps
from calibody.estimate.contacts.settle import met, missed
from calibody.estimate.contacts.staying import gap_sd
from calibody.estimate.result import IMPACTS_DOUBTED
from calibody.mechanics.contact import Spots
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
HIDDEN, DIM = 2.0, 0.015
"""Where nothing rises between impacts by more than so many standard deviations of a sample, no single impact is seen, and their sequence rests on the law of impacts: estimates are not trusted there from the
second relative standard deviation on. Of drops at 10 dB, in which that is so, 95 % intervals hold eight or nine of ten (`examples/impact_study.py`)."""
SEEN = 1.0
"""Standard deviations of a sample above which a place would bounce that cannot be told to stay."""
TOLD = 4
"""Spells of lasting contact that are named."""
UNLIKELY = 4.0
"""Standard deviations of chi2 from which on a sequence of impacts is not believed."""


def sentences(problem: Observed, solution: Solution, recordings: list[Recording], found: Uncertainty) -> list[str]:
    """Nothing for a model that nothing touches."""
    names = _names(problem.model)
    if not names or not problem.dynamic:
        return []
    return _acted(problem, solution, recordings, found, names) if problem.contacts else _left_out(problem, solution, recordings, names)


def _acted(problem: Observed, solution: Solution, recordings: list[Recording], found: Uncertainty, names: list[str]) -> list[str]:
    """Of contacts that act."""
    count = Counter(name for run in problem.runs if isinstance(run, Struck) for name in run.owners)
    stays = list(_stays(problem, recordings))
    if not count and not stays:
        lasting = [
            f"The fitted motion of {run} is at {name} at t = {time:.4g} s, and no impact was found: and nothing that lasts: do not trust the "
            "estimates, and cut the recording to where nothing touches."
            for run, name, time in _reached(problem, solution, recordings, names)
        ]
        return lasting or ["Nothing touches in these recordings: contacts and limits say nothing."]
    out = [f"{', '.join(f'{n} impacts on {name}' if n > 1 else f'one impact on {name}' for name, n in sorted(count.items()))}."] if count else []
    out += stays
    if not solution.converged:
        return out
    ratio = found.chi2 / found.dof if found.dof > 0 else 1.0
    if found.dof > 0 and ratio > 1.0 + UNLIKELY * np.sqrt(2.0 / found.dof):
        out.append(
            f"{IMPACTS_DOUBTED}: with it chi2 is {ratio:.3g} per degree of freedom, {(ratio - 1.0) / np.sqrt(2.0 / found.dof):.0f} standard deviations too much; an impact is missing, too many or "
            'wrong, something rests or slides, or the law of impacts is not the model\'s (try contacts = "free").'
        )
    return [
        *out,
        *_through(problem, solution, recordings),
        *_back(problem, solution, recordings),
        *_wide(found, problem, solution),
        *_sticking(problem, solution),
    ]


def _stays(problem: Observed, recordings: list[Recording]) -> Iterator[str]:
    """Where contact lasts, and where it slips."""
    for run, recording in zip(problem.runs, recordings, strict=True):
        for name in dict.fromkeys(run.lasting_on if isinstance(run, Struck) else ()):
            mine = spells(run, name)  # type: ignore[arg-type]
            of_run = f" in {recording.name}" if len(recordings) > 1 else ""
            told = [f"from {a:.4g} to {b:.4g} s" + (f" (slipping {100 * share:.0f} % of the time)" if share else "") for a, b, share in mine[:TOLD]]
            more = f" and {len(mine) - TOLD} times more" if len(mine) > TOLD else ""
            yield f"{name} stays closed{of_run} {', '.join(told)}{more}."


def _through(problem: Observed, solution: Solution, recordings: list[Recording]) -> list[str]:
    """Runs whose motion goes through something all the same."""
    out = []
    for r, (run, states) in enumerate(zip(problem.runs, solution.x, strict=True)):
        model, numbers, _ = problem.model_of(r, solution.theta)
        hit = missed(run, model, numbers, states)
        if hit is not None:
            name = Spots.of(run.structure).owner_name(hit.spot)
            out.append(
                f"{IMPACTS_DOUBTED}: the fitted motion of {recordings[r].name} goes through {name} at t = {hit.time:.4g} s, and no impact there explains the data."
            )
    return out


def _back(problem: Observed, solution: Solution, recordings: list[Recording]) -> Iterator[str]:
    """Places that are taken to stay closed from an impact on, and by the law of impacts would come back: two corners of a face that land at once."""
    for r, (run, states) in enumerate(zip(problem.runs, solution.x, strict=True)):
        if not isinstance(run, Struck) or not run.seats:
            continue
        model, numbers, _ = problem.model_of(r, solution.theta)
        speeds, own = -met(run, model, numbers, states).approach[:, 0], {s.strike for s in run.seats if s.own}
        _, heights = landing.rebounds(run, speeds, model, numbers, states)
        high = [i for i in sorted(own) if heights[i] > SEEN]
        if high:
            yield (
                f"{IMPACTS_DOUBTED}: {recordings[r].name} lands on {run.owners[high[0]]} at t = {run.taus[high[0]]:.4g} s with {speeds[high[0]]:.2g} {'rad/s' if run.owners[high[0]].startswith('limit') else 'm/s'} "
                f"and is taken to stay there, but by its restitution it would come back {heights[high[0]]:.1g} times as high as samples are off."
            )


def _wide(found: Uncertainty, problem: Observed, solution: Solution) -> list[str]:
    """Estimates that are known to no more than `COARSE`; in much noise, `DIM`."""
    known = [(n, sd / abs(x)) for n, x, sd in zip(found.reported.names, found.reported.values, found.sd, strict=True) if np.isfinite(sd) and x]
    if not any(share > DIM for _, share in known):
        return []
    rise = max((_rise(run, problem, solution, r) for r, run in enumerate(problem.runs) if isinstance(run, Struck) and run.strikes), default=np.inf)
    why = "" if rise >= HIDDEN else f", and between impacts nothing rises by more than {rise:.2g} standard deviations of a sample"
    return [
        f"{name} has a standard deviation of {100 * share:.0f} % of itself{why}: from impacts, intervals that wide may cover less than they say."
        for name, share in known
        if share > (COARSE if rise >= HIDDEN else DIM)
    ]


def _rise(run: Struck, problem: Observed, solution: Solution, r: int) -> float:
    """The highest that anything rises from an impact to the next on the same contact or limit, in standard deviations that a sample leaves of its gap."""
    states = solution.x[r]
    model, numbers, _ = problem.model_of(r, solution.theta)
    struck, spots = np.array([s.spot for s in run.strikes]), Spots.of(run.structure)
    gap, sds = gaps(run.structure, model, numbers, states.q[:, run.actual]), gap_sd(run, model, numbers, states, np.unique(struck))
    out = 0.0
    for owner in np.unique(spots.owner[struck]):
        mine = spots.owner[struck] == owner
        lowest, sd = gap[spots.owner == owner].min(axis=0), min(float(np.median(sds[int(s)])) for s in struck[mine])
        begins = np.searchsorted(run.clock, np.asarray(run.taus)[mine])
        heights = [float(lowest[a:b].max(initial=0.0)) for a, b in zip(begins, [*begins[1:], len(run.clock)], strict=True)]
        out = max(out, max(heights) / sd if sd > 0.0 else np.inf)
    return out


def _sticking(problem: Observed, solution: Solution) -> list[str]:
    """Unknown friction, of impacts or of sliding, of which nothing slipped."""
    asked = {place.path for e in problem.entries for place in e.places}
    out = []
    for contact in problem.model.contacts:
        name = f"contact.{contact.name}"
        own = bool(contact.sliding_friction) or f"{name}.sliding_friction" in asked
        if f"{name}.friction" in asked:
            slips, least = slipping(problem, solution.x, name, lasting=not own)
            lasts = not own and any(name in run.lasting_on for run in problem.runs if isinstance(run, Struck))
            out += (
                []
                if slips
                else [f"{'Nothing' if lasts else 'No impact'} on {name} slipped, so its friction is at least {least:.3g}, and not determined beyond that."]
            )
        if f"{name}.sliding_friction" in asked:
            slips, least = slipping(problem, solution.x, name, impacts=False)
            out += [] if slips else [f"Nothing slid on {name} for a while, so its sliding_friction is at least {least:.3g}, and not determined beyond that."]
    return out


def _left_out(problem: Observed, solution: Solution, recordings: list[Recording], names: list[str]) -> list[str]:
    """Of contacts that do not act."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return [
        f"Contacts and limits do not act in this fit ({', '.join(names[:3])}{more}).",
        *(
            f"The fitted motion of {run} reaches {name} at t = {time:.4g} s, whose force the fit leaves out: do not trust the estimates, and cut the recording to where nothing touches."
            for run, name, time in _reached(problem, solution, recordings, names)
        ),
    ]


def _reached(problem: Observed, solution: Solution, recordings: list[Recording], names: list[str]) -> Iterator[tuple[str, str, float]]:
    """(run, contact, first time) where a motion comes to touch something."""
    for r, states in enumerate(solution.x):
        motion = problem.motion(r, states, solution.theta)
        for name in names:
            gap = motion[f"{name}.gap"]
            touching = gap <= NEAR * np.ptp(gap)
            if touching.any() and gap.min() < NEAR * max(float(gap.max()), 1e-300):
                yield recordings[r].name, name, float(motion.time[int(np.argmax(touching))])


def _names(model: Model) -> list[str]:
    return [f"{x.KIND}.{x.name}" for x in (*model.contacts, *model.limits) if not x.compliant]
