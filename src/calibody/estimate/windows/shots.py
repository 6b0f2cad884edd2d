"""Shooting on the variational stepper: transcription's problem, of which only the starts of windows are free (`solve/windows.py`).

A window begins with two nodes. The equations of the nodes before the next window's two are solved by the stepper (`steppers/resume.py`); those of the two nodes at its end, in which the next window's
nodes stand already, are the matching rows. Data, unknowns, noise, error bars and what cannot be told are transcription's, because the problem is: on the same mesh both find the same numbers. Contacts
and limits do not act, which the result says (those of MuJoCo's engine act in `stepper = "mujoco"`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import told
from calibody.estimate import foresee as forecast
from calibody.estimate.concluded import concluded
from calibody.estimate.contacts.touching import NONE
from calibody.estimate.dry import FRICTION_STAGES, rms_rates
from calibody.estimate.layout import NODES, States
from calibody.estimate.level import Level
from calibody.estimate.mesh import refuse_step
from calibody.estimate.meshes import TOLERANCE, Meshes
from calibody.estimate.problem import Problem, owners
from calibody.estimate.recipe import prepared
from calibody.estimate.reported import theta_of
from calibody.estimate.telling import ALONE, NO_START, SHOT
from calibody.estimate.windows.adjoint import descend
from calibody.estimate.windows.cut import SHORTEST
from calibody.estimate.windows.long_fit import is_long, long
from calibody.estimate.windows.resumed import rolled
from calibody.solve.gauss_newton import Iteration, Settings, Solution, minimise
from calibody.solve.threads import spread
from calibody.solve.windows import Windows, bounds_of, unrolled

if TYPE_CHECKING:
    from calibody.estimate.estimator import Report, Unknowns
    from calibody.estimate.identifiability import Identifiability
    from calibody.estimate.result import Result
    from calibody.estimate.shooting import Shooting
    from calibody.model import Model
    from calibody.recording.recording import Recording


@told()
def shoot(
    model: Model, recordings: Sequence[Recording], unknowns: Unknowns, asked: Shooting, report: Report | None = None, start: Mapping[str, float] | None = None
) -> Result:
    began = time.perf_counter()
    h = _step(recordings, asked)
    worker, _ = prepared(model, recordings, unknowns, "none", asked.coordinates, h, report=report, contacts=NONE, kind=Shots)
    worker.asked, worker.globalisation = asked, asked.steps
    if is_long(worker, h, asked):
        return long(worker, h, theta_of(worker.unknowns, start or {}), asked, began)
    levels = worker.levels(h, theta_of(worker.unknowns, start or {}), refine=False)
    return concluded(worker, levels, time.perf_counter() - began, halved=True)


def refuse(model: Model, recordings: Sequence[Recording], unknowns: Unknowns, asked: Shooting) -> None:
    forecast.refuse(model, recordings, unknowns, "none", asked.coordinates, _step(recordings, asked), contacts=NONE)


def foresee(model: Model, recordings: Sequence[Recording], unknowns: Unknowns, asked: Shooting) -> Identifiability:
    return forecast.foresee(model, recordings, unknowns, coordinates=asked.coordinates, contacts=NONE)


def _step(recordings: Sequence[Recording], asked: Shooting) -> float:
    h = min(r.period for r in recordings) if asked.h is None else asked.h
    refuse_step(h, recordings)
    return h


class Shots(Meshes):
    """One mesh, solved by shooting."""

    asked: Shooting

    def solve(self, h: float, theta: np.ndarray, coarse: Level | None) -> Level:
        self.step, self.hold = h, h
        problem, x = self.begin(self.problem(h, self.noises), theta)
        problem = sharpened(problem, x, theta, self.asked.friction_rate)
        solution = self.shot(problem, x, theta)
        if self.hypers and solution.converged:
            problem, solution = self._turns(problem, solution)
        return Level(problem, solution, self.given)

    def shot(self, problem: Problem, x: Sequence[States], theta: np.ndarray) -> Solution:
        """Gauss-Newton, or by the adjoint gradient, from the starts of windows in x."""
        windows = windowed(problem, self.asked)
        first = windows.begun(x, theta)
        if first is None:
            return Solution(list(x), theta, NO_START, 0.5 * float(np.sum(problem.values(x, theta)[0] ** 2)), [], None)
        if self.asked.gradient == "adjoint":
            return descend(windows, first, theta, self._note)
        tolerance = 0.03 if self.hypers else TOLERANCE
        solution = unrolled(minimise(windows, first, theta, Settings(tolerance=tolerance, globalisation=self.globalisation), self._note))
        if not solution.converged and self.asked.windows == 1:
            solution.status += ALONE
        return solution

    def _note(self, iteration: Iteration) -> None:
        self.history.append(self.tell(iteration, SHOT, self.step))


def sharpened(problem: Problem, x: Sequence[States], theta: np.ndarray, friction_rate: float | None = None) -> Problem:
    """With dry friction as a stepper has it: viscous below one rate everywhere."""
    width = friction_rate or FRICTION_STAGES[-1] * float(rms_rates(problem, list(x), theta).min(initial=1.0))
    runs = tuple(replace(run, deltas=np.full(len(owners(run.structure)), width), turning=None) for run in problem.runs)
    return replace(problem, runs=runs)


def windowed(problem: Problem, asked: Shooting) -> Windows:
    """The problem as one of the starts of windows, as many as asked for."""
    bounds = [bounds_of(run.K, asked.count(run.K - 1), SHORTEST) for run in problem.runs]

    def roll(x: Sequence[States], theta: np.ndarray) -> list[States] | None:
        found = spread(lambda r: rolled(problem, r, x[r], theta, bounds[r]), len(problem.runs))
        return None if any(states is None for states in found) else found  # pyright: ignore[reportReturnType]

    starts = [np.zeros(run.layout.size) for run in problem.runs]
    for one, run, ends in zip(starts, problem.runs, bounds, strict=True):
        nodes = one[run.layout.place[NODES]].reshape(run.K, run.structure.nv)
        nodes[ends[:-1]] = nodes[ends[:-1] + 1] = 1.0
    return Windows(problem, roll, np.concatenate(starts))
