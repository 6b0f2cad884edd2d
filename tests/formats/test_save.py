"""Saving changes the numbers that changed and nothing else, and the saved file reads back as the model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="MuJoCo's compiler reads the files")

from formats.models import RICH, URDF

from calibody import formats
from calibody.errors import CalibodyError, FormatError
from calibody.formats.source import differences

NO_PLACE_MJCF = re.compile(
    r"joint\..*\.(friction_rate|damping_skew|friction_skew|stribeck|stribeck_rate|(angular_)?compliance|(angular_)?relaxation|load_friction|load_stribeck|friction_radius)$|loop\..*\.(compliance|relaxation|length)$|sensor\..*\.(bias|gain|delay)$"
    r"|body\.flyer\.(position|orientation)|joint\.joint_6\.(position|anchor)|joint\.(joint_6|socket)\.(reference|springref|axis)"
    r"|loop\.(pin|glue)\.polynomial|loop\.pin\.orientation|loop\.couple\.(anchor|orientation)"
)
NO_PLACE_URDF = re.compile(
    r"world\.|body\.base\.(position|orientation|com)|body\.tip\.com|joint\..*\.(anchor|reference|stiffness|springref|friction_rate|damping_skew|friction_skew|stribeck|stribeck_rate|armature|(angular_)?compliance|(angular_)?relaxation|load_friction|load_stribeck|friction_radius)"
    r"|loop\..*\.(anchor|orientation|compliance|relaxation|length|polynomial\.c[234])|geometry\."
)


def written(tmp_path: Path, text: str, name: str) -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def load(tmp_path: Path, text: str, name: str = "model.xml"):
    return formats.load(written(tmp_path, text, name))


@pytest.mark.parametrize(("text", "name"), [(RICH, "rich.xml"), (URDF, "arm.urdf")])
def test_unchanged_is_byte_identical(tmp_path: Path, text: str, name: str) -> None:
    model = load(tmp_path, text, name)
    assert formats.save(model, tmp_path / ("out" + Path(name).suffix)).read_bytes() == text.encode()
    assert formats.save_notes(model) == ()


@pytest.mark.parametrize(
    "dressed",
    [
        RICH.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + RICH.encode(),
        RICH.replace("utf-8", "iso-8859-1").replace("a comment", "Gr\u00f6\u00dfe").encode("latin-1"),
    ],
    ids=["crlf", "bom", "latin1"],
)
def test_encoding_and_line_ends_survive(tmp_path: Path, dressed: bytes) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(dressed)
    model = formats.load(path)
    assert formats.save(model, path).read_bytes() == dressed
    changed = formats.save(model.replace({"body.ball.mass": 1.5}), path).read_bytes()
    assert changed == dressed.replace(b'mass="1"', b'mass="1.5"')
    assert formats.load(path)["body.ball.mass"] == 1.5


def _changed(model, path):
    """The model with one number moved a little, or None where that is no possible mechanism (an inertia off the physical set)."""
    try:
        return model.replace({path: model[path] * 1.03 + 0.0005})
    except CalibodyError:
        return None


@pytest.mark.parametrize(("text", "name", "no_place"), [(RICH, "rich.xml", NO_PLACE_MJCF), (URDF, "arm.urdf", NO_PLACE_URDF)], ids=["mjcf", "urdf"])
def test_every_number_is_written_or_refused(tmp_path: Path, text: str, name: str, no_place: re.Pattern) -> None:
    """Each number of the model in turn: saved and read back it is there and the rest is as it was, or a sentence refuses it."""
    model = load(tmp_path, text, name)
    out = tmp_path / ("out" + Path(name).suffix)
    possible = {path: new for path in model.parameters if (new := _changed(model, path)) is not None}
    refused = []
    for path, new in possible.items():
        try:
            formats.save(new, out)
        except FormatError as error:
            assert "\n" not in str(error) and "has no place" in str(error), path
            refused.append(path)
            continue
        assert not [d for d in differences(new, formats.load(out)) if d[0] != "site"], path
    expected = {path for path in possible if no_place.match(path)}
    assert set(refused) <= expected
    assert all(path.endswith((".w", ".z")) for path in expected - set(refused))  # the length of a direction or quaternion says nothing
    assert len(possible) - len(refused) > (150 if name == "rich.xml" else 30)


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        ("body.ball.mass", 2.5, 'mass="1" full', 'mass="2.5" full'),
        ("body.flyer.com.y", 0.25, 'pos="0 0 .1" mass', 'pos="0 0.25 .1" mass'),
        ("body.flyer.inertia.zz", 0.0015, 'diaginertia=".001 .001 .002"', 'diaginertia=".001 .001 0.0015"'),
        ("body.ball.inertia.xy", 0.0015, "0.015 0.001 0.002", "0.015 0.0015 0.002"),
        ("joint.lift.stiffness", 8.5, 'stiffness="7"', 'stiffness="8.5"'),
        ("joint.elbow.damping", 0.125, 'name="elbow" axis="1 0 0"', 'name="elbow" axis="1 0 0" damping="0.125"'),
        ("site.marker.position.x", 0.75, 'pos="0.5 0 0"/>', 'pos="0.75 0 0"/>'),
        ("actuator.motor.gear", 3.0, '<motor name="motor" joint="turn" ctrlrange="-1 1"', '<motor name="motor" joint="turn" ctrlrange="-1 1" gear="3"'),
        ("sensor.angle.sd", 0.02, 'noise="0.01"', 'noise="0.02"'),
        ("loop.couple.polynomial.c1", 0.25, "0.1 0.5 0 0 0", "0.1 0.25 0 0 0"),
        ("world.gravity.z", -9.8, 'gravity="0 0 -9.81"', 'gravity="0 0 -9.8"'),
    ],
)
def test_only_the_number_changes(tmp_path: Path, path: str, value: float, old: str, new: str) -> None:
    model = load(tmp_path, RICH)
    assert RICH.count(old) == 1
    text = formats.save(model.replace({path: value}), tmp_path / "out.xml").read_text()
    assert text == RICH.replace(old, new)


def test_angles_are_written_in_the_file_s_unit(tmp_path: Path) -> None:
    model = load(tmp_path, RICH)
    text = formats.save(model.replace({"joint.turn.springref": 0.5, "joint.lift.springref": 0.25}), tmp_path / "out.xml").read_text()
    turn = re.search(r'name="turn".*springref="([^"]+)"', text)
    assert turn is not None and float(turn.group(1)) == pytest.approx(28.64788975654116, abs=1e-12)
    assert 'springref="0.25" stiffness="7"' in text


def test_orientation_given_otherwise_becomes_a_quaternion(tmp_path: Path) -> None:
    text = "<mujoco><worldbody><body euler='10 20 30' name='b'><joint/><geom size='.1'/></body></worldbody></mujoco>"
    model = load(tmp_path, text)
    out = formats.save(model.replace({"body.b.orientation": (0.0, 1.0, 0.0, 0.0)}), tmp_path / "out.xml").read_text()
    assert out == text.replace(" euler='10 20 30'", "").replace("name='b'", "name='b' quat=\"0 1 0 0\"")


def test_motor_with_a_gain_becomes_general(tmp_path: Path) -> None:
    model = load(tmp_path, RICH).replace({"actuator.motor.gain": 0.7, "actuator.motor.damping": 0.1})
    out = formats.save(model, tmp_path / "out.xml")
    assert '<general name="motor"' in out.read_text() and "<motor gear" in out.read_text()
    back = formats.load(out)
    assert (back["actuator.motor.gain"], back["actuator.motor.damping"], back["actuator.motor.gear"]) == (0.7, 0.1, 2.0)
    assert any("actuator.motor was a <motor>" in note for note in formats.save_notes(model))


def test_servo_keeps_its_tag_where_it_can(tmp_path: Path) -> None:
    model = load(tmp_path, RICH)
    both = formats.save(model.replace({"actuator.servo.gain": 25.0, "actuator.servo.stiffness": 25.0}), tmp_path / "out.xml").read_text()
    assert re.search(r'<position name="servo" joint="elbow" kp="25" kv="[^"]+"/>', both)
    one = formats.save(model.replace({"actuator.servo.gain": 25.0}), tmp_path / "out.xml").read_text()
    assert '<general name="servo"' in one


def test_damping_ratio_becomes_the_damping_it_meant(tmp_path: Path) -> None:
    """MuJoCo derives it from the inertia: a heavier base would silently change the servo's damping."""
    model = load(tmp_path, RICH)
    new = model.replace({"body.base.mass": 2.5})
    text = formats.save(new, tmp_path / "out.xml").read_text()
    assert 'kp="20" kv="' in text and "dampratio" not in text
    assert formats.load(tmp_path / "out.xml")["actuator.servo.damping"] == pytest.approx(model["actuator.servo.damping"], rel=1e-12)
    assert any("actuator.servo" in note for note in formats.save_notes(new))


