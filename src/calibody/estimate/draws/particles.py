"""`sampler = "svgd"` and `"csvgd"`: particles over parameters and the starts of windows, shot as `cb.Shooting` does, on any of its steppers [heiden2022].

A particle has parameters u, in [0, 1] of their bounds, and windows with starts of their own, whose defects are constraints. The linearisation of shooting at a particle (`solve/windows.py`, `engine_problem.py`), its starts and multipliers
eliminated (`solve/condensed.py`), says with one factorisation

    J(theta) = min over the starts of 1/2 |F|^2,   windows meeting:      dJ/dtheta = g,      its curvature I,      how the starts follow,      and which change closes the windows

so that parameters go where Stein's direction leads (`solve/stein.py`), and the starts follow them and close the windows to first order in every step: Newton's method on the constraints, where the printed algorithm raises multipliers a little at a time and lets starts follow a gradient.
With one window (svgd) it is single shooting. Particles begin at Sobol points of the bounds, where that elimination is far from true: from there to near an explanation each goes as the estimator does (`solve/gauss_newton.py`, with its line search and
damping: among particles that are far from each other Stein's direction is that of each alone). A particle that does not arrive is lost; one whose motion is lost later stays where it was.

What particles are not: independent draws. How many end in each of several explanations is where they came from, not its probability; and nothing but that they no longer move says when to stop. `"auto"` never takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.common import Common
from calibody.estimate.sweep import sweep
from calibody.solve.condensed import step
from calibody.solve.gauss_newton import Settings, minimise
from calibody.solve.stein import direction
from calibody.solve.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from calibody.estimate.observed import Observed
    from calibody.solve.gauss_newton import AbstractProblem

TRUST = 0.15
"""Of the bounds' width: how far a step goes at most."""
FARTHEST = 0.5
"""rad, m: the same of the starts of windows."""
HALVED = 4
"""How often a step whose motion cannot be simulated is halved."""
FIRST, NEAR = 40, 0.5
"""Most iterations from where a particle begins, and standard deviations of a step from which it has come near an explanation."""
FLAT = 12.0
"""Curvature of a uniform distribution's Gaussian over its width: what steps are held by where the data say nothing."""
CLOSED = 0.3
"""Standard deviations of the residuals, all together, by which closing the windows would change them, below which they are closed: log p is then off by a tenth at most."""
LOST = 60.0
"""Below the largest log p from which a particle explains nothing: e^-60."""
OVER, STILL, SPREAD = 10, 0.1, 0.1
"""Iterations over which the particles' mean moves by less than this, in units of their spread, and that changes by less than this, once they have come to rest."""
BLOCK = 8
"""Particles that a process linearises at a time."""


@dataclass(frozen=True, eq=False)
class Linear:
    """What is known at a particle; parameters in units of the bounds."""

    log_p: float
    gradient: np.ndarray
    curvature: np.ndarray
    alone: np.ndarray
    """The change of the states that closes the windows."""
    response: np.ndarray
    """How the states follow the parameters."""
    defect: float
    """Standard deviations of the residuals, all together, that this changes them by."""


