"""Do 95 % intervals cover the truth in 95 % of cases? Repeated fits of simulated recordings with new noise each time (slow)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import calibody as cb

pytestmark = pytest.mark.slow
H = 0.01


def pendulum() -> cb.Model:
    return cb.Model(
        "pendulum",
        bodies=[cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))],
        joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.002)],
        actuators=[cb.Actuator("motor", "hinge")],
        world=cb.World(gravity=(0, 0, -9.82)),
    )


TRUTH = {"body.arm.mass": 0.4, "body.arm.inertia.yy": 0.004, "joint.hinge.damping": 0.002}
TIMES = np.arange(0.0, 4.02, H)
DRIVE = cb.Signal(TIMES, 0.2 * np.sin(5 * TIMES) + 0.1 * np.sin(11 * TIMES))


def driven(seconds: float = 4.0) -> cb.Motion:
    """On the mesh that the fits use: their model is exact."""
    return cb.simulate(pendulum(), seconds, H, {"joint.hinge.angle": 0.5}, {"actuator.motor": DRIVE})


def recording(motion: cb.Motion, noise: np.ndarray, sd: float) -> cb.Recording:
    return cb.Recording("r", (cb.Observation("joint.hinge.angle", motion.time, motion["joint.hinge.angle"] + noise, sd),), (cb.Drive("actuator.motor", DRIVE),))


def z_scores(result: cb.Result, truth: Mapping[str, float]) -> list[float]:
    assert result.converged, result.status
    out = []
    for path, value in truth.items():
        e = result.parameters[path]
        assert e.sd is not None, path
        out.append((e.value - value) / e.sd)
    return out


UNKNOWN = {p: cb.Unknown(1.3 * v) for p, v in TRUTH.items()}


def test_driven_pendulum_200_seeds() -> None:
    motion, sd = driven(), 2e-3
    z = [z_scores(cb.fit(pendulum(), recording(motion, sd * np.random.default_rng(k).normal(size=len(motion.time)), sd), UNKNOWN, h=H), TRUTH) for k in range(200)]  # fmt: skip
    covered = (np.abs(z) <= 1.96).sum(axis=0)
    assert (covered >= 180).all() and (covered <= 198).all(), covered


def test_correlated_noise_100_seeds() -> None:
    """Low-pass noise (first order, 0.05 s): robust intervals cover where the naive ones do not."""
    motion, sd = driven(), 2e-3
    robust, naive = [], []
    for seed in range(100):
        white = np.random.default_rng(seed).normal(size=len(motion.time) + 200)
        a, noise = np.exp(-H / 0.05), np.zeros(len(white))
        for k in range(1, len(white)):
            noise[k] = a * noise[k - 1] + np.sqrt(1 - a * a) * white[k]
        result = cb.fit(pendulum(), recording(motion, sd * noise[200:], sd), UNKNOWN, h=H)
        robust.append(z_scores(result, TRUTH))
        naive.append([(e.value - v) / e.sd_naive for e, v in ((result.parameters[p], v) for p, v in TRUTH.items()) if e.sd_naive])
    covered, naively = (np.abs(robust) <= 1.96).sum(axis=0), (np.abs(naive) <= 1.96).sum(axis=0)
    assert (covered >= 85).all(), covered
    assert naively.min() < 80 and (naively < covered).all(), naively


def test_process_noise_100_seeds() -> None:
    """Forces of 0.02 N m drawn every 10 ms, and "auto": no bias, and intervals that cover."""
    z = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        force = cb.Signal(TIMES, 0.02 * rng.normal(size=len(TIMES)))
        motion = cb.simulate(pendulum(), 4.0, H, {"joint.hinge.angle": 0.5}, {"actuator.motor": DRIVE, "joint.hinge.force": force})
        result = cb.fit(pendulum(), recording(motion, 1e-3 * rng.normal(size=len(motion.time)), 1e-3), UNKNOWN, process_noise="auto", h=H)
        z.append(z_scores(result, TRUTH))
    assert (np.abs(np.mean(z, axis=0)) < 0.3).all(), np.mean(z, axis=0)
    covered = (np.abs(z) <= 1.96).sum(axis=0)
    assert (covered >= 85).all(), covered


def test_forces_with_a_memory_30_seeds() -> None:
    """Ornstein-Uhlenbeck forces (0.2 s in 4 s) that "auto" takes for white: intervals cover all the same, where those of white forces would not."""
    held, naively = [], []
    for seed in range(30):
        rng, a = np.random.default_rng([seed, 1]), np.exp(-H / 0.2)
        force = rng.normal(size=len(TIMES))
        for k in range(1, len(force)):
            force[k] = a * force[k - 1] + np.sqrt(1 - a * a) * force[k]
        drives = {"actuator.motor": DRIVE, "joint.hinge.force": cb.Signal(TIMES, 0.01 * force)}
        motion = cb.simulate(pendulum(), 4.0, H, {"joint.hinge.angle": 0.5}, drives)
        result = cb.fit(pendulum(), recording(motion, 1e-3 * rng.normal(size=len(motion.time)), 1e-3), UNKNOWN, process_noise="auto", h=H)
        held += [abs(z) <= 1.96 for z in z_scores(result, TRUTH)]
        naively += [abs(e.value - v) <= 1.96 * e.sd_naive for e, v in ((result.parameters[p], v) for p, v in TRUTH.items()) if e.sd_naive]
    assert np.mean(held) >= 0.88, np.mean(held)
    assert np.mean(naively) < 0.8, np.mean(naively)


def fourbar() -> cb.Model:
    """A crank-rocker in a vertical plane, closed by a point; its one redundant row is dropped."""
    bodies = [
        cb.Body("crank", mass=0.3, com=(0.05, 0, 0), inertia=(4e-4, 4e-4, 4e-4)),
        cb.Body("coupler", parent="crank", position=(0.1, 0, 0), mass=0.5, com=(0.15, 0, 0), inertia=(4e-3, 4e-3, 4e-3)),
        cb.Body("rocker", position=(0.3, 0, 0), mass=0.4, com=(0, 0, 0.1), inertia=(2e-3, 2e-3, 2e-3)),
    ]
    joints = [cb.Joint(n, b, axis=(0, 1, 0), damping=d) for n, b, d in (("a", "crank", 0.02), ("b", "coupler", 0.0), ("c", "rocker", 0.0))]
    loop = cb.Loop("close", "point", body1="coupler", body2="rocker", anchor1=(0.3, 0, 0), anchor2=(0, 0, 0.2))
    return cb.Model("fourbar", bodies=bodies, joints=joints, loops=[loop], actuators=[cb.Actuator("motor", "a")])


def test_closed_fourbar_100_seeds() -> None:
    """In `free`: parameters, a reaction force and a state."""
    model, sd, h = fourbar(), 1e-3, 0.01
    times = np.arange(0.0, 0.84, h)
    drive = cb.Signal(times, 0.6 * np.sin(6 * times))
    motion = cb.simulate(model, 0.8, h, {"joint.a.angle": 0.3}, {"actuator.motor": drive}, coordinates="free")
    truth = {"body.coupler.mass": 0.5, "joint.a.damping": 0.02}
    unknowns = {p: cb.Unknown(1.2 * v) for p, v in truth.items()}
    z = []
    k, force, state = 40, "joint.c.reaction.force.z", "joint.c.angle"
    for seed in range(100):
        rng = np.random.default_rng(seed)
        observed = tuple(cb.Observation(f"joint.{j}.angle", motion.time, motion[f"joint.{j}.angle"] + sd * rng.normal(size=len(motion.time)), sd) for j in "ac")
        run = cb.Recording("r", observed, (cb.Drive("actuator.motor", drive),))
        result = cb.fit(model, run, unknowns, coordinates="free", h=h)
        found = result.motion()
        more = [float((found[c][k] - motion[c][k]) / result.sd(c, motion.time[k : k + 1])[0]) for c in (force, state)]
        z.append([*z_scores(result, truth), *more])
    covered = (np.abs(z) <= 1.96).sum(axis=0)
    assert (covered >= 88).all(), covered
