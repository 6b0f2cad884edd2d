"""One generalised Gauss-Newton step of a constrained least-squares problem with few shared parameters, by one factorisation.

    minimise  1/2 |F(x, theta)|^2 + slope'theta    subject to    C(x, theta) = 0,   lower <= theta <= upper

Linearised, with multipliers n and the states eliminated first,

    K = [[Fx'Fx, Cx'], [Cx, 0]],     B = [Fx'Ft; Ct],     a = [Fx'F; C]
    I_red = Ft'Ft - B'K^-1 B              information of the data about theta, the states being free
    g_red = Ft'F - B'K^-1 a + slope
    theta step: minimise 1/2 d'(I_red + damping) d + g_red'd within the bounds;     states and multipliers: -K^-1 (a + B d)

K is symmetric indefinite and as banded as the states are chained; it is equilibrated and factored as a band with pivoting, or, where the band is
wide, made quasi-definite by a static regularisation of its diagonal and factored by QDLDL (LDL' without pivoting, stable for quasi-definite
matrices: [vanderbei1995]); iterative refinement takes the regularisation out again. `J'J` of the constraints is never formed. The bounds concern theta only, so the quadratic programme with
bounds has as many variables as there are parameters: a primal active-set method (`arrow.py`).

Runs have no states in common: K is one block per run, and each is factored and eliminated by itself, with the columns of B of the parameters that the run
depends on (`Runs`). I_red and g_red are sums over the runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import qdldl
import scipy.sparse as sp

from calibody.errors import NumericalError
from calibody.solve.arrow import Arrow, bounded
from calibody.solve.threads import spread

if TYPE_CHECKING:
    from calibody.solve.chain import Chain

Sparse = Any
"""A scipy sparse matrix (its stubs tell matrix from array and format from format; nothing here depends on that)."""

# Half bandwidth up to which the band is factored: its cost grows with the square of the width, that of the sparse factor hardly.
WIDEST = 600
# So many times the band's is a right-hand side of the sparse factor: one after the other, through all that fills in, and refined (1.3e-6 s per unknown; walkers with two noisy plates).
DEAR = 10.0
# Half bandwidth and number of right-hand sides from which the band is factored by dense panels, and the least number of their columns. LAPACK's band factor takes half
# the time of the panels at any width; its solution, one right-hand side at a time, twice theirs or more.
NARROW, MANY = 32, 64
PANEL = 64
# How many patterns are kept: as many runs of different length as are factored in turns.
PATTERNS = 64
# And so many entries in all: 32 bytes each.
ENTRIES = 30_000_000
# Two of them are one if the entries of both are so many times those of either, at most.
ALIKE = 1.2
# Static regularisation of the equilibrated matrix (whose entries are at most 1): enough for the pivots. Refinement has to take it out again, and
# the error bars show whether it did: with 1e-12 they were 4 % off in `free` coordinates, where the matrix is worst; with 1e-13 they agree with
# those of `tree` to 1e-6.
REGULARISATION = 1e-13
# What a factor with pivoting may be trusted with unseen (relative residual): it is backward stable, and looking would cost a third of the solution.
TRUSTED = 1e-8
# Residual, relative to the size of the solution of the equilibrated matrix, that is rounding: refinement cannot make it smaller.
ROUNDING = 1e-14
# What parameters contribute to the equations [N, N m] below which they count as not entering them.
NOTHING = 1e-12
# Refinement goes on while it makes the residual smaller by a factor of three, until that is this small (relative), or for this many steps; the
# best is kept.
REFINED = 1e-9
REFINEMENTS = 20
# Columns that are refined together: more take memory, fewer calls.
TOGETHER = 16


@dataclass(frozen=True)
class Linearisation:
    """Residuals F and constraints C with their derivatives; states sparse, parameters dense."""

    F: np.ndarray
    Fx: Sparse
    Ft: np.ndarray
    C: np.ndarray
    Cx: Sparse
    Ct: np.ndarray
    when: np.ndarray | None = None
    """(states and equations,) when each comes in time, if they are chained: their order in the band. None: one is found."""

    def size(self, theta: np.ndarray) -> float:
        """The size of the terms of the equations: what the parameters contribute to them (1 if they contribute nothing)."""
        size = float(np.abs(self.Ct * theta).max(initial=0.0))
        return size if size > NOTHING else 1.0

    def factor(self, damping: np.ndarray | float = 0.0) -> Refined:
        """`damping` is added to the diagonal of the states."""
        return Factor(self, damping)


@dataclass(frozen=True, eq=False)
class Runs:
    """Several runs that have parameters in common and no states; each with the derivatives by the parameters that it depends on."""

    loose: np.ndarray
    """Residuals of the parameters alone (priors), which come first in F ..."""
    loose_theta: Sparse
    """... and their derivatives, sparse (rows, parameters)."""
    parts: tuple[Linearisation | Chain, ...]
    columns: tuple[np.ndarray, ...]
    """Which parameters the columns of each part are."""
    parameters: int

    @cached_property
    def F(self) -> np.ndarray:
        return np.concatenate([self.loose, *(part.F for part in self.parts)])

    @cached_property
    def C(self) -> np.ndarray:
        return np.concatenate([part.C for part in self.parts])

    @property
    def Fx(self) -> _ByStates:
        return _ByStates(len(self.loose), tuple(part.Fx for part in self.parts))

    @property
    def Cx(self) -> _ByStates:
        return _ByStates(0, tuple(part.Cx for part in self.parts))

    @property
    def Ft(self) -> _ByParameters:
        return _ByParameters(self.loose_theta, tuple(part.Ft for part in self.parts), self.columns)

    def together(self, blocks: Sequence[np.ndarray]) -> np.ndarray:
        """(residuals, parameters): one block per run, the columns of each being the parameters that it depends on, below the derivatives of the loose residuals."""
        return _ByParameters(self.loose_theta, tuple(blocks), self.columns).toarray()

    @property
    def Ct(self) -> _ByParameters:
        return _ByParameters(sp.csr_matrix((0, self.parameters)), tuple(part.Ct for part in self.parts), self.columns)

    @cached_property
    def whole(self) -> Linearisation:
        """As one run, with all parameters as columns: for few runs."""
        if len(self.parts) == 1 and not len(self.loose):
            return self.parts[0]  # pyright: ignore[reportReturnType]
        states: list[np.ndarray] = []
        equations: list[np.ndarray] = []
        first = 0.0
        for part in self.parts:
            assert isinstance(part, Linearisation) and part.when is not None
            when, n = part.when, part.Fx.shape[1]
            states.append(when[:n] + first)
            equations.append(when[n:] + first)
            first += float(np.ceil(when.max())) + 1.0
        Fx = sp.vstack([sp.csr_matrix((len(self.loose), sum(map(len, states)))), sp.block_diag([part.Fx for part in self.parts])], format="csr")
        Cx = sp.block_diag([part.Cx for part in self.parts], format="csr")
        return Linearisation(self.F, Fx, self.Ft.toarray(), self.C, Cx, self.Ct.toarray(), np.concatenate([*states, *equations]))

    def size(self, theta: np.ndarray) -> float:
        """As that of one run."""
        size = max(float(np.abs(part.Ct * theta[columns]).max(initial=0.0)) for part, columns in zip(self.parts, self.columns, strict=True))
        return size if size > NOTHING else 1.0


@dataclass(frozen=True, eq=False)
class _ByStates:
    """Derivatives by the states of several runs: blocks on a diagonal, below `above` rows of zeros."""

    above: int
    blocks: tuple[Sparse, ...]

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        parts = np.split(x, np.cumsum([b.shape[1] for b in self.blocks])[:-1])
        return np.concatenate([np.zeros((self.above, *x.shape[1:])), *(b @ part for b, part in zip(self.blocks, parts, strict=True))])

    @property
    def shape(self) -> tuple[int, int]:
        return self.above + sum(b.shape[0] for b in self.blocks), sum(b.shape[1] for b in self.blocks)

    def toarray(self) -> np.ndarray:
        return np.concatenate([np.zeros((self.above, self.shape[1])), sp.block_diag(self.blocks).toarray()])


@dataclass(frozen=True, eq=False)
class _ByParameters:
    """Derivatives by the parameters: sparse rows above those of the runs, which have columns of their own."""

    above: Sparse
    blocks: tuple[np.ndarray, ...]
    columns: tuple[np.ndarray, ...]

    def __matmul__(self, d: np.ndarray) -> np.ndarray:
        return np.concatenate([self.above @ d, *(b @ d[columns] for b, columns in zip(self.blocks, self.columns, strict=True))])

    def toarray(self) -> np.ndarray:
        out = [self.above.toarray()]
        for block, columns in zip(self.blocks, self.columns, strict=True):
            out.append(np.zeros((len(block), self.above.shape[1])))
            out[-1][:, columns] = block
        return np.concatenate(out)


def singular() -> NumericalError:
    return NumericalError("The equations of this fit are singular: their matrix cannot be factored; check the model for parts that nothing holds.")


class Refined(ABC):
    """A factored matrix, equilibrated as `scale`; `solve` refines with the matrix itself."""

    n: int
    """Number of states, which come first."""
    scale: np.ndarray
    stable: bool = False
    """Whether it was factored as it is, with pivoting."""
    dear: float = 1.0
    """What a right-hand side costs, relative to that of a band."""

    @property
    @abstractmethod
    def log_determinant(self) -> float:
        """log |det K|"""

    @abstractmethod
    def apply(self, x: np.ndarray) -> np.ndarray:
        """The equilibrated matrix times a vector or columns."""

    @abstractmethod
    def direct(self, b: np.ndarray) -> np.ndarray:
        """The factor's answer for the equilibrated matrix, not refined; it may take the place of b."""

    def solve(self, b: np.ndarray, refined: np.ndarray | float = REFINED) -> np.ndarray:
        """K^-1 b for a vector or for columns; `refined`: relative residual (of each column) from which it is good enough (1: not refined at all)."""
        if b.ndim == 1:
            return self.solve(b[:, None], refined)[:, 0]
        if not b.shape[1]:
            return b
        best = self.direct(b * self.scale[:, None])
        refined = np.broadcast_to(refined, (b.shape[1],))
        going = np.flatnonzero(refined < (TRUSTED if self.stable else 1.0))
        for first in range(0, len(going), TOGETHER):
            some = going[first : first + TOGETHER]
            self._refine(best, some, b[:, some] * self.scale[:, None], refined[some])
        best *= self.scale[:, None]
        return best

    def _refine(self, best: np.ndarray, going: np.ndarray, right: np.ndarray, refined: np.ndarray) -> None:
        """In place, the columns `going`."""
        x, before = best[:, going], np.full(len(going), np.inf)
        enough = np.maximum(refined * np.abs(right).max(initial=1e-300, axis=0), ROUNDING * np.abs(x).max(initial=0.0, axis=0))
        for _ in range(REFINEMENTS):
            r = right - self.apply(x)
            error = np.abs(r).max(initial=0.0, axis=0)
            better = error < before
            best[:, going[better]] = x[:, better]
            worthwhile = (error < 0.3 * before) & (error > enough)
            if not worthwhile.any():
                break
            x, right, enough = x[:, worthwhile] + self.direct(r[:, worthwhile]), right[:, worthwhile], enough[worthwhile]
            going, before = going[worthwhile], error[worthwhile]

    def eliminate(self, lin: Linearisation | Chain, refined: np.ndarray | float = REFINED) -> tuple[AbstractFollowing, np.ndarray, np.ndarray]:
        """How states and multipliers follow the parameters, and I_red and g_red, of the linearisation that it is the factor of."""
        n, p = self.n, lin.Ct.shape[1]
        seen = np.flatnonzero(lin.Ft.any(axis=0))  # most parameters enter the equations only
        Ft = lin.Ft[:, seen]
        right = np.zeros((n + len(lin.C), p + 1))
        right[:n, seen], right[n:, :-1] = lin.Fx.T @ Ft, lin.Ct
        right[:n, -1], right[n:, -1] = lin.Fx.T @ lin.F, lin.C
        solved = self.solve(right, refined)
        np.negative(solved, out=solved)
        following = Following(solved)
        information, gradient = right[:, :-1].T @ following.response, following.response.T @ right[:, -1]
        information[np.ix_(seen, seen)] += Ft.T @ Ft
        gradient[seen] += Ft.T @ lin.F
        return following, 0.5 * (information + information.T), gradient


