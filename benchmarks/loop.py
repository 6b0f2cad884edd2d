"""The flexible loop of [caldwell2014], section VI: both stiffnesses from the position of one point, by steepest descent with Armijo's rule as printed there, and by Gauss-Newton.

    python benchmarks/loop.py              # cost and gradient beside trep's, Gauss-Newton
    python benchmarks/loop.py --descent    # and steepest descent, to the gradient at which the paper stops

Six links of 0.2 kg in a hexagon, the first clamped; joints that turn in the plane (seven, theta) and out of it (six, psi) with springs of 20 N m/rad each; a force at the end of the third link, in its axes, the
position of that point measured without noise. Length of links, step, duration and damping are not printed; here 0.355 m, 10 ms, 1 s and 0.1 N m s/rad, as trep was given for the numbers below. The
start is known: at rest in the plane, the force acting from the first instant.

Gauss-Newton is that of `cb.fit`, by shooting and by transcription; of steepest descent the motions are those of `cb.simulate`, its slopes central differences of them.
"""

from __future__ import annotations

import argparse
import time
from functools import lru_cache
from typing import Any

import numpy as np

import calibody as cb

SIDE, MASS, DAMPING = 0.355, 0.2, 0.1
H, DURATION = 0.01, 1.0
TRUTH, GUESS = np.array([20.0, 20.0]), np.array([10.0, 25.0])
TREP = {(10.0, 25.0): (0.37064765667, (-0.114978459, 0.001119472)), (22.0, 19.0): (0.00823581851, (0.00492430656, -0.00608799471))}
"""Cost and gradient of trep's own integrator in this set-up."""
ARMIJO, ENOUGH, MOST = 0.4, 1e-3, 2000
"""Both numbers of Armijo's rule, the gradient at which the paper stops, and steps at most."""
SD = 1e-3
"""[m] of the point that is seen, for fits."""
METHODS = {"shooting, one window": cb.Shooting(h=H, windows=1), "shooting, ten windows": cb.Shooting(h=H, windows=10), "transcription": cb.Transcription(h=H)}
APART = 1e-3
"""[N m/rad] over which slopes are taken."""


def model(bend: float = 20.0, twist: float = 20.0) -> cb.Model:
    """Link 1 stands on the ground; the seventh joint in the plane closes the ring."""
    turn = (np.cos(np.pi / 6), np.sin(np.pi / 6), 0.0, 0.0)  # 60 degrees about x
    shape: dict[str, Any] = {"mass": MASS, "com": (0, SIDE / 2, 0), "inertia": (MASS * SIDE**2 / 12, 1e-5, MASS * SIDE**2 / 12)}
    bodies = [cb.Body("link1", **shape)]
    bodies += [cb.Body(f"link{i}", f"link{i - 1}", position=(0, SIDE, 0), orientation=turn, **shape) for i in range(2, 7)]
    bodies.append(cb.Body("end", "link6", 0.01, inertia=(1e-5,) * 3, position=(0, SIDE, 0), orientation=turn))
    joints = []
    for i, body in enumerate(bodies[1:], 1):
        joints += [
            cb.Joint(f"theta{i}", body.name, axis=(1, 0, 0), stiffness=bend, damping=DAMPING),
            cb.Joint(f"psi{i}", body.name, stiffness=twist, damping=DAMPING),
        ]
    joints.append(cb.Joint("theta7", "end", axis=(1, 0, 0), stiffness=bend, damping=DAMPING))
    return cb.Model("loop", bodies, joints, [cb.Loop("close", "weld", "end", "world")], sites=[cb.Site("tip", "link3", (0, SIDE, 0))])


@lru_cache
def force() -> dict[str, cb.Signal]:
    t = np.arange(0.0, DURATION + 2.0 * H, H)
    sizes = zip("xyz", (20.0, 10.0, 20.0), strict=True)
    return {f"site.tip.force.own.{c}": cb.Signal(t, size * np.cos(t / 50.0 + k * np.pi / 3.0)) for k, (c, size) in enumerate(sizes)}


def tip(a: np.ndarray) -> np.ndarray:
    """Where the point is at every step, one vector."""
    return cb.simulate(model(*a), DURATION, H, drive=force())["site.tip.position"].ravel()


def off(a: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By how much the point misses what was seen, and how that follows both stiffnesses; half its square is the cost J."""
    return tip(a) - seen, np.column_stack([(tip(a + d) - tip(a - d)) / (2.0 * APART) for d in APART * np.eye(2)])


def recording(seen: np.ndarray) -> cb.Recording:
    """What was seen of the point as a recording; all joints begin at rest."""
    ring, places = model(), seen.reshape(-1, 3)
    t = H * np.arange(len(places))
    start = {f"joint.{j.name}.{what}": 0.0 for j in ring.joints for what in ("angle", "rate")}
    observed = [cb.Observation(f"site.tip.position.{c}", t, places[:, k], SD) for k, c in enumerate("xyz")]
    return cb.Recording("loop", observed, [cb.Drive(path, signal) for path, signal in force().items()], initial=start)


def fit(run: cb.Recording, method: cb.Shooting | cb.Transcription) -> cb.Result:
    """Both stiffnesses from the guess of the paper."""
    bend = {f"joint.theta{i}.stiffness": "bend" for i in range(1, 8)}
    twist = {f"joint.psi{i}.stiffness": "twist" for i in range(1, 7)}
    unknowns = {"bend": cb.Unknown(GUESS[0], places=bend), "twist": cb.Unknown(GUESS[1], places=twist)}
    return cb.fit(model(*GUESS), run, unknowns, method=method)


def steepest(a: np.ndarray, seen: np.ndarray) -> tuple[int, int, np.ndarray]:
    """[caldwell2014]: along the gradient by 0.4^m, the first m = 0, 1, ... that lowers the cost by 0.4 of what is expected; steps, costs that were looked at, and where it ends."""
    looked = 0
    for step in range(MOST):
        r, slopes = off(a, seen)
        slope, J, length = slopes.T @ r, 0.5 * float(r @ r), 1.0
        if np.linalg.norm(slope) < ENOUGH:
            return step, looked, a
        while True:
            looked += 1
            if 0.5 * float(np.sum((tip(a - length * slope) - seen) ** 2)) <= J - ARMIJO * length * float(slope @ slope):
                break
            length *= ARMIJO
        a = a - length * slope
    return MOST, looked, a


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--descent", action="store_true")
    options = parser.parse_args()
    seen = tip(TRUTH)
    for at, (J, slope) in TREP.items():
        r, slopes = off(np.array(at), seen)
        gradient = slopes.T @ r
        print(f"at {at}: J {0.5 * r @ r:.6g}, gradient {gradient[0]:.5g} {gradient[1]:.5g};   trep {J:.6g}, {slope[0]:.5g} {slope[1]:.5g}", flush=True)
    for name, method in METHODS.items():
        for compiled in (False, True):
            began = time.process_time()
            result = fit(recording(seen), method)
            taken = f"{result.iterations} iterations, {time.process_time() - began:.1f} s of processor{' after compiling' if compiled else ''}"
            print(f"{name}: {result.status[:40]}, {taken}; {', '.join(f'{e.value:.6f}' for e in result.parameters.values())}", flush=True)
    if options.descent:
        began = time.process_time()
        steps, looked, a = steepest(GUESS, seen)
        print(
            f"steepest descent: {steps} steps, {looked} costs, {time.process_time() - began:.0f} s of processor; {a[0]:.4f}, {a[1]:.4f} (paper: 86 steps; 19.9997, 20.0120)"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
