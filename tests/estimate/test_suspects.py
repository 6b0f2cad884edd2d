"""What the model lacks is named: recordings made by another integrator, with something that the model does not have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import calibody as cb
from calibody.experiment.folder import write
from calibody.report.verdict import MIND, verdict

MASS, LENGTH, INERTIA, DAMPING, GRAVITY = 1.0, 0.3, 0.12, 0.05, 9.81
SD = 0.003


def pendulum() -> cb.Model:
    about_com = INERTIA - MASS * LENGTH**2
    arm = cb.Body("arm", mass=MASS, com=(0.0, 0.0, -LENGTH), inertia=(about_com, about_com, about_com))
    hinge = cb.Joint("hinge", "arm", axis=(0.0, -1.0, 0.0), damping=DAMPING)
    return cb.Model("pendulum", bodies=[arm], joints=[hinge], actuators=[cb.Actuator("motor", "hinge")])


def recorded(
    seed: int,
    tilt: float = 0.0,
    dry: float = 0.0,
    late: float = 0.0,
    spring: float = 0.0,
    offset: float = 0.0,
    lag: float = 0.0,
    stribeck: float = 0.0,
    skew: float = 0.0,
    drag: float = 0.0,
    most: float = np.inf,
) -> cb.Recording:
    times = np.arange(0.0, 4.0, 0.01)
    drive = 1.2 * np.sin(2 * np.pi * (0.3 + 0.25 * times) * times) + 0.5 * np.sin(5 * times)

    def motion(t: float, y: np.ndarray) -> list[float]:
        command = np.interp(t - late, times, drive)
        torque = (
            (y[2] if lag else np.clip(command, -most, most))
            - MASS * GRAVITY * LENGTH * np.sin(y[0] + tilt)
            - DAMPING * y[1]
            - skew * abs(y[1])
            - drag * abs(y[1]) * y[1]
            - (dry + stribeck * np.exp(-((y[1] / 0.5) ** 2))) * np.tanh(y[1] / 1e-3)
            - spring * y[0]
        )
        return [y[1], torque / INERTIA, (command - y[2]) / lag if lag else 0.0]

    angle = solve_ivp(motion, (0.0, times[-1]), [0.3, 0.0, drive[0]], t_eval=times, rtol=1e-8, atol=1e-9, max_step=0.01, method="LSODA").y[0]
    noisy = angle + offset + SD * np.random.default_rng(seed).standard_normal(len(times))
    return cb.Recording("run", (cb.Observation("joint.hinge.angle", times, noisy, SD),), (cb.Drive("actuator.motor", cb.Signal(times, drive, "linear")),))


def fitted(recording: cb.Recording, process_noise: str = "none", h: float | None = None) -> cb.Result:
    unknowns = {"body.arm.mass": cb.Unknown(1.5), "body.arm.inertia.yy": cb.Unknown(0.05), "joint.hinge.damping": cb.Unknown(0.1)}
    return cb.fit(pendulum(), recording, unknowns, process_noise=process_noise, h=h)


CASES = {
    "dry": ({"dry": 0.04}, "joint.hinge.friction", 0.04),
    "late": ({"late": 0.005}, "actuator.motor.delay", 0.005),
    "tilt": ({"tilt": 0.0175}, "world.gravity.tilt.y", 0.0175),
    "spring": ({"spring": 0.05}, "joint.hinge.stiffness", 0.05),
    "offset": ({"offset": 0.01}, "joint.hinge.angle.bias", 0.01),
    "skew": ({"skew": 0.02}, "joint.hinge.damping_skew", 0.02),
    "drag": ({"drag": 0.005}, "joint.hinge.drag", 0.005),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_missing_is_named_with_its_size(case: str) -> None:
    given, path, value = CASES[case]
    result = fitted(recorded(1, **given))
    assert result.converged
    first = result.lacks[0]
    assert path in (first.path, *first.alike), [s.sentence for s in result.lacks]
    found = next(s for s in result.lacks if s.path == path)
    assert found.sd is not None
    assert abs(found.value - value) < max(4.0 * found.sd, 0.05 * value)
    assert first.path in str(result) and "missing:" in str(result)


def test_a_number_of_the_file_that_is_wrong_is_named() -> None:
    """A moment of inertia that nobody asked about and that is too large by half: no rotor, spring or friction stands for that."""
    about_com = INERTIA - MASS * LENGTH**2
    model = pendulum().replace({"body.arm.inertia.yy": 1.5 * about_com})
    result = cb.fit(model, recorded(1), {"body.arm.mass": cb.Unknown(1.5), "joint.hinge.damping": cb.Unknown(0.1)})
    first = result.lacks[0]
    assert "body.arm.inertia.yy" in (first.path, *first.alike), [s.sentence for s in result.lacks]
    assert next(s for s in result.lacks if s.path == "body.arm.inertia.yy").value == pytest.approx(about_com, rel=0.2)


@pytest.mark.slow
def test_a_motor_that_saturates_is_named_and_its_bars_hold() -> None:
    """At a level that nobody has told."""
    result = fitted(recorded(1, most=1.1))
    assert result.lacks[0].path == "joint.hinge.force.saturation", [s.sentence for s in result.lacks]
    truth = {"body.arm.mass": MASS, "body.arm.inertia.yy": INERTIA - MASS * LENGTH**2, "joint.hinge.damping": DAMPING}
    for name, value in truth.items():
        e = result.parameters[name]
        assert e.sd is not None and abs(e.value - value) < 3.5 * e.sd, name


def bare(recording: cb.Recording, factor: float = 1.0) -> cb.Recording:
    """The drive as a force on the joint that no actuator stands for."""
    (drive,) = recording.drives
    return replace(recording, drives=(cb.Drive("joint.hinge.force", replace(drive.signal, values=factor * drive.signal.values)),))


@pytest.mark.slow
def test_a_force_that_is_given_wrong_is_named() -> None:
    """The model's own gravity and inertia tell that the torques are 10 % too small, and when they come."""
    model = replace(pendulum(), actuators=())
    known = {"joint.hinge.damping": cb.Unknown(0.1)}
    for recording, path, value in (
        (bare(recorded(1), 1.0 / 1.1), "joint.hinge.force.gain", 1.1),
        (bare(recorded(1, late=0.005)), "joint.hinge.force.delay", 0.005),
    ):
        lacks = cb.fit(model, recording, known).lacks
        assert path in (lacks[0].path, *lacks[0].alike), [s.sentence for s in lacks]
        assert next(s for s in lacks if s.path == path).value == pytest.approx(value, rel=0.05 if value > 1.0 else 0.3)
        assert "Correct the column of joint.hinge.force" in next(s for s in lacks if s.path == path).advice


