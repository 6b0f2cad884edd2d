"""Excitation design: are error bars foreseen as fits find them, and how much more does a designed excitation tell than a chirp?

    python benchmarks/design.py                    # all of it, some minutes
    python benchmarks/design.py foreseen           # the first table alone: furuta, double, arm
    python benchmarks/design.py arm                # one gain: played, crossed, followed, furuta, arm

**Foreseen**: the error bars of the fit of a recording beside those that its drives and start alone let foresee, at the estimate: the demo `furuta`, the race's gentle double pendulum (the folder `shared` beside the repository), and
the seven-joint arm of `benchmarks/arm.py` (its base parameters; smoother frictions, see VISCOUS).

**Gains**: the worst standard deviation of the determined combinations with a chirp on all joints at once and with a design, both within the same limits and with the same root mean square of every force; against the
band of three (0.1 to 0.5, 2 and 5 Hz) that tells most, and against 0.1 to 5 Hz. Limits are looked at once more on a mesh of 1 ms. Of two joints that follow ways there is a bound that no way can beat (`floor`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import arm as seven
import numpy as np

import calibody as cb
from calibody.estimate.designs.excitation import Followed, bare
from calibody.estimate.designs.within import limits_of

BANDS = (0.5, 2.0, 5.0)
VISCOUS, SECONDS = 0.05, 3.0
"""Of the seven-joint arm whose error bars are foreseen: the rate [rad/s] below which its frictions are viscous, and the length of its recording [s]. So meshes are refined until nothing moves any more. Ten seconds of
frictions that are sharp to 1 mrad/s, as `benchmarks/arm.py` has them, end on a mesh of 2 ms that still moves parameters by 30 of their bars; those then allow for what looks like something missing, which no forecast can know."""
SHARED = Path(__file__).resolve().parents[2] / "shared"


def ratios(result: cb.Result, forecast: cb.Forecast) -> np.ndarray:
    """Foreseen over found, of all parameters that have an error bar in both, and of the combinations that the fit determines."""
    bars = [(forecast.parameters[p].sd, e.sd) for p, e in result.parameters.items()]
    bars += [(forecast.sd(dict(d.terms)), d.sd) for d in result.determined if d.terms]
    return np.array([a / b for a, b in bars if a is not None and b is not None])


def line(name: str, found: np.ndarray, seconds: float) -> None:
    outside = int(((found < 0.8) | (found > 1.2)).sum())
    print(
        f"{name:28} {len(found):3d} bars, foreseen over fitted {found.min():.3f} to {found.max():.3f}, {outside} outside of 20 %; {seconds:.1f} CPU s",
        flush=True,
    )


def of_result(result: cb.Result, unknowns: Mapping[str, Any]) -> cb.Forecast:
    """From the drives of its recording, and the start, alone."""
    run, motion = result.recordings[0], result.motion()
    sd = {o.channel: float(o.noise[0] or 0.0) for o in run.observations}
    drive = {d.channel: cb.Signal(d.signal.times - run.start, d.signal.values, d.signal.hold) for d in run.drives}
    joints = [j for j in result.model.joints if j.kind == "hinge"]
    initial = {f"joint.{j.name}.{word}": float(motion[f"joint.{j.name}.{word}"][0]) for j in joints for word in ("angle", "rate")}
    values = {p: cb.Unknown(e.value, scale=unknowns[p].scale, lower=unknowns[p].lower) for p, e in result.parameters.items()}
    return cb.forecast(result.model, values, list(sd), sd, run.duration, drive, initial=initial, rate=1.0 / run.period)


def foreseen() -> None:
    from calibody.demos import write
    from calibody.experiment import load

    with tempfile.TemporaryDirectory() as folder:
        experiment = load(write("furuta", Path(folder)))
        began = time.process_time()
        result = cb.fit(experiment.model(), experiment.runs(), experiment.estimate())
        line("furuta demo", ratios(result, of_result(result, experiment.estimate())), time.process_time() - began)
    if (SHARED / "race").is_dir():
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
        from race_problems import problem

        model, run, truth = problem(SHARED, "gentle_double")
        unknowns = {p: cb.Unknown(1.5 * x) for p, x in truth.items()}
        began = time.process_time()
        result = cb.fit(model, run, unknowns)
        line("race, gentle double", ratios(result, of_result(result, unknowns)), time.process_time() - began)
    began = time.process_time()
    found = of_the_arm()
    if found is None:
        print("The arm is left out: pybullet's data are not installed.")
        return
    line("seven joints", found, time.process_time() - began)


def of_the_arm() -> np.ndarray | None:
    """Ratios of the seven-joint arm; None without its file."""
    built = seven.arm()
    if built is None:
        return None
    model, joints, friction = built
    model = model.replace({f"joint.{j}.friction_rate": VISCOUS for j in joints})
    run = seven.recorded(model, joints, SECONDS)
    guess, unknowns = seven.guessed(model, joints, friction)
    result = cb.fit(guess, run, unknowns)
    motion = result.motion()
    ways = {f"joint.{j}.angle": (motion.time - motion.time[0], motion[f"joint.{j}.angle"]) for j in joints}
    return ratios(result, cb.forecast(result.model, dict.fromkeys(unknowns), list(ways), seven.SD, run.duration, ways, rate=1000.0))


# -- gains ---------------------------------------------------------------------------------------------------------------------------------


def chirp(duration: float, highest: float, size: float, calm: bool) -> Any:
    """From 0.1 Hz on; `calm`: it begins and ends at rest, as the way of a joint has to."""

    def way(t: np.ndarray) -> np.ndarray:
        ramp = np.clip(np.minimum(t, duration - t) / 0.5, 0.0, 1.0) if calm else np.ones_like(t)
        return size * ramp**2 * (3.0 - 2.0 * ramp) * np.sin(2.0 * np.pi * (0.1 * t + (highest - 0.1) / (2.0 * duration) * t**2))

    return way


def gain(
    name: str,
    model: cb.Model,
    unknowns: Mapping[str, Any],
    channels: list[str],
    sd: Any,
    duration: float,
    limits: Mapping[str, Any],
    excite: list[str],
    rate: float,
    **how: Any,
) -> None:
    following = excite[0].endswith((".angle", ".position"))
    moved = bare(model, []) if following else model
    forces = [f"joint.{path.split('.')[1]}.force" for path in excite] if following else excite
    kept, tried = limits_of(moved, limits, {}), {}
    for band in BANDS:
        ways, motion = largest_chirp(moved, band, duration, limits, excite, rate)
        rms = {path: float(np.sqrt(np.mean(motion[path] ** 2))) for path in forces}
        tried[band] = cb.forecast(model, unknowns, channels, sd, duration, ways, rate=rate), rms
    best = min(BANDS, key=lambda band: tried[band][0].worst)
    for band in dict.fromkeys((best, 5.0)):
        began = time.process_time()
        found = cb.design(model, unknowns, channels, sd, duration, limits, excite=excite, rms=tried[band][1], rate=rate, **how)
        fine = played_again(found, model, duration, rate)
        worst = max(float(limit.beyond(fine).max()) for limit in kept)
        parameter = tried[band][0].worst_parameter[1] / found.forecast.worst_parameter[1]
        print(
            f"{name:28} chirp 0.1 to {band:g} Hz {100 * tried[band][0].worst:.3g} %, design {100 * found.forecast.worst:.3g} %: {tried[band][0].worst / found.forecast.worst:.2f} times "
            f"(worst single parameter {parameter:.2f}); limits kept to {worst:+.4f}; {found.evaluations} evaluations, {time.process_time() - began:.0f} CPU s",
            flush=True,
        )


def largest_chirp(model: cb.Model, band: float, duration: float, limits: Mapping[str, Any], excite: list[str], rate: float) -> tuple[dict[str, Any], cb.Motion]:
    """On all joints at once, in proportion to their limits, as large as those allow."""
    following, kept = excite[0].endswith((".angle", ".position")), limits_of(model, limits, {})
    for size in 0.95 ** np.arange(100):
        ways = {path: chirp(duration, band, size * limits[path], following) for path in excite}
        motion = Followed(ways).motion(model, duration, 0.005) if following else simulated(model, ways, duration, rate)
        if motion is not None and all(limit.beyond(motion).max() <= 0.0 for limit in kept):
            return ways, motion
    raise SystemExit("no chirp stays within the limits")


def played_again(found: cb.Design, model: cb.Model, duration: float, rate: float) -> cb.Motion:
    """On a mesh of 1 ms; of joints that follow a way as they were designed."""
    if found.following:
        return found.motion
    motion = simulated(model, {c: partial(np.interp, xp=found.times, fp=u) for c, u in found.excited.items()}, duration, rate)
    assert motion is not None
    return motion


def simulated(model: cb.Model, ways: Mapping[str, Any], duration: float, rate: float) -> cb.Motion | None:
    times = np.arange(round(duration * rate) + 1) / rate
    try:
        return cb.simulate(model, duration, 0.001, {}, {c: (times, way(times)) for c, way in ways.items()})
    except cb.SimulationError:
        return None


def double() -> tuple[cb.Model, dict[str, Any]]:
    """Two links that hang, driven at both joints: the race's double pendulum, without its files."""
    bodies = [
        cb.Body("link1", mass=1.2, com=(0, 0, -0.2), inertia=(0.03, 0.03, 0.03)),
        cb.Body("link2", "link1", position=(0, 0, -0.4), mass=0.6, com=(0, 0, -0.15), inertia=(0.015, 0.015, 0.015)),
    ]
    joints = [
        cb.Joint("hinge1", "link1", axis=(0, 1, 0), damping=0.05, friction=0.1),
        cb.Joint("hinge2", "link2", axis=(0, 1, 0), damping=0.025, friction=0.05),
    ]
    model = cb.Model("double", bodies, joints, actuators=[cb.Actuator("motor1", "hinge1"), cb.Actuator("motor2", "hinge2")])
    words = ("body.link{}.mass", "body.link{}.inertia.yy", "joint.hinge{}.damping", "joint.hinge{}.friction")
    return model, {word.format(i): cb.Unknown() for i in (1, 2) for word in words}


