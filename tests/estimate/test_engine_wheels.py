"""Files of other packages that calibody's own mechanics refuses (fluids, tendons that are coupled, actuators of third order): simulated, calibrated and written back in MuJoCo's engine."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import calibody as cb
from calibody.errors import CalibodyError

FILES = {
    "third order": ("dm_control", "mujoco/testing/assets/model_with_third_order_actuators.xml"),
    "fish": ("dm_control", "suite/fish.xml"),
    "manipulator": ("dm_control", "suite/manipulator.xml"),
    "stacker": ("dm_control", "suite/stacker.xml"),
    "swimmer": ("dm_control", "suite/swimmer.xml"),
    "swimmer of gymnasium": ("gymnasium", "envs/mujoco/assets/swimmer.xml"),
    "test data": ("mujoco", "testdata/model.xml"),
}


def of(package: str, file: str) -> Path:
    """A file of another package."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None or not (path := Path(found.origin).parent / file).is_file():
        pytest.skip(f"{package} is not installed, or has no {file}")
    return path


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_what_is_refused_is_calibrated_there(name: str, tmp_path: Path) -> None:
    path = of(*FILES[name])
    with pytest.raises(CalibodyError):
        cb.load(path)
    model = cb.load(path, engine="mujoco")
    joints = [j for j in model.joints if j.kind in ("hinge", "slide")]
    places = {j.name: "angle" if j.kind == "hinge" else "position" for j in joints}
    motion, random = cb.simulate(model, 0.3, 0.002, stepper="mujoco"), np.random.default_rng(0)
    t = motion.time[::5]
    seen = [
        cb.Observation(c, t, motion[c][::5] + 1e-4 * random.normal(size=len(t)), 1e-4) for c in (f"joint.{j}.{what}" for j, what in list(places.items())[:8])
    ]
    start = {f"joint.{j}.{q}": float(motion[f"joint.{j}.{q}"][0]) for j, what in places.items() for q in (what, "rate")}
    body = next(b for b in model.bodies if b.mass > 0.0 and any(j.body == b.name for j in joints))
    mass = cb.Unknown(1.3 * body.mass, lower=0.2 * body.mass)  # of a body at rest on the floor it may be anything
    unknowns = {f"body.{body.name}.mass": mass, f"joint.{joints[0].name}.damping": 1.3 * max(joints[0].damping, 0.01)}
    result = cb.fit(model, cb.Recording("run", seen, initial=start), unknowns, method=cb.Shooting(stepper="mujoco", windows=1, h=0.002))
    assert result.converged, result.status
    back = cb.load(result.model.save(tmp_path / "calibrated.xml"), engine="mujoco")
    for number, e in result.parameters.items():
        assert back[number] == pytest.approx(e.value, rel=1e-6), number


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_damping_of_a_leg_that_does_not_turn_is_not_known(seed: int) -> None:
    """A quadruped whose base nobody sees falls on its feet and turns no hip: what noise makes of the hip's motion was taken for information (-94 +- 31, true 30)."""
    model = cb.load(of("dm_control", "suite/quadruped.xml"), engine="mujoco")
    joints = [j.name for j in model.joints if j.kind == "hinge"]
    motion, random = cb.simulate(model, 0.3, 0.002, stepper="mujoco"), np.random.default_rng(seed)
    t = motion.time[::5]
    seen = [cb.Observation(f"joint.{j}.angle", t, motion[f"joint.{j}.angle"][::5] + 1e-4 * random.normal(size=len(t)), 1e-4) for j in joints]
    start = {f"joint.{j}.{q}": float(motion[f"joint.{j}.{q}"][0]) for j in joints for q in ("angle", "rate")}
    unknowns = {"joint.yaw_front_left.damping": 39.0, "body.hip_front_left.mass": cb.Unknown(5.57, lower=0.86)}
    result = cb.fit(model, cb.Recording("run", seen, initial=start), unknowns, method=cb.Shooting(stepper="mujoco", windows=1, h=0.002))
    damping, mass = result.parameters.values()
    assert result.converged, result.status
    assert damping.sd is None or abs(damping.value - 30.0) < 3.5 * damping.sd
    assert mass.sd is not None and abs(mass.value - model["body.hip_front_left.mass"]) < 3.5 * mass.sd
