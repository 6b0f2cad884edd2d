"""Mechanisms that touch: bodies in a plane, tossed shapes, a trough, balls on a box."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import calibody as cb
from calibody.mechanics.contact import Spots
from calibody.mechanics.kinematics import Geometry, poses
from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers.start import tree_start

UP = (0.0, -1.0, 0.0)
"""Axis of a hinge that turns x towards z."""


def planar(name: str, mass: float, inertia: float, axis: tuple[float, float, float] = UP) -> tuple[cb.Body, list[cb.Joint]]:
    """A body that moves in the x-z plane: joints NAME.x, NAME.z and NAME.a."""
    slides = [cb.Joint(f"{name}.{c}", name, "slide", axis=a) for c, a in (("x", (1.0, 0.0, 0.0)), ("z", (0.0, 0.0, 1.0)))]
    return cb.Body(name, mass=mass, inertia=(inertia,) * 3), [*slides, cb.Joint(f"{name}.a", name, "hinge", axis=axis)]


def place(motion: cb.Motion, name: str) -> np.ndarray:
    """(nodes, 3) x, z and angle of a planar body."""
    return np.array([motion[f"joint.{name}.x.position"], motion[f"joint.{name}.z.position"], motion[f"joint.{name}.a.angle"]]).T


def single(kind: str, size: tuple[float, ...], mass: float, inertia: tuple[float, ...], world: cb.World | None = None, **contact: Any) -> cb.Model:
    """One free body, `block`, on the ground."""
    return cb.Model(
        bodies=[cb.Body("block", mass=mass, inertia=inertia)],
        joints=[cb.Joint("free", "block", "free")],
        geometries=[cb.Geometry("shape", "block", kind, size)],
        contacts=[cb.Contact("floor", "shape", **contact)],
        world=cb.World() if world is None else world,
    )


def tossed(seed: int, law: str = "newton") -> tuple[cb.Model, dict[str, Any]]:
    """A random shape, random friction and restitution, a ground that leans a little, and how it is thrown."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(["sphere", "capsule", "box", "ellipsoid", "cylinder"]))
    a, m = rng.uniform(0.05, 0.15, 3), float(rng.uniform(0.2, 2.0))
    if kind in ("capsule", "cylinder"):
        size, inertia = a[:2], (m * (3 * a[0] ** 2 + 4 * a[1] ** 2) / 12,) * 2 + (0.5 * m * a[0] ** 2,)
    elif kind == "sphere":
        size, inertia = a[:1], (0.4 * m * a[0] ** 2,) * 3
    else:
        size, inertia = a, tuple(m / (3 if kind == "box" else 5) * (np.sum(a**2) - a**2))
    contact = {"restitution": rng.uniform(0, 1), "friction": rng.uniform(0, 1), "law": law}
    world = cb.World(ground_tilt=tuple(rng.uniform(-0.1, 0.1, 2)))
    model = single(kind, tuple(size), m, tuple(float(x) for x in inertia), world, **contact)
    rate = (*rng.normal(size=2), 0.0, *(5.0 * rng.normal(size=3)))
    return model, {"joint.free.position": (0.0, 0.0, 0.4), "joint.free.angle": rng.normal(size=3), "joint.free.rate": rate}


def trough(count: int) -> tuple[cb.Model, dict[str, Any]]:
    """Spheres and capsules above a funnel of three planes, all of which can touch each other."""
    rng = np.random.default_rng(0)
    bodies, joints, shapes, contacts, start = [], [], [], [], {}
    for k in range(3):
        angle = 2.0 * math.pi * k / 3
        turn = (math.cos(0.3), math.sin(0.3) * math.sin(angle), -math.sin(0.3) * math.cos(angle), 0.0)
        shapes.append(cb.Geometry(f"w{k}", "world", "plane", (1, 1, 0.1), (0, 0, 0), turn))
    for i in range(count):
        name, r, half, m = f"b{i}", 0.06, 0.08, 0.5
        inertia = (m * (3 * r * r + 4 * half * half) / 12,) * 2 + (0.5 * m * r * r,) if i % 2 else (0.4 * m * r * r,) * 3
        bodies.append(cb.Body(name, mass=m, inertia=inertia))
        joints.append(cb.Joint(name, name, "free"))
        shapes.append(cb.Geometry(name, name, *(("capsule", (r, half)) if i % 2 else ("sphere", (r,)))))
        contacts += [cb.Contact(f"{name}-w{k}", name, f"w{k}", friction=0.5, restitution=0.3) for k in range(3)]
        contacts += [cb.Contact(f"{name}-b{j}", name, f"b{j}", friction=0.4, restitution=0.2) for j in range(i)]
        start[f"joint.{name}.position"], start[f"joint.{name}.angle"] = (*rng.uniform(-0.15, 0.15, 2), 0.3 + 0.35 * i), rng.normal(size=3)
    return cb.Model(bodies=bodies, joints=joints, geometries=shapes, contacts=contacts), start


def carried(count: int) -> tuple[cb.Model, dict[str, Any]]:
    """A box of 10 kg that slides on the ground (friction 0.4), with balls of 25 kg together that roll on it; all in a plane."""
    bodies = [cb.Body("box", mass=10.0, inertia=(1, 1, 1))]
    joints = [cb.Joint("push", "box", "slide", axis=(1, 0, 0)), cb.Joint("lift", "box", "slide", axis=(0, 0, 1))]
    shapes, contacts, start = [cb.Geometry("box", "box", "box", (2, 0.5, 0.1))], [cb.Contact("ground", "box", friction=0.4)], {"joint.lift.position": 0.1}
    for k in range(count):
        name, m, r = f"ball{k}", 25.0 / count, 0.05
        body, own = planar(name, m, 0.4 * m * r * r)
        bodies.append(body)
        joints += own
        shapes.append(cb.Geometry(name, name, "sphere", (r,)))
        contacts.append(cb.Contact(name, name, "box", friction=0.8))
        start |= {f"joint.{name}.x.position": -1.5 + 3.0 * k / max(1, count - 1), f"joint.{name}.z.position": 0.2 + r}
    return cb.Model(bodies=bodies, joints=joints, geometries=shapes, contacts=contacts), start


def cleared(model: cb.Model) -> dict[str, Any]:
    """A start that is inside nothing: the file's, lifted by its free joint or vertical slide until nothing is deeper than a millimetre above the ground."""
    structure = Structure.build(model, "tree")
    numbers = Numbers.of(structure)
    q = tree_start(structure, numbers, {}, "mass", 1.0).q
    spots = Spots.of(structure)
    gaps = spots.touch(poses(structure, Geometry.of(structure, numbers), q)).gap
    lift = max(0.0, 1e-3 - float(gaps.min(initial=1.0))) if gaps.min(initial=1.0) < 0.0 else 0.0
    for joint in model.joints:
        start = int(structure.q_start[next(i for i, u in enumerate(structure.units) if u.joint is joint)])
        if lift and joint.kind == "free":
            return {f"joint.{joint.name}.position": (*q[start : start + 2], q[start + 2] + lift)}
        if lift and joint.kind == "slide" and abs(joint.axis[2]) > 0.9:
            return {f"joint.{joint.name}.position": q[start] + lift}
    return {}
