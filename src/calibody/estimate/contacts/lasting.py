"""Contact that lasts in a fit: a place that is closed over a range of nodes, with a force that pushes and friction that sticks or slips.

At the nodes k of a `Hold` the gap is zero, and at every inner node before one of them a force `lambda_k = (normal, tangent, tangent)` acts through the rows `J_k` of the place, as a joint's
force does that exists for a while:

    balance of node k:   ... - J_k' lambda_k = 0,        gap(q_(k+1)) = 0
    slip:    lambda_t + mu lambda_n s = 0               s the direction of the slip `J_t,k (q_(k+1) - q_(k-1))/2h`; with one tangent its sign
    stick:   (J_t,k + J_t,k+1)/2 . (q_(k+1) - q_k)/h = 0

as many equations as unknowns. It is the step of the simulation (`steppers/contact.py`) with directions taken in the middle instead of at the start, so that all of it is of second order. A hold that begins
with its flight is closed at the first two nodes too, which have no force before them: so many numbers less has the start of the flight, and an impact that it begins with has so many
equations less (`seams.py`).

Where several places touch at once their rows may depend on each other (four corners of a face; two that stick). Dependent ones are left out (`Hold.normal`, `Hold.across`), and what would act
through them is zero: the sums of forces are what there is to know.

Derivatives by the nodes take those of the rows, `dJ/dq` (central differences of the kinematics of the nodes that touch, all in one batch), and are exact in all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from calibody.estimate.contacts.strikes import STEP
from calibody.estimate.layout import BALANCE, HOLDS, NODES, PUSHES, Block, Term
from calibody.mechanics.contact import Spots, rates_of
from calibody.mechanics.kinematics import Geometry, difference, poses, retract, twists
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import Numbers, Structure

BEGIN, END = -1, 1 << 40
"""First and last node of a hold that lasts from the start, to the end of its flight."""
STICKS = 0
"""Mode of friction at a node; +1 and -1: it slips that way along the only tangent, or (+1) whichever way it does in space."""


@dataclass(frozen=True, eq=False)
class Hold:
    """A place that touches over a range of nodes of one flight; arrays are by the nodes of the mesh."""

    flight: int
    spot: int
    modes: np.ndarray
    first: int = BEGIN
    """The gap is closed from this node of the mesh on ..."""
    last: int = END
    """... up to this one."""
    tangents: int = 0
    turn: float = 0.0
    """Angle in the plane of contact from the first tangent of the rows to the direction of friction, of which each node takes the nearest to it (`tangents` 1) [rad]."""
    flips: np.ndarray | None = None
    """How often friction changed at each node."""
    normal: np.ndarray | None = None
    """Whether the gap is a row of its own; None: everywhere."""
    across: np.ndarray | None = None
    """(nodes, 2) the same of the rows of sticking."""
    bouncing: np.ndarray | None = None
    """(nodes,) the share of the step around each node in which it comes back from its landing again and again, lower than can be seen: its friction is that of impacts then. None: nowhere."""

    def kept(self, nodes: np.ndarray) -> np.ndarray:
        return np.ones(len(nodes), dtype=bool) if self.normal is None else self.normal[nodes]

    def kept_across(self, nodes: np.ndarray) -> np.ndarray:
        return np.ones((len(nodes), 2), dtype=bool) if self.across is None else self.across[nodes]

    def on_mesh(self, index: np.ndarray) -> Hold:
        """On another mesh, of whose nodes `index` are the nearest of this one; first and last as given there."""
        taken = {name: None if (a := getattr(self, name)) is None else a[index] for name in ("modes", "normal", "across", "bouncing")}
        return replace(self, **taken, flips=None)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, kw_only=True)
class Pushes(Block):
    """Forces of holds: the value is (instants, 3), of which the first `width` are unknown."""

    flight: np.ndarray
    spot: np.ndarray
    times: np.ndarray

    def moved(self, value: np.ndarray, d: np.ndarray) -> np.ndarray:
        out = value.copy()
        out[:, : self.width] += d
        return out

    def carried(self, value: np.ndarray, to: Pushes) -> np.ndarray:
        """Place by place, straight between instants; zero where there was none."""
        out = np.zeros((len(to.times), 3))
        for flight, spot in sorted(set(zip(to.flight.tolist(), to.spot.tolist(), strict=True))):
            old, new = ((b.flight == flight) & (b.spot == spot) for b in (self, to))
            for c in range(3 if old.any() else 0):
                out[new, c] = np.interp(to.times[new], self.times[old], value[old, c])
        return out


@dataclass(frozen=True, eq=False)
class Held:
    """The holds of a run on the nodes of its flights. An *entry* is a hold at a node; those of a hold follow one another."""

    holds: tuple[Hold, ...]
    hold: np.ndarray
    node: np.ndarray
    """(entries,) of the run, and ..."""
    mesh: np.ndarray
    """... of the mesh."""
    gaps: np.ndarray
    """Entries whose gap is an equation."""
    pushes: np.ndarray
    """Entries at which a force acts ..."""
    idle: np.ndarray
    """... and of which the normal force is none, because the gap after it is no equation of its own."""
    starts: np.ndarray
    """Entries at the start of a flight, from which on a place sticks."""

    @classmethod
    def of(cls, holds: Sequence[Hold], spans: np.ndarray, offsets: np.ndarray) -> Held:
        found: dict[str, list[np.ndarray]] = {name: [np.zeros(0, dtype=np.int64)] for name in ("hold", "node", "mesh", "gaps", "pushes", "starts")}
        idle, count = [np.zeros(0, dtype=bool)], 0
        for i, hold in enumerate(holds):
            first, end = (int(x) for x in spans[hold.flight])
            a, b = _range(hold, first, end)
            pushed = np.arange(first + 1 if hold.first == BEGIN else a - 1, b)
            nodes = np.arange(min(a, int(pushed[0])) if len(pushed) else a, b + 1)
            gaps = np.arange(a, b + 1)
            found["hold"].append(np.full(len(nodes), i))
            found["mesh"].append(nodes)
            found["node"].append(int(offsets[hold.flight]) + nodes - first)
            found["gaps"].append(count + gaps[hold.kept(gaps)] - nodes[0])
            found["pushes"].append(count + pushed - nodes[0])
            idle.append(~hold.kept(pushed + 1))
            if hold.first == BEGIN and hold.tangents and hold.modes[first] == STICKS:
                found["starts"].append(np.array([count]))
            count += len(nodes)
        return cls(tuple(holds), idle=np.concatenate(idle), **{name: np.concatenate(parts) for name, parts in found.items()})

    def of_holds(self, name: str) -> np.ndarray:
        """(entries,) a number of the hold of each."""
        return np.array([getattr(h, name) for h in self.holds])[self.hold] if self.holds else np.zeros(0, dtype=np.int64)

    @cached_property
    def spots(self) -> np.ndarray:
        return self.of_holds("spot").astype(np.int64)

    @cached_property
    def tangents(self) -> np.ndarray:
        return self.of_holds("tangents")

    @cached_property
    def modes(self) -> np.ndarray:
        """(entries,)"""
        return np.array([self.holds[h].modes[k] for h, k in zip(self.hold, self.mesh, strict=True)], dtype=np.int64)

    @cached_property
    def across(self) -> np.ndarray:
        """(entries, 2)"""
        return np.array([self.holds[h].kept_across(np.array([k]))[0] for h, k in zip(self.hold, self.mesh, strict=True)], dtype=bool).reshape(-1, 2)

    def friction(self, spots: Spots, e: np.ndarray) -> np.ndarray:
        """(entries,) its coefficient: that of impacts while a place still bounces."""
        share = np.array([0.0 if (b := self.holds[self.hold[k]].bouncing) is None else b[self.mesh[k]] for k in e])
        return (1.0 - share) * spots.sliding[self.spots[e]] + share * spots.friction[self.spots[e]]

    @property
    def width(self) -> int:
        """Components of forces that are unknown."""
        return 3 if any(h.tangents for h in self.holds) else 1

    # -- rows --------------------------------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the equations beside the gaps: those that a force is zero (number of the force, component), of slip (the same), and of stick (entry, tangent)."""
        zero, slip, stick = [(int(m), 0) for m in np.flatnonzero(self.idle)], [], []
        for m, e in enumerate(self.pushes):
            for c in range(self.width - 1):
                if c >= self.tangents[e] or (self.modes[e] == STICKS and not self.across[e, c]):
                    zero.append((m, 1 + c))
                elif self.modes[e] == STICKS:
                    stick.append((int(e), c))
                else:
                    slip.append((m, 1 + c))
        stick += [(int(e), c) for e in self.starts for c in range(self.tangents[e]) if self.across[e, c]]
        return tuple(np.array(x, dtype=np.int64).reshape(-1, 2) for x in (zero, slip, stick))  # type: ignore[return-value]

    @property
    def when(self) -> np.ndarray:
        """(rows,) place of every equation in the band: of gaps behind the force that closes them."""
        zero, slip, stick = self.rows
        at = [self.mesh[self.gaps] - 0.65, self.mesh[self.pushes[zero[:, 0]]] + 0.3, self.mesh[self.pushes[slip[:, 0]]] + 0.3, self.mesh[stick[:, 0]] + 0.35]
        return np.concatenate(at)

    # -- values ------------------------------------------------------------------------------------------------------------------

    def places(self, structure: Structure, numbers: Numbers, spots: Spots, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(entries,) gaps and (entries, 3, nv) rows, tangents turned into the directions of friction, at coordinates (nq, nodes of the run)."""
        nodes, at = np.unique(self.node, return_inverse=True)
        gap, rows = touched(structure, numbers, spots, q[:, nodes], self.spots, at)
        return gap, turned(rows, self.of_holds("turn"), self.tangents)

    def values(self, structure: Structure, numbers: Numbers, spots: Spots, q: np.ndarray, force: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
        """(pushes, nv) what the forces do to the balance of their nodes, and (rows,) the equations of their own."""
        gap, J = self.places(structure, numbers, spots, q)
        zero, slip, stick = self.rows
        e = self.pushes[slip[:, 0]]
        _, s = self.slips(structure, J, q, h, e)
        mu = self.friction(spots, e)
        rubbed = force[slip[:, 0], slip[:, 1]] + mu * force[slip[:, 0], 0] * s[np.arange(len(e)), slip[:, 1] - 1]
        a, c = stick.T
        stuck = np.einsum("mi,mi->m", self._between(J, a, c), self.step(structure, q, a)) / h
        return -np.einsum("mki,mk->mi", J[self.pushes], force), np.concatenate([gap[self.gaps], force[zero[:, 0], zero[:, 1]], rubbed, stuck])

    @staticmethod
    def _between(J: np.ndarray, e: np.ndarray, c: np.ndarray) -> np.ndarray:
        return 0.5 * (J[e, 1 + c] + J[e + 1, 1 + c])

    def step(self, structure: Structure, q: np.ndarray, e: np.ndarray) -> np.ndarray:
        """(entries, nv): from the node of an entry to the next."""
        n = self.node[e]
        return difference(structure, q[:, n + 1], q[:, n]).T

    def central(self, structure: Structure, q: np.ndarray, e: np.ndarray, h: float) -> np.ndarray:
        n = self.node[e]
        return (difference(structure, q[:, n + 1], q[:, n]) - difference(structure, q[:, n - 1], q[:, n])).T / (2.0 * h)

    def slips(self, structure: Structure, J: np.ndarray, q: np.ndarray, h: float, e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(entries, 2) velocities of slip, and the directions that friction acts against: as decided with one tangent."""
        v = np.einsum("mki,mi->mk", J[e, 1:], self.central(structure, q, e, h))
        length = np.sqrt((v**2).sum(axis=1))
        decided = np.stack([self.modes[e].astype(float), np.zeros(len(e))], axis=1)
        return v, np.where((self.tangents[e] == 2)[:, None], v / np.where(length > 0.0, length, 1.0)[:, None], decided)

    # -- derivatives -------------------------------------------------------------------------------------------------------------

    def by_states(self, structure: Structure, numbers: Numbers, spots: Spots, q: np.ndarray, force: np.ndarray, h: float) -> list[Term]:
        nv, width = structure.nv, self.width
        _, J = self.places(structure, numbers, spots, q)
        dJ = self._bent(structure, numbers, spots, q)
        zero, slip, stick = self.rows
        out, dofs = [], np.arange(nv)
        node, m = self.node[self.pushes], np.arange(len(self.pushes))
        out.append(_block(BALANCE, NODES, (node - 1) * nv, node * nv, -np.einsum("mjki,mk->mij", dJ[self.pushes], force)))
        out.append(_block(BALANCE, PUSHES, (node - 1) * nv, m * width, -J[self.pushes, :width].swapaxes(1, 2)))
        row = np.arange(len(self.gaps))
        out.append(_block(HOLDS, NODES, row, self.node[self.gaps] * nv, J[self.gaps, :1]))
        first = len(row)
        out.append(Term(HOLDS, PUSHES, first + np.arange(len(zero)), zero[:, 0] * width + zero[:, 1], np.ones(len(zero))))
        first += len(zero)
        out += self._by_slip(structure, spots, J, dJ, q, force, h, first)
        first += len(slip)
        e, c = stick.T
        d, between = self.step(structure, q, e), self._between(J, e, c)
        by_next, by_own = self._by_ends(structure, q, self.node[e], self.node[e] + 1)
        own = 0.5 * np.einsum("mji,mi->mj", dJ[e, :, 1 + c], d) + np.einsum("mi,mij->mj", between, by_own)
        ahead = 0.5 * np.einsum("mji,mi->mj", dJ[e + 1, :, 1 + c], d) + np.einsum("mi,mij->mj", between, by_next)
        rows = first + np.arange(len(e))
        for values, n in ((own, self.node[e]), (ahead, self.node[e] + 1)):
            out.append(Term(HOLDS, NODES, np.repeat(rows, nv), (n[:, None] * nv + dofs).ravel(), values.ravel() / h))
        return out

    def _by_slip(self, structure: Structure, spots: Spots, J: np.ndarray, dJ: np.ndarray, q: np.ndarray, force: np.ndarray, h: float, first: int) -> list[Term]:
        """Of the equations of slip, from row `first` on."""
        nv, width, slip = structure.nv, self.width, self.rows[1]
        m, c = slip[:, 0], slip[:, 1] - 1
        e, rows, mu = self.pushes[m], first + np.arange(len(m)), self.friction(spots, self.pushes[m])
        v, s = self.slips(structure, J, q, h, e)
        out = [Term(HOLDS, PUSHES, rows, m * width + 1 + c, np.ones(len(m))), Term(HOLDS, PUSHES, rows, m * width, mu * s[np.arange(len(m)), c])]
        space = np.flatnonzero(self.tangents[e] == 2)
        if not len(space):
            return out
        e, c, v, s, rows = e[space], c[space], v[space], s[space], rows[space]
        turn = (np.eye(2)[c] - s[np.arange(len(e)), c][:, None] * s) / np.maximum(np.sqrt((v**2).sum(axis=1)), 1e-300)[:, None]
        J_t = np.einsum("mk,mki->mi", (mu * force[m, 0])[space][:, None] * turn, J[e, 1:])
        dJ_t = np.einsum("mk,mjki->mji", (mu * force[m, 0])[space][:, None] * turn, dJ[e, :, 1:])
        n = self.node[e]
        (ahead, own_a), (behind, own_b) = (self._by_ends(structure, q, n, n + side) for side in (1, -1))
        parts = (
            (n, np.einsum("mji,mi->mj", dJ_t, self.central(structure, q, e, h)) + np.einsum("mi,mij->mj", J_t, own_a - own_b) / (2.0 * h)),
            (n + 1, np.einsum("mi,mij->mj", J_t, ahead) / (2.0 * h)),
            (n - 1, -np.einsum("mi,mij->mj", J_t, behind) / (2.0 * h)),
        )
        return [*out, *(Term(HOLDS, NODES, np.repeat(rows, nv), (at[:, None] * nv + np.arange(nv)).ravel(), values.ravel()) for at, values in parts)]

    @staticmethod
    def _by_ends(structure: Structure, q: np.ndarray, n: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(m, nv, nv): of `q_other [-] q_n` by both, in the tangent at n."""
        out = np.zeros((2, len(n), structure.nv, structure.nv))
        for j in range(structure.nv):
            for k in (0, 1):
                ends = []
                for sign in (1.0, -1.0):
                    d = np.zeros((structure.nv, len(n)))
                    d[j] = sign * STEP
                    moved = [q[:, other], q[:, n]]
                    moved[k] = retract(structure, moved[k], d)
                    ends.append(difference(structure, *moved))
                out[k, :, :, j] = ((ends[0] - ends[1]) / (2.0 * STEP)).T
        return out[0], out[1]

    def _bent(self, structure: Structure, numbers: Numbers, spots: Spots, q: np.ndarray) -> np.ndarray:
        """(entries, nv, 3, nv): derivatives of the rows by the coordinates of their node."""
        out = np.zeros((len(self.hold), structure.nv, 3, structure.nv))
        for j in range(structure.nv):
            ends = []
            for sign in (1.0, -1.0):
                d = np.zeros((structure.nv, q.shape[1]))
                d[j] = sign * STEP
                ends.append(self.places(structure, numbers, spots, retract(structure, q, d))[1])
            out[:, j] = (ends[0] - ends[1]) / (2.0 * STEP)
        return out


def _range(hold: Hold, first: int, end: int) -> tuple[int, int]:
    """First and last node of the mesh at which the gap of a hold is closed, in a flight from `first` to `end`: at least one that a force acts before."""
    a = first if hold.first == BEGIN else int(np.clip(hold.first, first + 2, end))
    return a, int(np.clip(hold.last, max(a, first + 2), end))


def touched(structure: Structure, numbers: Numbers, spots: Spots, q: np.ndarray, which: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gaps and rows (m, 3, nv) of spots `which`, each at one (`at`) of the nodes of q."""
    geometry = Geometry.of(structure, numbers)
    H = poses(structure, geometry, q)
    touch = spots.touch(H)
    Z = np.eye(structure.nv)[plan_of(structure).coordinate_dof]
    gaps = spots.gaps(touch, q[structure.scalar_positions])
    return gaps[which, at], rates_of(spots, touch, twists(structure, geometry, H), Z, which, at)


def turned(rows: np.ndarray, turn: np.ndarray, tangents: np.ndarray) -> np.ndarray:
    """Rows (m, 3, nv) with the tangents turned into the directions of friction."""
    c, s = (f(friction_angle(rows, turn, tangents))[:, None] for f in (np.cos, np.sin))
    return np.stack([rows[:, 0], c * rows[:, 1] + s * rows[:, 2], c * rows[:, 2] - s * rows[:, 1]], axis=1)


def friction_angle(rows: np.ndarray, turn: np.ndarray, tangents: np.ndarray) -> np.ndarray:
    """(m,) from the first tangent to the direction of friction: with one, along what can move at all, which is the larger principal axis of `J_t J_t'`, the nearest to `turn`; else none."""
    S = np.einsum("mai,mbi->mab", rows[:, 1:], rows[:, 1:])
    angle = 0.5 * np.arctan2(2.0 * S[:, 0, 1], S[:, 0, 0] - S[:, 1, 1])
    return np.where(tangents == 1, angle + np.pi * np.round((turn - angle) / np.pi), 0.0)


def _block(rows: str, block: str, row: Any, unknown: Any, values: np.ndarray) -> Term:
    """Dense blocks (m, rows, columns) from a row and an unknown on."""
    r, c = (np.arange(n) for n in values.shape[1:])
    at = np.broadcast_to(np.asarray(row)[:, None, None] + r[:, None], values.shape), np.broadcast_to(np.asarray(unknown)[:, None, None] + c, values.shape)
    return Term(rows, block, at[0].ravel(), at[1].ravel(), values.ravel())
