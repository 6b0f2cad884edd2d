"""Recordings: what was measured and what drove the mechanism, each on its own clock, in SI units.

A recording is one run. Its observations are scalar channels (`joint.hinge.angle`, `site.tip.position.x`) with gaps as NaN; its drives are
signals that are known at every instant of the run. All clocks count from the same zero. Whether the mechanism has such channels is not
known here.

A recording may be one of poses at rest instead: it has no clock, its samples are counted, and those of the same number were taken in the same pose.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from calibody import html
from calibody.errors import CalibodyError, nearest
from calibody.recording.angles import unwrap
from calibody.recording.finite import is_finite as is_finite
from calibody.recording.impact import Impact, check_impacts
from calibody.recording.plate import Deviation, Plate
from calibody.recording.signal import Signal
from calibody.recording.unknown import UnknownDrive, check_unknown

FEWEST_SAMPLES = 4
"""Finite samples a channel must have: a cubic has four coefficients, and less than that says nothing about noise."""
NEAR = 0.25
"""Share of the sampling period within which an instant is that of a sample."""
SATURATED, OFTEN = 0.05, 3
"""Share of samples at the exact maximum or minimum from which a channel is said to look cut off, and how many at least: one sample always is the largest."""
LARGE_GAP = 10.0
"""Sampling periods without a sample from which a gap is mentioned."""
SLOW_CLOCK = 0.5
"""Median sampling period [s] from which the clock may be in another unit."""


@dataclass(frozen=True, eq=False)
class Observation:
    """One measured scalar channel."""

    channel: str
    times: np.ndarray
    """Instants of the samples [s], strictly increasing."""
    values: np.ndarray
    """SI units, after scale and offset; NaN is a gap."""
    sd: Any = None
    """Standard deviation of the noise, in the units of `values`: a number, or one per sample; None: not known, to be found. Of one per sample the
    number kept here is the typical one, `1/sqrt(mean(1/sd^2))`."""
    relative_sd: np.ndarray | None = None
    """(samples,) the sd of each sample over `sd`; None: all alike."""
    resolution: float | None = None
    """Step of a sensor that counts, in the units of `values`: adds resolution^2/12 to the variance of the noise."""
    valid: tuple[float, float] | None = None
    """Samples at or beyond these limits (a sensor that saturates, a dropout written as a number) are ignored."""
    ignored: np.ndarray | None = None
    """(samples,) which samples were ignored for that."""

    def __post_init__(self) -> None:
        what = f'The channel "{check_channel(self.channel)}"'
        times, values = _series(what, self.times, self.values)
        resolution, valid = check_resolution(self.resolution, what), check_valid(self.valid, what)
        if valid is not None:
            beyond = np.isfinite(values) & ((values <= valid[0]) | (values >= valid[1]))
            ignored = beyond if self.ignored is None else beyond | self.ignored
            if beyond.any():
                values = np.where(beyond, np.nan, values)
                values.setflags(write=False)
                if not np.isfinite(values).any():
                    raise CalibodyError(f"{what} has no sample inside valid = [{valid[0]:g}, {valid[1]:g}]; check the limits and their unit.")
            object.__setattr__(self, "ignored", ignored)
        if np.isinf(values).any():
            raise CalibodyError(f"{what} is infinite at sample {int(np.argmax(np.isinf(values))) + 1}; mark gaps as NaN or leave the cell empty.")
        count = int(np.isfinite(values).sum())
        if count == 0:
            raise CalibodyError(f"{what} has no finite sample; check the column and its missing values.")
        if count < FEWEST_SAMPLES:
            raise CalibodyError(f"{what} has {count} finite sample{'s' if count > 1 else ''}; at least {FEWEST_SAMPLES} are needed.")
        sd, relative = _spread(self.sd, self.relative_sd, values, what)
        for name, value in (("times", times), ("values", values), ("sd", sd), ("relative_sd", relative), ("resolution", resolution), ("valid", valid)):
            object.__setattr__(self, name, value)

    @property
    def present(self) -> np.ndarray:
        """Which samples are not gaps."""
        return np.isfinite(self.values)

    @property
    def noise(self) -> tuple[float | None, np.ndarray | None]:
        """The sd with that of counting, `resolution/sqrt(12)` for a reading anywhere within a step; and that of each sample over it (None: all alike)."""
        if self.sd is None or self.resolution is None:
            return self.sd, self.relative_sd
        each = np.hypot(self.sd * (1.0 if self.relative_sd is None else self.relative_sd), self.resolution / math.sqrt(12.0))
        typical = _typical(np.atleast_1d(each)[self.present if self.relative_sd is not None else ...])
        return typical, None if self.relative_sd is None else each / typical

    @property
    def period(self) -> float:
        """The median time between samples that are not gaps [s]."""
        return float(np.median(np.diff(self.times[self.present])))

    def unwrapped(self, force: bool = False) -> Observation:
        """The same angles without jumps of a turn (see `angles`)."""
        return replace(self, values=unwrap(self.times, self.values, force))

    def between(self, start: float, end: float) -> Observation:
        """The samples from `start` to `end` [s], both included."""
        inside = (self.times >= start) & (self.times <= end)
        if inside.all():
            return self
        if np.isfinite(self.values[inside]).sum() < FEWEST_SAMPLES:
            raise CalibodyError(
                f'The channel "{self.channel}" has {int(np.isfinite(self.values[inside]).sum())} finite samples from {start:g} s to {end:g} s '
                f"(it was recorded from {self.times[0]:g} s to {self.times[-1]:g} s); at least {FEWEST_SAMPLES} are needed."
            )
        parts = {name: None if (x := getattr(self, name)) is None else x[inside] for name in ("relative_sd", "ignored")}
        return replace(self, times=self.times[inside], values=self.values[inside], **parts)

    def warnings(self, clock: bool = True) -> list[str]:
        """Sentences about what looks wrong but can be fitted; without a `clock`, samples are numbered and their times mean nothing."""
        t, x = self.times[self.present], self.values[self.present]
        what, out = f'The channel "{self.channel}"', []
        if clock and self.period > SLOW_CLOCK:
            out.append(f'{what} has one sample every {self.period:g} s; if its clock is not in seconds, give time_unit ("ms", "us", "ns").')
        out += _gap_sentences(what, t) if clock else []
        if self.ignored is not None and self.ignored.any():
            low, high = self.valid or (math.nan, math.nan)
            out.append(f"{what}: {int(self.ignored.sum())} of {len(self.values)} samples lie at or beyond valid = [{low:g}, {high:g}] and are ignored.")
        if self.resolution is not None:
            share = (
                f"{self.resolution / math.sqrt(12.0):.2g} is added to its noise (in squares)"
                if self.sd is not None
                else "its noise is taken to be at least that"
            )
            out.append(f"{what} counts in steps of {self.resolution:.3g}: {share}.")
        if x.min() == x.max():
            rest = "the mechanism was at rest" if clock else "that part of it was never moved"
            return [*out, f"{what} is constant ({x[0]:g}); it says little, unless {rest}."]
        for word, limit in (("largest", x.max()), ("smallest", x.min())):
            share = float(np.mean(x == limit))
            if share > SATURATED and share * len(x) >= OFTEN:
                out.append(
                    f"{what} is at its {word} value ({limit:g}) in {100 * share:.0f} % of the samples; if that is the sensor's limit, make those samples gaps."
                )
        return out


@dataclass(frozen=True, eq=False)
class Drive:
    """One scalar input of the mechanism: a control of an actuator or a force, known at every instant."""

    channel: str
    signal: Signal
    sd: float | None = None
    """Standard deviation of the drive itself, in its units; None: known exactly."""
    missing: int = 0
    """Samples that had no value and were left out."""

    def __post_init__(self) -> None:
        what = f'The drive "{check_channel(self.channel)}"'
        if not isinstance(self.signal, Signal):
            raise CalibodyError(f"{what} is {type(self.signal).__name__}; give a Signal(times, values, hold).")
        object.__setattr__(self, "sd", check_sd(self.sd, what))

    @property
    def period(self) -> float:
        """The median time between samples [s]; infinite for one sample, which is a constant from then on."""
        return float(np.median(np.diff(self.signal.times))) if len(self.signal.times) > 1 else math.inf

    @property
    def known(self) -> tuple[float, float]:
        """From when until when the drive is known [s]: its samples, and one period more on both sides, where the ends are held."""
        first, last, period = float(self.signal.times[0]), float(self.signal.times[-1]), self.period
        return first - (period if math.isfinite(period) else 0.0), max(last + period, self.signal.end)

    def warnings(self, start: float) -> list[str]:
        """Sentences about what looks wrong in a run that begins at `start`."""
        what, first = f'The drive "{self.channel}"', float(self.signal.times[0])
        out = (
            _gap_sentences(what, self.signal.times) if self.signal.hold == "linear" and not self.missing else []
        )  # a held drive may be sampled only where it changes
        if self.missing:
            steps = np.diff(self.signal.times)
            longest = f", the longest gap {steps.max():.3g} s after {self.signal.times[int(np.argmax(steps))]:g} s" if len(steps) else ""
            across = "the last value is held" if self.signal.hold == "zero" else "a straight line is drawn"
            out.append(f"{what} has {self.missing} sample{'s' if self.missing > 1 else ''} without a value{longest}; {across} across what is missing.")
        if first > start + 1e-9 * max(1.0, abs(start)):
            out.append(f"{what} begins {first - start:.3g} s after the run; its first value is held back.")
        return out


@dataclass(frozen=True)
class Initial:
    """A value at the start of a run that is known: exactly, or with a standard deviation."""

    value: float
    sd: float | None = None
    """None: exactly."""


@dataclass(frozen=True, eq=False)
class Recording:
    """One run: observations inside [start, end] and drives that cover it. Samples outside are left out, drives are kept whole."""

    name: str
    observations: tuple[Observation, ...]
    drives: tuple[Drive, ...] = ()
    start: float = math.nan
    """Begin of the run [s], before which a delayed drive is held; by default the first observed sample."""
    end: float = math.nan
    """End of the run [s]; by default the last observed sample."""
    source: str = "memory"
    """Where it was read from, for people."""
    sha256: str | None = None
    """Of the file; of several files, the SHA-256 of their hexadecimal digests, one per line; None for data in memory."""
    initial: Mapping[str, Any] = field(default_factory=dict)
    """What is known of joints at the start: `{"joint.a.angle": 0.3}` exactly, `{"joint.a.rate": {"value": 0.0, "sd": 0.01}}` with a standard deviation."""
    poses: bool = False
    """Whether these are poses at rest, without a clock: the time of a sample is the number of its pose."""
    unknown: tuple[UnknownDrive, ...] = ()
    """Forces on joints that act and were not measured: they are found with the motion."""
    plates: tuple[Plate, ...] = ()
    """Force plates; the drives that they make stand among the drives."""
    impacts: tuple[Impact, ...] = ()
    """What strikes when, where that is known roughly; empty: a fit finds it in the data."""

    def __post_init__(self) -> None:
        if self.poses and (self.drives or self.unknown or self.initial):
            word = "drives" if self.drives or self.unknown else "initial values"
            raise CalibodyError(f'The recording "{self.name}" has poses at rest, and {word}; poses have neither dynamics nor a start: leave them out.')
        object.__setattr__(self, "initial", check_initial(self.initial, f'The recording "{self.name}"'))
        observations, drives = (
            _members(self.name, self.observations, Observation),
            _members(self.name, _with_plates(self.drives, self.plates), Drive),
        )
        if not observations:
            raise CalibodyError(f'The recording "{self.name}" observes nothing; give at least one channel to observe.')
        start = _instant("start", self.start, min(o.times[o.present][0] for o in observations))
        end = _instant("end", self.end, max(o.times[o.present][-1] for o in observations))
        if start >= end:
            raise CalibodyError(f'The recording "{self.name}" starts at {start:g} s and ends at {end:g} s; the end must come after the start.')
        object.__setattr__(self, "observations", tuple(o.between(start, end) for o in observations))
        object.__setattr__(self, "drives", drives)
        object.__setattr__(self, "unknown", check_unknown(self.name, self.unknown, [d.channel for d in drives]))
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "end", end)
        object.__setattr__(self, "impacts", check_impacts(self.name, self.impacts, start, end))
        for drive in drives:
            self._check_covered_by(drive)

    def _check_covered_by(self, drive: Drive) -> None:
        first, last = drive.known
        rounding = 1e-9 * max(1.0, abs(self.start), abs(self.end))
        if first > self.start + rounding or last < self.end - rounding:
            raise CalibodyError(
                f'The drive "{drive.channel}" is shorter than the recording "{self.name}": it was sampled from {drive.signal.times[0]:g} s to '
                f"{drive.signal.times[-1]:g} s, the run goes from {self.start:g} s to {self.end:g} s; extend the drive, or give start and end inside it."
            )

    @cached_property
    def deviations(self) -> tuple[Deviation, ...]:
        """How far drives may be off: noisy ones each by itself, those of a plate together."""
        alone = [
            Deviation(d.channel, d.signal.times, {d.channel: np.full(len(d.signal.times), d.sd)}, None, d.signal.hold) for d in self.drives if d.sd is not None
        ]
        return (*alone, *(deviation for plate in self.plates for deviation in plate.deviations))

    @property
    def channels(self) -> tuple[str, ...]:
        """The observed channels."""
        return tuple(o.channel for o in self.observations)

    @property
    def duration(self) -> float:
        """Length of the run [s]."""
        return self.end - self.start

    @property
    def period(self) -> float:
        """The shortest sampling period of the observations [s]."""
        return min(o.period for o in self.observations)

    def __getitem__(self, channel: str) -> Observation:
        for observation in self.observations:
            if observation.channel == channel:
                return observation
        known = self.channels
        raise CalibodyError(f'The recording "{self.name}" does not observe "{channel}"{nearest(channel, known) or "; it has " + ", ".join(known) + "."}')

    def slower(self, factor: float) -> Recording:
        """As if its clock had gone wrong: all times so many times as large."""
        observations = tuple(replace(o, times=factor * o.times) for o in self.observations)
        drives = tuple(replace(d, signal=replace(d.signal, times=factor * d.signal.times)) for d in self.drives if not _of_plate(d, self.plates))
        plates = tuple(plate.slower(factor) for plate in self.plates)
        return replace(self, observations=observations, drives=drives, plates=plates, start=factor * self.start, end=factor * self.end)

    def cut(self, start: float | None = None, end: float | None = None) -> Recording:
        """The part from `start` to `end` [s]; what is left out stays. Initial values belong to the start and are lost with it."""
        kept = self.initial if start is None or start == self.start else {}
        return replace(self, start=self.start if start is None else start, end=self.end if end is None else end, initial=kept)

    def exchanged(self, a: str, b: str, times: Collection[float] = ()) -> Recording:
        """With the samples of two observed things exchanged, channels or markers (`site.RTOE`, `site.RMT5`): at these instants (as `Mistake.times` has them; the nearest sample of each), or throughout where none is given."""
        partner = {x + o.channel.removeprefix(y): o for o in self.observations for x, y in ((a, b), (b, a)) if o.channel == y or o.channel.startswith(f"{y}.")}
        own = [o.channel for o in self.observations if any(o.channel == x or o.channel.startswith(f"{x}.") for x in (a, b))]
        if not own or any(c not in partner or not np.array_equal(self[c].times, partner[c].times) for c in own):
            raise CalibodyError(
                f'"{a}" and "{b}" of the recording "{self.name}" cannot be exchanged: both need the same channels, sampled at the same instants.'
            )
        chosen = np.fromiter(times, dtype=float)

        def values(o: Observation) -> np.ndarray:
            here = np.full(len(o.times), not len(chosen))
            if len(chosen):
                at = np.abs(o.times[:, None] - chosen).argmin(axis=0)
                off = np.abs(o.times[at] - chosen)
                if off.max() > NEAR * float(np.median(np.diff(o.times))):
                    raise CalibodyError(
                        f'"{a}" and "{b}" of the recording "{self.name}" are to be exchanged at {chosen[off.argmax()]:.6g}, where they have no sample; the nearest is at {o.times[at[off.argmax()]]:.6g}.'
                    )
                here[at] = True
            return np.where(here, partner[o.channel].values, o.values)

        observations = tuple(replace(o, values=values(o), valid=None) if o.channel in partner else o for o in self.observations)
        return replace(self, observations=observations)

    def warnings(self) -> list[str]:
        """Sentences about what looks wrong but can be fitted."""
        return [s for o in self.observations for s in o.warnings(clock=not self.poses)] + [s for d in self.drives for s in d.warnings(self.start)]

    @property
    def numbered(self) -> np.ndarray:
        """Numbers of the poses in which anything was observed."""
        return np.unique(np.concatenate([o.times[o.present] for o in self.observations]))

    def __str__(self) -> str:
        span = f"{len(self.numbered)} poses" if self.poses else f"{self.start:g} s to {self.end:g} s"
        lines = [f"{self.name}: {span}, from {self.source}"]
        for o in self.observations:
            noise = "noise not given" if o.sd is None else f"sd {o.sd:g}" + ("" if o.relative_sd is None else " (typical)")
            rate = "" if self.poses else f"{1 / o.period:.4g} Hz, "
            lines.append(f"  observed  {o.channel}  {int(o.present.sum())} samples, {rate}{noise}")
        for channel, known in self.initial.items():
            lines.append(f"  initial   {channel}  {known.value:g}" + ("" if known.sd is None else f", sd {known.sd:g}"))
        for d in self.drives:
            noise = "" if d.sd is None else f", sd {d.sd:g}"
            lines.append(f"  driven    {d.channel}  {len(d.signal.times)} samples, hold {d.signal.hold}{noise}")
        lines += [f"  unknown   {u.channel}  sd {u.sd}, correlation time {u.correlation_time}" for u in self.unknown]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """For notebooks: what was observed, what drove it, what is known of the start, and what looks wrong."""
        rows = []
        for o in self.observations:
            rate, sd = "" if self.poses else f"{1 / o.period:.4g}", "found by the fit" if o.sd is None else f"{o.sd:.4g}"
            rows.append(("observed", o.channel, str(int(o.present.sum())), rate, sd))
        for d in self.drives:
            rows.append(("driven", d.channel, str(len(d.signal.times)), "", "" if d.sd is None else f"{d.sd:.4g}"))
        rows += [("unknown", u.channel, "", "", str(u.sd)) for u in self.unknown]
        for channel, known in self.initial.items():
            rows.append(("start", f"{channel} = {known.value:g}", "", "", "exact" if known.sd is None else f"{known.sd:.4g}"))
        title, *_ = str(self).splitlines()
        return html.block(title, html.table(("", "channel", "samples", "rate [Hz]", "sd"), rows, numbers=(2, 3, 4)), html.sentences(self.warnings()))


def _of_plate(drive: Drive, plates: Sequence[Plate]) -> bool:
    """Whether a drive is one that a plate makes."""
    return any(drive.signal is signal for plate in plates for signal in plate.signals.values())


def _with_plates(drives: Sequence[Drive], plates: Sequence[Plate]) -> tuple[Drive, ...]:
    """Drives, and those of plates once."""
    return (*(d for d in drives if not (isinstance(d, Drive) and _of_plate(d, plates))), *(Drive(c, s) for plate in plates for c, s in plate.signals.items()))


Member = TypeVar("Member", Observation, Drive)


def check_channel(channel: object) -> str:
    """A channel's name, or a sentence if it cannot be one."""
    if not isinstance(channel, str) or len(channel.split(".")) < 2 or not all(channel.split(".")):
        raise CalibodyError(f'{channel!r} is not a channel; give a path such as "joint.NAME.angle" or "actuator.NAME".')
    return channel


