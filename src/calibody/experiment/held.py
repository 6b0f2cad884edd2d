"""Joints of a model that did not move while a log was made: the fingers of a gripper, a locked axis.

A joint that nobody observes and nothing drives is free in a fit, and falls. One that is held is no joint at all: its body is fixed to the parent where the coordinate s puts it,

    T' = T o J(s - reference),    J a turn about the anchor (hinge) or a shift along the axis (slide)

with T the body's place in its parent. What acts on such a joint goes with it: its actuators and limits, and couplings with other joints that are held too. The calibrated model's file keeps all of them (`released`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from calibody.errors import CalibodyError, nearest
from calibody.model import Body, Joint, Model
from calibody.model.elements import SCALARS, SLIDE, ZERO
from calibody.spatial import algebra as al


def held(model: Model, coordinates: Mapping[str, float]) -> Model:
    """The model with some of its hinges and slides fixed at these coordinates [rad or m]."""
    if not coordinates:
        return model
    for name in coordinates:
        _refuse(model, name)
    fixed = {j.body: _placed(model.body(j.body), j, coordinates[j.name]) for j in model.joints if j.name in coordinates}
    coupled = [lp for lp in model.loops if lp.joint1 in coordinates or lp.joint2 in coordinates]
    for loop in coupled:
        other = next((j for j in (loop.joint1, loop.joint2) if j and j not in coordinates), None)
        if other is not None:
            raise CalibodyError(f'The joint "{other}" is coupled (loop.{loop.name}) to one that is held; hold it too: held = {{ ..., "{other}" = 0.0 }}.')
    return dataclasses.replace(
        model,
        bodies=tuple(fixed.get(b.name, b) for b in model.bodies),
        joints=tuple(j for j in model.joints if j.name not in coordinates),
        actuators=tuple(a for a in model.actuators if a.joint not in coordinates),
        loops=tuple(lp for lp in model.loops if lp not in coupled),
        limits=tuple(limit for limit in model.limits if limit.joint not in coordinates),
    )


def released(model: Model) -> Model:
    """With all joints that its file has, and the bodies that were held where the file has them."""
    if model.source is None:
        return model
    original: Model = model.source.original
    gone = [j for j in original.joints if j.name not in model.tables["joint"]]
    if not gone:
        return model
    places = {j.body: original.body(j.body) for j in gone}
    bodies = [dataclasses.replace(b, position=places[b.name].position, orientation=places[b.name].orientation) if b.name in places else b for b in model.bodies]
    kept: dict[str, Any] = {
        kind + "s": tuple(model.tables[kind].get(e.name, e) for e in original.tables[kind].values()) for kind in ("joint", "actuator", "loop")
    }
    limits = [limit for limit in original.limits if limit.joint in {j.name for j in gone}]
    return dataclasses.replace(model, bodies=tuple(bodies), limits=(*model.limits, *limits), **kept)


def _refuse(model: Model, name: str) -> None:
    joint = model.tables["joint"].get(name)
    if joint is None:
        known = list(model.tables["joint"])
        listed = f"; it has {', '.join(known[:12])}."
        raise CalibodyError(f'The model holds "{name}", which is no joint of it{nearest(name, known) or listed}')
    if joint.kind not in SCALARS or len(model.joints_of(joint.body)) > 1:
        what = "it shares its body with other joints" if joint.kind in SCALARS else f"it is of kind {joint.kind}"
        raise CalibodyError(f'The joint "{name}" cannot be held, because {what}; hold hinges and slides that are alone on their body.')
    at = next((t.name for t in model.transmissions if name in t.joints), None)
    if at is not None:
        raise CalibodyError(f'The joint "{name}" cannot be held, because the transmission "{at}" acts on it; leave that out of the model.')


def _placed(body: Body, joint: Joint, coordinate: float) -> Body:
    x = coordinate - joint.reference
    axis = al.scale(1.0 / max(sum(a * a for a in joint.axis) ** 0.5, 1e-300), joint.axis)
    turn = (1.0, *ZERO) if joint.kind == SLIDE else al.quaternion_exp(al.scale(x, axis))
    shift = al.scale(x, axis) if joint.kind == SLIDE else al.sub(joint.anchor, al.matvec(al.quaternion_matrix(turn), joint.anchor))
    position = al.add(body.position, al.matvec(al.quaternion_matrix(body.orientation), shift))
    orientation = al.quaternion_normalised(al.quaternion_product(body.orientation, turn))
    return dataclasses.replace(body, position=tuple(map(float, position)), orientation=tuple(map(float, orientation)))  # type: ignore[arg-type]
