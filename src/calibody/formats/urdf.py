"""Reading URDF: MuJoCo's compiler builds the tree; the inertias are the file's own numbers.

MuJoCo refuses massless moving links and replaces missing inertias by those of the shapes; URDF means zero there, and so do we. So the
compiler sees placeholder inertias, and the numbers come from its uncompiled description. Shapes given as meshes are not drawn: the
files they name are rarely at hand, and nothing depends on them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calibody.errors import FormatError
from calibody.formats import contacts, refusals
from calibody.formats.compiled import Compiled, element_map, matrix_of, model_of, rotated
from calibody.formats.edit import Document, Edits, Element, render
from calibody.formats.engine import compile_text, mj
from calibody.formats.possible import nearest_possible, repaired_note
from calibody.formats.source import URDF, Source
from calibody.model import Model
from calibody.model.elements import WORLD
from calibody.spatial.inertia import six_of

_SHAPES = ("box", "sphere", "cylinder")
_KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
_SCALAR = ("revolute", "continuous", "prismatic")
_KNOWN = ("link", "joint", "material")
Inertial = tuple[float, Any, tuple[float, ...]]
"""Mass, centre of mass, inertia about it (xx yy zz xy xz yz)."""


def read(document: Document, path: Path, touching: bool = False) -> tuple[Model, Source]:
    """The model in a URDF document, and what is needed to write it back."""
    notes = _check(document)
    text, dropped = _without_meshes(document)
    raw: dict[str, Inertial] = {}
    spec, compiled = compile_text(text, document.label, path.parent, lambda s: _adjust(s, raw))
    c = Compiled(document.label, spec, compiled)
    raw, repaired = _repair(raw)
    c.inertials = {i: raw[name] for i, name in enumerate(c.names["body"]) if name in raw}
    c.lists = _element_lists(c, document)
    refusals.check(c)
    c.notes += refusals.notes(c, soft_loops=False) + notes + repaired + _own_notes(c, dropped)
    model = model_of(c, document.root.attributes.get("name") or path.stem)
    model = contacts.touching(c, model) if touching else model
    return model, Source(path, URDF, document, model, element_map(c, model), _placements(document))


def _check(document: Document) -> list[str]:
    """Refuse what MuJoCo's reader would misread; name the tags it ignores."""
    root = document.root
    for element in root.descendants():
        if element.tag.startswith("xacro:"):
            raise FormatError(f"{element.where}: this is a xacro template, not a URDF; expand it first (xacro file.xacro > file.urdf).")
    if root.first("link") is None:
        raise FormatError(f"{document.label}: the robot has no link; give a URDF with links (a xacro template must be expanded first).")
    for joint in (e for e in root.children if e.tag == "joint"):
        _check_joint(joint)
    ignored = sorted({e.tag for e in root.children} - set(_KNOWN))
    return [f"Tags without a meaning for the motion are ignored: {', '.join(ignored)}."] * bool(ignored) + _idle_mimics(root)


def _idle_mimics(root: Element) -> list[str]:
    """MuJoCo's reader drops a mimic unless both joints move. On a fixed joint, or of a joint that is not there, it means nothing; a joint
    that follows a fixed one would be set free, so that is refused."""
    joints = {e.attributes.get("name", ""): e for e in root.children if e.tag == "joint"}
    idle = []
    for name, joint in joints.items():
        if (mimic := joint.first("mimic")) is None:
            continue
        leader = joints.get(mimic.attributes.get("joint", ""))
        if joint.attributes["type"] in _SCALAR and leader is not None and leader.attributes["type"] not in _SCALAR:
            raise FormatError(
                f'{mimic.where}: joint "{name}" mimics a joint that is {leader.attributes["type"]}; make it fixed too, or let it mimic a joint that moves.'
            )
        if joint.attributes["type"] not in _SCALAR or leader is None:
            idle.append(name)
    shown = ", ".join(idle[:4]) + (f" and {len(idle) - 4} more" if len(idle) > 4 else "")
    return [f"A mimic on a fixed joint, or of a joint that does not exist, means nothing: {shown}."] if idle else []


