"""Estimation by transcription: all nodes of the motion, the constraint forces and the parameters as unknowns of one problem.

    minimise    1/2 sum |(y - o(q, theta))/sd|^2 + 1/2 |(theta - prior)/sd|^2
    subject to  the discrete equations of the variational scheme at every inner node,  g(q_k) = 0 at every node,  bounds on theta

A run is transcribed on its own mesh of nodes (`Run`); several runs share theta (`Transcription`). Equations are in units of force (divided by
h), so that their residual says how many newtons or newton-metres are missing. With the states eliminated first (`solve/condensed.py`) the
convergence is that of a multiple shooting whose windows are single steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.unknowns import Entry, values_at
from calibody.mechanics import assembly, channels, host
from calibody.mechanics.assembly import Frames
from calibody.mechanics.equations import evaluate
from calibody.mechanics.kinematics import difference, retract
from calibody.mechanics.parameters import columns
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import Numbers, Structure
from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.condensed import Linearisation, Sparse
from calibody.solve.gauss_newton import AbstractProblem


@dataclass(frozen=True)
class Motion:
    """The state unknowns of one run: coordinates (nq, K) and multipliers (nc, K; zero where they are not unknowns)."""

    q: np.ndarray
    multipliers: np.ndarray


@dataclass(frozen=True)
class Data:
    """One observed channel on the mesh of a run."""

    channel: channels.Channel
    y: np.ndarray
    times: np.ndarray
    sd: float
    W: Sparse
    """(samples, K) from the channel at the nodes to the samples."""
    dW: Sparse
    """Its derivative with respect to time: minus the derivative with respect to a delay."""


class Run:
    """One recording on a mesh: nodes, data, drives; and the sparsity of its equations."""

    def __init__(self, structure: Structure, recording: Recording, h: float, delta: float, sds: dict[str, float]) -> None:
        self.structure, self.recording, self.delta = structure, recording, delta
        duration = recording.end - recording.start
        self.K = max(4, round(duration / h)) + 1
        self.h = duration / (self.K - 1)
        self.times = recording.start + self.h * np.arange(self.K)
        self.data = [self._data(o, sds[o.channel]) for o in recording.observations]
        self.samples = sum(len(d.y) for d in self.data)

    def _data(self, observation, sd: float) -> Data:
        channel = observe.check(self.structure.model, observation.channel)
        slack = 1e-9 * max(1.0, abs(self.times[-1]))
        good = np.isfinite(observation.values) & (observation.times >= self.times[0] - slack) & (observation.times <= self.times[-1] + slack)
        times = observation.times[good]
        W = observe.interpolation(self.times, times)
        step = 1e-3 * self.h  # the cubic's derivative in time, for delays
        dW = (observe.interpolation(self.times, times + step) - observe.interpolation(self.times, times - step)) / (2.0 * step)
        if channel.quantity == "rate":
            R = observe.rate_matrix(self.K, self.h)
            W, dW = W @ R, dW @ R
        return Data(channel, observation.values[good], times, sd, sp.csr_matrix(W), sp.csr_matrix(dW))

    # -- sizes -----------------------------------------------------------------------------------------------------------------

    @cached_property
    def active(self) -> np.ndarray:
        """Constraint rows that are kept (set by the start)."""
        return np.ones(self.structure.nc, dtype=bool)

    @property
    def nq(self) -> int:
        return self.structure.nv * self.K

    @property
    def size(self) -> int:
        """Number of state unknowns: tangents of all nodes, multipliers of the inner ones."""
        return self.nq + int(self.active.sum()) * (self.K - 2)

    # -- drives ------------------------------------------------------------------------------------------------------------------

    def drives(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Mean control (actuators, K - 1) and applied joint forces (tree velocities, K - 1), with the actuators' delays."""
        s = self.structure
        control = np.zeros((len(model.actuators), self.K - 1))
        applied = np.zeros((s.tree_nv, self.K - 1))
        for drive in self.recording.drives:
            channel = channels.resolve(model, drive.channel)
            if channel.kind == "actuator" and not channel.quantity:
                k = [a.name for a in model.actuators].index(channel.name)
                control[k] = drive.signal.means(self.times, model.actuators[k].delay)
            elif channel.kind == "joint" and channel.quantity == "force" and not channel.components:
                applied[plan_of(s).coordinate_dof[s.coordinate_index[channel.name]]] = drive.signal.means(self.times)
            else:
                raise CalibodyError(f'"{drive.channel}" cannot be driven; drive actuator.NAME or joint.NAME.force of a hinge or slide.')
        return control, applied

    def point(self, model: Model, numbers: Numbers, motion: Motion) -> Point:
        control, applied = self.drives(model)
        turns = None if self.structure.coordinates == "tree" else assembly.turns_along(self.structure, numbers, motion.q)
        return Point(motion.q, motion.multipliers, control, applied, self.h, self.delta, turns)

    def move(self, motion: Motion, d: np.ndarray) -> Motion:
        s = self.structure
        q = retract(s, motion.q, d[: self.nq].reshape(self.K, s.nv).T)
        multipliers = motion.multipliers.copy()
        multipliers[self.active, 1:-1] += d[self.nq :].reshape(self.K - 2, -1).T
        return Motion(q, multipliers)

    # -- equations -----------------------------------------------------------------------------------------------------------------

    @cached_property
    def _combination(self) -> tuple[Sparse, np.ndarray]:
        """Rows of constraints from g at all nodes (rigid: g_k at every node; compliant: the implicit mean at the inner nodes), and their softness."""
        eps, tau = Numbers.of(self.structure).softness
        K = self.K
        blocks, soft = [], []
        for r in np.flatnonzero(self.active):
            inner = np.arange(1, K - 1)
            if eps[r] > 0.0:
                t = tau[r] / (2.0 * self.h)
                D = sp.diags([0.25 - t, 0.5, 0.25 + t], [0, 1, 2], shape=(K - 2, K))  # type: ignore[arg-type]
                blocks.append((r, D, inner))
                soft.append(np.full(K - 2, eps[r]))
            else:
                blocks.append((r, sp.eye(K), np.arange(K)))
                soft.append(np.zeros(K))
        nc = self.structure.nc
        pieces = []
        for r, D, _ in blocks:
            E = sp.csr_matrix((np.ones(K), (np.arange(K), np.arange(K) * nc + r)), shape=(K, nc * K))
            pieces.append(D @ E)
        matrix = sp.vstack(pieces, format="csr") if pieces else sp.csr_matrix((0, nc * K))
        return matrix, np.concatenate(soft) if soft else np.zeros(0)

    @cached_property
    def _softness_columns(self) -> Sparse:
        """Where compliance times multiplier enters the constraint rows: (rows, multiplier unknowns)."""
        _, soft = self._combination
        eps = Numbers.of(self.structure).softness[0]
        rows, columns_, values, start = [], [], [], 0
        kept = np.flatnonzero(self.active)
        for a, r in enumerate(kept):
            length = self.K - 2 if eps[r] > 0.0 else self.K
            if eps[r] > 0.0:
                rows += list(range(start, start + length))
                columns_ += list(a + len(kept) * np.arange(self.K - 2))
                values += [eps[r]] * length
            start += length
        return sp.csr_matrix((values, (rows, columns_)), shape=(len(soft), len(kept) * (self.K - 2)))

    def constraint_values(self, result: Evaluation, motion: Motion) -> np.ndarray:
        """(inner equations / h, constraint rows), one vector."""
        combination, _ = self._combination
        rows = combination @ result.constraint.T.ravel() if self.structure.nc else np.zeros(0)
        if self.active.any():
            rows = rows + self._softness_columns @ motion.multipliers[self.active, 1:-1].T.ravel()
        return np.concatenate([(result.residual / self.h).T.ravel(), rows])

    def gradient_matrix(self, result: Evaluation) -> Sparse:
        """(nc K, tangents): G of every node; row k nc + r."""
        assert result.gradient is not None and result.gradient_rows is not None and result.gradient_columns is not None
        s, k = self.structure, np.arange(self.K)
        rows, columns_ = k[None, :] * s.nc + result.gradient_rows[:, None], k[None, :] * s.nv + result.gradient_columns[:, None]
        return sp.csr_matrix((result.gradient.ravel(), (rows.ravel(), columns_.ravel())), shape=(s.nc * self.K, self.nq))

    def constraint_jacobian(self, result: Evaluation) -> Sparse:
        s, M = self.structure, self.K - 2
        assert result.minus is not None and result.zero is not None and result.plus is not None
        m = np.arange(M)
        row = m[None, :] * s.nv + result.rows[:, None]
        parts_r, parts_c, parts_v = [], [], []
        for offset, values in enumerate((result.minus, result.zero, result.plus)):
            parts_r.append(row)
            parts_c.append((m + offset)[None, :] * s.nv + result.columns[:, None])
            parts_v.append(values / self.h)
        kept = int(self.active.sum())
        if not kept:
            data, ij = np.concatenate([v.ravel() for v in parts_v]), tuple(np.concatenate([p.ravel() for p in q]) for q in (parts_r, parts_c))
            return sp.csr_matrix((data, ij), shape=(M * s.nv, self.size))
        assert result.gradient is not None and result.gradient_rows is not None and result.gradient_columns is not None
        place = np.cumsum(self.active) - 1
        keep = self.active[result.gradient_rows]
        gr, gc, G = result.gradient_rows[keep], result.gradient_columns[keep], result.gradient[keep]
        parts_r.append(m[None, :] * s.nv + gc[:, None])
        parts_c.append(self.nq + m[None, :] * kept + place[gr][:, None])
        parts_v.append(-G[:, 1:-1])
        data, ij = np.concatenate([v.ravel() for v in parts_v]), tuple(np.concatenate([p.ravel() for p in q]) for q in (parts_r, parts_c))
        dynamics = sp.csr_matrix((data, ij), shape=(M * s.nv, self.size))
        loops = sp.hstack([self._combination[0] @ self.gradient_matrix(result), self._softness_columns], format="csr")
        return sp.vstack([dynamics, loops], format="csr")


