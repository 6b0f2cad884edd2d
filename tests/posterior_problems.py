"""Small mechanisms whose posterior is known, or known to be awkward."""

from __future__ import annotations

import numpy as np

import calibody as cb

RADIUS, DISTANCE, DAMPING = 0.25, 0.15, 0.01
BOX = {"x": (-0.14, 0.14), "y": (-0.08, 0.08)}


def kater() -> cb.Model:
    """A pendulum whose centre of mass is unknown: at d and at `RADIUS^2/d` it swings alike (Huygens)."""
    rod = cb.Body("rod", mass=1.0, com=(0, 0, -DISTANCE), inertia=(RADIUS**2, RADIUS**2, 0.001))
    return cb.Model("kater", [rod], [cb.Joint("pivot", "rod", axis=(0, 1, 0), damping=DAMPING)], world=cb.World(gravity=(0, 0, -9.81)))


def swing(seed: int = 0, sd: float | None = 0.01, seconds: float = 3.0, angle: float = 0.8) -> cb.Recording:
    motion = cb.simulate(kater(), seconds, 0.005, {"joint.pivot.angle": angle})
    noise = 0.01 * np.random.default_rng(seed).standard_normal(len(motion.time[::8]))
    return cb.Recording(f"swing{seed}", (cb.Observation("joint.pivot.angle", motion.time[::8], motion["joint.pivot.angle"][::8] + noise, sd),))


def replicate(seed: int) -> list[float]:
    """What a fit finds in a recording with other noise."""
    return [float(x) for x in cb.fit(kater(), swing(seed), unknown_kater(), h=0.04).theta]


def unknown_kater() -> dict[str, cb.Unknown]:
    return {"body.rod.com.z": cb.Unknown(-DISTANCE, lower=-0.6, upper=-0.05), "joint.pivot.damping": cb.Unknown(DAMPING, lower=0.0, upper=0.2)}


def kater_masses(distances: list[float]) -> np.ndarray:
    """Of the two explanations with a flat prior: what is determined is (d, b)/(RADIUS^2 + d^2), and a mode has as much mass as that changes little there."""
    k2 = RADIUS**2
    flat = np.array([(k2 + d * d) ** 3 / abs(k2 - d * d) for d in distances])
    return flat / flat.sum()


def weights_in_a_box() -> cb.Model:
    """Two equal weights at unknown places in a box that hangs from an arm by a universal joint."""
    bodies = [
        cb.Body("wrist", mass=2.0, inertia=(0.02, 0.02, 0.02)),
        cb.Body("hand", "wrist", mass=0.5, inertia=(0.005, 0.005, 0.005)),
        cb.Body("cross", "hand", mass=0.02, inertia=(1e-5, 1e-5, 1e-5), position=(0.1, 0.0, -0.1)),
        cb.Body("box", "cross", mass=0.92, com=(0.0, 0.0, -0.2), inertia=(0.02, 0.025, 0.012)),
        cb.Body("w1", "box", mass=0.5, position=(0.08, 0.03, -0.3)),
        cb.Body("w2", "box", mass=0.5, position=(-0.08, -0.03, -0.3)),
    ]
    joints = [
        cb.Joint("arm1", "wrist", axis=(0, 1, 0), damping=0.1),
        cb.Joint("arm2", "hand", axis=(1, 0, 0), damping=0.1),
        cb.Joint("u1", "cross", axis=(1, 0, 0), damping=0.02),
        cb.Joint("u2", "box", axis=(0, 1, 0), damping=0.02),
    ]
    motors = [cb.Actuator(f"m{i}", f"arm{i}", gain=400.0, stiffness=400.0, damping=20.0) for i in (1, 2)]
    sites = [cb.Site("o", "box", (0, 0, 0)), cb.Site("px", "box", (1, 0, 0)), cb.Site("py", "box", (0, 1, 0)), cb.Site("pz", "box", (0, 0, 1))]
    return cb.Model("box", bodies, joints, actuators=motors, sites=sites, world=cb.World(gravity=(0, 0, -9.81)))


def shaken(sd: float = 0.003, seconds: float = 4.0, seed: int = 0) -> cb.Recording:
    h, random = 0.005, np.random.default_rng(seed)
    t = np.arange(0, seconds + h / 2, h)
    first = 0.1 * np.sin(2 * np.pi * 0.9 * t) * (t > 0.2) + 0.05 * np.sign(np.sin(2 * np.pi * 0.45 * t))
    drives = {"actuator.m1": cb.Signal(t, first), "actuator.m2": cb.Signal(t, -0.1 * np.sin(2 * np.pi * 0.7 * t))}
    motion = cb.simulate(weights_in_a_box(), seconds, h, drive=drives)
    observed = []
    for site in ("o", "px", "py", "pz"):
        for k, axis in enumerate("xyz"):
            y = np.asarray(motion[f"site.{site}.position"])[::4, k]
            observed.append(cb.Observation(f"site.{site}.position.{axis}", motion.time[::4], y + sd * random.standard_normal(len(y)), sd))
    return cb.Recording("shaken", tuple(observed), tuple(cb.Drive(name, signal) for name, signal in drives.items()))


def unknown_weights() -> dict[str, cb.Unknown]:
    start = {"w1": 0.05, "w2": -0.05}
    return {
        f"body.{w}.position.{axis}": cb.Unknown(start[w] if axis == "x" else 0.0, lower=BOX[axis][0], upper=BOX[axis][1], scale=0.1)
        for w in start
        for axis in BOX
    }


def rubbing(friction: float, inertia: float = 0.03, damping: float = 0.05) -> cb.Model:
    """A driven pendulum with dry friction."""
    rod = cb.Body("rod", mass=1.0, com=(0, 0, -0.25), inertia=(inertia, inertia, 0.001))
    hinge = cb.Joint("pivot", "rod", axis=(0, 1, 0), damping=damping, friction=friction, friction_rate=0.05)
    return cb.Model("p", [rod], [hinge], actuators=[cb.Actuator("motor", "pivot")], world=cb.World(gravity=(0, 0, -9.81)))


def rubbed(model: cb.Model, seed: int, h: float = 0.01, seconds: float = 3.0, sd: float = 0.01) -> cb.Recording:
    t = np.arange(0, seconds + h / 2, h)
    u = cb.Signal(t, 0.6 * np.sin(2 * np.pi * 0.6 * t) + 0.3 * np.sin(2 * np.pi * 1.7 * t))
    motion = cb.simulate(model, seconds, h, {"joint.pivot.angle": 0.3}, {"actuator.motor": u})
    y = motion["joint.pivot.angle"][::4] + sd * np.random.default_rng(seed).standard_normal(len(motion.time[::4]))
    return cb.Recording("r", (cb.Observation("joint.pivot.angle", motion.time[::4], y, sd),), (cb.Drive("actuator.motor", u),))


def unknown_rubbing() -> dict[str, cb.Unknown]:
    return {
        "body.rod.inertia.yy": cb.Unknown(0.03, lower=0.0),
        "joint.pivot.damping": cb.Unknown(0.05, lower=-1.0),
        "joint.pivot.friction": cb.Unknown(0.02, lower=0.0, upper=0.04),
    }