@pytest.mark.slow
def test_a_clock_that_is_off_is_named_where_gravity_sets_the_pace() -> None:
    model, run = pendulum(), recorded(1).slower(1.01)
    result = cb.fit(model, run, {"joint.hinge.damping": cb.Unknown(0.1)})
    assert "time" in (result.lacks[0].path, *result.lacks[0].alike), [s.sentence for s in result.lacks]
    found = next(s for s in result.lacks if s.path == "time")
    assert found.value == pytest.approx(-0.01, abs=0.002) and "clock" in found.advice
    assert not any("no residual shows" in note and "sampling period" in note for note in result.notes)


def test_a_few_readings_far_off_do_not_speak_against_the_model(tmp_path: Path) -> None:
    """Four of four hundred make the rms of the residuals five times the noise; the model describes the others."""
    recording = recorded(1)
    values = recording["joint.hinge.angle"].values.copy()
    values[[40, 130, 222, 310]] += SD * np.array([60.0, -45.0, 50.0, 70.0])
    result = fitted(seen(recording, values))
    assert max(c.rms_over_sd for c in result.fit) > 5.0
    found = verdict(cb.open(write(result, tmp_path / "fit")))
    assert found.level == MIND and found.headline.startswith("Calibrated with reservations"), found.headline
    assert any("method.robust = true" in item.sentence for item in found.items)


