"""Transcription, from recordings to a result: one mesh after the other (`meshes.py`), with unmodelled forces where they are asked for and wanted.

The recipe: a first motion from the observations alone (`start.py`); Gauss-Newton on the coarsest mesh, dry friction sharpened in stages if need be, and where the noise of
channels has to be found, that in turns with Gauss-Newton (`marginal.py`); with unmodelled forces instead of both the maximum of the marginal likelihood (`likelihood.py`); the mesh halved while the parameters still move by
more than a fraction of their standard deviation; error bars and what they cannot tell (`uncertainty.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from calibody.errors import CalibodyError, told
from calibody.estimate.concluded import concluded
from calibody.estimate.contacts.touching import LAW, Touching
from calibody.estimate.estimator import Checkpoint
from calibody.estimate.known_start import refuse_torn
from calibody.estimate.mesh import first_step, refuse_step
from calibody.estimate.meshes import Meshes
from calibody.estimate.nodes import driven_by
from calibody.estimate.noise import given as noise
from calibody.estimate.noise.unknown_drives import unknown_joints, with_unknown_drives
from calibody.estimate.noise.unmodelled import ProcessNoise
from calibody.estimate.noise.weighed import weighed
from calibody.estimate.people.captured import refuse_absurd
from calibody.estimate.reported import theta_of
from calibody.estimate.result import Result
from calibody.estimate.unknowns import Unknown, entries, model_paths, refuse_what_does_not_act
from calibody.mechanics.structure import Structure
from calibody.model import Model
from calibody.recording import jumps
from calibody.recording.glitches import without
from calibody.recording.recording import Recording
from calibody.solve.gauss_newton import Iteration
from calibody.solve.globalisation import Globalisation

Solver = TypeVar("Solver", bound=Meshes)


@told()
def transcribe(
    model: Model,
    recordings: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    process_noise: ProcessNoise = "none",
    coordinates: str = "auto",
    h: float | None = None,
    robust: bool = False,
    report: Callable[[Iteration], None] | None = None,
    start: Mapping[str, float] | None = None,
    checkpoint: Checkpoint | None = None,
    stage: str = "",
    contacts: str = LAW,
    globalisation: Globalisation | None = None,
) -> Result:
    """The recipe; arguments as in `fit`. What `checkpoint` keeps is called by `stage`."""
    began = time.perf_counter()
    worker, base = prepared(model, recordings, estimate, process_noise, coordinates, h, robust, report, contacts)
    worker.checkpoint, worker.stage = checkpoint, f"{stage}whole"
    worker.globalisation = globalisation or worker.globalisation
    theta = theta_of(worker.unknowns, start or {})
    if worker.given and any(hyper.process for hyper in worker.hypers) and not worker.driven:
        calm = worker.calm()
        levels = calm.levels(base, theta, h is None)
        if not calm.pushed(levels):
            return concluded(calm, levels, time.perf_counter() - began, halved=h is not None)
        worker.history, worker.hints = calm.history, [levels[-1].solution.theta]
        worker.tried = levels[-1] if levels[-1].solution.converged else None
    levels = worker.levels(base, theta, h is None)
    if not levels[-1].solution.converged and worker.widths() and levels[-1].likely is None:
        widths: dict[str, Unknown | float | None] = dict.fromkeys(worker.widths())
        options = process_noise, coordinates, h, robust, report, start, checkpoint, f"{stage}soft ", contacts, globalisation
        softer = transcribe(model, recordings, {**estimate, **widths}, *options)
        if softer.converged:
            return replace(softer, notes=(*softer.notes, _softened(list(widths))))
    return concluded(worker, levels, time.perf_counter() - began, halved=h is not None)


def prepared(
    model: Model,
    recordings: Sequence[Recording],
    estimate: Mapping[str, Unknown | float | None],
    process_noise: ProcessNoise,
    coordinates: str,
    h: float | None,
    robust: bool = False,
    report: Callable[[Iteration], None] | None = None,
    contacts: str = LAW,
    kind: type[Solver] = Meshes,
) -> tuple[Solver, float]:
    """What solves on any mesh, and the step of the first one."""
    if h is not None:
        refuse_step(h, recordings)
    cleaned = [without(r) for r in recordings]
    recordings = [r for r, _ in cleaned]
    unknowns = entries(model, estimate, [r.name for r in recordings])
    structure = Structure.build(model, coordinates, model_paths(unknowns), driven_by(recordings))
    process_noise = with_unknown_drives(model, recordings, process_noise)
    touching = Touching.of(structure, recordings, unknowns, contacts, process_noise, robust)
    refuse_what_does_not_act(model, unknowns, coordinates, touching.inert)
    refuse_absurd(model, recordings)
    for recording in recordings:
        refuse_torn(model, recording, unknowns)
    if not structure.nv:
        raise CalibodyError(f'Nothing moves in the model "{model.name}"; a fit needs at least one joint.')
    period = min(r.period for r in recordings)
    forces = noise.process_noise(model, process_noise, period)
    found_noise, given, hypers = noise.noises(
        recordings, forces, believed=bool(sought := unknown_joints(model, recordings)) and set(forces.sized) <= set(sought)
    )
    base = first_step(recordings, found_noise)
    worker = kind(structure, recordings, unknowns, found_noise, given, hypers, robust, report, remembering=forces.remembering, coarsest=base)
    worker.touching, worker.driven = touching, frozenset(sought)
    odd = [*(s for _, sentences in cleaned for s in sentences), *(s for r in recordings for o in r.observations for s in jumps.sentences(o))]
    worker.notes += [*odd, *weighed(model, unknowns, sought)]
    return worker, base if h is None else h


def _softened(widths: Sequence[str]) -> str:
    return (
        f"With sharp dry friction the fit did not converge; it was taken as soft, and the rate{'s' if len(widths) > 1 else ''} from which on it acts in full, {', '.join(widths)}, "
        "estimated as well."
    )
