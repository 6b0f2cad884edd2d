"""What people get wrong in files: each as a change of model and recordings that would undo it, and the sentence that names it.

    sign       of a channel or a drive, of all angles or all drives
    factor     1000, degrees, turns, revolutions per minute: a unit
    swap       two channels of one kind, or two drives, that took each other's column; y and z of all markers
    absolute   angles of links against the world, given as those of joints
    clock      in milliseconds, or seconds taken for them
    shift      channels late or early against the drives, one against the others
    offset     a zero elsewhere; half a turn
    gravity    of another direction or size
    length     of a link, the place of a site

The first five are changes without a number to be found; of the others the number is one more unknown of the trial, and stands in the sentence. `trials.py` decides which of them
the data believe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from calibody.estimate.noise.given import found_sd
from calibody.estimate.unknowns import Unknown
from calibody.model import Model
from calibody.model.elements import HINGE
from calibody.recording.recording import Observation, Recording
from calibody.recording.signal import Signal
from calibody.recording.units import quantity
from calibody.spatial import algebra as al

DEGREES = 180.0 / math.pi
TURN = 2.0 * math.pi
FACTORS: dict[str, tuple[tuple[float, str], ...]] = {
    "angle": ((1.0 / DEGREES, "degrees"), (DEGREES, "radians"), (TURN, "turns"), (1e-3, "milliradians")),
    "rate": ((1.0 / DEGREES, "degrees per second"), (DEGREES, "radians per second"), (TURN / 60.0, "revolutions per minute"), (1e-3, "thousandths"), (1e3, "")),
    "angular_rate": ((1.0 / DEGREES, "degrees per second"), (DEGREES, "radians per second")),
    "position": ((1e-3, "millimetres"), (1e3, "metres"), (1e-2, "centimetres")),
    "acceleration": ((9.80665, "multiples of g"), (1.0 / 9.80665, "m/s^2")),
    "": ((1e-3, "thousandths"), (1e3, "")),
}
"""By quantity: what a channel is to be multiplied by, and the unit that its column is then in."""
EDITS = {
    "degrees": "deg",
    "radians": "rad",
    "turns": "rev",
    "milliradians": "mrad",
    "degrees per second": "deg/s",
    "radians per second": "rad/s",
    "revolutions per minute": "rpm",
}
EDITS |= {"millimetres": "mm", "metres": "m", "centimetres": "cm", "multiples of g": "g", "m/s^2": "m/s^2"}
"""How an experiment file writes them."""
STANDARD = 9.81
"""m/s^2: gravity of a model without."""
DRIVE_FACTORS = (1e-3, 1e3)
CLOCKS = ((1e-3, "milliseconds", 'time_unit = "ms"'), (1e3, "seconds", 'time_unit = "s"'), (1e-6, "microseconds", 'time_unit = "us"'))
SAMPLES = (1, 2, 3, 5, 10, 30)
"""Sampling periods that drives are tried earlier and later by."""
PLAUSIBLE = {"angle": (1e-3, 100.0), "position": (1e-4, 100.0), "rate": (1e-3, 1e3), "angular_rate": (1e-3, 1e3), "acceleration": (1e-2, 1e4)}
"""By quantity: the span [SI] that a channel may have for a factor to be worth trying."""
PERIODS = (2e-5, 1.0)
"""The same for a sampling period [s]."""
PARALLEL = 0.999
"""Cosine between two axes from which they are taken for parallel."""
MOST_PAIRS = 21
"""Pairs of columns that are tried: those of seven joints."""

Runs = Sequence[Recording]
Changed = tuple[Model, list[Recording]]


@dataclass(frozen=True)
class Suspicion:
    """One mistake that may have been made."""

    kind: str
    subjects: tuple[str, ...]
    change: Callable[[Model, Runs], Changed]
    """Model and recordings without it."""
    words: Callable[[Mapping[str, float]], str]
    """The sentence that names it and the next edit, given the values of `unknowns` that the trial found."""
    unknowns: Mapping[str, Unknown] = field(default_factory=dict)
    """What is to be found with it."""
    searched: bool = False
    """Whether it is one of several values of a number."""
    moved: bool = True
    """Whether the motion that was measured is another one without it: not where it is about drives or gravity."""

    @property
    def complexity(self) -> int:
        """How many numbers it takes: of two that explain the data alike, the simpler one is meant."""
        return len(self.unknowns) + self.searched


def suspicions(model: Model, runs: Runs) -> list[Suspicion]:
    """All that are tried, the usual ones first."""
    return [
        *_factors(runs),
        *_signs(runs),
        *_clocks(runs),
        *_swaps(runs),
        *_absolute(model, runs),
        *_axes(runs),
        *_gravity(model),
        *_shifts(runs),
        *_offsets(runs),
        *_lengths(model),
        *_scales(runs),
    ]


# -- recordings with other columns -------------------------------------------------------------------------------------------------


def scaled(o: Observation, factor: float) -> Observation:
    """A channel times a factor. The noise is what it scatters by: a stated sd may have been in either unit."""
    values = factor * o.values
    if abs(factor) == 1.0:
        return replace(o, values=values, valid=None)
    other = replace(o, values=values, valid=None, sd=None, resolution=None if o.resolution is None else abs(factor) * o.resolution)
    return replace(other, sd=max(found_sd(other), 1e-9 * float(np.nanmax(np.abs(values))), 1e-300))


def _with(run: Recording, channels: Mapping[str, float], drives: Mapping[str, float]) -> Recording:
    observations = tuple(scaled(o, channels[o.channel]) if o.channel in channels else o for o in run.observations)
    changed = tuple(replace(d, signal=_times(d.signal, drives[d.channel])) if d.channel in drives else d for d in run.drives)
    return replace(run, observations=observations, drives=changed)


def _times(signal: Signal, factor: float) -> Signal:
    return replace(signal, values=factor * signal.values)


def _multiplied(channels: Mapping[str, float] | None = None, drives: Mapping[str, float] | None = None) -> Callable[[Model, Runs], Changed]:
    return lambda model, runs: (model, [_with(run, channels or {}, drives or {}) for run in runs])


def _observed(runs: Runs) -> list[str]:
    return list(dict.fromkeys(o.channel for run in runs for o in run.observations))


def _driven(runs: Runs) -> list[str]:
    return list(dict.fromkeys(d.channel for run in runs for d in run.drives))


def _kinds(runs: Runs) -> dict[str, list[str]]:
    """The observed channels by quantity."""
    out: dict[str, list[str]] = {}
    for channel in _observed(runs):
        out.setdefault(quantity(channel), []).append(channel)
    return out


def _plural(kind: str, channels: Sequence[str]) -> str:
    words = {"angle": "angles", "rate": "rates", "angular_rate": "angular rates", "position": "positions", "acceleration": "accelerations"}
    return channels[0] if len(channels) == 1 else f"{'Both' if len(channels) == 2 else 'All'} {words.get(kind, 'channels')}"


def _groups(members: Sequence[str]) -> list[tuple[str, ...]]:
    """All together, then one by one."""
    return [tuple(members), *((m,) for m in members if len(members) > 1)]


# -- units and signs ---------------------------------------------------------------------------------------------------------------


def _factors(runs: Runs) -> Iterator[Suspicion]:
    driven = _driven(runs)
    for factor in DRIVE_FACTORS if driven else ():
        for group in _groups(driven):
            yield _factor_of_drives(group, factor)
    for kind, channels in _kinds(runs).items():
        for factor, unit in FACTORS.get(kind, FACTORS[""]):
            for group in _groups(channels) if channels[0].startswith("joint.") else [tuple(channels)]:  # components of a place have one unit
                if _plausible(runs, kind, group, factor):
                    yield _factor_of_channels(kind, group, factor, unit)


def _plausible(runs: Runs, kind: str, group: Sequence[str], factor: float) -> bool:
    least, most = PLAUSIBLE.get(kind, (0.0, math.inf))
    spans = [abs(factor) * float(np.nanmax(o.values) - np.nanmin(o.values)) for run in runs for o in run.observations if o.channel in group]
    return least < max(spans) < most


def _factor_of_drives(group: tuple[str, ...], factor: float) -> Suspicion:
    one = len(group) == 1
    what = f"The drive {group[0]} looks" if one else "The drives look"
    size, unit = ("large", "thousandths (mN m, mA, mV)") if factor < 1.0 else ("small", "thousands")
    sentence = (
        f"{what} 1000 times too {size}: unit? Give {'it' if one else 'them'} scale = {factor:g}, or the unit of {'its column' if one else 'their columns'}"
    )
    return Suspicion("factor", group, _multiplied(drives=dict.fromkeys(group, factor)), _said(f"{sentence} ({unit})."), moved=False)


def _factor_of_channels(kind: str, group: tuple[str, ...], factor: float, unit: str) -> Suspicion:
    off, size = (1.0 / factor, "large") if factor < 1.0 else (factor, "small")
    verb = "looks" if len(group) == 1 else "look"
    taken = f" (in {unit}?)" if unit else ""
    edit = f'unit = "{EDITS[unit]}", or ' if unit in EDITS else ""
    sentence = f"{_plural(kind, group)} {verb} {off:.4g} times too {size}{taken}: unit? Give {edit}scale = {factor:.6g}."
    return Suspicion("factor", group, _multiplied(channels=dict.fromkeys(group, factor)), lambda _: sentence)


def _signs(runs: Runs) -> Iterator[Suspicion]:
    for group in _groups(_driven(runs)) if _driven(runs) else ():
        what = f"The sign of the drive {group[0]} looks" if len(group) == 1 else "The signs of all drives look"
        yield Suspicion("sign", group, _multiplied(drives=dict.fromkeys(group, -1.0)), _said(f"{what} wrong: give scale = -1."), moved=False)
    for joint, channels in _by_joint(runs).items():
        what = f"The sign of {channels[0]} looks" if len(channels) == 1 else f"The signs of {' and '.join(channels)} look"
        yield Suspicion(
            "sign", channels, _multiplied(channels=dict.fromkeys(channels, -1.0)), _said(f"{what} wrong: give scale = -1, or turn the axis of {joint}.")
        )
        for channel in channels if len(channels) > 1 else ():
            yield Suspicion("sign", (channel,), _multiplied(channels={channel: -1.0}), _said(f"The sign of {channel} looks wrong: give scale = -1."))


def _by_joint(runs: Runs) -> dict[str, tuple[str, ...]]:
    """Channels that change their sign together: of a joint, or a component of a site or body by itself."""
    out: dict[str, tuple[str, ...]] = {}
    for channel in _observed(runs):
        owner = channel.rpartition(".")[0] if channel.startswith("joint.") else channel
        out[owner] = (*out.get(owner, ()), channel)
    return out


def _said(sentence: str) -> Callable[[Mapping[str, float]], str]:
    return lambda _: sentence


# -- clocks ------------------------------------------------------------------------------------------------------------------------


def _clocks(runs: Runs) -> Iterator[Suspicion]:
    period = min(run.period for run in runs)
    for factor, unit, edit in (clock for clock in CLOCKS if PERIODS[0] < clock[0] * period < PERIODS[1]):
        yield Suspicion("clock", ("time",), _slower(factor), _said(f"The clock looks as if it were in {unit}: give {edit}."))


def _slower(factor: float) -> Callable[[Model, Runs], Changed]:
    def change(model: Model, runs: Runs) -> Changed:
        return model, [run.slower(factor) for run in runs]

    return change


def _shifts(runs: Runs) -> Iterator[Suspicion]:
    """The drives earlier or later by whole samples; all channels together late by any time against them, and each against the others."""
    observed, driven, period = _observed(runs), _driven(runs), min(run.period for run in runs)
    for late in (sign * samples for samples in SAMPLES for sign in (1, -1)) if driven else ():
        words = _late(observed, period)({"late": -late * period})
        yield Suspicion("shift", tuple(driven), _earlier(late * period), _said(words), searched=True, moved=False)
    if driven:
        places = {f"{channel}.delay": "late" for channel in observed}
        yield Suspicion("shift", (*observed, *driven), _as_is, _late(observed, period), {"late": Unknown(0.0, scale=period, places=places)})
    for channel in observed if len(observed) > 1 else ():
        yield Suspicion("shift", (channel,), _as_is, _late([channel], period, f"{channel}.delay"), {f"{channel}.delay": Unknown(0.0, scale=period)})


def _earlier(late: float) -> Callable[[Model, Runs], Changed]:
    """Drives that were written so much too late (seconds) where they belong; held at the end that is then missing."""

    def change(model: Model, runs: Runs) -> Changed:
        out = []
        for run in runs:
            drives = []
            for d in run.drives:
                t, u = d.signal.times - late, d.signal.values
                t, u = (np.append(t, d.signal.times[-1]), np.append(u, u[-1])) if late > 0.0 else (np.insert(t, 0, d.signal.times[0]), np.insert(u, 0, u[0]))
                drives.append(replace(d, signal=replace(d.signal, times=t, values=u)))
            out.append(replace(run, drives=tuple(drives)))
        return model, out

    return change


def _as_is(model: Model, runs: Runs) -> Changed:
    return model, list(runs)


def _late(channels: Sequence[str], period: float, name: str = "late") -> Callable[[Mapping[str, float]], str]:
    def words(found: Mapping[str, float]) -> str:
        late = found[name]
        by = f"{1e3 * abs(late):.3g} ms ({abs(late) / period:.2g} samples)"
        against = "the drives" if name == "late" else "the other channels"
        who, verb = (channels[0], "comes") if len(channels) == 1 else ("The measured channels", "come")
        if late > 0.0:
            return (
                f"{who} {verb} {by} late against {against}: shift the clock, or estimate {channels[0]}.delay{' and the others' if len(channels) > 1 else ''}."
            )
        return f"{'The drives come' if name == 'late' else 'All others come'} {by} late against {who if len(channels) == 1 else 'the measured channels'}: shift the clock, or estimate {channels[0]}.delay."

    return words


# -- columns -----------------------------------------------------------------------------------------------------------------------


def _swaps(runs: Runs) -> Iterator[Suspicion]:
    for a, b in list(combinations(_driven(runs), 2))[:MOST_PAIRS]:
        yield Suspicion("swap", (a, b), _swapped(a, b), _said(f"The columns of the drives {a} and {b} look swapped: exchange them."), moved=False)
    by_joint = _by_joint(runs)
    for first, second in list(combinations([j for j in by_joint if j.startswith("joint.")], 2))[:MOST_PAIRS]:
        pairs = [(c, f"{second}{c.removeprefix(first)}") for c in by_joint[first] if f"{second}{c.removeprefix(first)}" in by_joint[second]]
        if pairs:
            names = " and ".join(pairs[0]) if len(pairs) == 1 else f"{first} and {second}"
            yield Suspicion("swap", tuple(c for pair in pairs for c in pair), _exchanged(pairs), _said(f"The columns of {names} look swapped: exchange them."))


def _swapped(a: str, b: str) -> Callable[[Model, Runs], Changed]:
    def change(model: Model, runs: Runs) -> Changed:
        names = {a: b, b: a}
        return model, [replace(run, drives=tuple(replace(d, channel=names.get(d.channel, d.channel)) for d in run.drives)) for run in runs]

    return change


def _exchanged(pairs: Sequence[tuple[str, str]]) -> Callable[[Model, Runs], Changed]:
    names = {x: y for a, b in pairs for x, y in ((a, b), (b, a))}

    def change(model: Model, runs: Runs) -> Changed:
        return model, [replace(run, observations=tuple(replace(o, channel=names.get(o.channel, o.channel)) for o in run.observations)) for run in runs]

    return change


def _absolute(model: Model, runs: Runs) -> Iterator[Suspicion]:
    """All angles of joints that follow another one about the same direction, less the angle of that one."""
    before = _before(model, _kinds(runs).get("angle", []))
    if not before:
        return

    def change(model: Model, runs: Runs) -> Changed:
        out = []
        for run in runs:
            seen = {o.channel: o for o in run.observations}
            less = lambda o, seen=seen: _less(o, seen, *before[o.channel]) if o.channel in before and before[o.channel][0] in seen else o  # noqa: E731
            out.append(replace(run, observations=tuple(less(o) for o in run.observations)))
        return model, out

    channel, (first, _) = next(iter(before.items()))
    what = f"{channel} looks" if len(before) == 1 else f"{' and '.join(before)} look"
    sentence = f"{what} absolute, an angle against the world: joint angles are against the body before. Subtract that of {first}{' and so on' if len(before) > 1 else ''}."
    yield Suspicion("absolute", tuple(before), change, _said(sentence))


def _less(o: Observation, seen: Mapping[str, Observation], first: str, sign: float) -> Observation:
    """An angle without that of the link before it."""
    other = seen[first]
    known = other.present
    sd = None if o.sd is None or other.sd is None else math.hypot(o.sd, other.sd)
    return replace(o, values=o.values - sign * np.interp(o.times, other.times[known], other.values[known]), valid=None, resolution=None, sd=sd)


def _before(model: Model, angles: Sequence[str]) -> dict[str, tuple[str, float]]:
    """Of observed angles of hinges: the next observed one towards the world whose axis has the same direction while all joints are at zero, and 1, or -1 where it is the opposite one."""
    axes, turned = {}, {"world": np.eye(3)}
    for body in model.ordered_bodies:
        turned[body.name] = turned[body.parent] @ np.array(al.quaternion_matrix(al.quaternion_normalised(body.orientation)))
        for joint in model.joints_of(body.name):
            axes[joint.name] = turned[body.name] @ np.array(joint.axis) / np.linalg.norm(joint.axis)
    out = {}
    for channel in angles:
        if channel.split(".")[0] != "joint" or model.joint(channel.split(".")[1]).kind != HINGE:
            continue
        joint = model.joint(channel.split(".")[1])
        body = model.body(joint.body).parent
        while body != "world":
            names = [
                j.name
                for j in model.joints_of(body)
                if j.kind == HINGE and f"joint.{j.name}.angle" in angles and abs(axes[j.name] @ axes[joint.name]) > PARALLEL
            ]
            if names:
                out[channel] = f"joint.{names[-1]}.angle", float(np.sign(axes[names[-1]] @ axes[joint.name]))
                break
            body = model.body(body).parent
    return out


def _axes(runs: Runs) -> Iterator[Suspicion]:
    """Positions measured in a frame whose y axis is up, or with two columns exchanged."""
    owners = [c.removesuffix(".x") for c in _observed(runs) if c.endswith(".position.x")]
    whole = [o for o in owners if {f"{o}.y", f"{o}.z"} <= set(_observed(runs))]
    if not whole:
        return
    what = "The positions look as if they were measured in other axes"
    for a, b, c in (("y", "z", "x"), ("x", "z", "y"), ("x", "y", "z")):
        exchange = _exchanged([(f"{o}.{a}", f"{o}.{b}") for o in whole])
        yield Suspicion("axes", tuple(whole), exchange, _said(f"{what}, {a} and {b} exchanged: exchange the columns."))
        for turned in (a, b):
            yield Suspicion(
                "axes",
                tuple(whole),
                _turned(exchange, [f"{o}.{turned}" for o in whole]),
                _said(f"{what}, turned about {c}: exchange the columns of {a} and {b}, with scale = -1 for {turned}."),
            )


def _turned(exchange: Callable[[Model, Runs], Changed], negated: Sequence[str]) -> Callable[[Model, Runs], Changed]:
    def change(model: Model, runs: Runs) -> Changed:
        return _multiplied(channels=dict.fromkeys(negated, -1.0))(*exchange(model, runs))

    return change


# -- with a number to be found -----------------------------------------------------------------------------------------------------


def _gravity(model: Model) -> Iterator[Suspicion]:
    """Along every axis, and as the data say."""
    paths = tuple(f"world.gravity.{axis}" for axis in "xyz")
    given = tuple(float(model[path]) for path in paths)
    size = math.hypot(*given) or STANDARD

    def words(found: Mapping[str, float]) -> str:
        looks, has = (", ".join(f"{x:.3g}" for x in values) for values in ((found[path] for path in paths), given))
        return f"Gravity looks like ({looks}) m/s^2 where the model has ({has}): check its direction and size."

    for axis in (2, 1, 0):
        for sign in (-1.0, 1.0):
            along = tuple(sign * size if k == axis else 0.0 for k in range(3))
            if not np.allclose(along, given):
                values = dict(zip(paths, along, strict=True))
                yield Suspicion("gravity", paths, _falling(values), _said(words(values)), moved=False)
    unknown = {path: Unknown(value, scale=STANDARD) for path, value in zip(paths, given, strict=True)}
    yield Suspicion("gravity", paths, _as_is, words, unknown)


def _falling(values: Mapping[str, float]) -> Callable[[Model, Runs], Changed]:
    return lambda model, runs: (model.replace(values), list(runs))


def _offsets(runs: Runs) -> Iterator[Suspicion]:
    kinds = _kinds(runs)
    for channel in kinds.get("angle", []):
        for turn in (math.pi, -math.pi, 0.5 * math.pi, -0.5 * math.pi):
            word = "half a turn" if abs(turn) > 3.0 else "a quarter turn"
            yield Suspicion(
                "offset",
                (channel,),
                _moved(channel, -turn),
                _said(f"{channel} looks {word} ({turn:+.4g} rad) off: give offset = {-turn:+.4g}, or check where it is zero."),
            )
    for channel in (*kinds.get("angle", []), *kinds.get("position", [])):
        path = f"{channel}.bias"
        yield Suspicion("offset", (channel,), _as_is, _off(channel, path), {path: Unknown(0.0)})


def _moved(channel: str, by: float) -> Callable[[Model, Runs], Changed]:
    def change(model: Model, runs: Runs) -> Changed:
        return model, [
            replace(run, observations=tuple(replace(o, values=o.values + by, valid=None) if o.channel == channel else o for o in run.observations))
            for run in runs
        ]

    return change


def _off(channel: str, path: str) -> Callable[[Mapping[str, float]], str]:
    unit = "rad" if quantity(channel) == "angle" else "m"
    return lambda found: f"{channel} looks offset by {found[path]:.4g} {unit}: give offset = {-found[path]:.4g}, or estimate {path}."


def _lengths(model: Model) -> Iterator[Suspicion]:
    """The distance of a joint from its parent's frame, and of a site from its body's, each times a factor."""
    for joint in model.joints:
        if model.body(joint.body).parent != "world":
            yield from _length(f"joint.{joint.name}.position", model.joint_position(joint), f"The joint {joint.name} looks")
    for site in model.sites:
        yield from _length(f"site.{site.name}.position", site.position, f"The site {site.name} looks")


def _length(path: str, at: Sequence[float], what: str) -> Iterator[Suspicion]:
    length = math.hypot(*at)
    if not length > 0.0:
        return
    places = {f"{path}.{axis}": f"{x!r} * length" for axis, x in zip("xyz", map(float, at), strict=True) if x}

    def words(found: Mapping[str, float]) -> str:
        return f"{what} {found['length'] * length:.4g} m away from its parent's frame where the model has {length:.4g} m: check {path} (a link length), or estimate it."

    yield Suspicion("length", (path,), _as_is, words, {"length": Unknown(1.0, lower=0.05, upper=20.0, places=places)})


def _scales(runs: Runs) -> Iterator[Suspicion]:
    """A factor that is no unit: teeth of a gear, counts of an encoder."""
    for channel in _observed(runs):
        path = f"{channel}.gain"
        yield Suspicion("gain", (channel,), _as_is, _gain(channel, path), {path: Unknown(1.0, lower=0.02, upper=50.0)})
    for channel in _driven(runs):
        if channel.startswith("actuator."):
            path = f"{channel}.gain"
            yield Suspicion("gain", (channel,), _as_is, _gain(f"The drive {channel}", path), {path: Unknown()})


def _gain(what: str, path: str) -> Callable[[Mapping[str, float]], str]:
    def words(found: Mapping[str, float]) -> str:
        return f"{what} looks scaled by {found[path]:.4g}: give scale, or estimate {path}."

    return words
