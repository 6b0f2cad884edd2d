"""Impacts in fits: derivatives, known truths from guesses twice off, laws left out, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from impact_problems import STOP, cube_model, drop, guesses, square_model, stop_model, stop_motion, stop_recording, toss
from impact_study import INERTIA, PAPER, tried

import calibody as cb
from calibody.estimate.contacts.flights import SHORTEST, Struck, laid
from calibody.estimate.layout import NODES
from calibody.estimate.meshes import Meshes
from calibody.estimate.problem import Problem
from calibody.estimate.recipe import prepared
from calibody.estimate.reported import initial_theta


def begun(model: cb.Model, recording: cb.Recording, unknowns: dict, **options: str) -> tuple[Meshes, Problem, list, np.ndarray]:
    worker, h = prepared(model, [recording], unknowns, "none", "auto", None, **options)
    theta = initial_theta(worker.unknowns)
    problem, x = worker.begin(worker.problem(h, worker.noises), theta)
    return worker, problem.sharpened(np.ones(len(problem.runs[0].structure.law_owners))), x, theta


def test_flights_overlap_around_their_impacts() -> None:
    spans = laid([10, 11, 40], 60)
    assert (spans[:, 1] - spans[:, 0] + 1 >= SHORTEST).all()
    assert spans[0].tolist() == [0, 11] and spans[2].tolist() == [11, 41] and spans[3].tolist() == [40, 59]
    assert spans[1, 0] <= 10 and spans[1, 1] >= 12
    ends = laid([0, 58], 60)
    assert ends.min() >= 0 and ends.max() <= 59 and (ends[:, 1] - ends[:, 0] + 1 >= SHORTEST).all()


CASES = {
    "stop": lambda: (stop_model(), stop_recording(0, 1.0), guesses(STOP)),
    "square": lambda: (
        square_model(),
        drop(square_model(), 0)[0],
        {"body.block.inertia.yy": 0.3, "contact.floor.friction": 0.5, "contact.floor.restitution": 0.4},
    ),
    "cube": lambda: (cube_model(), toss(0, 0.2)[0], {"contact.floor.friction": 0.3, "contact.floor.radius": 0.004, "body.cube.mass": 0.4}),
}


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("contacts", ["law", "free"])
def test_derivatives_of_a_run_with_impacts(case: str, contacts: str) -> None:
    model, recording, unknowns = CASES[case]()
    unknowns = {k: u for k, u in unknowns.items() if contacts == "law" or not k.endswith(("friction", "restitution")) or k.startswith("joint.")}
    _, problem, x, theta = begun(model, recording, unknowns, contacts=contacts)
    run = problem.runs[0]
    assert isinstance(run, Struck) and len(run.strikes) >= 1
    lin = problem.linearise(x, theta, hold_scale=False)
    part = lin.parts[0]
    assert part.Cx.shape[0] + 2 * run.structure.nv == run.layout.place[NODES].stop + len(run.strikes) * (1 + run.width) or contacts == "free"
    random, nothing = np.random.default_rng(1), np.zeros(run.layout.size)
    for _ in range(3):
        d, size = random.standard_normal(run.layout.size), 1e-6
        ends = [problem.values(problem.move(x, nothing + sign * size * d), theta) for sign in (1.0, -1.0)]
        for k, by in enumerate((part.Fx @ d, part.Cx @ d)):
            found = (ends[0][k] - ends[1][k]) / (2 * size)
            assert np.abs(found - by).max() < 2e-4 * np.abs(by).max()
    for k in range(len(theta)):
        step = 1e-5 * problem.scale[k] * (np.arange(len(theta)) == k)
        ends = [problem.values(x, theta + sign * step)[1] for sign in (1.0, -1.0)]
        found = (ends[0] - ends[1]) / (2 * step[k])
        assert np.abs(found - part.Ct[:, k]).max() < 1e-5 * np.abs(part.Ct[:, k]).max() + 1e-8


def test_a_pendulum_against_a_stop() -> None:
    """Inertia, dry friction, angle and restitution of the stop from twice off; times of impacts within their error bars."""
    result = cb.fit(stop_model(), stop_recording(0, 4.0), guesses(STOP))
    _, _, events = stop_motion(4.0)
    assert result.converged and result.iterations <= 20
    for path, value in STOP.items():
        estimate = result.parameters[path]
        assert estimate.sd is not None and abs(estimate.value - value) < 3.5 * estimate.sd
        assert estimate.sd < 0.02 * value
    assert len(result.events) == len(events)
    for mine, true in zip(result.events, events, strict=True):
        assert mine.time_sd is not None and abs(mine.time - true.time) < 4 * mine.time_sd + 2e-6
        assert mine.normal_impulse_sd is not None and abs(mine.normal_impulse - true.normal_impulse) < 4 * mine.normal_impulse_sd + 2e-5
        assert mine.contact == "limit.stop"
        assert mine.separation_speed == pytest.approx(result.parameters["limit.stop.restitution"].value * mine.approach_speed, rel=1e-6)
    assert result.notes[0] == f"{len(events)} impacts on limit.stop."
    motion = result.motion()
    assert [e.time for e in motion.events] == [e.time for e in result.events]
    assert motion["limit.stop.gap"].min() > -1e-4
    assert np.isfinite(result.sd("joint.hinge.angle", motion.time[5:-5:50])).all()
    predicted = result.predict(stop_recording(3, 4.0), window=1.0)
    assert predicted["joint.hinge.angle"].rms < 0.01  # through all impacts, of which three are in the window


def test_impacts_are_of_second_order() -> None:
    """Without noise, on given meshes: the stop's angle and restitution, four parameters free, against the fine simulation."""
    recording = stop_recording(None, 2.0)
    errors = []
    for h in (0.008, 0.004, 0.002):
        found = cb.fit(stop_model(), recording, {p: cb.Unknown(v) for p, v in STOP.items()}, h=h).parameters
        errors.append(max(abs(found[p].value / v - 1.0) for p, v in STOP.items() if p.startswith(("limit", "body"))))
    assert errors[0] / errors[2] > 2 ** (2 * 1.5) and errors[2] < 2e-4


