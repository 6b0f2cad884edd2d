"""The race: parameters of driven pendulums from noisy angles, side by side with mujoco.sysid, each in a process of its own.

    python benchmarks/race.py                # the table of times, errors and z-scores
    python benchmarks/race.py --guess 3      # all parameters start at three times the truth

Needs the recordings (folder `race` of CALIBODY_SHARED, or of `shared` beside the repository) and `pip install mujoco[sysid]`; what is missing is left
out and said. Times are of whole processes, imports included, after one run that fills the caches. mujoco.sysid is given the measured first
angles and a start at rest, bounds of 0.05 to 20 times the truth, and its own default optimiser.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
RACE = Path(os.environ.get("CALIBODY_SHARED", ROOT.parent / "shared")) / "race"
SETS = ("gentle_single", "gentle_double", "tumbling_single", "tumbling_double")
FIELDS = ("mass", "inertia", "damping", "friction")
SD = 0.01


def load(name: str) -> tuple[int, np.ndarray, np.ndarray, dict[str, float]]:
    kind = name.split("_")[1]
    angles, drive = (np.loadtxt(RACE / f"{name}{end}.csv", delimiter=",", skiprows=1) for end in ("", "_drive"))
    truth = json.loads((RACE / f"tumbling_{kind}_truth.json").read_text())
    links = angles.shape[1] - 1
    return links, angles, drive, {f"{f}{i + 1}": truth[f"{f}{i + 1}"] for i in range(links) for f in FIELDS}


def by_calibody(name: str, guess: float) -> dict:
    import calibody as cb

    links, angles, drive, truth = load(name)
    paths = {"mass": "body.link{}.mass", "inertia": "body.link{}.inertia.yy", "damping": "joint.hinge{}.damping", "friction": "joint.hinge{}.friction"}
    path = {key: paths[key[:-1]].format(key[-1]) for key in truth}
    observed = tuple(cb.Observation(f"joint.hinge{i + 1}.angle", angles[:, 0], angles[:, i + 1], SD) for i in range(links))
    run = cb.Recording(name, observed, tuple(cb.Drive(f"actuator.motor{i + 1}", cb.Signal(drive[:, 0], drive[:, i + 1])) for i in range(links)))
    result = cb.fit(cb.load(RACE / f"tumbling_{name.split('_')[1]}.xml"), run, {path[k]: cb.Unknown(guess * v) for k, v in truth.items()})
    found = {k: result.parameters[path[k]] for k in truth}
    return {"status": result.status, "value": {k: e.value for k, e in found.items()}, "sd": {k: e.sd for k, e in found.items()}}


def by_sysid(name: str, guess: float) -> dict:
    import mujoco
    from mujoco import sysid

    links, angles, drive, truth = load(name)
    spec = mujoco.MjSpec.from_file(str(RACE / f"tumbling_{name.split('_')[1]}.xml"))
    for i in range(links):
        sensor = spec.add_sensor()
        sensor.name, sensor.type, sensor.objtype, sensor.objname = f"angle{i + 1}", mujoco.mjtSensor.mjSENS_JOINTPOS, mujoco.mjtObj.mjOBJ_JOINT, f"hinge{i + 1}"
    model = spec.compile()

    def setter(field: str, i: str):
        def put(s, p) -> None:
            value = float(p.value[0])
            if field == "mass":
                s.body(f"link{i}").mass = value
            elif field == "inertia":
                s.body(f"link{i}").inertia = [value, value, min(0.001, value)]
            elif field == "damping":
                s.joint(f"hinge{i}").damping = [value, 0.0, 0.0]
            else:
                s.joint(f"hinge{i}").frictionloss = value

        return put

    params = sysid.ParameterDict()
    for key, value in truth.items():
        params.add(sysid.Parameter(key, nominal=guess * value, min_value=0.05 * value, max_value=20.0 * value, modifier=setter(key[:-1], key[-1])))
    start = sysid.create_initial_state(model, angles[0, 1:], np.zeros(links), np.zeros(0))
    measured = sysid.TimeSeries.from_names(angles[:, 0], angles[:, 1:], model)
    sequences = sysid.ModelSequences("race", spec, name, start, sysid.TimeSeries(drive[:, 0], drive[:, 1:]), measured)
    residual = sysid.build_residual_fn(models_sequences=[sequences])
    best, outcome = sysid.optimize(initial_params=params, residual_fn=residual, verbose=False)
    value = {k: float(best[k].value[0]) for k in truth}
    sd: dict[str, float | None] = dict.fromkeys(truth)
    try:
        covariance, _ = sysid.calculate_intervals(residual(outcome.x, best)[0], outcome.jac)
        sd = {k: float(np.sqrt(covariance[i, i])) for i, k in enumerate(truth)}
    except (AttributeError, ValueError, IndexError, np.linalg.LinAlgError):
        pass
    return {"status": "ended", "value": value, "sd": sd}


WORKERS = {"calibody": by_calibody, "mujoco.sysid": by_sysid}


def timed(tool: str, name: str, guess: float, cache: str) -> tuple[float, dict | None]:
    """Seconds of a process of its own, and what it found."""
    environment = {**os.environ, "CALIBODY_CACHE": cache, "PYTHONPATH": str(ROOT / "src")}
    began = time.perf_counter()
    done = subprocess.run([sys.executable, __file__, "--worker", tool, name, str(guess)], capture_output=True, text=True, env=environment, timeout=600)
    seconds = time.perf_counter() - began
    return seconds, json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout.strip() else None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--guess", type=float, default=1.5)
    parser.add_argument("--worker", nargs=3)
    options = parser.parse_args()
    if options.worker:
        tool, name, guess = options.worker
        print(json.dumps(WORKERS[tool](name, float(guess))))
        return 0
    if not RACE.exists():
        print("race: left out, the recordings are not there")
        return 0
    tools = [t for t in WORKERS if t == "calibody" or importlib.util.find_spec("mujoco.sysid") is not None]
    if len(tools) == 1:
        print("race: mujoco.sysid is not installed (pip install mujoco[sysid]); calibody alone")
    cache = os.environ.get("CALIBODY_CACHE", str(ROOT / ".cache"))
    print(f"all parameters from {options.guess:g} times the truth\n{'data':16} {'tool':13} {'seconds':>8} {'largest error':>24} {'largest |z|':>14}")
    for name in SETS:
        truth = load(name)[3]
        for tool in tools:
            timed(tool, name, options.guess, cache)
            seconds, found = timed(tool, name, options.guess, cache)
            if found is None:
                print(f"{name:16} {tool:13} {seconds:8.2f} {'failed':>24}")
                continue
            error = {k: abs(found["value"][k] / v - 1.0) for k, v in truth.items()}
            z = {k: abs(found["value"][k] - v) / found["sd"][k] for k, v in truth.items() if found["sd"][k]}
            worst, unsure = max(error, key=error.__getitem__), max(z, key=z.__getitem__) if z else None
            bar = "no error bars" if unsure is None else f"{z[unsure]:.1f} {unsure}"
            print(f"{name:16} {tool:13} {seconds:8.2f} {100 * error[worst]:10.2f} % {worst:>11} {bar:>14}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