def test_process_noise_does_not_hide_it() -> None:
    result = fitted(recorded(1, **CASES["dry"][0]), "auto")
    assert result.converged and result.lacks[0].path == "joint.hinge.friction"
    name, shift = result.lacks[0].largest_shift
    assert name == "joint.hinge.damping" and shift < -4.0, "viscous friction stood in for the dry one"


def test_the_predicted_shift_is_what_a_refit_finds() -> None:
    recording = recorded(2, offset=0.004)
    before = fitted(recording)
    suspect = next(s for s in before.lacks if s.path == "joint.hinge.angle.bias")
    assert suspect.sd is not None
    unknowns = {name: cb.Unknown(e.value) for name, e in before.parameters.items()} | {suspect.path: cb.Unknown(0.0)}
    after = cb.fit(pendulum(), recording, unknowns)
    assert after.parameters[suspect.path].value == pytest.approx(suspect.value, abs=0.3 * suspect.sd)
    for name, e in before.parameters.items():
        assert e.sd is not None and e.missing is not None
        assert (after.parameters[name].value - e.value) / np.sqrt(e.sd**2 - e.missing**2) == pytest.approx(suspect.shifts[name], abs=0.15)
    assert not after.lacks


def test_extending_adds_what_is_confirmed_and_stops() -> None:
    unknowns = {"body.arm.mass": cb.Unknown(1.5), "body.arm.inertia.yy": cb.Unknown(0.05), "joint.hinge.damping": cb.Unknown(0.1)}
    result = cb.fit(pendulum(), recorded(1, dry=0.04), unknowns, extend=True)
    truth = {"body.arm.mass": MASS, "body.arm.inertia.yy": INERTIA - MASS * LENGTH**2, "joint.hinge.damping": DAMPING, "joint.hinge.friction": 0.04}
    assert result.converged and not result.lacks and set(result.parameters) == set(truth)
    for name, value in truth.items():
        e = result.parameters[name]
        assert e.sd is not None and abs(e.value - value) < 3.5 * e.sd
    assert any(n.startswith("joint.hinge.friction (dry friction of joint.hinge) was added to the unknowns") for n in result.notes)


def test_a_lag_is_told_from_a_delay_by_the_fits_with_them() -> None:
    unknowns = {"body.arm.mass": cb.Unknown(1.5), "body.arm.inertia.yy": cb.Unknown(0.05), "joint.hinge.damping": cb.Unknown(0.1)}
    result = cb.fit(pendulum(), recorded(1, lag=0.04), unknowns, h=0.005, extend=True)
    lag = result.parameters["actuator.motor.time_constant"]
    assert lag.sd is not None and abs(lag.value - 0.04) < 3.5 * lag.sd
    assert abs(result.parameters["body.arm.mass"].value - MASS) < 0.01 * MASS


def seen(recording: cb.Recording, values: np.ndarray, sd: float = SD, **more) -> cb.Recording:
    """The same drive with other readings of the angle."""
    return replace(recording, observations=(cb.Observation("joint.hinge.angle", recording.observations[0].times, values, sd),), **more)


@pytest.mark.parametrize("process_noise", ["none", "auto"])
def test_noise_with_a_memory_is_named(process_noise: str) -> None:
    """Also where unmodelled forces are found, whose residuals have a memory by themselves."""
    clean, rng = recorded(1), np.random.default_rng(5)
    noise = rng.standard_normal(len(clean.observations[0].times))
    for k in range(1, len(noise)):
        noise[k] = 0.8 * noise[k - 1] + 0.6 * noise[k]
    quiet = clean.observations[0].values - SD * np.random.default_rng(1).standard_normal(len(noise))
    result = fitted(seen(clean, quiet + SD * noise), process_noise, 0.01)
    assert result.converged and result.lacks[0].path == "joint.hinge.angle.noise", [s.sentence for s in result.lacks]
    assert "correlated over about" in result.lacks[0].sentence and "not filtered" in result.lacks[0].advice
    white = fitted(clean, process_noise, 0.01)
    assert white.converged and not white.lacks


