"""Which channel each column is: by the names of joints, actuators and sites, else by order, as far as the counts agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calibody.experiment.guess import names
from calibody.experiment.guess.names import COMMAND, CONTROL, POSITION, RATE, TORQUE, UNUSED
from calibody.model import Model
from calibody.model.elements import HINGE, SCALARS
from calibody.recording.tables import Table
from calibody.recording.units import UNITS

SURE, LIKELY, UNSURE = "sure", "likely", "unsure"
ELECTRIC_UNITS = ("V", "mV", "A", "mA", "%")
"""Of controls, which no channel is measured in."""
_INERTIAL = dict.fromkeys(("acc", "accel", "acceleration", "accelerometer"), "acceleration")
_INERTIAL |= dict.fromkeys(("gyro", "gyr", "gyroscope", "omega", "angular", "rate"), "angular_rate")
"""What the words of an inertial sensor mean: it needs no name where a model has one site."""
_SITE = _INERTIAL | {"pos": "position", "position": "position", "marker": "position", "force": "force", "torque": "torque"}


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
    moved = {body.name: own[0].name for body in model.bodies if len(own := model.joints_of(body.name)) == 1 and own[0].kind in SCALARS}
    elements = {"joint": joints, "actuator": [a.name for a in model.actuators], "body": list(moved)}
    known, sites = {kind: names.own_words(given) for kind, given in elements.items()}, names.own_words([s.name for s in model.sites])
    found: list[Match] = []
    unused: dict[str, str] = {}
    open_: dict[str, list[_Open]] = {}
    for column in (c for c in table.columns if c != clock):
        split = names.words(_bare(table, column))
        match = _site(column, split, sites) or _named(model, column, split, known, moved)
        quantity = names.quantity(split) if match is None else UNUSED
        if quantity == CONTROL and not model.actuators and not names.electric(split):
            quantity = COMMAND  # of a model without actuators: what drives is a torque
        if match is not None and match.quantity != UNUSED:
            found.append(match)
        elif match is not None and match.quantity == UNUSED and match.element in sites:
            unused[column] = f'nothing that a sensor on the site "{match.element}" reads by its name'
        elif quantity in (None, UNUSED):
            unused[column] = "its name says nothing that a fit reads" if quantity is None else "wanted, filtered or derived values are no measurement"
        else:
            open_.setdefault(quantity, []).append(_Open(column, tuple(split)))
    for quantity, columns in open_.items():
        _without_names(model, joints, quantity, columns, found, unused)
    return Columns(clock, _once(found, unused), unused)


def _bare(table: Table, column: str) -> str:
    """A column's name without a unit in brackets at its end, whose letters would be taken for words; [elbow] and [3] are part of the name."""
    unit = table.stated_unit(column)
    return column[: column.rindex(unit)] if unit in UNITS or unit in ELECTRIC_UNITS else column


@dataclass(frozen=True)
class _Open:
    """A column that has no element's name in its own."""

    column: str
    split: tuple[str, ...]

    @property
    def stem(self) -> tuple[str, ...]:
        return tuple(w for w in self.split if not w.isdigit())

    @property
    def place(self) -> tuple[bool, int]:
        number = names.number_in(self.split)
        return number is None, number or 0


def _site(column: str, split: Sequence[str], sites: dict[str, list[str]]) -> Match | None:
    """A component of what a site's sensor reads; of a place where no word says what else it is."""
    if not split or split[-1] not in ("x", "y", "z"):
        return None
    named = names.named(split, sites)
    inertial = "rate" not in split and any(w in _INERTIAL for w in split)
    site = named or (next(iter(sites)) if len(sites) == 1 and inertial else None)
    if site is None:
        return None
    rest = names.left_over(split[:-1], (*names.words(site), *sites[site], "imu"))
    quantity = next((_SITE[w] for w in rest if w in _SITE), "position" if not rest else UNUSED)
    why, sure = (f'the name has that of the site "{site}"', LIKELY) if named else (f'the only site is "{site}"', UNSURE)
    if quantity == UNUSED or ("linear" in rest and quantity != "acceleration"):
        return Match(column, "", UNUSED, site, why, sure)
    return Match(column, f"site.{site}.{quantity}.{split[-1]}", "site", f"{site}.{quantity}.{split[-1]}", why, sure)


def _named(model: Model, column: str, split: Sequence[str], known: dict[str, dict[str, list[str]]], moved: dict[str, str]) -> Match | None:
    """A column that has the name of a joint, of the body that a joint moves, or of an actuator, in its own."""
    joint, body, actuator = (names.named(split, known[kind]) for kind in ("joint", "body", "actuator"))
    by_name = [(joint, joint, f'the name has that of the joint "{joint}"', SURE)] if joint else []
    by_name += [(body, moved[body], f'the name has that of the body "{body}", which this joint moves', LIKELY)] if body else []
    for name, own, why, sure in by_name:
        rest = names.left_over(split, (*names.words(name), *known["joint" if name == joint else "body"][name]))
        quantity = POSITION if not rest else names.quantity(rest)
        if quantity == CONTROL and any(a.joint == own for a in model.actuators):
            return _control(column, next(a.name for a in model.actuators if a.joint == own), why, sure)
        if quantity == CONTROL and not model.actuators and not names.electric(rest):
            quantity = COMMAND
        if quantity is not None and names.angular(rest) in (None, model.joint(own).kind == HINGE):
            return _joint(model, column, own, quantity, why, sure)
    if actuator is not None and (names.quantity(names.left_over(split, known["actuator"][actuator])) or CONTROL) in (CONTROL, COMMAND, TORQUE):
        return _control(column, actuator, f'the name has that of the actuator "{actuator}"', SURE)
    return None


