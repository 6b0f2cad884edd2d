"""Whether the data want unmodelled forces at all: tests of a fit without, before one with them is made.

With stated noise, a fit without unmodelled forces that nothing speaks against is the maximum of the likelihood over their sizes too (to within chance), and costs a fraction of finding that out. Three
things speak against it, each in terms of what chance alone would do:

- residuals of a channel larger than its noise (chi-square);
- forces that would push: one at node k of a joint changes the cost at the rate of the multiplier lambda_k of its equation. A white force of variance s^2 makes the data more likely from s = 0 on if
  `Q = sum_k lambda_k^2` is larger than by chance, which is found by drawing the noise anew: for residuals e ~ N(0, 1) the multipliers, the parameters following, are one solution with the factor that is there. Q
  is then nearly chi-square in as many degrees as its mean and variance say;
- slow forces (`slow.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibody.estimate.by_noise import followed
from calibody.estimate.chi_square import exceeded
from calibody.estimate.layout import PROCESS, States
from calibody.estimate.noise.slow import acting, slow_forces
from calibody.estimate.problem import Problem
from calibody.solve.condensed import Runs, Step, step
from calibody.solve.threads import one_thread

WANTED = 0.1
"""Probability, of all tests of a fit together, below which the data want unmodelled forces. Where they do not exist, one fit in ten looks for them in vain, and ends at the same values."""
DRAWS = 64
"""Of the noise: the standard deviation of Q is then known to a tenth."""
SEED = 0


@one_thread
def forces_wanted(problem: Problem, x: Sequence[States], theta: np.ndarray, joints: Sequence[str]) -> bool:
    """At the solution of a problem without unmodelled forces: whether its data want some on these joints."""
    level = WANTED / (len(joints) * 2 + sum(len(run.data) for run in problem.runs))
    if too_large(problem, x, theta, level):
        return True
    free = (theta > problem.lower) & (theta < problem.upper)
    lin = problem.linearise(x, theta, hold_scale=False)
    taken = step(lin, theta, np.where(free, -np.inf, theta), np.where(free, np.inf, theta), np.zeros(len(theta)), problem.scale)
    disturbed = problem.with_noise([replace(run.noise, density=dict.fromkeys(joints, run.held)) for run in problem.runs])  # an sd of 1 N
    x = [states.changed(**{PROCESS: np.zeros((run.draws, len(run.disturbed)))}) for run, states in zip(disturbed.runs, x, strict=True)]
    if any(p < level for p in _pushed(disturbed, x, theta, lin, taken, free).values()):
        return True
    T = lin.together(followed(lin, taken))[:, free]
    return any(found.probability < level for found in slow_forces(disturbed, x, theta, lin, taken.factor, T).values())


def too_large(problem: Problem, x: Sequence[States], theta: np.ndarray, level: float = WANTED) -> list[str]:
    """Channels whose residuals are larger than their noise."""
    out = []
    for r, (run, states) in enumerate(zip(problem.runs, x, strict=True)):
        for d, fitted in problem.fitted(r, states, theta):
            squares = float((((fitted - d.y) * run.weight(d)) ** 2).sum())
            if exceeded(len(d.y), squares) < level:
                out.append(d.channel.path)
    return out


def _pushed(problem: Problem, x: Sequence[States], theta: np.ndarray, lin: Runs, taken: Step, free: np.ndarray) -> dict[str, float]:
    """By joint: the probability that multipliers are by chance as large as they are."""
    random = np.random.default_rng(SEED)
    noise = [random.standard_normal((len(part.F), DRAWS)) for part in lin.parts]
    alone = [
        -e.factor.solve(np.vstack([part.Fx.T @ draws, np.zeros((len(part.C), DRAWS))])) for part, e, draws in zip(lin.parts, taken.runs, noise, strict=True)
    ]
    pull = np.zeros((len(theta), DRAWS))
    for part, e, draws in zip(lin.parts, taken.runs, noise, strict=True):
        pull[e.columns] += part.Ft.T @ draws + e.response[: e.factor.n].T @ (part.Fx.T @ draws)
    moved = np.zeros_like(pull)
    moved[free] = -np.linalg.pinv(np.asarray(taken.information)[np.ix_(free, free)], hermitian=True) @ pull[free]
    mine: dict[str, float] = {}
    drawn: dict[str, np.ndarray] = {}
    found = np.split(taken.multipliers, np.cumsum([len(part.C) for part in lin.parts])[:-1])
    for r, (run, states, e) in enumerate(zip(problem.runs, x, taken.runs, strict=True)):
        multipliers = np.column_stack([found[r], (alone[r] + e.response @ moved[e.columns])[e.factor.n :]])
        for k, (joint, _) in enumerate(run.disturbed):
            squares = ((acting(problem, r, states, theta, k).T @ multipliers) ** 2).sum(axis=0)
            mine[joint] = mine.get(joint, 0.0) + float(squares[0])
            drawn[joint] = drawn.get(joint, 0.0) + squares[1:]
    return {joint: _exceeded(value, drawn[joint]) for joint, value in mine.items()}


def _exceeded(value: float, drawn: np.ndarray) -> float:
    """The probability of more than `value`, by a chi-square variable with the mean and variance of what was drawn."""
    mean, variance = float(drawn.mean()), float(drawn.var(ddof=1))
    if not mean > 0.0 or not variance > 0.0:
        return 1.0
    dof = max(round(2.0 * mean**2 / variance), 1)
    return exceeded(dof, dof * value / mean)
