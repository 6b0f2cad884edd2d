"""Transcription, one mesh after the other: how the motion, the parameters and the noise are found on each, and what it amounts to.

The recipe: a first motion from the observations alone (`start.py`); Gauss-Newton on the coarsest mesh, dry friction sharpened in stages if need be, and where the noise of
channels has to be found, that in turns with Gauss-Newton (`marginal.py`); with unmodelled forces instead of both the maximum of the marginal likelihood (`likelihood.py`); the mesh halved while the parameters still move by
more than a fraction of their standard deviation; error bars and what they cannot tell (`uncertainty.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from calibody.errors import CalibodyError, NumericalError, told
from calibody.estimate import marginal, noise, robust as robust_loss
from calibody.estimate.bars import Bars, bars
from calibody.estimate.beginning import best_start, slow_hypers, with_memory
from calibody.estimate.compared import compared
from calibody.estimate.coupling import coupled, covariance, together
from calibody.estimate.estimator import Checkpoint
from calibody.estimate.identifiability import Determined
from calibody.estimate.known_start import refuse_torn
from calibody.estimate.layout import States
from calibody.estimate.likelihood import Likelihood, Spot
from calibody.estimate.limits import limits
from calibody.estimate.maximise import maximise
from calibody.estimate.mesh import first_step, refuse_step
from calibody.estimate.outcome import outcome
from calibody.estimate.problem import Problem, independent, multipliers_of, owners
from calibody.estimate.reported import reported, theta_of, values_of
from calibody.estimate.result import APART, COARSE, FORCE_NOT_WHITE, FORCES_DECIDE, Comparison, ForcesTogether, Mesh, Result, SlowForce, Suspect
from calibody.estimate.run import Run
from calibody.estimate.start import first_motion, resting
from calibody.estimate.suspects import suspects
from calibody.estimate.telling import EXACT, FORCED, NOISY, Teller
from calibody.estimate.uncertainty import Uncertainty, assess
from calibody.estimate.unforced import forces_wanted, too_large
from calibody.estimate.unknowns import WIDTH, Entry, Unknown, entries, model_paths, owner_of, refuse_what_does_not_act, rubbing, soft
from calibody.estimate.unmodelled import ProcessNoise
from calibody.mechanics import host
from calibody.mechanics.assembly import interval_rates
from calibody.mechanics.structure import Structure
from calibody.model import Model, paths
from calibody.model.elements import HINGE, SLIDE
from calibody.recording.glitches import without
from calibody.recording.recording import Recording
from calibody.solve.condensed import step
from calibody.solve.gauss_newton import Iteration, Settings, Solution, minimise
from calibody.solve.threads import one_thread, spread

FRICTION_STAGES = (1.0, 0.1, 0.02)
"""Rates below which dry friction is viscous, in units of the joint's own rms rate: the last at once, or one after the other where that fails."""
SHARPER = 0.5
"""On finer meshes that rate is smaller by this and shrinks with h: a joint that sticks creeps by it. Where a joint turns round it is larger (`Meshes.turning`)."""
FINER = 0.75
"""Part of the coarsest mesh's step from which on a mesh is a finer one."""
SOON = 25
"""Most steps on the coarsest mesh of an attempt without unmodelled forces."""
SHARPENING = 20
"""Most steps with it; if they do not converge, friction stays as it was on the coarser mesh."""
TOLERANCE = 1e-2
"""A mesh is solved when a step moves the parameters by less than this many standard deviations; steps converge quadratically, so what is left is less."""
MOVES = 0.3
"""The mesh is fine enough when halving h moves no parameter by more than this many standard deviations."""
MUCH = 4.0
"""Times that, all parameters together (root of the mean square in their own white-noise metric): so far from fine enough that no error bars are needed to see it."""
FINEST = 0.07
"""Sampling periods between the nodes of the finest mesh: the period halved four times."""
LARGEST = 4_000_000
"""Entries of the derivative of the equations with respect to the parameters (velocities of all nodes times parameters) beyond which a mesh is not
halved any more: iterations take seconds there, and what the mesh may still change is reported."""
ROUNDS = 40
"""Most turns between the motion and its noise."""
NOISE_SETTLED = 0.03
"""Relative change of a standard deviation of noise, and of the parameters in their own sd, that ends those turns."""
TOGETHER = 0.7
"""Correlation of the unmodelled forces of two joints from which on half of them has one cause, which is said."""
LARGER = 1.2
"""Noise found over noise stated, or the other way round, from which that is said."""
KNOWN = ("history", "notes", "hypers", "coarsest", "blunt", "hold")
"""What `Meshes` has learnt on coarser meshes."""
LOOSE = 0.3
"""First guess of the process noise, in units of the forces that the first motion lacks."""


