"""`method = "shadow"`: parameters and states in the discretisation of a regularised fixed-step engine [marklund2025].

What comes out are the numbers that make *that engine, with that step and that compliance*, follow the recording; they differ from the physical ones by
what the discretisation does, and absorb part of its error. The problem is in `shadow_problem.py`, its error bars in `shadow_errors.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibody.errors import CalibodyError, told
from calibody.estimate.foresee import FEWEST, TRIED, shortened
from calibody.estimate.mesh import refuse_step
from calibody.estimate.nodes import Noise, driven_by
from calibody.estimate.noise import given as noise
from calibody.estimate.outcome import outcome
from calibody.estimate.problem import independent
from calibody.estimate.regularised.shadow_errors import assess
from calibody.estimate.regularised.shadow_problem import ShadowProblem, States, Steps
from calibody.estimate.reported import theta_of
from calibody.estimate.result import Mesh, Result
from calibody.estimate.run import Run
from calibody.estimate.start import CUTOFF, first_motion, resting
from calibody.estimate.telling import IN_STEPS, Teller
from calibody.estimate.unknowns import Entry, Unknown, entries, refuse_what_does_not_act
from calibody.mechanics.kinematics import Geometry, poses
from calibody.mechanics.structure import FREE, HINGE, SLIDE, TREE, Numbers, Structure
from calibody.model import Model
from calibody.recording.filters import lowpass
from calibody.recording.recording import Recording
from calibody.solve import gauss_newton, levenberg_marquardt
from calibody.solve.gauss_newton import Iteration, Solution
from calibody.steppers.spook import Spook
from calibody.steppers.start import stiffened

CONVERGED = 0.1
"""Standard deviations by which the last step moved the parameters; dry friction has kinks, which keep them moving by some hundredths for ever."""
LIFTED = {"auto": None, "eliminated": False, "lifted": True}
STIFF, MISSED = 300.0, 5.0
"""Where `1/S` exceeds the smallest mass by this factor and a channel its noise by that, the eliminated form has broken down: seen from compliances of
1e-6 m/N on at h = 10 ms."""
ORDER = 2
"""Of the Butterworth filter, which runs forwards and backwards."""


def shadow(
    model: Model,
    recordings: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    *,
    kappa: float,
    h: float,
    formulation: str,
    stepper: Spook | None = None,
    iterations: int = 20,
    report: Callable[[Iteration], None] | None = None,
    start: Mapping[str, float] | None = None,
    plain: bool = False,
) -> Result:
    """Parameters and states for the engine `stepper` with the step `h`; `plain`: with the damping that the paper prints; see the class `Shadow` for the rest."""
    began = time.perf_counter()
    worker, unknowns = _prepared(model, recordings, estimate, kappa, h, formulation, stepper, iterations, report, plain)
    return worker.fit(recordings, unknowns, theta_of(unknowns, start or {}), began)


@told()
def refuse(
    model: Model,
    recordings: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    *,
    kappa: float,
    h: float,
    formulation: str,
    stepper: Spook | None,
) -> None:
    """A sentence where `shadow` would give one: its own way up to the first step; of long runs the first part."""
    worker, unknowns = _prepared(model, recordings, estimate, kappa, h, formulation, stepper)
    try:
        cut = shortened(recordings, max(TRIED // len(recordings), FEWEST) * h)
    except CalibodyError:  # a channel that begins later
        return
    theta = theta_of(unknowns, {})
    problem = worker.problem(cut, unknowns, theta, noise.noises(cut, noise.Forces())[0])
    problem.values([begin(problem, r, theta) for r in range(len(cut))], theta)


def _prepared(
    model: Model,
    recordings: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    kappa: float,
    h: float,
    formulation: str,
    stepper: Spook | None,
    iterations: int = 20,
    report: Callable[[Iteration], None] | None = None,
    plain: bool = False,
) -> tuple[_Worker, list[Entry]]:
    """What fits recordings, and the unknowns."""
    refuse_step(h, recordings)
    engine = Spook() if stepper is None else stepper
    unknowns = entries(model, estimate, [r.name for r in recordings])
    refuse_what_does_not_act(model, unknowns, FREE)
    structure = Structure.build(model, FREE, driven=driven_by(recordings))
    if structure.driven:
        raise CalibodyError(f'The drive "{structure.driven[0].path}": method="shadow" knows drives of actuators and joint forces only; use transcription.')
    return _Worker(structure, engine, float(kappa), float(h), LIFTED[formulation], iterations, report, plain), list(unknowns)


@dataclass(frozen=True)
class _Worker:
    structure: Structure
    engine: Spook
    kappa: float
    h: float
    lifted: bool | None
    """None: where the joints are stiff."""
    iterations: int
    report: Callable[[Iteration], None] | None
    plain: bool

    @told()
    def fit(self, recordings: Sequence[Recording], unknowns: Sequence[Entry], theta: np.ndarray, began: float) -> Result:
        found, given, missing = noise.noises(recordings, noise.Forces())
        problem = self.problem(recordings, unknowns, theta, found)
        x = [begin(problem, r, theta) for r in range(len(recordings))]
        history: list[Iteration] = []

        tell = Teller(unknowns, self.report)

        def note(iteration: Iteration) -> None:
            history.append(tell(iteration, IN_STEPS, self.h))

        solution = self._solve(problem, x, theta, note)
        if not problem.lifted and solution.converged:
            solution.status = _honest(problem, solution)
        errors = assess(problem, solution.x, solution.theta)
        notes = [f"The noise of {c} was not stated; it was estimated from the recording's fast changes." for c in (h.name for h in missing)]
        notes += _unused(problem.runs)
        seconds = time.perf_counter() - began
        return outcome(
            problem,
            solution,
            errors,
            recordings=recordings,
            given=given,
            history=history,
            mesh=Mesh(self.h, 0),
            error=None,
            notes=notes,
            seconds=seconds,
            process_noise={},
            again=replace(self, lifted=problem.lifted, report=None)._again,
        )

    def problem(self, recordings: Sequence[Recording], unknowns: Sequence[Entry], theta: np.ndarray, noises: Sequence[Noise]) -> ShadowProblem:
        """In the formulation that was asked for, or that suits the stiffness of the joints."""
        runs = [Steps.of(self.structure, r, self.h, n) for r, n in zip(recordings, noises, strict=True)]
        problem = ShadowProblem(runs, unknowns, self.kappa, self.engine, lifted=bool(self.lifted))
        stiff = self.lifted is None and _stiffness(problem, theta) >= STIFF
        return ShadowProblem(runs, unknowns, self.kappa, self.engine, lifted=True) if stiff else problem

    def _solve(self, problem: ShadowProblem, x: list[States], theta: np.ndarray, note: Callable[[Iteration], None]) -> Solution:
        held = np.array([e.group is not None for e in problem.entries], dtype=float)  # charts of bodies; others would creep where the data tell little
        if not problem.lifted:
            return levenberg_marquardt.minimise(problem, x, theta, levenberg_marquardt.Settings(self.plain, self.iterations, CONVERGED, proximal=held), note)
        settings = gauss_newton.Settings(self.iterations, CONVERGED, feasibility=1e-6, close=2.0 * CONVERGED, proximal=held)
        return gauss_newton.minimise(problem, x, theta, settings, note)

    def _again(self, recording: Recording, unknowns: Sequence[Entry], theta: np.ndarray) -> Result:
        return self.fit([recording], unknowns, theta, time.perf_counter())


def _honest(problem: ShadowProblem, solution: Solution) -> str:
    """Stiff joints end the eliminated form where rounding decides; that is no convergence."""
    missed = max(
        float(np.sqrt(np.mean(((fitted - d.y) * problem.runs[r].weight(d)) ** 2)))
        for r, states in enumerate(solution.x)
        for d, fitted in problem.fitted(r, states, solution.theta)
    )
    if _stiffness(problem, solution.theta) < STIFF or missed < MISSED:
        return solution.status
    return f'stopped where the observations are missed by {missed:.0f} times their noise: the joints are too stiff for this form; use formulation = "lifted".'


def _stiffness(problem: ShadowProblem, theta: np.ndarray) -> float:
    """The largest `1/S` of a joint's rows in units of the smallest mass."""
    values = problem.numbers_of(0, theta)[2]
    return float(problem.transition.stiffness(values).max(initial=0.0)) / float(values.mass.min())