def check_sd(sd: object, what: str) -> float | None:
    """A standard deviation as a float, or None."""
    if sd is None:
        return None
    if not is_finite(sd) or not sd > 0:
        raise CalibodyError(f"{what} has sd = {sd!r}; give a positive standard deviation, or leave it out.")
    return float(sd)


def check_initial(given: object, what: str) -> dict[str, Initial]:
    """Known values at the start, by channel."""
    if not isinstance(given, Mapping):
        raise CalibodyError(f'{what} has initial = {given!r}; give a mapping from channels to values, such as {{"joint.NAME.rate": 0.0}}.')
    out = {}
    for channel, value in given.items():
        known = _initial(value)
        if not is_finite(known.value):
            raise CalibodyError(f'{what} has the initial value {value!r} of "{channel}"; give a number, or {{"value": ..., "sd": ...}}.')
        out[check_channel(channel)] = Initial(float(known.value), check_sd(known.sd, f'{what}, the initial value of "{channel}",'))
    return out


def _initial(value: Any) -> Initial:
    if isinstance(value, Initial):
        return value
    if isinstance(value, Mapping) and set(value) in ({"value"}, {"value", "sd"}):
        return Initial(value["value"], value.get("sd"))
    number: Any = value
    return Initial(number)


def check_resolution(resolution: object, what: str) -> float | None:
    """The step of a sensor that counts, or None."""
    if resolution is None:
        return None
    if not is_finite(resolution) or not resolution > 0:
        raise CalibodyError(f"{what} has resolution = {resolution!r}; give the step of the sensor, above zero, or leave it out.")
    return float(resolution)