@pytest.mark.parametrize("shape", ["square", "ellipse"])
def test_the_inertia_of_a_body_that_is_dropped(shape: str) -> None:
    model = square_model(shape)
    truth = model["body.block.inertia.yy"]
    for seed in (0, 2):
        recording, events = drop(model, seed)
        result = cb.fit(model, recording, {"body.block.inertia.yy": cb.Unknown(2 * truth)})
        estimate = result.parameters["body.block.inertia.yy"]
        assert result.converged and result.iterations <= 12
        assert estimate.sd is not None and abs(estimate.value - truth) < 3.5 * estimate.sd
        assert estimate.sd < 0.03 * truth
        assert [e.mode for e in result.events] == [e.mode for e in events]
        assert max(abs(a.time - b.time) for a, b in zip(result.events, events, strict=True)) < 2e-3


@pytest.mark.parametrize("seed", [7, pytest.param(12, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)])
def test_a_sequence_that_no_smooth_motion_shows(seed: int) -> None:
    """Two corners that strike 6.5 ms apart (7), 12 ms apart (4), or an impact at the instant of a sample (12): found by simulation, with m/I from half the truth."""
    model = square_model()
    truth = model["body.block.inertia.yy"]
    recording, events = drop(model, seed)
    result = cb.fit(model, recording, {"body.block.inertia.yy": cb.Unknown(2 * truth)})
    estimate = result.parameters["body.block.inertia.yy"]
    assert result.converged and len(result.events) == len(events)
    assert max(abs(a.time - b.time) for a, b in zip(result.events, events, strict=True)) < 2e-3
    assert estimate.sd is not None and abs(estimate.value - truth) < 3.5 * estimate.sd
    assert not any("cannot be trusted" in n for n in result.notes)


def test_friction_and_restitution_of_a_square_that_slips() -> None:
    truth = {"contact.floor.friction": 0.15, "contact.floor.restitution": 0.6, "body.block.inertia.yy": 1 / 6}
    model = square_model(friction=0.15)
    recording, events = drop(model, 3)
    assert any(e.mode == "slip" for e in events)
    result = cb.fit(model, recording, guesses(truth))
    assert result.converged
    for path, value in truth.items():
        estimate = result.parameters[path]
        assert estimate.sd is not None and abs(estimate.value - value) < 3.5 * estimate.sd
    for event in result.events:
        if event.mode == "slip":
            assert event.tangential_impulse == pytest.approx(result.parameters["contact.floor.friction"].value * event.normal_impulse, rel=1e-6)


