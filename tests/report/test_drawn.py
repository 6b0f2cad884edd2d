"""What is drawn: meshes of a robot's files, every section on screens and phones in light and dark, one time for all figures, two fits side by side, and torques."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report.browser import Browser

import calibody as cb
from calibody import cli
from calibody.experiment.decimate import clustered, outward, thinned
from calibody.experiment.saved import Saved
from calibody.experiment.torques import torques
from calibody.formats.meshes import Drawn, found, meshes
from calibody.formats.triangles import read
from calibody.report.compare import compare, parameter_rows
from calibody.report.parameters import combinations, tight
from calibody.report.verdict import BAD, GOOD, MIND, verdict

CUBE = np.array([[x, y, z] for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)])
SIDES = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]])
"""Turned outwards."""
URDF = """<robot name="swinger">
  <material name="red"><color rgba="0.8 0.1 0.1 1"/></material>
  <link name="base"><visual><geometry><mesh filename="package://robot/meshes/base.obj" scale="0.2 0.2 0.02"/></geometry><material name="red"/></visual></link>
  <link name="arm">
    <inertial><origin xyz="0 0 -0.3"/><mass value="0.8"/><inertia ixx="0.012" iyy="0.012" izz="0.0004" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="-0.02 -0.02 -0.6"/><geometry><mesh filename="meshes/rod.stl" scale="0.04 0.04 0.6"/></geometry></visual>
    <visual><origin xyz="0 0 -0.6" rpy="0 1.5707963267948966 0"/><geometry><mesh filename="meshes/bob.dae"/></geometry></visual>
    <visual><geometry><mesh filename="package://robot/meshes/lost.stl"/></geometry></visual>
  </link>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/><dynamics damping="0.05"/></joint>
</robot>
"""
DAE = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
  <asset><unit name="centimeter" meter="0.01"/><up_axis>Z_UP</up_axis></asset>
  <library_effects><effect id="fx"><profile_COMMON><technique sid="c"><phong><diffuse><color>0.1 0.2 0.9 1</color></diffuse></phong></technique></profile_COMMON></effect></library_effects>
  <library_materials><material id="blue"><instance_effect url="#fx"/></material></library_materials>
  <library_geometries><geometry id="g"><mesh>
    <source id="p"><float_array id="pa" count="24">{points}</float_array><technique_common><accessor source="#pa" count="8" stride="3"/></technique_common></source>
    <vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
    <polylist material="m" count="12"><input semantic="VERTEX" source="#v" offset="0"/><vcount>{counts}</vcount><p>{corners}</p></polylist>
  </mesh></geometry></library_geometries>
  <library_visual_scenes><visual_scene id="s"><node><translate>1 0 0</translate><scale>10 10 10</scale>
    <instance_geometry url="#g"><bind_material><technique_common><instance_material symbol="m" target="#blue"/></technique_common></bind_material></instance_geometry>
  </node></visual_scene></library_visual_scenes>
  <scene><instance_visual_scene url="#s"/></scene>
</COLLADA>
"""


def _files(folder: Path) -> Path:
    """A robot's package: a URDF and its meshes."""
    (folder / "robot" / "meshes").mkdir(parents=True)
    corners = CUBE[SIDES].astype("<f4")
    stl = b"solid, though binary".ljust(80) + struct.pack("<I", len(corners)) + b"".join(b"\0" * 12 + c.tobytes() + b"\0\0" for c in corners)
    (folder / "robot" / "meshes" / "rod.stl").write_bytes(stl)
    obj = "".join(f"v {x} {y} {z}\n" for x, y, z in CUBE) + "f 1//1 2//1 4//1 3//1\nf -4 -2 -1 -3\n"
    (folder / "robot" / "meshes" / "base.obj").write_text(obj)
    numbers = {"points": CUBE.ravel(), "counts": [3] * 12, "corners": SIDES.ravel()}
    (folder / "robot" / "meshes" / "bob.dae").write_text(DAE.format(**{k: " ".join(map(str, v)) for k, v in numbers.items()}))
    (folder / "robot" / "swinger.urdf").write_text(URDF)
    return folder / "robot" / "swinger.urdf"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> cb.Result:
    model = cb.load(_files(tmp_path_factory.mktemp("files")))
    times = np.arange(0.0, 3.005, 0.01)
    u = 0.8 * np.sin(4.0 * times) + 0.4 * np.sin(9.0 * times)
    motion = cb.simulate(model.replace({"joint.hinge.damping": 0.02}), 3.0, 0.002, drive={"joint.hinge.force": (times, u)})
    noise = np.random.default_rng(4).normal(size=(2, len(times)))
    angle = cb.Observation("joint.hinge.angle", times, motion["joint.hinge.angle"][::5] + 0.002 * noise[0], 0.002)
    rate = cb.Observation("joint.hinge.rate", times, motion["joint.hinge.rate"][::5] + 0.02 * noise[1], 0.02)
    run = cb.Recording("swing", (angle, rate), (cb.Drive("joint.hinge.force", cb.Signal(times, u)),))
    return cb.fit(model, run, {"joint.hinge.damping": cb.Unknown(0.05), "body.arm.mass": cb.Unknown(1.0)}, h=0.01)


