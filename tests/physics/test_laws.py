"""Single laws with closed-form answers: springs, friction, motors, compliance, tilt."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from physics.convergence import order
from problems import DOWN_Y, DOWN_Z, WEIGHTLESS, random_tree
from scipy.integrate import quad

import calibody as cb

MASS = 2.0


def slider(world: cb.World = WEIGHTLESS, axis: tuple[float, float, float] = (1.0, 0.0, 0.0), **law: Any) -> cb.Model:
    body = cb.Body("block", mass=MASS, inertia=(0.1, 0.1, 0.1))
    return cb.Model("slider", [body], [cb.Joint("slide", "block", "slide", axis=axis, **law)], world=world)


def wheel(**law: Any) -> cb.Model:
    body = cb.Body("wheel", mass=1.0, inertia=(0.02, 0.02, 0.04))
    return cb.Model("wheel", [body], [cb.Joint("axle", "wheel", **law)], world=WEIGHTLESS)


def test_oscillation_of_a_spring_is_that_of_the_midpoint_rule() -> None:
    """m (x+ - 2x + x-)/h^2 + k (x+ + 2x + x-)/4 = 0 has the exact solution cos(omega_h t), tan(omega_h h/2) = (h/2) sqrt(k/m)."""
    stiffness, start = 50.0, 0.3
    for h in (0.05, 0.01):
        motion = cb.simulate(slider(stiffness=stiffness), 10.0, h, {"joint.slide.position": start})
        omega = 2.0 / h * math.atan(0.5 * h * math.sqrt(stiffness / MASS))
        np.testing.assert_allclose(motion["joint.slide.position"], start * np.cos(omega * motion.time), atol=1e-11)
        # that rule keeps the energy of its intervals exactly; the nodes' energy, by central differences, to O(h^2)
        x = motion["joint.slide.position"]
        energy = 0.5 * MASS * (np.diff(x) / h) ** 2 + 0.5 * stiffness * (0.5 * (x[1:] + x[:-1])) ** 2
        np.testing.assert_allclose(energy, energy[0], rtol=1e-11)


def test_point_spring_swings_like_a_joint_spring() -> None:
    """Without rest length the tension is -k d: along the slide the same oscillator, also with the rest length subtracted."""
    h, stiffness = 0.02, 50.0
    body = cb.Body("block", mass=MASS, inertia=(0.1, 0.1, 0.1))
    spring = cb.Spring("spring", "world", "block", point1=(-1.0, 0.0, 0.0), stiffness=stiffness, rest_length=0.8)
    motion = cb.simulate(cb.Model("m", [body], [cb.Joint("slide", "block", "slide", (1.0, 0.0, 0.0))], springs=[spring], world=WEIGHTLESS), 5.0, h)
    omega = 2.0 / h * math.atan(0.5 * h * math.sqrt(stiffness / MASS))
    np.testing.assert_allclose(motion["joint.slide.position"], -0.2 + 0.2 * np.cos(omega * motion.time), atol=1e-11)


def test_damped_block_comes_to_rest_exponentially() -> None:
    """m v' = -b v: rho_k = rho_0 ((1 - a)/(1 + a))^k, a = b h/(2m), exactly."""
    h, b, v = 0.01, 3.0, 1.2
    motion = cb.simulate(slider(damping=b), 2.0, h, {"joint.slide.rate": v})
    rho = np.diff(motion["joint.slide.position"]) / h
    a = 0.5 * b * h / MASS
    np.testing.assert_allclose(rho, v / (1.0 + a) * ((1.0 - a) / (1.0 + a)) ** np.arange(len(rho)), rtol=1e-10)


def test_armature_is_an_inertia_of_the_coordinate() -> None:
    motion = cb.simulate(slider(armature=3.0), 1.0, 0.01, drive={"joint.slide.force": 4.0})
    np.testing.assert_allclose(motion["joint.slide.position"], 0.5 * 4.0 / (MASS + 3.0) * motion.time**2, atol=1e-11)
    np.testing.assert_allclose(motion["joint.slide.rate"], 4.0 / (MASS + 3.0) * motion.time, atol=1e-11)


