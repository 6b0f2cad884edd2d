"""Machines in another engine, each with one thing that the fitted model does not know: what does a new user get, from the first command on?

MuJoCo makes the recordings, with small steps; a table as a controller would log it is written as CSV, the model's file gets guesses that are off by factors, and `calibody new` (or an experiment file
that names the unknowns), `check` and `fit` do the rest. For every trial: the largest error of an estimate in its error bars and in their scatter alone, the verdict, the first suspect, the exit code and CPU seconds.

    python benchmarks/trials.py [--machines arm crane ...] [--cases nothing friction ...] [--way new file] [--seconds 4]

The truth is the file without the guesses: where a payload or a longer link moves mass about, z counts from the machine without it. Every trial is kept in build/trials.jsonl as soon as it is done (`kept.py`), its files in build/trials/.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shutil
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np
import polars as pl
from kept import rows

import calibody as cb
from calibody import cli

FOLDER, FILE = Path("build/trials"), Path("build/trials.jsonl")
STEP = 2.5e-4
"""s: of the engine."""
KNEE = 0.01
"""rad/s, m/s: rate from which dry friction acts in full."""


@dataclass(frozen=True)
class Case:
    """What the recording has and the model does not. Numbers of torque are shares of the rms of the drive of the first driven joint."""

    dry: float = 0.0
    stribeck: float = 0.0
    frictionloss: float = 0.0
    lag: float = 0.0
    late: float = 0.0
    """s: the torque's."""
    counts: int = 0
    offset: float = 0.0
    longer: float = 0.0
    """Share of the distance to the second link by which it is longer."""
    payload: float = 0.0
    """Share of the last link's mass, at a point beside its centre."""
    tilt: float = 0.0
    backlash: float = 0.0
    flexible: float = 0.0
    """rad or m: deflection of a spring behind the motor under the rms of the drive."""
    spring: float = 0.0
    """Share of the rms of the drive that a spring pulls at the rms of the first joint."""
    saturation: float = 0.0
    """Times the rms of the drive at which the motor ends."""
    clock: float = 0.0
    missing: float = 0.0
    jitter: float = 0.0
    """Share of the sampling period by which time stamps scatter."""
    outliers: float = 0.0
    weaker: float = 0.0
    """Share of the torque that does not arrive."""
    ripple: float = 0.0
    quadratic: float = 0.0
    torque_noise: float = 0.0
    slow: int = 1
    """The log has every so many samples of the last channel only."""
    rates: bool = False
    """Noisy rates beside the angles."""
    rates_only: bool = False
    held: str = "zero"


CASES = {
    "nothing": Case(),
    "dry friction": Case(dry=0.1),
    "frictionloss": Case(frictionloss=0.1),
    "Stribeck": Case(dry=0.05, stribeck=0.1),
    "motor lag 10 ms": Case(lag=0.01),
    "torque late by half a sample": Case(late=0.005),
    "1024 counts": Case(counts=1024),
    "offset 20 mrad": Case(offset=0.02),
    "link 3 % longer": Case(longer=0.03),
    "payload 10 %": Case(payload=0.1),
    "tilt 2 degrees": Case(tilt=np.deg2rad(2.0)),
    "backlash 10 mrad": Case(backlash=0.01),
    "flexible joint": Case(flexible=0.01),
    "cable spring": Case(spring=0.1),
    "saturating motor": Case(saturation=1.2),
    "clock 0.5 % off": Case(clock=0.005),
    "5 % missing": Case(missing=0.05),
    "jitter": Case(jitter=0.2),
    "outliers": Case(outliers=0.01),
    "torque 10 % weaker": Case(weaker=0.1),
    "torque ripple": Case(ripple=0.05),
    "air drag": Case(quadratic=0.15),
    "torque measured with noise": Case(torque_noise=0.05),
    "two rates": Case(slow=5),
    "rates beside angles": Case(rates=True),
    "rates only": Case(rates_only=True),
}


@dataclass(frozen=True)
class Machine:
    xml: str
    """The model's text, MJCF or URDF."""
    drives: dict[str, float]
    """Joints with drives, and their strength."""
    seen: dict[str, float]
    """Channels and their noise."""
    guesses: dict[str, float]
    """Paths of what is unknown, and how many times off they are first."""
    start: dict[str, float] = field(default_factory=dict)
    loop: float = 0.0
    """rad, m: sway of a motion that is followed in closed loop; 0: driven openly."""
    period: float = 0.01
    frequency: float = 0.6
    link: str = ""
    """The body whose place is wrong where a link is longer; that of a payload is the last body."""


def mjcf(name: str, body: str, more: str = "", option: str = "") -> str:
    return f'<mujoco model="{name}"><compiler angle="radian" autolimits="false"/><option {option}/><worldbody>{body}</worldbody>{more}</mujoco>'


def motors(*joints: str) -> str:
    return "<actuator>" + "".join(f'<motor name="m_{j}" joint="{j}"/>' for j in joints) + "</actuator>"


