"""Mechanisms with known motions, one table for all tests: the published problems of the reference folder and small variants of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import calibody as cb

DOWN_Y = cb.World(gravity=(0.0, -9.81, 0.0))
DOWN_Z = cb.World(gravity=(0.0, 0.0, -9.81))
WEIGHTLESS = cb.World(gravity=(0.0, 0.0, 0.0))


def point_pendulum() -> cb.Model:
    """IFToMM A01: a point mass of 1 kg on a massless rod of 1 m, let go from (-1, 0)."""
    bob = cb.Body("bob", mass=1.0, com=(-1.0, 0.0, 0.0))
    return cb.Model("pendulum", [bob], [cb.Joint("pivot", "bob")], world=DOWN_Y)


def four_bar(windows: int = 1, **law: Any) -> cb.Model:
    """IFToMM A02: `windows` squares in a row of rods of 1 m and 1 kg, rods on the ground hinged at (i, 0), top ends joined by couplers.

    Each window is closed by a point loop: three equations, the one out of the plane redundant. `law` goes to every hinge.
    """
    rod: dict[str, Any] = {"mass": 1.0, "inertia": (0.0, 1.0 / 12.0, 1.0 / 12.0), "com": (0.5, 0.0, 0.0)}
    bodies, joints, loops = [], [], []
    for i in range(windows + 1):
        bodies.append(cb.Body(f"rod{i}", position=(float(i), 0.0, 0.0), orientation=quarter_turn(), **rod))
        joints.append(cb.Joint(f"ground{i}", f"rod{i}", **law))
    for i in range(windows):
        bodies.append(cb.Body(f"coupler{i}", f"rod{i}", position=(1.0, 0.0, 0.0), orientation=quarter_turn(-1.0), **rod))
        joints.append(cb.Joint(f"top{i}", f"coupler{i}", **law))
        loops.append(cb.Loop(f"close{i}", body1=f"coupler{i}", body2=f"rod{i + 1}", anchor1=(1.0, 0.0, 0.0), anchor2=(1.0, 0.0, 0.0)))
    sites = [cb.Site("B0", "rod0", (1.0, 0.0, 0.0))]
    return cb.Model("four-bar", bodies, joints, loops, sites=sites, world=DOWN_Y)


def four_bar_start(windows: int = 1, rate: float = -1.0) -> dict[str, float]:
    """All rods on the ground turn alike; the couplers stay level."""
    return {f"ground{i}": rate for i in range(windows + 1)} | {f"top{i}": -rate for i in range(windows)}


def rates(values: dict[str, float]) -> dict[str, float]:
    return {f"joint.{name}.rate": value for name, value in values.items()}


def quarter_turn(sign: float = 1.0) -> tuple[float, float, float, float]:
    """About z."""
    return (math.sqrt(0.5), 0.0, 0.0, sign * math.sqrt(0.5))


def heavy_top() -> cb.Model:
    top = cb.Body("top", mass=15.0, com=(0.0, 1.0, 0.0), inertia=(0.234375, 0.46875, 0.234375))
    return cb.Model("heavy top", [top], [cb.Joint("tip", "top", "ball")], world=DOWN_Z)


HEAVY_TOP_START = {"joint.tip.rate": (0.0, 150.0, -4.61538)}


def furuta(**law: Any) -> cb.Model:
    """[marklund2025], appendix G.3: an arm turning about the vertical, a pendulum swinging about the arm; angle 0 of the pendulum hangs down.

    The appendix prints l_b = 0.92 m; 0.092 m is meant. `law` goes to both hinges.
    """
    arm = cb.Body("arm", mass=0.238, com=(0.128, 0.0, 0.0), inertia=(1e-4, 3e-3, 3e-3))
    down = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)  # the pendulum's x axis points down, its z axis along the arm
    rod = cb.Body("rod", "arm", mass=0.428, com=(0.092, 0.0, 0.0), inertia=(1e-4, 4e-3, 4e-3), position=(0.248, 0.0, 0.0), orientation=down)
    joints = [cb.Joint("hinge1", "arm", damping=1e-3, armature=1e-4, **law), cb.Joint("hinge2", "rod", damping=1e-4, **law)]
    return cb.Model("furuta", [arm, rod], joints, actuators=[cb.Actuator("motor", "hinge1", gain=0.1)], world=cb.World(gravity=(0.0, 0.0, -9.82)))


FURUTA_START = {"joint.hinge1.angle": 0.0, "joint.hinge2.angle": math.pi - 0.03}
FURUTA_UNKNOWN: dict[str, cb.Unknown | float | None] = {
    **{f"body.{b}.inertia.{c}": 0.01 for b, c in (("arm", "xx"), ("arm", "yy"), ("arm", "zz"), ("rod", "yy"), ("rod", "zz"))},
    **{f"joint.hinge{i}.{law}": 1e-4 for i in (1, 2) for law in ("damping", "load_friction")},
    "actuator.motor.gain": 0.05,
    **{f"world.gravity.tilt.{c}": 0.0 for c in "xyz"},
}
"""The 13 unknowns of [marklund2025] with its initial values."""


def swung_body(kind: str, spring: bool = False) -> cb.Model:
    """The body of the ADAMS series: 1 kg, 2 m from a joint at the origin. The hinge's axis is z of a frame turned by -90 deg about x."""
    turned = (math.sqrt(0.5), -math.sqrt(0.5), 0.0, 0.0) if kind == "hinge" else (1.0, 0.0, 0.0, 0.0)
    body = cb.Body("body", mass=1.0, inertia=(0.04, 0.1, 0.1), com=(2.0, 0.0, 0.0), orientation=turned)
    joint = cb.Joint("joint", "body", kind, stiffness=200.0 if spring else 0.0, damping=10.0 if spring else 0.0)
    return cb.Model("swung body", [body], [joint], world=cb.World(gravity=(0.0, 0.0, -9.80665)))


