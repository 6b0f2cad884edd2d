"""Smoothing a measured series without phase, and the size of its noise.

**Smoothing.** The series may be irregular and have gaps: it is interpolated (monotone cubics, which do not overshoot in gaps) onto an even
grid, filtered forwards and backwards by a Butterworth low-pass, and returned as a cubic spline with its derivatives. Two passes of a
filter of order n attenuate twice; to be at -3 dB at the stated cutoff after both, each pass gets its corner at cutoff / (sqrt 2 - 1)^(1/2n)
(Winter, Biomechanics and Motor Control of Human Movement, sec. 2.2.4.4). The straight line from the first to the
last sample is taken out before and put back after, and the series is continued by point reflection at both ends for ever: an odd, periodic series, whose Fourier
coefficients are multiplied by the gain of both passes, `1/(1 + (tan(pi f T)/tan(pi corner T))^2n)` (T the grid's period, the tangents from the bilinear transformation).

**Noise.** A divided difference of order p over p + 1 neighbouring samples, scaled to unit weight norm, vanishes on polynomials of degree
p - 1 and has the sd of white noise. Its median absolute value over all windows without a gap, times 1.4826, is the sd of the noise,
whatever a few outliers do. It is too large if the motion is not resolved by the samples, and too small if the noise is correlated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.recording.recording import check_clock

MOST_POINTS = 5_000_000
"""Points of the even grid (40 MB per array) beyond which a gap is too long to be bridged."""
GRID_PER_CUTOFF = 8
"""Least grid points per period of the cutoff, so that the filter's corner is far from the grid's Nyquist frequency."""
MAD_TO_SD = 1.4826
"""Standard deviation of a normal variable over its median absolute value."""


@dataclass(frozen=True, eq=False)
class Smooth:
    """A smoothed series: call it with times for values, or with `derivative` 1 or 2 for rates and accelerations.

    Beyond its ends it goes on as a straight line.
    """

    spline: Any
    """scipy's CubicSpline."""
    cutoff: float
    """[Hz]; infinite if nothing was filtered."""

    def __call__(self, t: Any, derivative: int = 0) -> np.ndarray:
        t = np.asarray(t, dtype=float)
        inside = np.clip(t, self.spline.x[0], self.spline.x[-1])
        value = self.spline(inside, derivative)
        if derivative == 0:
            return value + self.spline(inside, 1) * (t - inside)
        return value if derivative == 1 else np.where(t == inside, value, 0.0)


def lowpass(times: Any, values: Any, cutoff: float, order: int = 4) -> Smooth:
    """The series without what is faster than `cutoff` [Hz], without delay. NaN are gaps. `order` is that of one of the two passes."""
    t, x = _finite(times, values, 2)
    if not (np.isfinite(cutoff) and cutoff > 0):
        raise CalibodyError(f"The cutoff of the low-pass is {cutoff!r}; give a positive frequency in Hz.")
    grid, even = _even(t, x, min(float(np.median(np.diff(t))), 1.0 / (GRID_PER_CUTOFF * cutoff)))
    return _spline(grid, _butterworth(even, grid[1] - grid[0], cutoff, order), cutoff)


def interpolated(times: Any, values: Any) -> Smooth:
    """The series itself as a `Smooth`, gaps bridged, nothing filtered."""
    return _spline(*_finite(times, values, 2), np.inf)


def noise_sd(times: Any, values: Any, order: int = 4) -> float:
    """A robust estimate of the sd of white noise in a series; NaN are gaps. Zero for a series without noise."""
    t, x = _finite(times, values, 3)
    p = min(order, len(t) - 2)
    windows = np.lib.stride_tricks.sliding_window_view(t, p + 1)
    even = windows[:, -1] - windows[:, 0] <= 2.0 * p * np.median(np.diff(t))
    keep = even if even.any() else np.ones(len(windows), dtype=bool)
    weights = _difference_weights(windows[keep])
    residual = np.sum(weights * np.lib.stride_tricks.sliding_window_view(x, p + 1)[keep], axis=1)
    robust = MAD_TO_SD * float(np.median(np.abs(residual)))
    # A coarsely quantised series at rest has more than half of its differences exactly zero: then the plain root mean square.
    return robust if robust > 0 else float(np.sqrt(np.mean(residual**2)))


def _finite(times: Any, values: Any, fewest: int) -> tuple[np.ndarray, np.ndarray]:
    t, x = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    if t.ndim != 1 or t.shape != x.shape:
        raise CalibodyError(f"A series has times of shape {t.shape} and values of shape {x.shape}; give two arrays of one length.")
    here = np.isfinite(x)
    if here.sum() < fewest:
        raise CalibodyError(f"A series has {int(here.sum())} finite samples; at least {fewest} are needed.")
    check_clock("A series", t)
    return t[here], x[here]


def _even(t: np.ndarray, x: np.ndarray, period: float) -> tuple[np.ndarray, np.ndarray]:
    """The series on an even grid of at most `period` between its first and last sample."""
    from scipy.interpolate import PchipInterpolator

    count = (t[-1] - t[0]) / period
    if not count < MOST_POINTS:
        k = int(np.argmax(np.diff(t)))
        raise CalibodyError(f"The series cannot be smoothed across the gap of {t[k + 1] - t[k]:.3g} s after {t[k]:g} s; cut the recording there.")
    grid = np.linspace(t[0], t[-1], max(int(np.ceil(count - 1e-6)), 3) + 1)
    return grid, PchipInterpolator(t, x)(grid)


def _butterworth(even: np.ndarray, period: float, cutoff: float, order: int) -> np.ndarray:
    corner = cutoff / (np.sqrt(2.0) - 1.0) ** (0.5 / order)
    line = np.linspace(even[0], even[-1], len(even))
    left = even - line
    odd = np.concatenate([left, -left[-2:0:-1]])
    ratio = np.tan(np.pi * period * np.fft.rfftfreq(len(odd), period)) / np.tan(np.pi * period * corner)
    return line + np.fft.irfft(np.fft.rfft(odd) / (1.0 + ratio ** (2 * order)), len(odd))[: len(even)]


def _spline(t: np.ndarray, x: np.ndarray, cutoff: float) -> Smooth:
    from scipy.interpolate import CubicSpline

    return Smooth(CubicSpline(t, x), float(cutoff))


def _difference_weights(windows: np.ndarray) -> np.ndarray:
    """Rows c with sum(c * polynomial of degree p - 1) = 0 and norm 1, for rows of p + 1 instants."""
    p = windows.shape[1] - 1
    t = (windows - windows[:, :1]) / (windows[:, -1:] - windows[:, :1])
    difference = t[:, :, None] - t[:, None, :] + np.eye(p + 1)
    weights = 1.0 / np.prod(difference, axis=2)
    return weights / np.linalg.norm(weights, axis=1, keepdims=True)
