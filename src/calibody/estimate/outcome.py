"""From a solution and its uncertainty to a `Result`, alike for every estimator."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate import observe, robust
from calibody.estimate.contacts import untouched
from calibody.estimate.missing.held import LAWS
from calibody.estimate.reported import initial_theta, values_of
from calibody.estimate.result import (
    NOT_QUITE_WHITE,
    PUSHING,
    Again,
    ChannelFit,
    Comparison,
    Estimate,
    ForcesTogether,
    ForceTest,
    Mesh,
    Outlier,
    Rest,
    Result,
    SlowForce,
    Suspect,
)
from calibody.estimate.unknowns import Entry, values_at
from calibody.model import Model
from calibody.recording.recording import Recording
from calibody.solve.gauss_newton import Iteration, Solution
from calibody.spatial.inertia import smallest_principal_second_moment

BRAKES = ("joint.", "transmission.", "spring.", "path.", "tendon.")
"""How the paths of elements begin whose damping takes energy away: that of an actuator may be a feedback."""
BELOW = 3.0
"""Standard deviations beyond what is possible from which that is no chance."""
ROUNDING = 1e-6
"""Of the largest moment: how far a body counts as possible, as for the model."""

if TYPE_CHECKING:
    from calibody.estimate.observed import Observed
    from calibody.estimate.uncertainty import Uncertainty


def outcome(
    problem: Observed,
    solution: Solution,
    found: Uncertainty,
    *,
    recordings: Sequence[Recording],
    given: bool,
    history: Sequence[Iteration],
    mesh: Mesh,
    error: np.ndarray | None,
    notes: Sequence[str],
    seconds: float,
    process_noise: dict[str, float],
    again: Again,
    lacks: Sequence[Suspect] = (),
    rests_on: Sequence[Rest] = (),
    slow_forces: dict[str, SlowForce] | None = None,
    forces_together: Sequence[ForcesTogether] = (),
    force_tests: dict[str, ForceTest] | None = None,
    limits: np.ndarray | None = None,
    without_forces: Comparison | None = None,
    hypers: Sequence[Any] = (),
) -> Result:
    """`error` is that of the discretisation; `given` whether the noise of all channels was stated; `limits` of what sits at a bound."""
    found = found if solution.converged else found.without_bars
    parameters = _estimates(problem.entries, found, solution.converged, error, limits)
    size = np.sqrt(np.maximum(np.diag(found.covariance), 1e-300))
    channels = tuple(_channels(problem, solution, found, recordings))
    calibrated, impossible = _calibrated(problem, solution.theta, parameters)
    known = [*problem.model.notes, *untouched.sentences(problem, solution, list(recordings), found), *(s for r in recordings for s in r.warnings())]
    return Result(
        status=_counted(solution.status, len(history)),
        parameters=parameters,
        determined=found.analysis.determined if solution.converged else (),
        unresolved=found.analysis.sentences,
        covariance=found.covariance,
        correlation=found.covariance / size[:, None] / size[None, :],
        fit=channels,
        chi2=found.chi2,
        dof=found.dof,
        cost=2.0 * solution.cost,
        noise_given=given,
        process_noise=process_noise,
        slow_forces=slow_forces or {},
        forces_together=tuple(forces_together),
        force_tests=force_tests or {},
        without_forces=without_forces,
        runs_agree=found.agreement,
        outliers=_outliers(channels, recordings),
        lacks=tuple(lacks),
        rests_on=tuple(rests_on),
        mesh=mesh,
        iterations=len(history),
        history=tuple(history),
        seconds={"total": seconds},
        notes=(
            *known,
            *notes,
            *impossible,
            *_pushing(parameters),
            *_warnings(found, given, solution.converged),
            *(_bounded(parameters) if solution.converged else ()),
        ),
        model=calibrated,
        problem=problem,
        states=tuple(solution.x),
        theta=solution.theta,
        uncertainty=found,
        recordings=tuple(recordings),
        again=again,
        hypers=tuple(hypers),
    )


def _estimates(unknowns: Sequence[Entry], found: Uncertainty, converged: bool, error: np.ndarray | None, limits: np.ndarray | None) -> dict[str, Estimate]:
    """What is said of every unknown: an error bar only where the data determine it and the fit converged."""
    out, initial = {}, values_of(unknowns, initial_theta(unknowns))
    missing = np.zeros(len(found.sd)) if found.missing is None else np.sqrt(np.diag(found.missing))
    for k, (e, x) in enumerate(zip(unknowns, found.reported.values, strict=True)):
        resolved = bool(found.analysis.resolved[k])
        sds = (float(found.sd[k]), float(found.sd_naive[k])) if resolved and converged else (None, None)
        out[e.name] = Estimate(
            float(x),
            *sds,
            e.unit,
            float(initial[k]),
            e.lower,
            e.upper,
            bool(found.at_bound[k]),
            resolved,
            float(error[k]) if error is not None and converged else None,
            _finite(limits, k),
            float(missing[k]) if sds[0] is not None else None,
        )
    return out


def _calibrated(problem: Observed, theta: np.ndarray, parameters: Mapping[str, Estimate]) -> tuple[Model, list[str]]:
    """The model with what the runs share; where no mechanism can have these numbers it is said, and they are kept all the same."""
    shared = [(e, x) for e, x in zip(problem.entries, theta, strict=True) if e.run is None]
    numbers, _ = values_at([e for e, _ in shared], np.array([x for _, x in shared]), 0)
    try:
        return problem.model.replace(numbers), []
    except CalibodyError as impossible:
        kept = problem.model.replace(numbers, check=False)
        return kept, [_nearly_possible(kept, parameters) or f"The estimates are not physically possible together: {impossible}"]


def _counted(status: str, iterations: int) -> str:
    """Why a fit ended, with all its iterations: the last of several attempts has counted its own."""
    return re.sub(r"^stopped (after|at iteration) \d+", rf"stopped \1 {iterations}", status)


def _channels(problem: Observed, solution: Solution, found: Uncertainty, recordings: Sequence[Recording]) -> list[ChannelFit]:
    out = []
    for r, states in enumerate(solution.x):
        run: Any = problem.runs[r]
        for d, fitted in problem.fitted(r, states, solution.theta):
            path = d.channel.path
            if observe.is_initial(d.channel):
                continue
            out.append(
                ChannelFit(recordings[r].name, path, d.times, d.y, fitted, run.noise.measured[path], found.white[r, path], run.weights[path], d.relative)
            )
    return out


def _warnings(found: Uncertainty, given: bool, converged: bool) -> list[str]:
    notes = []
    ratio = np.sqrt(found.chi2 / found.dof) if found.dof > 0 else 1.0
    if not converged:  # nothing to say about error bars that are not there
        return [f"The residuals are {ratio:.3g} times the stated noise (all channels together)."] if given and ratio > 1.2 else []
    if given and ratio > 1.2:
        notes.append(
            f"The residuals are {ratio:.3g} times the stated noise (all channels together); the error bars were inflated accordingly, but look for a model error."
        )
    if given and ratio < 0.7:
        notes.append(f"The residuals are only {ratio:.2g} of the stated noise; the error bars may be too large.")
    if found.robust:
        notes.append(
            f"{NOT_QUITE_WHITE}; the error bars allow for their correlation (the naive ones stand beside them), not for what a term missing in the model would move."
        )
    if found.agreement is not None and not found.agreement.agree:
        a = found.agreement
        notes.append(f"The runs do not agree (chi2 between them {a.chi2:.0f} for {a.dof} degrees of freedom); the error bars were inflated by their scatter.")
    return notes


def _finite(limits: np.ndarray | None, k: int) -> float | None:
    return float(limits[k]) if limits is not None and np.isfinite(limits[k]) else None


def _nearly_possible(model: Model, parameters: Mapping[str, Estimate]) -> str:
    """A sentence where all that is impossible are moments of bodies, and their error bars and what held ones are easily off by explain it: a flat wheel's largest moment is the sum of the two others exactly. Empty: that is not all."""
    near = []
    for body in model.bodies:
        smallest, largest = smallest_principal_second_moment(body.inertia)
        if body.mass < 0.0 or (body.mass == 0.0 and (any(body.com) or largest > 0.0)):
            return ""
        if smallest >= -ROUNDING * largest:
            continue
        slack = 0.0
        for axis, moment in zip(("xx", "yy", "zz"), body.inertia, strict=False):
            e = parameters.get(f"body.{body.name}.inertia.{axis}")
            slack += LAWS * abs(moment) if e is None else BELOW * (e.sd or 0.0)
        if min(body.inertia[:3]) < 0.0 or -2.0 * smallest > slack:
            return ""
        near.append(f"body.{body.name}")
    return f"The moments of {', '.join(near)}, as estimated and as held, are those of no body, by less than they are easily off." if near else ""


