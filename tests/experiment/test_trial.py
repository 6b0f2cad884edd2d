"""`calibody new` for a motion-capture trial (`experiment/guess/trial.py`): markers, plates and the bodies that these are under."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hanging_leg import leg

import calibody as cb
from calibody.experiment.guess.new import propose
from calibody.experiment.reading import load
from calibody.experiment.scene import _turned, upright


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
