"""Which noise a fit is given and which it has to find: of the channels, and of forces that the model does not know."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from calibody.errors import CalibodyError, nearest
from calibody.estimate import observe
from calibody.estimate.marginal import Hyper
from calibody.estimate.run import Noise
from calibody.model import Model
from calibody.recording.filters import noise_sd
from calibody.recording.recording import Observation, Recording

ProcessNoise = str | float | Mapping[str, float]


def process_noise(model: Model, given: ProcessNoise, period: float) -> tuple[dict[str, float], bool]:
    """Density of the unmodelled force of each joint, and whether it is to be found.

    `given` is "none", "auto", or the standard deviation [N, N m] of a force that is drawn anew every sampling `period`, for all hinges, slides and
    balls or by joint.
    """
    joints = [j.name for j in model.joints if j.kind in ("hinge", "slide", "ball")]
    if given == "none":
        return {}, False
    if given == "auto":
        if not joints:
            raise CalibodyError('process_noise = "auto", but the model has no hinge, slide or ball joint that could carry it; use "none".')
        return dict.fromkeys(joints, 0.0), True
    if isinstance(given, str):
        raise CalibodyError(f'process_noise = "{given}"; give "none", "auto", a standard deviation in N or N m, or one per joint.')
    sds = dict.fromkeys(joints, given) if not isinstance(given, Mapping) else {k.removeprefix("joint."): v for k, v in given.items()}
    known = [j.name for j in model.joints]
    for name, sd in sds.items():
        if name not in known:
            raise CalibodyError(f'process_noise names the joint "{name}", which the model does not have{nearest(name, known) or "."}')
        if isinstance(sd, bool) or not isinstance(sd, (int, float)) or not 0.0 <= sd < float("inf"):
            raise CalibodyError(f'process_noise of "{name}" is {sd!r}; give a standard deviation in N or N m that is not negative.')
    return {name: float(sd) ** 2 * period for name, sd in sds.items() if sd > 0.0}, False


def noises(recordings: Sequence[Recording], density: Mapping[str, float], auto: bool = False) -> tuple[list[Noise], bool, list[Hyper]]:
    """One `Noise` per run (the process noise shared), whether all channels' noise was given, and what is found by maximum likelihood.

    That is the channels' noise that was not given and, with `auto`, the size of the unmodelled forces; then the noise of all other channels too, the stated sd
    being the least it can be: one that is too small (the rounding of an encoder for all its errors) would turn measurement errors into forces, and those decide the inertias.
    """
    found, missing, stated = [], [], set()
    for r in recordings:
        sds = {o.channel: found_sd(o) if (sd := o.noise[0]) is None else sd for o in r.observations}
        sds |= {observe.INITIAL + channel: known.sd for channel, known in r.initial.items() if known.sd is not None}
        found.append(Noise(sds, frozenset(o.channel for o in r.observations if auto or o.sd is None), density))
        missing += [c for c in sds if c in found[-1].missing and c not in missing]
        stated |= {o.channel for o in r.observations if o.sd is not None}
    least = {c: next(math.log(n.measured[c]) for n in found if c in n.missing) for c in missing if c in stated}
    hypers = [Hyper(True, joint) for joint in density if auto] + [Hyper(False, c, least.get(c, -math.inf)) for c in missing]
    return found, all(o.sd is not None for r in recordings for o in r.observations), hypers


def found_sd(o: Observation) -> float:
    """The noise of a channel whose sd is not stated, from its scatter; of a sensor that counts at least that of counting."""
    scatter = noise_sd(o.times, o.values)
    return scatter if o.resolution is None else max(scatter, o.resolution / math.sqrt(12.0))
