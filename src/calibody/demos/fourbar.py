"""A four-bar linkage: a closed loop, observed at crank and rocker, driven at the crank; the report shows what its joints bear."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calibody.demos.base import Example, Simulated, sines

MODEL = """\
<mujoco model="fourbar">
  <compiler inertiafromgeom="false"/>
  <worldbody>
    <body name="crank">
      <joint name="crank" type="hinge" axis="0 1 0" damping="0.02" frictionloss="0.02"/>
      <inertial pos="0 0 -0.1" mass="0.4" diaginertia="0.003 0.003 0.001"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.012" contype="0" conaffinity="0"/>
      <body name="coupler" pos="0 0 -0.2">
        <joint name="knee" type="hinge" axis="0 1 0"/>
        <inertial pos="0.2 0 -0.05" mass="1.2" diaginertia="0.02 0.02 0.02"/>
        <geom type="capsule" fromto="0 0 0 0.4 0 -0.1" size="0.012" contype="0" conaffinity="0"/>
      </body>
    </body>
    <body name="rocker" pos="0.4 0 0">
      <joint name="rocker" type="hinge" axis="0 1 0" damping="0.02"/>
      <inertial pos="0 0 -0.15" mass="1.0" diaginertia="0.01 0.01 0.002"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.012" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <equality><connect name="pin" body1="coupler" body2="rocker" anchor="0.4 0 -0.1"/></equality>
  <actuator><motor name="motor" joint="crank"/></actuator>
</mujoco>
"""
EXPERIMENT = """\
# A four-bar linkage: crank, coupler and rocker, closed by the pin between coupler and rocker.
# calibody fit fourbar.toml        fits, and writes a folder with the calibrated model and report.html

[model]
file = "fourbar.xml"                         # carries guesses

[[run]]
data = "fourbar.csv"
time = "t"
[run.observe]
"joint.crank.angle" = { column = "crank", sd = 0.002 }
"joint.rocker.angle" = { column = "rocker", sd = 0.002 }
[run.drive]
"actuator.motor" = { column = "torque", hold = "zero" }

[[estimate]]
parameter = "body.coupler.mass"
[[estimate]]
parameter = "body.rocker.mass"
[[estimate]]
parameter = "joint.crank.damping"
[[estimate]]
parameter = "joint.crank.friction"
[[estimate]]
parameter = "joint.rocker.damping"
"""


def _drive(times: np.ndarray) -> Mapping[str, np.ndarray]:
    return {"actuator.motor": sines(times, (0.7, 0.4, 0.4), (0.6, 1.0, 1.0), (0.4, 2.1, 2.0))}


EXAMPLE = Example(
    name="fourbar",
    model=MODEL,
    experiment=EXPERIMENT,
    truth={"body.coupler.mass": 0.8, "body.rocker.mass": 0.6, "joint.crank.damping": 0.05, "joint.crank.friction": 0.05, "joint.rocker.damping": 0.04},
    recorded=Simulated(
        duration=6.0,
        rate=100.0,
        steps=10,
        initial={},
        observed={"joint.crank.angle": ("crank", 0.002), "joint.rocker.angle": ("rocker", 0.002)},
        driven={"actuator.motor": "torque"},
        drive=_drive,
    ),
)
