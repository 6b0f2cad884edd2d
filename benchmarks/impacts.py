"""Fits with impacts over many seeds: coverage of the pendulum against a stop, and drops of a square and an ellipse at several noise levels ([fazeli2017], Table 1).

python benchmarks/impacts.py stop [SEEDS]
python benchmarks/impacts.py square|ellipse [DROPS] [DECIBEL ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import calibody as cb

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from impact_problems import STOP, drop, square_model, stop_model, stop_recording

PAPER = {"square": {40: 0.3, 30: 2.1, 20: 11.0, 10: 58.0}, "ellipse": {40: 0.3, 30: 2.3, 20: 11.7, 10: 80.0}}
"""Mean errors of m/I in per cent."""
TRUSTED = ("cannot be trusted", "may cover less")
"""What notes say of a fit that is not to be trusted."""


def stop(seeds: int) -> None:
    deviations = []
    for seed in range(seeds):
        random = np.random.default_rng(1000 + seed)
        guess = {p: v * (0.5 ** random.integers(2) if p.endswith("restitution") else 2.0 ** random.choice([-1, 1])) for p, v in STOP.items()}
        result = cb.fit(stop_model(), stop_recording(seed), guess)
        deviations.append([(result.parameters[p].value - v) / (result.parameters[p].sd or np.nan) for p, v in STOP.items()])
        print(seed, result.status, result.iterations, len(result.events), np.round(deviations[-1], 2), flush=True)
    z = np.array(deviations)
    print("95 % intervals hold", dict(zip(STOP, np.mean(np.abs(z) < 1.96, axis=0), strict=True)), "largest", np.abs(z).max(axis=0))


def drops(shape: str, count: int, decibels: list[float]) -> None:
    model = square_model(shape)
    truth = 1.0 / model["body.block.inertia.yy"]
    for decibel in decibels:
        ratio, covered, warned, right, seconds, failed, silent = [], [], [], [], 0.0, 0, 0
        for seed in range(count):
            recording, events = drop(model, seed, decibel)
            began = time.process_time()
            result = cb.fit(model, recording, {"body.block.inertia.yy": cb.Unknown(2.0 / truth, lower=0.125 / truth, upper=16.0 / truth)})
            seconds += time.process_time() - began
            e = result.parameters["body.block.inertia.yy"]
            if e.sd is None:
                failed += 1
                continue
            ratio.append(1.0 / e.value)
            covered.append(abs(e.value * truth - 1.0) < 1.96 * e.sd * truth)
            warned.append(any(word in note for word in TRUSTED for note in result.notes))
            silent += not covered[-1] and not warned[-1]
            right.append(len(result.events) == len(events) and all(abs(a.time - b.time) < 0.02 for a, b in zip(result.events, events, strict=False)))
        error = 100.0 * (np.array(ratio) / truth - 1.0)
        print(
            f"{shape} {decibel:.0f} dB: mean error {error.mean():+.2f} % (sd {error.std():.2f}, median {np.median(error):+.2f}; paper {PAPER[shape].get(int(decibel))} %), 95 % intervals hold "
            f"{100 * np.mean(covered):.0f} %, sequence right {100 * np.mean(right):.0f} %, warned {100 * np.mean(warned):.0f} %, missed without a warning {silent}, no answer {failed} of {count}, "
            f"{seconds / count:.2f} CPU s each",
            flush=True,
        )


if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else "stop"
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    if kind == "stop":
        stop(number)
    else:
        drops(kind, number, [float(x) for x in sys.argv[3:]] or [40.0, 30.0, 20.0, 10.0])
