"""Force-torque sensors between a body and its parent, and reactions of joints: against MuJoCo's sensors, against Pinocchio, and in fits."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import calibody as cb
from calibody import formats
from calibody.estimate.nodes import Noise
from calibody.estimate.problem import Problem
from calibody.estimate.run import Run
from calibody.estimate.unknowns import entries
from calibody.mechanics.channels import scalar_names
from calibody.mechanics.kinematics import retract
from calibody.mechanics.structure import Structure

ARM = """
<mujoco>
  <option timestep="0.0005" integrator="RK4"/>
  <worldbody>
    <body name="base" pos="0.1 0 1">
      <inertial mass="0.4" pos="0 0.01 0.02" diaginertia="0.01 0.01 0.01"/>
      <site name="floor" pos="0.02 0 -0.1" quat="0.8 0.1 -0.3 0.2"/>
      <body name="upper">
        <joint name="shoulder" axis="0 1 0.2" damping="0.05" stiffness="1"/>
        <inertial mass="1" pos="0.02 0 -0.2" diaginertia="0.02 0.02 0.004"/>
        <body name="flange" pos="0 0 -0.4" quat="0.9 0 0.2 0">
          <inertial mass="0.1" pos="0 0 0.01" diaginertia="0.001 0.001 0.001"/>
          <site name="cell" pos="0.01 0.02 -0.03" quat="0.9 0.1 0.3 -0.2"/>
          <body name="lower">
            <joint name="elbow" axis="1 0.3 0" damping="0.02"/>
            <inertial mass="0.6" pos="0 0.03 -0.15" diaginertia="0.01 0.01 0.002"/>
            <site name="wrist" pos="0.03 -0.02 0.01" quat="0.7 -0.2 0.1 0.5"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="elbow" gear="2"/></actuator>
  <sensor>
    <force name="f1" site="floor"/> <torque name="t1" site="floor"/> <force name="f2" site="cell"/> <torque name="t2" site="cell"/>
    <force name="f3" site="wrist"/> <torque name="t3" site="wrist"/>
  </sensor>
