"""`calibody new`: read the model and the logs, guess, foresee, write."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calibody import formats
from calibody.errors import CalibodyError
from calibody.estimate.unknowns import Unknown
from calibody.experiment.additions import Payload, added
from calibody.experiment.guess import numbers, physics, trial, unknowns
from calibody.experiment.guess.columns import LIKELY, UNSURE, Columns, Match, matched
from calibody.experiment.guess.names import COMMAND, CONTROL, POSITION, RATE, TORQUE
from calibody.experiment.guess.numbers import Guess
from calibody.experiment.guess.order import ordered
from calibody.experiment.guess.unknowns import rounded
from calibody.experiment.guess.writing import document
from calibody.experiment.held import held
from calibody.experiment.spec import Experiment, RunSpec
from calibody.model import Model
from calibody.model.elements import BALL, SCALARS
from calibody.recording.readers import DriveSpec, ObserveSpec
from calibody.recording.tables import Table, open_table
from calibody.recording.units import fitting

STILL = "no column has them, and they carry little: taken to have stayed there"
LIGHT = 0.1
"""Share of the moving mass up to which joints at the end of a mechanism that no log has are taken for fingers, not for arms."""
MARKED = (*SCALARS, BALL)
"""Joints whose frictions are asked about where a log has none of them, but places in the world, which show them all."""
MODELS = (".xml", ".mjcf", ".urdf", ".osim")
NOISY = 1e-3
"""Noise of a torque over its range from which its sd is stated."""
MILLI = (300.0, 3000.0)
"""Times what the masses need: torques in this range are in thousandths."""
RADIUS = 0.05
"""m: radius of the ball that a payload's moments are taken from at first."""
HEAVIEST = 200.0
"""kg: a payload beyond this is no first value."""
FARTHEST = 0.5
"""m: a payload's centre of mass, likewise."""


@dataclass(frozen=True)
class Proposal:
    """An experiment with what was guessed for it, and its text."""

    experiment: Experiment
    guesses: tuple[Guess, ...]
    text: str


def propose(model_file: Path, logs: Sequence[Path], out: Path, payload: str | None = None) -> Proposal:
    """An experiment file at `out` for a model and recordings of it; nothing is written."""
    if not out.parent.is_dir():
        raise CalibodyError(f'There is no folder "{out.parent}" to write "{out.name}" into; make it first, or give another name to --out.')
    if model_file.suffix.lower() not in MODELS and any(log.suffix.lower() in MODELS for log in logs):
        raise CalibodyError(f'"{model_file.name}" is no model; give the model first, then the recordings: calibody new robot.urdf log.csv.')
    model = formats.load(model_file)
    tables = {_relative(path, out.parent): open_table(path) for path in logs}
    if payload is None and any(trial.markers(model, table) for table in tables.values()):
        experiment, said, unused = trial.experiment(model, _relative(model_file, out.parent), tables, out)
        return Proposal(experiment, tuple(said), document(experiment, out, {}, unused, tuple(said)))
    still = _still(model, logs)
    model = held(model, still)
    carried = None if payload is None else Payload(payload, 1.0, _free_name(model))
    runs = [_Log(model, path) for path in logs]
    found = runs[0].explained(model, carried)
    for run in runs:
        run.as_in(runs)
    payloads = () if carried is None else (_first_payload(carried, found),)
    experiment = Experiment(
        model_file=_relative(model_file, out.parent),
        recordings=tuple(run.spec(model, found, _relative(run.path, out.parent), _name(run, runs)) for run in runs),
        payloads=payloads,
        held=still,
        folder=out.parent,
        source=out.name,
    )
    seen = [m.element for m in runs[0].columns.of(POSITION, RATE).values()]
    joints = seen or [j.name for j in model.joints if j.kind in MARKED]
    whole, recordings = added(model, (), (), payloads), experiment.runs()
    given = unknowns.candidates(whole, joints, carried and carried.name, found, _pushed(model, experiment.recordings))
    kept, said = unknowns.kept(whole, recordings, given)
    experiment = dataclasses.replace(experiment, unknowns=kept)
    own = {(g.what, g.value): g for run in reversed(runs) for g in reversed(run.guesses)}  # what several logs have in common, once, as the first says it
    guesses = (*reversed(own.values()), *_of_still(model, still, seen), *_of_payload(payloads, found), *_of_friction(kept, found), said)
    comments = {
        "model": f"{len(seen)} of its joints are in the log",
        "held": STILL,
        **_payload_comment(payloads),
        **{k: v for run in runs for k, v in run.comments.items()},
    }
    labels = [spec.label for spec in experiment.recordings]
    return Proposal(experiment, guesses, document(experiment, out, comments, dict(zip(labels, (r.columns.unused for r in runs), strict=True)), guesses))


