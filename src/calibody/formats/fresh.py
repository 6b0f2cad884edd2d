"""Writing a model as a new file, MJCF or URDF, and reading it back to be sure that it says the same.

What a format has no place for is refused if it bears force or is a number of the motion; what is merely not drawn or not driven is
left out, and a comment at the top of the file names it.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from calibody.errors import FormatError
from calibody.formats import content
from calibody.formats.functions import Knots
from calibody.formats.source import differences, length_range, number, numbers, spring_length
from calibody.formats.urdf_edit import inertial_text, rpy_of
from calibody.model import Actuator, Body, Bushing, Contact, Geometry, Joint, Limit, Loop, Model, Muscle, Path, Pulley, Sensor, Spring, Transmission, Wrap
from calibody.model.elements import BALL, BETWEEN_COORDINATES, COUPLING, CURVE, FREE, HINGE, SLIDE, WELD, WORLD

_IDENTITY = (1.0, 0.0, 0.0, 0.0)
_ONLY_HERE = (
    "friction_rate",
    "damping_skew",
    "friction_skew",
    "stribeck",
    "compliance",
    "relaxation",
    "angular_compliance",
    "angular_relaxation",
    "load_friction",
    "load_stribeck",
)
"""Numbers of a joint for which neither format has a place; all are zero by default."""
_BUFFER_STEP = 0.002
"""MuJoCo's default time step [s], which a fresh file leaves alone; a delayed control is kept for as many steps."""


def _tag(tag: str, content: list[str] | None = None, /, **attributes: str | None) -> list[str]:
    """An element as lines; attributes given as None are left out, a trailing underscore is dropped."""
    text = "".join(f" {k.rstrip('_')}={quoteattr(v)}" for k, v in attributes.items() if v is not None)
    if not content:
        return [f"<{tag}{text}/>"]
    return [f"<{tag}{text}>", *("  " + line for line in content), f"</{tag}>"]


def _given(value: float, default: float = 0.0) -> str | None:
    return None if value == default else number(value)


def _vector(value: tuple[float, ...], default: tuple[float, ...]) -> str | None:
    return None if tuple(value) == default else numbers(value)


def _file(lines: list[str], left_out: list[str], target: pathlib.Path) -> str:
    head = ['<?xml version="1.0" encoding="utf-8"?>']
    if left_out:
        head.append(f"<!-- Left out, because this format has no place for it: {escape('; '.join(left_out)).replace('--', '- -')} -->")
    return "\n".join([*head, *lines]) + "\n"


# Numbers that a joint of this kind has but does not use: a fresh file need not say them.
_UNUSED = {BALL: ("axis", "reference", "springref"), FREE: ("axis", "anchor", "reference", "springref")}


def _verified(text: str, model: Model, target: pathlib.Path, format_name: str, remedy: str) -> str:
    """The text, if it reads back as the same numbers."""
    try:
        written, _ = content.read(text.encode("utf-8"), target)
    except FormatError as error:
        raise FormatError(f"The model cannot be written as {format_name} ({str(error).rstrip('.')}); {remedy}.") from None
    chained = {body.name for body in model.bodies if len(model.joints_of(body.name)) > 1}  # in URDF a chain of links, right by construction
    for kind, name, what in differences(dataclasses.replace(model, notes=()), written):
        owner = name if kind == "body" else model.joint(name).body if kind == "joint" else ""
        if kind == "joint" and what in _UNUSED.get(model.joint(name).kind, ()):
            continue
        if format_name == "URDF" and owner in chained and what in ("parent", "position", "orientation", "body"):
            continue
        path = f"{kind}.{name}.{what}" if kind != "world" else "world.gravity"
        raise FormatError(f"{path} has no place in {format_name}; {remedy}.")
    return text


# -- MJCF --------------------------------------------------------------------------------------------------------------------------


