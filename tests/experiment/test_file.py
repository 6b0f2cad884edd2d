"""Experiment files: what they mean, that they come back as they were written, and a sentence for every mistake."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from experiment.pendulum import EXPERIMENT, THETA, T, write

import calibody as cb
from calibody.errors import CalibodyError
from calibody.experiment import Experiment, RunSpec, load, save
from calibody.recording.readers import DriveSpec, ObserveSpec


def test_an_experiment_means_the_classes_of_python(tmp_path: Path) -> None:
    experiment = load(write(tmp_path))
    first, second = experiment.recordings
    assert first.observe["joint.hinge.angle"] == ObserveSpec(column="theta", unit="deg", sd=0.5)
    assert first.drive["actuator.motor"] == DriveSpec(column="u", file="logs/motor.csv", time="clock", time_unit="ms", hold="linear", sd=0.02)
    assert (first.label, second.label, second.start, second.end) == ("swing", "second", 0.5, 1.5)
    mass, bias, rod = experiment.estimate().values()
    assert list(experiment.unknowns) == ["body.arm.mass", "joint.hinge.angle.bias", "rod"]
    assert mass == cb.Unknown(1.0, 0.0, math.inf, (0.5, 0.2), 0.1) and bias == cb.Unknown(per_run=True)
    assert rod == cb.Unknown(0.6, places={"body.arm.com.z": "-0.5 * rod", "site.tip.position.z": "-rod"})
    assert experiment.method == cb.Transcription(coordinates="tree", h=0.01)


def test_files_are_relative_to_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    for path in ("here/swing.toml", tmp_path / "here" / "swing.toml"):
        experiment = load(path)
        runs = experiment.runs()
        assert experiment.model().name == "pendulum" and [r.name for r in runs] == ["swing", "second"]
        np.testing.assert_allclose(runs[0]["joint.hinge.angle"].values, np.deg2rad(THETA))
        np.testing.assert_allclose(runs[0].drives[0].signal.times, T, atol=1e-12)


def test_saved_and_loaded_again(tmp_path: Path) -> None:
    experiment = load(write(tmp_path))
    assert load(save(experiment, tmp_path / "again.toml")) == experiment
    (tmp_path / "deep" / "er").mkdir(parents=True)
    moved = load(save(experiment, tmp_path / "deep" / "er" / "moved.toml"))
    assert moved.model_file == "../../pendulum.xml" and moved.unknowns == experiment.unknowns
    assert [r.sha256 for r in moved.runs()] == [r.sha256 for r in experiment.runs()]
    assert moved.recordings[0].drive["actuator.motor"].file == "../../logs/motor.csv"
    assert load(save(moved, tmp_path / "back.toml")) == experiment


def test_odd_texts_and_numbers_come_back(tmp_path: Path) -> None:
    odd = 'a "b" \\ \x01 \x7f é\n\t€'
    experiment = Experiment(
        model_file="m.xml",
        recordings=(
            RunSpec(
                data="x.csv",
                name=odd,
                observe={"joint.h 1.angle": ObserveSpec(column=odd, scale=1e-300, unwrap=False), "site.p.position": ObserveSpec(columns=("x", "y", "z"))},
            ),
            RunSpec(observe={"joint.h.angle": ObserveSpec(column="x", file="other.csv")}, time_unit="ms", impacts=({"time": 0.5, "contact": "limit.stop"},)),
        ),
        unknowns={"a.b": cb.Unknown(1e22, lower=-1.0, upper=5e-324)},
        method=cb.Transcription(process_noise={"joint.h": 0.1}, robust=True),
        folder=tmp_path,
    )
    assert load(save(experiment, tmp_path / "odd.toml")) == experiment
    for method in (
        cb.Transcription(process_noise=0.5),
        cb.Transcription(process_noise={"joint.h": {"sd": "auto", "correlation_time": 0.2}}),
        cb.Shadow(kappa=10.0, formulation="lifted", stepper=cb.Spook(compliance=1e-6)),
        cb.Shadow(),
    ):
        plain = dataclasses.replace(experiment, method=method, unknowns={})
        assert load(save(plain, tmp_path / "odd.toml")) == plain
    with pytest.raises(CalibodyError, match="cannot be written"):
        save(plain, tmp_path / "nowhere" / "x.toml")


def test_a_run_may_take_every_channel_from_a_file_of_its_own(tmp_path: Path) -> None:
    write(tmp_path)
    text = '[model]\nfile = "pendulum.xml"\n[[run]]\nobserve = { "joint.hinge.angle" = { column = "theta", file = "logs/swing.csv" } }\n'
    (tmp_path / "own.toml").write_text(text)
    run = load(tmp_path / "own.toml").runs()[0]
    assert run.name == "swing" and run.source == "swing.csv"


MISTAKES = [
    ("[model]", "[modle]", "swing.toml:2:", 'no "modle"', 'did you mean "model"?'),
    ('file = "pendulum.xml"', 'fiel = "pendulum.xml"', ":3:", '[model] has an unknown key "fiel"', '"file"'),
    ('file = "pendulum.xml"', "file = 3", ":3:", "file = 3"),
    ('file = "pendulum.xml"', "", ":2:", "the model is missing"),
    ('time = "t"\nobserve', 'tiem = "t"\nobserve', ":7:", '[[run]] has an unknown key "tiem"', '"time"'),
    ('column = "theta", unit = "deg", sd', 'colum = "theta", unit = "deg", sd', ":8:", '"joint.hinge.angle"', 'did you mean "column"?'),
    ("sd = 0.5", "sd = -0.5", ":8:", "sd = -0.5", "positive"),
    ('hold = "linear"', 'hold = "cubic"', ":11:", '"actuator.motor"', '"linear"'),
    ('name = "second"', "", ":13:", 'two runs are called "swing"', "name = "),
    ("start = 0.5", 'impacts = [{ time = 0.5, contact = "floor" }]', ":16:", '"contact.NAME" or "limit.NAME"'),
    ("start = 0.5", 'impacts = "floor"', ":16:", "a list of tables"),
    ("start = 0.5", 'start = "soon"', ":16:", 'start = "soon"', "instant in seconds"),
    ('[run.drive]\n"actuator.motor"', "[run.drive]\nactuator.motor", ":11:", "in quotes", '"actuator.motor"'),
    ("[[estimate]]\nparameter", "[estimate]\nparameter", "not valid TOML"),
    ('parameter = "body.arm.mass"', 'paramter = "body.arm.mass"', ":22:", 'did you mean "parameter"?'),
    ('parameter = "body.arm.mass"', "", ":21:", "either parameter"),
    ('parameter = "body.arm.mass"', 'parameter = "joint.hinge.angle.bias"', ":30:", "estimated twice"),
    ("initial = 1\n", "initial = true\n", ":23:", "initial = true"),
    ("initial = 1\n", f"initial = {10**400}\n", ":23:", "finite number"),
    ("upper = inf", "upper = nan", ":25:", "upper = nan"),
    ("sd = 0.2 }", "sd = 0 }", ":26:", "sd above zero"),
    ("sd = 0.2 }", "sdd = 0.2 }", ":26:", 'did you mean "sd"?'),
    ("scale = 0.1", "scale = 0", ":27:", "positive"),
    ("per_run = true", "per_run = 1", ":31:", "true or false"),
    ('name = "rod"', 'name = "the rod"', ":34:", "one word"),
    ('name = "rod"', 'parameter = "rod"', ":36:", "needs name"),
    ('"-0.5 * rod"', "0.5", ":36:", '"body.arm.com.z"', "expression in quotes"),
    ('"body.arm.com.z" =', "body.arm.com.z =", ":36:", '"body.arm.com.z"', "in quotes"),
    ('name = "transcription"', 'name = "transcripton"', ":39:", 'did you mean "transcription"?'),
    ('coordinates = "tree"', 'coordinates = "polar"', ":40:", '"auto", "tree" or "free"'),
    ('process_noise = "none"', "process_noise = -1", ":41:", "standard deviation"),
    ("h = 0.01", "h = 0", ":42:", "positive time step"),
    ("h = 0.01", "wobble = 3", ":42:", "unknown key", "it takes name, coordinates"),
    ("h = 0.01", "kappa = 10.0", ":42:", '[method] has kappa, which belongs to method = "shadow"'),
    ("h = 0.01", "robust = 1", ":42:", "[method] has robust = 1", "true or false"),
    ('process_noise = "none"', "process_noise = { joint.hinge = 0.1 }", ":41:", '"joint.hinge"', "in quotes"),
    ("# swinging", "run = 3", "swing.toml", "TOML"),
]


@pytest.mark.parametrize("case", MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_named_with_their_line(tmp_path: Path, case: tuple[str, ...]) -> None:
    old, new, *words = case
    assert old in EXPERIMENT
    with pytest.raises(CalibodyError) as caught:
        load(write(tmp_path, EXPERIMENT.replace(old, new, 1)))
    text = str(caught.value)
    assert "\n" not in text and text.endswith((".", "?"))
    for word in words:
        assert word in text, text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ("the model is missing",)),
        (b"\xff\xfe[\x00", ("UTF-8",)),
        (b"[model\n", ("x.toml:1: ", "not valid TOML")),
        (b'[model]\nfile = "x.xml"\n', ("no [[run]]",)),
        (b'[model]\nfile = "x.xml"\n[run]\ndata = "x"\n', ("[[run]]", "two brackets")),
        (b'[model]\nfile = "x.xml"\n[[run]]\ndata = "x"\n', ("observes nothing",)),
        (b'[model]\nfile = "x.xml"\n[[run]]\nobserve = {"joint.a.angle" = "x"}\n', ("no data", "joint.a.angle")),
        (b"model = 3\n", ("model is 3",)),
        (b"x = " + b"[" * 100_000, ("nested too deeply",)),
    ],
)
def test_files_that_are_no_experiment(tmp_path: Path, content: bytes, words: tuple[str, ...]) -> None:
    (tmp_path / "x.toml").write_bytes(content)
    with pytest.raises(CalibodyError) as caught:
        load(tmp_path / "x.toml")
    assert all(word in str(caught.value) for word in words), caught.value


def test_files_that_are_not_there(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(CalibodyError, match=r'did you mean "swing.toml"\?'):
        load(tmp_path / "swings.toml")
    with pytest.raises(CalibodyError, match="cannot be read"):
        load(tmp_path)


def test_a_byte_order_mark_and_windows_newlines(tmp_path: Path) -> None:
    path = write(tmp_path)
    plain = load(path)
    path.write_bytes(b"\xef\xbb\xbf" + EXPERIMENT.replace("\n", "\r\n").encode())
    assert load(path) == plain
