"""Reading MJCF, MuJoCo's own format: includes, the compiler, and which XML element became which element of the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from calibody.errors import FormatError
from calibody.formats import contacts, native, refusals
from calibody.formats.assets import drop_missing
from calibody.formats.compiled import Compiled, element_map, is_muscle, model_of
from calibody.formats.edit import Document, Edits, Element, parse, read_bytes, render
from calibody.formats.engine import compile_text, mj
from calibody.formats.source import ENGINE, MJCF, Source
from calibody.model import Model
from calibody.spatial import algebra as al

_DEEPEST_INCLUDE = 20


def read(document: Document, path: Path, touching: bool = False, engine: bool = False) -> tuple[Model, Source]:
    """The model in an MJCF document, and what is needed to write it back; `engine`: for MuJoCo's own engine, which everything in it acts in."""
    resolve_includes(document, path.parent)
    spec, m, aligned, dropped = compiled(document, path)
    c = Compiled(document.label, spec, m)
    c.lists = _element_lists(c, document)
    name = document.root.attributes.get("model") or path.stem
    if engine:
        c.notes += dropped
        model = native.model_of(c, name)
        return model, Source(path, MJCF, document, model, element_map(c, model) | native.element_map(c, model), _details(c, engine=True))
    refusals.check(c)
    c.notes += refusals.notes(c, soft_loops=True)
    c.notes += dropped
    if aligned:
        c.notes.append(f"The frames of free bodies are the file's; MuJoCo aligns them with the principal axes of inertia: {', '.join(aligned)}.")
    model = model_of(c, name)
    model = contacts.touching(c, model) if touching else model
    return model, Source(path, MJCF, document, model, element_map(c, model), _details(c))


def compiled(document: Document, path: Path) -> tuple[Any, Any, list[str], list[str]]:
    """MuJoCo's spec and model of a document whose includes are resolved, the free bodies whose frames were kept, and what was dropped because it is missing."""
    text = render(document, Edits(), lambda _: True).decode("utf-8")
    aligned: list[str] = []
    dropped: list[str] = []

    def adjust(spec: Any) -> None:
        _adjust(spec, aligned)
        dropped.extend(drop_missing(spec, document.label, path.parent))

    spec, m = compile_text(text, document.label, path.parent, adjust, lines_are_the_file_s=not _has_includes(document))
    return spec, m, aligned, dropped


def _adjust(spec: Any, aligned: list[str]) -> None:
    """Keep every body and shape of the file: no fusing, no discarding, no re-aligned free bodies."""
    spec.compiler.fusestatic = False
    spec.compiler.discardvisual = False
    for joint in spec.joints:
        if joint.type == mj.mjtJoint.mjJNT_FREE and (joint.align == 1 or (joint.align == 2 and spec.compiler.alignfree)):
            joint.align = 0
            aligned.append(joint.name or joint.parent.name or "unnamed")
    spec.compiler.alignfree = False


# -- includes ----------------------------------------------------------------------------------------------------------------------


def resolve_includes(document: Document, folder: Path, depth: int = 0) -> None:
    """Read the files that a document includes; MuJoCo looks for them beside the main file."""
    if depth > _DEEPEST_INCLUDE:
        raise FormatError(f"{document.label}: files include each other in a circle (or more than {_DEEPEST_INCLUDE} deep); remove an include.")
    for element in [document.root, *_raw_descendants(document.root)]:
        if element.tag == "include" and element.included is None:
            name = element.attributes.get("file", "").strip()
            if not name:
                raise FormatError(f'{element.where}: an include has no file; give file="...".')
            if element.parent is None:
                raise FormatError(f"{element.where}: an include cannot be the whole file; put it inside <mujoco>.")
            element.included = parse(read_bytes(folder / name), name)
            resolve_includes(element.included, folder, depth + 1)


def _has_includes(document: Document) -> bool:
    return any(e.included is not None for e in _raw_descendants(document.root))


def _raw_descendants(element: Element) -> Iterator[Element]:
    for child in element.children:
        yield child
        yield from _raw_descendants(child)


# -- which element is which --------------------------------------------------------------------------------------------------------


