"""The command line: what it prints, what it writes, and one sentence with the right exit code for every mistake."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calibody as cb
from calibody import cli

MOTOR = """\
<mujoco model="motor">
  <worldbody>
    <body name="rotor">
      <joint name="shaft" type="hinge" axis="0 0 1" range="-36000 36000"/>
      <inertial pos="0 0 0" mass="1" diaginertia="0.1 0.1 0.1"/>
      <site name="rim" pos="0.5 0 0"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="shaft"/></actuator>
</mujoco>
"""
PENDULUM = """\
<mujoco model="pendulum">
  <worldbody>
    <body name="arm">
      <joint name="hinge" type="hinge" axis="0 1 0"/>
      <inertial pos="0 0 -0.3" mass="0.4" diaginertia="0.012 0.012 0.0004"/>
    </body>
  </worldbody>
</mujoco>
"""
WEIGHT, LENGTH = 0.4 * 9.81, 0.3
INERTIA = 0.1
"""kg m^2: a torque of 1 N m turns the rotor with 10 rad/s^2."""


@pytest.fixture
def run(capsys):
    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            cli.main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err or "--debug" in arguments
        return int(caught.value.code or 0), out, err

    return run


@pytest.fixture
def pendulum(tmp_path) -> Path:
    path = tmp_path / "pendulum.xml"
    path.write_text(PENDULUM)
    return path


@pytest.fixture
def motor(tmp_path) -> Path:
    path = tmp_path / "motor.xml"
    path.write_text(MOTOR)
    return path


# -- start -------------------------------------------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy():
    """Which modules are loaded is a gate that does not depend on the machine; the time itself is measured by `make bench`."""
    code = "import sys, calibody.cli; print(sorted({'jax', 'mujoco', 'numpy', 'polars', 'scipy', 'rich'} & {m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [(), ("--help",), ("simulate", "--help"), ("check", "--help"), ("convert", "--help"), ("demo", "--help"), ("fit", "--help"), ("report", "--help")],
)
def test_help(run, arguments):
    code, out, _ = run(*arguments)
    assert code == 0 and out.startswith("Usage: calibody")


def test_version(run):
    assert run("--version") == (0, f"calibody {cb.__version__}\n", "")


def test_python_dash_m():
    done = subprocess.run([sys.executable, "-m", "calibody", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"calibody {cb.__version__}\n"


# -- simulate ----------------------------------------------------------------------------------------------------------------------


def test_simulate_prints_a_table(run, pendulum):
    code, out, err = run("simulate", pendulum, "--duration", 1, "--h", 0.01, "--initial", "joint.hinge.angle=1.0")
    assert (code, err) == (0, "")
    for words in ("simulation of pendulum", "100 of 0.01 s", "energy at the start", "energy drift", "joint.hinge.angle at the end", "time taken"):
        assert words in out


def test_simulate_as_json_agrees_with_python(run, pendulum):
    code, out, _ = run("simulate", pendulum, "--duration", 1, "--h", 0.01, "--initial", "joint.hinge.angle=1.0", "--initial", "joint.hinge.rate=0.5", "--json")
    found = json.loads(out)
    motion = cb.simulate(cb.load(pendulum), duration=1.0, h=0.01, initial={"joint.hinge.angle": 1.0, "joint.hinge.rate": 0.5})
    assert code == 0 and found["steps"] == 100 and found["duration"] == pytest.approx(1.0)
    assert found["final"]["joint.hinge.angle"] == pytest.approx(motion["joint.hinge.angle"][-1], abs=1e-14)
    assert found["energy"]["start"] == pytest.approx(motion.energy[0])
    assert abs(found["energy"]["drift"]) < 1e-3 * np.ptp(WEIGHT * LENGTH * np.cos(motion["joint.hinge.angle"]))


def test_both_coordinates_give_the_same_motion(run, pendulum):
    ends = []
    for coordinates in ("tree", "free"):
        _, out, _ = run("simulate", pendulum, "--duration", 1, "--h", 0.01, "--initial", "joint.hinge.angle=1.0", "--coordinates", coordinates, "--json")
        ends.append(json.loads(out)["final"]["joint.hinge.angle"])
    assert ends[0] == pytest.approx(ends[1], abs=1e-10)


def test_quiet_prints_nothing(run, pendulum):
    assert run("simulate", pendulum, "--duration", 0.1, "--h", 0.01, "--quiet") == (0, "", "")


def test_notes_of_the_model_are_shown(run, motor):
    model = cb.load(motor)
    assert model.notes  # the joint's limits do not act yet
    _, out, _ = run("simulate", motor, "--duration", 0.1, "--h", 0.01)
    assert all(note in out for note in model.notes)
    _, out, _ = run("simulate", motor, "--duration", 0.1, "--h", 0.01, "--json")
    assert set(model.notes) <= set(json.loads(out)["notes"])


def test_a_constant_drive(run, motor):
    _, out, _ = run("simulate", motor, "--duration", 1, "--h", 0.01, "--drive", "actuator.motor=0.5", "--json")
    assert json.loads(out)["final"]["joint.shaft.angle"] == pytest.approx(0.5 * 0.5 / INERTIA, rel=1e-3)  # second order in h


def test_a_recorded_drive_is_held(run, motor, tmp_path):
    table = tmp_path / "drive.csv"
    pl.DataFrame({"t": [0.0, 0.5], "u": [1.0, -1.0]}).write_csv(table)
    _, out, _ = run("simulate", motor, "--duration", 1, "--h", 0.01, "--drive", f"actuator.motor={table}:u", "--json")
    assert json.loads(out)["final"]["joint.shaft.angle"] == pytest.approx(0.25 / INERTIA, rel=1e-3)  # up and down again


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_the_motion_is_written(run, motor, tmp_path, suffix):
    out = tmp_path / "folder" / f"motion{suffix}"
    code, text, _ = run("simulate", motor, "--duration", 0.1, "--h", 0.01, "--initial", "joint.shaft.rate=1", "--out", out)
    assert code == 0 and f"wrote {out}" in text
    table = _read(out)
    np.testing.assert_allclose(table["time"], np.linspace(0.0, 0.1, 11), atol=1e-12)
    np.testing.assert_allclose(table["joint.shaft.angle"], table["time"], rtol=1e-4, atol=1e-9)


def test_chosen_channels_are_shown_and_written(run, motor, tmp_path):
    out = tmp_path / "motion.parquet"
    arguments = ["--duration", 0.1, "--h", 0.01, "--channels", "site.rim.position,joint.shaft.rate", "--channels", "joint.shaft.angle", "--out", out]
    code, text, _ = run("simulate", motor, *arguments)
    columns = ["site.rim.position.x", "site.rim.position.y", "site.rim.position.z", "joint.shaft.rate", "joint.shaft.angle"]
    assert code == 0 and all(f"{c} at the end" in text for c in columns)
    table = _read(out)
    assert list(table) == ["time", *columns]
    np.testing.assert_allclose(table["site.rim.position.x"], 0.5, atol=1e-12)


def _read(path: Path) -> dict[str, np.ndarray]:
    if path.suffix == ".npz":
        return dict(np.load(path))
    frame = pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
    return {name: frame[name].to_numpy() for name in frame.columns}


# -- convert --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".xml", ".urdf"])
def test_convert(run, pendulum, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    code, text, err = run("convert", pendulum, out)
    assert (code, err) == (0, "") and f"wrote {out}" in text
    model = cb.load(out)
    assert model["body.arm.mass"] == pytest.approx(0.4)
    assert model["body.arm.com.z"] == pytest.approx(-LENGTH)


# -- mistakes ----------------------------------------------------------------------------------------------------------------------

MISTAKES = [
    (["fly"], "No such command 'fly'"),
    (["simulate"], "Missing argument 'FILE'"),
    (["simulate", "{model}", "--durations", "3"], "No such option: --durations"),
    (["simulate", "{model}", "--duration", "long"], "'--duration': "),
    (["simulate", "{model}", "--coordinates", "fre"], "'auto', 'tree', 'free'"),
    (["simulate", "{model}", "--out", "motion.txt"], '--out is "motion.txt"; the suffix gives the format, use one of .csv, .parquet, .npz.'),
    (["simulate", "{model}", "--initial", "joint.shaft.angle"], '--initial is "joint.shaft.angle"; give a channel and a value'),
    (["simulate", "{model}", "--initial", "joint.shaft.angle=much"], 'after "=" comes a number, or numbers separated by commas.'),
    (["simulate", "{model}", "--drive", "actuator.motor=full"], 'after "=" comes a number, or file.csv:column.'),
    (["simulate", "{model}", "--drive", "=1"], "give a channel and a value"),
    (["simulate", "{model}", "--drive", "actuator.motor=nothing.csv:u"], 'the file "nothing.csv", which does not exist'),
    (["simulate", "{model}", "--drive", "actuator.motor={table}:v"], 'has no column "v"; it has t, u, gap, word'),
    (["simulate", "{model}", "--drive", "actuator.motor={table}:word"], 'The column "word" of "{table}" is not numeric'),
    (["simulate", "{model}", "--drive", "actuator.motor={table}:gap"], "must hold finite numbers"),
    (["simulate", "{model}", "--drive", "actuator.motor={back}:u"], "t must increase"),
    (["simulate", "{model}", "--drive", "actuator.motor={no_time}:u"], 'has no column "t"'),
    (["simulate", "{model}", "--drive", "actuator.motor={empty}:u"], "cannot be read as a table"),
    (["simulate", "{model}", "--drive", "actuator.mtor=1", "--duration", "0.1"], "motor"),
    (["simulate", "{model}", "--initial", "joint.shft.angle=1", "--duration", "0.1"], "shaft"),
    (["simulate", "{model}", "--channels", "joint.shft.angle", "--duration", "0.1"], "shaft"),
    (["simulate", "{model}", "--duration", "-1"], "duration"),
    (["simulate", "{model}", "--h", "0"], "h"),
    (["simulate", "{model}", "--duration", "nan"], "duration"),
    (["simulate", "nothing.xml"], "nothing.xml"),
    (["simulate", "{empty}"], "empty"),
    (["convert", "{model}"], "Missing argument 'OUT'"),
    (["convert", "{model}", "out.docx"], "out.docx"),
    (["demo", "perpetuum"], "'pendulum'"),
    (["fit"], "Missing argument 'FILE'"),
    (["fit", "nothing.toml"], 'The experiment file "nothing.toml" does not exist'),
    (["report", "nothing"], '"nothing" has no result.json; give the folder that calibody fit wrote'),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=[" ".join(a) for a, _ in MISTAKES])
def test_a_mistake_is_one_sentence_and_exit_code_2(run, motor, tmp_path, monkeypatch, arguments, words):
    tables = {name: tmp_path / f"{name}.csv" for name in ("table", "back", "no_time", "empty")}
    tables["table"].write_text("t,u,gap,word\n0.0,1.0,1.0,a\n0.5,-1.0,,b\n")
    tables["back"].write_text("t,u\n0.5,1.0\n0.0,-1.0\n")
    tables["no_time"].write_text("time,u\n0.5,1.0\n")
    tables["empty"].write_text("")
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*(a.format(model=motor, **tables) for a in arguments))
    assert err.startswith("error: ") and words.format(**tables) in err, err
    assert code == 2
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_written(run, motor, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = run("simulate", motor, "--duration", 0.1, "--h", 0.01, "--out", tmp_path / "file" / "motion.csv")
    assert code == 2 and err.startswith("error: ") and "file" in err


def test_an_interruption_exits_with_130(run, motor, monkeypatch):
    monkeypatch.setattr(cb, "load", _raise(KeyboardInterrupt()), raising=False)
    code, _, err = run("simulate", motor)
    assert (code, err.strip()) == (130, "error: interrupted.")


def test_a_defect_asks_for_a_report(run, motor, monkeypatch):
    monkeypatch.setattr(cb, "load", _raise(RuntimeError("index 3 is out of range\nmore")), raising=False)
    code, _, err = run("simulate", motor)
    assert code == 70
    assert err == "error: calibody failed (RuntimeError: index 3 is out of range); please report this with the output of the same command and --debug.\n"
    code, _, err = run("simulate", motor, "--debug")
    assert code == 70 and "Traceback" in err


def _raise(error: BaseException):
    def load(path: object, contacts: bool = False) -> None:
        raise error

    return load


# -- files of the user -------------------------------------------------------------------------------------------------------------


def test_convert_does_not_write_over_the_model(run, pendulum, tmp_path, monkeypatch):
    """Neither by its name, nor by another spelling, nor through links in either place."""
    (tmp_path / "link.xml").symlink_to(pendulum)
    (tmp_path / "folder").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for given, out in (("pendulum.xml", "pendulum.xml"), ("pendulum.xml", "folder/pendulum.xml"), ("pendulum.xml", "link.xml"), ("link.xml", pendulum)):
        assert run("convert", given, out) == (2, "", f'error: "{out}" was given and would be written over; give another name, or --force.\n')
        assert pendulum.read_text() == PENDULUM and (tmp_path / "link.xml").is_symlink()
    assert run("convert", "pendulum.xml", "pendulum.urdf")[0] == 0


def test_convert_does_not_write_over_what_the_model_includes(run, tmp_path):
    whole, part = tmp_path / "whole.xml", tmp_path / "part.xml"
    part.write_text(PENDULUM)
    whole.write_text('<mujoco><include file="part.xml"/></mujoco>')
    code, _, err = run("convert", whole, part)
    assert code == 2 and "would be written over" in err and part.read_text() == PENDULUM


def test_simulate_does_not_write_over_the_drive(run, motor, tmp_path):
    drive = tmp_path / "u.csv"
    drive.write_text("t,u\n0,1\n1,2\n")
    (tmp_path / "also.csv").symlink_to(drive)
    for out in (drive, tmp_path / "also.csv"):
        code, _, err = run("simulate", motor, "--duration", 0.1, "--drive", f"actuator.motor={drive}:u", "--out", out)
        assert (code, err) == (2, f'error: "{out}" was given and would be written over; give another name to --out.\n')
    assert drive.read_text() == "t,u\n0,1\n1,2\n"


def test_a_demo_does_not_write_over_edited_files(run, tmp_path):
    (tmp_path / "pendulum.toml").write_text("# my own\n")
    code, out, err = run("demo", "pendulum", "--out", tmp_path)
    assert (code, out) == (2, "") and "exists and is not the example as it comes" in err
    assert [p.name for p in tmp_path.iterdir()] == ["pendulum.toml"] and (tmp_path / "pendulum.toml").read_text() == "# my own\n"
    (tmp_path / "pendulum.toml").rename(tmp_path / "pendulum.csv")
    assert run("demo", "pendulum", "--out", tmp_path)[0] == 2 and [p.name for p in tmp_path.iterdir()] == ["pendulum.csv"]
