"""MuJoCo's engine with bodies that float freely, balls and activations: what is observed of them, what is known of their start, a fit of a legged body with contact."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import calibody as cb
from calibody.estimate.engine.fit import begin, prepared
from calibody.estimate.reported import initial_theta

HOPPER = """<mujoco model="hopper">
  <option timestep="0.002" cone="elliptic"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1"/>
    <body name="torso" pos="0 0 0.6">
      <freejoint name="base"/>
      <geom type="box" size="0.12 0.08 0.05" mass="2" contype="0" conaffinity="0"/>
      <site name="imu" pos="0.02 0 0.05" euler="0 0 30"/>
      <body name="arm" pos="0 0 0.05">
        <joint name="shoulder" type="ball" damping="0.02"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.02" mass="0.3" contype="0" conaffinity="0"/>
      </body>
      <body name="leg" pos="0 0 -0.05">
        <joint name="hip" axis="0 1 0" damping="0.4" stiffness="10"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="0.5" contype="0" conaffinity="0"/>
        <geom name="foot" type="sphere" pos="0 0 -0.3" size="0.04" mass="0.1" friction="0.6 0 0" priority="1"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="hip" joint="hip"/></actuator>
</mujoco>"""
START: dict[str, Any] = {
    "joint.base.position": (0.0, 0.1, 0.5), "joint.base.angle": (0.3, -0.2, 0.4), "joint.base.rate": (0.5, -0.2, 0.3, 1.0, -2.0, 0.7),
    "joint.shoulder.angle": (0.2, 0.1, -0.3), "joint.shoulder.rate": (1.0, 0.5, -0.4), "joint.hip.angle": 0.3, "joint.hip.rate": -0.5,
}  # fmt: skip


def written(folder: Path, text: str) -> cb.Model:
    (folder / "model.xml").write_text(text)
    return cb.load(folder / "model.xml", engine="mujoco")


def one_by_one(values: dict[str, Any]) -> dict[str, float]:
    """Vectors by their components, as recordings have them."""
    names = {3: ("x", "y", "z"), 6: ("x", "y", "z", "rx", "ry", "rz")}
    return {f"{c}.{k}" if np.ndim(v) else c: float(x) for c, v in values.items() for k, x in (zip(names[len(v)], v, strict=True) if np.ndim(v) else [("", v)])}


def seen(motion: cb.Motion, channels: dict[str, float], every: int = 5, seed: int = 0) -> list[cb.Observation]:
    """Orientations as what a sensor with small errors about its own axes reads, the rest with white noise."""
    random, at, out = np.random.default_rng(seed), slice(None, None, every), []
    for channel, sd in channels.items():
        values, t = motion[channel][at], motion.time[at]
        noise = sd * random.standard_normal(values.shape)
        if channel.endswith(".angle") and values.ndim == 2:
            for k, (v, e) in enumerate(zip(values, noise, strict=True)):
                q, turn, vector = (np.zeros(n) for n in (4, 4, 3))
                mujoco.mju_axisAngle2Quat(q, v / max(np.linalg.norm(v), 1e-12), float(np.linalg.norm(v)))
                mujoco.mju_axisAngle2Quat(turn, e / np.linalg.norm(e), float(np.linalg.norm(e)))
                mujoco.mju_mulQuat(q, q.copy(), turn)
                mujoco.mju_quat2Vel(vector, q, 1.0)
                values[k] = vector
        elif values.ndim == 2:
            values = values + noise
        columns = zip("xyz", values.T, strict=True) if values.ndim == 2 else [("", values + noise)]
        out += [cb.Observation(f"{channel}.{c}" if c else channel, t, column, sd) for c, column in columns]
    return out


def test_what_floats_is_read_as_the_engine_has_it(tmp_path: Path) -> None:
    model = written(tmp_path, HOPPER)
    motion = cb.simulate(model, 0.6, 0.002, START, {"actuator.hip": 0.5}, stepper="mujoco")
    m = mujoco.MjModel.from_xml_string(HOPPER)
    d, turn = mujoco.MjData(m), np.zeros(3)
    d.qpos[:3] = START["joint.base.position"]
    for at, angle in ((3, "joint.base.angle"), (7, "joint.shoulder.angle")):
        mujoco.mju_axisAngle2Quat(d.qpos[at : at + 4], np.array(START[angle]) / np.linalg.norm(START[angle]), float(np.linalg.norm(START[angle])))
    d.qpos[11], d.qvel[:] = 0.3, [*START["joint.base.rate"], *START["joint.shoulder.rate"], -0.5]
    there = {c: motion[c] for c in ("joint.base.position", "joint.base.rate", "joint.shoulder.rate", "joint.base.angle", "joint.shoulder.angle")}
    for k in range(301):
        for channel, x in (("joint.base.position", d.qpos[:3]), ("joint.base.rate", d.qvel[:6]), ("joint.shoulder.rate", d.qvel[6:9])):
            assert np.abs(there[channel][k] - x).max() < 1e-10, (channel, k)
        for channel, q in (("joint.base.angle", d.qpos[3:7]), ("joint.shoulder.angle", d.qpos[7:11])):
            mujoco.mju_quat2Vel(turn, q, 1.0)
            assert np.abs(there[channel][k] - turn).max() < 1e-9, (channel, k)
        d.ctrl[:] = 0.5
        mujoco.mj_step(m, d)


def test_sensitivities_of_orientations(tmp_path: Path) -> None:
    """By differences of the residuals, of a spatial orientation, a ball and a planar angle, with a bias and a delay."""
    model = written(tmp_path, HOPPER.replace('<freejoint name="base"/>', '<joint name="swing" axis="0 1 0"/><joint name="slide" type="slide" axis="1 0 0"/>'))
    motion = cb.simulate(model, 0.3, 0.002, {"joint.swing.angle": 4.0, "joint.shoulder.rate": (1.0, 3.0, 0.5)}, stepper="mujoco")
    observed = seen(motion, {"site.imu.angle": 0.01, "joint.shoulder.angle": 0.02})
    observed.append(cb.Observation("body.torso.angle.y", motion.time[::5], motion["joint.swing.angle"][::5], 0.01))
    unknowns = {"body.arm.mass": None, "site.imu.angle.y.bias": None, "site.imu.angle.delay": None, "joint.hip.damping": None}
    problem, _ = prepared(model, [cb.Recording("swing", observed)], unknowns, cb.Shooting(stepper="mujoco", windows=3))
    theta = initial_theta(problem.entries)
    x = begin(problem, theta)
    assert np.abs(problem.values(x, theta)[0]).max() < 30.0  # the first motion follows what is observed, in the right turn
    x = problem.move(x, 0.05 * np.random.default_rng(1).standard_normal(3 * problem.engine.n))
    theta[[e.name == "site.imu.angle.delay" for e in problem.entries].index(True)] = 1.3e-3  # samples between nodes, so that none leaves its window
    lin = problem.linearise(x, theta).parts[0]
    for k in range(problem.engine.n):
        step = np.zeros(3 * problem.engine.n)
        step[k] = 1e-4
        ends = [problem.values(problem.move(x, sign * step), theta)[0] for sign in (1.0, -1.0)]
        np.testing.assert_allclose((ends[0] - ends[1]) / 2e-4, lin.Fx[:, [k]].toarray()[:, 0], rtol=2e-3, atol=2e-3)
    for k in range(len(theta)):
        d = np.zeros(len(theta))
        d[k] = 1e-5
        ends = [problem.values(x, theta + sign * d)[0] for sign in (1.0, -1.0)]
        slope = (ends[0] - ends[1])[len(problem.prior(theta)) :] / 2e-5
        np.testing.assert_allclose(slope, lin.Ft[:, k], rtol=2e-2, atol=2e-3 * max(1.0, np.abs(slope).max()))


FALL = {"joint.base.position": 2e-3, "joint.base.angle": 5e-3, "joint.hip.angle": 2e-3, "joint.shoulder.angle": 0.01}


def test_a_legged_body_that_falls_onto_the_floor(tmp_path: Path) -> None:
    """Pose of the trunk and encoders, from an exactly known start through impacts of the foot: contact and inertial numbers."""
    model = written(tmp_path, HOPPER)
    truth = {"body.torso.mass": 2.4, "joint.hip.damping": 0.5, "mujoco.geom.foot.solref.timeconst": 0.03}
    start = START | {"joint.base.rate": (0.5, -0.2, 0.3, 0.5, -1.0, 0.3), "joint.base.angle": (0.1, -0.1, 0.4)}
    control = cb.Signal(np.arange(0.0, 0.8, 0.1), [0.0, 2.0, -2.0, 1.0, 3.0, -1.0, 0.0, 2.0])
    motion = cb.simulate(model.replace(truth), 0.4, 0.002, start, {"actuator.hip": control}, stepper="mujoco")
    fall = np.diff(motion["joint.base.rate"][:, 2]) / 0.002
    assert fall[:50].max() < -5.0 and fall.max() > 50.0  # it flies, and the floor stops it
    run = cb.Recording("fall", seen(motion, FALL, 2), [cb.Drive("actuator.hip", control)], initial=one_by_one(start))
    result = cb.fit(model, run, {k: cb.Unknown(1.2 * v) for k, v in truth.items()}, method="shooting", stepper="mujoco", windows=1)
    assert result.converged and all(e.sd is not None and abs(e.value - truth[k]) < 3.5 * e.sd for k, e in result.parameters.items())


def test_a_start_that_is_not_known(tmp_path: Path) -> None:
    model = written(tmp_path, HOPPER)
    truth = {"body.torso.mass": 2.4, "joint.hip.damping": 0.5, "joint.shoulder.damping": 0.04}
    control = cb.Signal(np.arange(0.0, 0.5, 0.1), [0.0, 2.0, -2.0, 1.0, 3.0])
    motion = cb.simulate(model.replace(truth), 0.18, 0.002, START, {"actuator.hip": control}, stepper="mujoco")  # until it would touch the floor
    run = cb.Recording("flight", seen(motion, FALL, 2), [cb.Drive("actuator.hip", control)])
    result = cb.fit(model, run, {k: cb.Unknown(1.5 * v) for k, v in truth.items()}, method="shooting", stepper="mujoco", windows=4)
    assert result.converged and all(e.sd is not None and abs(e.value - truth[k]) < 3.5 * e.sd for k, e in result.parameters.items())
    found = result.motion()
    assert np.abs(found["joint.base.angle"][0] - START["joint.base.angle"]).max() < 0.02


MUSCLE = """<mujoco model="lever">
  <option timestep="0.002"/>
  <worldbody>
    <site name="wall" pos="0.05 0 0.1"/>
    <body name="lever">
      <joint name="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="1" contype="0" conaffinity="0"/>
      <site name="tip" pos="0.03 0 -0.1"/>
    </body>
  </worldbody>
  <tendon><spatial name="cord"><site site="wall"/><site site="tip"/></spatial></tendon>
  <actuator>
    <muscle name="pull" tendon="cord" force="100" lengthrange="0.1 0.4" ctrllimited="true" ctrlrange="0 1" timeconst="0.05 0.1"/>
    <general name="motor" joint="hinge" dyntype="filter" dynprm="0.1"/>
  </actuator>
