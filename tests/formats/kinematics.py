"""Body poses from a `Model`, composed by hand: the reader is judged by MuJoCo's kinematics, not by calibody's own."""

from __future__ import annotations

import numpy as np

from calibody.model import Joint, Model
from calibody.spatial import algebra as al

SIZES = {"hinge": 1, "slide": 1, "ball": 4, "free": 7}


def ordered_joints(model: Model) -> list[Joint]:
    return [joint for body in model.ordered_bodies for joint in model.joints_of(body.name)]


def reference_coordinates(model: Model) -> np.ndarray:
    q: list[float] = []
    for joint in ordered_joints(model):
        q += [joint.reference] if SIZES[joint.kind] == 1 else [1, 0, 0, 0] if joint.kind == "ball" else [*joint.spring_position, *joint.spring_orientation]
    return np.array(q, dtype=float)


def poses(model: Model, q: np.ndarray) -> dict[str, np.ndarray]:
    """Body name -> 3x4 pose at the coordinates `q` (MuJoCo's layout)."""
    H = {"world": np.eye(3, 4)}
    at = 0
    for body in model.ordered_bodies:
        here = al.compose(_rows(H[body.parent]), _pose(body.position, body.orientation))
        for joint in model.joints_of(body.name):
            here = al.compose(here, _motion(joint, q[at : at + SIZES[joint.kind]]))
            at += SIZES[joint.kind]
        H[body.name] = np.array(here)
    return H


def _rows(H: np.ndarray) -> al.Pose:
    return tuple(tuple(float(x) for x in row) for row in H)


def _pose(position, orientation) -> al.Pose:
    return al.pose(al.quaternion_matrix(al.quaternion_normalised(tuple(float(x) for x in orientation))), tuple(float(x) for x in position))


def _motion(joint: Joint, s: np.ndarray) -> al.Pose:
    """The motion of one joint in body axes: about its anchor, by the displacement from its reference."""
    if joint.kind == "free":
        return _pose(s[:3], s[3:])
    axis = tuple(x / np.linalg.norm(joint.axis) for x in joint.axis)
    if joint.kind == "slide":
        return al.pose(al.quaternion_matrix((1.0, 0.0, 0.0, 0.0)), al.scale(float(s[0]) - joint.reference, axis))
    R = al.axis_angle(axis, float(s[0]) - joint.reference) if joint.kind == "hinge" else al.rotation_part(_pose((0, 0, 0), s))
    return al.pose(R, al.sub(joint.anchor, al.matvec(R, joint.anchor)))
