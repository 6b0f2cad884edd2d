"""Bodies on one joint against series computed by ADAMS: 501 samples of position, velocity, acceleration, attitude and reaction each.

The files print six or seven digits. h = 1 ms and 2 ms, one Richardson step. The spherical series starts at rest in a plane through the
joint, so its exact motion is that of the hinged one, a pendulum; the file misses that motion by 8.4e-4 m (`test_error_of_the_spherical_file`),
its own integration error. So the ball is held to 2e-5 against the exact motion, and against its file to what the file is worth.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from physics.convergence import extrapolated
from problems import swung_body
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import calibody as cb

CASES = {"Revolute_Case01": ("hinge", False), "Spherical_Case01": ("ball", False), "RotSpring_Case01": ("hinge", True)}
# What each file's own error and digits allow: (m, m/s, m/s^2, quaternion, rad/s, N and N m).
GOOD = {"Pos": 2e-5, "Vel": 2e-5, "Acc": 2e-3, "Quat": 2e-6, "Avel": 2e-5, "Rforce": 2e-3, "Rtorque": 1e-3}
POOR = {"Pos": 1e-3, "Vel": 4e-3, "Acc": 2e-2, "Quat": 4e-4, "Avel": 2e-3, "Rforce": 2e-2, "Rtorque": 1e-3}
TOLERANCES = {"Revolute_Case01": GOOD, "Spherical_Case01": POOR, "RotSpring_Case01": GOOD}
STEPS = (0.002, 0.001)
SAMPLES = 501


def read(folder: Path, case: str, quantity: str) -> np.ndarray:
    """(samples, components) without the column of times; three lines of header."""
    table = np.loadtxt(folder / "reference" / "adams_joints" / f"{case}_ADAMS_{quantity}.txt", skiprows=3)
    assert table.shape[0] == SAMPLES
    np.testing.assert_allclose(table[:, 0], np.linspace(0.0, 5.0, SAMPLES), atol=1e-9)
    return table[:, 1:]


def sampled(motion: cb.Motion, values: np.ndarray) -> np.ndarray:
    return values[:: round(0.01 / motion.h)][:SAMPLES]


def differences(motion: cb.Motion) -> tuple[np.ndarray, np.ndarray]:
    """Velocity and acceleration of the centre of mass by central differences over one step; the start is at rest and has none."""
    x = motion["body.body.com"]
    velocity, acceleration = np.zeros_like(x), np.full_like(x, np.nan)
    velocity[1:-1] = (x[2:] - x[:-2]) / (2.0 * motion.h)
    acceleration[1:-1] = (x[2:] - 2.0 * x[1:-1] + x[:-2]) / motion.h**2
    return sampled(motion, velocity), sampled(motion, acceleration)


def angular_velocity(motion: cb.Motion) -> np.ndarray:
    """In world axes: a hinge's rate is about its axis (body z), a ball's is in body axes."""
    rate = motion["joint.joint.rate"]
    local = rate if rate.ndim == 2 else np.outer(rate, (0.0, 0.0, 1.0))
    return sampled(motion, attitude(motion).apply(local))


def attitude(motion: cb.Motion) -> Rotation:
    return Rotation.from_quat(motion["body.body.pose"][:, 3:], scalar_first=True)


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, list[cb.Motion]]:
    kind, spring = CASES[request.param]
    # a little longer than the series, so that its last sample has a neighbour
    return request.param, [cb.simulate(swung_body(kind, spring), 5.01, h) for h in STEPS]


def compare(shared: Path, name: str, quantity: str, found: np.ndarray, first: int = 0) -> None:
    np.testing.assert_allclose(found[first:], read(shared, name, quantity)[first:], rtol=0.0, atol=TOLERANCES[name][quantity], err_msg=f"{name} {quantity}")


def test_positions(case: tuple[str, list[cb.Motion]], shared: Path) -> None:
    name, motions = case
    compare(shared, name, "Pos", extrapolated([sampled(m, m["body.body.com"]) for m in motions]))


def test_velocities_and_accelerations(case: tuple[str, list[cb.Motion]], shared: Path) -> None:
    """Differences of positions; the start has no second difference."""
    name, motions = case
    velocity, acceleration = (extrapolated(x) for x in zip(*(differences(m) for m in motions), strict=True))
    compare(shared, name, "Vel", velocity)
    compare(shared, name, "Acc", acceleration, first=1)


def test_attitude_and_angular_velocity(case: tuple[str, list[cb.Motion]], shared: Path) -> None:
    name, motions = case
    expected = read(shared, name, "Quat")
    quaternions = []
    for m in motions:
        q = sampled(m, m["body.body.pose"][:, 3:])
        quaternions.append(q * np.sign((q * expected).sum(1))[:, None])  # a quaternion and its opposite are one rotation
    compare(shared, name, "Quat", extrapolated(quaternions))
    compare(shared, name, "Avel", extrapolated([angular_velocity(m) for m in motions]))


def test_reactions(case: tuple[str, list[cb.Motion]], shared: Path) -> None:
    """The files give what the joint exerts on the ground, the channels what it exerts on the body; torques are about the joint."""
    name, motions = case
    compare(shared, name, "Rforce", -extrapolated([sampled(m, m["joint.joint.reaction.force"]) for m in motions]))
    compare(shared, name, "Rtorque", -extrapolated([sampled(m, m["joint.joint.reaction.torque"]) for m in motions]))


def exact(stiffness: float, damping: float) -> tuple[np.ndarray, np.ndarray]:
    """Centre of mass and force on the ground of the swung body: (I + m l^2) theta'' = m g l cos(theta) - k theta - c theta', theta below the horizontal."""
    I, l, g = 0.1 + 4.0, 2.0, 9.80665

    def acceleration(theta: np.ndarray, rate: np.ndarray) -> np.ndarray:
        return (g * l * np.cos(theta) - stiffness * theta - damping * rate) / I

    times = np.linspace(0.0, 5.0, SAMPLES)
    solution = solve_ivp(lambda _, y: [y[1], acceleration(y[0], y[1])], (0.0, 5.0), [0.0, 0.0], "DOP853", times, rtol=1e-12, atol=1e-13)
    theta, rate = solution.y
    along = np.stack([np.cos(theta), 0.0 * theta, -np.sin(theta)], axis=1)
    across = np.stack([-np.sin(theta), 0.0 * theta, -np.cos(theta)], axis=1)
    second = l * (acceleration(theta, rate)[:, None] * across - (rate**2)[:, None] * along)
    return l * along, -(second + np.array([[0.0, 0.0, g]]))


def test_exact_motion(case: tuple[str, list[cb.Motion]]) -> None:
    """All three motions are plane; positions and reactions of all samples, far below the errors of the files."""
    name, motions = case
    position, force = exact(200.0, 10.0) if CASES[name][1] else exact(0.0, 0.0)
    np.testing.assert_allclose(extrapolated([sampled(m, m["body.body.com"]) for m in motions]), position, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(-extrapolated([sampled(m, m["joint.joint.reaction.force"]) for m in motions])[1:], force[1:], rtol=0.0, atol=1e-6)


def test_error_of_the_spherical_file(shared: Path) -> None:
    position, _ = exact(0.0, 0.0)
    assert np.abs(read(shared, "Revolute_Case01", "Pos") - position).max() < 6e-6
    assert np.abs(read(shared, "Spherical_Case01", "Pos") - position).max() == pytest.approx(8.4e-4, rel=0.02)
