"""The numbers of the noise that are found with the parameters, each kind a class: how large it is, what changes with it, and what derivatives of the likelihood need to know of it (`likelihood.py`).

A number l of the noise changes the residuals F and the equations C of the states by columns of its own, at a fixed motion z of the unmodelled forces:

    sd of a channel          F = -F_c                                            log sd
    size of a force          C = C_z z                                           half the log of its density
    a correlation time       F = (dW/dl) z, C = C_z (d log sd/dl) z              its log; W makes residuals of forces with a memory
    what goes together       C = C_z E z                                         (`coupling.py`)

Gauss-Newton would take half of the second derivatives (`-2 F_c'T_c`), so each says its own row of the Hessian, and how the derivatives of the states change with it (`pulled`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from calibody.estimate.layout import PROCESS, States
from calibody.estimate.nodes import Noise
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.solve.condensed import Linearisation, Sparse

MEMORY_STEP = 1e-3
"""Step of differences with respect to the log of a correlation time, of functions known to rounding."""


@dataclass(frozen=True)
class Hyper(ABC):
    """One number of the noise that is found; `lower` and `upper` bound it."""

    name: str
    """A channel, or the joint whose force it is about."""
    lower: float = -np.inf
    """Least log sd: of a channel's as stated."""
    upper: float = np.inf

    process: ClassVar[bool] = True
    """Whether it is about unmodelled forces."""
    force: ClassVar[bool] = False
    """Whether it is the size of a joint's force."""
    sizing: ClassVar[bool] = True
    """Whether it is a size, of which there are so many observations in effect."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What it is called among draws of a posterior."""

    @abstractmethod
    def of(self, noise: Noise) -> float:
        """Its value in a noise."""

    @abstractmethod
    def changed(self, noise: Noise, by: float) -> Noise:
        """The noise with this number changed by so much."""

    def log_sd(self, problem: Problem) -> float:
        """Its value in a problem."""
        return self.of(problem.runs[0].noise)

    def moved(self, problem: Problem, by: float) -> Problem:
        """The problem with this number changed by so much; that of a channel only in runs where it is to be found."""
        return problem.with_noise([self.changed(run.noise, by) for run in problem.runs])

    def covers(self, run: Run, channel: str) -> bool:
        """Whether it is the noise of that channel of a run."""
        return False

    def forces(self, run: Run) -> list[int]:
        """Which of a run's unmodelled forces it is about."""
        return [k for k, (joint, _) in enumerate(run.disturbed) if joint == self.name and not run.remembering[k]]

    # -- derivatives -------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def columns(self, at: At) -> tuple[np.ndarray, np.ndarray]:
        """How F and C change with it."""

    def pulled(self, at: At) -> np.ndarray:
        """(states,) how the derivative of the cost by the states changes with it at a fixed motion: of a force (dCx/dl)'multipliers, which is this where the motion is found."""
        mine = at.rows(self)
        return -(at.lin.Fx[mine].T @ at.lin.F[mine])

    def curved(self, at: At, T: np.ndarray, X: np.ndarray, hypers: Sequence[Hyper]) -> np.ndarray:
        """Its row of the Hessian of the cost; T and X are how residuals and states follow eta, whose last entries are `hypers`."""
        mine = at.rows(self)
        return -2.0 * at.lin.F[mine] @ T[mine]

    def stretch(self, problem: Problem) -> float:
        """How the log of the sd of what it scales changes with it."""
        return 1.0

    def scores(self, at: At) -> np.ndarray:
        """(rows of F,) its score: the derivative of the cost by it, residual by residual."""
        out, mine = np.zeros(len(at.lin.F)), at.rows(self)
        out[mine] = -(at.lin.F[mine] ** 2)
        return out


