"""`calibody new` for a motion-capture trial (`experiment/guess/trial.py`): markers, plates and the bodies that these are under."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hanging_leg import leg

import calibody as cb
from calibody.errors import CalibodyError
from calibody.experiment.guess.new import propose
from calibody.experiment.guess.trial import turned
from calibody.experiment.reading import load
from calibody.experiment.scene import _turned, upright
from calibody.experiment.session import fit_into
from calibody.experiment.writing import save
from calibody.report.verdict import verdict


def files(folder: Path) -> tuple[Path, Path, Path]:
    """The leg falls, and a plate that is read four times as often pushes its shank."""
    model = leg()
    motion = cb.simulate(model, 0.3, 0.0025, {"joint.hip.angle": 0.3})
    path = model.save(folder / "leg.xml")
    places = {f"{s.name}.{c}": motion[f"site.{s.name}.position.{c}"] for s in model.sites for c in "xyz"}
    foot = np.stack([places[f"shank1.{c}"] for c in "xyz"], axis=1)
    force = np.zeros_like(foot)
    force[20:80, 2] = 500.0
    plate = {f"left_ground_force_v{c}": force[:, k] for k, c in enumerate("xyz")} | {f"left_ground_force_p{c}": foot[:, k] for k, c in enumerate("xyz")}
    for name, columns, every in (("trial.csv", {**places, "nobody.x": motion.time}, 4), ("forces.csv", plate, 1)):
        rows = [["t" if every == 4 else "time", *columns], *np.column_stack([motion.time, *columns.values()])[::every]]
        (folder / name).write_text("\n".join(",".join(str(x) for x in row) for row in rows) + "\n")
    return path, folder / "trial.csv", folder / "forces.csv"


def test_a_trial_has_markers_plates_and_unknown_moments(tmp_path: Path) -> None:
    """What is written reads back, and every file says what it has."""
    model, log, forces = files(tmp_path)
    found = propose(model, [log, forces], tmp_path / "trial.toml")
    (tmp_path / "trial.toml").write_text(found.text)
    spec = load(tmp_path / "trial.toml")
    (run,) = spec.runs()
    assert len(run.observations) == 3 * len(leg().sites) and run.unknown[0].channel == "joint.*.force" and run.unknown[0].sd == pytest.approx(52.0)
    (plate,) = run.plates
    assert plate.body == "shank" and plate.force.max() == 500.0 and len(plate.times) == 121 and plate.sd == 20.0
    assert "# not used: nobody (the model has no site of this name)" in found.text
    assert {g.what for g in found.guesses} >= {"markers", "moments", "plate left_ground_force"}


def test_without_forces_that_is_said(tmp_path: Path) -> None:
    model, log, _ = files(tmp_path)
    found = propose(model, [log], tmp_path / "trial.toml")
    assert any(g.what == "plates" and g.value == "none" for g in found.guesses)


def test_a_world_whose_y_is_up_stands_upright_in_the_replay() -> None:
    """What gravity points away from is the replay's z, right-handed; where it points down already, or something stands in the world, nothing is turned."""
    model = leg()
    assert upright(model) is None
    lying = replace(model, world=replace(model.world, gravity=(0.0, -9.81, 0.0)))
    turn = upright(lying)
    assert turn is not None and np.allclose(turn.apply([0.0, 1.0, 0.0]), [0.0, 0.0, 1.0]) and np.allclose(turn.apply([1.0, 0.0, 0.0]), [1.0, 0.0, 0.0])
    assert np.linalg.det(turn.as_matrix()) == pytest.approx(1.0)
    half = float(np.sqrt(0.5))
    run = {
        "fitted": {"trunk": [[1.0, 2.0, 3.0, 1.0, 0.0, 0.0, 0.0]]},
        "measured": None,
        "predicted": None,
        "markers": {"site.a.position": [[0.0, 2.0, 0.0]]},
        "name": "run",
    }
    turned = _turned(run, turn)
    assert np.allclose(turned["fitted"]["trunk"], [[1.0, -3.0, 2.0, half, half, 0.0, 0.0]], atol=1e-4)
    assert np.allclose(turned["markers"]["site.a.position"], [[0.0, 0.0, 2.0]]) and turned["measured"] is None and turned["name"] == "run"
    ball = cb.Geometry("wall", "world", "sphere", (0.1,)) if hasattr(cb, "Geometry") else None
    assert ball is None or upright(replace(lying, geometries=(ball,))) is None


