"""Joint moments that nobody has measured: found with the motion, with bands that hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hanging_leg import SIZE, leg, stated, trial

import calibody as cb
from calibody.errors import CalibodyError
from calibody.estimate.noise.unknown_drives import carrying, unknown_joints
from calibody.estimate.result import WEIGHED
from calibody.estimate.validate import cheap
from calibody.experiment.reading import load
from calibody.recording.tables import open_table
from calibody.report.verdict import verdict


def coverage(result: cb.Result, motion: cb.Motion) -> tuple[float, float]:
    """The share of the moments that 95 % bands hold, and the rms of what they are off by in units of the bands' sd."""
    found, z = result.motion(), []
    inner = slice(3, -3)
    for joint in SIZE:
        truth = np.interp(found.time, motion.time, motion[f"joint.{joint}.force"])
        z.append(((found[f"joint.{joint}.force"] - truth) / result.sd(f"joint.{joint}.force", found.time))[inner])
    off = np.concatenate(z)
    return float(np.mean(np.abs(off) < 1.96)), float(np.sqrt(np.mean(off**2)))


def test_moments_are_found_and_their_bands_hold_them() -> None:
    shares = []
    for seed in range(5):
        run, motion = trial(seed)
        result = cb.fit(leg(), replace(run, unknown=tuple(stated())), {}, h=0.01)
        assert result.converged
        shares.append(coverage(result, motion)[0])
    assert 0.88 <= np.mean(shares) <= 0.99


def test_size_and_memory_are_found() -> None:
    run, motion = trial(3)
    result = cb.fit(leg(), replace(run, unknown=(cb.UnknownDrive("joint.*.force"),)), {}, h=0.01)
    assert result.converged and set(result.slow_forces) == set(SIZE)
    for joint, sd in SIZE.items():
        assert 0.3 * sd < result.slow_forces[joint].sd < 3.0 * sd
    share, rms = coverage(result, motion)
    assert share > 0.85 and rms < 1.5


def test_inertias_beside_unknown_drives_hang_on_what_those_are_taken_to_be() -> None:
    """As random as stated, they are right; that they have to be is said. Where a marker is hangs on nothing of it."""
    run, _ = trial(2)
    result = cb.fit(leg(), replace(run, unknown=tuple(stated())), {"body.shank.mass": 3.0}, h=0.01)
    mass = result.parameters["body.shank.mass"]
    assert mass.sd is not None and abs(mass.value - 4.0) < 3.0 * mass.sd
    assert any(note.startswith(WEIGHED) and "body.shank.mass" in note for note in result.notes)
    place = cb.fit(leg(), replace(run, unknown=tuple(stated())), {"site.shank1.position.x": 0.0}, h=0.01)
    assert place.converged and not any(note.startswith(WEIGHED) for note in place.notes)


def test_what_nobody_measured_is_not_predicted() -> None:
    """A report does not try to, unasked; asked, the reason is a sentence."""
    run, _ = trial(0, duration=0.3)
    result = cb.fit(leg(), replace(run, unknown=tuple(stated())), {}, h=0.01)
    assert result.converged and not cheap(result)
    with pytest.raises(CalibodyError, match="is unknown, so nothing says how the motion goes on"):
        result.validate()


def test_results_are_written_for_opensim(tmp_path: Path) -> None:
    """Read back, every column is what the result says."""
    run, _ = trial(0, duration=0.3)
    result = cb.fit(leg(), replace(run, unknown=tuple(stated())), {}, h=0.01)
    paths = result.opensim(tmp_path / "gait")
    assert [p.name for p in paths] == ["motion.mot", "moments.sto", "powers.sto", "motion_sd.mot", "moments_sd.sto", "powers_sd.sto"]
    motion, (places, forces, powers, place_sds, sds, power_sds) = result.motion(), [open_table(p).columns for p in paths]
    assert list(places) == ["time", *(j.name for j in leg().joints)] and "inDegrees=yes" in paths[0].read_text()
    assert np.array_equal(np.asarray(places["hip"]), np.rad2deg(motion["joint.hip.angle"])) and np.array_equal(
        np.asarray(places["px"]), motion["joint.px.position"]
    )
    assert np.array_equal(np.asarray(forces["knee_moment"]), motion["joint.knee.force"]) and not np.any(np.asarray(forces["px_force"]))
    assert np.allclose(np.asarray(sds["hip_moment"]), result.sd("joint.hip.force", np.asarray(sds["time"]))) and not np.any(np.asarray(sds["px_force"]))
    assert np.allclose(np.deg2rad(np.asarray(place_sds["hip"])), result.sd("joint.hip.angle", np.asarray(place_sds["time"])))
    assert np.allclose(np.asarray(place_sds["px"]), result.sd("joint.px.position", np.asarray(place_sds["time"])))
    moment, rate = motion["joint.knee.force"], motion["joint.knee.rate"]
    assert np.allclose(np.asarray(powers["knee_power"]), moment * rate)
    at = np.asarray(power_sds["time"])
    apart = np.hypot(
        np.interp(at, motion.time, moment) * result.sd("joint.knee.rate", at), np.interp(at, motion.time, rate) * result.sd("joint.knee.force", at)
    )  # of force and rate that had nothing in common; they have, in half a period either way
    ratio = np.asarray(power_sds["knee_power"]) / apart
    assert np.all(ratio > 0.05) and np.all(ratio < 1.5) and np.ptp(ratio) > 0.01


