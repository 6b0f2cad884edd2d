"""A recording at the steps of an engine: its samples between nodes, what is known of its start, what drives it.

A sample is the straight line between the two nodes around it, both of its own window. Of an orientation it is the mean of their two matrices, compared with the measured one as everywhere (`observe.py`):
`y + log(Y'M)`, or of a body that turns about one axis the angle of M, whichever turn is nearest.

What is known of the start exactly are rows `x_0 [-] known = 0` in the tangent of the state; with an sd it is one more sample. An orientation is known by all of its rotation vector. Activations of muscles and filters
begin at zero unless something else is known of them: exactly, or with an sd, and then they are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.observe import INITIAL, TURN, Data
from calibody.estimate.windows.cut import Cut
from calibody.mechanics import channels
from calibody.model import Model
from calibody.recording.orientations import rotations
from calibody.recording.recording import Observation, Recording
from calibody.solve.condensed import Sparse
from calibody.spatial import algebra as al
from calibody.steppers.engine_channels import ACTIVATION, refuse_unless_sensed


@dataclass(frozen=True, eq=False)
class EngineRun(Cut):
    """A recording at the steps of an engine, cut into windows."""

    def _observed(self, observation: Observation) -> channels.Channel:
        return check(self.structure.model, observation.channel, self.recording.channels)

    def known_start(self, exact: bool) -> tuple[Data, ...]:
        given = {path: known for path, known in self.recording.initial.items() if (known.sd is None) == exact}
        nothing = sp.csr_matrix((1, 0))
        return tuple(
            Data(channel, np.array([known.value]), self.times[:1], nothing, nothing, self._turn(channel, given))
            for path, known in given.items()
            for channel in (start_channel(self.structure.model, path),)
        )

    def _turn(self, channel: channels.Channel, given: dict) -> np.ndarray | None:
        """(3, 3, 1): the orientation of which a value at the start is one component."""
        if not turned(channel):
            return None
        whole = channel.whole.removeprefix(INITIAL)
        if missing := [c for c in channel.components if f"{whole}.{c}" not in given]:
            raise CalibodyError(
                f'The run "{self.recording.name}" has an initial value of "{whole}" without {" and ".join(missing)}; an orientation is known by all three components, all exactly or all with an sd.'
            )
        return rotations(np.array([[given[f"{whole}.{c}"].value] for c in channel.components]))

    def free_states(self, freedom: int) -> int:
        held = sum(not activates(d.channel) for d in self.starts)
        return 2 * freedom - held + sum(activates(d.channel) for d in self.known_start(exact=False))

    @cached_property
    def lengths(self) -> np.ndarray:
        """(windows,) nodes that each computes: its own, and the first of the next."""
        return np.diff(self.bounds) + (np.arange(self.windows) < self.windows - 1)

    def weights_at(self, times: np.ndarray) -> tuple[Sparse, np.ndarray]:
        """(samples, nodes of all windows one after the other) from these to samples, and the window of each sample."""
        place = np.clip((times - self.times[0]) / self.h, 0.0, self.K - 1.0)
        nearest = np.round(place)
        place = np.where(np.abs(place - nearest) < 1e-9 * self.K, nearest, place)
        window = np.minimum(np.searchsorted(self.bounds, place, side="right") - 1, self.windows - 1)
        first, rows = np.concatenate([[0], np.cumsum(self.lengths)])[window], np.arange(len(times))
        inside = place - self.bounds[window]
        left = np.minimum(np.floor(inside).astype(int), self.lengths[window] - 2)
        part = inside - left
        values, columns = np.concatenate([1.0 - part, part]), np.concatenate([first + left, first + left + 1])
        return sp.csr_matrix((values, (np.tile(rows, 2), columns)), shape=(len(times), int(self.lengths.sum()))), window

    @cached_property
    def _undelayed(self) -> dict[str, tuple[Sparse, np.ndarray]]:
        return {}

    def sampling(self, d: Data, delay: float) -> tuple[Sparse, np.ndarray]:
        if delay:
            return self.weights_at(d.times - delay)
        if d.channel.path not in self._undelayed:
            self._undelayed[d.channel.path] = self.weights_at(d.times)
        return self._undelayed[d.channel.path]

    def driven(self, recording: Recording, steps: int) -> dict[str, np.ndarray]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The mean of every drive over every step."""
        edges = self.times[0] + self.h * np.arange(steps + 1)
        for drive in recording.drives:
            if drive.sd is not None:
                raise CalibodyError(f'The drive "{drive.channel}" has an sd, which an engine has no place for; leave it out, or use stepper = "variational".')
        return {d.channel: d.signal.means(edges) for d in recording.drives}


# -- channels ------------------------------------------------------------------------------------------------------------------------