def test_actuator_delay(tmp_path: Path) -> None:
    model = load(tmp_path, RICH).replace({"actuator.motor.delay": 0.013})
    out = formats.save(model, tmp_path / "out.xml")
    assert formats.load(out)["actuator.motor.delay"] == 0.013


SHAPED = """<mujoco>
  <compiler inertiafromgeom="true" settotalmass="7"/>
  <worldbody>
    <body name="a"><joint/><inertial pos="9 9 9" mass="9" diaginertia="9 9 9"/><geom size="0.1" pos="0.2 0 0"/>
      <body name="b" pos="1 0 0"><joint/><geom size="0.2"/></body>
    </body>
  </worldbody>
</mujoco>"""


def test_inertia_from_shapes_is_written_explicitly_and_used(tmp_path: Path) -> None:
    model = load(tmp_path, SHAPED)
    new = model.replace({"body.b.mass": 3.0})
    out = formats.save(new, tmp_path / "out.xml")
    back = formats.load(out)
    assert not differences(new, back)
    assert back["body.a.mass"] == pytest.approx(model["body.a.mass"], rel=1e-12) and back["body.b.mass"] == 3.0
    notes = " ".join(formats.save_notes(new))
    assert "body.b had its inertia from its shapes" in notes and "inertiafromgeom" in notes and "settotalmass" in notes


