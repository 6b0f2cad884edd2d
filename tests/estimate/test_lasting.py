"""Contact that lasts in fits: derivatives, known truths from guesses twice off, forces, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest
from impact_problems import cube_model
from lasting_problems import Case, Played, arm_and_disk, deviations, disk, falling_flat, finger, hopper, incline, resting, sliding_wheel, wheel

import calibody as cb
from calibody.estimate.contacts import staying
from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.landing import hits_of, holds_of
from calibody.estimate.contacts.lasting import END
from calibody.estimate.problem import Problem
from calibody.estimate.recipe import prepared
from calibody.estimate.reported import initial_theta
from calibody.estimate.unknowns import entries


def begun(case: Case, recording: cb.Recording, h: float) -> tuple[Problem, list, np.ndarray]:
    worker, base = prepared(case.model, [recording], case.guess, "none", "auto", h)
    theta = initial_theta(worker.unknowns)
    problem, x = worker.begin(worker.problem(base, worker.noises), theta)
    return problem.sharpened(np.ones(len(problem.runs[0].structure.law_owners))), x, theta


def puck(friction: float = 0.3, rate: tuple = (0.8, 0.3, 0, 5, -7, 12), end: float = 0.3) -> Case:
    """A ball that slides across the floor in space while it spins: friction turns round."""
    body, ball = cb.Body("body", mass=0.3, inertia=(3e-4, 3e-4, 3e-4)), cb.Geometry("ball", "body", "sphere", (0.05,))
    model = cb.Model("puck", [body], [cb.Joint("free", "body", "free")], geometries=[ball], contacts=[cb.Contact("floor", "ball", friction=friction)])
    motion = cb.simulate(model, end, h=1e-3 if end < 0.5 else 2.5e-4, initial={"joint.free.position": (0, 0, 0.05), "joint.free.rate": rate})
    channels = {f"body.body.{q}.{c}": sd for q, sd in (("position", 1e-4), ("angle", 1e-3)) for c in "xyz"}
    return Case(model, motion, channels, (), 0.01, {}, {"contact.floor.friction": 0.2})


CASES = {"disk": (disk, 0.03), "stop": (resting, 0.008), "flat": (falling_flat, 0.01), "wheel": (lambda: wheel(0.35, 0.25, 0.5), 0.008), "space": (puck, 0.01)}


@pytest.mark.parametrize("name", list(CASES))
def test_derivatives_of_a_run_with_contact_that_lasts(name: str) -> None:
    """And as many equations as unknowns, but for a start, which they leave open."""
    make, h = CASES[name]
    case = make()
    problem, x, theta = begun(case, case.recording(), h)
    run, random = problem.runs[0], np.random.default_rng(1)
    assert isinstance(run, Struck) and run.holds
    away = np.zeros(run.layout.size)
    for block in ("pushes", "seats"):
        if block in run.layout.place:
            at = run.layout.place[block]
            away[at] = random.standard_normal(at.stop - at.start)
    x = problem.move(x, away)
    part = problem.linearise(x, theta, hold_scale=False).parts[0]
    assert 0 < run.layout.size - run.layout.rows < 2 * run.structure.nv or not any(h.flight == 0 for h in run.holds)
    assert np.linalg.matrix_rank(part.Cx.toarray()) == run.layout.rows
    for _ in range(2):
        d, size = random.standard_normal(run.layout.size), 1e-6
        ends = [problem.values(problem.move(x, sign * size * d), theta) for sign in (1.0, -1.0)]
        for k, by in enumerate((part.Fx @ d, part.Cx @ d)):
            assert np.abs((ends[0][k] - ends[1][k]) / (2 * size) - by).max() < 1e-5 * np.abs(by).max()
    for k in range(len(theta)):
        step = 1e-5 * problem.scale[k] * (np.arange(len(theta)) == k)
        found = (problem.values(x, theta + step)[1] - problem.values(x, theta - step)[1]) / (2 * step[k])
        assert np.abs(found - part.Ct[:, k]).max() < 1e-5 * np.abs(part.Ct[:, k]).max() + 1e-8
    assert len(holds_of(run, hits_of(run))) == len(run.holds)


def test_a_disk_that_is_pushed_slides_and_rolls() -> None:
    """A known force determines mass, inertia and friction."""
    case = disk()
    result = case.fit(h=0.005)
    assert result.converged and result.iterations <= 25
    assert np.abs(deviations(result, case.truth)).max() < 3.5
    for path, value in case.truth.items():
        assert abs(result.parameters[path].value / value - 1.0) < 0.005 and (result.parameters[path].sd or 1.0) < 0.003 * value
    assert result.notes[0].startswith("contact.floor stays closed from 0 to 1.5 s (slipping")
    motion = result.motion()
    force = motion["contact.floor.force"]
    assert force[:, 2] == pytest.approx(result.parameters["body.body.mass"].value * 9.81, rel=1e-6)
    slipping = motion["contact.floor.slip"][1:-1] > 1e-2
    assert np.abs(force[1:-1, 0])[slipping] == pytest.approx(result.parameters["contact.floor.friction"].value * force[1:-1, 2][slipping], rel=1e-6)


def test_forces_have_error_bars() -> None:
    """Over many seeds' worth of nodes: the normal force of a mass that is estimated, and friction where it slips and where it rolls; none where nothing is known of the scale."""
    case = disk()
    result = case.fit(h=0.01)
    motion, every = result.motion(), round(0.01 / case.motion.h)
    for channel in ("contact.floor.force.normal", "contact.floor.force.x"):
        sd = result.sd(channel, motion.time[2:-2])
        away = (motion[channel] - case.motion[channel][::every][: len(motion.time)])[2:-2]
        assert np.mean(np.abs(away) < 4.0 * sd + 3e-3) > 0.98 and 1e-4 < np.median(sd) < 2e-2
    mass = result.parameters["body.body.mass"].sd
    assert mass is not None and result.sd("contact.floor.force.normal", motion.time[5:6])[0] == pytest.approx(9.81 * mass, rel=0.05)
    free = disk(push=False).fit(h=0.01)
    assert np.isinf(free.sd("contact.floor.force.normal", motion.time[2:-2])).all()


