"""Where the likelihood is maximised from: of several first values, those that it prefers.

The candidates are what regressions on the first motion find (`equation_error.py`), what a fit without unmodelled forces has found, and the initial values themselves, each with the forces that it leaves. The noise sizes of every one are improved
twice at fixed parameters before they are compared, because L depends on them more than on anything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calibody.estimate.equation_error import Candidate, candidates
from calibody.estimate.layout import PROCESS, States
from calibody.estimate.nodes import Noise
from calibody.estimate.noise.coupling import Shared
from calibody.estimate.noise.hyper import ForceSize, Hyper, MemoryTime, SlowSize
from calibody.estimate.noise.likelihood import Likelihood, Spot
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.solve.threads import one_thread

IMPROVED = 2
"""Updates of the noise sizes of a candidate."""
ALIKE = 1e-3
"""Relative difference of all parameters below which two candidates are one."""


@one_thread
def best_start(function: Likelihood, x: Sequence[States], theta: np.ndarray, hints: Sequence[np.ndarray] = ()) -> Spot:
    """The most likely candidate with its motion; of infinite value if none has one. `hints` are further values of the parameters."""
    spots = [_improved(function, x, c) for c in _distinct(candidates(function.problem, x, theta, hints))]
    return min(spots, key=lambda spot: spot.value)


MEMORIES = (3.0, 30.0, 300.0)
"""First correlation times that are tried, in units of the time for which a force lasts."""


def slow_hypers(problem: Problem, joint: str) -> list[Hyper]:
    """Size and correlation time of a force with a memory as unknowns: below a third of the time for which forces last it has none, and one of the whole recording is a constant."""
    least, most = min(run.held for run in problem.runs) / 3.0, max(run.times[-1] - run.times[0] for run in problem.runs)
    return [SlowSize(joint), MemoryTime(joint, math.log(least), math.log(most))]


@one_thread
def with_memory(white: Spot, hypers: Sequence[Hyper], joints: Sequence[str], times: Mapping[str, float]) -> tuple[Likelihood, Spot]:
    """The likelihood in which the forces of some joints have a memory, and where to begin: from the maximum with white forces and with as large ones, of several correlation times (but for those
    that are given) with the most likely."""
    spots = []
    for steps in MEMORIES:
        problem = white.problem.with_noise([_remembering(run, joints, steps, times) for run in white.problem.runs])
        function = Likelihood(problem, hypers)
        sizes = np.clip(function.sizes(problem), function.lower[function.p :], function.upper[function.p :])
        x = [_reordered(run, to, states) for run, to, states in zip(white.problem.runs, problem.runs, white.x, strict=True)]
        spots.append((function, _refreshed(function, function.at(x, white.theta, sizes))))
        if all(joint in times for joint in joints):
            break
    return min(spots, key=lambda pair: pair[1].value)


def _remembering(run: Run, joints: Sequence[str], steps: float, times: Mapping[str, float]) -> Noise:
    """The noise of a run with forces of the same variance that have a memory."""
    memory = {joint: times.get(joint, steps * run.held) for joint in joints}
    slow = {joint: run.noise.density[joint] / math.tanh(0.5 * run.held / tau) for joint, tau in memory.items()}
    density = {joint: value for joint, value in run.noise.density.items() if joint not in joints}
    return replace(run.noise, density=density, slow={**run.noise.slow, **slow}, memory={**run.noise.memory, **memory})


def _reordered(run: Run, to: Run, states: States) -> States:
    """The same forces where those with a memory come last."""
    order = [run.disturbed.index(pair) for pair in to.disturbed]
    return states.changed(**{PROCESS: states.parts[PROCESS][:, order]})


def _distinct(found: Sequence[Candidate]) -> list[Candidate]:
    out: list[Candidate] = []
    for c in found:
        if not any(np.all(np.abs(c.theta - o.theta) <= ALIKE * np.abs(o.theta)) and _close(c, o) for o in out):
            out.append(c)
    return out


def _close(a: Candidate, b: Candidate) -> bool:
    """Whether their forces are of one size, to a factor of two."""
    return all(0.25 < a.density[joint] / b.density[joint] < 4.0 for joint in a.density)


def _improved(function: Likelihood, x: Sequence[States], candidate: Candidate) -> Spot:
    sizes = function.sizes(function.problem)
    noise = replace(function.problem.runs[0].noise, density=candidate.density, coupled=candidate.coupled)
    for k, h in enumerate(function.hypers):
        if isinstance(h, ForceSize | Shared):
            sizes[k] = h.of(noise)
    return _refreshed(function, function.at(x, candidate.theta, sizes))


def _refreshed(function: Likelihood, spot: Spot) -> Spot:
    """With its noise sizes improved."""
    for _ in range(IMPROVED if function.n and np.isfinite(spot.value) else 0):
        better = function.refreshed(spot)
        if not better.value < spot.value:
            break
        spot = better
    return spot
