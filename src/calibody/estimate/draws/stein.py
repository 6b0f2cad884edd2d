"""What particles of Stein's method (`particles.py`) say as a posterior: which explanations they have come to, and how probable these are.

Particles say nothing about how probable an explanation is: as many come to it as began nearer to it than to others. So they are told apart, from the best of each cluster the explanation itself is found, and its evidence (Laplace's method) is shared out among its particles.
Of a fit by transcription, or by shooting on the variational step, it is that of `modes.py`, and what is too narrow is stretched as its Gaussians are; of a fit in an engine the starts of windows are at their best instead of integrated out, and draws are stretched parameter by parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError, NumericalError
from calibody.estimate.draws.drawn import Explanation, Raw
from calibody.estimate.draws.modes import CLOSE, Modes, find
from calibody.estimate.draws.particles import FLAT, Cloud, Ground, come_to_rest
from calibody.estimate.draws.sampling import AUTO
from calibody.estimate.draws.solved import STEPS, Setting, Solved, drawn_on, solved_by
from calibody.estimate.draws.stretch import kind_of
from calibody.estimate.reported import values_of
from calibody.estimate.shooting import Shooting
from calibody.estimate.windows.shots import SHORTEST, sharpened
from calibody.solve.gauss_newton import Settings, minimise
from calibody.solve.threads import one_thread
from calibody.solve.windows import Shot

if TYPE_CHECKING:
    from calibody.estimate.draws.sampling import Sampling
    from calibody.estimate.engine.problem import EngineProblem
    from calibody.estimate.result import Result

Report = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Particles that explain the data, cluster by cluster."""

    cloud: Cloud
    of: np.ndarray
    """(particles,) the cluster of each; -1 of one that is lost."""

    @property
    def lost(self) -> int:
        return int((self.of < 0).sum()) + self.cloud.strayed

    @property
    def count(self) -> int:
        return int(self.of.max()) + 1

    def best(self, k: int) -> int:
        """The particle of a cluster that explains the data best."""
        return int(np.argmax(np.where(self.of == k, self.cloud.log_p, -np.inf)))


def clustered(cloud: Cloud) -> Clusters:
    """Particles are of one cluster if a chain of particles leads from one to the other whose links are short (in standard deviations, for as many unknowns as there are)."""
    u, of = cloud.u, np.where(cloud.lost, -1, -2)
    H = np.stack([p.known.curvature for p in cloud.particles if p.known is not None]) + FLAT * np.eye(u.shape[1])
    d = u[:, None] - u[None]
    squares = np.einsum("ija,iab,ijb->ij", d, H, d)
    near = np.minimum(squares, squares.T) < CLOSE**2 * u.shape[1]
    for k in range(len(u)):
        if of[k] == -2:
            reached = np.zeros(len(u), dtype=bool)
            reached[k] = True
            while True:
                wider = near[reached].any(axis=0) & (of == -2) | reached
                if (wider == reached).all():
                    break
                reached = wider
            of[reached] = of.max(initial=-1) + 1
    return Clusters(cloud, of)


# -- on the variational step ---------------------------------------------------------------------------------------------------------------


@one_thread
def shot(result: Result, how: Sampling, executor: Executor | None, report: Report) -> tuple[Clusters, Modes]:
    """The particles at rest, and the explanations that they have come to."""
    setting, fine = Setting.of(result), solved_by(result)
    on = drawn_on(setting, fine)
    if fine.forced:
        raise CalibodyError("Particles of Stein's method follow motions that theta alone determines, and this fit has unmodelled forces; use another sampler.")
    windows = _windows(how, min(run.K for run in on.problem.runs))
    ground = Ground(sharpened(on.problem, on.x, on.theta), windows)
    found = clustered(come_to_rest(ground, Shot(list(on.x)), on.theta, how.samples, how.iterations, how.seed, executor, report))
    report("finding the explanations that the particles have come to")
    ends = [_solved(on, found, k) for k in range(found.count)]
    modes = find(result, 0, how.seed, None, [s for s in ends if s is not None])
    return found, modes


