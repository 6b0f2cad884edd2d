"""A plugin that keeps the name of the test that each process is in, for the case that the process dies or is stopped (`.ci/limited`).

The folder `RUNNING_TESTS` has a file per process with the test's name while that runs; what is left there afterwards did not end.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    folder = os.environ.get("RUNNING_TESTS")
    if folder is None:
        return (yield)
    file = Path(folder) / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}"
    file.write_text(item.nodeid + "\n")
    done = yield
    file.unlink(missing_ok=True)
    return done