def test_a_force_plate_fixes_the_scale() -> None:
    """Nothing known pushes the disk, but the floor's force is measured: mass and inertia are determined; without contacts that act it is refused."""
    case = disk(push=False)
    recording = case.recording(0, {"contact.floor.force.normal": 0.02, "contact.floor.force.x": 0.02})
    result = cb.fit(case.model, recording, case.guess, h=0.005)
    assert result.converged and np.abs(deviations(result, case.truth)).max() < 3.5
    assert (result.parameters["body.body.mass"].sd or 1.0) < 0.002 * 0.37
    assert any("contact.floor.force.normal: rms 0.0" in line for line in str(result).splitlines())
    with pytest.raises(cb.CalibodyError, match=r'"contact\.floor\.force\.normal" is observed, but contacts = "none" leaves them out'):
        cb.fit(case.model, recording, {"body.body.mass": 0.4}, contacts="none")


def test_without_a_push_only_ratios() -> None:
    case = disk(push=False)
    result = case.fit(h=0.01)
    assert result.converged
    assert result.unresolved == ("Only the ratio body.body.mass : body.body.inertia.yy is determined.",)
    (ratio,) = result.determined
    assert abs(ratio.value - 0.5 * 0.1**2) < 3.5 * ratio.sd
    assert abs(result.parameters["contact.floor.friction"].value - 0.2) < 3.5 * (result.parameters["contact.floor.friction"].sd or 0.0)


def test_a_pendulum_that_rests_on_its_stop() -> None:
    """It lands, rests, and leaves where its stop would have to pull; the force of the stop is that of the simulation."""
    case = resting()
    result = case.fit()
    assert result.converged and np.abs(deviations(result, case.truth)).max() < 3.5
    assert [e.contact for e in result.events] == ["limit.stop"] * 2
    assert [e.time for e in result.events] == pytest.approx([e.time for e in case.motion.events], abs=2e-4)
    assert any(n.startswith("limit.stop stays closed from 0.19 to 0.58") for n in result.notes)
    motion, every = result.motion(), round(result.problem.runs[0].h / case.motion.h)
    mine, true = motion["limit.stop.force"], case.motion["limit.stop.force"][::every]
    rests = (np.abs(true[: len(mine)]) > 0.0) & (np.abs(mine) > 0.0)
    assert rests.sum() > 0.35 * len(mine)
    assert np.abs(mine - true[: len(mine)])[rests].max() < 0.01 * np.abs(true).max()


@pytest.mark.slow
def test_a_block_that_sticks_and_slips() -> None:
    case = incline()
    result = case.fit(h=0.005)
    assert result.converged and np.abs(deviations(result, case.truth)).max() < 3.5
    assert all((e.sd or 1.0) < 0.01 * e.value for e in result.parameters.values())


