"""Judging a calibrated model on recordings: free prediction from an estimated start, and cross-validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg

from calibody.errors import CalibodyError, SimulationError
from calibody.estimate.observed import Sensors, predicted
from calibody.estimate.run import Nodes, Noise
from calibody.estimate.unknowns import Entry, Unknown
from calibody.mechanics import host
from calibody.mechanics.structure import TREE
from calibody.recording.recording import Recording
from calibody.steppers.motion import Motion
from calibody.steppers.rollout import simulate

if TYPE_CHECKING:
    from calibody.estimate.result import Result
    from calibody.model import Model

WINDOW = 0.1
"""Share of the recording from which the start is estimated by default ..."""
FEWEST_NODES = 20
"""... and how many sampling periods it has at least."""
FEWEST_SIMULATED = 4
"""Nodes of a simulation that ended early, for its channels to be interpolated."""


@dataclass(frozen=True)
class Predicted:
    """One channel: measured, and simulated freely from the start."""

    channel: str
    times: np.ndarray = field(repr=False)
    measured: np.ndarray = field(repr=False)
    predicted: np.ndarray = field(repr=False)

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean((self.measured - self.predicted) ** 2)))


@dataclass(frozen=True)
class Prediction:
    """A free simulation of a recording. `incomplete` is the sentence that says why it ended early, or None."""

    run: str
    channels: dict[str, Predicted]
    motion: Motion = field(repr=False)
    incomplete: str | None

    def __getitem__(self, channel: str) -> Predicted:
        if channel not in self.channels:
            raise CalibodyError(f'"{channel}" was not observed in the run "{self.run}"; there are {", ".join(self.channels)}.')
        return self.channels[channel]

    @property
    def rms(self) -> dict[str, float]:
        return {name: c.rms for name, c in self.channels.items()}


def _pinned(result: Result, recording: Recording) -> tuple[list[Entry], np.ndarray]:
    """The unknowns of a fit for another recording: shared ones fixed at their estimates, those per run free again (once)."""
    out, theta, seen = [], [], set()
    for entry, value in zip(result.problem.entries, result.theta, strict=True):
        if entry.run is None:
            out.append(replace(entry, lower=value, upper=value, prior=None))
            theta.append(value)
        elif (name := entry.name.rpartition("[")[0]) not in seen:
            seen.add(name)
            others = [v for e, v in zip(result.problem.entries, result.theta, strict=True) if e.name.rpartition("[")[0] == name]
            out.append(replace(entry, name=f"{name}[{recording.name}]", run=0))
            theta.append(float(np.mean(others)))
    return out, np.array(theta)


def follow(result: Result, recording: Recording) -> Result:
    """The motion of another recording under the estimates of a fit: states only (and what is estimated per run)."""
    return result.again(recording, *_pinned(result, recording))


def predict(result: Result, recording: Recording, window: float | None = None) -> Prediction:
    """The first `window` seconds give the start (by default a tenth of the recording), the rest is simulated without looking at the data."""
    shortest = FEWEST_NODES * recording.period
    span = min(recording.duration, max(WINDOW * recording.duration, shortest)) if window is None else float(window)
    if not 3 * recording.period < span <= recording.duration * (1 + 1e-9):
        raise CalibodyError(f"window = {span:g} s; give at least four sampling periods and at most the recording's {recording.duration:g} s.")
    begun = follow(result, recording.cut(end=recording.start + span))
    problem = begun.problem
    model, _, sensors = problem.model_of(0, begun.theta)
    first = begun.motion()
    h = recording.duration / max(1, round(recording.duration / result.mesh.h))
    drive = {d.channel: replace(d.signal, times=d.signal.times - recording.start) for d in recording.drives}
    incomplete = None
    try:
        simulated = simulate(model, recording.duration, h, _initial(first), drive, problem.stepper(), problem.runs[0].structure.coordinates)
    except SimulationError as error:
        partial = getattr(error, "motion", None)
        if partial is None:
            raise
        incomplete, simulated = str(error), partial
    return Prediction(recording.name, compared(recording, simulated, sensors), simulated, incomplete)


def compared(recording: Recording, simulated: Motion, sensors: Sensors) -> dict[str, Predicted]:
    """Every observed channel beside a simulation from the start of the recording, which may have ended early."""
    times = recording.start + simulated.h * np.arange(simulated.q.shape[1])
    if len(times) < FEWEST_SIMULATED:
        return {}
    nodes = Nodes(simulated.structure, recording, times, simulated.h, Noise({}, frozenset(), {})).with_data()
    read = {
        d.channel.path: (d, predicted(nodes, simulated.model, simulated.numbers, simulated.frames, simulated.multipliers, sensors, d).value) for d in nodes.data
    }
    return {path: Predicted(path, d.times, d.y, value) for path, (d, value) in read.items()}


def _initial(motion: Motion) -> dict[str, np.ndarray | float]:
    """The first node of a motion as initial values of joints; in closed loops, only as many rates as are independent."""
    out: dict[str, np.ndarray | float] = {}
    follow = _following(motion)
    for joint in motion.model.joints:
        quantities = {"hinge": ("angle",), "slide": ("position",), "ball": ("orientation",), "free": ("position", "orientation")}[joint.kind]
        for quantity in quantities if joint.name in follow else (*quantities, "rate"):
            out[f"joint.{joint.name}.{quantity}"] = motion[f"joint.{joint.name}.{quantity}"][0]
    return out


def _following(motion: Motion) -> set[str]:
    """Joints whose rates follow from those of the others because loops close."""
    s = motion.structure
    if s.coordinates != TREE or not s.nc:
        return set()
    G = host.configuration(s, motion.numbers, motion.q[:, 0]).G
    free = scipy.linalg.null_space(G)
    _, _, pivot = scipy.linalg.qr(free.T, mode="economic", pivoting=True)  # pyright: ignore[reportAssignmentType]
    chosen = set(pivot[: free.shape[1]].tolist())
    dofs = {u.joint.name: range(int(s.v_start[i]), int(s.v_start[i + 1])) for i, u in enumerate(s.units) if u.joint is not None}
    return {name for name, own in dofs.items() if not chosen.issuperset(own)}


# -- cross-validation ------------------------------------------------------------------------------------------------------------------


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
    """By left-out run: the cost of estimating its states again, per node (the seed's score for "shadow")."""


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
    runs: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    folds: int | str | None = None,
    window: float | None = None,
    **settings: Any,
) -> CrossValidation:
    """Fit on all runs but a few and judge on those, in turns: `folds` groups of runs (by default every run is left out once), or "single": fit on
    each run alone and judge on all others.

    `settings` go to `fit`. A left-out run is judged twice: with its states estimated again, and by free prediction from its first `window` seconds.
    """
    from calibody.estimate.fit import fit as transcribe

    runs = list(runs)
    count = len(runs) if folds is None or folds == "single" else folds
    if not isinstance(count, int) or not 2 <= count <= len(runs):
        raise CalibodyError(f"Cross-validation in {count!r} folds with {len(runs)} runs; give at least two runs, and between 2 folds and one per run.")
    out = []
    for k in range(count):
        judged = runs[k::count]
        fitted = [r for r in runs if not any(r is j for j in judged)]
        if folds == "single":
            judged, fitted = fitted, judged
        result = transcribe(model, fitted, estimate, **settings)
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
        out.append(Fold(tuple(r.name for r in fitted), tuple(r.name for r in judged), result, scores, predictions, costs))
    return CrossValidation(tuple(out))
