"""Estimation by transcription: all nodes of the motion, the constraint forces and the parameters as unknowns of one problem.

    minimise    1/2 sum |(y - o(q, theta))/sd|^2 + 1/2 |z|^2 + 1/2 |(theta - prior)/sd|^2
    subject to  the discrete equations of the variational scheme at every inner node,  g(q_k) = 0 at every node,  bounds on theta

with z all noise but that of the measurements, in units of its standard deviation. A run is transcribed on its own mesh of nodes (`run.py`);
several runs share theta. Equations are in units of force (divided by
h), so that their residual says how many newtons or newton-metres are missing. With the states eliminated first (`solve/condensed.py`) the
convergence is that of a multiple shooting whose windows are single steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate.channels import as_motion
from calibody.estimate.observed import Observed, Sensors, predicted
from calibody.estimate.reported import groups
from calibody.estimate.run import Run, States
from calibody.estimate.unknowns import Entry, rubbing
from calibody.mechanics import assembly, host
from calibody.mechanics.assembly import Frames
from calibody.mechanics.equations import evaluate
from calibody.mechanics.parameters import columns
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import Numbers, Structure
from calibody.model import Model
from calibody.solve.condensed import Linearisation, Sparse

if TYPE_CHECKING:
    from calibody.steppers.motion import Motion
    from calibody.steppers.variational import Variational


class Problem(Observed[Run, States]):
    """Several runs with shared and per-run parameters, as a constrained least-squares problem."""

    def __init__(self, runs: Sequence[Run], entries: Sequence[Entry]) -> None:
        super().__init__(runs, entries)
        self.evaluations: list[Evaluation] = []
        """Of the runs, at the last linearisation."""

    def with_entries(self, entries: Sequence[Entry], sharp: float) -> Problem:
        """The same runs with other unknowns; joints that had no dry friction get a law of it, viscous below `sharp` of their rms rate."""
        import copy

        rubbed, runs = set(self.friction_rate), []
        for run in self.runs:
            run = copy.copy(run)
            if run.deltas is not None:
                joints = [c.joint for c in run.structure.scalar_coordinates]
                run.deltas = run.deltas * np.array([1.0 if joint in rubbed else sharp for joint in joints])
            runs.append(run)
        out = Problem(runs, entries)
        out.hold_scale = False
        return out

    def motion(self, r: int, states: States, theta: np.ndarray) -> Motion:
        model, numbers, _ = self.model_of(r, theta)
        return as_motion(self.runs[r], model, numbers, states)

    def stepper(self) -> Variational:
        from calibody.steppers.variational import Variational  # it imports jax, which `calibody check` does not wait for

        return Variational(friction_rate=min(self.friction_rate.values(), default=self.runs[0].delta))

    @property
    def friction_rate(self) -> dict[str, float]:
        run = self.runs[0]
        joints = [c.joint for c in run.structure.scalar_coordinates]
        rates = np.full(len(joints), run.delta) if run.deltas is None else run.deltas
        rubbed = rubbing(run.structure.model, self.entries)
        return {joint: float(rate) for joint, rate in zip(joints, rates, strict=True) if joint in rubbed}

    def frames(self, r: int, motion: States, model: Model, numbers: Numbers) -> Frames:
        return self.framed(r, motion, model, numbers)[1]

    def multipliers(self, motion: States) -> np.ndarray:
        return motion.multipliers

    def framed(self, r: int, motion: States, model: Model, numbers: Numbers) -> tuple[Point, Frames]:
        point = self.runs[r].point(model, numbers, motion)
        return point, assembly.frames(self.runs[r].structure, numbers, point)

    def values(self, x: Sequence[States], theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        F, C = [self.prior(theta)], []
        for r, motion in enumerate(x):
            try:
                model, numbers, sensors = self.model_of(r, theta)
            except CalibodyError:
                return np.full(1, np.inf), np.full(1, np.inf)
            point, frames = self.framed(r, motion, model, numbers)
            run = self.runs[r]
            F += [(predicted(run, model, numbers, frames, motion.multipliers, sensors, d).value - d.y) * run.weight(d) for d in run.data] + [motion.noise]
            C.append(run.equations(numbers, evaluate(run.structure, numbers, point, derivatives=False), motion))
        return np.concatenate(F), np.concatenate(C)

    def lacking(self, r: int, states: States, theta: np.ndarray) -> np.ndarray:
        """(forces, inner nodes): the unmodelled forces that would balance the equations best, node by node."""
        run = self.runs[r]
        model, numbers, _ = self.model_of(r, theta)
        point, frames = self.framed(r, states, model, numbers)
        residual = evaluate(run.structure, numbers, point, derivatives=False).residual / run.h
        A = np.zeros((run.inner, run.structure.nv, len(run.disturbed)))
        for k, (_, velocity) in enumerate(run.disturbed):
            dofs, acts = assembly.acting(plan_of(run.structure), frames, velocity)
            A[:, dofs, k] = acts[:, 1:-1].T
        return np.einsum("mwi,im->wm", np.linalg.pinv(A), residual)

    def linearise(self, x: Sequence[States], theta: np.ndarray, parameters: bool = True) -> Linearisation:
        """Residuals, equations and their derivatives; without `parameters` those by theta are zero (they cost as much as all others)."""
        F, Fx, Ft, C, Cx, Ct = [self.prior(theta)], [], [self.prior_slope()], [], [], []
        self.evaluations = []
        for r, motion in enumerate(x):
            run = self.runs[r]
            model, numbers, sensors = self.model_of(r, theta)
            point, frames = self.framed(r, motion, model, numbers)
            result = evaluate(run.structure, numbers, point)
            self.evaluations.append(result)
            f, fx, ft = self._observed(r, theta, frames, sensors, model, numbers, motion, parameters)
            F.append(f)
            Fx.append(fx)
            Ft.append(ft)
            C.append(run.equations(numbers, result, motion))
            Cx.append(run.jacobian(model, numbers, frames, result))
            Ct.append(self._equations_by_parameters(r, theta, numbers, model, point, result, motion) if parameters else np.zeros((run.rows, len(self.entries))))
        if (
            parameters
            and self.hold_scale
            and self._scale_free(theta, [c - cx[:, run.quiet :] @ m.noise for c, cx, run, m in zip(C, Cx, self.runs, x, strict=True)], Ct)
        ):
            F[0], Ft[0] = np.append(F[0], 0.0), np.vstack([Ft[0], self._scale_row(theta)])
        empty = sp.csr_matrix((len(F[0]), sum(r.size for r in self.runs)))
        Fx_all = sp.vstack([empty, sp.block_diag(Fx)], format="csr")
        return Linearisation(np.concatenate(F), Fx_all, np.vstack(Ft), np.concatenate(C), sp.block_diag(Cx, format="csr"), np.vstack(Ct), self._when())

    def _when(self) -> np.ndarray:
        """Run after run, each in the order of time."""
        both = [run.when for run in self.runs]
        first = np.cumsum([0.0, *(run.K for run in self.runs)])
        return np.concatenate([t + f for (t, _), f in zip(both, first, strict=False)] + [t + f for (_, t), f in zip(both, first, strict=False)])

    # -- scale ---------------------------------------------------------------------------------------------------------------------

    hold_scale = True
    """Whether to hold the overall scale of a problem that has none; off when the information is asked for."""

    @cached_property
    def _forces(self) -> np.ndarray:
        """Which parameters the equations are linear and homogeneous in: masses, inertias and everything that is a force per something."""
        words = ("mass", "damping", "friction", "stribeck", "stiffness", "armature", "gain", "bias")
        return np.array(
            [bool(e.places) and all(p.sensor is None and (p.path.rsplit(".", 1)[-1] in words or ".inertia." in p.path) for p in e.places) for e in self.entries]
        )

    def _homogeneous(self, theta: np.ndarray, C: Sequence[np.ndarray], Ct: Sequence[np.ndarray]) -> bool:
        """Whether every term of the balance is proportional to some parameter that is estimated: then data without known forces determine
        ratios only, and a step could make the equations hold by making all of them small."""
        linear = np.where(self._forces, theta, 0.0)
        known = sum(float(np.abs(c - ct @ linear).sum()) for c, ct in zip(C, Ct, strict=True))
        total = sum(float(np.abs(ct * linear).sum()) for ct in Ct)
        return known < 1e-6 * total

    def _scale_free(self, theta: np.ndarray, C: list[np.ndarray], Ct: list[np.ndarray]) -> bool:
        if any(run.structure.nc for run in self.runs):
            return False
        rows = [run.structure.nv * run.inner for run in self.runs]
        return self._homogeneous(theta, [c[:n] for c, n in zip(C, rows, strict=True)], [ct[:n] for ct, n in zip(Ct, rows, strict=True)])

    def _scale_row(self, theta: np.ndarray) -> np.ndarray:
        """A residual that keeps the step orthogonal to a change of all scales together, without pulling at the values."""
        direction = np.where(self._forces, theta / self.scale**2, 0.0)
        norm = float(np.linalg.norm(direction * self.scale))
        return 1e6 * direction / max(norm, 1e-300)

    def _observed(
        self, r: int, theta: np.ndarray, frames: Frames, sensors: Sensors, model: Model, numbers: Numbers, motion: States, parameters: bool
    ) -> tuple[np.ndarray, Sparse, np.ndarray]:
        run = self.runs[r]
        f, fx, ft = [], [], []
        placements = self.placements(r, theta, model, numbers, frames)
        for d in run.data:
            prediction = predicted(run, model, numbers, frames, motion.multipliers, sensors, d)
            weight, forces = run.weight(d), prediction.sampled.by_multiplier
            f.append((prediction.value - d.y) * weight)
            rest = sp.csr_matrix((len(d.y), run.size - run.nq)) if forces is None else prediction.gain * run.by_forces(*forces)
            fx.append(sp.diags(weight) @ sp.hstack([prediction.matrix(run.structure.nv), rest], format="csr"))
            moved = self.samples_by_parameters(r, theta, d, prediction, placements) if parameters else np.zeros((len(d.y), len(self.entries)))
            ft.append(moved * weight[:, None])
        count = len(motion.noise)
        if count:
            f.append(motion.noise)
            fx.append(sp.hstack([sp.csr_matrix((count, run.quiet)), sp.eye(count)], format="csr"))
            ft.append(np.zeros((count, len(self.entries))))
        return np.concatenate(f), sp.vstack(fx, format="csr"), np.vstack(ft)

    def _equations_by_parameters(
        self, r: int, theta: np.ndarray, numbers: Numbers, model: Model, point: Point, result: Evaluation, motion: States
    ) -> np.ndarray:
        run, p = self.runs[r], len(self.entries)
        balance = run.structure.nv * run.inner
        out = np.zeros((run.rows, p))
        wanted = [(k, place) for k, e in enumerate(self.entries) if e.run in (None, r) for place in e.places if place.sensor is None]
        late = [(k, place) for k, place in wanted if place.path.startswith("actuator.") and place.path.endswith(".delay")]
        soft = [(k, place) for k, place in wanted if place.path.endswith(("compliance", "relaxation"))]
        plain = [x for x in wanted if x not in late and x not in soft]
        bodies = groups(self.entries)
        paths = [place.path for _, place in plain] + [path for group, _ in bodies for path in group.paths]
        found = columns(run.structure, numbers, point, paths, model)
        for (k, place), residual, constraint in zip(plain, found.residual, found.constraint, strict=False):
            rows = np.concatenate([(residual / run.h).T.ravel(), run.constrain(numbers.softness, constraint)])
            out[:, k] += place.slope(theta[k]) * rows
        ten = found.residual[len(plain) :].reshape(len(bodies), 10, *found.residual.shape[1:])
        for (group, at), residual in zip(bodies, ten, strict=True):
            out[:balance, at] = (residual / run.h).transpose(2, 1, 0).reshape(balance, 10) @ group.jacobian(theta[at])
        for k, _ in late:
            out[:balance, k] += self._by_delay(r, theta, k, numbers, model, point, motion)
        for k, place in soft:
            step = 1e-3 * abs(model[place.path])
            high, low = (Numbers.of(run.structure, model.replace({place.path: model[place.path] + s}, check=False)).softness for s in (step, -step))
            d_eps, d_tau = (high - low) / (2.0 * step)
            out[balance:, k] += place.slope(theta[k]) * run.by_softness(numbers, result, motion, d_eps, d_tau)
        return out

    def _by_delay(self, r: int, theta: np.ndarray, k: int, numbers: Numbers, model: Model, point: Point, motion: States) -> np.ndarray:
        """The delay of an actuator shifts its control: a difference over a tenth of a step."""
        run = self.runs[r]
        step = 0.1 * run.h
        ends = []
        for sign in (1.0, -1.0):
            place = self.entries[k].places[0]
            moved = max(0.0, theta[k] + sign * step)
            late = model.replace({place.path: moved}, check=False)
            control, _ = run.drives(late, run.parts(motion.noise)[2])
            ends.append((moved, evaluate(run.structure, numbers, replace(point, control=control), derivatives=False).residual))
        return ((ends[0][1] - ends[1][1]) / (ends[0][0] - ends[1][0]) / run.h).T.ravel()

    def sided(self, x: Sequence[States], theta: np.ndarray) -> list[States]:
        """Every run's motion with the pieces of its friction law."""
        out = []
        for r, motion in enumerate(x):
            model, numbers, _ = self.model_of(r, theta)
            out.append(self.runs[r].sided(motion, self.frames(r, motion, model, numbers)))
        return out

    def settled(self, x: Sequence[States], theta: np.ndarray) -> tuple[Sequence[States], bool]:
        if x[0].sides is None:
            return x, False
        new = self.sided(x, theta)
        return new, any(not np.array_equal(a.sides, b.sides) for a, b in zip(x, new, strict=True))  # type: ignore[arg-type]

    def move(self, x: Sequence[States], d: np.ndarray) -> list[States]:
        out, first = [], 0
        for run, motion in zip(self.runs, x, strict=True):
            out.append(run.move(motion, d[first : first + run.size]))
            first += run.size
        return out


def multipliers_of(run: Run, model: Model, numbers: Numbers, motion: States) -> States:
    """Constraint forces that leave the smallest residual at every node: linear least squares, node by node."""
    if not run.active.any():
        return motion
    result = evaluate(run.structure, numbers, run.point(model, numbers, replace(motion, multipliers=np.zeros((run.structure.nc, run.K)))))
    lam = np.zeros((run.structure.nc, run.K))
    for k in range(1, run.K - 1):
        G = result.dense_gradient(k)[run.active]
        lam[run.active, k] = np.linalg.lstsq(run.h * G.T, result.residual[:, k - 1], rcond=None)[0]
    return replace(motion, multipliers=lam)


def independent(structure: Structure, numbers: Numbers, q: np.ndarray) -> np.ndarray:
    if not structure.nc:
        return np.ones(0, dtype=bool)
    return host.independent_rows(structure, host.configuration(structure, numbers, q).G, numbers.softness)
