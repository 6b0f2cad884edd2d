"""Springs between two points: in MJCF a spatial tendon between two sites."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="MuJoCo's compiler reads the files")

import mujoco

import calibody as cb
from calibody import formats
from calibody.errors import FormatError
from calibody.formats.source import differences

TEXT = """<mujoco>
  <worldbody>
    <site name="wall" pos="0 0 1"/>
    <body name="b"><joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/><site name="tip" pos=".3 0 0"/><site name="other"/></body>
  </worldbody>
  <tendon>
    <spatial name="coil" stiffness="40" damping="0.5" {length}><site site="wall"/><site site="tip"/></spatial>
  </tendon>
</mujoco>
"""


def load(tmp_path: Path, text: str) -> cb.Model:
    (tmp_path / "m.xml").write_text(text)
    return formats.load(tmp_path / "m.xml")


def test_numbers(tmp_path: Path) -> None:
    model = load(tmp_path, TEXT.format(length='springlength="0.5"'))
    assert model.springs == (cb.Spring("coil", "world", "b", (0, 0, 1), (0.3, 0, 0), 40.0, 0.5, 0.5),)
    assert load(tmp_path, TEXT.format(length="")).springs[0].rest_length == pytest.approx(np.hypot(1.0, 0.3), rel=1e-15)


def test_saved_in_place(tmp_path: Path) -> None:
    text = TEXT.format(length='springlength="0.5"')
    model = load(tmp_path, text)
    out = formats.save(model.replace({"spring.coil.stiffness": 55.0, "spring.coil.rest_length": 0.25}), tmp_path / "o.xml")
    assert out.read_text() == text.replace('stiffness="40"', 'stiffness="55"').replace('springlength="0.5"', 'springlength="0.25"')


def test_moved_ends_and_sites(tmp_path: Path) -> None:
    """The spring and the site it ends at are two elements of the model: moving one must not move the other."""
    model = load(tmp_path, TEXT.format(length=""))
    for path in ("spring.coil.point2.x", "site.tip.position.x", "spring.coil.point1.z", "body.b.position.x"):
        new = model.replace({path: 0.4})
        assert not differences(new, formats.load(formats.save(new, tmp_path / "o.xml"))), path


def test_fresh_file(tmp_path: Path) -> None:
    model = load(tmp_path, TEXT.format(length='springlength="0.5"'))
    out = formats.convert(model, tmp_path / "o.xml")
    assert formats.load(out).springs == model.springs
    accelerations = []
    for path in (tmp_path / "m.xml", out):
        m = mujoco.MjModel.from_xml_path(str(path))
        data = mujoco.MjData(m)
        data.qpos[:], data.qvel[:] = 0.3, -0.7
        mujoco.mj_forward(m, data)
        accelerations.append(data.qacc[0])
    assert accelerations[0] == pytest.approx(accelerations[1], rel=1e-13)
    with pytest.raises(FormatError, match=r"spring\.coil has no place in this format"):
        formats.convert(model, tmp_path / "o.urdf")


@pytest.mark.parametrize("length", ['springlength="0.2 0.5"', 'frictionloss="1"', 'armature="1"'])
def test_other_tendons_are_paths(tmp_path: Path, length: str) -> None:
    model = load(tmp_path, TEXT.format(length=length))
    assert not model.springs and [p.name for p in model.paths] == ["coil"]
