"""Inertias beside unknown drives.

They are estimated from what is random about these forces as well: a force w of a stated size scatters accelerations by M^-1 w, so that the likelihood of accelerations that scatter less
grows with `log det M` at every node until M explains it. Muscles and motors do not act at random, and a size that is only the most that they may be can make the masses too large, where what is measured leaves accelerations open; the error bars, which take the
forces to be drawn as stated, do not show it. So it is said, and `weighing.py` asks only the equations that hold no such force.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from calibody.estimate.noise.unknown_drives import carrying
from calibody.estimate.result import WEIGHED
from calibody.estimate.unknowns import Entry, Place
from calibody.model import Model
from calibody.model.elements import INERTIAL
from calibody.model.paths import number_at


def weighed(model: Model, entries: Sequence[Entry], driven: Collection[str]) -> list[str]:
    """What to think of inertias that are estimated beside unknown drives."""
    names = dict.fromkeys(e.name for e in entries if e.group is not None or any(_inertia(model, place) for place in e.places))
    if not driven or not names:
        return []
    return [
        f"{WEIGHED}, taken to be drawn as stated whatever the motion is: {', '.join(names)}. Where accelerations are noisy, forces that are smaller or smoother than their size and memory say can make masses too large by "
        f"several of their error bars. Hold them{', and let force plates weigh them: result.weigh(...)' if carrying(model) else ', give them a prior, or measure the forces'}."
    ]


def _inertia(model: Model, place: Place) -> bool:
    return place.sensor is None and (place.path.endswith(".armature") or number_at(model, place.path).role == INERTIAL)