def _windows(how: Sampling, nodes: int) -> int:
    """In how many the runs are cut, the shortest of which has so many nodes."""
    if how.sampler == "svgd":
        return 1
    if how.windows == AUTO:
        return max(2, Shooting().count(nodes - 1))
    if int(how.windows) > nodes // SHORTEST:
        raise CalibodyError(f"{how.windows} windows are too many for runs of {nodes} nodes; give at most {nodes // SHORTEST}.")
    return int(how.windows)


def _solved(on: Solved, found: Clusters, k: int) -> Solved | None:
    """The explanation of a cluster, from its best particle."""
    one = found.cloud.particles[found.best(k)]
    theta = found.cloud.ground.value.theta(one.u)
    try:
        end = minimise(on.problem, one.x.motion, theta, Settings(iterations=STEPS))
    except (CalibodyError, NumericalError, np.linalg.LinAlgError):
        return None
    return Solved(on.problem, tuple(end.x), end.theta) if end.converged else None


# -- in an engine --------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class InEngine:
    """Draws in an engine."""

    raw: Raw
    explanations: tuple[Explanation, ...]
    log_evidence: float
    noise: str
    stretched: float


@one_thread
def shot_in_engine(result: Result, how: Sampling, executor: Executor | None, report: Report) -> tuple[Clusters, InEngine]:
    from calibody.estimate.engine.fit import begin, cut

    whole: EngineProblem = result.problem  # pyright: ignore[reportAssignmentType]
    problem = cut(whole, _windows(how, min(run.K for run in whole.runs)))
    ground = Ground(problem, 0)
    found = clustered(come_to_rest(ground, begin(problem, result.theta), result.theta, how.samples, how.iterations, how.seed, executor, report))
    return found, _in_engine(result, found)


def _in_engine(result: Result, found: Clusters) -> InEngine:
    cloud, problem = found.cloud, found.cloud.ground.value.problem
    names, log_p, p = list(result.parameters), cloud.log_p, len(result.theta)
    best = [found.best(k) for k in range(found.count)]
    curvature = [cloud.particles[b].known.curvature + FLAT * np.eye(p) for b in best]  # pyright: ignore[reportOptionalMemberAccess]
    logs = np.array([log_p[b] - 0.5 * np.linalg.slogdet(H)[1] for b, H in zip(best, curvature, strict=True)])
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    weight = np.array([mass[k] / (found.of == k).sum() if k >= 0 else 0.0 for k in found.of])
    kind = kind_of(result.uncertainty, result.noise_given, False)
    omega = np.ones(p) if kind == "naive" else _wider(result)
    centre = np.stack([cloud.theta[best[max(k, 0)]] for k in found.of])
    theta = np.clip(centre + omega * (cloud.theta - centre), problem.lower, problem.upper)
    values = np.stack([values_of(problem.entries, t) for t in theta])
    raw = Raw(np.arange(len(theta)), np.maximum(found.of, 0), theta, values, log_p, np.full(len(theta), -np.inf), weight, tuple(names))
    order = np.argsort(-mass, kind="stable")
    width = cloud.ground.value.width
    told = tuple(
        Explanation(
            dict(zip(names, map(float, values[best[k]]), strict=True)),
            float(mass[k]),
            float(mass[k]),
            float(logs[k] + 0.5 * p * np.log(2.0 * np.pi)),
            f"{(found.of == k).sum()} particles",
            np.linalg.inv(curvature[k]) * np.outer(width, width),
        )
        for k in order
    )
    raw = replace(raw, mode=np.argsort(order)[raw.mode])
    total = float(logs.max() + np.log(np.exp(logs - logs.max()).sum()) + 0.5 * p * np.log(2.0 * np.pi))
    return InEngine(raw, told, total, kind, float(omega.max()))


def _wider(result: Result) -> np.ndarray:
    """By what the error bar of each parameter is larger than that of the likelihood."""
    known = [e.sd / e.sd_naive if e.sd and e.sd_naive else np.nan for e in result.parameters.values()]
    return np.maximum(np.nan_to_num(known, nan=np.sqrt(max(result.uncertainty.factor, 1.0))), 1.0)
