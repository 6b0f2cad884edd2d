"""What the model may lack: numbers that were held, each tested by its score at the solution.

Every number that a mechanism of this kind often has and that was not estimated is a suspect: scale, delay, lag and constant force of a drive, a motor that saturates; bias, gain and delay of a channel; a tilt
of the whole mechanism; damping, dry friction, Stribeck's drop, friction that depends on the direction or not in proportion to the rate, a spring or a rotor's inertia at a joint; a payload, another centre of mass, another moment of inertia; a joint that sits elsewhere (the
length of a link); a misplaced marker. One linearisation with a column for each
says, without another fit, how far each would move from the value it was held at, how certainly (`scores.py`), and by how many of their standard deviations the
estimates would move with it. So it is with terms that no number of the model stands for (`terms.py`) and with noise that is not what it was taken for (`innovations.py`). Probabilities count
how many tests there are (Bonferroni), one level for all. A suspect whose gain is within `ALIKE` of the first one's is named beside it: these data cannot tell the two apart.

Numbers of one kind (offsets, scales or delays of all channels, tilts, constant forces of all drives) are also asked about together: encoders that were all set to zero by eye are all off, and where only the difference of
two offsets is loosely known, each alone pulls at nothing. A group is named where it explains more, by the same level, than any of its members alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.layout import States
from calibody.estimate.missing import held
from calibody.estimate.missing.rests import scales
from calibody.estimate.missing.scores import Pull, Scores
from calibody.estimate.missing.terms import Term, terms, widened
from calibody.estimate.noise import marginal
from calibody.estimate.noise.innovations import MEMORIES, counts, memories, rows_of
from calibody.estimate.problem import Problem
from calibody.estimate.result import ALIKE, DRIVES, ROUGH, SMALL, UNSHOWN, Part, Rest, Suspect
from calibody.estimate.uncertainty import Uncertainty
from calibody.estimate.unknowns import Entry, Unknown, entries
from calibody.mechanics.structure import HINGE, SLIDE
from calibody.model import Model
from calibody.model.elements import BALL
from calibody.solve.condensed import step
from calibody.solve.threads import one_thread

LACKING = 0.02
"""Probability, with all tests of a fit together, below which a suspect is named: with 1 % for runs that seem to disagree (uncertainty.DISAGREE) 3 % of the fits are suspected falsely."""
SCREEN = 0.2
"""The same, from which a suspect of a fit with process noise is looked at more closely."""
SCALED = 2.0
"""Times that a scale may be off for it to be a suspect."""
CLOCK = 0.1
"""Share that a clock may be off for it to be a suspect: where next to nothing sets the pace, a clock of ten times the period explains any slow noise, and error bars would allow for that."""
SHARP = 0.02
"""Rate below which a suspected dry friction is viscous, in units of the joint's own rms rate."""
SILENT = 0.1
"""Standard deviations of what is measured that a number must be able to change within its bounds to be asked about: where a mechanism stands in the world is nothing to its angles but for rounding."""
HALF = 0.5
"""Share of what numbers gain together that one of them has to gain alone to be named beside them."""
ABSURD, TYPICAL = 5.0, 0.6745
"""Times their noise from which residuals leave no doubt that something is missing (as for the verdict); the median of what is normal, in standard deviations."""

UNSUSPECTED = ""
"""Words of a number that is none."""
MOMENTS = "moments of inertia"
"""What those of bodies and of rotors are called together: about the axis of a first joint they are the same."""


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
    plural: str = ""
    """What several of its kind are called; empty where they are not asked about together."""
    suspected: bool = True
    """Whether it is a suspect; else it is only asked what hangs on it."""

    def allows(self, change: float) -> bool:
        """Whether physics has a place for it there."""
        return self.lower <= self.held + change <= self.upper


