"""What a fit will be able to tell, before it is made: the information of the data along the first motion, at the initial values.

The first motion comes from the observations alone, so this costs one linearisation. It does not satisfy the equations of motion yet; what is
found is a forecast, good for saying which parameters do not show in the data at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from calibody.errors import told
from calibody.estimate import noise
from calibody.estimate.identifiability import Identifiability
from calibody.estimate.meshes import FRICTION_STAGES, Meshes
from calibody.estimate.problem import Problem
from calibody.estimate.reported import initial_theta
from calibody.estimate.run import Run
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


@told()
def foresee(
    model: Model,
    runs: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    process_noise: noise.ProcessNoise = "none",
    coordinates: str = "auto",
) -> Identifiability:
    """Which unknowns and combinations the data will determine."""
    unknowns = entries(model, estimate, [r.name for r in runs])
    refuse_what_does_not_act(model, unknowns, coordinates)
    structure = Structure.build(model, coordinates, model_paths(unknowns))
    period = min(r.period for r in runs)
    total = sum(r.duration for r in runs)
    h = float(np.clip(total / NODES, period, COARSEST * period))
    share = max(NODES // len(runs), FEWEST) * h
    cut = [r if r.duration <= share else r.cut(end=r.start + share) for r in runs]
    density, _ = noise.process_noise(model, process_noise, period)
    found, given, _ = noise.noises(cut, density)
    worker = Meshes(structure, cut, unknowns, found, given)
    theta = initial_theta(unknowns)
    problem, x = worker.begin(Problem.of([Run.of(structure, r, h, n) for r, n in zip(cut, found, strict=True)], unknowns), theta)
    problem = problem.sharpened(FRICTION_STAGES[-1] * worker.rms_rates(problem, x, theta))
    taken = step(problem.linearise(x, theta), theta, problem.lower, problem.upper, 0.0 * theta, problem.scale)
    return in_numbers(np.asarray(taken.information), unknowns, theta, np.zeros(len(theta), dtype=bool), 1.0)
