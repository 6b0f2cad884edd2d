"""A first-order lag between the control and the force of an actuator: exact means, MuJoCo's filter, an unknown with its derivative."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import calibody as cb
from calibody import formats
from calibody.recording.signal import Signal

LAG = 0.03


@pytest.mark.parametrize("hold", ["zero", "linear"])
def test_means_behind_a_lag_are_exact(hold: str) -> None:
    """Against a fine integration of `T x' + x = u`, with irregular samples, edges of their own and a delay."""
    rng = np.random.default_rng(0)
    signal = Signal(np.cumsum(rng.uniform(0.01, 0.05, 40)), rng.normal(size=40), hold)
    edges, delay = np.linspace(0.1, 1.2, 23), 0.013
    fine = np.linspace(signal.times[0], edges[-1], 400_001)
    step = fine[1] - fine[0]
    k = np.clip(np.searchsorted(signal.times, fine, side="right") - 1, 0, 39)
    u = signal.values[k] if hold == "zero" else np.interp(fine, signal.times, signal.values)
    x = np.empty_like(u)
    x[0] = signal.values[0]
    fall = np.exp(-step / LAG)
    for i in range(1, len(u)):
        x[i] = u[i - 1] + (x[i - 1] - u[i - 1]) * fall
    total = np.concatenate([[0.0], np.cumsum(0.5 * (x[1:] + x[:-1]) * step)])
    expected = np.diff(np.interp(edges - delay, fine, total, left=0.0)) / np.diff(edges)
    inside = edges[:-1] - delay > signal.times[0]
    np.testing.assert_allclose(signal.means(edges, delay, LAG)[inside], expected[inside], atol=1e-4)
    high, low = (signal.means(edges, delay, LAG + s) for s in (1e-6, -1e-6))
    np.testing.assert_allclose(signal.means_by_lag(edges, delay, LAG), (high - low) / 2e-6, atol=1e-6)
    np.testing.assert_allclose(signal.means(edges, delay, 1e-9), signal.means(edges, delay), atol=1e-6)


MOTOR = """
<mujoco>
  <option timestep="0.0005" integrator="implicitfast"/>
  <worldbody>
    <body name="arm">
      <joint name="pivot" axis="0 1 0" damping="0.05"/>
      <inertial mass="0.5" pos="0 0 -0.2" diaginertia="0.01 0.01 0.001"/>
    </body>
  </worldbody>
  <actuator><general name="motor" joint="pivot" gainprm="0.8" dyntype="filterexact" dynprm="0.03"/></actuator>
</mujoco>
"""


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> tuple[cb.Model, np.ndarray, np.ndarray, np.ndarray]:
    """MuJoCo with its own filter: the model, the clock, the control and the angle every 5 ms."""
    path = tmp_path_factory.mktemp("lag") / "motor.xml"
    path.write_text(MOTOR)
    engine = mujoco.MjModel.from_xml_path(str(path))  # type: ignore[attr-defined]
    data = mujoco.MjData(engine)  # type: ignore[attr-defined]
    steps = np.repeat(np.random.default_rng(1).choice([-1.0, 1.0], 30), 200)  # a new sign every 0.1 s
    rows = []
    for u in steps:
        data.ctrl[0] = u
        rows.append((data.time, u, data.qpos[0]))
        mujoco.mj_step(engine, data)  # type: ignore[attr-defined]
    t, u, q = np.array(rows).T
    return cb.load(path), t[::10], u[::10], q[::10]


def test_the_filter_of_mujoco(driven: tuple[cb.Model, np.ndarray, np.ndarray, np.ndarray], tmp_path: Path) -> None:
    model, t, u, q = driven
    assert model["actuator.motor.time_constant"] == LAG
    # at rest the activation of MuJoCo is zero, ours the first control: begin with a control of zero
    signal = cb.Signal(np.concatenate([[-1.0], t]), np.concatenate([[0.0], u]))
    motion = cb.simulate(model, t[-1], 1e-3, drive={"actuator.motor": signal})
    late = cb.simulate(model.replace({"actuator.motor.time_constant": 0.0}), t[-1], 1e-3, drive={"actuator.motor": signal})
    miss, plain = (float(np.abs(m["joint.pivot.angle"][::5][: len(q)] - q[: len(m.time[::5])]).max()) for m in (motion, late))
    assert miss < 3e-3 < 0.1 * plain
    formats.convert(model, tmp_path / "again.xml")
    assert cb.load(tmp_path / "again.xml")["actuator.motor.time_constant"] == LAG
    model.replace({"actuator.motor.time_constant": 0.05}).save(tmp_path / "edited.xml")
    assert cb.load(tmp_path / "edited.xml")["actuator.motor.time_constant"] == 0.05


def test_an_unknown_lag(driven: tuple[cb.Model, np.ndarray, np.ndarray, np.ndarray]) -> None:
    """From none at all; covered, and the gain with it."""
    model, t, u, q = driven
    z = []
    for seed in range(3):
        y = q + 2e-3 * np.random.default_rng(seed).normal(size=len(q))
        signal = cb.Signal(np.concatenate([[-1.0], t]), np.concatenate([[0.0], u]))
        run = cb.Recording("run", (cb.Observation("joint.pivot.angle", t, y, sd=2e-3),), (cb.Drive("actuator.motor", signal),))
        start = model.replace({"actuator.motor.time_constant": 0.0})
        result = cb.fit(start, run, {"actuator.motor.time_constant": cb.Unknown(0.01), "actuator.motor.gain": cb.Unknown(0.5)}, h=5e-3)
        assert result.status == "converged"
        for path, truth in (("actuator.motor.time_constant", LAG), ("actuator.motor.gain", 0.8)):
            found = result.parameters[path]
            assert found.sd is not None
            z.append((found.value - truth) / found.sd)
    assert np.abs(z).max() < 4.0


def test_a_noisy_drive_has_no_lag(driven: tuple[cb.Model, np.ndarray, np.ndarray, np.ndarray]) -> None:
    model, t, u, q = driven
    run = cb.Recording("run", (cb.Observation("joint.pivot.angle", t, q, sd=2e-3),), (cb.Drive("actuator.motor", cb.Signal(t, u), sd=0.1),))
    with pytest.raises(cb.CalibodyError, match="leave one of them out"):
        cb.fit(model, run, {"actuator.motor.gain": None}, h=5e-3)
