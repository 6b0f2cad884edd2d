"""What is estimated: unknown numbers of a model, of its channels, or shared by several places.

An unknown is one entry of theta. It sits at one path (`body.arm.mass`), at a channel's `bias`, `gain` or `delay`, or in several
`places`, each an expression of it (`{"body.rod.com.x": "0.5 * rod"}`) and of other unknowns that have names (`"total - first"`, `"r * cos(phi)"`): then the place belongs to all of them, each with the slope of the expression
along it. `body.X.inertia` stands for ten (`inertial.py`).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibody.errors import CalibodyError, ModelError, meant, nearest, shown
from calibody.estimate.inertial import UNITS, Inertia
from calibody.mechanics import channels
from calibody.mechanics.elements import compliant
from calibody.model import Model, paths
from calibody.model.contact import RIGID_NUMBERS, SOFT_NUMBERS
from calibody.model.elements import LOAD, MASKS, POINT, SOFTNESS

SENSOR = ("bias", "gain", "delay")
SMALL = 1e-3
"""Scale of a number that is zero in the model, if none is given."""
SMALLS = {"tilt": 0.1, "time_constant": 0.01, "load_friction": 0.1, "load_stribeck": 0.1}
"""The same by field: the tilt of gravity [rad] (a stand out of level by more than that is seen), the time constant of an actuator [s], coefficients of friction."""
BIAS = {"acceleration": 0.1, "angular_rate": 0.01, "rate": 0.01, "force": 0.1, "torque": 0.1, "reaction.force": 0.1, "reaction.torque": 0.1}
"""The same for the bias of a channel, by its quantity [m/s^2, rad/s or m/s, N or N m]; of others SMALL."""
SHARE = ".restitution"
"""How paths end whose number cannot be more than one."""
DIAGONAL = (".inertia.xx", ".inertia.yy", ".inertia.zz")


@dataclass(frozen=True)
class Unknown:
    """An unknown number. `initial` defaults to the model's value; `prior` is (value, sd); `scale` the size of a change that counts as one."""

    initial: float | None = None
    lower: float = -math.inf
    upper: float = math.inf
    prior: tuple[float, float] | None = None
    scale: float | None = None
    per_run: bool = False
    places: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Place:
    """Where an unknown enters: a path of the model, or (channel, quantity) of a sensor; its value there and slope as functions of the unknown."""

    path: str
    sensor: tuple[str, str] | None
    expression: str | None
    name: str
    others: tuple[str, ...] = ()
    """Names of further unknowns in the expression; `value` and `slope` are given what they are."""

    def value(self, x: float, known: Mapping[str, float] | None = None) -> float:
        return x if self.expression is None else _evaluate(self.expression, self.name, {**(known or {}), self.name: x})

    def slope(self, x: float, known: Mapping[str, float] | None = None) -> float:
        """With respect to the unknown that it is a place of, the others being what they are."""
        if self.expression is None:
            return 1.0
        step = 1e-6 * max(abs(x), 1e-3)
        return (self.value(x + step, known) - self.value(x - step, known)) / (2.0 * step)


@dataclass(frozen=True)
class Entry:
    """One entry of theta: an unknown in one run, or in all (`run` is None)."""

    name: str
    run: int | None
    places: tuple[Place, ...]
    initial: float
    lower: float
    upper: float
    prior: tuple[float, float] | None
    scale: float
    unit: str
    group: Inertia | None = None
    """The body whose ten inertial numbers are solved for together; then `places` is empty and this is number `member` of ten."""
    member: int = 0


def entries(model: Model, estimate: Mapping[str, Unknown | float | None], runs: Sequence[str]) -> tuple[Entry, ...]:
    """theta, in the order given; unknowns with `per_run` once per run. None at all: motion and forces are estimated alone."""
    if not isinstance(estimate, Mapping):
        raise CalibodyError(f'The unknowns are {shown(estimate)}; give a mapping such as {{"body.NAME.mass": cb.Unknown(1.0)}}.')
    out: list[Entry] = []
    seen: dict[str, str] = {}
    unknowns = {name: u if isinstance(u, Unknown) else Unknown(None if u is None else _number(u, name)) for name, u in estimate.items()}
    placed = _all_places(model, unknowns)
    for name, unknown in unknowns.items():
        if _names_all_ten(model, name):
            out += _all_ten(model, name, unknown, seen)
            continue
        places = placed[name]
        for place in (p for p in places if unknown.places is None or p.path in unknown.places):
            if place.path in seen:
                raise CalibodyError(f'"{place.path}" is set by two unknowns, "{seen[place.path]}" and "{name}"; keep one of them.')
            seen[place.path] = name
        for run in range(len(runs)) if unknown.per_run else (None,):
            out.append(_entry(model, name if run is None else f"{name}[{runs[run]}]", run, places, unknown))
    return tuple(out)


