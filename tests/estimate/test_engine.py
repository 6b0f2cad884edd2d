"""MuJoCo's own engine as a stepper: what is written into it and read from it, and shooting in it, against `mujoco` itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import calibody as cb
from calibody.estimate.by_noise import made_by_noise
from calibody.estimate.engine.fit import begin, prepared
from calibody.estimate.reported import initial_theta
from calibody.estimate.uncertainty import stepped
from calibody.mechanics.channels import resolve
from calibody.steppers.engine import Engine

ARM = """<mujoco model="arm">
  <option timestep="0.002"/>
  <worldbody>
    <site name="s0" pos="0.02 0 0.1"/>
    <body name="upper">
      <joint name="shoulder" axis="0 1 0" damping="0.2"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03" mass="1.5" contype="0" conaffinity="0"/>
      <site name="s1" pos="0.04 0 -0.1"/>
      <body name="fore" pos="0 0 -0.3">
        <joint name="elbow" axis="0 1 0" damping="0.1"/>
        <inertial pos="0 0 -0.15" mass="1" diaginertia="0.008 0.008 0.001"/>
        <site name="s2" pos="0.03 0 -0.06"/>
      </body>
    </body>
  </worldbody>
  <tendon>
    <spatial name="t1" stiffness="20" damping="1"><site site="s0"/><site site="s1"/></spatial>
    <spatial name="t2"><site site="s1"/><site site="s2"/></spatial>
  </tendon>
  <actuator>
    <muscle name="biceps" tendon="t2" force="200" lengthrange="0.1 0.45" ctrllimited="true" ctrlrange="0 1"/>
    <motor name="motor" joint="shoulder"/>
  </actuator>
  <sensor><tendonpos name="length" tendon="t2"/><accelerometer name="imu" site="s2"/></sensor>
</mujoco>"""
BALL = """<mujoco model="ball">
  <option timestep="0.0005" cone="elliptic"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1"/>
    <body name="ball" pos="0 0 0.05">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <joint name="spin" type="hinge" axis="0 1 0"/>
      <geom name="ball" type="sphere" size="0.05" mass="0.2" friction="0.5 0 0" priority="1"/>
    </body>
  </worldbody>
</mujoco>"""


ROTORS = """<mujoco model="rotors">
  <option gravity="0 0 0"/>
  <worldbody>
    <body name="still"><joint name="still" axis="0 0 1" damping="0.01"/><inertial pos="0 0 0" mass="1" diaginertia="0.02 0.02 0.02"/></body>
    <body name="turning" pos="1 0 0"><joint name="turning" axis="0 0 1" damping="0.01"/><inertial pos="0 0 0" mass="1" diaginertia="0.02 0.02 0.02"/></body>
  </worldbody>
