"""`gradient = "adjoint"`: the cost and its gradient by all parameters from one simulation and one backward solution, and what minimises with them.

    J(theta) = min over starts of 1/2 |F(x, theta)|^2,   C(x, theta) = 0;        dJ/dtheta = Ft'F + Ct'n        with the multipliers n of that minimum

(envelope theorem; with a known start nothing is minimised, and n are the adjoint variables lambda of [caldwell2014], lemma 1: `lambda_k = lambda_(k+1) A_k + D1 l_d`). The states are solved for without any
derivative by a parameter, `Ct'n` is one backward pass (`steppers/pullback.py`), so the cost does not depend on the number of parameters. Numbers that change what acts when (delays, lags) or how
constraints give way are few, and come from their columns.

Far from the solution a quasi-Newton method (L-BFGS with bounds, parameters in units of their scales) goes down along it; Gauss-Newton takes the last steps, whose forward sensitivities the error bars need
anyway, and says whether it has converged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.layout import BALANCE, CONSTRAINTS, START, States
from calibody.estimate.observed import predicted
from calibody.estimate.reported import groups
from calibody.estimate.started import Started
from calibody.mechanics.compilation import jax
from calibody.mechanics.launch import Launch
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import Numbers
from calibody.model.paths import number_at
from calibody.solve.condensed import Runs, Step, step
from calibody.solve.gauss_newton import AbstractProblem, Iteration, Settings, Solution, minimise, penalised, search
from calibody.solve.threads import one_thread
from calibody.solve.windows import Shot, Windows, unrolled
from calibody.steppers.pullback import gradient as pulled_back
from calibody.steppers.step import Values

STILL = 1e-6
"""Of the starts: what a step still changes the residuals by, relative to them, from which they are at their minimum."""
FEASIBLE = 1e-7
"""By how much an equation [N, N m] may be off there."""
TOLERANCE = 1e-2
"""Standard deviations by which the last step of Gauss-Newton moves the parameters (as of transcription)."""
TURNS = 30
"""Most steps of the starts for one gradient."""
DIFFERENCE = 1e-5
"""Of the step's numbers by a parameter, relative to its scale: most are linear, where any difference is exact."""
APART = (".delay", ".time_constant", "compliance", "relaxation")
"""Ends of paths whose columns are taken as transcription has them."""
NO_MOTION = 'stopped before the first iteration: at the initial values no single motion follows the recording, which the adjoint gradient needs; use gradient = "forward".'
ENOUGH = 60
"""Most iterations of the quasi-Newton method, after which Gauss-Newton takes over wherever it is."""


@dataclass(frozen=True, eq=False)
class Slope:
    """Cost and gradient at a point, and the motion there."""

    cost: float
    gradient: np.ndarray
    shot: Shot


