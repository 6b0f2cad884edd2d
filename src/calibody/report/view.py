"""`model.view()`: a model in three dimensions as a plotly figure, for notebooks and scripts. The shapes are those of the report's replay (`experiment/scene.py`), cut into triangles here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.experiment.scene import still

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from calibody.model import Model

AROUND, ALONG = 24, 6
"""Corners of a circle, and of a quarter of one."""
TONES = ("#5b7fa6", "#c08457", "#6d9f71", "#9a7fb0", "#b3a15c", "#5fa0a3")
WORLD = "#b4bac2"
Triangles = tuple[np.ndarray, np.ndarray]
"""Points (n, 3) and the three indices of every triangle (m, 3)."""


def view(model: Model, initial: Mapping[str, Any] | None = None) -> Figure:
    """The bodies where `initial` puts them, each in a colour of its own, with the axes of the world."""
    from plotly import graph_objects as go

    scene = still(model, initial)
    order = {body.name: k for k, body in enumerate(model.bodies)}
    figure, named = go.Figure(), set[str]()
    for shape in scene["shapes"]:
        body = shape["body"]
        points, faces = _triangles(shape)
        local = _rotation(shape["orientation"]).apply(points) + shape["position"]
        pose = np.array(scene["poses"].get(body, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]))
        world = _rotation(pose[3:]).apply(local) + pose[:3]
        (x, y, z), (i, j, k) = world.T, faces.T
        tone = TONES[order[body] % len(TONES)] if body in order else WORLD
        figure.add_mesh3d(
            **{"x": x, "y": y, "z": z, "i": i, "j": j, "k": k},
            **{"color": tone, "flatshading": shape["kind"] == "box", "name": body, "legendgroup": body, "showlegend": body not in named, "hoverinfo": "name"},
        )
        named.add(body)
    axes = {f"{axis}axis": {"title": f"{axis} [m]", "backgroundcolor": "rgba(0,0,0,0)", "gridcolor": "#d5dae0"} for axis in "xyz"}
    return figure.update_layout(
        template="plotly_white", title=model.name, height=520, margin={"l": 0, "r": 0, "t": 40, "b": 0}, scene={**axes, "aspectmode": "data"}
    )


def _rotation(wxyz: Any) -> Any:
    from scipy.spatial.transform import Rotation

    w, x, y, z = wxyz
    return Rotation.from_quat([x, y, z, w])


def _triangles(shape: Mapping[str, Any]) -> Triangles:
    """In the shape's own frame; sizes as in MJCF (radii and halves of lengths)."""
    size = shape["size"]
    match shape["kind"]:
        case "mesh":
            return np.array(shape["points"], dtype=float).reshape(-1, 3), np.array(shape["faces"], dtype=int).reshape(-1, 3)
        case "box":
            return _box(np.array(size[:3]))
        case "sphere":
            return _turned(_arc(size[0], 0.0))
        case "ellipsoid":
            points, faces = _turned(_arc(1.0, 0.0))
            return points * np.array(size[:3]), faces
        case "cylinder":
            r, half = size[:2]
            return _turned(np.array([(0.0, -half), (r, -half), (r, half), (0.0, half)]))
        case _:
            return _turned(_arc(size[0], size[1]))


def _arc(radius: float, half: float) -> np.ndarray:
    """The outline (distance from the axis, height) of a capsule from its lower end to its upper one; of a sphere without a middle part."""
    angles = np.linspace(0.0, np.pi / 2, ALONG + 1)
    lower = np.stack([radius * np.sin(angles), -half - radius * np.cos(angles)], axis=1)
    return np.concatenate([lower, lower[::-1] * [1.0, -1.0]])


def _turned(outline: np.ndarray) -> Triangles:
    """The surface that an outline makes about the z axis."""
    turn = 2.0 * np.pi * np.arange(AROUND) / AROUND
    points = np.stack([np.outer(outline[:, 0], np.cos(turn)), np.outer(outline[:, 0], np.sin(turn)), np.outer(outline[:, 1], np.ones(AROUND))], axis=2)
    here = np.arange(len(outline) - 1)[:, None] * AROUND + np.arange(AROUND)
    beside = np.arange(len(outline) - 1)[:, None] * AROUND + (np.arange(AROUND) + 1) % AROUND
    lower = np.stack([here, beside, here + AROUND], axis=2)
    upper = np.stack([beside, beside + AROUND, here + AROUND], axis=2)
    return points.reshape(-1, 3), np.concatenate([lower.reshape(-1, 3), upper.reshape(-1, 3)])


def _box(half: np.ndarray) -> Triangles:
    corners = half * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    squares = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    return corners, np.array([(a, b, c) for a, b, c, _ in squares] + [(a, c, d) for a, _, c, d in squares])
