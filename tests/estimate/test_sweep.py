"""Many calculations at once: the same results from processes, threads and one after the other; scripts without a guard; what cannot pass between processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from experiment.swing import MODEL, TRUTH

import calibody as cb
from calibody.estimate import sweep as module

UNKNOWN = {"body.arm.mass": 0.8, "joint.hinge.damping": 0.05}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> cb.Model:
    path = tmp_path_factory.mktemp("swing") / "swing.xml"
    path.write_text(MODEL)
    return cb.load(path)


@pytest.fixture(scope="module")
def runs(model: cb.Model) -> list[cb.Recording]:
    motion = cb.simulate(model.replace(TRUTH), 1.5, 0.005, {"joint.hinge.angle": 1.0})
    noise = np.random.default_rng(0)
    times = motion.time[::2]
    return [
        cb.Recording(
            f"run {k}", [cb.Observation("joint.hinge.angle", times, motion["joint.hinge.angle"][::2] + 0.004 * noise.normal(size=len(times)), sd=0.004)]
        )
        for k in range(3)
    ]


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_cores", lambda: 2)


def test_a_result_goes_to_another_process_and_back(model: cb.Model, runs: list[cb.Recording]) -> None:
    for method in (cb.Transcription(h=0.02), cb.Transcription(h=0.02, coordinates="free", process_noise=0.01), cb.Shadow(h=0.02)):
        result = cb.fit(model, runs[0], UNKNOWN, method=method, report=lambda _: None)
        again = pickle.loads(pickle.dumps(result))
        assert again.parameters == result.parameters and again.predict(runs[1]).rms == result.predict(runs[1]).rms
        if method.name == "transcription":
            np.testing.assert_allclose(again.sd("joint.hinge.angle", [0.5]), result.sd("joint.hinge.angle", [0.5]), rtol=1e-12)


def test_folds_in_processes_threads_and_in_turn_agree(model: cb.Model, runs: list[cb.Recording], monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(1) as threads:
        a = cb.cross_validate(model, runs, UNKNOWN, executor=threads, h=0.02)
    monkeypatch.setattr(module, "_cores", lambda: 1)
    b = cb.cross_validate(model, runs, UNKNOWN, h=0.02)
    monkeypatch.setattr(module, "_cores", lambda: 2)
    c = cb.cross_validate(model, runs, UNKNOWN, h=0.02)
    for other in (b, c):
        assert [f.judged for f in other.folds] == [("run 0",), ("run 1",), ("run 2",)] and other.score == pytest.approx(a.score, rel=1e-9)
        for mine, theirs in zip(other.folds, a.folds, strict=True):
            assert mine.prediction_rms[mine.judged[0]] == pytest.approx(theirs.prediction_rms[theirs.judged[0]], rel=1e-6)
    assert 0.8 < a.score < 1.2


def meet(folder: str, x: int) -> tuple[int, int]:
    """2 x, and this process, once another one has come for a task too."""
    (Path(folder) / str(os.getpid())).touch()
    until = time.monotonic() + 60.0
    while len(os.listdir(folder)) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    return 2 * x, os.getpid()


def test_this_process_and_another_share_the_tasks(two_cores: None, tmp_path: Path) -> None:
    found = module.sweep(meet, [{"folder": str(tmp_path), "x": k} for k in range(4)])
    assert [value for value, _ in found] == [0, 2, 4, 6] and len({pid for _, pid in found}) == 2 and os.getpid() in {pid for _, pid in found}
    assert module.sweep(meet, []) == []


def test_nothing_waits_for_a_process_that_is_not_needed(two_cores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small calculation is done here before another process has begun."""
    begins = Event()
    monkeypatch.setattr(module._Shared, "_elsewhere", lambda self: begins.wait(60.0))
    assert module.sweep(pow, [{"base": 2, "exp": k} for k in range(4)]) == [1, 2, 4, 8] and not begins.is_set()
    begins.set()


def failing(x: int) -> int:
    raise cb.CalibodyError(f"There is no {x}.")


def unsendable(folder: str, x: int) -> object:
    meet(folder, x)
    return lambda: x


def dying(folder: str, x: int) -> int:
    parent = int(Path(folder, "parent").read_text())
    if os.getpid() != parent:
        os._exit(1)
    until = time.monotonic() + 5.0
    while time.monotonic() < until and x == 0:
        time.sleep(0.01)
    return x


def test_errors_arrive_as_they_are(two_cores: None) -> None:
    with pytest.raises(cb.CalibodyError, match=r"There is no 0\."):
        module.sweep(failing, [{"x": k} for k in range(2)])


def test_what_cannot_pass_between_processes_runs_here_and_is_told(two_cores: None, tmp_path: Path) -> None:
    for function in (lambda folder, x: x, unsendable):
        with pytest.warns(RuntimeWarning, match="This runs on one core, because .*; define the function in a file, or give an executor."):
            found = module.sweep(function, [{"folder": str(tmp_path), "x": k} for k in range(2)])
        assert [f() if callable(f) else f for f in found] == [0, 1]


def test_what_a_process_leaves_when_it_dies_is_done_here(two_cores: None, tmp_path: Path) -> None:
    (tmp_path / "parent").write_text(str(os.getpid()))
    with pytest.warns(RuntimeWarning, match="a process died before it was done"):
        assert module.sweep(dying, [{"folder": str(tmp_path), "x": k} for k in range(3)]) == [0, 1, 2]


SCRIPT = """\
import os
import sys
import time
import calibody as cb
from calibody.estimate import sweep as module
module._cores = lambda: 2
def double(x):
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
    while len(os.listdir(sys.argv[1])) < 2:
        time.sleep(0.01)
    return 2 * x, os.getpid()
first = cb.sweep(double, [{"x": k} for k in range(4)])
def shifted(x):
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
    while len(os.listdir(sys.argv[1])) < 3:
        time.sleep(0.01)
    return x + OFFSET, os.getpid()
OFFSET = 10
second = cb.sweep(shifted, [{"x": k} for k in range(4)])
print([v for v, _ in first], [v for v, _ in second], len({p for _, p in first}), len({p for _, p in second}))
"""


@pytest.mark.parametrize("guarded", [False, True])
def test_a_script_needs_no_guard(tmp_path: Path, guarded: bool) -> None:
    """Functions that are defined before their call are found, also after an earlier one; nothing below a guard is done twice."""
    text = SCRIPT
    if guarded:
        calls = [line for line in SCRIPT.splitlines() if line.startswith(("first =", "second =", "print("))]
        text = "\n".join([*(line for line in SCRIPT.splitlines() if line not in calls), 'if __name__ == "__main__":', *(f"    {line}" for line in calls), ""])
    (tmp_path / "script.py").write_text(text)
    (tmp_path / "met").mkdir()
    done = subprocess.run([sys.executable, "-W", "error", "script.py", str(tmp_path / "met")], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 2, 4, 6] [10, 11, 12, 13] 2 2\n", "")