def _still(model: Model, logs: Sequence[Path]) -> dict[str, float]:
    """Joints that no log has, at the end of what the others move, with hardly any mass: fingers. They are taken to have stayed where the model draws them."""
    found = [matched(model, table := open_table(path), numbers.clock(table)[0]) for path in logs]
    seen = {m.element for columns in found for m in columns.matches}
    actuated = {a.joint for columns in found for a in map(model.tables["actuator"].get, (m.element for m in columns.matches if m.quantity == CONTROL)) if a}
    if any(m.quantity == "site" for columns in found for m in columns.matches) or not seen:
        return {}
    below = {b.name: [b.name] for b in model.bodies}
    for body in reversed(model.ordered_bodies):
        if body.parent in below:
            below[body.parent] += below[body.name]
    moving = sum(model.body(b).mass for b in {b for j in model.joints if j.name in seen for b in below[j.body]})
    ends = [
        j
        for j in model.joints
        if j.kind in SCALARS and len(model.joints_of(j.body)) == 1 and not {i.name for b in below[j.body] for i in model.joints_of(b)} & (seen | actuated)
    ]
    light = {j.name: j.reference for j in ends if sum(model.body(b).mass for b in below[j.body]) < LIGHT * moving}
    coupled = {j for lp in model.loops for j in (lp.joint1, lp.joint2) if j and j not in light}
    return {j: s for j, s in light.items() if not any({lp.joint1, lp.joint2} & coupled for lp in model.loops if j in (lp.joint1, lp.joint2))}


def _pushed(model: Model, runs: Sequence[RunSpec]) -> set[str]:
    """Joints that drives move; none where a run has no drive at all. An actuator on several joints counts for all."""
    if not all(spec.drive for spec in runs):
        return set()
    names = {channel.removeprefix("actuator.") for spec in runs for channel in spec.drive if channel.startswith("actuator.")}
    actuated = {model.tables["actuator"][name].joint for name in names}
    direct = {j.name for j in model.joints if any(f"joint.{j.name}.force" in spec.drive for spec in runs)}
    return {j.name for j in model.joints} if actuated - {j.name for j in model.joints} else direct | actuated


def _of_still(model: Model, still: Mapping[str, float], joints: Sequence[str]) -> list[Guess]:
    out = [Guess("held", ", ".join(still), STILL, UNSURE)] if still else []
    free = [j.name for j in model.joints if j.kind in SCALARS and j.name not in joints]
    if free:
        out.append(
            Guess("not in the log", ", ".join(free), "their motion is estimated with everything else; where they did not move, hold them: [model] held", UNSURE)
        )
    return out


