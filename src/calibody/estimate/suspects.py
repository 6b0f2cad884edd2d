"""What the model may lack: numbers that were held, each tested by its score at the solution.

Every number that a mechanism of this kind often has and that was not estimated is a suspect: delay, gain and bias of a drive; bias, gain and delay of a channel; a tilt
of the whole mechanism; damping, dry friction, Stribeck's drop, a spring or a rotor's inertia at a joint; a payload; a misplaced marker. One linearisation with a column for each
says, without another fit, how far each would move from the value it was held at, how certainly (`scores.py`), and by how many of their standard deviations the
estimates would move with it. So it is with terms that no number of the model stands for (`terms.py`) and with noise that is not what it was taken for (`innovations.py`). Probabilities count
how many tests there are (Bonferroni), one level for all. A suspect whose gain is within `ALIKE` of the first one's is named beside it: these data cannot tell the two apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate import marginal
from calibody.estimate.innovations import MEMORIES, counts, memories, rows_of
from calibody.estimate.layout import States
from calibody.estimate.problem import Problem
from calibody.estimate.result import Suspect
from calibody.estimate.scores import Scores
from calibody.estimate.terms import terms, widened
from calibody.estimate.uncertainty import Uncertainty
from calibody.estimate.unknowns import Entry, Unknown, entries
from calibody.mechanics.structure import HINGE, SLIDE
from calibody.solve.condensed import step
from calibody.solve.threads import one_thread

LACKING = 0.02
"""Probability, with all tests of a fit together, below which a suspect is named: with 1 % for runs that seem to disagree (uncertainty.DISAGREE) 3 % of the fits are suspected falsely."""
SCREEN = 0.2
"""The same, from which a suspect of a fit with process noise is looked at more closely."""
ALIKE = 4.0
"""Difference of gains (twice that of the logarithmic likelihoods) within which two suspects explain the data alike: beyond, one is e^2 times as likely as the other."""
SHARP = 0.02
"""Rate below which a suspected dry friction is viscous, in units of the joint's own rms rate."""


@dataclass(frozen=True)
class _Asked:
    """A number that was held: where physics has a place for it, and what to do about it if that is not to estimate it."""

    path: str
    words: str
    unit: str
    held: float
    lower: float
    upper: float
    remedy: str = ""


@one_thread
def suspects(problem: Problem, x: Sequence[States], theta: np.ndarray, known: Uncertainty) -> tuple[Suspect, ...]:
    """Those that are significant, the strongest first; `known` has the error bars of the parameters.

    Noise that is not what it was taken for comes in its place (counts) or last (a memory, which anything that is missing leaves behind: tested on what the first of the others does not explain).
    """
    tried, more = list(_tried(problem)), terms(problem, x, theta)
    asked = [_Asked(e.name, words, e.unit, e.initial, e.lower, e.upper) for e, words in tried]
    asked += [_Asked(t.path, t.words, t.unit, t.held, t.lower, t.upper, t.remedy) for t in more]
    wide = problem.with_entries([*problem.entries, *(e for e, _ in tried)], SHARP)
    at = np.concatenate([theta, [e.initial for e, _ in tried]])
    lin = widened(wide.linearise(x, at, hold_scale=False), more)
    scale = np.append(wide.scale, [t.scale for t in more])
    anywhere = np.full(len(scale), np.inf)  # nobody takes this step
    taken = step(lin, 0.0 * scale, -anywhere, anywhere, 0.0 * scale, scale)
    free = np.arange(len(scale)) < len(theta)
    free[: len(theta)] &= ~known.at_bound
    scores = Scores(wide, lin, taken, free, np.arange(len(theta), len(scale)))
    pulls = scores.pulls()
    count = sum(p is not None for p in pulls) + len(MEMORIES) * len(rows_of(problem, scores))
    if any(len(run.disturbed) for run in problem.runs):  # the volume of the likelihood pulls too: looked at where it can decide
        close = [len(theta) + k for k, p in enumerate(pulls) if p is not None and count * p.probability < SCREEN]
        slope = marginal.slope(wide, x, at, taken, close)
        slope[: len(theta)] = problem.slope
        exact = scores.pulls(slope)
        pulls = [exact[k] if len(theta) + k in close else p for k, p in enumerate(pulls)]
    found: dict[str, tuple[int, Suspect]] = {}
    for k, (a, pull) in enumerate(zip(asked, pulls, strict=True)):
        if pull is None or not a.lower <= a.held + pull.change <= a.upper:  # physics has no place for it there
            continue
        probability = min(1.0, count * pull.probability)
        if probability < LACKING and (a.path not in found or pull.gain > found[a.path][1].gain):
            shifts = _shifts(known, pull.shift[: len(theta)])
            found[a.path] = k, Suspect(a.path, a.words, a.held, a.held + pull.change, pull.sd, a.unit, pull.chi2, pull.gain, probability, shifts, (), a.remedy)
    strongest = max(found.values(), key=lambda pair: pair[1].gain, default=None)
    left = scores.F if strongest is None else scores.left(strongest[0], strongest[1].value - strongest[1].held)
    out = sorted([*(s for _, s in found.values()), *_counters(problem)], key=lambda s: -s.gain) + list(_memory(problem, scores, left, count))
    return tuple(replace(s, alike=tuple(o.path for o in out if _alike(o, s))) for s in out)


