"""Shooting whose windows are condensed one after the other, as they are simulated: its memory grows with the data and by a few numbers per sample, not with all that a step is made of.

A window w that begins with s_w (the state of the stepper there) is simulated, differentiated and forgotten. What is left of it are its samples and its end, and how both follow its start and the parameters,

    F_w(s_w, theta),   e_w(s_w, theta),   dF_w/ds_w,   dF_w/dtheta,   de_w/ds_w,   de_w/dtheta

and the problem is that of the starts alone, with one matching row per number of a state between neighbouring windows:

    minimise 1/2 sum |F_w|^2 + priors     subject to  s_(w+1) [-] e_w = 0,   what is known of the first start, its constraints,   bounds on theta

Its Gauss-Newton steps, error bars and identifiability are everyone's (`solve/condensed.py`), and so are its numbers: the solution is that of `shots.py`, whose equations inside a window hold as exactly.
Sensitivities are those of the equations of a step by the implicit function theorem, forwards; what a stepper has to say is one method, `arc`.

Chunks of windows would be no quicker, because all of a window is done in numpy at once already.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate.observe import Data
from calibody.estimate.observed import Observed
from calibody.estimate.unknowns import Entry
from calibody.estimate.windows.cut import Cut
from calibody.solve.condensed import Linearisation, Runs
from calibody.solve.windows import matching


@dataclass(frozen=True, eq=False)
class Starts:
    """The unknowns of one run: what the stepper begins every window with."""

    s: tuple[Any, ...]


def nothing() -> np.ndarray:
    return np.zeros((0, 0))


@dataclass(frozen=True, eq=False)
class Arc:
    """One window, simulated: the weighted residuals of its samples, channel by channel, and the state that the next one begins with; perhaps with derivatives by its start and by the parameters of its run."""

    F: list[np.ndarray]
    end: Any
    F_by_start: list[np.ndarray] = field(default_factory=list)
    F_by_theta: list[np.ndarray] = field(default_factory=list)
    end_by_start: np.ndarray = field(default_factory=nothing)
    end_by_theta: np.ndarray = field(default_factory=nothing)
    C: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """What has to be zero at the first start, with derivatives; of the first window only."""
    C_by_start: np.ndarray = field(default_factory=nothing)
    C_by_theta: np.ndarray = field(default_factory=nothing)


@dataclass(frozen=True, eq=False)
class CondensedWindows(Observed[Cut, Starts]):
    dynamic: ClassVar[bool] = True
    slope: np.ndarray | float = 0.0

    @property
    def small(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return False

    # -- what a stepper says -------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def n(self) -> int:
        """Numbers of a start."""

    @abstractmethod
    def arc(self, r: int, w: int, start: Any, theta: np.ndarray, slopes: bool) -> Arc | None:
        """A window of a run; None where it cannot be simulated to its end."""

    @abstractmethod
    def away(self, start: Any, end: Any) -> np.ndarray:
        """`start [-] end`"""

    @abstractmethod
    def moved(self, start: Any, d: np.ndarray) -> Any:
        """A start displaced by a tangent."""

    @property
    @abstractmethod
    def places(self) -> np.ndarray:
        """(n,) 1 for the numbers of a start that say where the mechanism is, 0 for those that follow them."""

    def only(self, r: int) -> tuple[Entry, ...]:
        """The unknowns of a run by itself."""
        return tuple(e if e.run is None else replace(e, run=0) for e in self.entries_of[r])

    # -- the problem ---------------------------------------------------------------------------------------------------------------

    def _arcs(self, r: int, x: Starts, theta: np.ndarray, slopes: bool) -> Iterator[Arc | None]:
        return (self.arc(r, w, start, theta, slopes) for w, start in enumerate(x.s))

    def values(self, x: Sequence[Starts], theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        F, C = [self.prior(theta)], []
        for r, starts in enumerate(x):
            arcs: list[Arc] = []
            for arc in self._arcs(r, starts, theta, False):
                if arc is None or not all(np.isfinite(f).all() for f in arc.F):
                    return np.full(1, np.inf), np.full(1, np.inf)
                arcs.append(arc)
            F += [np.concatenate([arc.F[c] for arc in arcs if c < len(arc.F)]) for c in range(len(self.runs[r].data))]
            C += [*(self.away(s, arc.end) for s, arc in zip(starts.s[1:], arcs[:-1], strict=True)), arcs[0].C]
        return np.concatenate(F), np.concatenate(C)

    def linearise(self, x: Sequence[Starts], theta: np.ndarray, hold_scale: bool = True) -> Runs:
        parts = tuple(self._linearised(r, x[r], theta) for r in range(len(self.runs)))
        return Runs(self.prior(theta), self.prior_slope(), parts, self.columns, len(theta))

    def _linearised(self, r: int, x: Starts, theta: np.ndarray) -> Linearisation:
        run, n, p = self.runs[r], self.n, len(self.columns[r])
        F = [np.zeros(len(d.y)) for d in run.data]
        by_start, by_theta = [np.zeros((len(f), n)) for f in F], [np.zeros((len(f), p)) for f in F]
        ends, ends_by_start, ends_by_theta = [], np.zeros((run.windows, n, n)), np.zeros((run.windows, n, p))
        first: Arc | None = None
        for w, arc in enumerate(self._arcs(r, x, theta, True)):
            if arc is None:
                raise CalibodyError("a window cannot be simulated to its end")
            first = first or arc
            for c, rows in enumerate(run.slices[w]):
                if rows.stop > rows.start:
                    F[c][rows], by_start[c][rows], by_theta[c][rows] = arc.F[c], arc.F_by_start[c], arc.F_by_theta[c]
            ends.append(arc.end)
            ends_by_start[w], ends_by_theta[w] = arc.end_by_start, arc.end_by_theta
        assert first is not None
        C, Cx, Ct, when = matching(
            [self.away(s, e) for s, e in zip(x.s[1:], ends[:-1], strict=True)], ends_by_start, ends_by_theta, first.C, first.C_by_start, first.C_by_theta
        )
        windows = [np.concatenate([np.full(rows[c].stop - rows[c].start, w) for w, rows in enumerate(run.slices)]) for c in range(len(F))]
        Fx = sp.vstack([_in_windows(block, window, run.windows) for block, window in zip(by_start, windows, strict=True)], format="csr")
        states = np.repeat(np.arange(run.windows, dtype=float), n)
        return Linearisation(np.concatenate(F), Fx, np.concatenate(by_theta), C, Cx, Ct, np.concatenate([states, when]))

    def move(self, x: Sequence[Starts], d: np.ndarray) -> list[Starts]:
        out, first, n = [], 0, self.n
        for starts, run in zip(x, self.runs, strict=True):
            part = d[first : first + run.windows * n].reshape(run.windows, n)
            first += run.windows * n
            out.append(Starts(tuple(self.moved(s, step) for s, step in zip(starts.s, part, strict=True))))
        return out

    @property
    def tethered(self) -> np.ndarray:
        return np.concatenate([np.tile(self.places, run.windows) for run in self.runs])

    def fitted(self, r: int, states: Starts, theta: np.ndarray) -> list[tuple[Data, np.ndarray]]:
        run = self.runs[r]
        arcs = list(self._arcs(r, states, theta, False))
        F = [np.concatenate([arc.F[c] for arc in arcs if arc is not None and c < len(arc.F)]) for c in range(len(run.data))]
        return [(d, d.y + f / run.weight(d)) for d, f in zip(run.data, F, strict=True)]

    def multipliers(self, motion: Starts) -> np.ndarray:
        return np.zeros((self.runs[0].structure.nc, 0))


def _in_windows(block: np.ndarray, window: np.ndarray, windows: int) -> sp.csr_matrix:
    """(samples, windows n): derivatives by the start of the window that each sample is in."""
    samples, n = block.shape
    columns = (window.astype(np.int32)[:, None] * n + np.arange(n, dtype=np.int32)).ravel()
    return sp.csr_matrix((block.ravel(), columns, np.arange(samples + 1) * n), shape=(samples, windows * n))
