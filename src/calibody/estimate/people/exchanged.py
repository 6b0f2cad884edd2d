"""Markers that took each other's place, in some frames or in all.

Tracking gives markers their names anew after every gap, and takes neighbours for each other. Where the fit puts two markers at A and B, and they were recorded at a and b, the recorded difference `d = a - b` points
along `D = A - B`, or, where they are exchanged, against it. Differences are looked at, not places: a segment that soft tissue moves as a whole takes both along. A frame is exchanged where
`|d + D| < CLEARLY |d - D|`, and a pair is named where FEWEST frames are, and the two are further apart than CLOSE times what is left of `|d - D|` when every frame has the better of both.
By then noise of one frame would have to be off by five of its standard deviations to look like it.

Markers that are exchanged throughout pull the fit half-way over, so that their differences may say nothing. Where residuals of markers are far above the others', or absurd, or where the fit did not converge, pairs of
the worst markers are tried. Either way the last word have a few frames that are fitted as poses (`cb.Poses`, which knows nothing of forces), as they are and exchanged: that has to take most of the pair's own
residuals away, and more of all than chance may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.result import Mistake, Result
from calibody.mechanics import channels
from calibody.model import Model
from calibody.recording.recording import FEWEST_SAMPLES, Observation, Recording

CLEARLY, FEWEST, CLOSE = 0.5, 3, 2.5
THROUGHOUT = 0.9
"""Share of frames from which an exchange is said to be one of columns."""
FRAMES, WORST = 12, 5
"""Frames that are fitted as poses, and markers that are tried in pairs."""
ABSURD, ABOVE = 3.0, 3.0
"""Residuals of a marker over its noise, and over the median marker's, from which its name is doubted."""
TAKEN = 0.5
"""What an exchange has to leave, at most, of the residuals of the pair."""
CERTAIN = 100.0
"""What it has to gain in squares, over the mean square that it leaves: the residuals of a frame are alike for some frames, so that a tenth of it may be chance."""


@dataclass(frozen=True)
class _Marker:
    name: str
    axes: tuple[str, ...]
    seen: np.ndarray
    """(axes, instants) [m], NaN where it was not seen."""
    fitted: np.ndarray
    sd: float

    @property
    def off(self) -> float:
        """Rms of its residuals over its noise."""
        return float(np.sqrt(np.nanmean((self.seen - self.fitted) ** 2))) / self.sd


def taken_for_each_other(model: Model, recordings: Sequence[Recording], result: Result) -> tuple[Mistake, ...]:
    """The pairs of markers that were, the clearest first."""
    found: list[Mistake] = []
    for recording in recordings:
        clock, markers = _markers(model, recording, result)
        if len(markers) > 1:
            pairs = list(_reversed(markers))
            here = [m for a, b, where in pairs if np.mean(where) <= THROUGHOUT if (m := _in_frames(model, recording, clock, where, a, b)) is not None]
            doubted = len(here) < len(pairs) or not result.converged or _apart(markers)
            found += here or (_throughout(model, recording, markers) if doubted else [])
    return tuple(found)


def _apart(markers: Sequence[_Marker]) -> bool:
    """Whether a marker is further off than the noise, or the others, can be."""
    usual = float(np.median([m.off for m in markers]))
    return any(m.off > min(ABSURD, ABOVE * usual) for m in markers)


def _markers(model: Model, recording: Recording, result: Result) -> tuple[np.ndarray, list[_Marker]]:
    """Of a recording, with the instants at which any was seen."""
    fits: dict[str, dict[str, tuple]] = {}
    for c in result.fit:
        what = channels.resolve(model, c.channel) if c.run == recording.name else None
        if what is not None and what.kind == "site" and what.quantity == "position":
            fits.setdefault(what.name, {})[c.channel[-1]] = (c.times, c.measured, c.fitted, c.sd)
    clock = np.unique(np.concatenate([times for axes in fits.values() for times, *_ in axes.values()])) if fits else np.zeros(0)
    out = []
    for name, axes in fits.items():
        both = np.full((2, len(axes), len(clock)), np.nan)
        for k, (times, measured, fitted, _) in enumerate(axes.values()):
            both[:, k, np.searchsorted(clock, times)] = measured, fitted
        out.append(_Marker(name, tuple(axes), both[0], both[1], float(np.sqrt(np.mean([sd**2 for *_, sd in axes.values()])))))
    return clock, out


# -- in some frames --------------------------------------------------------------------------------------------------------------------


