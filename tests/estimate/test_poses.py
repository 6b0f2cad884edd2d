"""Geometry from poses at rest: recordings without a clock."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from calibration import ANGLE, JOINTS, OBSERVED, arm, identifiable, poses, recording, tool, truth
from physics.test_pinocchio import file_of

import calibody as cb
from calibody.estimate.poses_fit import begun
from calibody.experiment import check as checking, reading

UNKNOWNS: dict[str, cb.Unknown | float | None] = dict.fromkeys(identifiable())


@pytest.fixture(scope="module")
def model() -> cb.Model:
    return arm(file_of("pybullet_data", "kuka_iiwa/model.urdf"))


def deviations(result: cb.Result, true: cb.Model) -> np.ndarray:
    return np.array([(e.value - true[name]) / e.sd for name, e in result.parameters.items() if e.sd is not None])


@pytest.mark.parametrize(("first", "count"), [(0, 6), pytest.param(6, 44, marks=pytest.mark.slow)])
def test_seven_joints_of_sixty_poses(model: cb.Model, first: int, count: int) -> None:
    """Arms of 34 numbers each: all determined, and 95 % intervals that hold the truth in 90 to 98 % of all cases (both parts together: 50 arms, 95.8 % of 1700)."""
    inside = []
    for seed in range(first, first + count):
        true = truth(model, seed)
        result = cb.fit(model, recording(true, seed), UNKNOWNS)
        assert result.converged and not result.unresolved and result.dof == 60 * (13 - 7) - 34
        inside.append(np.abs(deviations(result, true)) < 1.96)
    assert np.array(inside).shape == (count, 34)
    assert 0.90 <= np.mean(inside) <= 0.98


def test_what_poses_cannot_tell_is_named(model: cb.Model) -> None:
    last, along = f"joint.{JOINTS[6]}.reference", f"joint.{JOINTS[4]}.anchor.z"
    result = cb.fit(model, recording(truth(model, 3), 3), {**UNKNOWNS, along: None, last: None, f"joint.{JOINTS[5]}.angle.bias": None})
    assert result.converged
    assert f"{along} is not determined by the data." in result.unresolved
    traded = next(s for s in result.unresolved if s.startswith("Of "))
    assert all(name in traded for name in (last, "site.tool.orientation.z", f"joint.{JOINTS[5]}.reference", f"joint.{JOINTS[5]}.angle.bias"))
    known = {name for name, e in result.parameters.items() if e.sd is not None}
    assert known == set(identifiable()) - {"site.tool.orientation.z", f"joint.{JOINTS[5]}.reference"}
    both = {f"joint.{JOINTS[5]}.reference": 1.0, f"joint.{JOINTS[5]}.angle.bias": 1.0}  # which of them comes first is decided by rounding
    expression = next(d for d in result.determined if dict(d.terms) == both)
    assert abs(expression.value - truth(model, 3)[f"joint.{JOINTS[5]}.reference"]) < 4 * expression.sd


def test_a_prior_determines_what_poses_leave_open(model: cb.Model) -> None:
    last = f"joint.{JOINTS[6]}.reference"
    result = cb.fit(model, recording(truth(model, 3), 3), {**UNKNOWNS, last: cb.Unknown(prior=(0.0, 2e-4))})
    assert not result.unresolved
    assert result.parameters[last].sd == pytest.approx(2e-4, rel=1e-3)


def test_markers_gaps_and_an_unmeasured_joint(model: cb.Model) -> None:
    """A marker says less than a pose of the tool, a joint without an encoder is found from the tool, a sample that is missing is missing."""
    true = truth(model, 5)
    table = poses(true, 5)
    table["x"][7] = table["q2"][11] = np.nan
    observed = {c: o for c, o in OBSERVED.items() if JOINTS[2] not in c}
    result = cb.fit(model, cb.read(table, time=None, observe=observed), UNKNOWNS)
    assert result.converged and result.dof == 60 * 12 - 2 - 34 - 60 * 7
    assert result.unresolved == (f"joint.{JOINTS[2]}.reference is not determined by the data.",)
    assert np.sqrt(np.mean(deviations(result, true) ** 2)) < 1.6
    marker = cb.fit(model, cb.read(poses(true, 5), time=None, observe={c: o for c, o in OBSERVED.items() if "orientation" not in c}), UNKNOWNS)
    assert marker.converged and marker.unresolved and np.abs(deviations(marker, true)).max() < 4.0


def test_noise_of_places_is_found(model: cb.Model) -> None:
    true = truth(model, 1)
    observed = {c: {k: v for k, v in o.items() if k != "sd" or c.startswith("joint.")} for c, o in OBSERVED.items()}
    result = cb.fit(model, cb.read(poses(true, 1, 120), time=None, observe=observed), UNKNOWNS)
    assert result.converged
    for c in result.fit:
        stated = {"position": 2e-4, "angle": 3e-4}[c.channel.split(".")[2]] if c.channel.startswith("site") else ANGLE
        assert c.sd == pytest.approx(stated, rel=0.35)
    assert np.sqrt(np.mean(deviations(result, true) ** 2)) < 1.6


def test_an_outlier(model: cb.Model) -> None:
    true = truth(model, 2)
    table = poses(true, 2)
    table["y"][20] += 0.03
    result = cb.fit(model, cb.read(table, time=None, observe=OBSERVED), UNKNOWNS, method=cb.Poses(robust=True))
    assert result.converged and np.abs(deviations(result, true)).max() < 4.0
    assert [(o.channel, o.time) for o in result.outliers] == [("site.tool.position.y", 21.0)]


def test_derivatives(model: cb.Model) -> None:
    """By poses and by parameters, against central differences."""
    problem, x, theta = begun(model, [recording(truth(model, 4), 4, 5)], UNKNOWNS)
    random = np.random.default_rng(0)
    theta = theta + 1e-2 * random.standard_normal(len(theta))
    part = problem.linearise(x, theta, hold_scale=False).parts[0]
    d, e = random.standard_normal(part.Fx.shape[1]), random.standard_normal(len(theta))
    along = (part.Fx @ d + part.Ft @ e, (part.Cx @ d + part.Ct @ e))
    ends = [problem.values(problem.move(x, s * d), theta + s * e) for s in (1e-6, -1e-6)]
    for found, high, low in zip(along, *ends, strict=True):
        np.testing.assert_allclose(found, (high - low) / 2e-6, rtol=1e-6, atol=1e-3)


def crank() -> cb.Model:
    """A four-bar linkage with a marker on its coupler."""
    bodies = (cb.Body("a", mass=1.0, inertia=(1e-3,) * 3), cb.Body("b", parent="a", mass=1.0, position=(0.2, 0, 0), inertia=(1e-3,) * 3))
    bodies += (cb.Body("c", mass=1.0, position=(0.5, 0, 0), inertia=(1e-3,) * 3),)
    joints = tuple(cb.Joint(n, body=n, axis=(0, 1, 0)) for n in "abc")
    rod = cb.Loop("rod", kind="distance", body1="b", body2="c", anchor1=(0.0, 0.0, 0.0), anchor2=(0.0, 0.0, -0.25), length=0.45)
    return cb.Model("crank", bodies=bodies, joints=joints, loops=(rod,), sites=(cb.Site("m", body="b", position=(0.1, 0.0, 0.1)),))


def test_a_loop_in_poses() -> None:
    """The length of a rod and the place of a joint from angles and a marker; the loop is closed in every pose, and its derivatives agree with differences."""
    model = crank()
    true, random = model.replace({"loop.rod.length": 0.46, "joint.c.position.x": 0.503}), np.random.default_rng(0)
    angles = []
    for a in np.linspace(-0.6, 0.8, 25):
        pin, c = 0.2 * np.array([np.cos(a), -np.sin(a)]), np.linspace(-2.0, 2.0, 400001)
        gap = np.hypot(0.503 - 0.25 * np.sin(c) - pin[0], -0.25 * np.cos(c) - pin[1]) - 0.46
        crossing = np.flatnonzero(np.diff(np.sign(gap)) != 0)
        angles.append([a, random.uniform(-1, 1), c[crossing[-1]]])
    q = np.array(angles)
    table = {n: q[:, i] + 1e-4 * random.standard_normal(25) for i, n in enumerate("abc")}
    table["x"] = 0.2 * np.cos(q[:, 0]) + 0.1 * np.cos(q[:, 0] + q[:, 1]) + 0.1 * np.sin(q[:, 0] + q[:, 1]) + 1e-4 * random.standard_normal(25)
    observe = {f"joint.{n}.angle": {"column": n, "sd": 1e-4} for n in "abc"} | {"site.m.position.x": {"column": "x", "sd": 1e-4}}
    run = cb.read(table, time=None, observe=observe)
    result = cb.fit(model, run, {"loop.rod.length": None, "joint.c.position.x": None})
    assert result.converged and result.dof == 4 * 25 - 2 * 25 - 2
    for name, e in result.parameters.items():
        assert e.sd is not None and e.sd < 2e-4 and abs(e.value - true[name]) < 3.5 * e.sd
    problem, x, theta = begun(model, [run], {"loop.rod.length": None, "joint.c.position.x": None})
    part = problem.linearise(x, theta, hold_scale=False).parts[0]
    d, e = random.standard_normal(part.Fx.shape[1]), random.standard_normal(2)
    ends = [problem.values(problem.move(x, s * d), theta + s * e)[1] for s in (1e-6, -1e-6)]
    np.testing.assert_allclose(part.Cx @ d + part.Ct @ e, (ends[0] - ends[1]) / 2e-6, atol=1e-8)


def test_the_motion_of_poses(model: cb.Model) -> None:
    result = cb.fit(model, recording(truth(model, 0), 0, 20), UNKNOWNS)
    rest = result.motion()
    assert str(rest) == "20 poses of 'lbr_iiwa' at rest" and rest.time.tolist() == list(range(1, 21))
    q = np.array([rest[f"joint.{joint}.angle"] for joint in JOINTS]).T
    for k in (0, 19):
        place, turn = tool(result.model, q[k])
        np.testing.assert_allclose(rest["site.tool.position"][k], place, atol=1e-12)
        w, x = rest["site.tool.pose"][k, 3:5]
        np.testing.assert_allclose([w, x], [np.sqrt(1 + np.trace(turn)) / 2, (turn[2, 1] - turn[1, 2]) / (4 * w)], atol=1e-9)
    with pytest.raises(cb.CalibodyError, match="not known of poses at rest"):
        rest["joint.lbr_iiwa_joint_1.rate"]


def experiment(folder: Path, model: cb.Model, more: str = "") -> Path:
    pl.DataFrame(poses(truth(model, 6), 6)).write_csv(folder / "poses.csv")
    (folder / "arm.urdf").write_text(file_of("pybullet_data", "kuka_iiwa/model.urdf").read_text())
    lines = ['[model]\nfile = "arm.urdf"', '[[site]]\nname = "tool"\nbody = "lbr_iiwa_link_7"\nposition = [0.02, 0.01, 0.12]']
    lines += [f'[[run]]\ndata = "poses.csv"\nposes = true\n{more}[run.observe]']
    for channel, o in OBSERVED.items():
        columns = f'column = "{o["column"]}"' if "column" in o else f"columns = {list(o['columns'])}"
        lines.append(f'"{channel}" = {{ {columns}, sd = {o["sd"]} }}')
    lines += [f'[[estimate]]\nparameter = "{name}"' for name in identifiable()]
    (folder / "experiment.toml").write_text("\n".join(lines))
    return folder / "experiment.toml"


def test_an_experiment_of_poses(tmp_path: Path, model: cb.Model) -> None:
    """From the file to a report and back, as any fit."""
    from calibody.experiment.session import fit_into

    read = reading.load(experiment(tmp_path, model))
    assert isinstance(read.method, cb.Poses) and checking.check(read, foresight=True).ok
    saved = fit_into(read, tmp_path / "run")
    true = truth(model, 6)
    assert saved.converged and all(e.sd is not None and abs(e.value - true[name]) < 4 * e.sd for name, e in saved.parameters.items())
    text = (tmp_path / "run" / "report.html").read_text()
    assert "smaller than the stated noise" not in text and "Yes, after" in text
    again = reading.load(tmp_path / "run" / "experiment.toml")
    assert again.recordings[0].poses and isinstance(again.method, cb.Poses)
    assert set(pl.read_parquet(tmp_path / "run" / "forces.parquet").columns) == {"run", "time"}


def test_mistakes_are_sentences(tmp_path: Path, model: cb.Model) -> None:
    run = recording(model, 0, 10)
    moving = cb.read({"t": np.arange(9.0), "q": np.arange(9.0)}, observe={f"joint.{JOINTS[0]}.angle": "q"}, name="swing")
    tool_only = cb.read(poses(model, 0, 10), time=None, observe={c: o for c, o in OBSERVED.items() if "tool" in c})
    unstated = cb.read(poses(model, 0, 10), time=None, observe={**OBSERVED, f"joint.{JOINTS[0]}.angle": "q1"})
    rate = cb.read(poses(model, 0, 10), time=None, observe={**OBSERVED, f"joint.{JOINTS[0]}.rate": {"column": "q1", "sd": 1.0}})
    cases = [
        (lambda: cb.fit(model, run, {"body.lbr_iiwa_link_3.mass": None}), 'link_3.mass" cannot be estimated from poses at rest, which depend on geometry only'),
        (lambda: cb.fit(model, run, {"body.lbr_iiwa_link_3.inertia": cb.Unknown()}), "cannot be estimated from poses at rest, which have no dynamics"),
        (lambda: cb.fit(model, run, {f"joint.{JOINTS[0]}.angle.delay": None}), "which have no clock"),
        (lambda: cb.fit(model, run, UNKNOWNS, method="transcription"), 'method = "transcription" needs a motion; leave the method out, or ask for "poses"'),
        (lambda: cb.fit(model, [run, moving], UNKNOWNS), 'and the recording "swing" a motion; fit the poses first'),
        (lambda: cb.fit(model, moving, UNKNOWNS, method="poses"), '"swing" has a clock; read it with time=None'),
        (lambda: cb.fit(model, tool_only, UNKNOWNS), "In pose 1 of the run .* nothing says where joint.lbr_iiwa_joint_1, .* are; observe the joints"),
        (lambda: cb.fit(model, unstated, UNKNOWNS), 'no sd for "joint.lbr_iiwa_joint_1.angle"'),
        (lambda: cb.fit(model, rate, UNKNOWNS), "only angles, positions and orientations are observed"),
        (lambda: dataclasses.replace(run, initial={f"joint.{JOINTS[0]}.angle": 0.0}), "has poses at rest, and initial values"),
        (lambda: reading.load(experiment(tmp_path, model, 'time = "t"\n')), "has poses = true and time"),
        (lambda: cb.read(poses(model, 0, 9), time=None, observe={f"joint.{JOINTS[0]}.angle": {"column": "q1", "time": "q2"}}), "has a clock of its own"),
    ]
    for make, sentence in cases:
        with pytest.raises(cb.CalibodyError, match=sentence):
            make()
