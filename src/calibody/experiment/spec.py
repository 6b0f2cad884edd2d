"""What an experiment file says, as values.

The classes of the Python interface are used where there are some: a channel is an `ObserveSpec` or a `DriveSpec`, an unknown an `Unknown`, the method
an estimator.
Files are kept as they were written, relative to `folder`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calibody.estimate.estimator import AbstractEstimator
from calibody.estimate.transcription import Transcription
from calibody.estimate.unknowns import Unknown
from calibody.model import Model
from calibody.recording import readers
from calibody.recording.readers import DriveSpec, ObserveSpec
from calibody.recording.recording import Recording


@dataclass(frozen=True)
class RunSpec:
    """One recording: a file, its clock, and which column is which channel."""

    data: str | None = None
    """The file; may be left out if every channel names its own."""
    time: str = "t"
    """Its clock column."""
    time_unit: str = "s"
    """Of the clock: "s", "ms", "us" or "ns"."""
    observe: Mapping[str, ObserveSpec] = field(default_factory=dict)
    """What was measured."""
    drive: Mapping[str, DriveSpec] = field(default_factory=dict)
    """What drove the mechanism."""
    name: str | None = None
    """Left out: the file's name without its suffix."""
    start: float | None = None
    """Begin of the run [s]; left out, the first observed sample."""
    end: float | None = None
    """End of the run [s]; left out, the last observed sample."""
    initial: Mapping[str, Any] = field(default_factory=dict)
    """What is known of joints at the start: a value, or one with an sd."""

    @property
    def files(self) -> list[str]:
        """All files it reads, the run's own first."""
        given = [self.data, *(spec.file for spec in (*self.observe.values(), *self.drive.values()))]
        return list(dict.fromkeys(file for file in given if file is not None))

    @property
    def label(self) -> str:
        """Its name, given or taken from its file."""
        return self.name or (Path(self.files[0]).stem if self.files else "run")

    @property
    def observed(self) -> list[str]:
        """The scalar channels that are observed."""
        return [path for channel, spec in self.observe.items() for path in readers.observed_paths(channel, spec.columns)]

    def read(self, folder: Path) -> Recording:
        """The recording; its files are relative to `folder`."""
        return readers.read(**self._arguments(folder), name=self.label, start=self.start, end=self.end, initial=self.initial)

    def mistakes(self, folder: Path) -> list[str]:
        """A sentence for every channel that cannot be read."""
        return readers.mistakes(**self._arguments(folder))

    def _arguments(self, folder: Path) -> dict[str, Any]:
        base = folder.absolute()

        def placed(specs: Mapping[str, Any]) -> dict[str, Any]:
            return {c: spec if spec.file is None else dataclasses.replace(spec, file=str(base / spec.file)) for c, spec in specs.items()}

        path = base / self.files[0] if self.files else base
        return {"path": path, "time": self.time, "time_unit": self.time_unit, "observe": placed(self.observe), "drive": placed(self.drive)}


@dataclass(frozen=True)
class Experiment:
    """A model, recordings of it, what is unknown, and how it is estimated."""

    model_file: str
    """MJCF or URDF."""
    recordings: tuple[RunSpec, ...]
    unknowns: Mapping[str, Unknown] = field(default_factory=dict)
    """By path, or by name for what sits in several places."""
    method: AbstractEstimator = Transcription()
    """How they are estimated: an estimator with its options."""
    folder: Path = Path()
    """What the files are relative to."""
    source: str = field(default="experiment", compare=False)
    """The file it came from, for people."""

    def model(self) -> Model:
        """The model, read anew."""
        from calibody import formats

        return formats.load(self.folder / self.model_file)

    def runs(self) -> list[Recording]:
        """The recordings, read anew."""
        return [run.read(self.folder) for run in self.recordings]

    def estimate(self) -> dict[str, Unknown]:
        """The unknowns, as `fit` takes them."""
        return dict(self.unknowns)
