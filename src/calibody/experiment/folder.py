"""The run folder: all that a fit found, in files that other programs read.

    result.json       parameters, error bars, what is not determined, how well it fits (docs/result.schema.json)
    channels.parquet  run, channel, time, measured, fitted, predicted, residual, weight (and relative_sd, where samples have one each): one row per sample
    states.parquet    run, time, coordinates and rates of all joints: one row per node
    forces.parquet    run, time, forces of drives and loops, reactions of all joints
    validation.parquet  run, channel, time, measured, predicted, noise, band, foreseen: samples that were left out of a fit and predicted by it (band: sd of their difference; foreseen: judged)
    torques.parquet   run, joint, time, measured, model: what drove each joint, and what the model needs for the measured motion
    bars.parquet      run, channel, time, value, sd: error bars of states and forces at some instants (empty sd: not determined)
    scene.json        what the replay draws
    MODEL             the calibrated model in its own format
    experiment.toml   what was fitted, if it came from a file

Every file is moved into its place as a whole, `result.json` last. While a fit is running, `result.json` holds the best point so far and says
`"finished": false`; a process that is killed leaves that.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody import formats, overwriting
from calibody.errors import CalibodyError
from calibody.estimate.noise.unknown_drives import carrying, unknown_joints
from calibody.estimate.reported import initial_theta, theta_of, values_of
from calibody.experiment import atomic
from calibody.experiment.additions import in_file
from calibody.experiment.possible import possible
from calibody.experiment.scene import scene
from calibody.experiment.spec import Experiment
from calibody.experiment.torques import Torque, torques
from calibody.mechanics import channels
from calibody.model import Model
from calibody.model.elements import HINGE, SLIDE

if TYPE_CHECKING:
    import polars

    from calibody.estimate.predict import Prediction
    from calibody.estimate.result import ChannelFit, Estimate, Result
    from calibody.estimate.unknowns import Entry
    from calibody.estimate.validation import Validation
    from calibody.recording.recording import Recording
    from calibody.solve.gauss_newton import Iteration
    from calibody.steppers.motion import Motion

SCHEMA = "calibody-result-1"
RESULT, SCENE, REPORT, EXPERIMENT = "result.json", "scene.json", "report.html", "experiment.toml"
CHANNELS, STATES, FORCES, BARS = "channels.parquet", "states.parquet", "forces.parquet", "bars.parquet"
VALIDATION, TORQUES = "validation.parquet", "torques.parquet"
MOST_CORRELATED = 300
"""Parameters up to which `result.json` has the correlations of all of them (a megabyte)."""
DETAILED = 50
"""Runs that are predicted freely and have error bars of motion and forces, the first ones: half a second each, which a thousand runs have not."""
PACKAGES = ("calibody", "jax", "mujoco", "numpy", "polars", "qdldl", "scipy")


def write(
    result: Result,
    folder: str | Path,
    experiment: Experiment | None = None,
    command: str | None = None,
    seconds: Mapping[str, float] | None = None,
    truth: Mapping[str, float] | None = None,
    validate: bool | None = None,
) -> Path:
    """Write the folder of a finished fit. `seconds` adds to those of the result; `truth` is what a demo knows; `validate`: whether runs are left out and predicted (None: where that takes some seconds at most)."""
    folder = Path(folder)
    refuse_overwriting(folder, result.model, experiment)
    predictions, notes = _predictions(result)
    validation = _validation(result, validate)
    atomic.write_parquet(folder / CHANNELS, _channels(result, predictions))
    atomic.write_parquet(folder / STATES, _nodes(result, _is_state))
    atomic.write_parquet(folder / FORCES, _with_powers(result, _nodes(result, is_force)))
    atomic.write_parquet(folder / BARS, _bars(result))
    atomic.write_parquet(folder / VALIDATION, _unseen(validation))
    compared = [t for r in range(min(len(result.recordings), DETAILED)) for t in torques(result, r)] if result.converged and result.problem.dynamic else []
    atomic.write_parquet(folder / TORQUES, _torques(compared))
    atomic.write_json(folder / SCENE, scene(result, predictions))
    model, model_notes = _model(result, folder)
    if experiment is not None:
        _experiment(experiment, folder)
    document = _document(result, predictions, command, {**result.seconds, **(seconds or {})})
    document["model"] = {"name": result.model.name, "file": model} | ({"engine": "mujoco"} if result.model.natives else {})
    document["experiment"] = None if experiment is None else experiment.source
    document["validation"] = None if validation is None else _validated(validation)
    document["held_out"] = {}
    document["torques"] = _compared(compared)
    document["notes"] += [*notes, *model_notes]
    document["notes"] = list(dict.fromkeys(document["notes"]))
    document["truth"] = None if truth is None else dict(truth)
    atomic.write_json(folder / RESULT, document)
    return folder


def refuse_overwriting(folder: Path, model: Model, experiment: Experiment | None = None) -> None:
    """A sentence if the results would take the place of the model, a recording or the experiment they are made from, or of files that no fit wrote."""
    given = formats.source_files(model)
    if experiment is not None:
        given += [experiment.folder / experiment.source, *(experiment.folder / file for run in experiment.recordings for file in run.files)]
    written = [folder / name for name in (RESULT, CHANNELS, STATES, FORCES, BARS, VALIDATION, TORQUES, SCENE, REPORT, model_name(model))]
    overwriting.refuse(written, given, "give another folder for the results")
    if (folder / RESULT).exists():
        return  # of an earlier fit
    if experiment is not None and not overwriting.same(folder / EXPERIMENT, experiment.folder / experiment.source):
        written.append(folder / EXPERIMENT)
    if (foreign := next((path for path in written if path.exists()), None)) is not None:
        raise CalibodyError(f'"{foreign}" exists and was not written by a fit ({folder} has no {RESULT}); give another folder for the results.')


def model_name(model: Model) -> str:
    """Of the calibrated model's file: that of the file it was read from."""
    return "model.xml" if model.source is None else model.source.path.name


