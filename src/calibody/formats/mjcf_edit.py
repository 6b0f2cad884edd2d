"""Writing changed numbers into the text of an MJCF file.

One function per kind of element says which attributes hold its numbers. Where the file has no place for a number the element is
rewritten as little as possible, and `Plan.notes` says so: an explicit `<inertial>` where the inertia came from shapes, `<general>`
for a `<motor>` with a gain, sites for the anchors of a closed loop that MuJoCo would otherwise derive from the bodies' placement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibody.errors import FormatError
from calibody.formats import native
from calibody.formats.compiled import MUSCLE
from calibody.formats.edit import Edits, Element
from calibody.formats.source import Change, Source, length_range, number, numbers, spring_length
from calibody.model import Actuator, Body, Geometry, Joint, Loop, Model, Muscle, Path, Spring, Transmission
from calibody.model.elements import COUPLING, FREE, HINGE, WELD, WORLD
from calibody.model.native import MUJOCO
from calibody.spatial import algebra as al

_TURNS = ("quat", "axisangle", "xyaxes", "zaxis", "euler")
_JOINT = {"stiffness": "stiffness", "damping": "damping", "friction": "frictionloss"}
_SHORTCUTS = ("kp", "kv", "dampratio", "timeconst", "inheritrange")
NOWHERE = {
    ("joint", "friction_rate"), ("joint", "damping_skew"), ("joint", "friction_skew"), ("transmission", "damping_skew"), ("transmission", "friction_skew"), ("joint", "stribeck"), ("joint", "stribeck_rate"), ("joint", "compliance"), ("joint", "relaxation"),
    ("joint", "angular_compliance"), ("joint", "angular_relaxation"), ("joint", "load_friction"), ("joint", "load_stribeck"), ("joint", "friction_radius"), ("loop", "compliance"), ("loop", "relaxation"), ("loop", "length"),
    ("path", "friction_rate"), ("path", "damping_skew"), ("path", "friction_skew"), ("path", "stribeck"), ("path", "stribeck_rate"), ("path", "through"), ("transmission", "friction_rate"), ("transmission", "stribeck"), ("transmission", "stribeck_rate"), ("transmission", "joints"), ("transmission", "coefficients"),
    ("sensor", "bias"), ("sensor", "gain"), ("sensor", "delay"), ("joint", "kind"), ("joint", "body"), ("body", "parent"), ("joint", "spring_position"),
    ("joint", "spring_orientation"), ("geometry", "kind"),
}  # fmt: skip


@dataclass
class Plan:
    """The edits that write one model, and what is worth telling about them."""

    model: Model
    source: Source
    edits: Edits = field(default_factory=Edits)
    notes: list[str] = field(default_factory=list)
    new_sites: set[str] = field(default_factory=set)
    """Names of sites that did not exist in the file."""

    def element(self, kind: str, name: str, what: str) -> Element:
        element = self.source.elements.get((kind, name))
        if element is None:
            raise FormatError(
                f"{kind}.{name}.{what} cannot be written into {self.source.path.name}: the element is made by replicate, attach, composite or a default, "
                "and has no place of its own in the text; write a fresh file with formats.convert."
            )
        return element

    def frame(self, kind: str, name: str) -> Any:
        return self.source.details.get(("frame", kind, name))

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)


def plan(model: Model, source: Source, changed: list[Change]) -> Plan:
    """The edits that write the changed fields."""
    p = Plan(model, source)
    grouped: dict[tuple[str, str], set[str]] = {}
    for kind, name, what in changed:
        if (kind, what) in NOWHERE or kind not in ("world", *_WRITERS):
            raise cannot(kind, name, what, source)
        grouped.setdefault((kind, name), set()).add(what)
    for (kind, name), fields in grouped.items():
        if kind == "world":
            _gravity(p)
        else:
            _WRITERS[kind](p, model.tables[kind][name], fields)
    return p


def cannot(kind: str, name: str, what: str, source: Source) -> FormatError:
    path = f"{kind}.{name}.{what}" if kind != "world" else "world.gravity"
    return FormatError(
        f"{path} differs from {source.path.name}, but MJCF has no place for the new value there; set it back with model.replace before saving, "
        "and keep the value with your experiment."
    )


# -- placement ---------------------------------------------------------------------------------------------------------------------


def _place(p: Plan, element: Element, item: Any, fields: set[str]) -> None:
    """Position and orientation; inside a `<frame>` both are written, in the frame's coordinates."""
    position, turn = item.position, item.orientation
    frame = p.frame(item.KIND, item.name)
    if frame is not None:
        fields = fields | {"position", "orientation"}
        position, turn = _in_frame(frame, position), _turn_in_frame(frame, turn)
    if "position" in fields:
        p.edits.set(element, pos=numbers(position))
    if "orientation" in fields:
        p.edits.set(element, **{name: None for name in _TURNS[1:] if name in element.attributes})
        p.edits.set(element, quat=numbers(turn))


