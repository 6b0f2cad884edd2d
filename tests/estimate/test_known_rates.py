"""Rates that are known at the start are those that `cb.simulate` begins with, whatever acts from the first instant on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from problems import arm_with_ball, four_bar

import calibody as cb
from calibody.estimate.layout import START
from calibody.estimate.meshes import Meshes
from calibody.estimate.recipe import prepared
from calibody.estimate.reported import initial_theta
from calibody.mechanics import host
from calibody.mechanics.launch import Launch
from calibody.mechanics.structure import TREE, Numbers, Structure

H = 0.02


def driven() -> tuple[cb.Model, dict[str, float], dict[str, cb.Signal], dict[str, Any]]:
    """Two links with all kinds of forces at the joints, a motor that is late and a spring."""
    bodies = [
        cb.Body("a", mass=1.0, com=(0.01, 0, -0.15), inertia=(0.01, 0.01, 0.001)),
        cb.Body("b", "a", mass=0.7, com=(0, 0, -0.1), inertia=(0.005, 0.005, 0.001), position=(0, 0, -0.3)),
    ]
    joints = [
        cb.Joint("upper", "a", axis=(0, 1, 0), damping=0.05, friction=0.02, armature=0.003),
        cb.Joint("lower", "b", axis=(0.2, 1, 0), stiffness=30.0, damping=0.3),
    ]
    model = cb.Model(
        "double", bodies, joints, actuators=[cb.Actuator("motor", "upper", gain=2.0, delay=0.004)], springs=[cb.Spring("s", "world", "b", stiffness=40.0)]
    )
    t = np.arange(-0.1, 1.0, 0.01)
    start = {"joint.upper.angle": 0.9, "joint.lower.angle": -0.4, "joint.upper.rate": 0.5, "joint.lower.rate": -3.0}
    unknown = {
        "body.b.mass": 0.7,
        "body.a.inertia": None,
        "spring.s.stiffness": 40.0,
        "joint.lower.position.z": -0.3,
        "actuator.motor.delay": 0.004,
        "joint.upper.friction": 0.02,
    }
    return model, start, {"actuator.motor": cb.Signal(t, 1.0 + np.sin(20.0 * t))}, unknown


def closed() -> tuple[cb.Model, dict[str, float], dict[str, cb.Signal], dict[str, Any]]:
    """A loop with a row too many, drawn by a force that is there at once."""
    unknown = {"body.rod1.mass": None, "joint.ground0.damping": None, "joint.top0.position.x": None}
    return (
        four_bar(damping=0.02),
        {"joint.ground0.rate": -1.0, "joint.ground0.angle": 0.0},
        {"joint.ground0.force": cb.Signal(np.arange(2.0), [3.0, 4.0])},
        unknown,
    )


def turning() -> tuple[cb.Model, dict[str, Any], dict[str, cb.Signal], dict[str, Any]]:
    """A ball beside hinges, which turns its own axes."""
    model = arm_with_ball()
    hinges = [j.name for j in model.joints if j.kind == "hinge"]
    ball = next(j.name for j in model.joints if j.kind == "ball")
    start = {f"joint.{name}.rate": 0.7 + k for k, name in enumerate(hinges)} | {f"joint.{ball}.rate": (3.0, -2.0, 1.0)}
    return model, start, {}, {f"body.{model.bodies[-1].name}.mass": None, f"body.{model.bodies[0].name}.inertia.yy": None}


CASES = pytest.mark.parametrize("case", [driven, closed, pytest.param(turning, marks=pytest.mark.slow)])


@CASES
def test_they_are_those_that_a_simulation_began_with(case: Any) -> None:
    model, start, drive, _ = case()
    motion = cb.simulate(model, 10 * H, H, start, drive)
    structure = Structure.build(model, TREE)
    numbers = Numbers.of(structure)
    rows = host.independent_rows(structure, host.configuration(structure, numbers, motion.q[:, 0]).G, numbers.softness)
    launch = Launch.of(motion.structure, motion.numbers, rows, motion.point, np.zeros(structure.nc), motion.start_rate)
    np.testing.assert_allclose(launch.rates, motion.start_rate, atol=1e-9 * (1.0 + np.abs(motion.start_rate).max()))


@CASES
def test_derivatives(case: Any) -> None:
    """Of what a fit makes of them, by both nodes, by numbers and by the deviations of a drive, away from the solution."""
    model, start, drive, unknown = case()
    motion = cb.simulate(model, 10 * H, H, start, drive)
    joints = [j.name for j in model.joints if j.kind == "hinge"]
    seen = [cb.Observation(f"joint.{j}.angle", motion.time, motion[f"joint.{j}.angle"], 1e-3) for j in joints]
    known = {
        path: (value if k % 2 else {"value": value, "sd": 0.3})
        for k, (path, value) in enumerate(start.items())
        if isinstance(value, float) and path.endswith(".rate")
    }
    run = cb.Recording("run", seen, [cb.Drive(name, signal, sd=None if f"{name}.delay" in unknown else 0.1) for name, signal in drive.items()], initial=known)
    worker, _ = prepared(model, [run], unknown, "none", TREE, H, kind=Meshes)
    theta = initial_theta(worker.unknowns)
    problem, x = worker.begin(worker.problem(H, worker.noises), theta)
    rng = np.random.default_rng(0)
    x = [problem.runs[0].move(x[0], 1e-2 * rng.normal(size=problem.runs[0].layout.size))]
    lin = problem.linearise(x, theta)
    layout, size = problem.runs[0].layout, 1e-5
    rows = layout.row_place[START]
    samples = [k for k, d in enumerate(d for d in problem.runs[0].data for _ in d.y) if d.channel.path.startswith("initial.")]
    assert len(samples) + rows.stop - rows.start == len(known) > 0

    def both(moved: list[Any], at: np.ndarray) -> np.ndarray:
        F, C = problem.values(moved, at)
        return np.concatenate([C[rows], F[len(problem.prior(at)) :][samples]])

    for block in layout.blocks:
        for _ in range(3):
            d = np.zeros(layout.size)
            place = layout.place[block.name]
            d[place] = rng.normal(size=block.size)
            ends = [both([problem.runs[0].move(x[0], sign * size * d)], theta) for sign in (1.0, -1.0)]
            wanted = np.concatenate([(lin.Cx @ d)[rows], (lin.Fx @ d)[samples]])
            np.testing.assert_allclose(wanted, (ends[0] - ends[1]) / (2 * size), rtol=1e-5, atol=1e-6 * max(1.0, np.abs(wanted).max()), err_msg=block.name)
    for k, e in enumerate(problem.entries):
        step = 1e-5 * e.scale * (np.arange(len(theta)) == k)
        ends = [both(x, theta + sign * step) for sign in (1.0, -1.0)]
        wanted = np.concatenate([lin.parts[0].Ct[rows, k], lin.parts[0].Ft[samples, k]])
        found = (ends[0] - ends[1]) / (2 * step[k])
        np.testing.assert_allclose(wanted, found, rtol=1e-4, atol=1e-5 * max(1e-3, np.abs(found).max()), err_msg=e.name)
