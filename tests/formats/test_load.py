"""Reading: every number is where it belongs, what does not act is noted, what cannot be represented is refused in one sentence."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="MuJoCo's compiler reads the files")

from formats.models import RICH, URDF

import calibody as cb
from calibody import formats
from calibody.errors import CalibodyError, FormatError


def load(tmp_path: Path, text: str | bytes, name: str = "m.xml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return formats.load(path)


def arm(inside: str = "", joint: str = "<joint name='j'/>", after: str = "", option: str = "") -> str:
    return (
        f"<mujoco>{option}\n<worldbody><body name='b'>{joint}<geom size='.1' pos='.2 0 0'/>{inside}</body>\n"
        f"<body name='c' pos='3 0 0'><joint name='k'/><geom size='.1' pos='.2 0 0'/><site name='s'/></body></worldbody>\n{after}</mujoco>"
    )


# -- numbers -----------------------------------------------------------------------------------------------------------------------


def test_numbers_of_a_rich_file(tmp_path: Path) -> None:
    model = load(tmp_path, RICH)
    turn, lift, free = model.joint("turn"), model.joint("lift"), model.joint("joint_6")
    assert (turn.reference, turn.springref) == pytest.approx((np.pi / 6, np.pi / 15), abs=1e-15)
    assert (turn.stiffness, turn.friction, turn.armature, turn.damping) == (3.0, 0.2, 0.01, 0.05)
    assert (lift.kind, lift.anchor, lift.reference, lift.springref) == ("slide", (0.1, 0.2, 0.3), 0.1, 0.05)
    assert model.joint("socket").kind == "ball" and model.joint("socket").stiffness == 0.5
    assert free.kind == "free" and free.spring_position == (0.0, 3.0, 2.0)
    assert model.body("flyer").position == (0.0, 0.0, 0.0)  # the coordinate is the absolute pose
    assert model.body("ball").inertia == (0.01, 0.02, 0.015, 0.001, 0.002, 0.003)
    assert model.body("base").inertia == pytest.approx((0.025, 0.025, 0.04, -0.005, 0.0, 0.0), abs=1e-16)
    assert model.body("arm").parent == "base" and model.body("arm").mass == pytest.approx(24.0)


def test_actuators(tmp_path: Path) -> None:
    model = load(tmp_path, RICH)
    motor, servo, speed, drive = model.actuators
    assert (motor.gain, motor.gear, motor.control_range) == (1.0, 2.0, (-1.0, 1.0))
    assert (servo.gain, servo.stiffness) == (20.0, 20.0) and servo.damping > 0.0
    assert (speed.gain, speed.damping, speed.gear) == (4.0, 4.0, 3.0)
    assert (drive.gain, drive.bias, drive.stiffness, drive.damping) == pytest.approx((2.0, 0.1, 3.0, 0.6))
    assert model.joint("wrist").armature == pytest.approx(0.3 * 4.0)


def test_loops_hold_at_the_reference(tmp_path: Path) -> None:
    """MuJoCo derives the second anchor of a connect, and the relative pose of a weld, from the placement at the reference."""
    from formats.kinematics import poses, reference_coordinates

    model = load(tmp_path, RICH)
    assert [loop.kind for loop in model.loops] == ["point", "weld", "coupling"]
    H = poses(model, reference_coordinates(model))
    for loop in model.loops[:2]:
        a, b = (H[x][:, :3] @ np.array(y) + H[x][:, 3] for x, y in ((loop.body1, loop.anchor1), (loop.body2, loop.anchor2)))
        assert a == pytest.approx(b, abs=1e-12)
    assert model.loops[2].polynomial == (0.1, 0.5, 0.0, 0.0, 0.0) and model.loops[2].joint2 == "turn"


def test_sensors_and_channels(tmp_path: Path) -> None:
    model = load(tmp_path, RICH)
    assert [(s.name, s.channel) for s in model.sensors] == [
        ("angle", "joint.turn.angle"), ("sensor_2", "joint.lift.position"), ("rate", "joint.turn.rate"),
        ("where", "site.marker.position"), ("centre", "body.arm.com"), ("gyro", "site.marker.angular_rate"),
    ]  # fmt: skip
    assert model.sensors[0].sd == 0.01


def test_notes(tmp_path: Path) -> None:
    notes = load(tmp_path, RICH).notes
    for words in ("Contacts do not act", "Joint limits do not act: turn.", "switches off are left out: loose", "Closed loops are rigid", "left out: compass"):
        assert sum(words in note for note in notes) == 1
    assert all(note.endswith(".") and "\n" not in note for note in notes)
    assert not any("Contacts" in note for note in load(tmp_path, arm(option="<option><flag contact='disable'/></option>")).notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (arm(after="<actuator><motor joint='j' forcerange='-1 1' damping='1'/></actuator>"), "The force limits of these actuators act on their damping too"),
        (arm(joint="<joint name='j' actuatorfrcrange='-1 1'/>"), "Limits of the actuator force on joints do not act: j."),
        (
            arm("<site name='p'/>", after="<tendon><spatial name='t' limited='true' range='0 1'><site site='p'/><site site='s'/></spatial></tendon>"),
            "The length limits of springs, transmissions and paths do not act: t.",
        ),
        (
            arm(after="<actuator><muscle name='m' joint='j' lengthrange='0 1'/></actuator>"),
            "The control of these muscles is their activation here; the file's activation dynamics does not act: m.",
        ),
        (
            arm(after="<tendon><fixed name='t' limited='true' range='0 1'><joint joint='j' coef='1'/></fixed></tendon>"),
            "The length limits of springs, transmissions and paths",
        ),
        (
            arm(after="<tendon><fixed name='t' stiffness='1' springlength='0 1'><joint joint='j' coef='1'/></fixed></tendon>"),
            "dead band of a transmission or path has rounded corners",
        ),
        (arm(option="<option><flag gravity='disable'/></option>"), "switches gravity off"),
        (arm(joint="<joint name='j' stiffness='2'/>", option="<option><flag spring='disable'/></option>"), "switches springs off"),
        (arm(joint="<freejoint align='true' name='j'/>"), "MuJoCo aligns them"),
        (arm(joint="<joint type='ball' frictionloss='1' name='j'/>"), "Friction of a ball or free joint"),
        (
            arm(after="<actuator><motor joint='j' name='m' group='2'/></actuator>", option="<option actuatorgroupdisable='2'/>"),
            "Actuators that the file switches off are left out: m.",
        ),
        (arm().replace("</worldbody>", "<body name='hand' mocap='true'/></worldbody>"), "motion capture stand still where the file puts them: hand."),
    ],
)
def test_each_note(tmp_path: Path, text: str, words: str) -> None:
    assert any(words in note for note in load(tmp_path, text).notes)


def test_gravity_flag_is_respected(tmp_path: Path) -> None:
    assert load(tmp_path, arm(option="<option><flag gravity='disable'/></option>"))["world.gravity"] == (0.0, 0.0, 0.0)


def test_missing_meshes_and_textures_are_not_drawn(tmp_path: Path) -> None:
    asset = "<asset><mesh file='no.stl'/><texture name='t' type='2d' file='no.png'/><material name='m' texture='t'/></asset>"
    inside = "<inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/><geom type='mesh' mesh='no'/><geom size='.1' material='m'/>"
    model = load(tmp_path, arm(inside=inside, option=asset))
    assert "Meshes and textures that cannot be found are not drawn: no.stl, no.png." in model.notes
    assert len(model.geometries) == 3 and formats.load(formats.save(model.replace({"body.b.mass": 2.0}), tmp_path / "o.xml"))["body.b.mass"] == 2.0


def test_model_can_be_sent_to_another_process(tmp_path: Path) -> None:
    model = load(tmp_path, RICH)
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert formats.save(again.replace({"body.ball.mass": 1.5}), tmp_path / "o.xml").read_text() == RICH.replace('mass="1" full', 'mass="1.5" full')


def test_generated_names_are_unique(tmp_path: Path) -> None:
    text = "<mujoco><worldbody><body name='body_2'><joint name='joint_2'/><geom size='.1'/></body><body><joint/><geom size='.1'/></body></worldbody></mujoco>"
    model = load(tmp_path, text)
    assert [b.name for b in model.bodies] == ["body_2", "body_2_"] and [j.name for j in model.joints] == ["joint_2", "joint_2_"]


# -- URDF --------------------------------------------------------------------------------------------------------------------------


def test_urdf_numbers(tmp_path: Path) -> None:
    model = load(tmp_path, URDF, "arm.urdf")
    assert [b.name for b in model.bodies] == ["base", "upper", "lower", "tip"] and model.name == "arm"
    assert model.body("upper").mass == 2.0 and model.body("base").mass == 0.0 and model.body("upper").com == (0.0, 0.0, 0.1)
    assert (model.joint("shoulder").damping, model.joint("shoulder").friction) == (0.3, 0.2)
    assert (model.loops[0].joint1, model.loops[0].joint2, model.loops[0].polynomial[:2]) == ("elbow", "shoulder", (0.1, 2.0))
    assert np.trace(cb.spatial.inertia.symmetric(model["body.upper.inertia"])) == pytest.approx(0.09)
    assert [g.kind for g in model.geometries] == ["box"]


def test_urdf_impossible_inertia_is_repaired_and_said(tmp_path: Path) -> None:
    model = load(tmp_path, URDF.replace('izz="0.04"', 'izz="0.4"'), "arm.urdf")
    assert any("nearest possible one is used: upper." in note for note in model.notes)


def test_urdf_idle_mimic_is_noted(tmp_path: Path) -> None:
    model = load(tmp_path, URDF.replace('mimic joint="shoulder"', 'mimic joint="nobody"'), "arm.urdf")
    assert not model.loops and any("A mimic on a fixed joint, or of a joint that does not exist, means nothing: elbow." == note for note in model.notes)


def test_urdf_without_suffix_is_known_by_its_root(tmp_path: Path) -> None:
    assert load(tmp_path, URDF, "arm.xml").source.format == "urdf"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('type="continuous"', 'type="spherical"', r'joint "elbow" has the type "spherical"'),
        ('type="continuous"', 'type="floating"', r'joint "elbow" is floating'),
        ('type="continuous"', 'type="planar"', r'joint "elbow" is planar'),
        ('<link name="base"/>', '<xacro:macro xmlns:xacro="x" name="base"/>', "xacro template"),
        ('mimic joint="shoulder"', 'mimic joint="fix"', r'joint "elbow" mimics a joint that is fixed'),
        ('<parent link="base"/>', '<parent link="nobody"/>', "MuJoCo's compiler refuses the file"),
        ('<mass value="2"/>', '<mass value="-2"/>', "must not be negative"),
        ('<mass value="2"/>', '<mass value="nan"/>', "arm.urdf"),
    ],
)
def test_urdf_refusals(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        load(tmp_path, URDF.replace(old, new), "arm.urdf")


def test_urdf_without_links(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="has no link"):
        load(tmp_path, "<robot name='r'/>", "r.urdf")


# -- refusals ----------------------------------------------------------------------------------------------------------------------

TENDON = "<tendon><spatial name='t' {}><site site='p'/><site site='s'/><site site='r'/></spatial></tendon>"
PATH = "<site name='p'/><site name='r' pos='0 0 1'/>"
REFUSED = {
    "fluid": (arm(option="<option density='1000'/>"), "fluid forces"),
    "viscosity": (arm(option="<option viscosity='0.1'/>"), "fluid forces"),
    "gravcomp": (arm().replace("name='b'", "name='b' gravcomp='1'"), r'm\.xml:2: body "b" has gravity compensation'),
    "polynomial stiffness": (arm(joint="<joint name='j' stiffness='1 2 3'/>"), r'm\.xml:2: joint "j" has a polynomial stiffness'),
    "polynomial damping": (arm(joint="<joint name='j' damping='1 2 3'/>"), r'joint "j" has a polynomial damping'),
    "spring yield": (arm(joint="<joint name='j' stiffness='1' springyield='0.1'/>"), r'joint "j" has a spring that yields'),
    "several controls": (
        arm(joint="<joint name='j' type='ball'/>", after="<actuator><general name='m' joint='j' gear='1 1 1'/></actuator>"),
        r'actuator "m" acts on the ball or free joint',
    ),
    "dc motor": (arm(after="<actuator><dcmotor name='m' joint='j' motorconst='0.1' resistance='2'/></actuator>"), r'actuator "m" has a gain of type dcmotor'),
    "crank": (arm(after="<actuator><motor name='m' cranksite='s' slidersite='s' cranklength='1'/></actuator>"), r'actuator "m" acts on a slidercrank'),
    "site motor": (arm(after="<actuator><motor name='m' site='s'/></actuator>"), r'actuator "m" acts on a site'),
    "free motor": (
        arm(joint="<freejoint name='j'/>", after="<actuator><motor name='m' joint='j'/></actuator>"),
        r'actuator "m" acts on the ball or free joint "j"',
    ),
    "muscle": (
        arm(after="<actuator><muscle name='m' joint='j' lengthrange='0 1' forcerange='-1 1'/></actuator>"),
        r'actuator "m" is a muscle with a force limit',
    ),
    "tendon polynomial": (arm(PATH, after=TENDON.format("stiffness='1 2'")), r'm\.xml:4: tendon "t" has stiffness, which cannot be represented'),
    "activation": (
        arm(after="<actuator><general name='m' joint='j' dyntype='integrator'/></actuator>"),
        r'actuator "m" has activation dynamics \(integrator\)',
    ),
    "affine gain": (arm(after="<actuator><general name='m' joint='j' gaintype='affine'/></actuator>"), r'actuator "m" has an affine gain'),
    "damper": (arm(after="<actuator><damper name='m' joint='j' kv='1' ctrlrange='0 1'/></actuator>"), r'actuator "m" has an affine gain'),
    "tendon equality": (
        arm(PATH, after=TENDON.format("") + "<equality><tendon name='e' tendon1='t'/></equality>"),
        r'loop "e" is an equality constraint of type tendon',
    ),
    "unknown attribute": (arm(joint="<joint name='j' dampnig='1'/>"), r"MuJoCo's compiler refuses the file: Schema violation.*dampnig.*line 2"),
    "not a number": (arm(joint="<joint name='j' damping='x'/>"), "MuJoCo's compiler refuses the file"),
    "nan": (arm(joint="<joint name='j' damping='nan'/>"), "m.xml"),
    "massless": ("<mujoco><worldbody><body name='b'><joint/></body></worldbody></mujoco>", "MuJoCo's compiler refuses the file: mass and inertia"),
    "missing include": ("<mujoco><include file='nobody.xml'/></mujoco>", r"nobody\.xml does not exist"),
    "include itself": ("<mujoco><include file='m.xml'/></mujoco>", "circle"),
    "include without file": ("<mujoco><include/></mujoco>", "an include has no file"),
    "missing mesh": (
        arm(inside="<geom type='mesh' mesh='no'/>", option="<asset><mesh file='no.stl'/></asset>"),
        'the inertia of body "b" comes from the mesh no.stl',
    ),
    "other root": ("<sdf version='1.6'/>", r"the root element is <sdf>; give an MJCF \(<mujoco>\), URDF \(<robot>\) or OpenSim \(<OpenSimDocument>\) file"),
    "malformed": ("<mujoco>\n<worldbody>\n</mujoco>", r"m\.xml:3: this is not well-formed XML \(mismatched tag\)"),
    "entities": ("<!DOCTYPE m [<!ENTITY a 'b'>]><mujoco>&a;</mujoco>", "declares XML entities"),
    "empty": ("", "is empty"),
    "blank": (" \n ", "is empty"),
    "text": ("hello", "not well-formed"),
    "deep": ("<mujoco>" + "<frame>" * 500 + "</frame>" * 500 + "</mujoco>", "nested more than"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal(tmp_path: Path, case: str) -> None:
    text, words = REFUSED[case]
    with pytest.raises(FormatError, match=words) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    assert "m.xml" in str(caught.value) or case == "missing include"


def test_plugin_and_flex_are_refused(tmp_path: Path) -> None:
    flex = "<mujoco><worldbody><flexcomp name='f' type='grid' count='3 3 1' spacing='.1 .1 .1' mass='1' dim='2' radius='.01'/></worldbody></mujoco>"
    with pytest.raises(FormatError, match="flexible bodies"):
        load(tmp_path, flex)
    plugin = "<mujoco><extension><plugin plugin='mujoco.elasticity.cable'/></extension></mujoco>"
    try:  # the plugin may be missing from MuJoCo's wheel, which is a refusal too; without bodies it bears no force
        load(tmp_path, plugin)
    except FormatError as error:
        assert "MuJoCo's compiler refuses" in str(error)


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\x01\x02\xff" * 50,
        b"\xff\xfe\x00",
        b"PK\x03\x04" + bytes(range(256)),
        b"<mujoco>\xff</mujoco>",
        b"<?xml version='1.0' encoding='klingon'?><mujoco/>",
    ],
)
def test_binary_junk(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(FormatError, match=r"m\.xml"):
        load(tmp_path, content)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        formats.load(tmp_path / "nobody.xml")
    with pytest.raises(FormatError, match="is a folder"):
        formats.load(tmp_path)
    for nonsense in (None, 3, "", "a\0b"):
        with pytest.raises(FormatError):
            formats.load(nonsense)  # type: ignore[arg-type]


def test_nothing_is_written_or_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = arm(option="<compiler settotalmass='3'/>", joint="<joint name='j' armature='-1'/>")
    for content in (text, arm(option="<option timestep='-1'/>"), arm(option="<size memory='1'/>"), RICH):
        try:
            load(tmp_path, content)
        except CalibodyError:
            pass
    assert capfd.readouterr() == ("", "") and os.listdir(tmp_path) == ["m.xml"]


def test_import_is_lazy() -> None:
    code = "import sys, calibody.formats; sys.exit('mujoco' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).returncode == 0