def _in_frame(frame: Any, point: Any) -> Any:
    R = al.transpose(al.rotation_part(frame))
    return _tidy(al.matvec(R, al.sub(tuple(point), al.origin(frame))))


def _tidy(values: Any) -> tuple[float, ...]:
    """Zeros where a rotation left rounding noise (a few units in the last place of the largest number)."""
    noise = 1e-15 * max(1.0, *(abs(x) for x in values))
    return tuple(0.0 if abs(x) < noise else x for x in values)


def _turn_in_frame(frame: Any, turn: Any) -> Any:
    e = al.quaternion_conjugate(tuple(al.matrix_quaternion(al.rotation_part(frame))))  # type: ignore[arg-type]
    return _tidy(al.quaternion_product(e, al.quaternion_normalised(tuple(turn))))  # type: ignore[arg-type]


def _body(p: Plan, body: Body, fields: set[str]) -> None:
    element = p.element("body", body.name, sorted(fields)[0])
    if fields & {"position", "orientation"}:
        if any(joint.kind == FREE for joint in p.model.joints_of(body.name)):
            raise cannot("body", body.name, sorted(fields & {"position", "orientation"})[0], p.source)
        _place(p, element, body, fields)
    if fields & {"mass", "com", "inertia"}:
        _inertial(p, element, body, fields)


def add(p: Plan, body: Body) -> None:
    """A body of its own, fixed in its parent."""
    from xml.sax.saxutils import quoteattr  # as in `edit`: only where something is written

    place = f'pos="{numbers(body.position)}" quat="{numbers(body.orientation)}"'
    p.edits.insert(p.element("body", body.parent, "body"), f"<body name={quoteattr(body.name)} {place}>{inertial_text(body)}</body>")
    _explicit_inertia(p)
    p.note(f'body.{body.name} is not in {p.source.path.name}; the saved file has it as a body in "{body.parent}".')


def _site(p: Plan, site: Any, fields: set[str]) -> None:
    _place(p, p.element("site", site.name, "position"), site, fields)


def _geometry(p: Plan, geometry: Geometry, fields: set[str]) -> None:
    element = p.element("geometry", geometry.name, "position")
    if "color" in fields:
        p.edits.set(element, rgba=numbers(geometry.color))
    if "fromto" in element.attributes:
        fields = fields | {"position", "orientation", "size"}
        p.edits.set(element, fromto=None)
    if "size" in fields:
        p.edits.set(element, size=numbers(geometry.size))
    _place(p, element, geometry, fields)


# -- inertia -----------------------------------------------------------------------------------------------------------------------


def _inertial(p: Plan, element: Element, body: Body, fields: set[str]) -> None:
    inertial = element.find("inertial")
    if inertial is None:
        p.edits.insert(element, inertial_text(body))
        p.note(f"body.{body.name} had its inertia from its shapes; the saved file gives it explicitly (<inertial>).")
    else:
        _edit_inertial(p, inertial, body, fields)
    _explicit_inertia(p)


def inertial_text(body: Body) -> str:
    inertia = f'fullinertia="{numbers(body.inertia)}"' if any(body.inertia[3:]) else f'diaginertia="{numbers(body.inertia[:3])}"'
    return f'<inertial pos="{numbers(body.com)}" mass="{number(body.mass)}" {inertia}/>'


