"""Adding what the model lacks: the strongest suspect becomes an unknown, as long as a fit with it confirms that it is there.

A suspect (`suspects.py`) was found by one step from where it was held; the fit with it goes all the way. It is confirmed if that fit converges and ends with the
number at least `CONFIRMED` of its own standard deviations from where it was held; of numbers that are suspected together, if their joint chi-square there is as improbable. One step can mistake a lag for a delay, so
suspects nearly as strong as the first are fitted too, and of those confirmed the one that makes the data most likely is taken (`_surprise`). If none is, the last confirmed fit stands, and a note says what was tried.
Suspects that explain the data alike are named with the one that was taken: the data cannot tell, the user may know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.estimate.chi_square import exceeded
from calibody.estimate.result import ALIKE
from calibody.estimate.unknowns import Unknown

if TYPE_CHECKING:
    from calibody.estimate.estimator import AbstractEstimator, Report, Unknowns
    from calibody.estimate.result import Result, Suspect
    from calibody.model import Model
    from calibody.recording.recording import Recording

MOST = 4
"""Numbers added to one fit; a model that lacks more than that is not mended by numbers."""
CONFIRMED = 3.0
"""Of its own standard deviations that a number has to end away from where it was held: by chance once in 370 times, and it was suspected before."""
RIVALS, NEARLY = 3, 0.5
"""Suspects fitted in one round, and the share of the first one's gain from which another is its rival: what one step gains is only about what a fit gains, and the
fits decide, so that more rivals cost time and nothing else."""


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
    while (wanted := [s for s in result.lacks if not s.remedy]) and len(added) < MOST:
        rivals = [s for s in wanted if s.gain >= NEARLY * wanted[0].gain][:RIVALS]
        start = {name: e.value for name, e in result.parameters.items()}
        trials = []
        for s in rivals:  # its size is now known, and with it the scale of its changes
            trial = method.estimate(model, recordings, {**known, **_unknown(s)}, report=report, start=start)
            if _confirmed(trial, s):
                trials.append((s, trial))
        if not trials:
            tried = " and ".join(f"{s.path} ({s.words})" for s in rivals)
            return Extended(_noted(result, [*added, f"Adding {tried} was tried, but no further fit confirmed it."]), known)
        suspect, result = min(trials, key=lambda pair: _surprise(pair[1], len(pair[0].each)))
        known = {**known, **_unknown(suspect)}
        added.append(_sentence(suspect, result))
    return Extended(_noted(result, added), known)


def _unknown(suspect: Suspect) -> dict[str, Unknown]:
    return {part.path: Unknown(part.value) for part in suspect.each}


def _confirmed(trial: Result, suspect: Suspect) -> bool:
    held = {part.path: part.held for part in suspect.each}
    if not trial.converged or any(trial.parameters[path].sd is None for path in held):
        return False
    at = [list(trial.parameters).index(path) for path in held]
    away = np.array([trial.parameters[path].value - value for path, value in held.items()])
    chi2 = float(away @ np.linalg.solve(trial.uncertainty.scatter[np.ix_(at, at)], away))
    return exceeded(len(away), chi2) <= exceeded(1, CONFIRMED**2)


def _surprise(result: Result, added: int) -> tuple[bool, float]:
    """Whether unmodelled forces were needed, and minus twice the logarithmic likelihood: with them as the fit maximised it, otherwise of the residuals by their noise, which may have been found. Every
    number added counts as much as tells two suspects apart."""
    if result.force_tests:
        return True, 2.0 * result.history[-1].cost + ALIKE * added
    return False, result.chi2 + sum(2.0 * len(c.times) * float(np.log(c.sd)) for c in result.fit) + ALIKE * added


def _sentence(suspect: Suspect, result: Result) -> str:
    found = [replace(part, value=result.parameters[part.path].value, sd=result.parameters[part.path].sd or 0.0) for part in suspect.each]
    others = f" The data cannot tell it from {' and '.join(suspect.alike)}." if suspect.alike else ""
    if suspect.parts:
        return f"{suspect.words[0].upper()}{suspect.words[1:]} were added to the unknowns: {' and '.join(part.sentence for part in found)}.{others}"
    return f"{suspect.path} ({suspect.words}) was added to the unknowns: {found[0].found}.{others}"


def _noted(result: Result, sentences: Sequence[str]) -> Result:
    return replace(result, notes=(*result.notes, *sentences))