class Factor(Refined):
    """K of a sparse linearisation.

    Chained states make K banded once its unknowns are in the order of time (or reverse Cuthill-McKee): LU with row pivoting on the band, stable for any K, and
    all right-hand sides at once. Where the band is wide (long-range couplings), LDL' without pivoting on the sparse matrix, whose static
    regularisation makes it quasi-definite.
    """

    def __init__(self, lin: Linearisation, damping: np.ndarray | float = 0.0, columns: int | None = None) -> None:
        """`columns`: of how many parameters; None: of those of the linearisation."""
        self.P, self.C = (lin.Fx.T @ lin.Fx).tocsr(), lin.Cx.tocsr()
        if np.any(damping):
            self.P = (self.P + sp.diags(np.broadcast_to(damping, (self.P.shape[0],)))).tocsr()
        self.n = self.P.shape[0]
        pattern = pattern_of(self.P, self.C, lin.when)
        entries = pattern.of_P(self.P)
        self.scale = pattern.equilibration(entries, self.C.data)
        values = pattern.values(entries, self.C.data, self.scale)
        self.factor: _Band | _Sparse
        if pattern.half <= WIDEST:
            self.factor = _Band(pattern, values, (lin.Ct.shape[1] if columns is None else columns) + 1)
            self.stable = self.factor.factored
            if self.stable:
                return
        self.dear = DEAR
        self.factor = _Sparse(sp.csc_matrix((values, (pattern.row, pattern.column)), shape=(len(self.scale),) * 2), self.n)

    @property
    def log_determinant(self) -> float:
        """log |det K|"""
        return self.factor.log_determinant - 2.0 * float(np.log(self.scale).sum())

    def apply(self, x: np.ndarray) -> np.ndarray:
        y = x * self.scale[:, None]
        states, multipliers = y[: self.n], y[self.n :]
        return np.concatenate([self.P @ states + self.C.T @ multipliers, self.C @ states]) * self.scale[:, None]

    def direct(self, b: np.ndarray) -> np.ndarray:
        return self.factor.solve(b)


