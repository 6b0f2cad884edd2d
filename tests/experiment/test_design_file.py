"""`calibody design` and the table [design]: files with and without runs, what is written, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
from experiment.swing import EXPERIMENT, Command, write

import calibody as cb
from calibody.experiment import load
from calibody.experiment.writing import save

DESIGN = """\
[design]
duration = 2.0
excite = ["joint.hinge.force"]
limits = { "joint.hinge.force" = 1.0, "joint.hinge.angle" = [-1.5, 1.5] }
sensors = { "joint.hinge.rate" = 0.05 }
functions = 4
starts = 3
improved = 1
rounds = 2
"""


def _without_runs() -> str:
    head, _, rest = EXPERIMENT.partition("[[run]]")
    return head + rest[rest.index("[[estimate]]") :] + DESIGN + 'channels = { "joint.hinge.angle" = 0.002 }\n'


def test_a_file_without_runs_is_designed_for(run: Command, tmp_path: Path) -> None:
    file = write(tmp_path, _without_runs())
    code, out, _ = run("design", file)
    folder = tmp_path / f"{file.stem}-design"
    assert code == 0 and "error bars to be expected" in out and "which sensor would help" in out
    played = pl.read_csv(folder / "design.csv")
    assert played.columns == ["t", "joint.hinge.force"] and len(played) == 201
    motion = cb.simulate(load(file).model(), 2.0, 0.001, {}, {"joint.hinge.force": (played["t"].to_numpy(), played["joint.hinge.force"].to_numpy())})
    assert np.abs(motion["joint.hinge.angle"]).max() <= 1.5 and np.abs(played["joint.hinge.force"].to_numpy()).max() <= 1.0
    document = json.loads((folder / "design.json").read_text())
    assert document["kind"] == "drives are played" and document["sensors"]["joint.hinge.rate"]["worst"] <= document["worst"]
    page = (folder / "design.html").read_text()
    assert "What to record next of" in page and "<polyline" in page and "http://" not in page.replace("http://www.w3.org", "")


def test_what_is_fitted_needs_a_run(run: Command, tmp_path: Path) -> None:
    file = write(tmp_path, _without_runs())
    for command in ("fit", "check", "posterior"):
        code, _, err = run(command, file)
        assert code == 2 and "has no [[run]]" in err and "calibody design" in err, command


def test_a_design_begins_at_the_fit_that_is_there(run: Command, tmp_path: Path) -> None:
    file = write(tmp_path, EXPERIMENT + DESIGN)
    code, out, _ = run("design", file)
    assert code == 0 and "sd of the recording" in out
    assert run("fit", file, "--quiet")[0] == 0
    code, out, _ = run("design", file, "--json")
    document = json.loads(out)
    saved = cb.open(tmp_path / f"{file.stem}-fit")
    for path, e in document["parameters"].items():
        assert abs(e["sd_before"] / saved.parameters[path].sd - 1.0) < 0.05 and e["sd"] < e["sd_before"]  # type: ignore[operator]


def test_the_table_is_written_as_it_was_read_and_mistakes_have_lines(run: Command, tmp_path: Path) -> None:
    experiment = load(write(tmp_path, EXPERIMENT + DESIGN))
    assert load(save(experiment, tmp_path / "again.toml")).design == experiment.design
    code, _, err = run("design", write(tmp_path, EXPERIMENT))
    assert code == 2 and "no table [design]" in err
    code, _, err = run("design", write(tmp_path, EXPERIMENT + DESIGN.replace("starts = 3", "starts = 0")))
    assert code == 2 and "[design] has starts = 0" in err and ".toml:" in err
    code, _, err = run("design", write(tmp_path, EXPERIMENT + DESIGN.replace('"joint.hinge.force" = 1.0, ', "")))
    assert code == 2 and '"joint.hinge.force" is excited' in err
    code, _, err = run("design", write(tmp_path, EXPERIMENT + DESIGN.replace("rounds", "round")))
    assert code == 2 and 'did you mean "rounds"' in err
