"""Every model file of the packages of the test extra: read or refused, and what is read moves as in MuJoCo."""

from __future__ import annotations

import os
import re
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="MuJoCo's compiler reads the files and is the reference")

import mujoco
from formats.catalogue import Entry, entries, missing, table
from formats.kinematics import ordered_joints, poses

import calibody as cb
from calibody import formats
from calibody.errors import FormatError
from calibody.formats import edit, mjcf, resave
from calibody.formats.edit import Edits, render
from calibody.formats.engine import quiet
from calibody.formats.source import differences

DOCS = Path(__file__).resolve().parents[2] / "docs" / "models.md"
EVERYTHING = list(entries())
pytestmark = pytest.mark.peer


def _id(entry: Entry) -> str:
    return f"{entry.package}/{entry.name}"


@quiet()
def reference(entry: Entry, model: cb.Model):
    """MuJoCo's compiled model of the same file. URDF: fixed links apart and our inertias, because MuJoCo's reader replaces missing ones."""
    from calibody.formats import urdf

    if model.source.format == "mjcf":
        return mujoco.MjModel.from_xml_path(str(entry.path))
    text, _ = urdf._without_meshes(model.source.document)
    spec = mujoco.MjSpec.from_string(text)
    spec.compiler.fusestatic = False
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    principal = {body.name: np.linalg.eigh(cb.spatial.inertia.symmetric(body.inertia)) for body in model.bodies}
    for body in (b for b in spec.bodies if b.name != "world"):
        axes = principal[body.name][1] * np.array([1.0, 1.0, np.linalg.det(principal[body.name][1])])
        body.explicitinertial, body.mass, body.ipos = True, 1.0, model.body(body.name).com
        body.inertia, body.iquat, body.fullinertia = [1.0, 1.0, 1.0], cb.spatial.algebra.matrix_quaternion(axes), [np.nan] * 6
    m = spec.compile()
    for i, body in enumerate(model.bodies):  # after the compiler, which would "balance" an inertia on the border of the possible
        m.body_mass[i + 1], m.body_inertia[i + 1] = body.mass, principal[body.name][0]
    mujoco.mj_setConst(m, mujoco.MjData(m))
    return m


