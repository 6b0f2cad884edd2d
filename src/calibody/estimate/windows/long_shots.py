"""Shooting on the variational stepper, its windows condensed one after the other (`condensed_windows.py`): for recordings whose motion is too long to be linearised as a whole.

A window begins with two nodes `s = (q_0, q_1)` and is a transcription of its own: the discrete equations of motion C hold inside, once it is simulated, and by their derivatives the inside y follows the
start and the parameters,

    C_y dy + C_s ds + C_t dtheta = 0,     dF/ds = F_s + F_y dy/ds,     dF/dtheta = F_t + F_y dy/dtheta

with y the nodes from the third on and the constraint forces, C the balance of all inner nodes and the constraints of those nodes: as many rows as unknowns, block-triangular in time, so that a sparse LU fills
nothing in. What is known of the first start and the constraints of its two nodes are equations of the starts; those of other windows follow from the matching rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.sparse.linalg import splu

from calibody.estimate.channels import as_motion
from calibody.estimate.layout import BALANCE, CONSTRAINTS, NODES, START
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.estimate.windows.condensed_windows import Arc, CondensedWindows, Starts
from calibody.estimate.windows.cut import Cut, Piece
from calibody.estimate.windows.resumed import rolled
from calibody.mechanics.assembly import Frames
from calibody.mechanics.kinematics import difference, retract
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.solve.condensed import Linearisation, Sparse
from calibody.steppers.motion import Motion
from calibody.steppers.variational import Variational

BESIDE = 30
"""Nodes on both sides of a window that its first motion is found with: beyond, a spline through observations forgets its ends."""


@dataclass(frozen=True, eq=False)
class Window(Piece, Run):
    """Some nodes as a run of a transcription."""


@dataclass(frozen=True, eq=False)
class LongCut(Cut):
    active: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Constraint rows that are kept."""
    deltas: np.ndarray | None = None
    """Rates below which dry friction is viscous."""

    @property
    def rows(self) -> dict[str, Any]:
        """Of the constraints, as a `Run` has them."""
        nc = self.structure.nc
        return {"active": self.active, "soft": np.zeros(nc, dtype=bool), "typical": np.ones(nc), "deltas": self.deltas, "implied": self.implied}

    @cached_property
    def pieces(self) -> list[Window]:
        return [Window(**self.parts(w), **self.rows).with_data() for w in range(self.windows)]

    def stretch(self, w: int) -> tuple[Window, int]:
        """The nodes that a window's first motion is found with, and where its own begin among them."""
        first, end = self.nodes(w)
        early = max(first - BESIDE, 0)
        return Window(**self.part(early, min(end + BESIDE, self.K)), **self.rows).with_data(), first - early

    def kept_all(self) -> LongCut:
        """With all constraint rows, until the start has found out which are independent."""
        return replace(self, active=np.ones(self.structure.nc, dtype=bool))


