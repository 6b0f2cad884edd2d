"""Observed forces: load cells in loops and, in free coordinates, in joints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calibody as cb
from calibody.experiment import load
from calibody.experiment.check import check

DOWN = cb.World(gravity=(0.0, -9.81, 0.0))


def noise(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def four_bar() -> cb.Model:
    """Three rods of 1 m in a plane, all turned by 60 degrees at rest; the last end is held at (1.3, 0, 0)."""
    rod = {"mass": 1.0, "inertia": (0.01, 0.1, 0.1), "com": (0.5, 0.0, 0.0)}
    bodies = [cb.Body("crank", orientation=(np.cos(0.5), 0.0, 0.0, np.sin(0.5)), **rod)]
    bodies += [cb.Body("coupler", "crank", position=(1.0, 0.0, 0.0), orientation=(np.cos(0.5), 0.0, 0.0, -np.sin(0.5)), **rod)]
    joints = [
        cb.Joint("ground", "crank", damping=0.05),
        cb.Joint("top", "coupler", damping=0.05),
        cb.Joint("rail", "slider", "slide", axis=(1, 0, 0), damping=1.0),
    ]
    bodies += [cb.Body("slider", mass=0.3, inertia=(1e-3, 1e-3, 1e-3), position=(1.5403, 0.8415, 0.0))]
    return cb.Model("crank", bodies, joints, [cb.Loop("pin", body1="coupler", body2="slider", anchor1=(1.0, 0.0, 0.0))], world=DOWN)


def pendulum() -> cb.Model:
    bodies = [
        cb.Body("rod", mass=1.0, com=(0.3, 0.0, 0.0), inertia=(0.01, 0.02, 0.02)),
        cb.Body("tip", "rod", position=(0.6, 0, 0), mass=0.2, com=(0.1, 0, 0), inertia=(1e-3,) * 3),
    ]
    return cb.Model("pendulum", bodies, [cb.Joint("pivot", "rod", damping=0.01), cb.Joint("knee", "tip", damping=0.001)], world=DOWN)


@pytest.mark.parametrize(("joint", "coordinates"), [("pivot", "free"), ("knee", "free"), ("knee", "tree")])
def test_a_load_cell_in_a_joint_weighs_what_swings(joint: str, coordinates: str) -> None:
    """Free swings know ratios of masses only; with a force, the mass is determined too."""
    motion = cb.simulate(pendulum(), 2.0, 0.001, {"joint.pivot.angle": 0.5})
    t, angles = motion.time[::10], {f"joint.{j}.angle": motion[f"joint.{j}.angle"][::10] for j in ("pivot", "knee")}
    observed = [cb.Observation(path, t, x + 1e-3 * noise(k, len(t)), 1e-3) for k, (path, x) in enumerate(angles.items())]
    force, late = motion[f"joint.{joint}.reaction.force"][53:-50:10], motion.time[53:-50:10]
    force = force + 0.05 * noise(5, *force.shape)
    cell = [cb.Observation(f"joint.{joint}.reaction.force.{c}", late, force[:, i], 0.05) for i, c in enumerate("xy")]
    unknown = {"mass": cb.Unknown(0.3, places={"body.tip.mass": "mass"})}
    alone = cb.fit(pendulum(), cb.Recording("run", tuple(observed)), unknown, coordinates=coordinates, h=0.0025)
    result = cb.fit(pendulum(), cb.Recording("run", (*observed, *cell)), unknown, coordinates=coordinates, h=0.0025)
    p, before = result.parameters["mass"], alone.parameters["mass"]
    assert (
        result.converged
        and p.sd is not None
        and p.scatter is not None
        and before.scatter is not None
        and p.scatter < before.scatter
        and abs(p.value - 0.2) < 4.0 * p.sd + 1e-3
    )
    cells = [c for c in result.fit if "force" in c.channel]
    assert len(cells) == 2 and all(c.rms_over_sd < 1.2 for c in cells), [c.rms_over_sd for c in cells]


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_a_load_cell_in_a_loop(coordinates: str) -> None:
    """Its gain is unknown, and so is the mass of the slider."""
    motion = cb.simulate(four_bar(), 1.0, 0.001, {"joint.ground.rate": 1.0})
    t = motion.time[::10]
    observed = [cb.Observation("joint.ground.angle", t, motion["joint.ground.angle"][::10] + 1e-3 * noise(1, len(t)), 1e-3)]
    force = motion["loop.pin.force"][::10] + 0.02 * noise(2, len(t), 3)
    cell = [cb.Observation(f"loop.pin.force.{c}", t, (2.0 if c == "x" else 1.0) * force[:, i], 0.02) for i, c in enumerate("xy")]
    unknown = {"body.slider.mass": 0.4, "joint.rail.damping": 0.8, "loop.pin.force.x.gain": None}
    result = cb.fit(four_bar(), cb.Recording("run", (*observed, *cell)), unknown, coordinates=coordinates, h=0.005)
    assert result.converged, result.status
    for path, true in {"body.slider.mass": 0.3, "joint.rail.damping": 1.0, "loop.pin.force.x.gain": 2.0}.items():
        assert result.parameters[path].value == pytest.approx(true, rel=0.02), path
    if coordinates == "tree":
        assert result.predict(result.recordings[0], 0.5)["loop.pin.force.y"].rms < 0.2


def test_sentences() -> None:
    t = np.linspace(0.0, 1.0, 50)
    angle = cb.Observation("joint.pivot.angle", t, np.sin(t), 1e-3)

    def run(*paths: str) -> cb.Recording:
        return cb.Recording("run", (angle, *(cb.Observation(p, t, np.cos(t), 0.1) for p in paths)))

    with pytest.raises(cb.CalibodyError, match="does not observe forces yet"):
        cb.fit(pendulum(), run("joint.pivot.reaction.force.x"), {"body.rod.mass": None}, method="shadow", h=0.02)
    with pytest.raises(cb.CalibodyError, match="observes forces only"):
        only = cb.Recording("run", (cb.Observation("joint.pivot.reaction.force.x", t, np.cos(t), 0.1),))
        cb.fit(pendulum(), only, {"body.rod.mass": None}, coordinates="free")


def test_reactions_are_observed_in_all_coordinates(tmp_path: Path) -> None:
    pendulum().save(tmp_path / "pendulum.xml")
    pl.DataFrame({"t": np.arange(50) / 50, "a": np.sin(np.arange(50.0)), "f": np.cos(np.arange(50.0))}).write_csv(tmp_path / "log.csv")
    text = '[model]\nfile = "pendulum.xml"\n[[run]]\ndata = "log.csv"\nobserve = { "joint.pivot.angle" = "a", "joint.pivot.reaction.force.x" = "f" }\n'
    text += '[[estimate]]\nparameter = "body.rod.mass"\n'
    for coordinates in ("tree", "free"):
        (tmp_path / "e.toml").write_text(f'{text}[method]\ncoordinates = "{coordinates}"\n')
        assert check(load(tmp_path / "e.toml")).ok