def random_tree(seed: int, bodies: int = 6, world: cb.World = DOWN_Z, floating: bool = True) -> cb.Model:
    """Hinges, slides, balls and fixed bodies in random places, several joints on some bodies, perhaps on a free base; every joint law set."""
    random = np.random.default_rng(seed)

    def vector(size: float) -> tuple[float, float, float]:
        x, y, z = size * random.normal(size=3)
        return (float(x), float(y), float(z))

    def law(kind: str) -> dict[str, Any]:
        draw = [float(x) for x in random.uniform(0.1, 1.0, 6)]
        out = {"stiffness": draw[0], "damping": draw[2], "armature": 0.1 * draw[4]}
        return out if kind in ("ball", "free") else out | {"springref": draw[1], "friction": draw[3], "stribeck": 0.3 * draw[5]}

    links: list[cb.Body] = []
    joints: list[cb.Joint] = []
    for i in range(bodies):
        parent = "world" if i == 0 else f"b{int(random.integers(max(0, i - 3), i))}"
        # principal moments from positive second moments: always the inertia of some distribution of mass
        a, b, c = (float(x) for x in random.uniform(0.05, 0.3, 3))
        w, x, y, z = (float(e) for e in random.normal(size=4))
        links.append(
            cb.Body(
                f"b{i}",
                parent,
                mass=float(random.uniform(0.5, 2.0)),
                com=vector(0.2),
                inertia=(b + c, a + c, a + b),
                position=vector(0.4),
                orientation=(w, x, y, z),
            )
        )
        kinds = ["free"] if i == 0 and floating else [["hinge"], ["slide"], ["ball"], ["hinge", "slide"], ["slide", "ball"], []][int(random.integers(6))]
        if i == 0 and not kinds:
            kinds = ["hinge"]
        for k, kind in enumerate(kinds):
            own = {} if kind == "free" else law(kind)
            joints.append(cb.Joint(f"j{i}{k}", f"b{i}", kind, axis=vector(1.0), anchor=vector(0.2), **own))
    return cb.Model(f"random tree {seed}", links, joints, world=world)


LAW: dict[str, Any] = {"stiffness": 3.0, "springref": 0.2, "damping": 0.15, "friction": 0.1, "armature": 0.02}
BALL_LAW: dict[str, Any] = {"stiffness": 2.0, "damping": 0.2, "friction": 0.05, "armature": 0.01}
INERTIA = (0.02, 0.03, 0.025, 0.001, -0.002, 0.0015)