def mjcf(model: Model, target: pathlib.Path) -> str:
    """The model as MJCF; every element carries its name, and curves between coordinates are polynomials (`nearly`)."""
    model = dataclasses.replace(model, loops=tuple(_with_polynomial(loop) for loop in model.loops))
    _refuse((*model.bushings, *model.contacts, *model.limits))
    remedy = "change the model, or keep it in Python"
    left_out = [f"shape {g.name} (mesh)" for g in model.geometries if g.kind == "mesh"]
    lines = _tag(
        "mujoco",
        [
            *_tag("compiler", angle="radian", inertiafromgeom="false"),
            *_tag("option", gravity=numbers(model.gravity)),
            *_tag("default", _tag("geom", contype="0", conaffinity="0")),
            *_tag("worldbody", [*_attached(model, WORLD), *(line for b in model.bodies if b.parent == WORLD for line in _mjcf_body(model, b))]),
            *_section("tendon", [*(_tendon(model, s) for s in model.springs), *(_fixed(t) for t in model.transmissions), *(_spatial(p) for p in model.paths)]),
            *_section("equality", [_equality(model, loop) for loop in model.loops]),
            *_section("actuator", [_drive(a) for a in model.actuators]),
            *_section("sensor", [_sensor(model, s) for s in model.sensors]),
        ],
        model=model.name,
    )
    return _verified(_file(lines, left_out, target), model, target, "MJCF", remedy)


def _section(tag: str, items: list[list[str]]) -> list[str]:
    return _tag(tag, [line for item in items for line in item]) if items else []


def _refuse(elements: Sequence[Spring | Bushing | Transmission | Path | Contact | Limit]) -> None:
    for element in elements:
        raise FormatError(
            f"{element.KIND}.{element.name} has no place in this format; keep the model in Python (springs, transmissions and paths can be saved as MJCF)."
        )


def _tendon(model: Model, spring: Spring) -> list[str]:
    ends = [line for i in (1, 2) for line in _tag("site", site=_anchor_name(model, spring, i))]
    return _tag("spatial", ends, name=spring.name, stiffness=number(spring.stiffness), damping=number(spring.damping), springlength=number(spring.rest_length))


def _fixed(t: Transmission) -> list[str]:
    parts = [line for joint, c in zip(t.joints, t.coefficients, strict=True) for line in _tag("joint", joint=joint, coef=number(c))]
    return _tag("fixed", parts, **_tendon_law(t))


def _tendon_law(t: Transmission | Path) -> dict[str, str | None]:
    law = {"stiffness": _given(t.stiffness), "damping": _given(t.damping), "frictionloss": _given(t.friction), "armature": _given(t.armature)}
    return {"name": t.name, **law, "springlength": spring_length(t)}


def _spatial(path: Path) -> list[str]:
    parts = []
    for part in path.through:
        if isinstance(part, Pulley):
            parts += _tag("pulley", divisor=number(part.divisor))
        elif isinstance(part, Wrap):
            parts += _tag("geom", geom=part.geometry, sidesite=part.side or None)
        else:
            parts += _tag("site", site=part)
    return _tag("spatial", parts, **_tendon_law(path))


def _mjcf_body(model: Model, body: Body) -> list[str]:
    joints = model.joints_of(body.name)
    position, turn = body.position, body.orientation
    if joints and joints[0].kind == FREE:
        if any(position) or turn != _IDENTITY:
            raise FormatError(
                f"body.{body.name}.position: the pose of a free body is its coordinate in MJCF; put position and orientation at zero and identity."
            )
        position, turn = joints[0].spring_position, joints[0].spring_orientation
    content = [line for joint in joints for line in _mjcf_joint(joint)]
    content += _inertial(body) + _attached(model, body.name)
    content += [line for child in model.bodies if child.parent == body.name for line in _mjcf_body(model, child)]
    return _tag("body", content, name=body.name, pos=_vector(position, (0.0,) * 3), quat=_vector(turn, _IDENTITY))


def _inertial(body: Body) -> list[str]:
    if body.mass == 0.0 and not any(body.inertia):
        return []
    off_diagonal = any(body.inertia[3:])
    key = {"fullinertia": numbers(body.inertia)} if off_diagonal else {"diaginertia": numbers(body.inertia[:3])}
    return _tag("inertial", pos=numbers(body.com), mass=number(body.mass), **key)


