"""Rows of loops that are chosen anew along a motion, in fits.

Which equations of a loop follow from others depends on the pose: of a planar linkage on a turntable, others after a quarter turn. As long as one choice is clear along the whole motion (`host.independent_along`), that
one is kept, because it says the same as any other. Where none is, the motion has one choice after the other: as many equations at every node, each a row of its own there, with the rows that two choices share in the
same places. The clearness of a choice at a node is the smallest singular value of its rows; another is taken where it is `host.CLEARER` times clearer, so that the choice does not go back and forth.
"""

from __future__ import annotations

import numpy as np

from calibody.estimate.layout import States
from calibody.estimate.run import Run
from calibody.mechanics import host
from calibody.mechanics.equations import evaluate
from calibody.mechanics.structure import Numbers
from calibody.model import Model

POOR = 0.1
"""Clearness of the kept rows at a node over that of the clearest ones there, below which one choice does not do."""
LARGE = 30_000_000
"""Numbers of the gradients of all nodes (240 MB) up to which they are looked at."""
LOOKS = 2000
"""Nodes at which the clearest choice is looked for, at most."""

Choices = tuple[tuple[float, tuple[int, ...]], ...]


def rechosen(run: Run, model: Model, numbers: Numbers, states: States) -> Choices:
    """The choices along a first motion, by time; none where the one that the run has does."""
    s = run.structure
    loops = np.array([owner.startswith("loop.") for owner in s.row_owners])
    if run.active.all() or run.soft.any() or s.rolling.any() or s.nc * s.nv * run.K > LARGE:
        return ()
    result = evaluate(s, numbers, run.point(model, numbers, states))
    G = np.stack([result.dense_gradient(k) for k in range(run.K)])
    looks = np.unique(np.linspace(0, run.K - 1, min(LOOKS, run.K)).round().astype(int))
    best = [_clearest(G[k], loops, int(run.active.sum())) for k in looks]
    clear = np.array([_clear(G[k][rows]) for k, rows in zip(looks, best, strict=True)])
    if (_clear(G[looks][:, run.active]) > POOR * clear).all():
        return ()
    places = np.flatnonzero(best[0])
    out = [(float(run.times[0]), tuple(places.tolist()))]
    for k, rows, clearness in zip(looks, best, clear, strict=True):
        if clearness > host.CLEARER * _clear(G[k][places]):
            new = np.setdiff1d(np.flatnonzero(rows), places)
            places = places.copy()
            places[~np.isin(places, np.flatnonzero(rows))] = new
            out.append((float(run.times[k]), tuple(places.tolist())))
    return tuple(out) if len(out) > 1 else ()


def _clear(G: np.ndarray) -> np.ndarray:
    """The smallest singular value of rows (..., rows, columns)."""
    return np.linalg.svd(G, compute_uv=False)[..., -1]


def _clearest(G: np.ndarray, loops: np.ndarray, count: int) -> np.ndarray:
    """(nc,) so many rows, of joints all and of loops the first of a decomposition with pivoting: the motion need not close the loops yet, so that all may be independent."""
    import scipy.linalg  # here, because importing it takes as long as everything else of a small evaluation

    rows, joints, keep = G[loops], G[~loops], ~loops
    if len(joints):
        Q, _ = np.linalg.qr(joints.T)
        rows = rows - (rows @ Q) @ Q.T
    pivot = scipy.linalg.qr(rows.T, mode="r", pivoting=True)[-1]
    keep[np.flatnonzero(loops)[pivot[: count - len(joints)]]] = True
    return keep
