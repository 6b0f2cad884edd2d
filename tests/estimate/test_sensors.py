"""What a log says about its own sensors: an sd per sample, counts, limits; and what can be unknown at all."""

from __future__ import annotations

import numpy as np
import pytest

import calibody as cb


def pendulum(**law: float) -> cb.Model:
    body = cb.Body("arm", mass=1.0, com=(0, 0, -0.3), inertia=(0.03, 0.03, 0.001))
    return cb.Model("pendulum", [body], [cb.Joint("pivot", "arm", axis=(0, 1, 0), damping=0.05, **law)])  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def swing() -> tuple[np.ndarray, np.ndarray]:
    motion = cb.simulate(pendulum(), 3.0, 2e-3, {"joint.pivot.angle": 1.0})
    return motion.time[::5], motion["joint.pivot.angle"][::5]


def fitted(times: np.ndarray, values: np.ndarray, unknown: dict | None = None, h: float = 0.01, **options) -> cb.Result:
    run = cb.Recording("swing", (cb.Observation("joint.pivot.angle", times, values, **options),))
    return cb.fit(pendulum(), run, {"joint.pivot.damping": cb.Unknown(0.1)} if unknown is None else unknown, h=h)


def test_motion_alone(swing: tuple[np.ndarray, np.ndarray]) -> None:
    """Nothing unknown: the motion and its error bars all the same."""
    times, angle = swing
    result = fitted(times, angle + 1e-3 * np.random.default_rng(0).normal(size=len(times)), {}, 0.0025, sd=1e-3)
    assert result.status == "converged" and not result.parameters
    found, sd = result.motion(0), result.sd("joint.pivot.angle", times[50:-50:20])
    miss = np.interp(times[50:-50:20], found.time, found["joint.pivot.angle"]) - angle[50:-50:20]
    assert np.all(sd < 5e-4) and np.all(np.abs(miss) < 4.0 * sd)
    assert "rms" in str(result)


def test_sd_per_sample(swing: tuple[np.ndarray, np.ndarray]) -> None:
    """Half of the samples are ten times noisier: stated, they weigh a hundredth; the mean square deviation is one."""
    times, angle = swing
    sd = np.where(np.arange(len(times)) % 2 == 0, 1e-3, 1e-2)
    noisy = angle + sd * np.random.default_rng(1).normal(size=len(times))
    result, even = fitted(times, noisy, sd=sd), fitted(times[::2], noisy[::2], sd=1e-3)
    assert result.chi2 / result.dof == pytest.approx(1.0, abs=0.2)
    assert result.fit[0].rms_over_sd == pytest.approx(1.0, abs=0.1)
    bar, alone = (r.parameters["joint.pivot.damping"].scatter for r in (result, even))
    assert bar is not None and alone is not None and bar == pytest.approx(alone, rel=0.1)  # the noisy half adds one per cent
    plain = fitted(times, noisy, sd=float(np.sqrt(np.mean(sd**2)))).parameters["joint.pivot.damping"].scatter
    assert plain is not None and plain > 3.0 * bar


def test_sd_from_a_column(tmp_path, swing: tuple[np.ndarray, np.ndarray]) -> None:
    times, angle = swing
    sd = 0.1 + 0.05 * np.sin(times)
    table = {"t": times, "angle": np.degrees(angle), "spread": sd}
    run = cb.read(table, observe={"joint.pivot.angle": {"column": "angle", "unit": "deg", "sd": "spread"}})
    o = run.observations[0]
    np.testing.assert_allclose(o.sd * o.relative_sd, np.radians(sd), rtol=1e-12)
    cut = run.cut(start=1.0).observations[0]
    assert cut.relative_sd is not None and len(cut.relative_sd) == len(cut.times)
    with pytest.raises(cb.CalibodyError, match="spraed"):
        cb.read(table, observe={"joint.pivot.angle": {"column": "angle", "unit": "deg", "sd": "spraed"}})
    with pytest.raises(cb.CalibodyError, match="at sample 3; give a positive"):
        cb.Observation("joint.pivot.angle", times, angle, sd=np.where(np.arange(len(times)) == 2, 0.0, 1.0))
    with pytest.raises(cb.CalibodyError, match="one per sample"):
        cb.Observation("joint.pivot.angle", times, angle, sd=np.ones(3))


