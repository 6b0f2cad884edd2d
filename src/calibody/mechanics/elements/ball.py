"""Forces on the relative rotation of a ball joint over one interval.

With `Rr = R_parent' R_child`, `rho = log(Rr_L' Rr_R)/h`, and `psi = log(R_ref' Rr)` the rotation away from the relaxed spring:

    t = -k (psi_L + psi_R)/2 - b rho - c rho/max(|rho|, delta)
    contribution in the child's axes at L:  J_a rho - (h/2) t,   at R:  -J_a rho - (h/2) t

`rho` has the same components in the child's axes at L and at R (it is the axis of the rotation between them), and so has `psi` in the
child's and the reference's. A turn `d` of the child (in its own axes) changes `log Q` by the inverse of the right Jacobian when it acts
on the right of `Q`, by minus that of the left Jacobian when it acts (inverted) on the left:

    Jr^-1(phi) = 1 + [phi]x/2 + k [phi]x^2,   Jl^-1(phi) = Jr^-1(-phi),   k = 1/|phi|^2 - (1 + cos|phi|)/(2 |phi| sin|phi|)
"""

from __future__ import annotations

from typing import Any

from calibody.spatial import algebra as al


def inverse_right_jacobian(phi: al.Vector, sign: float = 1.0) -> al.Matrix:
    """`Jr^-1(sign phi)`."""
    t2 = al.dot(phi, phi)
    lib = al.library(t2)
    small = t2 < 1e-4
    safe = lib.where(small, 1.0, t2)
    t = lib.sqrt(safe)
    # cot(t/2) form of (1 + cos t)/sin t, finite up to 2 pi; the series is exact to 1e-17 below 1e-4
    k = lib.where(small, 1.0 / 12.0 + t2 / 720.0 + t2 * t2 / 30240.0, 1.0 / safe - 0.5 / (t * lib.tan(0.5 * t)))
    x, y, z = (sign * c for c in phi)
    return (
        (1.0 - k * (y * y + z * z), -0.5 * z + k * x * y, 0.5 * y + k * x * z),
        (0.5 * z + k * x * y, 1.0 - k * (x * x + z * z), -0.5 * x + k * y * z),
        (-0.5 * y + k * x * z, 0.5 * x + k * y * z, 1.0 - k * (x * x + y * y)),
    )


def interval(RL: al.Matrix, RR: al.Matrix, reference: al.Matrix, p: Any, delta: Any, h: Any, applied: Any, smooth: bool = False) -> tuple:
    """Contributions at L and R (child's axes), and their 3x3 derivatives L by L, L by R, R by L, R by R (turns in child's axes).

    `smooth`: dry friction without a kink, `c rho/sqrt(|rho|^2 + delta^2)`."""
    k, b, c, armature = p
    phi = al.matrix_log(al.matmul(al.transpose(RL), RR))
    rho = tuple(x / h for x in phi)
    psi_L, psi_R = (al.matrix_log(al.matmul(al.transpose(reference), R)) for R in (RL, RR))
    speed2 = al.dot(rho, rho)
    lib = al.library(speed2)
    sliding = speed2 > delta * delta
    speed = lib.sqrt(lib.where(sliding, speed2, 1.0))
    slope = lib.where(sliding, 1.0 / speed, 1.0 / delta)  # 1/max(|rho|, delta)
    fade = lib.where(sliding, 1.0 / (speed * speed * speed), 0.0)
    if smooth:
        slope = 1.0 / lib.sqrt(speed2 + delta * delta)
        fade = slope * slope * slope
    t = tuple(-0.5 * k * (a + d) - (b + c * slope) * r + f for a, d, r, f in zip(psi_L, psi_R, rho, applied, strict=True))
    left = tuple(armature * r - 0.5 * h * x for r, x in zip(rho, t, strict=True))
    right = tuple(-armature * r - 0.5 * h * x for r, x in zip(rho, t, strict=True))
    rho_by_R = tuple(tuple(x / h for x in row) for row in inverse_right_jacobian(phi))
    rho_by_L = tuple(tuple(-x / h for x in row) for row in inverse_right_jacobian(phi, -1.0))
    t_rho = tuple(tuple((-(b + c * slope) if i == j else 0.0) + c * fade * rho[i] * rho[j] for j in range(3)) for i in range(3))

    def by(rho_by: tuple, psi: al.Vector) -> tuple[tuple, tuple]:
        spring = inverse_right_jacobian(psi)
        viscous = al.matmul(t_rho, rho_by)
        dt = tuple(tuple(viscous[i][j] - 0.5 * k * spring[i][j] for j in range(3)) for i in range(3))
        at_L = tuple(tuple(armature * rho_by[i][j] - 0.5 * h * dt[i][j] for j in range(3)) for i in range(3))
        at_R = tuple(tuple(-armature * rho_by[i][j] - 0.5 * h * dt[i][j] for j in range(3)) for i in range(3))
        return at_L, at_R

    LL, RL_ = by(rho_by_L, psi_L)
    LR, RR_ = by(rho_by_R, psi_R)
    return left, right, LL, LR, RL_, RR_, rho, (psi_L, psi_R), slope
