"""Sites, sensors and payloads that an experiment declares: they act, come back, and stand in the calibrated model as far as its format goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiment.swing import EXPERIMENT, write

import calibody as cb
from calibody.errors import CalibodyError
from calibody.experiment import load, save
from calibody.experiment.session import fit_into

ADDED = """\
[[site]]
name = "camera"
body = "arm"
position = [0.0, 0.1, -0.2]
[[sensor]]
name = "encoder"
channel = "joint.hinge.angle"
bias = 0.02
[[payload]]
frame = "camera"
name = "load"
mass = 0.2
com = [0.0, 0.0, 0.05]
inertia = [1e-4, 1e-4, 1e-4]
"""
URDF = """<robot name="arm">
  <link name="base"/>
  <link name="upper">
    <inertial><origin xyz="0 0 -0.2"/><mass value="1.0"/><inertia ixx="0.02" iyy="0.02" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <link name="tool0"/>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/><dynamics damping="0.1" friction="0"/></joint>
  <joint name="flange" type="fixed"><parent link="upper"/><child link="tool0"/><origin xyz="0 0 -0.4"/></joint>
</robot>
"""


def test_they_are_part_of_the_model(tmp_path: Path) -> None:
    experiment = load(write(tmp_path, ADDED + EXPERIMENT))
    model = experiment.model()
    assert model["site.camera.position"] == (0.0, 0.1, -0.2) and model["sensor.encoder.bias"] == 0.02
    assert model["body.load.mass"] == 0.2 and model.body("load").parent == "arm" and model["body.load.position"] == (0.0, 0.1, -0.2)
    assert load(save(experiment, tmp_path / "again.toml")) == experiment
    assert "camera" not in (tmp_path / "swing.xml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('body = "arm"', 'bodi = "arm"', (":3:", '[[site]] has an unknown key "bodi"', '"body"')),
        ("position = [0.0, 0.1, -0.2]", "position = [0.0, 0.1]", (":4:", "a list of 3 numbers")),
        ('channel = "joint.hinge.angle"\n', "", (":5:", "this [[sensor]] has no channel")),
        ("mass = 0.2", "mass = -0.2", (":9:", "must not be negative")),
        ("inertia = [1e-4, 1e-4, 1e-4]", "inertia = [1.0, 1e-4, 1e-4]", (":9:", "not the inertia of any distribution")),
        ("[[payload]]", "[payload]", ("not a list of tables", "[[payload]]")),
    ],
)
def test_mistakes_have_a_line(tmp_path: Path, old: str, new: str, words: tuple[str, ...]) -> None:
    with pytest.raises(CalibodyError) as caught:
        load(write(tmp_path, ADDED.replace(old, new) + EXPERIMENT))
    for word in words:
        assert word in str(caught.value), caught.value


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('frame = "camera"', 'frame = "camra"', 'is no body or site of the model; did you mean "camera"?'),
        ('channel = "joint.hinge.angle"', 'channel = "joint.hinge.angel"', "joint.hinge.angle"),
        ('name = "camera"', 'name = "tip"', "two elements named site.tip"),
    ],
)
def test_what_the_model_does_not_have_is_said(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(CalibodyError, match=words):
        load(write(tmp_path, ADDED.replace(old, new) + EXPERIMENT)).model()


def recorded(model: cb.Model, path: Path, bias: float = 0.0) -> None:
    times = np.arange(0.0, 3.005, 0.01)
    torque = 2.0 * np.sin(3.0 * times) + 1.0 * np.sin(8.0 * times)
    motion = cb.simulate(model, 3.0, 0.002, drive={"joint.hinge.force": (times, torque)})
    angle = motion["joint.hinge.angle"][::5] + 1e-3 * np.random.default_rng(1).normal(size=len(times)) + bias
    pl.DataFrame({"t": times, "q": angle, "tau": torque}).write_csv(path)


PAYLOAD = """\
[model]
file = "arm.urdf"
[[payload]]
frame = "tool0"
mass = 0.5
[[sensor]]
name = "encoder"
channel = "joint.hinge.angle"
bias = 0.1
[[run]]
data = "log.csv"
observe = { "joint.hinge.angle" = { column = "q", sd = 1e-3 } }
drive = { "joint.hinge.force" = "tau" }
[[estimate]]
parameter = "body.payload.mass"
"""


def test_a_payload_on_a_massless_frame_is_found_and_written(tmp_path: Path) -> None:
    """A bias that is declared acts; the calibrated URDF has the payload as a link of its own, and nothing else of the text has changed."""
    (tmp_path / "arm.urdf").write_text(URDF)
    (tmp_path / "fit.toml").write_text(PAYLOAD)
    experiment = load(tmp_path / "fit.toml")
    recorded(experiment.model().replace({"body.payload.mass": 0.8}), tmp_path / "log.csv", bias=0.1)
    found = fit_into(experiment, tmp_path / "out", validate=False)
    e = found.parameters["body.payload.mass"]
    assert found.converged and e.sd is not None and abs(e.value - 0.8) < 3.0 * e.sd < 0.05
    assert found.fit[0].rms_over_sd < 1.2
    written = (tmp_path / "out" / "arm.urdf").read_text()
    assert [line for line in written.split("\n") if "payload" not in line] == URDF.split("\n")
    assert found.model["body.payload.mass"] == pytest.approx(e.value) and found.model.body("payload").parent == "tool0"
    assert any('the saved file has it as a link, fixed to "tool0"' in note for note in found.notes)
    assert any("does not contain what the experiment declares beside it (sensor.encoder)" in note for note in found.notes)


# -- joints that are held -------------------------------------------------------------------------------------------------------------------

GRASP = """\
<mujoco model="grasp">
  <worldbody>
    <body name="arm"><joint name="shoulder" axis="0 1 0" damping="0.1"/><inertial pos="0 0 -0.2" mass="1" diaginertia="0.02 0.02 0.001"/>
      <body name="hand" pos="0.03 0 -0.4" quat="0.9 0.1 0.3 0.2"><joint name="wrist" axis="0.2 1 0.3" pos="0.01 0.02 0.03" ref="0.1"/><inertial pos="0 0.01 -0.05" mass="0.3" diaginertia="0.001 0.002 0.0015"/>
        <body name="finger" pos="0 0 -0.1"><joint name="grip" type="slide" axis="0 1 1"/><inertial pos="0 0 -0.02" mass="0.05" diaginertia="1e-5 1e-5 1e-5"/></body></body></body>
  </worldbody>
  <actuator><motor name="m" joint="shoulder"/><position name="g" joint="grip" kp="5"/></actuator>
