"""Cross-validation on one process and on two: seconds of both, and how many times faster two are (at least 1.6 on two idle cores).

python benchmarks/folds.py
"""

from __future__ import annotations

import time

import numpy as np

import calibody as cb
from calibody.estimate import sweep

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


def main() -> None:
    recordings = runs(6)
    seconds = {}
    for processes in (1, 2):
        sweep._cores = lambda processes=processes: processes
        began = time.perf_counter()
        score = cb.cross_validate(arm(), recordings, UNKNOWN).score
        seconds[processes] = time.perf_counter() - began
        print(f"{processes} process{'es' if processes > 1 else ''}: {seconds[processes]:.1f} s, score {score:.3f}")
    print(f"two are {seconds[1] / seconds[2]:.2f} times as fast")


if __name__ == "__main__":
    main()
