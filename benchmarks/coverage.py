"""Do 95 % intervals hold the truth in 95 of 100 cases, and how often does a verdict speak against a model that is right?

    python benchmarks/coverage.py [--seeds 200] [--first 1000] [--cases "nothing missing" ...] [--processes 2]

Every case is a short recording, simulated with new noise for each of the seeds (1000 to 1199 were chosen before anything was looked at) and fitted with process_noise = "auto" on the mesh it was simulated on; four cases
also with "none". Pooled over the parameters: the share of
intervals of 1.96 standard deviations that hold the truth; of an estimate at its bound, the interval from there to its limit. An alarm is a fit whose verdict, the report's own with all of its tests and with
validation, has a question that is not answered well; but for those that ask how much the data tell (`ASIDE`). Where nothing is missing it is false; where something is, it should come. Below the table are the questions
of the false alarms. Every fit is kept in build/coverage.jsonl as soon as it is done (`kept.py`).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from kept import rows

import calibody as cb
from calibody.experiment.folder import write
from calibody.report.verdict import GOOD, verdict

FILE = Path("build/coverage.jsonl")
H, SECONDS = 0.01, 3.0
"""Sampling period, and step of simulation and fit [s]; duration of a run [s]."""
COVER = 1.96
ASIDE = ("What do the data determine?", "Is something at its limit?", "Is the mesh fine enough?")
"""Questions whose answers speak of something else than the model. How much do the data tell: of a damping within one of its standard deviations of zero not enough, which is right. The mesh: motions are simulated on the very one
that they are fitted on, which is exact, and half of its step would move the estimates."""
TIMES = np.arange(0.0, SECONDS + 2 * H, H)
PENDULUM = {"body.arm.mass": 0.4, "body.arm.inertia.yy": 0.004, "joint.hinge.damping": 0.002}
CART = {"body.cart.mass": 1.2, "joint.rail.damping": 2.0}


@dataclass(frozen=True)
class Case:
    """What is recorded, what is fitted, and what is asked of the share of intervals that hold the truth."""

    make: Callable[..., cb.Result]
    """Of a random generator; of some with `process_noise`."""
    truth: Mapping[str, float]
    least: float
    most: float = 1.0
    missing: bool = False
    """Whether something is missing that should be named."""
    number: int = 0
    """What its noise is drawn from, with the seed."""


# -- recordings --------------------------------------------------------------------------------------------------------------------------


@cache
def pendulum(damping: float = 0.002) -> cb.Model:
    arm = cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))
    return cb.Model("pendulum", [arm], [cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=damping)], actuators=[cb.Actuator("motor", "hinge")])


@cache
def cart() -> cb.Model:
    body = cb.Body("cart", mass=1.2, inertia=(0.01, 0.01, 0.01))
    return cb.Model("cart", [body], [cb.Joint("rail", "cart", "slide", axis=(1, 0, 0), damping=2.0)], actuators=[cb.Actuator("motor", "rail")])


def drive(run: int = 0) -> cb.Signal:
    return cb.Signal(TIMES, 0.2 * np.sin((5.0 + run) * TIMES + run) + 0.1 * np.sin((11.0 - run) * TIMES))


def swing(damping: float = 0.002, run: int = 0, force: np.ndarray | None = None) -> np.ndarray:
    """The angle of the pendulum; `force` acts besides."""
    drives = {"actuator.motor": drive(run)} | ({} if force is None else {"joint.hinge.force": cb.Signal(TIMES, force)})
    return cb.simulate(pendulum(damping), SECONDS, H, {"joint.hinge.angle": 0.5}, drives)["joint.hinge.angle"]


def seen(angle: np.ndarray, sd: float | None, run: int = 0) -> cb.Recording:
    read = cb.Observation("joint.hinge.angle", H * np.arange(len(angle)), angle, sd)
    return cb.Recording(f"run{run}", (read,), (cb.Drive("actuator.motor", drive(run)),))


def fitted(recordings: cb.Recording | list[cb.Recording], process_noise: str = "none", truth: Mapping[str, float] = PENDULUM, **more: cb.Unknown) -> cb.Result:
    unknowns = {path: cb.Unknown(1.3 * value, lower=0.0) for path, value in truth.items()} | {path.replace("_", "."): unknown for path, unknown in more.items()}
    return cb.fit(pendulum(), recordings, unknowns, process_noise=process_noise, h=H)


def remembering(rng: np.random.Generator, count: int, memory: float) -> np.ndarray:
    """An Ornstein-Uhlenbeck process of unit variance."""
    a, out = np.exp(-H / memory), rng.standard_normal(count)
    for k in range(1, count):
        out[k] = a * out[k - 1] + np.sqrt(1.0 - a * a) * out[k]
    return out


# -- cases -------------------------------------------------------------------------------------------------------------------------------


def nothing_missing(rng: np.random.Generator, process_noise: str = "auto") -> cb.Result:
    angle = swing()
    return fitted(seen(angle + 2e-3 * rng.standard_normal(len(angle)), 2e-3), process_noise)


def white_force(rng: np.random.Generator) -> cb.Result:
    angle = swing(force=0.02 * rng.standard_normal(len(TIMES)))
    return fitted(seen(angle + 1e-3 * rng.standard_normal(len(angle)), 1e-3), "auto")


def three_runs(rng: np.random.Generator) -> cb.Result:
    angles = [swing(run=r, force=0.02 * rng.standard_normal(len(TIMES))) for r in range(3)]
    return fitted([seen(angle + 1e-3 * rng.standard_normal(len(angle)), 1e-3, r) for r, angle in enumerate(angles)], "auto")


def slow_force(rng: np.random.Generator) -> cb.Result:
    angle = swing(force=0.01 * remembering(rng, len(TIMES), 0.2))
    return fitted(seen(angle + 1e-3 * rng.standard_normal(len(angle)), 1e-3), "auto")


def coarse_cart(rng: np.random.Generator) -> cb.Result:
    """Counts of 1 mm every 10 ms are steps of 10 m/s^2 of acceleration; the cart's own are a few."""
    push, jolt = cb.Signal(TIMES, 4.0 * np.sin(6 * TIMES) + 2.0 * np.sin(13 * TIMES)), cb.Signal(TIMES, 0.5 * rng.standard_normal(len(TIMES)))
    place = cb.simulate(cart(), SECONDS, H, {}, {"actuator.motor": push, "joint.rail.force": jolt})["joint.rail.position"]
    counts = 1e-3 * np.round((place + 1e-4 * rng.standard_normal(len(place))) / 1e-3 + rng.uniform())
    read = cb.Observation("joint.rail.position", H * np.arange(len(place)), counts, 1e-4, resolution=1e-3)
    unknowns = {path: cb.Unknown(1.3 * value, lower=0.0) for path, value in CART.items()}
    return cb.fit(cart(), cb.Recording("run", (read,), (cb.Drive("actuator.motor", push),)), unknowns, process_noise="auto", h=H)