def _unused(runs: Sequence[Steps]) -> list[str]:
    """Samples between the steps are not used: that is said."""
    all_, used = sum(len(o.present) for run in runs for o in run.recording.observations), sum(run.samples for run in runs)
    if used >= 0.6 * all_:
        return []
    return [f"{used} of {all_} samples lie at the engine's steps and were used; a smaller h, or method = 'transcription', uses more."]


def begin(problem: ShadowProblem, r: int, theta: np.ndarray) -> States:
    """Smooth observations at the steps, with joints that hold exactly; `v_k = (q_k [-] q_(k-1))/h`."""
    run = problem.runs[r]
    model, numbers, values, sensors = problem.numbers_of(r, theta)
    q = free_coordinates(run.structure, *tree_motion(run, model, sensors))
    nothing = np.zeros((run.K, run.structure.nv))
    p = problem.transition.place(numbers, values, q, nothing)
    v = np.concatenate([p.w[:1], p.w])
    if not problem.lifted:
        return States(q, v, None)
    return States(q, v, problem.start_multipliers(r, theta, q, v))


def tree_motion(run: Steps, model: Model, sensors: Mapping[tuple[str, str], float]) -> tuple[Structure, np.ndarray]:
    """Joint coordinates at the nodes: filtered observations where every joint has one, else inverse kinematics of all of them (`start.py`)."""
    rigid = stiffened(model)
    tree = Structure.build(rigid, TREE)
    seen = {o.channel: o for o in run.recording.observations}
    q = np.zeros((tree.nq, run.K))
    direct = not tree.nc
    for i, unit in enumerate(tree.units):
        if unit.joint is None or unit.kind == "fixed":
            continue
        path = f"joint.{unit.joint.name}.{'angle' if unit.kind == HINGE else 'position'}"
        if unit.kind not in (HINGE, SLIDE) or path not in seen:
            direct = False
            break
        o = seen[path]
        cutoff = min(CUTOFF, 0.4 / run.recording.period)
        smooth = lowpass(o.times, o.values, cutoff, ORDER)
        at = np.clip(run.times + sensors.get((path, "delay"), 0.0), o.times[0], o.times[-1])
        q[tree.q_start[i]] = (smooth(at) - sensors.get((path, "bias"), 0.0)) / (sensors.get((path, "gain"), 1.0) or 1.0)
    if direct:
        return tree, q
    numbers = Numbers.of(tree)
    mesh = replace(Run.of(tree, run.recording, run.h, run.noise), active=independent(tree, numbers, resting(tree, rigid)))
    _, states = first_motion(mesh, rigid, numbers, sensors)
    nearest = np.clip(np.round((run.times - mesh.times[0]) / mesh.h).astype(int), 0, mesh.K - 1)
    return tree, states.q[:, nearest]


def free_coordinates(free: Structure, tree: Structure, q: np.ndarray) -> np.ndarray:
    """Poses of all bodies, quaternions without jumps of sign."""
    from scipy.spatial.transform import Rotation

    H = poses(tree, Geometry.of(tree, Numbers.of(tree)), q)
    out = np.zeros((free.nq, q.shape[1]))
    for i, unit in enumerate(free.units):
        if unit.kind != FREE:
            continue
        pose, at = H[:, :, tree.body_link[unit.body.name]], int(free.q_start[i])
        wxyz = Rotation.from_matrix(pose[:, :3].transpose(2, 0, 1)).as_quat()[:, [3, 0, 1, 2]]
        flips = np.cumprod(np.concatenate([[1.0], np.sign(np.einsum("ki,ki->k", wxyz[1:], wxyz[:-1]))]))
        out[at : at + 3], out[at + 3 : at + 7] = pose[:, 3], (wxyz * flips[:, None]).T
    return out