@one_thread
def suspects(tests: Tests) -> tuple[tuple[Suspect, ...], np.ndarray]:
    """Those that are significant, the strongest first; and (numbers or groups of them, parameters) how far each would move what is solved for.

    Noise that is not what it was taken for comes in its place (counts) or last (a memory, which anything that is missing leaves behind: tested on what the first of the others does not explain).
    """
    problem, known = tests.problem, tests.known
    count = 1 if tests.certain else tests.count + len(MEMORIES) * len(rows_of(problem, tests.scores))
    pulls, jointly = tests.pulls(count)
    alone = [found for k, p in enumerate(pulls) if (found := _single(tests.asked[k], k, p, known, count))]
    sets = zip(tests.groups, jointly, strict=True)
    found = [*_best(alone), *(f for g, p in sets if (f := _group(tests.asked, g, p, [pulls[k] for k in g], known, count)))]
    found = [f for f in found if not any(_part(f, g) for g in found)]
    strongest = max(found, key=lambda f: f.suspect.rank, default=None)
    left = tests.scores.F if strongest is None else tests.scores.left(strongest.numbers, strongest.changes)
    out = sorted([*(f.suspect for f in found), *_counters(problem)], key=lambda s: -s.rank) + list(_memory(problem, tests.scores, left, count))
    named = tuple(replace(s, alike=tuple(o.path for o in out if _alike(o, s))) for s in out)
    return named, np.array([f.moved[: tests.p] for f in found]).reshape(len(found), tests.p)


def rests_on(tests: Tests, known: Uncertainty) -> tuple[Rest, ...]:
    """What the estimates rest on, with how far they move with it: scales, and numbers of the model's file that were held and that anything hangs on."""
    found = []
    for k, t in enumerate(tests.scales, start=len(tests.asked)):
        small = ROUGH if t.words == DRIVES else SMALL
        found.append(_rest(tests, k, Rest(t.path, t.words, {}, {}, small, small * tests.scores.told(k)), 1.0, known))
    for k, a in enumerate(tests.asked):
        if (change := held.small(tests.model, a.path, a.held)) is None:
            continue
        small, unit = change
        per = 1.0 if unit else a.held
        told = abs(per) * tests.scores.told(k)
        if told * small * held.KNOWN > UNSHOWN:  # the data know it
            continue
        small = min(small, UNSHOWN / told) if told > 0.0 else small
        rest = _rest(tests, k, Rest(a.path, a.path, {}, {}, small, min(small * told, UNSHOWN), unit, held=True), per, known)
        found += [rest] if rest.largest[1] > held.NOTHING else []
    return tuple(found)


def _rest(tests: Tests, k: int, rest: Rest, per: float, known: Uncertainty) -> Rest:
    """With what follows it: the number asked about in place k, of which `per` is a change of one."""
    moved = known.reported.by_theta @ -(per * tests.scores.taken_up(k)[: known.reported.by_theta.shape[1]])
    each = [(n, m, v, s) for n, m, v, s in zip(known.reported.names, moved, known.reported.values, known.sd, strict=True) if v]
    sds = {n: float(rest.small * m / s) for n, m, _, s in each if np.isfinite(s) and s > 0.0}
    return replace(rest, moves={n: float(m / v) for n, m, v, _ in each}, sds=sds)