class _Log:
    """One log: its table, its columns, and what was guessed of them."""

    def __init__(self, model: Model, path: Path) -> None:
        self.path, self.table = path, open_table(path)
        name, self.time_unit, said = numbers.clock(self.table)
        self.columns: Columns = matched(model, self.table, name)
        self.guesses: list[Guess] = [said]
        self.comments: dict[str, str] = {"time": said.why}
        self.told: physics.Explained | None = None
        self.times = self.table.seconds(name, self.time_unit, "the clock")
        self.units = _units(model, self.table, self.columns, self.times, self.guesses)
        if not self.columns.of(POSITION, RATE) and not self.columns.of("site"):
            have, joints = _some(self.table.columns, 12), _some((j.name for j in model.joints if j.kind in SCALARS), 6)
            raise CalibodyError(
                f'"{path.name}" has no column that looks like a position of a joint (it has {have}); name them after the joints ({joints}), "NAME_pos", or number them, q1, q2, ...'
            )

    def as_in(self, runs: Sequence[_Log]) -> None:
        """Columns of the same name are the same in all logs: units that one of them shows, and the order that the first one was found to have."""
        first = {m.column: m for m in runs[0].columns.matches}
        same = [first.get(m.column, m) if m.quantity in (POSITION, RATE) and m.sure == UNSURE else m for m in self.columns.matches]
        self.columns = dataclasses.replace(self.columns, matches=tuple(same))
        self.units = {c: u for run in reversed(runs) for c, u in run.units.items() if c in self.table.columns}

    def values(self, match: Match) -> np.ndarray:
        """A column in SI units."""
        return self.table.numbers(match.column, match.channel) * fitting(match.channel).get(self.units.get(match.column) or "", 1.0)

    def torques(self, model: Model) -> dict[str, np.ndarray]:
        """By joint, as far as a column or the control of a plain motor tells it."""
        out = {joint: self.values(m) for joint, m in self.columns.of(TORQUE, COMMAND).items()}
        for name, m in self.columns.of(CONTROL).items():
            motor = model.tables["actuator"][name]
            if motor.joint and not motor.stiffness:  # a damping of its own is part of what the regression calls the joint's
                out.setdefault(motor.joint, motor.gear * (motor.gain * self.values(m) + motor.bias))
        return out

    def explained(self, model: Model, carried: Payload | None) -> physics.Explained | None:
        """The torques against what the motion needs, in the order of columns that explains them best; None where the log does not have all that this takes."""
        self.columns, other = ordered(self.columns, lambda columns: min((physics.unexplained(model, m) for m in self._motions(model, columns)), default=None))
        if other:
            self.guesses.append(Guess("order of columns", "not that of the model", "the torques say so", LIKELY))
        frame = None if carried is None else dataclasses.replace(carried.body(model), mass=0.0)
        found = min((physics.explained(model, m, frame) for m in self._motions(model, self.columns)), key=lambda e: sum(e.left.values()), default=None)
        if found is not None:
            self._units_of_torques(found)
        self.told = found
        return found

    def _motions(self, model: Model, columns: Columns) -> list[physics.Motion]:
        """The motion through each low-pass; none if a joint's position is missing, or every torque."""
        order, positions, torques = physics.in_order(model), columns.of(POSITION), self.torques(model)
        if order is None or set(positions) != set(order) or not torques:
            return []
        series = {j: self.values(m) for j, m in positions.items()}
        here = np.isfinite(self.times) & np.isfinite([*series.values(), *torques.values()]).all(axis=0)
        known = order, self.times[here], {j: x[here] for j, x in series.items()}, {j: x[here] for j, x in torques.items()}
        return [physics.smoothed(*known, cutoff) for cutoff in physics.CUTOFFS]

    def _units_of_torques(self, found: physics.Explained) -> None:
        """Thousandths, where all torques are about a thousand times what the masses need."""
        matches = [m for j, m in self.columns.of(TORQUE, COMMAND).items() if m.column not in self.units and found.left[j] < 1.0]
        factors = [abs(found.factor[m.element]) for m in matches]
        if matches and MILLI[0] < float(np.median(factors)) < MILLI[1]:
            for m in matches:
                self.units[m.column] = "mN m" if "N m" in fitting(m.channel) else "mN"
            self.guesses.append(Guess("torques", "mN m", f"they are {np.median(factors):.0f} times what the model's masses need", LIKELY))

    def spec(self, model: Model, found: physics.Explained | None, data: str, name: str | None) -> RunSpec:
        """The `[[run]]`."""
        label = name or Path(data).stem
        self.comments = {f"{label} time": self.comments["time"]}
        observe = {m.channel: self._observed(m, label) for m in (*self.columns.of(POSITION, RATE).values(), *self.columns.of("site").values())}
        controls, torques = self.columns.of(CONTROL), self.columns.of(TORQUE, COMMAND)
        hold = "zero" if found is None else found.hold
        moved = {a: model.tables["actuator"][a].joint for a in controls}
        drive = {m.channel: self._driven(m, label, "zero", found, moved[a]) for a, m in controls.items()}
        for joint, m in torques.items():
            if joint not in moved.values():
                drive[m.channel] = self._driven(m, label, "zero" if m.quantity == COMMAND else hold, found, joint)
            elif m.quantity == TORQUE:
                observe[m.channel] = self._observed(m, label)
        for m in self.columns.matches:
            if m.column not in [s.column for s in (*observe.values(), *drive.values())]:
                self.columns.unused[m.column] = (
                    "a rate beside its position is usually made from it" if m.quantity == RATE else f"another column is taken for {m.channel}"
                )
        return RunSpec(data=data, time=self.columns.clock, time_unit=self.time_unit, observe=observe, drive=drive, name=name)

    def _observed(self, m: Match, label: str) -> ObserveSpec:
        sd, step = numbers.noise(self.times, self.table.numbers(m.column, m.channel))
        noise = "no noise is seen, the fit finds it" if sd is None and step is None else "counts" if sd is None else "sd from its high frequencies"
        self._say(m, label, noise)
        return ObserveSpec(column=m.column, unit=self.units.get(m.column), sd=sd and rounded(sd), resolution=step and rounded(step, 6))

    def _driven(self, m: Match, label: str, hold: str, found: physics.Explained | None, joint: str) -> DriveSpec:
        raw = self.table.numbers(m.column, m.channel)
        sd, _ = numbers.noise(self.times, raw)
        noisy = m.quantity == TORQUE and sd is not None and sd > NOISY * float(np.nanstd(raw))
        held = "held until the next sample" if hold == "zero" else "joined by straight lines"
        share = (
            ""
            if found is None or self.told is not found or joint not in found.left
            else f"; the motion explains {100 * max(0.0, 1.0 - found.left[joint]):.0f} % of it"
        )
        self._say(m, label, held + share)
        scale = -1.0 if found is not None and joint in found.factor and found.factor[joint] < -0.3 and found.left[joint] < 0.2 else 1.0
        if scale < 0.0:
            self.guesses.append(Guess(m.channel, "scale = -1", f"{m.column} is the opposite of what the motion needs", LIKELY))
        return DriveSpec(column=m.column, unit=self.units.get(m.column), hold=hold, sd=rounded(sd) if noisy and sd is not None else None, scale=scale)

    def _say(self, m: Match, label: str, more: str) -> None:
        self.comments[f"{label} {m.channel}"] = f"{m.why} ({m.sure}); {more}"
        self.guesses.append(Guess(m.channel, m.column, f"{m.why}; {more}", m.sure))


