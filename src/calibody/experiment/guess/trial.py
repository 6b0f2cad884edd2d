"""A motion-capture trial: markers called as sites of the model, and force plates in the same file or in another.

markers      columns NAME.x, NAME.y, NAME.z of sites of the model
plates       columns of one stem for force, point and moment: OpenSim's `1_ground_force_vx, _px, 1_ground_torque_x`, C3D's `plate.1.force.x, .point.x, .moment.x`
on a body    the one whose markers are nearest to where the force acts while it does
moments      unknown, of a size that goes with the body's mass
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations, product
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
SKIN, ALIKE = 0.01, 0.1
"""By how much skin moves markers [m], and for how long alike [s]. Noise that is new in every frame has as much at the lowest frequencies where its sd is SKIN sqrt(2 ALIKE rate); with less, a hundred frames would be taken
for knowing a marker to a tenth of what skin moves it by, and plates that are right for wrong (a running human at 150 Hz: 20 mm, and a plate is off by 4.6 of its sd; frames on their own leave what 44 mm would)."""
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
    axes = turned(_upwards(tables.values()), model)
    plates = [p for name, t in tables.items() for p in _plates(model, table, names, time, None if name == file else name, t, axes)]
    mass = sum(b.mass for b in model.bodies)
    unknown = UnknownDrive(EVERY, float(rounded(PER_MASS * mass)), MEMORY)
    sd = _noise(table, time)
    observe = {f"site.{n}.position": ObserveSpec(columns=_named(f"{n}.{STAR}", axes), sd=sd) for n in names}
    run = RunSpec(data=file, time=time, time_unit=unit, observe=observe, unknown=(unknown,), plates=tuple(p for p, _ in plates))
    guesses = [
        said,
        Guess(
            "markers",
            f"{len(names)} sites",
            f"columns have their names; sd = {sd} m, new in every frame, for skin that moves them by {1e3 * SKIN:.0f} mm alike for {ALIKE} s",
            LIKELY,
        ),
        *(g for _, g in plates),
        Guess("moments", f"sd = {unknown.sd} N m, alike for {MEMORY} s", "nobody measured them; about half of the largest in running", UNSURE),
    ]
    if axes != AS_THEY_ARE:
        guesses.append(
            Guess("axes", ", ".join(axes), "the model's x, y, z in the recording: plates push upwards there, and gravity says what is upwards here", LIKELY)
        )
    if not plates:
        guesses.append(Guess("plates", "none", "no file has columns of forces: give it too, or state plates in the run", UNSURE))
    guesses.append(Guess("unknowns", "no", "motion, moments and what plates are off by are what is found", SURE))
    used = {c.removeprefix("-") for spec in observe.values() for c in spec.columns or ()} | {time}
    left = sorted({c.rsplit(".", 1)[0] for c in table.columns if c not in used and c[-2:] in (".x", ".y", ".z") and not c.startswith("plate.")})
    unused = {run.label: {name: "the model has no site of this name" for name in left}}
    return Experiment(model_file, (run,), folder=out.parent, source=out.name), guesses, unused


def _noise(table: Table, time: str) -> float:
    """The sd that markers are given [m]."""
    rate = 1.0 / float(np.nanmedian(np.diff(table.numbers(time, "the clock"))))
    return float(f"{SKIN * np.sqrt(max(1.0, 2.0 * ALIKE * rate)):.2g}")


AS_THEY_ARE = ("x", "y", "z")


def _upwards(tables: Iterable[Table]) -> np.ndarray:
    """The impulse of all plates in the axes of the files; zero where there are none."""
    total = np.zeros(3)
    for table in tables:
        for column in table.columns:
            for pattern, force, *_ in FORCES:
                if (match := pattern.fullmatch(column)) is not None:
                    word = force.format(stem=match["stem"])
                    total += [float(np.nanmean(table.numbers(word.replace(STAR, c), "a force plate"))) for c in AXES]
    return total


def turned(push: np.ndarray, model: Model) -> tuple[str, str, str]:
    """The model's axes by those of the recording, "-y" where one points the other way: what plates push along is upwards, against gravity; of all ways to turn it the nearest to none, x staying x if it can.

    That axis is taken to point upwards: forces that point down are those on the plates, which is said elsewhere, and not a laboratory on its head."""
    gravity = np.array(model.world.gravity)
    if not gravity.any() or not np.linalg.norm(push):
        return AS_THEY_ARE
    ways = [np.eye(3)[list(order)] * np.array(signs)[:, None] for order in permutations(range(3)) for signs in product((1.0, -1.0), repeat=3)]
    proper = [R for R in ways if np.linalg.det(R) > 0.0]
    up = np.eye(3)[int(np.argmax(np.abs(push)))]
    best = max(proper, key=lambda R: (round(float(-gravity @ R @ up), 6), np.trace(R), R[0, 0]))
    x, y, z = (f"{'-' if row.min() < 0.0 else ''}{AXES[int(np.argmax(np.abs(row)))]}" for row in best)
    return x, y, z


def _named(word: str, axes: tuple[str, str, str]) -> tuple[str, str, str]:
    """Columns of a word with a star, in the order of the model's axes."""
    x, y, z = (f"{'-' if axis.startswith('-') else ''}{word.replace(STAR, axis[-1])}" for axis in axes)
    return x, y, z


def _plates(
    model: Model, seen: Table, names: Sequence[str], time: str, file: str | None, table: Table, axes: tuple[str, str, str]
) -> Iterator[tuple[PlateSpec, Guess]]:
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
                a, b, c = (None if w is None else w if axes == AS_THEY_ARE else _named(w, axes) for w in (words[0], words[1], turning))
                assert a is not None and b is not None
                spec = PlateSpec(body, a, b, c, about if turning else POINT, file, None if own == time else own, PLATE, CENTRE, TURN if turning else None)
                yield spec, Guess(f"plate {stem}", f"on {body}", "its markers are nearest to where the force acts", LIKELY)


def _under(model: Model, seen: Table, names: Sequence[str], time: str, table: Table, clock: str, words: Sequence[str]) -> str | None:
    """The body whose markers are nearest to the place of a force; None if there is no force."""
    force, point = (np.array([table.numbers(word.replace(STAR, c), "a force plate") for c in AXES]) for word in words[:2])
    beside = table.clock(clock, words[0].replace(STAR, AXES[0]), "a force plate")
    at, instants = table.numbers(beside, "the clock"), seen.numbers(time, "the clock")
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
