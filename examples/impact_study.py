"""Drops of a square and an ellipse with nothing known of their impacts, at several noise levels: the study of [fazeli2017], Table 1, on fits of this package.

    python examples/impact_study.py table [FILE] [DROPS]       m/I of 100 drops per shape and noise level, friction and restitution known
    python examples/impact_study.py law [FILE] [DROPS]         m/I, friction and restitution of 40 drops of the square at 40 and 20 dB

A square of 1 m and an ellipse of 2 m x 1 m fall on a floor (restitution 0.6, friction 0.7) with random poses and velocities. Seen are positions, the angle and their rates at 250 Hz up to just before
the fourth impact, each channel with noise of so many decibels below its power about zero. Unknown are the motion, when and where the body strikes, and I, which begins at twice the truth and is looked for
between 1/16 and 8 times it; in the second study friction and restitution as well. What a fit says of itself counts: whether its 95 % interval holds the truth, and whether it warns.

FILE keeps what is done, one drop per line: a study that was stopped goes on from there.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

import calibody as cb
from calibody.errors import CalibodyError
from calibody.steppers.events import Event

RATE, FINER = 250.0, 4
"""Samples per second, and steps of a simulated drop per sample."""
INERTIA, FRICTION, RESTITUTION = "body.block.inertia.yy", "contact.floor.friction", "contact.floor.restitution"
PAPER = {"square": {40: 0.3, 30: 2.1, 20: 11.0, 10: 58.0}, "ellipse": {40: 0.3, 30: 2.3, 20: 11.7, 10: 80.0}}
"""Mean errors of m/I there, in per cent."""
TRUSTED = ("cannot be trusted", "may cover less")
"""What notes say of a fit whose intervals are not to be trusted."""


def square_model(shape: str = "square", friction: float = 0.7, restitution: float = 0.6) -> cb.Model:
    """A square of 1 m, or an ellipse of 2 m x 1 m, of 1 kg, in the plane of x and z."""
    if shape == "square":
        inertia, hull = 1.0 / 6.0, cb.Geometry("hull", "block", "box", (0.5, 0.5, 0.5))
    else:
        inertia, hull = (1.0 + 0.25) / 4.0, cb.Geometry("hull", "block", "ellipsoid", (1.0, 0.5, 0.5))
    joints = [cb.Joint("x", "block", "slide", axis=(1, 0, 0)), cb.Joint("z", "block", "slide", axis=(0, 0, 1)), cb.Joint("turn", "block", axis=(0, 1, 0))]
    contact = cb.Contact("floor", "hull", friction=friction, restitution=restitution)
    return cb.Model("drop", [cb.Body("block", mass=1.0, inertia=(inertia,) * 3)], joints, geometries=[hull], contacts=[contact])


def drop(model: cb.Model, seed: int, decibel: float = 40.0, rate: float = RATE, most: int = 3) -> tuple[cb.Recording, list[Event]]:
    """A random drop up to its impact number `most` + 1, positions and rates with noise of so many decibels below their power; and its impacts."""
    random = np.random.default_rng(1000 * seed + 7)
    while True:
        place = random.uniform([-0.5, 1.5, 0.0], [0.5, 2.3, 2 * np.pi])
        rates = random.uniform([-2, -1, -4], [2, 1, 4])
        names = ("x", "z", "turn")
        initial = {f"joint.{j}.{'angle' if j == 'turn' else 'position'}": float(v) for j, v in zip(names, place, strict=True)}
        motion = cb.simulate(model, 2.0, h=1.0 / rate / FINER, initial=initial | {f"joint.{j}.rate": float(v) for j, v in zip(names, rates, strict=True)})
        end = 2.0 if len(motion.events) <= most else motion.events[most].time - 2.5 / rate  # rates of a motion are differences: none across the next impact
        n = int(end * rate) + 1
        times = motion.time[::FINER]
        if motion.events and n - int(np.searchsorted(times, motion.events[min(most, len(motion.events)) - 1].time)) >= 3:
            break
    t, observed = times[:n], []
    for j in names:
        for channel in (f"joint.{j}.{'angle' if j == 'turn' else 'position'}", f"joint.{j}.rate"):
            y = motion[channel][::FINER][:n]
            sd = float(np.sqrt(np.mean(y**2))) / 10 ** (decibel / 20)
            observed.append(cb.Observation(channel, t, y + sd * random.standard_normal(n), sd))
    return cb.Recording(f"drop{seed}", tuple(observed)), [e for e in motion.events if e.time < t[-1]]


def unknowns(model: cb.Model, law: bool) -> dict[str, cb.Unknown]:
    """Where a fit begins: the inertia at twice the truth (I/m at half the truth of m/I), friction and restitution, where they are asked for, away from it by a third."""
    truth = float(model[INERTIA])
    out = {INERTIA: cb.Unknown(2.0 * truth, lower=truth / 8.0, upper=16.0 * truth)}
    return out | ({FRICTION: cb.Unknown(0.45, lower=0.0), RESTITUTION: cb.Unknown(0.4)} if law else {})


def tried(shape: str, decibel: float, seed: int, law: bool = False) -> dict:
    """One drop and its fit, as numbers: relative errors and standard deviations, what it warns of, and what it cost."""
    model = square_model(shape)
    recording, events = drop(model, seed, decibel)
    began, asked = time.process_time(), unknowns(model, law)
    out = {"shape": shape, "decibel": decibel, "seed": seed, "law": law}
    try:
        result = cb.fit(model, recording, asked)
    except CalibodyError as error:
        return out | {"status": str(error), "seconds": time.process_time() - began}
    found = result.parameters
    right = len(result.events) == len(events) and all(abs(a.time - b.time) < 0.02 for a, b in zip(result.events, events, strict=False))
    return out | {
        "status": result.status,
        "seconds": time.process_time() - began,
        "error": {p: found[p].value / float(model[p]) - 1.0 for p in asked},
        "sd": {p: None if (sd := found[p].sd) is None else sd / float(model[p]) for p in asked},
        "chi2": result.chi2 / max(result.dof, 1),
        "times": [[round(e.time, 4) for e in x] for x in (result.events, events)],
        "right": right,
        "warnings": [note for note in result.notes if any(word in note for word in TRUSTED)],
    }


def studied(wanted: list[tuple[str, float, int, bool]], file: Path | None) -> Iterator[dict]:
    """All drops that are wanted, those in the file as they are there."""
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file is not None and file.exists() else []
    known = {(d["shape"], d["decibel"], d["seed"], d["law"]): d for d in lines}
    for key in wanted:
        if key not in known:
            known[key] = tried(*key)
            if file is not None:
                with file.open("a") as out:
                    out.write(json.dumps(known[key]) + "\n")
        yield known[key]


def covers(d: Mapping, path: str) -> bool:
    return abs(d["error"][path]) <= 1.96 * d["sd"][path]


def row(done: list[dict], path: str) -> str:
    """Of all drops of a shape and a noise level: errors, of m/I for an inertia, as there."""
    answers = [d for d in done if d["status"] == "converged" and d["sd"][path] is not None]
    if not answers:
        return f"no answer of {len(done)}"
    error = 100.0 * np.array([1.0 / (1.0 + d["error"][path]) - 1.0 if path == INERTIA else d["error"][path] for d in answers])
    missed = [d for d in answers if not covers(d, path)]
    trusted = 100.0 * np.array([e for e, d in zip((d["error"][path] for d in answers), answers, strict=True) if not d["warnings"]])
    return (
        f"mean error {error.mean():+.2f} % (sd {error.std():.2f}, median {np.median(error):+.2f}), 95 % intervals hold {100 * (1 - len(missed) / len(answers)):.0f} %, sequence right "
        f"{100 * np.mean([d['right'] for d in answers]):.0f} %, warned {100 * np.mean([bool(d['warnings']) for d in answers]):.0f} %, missed without a warning "
        f"{sum(not d['warnings'] for d in missed)}, largest error without {np.abs(trusted).max() if len(trusted) else 0.0:.1f} %, answers {len(answers)} of {len(done)}, CPU s median "
        f"{np.median([d['seconds'] for d in done]):.2f} mean {np.mean([d['seconds'] for d in done]):.2f} most {max(d['seconds'] for d in done):.1f}"
    )


def main(what: str, file: Path | None, drops: int) -> None:
    cells = (
        [(shape, decibel) for shape in ("square", "ellipse") for decibel in (40.0, 30.0, 20.0, 10.0)]
        if what == "table"
        else [("square", 40.0), ("square", 20.0)]
    )
    for shape, decibel in cells:
        done = list(studied([(shape, decibel, seed, what == "law") for seed in range(drops)], file))
        for path in (INERTIA,) if what == "table" else (INERTIA, FRICTION, RESTITUTION):
            paper = f" (paper {PAPER[shape][int(decibel)]} %)" if what == "table" else f" {path}"
            print(f"{shape} {decibel:.0f} dB{paper}: {row(done, path)}", flush=True)


if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else "table"
    main(kind, Path(sys.argv[2]) if len(sys.argv) > 2 else None, int(sys.argv[3]) if len(sys.argv) > 3 else 100 if kind == "table" else 40)
