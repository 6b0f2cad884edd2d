"""What a sensor in a drive reads at an instant, where the command is held between its own samples.

The equations need the mean of a drive over an interval; a torque sensor or the current of a motor is read at an instant, in a robot's log at the very instants at which the command jumps. A held command is
`u_k` from `t_k` on, up to and without `t_(k+1)`, and what is read at `t_k` is then that of `u_k`: neither `u_(k-1)` nor the mean of both, which errs by half of every jump on every mesh. With the drive's delay D and its
time constant T

    T = 0:  u(t - D)            T > 0:  x(t - D),  T x' + x = u,   which has no jumps

A log that is read before the command goes out has the force of the command before: its channel is late by anything above zero (`actuator.X.force.delay`).

**Unknown timing.** Of a delay that is found, `u(t - D)` is a staircase without a slope. There a sample is the mean over one interval of the mesh from its instant on: the same at `D = 0`, and for all D once
the mesh is finer than D.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibody.recording.signal import Signal

ROUNDING = 1e-6
"""Share of a signal's sampling period by which two clocks differ that are the same."""


@dataclass(frozen=True)
class Held:
    """A command that is held, as it arrives."""

    signal: Signal
    delay: float
    """[s]"""
    lag: float
    """Time constant [s]."""
    h: float
    """The interval of the mesh [s]."""
    timed: bool
    """Whether some of its timing is found."""

    def value(self, t: np.ndarray) -> np.ndarray:
        """At the instants t."""
        return self._ahead(t)[0] / self.h if self.timed and not self.lag else self._at(t)

    def slope(self, t: np.ndarray) -> np.ndarray:
        """By time; of a staircase, over the interval before: a sensor can only be late."""
        if self.lag:
            return (self.signal.lagged(self._arrived(t), 0.0)[0] - self._at(t)) / self.lag
        return self._ahead(t)[1] / self.h if self.timed else (self._at(t) - self._at(t - self.h)) / self.h

    def by_delay(self, t: np.ndarray) -> np.ndarray:
        return -self.slope(t)

    def by_lag(self, t: np.ndarray) -> np.ndarray:
        """By the time constant; at zero from above, of the mean over an interval."""
        return self.signal.lagged(self._arrived(t), self.lag)[1] if self.lag else -self._ahead(t)[1] / self.h

    def _arrived(self, t: np.ndarray) -> np.ndarray:
        """When what arrives at t was given."""
        period = float(np.diff(self.signal.times).min()) if len(self.signal.times) > 1 else 1.0
        return t - self.delay + ROUNDING * period

    def _at(self, t: np.ndarray) -> np.ndarray:
        return self.signal.lagged(self._arrived(t), self.lag)[0]

    def _ahead(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the interval from t on: the integral, and by how much the command changes from its beginning to its end."""
        first = self._arrived(t)
        return self.signal.integral(first + self.h) - self.signal.integral(first), self._at(t + self.h) - self._at(t)