@dataclass(frozen=True, eq=False)
class Ground:
    """What all particles have in common: the problem of shooting and its bounds."""

    problem: Observed
    windows: int

    @property
    def width(self) -> np.ndarray:
        return self.problem.upper - self.problem.lower

    @cached_property
    def whole(self) -> AbstractProblem:
        """The problem of starts and parameters; made once in every process."""
        from calibody.estimate.problem import Problem
        from calibody.estimate.shooting import Shooting
        from calibody.estimate.windows.shots import windowed

        return windowed(self.problem, Shooting(windows=self.windows)) if isinstance(self.problem, Problem) else self.problem  # pyright: ignore[reportReturnType]

    def __getstate__(self) -> dict[str, Any]:
        return {"problem": self.problem, "windows": self.windows}

    @one_thread
    def linear(self, x: Any, theta: np.ndarray) -> Linear | None:
        """None where the motion, or the matrix, is lost."""
        whole, width = self.whole, self.width
        try:
            with np.errstate(all="ignore"):
                lin = whole.linearise(x, theta)
                taken = step(lin, theta, theta, theta, np.ones(len(theta)), whole.scale, whole.slope)
                change = lin.Fx @ taken.states
                after = lin.F + change
        except (CalibodyError, NumericalError, np.linalg.LinAlgError, RuntimeError):
            return None
        response = np.zeros((len(taken.states), len(theta)))
        first = 0
        for run in taken.runs:
            n = run.factor.n
            response[first : first + n, run.columns] = run.response[:n]
            first += n
        found = Linear(
            -0.5 * float(after @ after),
            -taken.gradient * width,
            np.asarray(taken.information) * np.outer(width, width),
            taken.states,
            response * width,
            float(np.linalg.norm(change)),
        )
        good = np.isfinite(found.log_p) and all(np.isfinite(a).all() for a in (found.gradient, found.curvature, found.alone, found.response))
        return found if good else None

    def moved(self, at: Particle, change: np.ndarray) -> Particle:
        """After a step of the parameters, shortened until its motion can be simulated; where it was, if it never can."""
        assert at.known is not None
        d = at.known.alone + at.known.response @ change
        held = np.broadcast_to(self.whole.tethered, d.shape) > 0.0
        part = min(1.0, FARTHEST / max(float(np.abs(d[held]).max(initial=0.0)), 1e-300))
        for _ in range(HALVED):
            u = reflected(at.u + part * change)
            x = self.whole.move(at.x, part * at.known.alone + at.known.response @ (u - at.u))
            known = self.linear(x, self.theta(u))
            if known is not None:
                return Particle(u, x, known)
            part *= 0.5
        return at

    def theta(self, u: np.ndarray) -> np.ndarray:
        return self.problem.lower + self.width * u


@dataclass(frozen=True, eq=False)
class Particle:
    u: np.ndarray
    x: Any
    known: Linear | None = None


def reflected(u: np.ndarray) -> np.ndarray:
    """What has gone beyond a bound by some comes back as far."""
    return np.clip(1.0 - np.abs(1.0 - np.abs(u)), 0.0, 1.0)


def arrived(ground: Common[Ground], particles: Sequence[Particle], apart: np.ndarray) -> list[Particle | None]:
    """Where the estimator leads each; set `apart` by standard deviations there, because all that come to one explanation are one. None: it leads nowhere."""
    return [_arrived(ground.value, one, z) for one, z in zip(particles, apart, strict=True)]


def _arrived(ground: Ground, one: Particle, z: np.ndarray) -> Particle | None:
    try:
        with np.errstate(all="ignore"):
            found = minimise(ground.whole, one.x, ground.theta(one.u), Settings(iterations=FIRST, tolerance=NEAR))
    except (CalibodyError, NumericalError, np.linalg.LinAlgError, FloatingPointError):
        return None
    known = ground.linear(found.x, found.theta) if found.converged else None
    if known is None:
        return None
    here = Particle((found.theta - ground.problem.lower) / ground.width, found.x, known)
    L = np.linalg.cholesky(known.curvature + FLAT * np.eye(len(z)))
    return ground.moved(here, np.linalg.solve(L.T, z))


def went(ground: Common[Ground], particles: Sequence[Particle], changes: np.ndarray) -> list[Particle]:
    return [ground.value.moved(one, change) for one, change in zip(particles, changes, strict=True)]


