"""Contacts and limits of MJCF files: which pairs MuJoCo would let touch, with which friction; what they do; models of others at rest."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from contacts import cleared
from formats.catalogue import entries

import calibody as cb

PAIRED = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 .1" friction=".4"/>
    <geom name="wall" type="box" size=".1 .1 .1" pos="0 0 .05" contype="2" conaffinity="2"/>
    <body name="a"><freejoint/><geom name="ball" size=".1" friction=".9"/><geom name="ghost" size=".1" contype="0" conaffinity="0"/>
      <body name="b"><joint axis="1 0 0" range="-30 40" limited="true" name="knee"/><geom name="shin" type="capsule" size=".05 .1" condim="1"/>
        <body name="c"><joint axis="0 1 0" type="ball" range="0 40" limited="true" name="ankle"/><geom name="foot" type="box" size=".1 .1 .05" friction=".2" priority="2"/></body>
      </body>
    </body>
    <body name="d"><freejoint/><geom name="other" size=".1" contype="3" conaffinity="1"/></body>
    <body name="e"><freejoint/><geom name="drum" type="cylinder" size=".1 .1" condim="6"/></body>
  </worldbody>
  <contact><exclude body1="a" body2="d"/><pair geom1="ghost" geom2="floor" friction=".33 .33 .1 .1 .1"/></contact>
</mujoco>
"""


def test_pairs_are_mujocos(tmp_path: Path) -> None:
    """Everything is where it overlaps with everything: MuJoCo's own list of contacts, with its friction, is ours and what is noted as not colliding."""
    file = tmp_path / "paired.xml"
    file.write_text(PAIRED)
    plain, model = cb.load(file), cb.load(file, contacts=True)
    assert not plain.contacts and not plain.limits and any("Contacts do not act" in n for n in plain.notes)
    m = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    theirs = {}
    for contact in data.contact:
        pair = frozenset(m.geom(int(g)).name for g in contact.geom)
        theirs[pair] = 0.0 if contact.dim == 1 else contact.friction[0]
    ours = {frozenset((c.a, c.b)): c.friction for c in model.contacts}
    # those that are inside each other here, and those that cannot collide, are named instead
    assert set(ours) <= set(theirs)
    for pair, friction in ours.items():
        assert friction == pytest.approx(theirs[pair]), pair
    assert (
        frozenset(("ghost", "floor")) in ours and ours[frozenset(("foot", "floor"))] == 0.2 and ours[frozenset(("shin", "floor"))] == 1.0
    )  # the larger of the two, and so is condim
    assert ours[frozenset(("ball", "floor"))] == 0.9
    assert not any("d" in pair for pair in ours) and frozenset(("other", "ball")) not in theirs
    missing = {p for p in set(theirs) - set(ours)}
    moving = {"ball", "ghost", "shin", "foot", "other", "drum"}
    assert all(p <= moving or "wall" in p for p in missing), missing
    notes = " ".join(model.notes)
    for words in (
        "cannot collide yet: box and cylinder",
        "overlap where the file has them",
        "Torsional and rolling friction do not act (condim 4 and 6)",
        "Limits of ball joints do not act: ankle",
    ):
        assert words in notes, notes
    assert [(x.name, x.joint, x.side) for x in model.limits] == [("knee.lower", "knee", "lower"), ("knee.upper", "knee", "upper")]
    assert [x.position for x in model.limits] == pytest.approx(np.radians([-30, 40]))


def test_saving_keeps_the_contacts_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "paired.xml"
    file.write_text(PAIRED)
    model = cb.load(file, contacts=True)
    target = tmp_path / "heavier.xml"
    model.replace({"joint.knee.damping": 0.3}).save(target)
    again = cb.load(target, contacts=True)
    assert again.contacts == model.contacts and again["joint.knee.damping"] == 0.3
    with pytest.raises(cb.FormatError, match=r"contact\.ball-floor\.friction"):
        model.replace({"contact.ball-floor.friction": 0.1}).save(target)
    with pytest.raises(cb.FormatError, match="has no place in this format"):
        cb.Model(model.name, model.bodies, model.joints, geometries=model.geometries, contacts=model.contacts).save(tmp_path / "new.xml")