def arm_with_ball() -> cb.Model:
    """Hinge, ball, hinge: a shoulder and an elbow."""
    bodies = [
        cb.Body("base", mass=1.0, com=(0.1, 0.0, -0.1), inertia=INERTIA),
        cb.Body("upper", "base", mass=0.8, com=(0.0, 0.05, -0.2), inertia=INERTIA, position=(0.3, 0.0, 0.0), orientation=(0.9, 0.1, -0.2, 0.3)),
        cb.Body("fore", "upper", mass=0.5, com=(0.02, 0.0, -0.15), inertia=INERTIA, position=(0.0, 0.1, -0.4)),
    ]
    joints = [
        cb.Joint("turn", "base", axis=(0.0, 0.2, 1.0), **LAW),
        cb.Joint("shoulder", "upper", "ball", anchor=(0.0, 0.02, 0.05), **BALL_LAW),
        cb.Joint("elbow", "fore", axis=(1.0, 0.0, 0.0), anchor=(0.0, 0.0, 0.1), stribeck=0.05, **LAW),
    ]
    return cb.Model("arm with a ball", bodies, joints, world=DOWN_Z)


def crane() -> cb.Model:
    """Two joints on each body, slides among them, with a spring between points and a bushing."""
    bodies = [
        cb.Body("trolley", mass=2.0, com=(0.0, 0.0, 0.05), inertia=INERTIA, position=(0.0, 0.0, 1.0)),
        cb.Body("boom", "trolley", mass=1.0, com=(0.2, 0.0, 0.0), inertia=INERTIA, position=(0.1, 0.0, -0.1), orientation=(0.95, 0.0, 0.3, 0.0)),
    ]
    joints = [
        cb.Joint("travel", "trolley", "slide", axis=(1.0, 0.1, 0.0), **{**LAW, "stiffness": 20.0}),
        cb.Joint("swivel", "trolley", axis=(0.0, 0.0, 1.0), **LAW),
        cb.Joint("luff", "boom", axis=(0.0, 1.0, 0.0), **LAW),
        cb.Joint("reach", "boom", "slide", axis=(1.0, 0.0, 0.0), **{**LAW, "stiffness": 40.0}),
    ]
    springs = [cb.Spring("rope", "world", "boom", point1=(0.5, 0.3, 1.5), point2=(0.4, 0.0, 0.0), stiffness=15.0, damping=0.4, rest_length=0.3)]
    bushings = [cb.Bushing("buffer", "world", "trolley", point1=(0.1, 0.0, 1.0), stiffness=(5.0, 6.0, 7.0, 0.3, 0.2, 0.4), damping=(0.1,) * 6)]
    actuators = [cb.Actuator("hoist", "luff", gain=0.5, gear=2.0, damping=0.05)]
    return cb.Model("crane", bodies, joints, springs=springs, bushings=bushings, actuators=actuators, world=DOWN_Z)


def branched() -> cb.Model:
    """A trunk with two branches; bodies fixed to the trunk, to a branch and to the world carry mass and joints."""
    bodies = [
        cb.Body("post", mass=5.0, position=(0.0, 0.0, 1.0), orientation=(0.9, 0.2, 0.1, 0.0)),
        cb.Body("trunk", "post", mass=1.0, com=(0.0, 0.1, -0.2), inertia=INERTIA, position=(0.0, 0.1, 0.0)),
        cb.Body("plate", "trunk", mass=0.4, com=(0.05, 0.0, 0.0), inertia=INERTIA, position=(0.0, 0.0, -0.4), orientation=(0.8, 0.0, 0.6, 0.0)),
        cb.Body("left", "plate", mass=0.5, com=(0.0, 0.2, -0.1), inertia=INERTIA, position=(0.0, 0.1, 0.0)),
        cb.Body("right", "trunk", mass=0.6, com=(0.0, -0.2, -0.1), inertia=INERTIA, position=(0.0, -0.1, -0.3)),
        cb.Body("weight", "right", mass=0.3, com=(0.1, 0.0, 0.0), inertia=INERTIA, position=(0.0, -0.2, 0.0)),
    ]
    joints = [
        cb.Joint("root", "trunk", axis=(1.0, 0.3, 0.0), **LAW),
        cb.Joint("a", "left", axis=(0.0, 0.5, 1.0), **LAW),
        cb.Joint("b", "right", axis=(1.0, 0.0, -0.4), anchor=(0.0, 0.05, 0.0), **LAW),
    ]
    return cb.Model("branched", bodies, joints, world=DOWN_Z)
