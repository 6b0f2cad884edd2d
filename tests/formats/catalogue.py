"""The model files in the wheels of other packages, and what becomes of each: read, or refused with a sentence."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calibody import formats
from calibody.errors import CalibodyError
from calibody.model import Model

# pybullet_data holds a thousand generated single-body objects; the first ten stand for all.
_ONE_OF_MANY = "random_urdfs"


@dataclass(frozen=True)
class Entry:
    package: str
    name: str
    path: Path

    def outcome(self) -> tuple[Model | None, str]:
        """The model, or None and the sentence, without the folder of this machine."""
        try:
            return formats.load(self.path), ""
        except CalibodyError as error:
            return None, str(error).replace(str(self.path.parent) + "/", "").replace("|", "/")


def _folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _robots() -> Path | None:
    """example-robot-data keeps its files beside the packages, under the prefix of its build system."""
    spec = importlib.util.find_spec("cmeel")
    places = [Path(p).parent for p in (spec.submodule_search_locations or [])] if spec is not None else []
    return next((f for p in places if (f := p / "cmeel.prefix" / "share" / "example-robot-data" / "robots").is_dir()), None)


def entries() -> Iterator[Entry]:
    """Every file of every package that is installed, by package and name."""
    sources = (
        ("gymnasium", _folder("gymnasium"), "envs/mujoco/assets", "*.xml"),
        ("dm_control", _folder("dm_control"), "suite", "*.xml"),
        ("pybullet_data", _folder("pybullet_data"), "", "mjcf/*.xml"),
        ("pybullet_data", _folder("pybullet_data"), "", "**/*.urdf"),
        ("example-robot-data", _robots(), "", "**/*.urdf"),
    )
    for package, folder, under, pattern in sources:
        if folder is None:
            continue
        root = folder / under
        for path in sorted(root.glob(pattern)):
            name = path.relative_to(root).as_posix()
            if not name.startswith(_ONE_OF_MANY) or name.startswith(f"{_ONE_OF_MANY}/00"):
                yield Entry(package, name, path)


def missing() -> list[str]:
    """Packages whose files the table needs and that are not installed."""
    present = {e.package for e in entries()}
    return [p for p in ("gymnasium", "dm_control", "pybullet_data", "example-robot-data") if p not in present]


def table() -> str:
    """docs/models.md: one row per file."""
    rows, read = [], 0
    everything = list(entries())
    for entry in everything:
        model, sentence = entry.outcome()
        read += model is not None
        counts = _counts(model) if model else "refused"
        rest = " ".join(_short(note) for note in model.notes) if model else _escaped(sentence)
        rows.append(f"| {entry.package} | {entry.name} | {counts} | {rest} |")
    return HEAD.format(total=len(everything), read=read, refused=len(everything) - read) + "\n".join(rows) + "\n"


def _counts(model: Model) -> str:
    """ "1 body, 2 joints": what there is of each kind."""
    kinds = ((model.bodies, "body", "bodies"), (model.joints, "joint", "joints"), (model.loops, "loop", "loops"))
    return ", ".join(f"{len(items)} {one if len(items) == 1 else many}" for items, one, many in kinds if items) or "empty"


def _short(note: str) -> str:
    """A note without the names it lists."""
    return note.split(": ", 1)[0].rstrip(".") + "."


def _escaped(sentence: str) -> str:
    return sentence.replace("<", "&lt;").replace(">", "&gt;")


HEAD = """# Models that calibody reads

The model files that come with gymnasium, the dm_control suite, pybullet_data and example-robot-data, {total} in all: {read} are read,
{refused} are refused. For those that are read, poses and accelerations agree with MuJoCo's (`tests/formats/test_catalogue.py`, which also
writes this table: `CALIBODY_UPDATE_DOCS=1 python -m pytest tests/formats/test_catalogue.py`).

Refused is what bears force and cannot be represented (fluid drag, tendons that hold each other, activation dynamics other than a first-order lag), and what is not a valid file.
"Does not act" means that the file has it and calibody leaves it out; `model.notes` names the elements.

Two more wheels were read once, mujoco-mjx 3.17 (its `test_data`) and gymnasium-robotics 1.4.2: of 38 files 34 are read (refused: an actuator with an integrator, gravity compensation, and two files that MuJoCo's compiler refuses), and of 59 files 32
(25 are parts of models, to be included, one is a configuration, and one has a fluid).

| package | file | model | notes, or why it is refused |
|---|---|---|---|
"""
