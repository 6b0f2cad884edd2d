"""Nothing of the user's is overwritten and nothing that was computed is lost: locks, interruptions, full disks, odd files and names."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from experiment.swing import EXPERIMENT, TRUTH, Command, write

import calibody as cb
from calibody.errors import CalibodyError
from calibody.estimate import meshes
from calibody.experiment import atomic, checkpoint, load
from calibody.experiment.check import check
from calibody.experiment.lock import FILE, locked
from calibody.experiment.possible import nearest
from calibody.spatial.inertia import smallest_principal_second_moment

REFINED = EXPERIMENT.replace("[method]\nh = 0.01\n", "")
"""The mesh is found: several are solved."""


# -- locks -------------------------------------------------------------------------------------------------------------------------------


def test_two_fits_into_one_folder(run: Command, tmp_path: Path) -> None:
    """The second is told who is there; a lock whose owner is gone locks nothing, and the first ends without a trace of its own."""
    file = write(tmp_path)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "swing-fit")], stdout=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout is not None and first.stdout.readline() == "held\n"
            code, _, err = run("fit", file)
            assert code == 2 and f'Another fit is writing into "{tmp_path / "swing-fit"}" (process {first.pid} on ' in err and "give another folder" in err
            assert not (tmp_path / "swing-fit" / "result.json").exists()
        finally:
            first.kill()
    assert (tmp_path / "swing-fit" / FILE).exists()  # left behind by what was killed
    assert run("fit", file, "--quiet")[0] == 0
    assert not (tmp_path / "swing-fit" / FILE).exists() and not (tmp_path / "swing-fit" / checkpoint.FILE).exists()


HOLD = """
import sys, time
from pathlib import Path
from calibody.experiment.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_is_given_back(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), locked(tmp_path):
        raise RuntimeError
    with locked(tmp_path):
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(_refused(tmp_path)))
        thread.start()
        thread.join()
        assert f"process {os.getpid()}" in found[0]
    with locked(tmp_path):
        pass


def _refused(folder: Path) -> str:
    try:
        with locked(folder):
            return ""
    except CalibodyError as error:
        return str(error)


# -- interruptions -----------------------------------------------------------------------------------------------------------------------


