"""Fits with impacts over many seeds: coverage of the pendulum against a stop. Drops of a square and an ellipse are in `examples/impact_study.py`.

python benchmarks/impacts.py [SEEDS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import calibody as cb

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from impact_problems import STOP, stop_model, stop_recording


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


if __name__ == "__main__":
    stop(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
