"""`calibody fit`: exit codes, what it prints, interruptions at any moment, and going on from them."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from experiment.swing import EXPERIMENT, TRUTH, Command, write

import calibody as cb
from calibody import console
from calibody.experiment.folder import Progress


def test_a_fit_from_a_file(run: Command, tmp_path: Path) -> None:
    code, out, err = run("fit", write(tmp_path))
    assert code == 0
    assert "status: converged" in out and "body.arm.mass" in out and f"report: {tmp_path / 'swing-fit' / 'report.html'}" in out
    assert "iteration 1: cost" in err  # no terminal: lines instead of a live table
    saved = cb.open(tmp_path / "swing-fit")
    assert saved.document["command"] == f"calibody fit {tmp_path / 'swing.toml'}"
    assert {"import", "compile", "solve", "total"} <= set(saved.seconds)
    assert (tmp_path / "swing-fit" / "report.html").is_file()


def test_a_file_without_unknowns_gives_the_motion(run: Command, tmp_path: Path) -> None:
    path = write(tmp_path, EXPERIMENT[: EXPERIMENT.index("[[estimate]]")])
    cb.load(tmp_path / "swing.xml").replace(TRUTH).save(tmp_path / "swing.xml")
    code, out, err = run("fit", path)
    assert code == 0 and "status: converged" in out and "most in the motion" in err
    assert "motion and forces determined" in (tmp_path / "swing-fit" / "report.html").read_text()


def test_json_and_quiet(run: Command, tmp_path: Path) -> None:
    code, out, err = run("fit", write(tmp_path), "--json", "--out", tmp_path / "a")
    found = json.loads(out)
    assert (code, err) == (0, "") and found["status"] == "converged" and found["folder"] == str(tmp_path / "a")
    assert run("fit", tmp_path / "swing.toml", "--quiet", "--out", tmp_path / "b") == (0, "", "")
    code, out, _ = run("report", tmp_path / "a", "--json")
    assert code == 0 and json.loads(out)["report"] == str(tmp_path / "a" / "report.html")


def test_a_fit_that_does_not_converge_exits_with_1(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calibody.estimate import meshes as module
    from calibody.solve.gauss_newton import Settings

    monkeypatch.setattr(module, "Settings", lambda **_: Settings(iterations=1))
    code, out, err = run("fit", write(tmp_path))
    assert code == 1 and "error: the fit did not converge: stopped after 1 iterations" in err
    saved = cb.open(tmp_path / "swing-fit")
    assert "status: stopped" in out and not saved.converged
    assert all(e.sd is None and e.sd_naive is None for e in saved.parameters.values()) and not saved.determined
    assert np.isnan(saved.correlation).all() and saved.bars.is_empty() and saved.runs_agree is None
    assert not any("error bar" in note for note in saved.notes)
    monkeypatch.undo()
    code, out, _ = run("fit", tmp_path / "swing.toml", "--resume")
    assert code == 0 and "status: converged" in out


def test_a_model_that_does_not_describe_the_data_exits_with_1(run: Command, tmp_path: Path) -> None:
    """Residuals a hundred times the stated noise: the fit converges, and nobody is told that anything was calibrated."""
    code, out, err = run("fit", write(tmp_path, EXPERIMENT.replace("sd = 0.004", "sd = 4e-5")))
    assert code == 1 and "status: converged" in out
    assert "error: Not calibrated: the model does not describe these data (residuals " in err


def test_a_fit_that_lacks_something_exits_with_1(run: Command, tmp_path: Path) -> None:
    """The model's damping is wrong and held, and the mass makes up for it."""
    text = EXPERIMENT.replace('[[estimate]]\nparameter = "joint.hinge.damping"\nlower = 0.0\nupper = 1.0\n', "").replace("sd = 0.004", "sd = 0.1")
    code, out, err = run("fit", write(tmp_path, text))
    assert code == 1 and "status: converged" in out
    assert "error: Not calibrated yet: something is missing that moves estimates by more than they scatter." in err