def _pushing(parameters: Mapping[str, Estimate]) -> list[str]:
    """Dampings that drive, where nobody said that they may."""
    beyond = [(n, e) for n, e in parameters.items() if e.sd and n.startswith(BRAKES) and n.endswith(".damping") and e.lower == -np.inf]
    return [
        f"{PUSHING}: {n} = {e.value:.3g} +- {e.sd:.2g}; something that the model lacks was taken for it." for n, e in beyond if e.value < -BELOW * (e.sd or 0.0)
    ]


def _bounded(parameters: Mapping[str, Estimate]) -> list[str]:
    """Estimates at their bounds."""
    out = []
    for name, e in parameters.items():
        known = "has no error bar" if e.limit is None else f"is {'at most' if e.limit > e.value else 'at least'} {e.limit:.3g} with 95 % confidence"
        out += [f"{name} ended at its bound and {known}."] if e.at_bound else []
    return out


def _outliers(channels: Sequence[ChannelFit], recordings: Sequence[Recording]) -> tuple[Outlier, ...]:
    """Samples that miss the fit by more than six times the channel's noise: as the bulk of the residuals shows it, or as stated if that is more. An sd that was found is no measure: outliers are in it."""
    stated = {(r.name, o.channel): o.noise[0] for r in recordings for o in r.observations}
    out = []
    for c in channels:
        size = robust.noise_size(c.deviation, (stated.get((c.run, c.channel)) or 0.0) / c.sd)
        far = np.flatnonzero(np.abs(c.deviation) > robust.FAR * size) if size > 0.0 else ()
        out += [Outlier(c.run, c.channel, float(c.times[k]), float(c.deviation[k] / size)) for k in far]
    return tuple(out)
