"""The search for an excitation: from coefficients to what it tells and how far it goes beyond its limits, and down from there.

Drives, or the ways of joints, are sums of functions of time (`waves.py`) with coefficients z in units of their limits. For any z the motion is known (`excitation.py`), so is the information that its recording would
hold (`forecast.py`), and so is how far it goes beyond any limit (`within.py`). Of several random z and of some sweeps, made as large as the limits allow, the best few are improved by sequential quadratic programming,

    minimise  f(z)   subject to  g_i(z) <= 0

f the logarithm of the largest standard deviation of the determined combinations (smooth: an eighth of the logarithm of the sum of the fourth powers of the variances along the axes of their ellipsoid), or the mean of
the logarithms. Both and all g are differentiated together, by differences: one motion, one linearisation and one factorisation for each coefficient, on a mesh as coarse as the excitation allows. (A gradient of
the information by adjoints needs second derivatives of the equations; at 20 to 40 ms an evaluation it is not worth them. What regressors alone say, without the noise of the angles, was not taken for the same
reason: the information of the fit itself costs little more.)

That is for ways that joints follow. What drives that are played tell is a rugged function of them, because the motion follows by equations that amplify: of two links that swing, descents with exact gradients ended after 2 to 20 steps, with 1.0 to 1.9 of what the best chirp tells.
There, evolution (`solve/evolution.py`) goes on from the best starts, with PLAYED times as many evaluations as descents would be allowed: where one ends is luck, so HALVED of them begin, and half of them end when as many evaluations have
gone into each round. Of motions that go far beyond a limit the information is not computed. Limits that a drive meets by itself, its
own and that of its root mean square, are no limits of that search: a drive that is too large is taken back to them before it is played (`allowed`). They are where good excitations lie, and half of all draws would be beyond them.

At the end the limits are looked at again on a mesh FINER times as fine, for drives that are played also with the mechanisms that the present estimate leaves possible, and all amplitudes are taken back until they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from calibody.errors import CalibodyError, NumericalError, SimulationError
from calibody.estimate.designs.excitation import Excitation, Followed, Played
from calibody.estimate.designs.forecast import Planned, spectrum
from calibody.estimate.designs.waves import Waves
from calibody.estimate.designs.within import Limits, Within, touching
from calibody.model import Model
from calibody.solve.descent import descend
from calibody.solve.evolution import Evolution
from calibody.steppers.motion import Motion

FINER = 4
"""Times as many nodes (and as samples) on which limits are looked at last."""
STEP = 1e-3
"""Of the differences, in units of the limits."""
FAR = 10.0
"""How far beyond its limits a motion counts as that cannot be computed."""
SHRUNK = {False: 0.85 ** np.arange(30), True: 2.0 * 0.93 ** np.arange(60)}
"""Amplitudes of random excitations that are tried, from large to small, until the limits hold, of drives that are played (beginning with what they may have by themselves) and of joints that follow a way; the last are 1 and 3 %."""
TAKEN_BACK = 0.99 ** np.arange(120)
"""The same of the best one; the last is 30 %."""
INSIDE = 1e-3
"""Of a half width: how far inside its limits a motion has to stay on the finest mesh, so that it does between its nodes."""
SWEPT, INSTANTS = (0.25, 0.5, 0.75, 1.0), 800
"""Parts of the highest frequency up to which sweeps go, and instants at which they are approximated."""
RADIUS, SPREAD = 0.1, 0.3
"""Of the first step of the search, in units of the limits; and the size of the first steps of evolution."""
HALVED = (8, 4, 2, 1)
"""Of several evolutions, how many go on in each round; fewer, where that would leave them less than so many turns each."""
TURNS = 5
PLAYED = 1.5
"""Evaluations of drives that are played per evaluation that descents would be allowed: one is a simulation, and the information where that stays within its limits."""
TINY = 1e-3
"""Of a drive, in units of what is allowed: a start is made a thousand times larger before it is taken back to its limits."""
BEYOND = 0.1
"""Half widths beyond a limit from which evolution asks for no information."""


@dataclass(frozen=True)
class Shape:
    """From coefficients to an excitation. Joints that follow a way have the place of their middle as the first coefficient."""

    channels: tuple[str, ...]
    middle: np.ndarray
    unit: np.ndarray
    """Of every channel: the middle of its limits, and half their width."""
    waves: Waves
    following: bool
    initial: Mapping[str, Any]
    period: float
    coordinates: str

    @property
    def each(self) -> int:
        return self.waves.size + self.following

    @property
    def size(self) -> int:
        return self.each * len(self.channels)

    def excitation(self, z: np.ndarray, amplitude: float = 1.0) -> Excitation:
        ways = {}
        for k, channel in enumerate(self.channels):
            own = z[k * self.each : (k + 1) * self.each]
            offset = self.middle[k] + (self.unit[k] * own[0] if self.following else 0.0)
            ways[channel] = self._way(offset, amplitude * self.unit[k] * own[self.following :])
        return Followed(ways) if self.following else Played(ways, self.initial, self.period, self.coordinates)

    def _way(self, offset: float, weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        return lambda t: offset + self.waves.at(t) @ weights

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Coefficients of all sizes, of which a few dominate as often as not; middles near those of the limits."""
        z = rng.standard_normal((len(self.channels), self.each)) * rng.uniform(0.0, 1.0, (len(self.channels), self.each))
        if self.following:
            z[:, 0] *= 0.3
        return z.ravel()

    def sweeps(self) -> list[np.ndarray]:
        """Sweeps from the lowest frequency up to parts of the highest, on all channels at once or each a quarter of a period behind the one before, as near as the functions come."""
        t = np.linspace(0.0, self.waves.duration, INSTANTS)
        B, lowest = self.waves.at(t), 1.0 / self.waves.duration
        out = []
        for part, lag in product(SWEPT, (0.0, 0.5 * np.pi)):
            phase = 2.0 * np.pi * (lowest * t + (part * self.waves.highest - lowest) / (2.0 * self.waves.duration) * t**2)
            ways = np.sin(phase[:, None] + lag * np.arange(len(self.channels)))
            z = np.zeros((len(self.channels), self.each))
            z[:, self.following :] = 0.5 * np.linalg.lstsq(B, ways, rcond=None)[0].T
            out.append(z.ravel())
        return out


