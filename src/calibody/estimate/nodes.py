"""A recording on a mesh of equidistant nodes: its samples, how they hang on the nodes, its drives, and how much noise there is. What moves there, and by which equations, is `run.py`'s."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Self

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.held_drive import Held
from calibody.estimate.layout import States, drive_block
from calibody.estimate.observe import Data
from calibody.mechanics import channels
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import Structure
from calibody.model import Model
from calibody.recording.plate import Deviation
from calibody.recording.recording import Drive, Observation, Recording
from calibody.recording.signal import Signal
from calibody.solve.condensed import Sparse


@dataclass(frozen=True)
class Noise:
    """Standard deviations of one run: of its channels, and of the unmodelled joint forces.

    `density` [N^2 s, (N m)^2 s] of the white force on each joint, the same in all runs: drawn anew after every time H (`Run.hold`), it has the variance density/H. Beside or instead of it a
    joint may have a force with a memory, the Ornstein-Uhlenbeck process of the density `slow` at frequency zero and the correlation time `memory`: from one H to the next its correlation is
    `a = exp(-H/memory)`, its variance `slow/H (1 - a)/(1 + a)`.
    """

    measured: Mapping[str, float]
    missing: frozenset[str]
    """Channels whose standard deviation is to be found."""
    density: Mapping[str, float]
    slow: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    """[s]"""
    coupled: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Of two joints the force on the second that goes with one on the first, per unit of it (`coupling.py`); the first stands before the second in `density`."""

    @property
    def disturbed(self) -> tuple[str, ...]:
        """Joints that have an unmodelled force."""
        return tuple(dict.fromkeys([*self.density, *self.slow]))

    def calm(self, times: float = 1.0) -> Noise:
        """Without unmodelled forces, the channels' noise so many times as large and taken as known."""
        return Noise({channel: times * sd for channel, sd in self.measured.items()}, frozenset(), {})


