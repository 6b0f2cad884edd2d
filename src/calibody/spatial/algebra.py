"""Vectors, rotations and poses as tuples of scalars.

A vector is `(x, y, z)`, a matrix a tuple of rows, a pose the 3x4 matrix `H = [R | o]` (columns: three axes and the origin). A "scalar"
is whatever supports arithmetic: a float, a numpy array (struct-of-arrays, the batch axis last) or a traced value inside a kernel. So a
formula is written once and serves the host, a batch over time and a compiled step. Only functions that need `sin`, `sqrt` or `where`
look at which library the scalars belong to.

Quaternions are `(w, x, y, z)`, unit, and rotate the body's axes into the world: `R(e) r`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Scalar = Any
Vector = tuple[Scalar, Scalar, Scalar]
Matrix = tuple[Vector, Vector, Vector]
Pose = tuple[tuple[Scalar, ...], ...]
Quaternion = tuple[Scalar, Scalar, Scalar, Scalar]

# Below this squared angle the Taylor series of sin(x)/x and its relatives, cut after the second correction, are exact to 1e-17.
SMALL_ANGLE_SQUARED = 1e-5


def library(scalar: Scalar) -> Any:
    """numpy for floats and numpy arrays, jax.numpy for everything that jax traces or owns."""
    if isinstance(scalar, (float, int, complex, np.ndarray, np.generic)):
        return np
    import jax.numpy

    return jax.numpy


def add(a: tuple, b: tuple) -> Any:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def sub(a: tuple, b: tuple) -> Any:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def scale(s: Scalar, a: tuple) -> Any:
    return tuple(s * x for x in a)


def dot(a: tuple, b: tuple) -> Scalar:
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def cross(a: Vector, b: Vector) -> Vector:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def matvec(m: tuple, v: tuple) -> Any:
    return tuple(dot(row, v) for row in m)


def transpose(m: tuple) -> Any:
    return tuple(zip(*m, strict=True))


def matmul(a: tuple, b: tuple) -> Any:
    columns = transpose(b)
    return tuple(tuple(dot(row, column) for column in columns) for row in a)


def rotation_part(H: Pose) -> Matrix:
    return tuple(row[:3] for row in H)  # type: ignore[return-value]


def origin(H: Pose) -> Vector:
    return (H[0][3], H[1][3], H[2][3])


def pose(R: Matrix, o: Vector) -> Pose:
    return tuple((*row, x) for row, x in zip(R, o, strict=True))


def point(H: Pose, r: Vector) -> Vector:
    """`H r~` with `r~ = (r, 1)`: where the point fixed in the body at `r` is."""
    return tuple(row[0] * r[0] + row[1] * r[1] + row[2] * r[2] + row[3] for row in H)  # type: ignore[return-value]


def direction(H: Pose, d: Vector) -> Vector:
    """`R d`: where the direction fixed in the body points."""
    return tuple(row[0] * d[0] + row[1] * d[1] + row[2] * d[2] for row in H)  # type: ignore[return-value]


def compose(A: Pose, B: Pose) -> Pose:
    """The pose `B`, given in the frame `A`, seen from where `A` is given."""
    R = matmul(rotation_part(A), rotation_part(B))
    return pose(R, point(A, origin(B)))


def axis_angle(axis: Vector, angle: Scalar) -> Matrix:
    """Rodrigues: the rotation by `angle` about the unit vector `axis`."""
    lib = library(angle)
    c, s = lib.cos(angle), lib.sin(angle)
    x, y, z = axis
    k = 1.0 - c
    return (
        (c + k * x * x, k * x * y - s * z, k * x * z + s * y),
        (k * x * y + s * z, c + k * y * y, k * y * z - s * x),
        (k * x * z - s * y, k * y * z + s * x, c + k * z * z),
    )


def quaternion_matrix(e: Quaternion) -> Matrix:
    w, x, y, z = e
    return (
        (w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z),
    )


def quaternion_product(a: Quaternion, b: Quaternion) -> Quaternion:
    return (
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


def quaternion_conjugate(e: Quaternion) -> Quaternion:
    return (e[0], -e[1], -e[2], -e[3])


def quaternion_normalised(e: Quaternion) -> Quaternion:
    norm = library(e[0]).sqrt(dot(e, e))
    return tuple(x / norm for x in e)  # type: ignore[return-value]


def quaternion_exp(r: Vector) -> Quaternion:
    """The quaternion of the rotation vector `r` (its length is the angle)."""
    t2 = dot(r, r)
    lib = library(t2)
    small = t2 < SMALL_ANGLE_SQUARED
    t = lib.sqrt(lib.where(small, 1.0, t2))
    series = 0.5 - t2 / 48.0 + t2 * t2 / 3840.0
    k = lib.where(small, series, lib.sin(0.5 * t) / t)
    w = lib.where(small, 1.0 - t2 / 8.0 + t2 * t2 / 384.0 - t2 * t2 * t2 / 46080.0, lib.cos(0.5 * t))
    return (w, k * r[0], k * r[1], k * r[2])


def quaternion_log(e: Quaternion) -> Vector:
    """The rotation vector (angle at most pi) of a unit quaternion; its inverse is `quaternion_exp`.

    `r = 2 atan2(|v|, w) v/|v|` with the sign of `e` chosen so that `w >= 0`. Near `v = 0` the factor is the series
    `(2/w)(1 - u/3 + u^2/5 - u^3/7)`, `u = |v|^2/w^2`, exact to 1e-17 below `SMALL_ANGLE_SQUARED`.
    """
    lib = library(e[0])
    sign = lib.where(e[0] < 0.0, -1.0, 1.0)
    w = sign * e[0]
    v = (sign * e[1], sign * e[2], sign * e[3])
    n2 = dot(v, v)
    small = n2 < SMALL_ANGLE_SQUARED
    n = lib.sqrt(lib.where(small, 1.0, n2))
    safe_w = lib.where(small, w, 1.0)
    u = n2 / (safe_w * safe_w)
    series = (2.0 / safe_w) * (1.0 - u / 3.0 + u * u / 5.0 - u * u * u / 7.0)
    k = lib.where(small, series, 2.0 * lib.arctan2(n, lib.where(small, 1.0, w)) / n)
    return (k * v[0], k * v[1], k * v[2])


def matrix_log(R: Matrix) -> Vector:
    """The rotation vector of a rotation by less than pi, from `R` alone (no quaternion): `theta/(2 sin theta) * vee(R - R')`.

    With `s = |vee(R - R')|/2 = sin(theta)` and `c = (tr R - 1)/2`, `theta = atan2(s, c)`. Accurate up to about pi - 1e-6; the rotations
    it is used for (one interval, or a joint spring) stay below that.
    """
    v, _, _, _, _, k = _log_parts(R)
    return (k * v[0], k * v[1], k * v[2])


def _log_parts(R: Matrix) -> tuple[Vector, Scalar, Scalar, Scalar, Scalar, Scalar]:
    """`v = vee(R - R')/2`, c, s (1 where the angle is small), s^2, whether it is small, and `k = theta/s`."""
    v = (0.5 * (R[2][1] - R[1][2]), 0.5 * (R[0][2] - R[2][0]), 0.5 * (R[1][0] - R[0][1]))
    c = 0.5 * (R[0][0] + R[1][1] + R[2][2] - 1.0)
    s2 = dot(v, v)
    lib = library(s2)
    small = lib.logical_and(s2 < SMALL_ANGLE_SQUARED, c > 0.0)
    s = lib.sqrt(lib.where(small, 1.0, lib.where(s2 > 0.0, s2, 1.0)))
    series = 1.0 + s2 / 6.0 + 3.0 * s2 * s2 / 40.0 + 5.0 * s2 * s2 * s2 / 112.0  # arcsin(s)/s
    return v, c, s, s2, small, lib.where(small, series, lib.arctan2(s, c) / s)


def matrix_log_slope(R: Matrix, component: int) -> Matrix:
    """Derivative of one component of `matrix_log` with respect to the nine entries of `R`.

    With `k = theta/s`, `dr = k dv + v dk`, `dk = beta v . dv + gamma dc`: `beta = (c s/(s^2 + c^2) - theta)/s^3` and `gamma = -1/(s^2 + c^2)`. Near the
    identity `matrix_log` does not look at c, so that `gamma = 0` and `beta = 1/3 + 3 s^2/10 + 15 s^4/56` there. As `dv = vee(dR - dR')/2` and `dc = tr(dR)/2`,
    the matrix is `([k e + v_i beta v]x + v_i gamma 1)/2` for the component i.
    """
    v, c, s, s2, small, k = _log_parts(R)
    lib, size = library(s2), s * s + c * c
    beta = lib.where(small, 1.0 / 3.0 + 0.3 * s2 + 15.0 * s2 * s2 / 56.0, (c / size - k) / (s * s))
    own = v[component]
    x, y, z = (0.5 * (own * beta * v[i] + (k if i == component else 0.0)) for i in range(3))
    d = lib.where(small, 0.0, -0.5 * own / size)
    return ((d, -z, y), (z, d, -x), (-y, x, d))


def matrix_quaternion(R: Any) -> np.ndarray:
    """The quaternion of a rotation matrix (host only; Shepperd's choice of the largest component)."""
    R = np.asarray(R, dtype=float)
    trace = np.trace(R)
    candidates = np.array([trace, R[0, 0], R[1, 1], R[2, 2]])
    i = int(np.argmax(candidates))
    if i == 0:
        e = np.array([1.0 + trace, R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    else:
        a, b, c = i - 1, i % 3, (i + 1) % 3
        e = np.empty(4)
        e[0] = R[c, b] - R[b, c]
        e[1 + a] = 1.0 + R[a, a] - R[b, b] - R[c, c]
        e[1 + b] = R[a, b] + R[b, a]
        e[1 + c] = R[a, c] + R[c, a]
    e /= np.linalg.norm(e)
    return -e if e[0] < 0 else e


def unpack_pose(array: Any) -> Pose:
    """A (3, 4, ...) array as a tuple of rows of scalars."""
    return tuple(tuple(array[i, j] for j in range(4)) for i in range(3))


def pack_pose(H: Pose) -> Any:
    """The inverse of `unpack_pose`."""
    lib = library(H[0][0])
    return lib.stack([lib.stack(list(row)) for row in H])
