"""From a TOML file to an `Experiment`; every mistake is one sentence with the file and the line.

`tomllib` does not say where a value stood, so the line is looked for in the text: the header of the table, then the key in it.
"""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from calibody.errors import CalibodyError, nearest, shown
from calibody.estimate.designs.designing import Designing
from calibody.estimate.draws.sampling import Sampling
from calibody.estimate.estimator import AbstractEstimator, OptionError
from calibody.estimate.fit import ESTIMATORS, default_method, elsewhere, option_names
from calibody.estimate.unknowns import Unknown
from calibody.experiment.additions import Payload
from calibody.experiment.spec import Experiment, RunSpec
from calibody.model import Body, Sensor, Site
from calibody.recording.exchange import EXAMPLE, Exchange, exchange
from calibody.recording.impact import check_impacts
from calibody.recording.plates import PlateSpec, plate_spec
from calibody.recording.readers import DriveSpec, ObserveSpec, spec_of
from calibody.recording.recording import check_initial, is_finite
from calibody.recording.units import TIME_UNITS
from calibody.recording.unknown import EVERY, UNKNOWN, UnknownDrive, is_unknown, unknown_drive
from calibody.streams import refuse_stream

LONGEST_EXPRESSION = 200
"""Characters of the expression of a place; more is a mistake."""
LARGEST_FILE = 10_000_000
"""Bytes; an experiment file has a few thousand."""
ENGINES = ("mujoco",)
TABLES = ("model", "run", "estimate", "method", "posterior", "design", "site", "sensor", "payload")
LISTS = ("run", "estimate", "site", "sensor", "payload")
"""Tables that may stand several times."""
SITE_KEYS = {"name": "a word", "body": 'the name of a body, or "world"', "position": 3, "orientation": 4}
SENSOR_KEYS = {"name": "a word", "channel": 'a channel such as "joint.NAME.angle"', "bias": 0, "gain": 0, "delay": 0}
PAYLOAD_KEYS = {"name": "a word", "frame": "the name of a body or a site", "mass": 0, "com": 3, "inertia": 6}
"""Keys of what is added to the model: what a text is, or how many numbers there are (0: one)."""
RUN_KEYS = tuple(f.name for f in dataclasses.fields(RunSpec) if f.name != "unknown")
"""What is unknown stands among the drives."""
ESTIMATE_KEYS = ("parameter", "name", *(f.name for f in dataclasses.fields(Unknown)))

Found = TypeVar("Found")
Spec = TypeVar("Spec", ObserveSpec, DriveSpec)
Options = TypeVar("Options", Sampling, Designing)
Added = TypeVar("Added", Site, Sensor, Payload)


def load(path: str | Path) -> Experiment:
    """The experiment in a TOML file."""
    path = Path(path)
    text = _text(path)
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("<"):
            raise CalibodyError(f"{path.name} is a model, no experiment; calibody new {path.name} LOG writes one.") from None
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())[:200]
        place = re.search(r"\s*\(at line (\d+), column (\d+)\)", reason)
        line = f":{place[1]}" if place else f":{text.count(chr(10)) + 1}" if "at end of document" in reason else ""
        reason = reason.replace(place[0], f" (column {place[2]})") if place else reason
        raise CalibodyError(f"{path.name}{line}: this is not valid TOML: {reason.rstrip('.')}.") from None
    return _experiment(_File(path, text.split("\n")), given)


def _text(path: Path) -> str:
    refuse_stream(path, "The experiment file")
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise CalibodyError(f'"{path}" has more than {LARGEST_FILE // 10**6} MB; an experiment file is a short TOML file, recordings are named in it.')
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise CalibodyError(f'"{path}" is not text in UTF-8; save it in this encoding.') from None
    except FileNotFoundError:
        there = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        raise CalibodyError(f'The experiment file "{path}" does not exist{nearest(path.name, there) or "; check its folder and name."}') from None
    except (OSError, ValueError) as error:
        raise CalibodyError(f'The experiment file "{path}" cannot be read: {getattr(error, "strerror", None) or error}.') from None