SCARA = mjcf(
    "scara",
    """
<body name="inner" pos="0 0 0.4"><joint name="q1" axis="0 0 1" damping="0.8" armature="0.05"/><inertial pos="0.15 0 0" mass="4" diaginertia="0.01 0.05 0.05"/>
 <body name="outer" pos="0.3 0 0"><joint name="q2" axis="0 0 1" damping="0.4" armature="0.02"/><inertial pos="0.12 0 0" mass="2.5" diaginertia="0.006 0.03 0.03"/>
  <body name="quill" pos="0.25 0 0"><joint name="q3" type="slide" axis="0 0 -1" damping="8"/><inertial pos="0 0 -0.1" mass="1.2" diaginertia="0.004 0.004 0.001"/></body></body></body>""",
)
CRANE = mjcf(
    "crane",
    """
<body name="trolley" pos="0 0 2"><joint name="x" type="slide" axis="1 0 0" damping="6"/><inertial pos="0 0 0" mass="5" diaginertia="0.1 0.1 0.1"/>
 <body name="load"><joint name="sway" axis="0 -1 0" damping="0.02"/><inertial pos="0 0 -1.1" mass="3" diaginertia="0.02 0.02 0.02"/></body></body>""",
    motors("x"),
)
ELBOW = mjcf(
    "elbow",
    """
<body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping="0.5" armature="0.05"/><inertial pos="0 0 -0.15" mass="2" diaginertia="0.02 0.02 0.005"/>
 <body name="forearm" pos="0 0 -0.3"><joint name="elbow" axis="0 1 0" damping="0.2" armature="0.02"/><inertial pos="0 0 -0.12" mass="1.2" diaginertia="0.01 0.01 0.01"/></body></body>""",
    motors("shoulder", "elbow"),
)
GIMBAL = mjcf(
    "gimbal",
    """
<body name="yaw"><joint name="yaw" axis="0 0 1" damping="0.03"/><inertial pos="0.02 0 0.01" mass="0.5" diaginertia="0.002 0.002 0.003"/>
 <body name="roll"><joint name="roll" axis="1 0 0" damping="0.02"/><inertial pos="0 0.02 0.01" mass="0.4" diaginertia="0.0015 0.001 0.0015"/>
  <body name="pitch"><joint name="pitch" axis="0 1 0" damping="0.02"/><inertial pos="0.01 0 0.02" mass="0.6" diaginertia="0.001 0.0015 0.001"/><site name="imu" pos="0.05 0.02 0.03"/></body></body></body>""",
)
BALL = mjcf(
    "ball",
    """
<body name="bob" pos="0 0 1"><joint name="socket" type="ball" damping="0.01"/><inertial pos="0.01 0 -0.25" mass="0.8" diaginertia="0.008 0.008 0.006"/>
 <site name="a" pos="0.03 0 -0.35"/><site name="b" pos="-0.03 0.04 -0.2"/></body>""",
)
CART = mjcf(
    "cart",
    """
<body name="cart"><joint name="rail" type="slide" axis="1 0 0" damping="1.5" stiffness="60"/><inertial pos="0 0 0" mass="1.5" diaginertia="0.01 0.01 0.01"/></body>""",
    motors("rail"),
)
POLE = mjcf(
    "cartpole",
    """
<body name="cart"><joint name="slider" type="slide" axis="1 0 0" damping="3"/><inertial pos="0 0 0" mass="1" diaginertia="0.01 0.01 0.01"/>
 <body name="pole"><joint name="hinge" axis="0 1 0" damping="0.005"/><inertial pos="0 0 -0.3" mass="0.3" diaginertia="0.009 0.009 0.009"/></body></body>""",
    motors("slider"),
)
ACROBOT = mjcf(
    "acrobot",
    """
<body name="upper_arm" pos="0 0 2"><joint name="shoulder" axis="0 1 0" damping="0.05"/><inertial pos="0 0 -0.5" mass="1" diaginertia="0.083 0.083 0.002"/>
 <body name="lower_arm" pos="0 0 -1"><joint name="elbow" axis="0 1 0" damping="0.05"/><inertial pos="0 0 -0.5" mass="1" diaginertia="0.083 0.083 0.083"/></body></body>""",
    motors("elbow"),
)
LEG = mjcf(
    "leg",
    """
<body name="hip"><joint name="HAA" axis="1 0 0" damping="0.03"/><inertial pos="0 0.02 0" mass="0.15" diaginertia="1e-4 1e-4 1e-4"/>
 <body name="thigh" pos="0 0.04 0"><joint name="HFE" axis="0 1 0" damping="0.02"/><inertial pos="0 0.01 -0.08" mass="0.2" diaginertia="6e-4 6e-4 1e-4"/>
  <body name="shank" pos="0 0.02 -0.16"><joint name="KFE" axis="0 1 0" damping="0.02"/><inertial pos="0 0 -0.07" mass="0.08" diaginertia="2e-4 2e-4 2e-5"/></body></body></body>""",
)
FIVEBAR = mjcf(
    "fivebar",
    """
<body name="left" pos="-0.1 0 0"><joint name="q1" axis="0 1 0" damping="0.05"/><inertial pos="0 0 0.1" mass="0.4" diaginertia="0.002 0.002 0.0002"/>
 <body name="left_rod" pos="0 0 0.2"><joint name="p1" axis="0 1 0" damping="0.003"/><inertial pos="0 0 0.15" mass="0.2" diaginertia="0.002 0.002 0.0001"/></body></body>
<body name="right" pos="0.1 0 0"><joint name="q2" axis="0 1 0" damping="0.05"/><inertial pos="0 0 0.1" mass="0.4" diaginertia="0.002 0.002 0.0002"/>
 <body name="right_rod" pos="0 0 0.2"><joint name="p2" axis="0 1 0" damping="0.003"/><inertial pos="0 0 0.15" mass="0.2" diaginertia="0.002 0.002 0.0001"/></body></body>""",
    '<equality><connect name="pin" body1="left_rod" body2="right_rod" anchor="0 0 0.3" solref="0.001 1" solimp="0.999 0.9999 0.0001"/></equality>'
    + motors("q1", "q2"),
    'gravity="0 0 -9.81"',
)
GANTRY = mjcf(
    "gantry",
    """
<body name="bridge" pos="0 0 2"><joint name="x" type="slide" axis="1 0 0" damping="12"/><inertial pos="0 0 0" mass="8" diaginertia="0.3 0.2 0.4"/>
 <body name="trolley"><joint name="y" type="slide" axis="0 1 0" damping="5"/><inertial pos="0 0 0" mass="3" diaginertia="0.02 0.02 0.02"/>
  <body name="cross"><joint name="about_x" axis="1 0 0" damping="0.02"/><inertial pos="0 0 0" mass="0.1" diaginertia="1e-4 1e-4 1e-4"/>
   <body name="load"><joint name="about_y" axis="0 1 0" damping="0.02"/><inertial pos="0 0 -0.8" mass="2" diaginertia="0.01 0.01 0.01"/></body></body></body></body>""",
    motors("x", "y"),
)
HOIST = mjcf(
    "hoist",
    """
<body name="boom" pos="0 0 3"><joint name="sway" axis="0 1 0" damping="0.05"/><inertial pos="0 0 -0.05" mass="0.3" diaginertia="0.001 0.001 0.001"/>
 <body name="hook" pos="0 0 -1"><joint name="rope" type="slide" axis="0 0 -1" damping="4" armature="1.5"/><inertial pos="0 0 -0.1" mass="4" diaginertia="0.02 0.02 0.02"/></body></body>""",
    motors("rope"),
)
BIPED = mjcf(
    "biped",
    """
<body name="thigh" pos="0 0 1"><joint name="hip" axis="0 1 0" damping="0.8" armature="0.1"/><inertial pos="0.02 0 -0.18" mass="6" diaginertia="0.09 0.09 0.01"/>
 <body name="shank" pos="0 0 -0.4"><joint name="knee" axis="0 1 0" damping="0.5" armature="0.06"/><inertial pos="0.01 0 -0.17" mass="3" diaginertia="0.04 0.04 0.004"/>
  <body name="foot" pos="0 0 -0.4"><joint name="ankle" axis="0 1 0" damping="0.3" armature="0.03"/><inertial pos="0.06 0 -0.04" mass="1" diaginertia="0.001 0.005 0.005"/></body></body></body>""",
    motors("hip", "knee", "ankle"),
)
REACTION = mjcf(
    "reaction",
    """
<body name="stick" pos="0 0 1"><joint name="pivot" axis="0 1 0" damping="0.004"/><inertial pos="0 0 -0.12" mass="0.25" diaginertia="0.0015 0.0015 0.0001"/>
 <body name="wheel" pos="0 0 -0.25"><joint name="spin" axis="0 1 0" damping="0.0005"/><inertial pos="0 0 0" mass="0.15" diaginertia="0.0002 0.0004 0.0002"/></body></body>""",
    motors("spin"),
)
FURUTA = mjcf(
    "furuta",
    """
<body name="arm" pos="0 0 0.3"><joint name="turn" axis="0 0 1" damping="0.002" armature="0.0005"/><inertial pos="0.08 0 0" mass="0.1" diaginertia="2e-5 1e-4 1e-4"/>
 <body name="rod" pos="0.16 0 0"><joint name="swing" axis="1 0 0" damping="0.0002"/><inertial pos="0.01 0 -0.1" mass="0.05" diaginertia="1.5e-4 1.5e-4 2e-6"/></body></body>""",
    motors("turn"),
)
FOURBAR = mjcf(
    "fourbar",
    """
<body name="crank"><joint name="motor" axis="0 1 0" damping="0.05" armature="0.02"/><inertial pos="0 0 0.05" mass="0.3" diaginertia="0.0005 0.0005 0.0001"/>
 <body name="coupler" pos="0 0 0.1"><joint name="pin" axis="0 1 0" damping="0.005"/><inertial pos="0 0 0.15" mass="0.4" diaginertia="0.004 0.004 0.0001"/></body></body>
<body name="rocker" pos="0.3 0 0"><joint name="rock" axis="0 1 0" damping="0.01"/><inertial pos="0 0 0.1" mass="0.5" diaginertia="0.003 0.003 0.0001"/></body>""",
    '<equality><connect name="close" body1="coupler" body2="rocker" anchor="0 0 0.3" solref="0.001 1" solimp="0.999 0.9999 0.0001"/></equality>'
    + motors("motor"),
    'gravity="0 0 -9.81"',
)
BELT = mjcf(
    "belt",
    """
<body name="inner" pos="0 0 0.4"><joint name="q1" axis="0 0 1" damping="0.8" armature="0.1"/><inertial pos="0.15 0 0" mass="4" diaginertia="0.01 0.05 0.05"/>
 <body name="outer" pos="0.3 0 0"><joint name="q2" axis="0 0 1" damping="0.4" armature="0.05"/><inertial pos="0.12 0 0" mass="2.5" diaginertia="0.006 0.03 0.03"/></body></body>""",
    motors("q2", "q1"),
)
WHEELED = mjcf(
    "wheeled",
    """
<body name="wheels" pos="0 0 0.1"><joint name="roll" type="slide" axis="1 0 0" damping="1.5" armature="0.4"/><inertial pos="0 0 0" mass="1.2" diaginertia="0.006 0.006 0.006"/>
 <body name="tower"><joint name="pitch" axis="0 1 0" damping="0.05"/><inertial pos="0.005 0 0.25" mass="3" diaginertia="0.08 0.08 0.08"/></body></body>""",
    motors("roll", "pitch"),
)


