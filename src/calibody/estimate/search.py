"""The search for an excitation: from coefficients to what it tells and how far it goes beyond its limits, and down from there.

Drives, or the ways of joints, are sums of functions of time (`waves.py`) with coefficients z in units of their limits. For any z the motion is known (`excitation.py`), so is the information that its recording would
hold (`forecast.py`), and so is how far it goes beyond any limit (`within.py`). Of several random z and of some sweeps, made as large as the limits allow, the best few are improved by sequential quadratic programming,

    minimise  f(z)   subject to  g_i(z) <= 0

f the logarithm of the largest standard deviation of the determined combinations (smooth: an eighth of the logarithm of the sum of the fourth powers of the variances along the axes of their ellipsoid), or the mean of
the logarithms. Both and all g are differentiated together, by differences: one motion, one linearisation and one factorisation for each coefficient, on a mesh as coarse as the excitation allows. (A gradient of
the information by adjoints needs second derivatives of the equations; at 20 to 40 ms an evaluation it is not worth them. What regressors alone say, without the noise of the angles, was not taken for the same
reason: the information of the fit itself costs little more.)

That is for ways that joints follow. What drives that are played tell is a rugged function of them, because the motion follows by equations that amplify: of two links that swing, descents with exact gradients ended after 2 to 20 steps, with 1.0 to 1.9 of what the best chirp tells.
From where the best of them ends, evolution (`solve/evolution.py`) goes on with the evaluations that the descents have left; of motions that go far beyond a limit the information is not computed.

At the end the limits are looked at again on a mesh FINER times as fine, for drives that are played also with the mechanisms that the present estimate leaves possible, and all amplitudes are taken back until they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from calibody.errors import CalibodyError, NumericalError, SimulationError
from calibody.estimate.excitation import Excitation, Followed, Played
from calibody.estimate.forecast import Planned, spectrum
from calibody.estimate.waves import Waves
from calibody.estimate.within import Limits, touching
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
SHRUNK = 0.93 ** np.arange(60)
"""Amplitudes of random excitations that are tried, from large to small, until the limits hold; the last is 1 %."""
TAKEN_BACK = 0.99 ** np.arange(120)
"""The same of the best one; the last is 30 %."""
INSIDE = 1e-3
"""Of a half width: how far inside its limits a motion has to stay on the finest mesh, so that it does between its nodes."""
SWEPT, INSTANTS = (0.25, 0.5, 0.75, 1.0), 800
"""Parts of the highest frequency up to which sweeps go, and instants at which they are approximated."""
RADIUS, SPREAD = 0.1, 0.05
"""Of the first step of the search, in units of the limits; and the size of the first steps of evolution."""
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
            g = np.array([limit.smooth(seen) for limit in self.limits])
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
        for amplitude in SHRUNK:
            excitation = self.shape.excitation(z, 2.0 * amplitude)
            try:
                motion = self.motion(excitation)
            except SimulationError:
                continue
            if all(limit.smooth(motion) <= 0.0 for limit in self.limits):
                return scaled(self.shape, z, 2.0 * amplitude)
        return scaled(self.shape, z, 2.0 * float(SHRUNK[-1]))

    def best(self, starts: Sequence[np.ndarray], rounds: int, seed: int, report: Callable[[str], None] | None) -> np.ndarray:
        """Of all that the starts lead to; `rounds`: so many times as many evaluations for each as there are coefficients, and one."""
        first = self.at(starts[0])[0]

        def line(f: float) -> None:
            if report is not None:
                report(f"{np.exp(f):.4g}, from {np.exp(first):.4g}")

        before = len(self.kept)
        ends = [descend(self.at, self.slopes, z, rounds, RADIUS, line).z for z in starts]
        leader = min(ends, key=lambda z: self.at(z)[0])
        if self.shape.following:
            return leader
        race = Evolution(self.at, leader, SPREAD, seed, line)
        race.go(len(starts) * rounds * (self.shape.size + 1) - (len(self.kept) - before))
        return race.best

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
