"""A leg below a trunk that hangs on nothing in the plane, moved by wandering moments: what tests of unknown drives and of weighing share."""

from __future__ import annotations

import numpy as np

import calibody as cb

AXIS = (0, -1, 0)
SIZE, MEMORY = {"hip": 30.0, "knee": 15.0}, 0.15


def leg() -> cb.Model:
    """A trunk that hangs on nothing in the plane, thigh and shank."""
    bodies = [
        cb.Body("trunk", mass=40.0, com=(0, 0, 0.2), inertia=(1.5, 1.5, 0.5)),
        cb.Body("thigh", "trunk", mass=8.0, com=(0, 0, -0.18), inertia=(0.12, 0.12, 0.03)),
        cb.Body("shank", "thigh", mass=4.0, com=(0, 0, -0.18), inertia=(0.05, 0.05, 0.01), position=(0, 0, -0.42)),
    ]
    joints = [
        cb.Joint("px", "trunk", "slide", axis=(1, 0, 0)),
        cb.Joint("pz", "trunk", "slide", axis=(0, 0, 1)),
        *(cb.Joint(name, body, axis=AXIS) for name, body in (("tilt", "trunk"), ("hip", "thigh"), ("knee", "shank"))),
    ]
    places = {"trunk": [(0.1, 0, 0), (0.1, 0, 0.4), (-0.1, 0, 0.2)], "thigh": [(0.05, 0, -0.1), (0.05, 0, -0.3)], "shank": [(0.05, 0, -0.1), (0.04, 0, -0.4)]}
    sites = [cb.Site(f"{body}{k}", body, p) for body, ps in places.items() for k, p in enumerate(ps)]
    return cb.Model("leg", bodies, joints, sites=sites)


def wandering(times: np.ndarray, sd: float, memory: float, random: np.random.Generator) -> np.ndarray:
    """A force with a memory."""
    a = np.exp(-(times[1] - times[0]) / memory)
    out = np.empty(len(times))
    out[0] = sd * random.standard_normal()
    for k in range(1, len(times)):
        out[k] = a * out[k - 1] + sd * np.sqrt(1.0 - a**2) * random.standard_normal()
    return out


def trial(seed: int, duration: float = 0.6) -> tuple[cb.Recording, cb.Motion]:
    """Markers of a leg that such forces move, the trunk held up by a known force."""
    random, t = np.random.default_rng(seed), np.arange(0.0, duration + 5e-4, 1e-3)
    model, lift = leg(), cb.Signal(t, 52.0 * 9.81 * (1.0 + 0.2 * np.sin(13.0 * t)), "linear")
    forces = {f"joint.{j}.force": cb.Signal(t, wandering(t, sd, MEMORY, random), "linear") for j, sd in SIZE.items()}
    motion = cb.simulate(model, duration, 1e-3, {}, {**forces, "body.trunk.force.z": lift})
    names = [f"site.{s.name}.position.{c}" for s in model.sites for c in "xz"]
    seen = [cb.Observation(n, motion.time[::10], motion[n][::10] + 1e-3 * random.standard_normal(len(motion.time[::10])), sd=1e-3) for n in names]
    return cb.Recording("leg", tuple(seen), (cb.Drive("body.trunk.force.z", lift),)), motion


def stated() -> list[cb.UnknownDrive]:
    return [cb.UnknownDrive(f"joint.{j}.force", sd, MEMORY) for j, sd in SIZE.items()]