</mujoco>
"""
SITES = ("floor", "cell", "wrist")
START = {"joint.shoulder.angle": 0.8, "joint.elbow.angle": -0.5, "joint.shoulder.rate": 1.0}


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> tuple[cb.Model, Path]:
    path = tmp_path_factory.mktemp("transmitted") / "arm.xml"
    path.write_text(ARM)
    return cb.load(path), path


def simulated(model: cb.Model, coordinates: str, h: float) -> cb.Motion:
    return cb.simulate(model, 1.0, h, START, {"actuator.motor": 0.3}, coordinates=coordinates)


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_against_the_engine(arm: tuple[cb.Model, Path], coordinates: str) -> None:
    """All three places: under the base, between two bodies that are fixed to each other, and at a joint with a motor; second order in h."""
    model = mujoco.MjModel.from_xml_path(str(arm[1]))
    data, rows = mujoco.MjData(model), []
    data.qpos[:], data.qvel[:], data.ctrl[:] = (0.8, -0.5), (1.0, 0.0), 0.3
    for k in range(2001):
        mujoco.mj_forward(model, data)
        if k % 20 == 0:
            rows.append(data.sensordata.copy())
        mujoco.mj_step(model, data)
    expected, errors = np.array(rows), []
    for h in (0.005, 0.0025):
        motion = simulated(arm[0], coordinates, h)
        found = np.hstack([motion[f"site.{site}.{what}"][:: round(0.01 / h)] for site in SITES for what in ("force", "torque")])
        errors.append(np.abs(found - expected)[1:-1].max() / np.abs(expected).max())
    assert errors[1] < 2e-4 and errors[0] / errors[1] > 3.0, errors


def test_reactions_against_pinocchio(tmp_path: Path) -> None:
    """The wrench that a joint transmits by the recursion of Newton and Euler, at the angles, rates and accelerations of a motion."""
    pin = pytest.importorskip("pinocchio", reason="Pinocchio is the reference (the `test` extra)")
    bodies = [
        cb.Body("a", mass=1.0, com=(0.02, 0, -0.15), inertia=(0.01, 0.011, 0.004, 0.001, 0.0, 0.0)),
        cb.Body("b", "a", mass=0.7, com=(0, 0.01, -0.1), inertia=(0.005, 0.005, 0.001), position=(0, 0, -0.3)),
    ]
    model = cb.Model("two", bodies, [cb.Joint("p", "a", axis=(0, 1, 0), damping=0.1), cb.Joint("q", "b", axis=(1, 0, 0))])
    formats.save(model, tmp_path / "two.urdf")
    reference = pin.buildModelFromUrdf(str(tmp_path / "two.urdf"))
    data, h = reference.createData(), 1e-3
    motion = cb.simulate(model, 0.5, h, {"joint.p.angle": 0.7, "joint.q.rate": 2.0})
    q = np.stack([motion["joint.p.angle"], motion["joint.q.angle"]], axis=1)
    for k in (100, 350):
        turned = np.stack([np.cos(q[k]), np.sin(q[k])], axis=1).ravel()  # of joints without limits
        pin.rnea(reference, data, turned, (q[k + 1] - q[k - 1]) / (2 * h), (q[k + 1] - 2 * q[k] + q[k - 1]) / h**2)
        pin.forwardKinematics(reference, data, turned)
        for j, name in enumerate("pq"):
            R, wrench = data.oMi[j + 1].rotation, data.f[j + 1]
            np.testing.assert_allclose(motion[f"joint.{name}.reaction.force"][k], R @ wrench.linear, atol=2e-3)
            np.testing.assert_allclose(motion[f"joint.{name}.reaction.torque"][k], R @ wrench.angular, atol=2e-4)


CHANNELS = [f"site.{s}.{w}.{c}" for s in SITES for w in ("force", "torque") for c in "xz"] + [
    "joint.elbow.reaction.torque.y",
    "joint.shoulder.reaction.force.x",
]
UNKNOWN = (
    [f"body.lower.{n}" for n in ("mass", "com.y", "inertia.xx", "inertia.xy", "position.x", "orientation.y")]
    + ["joint.elbow.anchor.z", "joint.elbow.axis.z", "joint.shoulder.axis.x", "site.cell.position.x", "site.wrist.orientation.z", "site.wrist.position.y"]
    + ["world.gravity.tilt.x", "spring.band.stiffness", "spring.band.point1.y", "loop.pin.anchor1.x", "site.cell.force.z.gain", "site.wrist.torque.x.bias"]
)


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_derivatives(arm: tuple[cb.Model, Path], coordinates: str) -> None:
    """By coordinates, by forces of a loop, by masses, geometry, springs and the sensors' own numbers."""
    plain, rng = arm[0], np.random.default_rng(5)
    model = cb.Model(
        "held", plain.bodies, plain.joints, [cb.Loop("pin", body1="lower", body2="base", anchor1=(0.1, 0.0, 0.2))],
        springs=[cb.Spring("band", "upper", "lower", point1=(0.1, 0, 0), point2=(0, 0.1, -0.2), stiffness=3.0, damping=0.5, rest_length=0.1)],
        sites=plain.sites,
    )  # fmt: skip
    times = 0.05 * np.arange(2, 8)
    recording = cb.Recording("run", tuple(cb.Observation(c, times, np.zeros(6), sd=1.0) for c in (*CHANNELS, "joint.elbow.angle")), start=0.0, end=0.45)
    s = Structure.build(model, coordinates)
    run = Run.of(s, recording, 0.05, Noise({c: 1.0 for c in (*CHANNELS, "joint.elbow.angle")}, frozenset(), {}))
    problem = Problem.of([run], entries(model, dict.fromkeys(UNKNOWN), ["run"]))
    theta = np.array([e.initial for e in problem.entries])
    q = retract(s, rng.normal(size=(s.nq, 1)), np.zeros((s.nv, 1)))
    states = run.move(run.still(q[:, 0]), 0.1 * rng.normal(size=run.layout.size))
    model, numbers, sensors = problem.model_of(0, theta)
    frames = problem.frames(0, states, model, numbers)
    _, by_states, by_theta = problem._observed(0, theta, frames, sensors, model, numbers, states, True)
    count = len(CHANNELS) * len(times)

    def values(x, at: np.ndarray) -> np.ndarray:
        return np.concatenate([v for _, v in problem.fitted(0, x, at)])[:count]

    largest = np.abs(values(states, theta)).max()
    for k, entry in enumerate(problem.entries):
        high, low = (values(states, theta + sign * 1e-5 * np.eye(len(theta))[k]) for sign in (1, -1))
        np.testing.assert_allclose(by_theta[:count, k], (high - low) / 2e-5, atol=1e-6 * largest, err_msg=entry.name)
    dense = by_states[:count].toarray()
    for k in range(run.layout.size):
        high, low = (values(run.move(states, sign * 1e-6 * np.eye(1, run.layout.size, k)[0]), theta) for sign in (1, -1))
        np.testing.assert_allclose(dense[:, k], (high - low) / 2e-6, atol=1e-6 * np.abs(dense).max(), err_msg=str(k))


