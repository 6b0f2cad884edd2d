"""Validation: samples that a fit has not seen are where its bands say, and a model that lacks something shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calibody as cb
from calibody.estimate import predict, validate
from calibody.estimate.problem import Problem

SD = 0.005
TIMES = np.arange(0.0, 4.005, 0.01)
TRUTH = {"body.arm.mass": 0.4, "body.arm.inertia.yy": 0.012, "joint.hinge.damping": 0.02}
GUESS = {path: cb.Unknown(1.5 * value) for path, value in TRUTH.items()}
H = 0.005


def pendulum(**law: float) -> cb.Model:
    arm = cb.Body("arm", mass=0.4, com=(0, 0, -0.3), inertia=(0.012, 0.012, 0.0004))
    return cb.Model("pendulum", [arm], [cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.02, **law)], actuators=[cb.Actuator("motor", "hinge")])


def recorded(seed: int, name: str, model: cb.Model | None = None) -> cb.Recording:
    random = np.random.default_rng(seed)
    u = random.uniform(0.4, 0.9) * np.sin(random.uniform(2, 5) * TIMES) + 0.4 * np.sin(random.uniform(6, 10) * TIMES)
    torque = cb.Signal(TIMES, u, hold="linear")
    moved = cb.simulate(model or pendulum(), 4.0, 0.002, {"joint.hinge.angle": 0.5 * random.normal()}, {"actuator.motor": torque})
    angle = moved["joint.hinge.angle"][::5] + SD * random.normal(size=len(TIMES))
    return cb.Recording(name, (cb.Observation("joint.hinge.angle", TIMES, angle, sd=SD),), (cb.Drive("actuator.motor", torque),))


def runs(seed: int, model: cb.Model | None = None) -> list[cb.Recording]:
    return [recorded(100 * seed + k, f"run{k}", model) for k in range(3)]


def test_runs_that_were_left_out_are_inside_their_bands() -> None:
    """60 such fits: 95.7 % of the samples, errors 0.97 of the band (rms)."""
    found = [cb.fit(pendulum(), runs(seed), GUESS, h=H).validate() for seed in (11, 12, 13)]
    assert not any(v.halves or v.failed for v in found)
    assert 0.9 < np.mean([v.inside for v in found]) < 1.0
    off = [value for v in found for value in v.in_bands.values()]
    assert len(off) == 9 and 0.8 < np.sqrt(np.mean(np.square(off))) < 1.2 and max(off) < 2.6
    for c in (c for v in found for c in v.channels):
        assert c.times[0] > 0.4 and c.times[-1] == TIMES[-1] and (c.band > c.noise).all()
    assert "in 95 % band" in str(found[0]) and "run2" in str(found[0])


def test_the_second_half_of_a_single_run() -> None:
    """60 such fits: 96.0 %, errors 0.96 of the band."""
    found = [cb.fit(pendulum(), recorded(seed, "one"), GUESS, h=H).validate() for seed in (21, 22, 23, 24)]
    assert all(v.halves and list(v.runs) == ["one"] and v.channels[0].times[0] == pytest.approx(2.0, abs=0.03) for v in found)
    assert 0.88 < np.mean([v.inside for v in found]) <= 1.0
    assert np.sqrt(np.mean([v.in_bands["one"] ** 2 for v in found])) < 1.4


def test_a_model_that_lacks_dry_friction_shows() -> None:
    rough = pendulum(friction=0.05)
    found = [cb.fit(pendulum(), recorded(seed, "one", rough), GUESS, h=H).validate() for seed in (100, 300)]
    assert all(v.in_bands["one"] > 8.0 and v.inside < 0.5 for v in found)
    right = cb.fit(rough, recorded(100, "one", rough), {**GUESS, "joint.hinge.friction": cb.Unknown(0.02)}).validate()
    assert right.in_bands["one"] < 2.6


def test_a_fit_of_less_is_a_fit_of_its_own_and_goes_on_by_the_same_equations() -> None:
    """What was left out played no part, and a simulation from the middle of a fitted motion is that motion."""
    whole = runs(31)
    result = cb.fit(pendulum(), whole, GUESS, h=H)
    problem = result.problem
    begun = replace(problem, runs=(problem.runs[0], problem.runs[1], validate._begun(problem.runs[2], 0.4)))
    _, theta, _ = validate._fitted(result, begun, problem.carried(result.states, begun))
    cut = cb.fit(pendulum(), [*whole[:2], whole[2].cut(end=float(begun.runs[2].times[-1]))], GUESS, h=H)
    sds = np.array([e.sd for e in cut.parameters.values()])
    assert (np.abs(theta - cut.theta) < 0.1 * sds).all()
    short = validate._begun(problem.runs[0], 2.0)
    single = Problem.of([short], problem.singles[0].entries)
    (x,) = problem.singles[0].carried(result.states[:1], single)
    model, _, _ = problem.model_of(0, result.theta)
    on = validate._continued(short, problem.runs[0], x, model, single.motion(0, x, result.theta), problem.stepper())
    assert np.abs(on.q - result.states[0].q).max() < 1e-6


def test_unmodelled_forces_widen_the_band() -> None:
    """A force that is drawn anew every 10 ms: what is foreseen ends after a while, and until then the band holds."""
    random = np.random.default_rng(3)
    shaken = []
    for k in range(2):
        u = 0.6 * np.sin((3.0 + k) * TIMES) + 0.4 * np.sin(7.0 * TIMES)
        moved = cb.simulate(pendulum(), 4.0, 0.002, drive={"actuator.motor": cb.Signal(TIMES, u + 0.05 * random.normal(size=len(TIMES)), hold="zero")})
        angle = moved["joint.hinge.angle"][::5] + 0.002 * random.normal(size=len(TIMES))
        shaken.append(
            cb.Recording(
                f"run{k}", (cb.Observation("joint.hinge.angle", TIMES, angle, sd=0.002),), (cb.Drive("actuator.motor", cb.Signal(TIMES, u, hold="zero")),)
            )
        )
    result = cb.fit(pendulum(), shaken, GUESS, process_noise=0.05, h=0.01)
    test = result.force_tests["hinge"]
    assert not test.slow and 1e-3 < test.probability < 1.0 and 15 <= test.dof <= 40 and test.chi2 < 3 * test.dof
    found = result.validate()
    assert found.inside > 0.8 and max(found.in_bands.values()) < 2.6
    for c, run in zip(found.channels, shaken, strict=True):
        assert c.band.max() > 10.0 * c.band[0]
        assert (c.band[c.foreseen] <= 0.1 * np.std(run.observations[0].values)).all()


def test_what_cannot_be_validated() -> None:
    short = recorded(1, "short").cut(end=0.2)
    result = cb.fit(pendulum(), [recorded(2, "long"), short], GUESS, h=0.01)
    found = result.validate()
    assert list(found.runs) == ["long"] and found.failed == {"short": "it is too short to leave a part of it out."}
    shadow = cb.fit(pendulum(), recorded(2, "one"), {"body.arm.mass": 0.5}, method="shadow", h=0.02)
    with pytest.raises(cb.CalibodyError, match='method = "transcription" only'):
        shadow.validate()
    with pytest.raises(cb.CalibodyError, match="did not converge"):
        replace(result, status="stopped.").validate()


def test_a_free_prediction_starts_as_the_motion_goes_on() -> None:
    """On a coarse mesh: with the rate of the first node, a mean, it went off by 0.06 rad."""
    result = cb.fit(pendulum(), recorded(100, "one"), GUESS, h=0.01)
    motion = result.motion()
    drive = predict.signals(result.recordings[0], 0.0)
    gone_on = cb.simulate(result.model, 4.0, motion.h, predict.starting(motion, drive, result.problem.stepper()), drive)
    assert np.abs(gone_on["joint.hinge.angle"][:-1] - motion["joint.hinge.angle"]).max() < 1e-5
