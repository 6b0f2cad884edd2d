"""Numbers that are right in MuJoCo: recordings that MuJoCo's own stepper has made, fitted by shooting in its engine and by mujoco.sysid, side by side.

    python benchmarks/engine.py                      # all four recordings from 1.5, 3 and 0.3 times the truth
    python benchmarks/engine.py --factors 1.02       # from near the truth
    python benchmarks/engine.py --same               # the gentle ones from near the truth, the same problem for both: their optima, costs and seconds

The models, drives and noise are those of the race (folder `race` of CALIBODY_SHARED, or of `shared` beside the repository), the motions are simulated anew by MuJoCo at the file's step of 2 ms, with
frictionloss, so that its discretisation is exactly that of the fits. mujoco.sysid (`pip install mujoco[sysid]`) is given the true start, which calibody finds, and bounds of 0.05 to 20 times the truth.
Seconds are those of the processor (all threads), without imports.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from race import FIELDS, RACE, SD, SETS, START, fitted_by_sysid

STEP, EVERY = 0.002, 5
LINKS = {"single": 1, "double": 2}
PATHS = {"mass": "body.link{}.mass", "inertia": "body.link{}.inertia.yy", "damping": "joint.hinge{}.damping", "friction": "joint.hinge{}.friction"}


def made(name: str) -> tuple[int, np.ndarray, np.ndarray, dict[str, float]]:
    """Links, angles (time first) and drive of a recording that MuJoCo has made, and the truth."""
    kind = name.split("_")[1]
    links = LINKS[kind]
    numbers = json.loads((RACE / f"tumbling_{kind}_truth.json").read_text())
    truth = {f"{f}{i + 1}": numbers[f"{f}{i + 1}"] for i in range(links) for f in FIELDS}
    drive = np.loadtxt(RACE / f"{name}_drive.csv", delimiter=",", skiprows=1)
    random, (times, angles) = np.random.default_rng(0), simulated(name, truth, drive)
    return links, np.column_stack([times, *(a + SD * random.standard_normal(len(times)) for a in angles)]), drive, truth


def simulated(name: str, value: dict[str, float], drive: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Times and angles, by MuJoCo's stepper."""
    import calibody as cb

    kind = name.split("_")[1]
    links = LINKS[kind]
    model = cb.load(RACE / f"tumbling_{kind}.xml").replace(wide(links) | {PATHS[k[:-1]].format(k[-1]): v for k, v in value.items()})
    start = {f"joint.hinge{i + 1}.{what}": START[k][i] for i in range(links) for k, what in enumerate(("angle", "rate"))}
    signals = {f"actuator.motor{i + 1}": cb.Signal(drive[:, 0], drive[:, i + 1]) for i in range(links)}
    motion = cb.simulate(model, 10.0, STEP, start, signals, stepper="mujoco")
    return motion.time[::EVERY], [motion[f"joint.hinge{i + 1}.angle"][::EVERY] for i in range(links)]


def wide(links: int) -> dict[str, float]:
    """Inertias that do not matter in the plane, large, so that any guess of the one that does is possible."""
    return {f"body.link{i + 1}.inertia.{axis}": 1.0 for i in range(links) for axis in ("xx", "zz")}


def by_calibody(name: str, factor: float, windows: int | str = "auto", same: bool = False) -> tuple[str, dict[str, float], dict[str, float | None]]:
    import calibody as cb

    links, angles, drive, truth = made(name)
    model = cb.load(RACE / f"tumbling_{name.split('_')[1]}.xml").replace(wide(links))
    sizes = np.linalg.norm(angles[1:, 1:], axis=0) if same else np.ones(links)  # mujoco.sysid divides residuals by the size of their channel
    known = {f"joint.hinge{i + 1}.{what}": START[k][i] for i in range(links) for k, what in enumerate(("angle", "rate"))} if same else {}
    observed = [cb.Observation(f"joint.hinge{i + 1}.angle", angles[:, 0], angles[:, i + 1], SD * sizes[i] / sizes[0]) for i in range(links)]
    drives = [cb.Drive(f"actuator.motor{i + 1}", cb.Signal(drive[:, 0], drive[:, i + 1])) for i in range(links)]
    run = cb.Recording(name, tuple(observed), tuple(drives), initial=known)
    path = {k: PATHS[k[:-1]].format(k[-1]) for k in truth}
    result = cb.fit(model, run, {path[k]: cb.Unknown(factor * v) for k, v in truth.items()}, method=cb.Shooting(stepper="mujoco", windows=windows))
    found = {k: result.parameters[path[k]] for k in truth}
    return f"{result.status.split(';')[0]} ({result.iterations})", {k: e.value for k, e in found.items()}, {k: e.sd for k, e in found.items()}


