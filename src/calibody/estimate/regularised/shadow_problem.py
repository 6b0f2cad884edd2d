"""Joint estimation of states and parameters in a regularised fixed-step engine [marklund2025], as a least-squares problem.

Unknown are the states `x_k = (q_k, v_k)` of every step in maximal coordinates, and theta:

    minimise  kappa/sd^2 sum |dp_k|^2 + sum |(o(x_k, theta) - y_k)/sd|^2 + priors      within bounds on theta

with dp the impulses between neighbouring states that the engine's own equations do not explain (`steppers/spook_transition.py`). kappa weighs them
relative to observations of unit weight, as in the paper; sd in the first term is the root mean square of those of the channels. With
`formulation = "lifted"` the impulses of the joints are unknowns too and the engine's equations for them are equations of the problem: the same minimum,
but nothing is divided by the compliance, and the iteration does not break down where that is small.

Observations are taken at the nodes: for every node the sample nearest to it, at its own time by linear interpolation between neighbouring nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.nodes import Nodes, Noise
from calibody.estimate.observe import Data
from calibody.estimate.observed import SENSOR, Observed, Predicted, Sensors, predicted, sensor
from calibody.estimate.unknowns import Entry, values_at
from calibody.mechanics import assembly
from calibody.mechanics.assembly import Frames
from calibody.mechanics.channels import Channel
from calibody.mechanics.kinematics import retract
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import Numbers, Structure
from calibody.model import Model
from calibody.model.elements import INERTIAL, PLACE
from calibody.model.paths import number_at
from calibody.recording.recording import Recording
from calibody.solve.chain import Chain, Rows as ChainRows
from calibody.solve.condensed import Sparse
from calibody.steppers.motion import Motion
from calibody.steppers.spook import Spook
from calibody.steppers.spook_rows import Rows, Values, step_velocities
from calibody.steppers.spook_transition import Place, Signals, Transition

DIFFERENCE = 1e-4
"""Step of the differences by parameters, relative to their scales: most enter linearly, where any step is exact; for the others its square is the error."""


@dataclass(frozen=True)
class States:
    """The unknowns of one run: q (nq, K), v (K, nv) of centres of mass in world axes, lam (K, 2 nc) if lifted."""

    q: np.ndarray
    v: np.ndarray
    lam: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Steps(Nodes):
    """A recording at the steps of an engine: h is exact, the end is cut."""

    near: np.ndarray | None = None
    """(scalar coordinates,) where hinges are at the first node, to within half a turn; None: within half a turn of zero."""

    @classmethod
    def of(cls, structure: Structure, recording: Recording, h: float, noise: Noise) -> Steps:
        count = int(np.floor((recording.end - recording.start) / h + 1e-6)) + 1
        return cls(structure, recording, recording.start + h * np.arange(count), h, noise).with_data()

    def wanted(self, times: np.ndarray) -> np.ndarray:
        """The sample nearest to each node, if it is within half a step or half a sampling period."""
        out = np.zeros(len(times), dtype=bool)
        if not len(times):
            return out
        h = self.h
        node = np.round((times - self.times[0]) / h).astype(int)
        away = np.abs(times - self.times[0] - node * h)
        period = float(np.median(np.diff(times))) if len(times) > 1 else h
        order = np.lexsort((away, node))
        first = np.concatenate([[True], np.diff(node[order]) > 0])
        out[order[first]] = True
        return out & (away <= 0.5 * min(h, period) * (1.0 + 1e-6))

    def interpolation(self, times: np.ndarray) -> Sparse:
        place = np.clip((times - self.times[0]) / self.h, 0.0, self.K - 1.0)
        nearest = np.round(place)
        place = np.where(np.abs(place - nearest) < 1e-9 * self.K, nearest, place)  # samples at nodes depend on these alone
        left = np.minimum(np.floor(place).astype(int), self.K - 2)
        part, rows = place - left, np.arange(len(times))
        W = sp.csr_matrix((np.concatenate([1.0 - part, part]), (np.tile(rows, 2), np.concatenate([left, left + 1]))), shape=(len(times), self.K))
        W.eliminate_zeros()
        return W

    def sampled_rates(self, channel: Channel, times: np.ndarray, W: Sparse, dW: Sparse) -> tuple[Sparse, Sparse]:
        """The engine's velocity is that of the step before a node; the rate at the node is the mean of two steps, taken at the nearest node."""
        k = np.arange(self.K)
        mean = sp.csr_matrix((np.full(2 * self.K, 0.5), (np.tile(k, 2), np.concatenate([k, np.minimum(k + 1, self.K - 1)]))), shape=(self.K, self.K))
        return self.interpolation(self.times[0] + self.h * np.round((times - self.times[0]) / self.h)) @ mean, dW @ mean