def biases_per_run(rng: np.random.Generator, process_noise: str = "auto") -> cb.Result:
    angles = [swing(run=r) + 0.02 * rng.standard_normal() for r in range(3)]
    runs = [seen(angle + 2e-3 * rng.standard_normal(len(angle)), 2e-3, r) for r, angle in enumerate(angles)]
    return fitted(runs, process_noise, joint_hinge_angle_bias=cb.Unknown(0.0, per_run=True, scale=0.02))


NEAR_ZERO = PENDULUM | {"joint.hinge.damping": 1e-5}


def near_a_bound(rng: np.random.Generator, process_noise: str = "auto") -> cb.Result:
    """The damping is about one of its standard deviations above zero."""
    angle = swing(1e-5)
    return fitted(seen(angle + 5e-3 * rng.standard_normal(len(angle)), 5e-3), process_noise, truth=NEAR_ZERO)


def unknown_sd(rng: np.random.Generator, process_noise: str = "auto") -> cb.Result:
    angle = swing()
    return fitted(seen(angle + 2e-3 * rng.standard_normal(len(angle)), None), process_noise)


def remembering_noise(rng: np.random.Generator, process_noise: str = "auto") -> cb.Result:
    angle = swing()
    return fitted(seen(angle + 2e-3 * remembering(rng, len(angle), 0.05), 2e-3), process_noise)