def _edit_inertial(p: Plan, inertial: Element, body: Body, fields: set[str]) -> None:
    if "mass" in fields:
        p.edits.set(inertial, mass=number(body.mass))
    if "com" in fields:
        p.edits.set(inertial, pos=numbers(body.com))
    if "inertia" in fields:
        turned = any(name in inertial.attributes for name in _TURNS)
        if "fullinertia" not in inertial.attributes and not turned and not any(body.inertia[3:]):
            p.edits.set(inertial, diaginertia=numbers(body.inertia[:3]))
        else:  # the matrix in body axes, without an orientation of its own
            p.edits.set(inertial, **{name: None for name in (*_TURNS, "diaginertia") if name in inertial.attributes})
            p.edits.set(inertial, fullinertia=numbers(body.inertia))


def _explicit_inertia(p: Plan) -> None:
    """Make the compiler use what is written: not the shapes' inertia, and not scaled to a total mass."""
    for compiler in (e for e in p.source.document.root.expanded() if e.tag == "compiler"):
        if compiler.attributes.get("inertiafromgeom") == "true":
            p.edits.set(compiler, inertiafromgeom="auto")
            p.note('The file takes inertia from shapes only (inertiafromgeom="true"); the saved file says "auto", so that explicit inertia counts.')
        if "settotalmass" in compiler.attributes:
            p.edits.set(compiler, settotalmass=None)
            p.note("The file scales all masses (settotalmass); the saved file gives the scaled masses explicitly instead.")


# -- joints ------------------------------------------------------------------------------------------------------------------------


def _joint(p: Plan, joint: Joint, fields: set[str]) -> None:
    element = p.element("joint", joint.name, sorted(fields)[0])
    if element.tag == "freejoint":
        p.edits.rename(element, "joint")
        p.edits.set(element, type="free", **({"align": None} if "align" in element.attributes else {}))
        fields = fields | {"stiffness", "damping", "friction", "armature"}
    for what, attribute in _JOINT.items():
        if what in fields:
            p.edits.set(element, **{attribute: number(getattr(joint, what))})
    if "armature" in fields:
        p.edits.set(element, armature=number(joint.armature - _rotor_inertia(p, joint)))
    _joint_geometry(p, element, joint, fields)


def _joint_geometry(p: Plan, element: Element, joint: Joint, fields: set[str]) -> None:
    unit = 180.0 / math.pi if joint.kind == HINGE and p.source.details["degree"] else 1.0
    frame = p.frame("joint", joint.name)
    if "reference" in fields:
        p.edits.set(element, ref=number(joint.reference * unit))
    if "springref" in fields:
        p.edits.set(element, springref=number(joint.springref * unit))
    if "axis" in fields:
        axis = joint.axis if frame is None else _tidy(al.matvec(al.transpose(al.rotation_part(frame)), joint.axis))
        p.edits.set(element, axis=numbers(axis))
    if "anchor" in fields:
        if joint.kind == FREE:
            raise cannot("joint", joint.name, "anchor", p.source)
        p.edits.set(element, pos=numbers(joint.anchor if frame is None else _in_frame(frame, joint.anchor)))


def _rotor_inertia(p: Plan, turned: Joint | Transmission | Path) -> float:
    """What actuators of the file add to the armature of what they turn (`armature gear^2`)."""
    total = 0.0
    for actuator in p.model.actuators:
        details = p.source.details.get(("actuator", actuator.name), {})
        total += details.get("armature", 0.0) * actuator.gear**2 if getattr(actuator, turned.KIND) == turned.name else 0.0
    return total


# -- actuators ---------------------------------------------------------------------------------------------------------------------


def _actuator(p: Plan, actuator: Actuator, fields: set[str]) -> None:
    element = p.element("actuator", actuator.name, sorted(fields)[0])
    if isinstance(actuator, Muscle):
        _muscle(p, element, actuator, fields)
    if "gear" in fields:
        rest = (p.edits.get(element, "gear") or "").split()[1:]
        p.edits.set(element, gear=" ".join([number(actuator.gear), *rest]))
    if "control_range" in fields:
        _control_range(p, element, actuator)
    if "force_range" in fields and actuator.force_range is None:
        p.edits.set(element, forcelimited="false")
    elif "force_range" in fields:
        p.edits.set(element, forcelimited="true", forcerange=numbers(actuator.force_range))
    if "delay" in fields:
        _delay(p, element, actuator)
    if fields & {"gain", "bias", "stiffness", "damping"}:
        _force_law(p, element, actuator)
    if "time_constant" in fields:
        _lag(p, element, actuator)


