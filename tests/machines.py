"""Real machines: their models, what is unknown of them, and their recordings (`../shared/data/README.md`), for tests and for `benchmarks/machines.py`."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np

import calibody as cb

Unknowns = dict[str, cb.Unknown]


def scaled(unknowns: Unknowns, factor: float) -> Unknowns:
    """The same with every first value that many times as large."""
    return {name: replace(u, initial=None if u.initial is None else factor * u.initial) for name, u in unknowns.items()}


# -- Quanser cart with pole ----------------------------------------------------------------------------------------------------------------

POLE, HALF = 0.127, 0.16825
"""Datasheet: mass of the pole and distance of its centre from the pivot; they fix the scale of all forces."""
CART = 0.38 + 3.71**2 * 3.9e-7 / 6.35e-3**2
GAIN = 3.71 * 7.67e-3 / (2.6 * 6.35e-3)
DRAG = (3.71 * 7.67e-3 / 6.35e-3) ** 2 / 2.6
"""Datasheet: mass of the cart with the rotor's inertia behind gear and pinion [kg], force per volt [N/V], force per speed of the motor [N s/m]."""
ROD = POLE * (2 * HALF) ** 2 / 12
REDUCED = 0.2195
"""J/(m l) of the pole about its pivot [m], from least squares by others; so is the moving mass of the cart, 1.25 to 1.38 kg."""
CARTPOLE: Unknowns = {
    "body.cart.mass": cb.Unknown(CART, lower=0.0),
    "body.pole.inertia.yy": cb.Unknown(ROD, lower=0.0),
    "joint.rail.damping": cb.Unknown(DRAG, lower=0.0),
    "joint.rail.friction": cb.Unknown(0.1, lower=0.0),
    "joint.pivot.damping": cb.Unknown(1e-4, lower=0.0),
    "joint.pivot.friction": cb.Unknown(1e-4, lower=0.0),
    "actuator.motor.gain": cb.Unknown(GAIN, lower=0.0),
    "actuator.motor.delay": cb.Unknown(0.004),
    "joint.pivot.angle.bias": cb.Unknown(0.0, scale=0.01),
}


def cartpole() -> cb.Model:
    """The pole hangs down; its angle turns the tip towards +x."""
    return cb.Model(
        "cartpole",
        bodies=[
            cb.Body("cart", mass=CART, inertia=(1e-2, 1e-2, 1e-2)),
            cb.Body("pole", parent="cart", mass=POLE, com=(0, 0, -HALF), inertia=(1.0, ROD, 1.0)),
        ],
        joints=[
            cb.Joint("rail", "cart", kind="slide", axis=(1, 0, 0), damping=DRAG, friction=0.1),
            cb.Joint("pivot", "pole", axis=(0, -1, 0), damping=1e-4, friction=1e-4),
        ],
        actuators=[cb.Actuator("motor", "rail", gain=GAIN)],
    )


def cart_run(shared: Path, name: str) -> cb.Recording:
    """Counts of 22.75 um and 1.534 mrad: their rounding is the stated noise."""
    t, x, angle, volts = np.genfromtxt(shared / f"data/cartpole_quanser/{name}.csv", delimiter=",", skip_header=1).T
    known = np.isfinite(volts)
    observed = (
        cb.Observation("joint.rail.position", t, x, 2.275e-5 / np.sqrt(12)),
        cb.Observation("joint.pivot.angle", t, np.unwrap(angle), 1.534e-3 / np.sqrt(12)),
    )
    return cb.Recording(name, observed, (cb.Drive("actuator.motor", cb.Signal(t[known], volts[known])),))


def reduced(values: dict[str, float]) -> float:
    """J/(m l) of the pole about its pivot [m]."""
    return (values["body.pole.inertia.yy"] + POLE * HALF**2) / (POLE * HALF)


# -- DFKI double pendulum ------------------------------------------------------------------------------------------------------------------

