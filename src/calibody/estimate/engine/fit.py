"""Shooting in MuJoCo's engine: a first motion from the observations, windows, Gauss-Newton, error bars (`engine_problem.py`).

What comes out are the numbers that are right *in that engine*, with that step, its contacts and their softness. A single window that does not converge is said; it is not cut into more unasked.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError, told
from calibody.estimate import observe
from calibody.estimate.engine.problem import EngineProblem, sensed
from calibody.estimate.engine.run import EngineRun, activates
from calibody.estimate.engine.shots import Starts
from calibody.estimate.foresee import FEWEST, TRIED, shortened
from calibody.estimate.mesh import refuse_step
from calibody.estimate.noise import given as noise
from calibody.estimate.noise.own_noise import found_noise, with_noise
from calibody.estimate.outcome import outcome
from calibody.estimate.reported import initial_theta, theta_of, values_of
from calibody.estimate.result import Mesh
from calibody.estimate.run import Run
from calibody.estimate.start import first_motion
from calibody.estimate.telling import ALONE, NO_START, SHOT, Teller
from calibody.estimate.uncertainty import assess, in_numbers
from calibody.estimate.unknowns import Entry, entries
from calibody.estimate.windows.cut import SHORTEST
from calibody.mechanics import channels
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import paths
from calibody.model.elements import HINGE, SLIDE
from calibody.solve.condensed import step
from calibody.solve.gauss_newton import Iteration, Settings, Solution, minimise
from calibody.solve.windows import bounds_of
from calibody.steppers.engine import Engine, refuse_what_cannot_be_set
from calibody.steppers.mujoco import state_of
from calibody.steppers.start import stiffened

if TYPE_CHECKING:
    from calibody.estimate.estimator import Report, Unknowns
    from calibody.estimate.identifiability import Identifiability
    from calibody.estimate.result import Result
    from calibody.estimate.shooting import Shooting
    from calibody.model import Model
    from calibody.recording.recording import Initial, Recording

TOLERANCE = 1e-2
"""Standard deviations by which the last step moves the parameters, as of transcription."""
FEASIBILITY = 1e-6
"""rad, m: by which windows may miss each other at the end."""
ROUGH = 0.5
"""With wide differences: standard deviations (rms of the parameters) by which a last step that lowers nothing would still move them. It is reported beside the error bars, as the error of a mesh is."""
JAGGED = (
    "The cost is jagged, as where impacts fall into one step or the next: slopes were taken over a hundredth of the parameters' scales, and where the minimum is was found to "
    "within the discretisation error that stands beside each; a smaller time step makes it smaller."
)


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
        cut = shortened(recordings, max(TRIED // len(recordings), FEWEST) * problem.engine.h)
    except CalibodyError:  # a channel that begins later
        return
    problem, _ = prepared(model, cut, unknowns, asked)
    theta = initial_theta(problem.entries)
    problem.values(begin(problem, theta), theta)


@told()
def foresee(model: Model, recordings: Sequence[Recording], unknowns: Unknowns, asked: Shooting) -> Identifiability:
    """From the information of the data in windows along the first motion."""
    problem, _ = prepared(model, shortened(recordings, max(TRIED // len(recordings), FEWEST) * Engine(model, (), asked.h).h), unknowns, asked)
    theta = initial_theta(problem.entries)
    taken = step(problem.linearise(begin(problem, theta), theta), theta, problem.lower, problem.upper, 0.0 * theta, problem.scale)
    return in_numbers(np.asarray(taken.information), problem.entries, theta, np.zeros(len(theta), dtype=bool), 1.0)


def prepared(model: Model, recordings: Sequence[Recording], unknowns: Unknowns, asked: Shooting) -> tuple[EngineProblem, bool]:
    """The problem, and whether the noise of all channels was stated."""
    found = tuple(_braking(e) for e in entries(model, unknowns, [r.name for r in recordings]))
    refuse_what_cannot_be_set(model, [paths.resolve(model, p.path) for e in found for p in e.places if p.sensor is None])
    observed = sensed(model, recordings)
    engine = Engine(model, observed, asked.h)
    refuse_step(engine.h, recordings)
    noises, given, _ = noise.noises(recordings, noise.Forces())
    structure = Structure.build(model, TREE, engine=True)
    runs = [EngineRun.of(structure, r, engine.h, n, asked.count(round(r.duration / engine.h))) for r, n in zip(recordings, noises, strict=True)]
    problem = EngineProblem(tuple(runs), tuple(found), engine=engine, sensed=tuple(c.path for c in observed))
    problem.check()
    for run in runs:
        run.driven(run.recording, 1)
    return problem, given


def _braking(e: Entry) -> Entry:
    """A damping that nobody said may drive is at least zero: a simulation with another soon leaves all bounds."""
    brakes = all(place.sensor is None and place.expression is None and place.path.endswith(".damping") for place in e.places) and bool(e.places)
    return replace(e, lower=0.0) if brakes and e.lower == -np.inf and e.initial >= 0.0 else e


def cut(problem: EngineProblem, windows: int) -> EngineProblem:
    """The same in another number of windows."""
    runs = tuple(replace(run, bounds=bounds_of(run.K, windows, SHORTEST)) for run in problem.runs)
    return replace(problem, runs=runs)


def _fit(
    problem: EngineProblem, recordings: Sequence[Recording], theta: np.ndarray, given: bool, asked: Shooting, report: Report | None, began: float
) -> Result:
    history: list[Iteration] = []
    tell = Teller(problem.entries, report)

    def note(iteration: Iteration) -> None:
        history.append(tell(iteration, SHOT, problem.engine.h))

    x = begin(problem, theta)
    if not np.isfinite(problem.values(x, theta)[0]).all():
        solution = Solution(x, theta, NO_START, 0.0, [], None)
    else:
        problem, solution = _solved(problem, x, theta, asked, note)
        problem, solution = with_noise(problem, solution, lambda p, s: minimise(p, s.x, s.theta, _fine(asked), note))
        if not solution.converged and asked.windows == 1:
            solution.status += ALONE
    found = assess(problem, solution.x, solution.theta, problem.engine.nv, given, doubted=True)  # pyright: ignore[reportArgumentType]
    notes = found_noise(problem)
    if problem.wide and solution.converged:
        notes.append(JAGGED)
    return outcome(
        problem,
        solution,
        found,
        recordings=recordings,
        given=given,
        history=history,
        mesh=Mesh(problem.engine.h, 0),
        error=_left(problem, solution) if problem.wide and solution.converged else None,
        notes=notes,
        seconds=time.perf_counter() - began,
        process_noise={},
        again=partial(_again, problem, asked),
    )


def _fine(asked: Shooting) -> Settings:
    return Settings(tolerance=TOLERANCE, feasibility=FEASIBILITY, globalisation=asked.steps, jagged=True)


def _solved(problem: EngineProblem, x: Sequence[Starts], theta: np.ndarray, asked: Shooting, note: Report) -> tuple[EngineProblem, Solution]:
    """With fine differences, and where these do not converge with wide ones from where they ended."""
    solution = None
    for wide in (False, True):
        problem = replace(problem, wide=wide)
        start = (x, theta) if solution is None else (solution.x, solution.theta)
        solution = minimise(problem, *start, replace(_fine(asked), close=ROUGH) if wide else _fine(asked), note)
        if solution.converged:
            break
    assert solution is not None
    return problem, solution


def _left(problem: EngineProblem, solution: Solution) -> np.ndarray:
    """What one more step would move every number reported by."""
    theta = solution.theta
    taken = step(problem.linearise(solution.x, theta), theta, problem.lower, problem.upper, 1.0 / problem.scale**2, problem.scale)
    return np.abs(values_of(problem.entries, problem.shift(theta, taken.parameters)) - values_of(problem.entries, theta))


def _again(problem: EngineProblem, asked: Shooting, recording: Recording, unknowns: Sequence[Entry], theta: np.ndarray) -> Result:
    """Another recording in the same engine."""
    noises, given, _ = noise.noises([recording], noise.Forces())
    run = EngineRun.of(problem.runs[0].structure, recording, problem.engine.h, noises[0], asked.count(round(recording.duration / problem.engine.h)))
    return _fit(replace(problem, runs=(run,), entries=tuple(unknowns)), [recording], theta, given, asked, None, time.perf_counter())


# -- the first motion ----------------------------------------------------------------------------------------------------------------


def begin(problem: EngineProblem, theta: np.ndarray) -> list[Starts]:
    """The starts of windows from a smooth motion through the observations, rates from its differences; what is known of the start is as it is known."""
    return [_begun(problem, r, theta) for r in range(len(problem.runs))]


def _begun(problem: EngineProblem, r: int, theta: np.ndarray) -> Starts:
    run, e = problem.runs[r], problem.engine
    first = run.bounds[:-1]
    starts = _through_observations(problem, r, theta, first)
    away = e.difference(problem.known(r), starts[0])
    starts[0] = e.moved(starts[0], np.where(np.isin(np.arange(e.n), problem.held(r)), away, 0.0))
    for d in run.known_start(exact=False):
        if activates(d.channel):
            starts[0, e.place(d.channel)[0]] = float(d.y[0])
    if e.na:  # activations follow the controls alone, whatever the motion is
        model = problem.model_of(r, theta)[0]
        control = e.controls(model, run.driven(run.recording, run.K), run.K)
        activation = e.steps([e.with_numbers(model)], starts[:1], control[None]).states[0][:, e.nq + e.nv :]
        starts[1:, e.nq + e.nv :] = np.nan_to_num(activation[first[1:] - 1])
    return Starts(starts)


def _through_observations(problem: EngineProblem, r: int, theta: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """(nodes, state): some nodes, activations zero."""
    run, e = problem.runs[r], problem.engine
    model, _, sensors = problem.model_of(r, theta)
    rigid = stiffened(model)
    seen = tuple(o for o in run.recording.observations if _places(rigid, o.channel, run.recording.channels))
    if not seen or problem.begins_known(r):
        return np.tile(e.resting, (len(nodes), 1))
    tree = Structure.build(rigid, TREE)
    numbers = Numbers.of(tree)
    mesh = Run.of(tree, replace(run.recording, observations=seen, drives=(), initial=_of_scalars(rigid, run.recording.initial)), run.h, run.noise)
    _, motion = first_motion(mesh, rigid, numbers, sensors)

    def at(node: int) -> np.ndarray:
        nearest = int(np.clip(round((run.times[node] - mesh.times[0]) / mesh.h), 0, mesh.K - 1))
        return state_of(e, run.structure, motion.q[:, nearest], np.zeros(tree.nv))

    states = np.stack([at(k) for k in nodes])
    for state, k in zip(states, nodes, strict=True):
        after, before = min(k + 1, run.K - 1), max(k - 1, 0)
        state[e.nq : e.nq + e.nv] = e.difference(at(after), at(before))[: e.nv] / ((after - before) * run.h)
    return states


def _places(model: Model, path: str, beside: Collection[str]) -> bool:
    """Whether a channel says where the mechanism is or how fast it goes, in calibody's own kinematics."""
    return channels.is_known(model, path) and observe.is_kinematic(observe.check(model, path, beside))


def _of_scalars(model: Model, initial: Mapping[str, Initial]) -> dict[str, Initial]:
    """What is known at the start of hinges and slides: the rest is put where it belongs afterwards (`_begun`)."""
    of_joints = {path: known for path, known in initial.items() if channels.is_known(model, path) and path.startswith("joint.")}
    return {path: known for path, known in of_joints.items() if model.joint(channels.resolve(model, path).name).kind in (HINGE, SLIDE)}
