"""A motion-capture trial: markers called as sites of the model, and force plates in the same file or in another.

markers      columns NAME.x, NAME.y, NAME.z of sites of the model
plates       columns of one stem for force, point and moment: OpenSim's `1_ground_force_vx, _px, 1_ground_torque_x`, C3D's `plate.1.force.x, .point.x, .moment.x`
on a body    the one whose markers are nearest to where the force acts while it does
moments      unknown, of a size that goes with the body's mass
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from calibody.errors import CalibodyError
from calibody.estimate.noise.unknown_drives import carrying
from calibody.experiment.guess.columns import LIKELY, SURE, UNSURE
from calibody.experiment.guess.numbers import Guess, clock
from calibody.experiment.guess.unknowns import rounded
from calibody.experiment.spec import Experiment, RunSpec
from calibody.model import Model
from calibody.model.elements import WORLD
from calibody.recording.plate import AXES
from calibody.recording.plates import ORIGIN, POINT, STAR, PlateSpec
from calibody.recording.readers import ObserveSpec
from calibody.recording.tables import Table
from calibody.recording.unknown import EVERY, UnknownDrive

FEWEST = 3
"""Markers from which a file is a trial."""
MARKER = 0.02
"""sd that markers are given [m]: skin moves them by a centimetre, alike for several frames."""
PLATE, CENTRE, TURN = 20.0, 0.01, 2.0
"""What plates may be off by [N, m, N m]."""
MEMORY, PER_MASS = 0.1, 1.0
"""Of unknown moments [s], and their sd per mass [N m/kg]: half of what running takes at most."""
LOADED = 0.1
"""Share of its largest force from which a plate is taken to carry."""
FORCES = (
    (re.compile(r"(?P<stem>.*ground_force)_vx"), "{stem}_v*", "{stem}_p*", lambda stem: stem.replace("ground_force", "ground_torque") + "_*", POINT),
    (re.compile(r"(?P<stem>plate\.\d+)\.force\.x"), "{stem}.force.*", "{stem}.point.*", lambda stem: f"{stem}.moment.*", ORIGIN),
)
"""The column of a force's first component; names of force, point and moment; what the moment is about."""


def markers(model: Model, table: Table) -> list[str]:
    """The sites of the model that the table has; empty where it is no trial: of a mechanism that hangs on nothing."""
    if not carrying(model):
        return []
    found = [s.name for s in model.sites if s.body != WORLD and all(f"{s.name}.{c}" in table.columns and _seen(table, f"{s.name}.{c}") for c in AXES)]
    return found if len(found) >= FEWEST else []


def _seen(table: Table, column: str) -> bool:
    return bool(np.isfinite(table.numbers(column, "a marker")).any())


def experiment(model: Model, model_file: str, tables: Mapping[str, Table], out: Path) -> tuple[Experiment, list[Guess], dict[str, dict[str, str]]]:
    """Of files by their name in the experiment: one with markers, perhaps another with plates."""
    [(file, table)] = [(f, t) for f, t in tables.items() if markers(model, t)][:1]
    names = markers(model, table)
    time, unit, said = clock(table)
    plates = [p for name, t in tables.items() for p in _plates(model, table, names, time, None if name == file else name, t)]
    mass = sum(b.mass for b in model.bodies)
    unknown = UnknownDrive(EVERY, float(rounded(PER_MASS * mass)), MEMORY)
    observe = {f"site.{n}.position": ObserveSpec(columns=tuple(f"{n}.{c}" for c in AXES), sd=MARKER) for n in names}
    run = RunSpec(data=file, time=time, time_unit=unit, observe=observe, unknown=(unknown,), plates=tuple(p for p, _ in plates))
    guesses = [
        said,
        Guess("markers", f"{len(names)} sites", f"columns have their names; sd = {MARKER} for skin that moves", LIKELY),
        *(g for _, g in plates),
        Guess("moments", f"sd = {unknown.sd} N m, alike for {MEMORY} s", "nobody measured them; about half of the largest in running", UNSURE),
    ]
    if not plates:
        guesses.append(Guess("plates", "none", "no file has columns of forces: give it too, or state plates in the run", UNSURE))
    guesses.append(Guess("unknowns", "no", "motion, moments and what plates are off by are what is found", SURE))
    used = {c for spec in observe.values() for c in spec.columns or ()} | {time}
    left = sorted({c.rsplit(".", 1)[0] for c in table.columns if c not in used and c[-2:] in (".x", ".y", ".z") and not c.startswith("plate.")})
    unused = {run.label: {name: "the model has no site of this name" for name in left}}
    return Experiment(model_file, (run,), folder=out.parent, source=out.name), guesses, unused


def _plates(model: Model, seen: Table, names: Sequence[str], time: str, file: str | None, table: Table) -> Iterator[tuple[PlateSpec, Guess]]:
    for column in table.columns:
        for pattern, force, point, moment, about in FORCES:
            if (match := pattern.fullmatch(column)) is None:
                continue
            stem = match["stem"]
            words = [force.format(stem=stem), point.format(stem=stem), moment(stem)]
            if not all(word.replace(STAR, c) in table.columns for word in words[:2] for c in AXES):
                continue
            turning = words[2] if all(words[2].replace(STAR, c) in table.columns for c in AXES) else None
            own = clock(table)[0]
            body = _under(model, seen, names, time, table, own, words)
            if body is not None:
                spec = PlateSpec(
                    body, words[0], words[1], turning, about if turning else POINT, file, None if own == time else own, PLATE, CENTRE, TURN if turning else None
                )
                yield spec, Guess(f"plate {stem}", f"on {body}", "its markers are nearest to where the force acts", LIKELY)


def _under(model: Model, seen: Table, names: Sequence[str], time: str, table: Table, clock: str, words: Sequence[str]) -> str | None:
    """The body whose markers are nearest to the place of a force; None if there is no force."""
    force, point = (np.array([table.numbers(word.replace(STAR, c), "a force plate") for c in AXES]) for word in words[:2])
    at, instants = table.numbers(clock, "the clock"), seen.numbers(time, "the clock")
    size = np.linalg.norm(np.nan_to_num(force), axis=0)
    carries = (size > LOADED * size.max(initial=0.0)) & (at >= np.nanmin(instants)) & (at <= np.nanmax(instants))
    if not size.any() or not carries.any():
        return None
    bodies: dict[str, list[float]] = {}
    for name in names:
        place = np.array([np.interp(at[carries], instants, seen.numbers(f"{name}.{c}", "a marker")) for c in AXES])
        away = np.linalg.norm(place - point[:, carries], axis=0)
        if np.isfinite(away).any():
            bodies.setdefault(model.tables["site"][name].body, []).append(float(np.nanmedian(away)))
    if not bodies:
        raise CalibodyError("The markers are not seen while the plates carry; give recordings of one trial.")
    return min(bodies, key=lambda b: float(np.mean(bodies[b])))
