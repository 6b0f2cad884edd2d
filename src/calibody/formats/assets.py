"""Meshes and textures that an MJCF file names but that are not there: files travel without them.

What is only drawn is left out and noted. Where a body's inertia comes from the missing mesh the file is refused, since nothing can
stand in for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from calibody.errors import FormatError
from calibody.formats.engine import mj


def drop_missing(spec: Any, label: str, folder: Path) -> list[str]:
    """Take what names a missing file out of MuJoCo's description; returns the note that says so."""
    missing = [*_missing_meshes(spec, label, folder), *_missing_textures(spec, folder)]
    shown = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
    return [f"Meshes and textures that cannot be found are not drawn: {shown}."] if missing else []


def _exists(folder: Path, directory: str, file: str, strip: bool) -> bool:
    return (folder / directory / (os.path.basename(file) if strip else file)).is_file()


def _missing_meshes(spec: Any, label: str, folder: Path) -> list[str]:
    meshes = [m for m in spec.meshes if m.file and not _exists(folder, spec.meshdir, m.file, bool(spec.strippath))]
    gone = {m.name: m.file for m in meshes}
    for geom in [g for g in spec.geoms if g.meshname in gone]:
        _needs_no_mesh(spec, geom, label, gone[geom.meshname])
        spec.delete(geom)
    for mesh in meshes:
        spec.delete(mesh)
    return list(gone.values())


def _needs_no_mesh(spec: Any, geom: Any, label: str, file: str) -> None:
    body = geom.parent
    from_shapes = spec.compiler.inertiafromgeom
    explicit = body.explicitinertial and from_shapes != mj.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    never = from_shapes == mj.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    if not (explicit or never or geom.mass == 0.0 or geom.density == 0.0 or body.name == "world"):
        raise FormatError(
            f'{label}: the inertia of body "{body.name}" comes from the mesh {file}, which cannot be found; put the file there, or give an <inertial>.'
        )


def _missing_textures(spec: Any, folder: Path) -> list[str]:
    textures = [t for t in spec.textures if t.file and not _exists(folder, spec.texturedir, t.file, bool(spec.strippath))]
    gone = {t.name: t.file for t in textures}
    for material in spec.materials:
        if gone.keys() & set(material.textures):
            material.textures = ["" if t in gone else t for t in material.textures]
    for texture in textures:
        spec.delete(texture)
    return list(gone.values())
