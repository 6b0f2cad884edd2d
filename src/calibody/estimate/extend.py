"""Adding what the model lacks: the strongest suspect becomes an unknown, as long as a fit with it confirms that it is there.

A suspect (`suspects.py`) was found by one step from where it was held; the fit with it goes all the way. It is confirmed if that fit converges and ends with the
number at least `CONFIRMED` of its own standard deviations from where it was held. Otherwise the last confirmed fit stands, and a note says what was tried.
Of suspects that explain the data alike the first is taken and the others are named: the data cannot tell, the user may know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from calibody.estimate.unknowns import Unknown

if TYPE_CHECKING:
    from calibody.estimate.estimator import AbstractEstimator, Report, Unknowns
    from calibody.estimate.result import Result
    from calibody.model import Model
    from calibody.recording.recording import Recording

MOST = 4
"""Numbers added to one fit; a model that lacks more than that is not mended by numbers."""
CONFIRMED = 3.0


@dataclass(frozen=True)
class Extended:
    """The last confirmed fit, and its unknowns."""

    result: Result
    unknowns: dict[str, Unknown | float | None]


def extended(
    method: AbstractEstimator, model: Model, recordings: Sequence[Recording], unknowns: Unknowns, result: Result, report: Report | None = None
) -> Extended:
    """A fit with what it lacked."""
    known: dict[str, Unknown | float | None] = dict(unknowns)
    added: list[str] = []
    while result.lacks and len(added) < MOST:
        suspect = result.lacks[0]
        more = {**known, suspect.path: Unknown(suspect.value)}  # its size is now known, and with it the scale of its changes
        start = {name: e.value for name, e in result.parameters.items()}
        trial = method.estimate(model, recordings, more, report=report, start=start)
        found = trial.parameters[suspect.path]
        if not trial.converged or found.sd is None or abs(found.value - suspect.held) < CONFIRMED * found.sd:
            why = "that fit did not converge" if not trial.converged else "that fit did not confirm it"
            return Extended(_noted(result, [*added, f"Adding {suspect.path} ({suspect.words}) was tried, but {why}."]), known)
        others = f" The data cannot tell it from {' and '.join(suspect.alike)}." if suspect.alike else ""
        unit = f" {suspect.unit}" if suspect.unit else ""
        added.append(
            f"{suspect.path} ({suspect.words}) was added to the unknowns: {found.value:.4g} +- {found.sd:.2g}{unit} where {suspect.held:g} was taken.{others}"
        )
        result, known = trial, more
    return Extended(_noted(result, added), known)


def _noted(result: Result, sentences: Sequence[str]) -> Result:
    return replace(result, notes=(*result.notes, *sentences))
