"""Limits of estimates at their bounds, against the likelihood itself."""

from __future__ import annotations

import numpy as np
import pytest

import calibody as cb

TRUTH = {"body.arm.mass": 0.4, "joint.hinge.damping": 1e-5}
TIMES = np.arange(0.0, 2.01, 0.01)
DRIVE = cb.Signal(TIMES, 0.2 * np.sin(5 * TIMES) + 0.1 * np.sin(11 * TIMES))


def pendulum() -> cb.Model:
    arm = cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))
    return cb.Model("pendulum", [arm], [cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=1e-5)], actuators=[cb.Actuator("motor", "hinge")])


@pytest.fixture(scope="module")
def motion() -> cb.Motion:
    return cb.simulate(pendulum(), 2.0, 0.01, {"joint.hinge.angle": 0.5}, {"actuator.motor": DRIVE})


def fitted(motion: cb.Motion, seed: int, **unknowns: cb.Unknown) -> cb.Result:
    noisy = motion["joint.hinge.angle"] + 5e-3 * np.random.default_rng(seed).normal(size=len(motion.time))
    run = cb.Recording("r", (cb.Observation("joint.hinge.angle", motion.time, noisy, 5e-3),), (cb.Drive("actuator.motor", DRIVE),))
    asked = {"body.arm.mass": cb.Unknown(0.5)} | {f"joint.hinge.{name}": unknown for name, unknown in unknowns.items()}
    return cb.fit(pendulum(), run, asked, h=0.01)


@pytest.fixture(scope="module")
def many(motion: cb.Motion) -> list[cb.Result]:
    return [fitted(motion, seed, damping=cb.Unknown(1e-3, lower=0.0)) for seed in range(16)]


def test_the_limit_is_where_the_likelihood_says(motion: cb.Motion, many: list[cb.Result]) -> None:
    """Twice the logarithmic likelihood falls by 1.645^2 from the bound to the limit, the mass found anew."""
    seed = next(s for s, result in enumerate(many) if result.parameters["joint.hinge.damping"].at_bound)
    at_bound = many[seed]
    limit = at_bound.parameters["joint.hinge.damping"].limit
    assert limit is not None and limit > 0.0
    there = fitted(motion, seed, damping=cb.Unknown(limit, lower=limit, upper=limit))
    assert there.cost - at_bound.cost == pytest.approx(1.6449**2, rel=0.15)  # less than exact where the residuals show more scatter than stated
    assert any("joint.hinge.damping ended at its bound and is at most" in n for n in at_bound.notes)


def test_an_upper_bound_has_a_lower_limit(motion: cb.Motion) -> None:
    e = fitted(motion, 0, damping=cb.Unknown(-0.01, upper=-5e-3)).parameters["joint.hinge.damping"]
    assert e.at_bound and e.limit is not None and e.limit < e.value and e.bounded.startswith(">= ")


def test_limits_hold(many: list[cb.Result]) -> None:
    """The truth is near the bound: many estimates end there, and at most one in twenty limits is below the truth."""
    found = [result.parameters["joint.hinge.damping"] for result in many]
    limited = [e.limit for e in found if e.at_bound]
    assert 3 <= len(limited) <= 13 and all(limit is not None for limit in limited)
    assert sum(limit < TRUTH["joint.hinge.damping"] for limit in limited if limit is not None) <= 1