def _muscle(p: Plan, element: Element, muscle: Muscle, fields: set[str]) -> None:
    """A <muscle> has an attribute for every number, a <general> lists of them; the two lengths are those that the range of lengths makes."""
    if "time_constant" in fields:
        raise cannot("actuator", muscle.name, "time_constant", p.source)
    known = p.source.details["actuator", muscle.name]["gainprm"]
    if changed := fields & MUSCLE.keys():
        if element.tag == "muscle":
            p.edits.set(element, **{"force" if name == "peak_force" else name: number(getattr(muscle, name)) for name in changed})
        else:
            new = list(known)
            for name in changed:
                new[MUSCLE[name]] = getattr(muscle, name)
            p.edits.set(element, gainprm=numbers(new), biasprm=numbers(new))
    if fields & {"optimal_length", "slack_length"}:
        p.edits.set(element, lengthrange=numbers(length_range(muscle, known[:2])))


def _control_range(p: Plan, element: Element, actuator: Actuator) -> None:
    if actuator.control_range is None:
        p.edits.set(element, ctrllimited="false")
    else:
        p.edits.set(element, ctrllimited="true", ctrlrange=numbers(actuator.control_range))
    if "inheritrange" in element.attributes:
        p.edits.set(element, inheritrange=None)


def _delay(p: Plan, element: Element, actuator: Actuator) -> None:
    """MuJoCo keeps a delayed control in a buffer of `nsample` time steps."""
    needed = math.ceil(actuator.delay / p.source.details["timestep"]) + 1
    given = element.attributes.get("nsample", "0").strip()
    p.edits.set(element, delay=number(actuator.delay), nsample=str(max(needed, int(given) if given.isdigit() else 0)))


def _lag(p: Plan, element: Element, actuator: Actuator) -> None:
    """A first-order lag is an activation of a <general>; <position> has an attribute for it."""
    if element.tag == "position":
        p.edits.set(element, timeconst=number(actuator.time_constant))
        return
    _generalised(p, element, actuator)
    p.edits.set(element, **_dynamics(actuator))


def _dynamics(actuator: Actuator) -> dict[str, str | None]:
    if not actuator.time_constant:
        return {"dyntype": "none"}
    return {"dyntype": "filterexact", "dynprm": number(actuator.time_constant)}


def _generalised(p: Plan, element: Element, a: Actuator) -> None:
    """A shortcut becomes a <general>, which can hold all numbers."""
    if element.tag == "general":
        return
    p.edits.rename(element, "general")
    p.edits.set(element, **{name: None for name in _SHORTCUTS if name in element.attributes})
    if "inheritrange" in element.attributes:
        _control_range(p, element, a)
    p.note(f"actuator.{a.name} was a <{element.tag}>, which cannot hold these numbers; the saved file has a <general>.")
    damping = a.damping - p.source.details["actuator", a.name]["damping"]
    affine = bool(a.bias or a.stiffness or damping)
    p.edits.set(element, **_dynamics(a), gaintype="fixed", biastype="affine" if affine else "none", gainprm=number(a.gain))
    p.edits.set(element, biasprm=numbers((a.bias, -a.stiffness, -damping)))


def _force_law(p: Plan, element: Element, a: Actuator) -> None:
    """gain u + bias - stiffness l - damping l'; a shortcut (position, velocity) is kept where it can say it."""
    damping = a.damping - p.source.details["actuator", a.name]["damping"]
    if element.tag == "position" and a.gain == a.stiffness and a.bias == 0.0 and damping >= 0.0:
        p.edits.set(element, kp=number(a.gain), kv=number(damping))
        if "dampratio" in element.attributes:
            p.edits.set(element, dampratio=None)
            p.note(f"actuator.{a.name} had a dampratio, which follows the inertia; the saved file gives its damping (kv) instead.")
        return
    if element.tag == "velocity" and a.gain == damping and a.bias == a.stiffness == 0.0:
        p.edits.set(element, kv=number(a.gain))
        return
    if element.tag != "general":
        _generalised(p, element, a)
        return
    affine = bool(a.bias or a.stiffness or damping)
    p.edits.set(element, **_dynamics(a), gaintype="fixed", biastype="affine" if affine else "none", gainprm=number(a.gain))
    p.edits.set(element, biasprm=numbers((a.bias, -a.stiffness, -damping)))


