"""What every estimator shares: the parameters of several runs, and the prediction of their samples from a motion at nodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from calibody.estimate import observe
from calibody.estimate.reported import groups
from calibody.estimate.run import Data, Nodes
from calibody.estimate.unknowns import Entry, values_at
from calibody.mechanics.assembly import Frames
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.solve.condensed import Sparse
from calibody.solve.gauss_newton import AbstractProblem

if TYPE_CHECKING:
    from calibody.steppers.base import AbstractStepper
    from calibody.steppers.motion import Motion

OnNodes = TypeVar("OnNodes", bound=Nodes)
State = TypeVar("State")
GEOMETRY = ("position", "orientation", "anchor", "axis", "reference", "com")
"""Numbers of a model that place things."""


class Observed(AbstractProblem, Generic[OnNodes, State]):
    """Several runs with shared and per-run parameters. `State` are the unknowns of one run."""

    def __init__(self, runs: Sequence[OnNodes], entries: Sequence[Entry]) -> None:
        self.runs, self.entries = list(runs), list(entries)
        self.lower = np.array([e.lower for e in entries])
        self.upper = np.array([e.upper for e in entries])
        self.scale = np.array([e.scale for e in entries])
        self.model = runs[0].structure.model

    @abstractmethod
    def frames(self, r: int, motion: State, model: Model, numbers: Numbers) -> Frames:
        """Kinematics of all nodes of a run."""

    @abstractmethod
    def motion(self, r: int, states: State, theta: np.ndarray) -> Motion:
        """The motion of a run, with every channel."""

    @abstractmethod
    def stepper(self) -> AbstractStepper:
        """What simulates as these equations do."""

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

    def model_of(self, run: int, theta: np.ndarray) -> tuple[Model, Numbers, dict[tuple[str, str], float]]:
        values, sensors = values_at(self.entries, theta, run)
        model = self.model.replace(values, check=False)
        return model, Numbers.of(self.runs[run].structure, model), sensors

    def predict(
        self, run: Nodes, model: Model, frames: Frames, sensors: dict[tuple[str, str], float], d: Data
    ) -> tuple[np.ndarray, np.ndarray, observe.NodeValues, float]:
        """Prediction of the samples, its slope in time, the channel at the nodes, the gain."""
        nodes = observe.at_nodes(run.structure, model, frames, d.channel)
        path = d.channel.path
        gain, bias = (sensors.get((path, name), default) for name, default in (("gain", 1.0), ("bias", 0.0)))
        W, dW = self.samples(run, sensors, d)
        return gain * (W @ nodes.value) + bias, dW @ nodes.value, nodes, gain

    @staticmethod
    def samples(run: Nodes, sensors: dict[tuple[str, str], float], d: Data) -> tuple[Sparse, Sparse]:
        """(samples, nodes): from nodes to samples that are late by the channel's delay, and the derivative with respect to time."""
        delay = sensors.get((d.channel.path, "delay"), 0.0)
        if not delay:
            return d.W, d.dW
        return run.sampled(d.channel, d.times - delay)

    def fitted(self, r: int, states: State, theta: np.ndarray) -> list[tuple[Data, np.ndarray]]:
        """Every channel of a run with the prediction of its samples."""
        model, numbers, sensors = self.model_of(r, theta)
        frames = self.frames(r, states, model, numbers)
        return [(d, self.predict(self.runs[r], model, frames, sensors, d)[0]) for d in self.runs[r].data]

    def prior(self, theta: np.ndarray) -> np.ndarray:
        return np.array([(x - e.prior[0]) / e.prior[1] for e, x in zip(self.entries, theta, strict=True) if e.prior is not None])

    def prior_slope(self) -> np.ndarray:
        rows = [k for k, e in enumerate(self.entries) if e.prior is not None]
        out = np.zeros((len(rows), len(self.entries)))
        for row, k in enumerate(rows):
            out[row, k] = 1.0 / self.entries[k].prior[1]  # type: ignore[index]
        return out

    def samples_by_parameters(self, r: int, theta: np.ndarray, d: Data, prediction: np.ndarray, slope: np.ndarray, gain: float, motion: State) -> np.ndarray:
        out = np.zeros((len(d.y), len(self.entries)))
        for k, entry in enumerate(self.entries):
            if entry.run not in (None, r):
                continue
            for place in entry.places:
                if place.sensor is not None and place.sensor[0] == d.channel.path:
                    kind = place.sensor[1]
                    _, sensors = values_at(self.entries, theta, r)
                    bias = sensors.get((d.channel.path, "bias"), 0.0)
                    column = {"bias": np.ones(len(d.y)), "gain": (prediction - bias) / gain if gain else prediction, "delay": -gain * slope}[kind]
                    out[:, k] += place.slope(theta[k]) * column
            if moves_channel(entry, d):
                step = 1e-6 * entry.scale
                ends = []
                for sign in (1.0, -1.0):
                    moved = theta.copy()
                    moved[k] += sign * step
                    model, numbers, sensors = self.model_of(r, moved)
                    frames = self.frames(r, motion, model, numbers)
                    ends.append(self.predict(self.runs[r], model, frames, sensors, d)[0])
                out[:, k] += (ends[0] - ends[1]) / (2.0 * step)
        return out


def moves_channel(entry: Entry, d: Data) -> bool:
    """Whether a parameter can move an observed position at fixed coordinates: geometry does, masses and forces do not."""
    if entry.group is not None:
        return d.channel.kind == "body" and d.channel.quantity == "com" and d.channel.name == entry.group.body
    return d.channel.kind in ("site", "body") and any(p.sensor is None and any(f".{g}" in p.path for g in GEOMETRY) for p in entry.places)
