"""The picture of robot identification: the force that drove each joint beside the one that the calibrated model needs for the measured motion.

A free simulation of a log that was recorded in closed loop, or of a motion that amplifies small differences, departs from it whatever the model is worth. Forces do not: at every instant, inverse dynamics of the measured
motion (coordinates, low-passed without phase and differentiated) says what the model needs, and drives or torque sensors, through the same low-pass, say what there was:

    relative error = rms(measured - model) / rms(measured)

Differentiating twice multiplies what is there by the square of its frequency, noise and what a slow cutoff leaves of the motion alike: the cutoff is the slowest that leaves no more than noise. The motion is the measured one, not the fitted: that obeys the equations with the drives by construction. It takes a mechanism without loops whose hinges and slides are all measured; others have no such picture.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError
from calibody.mechanics.dynamics import inverse_dynamics_along
from calibody.mechanics.structure import TREE, Structure
from calibody.model import Model
from calibody.model.elements import HINGE, SLIDE
from calibody.recording.filters import lowpass, noise_sd

if TYPE_CHECKING:
    from calibody.estimate.observed import Sensors
    from calibody.estimate.result import Result
    from calibody.recording.recording import Recording

INSTANTS = 300
"""Of a run, at which forces are compared."""
SLOWEST, FASTER = 1.0, 1.15
"""Hz: the first cutoff tried, and what it is raised by until nothing but noise is left."""
CHANCE = 2.0
"""Standard deviations of a mean square by which what is left may exceed that of the noise."""
EDGE = 0.02
"""Share of a run at either end that is left out: nothing smooths accelerations there."""


@dataclass(frozen=True, eq=False)
class Torque:
    """Of one joint in one run."""

    run: str
    joint: str
    unit: str
    times: np.ndarray
    measured: np.ndarray
    model: np.ndarray

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean((self.measured - self.model) ** 2)))

    @property
    def relative(self) -> float | None:
        """Of the rms; None where nothing was exerted."""
        size = float(np.sqrt(np.mean(self.measured**2)))
        return self.rms / size if size > 0.0 else None


def torques(result: Result, r: int) -> list[Torque]:
    """Of every joint that is driven, or whose force is measured; none where the mechanism or the recording does not allow it."""
    recording = result.recordings[r]
    model, _, sensors = result.problem.model_of(r, result.theta)
    series = _coordinates(model, recording, sensors)
    if series is None:
        return []
    even = np.linspace(recording.start, recording.end, max(round(recording.duration / recording.period), 8))
    forces = {joint: _exerted(model, recording, joint, t, y, even) for joint, (t, y) in series.items()}
    if all(force is None for force in forces.values()):
        return []
    cutoff, span = _cutoff(series), recording.duration
    times = np.linspace(recording.start + EDGE * span, recording.end - EDGE * span, INSTANTS)
    smooth = {joint: lowpass(t, y, cutoff) for joint, (t, y) in series.items()}
    order = [u.joint.name for u in Structure.build(model, TREE).units if u.joint is not None]
    q, v, a = (np.array([smooth[joint](times, k) for joint in order]) for k in range(3))
    measured = {joint: None if force is None else lowpass(even, force, cutoff)(times) for joint, force in forces.items()}
    try:
        needed = _needed(model, result, q, v, a)
    except CalibodyError:
        return []
    units = {HINGE: "N m", SLIDE: "N"}
    return [Torque(recording.name, j, units[model.joint(j).kind], times, m, needed[k]) for k, j in enumerate(order) if (m := measured[j]) is not None]


def _coordinates(model: Model, recording: Recording, sensors: Sensors) -> dict[str, tuple[np.ndarray, np.ndarray]] | None:
    """The measured coordinate of every joint, or None if one was not measured."""
    if model.loops or model.transmissions or model.paths or any(j.kind not in (HINGE, SLIDE) or j.soft for j in model.joints):
        return None
    out = {}
    for joint in model.joints:
        path = f"joint.{joint.name}.{'angle' if joint.kind == HINGE else 'position'}"
        observed = next((o for o in recording.observations if o.channel == path), None)
        if observed is None:
            return None
        bias, gain, delay = (sensors.get((path, name), default) for name, default in (("bias", 0.0), ("gain", 1.0), ("delay", 0.0)))
        out[joint.name] = observed.times[observed.present] - delay, (observed.values[observed.present] - bias) / gain
    return out


def _cutoff(series: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> float:
    """One for all joints: the forces of one follow the motion of the others."""
    cutoff = SLOWEST
    for t, y in series.values():
        noise, fastest = max(noise_sd(t, y), 1e-9 * float(np.ptp(y))), 0.25 / float(np.median(np.diff(t)))
        most = (1.0 + CHANCE * np.sqrt(2.0 / len(t))) * noise**2
        while cutoff < fastest and float(np.mean((lowpass(t, y, cutoff)(t) - y) ** 2)) > most:
            cutoff *= FASTER
    return cutoff


def _needed(model: Model, result: Result, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """What the model needs at the joints, drives left out; dry friction as sharp as the fit has taken it."""
    widths = {f"joint.{joint}.friction_rate": rate for joint, rate in result.friction_rate.items() if not joint.startswith(("transmission.", "path."))}
    bare = dataclasses.replace(model.replace(widths, check=False), actuators=())
    return inverse_dynamics_along(bare, q, v, a)


def _exerted(model: Model, recording: Recording, joint: str, t: np.ndarray, y: np.ndarray, times: np.ndarray) -> np.ndarray | None:
    """What drives exerted on a joint, by the log; without one, what a sensor has measured there; None without either."""
    s = np.interp(times, t, y)
    parts = list(_driven(model, recording, joint, times, s, np.gradient(s, times)))
    if parts:
        return np.sum(parts, axis=0)
    sensor = next((o for o in recording.observations if o.channel == f"joint.{joint}.force"), None)
    return None if sensor is None else np.interp(times, sensor.times[sensor.present], sensor.values[sensor.present])


def _driven(model: Model, recording: Recording, joint: str, times: np.ndarray, s: np.ndarray, rate: np.ndarray) -> Iterator[np.ndarray]:
    signals = {d.channel: d.signal for d in recording.drives}
    if f"joint.{joint}.force" in signals:
        yield signals[f"joint.{joint}.force"].lagged(times, 0.0)[0]
    for a in model.actuators:
        if a.joint != joint or (signal := signals.get(f"actuator.{a.name}")) is None:
            continue
        u = signal.lagged(times - a.delay, a.time_constant)[0]
        u = u if a.control_range is None else np.clip(u, *a.control_range)
        force = a.gain * u + a.bias - a.stiffness * a.gear * s - a.damping * a.gear * rate
        yield a.gear * (force if a.force_range is None else np.clip(force, *a.force_range))