@told()
def transcribe(
    model: Model,
    recordings: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    process_noise: ProcessNoise = "none",
    coordinates: str = "auto",
    h: float | None = None,
    robust: bool = False,
    report: Callable[[Iteration], None] | None = None,
    start: Mapping[str, float] | None = None,
    checkpoint: Checkpoint | None = None,
    stage: str = "",
) -> Result:
    """The recipe; arguments as in `fit`. What `checkpoint` keeps is called by `stage`."""
    began = time.perf_counter()
    worker, base = prepared(model, recordings, estimate, process_noise, coordinates, h, robust, report)
    worker.checkpoint, worker.stage = checkpoint, f"{stage}whole"
    theta = theta_of(worker.unknowns, start or {})
    if worker.given and any(hyper.process for hyper in worker.hypers):
        calm = worker.calm()
        levels = calm.levels(base, theta, h is None)
        if not calm.pushed(levels):
            return calm.result(levels, time.perf_counter() - began, halved=h is not None)
        worker.history, worker.hints = calm.history, [levels[-1].solution.theta]
    levels = worker.levels(base, theta, h is None)
    if not levels[-1].solution.converged and worker.widths() and levels[-1].likely is None:
        widths: dict[str, Unknown | float | None] = dict.fromkeys(worker.widths())
        softer = transcribe(model, recordings, {**estimate, **widths}, process_noise, coordinates, h, robust, report, start, checkpoint, f"{stage}soft ")
        if softer.converged:
            return replace(softer, notes=(*softer.notes, _softened(list(widths))))
    return worker.result(levels, time.perf_counter() - began, halved=h is not None)


def prepared(
    model: Model,
    recordings: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    process_noise: ProcessNoise,
    coordinates: str,
    h: float | None,
    robust: bool = False,
    report: Callable[[Iteration], None] | None = None,
    kind: type[Meshes] | None = None,
) -> tuple[Meshes, float]:
    """What solves on any mesh (by `kind`, if not as transcription does), and the step of the first one."""
    if h is not None:
        refuse_step(h, recordings)
    cleaned = [without(r) for r in recordings]
    recordings = [r for r, _ in cleaned]
    unknowns = entries(model, estimate, [r.name for r in recordings])
    refuse_what_does_not_act(model, unknowns, coordinates)
    for recording in recordings:
        refuse_torn(model, recording, unknowns)
    structure = Structure.build(model, coordinates, model_paths(unknowns))
    if not structure.nv:
        raise CalibodyError(f'Nothing moves in the model "{model.name}"; a fit needs at least one joint.')
    period = min(r.period for r in recordings)
    forces = noise.process_noise(model, process_noise, period)
    found_noise, given, hypers = noise.noises(recordings, forces)
    base = first_step(recordings, found_noise)
    solver = Meshes if kind is None else kind
    worker = solver(structure, recordings, unknowns, found_noise, given, hypers, robust, report, remembering=forces.remembering, coarsest=base)
    worker.notes += [sentence for _, sentences in cleaned for sentence in sentences]
    return worker, base if h is None else h


def _softened(widths: Sequence[str]) -> str:
    return (
        f"With sharp dry friction the fit did not converge; it was taken as soft, and the rate{'s' if len(widths) > 1 else ''} from which on it acts in full, {', '.join(widths)}, "
        "estimated as well."
    )


@told()
def refit(
    structure: Structure,
    recording: Recording,
    unknowns: Sequence[Entry],
    theta: np.ndarray,
    noises: Sequence[noise.Noise],
    given: bool,
    h: float,
    hold: float = 0.0,
    coarsest: float = 0.0,
) -> Result:
    """A fit of one recording on one mesh with unknowns and noise as they are; unknowns whose bounds coincide stay."""
    worker = Meshes(structure, [recording], unknowns, noises, given, hold=hold, coarsest=coarsest)
    level = worker.solve(h, theta, None)
    return worker.result([level], 0.0)


@dataclass(frozen=True)
class Level:
    """The solution on one mesh."""

    problem: Problem
    solution: Solution
    given: bool
    """Whether the noise of all channels was stated."""
    likely: tuple[Likelihood, Spot] | None = None
    """With unmodelled forces: the likelihood and where it has its maximum."""

    @cached_property
    def bars(self) -> Bars | None:
        """With unmodelled forces, once the maximum is found: what the likelihood itself says of the error bars."""
        return bars(*self.likely) if self.likely is not None and self.solution.converged else None

    @cached_property
    def final(self) -> Uncertainty:
        """Error bars with all that can be said of them."""
        if self.bars is None:
            return self.found
        freedom = self.problem.runs[0].structure.nv - self.problem.runs[0].kept
        return assess(self.problem, self.solution.x, self.solution.theta, freedom, self.given, self.bars.covariance)

    @cached_property
    def found(self) -> Uncertainty:
        """Its error bars, if anyone asks: they cost as much as an iteration."""
        freedom = self.problem.runs[0].structure.nv - self.problem.runs[0].kept
        return assess(self.problem, self.solution.x, self.solution.theta, freedom, self.given)

    @cached_property
    def values(self) -> np.ndarray:
        """What is reported."""
        return reported(self.problem.entries, self.solution.theta).values