def seven() -> str:
    """An arm of seven joints about alternating axes, with rotors, lighter towards the hand."""
    text, end = "", ""
    for k in range(7):
        m, away = 4.0 * 0.75**k, 0.2 if k % 2 else 0.14
        place = f'pos="0 0 {0.3 if k == 0 else 0.14 if k % 2 else 0.2:g}"'
        text += f"""<body name="link{k + 1}" {place}><joint name="j{k + 1}" axis="{"0 1 0" if k % 2 else "0 0 1"}" damping="{1.5 * 0.8**k:.4g}" armature="{0.15 * 0.75**k:.4g}"/>
<inertial pos="{0.01 * (k % 3):g} {0.015 if k % 2 else -0.01:g} {0.5 * away:g}" mass="{m:.4g}" diaginertia="{0.006 * m:.4g} {0.006 * m:.4g} {0.002 * m:.4g}"/>"""
        end += "</body>"
    return mjcf("seven", text + end, motors(*(f"j{k + 1}" for k in range(7))))


MACHINES = {
    "cart": Machine(CART, {"rail": 8.0}, {"joint.rail.position": 5e-4}, {"body.cart.mass": 2.0, "joint.rail.damping": 0.4, "joint.rail.stiffness": 1.8}, {"rail": 0.05}, frequency=1.0),
    "crane": Machine(CRANE, {"x": 15.0}, {"joint.x.position": 1e-3, "joint.sway.angle": 2e-3}, {"body.trolley.mass": 0.4, "body.load.mass": 2.0, "joint.x.damping": 2.5, "joint.sway.damping": 3.0}, {"sway": 0.3}, frequency=0.3),
    "cartpole": Machine(POLE, {"slider": 8.0}, {"joint.slider.position": 5e-4, "joint.hinge.angle": 2e-3}, {"body.cart.mass": 2.0, "body.pole.mass": 2.0, "joint.slider.damping": 0.4, "joint.hinge.damping": 3.0, "body.pole.inertia.yy": 1.9}, {"hinge": 1.0}, frequency=0.8),
    "acrobot": Machine(ACROBOT, {"elbow": 4.0}, {"joint.shoulder.angle": 2e-3, "joint.elbow.angle": 2e-3}, {"body.upper_arm.mass": 0.5, "body.lower_arm.mass": 2.0, "joint.shoulder.damping": 3.0, "joint.elbow.damping": 0.4, "body.lower_arm.inertia.yy": 1.9}, {"shoulder": 1.0, "elbow": 0.5}, frequency=0.5),
    "elbow": Machine(ELBOW, {"shoulder": 1.0, "elbow": 1.0}, {"joint.shoulder.angle": 1e-3, "joint.elbow.angle": 1e-3}, {"body.upper.mass": 0.5, "body.forearm.mass": 2.0, "joint.shoulder.damping": 3.0, "joint.elbow.damping": 0.4, "body.forearm.inertia.yy": 1.9, "joint.shoulder.armature": 2.0}, loop=0.8, link="forearm"),
    "scara": Machine(SCARA, {"q1": 1.0, "q2": 1.0, "q3": 0.1}, {"joint.q1.angle": 3e-4, "joint.q2.angle": 3e-4, "joint.q3.position": 1e-4}, {"body.outer.mass": 2.0, "body.quill.mass": 0.4, "joint.q1.damping": 3.0, "joint.q2.damping": 0.4, "joint.q3.damping": 2.0}, loop=0.6, link="quill"),
    "leg": Machine(LEG, {"HAA": 1.0, "HFE": 1.0, "KFE": 1.0}, {"joint.HAA.angle": 5e-4, "joint.HFE.angle": 5e-4, "joint.KFE.angle": 5e-4}, {"body.thigh.mass": 2.0, "body.shank.mass": 0.4, "joint.HAA.damping": 3.0, "joint.HFE.damping": 0.4, "joint.KFE.damping": 3.0}, loop=0.6, link="shank"),
    "gimbal": Machine(GIMBAL, {"yaw": 1.0, "roll": 1.0, "pitch": 1.0}, {"joint.yaw.angle": 1e-3, "joint.roll.angle": 1e-3, "joint.pitch.angle": 1e-3, "site.imu.angular_rate": 0.01, "site.imu.acceleration": 0.05}, {"body.pitch.mass": 2.0, "body.roll.mass": 0.5, "joint.yaw.damping": 3.0, "joint.roll.damping": 0.4, "joint.pitch.damping": 2.0}, loop=0.7, period=0.005),
    "ball": Machine(BALL, {}, {"site.a.position": 1e-3, "site.b.position": 1e-3}, {"body.bob.inertia.xx": 1.3, "body.bob.inertia.yy": 0.8, "joint.socket.damping": 3.0, "body.bob.com.z": 0.6}, {"socket": 1.0}),
    "fivebar": Machine(FIVEBAR, {"q1": 1.0, "q2": 1.0}, {"joint.q1.angle": 5e-4, "joint.q2.angle": 5e-4}, {"body.left.mass": 2.0, "body.right_rod.mass": 0.4, "joint.q1.damping": 3.0, "joint.q2.damping": 0.4}, {"q1": -0.3, "p1": 0.65, "q2": 0.3, "p2": -0.65}, loop=0.3, frequency=0.8),
    "gantry": Machine(GANTRY, {"x": 20.0, "y": 8.0}, {"joint.x.position": 1e-3, "joint.y.position": 1e-3, "joint.about_x.angle": 2e-3, "joint.about_y.angle": 2e-3}, {"body.bridge.mass": 0.4, "body.load.mass": 2.5, "joint.x.damping": 2.5, "joint.y.damping": 0.4, "joint.about_x.damping": 3.0}, {"about_y": 0.2}, frequency=0.35),
    "hoist": Machine(HOIST, {"rope": 0.5}, {"joint.sway.angle": 2e-3, "joint.rope.position": 1e-3}, {"body.hook.mass": 2.0, "joint.rope.damping": 3.0, "joint.sway.damping": 0.4, "joint.rope.armature": 2.0}, {"sway": 0.4}, loop=0.5, frequency=0.4, link="hook"),
    "biped": Machine(BIPED, {"hip": 1.0, "knee": 1.0, "ankle": 0.6}, {"joint.hip.angle": 5e-4, "joint.knee.angle": 5e-4, "joint.ankle.angle": 5e-4}, {"body.thigh.mass": 0.5, "body.shank.mass": 2.0, "body.foot.mass": 0.5, "joint.hip.damping": 3.0, "joint.knee.damping": 0.4, "joint.ankle.damping": 2.5}, loop=0.6, link="shank"),
    "reaction": Machine(REACTION, {"spin": 0.15}, {"joint.pivot.angle": 1e-3, "joint.spin.angle": 5e-3}, {"body.stick.mass": 2.0, "body.wheel.inertia.yy": 0.45, "joint.pivot.damping": 3.0, "joint.spin.damping": 0.4}, {"pivot": 0.5}, frequency=0.8),
    "furuta": Machine(FURUTA, {"turn": 0.03}, {"joint.turn.angle": 3e-3, "joint.swing.angle": 3e-3}, {"body.rod.mass": 2.0, "joint.turn.armature": 0.4, "joint.turn.damping": 3.0, "joint.swing.damping": 0.4}, {"swing": 0.6}, frequency=1.0),
    "fourbar": Machine(FOURBAR, {"motor": 1.0}, {"joint.motor.angle": 5e-4}, {"body.rocker.mass": 2.0, "joint.motor.damping": 0.4, "joint.motor.armature": 2.0}, {"motor": 0.4, "pin": 0.9, "rock": -0.2}, loop=0.8, frequency=0.8),
    "belt": Machine(BELT, {"q2": 1.0, "q1": 1.0}, {"joint.q1.angle": 3e-4, "joint.q2.angle": 3e-4}, {"body.outer.mass": 2.0, "joint.q1.armature": 3.0, "joint.q1.damping": 3.0, "joint.q2.damping": 0.4}, loop=0.7, link="outer"),
    "wheeled": Machine(WHEELED, {"roll": 0.5, "pitch": 0.6}, {"joint.roll.position": 1e-3, "joint.pitch.angle": 1e-3}, {"body.tower.mass": 0.4, "body.tower.inertia.yy": 1.8, "joint.roll.damping": 3.0, "joint.pitch.damping": 0.4, "joint.roll.armature": 2.0}, loop=0.6, frequency=0.5),
    "seven": Machine(seven(), {f"j{k + 1}": 1.0 for k in range(7)}, {f"joint.j{k + 1}.angle": 3e-4 for k in range(7)}, {"body.link4.mass": 2.0, "body.link7.mass": 0.5} | {f"joint.j{k + 1}.damping": (3.0, 0.4)[k % 2] for k in range(7)}, loop=0.6, frequency=0.4),
}  # fmt: skip


