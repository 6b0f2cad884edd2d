"""`calibody new`: columns, units, clocks and noise are recognised, the file it writes fits without an edit, and nothing is written over."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calibody as cb
from calibody import cli
from calibody.experiment import load
from calibody.experiment.guess import names
from calibody.experiment.guess.columns import matched
from calibody.experiment.guess.new import propose
from calibody.experiment.guess.numbers import clock, noise
from calibody.recording.tables import Table

ARM = """\
<mujoco model="arm">
  <worldbody>
    <body name="upper"><joint name="shoulder" axis="0 1 0" damping="0.3"/><inertial pos="0 0 -0.2" mass="2" diaginertia="0.03 0.03 0.01"/>
      <body name="lower" pos="0 0 -0.4"><joint name="elbow" axis="0 1 0" damping="0.1"/><inertial pos="0 0 -0.15" mass="1" diaginertia="0.01 0.01 0.005"/>
        <site name="tip" pos="0 0 -0.3"/></body></body>
  </worldbody>
</mujoco>
"""
JOINTS = ("shoulder", "elbow")


def arm(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "arm.xml").write_text(ARM)
    return folder / "arm.xml"


def motion(model: cb.Model, sd: float = 5e-4) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Time, angles with noise and torques of a small arm."""
    t = np.arange(0.0, 5.005, 0.01)
    torque = {"shoulder": 5.0 * np.sin(2.1 * t) + 2.0 * np.sin(6.3 * t), "elbow": 0.8 * np.sin(3.7 * t + 1.0) + 0.5 * np.sin(9.1 * t)}
    made = cb.simulate(model, 5.0, 0.0005, drive={f"joint.{j}.force": (t, x) for j, x in torque.items()})
    noise = np.random.default_rng(0).normal(size=(2, len(t)))
    return t, {j: made[f"joint.{j}.angle"][::20] + sd * noise[k] for k, j in enumerate(JOINTS)}, torque


STYLES = {
    "by name": ("time [s]", "{j}_pos", "{j}_torque", 1.0, 1.0, 1.0),
    "degrees by range, milliseconds": ("timestamp", "q_{j}", "tau_{j}", 1000.0, np.rad2deg(1.0), 1.0),
    "numbered from 0": ("t", "q[{k}]", "effort[{k}]", 1.0, 1.0, 1.0),
    "numbered from 1, unit in the name, microseconds": ("t_us", "joint{n}_angle_deg", "joint{n}_torque", 1e6, np.rad2deg(1.0), 1.0),
    "millinewton metres": ("t", "{j}", "{j} torque", 1.0, 1.0, 1000.0),
}


@pytest.mark.parametrize("style", STYLES)
def test_columns_units_and_clocks_are_recognised(tmp_path: Path, style: str) -> None:
    file = arm(tmp_path)
    time, q, tau, clock_unit, angle_unit, torque_unit = STYLES[style]
    t, angles, torques = motion(cb.load(file))
    columns = {time: t * clock_unit, "temperature": 20.0 + 0.0 * t}
    for names_, values, unit in ((tau, torques, torque_unit), (q, angles, angle_unit)):
        columns |= {names_.format(j=j, k=k, n=k + 1): unit * values[j] for k, j in enumerate(JOINTS)}
    pl.DataFrame(columns).write_csv(tmp_path / "log.csv")
    found = propose(file, [tmp_path / "log.csv"], tmp_path / "log.toml")
    (tmp_path / "log.toml").write_text(found.text)
    experiment = load(tmp_path / "log.toml")
    assert experiment == found.experiment
    run = experiment.runs()[0]
    assert [o.channel for o in run.observations] == ["joint.shoulder.angle", "joint.elbow.angle"]
    for o in run.observations:
        np.testing.assert_allclose(o.values, angles[o.channel.split(".")[1]], rtol=1e-9, atol=1e-9)
        assert o.sd == pytest.approx(5e-4, rel=0.15)
    for d in run.drives:
        np.testing.assert_allclose(d.signal.values, torques[d.channel.split(".")[1]], rtol=1e-9)
        assert d.signal.hold == "zero" and d.sd is None
    np.testing.assert_allclose(run.observations[0].times, t, atol=1e-9)
    assert {"joint.shoulder.damping", "joint.elbow.damping", "body.lower.mass"} <= set(experiment.unknowns)
    assert not any(name.endswith("friction") for name in experiment.unknowns), "there is none in the recording"
    assert "# not used: temperature" in found.text and all(g.sure in ("sure", "likely", "unsure") for g in found.guesses)


