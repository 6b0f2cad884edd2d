"""TRC and storage files: what OpenSim and motion-capture programs write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibody.errors import CalibodyError
from calibody.recording.tables import open_table

TRC = """PathFileType\t4\t(X/Y/Z)\twalk.trc
DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames
150.00\t150.00\t3\t2\tmm\t150.00\t1\t3
Frame#\tTime\tLeft hip\t\t\tTOE\t\t\t
\t\tX1\tY1\tZ1\tX2\tY2\tZ2

1\t0.000\t100.0\t200.0\t300.0\t1\t2\t3
2\t0.006\t110.0\t210.0\t310.0\t\t\t
3\t0.013\t120.0\t220.0\t320.0\t4\t5\t6
"""
STO = """Forces
version=1
nRows=2
nColumns=3
inDegrees=no

endheader
time\tfy\tknee moment
0.0\t1.5\t-2
0.01\t \t3e2
"""


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_markers_are_in_metres_and_gaps_are_gaps(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "walk.trc", TRC))
    assert list(table.columns)[:4] == ["t", "Left hip.x", "Left hip.y", "Left hip.z"]
    assert table.numbers("Left hip.y", "") == pytest.approx([0.2, 0.21, 0.22])
    assert np.isnan(table.numbers("TOE.z", "")).tolist() == [False, True, False]
    assert table.numbers("t", "") == pytest.approx([0.0, 1 / 150, 2 / 150], abs=1e-12)  # printed with three digits, cut off


def test_a_clock_that_is_not_that_of_the_rate_is_kept(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "walk.trc", TRC.replace("3\t0.013", "3\t0.030")))
    assert table.numbers("t", "") == pytest.approx([0.0, 0.006, 0.030])


def test_storage_files(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "forces.sto", STO))
    assert list(table.columns) == ["time", "fy", "knee moment"]
    assert table.numbers("knee moment", "") == pytest.approx([-2.0, 300.0])
    assert np.isnan(table.numbers("fy", "")).tolist() == [False, True]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.trc", "Frame\tTime\n", "its first line does not begin with PathFileType"),
        ("a.trc", TRC.replace("\tmm\t", "\tyards\t"), 'states the unit "yards"'),
        ("a.trc", TRC.replace("310.0", "3l0"), "line 8 has '3l0' where a number belongs"),
        ("a.sto", "time\tx\n0\t1\n", 'no line "endheader"'),
        ("a.mot", STO.replace("0.01\t \t3e2", "0.01\t1\t2\t3\t4"), "line 10 has 5 cells where the header names 3 columns"),
    ],
)
def test_mistakes(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(CalibodyError, match=said):
        open_table(written(tmp_path, name, text))


def test_a_real_trial(shared: Path) -> None:
    folder = shared / "data" / "human_running"
    markers, motion, forces = (open_table(folder / name) for name in ("motion_capture_run.trc", "opensim_ik.mot", "grf_run.mot"))
    assert len(markers.columns) == 1 + 3 * 78
    assert np.diff(markers.numbers("t", "")) == pytest.approx(1 / 150, abs=1e-9)
    assert 1.2 < np.nanmean(markers.numbers("RACR.y", "")) < 1.5  # a shoulder, above the ground
    assert len(motion.numbers("knee_angle_r", "")) == 122
    assert 1500.0 < forces.numbers("R_ground_force_vy", "").max() < 2000.0


def test_force_plates_of_a_walk(shared: Path) -> None:
    """The wrench at the laboratory's origin, from analog channels, calibration and corners by the definition of a plate of type 4."""
    ezc3d = pytest.importorskip("ezc3d", reason="C3D is read with ezc3d")
    path = shared / "data" / "human_running" / "gait.c3d"
    file, table = ezc3d.c3d(str(path)), open_table(path)
    plates = {name: np.array(entry["value"]) for name, entry in file["parameters"]["FORCE_PLATFORM"].items() if name != "__METADATA__"}
    weights = []
    for k in range(2):
        channels = file["data"]["analogs"][0][plates["CHANNEL"][:, k] - 1]
        corners, origin = 1e-3 * plates["CORNERS"][:, :, k], 1e-3 * plates["ORIGIN"][:, k]
        x, z = corners[:, 0] - corners[:, 1], np.cross(corners[:, 0] - corners[:, 1], corners[:, 0] - corners[:, 3])
        x, z = x / np.linalg.norm(x), z / np.linalg.norm(z)
        R = np.stack([x, np.cross(z, x), z], axis=1)
        wrench = plates["CAL_MATRIX"][:, :, k] @ channels
        force, about_sensor = wrench[:3], 1e-3 * wrench[3:]
        moment = R @ (about_sensor + np.cross(force, origin, axisa=0).T) + np.cross(corners.mean(axis=1), R @ force, axisb=0).T
        for i, axis in enumerate("xyz"):
            assert table.numbers(f"plate.{k + 1}.force.{axis}", "") == pytest.approx((R @ force)[i], abs=1e-6)
            assert table.numbers(f"plate.{k + 1}.moment.{axis}", "") == pytest.approx(moment[i], abs=1e-6)
        vertical = table.numbers(f"plate.{k + 1}.force.z", "")
        stance = vertical > 50.0
        weights.append(vertical[stance].mean())
        point = np.stack([table.numbers(f"plate.{k + 1}.point.{axis}", "")[vertical > 200.0] for axis in "xy"])
        assert (point > corners[:2].min(axis=1)[:, None]).all()
        assert (point < corners[:2].max(axis=1)[:, None]).all()
    assert any(all(0.6 * weight < w < 1.1 * weight for w in weights) for weight in np.arange(400.0, 1200.0))
    assert len(table.numbers("plate.t", "")) == len(table.numbers("plate.1.force.z", ""))


def test_markers_of_one_name_are_told_apart(shared: Path) -> None:
    """Labels of four letters, the outer and the inner side of the knee: neither is taken for the other."""
    ezc3d = pytest.importorskip("ezc3d", reason="C3D is read with ezc3d")
    path = shared / "data" / "human_running" / "gait.c3d"
    table, file = open_table(path), ezc3d.c3d(str(path))
    told = file["parameters"]["POINT"]["DESCRIPTIONS"]["value"]
    for name, description in (("RKNE_1", "R.Knee"), ("RKNE_2", "R.Knee.Medial"), ("LFOO_1", "L.Foot.Medial"), ("LFOO_2", "L.Foot.Lateral")):
        expected = 1e-3 * file["data"]["points"][1, told.index(description)]
        assert np.array_equal(table.numbers(f"{name}.y", ""), expected, equal_nan=True)
    assert "RKNE.x" not in table.columns and "RASI.x" in table.columns
    with pytest.raises(CalibodyError, match='2 signals of the file have this name, "RKNE_1" and "RKNE_2" here'):
        table.numbers("RKNE.x", "a marker")
