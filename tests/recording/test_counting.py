"""Counters are told from other sensors by their samples."""

from __future__ import annotations

import numpy as np
import pytest

from calibody.recording.counting import step_of


@pytest.mark.parametrize("step", [2 * np.pi / 2048, 1e-5, 0.3])
@pytest.mark.parametrize("digits", [None, 7])
def test_the_step_of_a_counter(step: float, digits: int | None) -> None:
    times = np.linspace(0.0, 4.0, 800)
    values = 0.4 + step * np.round(60.0 * np.sin(3.0 * times))
    found = step_of(values if digits is None else np.round(values, digits))
    assert (found is None and digits and step < 1e-4) or (found is not None and found.step == pytest.approx(step, rel=1e-3))


def test_other_sensors_have_none() -> None:
    rng = np.random.default_rng(0)
    assert step_of(rng.standard_normal(500)) is None
    assert step_of(np.zeros(500)) is None
    mixed = 0.01 * np.round(100 * np.sin(np.linspace(0, 9, 500)))
    mixed[77] += 0.004
    assert step_of(mixed) is None
