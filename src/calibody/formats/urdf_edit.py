"""Writing changed numbers into the text of a URDF file.

URDF holds masses, inertias, joint placements, axes, damping, friction and the ratio of mimic joints; anything else is refused, with
the advice to save as MJCF. The inertia is written in the axes of the inertial's own origin, so its `rpy` stays as it is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calibody.errors import FormatError
from calibody.formats.edit import Edits, Element
from calibody.formats.mjcf_edit import Plan
from calibody.formats.source import Change, Source, number, numbers
from calibody.model import Body, Joint, Loop, Model
from calibody.spatial import algebra as al
from calibody.spatial.inertia import SIX, symmetric

_WRITABLE = {
    "body": ("mass", "com", "inertia", "position", "orientation"),
    "joint": ("axis", "damping", "friction"),
    "loop": ("polynomial",),
}
INERTIA = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")


def plan(model: Model, source: Source, changed: list[Change]) -> Plan:
    """The edits that write the changed fields."""
    p = Plan(model, source)
    grouped: dict[tuple[str, str], set[str]] = {}
    for kind, name, what in changed:
        if what not in _WRITABLE.get(kind, ()):
            raise cannot(kind, name, what, source)
        grouped.setdefault((kind, name), set()).add(what)
    for (kind, name), fields in grouped.items():
        {"body": _body, "joint": _joint, "loop": _loop}[kind](p, model.tables[kind][name], fields)
    return p


def cannot(kind: str, name: str, what: str, source: Source) -> FormatError:
    path = f"{kind}.{name}.{what}" if kind != "world" else "world.gravity"
    return FormatError(f"{path} differs from {source.path.name}, but URDF has no place for it; save the model as MJCF instead (a path that ends in .xml).")


def _child(edits: Edits, parent: Element, tag: str, default: str) -> Element | None:
    """The child with a tag; if there is none, `default` is inserted and None returned."""
    found = parent.first(tag)
    if found is None:
        edits.insert(parent, default)
    return found


# -- links -------------------------------------------------------------------------------------------------------------------------


def _body(p: Plan, body: Body, fields: set[str]) -> None:
    element = p.element("body", body.name, sorted(fields)[0])
    if fields & {"mass", "com", "inertia"}:
        _inertial(p, element, body, fields)
    if fields & {"position", "orientation"}:
        _placement(p, body, fields)


def _inertial(p: Plan, link: Element, body: Body, fields: set[str]) -> None:
    inertial = link.first("inertial")
    if inertial is None:
        p.edits.insert(link, inertial_text(body))
        p.note(f"body.{body.name} had no inertial element; the saved file has one.")
        return
    origin = inertial.first("origin")
    if "mass" in fields and (mass := _child(p.edits, inertial, "mass", f'<mass value="{number(body.mass)}"/>')) is not None:
        p.edits.set(mass, value=number(body.mass))
    if "com" in fields:
        if origin is None:
            p.edits.insert(inertial, f'<origin xyz="{numbers(body.com)}"/>')
        else:
            p.edits.set(origin, xyz=numbers(body.com))
    if "inertia" in fields:
        R = np.array(rpy_matrix(_floats(origin, "rpy")))
        _inertia(p, inertial, R.T @ symmetric(body.inertia) @ R if origin is not None and any(_floats(origin, "rpy")) else symmetric(body.inertia))


def _inertia(p: Plan, inertial: Element, matrix: np.ndarray) -> None:
    values = dict(zip(INERTIA, (number(matrix[i, j]) for i, j in SIX), strict=True))
    text = " ".join(f'{k}="{v}"' for k, v in values.items())
    element = _child(p.edits, inertial, "inertia", f"<inertia {text}/>")
    if element is not None:
        p.edits.set(element, **{k: v for k, v in values.items() if _differs(element.attributes.get(k), v)})


def _differs(given: str | None, value: str) -> bool:
    """Whether an attribute must be rewritten: not if it is the same number in other words."""
    try:
        return given is None or float(given) != float(value)
    except ValueError:
        return True


def inertial_text(body: Body) -> str:
    inertia = " ".join(f'{k}="{number(v)}"' for k, v in zip(INERTIA, body.inertia, strict=True))
    return f'<inertial><origin xyz="{numbers(body.com)}" rpy="0 0 0"/><mass value="{number(body.mass)}"/><inertia {inertia}/></inertial>'


def add(p: Plan, body: Body) -> None:
    """A link of its own, fixed to its parent."""
    from xml.sax.saxutils import quoteattr  # as in `edit`: only where something is written

    root, name, parent = p.source.document.root, quoteattr(body.name), quoteattr(body.parent)
    origin = f'<origin xyz="{numbers(body.position)}" rpy="{numbers(rpy_of(body.orientation))}"/>'
    p.edits.insert(root, f"<link name={name}>{inertial_text(body)}</link>")
    p.edits.insert(root, f'<joint name={quoteattr(f"{body.name}_fixed")} type="fixed"><parent link={parent}/><child link={name}/>{origin}</joint>')
    p.note(f'body.{body.name} is not in {p.source.path.name}; the saved file has it as a link, fixed to "{body.parent}".')


def _floats(element: Element | None, attribute: str) -> tuple[float, ...]:
    words = element.attributes.get(attribute, "0 0 0").split() if element is not None else ["0"] * 3
    return tuple(float(w) for w in words)


def _placement(p: Plan, body: Body, fields: set[str]) -> None:
    joint = p.source.details.get(("placement", body.name))
    if joint is None:
        raise FormatError(f"body.{body.name}.{sorted(fields)[0]}: the root link of {p.source.path.name} has no place in URDF; save the model as MJCF instead.")
    values = {}
    if "position" in fields:
        values["xyz"] = numbers(body.position)
    if "orientation" in fields:
        values["rpy"] = numbers(rpy_of(body.orientation))
    text = " ".join(f'{k}="{v}"' for k, v in values.items())
    origin = _child(p.edits, joint, "origin", f"<origin {text}/>")
    if origin is not None:
        p.edits.set(origin, **values)


def rpy_matrix(rpy: Any) -> Any:
    """URDF's fixed-axis roll, pitch, yaw: `Rz(yaw) Ry(pitch) Rx(roll)`."""
    r, q, y = rpy
    turn = al.matmul(al.axis_angle((0.0, 0.0, 1.0), y), al.axis_angle((0.0, 1.0, 0.0), q))
    return al.matmul(turn, al.axis_angle((1.0, 0.0, 0.0), r))


