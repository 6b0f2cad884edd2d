"""A fit by shooting of recordings that are too long to be linearised as a whole (`long_shots.py`): a first motion piece by piece, windows, Gauss-Newton, error bars.

What is left out, because it would take columns for many more numbers along the whole motion: suspects that were held, and what half of the step would change. Both are had from a part of the recording.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.estimate.dry import FRICTION_STAGES, rms_rates
from calibody.estimate.first import begun
from calibody.estimate.from_start import is_untold
from calibody.estimate.meshes import TOLERANCE, Meshes
from calibody.estimate.noise import given as noise
from calibody.estimate.noise.own_noise import found_noise, with_noise
from calibody.estimate.outcome import outcome
from calibody.estimate.result import Mesh
from calibody.estimate.run import Run
from calibody.estimate.start import first_motion
from calibody.estimate.telling import NO_START, SHOT
from calibody.estimate.uncertainty import assess
from calibody.estimate.unknowns import Entry
from calibody.estimate.windows.condensed_windows import Starts
from calibody.estimate.windows.long_shots import LongCut, LongShots
from calibody.mechanics.structure import TREE, Numbers
from calibody.solve.gauss_newton import Iteration, Settings, Solution, minimise

if TYPE_CHECKING:
    from calibody.estimate.result import Result
    from calibody.estimate.shooting import Shooting
    from calibody.recording.recording import Recording

LONG, NODES = 100_000, 10_000
"""Coordinates of all nodes together from which windows are condensed one by one: about 1 GB, were they linearised together (measured on a double pendulum: 11 kB per coordinate); and nodes, at least: a
short motion of a large mechanism would not be made smaller."""
LEFT_OUT = (
    "The recordings are so long that windows were condensed one after the other: what was held and may be wrong, and what half of the step would change, were not looked for; fit a part of "
    "the recording for that."
)


def is_long(worker: Meshes, h: float, asked: Shooting) -> bool:
    """Whether the motion is so long, and nothing asks for all of it at once."""
    s = worker.structure
    nodes = sum(r.duration / h for r in worker.recordings)
    if (
        nodes < NODES
        or nodes * s.nv < LONG
        or s.coordinates != TREE
        or s.rolling.any()
        or any(r.deviations for r in worker.recordings)
        or asked.gradient != "forward"
        or worker.driven
        or Numbers.of(s).softness[0].any()
    ):
        return False
    runs = [Run.of(s, replace(r, drives=()), r.duration / 8.0, n) for r, n in zip(worker.recordings, worker.noises, strict=True)] if not s.prescribed else []
    return not any(is_untold(run) for run in runs)


def long(worker: Meshes, h: float, theta: np.ndarray, asked: Shooting, began: float) -> Result:
    runs = [LongCut.of(worker.structure, r, h, n, asked.count(round(r.duration / h))).kept_all() for r, n in zip(worker.recordings, worker.noises, strict=True)]
    problem = LongShots(tuple(runs), tuple(worker.unknowns))
    problem.check()
    return _fit(problem, worker, theta, asked, began)


def _fit(problem: LongShots, worker: Meshes, theta: np.ndarray, asked: Shooting, began: float) -> Result:
    def note(iteration: Iteration) -> None:
        worker.history.append(worker.tell(iteration, SHOT, problem.runs[0].h))

    settings = Settings(tolerance=TOLERANCE, globalisation=asked.steps)
    problem, x = begin(problem, theta, asked.friction_rate)
    F, _ = problem.values(x, theta)
    if np.isfinite(F).all():
        solution = minimise(problem, x, theta, settings, note)
        problem, solution = with_noise(problem, solution, lambda p, s: minimise(p, s.x, s.theta, settings, note))
    else:
        solution = Solution(x, theta, NO_START, 0.0, [], None)
    run: Any = problem.runs[0]
    found = assess(problem, solution.x, solution.theta, run.structure.nv - int(run.active.sum()), worker.given)  # pyright: ignore[reportArgumentType]
    return outcome(
        problem,
        solution,
        found,
        recordings=worker.recordings,
        given=worker.given,
        history=worker.history,
        mesh=Mesh(run.h, 0),
        error=None,
        notes=[*worker.notes, *found_noise(problem), LEFT_OUT],
        seconds=time.perf_counter() - began,
        process_noise={},
        again=partial(_again, problem, worker, asked),
    )


def _again(problem: LongShots, worker: Meshes, asked: Shooting, recording: Recording, unknowns: Sequence[Entry], theta: np.ndarray) -> Result:
    """Another recording with the same step."""
    h = problem.runs[0].h
    found, given, _ = noise.noises([recording], noise.Forces())
    other = Meshes(worker.structure, [recording], unknowns, found, given)
    return long(other, h, theta, asked, time.perf_counter())


def begin(problem: LongShots, theta: np.ndarray, friction_rate: float | None = None) -> tuple[LongShots, list[Starts]]:
    """The starts of windows from a smooth motion through the observations around each, and the problem with the constraints and the sharpness of friction that these tell."""
    runs, x, squares = list(problem.runs), [], []
    for r, run in enumerate(runs):
        assert isinstance(run, LongCut)
        starts, own = [], theta[problem.columns[r]]
        for w in range(run.windows):
            piece, at = run.stretch(w)
            single = problem.single(r, piece)
            if w == 0:
                single, (states,) = begun(single, own, False, False)
                run = replace(run, active=single.runs[0].mask[:, 0], implied=single.runs[0].implied)  # one choice of rows: windows share it
            else:
                _, states = first_motion(piece, *single.model_of(0, own))
            starts.append(states.q[:, at : at + 2].copy())
            squares.append(rms_rates(single, [states], own) ** 2)
        runs[r] = run
        x.append(Starts(tuple(starts)))
    width = friction_rate or FRICTION_STAGES[-1] * float(np.sqrt(np.mean(squares, axis=0)).min(initial=1.0))
    return replace(problem, runs=tuple(_sharpened(run, width) for run in runs)), x


def _sharpened(run: Any, width: float) -> LongCut:
    count = len(run.structure.law_owners)
    return replace(run, deltas=np.full(count, width))
