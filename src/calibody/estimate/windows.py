"""Multiple shooting on the variational step, for one run: the motion follows from the starts of windows and from theta, and windows have defects where they meet.

All nodes are one chain. A window begins with a pair of nodes of its own, s; the equations of the two nodes before each pair are let go, all others hold, `C(r, s, theta) = 0`, and determine the other nodes r. What is let go is the
defect: with B the derivative of these equations by the pair, `B^-1 C_gone` is how far, to first order, the pair lies from where the window before it ends, as a displacement of both nodes, and so of place and rate.

The nodes r are carried along: every linearisation corrects them to first order, `r += -C_r^-1 C`, and lets them follow the changes of s and theta. So a step of a particle costs one linearisation and one factorisation (a Newton step for
each step of the descent), whatever the number of windows. With one window this is single shooting. For a function `f(F, defects)` of residuals and defects the gradient is, with `C_r' y = f_r`,

    df/ds = f_s - C_s' y,        df/dtheta = f_theta - C_theta' y
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from calibody.errors import CalibodyError
from calibody.estimate.layout import BALANCE, NODES, States
from calibody.estimate.problem import Problem
from calibody.mechanics.kinematics import difference

STEEPEST = 1e3
"""Weight of a defect, at most: far off, Adam's steps have the same size whatever it is."""
FARTHEST = 0.3
"""rad, m: what a correction may move a node by; a motion that tumbles is followed in steps."""