def test_markers_are_exchanged_by_the_line_that_the_report_writes(tmp_path: Path) -> None:
    """Swapped in some frames: the fit names them, and with its line in the file they are where they were."""
    model, log, _ = files(tmp_path)
    (tmp_path / "trial.toml").write_text(propose(model, [log], tmp_path / "trial.toml").text.replace('time = "t"', "poses = true").split("[run.drive]")[0])
    (right,) = load(tmp_path / "trial.toml").runs()
    lines, columns = log.read_text().splitlines(), [f"shank{k}.{c}" for k in (0, 1) for c in "xyz"]
    head = lines[0].split(",")
    here = [head.index(c) for c in columns]
    for k in (3, 4, 9, 20):
        cells = lines[1 + k].split(",")
        for i, j in zip(here, here[3:] + here[:3], strict=True):
            cells[i] = lines[1 + k].split(",")[j]
        lines[1 + k] = ",".join(cells)
    log.write_text("\n".join(lines) + "\n")
    saved = fit_into(load(tmp_path / "trial.toml"), tmp_path / "fit")
    (item,) = [i for i in verdict(saved).items if i.question == "Is something wrong in the files?"]
    line = next(d for d in item.details if "exchange = " in d).partition(": ")[2]
    text = (tmp_path / "trial.toml").read_text()
    (tmp_path / "mended.toml").write_text(text.replace("poses = true", f"poses = true\n{line}"))
    for path in (tmp_path / "mended.toml", save(load(tmp_path / "mended.toml"), tmp_path / "saved.toml")):
        (mended,) = load(path).runs()
        assert all(np.array_equal(mended[c].values, right[c].values) for c in right.channels)
    for wrong, said in (
        ('a = "x"', "two markers or channels"),
        ('a = "x", b = "y", at = [1]', 'an unknown option "at"'),
        ('a = "x", b = "y", times = 1', "a list of the samples' times"),
    ):
        (tmp_path / "wrong.toml").write_text(text.replace("poses = true", f"poses = true\nexchange = [{{ {wrong} }}]"))
        with pytest.raises(CalibodyError, match=rf"wrong\.toml:\d+: .*{said}"):
            load(tmp_path / "wrong.toml")


def test_axes_are_those_of_the_model(tmp_path: Path) -> None:
    """The same files under a model whose y is up: columns are turned, forces that point down are not (they are those on the plate)."""
    model, log, forces = files(tmp_path)
    lying = replace(leg(), world=replace(leg().world, gravity=(0.0, -9.81, 0.0)))
    lying.save(tmp_path / "lying.xml")
    found = propose(tmp_path / "lying.xml", [log, forces], tmp_path / "lying.toml")
    assert [g.value for g in found.guesses if g.what == "axes"] == ["x, z, -y"]
    (tmp_path / "lying.toml").write_text(found.text)
    (run,) = load(tmp_path / "lying.toml").runs()
    (tmp_path / "trial.toml").write_text(propose(model, [log, forces], tmp_path / "trial.toml").text)
    (straight,) = load(tmp_path / "trial.toml").runs()
    assert np.array_equal(run["site.thigh0.position.z"].values, -straight["site.thigh0.position.y"].values)
    assert np.array_equal(run["site.thigh0.position.y"].values, straight["site.thigh0.position.z"].values)
    assert run.plates[0].force[:, 1].max() == 500.0 and run.plates[0].body == "shank"
    assert turned(np.array([1.0, 2.0, -500.0]), leg()) == ("x", "y", "z") and turned(np.array([0.0, 9.0, 0.0]), leg()) == ("x", "-z", "y")


def test_a_c3d_file_alone_is_a_trial(shared: Path, tmp_path: Path) -> None:
    """Markers at 100 Hz and plates at a kilohertz in one file, with gaps where the plates are empty: each under its own foot."""
    pytest.importorskip("ezc3d", reason="C3D is read with ezc3d")
    path, names = shared / "data" / "human_running" / "gait.c3d", {"left": ("LHEE", "LTOE", "LFOO_1"), "right": ("RHEE", "RTOE", "RFOO_1")}
    feet = [cb.Body(f"{side}_foot", mass=1.0, inertia=(0.01, 0.01, 0.01)) for side in names]
    sites = [cb.Site(marker, f"{side}_foot", (0.1, 0.02 * k, 0.0)) for side, each in names.items() for k, marker in enumerate(each)]
    cb.Model("feet", feet, [cb.Joint(b.name, b.name, "free") for b in feet], sites=sites).save(tmp_path / "feet.xml")
    (tmp_path / "gait.toml").write_text(propose(tmp_path / "feet.xml", [path], tmp_path / "gait.toml").text)
    (run,) = load(tmp_path / "gait.toml").runs()
    assert [p.body for p in run.plates] == ["left_foot", "right_foot"] and len(run.observations) == 18
    for plate in run.plates:
        assert len(plate.times) == 4870 and 700.0 < plate.force[:, 2].max() < 900.0 and 0.8 < np.mean(plate.loaded == 0.0) < 0.95
