"""The equations of all impacts of a run, picked from those that there could be (`strikes.py`), and their derivatives.

Derivatives are central differences of these few rows, all impacts and all unknowns of a run in one batch; what is linear, the pushes and impulses of places that stay closed, is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calibody.estimate.contacts import strikes as law
from calibody.estimate.contacts.strikes import IMPULSE, Seat, Sides, Strike
from calibody.estimate.layout import BALANCE, IMPACTS, NODES, SEATS, STRIKES, Term
from calibody.mechanics.contact import Spots
from calibody.mechanics.kinematics import retract
from calibody.mechanics.structure import Numbers, Structure

LEAST = 1e-3
"""Impulse that differences are taken over, relative to `law.STEP`, where there is none."""


@dataclass(frozen=True, eq=False)
class Seams:
    """Impacts between the flights of a run."""

    structure: Structure
    strikes: tuple[Strike, ...]
    seats: tuple[Seat, ...]
    nodes: np.ndarray
    """(2, 3, impacts): the nodes of the flights before and after that an impact depends on."""
    ends: np.ndarray
    """(impacts,) the last node before each impact; the first after it is the next."""
    width: int
    """Components of impulses that are unknown."""
    h: float

    @cached_property
    def picked(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows, 2): of the equations of their own, the impact and which of those that it could have; and the same of seats."""
        own = {s.strike: s for s in self.seats if s.own}
        most = IMPULSE + self.width
        strikes = [(i, k) for i, s in enumerate(self.strikes) for k in law.picks(s, own.get(i)) if k < IMPULSE or k < most]
        seats = [(i, k) for i, s in enumerate(self.seats) for k in s.picks if k < 3 or k < 3 + self.width]
        return np.array(strikes, dtype=np.int64).reshape(-1, 2), np.array(seats, dtype=np.int64).reshape(-1, 2)

    @property
    def when(self) -> np.ndarray:
        """(rows,) place of the equations of their own in the band."""
        strikes, seats = self.picked
        at = np.array([s.node for s in self.strikes], dtype=float) + 0.55
        return np.concatenate([at[strikes[:, 0]], at[[self.seats[i].strike for i in seats[:, 0]]]]) if len(at) else np.zeros(0)

    def values(self, numbers: Numbers, spots: Spots, sides: Sides, seats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(2 nv, impacts) that tie flights together, and (rows,) the equations of their own."""
        if not self.strikes:
            return np.zeros((2 * self.structure.nv, 0)), np.zeros(0)
        tied, found, more = self._all(numbers, spots, sides, seats)
        strikes, of_seats = self.picked
        return tied, np.concatenate([found[strikes[:, 1], strikes[:, 0]], more[of_seats[:, 1], of_seats[:, 0]]])

    def _all(self, numbers: Numbers, spots: Spots, sides: Sides, seats: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """With several copies of the impacts one after the other: what ties them, and all equations that impacts and seats could have."""
        copies = len(sides.at_before) // len(self.strikes)
        met = law.meet(self.structure, numbers, spots, np.tile([s.spot for s in self.strikes], copies), sides, self.h)
        tied, found = law.candidates(self.strikes, spots, met, sides.impulse, self.h)
        if not self.seats:
            return tied, found, np.zeros((6, 0))
        added, more, _, _ = law.seated(self.seats, spots, met, np.tile(seats, (copies, 1)), self.h, len(self.strikes))
        return tied + added, found, more

    # -- derivatives -------------------------------------------------------------------------------------------------------------

    def by_states(self, numbers: Numbers, spots: Spots, sides: Sides, seats: np.ndarray) -> list[Term]:
        """Of all equations of impacts, by the nodes around them, their times and impulses, and what seats have."""
        if not self.strikes:
            return []
        nv, m = self.structure.nv, len(self.strikes)
        unknowns = [(side, k, dof) for side in (0, 1) for k in range(law.NODES) for dof in range(nv)]
        columns = len(unknowns) + 1 + self.width
        found = self._all(numbers, spots, self._moved(sides, unknowns), seats)
        size = np.append(np.full(len(unknowns) + 1, law.STEP), np.full(self.width, self._step(sides)))
        tied, own, more = ((x := part.reshape(len(part), 2, columns, -1))[:, 0] / (2.0 * size)[:, None] - x[:, 1] / (2.0 * size)[:, None] for part in found)
        where = np.array([self.nodes[side, k] * nv + dof for side, k, dof in unknowns])  # (unknowns, impacts)
        numbers_ = np.arange(m) * (1 + self.width) + np.arange(1 + self.width)[:, None]
        out = []
        for block, place, part in ((NODES, where, slice(0, len(unknowns))), (IMPACTS, numbers_, slice(len(unknowns), None))):
            rows, places = (np.broadcast_to(x, tied[:, part].shape).ravel() for x in (self.balance[:, None], place[None]))
            out.append(Term(BALANCE, block, rows, places, tied[:, part].ravel()))
            strikes, of_seats = self.picked
            at = np.array([self.seats[i].strike for i in of_seats[:, 0]], dtype=np.int64)
            values = np.concatenate([own[strikes[:, 1], part, strikes[:, 0]], more[of_seats[:, 1], part, of_seats[:, 0]]])
            places = place.T[np.concatenate([strikes[:, 0], at])]
            out.append(Term(STRIKES, block, np.repeat(np.arange(len(values)), values.shape[1]), places.ravel(), values.ravel()))
        return out + self._by_seats(numbers, spots, sides, seats)

    @property
    def balance(self) -> np.ndarray:
        """(2 nv, impacts): the rows of the balance that are replaced."""
        nv = self.structure.nv
        dofs = np.arange(nv)[:, None]
        return np.concatenate([(self.ends - 1) * nv + dofs, self.ends * nv + dofs])

    def _by_seats(self, numbers: Numbers, spots: Spots, sides: Sides, values: np.ndarray) -> list[Term]:
        """Of all equations, by pushes and impulses of seats."""
        if not self.seats:
            return []
        met = law.meet(self.structure, numbers, spots, np.array([s.spot for s in self.strikes]), sides, self.h)
        _, _, J, way = law.seated(self.seats, spots, met, values, self.h, len(self.strikes))
        nv, width, n = self.structure.nv, 1 + self.width, len(self.seats)
        at = self.balance[:, [s.strike for s in self.seats]]  # (2 nv, seats)
        first = np.arange(n) * width
        out = [Term(BALANCE, SEATS, at[:nv].T.ravel(), np.repeat(first, nv), -J[:, 0].ravel() / self.h)]
        for c in range(self.width):
            out.append(Term(BALANCE, SEATS, at[nv:].T.ravel(), np.repeat(first + 1 + c, nv), -J[:, c].ravel() / self.h))
        strikes, picked = self.picked
        rows, friction = len(strikes) + np.arange(len(picked)), spots.friction[[s.spot for s in self.seats]]
        for row, (i, k) in zip(rows, picked, strict=True):
            own = {0: 0, 1: 2, 2: 3}.get(int(k), int(k) - 2)  # which number of the seat stands alone in the equation
            out.append(Term(STRIKES, SEATS, np.array([row]), np.array([first[i] + own]), np.ones(1)))
            if k in (1, 2):
                out.append(Term(STRIKES, SEATS, np.array([row]), np.array([first[i] + 1]), np.array([friction[i] * way[k - 1, i]])))
        return out

    @staticmethod
    def _step(sides: Sides) -> float:
        return law.STEP * max(float(np.abs(sides.impulse).max(initial=0.0)), LEAST)

    def _moved(self, sides: Sides, unknowns: Sequence[tuple[int, int, int]]) -> Sides:
        """All impacts with every unknown of theirs a little larger, then a little smaller."""
        m, columns = len(self.strikes), len(unknowns) + 1 + self.width
        out = sides.repeated(2 * columns)
        for sign, begin in ((1.0, 0), (-1.0, columns)):
            for c, (side, k, dof) in enumerate(unknowns):
                at, nodes = slice((begin + c) * m, (begin + c + 1) * m), (out.before, out.after)[side]
                d = np.zeros((self.structure.nv, m))
                d[dof] = sign * law.STEP
                nodes[:, k, at] = retract(self.structure, nodes[:, k, at], d)
            at = slice((begin + len(unknowns)) * m, (begin + len(unknowns) + 1) * m)
            out.at_before[at] += sign * law.STEP
            out.at_after[at] += sign * law.STEP
            for k in range(self.width):
                at = slice((begin + len(unknowns) + 1 + k) * m, (begin + len(unknowns) + 2 + k) * m)
                out.impulse[at, k] += sign * self._step(sides)
        return out
