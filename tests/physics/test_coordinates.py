"""`free` and `tree` are the same scheme: every channel of 1000 steps agrees, with springs, dampers, friction, armature and drives."""

from __future__ import annotations

import numpy as np
import pytest
from problems import LAW, arm_with_ball, branched, crane, four_bar

import calibody as cb

MOTIONS = {
    "ball": (arm_with_ball(), {"joint.turn.rate": 2.0, "joint.shoulder.rate": (1.0, -2.0, 0.5), "joint.elbow.angle": 0.7}, {}),
    "crane": (crane(), {"joint.luff.rate": 1.5, "joint.swivel.rate": -2.0, "joint.reach.position": 0.05}, {"actuator.hoist": lambda t: np.sin(5.0 * t)}),
    "branched": (branched(), {"joint.root.rate": 3.0, "joint.a.angle": 1.0, "joint.b.rate": -2.0}, {"joint.a.force": 0.3}),
    "four-bar": (four_bar(1, **LAW), {"joint.ground0.angle": -0.5, "joint.ground1.angle": -0.5, "joint.ground0.rate": -1.0}, {"joint.top0.force": 0.2}),
}
H = 2e-3
STEPS = 1000
# A reaction is a second difference of poses times a mass: what differs by d in position differs by about m d/h^2 in force.
FORCE_PER_POSITION = 10.0 / H**2


@pytest.mark.parametrize("name", MOTIONS)
def test_free_and_tree_agree(name: str) -> None:
    model, initial, drive = MOTIONS[name]
    tree, free = (cb.simulate(model, STEPS * H, H, initial, drive, coordinates=c) for c in ("tree", "free"))
    assert (tree.coordinates, free.coordinates, len(free.time)) == ("tree", "free", STEPS + 1)
    moved = 0.0
    for path in tree.channels:
        a, b = tree[path], free[path]
        difference = np.abs(a - b).max()
        if path.endswith(".pose"):
            sign = np.sign((a[:, 3:] * b[:, 3:]).sum(1))[:, None]
            difference = np.abs(np.concatenate([a[:, :3] - b[:, :3], a[:, 3:] - sign * b[:, 3:]], axis=1)).max()
        if ".reaction." in path or path.startswith("loop.") or (path.startswith("site.") and path.endswith((".force", ".torque"))):
            tolerance = 1e-9 * FORCE_PER_POSITION
        elif path.endswith(".acceleration"):  # a second difference of poses
            tolerance = 1e-9 / H**2
        elif path.endswith((".rate", ".angular_rate", ".force")):
            tolerance = 1e-9 / H
        else:
            tolerance = 1e-9
            moved = max(moved, float(np.ptp(a, axis=0).max()))
        assert difference < tolerance, path
    assert moved > 0.5  # it was a motion
    np.testing.assert_allclose(tree.energy, free.energy, atol=1e-7)
    assert tree.energy[-1] < tree.energy[0]
