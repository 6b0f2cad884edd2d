"""Windows of recordings rolled out in an engine, and their sensitivities by differences: nothing is known of a step but what comes out.

Every start along every direction of its tangent, and every parameter, is one rollout of a batch, from the point that the line search has rolled out already. Differences are fine and to one side: where joints slip or stick within a
step the cost has kinks, some hundredths of a standard deviation apart, and slopes over more than that lead to none of its minima (over 1e-4, to both sides and at twice the price, fits of the race's gentle
recordings ended 0.02 to 0.1 standard deviations from them). Where impacts make the cost jump, slopes are taken over much more, to both sides (`wide`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from calibody.estimate.engine.run import EngineRun, known_state
from calibody.estimate.observed import Observed
from calibody.model import Model
from calibody.steppers.engine import Batch, Engine

FINE = 1e-6, 1e-6
"""What differences are taken over: rad, m, rad/s, m/s by the starts, and of the scales by parameters. The engine's solver leaves about 1e-10, and half of this times what bends is the other error."""
WIDE = 1e-3, 1e-2
"""The same where fine ones lead nowhere."""


@dataclass(frozen=True, eq=False)
class Starts:
    """The unknowns of one run: the state at the start of every window."""

    s: np.ndarray
    """(windows, nq + nv + na)"""


@dataclass(frozen=True, eq=False)
class Shot:
    """All windows of a run at a point: sensors at their nodes, one window after the other, and their last states; perhaps with derivatives by a window's own start and by parameters."""

    sensors: np.ndarray
    ends: np.ndarray
    sensors_by_start: np.ndarray = field(default_factory=lambda: np.zeros(0))
    ends_by_start: np.ndarray = field(default_factory=lambda: np.zeros(0))
    sensors_by_theta: np.ndarray = field(default_factory=lambda: np.zeros(0))
    ends_by_theta: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False)
class Shots(Observed[EngineRun, Starts]):
    dynamic: ClassVar[bool] = False

    engine: Engine = field(kw_only=True)
    sensed: tuple[str, ...] = field(kw_only=True)
    """The channels of the engine's sensors."""
    wide: bool = field(default=False, kw_only=True)
    """Whether differences are taken over much and to both sides, where impacts, which fall into one step or the next, make finer ones jagged."""
    slope: np.ndarray | float = 0.0

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

    @cached_property
    def _lately(self) -> dict[int, tuple[Starts, np.ndarray, Shot]]:
        """Of the runs, the last shot: a point is looked at several times, by the line search and to linearise."""
        return {}

    def _shot(self, r: int, x: Starts, theta: np.ndarray) -> Shot:
        last = self._lately.get(r)
        if last is None or last[0] is not x or not np.array_equal(last[1], theta):
            ((sensors, ends),) = self._rolled(r, [self._in_engine(self.model_of(r, theta)[0])], x.s[None])
            last = self._lately[r] = x, theta.copy(), Shot(sensors, ends)
        return last[2]

    @cached_property
    def _written(self) -> dict[str, tuple[Model, Any]]:
        return {}

    def _in_engine(self, model: Model) -> Any:
        """The engine's model with the numbers of a point; the last one is kept."""
        if "last" not in self._written or self._written["last"][0] is not model:
            self._written["last"] = model, self.engine.with_numbers(model)
        return self._written["last"][1]

    # -- sensitivities -----------------------------------------------------------------------------------------------------------

    def _shot_with_derivatives(self, r: int, x: Starts, theta: np.ndarray) -> Shot:
        """Of a single window as many directions as there are numbers that are not known; nothing follows those that are held."""
        shot, directions = self._shot(r, x, theta), self._open(r)
        varied = [*self._by_starts(r, x, theta, directions), *self._by_parameters(r, x, theta)]
        found = self._rolled(r, [v.model for both in varied for v in both], np.array([v.starts for both in varied for v in both]).reshape(-1, *x.s.shape))
        columns = self.engine.n + len(self.columns[r])
        sensors, ends = np.zeros((*shot.sensors.shape, columns)), np.zeros((len(x.s), self.engine.n, columns))
        for column, both in zip([*directions, *range(self.engine.n, columns)], varied, strict=True):
            a, b = (next(found) for _ in both) if len(both) == 2 else (next(found), (shot.sensors, shot.ends))
            step = both[0].amount - (both[1].amount if len(both) == 2 else 0.0) or 1.0  # between bounds that are equal nothing varies
            sensors[..., column] = (a[0] - b[0]) / step
            ends[..., column] = [self.engine.difference(p, q) / step for p, q in zip(a[1], b[1], strict=True)]
        parts = (part for a in (sensors, ends) for part in np.split(a, [self.engine.n], axis=2))
        return Shot(shot.sensors, shot.ends, **dict(zip(("sensors_by_start", "sensors_by_theta", "ends_by_start", "ends_by_theta"), parts, strict=True)))

    def _open(self, r: int) -> list[int]:
        """Directions of the starts that rollouts are varied along."""
        held = set(self.held(r)) if self.runs[r].windows == 1 else set()
        return [j for j in range(self.engine.n) if j not in held]

    def _by_starts(self, r: int, x: Starts, theta: np.ndarray, directions: Sequence[int]) -> Iterator[list[_Varied]]:
        model, step = self._in_engine(self.model_of(r, theta)[0]), (WIDE if self.wide else FINE)[0]
        for d in step * np.eye(self.engine.n)[list(directions)]:
            signs = (1.0, -1.0) if self.wide else (1.0,)
            yield [_Varied(sign * step, np.stack([self.engine.moved(s, sign * d) for s in x.s]), model) for sign in signs]

    def _by_parameters(self, r: int, x: Starts, theta: np.ndarray) -> Iterator[list[_Varied]]:
        """Within the bounds; to one side only, the one with more room."""
        base = self.model_of(r, theta)[0]
        same = self._in_engine(base)
        for k in self.columns[r]:
            step, both = (WIDE if self.wide else FINE)[1] * self.scale[k], []
            for there in (min(theta[k] + step, self.upper[k]), max(theta[k] - step, self.lower[k])):
                moved = theta.copy()
                moved[k] = there
                model = self.made_of(r, moved)[0]
                both.append(_Varied(float(there - theta[k]), x.s, same if model == base else self.engine.with_numbers(model)))
            yield both if self.wide else [max(both, key=lambda v: abs(v.amount))]

    # -- starts ------------------------------------------------------------------------------------------------------------------

    def known(self, r: int) -> np.ndarray:
        """The reference state with what is known of the first start."""
        e = self.engine
        return known_state(e.resting, [(d, at, component) for d in self.runs[r].starts for at, _, component in (e.place(d.channel),)])

    def held(self, r: int) -> list[int]:
        """Directions of its tangent that are known; an activation is unless it has an sd."""
        e, run = self.engine, self.runs[r]
        unsure = {e.place(d.channel)[1] for d in run.known_start(exact=False)}
        return sorted({e.place(d.channel)[1] for d in run.starts} | {j for j in range(2 * e.nv, e.n) if j not in unsure})

    def begins_known(self, r: int) -> bool:
        """Whether all of a single window's start is known."""
        return self.runs[r].windows == 1 and len(self.held(r)) == self.engine.n


@dataclass(frozen=True, eq=False)
class _Varied:
    """One end of a difference: how far from the point, starts, and the engine's model."""

    amount: float
    starts: np.ndarray
    model: Any
