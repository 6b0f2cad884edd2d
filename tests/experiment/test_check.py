"""`calibody check`: what is missing is an error, what looks wrong a warning, and everything is said at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiment import swing
from experiment.pendulum import EXPERIMENT, OMEGA, THETA, T, write

from calibody.experiment import load
from calibody.experiment.check import Check, check

ONE_RUN = EXPERIMENT[: EXPERIMENT.index('[[run]]\nname = "second"')] + EXPERIMENT[EXPERIMENT.index("[[estimate]]") :]
UNDRIVEN = ONE_RUN[: ONE_RUN.index("[run.drive]")] + ONE_RUN[ONE_RUN.index("[[estimate]]") :]


def levels(found: Check, level: str) -> list[str]:
    return [f.sentence for f in found.findings if f.level == level]


def warned(folder: Path, *words: str, text: str = ONE_RUN, **columns: np.ndarray) -> None:
    found = check(load(write(folder, text, **columns)))
    assert found.ok, found.findings
    matching = [s for s in levels(found, "warning") if all(word in s for word in words)]
    assert matching, found.findings


def test_a_good_experiment_has_nothing_wrong(tmp_path: Path) -> None:
    found = check(load(write(tmp_path, ONE_RUN)))
    assert found.ok and not found.findings
    assert found.model is not None and [r.name for r in found.runs] == ["swing"] and len(found.unknowns) == 3


def test_all_mistakes_are_found_at_once(tmp_path: Path) -> None:
    text = ONE_RUN.replace('"omega"', '"omgea"').replace("joint.hinge.angle.bias", "joint.hing.angle.bias").replace("body.arm.mass", "body.arm.mas")
    text = text.replace('"joint.hinge.angle" =', '"joint.hinge.angel" =').replace('column = "u"', 'column = "v"')
    found = check(load(write(tmp_path, text)))
    assert not found.ok and not found.runs and not found.unknowns
    errors = levels(found, "error")
    for words in (("omgea", '"omega"'), ('"v"',), ("joint.hing.angle",), ("body.arm.mas", '"mass"'), ("joint.hinge.angel", '"joint.hinge.angle"')):
        assert any(all(word in sentence for word in words) for sentence in errors), errors


def test_errors_of_the_model_and_the_unknowns(tmp_path: Path) -> None:
    for old, new, word in [
        ("pendulum.xml", "nowhere.xml", 'The model "nowhere.xml" does not exist; paths are relative to the file swing.toml'),
        ('"actuator.motor" =', '"actuator.motor.force" =', "cannot be driven"),
        ('"joint.hinge.rate" =', '"body.arm.momentum.x" =', "body.arm"),
        ('"-0.5 * rod"', '"-0.5 * rot"', '"rot"'),
        ("lower = 0.0", "lower = 2.0", "outside its bounds"),
        ('clock", time_unit = "ms"', 'clock", time_unit = "us"', "shorter than the recording"),
        ("logs/motor.csv", "logs/moter.csv", '"motor.csv"'),
        ('time = "t"\n', 'initial = { "joint.hing.angle" = 0.0 }\n', 'did you mean "joint.hinge.angle"'),
        ('time = "t"\n', 'initial = { "body.arm.position" = 0.0 }\n', "hinges and slides"),
    ]:
        found = check(load(write(tmp_path, ONE_RUN.replace(old, new, 1))))
        assert not found.ok and any(word in sentence for sentence in levels(found, "error")), found.findings
    found = check(load(write(tmp_path, ONE_RUN[: ONE_RUN.index("[[estimate]]")])))
    assert found.ok and any("Nothing is estimated but motion and forces" in sentence for sentence in levels(found, "warning"))


def test_what_looks_wrong(tmp_path: Path) -> None:
    radians = ONE_RUN.replace(', unit = "deg", sd = 0.5', "")
    warned(tmp_path, "joint.hinge.angle", "spans", 'unit = "deg"', text=radians, theta=3 * THETA, omega=180 / np.pi * 3 * OMEGA)
    warned(tmp_path, "57.3 times the slope", omega=np.rad2deg(OMEGA))
    warned(tmp_path, "-1 times the slope", omega=-OMEGA)
    warned(tmp_path, "gap of 0.49", theta=np.where((T > 0.5) & (T < 0.99), np.nan, THETA))
    warned(tmp_path, "largest value (0.34", "limit", theta=np.clip(THETA, -90, 20))
    warned(tmp_path, "constant", theta=0 * THETA + 1)
    warned(tmp_path, "scatters by", "sd", theta=THETA + 10 * np.random.default_rng(0).normal(size=len(T)))
    warned(tmp_path, "first sample", "glitch", theta=THETA + 20.0 * (T == T[0]))
    warned(tmp_path, "One sample", "beside the curve of its neighbours (1 s)", theta=THETA + 20.0 * (np.arange(len(T)) == np.argmin(abs(T - 1.0))))
    warned(tmp_path, "stays there (1 s)", "counts were lost", theta=THETA + 20.0 * (np.arange(len(T)) >= np.argmin(abs(T - 1.0))))
    warned(tmp_path, "same zero", omega=np.where(T < 0.5, OMEGA, np.nan))
    warned(tmp_path, "does not drive", text=UNDRIVEN)
    warned(tmp_path, "no run observes", text=ONE_RUN.replace("joint.hinge.angle.bias", "joint.hinge.force.bias"))
    warned(tmp_path, "same recording", text=EXPERIMENT.replace("start = 0.5\nend = 1.5\n", ""))
    warned(tmp_path, "500 s", "time_unit", text=UNDRIVEN.replace('time = "t"', 'time = "slow"'), slow=5e4 * T)


def test_drives_that_are_unknown_are_no_omission(tmp_path: Path) -> None:
    """Motion and forces are then what is asked for, and no control is taken as zero."""
    text = UNDRIVEN[: UNDRIVEN.index("[[estimate]]")].replace('time = "t"\n', 'time = "t"\ndrive = "unknown"\n', 1)
    found = check(load(write(tmp_path, text)))
    assert found.ok and not any(word in sentence for sentence in levels(found, "warning") for word in ("does not drive", "Nothing is estimated"))


def test_the_command(tmp_path: Path, run) -> None:
    code, out, err = run("check", write(tmp_path))
    assert (code, err) == (0, "") and "joint.hinge.angle" in out and "can be fitted: 2 runs, 4 unknowns." in out
    assert run("check", write(tmp_path), "--quiet") == (0, "", "")
    code, out, err = run("check", write(tmp_path), "--json")
    found = json.loads(out)
    assert code == 0 and found["ok"] and found["model"] == "pendulum" and len(found["runs"]) == 2
    assert found["runs"][0]["channels"][0] | {"least": 0, "largest": 0, "sd": 0} == {
        "channel": "joint.hinge.angle", "role": "observed", "samples": 201, "rate": pytest.approx(100), "from": 0, "to": 2, "least": 0, "largest": 0, "sd": 0,
    }  # fmt: skip


def test_mistakes_of_the_command(tmp_path: Path, run) -> None:
    path = write(tmp_path, ONE_RUN.replace("omega", "omgea").replace("body.arm.mass", "body.arm.mas"))
    code, out, err = run("check", path)
    assert code == 2 and [line.startswith("error: ") for line in err.splitlines()] == [True, True] and "can be fitted" not in out
    code, out, _ = run("check", path, "--json")
    assert code == 2 and not json.loads(out)["ok"] and json.loads(out)["findings"][0]["level"] == "error"
    code, out, err = run("check", write(tmp_path, "[modle]"))
    assert (code, out) == (2, "") and err.startswith("error: swing.toml:1:")
    code, out, _ = run("check", write(tmp_path, "[modle]"), "--json")
    assert code == 2 and not json.loads(out)["ok"] and "swing.toml:1:" in json.loads(out)["findings"][0]["sentence"]


def test_a_minute_at_a_kilohertz_is_checked_without_a_compiler(tmp_path: Path) -> None:
    """How long it takes is measured in `benchmarks/run.py`; what would take longest is not even imported."""
    t = np.arange(60_000) / 1000
    path = write(tmp_path, ONE_RUN.replace("h = 0.01\n", ""))
    pl.DataFrame({"t": t, "theta": 40 * np.sin(3 * t), "omega": np.cos(t)}).write_csv(tmp_path / "logs" / "swing.csv")
    pl.DataFrame({"clock": 1000 * t, "u": np.sin(t)}).write_csv(tmp_path / "logs" / "motor.csv")
    code = "import atexit, sys; from calibody import cli; atexit.register(lambda: print('jax' in sys.modules)); cli.main(['check', sys.argv[1]])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "can be fitted: 1 run, 3 unknowns." in done.stdout and "At the initial values" in done.stdout
    assert done.stdout.rstrip().endswith("False")


def test_what_is_foreseen_of_all_ten_inertial_numbers(tmp_path: Path) -> None:
    """In the model's numbers, not in those that are solved for: a hinge shows the first moment and the inertia about its own axis."""
    text = swing.EXPERIMENT.replace('"body.arm.mass"', '"body.arm.inertia"')
    said = [s.removeprefix("At the initial values: ") for s in levels(check(load(swing.write(tmp_path, text)), foresight=True), "warning")]
    hidden = ("mass", "moment.y", "origin.xx", "origin.zz", "origin.xy", "origin.xz", "origin.yz")
    assert said == [f"body.arm.{name} is not determined by the data." for name in hidden]