def test_tilted_gravity_is_written_as_a_vector(tmp_path: Path) -> None:
    model = load(tmp_path, RICH).replace({"world.gravity.tilt.x": 0.01})
    back = formats.load(formats.save(model, tmp_path / "out.xml"))
    assert back.gravity == pytest.approx(model.gravity, abs=1e-14)
    assert back["world.gravity.tilt.x"] == 0.0


def test_moved_body_keeps_its_loops(tmp_path: Path) -> None:
    """MuJoCo would put the second anchor of a connect where the first one is; the saved file must keep both."""
    model = load(tmp_path, RICH)
    new = model.replace({"body.ball.position.x": 2.1})
    back = formats.load(formats.save(new, tmp_path / "out.xml"))
    assert back.tables["loop"]["pin"].anchor2 == pytest.approx(model.tables["loop"]["pin"].anchor2, abs=1e-12)
    assert any("loop.pin" in note for note in formats.save_notes(new))


# -- includes and other folders ----------------------------------------------------------------------------------------------------


def _included(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "arm.xml").write_text("<mujocoinclude><body name='arm'><joint name='j'/><geom size='.1' pos='.3 0 0'/></body></mujocoinclude>")
    (tmp_path / "parts" / "opt.xml").write_text("<mujoco><option gravity='0 0 -1'/></mujoco>")
    return written(
        tmp_path, "<mujoco>\n  <include file='parts/opt.xml'/>\n  <worldbody>\n    <include file='parts/arm.xml'/>\n  </worldbody>\n</mujoco>", "main.xml"
    )


def test_changed_include_is_inlined_and_said(tmp_path: Path) -> None:
    model = formats.load(_included(tmp_path)).replace({"joint.j.damping": 0.5})
    out = formats.save(model, tmp_path / "out.xml")
    assert "parts/opt.xml" in out.read_text() and "arm.xml" not in out.read_text()
    assert "<joint name='j' damping=\"0.5\"/>" in out.read_text()
    assert formats.load(out)["joint.j.damping"] == 0.5
    assert "parts/arm.xml" in formats.save_notes(model)[0]


def test_saved_elsewhere_still_finds_its_includes(tmp_path: Path) -> None:
    model = formats.load(_included(tmp_path))
    (tmp_path / "run").mkdir()
    back = formats.load(formats.save(model, tmp_path / "run" / "calibrated.xml"))
    assert back["world.gravity.z"] == -1.0 and back.bodies == model.bodies


def test_saved_elsewhere_still_finds_its_meshes(tmp_path: Path) -> None:
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "t.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    text = "<mujoco><compiler meshdir='meshes'/><asset><mesh name='t' file='t.obj'/></asset><worldbody><body name='b'><joint/><geom type='mesh' mesh='t'/></body></worldbody></mujoco>"
    model = formats.load(written(tmp_path, text, "m.xml"))
    (tmp_path / "run").mkdir()
    new = model.replace({"body.b.mass": 5.0})
    assert not differences(new, formats.load(formats.save(new, tmp_path / "run" / "m.xml")))


# -- URDF --------------------------------------------------------------------------------------------------------------------------


def test_urdf_numbers_in_place(tmp_path: Path) -> None:
    model = load(tmp_path, URDF, "arm.urdf")
    text = formats.save(model.replace({"body.upper.mass": 2.5, "joint.shoulder.friction": 0.4, "body.upper.com.z": 0.2}), tmp_path / "out.urdf").read_text()
    expected = URDF.replace('<mass value="2"/>', '<mass value="2.5"/>').replace('friction="0.2"', 'friction="0.4"').replace('xyz="0 0 0.1"', 'xyz="0 0 0.2"')
    assert text == expected


