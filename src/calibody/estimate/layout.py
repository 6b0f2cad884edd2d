"""Which unknowns the states of a run have and which equations hold between them, declared block by block.

A block of unknowns says its name, when its instants come (its place in the band of the matrix, in units of nodes), how many numbers each instant has, the weight of a
prior that holds them to zero (0: none), how a value moves by a tangent and how it is carried over to another layout: to a finer mesh, or to other standard
deviations. Unknowns are flat in the order of the blocks, in each instant after instant. A block of equations says its name and when each of its rows comes.

Nothing else knows where an unknown stands: derivatives are given block against block (`Term`, `Layout.across`), and what is new to a run (events with times of
their own, forces on a range of nodes) is one more block here and the terms that it enters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp

from calibody.mechanics.kinematics import difference, retract
from calibody.mechanics.structure import Structure
from calibody.solve.condensed import PATTERNS, Sparse

NODES, MULTIPLIERS, PROCESS, RINGING, IMPACTS, SEATS, PUSHES = "nodes", "multipliers", "process", "ringing", "impacts", "seats", "pushes"
BALANCE, CONSTRAINTS, START, STRIKES, HOLDS = "balance", "constraints", "start", "strikes", "holds"


def drive_block(channel: str) -> str:
    """The name of the deviations of a noisy drive."""
    return f"drive.{channel}"


@dataclass(frozen=True, eq=False)
class Block(ABC):
    """Unknowns of one kind: `width` numbers at every instant."""

    name: str
    when: np.ndarray
    """(instants,) their place in the band, in units of nodes."""
    width: int
    prior: float = 0.0
    """Weight of the residual `prior * value` that holds them to zero; 0: none."""

    @property
    def size(self) -> int:
        return len(self.when) * self.width

    @cached_property
    def whitening(self) -> Sparse:
        """(size, size): from the value to the residuals that hold it to zero."""
        return sp.identity(self.size, format="csr") * self.prior

    @abstractmethod
    def moved(self, value: np.ndarray, d: np.ndarray) -> np.ndarray:
        """The value displaced by the tangent d (instants, width)."""

    @abstractmethod
    def carried(self, value: np.ndarray, to: Any) -> np.ndarray:
        """The same in the block `to` of another layout: a finer mesh, other standard deviations."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Coordinates(Block):
    """Places of the mechanism: the value is (nq, instants), on a manifold; `times` are equidistant."""

    structure: Structure
    times: np.ndarray

    def moved(self, value: np.ndarray, d: np.ndarray) -> np.ndarray:
        return retract(self.structure, value, d.T)

    def carried(self, value: np.ndarray, to: Coordinates) -> np.ndarray:
        """The cubic through the four nodes around each new one, in the tangent space of the node before it: a straight line would have no acceleration at the new nodes
        and too much at the old ones."""
        return value if np.array_equal(self.times, to.times) else interpolated(self.structure, value, self.times, to.times)


