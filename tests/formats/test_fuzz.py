"""Damaged files: whatever is cut, doubled or replaced, the answer is a model or one sentence, never another exception."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest
from hypothesis import given, settings, strategies as st

pytest.importorskip("mujoco", reason="MuJoCo's compiler reads the files")

from formats import damaged
from formats.models import RICH, URDF

WORDS = st.sampled_from(
    ["nan", "inf", "-1", "1e400", "", "x", "<", "&", '"', "0 0", "name='a' name='b'", "<body>", "</body>", "<joint/>", "--", "<!--", "\u00e9", "\0"]
)


SECONDS = 20.0
"""Longest time one file may take."""


class Reader:
    """Reads files in a process of its own: a compiler that does not come back fails one test instead of stopping them all.

    Once in some thousand files MuJoCo's compiler spins for ever on one that it reads at once the next time, so a second process has to agree.
    """

    def __init__(self) -> None:
        self.pool = self._started()

    @staticmethod
    def _started() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn"))

    def __call__(self, content: bytes, suffix: str) -> str:
        for _ in range(2):
            try:
                return self.pool.submit(damaged.outcome, content, suffix).result(timeout=SECONDS)
            except TimeoutError:
                self.stop()
                self.pool = self._started()
        raise AssertionError(f"reading did not end within {SECONDS:g} s, twice")

    def stop(self) -> None:
        for process in list((self.pool._processes or {}).values()):
            process.kill()
        self.pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture(scope="module")
def outcome() -> Iterator[Callable[[bytes, str], str]]:
    reader = Reader()
    yield reader
    reader.stop()


@pytest.mark.parametrize(("text", "suffix"), [(RICH, ".xml"), (URDF, ".urdf")], ids=["mjcf", "urdf"])
@settings(max_examples=150)
@given(data=st.data())
def test_damaged_text(outcome: Callable[[bytes, str], str], text: str, suffix: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        i = data.draw(st.integers(0, len(text)))
        j = data.draw(st.integers(i, min(len(text), i + 60)))
        kind = data.draw(st.sampled_from(["cut", "delete", "double", "insert"]))
        if kind == "cut":
            text = text[:i]
        elif kind == "delete":
            text = text[:i] + text[j:]
        elif kind == "double":
            text = text[:j] + text[i:j] + text[j:]
        else:
            text = text[:i] + data.draw(WORDS) + text[j:]
    outcome(text.encode("utf-8"), suffix)


@pytest.mark.parametrize(("text", "suffix"), [(RICH, ".xml"), (URDF, ".urdf")], ids=["mjcf", "urdf"])
@settings(max_examples=150)
@given(data=st.data())
def test_damaged_numbers(outcome: Callable[[bytes, str], str], text: str, suffix: str, data: st.DataObject) -> None:
    """Well-formed files with one attribute replaced: the compiler and the model see nonsense, the user a sentence."""
    import re

    values = list(re.finditer(r"=\"([^\"]*)\"", text))
    match = data.draw(st.sampled_from(values))
    word = data.draw(
        st.sampled_from(
            ["nan", "inf", "-inf", "0", "-1", "1e308", "1e-320", "nan nan nan", "0 0 0", "0 0 0 0", "", "world", "base", "a.b", "true", "1 2 3 4 5 6 7"]
        )
    )
    outcome((text[: match.start(1)] + word + text[match.end(1) :]).encode("utf-8"), suffix)


@settings(max_examples=100)
@given(content=st.binary(max_size=200))
def test_noise(outcome: Callable[[bytes, str], str], content: bytes) -> None:
    assert outcome(content, ".xml") != "read"
