"""Prescribed motion and forces at sites in experiment files: from a table to a calibrated model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calibody as cb
from calibody.errors import CalibodyError
from calibody.experiment import load
from calibody.experiment.check import check
from calibody.experiment.session import fit_into

MODEL = """\
<mujoco model="table">
  <worldbody>
    <body name="table">
      <joint name="rail" type="slide" axis="1 0 0"/>
      <inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/>
      <body name="arm">
        <joint name="hinge" type="hinge" axis="0 1 0" damping="0.02"/>
        <inertial pos="0 0 -0.3" mass="0.4" diaginertia="0.012 0.012 0.0004"/>
        <site name="tip" pos="0 0 -0.6"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
EXPERIMENT = """\
[model]
file = "table.xml"

[[run]]
data = "log.csv"
time = "t"
observe = { "joint.hinge.angle" = { column = "theta", sd = 0.001 }, "joint.rail.force" = { column = "cell", sd = 0.01 } }

[run.drive]
"joint.rail.position" = { column = "x", unit = "mm" }
"site.tip.force" = { columns = ["fx", "fy", "fz"], hold = "linear", sd = 0.01 }

[[estimate]]
parameter = "body.arm.mass"
initial = 1.0
[[estimate]]
parameter = "body.table.mass"
initial = 1.0
"""


def write(folder: Path) -> Path:
    (folder / "table.xml").write_text(MODEL)
    t, random = np.arange(0.0, 2.0, 0.005), np.random.default_rng(4)
    x, force = 0.03 * np.sin(8.0 * t), np.stack([np.sin(3.0 * t), 0.0 * t, 0.5 * np.cos(5.0 * t)], axis=1)
    signals = {f"site.tip.force.{c}": cb.Signal(t, f, "linear") for c, f in zip("xyz", force.T, strict=True)}
    motion = cb.simulate(cb.load(folder / "table.xml"), t[-1], 0.001, drive={"joint.rail.position": (t, x), **signals})
    read = {
        name: motion[c][::5] + sd * random.normal(size=len(t)) for name, c, sd in (("theta", "joint.hinge.angle", 1e-3), ("cell", "joint.rail.force", 1e-2))
    }
    noisy = {f"f{c}": f + 0.01 * random.normal(size=len(t)) for c, f in zip("xyz", force.T, strict=True)}
    pl.DataFrame({"t": t, "x": 1e3 * x, **read, **noisy}).write_csv(folder / "log.csv")
    (folder / "experiment.toml").write_text(EXPERIMENT)
    return folder / "experiment.toml"


def test_a_shaken_table_with_a_force_at_the_tip(tmp_path: Path) -> None:
    file = write(tmp_path)
    assert check(load(file)).ok
    result = fit_into(load(file), tmp_path / "out")
    assert result.converged
    for path, true in (("body.arm.mass", 0.4), ("body.table.mass", 2.0)):
        found = result.parameters[path]
        assert found.sd is not None and abs(found.value - true) < 3.5 * found.sd
    assert cb.load(tmp_path / "out" / "table.xml")["body.table.mass"] == pytest.approx(2.0, abs=0.05)


def test_what_cannot_be_driven_is_said_with_its_line(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_text(EXPERIMENT.replace('"joint.rail.position" = { column = "x", unit = "mm" }', '"joint.rail.rate" = "x"'))
    with pytest.raises(CalibodyError, match=r"experiment.toml:10: .*joint.rail.rate.* cannot be driven; drive actuator.NAME"):
        fit_into(load(file), tmp_path / "out")