class Tests:
    """One linearisation with a column for every suspect, and the pulls of each and of those of one kind together; `known` has the error bars of the parameters. Numbers that estimates rest on (`rests.py`) have a column too."""

    @one_thread
    def __init__(self, problem: Problem, x: Sequence[States], theta: np.ndarray, known: Uncertainty) -> None:
        self.scales = scales(problem, x, theta)
        tried, more = list(_tried(problem)), [*terms(problem, x, theta), *_clock(self.scales)]
        self.model = now = problem.model_of(0, theta)[0]
        self.asked = [_Asked(e.name, words, e.unit, e.initial, *_bounds(now, e), plural=plural, suspected=words != UNSUSPECTED) for e, words, plural in tried]
        self.asked += [_Asked(t.path, t.words, t.unit, t.held, t.lower, t.upper, t.remedy, t.plural) for t in more]
        self.problem, self.x, self.p, self.known = problem, x, len(theta), known
        self.wide = problem.with_entries([*problem.entries, *(e for e, *_ in tried)], SHARP)
        self.at = np.concatenate([theta, [e.initial for e, *_ in tried]])
        columns = [*more, *self.scales]
        lin = widened(self.wide.linearise(x, self.at, hold_scale=False), columns)
        scale = np.append(self.wide.scale, [t.scale for t in columns])
        anywhere = np.full(len(scale), np.inf)  # nobody takes this step
        self.taken = step(lin, 0.0 * scale, -anywhere, anywhere, 0.0 * scale, scale) if self.noisy else None
        free = np.arange(len(scale)) < self.p
        free[: self.p] &= ~known.at_bound
        self.scores = Scores(self.wide, lin, self.taken, free, np.arange(self.p, len(scale)))
        self.told = [k for k, a in enumerate(self.asked) if a.suspected and not self.scores.told(k) * (a.upper - a.lower) < SILENT]
        self.groups = [g for g in (self.scores.independent(numbers) for numbers in _kinds(self.asked, self.told)) if len(g) > 1]
        self.first = self._alone(), [self.scores.together(g) for g in self.groups]

    @property
    def noisy(self) -> bool:
        """Whether there are unmodelled forces."""
        return any(len(run.disturbed) for run in self.problem.runs)

    def _alone(self, slope: np.ndarray | float = 0.0) -> list[Pull | None]:
        told = set(self.told)
        return [p if k in told else None for k, p in enumerate(self.scores.pulls(slope)[: len(self.asked)])]

    @property
    def certain(self) -> bool:
        """Whether something is missing is beyond doubt, so that it is only asked what: tests are not counted against each other then. By the median of the residuals, which a few outliers do not make large."""
        return float(np.median(np.abs(self.scores.F))) > ABSURD * TYPICAL

    @property
    def count(self) -> int:
        """How many tests there are."""
        return sum(p is not None for p in (*self.first[0], *self.first[1]))

    def pulls(self, count: int) -> tuple[list[Pull | None], list[Pull | None]]:
        """Of every suspect alone and of the groups. With process noise the volume of the likelihood pulls too: looked at where it can decide, among `count` tests."""
        pulls, jointly = self.first
        if self.taken is None:
            return pulls, jointly
        near = [g for g, p in zip([*([k] for k in range(len(pulls))), *self.groups], [*pulls, *jointly], strict=True) if _near(p, count)]
        close = {k for numbers in near for k in numbers}
        slope = marginal.slope(self.wide, self.x, self.at, self.taken, [self.p + k for k in sorted(close)])
        slope[: self.p] = self.problem.slope
        exact = self._alone(slope)
        pulls = [exact[k] if k in close else p for k, p in enumerate(pulls)]
        return pulls, [self.scores.together(g, slope) if g in near else p for g, p in zip(self.groups, jointly, strict=True)]


def _clock(rests: Sequence[Term]) -> Iterator[Term]:
    """The sampling period is what estimates rest on, but where gravity or something else that is known sets the pace, the data tell it. (What gravity is, everybody knows.)"""
    remedy = "Compare the clock of the recording with another: its times are too long or too short by this share (time_unit, dropped samples, a rate that is only nominal)."
    yield from (replace(t, remedy=remedy, lower=-CLOCK, upper=CLOCK, scale=1e-3) for t in rests if t.path == "time")


@dataclass(frozen=True)
class _Found:
    """A suspect, and where its numbers stand among those asked about."""

    suspect: Suspect
    numbers: Sequence[int]
    changes: np.ndarray
    moved: np.ndarray
    """How the parameters would follow."""


def _near(pull: Pull | None, count: int) -> bool:
    return pull is not None and count * pull.probability < SCREEN


def _single(a: _Asked, k: int, pull: Pull | None, known: Uncertainty, count: int) -> _Found | None:
    if pull is None or not a.allows(pull.change):
        return None
    probability = min(1.0, count * pull.probability)
    if probability >= LACKING:
        return None
    shifts = _shifts(known, pull.shift)
    suspect = Suspect(
        a.path, a.words, a.held, a.held + pull.change, pull.sd, a.unit, pull.chi2, pull.gain, probability, shifts, (), a.remedy, explained=pull.explained
    )
    return _Found(suspect, [k], pull.changes, pull.shift)


def _best(found: Sequence[_Found]) -> list[_Found]:
    """Of each path the strongest: one is asked about at several rates."""
    return list({f.suspect.path: f for f in sorted(found, key=lambda f: f.suspect.gain)}.values())