@pytest.fixture(scope="module")
def folder(result: cb.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    result.report(folder / "fit")
    return folder / "fit"


def changed(folder: Path, **values: Any) -> Saved:
    return Saved(folder, {**json.loads((folder / "result.json").read_text(encoding="utf-8")), **values})


# -- meshes --------------------------------------------------------------------------------------------------------------------------------


def test_meshes_of_a_urdf_are_found_and_read(tmp_path: Path) -> None:
    urdf = _files(tmp_path)
    drawn = meshes(cb.load(urdf))
    assert [d.body for d in drawn] == ["base", "arm", "arm"]  # and not the one that is lost
    base, rod, bob = drawn
    assert base.color == (0.8, 0.1, 0.1) and len(base.faces) == 4 and bob.color == (0.1, 0.2, 0.9)
    np.testing.assert_allclose(np.ptp(base.vertices, axis=0), (0.2, 0.2, 0.02))
    np.testing.assert_allclose([rod.vertices.min(axis=0), rod.vertices.max(axis=0)], [(-0.02, -0.02, -0.6), (0.02, 0.02, 0.0)], atol=1e-7)
    # 10 cm, 1 cm along the file's x, which a quarter turn about y takes to -z of the link
    np.testing.assert_allclose([bob.vertices.min(axis=0), bob.vertices.max(axis=0)], [(0.0, 0.0, -0.71), (0.1, 0.1, -0.61)], atol=1e-7)
    assert found("package://robot/meshes/lost.stl", urdf.parent) is None and found("", urdf.parent) is None
    (tmp_path / "torn.stl").write_bytes(b"solid\nvertex 1 2\n")
    with pytest.raises(cb.CalibodyError, match=r"torn\.stl cannot be read as a mesh"):
        read(tmp_path / "torn.stl")


def test_meshes_of_an_mjcf_are_where_mujoco_has_them(tmp_path: Path) -> None:
    _files(tmp_path)
    xml = '<mujoco><compiler meshdir="robot/meshes"/><asset><mesh name="m" file="rod.stl" scale="0.04 0.04 0.6"/></asset><worldbody><body name="b"><joint name="j" axis="0 1 0"/><geom type="mesh" mesh="m" pos="0 0 -0.6"/></body></worldbody></mujoco>'
    (tmp_path / "m.xml").write_text(xml)
    (drawn,) = meshes(cb.load(tmp_path / "m.xml"))
    np.testing.assert_allclose([drawn.vertices.min(axis=0), drawn.vertices.max(axis=0)], [(0.0, 0.0, -0.6), (0.04, 0.04, 0.0)], atol=1e-6)


def test_a_mesh_is_thinned_and_keeps_its_shape() -> None:
    n = 60
    a, b = np.meshgrid(np.linspace(0, np.pi, n), np.linspace(0, 2 * np.pi, n), indexing="ij")
    points = np.stack([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)], axis=-1).reshape(-1, 3)
    k = np.arange(n * n).reshape(n, n)
    quads = np.stack([k[:-1, :-1], k[1:, :-1], k[1:, 1:], k[:-1, 1:]], axis=-1).reshape(-1, 4)
    sphere = Drawn("b", points, np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]), (1.0, 1.0, 1.0))
    (small,) = thinned([sphere], 500)
    assert 200 < len(small.faces) <= 500 and np.abs(np.linalg.norm(small.vertices, axis=1) - 1.0).max() < 0.1
    assert thinned([small], 500) == [small] and len(clustered(dataclasses.replace(sphere, vertices=points + 2.0), 10.0).faces) == 0
    inside = dataclasses.replace(sphere, faces=sphere.faces[:, ::-1])
    for mesh in (sphere, inside):
        turned, closed = outward(mesh)
        middles = turned.vertices[turned.faces].mean(axis=1)
        normals = np.cross(*(turned.vertices[turned.faces[:, i]] - turned.vertices[turned.faces[:, 0]] for i in (1, 2)))
        assert closed and np.all(np.einsum("ij,ij->i", middles, normals) > -1e-12)


