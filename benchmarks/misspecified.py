"""Models that lack something: is it named, and is a wrong number ever called good?

A driven pendulum and a double pendulum are recorded by an integrator of this file (Runge-Kutta of fourth order on the textbook equations), each time with one thing that the
fitted model does not have. For every case: how far the estimates are off in their own standard deviations, what the fit names first, and its verdict.

    python benchmarks/misspecified.py [--seeds 10] [--runs 1 3] [--noise auto none] [--machines pendulum double] [--cases dry late ...] [--processes 2]

Fixed seeds; every fit is kept in build/misspecified.jsonl as soon as it is done (`kept.py`), so that the script can be stopped and goes on. "Named" counts the right term where it is first, or where the first says that
these data cannot tell it from the right one. The last lines count what must not happen, an estimate more than 3.5 standard deviations off under a green verdict, and of how many cases the right term is named in most fits.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from kept import rows

import calibody as cb

GRAVITY, PERIOD, DURATION, START, SD, INNER = 9.81, 0.01, 4.0, 1.0, 0.003, 10
"""m/s^2; sampling period and duration of a run [s]; first angle of every joint and noise of an angle [rad]; steps of the integrator per sampling period."""
FILE = Path("build/misspecified.jsonl")
OFF = 3.5
"""Standard deviations from which an estimate counts as wrong."""


@dataclass(frozen=True)
class Case:
    """What the recording has and the model does not; `named` ends the path that says so."""

    truth: dict[str, float]
    named: str
    rubbing: bool = False
    """Whether dry friction is among the unknowns."""
    markers: bool = False
    """Whether the tips' places are observed instead of the angles."""


CASES = {
    "nothing": Case({}, ""),
    "dry friction": Case({"dry": 0.04}, "hinge1.friction"),
    "Stribeck": Case({"dry": 0.03, "stribeck": 0.04, "stribeck_rate": 0.5}, "hinge1.stribeck", rubbing=True),
    "motor lag 10 ms": Case({"lag": 0.01}, "motor.time_constant"),
    "half a sample late": Case({"late": 0.005}, "motor.delay"),
    "cable spring": Case({"spring": 0.05}, "hinge1.stiffness"),
    "tilt 1 degree": Case({"tilt": np.deg2rad(1.0)}, "gravity.tilt.y"),
    "offset 10 mrad": Case({"offset": 0.01}, "hinge1.angle.bias"),
    "2048 counts": Case({"counts": 2048}, "angle.resolution"),
    "flexible joint": Case({"flexible": 300.0, "rotor": 0.02}, "hinge1.windup"),
    "marker 3 mm off": Case({"marker": 0.003}, "tip1.position.x", markers=True),
    "coloured noise": Case({"coloured": 0.05}, "angle.noise"),
    "2 % outliers": Case({"outliers": 0.02}, "outliers"),
    "backlash": Case({"backlash": 0.01, "rotor": 0.005}, "hinge1.backlash"),
}


# -- the machines, as textbooks write them ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """Link masses, distances of centres of mass, inertias about them, distance of the two pivots; viscous friction of every joint."""

    mass: tuple[float, ...]
    com: tuple[float, ...]
    inertia: tuple[float, ...]
    damping: tuple[float, ...]
    length: float = 0.4
    strength: float = 1.5
    """Of the drive: so large that the first link swings by more than a right angle. In small swings a spring that is at rest where the link hangs cannot be told from its weight."""

    def accelerations(self, q: np.ndarray, v: np.ndarray, torque: np.ndarray, tilt: float) -> np.ndarray:
        """Angles against the vertical for the first link, against the first link for the second."""
        m, c, J, L = self.mass, self.com, self.inertia, self.length
        s1 = np.sin(q[0] + tilt)
        if len(m) == 1:
            return np.array([(torque[0] - m[0] * GRAVITY * c[0] * s1) / (J[0] + m[0] * c[0] ** 2)])
        cosine, sine, s12 = np.cos(q[1]), np.sin(q[1]), np.sin(q[0] + q[1] + tilt)
        M22 = J[1] + m[1] * c[1] ** 2
        M12 = M22 + m[1] * L * c[1] * cosine
        M11 = J[0] + m[0] * c[0] ** 2 + m[1] * L**2 + M22 + 2.0 * m[1] * L * c[1] * cosine
        k = m[1] * L * c[1] * sine
        right = np.array([
            torque[0] + k * (2.0 * v[0] * v[1] + v[1] ** 2) - GRAVITY * ((m[0] * c[0] + m[1] * L) * s1 + m[1] * c[1] * s12),
            torque[1] - k * v[0] ** 2 - GRAVITY * m[1] * c[1] * s12,
        ])  # fmt: skip
        return np.linalg.solve(np.array([[M11, M12], [M12, M22]]), right)