class Progress:
    """Keeps the best point so far in the folder of a fit that is running."""

    def __init__(
        self, folder: Path, unknowns: Sequence[Entry], recordings: Sequence[Recording], experiment: Experiment | None = None, command: str | None = None
    ) -> None:
        self.folder, self.unknowns, self.recordings, self.experiment, self.command = folder, unknowns, recordings, experiment, command
        self.history: list[Iteration] = []

    def begin(self, start: Mapping[str, float]) -> None:
        self._write(theta_of(self.unknowns, start))

    def __call__(self, iteration: Iteration) -> None:
        self.history.append(iteration)
        self._write(iteration.theta)

    def _write(self, theta: np.ndarray) -> None:
        n = len(self.history)
        where = f"unfinished: stopped after iteration {n}; go on with calibody fit --resume." if n else "unfinished: stopped before the first iteration."
        initial = values_of(self.unknowns, initial_theta(self.unknowns))
        parameters = {
            e.name: {"value": float(x), "sd": None, "sd_naive": None, "unit": e.unit, "initial": float(x0), "lower": _bound(e.lower), "upper": _bound(e.upper)}
            | {"at_bound": not e.lower < float(x) < e.upper, "discretisation_error": None, "resolved": None, "limit": None}
            for e, x, x0 in zip(self.unknowns, values_of(self.unknowns, theta), initial, strict=True)
        }
        document = {
            "schema": SCHEMA, "finished": False, "status": where, "parameters": parameters, "determined": [], "unresolved": [], "correlation": None,
            "fit": {}, "predictions": {}, "validation": None, "held_out": {}, "torques": {}, "noise": {"given": None, "measured": {}, "process": {}}, "force_tests": {}, "chi2": None, "dof": None, "runs_agree": None,
            "outliers": [], "lacks": [], "rests_on": [], "mistakes": [], "events": [], "iterations": n, "history": _history(self.history, self.unknowns), "seconds": {}, "mesh": None, "notes": [], "versions": versions(),
            "data_sha256": {r.name: r.sha256 for r in self.recordings}, "command": self.command,
            "model": None, "experiment": None if self.experiment is None else self.experiment.source, "truth": None,
        }  # fmt: skip
        atomic.write_json(self.folder / RESULT, document)


# -- result.json -------------------------------------------------------------------------------------------------------------------------


