"""Before a fit is made: whether it would be refused, and what it will be able to tell, from the information of the data along the first motion at the initial values.

The first motion comes from the observations alone, so this costs one linearisation. It does not satisfy the equations of motion yet; what is
found is a forecast, good for saying which parameters do not show in the data at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calibody.errors import CalibodyError, told
from calibody.estimate.contacts.touching import LAW, Touching
from calibody.estimate.dry import FRICTION_STAGES, rms_rates
from calibody.estimate.identifiability import Identifiability
from calibody.estimate.meshes import Meshes
from calibody.estimate.nodes import driven_by
from calibody.estimate.noise import given as noise
from calibody.estimate.noise.unknown_drives import with_unknown_drives
from calibody.estimate.noise.unmodelled import ProcessNoise
from calibody.estimate.recipe import prepared
from calibody.estimate.reported import initial_theta
from calibody.estimate.uncertainty import in_numbers
from calibody.estimate.unknowns import Unknown, entries, model_paths, refuse_what_does_not_act
from calibody.mechanics.structure import Structure
from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.condensed import step

NODES = 2000
"""Of all runs together, at most."""
COARSEST = 4.0
"""Sampling periods between nodes, at most; beyond that, runs are cut."""
FEWEST = 60
"""Nodes of a run, at least."""
TRIED = 5000
"""Nodes of all runs together, at most, on which it is tried whether a fit can begin."""


@told()
def refuse(
    model: Model,
    runs: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    process_noise: ProcessNoise,
    coordinates: str,
    h: float | None,
    contacts: str = LAW,
) -> None:
    """A sentence where a fit would give one: its own way up to the first step, on its own mesh; of long runs the first part."""
    worker, h = prepared(model, runs, estimate, process_noise, coordinates, h, contacts=contacts)
    touching = worker.touching
    try:
        cut = shortened(worker.recordings, max(TRIED // len(runs), FEWEST) * h)
    except CalibodyError:  # a channel that begins later
        return
    found, given, _ = noise.noises(cut, noise.known(worker.noises[0]))
    worker, theta = Meshes(worker.structure, cut, worker.unknowns, found, given), initial_theta(worker.unknowns)
    worker.touching = touching
    problem, x = worker.begin(worker.problem(h, found), theta)
    problem.linearise(x, theta, parameters=False)


@told()
def foresee(
    model: Model,
    runs: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    process_noise: ProcessNoise = "none",
    coordinates: str = "auto",
    contacts: str = LAW,
) -> Identifiability:
    """Which unknowns and combinations the data will determine."""
    unknowns = entries(model, estimate, [r.name for r in runs])
    structure = Structure.build(model, coordinates, model_paths(unknowns), driven_by(runs))
    process_noise = with_unknown_drives(model, runs, process_noise)
    touching = Touching.of(structure, runs, unknowns, contacts, process_noise, False)
    refuse_what_does_not_act(model, unknowns, coordinates, touching.inert)
    period = min(r.period for r in runs)
    total = sum(r.duration for r in runs)
    h = float(np.clip(total / NODES, period, COARSEST * period))
    cut = shortened(runs, max(NODES // len(runs), FEWEST) * h)
    forces = noise.process_noise(model, process_noise, period)
    found, given, _ = noise.noises(cut, replace(forces, sized=()))
    worker = Meshes(structure, cut, unknowns, found, given)
    worker.touching = touching
    theta = initial_theta(unknowns)
    problem, x = worker.begin(worker.problem(h, found), theta)
    problem = problem.sharpened(FRICTION_STAGES[-1] * rms_rates(problem, x, theta))
    taken = step(problem.linearise(x, theta), theta, problem.lower, problem.upper, 0.0 * theta, problem.scale)
    return in_numbers(np.asarray(taken.information), unknowns, theta, np.zeros(len(theta), dtype=bool), 1.0)


def shortened(runs: Sequence[Recording], longest: float) -> list[Recording]:
    """The first part of each, no longer than so many seconds."""
    return [r if r.duration <= longest else r.cut(end=r.start + longest) for r in runs]