def test_the_file_fits_without_an_edit(tmp_path: Path) -> None:
    """From the shell: new, check, fit; masses and frictions within four standard deviations; dry friction is seen."""
    file = arm(tmp_path)
    truth = {"body.lower.mass": 1.3, "joint.shoulder.damping": 0.5, "joint.elbow.damping": 0.05, "joint.elbow.friction": 0.2}
    t, angles, torques = motion(cb.load(file).replace(truth), 3e-3)
    pl.DataFrame({"t": t} | {f"q_{j}": x for j, x in angles.items()} | {f"tau_{j}": x for j, x in torques.items()}).write_csv(tmp_path / "log.csv")
    for command in (["new", file, tmp_path / "log.csv"], ["check", tmp_path / "log.toml"], ["fit", tmp_path / "log.toml", "--quiet"]):
        with pytest.raises(SystemExit) as caught:
            cli.main([str(word) for word in command])
        assert caught.value.code == 0, command
    found = cb.open(tmp_path / "log-fit")
    for path, value in truth.items():
        e = found.parameters[path]
        assert e.sd is not None and abs(e.value - value) < 4.0 * e.sd, path


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = arm(tmp_path)
    t, angles, torques = motion(cb.load(file))
    pl.DataFrame({"t": t} | {f"q_{j}": x for j, x in angles.items()} | {f"tau_{j}": x for j, x in torques.items()}).write_csv(tmp_path / "log.csv")
    (tmp_path / "log.toml").write_text("# mine")

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            cli.main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    code, _, err = run("new", file, tmp_path / "log.csv")
    assert code == 2 and "exists; give another name to --out, or --force" in err and (tmp_path / "log.toml").read_text() == "# mine"
    code, _, err = run("new", file, tmp_path / "log.csv", "--out", file, "--force")
    assert code == 2 and "was given and would be written over" in err and file.read_text() == ARM
    code, out, _ = run("new", file, tmp_path / "log.csv", "--force", "--payload", "tip", "--json")
    assert code == 0 and "body.payload.mass" in json.loads(out)["unknowns"] and "# mine" not in (tmp_path / "log.toml").read_text()
    code, _, err = run("new", file, tmp_path / "log.csv", "--force", "--payload", "tipp")
    assert code == 2 and 'did you mean "tip"?' in err
    (tmp_path / "other.csv").write_text("a,b\n1,2\n2,3\n3,4\n4,5\n5,6\n")
    code, _, err = run("new", file, tmp_path / "other.csv")
    assert code == 2 and 'has no column that looks like a position of a joint (it has "a", "b")' in err


@pytest.mark.parametrize(
    ("column", "quantity"),
    [
        ("actual_q_0", "position"),
        ("target_q_0", "unused"),
        ("thetaDot", "rate"),
        ("dq_3", "rate"),
        ("qdd1", "unused"),
        ("tau_J_0", "torque"),
        ("tau_ext_hat_filtered_0", "unused"),
        ("target_moment_2", "command"),
        ("motor_voltage", "control"),
        ("u", "control"),
        ("θ", "position"),
        ("comment", None),
    ],
)
def test_what_names_say(column: str, quantity: str | None) -> None:
    assert names.quantity(names.words(column)) == quantity


def test_joints_are_found_by_their_own_words(tmp_path: Path) -> None:
    """Words that all joints share do not tell them apart, and numbers alone do not name one."""
    assert names.own_words(["panda_joint1", "panda_joint2"]) == {"panda_joint1": ["1"], "panda_joint2": ["2"]}
    model = cb.load(arm(tmp_path))
    columns = ("t", "left_elbow_position", "shoulder", "tip_x", "tip_y", "q1", "elbow_vel", "shoulder_des")
    found = matched(model, Table("x", {name: np.arange(5.0) for name in columns}), "t")
    assert {m.column: m.channel for m in found.matches} == {
        "left_elbow_position": "joint.elbow.angle",
        "shoulder": "joint.shoulder.angle",
        "tip_x": "site.tip.position.x",
        "tip_y": "site.tip.position.y",
        "elbow_vel": "joint.elbow.rate",
    }
    assert "1 such column, and the model has 2 of kind hinge or slide" in found.unused["q1"] and "shoulder_des" in found.unused


