"""States that the data hardly determine: a loop of six links seen at one point, its start free."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import calibody as cb

BARS, LENGTH, H = 5, 0.3, 0.01


def six_links() -> cb.Model:
    """A regular hexagon of five bars and the ground, with springs in its hinges; three freedoms, one of them driven."""
    rod: dict[str, Any] = {"com": (LENGTH / 2, 0.0, 0.0), "inertia": (1e-4, 3e-3, 3e-3)}
    bodies = []
    for i in range(BARS):
        turn = math.radians(-60.0 if i else 120.0)
        placed: dict[str, Any] = {"position": (LENGTH if i else 0.0, 0.0, 0.0), "orientation": (math.cos(turn / 2), 0.0, -math.sin(turn / 2), 0.0)}
        bodies.append(cb.Body(f"bar{i}", f"bar{i - 1}" if i else "world", mass=0.3 + 0.1 * i, **rod, **placed))
    joints = [cb.Joint(f"j{i}", f"bar{i}", axis=(0.0, 1.0, 0.0), damping=0.02, stiffness=8.0) for i in range(BARS)]
    loop = cb.Loop("close", "point", body1=f"bar{BARS - 1}", body2="world", anchor1=(LENGTH, 0.0, 0.0), anchor2=(LENGTH, 0.0, 0.0))
    site = cb.Site("mark", f"bar{BARS - 1}", (LENGTH / 2, 0.0, 0.0))
    return cb.Model("six links", bodies, joints, [loop], sites=[site], actuators=[cb.Actuator("motor", "j0")], world=cb.World(gravity=(0.0, 0.0, -9.81)))


@pytest.mark.parametrize(
    ("guess", "most"),
    [
        ({"joint.j0.damping": 0.028, "body.bar2.mass": 0.7}, 24),  # 19; without damping of the states it did not converge
        ({"body.bar1.mass": 0.56, "body.bar2.mass": 0.7}, 18),  # 15; without it 44
    ],
)
def test_a_loop_of_six_links_seen_at_one_point(guess: dict[str, float], most: int) -> None:
    model, sd, noise = six_links(), 1e-3, np.random.default_rng(0)
    times = np.arange(0.0, 1.04, H)
    drive = cb.Signal(times, 0.2 * np.sin(7 * times))
    motion = cb.simulate(model, 1.0, H, {}, {"actuator.motor": drive}, coordinates="tree")
    channels = [f"site.mark.position.{axis}" for axis in "xz"]
    observed = tuple(cb.Observation(c, motion.time, motion[c] + sd * noise.normal(size=len(motion.time)), sd) for c in channels)
    still = {f"joint.j{i}.{what}": 0.0 for i in range(3) for what in ("angle", "rate")}
    free, known = (
        cb.fit(model, cb.Recording("seen at one point", observed, (cb.Drive("actuator.motor", drive),), initial=start), guess, h=H, coordinates="tree")
        for start in ({}, still)
    )
    assert free.status == known.status == "converged"
    assert free.iterations <= most
    assert any(step.tether > 0.0 for step in free.history) and free.history[-1].tether == 0.0
    for path in guess:
        a, b = free.parameters[path], known.parameters[path]
        assert a.sd is not None and b.sd is not None and b.sd < a.sd
        assert abs(a.value - b.value) < 3.0 * a.sd
    assert known.history[-1].cost - 10.0 < free.history[-1].cost < known.history[-1].cost  # six numbers more are free
