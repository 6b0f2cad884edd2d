"""One hinge with a motor: the shortest complete example. Mass, inertia, damping and dry friction, all from twice the truth."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calibody.demos.base import Example, Simulated, sines

MODEL = """\
<mujoco model="pendulum">
  <worldbody>
    <body name="arm">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.04" frictionloss="0.02"/>
      <inertial pos="0 0 -0.3" mass="0.8" diaginertia="0.024 0.024 0.02"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.6" size="0.015" contype="0" conaffinity="0"/>
      <site name="tip" pos="0 0 -0.6"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge"/></actuator>
</mujoco>
"""
EXPERIMENT = """\
# A pendulum with a motor: what are its mass, inertia and friction?
# calibody check pendulum.toml     says whether all is in order
# calibody fit pendulum.toml       fits, and writes a folder with the calibrated model and report.html

[model]
file = "pendulum.xml"                        # carries guesses, twice the truth

[[run]]
data = "pendulum.csv"
time = "t"
[run.observe]
"joint.hinge.angle" = { column = "theta", sd = 0.005 }
[run.drive]
"actuator.motor" = { column = "torque", hold = "zero" }

[[estimate]]
parameter = "body.arm.mass"

[[estimate]]
parameter = "body.arm.inertia.yy"

[[estimate]]
parameter = "joint.hinge.damping"

[[estimate]]
parameter = "joint.hinge.friction"
"""


def _drive(times: np.ndarray) -> Mapping[str, np.ndarray]:
    return {"actuator.motor": sines(times, (0.9, 0.6, 0.0), (0.5, 1.3, 1.0), (0.3, 2.4, 2.0))}


EXAMPLE = Example(
    name="pendulum",
    model=MODEL,
    experiment=EXPERIMENT,
    truth={"body.arm.mass": 0.4, "body.arm.inertia.yy": 0.012, "joint.hinge.damping": 0.02, "joint.hinge.friction": 0.01},
    recorded=Simulated(
        duration=6.0,
        rate=100.0,
        steps=10,
        initial={"joint.hinge.angle": 0.5},
        observed={"joint.hinge.angle": ("theta", 0.005)},
        driven={"actuator.motor": "torque"},
        drive=_drive,
    ),
)
