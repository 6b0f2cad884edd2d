"""Bad input: one sentence each, nothing lost, no traceback; and what can be fitted all the same is, with a note."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calibody as cb
from calibody.estimate import meshes
from calibody.solve.gauss_newton import Settings

TIMES = np.arange(0.0, 3.0, 0.01)
TORQUE = 0.2 * np.sin(5 * TIMES) + 0.1 * np.sin(11 * TIMES)


def pendulum() -> cb.Model:
    bodies = [cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004)), cb.Body("fin", parent="arm", mass=0.1, inertia=(1e-4, 1e-4, 1e-4))]
    joints = [cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=4e-4), cb.Joint("spin", "fin", axis=(0, 0, 1))]
    return cb.Model("pendulum", bodies=bodies, joints=joints, actuators=[cb.Actuator("motor", "hinge")])


@pytest.fixture(scope="module")
def angle() -> np.ndarray:
    motion = cb.simulate(pendulum(), 2.99, 0.001, {"joint.hinge.angle": 0.5}, {"actuator.motor": (TIMES, TORQUE)})
    return motion["joint.hinge.angle"][::10] + 1e-3 * np.random.default_rng(0).normal(size=300)


UNKNOWN = {"body.arm.mass": cb.Unknown(0.5), "joint.hinge.damping": cb.Unknown(1e-3)}
OBSERVE = {"joint.hinge.angle": {"column": "angle", "sd": 1e-3}}
DRIVE = {"actuator.motor": {"column": "torque"}}


def read(**columns: np.ndarray) -> cb.Recording:
    return cb.read({"t": TIMES, "torque": TORQUE, **columns}, time="t", observe=OBSERVE, drive=DRIVE)


def refused(sentence: str, **columns: np.ndarray) -> None:
    with pytest.raises(cb.CalibodyError, match=sentence) as error:
        cb.fit(pendulum(), read(**columns), UNKNOWN)
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


def test_a_clock_that_does_not_increase(angle: np.ndarray) -> None:
    refused("does not increase", t=np.where(TIMES > 1.0, TIMES - 0.5, TIMES), angle=angle)


def test_nan_everywhere() -> None:
    refused("no finite sample", angle=np.full(300, np.nan))


def test_three_samples(angle: np.ndarray) -> None:
    refused("3 finite samples", angle=np.where(np.arange(300) < 3, angle, np.nan))


def test_a_drive_shorter_than_the_recording(angle: np.ndarray) -> None:
    observed = (cb.Observation("joint.hinge.angle", TIMES, angle, 1e-3),)
    with pytest.raises(cb.CalibodyError, match="shorter than the recording"):
        cb.Recording("r", observed, (cb.Drive("actuator.motor", cb.Signal(TIMES[:200], TORQUE[:200])),))


def test_a_constant_channel() -> None:
    """Fitted, said, and no error bars on what a pendulum at rest does not show."""
    still = cb.Recording("still", (cb.Observation("joint.hinge.angle", TIMES, np.zeros(300), 1e-3),))
    result = cb.fit(pendulum(), still, {"joint.hinge.damping": cb.Unknown(1e-3)}, h=0.01)
    assert any("is constant" in n for n in result.notes)
    assert result.parameters["joint.hinge.damping"].sd is None


def test_a_unit_ten_times_off(angle: np.ndarray) -> None:
    """The fit returns and says how far the residuals are from the noise."""
    result = cb.fit(pendulum(), read(angle=10.0 * angle), {"joint.hinge.damping": cb.Unknown(1e-3)}, h=0.01)
    assert not result.converged or any("times the stated noise" in n for n in result.notes)
    assert np.isfinite(result.theta).all()


def test_a_mechanism_that_is_not_observed(angle: np.ndarray) -> None:
    """The fin spins unseen: its friction is named as undetermined, the rest is fitted."""
    result = cb.fit(pendulum(), read(angle=angle), {**UNKNOWN, "joint.spin.damping": cb.Unknown(1e-3)}, h=0.005)
    assert result.parameters["joint.spin.damping"].sd is None
    assert any("joint.spin.damping" in s for s in result.unresolved)
    e = result.parameters["body.arm.mass"]
    assert e.sd is not None and abs(e.value - 0.4) < 4 * e.sd


def test_settings() -> None:
    run = read(angle=np.sin(TIMES))
    for settings, sentence in (
        ({"process_noise": "some"}, "process_noise"),
        ({"process_noise": {"hinch": 0.1}}, "hinge"),
        ({"process_noise": -1.0}, "not negative"),
        ({"h": -1.0}, "h = "),
        ({"coordinates": "polar"}, "polar"),
    ):
        with pytest.raises(cb.CalibodyError, match=sentence):
            cb.fit(pendulum(), run, UNKNOWN, **settings)
    for runs, sentence in (([], "No recording"), ([run, run], "Two recordings"), (["log.csv"], "str")):
        with pytest.raises(cb.CalibodyError, match=sentence):
            cb.fit(pendulum(), runs, UNKNOWN)
    for unknowns in (["body.arm.mass"], "body.arm.mass", None):
        with pytest.raises(cb.CalibodyError, match="give a mapping"):
            cb.fit(pendulum(), run, unknowns)  # type: ignore[arg-type]
    with pytest.raises(cb.CalibodyError, match="executor"):
        cb.sweep(pow, [{"base": 2, "exp": 3}], executor=3)  # type: ignore[arg-type]
    for function, given, sentence in (
        (3, [{}], "function of a sweep is 3"),
        (pow, 3, "have 3; give a list"),
        (pow, [{}, 4], "have 4"),
        (pow, {"base": 2}, '"base"'),
    ):
        with pytest.raises(cb.CalibodyError, match=sentence):
            cb.sweep(function, given)  # type: ignore[arg-type]
    for extend in ("yes", 1, None):
        with pytest.raises(cb.CalibodyError, match="give true or false"):
            cb.fit(pendulum(), run, UNKNOWN, extend=extend)  # type: ignore[arg-type]
    with pytest.raises(cb.CalibodyError, match=r'at least two runs.*only "run" was given'):
        cb.cross_validate(pendulum(), run, UNKNOWN)
    with pytest.raises(cb.CalibodyError, match='folds = 5 with 2 runs; give "single", a number from 2 to 2'):
        cb.cross_validate(pendulum(), [run, replace(run, name="second")], UNKNOWN, folds=5)
    for runs in (3, None):
        with pytest.raises(cb.CalibodyError, match="give one recording, or a list"):
            cb.fit(pendulum(), runs, UNKNOWN)  # type: ignore[arg-type]


def test_a_fit_that_did_not_converge_has_no_error_bars(angle: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meshes, "Settings", lambda **_: Settings(iterations=1))
    run = read(angle=angle)
    result = cb.fit(pendulum(), [run, replace(run, name="second")], UNKNOWN, h=0.02)
    assert not result.converged and result.runs_agree is None and not result.determined
    assert np.isnan(result.covariance).all() and np.isnan(result.correlation).all()
    found = result.uncertainty
    assert not np.isfinite([*found.sd, *found.sd_naive, *found.covariance_theta.ravel()]).any()
    assert all(e.sd is None and e.sd_naive is None and e.discretisation_error is None for e in result.parameters.values())
    with pytest.raises(cb.CalibodyError, match="did not converge, so nothing in it has an error bar"):
        result.sd("joint.hinge.angle", np.array([1.0]))


def test_what_a_result_is_asked(angle: np.ndarray) -> None:
    result = cb.fit(pendulum(), read(angle=angle), {"joint.hinge.angle.bias": 0.0, "joint.hinge.angle.delay": 0.0})
    assert [e.unit for e in result.parameters.values()] == ["rad", "s"]
    with pytest.raises(cb.CalibodyError, match="finite times"):
        result.sd("joint.hinge.angle", [np.nan])  # type: ignore[arg-type]
