"""Free prediction: a recording simulated with a calibrated model, from a start estimated on its first part.

The simulation starts with the rates for which its first step ends where the estimated motion does: the rate of a node, a mean of the intervals beside it, is off by h^2, and a motion carries that on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg

from calibody.errors import CalibodyError, SimulationError
from calibody.estimate.nodes import Nodes, Noise
from calibody.estimate.observe import is_contact_force
from calibody.estimate.observed import Sensors, predicted
from calibody.estimate.unknowns import Entry
from calibody.mechanics import host
from calibody.mechanics.structure import TREE
from calibody.model import Model
from calibody.recording.filters import noise_sd
from calibody.recording.recording import Recording
from calibody.recording.signal import Signal
from calibody.steppers.base import AbstractStepper
from calibody.steppers.motion import Motion
from calibody.steppers.rollout import simulate
from calibody.steppers.variational import Variational

if TYPE_CHECKING:
    from calibody.estimate.result import Result

WINDOW = 0.1
"""Share of the recording from which the start is estimated by default ..."""
FEWEST_NODES = 20
"""... and how many sampling periods it has at least."""
CORRECTIONS = 2
"""Of the rates that a simulation starts with: its first step is all but linear in them."""
LOST = 1.0
"""Error over the spread of the channel from which a prediction that goes astray is not shown any more."""
STILL = 5.0
"""Spread of a channel, in units of its noise, below which it stands still."""
FINER = (1, 4, 16)
"""Times as many steps as the fit's mesh has, one after the other, where a simulation needs smaller ones: a geared motor that turns faster than in the recordings that were fitted. By quarters, because a step
of nearly a radian, the most that there may be, is off by a sixth of the rate."""
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

    @property
    def until(self) -> float | None:
        """From when on it means nothing: a channel is then off by more than it moves at all (root of the mean square); None: it means something to the end."""
        ends = []
        for c in self.channels.values():
            spread = max(float(np.std(c.measured)), STILL * noise_sd(c.times, c.measured))
            far = np.abs(c.predicted - c.measured) > LOST * spread
            if c.rms > spread > 0.0 or not np.isfinite(c.rms):
                ends.append(float(c.times[int(np.argmax(far | ~np.isfinite(c.predicted)))]))
        return min(ends, default=None)

    def __getitem__(self, channel: str) -> Predicted:
        if channel not in self.channels:
            raise CalibodyError(f'"{channel}" was not observed in the run "{self.run}"; there are {", ".join(self.channels)}.')
        return self.channels[channel]

    @property
    def rms(self) -> dict[str, float]:
        return {name: c.rms for name, c in self.channels.items()}


def _pinned(result: Result, recording: Recording, drawn: bool) -> tuple[list[Entry], np.ndarray]:
    """The unknowns of a fit for another recording: shared ones fixed at their estimates, those per run free again (once), or `drawn` as those of the runs that were fitted."""
    out, theta, others, sds = [], [], per_run(result), np.sqrt(np.maximum(np.diag(result.uncertainty.covariance_theta), 0.0))
    for k, (entry, value) in enumerate(zip(result.problem.entries, result.theta, strict=True)):
        if entry.run is None:
            out.append(replace(entry, lower=value, upper=value, prior=None))
            theta.append(value)
            continue
        name = own_name(entry)
        if others[name][0] == k:
            seen = result.theta[others[name]]
            prior = scattered(seen, sds[others[name]]) if drawn and entry.prior is None else entry.prior
            out.append(replace(entry, name=f"{name}[{recording.name}]", run=0, prior=prior))
            theta.append(float(np.mean(seen)))
    return out, np.array(theta)


def own_name(entry: Entry) -> str:
    """Of an unknown per run, without its run."""
    return entry.name.rpartition("[")[0]


def per_run(result: Result) -> dict[str, list[int]]:
    """Where the unknowns stand that differ between runs, by name: one place for every run."""
    out: dict[str, list[int]] = {}
    for k, entry in enumerate(result.problem.entries):
        if entry.run is not None:
            out.setdefault(own_name(entry), []).append(k)
    return out


def scattered(values: Sequence[float] | np.ndarray, sds: Sequence[float] | np.ndarray) -> tuple[float, float] | None:
    """What the numbers of several runs say about that of another: their mean, and a standard deviation of which 1.64 hold 90 %, as of Student's distribution; None where one run, or no scatter, says nothing. `sds` of their errors: NaN where unknown."""
    from scipy.special import ndtri, stdtrit

    n, known = len(values), np.nan_to_num(np.asarray(sds, dtype=float))
    if n < 2:
        return None
    variance = max(float(np.var(values, ddof=1)), float(np.mean(known**2)))
    sd = np.sqrt(variance * (1.0 + 1.0 / n)) * float(stdtrit(n - 1, 0.95) / ndtri(0.95))
    return (float(np.mean(values)), float(sd)) if sd > 0.0 else None


def follow(result: Result, recording: Recording) -> Result:
    """The motion of another recording under the estimates of a fit: states only (and what is estimated per run)."""
    return result.again(recording, *_pinned(result, recording, drawn=False))


def start(result: Result, recording: Recording, span: float) -> Result:
    """The same of the first seconds of a recording, which say little of what is estimated per run: beside them stands what the runs that were fitted say."""
    return result.again(recording.cut(end=recording.start + span), *_pinned(result, recording, drawn=True))


def beginning(recording: Recording, window: float | None = None) -> float:
    """Seconds of a recording that its start is estimated from: by default a tenth of it."""
    if recording.unknown:
        raise CalibodyError(f'The drive "{recording.unknown[0].channel}" is unknown, so nothing says how the motion goes on; a prediction needs all drives.')
    if window is None:
        return min(recording.duration, max(WINDOW * recording.duration, FEWEST_NODES * recording.period))
    span = float(window)
    if not 3 * recording.period < span <= recording.duration * (1 + 1e-9):
        raise CalibodyError(f"window = {span:g} s; give at least four sampling periods and at most the recording's {recording.duration:g} s.")
    return span


