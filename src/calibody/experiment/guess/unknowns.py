"""What to estimate: candidates by what was recorded, of which those are kept that the recording determines (`foresee`, at the first values)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.transcription import Transcription
from calibody.estimate.unknowns import Unknown
from calibody.experiment.guess.columns import LIKELY, SURE, UNSURE
from calibody.experiment.guess.numbers import Guess
from calibody.experiment.guess.physics import Explained
from calibody.model import Model
from calibody.model.elements import WORLD
from calibody.recording.recording import Recording

LEAST_SHARE = 0.5
"""Of a torque (in squares) that has to be explained for first values to be taken from it."""
ROUNDS = 30
"""Of leaving out, at most."""
ALONE = 0.99
"""Share of an unknown in directions that the data leave open, from which it is open by itself."""


def candidates(model: Model, joints: Sequence[str], payload: str | None, found: Explained | None, driven: bool) -> dict[str, Unknown]:
    """The payload and friction of the observed joints, then moments of the payload, or masses: the ones to keep first."""
    out: dict[str, Unknown] = {}
    if payload is not None:
        out |= {f"body.{payload}.{number}": Unknown() for number in ("mass", "com.x", "com.y", "com.z")}
    out |= {f"joint.{j}.damping": Unknown(_first(model, f"joint.{j}.damping", found and found.damping.get(j)), lower=0.0) for j in joints}
    rubbing = [j for j in joints if (found is not None and j in found.friction) or model.joint(j).friction > 0.0]
    out |= {f"joint.{j}.friction": Unknown(_first(model, f"joint.{j}.friction", found and found.friction.get(j)), lower=0.0) for j in rubbing}
    if payload is not None:
        out |= {f"body.{payload}.inertia.{number}": Unknown(lower=0.0) for number in ("xx", "yy", "zz")}
    elif driven:
        out |= {f"body.{b.name}.mass": Unknown() for b in model.ordered_bodies if b.mass > 0.0 and _moves(model, b.name, joints)}
    return out


def _first(model: Model, path: str, value: float | None) -> float | None:
    """The model's value if it has one, else what the regression says, or a small number to begin with."""
    if model[path] > 0.0:
        return None
    return rounded(value) if value is not None and value > 0.0 else 0.01


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