def test_counts(swing: tuple[np.ndarray, np.ndarray]) -> None:
    """An encoder of 512 counts whose own noise is far below one: the step over sqrt(12) is its noise, and that is said; bars cover."""
    times, angle = swing
    step = 2.0 * np.pi / 512
    z = []
    for seed in range(6):
        counted = step * np.round((angle + 0.2 * step * np.random.default_rng(seed).normal(size=len(times))) / step)
        result = fitted(times, counted, sd=0.2 * step, resolution=step)
        found = result.parameters["joint.pivot.damping"]
        assert found.sd is not None
        z.append((found.value - 0.05) / found.sd)
        assert result.fit[0].sd == pytest.approx(step * np.sqrt(0.04 + 1 / 12))
        assert result.fit[0].rms_over_sd == pytest.approx(1.0, abs=0.25)
        assert any("counts in steps of 0.0123" in note for note in result.notes)
    assert np.abs(z).max() < 3.5
    with pytest.raises(cb.CalibodyError, match="resolution = 0"):
        cb.Observation("joint.pivot.angle", times, angle, resolution=0)


def test_limits(swing: tuple[np.ndarray, np.ndarray]) -> None:
    """A sensor that saturates at 0.8 rad and reads -9 when it drops out: both ignored and counted."""
    times, angle = swing
    read = np.clip(angle + 1e-3 * np.random.default_rng(2).normal(size=len(times)), -0.8, 0.8)
    read[100:105] = -9.0
    result = fitted(times, read, sd=1e-3, valid=(-0.8, 0.8))
    inside = read[int(np.argmax(np.abs(read) < 0.8)) :]  # the run begins with its first sample
    found, lost = result.parameters["joint.pivot.damping"], int(np.sum(np.abs(inside) >= 0.8))
    assert found.sd is not None and abs(found.value - 0.05) < 4.0 * found.sd and lost > 20
    assert any(f"{lost} of {len(inside)} samples lie at or beyond valid = [-0.8, 0.8] and are ignored" in note for note in result.notes)
    run = cb.read({"t": times, "a": np.degrees(read)}, observe={"joint.pivot.angle": {"column": "a", "unit": "deg", "valid": [-45.8, 45.8]}})
    assert run.observations[0].ignored is not None and int(run.observations[0].ignored.sum()) >= 5
    with pytest.raises(cb.CalibodyError, match="the lower limit first"):
        cb.Observation("joint.pivot.angle", times, angle, valid=(1.0, -1.0))
    with pytest.raises(cb.CalibodyError, match="no sample inside"):
        cb.Observation("joint.pivot.angle", times, angle, valid=(8.0, 9.0))


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("joint.ball.load_stribeck", "a ball joint has no load_stribeck"),
        ("joint.pivot.compliance", "is rigid in the model"),
        ("joint.pivot.relaxation", "is rigid in the model"),
        ("joint.ball.axis.x", "a ball joint has no axis"),
        ("joint.ball.springref", "a ball joint has no springref"),
        ("loop.tie.orientation1.w", "a point loop has no orientation1"),
        ("geometry.shape.position.x", "a geometry is only drawn"),
        ("sensor.angle.sd", "leave out the sd of the channel"),
    ],
)
def test_what_does_not_act_is_refused(swing: tuple[np.ndarray, np.ndarray], path: str, sentence: str) -> None:
    """Never "not determined by the data": no data could determine it."""
    plain = pendulum()
    model = cb.Model(
        "more",
        [*plain.bodies, cb.Body("end", "arm", mass=0.1, inertia=(0.01, 0.01, 0.01), position=(0, 0, -0.6))],
        [*plain.joints, cb.Joint("ball", "end", "ball")],
        loops=[cb.Loop("tie", "point", "end", "world", anchor2=(0, 0, -0.6))],
        sensors=[cb.Sensor("angle", "joint.pivot.angle")],
        geometries=[cb.Geometry("shape", "arm", "sphere", (0.1,))],
    )
    times, angle = swing
    with pytest.raises(cb.CalibodyError, match=sentence):
        cb.fit(model, cb.Recording("swing", (cb.Observation("joint.pivot.angle", times, angle, sd=1e-3),)), {path: cb.Unknown(0.1)})
