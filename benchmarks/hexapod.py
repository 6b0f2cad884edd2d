"""The hexapod of [kraus2006] (section 13.3): six spring stiffnesses, 400 to 900 N/m, from x, y, z of the load at 20 instants of half a second, with and without 1 % noise.

The geometry is not printed there. This one is unsymmetric on purpose: a symmetric one has a singular Jacobian at equal stiffnesses, and a second minimum. Legs are universal joints at the ground, slides with
the springs, and balls at the load (one of them in the tree, five as loops). Everything starts at rest, with all springs at their length, which the fits know. Windows are 20, as in the thesis; the noise is 1 % of
every sample, and of "exact" data the error bars are those of such noise. The marker's coordinates stay away from zero, where 1 % would be nothing.

    python benchmarks/hexapod.py
"""

from __future__ import annotations

import time

import numpy as np

import calibody as cb

TRUTH = (400.0, 500.0, 600.0, 700.0, 800.0, 900.0)
STARTS = {
    "+1": tuple(k + 1.0 for k in TRUTH), "+20": tuple(k + 20.0 for k in TRUTH), "+50": tuple(k + 50.0 for k in TRUTH), "+100": tuple(k + 100.0 for k in TRUTH),
    "600": (600.0,) * 6, "+-5": (590.0, 595.0, 600.0, 605.0, 610.0, 615.0),
}  # fmt: skip
BASE = ((0.809, -0.187), (0.765, 0.234), (-0.191, 0.828), (-0.578, 0.539), (-0.590, -0.570), (-0.182, -0.789))
TOP = ((0.317, -0.276), (0.266, 0.285), (0.092, 0.399), (-0.404, 0.147), (-0.383, -0.117), (0.114, -0.352))
HEIGHT = (0.95, 1.02, 0.98, 1.05, 0.97, 1.0)
"""[m] feet of the legs on the ground, and where they hold the load."""
MARKER, AWAY = np.array([0.35, 0.3, 1.1]), np.array([0.15, 0.15, -0.1])
"""[m] what is measured, at the start; and how far that is from the origin of the world: no coordinate passes zero, where 1 % of it would be nothing."""
H = 0.0125
"""Step of the fits' mesh [s]: two per sample."""


def hexapod(stiffness: tuple[float, ...] = TRUTH) -> cb.Model:
    bodies, joints, loops, first = [], [], [], np.zeros(3)
    for i, ((bx, by), (tx, ty), tz) in enumerate(zip(BASE, TOP, HEIGHT, strict=True)):
        foot, top = np.array([bx, by, 0.0]) - MARKER + AWAY, np.array([tx, ty, tz]) - MARKER + AWAY
        turn = cb.along(tuple(top - foot))
        bodies.append(cb.Body(f"low{i}", mass=3.0, com=(0, 0, 0.3), inertia=(0.05, 0.05, 0.005), position=tuple(foot), orientation=turn))
        bodies.append(cb.Body(f"up{i}", f"low{i}", mass=2.0, com=(0, 0, -0.3), inertia=(0.04, 0.04, 0.003), position=(0, 0, float(np.linalg.norm(top - foot)))))
        joints += [cb.Joint(f"ux{i}", f"low{i}", axis=(1, 0, 0)), cb.Joint(f"uy{i}", f"low{i}", axis=(0, 1, 0))]
        joints.append(cb.Joint(f"s{i}", f"up{i}", "slide", axis=(0, 0, 1), stiffness=stiffness[i]))
        if i == 0:
            w, x, y, z = turn  # the load's axes are those of the world
            bodies.append(
                cb.Body(
                    "load", "up0", mass=10.0, com=tuple(np.array([0.0, 0.0, 1.0]) - MARKER + AWAY - top), inertia=(0.5, 0.6, 0.9), orientation=(w, -x, -y, -z)
                )
            )
            joints.append(cb.Joint("ball0", "load", "ball"))
            first = top
        else:
            loops.append(cb.Loop(f"ball{i}", body1=f"up{i}", body2="load", anchor2=tuple(top - first)))
    return cb.Model("hexapod", bodies, joints, loops, sites=[cb.Site("marker", "load", tuple(AWAY - first))])  # type: ignore[arg-type]


def recording(noise: bool, seed: int = 1) -> cb.Recording:
    """With an sd of 1 % of every sample, and noise of that size or none; the start is known."""
    motion, random, t = cb.simulate(hexapod(), 0.5, 2.5e-4), np.random.default_rng(seed), np.linspace(0.025, 0.5, 20)
    seen = []
    for c in "xyz":
        y = motion[f"site.marker.position.{c}"][np.round(t / motion.h).astype(int)]
        sd = 0.01 * np.abs(y)
        seen.append(cb.Observation(f"site.marker.position.{c}", t, y + noise * sd * random.normal(size=len(t)), sd))
    start = {f"joint.s{i}.{what}": 0.0 for i in range(6) for what in ("position", "rate")}
    return cb.Recording("hexapod", tuple(seen), start=0.0, end=0.5, initial=start)


def fit(run: cb.Recording, start: tuple[float, ...], method: object) -> cb.Result:
    return cb.fit(hexapod(start), run, {f"joint.s{i}.stiffness": cb.Unknown(k) for i, k in enumerate(start)}, method=method)  # pyright: ignore[reportArgumentType]


METHODS = {"shooting": cb.Shooting(windows=20, h=H, coordinates="tree"), "transcription": cb.Transcription(h=H, coordinates="tree")}


def main() -> None:
    for name, method in METHODS.items():
        print(name)
        for noise in (False, True):
            run = recording(noise)
            for start, guess in STARTS.items():
                began, cpu = time.perf_counter(), time.process_time()
                result = fit(run, guess, method)
                z = [abs(p.value - k) / (p.sd or np.nan) for p, k in zip(result.parameters.values(), TRUTH, strict=True)]
                values = " ".join(f"{p.value:.1f}({p.sd or np.nan:.1f})" for p in result.parameters.values())
                seconds = f"{time.perf_counter() - began:.1f} s ({time.process_time() - cpu:.1f} s of processor)"
                print(
                    f"{'1 % noise' if noise else 'exact':>9} from {start:>4}: {result.status[:40]}, {result.iterations} iterations, {seconds}, largest z {max(z):.2f}: {values}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