def _settled(levels: Sequence[Level]) -> bool:
    """Whether halving the mesh moved nothing much. Where the parameters together moved very much, as the last step says, no error bars are needed to see that it did."""
    last, moved = levels[-1].solution.last, levels[-1].solution.theta - levels[-2].solution.theta
    if last is not None and moved @ last.information @ moved > (MUCH * MOVES) ** 2 * len(moved):
        return False
    return _within(levels, levels[-1].found.sd) or (levels[-1].bars is not None and _within(levels, levels[-1].final.sd))


def _within(levels: Sequence[Level], sd: np.ndarray) -> bool:
    """Whether halving the mesh moved the values by a fraction of these standard deviations. (With unmodelled forces, first of Gauss-Newton's, which are free and may be several times too small.)"""
    values = [level.values for level in levels]
    moved, error = np.abs(values[-1] - values[-2]), _discretisation(values, _second_order(values))
    assert error is not None
    return bool(np.all(((moved <= MOVES * sd) & (error <= COARSE * sd)) | ~np.isfinite(sd) | (sd == 0.0)))


def _hopeless(levels: Sequence[Level]) -> bool:
    """Whether the residuals are too large and halving the mesh did not halve what is too much of them: it is the model, not its discretisation."""
    excess = [2.0 * level.solution.cost - sum(run.samples for run in level.problem.runs) for level in levels[-2:]]
    return len(excess) == 2 and excess[1] > 0.5 * excess[0] and bool(too_large(levels[-1].problem, levels[-1].solution.x, levels[-1].solution.theta))


def _entries(level: Level) -> int:
    problem = level.problem
    return sum(run.K * run.structure.nv * len(columns) for run, columns in zip(problem.runs, problem.columns, strict=True))


def _unsettled(levels: Sequence[Level]) -> str:
    h = 1e3 * levels[-1].problem.runs[0].h
    if len(levels) == 1:
        return f"The mesh (h = {h:.3g} ms) was not refined, because it is large already; give h to see what a finer one says."
    moved, sd = np.abs(levels[-1].values - levels[-2].values), levels[-1].found.sd
    most = float(np.max((moved / sd)[np.isfinite(sd) & (sd > 0.0)], initial=0.0))
    return (
        f"Halving the mesh to h = {h:.3g} ms still moved a parameter by {most:.2g} of its standard deviation, and it was not refined further: "
        "allow for the discretisation error that stands beside each."
    )


