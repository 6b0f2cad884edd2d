"""Contacts and limits of the regularised stepper: exact solutions, the variational stepper as h gets small, and what it does not know."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contacts import single, tossed, trough

import calibody as cb

G = 9.81


def tilted(angle: float) -> cb.World:
    """A ground that falls by `angle` towards +x."""
    return cb.World(ground_tilt=(0.0, angle))


def rates(motion: cb.Motion) -> np.ndarray:
    """(steps, 3) the velocity of the block in every step."""
    return np.diff(motion["body.block.com"], axis=0) / motion.h


def block(friction: float, world: cb.World | None = None, **contact: Any) -> cb.Model:
    return single("box", (0.2, 0.2, 0.05), 2.0, (0.03, 0.03, 0.05), world, friction=friction, **contact)


@pytest.mark.parametrize("direction", [0.0, 0.4, math.pi / 4, 2.0])
def test_a_block_slides_with_mu_g_and_stops_for_good(direction: float) -> None:
    """Whatever its direction, although the friction is a pyramid; stopping is at v/(mu g) to a step, the way v^2/(2 mu g)."""
    mu, speed, h = 0.3, 1.5, 1e-3
    start = {"joint.free.position": (0, 0, 0.05), "joint.free.rate": (speed * math.cos(direction), speed * math.sin(direction), 0, 0, 0, 0)}
    motion = cb.simulate(block(mu), 1.0, h, start, stepper="spook")
    fast, stop = np.linalg.norm(rates(motion), axis=1), speed / (mu * G)
    np.testing.assert_allclose(np.diff(fast)[80 : int(stop / h) - 5] / h, -mu * G, rtol=1e-6)  # before, it still sinks to its sag
    np.testing.assert_allclose(fast[int(stop / h) + 3 :], 0.0, atol=1e-7)
    np.testing.assert_allclose(fast[-100:], 0.0, atol=1e-9)
    assert np.linalg.norm(motion["body.block.com"][-1, :2]) == pytest.approx(0.5 * speed**2 / (mu * G), rel=2e-3)
    np.testing.assert_allclose(motion["contact.floor.slip"][10:100], fast[10:100], rtol=1e-3)
    force = motion["contact.floor.force"]
    np.testing.assert_allclose(force[80:-1, 2], 2.0 * G, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(force[80 : int(stop / h) - 5, :2], axis=1), mu * 2.0 * G, rtol=1e-6)


@pytest.mark.parametrize("across", [0.0, 0.7])
def test_a_block_sticks_below_the_friction_angle_and_slides_above(across: float) -> None:
    """It creeps by S_t h f below, whatever the direction of the slope."""
    mu, h = 0.5, 2e-3
    for ratio in (0.95, 1.1):
        angle = math.atan(ratio * mu)
        world = cb.World(ground_tilt=(angle * math.sin(across), angle * math.cos(across)))
        model = block(mu, world)
        down = np.array([math.cos(across), -math.sin(across), 0.0])
        turn = (angle * math.sin(across), angle * math.cos(across), 0.0)
        normal = math.cos(angle) * np.array([0.0, 0.0, 1.0]) + math.sin(angle) * down
        start = {"joint.free.position": tuple(0.05 * normal), "joint.free.angle": turn}
        motion = cb.simulate(model, 0.5, h, start, stepper=cb.Spook(slip=1e-6))
        v = np.linalg.norm(rates(motion), axis=1)
        if ratio < 1.0:
            assert v[150:].max() < 1e-6 * h * 2.0 * G  # four corners share the force that makes them creep
        else:
            np.testing.assert_allclose(np.diff(v)[20:] / h, G * (math.sin(angle) - mu * math.cos(angle)), rtol=1e-4)


def test_what_rests_carries_its_weight_and_gives_way_by_the_compliance() -> None:
    """A ball on one place, a box on four: the forces sum to the weight, the sag is compliance times the force of a place."""
    soft = cb.Spook(compliance=1e-5)
    ball = single("sphere", (0.1,), 3.0, (0.012,) * 3, friction=0.5)
    for model, height, mass, places in ((ball, 0.1, 3.0, 1), (block(0.5), 0.05, 2.0, 4)):
        motion = cb.simulate(model, 1.0, 1e-3, {"joint.free.position": (0, 0, height + 0.02)}, stepper=soft)
        assert motion["contact.floor.force"][-2] == pytest.approx((0.0, 0.0, mass * G), rel=1e-6, abs=1e-8)
        assert motion["contact.floor.force.normal"][-2] == pytest.approx(mass * G, rel=1e-6)
        assert motion["contact.floor.gap"][-1] == pytest.approx(-1e-5 * mass * G / places, rel=1e-4)
        assert np.abs(rates(motion)[-10:]).max() < 1e-8


@pytest.mark.parametrize("restitution", [0.3, 0.8])
def test_a_ball_rises_to_the_height_that_its_restitution_gives(restitution: float) -> None:
    """e^2 of the height it fell from, within twice what it falls in a step at its fastest, for every step. It comes to rest at last."""
    ball = single("sphere", (0.1,), 1.0, (0.004,) * 3, friction=0.3, restitution=restitution)
    fall = math.sqrt(2.0 * 0.5 / G)
    for h in (2e-3, 2.5e-4):
        motion = cb.simulate(ball, 1.2, h, {"joint.free.position": (0, 0, 0.6)}, stepper="spook")
        after = motion["body.block.position"][(motion.time > fall + 2 * h) & (motion.time < fall * (1.0 + 1.9 * restitution)), 2]
        assert abs(after.max() - 0.1 - restitution**2 * 0.5) < 2.0 * G * fall * h
        if restitution == 0.3:
            assert np.abs(rates(motion)[-20:]).max() < 1e-9 and motion["contact.floor.force.normal"][-2] == pytest.approx(G, rel=1e-6)


def test_without_restitution_nothing_comes_back() -> None:
    ball = single("sphere", (0.1,), 1.0, (0.004,) * 3, friction=0.3)
    motion = cb.simulate(ball, 0.6, 1e-3, {"joint.free.position": (0, 0, 0.4)}, stepper="spook")
    landed = int(np.argmax(motion["contact.floor.force.normal"] > 0.0))
    assert motion.time[landed] == pytest.approx(math.sqrt(2.0 * 0.3 / G), abs=2e-3)
    assert np.abs(motion["contact.floor.gap"][landed + 2 :]).max() < 2e-4
    impulse = 1e-3 * (motion["contact.floor.force.normal"][landed : landed + 3] - G).sum()
    assert impulse == pytest.approx(math.sqrt(2.0 * 0.3 * G), rel=0.02)


def arm(limit: cb.Limit, **joint: Any) -> cb.Model:
    body = cb.Body("arm", mass=0.5, com=(0.2, 0, 0), inertia=(0.005,) * 3)
    return cb.Model("arm", [body], [cb.Joint("hinge", "arm", axis=(0, 1, 0), **joint)], limits=[limit])


@pytest.mark.parametrize(("side", "start", "stop"), [("upper", 0.2, 0.6), ("lower", 0.1, -3.5)])
def test_a_joint_limit_holds(side: str, start: float, stop: float) -> None:
    """An arm that is pushed against its stop rests there, beyond half a turn too, with the torque that is left of drive and weight; it gives way by the compliance."""
    sign = 1.0 if side == "upper" else -1.0
    model, eps = arm(cb.Limit("stop", "hinge", stop, side), damping=0.02), 1e-4
    motion = cb.simulate(model, 2.5, 1e-3, {"joint.hinge.angle": start}, {"joint.hinge.force": sign * 2.0}, stepper=cb.Spook(angular_compliance=eps))
    held = 2.0 - abs(0.5 * G * 0.2 * math.cos(stop)) * math.copysign(1.0, -sign * math.cos(stop))
    assert motion["joint.hinge.angle"][-1] == pytest.approx(stop, abs=2.0 * eps * held)
    assert motion["limit.stop.force"][-2] == pytest.approx(-sign * held, rel=1e-3)
    assert motion["limit.stop.gap"][-1] == pytest.approx(-eps * held, rel=1e-2)


def test_a_limit_throws_back() -> None:
    """Without gravity: at the restitution's share of the rate."""
    model = replace(arm(cb.Limit("stop", "hinge", 0.5, "upper", restitution=0.6), damping=1e-12), world=cb.World(gravity=(0, 0, 0)))
    motion = cb.simulate(model, 0.4, 1e-3, {"joint.hinge.rate": 3.0}, stepper="spook")
    assert motion["joint.hinge.rate"][-2] == pytest.approx(-1.8, rel=1e-3)  # the pin is soft and the arm eccentric