def _names_all_ten(model: Model, name: str) -> bool:
    kind, _, rest = name.partition(".")
    return kind == "body" and rest.endswith(".inertia") and rest.removesuffix(".inertia") in model.tables["body"]


def _all_ten(model: Model, name: str, unknown: Unknown, seen: dict[str, str]) -> list[Entry]:
    """`body.X.inertia`: mass, centre of mass and inertia of a body, kept physically possible."""
    if unknown != Unknown():
        raise CalibodyError(f'"{name}" stands for ten numbers and starts from the model; give cb.Unknown() without values, or name them one by one.')
    group = Inertia.of(model, name.split(".", 1)[1].removesuffix(".inertia"))
    out = []
    for k, (path, unit) in enumerate(zip(group.paths, UNITS, strict=True)):
        if path in seen:
            raise CalibodyError(f'"{path}" is set by two unknowns, "{seen[path]}" and "{name}"; keep one of them.')
        seen[path] = name
        out.append(Entry(path, None, (), 0.0, -math.inf, math.inf, None, 1.0, unit, group, k))
    return out


def _number(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise CalibodyError(f'The unknown "{name}" is given as {value!r}; give cb.Unknown(initial, lower=..., upper=...) or a number.') from None


def _all_places(model: Model, unknowns: Mapping[str, Unknown]) -> dict[str, tuple[Place, ...]]:
    """By unknown: its own places, and those of others whose expressions it stands in."""
    named = {name: 1.0 if u.initial is None else _number(u.initial, name) for name, u in unknowns.items() if u.places is not None}
    own = {name: _places(model, name, u, named) for name, u in unknowns.items() if not _names_all_ten(model, name)}
    out = dict(own)
    for name, places in own.items():
        for place in places:
            for other in place.others:
                rest = tuple(n for n in (*place.others, name) if n != other)
                out[other] = (*out[other], replace(place, name=other, others=rest))
    for name in named:
        if not out[name]:
            raise CalibodyError(f'The unknown "{name}" has no places; give for instance {{"body.rod.com.x": "0.5 * {name}"}}, or use it in those of another.')
    return out


def _places(model: Model, name: str, unknown: Unknown, named: Mapping[str, float]) -> tuple[Place, ...]:
    if unknown.places is None:
        return (_place(model, name, None, name, named),)
    return tuple(_place(model, path, expression, name, named) for path, expression in unknown.places.items())


def _place(model: Model, path: str, expression: str | None, name: str, named: Mapping[str, float]) -> Place:
    others: tuple[str, ...] = ()
    if expression is not None:
        _evaluate(expression, name, named)
        others = tuple(n for n in _used(expression) if n in named and n != name)
    head, _, tail = path.rpartition(".")
    if tail in SENSOR:
        if head.startswith("sensor.") and head.removeprefix("sensor.") in model.tables["sensor"]:
            return Place(path, (model.tables["sensor"][head.removeprefix("sensor.")].channel, tail), expression, name, others)
        if channels.is_known(model, head) and channels.resolve(model, head).quantity:  # an actuator's control has numbers of its own
            channel = channels.resolve(model, head)
            if tail != "delay" and channel.components and channel.component is None:
                raise CalibodyError(f'"{path}" names several numbers at once; name them one by one, for instance "{head}.{channel.components[0]}.{tail}".')
            return Place(path, (head, tail), expression, name, others)
    try:
        place = paths.resolve(model, path)
    except ModelError:
        _refuse_channel(model, path)
        raise
    if place.component is None and isinstance(model[path], tuple):
        raise CalibodyError(f'The unknown "{path}" names several numbers at once; name them one by one, for instance "{path}.x".')
    return Place(path, None, expression, name, others)


def _refuse_channel(model: Model, path: str) -> None:
    """A sentence for what is measured and not a number: it has numbers of its own."""
    head, _, tail = path.rpartition(".")
    if channels.is_known(model, path):
        raise CalibodyError(f'"{path}" is a channel, which is measured; what can be estimated of it is "{path}.bias", "{path}.gain" and "{path}.delay".')
    if channels.is_known(model, head) and (found := meant(tail, SENSOR, paths.OTHER_WORDS)):
        raise CalibodyError(f'"{path}" is no number of the channel "{head}"; did you mean "{head}.{found}"?')


def _sensor_default(model: Model, channel: str, number: str) -> float:
    """What the model's sensor of a channel says, or that of an instrument without fault."""
    given = next((getattr(s, number) for s in model.sensors if s.channel == channel), None)
    return (1.0 if number == "gain" else 0.0) if given is None else float(given)


def _model_default(model: Model, path: str) -> float:
    """What the model says; of sliding friction that is not given, what acts in its place."""
    own = float(model[path])
    if own == 0.0 and path.endswith(SLIDING):
        own = float(model[path.removesuffix(SLIDING) + ".friction"])
    return own


def _sensor_unit(model: Model, channel: str, number: str) -> str:
    return {"bias": channels.resolve(model, channel).unit, "delay": "s", "gain": ""}[number]


def _entry(model: Model, name: str, run: int | None, places: tuple[Place, ...], unknown: Unknown) -> Entry:
    first, borrowed = places[0], unknown.places == {}
    default = _sensor_default(model, *first.sensor) if first.sensor else _model_default(model, first.path)
    if unknown.places is not None and unknown.initial is None:
        raise CalibodyError(f'The unknown "{name}" sits in several places and needs an initial value; give cb.Unknown(initial, places=...).')
    initial = default if unknown.initial is None else _number(unknown.initial, name)
    lower = unknown.lower
    if (
        first.sensor is None
        and first.expression is None
        and lower == -math.inf
        and (not paths.number_at(model, first.path).signed or first.path.endswith(DIAGONAL))
    ):
        lower = 0.0
    if first.sensor is None and first.path.endswith(SLIDING):
        lower = max(lower, LEAST_SLIDING)
    upper = 1.0 if unknown.upper == math.inf and first.sensor is None and first.expression is None and first.path.endswith(SHARE) else unknown.upper
    if not all(math.isfinite(x) for x in (initial,)) or math.isnan(lower) or math.isnan(upper) or lower > upper:
        raise CalibodyError(f'The unknown "{name}" has initial {initial}, lower {lower}, upper {upper}; give a finite initial value and lower <= upper.')
    if not lower <= initial <= upper:
        raise CalibodyError(f'The initial value {initial:g} of "{name}" lies outside its bounds [{lower:g}, {upper:g}].')
    nothing = SMALL if first.sensor is not None else SMALLS.get(paths.resolve(model, first.path).field, SMALL)
    if first.sensor is not None and first.sensor[1] == "bias":
        nothing = BIAS.get(channels.resolve(model, first.sensor[0]).quantity, SMALL)
    size = max(abs(initial), nothing if default == 0.0 else abs(default)) if not borrowed else abs(initial) or 1.0
    scale = size if unknown.scale is None else unknown.scale
    if unknown.prior is not None and not unknown.prior[1] > 0.0:
        raise CalibodyError(f'The prior of "{name}" has the sd {unknown.prior[1]}; give (value, sd) with sd above zero.')
    unit = "" if borrowed else _sensor_unit(model, *first.sensor) if first.sensor else paths.resolve(model, first.path).unit
    return Entry(name, run, places, initial, lower, upper, unknown.prior, float(scale), unit)


SLIDING, LEAST_SLIDING = ".sliding_friction", 1e-3
"""How the path of the friction of lasting contact ends, and its least value as an unknown: zero stands for "the same as `friction`", where a fit would jump from no friction to all of it."""
WIDTH = ".friction_rate"
"""How the path of the width of a joint's dry friction ends."""


def model_paths(entry_list: Sequence[Entry]) -> tuple[str, ...]:
    """The numbers of the model that are unknown, or follow from unknowns."""
    return tuple(dict.fromkeys(place.path for e in entry_list for place in e.places if place.sensor is None))


UNTOUCHED = "contacts and limits do not act in this method; leave it out."


def refuse_what_does_not_act(model: Model, entry_list: Sequence[Entry], coordinates: str, inert: str | None = UNTOUCHED) -> None:
    """A sentence for an unknown that the estimator's equations do not contain: the data could say nothing about it, whatever they are. `inert`: why contacts do not act; None: they do."""
    for place in (place for e in entry_list for place in e.places if place.sensor is None):
        if (reason := _missing(model, paths.resolve(model, place.path), coordinates, inert)) is not None:
            raise CalibodyError(f'"{place.path}" cannot be estimated: {reason}')


def _missing(model: Model, place: paths.Place, coordinates: str, inert: str | None) -> str | None:
    """Why a number does not act; None if it does."""
    touched = any(place.name in (c.a, c.b) for c in model.contacts) and inert is None
    if (place.kind, "" if place.kind == "world" else place.name) in compliant.shapes_of(model) and (place.kind != "world" or place.field.startswith("ground_")):
        return _missing_of_compliant(model, place)
    if place.kind == "geometry" and not touched and not any(("geometry", place.name) in path.placed_by for path in model.paths):
        return "a geometry is only drawn; leave it out."
    if place.kind == "limit" and model.tables["limit"][place.name].compliant:
        return _missing_of_compliant(model, place)
    if place.kind in ("contact", "limit") and place.field in SOFT_NUMBERS:
        return f'{place.kind}.{place.name} is rigid and has no {place.field}; give it law = "compliant" in the model, or leave it out.'
    if place.kind in ("contact", "limit") or place.field.startswith("ground_"):
        return inert
    if place.kind == "sensor":
        return "leave out the sd of the channel where it is observed, and it is found."
    if place.kind not in ("joint", "loop"):
        return None
    element = model.tables[place.kind][place.name]
    number = paths.number_of(model, place)
    if number.role == LOAD and coordinates == "tree":
        return f'friction by load needs the reactions of the joint; use coordinates = "free" or "auto", or estimate "joint.{place.name}.friction".'
    if number.kinds and element.kind not in number.kinds:
        return f"a {element.kind} {place.kind} has no {place.field}; leave it out."
    if place.field == "orientation1" and element.kind == POINT and element.mask == MASKS[0]:
        return "a point loop has no orientation1 unless it is masked; leave it out."
    if number.role == SOFTNESS and element.compliance == 0.0 and getattr(element, "angular_compliance", 0.0) == 0.0:
        return f"{place.kind}.{place.name} is rigid in the model; give it a compliance above zero to start from."
    if place.field.startswith("angular_") and getattr(element, place.field) == 0.0:
        return f"it is zero in the model, which stands for the same number as {place.field.removeprefix('angular_')}; give it a value to start from."
    return None


def _missing_of_compliant(model: Model, place: paths.Place) -> str | None:
    if place.kind not in ("contact", "limit"):
        return None
    if place.field in RIGID_NUMBERS:
        return f"compliant {'contact' if place.kind == 'contact' else 'limits'} {'has' if place.kind == 'contact' else 'have'} no {place.field}; leave it out."
    if place.field in ("depth", "radius") and not getattr(model.tables[place.kind][place.name], place.field):
        return f"it is zero in the model, which stands for none; give {place.kind}.{place.name}.{place.field} a size to start from."
    return None


DRY = (".friction", ".stribeck", ".load_friction", ".load_stribeck", ".damping_skew", ".friction_skew")


def rubbing(model: Model, entry_list: Sequence[Entry]) -> set[str]:
    """Joints with dry friction, known or unknown, and transmissions by their path."""
    unknown = _owners(model, entry_list, DRY)
    known = {f"{t.KIND}.{t.name}" for t in (*model.transmissions, *model.paths) if max(t.friction, t.stribeck, abs(t.damping_skew)) > 0.0}
    return unknown | known | {j.name for j in model.joints if max(j.friction, j.stribeck, j.load_friction, j.load_stribeck, abs(j.damping_skew)) > 0.0}


def soft(model: Model, entry_list: Sequence[Entry]) -> set[str]:
    """Joints whose dry friction has a width (`joint.X.friction_rate`), known or unknown, and transmissions by their path."""
    known = {f"{t.KIND}.{t.name}" for t in (*model.transmissions, *model.paths) if t.friction_rate > 0.0}
    return _owners(model, entry_list, (WIDTH,)) | known | {j.name for j in model.joints if j.friction_rate > 0.0}


def _owners(model: Model, entry_list: Sequence[Entry], words: tuple[str, ...]) -> set[str]:
    """Joints, and transmissions by their path, of which a number that ends in one of the words is unknown; contacts rub too, but by laws of their own."""
    places = (paths.resolve(model, p.path) for e in entry_list for p in e.places if p.sensor is None and p.path.endswith(words))
    return {owner_of(place) for place in places if place.kind != "contact"}


def owner_of(place: paths.Place) -> str:
    """The name of a joint; other elements by their path."""
    return place.name if place.kind == "joint" else f"{place.kind}.{place.name}"


def values_at(entry_list: Sequence[Entry], theta: np.ndarray, run: int) -> tuple[dict[str, float], dict[tuple[str, str], float]]:
    """Numbers of the model and of sensors in one run."""
    numbers: dict[str, float] = {}
    sensors: dict[tuple[str, str], float] = {}
    known = named(entry_list, theta, run)
    for entry, x in zip(entry_list, theta, strict=True):
        if entry.run not in (None, run):
            continue
        for place in entry.places:
            if not known.keys() >= set(place.others):  # of one that differs between runs, where only those of all are asked for
                continue
            if place.sensor is not None:
                sensors[place.sensor] = place.value(float(x), known)
            else:
                numbers[place.path] = place.value(float(x), known)
    for k, entry in enumerate(entry_list):
        if entry.group is not None and entry.member == 0:
            numbers |= dict(zip(entry.group.paths, map(float, entry.group.reported(theta[k : k + 10])), strict=True))
    return numbers, sensors


def named(entry_list: Sequence[Entry], theta: np.ndarray, run: int) -> dict[str, float]:
    """What unknowns are in a run, by the names that expressions use."""
    return {e.name if e.run is None else e.name.rpartition("[")[0]: float(x) for e, x in zip(entry_list, theta, strict=True) if e.run in (None, run)}


# -- expressions -----------------------------------------------------------------------------------------------------------------------

_FUNCTIONS = {"sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "exp": math.exp, "log": math.log, "pi": math.pi}
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}


def _used(expression: str) -> list[str]:
    """The names in an expression."""
    return list(dict.fromkeys(node.id for node in ast.walk(ast.parse(expression, mode="eval")) if isinstance(node, ast.Name)))


def _evaluate(expression: str, name: str, values: Mapping[str, float]) -> float:
    """The value of an arithmetic expression of unknowns: numbers, + - * / **, sqrt sin cos exp log, pi."""
    try:
        tree = ast.parse(expression, mode="eval")
        return float(_node(tree.body, name, values))
    except CalibodyError:
        raise
    except (SyntaxError, TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError):
        raise CalibodyError(f'The expression "{expression}" of the unknown "{name}" cannot be evaluated; write for instance "0.5 * {name}".') from None


def _node(node: ast.AST, name: str, values: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    if isinstance(node, ast.Name):
        if node.id in values:
            return values[node.id]
        if node.id == "pi":
            return math.pi
        near = nearest(node.id, list(values)) or "."
        raise CalibodyError(
            f'The expression of the unknown "{name}" uses "{node.id}"; it may use "{name}" and other unknowns that have a name and places{near}'
        )
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        x = _node(node.operand, name, values)
        return -x if isinstance(node.op, ast.USub) else x
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        a, b = _node(node.left, name, values), _node(node.right, name, values)
        return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b, "**": lambda: a**b}[_OPERATORS[type(node.op)]]()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and len(node.args) == 1 and not node.keywords:
        return _FUNCTIONS[node.func.id](_node(node.args[0], name, values))  # type: ignore[operator]
    raise ValueError("not arithmetic")
