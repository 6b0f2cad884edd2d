"""A flexible loop that stands clamped on a table is gripped at its top by the left arm of a Baxter robot, which bends and twists it. Both stiffnesses of the loop, against bending in its plane and
out of it, are found from the angles and torques of the arm alone; nothing looks at the loop. It is the experiment that T. M. Caldwell, D. Coleman and N. Correll set out to do.

    python examples/gripped_loop.py

The arm is that of the robot's URDF (the package example-robot-data); the loop is a hexagon of six stiff links with springs between them. The recording is simulated: servos follow
multi-sines, angles and torques are read at 100 Hz with noise.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np

import calibody as cb
from calibody.spatial import algebra as al

SIDE, MASS, DAMPING = 0.355, 0.2, 0.1
"""Of a link of the loop: length [m], mass [kg]; damping of its joints [N m s/rad]."""
TRUTH = {"bend": 20.0, "twist": 20.0}
"""Stiffness of the loop's joints in its plane and out of it [N m/rad]."""
ARM = ("left_s0", "left_s1", "left_e0", "left_e1", "left_w0", "left_w1", "left_w2")
HAND = "left_gripper"
REST = (0.3, -0.4, -0.3, 1.3, 0.2, 0.6, 0.1)
"""Angles of the arm at the start [rad]."""
SWAY = (0.05, 0.06, 0.075, 0.06, 0.125, 0.1, 0.15)
PACE = (0.7, 0.5, 0.9, 0.6, 1.1, 0.8, 0.5)
"""How far [rad] and how often [Hz] each joint goes to and fro."""
SERVO = ((400.0, 20.0),) * 4 + ((200.0, 8.0),) * 3
"""Stiffness and damping of each servo."""
ANGLE_SD, TORQUE_SD = 2e-4, 0.05
"""Noise of the angles [rad] and torques [N m]."""
PERIOD = 0.01


def arm_of(robot: cb.Model) -> cb.Model:
    """The bodies from the world to the hand, and their joints."""
    names, body = [], HAND
    while body != "world":
        names.append(body)
        body = robot.body(body).parent
    joints = [j for j in robot.joints if j.body in names]
    return cb.Model("arm", bodies=[b for b in robot.bodies if b.name in names], joints=joints)


def gripped(arm: cb.Model, bend: float, twist: float, servos: bool = False) -> cb.Model:
    """The arm with the loop in its hand: where the hand is at `REST`, the loop is flat and at rest."""
    at = cb.simulate(arm, 0.001, 0.001, initial=start())[f"body.{HAND}.pose"][0]
    R = np.array(al.quaternion_matrix(tuple(at[3:])))
    top, upside_down = np.array([0.0, SIDE, np.sqrt(3.0) * SIDE]), np.array(al.axis_angle((1.0, 0.0, 0.0), np.pi))
    held = tuple(float(x) for x in al.matrix_quaternion(R.T @ upside_down))
    bodies, joints = loop(bend, twist, tuple(at[:3] - top))
    loops = [cb.Loop("clamp", "weld", "end", "table"), cb.Loop("grip", "weld", "link4", HAND, orientation2=held)]
    laws = [{"gain": k, "stiffness": k, "damping": d} if servos else {} for k, d in SERVO]
    motors = [cb.Actuator(f"motor_{joint}", joint, **law) for joint, law in zip(ARM, laws, strict=True)]
    return dataclasses.replace(arm, name="gripped loop", bodies=(*arm.bodies, *bodies), joints=(*arm.joints, *joints), loops=loops, actuators=motors)


def loop(bend: float, twist: float, place: tuple[float, ...]) -> tuple[list[cb.Body], list[cb.Joint]]:
    """Six links in a ring, from the table to `end`, which the clamp holds on the table again."""
    turn = (np.cos(np.pi / 6), np.sin(np.pi / 6), 0.0, 0.0)  # 60 degrees about x
    shape = {"mass": MASS, "com": (0, SIDE / 2, 0), "inertia": (MASS * SIDE**2 / 12, 1e-5, MASS * SIDE**2 / 12)}
    bodies = [cb.Body("table", position=place), cb.Body("link1", "table", **shape)]
    bodies += [cb.Body(f"link{i}", f"link{i - 1}", position=(0, SIDE, 0), orientation=turn, **shape) for i in range(2, 7)]
    bodies.append(cb.Body("end", "link6", 0.01, inertia=(1e-5,) * 3, position=(0, SIDE, 0), orientation=turn))
    joints = []
    for i, body in enumerate([*(b.name for b in bodies[2:7]), "end"], 1):
        joints += [cb.Joint(f"theta{i}", body, axis=(1, 0, 0), stiffness=bend, damping=DAMPING), cb.Joint(f"psi{i}", body, stiffness=twist, damping=DAMPING)]
    return bodies, [*joints, cb.Joint("theta7", "end", axis=(1, 0, 0), stiffness=bend, damping=DAMPING)]


def start() -> dict[str, float]:
    return {f"joint.{joint}.angle": angle for joint, angle in zip(ARM, REST, strict=True)}


def recorded(arm: cb.Model, duration: float = 1.0, seed: int = 1) -> cb.Recording:
    """Angles and torques of the arm, with noise."""

    def wanted(k: int):
        return lambda t: REST[k] + SWAY[k] * np.sin(2.0 * np.pi * PACE[k] * t) * min(1.0, 2.0 * t)

    drive = {f"actuator.motor_{joint}": wanted(k) for k, joint in enumerate(ARM)}
    motion = cb.simulate(gripped(arm, **TRUTH, servos=True), duration, PERIOD / 4, initial=start(), drive=drive)
    random, t = np.random.default_rng(seed), motion.time[::4]
    angles = {joint: motion[f"joint.{joint}.angle"][::4] + ANGLE_SD * random.normal(size=len(t)) for joint in ARM}
    torques = {joint: motion[f"joint.{joint}.force"][::4] + TORQUE_SD * random.normal(size=len(t)) for joint in ARM}
    observed = [cb.Observation(f"joint.{joint}.angle", t, angle, sd=ANGLE_SD) for joint, angle in angles.items()]
    driven = [cb.Drive(f"actuator.motor_{joint}", cb.Signal(t, torque, "linear"), sd=TORQUE_SD) for joint, torque in torques.items()]
    return cb.Recording("grip", observed, driven)


def unknowns(bend: float, twist: float) -> dict[str, cb.Unknown]:
    return {
        "bend": cb.Unknown(bend, lower=0.0, places={f"joint.theta{i}.stiffness": "bend" for i in range(1, 8)}),
        "twist": cb.Unknown(twist, lower=0.0, places={f"joint.psi{i}.stiffness": "twist" for i in range(1, 7)}),
    }


def fitted(robot: Path, bend: float = 10.0, twist: float = 25.0) -> cb.Result:
    arm = arm_of(cb.load(robot))
    return cb.fit(gripped(arm, bend, twist), recorded(arm), unknowns(bend, twist), h=PERIOD)


if __name__ == "__main__":
    from importlib.metadata import files

    found = [str(f.locate()) for f in files("example-robot-data") or () if f.name == "baxter.urdf"]
    if not found:
        sys.exit("The robot is in the package example-robot-data, which is not installed.")
    print(fitted(Path(found[0])))
