"""Multiple shooting in an engine that is a black box (MuJoCo's), as a least-squares problem of the starts of windows and the parameters.

    minimise  1/2 sum |(y - o(x_w(t), theta))/sd|^2 + priors     over theta and s_w,     x_w by steps from s_w
    subject to  s_(w+1) - x_w(end) = 0,   what is known of the first start exactly,   bounds on theta

Sensitivities are differences of whole windows (`engine_shots.py`), samples lie between nodes (`engine_run.py`). The inside of a window is never an unknown; the matching rows are eliminated with the starts
(`solve/condensed.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.engine.run import at_samples, read_as
from calibody.estimate.engine.shots import Shot, Shots, Starts
from calibody.estimate.observe import Data
from calibody.estimate.observed import SENSOR, sensor
from calibody.estimate.unknowns import named
from calibody.mechanics import channels
from calibody.mechanics.assembly import Frames
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.condensed import Linearisation, Runs, Sparse
from calibody.solve.windows import matching
from calibody.steppers.base import AbstractStepper
from calibody.steppers.motion import Motion
from calibody.steppers.mujoco import MuJoCo, as_motion


@dataclass(frozen=True, eq=False)
class EngineProblem(Shots):
    @property
    def small(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return True

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
        for d in run.data:
            c = self._columns(d)
            gain, bias, delay = (sensor(sensors, d.channel, kind) for kind in SENSOR)
            W, window = run.sampling(d, delay)
            found, change = at_samples(d, shot.sensors[:, c], W)
            value, weight, by_theta = gain * found + bias, run.weight(d), gain * change(shot.sensors_by_theta[:, c])
            by_sensor = self._by_sensor(r, d, shot.sensors[:, c], gain, delay, theta)
            for k, by in by_sensor.items():
                by_theta[:, np.searchsorted(own, k)] += by
            F.append((value - d.y) * weight)
            block = (gain * weight)[:, None] * change(shot.sensors_by_start[:, c])
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

    def _equations(self, r: int, x: Starts, shot: Shot) -> np.ndarray:
        return np.concatenate([*self._apart(x, shot), self._off(r, x)])

    def _apart(self, x: Starts, shot: Shot) -> list[np.ndarray]:
        """Of every window but the first, how far its start is from the end of the one before."""
        return [self.engine.difference(s, end) for s, end in zip(x.s[1:], shot.ends[:-1], strict=True)]

    def _off(self, r: int, x: Starts) -> np.ndarray:
        return self.engine.difference(x.s[0], self.known(r))[self.held(r)]

    def _equations_with_slopes(self, r: int, x: Starts, shot: Shot) -> tuple[np.ndarray, Sparse, np.ndarray, np.ndarray]:
        held = np.eye(self.engine.n)[self.held(r)]
        return matching(self._apart(x, shot), shot.ends_by_start, shot.ends_by_theta, self._off(r, x), held, np.zeros((len(held), len(self.columns[r]))))

    # -- observations ------------------------------------------------------------------------------------------------------------

    def _predicted(self, r: int, shot: Shot, theta: np.ndarray) -> Iterator[tuple[Data, np.ndarray]]:
        sensors = self.model_of(r, theta)[2]
        for d in self.runs[r].data:
            gain, bias, delay = (sensor(sensors, d.channel, kind) for kind in SENSOR)
            W, _ = self.runs[r].sampling(d, delay)
            yield d, gain * at_samples(d, shot.sensors[:, self._columns(d)], W)[0] + bias

    def _columns(self, d: Data) -> list[int]:
        """Among the engine's sensors."""
        return [self.sensed.index(c.path) for c in read_as(self.model, d.channel.path.removeprefix(observe.INITIAL))]

    def _by_sensor(self, r: int, d: Data, nodes: np.ndarray, gain: float, delay: float, theta: np.ndarray) -> dict[int, np.ndarray]:
        """The derivative of samples by a bias, gain or delay of their sensor."""
        run, out, known = self.runs[r], {}, named(self.entries, theta, r)
        for k, entry in enumerate(self.entries):
            for place in entry.places if entry.run in (None, r) else ():
                if place.sensor is None or place.sensor[0] not in (d.channel.path, d.channel.whole):
                    continue
                W, _ = run.sampling(d, delay)
                by = {
                    "bias": lambda: np.ones(len(d.y)),
                    "gain": lambda W=W: at_samples(d, nodes, W)[0],
                    "delay": lambda: -gain * self._slope_in_time(r, d, nodes, delay),
                }
                out[k] = out.get(k, 0.0) + place.slope(theta[k], known) * by[place.sensor[1]]()
        return out

    def _slope_in_time(self, r: int, d: Data, nodes: np.ndarray, delay: float) -> np.ndarray:
        run, step = self.runs[r], 0.5 * self.runs[r].h
        late, early = (at_samples(d, nodes, run.weights_at(d.times - delay + s)[0])[0] for s in (step, -step))
        return (late - early) / (2.0 * step)

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
    """What is read at nodes of all channels that are observed in any run, or known at a start."""
    paths = {o.channel: None for r in recordings for o in r.observations} | {path: None for r in recordings for path in r.initial}
    return list({c.path: c for path in paths for c in read_as(model, path)}.values())