ANGLE = 0.4
INCLINE = (math.cos(ANGLE), 0.0, -math.sin(ANGLE))
PULL = MASS * 9.81 * math.sin(ANGLE)


def test_friction_holds_a_block_on_an_incline() -> None:
    """Below its limit friction is viscous with slope friction/delta: the block creeps at delta times pull/friction, and no more."""
    friction, delta = 1.5 * PULL, 1e-4
    motion = cb.simulate(slider(DOWN_Z, INCLINE, friction=friction), 1.0, 1e-3, stepper=cb.Variational(friction_rate=delta))
    creep = delta * PULL / friction
    np.testing.assert_allclose(motion["joint.slide.position"][-1], creep * 1.0, rtol=1e-2)
    # sticking, the mean of two intervals balances the pull at once, each of them only after an alternation that dies out
    np.testing.assert_allclose(motion["joint.slide.reaction.force"][-500:], [[0.0, 0.0, MASS * 9.81]] * 500, atol=1e-6)


def test_block_slides_down_an_incline() -> None:
    """a = g sin(alpha) - c/m; constant forces are integrated exactly, only the first step feels delta."""
    friction = 0.5 * PULL
    acceleration = 9.81 * math.sin(ANGLE) - friction / MASS
    motion = cb.simulate(slider(DOWN_Z, INCLINE, friction=friction), 1.0, 1e-3, stepper=cb.Variational(friction_rate=1e-5))
    np.testing.assert_allclose(motion["joint.slide.position"], 0.5 * acceleration * motion.time**2, atol=1e-6)
    normal = motion["joint.slide.reaction.force"] + np.array([friction * math.cos(ANGLE), 0.0, -friction * math.sin(ANGLE)])
    np.testing.assert_allclose(normal[5:] @ INCLINE, 0.0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(normal[5:], axis=1), MASS * 9.81 * math.cos(ANGLE), atol=1e-6)


def test_stopping_time_of_a_frictional_hinge() -> None:
    """J w' = -c stops after J w0/c at the angle J w0^2/(2c), to first order in h; then it stays."""
    inertia, friction, rate = 0.04, 0.05, 3.0
    stop, angle = inertia * rate / friction, 0.5 * inertia * rate**2 / friction
    steps, errors = (0.08, 0.04, 0.02, 0.01), []
    for h in steps:
        motion = cb.simulate(wheel(friction=friction), 4.0, h, {"joint.axle.rate": rate}, stepper=cb.Variational(friction_rate=1e-6))
        moving = np.abs(np.diff(motion["joint.axle.angle"]) / h) > 1e-5
        last = motion.time[1:][moving][-1]
        assert not moving[int(np.argmin(moving)) :].any()  # it stops once
        assert abs(last - stop) < 1.5 * h
        errors.append(abs(motion["joint.axle.angle"][-1] - angle))
        # inertia in natural coordinates: sin(h w)/h in place of w, an error of second order; stopping within a step: first order
        assert errors[-1] < h * rate
    assert errors[-1] < 0.3 * errors[0]


@pytest.mark.parametrize("h", [1e-3, 1e-2])
@pytest.mark.parametrize("friction", [0.05, 0.5, 3.0])
def test_friction_from_rest(friction: float, h: float) -> None:
    """Let go level, a pendulum falls if its weight exceeds the friction and stays if not, whatever the step: each starts at the kink of the law."""
    body = cb.Body("arm", mass=1.0, com=(0.2, 0.0, 0.0), inertia=(0.01, 0.01, 0.01))
    motion = cb.simulate(cb.Model("arm", [body], [cb.Joint("pin", "arm", friction=friction)], world=DOWN_Y), 2.0, h)
    angle = motion["joint.pin.angle"]
    if friction > 1.0 * 9.81 * 0.2:
        assert np.abs(angle).max() < 2.0 * 1e-3  # creeping below the stepper's friction rate
    else:
        assert angle.min() < -1.0
        # what friction takes is friction times the way; second order in h
        lost = friction * np.abs(np.diff(angle)).sum()
        assert motion.energy[0] - motion.energy[-1] == pytest.approx(lost, rel=1e-2 if h < 5e-3 else 5e-2)


