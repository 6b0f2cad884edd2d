"""The motion of a run on the variational stepper from the first two nodes of its windows on."""

from __future__ import annotations

import numpy as np

from calibody.estimate.layout import States
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.mechanics import host
from calibody.solve.windows import spans
from calibody.steppers.resume import Resuming


def rolled(problem: Problem, r: int, states: States, theta: np.ndarray, bounds: np.ndarray) -> States | None:
    """The motion of a run from the two nodes at the start of every window."""
    run = problem.runs[r]
    model, numbers, _ = problem.model_of(r, theta)
    control, applied = run.drives(model, states)
    q, forces = states.q.copy(), states.multipliers.copy()
    near = problem.frames(r, states, model, numbers).s[: len(run.structure.scalar_coordinates)]
    for first, end in pieces(run, bounds):
        inside, last = slice(first, end - 1), end - 2
        stepped = run.mask[:, min(first + 2, end - 1)]
        found = Resuming(run.structure, numbers, stepped, run.h, run.delta)(q[:, first : first + 2], near[:, first], control[:, inside], applied[:, inside])
        if found is None or not np.isfinite(found.q).all():
            return None
        q[:, first + 2 : end], forces[:, first + 1 : last + 1] = found.q, found.multipliers
        if (stepped != run.mask[:, first + 1]).any() and last > first:
            forces[:, first + 1] = _by_rows(host.configuration(run.structure, numbers, q[:, first + 1]).C, forces[:, first + 1], run.rows[:, first + 1])
    return states.changed(nodes=q, multipliers=np.where(run.mask, forces, 0.0) if len(run.active) else forces)


def _by_rows(C: np.ndarray, forces: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The same force by other rows of the loops."""
    out = np.zeros_like(forces)
    out[rows] = np.linalg.lstsq(C[rows].T, C.T @ forces, rcond=None)[0]
    return out


def pieces(run: Run, bounds: np.ndarray) -> list[tuple[int, int]]:
    """Windows, and within them the pieces in which the same rows of loops are kept at the nodes that are stepped to: first node and the one after the last; a piece goes on from the last two of the one before."""
    out = []
    for first, end in spans(bounds):
        ends = [first + 3 + int(k) for k in np.flatnonzero((run.rows[:, first + 3 : end] != run.rows[:, first + 2 : end - 1]).any(axis=0))] + [end]
        out += zip([first, *(b - 2 for b in ends[:-1])], ends, strict=True)
    return out
