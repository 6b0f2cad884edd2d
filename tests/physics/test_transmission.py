"""Transmissions: a motor behind a flexible gear with play against its own equations of motion, coupled wrists against MuJoCo's fixed tendons, rotors behind gears, and fits."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from physics.convergence import order
from problems import DOWN_Y
from scipy.integrate import solve_ivp

import calibody as cb
from calibody.formats import convert

RATIO, ROTOR, ROTOR_DAMPING, LINK, MASS, ARM = 20.0, 2e-5, 1e-5, 0.01, 0.8, 0.25
STIFFNESS, DAMPING, PLAY = 30.0, 0.05, 0.03


def flexible(**changes: float) -> cb.Model:
    """A rotor and a link, each on a hinge of its own, with a gear between them."""
    gear = {"stiffness": STIFFNESS, "damping": DAMPING, "backlash": PLAY, **changes}
    return cb.Model(
        "flexible",
        [cb.Body("rotor", mass=0.1, inertia=(ROTOR,) * 3), cb.Body("link", mass=MASS, com=(0.0, -ARM, 0.0), inertia=(LINK,) * 3)],
        [cb.Joint("motor", "rotor", damping=ROTOR_DAMPING), cb.Joint("arm", "link")],
        transmissions=[cb.Transmission("gear", ("motor", "arm"), (1.0 / RATIO, -1.0), **gear)],
        actuators=[cb.Actuator("drive", "motor")],
        world=DOWN_Y,
    )


TIMES = np.arange(0.0, 3.0 + 1e-9, 0.004)
TORQUE = 0.1 * np.sin(2.0 * np.pi * 1.3 * TIMES) + 0.05 * np.sin(2.0 * np.pi * 3.7 * TIMES + 1.0) + 0.02


def exact(times: np.ndarray) -> np.ndarray:
    """Motor angle, link angle and their rates; the torque is linear between its samples."""
    p, w = 0.5 * PLAY, 0.05 * PLAY

    def rates(t: float, y: np.ndarray) -> list[float]:
        motor, link, motor_rate, link_rate = y
        x = motor / RATIO - link
        beyond = x + 0.5 * (np.sqrt((x - p) ** 2 + w**2) - np.sqrt((x + p) ** 2 + w**2))
        torque = STIFFNESS * beyond + DAMPING * (motor_rate / RATIO - link_rate)
        drive = np.interp(t, TIMES, TORQUE) - ROTOR_DAMPING * motor_rate
        return [motor_rate, link_rate, (drive - torque / RATIO) / ROTOR, (torque - MASS * 9.81 * ARM * np.sin(link)) / (LINK + MASS * ARM**2)]

    return solve_ivp(rates, (0.0, times[-1]), np.zeros(4), "DOP853", times, rtol=1e-9, atol=1e-11, max_step=2e-3).y


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_a_flexible_gear_with_play_at_second_order(coordinates: str) -> None:
    steps, errors = [0.004, 0.002, 0.001], []
    drive = {"actuator.drive": cb.Signal(TIMES, TORQUE, hold="linear")}
    motions = [cb.simulate(flexible(), 0.8, h, drive=drive, coordinates=coordinates) for h in steps]
    for motion in motions:
        errors.append(np.abs(motion["joint.arm.angle"] - exact(motion.time)[1]).max())
    assert order(steps, errors) == pytest.approx(2.0, abs=0.1) and errors[-1] < 1e-3
    motion = motions[-1]
    _, _, motor_rate, link_rate = exact(motion.time)
    np.testing.assert_allclose(motion["transmission.gear.angle"], motion["joint.motor.angle"] / RATIO - motion["joint.arm.angle"], atol=1e-14)
    np.testing.assert_allclose(motion["transmission.gear.rate"], motor_rate / RATIO - link_rate, atol=0.1)


def test_the_energy_of_a_spring_with_play_is_kept() -> None:
    model = flexible(damping=0.0).replace({"joint.motor.damping": 0.0})
    drifts = []
    for h in (1e-3, 5e-4):
        motion = cb.simulate(model, 0.5, h, {"joint.arm.angle": 0.5, "joint.motor.angle": 0.4 * RATIO})
        assert motion.potential_energy[0] == pytest.approx(0.5 * STIFFNESS * (0.1 - 0.5 * PLAY) ** 2 - MASS * 9.81 * ARM * np.cos(0.5), rel=1e-3)
        drifts.append(np.abs(motion.energy - motion.energy[0]).max())
    assert drifts[1] < 1e-3 and drifts[0] / drifts[1] == pytest.approx(4.0, rel=0.2)


def test_a_rotor_behind_a_gear_is_its_inertia_times_the_ratio_squared() -> None:
    """Three ways to say it: an armature of the joint, one of a transmission, and a rotor of its own that a coupling turns."""
    link = cb.Body("link", mass=MASS, com=(0.0, -ARM, 0.0), inertia=(LINK,) * 3)
    arm = cb.Joint("arm", "link", armature=RATIO**2 * ROTOR)
    reflected = cb.Model("reflected", [link], [arm], world=DOWN_Y)
    geared = cb.Model("geared", [link], [cb.Joint("arm", "link")], transmissions=[cb.Transmission("gear", ("arm",), (RATIO,), armature=ROTOR)], world=DOWN_Y)
    coupled = cb.Model(
        "coupled",
        [link, cb.Body("rotor", mass=0.1, inertia=(ROTOR,) * 3)],
        [cb.Joint("arm", "link"), cb.Joint("motor", "rotor")],
        [cb.Loop("gear", "coupling", joint1="motor", joint2="arm", polynomial=(0.0, RATIO, 0.0, 0.0, 0.0))],
        world=DOWN_Y,
    )
    apart = []
    for h in (2e-3, 1e-3):
        one, two, three = (cb.simulate(model, 0.3, h, {"joint.arm.angle": 1.0})["joint.arm.angle"] for model in (reflected, geared, coupled))
        np.testing.assert_allclose(two, one, atol=1e-12)
        apart.append(np.abs(three - one).max())
    assert apart[1] < 2e-4 and apart[0] / apart[1] == pytest.approx(4.0, rel=0.05)  # a rotor that is a body turns in steps: second order
    np.testing.assert_allclose(cb.forward_dynamics(geared, [1.0]), cb.forward_dynamics(reflected, [1.0]), rtol=1e-12)


WRIST = """
<mujoco model="wrist">
  <compiler angle="radian"/>
  <worldbody>
    <body name="fore" pos="0 0 1">
      <joint name="roll" axis="0 0 1" damping="0.02"/>
      <inertial pos="0.05 0 0.1" mass="1.2" diaginertia="0.01 0.02 0.015"/>
      <body name="hand" pos="0 0 0.2">
        <joint name="pitch" axis="0 1 0" ref="0.1"/>
        <inertial pos="0 0.03 0.1" mass="0.7" diaginertia="0.004 0.005 0.003"/>
        <body name="tool" pos="0 0 0.2">
          <joint name="push" type="slide" axis="0 0 1"/>
          <inertial pos="0.02 0 0" mass="0.4" diaginertia="0.001 0.001 0.001"/>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="sum" armature="0.01" damping="0.3"><joint joint="roll" coef="1"/><joint joint="pitch" coef="2"/></fixed>
    <fixed name="difference" stiffness="4" springlength="0.2"><joint joint="roll" coef="1"/><joint joint="pitch" coef="-2"/><joint joint="push" coef="3"/></fixed>
  </tendon>
  <actuator>
    <motor name="one" tendon="sum" gear="3" armature="0.002"/>
    <position name="two" tendon="difference" kp="5" kv="0.4"/>
  </actuator>
  <sensor><tendonpos name="encoder" tendon="sum"/></sensor>
