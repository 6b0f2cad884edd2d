"""What error bars become if the unmodelled forces have a memory: a spectrum in place of the white noise that they were taken for.

Where everything is as assumed, true forces w and measurement errors are the rows of a residual vector e ~ N(0, 1) and an estimate is off by `-H^-1 T'e`: force k by `h_k = -H^-1 T_k` times its size. If the
forces have the autocovariance c_l instead (in units of the variance they were taken to have), the variance of parameter i is

    (H^-1)_ii + sum_kl h_ki h_li (c_(k-l) - delta_kl)

c is not read off the forces as they were found: parameters have taken up of them what lies where the motion has its power, which is what counts, and a run has few independent stretches of a slow force. (Their scores'
long-run variance, which `bars.py` knows too, covered in 81 % of cases a force with a memory of a fifteenth of the run.) It is of a family: white noise and a share with a memory,

    c_l = v ((1 - s) delta_l + s rho^|l|),       S(f) = v (1 - s + s (1 - rho^2)/(1 - 2 rho cos(2 pi f) + rho^2)),

whose likelihood is that of the forces' cosine transform (Whittle): of the smoothed forces, wave m has the variance `phi_m (1 - phi_m + phi_m S)`, phi_m that of white ones, found by drawing residuals and smoothing
them as those of the fit were. The variance taken is the mean over the family, weighted by likelihood: that of the most likely member alone is too small where few waves tell.

**Several runs.** Noise of one run is independent of that of another, and averages out. A force that is beyond doubt slow (`slow.py`) is mostly none: friction of another kind, a cable, a stand depend on the motion, which runs of one
machine repeat, and what repeats averages out no more than the ruler's error does. Whether it repeats no run can tell, because its mean over all runs is in the estimates. Of such forces the share with a memory is therefore counted as
the same in all of them: in the variance above, standard deviations of runs are added instead of their squares. White forces, and those that chance explains, count as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibody.estimate.uncertainty import autocorrelation

MEMORIES, SHARES, LEVELS = 10, np.linspace(0.0, 1.0, 6), np.geomspace(0.4, 2.5, 11)
"""Of the family: how many memories, from two draws to half of the longest run; shares of what has a memory; levels, one being what was assumed, mean over the waves that tell."""
PRIOR = np.where(SHARES > 0.0, 1.0 / np.count_nonzero(SHARES), 1.0)
"""Of a share: before looking, no memory is as likely as any."""
TELLING, FEWEST = 0.02, 4.0
"""Share of a wave that the data know from which it is looked at, and least sum of those shares: fewer do not tell a spectrum."""
BESIDE = 2
"""Neighbours on either side over which the drawn variances of waves are averaged."""


@dataclass(frozen=True)
class Forces:
    """The unmodelled force of a joint in one run, one value per draw, in units of its standard deviation."""

    found: np.ndarray
    drawn: np.ndarray
    """(draws, samples): what is found of white ones."""
    moves: np.ndarray
    """(draws, parameters): how far each moves the parameters."""


def added(runs: Sequence[Forces], repeated: bool = False) -> np.ndarray | None:
    """Variance of every parameter that is to be added because the forces of a joint may have a memory, all runs together; it can be negative, where the motion is slower or faster than they are. None where too few waves tell a spectrum.

    `repeated`: what has a memory is taken to be the same in every run.
    """
    waves = [_told(run) for run in runs]
    known = sum(float(phi.sum()) for _, phi, _ in waves)
    none = np.zeros(runs[0].moves.shape[1])
    if known < FEWEST:
        return None
    longest = max(len(run.found) for run in runs)
    rhos = np.exp(-1.0 / np.geomspace(2.0, max(0.5 * longest, 4.0), MEMORIES))
    white = sum(((run.moves**2).sum(axis=0) for run in runs), none)
    logs, variances = [], []
    for rho in rhos:
        shapes = [_shapes(rho, f) for _, _, f in waves]
        mean = np.sum([s @ phi for s, (_, phi, _) in zip(shapes, waves, strict=True)], axis=0) / known
        logs.append(np.sum([_likelihood(r2, phi, s / mean[:, None]) for s, (r2, phi, _) in zip(shapes, waves, strict=True)], axis=0))
        each = [_remembered(run.moves, rho) for run in runs]
        slow = sum((np.sqrt(np.maximum(one, 0.0)) for one in each), none) ** 2 if repeated else sum(each, none)
        mixed = ((1.0 - SHARES)[:, None] * white + SHARES[:, None] * slow) / mean[:, None]
        variances.append(LEVELS[:, None, None] * mixed)
    weight = np.exp(np.array(logs) - np.max(logs)) * PRIOR
    return np.tensordot(weight / weight.sum(), np.array(variances), 3) - white


def _told(run: Forces) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the waves that tell something: their squares in units of what white forces would have, these (phi), and their frequencies [rad per draw]."""
    near = np.ones(2 * BESIDE + 1)
    phi = np.convolve((_cosines(run.drawn) ** 2).mean(axis=1), near, "same") / np.convolve(np.ones(len(run.found)), near, "same")
    keep = phi > TELLING
    phi = np.clip(phi[keep], 0.0, 1.0)
    return _cosines(run.found[:, None])[keep, 0] ** 2 / phi, phi, np.pi * np.flatnonzero(keep) / len(run.found)


def _cosines(x: np.ndarray) -> np.ndarray:
    """The orthonormal cosine transform of every column."""
    n = len(x)
    turned = np.fft.rfft(np.concatenate([x, x[::-1]]), axis=0)[:n] * np.exp(-0.5j * np.pi * np.arange(n) / n)[:, None]
    out = turned.real * np.sqrt(0.5 / n)
    out[0] *= np.sqrt(0.5)
    return out


def _shapes(rho: float, frequency: np.ndarray) -> np.ndarray:
    """(shares, waves): S/v."""
    return (1.0 - SHARES)[:, None] + SHARES[:, None] * (1.0 - rho**2) / (1.0 - 2.0 * rho * np.cos(frequency) + rho**2)


def _likelihood(squares: np.ndarray, phi: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """(levels, shares): its logarithm."""
    out = np.empty((len(LEVELS), len(shapes)))
    for k, level in enumerate(LEVELS):
        expected = 1.0 - phi + level * phi * shapes
        out[k] = -0.5 * (np.log(expected) + squares / expected).sum(axis=1)
    return out


def _remembered(moves: np.ndarray, rho: float) -> np.ndarray:
    """`sum_kl h_k h_l rho^|k - l|` of every column."""
    n = len(moves)
    out = np.empty(moves.shape[1])
    for i, h in enumerate(moves.T):
        r = n * autocorrelation(h)
        out[i] = r[0] + 2.0 * float(r[1:] @ rho ** np.arange(1, n))
    return out
