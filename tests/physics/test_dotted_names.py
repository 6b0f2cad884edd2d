"""Names may contain dots: a joint `a` is not mixed up with a joint `a.b`."""

from __future__ import annotations

import numpy as np

import calibody as cb
from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers.spook_rows import Rows


def arm() -> cb.Model:
    rod = {"mass": 1.0, "com": (0.0, 0.0, -0.5), "inertia": (0.1, 0.1, 0.01)}
    bodies = [cb.Body("upper", **rod), cb.Body("lower", "upper", position=(0.0, 0.0, -1.0), **rod)]
    return cb.Model("arm", bodies, [cb.Joint("a", "upper", axis=(0, 1, 0)), cb.Joint("a.b", "lower", axis=(0, 1, 0))])


def test_rows_of_the_regularised_stepper() -> None:
    structure = Structure.build(arm(), "free")
    rows = Rows.of(structure, Numbers.of(structure), ["joint.a.b.damping", "joint.a.b.armature", "joint.a.b.friction"])
    assert rows.viscous.tolist() == rows.shaft.tolist() == [1]
    assert [d.joint for d in rows.dry] == ["a.b"]


def test_friction_rate_of_a_fit() -> None:
    rng = np.random.default_rng(2)
    truth = arm().replace({"joint.a.b.friction": 0.3})
    motion = cb.simulate(truth, 2.0, 0.002, {"joint.a.angle": 1.0})
    t = motion.time[::5]
    observed = tuple(cb.Observation(f"joint.{j}.angle", t, motion[f"joint.{j}.angle"][::5] + 1e-3 * rng.normal(size=len(t)), 1e-3) for j in ("a", "a.b"))
    result = cb.fit(arm(), cb.Recording("run", observed), {"joint.a.b.friction": 0.2}, h=0.01)
    assert result.parameters["joint.a.b.friction"].value > 0.1
    assert list(result.friction_rate) == ["a.b"]
