"""Kinematic calibration: the geometry of a mechanism from poses in which it stood still.

The recipe of transcription (`meshes.py`) on the only mesh there is, of which every node is a pose (`poses_problem.py`): poses from what was measured in them, then Gauss-Newton over poses and parameters; where
the noise of channels has to be found, that in turns; outliers weighed down if asked for; error bars and what the data cannot tell as in every fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from calibody.errors import CalibodyError, told
from calibody.estimate.concluded import stated
from calibody.estimate.identifiability import Identifiability
from calibody.estimate.layout import States
from calibody.estimate.meshes import Level, Meshes
from calibody.estimate.noise import given as noise
from calibody.estimate.outcome import outcome
from calibody.estimate.people.captured import refuse_absurd
from calibody.estimate.poses_problem import PoseProblem, PoseRun, first_poses, is_coordinate
from calibody.estimate.problem import Problem, independent
from calibody.estimate.reported import initial_theta, theta_of
from calibody.estimate.result import Mesh, Result
from calibody.estimate.run import Run
from calibody.estimate.start import resting
from calibody.estimate.telling import POSED
from calibody.estimate.uncertainty import in_numbers
from calibody.estimate.unknowns import Entry, Unknown, entries
from calibody.mechanics import channels, host
from calibody.mechanics.geometry import PLACES
from calibody.mechanics.structure import TREE, Structure
from calibody.model import Model, paths
from calibody.recording.recording import Recording
from calibody.solve.condensed import step
from calibody.solve.gauss_newton import Iteration
from calibody.steppers.start import stiffened

ACTING = {**PLACES, "site": ("position", "orientation"), "loop": ("anchor1", "anchor2", "orientation1", "orientation2", "polynomial", "length")}
"""Numbers that a pose depends on, by kind of element; the centre of mass of a body is one where it is observed."""
APART = 1.0
"""Between neighbouring nodes [s]: poses have no clock, and nothing depends on it."""


@told()
def calibrate(
    model: Model,
    recordings: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    robust: bool = False,
    report: Callable[[Iteration], None] | None = None,
    start: Mapping[str, float] | None = None,
) -> Result:
    """Arguments as of `fit`."""
    began = time.perf_counter()
    worker = _prepared(model, recordings, estimate, robust, report)
    return worker.calibrated(worker.solve(APART, theta_of(worker.unknowns, start or {}), None), time.perf_counter() - began)


@told()
def begun(model: Model, recordings: Sequence[Recording], estimate: Mapping[str, Unknown | float | None]) -> tuple[Problem, list[States], np.ndarray]:
    """The problem, the first poses and the initial values: the way of a fit up to its first step."""
    worker = _prepared(model, recordings, estimate)
    theta = initial_theta(worker.unknowns)
    return *worker.begin(worker.problem(APART, worker.noises), theta), theta


@told()
def foresee(model: Model, recordings: Sequence[Recording], estimate: Mapping[str, Unknown | float | None]) -> Identifiability:
    """Which unknowns and combinations the data will determine."""
    problem, x, theta = begun(model, recordings, estimate)
    taken = step(problem.linearise(x, theta), theta, problem.lower, problem.upper, 0.0 * theta, problem.scale)
    return in_numbers(np.asarray(taken.information), problem.entries, theta, np.zeros(len(theta), dtype=bool), 1.0)


def _prepared(
    model: Model,
    recordings: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    robust: bool = False,
    report: Callable[[Iteration], None] | None = None,
) -> _Poses:
    for recording in recordings:
        if not recording.poses:
            raise CalibodyError(
                f'method = "poses" is for poses at rest, but the recording "{recording.name}" has a clock; read it with time=None (in an experiment, poses = true), '
                'or use method = "transcription".'
            )
    unknowns = entries(model, estimate, [r.name for r in recordings])
    _refuse_what_does_not_act(model, recordings, unknowns)
    refuse_absurd(model, recordings)
    structure = Structure.build(stiffened(model), TREE)
    if not structure.nv:
        raise CalibodyError(f'Nothing moves in the model "{model.name}"; a fit needs at least one joint.')
    _refuse_unstated(model, recordings)
    found, given, hypers = noise.noises(recordings, noise.Forces())
    return _Poses(structure, recordings, unknowns, found, given, hypers, robust, report, coarsest=APART)


def _refuse_unstated(model: Model, recordings: Sequence[Recording]) -> None:
    """A sentence for a joint whose noise is not stated: its angle is free in every pose, so that its noise and that of the places can be traded for each other."""
    for recording in recordings:
        for o in recording.observations:
            if o.sd is None and is_coordinate(channels.resolve(model, o.channel)):
                raise CalibodyError(
                    f'The run "{recording.name}" has poses at rest and no sd for "{o.channel}"; state it, only that of places can be found from poses.'
                )


def _refuse_what_does_not_act(model: Model, recordings: Sequence[Recording], unknowns: Sequence[Entry]) -> None:
    """A sentence for an unknown that no pose depends on."""
    centres = {channel.split(".com.")[0] for r in recordings for channel in r.channels if channel.startswith("body.") and ".com." in channel}
    for e in unknowns:
        if e.group is not None:
            raise CalibodyError(f'"{e.group.paths[0]}" cannot be estimated from poses at rest, which have no dynamics; estimate it from a motion.')
        for place in e.places:
            if place.sensor is not None and place.sensor[1] == "delay":
                raise CalibodyError(f'"{place.path}" cannot be estimated from poses at rest, which have no clock; leave it out.')
            if place.sensor is None:
                found = paths.resolve(model, place.path)
                if found.field not in ACTING.get(found.kind, ()) and not (found.field == "com" and f"body.{found.name}" in centres):
                    raise CalibodyError(f'"{place.path}" cannot be estimated from poses at rest, which depend on geometry only; estimate it from a motion.')


class _Poses(Meshes):
    """The one mesh of poses."""

    def problem(self, h: float, noises: Sequence[noise.Noise]) -> Problem:
        return PoseProblem.of([PoseRun.of(self.structure, r, h, n) for r, n in zip(self.recordings, noises, strict=True)], self.unknowns)

    def begin(self, problem: Problem, theta: np.ndarray) -> tuple[Problem, list[States]]:
        """The first poses of all runs, and the problem with the constraints that they tell."""
        both = [self._begun(problem, r, theta) for r in range(len(problem.runs))]
        return replace(problem, runs=tuple(run for run, _ in both)), [states for _, states in both]

    def _begun(self, problem: Problem, r: int, theta: np.ndarray) -> tuple[Run, States]:
        assert isinstance(problem, PoseProblem)
        run = problem.runs[r]
        assert isinstance(run, PoseRun)
        model, numbers, sensors = problem.model_of(r, theta)
        states = first_poses(run, model, numbers, sensors)
        if run.structure.nc:
            rest = resting(run.structure, model)
            run = replace(run, active=independent(run.structure, numbers, rest))
            run = replace(run, active=host.independent_along(run.structure, numbers, states.q, rest))
        replace(problem, runs=(run,), entries=problem.entries_of[r]).refuse_unseen(0, states, theta[problem.columns[r]])
        return run, states

    def _note(self, iteration: Iteration) -> None:
        self.history.append(self.tell(iteration, POSED, 0.0))

    def calibrated(self, level: Level, seconds: float) -> Result:
        """What was found."""
        problem = level.problem
        return outcome(
            problem,
            level.solution,
            level.found,
            recordings=self.recordings,
            given=self.given,
            history=self.history,
            mesh=Mesh(0.0, 0),
            error=None,
            notes=[*self.notes, *stated(self, level)],
            seconds=seconds,
            process_noise={},
            again=partial(_again, self.structure),
            hypers=self.hypers,
        )


def _again(structure: Structure, recording: Recording, unknowns: Sequence[Entry], theta: np.ndarray) -> Result:
    """Another recording of poses with the same structure."""
    found, given, hypers = noise.noises([recording], noise.Forces())
    worker = _Poses(structure, [recording], unknowns, found, given, hypers, coarsest=APART)
    return worker.calibrated(worker.solve(APART, theta, None), 0.0)
