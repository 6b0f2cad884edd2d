"""Shooting on the regularised stepper (`steppers/spook.py`): windows that are condensed one after the other (`condensed_windows.py`).

A state is `x = (q, v)` of all bodies, and a step from x to x+ with the impulses lam of the joints is a root of the residuals of `steppers/spook_transition.py` (there they weigh how far a motion is from one of the
engine; here they hold exactly, because the engine has made it):

    R(x, x+, lam, theta) = 0     =>     d(x+, lam) = -[dR/dx+, dR/dlam]^-1 (dR/dx dx + dR/dtheta dtheta)     =:  A dx + B dtheta

one small dense matrix per step, all steps of a window at once; its sensitivities are the products of A, forwards. Dry friction is in R as it is in the engine: the derivative is that of the piece (stick or slip)
that a step is on.

Between steps joints give way by their compliance, so all of x goes from window to window. At the first instant the joints hold exactly, positions and rates, as where a simulation begins: equations of the first start,
beside what is known of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.regularised.shadow_problem import DIFFERENCE, ShadowProblem, States, Steps, moves_places
from calibody.estimate.unknowns import Entry
from calibody.estimate.windows.condensed_windows import Arc, CondensedWindows, Starts
from calibody.estimate.windows.cut import Cut, Piece
from calibody.mechanics import host
from calibody.mechanics.assembly import Frames
from calibody.mechanics.channels import Channel
from calibody.mechanics.kinematics import difference, retract
from calibody.mechanics.structure import Numbers, Structure
from calibody.model import Model
from calibody.solve.chain import Chain
from calibody.solve.condensed import Sparse
from calibody.steppers import spook_step
from calibody.steppers.motion import Motion
from calibody.steppers.spook import Spook
from calibody.steppers.spook_transition import Place

Start = tuple[np.ndarray, np.ndarray]
"""q (nq,), v (nv,) of centres of mass in world axes."""


@dataclass(frozen=True, eq=False)
class Window(Piece, Steps):
    """Some nodes as states of the engine."""

    def sampled_rates(self, channel: Channel, times: np.ndarray, W: Sparse, dW: Sparse) -> tuple[Sparse, Sparse]:
        """What is known of a start is the rate with which the first step begins."""
        return (W, dW) if observe.is_initial(channel) else super().sampled_rates(channel, times, W, dW)


@dataclass(frozen=True, eq=False)
class SpookCut(Cut):
    near: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """(windows, scalar coordinates) where hinges are at the start of every window, to within half a turn."""
    active: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Constraint rows that do not follow from others at the first start."""

    wanted = Steps.wanted  # pyright: ignore[reportAssignmentType]