def test_validation_is_asked_for_or_not(run: Command, tmp_path: Path) -> None:
    code, out, _ = run("fit", write(tmp_path), "--no-validate")
    assert code == 0 and "predicted without it" not in out and cb.open(tmp_path / "swing-fit").validation is None
    code, out, _ = run("fit", tmp_path / "swing.toml", "--validate")
    assert code == 0 and "swing: predicted without it to " in out
    assert cb.open(tmp_path / "swing-fit").document["command"].endswith("--validate")
    code, _, err = run("fit", write(tmp_path, EXPERIMENT.replace("h = 0.01", 'name = "shadow"')), "--validate")
    assert code == 2 and 'Validation needs method = "transcription"' in err


def test_extend_adds_what_the_model_lacks(run: Command, tmp_path: Path) -> None:
    """The model's damping is wrong and held: it is named, added, and stands in the folder's own experiment."""
    text = EXPERIMENT.replace('[[estimate]]\nparameter = "joint.hinge.damping"\nlower = 0.0\nupper = 1.0\n', "")
    code, out, _ = run("fit", write(tmp_path, text), "--extend")
    found = cb.open(tmp_path / "swing-fit")
    assert code == 0 and "joint.hinge.damping (viscous friction of joint.hinge) was added to the unknowns" in out
    e = found.parameters["joint.hinge.damping"]
    assert e.sd is not None and abs(e.value - TRUTH["joint.hinge.damping"]) < 3.5 * e.sd and not found.lacks
    assert 'parameter = "joint.hinge.damping"' in (tmp_path / "swing-fit" / "experiment.toml").read_text()


def test_the_shadow_method_from_a_file(run: Command, tmp_path: Path) -> None:
    """The engine's step and compliance are given; the report is made like any other."""
    method = 'name = "shadow"\nkappa = 50.0\nh = 0.02\nformulation = "lifted"\nstepper = { compliance = 1e-6, angular_compliance = 1e-6 }\n'
    text = re.sub(r"(?s)\[method\].*", "[method]\n" + method, EXPERIMENT)
    code, out, err = run("fit", write(tmp_path, text))
    assert code == 0 and "status: converged" in out, err
    saved = cb.open(tmp_path / "swing-fit")
    assert saved.mesh.h == 0.02 and (tmp_path / "swing-fit" / "report.html").exists()
    for wrong, word in (
        ("kappa = -1.0", "weight above zero"),
        ("stepper = { complience = 1.0 }", '"compliance"'),
        ("stepper = { compliance = 0.0 }", "above zero"),
    ):
        code, _, err = run("fit", write(tmp_path, re.sub(r"(?s)\[method\].*", f'[method]\nname = "shadow"\n{wrong}\n', EXPERIMENT)))
        assert code == 2 and word in err


def test_ctrl_c_leaves_the_best_point_and_resume_goes_on(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path)
    run("fit", file, "--quiet", "--out", tmp_path / "whole")

    def interrupted(self: object, iteration: object, progress: Progress) -> None:
        if len(progress.history) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(console.Progress, "__call__", interrupted)
    code, _, err = run("fit", file)
    assert code == 130 and f"the best point so far is in {tmp_path / 'swing-fit'}, go on with: calibody fit" in err
    stopped = cb.open(tmp_path / "swing-fit")
    assert not stopped.finished and stopped.iterations == 2 and stopped.parameters["body.arm.mass"].value != 0.8
    monkeypatch.undo()
    code, out, _ = run("fit", file, "--resume")
    assert code == 0 and "status: converged" in out
    same(tmp_path / "swing-fit", tmp_path / "whole")
    assert cb.open(tmp_path / "swing-fit").parameters["body.arm.mass"].initial == 0.8  # the user's, not where it went on from
    code, out, err = run("fit", file, "--resume")  # nothing left to do
    assert code == 0 and "iteration" not in err


