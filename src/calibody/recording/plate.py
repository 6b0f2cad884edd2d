"""Force plates: what a plate measures of the force on a body, and how far off that may be.

A plate gives the force F on the body, the point p where it acts (the centre of pressure) and the free moment N about it, in world axes. The wrench about the world's origin, which the drives `body.X.force` and
`body.X.torque` are, is (F, p x F + N). Deviations dF of the force act at the measured point, and deviations dp of the point, in the plate's plane, turn the measured force:

    dF:  (dF, p x dF)        dp:  (0, dp x F)        dN, about the plate's normal:  (0, dN)

The product dp x dF is left out: 10 mm times 20 N is 0.2 N m. All are zero where the plate carries nothing. The errors of a plate have a memory (its bending, a belt, a marker that was off when it was placed), which
is their correlation time: errors that were new in every sample would average out over a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from calibody.errors import CalibodyError, shown
from calibody.recording.finite import is_finite
from calibody.recording.signal import Signal

AXES = "xyz"
EVEN = 0.01
"""Relative difference of sampling periods within which a clock is even."""
SPACING, FINE = 5e-3, 0.05
"""Deviations are at most so far apart [s], and by this share of their memory: forces of a foot change within some hundredths of a second."""
CARRIES = 1e-9
"""Share of the largest force below which a plate carries nothing."""


@dataclass(frozen=True, eq=False)
class Deviation:
    """How far drives may be off together: one number per sample, of mean zero, that all of them follow."""

    name: str
    times: np.ndarray
    gains: Mapping[str, np.ndarray]
    """By channel of a drive (samples,): what it changes by, one standard deviation off."""
    correlation_time: float | None = None
    """[s]; None: new in every sample."""
    hold: str = "linear"

    @property
    def memory(self) -> np.ndarray | None:
        """(1,) the correlation of one sample with the next."""
        return None if self.correlation_time is None else np.array([np.exp(-float(np.median(np.diff(self.times))) / self.correlation_time)])

    def weights(self, channel: str, edges: np.ndarray, delay: float = 0.0) -> Any:
        """(intervals, samples): what they add to the mean of a drive over intervals."""
        return Signal(self.times, self.gains[channel], self.hold, self.name).weights(edges, delay).multiply(self.gains[channel][None, :]).tocsr()


@dataclass(frozen=True, eq=False)
class Plate:
    """The force that a plate measures on a body, with its noise."""

    body: str
    times: np.ndarray
    force: np.ndarray
    """(samples, 3) on the body, world axes [N]."""
    point: np.ndarray
    """(samples, 3) where it acts [m]; of no meaning where the force is zero."""
    moment: np.ndarray | None = None
    """(samples, 3) beside it, about that point [N m]; None: none."""
    sd: float | None = None
    """Of each component of the force [N]; None: known exactly."""
    sd_point: float | None = None
    """Of the point, along both axes of the plate's plane [m]."""
    sd_moment: float | None = None
    """Of the free moment, about the plate's normal [N m]."""
    correlation_time: float = 0.1
    """Of all three [s]: a contact of a foot lasts for a few tenths of a second."""
    normal: str = ""
    """The axis of the world along which the plate's plane is not, "x", "y" or "z"; left out, that along which the point moves least."""
    name: str = ""

    def __post_init__(self) -> None:
        what = f'The plate under "{self.body}"'
        times = np.asarray(self.times, dtype=float)
        force, point = (np.asarray(x, dtype=float) for x in (self.force, self.point))
        moment = np.zeros_like(force) if self.moment is None else np.asarray(self.moment, dtype=float)
        if times.ndim != 1 or any(x.shape != (len(times), 3) for x in (force, point, moment)):
            raise CalibodyError(
                f"{what} has {times.shape} times, forces {force.shape}, points {point.shape} and moments {moment.shape}; give (samples, 3) of each."
            )
        if not (np.isfinite(times).all() and np.isfinite(force).all() and np.isfinite(moment).all()):
            raise CalibodyError(f"{what} has a time, force or moment that is not finite; where it carries nothing, give zeros.")
        steps = np.diff(times)
        if len(times) < 4 or (steps <= 0).any() or np.abs(steps - np.median(steps)).max() > EVEN * np.median(steps):
            raise CalibodyError(f"{what} needs samples at even times that increase; resample it first.")
        for word, value in (("sd", self.sd), ("sd_point", self.sd_point), ("sd_moment", self.sd_moment), ("correlation_time", self.correlation_time)):
            if value is not None and not (is_finite(value) and value > 0):
                raise CalibodyError(f"{what} has {word} = {shown(value)}; give a number above zero{'' if word == 'correlation_time' else ', or leave it out'}.")
        if self.normal not in ("", *AXES):
            raise CalibodyError(f'{what} has normal = {shown(self.normal)}; give "x", "y" or "z", or leave it out.')
        loaded = np.linalg.norm(force, axis=1) > CARRIES * max(float(np.abs(force).max()), 1e-300)
        if not np.isfinite(point[loaded]).all():
            raise CalibodyError(f"{what} carries a force where its point is not finite; give the point, or a force of zero.")
        values = (
            ("times", times),
            ("force", force),
            ("point", np.where(loaded[:, None], point, 0.0)),
            ("moment", moment),
            ("name", self.name or f"plate.{self.body}"),
        )
        for word, value in values:
            object.__setattr__(self, word, value)

    @cached_property
    def loaded(self) -> np.ndarray:
        """(samples,) 1 where it carries something, else 0."""
        return (np.linalg.norm(self.force, axis=1) > CARRIES * max(float(np.abs(self.force).max()), 1e-300)).astype(float)

    @cached_property
    def upwards(self) -> int:
        """The number of the normal's axis."""
        if self.normal:
            return AXES.index(self.normal)
        on = self.point[self.loaded > 0.0]
        return int(np.argmin(np.ptp(on, axis=0))) if len(on) else 1

    @cached_property
    def signals(self) -> dict[str, Signal]:
        """The wrench about the world's origin, by the channels of drives."""
        wrench = {"force": self.force, "torque": np.cross(self.point, self.force) + self.moment}
        return {f"body.{self.body}.{word}.{c}": Signal(self.times, values[:, k], "linear") for word, values in wrench.items() for k, c in enumerate(AXES)}

    @cached_property
    def deviations(self) -> tuple[Deviation, ...]:
        out, unit = [], np.eye(3)
        for k, c in enumerate(AXES):
            if self.sd is not None:
                out.append(
                    self._deviation(f"force.{c}", self.sd * self.loaded[:, None] * unit[k], self.sd * np.cross(self.point, unit[k]) * self.loaded[:, None])
                )
            if self.sd_point is not None and k != self.upwards:
                out.append(self._deviation(f"point.{c}", None, self.sd_point * np.cross(unit[k], self.force)))
            if self.sd_moment is not None and k == self.upwards:
                out.append(self._deviation(f"moment.{c}", None, self.sd_moment * self.loaded[:, None] * unit[k]))
        return tuple(out)

    def _deviation(self, word: str, force: np.ndarray | None, torque: np.ndarray) -> Deviation:
        both = (("torque", torque),) if force is None else (("force", force), ("torque", torque))
        gains = {f"body.{self.body}.{kind}.{c}": x[:, k] for kind, x in both for k, c in enumerate(AXES) if np.any(x[:, k])}
        every = self.every
        return Deviation(f"{self.name}.{word}", self.times[::every], {channel: x[::every] for channel, x in gains.items()}, self.correlation_time)

    @property
    def every(self) -> int:
        """How many samples of the plate one of its deviations stands for: a kilohertz of unknowns says no more of errors that last for a tenth of a second."""
        return max(1, int(min(SPACING, FINE * self.correlation_time) / float(np.median(np.diff(self.times))) * (1.0 + EVEN)))

    def slower(self, factor: float) -> Plate:
        """As if its clock had gone wrong."""
        return replace(self, times=factor * self.times)