def seen(model: cb.Model, motion: cb.Motion, channels: dict[str, float], seed: int) -> cb.Recording:
    """Every 10 ms, with noise of these sizes; vectors component by component."""
    noise, every = np.random.default_rng(seed), round(0.01 / motion.h)
    out = []
    for path, sd in channels.items():
        for name in scalar_names(model, path):
            values = motion[name][::every][1:-1]
            out.append(cb.Observation(name, motion.time[::every][1:-1], values + sd * noise.normal(size=len(values)), sd))
    clock = np.array([0.0, 1.0])
    return cb.Recording("run", tuple(out), (cb.Drive("actuator.motor", cb.Signal(clock, np.array([0.3, 0.3]))),))


ANGLES = {"joint.shoulder.angle": 2e-3, "joint.elbow.angle": 2e-3}


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_a_cell_weighs_what_hangs_below_it(arm: tuple[cb.Model, Path], coordinates: str) -> None:
    """Mass, centre and inertia of the last body, with offsets and a gain of the cell; with angles alone the mass is known worse, though nothing of a sensor is unknown."""
    model = arm[0]
    truth = {"body.lower.mass": 0.6, "body.lower.com.y": 0.03, "body.lower.com.z": -0.15, "site.cell.force.x.bias": 0.0, "site.cell.torque.y.gain": 1.0}
    unknown = {path: cb.Unknown(value + 0.1) for path, value in truth.items()}
    motion = simulated(model, "tree", 0.0025)
    cells = {"site.cell.force": 0.05, "site.cell.torque": 0.005}
    both = cb.fit(model, seen(model, motion, ANGLES | cells, 1), unknown, coordinates=coordinates, h=0.005)
    assert both.converged, both.status
    for path, value in truth.items():
        found = both.parameters[path]
        assert found.sd is not None and abs(found.value - value) < 4.0 * found.sd + 1e-4, path
    alone = cb.fit(model, seen(model, motion, ANGLES, 1), {p: u for p, u in unknown.items() if p.startswith("body")}, coordinates=coordinates, h=0.005)
    sds = [r.parameters["body.lower.mass"].sd for r in (alone, both)]
    assert sds[0] is not None and sds[1] is not None and sds[1] < 0.5 * sds[0]


def test_a_reaction_torque_in_tree_coordinates(arm: tuple[cb.Model, Path]) -> None:
    model = arm[0]
    motion = simulated(model, "tree", 0.0025)
    recording = seen(model, motion, ANGLES | {"joint.elbow.reaction.torque": 0.005}, 2)
    result = cb.fit(model, recording, {"body.lower.mass": cb.Unknown(0.8), "body.lower.com.z": cb.Unknown(-0.1)}, coordinates="tree", h=0.005)
    assert result.converged
    assert result.parameters["body.lower.mass"].value == pytest.approx(0.6, rel=0.01) and result.parameters["body.lower.com.z"].value == pytest.approx(
        -0.15, rel=0.01
    )


def test_they_are_written_and_read(arm: tuple[cb.Model, Path], tmp_path: Path) -> None:
    channels = [s.channel for s in arm[0].sensors]
    assert channels == [f"site.{site}.{what}" for site in SITES for what in ("force", "torque")]
    target = tmp_path / "fresh.xml"
    formats.save(cb.Model("fresh", arm[0].bodies, arm[0].joints, sites=arm[0].sites, sensors=arm[0].sensors), target)
    assert [s.channel for s in cb.load(target).sensors] == channels


def test_the_world_hangs_on_nothing() -> None:
    model = cb.Model("m", [cb.Body("a", mass=1.0, inertia=(1, 1, 1))], [cb.Joint("j", "a")], sites=[cb.Site("post", "world")])
    with pytest.raises(cb.CalibodyError, match=r'"site\.post\.force" is not known'):
        cb.simulate(model, 0.1, 0.01)["site.post.force"]
