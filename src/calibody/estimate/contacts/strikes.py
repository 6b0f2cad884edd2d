"""The equations of impacts: what ties the flight before an impact to the flight after it.

An impact at the time tau ends one flight and begins another (`flights.py`), each with nodes of its own on the same mesh. Through the three nodes of each that are nearest go
parabolas; they give coordinates and velocities on both sides,

    q-, v- = q(tau), q'(tau) of the flight before,      q+, v+ of the one after

and with the rows `J = (J_n, J_t)` of the place that touches, all at q-, impulses L and the mass matrix M,

    q+ [-] q- = 0,       M (v+ - v-) - J'L = 0,       gap(q-) = 0                              2 nv + 1 equations
    J_n v+ + e J_n v- = 0,       J_t v+ = 0 (stick)  or  L_t + mu L_n s = 0 (slip, s the direction of J_t v+)

for as many unknowns: the 2 nv of the start of a flight, tau and L. Everything is smooth in tau, also where it passes a node: the flights go on beyond it. Parabolas through nodes of the
variational scheme are of second order, as the nodes are. With `law = "free"` the second line is left out: impulses are whatever the data say.

A place that stays closed after an impact (`Seat`), the one that strikes or another that goes on touching, closes the nodes of the flight after it (`lasting.py`), which says all that gap and
restitution would: then these are no equations, the impulse of each such place enters the momenta, and, since the gap of the flight after is closed already, a push `J_n' sigma` of unknown size
the coordinates. Of a place that was open before and is not the one that strikes (a face that falls flat) sigma is how far it was still away.

In the plane one of the two tangents moves nothing; the friction of a place has as many directions as its mobility has (`Strike.tangents`), and impulses along the others are zero.

Derivatives are central differences of these few rows, all impacts and all unknowns of a run in one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibody.mechanics.contact import Spots, rates_of
from calibody.mechanics.host import mass_matrices
from calibody.mechanics.kinematics import Geometry, difference, layout_of, poses, retract, twists
from calibody.mechanics.plan import plan_of
from calibody.mechanics.shapes import Touch
from calibody.mechanics.structure import BALL, FREE, Numbers, Structure
from calibody.steppers.events import STICK

LAWLESS = "free"
"""The mode of an impact whose impulses follow no law."""
STEP = 1e-6
"""Of the differences [rad, m, steps; impulses relative to the largest]."""
NODES = 3
"""Of each flight that an impact depends on."""


@dataclass(frozen=True)
class Strike:
    """An impact, as far as it is no number: which interval of the mesh it is in, which place touches, and what that does."""

    node: int
    """It is about between this node of the mesh and the next."""
    spot: int
    mode: str
    tangents: int = 0
    """Directions in which friction can act: 0 of a limit, 1 in the plane, 2 in space."""
    turn: float = 0.0
    """Angle in the plane of contact from the first tangent of the rows to the first direction of friction [rad]."""
    towards: float = 0.0
    """With one tangent, the sign of the slip after."""
    changes: int = 0
    """How often it was changed on the way ..."""
    went: int = 0
    """... and where its time went last: +1 later, -1 earlier."""
    across: tuple[bool, bool] = (True, True)
    """Whether sticking is an equation of its own: not where others stay closed and stick that say the same (the second corner of an edge)."""


@dataclass(frozen=True)
class Seat:
    """A place that is closed from an impact on: of which impact, and how friction acts then."""

    strike: int
    spot: int
    own: bool
    """Whether it is the place that strikes, whose impulse is that of the impact."""
    mode: int
    """As of `lasting.Hold.modes`."""
    tangents: int
    turn: float
    kept: bool
    """Whether its gap is an equation of its own ..."""
    across: tuple[bool, bool]
    """... and its stick."""

    @property
    def picks(self) -> list[int]:
        """Which of the equations that there could be (`seated`) it has; `width` 3."""
        if self.own or not self.kept:
            return [*([] if self.kept else [0]), 3, 4, 5]
        return self._friction(1, 4)

    def _friction(self, rubbed: int, push: int) -> list[int]:
        """Of both tangents: friction, none where the flight after sticks, or no impulse."""
        out = []
        for c in range(2):
            if c >= self.tangents or (self.mode == 0 and not self.across[c]):
                out.append(push + c)
            elif self.mode != 0:
                out.append(rubbed + c)
        return out


GAP, REBOUND, SLIPS, RUBBED, IMPULSE = 0, 1, 2, 4, 6
"""Where the equations that an impact could have stand (`candidates`): gap, restitution, slip along both tangents, friction along both, impulse along all three."""


def picks(strike: Strike, seat: Seat | None) -> list[int]:
    """Which of them it has: as many as unknowns."""
    if seat is not None:
        return [GAP, *seat._friction(RUBBED, IMPULSE + 1)]
    law = [] if strike.mode == LAWLESS else [REBOUND, *(_rubbing(strike, c) for c in range(strike.tangents))]
    return [GAP, *law, *(IMPULSE + 1 + c for c in range(strike.tangents, 2))]


def _rubbing(strike: Strike, c: int) -> int:
    """What says how it rubs along a tangent: that it sticks, or with what it slips; no impulse where others stick for it."""
    if strike.mode != STICK:
        return RUBBED + c
    return SLIPS + c if strike.across[c] else IMPULSE + 1 + c


@dataclass(frozen=True, eq=False)
class Sides:
    """Impacts of a run at a point: nodes (nq, 3, impacts) of the flights before and after with where the impact is, in steps from the middle one; and impulses (impacts, 3)."""

    before: np.ndarray
    after: np.ndarray
    at_before: np.ndarray
    at_after: np.ndarray
    impulse: np.ndarray

    def repeated(self, times: int) -> Sides:
        """So many copies, one after the other."""
        before, after = (np.tile(x, (1, 1, times)) for x in (self.before, self.after))
        return Sides(before, after, np.tile(self.at_before, times), np.tile(self.at_after, times), np.tile(self.impulse, (times, 1)))


@dataclass(frozen=True, eq=False)
class Met:
    """What happens at impacts: coordinates and velocities on both sides, gaps, rows (impacts, 3, nv) and mass matrices (nv, nv, impacts)."""

    q: np.ndarray
    apart: np.ndarray
    before: np.ndarray
    after: np.ndarray
    gap: np.ndarray
    rows: np.ndarray
    mass: np.ndarray
    touch: Touch
    T: np.ndarray
    Z: np.ndarray

    @property
    def approach(self) -> np.ndarray:
        """(impacts, 3) velocities of the places before."""
        return np.einsum("mkj,jm->mk", self.rows, self.before)

    @property
    def parting(self) -> np.ndarray:
        return np.einsum("mkj,jm->mk", self.rows, self.after)


def turned(structure: Structure, d: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Velocities (nv, m) of `retract(q, d)` when d (nv, m) changes at `rate`: of rotations `J_r(d) rate`, with `J_r = 1 - (1 - cos t)/t^2 [d]x + (t - sin t)/t^3 [d]x^2`."""
    out = rate.copy()
    for kind, units, _ in layout_of(structure).groups:
        if kind not in (BALL, FREE):
            continue
        for v in structure.v_start[units] + (3 if kind == FREE else 0):
            at = slice(int(v), int(v) + 3)
            phi, w = d[at], rate[at]
            t = np.sqrt((phi**2).sum(axis=0))
            small = t < 1e-3  # the series is exact to rounding there
            safe = np.where(small, 1.0, t)
            one = np.where(small, 0.5 - t**2 / 24.0, (1.0 - np.cos(safe)) / safe**2)
            two = np.where(small, 1.0 / 6.0 - t**2 / 120.0, (safe - np.sin(safe)) / safe**3)
            across = np.cross(phi, w, axis=0)
            out[at] = w - one * across + two * np.cross(phi, across, axis=0)
    return out