@dataclasses.dataclass(frozen=True)
class _File:
    path: Path
    lines: list[str]

    def line_of(self, table: str, index: int, key: str) -> int | None:
        """The line of a key in the index-th table of that name; if it is not found, the line of the table's header."""
        headers = [(k, found[1]) for k, line in enumerate(self.lines) if (found := re.match(r"\s*\[\[?\s*([^\[\]]+?)\s*\]", line))]
        begin = next(iter([k for k, name in headers if name == table][index : index + 1]), None)
        after = [] if begin is None else [k for k, name in headers if k > begin and not name.startswith(f"{table}.")]
        end = after[0] if after else len(self.lines)
        word = re.compile(rf"""(?<![\w.-])["']?{re.escape(key)}["']?\s*[=.\]]""")
        for k in range(begin or 0, end):
            if key and word.search(self.lines[k].partition("#")[0]):
                return k + 1
        return None if begin is None else begin + 1


@dataclasses.dataclass(frozen=True)
class _Table:
    """One table of the file, and how to take values out of it."""

    file: _File
    name: str
    given: Mapping[str, Any]
    index: int = 0

    @property
    def header(self) -> str:
        return f"[[{self.name}]]" if self.name in LISTS else f"[{self.name}]"

    def fail(self, key: str, sentence: str) -> NoReturn:
        line = self.file.line_of(self.name, self.index, key)
        raise CalibodyError(f"{self.file.path.name}{f':{line}' if line else ''}: {sentence}")

    def check_keys(self, known: tuple[str, ...]) -> None:
        for key in self.given:
            if key not in known:
                self.fail(key, f'{self.header} has an unknown key "{key}"{nearest(key, known) or "; it takes " + ", ".join(known) + "."}')

    def take(self, key: str, fits: Callable[[Any], bool], expected: str, default: Found = None) -> Found | Any:
        """The value of a key that fits, or the default if it is left out."""
        value = self.given.get(key, default)
        if key in self.given and not fits(value):
            self.fail(key, f"{self.header} has {key} = {shown(value)}; give {expected}.")
        return value

    def text(self, key: str, expected: str, default: str | None = None) -> Any:
        return self.take(key, lambda v: isinstance(v, str) and bool(v.strip()), expected, default)

    def number(self, key: str, expected: str = "a finite number", default: float | None = None) -> Any:
        value = self.take(key, is_finite, expected, default)
        return None if value is None else float(value)

    def flag(self, key: str) -> bool:
        return self.take(key, lambda v: isinstance(v, bool), "true or false", False)

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        expected = "one of " + ", ".join(choices)
        value = self.text(key, expected, choices[0])
        if value not in choices:
            self.fail(key, f'{self.header} has {key} = "{value}"{nearest(value, choices) or f"; give {expected}."}')
        return value

    def mapping(self, key: str, expected: str) -> Mapping[str, Any]:
        return self.take(key, lambda v: isinstance(v, dict), expected, {})

    def quoted(self, key: str, path: str, value: Any) -> None:
        """A dotted path that was not quoted became tables in tables: say so."""
        if "." in path or not isinstance(value, dict):
            return
        whole = path
        while isinstance(value, dict) and value and "column" not in value and "columns" not in value:
            inner, value = next(iter(value.items()))
            whole += f".{inner}"
        self.fail(path, f'{self.header} {key} has the key {path}; write the whole path in quotes, "{whole}" = ...')


# -- the tables ------------------------------------------------------------------------------------------------------------------------


def _experiment(file: _File, given: Mapping[str, Any]) -> Experiment:
    for key in given:
        if key not in TABLES:
            _Table(file, key, {}).fail(
                key,
                f'an experiment has no "{key}"{nearest(key, TABLES) or "; it has [model], [[run]], [[estimate]], [method], [posterior], [design], [[site]], [[sensor]] and [[payload]]."}',
            )
    model = _one(file, "model", given.get("model", {}))
    model.check_keys(("file", "held", "engine", "contacts"))
    if "file" not in model.given:
        model.fail("file", 'the model is missing; give [model] with file = "robot.xml" (MJCF or URDF).')
    runs = tuple(_run(table) for table in _several(file, "run", given.get("run", [])))
    if not runs and "design" not in given:
        _Table(file, "run", {}).fail("", 'there is no [[run]]; give at least one with data = "log.csv" and what it observes.')
    _check_names(file, runs)
    return Experiment(
        model_file=model.text("file", 'the path of an MJCF or URDF file, such as "robot.xml"'),
        recordings=runs,
        unknowns=_unknowns(_several(file, "estimate", given.get("estimate", []))),
        method=_method(_one(file, "method", given.get("method", {})), runs),
        posterior=_posterior(_one(file, "posterior", given.get("posterior", {}))),
        design=_design(_one(file, "design", given["design"])) if "design" in given else None,
        sites=tuple(_added(table, Site, SITE_KEYS) for table in _several(file, "site", given.get("site", []))),
        sensors=tuple(_added(table, Sensor, SENSOR_KEYS) for table in _several(file, "sensor", given.get("sensor", []))),
        payloads=tuple(_added(table, Payload, PAYLOAD_KEYS) for table in _several(file, "payload", given.get("payload", []))),
        held=_held(model),
        engine=_engine(model),
        contacts=model.flag("contacts"),
        folder=file.path.parent,
        source=file.path.name,
        lines=_lines(file, runs, given),
    )


