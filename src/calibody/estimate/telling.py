"""What a person is told while a fit runs: the stage, the mesh, which parameter still moves, and how long it takes at least.

Estimators know stage, mesh and names of what they solve for, solvers do not: `Teller` adds them to every iteration before it is passed on. `Watch` makes of a row of such iterations what is shown,
in a terminal, in a log and in a notebook alike (`console.py`).

**Time left.** How many meshes are needed is known only when halving one no longer changes anything, so what is said is a least time: the iterations that the present mesh still needs, as
its steps shrink by `SHRINKS` each, one finer mesh if this is the first (`FINER` iterations, each twice as long), and what comes after the last one, as long as `AFTER` iterations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from calibody.estimate.reported import initial_theta, reported, values_of
from calibody.estimate.unknowns import Entry
from calibody.solve.gauss_newton import Iteration

EXACT, NOISY, FORCED = "parameters and motion", "parameters, motion and noise", "parameters, motion and unmodelled forces"
POSED = "parameters and poses"
IN_STEPS = "parameters and motion in the engine's steps"
SHOT = "parameters and starts of windows"
NO_START = "stopped before the first iteration: from the initial values a window cannot be simulated to its end; use more windows, better initial values, or a shorter step h."
ALONE = " A single window follows small differences for the whole recording; use more windows."
"""Of fits by shooting: why they have not begun, or did not converge."""
SHRINKS, ENOUGH, FINER, AFTER = 30.0, 0.01, 2, 3
"""By how much a step is smaller than the one before; how small it has to be, in standard deviations; iterations of a finer mesh; the time of error bars and tests, in iterations."""
MOST = 6
"""Iterations that a mesh is taken to need at most."""


class Teller:
    """Passes iterations on with stage, mesh and the parameter that moves most."""

    def __init__(self, unknowns: Sequence[Entry], report: Callable[[Iteration], None] | None) -> None:
        self.unknowns, self.report = list(unknowns), report
        self.before = values_of(self.unknowns, initial_theta(self.unknowns))

    def __call__(self, iteration: Iteration, stage: str, h: float) -> Iteration:
        told = replace(iteration, stage=stage, h=h, moving=self._moving(iteration))
        if self.report is not None:
            self.report(told)
        return told

    def _moving(self, iteration: Iteration) -> str:
        now = reported(self.unknowns, iteration.theta)
        before, self.before = self.before, now.values
        if not now.names:
            return "the motion"
        return now.names[int(np.argmax(np.abs(now.values - before) / now.scale))]


class Watch:
    """How far a fit is, from the iterations it has reported."""

    def __init__(self) -> None:
        self.count, self.meshes = 0, 0
        self.durations: list[float] = []
        """Of the iterations of this mesh; of the one before where it has none but its first, which takes long."""
        self.last: Iteration | None = None
        self.clock = time.perf_counter()

    def __call__(self, iteration: Iteration) -> None:
        now = time.perf_counter()
        finer = self.last is None or (iteration.stage, iteration.h) != (self.last.stage, self.last.h)
        if self.last is not None and (iteration.stage != self.last.stage or iteration.h > self.last.h):  # begun anew
            self.meshes = 0
        self.meshes += finer
        if self.last is not None:
            self.durations = [2.0 * min(self.durations, default=now - self.clock)] if finer else [*self.durations, now - self.clock]
        self.count, self.last, self.clock = self.count + 1, iteration, now

    @property
    def place(self) -> str:
        """The stage and the mesh."""
        if self.last is None:
            return "reading the motion from the observations"
        mesh = f"mesh {self.meshes}, {1000.0 * self.last.h:.3g} ms" if self.last.h else ""
        return ": ".join(part for part in (self.last.stage, mesh) if part)

    @property
    def moving(self) -> str:
        """What still moves, and by how many of its standard deviations."""
        if self.last is None:
            return ""
        return f"{self.last.moving} ({self.last.change:.2g} sd)" if self.last.change >= ENOUGH else "nothing"

    @property
    def seconds_left(self) -> float:
        """At least."""
        if self.last is None or not self.durations or not np.isfinite(self.last.change):
            return float("nan")
        each = float(np.median(self.durations[-8:]))
        here = np.clip(np.ceil(np.log(max(self.last.change, 1e-12) / ENOUGH) / np.log(SHRINKS)), 0, MOST)
        return each * float(here + AFTER + (2 * FINER + AFTER if self.meshes == 1 and self.last.h else 0))

    @property
    def left(self) -> str:
        seconds = self.seconds_left
        if not np.isfinite(seconds):
            return ""
        return f"at least {seconds:.0f} s" if seconds >= 1.5 else ""  # less is over before it is read, or not the whole truth
