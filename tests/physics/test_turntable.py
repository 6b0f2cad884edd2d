"""A redundant loop whose dependent equation changes with the pose: a four-bar on a turntable, whose plane turns through the axes of the world."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibody as cb
from calibody.mechanics.equations import evaluate

INERTIA = (0.01, 0.01, 0.01)


def tilted(angle: float) -> tuple[float, float, float, float]:
    """A turn about y."""
    return (float(np.cos(angle / 2)), 0.0, float(np.sin(angle / 2)), 0.0)


def linkage() -> cb.Model:
    """Crank, coupler and rocker in a vertical plane of the table; the loop asks for three equations where two are enough, in the axes of the world."""
    bodies = [
        cb.Body("table", mass=1.0, inertia=(0.1, 0.1, 0.1)),
        cb.Body("crank", "table", mass=0.3, com=(0.1, 0, 0), inertia=INERTIA, orientation=tilted(-1.2)),
        cb.Body("coupler", "crank", mass=0.5, com=(0.25, 0, 0), inertia=INERTIA, position=(0.2, 0, 0), orientation=tilted(0.76)),
        cb.Body("rocker", "table", mass=0.4, com=(0.2, 0, 0), inertia=INERTIA, position=(0.5, 0, 0), orientation=tilted(-1.5)),
    ]
    joints = [cb.Joint("spin", "table"), *(cb.Joint(name, name, axis=(0, 1, 0)) for name in ("crank", "coupler", "rocker"))]
    return cb.Model("linkage", bodies, joints, [cb.Loop("pin", body1="coupler", body2="rocker", anchor1=(0.5, 0, 0), anchor2=(0.4, 0, 0))])


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_equations_are_chosen_again_as_the_plane_turns(coordinates: str) -> None:
    initial = {"joint.crank.angle": 0.0, "joint.crank.rate": 3.0}
    motion = cb.simulate(linkage(), 3.2, 2e-3, initial, {"joint.spin.angle": lambda t: 1.9 * t}, coordinates=coordinates)
    assert sum("other equations of it were dropped" in note for note in motion.notes) >= 2 and len(motion.choices) >= 3
    g = evaluate(motion.structure, motion.numbers, motion.point, derivatives=False).constraint
    assert np.abs(g).max() < 1e-9  # those that were dropped, too
    still = cb.simulate(linkage(), 3.2, 2e-3, initial, {"joint.spin.angle": 0.0}, coordinates=coordinates)
    assert not still.choices
    for node in (motion.choices[1][0] - 1, motion.choices[1][0] + 1):  # each with the rows of its own
        found = cb.step_derivatives(motion, max(node, 1))
        assert np.isfinite(found.by_now).all() and np.abs(found.by_now[: motion.structure.nv]).max() < 1e3
    # turned into the frame of the table, the pin moves in the plane
    site = motion["body.rocker.position"]
    np.testing.assert_allclose(np.linalg.norm(site, axis=1), 0.5, atol=1e-9)


def turned(rate: float, duration: float) -> cb.Recording:
    spin = {"joint.spin.angle": cb.Signal(t := np.linspace(0.0, duration, 121), 0.4 + rate * t, "linear")}
    motion = cb.simulate(linkage(), duration, 1e-3, {"joint.crank.angle": 0.0, "joint.crank.rate": 3.0}, spin)
    times = motion.time[::10]
    seen = motion["joint.crank.angle"][::10] + 1e-3 * np.random.default_rng(1).normal(size=len(times))
    return cb.Recording("turn", [cb.Observation("joint.crank.angle", times, seen, 1e-3)], tuple(cb.Drive(c, s) for c, s in spin.items()))


def test_a_fit_along_a_quarter_turn() -> None:
    """The rows that are kept stay clear all the way."""
    result = cb.fit(linkage(), turned(0.8, 1.2), {"body.rocker.mass": 0.8})
    found = result.parameters["body.rocker.mass"]
    assert result.converged and found.sd is not None and abs(found.value - 0.4) < 3.5 * found.sd
    assert not result.motion(0).choices


@pytest.mark.parametrize(
    ("coordinates", "how"),
    [
        ("tree", {}),
        ("tree", {"method": "shooting"}),
        pytest.param("free", {}, marks=pytest.mark.slow),
        pytest.param("tree", {"process_noise": "auto"}, marks=pytest.mark.slow),
    ],
)
def test_a_fit_along_whole_turns(coordinates: str, how: dict[str, Any]) -> None:
    """No choice of rows is clear all the way."""
    result = cb.fit(linkage(), turned(4.0, 1.2), {"body.rocker.mass": 0.8}, h=1e-2, coordinates=coordinates, **how)
    found = result.parameters["body.rocker.mass"]
    assert result.converged and found.sd is not None and abs(found.value - 0.4) < 3.5 * found.sd
    motion = result.motion(0)
    assert len(motion.choices) >= 3
    g = evaluate(motion.structure, motion.numbers, motion.point, derivatives=False).constraint
    assert np.abs(g[:3]).max() < 1e-7  # of the loop, those that were dropped too