@dataclass(frozen=True)
class ChannelSize(Hyper):
    """The log of the standard deviation of a channel."""

    process: ClassVar[bool] = False

    @property
    def words(self) -> str:
        return f"log sd of {self.name}"

    def of(self, noise: Noise) -> float:
        return math.log(noise.measured[self.name])

    def log_sd(self, problem: Problem) -> float:
        return self.of(next(run.noise for run in problem.runs if self.name in run.noise.missing))

    def changed(self, noise: Noise, by: float) -> Noise:
        return replace(noise, measured={**noise.measured, self.name: noise.measured[self.name] * math.exp(by)}) if self.name in noise.missing else noise

    def covers(self, run: Run, channel: str) -> bool:
        return channel == self.name and channel in run.noise.missing

    def columns(self, at: At) -> tuple[np.ndarray, np.ndarray]:
        F, mine = np.zeros(len(at.lin.F)), at.rows(self)
        F[mine] = -at.lin.F[mine]
        return F, np.zeros(len(at.lin.C))


@dataclass(frozen=True)
class ForceSize(Hyper):
    """Half the log of the density of the white unmodelled force of a joint."""

    force: ClassVar[bool] = True

    @property
    def words(self) -> str:
        return f"log sd of {self.name}"

    def of(self, noise: Noise) -> float:
        return 0.5 * math.log(noise.density[self.name])

    def changed(self, noise: Noise, by: float) -> Noise:
        return replace(noise, density={**noise.density, self.name: noise.density[self.name] * math.exp(2.0 * by)})

    def columns(self, at: At) -> tuple[np.ndarray, np.ndarray]:
        own = scaled_by(at.problem, self, len(at.lin.F))[1]
        return np.zeros(len(at.lin.F)), at.lin.Cx[:, own] @ at.z[own]


@dataclass(frozen=True)
class SlowSize(ForceSize):
    """The same of a force with a memory."""

    def of(self, noise: Noise) -> float:
        return 0.5 * math.log(noise.slow[self.name])

    def changed(self, noise: Noise, by: float) -> Noise:
        return replace(noise, slow={**noise.slow, self.name: noise.slow[self.name] * math.exp(2.0 * by)})

    def forces(self, run: Run) -> list[int]:
        return _remembering(run, self.name)


@dataclass(frozen=True)
class MemoryTime(Hyper):
    """The log of the correlation time of a force with a memory."""

    sizing: ClassVar[bool] = False

    @property
    def words(self) -> str:
        return f"log time of {self.name}"

    def of(self, noise: Noise) -> float:
        return math.log(noise.memory[self.name])

    def changed(self, noise: Noise, by: float) -> Noise:
        return replace(noise, memory={**noise.memory, self.name: noise.memory[self.name] * math.exp(by)})

    def forces(self, run: Run) -> list[int]:
        return _remembering(run, self.name)

    def columns(self, at: At) -> tuple[np.ndarray, np.ndarray]:
        by = _by_memory(at.problem, self, len(at.lin.F))
        return by.whitening @ at.z, at.lin.Cx @ (by.log_sd * at.z)

    def pulled(self, at: At) -> np.ndarray:
        by = _by_memory(at.problem, self, len(at.lin.F))
        return by.whitening.T @ at.lin.F + by.log_sd * super().pulled(at)

    def curved(self, at: At, T: np.ndarray, X: np.ndarray, hypers: Sequence[Hyper]) -> np.ndarray:
        """The derivative by eta of that of the cost, `r'W_l z - (W'r)'(k z)`: W makes the residuals r of the forces z, k is the change of their log sd with it."""
        lin, by = at.lin, _by_memory(at.problem, self, len(at.lin.F))
        pulled = lin.Fx.T @ lin.F
        changes, sized = by.whitening @ at.z, by.log_sd * at.z
        out = T.T @ changes + X.T @ (by.whitening.T @ lin.F) - T.T @ (lin.Fx @ sized) - X.T @ (by.log_sd * pulled)
        out[len(out) - len(hypers) + list(hypers).index(self)] += (
            lin.F @ (by.whitening_twice @ at.z) - lin.F @ (by.whitening @ sized) - pulled @ (by.log_sd_twice * at.z)
        )
        return out

    def stretch(self, problem: Problem) -> float:
        """`d log sd/d log tau = -(H/tau) a/(1 - a^2)` of a force of given density, on the first run's mesh."""
        run = problem.runs[0]
        rate = run.held / run.noise.memory[self.name]
        return -0.5 * rate / math.sinh(rate)

    def scores(self, at: At) -> np.ndarray:
        mine, out = at.rows(self), np.zeros(len(at.lin.F))
        out[mine] = at.lin.F[mine] * (self.columns(at)[0][mine] - at.lin.F[mine] * self.stretch(at.problem))
        return out