</mujoco>"""


def written(folder: Path, text: str) -> cb.Model:
    file = folder / "model.xml"
    file.write_text(text)
    return cb.load(file, engine="mujoco")


def observed(motion: cb.Motion, every: int, channels: dict[str, float], seed: int = 0) -> list[cb.Observation]:
    random, at = np.random.default_rng(seed), slice(None, None, every)
    return [cb.Observation(c, motion.time[at], motion[c][at] + sd * random.standard_normal(len(motion.time[at])), sd) for c, sd in channels.items()]


NUMBERS = {
    "body.fore.mass": 0.8, "body.fore.com.z": -0.17, "body.fore.inertia": (0.009, 0.0085, 0.002, 1e-4, 0.0, 2e-4), "body.fore.position.z": -0.31, "joint.elbow.damping": 0.15,
    "joint.elbow.friction": 0.02, "joint.elbow.armature": 0.004, "joint.shoulder.stiffness": 1.5, "joint.shoulder.springref": 0.2, "site.s2.position.x": 0.035, "actuator.motor.gear": 2.0,
    "world.gravity.z": -9.7, "mujoco.tendon.t1.stiffness": 30.0, "mujoco.tendon.t1.springlength.low": 0.1, "mujoco.tendon.t1.springlength.high": 0.1, "mujoco.muscle.biceps.force": 150.0,
    "mujoco.muscle.biceps.timeconst.act": 0.02, "mujoco.joint.elbow.solreffriction.timeconst": 0.03, "mujoco.option.world.viscosity": 0.01,
}  # fmt: skip


def test_numbers_are_written_as_the_saved_file_has_them(tmp_path: Path) -> None:
    model = written(tmp_path, ARM)
    changed = model.replace(NUMBERS)
    ours, theirs = Engine(model).with_numbers(changed), mujoco.MjModel.from_xml_path(str(changed.save(tmp_path / "changed.xml")))
    arrays = [
        n
        for n in dir(theirs)
        if n.startswith(("body_", "jnt_", "dof_", "site_", "tendon_", "actuator_", "geom_", "qpos")) and isinstance(getattr(theirs, n), np.ndarray)
    ]
    for name in set(arrays) - {"body_inertia", "body_iquat"}:  # principal axes in another order
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-12, err_msg=name)
    assert ours.opt.viscosity == 0.01 and np.allclose(ours.opt.gravity, theirs.opt.gravity)
    again = cb.load(tmp_path / "changed.xml", engine="mujoco")
    assert all(np.allclose(again[path], value) for path, value in NUMBERS.items())


def test_a_simulation_is_that_of_mujoco(tmp_path: Path) -> None:
    model = written(tmp_path, ARM)
    drive = {"mujoco.muscle.biceps": lambda t: 0.5, "actuator.motor": lambda t: 0.3}
    motion = cb.simulate(model, 1.0, 0.002, {"joint.elbow.angle": -0.5, "joint.shoulder.rate": 0.4}, drive, stepper="mujoco")
    m = mujoco.MjModel.from_xml_string(ARM)
    d = mujoco.MjData(m)
    d.qpos[:], d.qvel[:] = [0.0, -0.5], [0.4, 0.0]
    for k in range(501):
        d.ctrl[:] = 0.5, 0.3
        mujoco.mj_step(m, d)  # sensors are those of the node before the step
        for path, value in (("mujoco.sensor.length", d.sensordata[0]), ("mujoco.sensor.imu.z", d.sensordata[3])):
            assert motion[path.replace(".z", ".2")][k] == pytest.approx(value, abs=1e-12), k
        if k < 500:
            assert motion["joint.elbow.angle"][k + 1] == pytest.approx(d.qpos[1], abs=1e-12) and motion["joint.elbow.rate"][k + 1] == pytest.approx(
                d.qvel[1], abs=1e-12
            )
    with pytest.raises(cb.ModelError, match='use stepper="mujoco"'):
        cb.simulate(model, 1.0)


def test_sensitivities_of_a_window_are_the_product_of_transition_matrices(tmp_path: Path) -> None:
    model = written(tmp_path, ARM)
    motion = cb.simulate(model, 0.4, 0.002, {"joint.elbow.angle": -0.5}, {"actuator.motor": 0.3}, stepper="mujoco")
    run = cb.Recording(
        "arm",
        observed(motion, 5, {"joint.elbow.angle": 1e-3, "joint.shoulder.angle": 1e-3}),
        [cb.Drive("actuator.motor", cb.Signal(motion.time, 0.3 + 0.0 * motion.time))],
    )
    problem, _ = prepared(model, [run], {"body.fore.mass": None}, cb.Shooting(stepper="mujoco", windows=4))
    theta = initial_theta(problem.entries)
    x = begin(problem, theta)
    x[0].s[:, -1] = 0.3  # activated: at zero its slope has a kink
    lin = problem.linearise(x, theta).parts[0]
    m = mujoco.MjModel.from_xml_string(ARM)
    d, A, size = mujoco.MjData(m), np.eye(problem.engine.n), np.zeros((problem.engine.n,) * 2)
    d.qpos[:], d.qvel[:], d.act[:] = np.split(x[0].s[0], [2, 4])
    for _ in range(problem.runs[0].bounds[1]):
        d.ctrl[:] = 0.0, 0.3
        mujoco.mjd_transitionFD(m, d, 1e-6, True, size, None, None, None)
        A = size @ A
        mujoco.mj_step(m, d)
    n = problem.engine.n
    np.testing.assert_allclose(-lin.Cx[:n, :n].toarray(), A, rtol=1e-5, atol=1e-6)
    F, C = problem.values(x, theta)
    for k in (0, 3, n, n + 2):
        step = np.zeros(problem.engine.n * problem.runs[0].windows)
        step[k] = 1e-4
        ends = [problem.values(problem.move(x, sign * step), theta) for sign in (1.0, -1.0)]
        np.testing.assert_allclose((ends[0][0] - ends[1][0]) / 2e-4, lin.Fx[:, [k]].toarray()[:, 0], rtol=1e-3, atol=1e-4 * np.abs(lin.Fx).max())
    assert np.isfinite(F).all() and np.isfinite(C).all()


def race(shared: Path, name: str) -> tuple[cb.Model, cb.Recording, dict[str, float]]:
    """The race's model and drive with a recording that MuJoCo's stepper has made, frictionloss included."""
    kind = name.split("_")[1]
    links, folder = {"single": (1,), "double": (1, 2)}[kind], shared / "race"
    numbers = json.loads((folder / f"tumbling_{kind}_truth.json").read_text())
    drive = np.loadtxt(folder / f"{name}_drive.csv", delimiter=",", skiprows=1)
    model = cb.load(folder / f"tumbling_{kind}.xml").replace({f"body.link{i}.inertia.{c}": 1.0 for i in links for c in ("xx", "zz")})
    paths = {"mass": "body.link{}.mass", "inertia": "body.link{}.inertia.yy", "damping": "joint.hinge{}.damping", "friction": "joint.hinge{}.friction"}
    truth = {path.format(i): numbers[f"{key}{i}"] for i in links for key, path in paths.items()}
    start = {f"joint.hinge{i}.{what}": value[i - 1] for i in links for what, value in (("angle", (1.0, -0.5)), ("rate", (0.5, 0.3)))}
    signals = {f"actuator.motor{i}": cb.Signal(drive[:, 0], drive[:, i]) for i in links}
    motion = cb.simulate(model.replace(truth), 10.0, 0.002, start, signals, stepper="mujoco")
    return model, cb.Recording(name, observed(motion, 5, {f"joint.hinge{i}.angle": 0.01 for i in links}), [cb.Drive(c, s) for c, s in signals.items()]), truth


def converges_to_the_truth(model: cb.Model, run: cb.Recording, truth: dict[str, float], factors: tuple[float, ...], **options: Any) -> None:
    found = [cb.fit(model, run, {k: cb.Unknown(f * v) for k, v in truth.items()}, method="shooting", stepper="mujoco", **options) for f in factors]
    for result in found:
        assert result.converged and 0.8 < result.chi2 / result.dof < 1.2
        for name, e in result.parameters.items():
            assert e.sd is not None and abs(e.value - truth[name]) < 3.5 * e.sd, name
            assert abs(e.value - found[0].parameters[name].value) < 0.1 * e.sd, name  # the same optimum


def test_a_recording_of_mujoco_from_one_and_a_half_times_the_truth(shared: Path) -> None:
    model, run, truth = race(shared, "tumbling_single")
    converges_to_the_truth(model, run.cut(end=4.0), truth, (1.5,))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gentle_single", "gentle_double", "tumbling_single", "tumbling_double"])
def test_recordings_of_mujoco_from_far_starts(shared: Path, name: str) -> None:
    model, run, truth = race(shared, name)
    converges_to_the_truth(model, run, truth, (1.5, 3.0, 0.3))


def test_fits_end_in_a_minimum_of_the_jagged_cost(shared: Path) -> None:
    """Dry friction gives the cost kinks some hundredths of a standard deviation apart: from either side the same minimum between them, where nothing along any parameter is lower."""
    model, run, truth = race(shared, "gentle_single")
    given = {"joint.hinge1.angle": 1.0, "joint.hinge1.rate": 0.5}
    found = [
        cb.fit(model, replace(run, initial=given), {k: cb.Unknown(f * v) for k, v in truth.items()}, method="shooting", stepper="mujoco", windows=1)
        for f in (0.98, 1.03)
    ]
    sd = np.array([e.sd for e in found[0].parameters.values()])
    assert all(r.converged for r in found) and np.abs((found[0].theta - found[1].theta) / sd).max() < 1e-3
    problem, x, theta = found[0].problem, found[0].states, found[0].theta
    lowest, *around = (
        float(problem.values(x, t)[0] @ problem.values(x, t)[0])
        for t in (theta, *(theta + s * 0.01 * sd[k] * np.eye(len(sd))[k] for k in range(len(sd)) for s in (1, -1)))
    )
    assert lowest < min(around)


@pytest.mark.slow
def test_single_shooting_fails_where_windows_converge(shared: Path) -> None:
    model, run, truth = race(shared, "tumbling_double")
    alone = cb.fit(model, run, {k: cb.Unknown(1.5 * v) for k, v in truth.items()}, method="shooting", stepper="mujoco", windows=1)
    assert not alone.converged and "use more windows" in alone.status and all(e.sd is None for e in alone.parameters.values())


def test_a_muscle_and_a_tendon(tmp_path: Path) -> None:
    model = written(tmp_path, ARM)
    truth = {"mujoco.muscle.biceps.force": 150.0, "mujoco.tendon.t1.stiffness": 30.0, "joint.elbow.damping": 0.15}
    t, random = np.arange(0.0, 2.0, 0.05), np.random.default_rng(2)
    signals = {c: cb.Signal(t, random.uniform(0.0, 1.0, len(t) // 4).repeat(4)) for c in ("mujoco.muscle.biceps", "actuator.motor")}
    motion = cb.simulate(model.replace(truth), 1.9, 0.002, {"joint.elbow.angle": -0.5}, signals, stepper="mujoco")
    seen = observed(motion, 5, {"joint.shoulder.angle": 2e-3, "joint.elbow.angle": 2e-3, "mujoco.sensor.length": 1e-3})
    run = cb.Recording("arm", seen, [cb.Drive(c, s) for c, s in signals.items()])
    result = cb.fit(model, run, {k: cb.Unknown(1.4 * v) for k, v in truth.items()}, method="shooting", stepper="mujoco", windows=20)
    assert result.converged and all(e.sd is not None and abs(e.value - truth[k]) < 3.5 * e.sd for k, e in result.parameters.items())
    again = cb.load(result.model.save(tmp_path / "calibrated.xml"), engine="mujoco")
    assert all(again[k] == e.value for k, e in result.parameters.items())
    assert np.isfinite(result.motion()["joint.elbow.angle"]).all()


@pytest.mark.slow
def test_a_ball_that_slides_before_it_rolls(tmp_path: Path) -> None:
    model = written(tmp_path, BALL)
    truth = {"mujoco.geom.ball.solref.timeconst": 0.02, "mujoco.geom.ball.friction.slide": 0.15}
    start = {"joint.x.position": 0.0, "joint.x.rate": 4.0, "joint.z.position": 0.15, "joint.z.rate": 0.0, "joint.spin.angle": 0.0, "joint.spin.rate": 0.0}
    motion = cb.simulate(model.replace(truth), 1.2, 0.0005, start, stepper="mujoco")
    slip = motion["joint.x.rate"] - 0.05 * motion["joint.spin.rate"]
    assert slip[400] > 1.0 and abs(slip[-1]) < 0.05 and motion["joint.z.position"].min() < -1e-3  # it slides, then rolls, on a soft floor
    run = cb.Recording("throw", observed(motion, 10, {"joint.x.position": 1e-3, "joint.z.position": 1e-3, "joint.spin.angle": 0.02}, seed=1), initial=start)
    for factor in (1.5, 0.3):
        result = cb.fit(model, run, {k: cb.Unknown(factor * v, lower=1e-3) for k, v in truth.items()}, method="shooting", stepper="mujoco", windows=1)
        assert result.converged
        for name, e in result.parameters.items():
            assert e.sd is not None and abs(e.value - truth[name]) < 3.5 * e.sd and abs(e.value / truth[name] - 1.0) < 0.02, name


def test_what_noise_makes_of_a_joint_that_stands_still_is_no_information(tmp_path: Path) -> None:
    """Of two alike rotors one turns and one stands: the estimated start has a rate of the one that stands, and with it its damping seems to matter."""
    model, t, noise = written(tmp_path, ROTORS), np.arange(0.0, 2.001, 0.02), np.random.default_rng(2)
    angles = {"still": 0.0 * t, "turning": 2.0 * (1.0 - np.exp(-0.5 * t))}
    seen = [cb.Observation(f"joint.{j}.angle", t, a + 1e-3 * noise.normal(size=len(t)), 1e-3) for j, a in angles.items()]
    unknowns = {"joint.still.damping": cb.Unknown(1.0), "joint.turning.damping": cb.Unknown(0.02)}
    result = cb.fit(model, cb.Recording("run", seen), unknowns, method=cb.Shooting(stepper="mujoco", windows=1, h=0.004))
    still, turning = (result.parameters[name] for name in unknowns)
    assert result.converged and still.sd is None and still.lower == 0.0
    assert turning.sd is not None and abs(turning.value - 0.01) < 3.5 * turning.sd < 2e-4
    problem: Any = result.problem
    lin, taken = stepped(problem, result.states, result.theta)
    made, seems = np.diag(made_by_noise(problem, result.states, result.theta, lin, taken)), np.diag(np.asarray(taken.information))
    assert made[0] > 0.5 * seems[0] and made[1] < 0.01 * seems[1]


def test_what_the_engine_cannot_do_is_refused(tmp_path: Path) -> None:
    model = written(tmp_path, ARM)
    t = np.arange(0.0, 1.0, 0.01)
    run = cb.Recording("arm", [cb.Observation("joint.elbow.angle", t, 0.0 * t, 1e-3)])
    method = cb.Shooting(stepper="mujoco")
    with pytest.raises(cb.CalibodyError, match=r'"joint\.elbow\.compliance" cannot be set in MuJoCo'):
        method.refuse(model, [run], {"joint.elbow.compliance": None})
    with pytest.raises(cb.CalibodyError, match=r'"body\.fore\.pose\.x" cannot be observed in MuJoCo'):
        method.refuse(model, [cb.Recording("arm", [cb.Observation("body.fore.pose.x", t, 0.0 * t, 1e-3)])], {"body.fore.mass": None})
    with pytest.raises(cb.CalibodyError, match="has an sd, which an engine has no place for"):
        noisy = cb.Recording("arm", run.observations, [cb.Drive("actuator.motor", cb.Signal(t, 0.0 * t), sd=0.1)])
        method.refuse(model, [noisy], {"body.fore.mass": None})
    with pytest.raises(cb.ModelError, match="was read for MuJoCo's engine"):
        cb.fit(model, run, {"body.fore.mass": None})
    with pytest.raises(cb.FormatError, match='engine = "bullet"; give "mujoco"'):
        cb.load(tmp_path / "model.xml", engine="bullet")
    assert not method.foresee(model, [run], {"mujoco.geom.geometry_1.friction.slide": None}).resolved.any()
    method.refuse(model, [run], {"body.fore.mass": None})


def test_a_model_built_in_python_runs_there_too() -> None:
    link = cb.Body("link", mass=1.0, com=(0.0, 0.0, -0.2), inertia=(0.02, 0.02, 0.001))
    model = cb.Model("pendulum", [link], [cb.Joint("hinge", "link", axis=(0.0, 1.0, 0.0), damping=0.05)])
    ours, theirs = (cb.simulate(model, 1.0, 1e-4, {"joint.hinge.angle": 1.0}, stepper=s) for s in ("variational", "mujoco"))
    assert np.abs(ours["joint.hinge.angle"] - theirs["joint.hinge.angle"]).max() < 5e-4  # of first order in the step
    assert resolve(model, "joint.hinge.angle").path in theirs.read


def test_in_an_experiment_file_with_folder_and_report(tmp_path: Path) -> None:
    import polars

    from calibody import experiment
    from calibody.experiment import folder as run_folder
    from calibody.experiment.check import wrong_channels
    from calibody.report import write

    model = written(tmp_path, ARM)
    motion = cb.simulate(
        model.replace({"mujoco.muscle.biceps.force": 150.0}), 1.0, 0.002, {"joint.elbow.angle": -0.5}, {"mujoco.muscle.biceps": 0.5}, stepper="mujoco"
    )
    angles = {o.channel: o.values for o in observed(motion, 5, {"joint.shoulder.angle": 2e-3, "joint.elbow.angle": 2e-3})}
    columns = {
        "t": motion.time[::5],
        "a": angles["joint.shoulder.angle"],
        "b": angles["joint.elbow.angle"],
        "c": motion["mujoco.sensor.length"][::5],
        "u": 0.5 + 0.0 * motion.time[::5],
    }
    polars.DataFrame(columns).write_csv(tmp_path / "log.csv")
    (tmp_path / "arm.toml").write_text("""
[model]
file = "model.xml"
engine = "mujoco"
[[run]]
data = "log.csv"
observe = { "joint.shoulder.angle" = { column = "a", sd = 2e-3 }, "joint.elbow.angle" = { column = "b", sd = 2e-3 }, "mujoco.sensor.length" = { column = "c", sd = 1e-3 } }
initial = { "mujoco.muscle.biceps.activation" = { value = 0.0, sd = 1e-3 } }
drive = { "mujoco.muscle.biceps" = "u" }
[[estimate]]
parameter = "mujoco.muscle.biceps.force"
initial = 200.0
[method]
name = "shooting"
stepper = "mujoco"
windows = 10
""")
    what = experiment.load(tmp_path / "arm.toml")
    assert not wrong_channels(what.model(), what)
    result = cb.fit(what.model(), what.runs(), what.estimate(), method=what.method)
    assert result.converged
    folder = run_folder.write(result, tmp_path / "fit", what, "calibody fit arm.toml", {})
    saved = cb.open(folder)
    assert saved.parameters == result.parameters and saved.model["mujoco.muscle.biceps.force"] == result.parameters["mujoco.muscle.biceps.force"].value
    assert "mujoco.muscle.biceps.force" in write(folder).read_text(encoding="utf-8")