class Adjoint:
    """Cost and gradient of a problem of windows."""

    def __init__(self, windows: Windows) -> None:
        self.windows, self.problem = windows, windows.whole
        self._slopes: dict[tuple[int, int], np.ndarray] = {}
        """By run and parameter: what the step's numbers change by, of parameters they are linear in."""

    @one_thread
    def at(self, shot: Shot, theta: np.ndarray) -> Slope:
        """Cost and gradient with the starts that fit best, from those of `shot` on."""
        for _ in range(TURNS):
            lin = self.linearised(shot, theta)
            taken = step(lin, np.zeros(0), *(np.zeros(0),) * 4)
            moved = lin.Fx @ taken.states
            if np.linalg.norm(moved) <= STILL * (1.0 + np.linalg.norm(lin.F)) and np.abs(lin.C).max(initial=0.0) <= FEASIBLE:
                return self._slope_at(shot, theta, lin, taken)
            length, new = search(_Fixed(self, theta), lin, taken, shot, np.zeros(0), penalised(0.0, taken.multipliers), 1e-3)  # pyright: ignore[reportArgumentType]
            if length == 0.0:
                break
            shot = new[0]
        raise CalibodyError("the starts that fit best are not found")

    def _slope_at(self, shot: Shot, theta: np.ndarray, lin: Runs, taken: Step) -> Slope:
        prior, slope = self.problem.prior(theta), self.problem.prior_slope()
        missed = float(taken.multipliers @ lin.C)  # what is left of the equations, to first order
        cost = 0.5 * float(lin.F @ lin.F + prior @ prior) + missed
        return Slope(cost, self._gradient(shot.motion, theta, lin, taken) + slope.T @ prior, shot)

    def linearised(self, shot: Shot, theta: np.ndarray) -> Runs:
        motion = shot.rolled(theta, self.windows.roll)
        if motion is None:
            raise CalibodyError("a window cannot be simulated to its end")
        whole = self.problem.linearise(motion, theta, parameters=False)
        parts = tuple(replace(part, Ft=part.Ft[:, :0], Ct=part.Ct[:, :0]) for part in whole.parts)
        return Runs(np.zeros(0), whole.loose_theta[:0, :0], parts, (np.zeros(0, dtype=np.int64),) * len(parts), 0)

    def _gradient(self, x: Sequence[States], theta: np.ndarray, lin: Runs, taken: Step) -> np.ndarray:
        """`Ft'F + Ct'n` of all runs."""
        ends = np.cumsum([len(part.C) for part in lin.parts])
        parts = np.split(taken.multipliers, ends[:-1])
        return sum((self._of_run(r, x[r], theta, n) + self._observed(r, x[r], theta) for r, n in enumerate(parts)), np.zeros(len(theta)))

    def _observed(self, r: int, states: States, theta: np.ndarray) -> np.ndarray:
        """Ft'F of one run."""
        problem, run, out = self.problem, self.problem.runs[r], np.zeros(len(theta))
        model, numbers, sensors = problem.model_of(r, theta)
        frames = problem.frames(r, states, model, numbers)
        placements = problem.placements(r, theta, model, numbers, frames)
        point, _ = problem.framed(r, states, model, numbers)
        started = Started.of(run, model, numbers, point)
        for d in run.data:
            if started is not None and started.dof(d) is not None:
                continue  # `_pulled` has it
            prediction = predicted(run, model, numbers, frames, states.multipliers, sensors, d, problem.driven(r, states, model))
            weight = run.weight(d)
            for k, by in problem.samples_by_parameters(r, theta, d, prediction, placements).items():
                out[k] += (by * weight) @ ((prediction.value - d.y) * weight)
        return out

    def _of_run(self, r: int, states: States, theta: np.ndarray, n: np.ndarray) -> np.ndarray:
        """Ct'n of one run: of the numbers of the step by one backward pass, of others by their columns."""
        problem = self.problem
        own = problem.columns[r]
        apart = [k for k in own if self._apart(int(k))]
        out = np.zeros(len(theta))
        if len(apart) < len(own):
            out[own] = self._pulled(r, states, theta, n)
        if apart:
            Ct = problem.linearised(r, states, theta, residuals=False).part.Ct
            out[apart] = (Ct.T @ n)[np.searchsorted(own, apart)]
        return out

    def _apart(self, k: int) -> bool:
        entry = self.problem.entries[k]
        loaded = plan_of(self.problem.runs[0].structure).loaded_joint
        return bool(loaded) or any(p.sensor is None and p.path.endswith(APART) for p in entry.places)

    def _pulled(self, r: int, states: States, theta: np.ndarray, n: np.ndarray) -> np.ndarray:
        """Over the parameters of the run."""
        problem, run = self.problem, self.problem.runs[r]
        s, K = run.structure, run.K
        model, numbers, _ = problem.model_of(r, theta)
        frames = problem.frames(r, states, model, numbers)
        mu, nu = np.zeros((s.nv, K)), np.zeros((s.nc, K))
        mu[:, 1:-1] = n[run.layout.row_place[BALANCE]].reshape(K - 2, s.nv).T / run.h
        if run.kept:
            nu[run.rows, np.arange(K)] = n[run.layout.row_place[CONSTRAINTS]].reshape(run.kept, K)
        scalars = frames.s[: len(s.scalar_coordinates)]
        motion = states.q, scalars, states.multipliers, *run.drives(model, states)
        flat = _flat(pulled_back(s, numbers, run.active, motion, (mu, nu), run.h, run.delta))
        point, _ = problem.framed(r, states, model, numbers)
        if (started := Started.of(run, model, numbers, point)) is not None:
            flat = flat + _launched(started.launch, self._on_rates(started, n[run.layout.row_place[START]]), run.delta)
        return np.array([0.0 if self._apart(int(k)) else flat @ self._slope(r, int(k), theta) for k in problem.columns[r]])

    @staticmethod
    def _on_rates(started: Started, n: np.ndarray) -> np.ndarray:
        """(nv,): multipliers of the rates of the start, of those that are known exactly, and residuals of those that have an sd."""
        run, out = started.run, np.zeros(started.run.structure.nv)
        for d, by in zip(run.starts, n, strict=True):
            if (dof := started.dof(d)) is not None:
                out[dof] += by
        for d in run.data:
            if (dof := started.dof(d)) is not None:
                out[dof] += float(run.weight(d)[0] ** 2 * (started.launch.rates[dof] - d.y[0]))
        return out

    def _slope(self, r: int, k: int, theta: np.ndarray) -> np.ndarray:
        """What the step's numbers change by with a parameter, flat."""
        if (r, k) in self._slopes:
            return self._slopes[r, k]
        run, unit = self.problem.runs[r], self.problem.entries[k].scale
        step_, ends = DIFFERENCE * unit, []
        for sign in (1.0, -1.0):
            moved = theta.copy()
            moved[k] += sign * step_
            model, *_ = self.problem.model_of(r, moved)
            ends.append(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(Values.of(run.structure, Numbers.of(run.structure, model), run.active))]))
        with np.errstate(invalid="ignore"):
            found = np.where(ends[0] == ends[1], 0.0, ends[0] - ends[1]) / (2.0 * step_)
        if self._linear:
            self._slopes[r, k] = found
        return found

    @cached_property
    def _linear(self) -> bool:
        """Whether the step's numbers are linear in all parameters together: then what they change by is the same everywhere."""
        places = [p for e in self.problem.entries for p in e.places if p.sensor is None]
        return not groups(self.problem.entries) and all(p.expression is None and number_at(self.problem.model, p.path).linear for p in places)


