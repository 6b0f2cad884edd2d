"""Continuous integration says in which test it died, also where a process is killed or the time is over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = """\
import os, signal, time
def test_fine():
    pass
def test_killed():
    os.kill(os.getpid(), signal.SIGKILL)
def test_endless():
    time.sleep(1000)
"""


def _limited(folder: Path, seconds: float, *arguments: str) -> tuple[int, str, str]:
    (folder / "test_them.py").write_text(TESTS)
    (folder / "conftest.py").write_text('pytest_plugins = ["running"]\n')
    command = [str(ROOT / ".ci" / "limited"), str(seconds), sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(folder), *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_a_process_that_is_killed_is_named_with_its_test(tmp_path: Path) -> None:
    code, _, err = _limited(tmp_path, 120, "-k", "fine or killed")
    assert code == 137 and "error: did not end: test_them.py::test_killed" in err
    code, out, err = _limited(tmp_path, 120, "-k", "fine or killed", "-n", "1", "--max-worker-restart", "0")
    assert code == 1 and "test_killed" in out and "1 passed" in out and "error: did not end: test_them.py::test_killed" in err


def test_when_the_time_is_over_the_test_is_named_and_the_summary_printed(tmp_path: Path) -> None:
    code, out, err = _limited(tmp_path, 12, "-k", "fine or endless")
    assert code == 124 and "1 passed" in out
    assert "error: did not end: test_them.py::test_endless" in err and "error: stopped after 12 s" in err


def test_all_is_silent_where_all_is_well(tmp_path: Path) -> None:
    code, out, err = _limited(tmp_path, 120, "-k", "fine")
    assert (code, err) == (0, "") and "1 passed" in out