def _check_joint(joint: Element) -> None:
    kind, name = joint.attributes.get("type", ""), joint.attributes.get("name", "")
    if kind not in _KINDS:
        raise FormatError(f'{joint.where}: joint "{name}" has the type "{kind}", which URDF does not have; give one of {", ".join(_KINDS)}.')
    if kind == "floating" and (parent := joint.first("parent")) is not None and parent.attributes.get("link") != WORLD:
        raise FormatError(f'{joint.where}: joint "{name}" is floating, which is represented only where its parent is the link "world".')
    if kind == "planar":
        axis = joint.first("axis")
        vertical = axis is not None and axis.attributes.get("xyz", "").split() in (["0", "0", "1"], ["0.0", "0.0", "1.0"])
        if not vertical or joint.first("dynamics") is not None:
            raise FormatError(
                f'{joint.where}: joint "{name}" is planar with an axis other than 0 0 1, or with dynamics; use two prismatic and a continuous joint.'
            )


def _without_meshes(document: Document) -> tuple[str, int]:
    """The text with links and joints only, each shape a primitive, and how many other shapes there were."""
    edits, dropped = Edits(), 0
    for element in document.root.children:
        if element.tag not in ("link", "joint", "material"):
            edits.remove(element)
        for shape in (e for e in element.children if e.tag in ("visual", "collision")):
            geometry = shape.first("geometry")
            if geometry is None or not geometry.children or geometry.children[0].tag not in _SHAPES:
                edits.remove(shape)
                dropped += 1
    return render(document, edits, lambda _: True).decode("utf-8"), dropped


def _adjust(spec: Any, raw: dict[str, Inertial]) -> None:
    """Keep fixed links apart, remember the inertias, and give the compiler placeholders that it accepts."""
    spec.compiler.fusestatic = False
    spec.compiler.discardvisual = False
    spec.compiler.inertiafromgeom = mj.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    for body in spec.bodies:
        if body.name != WORLD:
            raw[body.name] = _inertial(body)
            body.explicitinertial = True
            body.mass, body.ipos, body.iquat = 1.0, [0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]
            body.inertia, body.fullinertia = [1.0, 1.0, 1.0], [np.nan] * 6


def _inertial(body: Any) -> Inertial:
    """Mass, centre of mass and inertia in the link's axes. Without mass there is no centre of mass: it is put at the origin."""
    if not body.explicitinertial:
        return 0.0, (0.0, 0.0, 0.0), (0.0,) * 6
    full = np.diag(body.inertia) if np.isnan(body.fullinertia[0]) else matrix_of(body.fullinertia)
    mass = float(body.mass)
    return mass, tuple(float(x) for x in body.ipos) if mass else (0.0, 0.0, 0.0), six_of(rotated(body.iquat, full))


def _repair(inertials: dict[str, Inertial]) -> tuple[dict[str, Inertial], list[str]]:
    """With possible inertias, and a sentence about those that were not."""
    out = {name: (mass, com, nearest_possible(inertia)) for name, (mass, com, inertia) in inertials.items()}
    return out, repaired_note([name for name in out if out[name] != inertials[name]], "links")


def _own_notes(c: Compiled, dropped: int) -> list[str]:
    m = c.mj
    fixed = [c.names["body"][i] for i in range(1, m.nbody) if m.body_parentid[i] == 0 and m.body_jntnum[i] == 0]
    notes = [f"The root link is fixed to the world: {', '.join(fixed)}."] if fixed else []
    return notes + (
        [f"Shapes given as meshes (or by unknown tags) play no part in the motion, and reports draw those whose files are found: {dropped}."] if dropped else []
    )


def _element_lists(c: Compiled, document: Document) -> dict[str, list[Element | None]]:
    links = {e.attributes.get("name", ""): e for e in document.root.children if e.tag == "link"}
    joints = {e.attributes.get("name", ""): e for e in document.root.children if e.tag == "joint"}
    mimics = {name: e.first("mimic") for name, e in joints.items()}
    return {
        "body": [links.get(name) for name in c.names["body"]],
        "joint": [joints.get(name) for name in c.names["joint"]],
        "loop": [mimics.get(c.names["joint"][int(i)]) for i in c.mj.eq_obj1id],
    }


def _placements(document: Document) -> dict[Any, Any]:
    """("placement", link) -> the joint element whose origin places the link."""
    out: dict[Any, Any] = {}
    for joint in (e for e in document.root.children if e.tag == "joint"):
        child = joint.first("child")
        if child is not None:
            out["placement", child.attributes.get("link", "")] = joint
    return out