def _joint(model: Model, column: str, joint: str, quantity: str, why: str, sure: str) -> Match:
    coordinate = "angle" if model.joint(joint).kind == HINGE else "position"
    channel = {POSITION: coordinate, RATE: "rate"}.get(quantity, "force")
    return Match(column, f"joint.{joint}.{channel}", quantity, joint, why, sure)


def _control(column: str, actuator: str, why: str, sure: str) -> Match:
    return Match(column, f"actuator.{actuator}", CONTROL, actuator, why, sure)


def _without_names(model: Model, joints: Sequence[str], quantity: str, columns: list[_Open], found: list[Match], unused: dict[str, str]) -> None:
    """Columns of one quantity: those that are alike but for a number, one for each element, in their order; the others by what their letters mean, angles for hinges and lengths for slides."""
    if quantity == CONTROL and not model.actuators:
        unused.update(dict.fromkeys((c.column for c in columns), "the model has no actuator for a control"))
        return
    drives = quantity == CONTROL
    targets = [a.name for a in model.actuators] if drives else list(joints)
    alike: dict[tuple[str, ...], list[_Open]] = {}
    for c in columns:
        alike.setdefault(c.stem, []).append(c)
    rest: list[_Open] = []
    for members in alike.values():
        own = _numbered(targets, len(members))
        if own and _fits(model, members, own, drives):
            found += _in_order(model, quantity, sorted(members, key=lambda m: m.place), own, LIKELY)
        else:
            rest += members
    taken = {m.element for m in found if m.quantity == quantity}
    left = [t for t in targets if t not in taken]
    driven = [t for t in left if any(a.joint == t for a in model.actuators)] if quantity in (TORQUE, COMMAND) and len(rest) < len(left) else []
    for some in _by_kind(rest, drives):
        own = [t for t in driven or left if _fits(model, some[:1], [t], drives)]
        if len(some) == len(own) and _fits(model, some, own, drives):
            numbered = len({c.stem for c in some}) == 1 and len(some) > 1
            found += _in_order(model, quantity, sorted(some, key=lambda c: c.place) if numbered else some, own, LIKELY if numbered else UNSURE)
        else:
            unused.update({c.column: _unmatched(len(some), len(targets), len(left), drives) for c in some})


def _numbered(targets: Sequence[str], count: int) -> list[str]:
    """The elements that so many numbered columns stand for: all, or the only ones of which there are so many that differ in a number alone (the arm of a robot with a gripper)."""
    if len(targets) == count:
        return list(targets)
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in targets:
        split = names.words(name)
        if names.number_in(split) is not None:
            alike.setdefault(tuple(w for w in split if not w.isdigit()), []).append(name)
    of_that_size = [members for members in alike.values() if len(members) == count > 1]
    return sorted(of_that_size[0], key=lambda name: names.number_in(names.words(name)) or 0) if len(of_that_size) == 1 else []


def _by_kind(columns: list[_Open], drives: bool) -> list[list[_Open]]:
    """Angles and lengths apart, if all of them say which they are."""
    if drives or any(names.angular(c.split) is None for c in columns):
        return [columns] if columns else []
    return [some for side in (True, False) if (some := [c for c in columns if names.angular(c.split) is side])]


def _fits(model: Model, columns: Sequence[_Open], targets: Sequence[str], drives: bool) -> bool:
    """Whether no angle is put on a slide, and no length on a hinge."""
    return drives or all(names.angular(c.split) in (None, model.joint(t).kind == HINGE) for c, t in zip(columns, targets, strict=True))


def _in_order(model: Model, quantity: str, columns: Sequence[_Open], targets: Sequence[str], sure: str) -> list[Match]:
    """One column for each; of a single one there is no order to be wrong about."""
    kind = "actuator" if quantity == CONTROL else model.joint(targets[0]).kind if len({model.joint(t).kind for t in targets}) == 1 else "hinge or slide"
    if len(targets) == 1:
        why, sure = (f"the only {kind}", SURE) if sure == LIKELY else (f"the only {kind} that it can be", LIKELY)
    else:
        why = f"in the order of the {'model' if sure == LIKELY else 'columns'} ({len(targets)} of kind {kind})"
    return [
        _control(c.column, t, why, sure) if quantity == CONTROL else _joint(model, c.column, t, quantity, why, sure)
        for c, t in zip(columns, targets, strict=True)
    ]


def _unmatched(columns: int, targets: int, left: int, drives: bool) -> str:
    kind = "actuator" if drives else "hinge or slide"
    others = f" ({targets - left} of them named by other columns)" if left < targets else ""
    return f"{columns} such column{'s' if columns > 1 else ''}, and the model has {targets} of kind {kind}{others}: name them after their elements"


def _once(found: Sequence[Match], unused: dict[str, str]) -> tuple[Match, ...]:
    """The first column for every channel and quantity."""
    out: dict[tuple[str, str], Match] = {}
    for m in found:
        if (m.channel, m.quantity) in out:
            unused[m.column] = f'"{out[m.channel, m.quantity].column}" is taken for {m.channel}'
        else:
            out[m.channel, m.quantity] = m
    return tuple(out.values())
