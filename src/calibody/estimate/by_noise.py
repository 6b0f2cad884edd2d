"""How much of what data seem to tell of parameters is made by the noise in the states.

Gauss-Newton's information `T'T`, `T = Ft + Fx dx/dtheta`, is taken at states x that were estimated with the parameters, and T depends on them: how strongly the damping of a joint shows is in proportion to its rate. Of a joint that does not move, the
estimated rate is noise all the same, and T'T counts it: where T(x + e) = T + dT, `E T'T` is larger by `E dT'dT`. A damping of 30 N m s/rad of a leg's joint that stood still came out as -94 +- 31, converged: base and start were found from
1e-4 rad of noise, and the residuals that made the motion made the damping too.

So T is taken again at states moved by what noise of the stated size moves them, `x + e`, `e = -K^-1 [Fx'w; 0]` with standard normal w, the parameters held (and states that nothing tells, as where a body without a view stands on a floor, held to where they are): `dT = T(x + e) - T(x)`. One draw shows whether there is anything to it; where there is, the mean of `DRAWS` of them, times `LESS` because so few
draws of a motion with few freedoms may come out small, is subtracted from the information. What is left may be nothing, and then the parameter is not determined. Costs a linearisation, and nothing where the motion has no unknowns (its start is known).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.solve.condensed import Runs, Step, split_by_run, step

SEEN = 0.01
"""Share of a parameter's information that noise makes from which it counts."""
PLACE, RATE = 0.1, 1.0
"""m or rad and per second: how far states that nothing tells may be off; what is told is told better."""
DRAWS = 3
LESS = 2.0


def made_by_noise(problem: Any, x: Sequence[Any], theta: np.ndarray, lin: Runs, taken: Step) -> np.ndarray:
    """(parameters, parameters): to be subtracted from the information."""
    tethered = np.broadcast_to(problem.tethered, (sum(part.Fx.shape[1] for part in lin.parts),))
    held = split_by_run(lin, tethered / PLACE**2 + (1.0 - tethered) / RATE**2)
    random, here, found = np.random.default_rng(0), followed(lin, taken), []
    size = np.sum([np.bincount(columns, (T**2).sum(axis=0), len(theta)) for T, columns in zip(here, lin.columns, strict=True)], axis=0)
    while len(found) < DRAWS:
        moved = np.concatenate([_moved(part, own, random) for part, own in zip(lin.parts, held, strict=True)])
        if not moved.any():
            return np.zeros((len(theta), len(theta)))
        try:
            there = problem.linearise(problem.move(x, moved), theta, hold_scale=False)
            again = followed(there, step(there, theta, problem.lower, problem.upper, 0.0 * theta, problem.scale))
        except CalibodyError:  # a motion that cannot be simulated to its end says nothing of the noise
            break
        found.append(np.zeros((len(theta), len(theta))))
        for a, b, columns in zip(again, here, lin.columns, strict=True):
            found[-1][np.ix_(columns, columns)] += (a - b).T @ (a - b)
        if len(found) == 1 and np.all(np.diag(found[0]) <= SEEN * size):
            return np.zeros((len(theta), len(theta)))
    return LESS * np.mean(found, axis=0) if found else np.zeros((len(theta), len(theta)))


def followed(lin: Runs, taken: Step) -> list[np.ndarray]:
    """T of every run: how its residuals follow the parameters that it depends on, the states being free."""
    return [part.Ft + part.Fx @ e.response[: e.factor.n] for part, e in zip(lin.parts, taken.runs, strict=True)]


def _moved(part: Any, held: np.ndarray | float, random: np.random.Generator) -> np.ndarray:
    """What noise moves the states of a run by."""
    factor = part.factor(held)
    right = np.concatenate([part.Fx.T @ random.standard_normal(len(part.F)), np.zeros(len(part.C))])
    return factor.solve(right)[: factor.n]