def test_a_contact_beside_a_frictional_joint() -> None:
    """A rail with friction by load carries a cart, which pushes a block that slides on the ground: the two accelerate together, by all forces that are known."""
    mu, rail, push, ma, mb = 0.25, 0.1, 30.0, 2.0, 3.0
    cart, crate = cb.Body("cart", mass=ma, inertia=(0.02,) * 3, position=(0, 0, 0.1)), cb.Body("crate", mass=mb, inertia=(0.05,) * 3)
    model = cb.Model(
        "push",
        [cart, crate],
        [cb.Joint("rail", "cart", "slide", axis=(1, 0, 0), load_friction=rail), cb.Joint("free", "crate", "free")],
        geometries=[cb.Geometry("nose", "cart", "sphere", (0.05,)), cb.Geometry("hull", "crate", "box", (0.2, 0.2, 0.1))],
        contacts=[cb.Contact("floor", "hull", friction=mu), cb.Contact("touch", "nose", "hull")],
    )
    start = {"joint.free.position": (0.26, 0, 0.1)}
    motion = cb.simulate(model, 0.4, 5e-4, start, {"joint.rail.force": push}, stepper="spook")
    a = (push - rail * ma * G - mu * mb * G) / (ma + mb)
    v = motion["joint.rail.rate"]
    np.testing.assert_allclose(np.gradient(v, motion.h)[300:-5], a, rtol=1e-3)
    np.testing.assert_allclose(motion["contact.touch.force"][300:-5, 0], -mb * (a + mu * G), rtol=1e-3)
    carried = np.array([-mu * mb * G, 0.0, mb * G])
    assert np.linalg.norm(motion["contact.floor.force"][300:-5] - carried, axis=1).max() < 1e-3 * np.linalg.norm(carried)