TEN = EXPERIMENT.replace('"body.arm.mass"', '"body.arm.inertia"')


@pytest.mark.parametrize("end", ["interrupted", "not converged"])
def test_all_ten_inertial_numbers_are_kept_as_reported(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    from calibody.estimate import meshes as module
    from calibody.solve.gauss_newton import Settings

    file, began = write(tmp_path, TEN), []

    def interrupted(self: object, iteration: object, progress: Progress) -> None:
        if len(progress.history) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if end == "interrupted":
            patch.setattr(console.Progress, "__call__", interrupted)
        else:
            patch.setattr(module, "Settings", lambda **_: Settings(iterations=2))
        assert run("fit", file)[0] == (130 if end == "interrupted" else 1)
    stopped = cb.open(tmp_path / "swing-fit").parameters
    assert stopped["body.arm.mass"].initial == pytest.approx(0.8) and stopped["body.arm.com.z"].initial == pytest.approx(-0.3)
    assert stopped["body.arm.mass"].value > 0.0 and stopped["body.arm.com.z"].value < -0.1  # in the chart both begin at zero
    write_first = Progress.begin
    monkeypatch.setattr(Progress, "begin", lambda self, start: (began.append(start), write_first(self, start)))
    code, out, _ = run("fit", file, "--resume")
    assert code == 0 and "status: converged" in out
    assert began == [{name: e.value for name, e in stopped.items()}]
    assert run("fit", file, "--quiet", "--out", tmp_path / "whole")[0] == 0
    a, b = cb.open(tmp_path / "swing-fit"), cb.open(tmp_path / "whole")
    assert a.document["chi2"] == pytest.approx(b.document["chi2"], rel=1e-6)
    damping = b.parameters["joint.hinge.damping"]
    assert damping.sd is not None and abs(a.parameters["joint.hinge.damping"].value - damping.value) < 0.01 * damping.sd
    truth = {"body.arm.moment.x": 0.0, "body.arm.moment.z": -0.12, "body.arm.origin.yy": 0.012 + 0.4 * 0.3**2}  # what a hinge shows of ten numbers
    assert [d.expression for d in b.determined] == list(truth)
    for x, y in zip(a.determined, b.determined, strict=True):
        assert abs(y.value - truth[y.expression]) < 4.0 * y.sd
        assert abs(x.value - y.value) < 0.01 * y.sd, (x, y)
    last = a.document["history"][-1]["theta"]
    assert last == pytest.approx([e.value for e in a.parameters.values()], rel=0.01, abs=1e-6)


def test_resume_refuses_another_experiment(run: Command, tmp_path: Path) -> None:
    file = write(tmp_path)
    code, _, err = run("fit", file, "--resume")
    assert code == 2 and "has no result.json" in err
    assert run("fit", file, "--quiet")[0] == 0
    file.write_text(EXPERIMENT.replace("joint.hinge.damping", "body.arm.inertia.yy"))
    code, _, err = run("fit", file, "--resume")
    assert code == 2 and "was fitted with other unknowns (body.arm.inertia.yy differs)" in err
    file.write_text(EXPERIMENT)
    (tmp_path / "swing.csv").write_text((tmp_path / "swing.csv").read_text().replace("theta", "theta ", 1).replace("theta ", "theta", 1) + "3.01,0.0,0.0\n")
    code, _, err = run("fit", file, "--resume")
    assert code == 2 and 'was fitted with other data (the run "swing" differs)' in err


def test_simulate_an_experiment(run: Command, tmp_path: Path) -> None:
    code, out, _ = run("simulate", write(tmp_path), "--json")
    found = json.loads(out)["runs"]["swing"]["joint.hinge.angle"]
    assert code == 0 and found["rms"] > 0.01
    code, out, _ = run("simulate", tmp_path / "swing.toml")
    assert code == 0 and "swing: simulated from its start with the initial values" in out


def same(folder: Path, whole: Path) -> None:
    a, b = cb.open(folder), cb.open(whole)
    assert a.converged and b.converged
    for path in TRUTH:
        sd = b.parameters[path].sd
        assert sd is not None and abs(a.parameters[path].value - b.parameters[path].value) < 0.01 * sd


# -- kill -9 -----------------------------------------------------------------------------------------------------------------------------


def killed(file: Path, folder: Path, moment: Callable[[], bool]) -> None:
    """A fit in a process of its own that is killed when `moment` comes (or has ended by then)."""
    process = subprocess.Popen([sys.executable, "-m", "calibody", "fit", str(file), "--out", str(folder), "--quiet"])
    try:
        while process.poll() is None and not moment():
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()


def goes_on(run: Command, file: Path, folder: Path, whole: Path) -> None:
    if (folder / "result.json").exists():
        cb.open(folder)
        assert run("fit", file, "--out", folder, "--resume", "--quiet")[0] == 0
    else:  # killed before there was anything to keep
        assert run("fit", file, "--out", folder, "--quiet")[0] == 0
    same(folder, whole)


@pytest.mark.parametrize("iterations", [0, 3])
def test_a_killed_fit_goes_on(run: Command, tmp_path: Path, iterations: int) -> None:
    file, folder = write(tmp_path), tmp_path / "killed"

    def moment() -> bool:
        return (folder / "result.json").exists() and cb.open(folder).iterations >= iterations

    killed(file, folder, moment)
    assert not cb.open(folder).finished
    assert run("fit", file, "--quiet", "--out", tmp_path / "whole")[0] == 0
    goes_on(run, file, folder, tmp_path / "whole")


@pytest.mark.slow
def test_twenty_random_kills(run: Command, tmp_path: Path) -> None:
    file, chance = write(tmp_path), random.Random(5)
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "calibody", "fit", str(file), "--out", str(tmp_path / "whole"), "--quiet"], check=True)
    span = time.monotonic() - began
    for k in range(20):
        end = time.monotonic() + chance.uniform(0.3, 1.0) * span
        killed(file, tmp_path / f"killed{k}", lambda end=end: time.monotonic() > end)
        goes_on(run, file, tmp_path / f"killed{k}", tmp_path / "whole")


