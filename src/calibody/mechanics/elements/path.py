"""The length of a path through sites and around shapes, as a measure between all links that it touches: one type for every sequence of sites and shapes.

A piece from p_a to p_b, straight or around a shape with the frame (o, R_g), has the unit gradients u_a, u_b (`wrap.py`; straight: `u_a = (p_a - p_b)/l = -u_b`). A pull on it acts on the two links along
these lines, and on the shape's with what is left,

    W_a = (p_a x u_a, u_a),   W_b = (p_b x u_b, u_b),   W_g = -W_a - W_b

With M the second derivatives of its length (in the world's axes) and `m(p) = w_g x p + v_g` what moves with the shape, twists change the gradients by

    du_a = M_aa (dp_a - m(p_a)) + M_ab (dp_b - m(p_b)) + w_g x u_a

and so the wrenches. The length of the path is the sum of the pieces over their divisors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from calibody.mechanics.elements import wrap
from calibody.mechanics.elements.base import Blocks, Measure, Poses
from calibody.mechanics.elements.wrenches import line_wrench, moved, negative, outer, spin
from calibody.model import Model, Path
from calibody.spatial import algebra as al

TINY = 1e-12
"""Metres: the length of a straight piece is kept above it, as of springs."""
Part = tuple[str, bool, bool]
"""Of a piece: "" or the kind of the shape, whether a site says on which side, and whether that is inside."""
Pattern = tuple[Part, ...]


@dataclass(frozen=True)
class Type:
    """All paths of one pattern."""

    name: str
    measure: Measure
    pattern: Pattern


@lru_cache(maxsize=256)
def type_of(pattern: Pattern) -> Type:
    name = "path:" + ",".join(f"{kind or 'line'}{'-side' if side else ''}{'-inside' if inside else ''}" for kind, side, inside in pattern)
    slots = [slot for k, part in enumerate(pattern) for slot in _slots(pattern, k, part)[:3] if slot is not None]
    arms = tuple(((slot, 1.0),) for slot in slots)

    def value(poses: Poses, data: Any) -> tuple:
        return (sum(piece.length / piece.divisor for piece in _pieces(pattern, poses, data)),)

    def wrenches(poses: Poses, data: Any) -> tuple:
        return (tuple(w for piece in _pieces(pattern, poses, data) for w in piece.wrenches),)

    def turned(poses: Poses, data: Any, force: Any) -> Blocks:
        out: dict[tuple[int, int], tuple] = {}
        first = 0
        for piece in _pieces(pattern, poses, data):
            blocks = piece.turned(force[0])
            out |= {(first + i, slots[first + j]): block for i, row in enumerate(blocks) for j, block in enumerate(row)}
            first += len(blocks)
        return out

    return Type(name, Measure(1, arms, value, wrenches, turned), pattern)


def _slots(pattern: Pattern, k: int, part: Part) -> tuple[int, int, int | None, int | None]:
    """Which of the element's links are those of the piece's two sites, its shape and its side."""
    first = sum(2 + bool(kind) + side for kind, side, _ in pattern[:k])
    kind, side, _ = part
    return first, first + 1, first + 2 if kind else None, first + 3 if side else None


def _numbers_before(pattern: Pattern, k: int) -> int:
    """How many numbers the pieces before have: divisor, two places, a shape's place, axes and radius, a side's place."""
    return sum(7 + 13 * bool(kind) + 3 * side for kind, side, _ in pattern[:k])


@dataclass(frozen=True)
class _Piece:
    """One piece of all paths of a type, at given poses."""

    length: Any
    divisor: Any
    a: al.Vector
    b: al.Vector
    ua: al.Vector
    ub: al.Vector
    blocks: tuple[tuple, tuple, tuple]
    """M_aa, M_ab, M_bb."""
    shaped: bool

    @property
    def wrenches(self) -> tuple:
        """W of its arms."""
        share = 1.0 / self.divisor
        Wa, Wb = line_wrench(self.a, al.scale(share, self.ua)), line_wrench(self.b, al.scale(share, self.ub))
        return (Wa, Wb, tuple(-x - y for x, y in zip(Wa, Wb, strict=True))) if self.shaped else (Wa, Wb)

    def turned(self, force: Any) -> list[list[tuple]]:
        """6x6 blocks: of the wrench of every arm (sites a and b, shape) by the twist of every arm's link."""
        f = force / self.divisor
        aa, ab, bb = self.blocks
        by = ((aa, ab), (al.transpose(ab), bb))
        points, rows = (self.a, self.b), []
        for i, (p, u) in enumerate(((self.a, self.ua), (self.b, self.ub))):
            changes = [al.matmul(M, moved(point)) for M, point in zip(by[i], points, strict=True)]  # du by the twists of both sites' links
            if self.shaped:
                zero = 0.0 * p[0]
                changes.append(_plus(negative(_plus(*changes)), tuple((*row, zero, zero, zero) for row in spin(u))))
            blocks = [_wrench_change(p, du) for du in changes]
            blocks[i] = (*_plus(blocks[i][:3], al.matmul(spin(u), moved(p))), *blocks[i][3:])  # dp x u
            rows.append([tuple(tuple(f * x for x in row) for row in block) for block in blocks])
        if self.shaped:
            rows.append([negative(_plus(x, y)) for x, y in zip(*rows, strict=True)])
        return rows