def rpy_of(quaternion: Any) -> tuple[float, float, float]:
    """Roll, pitch, yaw of a quaternion. The roll is read after the yaw is taken off, so the product is exact even where the pitch is
    a right angle and the two cannot be told apart."""
    R = al.quaternion_matrix(al.quaternion_normalised(tuple(quaternion)))  # type: ignore[arg-type]
    pitch = math.atan2(-R[2][0], math.hypot(R[0][0], R[1][0]))
    yaw = math.atan2(R[1][0], R[0][0])
    left = al.matmul(al.axis_angle((0.0, 0.0, 1.0), -yaw), R)
    return math.atan2(-left[1][2], left[1][1]), pitch, yaw


# -- joints ------------------------------------------------------------------------------------------------------------------------


def _joint(p: Plan, joint: Joint, fields: set[str]) -> None:
    element = p.element("joint", joint.name, sorted(fields)[0])
    if "axis" in fields and (axis := _child(p.edits, element, "axis", f'<axis xyz="{numbers(joint.axis)}"/>')) is not None:
        p.edits.set(axis, xyz=numbers(joint.axis))
    values = {what: number(getattr(joint, what)) for what in ("damping", "friction") if what in fields}
    if values:
        text = " ".join(f'{k}="{v}"' for k, v in values.items())
        dynamics = _child(p.edits, element, "dynamics", f"<dynamics {text}/>")
        if dynamics is not None:
            p.edits.set(dynamics, **values)


def _loop(p: Plan, loop: Loop, _: set[str]) -> None:
    if any(loop.polynomial[2:]):
        raise cannot("loop", loop.name, "polynomial", p.source)
    p.edits.set(p.element("loop", loop.name, "polynomial"), offset=number(loop.polynomial[0]), multiplier=number(loop.polynomial[1]))