def crossed() -> tuple[cb.Model, dict[str, Any]]:
    """Two links that hang, the second of which, heavier, swings across the first: motions in space, other masses, limits and noise."""
    bodies = [
        cb.Body("link1", mass=0.8, com=(0, 0, -0.1), inertia=(0.01, 0.012, 0.004)),
        cb.Body("link2", "link1", position=(0, 0, -0.25), mass=1.0, com=(0.02, 0, -0.2), inertia=(0.02, 0.022, 0.005)),
    ]
    joints = [
        cb.Joint("hinge1", "link1", axis=(0, 1, 0), damping=0.02, friction=0.06),
        cb.Joint("hinge2", "link2", axis=(1, 0, 0), damping=0.03, friction=0.04),
    ]
    model = cb.Model("crossed", bodies, joints, actuators=[cb.Actuator("motor1", "hinge1"), cb.Actuator("motor2", "hinge2")])
    paths = (
        "body.link1.inertia.yy",
        "body.link2.mass",
        "body.link2.com.z",
        "body.link2.inertia.xx",
        *(f"joint.hinge{i}.{word}" for i in (1, 2) for word in ("damping", "friction")),
    )
    return model, {path: cb.Unknown() for path in paths}


EXCITED, ANGLES = ["actuator.motor1", "actuator.motor2"], ["joint.hinge1.angle", "joint.hinge2.angle"]


