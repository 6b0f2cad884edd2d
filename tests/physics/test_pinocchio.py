"""Accelerations of URDF robots against Pinocchio, which reads the same files with its own parser."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from formats.catalogue import entries

import calibody as cb

pytestmark = pytest.mark.peer

ROBOTS = {
    ("pybullet_data", "kuka_iiwa/model.urdf"): 7,
    ("example-robot-data", "ur_description/urdf/ur5_robot.urdf"): 6,
    ("example-robot-data", "panda_description/urdf/panda.urdf"): 9,
}


def file_of(package: str, name: str) -> Path:
    found = [e.path for e in entries() if (e.package, e.name) == (package, name)]
    if not found:
        pytest.skip(f"{package} is not installed (the `test` extra)")
    return found[0]


@pytest.mark.parametrize(("package", "name"), ROBOTS)
def test_accelerations(package: str, name: str) -> None:
    pin = pytest.importorskip("pinocchio", reason="Pinocchio is the reference (the `test` extra)")
    path = file_of(package, name)
    reference = pin.buildModelFromUrdf(str(path))
    data = reference.createData()
    model = cb.load(path)
    # damping and friction are the only joint laws of a URDF; aba knows neither, nor the mimicking finger of the panda
    smooth = dataclasses.replace(model, loops=()).replace({f"joint.{j.name}.{law}": 0.0 for j in model.joints for law in ("damping", "friction")})
    smooth = smooth.replace({"world.gravity": tuple(reference.gravity.linear)})
    names = [j.name for b in smooth.ordered_bodies for j in smooth.joints_of(b.name)]
    order = [reference.joints[reference.getJointId(n)].idx_v for n in names]
    assert reference.nq == reference.nv == len(names) == ROBOTS[package, name]
    assert sorted(order) == list(range(reference.nv))
    random = np.random.default_rng(7)
    for _ in range(5):
        q, v, force = random.uniform(-1.5, 1.5, len(names)), random.normal(size=len(names)), random.normal(size=len(names))
        theirs = np.zeros((3, len(names)))
        theirs[:, order] = q, v, force
        expected = pin.aba(reference, data, *theirs)[order]
        found = cb.forward_dynamics(smooth, q, v, force=force)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
        back = cb.inverse_dynamics(smooth, q, v, expected)
        np.testing.assert_allclose(back, pin.rnea(reference, data, theirs[0], theirs[1], data.ddq)[order], rtol=1e-8, atol=1e-8)