def _group(asked: Sequence[_Asked], numbers: Sequence[int], pull: Pull | None, single: Sequence[Pull | None], known: Uncertainty, count: int) -> _Found | None:
    """Numbers that are missing together, where that says more than any of them alone."""
    if pull is None or not all(asked[k].allows(float(change)) for k, change in zip(numbers, pull.changes, strict=True)):
        return None
    more = pull.gain - max((p.gain for p in single if p is not None), default=0.0)
    unlikely = max(pull.probability, pull.by_chance(more * pull.chi2 / pull.gain, len(numbers) - 1)) if pull.gain > 0.0 else 1.0
    probability = min(1.0, count * unlikely)
    if probability >= LACKING:
        return None
    order = sorted(range(len(numbers)), key=lambda j: asked[numbers[j]].path)
    each = [(asked[numbers[j]], float(pull.changes[j]), float(pull.sds[j])) for j in order]
    parts = tuple(Part(a.path, a.held, a.held + change, sd, a.unit) for a, change, sd in each)
    remedies = " ".join(dict.fromkeys(a.remedy for a, *_ in each if a.remedy))
    surest = max(parts, key=lambda part: abs(part.value - part.held) / part.sd)
    paths, words = ", ".join(part.path for part in parts), f"{each[0][0].plural} together"
    shifts = _shifts(known, pull.shift)
    numbered = surest.held, surest.value, surest.sd, surest.unit
    return _Found(
        Suspect(paths, words, *numbered, pull.chi2, pull.gain, probability, shifts, (), remedies, parts, pull.explained), numbers, pull.changes, pull.shift
    )


def _part(one: _Found, several: _Found) -> bool:
    """Whether a number alone is the lesser half of numbers that are missing together."""
    return one is not several and set(one.numbers) < set(several.numbers) and one.suspect.gain < HALF * several.suspect.gain


def _kinds(asked: Sequence[_Asked], told: Sequence[int]) -> list[list[int]]:
    """Numbers of one kind, by where they stand."""
    kinds: dict[str, list[int]] = {}
    for k in told:
        if plural := asked[k].plural:
            kinds.setdefault(plural, []).append(k)
    return [numbers for numbers in kinds.values() if len(numbers) > 1]


def _alike(a: Suspect, b: Suspect) -> bool:
    """Whether two numbers gain the same, in units of what the residuals scatter by."""
    return a is not b and a.sd is not None and b.sd is not None and abs(a.gain - b.gain) * max(a.chi2 / a.gain, b.chi2 / b.gain) < ALIKE


def _shifts(known: Uncertainty, moved: np.ndarray) -> dict[str, float]:
    """What is reported, by how many of its standard deviations it would move."""
    moved = known.reported.by_theta @ moved[: known.reported.by_theta.shape[1]]
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


def _estimated(problem: Problem) -> set[str]:
    """Paths that unknowns stand for."""
    return {p.path for e in problem.entries for p in e.places}


def _tried(problem: Problem) -> Iterator[tuple[Entry, str, str]]:
    """Suspects that are not estimated already, as unknowns held at the model's value; after them what else was held."""
    model, names = problem.model, [run.recording.name for run in problem.runs]
    seen = _estimated(problem) | {path for e in problem.entries if e.group is not None for path in e.group.paths}
    for path, words, *plural in (
        *_of_channels(problem),
        *_of_drives(problem),
        *_of_world(),
        *_of_joints(problem),
        *_of_sites(problem),
        *_of_bodies(problem),
        *((path, UNSUSPECTED) for path in held.further(model)),
    ):
        if path in seen:
            continue
        seen.add(path)
        try:
            (entry,) = entries(model, {path: Unknown()}, names)
            Problem.of(problem.runs, [entry])
        except CalibodyError:  # a channel without such a sensor number, a model without such a path
            continue
        yield entry, words, plural[0] if plural else ""


def _bounds(model: Model, entry: Entry) -> tuple[float, float]:
    """Between which a suspect makes sense: friction that is skewed by more than itself would drive, and a scale far from the one that was stated is another unit (`mistakes.py`), or stands for something else: where masses and
    frictions follow it but for a little, it is all but free, and bars that allow for it without bounds would say that nothing is known."""
    if entry.name.endswith(".gain"):
        return entry.initial / SCALED, entry.initial * SCALED
    field, _, axis = entry.name.rpartition(".")
    if axis in ("x", "y", "z") and field.startswith(("body.", "joint.")) and field.endswith((".com", ".position")):  # within the size of the machine
        size = max((abs(x) for b in model.bodies for x in (*b.com, *b.position)), default=0.0) or np.inf
        return entry.initial - size, entry.initial + size
    path, skew, _ = entry.name.partition("_skew")
    if not skew:
        return entry.lower, entry.upper
    joint, what = model.joint(path.split(".")[1]), path.rsplit(".", 1)[-1]
    whole = abs(getattr(joint, what))
    return -whole, whole