</mujoco>
"""


def test_a_coupled_wrist_accelerates_as_in_mujoco(tmp_path: Path) -> None:
    """Both ways; and what is saved says the same."""
    (tmp_path / "wrist.xml").write_text(WRIST)
    model = cb.load(tmp_path / "wrist.xml")
    assert model.tables["sensor"]["encoder"].channel == "transmission.sum.angle"
    engine = mujoco.MjModel.from_xml_string(WRIST)
    data, rng = mujoco.MjData(engine), np.random.default_rng(3)
    changed = {
        "transmission.difference.stiffness": 7.0,
        "transmission.sum.armature": 0.05,
        "transmission.sum.friction": 0.2,
        "transmission.difference.backlash": 0.1,
    }
    model.replace(changed).save(tmp_path / "changed.xml")
    saved = cb.load(tmp_path / "changed.xml")
    assert all(saved[path] == pytest.approx(value, rel=1e-12) for path, value in changed.items())
    convert(saved, tmp_path / "fresh.xml")
    assert cb.load(tmp_path / "fresh.xml").transmissions == saved.transmissions
    for _ in range(3):
        data.qpos[:], data.qvel[:], data.ctrl[:] = rng.normal(size=3), rng.normal(size=3), rng.normal(size=2)
        mujoco.mj_forward(engine, data)
        q, v, u = data.qpos.copy(), data.qvel.copy(), data.ctrl.copy()
        np.testing.assert_allclose(cb.forward_dynamics(model, q, v, u), data.qacc, rtol=1e-9)
        np.testing.assert_allclose(cb.inverse_dynamics(model, q, v, data.qacc, u), 0.0, atol=1e-9)
    start = {"joint.roll.angle": 0.3, "joint.pitch.angle": -0.2, "joint.push.rate": 0.2}
    tree, free = (cb.simulate(model, 0.2, 2e-3, start, {"actuator.one": 0.3, "actuator.two": 0.5}, coordinates=c) for c in ("tree", "free"))
    for channel in ("joint.roll.angle", "joint.push.position", "transmission.difference.angle", "joint.pitch.force", "actuator.two.force"):
        np.testing.assert_allclose(tree[channel], free[channel], atol=1e-9)
    np.testing.assert_allclose(tree["joint.push.force"], 3.0 * tree["actuator.two.force"], rtol=1e-12)


UNKNOWN = {
    "transmission.gear.stiffness": (STIFFNESS, 2.0), "transmission.gear.damping": (DAMPING, 2.0), "transmission.gear.backlash": (PLAY, 0.5),
    "body.rotor.inertia.zz": (ROTOR, 1.5), "body.link.inertia.zz": (LINK, 0.6),
}  # fmt: skip


@pytest.mark.parametrize("observed", ["both", "motor", "arm"])
def test_flexibility_and_play_are_found_again(observed: str) -> None:
    """With encoders on both sides, on the motor alone, or on the link alone (on a mesh that resolves the motor's motion)."""
    rng, motion = np.random.default_rng(1), exact(TIMES)
    table = {"t": TIMES, "u": TORQUE, "motor": motion[0] + 0.02 * rng.normal(size=len(TIMES)), "arm": motion[1] + 2e-3 * rng.normal(size=len(TIMES))}
    sides = {"joint.motor.angle": {"column": "motor", "sd": 0.02}, "joint.arm.angle": {"column": "arm", "sd": 2e-3}}
    run = cb.read(
        table,
        time="t",
        observe={k: v for k, v in sides.items() if observed == "both" or observed in k},
        drive={"actuator.drive": {"column": "u", "hold": "linear"}},
    )
    result = cb.fit(flexible(), [run], {path: cb.Unknown(value * off) for path, (value, off) in UNKNOWN.items()}, h=1e-3 if observed == "arm" else None)
    assert result.status == "converged"
    for path, (true, _) in UNKNOWN.items():
        found = result.parameters[path]
        assert found.sd is not None and found.sd < 0.15 * true and abs(found.value - true) < 3.5 * np.hypot(found.sd, found.discretisation_error or 0.0), path


def test_a_wrist_is_calibrated_from_its_motors(tmp_path: Path) -> None:
    """Motor encoders see combinations of the joints, drives act through them: mass and friction behind."""
    (tmp_path / "wrist.xml").write_text(WRIST)
    model = cb.load(tmp_path / "wrist.xml").replace({"transmission.sum.friction": 0.15})
    t = np.arange(0.0, 2.0, 0.005)
    drive = {"actuator.one": 0.8 * np.sin(5.0 * t), "actuator.two": 0.5 * np.sin(3.0 * t + 1.0)}
    motion = cb.simulate(model, 2.0 - 0.005, 0.00125, drive={k: cb.Signal(t, v) for k, v in drive.items()})
    rng, channels = np.random.default_rng(5), ("transmission.sum.angle", "transmission.difference.angle", "joint.push.position")
    table = {"t": t} | {c: motion[c][::4] + 1e-3 * rng.normal(size=len(t)) for c in channels} | drive
    run = cb.read(table, time="t", observe={c: {"column": c, "sd": 1e-3} for c in channels}, drive={c: {"column": c, "hold": "zero"} for c in drive})
    unknown = {"transmission.sum.friction": 0.3, "transmission.sum.damping": 0.5, "transmission.difference.stiffness": 3.0, "body.tool.mass": 0.6}
    result = cb.fit(model, [run], {path: cb.Unknown(x) for path, x in unknown.items()}, h=0.0025)
    assert result.status == "converged"
    for path in unknown:
        found = result.parameters[path]
        assert found.sd is not None and found.sd < 0.1 * model[path] and abs(found.value - model[path]) < 3.5 * found.sd, (path, found)


BAD = [
    (lambda: cb.Transmission("t", ("a", "a"), (1.0, 2.0)), "different joints"),
    (lambda: cb.Transmission("t", ("a", "b"), (1.0,)), "give 2"),
    (lambda: cb.Transmission("t", ("a", "b"), (1.0, 0.0)), "leave out joints"),
    (lambda: cb.Transmission("t", ("a",), (1.0,), backlash=-0.1), "not be negative"),
    (lambda: cb.Actuator("m"), "either a joint, a transmission or a path"),
    (lambda: cb.Actuator("m", "arm", transmission="gear"), "either a joint, a transmission or a path"),
    (lambda: cb.Model("m", transmissions=[cb.Transmission("t", ("elbow",), (1.0,))]), '"elbow", which the model does not have'),
    (lambda: cb.simulate(flexible(), 0.1, 0.01, stepper="spook"), "transmission.gear"),
]


@pytest.mark.parametrize(("action", "words"), BAD)
def test_what_cannot_be_done_is_said_in_a_sentence(action: object, words: str) -> None:
    with pytest.raises(cb.CalibodyError, match=words):
        action()  # type: ignore[operator]
