"""Multiple shooting in an engine that is a black box (MuJoCo's), as a least-squares problem of the starts of windows and the parameters.

    minimise  1/2 sum |(y - o(x_w(t), theta))/sd|^2 + priors     over theta and s_w,     x_w by steps from s_w
    subject to  s_(w+1) - x_w(end) = 0,   what is known of the first start exactly,   bounds on theta

Nothing is known of a step but what comes out, so all sensitivities are central differences of whole windows: every start along every direction of its tangent, and every parameter, forwards and backwards,
is one rollout of a batch. The inside of a window is never an unknown; the matching rows are eliminated with the starts (`solve/condensed.py`).

A sample is the straight line between the two nodes around it, both of its own window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.cut import Cut
from calibody.estimate.observe import Data
from calibody.estimate.observed import SENSOR, Observed, sensor
from calibody.estimate.unknowns import named
from calibody.mechanics import channels
from calibody.mechanics.assembly import Frames
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.recording.recording import Observation, Recording
from calibody.solve.condensed import Linearisation, Runs, Sparse
from calibody.solve.windows import matching
from calibody.steppers.base import AbstractStepper
from calibody.steppers.engine import Batch, Engine, refuse_unless_sensed
from calibody.steppers.motion import Motion
from calibody.steppers.mujoco import MuJoCo, as_motion

STATE = 1e-5
"""rad, m, rad/s, m/s: of the differences by the starts. The engine's solver leaves about 1e-10; the square of this is the other error."""
PARAMETER = 1e-4
"""The same by parameters, relative to their scales."""


@dataclass(frozen=True, eq=False)
class EngineRun(Cut):
    """A recording at the steps of an engine, cut into windows."""

    def _observed(self, observation: Observation) -> channels.Channel:
        channel = channels.resolve(self.structure.model, observation.channel)
        refuse_unless_sensed(self.structure.model, channel)
        return channel

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


@dataclass(frozen=True, eq=False)
class Starts:
    """The unknowns of one run: the state at the start of every window."""

    s: np.ndarray
    """(windows, nq + nv + na)"""


@dataclass(frozen=True, eq=False)
class _Shot:
    """All windows of a run at a point: sensors at their nodes, one window after the other, and their last states; perhaps with derivatives by a window's own start and by parameters."""

    sensors: np.ndarray
    ends: np.ndarray
    sensors_by_start: np.ndarray = field(default_factory=lambda: np.zeros(0))
    ends_by_start: np.ndarray = field(default_factory=lambda: np.zeros(0))
    sensors_by_theta: np.ndarray = field(default_factory=lambda: np.zeros(0))
    ends_by_theta: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False)
