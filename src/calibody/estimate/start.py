"""A first motion without any guess: smooth coordinates that explain the observations, with closed loops, and no dynamics yet.

    minimise  1/2 sum |(y - o(q))/sd|^2 + 1/2 sum |q_(k+1) - 2 q_k + q_(k-1)|^2/smooth^2     subject to  g(q_k) = 0

is a smoothing spline on the manifold: inverse kinematics of all nodes at once, for angles, markers and positions alike; gaps are bridged
and coordinates that nobody observes stay still; those whose rates alone are observed begin near rest, or where they are known to (`ADRIFT`). `smooth` is chosen so that the spline passes what is slower than a cutoff:
at the angular frequency w the data weigh 1/(sd^2 dt) per second and the smoothness (w h)^4/(smooth^2 h). The cutoff is `CUTOFF`, raised where that
leaves more than the noise, as long as Mallows' statistic falls: `sum of squares/sd^2 + 2 p`, `p = 2.22 cutoff T` the trace of the spline of a channel
of duration T (the integral of 1/(1 + (f/cutoff)^4)). Coordinates that are observed themselves have a cutoff each. A joint that sticks and slips
needs it: Gauss-Newton has to start on the right side of its friction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate import observe
from calibody.estimate.contacts.flights import Struck
from calibody.estimate.layout import NODES, States
from calibody.estimate.observe import Data
from calibody.estimate.observed import Predicted, Sensors, predicted, sensor
from calibody.estimate.robust import REWEIGHTINGS, weights
from calibody.estimate.run import Run
from calibody.mechanics import assembly, host
from calibody.mechanics.assembly import Frames
from calibody.mechanics.kinematics import difference, retract
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model
from calibody.recording.orientations import rotations
from calibody.recording.recording import Initial
from calibody.solve.condensed import Linearisation, Sparse
from calibody.solve.gauss_newton import AbstractProblem, Settings, Solution, minimise
from calibody.spatial import algebra as al
from calibody.steppers.base import Start
from calibody.steppers.start import free_start, stiffened

WALKED = 400
"""Instants at which the first motion is found one after the other."""
TETHER = 30.0
"""How far [rad, m per unit of a channel] a coordinate that nobody observes is let go from one instant to the next."""
ADRIFT = 0.1
"""How far [rad, m] from rest, or from its known start, a coordinate may begin of which rates alone are observed."""
FIRST, NEXT = 60, 8
"""Most steps for the first instant, and for each of the others."""
CUTOFF = 10.0
"""Hz: what is faster in the recordings of mechanisms is mostly noise ([marklund2025], section 4.4 uses the same)."""
FASTER, RAISES = 1.5, 5
"""A cutoff is raised by this factor at a time, and so many times at most (to 76 Hz)."""
TRACE = float(np.pi / np.sqrt(2.0))
"""Integral of 1/(1 + f^4) over all f, both signs."""


class Smoothing(AbstractProblem):
    """The spline of one run; no parameters."""

    def __init__(self, run: Run, model: Model, numbers: Numbers, sensors: Sensors) -> None:
        self.run, self.model, self.numbers, self.sensors = run, model, numbers, sensors
        self.lower = self.upper = self.scale = np.zeros(0)
        self.data = [d for d in run.data if observe.is_kinematic(d.channel)]
        if all(observe.is_initial(d.channel) for d in self.data) and not run.structure.prescribed:
            what = "forces or accelerations" if any(observe.is_acceleration(d.channel) for d in run.data) else "forces"
            raise CalibodyError(f'The run "{run.recording.name}" observes {what} only; at least one angle, position or rate is needed.')
        rates = [np.median(np.diff(d.times)) for d in self.data if len(d.times) > 1]
        self.dt = float(np.median(rates)) if rates else run.h
        self.fastest = 0.2 / self.dt
        self.cutoff = np.full(run.structure.nv, min(CUTOFF, self.fastest))
        self.rest = resting(run.structure, model, run.recording.initial)[:, None]
        self.adrift = self._adrift()

    def _adrift(self) -> np.ndarray:
        """Velocities of which rates alone are observed: nothing says where they begin."""
        rates = np.array([observe.is_rate(d.channel) for d in self.data])
        return np.unique(np.concatenate([np.zeros(0, dtype=int), *(dofs for dofs, at in self.parts() if rates[at].all())]))

    @property
    def sd(self) -> float:
        """Of the channels' noise."""
        sds = [self.run.noise.measured[d.channel.path] for d in self.data if not observe.is_initial(d.channel)]
        return float(np.median(sds)) if sds else 1.0

    @property
    def smooth(self) -> np.ndarray:
        """Of every velocity."""
        return (2.0 * np.pi * self.cutoff * self.run.h) ** 2 * self.sd * np.sqrt(self.dt / self.run.h)

    def parts(self) -> list[tuple[np.ndarray, list[int]]]:
        """(velocities, channels) that belong together: one coordinate and what observes it, or all of them."""
        run, s = self.run, self.run.structure
        if not observed_directly(run):
            return [(np.arange(s.nv), list(range(len(self.data))))]
        dof = [int(plan_of(s).coordinate_dof[s.coordinate_index[d.channel.name]]) for d in self.data]
        return [(np.array([i]), [k for k, j in enumerate(dof) if j == i]) for i in sorted(set(dof))]

    def misfit(self, x: States) -> np.ndarray:
        """Sum of squares of every channel in units of its noise."""
        both = zip(self.data, self._predicted(x), strict=True)
        return np.array([float(np.sum(((found.value - d.y) * self.run.weight(d)) ** 2)) for d, found in both])

    def _predicted(self, x: States) -> list[Predicted]:
        frames = assembly.frames(self.run.structure, self.numbers, self.run.point(self.model, self.numbers, x))
        return [predicted(self.run, self.model, self.numbers, frames, x.multipliers, self.sensors, d) for d in self.data]

    def values(self, x: States, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        run = self.run
        F = [(found.value - d.y) * run.weight(d) for d, found in zip(self.data, self._predicted(x), strict=True)]
        return np.concatenate([*F, self._bent(x), self._away(x)]), self._loops(x)[0] if run.active.any() else np.zeros(0)

    def _bent(self, x: States) -> np.ndarray:
        """Second differences over what the spline allows them; where one flight ends and the next begins, how far they are apart there, over the noise."""
        step = difference(self.run.structure, x.q[:, 1:], x.q[:, :-1])
        bent = np.diff(step, axis=1) / self.smooth[:, None]
        if isinstance(self.run, Struck):
            bent[:, self.run.seams - 1] = self.run.apart(x) / self.sd
            bent[:, self.run.seams] = 0.0
        return bent.T.ravel()

    def _bending(self) -> Sparse:
        """Its derivative; of rotations as if they were small between neighbours."""
        run = self.run
        D = sp.diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(run.K - 2, run.K), format="csr")  # type: ignore[arg-type]
        if not isinstance(run, Struck):
            return sp.kron(D, sp.diags(1.0 / self.smooth))
        joined = run.joints()
        inside = sp.diags(np.where(np.isin(np.arange(run.K - 2), np.concatenate([run.seams - 1, run.seams])), 0.0, 1.0))
        return sp.kron(inside @ D, sp.diags(1.0 / self.smooth)) + sp.kron(joined, sp.identity(run.structure.nv) / self.sd)

    def _away(self, x: States) -> np.ndarray:
        """How far coordinates that are adrift begin from rest, or from their known start, over what they may."""
        return difference(self.run.structure, x.q[:, :1], self.rest)[self.adrift, 0] / ADRIFT

    def linearise(self, x: States, theta: np.ndarray) -> Linearisation:
        run, s = self.run, self.run.structure
        F, Fx = [], []
        for d, found in zip(self.data, self._predicted(x), strict=True):
            weight = run.weight(d)
            F.append((found.value - d.y) * weight)
            Fx.append(observe.weighed(found.matrix(s.nv), weight))
        F.append(self._bent(x))
        Fx.append(self._bending())
        F.append(self._away(x))
        Fx.append(sp.csr_matrix((np.full(len(self.adrift), 1.0 / ADRIFT), (np.arange(len(self.adrift)), self.adrift)), shape=(len(self.adrift), s.nv * run.K)))
        C, Cx = np.zeros(0), sp.csr_matrix((0, s.nv * run.K))
        if run.active.any():
            C, Cx = self._loops(x)
        return Linearisation(np.concatenate(F), sp.vstack(Fx, format="csr"), np.zeros((sum(map(len, F)), 0)), C, Cx, np.zeros((len(C), 0)), self._when(len(C)))

    def _when(self, constraints: int) -> np.ndarray:
        """Nodes and their constraints in the order of time."""
        K, when = self.run.K, self.run.layout.by_name[NODES].when
        return np.concatenate([np.repeat(when, self.run.structure.nv), np.repeat(when + 0.5, constraints // K)])

    def reweigh(self, x: States) -> None:
        """Weights of the run's samples from their residuals."""
        new = dict(self.run.weights)
        for d, found in zip(self.data, self._predicted(x), strict=True):
            new[d.channel.path] = weights((found.value - d.y) / d.relative, self.run.noise.measured[d.channel.path])
        self.run = replace(self.run, weights=new)

    def _loops(self, x: States) -> tuple[np.ndarray, Sparse]:
        from calibody.mechanics.equations import evaluate

        run, s = self.run, self.run.structure
        result = evaluate(s, self.numbers, run.point(self.model, self.numbers, x))
        kept = (run.mask & ~s.rolling[:, None]).T.ravel()
        return result.constraint.T.ravel()[kept], run.gradient_matrix(result)[kept]

    def move(self, x: States, d: np.ndarray) -> States:
        return x.changed(nodes=retract(self.run.structure, x.q, d.reshape(self.run.K, -1).T))


def first_motion(run: Run, model: Model, numbers: Numbers, sensors: Sensors, robust: bool = False) -> tuple[Run, States]:
    """The run with the weights of its samples, and coordinates of all nodes; multipliers and noise zero. `sensors` have the channels' bias, gain and delay; `robust` weighs outliers down."""
    spline = Smoothing(run, model, numbers, sensors)
    states = run.still(resting(run.structure, model, run.recording.initial)) if observed_directly(run) else walked(run, model, sensors)
    solution = minimise(spline, states, np.zeros(0), Settings(iterations=30))
    if not robust:
        solution = quickened(spline, solution)
    for _ in range(REWEIGHTINGS if robust else 0):
        spline.reweigh(solution.x)
        solution = minimise(spline, solution.x, np.zeros(0), Settings(iterations=30))
    return spline.run, solution.x


def observed_directly(run: Run) -> bool:
    """Whether every channel is a coordinate of its own."""
    return (
        run.structure.coordinates == TREE
        and not run.active.any()
        and all(d.channel.kind == "joint" and not d.channel.components for d in run.data if observe.is_kinematic(d.channel))
    )


def quickened(spline: Smoothing, solution: Solution) -> Solution:
    """The spline with its cutoffs raised where they leave more than noise."""
    misfit, count = spline.misfit(solution.x), np.array([len(d.y) for d in spline.data])
    duration = spline.run.times[-1] - spline.run.times[0]
    going = spline.parts()
    for _ in range(RAISES):
        going = [(dofs, at) for dofs, at in going if misfit[at].sum() > count[at].sum() and FASTER * spline.cutoff[dofs[0]] <= spline.fastest]
        if not going:
            break
        for dofs, _at in going:
            spline.cutoff[dofs] *= FASTER
        trial = minimise(spline, solution.x, np.zeros(0), Settings(iterations=30))
        lower, better = spline.misfit(trial.x), []
        for dofs, at in going:
            more = 2.0 * TRACE * len(at) * duration * spline.cutoff[dofs[0]] * (1.0 - 1.0 / FASTER)
            if lower[at].sum() + more < misfit[at].sum():
                better.append((dofs, at))
            else:
                spline.cutoff[dofs] /= FASTER
        if not better:
            break
        whole = len(better) == len(going)
        solution = trial if whole else minimise(spline, solution.x, np.zeros(0), Settings(iterations=30))
        going, misfit = better, lower if whole else spline.misfit(solution.x)
    return solution


def walked(run: Run, model: Model, sensors: Sensors) -> States:
    """Inverse kinematics node after node, each from the one before: turns are counted and loops stay on their branch.

    At at most `WALKED` instants, in joint coordinates: `minimise |o(q) - y|^2 + |q - before|^2/TETHER^2` subject to closed loops. Of an orientation Y the
    deviation is log(R'Y).
    """
    rigid = stiffened(model)
    tree = Structure.build(rigid, TREE)
    numbers = Numbers.of(tree)
    picked = np.unique(np.linspace(0, run.K - 1, min(run.K, WALKED)).round().astype(int))
    seen = [d for d in run.data if observe.is_kinematic(d.channel) and not (observe.is_rate(d.channel) or observe.is_initial(d.channel))]
    targets = [Target(d, run.times[picked], sensors) for d in (*seen, *_prescribed(run))]
    own = {
        d.channel.name: float(target.y[0])
        for d, target in zip((*seen, *_prescribed(run)), targets, strict=True)
        if d.channel.kind == "joint" and not d.channel.components
    }
    q = resting(tree, rigid, run.recording.initial, own)
    nodes = []
    for k in range(len(picked)):
        q = reached(tree, rigid, numbers, [(target, k) for target in targets], q, FIRST if k == 0 else NEXT)
        nodes.append(q if run.structure.coordinates == TREE else free_start(tree, run.structure, numbers, Start(q, np.zeros(tree.nv), q)).q)
    found = np.stack(nodes, axis=1)
    where = np.clip(np.searchsorted(picked, np.arange(run.K), side="right") - 1, 0, len(picked) - 2)
    part = (np.arange(run.K) - picked[where]) / (picked[where + 1] - picked[where])
    step = difference(run.structure, found[:, where + 1], found[:, where])
    return run.still(found[:, 0]).changed(nodes=retract(run.structure, found[:, where], part * step))


def reached(tree: Structure, model: Model, numbers: Numbers, targets: Sequence[tuple[Target, int]], q: np.ndarray, steps: int) -> np.ndarray:
    """Inverse kinematics of one instant (of each target its own number), from q."""
    for _ in range(steps):
        c = host.configuration(tree, numbers, q)
        J, miss = np.zeros((len(targets), tree.nv)), np.zeros(len(targets))
        for i, (target, k) in enumerate(targets):
            dofs, J[i, dofs], miss[i] = target.row(tree, model, numbers, c.frames, k)
        H = J.T @ J + np.eye(tree.nv) / TETHER**2
        G, g = c.G[~tree.rolling], c.g[~tree.rolling]  # what rolls is left to the dynamics
        K = np.block([[H, G.T], [G, np.zeros((len(G), len(G)))]])
        d = np.linalg.lstsq(K, np.concatenate([J.T @ miss, -g]), rcond=1e-12)[0][: tree.nv]
        q = retract(tree, q[:, None], (d * min(1.0, 0.5 / max(float(np.abs(d).max()), 1e-300)))[:, None])[:, 0]
        if float(np.abs(d).max()) < 1e-4:
            break
    return q


class Target:
    """A channel at some instants, as its sensor's bias and gain let the mechanism be seen; `clocked`: they follow one another in time."""

    def __init__(self, d: Data, times: np.ndarray, sensors: Sensors, clocked: bool = True) -> None:
        self.channel, self.rotation, self.turns, self.clocked = d.channel, None, None, clocked
        if d.rotation is None:
            gain = sensor(sensors, d.channel, "gain") or 1.0
            self.y = (np.interp(times, d.times, lowpass(d) if clocked else d.y) - sensor(sensors, d.channel, "bias")) / gain
            return
        whole = d.channel.whole
        askew = rotations(-np.array([[sensors.get((f"{whole}.{c}", "bias"), 0.0)] for c in d.channel.components]))[..., 0]
        nearest = np.abs(np.subtract.outer(times, d.times)).argmin(axis=1)
        self.rotation = np.einsum("ijk,jl->kil", d.rotation[..., nearest], askew)

    def row(self, tree: Structure, model: Model, numbers: Numbers, frames: Frames, k: int) -> tuple[np.ndarray, np.ndarray, float]:
        """dofs, gradient and deviation at instant k."""
        if self.rotation is not None:
            R, dofs, w = observe.orientation(tree, model, numbers, frames, self.channel)
            miss = al.matrix_log(tuple(map(tuple, R[..., 0].T @ self.rotation[k])))  # type: ignore[arg-type]
            return dofs, R[:, self.channel.component, 0] @ w[..., 0], float(miss[self.channel.component])  # type: ignore[index]
        node = observe.at_nodes(tree, model, numbers, frames, self.channel)
        if self.turns is None or not self.clocked:  # of an absolute angle, as the first instant is nearest
            free = self.channel.kind == "body" and self.channel.quantity == "angle"
            self.turns = observe.TURN * np.round((self.y[k] - node.value[0]) / observe.TURN) if free else 0.0
        return node.dofs, node.gradient[:, 0], float(self.y[k] - self.turns - node.value[0])


def _prescribed(run: Run) -> list[Data]:
    """What drives prescribe, as if it were observed."""
    return [Data(channel, values, run.times, *run.sampled(channel, run.times)) for channel, values in zip(run.structure.prescribed, run.given, strict=True)]


def lowpass(d: Data) -> np.ndarray:
    """A channel's samples without what single outliers add: the median of five."""
    from scipy.ndimage import median_filter

    return median_filter(d.y, 5, mode="nearest") if len(d.y) > 10 else d.y


def resting(structure: Structure, model: Model, initial: Mapping[str, Initial] | None = None, seen: Mapping[str, float] | None = None) -> np.ndarray:
    """All joints at their reference, where they are seen to begin (hinges and slides by name), or where they are known to start, in the coordinates of the structure, loops closed.

    Loops have branches: closed with all joints at their reference, what an arm grips may be a long way from where it was.
    """
    rigid = stiffened(model)
    tree = Structure.build(rigid, TREE)
    numbers = Numbers.of(tree)
    q = host.zero_coordinates(tree, numbers)
    for name, value in (seen or {}).items():
        q[tree.scalar_positions[tree.coordinate_index[name]]] = value
    for path, known in (initial or {}).items():
        channel = observe.start_channel(model, path)
        if not observe.is_rate(channel):
            q[tree.scalar_positions[tree.coordinate_index[channel.name]]] = known.value
    q = host.closed(tree, numbers, q, np.zeros(tree.nv, dtype=bool), "euclidean", 1.0)
    if structure.coordinates == TREE:
        return q
    return free_start(tree, structure, numbers, Start(q, np.zeros(tree.nv), q)).q