def test_impulses_that_follow_no_law() -> None:
    """With contacts = "free" a wrong restitution in the model does no harm."""
    model = square_model()
    recording, _ = drop(model, 0)
    wrong = model.replace({"contact.floor.restitution": 0.2})
    result = cb.fit(wrong, recording, {"body.block.inertia.yy": cb.Unknown(0.3)}, contacts="free")
    estimate = result.parameters["body.block.inertia.yy"]
    assert result.converged and estimate.sd is not None and abs(estimate.value - 1 / 6) < 3.5 * estimate.sd
    assert all(0.5 < e.separation_speed / e.approach_speed < 0.7 and e.mode == "free" for e in result.events)
    lawful = cb.fit(wrong, recording, {"body.block.inertia.yy": cb.Unknown(0.3)})
    assert not lawful.converged or any("cannot be trusted" in n for n in lawful.notes)


def test_a_cube_that_is_tossed() -> None:
    """In space, from poses alone: friction and restitution of its first impacts."""
    recording, events = toss(0, 0.19)
    result = cb.fit(cube_model(), recording, {"contact.floor.friction": 0.36, "contact.floor.restitution": cb.Unknown(0.15)})
    assert result.converged and len(result.events) == len([e for e in events if e.time < 0.19])
    for path, value in (("contact.floor.friction", 0.18), ("contact.floor.restitution", 0.3)):
        estimate = result.parameters[path]
        assert estimate.sd is not None and abs(estimate.value - value) < 3.5 * estimate.sd


def test_friction_that_no_impact_shows() -> None:
    model = square_model()
    recording, events = drop(model, 0)
    assert all(e.mode == "stick" for e in events)
    result = cb.fit(model, recording, {"contact.floor.friction": 0.9})
    assert result.parameters["contact.floor.friction"].sd is None
    assert any(n.startswith("No impact on contact.floor slipped, so its friction is at least 0.") for n in result.notes)


def test_what_is_refused_or_said() -> None:
    model, recording = stop_model(), stop_recording(0, 2.0)
    with pytest.raises(cb.CalibodyError, match=r'"limit\.stop\.restitution" cannot be estimated with contacts = "free"'):
        cb.fit(model, recording, {"limit.stop.restitution": 0.5}, contacts="free")
    with pytest.raises(cb.CalibodyError, match='contacts = "none" leaves them out'):
        cb.fit(model, recording, {"limit.stop.restitution": 0.5}, contacts="none")
    with pytest.raises(cb.CalibodyError, match='process_noise = "none" only'):
        cb.fit(model, recording, {"limit.stop.restitution": 0.5}, process_noise=0.1)
    with pytest.raises(cb.CalibodyError, match=r"nothing touches limit\.stop in the recordings"):
        cb.fit(model, recording.cut(end=0.14), {"limit.stop.restitution": 0.5})
    with pytest.raises(cb.CalibodyError, match='contacts = "soft"; give'):
        cb.fit(model, recording, {"limit.stop.restitution": 0.5}, contacts="soft")
    flying = cb.fit(model, recording.cut(end=0.14), {"body.arm.inertia.yy": 0.006})
    assert any(n.startswith("Nothing touches in these recordings") for n in flying.notes)
    t = np.arange(0.0, 1.0, 0.01)
    resting = cb.Recording(
        "rest", (cb.Observation("joint.hinge.angle", t, np.full(len(t), 0.2), 1e-3),), (cb.Drive("joint.hinge.force", cb.Signal(t, 1.0 + 0.0 * t)),)
    )
    lasting = cb.fit(model, resting, {"body.arm.inertia.yy": 0.006})
    assert lasting.notes[0] == "limit.stop stays closed from 0 to 0.99 s." and lasting.parameters["body.arm.inertia.yy"].sd is None
    without = cb.fit(model, recording, {"body.arm.inertia.yy": 0.006}, contacts="none")
    assert any("whose force the fit leaves out: do not trust the estimates" in n for n in without.notes)