def _element_lists(c: Compiled, document: Document) -> dict[str, list[Element | None]]:
    """kind -> XML elements in MuJoCo's order; where the counts or names differ (replicated parts), by name alone."""
    found: dict[str, list[Element]] = {"body": [document.root], "joint": [], "geometry": [], "site": []}
    worldbodies = [e for e in document.root.expanded() if e.tag == "worldbody"]
    _walk(worldbodies, found)
    for section, kind in (("actuator", "actuator"), ("sensor", "sensor"), ("equality", "loop"), ("tendon", "tendon")):
        found[kind] = [e for s in document.root.expanded() if s.tag == section for e in s.expanded()]
    return {kind: _matched(elements, c.names[kind]) for kind, elements in found.items()}


def _walk(parts: list[Element], found: dict[str, list[Element]]) -> None:
    """Collect what belongs to one body (given as its element, or several worldbody sections), then its child bodies, depth first."""
    children: list[Element] = []
    pending = [e for part in parts for e in part.expanded()]
    while pending:
        element = pending.pop(0)
        if element.tag == "frame":
            pending = [*element.expanded(), *pending]
        elif element.tag in ("joint", "freejoint"):
            found["joint"].append(element)
        elif element.tag in ("geom", "site"):
            found["geometry" if element.tag == "geom" else "site"].append(element)
        elif element.tag == "body":
            children.append(element)
    for child in children:
        found["body"].append(child)
        _walk([child], found)


def _matched(elements: list[Element], names: list[str]) -> list[Element | None]:
    def named(element: Element) -> str:
        return element.attributes.get("name", "")

    # The first body is the world, which has no element of its own.
    if len(elements) == len(names) and all(named(e) in ("", n) for e, n in zip(elements, names, strict=True)):
        return list(elements)
    table = {named(e): e for e in elements if named(e)}
    return [table.get(name) for name in names]


# -- what else is needed to write numbers back -------------------------------------------------------------------------------------


def _details(c: Compiled, engine: bool = False) -> dict[Any, Any]:
    """`engine`: of a model whose joints do not have the armature of what drives them."""
    compiler = c.spec.compiler
    details: dict[Any, Any] = {
        "degree": bool(compiler.degree),
        "inertiafromgeom": compiler.inertiafromgeom == mj.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE,
        "meshdir": str(c.spec.meshdir or ""),
        "texturedir": str(c.spec.texturedir or ""),
        "timestep": float(c.mj.opt.timestep),
        ENGINE: engine,
    }
    for kind, items in (("body", c.spec.bodies), ("joint", c.spec.joints), ("geometry", c.spec.geoms), ("site", c.spec.sites)):
        for item in items:
            if item.id >= 0 and (frame := getattr(item, "frame", None)) is not None:
                details["frame", kind, c.names[kind][item.id]] = _frame_pose(c.spec, frame)
    for i, name in enumerate(c.names["actuator"]):
        details["actuator", name] = {"damping": float(c.mj.actuator_damping[i]), "armature": 0.0 if engine else float(c.mj.actuator_armature[i])}
        if is_muscle(c, i):
            details["actuator", name]["gainprm"] = tuple(float(x) for x in c.mj.actuator_gainprm[i, :9])
    return details


def _frame_pose(spec: Any, frame: Any) -> Any:
    """The pose of a `<frame>` in its body: frames nest, and each gives its orientation in any of MuJoCo's ways."""
    pose = None
    while frame is not None:
        if frame.alt.type == mj.mjtOrientation.mjORIENTATION_QUAT:
            e = frame.quat
        else:
            e = spec.resolve_orientation(degree=bool(spec.compiler.degree), sequence=spec.compiler.eulerseq, orientation=frame.alt)
        R = al.quaternion_matrix(al.quaternion_normalised(tuple(float(x) for x in e)))  # type: ignore[arg-type]
        here = al.pose(R, tuple(float(x) for x in frame.pos))  # type: ignore[arg-type]
        pose = here if pose is None else al.compose(here, pose)
        frame = frame.frame
    return tuple(tuple(float(x) for x in row) for row in np.array(pose))
