"""The low-pass against its exact response, and the noise it is meant to find."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from calibody.errors import CalibodyError
from calibody.recording.filters import interpolated, lowpass, noise_sd
from calibody.recording.readers import read

MIDDLE = np.linspace(3.0, 7.0, 401)


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("ratio", [0.2, 1.0, 2.0])
def test_amplitude_of_two_passes_without_phase(order: int, ratio: float) -> None:
    cutoff, t = 2.0, np.linspace(0, 10, 5001)
    w = 2 * math.pi * cutoff * ratio
    gain = 1 / (1 + (math.sqrt(2) - 1) * ratio ** (2 * order))  # 1/sqrt 2 at the cutoff
    smooth = lowpass(t, np.sin(w * t), cutoff, order)
    np.testing.assert_allclose(smooth(MIDDLE), gain * np.sin(w * MIDDLE), atol=2e-3)
    np.testing.assert_allclose(smooth(MIDDLE, 1), gain * w * np.cos(w * MIDDLE), atol=2e-3 * w)


def test_straight_lines_pass_to_the_very_ends_and_beyond() -> None:
    t = np.linspace(0, 1, 101)
    smooth = lowpass(t, 3 * t - 1, 5.0)
    np.testing.assert_allclose(smooth([-0.5, 0.0, 0.5, 1.0, 2.0]), [-2.5, -1.0, 0.5, 2.0, 5.0], atol=1e-6)
    np.testing.assert_allclose(smooth([-0.5, 0.5, 2.0], 1), 3.0, atol=1e-3)
    assert smooth([-0.5, 2.0], 2).tolist() == [0.0, 0.0]


def test_irregular_with_gaps() -> None:
    rng = np.random.default_rng(1)
    t = np.cumsum(rng.uniform(0.005, 0.015, 1000))
    x = np.sin(2 * t) + 0.02 * rng.standard_normal(1000)
    x[500:505] = np.nan
    smooth = lowpass(t, x, 3.0)
    inside = np.linspace(t[20], t[-20], 500)
    assert np.sqrt(np.mean((smooth(inside) - np.sin(2 * inside)) ** 2)) < 0.008
    assert np.sqrt(np.mean((smooth(inside, 1) - 2 * np.cos(2 * inside)) ** 2)) < 0.1


@pytest.mark.parametrize("count", [2, 3, 4, 10])
@pytest.mark.parametrize("cutoff", [0.01, 1.0, 1e4])
def test_short_series(count: int, cutoff: float) -> None:
    t = np.linspace(0, 0.1, count)
    assert np.isfinite(lowpass(t, t**2, cutoff)(t)).all()


def test_interpolated_goes_through_the_samples() -> None:
    t = np.array([0.0, 0.1, 0.3, 0.35, 0.5])
    x = np.array([0.0, 1.0, np.nan, 2.0, -1.0])
    np.testing.assert_allclose(interpolated(t, x)(t[[0, 1, 3, 4]]), x[[0, 1, 3, 4]], atol=1e-14)


def test_refusals() -> None:
    t = np.linspace(0, 1, 11)
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(CalibodyError, match="positive frequency"):
            lowpass(t, t, bad)
    with pytest.raises(CalibodyError, match=r"gap of 1e\+12 s after 1 s"):
        lowpass(np.r_[t, 1e12], np.r_[t, 0.0], 1.0)
    with pytest.raises(CalibodyError, match="1 finite samples"):
        lowpass(t, np.where(t == 0, 1.0, np.nan), 1.0)
    with pytest.raises(CalibodyError, match="does not increase"):
        noise_sd(t[::-1], t)
    with pytest.raises(CalibodyError, match="one length"):
        noise_sd(t, t[1:])


@pytest.mark.parametrize("irregular", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_noise_of_a_smooth_motion(irregular: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.uniform(0.005, 0.015, 2000)) if irregular else np.arange(2000) * 0.01
    x = 2 * np.sin(3 * t) + 0.01 * rng.standard_normal(2000)
    x[::97] = np.nan
    x[5::211] += 3.0  # outliers
    assert noise_sd(t, x) == pytest.approx(0.01, rel=0.12)


def test_noise_of_special_series() -> None:
    t = np.arange(100) * 0.01
    assert noise_sd(t, np.full(100, 2.0)) == pytest.approx(0.0, abs=1e-12)
    assert noise_sd(t, 1 + t + t**2 + t**3) < 1e-10
    assert noise_sd(t[:4], np.array([0.0, 1.0, 0.0, 1.0])) > 0
    quantised = np.zeros(100)
    quantised[30:40] = 0.003
    assert 1e-5 < noise_sd(t, quantised) < 0.003


@pytest.mark.parametrize("name", ["gentle_double", "tumbling_double"])
def test_noise_of_the_race_is_its_stated_noise(shared: Path, name: str) -> None:
    run = read(shared / "race" / f"{name}.csv", observe={"joint.a.angle": "angle1", "joint.b.angle": "angle2"})
    for observation in run.observations:
        assert noise_sd(observation.times, observation.values) == pytest.approx(0.01, rel=0.1)
