"""Inertia and gravity of one link over one interval.

    Y_L = V E - (h/2) F,   Y_R = -V E - (h/2) F,   V = (H_R - H_L)/h,   F = g (E e4)'

The wrench of `Y` at the pose `H` is `(sum_c H_c x Y_c, Y_4)`. Its derivatives need two blocks only:

    N(A, B) = [[tr(C) 1 - C', [a]x], [-[b]x, m 1]],   C = A E B',   a = A E e4,   b = B E e4
        (twist of B, by which E's natural velocity changes) -> (wrench at A);   N(B, A) = N(A, B)'
    D(H, Y) = [[H Y' - tr(H Y') 1, -[y]x], [0, 0]]
        the change of the wrench when the pose at which it is pulled back moves and Y stays

so that at node k, with Y the sum of what its two intervals contribute there,

    dW/d(twist at k+1) = N(H_k, H_(k+1))/h,   at k-1: its like from the interval before, transposed,   at k: -2 N(H_k, H_k)/h + D(H_k, Y)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from calibody.spatial import algebra as al
from calibody.spatial.inertia import TEN

Block = tuple[tuple[Any, ...], ...]


def matrix(ten: Any) -> tuple:
    """The 4x4 pseudo-inertia of its ten numbers (`spatial.inertia.TEN`)."""
    e = tuple(ten)
    return ((e[0], e[1], e[2], e[3]), (e[1], e[4], e[5], e[6]), (e[2], e[5], e[7], e[8]), (e[3], e[6], e[8], e[9]))


def wrench(H: al.Pose, Y: tuple) -> tuple:
    columns_H, columns_Y = al.transpose(H), al.transpose(Y)
    torque = al.cross(columns_H[0], columns_Y[0])
    for a, b in zip(columns_H[1:], columns_Y[1:], strict=True):
        torque = al.add(torque, al.cross(a, b))
    return (*torque, *columns_Y[3])


def _skew(a: al.Vector, sign: float = 1.0) -> tuple:
    zero = 0.0 * a[0]
    x, y, z = (sign * c for c in a)
    return ((zero, -z, y), (z, zero, -x), (-y, x, zero))


def _assemble(ww: tuple, wv: tuple, vw: tuple, vv: tuple) -> Block:
    return (*((*a, *b) for a, b in zip(ww, wv, strict=True)), *((*a, *b) for a, b in zip(vw, vv, strict=True)))


def mixed(A: al.Pose, B: al.Pose, E: tuple) -> Block:
    """`N(A, B)`."""
    AE = al.matmul(A, E)
    C = al.matmul(AE, al.transpose(B))
    trace = C[0][0] + C[1][1] + C[2][2]
    ww = tuple(tuple((trace - C[j][i]) if i == j else -C[j][i] for j in range(3)) for i in range(3))
    a = tuple(row[3] for row in AE)
    b = al.matvec(B, E[3])
    zero = 0.0 * trace
    m = E[3][3] + zero
    return _assemble(ww, _skew(a), _skew(b, -1.0), ((m, zero, zero), (zero, m, zero), (zero, zero, m)))  # type: ignore[arg-type]


def natural(HL: al.Pose, HR: al.Pose, E: tuple, g: tuple, h: Any) -> tuple[tuple, tuple]:
    """`Y_L` and `Y_R`."""
    V = tuple(tuple((r - left) / h for left, r in zip(a, b, strict=True)) for a, b in zip(HL, HR, strict=True))
    VE = al.matmul(V, E)
    half = tuple(tuple(0.5 * h * x * e for e in E[3]) for x in g)
    YL = tuple(al.sub(a, b) for a, b in zip(VE, half, strict=True))
    YR = tuple(al.scale(-1.0, al.add(a, b)) for a, b in zip(VE, half, strict=True))
    return YL, YR


def interval(HL: al.Pose, HR: al.Pose, ten: Any, g: tuple, h: Any) -> tuple[tuple, tuple]:
    """The wrenches at L and R."""
    YL, YR = natural(HL, HR, matrix(ten), g, h)
    return wrench(HL, YL), wrench(HR, YR)


def interval_terms(HL: al.Pose, HR: al.Pose, ten: Any, g: tuple, h: Any) -> tuple:
    """What the blocks of both nodes are made of: wrenches at L and R, `H_L Y_L'`, `H_R Y_R'`, `H_L E H_R'`, `H_L E H_L'` and `H E e4` at L and R."""
    E = matrix(ten)
    YL, YR = natural(HL, HR, E, g, h)
    LE = al.matmul(HL, E)
    moments = (al.matmul(HL, al.transpose(YL)), al.matmul(HR, al.transpose(YR)), al.matmul(LE, al.transpose(HR)), al.matmul(LE, al.transpose(HL)))
    return wrench(HL, YL), wrench(HR, YR), *moments, tuple(row[3] for row in LE), al.matvec(HR, E[3])


def regressor(HL: al.Pose, HR: al.Pose, g: tuple, h: Any, which: Iterable[int] = range(10)) -> tuple[tuple, tuple]:
    """The wrenches at L and R for each of (some of) the ten numbers set to one: they are linear in them.

    The number at (i, j) puts the column `V_i` of V into column j of `V E` and `V_j` into column i, so its wrench at H is `(H_i x V_j + H_j x V_i, 0)`
    (once if i = j), with the force `V_i` if j is the fourth; gravity pulls at the columns of `E e4`, hence only then.
    """
    V = tuple(tuple((r - left) / h for left, r in zip(a, b, strict=True)) for a, b in zip(HL, HR, strict=True))
    pull, places = al.scale(-0.5 * h, g), [TEN[k] for k in which]
    return _unit_wrenches(HL, V, 1.0, pull, places), _unit_wrenches(HR, V, -1.0, pull, places)


def _unit_wrenches(H: al.Pose, V: tuple, sign: float, pull: tuple, places: Iterable[tuple[int, int]]) -> tuple:
    h, v = al.transpose(H), al.transpose(V)
    zero = 0.0 * h[0][0]
    nothing, pulled = (zero, zero, zero), tuple(p + zero for p in pull)
    out = []
    for i, j in places:
        torque = al.cross(h[i], v[j]) if i == j else al.add(al.cross(h[i], v[j]), al.cross(h[j], v[i]))
        torque, force = al.scale(sign, torque), nothing
        if j == 3:
            torque, force = al.add(torque, al.cross(h[i], pulled)), al.scale(sign, v[i])
            force = al.add(force, pulled) if i == 3 else force
        out.append((*torque, *force))
    return tuple(out)


def gravity_columns(H: al.Pose, ten: Any, h: Any) -> tuple:
    """The wrench at a node of one interval for each unit component e of gravity: `-h/2 (a x e, m e)` with `a = H E e4` the mass times where it pulls."""
    E = matrix(ten)
    x, y, z = al.scale(-0.5 * h, al.matvec(H, E[3]))
    zero = 0.0 * x
    m = -0.5 * h * E[3][3] + zero
    return (zero, z, -y, m, zero, zero), (-z, zero, x, zero, m, zero), (y, -x, zero, zero, zero, m)