def _mjcf_joint(joint: Joint) -> list[str]:
    for what in _ONLY_HERE:
        if getattr(joint, what):
            raise FormatError(f"joint.{joint.name}.{what} has no place in MJCF; set it to zero with model.replace, or keep the model in Python.")
    scalar = joint.kind in (HINGE, SLIDE)
    return _tag(
        "joint",
        name=joint.name,
        type=joint.kind,
        axis=numbers(joint.axis) if scalar else None,
        pos=_vector(joint.anchor, (0.0,) * 3) if joint.kind != FREE else None,
        ref=_given(joint.reference),
        stiffness=_given(joint.stiffness),
        springref=_given(joint.springref),
        damping=_given(joint.damping),
        frictionloss=_given(joint.friction),
        armature=_given(joint.armature),
    )


def _attached(model: Model, body: str) -> list[str]:
    """Shapes, sites, and the anchors of loops on one body."""
    out = [line for g in model.geometries if g.body == body and g.kind != "mesh" for line in _geom(g)]
    for site in model.sites:
        if site.body == body:
            out += _tag("site", name=site.name, pos=_vector(site.position, (0.0,) * 3), quat=_vector(site.orientation, _IDENTITY))
    for loop in (lp for lp in model.loops if lp.kind not in BETWEEN_COORDINATES):
        for i, where, anchor, turn in ((1, loop.body1, loop.anchor1, loop.orientation1), (2, loop.body2, loop.anchor2, loop.orientation2)):
            if where == body:
                out += _tag("site", name=_anchor_name(model, loop, i), pos=numbers(anchor), quat=_vector(turn, _IDENTITY) if loop.kind == WELD else None)
    for spring in model.springs:
        for i, where, point in ((1, spring.body1, spring.point1), (2, spring.body2, spring.point2)):
            if where == body:
                out += _tag("site", name=_anchor_name(model, spring, i), pos=numbers(point))
    return out


def _anchor_name(model: Model, element: Loop | Spring, i: int) -> str:
    name = f"{element.KIND}_{element.name}_{i}"
    while name in model.tables["site"]:
        name += "_"
    return name


def _geom(g: Geometry) -> list[str]:
    size = g.size if g.kind != "plane" else (*g.size[:2], g.size[2] if len(g.size) > 2 and g.size[2] > 0.0 else 1.0)
    return _tag(
        "geom", name=g.name, type=g.kind, size=numbers(size), pos=_vector(g.position, (0.0,) * 3), quat=_vector(g.orientation, _IDENTITY), rgba=numbers(g.color)
    )


def nearly(model: Model) -> tuple[str, ...]:
    """Sentences about what MJCF says only nearly: curves between coordinates are polynomials of degree four there."""
    errors = {lp.name: (Knots(lp.curve).quartic()[1], model.joint(lp.joint1).units["s"]) for lp in model.loops if lp.kind == CURVE}
    if not errors:
        return ()
    worst = {unit: max(e for e, u in errors.values() if u == unit) for unit in sorted({u for _, u in errors.values()})}
    return (
        f"MJCF has polynomials where the model has curves between coordinates ({len(errors)}); they differ by at most {' and '.join(f'{e:.2g} {u}' for u, e in worst.items())}.",
    )


def _with_polynomial(loop: Loop) -> Loop:
    return dataclasses.replace(loop, kind=COUPLING, curve=(), polynomial=Knots(loop.curve).quartic()[0]) if loop.kind == CURVE else loop


def _equality(model: Model, loop: Loop) -> list[str]:
    if loop.kind == COUPLING:
        return _tag("joint", name=loop.name, joint1=loop.joint1, joint2=loop.joint2 or None, polycoef=numbers(loop.polynomial))
    tag = "weld" if loop.kind == WELD else "connect"
    return _tag(tag, name=loop.name, site1=_anchor_name(model, loop, 1), site2=_anchor_name(model, loop, 2))


_RANGE = (0.75, 1.05)
"""MuJoCo's own range of a muscle's lengths, in units of the optimal one."""


