"""Unmodelled forces where there are none: `"auto"` is then the fit without them; and where there are, they are seen."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from race_problems import problem

import calibody as cb
from calibody.estimate.layout import NODES
from calibody.estimate.noise.compared import _left_over


def pendulum() -> cb.Model:
    return cb.Model(
        "pendulum",
        bodies=[cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))],
        joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=4e-4)],
        world=cb.World(gravity=(0, 0, -9.82)),
    )


UNKNOWN = {"body.arm.inertia.yy": cb.Unknown(0.006), "joint.hinge.damping": cb.Unknown(8e-4)}


def swing(seed: int, force: float, steady: float = 0.0) -> cb.Recording:
    """A pendulum under a white force and a steady one [N m]."""
    rng = np.random.default_rng(seed)
    times = np.arange(0.0, 3.1, 0.01)
    pushed = cb.Signal(times, force * rng.normal(size=len(times)) + steady)
    motion = cb.simulate(pendulum(), 3.0, 0.005, {"joint.hinge.angle": 1.0}, {"joint.hinge.force": pushed})
    y = motion["joint.hinge.angle"][::2] + 2e-3 * rng.normal(size=len(motion.time[::2]))
    return cb.Recording(f"swing{seed}", (cb.Observation("joint.hinge.angle", motion.time[::2], y, 2e-3),))


def test_where_there_are_none_auto_is_the_fit_without() -> None:
    same = 0
    for seed in range(8):
        run = swing(seed, 0.0)
        auto, none = (cb.fit(pendulum(), run, UNKNOWN, process_noise=kind, h=0.005) for kind in ("auto", "none"))
        assert auto.converged
        for path, e in auto.parameters.items():
            assert e.sd is not None and abs(e.value - none.parameters[path].value) < 0.5 * e.sd
        same += auto.process_noise == {"hinge": 0.0} and auto.parameters == none.parameters
    assert same >= 5  # all tests together speak against the model by chance in one of ten


@pytest.mark.parametrize(("force", "steady"), [(2e-3, 0.0), (0.0, 2e-3)])
def test_where_there_are_some_they_are_found(force: float, steady: float) -> None:
    """The noise hides a white force of a two-hundredth of the weight's moment as little as a steady one."""
    for seed in range(2):
        assert cb.fit(pendulum(), swing(seed, force, steady), UNKNOWN, process_noise="auto", h=0.005).process_noise["hinge"] > 0.0


def test_a_motion_that_is_given_up_is_no_comparison() -> None:
    """A fit without forces that leaves most of a channel over says nothing of the estimates of one with them."""
    result = cb.fit(pendulum(), swing(0, 0.0), UNKNOWN, h=0.005)
    for share, left in ((1.0, []), (0.9, []), (0.5, ["joint.hinge.angle"])):
        states = tuple(s.changed(**{NODES: share * s.q}) for s in result.states)
        assert _left_over(result.problem, SimpleNamespace(x=states, theta=result.theta)) == left  # pyright: ignore[reportArgumentType]


def test_the_race_with_auto(shared: Path) -> None:
    model, recording, truth = problem(shared, "gentle_single")
    result = cb.fit(model, recording, {path: cb.Unknown(3.0 * value) for path, value in truth.items()}, process_noise="auto")
    assert result.converged and not result.lacks
    for path, value in truth.items():
        e = result.parameters[path]
        assert e.sd is not None and abs(e.value - value) < 3.0 * e.sd
