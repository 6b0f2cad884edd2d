"""Damaged experiment files and recordings, through the command: a result or one sentence and exit code 2, never a traceback, never long."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from experiment.pendulum import EXPERIMENT, write

from calibody import cli

LONGEST = 10.0
"""Seconds of the processor: what a hang would exceed; the clock on the wall also counts what else the machine does."""
"""Seconds that one file may take."""
VALUES = [
    "3",
    "-1",
    "inf",
    "nan",
    "true",
    '""',
    '"x"',
    "[]",
    "{}",
    "[1, 2]",
    "1e400",
    "1" + "0" * 400,
    "2026-01-01",
    "'a\\b'",
    '"\\u0000"',
    '"' + "x" * 5000 + '"',
]
PIECES = [
    *VALUES,
    "[",
    "]",
    "{",
    "}",
    "=",
    ",",
    '"',
    "\n",
    "#",
    ".",
    "[[run]]\n",
    "[method]\n",
    "\0",
    "é",
    "\ufeff",
    "joint.hinge.angle",
    "..",
    "/",
    "swing.toml",
]
CELLS = ["", "nan", "inf", "-1e308", "1e400", "x", '"', ",", ";", "\n", "\r", "\0", "\t", "#", "1,5", "0x10", "é", "9" * 400, "t", "-"]


def cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def reordered(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    rng.shuffle(lines)
    return "\n".join(lines)


def doubled(rng: random.Random, text: str) -> str:
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    return text[:b] + text[a:b] * rng.choice([1, 2, 50]) + text[b:]


def removed(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    for _ in range(rng.randint(1, 3)):
        lines.pop(rng.randrange(len(lines)))
    return "\n".join(lines)


def spelled(rng: random.Random, text: str) -> str:
    k = rng.randrange(len(text))
    return text[:k] + text[k + 1 :] if rng.random() < 0.5 else text[:k] + rng.choice("abz_.\"'{[=0") + text[k + 1 :]


def retyped(rng: random.Random, text: str) -> str:
    """Another value after some equals sign."""
    places = [k for k, c in enumerate(text) if c == "="]
    k = rng.choice(places)
    end = next((j for j in range(k + 1, len(text)) if text[j] in ",}\n"), len(text))
    return f"{text[: k + 1]} {rng.choice(VALUES)}{text[end:]}"


def inserted(pieces: list[str]) -> Callable[[random.Random, str], str]:
    def insert(rng: random.Random, text: str) -> str:
        for _ in range(rng.randint(1, 4)):
            k = rng.randrange(len(text) + 1)
            text = text[:k] + rng.choice(pieces) + text[k + rng.choice([0, 0, 1, 5]) :]
        return text

    return insert


def encoded(rng: random.Random, text: str) -> bytes:
    kind = rng.choice(["utf-8"] * 6 + ["utf-16", "utf-16-be", "utf-32", "latin-1", "utf-8-sig", "cp1252"])
    return text.encode(kind, "replace")


def outcome(path: Path, capsys: pytest.CaptureFixture[str]) -> int:
    begin = time.process_time()
    with pytest.raises(SystemExit) as caught:
        cli.main(["check", str(path)])
    seconds = time.process_time() - begin
    code, err = int(caught.value.code or 0), capsys.readouterr().err
    assert code in (0, 2), err
    assert (code == 2) == bool(err) and all(line.startswith("error: ") for line in err.rstrip("\n").split("\n") if err), err
    assert seconds < LONGEST, f"{seconds:.1f} s"
    return code


def test_500_experiments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(4)
    kinds = [cut, reordered, doubled, removed, spelled, retyped, retyped, inserted(PIECES)]
    path, codes = write(tmp_path), []
    for k in range(500):
        text = EXPERIMENT
        for _ in range(rng.randint(1, 2)):
            text = kinds[k % len(kinds)](rng, text) or "#"
        path.write_bytes(encoded(rng, text))
        codes.append(outcome(path, capsys))
    assert 0 < codes.count(0) < 250  # some changes are harmless, most are not


def test_200_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(5)
    kinds = [cut, reordered, doubled, removed, spelled, inserted(CELLS)]
    path, codes = write(tmp_path), []
    data = tmp_path / "logs" / "swing.csv"
    good = data.read_text()
    for k in range(194):
        data.write_bytes(encoded(rng, kinds[k % len(kinds)](rng, good)))
        codes.append(outcome(path, capsys))
    row = good.split("\n")[1]
    wide = ",".join(f"c{k}" for k in range(200_000))
    for content in (
        "",
        "\n" * 500_000,
        f"t,theta,omega\n{'9' * 5_000_000},1,2\n",
        f"{wide}\n{wide}\n",
        "t,theta,omega\n" + f"{row}\n" * 300_000,
        '"' * 1_000_001,
    ):
        data.write_text(content)
        codes.append(outcome(path, capsys))
    assert len(codes) == 200 and 0 < codes.count(0) < 150
