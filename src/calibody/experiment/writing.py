"""From an `Experiment` to a TOML file: only what differs from the defaults, one channel per line.

TOML's texts and numbers are nearly those of JSON, so the writer is a dozen lines and no dependency.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibody.errors import CalibodyError
from calibody.estimate.unknowns import Unknown
from calibody.experiment.spec import Experiment, RunSpec
from calibody.recording.plates import PlateSpec
from calibody.recording.unknown import UnknownDrive


def save(experiment: Experiment, path: str | Path) -> Path:
    """Write an experiment; its files are named relative to the folder of `path`."""
    path = Path(path)
    text = _document(_moved(experiment, path.parent))
    beside = path.with_name(path.name + ".part")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(path)
    except OSError as error:
        raise CalibodyError(f"{path} cannot be written ({error.strerror or error}); check that the folder exists and is writable.") from None
    return path


def _document(experiment: Experiment) -> str:
    more = {**({"held": dict(experiment.held)} if experiment.held else {}), **({"contacts": True} if experiment.contacts else {})}
    blocks = [_block("[model]", {"file": experiment.model_file, **more})]
    for key, elements in (("site", experiment.sites), ("sensor", experiment.sensors), ("payload", experiment.payloads)):
        blocks += [_block(f"[[{key}]]", changed(element)) for element in elements]
    blocks += [_run(run) for run in experiment.recordings]
    blocks += [_block("[[estimate]]", _unknown(name, unknown)) for name, unknown in experiment.unknowns.items()]
    name = {} if type(experiment.method) is type(Experiment.method) else {"name": experiment.method.name}
    method = {**name, **changed(experiment.method)}
    tables = {"method": method, "posterior": changed(experiment.posterior), "design": {} if experiment.design is None else changed(experiment.design)}
    return "\n".join([*blocks, *(_block(f"[{name}]", values) for name, values in tables.items() if values)])


def _run(run: RunSpec) -> str:
    values = changed(run)
    unknown = {u.channel: written(u) for u in values.pop("unknown", ())}
    if not values.get("initial", True):
        del values["initial"]
    observe, drive = ({channel: changed(spec) for channel, spec in (values.pop(key, None) or {}).items()} for key in ("observe", "drive"))
    parts = [_block("[[run]]", values), _block("[run.observe]", observe)]
    return "".join(parts + ([_block("[run.drive]", drive | unknown)] if drive or unknown else []))


def written(drive: UnknownDrive) -> dict[str, Any]:
    """What stands beside the channel of a drive that is unknown."""
    return {"unknown": True, **{k: v for k, v in changed(drive).items() if k != "channel"}}


def _unknown(name: str, unknown: Unknown) -> dict[str, Any]:
    values = changed(unknown)
    if unknown.prior is not None:
        values["prior"] = {"value": unknown.prior[0], "sd": unknown.prior[1]}
    return {"parameter" if unknown.places is None else "name": name, **values}


def changed(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults."""
    defaults = {f.name: f.default if f.default_factory is dataclasses.MISSING else f.default_factory() for f in dataclasses.fields(value)}
    return {name: getattr(value, name) for name, default in defaults.items() if getattr(value, name) != default}


def _moved(experiment: Experiment, target: Path) -> Experiment:
    """The same files, named from another folder."""
    here, there = os.path.abspath(experiment.folder), os.path.abspath(target)
    if here == there:
        return experiment

    def moved(file: str | None) -> str | None:
        if file is None or os.path.isabs(file):
            return file
        try:
            return Path(os.path.relpath(os.path.join(here, file), there)).as_posix()
        except ValueError:  # another drive
            return Path(here, file).as_posix()

    def channels(specs: Mapping[str, Any]) -> dict[str, Any]:
        return {channel: dataclasses.replace(spec, file=moved(spec.file)) for channel, spec in specs.items()}

    def plates(run: RunSpec) -> tuple[PlateSpec, ...]:
        return tuple(dataclasses.replace(p, file=moved(p.file)) for p in run.plates)

    runs = [dataclasses.replace(r, data=moved(r.data), observe=channels(r.observe), drive=channels(r.drive), plates=plates(r)) for r in experiment.recordings]
    return dataclasses.replace(experiment, model_file=moved(experiment.model_file) or "", recordings=tuple(runs), folder=target)


# -- TOML --------------------------------------------------------------------------------------------------------------------------------


def _block(header: str, values: Mapping[str, Any]) -> str:
    return "".join([f"{header}\n", *(f"{key_text(key)} = {value_text(value)}\n" for key, value in values.items())])


def key_text(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if dataclasses.is_dataclass(value):
        value = changed(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key_text(key)} = {value_text(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(value_text(inner) for inner in value) + "]"
    return repr(int(value)) if isinstance(value, int) else repr(float(value))
