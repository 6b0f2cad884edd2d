"""What an example consists of, and how its files are made.

The model file carries guesses. The recording is a simulation of the same model with the true numbers, sampled, with white noise from a fixed
seed; its step is a fraction of the sampling period and not the one a fit will choose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calibody.errors import CalibodyError
from calibody.experiment import atomic

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
    """What the model's numbers really are, by path; the rest is as in the model."""
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
    contacts: bool = False
    """Whether contacts and limits of the file act."""


def write(example: Example, folder: Path) -> Path:
    """Model, recording, truth and experiment; gives the path of the experiment file."""
    import calibody as cb

    _refuse_edited(example, folder)
    model_file = atomic.write_text(folder / f"{example.name}.xml", example.model)
    model = cb.load(model_file, example.contacts).replace(dict(example.truth))
    times = np.arange(round(example.duration * example.rate) + 1) / example.rate
    drives = {channel: np.round(values, DIGITS) for channel, values in example.drive(times).items()}
    motion = cb.simulate(
        model, example.duration, 1.0 / (example.rate * example.steps), dict(example.initial), {c: (times, values) for c, values in drives.items()}
    )
    columns = {"t": np.round(times, 6)}
    noise = np.random.default_rng(SEED)
    for channel, (column, sd) in example.observed.items():
        columns[column] = np.round(motion[channel][:: example.steps] + sd * noise.normal(size=len(times)), DIGITS)
    columns |= {example.driven[channel]: values for channel, values in drives.items()}
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