def two_joints(name: str) -> tuple[cb.Model, dict[str, Any], float, dict[str, Any]]:
    """A machine with two joints whose drives are played: the model, what is unknown, noise of the angles, limits."""
    made, sd, *bounds = {"played": (double, 0.01, (3.3, 1.65), (2.5, 2.5), (20.0, 20.0)), "crossed": (crossed, 0.005, (4.0, 1.5), (1.5, 2.0), (12.0, 15.0))}[
        name
    ]
    channels = ("actuator.motor{}", "joint.hinge{}.angle", "joint.hinge{}.rate")
    return *made(), sd, {channel.format(i + 1): x[i] for channel, x in zip(channels, bounds, strict=True) for i in (0, 1)}


def played(name: str = "played", seeds: tuple[int, ...] = (0, 1, 2)) -> None:
    model, unknowns, sd, limits = two_joints(name)
    for seed in seeds:
        gain(f"two joints, {name}, seed {seed}", model, unknowns, ANGLES, sd, 8.0, limits, EXCITED, 100.0, seed=seed)


def followed() -> None:
    model, unknowns = double()
    sd = dict.fromkeys(ANGLES, 1e-3) | {"joint.hinge1.force": 0.1, "joint.hinge2.force": 0.05}
    limits = dict.fromkeys(ANGLES, 1.5) | {f"joint.hinge{i}.{word}": x for i in (1, 2) for word, x in (("rate", 6.0), ("force", 8.0))}
    for joint in model.joints:
        least = floor(joint, sd[f"joint.{joint.name}.force"], limits[f"joint.{joint.name}.rate"], 801)
        print(f"no way within the limits of rates tells damping and friction of {joint.name} to better than {100 * least:.3g} %", flush=True)
    gain("two joints, ways followed", model, unknowns, list(sd), sd, 8.0, limits, ANGLES, 100.0)


