"""Twenty mistakes people make in files, and the same files without them: three mechanisms, a recording of each, and what is changed in model, columns or experiment.

`named` are the words one of which a headline has to contain to have named the mistake: two of them where the data cannot tell (a negated angle of a pendulum and a negated torque are one motion).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

import calibody as cb

Columns = dict[str, np.ndarray]
PERIOD, DURATION = 0.01, 4.0

ARM = """\
<mujoco model="arm">
  <option gravity="0 0 -9.81"/>
  <worldbody>
    <body name="upper">
      <joint name="shoulder" type="hinge" axis="0 1 0" damping="0.1"/>
      <inertial pos="0 0 -0.2" mass="1.0" diaginertia="0.015 0.015 0.001"/>
      <body name="fore" pos="0 0 -0.4">
        <joint name="elbow" type="hinge" axis="0 1 0" damping="0.05"/>
        <inertial pos="0.02 0 -0.15" mass="0.6" diaginertia="0.006 0.006 0.0005"/>
        <site name="hand" pos="0 0.05 -0.3"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="m1" joint="shoulder"/><motor name="m2" joint="elbow"/></actuator>
</mujoco>
"""
CART = """\
<mujoco model="cart">
  <worldbody>
    <body name="cart">
      <joint name="rail" type="slide" axis="1 0 0" damping="2" stiffness="20"/>
      <inertial pos="0 0 0" mass="1.5" diaginertia="0.01 0.01 0.01"/>
      <body name="pole">
        <joint name="pivot" type="hinge" axis="0 1 0" damping="0.01"/>
        <inertial pos="0 0 -0.25" mass="0.3" diaginertia="0.006 0.006 0.0002"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="push" joint="rail"/></actuator>
</mujoco>
"""
ARM_UNKNOWNS = {"joint.shoulder.damping": 0.2, "joint.elbow.damping": 0.1}
CART_UNKNOWNS = {"joint.rail.damping": 3.0, "joint.pivot.damping": 0.02}
MODELS, UNKNOWNS = {"arm": ARM, "marked": ARM, "cart": CART}, {"arm": ARM_UNKNOWNS, "marked": ARM_UNKNOWNS, "cart": CART_UNKNOWNS}
CHANNELS = {
    "arm": {"joint.shoulder.angle": ("q1", 0.002), "joint.elbow.angle": ("q2", 0.002)},
    "marked": {
        "site.hand.position.x": ("x", 0.001),
        "site.hand.position.y": ("y", 0.001),
        "site.hand.position.z": ("z", 0.001),
        "joint.shoulder.angle": ("q1", 0.002),
    },
    "cart": {"joint.rail.position": ("s", 0.0005), "joint.pivot.angle": ("a", 0.002), "joint.pivot.rate": ("w", 0.02)},
}
DRIVES = {"arm": {"actuator.m1": "u1", "actuator.m2": "u2"}, "marked": {"actuator.m1": "u1", "actuator.m2": "u2"}, "cart": {"actuator.push": "f"}}


@cache
def recording(kind: str, seed: int = 17) -> Columns:
    """What a machine as the model says would have logged, with noise of its own for every seed."""
    import tempfile

    t = np.arange(0.0, DURATION + 0.5 * PERIOD, PERIOD)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        path.write_text(MODELS[kind])
        model = cb.load(path)
    drives = {
        "u1": 3.0 * np.sin(2.3 * t) + 1.5 * np.sin(5.1 * t + 0.4),
        "u2": 1.0 * np.sin(3.7 * t + 1.0) + 0.6 * np.sin(7.9 * t),
        "f": 6.0 * np.sin(3.1 * t) + 4.0 * np.sin(6.7 * t + 0.7),
    }
    used = {channel: drives[column] for channel, column in DRIVES[kind].items()}
    start = {"joint.pivot.angle": 0.5} if kind == "cart" else {"joint.shoulder.angle": 0.6, "joint.elbow.angle": 0.4}
    motion = cb.simulate(model, DURATION, PERIOD / 10, initial=start, drive={c: (t, u) for c, u in used.items()})
    chance = np.random.default_rng(seed)
    columns = {"t": t, **{column: used[channel] for channel, column in DRIVES[kind].items()}}
    for channel, (column, sd) in CHANNELS[kind].items():
        columns[column] = motion[channel][::10] + sd * chance.normal(size=len(t))
    return columns


def experiment(kind: str) -> str:
    observed = ", ".join(f'"{c}" = {{ column = "{column}", sd = {sd} }}' for c, (column, sd) in CHANNELS[kind].items())
    driven = ", ".join(f'"{c}" = {{ column = "{column}" }}' for c, column in DRIVES[kind].items())
    unknown = "".join(f'[[estimate]]\nparameter = "{p}"\ninitial = {x}\n' for p, x in UNKNOWNS[kind].items())
    return f'[model]\nfile = "model.xml"\n[[run]]\ndata = "log.csv"\nobserve = {{ {observed} }}\ndrive = {{ {driven} }}\n{unknown}'


def write(folder: Path, case: Case, mistaken: bool) -> Path:
    """Model, recording and experiment of a case in a folder, with its mistake or without."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = case.kind
    model, columns, text = MODELS[kind], dict(recording(kind, 17 + CASES.index(case))), experiment(kind)
    if mistaken:
        model, columns, text = case.model(model), case.columns(columns), case.experiment(text)
    (folder / "model.xml").write_text(model)
    pl.DataFrame(columns).write_csv(folder / "log.csv")
    path = folder / f"{kind}.toml"
    path.write_text(text)
    return path


