"""What estimates rest on: gravity, the clock and numbers that were held, which no residual shows, against fits that take them otherwise and against proportions that are exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.result import DRIVES, Rest, worst_held

UNKNOWNS = {"body.arm.com.z": cb.Unknown(-0.3), "joint.hinge.damping": cb.Unknown(0.005, lower=0.0)}


def arm(gravity: float = 9.81) -> cb.Model:
    """A point mass on a string, but for its damping: its period knows `length/gravity` alone."""
    body = cb.Body("arm", mass=0.5, com=(0.0, 0.0, -0.3), inertia=(1e-9, 1e-9, 1e-9))
    hinge = cb.Joint("hinge", "arm", axis=(0.0, 1.0, 0.0), damping=0.005)
    return cb.Model("arm", bodies=[body], joints=[hinge], actuators=[cb.Actuator("motor", "hinge")], world=cb.World(gravity=(0.0, 0.0, -gravity)))


def swing(seed: int = 0, torque: float = 0.0, sd: float = 1e-4) -> cb.Recording:
    clock = np.arange(0.0, 4.001, 0.01)
    drive = cb.Signal(clock, torque * np.sin(7.0 * clock))
    motion = cb.simulate(arm(), 4.0, 0.001, {"joint.hinge.angle": 1.2}, {"actuator.motor": drive} if torque else {})
    noise = sd * np.random.default_rng(seed).normal(size=len(clock))
    seen = cb.Observation("joint.hinge.angle", clock, np.interp(clock, motion.time, motion["joint.hinge.angle"]) + noise, sd)
    return cb.Recording("swing", (seen,), (cb.Drive("actuator.motor", drive),) if torque else ())


def test_lengths_are_in_proportion_to_gravity_and_to_the_square_of_the_clock() -> None:
    result = cb.fit(arm(), swing(), UNKNOWNS)
    moves = {rest.path: rest.moves for rest in result.rests_on}
    assert moves["world.gravity"]["body.arm.com.z"] == pytest.approx(1.0, abs=0.01)
    assert moves["time"]["body.arm.com.z"] == pytest.approx(2.0, abs=0.02)
    assert moves["time"]["joint.hinge.damping"] == pytest.approx(3.0, abs=0.05)  # torque, which is weight times length, times time
    note = next(n for n in result.notes if "no residual shows" in n)
    assert "gravity (9.81 m/s^2)" in note and "the sampling period" in note


@pytest.mark.parametrize(("path", "noise"), [("world.gravity", "none"), ("time", "none"), ("time", 0.003)])
def test_as_fits_have_it_that_take_them_otherwise(path: str, noise: str | float) -> None:
    """With a torque that is known there is another scale, and proportions are not exact any more."""
    run, by = swing(torque=0.3, sd=1e-3), 0.004
    rest = next(r for r in cb.fit(arm(), run, UNKNOWNS, process_noise=noise, h=0.01).rests_on if r.path == path)
    high, low = (
        cb.fit(
            arm(9.81 * (1.0 + e)) if path == "world.gravity" else arm(),
            run if path == "world.gravity" else run.slower(1.0 + e),
            UNKNOWNS,
            process_noise=noise,
            h=0.01 if path == "world.gravity" else 0.01 * (1.0 + e),
        ).parameters
        for e in (by, -by)
    )
    for name, move in rest.moves.items():
        found = (high[name].value - low[name].value) / (high[name].value + low[name].value) / by
        assert move == pytest.approx(found, rel=0.05, abs=0.05), name


def test_nothing_is_said_where_error_bars_are_larger() -> None:
    result = cb.fit(arm(), swing(sd=0.3), UNKNOWNS)
    assert result.rests_on and not any("no residual shows" in note for note in result.notes)


def test_what_only_forces_move_is_in_proportion_to_them() -> None:
    """A cart on a rail: masses and frictions are what the force was said to be. Nothing in the data could tell, and the note says so; a gain that is estimated is not taken as exact."""
    cart = cb.Body("cart", mass=1.5, inertia=(0.01, 0.01, 0.01))
    rail = cb.Joint("rail", "cart", kind="slide", axis=(1.0, 0.0, 0.0), damping=2.0)
    model = cb.Model("cart", bodies=[cart], joints=[rail], actuators=[cb.Actuator("motor", "rail")])
    clock = np.arange(0.0, 2.001, 0.01)
    force = cb.Signal(clock, 4.0 * np.sin(5.0 * clock) + 2.0 * np.sin(11.0 * clock))
    motion = cb.simulate(model, 2.0, 0.001, drive={"actuator.motor": force})
    noisy = np.interp(clock, motion.time, motion["joint.rail.position"]) + 1e-4 * np.random.default_rng(0).normal(size=len(clock))
    run = cb.Recording("run", (cb.Observation("joint.rail.position", clock, noisy, 1e-4),), (cb.Drive("actuator.motor", force),))
    unknowns = {"body.cart.mass": cb.Unknown(1.0), "joint.rail.damping": cb.Unknown(1.0)}
    result = cb.fit(model, run, unknowns)
    rest = next(r for r in result.rests_on if r.path == "forces")
    assert rest.moves == pytest.approx({"body.cart.mass": 1.0, "joint.rail.damping": 1.0}, abs=1e-3) and rest.shows < 0.1
    assert any("no residual shows" in note and "the scale of the drives (1 % more of it" in note for note in result.notes)
    assert not result.lacks, "a scale that nothing tells is no suspect"


def test_gravity_that_is_estimated_is_not_taken_as_known() -> None:
    unknowns = {"world.gravity.z": cb.Unknown(-9.0), "joint.hinge.damping": cb.Unknown(0.005, lower=0.0)}
    assert [rest.path for rest in cb.fit(arm(), swing(), unknowns).rests_on if not rest.held] == ["time"]


def test_a_slower_clock() -> None:
    run = swing(torque=0.3)
    slow = run.slower(1.5)
    assert slow.duration == pytest.approx(1.5 * run.duration) and slow.period == pytest.approx(1.5 * run.period)
    assert np.allclose(slow.drives[0].signal.times, 1.5 * run.drives[0].signal.times)
    assert np.array_equal(slow["joint.hinge.angle"].values, run["joint.hinge.angle"].values)
    assert replace(slow, name="again").slower(1.0 / 1.5).end == pytest.approx(run.end)


def test_forces_that_last_a_little_longer_than_a_step() -> None:
    """A run of 249.5 times as long as its forces last has 248 or 249 of them, by rounding; the same with another clock."""
    run = swing(torque=0.3, sd=1e-3).cut(end=3.99)
    result = cb.fit(arm(), run, UNKNOWNS, process_noise=0.003, h=0.02)
    assert result.problem.runs[0].hold > result.mesh.h  # type: ignore[union-attr]
    assert {rest.path for rest in result.rests_on if not rest.held} == {"world.gravity", "time", "forces"}


def test_an_accuracy_that_is_stated_is_in_the_error_bars() -> None:
    """The length follows gravity, and the clock twice: of 0.1 and 0.05 % both 0.1 % of it; other clocks and gravities, each with that scatter, scatter the estimates as the error bar says."""
    result = cb.fit(arm(), swing(), UNKNOWNS, h=0.01)
    allowed = result.allowing({"world.gravity": 1e-3, "time": 5e-4})
    length, before = allowed.parameters["body.arm.com.z"], result.parameters["body.arm.com.z"]
    assert length.sd is not None and before.sd is not None and length.value == before.value
    assert length.sd == pytest.approx(np.hypot(before.sd, np.sqrt(2.0) * 1e-3 * abs(length.value)), rel=0.02)
    assert allowed.covariance[0, 0] == pytest.approx(length.sd**2) and np.allclose(np.diag(allowed.correlation), 1.0)
    assert not any("no residual shows" in note for note in allowed.notes) and "0.1 % of gravity (9.81 m/s^2)" in allowed.notes[-1]
    assert any("no residual shows" in note for note in result.allowing({"world.gravity": 1e-3}).notes), "the clock is still taken as exact"


def test_accuracies_that_mean_nothing_are_refused() -> None:
    result = cb.fit(arm(), swing(), UNKNOWNS, h=0.01)
    with pytest.raises(cb.CalibodyError, match=r"world\.gravity"):
        result.allowing({"world.gravty": 1e-3})
    with pytest.raises(cb.CalibodyError, match="relative standard deviation"):
        result.allowing({"time": -1.0})


# -- numbers of the file that were held ------------------------------------------------------------------------------------------------------


def two_links() -> cb.Model:
    """In a vertical plane, a motor at each joint: of the forearm the data know mass times distance and the moment about the elbow, three numbers being in them."""
    bodies = [
        cb.Body("upper", mass=2.0, com=(0.0, 0.0, -0.15), inertia=(0.02, 0.02, 0.005)),
        cb.Body("forearm", "upper", mass=1.2, com=(0.0, 0.0, -0.12), inertia=(0.01, 0.01, 0.01), position=(0.0, 0.0, -0.3)),
    ]
    joints = [cb.Joint(f"{name}_joint", name, axis=(0.0, 1.0, 0.0), damping=0.3, armature=0.05) for name in ("upper", "forearm")]
    return cb.Model("arm", bodies, joints, actuators=[cb.Actuator(f"m_{j.name}", j.name) for j in joints])


def crane() -> cb.Model:
    bodies = [cb.Body("trolley", mass=5.0, inertia=(0.1, 0.1, 0.1)), cb.Body("load", "trolley", mass=3.0, com=(0.0, 0.0, -1.1), inertia=(0.02, 0.02, 0.02))]
    joints = [
        cb.Joint("x", "trolley", kind="slide", axis=(1.0, 0.0, 0.0), damping=6.0),
        cb.Joint("sway", "load", axis=(0.0, 1.0, 0.0), damping=0.05),
    ]
    return cb.Model("crane", bodies, joints, actuators=[cb.Actuator("m_x", "x")])


def band() -> cb.Model:
    """A pendulum on a band of rubber, which with gravity alone knows the ratio of the band's stiffness to the mass."""
    spring = cb.Spring("band", body2="arm", point1=(0.4, 0.0, 0.0), point2=(0.0, 0.0, -0.3), stiffness=20.0, rest_length=0.3)
    return replace(arm(), springs=(spring,))