class Meshes:
    def __init__(
        self, structure: Structure, recordings: Sequence[Recording], unknowns: Sequence[Entry], noises: Sequence[noise.Noise], given: bool,
        hypers: Sequence[marginal.Hyper] = (), robust: bool = False, report: Callable[[Iteration], None] | None = None, patient: bool = True,
        remembering: Mapping[str, float | None] | None = None, hold: float = 0.0, coarsest: float = 0.0,
    ) -> None:  # fmt: skip
        """Without `patience` an attempt: it is given up where the data are not explained, or not soon. `coarsest`: the step [s] that a first mesh has or would have, if it is not the one to begin with."""
        self.structure, self.recordings, self.unknowns, self.report = structure, recordings, list(unknowns), report
        self.noises, self.given, self.hypers, self.robust, self.remembering = noises, given, hypers, robust, remembering or {}
        self.patient, self.tell, self.step = patient, Teller(unknowns, report), 0.0
        self.history: list[Iteration] = []
        self.notes: list[str] = []
        self.hints: list[np.ndarray] = []
        """Values of the parameters that an earlier attempt has found."""
        self.without: tuple[str, ...] = ()
        """Joints of which unmodelled forces were looked for and not found."""
        self.friction = sorted(rubbing(structure.model, unknowns) - soft(structure.model, unknowns))
        """Joints, and transmissions by their path, whose dry friction is sharp."""
        self.coarsest, self.blunt, self.hold = coarsest, False, hold
        self.checkpoint: Checkpoint | None = None
        self.stage = ""

    # -- solving -----------------------------------------------------------------------------------------------------------------

    def calm(self) -> Meshes:
        """An attempt as if the model were exact."""
        noises = [n.calm() for n in self.noises]
        calm = Meshes(self.structure, self.recordings, self.unknowns, noises, self.given, (), self.robust, self.report, patient=False, coarsest=self.coarsest)
        calm.notes, calm.without = list(self.notes), self.noises[0].disturbed
        calm.checkpoint, calm.stage = self.checkpoint, f"{self.stage} without forces"
        return calm

    def pushed(self, levels: Sequence[Level]) -> bool:
        """Whether the data want forces that this attempt is without."""
        last = levels[-1]
        return not last.solution.converged or forces_wanted(last.problem, last.solution.x, last.solution.theta, self.without)

    def levels(self, base: float, theta: np.ndarray, refine: bool) -> list[Level]:
        """The solutions on one mesh after the other, from steps of `base` on, as long as halving it changes something; one, if it is not to be refined."""
        levels = self._solved_before()
        while not (levels and self._enough(levels, refine)):
            coarse = levels[-1] if levels else None
            levels.append(self.solve(base / 2 ** len(levels), theta if coarse is None else coarse.solution.theta, coarse))
            self._keep(levels)
        return levels

    def _enough(self, levels: Sequence[Level], refine: bool) -> bool:
        """Whether no finer mesh is needed, or none can be had."""
        level = levels[-1]
        if not refine or not level.solution.converged or (len(levels) > 1 and _settled(levels)) or (not self.patient and _hopeless(levels)):
            return True
        if level.problem.runs[0].h < FINEST * min(r.period for r in self.recordings) or 2 * _entries(level) > LARGEST:
            self.notes.append(_unsettled(levels))
            return True
        return False

    def _solved_before(self) -> list[Level]:
        """The meshes that an attempt which was stopped has solved, with what it knew then."""
        kept = None if self.checkpoint is None else self.checkpoint.solved(self.stage)
        if kept is None:
            return []
        levels, known = kept
        for name in KNOWN:
            setattr(self, name, known[name])
        return list(levels)

    def _keep(self, levels: Sequence[Level]) -> None:
        if self.checkpoint is not None and levels[-1].solution.converged:
            self.checkpoint.keep(self.stage, (list(levels), {name: getattr(self, name) for name in KNOWN}))

    def solve(self, h: float, theta: np.ndarray, coarse: Level | None) -> Level:
        """The solution on one mesh. Unmodelled forces last as long as a step of the first mesh, which is as coarse as the motion allows, and no less than a sampling period: what data cannot
        tell from their noise is no force."""
        self.step, self.hold = h, self.hold or max(h, min(r.period for r in self.recordings))
        noises = self.noises if coarse is None else [run.noise for run in coarse.problem.runs]
        problem = self.problem(h, noises)
        if coarse is None:
            problem, x = self.begin(problem, theta)
        else:
            problem, x = self._finer(coarse, problem, theta)
        rates = self.rms_rates(problem, x, theta)
        self.coarsest = max(h, self.coarsest)
        problem, theta = self._widths(problem, FRICTION_STAGES[1] * rates, FRICTION_STAGES[-1] * h / self.coarsest * rates, theta)
        if any(len(run.disturbed) for run in problem.runs) and bool(np.any(problem.lower < problem.upper)):
            return self._likely(problem.smoothed(FRICTION_STAGES[-1] * rates if coarse is None else self._kept(coarse)), x, theta, coarse)
        rough = bool(self.hypers) or self.robust
        problem, solution = self._rubbed(self.turning(problem, x, theta), x, theta, rates, coarse, 0.03 if rough else TOLERANCE)
        if self.robust and solution.converged:
            problem, solution = robust_loss.reweighted(problem, solution, lambda p, s: minimise(p, s.x, s.theta, Settings(tolerance=0.01), self._note))
        if self.hypers:
            problem, solution = self._turns(problem, solution)
        elif rough:
            solution = minimise(problem, solution.x, solution.theta, Settings(), self._note)
        return Level(problem, solution, self.given)

    def _rubbed(
        self, problem: Problem, x: Sequence[States], theta: np.ndarray, rates: np.ndarray, coarse: Level | None, tolerance: float
    ) -> tuple[Problem, Solution]:
        """Gauss-Newton with dry friction as sharp as this mesh resolves (`SHARPER`). The first mesh is solved with `FRICTION_STAGES` before that; where sharper friction does not converge, it stays as it was."""
        h, blunt = problem.runs[0].h, FRICTION_STAGES[-1] * rates if coarse is None else self._kept(coarse)
        if not self.friction:
            blunt = rates
        solution = self._first(problem.sharpened(blunt), x, theta, rates, tolerance) if coarse is None else None
        if not self.friction or self.blunt or h > FINER * self.coarsest or (solution is not None and not solution.converged):
            kept = problem.sharpened(blunt)
            return kept, solution or minimise(kept, x, theta, Settings(tolerance=tolerance), self._note)
        if solution is not None:
            x, theta = solution.x, solution.theta
        sharp = problem.sharpened(SHARPER * FRICTION_STAGES[-1] * h / self.coarsest * rates)
        found = minimise(sharp, x, theta, Settings(iterations=SHARPENING, tolerance=tolerance, repeats=1), self._note)
        if found.converged:
            return sharp, found
        self.blunt, kept = True, problem.sharpened(blunt, 1.0 if coarse is None else 2.0)
        return kept, solution or minimise(kept, found.x, found.theta, Settings(tolerance=tolerance), self._note)

    def _first(self, problem: Problem, x: Sequence[States], theta: np.ndarray, rates: np.ndarray, tolerance: float) -> Solution:
        """On the first mesh; if dry friction does not converge, once more from the start, smooth at first."""
        settings = Settings(iterations=SOON if not self.patient else 40 if self.friction else 60, tolerance=tolerance)
        solution = minimise(problem, x, theta, settings, self._note)
        if solution.converged or not (self.friction and self.patient):
            return solution
        for stage in FRICTION_STAGES[:-1]:
            smooth = minimise(problem.sharpened(stage * rates), x, theta, Settings(iterations=15, tolerance=0.1), self._note)
            x, theta = smooth.x, smooth.theta
        return minimise(problem, x, theta, Settings(tolerance=tolerance), self._note)

    def problem(self, h: float, noises: Sequence[noise.Noise]) -> Problem:
        """On a mesh of about h."""
        return Problem.of([Run.of(self.structure, r, h, n, self.hold) for r, n in zip(self.recordings, noises, strict=True)], self.unknowns)

    def _finer(self, coarse: Level, problem: Problem, theta: np.ndarray) -> tuple[Problem, list[States]]:
        """The problem on a finer mesh with what the coarser one has found, and its motion there."""
        runs = [replace(run, active=old.active, typical=old.typical, weights=old.weights) for run, old in zip(problem.runs, coarse.problem.runs, strict=True)]
        problem = replace(problem, runs=tuple(runs), slope=coarse.problem.slope)
        return problem, coarse.problem.carried(coarse.solution.x, problem)

    def widths(self) -> list[str]:
        """The paths of the widths that sharp friction does not have."""
        joints = [f"joint.{j.name}" for j in self.structure.model.joints if j.name in self.friction and j.kind in (HINGE, SLIDE)]
        return [f"{owner}{WIDTH}" for owner in (*joints, *(name for name in self.friction if name.startswith("transmission.")))]

    def _widths(self, problem: Problem, smooth: np.ndarray, sharp: np.ndarray, theta: np.ndarray) -> tuple[Problem, np.ndarray]:
        """Unknown widths of dry friction: none is less than `sharp`, what this mesh resolves, and one that was given as zero, where nothing would move it, begins as `smooth`."""
        names, theta, entries = owners(self.structure), theta.copy(), list(self.unknowns)
        for k, e in enumerate(entries):
            for place in e.places:
                if place.sensor is None and place.expression is None and place.path.endswith(WIDTH):
                    i = names.index(owner_of(paths.resolve(self.structure.model, place.path)))
                    theta[k] = min(max(theta[k] or smooth[i], sharp[i]), e.upper)
                    entries[k] = replace(e, lower=min(max(e.lower, sharp[i]), e.upper), initial=e.initial or theta[k], scale=max(e.scale, theta[k]))
        return replace(problem, entries=tuple(entries)), theta

    @staticmethod
    def _kept(coarse: Level) -> np.ndarray:
        """The rates of the coarser mesh below which dry friction is viscous."""
        deltas = coarse.problem.runs[0].deltas
        assert deltas is not None
        return deltas

    def _likely(self, problem: Problem, x: Sequence[States], theta: np.ndarray, coarse: Level | None) -> Level:
        """With unmodelled forces: the maximum of the marginal likelihood (`likelihood.py`)."""
        if coarse is None and not self.remembering:
            problem, self.hypers = coupled(problem, self.hypers)
        function = Likelihood(problem, self.hypers)
        spot = best_start(function, x, theta, self.hints) if coarse is None else function.found(x, theta, function.sizes(problem))
        problem, solution, spot = self._maximised(function, spot)
        for _ in range(robust_loss.REWEIGHTINGS if self.robust else 0):
            problem, change = robust_loss.weighed(problem, solution)
            if change < 0.01 or not solution.converged:
                break
            function = Likelihood(problem, self.hypers)
            problem, solution, spot = self._maximised(function, function.at(solution.x, solution.theta, function.sizes(problem)))
        return self._remembering(Level(problem, solution, self.given, (function, spot)))

    def _remembering(self, level: Level) -> Level:
        """With forces that have a memory instead of white ones, where they are asked for; the finer meshes begin with what was found.

        They are never taken unasked: on real machines what is slow is mostly friction that is not of the modelled kind. It depends on the motion, which noise does not, and a likelihood that takes it for
        noise with a memory prefers wrong parameters by far (docs: machines).
        """
        assert level.likely is not None
        _, white = level.likely
        joints = [joint for joint in self.remembering if joint not in white.problem.runs[0].noise.slow]
        if not (joints and level.solution.converged):
            return level
        times = {joint: time for joint, time in self.remembering.items() if time is not None}
        self.hypers = [h for h in self.hypers if not (h.process and h.name in joints)]
        self.hypers += [h for joint in joints for h in slow_hypers(white.problem, joint) if not (h.memory and joint in times)]
        function, spot = with_memory(white, self.hypers, joints, times)
        problem, solution, spot = self._maximised(function, spot)
        return Level(problem, solution, self.given, (function, spot))

    def _maximised(self, function: Likelihood, spot: Spot) -> tuple[Problem, Solution, Spot]:
        found = maximise(function, spot, self._note)
        problem = replace(found.spot.problem, slope=0.0 if found.last is None else found.last.slope[: function.p])
        return problem, Solution(found.spot.x, found.spot.theta, found.status, found.spot.cost, self.history, None), found.spot

    def _turns(self, problem: Problem, solution: Solution) -> tuple[Problem, Solution]:
        """Motion and parameters, then the channels' noise, until neither changes."""
        change, past = 0.0, {}
        for _ in range(ROUNDS):
            before = solution.theta
            updated = marginal.update(problem, solution.x, before, self.hypers, past)
            problem, change, past = updated.problem, updated.change, updated.past
            solution = minimise(problem, updated.x, before, Settings(iterations=20, tolerance=0.01), self._note)
            last = solution.last
            moved = solution.theta - before
            distance = float(np.sqrt(max(moved @ last.information @ moved, 0.0))) if last is not None else np.inf
            if solution.converged and change < NOISE_SETTLED and distance < NOISE_SETTLED:
                return problem, minimise(problem, solution.x, solution.theta, Settings(), self._note)
        if solution.converged:
            solution.status = f"stopped after {ROUNDS} turns between motion and noise; the noise still changed by {100 * change:.1f} %."
        return problem, solution

    def _note(self, iteration: Iteration) -> None:
        stage = FORCED if any(hyper.process for hyper in self.hypers) else NOISY if self.hypers else EXACT
        self.history.append(self.tell(iteration, stage, self.step))

    @one_thread
    def begin(self, problem: Problem, theta: np.ndarray) -> tuple[Problem, list[States]]:
        """The first motion of all runs, and the problem with the constraints, typical forces, weights and process noise that it tells."""
        both = spread(lambda r: self._begin(problem, r, theta), len(problem.runs))
        problem, x = replace(problem, runs=tuple(run for run, _ in both)), [states for _, states in both]
        if any(h.process for h in self.hypers):
            problem = self._loosened(problem, x, theta)
        return problem, x

    def _begin(self, problem: Problem, r: int, theta: np.ndarray) -> tuple[Run, States]:
        run = problem.runs[r]
        model, numbers, sensors = problem.model_of(r, theta)
        if run.structure.nc:
            run = replace(run, active=independent(run.structure, numbers, resting(run.structure, model)))
        begun = run
        run, states = first_motion(begun, model, numbers, sensors, self.robust)
        if run.structure.nc:
            active = host.independent_along(run.structure, numbers, states.q, resting(run.structure, model))
            if not np.array_equal(active, run.active):  # drawn in a pose in which more equations depend on each other than along the motion
                run, states = first_motion(replace(begun, active=active), model, numbers, sensors, self.robust)
        states = multipliers_of(run, model, numbers, states)
        if len(run.ringing):
            size = np.sqrt((states.multipliers**2).mean(axis=1))
            run = replace(run, typical=np.maximum(size, max(float(size.max()), 1e-9) * 1e-3))
        return run, states

    def _loosened(self, problem: Problem, x: Sequence[States], theta: np.ndarray) -> Problem:
        """With a first guess of the process noise: part of what the first motion lacks in force, the largest of all runs."""
        density = {joint: max(given, 1e-30) for joint, given in problem.runs[0].noise.density.items()}
        for r, (run, states) in enumerate(zip(problem.runs, x, strict=True)):
            missing = problem.lacking(r, states, theta)
            for k, (joint, _) in enumerate(run.disturbed):
                if joint in density:
                    density[joint] = max(density[joint], LOOSE**2 * float(np.mean(missing[k] ** 2)) * run.h)
        return problem.with_noise([replace(run.noise, density=density) for run in problem.runs])

    def turning(self, problem: Problem, x: Sequence[States], theta: np.ndarray) -> Problem:
        """With sharp dry friction that is viscous at least below half of what the rate changes by from one interval to the next.

        Where a joint turns round within an interval, with the acceleration a, the mean of the sign of its rate over the interval is `clip(rho/(a h/2), -1, 1)`, rho the mean
        rate: with `delta = a h/2` the impulse of the interval is that of friction without any width, and dry friction is of second order in h as everything else is. And the ramps of successive intervals,
        which are a h apart and as wide, add up to a straight line: the impulse of a reversal is linear in its time, whichever interval it is in, and Gauss-Newton does not see where one
        interval ends. (The bend of the law, `law.py`, keeps that: its slope is one box folded with another.) Narrower ramps are jumped over, wider ones move the reversal.
        """
        runs = []
        for run, rates in zip(problem.runs, self._rates(problem, x, theta), strict=True):
            change = np.pad(np.abs(np.diff(rates, axis=1)), ((0, 0), (1, 1)), mode="edge")
            runs.append(replace(run, turning=0.5 * np.maximum(change[:, 1:], change[:, :-1])))
        return replace(problem, runs=tuple(runs))

    def rms_rates(self, problem: Problem, x: list[States], theta: np.ndarray) -> np.ndarray:
        """Of every scalar coordinate over all runs [rad/s, m/s]; one that hardly moves counts as a hundredth of the fastest."""
        squares = [np.mean(rates**2, axis=1) for rates in self._rates(problem, x, theta)]
        rates = np.sqrt(np.mean(squares, axis=0))
        return np.maximum(rates, max(0.01 * float(rates.max(initial=0.0)), 1e-6))

    @staticmethod
    def _rates(problem: Problem, x: Sequence[States], theta: np.ndarray) -> Iterator[np.ndarray]:
        """(scalar coordinates, intervals) of every run."""
        for r, run in enumerate(problem.runs):
            model, numbers, _ = problem.model_of(r, theta)
            yield interval_rates(problem.frames(r, x[r], model, numbers), run.h)[1]

    # -- result ------------------------------------------------------------------------------------------------------------------

    def result(self, levels: Sequence[Level], seconds: float, halved: bool = False) -> Result:
        """What was found; `halved`: on a mesh that was given, with what half of its step would change."""
        problem, solution, found = levels[-1].problem, levels[-1].solution, levels[-1].final
        mesh = Mesh(problem.runs[0].h, len(levels) - 1)
        values = [level.values for level in levels]
        error = self._by_halving(levels[-1]) if halved and solution.converged else _discretisation(values, _second_order(values))
        determined = self._with_mesh_error(found.analysis.determined, [level.solution.theta for level in levels], _second_order(values))
        found = replace(found, analysis=replace(found.analysis, determined=determined))
        again = partial(_again, self.structure, noise.known(problem.runs[0].noise), mesh.h, self.hold, self.coarsest)
        comparison = compared(problem, solution, found) if levels[-1].likely is not None and self.hypers and solution.converged else None
        self.notes += [
            *self._stated(levels[-1]),
            *_common(together(problem.runs[0])),
            *self._slow(levels[-1]),
            *_apart(comparison),
            *(self._too_coarse(levels[-1], error) if halved and error is not None else ()),
        ]
        return outcome(
            problem,
            solution,
            found,
            recordings=self.recordings,
            given=self.given,
            history=self.history,
            mesh=mesh,
            error=error,
            notes=self.notes,
            seconds=seconds,
            process_noise=self._process_noise(problem),
            slow_forces=self._slow_forces(problem),
            forces_together=together(problem.runs[0]),
            force_tests={} if levels[-1].bars is None else levels[-1].bars.slow,
            without_forces=comparison,
            again=again,
            lacks=self._lacks(levels),
            limits=limits(problem, solution.x, solution.theta, found) if solution.converged else None,
            hypers=self.hypers,
        )

    def _by_halving(self, level: Level) -> np.ndarray | None:
        """By how much every number reported would move on a mesh of half the step: one Gauss-Newton step there, from the motion of this one. None where that mesh is too large."""
        old, theta = level.problem, level.solution.theta
        if 2 * _entries(level) > LARGEST or not len(theta):
            return None
        problem, x = self._finer(level, self.problem(0.5 * old.runs[0].h, [run.noise for run in old.runs]), theta)
        # and with friction as sharp as a fit would have it there
        sharper = 1.0 if self.blunt or not self.friction else 0.5 if old.runs[0].h <= FINER * self.coarsest else 0.5 * SHARPER
        runs = [replace(run, deltas=None if o.deltas is None else sharper * o.deltas, smooth=o.smooth) for run, o in zip(problem.runs, old.runs, strict=True)]
        problem = replace(problem, runs=tuple(runs))
        if old.runs[0].turning is not None:
            problem = self.turning(problem, x, theta)
        try:
            taken = step(problem.linearise(x, theta), theta, problem.lower, problem.upper, 1.0 / problem.scale**2, problem.scale, problem.slope)
        except NumericalError:
            return None
        return np.abs(reported(problem.entries, problem.shift(theta, taken.parameters)).values - level.values)

    @staticmethod
    def _too_coarse(level: Level, moved: np.ndarray) -> list[str]:
        sd = level.final.sd
        ratio = np.where(np.isfinite(sd) & (sd > 0.0), moved / np.maximum(sd, 1e-300), 0.0)
        worst, h = int(np.argmax(ratio)), 1e3 * level.problem.runs[0].h
        if ratio[worst] <= MOVES:
            return []
        return [
            f"On a mesh of half the step ({0.5 * h:.3g} ms instead of {h:.3g} ms) {level.found.reported.names[worst]} would move by {ratio[worst]:.2g} of its standard deviation; "
            "give a smaller h, or leave it out."
        ]

    def _stated(self, level: Level) -> list[str]:
        """Channels whose noise is not as stated: larger than the least that it was taken to be, or smaller."""
        out, asked = [], {} if level.bars is None else level.bars.asked
        for hyper in self.hypers:
            if hyper.process or not np.isfinite(hyper.lower):
                continue
            found, stated = float(np.exp(hyper.log_sd(level.problem))), float(np.exp(hyper.lower))
            if found > LARGER * stated:
                out.append(f"The noise of {hyper.name} was stated as {stated:.2g}, which is the least it was taken to be, and found to be {found:.2g}.")
            elif asked.get(hyper.name, stated) < stated / LARGER:
                out.append(
                    f"The noise of {hyper.name} was stated as {stated:.2g}, which is the least it was taken to be; by these data it is about {asked[hyper.name]:.1g}. State that, or leave it out."
                )
        return out

    @staticmethod
    def _slow(level: Level) -> list[str]:
        """Joints whose unmodelled force is not the noise it was taken to be."""
        found = {} if level.bars is None else level.bars.slow
        return [
            f"{FORCE_NOT_WHITE}: that of joint {joint} (chi2 {slow.chi2:.0f} for {slow.dof} degrees of freedom) is slow; a constant or slow force is missing (tilt, offset, "
            "friction, a cable); the error bars allow for its scatter, not for the bias it causes."
            for joint, slow in found.items()
            if slow.slow
        ]

    def _lacks(self, levels: Sequence[Level]) -> tuple[Suspect, ...]:
        """What the model lacks, on the finest mesh whose columns for all suspects fit, or the one before the last if halving that moved nothing much."""
        enough = levels[:-1] if len(levels) > 1 and _settled(levels) else levels
        fitting = [level for level in enough if level.solution.converged and _entries(level) <= LARGEST / 4]
        if not fitting or not levels[-1].solution.converged:
            return ()
        level = fitting[-1]
        return suspects(level.problem, level.solution.x, level.solution.theta, levels[-1].found)

    def _with_mesh_error(self, determined: Sequence[Determined], thetas: Sequence[np.ndarray], regular: bool) -> tuple[Determined, ...]:
        """Sums with the discretisation error of what is printed."""
        if len(thetas) < 2:
            return tuple(determined)
        names = reported(self.unknowns, thetas[-1], linear=True).names
        numbers = [dict(zip(names, values_of(self.unknowns, theta, linear=True), strict=True)) for theta in thetas]
        out = []
        for d in determined:
            error = _discretisation([np.array([sum(c * n[name] for name, c in d.terms)]) for n in numbers], regular)
            out.append(replace(d, discretisation_error=float(error[0])) if d.terms and error is not None else d)
        return tuple(out)

    def _process_noise(self, problem: Problem) -> dict[str, float]:
        """Standard deviation of the white unmodelled force of each joint, if it is drawn anew every sampling period."""
        period, run = min(r.period for r in self.recordings), problem.runs[0]
        white = np.diag(covariance(run)) * run.held / period
        sizes = {joint: float(np.sqrt(v)) for (joint, _), v, slow in zip(run.disturbed, white, run.remembering, strict=True) if not slow}
        return dict.fromkeys(self.without, 0.0) | sizes

    @staticmethod
    def _slow_forces(problem: Problem) -> dict[str, SlowForce]:
        """The unmodelled forces with a memory: of density S and correlation time tau, their variance is S/(2 tau)."""
        found = problem.runs[0].noise
        return {joint: SlowForce(float(np.sqrt(0.5 * density / found.memory[joint])), found.memory[joint]) for joint, density in found.slow.items()}


