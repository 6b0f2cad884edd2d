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
from calibody.recording.recording import Recording

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
        runs = [run for spec in experiment.recordings if (run := _run(findings, experiment, spec)) is not None]
        _same_data(findings, runs)
        unknowns: tuple[Entry, ...] = ()
        if model is not None:
            findings += [Finding(NOTE, note) for note in model.notes]
            for spec in experiment.recordings:
                _channels(findings, model, spec)
            unknowns = _unknowns(findings, model, experiment)
        if model is not None and not any(f.level == ERROR for f in findings):
            _attempt(findings, lambda: experiment.method.refuse(model, runs, experiment.estimate()))
        if foresight and model is not None and unknowns and not any(f.level == ERROR for f in findings):
            _foresee(findings, model, runs, experiment)
    unique = tuple(dict.fromkeys(findings))
    return Check(tuple(f for level in (ERROR, WARNING, NOTE) for f in unique if f.level == level), model, tuple(runs), unknowns)


def _attempt(findings: list[Finding], make: Callable[[], Found], where: str = "") -> Found | None:
    try:
        return make()
    except CalibodyError as error:
        findings.append(Finding(ERROR, f"{where}{error}"))
        return None


def _run(findings: list[Finding], experiment: Experiment, spec: RunSpec) -> Recording | None:
    where = f'run "{spec.label}": ' if len(experiment.recordings) > 1 else ""
    mistakes = spec.mistakes(experiment.folder)
    findings += [Finding(ERROR, f"{where}{sentence}") for sentence in mistakes]
    run = None if mistakes else _attempt(findings, lambda: spec.read(experiment.folder), where)
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


def _channels(findings: list[Finding], model: Model, spec: RunSpec) -> None:
    from calibody.estimate import observe

    for path in spec.observed:
        _attempt(findings, lambda path=path: observe.check(model, path, spec.observed))
    for path in spec.initial:
        _attempt(findings, lambda path=path: observe.start_channel(model, path))
    for channel in spec.drive:
        _attempt(findings, lambda channel=channel: channels.drivable(model, channel))
    for actuator in model.actuators:
        if not {f"actuator.{actuator.name}", f"joint.{actuator.joint}.force"} & set(spec.drive):
            findings.append(Finding(WARNING, f'The run "{spec.label}" does not drive "actuator.{actuator.name}"; its control is taken as zero.'))


def _unknowns(findings: list[Finding], model: Model, experiment: Experiment) -> tuple[Entry, ...]:
    if not experiment.unknowns:
        sentence = 'Nothing is estimated but motion and forces; for more give an [[estimate]] with parameter = "body.NAME.mass" or another path.'
        findings.append(Finding(WARNING, sentence))
        return ()
    names = [spec.label for spec in experiment.recordings]
    before = len(findings)
    for name, unknown in experiment.unknowns.items():
        _attempt(findings, lambda one={name: unknown}: entries(model, one, names))
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
