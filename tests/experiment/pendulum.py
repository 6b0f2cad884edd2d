"""A driven pendulum with a motor: its model, a recording and an experiment file, for several tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

MODEL = """\
<mujoco model="pendulum">
  <worldbody>
    <body name="arm">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.02"/>
      <inertial pos="0 0 -0.3" mass="0.4" diaginertia="0.012 0.012 0.0004"/>
      <site name="tip" pos="0 0 -0.6"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge"/></actuator>
</mujoco>
"""
EXPERIMENT = """\
# swinging
[model]
file = "pendulum.xml"

[[run]]
data = "logs/swing.csv"
time = "t"
observe = { "joint.hinge.angle" = { column = "theta", unit = "deg", sd = 0.5 }, "joint.hinge.rate" = { column = "omega", time = "t" } }

[run.drive]
"actuator.motor" = { column = "u", file = "logs/motor.csv", time = "clock", time_unit = "ms", hold = "linear", sd = 0.02 }

[[run]]
name = "second"
data = "logs/swing.csv"
start = 0.5
end = 1.5
observe = { "joint.hinge.angle" = { column = "theta", unit = "deg" } }
drive = { "actuator.motor" = { column = "u", file = "logs/motor.csv", time = "clock", time_unit = "ms" } }

[[estimate]]
parameter = "body.arm.mass"
initial = 1
lower = 0.0
upper = inf
prior = { value = 0.5, sd = 0.2 }
scale = 0.1

[[estimate]]
parameter = "joint.hinge.angle.bias"
per_run = true

[[estimate]]
name = "rod"
initial = 0.6
places = { "body.arm.com.z" = "-0.5 * rod", "site.tip.position.z" = "-rod" }

[method]
name = "transcription"
coordinates = "tree"
process_noise = "none"
h = 0.01
"""
T = np.arange(0.0, 2.005, 0.01)
THETA = 40.0 * np.sin(3.0 * T)  # degrees
OMEGA = np.deg2rad(120.0 * np.cos(3.0 * T))


def write(folder: Path, text: str = EXPERIMENT, **columns: np.ndarray) -> Path:
    """All files in a folder; `columns` replace those of the recording. Gives the experiment file."""
    (folder / "logs").mkdir(exist_ok=True, parents=True)
    (folder / "pendulum.xml").write_text(MODEL)
    pl.DataFrame({"t": T, "theta": THETA, "omega": OMEGA, **columns}).write_csv(folder / "logs" / "swing.csv")
    pl.DataFrame({"clock": 1000.0 * T, "u": np.sin(T)}).write_csv(folder / "logs" / "motor.csv")
    path = folder / "swing.toml"
    path.write_text(text, encoding="utf-8")
    return path
