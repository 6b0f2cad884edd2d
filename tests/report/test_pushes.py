"""What a replay shows where things touch: places, forces, impulses, and the planes that are touched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from impact_problems import cube_model
from lasting_problems import Case, sliding_wheel
from report.browser import Browser

import calibody as cb
from calibody.experiment.pushes import Pushes, pushes
from calibody.experiment.scene import planes
from calibody.report.figures import _scene


def shown(motion: cb.Motion, size: float = 0.1) -> tuple[Pushes, np.ndarray]:
    nodes = np.arange(len(motion.time))
    return pushes(motion, nodes, size), nodes


def test_a_cube_at_rest_stands_on_four_corners_and_its_force_is_in_the_middle() -> None:
    model, a = cube_model(), 0.0524
    b = round(a - model["contact.floor.radius"], 4)
    motion = cb.simulate(model, 0.05, h=0.005, initial={"joint.free.position": (0.3, -0.2, a)})
    found, nodes = shown(motion)
    last = [row[1:] for row in found.places if row[0] == nodes[-2]]
    assert sorted((round(x - 0.3, 4), round(y + 0.2, 4)) for x, y, _ in last) == [(-b, -b), (-b, b), (b, -b), (b, b)]
    (force,) = [row[1:] for row in found.forces if row[0] == nodes[-2]]
    assert force == pytest.approx([0.3, -0.2, 0.0, 0.0, 0.0, 0.37 * 9.81], abs=1e-4) and found.impacts == []


def test_a_ball_on_a_tilted_floor_touches_below_its_middle_along_the_normal() -> None:
    """The floor is the contact's a and does not move: the force shown is the one on the ball."""
    r, tilt = 0.1, 0.3
    turned = (np.cos(tilt / 2), 0.0, np.sin(tilt / 2), 0.0)
    floor = cb.Geometry("floor", "world", "plane", (1.0, 2.0), position=(0.0, 0.0, 0.5), orientation=turned)
    normal = np.array([np.sin(tilt), 0.0, np.cos(tilt)])
    shapes = [floor, cb.Geometry("ball", "body", "sphere", (r,))]
    touch = cb.Contact("touch", "floor", "ball", restitution=0.5)
    model = cb.Model("m", [cb.Body("body", mass=2.0, inertia=(0.01,) * 3)], [cb.Joint("free", "body", "free")], geometries=shapes, contacts=[touch])
    motion = cb.simulate(model, 0.02, h=0.002, initial={"joint.free.position": np.array([0, 0, 0.5]) + r * normal})
    found, _ = shown(motion)
    assert found.forces[3][1:4] == pytest.approx(motion["body.body.position"][found.forces[3][0]] - r * normal, abs=1e-5)
    assert found.forces[3][4:] == pytest.approx(2.0 * 9.81 * np.cos(tilt) * normal, rel=1e-4, abs=1e-4)
    falls = cb.simulate(model, 0.3, h=0.002, initial={"joint.free.position": np.array([0, 0, 0.5]) + (r + 0.2) * normal})
    ((time, *row),) = shown(falls)[0].impacts
    (event,) = falls.events
    assert time == pytest.approx(event.time, abs=1e-6) and row[3:] == pytest.approx(-np.array(event.impulse), rel=1e-4) and row[5] > 0.0
    assert normal @ (np.array(row[:3]) - (0, 0, 0.5)) == pytest.approx(0.0, abs=event.approach_speed * falls.h)  # where it is at the nodes beside
    (plane,) = planes(model)
    assert (plane["body"], plane["size"], plane["position"]) == ("world", [1.0, 2.0], [0.0, 0.0, 0.5])
    assert planes(cube_model()) == []  # its ground is level: the floor


def test_a_limit_is_marked_at_its_joint() -> None:
    arm = cb.Body("arm", mass=0.5, com=(0, 0, -0.2), inertia=(0.005,) * 3, position=(0.1, 0.0, 0.7))
    model = cb.Model("m", [arm], [cb.Joint("hinge", "arm", axis=(0, 1, 0), anchor=(0, 0, 0.05))], limits=[cb.Limit("stop", "hinge", 0.0, "upper")])
    motion = cb.simulate(model, 0.6, h=0.002, initial={"joint.hinge.angle": -0.5}, drive={"joint.hinge.force": cb.Signal([0.0, 1.0], [0.5, 0.5])})
    found, _ = shown(motion)
    assert motion.events and found.impacts[0][1:] == [0.1, 0.0, 0.75, 0.0, 0.0, 0.0]
    assert found.places and found.places[-1][1:] == [0.1, 0.0, 0.75] and found.forces == []


