"""Saving a model that was read from a file: edit the text, read it back, and repeat until it says what the model says.

The first pass writes the numbers that changed. Reading the result back shows what those changes dragged along (a moved shape changes
the inertia that came from it, a moved body the second anchor of a closed loop); the next pass writes these explicitly. What still
differs after that has no place in the format, and is refused.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from calibody.errors import FormatError
from calibody.formats import content as whole, mjcf_edit, osim_edit, urdf_edit
from calibody.formats.edit import render
from calibody.formats.mjcf_edit import Plan
from calibody.formats.source import ENGINE, MJCF, OSIM, URDF, Change, Source, changes, differences
from calibody.model import Body, Model

_PASSES = 4
WRITERS = {MJCF: mjcf_edit, URDF: urdf_edit, OSIM: osim_edit}
_MESH_FILES = ("mesh", "hfield", "skin")


def content(model: Model, target: Path) -> tuple[bytes, tuple[str, ...]]:
    """The bytes to write at `target`, and sentences about what changed besides numbers."""
    source: Source = model.source
    _same_elements(model, source)
    writer: Any = WRITERS[source.format]
    wanted: list[Change] = changes(model, source.original)
    new = added_bodies(model, source)
    for _ in range(_PASSES):
        plan = writer.plan(model, source, wanted)
        for body in new:
            writer.add(plan, body)
        if not wanted and not new:
            return _final(plan, target), ()
        left = differences(model, _reread(plan))
        if not left:
            return _final(plan, target), tuple(plan.notes)
        more = [change for change in left if change not in wanted and change[1] not in [body.name for body in new]]
        if not more:
            raise writer.cannot(*left[0], source)
        wanted = wanted + more
    raise writer.cannot(*wanted[-1], source)


def added_bodies(model: Model, source: Source) -> list[Body]:
    """Bodies that the file does not have and that can be written into it: fixed to one that it has."""
    known = source.original.tables["body"]
    return [b for b in model.bodies if b.name not in known and not model.joints_of(b.name) and b.parent in known]


def _same_elements(model: Model, source: Source) -> None:
    for kind, table in model.tables.items():
        extra = set(table) ^ set(source.original.tables[kind])
        if kind == "body":
            extra -= {body.name for body in added_bodies(model, source)}
        if extra:
            raise FormatError(
                f"{kind}.{sorted(extra)[0]} is in only one of the model and {source.path.name}, so the file's text cannot be kept; "
                "write a fresh file with formats.convert."
            )


def _reread(plan: Plan) -> Model:
    """The model that the edited text describes; sites that were added are left out, the others keep their names."""
    text = _text(plan)
    try:
        model, _ = whole.read(plan.source.document.encoded(text), plan.source.path, engine=bool(plan.source.details.get(ENGINE)))
    except FormatError as error:
        raise FormatError(f"The changed numbers do not make a valid file ({str(error).rstrip('.')}); check the values.") from None
    kept = [site for site in model.sites if site.name not in plan.new_sites]
    named = zip(kept, plan.model.sites, strict=True)
    return dataclasses.replace(model, sites=tuple(dataclasses.replace(site, name=old.name) for site, old in named))


def _text(plan: Plan) -> bytes:
    touched = plan.edits.touched
    for document in plan.source.document.root.included_documents():
        if document in touched:
            plan.note(f"{document.label} is included by the file and would change; the saved file contains its content instead.")
    return render(plan.source.document, plan.edits, lambda d: d in touched or any(x in touched for x in d.root.included_documents()))


# -- another folder ----------------------------------------------------------------------------------------------------------------


def _final(plan: Plan, target: Path) -> bytes:
    """The bytes for the target's folder: paths of assets and includes that were relative to the old folder are made to fit the new one."""
    old, new = plan.source.path.parent.resolve(), target.parent.resolve()
    if old != new and plan.source.format == MJCF:
        _move_includes(plan, old, new)
        _move_assets(plan, old, new)
    elif old != new and plan.source.format == URDF:
        _move_urdf_files(plan, old, new)
    return plan.source.document.encoded(_text(plan))


def _move_includes(plan: Plan, old: Path, new: Path) -> None:
    """An included file is found beside the main file, also when the include stands in an included file; those are then inlined."""
    stack = [plan.source.document.root]
    while stack:
        element = stack.pop()
        stack += element.children
        if element.included is not None:
            name = element.attributes["file"].strip()
            if not os.path.isabs(name):
                plan.edits.set(element, file=_relative(old / name, new))
            stack.append(element.included.root)


def _move_assets(plan: Plan, old: Path, new: Path) -> None:
    root = plan.source.document.root
    files = [e for e in root.descendants() if any(a.startswith("file") for a in e.attributes)]
    directories = {}
    if any(e.tag in _MESH_FILES for e in files):
        directories["meshdir"] = _relative(old / plan.source.details["meshdir"], new)
    if any(e.tag not in _MESH_FILES for e in files):
        directories["texturedir"] = _relative(old / plan.source.details["texturedir"], new)
    if not directories:
        return
    compilers = [e for e in root.children if e.tag == "compiler"]
    if compilers:
        plan.edits.set(compilers[-1], **directories)
    else:
        plan.edits.insert(root, "<compiler " + " ".join(f'{k}="{v}"' for k, v in directories.items()) + "/>")
    plan.note("The folders of meshes and textures are given relative to the saved file.")


def _move_urdf_files(plan: Plan, old: Path, new: Path) -> None:
    """Meshes and textures given by a path relative to the old folder; `package://` and the like stay as they are."""
    for element in plan.source.document.root.descendants():
        name = element.attributes.get("filename", "")
        if name and "://" not in name and not os.path.isabs(name) and (old / name).is_file():
            plan.edits.set(element, filename=_relative(old / name, new))
            plan.note("The files of meshes and textures are given relative to the saved file.")


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
