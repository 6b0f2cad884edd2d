"""Robots in MuJoCo, whose dry friction is a soft constraint that creeps, in closed loop: an engine of its own makes the data."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
import pytest
from formats.catalogue import entries

import calibody as cb

PERIOD = 0.008
"""s: the controller's, whose torque is held in between, and that of the log."""


@dataclass(frozen=True)
class Log:
    """What a controller writes."""

    joints: tuple[str, ...]
    time: np.ndarray
    angle: np.ndarray
    torque: np.ndarray


def closed_loop(model: mujoco.MjModel, rest: np.ndarray, duration: float, sway: float, substeps: int = 32) -> Log:
    """A multi-sine is followed by feedback of angles and rates, scaled by the inertia of each joint, with the weight compensated."""
    data, random, n = mujoco.MjData(model), np.random.default_rng(0), model.nv
    model.opt.timestep, model.opt.integrator = PERIOD / substeps, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    frequency = 2.0 * np.pi * np.array([0.1, 0.23, 0.41, 0.7])
    size = sway * random.uniform(0.5, 1.0, (n, 4)) * [0.5, 0.25, 0.12, 0.06]
    phase = random.uniform(0.0, 2.0 * np.pi, (n, 4))

    def wanted(t: float) -> tuple[np.ndarray, np.ndarray]:
        now = frequency * t + phase
        return rest + (size * (np.sin(now) - np.sin(phase))).sum(1), (size * frequency * np.cos(now)).sum(1)

    data.qpos[:], data.qvel[:] = wanted(0.0)
    inertia, rows = np.zeros((n, n)), []
    for k in range(round(duration / PERIOD) + 1):
        angle, rate = wanted(k * PERIOD)
        mujoco.mj_forward(model, data)
        mujoco.mj_fullM(model, data, inertia)
        feedback = np.diag(inertia) * (225.0 * (angle - data.qpos) + 30.0 * (rate - data.qvel))
        data.qfrc_applied[:] = feedback + data.qfrc_bias + model.dof_damping * rate + 0.5 * model.dof_frictionloss * np.sign(rate)
        rows.append((data.qpos.copy(), data.qfrc_applied.copy()))
        for _ in range(substeps):
            mujoco.mj_step(model, data)
    angles, torques = (np.array(x) for x in zip(*rows, strict=True))
    return Log(tuple(model.joint(j).name for j in range(n)), PERIOD * np.arange(len(rows)), angles, torques)


def recording(log: Log, sd: float, seed: int = 1) -> cb.Recording:
    """The torque of the controller as drive, held as it was."""
    noise = sd * np.random.default_rng(seed).normal(size=log.angle.shape)
    seen = tuple(cb.Observation(f"joint.{j}.angle", log.time, log.angle[:, k] + noise[:, k], sd) for k, j in enumerate(log.joints))
    return cb.Recording("log", seen, tuple(cb.Drive(f"joint.{j}.force", cb.Signal(log.time, log.torque[:, k])) for k, j in enumerate(log.joints)))


def deviations(result: cb.Result, truth: Mapping[str, float]) -> dict[str, float]:
    """From the truth, in standard deviations with what the mesh may still change."""
    out = {}
    for path, value in truth.items():
        found = result.parameters[path]
        assert found.sd is not None, path
        out[path] = (found.value - value) / np.hypot(found.sd, found.discretisation_error or 0.0)
    return out


TWO_LINKS = """<mujoco><worldbody>
  <body name="upper"><joint name="shoulder" axis="0 1 0" damping="0.5" frictionloss="0.6"/>
    <inertial pos="0 0 -0.2" mass="2" diaginertia="0.03 0.03 0.01"/>
    <body name="lower" pos="0 0 -0.4"><joint name="elbow" axis="0 1 0" damping="0.2" frictionloss="0.3"/>
      <inertial pos="0 0 -0.15" mass="1" diaginertia="0.01 0.01 0.005"/></body></body>
</worldbody></mujoco>"""


def test_friction_of_an_engine(tmp_path: Path) -> None:
    """Sharp friction goes round without end on such data; then its width is found as well, and the rest is right to a part in a hundred."""
    file = tmp_path / "two.xml"
    file.write_text(TWO_LINKS)
    log = closed_loop(mujoco.MjModel.from_xml_path(str(file)), np.array([0.5, -0.8]), 4.0, 1.5)
    truth = {"joint.shoulder.friction": 0.6, "joint.elbow.friction": 0.3, "joint.shoulder.damping": 0.5, "joint.elbow.damping": 0.2, "body.lower.mass": 1.0}
    result = cb.fit(cb.load(file), recording(log, 3e-4), {path: cb.Unknown(0.6 * value, lower=0.0) for path, value in truth.items()})
    assert result.converged, result.status
    for path, value in truth.items():
        assert result.parameters[path].value == pytest.approx(value, rel=0.02), path


ROBOT = ("example-robot-data", "ur_description/urdf/ur5_robot.urdf")
DRY, VISCOUS = (6.0, 6.0, 4.0, 1.2, 1.0, 0.8), (8.0, 8.0, 6.0, 1.5, 1.2, 1.0)
PAYLOAD = {"body.tool0.mass": 1.5, "body.tool0.com.x": 0.02, "body.tool0.com.y": -0.01, "body.tool0.com.z": 0.05}
ROUNDNESS = 1e-3
"""kg m^2: the payload's inertia, which is known."""


def ur5() -> tuple[Path, mujoco.MjModel]:
    """The robot as its file has it, and as MuJoCo moves it: with friction in all joints, and a payload at its tool."""
    found = [e.path for e in entries() if (e.package, e.name) == ROBOT]
    if not found:
        pytest.skip(f"{ROBOT[0]} is not installed (the `test` extra)")
    root = ET.parse(found[0]).getroot()
    for link in root.iter("link"):
        for shape in [*link.findall("visual"), *link.findall("collision")]:
            link.remove(shape)
    spec = mujoco.MjSpec.from_string(ET.tostring(root, encoding="unicode"))
    spec.compiler.fusestatic = False
    for joint, dry, viscous in zip(spec.joints, DRY, VISCOUS, strict=True):
        joint.frictionloss, joint.limited = dry, False
        joint.damping[0] = viscous
    mass, *com = PAYLOAD.values()
    spec.body("tool0").add_body(name="payload", mass=mass, ipos=com, inertia=[ROUNDNESS] * 3, explicitinertial=True)
    return found[0], spec.compile()


@pytest.mark.slow
def test_a_robot_with_its_payload() -> None:
    """Six joints, 10 s at 125 Hz, from half the frictions, another payload, and its place unknown: what the engine has, within its error bars."""
    file, engine = ur5()
    log = closed_loop(engine, np.array([0.0, -1.2, 1.2, -0.5, 0.6, 0.2]), 10.0, 1.0)
    model = cb.load(file)
    bodies = [dataclasses.replace(b, mass=1.0, inertia=(ROUNDNESS,) * 3) if b.name == "tool0" else b for b in model.bodies]
    model = dataclasses.replace(model, bodies=tuple(bodies))
    frictions = {f"joint.{j}.{what}": x for what, values in (("friction", DRY), ("damping", VISCOUS)) for j, x in zip(log.joints, values, strict=True)}
    unknown = {path: cb.Unknown(0.0 if "com" in path else 1.0) for path in PAYLOAD} | {path: cb.Unknown(0.5 * x, lower=0.0) for path, x in frictions.items()}
    result = cb.fit(model, recording(log, 1e-3), unknown)
    assert result.converged, result.status
    z = deviations(result, PAYLOAD | frictions)
    assert max(map(abs, z.values())) < 3.5, z
