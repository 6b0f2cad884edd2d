"""A seven-joint arm: 70 inertial and 14 friction parameters from 10 s of joint angles and torques at 1 kHz.

    python benchmarks/arm.py                 # time, memory, errors in units of the error bars
    python benchmarks/arm.py --seconds 2     # a shorter recording
    python benchmarks/arm.py --finer 1       # meshes halved once more than a fit does by itself

The arm is kuka_iiwa/model.urdf of pybullet's data (the `test` extra); without it, it says so and does nothing. Its joints have viscous (0.3 to
0.9 N m s) and Coulomb friction (0.2 to 0.5 N m; viscous below 1 mrad/s). It follows sums of five sines (0.1 to 0.5 Hz, 0.7 rad to either side, as is
usual for identification) under computed torque with friction compensation plus a proportional-derivative controller. The truth is simulated with
h = 0.25 ms; recorded are the angles with noise of 0.1 mrad and the torque as its mean over every millisecond. The fit knows the geometry; masses
and inertias begin up to 30 % off, frictions at three times the truth.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import sys
import time
from pathlib import Path

import numpy as np

import calibody as cb
from calibody.estimate import level

SD = 1e-4
"""Noise of the angles [rad]."""
PERIOD, FINE = 1e-3, 4
"""Sampling period [s], and steps of the simulation in each."""
SHARP = 1e-3
"""Rate [rad/s] below which the simulated friction is viscous."""
STIFFNESS = (2000.0, 2000.0, 1000.0, 1000.0, 200.0, 200.0, 50.0)
DAMPING = (60.0, 60.0, 30.0, 30.0, 4.0, 2.0, 0.3)
"""Of the controller [N m/rad, N m s/rad]."""


def arm() -> tuple[cb.Model, list[str], dict[str, float]] | None:
    """The arm with its friction, the names of its joints, and the true frictions by path."""
    found = importlib.util.find_spec("pybullet_data")
    if found is None or found.origin is None:
        return None
    model = cb.load(Path(found.origin).parent / "kuka_iiwa" / "model.urdf")
    joints = [j.name for j in model.joints if j.kind == "hinge"]
    friction = {f"joint.{j}.damping": 0.3 + 0.1 * k for k, j in enumerate(joints)} | {f"joint.{j}.friction": 0.2 + 0.05 * k for k, j in enumerate(joints)}
    return model.replace(friction), joints, friction


def recorded(model: cb.Model, joints: list[str], seconds: float, seed: int = 0) -> cb.Recording:
    """Simulate the controlled arm; record angles and torques."""
    from scipy.interpolate import CubicSpline

    rng = np.random.default_rng(seed)
    n, w = len(joints), 2 * np.pi * 0.1 * np.arange(1, 6)
    size = rng.uniform(-1, 1, (n, 5)) / np.sqrt(np.arange(1, 6))
    size *= (1.2 / np.abs(size).sum(1))[:, None]
    phase = rng.uniform(0, 2 * np.pi, (n, 5))

    def reference(t: np.ndarray, derivative: int = 0) -> np.ndarray:
        """(joints, instants)"""
        x = w[:, None] * t + 0.5 * np.pi * derivative
        return np.einsum("ji,jit->jt", size * w**derivative, np.sin(x[None] + phase[:, :, None]))

    h = PERIOD / FINE
    ends = h * np.arange(round(seconds / h) + 1)
    middle = ends[:-1] + 0.5 * h
    coarse = np.arange(0.0, seconds + 0.051, 0.05)
    bare = model.replace({f"joint.{j}.{word}": 0.0 for j in joints for word in ("damping", "friction")})
    motion = [reference(coarse, k).T for k in range(3)]
    rigid = CubicSpline(coarse, [cb.inverse_dynamics(bare, *x) for x in zip(*motion, strict=True)])(middle).T
    rate = reference(middle, 1)
    viscous, dry = (np.array([model[f"joint.{j}.{word}"] for j in joints])[:, None] for word in ("damping", "friction"))
    K, D = np.array(STIFFNESS)[:, None], np.array(DAMPING)[:, None]
    wanted = rigid + viscous * rate + dry * np.clip(rate / SHARP, -1, 1) + K * reference(middle) + D * rate
    # the controller's springs and dampers are simulated as the joints' own; their torque is counted as the motors'
    controlled = model.replace(
        {f"joint.{j}.stiffness": float(K[i, 0]) for i, j in enumerate(joints)}
        | {f"joint.{j}.damping": float(viscous[i, 0] + D[i, 0]) for i, j in enumerate(joints)}
    )
    start = reference(np.zeros(1)), reference(np.zeros(1), 1)
    initial = {f"joint.{j}.{word}": float(x[i, 0]) for word, x in zip(("angle", "rate"), start, strict=True) for i, j in enumerate(joints)}
    drive = {f"joint.{j}.force": cb.Signal(ends[:-1], wanted[i]) for i, j in enumerate(joints)}
    found = cb.simulate(controlled, seconds, h, initial, drive, cb.Variational(friction_rate=SHARP))
    q = np.array([found[f"joint.{j}.angle"] for j in joints])
    intervals = (q.shape[1] - 1) // FINE * FINE
    torque = wanted[:, :intervals] - K * 0.5 * (q[:, 1:] + q[:, :-1])[:, :intervals] - D * np.diff(q)[:, :intervals] / h
    torque = torque.reshape(n, -1, FINE).mean(axis=2)
    t = PERIOD * np.arange(torque.shape[1] + 1)
    y = q[:, : intervals + 1 : FINE] + SD * rng.normal(size=(n, len(t)))
    observed = tuple(cb.Observation(f"joint.{j}.angle", t, y[i], SD) for i, j in enumerate(joints))
    return cb.Recording("arm", observed, tuple(cb.Drive(f"joint.{j}.force", cb.Signal(t[:-1], torque[i])) for i, j in enumerate(joints)))


def guessed(model: cb.Model, joints: list[str], friction: dict[str, float], seed: int = 1) -> tuple[cb.Model, dict[str, cb.Unknown]]:
    """The model with wrong masses and inertias, and the unknowns."""
    rng = np.random.default_rng(seed)
    numbers = {}
    for j in joints:
        body = model.body(model.joint(j).body)
        factor = rng.uniform(0.7, 1.3)
        numbers[f"body.{body.name}.mass"] = body.mass * factor
        numbers |= {f"body.{body.name}.inertia.{a}": x * factor for a, x in zip(("xx", "yy", "zz", "xy", "xz", "yz"), body.inertia, strict=True)}
    unknowns = {f"body.{model.joint(j).body}.inertia": cb.Unknown() for j in joints} | {path: cb.Unknown(3.0 * x) for path, x in friction.items()}
    return model.replace(numbers), unknowns


def linear_numbers(model: cb.Model, joints: list[str]) -> dict[str, float]:
    """mass, first moment and inertia about the origin of every moving body, by the names that sums are reported with."""
    out: dict[str, float] = {}
    for j in joints:
        b = model.body(model.joint(j).body)
        c = np.array(b.com)
        xx, yy, zz, xy, xz, yz = b.inertia
        I = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) + b.mass * (c @ c * np.eye(3) - np.outer(c, c))
        out[f"body.{b.name}.mass"] = b.mass
        out |= {f"body.{b.name}.moment.{a}": b.mass * x for a, x in zip("xyz", c, strict=True)}
        out |= {f"body.{b.name}.origin.{a}{d}": float(I["xyz".index(a), "xyz".index(d)]) for a, d in ("xx", "yy", "zz", "xy", "xz", "yz")}
    return out


def deviations(result: cb.Result, model: cb.Model, joints: list[str], friction: dict[str, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors of frictions, of single inertial numbers and of base combinations, in units of their error bars with the discretisation error."""

    def z(x: float, true: float, sd: float, mesh: float | None) -> float:
        return (x - true) / float(np.hypot(sd, mesh or 0.0))

    frictions, singles = [], []
    for path, e in result.parameters.items():
        if e.sd is not None:
            true = friction[path] if path in friction else float(model[path])
            (frictions if path in friction else singles).append(z(e.value, true, e.sd, e.discretisation_error))
    numbers = linear_numbers(model, joints) | friction
    sums = [z(d.value, sum(c * numbers[name] for name, c in d.terms), d.sd, d.discretisation_error) for d in result.determined]
    return np.array(frictions), np.array(singles), np.array(sums)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--finer", type=int, default=0, help="so many meshes more than a fit does by itself")
    parser.add_argument("--table", action="store_true", help="print all frictions and combinations")
    options = parser.parse_args()
    built = arm()
    if built is None:
        print("The arm is left out: pybullet's data are not installed (pip install pybullet).")
        return 0
    model, joints, friction = built
    run = recorded(model, joints, options.seconds)
    guess, unknowns = guessed(model, joints, friction)
    level.LARGEST *= 2**options.finer
    began, before = time.perf_counter(), time.process_time()

    def line(i: object) -> None:
        print(f"\r{i.number:3d}  cost {i.cost:.6g}  change {i.change:.2g} sd   {time.perf_counter() - began:.0f} s", end="   ", file=sys.stderr)  # type: ignore[attr-defined]

    result = cb.fit(guess, run, unknowns, report=line)
    seconds, busy = time.perf_counter() - began, time.process_time() - before
    print(file=sys.stderr)
    frictions, singles, sums = deviations(result, model, joints, friction)
    print(f"{len(joints)} joints, {options.seconds:g} s at 1 kHz, {len(result.theta)} unknowns: {result.status}")
    print(
        f"{seconds:.1f} s, {busy:.1f} s of cores, {result.iterations} iterations, h = {1e3 * result.mesh.h:.3g} ms after {result.mesh.refinements} refinements"
    )
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB; chi2/dof {result.chi2 / result.dof:.3f}")
    for name, x in (("frictions", frictions), ("single inertial numbers", singles), ("base combinations", sums)):
        print(f"{len(x):3d} {name}: errors of {np.sqrt(np.mean(x**2)):.2f} error bars rms, {np.abs(x).max(initial=0.0):.2f} at most")
    shares = [result.parameters[path] for path in friction]
    coarse = [e.discretisation_error / e.sd for e in shares if e.sd is not None and e.discretisation_error is not None]
    print(f"discretisation error of frictions: {np.median(coarse):.2g} standard deviations in the median, {max(coarse):.2g} at most")
    numbers = linear_numbers(model, joints) | friction
    worst = max(abs(result.parameters[path].value / true - 1.0) for path, true in friction.items())
    terms = [[c * numbers[name] for name, c in d.terms] for d in result.determined]
    off = [abs(d.value - sum(t)) / np.abs(t).sum() for d, t in zip(result.determined, terms, strict=True) if len(t) > 1]  # single numbers may be zero
    print(f"largest error of a friction {100 * worst:.2g} %; of a combination {100 * max(off):.2g} % of its terms, median {100 * float(np.median(off)):.2g} %")
    if options.table:
        for path, true in friction.items():
            e = result.parameters[path]
            print(f"{path}: {e.value:.5f} +- {e.sd:.2g} (true {true:.5g}, mesh {e.discretisation_error})")
        for d in result.determined:
            print(f"{d.expression} = {d.value:.6g} +- {d.sd:.2g} (mesh {d.discretisation_error})")
    for note in result.notes:
        print(note)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