STOOL = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1"/>
    <body name="stool" pos="0 0 .5"><freejoint/>
      <inertial mass="6" pos=".1 .05 0" diaginertia=".4 .4 .4"/>
      <geom name="one" size=".05" pos=".4 0 -.45"/><geom name="two" size=".05" pos="-.3 .3 -.45"/><geom name="three" size=".05" pos="-.3 -.3 -.45"/>
    </body>
  </worldbody>
</mujoco>
"""


def test_static_forces_are_mujocos(tmp_path: Path) -> None:
    """Three legs share a load in one way only: MuJoCo's shares, after it has come to rest, to 2 %; their sum is the weight."""
    file = tmp_path / "stool.xml"
    file.write_text(STOOL)
    model = cb.load(file, contacts=True)
    motion = cb.simulate(model, 0.2, h=0.005)
    m = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(m)
    while data.time < 3.0:
        mujoco.mj_step(m, data)
    force, theirs = np.zeros(6), {}
    for i, contact in enumerate(data.contact):
        mujoco.mj_contactForce(m, data, i, force)
        theirs[m.geom(int(contact.geom[1])).name] = force[0]
    assert len(theirs) == 3
    ours = {c.a: motion[f"contact.{c.name}.force.normal"][-2] for c in model.contacts}
    for leg, share in theirs.items():
        assert ours[leg] == pytest.approx(share, rel=0.02)
    assert sum(ours.values()) == pytest.approx(6 * 9.81, rel=1e-9)


def _catalogued(name: str, package: str) -> Path:
    found = [e for e in entries() if e.package == package and e.name == name]
    if not found:
        pytest.skip(f"{package} is not installed")
    return found[0].path


def _weight(model: cb.Model) -> float:
    return sum(b.mass for b in model.bodies) * 9.81


def _on_the_world(model: cb.Model, motion: cb.Motion, node: int) -> np.ndarray:
    fixed = {g.name for g in model.geometries if g.body == "world"}
    return sum((motion[f"contact.{c.name}.force"][node] for c in model.contacts if c.b in fixed), np.zeros(3))


MODELS = {
    "gymnasium": (
        "ant.xml", "half_cheetah.xml", "hopper.xml", "humanoid.xml", "humanoidstandup.xml", "inverted_double_pendulum.xml", "inverted_pendulum.xml", "point.xml",
        "pusher.xml", "pusher_v5.xml", "reacher.xml", "walker2d.xml", "walker2d_v5.xml",
    ),
    "dm_control": ("ball_in_cup.xml", "cartpole.xml", "cheetah.xml", "finger.xml", "hopper.xml", "humanoid.xml", "point_mass.xml", "reacher.xml", "walker.xml"),
}  # fmt: skip
RESTING = {("gymnasium", "ant.xml"), ("dm_control", "hopper.xml"), ("dm_control", "walker.xml")}
"""Those that lie still after 5 s, with nothing but the ground below them."""


@pytest.mark.slow
@pytest.mark.parametrize(("package", "name"), [(p, n) for p, names in MODELS.items() for n in names])
def test_models_of_others_move_and_rest(package: str, name: str) -> None:
    """5 s without failing; what rests stays there, and the ground carries its weight."""
    model = cb.load(_catalogued(name, package), contacts=True)
    assert model.contacts or model.limits
    motion = cb.simulate(model, 5.0, h=0.005, initial=cleared(model))
    assert np.isfinite(motion.q).all()
    if (package, name) in RESTING:
        rates = [np.abs(motion[f"joint.{j.name}.rate"][-20:]).max() for j in model.joints]
        assert max(rates) < 1e-6
        assert np.allclose(_on_the_world(model, motion, -2), (0, 0, _weight(model)), atol=1e-6 * _weight(model))


@pytest.mark.slow
def test_a_walker_falls_and_lies_on_the_ground() -> None:
    model = cb.load(_catalogued("hopper.xml", "gymnasium"), contacts=True)
    motion = cb.simulate(model, 0.5, h=0.005, initial=cleared(model))
    assert motion.events and _on_the_world(model, motion, -2)[2] == pytest.approx(_weight(model), rel=1e-3)