CASES = {
    "nothing missing": Case(nothing_missing, PENDULUM, 0.92, 0.98, number=0),
    "white force": Case(white_force, PENDULUM, 0.90, number=1),
    "white force, three runs": Case(three_runs, PENDULUM, 0.90, number=8),
    "force with a memory of 0.2 s": Case(slow_force, PENDULUM, 0.90, missing=True, number=2),
    "a cart that counts millimetres": Case(coarse_cart, CART, 0.90, number=3),
    "an unknown bias per run, three runs": Case(biases_per_run, PENDULUM, 0.90, number=4),
    "damping one sd above its bound": Case(near_a_bound, NEAR_ZERO, 0.90, number=5),
    "sd of the noise unknown": Case(unknown_sd, PENDULUM, 0.90, number=6),
    "noise with a memory of 0.05 s": Case(remembering_noise, PENDULUM, 0.90, missing=True, number=7),
}
CASES |= {
    f"{name}, none": replace(CASES[name], make=partial(CASES[name].make, process_noise="none"))
    for name in ("an unknown bias per run, three runs", "damping one sd above its bound", "sd of the noise unknown", "noise with a memory of 0.05 s")
}


def alarms(result: cb.Result) -> list[str]:
    """The questions that the verdict does not answer well."""
    with tempfile.TemporaryDirectory() as folder:
        write(result, folder)
        return [item.question for item in verdict(cb.open(folder)).items if item.level != GOOD]


def work(key: tuple) -> list:
    """Whether each interval holds the truth (None: there is none), the questions that are not answered well, the first suspect, whether it converged, CPU seconds."""
    name, seed = key
    case, began = CASES[name], time.process_time()
    result = case.make(np.random.default_rng([seed, case.number]))
    seconds, held = time.process_time() - began, []
    for path, value in case.truth.items():
        e = result.parameters[path]
        if e.sd is not None:
            held.append(bool(abs(e.value - value) <= COVER * e.sd))
        else:
            held.append(bool(min(e.value, e.limit) <= value <= max(e.value, e.limit)) if e.limit is not None else None)
    which = result.lacks[0].path if result.lacks else ""
    return [held, alarms(result), which, result.converged, seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.seeds)
    done = rows(FILE, [(c, s) for s in seeds for c in asked.cases], work, asked.processes)
    print("| case | fits | intervals that hold the truth | asked | alarms | not converged | CPU s |\n|---|---|---|---|---|---|---|")
    false, right = Counter[str](), 0
    for c in asked.cases:
        case, got = CASES[c], [done[c, s] for s in seeds]
        held = [h for g in got if g[3] for h in g[0] if h is not None]
        wanted = f"{100 * case.least:.0f}" + (f" to {100 * case.most:.0f}" if case.most < 1.0 else " or more")
        against = [[q for q in g[1] if q not in ASIDE] for g in got]
        if not case.missing:
            false.update(q for questions in against for q in questions)
            right += len(got)
        print(
            f"| {c} | {len(got)} | {100 * np.mean(held):.1f} % of {len(held)} | {wanted} % | {sum(map(bool, against))} ({'wanted' if case.missing else 'false'}) "
            f"| {sum(not g[3] for g in got)} | {np.median([g[4] for g in got]):.2f} |"
        )
    print(f"\nFalse alarms by question, of {right} fits: " + ("; ".join(f"{q} {n}" for q, n in false.most_common()) or "none") + ".")


if __name__ == "__main__":
    main()