def _engine(model: _Table) -> str | None:
    """The engine that the model is read for."""
    return model.choice("engine", ENGINES) if "engine" in model.given else None


def _held(model: _Table) -> dict[str, float]:
    given = model.mapping("held", "a table of joints and where they were, such as { gripper = 0.0 }")
    for joint, value in given.items():
        if not is_finite(value):
            model.fail("held", f'held says that the joint "{joint}" was at {value!r}; give a finite number [rad or m].')
    return {joint: float(value) for joint, value in given.items()}


def _lines(file: _File, runs: tuple[RunSpec, ...], given: Mapping[str, Any]) -> dict[str, int]:
    """Where things stand that can turn out wrong later, when the model and the recordings are there."""
    found: dict[str, int | None] = {
        "model": file.line_of("model", 0, "file"),
        "method": file.line_of("method", 0, ""),
        "held": file.line_of("model", 0, "held"),
    }
    for name in ("site", "sensor", "payload"):
        if given.get(name):
            found[name] = file.line_of(name, 0, "")
    for k, run in enumerate(runs):
        found[f"run {k}"] = file.line_of("run", k, "data")
        for channel in (*run.observe, *run.drive, *(u.channel for u in run.unknown), *run.initial):
            found[f"run {k} {channel}"] = file.line_of("run", k, channel)
    for k, table in enumerate(given.get("estimate", [])):
        key = "parameter" if "parameter" in table else "name"
        found[f"estimate {table[key]}"] = file.line_of("estimate", k, key)
    return {key: line for key, line in found.items() if line is not None}


def _added(table: _Table, kind: type[Added], keys: Mapping[str, int | str]) -> Added:
    """A site, a sensor or a payload: texts, numbers (0) and lists of so many numbers."""
    table.check_keys(tuple(keys))
    values: dict[str, Any] = {}
    for key, what in keys.items():
        if isinstance(what, str):
            values[key] = table.text(key, what)
        elif what == 0:
            values[key] = table.number(key)
        else:
            lengths = (3, 6) if what == 6 else (what,)
            values[key] = table.take(key, lambda v, n=lengths: isinstance(v, list) and len(v) in n and all(map(is_finite, v)), f"a list of {what} numbers")
    for field in dataclasses.fields(kind):
        if field.default is dataclasses.MISSING and values.get(field.name) is None:
            table.fail("", f"this {table.header} has no {field.name}; give {field.name} = {'a number' if keys[field.name] == 0 else keys[field.name]}.")
    arguments: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items() if value is not None}
    try:
        made = kind(**arguments)
        if isinstance(made, Payload):
            Body(made.name, mass=made.mass, com=made.com, inertia=made.inertia)  # type: ignore[arg-type]
        return made
    except CalibodyError as error:
        table.fail("", f"{error}")


def _one(file: _File, name: str, given: Any) -> _Table:
    table = _Table(file, name, given)
    if not isinstance(given, dict):
        table.fail(name, f"{name} is {shown(given)}; write one table, [{name}].")
    return table


def _several(file: _File, name: str, given: Any) -> list[_Table]:
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        _Table(file, name, {}).fail(name, f"{name} is not a list of tables; write [[{name}]] with two brackets.")
    return [_Table(file, name, one, k) for k, one in enumerate(given)]