</mujoco>"""


def test_activations_that_begin_above_zero(tmp_path: Path) -> None:
    """Known exactly, or with an sd: then the data say more."""
    model = written(tmp_path, MUSCLE)
    control = cb.Signal(np.arange(0.0, 1.0, 0.1), [0.2, 0.6, 0.0, 0.9, 0.3, 0.0, 0.7, 0.0, 0.5, 0.2])
    start = {"joint.hinge.angle": 0.3, "mujoco.muscle.pull.activation": 0.6, "actuator.motor.activation": -0.4}
    truth = {"mujoco.muscle.pull.force": 80.0, "joint.hinge.damping": 0.15}
    drives = {"mujoco.muscle.pull": control, "actuator.motor": 0.2}
    motion = cb.simulate(model.replace(truth), 0.9, 0.002, start, drives, stepper="mujoco")
    assert motion["mujoco.muscle.pull.activation"][0] == 0.6 and motion["actuator.motor.activation"][0] == -0.4
    assert motion["actuator.motor.activation"][50] == pytest.approx(0.2 - 0.6 * (1.0 - 0.02) ** 50, abs=1e-12)  # MuJoCo's filter is explicit
    observed = seen(motion, {"joint.hinge.angle": 1e-3}, 2)
    unknowns = {k: cb.Unknown(1.3 * v) for k, v in truth.items()}
    recorded = [cb.Drive("mujoco.muscle.pull", control), cb.Drive("actuator.motor", cb.Signal(np.array([0.0, 1.0]), np.array([0.2, 0.2])))]
    fits = {}
    for name, known in (
        ("exact", start),
        ("unsure", start | {"mujoco.muscle.pull.activation": {"value": 0.3, "sd": 0.3}}),
        ("zero", {"joint.hinge.angle": 0.3}),
    ):
        run = cb.Recording("pulled", observed, recorded, initial=known)
        result = fits[name] = cb.fit(model, run, unknowns, method="shooting", stepper="mujoco", windows=5)
        if name == "zero":
            assert result.chi2 / result.dof > 100.0
        else:
            assert result.converged and all(e.sd is not None and abs(e.value - truth[k]) < 3.5 * e.sd for k, e in result.parameters.items())
    sds = [fits[name].parameters["mujoco.muscle.pull.force"].sd for name in ("exact", "unsure")]
    assert sds[0] < sds[1] < 5.0 * sds[0]


def test_what_cannot_be_known_of_a_start_is_refused(tmp_path: Path) -> None:
    model, method = written(tmp_path, HOPPER), cb.Shooting(stepper="mujoco")
    t = np.arange(0.0, 0.5, 0.01)
    observed = [cb.Observation("joint.hip.angle", t, 0.0 * t, 1e-3)]
    for initial, said in (
        (
            {"joint.base.angle.x": 0.1, "joint.base.angle.y": 0.0},
            'an initial value of "joint.base.angle" without z; an orientation is known by all three components',
        ),
        ({"joint.base.angle.x": {"value": 0.1, "sd": 0.1}, "joint.base.angle.y": 0.0, "joint.base.angle.z": 0.0}, 'of "joint.base.angle" without'),
        ({"site.imu.position.x": 0.1}, "activations of muscles and filters"),
        ({"joint.base.position": 0.1}, "component by component"),
    ):
        with pytest.raises(cb.CalibodyError, match=re.escape(said)):
            method.refuse(model, [cb.Recording("start", observed, initial=initial)], {"body.torso.mass": None})
