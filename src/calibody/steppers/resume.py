"""The variational stepper from two known nodes on: what shooting does in every window.

A window begins with `q_0` and `q_1`, which are unknowns of the fit, and goes on with the steps of `step.py`: `p_1 = -right(q_0, q_1)`, then as from any state. The
equations that hold at the nodes `1, 2, ...` are those of a transcription, so its derivatives are those of the window (`solve/windows.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calibody.mechanics.compilation import program
from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers import step


@dataclass(frozen=True)
class Resumed:
    """The nodes after the two that were given, and the constraint forces at the nodes that were stepped from."""

    q: np.ndarray
    """(nq, steps)"""
    multipliers: np.ndarray
    """(nc, steps): of the second node, and so on."""


@dataclass(frozen=True, eq=False)
class Resuming:
    """Windows of one mechanism with given numbers."""

    structure: Structure
    numbers: Numbers
    active: np.ndarray
    h: float
    delta: float

    @cached_property
    def _values(self) -> step.Values:
        return step.Values.of(self.structure, self.numbers, self.active)

    def __call__(self, q: np.ndarray, near: np.ndarray, control: np.ndarray, applied: np.ndarray) -> Resumed | None:
        """Steps from two nodes q (nq, 2) on, `near` being the scalar coordinates of the first up to whole turns; control (actuators, 1 + steps) and applied (tree velocities, 1 + steps)
        begin with the interval between the two. None where a step fails."""
        structure, values, settings = self.structure, self._values, (np.float64(self.h), np.float64(self.delta))
        given = values, q[:, 0], near, q[:, 1], control[:, 0], applied[:, 0], *settings
        state = program(step.Program(structure).between, ("between", structure.topology), given)(*given)
        advance = step.compiled(structure, values, state, len(control))
        n, k, nodes, forces = control.shape[1] - 1, 0, [np.zeros((0, structure.nq))], [np.zeros((0, structure.nc))]
        while k < n:
            count = min(step.PIECE, n - k)
            pieces = step.piece(control, k + 1), step.piece(applied, k + 1)
            done, state, found, multipliers, status, _ = advance(values, state, *pieces, np.int32(count), *settings)
            if int(status) != step.CONVERGED or int(done) < count:
                return None
            nodes.append(np.asarray(found)[:count])
            forces.append(np.asarray(multipliers)[:count])
            k += count
        return Resumed(np.concatenate(nodes).T, np.concatenate(forces).T)