def test_ctrl_c_at_ten_moments(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At ten of the moments at which something is written, from the first to the last file: `--resume` comes to the same answer, and no mesh that was solved is solved again."""
    file = write(tmp_path, REFINED)
    written, solved = _watched(monkeypatch)
    assert run("fit", file, "--quiet", "--out", tmp_path / "whole")[0] == 0
    whole, total, every = cb.open(tmp_path / "whole"), len(written), list(solved)
    assert len(every) >= 3
    for k, moment in enumerate(np.linspace(1, total - 1, 10).round().astype(int)):
        folder = tmp_path / f"stopped{k}"
        written.clear()
        solved.clear()
        with monkeypatch.context() as patch:
            before = atomic.write_bytes

            def stop(path: Path, content: bytes, moment: int = int(moment), before: Callable[[Path, bytes], Path] = before) -> Path:
                if len(written) >= moment:
                    raise KeyboardInterrupt
                return before(path, content)

            patch.setattr(atomic, "write_bytes", stop)
            assert run("fit", file, "--quiet", "--out", folder)[0] == 130
        kept = solved[: sum(name == checkpoint.FILE for name in written)]
        again = list(solved)
        solved.clear()
        assert run("fit", file, "--quiet", "--out", folder, *(["--resume"] if (folder / "result.json").exists() else []))[0] == 0
        assert solved == every[len(kept) :], (moment, again)
        found = cb.open(folder)
        assert found.converged and found.mesh == whole.mesh
        assert (folder / "report.html").is_file() and not (folder / checkpoint.FILE).exists()
        for path in TRUTH:
            sd = whole.parameters[path].sd
            assert sd is not None and abs(found.parameters[path].value - whole.parameters[path].value) < 0.01 * sd
            assert found.parameters[path].sd == pytest.approx(sd, rel=1e-3)


def test_a_real_ctrl_c(tmp_path: Path) -> None:
    """The signal, sent to the command as soon as it says something: one sentence, exit code 130, and `--resume` ends the fit. On a busy machine the fit may be over before the signal is sent: then once more."""
    tries = (_interrupted(tmp_path / str(attempt)) for attempt in range(5))
    folder, command, code, err = next(found for found in tries if found[2])
    assert code == 130 and "Traceback" not in err and "--resume" in err.strip().splitlines()[-1]
    done = subprocess.run([*command, "--resume", "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0 and cb.open(folder / "swing-fit").converged, done.stderr


def _interrupted(folder: Path) -> tuple[Path, list[str], int, str]:
    """A fit in a new folder that is sent the signal: its command, exit code and what it said."""
    folder.mkdir()
    command = [sys.executable, "-m", "calibody", "fit", str(write(folder, REFINED))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as fit:
        assert fit.stderr is not None and fit.stderr.readline().startswith("iteration 1: ")
        fit.send_signal(signal.SIGINT)
        _, err = fit.communicate(timeout=60)
    return folder, command, fit.returncode, err


def _watched(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[float]]:
    """Names of the files as they are written, and steps of the meshes as they are begun."""
    written: list[str] = []
    solved: list[float] = []
    write_bytes, solve = atomic.write_bytes, meshes.Meshes.solve

    def noted(path: Path, content: bytes) -> Path:
        written.append(path.name)
        return write_bytes(path, content)

    def begun(self: meshes.Meshes, h: float, *arguments: object) -> meshes.Level:
        if self.checkpoint is not None:  # not the motion of a prediction
            solved.append(round(h, 12))
        return solve(self, h, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(atomic, "write_bytes", noted)
    monkeypatch.setattr(meshes.Meshes, "solve", begun)
    return written, solved


def test_solved_meshes_of_another_fit_are_not_taken(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another method since then, and a file that names what is no value: both are solved from the beginning."""
    file = write(tmp_path, REFINED)
    _, solved = _watched(monkeypatch)
    kept = checkpoint.Meshes.keep

    def stop(self: checkpoint.Meshes, stage: str, state: object) -> None:
        kept(self, stage, state)
        raise KeyboardInterrupt

    for change in ("method", "file"):
        folder = tmp_path / change
        file.write_text(REFINED)
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint.Meshes, "keep", stop)
            assert run("fit", file, "--quiet", "--out", folder)[0] == 130
        assert (folder / checkpoint.FILE).is_file()
        if change == "method":
            file.write_text(REFINED + "[method]\nrobust = true\n")
        else:
            (folder / checkpoint.FILE).write_bytes(b"cos\nsystem\n(S'touch " + str(folder / "run").encode() + b"'\ntR.")
        solved.clear()
        assert run("fit", file, "--quiet", "--out", folder, "--resume")[0] == 0
        assert len(solved) > 1 and not (folder / "run").exists()


# -- disks and folders -------------------------------------------------------------------------------------------------------------------


def test_a_full_disk(tmp_path: Path) -> None:
    """Files of at most 20 kB: one sentence, exit code 2, and what was there before is whole."""
    file = write(tmp_path)
    command = [sys.executable, "-m", "calibody", "fit", str(file), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)))
    assert done.returncode == 2 and "cannot be written (File too large); check the folder, its permissions and the space left." in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not cb.open(tmp_path / "swing-fit").finished and not list((tmp_path / "swing-fit").glob("*.part"))
    assert subprocess.run([*command, "--resume"], capture_output=True).returncode == 0
    assert cb.open(tmp_path / "swing-fit").converged


def test_a_folder_that_cannot_be_written(run: Command, tmp_path: Path) -> None:
    """Root writes everywhere but where nothing can be written: then a place in /proc."""
    file = write(tmp_path)
    if os.geteuid() == 0:
        if not os.path.isdir("/proc/self"):
            pytest.skip("root may write everywhere here, and there is no /proc")
        folder = Path("/proc/self/calibrated")
    else:
        folder = tmp_path / "closed" / "fit"
        folder.parent.mkdir(mode=0o555)
    code, _, err = run("fit", file, "--out", folder)
    assert code == 2 and f'The folder "{folder}" cannot be written (' in err and err.count("\n") == 1


