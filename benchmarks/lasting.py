"""Fits with contact that lasts over many seeds: errors and coverage.

python benchmarks/lasting.py disk|resting|incline|flat|arm|wheel|slipping [SEEDS]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from lasting_problems import Case, arm_and_disk, deviations, disk, falling_flat, incline, resting, wheel

FINE = 3e-5
"""Step of the simulation of a wheel that slips [s]: friction of the simulation is of first order."""
CASES = {
    "disk": disk,
    "resting": resting,
    "incline": incline,
    "flat": falling_flat,
    "arm": arm_and_disk,
    "wheel": lambda: wheel(end=1.6),
    "slipping": lambda: wheel(0.35, 0.25, 1.6, 4e-3 / round(4e-3 / FINE)),
}


def study(case: Case, seeds: int) -> None:
    z, errors, iterations, failed = [], [], [], 0
    began = time.process_time()
    for seed in range(seeds):
        result = case.fit(seed)
        if not result.converged:
            failed += 1
            print(seed, result.status, flush=True)
            continue
        z.append(deviations(result, case.truth))
        errors.append([100.0 * (result.parameters[p].value / v - 1.0) for p, v in case.truth.items()])
        iterations.append(result.iterations)
        print(seed, result.iterations, np.round(errors[-1], 3), np.round(z[-1], 2), f"{(time.process_time() - began) / (seed + 1):.1f} CPU s each", flush=True)
    found = np.array(z)
    print(f"{len(z)} of {seeds} converge, {failed} do not; {np.mean(iterations):.0f} iterations")
    for k, path in enumerate(case.truth):
        column = np.array(errors)[:, k]
        print(
            f"{path}: error {column.mean():+.3f} +- {column.std():.3f} %, 95 % intervals hold {100 * np.mean(np.abs(found[:, k]) < 1.96):.0f} %, largest {np.abs(found[:, k]).max():.2f} sd"
        )


if __name__ == "__main__":
    study(CASES[sys.argv[1] if len(sys.argv) > 1 else "disk"](), int(sys.argv[2]) if len(sys.argv) > 2 else 30)
