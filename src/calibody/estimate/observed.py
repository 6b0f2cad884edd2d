"""What every estimator shares: the parameters of several runs, and the prediction of their samples from a motion at nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import scipy.sparse as sp

from calibody.estimate import observe
from calibody.estimate.held_drive import Held
from calibody.estimate.nodes import Nodes
from calibody.estimate.observe import Data
from calibody.estimate.placed import Placements
from calibody.estimate.reported import groups
from calibody.estimate.unknowns import Entry, named, values_at
from calibody.mechanics.assembly import Frames
from calibody.mechanics.channels import Channel
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.solve.condensed import Sparse
from calibody.solve.gauss_newton import AbstractProblem

if TYPE_CHECKING:
    from calibody.steppers.base import AbstractStepper
    from calibody.steppers.motion import Motion

OnNodes = TypeVar("OnNodes", bound=Nodes)
State = TypeVar("State")
Sensors = Mapping[tuple[str, str], float]
SENSOR = ("gain", "bias", "delay")
TIMING = (".delay", ".time_constant")
"""How the paths of numbers of an actuator end that say when its command acts."""
Reading = Callable[[np.ndarray, Any, Any], observe.Sampled]
"""A channel at instants, with weights W and dW from the nodes to these."""


@dataclass(frozen=True, eq=False)
class Observed(AbstractProblem, Generic[OnNodes, State]):
    """Several runs with shared and per-run parameters. `State` are the unknowns of one run."""

    bars: ClassVar[bool] = False
    """Whether its result has error bars of channels (`channels.py`)."""
    dynamic: ClassVar[bool] = True
    """Whether forces are a part of it; poses at rest have none."""
    runs: tuple[OnNodes, ...]
    entries: tuple[Entry, ...]

    def check(self) -> None:
        """A sentence where a sensor's bias, gain or delay has no meaning in a run."""
        seen: set[tuple[tuple[str, str], tuple[str, ...]]] = set()
        for r, run in enumerate(self.runs):
            for sensor_ in dict.fromkeys(place.sensor for e in self.entries_of[r] for place in e.places if place.sensor is not None):
                if (case := (sensor_, tuple(run.recording.channels))) not in seen:
                    observe.check_sensor(self.model, *sensor_, run.recording.channels)
                    seen.add(case)

    @property
    def model(self) -> Model:
        return self.runs[0].structure.model

    @cached_property
    def _models(self) -> dict[int, tuple[np.ndarray, tuple[Model, Numbers, dict[tuple[str, str], float]]]]:
        """Of the runs: the last parameters, and the model they make."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Without what is kept only to be quick."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def lower(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.array([e.lower for e in self.entries])

    @cached_property
    def upper(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.array([e.upper for e in self.entries])

    @cached_property
    def scale(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.array([e.scale for e in self.entries])

    @abstractmethod
    def frames(self, r: int, motion: State, model: Model, numbers: Numbers) -> Frames:
        """Kinematics of all nodes of a run."""

    @abstractmethod
    def multipliers(self, motion: State) -> np.ndarray:
        """(nc, K): the constraint forces of a motion."""

    @abstractmethod
    def motion(self, r: int, states: State, theta: np.ndarray) -> Motion:
        """The motion of a run, with every channel."""

    @abstractmethod
    def stepper(self) -> AbstractStepper:
        """What simulates as these equations do."""

    @property
    def contacts(self) -> bool:
        """Whether contacts and limits of the model act."""
        return False

    @property
    def struck(self) -> bool:
        """Whether a run has impacts (`flights.py`)."""
        return False

    @property
    def friction_rate(self) -> dict[str, float]:
        """The rate of each joint with dry friction below which that is viscous [rad/s, m/s]."""
        return {}

    def shift(self, theta: np.ndarray, d: np.ndarray) -> np.ndarray:
        """All ten numbers of a body go straight in the numbers that the equations are linear in, as long as they stay physically possible."""
        out = super().shift(theta, d)
        for group, at in groups(self.entries):
            out[at] = group.moved(theta[at], d[at])
        return out

    @cached_property
    def columns(self) -> tuple[np.ndarray, ...]:
        """Of every run, which parameters it depends on: those of all runs, and its own."""
        shared = [k for k, e in enumerate(self.entries) if e.run is None]
        own: list[list[int]] = [[] for _ in self.runs]
        for k, e in enumerate(self.entries):
            if e.run is not None:
                own[e.run].append(k)
        return tuple(np.array(sorted(shared + mine), dtype=np.int64) for mine in own)

    @cached_property
    def entries_of(self) -> tuple[tuple[Entry, ...], ...]:
        """The entries of these."""
        return tuple(tuple(self.entries[k] for k in columns) for columns in self.columns)

    def model_of(self, run: int, theta: np.ndarray) -> tuple[Model, Numbers, dict[tuple[str, str], float]]:
        known = self._models.get(run)  # a point is looked at several times: by the line search, for its friction, to linearise
        if known is None or not np.array_equal(known[0], theta):
            known = self._models[run] = theta.copy(), self.made_of(run, theta)
        return known[1]

    def made_of(self, run: int, theta: np.ndarray) -> tuple[Model, Numbers, dict[tuple[str, str], float]]:
        """The model of a run with some parameters, its numbers, and what sensors do; made anew."""
        values, found = values_at(self.entries_of[run], theta[self.columns[run]], run)
        model, sensors = self.model.replace(values, check=False), {**known_sensors(self.model), **found}
        return model, Numbers.of(self.runs[run].structure, model), sensors

    def fitted(self, r: int, states: State, theta: np.ndarray) -> list[tuple[Data, np.ndarray]]:
        """Every channel of a run with the prediction of its samples."""
        model, numbers, sensors = self.model_of(r, theta)
        frames = self.frames(r, states, model, numbers)
        driven = self.driven(r, states, model)
        return [(d, predicted(self.runs[r], model, numbers, frames, self.multipliers(states), sensors, d, driven).value) for d in self.runs[r].data]

    def driven(self, r: int, states: State, model: Model) -> observe.Driven:
        """The drives of a run, with the deviations that its states have."""
        return self.acting(r, model, lambda: self.runs[r].drives(model))

    def acting(self, r: int, model: Model, means: Callable[[], tuple[np.ndarray, np.ndarray]]) -> observe.Driven:
        """Drives with these means, and what is known of them at every instant."""

        def held(channel: Channel, target: str, row: int) -> Held | None:
            names = {channel.path, channel.whole} | ({f"actuator.{model.actuators[row].name}"} if target == "control" else set())
            return self.runs[r].commanded(model, target, row, not names.isdisjoint(self.timed))

        return observe.Driven(means, held)

    @property
    def timed(self) -> frozenset[str]:
        """Channels whose delay is found, and actuators whose delay or time constant is."""
        places = [place for e in self.entries for place in e.places]
        late = {place.sensor[0] for place in places if place.sensor is not None and place.sensor[1] == "delay"}
        own = {place.path.rpartition(".")[0] for place in places if place.sensor is None and place.path.endswith(TIMING)}
        return frozenset(late | own)

    def prior(self, theta: np.ndarray) -> np.ndarray:
        return np.array([(x - e.prior[0]) / e.prior[1] for e, x in zip(self.entries, theta, strict=True) if e.prior is not None])

    def prior_slope(self) -> Sparse:
        """(priors, parameters)"""
        held = [(k, 1.0 / e.prior[1]) for k, e in enumerate(self.entries) if e.prior is not None]
        columns, values = np.array([k for k, _ in held], dtype=np.int64), np.array([w for _, w in held])
        return sp.csr_matrix((values, (np.arange(len(held)), columns)), shape=(len(held), len(self.entries)))

    def placements(self, r: int, theta: np.ndarray, model: Model, numbers: Numbers, frames: Frames) -> Placements:
        """What unknown geometry does to the channels of a run, with the kinematics of its nodes."""
        return Placements(self.runs[r].structure, model, numbers, frames, self.entries, theta, r)

    def samples_by_parameters(self, r: int, theta: np.ndarray, d: Data, prediction: Predicted, placements: Placements) -> dict[int, np.ndarray]:
        """The derivative of a channel's samples with respect to every unknown that they depend on: its own bias, gain and delay, and geometry."""
        out = {k: prediction.gain * by for k, by in placements.samples(d, prediction.sampled).items()}
        known = named(self.entries, theta, r)
        for k, entry in enumerate(self.entries):
            for place in entry.places if entry.run in (None, r) else ():
                if place.sensor is not None and place.sensor[0] in (d.channel.path, d.channel.whole):
                    out[k] = out.get(k, 0.0) + place.slope(theta[k], known) * prediction.by_sensor(place.sensor[1])
        return out