MACHINES = {
    "pendulum": Machine((1.0,), (0.3,), (0.03,), (0.05,)),
    "double": Machine((1.0, 0.6), (0.2, 0.15), (0.02, 0.01), (0.05, 0.02), strength=2.0),
}


def drive(t: np.ndarray, run: int) -> np.ndarray:
    """A different signal in every run: a chirp with a second tone."""
    return (1.2 - 0.2 * run) * np.sin(2 * np.pi * (0.3 + (0.25 + 0.05 * run) * t) * t + run) + 0.5 * np.sin((5.0 + run) * t)


def angles(machine: Machine, truth: dict[str, float], run: int) -> np.ndarray:
    """(joints, samples) of the links at the sampling instants; of the first joint the motor's where there is something between them (encoders sit on the motor's shaft)."""
    n, h = len(machine.mass), PERIOD / INNER
    count = round(DURATION / PERIOD)
    grid = np.arange(count) * PERIOD
    held = machine.strength * drive(grid, run)
    rotor, stiff = truth.get("rotor", 0.0), truth.get("flexible", 0.0)

    def force(t: float) -> float:
        return float(np.interp(t - truth.get("late", 0.0), grid, held))

    def rates(t: float, y: np.ndarray) -> np.ndarray:
        q, v, motor, torque = y[:n], y[n : 2 * n], y[2 * n : 2 * n + 3], np.zeros(n)
        push = motor[0] if "lag" in truth else force(t)
        turn = np.zeros(3)
        turn[0] = (force(t) - motor[0]) / truth.get("lag", 1.0)
        if stiff or "backlash" in truth:
            gap = motor[1] - q[0]
            play = 0.5 * truth.get("backlash", 0.0)
            through = (stiff or 2000.0) * np.sign(gap) * max(abs(gap) - play, 0.0) + 0.2 * (motor[2] - v[0]) * float(abs(gap) > play)
            turn[1], turn[2] = motor[2], (push - through) / rotor
            push = through
        torque[0] = push - truth.get("spring", 0.0) * q[0]
        rub = truth.get("dry", 0.0) + truth.get("stribeck", 0.0) * np.exp(-((v[0] / truth.get("stribeck_rate", 1.0)) ** 2))
        torque -= np.array(machine.damping) * v
        torque[0] -= rub * np.tanh(v[0] / 2e-3)
        return np.concatenate([v, machine.accelerations(q, v, torque, truth.get("tilt", 0.0)), turn])

    fine = 4 if truth.get("dry") or stiff or "backlash" in truth else 1
    y = np.zeros(2 * n + 3)
    y[:n], y[2 * n], y[2 * n + 1] = START, force(0.0), START
    out = np.empty((n, count))
    for k in range(count):
        out[:, k] = y[:n]
        if "rotor" in truth:
            out[0, k] = y[2 * n + 1]
        for i in range(INNER * fine):
            t, d = k * PERIOD + i * h / fine, h / fine
            a = rates(t, y)
            b = rates(t + d / 2, y + d / 2 * a)
            c = rates(t + d / 2, y + d / 2 * b)
            y = y + d / 6 * (a + 2 * b + 2 * c + rates(t + d, y + d * c))
    return out


# -- what is fitted ------------------------------------------------------------------------------------------------------------------------------


