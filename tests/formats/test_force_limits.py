"""Force limits of actuators (`forcerange`) act: against MuJoCo, in every stepper, in fits, and written back."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import mujoco
import numpy as np
import pytest

import calibody as cb

TEXT = """<mujoco><option timestep="1e-4" integrator="RK4"/><worldbody><body name="arm"><joint name="turn" axis="0 1 0" damping="0.1"/>
<inertial pos="0 0 -0.3" mass="1" diaginertia="0.02 0.02 0.01"/></body></worldbody><actuator>
<motor name="motor" joint="turn" gear="2" forcerange="-0.5 0.8"/>
<position name="servo" joint="turn" kp="6" kv="0.4" forcerange="-1 1"/>
</actuator></mujoco>"""


@pytest.fixture
def model(tmp_path: Path) -> cb.Model:
    (tmp_path / "arm.xml").write_text(TEXT)
    return cb.load(tmp_path / "arm.xml")


def test_accelerations_are_mujoco_s(model: cb.Model) -> None:
    assert [a.force_range for a in model.actuators] == [(-0.5, 0.8), (-1.0, 1.0)]
    m = mujoco.MjModel.from_xml_string(TEXT)
    data = mujoco.MjData(m)
    for q, v, u in ((0.1, 0.0, (0.2, 0.1)), (0.1, 0.5, (2.0, 0.1)), (1.0, -3.0, (-2.0, -0.5)), (0.0, 4.0, (0.0, 0.0))):
        data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
        mujoco.mj_forward(m, data)
        assert cb.forward_dynamics(model, [q], [v], control=u) == pytest.approx(data.qacc, rel=1e-10)


@pytest.mark.parametrize(("stepper", "close"), [("variational", 2e-5), ("spook", 5e-3)])
def test_the_motion_is_mujoco_s(model: cb.Model, stepper: str, close: float) -> None:
    m = mujoco.MjModel.from_xml_string(TEXT)
    data = mujoco.MjData(m)
    data.ctrl[:] = 1.0, -1.0
    found = []
    for _ in range(10001):
        found.append(float(data.qpos[0]))
        mujoco.mj_step(m, data)
    motion = cb.simulate(model, 1.0, 0.001, drive={"actuator.motor": 1.0, "actuator.servo": -1.0}, stepper=stepper)
    assert np.abs(motion["joint.turn.angle"] - np.array(found)[::10]).max() < close
    assert motion["actuator.motor.force"] == pytest.approx(1.6)
    assert motion["actuator.servo.force"].min() == pytest.approx(-1.0)


def test_a_fit_knows_the_limits(model: cb.Model) -> None:
    """The motor is at its limit for half of the time: without it the gain would come out too small."""
    rng = np.random.default_rng(0)

    def drive(t: np.ndarray) -> np.ndarray:
        return 1.2 * np.sin(4.0 * t)

    motion = cb.simulate(model, 3.0, 0.002, drive={"actuator.motor": drive})
    t = motion.time[::5]
    angle = cb.Observation("joint.turn.angle", t, motion["joint.turn.angle"][::5] + 1e-4 * rng.normal(size=len(t)), 1e-4)
    run = cb.Recording("run", (angle,), (cb.Drive("actuator.motor", cb.Signal(motion.time, drive(motion.time), "linear")),))
    result = cb.fit(model, run, {"actuator.motor.gain": 0.8, "joint.turn.damping": 0.2}, h=0.005)
    assert result.converged
    assert result.parameters["actuator.motor.gain"].value == pytest.approx(1.0, abs=2e-3)


def test_they_are_written_back(model: cb.Model, tmp_path: Path) -> None:
    motor, servo = model.actuators
    other = dataclasses.replace(model, actuators=(dataclasses.replace(motor, force_range=(-0.25, 0.25)), dataclasses.replace(servo, force_range=None)))
    for path in (other.save(tmp_path / "other.xml"), dataclasses.replace(other, source=None).save(tmp_path / "fresh.xml")):
        assert [a.force_range for a in cb.load(path).actuators] == [(-0.25, 0.25), None]


def test_sentences() -> None:
    with pytest.raises(cb.ModelError, match=r"actuator\.m\.force_range is \(1, -1\); give the lower limit first"):
        cb.Actuator("m", "j", force_range=(1.0, -1.0))
    with pytest.raises(cb.ModelError, match=r"actuator\.m\.force_range has 3 numbers; give 2"):
        cb.Actuator("m", "j", force_range=(1.0, 2.0, 3.0))  # type: ignore[arg-type]
