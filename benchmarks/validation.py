"""Whether bands of what a fit has not seen hold: leave-one-out over three runs, and the second half of one, of a driven pendulum.

    python benchmarks/validation.py [SEEDS]

Printed for the right model, for the right model under a force that is drawn anew every sample ("auto"), and for one that lacks dry friction: the share of the samples inside the 95 % band, the errors in units of
the band (rms over all runs, and the largest), and in how many fits the report would say that the model does not predict. Seeds are counted from 0.
"""

from __future__ import annotations

import sys
from statistics import NormalDist

import numpy as np

import calibody as cb

TIMES, SD, FORCE = np.arange(0.0, 4.005, 0.01), 0.005, 0.02
TRUTH = {"body.arm.mass": 0.4, "body.arm.inertia.yy": 0.012, "joint.hinge.damping": 0.02}
CASES = {"right": (0.0, 0.0), "shaken": (0.0, FORCE), "dry friction missing": (0.05, 0.0)}


def pendulum(friction: float = 0.0) -> cb.Model:
    arm = cb.Body("arm", mass=0.4, com=(0, 0, -0.3), inertia=(0.012, 0.012, 0.0004))
    hinge = cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.02, friction=friction)
    return cb.Model("pendulum", [arm], [hinge], actuators=[cb.Actuator("motor", "hinge")])


def recorded(seed: int, name: str, friction: float, force: float) -> cb.Recording:
    random = np.random.default_rng(seed)
    u = random.uniform(0.4, 0.9) * np.sin(random.uniform(2, 5) * TIMES) + 0.4 * np.sin(random.uniform(6, 10) * TIMES)
    pushed = cb.Signal(TIMES, u + force * random.normal(size=len(TIMES)), hold="zero")
    moved = cb.simulate(pendulum(friction), 4.0, 0.001, {"joint.hinge.angle": 0.5 * random.normal()}, {"actuator.motor": pushed})
    angle = moved["joint.hinge.angle"][::10] + SD * random.normal(size=len(TIMES))
    return cb.Recording(name, (cb.Observation("joint.hinge.angle", TIMES, angle, sd=SD),), (cb.Drive("actuator.motor", cb.Signal(TIMES, u, hold="zero")),))


def validated(case: str, seed: int, count: int) -> tuple[list[float], list[float], int]:
    """Shares inside the band and errors in units of it, by run, and how many could not be predicted."""
    runs = [recorded(100 * seed + k, f"run{k}", *CASES[case]) for k in range(count)]
    noise = "auto" if case == "shaken" else "none"
    result = cb.fit(pendulum(), runs, {path: cb.Unknown(1.5 * value) for path, value in TRUTH.items()}, h=0.005, process_noise=noise)
    if not result.converged:
        return [], [], count
    found = result.validate()
    return list(found.inside_by_run.values()), list(found.in_bands.values()), len(found.failed)


def main() -> None:
    seeds = int(sys.argv[1]) if sys.argv[1:] else 40
    for case in CASES:
        for count in (3, 1):
            found = cb.sweep(validated, [{"case": case, "seed": seed, "count": count} for seed in range(seeds)])
            inside, off = ([x for each in found for x in each[k]] for k in (0, 1))
            limit = NormalDist().inv_cdf(1.0 - 0.5 * 0.01 / count)
            said = sum(max(each[1], default=0.0) > limit for each in found)
            print(
                f"{case:22} {'each of three runs' if count > 1 else 'second half':20}: {100 * np.mean(inside):5.1f} % inside, errors {np.sqrt(np.mean(np.square(off))):6.2f} of the band, at most {max(off):6.2f}, "
                f"said in {said} of {seeds} fits, {sum(each[2] for each in found)} runs not predicted",
                flush=True,
            )


if __name__ == "__main__":
    main()
