"""Motion-capture trials that cannot be right are said before they are fitted."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calibody as cb
from calibody.errors import CalibodyError
from calibody.estimate.people.captured import refuse_absurd, unplaced


def falling(scale: float = 1.0, sign: float = 1.0) -> tuple[cb.Model, cb.Recording]:
    """A brick with three markers that a plate slows down."""
    sites = [cb.Site(f"m{k}", "brick", p) for k, p in enumerate([(0.2, 0, 0), (0, 0.3, 0), (0, 0, 0.1)])]
    model = cb.Model("brick", [cb.Body("brick", mass=2.0, inertia=(0.1, 0.1, 0.1))], [cb.Joint("root", "brick", "free")], sites=sites)
    motion = cb.simulate(model, 0.2, 1e-3, {"joint.root.rate.rx": 2.0})
    seen = tuple(
        cb.Observation(f"site.{s.name}.position.{c}", motion.time[::5], scale * motion[f"site.{s.name}.position.{c}"][::5], sd=1e-3)
        for s in sites
        for c in "xyz"
    )
    force = np.tile([1.0, 0.0, sign * 10.0], (41, 1))
    return model, cb.Recording("fall", seen, plates=(cb.Plate("brick", motion.time[::5], force, np.zeros_like(force)),))


def test_what_is_right_is_not_refused() -> None:
    model, run = falling(1.2)
    refuse_absurd(model, [run])


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_markers_in_another_unit(scale: float) -> None:
    model, run = falling(scale)
    with pytest.raises(CalibodyError, match=f'"fall" has markers of one body {scale:.2g}'.replace("+", "\\+")):
        cb.fit(model, run, {})
    poses = replace(
        run,
        plates=(),
        drives=(),
        poses=True,
        observations=tuple(replace(o, times=1.0 + np.arange(len(o.times))) for o in run.observations),
        start=1.0,
        end=41.0,
    )
    with pytest.raises(CalibodyError, match="check the unit"):
        cb.fit(model, poses, {})


def test_a_plate_of_the_wrong_sign() -> None:
    model, run = falling(sign=-1.0)
    with pytest.raises(CalibodyError, match='plate under "brick" of the run "fall" pulls it down'):
        cb.fit(model, run, {})


def test_a_recording_whose_z_is_up_under_a_model_whose_y_is() -> None:
    model, run = falling()
    lying = replace(model, world=replace(model.world, gravity=(0.0, -9.81, 0.0)))
    with pytest.raises(CalibodyError, match='plates of the run "fall" push along z, and gravity is along y in the model'):
        cb.fit(lying, run, {})
    held = replace(lying, joints=[cb.Joint("lever", "brick")])  # what a joint carries may be pushed from anywhere
    refuse_absurd(held, [run])


def pushed(sign: float, root: str = "free", **more: object) -> tuple[cb.Model, cb.Recording]:
    """The same brick, the force on it given without a plate."""
    model, run = falling()
    weight = 2.0 * 9.81
    drive = cb.Drive("body.brick.force.z", cb.Signal(np.linspace(0.0, 0.2, 41), np.full(41, sign * 0.9 * weight), "linear"))
    if root != "free":
        model = replace(model, joints=[cb.Joint(root, "brick", "slide", axis=(0, 0, 1), **more)])  # type: ignore[arg-type]
    return model, replace(run, plates=(), drives=(drive,))


def test_forces_of_the_wrong_sign_that_carry_a_mechanism_alone() -> None:
    said = r'forces on bodies in the run "fall" pull the mechanism down.*"body\.brick\.force\.z": 18 N at most.*give the forces on the bodies'
    for root in ("free", "up"):
        model, run = pushed(-1.0, root)
        with pytest.raises(CalibodyError, match=said):
            cb.fit(model, run, {})
        refuse_absurd(*(lambda m, r: (m, [r]))(*pushed(1.0, root)))
    held, run = pushed(-1.0, "up", stiffness=1e3)  # a spring holds it: it may well be pulled down
    refuse_absurd(held, [run])
    refuse_absurd(replace(held, joints=[cb.Joint("lever", "brick")]), [run])
    unknown = (cb.UnknownDrive("joint.up.force", 30.0, 0.1),)
    refuse_absurd(pushed(-1.0, "up")[0], [replace(run, unknown=unknown)])


def still(model: cb.Model, angles: dict[str, np.ndarray], frames: int, random: np.random.Generator, sd: float = 1e-3) -> cb.Recording:
    """Frames of all markers, the joints where `angles` has them."""
    clock = 0.01 * np.arange(frames)
    motion = cb.simulate(model, float(clock[-1]), 0.01, {}, {f"joint.{j}.angle": cb.Signal(clock, x, "linear") for j, x in angles.items()})
    seen = {channel: motion[channel] for channel in (f"site.{site.name}.position.{c}" for site in model.sites for c in "xyz")}
    return cb.Recording(
        "frames", tuple(cb.Observation(c, 1.0 + np.arange(frames), x + sd * random.standard_normal(frames), sd=sd) for c, x in seen.items()), poses=True
    )


ARM = """<OpenSimDocument Version="40000"><Model name="arm"><gravity>0 0 0</gravity><BodySet><objects>
<Body name="forearm"><mass>1</mass><inertia>0.01 0.01 0.01 0 0 0</inertia></Body><Body name="hand"><mass>0.4</mass><inertia>0.001 0.001 0.001 0 0 0</inertia></Body>
</objects></BodySet><JointSet><objects><PinJoint name="e"><socket_parent_frame>/ground</socket_parent_frame><socket_child_frame>/bodyset/forearm</socket_child_frame>
<coordinates><Coordinate name="elbow"/></coordinates></PinJoint><GimbalJoint name="w"><socket_parent_frame>w_parent</socket_parent_frame><socket_child_frame>/bodyset/hand</socket_child_frame>
<coordinates><Coordinate name="flexion"/><Coordinate name="deviation"><default_value>0.1</default_value><locked>%s</locked></Coordinate><Coordinate name="turn"><locked>%s</locked></Coordinate></coordinates>
<frames><PhysicalOffsetFrame name="w_parent"><socket_parent>/bodyset/forearm</socket_parent><translation>0.25 0 0</translation></PhysicalOffsetFrame></frames></GimbalJoint></objects></JointSet>
<MarkerSet><objects>%s</objects></MarkerSet></Model></OpenSimDocument>"""
PLACES = {"forearm": [(0.1, 0.03, 0), (0.2, -0.03, 0), (0.15, 0, 0.04)], "hand": [(0.05, 0.04, 0), (0.09, -0.03, 0.01), (0.03, 0, 0.03), (0.1, 0.02, -0.02)]}


def arm(folder: Path, locked: bool, scale: float = 1.0) -> cb.Model:
    markers = "".join(
        f'<Marker name="{b}{k}"><socket_parent_frame>/bodyset/{b}</socket_parent_frame><location>{" ".join(f"{scale * x}" for x in place)}</location></Marker>'
        for b, places in PLACES.items()
        for k, place in enumerate(places)
    )
    path, word = folder / "arm.osim", "true" if locked else "false"
    path.write_text(ARM % (word, word, markers))
    return cb.load(path)


def swings(deviation: float) -> dict[str, np.ndarray]:
    t = np.arange(10)
    return {"elbow": 0.5 * np.sin(0.7 * t), "flexion": 0.4 * np.cos(0.9 * t), "deviation": 0.1 + deviation * np.sin(2.0 + 1.3 * t), "turn": 0.0 * t}


def test_a_locked_joint_that_moves(tmp_path: Path) -> None:
    """The middle one of three rotations turns by 0.3 rad to and fro; the last one, locked too, does not, and neither does anything where nothing moves."""
    free, locked = arm(tmp_path, False), arm(tmp_path, True)
    assert [j.name for j in locked.joints] == ["elbow", "flexion"] and [j.name for j in locked.freed.joints] == [j.name for j in free.joints]
    said = '"deviation" is locked in the model\'s file, but the markers of the run "frames" move as if it turned by 12 degrees .* unlock it in the file'
    moving = still(free, swings(0.3), 10, np.random.default_rng(1))
    notes = cb.fit(locked, moving, {}).notes
    assert any(re.match(said, n) for n in notes) and not any(n.startswith('"turn"') for n in notes)
    for amplitude, sd in ((0.0, 1e-3), (0.05, 0.01)):
        assert not any("is locked in" in n for n in cb.fit(locked, still(free, swings(amplitude), 10, np.random.default_rng(2), sd), {}).notes)


def test_a_missing_static_trial(tmp_path: Path) -> None:
    """Markers that are a tenth further out than the model has them; with their places as unknowns, or where they are in place, nothing is said."""
    run = still(arm(tmp_path, False, scale=1.1), swings(0.3), 10, np.random.default_rng(1))
    model = arm(tmp_path, False)
    said = 'Distances between markers of one body in the run "frames" are off from the model\'s by 10 % .*no trial at rest .*site.NAME.position.x'
    assert any(re.match(said, n) for n in cb.fit(model, run, {}).notes)
    places = {f"site.{s.name}.position.{c}": cb.Unknown(prior=(x, 0.02)) for s in model.sites for c, x in zip("xyz", s.position, strict=True)}
    assert not any("no trial at rest" in n for n in cb.fit(model, run, places).notes)
    assert not unplaced(arm(tmp_path, False, scale=1.1), [run], [])
