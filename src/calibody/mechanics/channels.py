"""Channels: the user's names for what can be measured, set, driven and read.

    joint.NAME.angle | position | orientation    a hinge's angle, a slide's position; a ball's rotation vector (angle) or quaternion (orientation);
                                                 a free joint's position, rotation vector and quaternion
    joint.NAME.rate                              angle or position per second (ball: in the child's axes; free: linear, then angular)
    joint.NAME.force                             what drives exert on the joint's coordinate: actuators and directly applied forces
    joint.NAME.reaction.force | torque           what the parent exerts on the child: world axes, torque about the anchor
    site.NAME.position | pose | angle | orientation, body.NAME.position | com | pose | angle | orientation      (angle: the rotation vector against the world)
    site.NAME.angular_rate | acceleration        what a gyroscope and an accelerometer there read, in the axes of the site: the latter the specific force
                                                 (acceleration minus gravity)
    site.NAME.force | torque                     what a six-axis force-torque sensor there reads, in the axes of the site: what the parent of the site's body exerts on it
    loop.NAME.force                              what holds a loop together, on body 1 (point and weld: force; coupling: force on joint 1)
    transmission.NAME.angle | position, .rate    the combination of joint coordinates, named as its first joint's
    path.NAME.length, .rate                      of a path through sites
    actuator.NAME, actuator.NAME.force           its control, and its force on the coordinate
    contact.NAME.force, .force.normal            of lasting contact, b on a, over the step after a node: in world axes, and along the normal
    contact.NAME.impulse | gap | slip            of the impacts in the step after a node; the least distance; the sliding speed where it is least
    limit.NAME.force | impulse | gap             the same of a stop, on the joint's coordinate
    mujoco.sensor.NAME, mujoco.muscle.NAME       in models read for MuJoCo's engine: the readings of a sensor of the file; the control of a muscle (or mujoco.actuator.NAME)

A vector channel takes `.x .y .z` for one component.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibody.errors import CalibodyError, meant, nearest
from calibody.mechanics.elements import CONSTRAINTS
from calibody.model import Model
from calibody.model.elements import BALL, FREE, HINGE, SLIDE, WORLD
from calibody.model.native import MUJOCO, NativeSensor

XYZ = ("x", "y", "z")
WXYZ = ("w", "x", "y", "z")
POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")
TWIST = ("x", "y", "z", "rx", "ry", "rz")
SCALAR: tuple[str, ...] = ()

_JOINT: dict[str, dict[str, tuple[str, ...]]] = {
    HINGE: {"angle": SCALAR, "rate": SCALAR, "force": SCALAR},
    SLIDE: {"position": SCALAR, "rate": SCALAR, "force": SCALAR},
    BALL: {"angle": XYZ, "orientation": WXYZ, "rate": XYZ, "force": XYZ},
    FREE: {"position": XYZ, "angle": XYZ, "orientation": WXYZ, "rate": TWIST, "force": TWIST},
}
_CONTACT = (("force", XYZ, "N"), ("force.normal", SCALAR, "N"), ("impulse", XYZ, "N s"), ("gap", SCALAR, "m"), ("slip", SCALAR, "m/s"))
_SITE = {
    "position": (XYZ, "m"), "pose": (POSE, "m"), "angle": (XYZ, "rad"), "orientation": (WXYZ, ""),
    "angular_rate": (XYZ, "rad/s"), "acceleration": (XYZ, "m/s^2"), "force": (XYZ, "N"), "torque": (XYZ, "N m"),
}  # fmt: skip
_BODY = {"position": (XYZ, "m"), "com": (XYZ, "m"), "pose": (POSE, "m"), "angle": (XYZ, "rad"), "orientation": (WXYZ, "")}


OTHER_WORDS = {
    "angle": ("position", "pos", "q", "theta", "rotation", "orientation"),
    "position": ("angle", "pos", "q", "x", "displacement", "location"),
    "rate": ("velocity", "vel", "speed", "qd", "dq", "omega", "angular_rate", "angular_velocity"),
    "force": ("torque", "effort", "tau", "load"),
    "torque": ("moment",),
    "acceleration": ("acc", "accelerometer", "accel"),
    "angular_rate": ("gyro", "gyroscope", "angular_velocity", "rate"),
    "orientation": ("quaternion", "rotation", "attitude"),
    "pose": ("transform",),
    "length": ("position", "angle", "pos"),
    "com": ("centre", "center", "cog"),
}
"""What other programs call the quantities of channels."""


@dataclass(frozen=True)
class Channel:
    """A resolved channel: `component` is None for the whole vector (or a scalar)."""

    path: str
    kind: str
    name: str
    quantity: str
    components: tuple[str, ...]
    component: int | None
    unit: str

    @property
    def whole(self) -> str:
        """The channel without its component."""
        return self.path if self.component is None else self.path.rpartition(".")[0]


def drivable(model: Model, path: str) -> Channel:
    """A channel that a drive can set: the control of an actuator, or the force on a hinge or slide."""
    channel = resolve(model, path)
    control = (channel.kind == "actuator" and not channel.quantity) or (channel.kind == MUJOCO and model.tables[MUJOCO][channel.name].control)
    force = channel.kind == "joint" and channel.quantity == "force" and not channel.components
    if not (control or force):
        raise CalibodyError(f'"{path}" cannot be driven; drive actuator.NAME or joint.NAME.force of a hinge or slide.')
    return channel


Catalogue = Mapping[str, tuple[str, str, str, tuple[str, ...], str]]
_catalogues: dict[int, tuple[weakref.ref[Model], Catalogue]] = {}
"""By the identity of a model, as long as it lives."""


def catalogue(model: Model) -> Catalogue:
    """Every channel of a model without components: path -> kind, name, quantity, components, unit; made once per model."""
    key = id(model)
    kept = _catalogues.get(key)
    if kept is None or kept[0]() is not model:
        kept = weakref.ref(model, lambda _: _catalogues.pop(key, None)), _catalogue(model)
        _catalogues[key] = kept
    return kept[1]


def _catalogue(model: Model) -> Catalogue:
    out: dict[str, tuple[str, str, str, tuple[str, ...], str]] = {}

    def put(kind: str, name: str, quantity: str, components: tuple[str, ...], unit: str) -> None:
        path = f"{kind}.{name}" + (f".{quantity}" if quantity else "")
        out[path] = (kind, name, quantity, components, unit)

    for joint in model.joints:
        u = joint.units
        units = {"angle": "rad", "position": "m", "orientation": "", "rate": f"{u['s']}/s", "force": u["f"]}
        for quantity, components in _JOINT[joint.kind].items():
            put("joint", joint.name, quantity, components, units[quantity])
        if joint.kind != FREE:
            put("joint", joint.name, "reaction.force", XYZ, "N")
            put("joint", joint.name, "reaction.torque", XYZ, "N m")
    for site in model.sites:
        for quantity, (components, unit) in _SITE.items():
            if site.body != WORLD or quantity not in ("force", "torque"):  # the world hangs on nothing
                put("site", site.name, quantity, components, unit)
    for body in model.bodies:
        for quantity, (components, unit) in _BODY.items():
            put("body", body.name, quantity, components, unit)
    for loop in model.loops:
        first = next(t for t in CONSTRAINTS if loop.kind in t.holds)
        put("loop", loop.name, "force", XYZ if first.rows == 3 else SCALAR, first.unit_of(loop, model))
    for transmission in model.transmissions:
        joint = model.first_joint(transmission)
        put("transmission", transmission.name, "position" if joint.kind == SLIDE else "angle", SCALAR, joint.units["s"])
        put("transmission", transmission.name, "rate", SCALAR, f"{joint.units['s']}/s")
    for path in model.paths:
        put("path", path.name, "length", SCALAR, "m")
        put("path", path.name, "rate", SCALAR, "m/s")
    for actuator in model.actuators:
        put("actuator", actuator.name, "", SCALAR, "unit of control")
        put("actuator", actuator.name, "force", SCALAR, model.units_of(actuator)["f"])
    for contact in model.contacts:
        for quantity, components, unit in _CONTACT:
            put("contact", contact.name, quantity, components, unit)
    for native in model.natives:
        if isinstance(native, NativeSensor):
            put(MUJOCO, native.name, "", tuple(map(str, range(native.size))) if native.size > 1 else SCALAR, "as of MuJoCo")
        elif native.control:
            put(MUJOCO, native.name, "", SCALAR, "unit of control")
    for limit in model.limits:
        units = model.joint(limit.joint).units
        for quantity, unit in (("force", units["f"]), ("impulse", f"{units['f']} s"), ("gap", units["s"])):
            put("limit", limit.name, quantity, SCALAR, unit)
    return out


def is_known(model: Model, path: str) -> bool:
    """Whether a path names a channel, or one of its components."""
    known = catalogue(model)
    whole, _, last = path.rpartition(".")
    return path in known or (whole in known and last in known[whole][3])


def resolve(model: Model, path: str) -> Channel:
    """The channel a path names, or a sentence with the nearest known one."""
    known = catalogue(model)
    if path in known:
        return Channel(path, *known[path][:4], None, known[path][4])
    whole, _, last = path.rpartition(".") if isinstance(path, str) else ("", "", "")
    if whole in known and last in known[whole][3]:
        kind, name, quantity, components, unit = known[whole]
        return Channel(path, kind, name, quantity, components, components.index(last), unit)
    if whole in known and known[whole][3]:
        raise CalibodyError(f'The channel "{path}": after "{known[whole][2]}" comes one of {", ".join(known[whole][3])}.')
    raise CalibodyError(f'The channel "{path}" is not known{_suggestion(model, str(path)) or "; it has " + ", ".join(list(known)[:6]) + ", ..."}')


def _suggestion(model: Model, path: str) -> str:
    """What was probably meant: the same element with what its quantity is called here, the same quantity of an element with a similar name, or what is spelt alike."""
    known = catalogue(model)
    kind, _, rest = path.partition(".")
    own = [name for name in model.tables.get(kind, ()) if rest.startswith(f"{name}.")]
    if own:
        name = max(own, key=len)
        quantities = {q: components for (k, n, q, components, _) in known.values() if (k, n) == (kind, name) and q}
        word, *component = rest[len(name) + 1 :].split(".")
        found = meant(word, quantities, OTHER_WORDS)
        if found is not None:
            kept = f".{component[0]}" if component and component[0] in quantities[found] else ""
            return f'; did you mean "{kind}.{name}.{found}{kept}"?'
        return f"; {kind}.{name} has {', '.join(quantities)}."
    return nearest(path, known)


def scalar_names(model: Model, path: str) -> list[str]:
    """A channel's components as paths of their own."""
    channel = resolve(model, path)
    if channel.component is not None or not channel.components:
        return [path]
    return [f"{path}.{c}" for c in channel.components]


def as_values(channel: Channel, value: object, what: str) -> np.ndarray:
    """A user's number or numbers for a channel, checked for length and finiteness."""
    count = len(channel.components) if channel.components and channel.component is None else 1
    try:
        array = np.atleast_1d(np.asarray(value, dtype=float)).ravel()
    except (TypeError, ValueError):
        raise CalibodyError(f'{what} "{channel.path}" is {value!r}; give {count} number{"s" if count > 1 else ""}.') from None
    if array.size != count or not np.isfinite(array).all():
        raise CalibodyError(f'{what} "{channel.path}" is {value!r}; give {count} finite number{"s" if count > 1 else ""} [{channel.unit}].')
    return array