def _units(model: Model, table: Table, columns: Columns, times: np.ndarray, guesses: list[Guess]) -> dict[str, str]:
    """By column, where it is not SI: stated in the name, else from the range of all columns of its kind."""
    out: dict[str, str] = {}
    for m in columns.matches:
        unit, _ = numbers.unit_of(table, m.column, m.channel)
        if unit is not None:
            out[m.column] = unit
    for word, kind, decide in (("angles", "angle", numbers.angles), ("lengths", "position", numbers.lengths)):
        open_ = [
            m
            for m in columns.matches
            if m.column not in out and m.channel.split(".")[-1 if m.quantity == POSITION else -2] == kind and m.quantity in (POSITION, "site")
        ]
        if open_:
            unit, why, sure = decide([table.numbers(m.column, m.channel) for m in open_])
            guesses.append(Guess(word, unit, why, sure))
            out |= {m.column: unit for m in open_ if unit not in ("rad", "m")}
    positions = columns.of(POSITION)
    for joint, m in columns.of(RATE).items():
        if m.column not in out and joint in positions:
            p = positions[joint]
            coordinate = table.numbers(p.column, p.channel) * fitting(p.channel).get(out.get(p.column, ""), 1.0)
            unit, _ = numbers.rates(times, table.numbers(m.column, m.channel), coordinate, fitting(m.channel))
            if unit not in (None, "rad/s", "m/s"):
                out[m.column] = unit
    return out


