"""What can be said about an experiment before it is fitted: whether everything it names is there, and what looks wrong.

Nothing stops at the first mistake: the model, every run, every channel and every unknown are tried on their own. What passes is given to the method, which goes its own way up to the first step of a fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.unknowns import Entry, entries
from calibody.experiment import plausible
from calibody.experiment.spec import Experiment, RunSpec
from calibody.mechanics import channels
from calibody.model import Model
from calibody.model.native import MUJOCO
from calibody.recording.recording import Recording
from calibody.recording.unknown import EVERY

ERROR, WARNING, NOTE = "error", "warning", "note"
Found = TypeVar("Found")


@dataclass(frozen=True)
class Finding:
    """One sentence; an error is what a fit would refuse, a warning what it would swallow."""

    level: str
    sentence: str


@dataclass(frozen=True, eq=False)
class Check:
    """The findings, and what could be read of the experiment."""

    findings: tuple[Finding, ...]
    model: Model | None
    runs: tuple[Recording, ...]
    """Those that can be read."""
    unknowns: tuple[Entry, ...]
    """Empty if one of them is wrong."""

    @property
    def ok(self) -> bool:
        """Whether a fit can start."""
        return not any(finding.level == ERROR for finding in self.findings)


def check(experiment: Experiment, foresight: bool = False) -> Check:
    """Read all that an experiment names and look at it; `foresight` also says what the data will not determine."""
    findings: list[Finding] = []
    with np.errstate(all="ignore"):  # absurd numbers are reported by what is found, not by numpy
        model = _attempt(findings, experiment.model)
        _attempt(findings, experiment.refuse_without_runs)
        runs = [run for k in range(len(experiment.recordings)) if (run := _run(findings, experiment, k)) is not None]
        _same_data(findings, runs)
        unknowns: tuple[Entry, ...] = ()
        if model is not None:
            findings += [Finding(NOTE, note) for note in model.notes]
            findings += [Finding(ERROR, sentence) for sentence in wrong_channels(model, experiment)]
            for spec in (spec for spec in experiment.recordings if not spec.poses):
                _undriven(findings, model, spec)
            unknowns = _unknowns(findings, model, experiment)
        if model is not None and not any(f.level == ERROR for f in findings):
            _attempt(findings, lambda: _refuse_method(model, runs, experiment))
        if foresight and model is not None and unknowns and not any(f.level == ERROR for f in findings):
            _foresee(findings, model, runs, experiment)
    unique = tuple(dict.fromkeys(findings))
    return Check(tuple(f for level in (ERROR, WARNING, NOTE) for f in unique if f.level == level), model, tuple(runs), unknowns)


def _refuse_method(model: Model, runs: list[Recording], experiment: Experiment) -> None:
    """What the method says before its first step."""
    from calibody.estimate.fit import refuse_poses

    refuse_poses(experiment.method, runs)
    experiment.method.refuse(model, runs, experiment.estimate())


def _attempt(findings: list[Finding], make: Callable[[], Found], where: str = "") -> Found | None:
    try:
        return make()
    except CalibodyError as error:
        findings.append(Finding(ERROR, f"{where}{error}"))
        return None


def _run(findings: list[Finding], experiment: Experiment, k: int) -> Recording | None:
    spec = experiment.recordings[k]
    where = f'run "{spec.label}": ' if len(experiment.recordings) > 1 else ""
    before = len(findings)
    _attempt(findings, lambda: experiment.refuse_missing_data(k))
    mistakes = spec.mistakes(experiment.folder) if len(findings) == before else []
    findings += [Finding(ERROR, f"{experiment.in_run(k, sentence)}{sentence}") for sentence in mistakes]
    run = None if len(findings) > before else _attempt(findings, lambda: experiment.read(k))
    if run is not None:
        findings += [Finding(WARNING, f"{where}{sentence}") for sentence in plausible.sentences(run, spec.observe)]
    return run


def _same_data(findings: list[Finding], runs: list[Recording]) -> None:
    seen: dict[tuple[Any, ...], str] = {}
    for run in runs:
        key = (run.sha256, run.start, run.end)
        if run.sha256 is not None and key in seen:
            findings.append(
                Finding(WARNING, f'The runs "{seen[key]}" and "{run.name}" are the same recording; counted twice, it makes the error bars too small.')
            )
        seen.setdefault(key, run.name)


def wrong_channels(model: Model, experiment: Experiment) -> list[str]:
    """A sentence with its line for every channel that the model does not have, or that cannot be what it is used for."""
    from calibody.estimate import observe

    found: list[Finding] = []
    rules: Any = observe
    if getattr(experiment.method, "kind", "") == MUJOCO:
        from calibody.estimate.engine import run as rules
    for k, spec in enumerate(experiment.recordings):
        observed = spec.observed
        for path in observed:
            _attempt(found, lambda path=path, observed=observed: rules.check(model, path, observed), _place(experiment, k, path))
        for path in spec.initial:
            _attempt(found, lambda path=path: rules.start_channel(model, path), _place(experiment, k, path))
        for path in spec.drive:
            _attempt(found, lambda path=path, spec=spec: channels.refuse_both(model, path, spec.observed, spec.label), _place(experiment, k, path))
    return [f.sentence for f in found]


def _place(experiment: Experiment, k: int, path: str) -> str:
    """File and line of a channel, of the vector or the orientation that it is a part of, or of its run."""
    whole, _, _ = path.rpartition(".")
    body, _, _ = whole.rpartition(".")
    return experiment.at(*(f"run {k} {name}" for name in (path, whole, f"{body}.orientation", f"{body}.pose")), f"run {k}")


def wrong_unknowns(model: Model, experiment: Experiment) -> list[str]:
    """The same for unknowns, one by one."""
    names, found = [spec.label for spec in experiment.recordings], []
    for name, unknown in experiment.unknowns.items():
        _attempt(found, lambda one={name: unknown}: entries(model, one, names), experiment.at(f"estimate {name}"))
    return [f.sentence for f in found]


def refuse(model: Model, experiment: Experiment) -> None:
    """The first of these mistakes as an error: what a fit says, with its line, before it begins."""
    wrong = [*wrong_channels(model, experiment), *wrong_unknowns(model, experiment)]
    if wrong:
        raise CalibodyError(wrong[0])


def _undriven(findings: list[Finding], model: Model, spec: RunSpec) -> None:
    given = {*spec.drive, *(u.channel for u in spec.unknown)}
    for actuator in model.actuators:
        if not {f"actuator.{actuator.name}", f"joint.{actuator.joint}.force", EVERY} & given:
            findings.append(Finding(WARNING, f'The run "{spec.label}" does not drive "actuator.{actuator.name}"; its control is taken as zero.'))


def _unknowns(findings: list[Finding], model: Model, experiment: Experiment) -> tuple[Entry, ...]:
    if not experiment.unknowns and any(run.unknown for run in experiment.recordings):
        return ()  # these are what is asked for
    if not experiment.unknowns:
        sentence = 'Nothing is estimated but motion and forces; for more give an [[estimate]] with parameter = "body.NAME.mass" or another path.'
        findings.append(Finding(WARNING, sentence))
        return ()
    names = [spec.label for spec in experiment.recordings]
    before = len(findings)
    findings += [Finding(ERROR, sentence) for sentence in wrong_unknowns(model, experiment)]
    whole = _attempt(findings, lambda: entries(model, experiment.estimate(), names)) if len(findings) == before else None
    _sensors(findings, model, whole or (), experiment.recordings)
    return whole or ()


def _sensors(findings: list[Finding], model: Model, whole: tuple[Entry, ...], runs: tuple[RunSpec, ...]) -> None:
    """Unknowns of channels that no run observes, or that have none."""
    from calibody.estimate.observe import check_sensor

    observed = {part for run in runs for path in run.observed for part in (path, path.rpartition(".")[0])}
    for place in (place for entry in whole for place in entry.places if place.sensor is not None):
        assert place.sensor is not None
        if place.sensor[0] not in observed:
            findings.append(Finding(WARNING, f'"{place.path}" is estimated, but no run observes "{place.sensor[0]}"; it cannot be determined.'))
        for run in runs:
            _attempt(findings, lambda s=place.sensor, run=run: check_sensor(model, *s, run.observed))


def _foresee(findings: list[Finding], model: Model, runs: list[Recording], experiment: Experiment) -> None:
    """What the data will not determine; a forecast that fails is no fault of the experiment."""
    try:
        found = experiment.method.foresee(model, runs, experiment.estimate())
    except CalibodyError as error:
        findings.append(Finding(WARNING, f"What can be determined could not be foreseen: {error}"))
        return
    if found.sentences:
        findings += [Finding(WARNING, f"At the initial values: {sentence}") for sentence in found.sentences]
    else:
        findings.append(Finding(NOTE, "At the initial values all unknowns show in the data."))