@pytest.mark.parametrize(("friction", "angles"), [((0.05, 0.05), (-1.0, 0.5)), ((0.5, 0.1), (0.0, 0.0))])
def test_two_frictional_joints_come_to_rest_together(friction: tuple[float, float], angles: tuple[float, float]) -> None:
    """One joint's sticking changes the load on the other: several kinks within one step, at a step that is coarse for them."""
    bodies = [
        cb.Body(n, p, mass=1.0, com=(0.2, 0.0, 0.0), inertia=(0.01, 0.01, 0.01), position=x)
        for n, p, x in (("a", "world", (0.0, 0.0, 0.0)), ("b", "a", (0.4, 0.0, 0.0)))
    ]
    joints = [cb.Joint(n, n, friction=c) for n, c in zip("ab", friction, strict=True)]
    motion = cb.simulate(cb.Model("two", bodies, joints, world=DOWN_Y), 5.0, 0.01, {f"joint.{n}.angle": x for n, x in zip("ab", angles, strict=True)})
    way = sum(c * np.abs(np.diff(motion[f"joint.{n}.angle"])).sum() for n, c in zip("ab", friction, strict=True))
    assert motion.energy[0] - motion.energy[-1] == pytest.approx(way, rel=0.1)


@pytest.mark.parametrize("seed", [1, 2])
def test_strong_friction_in_a_tree(seed: int) -> None:
    """Hinges, slides and balls that stick and let go, in steps of 10 ms: it arrives, and energy is lost."""
    model = random_tree(seed, 5, floating=False)
    stuck = model.replace({f"joint.{j.name}.friction": 10.0 * max(j.friction, 0.3) for j in model.joints})
    motion = cb.simulate(stuck, 10.0, 0.01)
    assert motion.energy[-1] < motion.energy[0]


@pytest.mark.parametrize("rate", [0.2, 0.6, 0.85, 0.99, 1.5])
def test_soft_friction_grows_to_its_full_size(rate: float) -> None:
    """Held at a constant force, the wheel turns steadily where its friction equals it: a ramp up to 0.7 of the width, bent over the rest, full beyond."""
    friction, width, b = 0.05, 2.0, 0.01
    slope, _ = quad(lambda x: 1.0 if x < 0.7 else (1.0 - x) / 0.3 if x < 1.0 else 0.0, 0.0, rate, points=[0.7, 1.0] if rate > 0.7 else None)
    force = friction * slope / 0.85 + b * rate * width
    motion = cb.simulate(wheel(friction=friction, friction_rate=width, damping=b), 0.2, 0.001, {"joint.axle.rate": rate * width}, {"joint.axle.force": force})
    np.testing.assert_allclose(motion["joint.axle.rate"], rate * width, rtol=2e-6)


def test_soft_friction_is_refused_where_friction_is_sharp() -> None:
    with pytest.raises(cb.CalibodyError, match=r"joint\.axle\.friction_rate is 2, but friction is sharp"):
        cb.simulate(wheel(friction=0.05, friction_rate=2.0), 0.1, 0.01, stepper="spook")


def test_stribeck_friction_falls_with_the_rate() -> None:
    """Held at a constant force, the wheel turns steadily where friction + stribeck exp(-(w/r)^2) + b w equals it."""
    friction, extra, r, b = 0.05, 0.04, 0.5, 0.02
    for steady in (1.0, 2.5):
        force = friction + extra * math.exp(-((steady / r) ** 2)) + b * steady
        model = wheel(friction=friction, stribeck=extra, stribeck_rate=r, damping=b)
        motion = cb.simulate(model, 0.5, 0.001, {"joint.axle.rate": steady}, {"joint.axle.force": force})
        # the known start takes w for sin(w h)/h: an error of (w h)^2/6 that dies out
        np.testing.assert_allclose(motion["joint.axle.rate"], steady, rtol=2e-6)