def _alike(a: Suspect, b: Suspect) -> bool:
    """Whether two numbers gain the same, in units of what the residuals scatter by."""
    return a is not b and a.sd is not None and b.sd is not None and abs(a.gain - b.gain) * max(a.chi2 / a.gain, b.chi2 / b.gain) < ALIKE


def _shifts(known: Uncertainty, moved: np.ndarray) -> dict[str, float]:
    """What is reported, by how many of its standard deviations it would move."""
    moved = known.reported.by_theta @ moved
    return {name: float(d / b) for name, d, b in zip(known.reported.names, moved, known.sd, strict=True) if np.isfinite(b) and b > 0.0}


def _counters(problem: Problem) -> Iterator[Suspect]:
    """Channels that count without anybody having said so."""
    for c in counts(problem):
        remedy = f"State resolution = {c.step:.6g} for {c.channel}."
        yield Suspect(
            f"{c.channel}.resolution", f"the count of {c.channel}, in steps of {c.step:.4g}", 0.0, c.step, None, "", c.surprise, c.surprise, 0.0, {}, (), remedy
        )


def _memory(problem: Problem, scores: Scores, left: np.ndarray, count: int) -> Iterator[Suspect]:
    """Noise that is correlated."""
    for m in memories(problem, scores, left):
        probability = min(1.0, count * m.probability)
        if probability < LACKING:
            words = f"noise of {m.channel} that is correlated over about {m.seconds:.2g} s, or a term that is not among the suspects"
            remedy = f"Give {m.channel} as the sensor has it, not filtered; where its noise has a memory, state a larger sd or take fewer samples."
            yield Suspect(f"{m.channel}.noise", words, 0.0, m.seconds, None, "s", m.score**2, m.score**2, probability, {}, (), remedy)


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
        if joint.stribeck > 0.0 and joint.name in rubbed:
            yield f"{at}.stribeck", f"friction of {at} that falls with the rate (Stribeck)"


def _of_sites(problem: Problem) -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys(d.channel.name for run in problem.runs for d in run.data if d.channel.kind == "site"):
        for axis in "xyz":
            yield f"site.{name}.position.{axis}", f"a misplaced site.{name}"


def _of_bodies(problem: Problem) -> Iterator[tuple[str, str]]:
    for body in problem.model.bodies:
        yield f"body.{body.name}.mass", f"another mass of body.{body.name} (a payload)"
