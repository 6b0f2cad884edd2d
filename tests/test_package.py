"""What is published agrees with itself: one version everywhere, Pythons and lowest versions that are stated, and wheels that hold what a run needs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import calibody as cb

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_there_is_one_version() -> None:
    stated = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert stated is not None and newest is not None
    assert stated[1] == newest[1] == cb.__version__


def test_every_python_that_is_stated_is_a_classifier() -> None:
    minors = [int(c.rpartition(".")[2]) for c in PROJECT["classifiers"] if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", c)]
    assert minors == list(range(minors[0], minors[-1] + 1)) and PROJECT["requires-python"] == f">=3.{minors[0]}"


def test_every_dependency_has_a_lowest_version_and_no_highest() -> None:
    assert all(re.fullmatch(r"[a-z0-9-]+>=[\d.]+(\.post\d+)?", d) for d in PROJECT["dependencies"])


def test_what_a_run_needs_beside_code_is_in_the_package() -> None:
    templates = ROOT / "src" / "calibody" / "report" / "templates"
    assert {p.suffix for p in templates.iterdir()} >= {".html", ".css", ".js"} and (ROOT / "src" / "calibody" / "py.typed").is_file()
