"""Intervals that hold all parameters at once."""

from __future__ import annotations

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.chi_square import joint_factor


def test_the_factor_is_that_of_the_published_quantiles() -> None:
    assert joint_factor(1, float("inf"), 0.95) == pytest.approx(1.959964, abs=1e-5)  # one number alone: its own interval
    assert joint_factor(1, 10.0, 0.95) == pytest.approx(2.228139, abs=1e-5)  # Student's
    assert joint_factor(8, float("inf"), 0.95) == pytest.approx(np.sqrt(15.507313), abs=1e-5)
    assert joint_factor(4, 20.0, 0.95) == pytest.approx(np.sqrt(4.0 * 2.866081), abs=1e-5)


def test_a_box_of_the_joint_ellipsoid_holds_as_often_as_it_says() -> None:
    random, count, sds = np.random.default_rng(0), 3, np.array([0.5, 2.0, 1.0])
    factor = joint_factor(count, float("inf"), 0.9)
    draws = random.standard_normal((20_000, count)) * sds
    inside = (np.abs(draws) < factor * sds).all(axis=1).mean()
    assert 0.93 < inside < 0.99  # the box is larger than the ellipsoid, which holds 90 % ...
    assert ((draws / sds) ** 2).sum(axis=1).__lt__(factor**2).mean() == pytest.approx(0.9, abs=0.01)
    assert (np.abs(draws) < 1.645 * sds).all(axis=1).mean() < 0.75  # ... and single intervals hold all less often


def test_of_a_fit() -> None:
    arm = cb.Body("arm", mass=1.0, com=(0.0, 0.0, -0.2), inertia=(0.02, 0.02, 0.001))
    model = cb.Model("pendulum", [arm], [cb.Joint("hinge", "arm", axis=(0.0, 1.0, 0.0), damping=0.05)])
    motion = cb.simulate(model, 2.0, 0.01, {"joint.hinge.angle": 1.0})
    y = motion["joint.hinge.angle"] + 2e-3 * np.random.default_rng(0).standard_normal(len(motion.time))
    run = cb.Recording("swing", [cb.Observation("joint.hinge.angle", motion.time, y, 2e-3)])
    result = cb.fit(model, run, {"joint.hinge.damping": 0.06, "body.arm.inertia.yy": 0.025}, h=0.01)
    found = result.simultaneous()
    for name, (low, high) in found.items():
        e = result.parameters[name]
        assert e.sd is not None and (high - low) / 2.0 == pytest.approx(2.447747 * e.sd, rel=1e-5) and low < model[name] < high
    with pytest.raises(cb.CalibodyError, match=r"level = 95; give a probability between 0 and 1"):
        result.simultaneous(95)