@pytest.mark.parametrize("name", ["mit Leerzeichen", "größe θ 測定", "a'b", "50 %"])
def test_names_with_spaces_and_other_letters(run: Command, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    file = write(folder, EXPERIMENT.replace("swing.csv", f"{name}.csv").replace("swing.xml", f"{name}.xml"))
    (folder / "swing.csv").rename(folder / f"{name}.csv")
    (folder / "swing.xml").rename(folder / f"{name}.xml")
    file = file.rename(folder / f"{name}.toml")
    code, _, err = run("fit", file, "--no-validate")
    assert code == 0, err
    found = cb.open(folder / f"{name}-fit")
    assert found.model["body.arm.mass"] == found.parameters["body.arm.mass"].value and list(found.document["data_sha256"]) == [name]
    assert name in (folder / f"{name}-fit" / "report.html").read_text()


def test_files_through_links(run: Command, tmp_path: Path) -> None:
    """Links to the model, the recording, the experiment and the folder are followed; what they point to is never written over."""
    write(tmp_path / "real")
    (tmp_path / "linked").mkdir()
    for name in ("swing.xml", "swing.csv", "swing.toml"):
        (tmp_path / "linked" / name).symlink_to(tmp_path / "real" / name)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "linked" / "out").symlink_to(tmp_path / "elsewhere")
    before = {p.name: p.read_bytes() for p in (tmp_path / "real").iterdir()}
    assert run("fit", tmp_path / "linked" / "swing.toml", "--out", tmp_path / "linked" / "out", "--quiet", "--no-validate")[0] == 0
    assert cb.open(tmp_path / "elsewhere").converged and (tmp_path / "linked" / "out").is_symlink()
    assert {p.name: p.read_bytes() for p in (tmp_path / "real").iterdir()} == before
    code, _, err = run("fit", tmp_path / "linked" / "swing.toml", "--out", tmp_path / "real")
    assert code == 2 and "would be written over" in err


# -- what is given -----------------------------------------------------------------------------------------------------------------------


def test_convert_asks_before_it_writes_over(run: Command, tmp_path: Path) -> None:
    write(tmp_path)
    model, text = tmp_path / "swing.xml", (tmp_path / "swing.xml").read_text()
    code, _, err = run("convert", model, model)
    assert code == 2 and "or --force" in err and model.read_text() == text
    assert run("convert", model, tmp_path / "other.xml")[0] == 0
    code, _, err = run("convert", model, tmp_path / "other.xml")
    assert code == 2 and "exists; give another name, or --force" in err
    assert run("convert", model, tmp_path / "other.xml", "--force")[0] == 0
    assert run("convert", model, model, "--force")[0] == 0 and cb.load(model)["body.arm.mass"] == 0.8


@pytest.mark.parametrize("what", ["data", "model", "experiment"])
def test_pipes_are_refused_and_not_waited_for(run: Command, tmp_path: Path, what: str) -> None:
    file = write(tmp_path)
    path = {"data": tmp_path / "swing.csv", "model": tmp_path / "swing.xml", "experiment": file}[what]
    path.unlink()
    os.mkfifo(path)
    for command in ("check", "fit"):
        code, _, err = run(command, file)
        assert code == 2 and f'"{path}" is a pipe or a device, not a file' in err and err.count("\n") == 1


@pytest.mark.parametrize("name", ["swing.csv", "swing"])
def test_folders_as_data_are_refused(run: Command, tmp_path: Path, name: str) -> None:
    file = write(tmp_path, EXPERIMENT.replace("swing.csv", name))
    (tmp_path / "swing.csv").unlink()
    (tmp_path / name).mkdir()
    for command in ("check", "fit"):
        code, _, err = run(command, file)
        assert code == 2 and "is a folder, and no ROS 2 bag" in err and err.count("\n") == 1


def test_a_gap_in_a_drive_is_said(run: Command, tmp_path: Path) -> None:
    file = write(tmp_path)
    lines = (tmp_path / "swing.csv").read_text().split("\n")
    lines[101:131] = [line.rpartition(",")[0] + "," for line in lines[101:131]]
    (tmp_path / "swing.csv").write_text("\n".join(lines))
    said = 'The drive "actuator.motor" has 30 samples without a value, the longest gap 0.31 s after 0.99 s; the last value is held across what is missing.'
    code, out, _ = run("check", file)
    assert code == 0 and f"warning: {said}" in out
    run("fit", file, "--quiet", "--no-validate")
    assert said in cb.open(tmp_path / "swing-fit").notes