def by_sysid(name: str, factor: float) -> tuple[str, dict[str, float], dict[str, float | None]]:
    found = fitted_by_sysid(name, factor, *made(name), across=1.0)
    return found["status"], found["value"], found["sd"]


TOOLS = {"calibody": by_calibody, "one window": lambda n, f: by_calibody(n, f, 1), "mujoco.sysid": by_sysid}


def cost(name: str, value: dict[str, float]) -> float:
    """What both minimise, from the given start."""
    links, angles, drive, _ = made(name)
    sizes = np.linalg.norm(angles[1:, 1:], axis=0)
    residuals = np.column_stack([angles[:, i + 1] - seen for i, seen in enumerate(simulated(name, value, drive)[1])])[:, :links]
    return 0.5 * float(np.sum((residuals * sizes[0] / sizes / SD) ** 2))


def far(a: dict[str, float], b: dict[str, float], sd: dict[str, float]) -> float:
    """How far apart two results are where they are farthest, in standard deviations."""
    return max(abs(a[k] - b[k]) / s for k, s in sd.items())


def apart(starts: tuple[float, ...]) -> None:
    """The same problem on the two gentle recordings: start given, channels weighed as mujoco.sysid does, one window. Their optima from several starts, and what one run of each takes."""
    tools = (lambda n, f: by_calibody(n, f, 1, same=True), by_sysid)
    for fit in tools:
        fit(SETS[0], starts[0])  # what either imports when it first runs does not count
    for name in SETS[:2]:
        ends, seconds, sd = ([], []), ([], []), {}
        for factor in starts:
            for tool, fit in enumerate(tools):
                began = time.process_time()
                status, value, bars = fit(name, factor)
                seconds[tool].append(time.process_time() - began)
                ends[tool].append(value)
                sd = sd or {k: s or np.nan for k, s in bars.items()}
                print(
                    f"{name:16} {factor:g} {('calibody', 'mujoco.sysid')[tool]:13} cost {cost(name, value):.4f}  {seconds[tool][-1]:.2f} s  {status}",
                    flush=True,
                )
        nearest = [min(far(ours, theirs, sd) for theirs in ends[1]) for ours in ends[0]]
        own = max(far(a, b, sd) for a in ends[1] for b in ends[1])
        print(
            f"{name:16} each optimum of calibody is {', '.join(f'{d:.1g}' for d in nearest)} sd from the nearest of mujoco.sysid, whose own are up to {own:.2g} sd apart; "
            f"medians {np.median(seconds[0]):.2f} s, mujoco.sysid {np.median(seconds[1]):.2f} s",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--factors", type=float, nargs="+", default=[1.5, 3.0, 0.3])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=list(TOOLS))
    options = parser.parse_args()
    if not RACE.exists():
        print("engine: left out, the models and drives are not there")
        return 0
    if options.same:
        apart((0.97, 0.98, 0.99, 1.01, 1.02, 1.03, 1.05))
        return 0
    print(f"{os.cpu_count()} cores; errors of the worst parameter, z in the fit's own error bars")
    for name in options.sets:
        truth = made(name)[3]
        for factor in options.factors:
            for tool in options.tools:
                fit = TOOLS[tool]
                clock, began = time.perf_counter(), time.process_time()
                status, value, sd = fit(name, factor)
                busy, seconds = time.process_time() - began, time.perf_counter() - clock
                worst = max(truth, key=lambda k: abs(value[k] / truth[k] - 1.0))
                z = [abs(value[k] - v) / s for k, v in truth.items() if (s := sd[k])]
                off = 100.0 * abs(value[worst] / truth[worst] - 1.0)
                bars = f"{max(z):8.2f}" if z else "    none"
                print(f"{name:16} {factor:5g} {tool:13} {busy:7.1f} s ({seconds:5.1f}) {off:9.2f} % {worst:>10} |z| {bars}  {status[:70]}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
