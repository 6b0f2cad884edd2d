"""A recording at the steps of a stepper, cut into windows: what shooting has in place of a mesh whose nodes are all unknown.

`Cut` is the whole recording, without anything that is as large as its mesh: it says which samples there are and where windows begin. `Piece` is what a window shares with it: the part of its drives, and the
samples that are told by this window. A window goes on for two nodes after the next one's first, so that rates and interpolations at its last samples have neighbours on both sides; a sample belongs to the
window whose second node it is not before, give or take half a step.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from calibody.estimate import observe
from calibody.estimate.layout import Layout, States
from calibody.estimate.nodes import Nodes, Noise
from calibody.estimate.observe import Data
from calibody.mechanics.structure import Structure
from calibody.model import Model
from calibody.recording.recording import Observation, Recording
from calibody.solve.windows import bounds_of

SHORTEST = 4
"""Nodes of a window, at least: its own two, one that is stepped to, and one more."""
SLACK = 1e-6
"""Of a step, by which a time may be off and still be that of a node."""


@dataclass(frozen=True, eq=False)
class Cut(Nodes):
    bounds: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    """(windows + 1,) the first node of every window, and the number of nodes."""

    @classmethod
    def of(cls, structure: Structure, recording: Recording, h: float, noise: Noise, windows: int) -> Self:
        count = int(np.floor((recording.end - recording.start) / h + SLACK)) + 1
        times = recording.start + h * np.arange(count)
        return cls(structure, recording, times, h, noise, bounds=bounds_of(count, windows, SHORTEST)).with_data()

    def _data(self, observation: Observation) -> Data:
        """Which samples there are; what they are made of is a window's."""
        channel = self._observed(observation)
        rotation = observe.measured_rotation(self.recording, channel)
        slack = SLACK * self.h
        good = np.isfinite(observation.values) & (observation.times >= self.times[0] - slack) & (observation.times <= self.times[-1] + slack)
        if rotation is not None:
            good &= np.isfinite(rotation[0, 0])
        good[good] = self.wanted(observation.times[good])
        relative, nothing = observation.noise[1], sp.csr_matrix((int(good.sum()), 0))
        rotation = None if rotation is None else rotation[..., good]
        return Data(channel, observation.values[good], observation.times[good], nothing, nothing, rotation, 1.0 if relative is None else relative[good])

    def _observed(self, observation: Observation) -> observe.channels.Channel:
        return observe.check(self.structure.model, observation.channel, self.recording.channels)

    @property
    def windows(self) -> int:
        return len(self.bounds) - 1

    @cached_property
    def starts(self) -> tuple[Data, ...]:
        """What is known exactly at the first node."""
        return self.known_start(exact=True)

    @property
    def disturbed(self) -> tuple[()]:
        return ()

    @property
    def layout(self) -> Layout:
        """It has no unknowns beside the starts."""
        return Layout((), ())

    def free_states(self, freedom: int) -> int:
        """Numbers of the start that are not known."""
        return 2 * freedom - len(self.starts)

    def nodes(self, w: int) -> tuple[int, int]:
        """The first node of a window and the one after its last: its own, and the first two of the next."""
        return int(self.bounds[w]), min(int(self.bounds[w + 1]) + 2, self.K)

    @cached_property
    def edges(self) -> np.ndarray:
        """(windows + 1,) between which times the samples of every window lie."""
        inner = self.times[self.bounds[1:-1]] + (0.5 + SLACK) * self.h
        return np.concatenate([[-np.inf], inner, [np.inf]])

    @cached_property
    def slices(self) -> list[list[slice]]:
        """Of every window, where its samples stand among those of every channel."""
        ends = [np.searchsorted(d.times, self.edges) for d in self.data]
        return [[slice(int(e[w]), int(e[w + 1])) for e in ends] for w in range(self.windows)]

    def parts(self, w: int) -> dict[str, Any]:
        """What the nodes of a window have, as fields of a `Piece`."""
        first, end = self.nodes(w)
        low, high = self.edges[w : w + 2]
        return self.part(first, end) | {"between": (float(low), float(high))}

    def part(self, first: int, end: int) -> dict[str, Any]:
        """The same of any nodes."""
        recording = self.recording if first == 0 else replace(self.recording, initial={})
        return {
            "structure": self.structure,
            "recording": recording,
            "times": self.times[first:end],
            "h": self.h,
            "noise": self.noise,
            "whole": self,
            "first": first,
        }

    def means(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Of all drives over all steps; kept as long as nothing changes when they act."""
        key: Hashable = tuple((a.delay, a.time_constant, a.control_range) for a in model.actuators)
        if self._means.get("key") != key:
            self._means.update(key=key, found=self.drives(model))
        return self._means["found"]

    @cached_property
    def _means(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, eq=False)
class Piece(Nodes):
    """Some successive nodes of a recording: of a window, or more. To be put before a class of nodes that computes something."""

    whole: Cut | None = None
    first: int = 0
    between: tuple[float, float] = (-np.inf, np.inf)
    """[s]: whose samples it has, of those within its nodes."""

    @property
    def _cut(self) -> Cut:
        assert self.whole is not None
        return self.whole

    @property
    def _steps(self) -> slice:
        return slice(self.first, self.first + self.K - 1)

    def drives(self, model: Model, states: States | None = None) -> tuple[np.ndarray, np.ndarray]:
        control, applied = self._cut.means(model)
        return control[:, self._steps], applied[:, self._steps]

    def control_by_lag(self, model: Model, actuator: str) -> np.ndarray:
        return self._cut.control_by_lag(model, actuator)[self._steps]

    @cached_property
    def given(self) -> np.ndarray:
        return self._cut.given[:, self.first : self.first + self.K]

    def usable(self, channel: observe.channels.Channel, times: np.ndarray) -> np.ndarray:
        return (times >= self.between[0]) & (times < self.between[1])