@pytest.mark.slow
def test_reactions_know_of_contacts() -> None:
    """A bar on a hinge whose end lies on the ground: hinge and ground share the weight."""
    bar = cb.Body("bar", mass=2.0, com=(0.5, 0, 0), inertia=(0.01, 0.2, 0.2), position=(0, 0, 0.05))
    tip = cb.Geometry("tip", "bar", "sphere", (0.05,), (1.0, 0, 0))
    model = cb.Model("bar", [bar], [cb.Joint("pin", "bar", axis=(0, 1, 0))], geometries=[tip], contacts=[cb.Contact("floor", "tip")])
    motion = cb.simulate(model, 0.5, 1e-3, stepper="spook")
    assert motion["contact.floor.force.normal"][-2] == pytest.approx(G, rel=1e-6)
    assert motion["joint.pin.reaction.force"][-3, 2] == pytest.approx(G, rel=1e-4)


@pytest.mark.slow
def test_many_things_come_to_rest_and_their_forces_carry_all_weights() -> None:
    """Four spheres and capsules in a trough of three planes."""
    model, start = trough(4)
    motion = cb.simulate(model, 3.0, 2e-3, start, stepper="spook")
    weight = sum(b.mass for b in model.bodies) * G
    from_world = sum(motion[f"contact.{c.name}.force"][-2] for c in model.contacts if {"ground", "world"} & _bodies(model, c))
    assert np.asarray(from_world) == pytest.approx((0.0, 0.0, weight), rel=2e-2, abs=2e-2 * weight)


def _bodies(model: cb.Model, contact: cb.Contact) -> set[str]:
    return {name if name == "ground" else model.tables["geometry"][name].body for name in (contact.a, contact.b)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3, 5, 8])
