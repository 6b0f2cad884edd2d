"""Meshes thinned for a drawing: vertices in one cell of a grid become their mean, and triangles that lose a corner go.

One size of cell for the whole mechanism, the finest that keeps the number of triangles: what is small goes first, and all bodies are drawn alike. Quadric edge collapse keeps flat faces with fewer
triangles, but takes minutes in Python for the 10^5 triangles of a robot; in a picture of some hundred pixels the two look the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from calibody.formats.meshes import Drawn

TRIANGLES = 5000
"""Of all meshes together: a canvas draws as many thirty times a second."""
FINEST, COARSEST, HALVINGS = 1e-4, 0.3, 12
"""Sizes of cells that are tried, relative to the size of the largest mesh, and how often their range is halved (in ratio)."""
SEVERAL = 0.05
"""Share of edges with two triangles on the same side from which a mesh has no outside."""


def thinned(meshes: Sequence[Drawn], most: int = TRIANGLES) -> list[Drawn]:
    """The same meshes with at most so many triangles together; of one that is too small for the grid none is left."""
    size = max((float(np.ptp(m.vertices, axis=0).max()) for m in meshes), default=0.0)
    if sum(len(m.faces) for m in meshes) <= most or not size > 0.0:
        return list(meshes)
    low, high = FINEST * size, COARSEST * size
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        if sum(len(clustered(m, middle).faces) for m in meshes) > most:
            low = middle
        else:
            high = middle
    return [clustered(m, high) for m in meshes]


def clustered(mesh: Drawn, cell: float) -> Drawn:
    """Vertices in one cell as one."""
    _, index, count = np.unique(np.floor(mesh.vertices / cell).astype(np.int64), axis=0, return_inverse=True, return_counts=True)
    index = index.reshape(-1)
    means = np.stack([np.bincount(index, x) for x in mesh.vertices.T], axis=1) / count[:, None]
    faces = index[mesh.faces]
    kept = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    faces = faces[kept]
    _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    faces = faces[np.sort(first)]
    used, again = np.unique(faces, return_inverse=True)
    return replace(mesh, vertices=means[used], faces=again.reshape(-1, 3))


def outward(mesh: Drawn) -> tuple[Drawn, bool]:
    """With its triangles turned outwards, and whether it has an outside at all: only then those turned away need not be drawn."""
    _, index = np.unique(np.round(mesh.vertices, 7), axis=0, return_inverse=True)
    faces = index.reshape(-1)[mesh.faces]
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    twice = 1.0 - len(np.unique(edges, axis=0)) / max(len(edges), 1)
    a, b, c = (mesh.vertices[mesh.faces[:, k]] - mesh.vertices.mean(axis=0) for k in range(3))
    volume = float(np.einsum("ij,ij->", a, np.cross(b, c)))
    return (replace(mesh, faces=mesh.faces[:, ::-1]) if volume < 0.0 else mesh), twice < SEVERAL