AUTHORS = {"J1": 0.0569, "J2": 0.0509, "coupling": 0.0320, "gravity1": 0.230, "gravity2": 0.160}
"""The authors' fit: m1 r1^2 + I1 + m2 l1^2, I2 about its pivot, m2 l1 r2 [kg m^2], m1 r1 + m2 l1, m2 r2 [kg m]. There is no independent truth."""
UPPER, LOWER = 0.6, 0.6
"""Masses that are held: the data know five combinations only."""
DOUBLE_DRIVE: Unknowns = {
    "length": cb.Unknown(0.25, lower=0.0, places={"body.lower.position.z": "-length"}),
    "upper": cb.Unknown(0.1, places={"body.upper.com.z": "-upper"}),
    "lower": cb.Unknown(0.2, places={"body.lower.com.z": "-lower"}),
    "body.upper.inertia.yy": cb.Unknown(0.02, lower=0.0),
    "body.lower.inertia.yy": cb.Unknown(0.02, lower=0.0),
    "joint.shoulder.damping": cb.Unknown(0.01, lower=0.0),
    "joint.elbow.damping": cb.Unknown(0.01, lower=0.0),
    "joint.shoulder.friction": cb.Unknown(0.1, lower=0.0),
    "joint.elbow.friction": cb.Unknown(0.1, lower=0.0),
}


def double_drive() -> cb.Model:
    bodies = [
        cb.Body("upper", mass=UPPER, com=(0, 0, -0.1), inertia=(1.0, 0.02, 1.0)),
        cb.Body("lower", parent="upper", position=(0, 0, -0.25), mass=LOWER, com=(0, 0, -0.2), inertia=(1.0, 0.02, 1.0)),
    ]
    joints = [cb.Joint(name, body, axis=(0, 1, 0), damping=0.01, friction=0.1) for name, body in (("shoulder", "upper"), ("elbow", "lower"))]
    return cb.Model("dfki", bodies=bodies, joints=joints, actuators=[cb.Actuator(name, name) for name in ("shoulder", "elbow")])


def drive_run(shared: Path, name: str, sd: float | None = 1.1e-4) -> cb.Recording:
    """Measured torques as drives; the encoders' counts as noise."""
    t, one, two, *_, torque1, torque2 = np.genfromtxt(shared / f"data/dfki_double_pendulum/{name}.csv", delimiter=",", skip_header=1).T
    observed = (cb.Observation("joint.shoulder.angle", t, one, sd), cb.Observation("joint.elbow.angle", t, two, sd))
    return cb.Recording(name, observed, (cb.Drive("actuator.shoulder", cb.Signal(t, torque1)), cb.Drive("actuator.elbow", cb.Signal(t, torque2))))


def five(values: dict[str, float]) -> dict[str, float]:
    """What the data know, in the authors' terms."""
    l1, r1, r2 = values["length"], values["upper"], values["lower"]
    return {
        "J1": UPPER * r1**2 + values["body.upper.inertia.yy"] + LOWER * l1**2,
        "J2": LOWER * r2**2 + values["body.lower.inertia.yy"],
        "coupling": LOWER * l1 * r2,
        "gravity1": UPPER * r1 + LOWER * l1,
        "gravity2": LOWER * r2,
    }


# -- pendulums that swing freely -----------------------------------------------------------------------------------------------------------

PIVOTS = (0.17272, 0.2286)
"""Distances between the pivots of the triple pendulum [m], measured; the first is that of the double one too."""
NAMES = ("one", "two", "three")


def arms(count: int) -> cb.Model:
    """Free swings know ratios only: masses and the last centre of mass are fixed, the rest is relative to them."""
    coms, masses, inertias = {1: (0.1,), 2: (0.1, 0.16), 3: (0.1, 0.1, 0.16)}[count], (0.2, 0.05, 0.05), (1e-3, 5e-4, 5e-4)
    if count == 3:
        masses, inertias = (0.2, 0.15, 0.05), (1e-3, 1e-3, 5e-4)
    bodies = [
        cb.Body(
            "abc"[k], parent="abc"[k - 1] if k else "world", position=(0, 0, 0.15 if k else 0), mass=masses[k], com=(0, 0, coms[k]), inertia=(inertias[k],) * 3
        )
        for k in range(count)
    ]
    joints = [cb.Joint(NAMES[k], "abc"[k], axis=(0, 1, 0), damping=1e-4) for k in range(count)]
    return cb.Model("arms", bodies=bodies, joints=joints, world=cb.World(gravity=(0, 0, -9.808)))