# -- numbers and words ---------------------------------------------------------------------------------------------------------------------


def test_torques_agree_where_the_model_is_right(result: cb.Result, folder: Path) -> None:
    (right,) = torques(result, 0)
    assert right.joint == "hinge" and right.unit == "N m" and right.relative is not None and right.relative < 0.08
    heavy = dataclasses.replace(result, theta=result.theta * np.array([1.0, 1.5]))
    (wrong,) = torques(heavy, 0)
    assert wrong.relative is not None and wrong.relative > 3.0 * right.relative
    found = cb.open(folder)
    assert found.document["torques"]["swing"]["hinge"]["relative_error"] == pytest.approx(right.relative) and len(found.torques) == len(right.times)


def test_a_prediction_that_goes_astray_is_not_held_against_a_model_whose_torques_agree(folder: Path) -> None:
    astray = {"swing": {"incomplete": None, "until": 0.8, "channels": {"joint.hinge.angle": {"rms": 9.0, "rms_of_signal": 1.0}}}}
    for error, level in ((0.04, GOOD), (0.6, MIND)):
        forces = {"swing": {"hinge": {"rms": 0.1, "relative_error": error, "unit": "N m"}}}
        item = next(i for i in verdict(changed(folder, predictions=astray, torques=forces)).items if i.question == "How far off is a free prediction?")
        assert item.level == level and "from 0.8 s on" in item.sentence


def test_no_green_tick_beside_an_error_bar_as_large_as_the_value(folder: Path) -> None:
    parameters = json.loads((folder / "result.json").read_text(encoding="utf-8"))["parameters"]
    parameters["joint.hinge.damping"] |= {"value": 0.01, "sd": 0.0117}
    item = next(i for i in verdict(changed(folder, parameters=parameters)).items if i.question == "What do the data determine?")
    assert item.level == MIND and item.sentence.startswith("Hardly joint.hinge.damping: its standard deviation is up to 117 % of the value.")


def test_what_is_left_over_is_no_noise_where_none_was_stated(folder: Path) -> None:
    import polars as pl

    found, again = (changed(folder, noise={"given": False, "measured": {}, "process": {}, "slow": {}}) for _ in range(2))
    assert verdict(again).level != BAD
    channels = found.channels.with_columns((0.2 * pl.col("fitted")).alias("fitted"))
    vars(found).update(channels=channels.with_columns((pl.col("measured") - pl.col("fitted")).alias("residual")))
    said = verdict(found)
    assert said.level == BAD and said.headline.startswith("Not calibrated: the model does not describe these data (most of joint.hinge.angle")


def test_close_pairs_and_combinations_are_said_in_words(folder: Path) -> None:
    names = ["joint.hinge.damping", "body.arm.mass"]
    close = changed(folder, correlation={"parameters": names, "matrix": [[1.0, -0.98], [-0.98, 1.0]]})
    (line,) = tight(close)
    assert line.startswith("joint.hinge.damping and body.arm.mass are correlated by −0.980: the data see little more than their sum")
    assert tight(changed(folder, correlation={"parameters": names, "matrix": [[1.0, 0.9], [0.9, 1.0]]})) == []
    sums = [
        {"expression": "body.arm.mass + 2 * joint.hinge.damping", "value": 0.85, "sd": 0.01, "terms": [["body.arm.mass", 1.0], ["joint.hinge.damping", 2.0]]}
    ]
    sums += [{"expression": "body.arm.mass / joint.hinge.damping", "value": 40.0, "sd": 1.0, "terms": []}]
    total, ratio = combinations(changed(folder, determined=sums, truth={"body.arm.mass": 0.8, "joint.hinge.damping": 0.02}))
    assert (total.value, total.unit, total.truth, total.score) == ("0.850 ± 0.010", "kg", "0.84", "+1.0")
    assert (ratio.unit, ratio.truth, ratio.score) == ("(kg)/(N m s/rad)", "40", "+0.0")


# -- two fits ------------------------------------------------------------------------------------------------------------------------------


