"""The pseudo-inertia of a body and its ten numbers.

    E = integral r~ r~' dm = [[Sigma, m c], [m c', m]],   Sigma = tr(I_o)/2 * 1 - I_o,   r~ = (r, 1)

with `m` the mass, `c` the centre of mass and `I_o` the inertia about the body's origin, all in body axes. Kinetic energy is
`tr(Hdot E Hdot')/2`, so the ten numbers enter everything linearly. A body is physically possible when `E` is positive semidefinite;
about the centre of mass that is the triangle inequality of the principal moments [wensing2018].

The ten numbers are ordered as `TEN`: the upper triangle of `E`, row by row.
"""

from __future__ import annotations

import numpy as np

TEN = ((0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3))
# Order of the six numbers of a symmetric 3x3 matrix in paths and tuples: xx yy zz xy xz yz.
SIX = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


def symmetric(six: np.ndarray | tuple) -> np.ndarray:
    """The 3x3 matrix of `(xx, yy, zz, xy, xz, yz)`."""
    out = np.empty((3, 3))
    for value, (i, j) in zip(six, SIX, strict=True):
        out[i, j] = out[j, i] = value
    return out


def six_of(matrix: np.ndarray) -> tuple[float, ...]:
    return tuple(float(matrix[i, j]) for i, j in SIX)


def second_moment(inertia: np.ndarray) -> np.ndarray:
    """`tr(I)/2 * 1 - I`: the second moment of mass that belongs to a rotational inertia about the same point."""
    return 0.5 * np.trace(inertia) * np.eye(3) - inertia


def pseudo_inertia(mass: float, com: np.ndarray | tuple, inertia: np.ndarray | tuple) -> np.ndarray:
    """The 4x4 `E` of a body from its mass, centre of mass and inertia about the centre of mass (`SIX` order), in body axes."""
    c = np.asarray(com, dtype=float)
    E = np.empty((4, 4))
    E[:3, :3] = second_moment(symmetric(inertia)) + mass * np.outer(c, c)
    E[:3, 3] = E[3, :3] = mass * c
    E[3, 3] = mass
    return E


def ten_of(E: np.ndarray) -> np.ndarray:
    return np.array([E[i, j] for i, j in TEN])


def pseudo_inertia_tangent(mass: float, com: np.ndarray | tuple, field: str, component: int) -> np.ndarray:
    """The derivative of the ten numbers with respect to `mass`, one entry of `com`, or one of the six of `inertia`."""
    c = np.asarray(com, dtype=float)
    dE = np.zeros((4, 4))
    if field == "mass":
        r = np.append(c, 1.0)
        dE = np.outer(r, r)
    elif field == "com":
        axis = np.eye(3)[component]
        dE[:3, :3] = mass * (np.outer(axis, c) + np.outer(c, axis))
        dE[:3, 3] = dE[3, :3] = mass * axis
    else:
        unit = np.zeros(6)
        unit[component] = 1.0
        dE[:3, :3] = second_moment(symmetric(unit))
    return ten_of(dE)


def smallest_principal_second_moment(inertia: np.ndarray | tuple) -> tuple[float, float]:
    """The smallest eigenvalue of the second moment about the centre of mass, and the largest principal moment for scale."""
    I = symmetric(inertia)
    return float(np.linalg.eigvalsh(second_moment(I))[0]), float(np.abs(np.linalg.eigvalsh(I)).max())
