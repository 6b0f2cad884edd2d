"""Where the engine tells what a channel is: a sensor, added where the file has none, or a number of its state.

The coordinates and rates of balls and free joints and the activations of muscles and filters are read from the state; a quaternion there is that of the joint, its three directions in the tangent are turns about the
axes of the child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibody.errors import CalibodyError
from calibody.formats.engine import mj
from calibody.mechanics.channels import Channel
from calibody.model import Model
from calibody.model.elements import BALL, FREE, HINGE, SLIDE
from calibody.model.native import MUJOCO, NativeSensor

ACTIVATION = "activation"


# -- the state ---------------------------------------------------------------------------------------------------------------------


def is_state(model: Model, channel: Channel) -> bool:
    """Whether a channel that is one number is read from the state."""
    if channel.quantity == ACTIVATION:
        return True
    turning = channel.kind == "joint" and model.joint(channel.name).kind in (BALL, FREE)
    return turning and channel.component is not None and channel.quantity in ("position", "orientation", "rate")


def place_of(m: Any, names: Mapping[str, Sequence[str]], channel: Channel) -> tuple[int, int, int | None]:
    """Where a coordinate, a rate or an activation stands in the state (qpos, qvel, act) and in its tangent; of a rotation vector where its quaternion begins, its direction, and its component."""
    if channel.quantity == ACTIVATION:
        i = names["actuator"].index(channel.name.removeprefix("muscle.").removeprefix("actuator.") if channel.kind == MUJOCO else channel.name)
        act = int(m.actuator_actadr[i]) + int(m.actuator_actnum[i]) - 1
        return int(m.nq + m.nv) + act, 2 * int(m.nv) + act, None
    j, c = names["joint"].index(channel.name), channel.component or 0
    qpos, dof = int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
    if channel.quantity == "rate":
        return int(m.nq) + dof + c, int(m.nv) + dof + c, None
    if channel.component is None or channel.quantity == "position":
        return qpos + c, dof + c, None
    turn = 3 if m.jnt_type[j] == int(mj.mjtJoint.mjJNT_FREE) else 0
    if channel.quantity == "orientation":
        return qpos + turn + c, dof + turn, None
    return qpos + turn, dof + turn + c, c


# -- sensors -----------------------------------------------------------------------------------------------------------------------


def name_all(spec: Any, names: Mapping[str, Sequence[str]]) -> None:
    """Everything a sensor can sit on has a name: the one it has in the model."""
    for kind, items in (("body", spec.bodies), ("joint", spec.joints), ("site", spec.sites), ("actuator", spec.actuators), ("sensor", spec.sensors)):
        for item in items:
            if not item.name and 0 <= item.id < len(names[kind]):
                item.name = names[kind][item.id]


def _kinds() -> dict[tuple[str, str], tuple[Any, Any]]:
    """Sensor and object of a channel's (kind, quantity)."""
    s, o = mj.mjtSensor, mj.mjtObj
    return {
        ("joint", "angle"): (s.mjSENS_JOINTPOS, o.mjOBJ_JOINT),
        ("joint", "position"): (s.mjSENS_JOINTPOS, o.mjOBJ_JOINT),
        ("joint", "rate"): (s.mjSENS_JOINTVEL, o.mjOBJ_JOINT),
        ("joint", "force"): (s.mjSENS_JOINTACTFRC, o.mjOBJ_JOINT),
        ("site", "position"): (s.mjSENS_FRAMEPOS, o.mjOBJ_SITE),
        ("site", "angular_rate"): (s.mjSENS_GYRO, o.mjOBJ_SITE),
        ("site", "acceleration"): (s.mjSENS_ACCELEROMETER, o.mjOBJ_SITE),
        ("site", "force"): (s.mjSENS_FORCE, o.mjOBJ_SITE),
        ("site", "torque"): (s.mjSENS_TORQUE, o.mjOBJ_SITE),
        ("body", "position"): (s.mjSENS_FRAMEPOS, o.mjOBJ_XBODY),
        ("body", "com"): (s.mjSENS_FRAMEPOS, o.mjOBJ_BODY),
        ("site", "orientation"): (s.mjSENS_FRAMEQUAT, o.mjOBJ_SITE),
        ("body", "orientation"): (s.mjSENS_FRAMEQUAT, o.mjOBJ_XBODY),
    }


def is_sensed(model: Model, channel: Channel) -> bool:
    """Whether the engine has a sensor for a channel that is one number, or it is a part of the state."""
    if is_state(model, channel):
        return True
    if channel.kind == MUJOCO:
        return isinstance(model.tables[MUJOCO][channel.name], NativeSensor) and (not channel.components or channel.component is not None)
    known = (channel.kind, channel.quantity) in _kinds() and bool(channel.components) == (channel.component is not None)
    return known and (channel.kind != "joint" or model.joint(channel.name).kind in (HINGE, SLIDE))


def refuse_unless_sensed(model: Model, channel: Channel) -> None:
    """A sentence for a channel that the engine has no sensor for."""
    if not is_sensed(model, channel):
        raise CalibodyError(
            f'The channel "{channel.path}" cannot be observed in MuJoCo\'s engine; observe angles, positions and rates of joints, forces of hinges and slides, positions and orientations of '
            'bodies and sites, gyroscopes, accelerometers, force and torque sensors on sites, or sensors of the file ("mujoco.sensor.NAME"), vectors component by component.'
        )


def add_sensor(spec: Any, model: Model, channel: Channel, k: int) -> str:
    """The name of the sensor that reads all components of a channel."""
    refuse_unless_sensed(model, channel)
    if channel.kind == MUJOCO:
        return model.tables[MUJOCO][channel.name].own_name
    sensor = spec.add_sensor()
    sensor.name = f"calibody channel {k}"
    sensor.type, sensor.objtype = _kinds()[channel.kind, channel.quantity]
    sensor.objname = channel.name
    return sensor.name