def test_steady_speed_of_a_dc_motor() -> None:
    """Torque constant k, resistance R, voltage u, gear N: N k/R (u - k N w) = b w + c."""
    k, resistance, u, gear, b, c = 0.05, 2.0, 12.0, 5.0, 0.01, 0.1
    base = wheel(damping=b, friction=c)
    motor = cb.Actuator("motor", "axle", gain=k / resistance, damping=k * k / resistance, gear=gear)
    model = cb.Model("motor", base.bodies, base.joints, actuators=[motor], world=WEIGHTLESS)
    motion = cb.simulate(model, 30.0, 0.01, {"joint.axle.rate": 1.0}, {"actuator.motor": u})
    steady = (gear * k / resistance * u - c) / (b + gear**2 * k * k / resistance)
    assert motion["joint.axle.rate"][-1] == pytest.approx(steady, rel=1e-9)
    assert motion["actuator.motor.force"][-1] == pytest.approx(b * steady + c, rel=1e-9)


@pytest.mark.parametrize(("axis", "tilt", "expected"), [((0.0, 1.0, 0.0), (0.1, 0.0, 0.7), math.sin(0.1)), ((1.0, 0.0, 0.0), (0.0, 0.1, 0.7), -math.sin(0.1))])
def test_tilt_of_gravity(axis: tuple[float, float, float], tilt: tuple[float, float, float], expected: float) -> None:
    """Turning (0, 0, -g) by t about x gives it g sin(t) along y; about y, -g sin(t) along x."""
    model = slider(DOWN_Z, axis).replace({"world.gravity.tilt": tilt})
    assert cb.forward_dynamics(model)[0] == pytest.approx(9.81 * expected, rel=1e-12)


def test_compliant_joint_gives_way_in_proportion() -> None:
    """A weight hung on a soft hinge: the pin moves by compliance times m g, and the relaxation damps the way there."""
    compliance, relaxation = 1e-4, 0.02
    body = cb.Body("weight", mass=MASS, com=(0.0, -0.3, 0.0), inertia=(0.01, 0.01, 0.01))
    joint = cb.Joint("pin", "weight", compliance=compliance, relaxation=relaxation)
    motion = cb.simulate(cb.Model("hung", [body], [joint], world=DOWN_Y), 1.0, 1e-3)
    assert motion.coordinates == "free"
    np.testing.assert_allclose(motion["body.weight.position"][-1], [0.0, -compliance * MASS * 9.81, 0.0], atol=1e-9)
    np.testing.assert_allclose(motion["joint.pin.reaction.force"][-1], [0.0, MASS * 9.81, 0.0], atol=1e-4)


def test_compliant_joint_tends_to_the_rigid_one() -> None:
    """The swing of a soft pendulum differs from that of the rigid one in proportion to the compliance, down to rigid."""
    body = cb.Body("bob", mass=1.0, com=(1.0, 0.0, 0.0), inertia=(0.01, 0.01, 0.01))

    def tip(compliance: float) -> np.ndarray:
        joint = cb.Joint("pin", "bob", compliance=compliance, relaxation=0.05 if compliance else 0.0)
        motion = cb.simulate(cb.Model("m", [body], [joint], world=DOWN_Y), 1.0, 2e-3, coordinates="free")
        return motion["body.bob.com"][-1]

    rigid = tip(0.0)
    softness = (4e-5, 2e-5, 1e-5, 5e-6)
    errors = [float(np.abs(tip(c) - rigid).max()) for c in softness]
    assert order(softness, errors) == pytest.approx(1.0, abs=0.1)
    np.testing.assert_allclose(tip(1e-12), rigid, atol=1e-9)
