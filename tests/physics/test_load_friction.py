"""Friction in proportion to a joint's load in the variational scheme: a pendulum against its own equations of motion, stops against exact ones, and fits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from physics.convergence import order
from physics.test_spook_friction import LAWS, W0, rotor
from problems import DOWN_Y
from scipy.integrate import solve_ivp

import calibody as cb

MASS, ARM, MOMENT, DAMPING, MU, RADIUS = 1.3, 0.4, 0.05, 0.02, 0.3, 0.06
START = {"joint.pin.angle": 0.3, "joint.pin.rate": 4.0}


def pendulum(**changes: float) -> cb.Model:
    joint = cb.Joint("pin", "arm", **{"damping": DAMPING, "load_friction": MU, "friction_radius": RADIUS, **changes})
    return cb.Model("pendulum", [cb.Body("arm", mass=MASS, com=(ARM, 0.0, 0.0), inertia=(0.001, MOMENT, MOMENT))], [joint], world=DOWN_Y)


def exact(times: np.ndarray, width: float) -> np.ndarray:
    """The angle, and the size of the reaction: `I a = -m g l cos - b w - mu r |F| share(w)`, the share a ramp that is full from `width` on, `F = m (acceleration of the centre - gravity)`."""

    def acceleration(angle: float, rate: float) -> tuple[float, float]:
        along, across = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
        known, rubbing = MASS * (np.array([0.0, 9.81]) - ARM * rate**2 * along), MU * RADIUS * np.sign(rate) * rounded(abs(rate) / width)
        a, size = 0.0, np.linalg.norm(known)
        for _ in range(60):  # the friction is a contraction: mu r m l/I = 0.02
            a = -(MASS * 9.81 * ARM * math.cos(angle) + DAMPING * rate + rubbing * size) / (MOMENT + MASS * ARM**2)
            size = np.linalg.norm(known + MASS * ARM * a * across)
        return a, float(size)

    solved = solve_ivp(
        lambda t, y: [y[1], acceleration(*y)[0]], (0.0, times[-1]), list(START.values()), "LSODA", times, rtol=1e-10, atol=1e-12, max_step=4e-3
    ).y
    return np.array([[angle, acceleration(angle, rate)[1]] for angle, rate in solved.T]).T


def rounded(x: float) -> float:
    """The integral of a slope that is constant up to 0.7 and falls to zero at 1, one in all."""
    return min(x, 0.7) / 0.85 + (min(max(x, 0.7), 1.0) - 0.7) / 0.85 - (min(max(x, 0.7), 1.0) - 0.7) ** 2 / (0.85 * 0.6)


def test_a_pendulum_at_second_order() -> None:
    steps, errors, forces = [0.008, 0.004, 0.002], [], []
    for h in steps:
        motion = cb.simulate(pendulum(friction_rate=2.0), 0.8, h, START)
        assert motion.coordinates == "free"
        angle, force = exact(motion.time, 2.0)
        errors.append(np.abs(motion["joint.pin.angle"] - angle).max())
        found = np.linalg.norm(motion["joint.pin.reaction.force"], axis=1)
        forces.append(np.abs(found - force)[1:].max() / force.max())
    assert order(steps, errors) == pytest.approx(2.0, abs=0.15) and errors[-1] < 1e-4
    assert forces[-1] < 1e-3 and forces[0] / forces[-1] > 8.0


@pytest.mark.parametrize("name", ["by load", "both", "slide", pytest.param("ball", marks=pytest.mark.slow), "Stribeck by load"])
def test_a_joint_stops_in_the_analytic_time(name: str) -> None:
    """The laws of the other stepper, where force and torque lie along single axes."""
    kind, law, expected = LAWS[name]
    h, viscous = expected / 400.0, 0.01
    start = {"joint.pin.rate": (0.0, 0.0, W0) if kind == "ball" else W0}
    motion = cb.simulate(rotor(kind, **law), 440 * h, h, start, stepper=cb.Variational(viscous))
    rate = np.abs(motion["joint.pin.rate"] if kind != "ball" else motion["joint.pin.rate"][:, 2])
    assert motion.time[np.argmax(rate < 2.0 * viscous)] == pytest.approx(expected, abs=2.0 * h + 3.0 * viscous / W0 * expected)


def test_the_law_does_not_depend_on_the_axes() -> None:
    """The same pendulum with gravity turned by 45 degrees: the load is a length, not a sum of components."""
    turned = cb.World(gravity=(9.81 * math.sqrt(0.5), -9.81 * math.sqrt(0.5), 0.0))
    model = cb.Model("turned", pendulum().bodies, pendulum().joints, world=turned)
    motion, other = cb.simulate(pendulum(), 0.5, 5e-3, START), cb.simulate(model, 0.5, 5e-3, {**START, "joint.pin.angle": 0.3 + math.pi / 4.0})
    np.testing.assert_allclose(other["joint.pin.angle"] - math.pi / 4.0, motion["joint.pin.angle"], atol=1e-9)


def recorded(seed: int) -> cb.Recording:
    times = np.arange(0.0, 4.0, 0.005)
    angle = exact(times, 0.01)[0] + 1e-3 * np.random.default_rng(seed).normal(size=len(times))
    return cb.read({"t": times, "angle": angle}, observe={"joint.pin.angle": {"column": "angle", "sd": 1e-3}})


def test_it_is_found_again() -> None:
    """From nothing, beside viscous friction and the inertia."""
    unknown = {"joint.pin.load_friction": cb.Unknown(0.0), "joint.pin.damping": cb.Unknown(0.06), "body.arm.inertia.zz": cb.Unknown(0.1)}
    result = cb.fit(pendulum(load_friction=0.0), [recorded(3)], unknown)
    assert result.status == "converged"
    for path, true in (("joint.pin.load_friction", MU), ("joint.pin.damping", DAMPING), ("body.arm.inertia.zz", MOMENT)):
        found = result.parameters[path]
        assert found.sd is not None and found.sd < 0.05 * true and abs(found.value - true) < 3.0 * found.sd


def test_in_joint_coordinates_it_is_refused() -> None:
    with pytest.raises(cb.CalibodyError, match=r'needs the reactions of the joint; use coordinates = "free" or "auto"'):
        cb.fit(pendulum(load_friction=0.0), [recorded(3)], {"joint.pin.load_friction": 0.1}, coordinates="tree")
    with pytest.raises(cb.CalibodyError, match=r'joint.pin.load_friction .* use coordinates = "free" or "auto"'):
        cb.fit(pendulum(), [recorded(3)], {"joint.pin.damping": 0.1}, coordinates="tree")
