"""A solution of a fit by transcription as a value of its own, on any mesh: where else the same data may have one, and on which mesh its posterior is drawn.

What the mesh changes is where the posterior lies, hardly its shape: it is drawn on the coarsest mesh whose information agrees with that of the fit's, and seen through the difference of the two solutions (`target.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.channels import transcribed
from calibody.estimate.dry import turning
from calibody.estimate.layout import States
from calibody.estimate.meshes import Meshes
from calibody.estimate.problem import Problem
from calibody.estimate.uncertainty import stepped
from calibody.solve.gauss_newton import Settings, minimise
from calibody.solve.threads import one_thread

if TYPE_CHECKING:
    from calibody.estimate.noise.hyper import Hyper
    from calibody.estimate.result import Result
    from calibody.recording.recording import Recording

ALIKE = 0.05
"""Relative difference of error bars, along any direction, up to which the information of two meshes agrees."""
STEPS = 30
"""Most steps of a solution on another mesh, which begins where it ended on the last."""


@dataclass(frozen=True, eq=False)
class Solved:
    """Parameters and motion that fit recordings, locally best."""

    problem: Problem
    x: tuple[States, ...]
    theta: np.ndarray

    @property
    def h(self) -> float:
        return self.problem.runs[0].h

    @property
    def forced(self) -> bool:
        """Whether there are unmodelled forces."""
        return any(len(run.disturbed) for run in self.problem.runs)

    @property
    def struck(self) -> bool:
        """Whether there are impacts."""
        return self.problem.struck

    @one_thread
    def information(self) -> np.ndarray:
        return np.asarray(stepped(self.problem, self.x, self.theta)[1].information)


@dataclass(frozen=True, eq=False)
class Setting:
    """What all solutions of a fit have in common: what another needs to be found."""

    recordings: tuple[Recording, ...]
    given: bool
    hypers: tuple[Hyper, ...]
    coarsest: float
    """Step of the first mesh of the fit [s]."""

    @classmethod
    def of(cls, result: Result) -> Setting:
        return cls(result.recordings, result.noise_given, result.hypers, result.mesh.h * 2**result.mesh.refinements)

    def worker(self, problem: Problem, hypers: bool) -> Meshes:
        noises = [run.noise for run in problem.runs]
        return Meshes(
            problem.runs[0].structure, self.recordings, problem.entries, noises, self.given, self.hypers if hypers else (), hold=problem.runs[0].hold, coarsest=self.coarsest
        )  # fmt: skip

    def carried(self, solved: Solved, h: float) -> Solved | None:
        """A solution on another mesh, with noise as it is; None where it is lost on the way there."""
        old, theta = solved.problem, solved.theta
        if abs(h / solved.h - 1.0) < 1e-6:
            return solved
        worker = self.worker(old, hypers=False)
        problem = worker.problem(h, worker.noises)
        wider = h / solved.h  # dry friction is as sharp as a mesh resolves
        runs = [
            replace(
                run,
                active=o.active,
                implied=o.implied,
                choices=o.choices,
                typical=o.typical,
                weights=o.weights,
                smooth=o.smooth,
                deltas=None if o.deltas is None else wider * o.deltas,
            )
            for run, o in zip(problem.runs, old.runs, strict=True)
        ]
        problem = replace(problem, runs=tuple(runs), slope=old.slope)
        x = old.carried(solved.x, problem)
        try:
            if old.runs[0].turning is not None:
                problem = turning(problem, x, theta)
            found = minimise(problem, x, theta, Settings(iterations=STEPS))
        except (CalibodyError, NumericalError, np.linalg.LinAlgError):
            return None
        return Solved(problem, tuple(found.x), found.theta) if found.converged else None

    def begun(self, problem: Problem, theta: np.ndarray) -> Solved | None:
        """A fit on the coarsest mesh from other first values; None where it does not converge."""
        worker = self.worker(problem, hypers=True)
        try:
            with np.errstate(all="ignore"):
                level = worker.solve(self.coarsest, theta, None)
        except (CalibodyError, NumericalError, FloatingPointError, np.linalg.LinAlgError):
            return None
        return Solved(level.problem, tuple(level.solution.x), level.solution.theta) if level.solution.converged else None


def solved_by(result: Result) -> Solved:
    return Solved(transcribed(result), tuple(result.states), result.theta)


def drawn_on(setting: Setting, fine: Solved) -> Solved:
    """The solution on the coarsest mesh that will do; with unmodelled forces, and where no coarser one will, the fit's own."""
    if fine.forced or fine.struck:
        return fine
    known, h = fine.information(), setting.coarsest
    while h > 1.5 * fine.h:
        coarse = setting.carried(fine, h)
        if coarse is not None and agree(coarse.information(), known, fine.problem.scale):
            return coarse
        h *= 0.5
    return fine


def agree(a: np.ndarray, b: np.ndarray, scale: np.ndarray) -> bool:
    """Whether two informations say the same, of what they determine at all."""
    S = np.diag(scale)
    a, b = (S @ m @ S + np.eye(len(scale)) for m in (a, b))
    L = np.linalg.cholesky(b)
    ratio = np.linalg.eigvalsh(np.linalg.solve(L, np.linalg.solve(L, a).T))
    return bool(np.all(np.abs(np.sqrt(np.maximum(ratio, 0.0)) - 1.0) <= ALIKE))


def apart(a: Solved, b: Solved, informations: Sequence[np.ndarray]) -> float:
    """The distance of two solutions in standard deviations, by the information that makes it less."""
    d = a.theta - b.theta
    return float(np.sqrt(max(min(float(d @ m @ d) for m in informations), 0.0)))
