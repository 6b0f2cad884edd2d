"""Estimation by transcription: all nodes of the motion, the constraint forces and the parameters as unknowns of one problem.

    minimise    1/2 sum |(y - o(q, theta))/sd|^2 + 1/2 |z|^2 + 1/2 |(theta - prior)/sd|^2
    subject to  the discrete equations of the variational scheme at every inner node,  g(q_k) = 0 at every node,  bounds on theta

with z all noise but that of the measurements, in units of its standard deviation. A run is transcribed on its own mesh of nodes (`run.py`);
several runs share theta. Equations are in units of force (divided by
h), so that their residual says how many newtons or newton-metres are missing. With the states eliminated first (`solve/condensed.py`) the
convergence is that of a multiple shooting whose windows are single steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.channels import as_motion
from calibody.estimate.contacts import pressed
from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.settle import settled
from calibody.estimate.layout import BALANCE, CONSTRAINTS, HOLDS, IMPACTS, NODES, PUSHES, START, STRIKES, States, term
from calibody.estimate.nodes import Noise
from calibody.estimate.observed import TIMING, Observed, Predicted, Sensors, predicted, read
from calibody.estimate.reported import groups
from calibody.estimate.run import Run, carried
from calibody.estimate.started import Started
from calibody.estimate.unknowns import Entry, named, rubbing
from calibody.mechanics import assembly, host
from calibody.mechanics.assembly import Frames
from calibody.mechanics.equations import evaluate
from calibody.mechanics.parameters import columns
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import Numbers, Structure
from calibody.model import Model
from calibody.model.paths import number_at
from calibody.solve.condensed import Linearisation, Runs, Sparse
from calibody.solve.projected import OnNodes
from calibody.solve.threads import spread

if TYPE_CHECKING:
    from calibody.steppers.motion import Motion
    from calibody.steppers.variational import Variational


DIFFERENCE = 1e-6
"""Of parameters, in their declared scale, for the derivatives of the equations of impacts."""
BALANCED = 0.5
"""What may be missing in the balance of a node where stick and slip are decided, in the usual force of its contacts."""
SUMMED = 1e-12
"""Rounding of a sum of terms that cancel, per unit of its derivatives by states: these are of size one, and sums of a dozen terms lose a hundred times the machine's precision."""
APART = ("compliance", "relaxation")
"""How the paths of numbers end that only change how constraints are combined."""
KEPT = 1_000_000
"""Entries of the derivative of the equations with respect to the parameters up to which a linearisation is kept: beyond, its memory counts for more than an iteration's time."""


@dataclass(frozen=True, eq=False)
class Linearised:
    """One run at a point, and the evaluation that it was made of."""

    part: Linearisation
    """With a column for each parameter that the run depends on (`Problem.columns`)."""
    evaluation: Evaluation