def _plus(x: tuple, y: tuple) -> tuple:
    return tuple(al.add(a, b) for a, b in zip(x, y, strict=True))


def _wrench_change(p: al.Vector, du: tuple) -> tuple:
    """`(p x du, du)`, 6x6 from a 3x6."""
    return (*al.matmul(negative(spin(p)), du), *du)


def _pieces(pattern: Pattern, poses: Poses, data: Any) -> list[_Piece]:
    return [_piece(pattern, k, poses, data) for k in range(len(pattern))]


def _piece(pattern: Pattern, k: int, poses: Poses, data: Any) -> _Piece:
    kind, _, inside = pattern[k]
    first = _numbers_before(pattern, k)
    start, end, shape, beside = _slots(pattern, k, pattern[k])
    a, b = al.point(poses[start], tuple(data[first + 1 : first + 4])), al.point(poses[end], tuple(data[first + 4 : first + 7]))  # type: ignore[arg-type]
    length, u, block = _straight(a, b)
    if shape is None:
        return _Piece(length, data[first], a, b, u, al.scale(-1.0, u), (block, negative(block), block), False)
    origin = al.point(poses[shape], tuple(data[first + 7 : first + 10]))  # type: ignore[arg-type]
    axes = al.matmul(al.rotation_part(poses[shape]), tuple(tuple(data[first + 10 + 3 * i : first + 13 + 3 * i]) for i in range(3)))
    back = al.transpose(axes)
    local = [al.matvec(back, al.sub(p, origin)) for p in (a, b)]
    near = None if beside is None else al.matvec(back, al.sub(al.point(poses[beside], tuple(data[first + 20 : first + 23])), origin))  # type: ignore[arg-type]
    way = wrap.way(kind, inside, local[0], local[1], near, data[first + 19])
    lib = al.library(length)

    def choose(touching: Any, straight: Any) -> Any:
        return lib.where(way.touches, touching, straight)

    def vector(around: al.Vector, straight: al.Vector) -> al.Vector:
        return tuple(choose(x, y) for x, y in zip(al.matvec(axes, around), straight, strict=True))  # type: ignore[return-value]

    def matrix(around: tuple, straight: tuple) -> tuple:
        world = al.matmul(al.matmul(axes, around), back)
        return tuple(tuple(choose(x, y) for x, y in zip(r, s, strict=True)) for r, s in zip(world, straight, strict=True))

    blocks = matrix(way.aa, block), matrix(way.ab, negative(block)), matrix(way.bb, block)
    return _Piece(choose(way.length, length), data[first], a, b, vector(way.a, u), vector(way.b, al.scale(-1.0, u)), blocks, True)


def _straight(a: al.Vector, b: al.Vector) -> tuple[Any, al.Vector, tuple]:
    """|a - b|, its direction, and `(1 - uu')/|a - b|`."""
    d = al.sub(a, b)
    lib = al.library(d[0])
    length = lib.sqrt(lib.maximum(al.dot(d, d), TINY * TINY))
    u = al.scale(1.0 / length, d)
    return length, u, tuple(tuple(((1.0 if i == j else 0.0) - x) / length for j, x in enumerate(row)) for i, row in enumerate(outer(u, u)))


# -- from the model --------------------------------------------------------------------------------------------------------------------


def pattern_of(model: Model, path: Path) -> Pattern:
    out: list[Part] = []
    for piece in path.pieces:
        if piece.around is None:
            out.append(("", False, False))
            continue
        shape, side = model.tables["geometry"][piece.around.geometry], model.tables["site"].get(piece.around.side)
        inside = side is not None and side.body == shape.body and _is_inside(shape, side)
        out.append((shape.kind, side is not None, inside))
    return tuple(out)


def _is_inside(shape: Any, side: Any) -> bool:
    local = np.array(al.quaternion_matrix(al.quaternion_normalised(shape.orientation))).T @ (np.array(side.position) - shape.position)
    return float(np.linalg.norm(local)) < shape.size[0]


def bodies_of(model: Model, path: Path) -> list[str]:
    """The bodies of its links, slot by slot."""
    out = []
    for piece in path.pieces:
        out += [model.tables["site"][piece.start].body, model.tables["site"][piece.end].body]
        if piece.around is not None:
            out.append(model.tables["geometry"][piece.around.geometry].body)
            out += [model.tables["site"][piece.around.side].body] if piece.around.side else []
    return out


def numbers_of(model: Model, path: Path) -> list[float]:
    """`data` of a path: per piece its divisor, where its sites are in their bodies, and the place, axes and radius of its shape and the place of its side."""
    out: list[float] = []
    for piece in path.pieces:
        sites = model.tables["site"]
        out += [piece.divisor, *sites[piece.start].position, *sites[piece.end].position]
        if piece.around is not None:
            shape = model.tables["geometry"][piece.around.geometry]
            R = al.quaternion_matrix(al.quaternion_normalised(shape.orientation))
            out += [*shape.position, *(x for row in R for x in row), shape.size[0]]
            out += [*sites[piece.around.side].position] if piece.around.side else []
    return out


def groups_of(model: Model) -> dict[Type, list[int]]:
    """Which paths are of which type."""
    out: dict[Type, list[int]] = {}
    for i, path in enumerate(model.paths):
        out.setdefault(type_of(pattern_of(model, path)), []).append(i)
    return out
