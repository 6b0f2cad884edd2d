"""Mistakes in files: none is called calibrated, and the headline names what is wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from experiment.swing import write as write_swing
from experiment.wrong_inputs import CASES, Case, write

import calibody as cb
from calibody import cli, experiment
from calibody.estimate.missing.mistakes import scaled, suspicions
from calibody.report.verdict import BAD, verdict

ENOUGH = 16
"""Mistakes of twenty that the headline has to name."""


@pytest.fixture(scope="module")
def swing(tmp_path_factory: pytest.TempPathFactory) -> experiment.Experiment:
    return experiment.load(write_swing(tmp_path_factory.mktemp("swing")))


def test_a_drive_in_the_wrong_unit_is_named(swing: experiment.Experiment, tmp_path: Path) -> None:
    (run,) = swing.runs()
    (drive,) = run.drives
    weak = dataclasses.replace(run, drives=(dataclasses.replace(drive, signal=dataclasses.replace(drive.signal, values=1e-3 * drive.signal.values)),))
    result = cb.fit(swing.model(), weak, swing.estimate(), h=0.02)
    first = result.mistakes[0]
    assert (first.kind, first.subjects) == ("factor", ("actuator.motor",)) and first.after < 2.0 < 20.0 < (first.before or 0.0)
    assert "wrong? The drive actuator.motor looks 1000 times too small: unit?" in str(result)
    result.report(tmp_path / "fit")
    found = cb.open(tmp_path / "fit")
    assert found.mistakes == result.mistakes
    said = verdict(found)
    assert said.level == BAD and said.headline.startswith("Not calibrated: the model does not describe these data (residuals ")
    assert "times the noise). The drive actuator.motor looks 1000 times too small: unit? Give it scale = 1000" in said.headline
    item = next(i for i in said.items if i.question == "Is something wrong in the files?")
    assert item.sentence.startswith("Probably.") and "times the noise" in item.sentence


def test_nothing_is_suspected_where_the_data_are_described(swing: experiment.Experiment) -> None:
    result = cb.fit(swing.model(), swing.runs(), swing.estimate(), h=0.02)
    assert result.mistakes == () and "wrong?" not in str(result)


def test_what_is_undone(swing: experiment.Experiment) -> None:
    """Every suspicion gives recordings that can be fitted, and undoes what it says."""
    model, runs = swing.model(), swing.runs()
    (run,) = runs
    found = suspicions(model, runs)
    assert {s.kind for s in found} == {"factor", "sign", "gravity", "shift", "offset", "length", "gain"}  # no clock: 10 ms are neither 10 us nor 10 s
    for s in found:
        other, (changed,) = s.change(model, runs)
        assert s.words(dict.fromkeys(s.unknowns, 0.5)).endswith(".")
        assert other is not model or changed is not run or s.unknowns
    degrees = next(s for s in found if s.kind == "factor" and s.subjects == ("joint.hinge.angle",) and "degrees" in s.words({}))
    np.testing.assert_allclose(degrees.change(model, runs)[1][0]["joint.hinge.angle"].values, np.radians(run["joint.hinge.angle"].values))
    late = next(s for s in found if s.kind == "shift" and "The drives come 30 ms (3 samples) late" in s.words({}))
    moved = late.change(model, runs)[1][0].drives[0].signal
    np.testing.assert_allclose(np.interp(1.0, moved.times, moved.values), np.interp(1.03, run.drives[0].signal.times, run.drives[0].signal.values))


def test_a_unit_undone_has_the_noise_that_it_scatters_by(swing: experiment.Experiment) -> None:
    """A stated sd may have been in either unit: with a factor of 1000 on it, anything would fit."""
    (run,) = swing.runs()
    o = run["joint.hinge.angle"]
    assert scaled(o, 1000.0).sd == pytest.approx(4.0, rel=0.1) and scaled(o, 1e-3).sd == pytest.approx(4e-6, rel=0.1)
    assert scaled(dataclasses.replace(o, sd=40.0), 1000.0).sd == pytest.approx(4.0, rel=0.1) and scaled(o, -1.0).sd == o.sd


def double() -> tuple[cb.Model, cb.Recording, dict[str, cb.Unknown]]:
    """A double pendulum whose second axis has the opposite direction, its second angle taken against the world."""
    bodies = [
        cb.Body("a", mass=1.0, com=(0, 0, -0.2), inertia=(0.02,) * 3),
        cb.Body("b", parent="a", position=(0, 0, -0.4), mass=0.6, com=(0, 0, -0.15), inertia=(0.01,) * 3),
    ]
    joints = [cb.Joint("one", "a", axis=(0, 1, 0), damping=0.05), cb.Joint("two", "b", axis=(0, -1, 0), damping=0.02)]
    model = cb.Model("double", bodies, joints)
    motion = cb.simulate(model, 2.0, 0.01, {"joint.one.angle": 1.0, "joint.two.angle": 0.5})
    one, two = (motion[f"joint.{j}.angle"] + 1e-3 * np.random.default_rng(k).normal(size=len(motion.time)) for k, j in enumerate(("one", "two")))
    seen = (cb.Observation("joint.one.angle", motion.time, one, 1e-3), cb.Observation("joint.two.angle", motion.time, two - one, 1e-3))
    inertias = {f"body.{name}.inertia.yy": cb.Unknown(value) for name, value in (("a", 0.03), ("b", 0.015))}
    return model, cb.Recording("r", seen), inertias | {f"joint.{name}.damping": cb.Unknown(0.03) for name in ("one", "two")}


def test_angles_against_the_world_are_undone() -> None:
    model, run, _ = double()
    (absolute,) = (s for s in suspicions(model, [run]) if s.kind == "absolute")
    _, (changed,) = absolute.change(model, [run])
    one, two = (run[f"joint.{j}.angle"].values for j in ("one", "two"))
    np.testing.assert_allclose(changed["joint.two.angle"].values, two + one)
    np.testing.assert_allclose(changed["joint.one.angle"].values, one)
    assert absolute.subjects == ("joint.two.angle",)
    crossed = dataclasses.replace(model, joints=(model.joint("one"), dataclasses.replace(model.joint("two"), axis=(1, 0, 0))))
    assert not [s for s in suspicions(crossed, [run]) if s.kind == "absolute"]


@pytest.mark.slow
@pytest.mark.parametrize("process_noise", ["none", "auto"])
def test_unmodelled_forces_do_not_hide_a_mistake(process_noise: str) -> None:
    """With such forces the residuals are as small as the noise, and the fit converges."""
    model, run, unknown = double()
    result = cb.fit(model, run, unknown, process_noise=process_noise, h=0.02)
    assert result.converged and (process_noise == "none") == (max(c.rms_over_sd for c in result.fit) > 10.0)
    assert [m.kind for m in result.mistakes] == ["absolute"] and "joint.two.angle looks absolute" in result.mistakes[0].sentence


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_a_mistake_it_is_calibrated(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same files as below, noise and all."""
    file = write(tmp_path, case, mistaken=False)
    with pytest.raises(SystemExit) as ended:
        cli.main(["fit", str(file), "--out", str(tmp_path / "fit"), "--quiet"])
    capsys.readouterr()
    assert ended.value.code == 0 and verdict(cb.open(tmp_path / "fit")).headline.startswith("Calibrated: ")


@pytest.mark.slow
def test_twenty_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """None is calibrated, each ends with exit code 1 or 2, and the sentence on stderr names the right suspect in at least sixteen."""
    named = []
    for case in CASES:
        file = write(tmp_path / case.name, case, mistaken=True)
        with pytest.raises(SystemExit) as ended:
            cli.main(["fit", str(file), "--quiet", "--no-validate"])
        said = capsys.readouterr().err
        assert ended.value.code in (1, 2), case.name
        assert "error: Calibrated" not in said and said.startswith("error: "), case.name
        if any(words in said for words in case.named):
            named.append(case.name)
    assert len(CASES) == 20 and len(named) >= ENOUGH, sorted({case.name for case in CASES} - set(named))
