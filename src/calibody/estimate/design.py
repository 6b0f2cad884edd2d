"""What to record next: the excitation that tells most about the unknowns, within limits.

Drives, or the ways of joints, are sums of functions of time (`waves.py`) with coefficients z in units of their limits. For any z the motion is known (`excitation.py`), so is the information that its recording would
hold (`forecast.py`), and so is how far it goes beyond any limit (`within.py`). Of several random z, made as large as the limits allow, the best few are improved by sequential quadratic programming,

    minimise  f(z)   subject to  g_i(z) <= 0

f the logarithm of the largest standard deviation of the determined combinations (smooth: an eighth of the logarithm of the sum of the fourth powers of the variances along the axes of their ellipsoid), or the mean of
the logarithms. Both and all g are differentiated together, by differences: one motion, one linearisation and one factorisation for each coefficient, on a mesh as coarse as the excitation allows. (A gradient of
the information by adjoints needs second derivatives of the equations; at 20 to 40 ms an evaluation it is not worth them. What regressors alone say, without the noise of the angles, was not taken for the same
reason: the information of the fit itself costs little more.)

At the end the limits are looked at again on a mesh FINER times as fine, for drives that are played also with the mechanisms that the present estimate leaves possible, and all amplitudes are taken back until they hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError, NumericalError, SimulationError, told
from calibody.estimate.designing import Designing
from calibody.estimate.excitation import Excitation, Followed, Played, bare, excitable
from calibody.estimate.forecast import Forecast, Planned, forces_of, measured_by, mesh_step, spectrum
from calibody.estimate.foresee import foresee
from calibody.estimate.identifiability import Identifiability
from calibody.estimate.reported import reported
from calibody.estimate.waves import BASES, Waves
from calibody.estimate.within import Limits, Within, limits_of, touching, with_pairs
from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.descent import descend
from calibody.solve.threads import one_thread
from calibody.steppers.motion import Motion

if TYPE_CHECKING:
    from calibody.estimate.result import Result
    from calibody.estimate.unknowns import Unknown

HIGHEST = {False: 2.0, True: 1.0}
"""Hz: of drives that are played, and of joints that follow a way."""
PER_PERIOD, PER_SECOND, FEWEST, MOST = 14, 40.0, 120, 600
"""Nodes of the mesh of the search: of the fastest period; for motions that are played per second, too, because they have frequencies of their own; and of all."""
FINER = 4
"""Times as many nodes (and as samples) on which limits are looked at last."""
STEP = 1e-3
"""Of the differences, in units of the limits."""
SHRUNK = 0.93 ** np.arange(60)
"""Amplitudes of random excitations that are tried, from large to small, until the limits hold; the last is 1 %."""
TAKEN_BACK = 0.99 ** np.arange(120)
"""The same of the best one; the last is 30 %."""
DRAWN = 8
"""Mechanisms that the present estimate leaves possible with which limits are looked at."""
INSIDE = 1e-3
"""Of a half width: how far inside its limits a motion has to stay on the finest mesh, so that it does between its nodes."""
RADIUS = 0.1
"""Of the first step of the search, in units of the limits."""


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

    def information(self, z: np.ndarray) -> np.ndarray:
        excitation = self.shape.excitation(z)
        motion = excitation.motion(self.planned.estimated, self.duration, self.h)
        return self.planned.information(motion, excitation, self.h / self.planned.period)

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
            information = self.planned.information(motion, excitation, self.h / self.planned.period)
        except (SimulationError, NumericalError, np.linalg.LinAlgError):
            return np.inf, np.zeros(len(self.limits))
        seen = touching(self.touched, motion)
        return self.value(information), np.array([limit.smooth(seen) for limit in self.limits])

    def value(self, information: np.ndarray) -> float:
        mu = spectrum(self.planned.scaled(information), self.directions)
        if self.criterion == "determinant":
            return float(-0.5 * np.log(mu).mean())
        least = float(mu.min())
        return float(np.log(((least / mu) ** 4).sum()) / 8.0 - 0.5 * np.log(least))

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(coefficients,) of f, and (limits, coefficients) of g."""
        f, g = self.at(z)
        found = [self.at(z + STEP * e) for e in np.eye(len(z))]
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
                return _scaled(self.shape, z, 2.0 * amplitude)
        return _scaled(self.shape, z, 2.0 * float(SHRUNK[-1]))

    def improved(self, z: np.ndarray, rounds: int, report: Callable[[str], None] | None) -> np.ndarray:
        first = self.at(z)[0]

        def line(f: float) -> None:
            if report is not None:
                report(f"{np.exp(f):.4g}, from {np.exp(first):.4g}")

        return descend(self.at, self.slopes, z, rounds, RADIUS, line).z

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