def test_counts_are_named_with_their_step() -> None:
    clean = recorded(1)
    quiet = clean.observations[0].values - SD * np.random.default_rng(1).standard_normal(len(clean.observations[0].times))
    step = 2 * np.pi / 2048
    counted = seen(clean, np.round(quiet / step) * step, 1e-4)
    result = fitted(counted)
    first = result.lacks[0]
    assert first.path == "joint.hinge.angle.resolution" and first.value == pytest.approx(step, rel=1e-6)
    assert f"State resolution = {step:.6g}" in first.advice
    told = replace(counted, observations=(replace(counted.observations[0], resolution=step),))
    assert not any(s.path.endswith("resolution") for s in fitted(told).lacks)
    fine = replace(counted, observations=(replace(counted.observations[0], sd=SD),))  # its noise is as large as the step: nothing to gain
    assert not any(s.path.endswith("resolution") for s in fitted(fine).lacks)


def test_outliers_are_seen_although_the_noise_was_found_with_them() -> None:
    clean = recorded(1)
    values = clean.observations[0].values.copy()
    hit = [40, 130, 131, 300]
    values[hit] += 20 * SD
    result = fitted(seen(clean, values), "auto", 0.01)
    assert result.converged and result.fit[0].sd > 1.5 * SD
    times = clean.observations[0].times
    assert {o.time for o in result.outliers} == {float(times[k]) for k in hit}


def test_a_wrong_start_that_was_taken_as_known_is_named() -> None:
    wrong = replace(recorded(1), initial={"joint.hinge.angle": 0.33, "joint.hinge.rate": 0.0})
    result = fitted(wrong)
    first = result.lacks[0]
    assert first.path == "initial.joint.hinge.angle[run]" and abs(first.value - 0.3) < 4 * (first.sd or 0.0), [s.sentence for s in result.lacks]
    assert 'initial value of joint.hinge.angle of the run "run"' in first.advice
    right = fitted(replace(wrong, initial={"joint.hinge.angle": 0.3, "joint.hinge.rate": 0.0}))
    assert not right.lacks
    unsure = fitted(replace(wrong, initial={"joint.hinge.angle": {"value": 0.33, "sd": 1e-3}}))
    assert unsure.lacks[0].path == "initial.joint.hinge.angle[run]"


def test_friction_that_falls_with_the_rate_is_named() -> None:
    """At a rate that nobody has told: the model's own is five times too slow."""
    unknowns = {"body.arm.mass": 1.5, "body.arm.inertia.yy": 0.05, "joint.hinge.damping": 0.1, "joint.hinge.friction": 0.05}
    result = cb.fit(pendulum(), recorded(1, dry=0.03, stribeck=0.15), unknowns)
    assert result.converged
    first = result.lacks[0]
    assert first.path == "joint.hinge.stribeck" and "stribeck_rate to about" in first.advice, [s.sentence for s in result.lacks]


def test_scales_that_only_both_sensors_together_want_are_named_and_added() -> None:
    """Encoder and tachometer agree with one another, so neither alone can be off; the motor and gravity say that both are."""
    times, scale = np.arange(0.0, 4.0, 0.01), 1.06
    drive = 1.2 * np.sin(2 * np.pi * (0.3 + 0.25 * times) * times) + 0.5 * np.sin(5 * times)

    def motion(t: float, y: np.ndarray) -> list[float]:
        return [y[1], (np.interp(t, times, drive) - MASS * GRAVITY * LENGTH * np.sin(y[0]) - DAMPING * y[1]) / INERTIA]

    exact = solve_ivp(motion, (0.0, times[-1]), [0.3, 0.0], t_eval=times, rtol=1e-8, atol=1e-9, max_step=0.01).y
    noise = np.array([[SD], [0.01]]) * np.random.default_rng(1).standard_normal((2, len(times)))
    read = scale * exact + noise
    seen = (cb.Observation("joint.hinge.angle", times, read[0], SD), cb.Observation("joint.hinge.rate", times, read[1], 0.01))
    run = cb.Recording("run", seen, (cb.Drive("actuator.motor", cb.Signal(times, drive, "linear")),))
    paths = {"joint.hinge.angle.gain", "joint.hinge.rate.gain"}
    before = fitted(run)
    first = before.lacks[0]
    assert {part.path for part in first.parts} == paths and "scales of channels together" in first.sentence, [s.sentence for s in before.lacks]
    assert not any(s.path in paths for s in before.lacks), "neither alone"
    for part in first.parts:
        assert abs(part.value - scale) < 0.2 * (scale - 1.0) and part.path in first.advice and part.path in first.sentence
    after = cb.fit(pendulum(), run, {"body.arm.mass": 1.5, "body.arm.inertia.yy": 0.05, "joint.hinge.damping": 0.1}, extend=True)
    truth = {"body.arm.mass": MASS, "body.arm.inertia.yy": INERTIA - MASS * LENGTH**2, "joint.hinge.damping": DAMPING} | dict.fromkeys(paths, scale)
    assert after.converged and not after.lacks and set(after.parameters) == set(truth)
    for name, value in truth.items():
        e = after.parameters[name]
        assert e.sd is not None and abs(e.value - value) < 3.5 * e.sd, name
    assert any(n.startswith("Scales of channels together were added to the unknowns: joint.hinge.angle.gain = ") for n in after.notes)