# -- files of the user -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", [".", "../{name}", "link"])
def test_a_fit_does_not_write_over_its_model(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    write(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    folder = out.format(name=tmp_path.name)
    code, _, err = run("fit", "swing.toml", "--out", folder)
    assert code == 2 and err == f'error: "{Path(folder) / "swing.xml"}" was given and would be written over; give another folder for the results.\n'
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before


def test_a_fit_does_not_write_over_recordings_or_other_files(run: Command, tmp_path: Path) -> None:
    """A recording called as a table of the run folder, a link to the model in another folder, an experiment file that was not given."""
    write(tmp_path / "a")
    out = tmp_path / "out"
    out.mkdir()
    for make, word in (
        (lambda: (out / "swing.xml").symlink_to(tmp_path / "a" / "swing.xml"), "was given and would be written over"),
        (lambda: (out / "experiment.toml").write_text("# mine"), "exists and was not written by a fit"),
        (lambda: (out / "channels.parquet").write_text("mine"), "exists and was not written by a fit"),
    ):
        make()
        code, _, err = run("fit", tmp_path / "a" / "swing.toml", "--out", out)
        assert code == 2 and word in err and not (out / "result.json").exists()
        for path in out.iterdir():
            path.unlink()


def test_a_report_from_python_does_not_write_over_the_model(tmp_path: Path) -> None:
    from calibody import experiment

    given = experiment.load(write(tmp_path))
    result = cb.fit(given.model(), given.runs(), given.estimate(), h=0.02)
    with pytest.raises(cb.CalibodyError, match="would be written over"):
        result.report(tmp_path)
    assert not (tmp_path / "result.json").exists()
