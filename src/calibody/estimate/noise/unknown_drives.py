"""Which joints have an unknown drive, and what that means for a fit: unmodelled forces with a memory on these joints (`nodes.py: Noise`), which here are the answer and not a disturbance.

A mechanism that hangs on nothing (a walker, a drone) has joints that only say where it is: those of a body on the world that is free, or that slides in two directions or more. "All joints" are the others,
so that what acts there is exactly zero; an unknown drive of such a joint is a residual force that is asked for by its name. A joint that a coupling ties to another has no force of its own either, and one with a measured drive has that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from calibody.errors import CalibodyError, nearest
from calibody.estimate.noise.unmodelled import ProcessNoise, for_all
from calibody.mechanics import channels
from calibody.model import Model
from calibody.model.elements import BALL, COUPLING, CURVE, FREE, HINGE, SLIDE, WORLD
from calibody.recording.recording import Recording
from calibody.recording.unknown import EVERY

SLIDES = 2
"""So many slides of a body on the world, and it hangs on nothing."""


def carrying(model: Model) -> set[str]:
    """The joints that only say where a mechanism is that hangs on nothing."""
    on_world = [j for j in model.joints if next(b for b in model.bodies if b.name == j.body).parent == WORLD]
    slides = Counter(j.body for j in on_world if j.kind == SLIDE)
    loose = {j.body for j in on_world if j.kind == FREE or slides[j.body] >= SLIDES}
    return {j.name for j in on_world if j.body in loose}


def unknown_joints(model: Model, recordings: Sequence[Recording]) -> dict[str, dict[str, Any]]:
    """By joint, what is asked for as its noise; the same in all recordings of a fit."""
    asked = [{u.channel: u.noise for u in r.unknown} for r in recordings]
    for r, other in zip(recordings, asked, strict=True):
        if other != asked[0]:
            raise CalibodyError(f'The runs "{recordings[0].name}" and "{r.name}" have different unknown drives; give all runs of a fit the same.')
    named = {u.joint: u.noise for u in recordings[0].unknown if u.channel != EVERY} if recordings else {}
    kinds = {j.name: j.kind for j in model.joints}
    for joint in named:
        if joint not in kinds:
            raise CalibodyError(f'The unknown drive "joint.{joint}.force" is on a joint that the model does not have{nearest(joint, kinds) or "."}')
        if kinds[joint] not in (HINGE, SLIDE, BALL):
            raise CalibodyError(f'The unknown drive "joint.{joint}.force" is on a {kinds[joint]} joint; it can be on hinges, slides and balls.')
    every = asked[0].get(EVERY) if asked else None
    if every is None:
        return named
    without = carrying(model) | _tied(model) | _driven(model, recordings)
    return {j.name: named.get(j.name, every) for j in model.joints if j.name in named or (j.kind in (HINGE, SLIDE, BALL) and j.name not in without)}


def _tied(model: Model) -> set[str]:
    return {loop.joint1 for loop in model.loops if loop.kind in (COUPLING, CURVE) and loop.joint1}


def _driven(model: Model, recordings: Sequence[Recording]) -> set[str]:
    """Joints on which a known drive acts, or that one moves as prescribed."""
    out = set()
    for path in {d.channel for r in recordings for d in r.drives}:
        channel = channels.drivable(model, path)
        if channel.kind == "joint":
            out.add(channel.name)
        elif channel.kind == "actuator":
            out |= set(model.acted_on(model.tables["actuator"][channel.name]))
    return out


def with_unknown_drives(model: Model, recordings: Sequence[Recording], given: ProcessNoise) -> ProcessNoise:
    """Process noise with that of unknown drives."""
    sought = unknown_joints(model, recordings)
    if not sought:
        return given
    if isinstance(given, Mapping) and not for_all(given):
        both = {name.removeprefix("joint."): one for name, one in given.items()}
        twice = next((joint for joint in both if joint in sought), None)
        if twice is not None:
            raise CalibodyError(f'process_noise names the joint "{twice}", whose drive is unknown already; leave one of them out.')
        return {**both, **sought}
    if given == "none":
        return sought
    return {j.name: given for j in model.joints if j.kind in (HINGE, SLIDE, BALL)} | sought
