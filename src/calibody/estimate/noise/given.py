"""Which noise a fit is given and which it has to find: of the channels, and of forces that the model does not know."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from calibody.errors import CalibodyError, nearest, shown
from calibody.estimate import observe
from calibody.estimate.nodes import Noise
from calibody.estimate.noise.hyper import ChannelSize, ForceSize, Hyper
from calibody.estimate.noise.unmodelled import FOUND, SD, TIME, ProcessNoise, for_all, refused
from calibody.model import Model
from calibody.recording.filters import noise_sd
from calibody.recording.recording import Observation, Recording

UNCLOCKED = 0.01
"""Share of a channel's spread over all poses that its noise is first taken to be: any that is not too small will do, it is found then."""


@dataclass(frozen=True)
class Forces:
    """The unmodelled forces that a fit is asked for, by joint."""

    density: Mapping[str, float] = field(default_factory=dict)
    """0 where it is to be found."""
    slow: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    """Of forces with a memory whose size is given: their density and correlation time (`run.Noise`)."""
    sized: tuple[str, ...] = ()
    """Joints whose density is to be found."""
    remembering: Mapping[str, float | None] = field(default_factory=dict)
    """Those of them whose force is to have a memory, whatever the data say about it: its correlation time, or None where that is to be found too."""
    coupled: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """What of it goes together (`run.Noise`), as found."""


def process_noise(model: Model, given: ProcessNoise, period: float) -> Forces:
    """What is asked for: "none", "auto", or for all hinges, slides and balls or by joint the standard deviation [N, N m] of a force that is drawn anew every sampling
    `period`, or `{"sd": ..., "correlation_time": ...}` of one with a memory, each "auto" where it is to be found."""
    joints = [j.name for j in model.joints if j.kind in ("hinge", "slide", "ball")]
    if given == "none":
        return Forces()
    if isinstance(given, str) and given != FOUND:
        raise CalibodyError(f'process_noise = "{given}"; give "none", "auto", a standard deviation in N or N m, or one per joint.')
    if not joints and (given == FOUND or for_all(given)):
        raise CalibodyError(f'process_noise = {shown(given)}, but the model has no hinge, slide or ball joint that could carry it; use "none".')
    wanted = dict.fromkeys(joints, given) if for_all(given) else {k.removeprefix("joint."): v for k, v in given.items()}  # type: ignore[union-attr]
    known, density, slow, memory, remembering = [j.name for j in model.joints], {}, {}, {}, {}
    for name, one in wanted.items():
        if name not in known:
            raise CalibodyError(f'process_noise names the joint "{name}", which the model does not have{nearest(name, known) or "."}')
        if (wrong := refused(one)) is not None:
            raise CalibodyError(f'process_noise of "{name}" is {shown(one)}; {wrong}')
        sd, time = (one.get(SD, FOUND), one.get(TIME)) if isinstance(one, Mapping) else (one, None)
        if sd == 0.0:
            continue
        if sd == FOUND:
            density[name] = 0.0
            remembering |= {} if time is None else {name: None if time == FOUND else float(time)}
        elif time is None:
            density[name] = float(sd) ** 2 * period
        else:
            slow[name], memory[name] = float(sd) ** 2 * 2.0 * float(time), float(time)
    return Forces(density, slow, memory, tuple(name for name, value in density.items() if not value), remembering)


def known(noise: Noise) -> Forces:
    """Forces as they were found, given."""
    return Forces(noise.density, noise.slow, noise.memory, coupled=noise.coupled)


def noises(recordings: Sequence[Recording], forces: Forces, believed: bool = False) -> tuple[list[Noise], bool, list[Hyper]]:
    """One `Noise` per run (the process noise shared), whether all channels' noise was given, and what is found by maximum likelihood.

    That is the channels' noise that was not given and the size of unmodelled forces; with those the noise of all other channels too, the stated sd
    being the least it can be: one that is too small (the rounding of an encoder for all its errors) would turn measurement errors into forces, and those decide the inertias. Where the
    forces are unknown drives only, the stated sd are `believed`: they say how much of the scatter is a moment.
    """
    found, missing, stated = [], [], set()
    for r in recordings:
        sds = {o.channel: found_sd(o, not r.poses) if (sd := o.noise[0]) is None else sd for o in r.observations}
        sds |= {observe.INITIAL + channel: known.sd for channel, known in r.initial.items() if known.sd is not None}
        sought = frozenset(o.channel for o in r.observations if (forces.sized and not believed) or o.sd is None)
        found.append(Noise(sds, sought, forces.density, forces.slow, forces.memory, forces.coupled))
        missing += [c for c in sds if c in found[-1].missing and c not in missing]
        stated |= {o.channel for o in r.observations if o.sd is not None}
    least = {c: next(math.log(n.measured[c]) for n in found if c in n.missing) for c in missing if c in stated}
    hypers = [*(ForceSize(joint) for joint in forces.sized), *(ChannelSize(c, least.get(c, -math.inf)) for c in missing)]
    return found, all(o.sd is not None for r in recordings for o in r.observations), hypers


def found_sd(o: Observation, clock: bool = True) -> float:
    """The noise of a channel whose sd is not stated, from its scatter; of a sensor that counts at least that of counting. Without a clock nothing is known of it yet but a share of its range."""
    scatter = noise_sd(o.times, o.values) if clock else UNCLOCKED * max(float(np.nanstd(o.values)), 1e-6)
    return scatter if o.resolution is None else max(scatter, o.resolution / math.sqrt(12.0))
