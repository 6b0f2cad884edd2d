"""What to record next: the excitation that tells most about the unknowns, within limits.

Drives, or the ways of joints, are found by a search (`search.py`) among sums of functions of time, within limits (`within.py`); what a fit of the recording would then say is foreseen (`forecast.py`), and beside it what is known already, what a
recording that is there says, and what further sensors would add.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError, told
from calibody.estimate.designs.designing import Designing
from calibody.estimate.designs.excitation import Followed, Played, excitable
from calibody.estimate.designs.forecast import Forecast, Planned, measured_by, mesh_step
from calibody.estimate.designs.search import FINER, Search, Shape, scaled
from calibody.estimate.designs.waves import BASES
from calibody.estimate.designs.within import Within, limits_of, shapeless, with_pairs
from calibody.estimate.foresee import foresee
from calibody.estimate.identifiability import Identifiability
from calibody.estimate.missing.misled import widest
from calibody.estimate.reported import reported
from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.threads import one_thread
from calibody.steppers.motion import Motion

if TYPE_CHECKING:
    from calibody.estimate.result import Result
    from calibody.estimate.unknowns import Unknown

HIGHEST = {False: 2.0, True: 1.0}
"""Hz: of drives that are played, and of joints that follow a way."""
FEW, MANY, COEFFICIENTS = 5, {False: 8, True: 12}, 84
"""Frequencies: at least, at most (of drives that are played, and of joints that follow a way), and coefficients of all channels together: what a search can do in a minute, or of seven joints in some."""
PER_PERIOD, PER_SECOND, FEWEST, MOST = 14, 40.0, 120, 600
"""Nodes of the mesh of the search: of the fastest period; for motions that are played per second, too, because they have frequencies of their own; and of all."""
DRAWN = 8
"""Mechanisms that the present estimate leaves possible with which limits are looked at."""


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
    lacking: tuple[str, ...] = ()
    """Of them the one that says what no recording makes smaller: the model lacks something."""

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
    planned = Planned.begun(model, unknowns, channels, sd, names, following, how.rate, coordinates)
    planned = planned if present is None else planned.since(present)
    search = _search(planned, how, names, following)
    rng = np.random.default_rng(how.seed)
    first = [search.largest(z) for z in (*(search.shape.random(rng) for _ in range(how.starts)), *search.shape.sweeps())]
    known = [i for i in map(search.information, first) if i is not None]
    if not known:
        raise CalibodyError("No excitation that was tried has a motion that can be computed; give smaller limits, a lower highest frequency, or another start.")
    search = replace(search, directions=planned.resolved(known))
    first.sort(key=lambda z: search.at(z)[0])
    z = search.best(first, how.improved, how.rounds, how.seed, report)
    z = scaled(search.shape, z, search.within(z, [planned.estimated, *(planned.possible(DRAWN, how.seed) if not following else [])]))
    runs = (beside,) if isinstance(beside, Recording) else tuple(beside)
    recorded = foresee(planned.model, runs, unknowns, coordinates=coordinates) if runs else None
    return _outcome(search, how, z, present, recorded, time.perf_counter() - began)


def _search(planned: Planned, how: Designing, names: Sequence[str], following: bool) -> Search:
    touched = with_pairs(planned.model) if how.clearance is not None else planned.model
    if how.clearance is not None and not touched.contacts:
        raise CalibodyError(
            f"clearance = {how.clearance:g}, but the model has no two shapes that could meet (meshes play no part in motions); give it spheres, capsules or boxes, or leave clearance out."
        )
    found = limits_of(planned.model, how.limits, how.rms)
    own = {limit.channel: limit for limit in found if isinstance(limit, Within)}
    for name in names:
        if name not in own or not np.isfinite(own[name].upper - own[name].lower):
            file = ", or load the model with contacts=True: its file may have some" if following and not planned.model.limits else ""
            raise CalibodyError(f'"{name}" is excited and has no limits on both sides; give limits={{"{name}": ...}}{file}.')
    if how.clearance is not None:
        found = (*found, *(Within(f"contact.{c.name}.gap", how.clearance, np.inf) for c in touched.contacts))
    highest = how.highest or HIGHEST[following]
    functions = how.functions or max(FEW, min(MANY[following], COEFFICIENTS // (2 * len(names))))
    waves = BASES[how.basis](how.duration, functions, highest, 3 if following else 1)
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
    forecast, beside = seen({}), {} if recorded is None else _bars(planned, recorded)
    return Design(
        forecast=forecast,
        before=None if present is None else planned.forecast(planned.known, motion, search.directions),
        recorded=beside,
        excited={path: way(np.minimum(times, how.duration)) for path, way in ways.items()},
        times=times,
        limits={limit.channel: (limit.lower, limit.upper, *limit.reached(fine)) for limit in search.limits if isinstance(limit, Within)},
        rms={limit.channel: (limit.most, float(np.sqrt(np.mean(fine[limit.channel] ** 2)))) for limit in search.limits if not isinstance(limit, Within)},
        sensors=extra,
        following=search.shape.following,
        evaluations=len(search.kept),
        seconds=seconds,
        notes=(*less_known(forecast, beside), *_notes(search, how, present)),
        lacking=() if present is None else tuple(lacking(present)),
    )


def _bars(planned: Planned, found: Identifiability) -> dict[str, float | None]:
    sd = np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
    return {name: float(x) if ok else None for name, x, ok in zip(reported(planned.unknowns, planned.theta).names, sd, found.resolved, strict=True)}


def less_known(found: Forecast, recorded: Mapping[str, float | None]) -> list[str]:
    """Where the recordings that are there tell more already."""
    both = [(e.sd, sd) for path, e in found.parameters.items() if (sd := recorded.get(path)) is not None and e.sd is not None]
    worse = sum(new > old for new, old in both)
    if 2 * worse <= len(both):
        return []
    return [
        f"{worse} of {len(both)} parameters would be known less well than from the recordings that are there: give limits that leave as much room as those took, more time, or a longer search (starts, improved, rounds)."
    ]


def lacking(present: Result) -> list[str]:
    """That no recording makes smaller what the present error bars allow for."""
    return [
        f"The present error bars allow for what the model seems to lack (that of {name} is {times:.2g} times as wide as its scatter), those to be expected do not: no recording makes that part smaller. Mend the model first."
        for name, times in widest(present.parameters)
    ]


def _notes(search: Search, how: Designing, present: Result | None) -> tuple[str, ...]:
    out = []
    if how.clearance is not None and (bodies := shapeless(search.touched)):
        out.append(
            f"The clearance knows nothing of {', '.join(bodies)}: {'it has' if len(bodies) == 1 else 'they have'} no shape but meshes, which play no part. See for yourself that nothing collides."
        )
    if how.clearance is None and search.planned.model.contacts:
        out.append("The model's contacts do not act in a design, and nothing keeps bodies apart: give a clearance.")
    hidden = len(search.planned.theta) - search.directions.shape[1]
    if hidden:
        out.append(
            f"{hidden} of {len(search.planned.theta)} directions of the unknowns did not show in any excitation that was tried: no motion within these limits tells them."
        )
    out += [] if present is None else lacking(present)
    if not search.shape.following:
        known = "the present estimate alone" if present is None else f"{DRAWN} mechanisms that the present fit leaves possible"
        out.append(f"The drives are played without a controller: the limits were looked at with {known}.")
    return tuple(out)