def predict(result: Result, recording: Recording, window: float | None = None) -> Prediction:
    """The first `window` seconds give the start (by default a tenth of the recording), the rest is simulated without looking at the data."""
    span = beginning(recording, window)
    begun = start(result, recording, span)
    problem = begun.problem
    model, _, sensors = problem.model_of(0, begun.theta)
    first = begun.motion()
    h = recording.duration / max(1, round(recording.duration / result.mesh.h))
    drive, stepper = signals(recording, recording.start), problem.stepper()
    incomplete = None
    try:
        simulated = played(
            model, recording.duration, h, starting(first, drive, stepper), drive, stepper, problem.runs[0].structure.coordinates, contacts=problem.contacts
        )
    except SimulationError as error:
        partial = getattr(error, "motion", None)
        if partial is None:
            raise
        incomplete, simulated = str(error), partial
    return Prediction(recording.name, compared(recording, simulated, sensors), simulated, incomplete)


def played(model: Model, duration: float, h: float, *given: Any, **how: Any) -> Motion:
    """A simulation, with smaller steps where those of the fit's mesh are too large for it; the error is that of the fit's mesh."""
    first: SimulationError | None = None
    for finer in FINER:
        try:
            return simulate(model, duration, h / finer, *given, **how)
        except SimulationError as error:
            first = first or error
    assert first is not None
    raise first


def compared(recording: Recording, simulated: Motion, sensors: Sensors) -> dict[str, Predicted]:
    """Every observed channel beside a simulation from the start of the recording, which may have ended early."""
    times = recording.start + simulated.h * np.arange(simulated.q.shape[1])
    if len(times) < FEWEST_SIMULATED:
        return {}
    nodes = Nodes(simulated.structure, recording, times, simulated.h, Noise({}, frozenset(), {})).with_data()
    read = {
        d.channel.path: (d, predicted(nodes, simulated.model, simulated.numbers, simulated.frames, simulated.multipliers, sensors, d).value)
        for d in nodes.data
        if not is_contact_force(d.channel)
    }
    return {path: Predicted(path, d.times, d.y, value) for path, (d, value) in read.items()}


def signals(recording: Recording, zero: float) -> dict[str, Signal]:
    """The drives of a recording for a simulation that begins at the time `zero`."""
    return {d.channel: replace(d.signal, times=d.signal.times - zero) for d in recording.drives}


def starting(motion: Motion, drive: Mapping[str, Signal], stepper: AbstractStepper, node: int = 0) -> dict[str, Any]:
    """Initial values of joints with which a simulation follows a motion from a node on; in closed loops, only as many rates as are independent."""
    initial = _initial(motion, node)
    if not isinstance(stepper, Variational):  # an engine's velocities are those of its steps
        return initial
    for _ in range(CORRECTIONS):
        first = simulate(motion.model, 2.0 * motion.h, motion.h, initial, drive, stepper, motion.structure.coordinates, contacts=False)
        initial = {path: value + _missed(motion, first, path, node + 1) / motion.h if path.endswith(".rate") else value for path, value in initial.items()}
    return initial


def _missed(motion: Motion, first: Motion, path: str, node: int) -> np.ndarray | float:
    """By how much the first step of a simulation misses a node, along the rate of a joint; nothing of a free body."""
    joint = path.removesuffix(".rate")
    kind = motion.model.joint(joint.removeprefix("joint.")).kind
    if kind == "ball":
        (w, *v), (a, *b) = (m[f"{joint}.orientation"][k] for m, k in ((first, 1), (motion, node)))
        turned = w * np.array(b) - a * np.array(v) - np.cross(v, b)  # the vector of conj(first) * motion
        return 2.0 * turned * np.sign(w * a + np.dot(v, b))
    coordinate = {"hinge": "angle", "slide": "position"}.get(kind)
    return 0.0 if coordinate is None else motion[f"{joint}.{coordinate}"][node] - first[f"{joint}.{coordinate}"][1]


def _initial(motion: Motion, node: int = 0) -> dict[str, Any]:
    """A node of a motion as initial values of joints."""
    out: dict[str, Any] = {}
    follow = _following(motion, node)
    prescribed = {c.name for c in motion.structure.prescribed if c.kind == "joint"}
    for joint in (j for j in motion.model.joints if j.name not in prescribed):
        quantities = {"hinge": ("angle",), "slide": ("position",), "ball": ("orientation",), "free": ("position", "orientation")}[joint.kind]
        for quantity in quantities if joint.name in follow else (*quantities, "rate"):
            out[f"joint.{joint.name}.{quantity}"] = motion[f"joint.{joint.name}.{quantity}"][node]
    return out


def _following(motion: Motion, node: int) -> set[str]:
    """Joints whose rates follow from those of the others because loops close."""
    s = motion.structure
    if s.coordinates != TREE or not s.nc:
        return set()
    G = host.configuration(s, motion.numbers, motion.q[:, node]).G
    free = scipy.linalg.null_space(G)
    _, _, pivot = scipy.linalg.qr(free.T, mode="economic", pivoting=True)  # pyright: ignore[reportAssignmentType]
    chosen = set(pivot[: free.shape[1]].tolist())
    dofs = {u.joint.name: range(int(s.v_start[i]), int(s.v_start[i + 1])) for i, u in enumerate(s.units) if u.joint is not None}
    return {name for name, own in dofs.items() if not chosen.issuperset(own)}
