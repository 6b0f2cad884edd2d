"""What the model may lack: numbers that were held, each tested by its score at the solution.

Every number that a mechanism of this kind often has and that was not estimated is a suspect: delay, gain and bias of a drive; bias, gain and delay of a channel; a tilt
of the whole mechanism; damping, dry friction, Stribeck's drop, a spring or a rotor's inertia at a joint; a payload; a misplaced marker. One linearisation with a column for each
says, without another fit, how far each would move from the value it was held at, how certainly (`scores.py`), and by how many of their standard deviations the
estimates would move with it. Probabilities count how many suspects there are (Bonferroni). A suspect whose chi2 is within `ALIKE` of the first
is named beside it: these data cannot tell the two apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate import marginal
from calibody.estimate.chi_square import exceeded
from calibody.estimate.layout import States
from calibody.estimate.problem import Problem
from calibody.estimate.result import Suspect
from calibody.estimate.scores import pulls
from calibody.estimate.uncertainty import Uncertainty
from calibody.estimate.unknowns import Entry, Unknown, entries
from calibody.mechanics.structure import HINGE, SLIDE
from calibody.solve.condensed import step
from calibody.solve.threads import one_thread

LACKING = 0.01
"""Probability, with all suspects of a fit together, below which one is named."""
SCREEN = 0.2
"""The same, from which a suspect of a fit with process noise is looked at more closely."""
ALIKE = 4.0
"""Difference of chi2 (twice that of the logarithmic likelihoods) within which two suspects explain the data alike."""
SHARP = 0.02
"""Rate below which a suspected dry friction is viscous, in units of the joint's own rms rate."""


@one_thread
def suspects(problem: Problem, x: Sequence[States], theta: np.ndarray, known: Uncertainty) -> tuple[Suspect, ...]:
    """Those that are significant, the strongest first; `known` has the error bars of the parameters."""
    tried = list(_tried(problem))
    if not tried:
        return ()
    wide = problem.with_entries([*problem.entries, *(e for e, _ in tried)], SHARP)
    at = np.concatenate([theta, [e.initial for e, _ in tried]])
    lin = wide.linearise(x, at, hold_scale=False)
    anywhere = np.full(len(at), np.inf)  # nobody takes this step
    taken = step(lin, at, -anywhere, anywhere, 0.0 * at, wide.scale)
    found = []
    results = pulls(wide, lin, taken, len(theta), ~known.at_bound)
    count = sum(p is not None for p in results)
    if any(len(run.disturbed) for run in problem.runs):  # the volume of the likelihood pulls too: looked at where it can decide
        close = [len(theta) + k for k, p in enumerate(results) if p is not None and count * exceeded(1, p.chi2) < SCREEN]
        slope = marginal.slope(wide, x, at, taken, close)
        slope[: len(theta)] = problem.slope
        exact = pulls(wide, lin, taken, len(theta), ~known.at_bound, slope)
        results = [exact[k] if len(theta) + k in close else p for k, p in enumerate(results)]
    for (entry, words), pull in zip(tried, results, strict=True):
        if pull is None or not entry.lower <= entry.initial + pull.change <= entry.upper:  # physics has no place for it there
            continue
        probability = min(1.0, count * exceeded(1, pull.chi2))
        if probability < LACKING:
            moved = known.reported.by_theta @ pull.shift
            shifts = {name: float(d / b) for name, d, b in zip(known.reported.names, moved, known.sd, strict=True) if np.isfinite(b) and b > 0.0}
            found.append(Suspect(entry.name, words, entry.initial, entry.initial + pull.change, pull.sd, entry.unit, pull.chi2, probability, shifts))
    found.sort(key=lambda s: -s.chi2)
    return tuple(replace(s, alike=tuple(o.path for o in found if o is not s and abs(o.chi2 - s.chi2) < ALIKE)) for s in found)


def _tried(problem: Problem) -> Iterator[tuple[Entry, str]]:
    """Suspects that are not estimated already, as unknowns held at the model's value."""
    model, names = problem.model, [run.recording.name for run in problem.runs]
    estimated = {p.path for e in problem.entries for p in e.places} | {path for e in problem.entries if e.group is not None for path in e.group.paths}
    seen = set(estimated)
    for path, words in (*_of_channels(problem), *_of_drives(problem), *_of_world(), *_of_joints(problem), *_of_sites(problem), *_of_bodies(problem)):
        if path in seen:
            continue
        seen.add(path)
        try:
            (entry,) = entries(model, {path: Unknown()}, names)
            Problem.of(problem.runs, [entry])
        except CalibodyError:  # a channel without such a sensor number, a model without such a path
            continue
        yield entry, words


def _of_channels(problem: Problem) -> Iterator[tuple[str, str]]:
    for path in dict.fromkeys(d.channel.path for run in problem.runs for d in run.data):
        yield f"{path}.bias", f"an offset of {path}"
        yield f"{path}.gain", f"a scale of {path}"
        yield f"{path}.delay", f"a delay of {path}"


def _of_drives(problem: Problem) -> Iterator[tuple[str, str]]:
    for path in dict.fromkeys(drive.channel for run in problem.runs for drive in run.recording.drives):
        if path.startswith("actuator."):
            yield f"{path}.delay", f"a delay of {path}"
            yield f"{path}.time_constant", f"a lag of {path}"
            yield f"{path}.bias", f"a constant force of {path}"


def _of_world() -> Iterator[tuple[str, str]]:
    for axis in "xyz":
        yield f"world.gravity.tilt.{axis}", f"a tilt of the mechanism about {axis}"


def _of_joints(problem: Problem) -> Iterator[tuple[str, str]]:
    rubbed = set(problem.friction_rate)
    for joint in problem.model.joints:
        if joint.kind not in (HINGE, SLIDE):
            continue
        at = f"joint.{joint.name}"
        yield f"{at}.friction", f"dry friction of {at}"
        yield f"{at}.damping", f"viscous friction of {at}"
        yield f"{at}.stiffness", f"a spring at {at}"
        yield f"{at}.armature", f"a rotor's inertia at {at}"
        if joint.name in rubbed:
            yield f"{at}.stribeck", f"friction of {at} that falls with the rate (Stribeck)"


def _of_sites(problem: Problem) -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys(d.channel.name for run in problem.runs for d in run.data if d.channel.kind == "site"):
        for axis in "xyz":
            yield f"site.{name}.position.{axis}", f"a misplaced site.{name}"


def _of_bodies(problem: Problem) -> Iterator[tuple[str, str]]:
    for body in problem.model.bodies:
        yield f"body.{body.name}.mass", f"another mass of body.{body.name} (a payload)"
