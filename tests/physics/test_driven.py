"""Drives that prescribe motion, push bodies and pull springs, against inverse dynamics, exact motions and laws of conservation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from physics.convergence import extrapolated, order
from physics.frames import rotation
from scipy.integrate import solve_ivp

import calibody as cb
from calibody.mechanics.host import mass_matrix

COORDINATES = pytest.mark.parametrize("coordinates", ["tree", "free"])
INERTIA = (0.02, 0.025, 0.015, 0.001, 0.002, -0.001)


def arm() -> cb.Model:
    """Two links about axes that are not parallel."""
    bodies = [
        cb.Body("a", mass=1.0, com=(0.01, 0, -0.3), inertia=INERTIA),
        cb.Body("b", "a", mass=0.7, com=(0, 0.1, -0.2), inertia=INERTIA, position=(0, 0, -0.6)),
    ]
    joints = [cb.Joint("h1", "a", axis=(0, 1, 0), damping=0.1), cb.Joint("h2", "b", axis=(1, 0.3, 0), damping=0.05, armature=0.01)]
    return cb.Model("arm", bodies, joints, sites=[cb.Site("tip", "b", (0, 0.05, -0.4), (0.9, 0.1, -0.3, 0.2))])


def block(mass: float = 1.5) -> cb.Model:
    """A body in free flight, without gravity."""
    body = cb.Body("block", mass=mass, com=(0.1, -0.05, 0.02), inertia=(0.02, 0.02, 0.03))
    return cb.Model(
        "block", [body], [cb.Joint("float", "block", "free")], sites=[cb.Site("corner", "block", (0.3, 0.1, -0.2))], world=cb.World(gravity=(0, 0, 0))
    )


@COORDINATES
def test_the_force_of_a_prescribed_joint_is_that_of_inverse_dynamics(coordinates: str) -> None:
    """Of second order at every step; in the limit of short steps to 1e-9."""
    t, forces = 0.4, []
    wanted = cb.inverse_dynamics(
        arm(),
        [0.3 * np.sin(5 * t) + 0.2 * t, 0.5 * np.cos(4 * t)],
        [1.5 * np.cos(5 * t) + 0.2, -2.0 * np.sin(4 * t)],
        [-7.5 * np.sin(5 * t), -8.0 * np.cos(4 * t)],
    )
    steps = [4e-3, 2e-3, 1e-3]
    for h in steps:
        drive: dict[str, Callable[[float], float]] = {
            "joint.h1.angle": lambda t: 0.3 * np.sin(5 * t) + 0.2 * t,
            "joint.h2.angle": lambda t: 0.5 * np.cos(4 * t),
        }
        motion = cb.simulate(arm(), 0.5, h, drive=drive, coordinates=coordinates)
        assert motion["joint.h1.rate"][0] == pytest.approx(1.7, abs=1e-9)
        np.testing.assert_allclose(motion["joint.h2.angle"], 0.5 * np.cos(4 * motion.time), atol=1e-14)
        forces.append(np.array([motion[f"joint.{joint}.force"][round(t / h)] for joint in ("h1", "h2")]))
    assert order(steps, [np.abs(f - wanted).max() for f in forces]) == pytest.approx(2.0, abs=0.02)
    np.testing.assert_allclose(extrapolated(forces), wanted, atol=1e-9)


@COORDINATES
def test_a_motion_that_goes_by_itself_needs_no_force(coordinates: str) -> None:
    """Prescribed where it was, node by node, a joint is driven by nothing, and the other moves as before."""
    free = cb.simulate(arm(), 0.5, 2e-3, {"joint.h1.angle": 1.0, "joint.h2.rate": -2.0})
    drive = {"joint.h1.angle": (free.time, free["joint.h1.angle"])}
    held = cb.simulate(arm(), 0.498, 2e-3, {"joint.h2.rate": -2.0}, drive, coordinates=coordinates)
    np.testing.assert_allclose(held["joint.h2.angle"], free["joint.h2.angle"][:-1], atol=1e-6)  # the spline's rate at the start is off by 1e-6 rad/s
    assert np.abs(held["joint.h1.force"][2:-2]).max() < 1e-4 * np.abs(free["joint.h1.reaction.force"]).max()


@COORDINATES
def test_a_pendulum_whose_pivot_is_moved(coordinates: str) -> None:
    """A site prescribed along x and z, against the equation of a pendulum on a moving pivot; and the work of the force is the energy."""
    rod = cb.Body("rod", mass=0.5, com=(0, 0, -0.4), inertia=(0.01, 0.02, 0.01), orientation=(1, 0, 0, 0))
    slides = [cb.Joint("x", "rod", "slide", axis=(1, 0, 0)), cb.Joint("z", "rod", "slide", axis=(0, 0, 1)), cb.Joint("turn", "rod", axis=(0, 1, 0))]
    model = cb.Model("pendulum", [rod], slides, sites=[cb.Site("pivot", "rod", (0, 0, 0.1))])
    drive = {"site.pivot.position.x": lambda t: 0.1 * np.sin(7 * t), "site.pivot.position.z": lambda t: 0.1 + 0.05 * (np.cos(9 * t) - 1.0)}

    def rates(t: float, y: np.ndarray) -> list[float]:
        ax, az, lever = -4.9 * np.sin(7 * t), -4.05 * np.cos(9 * t), 0.5
        turn = 0.5 * lever * (ax * np.cos(y[0]) - (9.81 + az) * np.sin(y[0]))
        return [y[1], turn / (0.02 + 0.5 * lever**2)]

    exact = solve_ivp(rates, (0.0, 1.0), [0.6, 0.0], "DOP853", rtol=1e-12, atol=1e-12).y[0, -1]
    steps = [8e-3, 4e-3, 2e-3]
    motions = [cb.simulate(model, 1.0, h, {"joint.turn.angle": 0.6, "joint.turn.rate": 0.0}, drive, coordinates=coordinates) for h in steps]
    errors, motion = [abs(motion["joint.turn.angle"][-1] - exact) for motion in motions], motions[-1]
    assert order(steps, errors) == pytest.approx(2.0, abs=0.05) and errors[-1] < 1e-4
    force, path = motion["site.pivot.applied"], motion["site.pivot.position"]
    work = np.concatenate([[0.0], np.cumsum(np.einsum("ki,ki->k", 0.5 * (force[1:] + force[:-1]), np.diff(path, axis=0)))])
    assert np.abs(motion.energy - motion.energy[0] - work).max() < 2e-3 * np.abs(work).max()


@COORDINATES
def test_a_force_at_a_site_moves_the_centre_of_mass_and_turns_about_it(coordinates: str) -> None:
    """In the axes of the world: the centre of mass falls along the force, exactly; the angular momentum follows the torque of the force."""
    force = np.array([0.4, -0.7, 1.1])
    motion = cb.simulate(block(), 0.5, 1e-3, {"joint.float.rate": (0.1, 0, 0, 0, 0.3, 0)}, {"site.corner.force": force}, coordinates=coordinates)
    com = motion["body.block.com"]
    start = com[0] + motion.time[:, None] * (0.1 + 0.3 * 0.02, 0.0, -0.3 * 0.1) + 0.5 * motion.time[:, None] ** 2 * force / 1.5
    np.testing.assert_allclose(com, start, atol=1e-9)
    np.testing.assert_allclose(motion["site.corner.applied"][10], force)
    lever = motion["site.corner.position"] - com
    change, torque = np.diff(_spin(motion), axis=0) / motion.h, np.cross(lever, force)
    np.testing.assert_allclose(change[5:-5], 0.5 * (torque[5:-6] + torque[6:-5]), atol=1e-5)


def _spin(motion: cb.Motion) -> np.ndarray:
    """(nodes, 3) angular momentum about the centre of mass, world axes, from the rates of the free joint."""
    R = np.array([rotation(q) for q in motion["body.block.orientation"]])
    return np.einsum("kij,j,kj->ki", R, (0.02, 0.02, 0.03), motion["joint.float.rate"][:, 3:])


@COORDINATES
def test_a_thruster_turns_with_its_body(coordinates: str) -> None:
    """A torque about the body's own axis spins it up at a constant rate; a force along an axis that turns at a constant rate draws the exact curve."""
    model = cb.Model(
        "disc",
        [cb.Body("disc", mass=2.0, inertia=(0.02, 0.02, 0.03))],
        [cb.Joint("float", "disc", "free")],
        sites=[cb.Site("hub", "disc")],
        world=cb.World(gravity=(0, 0, 0)),
    )
    spun = cb.simulate(model, 1.0, 1e-3, drive={"site.hub.torque.own.z": 0.06}, coordinates=coordinates)
    np.testing.assert_allclose(spun["joint.float.rate"][:, 5], 2.0 * spun.time, atol=3e-6)
    pushed = cb.simulate(model, 1.0, 1e-3, {"joint.float.rate": (0, 0, 0, 0, 0, 3.0)}, {"site.hub.force.own.x": 0.8}, coordinates=coordinates)
    t = pushed.time
    exact = 0.4 / 9.0 * np.stack([1.0 - np.cos(3 * t), 3 * t - np.sin(3 * t)], axis=1)
    np.testing.assert_allclose(pushed["body.disc.com"][:, :2], exact, atol=1e-6)


