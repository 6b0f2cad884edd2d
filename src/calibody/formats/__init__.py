"""MJCF, URDF and OpenSim files, into and out of `Model`. Nothing else knows these formats; MuJoCo is imported only when one is used."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibody.errors import FormatError, shown

if TYPE_CHECKING:
    from calibody.model import Model

_SUFFIXES = {".xml": "mjcf", ".mjcf": "mjcf", ".urdf": "urdf", ".osim": "osim"}


def load(path: str | os.PathLike[str], contacts: bool = False, engine: str | None = None) -> Model:
    """Read a model from an MJCF, URDF or OpenSim file; the root element decides which it is. `contacts`: with the contacts and joint limits of the file, which act in simulations. `engine="mujoco"`: for
    MuJoCo's own engine (`stepper="mujoco"`), in which everything acts that its compiler accepts, and nothing is refused."""
    from calibody.formats import content, edit  # with numpy and, where it is used, MuJoCo

    path = _as_path(path)
    if engine not in (None, "mujoco"):
        raise FormatError(f'engine = {shown(engine)}; give "mujoco", or leave it out for calibody\'s own mechanics.')
    model, source = content.read(edit.read_bytes(path), path, contacts, engine is not None)
    return dataclasses.replace(model, source=source)


def save(model: Model, path: str | os.PathLike[str]) -> Path:
    """Write a model. One that was read from a file keeps the file's text, in which only the changed numbers differ; one built in Python,
    or saved in the other format, is written afresh. `save_notes` tells what else had to change."""
    target = _as_path(path)
    source = model.source
    if source is None or (target.suffix != source.path.suffix and _format(target) != source.format):
        return convert(model, target)
    from calibody.formats import resave

    content, _ = resave.content(model, target)
    return _write(target, content)


def save_notes(model: Model) -> tuple[str, ...]:
    """What `save` has to change besides numbers (an explicit inertial where there was none, ...), one sentence each."""
    if model.source is None:
        return ()
    from calibody.formats import resave

    return resave.content(model, model.source.path)[1]


def source_files(model: Model) -> list[Path]:
    """The files a model was read from: its own, and those it includes; none for a model built in Python."""
    if model.source is None:
        return []
    path: Path = model.source.path
    return [path, *(path.parent / document.label for document in model.source.document.root.included_documents())]


def convert(model: Model, path: str | os.PathLike[str]) -> Path:
    """Write a fresh file in the format of the path's suffix (.xml or .mjcf: MJCF; .urdf: URDF)."""
    from calibody.formats import fresh

    target = _as_path(path)
    if _format(target) == "osim":
        raise FormatError(f"{target}: OpenSim files are not written afresh; give a path that ends in .xml (MJCF) or .urdf.")
    text = fresh.mjcf(model, target) if _format(target) == "mjcf" else fresh.urdf(model, target)
    return _write(target, text.encode("utf-8"))


def convert_notes(model: Model, path: str | os.PathLike[str]) -> tuple[str, ...]:
    """What `convert` can only write nearly, one sentence each."""
    from calibody.formats import fresh

    return fresh.nearly(model) if _format(_as_path(path)) == "mjcf" else ()


def _as_path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise FormatError(f"{path!r} is not the path of a model file; give a text or a pathlib.Path.")
    return Path(path)


def _format(path: Path) -> str:
    if path.suffix.lower() not in _SUFFIXES:
        raise FormatError(f"{path} ends in {path.suffix or 'nothing'!r}, which names no model format; give a path that ends in .xml, .mjcf, .urdf or .osim.")
    return _SUFFIXES[path.suffix.lower()]


def _write(path: Path, content: bytes) -> Path:
    """Write beside the target and move it into place, so that an interrupted save leaves the old file."""
    beside = path.with_name(path.name + ".part")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        raise FormatError(f"{path} cannot be written ({error.strerror or error}); check that the folder exists and is writable.") from None
    return path


__all__ = ["convert", "convert_notes", "load", "save", "save_notes", "source_files"]
