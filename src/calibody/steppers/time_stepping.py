"""The first-order scheme of Stewart and Trinkle with contacts, in joint coordinates: a yardstick for the variational stepper, and what many engines do.

    M (v+ - v) = h f(q, v) + J'L,      q+ = q [+] h v+,      0 <= L_n  _|_  gap(q) + h J_n v+ >= 0,      friction on J_t v+

([stewart1996]; cones are exact here instead of polyhedral). Everything is taken at the start of a step, impacts are without rebound and up to a step late: the error is
of first order, as the time of an impact is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibody.complementarity import cone
from calibody.errors import SimulationError
from calibody.mechanics import host
from calibody.mechanics.contact import Spots
from calibody.mechanics.dynamics import acceleration
from calibody.mechanics.kinematics import retract
from calibody.mechanics.structure import AUTO, TREE, Numbers, Structure, refuse_driven, refuse_load_friction
from calibody.steppers.base import AbstractStepper, Start, Trajectory
from calibody.steppers.contact import refuse_inside
from calibody.steppers.events import ContactLog
from calibody.steppers.step import axes_of, size_of_dofs
from calibody.steppers.variational import Variational


@dataclass(frozen=True)
class TimeStepping(AbstractStepper):
    """Stewart and Trinkle's scheme: first order, without rebound, without closed loops."""

    near: float = 0.1
    """Gaps up to this [m, rad] are looked at in a step; a step must not close more than this."""

    def coordinates(self, asked: str) -> str:
        if asked not in (AUTO, TREE):
            raise SimulationError(f'stepper="time_stepping" works in joint coordinates, so coordinates = {asked!r} does not fit; leave it out, or give "tree".')
        return TREE

    def viscous_below(self) -> float:
        return Variational().friction_rate

    def run(self, structure: Structure, numbers: Numbers, start: Start, control: np.ndarray, applied: np.ndarray, h: float) -> Trajectory:
        refuse_driven(structure, "time_stepping")
        refuse_load_friction(structure)
        if structure.nc:
            raise SimulationError(f'stepper="time_stepping" does not know closed loops ({structure.row_owners[0]}); use stepper="variational".')
        spots, n, v = Spots.of(structure), applied.shape[1], start.v.copy()
        owners = len(structure.model.contacts) + len(structure.model.limits)
        log, q = ContactLog.empty(owners, structure.n + 1, n + 1), [start.q]
        for k in range(n):
            at = host.configuration(structure, numbers, q[-1])
            touch, s = spots.touch(at.frames.H[..., 0]), at.frames.s[:, 0]
            gaps = spots.gaps(touch, s[: len(structure.scalar_coordinates)])
            if k == 0:
                refuse_inside(spots, structure.model, gaps, float(size_of_dofs(structure, numbers).max(initial=1.0)))
            v = v + h * acceleration(structure, numbers, at, v, control[:, k], applied[:, k])
            which = np.flatnonzero(gaps < self.near)
            if len(which):
                rates, acts, directions = spots.rows(touch, at.frames.T[:, :, 0], *axes_of(structure, at.frames)[:2], which)
                J, through = rates.reshape(-1, v.size), acts.reshape(-1, v.size)
                mobility = np.linalg.solve(at.M, through.T)
                free = (J @ v).reshape(-1, 3)
                free[:, 0] += gaps[which] / h
                L = cone.solve(J @ mobility, free, spots.sliding[which]).L
                v = v + mobility @ L.ravel()
                between = which < len(spots.links[0])
                world = np.where(between[:, None], np.einsum("mi,mij->mj", L, directions), L)
                np.add.at(log.force[:, :, k], spots.owner[which], world * spots.side[which][:, None] / h)
                np.add.at(log.normal[:, k], spots.owner[which], L[:, 0] / h)
            q.append(retract(structure, q[-1], h * v))
            if not np.isfinite(q[-1]).all():
                return _trajectory(q[:-1], k, log, f"At t = {k * h:.6g} s the step of {h:g} s gives no finite coordinates; try a step of {h / 4:g} s.")
        return _trajectory(q, n, log, None)


def _trajectory(q: list[np.ndarray], steps: int, log: ContactLog, failure: str | None) -> Trajectory:
    return Trajectory(np.array(q).T, np.zeros((0, len(q))), steps, np.zeros(0, dtype=bool), failure, (), log)