def _document(result: Result, predictions: Mapping[str, Prediction], command: str | None, seconds: Mapping[str, float]) -> dict[str, Any]:
    agree = result.runs_agree
    return {
        "schema": SCHEMA,
        "finished": True,
        "status": result.status,
        "parameters": {name: _estimate(e) for name, e in result.parameters.items()},
        "determined": [{"expression": d.expression, "value": d.value, "sd": _number(d.sd), "terms": [list(t) for t in d.terms]} for d in result.determined],
        "unresolved": list(result.unresolved),
        "correlation": _correlation(result),
        "fit": _fit(result),
        "predictions": {
            name: {
                "incomplete": p.incomplete,
                "channels": {c: {"rms": _number(x.rms), "rms_of_signal": _spread(x.measured)} for c, x in p.channels.items()},
                "until": p.until,
            }
            for name, p in predictions.items()
        },
        "noise": {
            "given": result.noise_given,
            "measured": _noise(result.fit),
            "process": dict(result.process_noise),
            "slow": {joint: asdict(f) for joint, f in result.slow_forces.items()},
            "together": [{"joints": list(t.joints), "correlation": t.correlation} for t in result.forces_together],
            "unknown": _asked(result),
        },
        "deviations": _deviations(result),
        "root": _root(result),
        "force_tests": {joint: asdict(test) for joint, test in result.force_tests.items()},
        "without_forces": None if result.without_forces is None else asdict(result.without_forces),
        "chi2": _number(result.chi2),
        "dof": result.dof,
        "runs_agree": None if agree is None else {"agree": agree.agree, "chi2": agree.chi2, "dof": agree.dof, "probability": agree.probability},
        "outliers": [{"run": o.run, "channel": o.channel, "time": o.time, "deviation": o.deviation} for o in result.outliers],
        "lacks": [asdict(s) for s in result.lacks],
        "rests_on": [asdict(r) for r in result.rests_on],
        "mistakes": [asdict(m) for m in result.mistakes],
        "events": [asdict(e) for e in result.events],
        "iterations": result.iterations,
        "history": _history(result.history, result.problem.entries),
        "seconds": {"import": None, "compile": None, "solve": result.seconds.get("total"), "total": result.seconds.get("total")} | dict(seconds),
        "mesh": {"h": result.mesh.h, "refinements": result.mesh.refinements},
        "notes": list(result.notes),
        "versions": versions(),
        "data_sha256": {r.name: r.sha256 for r in result.recordings},
        "command": command,
    }


def _asked(result: Result) -> list[str]:
    """Joints whose drive was said to be unknown, as far as it was found."""
    return sorted(set(result.slow_forces) & set(unknown_joints(result.problem.model, result.recordings)))


def _deviations(result: Result) -> dict[str, Any]:
    """How far plates and noisy drives were off, by run, in units of their stated sd."""
    runs = {r: recording for r, recording in enumerate(result.recordings) if recording.deviations and result.problem.bars}
    return {
        recording.name: {name: {"rms": _rms(z), "largest": float(np.abs(z).max())} for name, z in result.deviations(r).items()} for r, recording in runs.items()
    }


def _root(result: Result) -> dict[str, Any]:
    """What pushes a mechanism that hangs on nothing beside what was measured, rms by run and joint [N, N m]; where that was unknown."""
    residual = sorted(carrying(result.model) & set(result.slow_forces))
    return {recording.name: {j: _rms(result.motion(r)[f"joint.{j}.force"]) for j in residual} for r, recording in enumerate(result.recordings) if residual}


def _number(x: float | None) -> float | None:
    return None if x is None or not math.isfinite(x) else float(x)


_bound = _number


def _estimate(e: Estimate) -> dict[str, Any]:
    return {
        "value": e.value, "sd": _number(e.sd), "sd_naive": _number(e.sd_naive), "unit": e.unit, "initial": e.initial, "lower": _bound(e.lower),
        "upper": _bound(e.upper), "at_bound": e.at_bound, "discretisation_error": _number(e.discretisation_error), "resolved": e.resolved, "limit": e.limit,
        "missing": _number(e.missing),
    }  # fmt: skip


