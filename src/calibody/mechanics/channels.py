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
    site.NAME.applied                            the force that drives exert at the site, world axes: what moves it as prescribed, and given forces
    loop.NAME.force                              what holds a loop together, on body 1 (in world axes; of slide, cylindrical and masked points along the axes of frame 1; of a rod
                                                 along it; of what rolls in the axes of its plane; coupling: force on joint 1)
    transmission.NAME.angle | position, .rate    the combination of joint coordinates, named as its first joint's
    path.NAME.length, .rate                      of a path through sites
    actuator.NAME, actuator.NAME.force           its control, and its force on the coordinate
    contact.NAME.force, .force.normal            of lasting contact, b on a, over the step after a node: in world axes, and along the normal
    contact.NAME.impulse | gap | slip            of the impacts in the step after a node; the least distance; the sliding speed where it is least
    limit.NAME.force | impulse | gap             the same of a stop, on the joint's coordinate
    mujoco.sensor.NAME, mujoco.muscle.NAME       in models read for MuJoCo's engine: the readings of a sensor of the file; the control of a muscle (or mujoco.actuator.NAME)
    mujoco.muscle.NAME.activation                there too: what stands between control and force (or mujoco.actuator.NAME.activation, actuator.NAME.activation)

A vector channel takes `.x .y .z` for one component.

Drives set `actuator.NAME` and `joint.NAME.force`; they move joints and sites as prescribed (`joint.NAME.angle | position`, `site.NAME.position`); and they push and pull:

    site.NAME.force | torque                     at the site, in the axes of the world; .force.own, .torque.own in those of the site
    body.NAME.force | torque                     on the body, in the axes of the world and about its origin: what a force plate measures
    spring.NAME.force                            an additional tension of a spring: a linear actuator, positive where it pulls
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from calibody.errors import CalibodyError, meant, nearest
from calibody.mechanics.elements import CONSTRAINTS, inplane
from calibody.model import Model
from calibody.model.elements import BALL, CYLINDRICAL, FREE, HINGE, ROLLING, SLIDE, WORLD
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
    "angular_rate": (XYZ, "rad/s"), "acceleration": (XYZ, "m/s^2"), "force": (XYZ, "N"), "torque": (XYZ, "N m"), "applied": (XYZ, "N"),
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


PUSHED = ("site.NAME.force", "site.NAME.torque", "body.NAME.force", "body.NAME.torque", "spring.NAME.force")
DRIVABLE = f"drive actuator.NAME, joint.NAME.force, or {', '.join(PUSHED)}; or prescribe joint.NAME.angle, joint.NAME.position or site.NAME.position"


def drivable(model: Model, path: str) -> Channel:
    """A channel that a drive can set; a vector as a whole, too."""
    if (pushed := _pushed(model, path)) is not None:
        return pushed
    channel = resolve(model, path)
    native = channel.kind == MUJOCO and model.tables[MUJOCO][channel.name].control
    if not (is_control(channel) or native or is_joint_force(channel) or prescribes(channel)):
        raise CalibodyError(f'"{path}" cannot be driven; {DRIVABLE}.')
    return channel


def refuse_both(model: Model, path: str, observed: Collection[str], run: str) -> None:
    """A sentence where a drive prescribes what is observed."""
    channel = drivable(model, path)
    if prescribes(channel) and (seen := [p for p in (path, *(f"{path}.{c}" for c in channel.components)) if p in observed]):
        raise CalibodyError(
            f'The run "{run}" observes "{seen[0]}", and a drive prescribes it: then it says nothing. What was measured is observed; leave out the drive, or the observation.'
        )


def driven(model: Model, path: str) -> Channel:
    """The same for one that is a single number."""
    channel = drivable(model, path)
    if channel.components and channel.component is None:
        raise CalibodyError(f'Drive "{path}" has {len(channel.components)} components; drive them one by one, for instance "{path}.{channel.components[0]}".')
    return channel


def is_control(channel: Channel) -> bool:
    return channel.kind == "actuator" and not channel.quantity


def is_joint_force(channel: Channel) -> bool:
    return channel.kind == "joint" and channel.quantity == "force"


def prescribes(channel: Channel) -> bool:
    """Whether a drive of the channel says where something is: a hinge, a slide, the place of a free joint, or a site."""
    joint = channel.kind == "joint" and (channel.quantity == "position" or (channel.quantity == "angle" and not channel.components))
    return joint or (channel.kind == "site" and channel.quantity == "position")


def pushes(channel: Channel) -> bool:
    """Whether a drive of the channel is a force or torque on a body, or the tension of a spring."""
    return channel.kind in ("site", "body", "spring") and channel.quantity.removesuffix(OWN) in ("force", "torque")


OWN = ".own"
"""What follows a force or torque of a drive in the axes of the site."""


def _pushed(model: Model, path: str) -> Channel | None:
    """The channel of a drive that pushes or pulls, if the path names one."""
    kind, _, rest = path.partition(".")
    names = [name for name in model.tables.get(kind, ()) if rest.startswith(f"{name}.")] if kind in ("site", "body", "spring") else []
    if not names:
        return None
    name = max(names, key=len)
    quantity, component = rest[len(name) + 1 :], None
    if (last := quantity.rpartition("."))[2] in XYZ:
        quantity, component = last[0], XYZ.index(last[2])
    if quantity.removesuffix(OWN if kind == "site" else "") not in (("force",) if kind == "spring" else ("force", "torque")):
        return None
    if kind == "spring":
        return Channel(path, kind, name, quantity, SCALAR, None, "N") if component is None else None
    return Channel(path, kind, name, quantity, XYZ, component, "N" if quantity.startswith("force") else "N m")


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
            if site.body != WORLD or quantity not in ("force", "torque", "applied"):  # the world hangs on nothing
                put("site", site.name, quantity, components, unit)
    for body in model.bodies:
        for quantity, (components, unit) in _BODY.items():
            put("body", body.name, quantity, components, unit)
    for loop in model.loops:
        first = next(t for t in CONSTRAINTS if inplane.rows_of(loop) in t.holds)
        held = {SLIDE: ("x", "y"), CYLINDRICAL: ("x", "y"), ROLLING: ("z", "x", "y")}.get(loop.kind, tuple(loop.mask) if first is inplane.TYPE else SCALAR)
        put("loop", loop.name, "force", XYZ if first.rows == 3 else held if len(held) > 1 else SCALAR, first.unit_of(loop, model))
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
        if model.natives and actuator.time_constant:
            put("actuator", actuator.name, "activation", SCALAR, "unit of control")
    for contact in model.contacts:
        for quantity, components, unit in _CONTACT:
            put("contact", contact.name, quantity, components, unit)
    for native in model.natives:
        if isinstance(native, NativeSensor):
            put(MUJOCO, native.name, "", tuple(map(str, range(native.size))) if native.size > 1 else SCALAR, "as of MuJoCo")
        elif native.control:
            put(MUJOCO, native.name, "", SCALAR, "unit of control")
            if native.activated:
                put(MUJOCO, native.name, "activation", SCALAR, "unit of control")
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