@dataclass(frozen=True)
class Predicted:
    """The samples of a channel as its sensor would have read them, `gain * channel(t - delay) + bias`."""

    sampled: observe.Sampled
    gain: float
    bias: np.ndarray | float

    @property
    def value(self) -> np.ndarray:
        return self.gain * self.sampled.value + self.bias

    def matrix(self, width: int) -> Sparse:
        """(samples, K width): derivative with respect to all nodes' unknowns."""
        return self.gain * self.sampled.matrix(width)

    def by_sensor(self, kind: str) -> np.ndarray:
        """Derivative with respect to the channel's bias, gain or delay."""
        return {"bias": np.ones(len(self.sampled.value)), "gain": self.sampled.value, "delay": -self.gain * self.sampled.slope}[kind]


def read(run: Nodes, sensors: Sensors, d: Data, sampled: Reading) -> Predicted:
    """As a channel's sensor would have read it."""
    gain, bias, delay = (sensor(sensors, d.channel, kind) for kind in SENSOR)
    found = sampled(d.times - delay, *(run.sampled(d.channel, d.times - delay) if delay else (d.W, d.dW)))
    return Predicted(found, gain, bias + observe.whole_turns(run.structure, d, gain * found.value + bias, each=not run.clocked))


def predicted(
    run: Nodes, model: Model, numbers: Numbers, frames: Frames, multipliers: np.ndarray, sensors: Sensors, d: Data, driven: observe.Driven | None = None
) -> Predicted:
    """`driven` has the controls with the deviations of noisy drives; without it they are as recorded."""

    def sampled(times: np.ndarray, W: Any, dW: Any) -> observe.Sampled:
        drives = driven or observe.Driven(lambda: run.drives(model))
        return observe.at_samples(run.structure, model, numbers, frames, multipliers, d, times, W, dW, run.h, drives)

    return read(run, sensors, d, sampled)


def known_sensors(model: Model) -> dict[tuple[str, str], float]:
    """What the model's own sensors do to their channels."""
    return {(s.channel, kind): value for s in model.sensors for kind in SENSOR if (value := getattr(s, kind)) != (1.0 if kind == "gain" else 0.0)}


def sensor(sensors: Sensors, channel: Channel, kind: str) -> float:
    """A channel's bias, gain or delay: its own, or that of the vector it is a component of."""
    return sensors.get((channel.path, kind), sensors.get((channel.whole, kind), 1.0 if kind == "gain" else 0.0))
