"""Many recordings at once: time and memory of fits of 200-node runs of a double pendulum, with and without a bias per run.

    python benchmarks/many_runs.py [RUNS ...]       for instance 64 1000

Every fit is a process of its own. Printed are CPU seconds (which do not depend on what else runs), seconds by the clock (on a quiet machine), the peak of memory, and the error of
the shared parameters in units of their error bars and the discretisation error together (the mesh is given and coarse). Gates: a bias per run costs at most 1.5 times of none; 1000 runs take less than 90 s on two cores and 4 GB.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np

import calibody as cb

NODES, STEP = 200, 0.01
TRUTH = {"body.upper.mass": 1.0, "joint.first.damping": 0.05}


def double_pendulum() -> cb.Model:
    upper = cb.Body("upper", mass=1.0, com=(0.3, 0, 0), inertia=(0.01, 0.03, 0.03))
    lower = cb.Body("lower", "upper", mass=0.5, com=(0.2, 0, 0), inertia=(0.01, 0.02, 0.02), position=(0.6, 0, 0))
    joints = [cb.Joint("first", "upper", damping=0.05), cb.Joint("second", "lower", damping=0.02)]
    return cb.Model("double pendulum", [upper, lower], joints, world=cb.World(gravity=(0, -9.81, 0)))


def recordings(count: int) -> list[cb.Recording]:
    """Eight motions, each with new noise and a new offset of its first encoder."""
    random, model = np.random.default_rng(0), double_pendulum()
    starts = random.uniform(-1.0, 1.0, (8, 2))
    motions = [cb.simulate(model, NODES * STEP, STEP / 4, {"joint.first.angle": float(a), "joint.second.angle": float(b)}) for a, b in starts]
    out = []
    for k in range(count):
        motion, offset = motions[k % 8], {"joint.first.angle": 0.02 * random.normal(), "joint.second.angle": 0.0}
        seen = [(c, motion[c][::4] + b + 1e-3 * random.normal(size=len(motion.time[::4]))) for c, b in offset.items()]
        out.append(cb.Recording(f"run{k}", tuple(cb.Observation(c, motion.time[::4], y, 1e-3) for c, y in seen)))
    return out


def measure(count: int, biases: bool) -> dict[str, float | str]:
    runs, unknown = recordings(count), {path: cb.Unknown(1.3 * value) for path, value in TRUTH.items()}
    if biases:
        unknown["joint.first.angle.bias"] = cb.Unknown(0.0, per_run=True, scale=0.1)
    cpu, wall = time.process_time(), time.perf_counter()
    result = cb.fit(double_pendulum(), runs, unknown, h=STEP)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    found = {path: result.parameters[path] for path in TRUTH}
    worst = max(abs(e.value - TRUTH[path]) / float(np.hypot(e.sd or np.inf, e.discretisation_error or 0.0)) for path, e in found.items())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"status": result.status, "cpu": cpu, "wall": wall, "GB": peak, "iterations": result.iterations, "error_over_sd": float(worst)}


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]), sys.argv[3] == "1")))
        return
    for count in map(int, sys.argv[1:] or ["64", "1000"]):
        found = []
        for biases in (False, True):
            done = subprocess.run([sys.executable, __file__, "--one", str(count), str(int(biases))], capture_output=True, text=True, check=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
            m = found[-1]
            what = "a bias per run" if biases else "none per run"
            print(
                f"{count:5d} runs, {what:15}: {m['cpu']:7.1f} CPU s, {m['wall']:7.1f} s, {m['GB']:5.2f} GB, {m['iterations']} iterations, "
                f"{m['status']}, shared parameters off by {m['error_over_sd']:.1f} bars"
            )
        print(f"{count:5d} runs: a bias per run takes {found[1]['cpu'] / found[0]['cpu']:.2f} times the CPU time of none (gate 1.5)")


if __name__ == "__main__":
    main()
