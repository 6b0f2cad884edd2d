"""The variational stepper: second order, momentum preserving (the default). The scheme is in `step.py`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibody.mechanics.structure import Numbers, Structure, refuse_load_friction
from calibody.steppers import step
from calibody.steppers.base import AbstractStepper, Start, Trajectory


@dataclass(frozen=True)
class Variational(AbstractStepper):
    """Settings of the variational stepper."""

    friction_rate: float = 1e-3
    """Rate below which dry friction is viscous [rad/s, m/s]; below |acceleration| h/2 it has no further effect but the order at reversals."""

    def run(self, structure: Structure, numbers: Numbers, start: Start, control: np.ndarray, applied: np.ndarray, h: float, active: np.ndarray) -> Trajectory:
        refuse_load_friction(structure.model)
        values = step.Values.of(structure, numbers, active)
        compiled = step.compiled(structure)
        state = compiled.start(values, start.q, start.v, start.s, h)
        n = applied.shape[1]
        nodes, multipliers = [start.q[None]], []
        iterations, failure = 0, None
        for first in range(0, n, step.PIECE):
            count = min(step.PIECE, n - first)
            done, state, piece, forces, status, used = compiled.advance(
                values, state, step.piece(control, first), step.piece(applied, first), np.int32(count), h, self.friction_rate
            )
            nodes.append(np.asarray(piece)[: int(done)])
            multipliers.append(np.asarray(forces)[: int(done)])
            iterations += int(used)
            if int(status) != step.CONVERGED:
                failure = self._why(structure, int(status), (first + int(done)) * h, h, state)
                break
        q_all = np.concatenate(nodes).T
        lam = np.concatenate(multipliers).T if multipliers else np.zeros((structure.nc, 0))
        last = lam[:, -1:] if lam.shape[1] else np.zeros((structure.nc, 1))
        return Trajectory(q_all, np.concatenate([lam, last], axis=1), iterations, failure)

    def _why(self, structure: Structure, status: int, time: float, h: float, state: step.State) -> str:
        where = _fastest(structure, state)
        if status == step.TURNED:
            turn = float(np.abs(np.asarray(state.d)).max())
            return f"At t = {time:.6g} s {where} turns by more than 1 rad in one step of {h:g} s; a step of {h * 0.5 / max(turn, 1.0):.1g} s would do."
        if status == step.NOT_FINITE:
            return (
                f"At t = {time:.6g} s the equations of motion of {where} have no solution (singular mass or constraint matrix); "
                "check for bodies without mass and for loops that fix more than they can."
            )
        return f"At t = {time:.6g} s the step of {h:g} s did not converge, worst at {where}; try a step of {h / 4:g} s, or look for stiff springs or a dead point of a loop."


def _fastest(structure: Structure, state: step.State) -> str:
    d = np.nan_to_num(np.abs(np.asarray(state.d)), nan=np.inf)
    return structure.dof_name(int(np.argmax(d))) if d.size else "the mechanism"