@dataclass(frozen=True, eq=False)
class Nodes:
    """A recording on equidistant nodes: its data and its drives."""

    structure: Structure
    recording: Recording
    times: np.ndarray
    h: float
    noise: Noise
    data: tuple[Data, ...] = ()
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Of the samples, by channel: 1, or less for outliers of a robust fit."""
    implied: frozenset[str] = frozenset()
    """Exact values of the start that follow from the others and the loops (`known_start.py`): they are no equations of their own."""

    def with_data(self) -> Self:
        """With the samples of the recording between the first node and the last, all of weight 1."""
        data = tuple(self._data(o) for o in self.recording.observations) + self.known_start(exact=False)
        return replace(self, data=data, weights={d.channel.path: np.ones(len(d.y)) for d in data})

    @property
    def K(self) -> int:
        return len(self.times)

    @property
    def clocked(self) -> bool:
        """Whether the nodes follow one another in time."""
        return True

    @property
    def samples(self) -> int:
        return sum(len(d.y) for d in self.data)

    def _data(self, observation: Observation) -> Data:
        channel = observe.check(self.structure.model, observation.channel, self.recording.channels)
        if observe.is_drive(channel) or channel.quantity == "applied":
            self._check_driven(channel)
        rotation = observe.measured_rotation(self.recording, channel)
        slack = 1e-9 * max(1.0, abs(self.times[-1]))
        good = np.isfinite(observation.values) & (observation.times >= self.times[0] - slack) & (observation.times <= self.times[-1] + slack)
        if rotation is not None:
            good &= np.isfinite(rotation[0, 0])
        good[good] = self.wanted(observation.times[good]) & self.usable(channel, observation.times[good])
        times = observation.times[good]
        relative = observation.noise[1]
        return Data(
            channel,
            observation.values[good],
            times,
            *self.sampled(channel, times),
            None if rotation is None else rotation[..., good],
            1.0 if relative is None else relative[good],
        )

    def _check_driven(self, channel: channels.Channel) -> None:
        """A force is observed beside a drive; where nothing is known to act, the measured force is the drive."""
        model = self.structure.model
        held = self.structure.holding(channel) is not None
        if channel.quantity == "applied" and not held:
            raise CalibodyError(
                f'The run "{self.recording.name}" observes "{channel.path}", the force that moves a site as prescribed; prescribe "{channel.whole.removesuffix("applied")}position".'
            )
        actuators = [a for a in model.actuators if (channel.name == a.name if channel.kind == "actuator" else channel.name in model.acted_on(a))]
        driven = {d.channel for d in self.recording.drives}
        acts = any(f"actuator.{a.name}" in driven or a.bias or a.stiffness or a.damping for a in actuators)
        if held and (acts or channel.path in driven):
            raise CalibodyError(
                f'The run "{self.recording.name}" observes "{channel.path}" of a joint that a drive moves as prescribed, and something else drives it too; give up one of the two drives.'
            )
        if not acts and channel.path not in driven and not held:
            drive = f"joint.{channel.name}.force" if channel.kind == "joint" else f"actuator.{channel.name}"
            if channel.kind == "actuator" and not model.tables["actuator"][channel.name].path:
                drive = f"joint.{model.first_joint(model.tables['actuator'][channel.name]).name}.force"
            raise CalibodyError(
                f'The run "{self.recording.name}" observes "{channel.path}", but nothing drives it; give the measured force as a drive with an sd, '
                f'"{drive}" = {{ column = ..., sd = ... }}.'
            )

    def known_start(self, exact: bool) -> tuple[Data, ...]:
        """Values that are known at the first node, as samples: those without a standard deviation if `exact`, else those with one."""
        out = []
        for path, known in self.recording.initial.items():
            if (known.sd is None) == exact and not (exact and path in self.implied):
                channel, times = observe.start_channel(self.structure.model, path), self.times[:1]
                out.append(Data(channel, np.array([known.value]), times, *self.sampled(channel, times)))
        return tuple(out)

    def wanted(self, times: np.ndarray) -> np.ndarray:
        """Which samples are used."""
        return np.ones(len(times), dtype=bool)

    def usable(self, channel: channels.Channel, times: np.ndarray) -> np.ndarray:
        """Which samples of a channel mean something: all but those of rates beside an impact."""
        return np.ones(len(times), dtype=bool)

    def interpolation(self, times: np.ndarray) -> Sparse:
        """(samples, K): from the nodes to samples."""
        return observe.interpolation(self.times, times)

    def sampled(self, channel: channels.Channel, times: np.ndarray) -> tuple[Sparse, Sparse]:
        """(samples, K): from a channel at the nodes (for a rate, from its coordinate) to samples, and its derivative with respect to time."""
        step, inside = 1e-3 * self.h, np.clip(times, self.times[0], self.times[-1])
        held = self.structure.holding(channel) is not None
        between = partial(observe.interpolation, self.times[1:-1]) if observe.is_inner(channel) or held else self.interpolation
        if observe.is_contact_force(channel):  # which jumps where something sticks or slips
            between = partial(observe.interpolation, self.times[1:-1], order=2)
        W, ahead, behind = (between(inside + s) for s in (0.0, step, -step))
        dW = (ahead - behind) / (2.0 * step)
        if observe.is_rate(channel):
            W, dW = self.sampled_rates(channel, inside, W, dW)
        if observe.is_drive(channel) and not held:
            W, dW = (w @ observe.mean_matrix(self.K) for w in (W, dW))
        return sp.csr_matrix(W), sp.csr_matrix(dW)

    def sampled_rates(self, channel: channels.Channel, times: np.ndarray, W: Sparse, dW: Sparse) -> tuple[Sparse, Sparse]:
        """W and its derivative for a rate at `times`, from those for its coordinate; of angular rates from the turns of the K - 1 intervals."""
        R = observe.mean_matrix(self.K) / self.h if observe.turns(channel) else observe.rate_matrix(self.K, self.h)
        return W @ R, dW @ R

    def weight(self, d: Data) -> np.ndarray:
        """What a deviation of each sample is multiplied by: its weight over the channel's sd."""
        return self.weights[d.channel.path] / (self.noise.measured[d.channel.path] * d.relative)

    @property
    def uncertain(self) -> tuple[Deviation, ...]:
        """How far drives may be off."""
        return self.recording.deviations

    def drives(self, model: Model, states: States | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean control (actuators, K - 1) and applied forces (`Structure.applied_rows`, K - 1), with the actuators' delays; `states` have the drives' deviations."""
        control = np.zeros((len(model.actuators), self.K - 1))
        applied = np.zeros((self.structure.applied_rows, self.K - 1))
        for channel, values in zip(self.structure.prescribed, self.given, strict=True):
            applied[self.structure.applied_row(channel)] = values[1:]
        for drive in self.recording.drives:
            target, row, delay = self.driven(model, drive.channel)
            if target == "given":
                continue
            lag = model.actuators[row].time_constant if target == "control" else 0.0
            means = self._signal(model, drive).means(self.times, delay, lag)
            if lag and drive.sd is not None:
                raise CalibodyError(f'The drive "{drive.channel}" has an sd, and {drive.channel}.time_constant is not zero; leave one of them out.')
            (control if target == "control" else applied)[row] = means
        if states is None:
            return control, applied
        for deviation in self.uncertain:
            for channel in deviation.gains:
                target, row, delay = self.driven(model, channel)
                by = deviation.weights(channel, self.times, delay) @ states.parts[drive_block(deviation.name)][:, 0]
                (control if target == "control" else applied)[row] += by
        return control, applied

    def commanded(self, model: Model, target: str, row: int, timed: bool) -> Held | None:
        """A row of the control or of the applied forces that a drive without an sd fills, and holds between its samples; `timed`: some of its timing is found."""
        for drive in self.recording.drives:
            found, place, delay = self.driven(model, drive.channel)
            if (found, place) == (target, row):
                lag = model.actuators[row].time_constant if target == "control" else 0.0
                return Held(self._signal(model, drive), delay, lag, self.h, timed) if _jumps(drive) else None
        return None

    def jumping(self, model: Model) -> tuple[frozenset[int], frozenset[int]]:
        """The rows of the control and of the applied forces that are held, and that nothing smooths."""
        rows = [self.driven(model, d.channel)[:2] for d in self.recording.drives if _jumps(d)]
        control = frozenset(row for target, row in rows if target == "control" and not model.actuators[row].time_constant)
        return control, frozenset(row for target, row in rows if target == "applied")

    @staticmethod
    def _signal(model: Model, drive: Drive) -> Signal:
        """What reaches an actuator: the control within its range."""
        limits = next((a.control_range for a in model.actuators if drive.channel == f"actuator.{a.name}"), None)
        return drive.signal if limits is None else replace(drive.signal, values=np.clip(drive.signal.values, *limits))

    def control_by_lag(self, model: Model, actuator: str) -> np.ndarray:
        """(K - 1): the change of an actuator's mean control with its time constant; zero if nothing drives it."""
        drive = next((d for d in self.recording.drives if d.channel == f"actuator.{actuator}"), None)
        if drive is None:
            return np.zeros(self.K - 1)
        a = model.tables["actuator"][actuator]
        return self._signal(model, drive).means_by_lag(self.times, a.delay, a.time_constant)

    def driven(self, model: Model, path: str) -> tuple[str, int, float]:
        """Which row of control or applied forces a drive fills, and how late."""
        channel, s = channels.driven(model, path), self.structure
        if channels.is_control(channel):
            k = [a.name for a in model.actuators].index(channel.name)
            return "control", k, model.actuators[k].delay
        if channels.prescribes(channel):
            return "given", s.applied_row(channel), 0.0
        if not channels.is_joint_force(channel):
            return "applied", s.applied_row(channel), 0.0
        if channel.components:
            raise CalibodyError(f'"{path}" cannot be driven by a recording; drive joint.NAME.force of a hinge or slide, or the force at a site.')
        return "applied", int(plan_of(s).coordinate_dof[s.coordinate_index[channel.name]]), 0.0

    @cached_property
    def given(self) -> np.ndarray:
        """(prescribed, K): where drives have joints and sites at the nodes, by the cubic spline through their samples."""
        out, drives = np.zeros((len(self.structure.prescribed), self.K)), {d.channel: d for d in self.recording.drives}
        for row, channel in zip(out, self.structure.prescribed, strict=True):
            channels.refuse_both(self.structure.model, channel.path, self.recording.channels, self.recording.name)
            drive = drives.get(channel.path)
            if drive is None:
                raise CalibodyError(
                    f'Another run prescribes "{channel.path}", and the run "{self.recording.name}" does not; prescribe it in all runs of a fit, or in none.'
                )
            if drive.sd is not None:
                raise CalibodyError(
                    f'The drive "{channel.path}" prescribes a motion and has an sd; leave the sd out if it is known exactly, else observe it with that sd instead.'
                )
            row[:] = drive.signal.curve(self.times)[0]
        return out


def _jumps(drive: Drive) -> bool:
    """Whether a drive is a command that is held: one with an sd is a measurement, of something smooth."""
    return drive.signal.hold == "zero" and drive.sd is None


def driven_by(recordings: Iterable[Recording]) -> list[str]:
    """The channels of the drives of all recordings."""
    return list(dict.fromkeys(d.channel for r in recordings for d in r.drives))
