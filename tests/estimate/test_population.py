"""Numbers that differ between runs: intervals of their mean and covariance against the classical ones, and how often they hold the truth."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, t

import calibody as cb
from calibody.estimate.draws.population import drawn

TRUE = np.array([[0.04, 0.015], [0.015, 0.09]])


def test_without_errors_the_intervals_are_the_classical_ones() -> None:
    x = np.random.default_rng(0).multivariate_normal([1.5, 2.0], TRUE, 12)
    found = drawn(("a", "b"), x, 1e-12 * np.eye(24), 1)
    sd, low_high = x.std(axis=0, ddof=1), found.mean_interval()
    assert np.allclose(low_high[1] - low_high[0], 2.0 * t.ppf(0.975, 11) * sd / np.sqrt(12), rtol=0.05)
    variance = found.covariance_interval()[:, 0, 0]
    assert np.allclose(variance, 11 * sd[0] ** 2 / chi2.ppf([0.975, 0.025], 11), rtol=0.08)


def test_intervals_hold_the_truth_as_often_as_they_say_with_errors_as_large_as_the_scatter() -> None:
    rng, errors = np.random.default_rng(2), np.kron(np.eye(10), np.diag([0.03, 0.05]))
    held = []
    for seed in range(200):
        x = rng.multivariate_normal([1.5, 2.0], TRUE, 10)
        found = drawn(("a", "b"), x + rng.multivariate_normal(np.zeros(20), errors).reshape(10, 2), errors, seed)
        (low, high), (least, most) = found.mean_interval(), found.covariance_interval()
        held.append([*((low <= [1.5, 2.0]) & (high >= [1.5, 2.0])), *((least <= TRUE) & (most >= TRUE))[[0, 0, 1], [0, 1, 1]]])
    assert np.all(np.mean(held, axis=0) >= 0.905), np.mean(held, axis=0)  # 95 % of 200, give or take 3 standard deviations of counting


def test_a_population_of_a_fit_and_what_has_none() -> None:
    rng, runs = np.random.default_rng(3), []
    model = cb.Model("rod", [cb.Body("rod", mass=1.0, com=(0, 0, -0.5), inertia=(0.02, 0.02, 0.02))], [cb.Joint("pivot", "rod", axis=(0, 1, 0), damping=0.02)])
    lengths = -0.5 + 0.05 * rng.standard_normal(5)
    for k, z in enumerate(lengths):
        motion = cb.simulate(model.replace({"body.rod.com.z": z}), 2.0, 0.01, {"joint.pivot.angle": 0.7})
        y = motion["joint.pivot.angle"][::2] + 0.002 * rng.standard_normal(101)
        runs.append(cb.Recording(f"r{k}", (cb.Observation("joint.pivot.angle", motion.time[::2], y, 0.002),)))
    result = cb.fit(model, runs, {"body.rod.com.z": cb.Unknown(-0.45, per_run=True), "joint.pivot.damping": cb.Unknown(0.02)}, h=0.02)
    found = cb.population(result)
    assert found.names == ("body.rod.com.z",) and abs(found.mean[0] - lengths.mean()) < 0.01
    low, high = np.sqrt(found.covariance_interval()[:, 0, 0])
    assert low < lengths.std() < high and "sd between runs" in str(found)
    with pytest.raises(cb.CalibodyError, match="does not differ between runs"):
        cb.population(result, "joint.pivot.damping")
    with pytest.raises(cb.CalibodyError, match="number between 0 and 1"):
        found.mean_interval(95)
    single = cb.fit(model, runs[:2], {"body.rod.com.z": cb.Unknown(-0.45, per_run=True)}, h=0.02)
    with pytest.raises(cb.CalibodyError, match="too few"):
        cb.population(single)


@pytest.mark.slow
def test_lengths_of_ten_pendulums_have_the_population_that_they_were_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty times ten runs, each of another double pendulum, fitted from angles (`examples/stein_study.py lengths`): the 95 % intervals of both means and of the covariance hold the truth at least 18 times."""
    pytest.importorskip("jax")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    assert np.all(importlib.import_module("stein_study").lengths(20) >= 18)
