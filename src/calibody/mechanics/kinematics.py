"""Poses of all links and twists of all degrees of freedom, for a tree of any shape at once.

Poses. `H_i = H_parent(i) o T_i o J_i(q)` is composed by pointer doubling: after round r every link knows its pose relative to its
2^r-th ancestor, so a chain of 30 joints takes five rounds of one vectorised product, and the compiled program does not grow with the
number of bodies.

Twists. A virtual displacement of dof j moves every link below it by `dH = [w]x H + v e4'`, one twist `(w, v)` per dof, in world axes
about the world's origin: a rotation about the axis a through the point s is `(a, s x a)`, a translation along a is `(0, a)`. This is
`P = dH/dq` in closed form. When dof i carries dof j along, `dt_j/dq_i = [t_i, t_j] = (w_i x w_j, w_i x v_j + v_i x w_j)`.

Everything here runs on numpy arrays with a time axis (transcription) and on traced arrays without one (a compiled step) alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from calibody.mechanics.structure import BALL, FREE, HINGE, SLIDE, TREE, Numbers, Structure
from calibody.spatial import algebra as al


@dataclass(frozen=True)
class Layout:
    """Index arrays of a structure that the formulas below need; made once."""

    groups: tuple[tuple[str, np.ndarray, np.ndarray], ...]
    """(kind, units, first position) for every joint kind that occurs."""
    order: np.ndarray
    """Where each unit's motion stands in the concatenation of the groups."""
    dof_frame: np.ndarray
    """Link whose frame the dof's axis is fixed in (the world for the translations of a free joint)."""
    dof_unit: np.ndarray
    dof_component: np.ndarray
    """Which of the frame's axes for ball and free joints; -1 for the unit's own axis."""
    dof_rotational: np.ndarray


@lru_cache(maxsize=64)
def layout_of(structure: Structure) -> Layout:
    groups, order = [], np.empty(structure.n, dtype=np.int32)
    count = 0
    for kind in (HINGE, SLIDE, BALL, FREE, "fixed"):
        units = np.array([i for i, u in enumerate(structure.units) if u.kind == kind], dtype=np.int32)
        if len(units):
            groups.append((kind, units, structure.q_start[units]))
            order[units] = count + np.arange(len(units))
            count += len(units)
    frame, component, rotational = [], [], []
    for i, unit in enumerate(structure.units):
        if unit.kind in (HINGE, SLIDE):
            frame.append(i)
            component.append(-1)
            rotational.append(unit.kind == HINGE)
        elif unit.kind == BALL:
            frame += [i] * 3
            component += [0, 1, 2]
            rotational += [True] * 3
        elif unit.kind == FREE:
            frame += [structure.n] * 3 + [i] * 3
            component += [0, 1, 2] * 2
            rotational += [False] * 3 + [True] * 3
    return Layout(tuple(groups), order, np.array(frame, np.int32), structure.dof_unit, np.array(component, np.int32), np.array(rotational, bool))


@dataclass(frozen=True)
class Geometry:
    """The numbers kinematics needs, per unit of the structure solved for: placements, axes, anchors; and per dof its axis and point."""

    placement: Any
    axis: Any
    anchor: Any
    reference: Any
    dof_axis: Any
    dof_point: Any

    @classmethod
    def of(cls, structure: Structure, numbers: Numbers) -> Geometry:
        layout = layout_of(structure)
        placement, anchor = numbers.placement.copy(), numbers.anchor.copy()
        if structure.coordinates != TREE:  # links are placed by their own coordinates, except those fixed to the world
            for i, unit in enumerate(structure.units):
                if unit.kind == FREE:
                    placement[:, :, i] = np.eye(3, 4)
                    anchor[:, i] = 0.0
        for i, unit in enumerate(structure.units):
            if unit.kind == FREE:
                anchor[:, i] = 0.0  # a free joint turns about the body's origin
        dof_axis, dof_point = np.zeros((3, structure.nv)), np.zeros((3, structure.nv))
        for j in range(structure.nv):
            unit, component = layout.dof_unit[j], layout.dof_component[j]
            local = numbers.axis[:, unit] if component < 0 else np.eye(3)[component]
            if structure.units[unit].kind == FREE and not layout.dof_rotational[j]:
                local = placement[:, :3, unit] @ local  # world axes of the placement
            dof_axis[:, j], dof_point[:, j] = local, anchor[:, unit]
        return cls(placement, numbers.axis, anchor, numbers.reference, dof_axis, dof_point)


def _like(array: Any, batch: int) -> Any:
    """Append a time axis to a per-unit array when the coordinates have one."""
    return array[..., None] if batch else array


def joint_motion(kind: str, q: tuple, axis: al.Vector, anchor: al.Vector, reference: Any) -> al.Pose:
    """`J(q)`: the motion of one joint in the frame of its link at rest."""
    if kind == HINGE:
        R = al.axis_angle(axis, q[0] - reference)
        return al.pose(R, al.sub(anchor, al.matvec(R, anchor)))
    if kind == SLIDE:
        zero = 0.0 * q[0]
        one = zero + 1.0
        return al.pose(((one, zero, zero), (zero, one, zero), (zero, zero, one)), al.scale(q[0] - reference, axis))
    if kind == BALL:
        R = al.quaternion_matrix(q)  # type: ignore[arg-type]
        return al.pose(R, al.sub(anchor, al.matvec(R, anchor)))
    return al.pose(al.quaternion_matrix(q[3:]), q[:3])  # type: ignore[arg-type]