ROBOTS = Path(mujoco.__file__).parents[1] / "cmeel.prefix/share/example-robot-data/robots"


def robot(file: str, damping: dict[str, float], guesses: dict[str, float], sway: float = 0.5) -> Machine:
    """A URDF of example-robot-data with viscous friction, all of whose joints follow a motion."""
    text = re.sub(r"<(visual|collision|gazebo|dynamics)\b(?:[^>]*/>|.*?</\1>)", "", (ROBOTS / file).read_text(), flags=re.DOTALL)
    for joint, value in damping.items():
        text = re.sub(rf'(<joint[^>]*name="{joint}"[^>]*>)', rf'\1<dynamics damping="{value}" friction="0"/>', text)
    seen = {f"joint.{j}.angle": 3e-4 for j in damping}
    return Machine(text, dict.fromkeys(damping, 1.0), seen, guesses, loop=sway, period=0.008, frequency=0.4)


if ROBOTS.is_dir():
    kinova = {f"j2s6s200_joint_{k}": 0.5 for k in range(1, 7)}
    so = dict.fromkeys(("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"), 0.05)
    MACHINES |= {
        "kinova": robot("kinova_description/robots/kinova.urdf", kinova, {"body.j2s6s200_link_2.mass": 2.0, "body.j2s6s200_link_3.mass": 0.5} | {f"joint.{j}.damping": f for j, f in zip(kinova, (3.0, 0.4, 2.0, 0.5, 3.0, 0.4), strict=True)}),
        "so100": robot("so_arm_description/urdf/so100.urdf", so, {"body.upper_arm.mass": 2.0, "body.lower_arm.mass": 0.5} | {f"joint.{j}.damping": f for j, f in zip(so, (3.0, 0.4, 2.0, 0.5, 3.0, 0.4), strict=True)}),
        "twodof": robot("asr_twodof_description/urdf/TwoDofs.urdf", {"J1": 0.1, "J2": 0.05}, {"joint.J1.damping": 3.0, "joint.J2.damping": 0.4}),
    }  # fmt: skip