def check_valid(valid: object, what: str) -> tuple[float, float] | None:
    """The limits of a sensor, or None."""
    if valid is None:
        return None
    limits = tuple(valid) if isinstance(valid, (list, tuple, np.ndarray)) else ()
    if len(limits) != 2 or not all(is_finite(x) or x in (math.inf, -math.inf) for x in limits) or not limits[0] < limits[1]:
        raise CalibodyError(f"{what} has valid = {valid!r}; give two numbers, the lower limit first.")
    return float(limits[0]), float(limits[1])


def _typical(sd: np.ndarray) -> float:
    """The sd that samples of different sd have together: `1/sqrt(mean(1/sd^2))`."""
    return float(1.0 / np.sqrt(np.mean(1.0 / sd**2)))


def _spread(sd: Any, relative: np.ndarray | None, values: np.ndarray, what: str) -> tuple[float | None, np.ndarray | None]:
    """The typical sd, and that of each sample over it."""
    if not isinstance(sd, (list, tuple, np.ndarray)):
        return check_sd(sd, what), relative
    try:
        each = np.asarray(sd, dtype=float)
    except (TypeError, ValueError):
        raise CalibodyError(f"{what}: sd must be a number, or an array of numbers.") from None
    if each.shape != values.shape:
        raise CalibodyError(f"{what} has {len(values)} samples and an sd of the shape {each.shape}; give one number, or one per sample.")
    present = np.isfinite(values)
    wrong = present & ~((each > 0) & np.isfinite(each))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise CalibodyError(f"{what} has sd = {each[k]:g} at sample {k + 1}; give a positive standard deviation, or make the sample a gap.")
    typical = _typical(each[present])
    return typical, np.where(present, each, typical) / typical