def cubic(times: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every new instant the node before it, the first of the four nodes around it, and the weights of these (4, new) in the cubic through them."""
    position = (new - times[0]) / (times[-1] - times[0]) * (len(times) - 1)
    k = np.clip(position.astype(np.int64), 0, len(times) - 2)
    first = np.clip(k - 1, 0, len(times) - 4)
    away = position - first
    return k, first, np.array([np.prod([(away - b) / (a - b) for b in range(4) if b != a], axis=0) for a in range(4)])


def interpolated(structure: Structure, q: np.ndarray, times: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Coordinates (nq, instants) at other times; a new time outside continues the cubic at that end."""
    k, first, weights = cubic(times, new)
    step = np.zeros((structure.nv, len(new)))
    for a, weight in enumerate(weights):
        step += weight * difference(structure, q[:, first + a], q[:, k])
    return retract(structure, q[:, k], step)


@dataclass(frozen=True, eq=False, kw_only=True)
class Forces(Block):
    """Forces of some rows at the inner nodes: the value is (all rows, K), zero where it is no unknown."""

    rows: np.ndarray
    """(width, K) which are unknown."""
    times: np.ndarray
    """Of all nodes."""

    def moved(self, value: np.ndarray, d: np.ndarray) -> np.ndarray:
        out = value.copy()
        out[self.rows[:, 1:-1], np.arange(1, len(self.times) - 1)] += d.T
        return out

    def carried(self, value: np.ndarray, to: Forces) -> np.ndarray:
        if np.array_equal(self.times, to.times):
            return value
        k, part = _between(self.times, to.times)
        between = value[:, k] * (1.0 - part) + value[:, k + 1] * part
        out, own = np.zeros_like(between), (to.rows, np.arange(len(to.times)))
        out[own] = between[own]
        return out


@dataclass(frozen=True, eq=False, kw_only=True)
class Amounts(Block):
    """Plain numbers in units of their own: the value is (instants, width), and what it stands for is `value * unit`."""

    times: np.ndarray
    unit: np.ndarray
    """(width,)"""
    memory: np.ndarray | None = None
    """(width,) correlation a between one instant and the next; None: none."""

    @cached_property
    def whitening(self) -> Sparse:
        """With a memory, `z_0` and `(z_k - a z_(k-1))/sqrt(1 - a^2)`: what is new at every instant, in units of its own standard deviation."""
        if self.memory is None or not self.memory.any():
            return super().whitening
        new = np.tile(np.sqrt(1.0 - self.memory**2), (len(self.when), 1))
        new[0] = 1.0
        before = -np.tile(self.memory, (len(self.when), 1)) / new
        return sp.diags([self.prior / new.ravel(), self.prior * before[1:].ravel()], [0, -self.width], shape=(self.size,) * 2, format="csr")  # type: ignore[arg-type]

    @property
    def log_whitening(self) -> float:
        """`log |det|` of the whitening, but for the weight."""
        return 0.0 if self.memory is None else -0.5 * (len(self.when) - 1) * float(np.log1p(-(self.memory**2)).sum())

    def moved(self, value: np.ndarray, d: np.ndarray) -> np.ndarray:
        return value + d

    def carried(self, value: np.ndarray, to: Amounts) -> np.ndarray:
        if not np.array_equal(self.times, to.times):
            value = np.stack([np.interp(to.times, self.times, column) for column in value.T], axis=1).reshape(len(to.times), self.width)
        return value if np.array_equal(self.unit, to.unit) else value * (self.unit / to.unit)


@dataclass(frozen=True, eq=False, kw_only=True)
class Impacts(Block):
    """Times and impulses of impacts: the value is (impacts, 4), the time [s] and three components of the impulse; unknown are the time, in steps h, and the first of the components."""

    h: float

    def moved(self, value: np.ndarray, d: np.ndarray) -> np.ndarray:
        out = value.copy()
        out[:, 0] += self.h * d[:, 0]
        out[:, 1 : self.width] += d[:, 1:]
        return out

    def carried(self, value: np.ndarray, to: Impacts) -> np.ndarray:
        return value


@dataclass(frozen=True, eq=False, kw_only=True)
class Seats(Block):
    """Places that touch from an impact on: the value is (places, 4), a push of the coordinates and three components of the impulse, of which the first `width` are unknown."""

    def moved(self, value: np.ndarray, d: np.ndarray) -> np.ndarray:
        out = value.copy()
        out[:, : self.width] += d
        return out

    def carried(self, value: np.ndarray, to: Seats) -> np.ndarray:
        return value


def _between(times: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every new instant the node before it, and how far it is on the way to the next (0 to 1)."""
    position = np.clip((new - times[0]) / (times[-1] - times[0]) * (len(times) - 1), 0.0, len(times) - 1)
    k = np.minimum(position.astype(np.int64), len(times) - 2)
    return k, position - k


@dataclass(frozen=True, eq=False)
class Rows:
    """Equations of one kind."""

    name: str
    when: np.ndarray
    """(rows,) their place in the band."""


@dataclass(frozen=True, eq=False)
class Term:
    """Part of the derivative of the equations: `values` at (row of `rows`, unknown of `block`), both counted within their block."""

    rows: str
    block: str
    row: np.ndarray
    unknown: np.ndarray
    """(entries,) both."""
    values: np.ndarray
    """(entries,), or (entries, instants) of a term that is repeated instant by instant ..."""
    every: tuple[int, int] = (0, 0)
    """... so many rows and so many unknowns further on."""

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and unknown of all values."""
        if self.values.ndim == 1:
            return self.row, self.unknown
        m = np.arange(self.values.shape[1])
        return tuple((first[:, None] + step * m).ravel() for first, step in zip((self.row, self.unknown), self.every, strict=True))  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class States:
    """Values of the unknowns of one run by block."""

    parts: Mapping[str, np.ndarray]

    @property
    def q(self) -> np.ndarray:
        """(nq, K) coordinates."""
        return self.parts[NODES]

    @property
    def multipliers(self) -> np.ndarray:
        """(nc, K) constraint forces; zero where they are not unknowns."""
        return self.parts[MULTIPLIERS]

    def changed(self, **parts: np.ndarray) -> States:
        return States({**self.parts, **parts})


@dataclass(frozen=True, eq=False)
class Layout:
    """The blocks of unknowns and equations of one run."""

    blocks: tuple[Block, ...]
    equations: tuple[Rows, ...]

    @cached_property
    def by_name(self) -> dict[str, Block]:
        return {b.name: b for b in self.blocks}

    @cached_property
    def place(self) -> dict[str, slice]:
        """Where the unknowns of each block stand."""
        ends = np.cumsum([0, *(b.size for b in self.blocks)]).tolist()
        return {b.name: slice(first, last) for b, first, last in zip(self.blocks, ends[:-1], ends[1:], strict=True)}

    @cached_property
    def row_place(self) -> dict[str, slice]:
        """Where the rows of each block of equations stand."""
        ends = np.cumsum([0, *(len(e.when) for e in self.equations)]).tolist()
        return {e.name: slice(first, last) for e, first, last in zip(self.equations, ends[:-1], ends[1:], strict=True)}

    @cached_property
    def size(self) -> int:
        """Number of unknowns."""
        return sum(b.size for b in self.blocks)

    @cached_property
    def rows(self) -> int:
        """Number of equations."""
        return sum(len(e.when) for e in self.equations)

    @cached_property
    def when(self) -> np.ndarray:
        """(unknowns and equations,) the place of each in the band."""
        return np.concatenate([*(np.repeat(b.when, b.width) for b in self.blocks), *(e.when for e in self.equations)])

    # -- values ------------------------------------------------------------------------------------------------------------------

    def moved(self, states: States, d: np.ndarray) -> States:
        """Displaced by a tangent of all unknowns."""
        parts = {b.name: b.moved(states.parts[b.name], d[self.place[b.name]].reshape(len(b.when), b.width)) for b in self.blocks}
        return States(parts)

    def carried(self, states: States, to: Layout) -> States:
        """The same unknowns in another layout."""
        return States({b.name: b.carried(states.parts[b.name], to.by_name[b.name]) for b in self.blocks})

    # -- priors ------------------------------------------------------------------------------------------------------------------

    @cached_property
    def held(self) -> tuple[Block, ...]:
        """Blocks with a prior."""
        return tuple(b for b in self.blocks if b.prior and b.size)

    @cached_property
    def priors(self) -> int:
        """Number of residuals of priors."""
        return sum(b.size for b in self.held)

    def prior(self, states: States) -> np.ndarray:
        """Residuals of all priors."""
        return np.concatenate([b.whitening @ states.parts[b.name].ravel() for b in self.held]) if self.held else np.zeros(0)

    @cached_property
    def prior_matrix(self) -> Sparse:
        """(priors, size): their derivative."""
        return sp.vstack([self.across(b.whitening, b.name) for b in self.held], format="csr") if self.held else sp.csr_matrix((0, self.size))

    def prior_rows(self, name: str, k: int) -> np.ndarray:
        """Where the residuals of number k of a block with a prior stand among those of all priors."""
        first = sum(b.size for b in self.held[: [b.name for b in self.held].index(name)])
        return first - self.place[name].start + self.member(name, k)

    @cached_property
    def open(self) -> np.ndarray:
        """Unknowns without a prior: what the equations have to determine."""
        return np.concatenate([np.arange(self.place[b.name].start, self.place[b.name].stop) for b in self.blocks if not b.prior])

    # -- derivatives ---------------------------------------------------------------------------------------------------------------

    def member(self, name: str, k: int) -> np.ndarray:
        """Where number k of a block stands at each of its instants."""
        block = self.by_name[name]
        return self.place[name].start + np.arange(len(block.when)) * block.width + k

    def across(self, A: Sparse, name: str) -> Sparse:
        """(rows, size): a derivative with respect to one block as one with respect to all unknowns."""
        A = A.tocsr()
        return sp.csr_matrix((A.data, A.indices + self.place[name].start, A.indptr), shape=(A.shape[0], self.size))

    def across_member(self, A: Sparse, name: str, k: int) -> Sparse:
        """The same from the derivative (rows, instants) with respect to number k of a block."""
        A = A.tocsr()
        return sp.csr_matrix((A.data, self.member(name, k)[A.indices], A.indptr), shape=(A.shape[0], self.size))

    def jacobian(self, terms: Iterable[Term]) -> Sparse:
        """(rows, size): the derivative of all equations, the sum of its terms."""
        terms = list(terms)
        return _assembly_of(self, terms).matrix(np.concatenate([t.values.ravel() for t in terms]))


class _Assembly:
    """Where the values of terms stand in their sum, row by row: found once for all linearisations of a mesh."""

    def __init__(self, layout: Layout, terms: Sequence[Term]) -> None:
        places = [(row + layout.row_place[t.rows].start, unknown + layout.place[t.block].start) for t in terms for row, unknown in (t.places(),)]
        row, unknown = (np.concatenate(x) for x in zip(*places, strict=True))
        self.shape = layout.rows, layout.size
        entry = row * layout.size + unknown
        self.order = np.argsort(entry, kind="stable")
        entry = entry[self.order]
        starts = np.flatnonzero(np.concatenate([[True], entry[1:] != entry[:-1]])) if len(entry) else np.zeros(0, dtype=np.int64)
        self.starts = None if len(starts) == len(entry) else starts
        """Of values that stand in the same place; None: no two do."""
        row, unknown = np.divmod(entry[starts], layout.size)
        self.indices = unknown.astype(np.int32)
        self.indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=layout.rows))]).astype(np.int32)

    def matrix(self, values: np.ndarray) -> Sparse:
        data = values.take(self.order)
        return sp.csr_matrix((data if self.starts is None else np.add.reduceat(data, self.starts), self.indices, self.indptr), shape=self.shape)


_assemblies: OrderedDict[bytes, _Assembly] = OrderedDict()


def _assembly_of(layout: Layout, terms: Sequence[Term]) -> _Assembly:
    """The one used before for terms in the same places of a layout of the same size."""
    places = (layout.rows, layout.size, [(t.rows, t.block, layout.row_place[t.rows], layout.place[t.block], t.values.shape, t.every) for t in terms])
    key = blake2b(repr(places).encode())
    for t in terms:
        key.update(np.ascontiguousarray(t.row).data)
        key.update(np.ascontiguousarray(t.unknown).data)
    name = key.digest()
    found = _assemblies.pop(name, None)
    _assemblies[name] = found = _Assembly(layout, terms) if found is None else found
    while len(_assemblies) > PATTERNS:
        _assemblies.popitem(last=False)
    return found


def term(rows: str, block: str, A: Sparse) -> Term:
    """From a sparse matrix, rows of one block against unknowns of another."""
    A = A.tocoo()
    return Term(rows, block, A.row, A.col, A.data)
