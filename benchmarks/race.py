"""The race: parameters of driven pendulums from noisy angles, side by side with mujoco.sysid and opty, each in a process of its own.

    python benchmarks/race.py                # the table of times, errors and z-scores
    python benchmarks/race.py --guess 3      # all parameters start at three times the truth

"with auto" is calibody told that unmodelled forces may act (process_noise = "auto"), which here they do not.

Needs the recordings (folder `race` of CALIBODY_SHARED, or of `shared` beside the repository), `pip install mujoco[sysid]`, and opty with IPOPT (`pip install
cyipopt-wheels sympy cython setuptools`, then `pip install --no-deps opty`), in this environment or in the one whose interpreter OPTY_PYTHON names; what is
missing is left out and said. Times are of whole processes, imports included, after one run that fills the caches: wall time, and the seconds of all cores together,
which other work on the machine disturbs less. mujoco.sysid cannot estimate where a motion starts and is given the true start (`START`), which the others are not, and its own
default optimiser; opty the equations of motion (sympy), the midpoint rule with a node at every sample, Coulomb
friction as `tanh(rate/0.05)`, the measured angles and their differences as a first motion, and at most 1000 iterations. Both get bounds of 0.05 to 20
times the truth. opty has no cache: it compiles its equations every time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
RACE = Path(os.environ.get("CALIBODY_SHARED", ROOT.parent / "shared")) / "race"
SETS = ("gentle_single", "gentle_double", "tumbling_single", "tumbling_double")
FIELDS = ("mass", "inertia", "damping", "friction")
SD = 0.01
START = (1.0, -0.5), (0.5, 0.3)
"""True first angles [rad] and rates [rad/s] of all sets; single pendulums have the first of each."""


def load(name: str) -> tuple[int, np.ndarray, np.ndarray, dict[str, float]]:
    kind = name.split("_")[1]
    angles, drive = (np.loadtxt(RACE / f"{name}{end}.csv", delimiter=",", skiprows=1) for end in ("", "_drive"))
    truth = json.loads((RACE / f"tumbling_{kind}_truth.json").read_text())
    links = angles.shape[1] - 1
    return links, angles, drive, {f"{f}{i + 1}": truth[f"{f}{i + 1}"] for i in range(links) for f in FIELDS}


def by_calibody(name: str, guess: float, process_noise: str = "none") -> dict:
    import calibody as cb

    links, angles, drive, truth = load(name)
    paths = {"mass": "body.link{}.mass", "inertia": "body.link{}.inertia.yy", "damping": "joint.hinge{}.damping", "friction": "joint.hinge{}.friction"}
    path = {key: paths[key[:-1]].format(key[-1]) for key in truth}
    observed = tuple(cb.Observation(f"joint.hinge{i + 1}.angle", angles[:, 0], angles[:, i + 1], SD) for i in range(links))
    run = cb.Recording(name, observed, tuple(cb.Drive(f"actuator.motor{i + 1}", cb.Signal(drive[:, 0], drive[:, i + 1])) for i in range(links)))
    result = cb.fit(
        cb.load(RACE / f"tumbling_{name.split('_')[1]}.xml"), run, {path[k]: cb.Unknown(guess * v) for k, v in truth.items()}, process_noise=process_noise
    )
    found = {k: result.parameters[path[k]] for k in truth}
    return {"status": result.status, "value": {k: e.value for k, e in found.items()}, "sd": {k: e.sd for k, e in found.items()}}


def by_sysid(name: str, guess: float) -> dict:
    return fitted_by_sysid(name, guess, *load(name))


def fitted_by_sysid(name: str, guess: float, links: int, angles: np.ndarray, drive: np.ndarray, truth: dict[str, float], across: float | None = None) -> dict:
    """`across`: the inertias that do not matter in the plane; None: those of a rod, whatever the guess."""
    import mujoco
    from mujoco import sysid

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
                s.body(f"link{i}").inertia = [value, value, min(0.001, value)] if across is None else [across, value, across]
            elif field == "damping":
                s.joint(f"hinge{i}").damping = [value, 0.0, 0.0]
            else:
                s.joint(f"hinge{i}").frictionloss = value

        return put

    params = sysid.ParameterDict()
    for key, value in truth.items():
        params.add(sysid.Parameter(key, nominal=guess * value, min_value=0.05 * value, max_value=20.0 * value, modifier=setter(key[:-1], key[-1])))
    start = sysid.create_initial_state(model, *(np.array(x[:links]) for x in START), np.zeros(0))
    # as positions of the state: what a sensor predicts is taken a time step late there, because mj_step computes sensors before it moves on
    measured = sysid.TimeSeries.from_names(angles[:, 0], angles[:, 1:], model, [(f"hinge{i + 1}_qpos", sysid.SignalType.MjStateQPos) for i in range(links)])
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


def by_opty(name: str, guess: float) -> dict:
    import sympy as sm
    from opty import Problem
    from sympy.physics.mechanics import dynamicsymbols

    links, angles, drive, truth = load(name)
    t, y = dynamicsymbols._t, angles[:, 1:].T
    a, u, torque = (sm.Matrix([dynamicsymbols(f"{letter}{i + 1}") for i in range(links)]) for letter in ("a", "u", "tau"))
    number = {key: sm.Symbol(key) for key in truth}
    length, centre, g = 0.5, 0.25, 9.81
    kinetic, potential = sm.Integer(0), sm.Integer(0)
    angle, end = sm.Integer(0), sm.Matrix([0, 0])  # of the link, of the end of the one before
    for i in range(links):
        angle = angle + a[i]
        along = sm.Matrix([-sm.sin(angle), -sm.cos(angle)])
        place = end + centre * along
        rates = dict(zip(a.diff(t), u, strict=True))
        speed, turn = place.diff(t).subs(rates), angle.diff(t).subs(rates)
        kinetic += (number[f"mass{i + 1}"] * speed.dot(speed) + number[f"inertia{i + 1}"] * turn**2) / 2
        potential += number[f"mass{i + 1}"] * g * place[1]
        end = end + length * along
    equations = []
    for i in range(links):
        momentum = kinetic.diff(u[i])
        own = torque[i] - number[f"damping{i + 1}"] * u[i] - number[f"friction{i + 1}"] * sm.tanh(u[i] / 0.05)
        change = momentum.diff(t).subs(dict(zip(a.diff(t), u, strict=True)))
        equations.append(sm.simplify(change - kinetic.diff(a[i]) + potential.diff(a[i]) - own))
    motion = sm.Matrix([*(a.diff(t) - u), *equations])
    nodes, h = y.shape[1], float(angles[1, 0] - angles[0, 0])
    held = np.array([drive[np.abs(drive[:, 0] + 0.001 - at) <= 0.5 * h, 1:].mean(axis=0) for at in angles[:, 0]]).T  # mean around each node
    seen = links * nodes

    def cost(free: np.ndarray) -> float:
        return float(np.sum((free[:seen] - y.ravel()) ** 2))

    def slope(free: np.ndarray) -> np.ndarray:
        out = np.zeros_like(free)
        out[:seen] = 2.0 * (free[:seen] - y.ravel())
        return out

    bounds = {number[key]: (0.05 * value, 20.0 * value) for key, value in truth.items()}
    problem = Problem(
        cost, slope, motion, (*a, *u), nodes, h, known_trajectory_map=dict(zip(torque, held, strict=True)), integration_method="midpoint", bounds=bounds, time_symbol=t,
    )  # fmt: skip
    problem.add_option("print_level", 0)
    problem.add_option("max_iter", 1000)
    order = [str(symbol) for symbol in problem.collocator.unknown_parameters]
    start = np.concatenate([y.ravel(), np.gradient(y, h, axis=1).ravel(), [guess * truth[key] for key in order]])
    found, info = problem.solve(start)
    return {"status": str(info["status_msg"]), "value": dict(zip(order, map(float, found[-len(order) :]), strict=True)), "sd": dict.fromkeys(truth)}


WORKERS = {"calibody": by_calibody, 'with "auto"': partial(by_calibody, process_noise="auto"), "mujoco.sysid": by_sysid, "opty": by_opty}
MODULES = {"calibody": ("calibody",), 'with "auto"': ("calibody",), "mujoco.sysid": ("mujoco", "mujoco.sysid"), "opty": ("cyipopt", "opty")}


def interpreter(tool: str) -> str:
    return os.environ.get("OPTY_PYTHON", sys.executable) if tool == "opty" else sys.executable


def present(tool: str) -> bool:
    there = "from importlib.util import find_spec; import sys; sys.exit(any(find_spec(m) is None for m in sys.argv[1:]))"
    return (
        subprocess.run([interpreter(tool), "-c", there, *MODULES[tool]], capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}).returncode
        == 0
    )


def timed(tool: str, name: str, guess: float, cache: str) -> tuple[float, float, dict | None]:
    """Seconds of a process of its own, by the clock and of all cores, and what it found."""
    environment = {**os.environ, "CALIBODY_CACHE": cache, "PYTHONPATH": str(ROOT / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed comes compiled, the sources here are in the first run
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([interpreter(tool), __file__, "--worker", tool, name, str(guess)], capture_output=True, text=True, env=environment, timeout=600)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, busy, json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout.strip() else None


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
    tools = [t for t in WORKERS if present(t)]
    for missing in set(WORKERS) - set(tools):
        print(f"race: {missing} is not installed and left out")
    cache = os.environ.get("CALIBODY_CACHE", str(ROOT / ".cache"))
    print(
        f"all parameters from {options.guess:g} times the truth\n{'data':16} {'tool':13} {'seconds':>8} {'of cores':>8} {'largest error':>24} {'largest |z|':>14}"
    )
    for name in SETS:
        truth = load(name)[3]
        for tool in tools:
            timed(tool, name, options.guess, cache)
            seconds, busy, found = timed(tool, name, options.guess, cache)
            if found is None:
                print(f"{name:16} {tool:13} {seconds:8.2f} {busy:8.2f} {'failed':>24}")
                continue
            error = {k: abs(found["value"][k] / v - 1.0) for k, v in truth.items()}
            z = {k: abs(found["value"][k] - v) / found["sd"][k] for k, v in truth.items() if found["sd"][k]}
            worst, unsure = max(error, key=error.__getitem__), max(z, key=z.__getitem__) if z else None
            bar = "no error bars" if unsure is None else f"{z[unsure]:.1f} {unsure}"
            print(f"{name:16} {tool:13} {seconds:8.2f} {busy:8.2f} {100 * error[worst]:10.2f} % {worst:>11} {bar:>14}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
