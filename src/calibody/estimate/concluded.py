"""What the solutions on all meshes amount to: estimates with their error bars, what the mesh may still change, and what is to be said about noise and forces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from calibody.errors import NumericalError, told
from calibody.estimate import dry
from calibody.estimate.contacts.touching import Touching
from calibody.estimate.dry import FINER, SHARPER
from calibody.estimate.identifiability import Determined
from calibody.estimate.level import MOVES, Level, discretisation, second_order, settled
from calibody.estimate.limits import limits
from calibody.estimate.meshes import Meshes
from calibody.estimate.missing.misled import misled, sentences as misled_sentences
from calibody.estimate.missing.rests import sentences
from calibody.estimate.missing.suspects import Tests, rests_on, suspects
from calibody.estimate.noise import given as noise
from calibody.estimate.noise.compared import compared
from calibody.estimate.noise.coupling import covariance, together
from calibody.estimate.outcome import outcome
from calibody.estimate.problem import Problem
from calibody.estimate.reported import reported, values_of
from calibody.estimate.result import FORCE_NOT_WHITE, FORCES_DECIDE, LEFT_OVER, Comparison, ForcesTogether, Mesh, Result, SlowForce
from calibody.estimate.uncertainty import Uncertainty
from calibody.estimate.unknowns import Entry
from calibody.mechanics.structure import Structure
from calibody.recording.recording import Recording
from calibody.solve.condensed import parameters_step

LARGER = 1.2
"""Noise found over noise stated, or the other way round, from which that is said."""


def concluded(worker: Meshes, levels: Sequence[Level], seconds: float, halved: bool = False) -> Result:
    """What was found; `halved`: on a mesh that was given, with what half of its step would change."""
    problem, solution, found, both = levels[-1].problem, levels[-1].solution, levels[-1].final, together(levels[-1].problem.runs[0])
    mesh = Mesh(problem.runs[0].h, len(levels) - 1)
    values = [level.values for level in levels]
    error = _by_halving(worker, levels[-1]) if halved and solution.converged else discretisation(values, second_order(values))
    determined = _with_mesh_error(worker, found.analysis.determined, [level.solution.theta for level in levels], second_order(values))
    found = replace(found, analysis=replace(found.analysis, determined=determined))
    known = noise.known(problem.runs[0].noise)
    sds = {channel: run.noise.measured[channel] for run in problem.runs for channel in run.noise.missing}
    again = partial(_again, worker.structure, known, sds, mesh.h, worker.hold, worker.coarsest, replace(worker.touching, asked=()))
    comparison, beyond = _beside(worker, levels[-1], found)
    tests = _tests(levels)
    lacks, moved = suspects(tests) if tests is not None else ((), np.zeros((0, len(solution.theta))))
    bounded = limits(problem, solution.x, solution.theta, found) if solution.converged else None
    found = misled(found, problem.entries, solution.theta, np.vstack([moved, beyond]))
    rests = () if tests is None else rests_on(tests, found)
    named = {path for s in lacks for path in (s.path, *(part.path for part in s.parts))}
    worker.notes += [
        *stated(worker, levels[-1]),
        *_common(both),
        *_slow(levels[-1]),
        *_apart(comparison),
        *sentences([rest for rest in rests if rest.path not in named]),
        *misled_sentences(found),
        *(_too_coarse(levels[-1], error) if halved and error is not None else ()),
    ]
    return outcome(
        problem,
        solution,
        found,
        recordings=worker.recordings,
        given=worker.given,
        history=worker.history,
        mesh=mesh,
        error=error,
        notes=worker.notes,
        seconds=seconds,
        process_noise=_process_noise(worker, problem),
        slow_forces=_slow_forces(problem),
        forces_together=both,
        force_tests={} if levels[-1].bars is None else levels[-1].bars.slow,
        without_forces=comparison,
        again=again,
        lacks=lacks,
        rests_on=rests,
        limits=bounded,
        hypers=worker.hypers,
    )


def _beside(worker: Meshes, level: Level, found: Uncertainty) -> tuple[Comparison | None, np.ndarray]:
    """Beside a fit whose unmodelled forces were found: what one without them says, and by how much it differs beyond chance."""
    if level.likely is None or not worker.hypers or not level.solution.converged:
        return None, np.zeros(len(level.solution.theta))
    tried = None if worker.tried is None else (worker.tried.problem, worker.tried.solution)
    return compared(level.problem, level.solution, found, tried)


def _by_halving(worker: Meshes, level: Level) -> np.ndarray | None:
    """By how much every number reported would move on a mesh of half the step: one Gauss-Newton step there, from the motion of this one. None where that mesh is too large."""
    old, theta = level.problem, level.solution.theta
    if not level.halvable or not len(theta):
        return None
    problem, x = worker.finer(level, worker.problem(0.5 * old.runs[0].h, [run.noise for run in old.runs]), theta)
    # and with friction as sharp as a fit would have it there
    sharper = 1.0 if worker.blunt or not worker.friction else 0.5 if old.runs[0].h <= FINER * worker.coarsest else 0.5 * SHARPER
    runs = [replace(run, deltas=None if o.deltas is None else sharper * o.deltas, smooth=o.smooth) for run, o in zip(problem.runs, old.runs, strict=True)]
    problem = replace(problem, runs=tuple(runs))
    if old.runs[0].turning is not None:
        problem = dry.turning(problem, x, theta)
    try:
        moved = parameters_step(problem.linearise(x, theta), theta, problem.lower, problem.upper, 1.0 / problem.scale**2, problem.scale, problem.slope)
    except NumericalError:
        return None
    return np.abs(reported(problem.entries, problem.shift(theta, moved)).values - level.values)


def _too_coarse(level: Level, moved: np.ndarray) -> list[str]:
    sd = level.final.sd
    ratio = np.where(np.isfinite(sd) & (sd > 0.0), moved / np.maximum(sd, 1e-300), 0.0)
    worst, h = int(np.argmax(ratio)), 1e3 * level.problem.runs[0].h
    if ratio[worst] <= MOVES:
        return []
    return [
        f"On a mesh of half the step ({0.5 * h:.3g} ms instead of {h:.3g} ms) {level.found.reported.names[worst]} would move by {ratio[worst]:.2g} of its standard deviation; "
        "give a smaller h, or leave it out."
    ]


def stated(worker: Meshes, level: Level) -> list[str]:
    """Channels whose noise is not as stated: larger than the least that it was taken to be, or smaller."""
    out, asked = [], {} if level.bars is None else level.bars.asked
    for hyper in worker.hypers:
        if hyper.process or not np.isfinite(hyper.lower):
            continue
        found, stated = float(np.exp(hyper.log_sd(level.problem))), float(np.exp(hyper.lower))
        if found > LARGER * stated:
            out.append(f"The noise of {hyper.name} was stated as {stated:.2g}, which is the least it was taken to be, and found to be {found:.2g}.")
        elif asked.get(hyper.name, stated) < stated / LARGER:
            out.append(
                f"The noise of {hyper.name} was stated as {stated:.2g}, which is the least it was taken to be; by these data it is about {asked[hyper.name]:.1g}. State that, or leave it out."
            )
    return out


def _slow(level: Level) -> list[str]:
    """Joints whose unmodelled force is not the noise it was taken to be."""
    found, alike = {} if level.bars is None else level.bars.slow, ", counted as the same in every run," if len(level.problem.runs) > 1 else ","
    return [
        f"{FORCE_NOT_WHITE}: that of joint {joint} (chi2 {slow.chi2:.0f} for {slow.dof} degrees of freedom) is slow; a constant or slow force is missing (tilt, offset, "
        f"friction, a cable); the error bars allow for its scatter{alike} not for the bias it causes."
        for joint, slow in found.items()
        if slow.slow
    ]


def _tests(levels: Sequence[Level]) -> Tests | None:
    """Of what was held, on the finest mesh whose columns for all suspects fit, or the one before the last if halving that moved nothing much. Without unknowns there is nothing that could be wrong by
    what was held, and the columns of hundreds of markers would be most of the work."""
    if not levels[-1].problem.entries:
        return None
    enough = levels[:-1] if len(levels) > 1 and settled(levels) else levels
    fitting = [level for level in enough if level.solution.converged and level.fits(0.25)]
    if not fitting or not levels[-1].solution.converged or levels[-1].problem.struck:  # tests know nothing of impacts
        return None
    level = fitting[-1]
    return Tests(level.problem, level.solution.x, level.solution.theta, levels[-1].found)


def _with_mesh_error(worker: Meshes, determined: Sequence[Determined], thetas: Sequence[np.ndarray], regular: bool) -> tuple[Determined, ...]:
    """Sums with the discretisation error of what is printed."""
    if len(thetas) < 2:
        return tuple(determined)
    names = reported(worker.unknowns, thetas[-1], linear=True).names
    numbers = [dict(zip(names, values_of(worker.unknowns, theta, linear=True), strict=True)) for theta in thetas]
    out = []
    for d in determined:
        error = discretisation([np.array([sum(c * n[name] for name, c in d.terms)]) for n in numbers], regular)
        out.append(replace(d, discretisation_error=float(error[0])) if d.terms and error is not None else d)
    return tuple(out)


def _process_noise(worker: Meshes, problem: Problem) -> dict[str, float]:
    """Standard deviation of the white unmodelled force of each joint, if it is drawn anew every sampling period."""
    period, run = min(r.period for r in worker.recordings), problem.runs[0]
    white = np.diag(covariance(run)) * run.held / period
    sizes = {joint: float(np.sqrt(v)) for (joint, _), v, slow in zip(run.disturbed, white, run.remembering, strict=True) if not slow}
    return dict.fromkeys(worker.without, 0.0) | sizes


def _slow_forces(problem: Problem) -> dict[str, SlowForce]:
    """The unmodelled forces with a memory: of density S and correlation time tau, their variance is S/(2 tau)."""
    found = problem.runs[0].noise
    return {joint: SlowForce(float(np.sqrt(0.5 * density / found.memory[joint])), found.memory[joint]) for joint, density in found.slow.items()}


def _common(found: Sequence[ForcesTogether]) -> list[str]:
    """Forces that have a cause in common."""
    return [
        f"The unmodelled forces of the joints {t.joints[0]} and {t.joints[1]} go together (correlation {t.correlation:.2f}): what is missing acts on both (a frame that shakes, a link that bends, "
        "a belt or a cable across)."
        for t in found
        if t.common
    ]


def _apart(comparison: Comparison | None) -> list[str]:
    """Where a fit without unmodelled forces says something else, or nothing."""
    if comparison is None or comparison.agrees:
        return []
    if comparison.status.startswith(LEFT_OVER):
        return [
            f"A fit without unmodelled forces, begun at these estimates, does not follow the motion ({comparison.status}): the model describes it with them only, and whether the estimates depend on them could not be seen."
        ]
    if comparison.status != "converged":
        return ["A fit without unmodelled forces, begun at these estimates, did not converge: whether they depend on those forces could not be seen."]
    name, apart = comparison.largest
    value, sd = comparison.values[name], comparison.sds[name]
    return [
        f"{FORCES_DECIDE}: without those {name} would be {value:.4g} +- {sd:.2g}, which is {abs(apart):.1f} standard deviations of the difference {'above' if apart > 0 else 'below'}. "
        "What is taken for their noise is none, or the motion tells too little. The error bars allow for the difference; which of both values is right, if one is, the data do not say."
    ]


@told()
def refit(
    structure: Structure,
    recording: Recording,
    unknowns: Sequence[Entry],
    theta: np.ndarray,
    noises: Sequence[noise.Noise],
    given: bool,
    h: float,
    hold: float = 0.0,
    coarsest: float = 0.0,
    touching: Touching | None = None,
) -> Result:
    """A fit of one recording on one mesh with unknowns and noise as they are; unknowns whose bounds coincide stay."""
    worker = Meshes(structure, [recording], unknowns, noises, given, hold=hold, coarsest=coarsest)
    worker.touching = touching or worker.touching
    level = worker.solve(h, theta, None)
    return concluded(worker, [level], 0.0)


def _again(
    structure: Structure, forces: noise.Forces, sds: Mapping[str, float], h: float, hold: float, coarsest: float, touching: Touching,
    recording: Recording, unknowns: Sequence[Entry], theta: np.ndarray,
) -> Result:  # fmt: skip
    """Another recording with the same structure, process noise and mesh; where it does not state the noise of a channel, that is as the fit has found it (`sds`)."""
    found, given, _ = noise.noises([recording], forces)
    found = [replace(one, measured={**one.measured, **{c: sd for c, sd in sds.items() if c in one.missing}}) for one in found]
    return refit(structure, recording, unknowns, theta, found, given, h, hold, coarsest, touching)