def floor(joint: cb.Joint, sd: float, rate: float, samples: int) -> float:
    """The least standard deviation that damping and dry friction of a joint can have in units of their values, the worse of all combinations of both, whatever way the joint follows.

    If everything else were known, angles and rates exactly, every sample of the torque, of noise sd, would say `|c v + f|` at its rate v and no more: the information is N/sd^2 times the mean of `r r'`, r = (c v, f), over how the
    rates are spread between zero and their limit. The spread whose smallest eigenvalue is largest is found by linear programming; looked at in few directions u, `u'(r r')u >= t`, the bound is rather too low than too high.
    """
    from scipy.optimize import linprog

    v, angle = np.linspace(0.0, rate, 201), np.linspace(0.0, np.pi, 361)
    squares = (np.outer(joint.damping * v, np.cos(angle)) + joint.friction * np.sin(angle)) ** 2
    ones = np.ones((1, len(v)))
    best = linprog(
        np.r_[-1.0, np.zeros(len(v))], A_ub=np.c_[np.ones(len(angle)), -squares.T], b_ub=np.zeros(len(angle)), A_eq=np.c_[np.zeros((1, 1)), ones], b_eq=[1.0]
    )
    return float(sd / np.sqrt(samples * best.x[0]))


def furuta() -> None:
    """The demo's mechanism, one motor and two angles, thirteen unknowns, some of which nothing tells."""
    from calibody.demos import write
    from calibody.experiment import load

    with tempfile.TemporaryDirectory() as folder:
        experiment = load(write("furuta", Path(folder)))
        truth = json.loads((Path(folder) / "truth.json").read_text())
        model = experiment.model().replace({path: value for path, value in truth.items() if path in experiment.estimate()})
    limits = {"actuator.motor": 2.5, "joint.shaft.angle": 3.0, "joint.hinge.angle": 1.5, "joint.shaft.rate": 25.0, "joint.hinge.rate": 25.0}
    for seed in (0, 1):
        gain(
            f"furuta demo, played, seed {seed}", model, experiment.estimate(), ["joint.shaft.angle", "joint.hinge.angle"], 0.005, 8.0, limits,
            ["actuator.motor"], 100.0, seed=seed,
        )  # fmt: skip


def arm() -> None:
    built = seven.arm()
    if built is None:
        print("The arm is left out: pybullet's data are not installed.")
        return
    model, joints, friction = built
    unknowns = {f"body.{model.joint(j).body}.inertia": cb.Unknown() for j in joints} | {p: cb.Unknown() for p in friction}
    numbers = zip(joints, (2.0, 1.5, 2.0, 1.5, 2.0, 1.5, 2.0), (1.4, 1.4, 1.7, 1.2, 2.2, 2.3, 2.3), (300, 300, 200, 200, 100, 100, 60), strict=True)
    limits = {f"joint.{j}.{word}": x for j, *three in numbers for word, x in zip(("angle", "rate", "force"), three, strict=True)}
    angles = [f"joint.{j}.angle" for j in joints]
    gain("seven joints, ways followed", model, unknowns, angles, seven.SD, 10.0, limits, angles, 1000.0, functions=6, improved=1)


PARTS = {"foreseen": foreseen, "played": played, "crossed": partial(played, "crossed", (0, 1)), "followed": followed, "furuta": furuta, "arm": arm}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which of them; without any, all")
    for part in parser.parse_args().parts or PARTS:
        PARTS[part]()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
