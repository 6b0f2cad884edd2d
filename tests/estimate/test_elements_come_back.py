"""A number of every element comes back from a short motion, from 10 to 30 % off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from physics.test_loop_kinds import both
from physics.test_rolling import disc as rolling, start as tilted
from physics.test_soft_elements import disc as weight, times

import calibody as cb

Case = tuple[cb.Model, dict[str, Any], float, dict[str, float]]
"""Model, start, duration and first values of the unknowns."""


def with_marks(model: cb.Model) -> cb.Model:
    """Three markers on every body."""
    places = ((0.1, 0.0, 0.0), (0.0, 0.15, 0.0), (0.0, 0.0, -0.2))
    return cb.Model(model.name, model.bodies, model.joints, model.loops, model.springs, bushings=model.bushings, world=model.world,
                    sites=[cb.Site(f"{b.name}{k}", b.name, place) for b in model.bodies for k, place in enumerate(places)])  # fmt: skip


def held(kind: str, **guess: float) -> Case:
    model, _, start, _ = both(kind)
    return with_marks(model), start, 0.5, {f"loop.held.{path}": value for path, value in guess.items()}


def disc() -> Case:
    return with_marks(rolling()), tilted(0.3, 8.0, 0.7, 0.4)[0], 0.5, {"loop.roll.length": 0.33}


def bead() -> Case:
    """On a wire that is off the axis it turns about."""
    rod, joints = cb.Body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1)), [cb.Joint("spin", "rod")]
    joints += [cb.Joint(c, "bead", "slide", axis=a) for c, a in (("x", (1, 0, 0)), ("y", (0, 1, 0)), ("z", (0, 0, 1)))]
    wire = cb.Loop("line", "point", "rod", "bead", anchor1=(0.0, 0.05, 0.02), mask="yz")
    model = cb.Model("wire", [rod, cb.Body("bead", mass=0.2)], joints, [wire])
    return with_marks(model), {"joint.x.position": 0.2, "joint.spin.rate": 3.0}, 0.5, {"loop.line.anchor1.y": 0.06, "loop.line.anchor1.z": 0.015}


def bushing() -> Case:
    """Stiffer one way than the other, and with the cube of what it gives."""
    model = weight(0.0, k3=times(800.0), k_plus=times(100.0), k_minus=times(40.0)).replace({"bushing.disc.damping.zz": 0.5})
    return with_marks(model), {"joint.z.position": 0.3}, 2.0, {"bushing.disc.k3.z": 1000.0, "bushing.disc.k_plus.z": 80.0, "bushing.disc.k_minus.z": 50.0}


def tissue() -> Case:
    bodies = [cb.Body("bone", mass=3.0, inertia=(0.05, 0.05, 0.02)), cb.Body("tissue", mass=2.0, com=(0, 0, 0.02), inertia=(0.02, 0.03, 0.02))]
    damping = tuple(5.0 if i == j < 3 else 0.05 if i == j else 0.0 for i in range(6) for j in range(6))
    soft = cb.Bushing("tissue", "bone", "tissue", k3=(1e6, 1e6, 1e6, 300.0, 300.0, 300.0), damping=damping)
    joints = [cb.Joint("lift", "bone", "slide", axis=(0, 0, 1), stiffness=2000.0), cb.Joint("b", "tissue", "free")]
    model = cb.Model("wobbling", bodies, joints, bushings=[soft])
    return with_marks(model), {"joint.lift.rate": 1.0}, 0.5, {"bushing.tissue.k3.z": 1.3e6, "bushing.tissue.damping.zz": 6.0}


CASES: dict[str, Any] = {
    "rolling": disc,
    "hinge": lambda: held("hinge", **{"anchor2.x": 0.11, "anchor2.z": 0.19}),
    "universal": lambda: held("universal", **{"anchor2.x": 0.11, "anchor2.z": 0.19}),
    "cylindrical": lambda: held("cylindrical", **{"anchor1.x": 0.11, "orientation1.x": -0.53}),
    "slide": lambda: held("slide", **{"orientation1.x": -0.53}),
    "masked point": bead,
    "bushing": bushing,
    "wobbling mass": tissue,
}


@pytest.mark.parametrize("name", [n if n == "rolling" else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_they_come_back(name: str) -> None:
    model, start, duration, guess = CASES[name]()
    motion, random = cb.simulate(model, duration, 1e-3, start), np.random.default_rng(4)
    t = motion.time[::10]
    channels = [f"site.{s.name}.position.{c}" for s in model.sites for c in "xyz"]
    seen = [cb.Observation(c, t, motion[c][::10] + 1e-4 * random.normal(size=len(t)), 1e-4) for c in channels]
    result = cb.fit(model.replace(guess), cb.Recording("run", seen), {path: cb.Unknown(value) for path, value in guess.items()}, h=0.005)
    assert result.converged, result.status
    for path, e in result.parameters.items():
        assert e.sd is not None and e.sd < 0.1 * abs(model[path]), (path, e)
        assert abs(e.value - model[path]) < 3.5 * np.hypot(e.sd, e.discretisation_error or 0.0), (path, e, model[path])