def check_clock(what: str, times: np.ndarray) -> None:
    """A sentence that names the first sample at which a clock is not finite or does not increase."""
    if not np.isfinite(times).all():
        raise CalibodyError(f"{what} has no finite time at sample {int(np.argmin(np.isfinite(times))) + 1}; remove the row or mend the clock.")
    steps = np.diff(times)
    if (steps <= 0).any():
        k = int(np.argmax(steps <= 0))
        raise CalibodyError(f"{what}: its clock does not increase at sample {k + 1} ({times[k]:.9g} s, then {times[k + 1]:.9g} s); sort or mend the times.")


def _series(what: str, times: object, values: object) -> tuple[np.ndarray, np.ndarray]:
    try:
        t, x = np.array(times, dtype=float), np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise CalibodyError(f"{what}: times and values must be arrays of numbers.") from None
    if t.ndim != 1 or t.shape != x.shape:
        raise CalibodyError(f"{what}: times has the shape {t.shape} and values {x.shape}; give two arrays of one length.")
    check_clock(what, t)
    t.setflags(write=False)
    x.setflags(write=False)
    return t, x


def _members(name: str, given: Sequence[Member], kind: type[Member]) -> tuple[Member, ...]:
    members = tuple(given)
    seen: set[str] = set()
    for member in members:
        if not isinstance(member, kind):
            raise CalibodyError(f'The recording "{name}" was given {type(member).__name__} where {kind.__name__} was expected.')
        if member.channel in seen:
            raise CalibodyError(f'The recording "{name}" has the channel "{member.channel}" twice; leave one out.')
        seen.add(member.channel)
    return members


def _instant(word: str, given: object, default: float) -> float:
    if isinstance(given, float) and math.isnan(given):
        return float(default)
    if not is_finite(given):
        raise CalibodyError(f"{word} = {given!r}; give an instant in seconds, or leave it out.")
    return float(given)


def _gap_sentences(what: str, times: np.ndarray) -> list[str]:
    if len(times) < 3:
        return []
    steps = np.diff(times)
    large = steps > LARGE_GAP * np.median(steps)
    if not large.any():
        return []
    k = int(np.argmax(steps))
    more = f", and {int(large.sum()) - 1} more" if large.sum() > 1 else ""
    return [f"{what} has a gap of {steps[k]:.3g} s after {times[k]:g} s{more}; the sampling period is {np.median(steps):.3g} s."]
