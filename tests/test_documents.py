"""The code in the documents runs and prints what it claims."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import calibody as cb

ROOT = Path(__file__).parent.parent


def test_the_example_of_a_fit_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "fit.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    scope: dict = {}
    exec(compile(blocks[0], "fit.md", "exec"), scope)
    assert "status: converged" in capsys.readouterr().out
    for path, value in {"body.arm.mass": 1.2, "body.arm.inertia.yy": 0.03, "joint.hinge.damping": 0.05}.items():
        e = scope["result"].parameters[path]
        assert abs(e.value - value) < 3.5 * e.sd


def test_the_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    exec(compile(blocks[0], "README.md", "exec"), {})
    printed = capsys.readouterr().out
    found = re.fullmatch(r"energy drift (\S+) J, period (\S+) s, exact (\S+) s\n", printed)
    assert found is not None, printed
    drift, period, exact = (float(x) for x in found.groups())
    assert drift < 1e-4 and abs(period - exact) < 2e-5


def test_the_page_on_the_regularised_stepper_runs_and_names_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "spook.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "spook.md", "exec"), {})
    found = re.fullmatch(r"unexplained forces at most (\S+) N, friction at most (\S+) N m\n", capsys.readouterr().out)
    assert found is not None and float(found[1]) < 1e-3 < 1.0 and 0.0 < float(found[2]) < 0.1
    for field in dataclasses.fields(cb.Spook):
        row = re.search(rf"\| `{field.name}` \|.*\| (\S+) \|\n", page)
        assert row is not None and float(row[1]) == field.default, field.name
    for figure in re.findall(r"\((figures/\S+\.svg)\)", page):
        assert (ROOT / "docs" / figure).read_text(encoding="utf-8").startswith("<svg"), figure
