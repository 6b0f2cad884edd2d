"""An experiment simulated with the initial values of its unknowns: how far off is the guess?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from calibody.errors import SimulationError
from calibody.experiment.spec import Experiment

if TYPE_CHECKING:
    from calibody.recording.recording import Recording
    from calibody.steppers.motion import Motion


@dataclass(frozen=True)
class Simulated:
    """One run: the motion, and per channel the rms of its difference to the measurement beside that of the measurement itself."""

    motion: Motion = field(repr=False)
    rms: dict[str, dict[str, float]]
    incomplete: str | None
    """Why the simulation ended early, or None."""


def simulate_runs(experiment: Experiment, coordinates: str = "auto") -> dict[str, Simulated]:
    """Every run, from a start taken from its measurements, driven as recorded."""
    from calibody.estimate.channels import as_motion
    from calibody.estimate.nodes import driven_by
    from calibody.estimate.noise import given as noise
    from calibody.estimate.predict import _initial, compared
    from calibody.estimate.problem import Problem
    from calibody.estimate.reported import initial_theta
    from calibody.estimate.run import Run
    from calibody.estimate.start import first_motion
    from calibody.estimate.unknowns import entries
    from calibody.mechanics.structure import Structure

    model, recordings = experiment.model(), experiment.runs()
    unknowns = entries(model, experiment.estimate(), [r.name for r in recordings])
    theta = initial_theta(unknowns)
    structure = Structure.build(model, coordinates, driven=driven_by(recordings))
    found, _, _ = noise.noises(recordings, noise.Forces())
    problem = Problem.of([Run.of(structure, r, r.period, n) for r, n in zip(recordings, found, strict=True)], unknowns)
    out = {}
    for k, recording in enumerate(recordings):
        run = problem.runs[k]
        start, numbers, sensors = problem.model_of(k, theta)
        first = as_motion(run, start, numbers, first_motion(run, start, numbers, sensors)[1])
        motion, incomplete = _simulated(recording, first, _initial(first), coordinates)
        rms = {c: {"rms": p.rms, "rms_of_signal": float(np.std(p.measured))} for c, p in compared(recording, motion, sensors).items()}
        out[recording.name] = Simulated(motion, rms, incomplete)
    return out


def _simulated(recording: Recording, first: Motion, initial: dict, coordinates: str) -> tuple[Motion, str | None]:
    from calibody.steppers.rollout import simulate

    drive = {d.channel: replace(d.signal, times=d.signal.times - recording.start) for d in recording.drives}
    h = recording.duration / max(1, round(recording.duration / recording.period))
    try:
        return simulate(first.model, recording.duration, h, initial, drive, coordinates=coordinates), None
    except SimulationError as error:
        partial = getattr(error, "motion", None)
        if partial is None:
            raise
        return partial, str(error)
