"""Recordings built in code: what they check, what they warn of, how they are cut."""

from __future__ import annotations

import numpy as np
import pytest

from calibody.errors import CalibodyError
from calibody.recording.recording import Drive, Observation, Recording
from calibody.recording.signal import Signal

T = np.linspace(0.0, 1.0, 101)


def angle(values: np.ndarray | None = None, times: np.ndarray = T, channel: str = "joint.a.angle", sd: float | None = None) -> Observation:
    return Observation(channel, times, np.sin(7 * times) if values is None else values, sd)


def drive(times: np.ndarray = T, hold: str = "zero") -> Drive:
    return Drive("actuator.m", Signal(times, np.cos(times), hold))


def refused(make, *words: str) -> None:
    with pytest.raises(CalibodyError) as caught:
        make()
    text = str(caught.value)
    assert text.endswith((".", "?")) and "\n" not in text
    for word in words:
        assert word in text


def test_clock_that_does_not_increase_names_sample_and_times() -> None:
    times = T.copy()
    times[5] = times[4]
    refused(lambda: angle(times=times), "joint.a.angle", "sample 5", "0.04 s, then 0.04 s")
    times[5] = np.nan
    refused(lambda: angle(times=times), "no finite time at sample 6")


def test_too_little_data() -> None:
    refused(lambda: angle(np.full(101, np.nan)), "no finite sample")
    refused(lambda: angle(T[:3], T[:3]), "3 finite samples", "at least 4")
    refused(lambda: angle(np.zeros(0), np.zeros(0)), "no finite sample")
    refused(lambda: angle(np.r_[np.inf, T[1:]]), "infinite at sample 1")
    refused(lambda: angle(np.zeros(5)), "(101,)", "(5,)")
    refused(lambda: Observation("joint.a.angle", T, ["x"] * 101), "arrays of numbers")  # type: ignore[arg-type]


@pytest.mark.parametrize("sd", [0.0, -1.0, np.nan, np.inf, "0.1", True])
def test_bad_sd(sd: object) -> None:
    refused(lambda: angle(sd=sd), "sd = ")  # type: ignore[arg-type]


def test_bad_members() -> None:
    refused(lambda: Recording("r", ()), "observes nothing")
    refused(lambda: Recording("r", (angle(), angle())), "joint.a.angle", "twice")
    refused(lambda: Recording("r", (drive(),)), "Drive", "Observation")  # type: ignore[arg-type]
    refused(lambda: Recording("r", (angle(),), start=2.0, end=1.0), "2 s", "1 s")
    refused(lambda: Recording("r", (angle(),), start="0"), "start = '0'")  # type: ignore[arg-type]
    refused(lambda: Drive("actuator.m", T), "Signal")  # type: ignore[arg-type]
    refused(lambda: angle(channel="angle"), "is not a channel")
    refused(lambda: Recording("r", (angle(),))["joint.a.angel"], 'did you mean "joint.a.angle"')


def test_a_run_goes_from_the_first_to_the_last_sample_that_is_not_a_gap() -> None:
    values = np.sin(T)
    values[:3] = np.nan
    run = Recording("r", (angle(values), angle(times=T[10:60], channel="joint.b.angle")), (drive(),))
    assert (run.start, run.end) == (T[3], 1.0)
    assert run.duration == pytest.approx(0.97) and run.period == pytest.approx(0.01)
    assert run.channels == ("joint.a.angle", "joint.b.angle")
    assert np.isfinite(run["joint.a.angle"].values).all()


def test_arrays_are_copies_that_cannot_be_written() -> None:
    times = T.copy()
    observation = angle(times=times)
    times[:] = 0.0
    assert observation.times[-1] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        observation.values[0] = 1.0


def test_cut_keeps_the_drive_whole() -> None:
    run = Recording("r", (angle(),), (drive(),)).cut(0.25, 0.5)
    assert (run.start, run.end, len(run.observations[0].times)) == (0.25, 0.5, 26)
    assert len(run.drives[0].signal.times) == 101
    refused(lambda: run.cut(0.49), "2 finite samples from 0.49 s to 0.5 s")
    assert run.cut(end=0.4).start == 0.25


def test_drive_shorter_than_the_observations() -> None:
    refused(lambda: Recording("r", (angle(),), (drive(T[:90]),)), "actuator.m", "shorter", "0 s to 0.89 s", "0 s to 1 s")
    refused(lambda: Recording("r", (angle(),), (drive(T[5:]),)), "shorter")
    assert Recording("r", (angle(),), (drive(T[:90]),), end=0.8).end == 0.8


@pytest.mark.parametrize("hold", ["zero", "linear"])
def test_one_missing_sample_at_either_end_of_a_drive_is_held(hold: str) -> None:
    run = Recording("r", (angle(),), (drive(T[1:-1], hold),))
    assert any("begins 0.01 s after" in s for s in run.warnings())


def test_one_sample_is_a_constant_drive() -> None:
    assert not Recording("r", (angle(),), (drive(T[:1]),)).warnings()


def test_warnings() -> None:
    assert not Recording("r", (angle(),), (drive(),)).warnings()
    (constant,) = angle(np.full(101, 0.3)).warnings()
    assert "constant (0.3)" in constant
    (clipped,) = angle(np.minimum(np.sin(7 * T), 0.8)).warnings()
    assert "largest value (0.8)" in clipped
    values = np.sin(7 * T)
    values[20:40] = np.nan
    (gap,) = angle(values).warnings()
    assert "gap of 0.21 s after 0.19 s" in gap
    (slow,) = angle(np.sin(7 * T), 1000 * T).warnings()
    assert "time_unit" in slow
    holed = np.delete(T, np.arange(20, 40))
    assert not drive(holed).warnings(0.0)
    assert len(drive(holed, "linear").warnings(0.0)) == 1


def test_print() -> None:
    text = str(Recording("swing", (angle(sd=0.01),), (drive(),), source="swing.csv"))
    assert "swing.csv" in text and "101 samples, 100 Hz, sd 0.01" in text and "hold zero" in text


# Unwrapping


def wrapped(x: np.ndarray) -> np.ndarray:
    return (x + np.pi) % (2 * np.pi) - np.pi


@pytest.mark.parametrize("rate", [-20.0, 3.0, 55.0])
@pytest.mark.parametrize("gap", [0, 5, 30])
def test_unwrapping_across_gaps(rate: float, gap: int) -> None:
    truth = rate * T + 0.4 * np.sin(5 * T)
    values = wrapped(truth)
    values[40 : 40 + gap] = np.nan
    got = angle(values).unwrapped().values
    here = np.isfinite(got)
    assert here.sum() == 101 - gap
    np.testing.assert_allclose((got - truth)[here], (got - truth)[0], atol=1e-9)


def test_counted_turns_are_left_alone_even_across_a_gap() -> None:
    truth = 2.0 * T + 30 * T**2
    holed = truth.copy()
    holed[50:75] = np.nan
    np.testing.assert_array_equal(angle(holed).unwrapped().values, holed)


def test_one_wild_sample_does_not_move_the_rest() -> None:
    truth = 12 * T
    values = wrapped(truth)
    values[60] = 100.0
    got = angle(values).unwrapped().values
    np.testing.assert_allclose(np.delete(got, 60), np.delete(truth, 60), atol=1e-9)
