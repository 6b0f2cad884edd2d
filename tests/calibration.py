"""Kinematic calibration of the seven-joint arm of pybullet_data: true numbers near those of its file, and noisy poses of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

import calibody as cb

JOINTS = tuple(f"lbr_iiwa_joint_{i}" for i in range(1, 8))
ANGLE, POSITION, TURN = 1e-4, 2e-4, 3e-4
"""Noise: encoders [rad], a tracker of the tool [m, rad]."""
ACROSS = ("xy", *["xz"] * 6)
"""Components of each joint's position in its parent's frame that are across its axis: those along it move nothing but the next frame."""


def arm(file: Path) -> cb.Model:
    """With a tool."""
    return dataclasses.replace(cb.load(file), sites=(cb.Site("tool", body="lbr_iiwa_link_7", position=(0.02, 0.01, 0.12)),))


def identifiable() -> dict[str, float]:
    """The 34 numbers of a seven-joint arm that poses of its tool determine, as in the convention of Denavit and Hartenberg (zero offset, twist and two lengths of every joint, base and tool), with the sizes of their errors."""
    out = {f"joint.{joint}.position.{c}": 2e-3 for joint, across in zip(JOINTS, ACROSS, strict=True) for c in across}
    out |= {f"joint.{JOINTS[0]}.axis.{c}": 5e-3 for c in "xy"} | {f"joint.{joint}.axis.y": 5e-3 for joint in JOINTS[1:]}
    out |= {f"joint.{joint}.reference": 1e-2 for joint in JOINTS[:-1]}
    return out | {f"site.tool.position.{c}": 3e-3 for c in "xyz"} | {f"site.tool.orientation.{c}": 1e-2 for c in "xyz"}


def truth(model: cb.Model, seed: int) -> cb.Model:
    random = np.random.default_rng([seed, 1])
    return model.replace({path: float(model[path]) + size * random.standard_normal() for path, size in identifiable().items()})


def poses(model: cb.Model, seed: int, count: int = 60, wide: float = 1.8) -> dict[str, np.ndarray]:
    """Columns of a table: joint angles q1 ... q7, the tool's place x, y, z and quaternion, all with noise. Kinematics by products of the model's own transforms, in this file."""
    random = np.random.default_rng([seed, 2])
    q = random.uniform(-wide, wide, (count, 7))
    places, turns = zip(*(tool(model, row) for row in q), strict=True)
    measured = [_quaternion(R @ _rotation(TURN * random.standard_normal(3))) for R in turns]
    columns = {f"q{i + 1}": q[:, i] + ANGLE * random.standard_normal(count) for i in range(7)}
    columns |= {c: np.array(places)[:, i] + POSITION * random.standard_normal(count) for i, c in enumerate("xyz")}
    return columns | {f"q{c}": np.array(measured)[:, i] for i, c in enumerate("wxyz")}


OBSERVED = {
    **{f"joint.{joint}.angle": {"column": f"q{i + 1}", "sd": ANGLE} for i, joint in enumerate(JOINTS)},
    "site.tool.position": {"columns": ["x", "y", "z"], "sd": POSITION},
    "site.tool.orientation": {"columns": ["qw", "qx", "qy", "qz"], "sd": TURN},
}


def recording(model: cb.Model, seed: int, count: int = 60) -> cb.Recording:
    return cb.read(poses(model, seed, count), time=None, observe=OBSERVED, name="poses")


def tool(model: cb.Model, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Place and axes of the tool in the world."""
    R, p = np.eye(3), np.zeros(3)
    angle = dict(zip(JOINTS, q, strict=True))
    for body in model.ordered_bodies:
        p, R = p + R @ np.array(body.position), R @ _matrix(body.orientation)
        for joint in model.joints_of(body.name):
            axis, anchor = np.array(joint.axis) / np.linalg.norm(joint.axis), np.array(joint.anchor)
            turn = _rotation((angle[joint.name] - joint.reference) * axis)
            p, R = p + R @ (anchor - turn @ anchor), R @ turn
    site = model.tables["site"]["tool"]
    return p + R @ np.array(site.position), R @ _matrix(site.orientation)


def _matrix(quaternion: tuple[float, ...]) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(np.roll(quaternion, -1)).as_matrix()


def _rotation(vector: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_rotvec(vector).as_matrix()


def _quaternion(R: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return np.roll(Rotation.from_matrix(R).as_quat(), 1)