@dataclass(frozen=True, eq=False)
class Linear:
    """One particle's motion, linearised."""

    log_p: float
    defects: np.ndarray
    """(windows - 1, 2 velocities): of place and rate, in units of their spread."""
    by_starts: np.ndarray
    """(windows, 2 velocities): d log p of the starts' places and rates, in units of their spread."""
    by_theta: np.ndarray
    away: np.ndarray
    """(windows, 2 velocities): half the gradient of `multiplier g + g^2/2`, summed over all junctions ..."""
    away_theta: np.ndarray
    """... and the same of theta. B is taken as it is: how it changes with the motion is left out."""
    correction: np.ndarray
    """Of all nodes but the starts."""
    solve: object
    by: tuple[sp.csr_matrix, np.ndarray]
    """d C of the starts, and of theta."""


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of a problem of one run; a problem that is a tree without unmodelled forces."""

    problem: Problem
    x: States
    theta: np.ndarray
    count: int

    def __post_init__(self) -> None:
        run = self.problem.runs[0]
        if run.structure.nc or len(run.layout.blocks) > 2 or run.starts:
            raise CalibodyError(
                'sampler = "svgd" and "csvgd" roll out windows of a tree of joints whose drives are known; with closed loops, noisy drives, unmodelled forces or a start that is known exactly, use another sampler.'
            )

    @cached_property
    def first(self) -> np.ndarray:
        """The first node of every window."""
        return np.round(np.linspace(0, self.problem.runs[0].K - 1, self.count + 1)[:-1]).astype(int)

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Unknowns of the starts (window by window, both nodes), all others; equations that are let go (the same order), all others."""
        run = self.problem.runs[0]
        nv, layout = run.structure.nv, run.layout
        nodes = layout.place[NODES].start + np.arange(run.K * nv).reshape(run.K, nv)
        rows = layout.row_place[BALANCE].start + np.arange(run.inner * nv).reshape(run.inner, nv)
        starts = np.stack([nodes[self.first], nodes[self.first + 1]], axis=1).reshape(-1)
        gone = np.stack([rows[self.first[1:] - 2], rows[self.first[1:] - 1]], axis=1).reshape(-1)
        return starts, np.setdiff1d(np.arange(layout.size), starts), gone, np.setdiff1d(np.arange(layout.rows), gone)

    @cached_property
    def spread(self) -> np.ndarray:
        """(2 velocities,): of places and rates along the fitted motion."""
        run = self.problem.runs[0]
        steps = difference(run.structure, self.x.q[:, 1:], self.x.q[:, :-1])
        away = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
        return np.maximum(np.concatenate([away.std(axis=1), (steps / run.h).std(axis=1)]), 1e-6)

    @cached_property
    def pair(self) -> np.ndarray:
        """(2 velocities, 2 velocities): from changes of place and rate, in units of their spread, to those of both nodes."""
        nv, h = self.problem.runs[0].structure.nv, self.problem.runs[0].h
        both = np.block([[np.eye(nv), np.zeros((nv, nv))], [np.eye(nv), h * np.eye(nv)]])
        return both * self.spread[None, :]

    def linear(self, x: States, theta: np.ndarray, multipliers: np.ndarray, sd: float) -> Linear:
        """`multipliers` (windows - 1) of the constraints g = |defect|^2, in units of `sd` of the spread."""
        part = self.problem.linearised(0, x, theta).part
        starts, rest, gone, kept = self.places
        Cx, Fx = sp.csr_matrix(part.Cx), sp.csr_matrix(part.Fx)
        A = sp.csc_matrix(Cx[kept][:, rest])
        factor = sla.splu(A, permc_spec="NATURAL", options={"SymmetricMode": False})
        correction = np.clip(-factor.solve(part.C[kept]), -FARTHEST, FARTHEST)
        F = part.F + Fx[:, rest] @ correction
        defects, into = self._defects(Cx, part.C[gone] + Cx[gone][:, rest] @ correction, sd)
        weights = np.minimum(multipliers + (defects**2).sum(axis=1), STEEPEST)
        pulled = into.T @ (weights[:, None] * defects).ravel() if len(gone) else np.zeros(0)
        out = []
        for by_x, by_theta in ((Fx.T @ F, part.Ft.T @ F), (Cx[gone].T @ pulled, part.Ct[gone].T @ pulled)):
            y = factor.solve(by_x[rest], trans="T")
            out.append(((by_x[starts] - Cx[kept][:, starts].T @ y).reshape(self.count, -1) @ self.pair, by_theta - part.Ct[kept].T @ y))
        (by_starts, by_theta), (away, away_theta) = out
        prior, slope = self.problem.prior(theta), self.problem.prior_slope()
        log_p = -0.5 * float(F @ F) - 0.5 * float(prior @ prior)
        by = sp.csr_matrix(Cx[kept][:, starts]), part.Ct[kept]
        return Linear(log_p, defects, -by_starts, -by_theta - slope.T @ prior, away, away_theta, correction, factor.solve, by)

    def _defects(self, Cx: sp.csr_matrix, missing: np.ndarray, sd: float) -> tuple[np.ndarray, np.ndarray]:
        """(windows - 1, 2 velocities) in units of `sd` of the spread, and the matrix that makes them of the equations that were let go."""
        size, m = len(self.spread), self.count - 1
        starts, _, gone, _ = self.places
        into = np.zeros((m * size, m * size))
        for k in range(m):
            own = slice(k * size, (k + 1) * size)
            B = Cx[gone[own]][:, starts[(k + 1) * size : (k + 2) * size]].toarray()
            into[own, own] = np.linalg.inv(B @ self.pair) / sd
        return (into @ missing).reshape(m, size), into

    def moved(self, x: States, found: Linear, starts: np.ndarray, change: np.ndarray) -> States:
        """The motion after changes of the starts (windows, 2 velocities; in units of their spread) and of theta, the other nodes following."""
        nodes = (starts @ self.pair.T).ravel()
        at, rest, _, _ = self.places
        d = np.zeros(self.problem.runs[0].layout.size)
        d[at] = nodes
        follow = found.correction - found.solve(found.by[0] @ nodes + found.by[1] @ change)  # type: ignore[operator]
        d[rest] = np.clip(follow, -FARTHEST, FARTHEST)
        return self.problem.runs[0].move(x, d)


def windows_of(problem: Problem, x: tuple[States, ...], theta: np.ndarray, count: int) -> list[Windows]:
    """Of every run."""
    out = []
    for single, states, columns in zip(problem.singles, x, problem.columns, strict=True):
        run = single.runs[0]
        if run.K < 4 * count + 2:
            raise CalibodyError(f'{count} windows are too many for the run "{run.recording.name}", which has {run.K} nodes; give at most {(run.K - 2) // 4}.')
        free = replace(single, entries=tuple(replace(e, prior=None) for e in single.entries)) if len(problem.runs) > 1 else single
        out.append(Windows(free, states, theta[columns], count))
    return out