def test_tosses_never_gain_energy(seed: int) -> None:
    """Random shapes, frictions and throws, without rebound: the energy after is never above that before by more than the first order of a step."""
    model, start = tossed(seed)
    model = model.replace({"contact.floor.restitution": 0.0})
    motion = cb.simulate(model, 1.5, 5e-4, start, stepper="spook")
    energy = motion.energy
    assert np.all(energy <= energy[0] + 2e-2 * (energy[0] - energy[-1])) and motion["contact.floor.gap"].min() > -5e-3
    weight = model.body("block").mass * G
    assert 5e-4 * motion["contact.floor.force"][:-1, 2].sum() == pytest.approx(
        weight * 1.5 + model.body("block").mass * (rates(motion)[-1, 2] - start["joint.free.rate"][2]), rel=1e-3
    )


def _rolling(h: float, stepper: Any) -> np.ndarray:
    ball = single("sphere", (0.1,), 1.0, (0.004,) * 3, friction=0.2)
    motion = cb.simulate(ball, 0.6, h, {"joint.free.position": (0, 0, 0.13), "joint.free.rate": (2.0, 0.5, 0, 0, 3.0, 0)}, stepper=stepper)
    return np.concatenate([motion["body.block.com"][-1], motion["joint.free.rate"][-2, :2]])


def _toppling(h: float, stepper: Any) -> np.ndarray:
    """A capsule that stands askew on one end, falls, slips and lies down."""
    rod = single("capsule", (0.02, 0.2), 1.0, (0.014, 0.014, 0.0005), friction=0.3)
    lift = 0.02 + 0.2 * math.sin(1.0)
    start = {"joint.free.position": (0, 0, lift), "joint.free.angle": (0, math.pi / 2 - 1.0, 0)}
    motion = cb.simulate(rod, 0.8, h, start, stepper=stepper)
    return np.concatenate([motion["body.block.com"][-1], motion["joint.free.angle"][-1]])


@pytest.mark.slow
@pytest.mark.parametrize("case", [_rolling, _toppling])
def test_it_tends_to_the_variational_stepper(case: Any) -> None:
    """A ball that lands, slips and rolls, and a rod that topples: a quarter of the step, at most half of the error."""
    exact = case(5e-4, "variational")
    stiff = cb.Spook(compliance=1e-10, angular_compliance=1e-10)
    coarse, fine = (float(np.abs(case(h, stiff) - exact).max()) for h in (4e-3, 1e-3))
    assert fine < 0.5 * coarse and fine < 1e-2


def test_what_it_does_not_know_is_a_sentence() -> None:
    soft = cb.Model(
        bodies=[cb.Body("block", mass=1.0, inertia=(0.01,) * 3)],
        joints=[cb.Joint("free", "block", "free")],
        geometries=[cb.Geometry("shape", "block", "sphere", (0.1,))],
        contacts=[cb.Contact("floor", "shape", law="compliant", stiffness=1e4)],
    )
    start = {"joint.free.position": (0, 0, 0.2)}
    with pytest.raises(cb.SimulationError, match=r'contact\.floor is compliant, which stepper="spook" does not know'):
        cb.simulate(soft, 0.1, 1e-3, start, stepper="spook")
    with pytest.raises(cb.SimulationError, match=r'contact\.floor has law = "poisson"'):
        cb.simulate(block(0.3, law="poisson"), 0.1, 1e-3, start, stepper="spook")
    with pytest.raises(cb.SimulationError, match=r"0\.05 m inside"):
        cb.simulate(block(0.3), 0.1, 1e-3, {"joint.free.position": (0, 0, 0.0)}, stepper="spook")
    many, begin = trough(10)
    with pytest.raises(cb.SimulationError, match=r"places, and stepper=\"spook\" solves for all of them in every step, at most 120"):
        cb.simulate(many, 0.1, 1e-3, begin, stepper="spook")
    through = cb.simulate(block(0.3), 0.5, 1e-3, {"joint.free.position": (0, 0, 0.05)}, stepper="spook", contacts=False)
    assert through["body.block.com"][-1, 2] < -1.0