def test_tosses_determine_no_mass() -> None:
    """Without a known force only the ratio of mass and inertia: it has an error bar, they and the impulses have none."""
    model = square_model()
    recording, _ = drop(model, 0)
    result = cb.fit(model, recording, {"body.block.inertia.yy": 0.25, "body.block.mass": 1.3})
    assert result.converged and result.unresolved == ("Only the ratio body.block.mass : body.block.inertia.yy is determined.",)
    (ratio,) = result.determined
    assert ratio.expression == "body.block.inertia.yy / body.block.mass" and abs(ratio.value - 1 / 6) < 3.5 * ratio.sd
    assert all(e.normal_impulse_sd is None and e.time_sd is not None for e in result.events)


def given(events: list, off: float, seed: int) -> tuple[cb.Impact, ...]:
    """Impacts as somebody saw them: off by a time, to either side."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], len(events))
    return tuple(cb.Impact(e.time + off * sign, e.contact) for e, sign in zip(events, signs, strict=True))


def test_impacts_that_are_known() -> None:
    """Their times 20 ms off, m/I from half the truth: the optimum of a fit that finds them; and a sequence that is not there is not made up for."""
    model = square_model()
    recording, events = drop(model, 4)  # two corners strike 12 ms apart
    found = cb.fit(model, replace(recording, impacts=given(events, 0.02, 0)), {"body.block.inertia.yy": 1 / 3})
    estimate = found.parameters["body.block.inertia.yy"]
    assert found.converged and found.iterations <= 12 and len(found.events) == 3
    assert estimate.sd is not None and abs(estimate.value - 1 / 6) < 3.5 * estimate.sd
    assert max(abs(a.time - b.time) for a, b in zip(found.events, events, strict=True)) < 2e-3
    stop = stop_recording(0, 1.0)
    _, _, strikes = stop_motion(4.0)
    mine = [e for e in strikes if e.time < 1.0]
    found = cb.fit(stop_model(), replace(stop, impacts=given(mine, 0.01, 1)), guesses(STOP))
    assert found.converged and [e.time for e in found.events] == pytest.approx([e.time for e in mine], abs=1e-3)


def test_impacts_that_cannot_be() -> None:
    model, recording = stop_model(), stop_recording(0, 1.0)
    with pytest.raises(cb.CalibodyError, match=r'has an impact on "limit\.stp"; did you mean "limit\.stop"'):
        cb.fit(model, replace(recording, impacts=(cb.Impact(0.2, "limit.stp"),)), {"body.arm.inertia.yy": 0.006})
    with pytest.raises(cb.CalibodyError, match=r'give "contact\.NAME" or "limit\.NAME"'):
        cb.Impact(0.2, "stop")
    with pytest.raises(cb.CalibodyError, match="has time = nan; give about when"):
        cb.Impact(float("nan"), "limit.stop")
    with pytest.raises(cb.CalibodyError, match=r"point = \(1, 2\); give three lengths"):
        cb.Impact(0.2, "contact.floor", (1, 2))  # type: ignore[arg-type]
    with pytest.raises(cb.CalibodyError, match="it takes time, contact and point"):
        replace(recording, impacts=({"time": 0.2, "what": "limit.stop"},))
    with pytest.raises(cb.CalibodyError, match="was given 3 where Impact was expected"):
        replace(recording, impacts=(3,))
    assert [i.time for i in replace(recording, impacts=({"time": 0.5, "contact": "limit.stop"}, cb.Impact(0.2, "limit.stop"))).cut(0.3).impacts] == [0.5]


def test_what_a_contact_cannot_be() -> None:
    """A body that starts inside the ground, contact without mass, restitution above one, negative friction, a floor that is never touched."""
    model, t = square_model(), np.arange(0.0, 0.4, 0.004)
    random = np.random.default_rng(0)
    parts = {"joint.x.position": 0.0 * t, "joint.z.position": 0.0 * t + 0.3, "joint.turn.angle": 0.0 * t}
    sunk = cb.Recording("sunk", tuple(cb.Observation(c, t, y + 1e-3 * random.standard_normal(len(t)), 1e-3) for c, y in parts.items()))
    with pytest.raises(cb.CalibodyError, match=r'The recording "sunk" begins 0\.2 m inside contact\.floor; correct its place'):
        cb.fit(model, sunk, {"body.block.inertia.yy": 0.2})
    with pytest.raises(cb.CalibodyError, match=r'"hull" is 0\.3 m inside "ground" \(contact\.floor\); start it outside'):
        cb.simulate(model, 0.1, h=1e-3, initial={"joint.z.position": 0.2})
    with pytest.raises(cb.CalibodyError, match=r"contact\.floor\.friction is -0\.1; it must not be negative"):
        square_model(friction=-0.1)
    with pytest.raises(cb.CalibodyError, match=r"contact\.floor\.restitution is 1\.1; give a number from 0"):
        square_model(restitution=1.1)
    ball = cb.Geometry("ball", "empty", "sphere", (0.1,))
    with pytest.raises(cb.CalibodyError, match=r"body\.empty has no mass, nor has anything that moves with it"):
        cb.Model("x", [cb.Body("empty")], [cb.Joint("z", "empty", "slide", axis=(0, 0, 1))], geometries=[ball], contacts=[cb.Contact("floor", "ball")])
    parts["joint.z.position"] = 5.0 - 4.905 * t**2
    flying = cb.Recording("flying", tuple(cb.Observation(c, t, y + 1e-3 * random.standard_normal(len(t)), 1e-3) for c, y in parts.items()))
    for number, value in (("friction", 0.5), ("restitution", 0.5)):
        with pytest.raises(cb.CalibodyError, match=r"nothing touches contact\.floor in the recordings"):
            cb.fit(model, flying, {f"contact.floor.{number}": value})
    with pytest.raises(cb.CalibodyError, match=r'The initial value 1\.5 of "contact\.floor\.restitution" lies outside its bounds \[0, 1\]'):
        cb.fit(model, flying, {"contact.floor.restitution": 1.5})
    with pytest.raises(cb.CalibodyError, match=r'The initial value -1 of "contact\.floor\.friction" lies outside its bounds \[0, inf\]'):
        cb.fit(model, flying, {"contact.floor.friction": -1.0})


def test_noise_that_hides_the_bounces_is_said() -> None:
    """At 10 dB a sample is 0.4 m and 1 rad off; at 30 dB nothing is said."""
    for decibel, warns in ((10.0, True), (30.0, False)):
        done = tried("square", decibel, 2)
        assert done["status"] == "converged" and done["right"] and bool(done["warnings"]) is warns
        if warns:
            assert "between impacts nothing rises by more than" in done["warnings"][0]


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["square", "ellipse"])
def test_a_small_study_of_drops(shape: str) -> None:
    """Six drops per noise level: errors below [fazeli2017], intervals that hold or warn."""
    for decibel, paper in PAPER[shape].items():
        done = [tried(shape, float(decibel), seed) for seed in range(6)]
        answers = [d for d in done if d["status"] == "converged" and d["sd"][INERTIA] is not None]
        error = 100.0 * np.mean([1.0 / (1.0 + d["error"][INERTIA]) - 1.0 for d in answers])
        assert len(answers) >= (4 if decibel == 10 else 6) and abs(error) < max(paper, 1.0)
        assert all(abs(d["error"][INERTIA]) < 3.5 * d["sd"][INERTIA] for d in answers if not d["warnings"])
        if decibel >= 30:
            assert sum(bool(d["warnings"]) for d in answers) <= 1 and all(d["right"] for d in answers)
        if decibel == 10:
            assert all(d["warnings"] for d in answers if abs(d["error"][INERTIA]) > 1.96 * d["sd"][INERTIA])


@pytest.mark.slow
def test_impacts_whose_times_are_off() -> None:
    """By 20 ms, m/I from 0.5 and 2 times the truth: the same optimum in at most 12 steps."""
    same = 0
    for shape in ("square", "ellipse"):
        model = square_model(shape)
        truth = model["body.block.inertia.yy"]
        for seed in range(4):
            recording, events = drop(model, seed)
            begun = [
                cb.fit(model, replace(recording, impacts=given(events, off, seed)), {"body.block.inertia.yy": factor * truth})
                for factor, off in ((1.0, 0.0), (0.5, 0.02), (2.0, 0.02))
            ]
            best, *others = [r.parameters["body.block.inertia.yy"] for r in begun]
            assert best.sd is not None
            same += sum(r.converged and r.iterations <= 12 and abs(e.value - best.value) < 0.1 * best.sd for r, e in zip(begun[1:], others, strict=True))
    assert same >= 15