def poses(structure: Structure, geometry: Geometry, q: Any) -> Any:
    """(3, 4, n + 1[, N]): the pose of every link, the world last, from the coordinates q (nq[, N])."""
    layout, batch = layout_of(structure), q.ndim - 1
    lib = al.library(q)
    shape = q.shape[1:]
    parts = []
    for kind, units, start in layout.groups:
        placement = al.unpack_pose(_like(geometry.placement[:, :, units], batch))
        if kind == "fixed":
            local = tuple(tuple(lib.broadcast_to(x, (len(units), *shape)) for x in row) for row in placement)
        else:
            width = {HINGE: 1, SLIDE: 1, BALL: 4, FREE: 7}[kind]
            coordinates = tuple(q[start + k] for k in range(width))
            axis = tuple(_like(geometry.axis[k][units], batch) for k in range(3))
            anchor = tuple(_like(geometry.anchor[k][units], batch) for k in range(3))
            motion = joint_motion(kind, coordinates, axis, anchor, _like(geometry.reference[units], batch))  # type: ignore[arg-type]
            local = al.compose(placement, motion)
        parts.append(al.pack_pose(local))
    H = lib.concatenate(parts, axis=2)[:, :, layout.order] if parts else lib.zeros((3, 4, 0, *shape))
    world = lib.broadcast_to(lib.asarray(np.eye(3, 4)).reshape((3, 4, 1) + (1,) * batch), (3, 4, 1, *shape))
    H = lib.concatenate([H, world], axis=2)
    return _composed(H, np.array([np.append(j, structure.n) for j in structure.jumps], dtype=np.int32))


def _composed(H: Any, jumps: np.ndarray) -> Any:
    """Pointer doubling over the rounds (rounds, n + 1); a loop in the compiled program too, so that it does not grow with the depth."""
    lib = al.library(H)

    def doubled(H: Any, jump: Any) -> Any:
        return al.pack_pose(al.compose(al.unpack_pose(lib.take(H, jump, axis=2)), al.unpack_pose(H)))

    if lib is np or len(jumps) < 2:
        for jump in jumps:
            H = doubled(H, jump)
        return H
    import jax

    table = lib.asarray(jumps)
    return jax.lax.fori_loop(0, len(jumps), lambda r, H: doubled(H, table[r]), H)


def twists(structure: Structure, geometry: Geometry, H: Any) -> Any:
    """(6, nv[, N]): the twist (w, v) of every degree of freedom."""
    layout, batch = layout_of(structure), H.ndim - 3
    lib = al.library(H)
    frame = al.unpack_pose(lib.take(H, layout.dof_frame, axis=2))
    axis = al.direction(frame, tuple(_like(geometry.dof_axis[k], batch) for k in range(3)))  # type: ignore[arg-type]
    anchor = al.point(frame, tuple(_like(geometry.dof_point[k], batch) for k in range(3)))  # type: ignore[arg-type]
    rotational = _like(layout.dof_rotational.astype(float), batch)
    moment = al.cross(anchor, axis)
    w = [rotational * a for a in axis]
    v = [rotational * m + (1.0 - rotational) * a for m, a in zip(moment, axis, strict=True)]
    return lib.stack(w + v)


def bracket(a: Any, b: Any) -> Any:
    """`[t_a, t_b]`: how the twist b changes when it is carried along by the twist a."""
    wa, va, wb, vb = tuple(a[:3]), tuple(a[3:]), tuple(b[:3]), tuple(b[3:])
    return al.library(a[0]).stack([*al.cross(wa, wb), *al.add(al.cross(wa, vb), al.cross(va, wb))])  # type: ignore[arg-type]


def retract(structure: Structure, q: Any, d: Any) -> Any:
    """`q [+] d`: move the coordinates q (nq[, N]) by the tangent d (nv[, N]); rotations on the right, in the child's axes."""
    columns, places = [], []
    for kind, units, start in layout_of(structure).groups:
        v = structure.v_start[units]
        if kind in (HINGE, SLIDE):
            new = [q[start] + d[v]]
        elif kind == BALL:
            new = list(_turn(tuple(q[start + k] for k in range(4)), tuple(d[v + k] for k in range(3))))
        elif kind == FREE:
            new = [q[start + k] + d[v + k] for k in range(3)]
            new += _turn(tuple(q[start + 3 + k] for k in range(4)), tuple(d[v + 3 + k] for k in range(3)))
        else:
            continue
        columns += new
        places += [start + k for k in range(len(new))]
    return _in_order(columns, places) if columns else q


def _turn(e: tuple, r: tuple) -> tuple:
    return al.quaternion_normalised(al.quaternion_product(e, al.quaternion_exp(r)))  # type: ignore[arg-type]


def difference(structure: Structure, q: Any, p: Any) -> Any:
    """`q [-] p`: the tangent d (nv[, N]) with `retract(p, d) = q`, rotations by less than pi."""
    columns, places = [], []
    for kind, units, start in layout_of(structure).groups:
        v = structure.v_start[units]
        if kind in (HINGE, SLIDE):
            new = [q[start] - p[start]]
        elif kind in (BALL, FREE):
            o = 3 if kind == FREE else 0
            conjugate = al.quaternion_conjugate(tuple(p[start + o + k] for k in range(4)))  # type: ignore[arg-type]
            turn = al.quaternion_log(al.quaternion_product(conjugate, tuple(q[start + o + k] for k in range(4))))  # type: ignore[arg-type]
            new = [q[start + k] - p[start + k] for k in range(o)] + list(turn)
        else:
            continue
        columns += new
        places += [v + k for k in range(len(new))]
    return _in_order(columns, places) if columns else al.library(q).zeros((0, *q.shape[1:]))


def _in_order(columns: list, places: list[np.ndarray]) -> Any:
    """Rows computed joint kind by joint kind, back at their places in the vector."""
    return al.library(columns[0]).concatenate(columns)[np.argsort(np.concatenate(places))]