@pytest.mark.parametrize(("step", "unit"), [(0.002, "s"), (0.1, "s"), (8.0, "ms"), (1000.0, "us"), (4e6, "ns")])
def test_clocks(step: float, unit: str) -> None:
    name, found, _ = clock(Table("x", {"q": np.sin(np.arange(9.0)), "stamp": 1e3 + step * np.arange(9.0)}))
    assert (name, found) == ("stamp", unit)


def test_noise_and_counts() -> None:
    t = np.arange(0.0, 4.0, 0.002)
    clean = np.sin(3.0 * t)
    assert noise(t, clean) == (None, None)
    sd, step = noise(t, clean + 1e-3 * np.random.default_rng(0).normal(size=len(t)))
    assert sd == pytest.approx(1e-3, rel=0.1) and step is None
    sd, step = noise(t, np.round(clean / 0.01) * 0.01)
    assert sd is None and step == pytest.approx(0.01)


# -- inspect and validate ----------------------------------------------------------------------------------------------------------------


def test_inspect_lists_names_that_can_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = arm(tmp_path)
    for arguments in (["inspect", str(file)], ["inspect", str(file), "--all"], ["inspect", str(file), "--json"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert not caught.value.code
    out = capsys.readouterr().out
    document = json.loads(out[out.index("\n{") :])
    model = cb.load(file)
    assert {p: v["value"] for p, v in document["parameters"].items()} == {p: x.value for p, x in model.parameters.items()}
    assert [b["name"] for b in document["bodies"]] == ["upper", "lower"] and document["sites"] == [
        {"name": "tip", "body": "lower", "position": [0.0, 0.0, -0.3]}
    ]
    assert "joint.elbow.angle" in document["channels"]
    table = out[: out.index("\n{")]
    for word in ("body.lower.com.x|y|z", "joint.elbow.damping", "N m s/rad", "site.tip.position.x|y|z", "joint.shoulder.angle|rate|force"):
        assert word in table, word


def test_validate_predicts_recordings_that_were_not_fitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from experiment.swing import MODEL, write

    file = write(tmp_path)
    with pytest.raises(SystemExit):
        cli.main(["fit", str(file), "--quiet", "--no-validate"])
    (tmp_path / "true.xml").write_text(MODEL)
    real = cb.load(tmp_path / "true.xml").replace({"body.arm.mass": 0.4, "joint.hinge.damping": 0.02})
    t = np.arange(0.0, 3.005, 0.01)
    u = 0.9 * np.sin(3.0 * t) + 0.3 * np.sin(11.0 * t)
    seen = cb.simulate(real, 3.0, 0.002, {"joint.hinge.angle": 0.4}, {"actuator.motor": (t, u)})["joint.hinge.angle"][::5]
    pl.DataFrame({"t": t, "theta": seen + 0.004 * np.random.default_rng(8).normal(size=len(t)), "u": u}).write_csv(tmp_path / "other.csv")
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        cli.main(["validate", str(tmp_path / "swing-fit"), str(tmp_path / "other.csv"), "--json"])
    found = json.loads(capsys.readouterr().out)["other"]
    assert not caught.value.code and not found["fitted"] and found["channels"]["joint.hinge.angle"]["rms_over_sd"] < 2.5
    assert found["channels"]["joint.hinge.angle"]["explained"] > 0.99
    with pytest.raises(SystemExit):
        cli.main(["validate", str(tmp_path / "swing-fit"), str(tmp_path / "swing.csv")])
    out = capsys.readouterr().out
    assert "swing: 3 s predicted from its beginning" in out and "was part of the fit" in out
    saved = cb.open(tmp_path / "swing-fit")
    assert list(saved.document["held_out"]) == ["other", "swing"]
    page = (tmp_path / "swing-fit" / "report.html").read_text()
    assert "Recordings that were not fitted" in page and "swing (was fitted)" in page
    again = saved.predict(cb.read(tmp_path / "other.csv", observe={"joint.hinge.angle": "theta"}, drive={"actuator.motor": "u"}))
    assert again.rms["joint.hinge.angle"] == pytest.approx(found["channels"]["joint.hinge.angle"]["rms"], rel=1e-6)


# -- names as people write them -----------------------------------------------------------------------------------------------------------

CARTS = """\
<mujoco model="carts">
  <worldbody>
    <body name="cart"><joint name="slider" type="slide" axis="1 0 0"/><inertial pos="0 0 0" mass="1" diaginertia="0.01 0.01 0.01"/>
      <body name="pole"><joint name="hinge" axis="0 1 0"/><inertial pos="0 0 -0.3" mass="0.4" diaginertia="0.01 0.01 0.001"/>
        <body name="pole2" pos="0 0 -0.6"><joint name="hinge2" axis="0 1 0"/><inertial pos="0 0 -0.3" mass="0.3" diaginertia="0.01 0.01 0.001"/></body></body></body>
  </worldbody>
  {actuators}
</mujoco>
"""
MOTOR = '<actuator><motor name="motor" joint="slider"/></actuator>'
PLACES = ("joint.slider.position", "joint.hinge.angle", "joint.hinge2.angle")
WRITTEN = {
    "bodies": (MOTOR, "cart_pos pole_angle pole2_angle action cart_vel", (*PLACES, "actuator.motor", "joint.slider.rate")),
    "joints whose names begin alike": (MOTOR, "hinge2_pos hinge_pos slider_pos hinge2_vel", (PLACES[2], PLACES[1], PLACES[0], "joint.hinge2.rate")),
    "letters": (MOTOR, "theta1 theta2 x xdot force", (PLACES[1], PLACES[2], PLACES[0], "joint.slider.rate", "joint.slider.force")),
    "letters that differ": ("", "x theta phi u_x", (*PLACES, "joint.slider.force")),
    "an engine's": (MOTOR, "qpos0 qpos1 qpos2 qvel0 qvel1 qvel2 ctrl0", (*PLACES, "joint.slider.rate", "joint.hinge.rate", "joint.hinge2.rate", "actuator.motor")),
    "units in brackets": (MOTOR, "s [mm]|alpha [deg]|beta [deg]|Voltage (V)", (*PLACES, "actuator.motor")),
    "where a body is, not its joint": (MOTOR, "pole_x pole_y pole2_x hinge_pos", ("joint.hinge.angle",)),
    "of the tool": (MOTOR, "q0 q1 q2 tcp_force_0 tcp_force_1 tcp_force_2 ee_speed_0 ee_speed_1 ee_speed_2", PLACES),
}  # fmt: skip
NOT_JOINTS = {"pole_x", "pole_y", "pole2_x", *(f"{what}_{k}" for what in ("tcp_force", "ee_speed") for k in range(3))}


@pytest.mark.parametrize("case", WRITTEN)
def test_columns_as_people_name_them(tmp_path: Path, case: str) -> None:
    actuators, columns, channels = WRITTEN[case]
    (tmp_path / "carts.xml").write_text(CARTS.format(actuators=actuators))
    listed = columns.split("|") if "|" in columns else columns.split()
    found = matched(cb.load(tmp_path / "carts.xml"), Table("x", {name: np.arange(5.0) for name in ("t", *listed)}), "t")
    wanted = [c for c in listed if c not in NOT_JOINTS]
    assert {m.column: m.channel for m in found.matches} == dict(zip(wanted, channels, strict=True))
    assert {*found.unused, *(m.column for m in found.matches)} == set(listed)


ROTARY = """\
<mujoco model="rotary">
  <worldbody>
    <body name="arm"><joint name="first" axis="0 0 1" damping="0.001"/><inertial pos="0.05 0 0" mass="0.1" diaginertia="1e-5 6e-5 6e-5"/>
      <body name="pendulum" pos="0.1 0 0"><joint name="second" axis="1 0 0" damping="1e-4"/><inertial pos="0 0 -0.07" mass="0.03" diaginertia="4e-5 4e-5 1e-6"/></body></body>
  </worldbody>
  <actuator><motor name="motor" joint="first"/></actuator>
</mujoco>
"""


@pytest.mark.parametrize("order", [("theta", "alpha"), ("alpha", "theta")])
def test_of_two_letters_the_torque_says_which_joint_is_which(tmp_path: Path, order: tuple[str, str]) -> None:
    """theta is the arm, whichever column stands first; a second log follows the first one, though it has nothing to tell by, and units of one are those of both."""
    (tmp_path / "rotary.xml").write_text(ROTARY)
    t = np.arange(0.0, 6.0, 0.005)
    u = 0.01 * np.sin(5.0 * t) + 0.008 * np.sin(11.0 * t + 1.0)
    made = cb.simulate(cb.load(tmp_path / "rotary.xml"), 6.0, 0.001, drive={"actuator.motor": (t, u)})
    noise = 1e-3 * np.random.default_rng(0).normal(size=(2, len(t)))
    measured = {"theta": np.rad2deg(made["joint.first.angle"][:-1:5] + noise[0]), "alpha": np.rad2deg(made["joint.second.angle"][:-1:5] + noise[1])}
    for name, size in (("swing", 1.0), ("quiet", 1e-3)):
        pl.DataFrame({"t": t} | {c: size * measured[c] for c in order} | {"u": size * u}).write_csv(tmp_path / f"{name}.csv")
    found = propose(tmp_path / "rotary.xml", [tmp_path / "swing.csv", tmp_path / "quiet.csv"], tmp_path / "log.toml").experiment
    for run in found.recordings:
        assert {c: (o.column, o.unit) for c, o in run.observe.items()} == {"joint.first.angle": ("theta", "deg"), "joint.second.angle": ("alpha", "deg")}


def test_a_file_in_another_folder(tmp_path: Path) -> None:
    """Paths lead from it to the model, unless the two have nothing in common; a folder that is not there is said."""
    t = np.arange(0.0, 1.0, 0.01)
    pl.DataFrame({"t": t, "shoulder": np.sin(t), "elbow": np.cos(t)}).write_csv(tmp_path / "log.csv")
    given = arm(tmp_path / "models"), [tmp_path / "log.csv"], tmp_path / "experiments" / "log.toml"
    with pytest.raises(cb.CalibodyError, match=r"There is no folder .*experiments\" to write \"log.toml\" into; make it first"):
        propose(*given)
    given[2].parent.mkdir()
    found = propose(*given).experiment
    assert found.model_file == "../models/arm.xml" and found.recordings[0].data == "../log.csv"
    elsewhere = propose(*given[:2], Path("/dev/log.toml")).experiment
    assert elsewhere.model_file == given[0].as_posix() and Path(elsewhere.recordings[0].data).is_absolute()


def test_a_free_swing_tells_moments_and_no_masses(tmp_path: Path) -> None:
    """Without a drive: what is kept is the moment about the hinge and its friction, and the true ones are found."""
    file = arm(tmp_path)
    (tmp_path / "arm.xml").write_text(ARM.replace('diaginertia="0.01 0.01 0.005"', 'diaginertia="0.014 0.014 0.005"'))
    model = cb.load(file)
    t = np.arange(0.0, 4.005, 0.01)
    made = cb.simulate(model.replace({"body.lower.inertia.yy": 0.01}), 4.0, 0.001, {"joint.shoulder.angle": 1.0, "joint.elbow.angle": -0.8})
    noise = 1e-3 * np.random.default_rng(1).normal(size=(2, len(t)))
    pl.DataFrame({"t": t} | {f"{j}_pos": made[f"joint.{j}.angle"][::10] + noise[k] for k, j in enumerate(JOINTS)}).write_csv(tmp_path / "log.csv")
    found = propose(file, [tmp_path / "log.csv"], tmp_path / "log.toml")
    assert set(found.experiment.unknowns) == {"joint.shoulder.damping", "joint.elbow.damping", "body.upper.inertia.yy", "body.lower.inertia.yy"}
    result = cb.fit(found.experiment.model(), found.experiment.runs(), found.experiment.estimate())
    for path, value in {"body.lower.inertia.yy": 0.01, "body.upper.inertia.yy": 0.03, "joint.elbow.damping": 0.1}.items():
        e = result.parameters[path]
        assert e.sd is not None and abs(e.value - value) < 4.0 * e.sd, (path, e)


def test_model_and_log_the_wrong_way_round(tmp_path: Path) -> None:
    file = arm(tmp_path)
    (tmp_path / "log.csv").write_text("t,q1\n0,1\n")
    with pytest.raises(cb.CalibodyError, match="give the model first, then the recordings"):
        propose(tmp_path / "log.csv", [file], tmp_path / "log.toml")
    with pytest.raises(cb.CalibodyError, match=r"arm\.xml is a model, no experiment; calibody new arm\.xml LOG writes one"):
        load(file)


CRANE = """\
<mujoco model="crane">
  <worldbody>
    <body name="trolley"><joint name="rail" type="slide" axis="1 0 0" damping="6" stiffness="40" armature="0.5"/><inertial pos="0 0 0" mass="5" diaginertia="0.1 0.1 0.1"/>
      <body name="load"><joint name="sway" axis="0 -1 0" damping="0.02"/><inertial pos="0 0 -1.1" mass="3" diaginertia="0.3 0.3 0.3"/><site name="imu" pos="0 0 -1"/></body></body>
  </worldbody>
</mujoco>
"""


def test_springs_of_the_model_and_moments_of_what_nothing_drives_are_proposed(tmp_path: Path) -> None:
    """A spring of the file that is far too soft begins near what the forces say; the rotor, which the file has right, is not taken for mass; the load swings by itself, and its moment is asked about."""
    (tmp_path / "true.xml").write_text(CRANE)
    (tmp_path / "crane.xml").write_text(CRANE.replace('stiffness="40"', 'stiffness="4"').replace('mass="5"', 'mass="9"'))
    t = np.arange(0.0, 5.005, 0.01)
    force = 12.0 * np.sin(3.1 * t) + 6.0 * np.sin(7.3 * t)
    made = cb.simulate(cb.load(tmp_path / "true.xml"), 5.0, 0.001, drive={"joint.rail.force": (t, force)}, initial={"joint.sway.angle": 0.5})
    noise = np.random.default_rng(0).normal(size=(2, len(t)))
    columns = {
        "time": t,
        "rail_pos": made["joint.rail.position"][::10] + 2e-5 * noise[0],
        "sway_angle": made["joint.sway.angle"][::10] + 5e-5 * noise[1],
        "rail_force": force,
    }
    pl.DataFrame(columns).write_csv(tmp_path / "log.csv")
    unknowns = propose(tmp_path / "crane.xml", [tmp_path / "log.csv"], tmp_path / "log.toml").experiment.unknowns
    assert set(unknowns) == {"joint.rail.damping", "joint.sway.damping", "joint.rail.stiffness", "body.trolley.mass", "body.load.mass", "body.load.inertia.yy"}
    assert unknowns["joint.rail.stiffness"].initial == pytest.approx(40.0, rel=0.4)


@pytest.mark.parametrize(
    ("column", "channel"),
    [
        ("imu_angular_rate_x", "site.imu.angular_rate.x"),
        ("imu_linear_acceleration_y", "site.imu.acceleration.y"),
        ("imu_gyro_z", "site.imu.angular_rate.z"),
        ("acc_x", "site.imu.acceleration.x"),
        ("imu_x", "site.imu.position.x"),
        ("imu_velocity_x", None),
        ("imu_temp_x", None),
    ],
)
def test_what_an_inertial_sensor_reads_is_no_place(tmp_path: Path, column: str, channel: str | None) -> None:
    """An accelerometer's column taken for the place of its site was a fit with residuals of 155 times the noise."""
    (tmp_path / "crane.xml").write_text(CRANE)
    table = Table("x", {"time": np.arange(5.0), column: np.arange(5.0)})
    found = matched(cb.load(tmp_path / "crane.xml"), table, "time")
    assert [m.channel for m in found.matches] == ([] if channel is None else [channel])
    assert (column in found.unused) == (channel is None)


def test_markers_of_a_ball_joint_ask_for_its_friction_and_its_moments(tmp_path: Path) -> None:
    """No column has a joint: an experiment without unknowns was all that came of it."""
    text = '<mujoco><worldbody><body name="bob"><joint name="socket" type="ball" damping="0.03"/><inertial pos="0.01 0 -0.25" mass="0.8" diaginertia="0.008 0.007 0.006"/>'
    (tmp_path / "ball.xml").write_text(text + '<site name="a" pos="0.03 0 -0.35"/><site name="b" pos="-0.03 0.04 -0.2"/></body></worldbody></mujoco>')
    model = cb.load(tmp_path / "ball.xml").replace({"joint.socket.damping": 0.01})
    made = cb.simulate(model, 3.0, 0.001, initial={"joint.socket.angle": (0.8, 0.6, 0.0), "joint.socket.rate": (0.5, -1.5, 3.0)})
    noise = np.random.default_rng(0).normal(size=(6, 301))
    columns = {f"{s}_{c}": made[f"site.{s}.position.{c}"][::10] + 1e-3 * noise[3 * i + k] for i, s in enumerate("ab") for k, c in enumerate("xyz")}
    pl.DataFrame({"time": made.time[::10], **columns}).write_csv(tmp_path / "log.csv")
    unknowns = propose(tmp_path / "ball.xml", [tmp_path / "log.csv"], tmp_path / "log.toml").experiment.unknowns
    assert {"joint.socket.damping", "body.bob.inertia.xx", "body.bob.inertia.yy"} <= set(unknowns)
