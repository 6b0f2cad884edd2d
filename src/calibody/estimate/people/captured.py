"""What a motion-capture trial cannot be: markers in another unit than is said, plates whose force has the wrong sign. And what it should not be: markers whose places nobody told.

Two sites of one body are as far apart in the recording as in the model, whatever the motion; a factor of a thousand between them is a unit, some per cent are another person, or markers that were put elsewhere. A plate
pushes a body away from the ground, against gravity. So do forces that were given without a plate, where nothing but them carries the mechanism: pulled down as hard, it would fall faster than anything that is let go.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.noise.unknown_drives import carrying
from calibody.mechanics import channels
from calibody.model import Model
from calibody.model.elements import BETWEEN_COORDINATES, FREE, SLIDE, WORLD
from calibody.recording.recording import Recording

ANOTHER_UNIT = 30.0
"""Factor between distances from which it is the unit: places that were taken from another person are off by a tenth of that."""
APART = 0.01
"""Distance in the model from which a pair is looked at [m]."""
DOWNWARDS = 0.5
"""Share of its impulse that a plate has along gravity, pulling, from which its sign is wrong: friction has none in the mean. Of forces without a plate, the share of the weight's impulse."""
UPWARDS = 0.5
"""Share of the impulse of all plates that is against gravity, at least, where nothing else carries the mechanism: 0.95 and more of walking and running."""
MISPLACED = 0.06
"""Relative difference of distances between markers of one body (the median) from which their places are not those of the model: skin that moves leaves 2 % of a scaled model (a running human)."""
FEWEST_PAIRS = 3
"""From so many on the median says something."""
PLACES = ("site", "body", "joint")
"""Kinds of elements whose `position`, estimated, is where markers are."""


def refuse_absurd(model: Model, recordings: Sequence[Recording]) -> None:
    for recording in recordings:
        _refuse_unit(model, recording)
        _refuse_pulling(model, recording)
        _refuse_sideways(model, recording)
        _refuse_sinking(model, recording)


def unplaced(model: Model, recordings: Sequence[Recording], unknown: Collection[str]) -> list[str]:
    """Runs whose markers are not where the model has them, while no such place is among the unknown paths."""
    if any(path.split(".")[0] in PLACES and ".position" in path for path in unknown):
        return []
    out = []
    for recording in recordings:
        off = [abs(r - 1.0) for a, b in _pairs(model, recording) if (r := _ratio(model, recording, a, b)) is not None]
        if len(off) >= FEWEST_PAIRS and (typical := float(np.median(off))) > MISPLACED:
            out.append(
                f'Distances between markers of one body in the run "{recording.name}" are off from the model\'s by {100 * typical:.0f} % (median), and no trial at rest has told where markers are: record one '
                "(poses = true) and give the markers' places (site.NAME.position.x) and the segments' as unknowns, or scale the model to this person."
            )
    return out


def _refuse_unit(model: Model, recording: Recording) -> None:
    ratios = [r for a, b in _pairs(model, recording) if (r := _ratio(model, recording, a, b)) is not None]
    if not ratios:
        return
    factor = float(np.median(ratios))
    if not 1.0 / ANOTHER_UNIT < factor < ANOTHER_UNIT:
        raise CalibodyError(
            f'The run "{recording.name}" has markers of one body {factor:.2g} times as far apart as they are in the model; '
            "check the unit of its positions (millimetres called metres, or the other way round)."
        )


def _pairs(model: Model, recording: Recording) -> list[tuple[str, str]]:
    """Neighbours among the observed sites of each body."""
    seen: dict[str, list[str]] = {}
    for name in dict.fromkeys(c.name for o in recording.observations if (c := channels.resolve(model, o.channel)).kind == "site" and c.quantity == "position"):
        seen.setdefault(model.tables["site"][name].body, []).append(name)
    return [pair for body, names in seen.items() if body != WORLD for pair in pairwise(names)]


def _ratio(model: Model, recording: Recording, a: str, b: str) -> float | None:
    """The distance of two sites over that in the model; None where it is not known in space or too small."""
    known, observed = float(np.linalg.norm(np.subtract(*(model.tables["site"][n].position for n in (a, b))))), set(recording.channels)
    paths = [[f"site.{n}.position.{c}" for n in (a, b)] for c in "xyz"]
    if known < APART or not all(path in observed for both in paths for path in both):
        return None
    both = [[recording[path] for path in one] for one in paths]
    if any(not np.array_equal(one.times, both[0][0].times) for pair in both for one in pair):
        return None
    squares = sum((p.values - q.values) ** 2 for p, q in both)
    return float(np.sqrt(np.nanmedian(squares))) / known if np.isfinite(squares).any() else None


