"""Solutions of transcription on one mesh after the other: how the motion, the parameters and the noise are found on each.

What is done in which order is the recipe's (`recipe.py`), what it amounts to is concluded at the end (`concluded.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from calibody.errors import NumericalError
from calibody.estimate import robust as robust_loss
from calibody.estimate.contacts.proposals import Proposed, hinted
from calibody.estimate.contacts.sequence import ALIKE, searched, told_of
from calibody.estimate.contacts.touching import Touching, refined
from calibody.estimate.dry import FINER, FRICTION_STAGES, SHARPER, rms_rates, turning, unknown_widths
from calibody.estimate.estimator import Checkpoint
from calibody.estimate.first import begun
from calibody.estimate.from_start import led
from calibody.estimate.layout import States
from calibody.estimate.level import Level, hopeless, settled, unsettled
from calibody.estimate.missing.outlying import explained
from calibody.estimate.noise import given as noise, marginal
from calibody.estimate.noise.beginning import best_start, slow_hypers, with_memory
from calibody.estimate.noise.coupling import coupled
from calibody.estimate.noise.hyper import Hyper, MemoryTime
from calibody.estimate.noise.likelihood import Likelihood, Spot
from calibody.estimate.noise.maximise import maximise
from calibody.estimate.noise.unforced import forces_wanted
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.estimate.telling import EXACT, FORCED, NOISY, Teller
from calibody.estimate.unknowns import WIDTH, Entry, rubbing, soft
from calibody.mechanics.structure import Structure
from calibody.model.elements import HINGE, SLIDE
from calibody.recording.recording import Recording
from calibody.solve.gauss_newton import Iteration, Settings, Solution, minimise
from calibody.solve.globalisation import Globalisation

SOON = 25
"""Most steps on the coarsest mesh of an attempt without unmodelled forces."""
SHARPENING = 20
"""Most steps with it; if they do not converge, friction stays as it was on the coarser mesh."""
TOLERANCE = 1e-2
"""A mesh is solved when a step moves the parameters by less than this many standard deviations; steps converge quadratically, so what is left is less."""
FINEST = 0.07
"""Sampling periods between the nodes of the finest mesh: the period halved four times."""
ROUNDS = 40
"""Most turns between the motion and its noise."""
NOISE_SETTLED = 0.03
"""Relative change of a standard deviation of noise, and of the parameters in their own sd, that ends those turns."""
DEARER = 1.1
"""Times as large as before (and `ALIKE` more) the cost may be with an impact more where the motion went through something, or one less that pulled: beyond, it explains nothing."""
KNOWN = ("history", "notes", "hypers", "coarsest", "blunt", "hold")
"""What `Meshes` has learnt on coarser meshes."""


class Meshes:
    def __init__(
        self, structure: Structure, recordings: Sequence[Recording], unknowns: Sequence[Entry], noises: Sequence[noise.Noise], given: bool,
        hypers: Sequence[Hyper] = (), robust: bool = False, report: Callable[[Iteration], None] | None = None, patient: bool = True,
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
        self.tried: Level | None = None
        """The solution of an earlier attempt without unmodelled forces."""
        self.checkpoint: Checkpoint | None = None
        self.stage = ""
        self.driven: frozenset[str] = frozenset()
        """Joints whose drive is unknown: forces that are an answer."""
        self.touching = Touching()
        """Contacts and limits that act."""
        self.proposed: dict[int, Proposed] = {}
        """Of runs whose impacts were searched by simulation, what was found."""
        self.globalisation = Globalisation()
        """How long steps are."""

    def calm(self) -> Meshes:
        """An attempt as if the model were exact."""
        noises = [n.calm() for n in self.noises]
        calm = Meshes(self.structure, self.recordings, self.unknowns, noises, self.given, (), self.robust, self.report, patient=False, coarsest=self.coarsest)
        calm.notes, calm.without = list(self.notes), self.noises[0].disturbed
        calm.checkpoint, calm.stage, calm.touching, calm.globalisation = self.checkpoint, f"{self.stage} without forces", self.touching, self.globalisation
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
        if not refine or not level.solution.converged or (len(levels) > 1 and settled(levels)) or (not self.patient and hopeless(levels)):
            return True
        if level.problem.runs[0].h < FINEST * min(r.period for r in self.recordings) or not level.halvable:
            self.notes.append(unsettled(levels))
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
            theta = hinted(problem, theta, self.proposed)
        else:
            problem, x = self.finer(coarse, problem, theta)
        rates = rms_rates(problem, x, theta)
        self.coarsest = max(h, self.coarsest)
        problem, theta = unknown_widths(problem, self.unknowns, FRICTION_STAGES[1] * rates, FRICTION_STAGES[-1] * h / self.coarsest * rates, theta)
        if any(len(run.disturbed) for run in problem.runs) and (self.remembering or bool(np.any(problem.lower < problem.upper))):
            return self._likely(problem.smoothed(FRICTION_STAGES[-1] * rates if coarse is None else self._kept(coarse)), x, theta, coarse)
        rough = bool(self.hypers) or self.robust
        first = turning(problem, x, theta)
        problem, solution = self._rubbed(first, x, theta, rates, coarse, 0.03 if rough else TOLERANCE)
        if coarse is None and self.touching.act:
            first = first.sharpened(FRICTION_STAGES[-1] * rates if self.friction else rates)
            problem, solution = self._explained(first, x, theta, solution, Settings(tolerance=0.03 if rough else TOLERANCE))
        if self.robust and solution.converged:
            problem, solution = robust_loss.reweighted(problem, solution, lambda p, s: self._tried(p, s.x, s.theta, Settings(tolerance=0.01)))
        if self.hypers:
            problem, solution = self._turns(problem, solution)
        elif rough:
            solution = self._minimised(problem, solution.x, solution.theta, Settings())
        return Level(solution.problem, solution, self.given)

    def _explained(self, first: Problem, x: Sequence[States], theta: np.ndarray, solution: Solution, settings: Settings) -> tuple[Problem, Solution]:
        """With other impacts where these do not explain the data; `first`: what it began with."""
        if len(first.runs) > 1 and self.proposed:
            solution, cuts = explained(self.touching, (first, x), solution, theta, self._minimised, settings, self.proposed)
            self.notes += [cut.told(self.recordings[cut.run].name) for cut in cuts]
            self.recordings = [run.recording for run in solution.problem.runs] if cuts else self.recordings
        else:
            solution, others = searched(self.touching, (first, x), solution, theta, self._minimised, settings, self.given, self.proposed)
            self.notes += map(told_of, others)
        return solution.problem, solution

    def _minimised(self, problem: Problem, x: Sequence[States], theta: np.ndarray, settings: Settings) -> Solution:
        """Gauss-Newton; again with an impact more where the motion goes through something."""
        with np.errstate(all="ignore" if self.touching.act else None):  # a wrong sequence of impacts may lead anywhere
            solution = self._tried(problem, x, theta, settings)
            known = self.proposed if len(problem.runs) > 1 else ()
            for _ in range(self.touching.rounds):
                more = self.touching.completed(solution, known) if solution.converged else None
                if more is None:
                    break
                new = self._tried(more[0], more[1], solution.theta, settings)
                if not new.converged or new.cost > DEARER * solution.cost + ALIKE:  # what is still in the way is said at the end
                    break
                solution = new
        return solution

    def _tried(self, problem: Problem, x: Sequence[States], theta: np.ndarray, settings: Settings) -> Solution:
        """Gauss-Newton; impacts that no equations can have are a fit that did not converge, not a failure."""
        try:
            return minimise(problem, x, theta, replace(settings, globalisation=self.globalisation), self._note)
        except NumericalError:
            if not problem.struck:
                raise
            F = problem.values(x, theta)[0]
            return Solution(list(x), theta, "stopped: no motion has such a sequence of impacts.", 0.5 * float(F @ F), [], None, problem)

    def _rubbed(
        self, problem: Problem, x: Sequence[States], theta: np.ndarray, rates: np.ndarray, coarse: Level | None, tolerance: float
    ) -> tuple[Problem, Solution]:
        """Gauss-Newton with dry friction as sharp as this mesh resolves (`SHARPER`). The first mesh is solved with `FRICTION_STAGES` before that; where sharper friction does not converge, it stays as it was."""
        h, blunt = problem.runs[0].h, FRICTION_STAGES[-1] * rates if coarse is None else self._kept(coarse)
        if not self.friction:
            blunt = rates
        solution = self._first(problem.sharpened(blunt), x, theta, rates, tolerance) if coarse is None else None
        if not self.friction or self.blunt or h > FINER * self.coarsest or (solution is not None and not solution.converged):
            solution = solution or self._minimised(problem.sharpened(blunt), x, theta, Settings(tolerance=tolerance))
            return solution.problem, solution
        if solution is not None:
            problem, x, theta = solution.problem, solution.x, solution.theta
        sharp = problem.sharpened(SHARPER * FRICTION_STAGES[-1] * h / self.coarsest * rates)
        found = self._minimised(sharp, x, theta, Settings(iterations=SHARPENING, tolerance=tolerance, repeats=1))
        if found.converged:
            return found.problem, found
        self.blunt = True
        if solution is None:
            solution = self._minimised(found.problem.sharpened(blunt, 2.0), found.x, found.theta, Settings(tolerance=tolerance))
        return solution.problem, solution

    def _first(self, problem: Problem, x: Sequence[States], theta: np.ndarray, rates: np.ndarray, tolerance: float) -> Solution:
        """On the first mesh; if dry friction does not converge, once more from the start, smooth at first."""
        settings = Settings(iterations=SOON if not self.patient else 40 if self.friction else 60, tolerance=tolerance)
        solution = self._minimised(problem, x, theta, settings)
        if solution.converged or not (self.friction and self.patient):
            return solution
        sharp = [run.deltas for run in problem.runs]
        for stage in FRICTION_STAGES[:-1]:
            smooth = self._minimised(problem.sharpened(stage * rates), x, theta, Settings(iterations=15, tolerance=0.1))
            problem, x, theta = smooth.problem, smooth.x, smooth.theta
        assert sharp[0] is not None
        return self._minimised(problem.sharpened(sharp[0]), x, theta, Settings(tolerance=tolerance))

    def problem(self, h: float, noises: Sequence[noise.Noise]) -> Problem:
        """On a mesh of about h."""
        runs = [Run.of(self.structure, r, h, n, self.hold) for r, n in zip(self.recordings, noises, strict=True)]
        return replace(Problem.of(runs, self.unknowns), touching=self.touching.act)

    def finer(self, coarse: Level, problem: Problem, theta: np.ndarray) -> tuple[Problem, list[States]]:
        """The problem on a finer mesh with what the coarser one has found, and its motion there."""
        runs = [
            refined(replace(run, active=old.active, implied=old.implied, choices=old.choices, typical=old.typical), old)
            for run, old in zip(problem.runs, coarse.problem.runs, strict=True)
        ]
        problem = replace(problem, runs=tuple(runs), slope=coarse.problem.slope)
        return problem, coarse.problem.carried(coarse.solution.x, problem)

    def widths(self) -> list[str]:
        """The paths of the widths that sharp friction does not have."""
        joints = [f"joint.{j.name}" for j in self.structure.model.joints if j.name in self.friction and j.kind in (HINGE, SLIDE)]
        return [f"{owner}{WIDTH}" for owner in (*joints, *(name for name in self.friction if name.startswith(("transmission.", "path."))))]

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
        self.hypers += [h for joint in joints for h in slow_hypers(white.problem, joint) if not (isinstance(h, MemoryTime) and joint in times)]
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
            solution = self._minimised(problem, updated.x, before, Settings(iterations=20, tolerance=0.01))
            problem, last = solution.problem, solution.last
            moved = solution.theta - before
            distance = float(np.sqrt(max(moved @ last.information @ moved, 0.0))) if last is not None else np.inf
            if solution.converged and change < NOISE_SETTLED and distance < NOISE_SETTLED:
                solution = self._minimised(problem, solution.x, solution.theta, Settings())
                return solution.problem, solution
        if solution.converged:
            solution.status = f"stopped after {ROUNDS} turns between motion and noise; the noise still changed by {100 * change:.1f} %."
        return problem, solution

    def _note(self, iteration: Iteration) -> None:
        stage = FORCED if any(hyper.process for hyper in self.hypers) else NOISY if self.hypers else EXACT
        self.history.append(self.tell(iteration, stage, self.step))

    def begin(self, problem: Problem, theta: np.ndarray) -> tuple[Problem, list[States]]:
        """The first motion of all runs, and the problem with what it tells."""
        problem, x = begun(problem, theta, self.robust, any(h.process for h in self.hypers), led=not self.touching.act)
        if not self.touching.act:
            return problem, led(problem, x, theta)
        self.touching.refuse_inside(problem, x, theta)
        self.proposed = self.touching.proposed(problem, x, theta)
        return self.touching.begun(problem, x, theta, self.proposed)