def parabola(structure: Structure, nodes: np.ndarray, x: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (nq, m) and velocities (nv, m) at x steps from the middle one of three nodes (nq, 3, m)."""
    middle = nodes[:, 1]
    behind, ahead = (difference(structure, nodes[:, k], middle) for k in (0, 2))
    d = 0.5 * x * (x - 1.0) * behind + 0.5 * x * (x + 1.0) * ahead
    rate = ((x - 0.5) * behind + (x + 0.5) * ahead) / h
    return retract(structure, middle, d), turned(structure, d, rate)


def masses(structure: Structure, numbers: Numbers, q: np.ndarray) -> np.ndarray:
    """(nv, nv, instants) mass matrices at coordinates (nq, instants)."""
    geometry = Geometry.of(structure, numbers)
    H = poses(structure, geometry, q)
    return mass_matrices(structure, numbers, H, twists(structure, geometry, H))


def meet(structure: Structure, numbers: Numbers, spots: Spots, which: np.ndarray, sides: Sides, h: float) -> Met:
    """What happens where the places `which` (one per impact) touch."""
    q, before = parabola(structure, sides.before, sides.at_before, h)
    end, after = parabola(structure, sides.after, sides.at_after, h)
    geometry = Geometry.of(structure, numbers)
    H = poses(structure, geometry, q)
    T = twists(structure, geometry, H)
    touch = spots.touch(H)
    gaps = spots.gaps(touch, q[structure.scalar_positions])
    Z = np.eye(structure.nv)[plan_of(structure).coordinate_dof]
    rows = rates_of(spots, touch, T, Z, which)
    return Met(q, difference(structure, end, q), before, after, gaps[which, np.arange(len(which))], rows, mass_matrices(structure, numbers, H, T), touch, T, Z)


def candidates(strikes: Sequence[Strike], spots: Spots, met: Met, impulse: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """(2 nv, impacts) that tie the flights together, lengths and momenta over h, and (9, impacts) the equations that they could have of their own: see `GAP` and what follows it.

    The impacts may be several copies of the strikes, one after the other.
    """
    m = met.before.shape[1]
    copies = m // len(strikes)
    turn, tangents, towards, which = (np.tile([getattr(s, name) for s in strikes], copies) for name in ("turn", "tangents", "towards", "spot"))
    rows = _turned_rows(met.rows, turn)
    jump = np.einsum("ijm,jm->im", met.mass, met.after - met.before) - np.einsum("mkj,mk->jm", rows, impulse)
    u_before, u_after = (np.einsum("mkj,jm->km", rows, v) for v in (met.before, met.after))
    rebound = u_after[0] + spots.restitution[which] * u_before[0]
    rubbed = impulse[:, 1:].T + spots.friction[which] * impulse[:, 0] * _way(u_after[1:], tangents, towards)
    return np.concatenate([met.apart, jump]) / h, np.concatenate([met.gap[None], rebound[None], u_after[1:], rubbed, impulse.T])


def _way(slip: np.ndarray, tangents: np.ndarray, towards: np.ndarray) -> np.ndarray:
    """(2, places): the direction of a slip; as decided with one tangent."""
    length = np.sqrt((slip**2).sum(axis=0))
    return np.where(tangents == 2, slip / np.where(length > 0.0, length, 1.0), np.stack([towards, np.zeros(len(towards))]))


def seated(seats: Sequence[Seat], spots: Spots, met: Met, values: np.ndarray, h: float, strikes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What seats add to the equations that tie flights together (2 nv, impacts), the equations that they could have of their own (6, seats): push, friction along both tangents and the three
    components of the impulse; their rows (seats, 3, nv), and the directions of friction (2, seats). `values` (seats, 4); copies as of `candidates`."""
    copies = met.before.shape[1] // strikes
    at = (np.arange(copies)[:, None] * strikes + np.array([s.strike for s in seats])).ravel()
    which, tangents, turn, mode = (np.tile([getattr(s, name) for s in seats], copies) for name in ("spot", "tangents", "turn", "mode"))
    rows = _turned_rows(rates_of(spots, met.touch, met.T, met.Z, which, at), turn)
    nv, tied = rows.shape[2], np.zeros((2 * rows.shape[2], met.before.shape[1]))
    np.add.at(tied[:nv].T, at, -rows[:, 0] * values[:, :1])
    np.add.at(tied[nv:].T, at, -np.einsum("mkj,mk->mj", rows, values[:, 1:]))
    way = _way(np.einsum("mkj,jm->km", rows[:, 1:], met.after[:, at]), tangents, mode.astype(float))
    rubbed = values[:, 2:].T + spots.friction[which] * values[:, 1] * way
    return tied / h, np.concatenate([values[:, :1].T, rubbed, values[:, 1:].T]), rows, way


def _turned_rows(rows: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """With the tangents turned by an angle in their plane."""
    c, s = np.cos(turn)[:, None], np.sin(turn)[:, None]
    return np.stack([rows[:, 0], c * rows[:, 1] + s * rows[:, 2], c * rows[:, 2] - s * rows[:, 1]], axis=1)


def mobility(met: Met) -> np.ndarray:
    """(impacts, 3, 3) `J M^-1 J'` of every place."""
    M = np.moveaxis(met.mass, 2, 0)
    inverse = np.linalg.pinv(np.nan_to_num(M), rcond=1e-12, hermitian=True)  # an inertia on its way through zero
    return np.einsum("mkj,mji,mli->mkl", met.rows, inverse, met.rows)


def directions(W: np.ndarray) -> tuple[int, float]:
    """How many tangents a place has friction along, and the angle of the first, from its mobility (3, 3)."""
    size, axes = np.linalg.eigh(W[1:, 1:])
    if size[1] <= 1e-9 * abs(W[0, 0]):
        return 0, 0.0
    return (2, 0.0) if size[0] > 1e-6 * size[1] else (1, float(np.arctan2(axes[1, 1], axes[0, 1])))