def _flat(by: Any) -> np.ndarray:
    return np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(by)])


def _launched(launch: Launch, n: np.ndarray, delta: float) -> np.ndarray:
    """n'v by the numbers of the step, v the rates that a motion begins with: `Launch.by_numbers`, backwards."""
    s, both = launch.structure, []
    push, rows = np.split(n @ launch.weights, [s.nv])
    no = np.zeros_like(push)
    held = np.zeros((s.nc, 5))
    held[launch.active, 1], held[launch.active, 4] = rows / (2.0 * launch.e), -rows / (2.0 * launch.e)
    whole, short = np.stack([no, no, -0.5 * push, push, no], axis=1), np.stack([no, no, 0.5 * push, -0.5 * push, no], axis=1)
    for point, mu, nu in ((launch.point, whole, 0.0 * held), (launch.short, short, held)):
        parts = [
            np.concatenate([x[:, :1], x], axis=1) for x in (point.q, point.multipliers, point.control, point.applied)
        ]  # so that the first node is the end of an interval too
        motion = parts[0], parts[0][s.scalar_positions], *parts[1:]
        both.append(_flat(pulled_back(s, launch.numbers, launch.active, motion, (mu, nu), point.h, delta)))
    return both[0] + both[1]


class _Fixed(AbstractProblem):
    """The starts alone, the parameters being what they are."""

    def __init__(self, adjoint: Adjoint, theta: np.ndarray) -> None:
        self.adjoint, self.theta = adjoint, theta
        self.lower = self.upper = self.scale = np.zeros(0)

    def linearise(self, x: Shot, theta: np.ndarray) -> Runs:
        return self.adjoint.linearised(x, self.theta)

    def values(self, x: Shot, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        F, C = self.adjoint.windows.values(x, self.theta)
        return F[len(self.adjoint.problem.prior(self.theta)) :], C

    def move(self, x: Shot, d: np.ndarray) -> Shot:
        return self.adjoint.windows.move(x, d)


def descend(windows: Windows, first: Shot, theta: np.ndarray, note: Callable[[Iteration], None]) -> Solution:
    """From the first motion down along the gradient, then by Gauss-Newton to the end."""
    from scipy.optimize import minimize  # takes as long to import as a small fit, and few need it

    adjoint, problem = Adjoint(windows), windows.whole
    try:
        last: list[Slope] = [adjoint.at(first, theta)]
    except (CalibodyError, NumericalError):
        return Solution(first.motion, theta, NO_MOTION, np.inf, [], None)
    count: list[int] = [0]

    def both(z: np.ndarray) -> tuple[float, np.ndarray]:
        at = np.clip(problem.scale * z, problem.lower, problem.upper)
        try:
            found = adjoint.at(Shot(last[0].shot.motion), at)
        except (CalibodyError, NumericalError):
            return 1e300, np.zeros_like(z)
        last[0] = found if found.cost < last[0].cost else last[0]
        return found.cost, found.gradient * problem.scale

    def told(intermediate_result: Any) -> None:
        count[0] += 1
        note(Iteration(count[0], float(intermediate_result.fun), 0.0, 1.0, float("nan"), 0.0, problem.scale * intermediate_result.x))

    bounds = list(zip(problem.lower / problem.scale, problem.upper / problem.scale, strict=True))
    options = {"maxiter": ENOUGH, "ftol": 1e-9}
    found = minimize(both, theta / problem.scale, jac=True, method="L-BFGS-B", bounds=bounds, callback=told, options=options)
    best = np.clip(problem.scale * found.x, problem.lower, problem.upper)
    return unrolled(minimise(windows, Shot(last[0].shot.motion), best, Settings(tolerance=TOLERANCE), note))