def test_the_report_says_what_plates_and_root_were_off_by(tmp_path: Path) -> None:
    """Bands at many instants, of forces, powers and angles; noisy drives and residual forces in result.json and in the verdict."""
    run, _ = trial(0, duration=0.3)
    lift = next(d for d in run.drives if d.channel == "body.trunk.force.z")
    noisy = replace(
        run, drives=tuple(replace(d, sd=5.0) if d is lift else d for d in run.drives), unknown=(*stated(), cb.UnknownDrive("joint.px.force", 5.0, 0.1))
    )
    result = cb.fit(leg(), noisy, {}, h=0.01)
    saved = cb.open(result.report(tmp_path / "fit").parent)
    ((z,),) = [list(each.values()) for each in saved.document["deviations"].values()]
    (found,) = result.deviations().values()
    assert z == {"rms": pytest.approx(float(np.sqrt(np.mean(found**2)))), "largest": pytest.approx(float(np.abs(found).max()))}
    assert saved.document["root"] == {run.name: {"px": pytest.approx(float(np.sqrt(np.mean(result.motion()["joint.px.force"] ** 2))))}}
    assert saved.unknown_drives == {"px", "hip", "knee"}
    said = {i.question: i.sentence for i in verdict(saved).items}
    assert "At 3 joints, with bands" in said["Are moments found that nobody measured?"] and said["Do measured forces and motion agree?"].startswith("Yes: ")
    assert "px" in said["What is left at the root?"] and "What does the model lack?" not in said
    for channel in ("joint.hip.force", "joint.hip.power", "joint.hip.angle"):
        rows = saved.bars.filter(saved.bars["channel"] == channel)
        assert len(rows) >= 20
    assert np.allclose(rows["sd"].to_numpy(), result.sd("joint.hip.angle", rows["time"].to_numpy()))
    page = (tmp_path / "fit" / "report.html").read_text(encoding="utf-8")
    assert page.index("Moments, powers and angles") < page.index('<section id="series">')


def test_what_carries_the_mechanism_is_no_drive() -> None:
    run, _ = trial(0)
    assert carrying(leg()) == {"px", "pz", "tilt"}
    every = replace(run, unknown=(cb.UnknownDrive("joint.*.force", 20.0, 0.1), cb.UnknownDrive("joint.px.force", 50.0, 0.1)))
    assert unknown_joints(leg(), [every]) == {j: {"sd": sd, "correlation_time": 0.1} for j, sd in (("px", 50.0), ("hip", 20.0), ("knee", 20.0))}
    grounded = cb.Model("arm", [cb.Body("link", mass=1.0, com=(0.1, 0, 0), inertia=(0.1, 0.1, 0.1))], [cb.Joint("base", "link")])
    assert carrying(grounded) == set()


def test_drives_of_files_can_be_unknown(tmp_path: Path) -> None:
    log = {"t": np.arange(0.0, 1.0, 0.1), "a": np.arange(0.0, 1.0, 0.1), "u": np.ones(10)}
    read = cb.read(
        log, observe={"joint.hip.angle": "a"}, drive={"joint.knee.force": "u", "joint.hip.force": {"unknown": True, "sd": 30.0, "correlation_time": 0.1}}
    )
    assert read.unknown == (cb.UnknownDrive("joint.hip.force", 30.0, 0.1),) and [d.channel for d in read.drives] == ["joint.knee.force"]
    assert cb.read(log, observe={"joint.hip.angle": "a"}, drive="unknown").unknown == (cb.UnknownDrive("joint.*.force"),)
    (tmp_path / "log.csv").write_text("t,a\n" + "".join(f"{k / 10},{k / 10}\n" for k in range(10)))
    text = '[model]\nfile = "leg.xml"\n[[run]]\ndata = "log.csv"\nobserve = { "joint.hip.angle" = "a" }\n'
    for drive, expected in (
        ('"unknown"', cb.UnknownDrive("joint.*.force")),
        ('{ "joint.hip.force" = "unknown" }', cb.UnknownDrive("joint.hip.force")),
        ('{ "joint.hip.force" = { unknown = true, sd = 30, correlation_time = 0.1 } }', cb.UnknownDrive("joint.hip.force", 30, 0.1)),
    ):
        (tmp_path / "gait.toml").write_text(f"{text}drive = {drive}\n")
        experiment = load(tmp_path / "gait.toml")
        assert experiment.recordings[0].unknown == (expected,)
        assert experiment.recordings[0].read(tmp_path).unknown == (expected,)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cb.UnknownDrive("actuator.motor"), "is no force on a joint"),
        (lambda: cb.UnknownDrive("joint.hip.force", -1.0, 0.1), "give a number above zero"),
        (lambda: cb.UnknownDrive("joint.hip.force", 1.0), "found only with its sd"),
        (
            lambda: cb.read({"t": np.arange(9.0), "a": np.arange(9.0)}, observe={"joint.a.angle": "a"}, drive={"joint.a.force": {"unknown": True, "size": 3}}),
            "is unknown and has size",
        ),
        (lambda: cb.fit(leg(), replace(trial(0)[0], unknown=(cb.UnknownDrive("joint.hup.force"),)), {}), "on a joint that the model does not have"),
        (lambda: cb.fit(leg(), replace(trial(0)[0], unknown=tuple(stated())), {}, method="shadow"), "cannot find"),
        (lambda: cb.fit(leg(), replace(trial(0)[0], unknown=tuple(stated())), {}, process_noise={"joint.hip": 1.0}), "whose drive is unknown already"),
        (lambda: replace(trial(0)[0], unknown=(cb.UnknownDrive("joint.hip.force"), cb.UnknownDrive("joint.hip.force"))), "twice"),
    ],
)
def test_sentences(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(CalibodyError, match=sentence):
        make()
