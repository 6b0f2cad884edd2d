"""Whether there is a posterior at all: a direction that the data leave open needs bounds or a prior, or the posterior has no end along it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.engine.problem import EngineProblem

if TYPE_CHECKING:
    from calibody.estimate.result import Result

ENTERS = 0.05
"""Share of the largest entry of a direction from which an unknown takes part in it."""


def refuse_improper(result: Result, by_particles: bool = False) -> None:
    """A sentence where the fit has no posterior: the fit's own. Particles ask for bounds of everything (`particles.py`), and can be shot in an engine."""
    if not result.converged:
        raise CalibodyError(f"A fit that did not converge has no posterior ({result.status.rstrip('.')}).")
    if not result.problem.bars and not (by_particles and isinstance(result.problem, EngineProblem)):
        raise CalibodyError(f"A posterior needs {likelihood_of(result)}.")
    if not len(result.theta):
        raise CalibodyError("Nothing is unknown in this fit, so there is no posterior; name at least one unknown.")
    open_ = [] if by_particles else _open(result)
    if open_:
        said = " ".join(result.unresolved) or "The data leave some unknowns open."
        raise CalibodyError(
            f"{said} So the posterior has no end along {', '.join(open_)}; give a prior = [value, sd], or lower and upper, to {'one' if len(open_) == 1 else 'some'} of them, or leave them out."
        )


def likelihood_of(result: Result) -> str:
    """What has a likelihood of the parameters alone, the motion integrated out, in place of a fit that has none."""
    from calibody.estimate.poses_problem import PoseProblem
    from calibody.estimate.windows.long_shots import LongShots

    if isinstance(result.problem, PoseProblem):
        return "a motion, and these are poses at rest; take the error bars and result.correlation, or fit parts of the poses and see how far they are apart"
    if isinstance(result.problem, LongShots):
        return "a motion that is linearised as a whole, and this one is too long for it; fit a part, recording.cut(end=...)"
    engine = ', or sampler = "csvgd" for what was fitted in an engine' if isinstance(result.problem, EngineProblem) else ""
    return f'method = "transcription", or "shooting" on the variational step; fit with one of them{engine}'


def within_bounds(result: Result) -> list[str]:
    """Unknowns that the data leave open and bounds hold: what is drawn of them is the prior's."""
    resolved = result.uncertainty.analysis.resolved
    return [name for name, e, told in zip(result.parameters, result.parameters.values(), resolved, strict=True) if not told and not e.at_bound]


def _open(result: Result) -> list[str]:
    """Unknowns of a direction that neither data nor bounds limit: a linear programme over the unresolved directions W, `max +-c'a` with W a within what bounds allow without end."""
    problem, free, weak = result.problem, *_weak(result)
    if not weak.shape[1]:
        return []
    from scipy.optimize import linprog

    W = np.where(np.abs(weak) < ENTERS * np.abs(weak).max(axis=0), 0.0, weak)
    lower, upper = problem.lower[free], problem.upper[free]
    rows = np.vstack([W[np.isfinite(upper)], -W[np.isfinite(lower)]])
    names = [problem.entries[k].name for k in free]
    for k in range(len(free)):
        for sign in (1.0, -1.0):
            found = linprog(-sign * W[k], A_ub=rows if len(rows) else None, b_ub=np.zeros(len(rows)) if len(rows) else None, bounds=[(-1.0, 1.0)] * W.shape[1])
            if found.success and -found.fun > 1e-6:
                along = W @ found.x
                return [name for name, x in zip(names, along, strict=True) if abs(x) > ENTERS * np.abs(along).max()]
    return []


def _weak(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """The unknowns that are not at a bound, and the directions among them that the data leave open, of what is solved for."""
    from calibody.estimate.identifiability import analyse

    found, problem = result.uncertainty, result.problem
    information = np.asarray(found.stepped(problem, result.states, result.theta).information)  # pyright: ignore[reportArgumentType]
    names = [e.name for e in problem.entries]
    analysis = analyse(information, names, result.theta, problem.scale, found.at_bound, found.factor)
    return analysis.free, analysis.weak
