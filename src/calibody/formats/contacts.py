"""Contacts and joint limits of a compiled file, as MuJoCo pairs its geometries.

Two geometries may touch if they are a `<pair>`, or if their contype and conaffinity bits fit, their bodies are not welded together, are no parent and child (the world excepted), and are not
excluded. Sliding friction is the pair's, or that of the geometry with the higher priority, or the larger of the two; condim 1 has none. What of MuJoCo's contacts is not kept: they
are soft (solref, solimp, margin), here they are rigid and without rebound; and torsional and rolling friction (condim 4 and 6).

What cannot collide here is listed in a note, not guessed; so are pairs of moving bodies whose shapes overlap where the file has them: in MuJoCo these push each other apart, or are meant to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from calibody.formats.compiled import Compiled
from calibody.formats.engine import mj
from calibody.formats.refusals import limited, names_of
from calibody.model import Contact, Limit, Model
from calibody.model.contact import LOWER, UPPER, can_touch
from calibody.model.elements import HINGE, SLIDE

INSIDE = 1e-6
"""Metres that shapes may overlap where the file has them and still count as apart: what files round to."""


def touching(c: Compiled, model: Model) -> Model:
    """The model with its contacts and limits, and notes about what of them it cannot have."""
    contacts, notes = _contacts(c, model)
    limits = _limits(c, model)
    balls = [int(i) for i in np.flatnonzero(limited(c)) if c.names["joint"][int(i)] not in {x.joint for x in limits}]
    if balls:
        notes.append(f"Limits of ball joints do not act: {names_of(c, 'joint', balls)}.")
    kept = [n for n in model.notes if not n.startswith(("Contacts do not act", "Joint limits do not act"))]
    if contacts or limits:
        notes.insert(0, "Contacts and joint limits are rigid and without rebound, where the file's are soft.")
    return replace(model, contacts=tuple(contacts), limits=tuple(limits), notes=(*kept, *notes))


def _limits(c: Compiled, model: Model) -> list[Limit]:
    out = []
    for i in np.flatnonzero(limited(c)):
        name = c.names["joint"][int(i)]
        if model.joint(name).kind in (HINGE, SLIDE):
            low, high = (float(x) for x in c.mj.jnt_range[i])
            out += [Limit(f"{name}.lower", name, low, LOWER), Limit(f"{name}.upper", name, high, UPPER)]
    return out


def _contacts(c: Compiled, model: Model) -> tuple[list[Contact], list[str]]:
    m = c.mj
    if c.off(mj.mjtDisableBit.mjDSBL_CONTACT | mj.mjtDisableBit.mjDSBL_CONSTRAINT):
        return [], []
    data = mj.MjData(m)
    mj.mj_kinematics(m, data)
    names, shapes = c.names["geometry"], model.tables["geometry"]
    out: list[Contact] = []
    unable: Counter[str] = Counter()
    overlapping: list[str] = []
    twisted, taken = 0, set()
    for g1, g2, friction, dim in _pairs(c):
        kinds = [shapes[names[g]].kind if names[g] in shapes else "height field" for g in (g1, g2)]
        if not can_touch(*kinds):
            unable[" and ".join(sorted(kinds))] += 1
            continue
        moving = [bool(m.body_weldid[m.geom_bodyid[g]]) for g in (g1, g2)]
        if all(moving) and mj.mj_geomDistance(m, data, g1, g2, 1.0, None) < -INSIDE:
            overlapping.append(f"{names[g1]} and {names[g2]}")
            continue
        a, b = (g2, g1) if not moving[0] else (g1, g2)
        name = f"{names[a]}-{names[b]}"
        while name in taken:
            name += "_"
        taken.add(name)
        twisted += dim > 3
        out.append(Contact(name, names[a], names[b], friction=friction if dim > 1 else 0.0))
    notes = []
    if unable:
        notes.append("These cannot collide yet: " + ", ".join(f"{pair} ({count})" for pair, count in sorted(unable.items())) + ".")
    if overlapping:
        more = f" and {len(overlapping) - 3} more" if len(overlapping) > 3 else ""
        notes.append(f"Pairs of moving shapes that overlap where the file has them do not touch: {', '.join(overlapping[:3])}{more}.")
    if twisted:
        notes.append(f"Torsional and rolling friction do not act (condim 4 and 6): {twisted} contacts.")
    return out, notes


def _pairs(c: Compiled) -> list[tuple[int, int, float, int]]:
    """Two geometries, their friction and condim; `<pair>` first, which nothing filters."""
    m = c.mj
    out = [(int(m.pair_geom1[i]), int(m.pair_geom2[i]), float(m.pair_friction[i, 0]), int(m.pair_dim[i])) for i in range(m.npair)]
    given = {frozenset(p[:2]) for p in out}
    excluded = {int(x) for x in m.exclude_signature}
    able = [g for g in range(m.ngeom) if m.geom_contype[g] or m.geom_conaffinity[g]]
    for k, g1 in enumerate(able):
        for g2 in able[k + 1 :]:
            if frozenset((g1, g2)) not in given and _may_touch(c, g1, g2, excluded):
                out.append((g1, g2, *_surface(m, g1, g2)))
    return out


def _may_touch(c: Compiled, g1: int, g2: int, excluded: set[int]) -> bool:
    m = c.mj
    if not (m.geom_contype[g1] & m.geom_conaffinity[g2] or m.geom_contype[g2] & m.geom_conaffinity[g1]):
        return False
    b1, b2 = sorted((int(m.geom_bodyid[g1]), int(m.geom_bodyid[g2])))
    if (b1 << 16) + b2 in excluded:
        return False
    w1, w2 = int(m.body_weldid[b1]), int(m.body_weldid[b2])
    if w1 == w2:
        return False
    parents = [int(m.body_weldid[m.body_parentid[w]]) for w in (w1, w2)]
    related = w1 and w2 and (parents[0] == w2 or parents[1] == w1)
    return not related or c.off(mj.mjtDisableBit.mjDSBL_FILTERPARENT)


def _surface(m: Any, g1: int, g2: int) -> tuple[float, int]:
    """Sliding friction and condim of two geometries."""
    p1, p2 = int(m.geom_priority[g1]), int(m.geom_priority[g2])
    if p1 != p2:
        g = g1 if p1 > p2 else g2
        return float(m.geom_friction[g, 0]), int(m.geom_condim[g])
    return float(max(m.geom_friction[g1, 0], m.geom_friction[g2, 0])), int(max(m.geom_condim[g1], m.geom_condim[g2]))