def _reversed(markers: Sequence[_Marker]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Pairs that point the other way, and in which frames, the clearest first; no marker is in two of them."""
    tried = ((a, b, *_against(a, b)) for a, b in combinations(markers, 2) if a.axes == b.axes)
    named: set[str] = set()
    for _, a, b, where in sorted(((gain, a.name, b.name, where) for a, b, gain, where in tried if gain > 0.0), key=lambda f: -f[0]):
        if not named & {a, b}:
            named |= {a, b}
            yield a, b, where


def _against(a: _Marker, b: _Marker) -> tuple[float, np.ndarray]:
    """What exchanging gains in squares [m^2], and in which frames; zero if the pair is in order."""
    d, D = a.seen - b.seen, a.fitted - b.fitted
    as_is, other = np.linalg.norm(d - D, axis=0), np.linalg.norm(d + D, axis=0)
    where = other < CLEARLY * as_is
    left, apart = np.fmin(as_is, other), np.linalg.norm(D, axis=0)
    if where.sum() < FEWEST or np.nanmean(apart**2) < CLOSE**2 * np.nanmean(left**2):
        return 0.0, where
    return float(np.sum(as_is[where] ** 2 - other[where] ** 2)), where


def _in_frames(model: Model, recording: Recording, clock: np.ndarray, where: np.ndarray, a: str, b: str) -> Mistake | None:
    """That these are exchanged there, if poses say so too."""
    times = clock[where]
    poses, numbers = frames(model, recording, times)
    before = None if poses is None else _posed(model, poses)
    if poses is None or before is None:
        return None
    found = _better(before, _posed(model, poses.exchanged(f"site.{a}", f"site.{b}", numbers)), a, b)
    at = f"the first at {times[0]:.4g}{'' if recording.poses else ' s'}"
    sentence = f'The markers {a} and {b} of the run "{recording.name}" look swapped in {len(times)} of {len(clock)} frames ({at}): exchange them there (the key exchange of the run, as the report writes it; in Python, Recording.exchanged).'
    return None if found is None else Mistake("swap", (f"site.{a}", f"site.{b}"), sentence, *found, tuple(times.tolist()))


# -- throughout ------------------------------------------------------------------------------------------------------------------------


def _throughout(model: Model, recording: Recording, markers: Sequence[_Marker]) -> list[Mistake]:
    """The pair whose exchange makes poses fit best, if it does."""
    poses, _ = frames(model, recording, np.zeros(0))
    before = None if poses is None else _posed(model, poses)
    if poses is None or before is None:
        return []
    worst = [name for name, _ in sorted(before.items(), key=lambda f: -float(f[1] @ f[1]))[:WORST]]
    axes = {m.name: m.axes for m in markers}
    tried = [(a, b, _posed(model, poses.exchanged(f"site.{a}", f"site.{b}"))) for a, b in combinations(worst, 2) if axes[a] == axes[b]]
    a, b, after = min(((a, b, after) for a, b, after in tried if after is not None), key=lambda f: _squares(f[2]), default=("", "", None))
    found = _better(before, after, a, b)
    sentence = f'The markers {a} and {b} of the run "{recording.name}" look swapped: exchange their columns.'
    return [] if found is None else [Mistake("swap", (f"site.{a}", f"site.{b}"), sentence, *found)]


# -- poses -----------------------------------------------------------------------------------------------------------------------------


def _better(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray] | None, a: str, b: str) -> tuple[float, float] | None:
    """What is left of the pair's residuals as they are, and exchanged, over the noise; None where that is not much better."""
    if after is None:
        return None
    own, owned = (float(np.sqrt(np.mean(np.concatenate([r[a], r[b]]) ** 2))) for r in (before, after))
    gain, mean = _squares(before) - _squares(after), _squares(after) / sum(len(r) for r in after.values())
    return (own, owned) if owned <= TAKEN * own and gain >= CERTAIN * mean else None


def _squares(residuals: Mapping[str, np.ndarray]) -> float:
    return float(sum(r @ r for r in residuals.values()))


def frames(model: Model, recording: Recording, wanted: np.ndarray) -> tuple[Recording | None, np.ndarray]:
    """A few frames of the markers as poses, at wanted instants and at others, and the numbers of the wanted ones; None where there are too few in which every marker was seen."""
    kept = [o for o in recording.observations if (c := channels.resolve(model, o.channel)).kind == "site" and c.quantity == "position"]
    shared = kept[0].times[kept[0].present]
    for o in kept[1:]:
        shared = np.intersect1d(shared, o.times[o.present])
    here = np.isin(shared, wanted)
    chosen = np.sort(np.concatenate([_spread(shared[here], FRAMES), _spread(shared[~here], FRAMES - min(FRAMES // 2, here.sum()))]))
    if len(chosen) < FEWEST_SAMPLES:
        return None, wanted
    counted = 1.0 + np.arange(len(chosen))
    typical = float(np.mean([o.sd for o in kept if o.sd is not None] or [1.0]))
    seen = tuple(Observation(o.channel, counted, o.values[np.searchsorted(o.times, chosen)], sd=typical if o.sd is None else o.sd) for o in kept)
    return Recording(recording.name, seen, poses=True), counted[np.isin(chosen, wanted)]


def _spread(times: np.ndarray, count: int) -> np.ndarray:
    return times[np.unique(np.linspace(0, len(times) - 1, count).round().astype(int))] if len(times) else times


def posed(model: Model, poses: Recording) -> Result | None:
    """The fit of these frames; None where it fails."""
    from calibody.estimate.poses_fit import calibrate

    try:
        return calibrate(model, [poses], {})
    except (CalibodyError, NumericalError, FloatingPointError, np.linalg.LinAlgError):
        return None


def _posed(model: Model, poses: Recording) -> dict[str, np.ndarray] | None:
    """Residuals of the markers over their noise."""
    result = posed(model, poses)
    if result is None:
        return None
    out: dict[str, list[np.ndarray]] = {}
    for c in result.fit:
        out.setdefault(channels.resolve(model, c.channel).name, []).append(c.deviation)
    return {name: np.concatenate(parts) for name, parts in out.items()}