@COORDINATES
def test_a_force_through_the_origin_of_the_world_keeps_the_angular_momentum_about_it(coordinates: str) -> None:
    """As a force plate at the origin pushes: `body.NAME.force`. And a torque of the body changes it at its own rate."""
    initial = {"joint.float.position": (0.3, -0.2, 0.5), "joint.float.rate": (0.1, 0.2, -0.3, 0.5, 1.0, -0.7)}
    for torque in (0.0, 0.025):
        motion = cb.simulate(block(), 0.5, 1e-3, initial, {"body.block.force": (0.05, 0.1, -0.2), "body.block.torque.y": torque}, coordinates=coordinates)
        momenta = []
        for k in (1, 250, 499):
            twist = motion.frames.T[:, :, k] @ np.concatenate([motion["joint.float.rate"][k, :3], motion["joint.float.rate"][k, 3:]])
            momenta.append(_about_origin(motion, k, twist))
        np.testing.assert_allclose(np.diff(momenta, axis=0), [(0, 0.249 * torque, 0)] * 2, atol=1e-6)


def _about_origin(motion: cb.Motion, k: int, twist: np.ndarray) -> np.ndarray:
    """Angular momentum about the world's origin from the mass matrix: its rows of turns about the body's axes, and of shifts."""
    rate = np.linalg.lstsq(motion.frames.T[:, :, k], twist, rcond=None)[0]
    p = mass_matrix(motion.structure, motion.numbers, motion.frames, k) @ rate
    R, o = motion.frames.H[:, :3, 0, k], motion.frames.H[:, 3, 0, k]
    return R @ p[3:] + np.cross(o, p[:3])


