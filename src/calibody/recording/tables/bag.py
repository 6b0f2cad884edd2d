"""ROS 1 bags, ROS 2 bags (a folder, .db3 or .mcap) and MCAP files with ROS messages, read by rosbags from the extra `calibody[ros]`.

A column is a number in the messages of a topic, under its dotted path: `/imu.angular_velocity.z`. Elements of arrays stand in brackets: by
name where the message brings names of that number (`/joint_states.position[elbow]`; `/tf.transforms[gripper].transform.translation.x` by
the child frame), otherwise by index. A message that lacks a name is a gap in its column.

Each topic has two kinds of clock: `/topic.t`, when a message was recorded, and the stamps in the messages, `/topic.header.stamp`. Beside a
column `t` or `header.stamp` is enough. Both count in seconds from the first message of the bag; stamps more than a day away from it are of another clock
(simulated time) and count from that clock's zero. Only topics that are asked for are read whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.recording.tables.files import digest, one_line, package
from calibody.recording.tables.table import Table

LABELS = ("name", "names", "joint_names", "interface_names")
"""Fields whose texts name the elements of the arrays beside and below them."""
MOST_ELEMENTS = 256
"""Longer arrays are images or clouds of points, not signals."""
OTHER_CLOCK = 86_400 * 10**9
"""ns between a stamp and the bag's first message from which the two are on different clocks."""
_NS = 10**9


def read(path: Path) -> Table:
    sha256 = digest(path)
    columns = _BagColumns(path, package("rosbags.highlevel", "ros", path.name), package("rosbags.typesys", "ros", path.name))
    return Table(path.name, columns, sha256, nested=True, unreadable=columns.unreadable)


class _BagColumns(Mapping[str, np.ndarray]):
    """The columns of a bag: their names from the first message of every topic, their numbers when a topic is first used."""

    def __init__(self, path: Path, highlevel: Any, typesys: Any) -> None:
        self.path, self.highlevel, self.typesys = path, highlevel, typesys
        self.topics: dict[str, dict[str, np.ndarray]] = {}
        self.names: dict[str, list[str]] = {}
        self.unreadable: dict[str, str] = {}
        with self._open() as reader:
            for topic in reader.topics:
                self._preview(reader, topic)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._topic(name)[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._topic(name)

    def __iter__(self) -> Iterator[str]:
        for topic, names in self.names.items():
            yield from self.topics.get(topic, names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _open(self) -> _Opened:
        return _Opened(self.path, self.highlevel, self.typesys)

    def _preview(self, reader: Any, topic: str) -> None:
        try:
            for _, _, message in _messages(reader, topic):
                self.names[topic] = [f"{topic}.t", *_flat(message, topic, reader.start_time)]
                return
        except Exception as error:  # a type that is not known, a message that is not what its type says
            self.unreadable[topic] = one_line(error)

    def _topic(self, name: str) -> dict[str, np.ndarray]:
        """The columns of the topic that a column belongs to."""
        topic = max((t for t in self.names if name.startswith(f"{t}.")), key=len, default=None)
        if topic is None:
            return {}
        if topic not in self.topics:
            with self._open() as reader:
                self.topics[topic] = _read_topic(reader, topic)
        return self.topics[topic]


class _Opened:
    """An open bag whose failures are sentences."""

    def __init__(self, path: Path, highlevel: Any, typesys: Any) -> None:
        self.path, self.highlevel, self.typesys = path, highlevel, typesys

    def __enter__(self) -> Any:
        try:
            default = self.typesys.get_typestore(self.typesys.Stores.LATEST)  # for bags that do not contain their message types
            self.reader = self.highlevel.AnyReader([self.path], default_typestore=default)
            self.reader.open()
        except Exception as error:
            raise self._sentence(error) from None
        return self.reader

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.reader.close()
        if isinstance(error, Exception) and not isinstance(error, CalibodyError):
            raise self._sentence(error) from None

    def _sentence(self, error: Exception) -> CalibodyError:
        return CalibodyError(f'"{self.path.name}" cannot be read as a ROS bag: {one_line(error)}.')


def _messages(reader: Any, topic: str) -> Iterator[tuple[int, int, Any]]:
    """(number, time [ns], message) of a topic."""
    connections = [c for c in reader.connections if c.topic == topic]
    for k, (connection, time, raw) in enumerate(reader.messages(connections)):
        yield k, time, reader.deserialize(raw, connection.msgtype)


def _read_topic(reader: Any, topic: str) -> dict[str, np.ndarray]:
    times: list[float] = []
    cells: dict[str, tuple[list[int], list[float]]] = {}
    for k, time, message in _messages(reader, topic):
        times.append((time - reader.start_time) / _NS)
        for name, value in _flat(message, topic, reader.start_time).items():
            rows, values = cells.setdefault(name, ([], []))
            rows.append(k)
            values.append(value)
    out = {f"{topic}.t": np.array(times)}
    for name, (rows, values) in cells.items():
        out[name] = np.full(len(times), np.nan)
        out[name][rows] = values
    return out


def _flat(message: Any, name: str, zero: int) -> dict[str, float]:
    """The numbers of a message by their paths; `zero` [ns] is where stamps count from."""
    out: dict[str, float] = {}
    _put(message, name, zero, [], out)
    return out


def _put(value: Any, name: str, zero: int, labels: list[str], out: dict[str, float]) -> None:
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        out[name] = float(value)
    elif isinstance(value, (list, tuple, np.ndarray)):
        if len(value) <= MOST_ELEMENTS:
            for key, element in zip(_keys(value, labels), value, strict=True):
                _put(element, f"{name}[{key}]", zero, [], out)
    elif hasattr(value, "nanosec"):
        out[name] = _seconds(value, zero)
    elif dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if not f.name.startswith("__")}
        inner = next((_distinct(fields[key]) for key in LABELS if key in fields), []) or labels
        for key, element in fields.items():
            _put(element, f"{name}.{key}", zero, inner, out)


def _keys(elements: Any, labels: list[str]) -> list[Any]:
    if len(labels) == len(elements):
        return labels
    frames = _distinct([getattr(e, "child_frame_id", None) for e in elements])
    return frames or list(range(len(elements)))


def _distinct(texts: Any) -> list[str]:
    """The texts if they can serve as names: all there, all different."""
    good = isinstance(texts, list) and all(isinstance(t, str) and t for t in texts) and len(set(texts)) == len(texts)
    return texts if good else []


def _seconds(stamp: Any, zero: int) -> float:
    ns = int(stamp.sec) * _NS + int(stamp.nanosec)
    same_clock = str(getattr(stamp, "__msgtype__", "")).endswith("Time") and abs(ns - zero) < OTHER_CLOCK
    return (ns - zero if same_clock else ns) / _NS