class Cloud:
    """All particles, and how they have come to where they are."""

    def __init__(self, ground: Ground, x: Any, theta: np.ndarray, count: int, seed: int, executor: Executor | None) -> None:
        from scipy.special import ndtri
        from scipy.stats import qmc

        self.ground, self.executor, self.evaluations, p = Common(ground), executor, 0, len(theta)
        power = int(np.ceil(np.log2(max(count, 2))))
        points = np.asarray(qmc.Sobol(2 * p, rng=np.random.default_rng(seed)).random_base2(power))[:count]
        apart = ndtri(np.clip(points[:, p:], 1e-6, 1.0 - 1e-6))
        found = self._mapped(arrived, [Particle(one, x) for one in points[:, :p]], lambda b: {"apart": apart[b]})
        self.particles = [one for one in found if one is not None]
        self.strayed = count - len(self.particles)
        """Particles that the estimator has led nowhere."""
        if len(self.particles) < 2:
            raise CalibodyError("No particle has come to a motion that explains the data; give more windows, or narrower bounds.")
        self.past: list[tuple[np.ndarray, np.ndarray]] = []

    def _mapped(self, function: Callable[..., list[Any]], particles: Sequence[Particle], more: Callable[[slice], dict[str, Any]]) -> list[Any]:
        """Block by block, where the executor does it; without one here, because a step is over sooner than processes have begun."""
        blocks = [slice(k, k + BLOCK) for k in range(0, len(particles), BLOCK)]
        tasks = [{"ground": self.ground, "particles": particles[b], **more(b)} for b in blocks]
        found = [function(**task) for task in tasks] if self.executor is None else sweep(function, tasks, self.executor)
        return [one for block in found for one in block]

    @property
    def u(self) -> np.ndarray:
        return np.stack([one.u for one in self.particles])

    @property
    def theta(self) -> np.ndarray:
        return np.stack([self.ground.value.theta(one.u) for one in self.particles])

    @property
    def log_p(self) -> np.ndarray:
        """Of every particle, motions having been found for its parameters (their volume left out); less what its windows do not meet by."""
        return np.array([k.log_p - 0.5 * k.defect**2 for k in self._known])

    @property
    def defect(self) -> float:
        """The median over the particles."""
        return float(np.median([k.defect for k in self._known]))

    @property
    def _known(self) -> list[Linear]:
        return [one.known for one in self.particles if one.known is not None]

    def step(self) -> None:
        gradients, curvatures = (np.stack([getattr(k, word) for k in self._known]) for word in ("gradient", "curvature"))
        d = direction(self.u, gradients, curvatures + FLAT * np.eye(curvatures.shape[1]))
        d *= np.minimum(1.0, TRUST / np.maximum(np.abs(d).max(axis=1, keepdims=True), 1e-300))
        self.particles = self._mapped(went, self.particles, lambda b: {"changes": d[b]})
        self.evaluations += len(self.particles)
        u = self.u[~self.lost]
        self.past.append((u.mean(axis=0), u.std(axis=0)))

    @property
    def lost(self) -> np.ndarray:
        """Which explain nothing."""
        return self.log_p < self.log_p.max() - LOST

    @property
    def settled(self) -> bool:
        """Whether they have come to rest."""
        if len(self.past) <= OVER:
            return False
        (before, wide), (mean, sd) = self.past[-1 - OVER], self.past[-1]
        sd = np.maximum(sd, 1e-12)
        return bool(np.all(np.abs(mean - before) <= STILL * sd) and np.all(np.abs(wide / sd - 1.0) <= SPREAD)) and self.defect < CLOSED


def refuse_unbounded(problem: Observed) -> None:
    """A sentence where particles cannot be spread over the bounds."""
    for e in problem.entries:
        if not (np.isfinite(e.lower) and np.isfinite(e.upper)) or e.group is not None:
            raise CalibodyError(
                f'Particles of Stein\'s method are spread over the bounds, and "{e.name}" has none on both sides; give it lower and upper, or use another sampler.'
            )


def come_to_rest(
    ground: Ground, x: Any, theta: np.ndarray, count: int, iterations: int, seed: int, executor: Executor | None, report: Callable[[str], None]
) -> Cloud:
    """The particles where they no longer move, or after so many iterations."""
    refuse_unbounded(ground.problem)
    cloud = Cloud(ground, x, theta, count, seed, executor)
    for i in range(iterations):
        if i % max(iterations // 10, 1) == 0:
            report(f"moving {count} particles: iteration {i} of {iterations} at most")
        cloud.step()
        if cloud.settled:
            break
    return cloud
