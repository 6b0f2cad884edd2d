"""One recording on a mesh of nodes: its unknowns and its equations (its samples and drives are `nodes.py`'s). All of it values: a run with other noise is another run (`replace`).

The unknowns of a run are, block after block (`layout.py`),

    the nodes' tangents (K of nv),  multipliers of the kept rows at the inner nodes,  noise (all in units of its standard deviation):
        unmodelled joint forces w_k = sd z_k of the inner nodes (process noise),
        ringing of compliant joints at both ends,
        deviations of noisy drives, one per sample

Every noise unknown is a residual of its own (`z = 0 +- 1`), so the equations hold exactly at a solution and a noise that goes to zero needs
no other formulas: the problem becomes that without noise.

A compliant constraint (DESIGN section 3) gives at inner nodes `(g_(k-1) + 2 g_k + g_(k+1))/4 + tau (g_(k+1) - g_(k-1))/(2h) + eps lambda_k = 0`,
which leaves its motion at both ends open. There its deflection is that of the neighbouring force, give or take one typical force L:
`g_0 + eps (lambda_1 - L s) = 0`, `s = 0 +- 1`.

What is known of the start exactly are equations too: the coordinate of the first node, and the rate with which the balance of the first node lets the motion begin, as `cb.simulate` has it (`mechanics/launch.py`).
In `free` coordinates and beside contacts, rolling or compliant loops it is `(-3 s_0 + 4 s_1 - s_2)/(2h)`, of second order as every rate is. What is known with a standard deviation is one more sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.layout import (
    BALANCE,
    CONSTRAINTS,
    MULTIPLIERS,
    NODES,
    PROCESS,
    RINGING,
    START,
    Amounts,
    Block,
    Coordinates,
    Forces,
    Layout,
    Rows,
    States,
    Term,
    drive_block,
    term,
)
from calibody.estimate.nodes import Nodes, Noise
from calibody.estimate.noise.unknown_drives import unknown_joints
from calibody.estimate.observe import Data
from calibody.mechanics import assembly
from calibody.mechanics.assembly import Frames
from calibody.mechanics.launch import Launch
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.condensed import Sparse
from calibody.solve.projected import Entries


@dataclass(frozen=True, eq=False)
class Run(Nodes):
    """One recording on a mesh: nodes, data, drives; its unknowns and equations."""

    deltas: np.ndarray | None = None
    """Rates below which dry friction is viscous, one per scalar coordinate; None: 1 for all."""
    turning: np.ndarray | None = None
    """(scalar coordinates, intervals) half of what the rate changes by from one interval to the next, below which dry friction is viscous too (`dry.turning`); None: nothing."""
    smooth: bool = False
    """Whether dry friction has no kinks: in fits with process noise, whose likelihood is made of derivatives of the equations."""
    active: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Constraint rows that are kept (all, until the start has found out which are independent); with `choices` those that are kept somewhere."""
    choices: tuple[tuple[float, tuple[int, ...]], ...] = ()
    """(time from which on, the row of each place): where no choice of independent rows is clear along the whole motion (`rechosen.py`). Empty: one choice."""
    soft: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Constraint rows that are compliant."""
    typical: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """The typical force L of each row (1, until the start has found it)."""
    hold: float = 0.0
    """How long an unmodelled force lasts before another is drawn; that of a node at least. It is the band of frequencies that these forces have, and the same on all meshes of a fit: a
    finer mesh with faster forces would be another model of them, not a better approximation."""

    @classmethod
    def of(cls, structure: Structure, recording: Recording, h: float, noise: Noise, hold: float = 0.0) -> Run:
        """On a mesh of about h that ends with the recording."""
        duration = recording.end - recording.start
        K = max(4, round(duration / h)) + 1
        step, rows = duration / (K - 1), np.ones(structure.nc)
        soft = Numbers.of(structure).softness[0] > 0.0
        return cls(structure, recording, recording.start + step * np.arange(K), step, noise, active=rows > 0.0, soft=soft, typical=rows, hold=hold).with_data()

    # -- unknowns ----------------------------------------------------------------------------------------------------------------

    @property
    def inner(self) -> int:
        return self.K - 2

    def free_states(self, freedom: int) -> int:
        """How many numbers a motion has that the equations leave open, of a mechanism with so many degrees of freedom: its start."""
        return 2 * freedom - len(self.starts)

    def __post_init__(self) -> None:
        if self.structure.rolling.any() and self.soft.any():
            raise CalibodyError("A fit cannot have compliant joints or loops beside what rolls or glides yet; make them rigid, compliance = 0.")

    @cached_property
    def starts(self) -> tuple[Data, ...]:
        """What is known exactly at the first node."""
        return self.known_start(exact=True)

    @property
    def launched(self) -> bool:
        """Whether known rates are those of the balance of the first node."""
        s = self.structure
        return s.coordinates == TREE and not self.soft.any() and not s.rolling.any()

    def launch(self, numbers: Numbers, point: Point) -> Launch:
        """The rates that a motion begins with."""
        slope = np.zeros(self.structure.nc)
        drives = {d.channel: d for d in self.recording.drives}
        for row, channel in zip(self.structure.prescribed_rows, self.structure.prescribed, strict=True):
            slope[row] = drives[channel.path].signal.curve(self.times[:1])[1][0]
        known, dofs = np.zeros(self.structure.nv), {c.joint: c.dof for c in self.structure.scalar_coordinates}
        for path, value in self.recording.initial.items():
            if path.endswith(".rate"):
                known[dofs[path.removeprefix("joint.").removesuffix(".rate")]] = value.value
        return Launch.of(self.structure, numbers, self.mask[:, 0], point, slope, known)

    @property
    def delta(self) -> float:
        """The rate below which dry friction is viscous where a coordinate has none of its own: the mean of those that have."""
        return 1.0 if self.deltas is None or not len(self.deltas) else float(np.mean(self.deltas))

    @property
    def kept(self) -> int:
        """Number of constraint rows that are kept, at every node."""
        return len(self.choices[0][1]) if self.choices else int(self.active.sum())

    @cached_property
    def rows(self) -> np.ndarray:
        """(kept, K): which they are."""
        if not self.choices:
            return np.repeat(np.flatnonzero(self.active)[:, None], self.K, axis=1)
        since = np.array([time for time, _ in self.choices[1:]])
        return np.array([rows for _, rows in self.choices]).T[:, np.searchsorted(since, self.times, side="right")]

    @cached_property
    def mask(self) -> np.ndarray:
        """(nc, K): the same as a mask."""
        out = np.zeros((self.structure.nc, self.K), dtype=bool)
        out[self.rows, np.arange(self.K)] = True
        return out

    @cached_property
    def disturbed(self) -> tuple[tuple[str, int], ...]:
        """(joint, velocity of the tree) of every unmodelled force, joints in the order of their noise; those with a memory last (`remembering`)."""
        return tuple((joint, velocity) for joint in (*self.noise.density, *self.noise.slow) for velocity in self._velocities(joint))

    def _velocities(self, joint: str) -> list[int]:
        """Of the tree: those of a joint."""
        s = self.structure
        out = [c.dof for c in s.scalar_coordinates if c.joint == joint]
        return out + [c.dof + axis for c in s.ball_coordinates if c.joint == joint for axis in range(3)]

    @cached_property
    def remembering(self) -> np.ndarray:
        """Which of the unmodelled forces have a memory."""
        return np.arange(len(self.disturbed)) >= sum(len(self._velocities(joint)) for joint in self.noise.density)

    @cached_property
    def mixing(self) -> np.ndarray:
        """(forces, forces): U of `w = U (sd z)` (`coupling.py`); the identity where every joint has a force of its own."""
        joints, U = [joint for joint, _ in self.disturbed], np.eye(len(self.disturbed))
        for (one, other), share in self.noise.coupled.items():
            U[joints.index(other), joints.index(one)] = share
        return U

    def unmodelled(self, z: np.ndarray) -> np.ndarray:
        """(instants, forces): the forces on the joints that noise z stands for."""
        return (z * self.process_sd()) @ self.mixing.T

    def process_sd(self) -> np.ndarray:
        """Standard deviation of every unmodelled force, of what does not go with those before it."""
        densities = [(self.noise.slow if slow else self.noise.density)[joint] for (joint, _), slow in zip(self.disturbed, self.remembering, strict=True)]
        return np.sqrt(np.array(densities) / self.held * (1.0 - self.memory) / (1.0 + self.memory))

    @property
    def memory(self) -> np.ndarray:
        """Correlation of every unmodelled force from one to the next."""
        times = np.array([self.noise.memory[joint] if slow else 1.0 for (joint, _), slow in zip(self.disturbed, self.remembering, strict=True)])
        return np.where(self.remembering, np.exp(-self.held / times), 0.0)

    @property
    def held(self) -> float:
        """`hold` as it fits into the recording."""
        return self.h * (self.K - 1) / (self.draws + 1)

    @property
    def draws(self) -> int:
        """How many forces act one after the other: around every inner node of a mesh as coarse as they last."""
        return self.inner if self.hold <= self.h else max(round((self.K - 1) * self.h / self.hold) - 1, 1)

    @cached_property
    def lasting(self) -> Sparse:
        """(inner nodes, draws): the force of a node is the mean of those that act from half a step before it to half a step after; the first and the last last to the ends."""
        ends = np.append(0.0, np.arange(1.5, self.draws + 0.5) * self.held / self.h)
        ends = np.append(ends, self.K - 1.0)
        node = np.arange(1, self.K - 1)[:, None]
        first = np.clip(np.searchsorted(ends, node - 0.5, side="right") - 1, 0, self.draws - 1)
        draw = np.minimum(first + np.arange(2), self.draws - 1)
        part = np.minimum(ends[draw + 1], node + 0.5) - np.maximum(ends[draw], node - 0.5)
        part[:, 1] = np.where(draw[:, 1] > draw[:, 0], part[:, 1], 0.0)
        keep = part > 1e-9
        return sp.csr_matrix((part[keep], (np.broadcast_to(node - 1, draw.shape)[keep], draw[keep])), shape=(self.inner, self.draws))

    @cached_property
    def rolling(self) -> np.ndarray:
        """The kept rows on velocities, (kept,): they have no equation at the first node."""
        return self.structure.rolling[self.rows[:, 0]]

    @property
    def mixed(self) -> bool:
        """Whether constraint rows are of more than their own node: compliant ones, and those on velocities."""
        return bool(len(self.ringing) or self.rolling.any())

    @property
    def ringing(self) -> np.ndarray:
        """The kept compliant rows."""
        return np.flatnonzero(self.active & self.soft)

    @cached_property
    def layout(self) -> Layout:
        s, K, inner = self.structure, self.K, np.arange(1, self.K - 1)
        blocks: list[Block] = [
            Coordinates(NODES, np.arange(K), s.nv, structure=s, times=self.times),
            Forces(MULTIPLIERS, inner + 0.1, self.kept, rows=self.rows, times=self.times),
        ]
        if self.disturbed:
            draws = np.arange(1, self.draws + 1) * self.held
            forces = Amounts(PROCESS, draws / self.h + 0.1, len(self.disturbed), 1.0, times=self.times[0] + draws, unit=self.process_sd(), memory=self.memory)
            blocks.append(forces)
        if len(self.ringing):
            ends = self.times[[0, -1]]
            blocks.append(Amounts(RINGING, np.array([0.0, K - 1.0]), len(self.ringing), 1.0, times=ends, unit=np.ones(len(self.ringing))))
        for deviation in self.uncertain:
            when = np.clip((deviation.times - self.times[0]) / self.h, 0.0, K - 1.0) + 0.5
            blocks.append(Amounts(drive_block(deviation.name), when, 1, 1.0, times=deviation.times, unit=np.ones(1), memory=deviation.memory))
        constraints = np.concatenate([np.zeros(0), *(np.arange(K)[int(rolls) :] + 0.3 for rolls in self.rolling)])
        late = 0.6 if self.launched else 1.15  # a rate is one of the first two or three nodes
        starts = np.array([late if observe.is_rate(d.channel) else 0.05 for d in self.starts])
        return Layout(tuple(blocks), (Rows(BALANCE, np.repeat(inner + 0.2, s.nv)), Rows(CONSTRAINTS, constraints), Rows(START, starts)))

    def still(self, q: np.ndarray) -> States:
        """The same coordinates at every node, no forces, no noise."""
        parts = {b.name: np.zeros((len(b.when), b.width)) for b in self.layout.blocks}
        return States(parts | {NODES: np.repeat(q[:, None], self.K, axis=1), MULTIPLIERS: np.zeros((self.structure.nc, self.K))})

    def move(self, motion: States, d: np.ndarray) -> States:
        return self.layout.moved(motion, d)

    # -- points --------------------------------------------------------------------------------------------------------------------

    def point(self, model: Model, numbers: Numbers, motion: States) -> Point:
        control, applied = self.drives(model, motion)
        turns = None if self.structure.coordinates == "tree" else assembly.turns_along(self.structure, numbers, motion.q)
        unmodelled = self.pushed(motion, range(len(self.disturbed))) if self.disturbed else None
        return Point(
            motion.q,
            motion.multipliers,
            control,
            applied,
            self.h,
            self.delta,
            turns,
            self._viscous_below(),
            unmodelled,
            self.smooth,
            self.given if len(self.given) else None,
        )

    def pushed(self, motion: States, which: Sequence[int]) -> np.ndarray:
        """(velocities of the tree, K): some of the unmodelled forces at the inner nodes."""
        out = np.zeros((self.structure.tree_nv, self.K))
        np.add.at(out[:, 1:-1], [self.disturbed[k][1] for k in which], (self.lasting @ self.unmodelled(motion.parts[PROCESS])).T[list(which)])
        return out

    @cached_property
    def driving(self) -> list[int]:
        """The unmodelled forces that are unknown drives."""
        sought = unknown_joints(self.structure.model, [self.recording])
        return [k for k, (joint, _) in enumerate(self.disturbed) if joint in sought]

    def _viscous_below(self) -> np.ndarray | None:
        if self.deltas is None:
            return None
        return np.maximum(self.deltas[:, None], np.zeros((1, self.K - 1)) if self.turning is None else self.turning)

    def by_forces(self, row: int, W: Sparse) -> Sparse:
        """(samples, unknowns): from the derivative W with respect to the multiplier of a row at the inner nodes."""
        if not self.mask[row, 1:-1].all():
            raise CalibodyError(f"The force of {self.structure.row_owners[row]} follows from other loops and cannot be told apart; do not observe it.")
        return self.by_multipliers(row, W)

    def by_multipliers(self, row: int, W: Sparse) -> Sparse:
        """The same where the multiplier is one, and nothing where it is none."""
        parts = [(a, self.rows[a, 1:-1] == row) for a in range(self.kept)]
        if not self.choices:
            return next((self.layout.across_member(W, MULTIPLIERS, a) for a, here in parts if here.all()), sp.csr_matrix((W.shape[0], self.layout.size)))
        return sum(
            (self.layout.across_member(W @ sp.diags(here.astype(float)), MULTIPLIERS, a) for a, here in parts), sp.csr_matrix((W.shape[0], self.layout.size))
        )  # type: ignore[return-value]

    # -- equations -----------------------------------------------------------------------------------------------------------------

    def _combination(self, softness: np.ndarray) -> Sparse:
        """(kept K, nc K): constraint rows from g at all nodes, row by row of G: rigid `g_k`, compliant the implicit mean at inner nodes."""
        rolling = tuple(self.structure.rolling.tolist())
        return _combination(self.K, self.h, tuple(self.active.tolist()), tuple(self.soft.tolist()), tuple(softness[1].tolist()), rolling)

    def _softened(self, eps: np.ndarray) -> tuple[Sparse, Sparse]:
        """Where compliance times multiplier, and compliance times ringing, enter the constraint rows."""
        kept = np.flatnonzero(self.active)
        rows, columns, values, ring_rows, ring_columns, ring_values = [], [], [], [], [], []
        neighbour = np.clip(np.arange(self.K) - 1, 0, self.inner - 1)
        for a, r in enumerate(kept):
            if not self.soft[r]:
                continue
            rows.append(a * self.K + np.arange(self.K))
            columns.append(a + len(kept) * neighbour)
            values.append(np.full(self.K, eps[r]))
            place = int(np.flatnonzero(self.ringing == r)[0])
            ring_rows += [a * self.K, a * self.K + self.K - 1]
            ring_columns += [place, len(self.ringing) + place]
            ring_values += [-eps[r] * self.typical[r]] * 2
        shape = len(kept) * self.K
        ringing = sp.csr_matrix((ring_values, (ring_rows, ring_columns)), shape=(shape, 2 * len(self.ringing)))
        if not rows:
            return sp.csr_matrix((shape, len(kept) * self.inner)), ringing
        ij = np.concatenate(rows), np.concatenate(columns)
        return sp.csr_matrix((np.concatenate(values), ij), shape=(shape, len(kept) * self.inner)), ringing

    def _softened_by(self, motion: States, eps: np.ndarray) -> np.ndarray:
        """What compliances add to the constraint rows."""
        multiplied, ringing = self._softened(eps)
        rows = multiplied @ motion.multipliers[self.active, 1:-1].T.ravel()
        return rows + ringing @ motion.parts[RINGING].ravel() if len(self.ringing) else rows

    @property
    def flying(self) -> np.ndarray:
        """(K - 1,) which intervals the motion goes through: all, where nothing strikes (`flights.py`)."""
        return np.ones(self.K - 1, dtype=bool)

    @property
    def clock(self) -> np.ndarray:
        """The times of the mesh."""
        return self.times

    def near(self, times: np.ndarray) -> np.ndarray:
        """The nodes nearest to some times that have neighbours on both sides, and one more behind."""
        return np.clip(np.round((times - self.times[0]) / self.h).astype(int), 1, self.K - 3)

    @property
    def actual(self) -> np.ndarray:
        """The nodes that are the motion: all, where nothing strikes."""
        return np.arange(self.K)

    def impacts(self, model: Model, numbers: Numbers, motion: States) -> np.ndarray:
        """What equations impacts add to the others (`flights.py`)."""
        return np.zeros(0)

    def equations(self, model: Model, numbers: Numbers, result: Evaluation, motion: States) -> np.ndarray:
        """(balance of the inner nodes / h, constraint rows), one vector."""
        balance = (result.residual / self.h).T.ravel()
        if not self.kept:
            return balance
        constraints = self.constrain(numbers.softness, result.constraint)
        return np.concatenate([balance, constraints + self._softened_by(motion, numbers.softness[0]) if len(self.ringing) else constraints])

    def by_softness(self, numbers: Numbers, result: Evaluation, motion: States, d_eps: np.ndarray, d_tau: np.ndarray) -> np.ndarray:
        """Derivative of the constraint rows along changes of compliance and damping time (both (nc,))."""
        slope = self._combination(np.stack([d_eps, d_tau])) - self._combination(np.zeros_like(numbers.softness))
        return self._softened_by(motion, d_eps) + slope @ result.constraint.T.ravel()

    def constrain(self, softness: np.ndarray, constraint: np.ndarray) -> np.ndarray:
        """Constraint rows from values (nc, K) of g or of its derivative."""
        return self._combination(softness) @ constraint.T.ravel() if self.mixed else constraint[self.rows, np.arange(self.K)].ravel()

    def gradient_matrix(self, result: Evaluation) -> Sparse:
        """(nc K, tangents): G of every node; row k nc + r."""
        assert result.gradient is not None and result.gradient_rows is not None and result.gradient_columns is not None
        s, k = self.structure, np.arange(self.K)
        rows, columns = k[None, :] * s.nc + result.gradient_rows[:, None], k[None, :] * s.nv + result.gradient_columns[:, None]
        shape = s.nc * self.K, s.nv * self.K
        G = sp.csr_matrix((result.gradient.ravel(), (rows.ravel(), columns.ravel())), shape=shape)
        if result.before is None:
            return G
        after = rows[:, 1:].ravel(), (columns[:, 1:] - s.nv).ravel()
        return G + sp.csr_matrix((result.before[:, 1:].ravel(), after), shape=shape)

    def jacobian(self, model: Model, numbers: Numbers, frames: Frames, result: Evaluation, by_nodes: Sequence[Entries], more: Iterable[Term]) -> Sparse:
        """Derivative of the equations with respect to all state unknowns; `by_nodes` as of `balance_by_nodes`; `more` are terms of rows that are not made here."""
        terms = [*more, *self._by_nodes(by_nodes), *self._by_process(frames), *self._by_deviations(model, numbers, frames, result)]
        if self.kept:
            terms += self._by_constraints(numbers, result)
        return self.layout.jacobian(terms)

    def _by_nodes(self, three: Sequence[Entries]) -> list[Term]:
        """Of the balance, by the three nodes around each inner one."""
        nv = self.structure.nv
        return [Term(BALANCE, NODES, e.row, offset * nv + e.column, e.values, (nv, nv)) for offset, e in enumerate(three)]

    def balance_by_nodes(self, result: Evaluation) -> list[Entries]:
        """Derivatives of the balance of the inner nodes by the nodes before, at and after each."""
        assert result.minus is not None and result.zero is not None and result.plus is not None
        return [Entries(result.rows, result.columns, values / self.h) for values in (result.minus, result.zero, result.plus)]

    def _by_process(self, frames: Frames) -> list[Term]:
        """Of the balance, by the unmodelled forces."""
        s, part, out = self.structure, self.lasting.tocoo(), []
        joints, sds, coupled = [joint for joint, _ in self.disturbed], self.process_sd(), self.noise.coupled
        for i, (joint, velocity) in enumerate(self.disturbed):
            dofs, acts = assembly.acting(plan_of(s), frames, velocity)
            row, act = part.row[None, :] * s.nv + dofs[:, None], part.data * acts[:, 1 + part.row]
            for j in (i, *(joints.index(one) for one, other in coupled if other == joint)):
                draw = np.broadcast_to(part.col * len(joints) + j, row.shape)
                out.append(Term(BALANCE, PROCESS, row.ravel(), draw.ravel(), (-sds[j] * self.mixing[i, j] * act).ravel()))
        return out

    def _by_constraints(self, numbers: Numbers, result: Evaluation) -> list[Term]:
        """Of the balance by multipliers, and of the constraint rows."""
        nv = self.structure.nv
        gradient, acting = self.kept_gradient(result)
        terms = [Term(BALANCE, MULTIPLIERS, acting.column, acting.row, -acting.values[:, 1:-1], (nv, self.kept))]
        if not self.mixed:
            return [*terms, Term(CONSTRAINTS, NODES, gradient.row * self.K, gradient.column, gradient.values, (1, nv))]
        by_nodes = self._combination(numbers.softness) @ self.gradient_matrix(result)
        if not len(self.ringing):
            return [*terms, term(CONSTRAINTS, NODES, by_nodes)]
        multiplied, ringing = self._softened(numbers.softness[0])
        return [*terms, term(CONSTRAINTS, NODES, by_nodes), term(CONSTRAINTS, MULTIPLIERS, multiplied), term(CONSTRAINTS, RINGING, ringing)]

    def kept_gradient(self, result: Evaluation) -> tuple[Entries, Entries]:
        """G of the kept rows at all nodes, and what their multipliers act through."""
        assert result.acting is not None and result.gradient is not None and result.gradient_rows is not None and result.gradient_columns is not None
        if self.choices:
            gradient = self._placed(result.gradient_rows, result.gradient_columns, result.gradient)
            return gradient, gradient if result.apart is None else self._placed(result.gradient_rows, result.gradient_columns, result.apart)
        keep = self.active[result.gradient_rows]
        places = (np.cumsum(self.active) - 1)[result.gradient_rows[keep]], result.gradient_columns[keep]
        gradient = Entries(*places, result.gradient[keep])
        return gradient, gradient if result.apart is None else Entries(*places, result.apart[keep])

    def _placed(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> Entries:
        """Values (entries, K) of constraint rows as those of the places that the rows have at every node."""
        found: dict[tuple[int, int], np.ndarray] = {}
        for row, column, value in zip(rows.tolist(), columns.tolist(), values, strict=True):
            for a in np.flatnonzero((self.rows == row).any(axis=1)).tolist():
                found.setdefault((a, column), np.zeros(self.K))[self.rows[a] == row] = value[self.rows[a] == row]
        places = np.array(list(found)).T
        return Entries(places[0], places[1], np.array(list(found.values())))

    def _by_deviations(self, model: Model, numbers: Numbers, frames: Frames, result: Evaluation) -> list[Term]:
        """Of the balance, by the samples of the noisy drives."""
        out = []
        for deviation in self.uncertain:
            for channel in deviation.gains:
                target, row, delay = self.driven(model, channel)
                if target == "control":
                    assert result.control is not None
                    pushed, gain = self._pushed_by(numbers, frames, row), result.control[row] / self.h
                else:
                    pushed, gain = self._pushed(numbers, frames, row), np.full(self.K - 1, -0.5)
                out.append(term(BALANCE, drive_block(deviation.name), pushed @ sp.diags(gain) @ deviation.weights(channel, self.times, delay)))
        return out

    def _pushed(self, numbers: Numbers, frames: Frames, row: int) -> Sparse:
        """(balance rows, K - 1): where one of the applied forces, at both nodes of an interval, enters the balance."""
        return self._entering(*assembly.driving(plan_of(self.structure), numbers, frames, row))

    def _entering(self, dofs: np.ndarray, left: np.ndarray, right: np.ndarray) -> Sparse:
        """The same for a force that enters the rows of some dofs, by `left` and `right` (dofs, K - 1) of it at the ends of an interval."""
        s, m = self.structure, np.arange(self.inner)
        rows = np.broadcast_to(m * s.nv + dofs[:, None], (len(dofs), len(m)))
        values = np.concatenate([right[:, :-1], left[:, 1:]])  # of the interval before an inner node, and of that after it
        columns = np.repeat(np.stack([m, m + 1]), len(dofs), axis=0)
        return sp.csr_matrix((values.ravel(), (np.tile(rows, (2, 1)).ravel(), columns.ravel())), shape=(self.inner * s.nv, self.K - 1))

    def _pushed_by(self, numbers: Numbers, frames: Frames, actuator: int) -> Sparse:
        """The same for a force on what an actuator acts on."""
        plan = plan_of(self.structure)
        dofs, acts = assembly.rows_of(plan, numbers, frames, int(plan.actuator_coordinate[actuator]))
        return self._entering(dofs, acts[:, :-1], acts[:, 1:])

    def by_drives(self, model: Model, sampled: observe.Sampled) -> list[tuple[str, Sparse]]:
        """The derivative of an observed force, or of a rate of the start, with respect to the deviations of noisy drives, by their blocks."""
        out = []
        for deviation in self.uncertain:
            for channel in deviation.gains:
                target, row, delay = self.driven(model, channel)
                by = (sampled.by_control if target == "control" else sampled.by_applied).get(row)
                if by is not None:
                    out.append((drive_block(deviation.name), by @ deviation.weights(channel, self.times, delay)))
        return out

    def by_control(self, numbers: Numbers, frames: Frames, result: Evaluation, actuator: int, change: np.ndarray) -> np.ndarray:
        """(balance rows,): their change with a change (K - 1) of an actuator's mean control."""
        assert result.control is not None
        return self._pushed_by(numbers, frames, actuator) @ (result.control[actuator] / self.h * change)