@pytest.mark.parametrize(("between", "path"), [({"stiff": 200.0}, "joint.hinge.windup"), ({"gap": 0.015}, "joint.hinge.backlash")])
def test_what_is_between_motor_and_joint_is_named(between: dict[str, float], path: str) -> None:
    """The encoder on the motor's shaft, a spring or a gap behind it."""
    rotor, gap, stiff = 0.005, between.get("gap", 0.0), between.get("stiff", 2000.0)
    times = np.arange(0.0, 4.0, 0.01)
    drive = 1.2 * np.sin(2 * np.pi * (0.3 + 0.25 * times) * times) + 0.5 * np.sin(5 * times)

    def motion(t: float, y: np.ndarray) -> list[float]:
        ahead = y[2] - y[0]
        through = stiff * np.sign(ahead) * max(abs(ahead) - 0.5 * gap, 0.0) + 0.1 * (y[3] - y[1]) * (abs(ahead) > 0.5 * gap)
        arm = (through - MASS * GRAVITY * LENGTH * np.sin(y[0]) - DAMPING * y[1]) / INERTIA
        return [y[1], arm, y[3], (np.interp(t, times, drive) - through) / rotor]

    shaft = solve_ivp(motion, (0.0, times[-1]), [0.3, 0.0, 0.3, 0.0], t_eval=times, rtol=1e-7, atol=1e-9, max_step=2e-3, method="LSODA").y[2]
    known = pendulum().replace({"joint.hinge.armature": rotor})
    read = cb.Observation("joint.hinge.angle", times, shaft + SD * np.random.default_rng(3).standard_normal(len(times)), SD)
    run = cb.Recording("run", (read,), (cb.Drive("actuator.motor", cb.Signal(times, drive, "linear")),))
    result = cb.fit(known, run, {"body.arm.mass": 1.5, "body.arm.inertia.yy": 0.05, "joint.hinge.damping": 0.1})
    assert result.converged and result.lacks[0].path == path, [s.sentence for s in result.lacks]
    assert result.lacks[0].value == pytest.approx(gap or 1.0 / stiff, rel=0.25) and "motor" in result.lacks[0].sentence


@pytest.mark.slow
def test_a_model_that_lacks_nothing_is_rarely_suspected() -> None:
    """All tests of a fit together: 2 % false alarms meant; more than four of 60 fits would be chance once in a hundred times."""
    alarms = [s.sentence for seed in range(60) for s in fitted(recorded(100 + seed)).lacks[:1]]
    assert len(alarms) <= 4, alarms