def model(machine: Machine, rotor: float) -> cb.Model:
    """`rotor`: inertia of the motor, which is known (a rigid joint cannot tell it from the link's)."""
    bodies, joints, sites = [], [], []
    for k, (m, c, J, b) in enumerate(zip(machine.mass, machine.com, machine.inertia, machine.damping, strict=True), start=1):
        place = {"position": (0.0, 0.0, -machine.length), "parent": "link1"} if k == 2 else {}
        bodies.append(cb.Body(f"link{k}", mass=m, com=(0.0, 0.0, -c), inertia=(J, J, J), **place))
        joints.append(cb.Joint(f"hinge{k}", f"link{k}", axis=(0.0, -1.0, 0.0), damping=b, armature=rotor if k == 1 else 0.0))
        sites.append(cb.Site(f"tip{k}", f"link{k}", position=(0.0, 0.0, -machine.length)))
    return cb.Model("machine", bodies=bodies, joints=joints, sites=sites, actuators=[cb.Actuator("motor", "hinge1")])


def recording(machine: Machine, case: Case, run: int, seed: int, motion: np.ndarray) -> cb.Recording:
    rng, times = np.random.default_rng([seed, run]), np.arange(motion.shape[1]) * PERIOD
    noise = SD * rng.standard_normal(motion.shape)
    if memory := case.truth.get("coloured"):
        keep = np.exp(-PERIOD / memory)
        for k in range(1, noise.shape[1]):
            noise[:, k] = keep * noise[:, k - 1] + np.sqrt(1.0 - keep**2) * noise[:, k]
    if share := case.truth.get("outliers"):
        hit = rng.random(noise.shape) < share
        noise = np.where(hit, 30.0 * SD * rng.standard_normal(noise.shape), noise)
    signal = (cb.Drive("actuator.motor", cb.Signal(times, machine.strength * drive(times, run), "linear")),)
    if case.markers:
        return cb.Recording(f"run{run}", tuple(_markers(machine, case, motion, times, rng)), signal)
    seen, sd = motion + case.truth.get("offset", 0.0) * (np.arange(len(motion)) == 0)[:, None] + noise, SD
    if counts := case.truth.get("counts"):
        sd = 1e-4
        seen = np.round((motion + sd * noise / SD) * counts / (2 * np.pi)) * (2 * np.pi) / counts
    return cb.Recording(f"run{run}", tuple(cb.Observation(f"joint.hinge{k + 1}.angle", times, row, sd) for k, row in enumerate(seen)), signal)


def _markers(machine: Machine, case: Case, motion: np.ndarray, times: np.ndarray, rng: np.random.Generator):
    """Places of the tips; the first marker sits beside where the model has it."""
    L, tip, angle = machine.length, np.zeros((2, motion.shape[1])), np.zeros(motion.shape[1])
    for k, row in enumerate(motion):
        angle = angle + row
        beside = case.truth["marker"] if k == 0 else 0.0
        along, across = np.stack([np.sin(angle), -np.cos(angle)]), np.stack([np.cos(angle), np.sin(angle)])
        seen = tip + L * along + beside * across
        for axis, values in zip("xz", seen, strict=True):
            yield cb.Observation(f"site.tip{k + 1}.position.{axis}", times, values + 1e-3 * rng.standard_normal(len(times)), 1e-3)
        tip = tip + L * along


@dataclass(frozen=True)
class Outcome:
    """Of one fit: largest deviation in error bars and in their scatter alone, what is named first with what these data cannot tell from it, the verdict's level, CPU seconds."""

    z: float | None
    alone: float | None
    first: list[str]
    level: str
    seconds: float

    def names(self, case: Case) -> bool:
        return bool(case.named) and any(path.endswith(case.named) for path in self.first)