def random_state(m, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    q, v, u = random.uniform(-1.0, 1.0, m.nq), random.uniform(-1.0, 1.0, m.nv), random.uniform(-1.0, 1.0, m.nu)
    mujoco.mj_normalizeQuat(m, q)
    return q, v, u


@pytest.mark.parametrize("entry", EVERYTHING, ids=_id)
def test_read_or_refused(entry: Entry) -> None:
    """A sentence, or a model whose unchanged save is the file itself and whose poses are MuJoCo's."""
    model, sentence = entry.outcome()
    if model is None:
        assert sentence.endswith(".") and "\n" not in sentence
        return
    assert resave.content(model, entry.path)[0] == entry.path.read_bytes()
    m = reference(entry, model)
    data = mujoco.MjData(m)
    data.qpos[:], _, _ = random_state(m, zlib.crc32(_id(entry).encode()))
    mujoco.mj_kinematics(m, data)
    H = poses(model, data.qpos)
    assert [j.name for j in ordered_joints(model)] == [j.name for j in model.joints]
    for i, body in enumerate(model.bodies):
        assert H[body.name][:, 3] == pytest.approx(data.xpos[i + 1], abs=1e-10)
        assert H[body.name][:, :3].ravel() == pytest.approx(data.xmat[i + 1], abs=1e-10)


MOVING = [e for e in EVERYTHING if e.package != "pybullet_data" or "random" not in e.name]


def smooth_acceleration(m, q: np.ndarray, v: np.ndarray, u: np.ndarray) -> np.ndarray:
    """MuJoCo's acceleration without contacts, limits, loops, friction and limits of the drives' sum on a joint."""
    m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_CONTACT
    m.jnt_actfrclimited[:] = 0
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
    lagging = np.flatnonzero(m.actuator_actadr >= 0)
    data.act[m.actuator_actadr[lagging]] = np.where(
        m.actuator_ctrllimited[lagging], np.clip(u[lagging], *m.actuator_ctrlrange[lagging].T), u[lagging]
    )  # settled
    with quiet():
        mujoco.mj_forward(m, data)
    if data.warning[mujoco.mjtWarning.mjWARN_INERTIA].number:
        pytest.skip("the inertia matrix is singular (links without mass at the end of a chain): there is no acceleration to compare")
    return np.array(data.qacc)


@pytest.mark.parametrize("entry", MOVING, ids=_id)
def test_fresh_file_moves_alike(entry: Entry, tmp_path: Path) -> None:
    """The model holds everything that moves the mechanism: a file written from it alone has the accelerations of the original."""
    model, _ = entry.outcome()
    if model is None or not model.joints:
        pytest.skip("refused, or nothing moves: there are no accelerations to compare")
    try:
        with quiet():
            fresh = mujoco.MjModel.from_xml_path(str(formats.convert(_without_constraints(model), tmp_path / "fresh.xml")))
    except FormatError as error:
        assert "mass and inertia of moving bodies" in str(error) or "inertia must" in str(error)
        pytest.skip("an inertia is zero or on the border of the possible, which MJCF does not allow")
    m = reference(entry, model)
    q, v, u = random_state(m, zlib.crc32(_id(entry).encode()))
    expected, found = smooth_acceleration(m, q, v, u), smooth_acceleration(fresh, q, v, u)
    scale = max(1.0, float(np.abs(expected).max()))
    assert found / scale == pytest.approx(expected / scale, abs=1e-8)


@pytest.mark.parametrize("entry", MOVING, ids=_id)
def test_calibrated_elsewhere(entry: Entry, tmp_path: Path) -> None:
    """A heavier body and more damping, saved in another folder: the file reads back as the model, and its text has hardly changed."""
    model, _ = entry.outcome()
    if model is None or not model.joints:
        pytest.skip("refused, or nothing moves: there is nothing to calibrate")
    joint = model.joints[-1]
    body = model.body(joint.body)
    new = model.replace(
        {f"body.{body.name}.mass": 1.1 * body.mass, f"body.{body.name}.inertia": [1.1 * x for x in body.inertia], f"joint.{joint.name}.damping": 0.375}
    )
    out = formats.save(new, tmp_path / f"calibrated{entry.path.suffix}")
    assert not differences(new, formats.load(out))
    if not model.source.elements["body", body.name].document.label.startswith("./") and "settotalmass" not in entry.path.read_text():
        texts = entry.path.read_bytes(), resave.content(new, entry.path)[0]  # in its own folder, where no path changes
        before, after = (Counter(re.split(rb"[\s\"'/>]+", text)) for text in texts)
        assert sum(((before - after) + (after - before)).values()) <= 60


@pytest.mark.parametrize("entry", MOVING, ids=_id)
def test_accelerations_are_mujoco_s(entry: Entry) -> None:
    """calibody's own smooth dynamics at a random state with random control (within its range: clipping is the business of the drive)."""
    model, _ = entry.outcome()
    if model is None or not model.joints:
        pytest.skip("refused, or nothing moves: there are no accelerations to compare")
    m = reference(entry, model)
    q, v, u = random_state(m, zlib.crc32(_id(entry).encode()))
    u = np.array([np.clip(x, *(a.control_range or (-1.0, 1.0))) for x, a in zip(u, model.actuators, strict=True)])
    expected = smooth_acceleration(m, q, v, u)
    found = np.asarray(cb.forward_dynamics(_without_constraints(model), q, v, control=u))
    scale = max(1.0, float(np.abs(expected).max()))
    assert found / scale == pytest.approx(expected / scale, abs=1e-8)


def _without_constraints(model: cb.Model) -> cb.Model:
    import dataclasses

    return dataclasses.replace(model.replace({f"joint.{j.name}.friction": 0.0 for j in model.joints}), loops=())


@quiet()
def test_flattened_includes_are_what_mujoco_reads() -> None:
    """Our own resolution of includes gives the text that MuJoCo's gives: same compiled numbers."""
    found = [e for e in EVERYTHING if e.package == "dm_control" and e.name == "humanoid.xml"]
    if not found:
        pytest.skip("dm_control is not installed")
    document = edit.parse(found[0].path.read_bytes(), "humanoid.xml")
    mjcf.resolve_includes(document, found[0].path.parent)
    ours = mujoco.MjModel.from_xml_string(render(document, Edits(), lambda _: True).decode())
    theirs = mujoco.MjModel.from_xml_path(str(found[0].path))
    assert np.array_equal(ours.body_mass, theirs.body_mass) and ours.nmat == theirs.nmat


def test_table_is_up_to_date() -> None:
    if missing():
        pytest.skip(f"the table needs the files of {', '.join(missing())} (extra `test`)")
    text = table()
    if os.environ.get("CALIBODY_UPDATE_DOCS"):
        DOCS.parent.mkdir(exist_ok=True)
        DOCS.write_text(text, encoding="utf-8")
    assert DOCS.is_file() and DOCS.read_text(encoding="utf-8") == text, "docs/models.md is out of date: run with CALIBODY_UPDATE_DOCS=1"