# -- loops, sensors, gravity -------------------------------------------------------------------------------------------------------


def _loop(p: Plan, loop: Loop, fields: set[str]) -> None:
    element = p.element("loop", loop.name, sorted(fields)[0])
    if loop.kind == COUPLING:
        p.edits.set(element, polycoef=numbers(loop.polynomial))
        return
    for i, body, anchor, turn in ((1, loop.body1, loop.anchor1, loop.orientation1), (2, loop.body2, loop.anchor2, loop.orientation2)):
        site = _new_site_name(p, f"{loop.name}_{i}")
        quat = f' quat="{numbers(turn)}"' if loop.kind == WELD else ""
        parent = p.element("body", body, "anchor") if body != WORLD else _worldbody(p)
        p.edits.insert(parent, f'<site name="{site}" pos="{numbers(anchor)}"{quat}/>')
        p.edits.set(element, **{f"site{i}": site})
    p.edits.set(element, **{name: None for name in ("body1", "body2", "anchor", "relpose") if name in element.attributes})
    p.note(f"loop.{loop.name} is anchored at two new sites in the saved file, because MuJoCo would otherwise place its second anchor anew.")


def _spring(p: Plan, spring: Spring, fields: set[str]) -> None:
    element = p.element("spring", spring.name, sorted(fields)[0])
    for what in ("stiffness", "damping"):
        if what in fields:
            p.edits.set(element, **{what: number(getattr(spring, what))})
    if "rest_length" in fields:
        p.edits.set(element, springlength=number(spring.rest_length))
    ends = [e for e in element.expanded() if e.tag == "site"]
    for i, body, point in ((1, spring.body1, spring.point1), (2, spring.body2, spring.point2)):
        if f"point{i}" in fields:
            site = _new_site_name(p, f"{spring.name}_{i}")
            parent = p.element("body", body, "position") if body != WORLD else _worldbody(p)
            p.edits.insert(parent, f'<site name="{site}" pos="{numbers(point)}"/>')
            p.edits.set(ends[i - 1], site=site)
            p.note(f"spring.{spring.name} ends at a new site in the saved file, because other elements may use the old one.")


def _transmission(p: Plan, t: Transmission | Path, fields: set[str]) -> None:
    element = p.element(t.KIND, t.name, sorted(fields)[0])
    for what, attribute in _JOINT.items():
        if what in fields:
            p.edits.set(element, **{attribute: number(getattr(t, what))})
    if "armature" in fields:
        p.edits.set(element, armature=number(t.armature - _rotor_inertia(p, t)))
    if fields & {"springref", "backlash"}:
        p.edits.set(element, springlength=spring_length(t))


def _new_site_name(p: Plan, wanted: str) -> str:
    while wanted in p.model.tables["site"] or wanted in p.new_sites:
        wanted += "_"
    p.new_sites.add(wanted)
    return wanted


def _worldbody(p: Plan) -> Element:
    found = p.source.document.root.find("worldbody")
    if found is None:
        raise FormatError(f"{p.source.path.name} has no worldbody; add one to anchor a loop in the world.")
    return found


def _sensor(p: Plan, sensor: Any, fields: set[str]) -> None:
    if fields != {"sd"}:
        raise cannot("sensor", sensor.name, sorted(fields - {"sd"})[0], p.source)
    p.edits.set(p.element("sensor", sensor.name, "sd"), noise=number(sensor.sd))


def _gravity(p: Plan) -> None:
    root = p.source.document.root
    options = [e for e in root.expanded() if e.tag == "option"]
    given = [e for e in options if "gravity" in e.attributes] or options
    value = numbers(np.asarray(p.model.gravity))
    if given:
        p.edits.set(given[-1], gravity=value)
    else:
        p.edits.insert(root, f'<option gravity="{value}"/>')


_WRITERS: dict[str, Any] = {
    "body": _body,
    "joint": _joint,
    "site": _site,
    "geometry": _geometry,
    "actuator": _actuator,
    "loop": _loop,
    "sensor": _sensor,
    "spring": _spring,
    "transmission": _transmission,
    "path": _transmission,
    MUJOCO: native.write,
}