def _common(found: Sequence[ForcesTogether]) -> list[str]:
    """Forces that have a cause in common."""
    return [
        f"The unmodelled forces of the joints {t.joints[0]} and {t.joints[1]} go together (correlation {t.correlation:.2f}): what is missing acts on both (a frame that shakes, a link that bends, "
        "a belt or a cable across)."
        for t in found
        if abs(t.correlation) > TOGETHER
    ]


def _apart(comparison: Comparison | None) -> list[str]:
    """Where a fit without unmodelled forces says something else, or nothing."""
    if comparison is None:
        return []
    if comparison.status != "converged":
        return ["A fit without unmodelled forces, begun at these estimates, did not converge: whether they depend on those forces could not be seen."]
    name, apart = comparison.largest
    if abs(apart) <= APART:
        return []
    value, sd = comparison.values[name], comparison.sds[name]
    return [
        f"{FORCES_DECIDE}: without those {name} would be {value:.4g} +- {sd:.2g}, which is {abs(apart):.1f} standard deviations of the difference {'above' if apart > 0 else 'below'}. "
        "What is taken for their noise is none, or the motion tells too little: neither value is to be trusted by its error bar."
    ]


def _again(
    structure: Structure, forces: noise.Forces, h: float, hold: float, coarsest: float, recording: Recording, unknowns: Sequence[Entry], theta: np.ndarray
) -> Result:
    """Another recording with the same structure, process noise and mesh."""
    found, given, _ = noise.noises([recording], forces)
    return refit(structure, recording, unknowns, theta, found, given, h, hold, coarsest)


def _second_order(thetas: Sequence[np.ndarray]) -> bool:
    """Whether halving the mesh made the changes about four times smaller, those of two numbers in three: that one's did means nothing."""
    if len(thetas) < 3:
        return False
    last, before = np.abs(thetas[-1] - thetas[-2]), np.abs(thetas[-2] - thetas[-3])
    return bool(np.mean((before > 3.0 * last) & (before < 5.0 * last)) > 0.66)


def _discretisation(thetas: Sequence[np.ndarray], regular: bool) -> np.ndarray | None:
    """Error of the finest mesh from what halving it has changed, twice if it was halved twice: the last change can be small by chance. None for one mesh.

    `(theta_h - theta_2h)/3` where changes shrink by four (`regular`); else the change itself, as if they shrank by two.
    """
    if len(thetas) < 2:
        return None
    last = np.abs(thetas[-1] - thetas[-2])
    before = np.abs(thetas[-2] - thetas[-3]) if len(thetas) > 2 else np.zeros_like(last)
    return np.maximum(last, before / 4.0) / 3.0 if regular else np.maximum(last, before / 2.0)