class Transcription(AbstractProblem):
    """Several runs with shared and per-run parameters, as a constrained least-squares problem."""

    def __init__(self, runs: Sequence[Run], entries: Sequence[Entry]) -> None:
        self.runs, self.entries = list(runs), list(entries)
        self.lower = np.array([e.lower for e in entries])
        self.upper = np.array([e.upper for e in entries])
        self.scale = np.array([e.scale for e in entries])
        self.model = runs[0].structure.model

    def model_of(self, run: int, theta: np.ndarray) -> tuple[Model, Numbers, dict[tuple[str, str], float]]:
        values, sensors = values_at(self.entries, theta, run)
        model = self.model.replace(values, check=False)
        return model, Numbers.of(self.runs[run].structure, model), sensors

    # -- residuals -------------------------------------------------------------------------------------------------------------------

    def _predict(
        self, run: Run, model: Model, frames: Frames, sensors: dict[tuple[str, str], float], d: Data
    ) -> tuple[np.ndarray, np.ndarray, observe.NodeValues, float]:
        """Prediction of the samples, its slope in time, the channel at the nodes, the gain."""
        nodes = observe.at_nodes(run.structure, model, frames, d.channel)
        path = d.channel.path
        gain, bias, delay = (sensors.get((path, name), default) for name, default in (("gain", 1.0), ("bias", 0.0), ("delay", 0.0)))
        if delay:
            W = observe.interpolation(run.times, np.clip(d.times - delay, run.times[0], run.times[-1]))
            if d.channel.quantity == "rate":
                W = W @ observe.rate_matrix(run.K, run.h)
            raw = W @ nodes.value
        else:
            raw = d.W @ nodes.value
        return gain * raw + bias, d.dW @ nodes.value, nodes, gain

    def _frames(self, r: int, motion: Motion, model: Model, numbers: Numbers) -> tuple[Point, Frames]:
        point = self.runs[r].point(model, numbers, motion)
        return point, assembly.frames(self.runs[r].structure, numbers, point)

    def values(self, x: Sequence[Motion], theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        F, C = [self._prior(theta)], []
        for r, motion in enumerate(x):
            try:
                model, numbers, sensors = self.model_of(r, theta)
            except CalibodyError:
                return np.full(1, np.inf), np.full(1, np.inf)
            point, frames = self._frames(r, motion, model, numbers)
            F += [(self._predict(self.runs[r], model, frames, sensors, d)[0] - d.y) / d.sd for d in self.runs[r].data]
            C.append(self.runs[r].constraint_values(evaluate(self.runs[r].structure, numbers, point, derivatives=False), motion))
        return np.concatenate(F), np.concatenate(C)

    def _prior(self, theta: np.ndarray) -> np.ndarray:
        return np.array([(x - e.prior[0]) / e.prior[1] for e, x in zip(self.entries, theta, strict=True) if e.prior is not None])

    def _prior_slope(self) -> np.ndarray:
        rows = [k for k, e in enumerate(self.entries) if e.prior is not None]
        out = np.zeros((len(rows), len(self.entries)))
        for row, k in enumerate(rows):
            out[row, k] = 1.0 / self.entries[k].prior[1]  # type: ignore[index]
        return out

    def linearise(self, x: Sequence[Motion], theta: np.ndarray) -> Linearisation:
        F, Fx, Ft, C, Cx, Ct = [self._prior(theta)], [], [self._prior_slope()], [], [], []
        for r, motion in enumerate(x):
            run = self.runs[r]
            model, numbers, sensors = self.model_of(r, theta)
            point, frames = self._frames(r, motion, model, numbers)
            result = evaluate(run.structure, numbers, point)
            f, fx, ft = self._observed(r, theta, frames, sensors, model, motion)
            F.append(f)
            Fx.append(fx)
            Ft.append(ft)
            C.append(run.constraint_values(result, motion))
            Cx.append(run.constraint_jacobian(result))
            Ct.append(self._equations_by_parameters(r, theta, numbers, model, point))
        if self.hold_scale and self._scale_free(theta, C, Ct):
            F[0], Ft[0] = np.append(F[0], 0.0), np.vstack([Ft[0], self._scale_row(theta)])
        empty = sp.csr_matrix((len(F[0]), sum(r.size for r in self.runs)))
        rows = np.concatenate(C)
        return Linearisation(
            np.concatenate(F),
            sp.vstack([empty, sp.block_diag(Fx)], format="csr"),
            np.vstack(Ft),
            rows,
            sp.block_diag(Cx, format="csr"),
            np.vstack(Ct),
            np.zeros(len(rows)),
        )

    # -- scale ---------------------------------------------------------------------------------------------------------------------

    hold_scale = True
    """Whether to hold the overall scale of a problem that has none; off when the information is asked for."""

    @cached_property
    def _forces(self) -> np.ndarray:
        """Which parameters the equations are linear and homogeneous in: masses, inertias and everything that is a force per something."""
        words = ("mass", "damping", "friction", "stribeck", "stiffness", "armature", "gain", "bias")
        return np.array([all(p.sensor is None and (p.path.rsplit(".", 1)[-1] in words or ".inertia." in p.path) for p in e.places) for e in self.entries])

    def _scale_free(self, theta: np.ndarray, C: list[np.ndarray], Ct: list[np.ndarray]) -> bool:
        """Whether every term of the equations is proportional to some parameter that is estimated: then data without known forces determine
        ratios only, and a step could make the equations hold by making all of them small."""
        known, total = 0.0, 0.0
        for run, c, ct in zip(self.runs, C, Ct, strict=True):
            rows = run.structure.nv * (run.K - 2)
            if run.structure.nc:
                return False
            known += float(np.abs(c[:rows] - ct[:rows] @ np.where(self._forces, theta, 0.0)).sum())
            total += float(np.abs(ct[:rows] * np.where(self._forces, theta, 0.0)).sum())
        return known < 1e-6 * total

    def _scale_row(self, theta: np.ndarray) -> np.ndarray:
        """A residual that keeps the step orthogonal to a change of all scales together, without pulling at the values."""
        direction = np.where(self._forces, theta / self.scale**2, 0.0)
        norm = float(np.linalg.norm(direction * self.scale))
        return 1e6 * direction / max(norm, 1e-300)

    def _observed(
        self, r: int, theta: np.ndarray, frames: Frames, sensors: dict[tuple[str, str], float], model: Model, motion: Motion
    ) -> tuple[np.ndarray, Sparse, np.ndarray]:
        run = self.runs[r]
        f, fx, ft = [], [], []
        for d in run.data:
            prediction, slope, nodes, gain = self._predict(run, model, frames, sensors, d)
            f.append((prediction - d.y) / d.sd)
            block = (gain / d.sd) * (d.W @ nodes.matrix(run.structure.nv))
            fx.append(sp.hstack([block, sp.csr_matrix((len(d.y), run.size - run.nq))], format="csr"))
            ft.append(self._samples_by_parameters(r, theta, d, prediction, slope, gain, motion) / d.sd)
        return np.concatenate(f), sp.vstack(fx, format="csr"), np.vstack(ft)

    def _samples_by_parameters(self, r: int, theta: np.ndarray, d: Data, prediction: np.ndarray, slope: np.ndarray, gain: float, motion: Motion) -> np.ndarray:
        out = np.zeros((len(d.y), len(self.entries)))
        for k, entry in enumerate(self.entries):
            if entry.run not in (None, r):
                continue
            for place in entry.places:
                if place.sensor is not None and place.sensor[0] == d.channel.path:
                    kind = place.sensor[1]
                    _, sensors = values_at(self.entries, theta, r)
                    bias = sensors.get((d.channel.path, "bias"), 0.0)
                    column = {"bias": np.ones(len(d.y)), "gain": (prediction - bias) / gain if gain else prediction, "delay": -gain * slope}[kind]
                    out[:, k] += place.slope(theta[k]) * column
            if self._moves_channel(entry, d):
                step = 1e-6 * entry.scale
                ends = []
                for sign in (1.0, -1.0):
                    moved = theta.copy()
                    moved[k] += sign * step
                    model, numbers, sensors = self.model_of(r, moved)
                    _, frames = self._frames(r, motion, model, numbers)
                    ends.append(self._predict(self.runs[r], model, frames, sensors, d)[0])
                out[:, k] += (ends[0] - ends[1]) / (2.0 * step)
        return out

    @staticmethod
    def _moves_channel(entry: Entry, d: Data) -> bool:
        """Whether a parameter can move an observed position at fixed coordinates: geometry does, masses and forces do not."""
        geometry = ("position", "orientation", "anchor", "axis", "reference", "com")
        return d.channel.kind in ("site", "body") and any(p.sensor is None and any(f".{g}" in p.path for g in geometry) for p in entry.places)

    def _equations_by_parameters(self, r: int, theta: np.ndarray, numbers: Numbers, model: Model, point: Point) -> np.ndarray:
        run, p = self.runs[r], len(self.entries)
        combination, _ = run._combination
        out = np.zeros((run.structure.nv * (run.K - 2) + combination.shape[0], p))
        wanted = [(k, place) for k, e in enumerate(self.entries) if e.run in (None, r) for place in e.places if place.sensor is None]
        plain = [(k, place) for k, place in wanted if not place.path.startswith("actuator.") or not place.path.endswith(".delay")]
        result = columns(run.structure, numbers, point, [place.path for _, place in plain], model)
        for (k, place), residual, constraint in zip(plain, result.residual, result.constraint, strict=True):
            rows = combination @ constraint.T.ravel() if run.structure.nc else np.zeros(0)
            out[:, k] += place.slope(theta[k]) * np.concatenate([(residual / run.h).T.ravel(), rows])
        for k, place in wanted:
            if (k, place) not in plain:
                out[: run.structure.nv * (run.K - 2), k] += self._by_delay(r, theta, k, numbers, model, point)
        return out

    def _by_delay(self, r: int, theta: np.ndarray, k: int, numbers: Numbers, model: Model, point: Point) -> np.ndarray:
        """The delay of an actuator shifts its control: a difference over a tenth of a step."""
        run = self.runs[r]
        step = 0.1 * run.h
        ends = []
        for sign in (1.0, -1.0):
            place = self.entries[k].places[0]
            moved = max(0.0, theta[k] + sign * step)
            control, _ = run.drives(model.replace({place.path: moved}, check=False))
            ends.append((moved, evaluate(run.structure, numbers, replace(point, control=control), derivatives=False).residual))
        return ((ends[0][1] - ends[1][1]) / (ends[0][0] - ends[1][0]) / run.h).T.ravel()

    def move(self, x: Sequence[Motion], d: np.ndarray) -> list[Motion]:
        out, first = [], 0
        for run, motion in zip(self.runs, x, strict=True):
            out.append(run.move(motion, d[first : first + run.size]))
            first += run.size
        return out


def refined(run: Run, finer: Run, motion: Motion) -> Motion:
    """A motion on a finer mesh: along the tangent between the two nodes around each new one."""
    s = run.structure
    position = np.clip((finer.times - run.times[0]) / run.h, 0.0, run.K - 1)
    k = np.minimum(position.astype(np.int64), run.K - 2)
    step = difference(s, motion.q[:, k + 1], motion.q[:, k])
    q = retract(s, motion.q[:, k], (position - k) * step)
    lam = motion.multipliers[:, k] * (1.0 - (position - k)) + motion.multipliers[:, k + 1] * (position - k)
    return Motion(q, lam)


def multipliers_of(run: Run, model: Model, numbers: Numbers, motion: Motion) -> Motion:
    """Constraint forces that leave the smallest residual at every node: linear least squares, node by node."""
    if not run.active.any():
        return motion
    result = evaluate(run.structure, numbers, run.point(model, numbers, replace(motion, multipliers=np.zeros((run.structure.nc, run.K)))))
    lam = np.zeros((run.structure.nc, run.K))
    for k in range(1, run.K - 1):
        G = result.dense_gradient(k)[run.active]
        lam[run.active, k] = np.linalg.lstsq(run.h * G.T, result.residual[:, k - 1], rcond=None)[0]
    return Motion(motion.q, lam)


def independent(structure: Structure, numbers: Numbers, q: np.ndarray) -> np.ndarray:
    if not structure.nc:
        return np.ones(0, dtype=bool)
    return host.independent_rows(structure, host.configuration(structure, numbers, q).G, numbers.softness)