def _remembering(run: Run, name: str) -> list[int]:
    """Forces of a joint that have a memory."""
    return [k for k, (joint, _) in enumerate(run.disturbed) if joint == name and run.remembering[k]]


@dataclass(frozen=True, eq=False)
class At:
    """Where derivatives by numbers of the noise are asked for: a linearisation, and the unmodelled forces of all states there."""

    problem: Problem
    lin: Linearisation
    z: np.ndarray

    @cached_property
    def _rows(self) -> dict[Hyper, np.ndarray]:
        return {}

    def rows(self, hyper: Hyper) -> np.ndarray:
        """Of F: those that it scales."""
        if hyper not in self._rows:
            self._rows[hyper] = scaled_by(self.problem, hyper, len(self.lin.F))[0]
        return self._rows[hyper]


def resized(problem: Problem, hypers: Sequence[Hyper], sizes: np.ndarray) -> Problem:
    """The problem with these log sds."""
    for hyper, size in zip(hypers, sizes, strict=True):
        change = float(size) - hyper.log_sd(problem)
        if change:
            problem = hyper.moved(problem, change)
    return problem


def scaled_by(problem: Problem, hyper: Hyper, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the `count` rows of F a noise size scales, and of a force the states that those are."""
    row, column = count - sum(run.samples + run.layout.priors for run in problem.runs), 0
    rows, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for run in problem.runs:
        for d in run.data:
            if hyper.covers(run, d.channel.path):
                rows.append(np.arange(row, row + len(d.y)))
            row += len(d.y)
        if hyper.process:
            own = hyper.forces(run)
            rows.append(row + np.sort(np.concatenate([run.layout.prior_rows(PROCESS, k) for k in own])))
            columns.append(column + np.sort(np.concatenate([run.layout.member(PROCESS, k) for k in own])))
        row, column = row + run.layout.priors, column + run.layout.size
    return np.concatenate(rows), np.concatenate(columns)


def forces(problem: Problem, x: Sequence[States]) -> np.ndarray:
    """(all states,) the unmodelled forces in units of their sd, zero for all other states."""
    out, first = np.zeros(sum(run.layout.size for run in problem.runs)), 0
    for run, motion in zip(problem.runs, x, strict=True):
        if PROCESS in run.layout.place:
            place = run.layout.place[PROCESS]
            out[first + place.start : first + place.stop] = motion.parts[PROCESS].ravel()
        first += run.layout.size
    return out


@dataclass(frozen=True)
class _ByMemory:
    """How the residuals of forces and their sds change with the log of a correlation time: first and second derivatives."""

    whitening: Sparse
    """(rows of F, states)"""
    whitening_twice: Sparse
    log_sd: np.ndarray
    """(states,)"""
    log_sd_twice: np.ndarray


def _by_memory(problem: Problem, hyper: MemoryTime, count: int) -> _ByMemory:
    """From differences: both are simple functions of it."""
    ends = [_whitened(p, count) for p in (hyper.moved(problem, -MEMORY_STEP), problem, hyper.moved(problem, MEMORY_STEP))]
    once, twice = ([(e[2] - e[0]) / (2.0 * MEMORY_STEP), (e[2] - 2.0 * e[1] + e[0]) / MEMORY_STEP**2] for e in zip(*ends, strict=True))
    return _ByMemory(once[0], once[1], twice[0], twice[1])


def _whitened(problem: Problem, count: int) -> tuple[Sparse, np.ndarray]:
    """The residuals of forces by the states, and log sd of every state that is a force."""
    rows: list[Sparse] = [sp.csr_matrix((count - sum(run.samples + run.layout.priors for run in problem.runs), 0))]
    sds = []
    for run in problem.runs:
        size = np.zeros(run.layout.size)
        if run.disturbed:
            size[run.layout.place[PROCESS]] = np.tile(np.log(run.process_sd()), run.draws)
        rows.append(sp.vstack([sp.csr_matrix((run.samples, run.layout.size)), run.layout.prior_matrix], format="csr"))
        sds.append(size)
    return sp.block_diag(rows, format="csr"), np.concatenate(sds)