def test_a_box_that_falls_flat() -> None:
    """Both corners land at once; of their forces the sum is the weight."""
    case = falling_flat()
    result = case.fit()
    assert result.converged and np.abs(deviations(result, case.truth)).max() < 3.5
    motion = result.motion()
    still = motion.time > 0.7
    assert motion["contact.floor.force"][still][:-1, 2] == pytest.approx(9.81, rel=1e-6)
    assert np.abs(motion["contact.floor.force"][still][:-1, 0]).max() < 1e-6
    (event,) = result.events
    assert event.time == pytest.approx(case.motion.events[0].time, abs=2e-3)


def test_friction_of_impacts_and_of_sliding() -> None:
    """Of one recording, both from half: a box that lands rubs with 0.3, then slides with 0.45."""
    case = falling_flat(0.45)
    result = case.fit()
    assert result.converged and np.abs(deviations(result, case.truth)).max() < 3.5
    assert all((e.sd or 1.0) < 0.01 * e.value for e in result.parameters.values())


def test_friction_of_sliding_as_an_unknown() -> None:
    """Zero stands for that of impacts: a fit begins with it where nothing is said, and does not go to zero."""
    model = falling_flat().model
    (entry,) = entries(model, {"contact.floor.sliding_friction": cb.Unknown()}, ["run"])
    assert entry.initial == 0.3 and entry.lower == 1e-3
    with pytest.raises(cb.CalibodyError, match=r'The initial value 0 of "contact\.floor\.sliding_friction" lies outside its bounds \[0\.001, inf\]'):
        entries(model, {"contact.floor.sliding_friction": 0.0}, ["run"])


def test_noise_at_rest_is_rest() -> None:
    """Where every node is a sample the mean distance from zero is that of noise; what comes straight down to zero, and goes on or turns round, is none."""
    random, t = np.random.default_rng(0), np.linspace(-1.0, 1.0, 64)
    draws = random.standard_normal((200, len(t)))
    assert all(staying._rests(draw, 1.0) for draw in draws)
    for passing in (4.0 * t, 4.0 * np.abs(t)):
        assert not any(staying._rests(passing + 0.3 * draw, 1.0) for draw in draws)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_ball_that_slides_and_spins(seed: int) -> None:
    """In space, across the floor until it rolls: friction and inertia from twice or half, with the verdict that belongs to it."""
    random = np.random.default_rng(seed)
    friction, rate = float(random.uniform(0.1, 0.4)), (*random.uniform(-1.5, 1.5, 2), 0.0, *random.uniform(-20.0, 20.0, 3))
    case = puck(friction, rate, 0.5)
    truth = {"contact.floor.friction": friction, "inertia": 3e-4}
    places = {f"body.body.inertia.{axis}": "inertia" for axis in ("xx", "yy", "zz")}
    first, second = random.choice([0.5, 2.0], 2)
    asked = {"contact.floor.friction": cb.Unknown(first * friction), "inertia": cb.Unknown(second * 3e-4, lower=0.0, places=places)}
    result = cb.fit(case.model, case.recording(seed), asked)
    assert result.converged and np.abs(deviations(result, truth)).max() < 3.5
    assert not any("cannot be trusted" in n for n in result.notes)


@pytest.mark.slow
@pytest.mark.parametrize("h", [None, 0.002])
def test_a_finger_that_wipes_a_table(h: float | None) -> None:
    """It lands and sticks, and slides the instant after; friction and height of the table, mass and inertia of its outer link from up to twice off."""
    case = finger()
    result = case.fit(h=h)
    assert result.converged and np.abs(deviations(result, case.truth)).max() < 3.5
    assert [(e.contact, e.mode) for e in result.events] == [("contact.table", "stick")]
    assert result.events[0].time == pytest.approx(case.motion.events[0].time, abs=1e-3)
    assert not any("cannot be trusted" in n for n in result.notes)


@pytest.mark.slow
def test_a_leg_that_hops() -> None:
    """Masses, stiffness and damping from twice and half, over four landings and four leaps."""
    case = hopper()
    result = case.fit(h=0.002)
    assert result.converged and np.abs(deviations(result, case.truth)).max() < 3.5
    assert [e.time for e in result.events] == pytest.approx([e.time for e in case.motion.events], abs=1e-3)
    assert all((e.sd or 1.0) < 0.005 * e.value for e in result.parameters.values())


