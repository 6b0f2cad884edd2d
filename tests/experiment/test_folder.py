"""The run folder: complete, described by its schema, opened again, written as a whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import numpy as np
import polars as pl
import pytest
from experiment.swing import TRUTH, write

import calibody as cb
from calibody import experiment
from calibody.experiment import atomic, folder as run_folder
from calibody.experiment.folder import Progress
from calibody.solve.gauss_newton import Iteration

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "result.schema.json").read_text(encoding="utf-8"))
FILES = {
    "result.json",
    "channels.parquet",
    "states.parquet",
    "forces.parquet",
    "bars.parquet",
    "validation.parquet",
    "torques.parquet",
    "scene.json",
    "swing.xml",
    "experiment.toml",
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[cb.Result, Path]:
    """A result and the folder it was written to."""
    base = tmp_path_factory.mktemp("swing")
    what = experiment.load(write(base))
    result = cb.fit(what.model(), what.runs(), what.estimate(), method=what.method)
    return result, run_folder.write(result, base / "fit", what, "calibody fit swing.toml", {"import": 1.0, "compile": 2.0})


def test_the_folder_is_complete_and_fits_its_schema(fitted: tuple[cb.Result, Path]) -> None:
    _, folder = fitted
    assert {p.name for p in folder.iterdir()} == FILES
    document = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, SCHEMA)
    assert document["seconds"]["compile"] == 2.0 and document["command"] == "calibody fit swing.toml"
    assert len(document["history"]) == document["iterations"] and len(document["history"][0]["theta"]) == 2
    assert len(document["data_sha256"]["swing"]) == 64


def test_open_gives_back_what_was_found(fitted: tuple[cb.Result, Path]) -> None:
    result, folder = fitted
    saved = cb.open(folder)
    assert str(saved) == str(result) and saved.finished and saved.converged
    assert saved.parameters == result.parameters
    np.testing.assert_allclose(saved.correlation, result.correlation, atol=1e-12)
    assert saved.validation is not None and str(saved.validation) == str(result.validate()) and saved.validation.halves
    assert saved.fit[0].whiteness == result.fit[0].whiteness
    np.testing.assert_array_equal(saved.fit[0].fitted, result.fit[0].fitted)
    for path, value in TRUTH.items():
        e = saved.parameters[path]
        assert e.sd is not None and abs(e.value - value) < 4.0 * e.sd
        assert saved.model[path] == pytest.approx(e.value, rel=1e-12)


def test_the_tables_agree_with_the_motion(fitted: tuple[cb.Result, Path]) -> None:
    result, folder = fitted
    saved, motion = cb.open(folder), result.motion()
    np.testing.assert_allclose(saved.states["joint.hinge.angle"].to_numpy(), motion["joint.hinge.angle"])
    np.testing.assert_allclose(saved.forces["joint.hinge.reaction.force.z"].to_numpy(), motion["joint.hinge.reaction.force"][:, 2])
    table = saved.channels
    assert table.columns == ["run", "channel", "time", "measured", "fitted", "predicted", "residual", "weight"]
    np.testing.assert_allclose((table["measured"] - table["fitted"]).to_numpy(), table["residual"].to_numpy())
    assert np.isfinite(table["predicted"].to_numpy()).all()
    prediction = saved.document["predictions"]["swing"]["channels"]["joint.hinge.angle"]["rms"]
    assert prediction == pytest.approx(float(np.sqrt(np.mean((table["measured"] - table["predicted"]).to_numpy() ** 2))))


def test_error_bars_of_states_and_forces(fitted: tuple[cb.Result, Path]) -> None:
    result, folder = fitted
    bars = cb.open(folder).bars
    assert bars.columns == ["run", "channel", "time", "value", "sd"]
    for channel in ("joint.hinge.angle", "joint.hinge.rate", "joint.hinge.reaction.force.x"):
        rows = bars.filter(pl.col("channel") == channel)
        assert 8 <= len(rows) <= 40 and rows["time"].is_sorted()
        np.testing.assert_allclose(rows["sd"].to_numpy(), result.sd(channel, rows["time"].to_numpy()), rtol=1e-6)
        at = np.round(rows["time"].to_numpy() / result.mesh.h).astype(int)
        np.testing.assert_array_equal(rows["value"].to_numpy(), result.motion()[channel][at])


def test_the_scene_has_the_poses_of_the_motion(fitted: tuple[cb.Result, Path]) -> None:
    result, folder = fitted
    scene, motion = cb.open(folder).scene, result.motion()
    run = scene["runs"][0]
    assert set(run["fitted"]) == {"arm"} and len(run["time"]) == len(run["fitted"]["arm"]) == len(run["measured"]["arm"])
    k = int(np.argmin(np.abs(motion.time - run["time"][10])))
    np.testing.assert_allclose(np.abs(run["fitted"]["arm"][10]), np.abs(motion["body.arm.pose"][k]), atol=2e-5)
    assert {s["body"] for s in scene["shapes"]} == {"arm"}  # rods in place of the shapes that it does not have
    assert np.abs(np.array(run["fitted"]["arm"]) - np.array(run["measured"]["arm"])).max() < 0.02


def test_the_floor_of_a_replay_is_what_things_touch() -> None:
    from calibody.experiment.scene import ground

    def of(partner: str = "ground", tilt: float = 0.0, contacts: bool = True) -> float | None:
        floor = cb.Geometry("floor", "world", "plane", (1.0, 1.0), position=(0.0, 0.0, 0.3))
        ball = cb.Geometry("ball", "body", "sphere", (0.1,))
        touch = (cb.Contact("touch", "ball", partner),) if contacts else ()
        world = cb.World(ground_height=-0.2, ground_tilt=(tilt, 0.0))
        return ground(cb.Model("m", [cb.Body("body", mass=1.0)], [cb.Joint("free", "body", "free")], geometries=[floor, ball], contacts=touch, world=world))

    assert (of(), of("floor"), of(tilt=0.1), of(contacts=False)) == (-0.2, 0.3, None, None)


def test_the_saved_experiment_is_the_same(fitted: tuple[cb.Result, Path]) -> None:
    _, folder = fitted
    again = experiment.load(folder / "experiment.toml")
    assert (again.folder / again.model_file).resolve() == (folder.parent / "swing.xml").resolve()
    assert list(again.estimate()) == list(TRUTH)


def test_a_fit_that_runs_keeps_its_best_point(fitted: tuple[cb.Result, Path], tmp_path: Path) -> None:
    result, _ = fitted
    progress = Progress(tmp_path, result.problem.entries, result.recordings)
    progress.begin({})
    first = cb.open(tmp_path)
    assert not first.finished and not first.converged and first.parameters["body.arm.mass"].value == 0.8
    progress(Iteration(1, 10.0, 0.0, 1.0, 3.0, 0.0, np.array([0.5, 0.03])))
    saved = cb.open(tmp_path)
    jsonschema.validate(saved.document, SCHEMA)
    assert saved.parameters["body.arm.mass"].value == 0.5 and saved.parameters["body.arm.mass"].sd is None
    assert "unfinished: stopped after iteration 1" in saved.status and "unfinished" in str(saved)
    with pytest.raises(cb.CalibodyError, match=r"is unfinished and has no channels.parquet; go on with calibody fit --resume"):
        _ = saved.channels
    with pytest.raises(cb.CalibodyError, match="holds no calibrated model; the fit is unfinished"):
        _ = saved.model


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = atomic.write_text(tmp_path / "result.json", "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(cb.CalibodyError, match="cannot be written \\(No space left on device\\)"):
        atomic.write_text(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_what_is_not_a_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cb.CalibodyError, match=r"has no result.json; give the folder that calibody fit wrote"):
        cb.open(tmp_path)
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(cb.CalibodyError, match="cannot be read"):
        cb.open(tmp_path)
    (tmp_path / "result.json").write_text('{"schema": "other"}')
    with pytest.raises(cb.CalibodyError, match="is not a result of this version"):
        cb.open(tmp_path)


def test_a_table_that_was_removed_is_said(fitted: tuple[cb.Result, Path], tmp_path: Path) -> None:
    _, folder = fitted
    (tmp_path / "result.json").write_bytes((folder / "result.json").read_bytes())
    with pytest.raises(cb.CalibodyError, match=r"has no states.parquet; it was removed, fit again"):
        _ = cb.open(tmp_path).states


def test_python_writes_the_folder_and_the_report(fitted: tuple[cb.Result, Path], tmp_path: Path) -> None:
    result, _ = fitted
    path = result.report(tmp_path / "out")
    assert path == tmp_path / "out" / "report.html" and path.stat().st_size < 8_000_000
    assert pl.read_parquet(tmp_path / "out" / "channels.parquet").height == 301
