"""A file that uses every kind of joint, spring and drive accelerates as in MuJoCo: the numbers mean what MuJoCo means by them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="MuJoCo's compiler reads the files and is the reference")

import mujoco
from formats.models import RICH

import calibody as cb
from calibody import formats
from calibody.formats.engine import quiet

TENDON = '<tendon><spatial name="coil" stiffness="40" damping="0.5" springlength="0.3"><site site="origin"/><site site="framed"/></spatial></tendon></mujoco>'


@pytest.mark.parametrize("seed", range(4))
def test_accelerations(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "rich.xml"
    path.write_text(RICH.replace("</mujoco>", TENDON))
    model = formats.load(path)
    assert model.springs
    with quiet():
        m = mujoco.MjModel.from_xml_path(str(path))
        m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        data = mujoco.MjData(m)
        random = np.random.default_rng(seed)
        data.qpos[:], data.qvel[:], data.ctrl[:] = random.normal(size=m.nq), random.normal(size=m.nv), random.uniform(-1.0, 1.0, m.nu)
        mujoco.mj_normalizeQuat(m, data.qpos)
        mujoco.mj_forward(m, data)
    smooth = dataclasses.replace(model.replace({f"joint.{j.name}.friction": 0.0 for j in model.joints}), loops=())
    found = np.asarray(cb.forward_dynamics(smooth, data.qpos, data.qvel, control=data.ctrl))
    assert found == pytest.approx(data.qacc, rel=1e-9, abs=1e-9)
