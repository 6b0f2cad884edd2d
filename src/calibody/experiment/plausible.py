"""What looks wrong in a recording although it can be read: sentences, never a refusal.

`Recording.warnings` has gaps, saturation, constant channels and slow clocks. Here is what needs more than one channel or a notion of what is usual:
units (an angle of hundreds of radians, a rate that is 57 times the slope of its angle), noise that is not the stated one, channels that
cover little of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from calibody.recording import jumps
from calibody.recording.filters import noise_sd
from calibody.recording.glitches import glitches
from calibody.recording.recording import Observation, Recording
from calibody.recording.units import quantity

LARGEST_ANGLE = 100.0
"""rad: 16 turns. What moves more is a wheel, or degrees taken for radians."""
LARGEST_LENGTH = 100.0
"""m: what moves further is rather in millimetres."""
LARGEST_STEP = math.pi
"""rad between neighbouring samples from which the turns cannot be counted."""
NOISE_RATIO = 5.0
"""Scatter over stated sd from which one of the two must be wrong."""
LEAST_COVER = 0.5
"""Share of the run below which a channel is said to cover little of it."""
LEAST_CORRELATION = 0.8
"""Between a rate and the slope of its coordinate, for their ratio to mean something."""
RATE_RATIO = 1.5
"""Ratio of a rate to the slope of its coordinate from which their units differ."""


def sentences(run: Recording, observe: Mapping[str, Any]) -> list[str]:
    """All that looks wrong; `observe` has the specs the channels were read by."""
    stated = {o.channel: _unit(o.channel, observe) for o in run.observations}
    found = [*run.warnings(), *_rates(run), *_cover(run), *_constant_drives(run)]
    for o in run.observations:
        found += [*_size(o, stated[o.channel]), *_steps(o), *_noise(o), *(g.sentence for g in glitches(o)), *jumps.sentences(o)]
    return found


def _unit(channel: str, observe: Mapping[str, Any]) -> str | None:
    spec = observe.get(channel) or observe.get(channel.rpartition(".")[0])
    return getattr(spec, "unit", None)


def _size(o: Observation, unit: str | None) -> Iterator[str]:
    span, kind = float(np.nanmax(o.values) - np.nanmin(o.values)), quantity(o.channel)
    if kind == "angle" and span > LARGEST_ANGLE and unit in (None, "rad"):
        yield f'The channel "{o.channel}" spans {span:.4g} rad ({span / (2 * math.pi):.3g} turns); if the column is in degrees, give unit = "deg".'
    if kind in ("position", "com") and span > LARGEST_LENGTH and unit in (None, "m"):
        yield f'The channel "{o.channel}" spans {span:.4g} m; if the column is in millimetres, give unit = "mm".'


def _steps(o: Observation) -> Iterator[str]:
    if quantity(o.channel) != "angle":
        return
    x = o.values[o.present]
    step = float(np.median(np.abs(np.diff(x))))
    if step > LARGEST_STEP:
        yield f'The channel "{o.channel}" moves by {step:.3g} rad from sample to sample; check its unit, and unwrap = false if it has counted its turns.'


def _noise(o: Observation) -> Iterator[str]:
    if o.sd is None:
        return
    scatter = noise_sd(o.times, o.values)
    if scatter > NOISE_RATIO * o.sd:
        yield (
            f'The channel "{o.channel}" scatters by {scatter:.2g} about a smooth curve, but its sd is given as {o.sd:.2g}; check sd and its unit, '
            f"or the motion is too fast for the samples."
        )


def _rates(run: Recording) -> Iterator[str]:
    """A joint's rate against the slope of its angle or position."""
    for rate in run.observations:
        joint, _, word = rate.channel.rpartition(".")
        coordinate = next((o for o in run.observations if word == "rate" and o.channel in (f"{joint}.angle", f"{joint}.position")), None)
        if coordinate is None:
            continue
        ratio = _ratio(rate, coordinate)
        if ratio is not None and not 1 / RATE_RATIO < ratio < RATE_RATIO:
            yield f'The channel "{rate.channel}" is {ratio:.3g} times the slope of "{coordinate.channel}"; check the units and the signs of both.'


def _ratio(rate: Observation, coordinate: Observation) -> float | None:
    """How many times the slope of the coordinate the rate is, or None if the two do not resemble each other."""
    t, s = coordinate.times[coordinate.present], coordinate.values[coordinate.present]
    middle, slope = 0.5 * (t[1:] + t[:-1]), np.diff(s) / np.diff(t)
    here = rate.present & (rate.times >= middle[0]) & (rate.times <= middle[-1])
    if here.sum() < 10:
        return None
    a, b = rate.values[here], np.interp(rate.times[here], middle, slope)
    a, b = a - a.mean(), b - b.mean()
    size_a, size_b = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if not (size_a > 0 and size_b > 0 and math.isfinite(size_a * size_b)):
        return None
    correlation = float(a @ b) / (size_a * size_b)
    return math.copysign(size_a / size_b, correlation) if abs(correlation) > LEAST_CORRELATION else None


def _cover(run: Recording) -> Iterator[str]:
    for o in run.observations:
        t = o.times[o.present]
        if t[-1] - t[0] < LEAST_COVER * run.duration:
            yield (
                f'The channel "{o.channel}" goes from {t[0]:g} s to {t[-1]:g} s, the run from {run.start:g} s to {run.end:g} s; '
                "do the clocks of all channels count from the same zero?"
            )


def _constant_drives(run: Recording) -> Iterator[str]:
    for drive in run.drives:
        values = drive.signal.values
        if len(values) > 1 and values.min() == values.max() and values[0] != 0.0:
            yield f'The drive "{drive.channel}" is constant ({values[0]:g}); a drive that changes tells more.'
