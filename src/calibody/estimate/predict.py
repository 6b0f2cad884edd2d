"""Free prediction: a recording simulated with a calibrated model, from a start estimated on its first part."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from calibody.errors import CalibodyError, SimulationError
from calibody.estimate.observed import Sensors, predicted
from calibody.estimate.run import Nodes, Noise
from calibody.estimate.unknowns import Entry
from calibody.mechanics import host
from calibody.mechanics.structure import TREE
from calibody.recording.recording import Recording
from calibody.steppers.motion import Motion
from calibody.steppers.rollout import simulate

if TYPE_CHECKING:
    from calibody.estimate.result import Result

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