def _of_channels(problem: Problem) -> Iterator[tuple[str, str, str]]:
    for path in dict.fromkeys(d.channel.path for run in problem.runs for d in run.data):
        yield f"{path}.bias", f"an offset of {path}", "offsets of channels"
        yield f"{path}.gain", f"a scale of {path}", "scales of channels"
        yield f"{path}.delay", f"a delay of {path}", "delays of channels"


def _of_drives(problem: Problem) -> Iterator[tuple[str, str, str]]:
    for path in dict.fromkeys(drive.channel for run in problem.runs for drive in run.recording.drives):
        if path.startswith("actuator."):
            yield f"{path}.gain", f"a scale of {path}", "scales of drives"
            yield f"{path}.delay", f"a delay of {path}", "delays of drives"
            yield f"{path}.time_constant", f"a lag of {path}", ""
            yield f"{path}.bias", f"a constant force of {path}", "constant forces of drives"


def _of_world() -> Iterator[tuple[str, str, str]]:
    for axis in "xyz":
        yield f"world.gravity.tilt.{axis}", f"a tilt of the mechanism about {axis}", "tilts of the mechanism"


def _of_joints(problem: Problem) -> Iterator[tuple[str, str, str]]:
    """Friction that depends on the direction only where there is some: it would otherwise drive. Dry friction that does is a constant force as long as the joint moves, which is asked about as that of its drive where it has one."""
    rubbed = set(problem.friction_rate)
    estimated = _estimated(problem)
    driven = {a.joint for a in problem.model.actuators}
    for joint in problem.model.joints:
        if joint.kind not in (HINGE, SLIDE):
            continue
        at = f"joint.{joint.name}"
        yield f"{at}.friction", f"dry friction of {at}", ""
        yield f"{at}.damping", f"viscous friction of {at}", ""
        yield f"{at}.stiffness", f"a spring at {at}", ""
        yield f"{at}.armature", f"a rotor's inertia at {at}", MOMENTS
        if joint.stribeck > 0.0 and joint.name in rubbed:
            yield f"{at}.stribeck", f"friction of {at} that falls with the rate (Stribeck)", ""
        if joint.name not in driven and (joint.friction > 0.0 or f"{at}.friction" in estimated):
            yield f"{at}.friction_skew", f"dry friction of {at} that depends on the direction", "dry frictions that depend on the direction"
        if joint.damping > 0.0 or f"{at}.damping" in estimated:
            yield f"{at}.damping_skew", f"viscous friction of {at} that depends on the direction", "viscous frictions that depend on the direction"


def _of_sites(problem: Problem) -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys(d.channel.name for run in problem.runs for d in run.data if d.channel.kind == "site"):
        for axis in "xyz":
            yield f"site.{name}.position.{axis}", f"a misplaced site.{name}"


def _of_bodies(problem: Problem) -> Iterator[tuple[str, str, str]]:
    """What the model's file says of every body that moves, and of where its joints are in the one before: drawings, weighed and measured by nobody, are as often wrong as anything."""
    model, estimated = problem.model, _estimated(problem)
    for body in model.bodies:
        at = f"body.{body.name}"
        yield f"{at}.mass", f"another mass of {at} (a payload)", ""
        if body.mass > 0.0:
            for axis in "xyz":
                yield f"{at}.com.{axis}", f"another centre of mass of {at} ({axis})", "centres of mass"
            for axis in ("xx", "yy", "zz"):
                yield f"{at}.inertia.{axis}", f"another moment of inertia of {at} ({axis})", MOMENTS
        for joint in [j for j in model.joints_of(body.name) if j.kind in (HINGE, SLIDE, BALL)][:1]:
            # all mean the body's place, and a model takes one of them
            names = [f"joint.{joint.name}", at, *(f"joint.{j.name}" for j in model.joints_of(body.name))]
            place = next((n for n in names if any(path.startswith(f"{n}.position.") for path in estimated)), names[0])
            for axis in "xyz":
                yield f"{place}.position.{axis}", f"another place of {place} in the body before it ({axis}: the length of a link)", "places of joints"