def test_urdf_elsewhere_finds_its_meshes(tmp_path: Path) -> None:
    (tmp_path / "here.stl").write_text("")
    (tmp_path / "run").mkdir()
    text = URDF.replace("package://nowhere/upper.stl", "here.stl").replace("</robot>", "<!-- far/away.stl --></robot>")
    out = formats.save(load(tmp_path, text, "arm.urdf"), tmp_path / "run" / "arm.urdf")
    assert out.read_text() == text.replace('"here.stl"', '"../here.stl"')


def test_suffix_of_the_source_keeps_its_format(tmp_path: Path) -> None:
    """A URDF in a file called .xml stays a URDF when saved as .xml."""
    model = load(tmp_path, URDF, "arm.xml")
    assert formats.save(model, tmp_path / "o.xml").read_text() == URDF
    assert formats.save(load(tmp_path, RICH, "model.txt"), tmp_path / "o.txt").read_text() == RICH


def test_urdf_inertia_is_written_in_the_axes_of_its_origin(tmp_path: Path) -> None:
    model = load(tmp_path, URDF, "arm.urdf")
    new = model.replace({"body.upper.inertia": tuple(1.1 * x for x in model["body.upper.inertia"])})
    text = formats.save(new, tmp_path / "out.urdf").read_text()
    assert 'rpy="0.1 0.2 0.3"' in text
    assert float(re.search(r'ixx="([^"]+)"', text).group(1)) == pytest.approx(0.022, rel=1e-13)
    assert not differences(new, formats.load(tmp_path / "out.urdf"))


def test_urdf_orientation_at_gimbal_lock(tmp_path: Path) -> None:
    model = load(tmp_path, URDF, "arm.urdf")
    for turn in ((0.5, 0.5, 0.5, 0.5), (0.7071067811865476, 0.0, 0.7071067811865476, 0.0), (0.1, 0.7, -0.7, 0.1), (0.3, -0.2, 0.9, 0.1)):
        new = model.replace({"body.upper.orientation": turn})
        assert not differences(new, formats.load(formats.save(new, tmp_path / "out.urdf")))


def test_urdf_has_no_place(tmp_path: Path) -> None:
    model = load(tmp_path, URDF, "arm.urdf")
    with pytest.raises(FormatError, match=r"joint\.shoulder\.armature differs from arm\.urdf, but URDF has no place for it; save the model as MJCF"):
        formats.save(model.replace({"joint.shoulder.armature": 0.1}), tmp_path / "out.urdf")
    with pytest.raises(FormatError, match=r"world\.gravity"):
        formats.save(model.replace({"world.gravity.tilt.x": 0.1}), tmp_path / "out.urdf")


# -- refusals ----------------------------------------------------------------------------------------------------------------------


def test_mjcf_has_no_place(tmp_path: Path) -> None:
    model = load(tmp_path, RICH)
    for path in ("joint.turn.stribeck", "joint.turn.compliance", "sensor.angle.bias", "loop.pin.compliance", "body.flyer.position.x"):
        with pytest.raises(FormatError, match=r"differs from model\.xml, but MJCF has no place") as caught:
            formats.save(model.replace({path: 0.125}), tmp_path / "out.xml")
        assert path.removesuffix(".x") in str(caught.value)


def test_replicated_elements_cannot_be_edited(tmp_path: Path) -> None:
    text = "<mujoco><worldbody><replicate count='3' offset='1 0 0'><body name='b'><joint/><geom size='.1'/></body></replicate></worldbody></mujoco>"
    model = load(tmp_path, text)
    assert len(model.bodies) == 3
    assert formats.save(model, tmp_path / "o.xml").read_text() == text
    with pytest.raises(FormatError, match="replicate"):
        formats.save(model.replace({f"body.{model.bodies[1].name}.mass": 1.0}), tmp_path / "o.xml")


def test_other_elements_need_a_fresh_file(tmp_path: Path) -> None:
    import dataclasses

    model = load(tmp_path, RICH)
    with pytest.raises(FormatError, match=r"formats\.convert"):
        formats.save(dataclasses.replace(model, sensors=()), tmp_path / "o.xml")


def test_bad_targets(tmp_path: Path) -> None:
    model = load(tmp_path, RICH)
    with pytest.raises(FormatError, match=r"ends in '\.txt'"):
        formats.save(model, tmp_path / "o.txt")
    with pytest.raises(FormatError, match="cannot be written"):
        formats.save(model, tmp_path / "no" / "o.xml")
    assert not list(tmp_path.glob("*.part"))