def check(model: Model, path: str, beside: Collection[str] = ()) -> channels.Channel:
    """A channel that can be observed in the engine, as a scalar, where the channels `beside` are observed too."""
    channel = channels.resolve(model, path)
    if turned(channel):
        return observe.check(model, path, beside)
    refuse_unless_sensed(model, channel)
    return channel


def turned(channel: channels.Channel) -> bool:
    """Whether the channel is a component of an orientation."""
    return channel.quantity == "angle" and channel.component is not None


def activates(channel: channels.Channel) -> bool:
    return channel.quantity == ACTIVATION


def start_channel(model: Model, path: str) -> channels.Channel:
    """The channel of a value that is known at the start: of any joint, or an activation."""
    channel = channels.resolve(model, path)
    whole = bool(channel.components) and channel.component is None
    if whole or not (activates(channel) or (channel.kind == "joint" and channel.quantity in ("angle", "position", "rate"))):
        raise CalibodyError(
            f'An initial value of "{path}" is given; give those of angles, positions and rates of joints, component by component, or activations of muscles and filters.'
        )
    return replace(channel, path=INITIAL + path)


def read_as(model: Model, path: str) -> list[channels.Channel]:
    """The numbers at nodes that a channel is computed from: itself, or a quaternion."""
    channel = channels.resolve(model, path)
    if not turned(channel):
        return [channel]
    return [channels.resolve(model, f"{channel.whole.removesuffix('angle')}orientation.{c}") for c in channels.WXYZ]


# -- samples -------------------------------------------------------------------------------------------------------------------------

Change = Callable[[np.ndarray], np.ndarray]


def at_samples(d: Data, nodes: np.ndarray, W: Sparse) -> tuple[np.ndarray, Change]:
    """A channel at its samples from what it is `read_as` at nodes (nodes, 1 or 4), and its change (samples, m) with changes (nodes, 1 or 4, m) of these."""
    if nodes.shape[1] == 1:
        return W @ nodes[:, 0], lambda change: W @ change[:, 0]
    R, by_e = _matrices(nodes)
    M = (W @ R).reshape(-1, 3, 3).transpose(1, 2, 0)
    value, by_M = _log_from(d, M) if d.rotation is not None else _planar(d, M)

    def change(e: np.ndarray) -> np.ndarray:
        turns = np.einsum("kre,kem->krm", by_e, e)
        return np.einsum("rs,srm->sm", by_M.reshape(9, -1), (W @ turns.reshape(len(turns), -1)).reshape(-1, 9, e.shape[2]))

    return value, change


def _matrices(e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rotation matrices (nodes, 9) of quaternions, row by row, and their derivatives (nodes, 9, 4)."""
    w, x, y, z = e.T
    R = np.array(al.quaternion_matrix((w, x, y, z))).reshape(9, -1)
    by = np.array([[w, x, -y, -z], [-z, y, x, -w], [y, z, w, x], [z, y, x, w], [w, -x, y, -z], [-x, -w, z, y], [-y, z, -w, x], [x, w, z, y], [w, -x, -y, z]])
    return R.T, 2.0 * by.transpose(2, 0, 1)


def _log_from(d: Data, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`y + log(Y'M)` and its derivative (3, 3, samples) by M."""
    Y, component = d.rotation, d.channel.component
    assert Y is not None and component is not None
    A = tuple(map(tuple, np.einsum("jis,jks->iks", Y, M)))
    return d.y + al.matrix_log(A)[component], np.einsum("jis,iks->jks", Y, np.array(al.matrix_log_slope(A, component)))  # pyright: ignore[reportArgumentType]


def _planar(d: Data, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The angle of M about an axis of the world, in the turn that is nearest to the sample, and its derivative."""
    a = d.channel.component
    assert a is not None
    i, j = (a + 1) % 3, (a + 2) % 3
    sine, cosine, by = M[j, i] - M[i, j], M[i, i] + M[j, j], np.zeros_like(M)
    size = sine**2 + cosine**2
    by[j, i], by[i, j], by[i, i], by[j, j] = cosine / size, -cosine / size, -sine / size, -sine / size
    away = np.arctan2(sine, cosine) - d.y
    return d.y + away - TURN * np.round(away / TURN), by


def known_state(resting: np.ndarray, places: Sequence[tuple[Data, int, int | None]]) -> np.ndarray:
    """A state with what is known of it; `places` says of each value where it stands (of an orientation where its quaternion begins), and the component of an orientation."""
    out, vectors = resting.copy(), dict[int, np.ndarray]()
    for d, place, component in places:
        if component is None:
            out[place] = float(d.y[0])
        else:
            vectors.setdefault(place, np.zeros(3))[component] = float(d.y[0])
    for place, vector in vectors.items():
        out[place : place + 4] = al.quaternion_exp(tuple(vector))
    return out
