"""Samples that are not of the motion: first and last ones, spikes and jumps inside a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calibody as cb
from calibody.recording.glitches import glitches, without
from calibody.recording.jumps import jumps, sentences


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
    values[100:] += 20.0 * (o.times[100:] - o.times[99])  # the rate changes by 20 rad/s
    assert glitches(replace(o, values=values)) == []


@pytest.mark.parametrize("counts", [None, 2048])
def test_spikes_and_jumps_are_told_apart(counts: int | None) -> None:
    """Three samples off and a slip of 0.1 rad that stays; the same in counts. Without them nothing is said, of 100 recordings."""
    step = 2.0 * np.pi / (counts or 1)
    counted = lambda o: o if counts is None else replace(o, values=step * np.round(o.values / step))  # noqa: E731
    for seed in range(100):
        clean = swing()
        noisy = counted(replace(clean, values=clean.values + 1e-3 * np.random.default_rng(seed).normal(size=len(clean.values))))
        assert jumps(noisy) == []
    values = swing().values.copy()
    values[[30, 60, 90]] += [0.1, -0.2, 0.15]
    values[150:] += 0.1
    found = jumps(counted(replace(swing(), values=values)))
    assert [round(100 * j.time) for j in found] == [30, 60, 90, 150] and [j.lasting for j in found] == [False] * 3 + [True]
    assert [j.size for j in found] == pytest.approx([0.1, -0.2, 0.15, 0.1], abs=0.01)
    spikes, slip = sentences(counted(replace(swing(), values=values)))
    assert spikes.startswith("3 samples") and "0.3 s, 0.6 s, 0.9 s" in spikes and "stays there (1.5 s)" in slip


def test_impacts_gaps_and_rates_are_no_jumps() -> None:
    t = np.arange(0.0, 2.0, 0.01)
    bounce = cb.Observation("joint.hinge.angle", t, np.abs(t - 1.0033) + 1e-4 * np.random.default_rng(0).normal(size=len(t)), 1e-4)
    assert jumps(bounce) == []
    fast = cb.Observation("joint.hinge.angle", np.delete(t, 80), np.delete(np.sin(9.0 * t), 80), 1e-4)
    assert jumps(fast) == []  # a sample is missing: the next is far from the one before
    rate = cb.Observation("joint.hinge.rate", t, np.where(t < 1.0, -1.0, 1.0) + 1e-3 * np.random.default_rng(0).normal(size=len(t)), 1e-3)
    assert jumps(rate) == []


def test_a_fit_says_so() -> None:
    model = cb.Model(
        "pendulum", bodies=[cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))],
        joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0))], world=cb.World(gravity=(0, 0, -9.82)),
    )  # fmt: skip
    motion = cb.simulate(model, 2.0, 0.005, {"joint.hinge.angle": 1.0})
    y = motion["joint.hinge.angle"][::2] + 1e-3 * np.random.default_rng(0).normal(size=len(motion.time[::2]))
    y[0] += 0.1
    y[120] += 0.2
    run = cb.Recording("r", (cb.Observation("joint.hinge.angle", motion.time[::2], y, 1e-3),))
    result = cb.fit(model, run, {"body.arm.inertia.yy": cb.Unknown(0.006)})
    e = result.parameters["body.arm.inertia.yy"]
    assert any("glitch" in note for note in result.notes) and any("(1.2 s)" in note for note in result.notes)
    assert result.converged and e.sd is not None and abs(e.value - 0.004) < 3.5 * e.sd
    (outlier,) = result.outliers
    assert outlier.time == pytest.approx(1.2)


def test_the_cart(shared: Path) -> None:
    """The real one: 5.6 mm in the first sample."""
    t, x, *_ = np.genfromtxt(shared / "data/cartpole_quanser/c05.csv", delimiter=",", skip_header=1).T
    found = glitches(cb.Observation("joint.cart.position", t, x, 6.6e-6))
    assert [g.index for g in found] == [0, len(t) - 1] and found[0].size == pytest.approx(5.6e-3, rel=0.05)
