"""A rotary (Furuta) pendulum on a stand that is not level, with 13 unknowns: the motor's gain, six inertias, four frictions and the tilt.

Not all of them show. The arm turns about the vertical only, so two of its inertias never matter; and the inertias about the vertical of arm and
pendulum (lengthwise and across) appear in two combinations only. The fit says so, and gives error bars to the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calibody.demos.base import Example, Simulated, sines

MODEL = """\
<mujoco model="furuta">
  <compiler inertiafromgeom="false"/>
  <worldbody>
    <geom type="cylinder" size="0.035 0.06" pos="0 0 -0.07" rgba="0.4 0.4 0.45 1" contype="0" conaffinity="0"/>
    <body name="arm">
      <joint name="shaft" type="hinge" axis="0 0 1" damping="0.0006" frictionloss="0.0005"/>
      <inertial pos="0.07 0 0" mass="0.25" diaginertia="0.0004 0.0009 0.0009"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.008" contype="0" conaffinity="0"/>
      <body name="pendulum" pos="0.2 0 0">
        <joint name="hinge" type="hinge" axis="1 0 0" damping="0.0002" frictionloss="0.0001"/>
        <inertial pos="0 0 -0.15" mass="0.12" diaginertia="0.0016 0.0016 0.0001"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.006" contype="0" conaffinity="0"/>
        <site name="tip" pos="0 0 -0.3"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="shaft" gear="0.05"/></actuator>
</mujoco>
"""
EXPERIMENT = """\
# A Furuta pendulum on a tilted stand: 13 unknowns, of which some cannot be determined.
# calibody check furuta.toml       says which, before anything is fitted
# calibody fit furuta.toml         fits, and writes a folder with the calibrated model and report.html

[model]
file = "furuta.xml"                          # carries guesses

[[run]]
data = "furuta.csv"
time = "t"
[run.observe]
"joint.shaft.angle" = { column = "theta", sd = 0.005 }
"joint.hinge.angle" = { column = "alpha", sd = 0.005 }
[run.drive]
"actuator.motor" = { column = "u", hold = "zero" }

[[estimate]]
parameter = "actuator.motor.gain"            # torque per unit of control

[[estimate]]
parameter = "body.arm.inertia.xx"            # the arm never turns about x and y: these two cannot show
lower = 0.0
scale = 0.001
[[estimate]]
parameter = "body.arm.inertia.yy"
lower = 0.0
scale = 0.001
[[estimate]]
parameter = "body.arm.inertia.zz"
lower = 0.0
scale = 0.001
[[estimate]]
parameter = "body.pendulum.inertia.xx"
lower = 0.0
scale = 0.001
[[estimate]]
parameter = "body.pendulum.inertia.yy"
lower = 0.0
scale = 0.001
[[estimate]]
parameter = "body.pendulum.inertia.zz"
lower = 0.0
scale = 0.001

[[estimate]]
parameter = "joint.shaft.damping"
[[estimate]]
parameter = "joint.shaft.friction"
[[estimate]]
parameter = "joint.hinge.damping"
[[estimate]]
parameter = "joint.hinge.friction"

[[estimate]]
parameter = "world.gravity.tilt.x"           # of the stand [rad]
scale = 0.05
[[estimate]]
parameter = "world.gravity.tilt.y"
scale = 0.05
"""
TRUTH = {
    "actuator.motor.gain": 1.3,
    "body.arm.inertia.xx": 0.0003,
    "body.arm.inertia.yy": 0.0012,
    "body.arm.inertia.zz": 0.0013,
    "body.pendulum.inertia.xx": 0.0009,
    "body.pendulum.inertia.yy": 0.0009,
    "body.pendulum.inertia.zz": 0.00003,
    "joint.shaft.damping": 0.0012,
    "joint.shaft.friction": 0.001,
    "joint.hinge.damping": 0.0001,
    "joint.hinge.friction": 0.0002,
    "world.gravity.tilt.x": 0.03,
    "world.gravity.tilt.y": -0.02,
}


def _drive(times: np.ndarray) -> Mapping[str, np.ndarray]:
    grown = np.clip(times / 0.5, 0.0, 1.0)
    return {"actuator.motor": grown * sines(times, (1.0, 0.45, 0.0), (0.8, 0.8, 1.0), (0.5, 2.1, 2.0))}


EXAMPLE = Example(
    name="furuta",
    model=MODEL,
    experiment=EXPERIMENT,
    truth=TRUTH,
    recorded=Simulated(
        duration=8.0,
        rate=100.0,
        steps=20,
        initial={"joint.shaft.angle": 0.3, "joint.hinge.angle": 0.8},
        observed={"joint.shaft.angle": ("theta", 0.005), "joint.hinge.angle": ("alpha", 0.005)},
        driven={"actuator.motor": "u"},
        drive=_drive,
    ),
)
