"""A 6x6 spring-damper between two frames: a joint force on the six coordinates `d = (displacement in frame a, rotation vector)`.

    t = -K (d_L + d_R)/2 - D (d_R - d_L)/h,   contribution at a node = -(h/2) A' t,   A = d d/d(twist) at that node

`d` does not change when both links move together, so the two wrenches are equal and opposite. With `(f, m) = t`, the displacement `r`
and the rotation vector `phi`, the wrench on b is the force `R_a f` at b's point and the moment `R_b Jr(phi)^-T m` (`ball.py` for Jr):

    Jr^-T m = m - phi x m/2 + k phi x (phi x m),   k = 1/x - cot(sqrt(x)/2)/(2 sqrt(x)),   x = |phi|^2
"""

from __future__ import annotations

from typing import Any

from calibody.mechanics.elements.ball import inverse_right_jacobian
from calibody.mechanics.elements.constraint import line_wrench, line_wrench_turned
from calibody.spatial import algebra as al

Frame = tuple[al.Vector, al.Matrix]


def frames(a: al.Pose, b: al.Pose, data: Any) -> tuple[Frame, Frame]:
    """Point and axes of the two frames in the world."""
    Ra, Rb = (tuple(tuple(data[6 + 9 * k + 3 * i : 9 + 9 * k + 3 * i]) for i in range(3)) for k in (0, 1))
    frame_a = (al.point(a, tuple(data[:3])), al.matmul(al.rotation_part(a), Ra))  # type: ignore[arg-type]
    return frame_a, (al.point(b, tuple(data[3:6])), al.matmul(al.rotation_part(b), Rb))  # type: ignore[arg-type]


def matrices(data: Any) -> tuple[tuple, tuple]:
    return tuple(tuple(data[24 + 6 * i : 30 + 6 * i]) for i in range(6)), tuple(tuple(data[60 + 6 * i : 66 + 6 * i]) for i in range(6))


def displacement(a: Frame, b: Frame) -> tuple:
    """`(R_a' (p_b - p_a), log(R_a' R_b))`."""
    Ra = al.transpose(a[1])
    return (*al.matvec(Ra, al.sub(b[0], a[0])), *al.matrix_log(al.matmul(Ra, b[1])))


def rows(a: Frame, b: Frame, d: tuple) -> tuple:
    """`A` on b: for each of the six coordinates the wrench on b (the wrench on a is its opposite)."""
    out = [line_wrench(b[0], axis) for axis in al.transpose(a[1])]
    zero = 0.0 * d[0]
    turn = al.matmul(inverse_right_jacobian(d[3:]), al.transpose(b[1]))  # type: ignore[arg-type]
    return (*out, *((*row, zero, zero, zero) for row in turn))


def impulse(dL: tuple, dR: tuple, data: Any, h: Any) -> tuple[tuple, tuple, tuple]:
    """`-(h/2) t`, and its 6x6 derivatives with respect to `d_L` and `d_R`."""
    K, D = matrices(data)
    mean, rate = al.scale(0.5, al.add(dL, dR)), al.scale(1.0 / h, al.sub(dR, dL))
    value = al.scale(0.5 * h, al.add(al.matvec(K, mean), al.matvec(D, rate)))
    by_L = tuple(tuple(0.25 * h * k - 0.5 * d for k, d in zip(x, y, strict=True)) for x, y in zip(K, D, strict=True))
    by_R = tuple(tuple(0.25 * h * k + 0.5 * d for k, d in zip(x, y, strict=True)) for x, y in zip(K, D, strict=True))
    return value, by_L, by_R


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


def turned(a: Frame, b: Frame, d: tuple, t: tuple) -> tuple[tuple, tuple]:
    """6x6 each: the change of the wrench `A' t` on b, t held, with the twists of b and of a."""
    F = al.matvec(a[1], t[:3])
    by_point, by_direction = line_wrench_turned(b[0], F, 1.0 + 0.0 * F[0])
    phi = d[3:]
    J = inverse_right_jacobian(phi)  # type: ignore[arg-type]
    M = al.matvec(b[1], al.matvec(al.transpose(J), t[3:]))
    zero = 0.0 * F[0]
    by_phi = al.matmul(b[1], _moment_by_rotation(phi, t[3:]))  # type: ignore[arg-type]
    change = al.matmul(by_phi, al.matmul(J, al.transpose(b[1])))  # by w_b - w_a
    x, y, z = M
    spin = ((zero, z, -y), (-z, zero, x), (y, -x, zero))  # w_b x M
    by_b = [list(row) for row in by_point] + [[zero] * 6 for _ in range(3)]
    by_a = [[*row, zero, zero, zero] for row in by_direction]
    for i in range(3):
        for j in range(3):
            by_b[i][j] = by_b[i][j] + change[i][j] + spin[i][j]
            by_a[i][j] = by_a[i][j] - change[i][j]
    return tuple(map(tuple, by_b)), tuple(map(tuple, by_a))
