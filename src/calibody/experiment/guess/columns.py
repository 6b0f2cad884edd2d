"""Which channel each column is: by the names of joints, actuators and sites, else by order, as far as the counts agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calibody.experiment.guess import names
from calibody.experiment.guess.names import COMMAND, CONTROL, POSITION, RATE, TORQUE, UNUSED
from calibody.model import Model
from calibody.model.elements import HINGE, SCALARS
from calibody.recording.tables import Table

SURE, LIKELY, UNSURE = "sure", "likely", "unsure"
_SITE = {
    "acc": "acceleration",
    "accel": "acceleration",
    "gyro": "angular_rate",
    "pos": "position",
    "position": "position",
    "marker": "position",
    "force": "force",
    "torque": "torque",
}


@dataclass(frozen=True)
class Match:
    """A column and what it is taken for."""

    column: str
    channel: str
    """Of a joint's torque: `joint.NAME.force`."""
    quantity: str
    element: str
    """The joint, actuator or site."""
    why: str
    sure: str


@dataclass(frozen=True)
class Columns:
    clock: str
    matches: tuple[Match, ...]
    unused: dict[str, str]
    """By column: why."""

    def of(self, *quantities: str) -> dict[str, Match]:
        """By element, the first quantity that it has."""
        out: dict[str, Match] = {}
        for quantity in quantities:
            for m in self.matches:
                if m.quantity == quantity:
                    out.setdefault(m.element, m)
        return out


def matched(model: Model, table: Table, clock: str) -> Columns:
    """Every column of a table but the clock."""
    joints = [j.name for j in model.joints if j.kind in SCALARS]
    elements = {kind: names.own_words(found) for kind, found in (("joint", joints), ("actuator", [a.name for a in model.actuators]))}
    sites = names.own_words([s.name for s in model.sites])
    found: list[Match] = []
    unused: dict[str, str] = {}
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[int | None, str]]] = {}
    for column in (c for c in table.columns if c != clock):
        split = names.words(column)
        match = _site(column, split, sites) or _named(model, column, split, elements)
        quantity = names.quantity(split)
        if match is not None and match.quantity != UNUSED:
            found.append(match)
        elif quantity in (None, UNUSED):
            unused[column] = "its name says nothing that a fit reads" if quantity is None else "wanted, filtered or derived values are no measurement"
        else:
            groups.setdefault((quantity, tuple(w for w in split if not w.isdigit())), []).append((names.number_in(split), column))
    for (quantity, _), members in groups.items():
        _in_order(model, joints, quantity, members, found, unused)
    return Columns(clock, _once(found, unused), unused)


def _site(column: str, split: Sequence[str], sites: dict[str, list[str]]) -> Match | None:
    site = names.named(split, sites) if split and split[-1] in ("x", "y", "z") else None
    if site is None:
        return None
    quantity = next((_SITE[w] for w in split if w in _SITE), "position")
    return Match(column, f"site.{site}.{quantity}.{split[-1]}", "site", f"{site}.{quantity}.{split[-1]}", f'the name has that of the site "{site}"', LIKELY)


def _named(model: Model, column: str, split: Sequence[str], elements: dict[str, dict[str, list[str]]]) -> Match | None:
    """A column that has the name of a joint, or of an actuator, in its own."""
    joint, actuator = (names.named(split, elements[kind]) for kind in ("joint", "actuator"))
    if joint is not None:
        rest = names.left_over(split, elements["joint"][joint])
        quantity = POSITION if not rest else names.quantity(rest)
        if quantity == CONTROL and any(a.joint == joint for a in model.actuators):
            return _control(column, next(a.name for a in model.actuators if a.joint == joint), f'the name has that of the joint "{joint}"', SURE)
        if quantity is not None:
            return _joint(model, column, joint, quantity, f'the name has that of the joint "{joint}"', SURE)
    if actuator is not None and (names.quantity(names.left_over(split, elements["actuator"][actuator])) or CONTROL) in (CONTROL, COMMAND, TORQUE):
        return _control(column, actuator, f'the name has that of the actuator "{actuator}"', SURE)
    return None


def _joint(model: Model, column: str, joint: str, quantity: str, why: str, sure: str) -> Match:
    coordinate = "angle" if model.joint(joint).kind == HINGE else "position"
    channel = {POSITION: coordinate, RATE: "rate"}.get(quantity, "force")
    return Match(column, f"joint.{joint}.{channel}", quantity, joint, why, sure)


def _control(column: str, actuator: str, why: str, sure: str) -> Match:
    return Match(column, f"actuator.{actuator}", CONTROL, actuator, why, sure)


def _in_order(model: Model, joints: Sequence[str], quantity: str, members: list[tuple[int | None, str]], found: list[Match], unused: dict[str, str]) -> None:
    """Columns that are alike but for a number, one for each joint (controls: for each actuator) in the order of the model."""
    drives = quantity == CONTROL and bool(model.actuators)
    targets = [a.name for a in model.actuators] if drives else list(joints)
    columns = [column for _, column in sorted(members, key=lambda m: (m[0] is None, m[0] or 0))]
    kind = "actuator" if drives else "hinge or slide"
    if len(columns) != len(targets):
        for column in columns:
            unused[column] = (
                f"{len(columns)} such column{'s' if len(columns) > 1 else ''}, and the model has {len(targets)} of kind {kind}: name them after their elements"
            )
        return
    if quantity == CONTROL and not drives:
        unused.update(dict.fromkeys(columns, "the model has no actuator for a control"))
        return
    why = f"the only {kind}" if len(targets) == 1 else f"in the order of the model ({len(targets)} of kind {kind})"
    sure = SURE if len(targets) == 1 else LIKELY
    found += [_control(c, t, why, sure) if drives else _joint(model, c, t, quantity, why, sure) for c, t in zip(columns, targets, strict=True)]


def _once(found: Sequence[Match], unused: dict[str, str]) -> tuple[Match, ...]:
    """The first column for every channel and quantity."""
    out: dict[tuple[str, str], Match] = {}
    for m in found:
        if (m.channel, m.quantity) in out:
            unused[m.column] = f'"{out[m.channel, m.quantity].column}" is taken for {m.channel}'
        else:
            out[m.channel, m.quantity] = m
    return tuple(out.values())
