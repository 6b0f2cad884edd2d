"""Error bars of estimates that something missing has moved.

A suspect (`suspects.py`) comes with how far the estimates would move if it were an unknown, b. As long as it is none, they are off by about that, however often the recording is repeated: no scatter of residuals or runs shows it, and a bar
of scatter alone is wrong by as much as b is larger. Their errors about the truth have then

    E[(theta - theta*)(theta - theta*)'] = C + b b'

Of several suspects, some stand for the same thing under another name (a tilt and an offset) and some for different ones, and which of them is true is not known. Every estimate is therefore allowed the largest of its moves, m_i = max_s |b_si|, with the correlations that all of
them have together:

    C + S B'B S,     S = diag(m_i/sqrt((B'B)_ii))

A fit with unmodelled forces that a fit without them contradicts lacks something that has no name. What the two differ by beyond chance (`compared.py`) is one more row of moves.

Estimates stay where they are: that some number is missing is certain, which one is not. Those that nothing named would move keep their error bars, and where nothing is named nothing changes. Bands of predictions and draws stay those of the scatter, and a posterior says so: whether the model predicts is a question of its own, and bands as wide as its
faults would answer it with yes. A design (`forecast.py`) begins with the error bars as they are, because what they allow for is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.estimate.identifiability import Determined
from calibody.estimate.reported import Reported, reported
from calibody.estimate.uncertainty import Uncertainty
from calibody.estimate.unknowns import Entry

if TYPE_CHECKING:
    from calibody.estimate.result import Estimate

TOLD = 1.1
"""Error bar over its scatter from which that is said."""


def misled(found: Uncertainty, entries: Sequence[Entry], theta: np.ndarray, moved: np.ndarray) -> Uncertainty:
    """With error bars that allow for moves (suspects, parameters) of what is solved for."""
    moved = moved[np.isfinite(moved).all(axis=1)]
    if not moved.any():
        return found
    own, J = allowed(moved), found.reported.by_theta
    missing = J @ own @ J.T
    covariance = found.covariance + missing
    base = reported(entries, theta, linear=True)
    determined = tuple(replace(d, sd=float(np.hypot(d.sd, _moves(d, base, own)))) for d in found.analysis.determined)
    return replace(
        found,
        covariance=covariance,
        missing=missing,
        missing_theta=own,
        sd=np.hypot(found.sd, np.sqrt(np.diag(missing))),
        analysis=replace(found.analysis, determined=determined),
    )


def allowed(moved: np.ndarray) -> np.ndarray:
    """`S B'B S` of moves B (suspects, parameters)."""
    both, largest = moved.T @ moved, np.abs(moved).max(axis=0)
    size = largest / np.sqrt(np.maximum(np.diag(both), 1e-300))
    return both * size[:, None] * size[None, :]


def _moves(d: Determined, base: Reported, own: np.ndarray) -> float:
    """Standard deviation that this adds to a sum or ratio of numbers."""
    rows, values = dict(zip(base.names, base.by_theta, strict=True)), dict(zip(base.names, base.values, strict=True))
    terms = d.terms
    if not terms:  # a ratio a/b: its change is a/b (da/a - db/b)
        above, below = d.expression.split(" / ")
        terms = ((above, 1.0 / values[below]), (below, -d.value / values[below]))
    gradient = np.sum([c * rows[name] for name, c in terms], axis=0)
    return float(np.sqrt(max(gradient @ own @ gradient, 0.0)))


def sentences(found: Uncertainty) -> list[str]:
    """That error bars are larger for it, where one is by a tenth and more."""
    if found.missing is None:
        return []
    scatter = np.sqrt(np.maximum(np.diag(found.scatter), 0.0))
    larger = np.where(np.isfinite(found.sd) & (scatter > 0.0), found.sd / np.maximum(scatter, 1e-300), 1.0)
    k = int(np.argmax(larger))
    if larger[k] < TOLD:
        return []
    return [
        f"The error bars allow for what the model seems to lack: that of {found.reported.names[k]} is {found.sd[k]:.2g}, with {scatter[k]:.2g} of scatter in it. They shrink when the model is mended, not with more recordings."
    ]


def widest(parameters: Mapping[str, Estimate]) -> list[tuple[str, float]]:
    """The parameter whose error bar allows for most, and how many times as wide as its scatter it is; empty where that is not worth saying."""
    times = {name: e.sd / e.scatter for name, e in parameters.items() if e.sd and e.scatter}
    name = max(times, key=lambda n: times[n], default="")
    return [(name, times[name])] if name and times[name] >= TOLD else []