</mujoco>
"""


def test_a_held_joint_is_where_it_was(tmp_path: Path) -> None:
    """Against MuJoCo with the joints at these coordinates: the same places, and the same inertia about the shoulder."""
    import mujoco

    from calibody.experiment.held import held, released

    (tmp_path / "grasp.xml").write_text(GRASP)
    model = cb.load(tmp_path / "grasp.xml")
    fixed = held(model, {"wrist": 0.7, "grip": 0.04})
    assert [j.name for j in fixed.joints] == ["shoulder"] and [a.name for a in fixed.actuators] == ["m"]
    engine = mujoco.MjModel.from_xml_string(GRASP)
    state = mujoco.MjData(engine)
    state.qpos[:] = 0.3, 0.7, 0.04
    mujoco.mj_forward(engine, state)
    ours = cb.simulate(fixed, 0.002, 0.001, {"joint.shoulder.angle": 0.3})
    for name in ("hand", "finger"):
        np.testing.assert_allclose(ours[f"body.{name}.com"][0], state.xipos[engine.body(name).id], atol=1e-9)
    mass = np.zeros((3, 3))
    mujoco.mj_fullM(engine, state, mass)
    zero = np.zeros(1)
    needed = [cb.inverse_dynamics(fixed, np.array([0.3]), zero, np.array([a]))[0] for a in (0.0, 1.0)]
    assert needed[1] - needed[0] == pytest.approx(mass[0, 0], rel=1e-9)
    heavier = fixed.replace({"body.hand.mass": 0.4})
    whole = released(heavier)
    assert whole.joints == model.joints and whole.actuators == model.actuators and whole["body.hand.mass"] == 0.4
    assert whole.body("finger") == model.body("finger")
    (tmp_path / "stopped.xml").write_text(
        GRASP.replace('type="slide"', 'type="slide" range="0 0.08"').replace('name="shoulder"', 'name="shoulder" range="-60 60"')
    )
    stopped = cb.load(tmp_path / "stopped.xml", contacts=True)
    assert [limit.joint for limit in stopped.limits] == ["shoulder", "shoulder", "grip", "grip"]
    fixed = held(stopped, {"wrist": 0.7, "grip": 0.04})
    assert [limit.joint for limit in fixed.limits] == ["shoulder", "shoulder"] and sorted(released(fixed).tables["limit"]) == sorted(stopped.tables["limit"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("held = { wrst = 0.0 }", 'swing.toml:3: The model holds "wrst", which is no joint of it'),
        ('held = { hinge = "open" }', "give a finite number"),
        ("held = 3", "a table of joints and where they were"),
    ],
)
def test_what_cannot_be_held_is_said(tmp_path: Path, line: str, said: str) -> None:
    from experiment.swing import EXPERIMENT, write

    file = write(tmp_path, EXPERIMENT.replace('file = "swing.xml"\n', f'file = "swing.xml"\n{line}\n', 1))
    with pytest.raises(cb.CalibodyError) as caught:
        load(file).model()
    assert said in str(caught.value)


def test_held_joints_are_written_down(tmp_path: Path) -> None:
    """An experiment with them is saved and read again; of a mass that ended at zero a model is written all the same."""
    from calibody.experiment.possible import possible
    from calibody.experiment.writing import save

    (tmp_path / "grasp.xml").write_text(GRASP)
    text = (
        '[model]\nfile = "grasp.xml"\nheld = { wrist = 0.7, grip = 0.04 }\n[[run]]\ndata = "log.csv"\nobserve = { "joint.shoulder.angle" = { column = "q" } }\n'
    )
    (tmp_path / "grasp.toml").write_text(text)
    found = load(tmp_path / "grasp.toml")
    save(found, tmp_path / "again.toml")
    assert load(tmp_path / "again.toml") == found and dict(found.held) == {"wrist": 0.7, "grip": 0.04}
    nothing = found.model().replace({"body.hand.mass": 0.0}, check=False)
    moved, notes = possible(nothing, ())
    assert 0.0 < moved["body.hand.mass"] < 1e-5 and any("mass of body.hand" in note for note in notes)