def _run(table: _Table) -> RunSpec:
    table.check_keys(RUN_KEYS)
    unknown = _unknown_drives(table)
    known = {c: g for c, g in given.items() if not is_unknown(g)} if isinstance(given := table.given.get("drive", {}), dict) else {}
    observe = _channels(table, "observe", ObserveSpec)
    drive = _channels(dataclasses.replace(table, given={**table.given, "drive": known}), "drive", DriveSpec)
    data = table.text("data", 'the path of a recording, such as "log.csv"')
    if not observe:
        table.fail("observe", 'this [[run]] observes nothing; give observe = { "joint.NAME.angle" = { column = "..." } }.')
    without = [channel for channel, spec in {**observe, **drive}.items() if spec.file is None]
    if data is None and without:
        table.fail("", f'this [[run]] has no data, and "{without[0]}" names no file of its own; give data = "log.csv".')
    return RunSpec(
        data=data,
        time=table.text("time", "the name of the clock's column", "t"),
        time_unit=table.take("time_unit", lambda v: isinstance(v, str) and v in TIME_UNITS, '"s", "ms", "us" or "ns"', "s"),
        observe=observe,
        drive=drive,
        name=table.text("name", "a text"),
        start=table.number("start", "an instant in seconds"),
        end=table.number("end", "an instant in seconds"),
        initial=_initial(table),
        poses=_poses(table),
        unknown=unknown,
        impacts=_impacts(table),
        plates=_plates(table),
        exchange=_exchange(table),
    )


def _impacts(table: _Table) -> tuple[Mapping[str, Any], ...]:
    expected = 'a list of tables, { time = 0.5, contact = "contact.NAME" }'
    given = table.take("impacts", lambda v: isinstance(v, list) and all(isinstance(one, dict) for one in v), expected, [])
    try:
        check_impacts("this [[run]]", given, -math.inf, math.inf)
    except CalibodyError as error:
        table.fail("impacts", f"{error}")
    return tuple(given)


def _plates(table: _Table) -> tuple[PlateSpec, ...]:
    given = table.take("plates", lambda v: isinstance(v, list), 'a list of tables, { body = "foot", force = "force_*", point = "point_*", sd = 20 }', [])
    try:
        return tuple(plate_spec(one) for one in given)
    except CalibodyError as error:
        table.fail("plates", f"{error}")


def _exchange(table: _Table) -> tuple[Exchange, ...]:
    given = table.take("exchange", lambda v: isinstance(v, list), f"a list of tables, {EXAMPLE}", [])
    try:
        return tuple(exchange(one) for one in given)
    except CalibodyError as error:
        table.fail("exchange", f"{error}")


def _unknown_drives(table: _Table) -> tuple[UnknownDrive, ...]:
    """Those of `drive = "unknown"`, and of channels that are."""
    given = table.given.get("drive", {})
    if given == UNKNOWN:
        given = {EVERY: UNKNOWN}
    elif not isinstance(given, dict):
        table.fail("drive", f'[[run]] has drive = {shown(given)}; give a table of channels, {{ "joint.NAME.force" = {{ column = "..." }} }}, or "{UNKNOWN}".')
    out = []
    for channel, one in given.items():
        try:
            out += [unknown_drive(channel, one)] if is_unknown(one) else []
        except CalibodyError as error:
            table.fail(channel, f"{error}")
    return tuple(out)


def _poses(table: _Table) -> bool:
    poses = table.flag("poses")
    for key in ("time", "time_unit", "start", "end", "drive", "initial", "plates") if poses else ():
        if key in table.given:
            table.fail(key, f"this [[run]] has poses = true and {key}; poses at rest have no clock and no dynamics: leave one of them out.")
    return poses


def _initial(table: _Table) -> Mapping[str, Any]:
    given = table.mapping("initial", 'a table of values, { "joint.NAME.rate" = 0.0 }')
    for channel, value in given.items():
        if "." not in channel:
            table.quoted("initial", channel, value)
    try:
        check_initial(given, "this [[run]]")
    except CalibodyError as error:
        table.fail("initial", f"{error}")
    return given


def _channels(table: _Table, key: str, kind: type[Spec]) -> dict[str, Spec]:
    out = {}
    for channel, given in table.mapping(key, 'a table of channels, { "joint.NAME.angle" = { column = "..." } }').items():
        table.quoted(key, channel, given)
        try:
            out[channel] = spec_of(kind, channel, given)
        except CalibodyError as error:
            table.fail(channel, f"{error}")
    return out


def _check_names(file: _File, runs: tuple[RunSpec, ...]) -> None:
    labels = [run.label for run in runs]
    for k, label in enumerate(labels):
        if label in labels[:k]:
            _Table(file, "run", {}, k).fail("name", f'two runs are called "{label}"; give each [[run]] a name of its own, name = "...".')


def _unknowns(tables: list[_Table]) -> dict[str, Unknown]:
    out: dict[str, Unknown] = {}
    for table in tables:
        name, unknown = _unknown(table)
        if name in out:
            table.fail("parameter" if "parameter" in table.given else "name", f'"{name}" is estimated twice; keep one [[estimate]].')
        out[name] = unknown
    return out


