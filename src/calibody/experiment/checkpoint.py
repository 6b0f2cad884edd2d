"""Solved meshes of a fit that is running, in its folder: `--resume` takes them up instead of solving them again.

The file holds values of calibody and numpy as Python pickles them. Only such are read back: anything else that a pickle could name, and run, is refused, and a file that is not of this fit (other data, unknowns,
method, model or version) is left alone. Then the fit begins from the parameters alone.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibody.experiment import atomic

if TYPE_CHECKING:
    from calibody.experiment.spec import Experiment
    from calibody.recording.recording import Recording

FILE = ".solved-meshes"
_PATHS = {"PosixPath", "WindowsPath", "Path", "PurePosixPath", "PureWindowsPath"}
_ALLOWED = ("calibody.", "numpy.", "scipy.sparse.")
_PLAIN = {
    "builtins": {"dict", "list", "tuple", "set", "frozenset", "slice", "range", "complex", "int", "float", "str", "bytes", "bool"},
    "collections": {"OrderedDict", "defaultdict"},
    "pathlib": _PATHS,
    "pathlib._local": _PATHS,  # where Python 3.13 has them
    "numpy": {"ndarray", "dtype"},
    "functools": {"partial"},
}


_MAKERS = {"_reconstruct", "scalar", "_frombuffer"}
"""Functions that numpy makes its arrays and numbers by; all else that is read back is a class."""


class Unsafe(pickle.UnpicklingError):
    """Something else than values of calibody and numpy."""


class _Values(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _PLAIN.get(module, ()) or f"{module}.".startswith(_ALLOWED):
            found = super().find_class(module, name)
            if isinstance(found, type) or name in _MAKERS:
                return found
        raise Unsafe(f"{module}.{name} is no value of a fit")


class Meshes:
    """A `Checkpoint` (`estimate/estimator.py`) in a folder."""

    def __init__(self, folder: Path, experiment: Experiment, recordings: Sequence[Recording]) -> None:
        self.path, self.key = folder / FILE, _key(experiment, recordings)
        self.stages: dict[str, Any] = {}

    def resume(self) -> None:
        """Take up what is in the folder, if it is of this fit."""
        try:
            key, stages = _Values(io.BytesIO(self.path.read_bytes())).load()
        except Exception:  # not there, cut off, of another version, or not ours: the meshes are solved again
            return
        if key == self.key and isinstance(stages, Mapping):
            self.stages = dict(stages)

    def solved(self, stage: str) -> Any | None:
        return self.stages.get(stage)

    def keep(self, stage: str, state: Any) -> None:
        self.stages[stage] = state
        atomic.write_bytes(self.path, pickle.dumps((self.key, self.stages), protocol=5))

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _key(experiment: Experiment, recordings: Sequence[Recording]) -> str:
    """Of all that a fit depends on."""
    from calibody import __version__

    model = (experiment.folder / experiment.model_file).read_bytes()
    parts = (
        __version__,
        repr(experiment.method),
        repr(experiment.unknowns),
        repr((experiment.sites, experiment.sensors, experiment.payloads, dict(experiment.held), experiment.contacts)),
        repr(experiment.recordings),
    )
    digests = [r.sha256 or "" for r in recordings]
    return hashlib.sha256("\n".join([*parts, *digests, hashlib.sha256(model).hexdigest()]).encode()).hexdigest()
