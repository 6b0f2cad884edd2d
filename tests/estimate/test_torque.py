"""Forces of drives that are measured: the torque or the current of a motor beside its command, and what stands in their place."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.held_drive import Held
from calibody.estimate.nodes import Noise
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.estimate.unknowns import entries
from calibody.mechanics.kinematics import retract
from calibody.mechanics.structure import Structure


def arm() -> cb.Model:
    bodies = [
        cb.Body("a", mass=1.0, com=(0, 0, -0.15), inertia=(0.01, 0.01, 0.001)),
        cb.Body("b", "a", mass=0.7, com=(0, 0, -0.1), inertia=(0.005, 0.005, 0.001), position=(0, 0, -0.3)),
    ]
    joints = [cb.Joint("upper", "a", axis=(0, 1, 0), damping=0.05), cb.Joint("lower", "b", axis=(0, 1, 0.1), damping=0.02, anchor=(0.01, 0, 0))]
    actuators = [
        cb.Actuator("motor", "upper", gain=0.9, gear=3.0, bias=0.1, stiffness=0.2, damping=0.05, delay=0.01, time_constant=0.02),
        cb.Actuator("brake", "upper", gain=0.5, damping=0.02),
        cb.Actuator("hand", "lower", gain=0.4, force_range=(-0.3, 0.3)),
    ]
    return cb.Model("arm", bodies, joints, actuators=actuators)


CHANNELS = ("joint.upper.force", "actuator.motor.force", "actuator.hand.force", "joint.lower.force", "joint.upper.angle")
UNKNOWN = (
    [f"actuator.{a}.{f}" for a in ("motor", "brake") for f in ("gain", "gear", "bias", "stiffness", "damping")]
    + ["actuator.motor.delay", "actuator.motor.time_constant", "actuator.hand.gain", "joint.lower.anchor.x", "joint.lower.axis.x", "body.b.orientation.x"]
    + ["actuator.motor.force.gain", "joint.upper.force.bias"]
)


def drives(noisy: bool) -> tuple[cb.Drive, ...]:
    t, rng = 0.02 * np.arange(60), np.random.default_rng(2)
    sd = {"actuator.hand": 0.1, "joint.lower.force": 0.2} if noisy else {}
    return tuple(cb.Drive(c, cb.Signal(t, rng.normal(size=60)), sd.get(c)) for c in ("actuator.motor", "actuator.brake", "actuator.hand", "joint.lower.force"))


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_derivatives(coordinates: str) -> None:
    """By coordinates, by deviations of noisy drives, by every number of the drives and of the joints."""
    model, rng, times = arm(), np.random.default_rng(5), 0.05 * np.arange(1, 9) + 0.003
    recording = cb.Recording("run", tuple(cb.Observation(c, times, rng.normal(size=8), sd=1.0) for c in CHANNELS), drives(True), start=0.0, end=0.45)
    s = Structure.build(model, coordinates)
    run = Run.of(s, recording, 0.05, Noise({c: 1.0 for c in CHANNELS}, frozenset(), {}))
    problem = Problem.of([run], entries(model, dict.fromkeys(UNKNOWN), ["run"]))
    q = retract(s, rng.normal(size=(s.nq, 1)), np.zeros((s.nv, 1)))
    still = run.still(q[:, 0])
    states = run.move(still, 0.3 * rng.normal(size=run.layout.size))
    theta = np.array([e.initial for e in problem.entries])
    model, numbers, sensors = problem.model_of(0, theta)
    frames = problem.frames(0, states, model, numbers)
    _, by_states, by_theta = problem._observed(0, theta, frames, sensors, model, numbers, states, True)
    count = len(CHANNELS) * len(times)

    def values(x, at: np.ndarray) -> np.ndarray:
        return np.concatenate([v for _, v in problem.fitted(0, x, at)])

    for k, entry in enumerate(problem.entries):
        high, low = (values(states, theta + sign * 1e-6 * np.eye(len(theta))[k]) for sign in (1, -1))
        np.testing.assert_allclose(by_theta[:count, k], (high - low) / 2e-6, atol=1e-5, err_msg=entry.name)
    dense = by_states[:count].toarray()
    for k in range(run.layout.size):
        high, low = (values(run.move(states, sign * 1e-6 * np.eye(1, run.layout.size, k)[0]), theta) for sign in (1, -1))
        np.testing.assert_allclose(dense[:, k], (high - low) / 2e-6, atol=1e-5, err_msg=str(k))


def plain() -> cb.Model:
    return cb.Model("plain", arm().bodies[:1], arm().joints[:1], actuators=[cb.Actuator("motor", "upper", gain=0.6)])


@pytest.fixture(scope="module")
def swing() -> cb.Motion:
    t = np.arange(0.0, 2.0, 0.01)
    return cb.simulate(plain(), 1.98, 2e-3, {"joint.upper.angle": 0.3}, {"actuator.motor": cb.Signal(t, np.sign(np.sin(5.0 * t)) + 0.3 * np.sin(17.0 * t))})


def recording(swing: cb.Motion, seed: int, torque: bool, driven: bool = True) -> cb.Recording:
    noise, t = np.random.default_rng(seed), swing.time[::5]
    observed = [cb.Observation("joint.upper.angle", t, swing["joint.upper.angle"][::5] + 2e-3 * noise.normal(size=len(t)), sd=2e-3)]
    if torque:  # a current sensor: 0.25 A per N m
        observed.append(cb.Observation("actuator.motor.force", t, 0.25 * swing["actuator.motor.force"][::5] + 0.02 + 0.01 * noise.normal(size=len(t)), sd=0.01))
    clock = np.arange(0.0, 2.0, 0.01)
    drive = cb.Drive("actuator.motor", cb.Signal(clock, np.sign(np.sin(5.0 * clock)) + 0.3 * np.sin(17.0 * clock)))
    return cb.Recording("swing", tuple(observed), (drive,) if driven else ())


def test_a_current_beside_the_command(swing: cb.Motion) -> None:
    """Mass, gain of the motor and of the current sensor: all covered. Without a known mass the current fixes the scale."""
    truth = {"body.a.mass": 1.0, "actuator.motor.gain": 0.6, "actuator.motor.force.gain": 0.25, "actuator.motor.force.bias": 0.02}
    z = []
    for seed in range(3):
        unknown = {p: cb.Unknown(1.2 * v) for p, v in truth.items()}
        result = cb.fit(plain(), recording(swing, seed, True), unknown, h=5e-3)
        assert result.status == "converged"
        z += [(result.parameters[p].value - v) / result.parameters[p].sd for p, v in truth.items()]  # type: ignore[operator]
    assert np.abs(z).max() < 4.0


def test_a_torque_sensor_fixes_the_scale() -> None:
    """Without gravity a command in volts tells ratios of inertia, friction and gain only; with the torque measured all three are known."""
    rotor = cb.Body("a", mass=1.0, inertia=(0.02, 0.02, 0.02))
    model = cb.Model("rotor", [rotor], arm().joints[:1], actuators=[cb.Actuator("motor", "upper", gain=0.6)], world=cb.World(gravity=(0, 0, 0)))
    clock, noise = np.arange(0.0, 2.0, 0.01), np.random.default_rng(0)
    drive = cb.Drive("actuator.motor", cb.Signal(clock, np.sign(np.sin(5.0 * clock)) + 0.3 * np.sin(17.0 * clock)))
    motion = cb.simulate(model, 1.98, 2e-3, drive={"actuator.motor": drive.signal})
    t = motion.time[::5]
    truth = {"body.a.inertia.yy": 0.02, "joint.upper.damping": 0.05, "actuator.motor.gain": 0.6}
    seen = [
        cb.Observation(c, t, motion[c][::5] + sd * noise.normal(size=len(t)), sd=sd) for c, sd in (("joint.upper.angle", 2e-3), ("joint.upper.force", 0.02))
    ]
    unknown = {p: cb.Unknown(1.2 * v) for p, v in truth.items()}
    alone, both = (cb.fit(model, cb.Recording("run", tuple(part), (drive,)), unknown, h=5e-3) for part in (seen[:1], seen))
    assert all(alone.parameters[p].sd is None for p in truth)
    for path, value in truth.items():
        found = both.parameters[path]
        assert found.sd is not None and found.sd < 0.02 * value and abs(found.value - value) < 4.0 * found.sd


PERIOD = 0.02
"""s: of the controller in what follows, whose commands are held, and of its log."""


@pytest.fixture(scope="module")
def controlled() -> tuple[cb.Signal, cb.Motion]:
    """Commands that jump by several newton metres every 20 ms, and what they do."""
    clock = PERIOD * np.arange(121)
    command = cb.Signal(clock, 2.0 * np.random.default_rng(1).normal(size=len(clock)))
    return command, cb.simulate(plain(), 2.4, 1e-3, {"joint.upper.angle": 0.3}, {"actuator.motor": command})


def test_the_force_at_the_instant_of_a_command_is_that_of_the_command(controlled: tuple[cb.Signal, cb.Motion]) -> None:
    """Not the mean with the one before: in a simulation and in a fit, on meshes whose nodes do not meet the commands too."""
    command, motion = controlled
    np.testing.assert_allclose(motion["actuator.motor.force"][:-1:20], 0.6 * command.values[:-1], atol=1e-12)
    np.testing.assert_allclose(motion["joint.upper.force"], motion["actuator.motor.force"])
    t = PERIOD * np.arange(120)
    seen = cb.Observation("joint.upper.angle", t, motion["joint.upper.angle"][:-1:20], 1e-3), cb.Observation("actuator.motor.force", t, np.zeros(120), 0.01)
    result = cb.fit(plain(), cb.Recording("log", seen, (cb.Drive("actuator.motor", command),)), {"joint.upper.damping": None}, h=0.007)
    (_, torque) = result.problem.fitted(0, result.states[0], result.theta)  # type: ignore[attr-defined]
    np.testing.assert_allclose(torque[1], 0.6 * command.values[:-1], atol=1e-12)


@pytest.mark.parametrize("late", ["", "known", "unknown"])
def test_a_log_of_commands_and_torques(controlled: tuple[cb.Signal, cb.Motion], late: str) -> None:
    """The row of a log has the angle, the command and the torque of one instant, that of the command before where the torque was read first. The mean of both sides of a jump is off by a newton metre, which
    shows in the residuals and in the gain."""
    command, motion = controlled
    noise, t = np.random.default_rng(2), PERIOD * np.arange(1, 120)
    torque = 0.6 * command.values[:-2] if late else 0.6 * command.values[1:-1]
    seen = (
        cb.Observation("joint.upper.angle", t, motion["joint.upper.angle"][20:-20:20] + 1e-3 * noise.normal(size=119), 1e-3),
        cb.Observation("actuator.motor.force", t, torque + 0.05 * noise.normal(size=119), 0.05),
    )
    model = cb.Model("late", plain().bodies, plain().joints, actuators=plain().actuators, sensors=[cb.Sensor("current", "actuator.motor.force", delay=1e-4)])
    unknown = {"body.a.mass": cb.Unknown(1.3), "actuator.motor.gain": cb.Unknown(0.5)} | (
        {"actuator.motor.force.delay": cb.Unknown(0.01)} if late == "unknown" else {}
    )
    result = cb.fit(model if late == "known" else plain(), cb.Recording("log", seen, (cb.Drive("actuator.motor", command),)), unknown, h=0.5 * PERIOD)
    assert result.converged, result.status
    for path, value in {"body.a.mass": 1.0, "actuator.motor.gain": 0.6}.items():
        found = result.parameters[path]
        assert found.sd is not None and abs(found.value - value) < 4.0 * np.hypot(found.sd, found.discretisation_error or 0.0), (path, found)
    assert result.parameters["actuator.motor.gain"].sd < 5e-3  # type: ignore[operator]
    assert not result.lacks


@pytest.mark.parametrize("lag", [0.0, 0.013])
def test_a_held_command_by_its_timing(lag: float) -> None:
    """Of unknown timing: the slopes by time, delay and time constant are those of the values, and later by a delay is earlier by time."""
    signal = cb.Signal(PERIOD * np.arange(20), np.random.default_rng(3).normal(size=20))
    t, step, held = np.linspace(0.1, 0.3, 37), 1e-7, Held(signal, 0.003, lag, 0.007, True)
    by_time = (held.value(t + step) - held.value(t - step)) / (2 * step)
    np.testing.assert_allclose(held.slope(t), by_time, atol=1e-4)
    both = [dataclasses.replace(held, delay=0.003 + x).value(t) for x in (step, -step)]
    np.testing.assert_allclose(held.by_delay(t), (both[0] - both[1]) / (2 * step), atol=1e-4)
    if lag:
        both = [dataclasses.replace(held, lag=lag + x).value(t) for x in (step, -step)]
        np.testing.assert_allclose(held.by_lag(t), (both[0] - both[1]) / (2 * step), atol=1e-4)
    else:  # the mean over an interval, from above
        edges = np.stack([t, t + held.h], axis=1)
        behind = [[signal.means(one, 0.003, x)[0] for one in edges] for x in (1e-5, 0.0)]
        np.testing.assert_allclose(held.by_lag(t), (np.array(behind[0]) - behind[1]) / 1e-5, atol=0.2)


def test_a_force_without_a_drive_is_the_drive(swing: cb.Motion) -> None:
    with pytest.raises(cb.CalibodyError, match=r'nothing drives it; give the measured force as a drive with an sd, "joint.upper.force"'):
        cb.fit(plain(), recording(swing, 0, True, driven=False), {"body.a.mass": None}, h=5e-3)


def test_the_balance_by_a_noisy_drive_that_saturates() -> None:
    """Where the force of an actuator is at its limit, a deviation of its control does nothing."""
    model, times = arm(), 0.05 * np.arange(9)
    recording = cb.Recording("run", (cb.Observation("joint.upper.angle", times, np.sin(times), sd=1.0),), drives(True), start=0.0, end=0.4)
    s = Structure.build(model, "tree")
    run = Run.of(s, recording, 0.05, Noise({"joint.upper.angle": 1.0}, frozenset(), {}))
    problem = Problem.of([run], entries(model, {}, ["run"]))
    states = run.move(run.still(np.array([0.3, -0.2])), 0.3 * np.random.default_rng(1).normal(size=run.layout.size))
    exact = problem.linearised(0, states, np.zeros(0)).part.Cx.toarray()
    for k in range(run.layout.size):
        high, low = (problem.values([run.move(states, sign * 1e-6 * np.eye(1, run.layout.size, k)[0])], np.zeros(0))[1] for sign in (1, -1))
        np.testing.assert_allclose(exact[:, k], (high - low) / 2e-6, atol=1e-5 * np.abs(exact).max(), err_msg=str(k))