# -- recordings ------------------------------------------------------------------------------------------------------------------------------


def engine(machine: Machine, case: Case) -> mujoco.MjModel:
    spec = mujoco.MjSpec.from_string(machine.xml)
    spec.compiler.fusestatic = False
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    bodies = [b for b in spec.bodies if b.name != "world"]
    if case.longer:
        link = spec.body(machine.link or bodies[-1].name)
        link.pos = (1.0 + case.longer) * np.array(link.pos)
    if case.payload:
        last = bodies[-1]
        last.add_body(name="payload", mass=case.payload * last.mass, ipos=list(1.6 * np.array(last.ipos)), inertia=[1e-6] * 3, explicitinertial=True)
    for n, channel in enumerate(machine.seen):
        kind, name, what = channel.split(".")
        if kind == "site":
            of = {
                "position": mujoco.mjtSensor.mjSENS_FRAMEPOS,
                "angular_rate": mujoco.mjtSensor.mjSENS_GYRO,
                "acceleration": mujoco.mjtSensor.mjSENS_ACCELEROMETER,
            }[what]
            spec.add_sensor(name=f"s{n}", type=of, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=name)
    model = spec.compile()
    model.opt.timestep, model.opt.integrator = STEP, mujoco.mjtIntegrator.mjINT_RK4
    if model.neq or case.frictionloss:
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    if case.tilt:
        g = np.linalg.norm(model.opt.gravity)
        model.opt.gravity[:] = -g * np.array([np.sin(case.tilt), 0.0, np.cos(case.tilt)])
    return model


