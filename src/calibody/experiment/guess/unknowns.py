"""What to estimate: candidates by what was recorded, of which those are kept that the recording determines (`foresee`, at the first values)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.transcription import Transcription
from calibody.estimate.unknowns import Unknown
from calibody.experiment.guess.columns import LIKELY, SURE, UNSURE
from calibody.experiment.guess.numbers import Guess
from calibody.experiment.guess.physics import Explained
from calibody.model import Body, Model
from calibody.model.elements import WORLD
from calibody.recording.recording import Recording

LEAST_SHARE = 0.5
"""Of a torque (in squares) that has to be explained for first values to be taken from it."""
ROUNDS = 30
"""Of leaving out, at most."""
ALONE = 0.99
"""Share of an unknown in directions that the data leave open, from which it is open by itself."""


def candidates(model: Model, joints: Sequence[str], payload: str | None, found: Explained | None, pushed: Set[str]) -> dict[str, Unknown]:
    """The payload, friction and springs of the observed joints (a spring is one that the model has), then moments of the payload, or masses, and moments of bodies on joints that nothing drives: the ones to keep first. `pushed` are the joints that a log drives."""
    driven = bool(pushed)
    out: dict[str, Unknown] = {}
    if payload is not None:
        out |= {f"body.{payload}.{number}": Unknown() for number in ("mass", "com.x", "com.y", "com.z")}
    little = {} if found is None else found.little
    out |= {f"joint.{j}.damping": Unknown(_first(model, f"joint.{j}.damping", found and found.damping.get(j), little.get(j, 0.01)), lower=0.0) for j in joints}
    rubbing = [j for j in joints if (found is not None and j in found.friction) or model.joint(j).friction > 0.0]
    out |= {f"joint.{j}.friction": Unknown(_first(model, f"joint.{j}.friction", found and found.friction.get(j), 0.01), lower=0.0) for j in rubbing}
    out |= {f"joint.{j}.stiffness": Unknown(_spring(model, j, found), lower=0.0) for j in joints if model.joint(j).stiffness > 0.0 and payload is None}
    if payload is not None:
        out |= {f"body.{payload}.inertia.{number}": Unknown(lower=0.0) for number in ("xx", "yy", "zz")}
        return out
    links = [b.name for b in _links(model) if b.mass > 0.0 and _moves(model, b.name, joints)]
    out |= {f"body.{b}.mass": Unknown() for b in links if driven}
    swinging = [
        b for b in links if not driven or (model.joints_of(b) and not pushed & {j.name for j in model.joints_of(b)})
    ]  # free swings tell how the mass lies, not how much there is
    return out | {f"body.{b}.inertia.{c}": Unknown() for b in swinging for c in ("xx", "yy", "zz")}


def _first(model: Model, path: str, value: float | None, little: float) -> float | None:
    """The model's value unless it is nothing to speak of, else what the regression says, or a small number to begin with: what the data determine is judged there."""
    if model[path] >= little:
        return None
    return rounded(value) if value is not None and value > little else rounded(little)


def _spring(model: Model, joint: str, found: Explained | None) -> float | None:
    """What the regression says, if that is a spring at all: a stiffness of a file is often a guess, and many times off it moves a resonance out of sight."""
    value = 0.0 if found is None else found.stiffness.get(joint, 0.0)
    return rounded(value) if value > 0.0 and found is not None and found.left.get(joint, 1.0) < LEAST_SHARE else None


def _links(model: Model) -> list[Body]:
    """Of bodies that are fixed to each other, the heaviest: they move as one, and their masses tell the same."""
    heaviest: dict[str, Body] = {}
    root: dict[str, str] = {}
    for body in model.ordered_bodies:
        root[body.name] = body.name if model.joints_of(body.name) else root.get(body.parent, body.parent)
        best = heaviest.setdefault(root[body.name], body)
        heaviest[root[body.name]] = body if body.mass > best.mass else best
    return list(heaviest.values())


def _moves(model: Model, body: str, joints: Sequence[str]) -> bool:
    while body != WORLD:
        if any(j.name in joints for j in model.joints_of(body)):
            return True
        body = model.body(body).parent
    return False


def kept(model: Model, runs: Sequence[Recording], given: Mapping[str, Unknown]) -> tuple[dict[str, Unknown], Guess]:
    """The candidates without those that the recording does not determine."""
    unknowns, dropped = dict(given), []
    try:
        for _ in range(ROUNDS):
            found = Transcription().foresee(model, runs, unknowns)
            if found.resolved.all():
                break
            worst = _undetermined(found.weak, found.resolved)
            names = list(unknowns)
            dropped += [names[k] for k in worst]
            unknowns = {name: u for k, (name, u) in enumerate(unknowns.items()) if k not in worst}
            if not unknowns:
                break
    except CalibodyError as error:
        return dict(given), Guess("unknowns", f"{len(given)}", f"what the recording determines could not be foreseen ({str(error).rstrip('.')})", UNSURE)
    if not dropped:
        return unknowns, Guess("unknowns", f"{len(unknowns)}", "the recording determines all that was proposed, at the first values", SURE)
    return unknowns, Guess("unknowns", f"{len(unknowns)}", f"left out, because the recording does not determine them: {', '.join(dropped)}", LIKELY)


def _undetermined(weak: np.ndarray, resolved: np.ndarray) -> list[int]:
    """All that are open by themselves; otherwise the last of those that are open together (masses come last)."""
    share = (weak**2).sum(1)
    alone = np.flatnonzero(share > ALONE)
    return alone.tolist() if len(alone) else [int(np.flatnonzero(~resolved)[-1])]


def rounded(x: float, digits: int = 2) -> float:
    """To so many digits that count."""
    return float(f"{x:.{digits}g}")
