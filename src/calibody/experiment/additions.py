"""What an experiment adds to its model without touching the model's file: sites, sensors and payloads.

A payload is a body of its own, fixed to a frame: `body.NAME.mass`, `.com.x` and `.inertia.xx` are its numbers, in the axes of that frame. The frame may be any body, with mass or
without (the tool frame of a robot), or a site. What the calibrated model's file can hold of all this is written into it (`in_file`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calibody.errors import CalibodyError, nearest
from calibody.experiment.held import released
from calibody.model import Body, Model, Sensor, Site
from calibody.model.elements import IDENTITY, WORLD, ZERO, Quaternion4, Vector3


@dataclass(frozen=True)
class Payload:
    """A body fixed to a frame of the mechanism."""

    frame: str
    """A body or a site."""
    mass: float
    """[kg]"""
    name: str = "payload"
    """Of the body it becomes."""
    com: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Centre of mass in the frame [m]."""
    inertia: tuple[float, ...] = (0.0,) * 6
    """About the centre of mass, in the frame's axes: xx yy zz, or xx yy zz xy xz yz [kg m^2]; left out, a point mass."""

    def body(self, model: Model) -> Body:
        """The body it becomes in a model."""
        parent, position, orientation = _frame(model, self.frame, self.name)
        return Body(self.name, parent, self.mass, self.com, self.inertia, position, orientation)  # type: ignore[arg-type]


def _frame(model: Model, frame: str, name: str) -> tuple[str, Vector3, Quaternion4]:
    """The body that a frame is fixed in, and its place there."""
    kind, _, rest = frame.partition(".")
    if frame in model.tables["body"]:
        return frame, ZERO, IDENTITY
    if kind == "body" and rest in model.tables["body"]:
        return rest, ZERO, IDENTITY
    site = model.tables["site"].get(rest if kind == "site" else frame)
    if site is None:
        known = [*model.tables["body"], *model.tables["site"]]
        others = f"; it has {', '.join(known[:12])}{', ...' if len(known) > 12 else '.'}"
        raise CalibodyError(f'The payload "{name}" is on the frame "{frame}", which is no body or site of the model{nearest(rest or frame, known) or others}')
    if site.body == WORLD:
        raise CalibodyError(f'The payload "{name}" is on "{frame}", which is fixed in the world and carries nothing; name a frame that moves.')
    return site.body, site.position, site.orientation


def added(model: Model, sites: Sequence[Site], sensors: Sequence[Sensor], payloads: Sequence[Payload]) -> Model:
    """The model with all of these."""
    if not (sites or sensors or payloads):
        return model
    placed = dataclasses.replace(model, sites=(*model.sites, *sites))
    bodies = tuple(payload.body(placed) for payload in payloads)
    from calibody.mechanics import channels

    whole = dataclasses.replace(placed, bodies=(*model.bodies, *bodies), sensors=(*model.sensors, *sensors))
    for sensor in sensors:
        channels.resolve(whole, sensor.channel)
    return whole


def in_file(model: Model) -> tuple[Model, list[str]]:
    """The part of a calibrated model that its file can hold, and what is said about the rest."""
    if model.source is None:
        return model, []
    model = released(model)
    known = model.source.original.tables
    left: dict[str, list[Any]] = {kind: [e for name, e in model.tables[kind].items() if name in known[kind]] for kind in ("site", "sensor")}
    gone = [f"{kind}.{name}" for kind in left for name in model.tables[kind] if name not in known[kind]]
    if not gone:
        return model, []
    note = f"The calibrated model file does not contain what the experiment declares beside it ({', '.join(gone)}); experiment.toml has that."
    return dataclasses.replace(model, sites=tuple(left["site"]), sensors=tuple(left["sensor"])), [note]
