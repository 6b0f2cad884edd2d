"""Force plates as noisy drives: the wrench they are, and what a fit finds of their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibody as cb
from calibody.errors import CalibodyError

from .test_unknown_drives import leg

LIFT, AT = 52.0 * 9.81, 0.05
OFF_FORCE, OFF_POINT = 15.0, 0.008
TIMES = np.arange(0.0, 0.6005, 1e-3)


def stepping(off_force: float = 0.0, off_point: float = 0.0, **noise: Any) -> cb.Plate:
    """What a plate measures under the trunk; it may be off."""
    force = np.zeros((len(TIMES), 3))
    force[:, 2], force[:, 0] = LIFT * (1.0 + 0.2 * np.sin(13.0 * TIMES)) + off_force, 20.0 * np.sin(9.0 * TIMES)
    point = np.zeros((len(TIMES), 3))
    point[:, 0] = AT * np.sin(9.0 * TIMES) + off_point
    return cb.Plate("trunk", TIMES, force, point, normal="z", **noise)


def walked(seed: int) -> tuple[cb.Observation, ...]:
    random, model = np.random.default_rng(seed), leg()
    motion = cb.simulate(model, 0.6, 1e-3, {}, {c: signal for c, signal in stepping().signals.items() if not c.endswith(("torque.x", "torque.z"))})
    names = [f"site.{s.name}.position.{c}" for s in model.sites for c in "xz"]
    return tuple(cb.Observation(n, motion.time[::10], motion[n][::10] + 1e-3 * random.standard_normal(len(motion.time[::10])), sd=1e-3) for n in names)


def test_the_wrench_is_that_about_the_worlds_origin() -> None:
    random = np.random.default_rng(0)
    F, p, N = (random.standard_normal((5, 3)) for _ in range(3))
    wrench = {c: signal.values for c, signal in cb.Plate("foot", np.arange(5.0), F, p, N).signals.items()}
    for k in range(5):
        torque = [p[k][1] * F[k][2] - p[k][2] * F[k][1], p[k][2] * F[k][0] - p[k][0] * F[k][2], p[k][0] * F[k][1] - p[k][1] * F[k][0]] + N[k]
        assert np.allclose([wrench[f"body.foot.torque.{c}"][k] for c in "xyz"], torque, atol=1e-14)
        assert np.allclose([wrench[f"body.foot.force.{c}"][k] for c in "xyz"], F[k])


def test_deviations_are_the_wrenchs_derivatives() -> None:
    """Against differences of the wrench itself, the plate loaded for half of the time."""
    plate = stepping(sd=20.0, sd_point=0.01, sd_moment=2.0)
    force = plate.force * (TIMES > 0.3)[:, None]
    plate = replace(plate, force=force)
    moved = {
        "force.x": replace(plate, force=force + np.array([20.0, 0, 0]) * (TIMES > 0.3)[:, None]),
        "force.z": replace(plate, force=force + np.array([0, 0, 20.0]) * (TIMES > 0.3)[:, None]),
        "point.x": replace(plate, point=plate.point + np.array([0.01, 0, 0])),
        "point.y": replace(plate, point=plate.point + np.array([0, 0.01, 0])),
        "moment.z": replace(plate, moment=np.array([0, 0, 2.0]) * (TIMES > 0.3)[:, None]),
    }
    found = {d.name.removeprefix("plate.trunk."): d for d in plate.deviations}
    assert set(found) == {*moved, "force.y"}
    for name, other in moved.items():
        for channel, signal in plate.signals.items():
            assert np.allclose((other.signals[channel].values - signal.values)[::5], found[name].gains.get(channel, 0.0), atol=1e-12), (name, channel)
    assert plate.every == 5 and np.array_equal(found["force.x"].times, TIMES[::5])  # of a kilohertz, 200 a second
    assert replace(plate, correlation_time=0.02).every == 1 and replace(plate, correlation_time=10.0).every == 5


def test_a_plate_that_is_off_is_found_out() -> None:
    """A constant error of force and point, where the motion knows better; and the error bars of nothing else are needed."""
    plate = stepping(OFF_FORCE, OFF_POINT, sd=20.0, sd_point=0.01, correlation_time=10.0)
    unknown = tuple(cb.UnknownDrive(f"joint.{j}.force", 10.0, 0.1) for j in ("hip", "knee"))
    result = cb.fit(leg(), cb.Recording("leg", walked(1), plates=(plate,), unknown=unknown), {}, h=0.01)
    assert result.converged
    found = result.deviations()
    assert abs(20.0 * float(np.mean(found["plate.trunk.force.z"])) + OFF_FORCE) < 3.0
    assert abs(0.01 * float(np.mean(found["plate.trunk.point.x"])) + OFF_POINT) < 0.002


def test_recordings_keep_plates_and_drives_together() -> None:
    run = cb.Recording("leg", walked(0), plates=(stepping(sd=20.0),))
    assert len(run.drives) == len(replace(run, name="again").drives) == len(run.slower(2.0).drives) == 6
    assert run.slower(2.0).drives[0].signal.times[-1] == pytest.approx(2.0 * TIMES[-1])
    assert [d.name for d in run.deviations] == [f"plate.trunk.force.{c}" for c in "xyz"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cb.Plate("foot", np.arange(5.0), np.zeros((5, 2)), np.zeros((5, 3))), "give \\(samples, 3\\) of each"),
        (lambda: cb.Plate("foot", np.array([0.0, 1.0, 3.0, 4.0]), np.zeros((4, 3)), np.zeros((4, 3))), "even times"),
        (lambda: cb.Plate("foot", np.arange(5.0), np.ones((5, 3)), np.full((5, 3), np.nan)), "its point is not finite"),
        (lambda: cb.Plate("foot", np.arange(5.0), np.full((5, 3), np.nan), np.zeros((5, 3))), "not finite"),
        (lambda: stepping(sd=-1.0), "give a number above zero"),
        (lambda: replace(stepping(), normal="up"), 'give "x", "y" or "z"'),
    ],
)
def test_sentences(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(CalibodyError, match=sentence):
        make()
