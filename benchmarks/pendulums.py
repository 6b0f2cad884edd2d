"""The pendulums of [kraus2006], chapter 13: gravity, and a spring with its damper, from guesses up to twenty times off, by shooting and by transcription.

    python benchmarks/pendulums.py

Single: a body on a hinge, let go along x; x and z of its centre at ten times in 0.5 s with 1 % noise, the start known, g unknown. Double: two such bodies with a spring from (1.5, 0, 1) to the centre of the second; rest
length, stiffness and damping unknown, times a common factor, 1e-4 noise (with 1 % the three are not determined apart). Iterations are linearisations until the step is below 1e-3 standard deviations.
The thesis' best and its classical method stand beside ours (x: diverged). Windows are one, five (as in the thesis) and as many as `windows = "auto"` makes, one every ten steps.

    python benchmarks/pendulums.py --globalisation penalty natural restrictive --back-projection no yes    # all ways to choose the length of a step
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np

import calibody as cb
from calibody.solve.globalisation import GLOBALISATIONS

INERTIA = (2.5, 2.0, 2.0)
H = 0.005
GUESSES = (-10.0, -30.0, -50.0, -70.0, -100.0, -150.0, -200.0)
FACTORS = (1.1, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
PRINTED = {"single": ("1 2 3 3 4 7 6", "1 3 4 5 19 x 16"), "double": ("2 3 3 4 5 3 4", "3 4 5 6 x x x")}


def single(g: float = -9.81) -> cb.Model:
    body = cb.Body("b1", mass=2.0, com=(0.5, 0.0, 0.0), inertia=INERTIA)
    world = cb.World(gravity=(0.0, 0.0, g))
    return cb.Model("single", [body], [cb.Joint("j1", "b1", axis=(0.0, 1.0, 0.0))], sites=[cb.Site("com", "b1", (0.5, 0.0, 0.0))], world=world)


def double(factor: float = 1.0) -> cb.Model:
    one = cb.Body("b1", mass=2.0, com=(0.5, 0.0, 0.0), inertia=INERTIA)
    two = cb.Body("b2", "b1", mass=2.0, com=(0.5, 0.0, 0.0), inertia=INERTIA, position=(1.0, 0.0, 0.0))
    spring = cb.Spring("s", "world", "b2", (1.5, 0.0, 1.0), (0.5, 0.0, 0.0), stiffness=10.0 * factor, damping=10.0 * factor, rest_length=factor)
    joints = [cb.Joint(f"j{i}", f"b{i}", axis=(0.0, 1.0, 0.0)) for i in (1, 2)]
    return cb.Model("double", [one, two], joints, springs=[spring], sites=[cb.Site("com", "b2", (0.5, 0.0, 0.0))])


def recorded(model: cb.Model, samples: int, noise: float, seed: int) -> cb.Recording:
    motion, random = cb.simulate(model, 0.5, 1e-4), np.random.default_rng(seed)
    times, seen = np.linspace(0.0, 0.5, samples + 1), []
    for axis in "xz":
        y = np.interp(times, motion.time, motion[f"site.com.position.{axis}"])
        sd = float(np.sqrt(np.mean((noise * y) ** 2)))
        seen.append(cb.Observation(f"site.com.position.{axis}", times, y + noise * np.abs(y) * random.standard_normal(len(y)), sd))
    known = {f"joint.{j.name}.{what}": 0.0 for j in model.joints for what in ("angle", "rate")}
    return cb.Recording("fall", seen, initial=known)


def iterations(model: cb.Model, run: cb.Recording, unknowns: dict[str, cb.Unknown], method: object) -> tuple[str, cb.Result]:
    """Linearisations until the step is below 1e-3 standard deviations, or x."""
    result = cb.fit(model, run, unknowns, method=method)  # pyright: ignore[reportArgumentType]
    changes = [i.change for i in result.history]
    first = next((k for k, c in enumerate(changes) if c < 1e-3), len(changes))
    return (str(max(first, 1)) if result.converged else "x"), result


def methods(globalisation: str, back: bool) -> dict[str, object]:
    options = {"h": H, "globalisation": globalisation, "back_projection": back}
    shooting = {f"{windows} windows": cb.Shooting(windows=windows, **options) for windows in (1, 5, "auto")}  # pyright: ignore[reportArgumentType]
    return {**shooting, "transcription": cb.Transcription(**options)}  # pyright: ignore[reportArgumentType]


def cases() -> dict[str, list[tuple[cb.Model, dict[str, cb.Unknown]]]]:
    springs = {"spring.s.rest_length": 1.0, "spring.s.stiffness": 10.0, "spring.s.damping": 10.0}
    return {
        "single": [(single(g), {"world.gravity.z": cb.Unknown(g)}) for g in GUESSES],
        "double": [(double(f), {path: cb.Unknown(f * v) for path, v in springs.items()}) for f in FACTORS],
    }


def runs() -> dict[str, cb.Recording]:
    return {"single": recorded(single(), 10, 0.01, 1), "double": recorded(double(), 20, 1e-4, 2)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--globalisation", nargs="+", default=["natural"], choices=GLOBALISATIONS)
    parser.add_argument("--back-projection", nargs="+", default=["yes"], choices=["no", "yes"])
    options = parser.parse_args()
    for name, run in runs().items():
        print(f"{name}: the thesis' best {PRINTED[name][0]}, classical {PRINTED[name][1]}")
        for test, back in itertools.product(options.globalisation, options.back_projection):
            print(f" {test}, back projection: {back}")
            for label, method in methods(test, back == "yes").items():
                began = time.process_time()
                found = [iterations(model, run, unknowns, method) for model, unknowns in cases()[name]]
                values = ", ".join(f"{e.value:.5g} +- {e.sd:.2g}" if e.sd else f"{e.value:.5g}" for e in found[-1][1].parameters.values())
                print(f"  {label:14} {' '.join(count for count, _ in found):16} {time.process_time() - began:5.1f} s of processor    {values}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
