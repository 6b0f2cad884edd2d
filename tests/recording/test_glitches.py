"""First and last samples that are not of the motion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calibody as cb
from calibody.recording.glitches import glitches, without


def swing() -> cb.Observation:
    t = np.arange(0.0, 2.0, 0.01)
    return cb.Observation("joint.hinge.angle", t, np.sin(5.0 * t) + 1e-3 * np.random.default_rng(0).normal(size=len(t)), 1e-3)


@pytest.mark.parametrize("index", [0, -1])
def test_an_end_that_is_off_is_named_and_left_out(index: int) -> None:
    o = swing()
    assert glitches(o) == []
    values = o.values.copy()
    values[index] += 0.1
    spoilt = cb.Recording("r", (replace(o, values=values),))
    cleaned, sentences = without(spoilt)
    assert len(sentences) == 1 and ("first" if index == 0 else "last") in sentences[0] and "0.1" in sentences[0]
    assert np.isnan(cleaned.observations[0].values[index]) and np.isfinite(cleaned.observations[0].values).sum() == len(values) - 1


def test_an_impact_is_no_glitch() -> None:
    o = swing()
    values = o.values.copy()
    values[0] += 0.1
    values[100:] += 0.2
    assert glitches(replace(o, values=values)) == []


def test_a_fit_says_so() -> None:
    model = cb.Model(
        "pendulum", bodies=[cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))],
        joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0))], world=cb.World(gravity=(0, 0, -9.82)),
    )  # fmt: skip
    motion = cb.simulate(model, 2.0, 0.005, {"joint.hinge.angle": 1.0})
    y = motion["joint.hinge.angle"][::2] + 1e-3 * np.random.default_rng(0).normal(size=len(motion.time[::2]))
    y[0] += 0.1
    run = cb.Recording("r", (cb.Observation("joint.hinge.angle", motion.time[::2], y, 1e-3),))
    result = cb.fit(model, run, {"body.arm.inertia.yy": cb.Unknown(0.006)})
    e = result.parameters["body.arm.inertia.yy"]
    assert any("glitch" in note for note in result.notes)
    assert result.converged and e.sd is not None and abs(e.value - 0.004) < 3.5 * e.sd


def test_the_cart(shared: Path) -> None:
    """The real one: 5.6 mm in the first sample."""
    t, x, *_ = np.genfromtxt(shared / "data/cartpole_quanser/c05.csv", delimiter=",", skip_header=1).T
    found = glitches(cb.Observation("joint.cart.position", t, x, 6.6e-6))
    assert [g.index for g in found] == [0, len(t) - 1] and found[0].size == pytest.approx(5.6e-3, rel=0.05)
