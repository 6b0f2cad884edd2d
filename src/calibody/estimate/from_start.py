"""A first motion by simulation, where the start is known and the observations alone do not say where a mechanism is.

Inverse kinematics (`start.py`) need as many observed channels as there are freedoms: a platform on six legs of which one point is measured may turn as it likes, and a first motion that turns wrongly leads a
fit to another minimum, or nowhere. With an exactly known start of all freedoms the motion at the initial values of the parameters is such a first motion: the way [kraus2006] begins always.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.layout import States
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run


def led(problem: Problem, x: Sequence[States], theta: np.ndarray) -> list[States]:
    """The first motions x, simulated ones in place of those that data do not tell."""
    return [(simulated(problem, r, states, theta) if leads(run) else None) or states for r, (run, states) in enumerate(zip(problem.runs, x, strict=True))]


def leads(run: Run) -> bool:
    """Whether the known start says what data do not."""
    return is_untold(run) and _known(run)


def freedoms(run: Run) -> int:
    return run.structure.nv - run.kept


def is_untold(run: Run) -> bool:
    """Whether fewer channels say where the mechanism is than it has freedoms."""
    seen = [d for d in run.data if observe.is_kinematic(d.channel) and not (observe.is_rate(d.channel) or observe.is_initial(d.channel))]
    return len(seen) < freedoms(run) and not run.recording.unknown


def _known(run: Run) -> bool:
    exact = [path.endswith(".rate") for path, known in run.recording.initial.items() if known.sd is None]
    return min(exact.count(True), exact.count(False)) >= freedoms(run)


def simulated(problem: Problem, r: int, states: States, theta: np.ndarray) -> States | None:
    """The motion at theta from the known start, in place of that in `states`; None if there is none to the end."""
    from calibody.estimate.predict import signals  # simulating needs jax, for which other fits do not wait
    from calibody.steppers.rollout import simulate

    run = problem.runs[r]
    initial = {path: known.value for path, known in run.recording.initial.items() if known.sd is None}
    try:
        motion = simulate(
            problem.model_of(r, theta)[0], (run.K - 1) * run.h, run.h, initial, signals(run.recording, run.recording.start), problem.stepper(), run.structure.coordinates,
            contacts=False,
        )  # fmt: skip
    except CalibodyError:
        return None
    q, forces = motion.q[:, : run.K], motion.multipliers[:, : run.K]
    return states.changed(nodes=q, multipliers=np.where(run.mask, forces, 0.0) if run.active.any() else states.multipliers)
