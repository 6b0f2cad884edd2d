"""Damaged recordings: whatever is cut, doubled or replaced, the answer is a recording or one sentence, never another exception."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import given, settings, strategies as st

from calibody.errors import CalibodyError
from calibody.recording.readers import read
from calibody.recording.recording import Recording

ROWS = 12
T = np.arange(ROWS) * 0.1
CSV = "t,x,u\n" + "".join(f"{t:.3f},{np.sin(t):.6f},{np.cos(t):.6f}\n" for t in T)
BITS = st.sampled_from(
    ["nan", "inf", "-1", "1e400", "", "x", ",", ";", "\t", '"', '""', "\n", "\r", "\n\n", "#", " ", "\0", "\ufeff", "é", "1,5", "0.1.2", "t", "--", "1e", "0x1"]
)


def outcome(content: bytes, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("run" + suffix)
        path.write_bytes(content)
        try:
            run = read(path, observe={"joint.a.angle": "x"}, drive={"actuator.m": "u"})
        except CalibodyError as error:
            assert str(error) and "\n" not in str(error)
            return
    assert isinstance(run, Recording)
    assert all(np.diff(run.observations[0].times) > 0) and not np.isinf(run.observations[0].values).any()
    run.warnings()
    str(run)


@settings(max_examples=400)
@given(data=st.data())
def test_damaged_csv(data: st.DataObject) -> None:
    text = CSV
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 6))
        text = text[:where] + data.draw(BITS) + text[where + length :]
    outcome(text.encode(), ".csv")


@settings(max_examples=200)
@given(st.text(alphabet='tx,u;\t"\n\r#.-0159e \0é', max_size=60))
def test_small_csv(text: str) -> None:
    outcome(("t,x,u\n" + text).encode(), ".csv")
    outcome(text.encode(), ".csv")


@settings(max_examples=150)
@given(content=st.binary(max_size=200))
def test_bytes(content: bytes) -> None:
    for suffix in (".csv", ".parquet", ".npz"):
        outcome(content, suffix)


def _binary(suffix: str) -> bytes:
    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez(buffer, t=T, x=np.sin(T), u=np.cos(T))
    else:
        pl.DataFrame({"t": T, "x": np.sin(T), "u": np.cos(T)}).write_parquet(buffer)
    return buffer.getvalue()


BINARIES = {suffix: _binary(suffix) for suffix in (".npz", ".parquet")}


@settings(max_examples=150)
@given(data=st.data())
def test_damaged_npz(data: st.DataObject) -> None:
    content = bytearray(BINARIES[".npz"])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    outcome(bytes(content), ".npz")


@settings(max_examples=150)
@given(suffix=st.sampled_from(sorted(BINARIES)), data=st.data())
def test_archives_with_a_piece_missing(suffix: str, data: st.DataObject) -> None:
    # Only missing pieces for Parquet: with a changed byte in a page's size polars asks for exabytes and aborts the process.
    content = BINARIES[suffix]
    where = data.draw(st.integers(0, len(content)))
    outcome(content[:where] + content[where + data.draw(st.sampled_from([1, len(content)])) :], suffix)