def _correlation(result: Result) -> dict[str, Any]:
    """Between resolved parameters only; the others have no error bar to correlate. Of very many parameters, those of all runs."""
    names, runs = list(result.parameters), [e.run for e in result.problem.entries]
    kept = [k for k in range(len(names)) if len(names) <= MOST_CORRELATED or runs[k] is None]
    has = [e.sd is not None for e in result.parameters.values()]
    matrix = [[_number(1.0 if i == j else float(np.clip(result.correlation[i, j], -1.0, 1.0))) if has[i] and has[j] else None for j in kept] for i in kept]
    return {"parameters": [names[k] for k in kept], "matrix": matrix}


def _fit(result: Result) -> dict[str, Any]:
    """Per channel, over all runs; whiteness is that of the run where it is least."""
    out: dict[str, Any] = {}
    for name in dict.fromkeys(c.channel for c in result.fit):
        runs = [c for c in result.fit if c.channel == name]
        residual, scaled = np.concatenate([c.residual for c in runs]), np.concatenate([c.deviation for c in runs])
        each = {
            c.run: {"rms": c.rms, "rms_over_sd": _number(c.rms_over_sd), "sd": c.sd, "whiteness": _number(c.whiteness), "samples": len(c.times)} for c in runs
        }
        out[name] = {
            "rms": _rms(residual),
            "rms_over_sd": _number(_rms(scaled)),
            "whiteness": min((w for r in each.values() if (w := r["whiteness"]) is not None), default=None),
            "unit": channels.resolve(result.model, name).unit,
            "samples": len(residual),
            "runs": each,
        }
    return out


def _noise(fits: Sequence[ChannelFit]) -> dict[str, Any]:
    out: dict[str, dict[str, float]] = {}
    for c in fits:
        out.setdefault(c.channel, {})[c.run] = c.sd
    return out


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))


def _spread(x: np.ndarray) -> float:
    return _rms(x - x.mean())


def _history(history: Sequence[Iteration], unknowns: Sequence[Entry]) -> list[dict[str, Any]]:
    return [
        {"iteration": k, "cost": _number(i.cost), "violation": _number(i.violation), "step": i.length, "change": _number(i.change), "damping": i.damping}
        | {"theta": [float(x) for x in values_of(unknowns, i.theta)]}
        for k, i in enumerate(history, 1)
    ]


def versions() -> dict[str, str]:
    out = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in PACKAGES:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            from calibody import __version__

            out[name] = __version__ if name == "calibody" else "unknown"
    return out


# -- tables ------------------------------------------------------------------------------------------------------------------------------


def _predictions(result: Result) -> tuple[dict[str, Prediction], list[str]]:
    """Free predictions of all runs that can be simulated, and a sentence for the others."""
    out, notes, count = {}, [], len(result.recordings)
    if not result.problem.dynamic:
        return out, notes
    if count > DETAILED:
        notes.append(
            f"Free predictions and error bars of motion and forces are those of the first {DETAILED} of {count} runs; result.predict and result.sd give the others."
        )
    for recording in result.recordings[:DETAILED]:
        try:
            out[recording.name] = result.predict(recording)
        except CalibodyError as error:
            notes.append(f'The run "{recording.name}" could not be predicted freely: {error}')
    return out, notes


def _validation(result: Result, wanted: bool | None) -> Validation | None:
    """None where it was not asked for, and, without being asked, where it takes long or there is nothing to validate."""
    from calibody.estimate.validate import cheap, validate

    if wanted is False or not result.converged or not result.problem.bars:
        return None
    return validate(result) if wanted or cheap(result) else None


def _validated(found: Validation) -> dict[str, Any]:
    by_run = {"rms_over_sd": found.runs, "rms_over_band": found.in_bands, "inside": found.inside_by_run, "seconds": found.seconds}
    runs: dict[str, Any] = {run: {name: _number(values[run]) for name, values in by_run.items()} | {"channels": {}} for run in found.runs}
    for c in found.channels:
        numbers = {"rms": c.rms, "rms_over_sd": c.rms_over_sd, "rms_over_band": c.rms_over_band, "inside": c.inside}
        runs[c.run]["channels"][c.channel] = {**{name: _number(x) for name, x in numbers.items()}, "samples": int(c.foreseen.sum())}
    return {"halves": found.halves, "inside": _number(found.inside), "runs": runs, "failed": dict(found.failed)}