def _muscle(a: Muscle) -> dict[str, str | None]:
    if a.time_constant:
        raise FormatError(f"actuator.{a.name}.time_constant has no place in MJCF, whose muscles have an activation dynamics of their own; put it at zero.")
    prm = numbers((*_RANGE, a.peak_force, 1.0, a.lmin, a.lmax, a.vmax, a.fpmax, a.fvmax))
    return {"gaintype": "muscle", "biastype": "muscle", "gainprm": prm, "biasprm": prm, "lengthrange": numbers(length_range(a, _RANGE))}


def _drive(a: Actuator) -> list[str]:
    affine = bool(a.bias or a.stiffness or a.damping)
    law: dict[str, str | None] = {"gainprm": number(a.gain), "biastype": "affine" if affine else None}
    law["biasprm"] = numbers((a.bias, -a.stiffness, -a.damping)) if affine else None
    return _tag(
        "general",
        name=a.name,
        joint=a.joint or None,
        tendon=a.transmission or a.path or None,
        gear=number(a.gear),
        **(_muscle(a) if isinstance(a, Muscle) else law),
        ctrllimited="true" if a.control_range else None,
        ctrlrange=numbers(a.control_range) if a.control_range else None,
        dyntype="filterexact" if a.time_constant else None,
        dynprm=_given(a.time_constant),
        forcelimited="true" if a.force_range else None,
        forcerange=numbers(a.force_range) if a.force_range else None,
        delay=_given(a.delay),
        nsample=str(math.ceil(a.delay / _BUFFER_STEP) + 1) if a.delay else None,
    )


_SENSORS = {
    ("joint", "angle"): ("jointpos", "joint"), ("joint", "position"): ("jointpos", "joint"), ("joint", "rate"): ("jointvel", "joint"),
    ("transmission", "angle"): ("tendonpos", "tendon"), ("transmission", "position"): ("tendonpos", "tendon"), ("transmission", "rate"): ("tendonvel", "tendon"),
    ("path", "length"): ("tendonpos", "tendon"), ("path", "rate"): ("tendonvel", "tendon"),
    ("joint", "force"): ("jointactuatorfrc", "joint"), ("actuator", "force"): ("actuatorfrc", "actuator"),
    ("site", "position"): ("framepos", "site"), ("body", "position"): ("framepos", "xbody"), ("body", "com"): ("framepos", "body"),
    ("site", "angular_rate"): ("gyro", "site"), ("site", "acceleration"): ("accelerometer", "site"),
    ("site", "force"): ("force", "site"), ("site", "torque"): ("torque", "site"),
}  # fmt: skip


def _sensor(model: Model, sensor: Sensor) -> list[str]:
    kind, rest = [*sensor.channel.split(".", 1), ""][:2]
    name, _, what = rest.rpartition(".")
    found = _SENSORS.get((kind, what))
    if found is None:
        raise FormatError(f"sensor.{sensor.name} measures {sensor.channel}, which no MJCF sensor does; leave the sensor out of the model before saving.")
    tag, target = found
    keys = {"objtype": target, "objname": name} if tag == "framepos" else {target: name}
    return _tag(tag, name=sensor.name, noise=_given(sensor.sd), **keys)


# -- URDF --------------------------------------------------------------------------------------------------------------------------


def urdf(model: Model, target: pathlib.Path) -> str:
    """The model as URDF. A body with several joints becomes a chain of massless links."""
    _refuse((*model.springs, *model.bushings, *model.transmissions, *model.paths, *model.contacts, *model.limits))
    _check_for_urdf(model)
    left_out = [f"{kind} {name}" for kind in ("actuator", "site", "sensor") for name in model.tables[kind]]
    left_out += [f"shape {g.name}" for g in model.geometries if _urdf_shape(g) is None]
    lines: list[str] = []
    if not _single_root(model):
        lines += _tag("link", name=WORLD)
    for body in model.ordered_bodies:
        lines += _link(model, body)
        if not (body.parent == WORLD and _single_root(model)):
            lines += _urdf_joints(model, body)
    text = _file(_tag("robot", lines, name=model.name), left_out, target)
    return _verified(text, model, target, "URDF", "save the model as MJCF instead (a path that ends in .xml)")


