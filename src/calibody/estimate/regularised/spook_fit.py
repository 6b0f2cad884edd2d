"""Shooting on the regularised stepper: a first motion from the observations, windows, Gauss-Newton, error bars (`spook_shots.py`).

What comes out are the numbers that are right in that engine, with its step, compliance and damping times: by `method = "shadow"` states and equations of the engine are weighed against one another, here the
equations hold.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError, told
from calibody.estimate import foresee as forecast
from calibody.estimate.foresee import FEWEST, TRIED, shortened
from calibody.estimate.mesh import refuse_step
from calibody.estimate.nodes import driven_by
from calibody.estimate.noise import given as noise
from calibody.estimate.noise.own_noise import found_noise, with_noise
from calibody.estimate.outcome import outcome
from calibody.estimate.regularised.shadow_fit import free_coordinates, tree_motion
from calibody.estimate.regularised.shadow_problem import Steps
from calibody.estimate.regularised.spook_shots import SpookCut, SpookShots, independent
from calibody.estimate.reported import initial_theta, theta_of
from calibody.estimate.result import Mesh
from calibody.estimate.telling import ALONE, NO_START, SHOT, Teller
from calibody.estimate.uncertainty import assess
from calibody.estimate.unknowns import Entry, entries, refuse_what_does_not_act
from calibody.estimate.windows.condensed_windows import Starts
from calibody.mechanics.assembly import frames_at
from calibody.mechanics.structure import FREE, Numbers, Structure
from calibody.solve.gauss_newton import Iteration, Settings, Solution, minimise

if TYPE_CHECKING:
    from calibody.estimate.estimator import Report, Unknowns
    from calibody.estimate.identifiability import Identifiability
    from calibody.estimate.result import Result
    from calibody.estimate.shooting import Shooting
    from calibody.model import Model
    from calibody.recording.recording import Recording

TOLERANCE, FEASIBILITY = 1e-2, 1e-6
"""Standard deviations by which the last step moves the parameters, as of transcription; rad, m, and these per second, by which windows may miss each other."""


@told()
def shoot(
    model: Model, recordings: Sequence[Recording], unknowns: Unknowns, asked: Shooting, report: Report | None = None, start: Mapping[str, float] | None = None
) -> Result:
    began = time.perf_counter()
    problem, given = prepared(model, recordings, unknowns, asked)
    return _fit(problem, recordings, theta_of(problem.entries, start or {}), given, asked, report, began)


@told()
def refuse(model: Model, recordings: Sequence[Recording], unknowns: Unknowns, asked: Shooting) -> None:
    """Its own way up to the first step; of long runs the first part."""
    problem, _ = prepared(model, recordings, unknowns, asked)
    try:
        cut = shortened(recordings, max(TRIED // len(recordings), FEWEST) * problem.runs[0].h)
    except CalibodyError:  # a channel that begins later
        return
    problem, _ = prepared(model, cut, unknowns, asked)
    theta = initial_theta(problem.entries)
    problem.values(begin(problem, theta)[1], theta)


def foresee(model: Model, recordings: Sequence[Recording], unknowns: Unknowns, asked: Shooting) -> Identifiability:
    return forecast.foresee(model, recordings, unknowns)


def prepared(model: Model, recordings: Sequence[Recording], unknowns: Unknowns, asked: Shooting) -> tuple[SpookShots, bool]:
    """The problem, and whether the noise of all channels was stated."""
    h = min(r.period for r in recordings) if asked.h is None else asked.h
    refuse_step(h, recordings)
    found = entries(model, unknowns, [r.name for r in recordings])
    refuse_what_does_not_act(model, found, FREE)
    structure = Structure.build(model, FREE, driven=driven_by(recordings))
    if structure.driven:
        raise CalibodyError(
            f'The drive "{structure.driven[0].path}": stepper = "spook" knows drives of actuators and joint forces only; use stepper = "variational".'
        )
    if noisy := next((d.channel for r in recordings for d in r.drives if d.sd is not None), None):
        raise CalibodyError(f'The drive "{noisy}" has an sd, which stepper = "spook" has no place for; leave it out, or use stepper = "variational".')
    noises, given, _ = noise.noises(recordings, noise.Forces())
    runs = [SpookCut.of(structure, r, h, n, asked.count(round(r.duration / h))) for r, n in zip(recordings, noises, strict=True)]
    problem = SpookShots(tuple(runs), tuple(found), engine=asked.spook)
    problem.check()
    for r in range(len(runs)):
        problem.single(r, 0)  # what the engine cannot represent is refused
    return problem, given


def _fit(problem: SpookShots, recordings: Sequence[Recording], theta: np.ndarray, given: bool, asked: Shooting, report: Report | None, began: float) -> Result:
    history: list[Iteration] = []
    tell = Teller(problem.entries, report)

    def note(iteration: Iteration) -> None:
        history.append(tell(iteration, SHOT, problem.runs[0].h))

    settings = Settings(tolerance=TOLERANCE, feasibility=FEASIBILITY, globalisation=asked.steps)
    problem, x = begin(problem, theta)
    if np.isfinite(problem.values(x, theta)[0]).all():
        solution = minimise(problem, x, theta, settings, note)
        problem, solution = with_noise(problem, solution, lambda p, s: minimise(p, s.x, s.theta, settings, note))
        if not solution.converged and asked.windows == 1:
            solution.status += ALONE
    else:
        solution = Solution(x, theta, NO_START, 0.0, [], None)
    run: Any = problem.runs[0]
    found = assess(problem, solution.x, solution.theta, run.structure.nv - int(run.active.sum()), given)  # pyright: ignore[reportArgumentType]
    return outcome(
        problem,
        solution,
        found,
        recordings=recordings,
        given=given,
        history=history,
        mesh=Mesh(run.h, 0),
        error=None,
        notes=found_noise(problem),
        seconds=time.perf_counter() - began,
        process_noise={},
        again=partial(_again, problem, asked),
    )


def _again(problem: SpookShots, asked: Shooting, recording: Recording, unknowns: Sequence[Entry], theta: np.ndarray) -> Result:
    """Another recording in the same engine."""
    noises, given, _ = noise.noises([recording], noise.Forces())
    before = problem.runs[0]
    run = SpookCut.of(before.structure, recording, before.h, noises[0], asked.count(round(recording.duration / before.h)))
    return _fit(replace(problem, runs=(run,), entries=tuple(unknowns)), [recording], theta, given, asked, None, time.perf_counter())


def begin(problem: SpookShots, theta: np.ndarray) -> tuple[SpookShots, list[Starts]]:
    """The starts of windows from a smooth motion through the observations whose joints hold, and the problem with the turns and the constraints that it tells."""
    runs, x = [], []
    for r, run in enumerate(problem.runs):
        model, numbers, sensors = problem.model_of(r, theta)
        steps = Steps(run.structure, run.recording, run.times, run.h, run.noise)
        tree, coordinates = tree_motion(steps, model, sensors)
        q, first = free_coordinates(run.structure, tree, coordinates), run.bounds[:-1]
        near = frames_at(tree, Numbers.of(tree), coordinates[:, first], None).s[: len(run.structure.scalar_coordinates)].T
        single = problem.single(r, 0)
        v = single.velocities(0, theta[problem.columns[r]], q, np.zeros(run.structure.nv))
        v[0] = v[1]
        values = problem.engine.values(single.rows, numbers, model, possible=False)
        p = single.transition.place(numbers, values, q[:, :1], v[:1])
        assert isinstance(run, SpookCut)
        runs.append(replace(run, near=near, active=independent(run.structure, numbers, p)))
        x.append(Starts(tuple((q[:, k].copy(), v[k].copy()) for k in first)))
    return replace(problem, runs=tuple(runs)), x