def _some(names: Iterable[str], most: int) -> str:
    """So many names at most, in quotes."""
    listed = [f'"{name}"' for name in names]
    return ", ".join(listed[:most] + (["..."] if len(listed) > most else [])) or "none"


def _free_name(model: Model) -> str:
    return next(name for name in ("payload", *(f"payload{k}" for k in range(2, 1000))) if name not in model.tables["body"])


def _first_payload(carried: Payload, found: physics.Explained | None) -> Payload:
    """With what the regression says to begin with, where that is a payload at all; its moments are those of a ball."""
    if found is not None and found.payload is not None and 0.0 < found.payload[0] < HEAVIEST:
        mass, com = found.payload
        near = bool(np.abs(com).max() < FARTHEST)
        carried = dataclasses.replace(carried, mass=rounded(mass), com=tuple(rounded(x) for x in com) if near else carried.com)
    return dataclasses.replace(carried, inertia=(rounded(0.4 * carried.mass * RADIUS**2),) * 3)


def _of_payload(payloads: tuple[Payload, ...], found: physics.Explained | None) -> list[Guess]:
    if not payloads:
        return []
    why = "from the torques" if found is not None and found.payload is not None else "a number to begin with"
    return [Guess("payload", f"{payloads[0].mass:g} kg on {payloads[0].frame}", f"first values {why}, moments of a ball of {100 * RADIUS:g} cm", LIKELY)]


def _payload_comment(payloads: tuple[Payload, ...]) -> Mapping[str, str]:
    return {"payload": "a body fixed to this frame; first values"} if payloads else {}


def _of_friction(kept: Mapping[str, Unknown], found: physics.Explained | None) -> list[Guess]:
    """Why dry friction is among the unknowns, or is not: the torques show it, or the model has it."""
    dry = [path.split(".", 1)[1].rpartition(".")[0] for path in kept if path.endswith(".friction")]
    shown = [joint for joint in dry if found is not None and joint in found.friction]
    if found is None and not dry:
        return []
    if len(shown) == len(dry):
        why = "the torques change with the direction of motion" if dry else "the torques do not change with the direction of motion alone"
    else:
        why = "the model has it" + (
            f"; of {', '.join(shown)} the torques show it too" if shown else ", though the torques do not show it" if found is not None else ""
        )
    return [Guess("dry friction", f"{len(dry)} joint{'s' if len(dry) != 1 else ''}", why, LIKELY)]


def _name(run: _Log, runs: Sequence[_Log]) -> str | None:
    """Where two logs have the same name, the folder tells them apart."""
    alike = [r for r in runs if r.path.stem == run.path.stem]
    return None if len(alike) == 1 else f"{run.path.stem}-{alike.index(run) + 1}"


def _relative(path: Path, folder: Path) -> str:
    """As seen from a folder, unless the two have nothing in common but the root (or not even that)."""
    whole, base = path.absolute(), folder.absolute()
    apart = whole.parts[:2] != base.parts[:2]
    return whole.as_posix() if apart else Path(os.path.relpath(whole, base)).as_posix()


__all__ = ["Proposal", "propose"]