def _single_root(model: Model) -> bool:
    """Whether one fixed body at the origin can be the root link itself."""
    roots = [b for b in model.bodies if b.parent == WORLD]
    return len(roots) == 1 and not model.joints_of(roots[0].name) and not any(roots[0].position) and roots[0].orientation == _IDENTITY


def _check_for_urdf(model: Model) -> None:
    def no(path: str) -> FormatError:
        return FormatError(f"{path} has no place in URDF; save the model as MJCF instead (a path that ends in .xml).")

    for joint in model.joints:
        if joint.kind == BALL:
            raise no(f"joint.{joint.name} (a ball joint)")
        for what in ("reference", "stiffness", "armature", *_ONLY_HERE):
            if getattr(joint, what):
                raise no(f"joint.{joint.name}.{what}")
        if any(joint.anchor):
            raise no(f"joint.{joint.name}.anchor (a joint away from its body's origin)")
    for loop in model.loops:
        if loop.kind != COUPLING or not loop.joint2 or any(loop.polynomial[2:]):
            raise no(f"loop.{loop.name} (anything but a linear coupling of two joints)")
    for a in model.actuators:
        for what in ("bias", "stiffness", "damping"):
            if getattr(a, what):
                raise no(f"actuator.{a.name}.{what}")


def _link(model: Model, body: Body) -> list[str]:
    content = [inertial_text(body)] if body.mass or any(body.inertia) else []
    for g in (g for g in model.geometries if g.body == body.name):
        shape = _urdf_shape(g)
        if shape is not None:
            color = _tag("material", _tag("color", rgba=numbers(g.color)), name=f"{g.name}_color")
            content += _tag(
                "visual", [*_tag("origin", xyz=numbers(g.position), rpy=numbers(rpy_of(g.orientation))), *_tag("geometry", [shape]), *color], name=g.name
            )
    return _tag("link", content, name=body.name)


def _urdf_shape(g: Geometry) -> str | None:
    if g.kind == "box":
        return f'<box size="{numbers(2.0 * x for x in g.size)}"/>'
    if g.kind == "sphere":
        return f'<sphere radius="{number(g.size[0])}"/>'
    if g.kind == "cylinder":
        return f'<cylinder radius="{number(g.size[0])}" length="{number(2.0 * g.size[1])}"/>'
    return None


def _urdf_joints(model: Model, body: Body) -> list[str]:
    """The joints between a body and its parent, with a massless link after each but the last."""
    origin = _tag("origin", xyz=numbers(body.position), rpy=numbers(rpy_of(body.orientation)))
    joints = model.joints_of(body.name)
    if not joints:
        name = f"{body.name}_fixed"
        while name in model.tables["joint"]:
            name += "_"
        return _tag("joint", [*origin, *_tag("parent", link=body.parent), *_tag("child", link=body.name)], name=name, type="fixed")
    out, parent = [], body.parent
    for i, joint in enumerate(joints):
        child = body.name if i == len(joints) - 1 else f"{body.name}_{joint.name}"
        out += _tag("link", name=child) if child != body.name else []
        ends = [*_tag("parent", link=parent), *_tag("child", link=child)]
        out += _tag("joint", [*(origin if i == 0 else []), *ends, *_urdf_joint(model, joint)], name=joint.name, type=_URDF_KINDS[joint.kind])
        parent = child
    return out


_URDF_KINDS = {HINGE: "continuous", SLIDE: "prismatic", FREE: "floating"}


def _urdf_joint(model: Model, joint: Joint) -> list[str]:
    if joint.kind == FREE:
        return []
    out = _tag("axis", xyz=numbers(joint.axis))
    if joint.kind == SLIDE:  # URDF demands limits; these are out of the way
        out += _tag("limit", lower="-1000", upper="1000", effort="1e6", velocity="1e6")
    if joint.damping or joint.friction:
        out += _tag("dynamics", damping=number(joint.damping), friction=number(joint.friction))
    for loop in model.loops:
        if loop.joint1 == joint.name:
            out += _tag("mimic", joint=loop.joint2, multiplier=number(loop.polynomial[1]), offset=number(loop.polynomial[0]))
    return out