def _same(x: object) -> object:
    return x


@dataclass(frozen=True)
class Case:
    name: str
    kind: str
    named: tuple[str, ...]
    columns: Callable[[Columns], Columns] = _same  # type: ignore[assignment]
    model: Callable[[str], str] = _same  # type: ignore[assignment]
    experiment: Callable[[str], str] = _same  # type: ignore[assignment]


def _times(factor: float, *names: str) -> Callable[[Columns], Columns]:
    return lambda c: {name: factor * x if name in names else x for name, x in c.items()}


def _swapped(a: str, b: str) -> Callable[[Columns], Columns]:
    return lambda c: {**c, a: c[b], b: c[a]}


def _late(samples: int, *names: str) -> Callable[[Columns], Columns]:
    """Columns whose samples were written so many rows late (early: negative)."""

    def change(c: Columns) -> Columns:
        n, k = len(c["t"]), abs(samples)
        moved = {name: x[: n - k] if (name in names) == (samples > 0) else x[k:] for name, x in c.items()}
        return {**moved, "t": c["t"][: n - k]}

    return change


def _plus(by: float, name: str) -> Callable[[Columns], Columns]:
    return lambda c: {**c, name: c[name] + by}


def _instead(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


CASES = (
    Case("negated angle", "arm", ("sign of joint.elbow.angle",), _times(-1.0, "q2")),
    Case("negated drive", "arm", ("sign of the drive actuator.m1",), _times(-1.0, "u1")),
    Case("drive in mN m", "arm", ("1000 times too large",), _times(1000.0, "u1", "u2")),
    Case("drive in kN", "cart", ("1000 times too small",), _times(1e-3, "f")),
    Case("one drive in mN m", "arm", ("actuator.m2 looks 1000 times too large",), _times(1000.0, "u2")),
    Case("degrees", "arm", ("unit = \"deg\"",), _times(180.0 / math.pi, "q1", "q2")),
    Case("one angle in degrees", "cart", ("joint.pivot.angle looks 57.3 times too large",), _times(180.0 / math.pi, "a")),
    Case("radians called degrees", "arm", ("57.3 times too small",), experiment=_instead('sd = 0.002 }', 'sd = 0.1, unit = "deg" }')),
    Case("swapped joints", "arm", ("joint.shoulder.angle and joint.elbow.angle look swapped",), _swapped("q1", "q2")),
    Case("swapped drives", "arm", ("actuator.m1 and actuator.m2 look swapped",), _swapped("u1", "u2")),
    Case("clock in ms", "arm", ("time_unit = \"ms\"",), _times(1000.0, "t")),
    Case("angles one sample late", "arm", ("late against the drives",), _late(1, "q1", "q2")),
    Case("drive three samples late", "cart", ("late against the measured channels",), _late(3, "f")),
    Case("gravity upside down", "arm", ("Gravity looks like",), model=_instead("0 0 -9.81", "0 0 9.81")),
    Case("gravity along y", "arm", ("Gravity looks like",), model=_instead("0 0 -9.81", "0 -9.81 0")),
    Case("link too short", "arm", ("joint.elbow.position",), model=_instead('pos="0 0 -0.4"', 'pos="0 0 -0.3"')),
    Case("mm called m", "cart", ("unit = \"mm\"",), _times(1000.0, "s")),
    Case("offset of pi", "cart", ("joint.pivot.angle looks half a turn",), _plus(math.pi, "a")),
    Case("rpm called rad/s", "cart", ("joint.pivot.rate",), _times(60.0 / (2.0 * math.pi), "w")),
    Case("markers with y up", "marked", ("other axes",), _swapped("y", "z")),
)  # fmt: skip
