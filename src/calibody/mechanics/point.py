"""What the discrete equations are evaluated at, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Point:
    """What the equations are evaluated at: K nodes, K - 1 intervals."""

    q: np.ndarray
    """(nq, K) coordinates."""
    multipliers: np.ndarray
    """(nc, K) constraint forces [N, N m]."""
    control: np.ndarray
    """(number of actuators, K - 1) mean control over each interval."""
    applied: np.ndarray
    """(tree velocities, and what else is driven, K - 1) further forces on joints, on bodies and on springs, mean over each interval [N, N m]."""
    h: float
    delta: float
    """Rate below which dry friction is viscous [rad/s, m/s]."""
    turns: np.ndarray | None = None
    """(scalar coordinates, K) whole turns of hinges in `free`, [rad]; None: counted along the nodes from zero."""
    deltas: np.ndarray | None = None
    """(scalar coordinates, K - 1) `delta` of each in every interval; None: the common one."""
    unmodelled: np.ndarray | None = None
    """(tree velocities, K) joint forces `w` that act at the nodes, beside everything the model knows [N, N m]; None: zero."""

    smooth: bool = False
    """Whether sharp dry friction has derivatives of all orders (`elements/law.py`)."""
    given: np.ndarray | None = None
    """(prescribed, K) where joints and sites are to be; None: at zero."""

    def at(self, nodes: Any, intervals: Any) -> Point:
        """Some of the nodes, and the intervals between each and the next."""
        turns, deltas, unmodelled, given = self.turns, self.deltas, self.unmodelled, self.given
        return replace(
            self,
            q=self.q[:, nodes],
            multipliers=self.multipliers[:, nodes],
            control=self.control[:, intervals],
            applied=self.applied[:, intervals],
            turns=None if turns is None else turns[:, nodes],
            deltas=None if deltas is None else deltas[:, intervals],
            unmodelled=None if unmodelled is None else unmodelled[:, nodes],
            given=None if given is None else given[:, nodes],
        )

    def friction_rates(self, count: int) -> np.ndarray:
        """(scalar coordinates, K - 1, or 1 if all are the same): their `delta`."""
        return np.full((count, 1), self.delta) if self.deltas is None else self.deltas


@dataclass
class Evaluation:
    """Values, and derivatives if asked for. `minus`, `zero`, `plus` are dr_k/dq_(k-1), dr_k/dq_k, dr_k/dq_(k+1)."""

    residual: np.ndarray
    """(nv, K - 2)"""
    constraint: np.ndarray
    """(nc, K)"""
    rows: np.ndarray
    columns: np.ndarray
    minus: np.ndarray | None = None
    zero: np.ndarray | None = None
    plus: np.ndarray | None = None
    gradient_rows: np.ndarray | None = None
    gradient_columns: np.ndarray | None = None
    gradient: np.ndarray | None = None
    """(entries, K) values of G."""
    apart: np.ndarray | None = None
    """(entries, K) what the multipliers act through, where it is not G."""
    control: np.ndarray | None = None
    """(actuators, K - 1): d(force on the actuator's coordinate at either node of the interval)/du."""
    before: np.ndarray | None = None
    """(entries, K): like `gradient`, of rows on velocities by the node before; None without any."""
    direct: Any = None
    """Joint forces on their way into the rows of a tree; None afterwards."""

    @property
    def acting(self) -> np.ndarray | None:
        """(entries, K): dr_k/dlambda_k = -h acting_k'."""
        return self.gradient if self.apart is None else self.apart

    def dense(self, node: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The three blocks of one inner node as (nv, nv) matrices."""
        nv = self.residual.shape[0]
        out = []
        for values in (self.minus, self.zero, self.plus):
            assert values is not None
            matrix = np.zeros((nv, nv))
            matrix[self.rows, self.columns] = values[:, node]
            out.append(matrix)
        return out[0], out[1], out[2]

    def dense_gradient(self, node: int) -> np.ndarray:
        return self._dense_rows(self.gradient, node)

    def dense_acting(self, node: int) -> np.ndarray:
        """(nc, nv): what the multipliers act through."""
        return self._dense_rows(self.acting, node)

    def dense_before(self, node: int) -> np.ndarray:
        """(nc, nv): of rows on velocities by the node before; zero of all others."""
        return np.zeros((self.constraint.shape[0], self.residual.shape[0])) if self.before is None else self._dense_rows(self.before, node)

    def _dense_rows(self, values: np.ndarray | None, node: int) -> np.ndarray:
        out = np.zeros((self.constraint.shape[0], self.residual.shape[0]))
        assert values is not None and self.gradient_rows is not None and self.gradient_columns is not None
        out[self.gradient_rows, self.gradient_columns] = values[:, node]
        return out