def arms_unknown(count: int, biases: bool = False) -> Unknowns:
    model, out = arms(count), {}
    for k in range(count):
        body, joint = model.bodies[k], f"joint.{NAMES[k]}"
        out |= {f"{joint}.position.z": cb.Unknown(0.15)} if k else {}
        out |= {f"body.{body.name}.com.z": cb.Unknown(body.com[2])} if k < count - 1 else {}
        out |= {f"body.{body.name}.inertia.yy": cb.Unknown(body.inertia[1])}
        out |= {f"{joint}.damping": cb.Unknown(1e-4, lower=0.0), f"{joint}.friction": cb.Unknown(1e-4)}
        out |= {f"{joint}.angle.bias": cb.Unknown(0.0, scale=1e-3)} if biases else {}
    return out


def swing(shared: Path, name: str, sd: float | None = None) -> cb.Recording:
    """Every fifth sample (200 Hz); the file has absolute angles, zero upright, and nobody says how noisy they are."""
    t, *angles = np.loadtxt(shared / f"data/multiarm_pendulum/{name}.csv", delimiter=",", skiprows=1)[::5].T
    relative = [angles[0], *(b - a for a, b in itertools.pairwise(angles))]
    return cb.Recording(name, tuple(cb.Observation(f"joint.{NAMES[k]}.angle", t, y, sd) for k, y in enumerate(relative)))


# -- Quanser's QUBE: a Furuta pendulum --------------------------------------------------------------------------------------------------------

MASS, ROD_LENGTH, ARM, RADIUS = 0.024, 0.129, 0.095, 0.085
"""Datasheet: mass and length of the pendulum, mass and length of the arm."""


def furuta() -> cb.Model:
    """Motor from the datasheet: km/Rm = 0.042/8.4, km^2/Rm."""
    bodies = [
        cb.Body("arm", mass=ARM, inertia=(1e-4, 1e-4, 5.7e-5)),
        cb.Body("pendulum", parent="arm", position=(RADIUS, 0, 0), mass=MASS, com=(0, 0, -ROD_LENGTH / 2), inertia=(3.3e-5, 3.3e-5, 1e-7)),
    ]
    joints = [cb.Joint("arm", "arm", axis=(0, 0, 1), damping=1e-5, stiffness=5e-4), cb.Joint("pendulum", "pendulum", axis=(1, 0, 0), damping=1e-6)]
    return cb.Model("furuta", bodies=bodies, joints=joints, actuators=[cb.Actuator("motor", "arm", gain=0.005, damping=2.1e-4)])


def qube(shared: Path, name: str) -> cb.Recording:
    """Encoders of 2048 counts: sd of rounding to 3.07 mrad."""
    t, arm, pendulum, volts = np.genfromtxt(shared / f"data/furuta_qube/{name}.csv", delimiter=",", skip_header=1).T
    known = np.isfinite(volts)
    observed = (cb.Observation("joint.arm.angle", t, arm, 8.9e-4), cb.Observation("joint.pendulum.angle", t, pendulum, 8.9e-4))
    return cb.Recording(name, observed, (cb.Drive("actuator.motor", cb.Signal(t[known], volts[known])),))


FURUTA: Unknowns = {
    "body.arm.inertia.zz": cb.Unknown(1e-4, lower=0.0),
    "radius": cb.Unknown(0.07, places={"body.pendulum.position.x": "radius"}),
    "length": cb.Unknown(0.06, places={"body.pendulum.com.z": "-length"}),
    "inertia": cb.Unknown(3.3e-5, lower=0.0, places={"body.pendulum.inertia.xx": "inertia", "body.pendulum.inertia.yy": "inertia"}),
    "joint.arm.damping": cb.Unknown(1e-5, lower=0.0),
    "joint.arm.friction": cb.Unknown(1e-4),
    "joint.pendulum.damping": cb.Unknown(1e-6, lower=0.0),
    "joint.pendulum.friction": cb.Unknown(1e-5),
    "joint.arm.stiffness": cb.Unknown(5e-4, lower=0.0),
    "joint.arm.springref": cb.Unknown(0.0, scale=0.1),
    "actuator.motor.delay": cb.Unknown(0.004),
}


def furuta_reduced(values: dict[str, float]) -> float:
    """J/(m l) of the pendulum about its pivot [m]; 0.0810 by others."""
    return (values["inertia"] + MASS * values["length"] ** 2) / (MASS * values["length"])
