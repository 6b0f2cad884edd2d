"""Recordings with impacts whose truth is known: a driven pendulum against a stop, a square that is dropped, a cube that is tossed."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

import calibody as cb
from calibody.steppers.events import Event

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from impact_study import drop, square_model

__all__ = ["STOP", "box_model", "cube_model", "drop", "guesses", "square_model", "stop_model", "stop_motion", "stop_recording", "thrown", "toss"]

STOP = {"body.arm.inertia.yy": 0.005, "joint.hinge.friction": 0.02, "limit.stop.position": 0.2, "limit.stop.restitution": 0.6}
FINE = 0.00025
"""Step of the simulations that are recorded [s]."""


def stop_model() -> cb.Model:
    arm = cb.Body("arm", mass=0.5, com=(0.0, 0.0, -0.2), inertia=(0.005, 0.005, 0.0004))
    hinge = cb.Joint("hinge", "arm", axis=(0, 1, 0), friction=0.02, damping=0.002)
    return cb.Model("stop", [arm], [hinge], limits=[cb.Limit("stop", "hinge", 0.2, "upper", restitution=0.6)])


def torque(t: np.ndarray) -> np.ndarray:
    """[N m]: two tones and a constant push towards the stop; 23 impacts in 10 s, none of which comes to rest."""
    return 0.51 * np.sin(2 * np.pi * 2.48 * t) + 0.26 * np.sin(2 * np.pi * 0.75 * t + 1.0) + 0.19


@cache
def stop_motion(duration: float) -> tuple[np.ndarray, np.ndarray, tuple[Event, ...]]:
    """Times, angles and impacts."""
    t = np.arange(0.0, duration + 3 * FINE, FINE)
    drive = {"joint.hinge.force": cb.Signal(t, torque(t), "linear")}
    motion = cb.simulate(stop_model(), duration, h=FINE, initial={"joint.hinge.angle": -0.3}, drive=drive)
    return motion.time, motion["joint.hinge.angle"], motion.events


def stop_recording(seed: int | None, duration: float = 10.0, rate: float = 250.0, sd: float = 0.001) -> cb.Recording:
    """With noise of a seed; None: the motion itself."""
    t, angle, _ = stop_motion(duration)
    k = np.arange(0, len(t), round(1.0 / rate / FINE))
    values = angle[k] + (0.0 if seed is None else sd * np.random.default_rng(seed).standard_normal(len(k)))
    known = np.arange(0.0, duration + 0.002, 0.001)
    drive = cb.Drive("joint.hinge.force", cb.Signal(known, torque(known), "linear"))
    return cb.Recording(f"stop{seed}", (cb.Observation("joint.hinge.angle", t[k], values, sd),), (drive,))


def guesses(truth: dict[str, float], factor: float = 2.0) -> dict[str, cb.Unknown]:
    """Everything `factor` times off; restitution half as large, since it cannot be more than one."""
    return {path: cb.Unknown(value * (0.5 if path.endswith("restitution") else factor)) for path, value in truth.items()}


def cube_model() -> cb.Model:
    return cb.Model(
        "cube",
        [cb.Body("cube", mass=0.37, inertia=(8.1e-4,) * 3)],
        [cb.Joint("free", "cube", "free")],
        geometries=[cb.Geometry("hull", "cube", "box", (0.0524,) * 3)],
        contacts=[cb.Contact("floor", "hull", friction=0.18, restitution=0.3, radius=0.005)],
    )


def toss(seed: int, duration: float, rate: float = 148.0, sd: tuple[float, float] = (1e-4, 2e-3)) -> tuple[cb.Recording, tuple[Event, ...]]:
    """A cube that is tossed, its poses, positions and rotations with noise [m, rad]; and its impacts."""
    random = np.random.default_rng(seed)
    model, fine = cube_model(), 8
    initial = {"joint.free.position": (0, 0, 0.16), "joint.free.rate": (*random.uniform(-1, 1, 2), random.uniform(-1, 0.5), *random.uniform(-8, 8, 3))}
    n = round(duration * rate)
    motion = cb.simulate(model, n / rate, h=1.0 / rate / fine, initial=initial)
    t, place = motion.time[::fine], motion["body.cube.position"][::fine]
    place = place + sd[0] * random.standard_normal(place.shape)
    turn = Rotation.from_rotvec(motion["body.cube.angle"][::fine]) * Rotation.from_rotvec(sd[1] * random.standard_normal(place.shape))
    observed = [cb.Observation(f"body.cube.position.{c}", t, place[:, i], sd[0]) for i, c in enumerate("xyz")]
    observed += [cb.Observation(f"body.cube.angle.{c}", t, turn.as_rotvec()[:, i], sd[1]) for i, c in enumerate("xyz")]
    return cb.Recording(f"toss{seed}", tuple(observed)), motion.events


def box_model() -> cb.Model:
    """A flat box in a plane, with one friction of impacts and another of sliding."""
    half = (0.06, 0.05, 0.03)
    joints = [cb.Joint("x", "block", "slide", axis=(1, 0, 0)), cb.Joint("z", "block", "slide", axis=(0, 0, 1)), cb.Joint("turn", "block", axis=(0, 1, 0))]
    contact = cb.Contact("floor", "hull", friction=0.25, restitution=0.3, sliding_friction=0.35)
    block = cb.Body("block", mass=0.5, inertia=(7.5e-4,) * 3)
    return cb.Model("box", [block], joints, geometries=[cb.Geometry("hull", "block", "box", half)], contacts=[contact])


def thrown(
    seed: int, duration: float = 0.8, rate: float = 250.0, sd: tuple[float, float] = (2e-4, 2e-3), fine: int = 64
) -> tuple[cb.Recording, tuple[Event, ...]]:
    """The box, thrown across the floor until it slides and stops (friction of the simulation is of first order: it takes `fine` steps per sample); and its impacts."""
    random, model = np.random.default_rng(seed), box_model()
    initial = {"joint.z.position": 0.2, "joint.turn.angle": random.uniform(-1.5, 1.5), "joint.x.rate": random.uniform(1, 2)}
    initial |= {"joint.z.rate": random.uniform(-0.5, 0.5), "joint.turn.rate": random.uniform(-6, 6)}
    motion = cb.simulate(model, duration, h=1.0 / rate / fine, initial=initial)
    t, observed = motion.time[::fine], []
    for channel, own in (("joint.x.position", sd[0]), ("joint.z.position", sd[0]), ("joint.turn.angle", sd[1])):
        observed.append(cb.Observation(channel, t, motion[channel][::fine] + own * random.standard_normal(len(t)), own))
    return cb.Recording(f"throw{seed}", tuple(observed)), motion.events
