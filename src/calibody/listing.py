"""What a model consists of, by name: for `calibody inspect`, as a document and as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calibody.mechanics.channels import catalogue
from calibody.model import Model, paths
from calibody.model.elements import FIXED, LOAD, SOFTNESS

RARE = (SOFTNESS, LOAD)
"""Numbers that are shown only where they are not zero."""
MOST = 12
"""Contacts that are listed without asking for everything; of more than these their numbers are not listed either."""


def document(model: Model) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "model": model.name,
        "bodies": [{"name": b.name, "parent": b.parent, "joints": [j.name for j in model.joints_of(b.name)], "mass": b.mass} for b in model.ordered_bodies],
        "joints": [{"name": j.name, "kind": j.kind, "body": j.body, "parent": model.body(j.body).parent} for j in model.joints],
        "actuators": [{"name": a.name, "joint": a.joint or None, "transmission": a.transmission or None} for a in model.actuators],
        "sites": [{"name": s.name, "body": s.body, "position": list(s.position)} for s in model.sites],
        "sensors": [{"name": s.name, "channel": s.channel} for s in model.sensors],
        "loops": [{"name": lp.name, "kind": lp.kind} for lp in model.loops],
        "contacts": [{"name": c.name, "a": c.a, "b": c.b} for c in model.contacts],
        "limits": [{"name": x.name, "joint": x.joint, "side": x.side} for x in model.limits],
        "parameters": {p.path: {"value": p.value, "unit": p.unit} for p in model.parameters.values()},
        "channels": {path: {"components": list(components), "unit": unit} for path, (_, _, _, components, unit) in catalogue(model).items()},
        "notes": list(model.notes),
    }


def tables(model: Model, everything: bool) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Title, headings and rows of each table; without `everything` numbers that hardly anybody sets are left out while they are zero."""
    bodies = [(b.name, b.parent, ", ".join(j.name for j in model.joints_of(b.name)) or FIXED, f"{b.mass:.6g}") for b in model.ordered_bodies]
    yield f"{model.name}: bodies", ("body", "parent", "joint", "mass [kg]"), bodies
    joints = [(j.name, j.kind, j.body, _channels(model, "joint", j.name)) for j in model.joints]
    yield "joints", ("joint", "kind", "moves", "channels"), joints
    yield (
        "actuators",
        ("actuator", "acts on", "channels"),
        [(a.name, ", ".join(model.acted_on(a)), f"actuator.{a.name}, {_channels(model, 'actuator', a.name)}") for a in model.actuators],
    )
    yield "sites", ("site", "body", "position [m]"), [(s.name, s.body, _numbers(s.position)) for s in model.sites]
    yield "sensors", ("sensor", "channel", "sd"), [(s.name, s.channel, f"{s.sd:g}") for s in model.sensors]
    yield (
        "loops",
        ("loop", "kind", "between"),
        [(lp.name, lp.kind, " and ".join(filter(None, (lp.joint1, lp.joint2))) or f"{lp.body1} and {lp.body2}") for lp in model.loops],
    )
    contacts = [(c.name, f"{c.a} and {c.b}", f"{c.friction:g}", f"{c.restitution:g}") for c in model.contacts]
    yield "contacts", ("contact", "between", "friction", "restitution"), contacts if everything else _short(contacts)
    yield "limits", ("limit", "joint", "side", "position"), [(x.name, x.joint, x.side, f"{x.position:.6g}") for x in model.limits]
    yield "parameters", ("path", "value", "unit"), list(_parameters(model, everything))


def _short(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The first of many: a humanoid has hundreds of pairs that could touch."""
    return rows if len(rows) <= MOST else [*rows[:MOST], (f"and {len(rows) - MOST} more", *[""] * (len(rows[0]) - 1))]


def _channels(model: Model, kind: str, name: str) -> str:
    """What an element's channels are called, `joint.hinge.angle|rate|force`."""
    quantities = [quantity for k, n, quantity, _, _ in catalogue(model).values() if (k, n) == (kind, name) and quantity and not quantity.startswith("reaction")]
    return f"{kind}.{name}.{'|'.join(quantities)}"


def _parameters(model: Model, everything: bool) -> Iterator[tuple[str, ...]]:
    """One row per number or vector, with the components that a path takes."""
    seen: set[str] = set()
    for place in paths.all_places(model):
        whole = place.path if place.component is None else place.path.rpartition(".")[0]
        if whole in seen:
            continue
        seen.add(whole)
        value, number = model[whole], paths.number_of(model, place)
        many = len(model.tables.get(place.kind, ())) > MOST and place.kind in ("contact", "limit")
        if not everything and (place.kind == "geometry" or many or (number.role in RARE and not value)):
            continue
        components = f".{'|'.join(number.components)}" if number.components else ""
        yield whole + components, _numbers(value) if isinstance(value, tuple) else f"{value:.6g}", place.unit


def _numbers(values: tuple[float, ...]) -> str:
    """Components next to each other; what is rounding beside the largest is zero."""
    least = 1e-12 * max(map(abs, values), default=0.0)
    return " ".join(f"{x if abs(x) > least else 0.0:.6g}" for x in values)