@dataclass(frozen=True, eq=False)
class Problem(Observed[Run, States]):
    """Several runs with shared and per-run parameters, as a constrained least-squares problem: a value, that can be sent to another process."""

    bars: ClassVar[bool] = True

    slope: np.ndarray | float = 0.0
    """A linear term `slope'theta` of the cost (`marginal.py`)."""
    touching: bool = False
    """Whether contacts and limits act."""
    punctual: frozenset[str] = frozenset()
    """Channels and actuators whose timing is known all the same: it is among the entries only to ask what another would do."""

    @property
    def timed(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return super().timed - self.punctual

    @classmethod
    def of(cls, runs: Sequence[Run], entries: Sequence[Entry]) -> Problem:
        problem = cls(tuple(runs), tuple(entries))
        problem.check()
        return problem

    def sharpened(self, deltas: np.ndarray, wider: float = 1.0) -> Problem:
        """With the rates below which dry friction is viscous, one per scalar coordinate; `wider`: times those where a joint turns round."""
        return replace(self, runs=tuple(replace(run, deltas=deltas, turning=None if run.turning is None else wider * run.turning) for run in self.runs))

    def smoothed(self, deltas: np.ndarray) -> Problem:
        """With dry friction that has no kinks, about viscous below these rates."""
        return replace(self, runs=tuple(replace(run, deltas=deltas, smooth=True) for run in self.runs))

    def with_noise(self, noises: Sequence[Noise]) -> Problem:
        """With other standard deviations, one `Noise` per run."""
        return replace(self, runs=tuple(replace(run, noise=noise) for run, noise in zip(self.runs, noises, strict=True)))

    def carried(self, x: Sequence[States], to: Problem) -> list[States]:
        """The motion of all runs in another problem of the same recordings: another mesh, other standard deviations."""
        return [carried(run, other, states) for run, other, states in zip(self.runs, to.runs, x, strict=True)]

    def with_entries(self, entries: Sequence[Entry], sharp: float) -> Problem:
        """The same runs with more unknowns, held where they are; joints that had no dry friction get a law of it, viscous below `sharp` of their rms rate."""
        rubbed, runs = set(self.friction_rate), []
        for run in self.runs:
            law = np.array([1.0 if owner in rubbed else sharp for owner in owners(run.structure)])
            runs.append(run if run.deltas is None else replace(run, deltas=run.deltas * law))
        wide = Problem.of(runs, entries)
        return replace(wide, punctual=wide.timed - self.timed)

    def motion(self, r: int, states: States, theta: np.ndarray) -> Motion:
        model, numbers, _ = self.model_of(r, theta)
        return as_motion(self.runs[r], model, numbers, states)

    def stepper(self) -> Variational:
        from calibody.steppers.variational import Variational  # it imports jax, which `calibody check` does not wait for

        return Variational(friction_rate=min(self.friction_rate.values(), default=self.runs[0].delta))

    @property
    def contacts(self) -> bool:
        return self.touching

    @property
    def struck(self) -> bool:
        return any(isinstance(run, Struck) for run in self.runs)

    @property
    def friction_rate(self) -> dict[str, float]:
        run = self.runs[0]
        names = owners(run.structure)
        rates = np.full(len(names), run.delta) if run.deltas is None else run.deltas
        rubbed = rubbing(run.structure.model, self.entries)
        return {owner: float(rate) for owner, rate in zip(names, rates, strict=True) if owner in rubbed}

    def frames(self, r: int, motion: States, model: Model, numbers: Numbers) -> Frames:
        return self.framed(r, motion, model, numbers)[1]

    def driven(self, r: int, states: States, model: Model) -> observe.Driven:
        return self.acting(r, model, lambda: self.runs[r].drives(model, states))

    def multipliers(self, motion: States) -> np.ndarray:
        return motion.multipliers

    def model_of(self, run: int, theta: np.ndarray) -> tuple[Model, Numbers, dict[tuple[str, str], float]]:
        """Kept with the run by itself, which is where it is looked at again."""
        return super().model_of(0, theta) if len(self.runs) == 1 else self.singles[run].model_of(0, theta[self.columns[run]])

    def framed(self, r: int, motion: States, model: Model, numbers: Numbers) -> tuple[Point, Frames]:
        if len(self.runs) > 1:
            return self.singles[r].framed(0, motion, model, numbers)
        point = self.runs[r].point(model, numbers, motion)
        known = self._frames.get(r)  # as of `model_of`: coordinates and numbers are never changed in place
        if known is None or known[0] is not motion.q or known[1] is not numbers:
            known = self._frames[r] = motion.q, numbers, assembly.frames(self.runs[r].structure, numbers, point)
        return point, known[2]

    @cached_property
    def _frames(self) -> dict[int, tuple[np.ndarray, Numbers, Frames]]:
        """Of the runs: the last coordinates and numbers, and their frames."""
        return {}

    def values(self, x: Sequence[States], theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            found = spread(lambda r: self._values(r, x[r], theta), len(self.runs))
        except CalibodyError:
            return np.full(1, np.inf), np.full(1, np.inf)
        return np.concatenate([self.prior(theta), *(F for F, _ in found)]), np.concatenate([C for _, C in found])

    def _values(self, r: int, motion: States, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F and C of one run; an error where no mechanism can have these numbers."""
        run = self.runs[r]
        model, numbers, sensors = self.model_of(r, theta)
        point, frames = self.framed(r, motion, model, numbers)
        driven = self.driven(r, motion, model)
        started = Started.of(run, model, numbers, point)
        F = [(self._predicted(run, model, numbers, frames, motion, sensors, d, driven, started).value - d.y) * run.weight(d) for d in run.data]
        C = [run.equations(model, numbers, evaluate(run.structure, numbers, point, False, frames), motion)]
        C += [found.value - d.y for d, found in zip(run.starts, self._exact(run, model, numbers, frames, motion, started), strict=True)]
        C.append(run.impacts(model, numbers, motion))
        return np.concatenate([*F, run.layout.prior(motion)]), np.concatenate(C)

    @staticmethod
    def _predicted(
        run: Run,
        model: Model,
        numbers: Numbers,
        frames: Frames,
        motion: States,
        sensors: Sensors,
        d: observe.Data,
        driven: observe.Driven | None,
        started: Started | None,
    ) -> Predicted:
        """The samples of a channel, which the forces of contact that lasts may be too; rates of the start are those that it begins with."""
        if started is not None and (dof := started.dof(d)) is not None:
            return started.predicted(dof)
        if observe.is_contact_force(d.channel):
            return read(run, sensors, d, lambda times, W, dW: pressed.sampled(run, model, numbers, motion, d.channel, W, dW))
        return predicted(run, model, numbers, frames, motion.multipliers, sensors, d, driven)

    def fitted(self, r: int, states: States, theta: np.ndarray) -> list[tuple[observe.Data, np.ndarray]]:
        model, numbers, sensors = self.model_of(r, theta)
        (point, frames), driven = self.framed(r, states, model, numbers), self.driven(r, states, model)
        started = Started.of(self.runs[r], model, numbers, point)
        return [(d, self._predicted(self.runs[r], model, numbers, frames, states, sensors, d, driven, started).value) for d in self.runs[r].data]

    def lacking(self, r: int, states: States, theta: np.ndarray) -> np.ndarray:
        """(forces, inner nodes): the unmodelled forces that would balance the equations best, node by node."""
        run = self.runs[r]
        model, numbers, _ = self.model_of(r, theta)
        point, frames = self.framed(r, states, model, numbers)
        residual = evaluate(run.structure, numbers, point, False, frames).residual / run.h
        A = np.zeros((run.inner, run.structure.nv, len(run.disturbed)))
        for k, (_, velocity) in enumerate(run.disturbed):
            dofs, acts = assembly.acting(plan_of(run.structure), frames, velocity)
            A[:, dofs, k] = acts[:, 1:-1].T
        return np.einsum("mwi,im->wm", np.linalg.pinv(A), residual)

    @cached_property
    def singles(self) -> tuple[Problem, ...]:
        """Every run as a problem of its own, in the parameters that it depends on (`columns`)."""
        if len(self.runs) == 1:
            return (self,)
        parts = zip(self.runs, self.entries_of, strict=True)
        return tuple(replace(self, runs=(run,), entries=tuple(e if e.run is None else replace(e, run=0) for e in entries), slope=0.0) for run, entries in parts)

    def linearised(self, r: int, motion: States, theta: np.ndarray, parameters: bool = True, residuals: bool = True) -> Linearised:
        """One run: residuals, equations and their derivatives, those by the parameters that it depends on (`columns`); without `parameters` these are
        zero (they cost as much as all others); without `residuals` there are none."""
        single, own = self.singles[r], theta[self.columns[r]]
        return single._known(motion, own) if parameters and residuals and self.small else single._linearised(motion, own, parameters, residuals)

    @cached_property
    def small(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Whether a whole linearisation, and the last step, are kept."""
        return sum(run.layout.rows * len(columns) for run, columns in zip(self.runs, self.columns, strict=True)) <= KEPT

    def _known(self, motion: States, theta: np.ndarray) -> Linearised:
        """The last one, if it was here: where an iteration has ended is where its error bars are asked for."""
        last = self._last.get(0)
        if last is None or last[0] is not motion or not np.array_equal(last[1], theta):
            last = self._last[0] = motion, theta.copy(), self._linearised(motion, theta, True, True)
        return last[2]

    @cached_property
    def _last(self) -> dict[int, tuple[States, np.ndarray, Linearised]]:
        """The last states and parameters, and what was linearised there."""
        return {}

    def _linearised(self, motion: States, theta: np.ndarray, parameters: bool, residuals: bool) -> Linearised:
        run, p = self.runs[0], len(self.entries)
        model, numbers, sensors = self.model_of(0, theta)
        point, frames = self.framed(0, motion, model, numbers)
        result = evaluate(run.structure, numbers, point, frames=frames)
        none = np.zeros(0), sp.csr_matrix((0, run.layout.size)), np.zeros((0, p))
        started = Started.of(run, model, numbers, point)
        by_start = self._rates_by_parameters(theta, started, model, numbers, motion) if parameters and started is not None else None
        F, Fx, Ft = self._observed(0, theta, frames, sensors, model, numbers, motion, parameters, started, by_start) if residuals else none
        exact = self._exact(run, model, numbers, frames, motion, started)
        starts = [found.value - d.y for d, found in zip(run.starts, exact, strict=True)]
        C = np.concatenate([run.equations(model, numbers, result, motion), *starts, run.impacts(model, numbers, motion)])
        more = [term(START, NODES, sp.vstack([found.matrix(run.structure.nv) for found in exact]))] if exact else []
        more += [term(START, block, sp.vstack(by)) for block, by in _by_block(run, model, exact).items()]
        by_nodes = run.balance_by_nodes(result)
        Cx = run.jacobian(model, numbers, frames, result, by_nodes, more)
        Ct = self._equations_by_parameters(0, theta, numbers, model, point, frames, result, motion) if parameters else np.zeros((run.layout.rows, p))
        if parameters and exact:
            placements = self.placements(0, theta, model, numbers, frames)
            for k, (d, found) in enumerate(zip(run.starts, exact, strict=True), run.layout.row_place[START].start):
                dof = None if started is None else started.dof(d)
                if dof is not None and by_start is not None:
                    Ct[k] = by_start[dof]
                for at, by in placements.samples(d, found.sampled).items() if dof is None else ():
                    Ct[k, at] = by[0]
        if isinstance(run, Struck):
            Cx = run.seamed(Cx, model, numbers, motion)
            Ct = self._impacts_by_parameters(run, theta, run.keep_balance(Ct), motion) if parameters else Ct
        parts = F, Fx, Ft, C, Cx, Ct, run.layout.when
        if not run.kept or run.mixed:
            return Linearised(Linearisation(*parts), result)
        return Linearised(OnNodes(*parts, (run.K, run.structure.nv, run.kept), tuple(by_nodes), *run.kept_gradient(result)), result)

    def _impacts_by_parameters(self, run: Struck, theta: np.ndarray, Ct: np.ndarray, motion: States) -> np.ndarray:
        """With the derivatives of the equations of impacts, by differences: they are few."""
        own = slice(run.layout.row_place[STRIKES].start, run.layout.row_place[HOLDS].stop)
        for k, e in enumerate(self.entries):
            if e.group is None and all(place.sensor is not None for place in e.places):
                continue
            size = DIFFERENCE * (e.scale if e.group is None else 1.0)
            both = [self.made_of(0, theta + sign * size * (np.arange(len(theta)) == k))[:2] for sign in (1.0, -1.0)]
            tied, laws = run.by_numbers(both, motion)
            Ct[: len(tied), k] += tied / (2.0 * size)
            Ct[own, k] += laws / (2.0 * size)
        return Ct

    def _exact(self, run: Run, model: Model, numbers: Numbers, frames: Frames, motion: States, started: Started | None) -> list[Predicted]:
        """What is known exactly of the start, as the motion has it; no sensor is between."""
        return [self._predicted(run, model, numbers, frames, motion, {}, d, None, started) for d in run.starts]

    def _rates_by_parameters(self, theta: np.ndarray, started: Started, model: Model, numbers: Numbers, motion: States) -> np.ndarray:
        """(nv, parameters): of a single run, the rates that its motion begins with."""
        launch = started.launch
        out = np.zeros((self.runs[0].structure.nv, len(theta)))
        both = (self._by_numbers(0, theta, numbers, model, point, found) for point, found in ((launch.point, launch.frames), (launch.short, None)))
        for (at, residual, _), (_, short, rows) in zip(*both, strict=True):
            out[:, at] += launch.by_numbers(residual, short, rows)
        for k, actuator, _, slope, change in self._control_by_timing(0, theta, model, motion):
            out[:, k] += slope * change[0] * launch.by_control(actuator)
        return out

    def linearise(self, x: Sequence[States], theta: np.ndarray, parameters: bool = True, hold_scale: bool = True, residuals: bool = True) -> Runs:
        """All runs; `hold_scale`: hold the overall scale of a problem that has none (not where the information is asked for)."""
        parts = tuple(spread(lambda r: self.linearised(r, x[r], theta, parameters, residuals).part, len(self.runs)))
        F, Ft = self.prior(theta), self.prior_slope()
        if parameters and hold_scale and self._scale_free(theta, x, parts):
            F, Ft = np.append(F, 0.0), sp.vstack([Ft, sp.csr_matrix(self._scale_row(theta))], format="csr")
        return Runs(F, Ft, parts, self.columns, len(theta))

    # -- scale ---------------------------------------------------------------------------------------------------------------------

    @cached_property
    def proportional(self) -> np.ndarray:
        """Which parameters the equations are linear and homogeneous in: masses, inertias and everything that is a force per something."""
        model = self.runs[0].structure.model
        return np.array([bool(e.places) and all(p.sensor is None and number_at(model, p.path).linear for p in e.places) for e in self.entries])

    def _scale_free(self, theta: np.ndarray, x: Sequence[States], parts: Sequence[Linearisation]) -> bool:
        """Whether every term of the balance is proportional to some parameter that is estimated: then data without known forces determine
        ratios only, and a step could make the equations hold by making all of them small."""
        if any(
            run.structure.nc or any(observe.is_contact_force(d.channel) or observe.is_drive(d.channel) or observe.is_transmitted(d.channel) for d in run.data)
            for run in self.runs
        ):
            return False
        linear = np.where(self.proportional, theta, 0.0)
        known = total = rounding = 0.0
        for run, motion, part, own in zip(self.runs, x, parts, self.columns, strict=True):
            noise = sum(part.Cx[:, run.layout.place[b.name]] @ motion.parts[b.name].ravel() for b in run.layout.held)
            balance = run.layout.row_place[BALANCE]
            rows, by = part.C - noise - part.Ct @ linear[own], part.Ct
            if isinstance(run, Struck):  # impulses and forces of contacts are unknown, whatever they are
                rows, by = run.keep_balance(rows - run.pressed(part.Cx, motion)), run.keep_balance(by)
            known += float(np.abs(rows[balance]).sum())
            total += float(np.abs(by[balance] * linear[own]).sum())
            rounding += SUMMED * float(abs(part.Cx[balance]).sum())
        return known < 1e-6 * total or (known < rounding and self._scales(theta, x, parts))

    def _scales(self, theta: np.ndarray, x: Sequence[States], parts: Sequence[Linearisation]) -> bool:
        """The same along a motion that obeys the equations already, where what is known sums up to rounding as the whole does: whether the derivatives of the balance by the nodes halve with the proportional
        parameters."""
        half = np.where(self.proportional, 0.5 * theta, theta)
        for r, (run, part) in enumerate(zip(self.runs, parts, strict=True)):
            balance, nodes, rows = run.layout.row_place[BALANCE], run.layout.place[NODES], np.ones(len(part.C))
            rows = (run.keep_balance(rows) if isinstance(run, Struck) else rows)[balance]
            now = part.Cx[balance][:, nodes]
            then = self.linearised(r, x[r], half).part.Cx[balance][:, nodes]
            if (rows @ abs(now - 2.0 * then)).sum() > 1e-6 * (rows @ abs(now)).sum():
                return False
        return True

    def _scale_row(self, theta: np.ndarray) -> np.ndarray:
        """A residual that keeps the step orthogonal to a change of all scales together, without pulling at the values."""
        direction = np.where(self.proportional, theta / self.scale**2, 0.0)
        norm = float(np.linalg.norm(direction * self.scale))
        return 1e6 * direction / max(norm, 1e-300)

    def _observed(
        self,
        r: int,
        theta: np.ndarray,
        frames: Frames,
        sensors: Sensors,
        model: Model,
        numbers: Numbers,
        motion: States,
        parameters: bool,
        started: Started | None = None,
        by_start: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Sparse, np.ndarray]:
        run = self.runs[r]
        f, fx, first = [], [], 0
        Ft = np.zeros((len(self.entries), run.samples + run.layout.priors)).T  # column by column: most are zero
        placements = self.placements(r, theta, model, numbers, frames)
        timing = self._control_by_timing(r, theta, model, motion) if parameters and any(observe.is_drive(d.channel) for d in run.data) else []
        for d in run.data:
            prediction = self._predicted(run, model, numbers, frames, motion, sensors, d, self.driven(r, motion, model), started)
            weight = run.weight(d)
            f.append((prediction.value - d.y) * weight)
            by_nodes = run.layout.across(prediction.matrix(run.structure.nv), NODES)
            for block, by in run.by_drives(model, prediction.sampled):
                by_nodes = by_nodes + run.layout.across(prediction.gain * by, block)
            pushes = pressed.by_pushes(run, model, numbers, motion, d.channel, d.W) if observe.is_contact_force(d.channel) else None
            if pushes is not None:
                by_nodes = by_nodes + prediction.gain * pushes
            for row, by in prediction.sampled.by_multipliers.items():
                if observe.is_force(d.channel):
                    by_nodes = by_nodes + prediction.gain * run.by_forces(row, by)
                elif run.active[row]:
                    by_nodes = by_nodes + prediction.gain * run.by_multipliers(row, by)
            fx.append(observe.weighed(by_nodes, weight))
            moved = self.samples_by_parameters(r, theta, d, prediction, placements) if parameters else {}
            for k, actuator, number, slope, change in timing:
                if (by := prediction.sampled.by_timing(actuator, number)) is not None:
                    moved[k] = moved.get(k, 0.0) + prediction.gain * slope * by
                elif (by := prediction.sampled.by_control.get(actuator)) is not None:
                    moved[k] = moved.get(k, 0.0) + prediction.gain * slope * (by @ change)
            for k, by in moved.items():
                Ft[first : first + len(d.y), k] = by * weight
            if started is not None and by_start is not None and (dof := started.dof(d)) is not None:
                Ft[first] = by_start[dof] * weight
            first += len(d.y)
        if run.layout.priors:
            f.append(run.layout.prior(motion))
            fx.append(run.layout.prior_matrix)
        return np.concatenate(f), sp.vstack(fx, format="csr"), Ft

    def _control_by_timing(self, r: int, theta: np.ndarray, model: Model, motion: States) -> list[tuple[int, int, str, float, np.ndarray]]:
        """(parameter, actuator, which number of it, its slope by the parameter, change (K - 1) of its mean control by that number) of every unknown delay and time constant."""
        run, names, out, known = self.runs[r], [a.name for a in model.actuators], [], named(self.entries, theta, r)
        for k, place in ((k, place) for k, e in enumerate(self.entries) if e.run in (None, r) for place in e.places if place.sensor is None):
            kind, _, rest = place.path.partition(".")
            name, _, field = rest.rpartition(".")
            if kind != "actuator" or field not in ("delay", "time_constant"):
                continue
            if field == "time_constant":
                change = run.control_by_lag(model, name)
            else:
                ends = [max(0.0, model[place.path] + sign * 0.1 * run.h) for sign in (1.0, -1.0)]
                high, low = (run.drives(model.replace({place.path: x}, check=False), motion)[0][names.index(name)] for x in ends)
                change = (high - low) / (ends[0] - ends[1])
            out.append((k, names.index(name), field, place.slope(theta[k], known), change))
        return out

    def _equations_by_parameters(
        self, r: int, theta: np.ndarray, numbers: Numbers, model: Model, point: Point, frames: Frames, result: Evaluation, motion: States
    ) -> np.ndarray:
        run, p, known = self.runs[r], len(self.entries), named(self.entries, theta, r)
        balance, constraints = run.layout.row_place[BALANCE], run.layout.row_place[CONSTRAINTS]
        out = np.zeros((p, run.layout.rows)).T  # column by column
        wanted = [(k, place) for k, e in enumerate(self.entries) if e.run in (None, r) for place in e.places if place.sensor is None]
        soft = [(k, place) for k, place in wanted if place.path.endswith(APART)]
        for at, residual, constraint in self._by_numbers(r, theta, numbers, model, point, frames):
            for k, of_nodes, of_loops in zip(at, residual, constraint, strict=True):
                rows = np.concatenate([(of_nodes / run.h).T.ravel(), run.constrain(numbers.softness, of_loops)])
                out[: len(rows), k] += rows
        for k, actuator, _, slope, change in self._control_by_timing(r, theta, model, motion):
            out[balance, k] += slope * run.by_control(numbers, frames, result, actuator, change)
        for k, place in soft:
            step = 1e-3 * max(abs(model[place.path]), 1e-3)
            high, low = (Numbers.of(run.structure, model.replace({place.path: model[place.path] + s}, check=False)).softness for s in (step, -step))
            d_eps, d_tau = (high - low) / (2.0 * step)
            out[constraints, k] += place.slope(theta[k], known) * run.by_softness(numbers, result, motion, d_eps, d_tau)
        return out

    def _by_numbers(
        self, r: int, theta: np.ndarray, numbers: Numbers, model: Model, point: Point, frames: Frames | None
    ) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
        """(parameters, derivatives of the residuals (parameters, nv, K - 2), and of the constraints (parameters, nc, K)) at a point, by numbers that the equations contain themselves."""
        run, known, bodies = self.runs[r], named(self.entries, theta, r), groups(self.entries)
        wanted = [(k, place) for k, e in enumerate(self.entries) if e.run in (None, r) for place in e.places if place.sensor is None]
        plain = [(k, p) for k, p in wanted if not p.path.endswith(APART) and not (p.path.startswith("actuator.") and p.path.endswith(TIMING))]
        paths = [place.path for _, place in plain] + [path for group, _ in bodies for path in group.paths]
        found = columns(run.structure, numbers, point, paths, model, frames)
        for (k, place), residual, constraint in zip(plain, found.residual, found.constraint, strict=False):
            slope = place.slope(theta[k], known)
            yield [k], slope * residual[None], slope * constraint[None]
        ten = found.residual[len(plain) :].reshape(len(bodies), 10, *found.residual.shape[1:])
        for (group, at), residual in zip(bodies, ten, strict=True):
            by = np.einsum("avm,ak->kvm", residual, group.jacobian(theta[at]))
            yield np.arange(len(theta))[at].tolist(), by, np.zeros((len(by), *found.constraint.shape[1:]))

    def settled(self, x: Sequence[States], theta: np.ndarray) -> tuple[Problem, list[States]] | None:
        """Impacts that are in another interval now, slip instead of sticking, or are none."""
        found = {
            r: settled(run, *self.model_of(r, theta)[:2], x[r], self._balanced(r, x[r], theta)) for r, run in enumerate(self.runs) if isinstance(run, Struck)
        }
        changed = {r: new for r, new in found.items() if new is not None}
        if not changed:
            return None
        runs = tuple(changed[r][0] if r in changed else run for r, run in enumerate(self.runs))
        return replace(self, runs=runs), [changed[r][1] if r in changed else states for r, states in enumerate(x)]

    def _balanced(self, r: int, states: States, theta: np.ndarray) -> bool:
        """Whether the equations of a run hold well enough for the forces of its contacts to mean something."""
        run = self.runs[r]
        if PUSHES not in states.parts:
            return True
        usual = float(np.median(np.abs(states.parts[PUSHES][:, 0])))
        return float(np.abs(self._values(r, states, theta)[1][run.layout.row_place[BALANCE]]).max(initial=0.0)) < BALANCED * usual

    @property
    def tethered(self) -> np.ndarray:
        """The nodes of the motion [rad, m], and times of impacts [steps]; forces and noise follow it."""
        out = []
        for run in self.runs:
            held = np.arange(run.layout.size) < run.layout.place[NODES].stop
            if isinstance(run, Struck):
                held[run.layout.member(IMPACTS, 0)] = True
            out.append(held)
        return np.concatenate(out).astype(float)

    def move(self, x: Sequence[States], d: np.ndarray) -> list[States]:
        ends = np.cumsum([run.layout.size for run in self.runs])
        return [run.move(motion, part) for run, motion, part in zip(self.runs, x, np.split(d, ends[:-1]), strict=True)]


def _by_block(run: Run, model: Model, found: Sequence[Predicted]) -> dict[str, list[Sparse]]:
    """Derivatives by the deviations of noisy drives, one row for each."""
    out: dict[str, list[Sparse]] = {}
    for k, prediction in enumerate(found):
        for block, by in run.by_drives(model, prediction.sampled):
            rows = out.setdefault(block, [sp.csr_matrix((1, by.shape[1]))] * len(found))
            rows[k] = rows[k] + by
    return out


def owners(structure: Structure) -> list[str]:
    """What has the law of every coordinate: joints by their name, transmissions by their path (as of `rubbing`)."""
    return [name if kind == "joint" else f"{kind}.{name}" for kind, name in structure.law_owners]


def multipliers_of(run: Run, model: Model, numbers: Numbers, motion: States) -> States:
    """Constraint forces that leave the smallest residual at every node: linear least squares, node by node."""
    if not run.active.any():
        return motion
    result = evaluate(run.structure, numbers, run.point(model, numbers, motion.changed(multipliers=np.zeros((run.structure.nc, run.K)))))
    lam = np.zeros((run.structure.nc, run.K))
    for k in range(1, run.K - 1):
        G = result.dense_gradient(k)[run.rows[:, k]]
        lam[run.rows[:, k], k] = np.linalg.lstsq(run.h * G.T, result.residual[:, k - 1], rcond=None)[0]
    return motion.changed(multipliers=lam)


def independent(structure: Structure, numbers: Numbers, q: np.ndarray) -> np.ndarray:
    if not structure.nc:
        return np.ones(0, dtype=bool)
    return host.independent_rows(structure, host.configuration(structure, numbers, q).G, numbers.softness)