@dataclass(frozen=True, eq=False)
class LongShots(CondensedWindows):
    """Runs are `LongCut`s; a start is (nq, 2)."""

    bars: ClassVar[bool] = False

    @property
    def n(self) -> int:
        return 2 * self.runs[0].structure.nv

    @property
    def places(self) -> np.ndarray:
        return np.ones(self.n)

    def away(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        return difference(self.runs[0].structure, start, end).T.ravel()

    def moved(self, start: np.ndarray, d: np.ndarray) -> np.ndarray:
        return retract(self.runs[0].structure, start, d.reshape(2, -1).T)

    def single(self, r: int, piece: Run) -> Problem:
        """A part of a run as a problem of its own, in the parameters that the run depends on; what it keeps goes with it."""
        return Problem((piece,), self.only(r))

    def arc(self, r: int, w: int, start: np.ndarray, theta: np.ndarray, slopes: bool) -> Arc | None:
        run: LongCut = self.runs[r]  # pyright: ignore[reportAssignmentType]
        piece, own = run.pieces[w], theta[self.columns[r]]
        problem = self.single(r, piece)
        states = piece.still(start[:, 0])
        q = states.q.copy()
        q[:, :2] = start
        found = rolled(problem, 0, states.changed(nodes=q), own, np.array([0, piece.K]))
        if found is None:
            return None
        ends = np.cumsum([len(d.y) for d in piece.data])[:-1]
        after = found.q[:, -2:]
        if not slopes:
            F, C = problem.values([found], own)
            F = F[len(F) - piece.samples :]
            return Arc(np.split(F, ends), after, C=C[self._held(piece, w)])
        part = problem.linearised(0, found, own).part
        return condensed(piece, part, after, ends, self._held(piece, w))

    @staticmethod
    def _held(piece: Run, w: int) -> np.ndarray:
        """The equations of the first start."""
        if w:
            return np.zeros(0, dtype=np.int64)
        place = piece.layout.row_place
        constraints = np.arange(place[CONSTRAINTS].start, place[CONSTRAINTS].stop).reshape(piece.kept, piece.K)[:, :2]
        return np.concatenate([constraints.ravel(), np.arange(place[START].start, place[START].stop)])

    # -- what every problem offers -------------------------------------------------------------------------------------------------

    @property
    def friction_rate(self) -> dict[str, float]:
        run: LongCut = self.runs[0]  # pyright: ignore[reportAssignmentType]
        return self.single(0, run.pieces[0]).friction_rate

    def stepper(self) -> Variational:
        run: LongCut = self.runs[0]  # pyright: ignore[reportAssignmentType]
        return Variational(friction_rate=min(self.friction_rate.values(), default=run.pieces[0].delta))

    def frames(self, r: int, motion: Starts, model: Model, numbers: Numbers) -> Frames:
        raise NotImplementedError("windows are forgotten once they are condensed")

    def motion(self, r: int, states: Starts, theta: np.ndarray) -> Motion:
        """The only thing that is as long as the recording."""
        run: LongCut = self.runs[r]  # pyright: ignore[reportAssignmentType]
        model, numbers, _ = self.model_of(r, theta)
        q, forces = np.zeros((run.structure.nq, run.K)), np.zeros((run.structure.nc, run.K))
        for w, start in enumerate(states.s):
            first, end = run.nodes(w)
            piece = run.pieces[w]
            given = piece.still(start[:, 0])
            nodes = given.q.copy()
            nodes[:, :2] = start
            found = rolled(self.single(r, piece), 0, given.changed(nodes=nodes), theta[self.columns[r]], np.array([0, piece.K]))
            assert found is not None
            q[:, first:end], forces[:, first + (w > 0) : end - 1] = found.q, found.multipliers[:, int(w > 0) : -1]
        whole = Window(**run.part(0, run.K), **run.rows)
        return as_motion(whole, model, numbers, whole.still(q[:, 0]).changed(nodes=q, multipliers=forces))


def condensed(piece: Run, part: Linearisation, after: np.ndarray, ends: np.ndarray, held: np.ndarray) -> Arc:
    """A window's linearisation as one of its start and its end."""
    nv, K = piece.structure.nv, piece.K
    place, rows, p = piece.layout.place, piece.layout.row_place, part.Ct.shape[1]
    first = place[NODES].start + np.arange(2 * nv)
    inside = np.delete(np.arange(piece.layout.size), first)
    constraints = np.arange(rows[CONSTRAINTS].start, rows[CONSTRAINTS].stop).reshape(piece.kept, K)[:, 2:]
    solved = np.concatenate([np.arange(rows[BALANCE].start, rows[BALANCE].stop), constraints.ravel()])
    by_time = np.argsort(part.when[inside], kind="stable"), np.argsort(part.when[piece.layout.size + solved], kind="stable")  # pyright: ignore[reportOptionalSubscript]
    inside, solved = inside[by_time[0]], solved[by_time[1]]
    A: Sparse = part.Cx[solved]
    sides = np.concatenate([A[:, first].toarray(), part.Ct[solved]], axis=1)
    y = splu(A[:, inside].tocsc(), permc_spec="NATURAL").solve(-sides)
    follows = np.zeros((piece.layout.size, 2 * nv + p))
    follows[first, : 2 * nv] = np.eye(2 * nv)
    follows[inside] = y
    F, C = part.Fx @ follows, part.Cx[held] @ follows
    F[:, 2 * nv :] += part.Ft
    C[:, 2 * nv :] += part.Ct[held]
    last = follows[place[NODES].stop - 2 * nv : place[NODES].stop]
    samples = np.split(F, ends)
    return Arc(
        np.split(part.F, ends),
        after,
        [f[:, : 2 * nv] for f in samples],
        [f[:, 2 * nv :] for f in samples],
        last[:, : 2 * nv],
        last[:, 2 * nv :],
        part.C[held],
        C[:, : 2 * nv],
        C[:, 2 * nv :],
    )
