"""A recording with impacts on a mesh: one flight after the other, each with nodes of its own.

Between impacts a motion is smooth, and the equations of the variational scheme hold on equidistant nodes. An impact at the time tau, between the nodes k and k + 1 of the mesh, ends a flight
whose nodes go on to k + 1, as if nothing had happened, and begins another whose nodes begin at k, as if it had always been in flight. So all flights together are one run with more nodes than
the mesh has times (`times` goes back where a flight begins), to which everything applies that is known of a run: equations, derivatives, samples, error bars. Only

- the balance of the last node of a flight and of the first of the next is replaced by what ties them together (`strikes.py`), as many equations, and
- places that are closed over some nodes of a flight add their forces to the balance and equations of their own (`lasting.py`), and
- samples belong to the flight that they are in: rates jump at an impact, so those that are within `MASKED` sampling periods of one are left out.

A flight has at least `SHORTEST` nodes, more than its time needs where two impacts follow each other closely. An impact that moves beyond its interval is handed to the next when it has left it by
`BEYOND` steps (`settle.py`); until then its flights are continued a little further, which is harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

import numpy as np
import scipy.sparse as sp

from calibody.estimate import observe
from calibody.estimate.contacts import strikes as law
from calibody.estimate.contacts.lasting import BEGIN, Held, Hold, Pushes
from calibody.estimate.contacts.seams import Seams
from calibody.estimate.contacts.strikes import Seat, Sides, Strike
from calibody.estimate.layout import (
    BALANCE,
    HOLDS,
    IMPACTS,
    NODES,
    PUSHES,
    SEATS,
    STRIKES,
    Block,
    Coordinates,
    Impacts,
    Layout,
    Rows,
    Seats,
    States,
    interpolated,
)
from calibody.estimate.nodes import Nodes
from calibody.estimate.run import Run
from calibody.mechanics import channels
from calibody.mechanics.contact import Spots
from calibody.mechanics.kinematics import difference
from calibody.mechanics.point import Evaluation
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.solve.condensed import Sparse

SHORTEST = 4
"""Nodes of a flight: as many as samples are interpolated from."""
MASKED = 1.2
"""Sampling periods around an impact within which rates are not used."""


def laid(nodes: Sequence[int], count: int) -> np.ndarray:
    """(flights, 2): first and last node of the mesh, of `count` nodes, that every flight has, from the nodes before the impacts between them."""
    ends = [0, *nodes], [*(k + 1 for k in nodes), count - 1]
    out = []
    for first, last in zip(*ends, strict=True):
        first = min(first, count - SHORTEST)
        last = max(last, first + SHORTEST - 1)
        out.append((min(first, last - SHORTEST + 1), last))
    return np.array(out, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Struck(Run):
    """A run with impacts; `times` and everything by node are those of all flights one after the other."""

    mesh: Run | None = None
    """The same without impacts: its times are those of the mesh."""
    strikes: tuple[Strike, ...] = ()
    taus: tuple[float, ...] = ()
    """Times of the impacts, as far as they decide which flight a sample is in [s]."""
    holds: tuple[Hold, ...] = ()
    """Contact that lasts, in the order of flights."""

    @classmethod
    def between(cls, mesh: Run, strikes: Sequence[Strike], taus: Sequence[float] | np.ndarray, holds: Sequence[Hold] = ()) -> Struck:
        """A run without impacts as one with."""
        spans = laid([s.node for s in strikes], mesh.K)
        times = np.concatenate([mesh.times[first : last + 1] for first, last in spans])
        own = {f.name: getattr(mesh, f.name) for f in fields(Run)} | {"times": times, "turning": None}
        return cls(**own, mesh=mesh, strikes=tuple(strikes), taus=tuple(map(float, taus)), holds=tuple(holds)).with_data()

    def changed(self, strikes: Sequence[Strike], taus: Sequence[float] | np.ndarray, holds: Sequence[Hold] = ()) -> Run:
        """With other impacts and contact that lasts; without any, the plain run."""
        assert self.mesh is not None
        mesh = replace(self.mesh, deltas=self.deltas, smooth=self.smooth, turning=None, noise=self.noise)
        return Struck.between(mesh, strikes, taus, holds) if strikes or holds else mesh

    def held_by(self, holds: Sequence[Hold]) -> Struck:
        """With the same impacts and other contact that lasts."""
        return replace(self, holds=tuple(holds)).with_data()

    def with_data(self) -> Self:
        """Samples keep the weights that they had."""
        before = {d.channel.path: dict(zip(d.times.tolist(), self.weights[d.channel.path].tolist(), strict=True)) for d in self.data}
        new = super().with_data()
        weights = {d.channel.path: np.array([before.get(d.channel.path, {}).get(t, 1.0) for t in d.times.tolist()]) for d in new.data}
        return replace(new, weights=weights)

    @property
    def launched(self) -> bool:
        """What presses at the first node is no unknown."""
        return False

    # -- flights -----------------------------------------------------------------------------------------------------------------

    @cached_property
    def spans(self) -> np.ndarray:
        assert self.mesh is not None
        return laid([s.node for s in self.strikes], self.mesh.K)

    @cached_property
    def offsets(self) -> np.ndarray:
        """(flights + 1,) where the nodes of every flight begin."""
        return np.append(0, np.cumsum(self.spans[:, 1] - self.spans[:, 0] + 1))

    @cached_property
    def place(self) -> np.ndarray:
        """(K,) which node of the mesh every node is."""
        return np.concatenate([np.arange(first, last + 1) for first, last in self.spans])

    @cached_property
    def seams(self) -> np.ndarray:
        """(impacts,) the last node before each impact; the first after it is the next."""
        return self.offsets[1:-1] - 1

    @property
    def flying(self) -> np.ndarray:
        """(K - 1,) which intervals are intervals, and not the step from one flight to the next."""
        out = np.ones(self.K - 1, dtype=bool)
        out[self.seams] = False
        return out

    @property
    def actual(self) -> np.ndarray:
        """(nodes of the mesh,) the node that is the motion there."""
        return self.actual_with(np.asarray(self.taus))

    def actual_with(self, taus: np.ndarray) -> np.ndarray:
        """The same with impacts at these times."""
        assert self.mesh is not None
        flight = np.searchsorted(taus, self.mesh.times, side="right")
        k = np.arange(self.mesh.K)
        return self.offsets[flight] + np.clip(k, *self.spans[flight].T) - self.spans[flight, 0]

    @property
    def clock(self) -> np.ndarray:
        assert self.mesh is not None
        return self.mesh.times

    def near(self, times: np.ndarray) -> np.ndarray:
        flight = self.flight_of(times)
        k = np.round((times - self.clock[0]) / self.h).astype(int)
        return self.offsets[flight] + np.clip(k, self.spans[flight, 0] + 1, self.spans[flight, 1] - 1) - self.spans[flight, 0]

    def flight_of(self, times: np.ndarray) -> np.ndarray:
        """Which flight a sample is in."""
        return np.searchsorted(np.asarray(self.taus), times, side="right")

    # -- samples -----------------------------------------------------------------------------------------------------------------

    def usable(self, channel: channels.Channel, times: np.ndarray) -> np.ndarray:
        if not (observe.is_rate(channel) or observe.is_inner(channel)) or not len(times) or observe.is_initial(channel):
            return np.ones(len(times), dtype=bool)
        period = float(np.median(np.diff(times))) if len(times) > 1 else self.h
        if not self.taus:
            return np.ones(len(times), dtype=bool)
        return np.abs(np.subtract.outer(times, np.asarray(self.taus))).min(axis=1) >= MASKED * period

    def sampled(self, channel: channels.Channel, times: np.ndarray) -> tuple[Sparse, Sparse]:
        flight, order, parts = self.flight_of(times), [], []
        for f in range(len(self.spans)):
            here = np.flatnonzero(flight == f)
            if len(here):
                begin, end = self.offsets[f], self.offsets[f + 1]
                alone = Nodes(self.structure, self.recording, self.times[begin:end], self.h, self.noise)
                parts.append([self._padded(W, int(begin), int(end)) for W in alone.sampled(channel, times[here])])
                order.append(here)
        if not parts:
            return super().sampled(channel, times)
        back = np.argsort(np.concatenate(order))
        whole: list[Sparse] = [sp.vstack([p[k] for p in parts], format="csr") for k in (0, 1)]
        return whole[0][back], whole[1][back]

    def _padded(self, W: Sparse, begin: int, end: int) -> Sparse:
        """Columns of one flight (its nodes, intervals or inner nodes) among those of all."""
        W = W.tocsr()
        return sp.csr_matrix((W.data, W.indices + begin, W.indptr), shape=(W.shape[0], self.K - (end - begin - W.shape[1])))

    def drives(self, model: Model, states: States | None = None) -> tuple[np.ndarray, np.ndarray]:
        assert self.mesh is not None
        control, applied = self.mesh.drives(model)
        return control[:, self.intervals], applied[:, self.intervals]

    def control_by_lag(self, model: Model, actuator: str) -> np.ndarray:
        assert self.mesh is not None
        return self.mesh.control_by_lag(model, actuator)[self.intervals]

    @cached_property
    def intervals(self) -> np.ndarray:
        """(K - 1,) of the mesh."""
        assert self.mesh is not None
        return np.minimum(self.place[:-1], self.mesh.K - 2)

    # -- unknowns ----------------------------------------------------------------------------------------------------------------

    @cached_property
    def layout(self) -> Layout:
        plain = super().layout
        nodes = Flown(NODES, self.place.astype(float), self.structure.nv, structure=self.structure, times=self.times, offsets=self.offsets)
        middle = np.array([s.node + 0.45 for s in self.strikes])
        blocks: list[Block] = [nodes, *plain.blocks[1:], Impacts(IMPACTS, middle, 1 + self.width, h=self.h)]
        held, pushed = self.closed, self.closed.pushes
        if self.seats:
            blocks.append(Seats(SEATS, np.array([middle[s.strike] for s in self.seats]), 1 + self.width))
        if len(pushed):
            flight = held.of_holds("flight")[pushed]
            blocks.append(Pushes(PUSHES, held.mesh[pushed] + 0.25, held.width, flight=flight, spot=held.spots[pushed], times=self.times[held.node[pushed]]))
        when = self.place[1:-1] + 0.2
        for seam, strike in zip(self.seams, self.strikes, strict=True):
            when[[seam - 1, seam]] = strike.node + 0.5
        balance = Rows(BALANCE, np.repeat(when, self.structure.nv))
        return Layout(tuple(blocks), (balance, *plain.equations[1:], Rows(STRIKES, self.seams_of.when), Rows(HOLDS, held.when)))

    @property
    def width(self) -> int:
        """Components of impulses that are unknown: the normal, and two tangents where some place has friction."""
        return 3 if any(s.tangents for s in self.strikes) or any(h.tangents for h in self.holds) else 1

    def free_states(self, freedom: int) -> int:
        return self.layout.size - self.layout.rows

    @cached_property
    def closed(self) -> Held:
        """Contact that lasts, on the nodes."""
        return Held.of(self.holds, self.spans, self.offsets)

    @cached_property
    def shut(self) -> np.ndarray:
        """(spots, nodes of the mesh) where a place is held closed."""
        assert self.mesh is not None
        out, of_mesh = np.zeros((Spots.of(self.structure).count, self.mesh.K), dtype=bool), np.full(self.K, -1)
        of_mesh[self.actual] = np.arange(self.mesh.K)
        k = of_mesh[self.closed.node]
        out[self.closed.spots[k >= 0], k[k >= 0]] = True
        return out

    @cached_property
    def seats(self) -> tuple[Seat, ...]:
        """Places that are closed from an impact on."""
        out = []
        for hold in self.holds:
            if hold.first != BEGIN or not hold.flight:
                continue
            at, strike = np.array([self.spans[hold.flight, 0]]), self.strikes[hold.flight - 1]
            one, other = (bool(x) for x in hold.kept_across(at)[0])
            own = hold.spot == strike.spot
            out.append(Seat(hold.flight - 1, hold.spot, own, int(hold.modes[at[0]]), hold.tangents, hold.turn, bool(hold.kept(at)[0]), (one, other)))
        return tuple(out)

    @cached_property
    def seams_of(self) -> Seams:
        """The equations of impacts."""
        return Seams(self.structure, self.strikes, self.seats, self.around, self.seams, self.width, self.h)

    def still(self, q: np.ndarray) -> States:
        states = super().still(q)
        more = {IMPACTS: np.zeros((len(self.strikes), 4)), SEATS: np.zeros((len(self.seats), 4)), PUSHES: np.zeros((len(self.closed.pushes), 3))}
        more[IMPACTS][:, 0] = self.taus
        return states.changed(**{name: value for name, value in more.items() if name in self.layout.by_name})

    def sides(self, states: States) -> Sides:
        """The nodes around every impact, and its numbers."""
        found, nodes = states.parts[IMPACTS], self.around
        at = [(found[:, 0] - self.times[middle]) / self.h for middle in (nodes[0, 1], nodes[1, 1])]
        return Sides(states.q[:, nodes[0]], states.q[:, nodes[1]], at[0], at[1], found[:, 1:])

    @cached_property
    def around(self) -> np.ndarray:
        """(2, 3, impacts): the nodes of the flights before and after that an impact depends on."""
        out = np.zeros((2, law.NODES, len(self.strikes)), dtype=np.int64)
        for i, strike in enumerate(self.strikes):
            for side, flight in enumerate((i, i + 1)):
                first, last = self.spans[flight]
                middle = min(max(strike.node + side, first + 1), last - 1)
                out[side, :, i] = self.offsets[flight] + middle - first + np.array([-1, 0, 1])
        return out

    def apart(self, states: States) -> np.ndarray:
        """(nv, impacts): by how much the flight after an impact is away from that before it, at its time."""
        sides = self.sides(states)
        ends = [law.parabola(self.structure, nodes, x, self.h)[0] for nodes, x in ((sides.before, sides.at_before), (sides.after, sides.at_after))]
        return difference(self.structure, ends[1], ends[0])

    def joints(self) -> Sparse:
        """(inner nodes, K): its derivative by the nodes, in the rows of the last nodes of flights, with the impacts at `taus`."""
        rows, columns, values = [], [], []
        for i, tau in enumerate(self.taus):
            for side, sign in ((0, -1.0), (1, 1.0)):
                nodes = self.around[side, :, i]
                x = (tau - self.times[nodes[1]]) / self.h
                rows += [self.seams[i] - 1] * law.NODES
                columns += nodes.tolist()
                values += [sign * w for w in (0.5 * x * (x - 1.0), 1.0 - x * x, 0.5 * x * (x + 1.0))]
        return sp.csr_matrix((values, (rows, columns)), shape=(self.inner, self.K))

    # -- equations ---------------------------------------------------------------------------------------------------------------

    @cached_property
    def _kept_rows(self) -> np.ndarray:
        """(inner nodes,) 1 where the balance holds, 0 where a flight ends or begins."""
        out = np.ones(self.inner)
        out[np.concatenate([self.seams - 1, self.seams])] = 0.0
        return out

    def equations(self, model: Model, numbers: Numbers, result: Evaluation, motion: States) -> np.ndarray:
        plain = super().equations(model, numbers, replace(result, residual=result.residual * self._kept_rows), motion)
        return plain + self.added(model, numbers, motion)[0]

    def impacts(self, model: Model, numbers: Numbers, motion: States) -> np.ndarray:
        return self.added(model, numbers, motion)[1]

    def added(self, model: Model, numbers: Numbers, motion: States) -> tuple[np.ndarray, np.ndarray]:
        """What impacts and contact that lasts add to the balance (and constraints), and equations of their own."""
        nv, spots, balance = self.structure.nv, self.spots(model), np.zeros((self.inner, self.structure.nv))
        tied, own = self.seams_of.values(numbers, spots, self.sides(motion), self._seated(motion))
        balance[self.seams - 1], balance[self.seams] = tied[:nv].T, tied[nv:].T
        if len(self.closed.hold):
            pushed, held = self.closed.values(self.structure, numbers, spots, motion.q, self._pushing(motion), self.h)
            np.add.at(balance, self.closed.node[self.closed.pushes] - 1, pushed)
            own = np.concatenate([own, held])
        return np.concatenate([balance.ravel(), np.zeros(self.kept * self.K)]), own

    def _seated(self, motion: States) -> np.ndarray:
        return motion.parts[SEATS] if self.seats else np.zeros((0, 4))

    def _pushing(self, motion: States) -> np.ndarray:
        return motion.parts[PUSHES] if len(self.closed.pushes) else np.zeros((0, 3))

    def spots(self, model: Model) -> Spots:
        return Spots.of(self.structure, model)

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """The contact or limit of every impact."""
        spots = Spots.of(self.structure)
        return tuple(spots.owner_name(s.spot) for s in self.strikes)

    @cached_property
    def lasting_on(self) -> tuple[str, ...]:
        """The contact or limit of every hold."""
        spots = Spots.of(self.structure)
        return tuple(spots.owner_name(h.spot) for h in self.holds)

    def keep_balance(self, rows: np.ndarray) -> np.ndarray:
        """Rows (all equations, ...) without those of the balance that impacts have replaced."""
        out, balance = rows.copy(), self.layout.row_place[BALANCE]
        out[balance] *= np.repeat(self._kept_rows, self.structure.nv).reshape(-1, *(1,) * (rows.ndim - 1))
        return out

    def seamed(self, A: Sparse, model: Model, numbers: Numbers, motion: States) -> Sparse:
        balance = np.ones(self.layout.rows)
        balance[self.layout.row_place[BALANCE]] = np.repeat(self._kept_rows, self.structure.nv)
        spots = self.spots(model)
        terms = self.seams_of.by_states(numbers, spots, self.sides(motion), self._seated(motion))
        if len(self.closed.hold):
            terms += self.closed.by_states(self.structure, numbers, spots, motion.q, self._pushing(motion), self.h)
        return sp.csr_matrix(sp.diags(balance) @ A + self.layout.jacobian(terms))

    def pressed(self, A: Sparse, motion: States) -> np.ndarray:
        """(rows,): what the forces of contact that lasts are in all equations, from the derivative of these."""
        return A[:, self.layout.place[PUSHES]] @ self._pushing(motion)[:, : self.closed.width].ravel() if len(self.closed.pushes) else np.zeros(A.shape[0])

    def by_numbers(self, models: Sequence[tuple[Model, Numbers]], motion: States) -> tuple[np.ndarray, np.ndarray]:
        """What impacts and contact that lasts add to the balance, and their own equations, with two models: the differences of both."""
        (balance, own), (other, others) = (self.added(model, numbers, motion) for model, numbers in models)
        return balance - other, own - others


@dataclass(frozen=True, eq=False, kw_only=True)
class Flown(Coordinates):
    """The nodes of flights, one after the other."""

    offsets: np.ndarray

    def carried(self, value: np.ndarray, to: Coordinates) -> np.ndarray:
        """Flight by flight."""
        assert isinstance(to, Flown) and len(to.offsets) == len(self.offsets)
        if np.array_equal(self.times, to.times):
            return value
        parts = []
        for k in range(len(self.offsets) - 1):
            old, new = (slice(int(b.offsets[k]), int(b.offsets[k + 1])) for b in (self, to))
            parts.append(interpolated(self.structure, value[:, old], self.times[old], to.times[new]))
        return np.concatenate(parts, axis=1)