REFUSED = {
    "a joint in process_noise": ("h = 0.01", 'process_noise = { "joint.hinch" = 0.1 }'),
    "an h that is too long": ("h = 0.01", "h = 2.0"),
    "process noise on nothing": ("h = 0.01", 'process_noise = { "hinge.angle" = 0.1 }'),
    "forces only": ('"joint.hinge.angle" = { column = "theta", sd = 0.004 }', '"actuator.motor.force" = { column = "theta", sd = 0.004 }'),
    "accelerations only": ('"joint.hinge.angle" = { column = "theta", sd = 0.004 }', '"site.tip.acceleration" = { columns = ["theta", "u", "u"], sd = 0.004 }'),
    "a force that nothing drives": ('drive = { "actuator.motor" = { column = "u" } }', "", '"joint.hinge.angle" =', '"joint.hinge.force" = { column = "u" }, "joint.hinge.angle" ='),
    "load friction in tree coordinates": ('"joint.hinge.damping"', '"joint.hinge.load_friction"', "h = 0.01", 'coordinates = "tree"'),
    "a drive with an sd and a lag": ('{ column = "u" }', '{ column = "u", sd = 0.1 }', '"joint.hinge.damping"\nlower = 0.0', '"actuator.motor.time_constant"\ninitial = 0.01\nlower = 0.0'),
    "shadow, h too long": ("h = 0.01", 'name = "shadow"\nh = 2.0'),
    "shadow with an exact start": ("h = 0.01", 'name = "shadow"', "[[run]]\n", '[[run]]\ninitial = { "joint.hinge.angle" = 0.0 }\n'),
    "shadow with forces": ("h = 0.01", 'name = "shadow"', '"joint.hinge.angle" =', '"joint.hinge.force" = { column = "u" }, "joint.hinge.angle" ='),
    "shadow with accelerations": (
        "h = 0.01", 'name = "shadow"', '"joint.hinge.angle" =', '"site.tip.acceleration" = { columns = ["u", "u", "u"] }, "joint.hinge.angle" =',
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_check_refuses_what_fit_refuses(tmp_path: Path, run, what: str) -> None:
    text, changes = swing.EXPERIMENT, list(REFUSED[what])
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new, 1)
    path = swing.write(tmp_path, text)
    code, _, said = run("fit", path, "--quiet")
    assert code == 2 and said.startswith("error: ")
    code, out, found = run("check", path)
    assert code == 2 and "can be fitted" not in out
    assert found == said
