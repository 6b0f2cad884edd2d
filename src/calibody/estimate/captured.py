"""What a motion-capture trial cannot be: markers in another unit than is said, plates whose force has the wrong sign.

Two sites of one body are as far apart in the recording as in the model, whatever the motion; a factor of a thousand between them is a unit. A plate pushes a body away from the ground, against gravity.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from calibody.errors import CalibodyError
from calibody.mechanics import channels
from calibody.model import Model
from calibody.model.elements import WORLD
from calibody.recording.recording import Recording

ANOTHER_UNIT = 30.0
"""Factor between distances from which it is the unit: places that were taken from another person are off by a tenth of that."""
APART = 0.01
"""Distance in the model from which a pair is looked at [m]."""
DOWNWARDS = 0.5
"""Share of its impulse that a plate has along gravity, pulling, from which its sign is wrong: friction has none in the mean."""


def refuse_absurd(model: Model, recordings: Sequence[Recording]) -> None:
    for recording in recordings:
        _refuse_unit(model, recording)
        _refuse_pulling(model, recording)


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
