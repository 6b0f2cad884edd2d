"""The code in the documents runs and prints what it claims."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import calibody as cb
from calibody import cli
from calibody.estimate.designs.designing import Designing
from calibody.estimate.draws.sampling import Sampling
from calibody.estimate.fit import ESTIMATORS
from calibody.estimate.unknowns import Unknown
from calibody.experiment import RunSpec
from calibody.recording.readers import DriveSpec, ObserveSpec
from calibody.recording.tables import READERS
from calibody.recording.units import UNITS

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


def test_the_example_of_an_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "experiment.md").read_text(encoding="utf-8")
    (toml,), (code,) = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("toml", "python"))
    monkeypatch.chdir(tmp_path)
    Path("pendulum.toml").write_text(toml, encoding="utf-8")
    scope: dict = {}
    exec(compile(code, "experiment.md", "exec"), scope)
    assert "status: converged" in capsys.readouterr().out
    for path, value in {"body.arm.mass": 0.4, "joint.hinge.damping": 0.02, "joint.hinge.angle.bias": 0.0}.items():
        e = scope["result"].parameters[path]
        assert abs(e.value - value) < 3.5 * e.sd
    with pytest.raises(SystemExit) as caught:
        cli.main(["check", "pendulum.toml"])
    assert not caught.value.code and "can be fitted: 1 run, 3 unknowns." in capsys.readouterr().out


def _command(text: str) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([*shlex.split(text, comments=True)[1:], "--quiet"])
    assert not caught.value.code, text


def _blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def test_the_quick_start_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^    (calibody .*)$", text, re.MULTILINE)
    assert len(commands) <= 5
    for command in commands:
        _command(command)
    (code,), (printed,) = _blocks(text, "python"), _blocks(text, "text")
    exec(compile(code, "quickstart.md", "exec"), {})
    assert "status: converged" in capsys.readouterr().out
    found = cb.open("calibody-demo/pendulum/pendulum-fit").parameters
    for name, value in (line.split() for line in printed.splitlines()):
        sd = found[name].sd
        assert sd is not None and abs(float(value) - found[name].value) < 0.1 * sd, f"{name}: {found[name].value}"


def test_the_walk_from_urdf_to_calibrated_urdf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "robot.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (urdf,), (toml,), (make, use) = (_blocks(text, kind) for kind in ("xml", "toml", "python"))
    Path("robot.urdf").write_text(urdf)
    Path("robot.toml").write_text(toml)
    exec(compile(make, "robot.md", "exec"), {})
    for command in re.findall(r"^    (calibody .*)$", text, re.MULTILINE):
        _command(command)
    capsys.readouterr()
    exec(compile(use, "robot.md", "exec"), {})
    calibrated = ast.literal_eval(capsys.readouterr().out)
    truth = {"body.upper.mass": 2.6, "body.lower.mass": 0.7, "joint.shoulder.damping": 0.25, "joint.elbow.damping": 0.04}
    assert calibrated == pytest.approx(truth, rel=0.03)


def test_all_keys_of_an_experiment_are_documented() -> None:
    text = (ROOT / "docs" / "experiment.md").read_text(encoding="utf-8")
    for kind in (RunSpec, ObserveSpec, DriveSpec, Unknown, Sampling, Designing, *ESTIMATORS.values()):
        for field in dataclasses.fields(kind):
            assert f"`{field.name}`" in text, field.name


def test_the_example_of_a_recording_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "recordings.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    exec(compile(code, "recordings.md", "exec"), {})
    out = capsys.readouterr().out
    assert "joint.hinge.angle  100 samples, 100 Hz" in out and "status: converged" in out
    assert all(f"`{unit}`" in text for unit in UNITS if " " in unit or (unit.isascii() and "N" not in unit))
    assert all(f"`{suffix}`" in text for suffix in READERS)


def test_the_examples_of_shooting_run(capsys: pytest.CaptureFixture[str]) -> None:
    (own,), (engine,) = (_blocks((ROOT / "docs" / name).read_text(encoding="utf-8"), "python") for name in ("shooting.md", "from_sysid.md"))
    exec(compile(own, "shooting.md", "exec"), {})
    exec(compile(engine, "from_sysid.md", "exec"), {})
    assert capsys.readouterr().out.count("status: converged") == 2


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
    block, contacts = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "spook.md", "exec"), {})
    found = re.fullmatch(r"unexplained forces at most (\S+) N, friction at most (\S+) N m\n", capsys.readouterr().out)
    assert found is not None and float(found[1]) < 1e-3 < 1.0 and 0.0 < float(found[2]) < 0.1
    for field in dataclasses.fields(cb.Spook):
        row = re.search(rf"\| `{field.name}` \|.*\| (\S+) \|\n", page)
        assert row is not None and float(row[1]) == field.default, field.name
    for figure in re.findall(r"\((figures/\S+\.svg)\)", page):
        assert (ROOT / "docs" / figure).read_text(encoding="utf-8").startswith("<svg"), figure
    exec(compile(contacts, "spook.md", "exec"), {})
    force, com = re.findall(r"\[(.*?)\]", capsys.readouterr().out)
    assert [float(x) for x in force.split()] == pytest.approx([-0.3 * 2.0 * 9.81, 0.0, 2.0 * 9.81], rel=1e-4, abs=1e-4) and 0.3 < float(com.split()[0]) < 0.4


def test_the_page_on_the_shadow_method_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "shadow.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "shadow.md", "exec"), {})
    assert "status: converged" in capsys.readouterr().out
    for figure in re.findall(r"\((figures/\S+\.svg)\)", page):
        assert (ROOT / "docs" / figure).read_text(encoding="utf-8").startswith("<svg"), figure


def test_the_page_on_posteriors_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = _blocks((ROOT / "docs" / "posterior.md").read_text(encoding="utf-8"), "python")
    scope: dict = {}
    exec(compile(block, "posterior.md", "exec"), scope)
    assert "2 explanations were found" in capsys.readouterr().out
    assert sorted(m.mass for m in scope["post"].modes) == pytest.approx([0.1135, 0.8865], abs=0.02)


def test_the_page_on_designs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = _blocks((ROOT / "docs" / "design.md").read_text(encoding="utf-8"), "python")
    scope: dict = {}
    exec(compile(block, "design.md", "exec"), scope)
    assert "worst combination" in capsys.readouterr().out
    assert scope["found"].forecast.worst < 0.5 * scope["chirp"].worst


def test_the_page_on_poses_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = _blocks((ROOT / "docs" / "poses.md").read_text(encoding="utf-8"), "python")
    scope: dict = {}
    exec(compile(block, "poses.md", "exec"), scope)
    assert "status: converged" in capsys.readouterr().out
    length = scope["result"].parameters["joint.elbow.position.x"]
    assert abs(length.value - 0.503) < 3.5 * length.sd


def test_the_page_on_paths_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = _blocks((ROOT / "docs" / "paths.md").read_text(encoding="utf-8"), "python")
    exec(compile(block, "paths.md", "exec"), {})
    length, force = map(float, capsys.readouterr().out.split())
    assert 0.2 < length < 0.4
    assert force < 0.0  # it pulls


def test_the_page_on_people_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "human.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile("".join(blocks), "human.md", "exec"), {})
    hip, knee, plate, _, *weighed = capsys.readouterr().out.splitlines()
    for line, true in zip(weighed, (40.0, 8.0, 4.0, 52.0), strict=True):
        value, sd = (float(x) for x in re.findall(r"(\S+) \+- (\S+)", line)[0])
        assert abs(value - true) < 3.0 * sd
    assert all(float(re.findall(r"(\d+) %", line)[-1]) > 85.0 for line in (hip, knee))
    assert plate.startswith("the plate read ") and 5.0 < float(plate.split()[3]) < 19.0  # 12 N
    assert sorted(p.name for p in (tmp_path / "trial_results").iterdir()) == [
        "moments.sto", "moments_sd.sto", "motion.mot", "motion_sd.mot", "powers.sto", "powers_sd.sto",
    ]  # fmt: skip


def test_the_page_on_contact_runs(capsys: pytest.CaptureFixture[str]) -> None:
    simulated, seat, fitted, known = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "contact.md").read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(simulated, "contact.md", "exec"), {})
    assert re.match(r"0\.\d+ s: contact\.floor at \d\.\d\d m/s, (stick|slip), \d+\.\d mJ lost\n", capsys.readouterr().out)
    exec(compile(seat, "contact.md", "exec"), {})
    gap, *_, force = map(float, re.findall(r"-?\d+\.\d+(?:e-?\d+)?|0\.", capsys.readouterr().out))
    assert gap < 0.0 < force
    exec(compile(fitted + known, "contact.md", "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith("status: converged") and "impacts on limit.stop." in said
    assert re.search(r"limit\.stop at 0\.\d+ \+- \de-05 s, 0\.\d+ \+- \de-05 N m s\n", said)


# -- the API page --------------------------------------------------------------------------------------------------------------------------


def _sections() -> dict[str, str]:
    parts = re.split(r"^### (\w+)\n", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_public_name_is_on_the_api_page() -> None:
    assert sorted(_sections()) == sorted(cb.__all__)
    assert all(getattr(cb, name) is not None for name in cb.__all__)


@pytest.mark.parametrize("name", cb.__all__)
def test_the_api_page_gives_signatures_as_they_are(name: str) -> None:
    text = _sections()[name]
    stated = re.search(rf"^`cb\.{name}\((.*)\)`$", text, re.MULTILINE)
    if stated is None:  # what one is given and does not make: no signature, but an example all the same
        assert name in GIVEN and (f"cb.{name}" in text or name == "CalibodyError")
        return
    defaults = re.sub(r"\([^()]*\)", "()", stated[1])  # values in parentheses have commas of their own
    names = [word.partition("=")[0].strip().lstrip("*") for word in defaults.split(",") if word.strip() != "*"]
    assert names == list(inspect.signature(getattr(cb, name)).parameters)
    assert f"cb.{name}(" in "".join(_blocks((ROOT / "docs" / "api.md").read_text(encoding="utf-8"), "python"))


GIVEN = (
    "Anthropometry",
    "Parameter",
    "Motion",
    "Event",
    "StepDerivatives",
    "Result",
    "Prediction",
    "Forecast",
    "Population",
    "Design",
    "Validation",
    "CrossValidation",
    "Posterior",
    "ModelComparison",
    "Saved",
    "CalibodyError",
    "ModelError",
    "FormatError",
    "SimulationError",
)


def test_the_api_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    for block in _blocks((ROOT / "docs" / "api.md").read_text(encoding="utf-8"), "python"):
        exec(compile(block, "api.md", "exec"), scope)
    assert "status: converged" in capsys.readouterr().out


def test_the_first_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for command in re.findall(r"^    (calibody .*)$", text, re.MULTILINE):
        _command(command)
    (code,) = _blocks(text, "python")
    scope: dict = {}
    exec(compile(code, "index.md", "exec"), scope)
    assert scope["heavier"]["body.arm.mass"] == 0.5 and "pendulum" in capsys.readouterr().out


def test_the_page_on_experiments_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "which_experiment.md").read_text(encoding="utf-8")
    (code,), (printed,) = _blocks(text, "python"), _blocks(text, "text")
    scope: dict = {}
    exec(compile(code, "which_experiment.md", "exec"), scope)
    found, said = ([float(x) for x in re.findall(r"(\S+) %", lines)] for lines in (capsys.readouterr().out, printed))
    assert found == pytest.approx(said, rel=0.1, abs=0.011)
    slow, fast, chirp = (scope["bars"][name] for name in ("slow", "fast", "chirp"))
    assert all(chirp[path] < min(slow[path], fast[path]) for path in chirp)


NOTEBOOK = "notebook.md"
EXECUTE = "import sys, nbformat, nbclient; b = nbformat.read(sys.argv[1], 4); nbclient.NotebookClient(b, timeout=300).execute(); nbformat.write(b, sys.argv[1])"


def test_the_page_on_notebooks_runs_in_one(tmp_path: Path) -> None:
    """Executed without a screen, every cell shows what the page says: tables, figures, and how far the fit is."""
    nbformat = pytest.importorskip("nbformat", reason="notebooks are made with nbformat (the `dev` extra)")
    text = (ROOT / "docs" / NOTEBOOK).read_text(encoding="utf-8")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(block) for block in _blocks(text, "python")])
    nbformat.write(book, tmp_path / "book.ipynb")
    done = subprocess.run([sys.executable, "-c", EXECUTE, str(tmp_path / "book.ipynb")], capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    shown = [[o.get("data", {}) for o in cell.outputs] for cell in nbformat.read(tmp_path / "book.ipynb", 4).cells]
    tables = ["".join(data.get("text/html", "") for data in outputs) for outputs in shown]
    figures = [data["application/vnd.plotly.v1+json"] for outputs in shown for data in outputs if "application/vnd.plotly.v1+json" in data]
    model, _, motion, _, recording, result, *_ = tables
    assert "<td" in model and "hinge (hinge)" in model and ">1.2<" in model
    assert "joint.hinge.angle" in motion and "energy [J]" in motion and "301" in recording and "0.005" in recording
    assert "status: converged" in result and "joint.hinge.damping" in result and "kg m^2" in result
    assert "parameters and motion: mesh 1" in result and "still moving" in result  # the progress of the fit, above its table
    assert [f["data"][0]["type"] for f in figures] == ["mesh3d", "scatter", "scatter", "scatter"]
    assert {t["name"] for t in figures[2]["data"]} == {"95 % of the noise", "measured", "fitted"}


def test_no_page_has_code_that_is_not_run() -> None:
    run = {NOTEBOOK} | set(re.findall(r'"(\w+\.md)", "exec"', Path(__file__).read_text(encoding="utf-8")))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    assert {p.name for p in pages if "```python" in p.read_text(encoding="utf-8")} == run


def test_the_example_of_prescribed_motion_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8"), re.DOTALL)
    scope: dict = {}
    exec(compile(block, "concepts.md", "exec"), scope)
    assert scope["motion"]["joint.hinge.angle"][500] == pytest.approx(0.3 * math.sin(3.0))


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert set(re.findall(r": (\w+\.md)$", text, re.MULTILINE)) == {p.name for p in (ROOT / "docs").glob("*.md")}


def test_every_public_name_is_on_the_page_of_docstrings() -> None:
    lines = re.findall(r"^::: (calibody\S*)\.(\w+)$", (ROOT / "docs" / "reference.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(name for _, name in lines) == sorted(cb.__all__)
    assert all(getattr(cb, name) is getattr(importlib.import_module(module), name) for module, name in lines)


def test_every_citation_has_its_reference() -> None:
    """Keys in comments and pages are those of references.bib, which the page of notation lists; nothing is cited otherwise."""
    known = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text(encoding="utf-8"), re.MULTILINE))
    listed = set(re.findall(r"^- \*\*\[(\w+)\]\*\*", (ROOT / "docs" / "notation.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert known == listed
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"\[([a-z]+(?:19|20)\d\d)\]", text)) <= known, path.name
        assert not re.search(r"\bseed 0\d\d\b|\b[A-Z][a-z]+ (?:and [A-Z][a-z]+ )?(?:19[5-9]|20[0-2])\d\)", text), path.name