def test_what_the_motion_takes_up_entirely_is_no_suspect() -> None:
    """An arm that turns about the vertical looks the same from every side: an offset of its encoder is nothing at all, whatever else is missing. (Of its rounding an offset of 1e7 rad was made.)"""
    bodies = [cb.Body("post", mass=1.0, inertia=(0.02, 0.02, 0.02)), cb.Body("arm", parent="post", mass=0.5, com=(0.1, 0.0, -0.2), inertia=(2e-3, 2e-3, 2e-3))]
    joints = [cb.Joint("turn", "post", axis=(0.0, 0.0, 1.0), damping=0.02), cb.Joint("swing", "arm", axis=(1.0, 0.0, 0.0), damping=0.01, friction=0.03)]
    machine = cb.Model("crane", bodies=bodies, joints=joints, actuators=[cb.Actuator("motor", "turn")])
    clock = np.arange(0.0, 3.001, 0.01)
    drive = cb.Signal(clock, 0.3 * np.sin(2 * np.pi * (0.5 + 0.4 * clock) * clock))
    motion = cb.simulate(machine, 3.0, 0.001, {"joint.swing.angle": 0.8}, {"actuator.motor": drive})
    rng, names = np.random.default_rng(5), ("joint.turn.angle", "joint.swing.angle")
    seen = tuple(cb.Observation(name, clock, np.interp(clock, motion.time, motion[name]) + 1e-3 * rng.normal(size=len(clock)), 1e-3) for name in names)
    smooth = machine.replace({"joint.swing.friction": 0.0})
    unknowns = {"body.arm.mass": cb.Unknown(0.7), "joint.turn.damping": cb.Unknown(0.01), "joint.swing.damping": cb.Unknown(0.02)}
    result = cb.fit(smooth, cb.Recording("run", seen, (cb.Drive("actuator.motor", drive),)), unknowns)
    assert result.converged and result.lacks
    paths = {part.path for s in result.lacks for part in s.each}
    assert "joint.swing.friction" in paths and "joint.turn.angle.bias" not in paths, [s.sentence for s in result.lacks]


@pytest.mark.slow
def test_a_longer_pendulum_is_not_called_a_wrong_scale() -> None:
    """A load that hangs 6 % lower than the file says: angles that "look scaled" explain it as well as its centre of mass, and nobody has mistyped anything."""

    def crane(below: float) -> cb.Model:
        trolley = cb.Body("trolley", mass=5.0, inertia=(0.1, 0.1, 0.1))
        load = cb.Body("load", parent="trolley", mass=3.0, com=(0.0, 0.0, -below), inertia=(0.02, 0.02, 0.02))
        joints = [cb.Joint("rail", "trolley", kind="slide", axis=(1.0, 0.0, 0.0), damping=6.0), cb.Joint("sway", "load", axis=(0.0, -1.0, 0.0), damping=0.02)]
        return cb.Model("crane", bodies=[trolley, load], joints=joints, actuators=[cb.Actuator("motor", "rail")])

    clock, chance = np.arange(0.0, 4.005, 0.01), np.random.default_rng(0)
    force = cb.Signal(clock, 8.0 * np.sin(1.7 * clock) + 5.0 * np.sin(4.1 * clock))
    motion = cb.simulate(crane(1.166), 4.0, 0.001, {"joint.sway.angle": 0.3}, {"actuator.motor": force})
    sds = {"joint.rail.position": 1e-3, "joint.sway.angle": 2e-3}
    seen = tuple(cb.Observation(c, clock, np.interp(clock, motion.time, motion[c]) + sd * chance.normal(size=len(clock)), sd) for c, sd in sds.items())
    unknowns = {"body.trolley.mass": 3.0, "body.load.mass": 5.0, "joint.rail.damping": 10.0, "joint.sway.damping": 0.05}
    result = cb.fit(crane(1.1), cb.Recording("run", seen, (cb.Drive("actuator.motor", force),)), {path: cb.Unknown(x) for path, x in unknowns.items()})
    assert max(c.rms_over_sd for c in result.fit) > 3.0 and not any(m.kind == "gain" for m in result.mistakes), [m.sentence for m in result.mistakes]
    assert "body.load.com.z" in (result.lacks[0].path, *result.lacks[0].alike), [s.sentence for s in result.lacks]
    truth = {"body.trolley.mass": 5.0, "body.load.mass": 3.0, "joint.rail.damping": 6.0}
    for path, value in truth.items():
        e = result.parameters[path]
        assert e.sd is not None and abs(e.value - value) < 3.5 * e.sd < value, path