def _scaled(shape: Shape, z: np.ndarray, amplitude: float) -> np.ndarray:
    out = z.reshape(-1, shape.each).copy()
    out[:, shape.following :] *= amplitude
    return out.ravel()


@dataclass(frozen=True, eq=False)
class Design:
    """An excitation, and what its recording would tell."""

    forecast: Forecast
    """Error bars with the excitation, what was known before included."""
    before: Forecast | None
    """Those of the present fit alone."""
    recorded: Mapping[str, float | None]
    """Those of the recordings that were given to stand beside; None: not determined."""
    excited: Mapping[str, np.ndarray]
    """By channel, at `times`: what is played, held from one sample to the next; of joints that follow a way their places."""
    times: np.ndarray
    limits: Mapping[str, tuple[float, float, float, float]]
    """By channel: lower and upper limit, and what is reached on the finest mesh."""
    rms: Mapping[str, tuple[float, float]]
    """By channel: the limit, and what is reached."""
    sensors: Mapping[str, Forecast]
    """By channel that is not measured yet: error bars if it were."""
    following: bool
    evaluations: int
    seconds: float
    notes: tuple[str, ...]

    @property
    def motion(self) -> Motion:
        return self.forecast.motion

    def table(self) -> dict[str, np.ndarray]:
        """What a robot plays: the clock, drives or places; of joints that follow a way rates and forces besides."""
        out = {"t": self.times, **self.excited}
        if self.following:
            at = np.clip(np.round(self.times / self.motion.h).astype(int), 0, len(self.motion.time) - 1)
            joints = [path.rsplit(".", 1)[0] for path in self.excited]
            out |= {f"{joint}.{word}": self.motion[f"{joint}.{word}"][at] for word in ("rate", "force") for joint in joints}
        return out

    def save(self, path: str | Path) -> Path:
        """As a CSV file, one row per sample."""
        import polars as pl

        path = Path(path)
        pl.DataFrame(self.table()).write_csv(path)
        return path

    def __str__(self) -> str:
        lines = [str(self.forecast)]
        if self.before is not None:
            lines.append(f"before: {100.0 * self.before.worst:.3g} %")
        lines += [f"{path}: {a:.4g} to {b:.4g} within {low:g} and {high:g}" for path, (low, high, a, b) in self.limits.items()]
        lines += [f"with {path}: {100.0 * f.worst:.3g} %" for path, f in self.sensors.items()]
        return "\n".join([*lines, *self.notes])


@told()
@one_thread
def design(
    model: Model,
    unknowns: Mapping[str, Unknown | float | None],
    channels: Sequence[str],
    sd: Mapping[str, float] | float,
    duration: float,
    limits: Mapping[str, Any],
    *,
    present: Result | None = None,
    beside: Sequence[Recording] | Recording = (),
    coordinates: str = "auto",
    report: Callable[[str], None] | None = None,
    **options: Any,
) -> Design:
    """The excitation that tells most about the unknowns within limits, with the error bars to be expected of it.

    `channels` will be recorded with noise of `sd` for `duration` [s]; `limits` are by channel a number (both sides alike) or (lower, upper), of every channel that is excited and of whatever else
    has to stay within. `present` is a fit of the same unknowns: the design begins at its estimate, adds to what it knows, and keeps the limits with mechanisms that it leaves possible. `beside`: recordings
    whose error bars are foreseen to stand beside. Further options: `excite`, `rms`, `rate`, `criterion`, `basis`, `functions`, `highest`, `clearance`, `initial`, `sensors`, `starts`, `improved`, `rounds`, `seed` (docs: design).
    """
    began, how = time.perf_counter(), Designing(duration=duration, limits=limits, **options)
    names, following = excitable(model, how.excite)
    model = bare(model, list(unknowns)) if following else model
    measured = measured_by(model, channels, sd)
    planned = Planned.of(model, unknowns, measured, how.rate, forces_of(model) if following else names, coordinates)
    planned = planned if present is None else planned.since(present)
    search = _search(planned, how, names, following)
    rng = np.random.default_rng(how.seed)
    first = [search.largest(search.shape.random(rng)) for _ in range(how.starts)]
    search = replace(search, directions=planned.resolved([search.information(z) for z in first]))
    first.sort(key=lambda z: search.at(z)[0])
    z = min((search.improved(z, how.rounds, report) for z in first[: how.improved]), key=lambda z: search.at(z)[0])
    z = _scaled(search.shape, z, search.within(z, [planned.estimated, *(planned.possible(DRAWN, how.seed) if not following else [])]))
    runs = (beside,) if isinstance(beside, Recording) else tuple(beside)
    recorded = foresee(model, runs, unknowns, coordinates=coordinates) if runs else None
    return _outcome(search, how, z, present, recorded, time.perf_counter() - began)


