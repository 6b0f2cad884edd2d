"""A first motion without any guess: smooth coordinates that explain the observations, with closed loops, and no dynamics yet.

    minimise  1/2 sum |(y - o(q))/sd|^2 + 1/2 sum |q_(k+1) - 2 q_k + q_(k-1)|^2/smooth^2     subject to  g(q_k) = 0

is a smoothing spline on the manifold: inverse kinematics of all nodes at once, for angles, markers and positions alike; gaps are bridged
and coordinates that nobody observes stay still. `smooth` is chosen so that the spline passes what is slower than `CUTOFF`:
at the angular frequency w the data weigh 1/(sd^2 dt) per second and the smoothness (w h)^4/(smooth^2 h).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from calibody.estimate import observe
from calibody.estimate.robust import REWEIGHTINGS, weights
from calibody.estimate.run import Run, States, still
from calibody.mechanics import assembly, host
from calibody.mechanics.kinematics import difference
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model
from calibody.solve.condensed import Linearisation, Sparse
from calibody.solve.gauss_newton import AbstractProblem, Settings, minimise
from calibody.steppers.base import Start
from calibody.steppers.start import free_start

CUTOFF = 10.0
"""Hz: what is faster in the recordings of mechanisms is mostly noise (seed 000, section 4.4 uses the same)."""


class Smoothing(AbstractProblem):
    """The spline of one run; no parameters."""

    def __init__(self, run: Run, model: Model, numbers: Numbers) -> None:
        self.run, self.model, self.numbers = run, model, numbers
        self.lower = self.upper = self.scale = np.zeros(0)
        self.smooth = self._weights()

    def _weights(self) -> float:
        run = self.run
        rates = [np.median(np.diff(d.times)) for d in run.data if len(d.times) > 1]
        dt = float(np.median(rates)) if rates else run.h
        cutoff = min(CUTOFF, 0.2 / dt)
        sd = float(np.median(list(run.noise.measured.values())))
        return (2.0 * np.pi * cutoff * run.h) ** 2 * sd * np.sqrt(dt / run.h)

    def values(self, x: States, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lin = self.linearise(x, theta)
        return lin.F, lin.C

    def linearise(self, x: States, theta: np.ndarray) -> Linearisation:
        run, s = self.run, self.run.structure
        point = run.point(self.model, self.numbers, x)
        frames = assembly.frames(s, self.numbers, point)
        F, Fx = [], []
        for d in run.data:
            nodes = observe.at_nodes(s, self.model, frames, d.channel)
            weight = run.weight(d)
            F.append((d.W @ nodes.value - d.y) * weight)
            Fx.append(sp.diags(weight) @ (d.W @ nodes.matrix(s.nv)))
        step = difference(s, x.q[:, 1:], x.q[:, :-1])
        F.append((np.diff(step, axis=1) / self.smooth).T.ravel())
        D = sp.diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(run.K - 2, run.K))  # type: ignore[arg-type]
        Fx.append(sp.kron(D, sp.eye(s.nv)) / self.smooth)
        C, Cx = np.zeros(0), sp.csr_matrix((0, run.nq))
        if run.active.any():
            C, Cx = self._loops(x)
        return Linearisation(np.concatenate(F), sp.vstack(Fx, format="csr"), np.zeros((sum(map(len, F)), 0)), C, Cx, np.zeros((len(C), 0)))

    def reweigh(self, x: States) -> None:
        """Weights of the run's samples from their residuals."""
        frames = assembly.frames(self.run.structure, self.numbers, self.run.point(self.model, self.numbers, x))
        for d in self.run.data:
            nodes, path = observe.at_nodes(self.run.structure, self.model, frames, d.channel), d.channel.path
            self.run.weights[path] = weights(d.W @ nodes.value - d.y, self.run.noise.measured[path])

    def _loops(self, x: States) -> tuple[np.ndarray, Sparse]:
        from calibody.mechanics.equations import evaluate

        run, s = self.run, self.run.structure
        result = evaluate(s, self.numbers, run.point(self.model, self.numbers, x))
        kept = np.tile(run.active, run.K)
        return result.constraint.T.ravel()[kept], run.gradient_matrix(result)[kept]

    def move(self, x: States, d: np.ndarray) -> States:
        return self.run.move(x, np.concatenate([d, np.zeros(self.run.size - self.run.nq)]))


def first_motion(run: Run, model: Model, numbers: Numbers, robust: bool = False) -> States:
    """Coordinates of all nodes; multipliers and noise zero. `robust` weighs outliers down."""
    spline = Smoothing(run, model, numbers)
    states = still(run, resting(run.structure, model))
    solution = minimise(spline, states, np.zeros(0), Settings(iterations=30))
    for _ in range(REWEIGHTINGS if robust else 0):
        spline.reweigh(solution.x)
        solution = minimise(spline, solution.x, np.zeros(0), Settings(iterations=30))
    return solution.x


def resting(structure: Structure, model: Model) -> np.ndarray:
    """All joints at their reference, in the coordinates of the structure, loops closed."""
    rigid = model.replace({f"joint.{j.name}.compliance": 0.0 for j in model.joints if j.compliance})
    tree = Structure.build(rigid, TREE)
    numbers = Numbers.of(tree)
    q = host.closed(tree, numbers, host.zero_coordinates(tree, numbers), np.zeros(tree.nv, dtype=bool), "euclidean", 1.0)
    if structure.coordinates == TREE:
        return q
    return free_start(tree, structure, numbers, Start(q, np.zeros(tree.nv), q)).q