MACHINES = {
    "two_links": (two_links, {"body.upper.mass": 2.0, "body.forearm.mass": 1.2, "body.forearm.inertia.yy": 0.01, "joint.upper_joint.damping": 0.3, "joint.upper_joint.armature": 0.05}, "body.forearm.com.z", "m"),
    "crane": (crane, {"body.trolley.mass": 5.0, "body.load.mass": 3.0, "joint.x.damping": 6.0, "joint.sway.damping": 0.05}, "body.load.inertia.yy", ""),
    "band": (band, {"body.arm.mass": 0.5, "joint.hinge.damping": 0.005}, "spring.band.stiffness", ""),
}  # fmt: skip


def driven(model: cb.Model, sd: float = 1e-3) -> cb.Recording:
    clock = np.arange(0.0, 3.001, 0.01)
    size, driven = 15.0 if model.name == "crane" else 3.0, model.actuators if not model.springs else ()
    signals = {f"actuator.{a.name}": cb.Signal(clock, size * np.sin((4.0 + 3.0 * k) * clock) / (1.0 + 2.0 * k)) for k, a in enumerate(driven)}
    motion = cb.simulate(model, 3.0, 0.001, {f"joint.{model.joints[-1].name}.angle": 0.6}, signals)
    chance, seen = np.random.default_rng(3), []
    for joint in model.joints:
        channel = f"joint.{joint.name}.{'angle' if joint.kind == 'hinge' else 'position'}"
        seen.append(cb.Observation(channel, clock, np.interp(clock, motion.time, motion[channel]) + sd * chance.normal(size=len(clock)), sd))
    return cb.Recording("run", tuple(seen), tuple(cb.Drive(name, s) for name, s in signals.items()))


