"""Functions of time that excitations are sums of: Fourier series and splines that begin and end at rest.

With the basis B (instants, functions) a drive, or the way of a joint about its middle, is `B(t) z`. What is played has to begin and end softly: a drive at zero, a joint without rate and acceleration
besides. Both are linear conditions on z, and the functions of a basis span what satisfies them (the null space of the conditions for a Fourier series, whose period is the duration; for clamped splines the
functions that touch an end are left out). Every function has the root mean square one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

FINE = 2000
"""Instants at which the mean square of a function is taken."""


@dataclass(frozen=True)
class Waves(ABC):
    """A basis over [0, duration] of which value and `calm` - 1 derivatives vanish at both ends."""

    duration: float
    count: int
    """Of frequencies, or of pieces."""
    highest: float
    """Hz: the fastest frequency."""
    calm: int = 1

    @abstractmethod
    def raw(self, t: np.ndarray) -> np.ndarray:
        """(instants, functions) not yet scaled; t within [0, duration]."""

    @cached_property
    def _size(self) -> np.ndarray:
        return np.sqrt(np.mean(self.raw(np.linspace(0.0, self.duration, FINE)) ** 2, axis=0))

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self._size)

    def at(self, t: np.ndarray) -> np.ndarray:
        """(instants, functions); before and after they are as at the ends, zero."""
        return self.raw(np.clip(t, 0.0, self.duration)) / self._size


@dataclass(frozen=True)
class Fourier(Waves):
    """Harmonics of 1/duration, spread evenly in their logarithm up to the highest frequency."""

    @cached_property
    def harmonics(self) -> np.ndarray:
        most = max(self.highest * self.duration, 1.0)
        return np.unique(np.round(np.geomspace(1.0, most, self.count)))

    @cached_property
    def _mixing(self) -> np.ndarray:
        """(cosines and sines, functions): the null space of the values of a series and its derivatives at zero."""
        k, none = self.harmonics, 0.0 * self.harmonics
        rows = [np.concatenate([k**d, none] if d % 2 == 0 else [none, k**d]) / float(k.max()) ** d for d in range(self.calm)]
        _, size, V = np.linalg.svd(np.array(rows))
        return V[int((size > 1e-12).sum()) :].T

    def raw(self, t: np.ndarray) -> np.ndarray:
        angle = 2.0 * np.pi / self.duration * np.outer(t, self.harmonics)
        return np.hstack([np.cos(angle), np.sin(angle)]) @ self._mixing


@dataclass(frozen=True)
class Splines(Waves):
    """Splines of degree 2 calm + 1 (cubic drives, joints of degree seven, with steady accelerations) on equal pieces, four of which last a period of the highest frequency at least."""

    @cached_property
    def _knots(self) -> np.ndarray:
        pieces = max(min(2 * self.count, round(4.0 * self.highest * self.duration)), 2 * self.calm + 2)
        degree = 2 * self.calm + 1
        return np.concatenate([np.zeros(degree), np.linspace(0.0, self.duration, pieces + 1), np.full(degree, self.duration)])

    def raw(self, t: np.ndarray) -> np.ndarray:
        from scipy.interpolate import BSpline

        degree = 2 * self.calm + 1
        return BSpline.design_matrix(t, self._knots, degree).toarray()[:, self.calm : -self.calm]


BASES: dict[str, type[Waves]] = {"fourier": Fourier, "splines": Splines}
