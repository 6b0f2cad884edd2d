"""The first motion of all runs, from the observations alone (`start.py`), and what it tells of the problem: which constraints are independent, how large forces are, and how much force it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibody.estimate.from_start import leads, simulated
from calibody.estimate.known_start import implied
from calibody.estimate.layout import States
from calibody.estimate.problem import Problem, independent, multipliers_of
from calibody.estimate.rechosen import rechosen
from calibody.estimate.run import Run
from calibody.estimate.start import first_motion, resting
from calibody.mechanics import host
from calibody.solve.threads import one_thread, spread

LOOSE = 0.3
"""First guess of the process noise, in units of the forces that the first motion lacks."""


@one_thread
def begun(problem: Problem, theta: np.ndarray, robust: bool, forced: bool, led: bool = False) -> tuple[Problem, list[States]]:
    """The first motion, and the problem with the constraints, typical forces and weights that it tells; `forced`: with process noise of a size to be found as well; `led`: by simulation where a known start
    says what data do not."""
    both = spread(lambda r: (_led(problem, r, theta) if led and not robust else None) or _begun(problem, r, theta, robust), len(problem.runs))
    problem, x = replace(problem, runs=tuple(run for run, _ in both)), [states for _, states in both]
    return (_loosened(problem, x, theta) if forced else problem), x


def _begun(problem: Problem, r: int, theta: np.ndarray, robust: bool) -> tuple[Run, States]:
    run = problem.runs[r]
    model, numbers, sensors = problem.model_of(r, theta)
    if run.structure.nc:
        run = replace(run, implied=implied(run.structure.model, run.recording, problem.entries))
        run = replace(run, active=independent(run.structure, numbers, resting(run.structure, model)))
    begun = run
    run, states = first_motion(begun, model, numbers, sensors, robust)
    if run.structure.nc:
        active = host.independent_along(run.structure, numbers, states.q, resting(run.structure, model))
        if not np.array_equal(active, run.active):  # drawn in a pose in which more equations depend on each other than along the motion
            run, states = first_motion(replace(begun, active=active), model, numbers, sensors, robust)
        if not model.collides and (choices := rechosen(run, model, numbers, states)):
            somewhere = np.isin(np.arange(run.structure.nc), np.concatenate([rows for _, rows in choices]))
            run, states = first_motion(replace(begun, active=somewhere, choices=choices), model, numbers, sensors, robust)
    states = multipliers_of(run, model, numbers, states)
    if len(run.ringing):
        size = np.sqrt((states.multipliers**2).mean(axis=1))
        run = replace(run, typical=np.maximum(size, max(float(size.max()), 1e-9) * 1e-3))
    return run, states


def _led(problem: Problem, r: int, theta: np.ndarray) -> tuple[Run, States] | None:
    """Without inverse kinematics, whose motion would not be used; None where it would. (Which rows of loops are independent is seen along that motion.)"""
    run = problem.runs[r]
    if run.structure.model.loops or len(run.ringing):
        return None
    model, numbers, _ = problem.model_of(r, theta)
    if run.structure.nc:
        run = replace(run, implied=implied(run.structure.model, run.recording, problem.entries))
        run = replace(run, active=independent(run.structure, numbers, resting(run.structure, model)))
    if not leads(run):
        return None
    single = replace(problem, runs=tuple(run if k == r else other for k, other in enumerate(problem.runs)))
    states = simulated(single, r, run.still(resting(run.structure, model, run.recording.initial)), theta)
    return None if states is None else (run, states)


def _loosened(problem: Problem, x: Sequence[States], theta: np.ndarray) -> Problem:
    """With a first guess of the process noise: part of what the first motion lacks in force, the largest of all runs."""
    density = {joint: max(given, 1e-30) for joint, given in problem.runs[0].noise.density.items()}
    for r, (run, states) in enumerate(zip(problem.runs, x, strict=True)):
        missing = problem.lacking(r, states, theta)
        for k, (joint, _) in enumerate(run.disturbed):
            if joint in density:
                density[joint] = max(density[joint], LOOSE**2 * float(np.mean(missing[k] ** 2)) * run.h)
    return problem.with_noise([replace(run.noise, density=density) for run in problem.runs])
