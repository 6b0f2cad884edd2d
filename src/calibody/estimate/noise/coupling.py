"""Unmodelled forces of several joints that go together.

A frame that shakes, a belt, a link that bends, a payload that swings push at all joints at once. If forces are taken to be independent from joint to joint, that is an assumption about the mechanism: noise
w of the covariance Omega makes accelerations of the covariance `M^-1 Omega M^-1`, and with Omega diagonal the *shape* of that scatter tells the inertias, by as many observations as there are samples.
Where it is wrong the likelihood moves the inertias until the scatter looks right. (A double pendulum whose stand shakes: inertias of 1.7, 0.8 and 0.5 times what they are, more likely by exp(500).) With Omega
free only the mean of the accelerations tells, which is what the equations of motion are about.

At every instant, with z white of variance 1,

    w = U (sd z),      U = 1 on the diagonal, c_ij below it: the force on joint i that goes with one on joint j before it, per unit

`Omega = U sd^2 U'` is any covariance; sd_i is what of the force on joint i does not go with those before it, and c are unknowns of the likelihood as the sds are. In the balance the columns of z are `B U sd`, B
those of forces on the joints, so that a change of a size or of a coupling turns them among themselves, `d(B U sd) = (B U sd) E`:

    log sd_j:  E = e_j e_j'            c_ij:  E = (U sd)^-1 e_i e_j' sd

With mu the multipliers of the balance, z = -(B U sd)'mu where the motion is found, and the slope of the cost is `mu'(B U sd) E z = -z'E z`: minus the sum of z_j^2, and of products of the noise of two joints. Its own
change is `-z'(E + E')dz - z'dE z` (`likelihood.py`).

**Never entirely.** Where what a joint has of its own, of the variance S_i, is small beside what goes with others, `A_i = sum_j c_ij^2 S_j`, few observations tell its size, and none that it is nothing: with S_i = 0 a
combination of the equations of motion would hold exactly, and error bars with it. The likelihood has therefore the term

    KNOWN/2 log(1 + LEAST^2 A_i/S_i)

which is nothing unless S_i is below `LEAST^2 A_i`, and then counts as `KNOWN` observations that it is not. (Of twelve double pendulums whose joints had a hundredth of the variance to themselves, two lost that
without the term, and their error bars were ten times too small.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import ClassVar

import numpy as np

from calibody.estimate.layout import PROCESS
from calibody.estimate.nodes import Noise
from calibody.estimate.noise.hyper import At, ForceSize, Hyper
from calibody.estimate.problem import Problem
from calibody.estimate.result import ForcesTogether
from calibody.estimate.run import Run

MOST = 5
"""Joints up to which the forces of every two may go together (ten numbers); of more, those of neighbours."""
KNOWN, LEAST = 4.0, 0.3
"""Weight of the belief that each joint has a force of its own, in observations, and how large that is at least beside what goes with others."""
NEAR = 1e-4
"""Step of differences of E, which is rational in sizes and couplings."""


@dataclass(frozen=True)
class Shared(Hyper):
    """How much of the force of this joint acts on the one beside it too, in `unit`."""

    beside: str = ""
    unit: float = 1.0

    sizing: ClassVar[bool] = False

    @property
    def words(self) -> str:
        return f"force of {self.beside} with {self.name}"

    def of(self, noise: Noise) -> float:
        return noise.coupled[self.name, self.beside] / self.unit

    def changed(self, noise: Noise, by: float) -> Noise:
        both = self.name, self.beside
        return replace(noise, coupled={**noise.coupled, both: noise.coupled[both] + self.unit * by})

    def columns(self, at: At) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(at.lin.F)), at.lin.Cx @ mixed(at.problem, self, at.z)

    def pulled(self, at: At) -> np.ndarray:
        return -mixed(at.problem, self, at.z, transposed=True)

    def curved(self, at: At, T: np.ndarray, X: np.ndarray, hypers: Sequence[Hyper]) -> np.ndarray:
        """The derivative by eta of that of the cost, `-z'E z`."""
        out = -(at.lin.Fx @ (mixed(at.problem, self, at.z) + mixed(at.problem, self, at.z, transposed=True))) @ T
        for k, other in enumerate(hypers, start=len(out) - len(hypers)):
            if _among(other):
                out[k] -= changed(at.problem, self, other, at.z)
        return out

    def scores(self, at: At) -> np.ndarray:
        return -at.lin.F * (at.lin.Fx @ mixed(at.problem, self, at.z))


def pairs(joints: Sequence[str]) -> list[tuple[str, str]]:
    return list(combinations(joints, 2)) if len(joints) <= MOST else list(pairwise(joints))


def possible(problem: Problem) -> bool:
    """Whether there are two forces or more that the motion can tell apart: in loops, forces on different joints do the same."""
    run = problem.runs[0]
    joints = [joint for joint, _ in run.disturbed]
    return 1 < len(set(joints)) == len(joints) <= run.structure.nv - run.kept and not run.noise.slow


def coupled(problem: Problem, hypers: Sequence[Hyper]) -> tuple[Problem, list[Hyper]]:
    """With what goes together of the forces whose sizes are found as further unknowns, none at first; in units of the ratio of the forces as they are."""
    sized = [h.name for h in hypers if h.force]
    if len(sized) < 2 or not possible(problem):
        return problem, list(hypers)
    density = problem.runs[0].noise.density
    both = pairs([joint for joint in density if joint in sized])
    runs = [replace(run.noise, coupled=dict.fromkeys(both, 0.0)) for run in problem.runs]
    units = [Shared(one, beside=other, unit=float(np.sqrt(density[other] / density[one]))) for one, other in both]
    return problem.with_noise(runs), [*hypers, *units]


def factored(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """U and the variances of `Omega = U diag(variances) U'`."""
    size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    L = np.linalg.cholesky(covariance / size[:, None] / size[None, :] + 1e-12 * np.eye(len(size)))
    d = np.diag(L) * size
    return size[:, None] * L / d[None, :], d**2


def turned(run: Run, hyper: Shared) -> np.ndarray:
    """(forces, forces): E of a coupling."""
    E, joints = np.zeros((len(run.disturbed),) * 2), [joint for joint, _ in run.disturbed]
    (j,), sd = hyper.forces(run), run.process_sd()
    E[:, j] = hyper.unit * sd[j] * np.linalg.solve(run.mixing, np.eye(len(sd))[joints.index(hyper.beside)]) / sd
    return E


def mixed(problem: Problem, hyper: Shared, z: np.ndarray, transposed: bool = False) -> np.ndarray:
    """(all states,) `E z` of the forces z of all states (`hyper.forces`), or `E'z`."""
    return _by_run(problem, z, [turned(run, hyper) if not transposed else turned(run, hyper).T for run in problem.runs])


def changed(problem: Problem, hyper: Shared, other: Hyper, z: np.ndarray) -> float:
    """`z'dE z`, E that of one with a change of the other."""
    ends = [other.moved(problem, sign * NEAR) for sign in (1.0, -1.0)]
    by = [(turned(a, hyper) - turned(b, hyper)) / (2.0 * NEAR) for a, b in zip(ends[0].runs, ends[1].runs, strict=True)]
    return float(z @ _by_run(problem, z, by))


def _by_run(problem: Problem, z: np.ndarray, matrices: Sequence[np.ndarray]) -> np.ndarray:
    out, first = np.zeros_like(z), 0
    for run, E in zip(problem.runs, matrices, strict=True):
        place = slice(first + run.layout.place[PROCESS].start, first + run.layout.place[PROCESS].stop)
        out[place] = (z[place].reshape(-1, len(E)) @ E.T).ravel()
        first += run.layout.size
    return out


def together(run: Run) -> list[ForcesTogether]:
    """How far forces go together, of all that may."""
    C, joints = covariance(run), [joint for joint, _ in run.disturbed]
    size, out = np.sqrt(np.maximum(np.diag(C), 1e-300)), []
    for one, other in run.noise.coupled:
        i, j = joints.index(one), joints.index(other)
        out.append(ForcesTogether((one, other), float(C[i, j] / size[i] / size[j])))
    return out


def belief(noise: Noise) -> float:
    """What is added to minus the logarithm of the likelihood: each joint has a force of its own."""
    return 0.5 * KNOWN * sum(math.log1p(LEAST**2 * sum(shares.values())) for shares in _shares(noise).values())


def belief_by(noise: Noise, hypers: Sequence[Hyper]) -> np.ndarray:
    """Its derivatives by the noise sizes."""
    out, all_shares = np.zeros(len(hypers)), _shares(noise)
    pull = {joint: KNOWN * LEAST**2 / (1.0 + LEAST**2 * sum(shares.values())) for joint, shares in all_shares.items()}
    for k, h in enumerate(hypers):
        if isinstance(h, Shared):
            c = noise.coupled[h.name, h.beside]
            out[k] = pull[h.beside] * c * noise.density[h.name] / noise.density[h.beside] * h.unit
        elif h.force:
            out[k] = sum(pull[joint] * shares.get(h.name, 0.0) for joint, shares in all_shares.items())
            out[k] -= pull[h.name] * sum(all_shares[h.name].values()) if h.name in pull else 0.0
    return out


def belief_by_twice(noise: Noise, hypers: Sequence[Hyper]) -> np.ndarray:
    """The second ones, from differences."""
    columns = [(belief_by(h.changed(noise, NEAR), hypers) - belief_by(h.changed(noise, -NEAR), hypers)) / (2.0 * NEAR) for h in hypers if _among(h)]
    where = [k for k, h in enumerate(hypers) if _among(h)]
    out = np.zeros((len(hypers), len(hypers)))
    out[:, where] = np.array(columns).T.reshape(len(hypers), len(where))
    return 0.5 * (out + out.T)


def _among(h: Hyper) -> bool:
    """Whether it is a size or a coupling of forces."""
    return isinstance(h, ForceSize | Shared)


def _shares(noise: Noise) -> dict[str, dict[str, float]]:
    """Of every joint that something goes with: the variance of that, by joint, over its own."""
    out: dict[str, dict[str, float]] = {}
    for (one, other), c in noise.coupled.items():
        out.setdefault(other, {})[one] = c**2 * noise.density[one] / noise.density[other]
    return out


def covariance(run: Run) -> np.ndarray:
    """Of the unmodelled forces on the joints of a run."""
    both = run.mixing * run.process_sd()
    return both @ both.T
