"""Recordings of other ecosystems, each written by that ecosystem's own library."""

from __future__ import annotations

import builtins
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibody.errors import CalibodyError
from calibody.recording.readers import read
from calibody.recording.tables import open_table

A, B = "joint.elbow.angle", "joint.wrist.angle"
N = 20
T = np.arange(N) * 0.01
X, Y = np.sin(T), np.cos(T)
SECONDS = 1_700_000_000
"""Since 1970, when the bags begin."""


def refused(source: Any, *words: str, **options: Any) -> None:
    options.setdefault("observe", {A: "x"})
    with pytest.raises(CalibodyError) as caught:
        read(source, **options)
    text = str(caught.value)
    assert text.endswith((".", "?")) and "\n" not in text
    for word in words:
        assert word in text, text


# MAT


def test_mat_of_scipy(tmp_path: Path) -> None:
    from scipy.io import savemat

    signals = np.array([(X,), (Y,)], dtype=[("values", object)])
    log = {"time": T, "theta": X[:, None], "pos": np.stack([X, Y, T], axis=1), "who": "me", "out": {"tau": Y}, "signals": signals}
    for version in ("5", "4"):
        path = tmp_path / f"v{version}.mat"
        savemat(path, {"t": T, "x": X} if version == "4" else {"t": T, "x": X, "log": log, "wide": np.ones((2, 3000))}, format=version)
        np.testing.assert_array_equal(read(path, observe={A: "x"})[A].values, X)
    run = read(path.with_name("v5.mat"), "time", {A: "log.theta", B: "log.signals[1].values", "site.p.position.y": "log.pos[1]"}, {"actuator.m": "log.out.tau"})
    np.testing.assert_array_equal(run[A].values, X)
    np.testing.assert_array_equal(run[B].values, Y)
    np.testing.assert_array_equal(run["site.p.position.y"].values, Y)
    np.testing.assert_array_equal(run.drives[0].signal.values, Y)
    refused(path.with_name("v5.mat"), "(2, 3000)", "one row per sample", observe={A: "wide"})
    refused(path.with_name("v5.mat"), 'did you mean "log.theta"', observe={A: "log.teta"})


def test_mat_73(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="MATLAB 7.3 is read with h5py")
    path = tmp_path / "new.mat"
    with h5py.File(path, "w", userblock_size=512) as file:  # as MATLAB writes it: a header of its own, dimensions reversed, cells as references

        def put(group: Any, name: str, array: np.ndarray, kind: str = "double") -> Any:
            item = group.create_dataset(name, data=array)
            item.attrs["MATLAB_class"] = np.bytes_(kind)
            return item

        put(file, "t", T[None, :])
        put(file, "m", np.stack([X, Y]))
        log = file.create_group("log")
        log.attrs["MATLAB_class"] = np.bytes_("struct")
        put(log, "theta", X[None, :])
        put(log, "who", np.frombuffer(b"me", np.uint8).astype(np.uint16)[:, None], "char")
        cell = put(file.create_group("#refs#"), "a", Y[None, :])
        put(log, "cell", np.array([[cell.ref]], dtype=h5py.ref_dtype), "cell")
        put(file, "ts", np.zeros((1, 6), np.uint32), "timeseries").attrs["MATLAB_object_decode"] = np.int32(3)
    run = read(path, observe={A: "log.theta", B: "log.cell[0]", "joint.s.position": "m[1]"})
    np.testing.assert_array_equal(run[A].values, X)
    np.testing.assert_array_equal(run[B].values, Y)
    np.testing.assert_array_equal(run["joint.s.position"].values, Y)
    refused(path, '"ts"', "object of a MATLAB class", "ts.Time", observe={A: "ts"})
    refused(path, "no column", observe={A: "log.who"})


# ROS


def joint_state(types: dict[str, Any], k: int, ros1: bool) -> Any:
    """Elbow and wrist, named in an order that changes."""
    order = [0, 1] if k % 2 else [1, 0]
    values = np.array([X[k], Y[k]])[order]
    stamp = types["builtin_interfaces/msg/Time"](sec=SECONDS + k // 100, nanosec=k % 100 * 10_000_000)
    header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="", **({"seq": k} if ros1 else {}))
    return types["sensor_msgs/msg/JointState"](header, [["elbow", "wrist"][i] for i in order], values, np.array([]), np.array([]))