@pytest.mark.parametrize("name", MACHINES)
def test_what_hangs_on_a_number_that_was_held_is_what_fits_do_that_hold_another(name: str) -> None:
    build, guesses, path, unit = MACHINES[name]
    model, unknowns = build(), {p: cb.Unknown(v) for p, v in guesses.items()}
    run = driven(model)
    result = cb.fit(model, run, unknowns, h=0.005)
    rest = next(r for r in result.rests_on if r.path == path)
    assert rest.held and rest.unit == unit and rest.telling, rest
    by = rest.small if unit else rest.small * model[path]
    both = [cb.fit(model.replace({path: model[path] + sign * by}), run, unknowns, h=0.005) for sign in (1.0, -1.0)]
    for estimate, sds in rest.sds.items():
        moved = 0.5 * (both[0].parameters[estimate].value - both[1].parameters[estimate].value) / (result.parameters[estimate].sd or 1.0)
        assert sds == pytest.approx(moved, rel=0.05, abs=0.1), estimate
    assert abs(both[0].chi2 - result.chi2) < 12.0, "the residuals do not show it"
    note = next(n for n in result.notes if n.startswith("The estimates are as right as numbers of the model that were held"))
    assert path in note and rest.amount in note


def test_gains_of_drives_are_not_named_beside_the_scale_of_all_of_them() -> None:
    """They would hide the rotor that the file has wrong."""
    rests = [
        Rest("forces", DRIVES, {"m": 1.0}, {"m": 80.0}, 0.01),
        Rest("actuator.a.gain", "actuator.a.gain", {"m": 1.0}, {"m": 80.0}, 0.01, held=True),
        Rest("actuator.a.gear", "actuator.a.gear", {"m": 1.0}, {"m": 80.0}, 0.01, held=True),
        Rest("joint.a.armature", "joint.a.armature", {"m": 0.1}, {"m": 8.0}, 0.1, held=True),
        Rest("joint.a.damping", "joint.a.damping", {"m": 0.1}, {"m": 7.0}, 0.1, held=True),
        Rest("body.b.mass", "body.b.mass", {"m": 0.1}, {"m": 0.9}, 0.1, held=True),
        Rest("body.c.mass", "body.c.mass", {"m": 0.1}, {"m": 70.0}, 0.1, shows=4.0, held=True),
    ]
    assert [rest.path for rest in worst_held(rests, 3)] == ["joint.a.armature"]
    assert [rest.path for rest in worst_held(rests[1:], 3)] == ["actuator.a.gain", "joint.a.armature"]