@lru_cache(maxsize=64)
def _combination(K: int, h: float, active: tuple[bool, ...], soft: tuple[bool, ...], tau: tuple[float, ...], rolling: tuple[bool, ...]) -> Sparse:
    """See `Run._combination`; kept, because only unknown damping times change it. Rows on velocities have none at the first node."""
    nc, pieces = len(active), []
    for r in np.flatnonzero(active):
        at_nodes = sp.csr_matrix((np.ones(K), (np.arange(K), np.arange(K) * nc + r)), shape=(K, nc * K))
        pieces.append(_implicit_mean(K, h, tau[r]) @ at_nodes if soft[r] else at_nodes[1:] if rolling[r] else at_nodes)
    return sp.vstack(pieces, format="csr") if pieces else sp.csr_matrix((0, nc * K))


def _implicit_mean(K: int, h: float, tau: float) -> Sparse:
    """(K, K): the implicit mean at inner nodes, the value itself at both ends."""
    t = tau / (2.0 * h)
    inner = sp.diags([0.25 - t, 0.5, 0.25 + t], [0, 1, 2], shape=(K - 2, K))  # type: ignore[arg-type]
    ends = sp.csr_matrix(([1.0, 1.0], ([0, 1], [0, K - 1])), shape=(2, K))
    return sp.vstack([ends[:1], inner, ends[1:]], format="csr")


def carried(run: Run, to: Run, motion: States) -> States:
    """A motion on another mesh of the same recording, or with other noise: the same forces in other units."""
    return run.layout.carried(motion, to.layout)
