"""Writing changed numbers into the text of an OpenSim file: masses, centres of mass, inertias, places of joints and markers, sizes of motors.

A body's place moves with the frame of its joint in the parent: that frame's translation changes by as much as the body's position does. Anything else is refused, with the advice to
save as MJCF.
"""

from __future__ import annotations

from calibody.errors import FormatError
from calibody.formats.edit import Element
from calibody.formats.mjcf_edit import Plan
from calibody.formats.source import Change, Source, number, numbers
from calibody.model import Actuator, Body, Model, Site

INERTIA = ("xx", "yy", "zz", "xy", "xz", "yz")
_WRITABLE = {"body": ("mass", "com", "inertia", "position"), "site": ("position",), "actuator": ("gain",)}


def plan(model: Model, source: Source, changed: list[Change]) -> Plan:
    """The edits that write the changed fields."""
    p = Plan(model, source)
    for kind, name, what in changed:
        if kind == "world":
            _set(p, source.document.root.first("Model"), "gravity", numbers(model.gravity), "world.gravity")
            continue
        if what not in _WRITABLE.get(kind, ()):
            raise cannot(kind, name, what, source)
        {"body": _body, "site": _site, "actuator": _actuator}[kind](p, model.tables[kind][name], what)
    return p


def cannot(kind: str, name: str, what: str, source: Source) -> FormatError:
    path = f"{kind}.{name}.{what}" if kind != "world" else "world.gravity"
    return FormatError(f"{path} differs from {source.path.name}, but has no place in its text; save the model as MJCF instead (a path that ends in .xml).")


def add(p: Plan, body: Body) -> None:
    raise FormatError(
        f"body.{body.name} is not in {p.source.path.name}, and bodies are not added to OpenSim files; save the model as MJCF instead (a path that ends in .xml)."
    )


def _set(p: Plan, element: Element | None, tag: str, text: str, path: str) -> None:
    """The text of a child, which is made where there is none."""
    if element is None:
        raise FormatError(f"{path} has no place in {p.source.path.name}; save the model as MJCF instead (a path that ends in .xml).")
    child = element.first(tag)
    if child is None:
        p.edits.insert(element, f"<{tag}>{text}</{tag}>")
    else:
        p.edits.write(child, text)


def _body(p: Plan, body: Body, what: str) -> None:
    element, path = p.element("body", body.name, what), f"body.{body.name}.{what}"
    if what == "mass":
        _set(p, element, "mass", number(body.mass), path)
    elif what == "com":
        _set(p, element, "mass_center", numbers(body.com), path)
    elif what == "inertia" and element.first("inertia") is not None:
        _set(p, element, "inertia", numbers(body.inertia), path)
    elif what == "inertia":
        for key, value in zip(INERTIA, body.inertia, strict=True):
            _set(p, element, f"inertia_{key}", number(value), path)
    else:
        _placement(p, body, path)


def _placement(p: Plan, body: Body, path: str) -> None:
    translation: Element | None = p.source.details.get(("placement", body.name))
    if translation is None:
        raise FormatError(f"{path}: the joint of this body has no frame of its own in {p.source.path.name}; save the model as MJCF instead.")
    before = p.source.original.body(body.name).position
    moved = [float(word) + new - old for word, new, old in zip(translation.text.split(), body.position, before, strict=True)]
    p.edits.write(translation, numbers(moved))


def _site(p: Plan, site: Site, what: str) -> None:
    _set(p, p.element("site", site.name, what), "location", numbers(site.position), f"site.{site.name}.position")


def _actuator(p: Plan, actuator: Actuator, what: str) -> None:
    _set(p, p.element("actuator", actuator.name, what), "optimal_force", number(actuator.gain), f"actuator.{actuator.name}.gain")