class Pattern:
    """Where the entries of P and C stand in K and in its band: found once for all linearisations of a mesh.

    `row`, `column` of all entries in K: those of P, of C and of C'. P may have fewer entries than its places (`of_P`): a product of sparse matrices leaves out what happens to be zero, which is something else in every step.
    """

    def __init__(self, places: np.ndarray, n: int, C: Sparse, when: np.ndarray | None) -> None:
        """`places` of the entries of P, row n + column, increasing."""
        m = C.shape[0]
        self.places, self.n, self.size = places, n, n + m
        p_row, p_column = np.divmod(places, n)
        c_row = n + np.repeat(np.arange(m), np.diff(C.indptr))
        self.row, self.column = np.concatenate([p_row, c_row, C.indices]), np.concatenate([p_column, C.indices, c_row])
        self.by_column = np.argsort(C.indices, kind="stable")
        """Entries of C, column by column."""
        self.rows_of_P, self.rows_of_C, self.columns_of_C = (
            _Groups(x) for x in (np.bincount(p_row, minlength=n), np.diff(C.indptr), np.bincount(C.indices, minlength=n))
        )
        if when is None:
            from scipy.sparse.csgraph import reverse_cuthill_mckee

            self.order = reverse_cuthill_mckee(sp.csr_matrix((np.ones(len(self.row)), (self.row, self.column)), shape=(n + m, n + m)), symmetric_mode=True)
        else:
            self.order = np.argsort(when, kind="stable")
        place = np.empty(n + m, dtype=np.int64)
        place[self.order] = np.arange(n + m)
        row, column = place[self.row], place[self.column]
        self.half = int(np.abs(row - column).max(initial=0))
        self.flat = column * (3 * self.half + 1) + 2 * self.half + row - column
        """Of the entries in LAPACK's band, whose columns follow each other in memory."""

    def of_P(self, P: Sparse) -> np.ndarray:
        """The entries of P at all its places."""
        if P.nnz == len(self.places):
            return P.data
        out = np.zeros(len(self.places))
        out[np.searchsorted(self.places, places_of(P))] = P.data
        return out

    @cached_property
    def panels(self) -> tuple[np.ndarray, list[_Window]]:
        """The entries row by row of the reordered matrix, and the windows that it is factored in."""
        place = np.empty(self.size, dtype=np.int64)
        place[self.order] = np.arange(self.size)
        row, column = place[self.row], place[self.column]
        entries = np.lexsort((column, row))
        row, column = row[entries], column[entries]
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=self.size))])
        windows, done, width = [], 0, max(PANEL, self.half)
        for first in range(0, self.size, width):
            c1 = min(first + width, self.size)
            r1, end = min(c1 + self.half, self.size), min(c1 + 2 * self.half, self.size)
            new = slice(int(starts[done]), int(starts[r1]))
            windows.append(_Window(first, c1, r1, end, new, (column[new] - first) * (r1 - first) + row[new] - first))
            done = r1
        return entries, windows

    def equilibration(self, P: np.ndarray, C: np.ndarray) -> np.ndarray:
        """Diagonal scaling that brings the largest entry of every row and column of K near one ([ruiz2001], three rounds)."""
        P, C = np.abs(P), np.abs(C)
        (p_row, c_row, _), (p_column, c_column, _) = (np.split(x, [len(P), len(P) + len(C)]) for x in (self.row, self.column))
        scale = np.ones(self.size)
        for _ in range(3):
            mixed = C * scale[c_row] * scale[c_column]
            by_states = np.maximum(self.rows_of_P.largest(P * scale[p_row] * scale[p_column]), self.columns_of_C.largest(mixed[self.by_column]))
            largest = np.concatenate([by_states, self.rows_of_C.largest(mixed)])
            scale = scale / np.sqrt(np.where(largest > 0.0, largest, 1.0))
        return scale

    def values(self, P: np.ndarray, C: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Entries of the equilibrated K, at `row` and `column`."""
        return np.concatenate([P, C, C]) * scale[self.row] * scale[self.column]


class _Window(NamedTuple):
    """Columns `first` to `c1` of a panel, with the rows (to `r1`) and the columns (to `end`) that its elimination touches; the entries of the matrix that no window before it
    has, and where they stand in it, column by column."""

    first: int
    c1: int
    r1: int
    end: int
    new: slice
    flat: np.ndarray


class _Groups:
    """Consecutive groups of entries, so many in each."""

    def __init__(self, counts: np.ndarray) -> None:
        self.count, self.filled = len(counts), np.flatnonzero(counts)
        self.starts = (np.cumsum(counts) - counts)[self.filled]

    def largest(self, values: np.ndarray) -> np.ndarray:
        """Of every group; zero of an empty one."""
        out = np.zeros(self.count)
        if len(self.filled):
            out[self.filled] = np.maximum.reduceat(values, self.starts)
        return out


def places_of(P: Sparse) -> np.ndarray:
    """Row n + column of every entry, increasing; the entries of P are brought into this order."""
    P.sort_indices()
    return np.repeat(np.arange(P.shape[0]) * P.shape[1], np.diff(P.indptr)) + P.indices


@dataclass
class _Patterns:
    """The patterns used last. What differs in a few entries of P alone has one pattern, of all of them. Runs are eliminated side by side: what is kept is changed by one of them at a time."""

    found: OrderedDict[bytes, Pattern] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def __call__(self, P: Sparse, C: Sparse, when: np.ndarray | None) -> Pattern:
        key = blake2b(repr((P.shape, C.shape)).encode())
        for array in (C.indptr, C.indices, np.zeros(0) if when is None else when):
            key.update(np.ascontiguousarray(array).data)
        name, places = key.digest(), places_of(P)
        with self.lock:
            pattern = self.found.pop(name, None)
            if pattern is not None:
                both = np.union1d(pattern.places, places)
                if len(both) > ALIKE * min(len(places), len(pattern.places)):  # another kind of data on the same mesh
                    self.found[name] = pattern
                    key.update(places.data)
                    name = key.digest()
                    pattern, both = self.found.pop(name, None), places
                places = both
        if pattern is None or len(pattern.places) < len(places):
            pattern = Pattern(places, P.shape[0], C, when)
        with self.lock:
            self.found[name] = pattern
            while len(self.found) > PATTERNS or (len(self.found) > 1 and sum(len(kept.row) for kept in self.found.values()) > ENTRIES):
                self.found.popitem(last=False)
        return pattern


pattern_of = _Patterns()


class _Band:
    """LU of the reordered band with row pivoting: LAPACK's gbtrf, or, for a wide band and many right-hand sides, by dense panels."""

    def __init__(self, pattern: Pattern, values: np.ndarray, columns: int) -> None:
        from scipy.linalg import lapack

        n = pattern.size
        self.half, self.order = pattern.half, pattern.order
        self.panels: _Panels | None = None
        if self.half >= NARROW and columns >= MANY:
            entries, windows = pattern.panels
            self.panels = _Panels(windows, values[entries])
            self.factored = self.panels.factored
            return
        band = np.zeros(n * (3 * self.half + 1))
        band[pattern.flat] = values
        self.lu, self.pivots, info = lapack.dgbtrf(  # pyright: ignore[reportAttributeAccessIssue]
            band.reshape(n, -1).T, self.half, self.half, overwrite_ab=True
        )
        self.factored = info == 0

    @property
    def log_determinant(self) -> float:
        return self.panels.log_determinant if self.panels is not None else float(np.log(np.abs(self.lu[2 * self.half])).sum())

    def solve(self, b: np.ndarray) -> np.ndarray:
        """In place."""
        if self.panels is not None:
            ordered = b[self.order]
            self.panels.solve(ordered)
            b[self.order] = ordered
            return b
        from scipy.linalg import lapack  # no field: a factor goes to other processes

        b[self.order] = lapack.dgbtrs(self.lu, self.half, self.half, b[self.order], self.pivots)[0]  # pyright: ignore[reportAttributeAccessIssue]
        return b


class _Panels:
    """LU with row pivoting of a band of half width w, panel by panel of columns, each dense.

    Column j reaches down to row j + w; a row that pivoting brings up reaches right to column j + 2 w. With columns c0 .. c1 of a panel, the
    rows c0 .. c1 + w and the columns c0 .. c1 + 2 w hold all that its elimination touches. gbtrs takes one right-hand side and one column at a
    time; here all right-hand sides go through matrix products (ten times faster for a seven-joint arm with 84 parameters).
    """

    def __init__(self, windows: Sequence[_Window], values: np.ndarray) -> None:
        """`values` row by row."""
        from scipy.linalg import lapack

        self.parts: list[tuple[int, int, int, int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        self.log_determinant, self.factored = 0.0, False
        carried = np.zeros((0, 0))  # rows already touched
        for first, c1, r1, end, new, flat in windows:
            m, rows = c1 - first, r1 - first
            A = np.zeros((rows, end - first), order="F")
            A[: carried.shape[0], : carried.shape[1]] = carried
            A.ravel(order="K")[flat] = values[new]
            lu, pivots, info = lapack.dgetrf(A[:, :m])  # pyright: ignore[reportAttributeAccessIssue]
            if info != 0:
                return
            swapped = lapack.dlaswp(np.arange(float(rows))[:, None], pivots)[:, 0].astype(np.intp)  # pyright: ignore[reportAttributeAccessIssue]
            top, below, right = np.asfortranarray(lu[:m]), np.ascontiguousarray(lu[m:]), A[swapped, m:]
            U_right = _triangular(top, right[:m], lower=True)
            carried = right[m:] - below @ U_right
            self.parts.append((first, c1, r1, end, swapped, top, below, U_right))
            self.log_determinant += float(np.log(np.abs(np.diag(top))).sum())
        self.factored = True

    def solve(self, x: np.ndarray) -> None:
        """In place, (n,) or (n, columns)."""
        if x.ndim == 1:
            x = x[:, None]
        for first, c1, r1, _, rows, top, below, _ in self.parts:
            window = x[first:r1][rows]
            x[first:c1] = _triangular(top, window[: c1 - first], lower=True)
            x[c1:r1] = window[c1 - first :] - below @ x[first:c1]
        for first, c1, _, end, _, top, _, right in reversed(self.parts):
            x[first:c1] = _triangular(top, x[first:c1] - right @ x[c1:end], lower=False)


def _triangular(lu: np.ndarray, b: np.ndarray, lower: bool) -> np.ndarray:
    """L^-1 b or U^-1 b of a dense LU; written for the transpose, whose memory is in the order that BLAS wants."""
    from scipy.linalg import blas

    return blas.dtrsm(1.0, lu, b.T, side=1, lower=int(lower), trans_a=1, diag=int(lower)).T  # pyright: ignore[reportAttributeAccessIssue]


class _Sparse:
    """LDL' without pivoting (QDLDL)."""

    def __init__(self, K: Sparse, n: int) -> None:
        self.given = K, n
        signs = np.concatenate([np.ones(n), -np.ones(K.shape[0] - n)])
        for more in (1.0, 3.7, 17.0, 130.0, 1e4):  # rounding can make a pivot exactly zero; then with a little more regularisation
            try:
                self.solver = qdldl.Solver(sp.triu(K + sp.diags(more * REGULARISATION * signs), format="csc"), upper=True)
                return
            except RuntimeError:
                continue
        raise singular()

    def __reduce__(self) -> tuple[type[_Sparse], tuple[Sparse, int]]:
        """QDLDL's own object cannot go to another process: it is factored there again."""
        return _Sparse, self.given

    @property
    def log_determinant(self) -> float:
        return float(np.log(np.abs(self.solver.factors()[1])).sum())

    def solve(self, b: np.ndarray) -> np.ndarray:
        if b.ndim == 1:
            return self.solver.solve(b)
        return np.column_stack([self.solver.solve(column) for column in b.T])


class AbstractFollowing(ABC):
    """How the states and multipliers of a run follow its parameters."""

    @property
    @abstractmethod
    def response(self) -> np.ndarray:
        """-K^-1 B: by each parameter."""

    @abstractmethod
    def step(self, d: np.ndarray) -> np.ndarray:
        """-K^-1 (a + B d): their step with that of the parameters."""


@dataclass(frozen=True, eq=False)
class Following(AbstractFollowing):
    solved: np.ndarray
    """-K^-1 [B, a]"""

    @property
    def response(self) -> np.ndarray:
        return self.solved[:, :-1]

    def step(self, d: np.ndarray) -> np.ndarray:
        return self.solved[:, -1] + self.response @ d


@dataclass(frozen=True, eq=False)
class Eliminated:
    """One run, its states and multipliers eliminated."""

    columns: np.ndarray
    """Which parameters it depends on."""
    factor: Refined
    following: AbstractFollowing
    information: np.ndarray
    """I_red of its data."""
    gradient: np.ndarray

    @property
    def response(self) -> np.ndarray:
        """How its states and multipliers follow these parameters."""
        return self.following.response


@dataclass(frozen=True, eq=False)
class Step:
    """A Gauss-Newton step and what it was made of."""

    states: np.ndarray
    multipliers: np.ndarray
    parameters: np.ndarray
    information: Arrow
    """I_red without damping."""
    gradient: np.ndarray
    """g_red"""
    at_bound: np.ndarray
    runs: tuple[Eliminated, ...]

    @property
    def alone(self) -> Step:
        """Without what it was made of, which is large."""
        return replace(self, runs=())

    @property
    def factor(self) -> Refined | Together:
        """K of all runs: the states of all of them first."""
        return self.runs[0].factor if len(self.runs) == 1 else Together(tuple(run.factor for run in self.runs))

    @property
    def response(self) -> np.ndarray:
        """How states and multipliers follow the parameters, of a single run."""
        (only,) = self.runs
        return only.response


@dataclass(frozen=True, eq=False)
class Together:
    """Factors of several runs as that of one matrix whose states come first."""

    factors: tuple[Refined, ...]

    @property
    def n(self) -> int:
        return sum(f.n for f in self.factors)

    def solve(self, b: np.ndarray, refined: np.ndarray | float = REFINED) -> np.ndarray:
        ends = np.cumsum([f.n for f in self.factors] + [len(f.scale) - f.n for f in self.factors])
        parts, count = np.split(b, ends[:-1]), len(self.factors)
        sides = [np.concatenate([parts[r], parts[count + r]]) for r in range(count)]
        return _sorted([f.solve(side, refined) for f, side in zip(self.factors, sides, strict=True)], [f.n for f in self.factors])


def _sorted(solved: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """(states, multipliers) of every run, the states of all of them first."""
    return np.concatenate([*(z[:n] for z, n in zip(solved, sizes, strict=True)), *(z[n:] for z, n in zip(solved, sizes, strict=True))])


def step(
    lin: Linearisation | Chain | Runs, theta: np.ndarray, lower: np.ndarray, upper: np.ndarray, damping: np.ndarray, scale: np.ndarray,
    slope: np.ndarray | float = 0.0, states: np.ndarray | float = 0.0, refined: np.ndarray | float = REFINED,
) -> Step:  # fmt: skip
    """`damping` is added to the diagonal of the information, `states` to that of the states; `scale` is the size of a change of each parameter that
    counts as one; `refined`: relative residual of the linear solutions from which they are good enough, of all of them or one for the response to each
    parameter and, last, one for the states' own step."""
    runs = runs_of(lin, len(theta))
    enough = np.broadcast_to(refined, (len(theta) + 1,))
    held = split_by_run(runs, states)
    found = spread(lambda r: eliminated(runs.parts[r], runs.columns[r], held[r], enough[np.append(runs.columns[r], -1)]), len(runs.parts))
    information, gradient = _together(runs, [(e.columns, e.information, e.gradient) for e in found], len(theta), slope)
    d, at_bound = bounded(information.plus(damping), gradient, lower - theta, upper - theta, scale)
    z = [e.following.step(d[e.columns]) for e in found]
    sizes = [e.factor.n for e in found]
    together = _sorted(z, sizes)
    return Step(together[: sum(sizes)], together[sum(sizes) :], d, information, gradient, at_bound, tuple(found))


def parameters_step(
    lin: Linearisation | Chain | Runs, theta: np.ndarray, lower: np.ndarray, upper: np.ndarray, damping: np.ndarray, scale: np.ndarray, slope: np.ndarray | float = 0.0
) -> np.ndarray:  # fmt: skip
    """Where `step` moves the parameters. Of every run only what it says of them is kept: the factors of all runs together may be gigabytes."""
    runs = runs_of(lin, len(theta))

    def said(r: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        e = eliminated(runs.parts[r], runs.columns[r])
        return e.columns, e.information, e.gradient

    information, gradient = _together(runs, spread(said, len(runs.parts)), len(theta), slope)
    return bounded(information.plus(damping), gradient, lower - theta, upper - theta, scale)[0]


def _together(runs: Runs, said: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], parameters: int, slope: np.ndarray | float) -> tuple[Arrow, np.ndarray]:
    """Information and gradient of all runs, of which each has said which parameters it depends on, and its own."""
    information = Arrow.of(parameters, [(columns, own) for columns, own, _ in said], runs.loose_theta)
    gradient = runs.loose_theta.T @ runs.loose + np.broadcast_to(slope, (parameters,))
    for columns, _, own in said:
        gradient[columns] += own
    return information, gradient


def runs_of(lin: Linearisation | Chain | Runs, parameters: int) -> Runs:
    """A single run as several."""
    return lin if isinstance(lin, Runs) else Runs(np.zeros(0), sp.csr_matrix((0, parameters)), (lin,), (np.arange(parameters),), parameters)


def split_by_run(runs: Runs, states: np.ndarray | float) -> Sequence[np.ndarray | float]:
    """What is given for all states, run by run."""
    if np.ndim(states) == 0 or len(runs.parts) == 1:
        return [states] * len(runs.parts)
    return np.split(np.asarray(states), np.cumsum([part.Fx.shape[1] for part in runs.parts])[:-1])


def eliminated(lin: Linearisation | Chain, columns: np.ndarray, states: np.ndarray | float = 0.0, refined: np.ndarray | float = REFINED) -> Eliminated:
    """The states of one run as functions of the parameters, and what its data then say about these."""
    factor = lin.factor(states)
    return Eliminated(columns, factor, *factor.eliminate(lin, refined))


def corrected(
    lin: Chain, taken: Step, beyond: np.ndarray, theta: np.ndarray, lower: np.ndarray, upper: np.ndarray, damping: np.ndarray, scale: np.ndarray,
) -> Step:  # fmt: skip
    """The step bent by what the residuals after it have beyond their linear model, with the same matrix ([transtrum2012]: geodesic acceleration)."""
    n = taken.factor.n
    a = np.concatenate([lin.Fx.T @ beyond, np.zeros_like(lin.C)])
    alone = -taken.factor.solve(a, 1.0)
    gradient = lin.Ft.T @ beyond + taken.response.T @ a
    at = theta + taken.parameters
    d, _ = bounded(taken.information.plus(damping), gradient, lower - at, upper - at, scale)
    z = alone + taken.response @ d
    return replace(taken, states=taken.states + z[:n], multipliers=taken.multipliers + z[n:], parameters=taken.parameters + d)
