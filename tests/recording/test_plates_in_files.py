"""Force plates of files (`recording/plates.py`): columns, bodies, moments about the point or the origin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibody as cb
from calibody.errors import CalibodyError
from calibody.experiment.reading import load
from calibody.experiment.writing import save

GIVEN = {"body": "foot", "force": "f_v*", "point": ("px", "py", "pz"), "moment": "m_*", "sd": 20.0, "sd_point": 0.01, "correlation_time": 0.2}


def columns() -> dict[str, np.ndarray]:
    random, t = np.random.default_rng(0), np.arange(0.0, 1.0, 0.1)
    force, point, moment = random.normal(size=(3, 3, len(t)))
    out = {"t": t, "a": t}
    for k, axis in enumerate("xyz"):
        out |= {f"f_v{axis}": force[k], f"p{axis}": point[k], f"m_{axis}": moment[k]}
    return out


def test_a_star_stands_for_three_columns_and_a_moment_may_be_about_the_origin() -> None:
    log = columns()
    [plate] = cb.read(log, observe={"joint.hip.angle": "a"}, plates=[GIVEN]).plates
    force, point, moment = (np.stack([log[f"{stem}{axis}"] for axis in "xyz"], axis=1) for stem in ("f_v", "p", "m_"))
    by_hand = cb.Plate("foot", log["t"], force, point, moment, sd=20.0, sd_point=0.01, correlation_time=0.2)
    assert (
        np.array_equal(plate.force, by_hand.force) and np.array_equal(plate.moment, by_hand.moment) and plate.sd_point == 0.01 and plate.correlation_time == 0.2
    )
    about_origin = {**log, **{f"m_{axis}": (moment + np.cross(point, force))[:, k] for k, axis in enumerate("xyz")}}
    [same] = cb.read(about_origin, observe={"joint.hip.angle": "a"}, plates=[{**GIVEN, "about": "origin"}]).plates
    assert np.allclose(same.moment, by_hand.moment)


def test_columns_are_turned_by_their_order_and_a_minus() -> None:
    """A recording whose z is up, in a world whose y is: (x, z, -y)."""
    log = columns()
    turn = {
        key: tuple(f"{sign}{stem}{axis}" for sign, axis in (("", "x"), ("", "z"), ("-", "y")))
        for key, stem in (("force", "f_v"), ("point", "p"), ("moment", "m_"))
    }
    run = cb.read(log, observe={"site.toe.position": {"columns": ["px", "pz", "-py"]}}, plates=[{**GIVEN, **turn}])
    assert np.array_equal(run["site.toe.position.z"].values, -log["py"]) and np.array_equal(run["site.toe.position.y"].values, log["pz"])
    [plate] = run.plates
    assert np.array_equal(plate.force, np.stack([log["f_vx"], log["f_vz"], -log["f_vy"]], axis=1))
    with pytest.raises(CalibodyError, match='no column "ay"'):
        cb.read(log, observe={"joint.hip.angle": "-ay"})


def test_a_plate_that_reads_its_drift_has_no_point_and_no_force() -> None:
    """Files of laboratories leave the point out where a foot is off the plate; a gap under load is a mistake."""
    log = columns()
    log["f_vz"] = np.where(log["t"] < 0.45, 600.0, 2.0)
    log["px"] = np.where(log["t"] < 0.45, 0.1, np.nan)
    [plate] = cb.read(log, observe={"joint.hip.angle": "a"}, plates=[{**GIVEN, "about": "origin"}]).plates
    assert plate.force[:5, 2].min() == 600.0 and not np.any(plate.force[5:]) and not np.any(plate.signals["body.foot.torque.y"].values[5:])
    log["px"][2] = np.nan
    with pytest.raises(CalibodyError, match="carries a force where its point is not finite"):
        cb.read(log, observe={"joint.hip.angle": "a"}, plates=[GIVEN])


def test_an_experiment_file_has_plates_and_is_written_with_them(tmp_path: Path) -> None:
    """The forces are in a file and on a clock of their own; moments are unknown. What is saved reads as what it was."""
    log = columns()
    for name, keys, clock in (("markers.csv", ["a"], "t"), ("forces.csv", [k for k in log if k not in ("t", "a")], "seconds")):
        rows = [[clock, *keys], *zip(log["t"], *(log[k] for k in keys), strict=True)]
        (tmp_path / name).write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    (tmp_path / "gait.toml").write_text(
        '[model]\nfile = "leg.xml"\n[[run]]\ndata = "markers.csv"\nobserve = { "joint.hip.angle" = "a" }\ndrive = "unknown"\n'
        'plates = [{ body = "foot", file = "forces.csv", time = "seconds", force = "f_v*", point = "p*", moment = "m_*", sd = 20 }]\n'
    )
    for path in (tmp_path / "gait.toml", save(load(tmp_path / "gait.toml"), tmp_path / "saved.toml")):
        spec = load(path)
        run = spec.recordings[0].read(tmp_path)
        assert spec.recordings[0].files == ["markers.csv", "forces.csv"] and run.unknown == (cb.UnknownDrive("joint.*.force"),)
        assert [p.body for p in run.plates] == ["foot"] and np.allclose(run.plates[0].force[:, 0], log["f_vx"])
        assert {d.channel for d in run.drives} == {f"body.foot.{what}.{axis}" for what in ("force", "torque") for axis in "xyz"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"force": "f_v"}, "give three columns, or one name with a star"),
        ({"force": None}, "give three columns"),
        ({"body": 3}, "has body = 3; give a text"),
        ({"about": "foot"}, 'give "point" or "origin"'),
        ({"sd_pointt": 1.0}, 'has an unknown option "sd_pointt"'),
        ({"force": "g_*"}, "g_x"),
        ({"sd": -1.0}, "give a number above zero"),
    ],
)
def test_sentences(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CalibodyError, match=sentence.replace("*", r"\*")):
        cb.read(columns(), observe={"joint.hip.angle": "a"}, plates=[{**GIVEN, **change}])
    with pytest.raises(CalibodyError, match="has no point; give its columns"):
        cb.read(columns(), observe={"joint.hip.angle": "a"}, plates=[{"body": "foot", "force": "f_v*"}])
