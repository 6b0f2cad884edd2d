"""Reading recordings: formats, units, clocks, and a sentence for everything that is wrong."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibody.errors import CalibodyError
from calibody.recording.readers import DriveSpec, ObserveSpec, read

A = "joint.a.angle"
T = np.arange(10) * 0.1
X = np.sin(T)
U = np.cos(T)
ROWS = list(zip(T, X, U, strict=True))


def write(folder: Path, text: str | bytes, name: str = "run.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def csv_text(delimiter: str = ",", decimal: str = ".", newline: str = "\n", header: str = "t,x,u") -> str:
    lines = [header.replace(",", delimiter)] + [delimiter.join(f"{v:.9f}".replace(".", decimal) for v in row) for row in ROWS]
    return newline.join(lines) + newline


def refused(source: Any, *words: str, **options: Any) -> None:
    options.setdefault("observe", {A: "x"})
    with pytest.raises(CalibodyError) as caught:
        read(source, **options)
    text = str(caught.value)
    assert text.endswith((".", "?")) and "\n" not in text
    for word in words:
        assert word in text, text


@pytest.mark.parametrize(
    "content",
    [
        csv_text(),
        csv_text(";"),
        csv_text(";", ","),
        csv_text("\t"),
        csv_text("\t", ","),
        csv_text(newline="\r\n"),
        csv_text(newline="\r"),
        "\ufeff" + csv_text(),
        csv_text().encode("utf-16"),
        csv_text(header="t, x ,u"),
        csv_text(header='"t","x","u"'),
        "# made by hand\n\n" + csv_text(),
        csv_text(header="# t,x,u"),
        "sep=;\n" + csv_text(";"),
        csv_text() + "\n\n",
        csv_text().replace("\n", ",\n"),
        csv_text().replace("\n", ",\n").replace("t,x,u,", "t,x,u"),
        csv_text().replace(",", " , "),
        csv_text().encode().replace(b"u\n", b"u [\xb0]\n", 1),
    ],
    ids=range(19),
)
def test_csv_dialects(tmp_path: Path, content: str | bytes) -> None:
    path = write(tmp_path, content)
    run = read(path, observe={A: "x"})
    np.testing.assert_allclose(run[A].times, T, atol=1e-9)
    np.testing.assert_allclose(run[A].values, X, atol=1e-9)
    assert run.name == "run" and run.source == "run.csv"
    assert run.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_parquet_npz_and_memory_agree(tmp_path: Path) -> None:
    frame = pl.DataFrame({"t": T, "x": X, "u": U})
    frame.write_parquet(tmp_path / "run.parquet")
    np.savez(tmp_path / "run.npz", t=T, x=X, u=U)
    for source in (tmp_path / "run.parquet", tmp_path / "run.npz", str(tmp_path / "run.npz"), frame, {"t": T, "x": list(X), "u": pl.Series(U)}):
        run = read(source, observe={A: "x"}, drive={"actuator.m": {"column": "u", "hold": "linear", "sd": 0.1}})
        np.testing.assert_array_equal(run[A].values, X)
        np.testing.assert_array_equal(run.drives[0].signal.values, U)
        assert run.drives[0].signal.hold == "linear" and run.drives[0].sd == 0.1
        assert (run.sha256 is None) == (not isinstance(source, (str, Path)))


def test_scale_offset_unit_and_sd() -> None:
    spec = {"column": "x", "scale": 360 / 2048, "offset": 90.0, "unit": "deg", "sd": 0.1}
    run = read({"t": T, "x": np.arange(10.0)}, observe={A: spec}, drive={"joint.a.force": {"column": "x", "unit": "mN m", "sd": 2.0}})
    np.testing.assert_allclose(run[A].values, np.deg2rad(np.arange(10) * 360 / 2048 + 90), rtol=1e-14)
    assert run[A].sd == pytest.approx(np.deg2rad(0.1))
    np.testing.assert_allclose(run.drives[0].signal.values, np.arange(10) * 1e-3)
    assert run.drives[0].sd == pytest.approx(2e-3)


@pytest.mark.parametrize(
    ("channel", "unit", "factor"),
    [
        ("joint.a.angle", "rev", 2 * math.pi),
        ("joint.a.rate", "rpm", math.pi / 30),
        ("joint.a.rate", "mm/s", 1e-3),
        ("joint.a.position", "mm", 1e-3),
        ("site.p.position.x", "in", 0.0254),
        ("body.b.angle.x", "deg", math.pi / 180),
        ("joint.a.reaction.torque.z", "Nm", 1.0),
        ("actuator.m", "mV", 1e-3),
        ("actuator.m", "%", 1e-2),
        ("actuator.m.force", "N", 1.0),
    ],
)
def test_units(channel: str, unit: str, factor: float) -> None:
    run = read({"t": T, "x": X}, observe={channel: {"column": "x", "unit": unit, "unwrap": False}})
    np.testing.assert_allclose(run[channel].values, factor * X, rtol=1e-12)


def test_units_that_are_wrong() -> None:
    data = {"t": T, "x": X}
    refused(data, 'cannot be measured in "mm"', '"deg"', observe={A: {"column": "x", "unit": "mm"}})
    refused(data, 'did you mean "deg"', observe={A: {"column": "x", "unit": "degs"}})
    refused(data, "not known", observe={"actuator.m": {"column": "x", "unit": "furlong"}})
    refused(data, "time_unit", '"ms"', observe={A: "x"}, time_unit="minutes")


@pytest.mark.parametrize(("unit", "factor"), [("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_clock_units(unit: str, factor: float) -> None:
    np.testing.assert_allclose(read({"t": T * factor, "x": X}, observe={A: "x"}, time_unit=unit)[A].times, T, rtol=1e-14)
    np.testing.assert_allclose(read({"t": T * factor, "x": X}, observe={A: {"column": "x", "time_unit": unit}})[A].times, T, rtol=1e-14)


def test_clocks_of_dates_and_durations(tmp_path: Path) -> None:
    ms = (T * 1000).round().astype("int64")
    frame = pl.DataFrame({"t": pl.Series(ms).cast(pl.Duration("ms")), "d": pl.Series(ms).cast(pl.Datetime("ms")), "x": X})
    frame.write_parquet(tmp_path / "run.parquet")
    for source in (frame, tmp_path / "run.parquet", {"t": ms.astype("m8[ms]"), "d": ms.astype("M8[ms]"), "x": X}):
        np.testing.assert_allclose(read(source, observe={A: "x"})[A].times, T, atol=1e-12)
        np.testing.assert_allclose(read(source, time="d", observe={A: "x"})[A].times, T, atol=1e-12)


def test_vector_channels() -> None:
    data = {"t": T, "x": X, "y": 2 * X, "z": 3 * X, "m": np.stack([X, 4 * X, 5 * X], axis=1)}
    run = read(data, observe={"site.p.position": {"columns": ["x", "y", "z"], "sd": 1.0, "unit": "mm"}})
    assert run.channels == ("site.p.position.x", "site.p.position.y", "site.p.position.z")
    np.testing.assert_allclose(run["site.p.position.z"].values, 3e-3 * X)
    assert run["site.p.position.y"].sd == 1e-3
    run = read(data, observe={"body.b.com": {"columns": ["m[0]", "m[1]", "m[2]"]}}, drive={"joint.ball.force": {"columns": ["x", "y", "z"]}})
    np.testing.assert_array_equal(run["body.b.com.y"].values, 4 * X)
    assert [d.channel for d in run.drives] == ["joint.ball.force.x", "joint.ball.force.y", "joint.ball.force.z"]
    refused(data, "2 columns", "3 (x, y, z)", observe={"site.p.position": {"columns": ["x", "y"]}})
    refused(data, "twice", observe={"site.p.position": {"columns": ["x", "y", "z"]}, "site.p.position.x": "x"})


def test_several_rates_and_files(tmp_path: Path) -> None:
    fast = np.arange(50) * 0.02
    padded = "t,x,t2,y\n" + "".join(f"{t},{math.sin(t)},{f'{T[k]},{X[k]}' if k < 10 else ','}\n" for k, t in enumerate(fast))
    path = write(tmp_path, padded)
    other = write(tmp_path, "clock,u\n" + "".join(f"{k * 10},{k}\n" for k in range(101)), "drive.csv")
    run = read(
        path,
        observe={A: "x", "joint.b.angle": {"column": "y", "time": "t2"}},
        drive={"actuator.m": {"column": "u", "file": "drive.csv", "time": "clock", "time_unit": "ms"}},
    )
    assert len(run[A].times) == 50 and len(run["joint.b.angle"].times) == 10
    assert run.period == pytest.approx(0.02) and run.drives[0].signal.times[-1] == 1.0
    digests = "".join(hashlib.sha256(p.read_bytes()).hexdigest() + "\n" for p in (path, other))
    assert run.source == "run.csv, drive.csv" and run.sha256 == hashlib.sha256(digests.encode()).hexdigest()


def test_one_clock_with_gaps_for_the_slow_channel(tmp_path: Path) -> None:
    path = write(tmp_path, "t,x,y\n" + "".join(f"{k / 100},{k},{k if k % 5 == 0 else ''}\n" for k in range(100)))
    run = read(path, observe={"joint.s.position": "x", "joint.b.position": "y"})
    assert run["joint.b.position"].period == pytest.approx(0.05)
    assert not run.warnings()


@pytest.mark.parametrize("word", ["", "NaN", "nan", "NA", "n/a", "null", "None", " "])
def test_gaps_in_csv(tmp_path: Path, word: str) -> None:
    path = write(tmp_path, "t,x,u\n" + "".join(f"{k},{word if k == 3 else k},{word if k in (4, 9) else k}\n" for k in range(10)))
    run = read(path, observe={"joint.s.position": "x"}, drive={"actuator.m": "u"})
    assert np.flatnonzero(np.isnan(run["joint.s.position"].values)).tolist() == [3]
    assert run.drives[0].signal.values.tolist() == [0, 1, 2, 3, 5, 6, 7, 8]


def test_unwrapping_is_for_angles() -> None:
    truth = 9 * np.linspace(0, 1, 50)
    data = {"t": np.linspace(0, 1, 50), "x": np.rad2deg((truth + 1) % (2 * np.pi))}
    spec = {"column": "x", "unit": "deg"}
    np.testing.assert_allclose(read(data, observe={A: spec})[A].values, truth + 1)
    np.testing.assert_allclose(read(data, observe={A: spec | {"unwrap": False}})[A].values, (truth + 1) % (2 * np.pi))
    for path in ("body.b.angle.x", A):
        np.testing.assert_allclose(read(data, observe={path: spec | {"unwrap": True}})[path].values, truth + 1)
        np.testing.assert_allclose(read(data, observe={path: spec})[path].values, truth + 1)
    raw = read(data, observe={"joint.s.position": {"column": "x"}, "body.b.angle": {"columns": ["x"] * 3, "unit": "deg"}})
    np.testing.assert_allclose(raw["joint.s.position"].values, data["x"])
    assert not np.allclose(raw["body.b.angle.x"].values, truth + 1)  # three components are a rotation vector, not three angles


def test_masked_arrays_have_gaps() -> None:
    run = read({"t": T, "x": np.ma.masked_greater(X, 0.7)}, observe={A: "x"})
    np.testing.assert_array_equal(run[A].present, X[:8] <= 0.7)


def test_start_end_name() -> None:
    run = read({"t": T, "x": X}, observe={A: "x"}, start=0.2, end=0.7, name="swing")
    assert (run.name, run.start, run.end) == ("swing", 0.2, 0.7)
    refused({"t": T, "x": X}, "end must come after", start=3.0)
    assert read({"t": T, "x": X}, observe={A: "x"}).name == "run"


def test_specs_may_be_given_as_objects() -> None:
    run = read({"t": T, "x": X, "u": U}, observe={A: ObserveSpec(column="x", sd=0.1)}, drive={"actuator.m": DriveSpec(column="u", hold="linear")})
    assert run[A].sd == 0.1 and run.drives[0].signal.hold == "linear"


# Sentences


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path, csv_text(), "swing.csv")
    refused(tmp_path / "swung.csv", "does not exist", 'did you mean "swing.csv"')
    refused(tmp_path / "nowhere" / "x.csv", "does not exist")
    refused(tmp_path / "swing.xls", ".parquet", ".mcap", "ROS 2 bag")
    (tmp_path / "folder.csv").mkdir()
    refused(tmp_path / "folder.csv", "is a folder, and no ROS 2 bag")
    refused(write(tmp_path, ""), "empty")
    refused(write(tmp_path, "# only this\n"), "empty")
    refused(write(tmp_path, "t,x\n"), "no rows")
    refused(write(tmp_path, b"PAR1 nonsense PAR1", "x.parquet"), "Parquet")
    refused(write(tmp_path, b"PK nonsense", "x.npz"), "NPZ")
    refused(3, "int", "polars")
    np.savez(tmp_path / "o.npz", t=T, x=np.array([{}] * 10, dtype=object))
    refused(tmp_path / "o.npz", "NPZ")


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = write(tmp_path, csv_text(header="time,theta,u"))
    refused(path, 'no column "t"', '"time", "theta", "u"')
    refused(path, 'no column "tetha"', 'did you mean "theta"', "joint.a.angle", time="time", observe={A: "tetha"})
    refused(write(tmp_path, csv_text(header="t,x,x")), "more than once")
    refused(write(tmp_path, "t x\n0 1\n"), '"t x"')
    refused({}, "no columns")


def test_units_in_the_header_are_not_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path, csv_text(header="t [s],theta [deg],u (V)"))
    refused(path, 'did you mean "t [s]"?')
    refused(path, 'did you mean "theta [deg]"?', time="t [s]", observe={A: "theta"})
    refused(path, '"theta [deg]"', "in deg by its name", 'unit = "deg"', time="t [s]", observe={A: "theta [deg]"})
    run = read(path, "t [s]", {A: {"column": "theta [deg]", "unit": "deg"}}, {"actuator.m": "u (V)"})
    np.testing.assert_allclose(run[A].values, np.deg2rad(X), atol=1e-9)
    np.testing.assert_allclose(read(path, "t [s]", {A: {"column": "theta [deg]", "scale": 2.0}})[A].values, 2 * X, atol=1e-8)
    refused(write(tmp_path, csv_text(header="t [ms],x,u")), '"t [ms]" is in ms', 'time_unit = "ms"', time="t [ms]")
    assert read(path.parent / "run.csv", "t [ms]", {A: "x"}, time_unit="ms").period == pytest.approx(1e-4)


def test_bad_cells_are_named_with_their_line(tmp_path: Path) -> None:
    good = csv_text()
    line5 = good.split("\n")[4]
    refused(write(tmp_path, good.replace(line5, "0.3,oops,1")), 'column "x", line 5', "'oops'")
    refused(write(tmp_path, "# a\n\n" + good.replace(line5, "\n0.3,oops,1")), "line 8")
    refused(write(tmp_path, good.replace("t,x,u\n", "t,x,u\ns,rad,V\n")), "after the header", "'s'", "unit = ")
    refused(write(tmp_path, good.replace("t,x,u\n", "")), "begins with numbers in line 1", "header")
    refused(write(tmp_path, good.replace(line5, "0.3,1,1,7")), "line 5 has 4 cells", "3 columns")
    refused(write(tmp_path, "t;x\n0.1;1,5\n0,2;1\n"), "decimal commas and decimal points")
    refused(write(tmp_path, good.replace(line5, '0.3,"1,5",1')), "'1,5'", "comma inside the number")
    refused(write(tmp_path, good.replace(line5, "0.3,1e999,1")), "infinite at sample 4")
    refused(write(tmp_path, "Logger 3\n" + good), "line 2 has 3 cells", "before the header")
    refused({"t": T, "x": ["a"] * 10}, "does not hold numbers")
    refused({"t": T, "x": X * 1j}, "does not hold numbers")
    refused({"t": T, "x": X.reshape(1, 2, 5)}, "(1, 2, 5)")
    refused(pl.DataFrame({"t": T, "x": [[1.0]] * 10}), "List")
    refused(pl.DataFrame({"t": T, "x": ["1"] * 9 + ["b"]}), "row 10", "'b'")


def test_bad_clocks(tmp_path: Path) -> None:
    times = T.copy()
    times[4] = times[3]
    refused({"t": times, "x": X}, 'clock "t"', "sample 4", "0.3 s, then 0.3 s")
    refused({"t": times, "x": X[::-1], "s": T, "u": U}, "sample 4", observe={A: {"column": "x", "time": "s"}}, drive={"actuator.m": "u"})
    times[4] = np.nan
    refused({"t": times, "x": X}, "no finite time at sample 5")
    refused({"t": T[:-1], "x": X}, "9 samples", "10")


def test_bad_series() -> None:
    refused({"t": T, "x": np.full(10, np.nan)}, "no finite sample")
    refused({"t": T[:3], "x": X[:3]}, "3 finite samples")
    refused({"t": T, "x": X, "u": np.full(10, np.nan)}, "actuator.m", "no finite sample", drive={"actuator.m": "u"})
    refused({"t": T, "x": X, "u": np.where(T > 0.5, np.nan, 1.0)}, "shorter", drive={"actuator.m": "u"})
    refused({"t": T, "x": X, "u": np.where(T > 0.5, np.inf, 1.0)}, "infinite at sample 7", drive={"actuator.m": "u"})
    refused({"t": T, "x": X}, "observes nothing", observe={})


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"colum": "x"}, 'did you mean "column"'),
        ({"column": "x", "zzz": 1}, "it takes column"),
        ({"sd": 1.0}, "either column"),
        ({"column": "x", "columns": ["x"]}, "either column"),
        ({"columns": "xyz"}, "list of names"),
        ({"column": 3}, "column = 3"),
        ({"column": "x", "sd": -1}, "sd = -1"),
        ({"column": "x", "scale": 0}, "other than zero"),
        ({"column": "x", "scale": "2"}, "finite number"),
        ({"column": "x", "scale": 10**400}, "finite number"),
        ({"column": "x", "offset": math.nan}, "finite number"),
        ({"column": "x", "unwrap": "yes"}, "true or false"),
        ({"column": "x", "hold": "zero"}, 'unknown option "hold"'),
        ({"column": "x", "unit": 3}, "unit = 3"),
        (None, "name of a column"),
    ],
)
def test_bad_options(spec: Any, word: str) -> None:
    refused({"t": T, "x": X}, A, word, observe={A: spec})


def test_bad_options_of_drives() -> None:
    data = {"t": T, "x": X}
    refused(data, 'hold = \'cubic\'; give "zero" or "linear"', drive={"actuator.m": {"column": "x", "hold": "cubic"}})
    refused(data, 'unknown option "unwrap"', drive={"actuator.m": {"column": "x", "unwrap": True}})
    refused(data, "mapping from channels", drive=["x"])
    refused(data, "is not a channel", drive={"motor": "x"})


# Real recordings


@pytest.mark.parametrize("name", ["gentle_single", "gentle_double", "tumbling_single", "tumbling_double"])
def test_race(shared: Path, name: str) -> None:
    joints = (1, 2) if "double" in name else (1,)
    run = read(
        shared / "race" / f"{name}.csv",
        observe={f"joint.hinge{k}.angle": {"column": f"angle{k}", "sd": 0.01} for k in joints},
        drive={f"joint.hinge{k}.force": {"column": f"torque{k}", "file": f"{name}_drive.csv"} for k in joints},
    )
    raw = np.loadtxt(shared / "race" / f"{name}.csv", delimiter=",", skiprows=1)
    for k in joints:
        np.testing.assert_array_equal(run[f"joint.hinge{k}.angle"].values, raw[:, k])
    assert (run.start, run.end, len(run.drives[0].signal.times)) == (0.01, 10.0, 5001)
    assert not run.warnings()
    assert run.cut(start=0.0).start == 0.0


def test_furuta(shared: Path) -> None:
    files = sorted((shared / "data" / "furuta_qube").glob("r*.csv"))
    assert len(files) == 25
    for file in files:
        run = read(
            file, observe={"joint.arm.angle": "theta", "joint.pendulum.angle": {"column": "alpha", "offset": math.pi}}, drive={"actuator.motor": "voltage"}
        )
        assert len(run.drives[0].signal.times) == len(run["joint.arm.angle"].times) - 1
        raw = np.genfromtxt(file, delimiter=",", skip_header=1)
        np.testing.assert_allclose(run["joint.pendulum.angle"].values, raw[:, 2] + math.pi, atol=1e-12)


def test_multiarm(shared: Path) -> None:
    files = sorted((shared / "data" / "multiarm_pendulum").glob("double_*.csv"))
    assert files
    for file in files:
        run = read(file, observe={"joint.one.angle": "angle1", "joint.two.angle": "angle2"})
        raw = np.loadtxt(file, delimiter=",", skiprows=1)
        np.testing.assert_array_equal(run["joint.two.angle"].values, raw[:, 2])
        assert run.period == pytest.approx(0.001)