class ShadowProblem(Observed[Steps, States]):
    METHOD: ClassVar[str] = 'method = "shadow"'
    """What asks for it, for sentences."""
    STARTS: ClassVar[bool] = False
    """Whether starts may be known exactly."""

    def __init__(self, runs: Sequence[Steps], entries: Sequence[Entry], kappa: float, stepper: Spook, lifted: bool) -> None:
        super().__init__(tuple(runs), tuple(_cannot_push(e) for e in entries))
        self.check()
        self.kappa, self.engine, self.lifted = kappa, stepper, lifted
        structure = runs[0].structure
        paths = [p.path for e in entries for p in e.places if p.sensor is None]
        self.rows = Rows.of(structure, Numbers.of(structure), paths)
        _check(structure, self.rows, stepper, self.METHOD)
        if not self.STARTS and any(run.known_start(exact=True) for run in runs):
            raise CalibodyError(f'{self.METHOD} takes initial values with an sd only; give {{ value = ..., sd = ... }}, or use method = "transcription".')
        other = (d.channel.path for run in runs for d in run.data if not observe.is_kinematic(d.channel) or d.channel.quantity == "angular_rate")
        if (path := next(other, None)) is not None:
            what = {"acceleration": "accelerometers", "angular_rate": "gyroscopes on sites"}.get(path.split(".")[-2], "forces")
            raise CalibodyError(f'{self.METHOD} does not observe {what} yet ({path}); use method = "transcription".')
        self.transition = Transition(self.rows, runs[0].h)
        self._last: dict[int, tuple[States, np.ndarray, tuple[Model, Numbers, Values, dict[tuple[str, str], float], Place]]] = {}
        self._slopes: dict[int, tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]] = {}
        sds = np.concatenate([list(run.noise.measured.values()) for run in runs])
        self.weight = float(np.sqrt(kappa) / np.sqrt(np.mean(sds**2)))

    # -- one run ---------------------------------------------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Unknowns of a node."""
        s = self.runs[0].structure
        return 2 * s.nv + (2 * s.nc if self.lifted else 0)

    def numbers_of(self, r: int, theta: np.ndarray) -> tuple[Model, Numbers, Values, dict[tuple[str, str], float]]:
        model, numbers, sensors = self.model_of(r, theta)
        return model, numbers, self.engine.values(self.rows, numbers, model, possible=False), sensors

    def _placed(self, r: int, states: States, theta: np.ndarray) -> tuple[Model, Numbers, Values, dict[tuple[str, str], float], Place]:
        """Numbers and kinematics, kept from the last call: a step that is accepted is linearised where it was judged."""
        kept = self._last.get(r)
        if kept is None or kept[0] is not states or not np.array_equal(kept[1], theta):
            numbers = self.numbers_of(r, theta)
            kept = states, theta.copy(), (*numbers, self.transition.place(numbers[1], numbers[2], states.q, states.v, self.runs[r].near))
            self._last[r] = kept
        return kept[2]

    def placed(self, r: int, states: States, theta: np.ndarray) -> Place:
        """The kinematics of a motion."""
        return self._placed(r, states, theta)[4]

    def forget(self) -> None:
        """What was kept of the last motion."""
        self._last.clear()

    def velocities(self, r: int, theta: np.ndarray, q: np.ndarray, first: np.ndarray) -> np.ndarray:
        """(K, nv): the velocities that have taken the engine from node to node, `first` being that before the first step."""
        return np.concatenate([first[None], step_velocities(self.runs[r].structure, self.numbers_of(r, theta)[2], q, self.runs[r].h).T])

    def started(self, r: int, states: States, theta: np.ndarray) -> list[tuple[Data, Predicted]]:
        """What is known exactly at the first node, as the motion has it; no sensor is between."""
        model, numbers, _, _, p = self._placed(r, states, theta)
        return [(d, self._predicted(r, p, states, model, numbers, {}, d)) for d in self.runs[r].known_start(exact=True)]

    def _signals(self, r: int, model: Model) -> Signals:
        return Signals(*self.runs[r].drives(model))

    def frames(self, r: int, motion: States, model: Model, numbers: Numbers) -> Frames:
        s = self.runs[r].structure
        return assembly.frames_at(s, numbers, motion.q, assembly.turns_along(s, numbers, motion.q, self.runs[r].near))

    def multipliers(self, motion: States) -> np.ndarray:
        """None of them is observed (see `_check`)."""
        return np.zeros((self.rows.structure.nc, motion.q.shape[1]))

    def motion(self, r: int, states: States, theta: np.ndarray) -> Motion:
        run = self.runs[r]
        s = run.structure
        model, numbers, values, _, p = self._placed(r, states, theta)
        lam = self.transition.eliminated(values, p, states.v) if states.lam is None else states.lam
        reactions = np.zeros((s.nc, run.K))
        reactions[:, :-1] = lam[1:, s.nc :].T / run.h  # node k carries the impulse of the step that begins there
        reactions[:, -1] = reactions[:, -2]
        control, applied = run.drives(model)
        rate = _free_rates(p, states.v[0])
        turns = assembly.turns_along(s, numbers, states.q, run.near)
        return Motion(
            model=model,
            structure=s,
            numbers=numbers,
            h=run.h,
            q=states.q,
            multipliers=reactions,
            control=control,
            applied=applied,
            turns=turns,
            delta=1.0,
            start_rate=rate,
            joint_rate=_joint_rates(s, p, states.v[0]),
            active=np.ones(s.nc),
            iterations=0,
            notes=model.notes,
            start=float(run.times[0]),
        )

    def stepper(self) -> Spook:
        return self.engine

    def start_multipliers(self, r: int, theta: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """(K, 2 nc): impulses of the joints that leave least of the balance unexplained, step by step; none for the first state."""
        model, numbers, values, _ = self.numbers_of(r, theta)
        p = self.transition.place(numbers, values, q, v)
        nv, nc = self.transition.nv, self.transition.nc
        nothing = np.zeros((len(v), 2 * nc))
        missing = self.transition.values(values, p, self._signals(r, model), v, nothing)[1:, : 2 * nv]
        G = p.G.first[:-1]
        gram = G @ G.swapaxes(1, 2)
        gram = gram + 1e-9 * np.trace(gram, axis1=1, axis2=2)[:, None, None] / max(nc, 1) * np.eye(nc)
        both = [np.linalg.solve(gram, G @ part[..., None])[..., 0] for part in (missing[:, :nv], missing[:, nv:])]
        return np.concatenate([nothing[:1], np.concatenate(both, axis=1)])

    # -- the problem -----------------------------------------------------------------------------------------------------------------

    def values(self, x: Sequence[States], theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        loose, dynamic, equations = [self.prior(theta)], [], []
        for r, states in enumerate(x):
            try:
                model, numbers, values, sensors, p = self._placed(r, states, theta)
            except CalibodyError:
                return np.full(1, np.inf), np.full(1, np.inf)
            out = self.transition.values(values, p, self._signals(r, model), states.v, states.lam)
            size = 2 * self.transition.nv
            dynamic.append(self.weight * out[:, :size].ravel())
            equations.append(out[:, size:].ravel())
            for d in self.runs[r].data:
                loose.append((self._predicted(r, p, states, model, numbers, sensors, d).value - d.y) * self.runs[r].weight(d))
        return np.concatenate(loose + dynamic), np.concatenate(equations)

    def linearise(self, x: Sequence[States], theta: np.ndarray) -> Chain:
        loose, loose_x, loose_t = [self.prior(theta)], [], [self.prior_slope().toarray()]
        residuals, equations = [], []
        n, size = self.width, 2 * self.transition.nv
        for r, states in enumerate(x):
            model, numbers, values, sensors, p = self._placed(r, states, theta)
            outside = self._signals(r, model)
            b = self.transition.blocks(values, p, outside, states.v, states.lam)
            t = self._by_parameters(r, theta, states, values, p, outside, b.value)
            before, after = b.before, b.after
            if self.lifted:
                before, after = np.concatenate([before, np.zeros_like(b.by_multipliers)], axis=2), np.concatenate([after, b.by_multipliers], axis=2)
            rows = b.value, before, after, t
            for a in rows:
                a[:, :size] *= self.weight
            residuals.append(ChainRows(*(a[:, :size] for a in rows)))
            equations.append(ChainRows(*(a[:, size:] for a in rows)))
            f, fx, ft = self._observed(r, theta, p, states, model, numbers, sensors)
            loose.append(f)
            loose_x.append(fx)
            loose_t.append(ft)
        sparse = sp.vstack([sp.csr_matrix((len(loose[0]), n * sum(run.K for run in self.runs))), sp.block_diag(loose_x)], format="csr")
        return Chain(_stacked(residuals), _stacked(equations), np.concatenate(loose), sparse, np.concatenate(loose_t), n - 2 * self.transition.nv)

    def move(self, x: Sequence[States], d: np.ndarray) -> list[States]:
        out, first = [], 0
        for run, states in zip(self.runs, x, strict=True):
            s = run.structure
            step = d[first : first + run.K * self.width].reshape(run.K, self.width)
            first += run.K * self.width
            lam = None if states.lam is None else states.lam + step[:, 2 * s.nv :]
            out.append(States(retract(s, states.q, step[:, : s.nv].T), states.v + step[:, s.nv : 2 * s.nv], lam))
        return out

    # -- observations ----------------------------------------------------------------------------------------------------------------

    def _rate(self, r: int, p: Place, states: States, d: Data, delay: float) -> observe.Sampled:
        """The rate of a joint follows from the velocities, which are unknowns beside the tangents."""
        s = self.runs[r].structure
        c = observe.rate_index(s, d.channel)
        value = np.einsum("kj,kj->k", p.N.first[:, c], states.v)
        by_place = p.N.along(states.v)[:, c]
        gradient = np.concatenate([(by_place[:, None, :] @ self.transition.tangents(p))[:, 0], p.N.first[:, c]], axis=1)
        W, dW = self.runs[r].sampled(d.channel, d.times - delay) if delay else (d.W, d.dW)
        return observe.Sampled(W @ value, dW @ value, lambda width: observe.NodeValues(value, np.arange(2 * s.nv), gradient.T).matrix(width, W), W.dot)

    def _predicted(self, r: int, p: Place, states: States, model: Model, numbers: Numbers, sensors: Sensors, d: Data) -> Predicted:
        if d.channel.quantity != "rate":
            return predicted(self.runs[r], model, numbers, p.frames, self.multipliers(states), sensors, d)
        gain, bias, delay = (sensor(sensors, d.channel, kind) for kind in SENSOR)
        return Predicted(self._rate(r, p, states, d, delay), gain, bias)

    def fitted(self, r: int, states: States, theta: np.ndarray) -> list[tuple[Data, np.ndarray]]:
        model, numbers, _, sensors, p = self._placed(r, states, theta)
        return [(d, self._predicted(r, p, states, model, numbers, sensors, d).value) for d in self.runs[r].data]

    def _observed(
        self, r: int, theta: np.ndarray, p: Place, states: States, model: Model, numbers: Numbers, sensors: Sensors
    ) -> tuple[np.ndarray, Sparse, np.ndarray]:
        run = self.runs[r]
        f, fx, first = [], [], 0
        Ft = np.zeros((run.samples, len(self.entries)))
        placements = self.placements(r, theta, model, numbers, p.frames)
        for d in run.data:
            prediction = self._predicted(r, p, states, model, numbers, sensors, d)
            weight = run.weight(d)
            block = prediction.matrix(self.width)
            block.eliminate_zeros()
            f.append((prediction.value - d.y) * weight)
            fx.append(sp.diags(weight) @ block)
            for k, by in self.samples_by_parameters(r, theta, d, prediction, placements).items():
                Ft[first : first + len(d.y), k] = by * weight
            first += len(d.y)
        return np.concatenate(f), sp.vstack(fx, format="csr"), Ft

    # -- parameters ------------------------------------------------------------------------------------------------------------------

    def _by_parameters(self, r: int, theta: np.ndarray, states: States, values: Values, p: Place, outside: Signals, value: np.ndarray) -> np.ndarray:
        """(K, rows, parameters): differences of the residuals; of the forces alone where the parameter places nothing."""
        out = np.zeros((*value.shape, len(self.entries)))
        ends: dict[int, tuple[Values, Values, float]] = {}
        for k, entry in enumerate(self.entries):
            if entry.run not in (None, r) or (entry.places and all(place.sensor is not None for place in entry.places)):
                continue
            step = DIFFERENCE * entry.scale
            if _linear(self.model, entry):
                low = max(-step, min(self.lower[k] - theta[k], 0.0))  # a friction below zero means nothing
                ends[k] = self._moved(k, theta, values, step), self._moved(k, theta, values, low), step - low
                continue
            places = moves_places(self.model, entry)
            late = any(place.path.startswith("actuator.") and place.path.endswith((".delay", ".time_constant")) for place in entry.places)
            step = 0.1 * self.runs[r].h if late else step
            moved = np.stack([theta, theta])
            moved[:, k] = np.clip([theta[k] + step, theta[k] - step], self.lower[k], self.upper[k])
            width = float(moved[0, k] - moved[1, k])
            if width <= 0.0:
                continue
            if all(place.path.startswith("world.gravity") for place in entry.places) and entry.group is None:
                tilted = (self.model.replace(values_at(self.entries, x, r)[0], check=False).gravity for x in moved)
                high, low = (values._replace(base=values.base._replace(gravity=g)) for g in tilted)
                ends[k] = high, low, width
                continue
            both = [self.numbers_of(r, x)[:3] for x in moved]
            if places or late:
                high, low = (
                    self.transition.values(
                        new,
                        self.transition.place(numbers, new, states.q, states.v, self.runs[r].near) if places else p,
                        self._signals(r, model),
                        states.v,
                        states.lam,
                    )
                    for model, numbers, new in both
                )
                out[:, :, k] = (high - low) / width
            else:
                ends[k] = both[0][2], both[1][2], width
        changes = self.transition.change([(high, low) for high, low, _ in ends.values()], p, outside, states.v, states.lam)
        for (k, (_, _, width)), change in zip(ends.items(), changes, strict=True):
            out[:, :, k] = change / width
        return out

    def _moved(self, k: int, theta: np.ndarray, values: Values, step: float) -> Values:
        """The values with parameter k moved, without building the model again: for parameters that enter linearly."""
        if k not in self._slopes:
            ends, unit = [], self.entries[k].scale
            for t in (unit, 0.0):
                moved = theta.copy()
                moved[k] += t
                model, numbers, _ = self.model_of(self.entries[k].run or 0, moved)
                ends.append(self.engine.values(self.rows, numbers, model, possible=False))
            self._slopes[k] = _difference(ends[0], ends[1], unit)
        own, base, elements = self._slopes[k]
        tables = {**values.base.elements, **{name: values.base.elements[name] + step * d for name, d in elements.items()}}
        inner = values.base._replace(elements=tables, **{f: getattr(values.base, f) + step * d for f, d in base.items()})
        return values._replace(base=inner, **{f: getattr(values, f) + step * d for f, d in own.items()})


def _cannot_push(entry: Entry) -> Entry:
    """The engine's rows take energy out only: damping is not negative."""
    damps = any(p.path.endswith(".damping") for p in entry.places)
    return replace(entry, lower=0.0) if damps and entry.lower == -np.inf else entry


def _linear(model: Model, entry: Entry) -> bool:
    """Whether the engine's values are linear in it."""
    return bool(entry.places) and all(p.sensor is None and p.expression is None and number_at(model, p.path).linear for p in entry.places)


def moves_places(model: Model, entry: Entry) -> bool:
    """Whether it moves or shapes anything, a centre of mass included."""
    numbers = [number_at(model, p.path) for p in entry.places if p.sensor is None]
    return entry.group is not None or any(n.role == PLACE or (n.role == INERTIAL and not n.linear) for n in numbers)


def _difference(high: Values, low: Values, step: float) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Slopes of the fields that differ: of the values themselves, of those of `base`, and of its tables of elements."""
    out = []
    for a, b in ((high, low), (high.base, low.base)):
        pairs = [
            (f, getattr(a, f), getattr(b, f))
            for f in a._fields
            if f not in ("base", "geometry", "scale", "elements", "inertia" if a is high.base else "inverse")
        ]
        out.append({f: (x - y) / step for f, x, y in pairs if not np.array_equal(x, y)})
    tables = [(name, x, low.base.elements[name]) for name, x in high.base.elements.items() if not np.array_equal(x, low.base.elements[name])]
    limited = {name: np.subtract(x, y, out=np.zeros_like(x), where=x != y) / step for name, x, y in tables}  # limits may be infinite
    return out[0], out[1], limited


def _stacked(rows: Sequence[ChainRows]) -> ChainRows:
    return rows[0] if len(rows) == 1 else ChainRows(*(np.concatenate([getattr(b, f) for b in rows]) for f in ("value", "before", "after", "by_theta")))


def _free_rates(p: Place, v: np.ndarray) -> np.ndarray:
    """Rates of `free` coordinates (origin in world axes, turn in body axes) from velocities of centres, at the first node."""
    out = v.copy()
    for k in range(p.R.shape[1]):
        R = p.R[0, k]
        omega = v[6 * k + 3 : 6 * k + 6]
        out[6 * k : 6 * k + 3] -= np.cross(omega, R @ p.com[:, k])
        out[6 * k + 3 : 6 * k + 6] = R.T @ omega
    return out


def _joint_rates(structure: Structure, p: Place, v: np.ndarray) -> np.ndarray:
    """Rates of the joints at the first node, in the order of the tree."""
    plan, rates = plan_of(structure), p.N.first[0] @ v
    out = np.zeros(structure.tree_nv)
    scalars = len(plan.coordinate_dof)
    out[plan.coordinate_dof] = rates[:scalars]
    for k, dof in enumerate(plan.ball_dof):
        out[dof : dof + 3] = rates[scalars + 3 * k : scalars + 3 * k + 3]
    return out


def _check(structure: Structure, rows: Rows, stepper: Spook, method: str) -> None:
    model = structure.model
    if unknown := [f"{e.KIND}.{e.name}" for e in (*model.springs, *model.bushings, *model.transmissions, *model.paths)]:
        raise CalibodyError(f'{method} does not know springs between points, bushings and transmissions yet ({unknown[0]}); use method = "transcription".')
    if soft := [f"{x.KIND}.{x.name}" for x in (*model.contacts, *model.limits) if x.compliant]:
        raise CalibodyError(f'{method} does not know compliant contact yet ({soft[0]}); use method = "transcription".')
    if limited := [a.name for a in model.actuators if a.force_range is not None and a.damping]:
        raise CalibodyError(
            f"{method} does not know the damping of a drive whose force is limited yet (actuator.{limited[0]}); "
            f'set actuator.{limited[0]}.damping to zero and estimate the damping of its joint, or use method = "transcription".'
        )
    if any(j.kind in ("ball", "free") and j.stiffness for j in model.joints):
        raise CalibodyError(f'{method} does not know the stiffness of ball joints yet; use method = "transcription".')
    if rows.dry and stepper.slip == 0.0:
        raise CalibodyError(f"Spook(slip=0.0) leaves the friction of joint.{rows.dry[0].joint} undetermined while it sticks; give a slip above zero.")
