"""The meshes that a model's file draws its bodies with, where they are found: in the body's frame, each with its colour.

Of MJCF MuJoCo's compiler reads them, with their scales and reference poses. Of URDF the files of `<visual>` (of `<collision>` for a link without) are read here: `package://NAME/...` is looked for in the folders
above the file and in `ROS_PACKAGE_PATH`. What is missing or cannot be read is not drawn; nothing depends on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError, FormatError
from calibody.formats.source import MJCF
from calibody.formats.triangles import read

if TYPE_CHECKING:
    from calibody.formats.edit import Element
    from calibody.formats.source import Source
    from calibody.model import Model

PACKAGE, FILE = "package://", "file://"
VISIBLE = 2
"""The last of MuJoCo's groups of shapes that its viewer shows unasked."""
PLAIN = (0.72, 0.74, 0.77)
"""Of what has no colour."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """A mesh on a body."""

    body: str
    vertices: np.ndarray
    """(n, 3) in the body's frame [m]."""
    faces: np.ndarray
    color: tuple[float, float, float]


def meshes(model: Model) -> list[Drawn]:
    """All that are found; none of a model built in Python."""
    if model.source is None:
        return []
    try:
        found = list(_of_mjcf(model.source) if model.source.format == MJCF else _of_urdf(model.source))
    except CalibodyError:  # the file has changed since it was read
        return []
    known = {"world", *(body.name for body in model.bodies)}
    return [d for d in found if d.body in known and len(d.faces)]


# -- MJCF --------------------------------------------------------------------------------------------------------------------------


def _of_mjcf(source: Source) -> Iterator[Drawn]:
    from calibody.formats.engine import mj
    from calibody.formats.mjcf import compiled

    _, m, _, _ = compiled(source.document, source.path)
    bodies = [m.body(i).name if i else "world" for i in range(m.nbody)]
    shapes = [i for i in range(m.ngeom) if m.geom_type[i] == mj.mjtGeom.mjGEOM_MESH]
    seen = {int(m.geom_bodyid[i]) for i in shapes if m.geom_group[i] <= VISIBLE}
    for i in shapes:
        body, k = int(m.geom_bodyid[i]), int(m.geom_dataid[i])
        if m.geom_group[i] > VISIBLE and body in seen:  # a second time, for collisions
            continue
        vertices = m.mesh_vert[m.mesh_vertadr[k] : m.mesh_vertadr[k] + m.mesh_vertnum[k]].astype(float)
        faces = m.mesh_face[m.mesh_faceadr[k] : m.mesh_faceadr[k] + m.mesh_facenum[k]].astype(np.int64)
        turn = np.zeros(9)
        mj.mju_quat2Mat(turn, m.geom_quat[i])
        material = int(m.geom_matid[i])
        rgba = m.mat_rgba[material] if material >= 0 and np.allclose(m.geom_rgba[i], [0.5, 0.5, 0.5, 1.0]) else m.geom_rgba[i]
        yield Drawn(bodies[body], vertices @ turn.reshape(3, 3).T + m.geom_pos[i], faces, _color(rgba))


def _color(rgba: Any) -> tuple[float, float, float]:
    """The plain one for MuJoCo's default, half grey."""
    r, g, b = (float(x) for x in rgba[:3])
    return PLAIN if (r, g, b) == (0.5, 0.5, 0.5) else (r, g, b)


# -- URDF --------------------------------------------------------------------------------------------------------------------------


def _of_urdf(source: Source) -> Iterator[Drawn]:
    links = [e for e in source.document.root.children if e.tag == "link"]
    materials = {e.attributes.get("name", ""): rgba for e in source.document.root.descendants() if e.tag == "material" and (rgba := _rgba(e)) is not None}
    for link in links:
        shown = [e for e in link.children if e.tag == "visual"] or [e for e in link.children if e.tag == "collision"]
        for shape in shown:
            yield from _shape(link.attributes.get("name", ""), shape, source.path.parent, materials)


def _shape(body: str, shape: Element, folder: Path, materials: dict[str, tuple[float, float, float]]) -> Iterator[Drawn]:
    geometry = shape.first("geometry")
    mesh = None if geometry is None else geometry.first("mesh")
    path = None if mesh is None else found(mesh.attributes.get("filename", ""), folder)
    if mesh is None or path is None:
        return
    scale = _floats(mesh.attributes.get("scale"), (1.0, 1.0, 1.0))
    origin, material = shape.first("origin"), shape.first("material")
    place = {} if origin is None else origin.attributes
    turn, at = _rotation(_floats(place.get("rpy"), (0.0, 0.0, 0.0))), _floats(place.get("xyz"), (0.0, 0.0, 0.0))
    own = None if material is None else _rgba(material) or materials.get(material.attributes.get("name", ""))
    try:
        pieces = read(path)
    except FormatError:
        return
    for piece in pieces:
        faces = piece.faces if np.prod(scale) > 0.0 else piece.faces[:, ::-1]
        yield Drawn(body, (piece.vertices * scale) @ turn.T + at, faces, piece.color or own or PLAIN)


def found(name: str, folder: Path) -> Path | None:
    """The file that a URDF names, if it is there."""
    if not name:
        return None
    if not name.startswith(PACKAGE):
        path = folder / name.removeprefix(FILE)
        return path if path.is_file() else None
    package, _, rest = name.removeprefix(PACKAGE).partition("/")
    above = [folder, *folder.resolve().parents]
    given = [Path(p) for p in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if p]
    tried = [path for base in (*above, *given) for path in (base / package / rest, base / rest)]
    return next((path for path in tried if path.is_file()), None)


def _floats(text: str | None, default: tuple[float, float, float]) -> np.ndarray:
    try:
        values = np.array((text or "").split(), dtype=float)
    except ValueError:
        return np.array(default)
    return values if values.shape == (3,) else np.array(default)


def _rotation(rpy: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_euler("xyz", rpy).as_matrix()


def _rgba(material: Element) -> tuple[float, float, float] | None:
    color = material.first("color")
    if color is None:
        return None
    values = color.attributes.get("rgba", "").split()
    try:
        r, g, b = (float(x) for x in values[:3])
    except ValueError:
        return None
    return r, g, b