def dof(model: mujoco.MjModel, joint: str) -> int:
    return int(model.joint(joint).dofadr[0])


def signal(machine: Machine, run: int, seconds: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of sines for every drive, at the samples: value, slope."""
    chance = np.random.default_rng([7, run])
    t = np.arange(round(seconds / machine.period) + 1) * machine.period
    n = max(1, len(machine.drives))
    w = 2 * np.pi * machine.frequency * np.array([0.5, 1.1, 1.9, 3.1]) * chance.uniform(0.8, 1.2, (n, 4))
    size, phase = np.array([0.5, 0.35, 0.2, 0.1]) * chance.uniform(0.7, 1.2, (n, 4)), chance.uniform(0.0, 6.28, (n, 4))
    value = (size[:, :, None] * np.sin(w[:, :, None] * t + phase[:, :, None])).sum(1)
    slope = (size[:, :, None] * w[:, :, None] * np.cos(w[:, :, None] * t + phase[:, :, None])).sum(1)
    return t, value, slope


def recorded(machine: Machine, case: Case, seconds: float, run: int = 0) -> dict[str, np.ndarray]:
    """Channels at the sampling instants, without noise; "torque.J" is what the controller asked for."""
    model = engine(machine, case)
    data = mujoco.MjData(model)
    for joint, value in machine.start.items():
        at = int(model.joint(joint).qposadr[0])
        if model.joint(joint).type[0] == mujoco.mjtJoint.mjJNT_BALL:
            data.qpos[at : at + 4] = [np.cos(value / 2), np.sin(value / 2) * 0.8, np.sin(value / 2) * 0.6, 0.0]
            data.qvel[dof(model, joint) + np.arange(3)] = [0.5, -1.5, 3.0]
        else:
            data.qpos[at] = value
    t, wanted, slope = signal(machine, run, seconds)
    driven = [dof(model, j) for j in machine.drives]
    strength = np.array(list(machine.drives.values()))
    inertia = np.zeros((model.nv, model.nv))
    first = driven[0] if driven else 0
    scale = 1.0 if machine.loop else strength[0] * 0.5 if driven else 1.0
    rest = data.qpos[driven].copy() if driven and not _is_ball(model) else 0.0
    if machine.loop:
        data.qpos[driven] = rest + machine.loop * strength * wanted[:, 0]
        data.qvel[driven] = machine.loop * strength * slope[:, 0]
        scale = 1.0 if model.neq else _typical(model, machine, wanted, slope)
    sway = 0.4 * (machine.loop * strength[0] if machine.loop else 1.0)
    if model.neq:
        _close(model, data, [dof(model, j) for j in machine.drives])
    if case.frictionloss:
        model.dof_frictionloss[first] = case.frictionloss * scale
    mujoco.mj_forward(model, data)
    mujoco.mj_fullM(model, data, inertia)
    knee = max(KNEE, 4.0 * STEP * scale * (case.dry + case.stribeck) / inertia[first, first])  # explicit friction that is steeper than that is unstable
    lagged, motor = None, np.array([data.qpos[first], data.qvel[first]])
    rotor = float(model.dof_armature[first]) if case.flexible or case.backlash else 0.0
    if rotor:  # it is on the motor's side
        model.dof_armature[first] = 0.0
    stiff = scale / case.flexible if case.flexible else 50.0 * scale / case.backlash if case.backlash else 0.0
    out: dict[str, list] = {}
    sub = round(machine.period / STEP)
    previous = np.zeros(len(driven))
    for k in range(len(t)):
        if machine.loop:
            mujoco.mj_forward(model, data)
            mujoco.mj_fullM(model, data, inertia)
            error = rest + machine.loop * strength * wanted[:, k] - data.qpos[driven], machine.loop * strength * slope[:, k] - data.qvel[driven]
            command = (
                np.diag(inertia)[driven] * (200.0 * error[0] + 28.0 * error[1])
                + data.qfrc_bias[driven]
                + model.dof_damping[driven] * machine.loop * strength * slope[:, k]
            )
        else:
            command = strength * wanted[:, k] if driven else np.zeros(0)
        lagged = command.copy() if lagged is None else lagged
        applied = (1.0 - case.weaker) * command
        if case.saturation and driven:
            applied = applied.copy()
            applied[0] = np.clip(applied[0], -case.saturation * scale, case.saturation * scale)
        data.qfrc_applied[:] = 0.0
        if driven:
            data.qfrc_applied[driven] = applied
        mujoco.mj_forward(model, data)
        _note(out, model, data, machine, command)
        if rotor:
            out[next(c for c in machine.seen if c.startswith(f"joint.{next(iter(machine.drives))}."))][-1] = motor[0]
        for i in range(sub):
            u = applied if i * STEP >= case.late else previous
            if case.lag:
                lagged = lagged + STEP / case.lag * (u - lagged)
                u = lagged
            force = np.zeros(model.nv)
            if driven:
                force[driven] = u
            q, v = data.qpos[first] if not _is_ball(model) else 0.0, data.qvel[first]
            if rotor:
                gap = motor[0] - q
                play = 0.5 * case.backlash
                through = stiff * np.sign(gap) * max(abs(gap) - play, 0.0) + 0.05 * np.sqrt(stiff * rotor) * (motor[1] - v) * float(abs(gap) > play)
                motor[1] += STEP / rotor * (force[first] - through)
                motor[0] += STEP * motor[1]
                force[first] = through
            force[first] -= scale * (case.dry + case.stribeck * np.exp(-((v / 0.3) ** 2))) * np.tanh(v / knee)
            force[first] -= scale * case.spring * q / sway + scale * case.quadratic * v * abs(v)
            force[first] += scale * case.ripple * np.sin(12.0 * q)
            data.qfrc_applied[:] = force
            mujoco.mj_step(model, data)
        previous = applied
    return {"time": t, **{name: np.array(x) for name, x in out.items()}}


def _is_ball(model: mujoco.MjModel) -> bool:
    return bool((model.jnt_type == mujoco.mjtJoint.mjJNT_BALL).any())


def _close(model: mujoco.MjModel, data: mujoco.MjData, held: list[int]) -> None:
    """Newton on the passive joints until the loop is closed."""
    free = [k for k in range(model.nv) if k not in held]
    for _ in range(50):
        mujoco.mj_forward(model, data)
        J = data.efc_J.reshape(-1, model.nv)[: data.ne][:, free]
        data.qpos[free] -= 0.5 * np.linalg.lstsq(J, data.efc_pos[: data.ne], rcond=1e-6)[0]


def _typical(model: mujoco.MjModel, machine: Machine, wanted: np.ndarray, slope: np.ndarray) -> float:
    """Rms of the first drive's torque that follows the motion, by inverse dynamics."""
    data, driven, out = mujoco.MjData(model), [dof(model, j) for j in machine.drives], []
    strength = np.array(list(machine.drives.values()))
    bend = np.gradient(slope, machine.period, axis=1)
    for k in range(0, wanted.shape[1], 5):
        data.qpos[driven], data.qvel[driven] = machine.loop * strength * wanted[:, k], machine.loop * strength * slope[:, k]
        data.qacc[driven] = machine.loop * strength * bend[:, k]
        mujoco.mj_inverse(model, data)
        out.append(data.qfrc_inverse[driven[0]])
    return float(np.sqrt(np.mean(np.square(out))))


def _note(out: dict[str, list], model: mujoco.MjModel, data: mujoco.MjData, machine: Machine, command: np.ndarray) -> None:
    for n, channel in enumerate(machine.seen):
        kind, name, what = channel.split(".")
        if kind == "joint":
            j = model.joint(name)
            value = data.qvel[j.dofadr[0]] if what == "rate" else data.qpos[j.qposadr[0]]
            out.setdefault(channel, []).append(float(value))
            out.setdefault(f"rate.{name}", []).append(float(data.qvel[j.dofadr[0]]))
        else:
            for axis, value in zip("xyz", data.sensor(f"s{n}").data, strict=True):
                out.setdefault(f"{channel}.{axis}", []).append(float(value))
    for joint, value in zip(machine.drives, command, strict=True):
        out.setdefault(f"torque.{joint}", []).append(float(value))


def logged(machine: Machine, case: Case, motion: dict[str, np.ndarray], seed: int) -> tuple[pl.DataFrame, dict[str, str]]:
    """The table that a user has, and which column is which channel."""
    chance = np.random.default_rng([seed, 3])
    t = motion["time"]
    columns: dict[str, np.ndarray] = {}
    where: dict[str, str] = {}
    stamps = t * (1.0 + case.clock) + case.jitter * machine.period * chance.uniform(-0.5, 0.5, len(t))
    columns["time"] = np.round(stamps, 6)
    last = list(machine.seen)[-1]
    for channel, sd in machine.seen.items():
        parts = [channel] if channel in motion else [f"{channel}.{a}" for a in "xyz"]
        for part in parts:
            name = part.split(".")[1]
            column = {"angle": f"{name}_pos", "position": f"{name}_pos"}.get(part.split(".")[2], part.removeprefix("site.").replace(".", "_"))
            if part.startswith("site.") and part.split(".")[2] == "position":
                column = part.removeprefix("site.").replace(".position.", "_")
            y = motion[part] + sd * chance.standard_normal(len(t))
            if case.counts and part.endswith((".angle", ".position")):
                unit = 2 * np.pi / case.counts if part.endswith("angle") else 1e-3
                y = np.round(motion[part] / unit) * unit
            if part == next(iter(motion)) or (part == parts[0] and channel == next(iter(machine.seen))):
                y = y + case.offset
                hit = chance.random(len(t)) < case.outliers
                y = np.where(hit, y + 50.0 * sd * chance.standard_normal(len(t)), y)
            if case.slow > 1 and channel == last:
                y = np.where(np.arange(len(t)) % case.slow == 0, y, np.nan)
            if not (case.rates_only and part.endswith((".angle", ".position"))):
                columns[column] = y
                where[part] = column
            if (case.rates or case.rates_only) and part.startswith("joint."):
                columns[f"{name}_vel"] = motion[f"rate.{name}"] + 30.0 * sd * chance.standard_normal(len(t))
                where[f"joint.{name}.rate"] = f"{name}_vel"
    for joint in machine.drives:
        tau = motion[f"torque.{joint}"]
        columns[f"{joint}_tau"] = tau + case.torque_noise * np.std(tau) * chance.standard_normal(len(t))
        where[f"force.{joint}"] = f"{joint}_tau"
    table = pl.DataFrame({k: np.round(v, 7) for k, v in columns.items()}).with_columns(pl.all().fill_nan(None))
    if case.missing:
        table = table.filter(pl.Series(chance.random(len(t)) > case.missing) | (pl.Series(np.arange(len(t))) % (len(t) - 1) == 0))
    return table, where


# -- a trial ---------------------------------------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    codes: dict[str, int | str]
    z: float | None = None
    alone: float | None = None
    level: str = ""
    headline: str = ""
    first: list[str] = field(default_factory=list)
    estimates: dict[str, list] = field(default_factory=dict)
    seconds: float = 0.0
    said: str = ""


def command(*words: str) -> tuple[int | str, str]:
    """Exit code (or the traceback's last line) and everything printed."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            cli.main(list(words))
    except SystemExit as end:
        return (end.code if isinstance(end.code, int) else 0 if end.code is None else str(end.code)), out.getvalue()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}", out.getvalue() + traceback.format_exc()
    return 0, out.getvalue()


def experiment(machine: Machine, file: str, where: dict[str, str], truth: cb.Model, noise: str, case: Case, known_sd: bool) -> str:
    actuated = {a.joint: a.name for a in truth.actuators}
    lines = ["[model]", f'file = "{file}"', "[[run]]", 'data = "log.csv"', 'time = "time"', "[run.observe]"]
    sd = {c: f", sd = {x}" if known_sd else "" for c, x in machine.seen.items()}
    for channel, column in where.items():
        if not channel.startswith("force."):
            base = channel if channel in sd else channel.rpartition(".")[0]
            lines.append(f'"{channel}" = {{ column = "{column}"{sd.get(base, "")} }}')
    if machine.drives:
        lines.append("[run.drive]")
        for joint in machine.drives:
            name = f"actuator.{actuated[joint]}" if joint in actuated else f"joint.{joint}.force"
            lines.append(f'"{name}" = {{ column = "{where[f"force.{joint}"]}", hold = "{case.held}" }}')
    for path in machine.guesses:
        lines += ["[[estimate]]", f'parameter = "{path}"']
    return "\n".join([*lines, "[method]", f'process_noise = "{noise}"', ""])


def trial(key: tuple) -> dict:
    name, case_name, way, seconds, seed, noise = key
    machine, case = MACHINES[name], CASES[case_name]
    folder = FOLDER / f"{name}-{case_name}-{way}-{noise}-{seed}".replace(" ", "_").replace("%", "pc")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = "model.xml" if "<mujoco" in machine.xml else "model.urdf"
    (folder / f"true_{file}").write_text(machine.xml)
    truth = cb.load(folder / f"true_{file}")
    truth.replace({p: f * truth[p] for p, f in machine.guesses.items()}).save(folder / file)
    table, where = logged(machine, case, recorded(machine, case, seconds), seed)
    table.write_csv(folder / "log.csv")
    began, out, said = time.process_time(), Outcome({}), []
    toml = str(folder / "log.toml")
    if way == "new":
        out.codes["new"], text = command("new", str(folder / file), str(folder / "log.csv"))
        said.append(text)
    else:
        (folder / "log.toml").write_text(experiment(machine, file, where, truth, noise, case, way == "file"))
    if (folder / "log.toml").is_file():
        out.codes["check"], text = command("check", toml)
        said.append(text)
        out.codes["fit"], text = command("fit", toml, "--no-validate")
        said.append(text)
    out.seconds = time.process_time() - began
    if (folder / "log-fit/result.json").is_file():
        _read(out, folder / "log-fit", truth)
    out.said = "\n=====\n".join(said)
    (folder / "said.txt").write_text(out.said)
    return {k: v for k, v in vars(out).items() if k != "said"}


def _read(out: Outcome, folder: Path, truth: cb.Model) -> None:
    from calibody.report.verdict import verdict

    found = cb.open(folder)
    said = verdict(found)
    out.level, out.headline = said.level, said.headline
    out.first = [found.lacks[0].path, *found.lacks[0].alike] if found.lacks else ["outliers"] if getattr(found, "outliers", None) else []
    z = []
    for path, e in found.parameters.items():
        try:
            true = truth[path]
        except Exception:
            true = 0.0 if path.endswith((".bias", ".delay")) else None
        out.estimates[path] = [e.value, e.sd, e.scatter, true]
        if e.sd and true is not None:
            z.append((abs(e.value - true) / e.sd, abs(e.value - true) / (e.scatter or e.sd)))
    if z and found.converged:
        out.z, out.alone = max(a for a, _ in z), max(b for _, b in z)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", nargs="+", default=list(MACHINES))
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--way", nargs="+", default=["file"])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--noise", default="none")
    asked = parser.parse_args()
    possible = [(m, c) for m in asked.machines for c in asked.cases if "armature" in MACHINES[m].xml or not (CASES[c].flexible or CASES[c].backlash)]
    keys = [(m, c, w, asked.seconds, asked.seed, asked.noise) for m, c in possible for w in asked.way]
    print(
        "| machine | the recording has | from | exit codes | largest z, of scatter alone | verdict | first suspects | CPU s |\n|---|---|---|---|---|---|---|---|"
    )
    for (machine, case, way, *_), o in rows(FILE, keys, trial, 1).items():
        z = "-" if o["z"] is None else f"{o['z']:.1f}, {o['alone']:.1f}"
        codes = " ".join(f"{name} {code}" for name, code in o["codes"].items())
        print(f"| {machine} | {case} | {way} | {codes} | {z} | {o['level']} | {', '.join(o['first'][:3])} | {o['seconds']:.0f} |")


if __name__ == "__main__":
    main()