class _Problem(ShadowProblem):
    METHOD: ClassVar[str] = 'stepper = "spook"'
    STARTS: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class SpookShots(CondensedWindows):
    """Runs are `SpookCut`s."""

    engine: Spook = field(kw_only=True)

    @property
    def n(self) -> int:
        return 2 * self.runs[0].structure.nv

    @property
    def places(self) -> np.ndarray:
        return (np.arange(self.n) < self.n // 2).astype(float)

    def away(self, start: Start, end: Start) -> np.ndarray:
        return np.concatenate([difference(self.runs[0].structure, start[0][:, None], end[0][:, None])[:, 0], start[1] - end[1]])

    def moved(self, start: Start, d: np.ndarray) -> Start:
        s = self.runs[0].structure
        return retract(s, start[0][:, None], d[: s.nv, None])[:, 0], start[1] + d[s.nv :]

    @cached_property
    def _singles(self) -> dict[tuple[int, int], _Problem]:
        return {}

    def single(self, r: int, w: int) -> _Problem:
        """A window as a problem of its own, in the parameters that its run depends on."""
        if (r, w) not in self._singles:
            run: Any = self.runs[r]
            near = run.near[w] if len(run.near) else None
            self._singles[r, w] = self._problem(r, Window(**run.parts(w), near=near).with_data())
        problem = self._singles[r, w]
        problem.forget()
        return problem

    def _problem(self, r: int, piece: Window) -> _Problem:
        entries: Sequence[Entry] = self.only(r)
        return _Problem((piece,), entries, 1.0, self.engine, lifted=True)

    def _gone(self, problem: _Problem, start: Start, own: np.ndarray) -> States | None:
        """The motion of a window from its start."""
        piece, (q, v) = problem.runs[0], start
        try:
            model, numbers, _, _ = problem.numbers_of(0, own)
            values = self.engine.values(problem.rows, numbers, model)
        except CalibodyError:  # a body that cannot be
            return None
        p = problem.transition.place(numbers, values, q[:, None], v[None], piece.near)
        scalars = len(piece.structure.scalar_coordinates)
        state = spook_step.State(q, v, p.frames.s[:scalars, 0], p.before[0] @ v, np.zeros(problem.rows.complementary, dtype=bool))
        gone = self.engine.go(problem.rows, values, state, *piece.drives(model), piece.h)
        if gone.failure is not None or not np.isfinite(gone.q).all():
            return None
        lam = np.concatenate([np.zeros((1, piece.structure.nc)), piece.h * gone.forces.T])
        return States(gone.q, problem.velocities(0, own, gone.q, v), np.tile(lam, 2))

    def arc(self, r: int, w: int, start: Start, theta: np.ndarray, slopes: bool) -> Arc | None:
        problem, own = self.single(r, w), theta[self.columns[r]]
        states = self._gone(problem, start, own)
        if states is None:
            return None
        piece, last = problem.runs[0], -2 if w < self.runs[r].windows - 1 else -1
        end = states.q[:, last], states.v[last]
        C = self._held(r, problem, states, own) if w == 0 else np.zeros(0)
        if not slopes:
            return Arc([(value - d.y) * piece.weight(d) for d, value in problem.fitted(0, states, own)], end, C=C)
        n = self.n
        follows, F = condensed(problem.linearise([states], own), n, len(problem.prior(own)))
        ends = np.cumsum([len(d.y) for d in piece.data])[:-1]
        at_end = follows[len(follows) - 1 if last == -1 else len(follows) - 2, :n]
        by = self._held_slopes(r, problem, states, own) if w == 0 else np.zeros((0, follows.shape[2]))
        value, sides = np.split(F[:, 0], ends), np.split(F[:, 1:], ends)
        return Arc(value, end, [f[:, :n] for f in sides], [f[:, n:] for f in sides], at_end[:, :n], at_end[:, n:], C, by[:, :n], by[:, n:])

    # -- the first start -----------------------------------------------------------------------------------------------------------

    def _held(self, r: int, problem: _Problem, states: States, own: np.ndarray) -> np.ndarray:
        """Constraints and their rates, and what is known."""
        run: Any = self.runs[r]
        p = problem.placed(0, states, own)
        known = [found.value[0] - d.y[0] for d, found in problem.started(0, states, own)]
        return np.concatenate([p.G.value[0][run.active], (p.G.first[0] @ states.v[0])[run.active], known])

    def _held_slopes(self, r: int, problem: _Problem, states: States, own: np.ndarray) -> np.ndarray:
        """By the start, and by parameters that place something, by differences."""
        run: Any = self.runs[r]
        p, nv, n = problem.placed(0, states, own), self.n // 2, self.n
        B, G = problem.transition.tangents(p.at(0, 1))[0], p.G.first[0]
        turned = p.G.at(slice(0, 1)).along(states.v[:1])[0]
        rows = [np.concatenate([G @ B, np.zeros_like(G)], axis=1)[run.active], np.concatenate([turned @ B, G], axis=1)[run.active]]
        rows += [found.matrix(problem.width).toarray()[:, :n] for _, found in problem.started(0, states, own)]
        by = np.zeros((sum(map(len, rows)), len(own)))
        for k, entry in enumerate(problem.entries):
            if moves_places(problem.model, entry):
                ends = []
                for sign in (1.0, -1.0):
                    moved = own.copy()
                    moved[k] += sign * DIFFERENCE * entry.scale
                    ends.append(self._held(r, problem, states, moved))
                by[:, k] = (ends[0] - ends[1]) / (2.0 * DIFFERENCE * entry.scale)
        return np.concatenate([np.concatenate(rows).reshape(len(by), 2 * nv), by], axis=1)

    # -- what every problem offers -------------------------------------------------------------------------------------------------

    def stepper(self) -> Spook:
        return self.engine

    def frames(self, r: int, motion: Starts, model: Model, numbers: Numbers) -> Frames:
        raise NotImplementedError("windows are forgotten once they are condensed")

    def motion(self, r: int, states: Starts, theta: np.ndarray) -> Motion:
        run: Any = self.runs[r]
        s: Structure = run.structure
        q, v, lam = np.zeros((s.nq, run.K)), np.zeros((run.K, s.nv)), np.zeros((run.K, 2 * s.nc))
        for w, start in enumerate(states.s):
            first, end = run.nodes(w)
            found = self._gone(self.single(r, w), start, theta[self.columns[r]])
            assert found is not None and found.lam is not None
            q[:, first:end], v[first:end], lam[first + 1 : end] = found.q, found.v, found.lam[1:]
        whole = self._problem(r, Window(**run.part(0, run.K), near=run.near[0] if len(run.near) else None))
        return whole.motion(0, States(q, v, lam), theta[self.columns[r]])


def condensed(chain: Chain, n: int, priors: int) -> tuple[np.ndarray, np.ndarray]:
    """How all states of a window follow its start and the parameters, (K, unknowns of a state, n + p); and the residuals of its samples beside how they do, (samples, 1 + n + p). The first `priors` residuals are not of samples."""
    residuals, equations = chain.residuals, chain.equations
    K, _, size = residuals.after.shape

    def both(name: str) -> np.ndarray:
        return np.concatenate([getattr(residuals, name)[1:], getattr(equations, name)[1:]], axis=1)

    sides = np.concatenate([both("before")[:, :, :n], both("by_theta")], axis=2)
    step = np.linalg.solve(both("after"), -sides)
    follows = np.zeros((K, size, sides.shape[2]))
    follows[0, :n, :n] = np.eye(n)
    for k in range(K - 1):
        follows[k + 1] = step[k, :, :n] @ follows[k, :n]
        follows[k + 1, :, n:] += step[k, :, n:]
    F = chain.loose_x[priors:] @ follows.reshape(K * size, -1)
    F[:, n:] += chain.loose_theta[priors:]
    return follows, np.concatenate([chain.loose[priors:, None], F], axis=1)


def independent(structure: Structure, numbers: Numbers, p: Place) -> np.ndarray:
    """Constraint rows that do not follow from others, in a pose."""
    if not structure.nc:
        return np.ones(0, dtype=bool)
    return host.independent_rows(structure, p.G.first[0], np.zeros_like(numbers.softness))
