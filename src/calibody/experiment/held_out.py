"""Recordings that a saved fit has not seen, predicted with it: what `calibody validate` and `Saved.predict` do.

The calibrated model of the folder, with what its file has no place for (sites, sensors, biases and delays of channels, widths of friction), follows the first part of the recording, where only the start and what
is estimated per run are unknown, and is simulated from there on without looking at the data (`estimate/predict.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.experiment import atomic, reading
from calibody.experiment.folder import EXPERIMENT, RESULT
from calibody.experiment.spec import Experiment
from calibody.model import Model, Sensor

if TYPE_CHECKING:
    from calibody.estimate.predict import Prediction
    from calibody.estimate.unknowns import Entry, Unknown
    from calibody.experiment.saved import Saved
    from calibody.recording.recording import Recording


def predict(saved: Saved, recording: Recording, window: float | None = None) -> Prediction:
    """Simulate a recording freely, from a start estimated on its first `window` seconds (by default a tenth of it)."""
    from calibody.estimate.fit import fit
    from calibody.estimate.predict import beginning, predict as simulated
    from calibody.estimate.transcription import Transcription

    if not saved.converged or saved.mesh is None:
        raise CalibodyError(f"A fit that did not converge predicts nothing that could be judged ({saved.status.rstrip('.')}).")
    model, unknowns = calibrated(saved)
    span = beginning(recording, window)
    forces = {f"joint.{joint}": sd for joint, sd in saved.process_noise.items()} or "none"
    method = Transcription(process_noise=forces, h=min(saved.mesh.h, span / 8.0))
    followed = fit(model, recording.cut(end=min(recording.start + span, recording.end)), unknowns, method=method)
    return simulated(followed, recording, span)


def calibrated(saved: Saved) -> tuple[Model, dict[str, Unknown]]:
    """The model with everything that was estimated, and what is unknown anew in every run."""
    from calibody.estimate.unknowns import entries

    experiment = _experiment(saved)
    model = _whole(saved.model, experiment)
    asked = {} if experiment is None else experiment.estimate()
    if experiment is None:
        return model.replace({p: e.value for p, e in saved.parameters.items() if p in model.parameters}), {}
    shared = entries(model, {name: u for name, u in asked.items() if not u.per_run}, [])
    values, sensors = _values(shared, {name: e.value for name, e in saved.parameters.items()})
    again = {name: dataclasses.replace(u, initial=_mean(saved, name)) for name, u in asked.items() if u.per_run}
    return _with_sensors(model.replace(values), sensors), again


def _experiment(saved: Saved) -> Experiment | None:
    path = saved.folder / EXPERIMENT
    return reading.load(path) if path.is_file() else None


def _whole(model: Model, experiment: Experiment | None) -> Model:
    """With the sites and sensors that an experiment declares and the file does not have."""
    if experiment is None:
        return model
    sites = [s for s in experiment.sites if s.name not in model.tables["site"]]
    sensors = [s for s in experiment.sensors if s.name not in model.tables["sensor"]]
    return dataclasses.replace(model, sites=(*model.sites, *sites), sensors=(*model.sensors, *sensors)) if sites or sensors else model


def _values(shared: Sequence[Entry], found: Mapping[str, float]) -> tuple[dict[str, float], dict[tuple[str, str], float]]:
    """Numbers of the model and of channels."""
    numbers: dict[str, float] = {}
    sensors: dict[tuple[str, str], float] = {}
    for e in shared:
        if e.group is not None:
            numbers[e.name] = found[e.name]
        for place in e.places:
            value = place.value(found[e.name], found)
            if place.sensor is None:
                numbers[place.path] = value
            else:
                sensors[place.sensor] = value
    return numbers, sensors


def _with_sensors(model: Model, found: Mapping[tuple[str, str], float]) -> Model:
    """Biases, gains and delays that were estimated become those of the model's sensors."""
    changed: dict[str, Sensor] = {s.channel: s for s in model.sensors}
    for (channel, number), value in found.items():
        known = changed.get(channel) or Sensor(f"estimated {channel}", channel)
        changed[channel] = dataclasses.replace(known, **{number: value})
    others = [s for s in model.sensors if changed[s.channel].name != s.name]
    return dataclasses.replace(model, sensors=(*others, *changed.values()))


def _mean(saved: Saved, name: str) -> float:
    return float(np.mean([e.value for n, e in saved.parameters.items() if n.startswith(f"{name}[")]))


# -- calibody validate -------------------------------------------------------------------------------------------------------------------


def validate(saved: Saved, data: Sequence[Path], window: float | None = None) -> dict[str, Any]:
    """Predict recordings, keep what was found in the folder's result and write its report anew; gives it by run."""
    found: dict[str, Any] = {}
    for recording in _recordings(saved, data):
        found[recording.name] = _compared(saved, recording, window)
    document = {**saved.document, "held_out": {**(saved.document.get("held_out") or {}), **found}}
    atomic.write_json(saved.folder / RESULT, document)
    type(saved)(saved.folder, document).report()
    return found


def _recordings(saved: Saved, data: Sequence[Path]) -> list[Recording]:
    """Read as those that were fitted; an experiment file names its own."""
    out: list[Recording] = []
    experiment = _experiment(saved)
    for path in data:
        if path.suffix == ".toml":
            out += reading.load(path).runs()
            continue
        if experiment is None:
            raise CalibodyError(
                f'"{saved.folder}" does not say how its recordings were read (it has no {EXPERIMENT}); give an experiment file that names "{path}".'
            )
        spec = experiment.recordings[0]
        if any(c.file for c in (*spec.observe.values(), *spec.drive.values())):
            raise CalibodyError(f'The channels of the run "{spec.label}" come from several files; give an experiment file that names those of "{path}".')
        out.append(dataclasses.replace(spec, data=str(path.absolute()), name=None, start=None, end=None, initial={}).read(path.parent))
    return out


def _compared(saved: Saved, recording: Recording, window: float | None) -> dict[str, Any]:
    prediction = predict(saved, recording, window)
    noise = {c.channel: c.sd for c in saved.fit}
    channels = {}
    for name, c in prediction.channels.items():
        spread, sd = float(np.std(c.measured)), noise.get(name) or recording[name].sd
        channels[name] = {
            "rms": c.rms,
            "rms_over_sd": None if not sd else c.rms / sd,
            "explained": None if spread == 0.0 else 1.0 - (c.rms / spread) ** 2,
            "samples": len(c.times),
        }
    seen = recording.sha256 is not None and recording.sha256 in saved.document["data_sha256"].values()
    return {"source": recording.source, "seconds": recording.duration, "fitted": seen, "incomplete": prediction.incomplete, "channels": channels}
