"""What an example consists of, and how its files are made.

The model file carries guesses. The recording is made by the same model with the true numbers, with white noise from a fixed seed: mostly a simulation, whose step is a
fraction of the sampling period and not the one a fit will choose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import CalibodyError
from calibody.experiment import atomic

if TYPE_CHECKING:
    from calibody.model import Model

SEED = 1
DIGITS = 7
"""After the decimal point in the recording."""


@dataclass(frozen=True)
class Example:
    name: str
    model: str
    """MJCF."""
    experiment: str
    """TOML."""
    truth: Mapping[str, float]
    """What the unknowns really are: numbers of the model by path, the rest being as in the model, or by name those that stand in several places."""
    recorded: Callable[[Model, np.random.Generator], Mapping[str, np.ndarray]]
    """The columns of the recording, of the model with the true numbers and a source of noise: a `Simulated`, or what else makes them."""
    contacts: bool = False
    """Whether contacts and limits of the file act."""


@dataclass(frozen=True)
class Simulated:
    """A recording that is a simulation, sampled, with white noise."""

    duration: float
    """s"""
    rate: float
    """Samples per second."""
    steps: int
    """Simulated steps per sample."""
    initial: Mapping[str, float]
    observed: Mapping[str, tuple[str, float]]
    """Channel -> (column, standard deviation of its noise)."""
    driven: Mapping[str, str]
    """Channel -> column."""
    drive: Callable[[np.ndarray], Mapping[str, np.ndarray]]
    """Of the sampling times: the drives by channel, each held until the next sample."""

    def __call__(self, model: Model, noise: np.random.Generator) -> dict[str, np.ndarray]:
        from calibody.steppers.rollout import simulate

        times = np.arange(round(self.duration * self.rate) + 1) / self.rate
        drives = {channel: np.round(values, DIGITS) for channel, values in self.drive(times).items()}
        motion = simulate(model, self.duration, 1.0 / (self.rate * self.steps), dict(self.initial), {c: (times, values) for c, values in drives.items()})
        columns = {"t": np.round(times, 6)}
        for channel, (column, sd) in self.observed.items():
            columns[column] = motion[channel][:: self.steps] + sd * noise.normal(size=len(times))
        return columns | {self.driven[channel]: values for channel, values in drives.items()}


def write(example: Example, folder: Path) -> Path:
    """Model, recording, truth and experiment; gives the path of the experiment file."""
    import calibody as cb

    _refuse_edited(example, folder)
    model_file = atomic.write_text(folder / f"{example.name}.xml", example.model)
    model = cb.load(model_file, example.contacts)
    model = model.replace({path: value for path, value in example.truth.items() if "." in path})
    recorded = example.recorded(model, np.random.default_rng(SEED))
    columns = {name: values if name == "t" else np.round(values, DIGITS) for name, values in recorded.items()}
    atomic.write_text(folder / f"{example.name}.csv", _csv(columns))
    atomic.write_json(folder / "truth.json", dict(example.truth))
    return atomic.write_text(folder / f"{example.name}.toml", example.experiment)


def _refuse_edited(example: Example, folder: Path) -> None:
    """A sentence if the folder has files of these names that are not the example's: they are made to be edited, and edits are not written over."""
    for name, text in ((f"{example.name}.xml", example.model), (f"{example.name}.toml", example.experiment)):
        if (folder / name).exists() and (folder / name).read_bytes() != text.encode("utf-8"):
            raise CalibodyError(f'"{folder / name}" exists and is not the example as it comes; fit it with calibody fit, or give another folder with --out.')
    recording = folder / f"{example.name}.csv"
    if recording.exists() and not (folder / "truth.json").exists():
        raise CalibodyError(f'"{recording}" exists and is not from an example; give another folder with --out.')


def _csv(columns: Mapping[str, np.ndarray]) -> str:
    import polars as pl

    return str(pl.DataFrame(dict(columns)).write_csv())


def sines(times: np.ndarray, *waves: tuple[float, float, float]) -> np.ndarray:
    """The sum of amplitude sin(2 pi frequency t + phase)."""
    return np.sum([a * np.sin(2.0 * np.pi * f * times + p) for a, f, p in waves], axis=0)
