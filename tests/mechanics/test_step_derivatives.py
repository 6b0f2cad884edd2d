"""Derivatives of a step by the implicit function theorem against steps that are solved again from moved data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calibody as cb
from calibody.mechanics.equations import evaluate
from calibody.mechanics.kinematics import difference, retract
from calibody.mechanics.point import Point
from calibody.mechanics.structure import Numbers
from calibody.steppers import sensitivity

LINK = dict(mass=1.0, inertia=(0.02, 0.03, 0.02, 0.001, 0.0, 0.002))


def driven_chain() -> cb.Model:
    return cb.Model(
        bodies=[cb.Body("a", com=(0, 0, -0.25), **LINK), cb.Body("b", "a", position=(0, 0, -0.5), com=(0, 0.1, -0.2), **LINK)],
        joints=[
            cb.Joint("h1", "a", axis=(0, 1, 0), damping=0.1, friction=0.05, armature=0.01),
            cb.Joint("h2", "b", axis=(1, 1, 0), damping=0.05, stiffness=0.4, springref=0.2),
        ],
        actuators=[cb.Actuator("m", "h1", gain=0.8, damping=0.02)],
    )


def four_bar() -> cb.Model:
    """Planar, unequal sides; the point loop has one redundant row (out of the plane)."""
    return cb.Model(
        bodies=[
            cb.Body("crank", com=(0, 0, 0.2), **LINK),
            cb.Body("coupler", "crank", position=(0, 0, 0.4), com=(0.4, 0, 0), **LINK),
            cb.Body("rocker", position=(0.9, 0, 0), com=(0, 0, 0.3), **LINK),
        ],
        joints=[
            cb.Joint("j1", "crank", axis=(0, 1, 0), damping=0.1),
            cb.Joint("j2", "coupler", axis=(0, 1, 0)),
            cb.Joint("j3", "rocker", axis=(0, 1, 0), damping=0.2),
        ],
        loops=[cb.Loop("end", "point", "coupler", "rocker", anchor1=(0.8, 0, 0), anchor2=(0, 0, 0.6))],
        actuators=[cb.Actuator("m", "j1")],
    )


def soft_pendulum() -> cb.Model:
    return driven_chain().replace({"joint.h1.compliance": 1e-4, "joint.h1.relaxation": 0.02})


CASES = {
    "tree": (driven_chain, "tree", ["body.a.mass", "body.b.com.y", "joint.h2.position.z", "joint.h1.friction", "actuator.m.gain", "world.gravity.tilt.x"]),
    "free": (driven_chain, "free", ["body.a.mass", "body.b.inertia.xy", "joint.h2.position.z", "joint.h2.springref", "actuator.m.damping", "joint.h2.axis.x"]),
    "loop in tree": (four_bar, "tree", ["body.coupler.mass", "loop.end.anchor1.x", "joint.j3.damping"]),
    "loop in free": (four_bar, "free", ["body.coupler.mass", "loop.end.anchor1.x", "joint.j3.position.x"]),
    "compliant": (soft_pendulum, "free", ["body.a.mass", "joint.h2.position.z"]),
}


class Solved:
    """One step of a motion, solved again by Newton's method on the equations of transcription (no compiled step involved)."""

    def __init__(self, motion: cb.Motion, node: int) -> None:
        self.motion, self.point = motion, sensitivity.three_nodes(motion, node)
        self.weights, self.eps = sensitivity.constraint_weights(motion)

    def __call__(self, point: Point | None = None, numbers: Numbers | None = None) -> np.ndarray:
        """The change of (q_(k+1), lambda_k) against the motion, in the tangent."""
        s, active, point = self.motion.structure, self.motion.active, self.point if point is None else point
        for _ in range(8):
            result = evaluate(s, self.motion.numbers if numbers is None else numbers, point)
            G = [result.dense_gradient(k) * active[:, None] for k in range(3)] if s.nc else [np.zeros((0, s.nv))] * 3
            rows = active * (sum(w * result.constraint[:, k] for k, w in enumerate(self.weights)) + self.eps * point.multipliers[:, 1])
            K = np.block([[result.dense()[2], -point.h * G[1].T], [self.weights[2][:, None] * G[2], np.diag(np.where(active > 0, self.eps, 1.0))]])
            x = np.linalg.solve(K, -np.concatenate([result.residual[:, 0], rows]))
            q, multipliers = point.q.copy(), point.multipliers.copy()
            q[:, 2] = retract(s, q[:, 2:], x[: s.nv, None])[:, 0]
            multipliers[:, 1] += x[s.nv :]
            point = replace(point, q=q, multipliers=multipliers)
        return np.concatenate([difference(s, point.q[:, 2:], self.point.q[:, 2:])[:, 0], point.multipliers[:, 1] - self.point.multipliers[:, 1]])


@pytest.fixture(scope="module", params=list(CASES))
def step(request: pytest.FixtureRequest) -> tuple[Solved, sensitivity.StepDerivatives, list[str]]:
    build, coordinates, names = CASES[request.param]
    initial = {"joint.j1.angle": 0.4, "joint.j1.rate": 2.0} if build is four_bar else {"joint.h1.angle": 0.7, "joint.h2.rate": 2.0}
    motion = cb.simulate(build(), 0.2, 0.01, initial, {"actuator.m": 0.3}, coordinates=coordinates)
    return Solved(motion, 10), cb.step_derivatives(motion, 10, names), names


def close(found: np.ndarray, exact: np.ndarray) -> None:
    """Multipliers are some thousand times larger than displacements: each part against its own size."""
    np.testing.assert_allclose(found, exact, atol=2e-6 * max(np.abs(exact).max(), 1e-3))


def split(solved: Solved, change: np.ndarray, exact: np.ndarray) -> None:
    nv = solved.motion.structure.nv
    close(change[:nv], exact[:nv])
    if len(change) > nv:
        close(change[nv:], exact[nv:])


def test_the_motion_solves_the_equations(step) -> None:
    solved, _, _ = step
    nv = solved.motion.structure.nv
    assert np.abs(solved()[:nv]).max() < 1e-10


@pytest.mark.parametrize("node", [0, 1])
def test_by_state(step, node: int) -> None:
    solved, derivatives, _ = step
    s, size = solved.motion.structure, 1e-6
    exact = (derivatives.by_before, derivatives.by_now)[node]
    for dof in range(s.nv):
        ends = []
        for sign in (1, -1):
            d = np.zeros((s.nv, 3))
            d[dof, node] = sign * size
            ends.append(solved(replace(solved.point, q=retract(s, solved.point.q, d))))
        split(solved, (ends[0] - ends[1]) / (2 * size), exact[:, dof])


def test_by_control(step) -> None:
    solved, derivatives, _ = step
    for interval, exact in enumerate((derivatives.by_control_before, derivatives.by_control)):
        ends = []
        for sign in (1, -1):
            control = solved.point.control.copy()
            control[0, interval] += sign * 1e-3
            ends.append(solved(replace(solved.point, control=control)))
        split(solved, (ends[0] - ends[1]) / 2e-3, exact[:, 0])


def test_by_parameters(step) -> None:
    solved, derivatives, names = step
    model = solved.motion.model
    for k, path in enumerate(names):
        size = 1e-5
        ends = [solved(None, Numbers.of(solved.motion.structure, model.replace({path: model[path] + sign * size}))) for sign in (1, -1)]
        split(solved, (ends[0] - ends[1]) / (2 * size), derivatives.by_parameters[:, k])