def _unknown(table: _Table) -> tuple[str, Unknown]:
    table.check_keys(ESTIMATE_KEYS)
    parameter, name = table.text("parameter", 'a path such as "body.arm.mass"'), table.text("name", "a word")
    places = _places(table)
    if (parameter is None) == (name is None):
        table.fail("parameter", 'an [[estimate]] has either parameter = "body.arm.mass" or, for one unknown in several places, name and places.')
    if name is None and places is not None:
        table.fail("places", 'places needs name: name = "rod", places = { "body.rod.com.x" = "0.5 * rod" }.')
    if name is not None and places is None:
        places = {}  # it stands in the places of another
    if name is not None and not name.isidentifier():
        table.fail("name", f"name = {shown(name)} cannot stand in an expression; give one word of letters, digits and _.")
    bound = "a number, or leave it out"
    unknown = Unknown(
        initial=table.number("initial", "a finite number, or leave it out for the model's value"),
        lower=float(table.take("lower", _is_bound, bound, -float("inf"))),
        upper=float(table.take("upper", _is_bound, bound, float("inf"))),
        prior=_prior(table),
        scale=table.take("scale", lambda v: is_finite(v) and v > 0, "a positive number, the size of a change that counts"),
        per_run=table.flag("per_run"),
        places=places,
    )
    return str(parameter or name), unknown


def _is_bound(value: Any) -> bool:
    return is_finite(value) or (isinstance(value, float) and value in (float("inf"), -float("inf")))


def _prior(table: _Table) -> tuple[float, float] | None:
    given = table.take("prior", lambda v: isinstance(v, dict), "{ value = ..., sd = ... }")
    if given is None:
        return None
    for key in given:
        if key not in ("value", "sd"):
            table.fail("prior", f'prior has an unknown key "{key}"{nearest(key, ("value", "sd")) or "; it takes value and sd."}')
    value, sd = given.get("value"), given.get("sd")
    if not is_finite(value) or not is_finite(sd) or not sd > 0:
        table.fail("prior", f"prior is {shown(given)}; give {{ value = ..., sd = ... }} with sd above zero.")
    return float(value), float(sd)


def _places(table: _Table) -> dict[str, str] | None:
    if "places" not in table.given:
        return None
    places = table.mapping("places", 'a table of paths and expressions, { "body.rod.com.x" = "0.5 * rod" }')
    for path, expression in places.items():
        table.quoted("places", path, expression)
        if not isinstance(expression, str) or not 0 < len(expression.strip()) <= LONGEST_EXPRESSION:
            table.fail(path, f'the place "{path}" is {shown(expression)}; give a short expression in quotes, such as "0.5 * rod".')
    if not places:
        table.fail("places", 'places is empty; give at least one, { "body.rod.com.x" = "0.5 * rod" }.')
    return dict(places)


def _method(table: _Table, runs: Sequence[RunSpec]) -> AbstractEstimator:
    """The estimator of that name, or the one for such runs; its options are the keys beside the name, and it says itself what they may be."""
    name = table.choice("name", tuple(ESTIMATORS)) if "name" in table.given else default_method(run.poses for run in runs)
    known = ("name", *option_names(ESTIMATORS[name]))
    for key in table.given:
        if key not in known and (other := elsewhere(key, name)):
            table.fail(key, f"[method] has {key}{other}")
    table.check_keys(known)
    for key, value in table.given.items():
        for path, inner in value.items() if isinstance(value, dict) else ():
            table.quoted(key, path, inner)
    try:
        return ESTIMATORS[name](**{key: value for key, value in table.given.items() if key != "name"})
    except OptionError as error:
        table.fail(error.option.partition(".")[0], f"[method] has {error}")


def _posterior(table: _Table) -> Sampling:
    return _options(table, Sampling)


def _design(table: _Table) -> Designing:
    for key in ("limits", "channels", "rms", "initial", "sensors"):
        for path, value in table.given[key].items() if isinstance(table.given.get(key), dict) else ():
            table.quoted(key, path, value)
    return _options(table, Designing)


def _options(table: _Table, kind: type[Options]) -> Options:
    """A value whose fields are the keys of a table, and which says itself what they may be."""
    table.check_keys(tuple(f.name for f in dataclasses.fields(kind)))
    try:
        return kind(**table.given)
    except OptionError as error:
        table.fail(error.option, f"{table.header} has {error}")