def test_two_fits_are_compared(result: cb.Result, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = cb.fit(result.recordings[0] and cb.load(result.model.source.path), result.recordings, {"joint.hinge.damping": cb.Unknown(0.05)}, h=0.02)  # type: ignore[union-attr]
    other.report(tmp_path / "second")
    rows = {r.name: r for r in parameter_rows(cb.open(folder), cb.open(tmp_path / "second"))}
    assert set(rows) == {"joint.hinge.damping", "body.arm.mass"} and rows["body.arm.mass"].second == "–" and rows["joint.hinge.damping"].z
    with pytest.raises(SystemExit) as ended:
        cli.main(["report", "--compare", str(folder), str(tmp_path / "second")])
    assert ended.value.code == 0 and "compare.html" in capsys.readouterr().out
    page = tmp_path / "second" / "compare.html"
    assert page.stat().st_size < 8_000_000
    (tmp_path / "mine.html").write_text("something of the user's")
    with pytest.raises(cb.CalibodyError, match=r"mine\.html.* exists and is no page of calibody"):
        compare(folder, tmp_path / "second", tmp_path / "mine.html")
    with pytest.raises(SystemExit) as ended:
        cli.main(["report", "--compare", str(folder)])
    assert ended.value.code == 2 and "give two run folders" in capsys.readouterr().err
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(page)
        assert browser.run("document.querySelectorAll('#series-plot .main-svg').length") > 0
        assert browser.run("document.getElementById('series-plot').data.map(t => t.name)")[:2] == ["measured", "fit"]
        assert browser.problems == []
    finally:
        browser.close()


# -- in a browser --------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"), 1400)
    try:
        yield browser
    finally:
        browser.close()


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_section_on_every_screen(browser: Browser, folder: Path, tmp_path: Path, width: int, theme: str) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    browser.open(folder / "report.html")
    assert (folder / "report.html").stat().st_size < 8_000_000
    assert browser.run("document.documentElement.dataset.theme") == theme
    assert browser.run("document.documentElement.scrollWidth") == width  # nothing sticks out
    sections = browser.run("[...document.querySelectorAll('section')].map(s => s.id)")
    assert sections == ["verdict", "parameters", "replay", "series", "residuals", "torques", "validation", "forces", "convergence", "origin"]
    for section in sections:
        assert len(browser.screenshot(tmp_path / f"{section}.png", f"#{section}")) > 2000
        assert browser.run(
            f"[...document.querySelectorAll('#{section} .plot')].every(p => p.querySelector('.main-svg') && p.getBoundingClientRect().right <= {width})"
        )
    assert browser.problems == []


def test_meshes_are_drawn_in_their_colours(browser: Browser, folder: Path) -> None:
    browser.open(folder / "report.html")
    assert browser.run("replay.facets()") == 4 + 12 + 12
    assert "meshes in their own colours" in browser.run("document.getElementById('replay').textContent")
    drawn = browser.run(
        "(() => { const c = document.getElementById('stage'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, n = {red: 0, blue: 0};"
        " for (let i = 0; i < d.length; i += 4) { if (d[i] > 2 * d[i + 1] && d[i] > 2 * d[i + 2]) n.red++; if (d[i + 2] > 1.6 * d[i] && d[i + 2] > 1.4 * d[i + 1]) n.blue++; } return n; })()"
    )
    assert drawn["red"] > 60 and drawn["blue"] > 60


def test_the_replay_and_the_figures_have_one_time(browser: Browser, folder: Path) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)
    browser.open(folder / "report.html")
    browser.run("replay.seek(1.5)")
    for plot in ("series-plot", "torque-plot", "validation-plot", "forces-plot"):
        left, expected = browser.run(
            f"(() => {{ const p = document.getElementById('{plot}'), f = p._fullLayout, m = p.querySelector('.cursor');"
            " return [m.hidden ? null : parseFloat(m.style.left), f._size.l + f.xaxis.l2p(1.5)]; })()"
        )
        assert left is not None and left == pytest.approx(expected, abs=1.0), plot
    browser.run("document.getElementById('series-plot').emit('plotly_click', {points: [{x: 0.7}]})")
    assert browser.run("replay.state.time") == pytest.approx(0.7) and browser.run("document.getElementById('clock').textContent") == "0.70 s"


def test_channels_are_shown_together_or_alone(browser: Browser, folder: Path) -> None:
    browser.open(folder / "report.html")
    measured = "document.getElementById('series-plot').data.filter(t => t.name === 'measured').length"
    assert browser.run(measured) == 2 and browser.run("document.querySelectorAll('#series-channels button').length") == 2
    browser.run("document.querySelectorAll('#series-channels button')[1].click()")
    assert browser.run(measured) == 1 and browser.run("document.querySelectorAll('#series-channels [aria-pressed=true]').length") == 1
    quantiles = browser.run("Array.from(document.getElementById('quantiles').data[1].y)")
    assert len(quantiles) == 200 and quantiles == sorted(quantiles) and 0.8 < np.std(quantiles) < 1.2
    assert browser.problems == []