@COORDINATES
def test_a_pulled_spring_holds_a_weight_and_keeps_momenta(coordinates: str) -> None:
    """The tension that a drive adds to a spring: static deflection, and two bodies that it pulls together in free flight."""
    weight = cb.Model("weight", [cb.Body("w", mass=2.0, inertia=(0.1, 0.1, 0.1))], [cb.Joint("z", "w", "slide", axis=(0, 0, 1))],
        springs=[cb.Spring("strut", "world", "w", point1=(0, 0, 1.0), stiffness=400.0, damping=60.0, rest_length=0.5)])  # fmt: skip
    hung = cb.simulate(weight, 4.0, 2e-3, {"joint.z.position": 0.4}, {"spring.strut.force": 5.0}, coordinates=coordinates)
    length = 1.0 - hung["joint.z.position"][-1]
    assert 400.0 * (length - 0.5) + 5.0 == pytest.approx(2.0 * 9.81, abs=1e-6)
    bodies = [cb.Body(name, mass=m, inertia=(0.02, 0.03, 0.05)) for name, m in (("a", 1.0), ("b", 2.0))]
    joints = [cb.Joint(f"f{name}", name, "free") for name in "ab"]
    ram = cb.Spring("ram", "a", "b", point1=(0.1, 0.2, 0), point2=(0, 0.1, -0.1), damping=0.2)
    pair = cb.Model("pair", bodies, joints, springs=[ram], world=cb.World(gravity=(0, 0, 0)))
    initial = {"joint.fb.position": (1.0, 0.2, 0.0), "joint.fa.rate": (0, 0.1, 0, 0.3, 0, 0)}
    motion = cb.simulate(pair, 0.5, 1e-3, initial, {"spring.ram.force": lambda t: 2.0 * np.sin(8 * t)}, coordinates=coordinates)
    momentum = np.diff(motion["body.a.com"] + 2.0 * motion["body.b.com"], axis=0) / motion.h
    np.testing.assert_allclose(momentum, np.tile([0.0, 0.1, 0.0], (len(momentum), 1)), atol=1e-10)
    assert np.linalg.norm(motion["body.a.com"][-1] - motion["body.a.com"][0]) > 0.05


def test_sentences() -> None:
    """What cannot be driven so is said, with the remedy."""
    closed = cb.Model("two", arm().bodies, arm().joints, [cb.Loop("held", "coupling", joint1="h1", polynomial=(0.1, 0, 0, 0, 0))], sites=arm().sites)
    for sentence, model, drive, more in (
        ("prescribes what loops, other drives", closed, {"joint.h1.angle": 0.1}, {}),
        ("leave out the initial value", arm(), {"joint.h1.angle": 0.1}, {"initial": {"joint.h1.rate": 0.1}}),
        ('stepper="spook" knows drives of actuators', arm(), {"site.tip.force.x": 0.1}, {"stepper": "spook"}),
        ("has 3 components; give 3 numbers", arm(), {"site.tip.force": 0.1}, {}),
        ("cannot be driven; drive actuator.NAME", arm(), {"joint.h1.rate": 0.1}, {}),
        ("is not finite at t = 0 s", arm(), {"joint.h1.angle": lambda t: np.nan}, {}),
        ("does not give a number", arm(), {"joint.h1.angle": lambda t: "x"}, {}),
        ("give one per node of the motion", arm(), {"joint.h1.angle": np.zeros(3)}, {}),
        ("known from 0 s to 0.05 s", arm(), {"joint.h1.angle": (np.linspace(0, 0.05, 6), np.zeros(6))}, {}),
    ):
        with pytest.raises(cb.CalibodyError, match=sentence):
            cb.simulate(model, 0.1, 0.01, drive=drive, **more)  # type: ignore[arg-type]