def test_numbers_that_the_data_know_and_those_that_are_estimated_are_not_listed() -> None:
    """The length of the first link is told by the motion of the second, to a hundredth of what drawings are easily wrong by."""
    model = two_links()
    result = cb.fit(model, driven(model, 1e-4), {"body.forearm.inertia.yy": cb.Unknown(0.01)}, h=0.005)
    listed = {rest.path for rest in result.rests_on if rest.held}
    assert "body.forearm.com.z" not in listed and "body.forearm.inertia.yy" not in listed and "joint.forearm_joint.position.z" not in listed


def test_the_accuracy_of_a_number_that_was_held_is_in_the_error_bars() -> None:
    """3 mm of a centre of mass at 120 mm: 2.5 % of the mass that hangs there."""
    model, unknowns = two_links(), {p: cb.Unknown(v) for p, v in MACHINES["two_links"][1].items()}
    result = cb.fit(model, driven(model), unknowns, h=0.005)
    allowed = result.allowing({"body.forearm.com.z": 0.003})
    mass, before = allowed.parameters["body.forearm.mass"], result.parameters["body.forearm.mass"]
    assert mass.sd is not None and before.sd is not None
    assert mass.sd == pytest.approx(np.hypot(before.sd, 0.025 * before.value), rel=0.05)
    assert "3 mm of body.forearm.com.z" in allowed.notes[-1]
    assert not any("body.forearm.com.z (" in note for note in allowed.notes)
    with pytest.raises(cb.CalibodyError, match="standard deviation in m, "):
        result.allowing({"body.forearm.com.z": float("nan")})
