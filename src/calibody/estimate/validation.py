"""What a validation found (`validate.py`): measured samples that a fit has not seen, predicted, and the band in which they should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

COVER = 1.96
"""Standard deviations of a 95 % band."""


@dataclass(frozen=True)
class Unseen:
    """One channel of one run where it was left out."""

    run: str
    channel: str
    times: np.ndarray = field(repr=False)
    measured: np.ndarray = field(repr=False)
    predicted: np.ndarray = field(repr=False)
    noise: np.ndarray = field(repr=False)
    """Standard deviation of every sample's own noise."""
    band: np.ndarray = field(repr=False)
    """Standard deviation of measured - predicted, noise included; inf where it follows what the data do not determine."""
    foreseen: np.ndarray = field(repr=False)
    """Which samples are judged: until the band of a channel of the run is wider than its theory, which is of first order, holds for."""

    @property
    def error(self) -> np.ndarray:
        return self.measured - self.predicted

    @property
    def rms(self) -> float:
        """As all that follows, of the samples that were foreseen."""
        return _rms(self.error[self.foreseen])

    @property
    def rms_over_sd(self) -> float:
        """In units of the noise: 1 is perfect."""
        return _rms(self.in_noise)

    @property
    def rms_over_band(self) -> float:
        """In units of the band: 1 on average if the model is right."""
        return _rms(self.in_band)

    @property
    def in_noise(self) -> np.ndarray:
        return (self.error / self.noise)[self.foreseen]

    @property
    def in_band(self) -> np.ndarray:
        return (self.error / self.band)[self.foreseen]

    @property
    def within(self) -> np.ndarray:
        """Which samples are inside the 95 % band."""
        return np.abs(self.in_band) <= COVER

    @property
    def inside(self) -> float:
        """Share of the samples inside the 95 % band."""
        return float(np.mean(self.within))


@dataclass(frozen=True)
class Validation:
    """What was left out, and how it was predicted."""

    halves: bool
    """Whether it was the second half of a single run; else each run in turn, but for its beginning."""
    channels: tuple[Unseen, ...] = field(repr=False)
    failed: Mapping[str, str]
    """By run: why it was not predicted."""

    @property
    def runs(self) -> dict[str, float]:
        """By run: rms of all channels in units of their noise."""
        return self._by_run(lambda c: c.in_noise)

    @property
    def in_bands(self) -> dict[str, float]:
        """By run: rms of all channels in units of the band."""
        return self._by_run(lambda c: c.in_band)

    @property
    def seconds(self) -> dict[str, float]:
        """By run: how long it was foreseen."""
        return {run: max(float(np.ptp(c.times[c.foreseen])) for c in self.channels if c.run == run) for run in self.runs}

    @property
    def inside(self) -> float:
        """Share of all samples inside the 95 % band; NaN if nothing was predicted."""
        return float(np.mean(np.concatenate([c.within for c in self.channels]))) if self.channels else float("nan")

    @property
    def inside_by_run(self) -> dict[str, float]:
        return {name: float(np.mean(np.concatenate([c.within for c in self.channels if c.run == name]))) for name in self.runs}

    def _by_run(self, scaled: Callable[[Unseen], np.ndarray]) -> dict[str, float]:
        names = dict.fromkeys(c.run for c in self.channels)
        return {name: _rms(np.concatenate([scaled(c) for c in self.channels if c.run == name])) for name in names}

    def __str__(self) -> str:
        lines = [f"{'predicted':24} {'error / noise':>14} {'error / band':>13} {'in 95 % band':>13} {'foreseen':>10}"]
        bands, inside, long = self.in_bands, self.inside_by_run, self.seconds
        lines += [f"{run:24} {value:14.3f} {bands[run]:13.3f} {100 * inside[run]:11.0f} % {long[run]:8.3g} s" for run, value in self.runs.items()]
        return "\n".join([*lines, *(f"{run}: {why}" for run, why in self.failed.items())])


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))