def test_frames_that_are_left_out_take_their_forces_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run is drawn with fewer frames; a folder of an earlier version has no contacts."""
    poses = {"b": [[float(k), 0, 0, 1, 0, 0, 0] for k in range(6)]}
    run = {"name": "r", "time": [2.0 + k for k in range(6)], "fitted": poses, "measured": None, "predicted": None, "markers": {}}
    touch = {"places": [[k, 1, 2, 3] for k in range(6)], "forces": [[3, 1, 2, 3, 0, 0, 9]], "impacts": [[4.5, 1, 2, 3, 0, 0, 1]]}
    monkeypatch.setattr("calibody.report.figures.SCENE_NUMBERS", 21)
    packed = _scene({"shapes": [], "runs": [{**run, "touch": touch}], "ground": 0.25})
    (drawn,) = packed["runs"]
    assert drawn["touch"]["forces"] == "" and packed["ground"] == 0.25 and packed["touched"]
    assert unpacked(drawn["touch"]["places"], 4)[:, 0].tolist() == [0, 1, 2] and unpacked(drawn["touch"]["impacts"], 7)[0, 0] == 2.5
    old = _scene({"shapes": [], "runs": [run]})
    assert not old["touched"] and old["ground"] is None and old["planes"] == []


def unpacked(text: str, width: int) -> np.ndarray:
    import base64

    return np.frombuffer(base64.b64decode(text), dtype="<f4").reshape(-1, width)


# -- in a browser --------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def walked() -> tuple[Case, cb.Result]:
    case = sliding_wheel()
    return case, case.fit(h=0.004)


@pytest.fixture(scope="module")
def page(walked: tuple[Case, cb.Result], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Path]]:
    folder = tmp_path_factory.mktemp("touching")
    walked[1].report(folder / "fit")
    browser = Browser(folder / "profile", 1200)
    browser.open(folder / "fit" / "report.html")
    yield browser, folder / "fit"
    browser.close()


def test_a_wheel_on_a_slope_shows_its_spokes_forces(walked: tuple[Case, cb.Result], page: tuple[Browser, Path]) -> None:
    """The floor is the slope; the force of the spoke that stands is at its foot, the impulse of the one that lands for a moment."""
    (case, result), (browser, folder) = walked, page
    tilt, motion = case.model.world.ground_tilt[1], result.motion()
    normal = np.array([np.sin(tilt), 0.0, np.cos(tilt)])
    assert browser.run("replay.floor().n") == pytest.approx(normal, abs=1e-6)
    legend = browser.run("document.querySelector('#replay .legend').textContent")
    assert "what touches, and its force" in legend and "impulses of impacts" in legend
    first = result.events[0]
    browser.run(f"replay.seek({first.time - motion.time[0] + 0.01})")
    found = browser.run("replay.touching()")
    ((place, impulse, age),) = found["impulses"]
    assert impulse == pytest.approx(first.impulse, rel=1e-3) and 0.0 < age < 0.2 and abs(normal @ place) < 5e-3
    browser.run(f"replay.seek({first.time - motion.time[0] + 0.2})")
    time = browser.run("report.unpack(replay.state.run.time)[replay.state.frame]")
    ((place, force),) = browser.run("replay.touching()")["forces"]
    k = int(np.argmin(np.abs(motion.time - motion.time[0] - time)))
    true = sum(motion[f"contact.{c.name}.force"][k] for c in case.model.contacts)
    assert force == pytest.approx(true, rel=1e-3) and abs(normal @ place) < 1e-3
    assert json.loads((folder / "scene.json").read_text(encoding="utf-8"))["weight"] == pytest.approx(9.81)
    red = (
        "(() => { const c = document.getElementById('stage'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;"
        " for (let i = 0; i < d.length; i += 4) if (d[i] > 1.8 * d[i + 1] && d[i] > 1.8 * d[i + 2]) n++; return n; })()"
    )
    with_arrow = browser.run(red)
    browser.run("replay.seek(0)")
    assert with_arrow > 100 and browser.problems == []