def transform(types: dict[str, Any], k: int, frame: str, ros1: bool) -> Any:
    stamp = types["builtin_interfaces/msg/Time"](sec=k, nanosec=5)  # simulated time
    header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="world", **({"seq": k} if ros1 else {}))
    moved = types["geometry_msgs/msg/Transform"](types["geometry_msgs/msg/Vector3"](T[k], 0.0, 0.0), types["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0))
    stamped = types["geometry_msgs/msg/TransformStamped"](header, frame, moved)
    return types["tf2_msgs/msg/TFMessage"]([stamped])


def write_bag(path: Path, kind: str) -> Path:
    """A bag with joint states, torques in an array without names, and two frames that take turns."""
    from rosbags.rosbag1 import Writer as Writer1
    from rosbags.rosbag2 import StoragePlugin, Writer as Writer2
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    ros1 = kind == "ros1"
    store = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
    store.register(get_types_from_msg("geometry_msgs/TransformStamped[] transforms", "tf2_msgs/msg/TFMessage"))
    types = store.types
    serialize = store.serialize_ros1 if ros1 else store.serialize_cdr
    layout = types["std_msgs/msg/MultiArrayLayout"]([], 0)
    with Writer1(path) if ros1 else Writer2(path, version=9, storage_plugin=StoragePlugin.MCAP if kind == "mcap" else StoragePlugin.SQLITE3) as writer:
        topics = {"/joint_states": "sensor_msgs/msg/JointState", "/torque": "std_msgs/msg/Float64MultiArray", "/tf": "tf2_msgs/msg/TFMessage"}
        connections = {topic: writer.add_connection(topic, kind, typestore=store) for topic, kind in topics.items()}
        for k in range(N):
            now = SECONDS * 10**9 + k * 10_000_000
            messages = {
                "/joint_states": joint_state(types, k, ros1),
                "/torque": types["std_msgs/msg/Float64MultiArray"](layout, np.array([Y[k], 0.0])),
                "/tf": transform(types, k, ["gripper", "base"][k % 2], ros1),
            }
            for topic, message in messages.items():
                writer.write(connections[topic], now, serialize(message, topics[topic]))
    return path


@pytest.fixture(params=["ros1", "sqlite3", "mcap"])
def bag(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    pytest.importorskip("rosbags", reason="bags are read with rosbags")
    return write_bag(tmp_path / ("log.bag" if request.param == "ros1" else "log"), request.param)


def test_bags(bag: Path) -> None:
    inner = [p for p in bag.iterdir() if p.suffix in (".db3", ".mcap")] if bag.is_dir() else []
    for source in (bag, *inner):
        observe = {A: "/joint_states.position[elbow]", B: {"column": "/joint_states.position[wrist]", "time": "header.stamp"}}
        run = read(source, observe=observe, drive={"actuator.m": "/torque.data[0]"})
        for channel, truth in ((A, X), (B, Y)):
            np.testing.assert_array_equal(run[channel].values, truth)
            np.testing.assert_allclose(run[channel].times, T, atol=1e-12)
        np.testing.assert_array_equal(run.drives[0].signal.values, Y)
        assert run.source == source.name and run.sha256 is not None and len(run.sha256) == 64


def test_frames_of_bags(bag: Path) -> None:
    column = "/tf.transforms[gripper].transform.translation.x"
    by_receipt, by_stamp = (read(bag, time, {"site.p.position.x": column}) for time in ("t", "header.stamp"))
    assert np.flatnonzero(by_receipt["site.p.position.x"].present).tolist() == list(range(0, N, 2))
    np.testing.assert_allclose(by_stamp["site.p.position.x"].times, np.arange(0, N, 2) + 5e-9, rtol=1e-12)
    np.testing.assert_array_equal(by_stamp["site.p.position.x"].values, T[::2])


def test_bags_that_cannot_be_read(bag: Path, tmp_path: Path) -> None:
    refused(bag, 'no column "/joint_state.position[elbow]"', 'did you mean "/joint_states.', observe={A: "/joint_state.position[elbow]"})
    refused(bag, "/joint_states.position[knee]", observe={A: "/joint_states.position[knee]"})
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "is a folder, and no ROS 2 bag", "name a file in it")
    for suffix in (".bag", ".mcap", ".db3"):
        (tmp_path / f"bad{suffix}").write_bytes(b"nonsense" * 20)
        refused(tmp_path / f"bad{suffix}", "cannot be read as a ROS bag")
    refused(tmp_path / "lost.bag", "does not exist")


# C3D


def write_c3d(path: Path, unit: str = "mm") -> Path:
    import ezc3d

    file = ezc3d.c3d()
    point, analog = file["parameters"]["POINT"], file["parameters"]["ANALOG"]
    point["RATE"]["value"], point["UNITS"]["value"], point["LABELS"]["value"] = [100], [unit], ("LASI", "RASI")
    points = np.ones((4, 2, N))
    points[:3, 0] = 1000 * np.stack([X, Y, T])
    points[:3, 1, 4] = np.nan
    file["data"]["points"] = points
    analog["RATE"]["value"], analog["LABELS"]["value"] = [1000], ("Fz",)
    file["data"]["analogs"] = np.arange(10.0 * N).reshape(1, 1, -1)
    file.write(str(path))
    return path


def test_c3d(tmp_path: Path) -> None:
    pytest.importorskip("ezc3d", reason="C3D is read with ezc3d")
    path = write_c3d(tmp_path / "walk.c3d")
    run = read(
        path,
        observe={"site.hip.position": {"columns": ["LASI.x", "LASI.y", "LASI.z"]}, "site.right.position.x": "RASI.x"},
        drive={"joint.a.force": "analog.Fz"},
    )
    np.testing.assert_allclose(run["site.hip.position.y"].values, Y, rtol=1e-6)
    np.testing.assert_allclose(run["site.hip.position.z"].times, T, atol=1e-12)
    assert np.flatnonzero(~run["site.right.position.x"].present).tolist() == [4]
    np.testing.assert_allclose(run.drives[0].signal.times, np.arange(10 * N) / 1000)
    np.testing.assert_allclose(run.drives[0].signal.values, np.arange(10 * N))
    in_metres = read(write_c3d(tmp_path / "m.c3d", "m"), observe={"site.hip.position.x": "LASI.x"})
    np.testing.assert_allclose(in_metres["site.hip.position.x"].values, 1000 * X, rtol=1e-6)
    refused(path, 'did you mean "LASI.x"', observe={A: "LAS.x"})
    (tmp_path / "bad.c3d").write_bytes(b"nonsense")
    refused(tmp_path / "bad.c3d", "cannot be read as C3D")


# Packages that are not there


@pytest.mark.parametrize(("name", "module", "extra"), [("x.mat", "h5py", "hdf5"), ("x.mcap", "rosbags", "ros"), ("x.c3d", "ezc3d", "c3d")])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str) -> None:
    original = builtins.__import__

    def without(wanted: str, *rest: Any) -> Any:
        if wanted.split(".")[0] == module:
            raise ImportError(wanted)
        return original(wanted, *rest)

    for loaded in [m for m in sys.modules if m.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / name).write_bytes(b"\x89HDF\r\n\x1a\n")
    refused(tmp_path / name, module, f'pip install "calibody[{extra}]"')


def test_mat_files_cut_short(tmp_path: Path) -> None:
    # Only missing pieces: with a changed byte in a tag scipy's reader can end the process.
    from scipy.io import savemat

    buffer = io.BytesIO()
    savemat(buffer, {"t": T, "x": X, "log": {"y": Y}})
    whole = buffer.getvalue()
    for length in range(0, len(whole), 7):
        (tmp_path / "bad.mat").write_bytes(whole[:length])
        try:
            open_table(tmp_path / "bad.mat")
        except CalibodyError as error:
            assert "\n" not in str(error)