SETTINGS = [
    ("h = 0.01", 'coordinates = "free"'),
    ("h = 0.01", 'process_noise = { "joint.hnge" = 0.1 }'),
    ("h = 0.01", "process_noise = 0.01"),
    ("h = 0.01", "h = 2.0"),
    ("h = 0.01", "robust = true"),
    ("h = 0.01", 'name = "shadow"\nh = 0.01'),
    ("h = 0.01", 'name = "shadow"\nh = 5.0'),
    ('"body.arm.mass"', '"joint.hinge.compliance"'),
    ('"body.arm.mass"', '"sensor.x.bias"'),
    ('"body.arm.mass"', '"joint.hinge.angle.delay"'),
    ('"joint.hinge.angle" =', '"joint.hinge.orientation" ='),
    ('"actuator.motor" =', '"joint.hinge.angle" ='),
    ("sd = 0.004", "sd = 0.004, valid = [5.0, 6.0]"),
    ("[[estimate]]", "[[payload]]\nframe = 'nowhere'\nmass = 1.0\n[[estimate]]"),
    ("observe =", 'initial = { "joint.hinge.angle" = 0.0 }\nobserve ='),
]


@pytest.mark.parametrize("case", SETTINGS, ids=range(len(SETTINGS)))
def test_check_and_fit_agree(tmp_path: Path, case: tuple[str, str]) -> None:
    """What one refuses the other refuses, in the same words."""
    old, new = case
    experiment = load(write(tmp_path, EXPERIMENT.replace(old, new, 1)))
    errors = [f.sentence for f in check(experiment).findings if f.level == "error"]
    try:
        cb.fit(experiment.model(), experiment.runs(), experiment.estimate(), method=experiment.method)
    except CalibodyError as error:
        assert any(e.endswith(str(error)) for e in errors), (error, errors)  # with its place in the file, or without
    else:
        assert not errors


# -- the calibrated model ----------------------------------------------------------------------------------------------------------------


def test_a_planar_link_has_a_calibrated_model(run: Command, tmp_path: Path) -> None:
    """Only the moment about the hinge is told; the others follow as little as they must, and it is said."""
    text = EXPERIMENT.replace('"body.arm.mass"', '"body.arm.inertia.yy"')
    file = write(tmp_path, text)
    model = (tmp_path / "swing.xml").read_text()
    (tmp_path / "swing.xml").write_text(model.replace('mass="0.8"', 'mass="0.4"').replace("0.012 0.012 0.0004", "0.003 0.003 0.0004"))
    run("fit", file, "--quiet", "--no-validate")
    found = cb.open(tmp_path / "swing-fit")
    estimate = found.parameters["body.arm.inertia.yy"].value
    assert estimate > 0.0034, "more than the two others together"
    assert found.model["body.arm.inertia.yy"] == pytest.approx(estimate, rel=1e-9)
    assert found.model["body.arm.inertia.xx"] + found.model["body.arm.inertia.zz"] >= estimate * (1 - 1e-9)
    assert found.model["body.arm.inertia.xx"] - 0.003 == pytest.approx(found.model["body.arm.inertia.zz"] - 0.0004, rel=1e-3)
    assert any("No body has the moments of body.arm as estimated" in note and "xx from 0.003 to" in note for note in found.notes)
    assert json.loads((tmp_path / "swing-fit" / "result.json").read_text())["model"]["file"] == "swing.xml"


def test_moments_are_moved_the_least() -> None:
    """Against random possible inertias with the same fixed numbers: none is nearer."""
    chance = np.random.default_rng(0)
    for _ in range(5):
        given, fixed = chance.normal(size=6), chance.random(6) < 0.3
        given[:3] = np.abs(given[:3]) + 0.2
        found = nearest(given, fixed)
        if smallest_principal_second_moment(tuple(found))[0] < -1e-9:
            continue  # no body has the fixed ones
        np.testing.assert_allclose(found[fixed], given[fixed], atol=1e-9)
        for _ in range(300):
            other = found + np.where(fixed, 0.0, 0.05 * chance.normal(size=6))
            if smallest_principal_second_moment(tuple(other))[0] >= 0.0:
                assert _distance(other, given) > _distance(found, given) - 1e-5


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Of the second moments of mass."""
    d = a - b
    trace = d[:3].sum()
    return float(np.sqrt(((trace / 2 - d[:3]) ** 2).sum() + 2.0 * (d[3:] ** 2).sum()))