def _search(planned: Planned, how: Designing, names: Sequence[str], following: bool) -> Search:
    touched = with_pairs(planned.model) if how.clearance is not None else planned.model
    found = limits_of(planned.model, how.limits, how.rms)
    own = {limit.channel: limit for limit in found if isinstance(limit, Within)}
    for name in names:
        if name not in own or not np.isfinite(own[name].upper - own[name].lower):
            raise CalibodyError(f'"{name}" is excited and has no limits on both sides; give limits={{"{name}": ...}}.')
    if how.clearance is not None:
        found = (*found, *(Within(f"contact.{c.name}.gap", how.clearance, np.inf) for c in touched.contacts))
    highest = how.highest or HIGHEST[following]
    waves = BASES[how.basis](how.duration, how.functions, highest, 3 if following else 1)
    middle, unit = (np.array([f(own[name]) for name in names]) for f in (lambda w: 0.5 * (w.lower + w.upper), lambda w: w.size))
    if not following and np.any(middle != 0.0):
        name = names[int(np.argmax(middle != 0.0))]
        raise CalibodyError(
            f'The limits of the drive "{name}" are {own[name].lower:g} and {own[name].upper:g}; a drive begins and ends at zero, so give it the same on both sides.'
        )
    shape = Shape(tuple(names), middle, unit, waves, following, how.initial, planned.period, planned.coordinates)
    wanted = how.duration * max(PER_PERIOD * highest, 0.0 if following else PER_SECOND)
    h = how.duration / int(np.clip(np.ceil(wanted), FEWEST, MOST))
    return Search(shape, planned, found, touched, how.duration, h, np.eye(len(planned.theta)), how.criterion)


def _outcome(search: Search, how: Designing, z: np.ndarray, present: Result | None, recorded: Identifiability | None, seconds: float) -> Design:
    planned, excitation = search.planned, search.shape.excitation(z)
    motion = excitation.motion(planned.estimated, how.duration, mesh_step(planned, how.duration))

    def seen(more: Mapping[str, float]) -> Forecast:
        with_it = replace(planned, sd={**planned.sd, **more})
        return with_it.forecast(with_it.information(motion, excitation), motion, search.directions)

    fine = search.motion(excitation, FINER)
    extra = {path: seen(measured_by(planned.model, [path], one)) for path, one in how.sensors.items()}
    times = planned.period * np.arange(round(how.duration / planned.period) + 1)
    ways = excitation.ways if isinstance(excitation, (Played, Followed)) else {}
    return Design(
        forecast=seen({}),
        before=None if present is None else planned.forecast(planned.known, motion, search.directions),
        recorded={} if recorded is None else _bars(planned, recorded),
        excited={path: way(np.minimum(times, how.duration)) for path, way in ways.items()},
        times=times,
        limits={limit.channel: (limit.lower, limit.upper, *limit.reached(fine)) for limit in search.limits if isinstance(limit, Within)},
        rms={limit.channel: (limit.most, float(np.sqrt(np.mean(fine[limit.channel] ** 2)))) for limit in search.limits if not isinstance(limit, Within)},
        sensors=extra,
        following=search.shape.following,
        evaluations=len(search.kept),
        seconds=seconds,
        notes=_notes(search, present),
    )


def _bars(planned: Planned, found: Identifiability) -> dict[str, float | None]:
    sd = np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
    return {name: float(x) if ok else None for name, x, ok in zip(reported(planned.unknowns, planned.theta).names, sd, found.resolved, strict=True)}


def _notes(search: Search, present: Result | None) -> tuple[str, ...]:
    out = []
    hidden = len(search.planned.theta) - search.directions.shape[1]
    if hidden:
        out.append(
            f"{hidden} of {len(search.planned.theta)} directions of the unknowns did not show in any excitation that was tried: no motion within these limits tells them."
        )
    if not search.shape.following:
        known = "the present estimate alone" if present is None else f"{DRAWN} mechanisms that the present fit leaves possible"
        out.append(f"The drives are played without a controller: the limits were looked at with {known}.")
    return tuple(out)
