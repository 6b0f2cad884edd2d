"""The race and the real recordings, from experiment files alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import calibody as cb
from calibody import cli

FURUTA = """\
<mujoco model="qube">
  <compiler inertiafromgeom="false"/>
  <worldbody>
    <body name="arm">
      <joint name="shaft" type="hinge" axis="0 0 1" damping="0.0002" stiffness="0.0005"/>
      <inertial pos="0.0425 0 0" mass="0.095" diaginertia="0.0001 0.0001 0.0001"/>
      <body name="pendulum" pos="0.085 0 0">
        <joint name="hinge" type="hinge" axis="1 0 0" damping="0.00002"/>
        <inertial pos="0 0 -0.0645" mass="0.024" diaginertia="0.00004 0.00004 0.000001"/>
      </body>
    </body>
  </worldbody>
  <actuator><general name="motor" joint="shaft" gainprm="0.005" biastype="affine" biasprm="0 0 -0.00021"/></actuator>
</mujoco>
"""
FURUTA_EXPERIMENT = """\
[model]
file = "qube.xml"
[[run]]
data = "{data}"
time = "t"
end = 3.0
[run.observe]
"joint.shaft.angle" = {{ column = "theta", sd = 0.002 }}
"joint.hinge.angle" = {{ column = "alpha", sd = 0.002 }}
[run.drive]
"actuator.motor" = {{ column = "voltage" }}
[[estimate]]
parameter = "body.arm.inertia.zz"
[[estimate]]
parameter = "body.pendulum.inertia.xx"
[[estimate]]
parameter = "joint.shaft.damping"
[[estimate]]
parameter = "joint.hinge.damping"
[[estimate]]
parameter = "joint.shaft.stiffness"
[[estimate]]
parameter = "joint.hinge.angle.bias"
[method]
h = 0.004
process_noise = "auto"
"""
PENDULUM = """\
<mujoco model="single">
  <worldbody>
    <body name="arm">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.001"/>
      <inertial pos="0 0 -0.1" mass="0.1" diaginertia="0.0005 0.0005 0.0001"/>
    </body>
  </worldbody>
</mujoco>
"""
PENDULUM_EXPERIMENT = """\
[model]
file = "single.xml"
[[run]]
data = "{data}"
time = "{time}"
observe = {{ "joint.hinge.angle" = {{ column = "{column}", offset = -3.141592653589793 }} }}
[[estimate]]
parameter = "body.arm.inertia.yy"
lower = 0.0
[[estimate]]
parameter = "joint.hinge.damping"
[[estimate]]
parameter = "joint.hinge.friction"
[[estimate]]
parameter = "joint.hinge.angle.bias"
"""
PATHS = {"mass": "body.link{}.mass", "inertia": "body.link{}.inertia.yy", "damping": "joint.hinge{}.damping", "friction": "joint.hinge{}.friction"}


def fitted(file: Path) -> cb.Saved:
    with pytest.raises(SystemExit) as caught:
        cli.main(["fit", str(file), "--quiet"])
    assert not caught.value.code
    return cb.open(file.with_name(f"{file.stem}-fit"))


@pytest.mark.parametrize(
    "name", ["tumbling_single", "gentle_single", *(pytest.param(f"{how}_double", marks=pytest.mark.slow) for how in ("tumbling", "gentle"))]
)
def test_the_race(shared: Path, tmp_path: Path, name: str) -> None:
    race, count = shared / "race", 2 if "double" in name else 1
    model = name.replace("gentle", "tumbling")  # the same mechanism
    observe = "\n".join(f'"joint.hinge{i}.angle" = {{ column = "angle{i}", sd = 0.01 }}' for i in range(1, count + 1))
    drive = "\n".join(f'"actuator.motor{i}" = {{ column = "torque{i}", file = "{race / name}_drive.csv" }}' for i in range(1, count + 1))
    unknown = "\n".join(f'[[estimate]]\nparameter = "{p.format(i)}"' for i in range(1, count + 1) for p in PATHS.values())
    file = tmp_path / "race.toml"
    file.write_text(f'[model]\nfile = "{race / model}.xml"\n[[run]]\ndata = "{race / name}.csv"\n[run.observe]\n{observe}\n[run.drive]\n{drive}\n{unknown}\n')
    saved, truth = fitted(file), json.loads((race / f"{model}_truth.json").read_text())
    for i in range(1, count + 1):
        for key, path in PATHS.items():
            e = saved.parameters[path.format(i)]
            assert e.sd is not None and abs(e.value - truth[f"{key}{i}"]) < 3.5 * e.sd, path
    # the file's guesses of the inertias that do not matter in the plane are not possible beside the estimates
    assert (saved.folder / f"{model}.xml").is_file() or any("not physically possible together" in note for note in saved.notes)


def test_a_real_furuta_pendulum(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "qube.xml").write_text(FURUTA)
    file = tmp_path / "qube.toml"
    file.write_text(FURUTA_EXPERIMENT.format(data=shared / "data" / "furuta_qube" / "r05.csv"))
    saved = fitted(file)
    e = saved.parameters["body.pendulum.inertia.xx"]
    reduced = (e.value + 0.024 * 0.0645**2) / (0.024 * 0.0645)
    assert reduced == pytest.approx(0.0810, abs=0.001)  # J/(m l) about the pivot, found by others


def test_a_real_pendulum(shared: Path, tmp_path: Path) -> None:
    data = next(iter(sorted((shared / "data" / "multiarm_pendulum").glob("single_id*.csv"))))
    header = data.read_text().splitlines()[0].split(",")
    (tmp_path / "single.xml").write_text(PENDULUM)
    file = tmp_path / "single.toml"
    file.write_text(PENDULUM_EXPERIMENT.format(data=data, time=header[0], column=header[1]))
    saved = fitted(file)
    e = saved.parameters["body.arm.inertia.yy"]
    assert (e.value + 0.1 * 0.1**2) / (0.1 * 0.1) == pytest.approx(0.1531, rel=0.01)
