"""The motion of a run on the variational stepper from the first two nodes of its windows on."""

from __future__ import annotations

import numpy as np

from calibody.estimate.layout import States
from calibody.estimate.problem import Problem
from calibody.solve.windows import spans
from calibody.steppers.resume import Resuming


def rolled(problem: Problem, r: int, states: States, theta: np.ndarray, bounds: np.ndarray) -> States | None:
    """The motion of a run from the two nodes at the start of every window."""
    run = problem.runs[r]
    model, numbers, _ = problem.model_of(r, theta)
    control, applied = run.drives(model, states)
    q, forces = states.q.copy(), states.multipliers.copy()
    resume = Resuming(run.structure, numbers, run.active, run.h, run.delta)
    near = problem.frames(r, states, model, numbers).s[: len(run.structure.scalar_coordinates)]
    for first, end in spans(bounds):
        inside, last = slice(first, end - 1), end - 2
        found = resume(q[:, first : first + 2], near[:, first], control[:, inside], applied[:, inside])
        if found is None or not np.isfinite(found.q).all():
            return None
        q[:, first + 2 : end], forces[:, first + 1 : last + 1] = found.q, found.multipliers
    return states.changed(nodes=q, multipliers=np.where(run.active[:, None], forces, 0.0) if len(run.active) else forces)