class EngineProblem(Observed[EngineRun, Starts]):
    dynamic: ClassVar[bool] = False

    engine: Engine = field(kw_only=True)
    sensed: tuple[str, ...] = field(kw_only=True)
    """The channels of the engine's sensors."""
    wide: float = field(default=1.0, kw_only=True)
    """What differences are taken over, in units of `STATE` and `PARAMETER`: many times that where impacts, which fall into one step or the next, make finer ones jagged."""
    slope: np.ndarray | float = 0.0

    @property
    def small(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return True

    # -- rollouts ----------------------------------------------------------------------------------------------------------------

    def _controls(self, r: int) -> np.ndarray:
        """(windows, steps, controls): each window's own, as many steps as the longest takes."""
        run = self.runs[r]
        if r not in self._kept_controls:
            longest = int(run.lengths.max())
            whole = self.engine.controls(self.model, run.driven(run.recording, run.K + longest), run.K + longest)
            self._kept_controls[r] = np.stack([whole[first : first + longest] for first in run.bounds[:-1]])
        return self._kept_controls[r]

    @cached_property
    def _kept_controls(self) -> dict[int, np.ndarray]:
        return {}

    def _rolled(self, r: int, models: Sequence[object], starts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sensors at all nodes and ends of all windows, of each of several variants of the starts (variants, windows, state), each in a model of its own."""
        run, control = self.runs[r], self._controls(r)
        count, W = len(starts), run.windows
        batch: Batch = self.engine.steps(
            [m for m in models for _ in range(W)],
            starts.reshape(count * W, -1),
            np.broadcast_to(control, (count, *control.shape)).reshape(count * W, *control.shape[1:]),
        )
        last = np.diff(run.bounds) - 1
        for v in range(count):
            rows = slice(v * W, (v + 1) * W)
            yield np.concatenate([s[:n] for s, n in zip(batch.sensors[rows], run.lengths, strict=True)]), batch.states[rows][np.arange(W), last]

    def _shot(self, r: int, x: Starts, theta: np.ndarray) -> _Shot:
        model = self.model_of(r, theta)[0]
        ((sensors, ends),) = self._rolled(r, [self.engine.with_numbers(model)], x.s[None])
        return _Shot(sensors, ends)

    def _shot_with_derivatives(self, r: int, x: Starts, theta: np.ndarray) -> _Shot:
        """Of a single window as many directions as there are numbers that are not known; nothing follows those that are held."""
        e, own = self.engine, self.columns[r]
        starts, models, steps, base = [x.s], [e.with_numbers(self.model_of(r, theta)[0])], [], self.model_of(r, theta)[0]
        held = {t for _, t, _ in self.known(r)} if self.runs[r].windows == 1 else set()
        open_ = [j for j in range(e.n) if j not in held] or list(range(e.n))
        for j in open_:
            d = np.zeros(e.n)
            for sign in (1.0, -1.0):
                d[j] = sign * self.wide * STATE
                starts.append(np.stack([e.moved(s, d) for s in x.s]))
                models.append(models[0])
            steps.append(2.0 * self.wide * STATE)
        for k in own:
            high, low = (theta.copy() for _ in range(2))
            high[k], low[k] = (np.clip(theta[k] + sign * self.wide * PARAMETER * self.scale[k], self.lower[k], self.upper[k]) for sign in (1.0, -1.0))
            for moved in (high, low):
                starts.append(x.s)
                model = self.model_of(r, moved)[0]
                models.append(models[0] if model == base else e.with_numbers(model))
            steps.append(float(high[k] - low[k]))
        self.model_of(r, theta)
        found = list(self._rolled(r, models, np.stack(starts)))
        pairs = [(found[1 + 2 * j], found[2 + 2 * j], step) for j, step in enumerate(steps)]
        sensors = np.stack([(a[0] - b[0]) / max(step, 1e-300) for a, b, step in pairs], axis=2)
        ends = np.stack([np.stack([e.difference(p, q) for p, q in zip(a[1], b[1], strict=True)]) / max(step, 1e-300) for a, b, step in pairs], axis=2)
        m, starts_ = len(open_), (sensors[..., : len(open_)], ends[..., : len(open_)])
        whole = [np.zeros((*a.shape[:-1], e.n)) for a in starts_]
        for to, a in zip(whole, starts_, strict=True):
            to[..., open_] = a
        return _Shot(*found[0], whole[0], whole[1], sensors[..., m:], ends[..., m:])

    # -- the problem -------------------------------------------------------------------------------------------------------------

    def values(self, x: Sequence[Starts], theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        F, C = [self.prior(theta)], []
        for r, starts in enumerate(x):
            shot = self._shot(r, starts, theta)
            if not (np.isfinite(shot.sensors).all() and np.isfinite(shot.ends).all()):
                return np.full(1, np.inf), np.full(1, np.inf)
            F += [(value - d.y) * self.runs[r].weight(d) for d, value in self._predicted(r, shot, theta)]
            C.append(self._equations(r, starts, shot))
        return np.concatenate(F), np.concatenate(C)

    def linearise(self, x: Sequence[Starts], theta: np.ndarray, hold_scale: bool = True) -> Runs:
        parts = tuple(self._linearised(r, x[r], theta) for r in range(len(self.runs)))
        return Runs(self.prior(theta), self.prior_slope(), parts, self.columns, len(theta))

    @cached_property
    def _last(self) -> dict[int, tuple[Starts, np.ndarray, Linearisation]]:
        return {}

    def _linearised(self, r: int, x: Starts, theta: np.ndarray) -> Linearisation:
        last = self._last.get(r)
        if last is None or last[0] is not x or not np.array_equal(last[1], theta):
            last = self._last[r] = x, theta.copy(), self._linearisation(r, x, theta)
        return last[2]

    def _linearisation(self, r: int, x: Starts, theta: np.ndarray) -> Linearisation:
        run, n, own = self.runs[r], self.engine.n, self.columns[r]
        shot = self._shot_with_derivatives(r, x, theta)
        if not all(np.isfinite(a).all() for a in (shot.sensors, shot.ends, shot.sensors_by_start, shot.ends_by_start, shot.sensors_by_theta)):
            raise CalibodyError("a window cannot be simulated to its end")
        sensors, F, Fx, Ft = self.model_of(r, theta)[2], [], [], []
        for d, value in self._predicted(r, shot, theta):
            c = self._column(d)
            gain, _, delay = (sensor(sensors, d.channel, kind) for kind in SENSOR)
            W, window = run.sampling(d, delay)
            weight, by_theta = run.weight(d), gain * (W @ shot.sensors_by_theta[:, c])
            by_sensor = self._by_sensor(r, d, shot.sensors[:, c], gain, delay, theta)
            for k, by in by_sensor.items():
                by_theta[:, np.searchsorted(own, k)] += by
            F.append((value - d.y) * weight)
            block = (gain * weight)[:, None] * (W @ shot.sensors_by_start[:, c])
            columns = window[:, None] * n + np.arange(n)
            Fx.append(sp.csr_matrix((block.ravel(), columns.ravel(), np.arange(len(d.y) + 1) * n), shape=(len(d.y), run.windows * n)))
            Ft.append(weight[:, None] * by_theta)
        C, Cx, Ct, when = self._equations_with_slopes(r, x, shot)
        states = np.repeat(np.arange(run.windows, dtype=float), n)
        return Linearisation(np.concatenate(F), sp.vstack(Fx, format="csr"), np.concatenate(Ft), C, Cx, Ct, np.concatenate([states, when]))

    def move(self, x: Sequence[Starts], d: np.ndarray) -> list[Starts]:
        out, first, n = [], 0, self.engine.n
        for starts, run in zip(x, self.runs, strict=True):
            part = d[first : first + run.windows * n].reshape(run.windows, n)
            first += run.windows * n
            out.append(Starts(np.stack([self.engine.moved(s, step) for s, step in zip(starts.s, part, strict=True)])))
        return out

    @property
    def tethered(self) -> np.ndarray:
        """Places of the starts; rates and activations follow them."""
        one = (np.arange(self.engine.n) < self.engine.nv).astype(float)
        return np.concatenate([np.tile(one, run.windows) for run in self.runs])

    # -- equations ---------------------------------------------------------------------------------------------------------------

    def known(self, r: int) -> list[tuple[int, int, float]]:
        """What is known of the first start: (place in the state, in its tangent, value); activations begin at zero."""
        e, out = self.engine, []
        for d in self.runs[r].starts:
            joint, rate = d.channel.name, observe.is_rate(d.channel)
            out.append((e.coordinate(joint, rate), e.tangent(joint, rate), float(d.y[0])))
        return out + [(e.nq + e.nv + k, 2 * e.nv + k, 0.0) for k in range(e.na)]

    def begins_known(self, r: int) -> bool:
        """Whether all of a single window's start is known."""
        return self.runs[r].windows == 1 and len(self.known(r)) == self.engine.n

    def _equations(self, r: int, x: Starts, shot: _Shot) -> np.ndarray:
        return np.concatenate([*self._apart(x, shot), self._off(r, x)])

    def _apart(self, x: Starts, shot: _Shot) -> list[np.ndarray]:
        """Of every window but the first, how far its start is from the end of the one before."""
        return [self.engine.difference(s, end) for s, end in zip(x.s[1:], shot.ends[:-1], strict=True)]

    def _off(self, r: int, x: Starts) -> np.ndarray:
        return np.array([x.s[0][i] - value for i, _, value in self.known(r)])

    def _equations_with_slopes(self, r: int, x: Starts, shot: _Shot) -> tuple[np.ndarray, Sparse, np.ndarray, np.ndarray]:
        n, known, p = self.engine.n, self.known(r), len(self.columns[r])
        held = np.zeros((len(known), n))
        held[np.arange(len(known)), [t for _, t, _ in known]] = 1.0
        return matching(self._apart(x, shot), shot.ends_by_start, shot.ends_by_theta, self._off(r, x), held, np.zeros((len(known), p)))

    # -- observations ------------------------------------------------------------------------------------------------------------

    def _predicted(self, r: int, shot: _Shot, theta: np.ndarray) -> Iterator[tuple[Data, np.ndarray]]:
        sensors = self.model_of(r, theta)[2]
        for d in self.runs[r].data:
            gain, bias, delay = (sensor(sensors, d.channel, kind) for kind in SENSOR)
            W, _ = self.runs[r].sampling(d, delay)
            yield d, gain * (W @ shot.sensors[:, self._column(d)]) + bias

    def _column(self, d: Data) -> int:
        """Among the engine's sensors."""
        return self.sensed.index(d.channel.path.removeprefix(observe.INITIAL))

    def _by_sensor(self, r: int, d: Data, channel: np.ndarray, gain: float, delay: float, theta: np.ndarray) -> dict[int, np.ndarray]:
        """The derivative of samples by a bias, gain or delay of their sensor."""
        run, out, known = self.runs[r], {}, named(self.entries, theta, r)
        for k, entry in enumerate(self.entries):
            for place in entry.places if entry.run in (None, r) else ():
                if place.sensor is None or place.sensor[0] not in (d.channel.path, d.channel.whole):
                    continue
                W, _ = run.sampling(d, delay)
                by = {"bias": lambda: np.ones(len(d.y)), "gain": lambda W=W: W @ channel, "delay": lambda: -gain * self._slope_in_time(r, d, channel, delay)}
                out[k] = out.get(k, 0.0) + place.slope(theta[k], known) * by[place.sensor[1]]()
        return out

    def _slope_in_time(self, r: int, d: Data, channel: np.ndarray, delay: float) -> np.ndarray:
        run, step = self.runs[r], 0.5 * self.runs[r].h
        (late, _), (early, _) = (run.weights_at(d.times - delay + s) for s in (step, -step))
        return (late - early) @ channel / (2.0 * step)

    def fitted(self, r: int, states: Starts, theta: np.ndarray) -> list[tuple[Data, np.ndarray]]:
        return list(self._predicted(r, self._shot(r, states, theta), theta))

    # -- what every problem offers -----------------------------------------------------------------------------------------------

    def stepper(self) -> AbstractStepper:
        return MuJoCo()

    def multipliers(self, motion: Starts) -> np.ndarray:
        return np.zeros((self.runs[0].structure.nc, 0))

    def frames(self, r: int, motion: Starts, model: Model, numbers: Numbers) -> Frames:
        raise NotImplementedError("channels of an engine come from its sensors")

    def motion(self, r: int, states: Starts, theta: np.ndarray) -> Motion:
        run = self.runs[r]
        model, numbers, _ = self.model_of(r, theta)
        control = self._controls(r)
        batch = self.engine.steps([self.engine.with_numbers(model)] * run.windows, states.s, control)
        nodes = [np.concatenate([s[None], b[: n - 1]]) for s, b, n in zip(states.s, batch.states, np.diff(run.bounds), strict=True)]
        return as_motion(self.engine, model, run.structure, numbers, np.concatenate(nodes), run.h, float(run.times[0]))


def sensed(model: Model, recordings: Sequence[Recording]) -> list[channels.Channel]:
    """All channels that are observed in any run, or known at a start with an sd."""
    paths = {o.channel: None for r in recordings for o in r.observations} | {path: None for r in recordings for path in r.initial}
    return [channels.resolve(model, path) for path in paths]
