"""From the URDF of a robot and a log of it to its payload, without an edit: `calibody new --payload`, `check`, `fit`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import mujoco
import numpy as np
import polars as pl
import pytest
from estimate import test_robot as robots
from formats.catalogue import entries

import calibody as cb
from calibody import cli


def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch, torque_sd: float) -> dict[str, float]:
    """A UR5 with a payload in MuJoCo, in closed loop: `ur5.urdf`, `log.csv` with angles to 1 mrad and the torques, and what is true. Friction is viscous: MuJoCo's dry friction is soft (docs/machines.md)."""
    monkeypatch.setattr(robots, "DRY", (0.0,) * 6)
    file, engine = robots.ur5()
    shutil.copy(file, folder / "ur5.urdf")
    log = robots.closed_loop(engine, robots.POSE, 10.0, 1.0)
    chance = np.random.default_rng(5)
    angle = log.angle + 1e-3 * chance.normal(size=log.angle.shape)
    torque = log.torque + torque_sd * chance.normal(size=log.torque.shape)
    short = [j.removesuffix("_joint") for j in log.joints]
    columns = {f"{what}_{j}": x[:, k] for what, x in (("q", angle), ("tau", torque)) for k, j in enumerate(short)}
    pl.DataFrame({"time": log.time, **columns}).write_csv(folder / "log.csv")
    payload = {path.replace("tool0", "payload"): value for path, value in robots.PAYLOAD.items()}
    moments = {f"body.payload.inertia.{c}": robots.ROUNDNESS for c in ("xx", "yy", "zz")}
    return payload | moments | {f"joint.{j}.damping": x for j, x in zip(log.joints, robots.VISCOUS, strict=True)}


GRIPPER = {"body.payload.mass": 0.8, "body.payload.com.x": 0.01, "body.payload.com.y": -0.02, "body.payload.com.z": 0.08}
GRIPPER |= {f"body.payload.inertia.{c}": x for c, x in (("xx", 0.003), ("yy", 0.004), ("zz", 0.005))}
"""What the hand of the panda carries."""


def grasping(folder: Path) -> Path:
    """A panda whose fingers hold still and are in no column: `log.csv` with q1 to q7, dq1 to dq7 and tau_J1 to tau_J7; its URDF."""
    file = next((e.path for e in entries() if e.package == robots.ROBOT[0] and e.path.name == "panda.urdf"), None)
    if file is None:
        pytest.skip(f"{robots.ROBOT[0]} is not installed (the `test` extra)")
    text = re.sub(r"<(visual|collision)\b.*?</\1>", "", file.read_text(), flags=re.DOTALL).replace('type="prismatic"', 'type="fixed"')
    spec = mujoco.MjSpec.from_string(text)
    spec.compiler.fusestatic = False
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    carried = spec.body("panda_hand").add_body(name="carried", mass=0.8, ipos=[0.01, -0.02, 0.08], inertia=[0.003, 0.004, 0.005], explicitinertial=True)
    assert carried is not None
    engine = spec.compile()
    engine.dof_damping[:], engine.dof_frictionloss[:] = DAMPING, 0.0
    engine.opt.timestep, engine.opt.integrator = 0.0005, mujoco.mjtIntegrator.mjINT_RK4
    state, chance = mujoco.MjData(engine), np.random.default_rng(0)
    state.qpos[:] = pose = np.array([0.0, 0.3, 0.2, -1.5, 0.0, 1.5, 0.5])
    frequency, phase, mass, rows = chance.uniform(0.1, 0.8, (7, 3)), chance.uniform(0.0, 6.28, (7, 3)), np.zeros((7, 7)), []
    for k in range(16_000):
        if k % 10 == 0:
            angle = 2.0 * np.pi * frequency * state.time + phase
            wanted = pose + 0.4 * (np.sin(angle) - np.sin(phase)).sum(axis=1) * min(1.0, state.time)
            mujoco.mj_forward(engine, state)
            mujoco.mj_fullM(engine, state, mass)
            state.qfrc_applied[:] = mass @ (400.0 * (wanted - state.qpos) - 40.0 * state.qvel) + state.qfrc_bias
            rows.append(np.concatenate([[state.time], state.qpos, state.qvel, state.qfrc_applied]))
        mujoco.mj_step(engine, state)
    log = np.array(rows)
    log[:, 1:8] += 3e-4 * chance.normal(size=log[:, 1:8].shape)
    log[:, 15:] += 0.005 * np.std(log[:, 15:], axis=0) * chance.normal(size=log[:, 15:].shape)
    names = ["time", *(f"{what}{k}" for what in ("q", "dq", "tau_J") for k in range(1, 8))]
    pl.DataFrame(dict(zip(names, log.T, strict=True))).write_csv(folder / "log.csv")
    return file


DAMPING = 0.3


@pytest.mark.slow
def test_a_gripper_that_is_in_no_column_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven numbered columns, nine joints: the fingers are held, and payload and frictions are within three standard deviations; the calibrated file has its fingers."""
    file = grasping(tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in (["new", str(file), "log.csv", "--payload", "panda_hand"], ["check", "log.toml"], ["fit", "log.toml", "--no-validate", "--quiet"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(command)
        assert not caught.value.code, command
    found = cb.open("log-fit")
    truth = GRIPPER | {f"joint.panda_joint{k}.damping": DAMPING for k in range(1, 8)}
    assert set(found.parameters) == set(truth)
    for path, e in found.parameters.items():
        assert e.sd is not None and abs(e.value - truth[path]) < 3.0 * np.hypot(e.sd, e.discretisation_error or 0.0), (path, e.value, e.sd)
    assert {"panda_finger_joint1", "panda_finger_joint2"} <= {j.name for j in cb.load("log-fit/panda.urdf").joints}


@pytest.mark.slow
@pytest.mark.parametrize("torque_sd", [0.0, 0.3])
def test_a_payload_without_an_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torque_sd: float) -> None:
    """Payload and frictions within three standard deviations, with the controller's torques, and with torques measured to 0.3 N m."""
    truth = recorded(tmp_path, monkeypatch, torque_sd)
    commands = (["new", "ur5.urdf", "log.csv", "--payload", "tool0"], ["check", "log.toml"], ["fit", "log.toml", "--no-validate"])
    monkeypatch.chdir(tmp_path)
    for command in commands:
        with pytest.raises(SystemExit) as caught:
            cli.main(command)
        assert not caught.value.code, command
    found = cb.open("log-fit")
    assert set(found.parameters) <= set(truth) and {p for p in truth if "inertia" not in p} <= set(found.parameters)
    for path, e in found.parameters.items():
        assert e.sd is not None, path
        z = (e.value - truth[path]) / np.hypot(e.sd, e.discretisation_error or 0.0)
        assert abs(z) < 3.0, (path, e.value, e.sd, z)
    assert found.model["body.payload.mass"] == pytest.approx(1.5, rel=0.01)