def _refuse_pulling(model: Model, recording: Recording) -> None:
    gravity = np.array(model.world.gravity)
    for plate in recording.plates if gravity.any() else ():
        down = plate.force @ (gravity / np.linalg.norm(gravity))
        if np.sum(down) > DOWNWARDS * np.sum(np.linalg.norm(plate.force, axis=1)) > 0.0:
            raise CalibodyError(
                f'The plate under "{plate.body}" of the run "{recording.name}" pulls it down ({float(np.max(down)):.0f} N at most, along gravity); '
                "give the force on the body, which is the opposite of that on the plate."
            )


def _refuse_sideways(model: Model, recording: Recording) -> None:
    """Plates that together push along the ground carry nothing: what is up in the recording is not what is up in the model."""
    gravity = np.array(model.world.gravity)
    total = np.sum([np.trapezoid(p.force, p.times, axis=0) for p in recording.plates], axis=0) if recording.plates else np.zeros(3)
    size = float(np.linalg.norm(total))
    if not gravity.any() or not size or not carrying(model) or -(total @ gravity) > UPWARDS * size * np.linalg.norm(gravity):
        return
    here, there = ("xyz"[int(np.argmax(np.abs(v)))] for v in (total, gravity))
    raise CalibodyError(
        f'The plates of the run "{recording.name}" push along {here}, and gravity is along {there} in the model: the recording has another axis upwards. Turn it: name the columns of every marker and plate in the order '
        'of the model\'s axes, with a minus where one points the other way (columns = ["M.x", "M.z", "-M.y"] takes z for y); calibody new writes them so.'
    )


def _refuse_sinking(model: Model, recording: Recording) -> None:
    """Forces on bodies that were given without a plate pull a mechanism down that nothing else carries."""
    gravity = np.array(model.world.gravity)
    if not gravity.any() or not _carried_by_forces_alone(model, recording, gravity):
        return
    plated = {channel for plate in recording.plates for channel in plate.signals}
    down, weight = gravity / np.linalg.norm(gravity), sum(b.mass for b in model.bodies) * float(np.linalg.norm(gravity))
    impulses, times = {}, np.linspace(recording.start, recording.end, 513)
    for drive in recording.drives:
        c = channels.driven(model, drive.channel)
        if c.kind in ("body", "site") and c.quantity == "force" and drive.channel not in plated:
            along = down["xyz".index(drive.channel[-1])] * drive.signal.means(times)
            impulses[drive.channel] = float(np.mean(along)), float(np.max(along))
    if impulses and sum(mean for mean, _ in impulses.values()) > DOWNWARDS * weight:
        worst = max(impulses, key=lambda channel: impulses[channel][0])
        raise CalibodyError(
            f'The forces on bodies in the run "{recording.name}" pull the mechanism down, which nothing else carries ("{worst}": {impulses[worst][1]:.0f} N at most, along gravity); '
            "give the forces on the bodies, which are the opposite of those on plates."
        )


def _carried_by_forces_alone(model: Model, recording: Recording, gravity: np.ndarray) -> bool:
    """Whether every tree of bodies is free to fall, by a free joint or a slide that nothing acts on, and touches nothing."""
    tied = any(WORLD in (lp.body1, lp.body2) for lp in model.loops if lp.kind not in BETWEEN_COORDINATES)
    if model.contacts or model.springs or model.bushings or model.paths or tied:
        return False
    driven = {joint for a in model.actuators for joint in model.acted_on(a)}
    driven |= {c.name for d in recording.drives if (c := channels.driven(model, d.channel)).kind == "joint"}
    strong = DOWNWARDS * sum(b.mass for b in model.bodies) * float(np.linalg.norm(gravity))
    driven |= {u.joint for u in recording.unknown if isinstance(u.sd, str) or u.sd > strong}
    for body in model.bodies:
        if body.parent == WORLD:
            free = [j for j in model.joints_of(body.name) if j.name not in driven and not j.stiffness]
            along = [j for j in free if j.kind == FREE or (j.kind == SLIDE and abs(np.dot(j.axis, gravity)) > 0.9 * np.linalg.norm(gravity))]
            if not along:
                return False
    return bool(model.bodies)