@pytest.mark.slow
def test_a_rimless_wheel() -> None:
    """I/m from the rocking on its spokes, and the impulses with which they land."""
    case = wheel()
    result = case.fit(h=0.002)
    assert result.converged and np.abs(deviations(result, case.truth)).max() < 3.5
    assert [(e.contact, e.mode) for e in result.events] == [(e.contact, e.mode) for e in case.motion.events]
    for mine, true in zip(result.events, case.motion.events, strict=True):
        assert mine.normal_impulse_sd is not None and abs(mine.normal_impulse - true.normal_impulse) < 4 * mine.normal_impulse_sd + 3e-4


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_rimless_wheel_that_slides(seed: int | None) -> None:
    """Against an integrator of high order: I/m and the impulses of the spokes within their bars; without noise, to a tenth of these."""
    case = sliding_wheel()
    assert isinstance(case.motion, Played)
    result, landings = case.fit(seed, h=0.002), case.motion.landings
    assert result.converged and [e.mode for e in result.events] == ["slip"] * len(landings)
    estimate, truth = result.parameters["body.body.inertia.yy"], case.truth["body.body.inertia.yy"]
    assert estimate.sd is not None and estimate.sd < 2e-3 * truth and abs(estimate.value - truth) < (3.5 if seed is not None else 0.1) * estimate.sd
    for event, (time, impulse) in zip(result.events, landings, strict=True):
        assert event.time_sd is not None and abs(event.time - time) < 4 * event.time_sd
        assert event.normal_impulse_sd is not None and abs(event.normal_impulse - impulse) < 4 * event.normal_impulse_sd and event.normal_impulse_sd < 1e-3


@pytest.mark.slow
def test_an_arm_that_pushes_a_disk_against_the_ground() -> None:
    """Two contact pairs, made and broken: three numbers of the arm, two of the disk, both frictions, and the forces of both contacts."""
    case = arm_and_disk()
    result = case.fit(h=0.002)
    assert result.converged and np.abs(deviations(result, case.truth)).max() < 3.5
    assert [e.contact for e in result.events] == [e.contact for e in case.motion.events]
    motion, every = result.motion(), round(0.002 / case.motion.h)
    for name in ("floor", "push"):
        mine, true = motion[f"contact.{name}.force.normal"], case.motion[f"contact.{name}.force.normal"][::every][: len(motion.time)]
        inside = np.flatnonzero((mine > 0.0) & (true > 0.0))[2:-3]
        sd = result.sd(f"contact.{name}.force.normal", motion.time[inside])
        assert len(inside) > 40 and np.mean(np.abs(mine - true)[inside] < 3.5 * sd + 0.05) > 0.95


@pytest.mark.slow
def test_an_arm_that_pushes_a_disk_from_far_off() -> None:
    """Masses and inertias twice, the distance of the centre of mass 1.3 times, frictions half the truth."""
    case = arm_and_disk()
    guess = {p: v * (0.5 if p.endswith("friction") else 1.3 if p.endswith("com.x") else 2.0) for p, v in case.truth.items()}
    result = cb.fit(case.model, case.recording(), guess, h=0.001)
    assert result.converged and np.abs(deviations(result, case.truth)).max() < 3.5
    assert not any("cannot be trusted" in n for n in result.notes)


def test_forces_are_those_of_the_simulation() -> None:
    """Friction alone estimated from the motion itself: forces of second order, but for the node at which sliding becomes rolling."""
    case, errors = disk(), []
    for h in (0.01, 0.005):
        motion, every = cb.fit(case.model, case.recording(None), {"contact.floor.friction": 0.2}, h=h).motion(), round(h / case.motion.h)
        mine, true = (m["contact.floor.force"] for m in (motion, case.motion))
        away = np.abs(mine - true[::every][: len(mine)])[1:-1].max(axis=1)
        errors.append(float(np.quantile(away, 0.95)))
    assert errors[0] > 3.5 * errors[1] and errors[1] < 1e-3


def test_corners_that_depend_on_each_other() -> None:
    """Of the four corners of a face that rests in space three are rows of their own, and of their friction that sticks three tangents."""
    model = cube_model()
    t = np.arange(0.0, 0.2, 0.01)
    still = np.tile([0.0, 0.0, 0.0524], (len(t), 1))
    random = np.random.default_rng(0)
    parts = [(f"body.cube.position.{c}", still[:, i] + 1e-4 * random.standard_normal(len(t)), 1e-4) for i, c in enumerate("xyz")]
    parts += [(f"body.cube.angle.{c}", 1e-3 * random.standard_normal(len(t)), 1e-3) for c in "xyz"]
    recording = cb.Recording("rest", tuple(cb.Observation(path, t, y, sd) for path, y, sd in parts))
    result = cb.fit(model, recording, {"body.cube.mass": 0.37}, h=0.01)
    run = result.problem.runs[0]
    assert isinstance(run, Struck) and len(run.holds) == 4 and all(h.last == END for h in run.holds)
    assert sum(bool(h.kept(np.array([5]))[0]) for h in run.holds) == 3
    assert result.motion()["contact.floor.force"][1:-1, 2] == pytest.approx(result.parameters["body.cube.mass"].value * 9.81, rel=1e-6)
