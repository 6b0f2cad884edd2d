"""Cross-validation on one process, on one core, and on two: seconds of both, and how many times faster two are (at least 1.6 on two idle cores).

    python benchmarks/folds.py                         # folds of ten seconds
    python benchmarks/folds.py --runs 4 --h 0.005      # small ones

Other work on the machine disturbs the seconds by the clock; what two processes take of the cores more than one does says what they could reach without it.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

import calibody as cb
from calibody.estimate import crossvalidate, sweep

UNKNOWN = {"body.upper.mass": 0.8, "body.lower.mass": 0.8, "joint.shoulder.damping": 0.02, "joint.elbow.damping": 0.02}


def arm() -> cb.Model:
    bodies = [
        cb.Body("upper", mass=1.0, com=(0, 0, -0.2), inertia=(0.01, 0.01, 0.002)),
        cb.Body("lower", "upper", 0.6, (0, 0, -0.15), (0.005, 0.005, 0.001), (0, 0, -0.4)),
    ]
    joints = [cb.Joint("shoulder", "upper", axis=(0, 1, 0), damping=0.05), cb.Joint("elbow", "lower", axis=(0, 1, 0), damping=0.03)]
    return cb.Model("arm", bodies, joints)


def runs(count: int) -> list[cb.Recording]:
    noise, out = np.random.default_rng(0), []
    for k in range(count):
        motion = cb.simulate(arm(), 8.0, 0.001, {"joint.shoulder.angle": 1.0 + 0.1 * k, "joint.elbow.angle": -0.5 + 0.2 * k})
        channels = ("joint.shoulder.angle", "joint.elbow.angle")
        out.append(cb.Recording(f"run {k}", [cb.Observation(c, motion.time[::5], motion[c][::5] + 1e-3 * noise.normal(size=1601), sd=1e-3) for c in channels]))
    return out


def fold(model: cb.Model, fitted: list[cb.Recording], judged: list[cb.Recording], h: float | None) -> tuple[int, float, float]:
    """This process, the seconds it took of a core, and the score."""
    before = time.process_time()
    found = crossvalidate._fold(model, fitted, judged, UNKNOWN, None, {} if h is None else {"h": h})
    return os.getpid(), time.process_time() - before, float(np.mean(list(found.rms_over_sd.values())))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--h", type=float, help="one mesh of this step [s]; without it as a fit chooses")
    options = parser.parse_args()
    recordings = runs(options.runs)
    tasks = [{"model": arm(), "fitted": recordings[:k] + recordings[k + 1 :], "judged": [recordings[k]], "h": options.h} for k in range(options.runs)]
    all_cores, seconds, busy = os.sched_getaffinity(0), {}, {}
    for processes in (1, 2):
        sweep._cores = lambda processes=processes: processes
        if processes == 1:
            os.sched_setaffinity(0, {min(all_cores)})
        began, before = time.perf_counter(), time.process_time()
        found = cb.sweep(fold, tasks)
        seconds[processes] = time.perf_counter() - began
        here = time.process_time() - before
        busy[processes] = here + sum(s for process, s, _ in found if process != os.getpid())
        os.sched_setaffinity(0, all_cores)
        shared = f"{len([1 for process, *_ in found if process == os.getpid()])} of {len(tasks)} folds here"
        print(
            f"{processes} process{'es' if processes > 1 else ''}: {seconds[processes]:.1f} s, {busy[processes]:.1f} s of cores, {shared}, score {np.mean([x for *_, x in found]):.3f}"
        )
    print(f"two are {seconds[1] / seconds[2]:.2f} times as fast, and take {busy[2] / busy[1]:.2f} times the seconds of cores")


if __name__ == "__main__":
    main()
