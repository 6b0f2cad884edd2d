"""A sampled signal, held or joined by straight lines, and its exact mean over intervals.

The mean over [a, b] is `(S(b) - S(a))/(b - a)` with S the integral of the held (zero order) or interpolated (linear) signal: S is a
piecewise polynomial through the samples, so the mean is exact whatever the intervals.

Behind a first-order lag of time constant T the signal x obeys `T x' + x = u`, at rest at the first sample. Integrated over an interval that is
`mean of x = mean of u - T (x(b) - x(a))/(b - a)`, and between two samples with the slope s (zero if held)

    x(t) = u(t) - s T + (x_k - u_k + s T) exp(-(t - t_k)/T)

so this is exact too, and so is its derivative with respect to T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibody.errors import CalibodyError

HOLDS = ("zero", "linear")


@dataclass(frozen=True)
class Signal:
    """Samples `values` at increasing `times` [s]; `hold` is "zero" (constant until the next sample) or "linear"."""

    times: np.ndarray
    values: np.ndarray
    hold: str = "zero"
    name: str = "signal"

    def __post_init__(self) -> None:
        try:
            times, values = np.asarray(self.times, dtype=float), np.asarray(self.values, dtype=float)
        except (TypeError, ValueError):
            raise CalibodyError(f"{self.name}: times and values must be arrays of numbers.") from None
        if times.ndim != 1 or times.shape != values.shape or not len(times):
            raise CalibodyError(f"{self.name}: times has the shape {times.shape} and values {values.shape}; give two arrays of one length, at least 1.")
        if not (np.isfinite(times).all() and np.isfinite(values).all()):
            raise CalibodyError(f"{self.name} contains a number that is not finite; remove or fill the gaps first.")
        if (np.diff(times) <= 0).any():
            k = int(np.argmax(np.diff(times) <= 0))
            raise CalibodyError(
                f"{self.name}: its clock does not increase at sample {k + 1} ({times[k]:g} s, then {times[k + 1]:g} s); sort or mend the times."
            )
        if self.hold not in HOLDS:
            raise CalibodyError(f'{self.name}: hold = "{self.hold}"; give "zero" or "linear".')
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "values", values)

    @property
    def end(self) -> float:
        """Until when the signal is known: the last sample, and for a held signal one sampling period more."""
        period = self.times[-1] - self.times[-2] if len(self.times) > 1 else np.inf
        return float(self.times[-1] + (period if self.hold == "zero" else 0.0))

    def integral(self, t: np.ndarray) -> np.ndarray:
        """The integral from the first sample to t; the ends are held."""
        times, values = self.times, self.values
        if self.hold == "zero":
            knots = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])
        else:
            knots = np.concatenate([[0.0], np.cumsum(0.5 * (values[:-1] + values[1:]) * np.diff(times))])
        k = np.clip(np.searchsorted(times, t, side="right") - 1, 0, len(times) - 1)
        d = t - times[k]
        slope = np.zeros(len(times))
        if self.hold == "linear" and len(times) > 1:
            slope[:-1] = np.diff(values) / np.diff(times)
            slope = np.where(np.arange(len(times)) == len(times) - 1, 0.0, slope)
        return knots[k] + values[k] * d + np.where(d > 0.0, 0.5 * slope[k] * d * d, 0.0)

    def curve(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The cubic spline through the samples at the instants t, and its slope: the motion that they are samples of, whatever `hold` is; a single sample is a constant."""
        from scipy.interpolate import CubicSpline  # here, because reading needs none of it

        if len(self.times) == 1:
            return np.full(len(t), self.values[0]), np.zeros(len(t))
        spline = CubicSpline(self.times, self.values)
        return spline(t), spline(t, 1)

    def means(self, edges: np.ndarray, delay: float = 0.0, lag: float = 0.0) -> np.ndarray:
        """The mean over each interval between neighbouring edges, of the signal `delay` seconds late and behind a lag with this time constant [s]."""
        plain = np.diff(self.integral(edges - delay)) / np.diff(edges)
        return plain if lag <= 0.0 else plain - lag * np.diff(self.lagged(edges - delay, lag)[0]) / np.diff(edges)

    def means_by_lag(self, edges: np.ndarray, delay: float, lag: float) -> np.ndarray:
        """The derivative of `means` with respect to the time constant; at zero that from above."""
        if lag <= 0.0:
            return -np.diff(self.lagged(edges - delay, 0.0)[0]) / np.diff(edges)
        value, by_lag = self.lagged(edges - delay, lag)
        return -(np.diff(value) + lag * np.diff(by_lag)) / np.diff(edges)

    def lagged(self, t: np.ndarray, lag: float) -> tuple[np.ndarray, np.ndarray]:
        """The signal behind a first-order lag at the instants t, and its derivative with respect to the time constant."""
        times, values = self.times, self.values
        slope = np.append(np.diff(values) / np.diff(times), 0.0) if self.hold == "linear" and len(times) > 1 else np.zeros(len(times))
        k = np.clip(np.searchsorted(times, t, side="right") - 1, 0, len(times) - 1)
        d = np.maximum(t - times[k], 0.0)
        if lag <= 0.0:
            return values[k] + slope[k] * d, np.zeros(len(t))
        span = np.diff(times)
        fall = np.exp(-span / lag)
        excess, rise = np.zeros(len(times)), np.zeros(len(times))  # x_k - u_k, and the derivative of x_k
        for i in range(len(times) - 1):
            s = slope[i]
            start = excess[i] + s * lag
            jump = 0.0 if self.hold == "linear" else values[i + 1] - values[i]
            excess[i + 1] = start * fall[i] - s * lag - jump
            rise[i + 1] = (rise[i] + s + start * span[i] / lag**2) * fall[i] - s
        e, s = np.exp(-d / lag), slope[k]
        start = excess[k] + s * lag
        return values[k] + s * d - s * lag + start * e, (rise[k] + s + start * d / lag**2) * e - s

    def weights(self, edges: np.ndarray, delay: float = 0.0) -> Any:
        """The sparse matrix (intervals, samples) that makes `means` of the samples: every piece between two instants of either clock counts
        its length for the sample that is held there, or half of the interpolation's weights at its ends for the two around it."""
        import scipy.sparse as sp  # here, because reading needs none of it

        edges = edges - delay
        inside = self.times[(self.times > edges[0]) & (self.times < edges[-1])]
        cuts = np.unique(np.concatenate([edges, inside]))
        middle, length = 0.5 * (cuts[1:] + cuts[:-1]), np.diff(cuts)
        interval = np.clip(np.searchsorted(edges, middle, side="right") - 1, 0, len(edges) - 2)
        share = length / np.diff(edges)[interval]
        last = len(self.times) - 1
        k = np.searchsorted(self.times, middle, side="right") - 1
        if self.hold == "zero" or not last:
            entries = [(np.clip(k, 0, last), share)]
        else:
            left = np.clip(k, 0, last - 1)
            t = np.clip((middle - self.times[left]) / (self.times[left + 1] - self.times[left]), 0.0, 1.0)
            entries = [(left, share * (1.0 - t)), (left + 1, share * t)]
        rows, columns = np.concatenate([interval] * len(entries)), np.concatenate([c for c, _ in entries])
        return sp.csr_matrix((np.concatenate([w for _, w in entries]), (rows, columns)), shape=(len(edges) - 1, last + 1))
