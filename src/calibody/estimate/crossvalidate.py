"""Cross-validation: numbers fitted on some recordings, judged on the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError, SimulationError, shown
from calibody.estimate.fit import fit, recordings_of
from calibody.estimate.predict import follow, predict
from calibody.estimate.sweep import sweep
from calibody.estimate.unknowns import Unknown
from calibody.recording.recording import Recording

if TYPE_CHECKING:
    from calibody.estimate.result import Result
    from calibody.model import Model


@dataclass(frozen=True)
class Fold:
    """One fit on some runs, judged on the others."""

    fitted: tuple[str, ...]
    judged: tuple[str, ...]
    result: Result = field(repr=False)
    rms_over_sd: dict[str, float]
    """By left-out run: rms of all channels over their noise, the states estimated again with the parameters fixed."""
    prediction_rms: dict[str, dict[str, float]]
    """By left-out run and channel: rms of the free prediction, in the channel's units."""
    cost: dict[str, float]
    """By left-out run: the cost of estimating its states again, per node (the paper's score for "shadow")."""


@dataclass(frozen=True)
class CrossValidation:
    folds: tuple[Fold, ...]

    @property
    def score(self) -> float:
        """Root of the mean square, over all left-out runs, of residuals in units of their noise; 1 is perfect."""
        return float(np.sqrt(np.mean([v**2 for f in self.folds for v in f.rms_over_sd.values()])))

    def __str__(self) -> str:
        lines = [f"{'judged on':24} {'rms / noise':>12}   free prediction (rms)"]
        for fold in self.folds:
            for run, value in fold.rms_over_sd.items():
                free = ", ".join(f"{c} {v:.3g}" for c, v in fold.prediction_rms.get(run, {}).items())
                lines.append(f"{run:24} {value:12.3f}   {free}")
        return "\n".join([*lines, f"score {self.score:.3f} (1: as good as the noise allows)"])


def cross_validate(
    model: Model,
    runs: Recording | Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    folds: int | str | None = None,
    window: float | None = None,
    executor: Executor | None = None,
    **settings: Any,
) -> CrossValidation:
    """Fit on all runs but a few and judge on those, in turns: `folds` groups of runs (by default every run is left out once), or "single": fit on
    each run alone and judge on all others.

    `settings` go to `fit` (its `method` and options). A left-out run is judged twice: with its states estimated again, and by free prediction from its first
    `window` seconds. Folds are independent: they run on a process per core, or on the `executor` given (as in `sweep`).
    """
    runs = recordings_of(runs)
    if len(runs) < 2:
        raise CalibodyError(f'Cross-validation needs at least two runs, to fit some and judge the others; only "{runs[0].name}" was given.')
    count = len(runs) if folds is None or folds == "single" else folds
    if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= len(runs):
        raise CalibodyError(f'folds = {shown(folds)} with {len(runs)} runs; give "single", a number from 2 to {len(runs)}, or leave it out.')
    tasks = []
    for k in range(count):
        judged = runs[k::count]
        fitted = [r for r in runs if not any(r is j for j in judged)]
        if folds == "single":
            judged, fitted = fitted, judged
        tasks.append({"model": model, "fitted": fitted, "judged": judged, "estimate": estimate, "window": window, "settings": settings})
    return CrossValidation(tuple(sweep(_fold, tasks, executor)))


def _fold(
    model: Model,
    fitted: Sequence[Recording],
    judged: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    window: float | None,
    settings: Mapping[str, Any],
) -> Fold:
    result = fit(model, fitted, estimate, **settings)
    scores, predictions, costs = {}, {}, {}
    for recording in judged:
        followed = follow(result, recording)
        residuals = [c.deviation for c in followed.fit]
        costs[recording.name] = followed.cost / followed.problem.runs[0].K
        scores[recording.name] = float(np.sqrt(np.mean(np.concatenate(residuals) ** 2)))
        try:
            predictions[recording.name] = predict(result, recording, window).rms
        except SimulationError:
            predictions[recording.name] = {}
    return Fold(tuple(r.name for r in fitted), tuple(r.name for r in judged), result, scores, predictions, costs)
