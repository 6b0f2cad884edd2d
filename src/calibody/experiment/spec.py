"""What an experiment file says, as values.

The classes of the Python interface are used where there are some: a channel is an `ObserveSpec` or a `DriveSpec`, an unknown an `Unknown`, the method
an estimator.
Files are kept as they were written, relative to `folder`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calibody.errors import CalibodyError, nearest
from calibody.estimate.designs.designing import Designing
from calibody.estimate.draws.sampling import Sampling
from calibody.estimate.estimator import AbstractEstimator
from calibody.estimate.transcription import Transcription
from calibody.estimate.unknowns import Unknown
from calibody.experiment.additions import Payload, added
from calibody.experiment.held import held
from calibody.model import Model, Sensor, Site
from calibody.recording import readers
from calibody.recording.exchange import Exchange
from calibody.recording.plates import PlateSpec
from calibody.recording.readers import DriveSpec, ObserveSpec
from calibody.recording.recording import Recording
from calibody.recording.unknown import UnknownDrive


def refuse_missing(path: Path, given: str, what: str, source: str) -> None:
    """A sentence for a file that is not there, with what its path is relative to."""
    if os.path.exists(path):
        return
    there = sorted(os.listdir(path.parent)) if os.path.isdir(path.parent) else []
    near = nearest(path.name, there)
    where = "" if os.path.isabs(given) else f'; paths are relative to the file {source}, so it was looked for in "{Path(os.path.abspath(path)).parent}"'
    raise CalibodyError(f'{what} "{given}" does not exist{where}{near or "; check its folder and name."}')


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
    poses: bool = False
    """Whether its rows are poses at rest, without a clock."""
    unknown: tuple[UnknownDrive, ...] = ()
    """Drives that act and were not measured."""
    impacts: tuple[Mapping[str, Any], ...] = ()
    """What strikes when, where that is known roughly: tables with time, contact and point."""
    plates: tuple[PlateSpec, ...] = ()
    """Force plates."""
    exchange: tuple[Exchange, ...] = ()
    """Markers or channels that have each other's name in the file."""

    @property
    def files(self) -> list[str]:
        """All files it reads, the run's own first."""
        given = [self.data, *(spec.file for spec in (*self.observe.values(), *self.drive.values(), *self.plates))]
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
        recording = readers.read(**self._arguments(folder), name=self.label, start=self.start, end=self.end, initial=self.initial)
        for one in self.exchange:
            recording = recording.exchanged(one.a, one.b, one.times)
        return dataclasses.replace(recording, impacts=self.impacts) if self.impacts else recording

    def mistakes(self, folder: Path) -> list[str]:
        """A sentence for every channel that cannot be read."""
        return readers.mistakes(**self._arguments(folder))

    def _arguments(self, folder: Path) -> dict[str, Any]:
        base = folder.absolute()

        def placed(specs: Mapping[str, Any]) -> dict[str, Any]:
            return {c: spec if spec.file is None else dataclasses.replace(spec, file=str(base / spec.file)) for c, spec in specs.items()}

        path = base / self.files[0] if self.files else base
        return {
            "path": path,
            "time": None if self.poses else self.time,
            "time_unit": self.time_unit,
            "observe": placed(self.observe),
            "drive": {**placed(self.drive), **{u.channel: u for u in self.unknown}},
            "plates": [p if p.file is None else dataclasses.replace(p, file=str(base / p.file)) for p in self.plates],
        }


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
    posterior: Sampling = Sampling()
    """How draws of the posterior are made, where they are asked for."""
    design: Designing | None = None
    """What the next recording is to be like, where that is asked for; with it there may be no recordings yet."""
    sites: tuple[Site, ...] = ()
    """Frames beside those of the model's file."""
    sensors: tuple[Sensor, ...] = ()
    """What instruments do to their channels."""
    payloads: tuple[Payload, ...] = ()
    """Bodies fixed to frames."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Joints that did not move, and where they were [rad or m]."""
    engine: str | None = None
    """The engine that the model is read for: "mujoco", or calibody's own mechanics."""
    contacts: bool = False
    """Whether the contacts and joint limits of the model's file act."""
    folder: Path = Path()
    """What the files are relative to."""
    source: str = field(default="experiment", compare=False)
    """The file it came from, for people."""
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    """Where things stand in that file: "model", "estimate NAME", "run K", "run K CHANNEL", "payload", ... (K from 0)."""

    def at(self, *keys: str) -> str:
        """The file and the line of the first of these that is known, to stand before a sentence; empty if none is."""
        line = next((self.lines[key] for key in keys if key in self.lines), None)
        return "" if line is None else f"{self.source}:{line}: "

    @contextmanager
    def told_where(self, *keys: str) -> Iterator[None]:
        """A mistake that is found here is said with its line."""
        try:
            yield
        except CalibodyError as error:
            where = self.at(*keys)
            if not where or str(error).startswith(self.source):
                raise
            raise CalibodyError(f"{where}{error}") from None

    def model(self) -> Model:
        """The model, read anew, with what the experiment adds to it."""
        from calibody import formats

        path = self.folder / self.model_file
        with self.told_where("model"):
            refuse_missing(path, self.model_file, "The model", self.source)
            model = formats.load(path, self.contacts, self.engine)
        with self.told_where("held", "model"):
            model = held(model, self.held)
        with self.told_where("payload", "site", "sensor"):
            return added(model, self.sites, self.sensors, self.payloads)

    def runs(self) -> list[Recording]:
        """The recordings, read anew."""
        self.refuse_without_runs()
        return [self.read(k) for k in range(len(self.recordings))]

    def refuse_without_runs(self) -> None:
        """A sentence for a file that only asks what to record."""
        if not self.recordings:
            raise CalibodyError(f"{self.source} has no [[run]], so there is nothing to fit yet; calibody design {self.source} says what to record.")

    def read(self, k: int) -> Recording:
        """One recording, read anew."""
        self.refuse_missing_data(k)
        try:
            return self.recordings[k].read(self.folder)
        except CalibodyError as error:
            raise CalibodyError(f"{self.in_run(k, str(error))}{error}") from None

    def in_run(self, k: int, sentence: str) -> str:
        """File and line of the channel of a run that a sentence is about, or of the run."""
        spec = self.recordings[k]
        named = [channel for channel in (*spec.observe, *spec.drive) if f'"{channel}' in sentence]
        return self.at(*(f"run {k} {channel}" for channel in sorted(named, key=len, reverse=True)), f"run {k}")

    def refuse_missing_data(self, k: int) -> None:
        """A sentence for files of a run that are not there."""
        with self.told_where(f"run {k}"):
            for file in self.recordings[k].files:
                refuse_missing(self.folder / file, file, "The recording", self.source)

    def estimate(self) -> dict[str, Unknown]:
        """The unknowns, as `fit` takes them."""
        return dict(self.unknowns)
