"""A driven pendulum that hits a stop: inertia, dry friction, and where the stop is and how it throws back, from impacts that are found in the recording. All from twice the truth, restitution from half."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calibody.demos.base import Example, Simulated, sines

MODEL = """\
<mujoco model="stop">
  <compiler angle="radian"/>
  <worldbody>
    <body name="arm">
      <joint name="hinge" type="hinge" axis="0 1 0" frictionloss="0.04" limited="true" range="-3 0.4"/>
      <inertial pos="0 0 -0.2" mass="0.5" diaginertia="0.0075 0.01 0.0075"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.012" contype="0" conaffinity="0"/>
      <site name="tip" pos="0 0 -0.4"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge"/></actuator>
</mujoco>
"""
EXPERIMENT = """\
# A pendulum with a motor that hits a stop: where is the stop, and how much speed does it give back?
# calibody check stop.toml     says whether all is in order
# calibody fit stop.toml       fits, and writes a folder with the calibrated model and report.html

[model]
file = "stop.xml"                            # carries guesses, twice the truth
contacts = true                              # joint limits (and contacts) of the file act

[[run]]
data = "stop.csv"
time = "t"
[run.observe]
"joint.hinge.angle" = { column = "theta", sd = 0.001 }
[run.drive]
"actuator.motor" = { column = "torque", hold = "zero" }

[[estimate]]
parameter = "body.arm.inertia.yy"

[[estimate]]
parameter = "joint.hinge.friction"

[[estimate]]
parameter = "limit.hinge.upper.position"     # where the hinge ends

[[estimate]]
parameter = "limit.hinge.upper.restitution"  # which MJCF has no number for
initial = 0.3
"""


def _drive(times: np.ndarray) -> Mapping[str, np.ndarray]:
    return {"actuator.motor": 0.19 + sines(times, (0.51, 2.48, 0.0), (0.26, 0.75, 1.0))}


EXAMPLE = Example(
    name="stop",
    model=MODEL,
    experiment=EXPERIMENT,
    truth={"body.arm.inertia.yy": 0.005, "joint.hinge.friction": 0.02, "limit.hinge.upper.position": 0.2, "limit.hinge.upper.restitution": 0.6},
    contacts=True,
    recorded=Simulated(
        duration=6.0,
        rate=250.0,
        steps=10,
        initial={"joint.hinge.angle": -0.3},
        observed={"joint.hinge.angle": ("theta", 0.001)},
        driven={"actuator.motor": "torque"},
        drive=_drive,
    ),
)