@dataclass(frozen=True, eq=False)
class Search:
    """f and g of coefficients, on the mesh of the search."""

    shape: Shape
    planned: Planned
    limits: Limits
    touched: Model
    """The model with its contacts."""
    duration: float
    h: float
    directions: np.ndarray
    criterion: str
    kept: dict[bytes, tuple[float, np.ndarray]] = field(default_factory=dict)

    def motion(self, excitation: Excitation, finer: int = 1, model: Model | None = None) -> Motion:
        model = self.planned.estimated if model is None else model
        return touching(self.touched, excitation.motion(model, self.duration, self.h / finer))

    def information(self, z: np.ndarray) -> np.ndarray | None:
        """Of what the recording would say; None where the motion cannot be computed."""
        excitation = self.shape.excitation(z)
        try:
            motion = excitation.motion(self.planned.estimated, self.duration, self.h)
            return self.planned.information(motion, excitation, self.h / self.planned.period)
        except (SimulationError, NumericalError, np.linalg.LinAlgError):
            return None

    def at(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """f and g."""
        key = z.tobytes()
        if key not in self.kept:
            self.kept[key] = self._at(z)
        return self.kept[key]

    def _at(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        excitation = self.shape.excitation(z)
        try:
            motion = excitation.motion(self.planned.estimated, self.duration, self.h)
            seen = touching(self.touched, motion)
            g = self.beyond(seen)
            if not self.shape.following and g.max(initial=0.0) > BEYOND:
                return np.inf, g
            return self.value(self.planned.information(motion, excitation, self.h / self.planned.period)), g
        except (SimulationError, NumericalError, np.linalg.LinAlgError):
            return np.inf, np.full(len(self.limits), FAR)

    def value(self, information: np.ndarray) -> float:
        mu = spectrum(self.planned.scaled(information), self.directions)
        if self.criterion == "determinant":
            return float(-0.5 * np.log(mu).mean())
        least = float(mu.min())
        return float(np.log(((least / mu) ** 4).sum()) / 8.0 - 0.5 * np.log(least))

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(coefficients,) of f, and (limits, coefficients) of g; zero along coefficients whose neighbour cannot be computed."""
        f, g = self.at(z)
        found = [(a, b) if np.isfinite(a) else (f, g) for a, b in (self.at(z + STEP * e) for e in np.eye(len(z)))]
        return np.array([(a - f) / STEP for a, _ in found]), np.stack([(b - g) / STEP for _, b in found], axis=1)

    def largest(self, z: np.ndarray) -> np.ndarray:
        """With amplitudes as large as the limits allow."""
        amplitudes = SHRUNK[self.shape.following]
        z = z if self.shape.following else self.allowed(z / TINY)
        for amplitude in amplitudes:
            excitation = self.shape.excitation(z, amplitude)
            try:
                motion = self.motion(excitation)
            except SimulationError:
                continue
            if self.beyond(motion).max(initial=-1.0) <= 0.0:
                return scaled(self.shape, z, amplitude)
        return scaled(self.shape, z, float(amplitudes[-1]))

    def beyond(self, motion: Motion) -> np.ndarray:
        """g; smooth where it is differentiated."""
        return np.array([limit.smooth(motion) if self.shape.following else float(limit.beyond(motion).max()) for limit in self.limits])

    def allowed(self, z: np.ndarray) -> np.ndarray:
        """Drives no larger than their own limits and those of their root mean squares, each for itself."""
        shape, out = self.shape, z.reshape(-1, self.shape.each).copy()
        values = np.abs(out @ self._samples.T) * shape.unit[:, None]
        for k, name in enumerate(shape.channels):
            room = [
                limit.upper / values[k].max() if isinstance(limit, Within) else limit.most / np.sqrt(np.mean(values[k] ** 2))
                for limit in self.limits
                if limit.channel == name and values[k].any()
            ]
            out[k] *= min([1.0, *room])
        return out.ravel()

    @cached_property
    def _samples(self) -> np.ndarray:
        """(instants, functions) at the nodes of the search."""
        return self.shape.waves.at(self.h * np.arange(round(self.duration / self.h) + 1))

    def best(self, starts: Sequence[np.ndarray], improved: int, rounds: int, seed: int, report: Callable[[str], None] | None) -> np.ndarray:
        """Of what the starts (from the best on) lead to: of joints that follow a way so many of them, each in so many rounds of as many evaluations as there are coefficients, and one; of drives that are played as many evaluations as that."""
        first = self.at(starts[0])[0]

        def line(f: float) -> None:
            if report is not None:
                what = "the worst combination" if self.criterion == "worst" else "combinations on average"
                report(f"{what} to about {100.0 * np.exp(f):.3g} % of its scale, by the best start to {100.0 * np.exp(first):.3g} %")

        if self.shape.following:
            ends = [descend(self.at, self.slopes, z, rounds, RADIUS, line).z for z in starts[:improved]]
            return min(ends, key=lambda z: self.at(z)[0])
        return self._evolved(starts, round(PLAYED * improved * rounds * (self.shape.size + 1)), seed, line)

    def _evolved(self, starts: Sequence[np.ndarray], evaluations: int, seed: int, line: Callable[[float], None]) -> np.ndarray:
        """The best of several evolutions, of which the worse half ends after each round."""

        def both(z: np.ndarray) -> tuple[float, np.ndarray]:
            return self.at(self.allowed(z))

        races = [Evolution(both, z, SPREAD, seed + k) for k, z in enumerate(starts[: HALVED[0]])]
        counts = [n for n in HALVED if evaluations >= TURNS * races[0].count * n * len(HALVED)] or [1]
        for count in counts:
            races = sorted(races, key=lambda race: race.least)[:count]
            for race in races:
                race.go(evaluations // (len(counts) * len(races)))
            line(min(race.least for race in races))
        return self.allowed(min(races, key=lambda race: race.least).best)

    def within(self, z: np.ndarray, models: Sequence[Model]) -> float:
        """The amplitude, at most one, with which all limits hold on a finer mesh and with all models; a sentence where none does."""
        worst: str | None = None
        for amplitude in TAKEN_BACK:
            worst = self._exceeded(self.shape.excitation(z, float(amplitude)), models)
            if worst is None:
                return float(amplitude)
        raise CalibodyError(f"{worst} is exceeded by every excitation that was tried, however small; give it more room, or another start.")

    def _exceeded(self, excitation: Excitation, models: Sequence[Model]) -> str | None:
        """The limit that is exceeded most; None if none is."""
        worst, name = -INSIDE, None
        for model in models:
            try:
                motion = self.motion(excitation, FINER, model)
            except SimulationError:
                return "The stepper's"
            for limit in self.limits:
                if (g := float(limit.beyond(motion).max())) > worst:
                    worst, name = g, f'The limit of "{limit.channel}"'
        return name


def scaled(shape: Shape, z: np.ndarray, amplitude: float) -> np.ndarray:
    out = z.reshape(-1, shape.each).copy()
    out[:, shape.following :] *= amplitude
    return out.ravel()
