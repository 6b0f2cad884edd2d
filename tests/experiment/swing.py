"""A pendulum whose fit takes a second: files and experiment, for tests of the run folder, the command and the report."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

import calibody as cb

Command = Callable[..., tuple[int, str, str]]
"""A command: its exit code, and what it prints and complains."""
MODEL = """\
<mujoco model="swing">
  <worldbody>
    <body name="arm">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.05"/>
      <inertial pos="0 0 -0.3" mass="0.8" diaginertia="0.012 0.012 0.0004"/>
      <site name="tip" pos="0 0 -0.6"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge"/></actuator>
</mujoco>
"""
EXPERIMENT = """\
[model]
file = "swing.xml"
[[run]]
data = "swing.csv"
observe = { "joint.hinge.angle" = { column = "theta", sd = 0.004 } }
drive = { "actuator.motor" = { column = "u" } }
[[estimate]]
parameter = "body.arm.mass"
[[estimate]]
parameter = "joint.hinge.damping"
lower = 0.0
upper = 1.0
[method]
h = 0.01
"""
TRUTH = {"body.arm.mass": 0.4, "joint.hinge.damping": 0.02}


@cache
def _recording(folder: Path) -> str:
    times = np.arange(0.0, 3.005, 0.01)
    u = 0.8 * np.sin(4.0 * times) + 0.4 * np.sin(9.0 * times)
    motion = cb.simulate(cb.load(folder / "swing.xml").replace(TRUTH), 3.0, 0.002, drive={"actuator.motor": (times, u)})
    theta = motion["joint.hinge.angle"][::5] + 0.004 * np.random.default_rng(3).normal(size=len(times))
    return str(pl.DataFrame({"t": times, "theta": theta, "u": u}).write_csv())


def write(folder: Path, text: str = EXPERIMENT) -> Path:
    """All files in a folder; gives the experiment file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "swing.xml").write_text(MODEL)
    (folder / "swing.csv").write_text(_recording(folder))
    path = folder / "swing.toml"
    path.write_text(text)
    return path
