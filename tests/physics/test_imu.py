"""Gyroscopes and accelerometers on sites: what they read in a simulation against MuJoCo's own sensors, and what they add to a fit."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import calibody as cb
from calibody import formats

ARM = """
<mujoco>
  <option timestep="0.0005" integrator="RK4"/>
  <worldbody>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0.2" damping="0.05"/>
      <inertial mass="1" pos="0.02 0 -0.2" diaginertia="0.02 0.02 0.004"/>
      <site name="imu1" pos="0.05 0.02 -0.3" quat="0.9 0.1 0.3 -0.2"/>
      <body name="lower" pos="0 0 -0.4">
        <joint name="elbow" axis="1 0.3 0" damping="0.02"/>
        <inertial mass="0.6" pos="0 0.03 -0.15" diaginertia="0.01 0.01 0.002"/>
        <site name="imu2" pos="0.03 -0.02 -0.25" quat="0.7 -0.2 0.1 0.5"/>
      </body>
    </body>
  </worldbody>
  <sensor>
    <gyro name="g1" site="imu1"/> <accelerometer name="a1" site="imu1"/>
    <gyro name="g2" site="imu2"/> <accelerometer name="a2" site="imu2"/>
  </sensor>
</mujoco>
"""
START = {"joint.shoulder.angle": 0.8, "joint.elbow.angle": -0.5, "joint.shoulder.rate": 1.0}


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> tuple[cb.Model, Path]:
    path = tmp_path_factory.mktemp("imu") / "arm.xml"
    path.write_text(ARM)
    return cb.load(path), path


@pytest.fixture(scope="module")
def engine(arm: tuple[cb.Model, Path]) -> dict[str, np.ndarray]:
    """Two seconds of MuJoCo: its clock, joints and sensors every 5 ms."""
    model = mujoco.MjModel.from_xml_path(str(arm[1]))  # type: ignore[attr-defined]
    data = mujoco.MjData(model)  # type: ignore[attr-defined]
    data.qpos[:], data.qvel[:] = (0.8, -0.5), (1.0, 0.0)
    rows = []
    for k in range(4001):
        mujoco.mj_forward(model, data)  # type: ignore[attr-defined]
        if k % 10 == 0:
            rows.append(np.concatenate([[data.time], data.qpos, data.sensordata]))
        mujoco.mj_step(model, data)  # type: ignore[attr-defined]
    table = np.array(rows)
    names = ["t", "shoulder", "elbow", *(f"{s}.{c}" for s in ("g1", "a1", "g2", "a2") for c in "xyz")]
    return dict(zip(names, table.T, strict=True))


def test_sensors_of_a_file_are_channels(arm: tuple[cb.Model, Path], tmp_path: Path) -> None:
    model = arm[0]
    assert [s.channel for s in model.sensors] == [f"site.imu{k}.{q}" for k in (1, 2) for q in ("angular_rate", "acceleration")]
    assert not any("Sensors" in note for note in model.notes)
    formats.convert(model, tmp_path / "again.xml")
    assert cb.load(tmp_path / "again.xml").sensors == model.sensors


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_the_same_readings_as_mujoco(arm: tuple[cb.Model, Path], engine: dict[str, np.ndarray], coordinates: str) -> None:
    """Second order: four times closer with half the step."""
    misses = []
    for h in (5e-3, 2.5e-3):
        motion = cb.simulate(arm[0], 2.0, h, START, coordinates=coordinates)
        every = round(5e-3 / h)
        miss = []
        for sensor, channel in (("g", "angular_rate"), ("a", "acceleration")):
            for k in (1, 2):
                read = motion[f"site.imu{k}.{channel}"][::every]
                expected = np.stack([engine[f"{sensor}{k}.{c}"] for c in "xyz"], axis=1)
                count = min(len(read), len(expected)) - 1
                miss.append(np.abs(read[:count] - expected[:count]).max() / np.abs(expected).max())
        misses.append(miss)
    assert np.max(misses[1]) < 2e-3
    assert np.all(np.array(misses[0]) > 3.0 * np.array(misses[1]))


def test_rest_and_free_fall() -> None:
    """At rest an accelerometer reads minus gravity, in its own axes; in free fall about its centre nothing."""
    body = cb.Body("b", mass=1.0, inertia=(0.1, 0.1, 0.1))
    site = cb.Site("imu", "b", orientation=(np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0))  # its y is up
    held = cb.simulate(cb.Model(bodies=[body], joints=[cb.Joint("j", "b", axis=(0, 0, 1))], sites=[site]), 0.1, 0.01)
    np.testing.assert_allclose(held["site.imu.acceleration"], np.tile([0.0, 9.81, 0.0], (len(held.time), 1)), atol=1e-9)
    falling = cb.simulate(cb.Model(bodies=[body], joints=[cb.Joint("f", "b", "free")], sites=[site]), 0.1, 0.01, {"joint.f.rate.rz": 2.0})
    np.testing.assert_allclose(falling["site.imu.acceleration"], 0.0, atol=1e-9)
    np.testing.assert_allclose(falling["site.imu.angular_rate"], np.tile([0.0, 2.0, 0.0], (len(falling.time), 1)), atol=2e-4)  # of second order


def test_an_imu_calibrates_itself_and_helps(arm: tuple[cb.Model, Path], engine: dict[str, np.ndarray]) -> None:
    """Encoders of 2 mrad alone, then with an inertial sensor whose place, biases and gain are unknown as well: all covered, and the error bars shrink."""
    model, t = arm[0], engine["t"]
    wanted = {"body.lower.com.z": -0.15, "body.lower.com.y": 0.03, "joint.elbow.damping": 0.02}
    guess = {path: cb.Unknown(0.7 * value) for path, value in wanted.items()}
    own = {
        "site.imu2.position.x": (0.03, 0.05),
        "site.imu2.position.z": (-0.25, -0.22),
        "site.imu2.angular_rate.x.bias": (0.02, 0.0),
        "site.imu2.acceleration.y.bias": (-0.3, 0.0),
        "site.imu2.acceleration.z.gain": (1.03, 1.0),
    }
    z, ratio = [], []
    for seed in range(3):
        noise = np.random.default_rng(seed)
        angles = [cb.Observation(f"joint.{j}.angle", t, engine[j] + 2e-3 * noise.normal(size=len(t)), sd=2e-3) for j in ("shoulder", "elbow")]
        more = []
        for sensor, quantity, sd in (("g2", "angular_rate", 5e-3), ("a2", "acceleration", 0.05)):
            for c in "xyz":
                path = f"site.imu2.{quantity}.{c}"
                y = own.get(f"{path}.gain", (1.0, 1.0))[0] * engine[f"{sensor}.{c}"] + own.get(f"{path}.bias", (0.0, 0.0))[0]
                more.append(cb.Observation(path, t, y + sd * noise.normal(size=len(t)), sd=sd))
        alone = cb.fit(model, cb.Recording("encoders", tuple(angles)), guess, h=5e-3)
        both = cb.fit(model, cb.Recording("both", (*angles, *more)), guess | {p: cb.Unknown(g) for p, (_, g) in own.items()}, h=5e-3)
        assert alone.status == both.status == "converged"
        for path, truth in (wanted | {p: v for p, (v, _) in own.items()}).items():
            found = both.parameters[path]
            assert found.sd is not None
            z.append((found.value - truth) / found.sd)
        ratio.append([both.parameters[p].sd / alone.parameters[p].sd for p in wanted])  # type: ignore[operator]
    assert np.abs(z).max() < 4.0 and np.mean(np.square(z)) < 2.5
    assert np.max(ratio) < 0.8
