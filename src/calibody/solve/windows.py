"""Shooting as a problem of Gauss-Newton: only the starts of windows are unknown, all between them follows from the stepper.

    minimise 1/2 |F(x, theta)|^2     over theta and the starts of all windows,     x(t) within a window by steps from its start,     windows match

A problem of all states `x` with the steps as equations `C(x, theta) = 0` (a transcription) has the same solution, and once its states are rolled out from the starts of the windows, `C = 0` but
for the rows between windows, its linearisation is that of shooting: eliminating the states inside a window from the linear equations is the forward sensitivity of the window,

    Cx dx + Ct dtheta = 0   =>   dx_(k+1) = A_k dx_k + B_k dtheta,     A_k, B_k by the implicit function theorem with the matrix of the step

and the rows between windows become the matching rows, condensed ([albersmeyer2010], "lifted" Newton). So nothing is derived or factored twice: the step comes from the problem's own factorisation, which, other
than products of A_k, stays stable where a motion is not. What makes it shooting is where a step goes: the starts move along it, and the inside is simulated anew. (In loops the constraint rows of the
starts are equations too, the relaxed rows of [kraus2006]: a start is closed to second order after every step, and the next one closes it further.)

**Adjoint.** The multipliers n of the equations at fixed theta, `Cx'n + Fx'F = 0`, solved backwards in time, are the adjoint variables of the discrete motion, and

    dJ/dtheta = Ft'F + Ct'n                [caldwell2014], lemma 1

costs one solution whatever the number of parameters (`estimate/windows/adjoint.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.solve.condensed import Sparse
from calibody.solve.gauss_newton import AbstractProblem, Solution

Roll = Callable[[Any, np.ndarray], Any]
"""From states, of which only the starts of windows count, and parameters to the states of the motion; None where a step cannot be taken."""


@dataclass(eq=False)
class Shot:
    """States whose starts of windows are what counts, and the motion from there once the parameters are known."""

    starts: Any
    known: tuple[np.ndarray, Any] | None = field(default=None, repr=False)

    def rolled(self, theta: np.ndarray, roll: Roll) -> Any:
        if self.known is None or not np.array_equal(self.known[0], theta):
            self.known = theta.copy(), roll(self.starts, theta)
        return self.known[1]

    @property
    def motion(self) -> Any:
        """As it was rolled last."""
        return self.starts if self.known is None or self.known[1] is None else self.known[1]


class Windows(AbstractProblem):
    """A problem of all states as one of the starts of windows."""

    def __init__(self, whole: Any, roll: Roll, tethered: np.ndarray | float = 0.0) -> None:
        """`tethered`: of all states, which are starts (`AbstractProblem.tethered`)."""
        self.whole, self.roll, self._tethered = whole, roll, tethered
        self.lower, self.upper, self.scale, self.slope = whole.lower, whole.upper, whole.scale, whole.slope

    @property
    def tethered(self) -> np.ndarray | float:
        return self._tethered

    @property
    def small(self) -> bool:
        return self.whole.small

    def linearise(self, x: Shot, theta: np.ndarray) -> Any:
        motion = x.rolled(theta, self.roll)
        if motion is None:
            raise CalibodyError("a window cannot be simulated to its end")
        return self.whole.linearise(motion, theta)

    def values(self, x: Shot, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        motion = x.rolled(theta, self.roll)
        return (np.full(1, np.inf), np.full(1, np.inf)) if motion is None else self.whole.values(motion, theta)

    def move(self, x: Shot, d: np.ndarray) -> Shot:
        return Shot(self.whole.move(x.motion, d))

    def shift(self, theta: np.ndarray, d: np.ndarray) -> np.ndarray:
        return self.whole.shift(theta, d)

    def begun(self, states: Any, theta: np.ndarray) -> Shot | None:
        """The first motion, from the starts of windows in `states`; None if there is none."""
        shot = Shot(states)
        return None if shot.rolled(theta, self.roll) is None else shot


def unrolled(solution: Solution) -> Solution:
    """With the states of the motion instead of the shot."""
    solution.x = solution.x.motion
    return solution


def bounds_of(nodes: int, windows: int, shortest: int) -> np.ndarray:
    """(windows + 1,) where windows begin, and the node after the last: as many as asked for, of `shortest` nodes at least."""
    count = max(1, min(windows, nodes // shortest))
    return np.append(np.round(np.arange(count) * (nodes / count)).astype(int), nodes)


def matching(
    away: Sequence[np.ndarray], ends_by_start: np.ndarray, ends_by_theta: np.ndarray, held: np.ndarray, held_by_start: np.ndarray, held_by_theta: np.ndarray
) -> tuple[np.ndarray, Sparse, np.ndarray, np.ndarray]:  # fmt: skip
    """The equations of windows that are condensed to their starts: C, its derivatives by all starts and by the parameters, and when each row comes.

    The rows between windows, `away` = start [-] end of the window before, with derivatives of the ends (windows, n, n) and (windows, n, p), and then those that hold at the first start.
    """
    W, n, p = ends_by_theta.shape
    w = np.arange(W - 1)
    blocks = np.stack([-ends_by_start[: W - 1], np.broadcast_to(np.eye(n), (W - 1, n, n))], axis=2).reshape((W - 1) * n, 2 * n)
    columns = (w[:, None] * n + np.arange(2 * n)).repeat(n, axis=0)
    between = sp.csr_matrix((blocks.ravel(), columns.ravel(), np.arange(len(blocks) + 1) * 2 * n), shape=((W - 1) * n, W * n))
    first = sp.csr_matrix(np.pad(held_by_start.reshape(len(held), n), ((0, 0), (0, (W - 1) * n))))
    C, Ct = np.concatenate([*away, held]), np.concatenate([-ends_by_theta[: W - 1].reshape((W - 1) * n, p), held_by_theta.reshape(len(held), p)])
    return C, sp.vstack([between, first], format="csr"), Ct, np.concatenate([np.repeat(w + 0.5, n), np.full(len(held), -0.5)])


def spans(bounds: np.ndarray) -> list[tuple[int, int]]:
    """First node of every window, and the node after its last."""
    return list(pairwise(bounds.tolist()))
