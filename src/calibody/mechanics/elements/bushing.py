"""A 6x6 spring-damper between two frames: a joint force on the six coordinates `d = (displacement in frame a, rotation vector)`.

    t = -K m - c(m) - D (d_R - d_L)/h,  m = (d_L + d_R)/2,   contribution at a node = -(h/2) A' t,   A = d d/d(twist) at that node
    c_i(m) = k_plus_i max(m_i, 0) + k_minus_i min(m_i, 0) + k3_i m_i^3

`d` does not change when both links move together, so the two wrenches are equal and opposite. With `(f, m) = t`, the displacement `r`
and the rotation vector `phi`, the wrench on b is the force `R_a f` at b's point and the moment `R_b Jr(phi)^-T m` (`ball.py` for Jr):

    Jr^-T m = m - phi x m/2 + k phi x (phi x m),   k = 1/x - cot(sqrt(x)/2)/(2 sqrt(x)),   x = |phi|^2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibody.mechanics.elements.ball import inverse_right_jacobian
from calibody.mechanics.elements.base import ON_SECOND, Blocks, Force, Measure, Poses, two_bodies
from calibody.mechanics.elements.wrenches import line_wrench, line_wrench_turned, spin
from calibody.model import Bushing
from calibody.spatial import algebra as al

Frame = tuple[al.Vector, al.Matrix]


def frames(poses: Poses, data: Any) -> tuple[Frame, Frame]:
    """Point and axes of the two frames in the world."""
    a, b = poses
    Ra, Rb = (tuple(tuple(data[6 + 9 * k + 3 * i : 9 + 9 * k + 3 * i]) for i in range(3)) for k in (0, 1))
    frame_a = (al.point(a, tuple(data[:3])), al.matmul(al.rotation_part(a), Ra))  # type: ignore[arg-type]
    return frame_a, (al.point(b, tuple(data[3:6])), al.matmul(al.rotation_part(b), Rb))  # type: ignore[arg-type]


def matrices(data: Any) -> tuple[tuple, tuple]:
    return tuple(tuple(data[24 + 6 * i : 30 + 6 * i]) for i in range(6)), tuple(tuple(data[60 + 6 * i : 66 + 6 * i]) for i in range(6))


def value(poses: Poses, data: Any) -> tuple:
    """`d = (R_a' (p_b - p_a), log(R_a' R_b))`."""
    a, b = frames(poses, data)
    return (*al.matvec(al.transpose(a[1]), al.sub(b[0], a[0])), *_rotation(a, b))


def wrenches(poses: Poses, data: Any) -> tuple:
    """`A` on b."""
    a, b = frames(poses, data)
    zero = 0.0 * b[0][0]
    turn = al.matmul(inverse_right_jacobian(_rotation(a, b)), al.transpose(b[1]))
    return (*((line_wrench(b[0], axis),) for axis in al.transpose(a[1])), *(((*row, zero, zero, zero),) for row in turn))


def _rotation(a: Frame, b: Frame) -> al.Vector:
    """`phi`."""
    return al.matrix_log(al.matmul(al.transpose(a[1]), b[1]))


def impulse(dL: tuple, dR: tuple, data: Any, h: Any) -> tuple[tuple, tuple, tuple]:
    """`-(h/2) t`, and its 6x6 derivatives with respect to `d_L` and `d_R`."""
    K, D = matrices(data)
    mean, rate = al.scale(0.5, al.add(dL, dR)), al.scale(1.0 / h, al.sub(dR, dL))
    bent, slopes, _ = curved(mean, data)
    value = al.scale(0.5 * h, al.add(al.add(al.matvec(K, mean), bent), al.matvec(D, rate)))
    zero = 0.0 * mean[0]
    S = tuple(tuple(k + (slope if i == j else zero) for j, k in enumerate(row)) for i, (row, slope) in enumerate(zip(K, slopes, strict=True)))
    by_L = tuple(tuple(0.25 * h * k - 0.5 * d for k, d in zip(x, y, strict=True)) for x, y in zip(S, D, strict=True))
    by_R = tuple(tuple(0.25 * h * k + 0.5 * d for k, d in zip(x, y, strict=True)) for x, y in zip(S, D, strict=True))
    return value, by_L, by_R


def curved(d: tuple, data: Any) -> tuple[tuple, tuple, Any]:
    """c of the six coordinates, its slopes, and the energy of all."""
    force, slopes, energy = [], [], 0.0
    for x, plus, minus, cubic in zip(d, data[96:102], data[102:108], data[108:114], strict=True):
        k = al.library(x).where(x > 0.0, plus, minus)
        force.append((k + cubic * x * x) * x)
        slopes.append(k + 3.0 * cubic * x * x)
        energy = energy + (0.5 * k + 0.25 * cubic * x * x) * x * x
    return tuple(force), tuple(slopes), energy


def _moment_by_rotation(phi: al.Vector, m: al.Vector) -> tuple:
    """d(Jr^-T m)/dphi, 3x3."""
    x = al.dot(phi, phi)
    lib = al.library(x)
    small = x < 1e-3  # the series below are then exact to 1e-15
    safe = lib.where(small, 1.0, x)
    t = lib.sqrt(safe)
    cot = 1.0 / lib.tan(0.5 * t)
    k = lib.where(small, 1 / 12 + x / 720 + x * x / 30240 + x * x * x / 1209600, 1.0 / safe - 0.5 * cot / t)
    k_x = lib.where(small, 1 / 720 + x / 15120 + x * x / 403200, -1.0 / (safe * safe) + 0.125 * (1.0 + cot * cot) / safe + 0.25 * cot / (safe * t))
    inner = al.cross(phi, m)
    outer = al.cross(phi, inner)
    columns = []
    for i in range(3):
        e = tuple((1.0 if j == i else 0.0) + 0.0 * x for j in range(3))
        column = al.scale(-0.5, al.cross(e, m))  # type: ignore[arg-type]
        column = al.add(column, al.scale(2.0 * k_x * phi[i], outer))
        twice = al.add(al.cross(e, inner), al.cross(phi, al.cross(e, m)))  # type: ignore[arg-type]
        columns.append(al.add(column, al.scale(k, twice)))
    return al.transpose(tuple(columns))


def turned(poses: Poses, data: Any, t: Any) -> Blocks:
    """The change of the wrench `A' t` on b, t held, with the twists of b and of a."""
    a, b = frames(poses, data)
    F = al.matvec(a[1], tuple(t[:3]))
    by_point, by_direction = line_wrench_turned(b[0], F, 1.0 + 0.0 * F[0])
    phi, m = _rotation(a, b), tuple(t[3:])
    J = inverse_right_jacobian(phi)
    spun = spin(al.matvec(b[1], al.matvec(al.transpose(J), m)))  # w_b x M
    by_phi = al.matmul(b[1], _moment_by_rotation(phi, m))  # type: ignore[arg-type]
    change = al.matmul(by_phi, al.matmul(J, al.transpose(b[1])))  # by w_b - w_a
    by_b = tuple((*(x + y + z for x, y, z in zip(row[:3], c, s, strict=True)), *row[3:]) for row, c, s in zip(by_point, change, spun, strict=True))
    by_a = tuple(tuple(x - y for x, y in zip(row, c, strict=True)) for row, c in zip(by_direction[:3], change, strict=True))
    return {(0, 1): by_b, (0, 0): (*by_a, *by_direction[3:])}


def energy(d: tuple, data: Any) -> Any:
    """Of the symmetric part of K, and of c."""
    return 0.5 * al.dot(d, al.matvec(matrices(data)[0], d)) + curved(d, data)[2]


def numbers(bushing: Bushing) -> Sequence[float]:
    turns = [np.array(al.quaternion_matrix(al.quaternion_normalised(q)), dtype=float).ravel() for q in (bushing.orientation1, bushing.orientation2)]
    return [*bushing.point1, *bushing.point2, *turns[0], *turns[1], *bushing.stiffness, *bushing.damping, *bushing.k_plus, *bushing.k_minus, *bushing.k3]


TYPE = Force("bushing", Measure(6, ON_SECOND, value, wrenches, turned), two_bodies, numbers, impulse, energy)
