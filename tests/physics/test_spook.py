"""The regularised stepper against the variational one's limit, and its joints against what compliance and damping time promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from physics.convergence import extrapolated, order
from problems import DOWN_Y, DOWN_Z, FURUTA_START, INERTIA, WEIGHTLESS, furuta

import calibody as cb
from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers.start import start_of

STIFF = cb.Spook(compliance=1e-10, angular_compliance=1e-10)


def everything() -> cb.Model:
    """Hinge with motor and shaft, ball, slide, a body fixed to another, joint springs, a point spring, a bushing; no dry friction."""
    bodies = [
        cb.Body("base", mass=1.0, com=(0.1, 0.0, -0.1), inertia=INERTIA),
        cb.Body("upper", "base", mass=0.8, com=(0.0, 0.05, -0.2), inertia=INERTIA, position=(0.3, 0.0, 0.0), orientation=(0.9, 0.1, -0.2, 0.3)),
        cb.Body("slider", "upper", mass=0.5, com=(0.02, 0.0, -0.15), inertia=INERTIA, position=(0.0, 0.1, -0.4)),
        cb.Body("plate", "slider", mass=0.2, com=(0.0, 0.03, 0.0), inertia=INERTIA, position=(0.0, 0.0, -0.1)),
    ]
    joints = [
        cb.Joint("turn", "base", axis=(0.0, 0.2, 1.0), stiffness=1.0, damping=0.1, armature=0.05),
        cb.Joint("shoulder", "upper", "ball", anchor=(0.0, 0.02, 0.05), stiffness=2.0, damping=0.2, armature=0.01),
        cb.Joint("reach", "slider", "slide", axis=(1.0, 0.3, 0.0), stiffness=40.0, springref=0.05, damping=0.5, armature=0.1),
    ]
    springs = [cb.Spring("rope", "world", "plate", point1=(0.5, 0.3, 0.5), point2=(0.1, 0.0, 0.0), stiffness=8.0, damping=0.4, rest_length=0.3)]
    bushings = [cb.Bushing("buffer", "world", "upper", point1=(0.1, 0.0, 0.3), stiffness=(5.0, 6.0, 7.0, 0.3, 0.2, 0.4), damping=(0.1,) * 6)]
    motor = cb.Actuator("motor", "turn", gain=0.5, gear=2.0, bias=0.1, stiffness=0.2, damping=0.05)
    return cb.Model("everything", bodies, joints, springs=springs, bushings=bushings, actuators=[motor], world=DOWN_Z)


def four_bar() -> cb.Model:
    """A square of rods with thickness, closed by a point loop (redundant out of the plane)."""
    rod: dict[str, Any] = {"mass": 1.0, "inertia": (0.01, 1.0 / 12.0, 1.0 / 12.0), "com": (0.5, 0.0, 0.0)}
    up = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))
    back = (math.sqrt(0.5), 0.0, 0.0, -math.sqrt(0.5))
    bodies = [cb.Body("left", orientation=up, **rod), cb.Body("right", position=(1.0, 0.0, 0.0), orientation=up, **rod)]
    bodies.append(cb.Body("top", "left", position=(1.0, 0.0, 0.0), orientation=back, **rod))
    joints = [cb.Joint("a", "left"), cb.Joint("b", "right"), cb.Joint("c", "top")]
    loop = cb.Loop("close", body1="top", body2="right", anchor1=(1.0, 0.0, 0.0), anchor2=(1.0, 0.0, 0.0))
    return cb.Model("four-bar", bodies, joints, [loop], world=DOWN_Y)


def tumbling() -> cb.Model:
    body = cb.Body("box", mass=1.0, com=(0.1, 0.0, 0.2), inertia=(0.02, 0.05, 0.06))
    return cb.Model("tumbling", [body], [cb.Joint("float", "box", "free")], world=DOWN_Z)


PROBLEMS = {
    "furuta": (furuta(), FURUTA_START, {"actuator.motor": lambda t: math.sin(8.0 * t)}, 1.0, ["joint.hinge1.angle", "joint.hinge2.angle"]),
    "everything": (
        everything(), {"joint.turn.angle": 0.4, "joint.shoulder.rate": (0.5, -1.0, 2.0), "joint.reach.rate": 0.3}, {"actuator.motor": 1.5, "joint.reach.force": 2.0},
        0.4, ["joint.turn.angle", "joint.shoulder.angle", "joint.reach.position", "body.plate.com"],
    ),
    "four-bar": (four_bar(), {"joint.a.rate": -1.0}, {}, 0.8, ["joint.a.angle", "joint.c.angle", "body.top.com"]),
    "tumbling": (tumbling(), {"joint.float.rate": (0.3, 0.0, 1.0, 2.0, 5.0, 0.3)}, {}, 0.5, ["body.box.com", "body.box.angle"]),
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == "everything" else ()) for n in PROBLEMS])
def test_first_order_towards_the_variational_limit(name: str) -> None:
    model, initial, drive, duration, paths = PROBLEMS[name]

    def end(stepper: Any, steps: int) -> np.ndarray:
        motion = cb.simulate(model, duration, duration / steps, initial, drive, stepper)
        return np.concatenate([np.atleast_1d(motion[p][-1]) for p in paths])

    counts = [500, 1000, 2000, 4000]
    limit = extrapolated([end("variational", n) for n in (400, 800, 1600)])
    found = [end(STIFF, n) for n in counts]
    errors = [float(np.abs(x - limit).max()) for x in found]
    assert 0.9 < order([duration / n for n in counts], errors) < 1.1
    # what two steps extrapolate to differs from the limit by the second order only
    assert np.abs(2.0 * found[-1] - found[-2] - limit).max() < 0.02 * errors[-1]


@pytest.mark.slow
def test_furuta_of_the_paper_has_the_rigid_limit() -> None:
    """Over the first 5 s: linear in h and in the compliance, and without both the rigid variational motion."""
    every = 1e-3
    paths = ["joint.hinge1.angle", "joint.hinge2.angle"]

    def motion(stepper: Any, h: float) -> np.ndarray:
        run = cb.simulate(furuta(), 5.0, h, FURUTA_START, stepper=stepper)
        return np.array([run[p][:: round(every / h)] for p in paths])

    limit = extrapolated([motion("variational", h) for h in (1e-3, 5e-4, 2.5e-4)])
    errors, values = {}, {}
    for eps in (1e-7, 1e-8):
        for h in (1e-4, 5e-5, 2.5e-5):
            values[eps, h] = motion(cb.Spook(compliance=eps, angular_compliance=eps), h)
            errors[eps, h] = float(np.abs(values[eps, h] - limit).max())
    assert 1.8 < errors[1e-8, 1e-4] / errors[1e-8, 5e-5] < 2.2
    assert 1.8 < errors[1e-8, 5e-5] / errors[1e-8, 2.5e-5] < 2.2
    without_h = {eps: 2.0 * values[eps, 2.5e-5] - values[eps, 5e-5] for eps in (1e-7, 1e-8)}
    left = {eps: float(np.abs(x - limit).max()) for eps, x in without_h.items()}
    assert left[1e-8] < 0.2 * left[1e-7]
    assert np.abs((10.0 * without_h[1e-8] - without_h[1e-7]) / 9.0 - limit).max() < 0.05 * errors[1e-8, 2.5e-5]


@pytest.mark.slow
def test_furuta_of_the_paper_runs_down() -> None:
    """G.3 as printed: 400 000 steps; energy only falls, the joints hold, and the pendulum that turned over at first only swings after 40 s."""
    motion = cb.simulate(furuta(), 40.0, 1e-4, FURUTA_START, stepper=cb.Spook(compliance=1e-5, angular_compliance=1e-5))
    assert len(motion.time) == 400_001
    energy = motion.energy[::1000]
    assert np.all(np.diff(energy) < 1e-4 * energy[0])
    # a pendulum of 0.428 kg swinging through loads its hinge with a few times its weight: 1e-5 m/N of 20 N
    tip = motion["body.rod.position"] - 0.248 * np.stack(
        [np.cos(motion["joint.hinge1.angle"]), np.sin(motion["joint.hinge1.angle"]), 0.0 * motion.time], axis=1
    )
    assert np.abs(tip).max() < 2e-3
    swing = np.ptp(motion["joint.hinge2.angle"].reshape(-1)[:400_000].reshape(20, -1), axis=1)
    assert swing[-1] < 0.6 * swing[0] and energy[-1] < 0.0 < energy[0]


@pytest.mark.parametrize("h", [1e-4, 1e-3, 5e-3])
def test_violation_decays_with_the_damping_time(h: float) -> None:
    """A pin pulled 1 mm along and a hinge axis tilted by 1 mrad come back as exp(-t/tau), each with its own tau.

    In discrete time g_k = rho^k with `(1 + 4x) rho^2 - (4x - 2) rho + 1 = 0`, x = tau/h: insert `v+ = (g+ - g)/h` into the row.
    """
    tau, angular = 0.05, 0.02
    model = cb.Model("pin", [cb.Body("disc", mass=1.0, inertia=(0.1, 0.1, 0.2))], [cb.Joint("pin", "disc")], world=WEIGHTLESS)
    stepper = cb.Spook(1e-12, 1e-12, relaxation=tau, angular_relaxation=angular)
    structure = Structure.build(model, "free")
    numbers = Numbers.of(structure)
    start, _ = start_of(structure, numbers, {}, "mass", 1.0)
    start.q[2] += 1e-3
    start.q[3:7] = [math.cos(5e-4), math.sin(5e-4), 0.0, 0.0]
    n = round(0.1 / h)
    q = stepper.run(structure, numbers, start, np.zeros((0, n)), np.zeros((1, n)), h).q
    away, tilt = q[2], 2.0 * q[4]
    settled = slice(round(0.03 / h), None)  # the first steps find the velocity that goes with the violation
    for values, time in ((away, tau), (tilt, angular)):
        factors = values[settled][1:] / values[settled][:-1]
        x = time / h
        rho = (4.0 * x - 2.0 + math.sqrt((4.0 * x - 2.0) ** 2 - 4.0 * (1.0 + 4.0 * x))) / (2.0 * (1.0 + 4.0 * x))
        np.testing.assert_allclose(factors, rho, rtol=1e-6)
        slope = np.polyfit(h * np.arange(len(values))[settled], np.log(values[settled]), 1)[0]
        assert -1.0 / slope == pytest.approx(time, rel=0.7 * h / time + 1e-3)


@pytest.mark.parametrize("h", [1e-3, 1e-2])
def test_static_deflection_is_compliance_times_load(h: float) -> None:
    """A cantilever on a hinge with a vertical axis: the pin gives way by eps m g, the axis tilts by eps_angular m g l."""
    m, l, g = 2.0, 0.5, 9.81
    model = cb.Model("cantilever", [cb.Body("beam", mass=m, com=(l, 0.0, 0.0), inertia=(0.1, 0.2, 0.2))], [cb.Joint("pin", "beam")], world=DOWN_Z)
    motion = cb.simulate(model, 1.0, h, stepper=cb.Spook(compliance=1e-6, angular_compliance=1e-5))
    assert motion["body.beam.position"][-1, 2] == pytest.approx(-1e-6 * m * g, rel=1e-3)
    assert motion["body.beam.angle"][-1, 1] == pytest.approx(1e-5 * m * g * l, rel=1e-3)
    assert motion["joint.pin.reaction.force"][-1, 2] == pytest.approx(m * g, rel=1e-6)


def test_a_joint_states_its_own_softness() -> None:
    """The model's compliance goes before the stepper's; without an angular one it serves both."""
    m, l, g = 2.0, 0.5, 9.81
    for own, linear, angular in (
        ({"compliance": 1e-6}, 1e-6, 1e-6),
        ({"compliance": 1e-6, "angular_compliance": 1e-5, "angular_relaxation": 0.05}, 1e-6, 1e-5),
    ):
        joint = cb.Joint("pin", "beam", relaxation=0.02, **own)
        model = cb.Model("cantilever", [cb.Body("beam", mass=m, com=(l, 0.0, 0.0), inertia=(0.1, 0.2, 0.2))], [joint], world=DOWN_Z)
        for stepper in ("spook", "variational"):
            motion = cb.simulate(model, 1.0, 1e-3, stepper=stepper)
            assert motion["body.beam.position"][-1, 2] == pytest.approx(-linear * m * g, rel=1e-3)
            assert motion["body.beam.angle"][-1, 1] == pytest.approx(angular * m * g * l, rel=1e-3)


def test_reactions_and_multipliers_are_the_weight() -> None:
    """The multipliers of a joint at rest are the forces of its rows [N, N m]."""
    model = cb.Model("hung", [cb.Body("weight", mass=2.0, inertia=(0.1, 0.1, 0.1))], [cb.Joint("pin", "weight")], world=DOWN_Z)
    motion = cb.simulate(model, 0.5, 1e-3, stepper="spook")
    np.testing.assert_allclose(np.abs(motion.multipliers[:, -1]), [0.0, 0.0, 2.0 * 9.81, 0.0, 0.0], atol=1e-6)


def test_shaft_inertia_slows_the_motor() -> None:
    """Torque t on a rotor J with a shaft J_s: exactly t/(J + J_s), at any step."""
    body = cb.Body("rotor", mass=1.0, inertia=(0.1, 0.1, 0.03))
    model = cb.Model("rotor", [body], [cb.Joint("pin", "rotor", armature=0.02)], actuators=[cb.Actuator("motor", "pin", gain=0.5)], world=WEIGHTLESS)
    motion = cb.simulate(model, 1.0, 0.01, drive={"actuator.motor": 0.2}, stepper="spook")
    assert motion["joint.pin.rate"][-1] == pytest.approx(0.1 / 0.05 * (1.0 + 0.005), rel=1e-9)  # the rate between the steps before and after t = 1 s


def test_viscous_friction_is_implicit() -> None:
    """The rate falls by 1/(1 + b h/J) in every step, whatever b h/J is."""
    body = cb.Body("rotor", mass=1.0, inertia=(0.1, 0.1, 0.03))
    for b in (0.1, 100.0):
        motion = cb.simulate(
            cb.Model("rotor", [body], [cb.Joint("pin", "rotor", damping=b)], world=WEIGHTLESS), 0.1, 0.01, {"joint.pin.rate": 2.0}, stepper="spook"
        )
        rates = np.diff(motion["joint.pin.angle"]) / 0.01
        np.testing.assert_allclose(rates, 2.0 / (1.0 + b * 0.01 / 0.03) ** np.arange(1, 11), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_inverse_dynamics_explains_every_element(name: str) -> None:
    """The stepper's own motion leaves nothing over."""
    model, initial, drive, _, _ = PROBLEMS[name]
    stepper = cb.Spook(compliance=1e-6, angular_compliance=1e-6)
    motion = cb.simulate(model, 0.05, 1e-3, initial, drive, stepper)
    forces = stepper.inverse_dynamics(motion)
    scale = np.abs(forces.reactions).max(initial=1.0)
    assert np.abs(forces.unexplained).max() < 1e-7 * scale
    np.testing.assert_allclose(forces.reactions, motion.multipliers[:, 1:-1], atol=1e-7 * scale)


def test_the_result_is_a_motion_like_any_other() -> None:
    motion = cb.simulate(furuta(), 0.1, 1e-3, FURUTA_START, stepper="spook")
    assert motion.coordinates == "free"
    assert len(motion.time) == 101
    for path in motion.channels:
        assert np.isfinite(motion[path]).all(), path
    assert motion.to_frame().height == 101
