"""One recording on a mesh of nodes: its unknowns, its data, its drives and its equations.

The unknowns of a run are, one after the other,

    the nodes' tangents (nv K),  multipliers of the inner nodes (kept rows x (K - 2)),  noise (all in units of its standard deviation):
        unmodelled joint forces w_k = sd z_k of the inner nodes (process noise),
        ringing of compliant joints at both ends,
        deviations of noisy drives, one per sample

Every noise unknown is a residual of its own (`z = 0 +- 1`), so the equations hold exactly at a solution and a noise that goes to zero needs
no other formulas: the problem becomes that without noise.

A compliant constraint (DESIGN section 3) gives at inner nodes `(g_(k-1) + 2 g_k + g_(k+1))/4 + tau (g_(k+1) - g_(k-1))/(2h) + eps lambda_k = 0`,
which leaves its motion at both ends open. There its deflection is that of the neighbouring force, give or take one typical force L:
`g_0 + eps (lambda_1 - L s) = 0`, `s = 0 +- 1`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.observe import Data
from calibody.mechanics import assembly, channels
from calibody.mechanics.assembly import Frames
from calibody.mechanics.kinematics import difference, retract
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import Numbers, Structure
from calibody.model import Model
from calibody.recording.recording import Drive, Observation, Recording
from calibody.solve.condensed import Sparse


@dataclass(frozen=True)
class States:
    """The unknowns of one run: coordinates (nq, K), multipliers (nc, K; zero where they are not unknowns), noise (flat, in units of sd)."""

    q: np.ndarray
    multipliers: np.ndarray
    noise: np.ndarray
    sides: np.ndarray | None = None
    """(scalar coordinates, K - 1): the piece of its law that dry friction is on in every interval, -1, 0 (viscous) or 1; None: as the rates say."""


class Noise:
    """Standard deviations that a fit may change: of the channels, and of the unmodelled joint forces.

    `density` [N^2 s, (N m)^2 s] of the force on each joint, shared by all runs: on a mesh of step h, `w_k` has the variance density/h.
    """

    def __init__(self, measured: dict[str, float], missing: frozenset[str], density: dict[str, float]) -> None:
        self.measured, self.missing, self.density = measured, missing, density


class Nodes:
    """A recording on equidistant nodes: its data and its drives."""

    def __init__(self, structure: Structure, recording: Recording, times: np.ndarray, noise: Noise) -> None:
        self.structure, self.recording, self.times, self.noise = structure, recording, times, noise
        self.K = len(times)
        self.h = (times[-1] - times[0]) / (self.K - 1)
        self.data = [self._data(o) for o in recording.observations]
        self.samples = sum(len(d.y) for d in self.data)
        self.weights = {d.channel.path: np.ones(len(d.y)) for d in self.data}
        """Of the samples, by channel: 1, or less for outliers of a robust fit."""

    def _data(self, observation: Observation) -> Data:
        channel = observe.check(self.structure.model, observation.channel, self.recording.channels)
        if observe.is_force(channel):
            observe.multiplier(self.structure, channel)
        rotation = observe.measured_rotation(self.recording, channel)
        slack = 1e-9 * max(1.0, abs(self.times[-1]))
        good = np.isfinite(observation.values) & (observation.times >= self.times[0] - slack) & (observation.times <= self.times[-1] + slack)
        if rotation is not None:
            good &= np.isfinite(rotation[0, 0])
        good[good] = self.wanted(observation.times[good])
        times = observation.times[good]
        return Data(channel, observation.values[good], times, *self.sampled(channel, times), None if rotation is None else rotation[..., good])

    def wanted(self, times: np.ndarray) -> np.ndarray:
        """Which samples are used."""
        return np.ones(len(times), dtype=bool)

    def interpolation(self, times: np.ndarray) -> Sparse:
        """(samples, K): from the nodes to samples."""
        return observe.interpolation(self.times, times)

    def sampled(self, channel: channels.Channel, times: np.ndarray) -> tuple[Sparse, Sparse]:
        """(samples, K): from a channel at the nodes (for a rate, from its coordinate) to samples, and its derivative with respect to time."""
        step, inside = 1e-3 * self.h, np.clip(times, self.times[0], self.times[-1])
        between = partial(observe.interpolation, self.times[1:-1]) if observe.is_force(channel) else self.interpolation
        W, ahead, behind = (between(inside + s) for s in (0.0, step, -step))
        dW = (ahead - behind) / (2.0 * step)
        if channel.quantity == "rate":
            W, dW = self.sampled_rates(channel, inside, W, dW)
        return sp.csr_matrix(W), sp.csr_matrix(dW)

    def sampled_rates(self, channel: channels.Channel, times: np.ndarray, W: Sparse, dW: Sparse) -> tuple[Sparse, Sparse]:
        """W and its derivative for a rate at `times`, from those for its coordinate; of angular rates from the turns of the K - 1 intervals."""
        R = observe.mean_matrix(self.K) / self.h if observe.turns(channel) else observe.rate_matrix(self.K, self.h)
        return W @ R, dW @ R

    def weight(self, d: Data) -> np.ndarray:
        """What a deviation of each sample is multiplied by: its weight over the channel's sd."""
        return self.weights[d.channel.path] / self.noise.measured[d.channel.path]

    @cached_property
    def uncertain(self) -> tuple[Drive, ...]:
        """The noisy drives."""
        return tuple(d for d in self.recording.drives if d.sd is not None)

    def drives(self, model: Model, deviations: list[np.ndarray] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean control (actuators, K - 1) and applied joint forces (tree velocities, K - 1), with the actuators' delays."""
        control = np.zeros((len(model.actuators), self.K - 1))
        applied = np.zeros((self.structure.tree_nv, self.K - 1))
        for drive in self.recording.drives:
            target, row, delay = self._driven(model, drive)
            signal, limits = drive.signal, model.actuators[row].control_range if target == "control" else None
            if limits is not None:
                signal = replace(signal, values=np.clip(signal.values, *limits))
            means = signal.means(self.times, delay)
            if deviations is not None and drive.sd is not None:
                means = means + drive.sd * (drive.signal.weights(self.times, delay) @ deviations[self.uncertain.index(drive)])
            (control if target == "control" else applied)[row] = means
        return control, applied

    def _driven(self, model: Model, drive: Drive) -> tuple[str, int, float]:
        """Which row of control or applied forces a drive fills, and how late."""
        channel, s = channels.drivable(model, drive.channel), self.structure
        if channel.kind == "actuator":
            k = [a.name for a in model.actuators].index(channel.name)
            return "control", k, model.actuators[k].delay
        return "applied", int(plan_of(s).coordinate_dof[s.coordinate_index[channel.name]]), 0.0


class Run(Nodes):
    """One recording on a mesh: nodes, data, drives; and the sparsity of its equations."""

    def __init__(self, structure: Structure, recording: Recording, h: float, delta: float, noise: Noise) -> None:
        duration = recording.end - recording.start
        K = max(4, round(duration / h)) + 1
        super().__init__(structure, recording, recording.start + duration / (K - 1) * np.arange(K), noise)
        self.h = duration / (K - 1)
        self.delta = delta
        self.deltas: np.ndarray | None = None
        """Rates below which dry friction is viscous, one per scalar coordinate; None: `delta` for all."""
        self.active = np.ones(structure.nc, dtype=bool)
        """Constraint rows that are kept (set by the start)."""
        self.soft = Numbers.of(structure).softness[0] > 0.0
        self.typical = np.ones(structure.nc)
        """The typical force L of each row (set by the start)."""
        self._combined: tuple[bytes, Sparse] | None = None

    # -- sizes -----------------------------------------------------------------------------------------------------------------

    @property
    def inner(self) -> int:
        return self.K - 2

    @property
    def nq(self) -> int:
        return self.structure.nv * self.K

    @cached_property
    def disturbed(self) -> tuple[tuple[str, int], ...]:
        """(joint, velocity of the tree) of every unmodelled force, joints in the order of their noise."""
        s = self.structure
        out = []
        for joint in self.noise.density:
            out += [(joint, c.dof) for c in s.scalar_coordinates if c.joint == joint]
            out += [(joint, c.dof + axis) for c in s.ball_coordinates if c.joint == joint for axis in range(3)]
        return tuple(out)

    def process_sd(self) -> np.ndarray:
        """Standard deviation of every unmodelled force on this mesh."""
        return np.sqrt(np.array([self.noise.density[joint] for joint, _ in self.disturbed]) / self.h)

    @property
    def ringing(self) -> np.ndarray:
        """The kept compliant rows."""
        return np.flatnonzero(self.active & self.soft)

    @property
    def noises(self) -> tuple[int, int, int]:
        """How many unknowns of each kind of noise."""
        return len(self.disturbed) * self.inner, 2 * len(self.ringing), sum(len(d.signal.times) for d in self.uncertain)

    @property
    def quiet(self) -> int:
        """Number of unknowns before the noise."""
        return self.nq + int(self.active.sum()) * self.inner

    @property
    def size(self) -> int:
        """Number of state unknowns."""
        return self.quiet + sum(self.noises)

    def parts(self, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Process noise (forces, inner nodes), ringing (2, rows), deviations per noisy drive; all in units of sd."""
        process, ringing, _ = self.noises
        rest, deviations = noise[process + ringing :], []
        for d in self.uncertain:
            deviations.append(rest[: len(d.signal.times)])
            rest = rest[len(d.signal.times) :]
        return noise[:process].reshape(self.inner, len(self.disturbed)).T, noise[process : process + ringing].reshape(2, -1), deviations

    @property
    def when(self) -> tuple[np.ndarray, np.ndarray]:
        """In units of nodes: when every state unknown and every equation comes."""
        inner, kept = np.arange(1, self.K - 1), int(self.active.sum())
        samples = [(d.signal.times - self.times[0]) / self.h for d in self.uncertain]
        states = [np.repeat(np.arange(self.K), self.structure.nv), np.repeat(inner + 0.1, kept), np.repeat(inner + 0.1, len(self.disturbed))]
        states += [np.repeat([0.0, self.K - 1.0], len(self.ringing)), *(np.clip(t, 0.0, self.K - 1.0) + 0.5 for t in samples)]
        return np.concatenate(states), np.concatenate([np.repeat(inner + 0.2, self.structure.nv), np.tile(np.arange(self.K) + 0.3, kept)])

    # -- points --------------------------------------------------------------------------------------------------------------------

    def point(self, model: Model, numbers: Numbers, motion: States) -> Point:
        z, _, deviations = self.parts(motion.noise)
        control, applied = self.drives(model, deviations)
        turns = None if self.structure.coordinates == "tree" else assembly.turns_along(self.structure, numbers, motion.q)
        unmodelled = None
        if len(self.disturbed):
            unmodelled = np.zeros((self.structure.tree_nv, self.K))
            unmodelled[[dof for _, dof in self.disturbed], 1:-1] = self.process_sd()[:, None] * z
        return Point(motion.q, motion.multipliers, control, applied, self.h, self.delta, turns, self.deltas, unmodelled, motion.sides)

    def move(self, motion: States, d: np.ndarray) -> States:
        s = self.structure
        q = retract(s, motion.q, d[: self.nq].reshape(self.K, s.nv).T)
        multipliers = motion.multipliers.copy()
        multipliers[self.active, 1:-1] += d[self.nq : self.quiet].reshape(self.inner, -1).T
        return States(q, multipliers, motion.noise + d[self.quiet :], motion.sides)

    def sided(self, motion: States, frames: Frames) -> States:
        """The pieces of the friction law after a step: a joint that slips and turns round is taken to stick first, so that its friction is not
        thrown from one side to the other; one that sticks slips where its rate leaves the viscous piece. Without pieces yet: as the rates say."""
        _, rho = assembly.interval_rates(frames, self.h)
        delta = (np.full(len(rho), self.delta) if self.deltas is None else self.deltas)[:, None]
        said = np.where(np.abs(rho) < delta, 0, np.sign(rho)).astype(np.int8)
        if motion.sides is None:
            return replace(motion, sides=said)
        new = np.where(said * motion.sides < 0, 0, said)
        around = np.pad(new, ((0, 0), (1, 1)))
        alone = (new == 0) & (around[:, :-2] == motion.sides) & (around[:, 2:] == motion.sides)  # between two that slip as it did: it goes on
        return replace(motion, sides=np.where(alone, motion.sides, new).astype(np.int8))

    def by_forces(self, row: int, W: Sparse) -> Sparse:
        """(samples, unknowns after the tangents): from the derivative W with respect to the multiplier of a row at the inner nodes."""
        if not self.active[row]:
            raise CalibodyError(f"The force of {self.structure.row_owners[row]} follows from other loops and cannot be told apart; do not observe it.")
        kept, place = int(self.active.sum()), int(self.active[:row].sum())
        m = np.arange(self.inner)
        return W @ sp.csr_matrix((np.ones(self.inner), (m, m * kept + place)), shape=(self.inner, self.size - self.nq))

    # -- equations -----------------------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Number of equations: balance of the inner nodes, K rows per kept constraint."""
        return self.structure.nv * self.inner + int(self.active.sum()) * self.K

    def _combination(self, softness: np.ndarray) -> Sparse:
        """(kept K, nc K): constraint rows from g at all nodes, row by row of G: rigid `g_k`, compliant the implicit mean at inner nodes.

        Kept from the last call: only unknown damping times change it.
        """
        key = self.active.tobytes() + softness[1].tobytes()
        if self._combined is None or self._combined[0] != key:
            self._combined = key, self._combine(softness)
        return self._combined[1]

    def _combine(self, softness: np.ndarray) -> Sparse:
        K, nc = self.K, self.structure.nc
        pieces = []
        for r in np.flatnonzero(self.active):
            at_nodes = sp.csr_matrix((np.ones(K), (np.arange(K), np.arange(K) * nc + r)), shape=(K, nc * K))
            pieces.append(self._mean(softness[1][r]) @ at_nodes if self.soft[r] else at_nodes)
        return sp.vstack(pieces, format="csr") if pieces else sp.csr_matrix((0, nc * K))

    def _mean(self, tau: float) -> Sparse:
        """(K, K): the implicit mean at inner nodes, the value itself at both ends."""
        t = tau / (2.0 * self.h)
        inner = sp.diags([0.25 - t, 0.5, 0.25 + t], [0, 1, 2], shape=(self.inner, self.K))  # type: ignore[arg-type]
        ends = sp.csr_matrix(([1.0, 1.0], ([0, 1], [0, self.K - 1])), shape=(2, self.K))
        return sp.vstack([ends[:1], inner, ends[1:]], format="csr")

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

    def equations(self, numbers: Numbers, result: Evaluation, motion: States) -> np.ndarray:
        """(balance of the inner nodes / h, constraint rows), one vector."""
        balance = (result.residual / self.h).T.ravel()
        if not self.active.any():
            return balance
        multiplied, ringing = self._softened(numbers.softness[0])
        rows = self._combination(numbers.softness) @ result.constraint.T.ravel() + multiplied @ motion.multipliers[self.active, 1:-1].T.ravel()
        if len(self.ringing):
            rows = rows + ringing @ self.parts(motion.noise)[1].ravel()
        return np.concatenate([balance, rows])

    def by_softness(self, numbers: Numbers, result: Evaluation, motion: States, d_eps: np.ndarray, d_tau: np.ndarray) -> np.ndarray:
        """Derivative of the constraint rows along changes of compliance and damping time (both (nc,))."""
        multiplied, ringing = self._softened(d_eps)
        out = multiplied @ motion.multipliers[self.active, 1:-1].T.ravel() + ringing @ self.parts(motion.noise)[1].ravel()
        slope = self._combination(np.stack([d_eps, d_tau])) - self._combination(np.zeros_like(numbers.softness))
        return out + slope @ result.constraint.T.ravel()

    def constrain(self, softness: np.ndarray, constraint: np.ndarray) -> np.ndarray:
        """Constraint rows from values (nc, K) of g or of its derivative."""
        return self._combination(softness) @ constraint.T.ravel() if self.active.any() else np.zeros(0)

    def gradient_matrix(self, result: Evaluation) -> Sparse:
        """(nc K, tangents): G of every node; row k nc + r."""
        assert result.gradient is not None and result.gradient_rows is not None and result.gradient_columns is not None
        s, k = self.structure, np.arange(self.K)
        rows, columns = k[None, :] * s.nc + result.gradient_rows[:, None], k[None, :] * s.nv + result.gradient_columns[:, None]
        return sp.csr_matrix((result.gradient.ravel(), (rows.ravel(), columns.ravel())), shape=(s.nc * self.K, self.nq))

    def jacobian(self, model: Model, numbers: Numbers, frames: Frames, result: Evaluation) -> Sparse:
        """Derivative of the equations with respect to all state unknowns."""
        s, M = self.structure, self.inner
        assert result.minus is not None and result.zero is not None and result.plus is not None
        m = np.arange(M)
        row = m[None, :] * s.nv + result.rows[:, None]
        parts = [
            (row, (m + offset)[None, :] * s.nv + result.columns[:, None], values / self.h)
            for offset, values in enumerate((result.minus, result.zero, result.plus))
        ]
        kept = int(self.active.sum())
        if kept:
            assert result.gradient is not None and result.gradient_rows is not None and result.gradient_columns is not None
            place = np.cumsum(self.active) - 1
            keep = self.active[result.gradient_rows]
            gr, gc, G = result.gradient_rows[keep], result.gradient_columns[keep], result.gradient[keep]
            parts.append((m[None, :] * s.nv + gc[:, None], self.nq + m[None, :] * kept + place[gr][:, None], -G[:, 1:-1]))
        for j, ((_, velocity), sd) in enumerate(zip(self.disturbed, self.process_sd(), strict=True)):
            dofs, acts = assembly.acting(plan_of(s), frames, velocity)
            column = np.broadcast_to(self.quiet + m * len(self.disturbed) + j, (len(dofs), M))
            parts.append((m[None, :] * s.nv + dofs[:, None], column, -sd * acts[:, 1:-1]))
        data, i, j = (np.concatenate([p[k].ravel() for p in parts]) for k in (2, 0, 1))
        balance = sp.csr_matrix((data, (i, j)), shape=(M * s.nv, self.size))
        if self.uncertain:
            first = self.size - self.noises[2]
            balance = balance + sp.hstack([sp.csr_matrix((M * s.nv, first)), self._by_deviations(model, frames, result)], format="csr")
        if not kept:
            return balance
        multiplied, ringing = self._softened(numbers.softness[0])
        process, _, drives = self.noises
        blank = [sp.csr_matrix((kept * self.K, n)) for n in (process, drives)]
        blocks = [self._combination(numbers.softness) @ self.gradient_matrix(result), multiplied, blank[0], ringing, blank[1]]
        return sp.vstack([balance, sp.hstack(blocks)], format="csr")

    def _by_deviations(self, model: Model, frames: Frames, result: Evaluation) -> Sparse:
        """(balance rows, samples of the noisy drives)."""
        s, m = self.structure, np.arange(self.inner)
        both = sp.diags([1.0, 1.0], [0, 1], shape=(self.inner, self.K - 1))  # type: ignore[arg-type]
        out = []
        for drive in self.uncertain:
            target, row, delay = self._driven(model, drive)
            if target == "control":
                assert result.control is not None
                velocity, gain = int(plan_of(s).coordinate_dof[plan_of(s).actuator_coordinate[row]]), float(result.control[row, 0]) / self.h
            else:
                velocity, gain = row, -0.5
            dofs, acts = assembly.acting(plan_of(s), frames, velocity)
            rows, columns = m[None, :] * s.nv + dofs[:, None], np.broadcast_to(m, (len(dofs), len(m)))
            A = sp.csr_matrix((acts[:, 1:-1].ravel(), (rows.ravel(), columns.ravel())), shape=(self.inner * s.nv, self.inner))
            assert drive.sd is not None
            out.append(A @ both @ drive.signal.weights(self.times, delay) * (gain * drive.sd))
        return sp.hstack(out, format="csr")


def still(run: Run, q: np.ndarray) -> States:
    """The same coordinates at every node, no forces, no noise."""
    return States(np.repeat(q[:, None], run.K, axis=1), np.zeros((run.structure.nc, run.K)), np.zeros(sum(run.noises)))


def refined(run: Run, finer: Run, motion: States) -> States:
    """A motion on a finer mesh: along the tangent between the two nodes around each new one; unmodelled forces likewise."""
    s = run.structure
    position = np.clip((finer.times - run.times[0]) / run.h, 0.0, run.K - 1)
    k = np.minimum(position.astype(np.int64), run.K - 2)
    part = position - k
    step = difference(s, motion.q[:, k + 1], motion.q[:, k])
    q = retract(s, motion.q[:, k], part * step)
    lam = motion.multipliers[:, k] * (1.0 - part) + motion.multipliers[:, k + 1] * part
    z, ringing, deviations = run.parts(motion.noise)
    position = np.clip((finer.times[1:-1] - run.times[1]) / run.h, 0.0, run.inner - 1)
    force = np.array([np.interp(position, np.arange(run.inner), row) for row in z * run.process_sd()[:, None]]).reshape(len(run.disturbed), finer.inner)
    noise = np.concatenate([(force / finer.process_sd()[:, None]).T.ravel(), ringing.ravel(), *deviations])
    middle = np.clip(((finer.times[:-1] + 0.5 * finer.h - run.times[0]) / run.h).astype(np.int64), 0, run.K - 2)
    return States(q, lam, noise, None if motion.sides is None else motion.sides[:, middle])


def rescaled(run: Run, motion: States, before: np.ndarray) -> States:
    """The same forces after the standard deviations of the process noise changed from `before`."""
    z, ringing, deviations = run.parts(motion.noise)
    return replace(motion, noise=np.concatenate([(z * (before / run.process_sd())[:, None]).T.ravel(), ringing.ravel(), *deviations]))