def _unseen(found: Validation | None) -> polars.DataFrame:
    """One row per sample that was left out; no band where it follows what the data do not determine."""
    import polars as pl

    numbers = ("time", "measured", "predicted", "noise", "band")
    frames = [pl.DataFrame(schema={"run": pl.String, "channel": pl.String} | dict.fromkeys(numbers, pl.Float64) | {"foreseen": pl.Boolean})]
    for c in () if found is None else found.channels:
        columns = dict(zip(numbers, (c.times, c.measured, c.predicted, c.noise, c.band), strict=True))
        frame = pl.DataFrame({"run": [c.run] * len(c.times), "channel": [c.channel] * len(c.times), **columns, "foreseen": c.foreseen})
        frames.append(frame.with_columns(pl.when(pl.col("band").is_finite()).then(pl.col("band")).alias("band")))
    return pl.concat(frames)


def _torques(compared: Sequence[Torque]) -> polars.DataFrame:
    import polars as pl

    numbers = ("time", "measured", "model")
    frames = [pl.DataFrame(schema={"run": pl.String, "joint": pl.String} | dict.fromkeys(numbers, pl.Float64))]
    for t in compared:
        columns = dict(zip(numbers, (t.times, t.measured, t.model), strict=True))
        frames.append(pl.DataFrame({"run": [t.run] * len(t.times), "joint": [t.joint] * len(t.times), **columns}))
    return pl.concat(frames)