def fitted(name: str, machine_name: str, runs: int, seed: int, noise: str) -> Outcome:
    from calibody.experiment.folder import write
    from calibody.experiment.saved import open as opened
    from calibody.report.verdict import verdict

    machine, case = MACHINES[machine_name], CASES[name]
    rng = np.random.default_rng([seed, 99])
    truth = {f"body.link{k + 1}.mass": m for k, m in enumerate(machine.mass)} | {f"joint.hinge{k + 1}.damping": b for k, b in enumerate(machine.damping)}
    truth |= {f"body.link{k + 1}.inertia.yy": J for k, J in enumerate(machine.inertia)}
    if case.rubbing:
        truth |= {"joint.hinge1.friction": case.truth["dry"]}
    unknowns = {path: cb.Unknown(value * float(rng.uniform(0.6, 1.7))) for path, value in truth.items()}
    recordings = [recording(machine, case, r, seed, angles(machine, case.truth, r)) for r in range(runs)]
    began = time.process_time()
    result = cb.fit(model(machine, case.truth.get("rotor", 0.0)), recordings, unknowns, process_noise=noise)
    seconds = time.process_time() - began
    off = [(abs(e.value - truth[path]), e.sd, e.scatter) for path, e in result.parameters.items() if e.sd and e.scatter]
    z, alone = (max((d / bars[k] for d, *bars in off), default=0.0) if result.converged else None for k in (0, 1))
    with tempfile.TemporaryDirectory() as folder:
        found = verdict(opened(write(result, folder)))
    first = [result.lacks[0].path, *result.lacks[0].alike] if result.lacks else ["outliers"] if result.outliers else []
    return Outcome(z, alone, first, found.level if result.converged else "not converged", seconds)


def work(key: tuple) -> list:
    try:
        o = fitted(*key)
    except Exception as error:
        o = Outcome(None, None, [f"{type(error).__name__}: {error}"], "failed", 0.0)
    return [o.z, o.alone, o.first, o.level, o.seconds]


def _sizes(found: list[float | None]) -> str:
    z = [x for x in found if x is not None]
    return f"{np.median(z):.1f}, {max(z):.1f}" if z else "-"


def _most(names: list[str]) -> str:
    """The name that comes up most, and how often."""
    best = max(dict.fromkeys(names), key=names.count)
    return f"{best} ({names.count(best)})" if best else "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--noise", nargs="+", default=["auto"])
    parser.add_argument("--machines", nargs="+", default=list(MACHINES))
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    keys = [(c, m, r, s, n) for n in asked.noise for r in asked.runs for m in asked.machines for s in range(asked.seeds) for c in asked.cases]
    done = {key: Outcome(*value) for key, value in rows(FILE, keys, work, asked.processes).items()}
    wrong, right = 0, dict.fromkeys((c for c in asked.cases if CASES[c].named), 0)
    print(
        "| noise | machine | runs | the recording has | largest z by scatter, median and most | by the error bar | named first | most often | green | amber | red | not converged | CPU s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for n, m, r, c in ((n, m, r, c) for n in asked.noise for m in asked.machines for r in asked.runs for c in asked.cases):
        got = [done[c, m, r, s, n] for s in range(asked.seeds)]
        count: Callable[[str], int] = lambda level, got=got: sum(o.level == level for o in got)  # noqa: E731
        wrong += sum(o.z is not None and o.z > OFF and o.level == "good" for o in got)
        if c in right:
            right[c] += sum(o.names(CASES[c]) for o in got)
        print(
            f"| {n} | {m} | {r} | {c} | {_sizes([o.alone for o in got])} | {_sizes([o.z for o in got])} | {sum(o.names(CASES[c]) for o in got)} of {len(got)} | {_most([o.first[0] if o.first else '' for o in got])} | {count('good')} | {count('mind')} "
            f"| {count('bad')} | {count('not converged') + count('failed')} | {np.median([o.seconds for o in got]):.1f} |"
        )
    each = len(asked.noise) * len(asked.machines) * len(asked.runs) * asked.seeds
    print(f"\nwrong by more than {OFF} sd under a green verdict: {wrong}")
    print(
        f"named first in most fits: {sum(k > each / 2 for k in right.values())} of {len(right)} cases; in all of them: {sum(right.values())} of {each * len(right)} fits"
    )


if __name__ == "__main__":
    main()
