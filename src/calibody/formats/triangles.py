"""Files of triangles: STL (both kinds), OBJ and COLLADA (DAE), as far as a drawing needs them.

Every reader gives pieces of one colour each: vertices (n, 3) in the file's own frame, triangles (m, 3) of their indices, and a colour where the file has one. Of COLLADA the scene's transformations and its unit of
length are applied; which axis it calls up is not, as in every viewer of robots.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from calibody.errors import FormatError

Color = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Piece:
    vertices: np.ndarray
    faces: np.ndarray
    color: Color | None = None


def read(path: Path) -> list[Piece]:
    """The triangles of a file, by its suffix."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise FormatError(f"{path.name} is no mesh that can be drawn; give one of {', '.join(READERS)}.")
    try:
        pieces = [p for p in reader(path) if len(p.faces)]
    except (OSError, ValueError, IndexError, KeyError, struct.error, ElementTree.ParseError) as error:
        raise FormatError(f"{path.name} cannot be read as a mesh ({str(error).splitlines()[0] if str(error) else type(error).__name__}).") from None
    if any(not np.isfinite(p.vertices).all() or p.faces.min() < 0 or p.faces.max() >= len(p.vertices) for p in pieces):
        raise FormatError(f"{path.name} names vertices that it does not have.")
    return pieces


# -- STL ---------------------------------------------------------------------------------------------------------------------------


def _stl(path: Path) -> Iterator[Piece]:
    data = path.read_bytes()
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else -1
    if len(data) == 84 + 50 * count:  # the only reliable sign: the text kind begins with "solid", and so do some binary ones
        records = np.frombuffer(data, dtype=np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")]), offset=84, count=count)
        corners = records["corners"].reshape(-1, 3).astype(float)
    else:
        lines = (line.split() for line in data.decode("latin-1").splitlines())
        corners = np.array([[float(x) for x in words[1:4]] for words in lines if words[:1] == ["vertex"]], dtype=float).reshape(-1, 3)
    vertices, index = np.unique(corners, axis=0, return_inverse=True)
    yield Piece(vertices, index.reshape(-1, 3))


# -- OBJ ---------------------------------------------------------------------------------------------------------------------------


def _obj(path: Path) -> Iterator[Piece]:
    vertices: list[list[float]] = []
    faces: list[tuple[int, int, int]] = []
    for line in path.read_text(encoding="latin-1").splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            vertices.append([float(x) for x in words[1:4]])
        elif words[:1] == ["f"]:
            corners = [int(word.split("/")[0]) for word in words[1:]]
            faces += _fan([c - 1 if c > 0 else len(vertices) + c for c in corners])
    yield Piece(np.array(vertices, dtype=float).reshape(-1, 3), np.array(faces, dtype=np.int64).reshape(-1, 3))


def _fan(corners: list[int]) -> list[tuple[int, int, int]]:
    """A polygon as triangles."""
    return [(corners[0], b, c) for b, c in pairwise(corners[1:])]


# -- COLLADA -----------------------------------------------------------------------------------------------------------------------


def _dae(path: Path) -> Iterator[Piece]:
    root = ElementTree.parse(path).getroot()
    for element in root.iter():  # names without their namespace
        element.tag = element.tag.rpartition("}")[2]
    unit = root.find("asset/unit")
    scale = float(unit.get("meter", "1")) if unit is not None else 1.0
    shapes = {g.get("id"): list(_shapes(g)) for g in root.iter("geometry")}
    colors = _colors(root)
    scenes = [node for scene in root.iter("visual_scene") for node in scene.findall("node")]
    for node in scenes:
        for matrix, instance in _instances(node, np.diag([scale, scale, scale, 1.0])):
            bound = {m.get("symbol"): str(m.get("target", "")).lstrip("#") for m in instance.iter("instance_material")}
            for vertices, faces, symbol in shapes.get(str(instance.get("url", "")).lstrip("#"), []):
                yield Piece(vertices @ matrix[:3, :3].T + matrix[:3, 3], faces, colors.get(bound.get(symbol, str(symbol))))


def _instances(node: Any, above: np.ndarray) -> Iterator[tuple[np.ndarray, Any]]:
    """Every geometry that a node and those below it show, and where."""
    matrix = above @ _transformation(node)
    for instance in node.findall("instance_geometry"):
        yield matrix, instance
    for child in node.findall("node"):
        yield from _instances(child, matrix)


def _transformation(node: Any) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    out = np.eye(4)
    for step in node:
        if step.tag not in ("matrix", "translate", "rotate", "scale"):
            continue
        x, here = _numbers(step), np.eye(4)
        if step.tag == "matrix":
            here = x.reshape(4, 4)
        elif step.tag == "translate":
            here[:3, 3] = x
        elif step.tag == "scale":
            here[:3, :3] = np.diag(x)
        else:
            here[:3, :3] = Rotation.from_rotvec(np.radians(x[3]) * x[:3] / (np.linalg.norm(x[:3]) or 1.0)).as_matrix()
        out = out @ here
    return out


def _numbers(element: Any) -> np.ndarray:
    return np.array((element.text or "").split(), dtype=float)


def _shapes(geometry: Any) -> Iterator[tuple[np.ndarray, np.ndarray, str | None]]:
    """Vertices, triangles and the name of the material of each part of a geometry."""
    mesh = geometry.find("mesh")
    if mesh is None:
        return
    sources = {s.get("id"): _numbers(array).reshape(-1, 3) for s in mesh.findall("source") if (array := s.find("float_array")) is not None and _three(s)}
    positions = {v.get("id"): _source(v.find("input[@semantic='POSITION']")) for v in mesh.findall("vertices")}
    for part in mesh:
        if part.tag not in ("triangles", "polylist", "polygons"):
            continue
        inputs = part.findall("input")
        corner = next(i for i in inputs if i.get("semantic") == "VERTEX")
        width, offset = 1 + max(int(i.get("offset", "0")) for i in inputs), int(corner.get("offset", "0"))
        lists = [np.array((p.text or "").split(), dtype=np.int64)[offset::width] for p in part.findall("p")]
        faces: list[tuple[int, int, int]] | np.ndarray
        if part.tag == "triangles":
            faces = np.concatenate(lists or [np.zeros(0, dtype=np.int64)]).reshape(-1, 3)
        elif part.tag == "polygons":
            faces = [triangle for corners in lists for triangle in _fan(corners.tolist())]
        else:
            count = part.find("vcount")
            ends = np.cumsum(np.array((count.text or "").split() if count is not None else [], dtype=np.int64))
            faces = [triangle for corners in np.split(lists[0], ends[:-1]) for triangle in _fan(corners.tolist())]
        yield sources[positions[_source(corner)]], np.array(faces, dtype=np.int64).reshape(-1, 3), part.get("material")


def _three(source: Any) -> bool:
    accessor = source.find("technique_common/accessor")
    return accessor is not None and accessor.get("stride", "1") == "3"


def _source(element: Any) -> str:
    return str(element.get("source", "")).lstrip("#")


def _colors(root: Any) -> dict[str, Color]:
    """The diffuse colour of every material that has one."""
    effects = {}
    for effect in root.iter("effect"):
        color = effect.find(".//diffuse/color")
        if color is not None:
            x = _numbers(color)
            effects[effect.get("id")] = (float(x[0]), float(x[1]), float(x[2]))
    out = {}
    for material in root.iter("material"):
        instance = material.find("instance_effect")
        if instance is not None and (url := str(instance.get("url", "")).lstrip("#")) in effects:
            out[material.get("id")] = effects[url]
    return out


READERS = {".stl": _stl, ".obj": _obj, ".dae": _dae}