def _compared(compared: Sequence[Torque]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for t in compared:
        out.setdefault(t.run, {})[t.joint] = {"rms": t.rms, "relative_error": _number(t.relative), "unit": t.unit}
    return out


def _channels(result: Result, predictions: Mapping[str, Prediction]) -> polars.DataFrame:
    import polars as pl

    frames = []
    for c in result.fit:
        predicted = np.full(len(c.times), np.nan)
        free = predictions[c.run].channels.get(c.channel) if c.run in predictions else None
        if free is not None and len(free.times):
            k = np.clip(np.searchsorted(free.times, c.times - 1e-9), 0, len(free.times) - 1)
            same = np.abs(free.times[k] - c.times) < 1e-9
            predicted[same] = free.predicted[k[same]]
            if (until := predictions[c.run].until) is not None:
                predicted[c.times > until] = np.nan
        columns = {"time": c.times, "measured": c.measured, "fitted": c.fitted, "predicted": predicted, "residual": c.residual, "weight": c.weight}
        if any(np.ndim(x.relative_sd) for x in result.fit):
            columns["relative_sd"] = np.broadcast_to(c.relative_sd, c.times.shape)
        frames.append(pl.DataFrame({"run": [c.run] * len(c.times), "channel": [c.channel] * len(c.times), **columns}))
    return pl.concat(frames)


def _is_state(path: str) -> bool:
    return path.startswith("joint.") and path.rsplit(".", 1)[1] in ("angle", "position", "orientation", "rate")


def is_force(path: str) -> bool:
    return path.startswith(("joint.", "loop.", "actuator.")) and path.endswith((".force", ".torque"))


def _nodes(result: Result, wanted: Any) -> polars.DataFrame:
    """One row per node of every run."""
    import polars as pl

    frames = []
    for r, recording in enumerate(result.recordings):
        motion = result.motion(r)
        frame = motion.to_frame([p for p in motion.channels if wanted(p)])
        frames.append(frame.insert_column(0, pl.Series("run", [recording.name] * len(frame))))
    return pl.concat(frames)


def _powered(result: Result) -> list[str]:
    """Joints whose drive was found: their powers are an answer too."""
    return [j.name for j in result.model.joints if j.kind in (HINGE, SLIDE) and j.name in result.slow_forces]


def _power(motion: Motion, joint: str) -> np.ndarray:
    return motion[f"joint.{joint}.force"] * motion[f"joint.{joint}.rate"]


def _with_powers(result: Result, forces: polars.DataFrame) -> polars.DataFrame:
    import polars as pl

    motions = [result.motion(r) for r in range(len(result.recordings))]
    return forces.with_columns(pl.Series(f"joint.{j}.power", np.concatenate([_power(m, j) for m in motions])) for j in _powered(result))


def _bars(result: Result) -> polars.DataFrame:
    """Error bars of states and forces at some instants of every run; none for a fit that did not converge, or by another method than transcription."""
    import polars as pl

    from calibody.estimate.channels import channel_sds, instants

    frames = [pl.DataFrame(schema={"run": pl.String, "channel": pl.String, "time": pl.Float64, "value": pl.Float64, "sd": pl.Float64})]
    for r, recording in enumerate(result.recordings[:DETAILED] if result.converged and result.problem.bars else ()):
        motion, times = result.motion(r), instants(result, r)
        paths = [p for p in motion.channels if (_is_state(p) or is_force(p)) and not p.endswith(".orientation")]
        at = np.round((times - motion.time[0]) / motion.h).astype(int)
        names = [name for p in paths for name in channels.scalar_names(motion.model, p)]
        answers = [(name, motion[name][at], sd) for name, sd in zip(names, channel_sds(result, r, paths, times), strict=True)]
        bands = dict(_bands(result, r))
        for name, when, values, sd in [*((n, times, v, sd) for n, v, sd in answers if n not in bands), *((n, *band) for n, band in bands.items())]:
            known = pl.Series(sd, dtype=pl.Float64)
            columns = {"run": [recording.name] * len(when), "channel": [name] * len(when), "time": when, "value": values, "sd": known}
            frames.append(pl.DataFrame(columns).with_columns(pl.when(pl.col("sd").is_finite()).then(pl.col("sd")).alias("sd")))
    return pl.concat(frames)


def _bands(result: Result, r: int) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Times, values and standard deviations of forces that were found, of their powers, and of the angles or positions of their joints: the answers, at more instants than other channels."""
    from calibody.estimate.channels import driven_sds, instants

    joints = _powered(result)
    if not joints:
        return
    motion, times = result.motion(r), instants(result, r, 3 * len(joints))
    at = np.round((times - motion.time[0]) / motion.h).astype(int)
    for j, force, place, power in zip(joints, *driven_sds(result, r, joints, times), strict=True):
        where = f"joint.{j}.{'angle' if f'joint.{j}.angle' in motion.channels else 'position'}"
        yield f"joint.{j}.force", (times, motion[f"joint.{j}.force"][at], force)
        yield where, (times, motion[where][at], place)
        yield f"joint.{j}.power", (times, _power(motion, j)[at], power)


# -- model and experiment ----------------------------------------------------------------------------------------------------------------


def _model(result: Result, folder: Path) -> tuple[str | None, list[str]]:
    """The name of the calibrated model's file and what saving it changed; a format that cannot express it is a note, not a failure."""
    name = model_name(result.model)
    rubbing = (*result.model.joints, *result.model.transmissions, *result.model.paths)
    widths = {f"{x.KIND}.{x.name}.friction_rate": 0.0 for x in rubbing if x.friction_rate > 0.0}
    rigid, touched = _as_in_file(result)
    whole, moved = possible(rigid.replace(widths, check=False), {name for name, e in result.parameters.items() if e.resolved})
    model, added = in_file(whole)
    left_out = [f"The calibrated model file has no place for {' and '.join(widths)}; the friction in it is that of whoever reads it."] if widths else []
    try:
        formats.save(model, folder / name)
        return name, [*moved, *formats.save_notes(model), *added, *left_out, *touched]
    except CalibodyError as error:
        return None, [f"The calibrated model could not be saved: {error}"]


def _as_in_file(result: Result) -> tuple[Model, list[str]]:
    """The calibrated model with the numbers of contacts and limits that its file has: formats have no place for others."""
    given = result.problem.model
    numbers = {path: given[path] for path in given.parameters if path.startswith(("contact.", "limit.", "world.ground."))}
    changed = [path for path, value in numbers.items() if result.model[path] != value]
    if not changed or given.source is None:
        return result.model, []
    return result.model.replace({path: numbers[path] for path in changed}, check=False), [
        f"The calibrated model file keeps its own {', '.join(changed)}: it has no place for the estimates, which are in result.json."
    ]


def _experiment(experiment: Experiment, folder: Path) -> None:
    """What was fitted; a file of that name that it came from says it already, in the user's own words."""
    from calibody.experiment.writing import save

    if not overwriting.same(folder / EXPERIMENT, experiment.folder / experiment.source):
        save(experiment, folder / EXPERIMENT)


__all__ = ["Progress", "write"]
