"""A long recording by shooting: half a million samples of a double pendulum, and the memory that takes.

    python benchmarks/long.py                 # 500 000 samples of each angle
    python benchmarks/long.py --samples 50000

Single steps of 10 ms, windows of 1000 steps, the motion driven so that it goes on. Prints the largest memory of the process, the processor time of the fit, and how far the estimates are from the truth.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import calibody as cb

H, SD = 0.01, 2e-3


def model() -> cb.Model:
    links = [
        cb.Body("upper", mass=1.0, com=(0.0, 0.0, -0.2), inertia=(0.02, 0.02, 0.001)),
        cb.Body("lower", "upper", mass=0.6, com=(0.0, 0.0, -0.15), inertia=(0.01, 0.01, 0.001), position=(0.0, 0.0, -0.4)),
    ]
    joints = [cb.Joint(f"hinge{i}", link.name, axis=(0.0, 1.0, 0.0), damping=0.08) for i, link in enumerate(links)]
    return cb.Model("double", links, joints, actuators=[cb.Actuator("motor", "hinge0")])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=500_000)
    samples = parser.parse_args().samples
    times = H * np.arange(samples)
    random = np.random.default_rng(0)
    held = random.normal(0.0, 0.8, samples // 50 + 1).repeat(50)[:samples]
    signal = cb.Signal(times, held)
    motion = cb.simulate(model(), times[-1], H, {"joint.hinge0.angle": 0.3}, {"actuator.motor": signal})
    channels = [f"joint.hinge{i}.angle" for i in range(2)]
    run = cb.Recording(
        "long", [cb.Observation(c, times, motion[c] + SD * random.standard_normal(samples), SD) for c in channels], [cb.Drive("actuator.motor", signal)]
    )
    del motion
    unknowns = {
        "body.lower.mass": cb.Unknown(0.7),
        "body.lower.inertia.yy": cb.Unknown(0.012),
        "joint.hinge0.damping": cb.Unknown(0.06),
        "joint.hinge1.damping": cb.Unknown(0.1),
    }
    began = time.process_time()
    result = cb.fit(model(), run, unknowns, method=cb.Shooting(windows=max(1, samples // 1000), h=H))
    busy = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{samples} samples of {len(channels)} channels: {result.status}, {result.iterations} iterations, {busy:.0f} s of processor, {memory:.2f} GB at most")
    for name, e in result.parameters.items():
        print(
            f"  {name:24} {e.value:.6g} +- {e.sd or float('nan'):.2g}   truth {model()[name]:g}   z {(e.value - model()[name]) / (e.sd or float('nan')):+.2f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
