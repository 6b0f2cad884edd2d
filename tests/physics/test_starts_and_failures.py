"""Closed loops at the start, and what cannot be simulated: one sentence that names the element and the remedy, never a NaN."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from problems import HEAVY_TOP_START, WEIGHTLESS, four_bar, four_bar_start, heavy_top, point_pendulum, rates

import calibody as cb


def five_bar() -> cb.Model:
    """Two arms of two rods each, of different lengths, joined at their ends: two degrees of freedom, not closed at the joints' zero."""

    def rod(name: str, parent: str, length: float, x: float, angle: float = 0.0) -> cb.Body:
        turn = (math.cos(0.5 * angle), 0.0, 0.0, math.sin(0.5 * angle))
        return cb.Body(
            name, parent, mass=length, com=(0.5 * length, 0.0, 0.0), inertia=(0.0, length**3 / 12.0, length**3 / 12.0), position=(x, 0.0, 0.0), orientation=turn
        )

    bodies = [rod("a1", "world", 0.8, 0.0, 2.2), rod("a2", "a1", 1.2, 0.8, -1.5), rod("b1", "world", 0.7, 1.0, 0.9), rod("b2", "b1", 1.0, 0.7, 1.2)]
    joints = [cb.Joint(b.name, b.name) for b in bodies]
    loops = [cb.Loop("tip", body1="a2", body2="b2", anchor1=(1.2, 0.0, 0.0), anchor2=(1.0, 0.0, 0.0))]
    sites = [cb.Site("left", "a2", (1.2, 0.0, 0.0)), cb.Site("right", "b2", (1.0, 0.0, 0.0))]
    return cb.Model("five-bar", bodies, joints, loops, sites=sites, world=WEIGHTLESS)


NAMES = ("a1", "a2", "b1", "b2")


def site_velocity(motion: cb.Motion, site: str, arm: tuple[str, str]) -> np.ndarray:
    """At the start, from the rates of the arm's joints: sum of w z x (p - anchor)."""
    p = motion[f"site.{site}.position"][0]
    return sum((motion[f"joint.{j}.rate"][0] * np.cross([0.0, 0.0, 1.0], p - motion[f"body.{j}.position"][0]) for j in arm), np.zeros(3))


def started(projection: str, **given: float) -> cb.Motion:
    initial = {f"joint.{name.replace('__', '.')}": value for name, value in given.items()}
    return cb.simulate(five_bar(), 0.002, 1e-3, initial, projection=projection)


@pytest.mark.parametrize("projection", ["mass", "euclidean"])
def test_start_closes_the_loop(projection: str) -> None:
    """g = 0 and G v = 0, and what was given is kept."""
    motion = started(projection, a1__angle=0.2, a1__rate=1.5)
    left, right = motion["site.left.position"][0], motion["site.right.position"][0]
    np.testing.assert_allclose(left, right, atol=1e-10)
    assert motion["joint.a1.angle"][0] == 0.2
    assert motion["joint.a1.rate"][0] == pytest.approx(1.5, abs=1e-14)
    velocity = site_velocity(motion, "left", ("a1", "a2"))
    assert np.linalg.norm(velocity) > 0.1
    np.testing.assert_allclose(velocity, site_velocity(motion, "right", ("b1", "b2")), atol=1e-10)


def test_projections_take_the_nearest_in_their_metric() -> None:
    """With one rate of a two-dof mechanism given and the others zero, the change u that closes the loop is orthogonal to what is left free.

    The mass matrix is inverse dynamics of unit accelerations at rest, without gravity.
    """
    closed = started("mass", a1__angle=0.2)
    angles = {f"{n}__angle": float(closed[f"joint.{n}.angle"][0]) for n in NAMES}
    given = np.array([1.5, 0.0, 0.0, 0.0])
    u, w = (np.array([started(p, a1__rate=1.5, **angles)[f"joint.{n}.rate"][0] for n in NAMES]) - given for p in ("mass", "euclidean"))
    M = np.stack([cb.inverse_dynamics(five_bar(), list(angles.values()), None, e) for e in np.eye(4)])
    assert np.abs(u - w).max() > 1e-3
    assert u @ M @ (w - u) == pytest.approx(0.0, abs=1e-10)
    assert w @ (u - w) == pytest.approx(0.0, abs=1e-10)
    assert u @ M @ u < w @ M @ w and w @ w < u @ u


def test_loop_stays_closed() -> None:
    motion = cb.simulate(five_bar(), 2.0, 1e-2, {"joint.a1.rate": 1.0, "joint.b1.rate": -0.5})
    np.testing.assert_allclose(motion["site.left.position"], motion["site.right.position"], atol=1e-10)


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_redundant_equations_are_dropped_and_said(coordinates: str) -> None:
    """In a planar four-bar the loop's equation out of the plane follows from the hinges."""
    motion = cb.simulate(four_bar(), 0.01, 1e-3, rates(four_bar_start()), coordinates=coordinates)
    said = [n for n in motion.notes if "dropped" in n]
    assert len(said) == 1 and "1 of its equations" in said[0]
    assert coordinates == "free" or said[0].startswith("loop.close0")


def test_loop_that_cannot_close() -> None:
    far = dataclasses.replace(four_bar(), loops=(dataclasses.replace(four_bar().loops[0], anchor2=(9.0, 0.0, 0.0)),))
    with pytest.raises(cb.SimulationError, match=r"loop\.close0 cannot close.*check its anchors"):
        cb.simulate(far, 0.1, 1e-3)
    with pytest.raises(cb.SimulationError, match=r"loop\.tip cannot close.*initial values held"):
        started("mass", a1__angle=0.0, a2__angle=1.5)  # the left arm stretched away from the right one


@pytest.mark.parametrize("h", [0.02, 0.01])
def test_step_too_large_for_the_rotation(h: float) -> None:
    """150 rad/s: 3 or 1.5 rad per step. The sentence gives a step that does."""
    with pytest.raises(cb.SimulationError, match=rf"At t = 0 s .*joint\.tip|one step of {h:g} s") as caught:
        cb.simulate(heavy_top(), 0.2, h, HEAVY_TOP_START)
    assert f"step of {h:g} s" in str(caught.value)
    better = float(str(caught.value).split(" a step of ")[1].split(" s")[0])
    assert 0.0 < better < h
    motion = cb.simulate(heavy_top(), 20 * better, better, HEAVY_TOP_START)
    assert np.isfinite(motion.q).all()


@pytest.mark.parametrize("armature", [0.0, 0.2])
def test_every_step_of_three_radians_is_told(armature: float) -> None:
    """The equations have no solution there (or, with an armature, one that is a whole turn further): not a matter of stiff springs."""
    body = cb.Body("wheel", mass=1.0, inertia=(0.02, 0.02, 0.04))
    for kind in ("hinge", "free"):
        model = cb.Model("wheel", [body], [cb.Joint("axle", "wheel", kind, armature=armature)], world=WEIGHTLESS)
        for turn in (3.0, 6.5):
            rate = {"joint.axle.rate": turn / 0.01} if kind == "hinge" else {"joint.axle.rate": (0.0, 0.0, 0.0, 0.0, 0.0, turn / 0.01)}
            with pytest.raises(cb.SimulationError, match=r"joint\.axle turns by more than 1 rad in one step of 0\.01 s; a step of 0\.00\d+ s would do"):
                cb.simulate(model, 0.1, 0.01, rate)


def flat_parallelogram(gravity: tuple[float, float, float], mass: float = 1.0) -> cb.Model:
    """All links along x: the closure's x and y equations depend on each other there, and nowhere else."""
    bar = {"com": (0.5, 0, 0), "inertia": (0.01, 0.1, 0.1)}
    bodies = [cb.Body("a", mass=1.0, **bar), cb.Body("b", "a", position=(1, 0, 0), mass=1.0, **bar), cb.Body("c", position=(1, 0, 0), mass=mass, **bar)]
    joints = [cb.Joint(f"j{name}", name) for name in "abc"]
    loop = cb.Loop("close", body1="b", body2="c", anchor1=(1, 0, 0), anchor2=(1, 0, 0))
    return cb.Model("parallelogram", bodies, joints, [loop], world=cb.World(gravity=gravity))


@pytest.mark.parametrize(
    ("coordinates", "mass", "initial"),
    [("tree", 1.0, {}), ("tree", 2.0, {}), ("free", 1.3, {}), ("free", 2.0, {}), ("free", 1.0, {"joint.ja.rate": 1.0, "joint.jc.rate": 1.0})],
)
def test_parallelogram_started_flat(coordinates: str, mass: float, initial: dict[str, float]) -> None:
    """It stays closed, and a note says to which side it folded; also where it comes back to rest in the flat pose, and rounding errors drown the closure there."""
    model = flat_parallelogram((0.0, -9.81, 0.0) if not initial else (0.0, 0.0, 0.0), mass)
    motion = cb.simulate(model, 10.0, 1e-3, initial, coordinates=coordinates)
    ends = [motion.frames.H[:, :, motion.structure.body_link[name]] for name in ("b", "c")]
    assert np.abs(np.subtract(*(H[:, 0] + H[:, 3] for H in ends))).max() < 1e-9
    assert np.ptp(motion["joint.ja.angle"]) > 1.0
    side = next(note for note in motion.notes if "it left to the side with" in note)
    assert "loop.close" in side and f"{'joint.ja' if coordinates == 'tree' else 'body.a'} {'+' if initial else '-'}" in side
    assert initial or np.abs(motion.energy - motion.energy[0]).max() < 2e-4
    hanging = cb.simulate(flat_parallelogram((9.81, 0.0, 0.0)), 1.0, 1e-3)
    assert not any("side" in note for note in hanging.notes) and np.abs(hanging["joint.ja.angle"]).max() < 1e-12


def test_body_without_mass() -> None:
    model = cb.Model("ghost", [cb.Body("ghost")], [cb.Joint("hinge", "ghost")])
    for run in (lambda: cb.simulate(model, 0.1), lambda: cb.forward_dynamics(model)):
        with pytest.raises(cb.SimulationError, match=r"(joint|body)\.(hinge|ghost).*armature"):
            run()
    # an armature alone is enough
    turned = cb.simulate(model.replace({"joint.hinge.armature": 2.0}), 1.0, 0.1, drive={"joint.hinge.force": 4.0})
    np.testing.assert_allclose(turned["joint.hinge.angle"], turned.time**2, atol=1e-10)


def test_failure_carries_what_was_computed() -> None:
    """A constant torque spins the wheel up until it turns more than 1 rad per step: (1 rad/h)/(torque/inertia) seconds."""
    h, torque, inertia = 0.05, 0.8, 0.04
    body = cb.Body("wheel", mass=1.0, inertia=(0.02, 0.02, inertia))
    model = cb.Model("wheel", [body], [cb.Joint("axle", "wheel", armature=0.0)], world=WEIGHTLESS)
    with pytest.raises(cb.SimulationError, match=r"At t = (\S+) s .*joint\.axle") as caught:
        cb.simulate(model, 10.0, h, drive={"joint.axle.force": torque})
    motion = caught.value.motion  # type: ignore[attr-defined]
    assert 0.5 < motion.time[-1] < 1.05 / h * inertia / torque + h
    assert np.isfinite(motion["joint.axle.angle"]).all() and np.isfinite(motion.energy).all()
    np.testing.assert_allclose(motion["joint.axle.angle"][:6], 0.5 * torque / inertia * motion.time[:6] ** 2, atol=2e-2)


def test_step_that_does_not_converge() -> None:
    """After half a second the wheel gets an impulse per step that no rotation below a quarter turn can take up (h J_z sin(turn)/h^2)."""
    h, inertia = 0.05, 0.04
    body = cb.Body("wheel", mass=1.0, inertia=(0.02, 0.02, inertia))
    model = cb.Model("wheel", [body], [cb.Joint("axle", "wheel")], world=WEIGHTLESS)
    with pytest.raises(cb.SimulationError, match=r"At t = 0\.5 s .* did not converge, worst at joint\.axle; try a step of 0\.0125 s") as caught:
        cb.simulate(model, 2.0, h, {"joint.axle.rate": 1.0}, {"joint.axle.force": lambda t: 0.0 if t < 0.5 else 4.0 * inertia / h**2})
    motion = caught.value.motion  # type: ignore[attr-defined]
    assert motion.time[-1] == pytest.approx(0.5)
    np.testing.assert_allclose(motion["joint.axle.angle"], motion.time, rtol=1e-3)
    assert np.isfinite(motion.energy).all()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"duration": 1.0, "h": 0.3}, "not a whole number of steps"),
        ({"duration": -1.0}, "above zero"),
        ({"duration": math.nan}, "above zero"),
        ({"duration": 1.0, "h": math.inf}, "above zero"),
        ({"duration": 0.1, "initial": {"joint.pivot.angel": 1.0}}, 'did you mean "joint.pivot.angle"'),
        ({"duration": 0.1, "initial": {"joint.pivot.angle": math.nan}}, "finite"),
        ({"duration": 0.1, "initial": {"body.bob.com": (1.0, 0.0, 0.0)}}, "cannot be set"),
        ({"duration": 0.1, "drive": {"joint.pivot.rate": 1.0}}, "cannot be driven"),
        ({"duration": 0.1, "drive": {"joint.pivot.force": math.inf}}, "not finite"),
        ({"duration": 0.1, "drive": {"joint.pivot.force": [1.0, 2.0]}}, "one per interval"),
        ({"duration": 0.1, "stepper": "variational!"}, "did you mean"),
        ({"duration": 0.1, "coordinates": "maximal"}, "coordinates"),
        ({"duration": 0.1, "projection": "best"}, "mass, euclidean"),
    ],
)
def test_wrong_arguments(arguments: dict, sentence: str) -> None:
    with pytest.raises(cb.CalibodyError, match=sentence):
        cb.simulate(point_pendulum(), **arguments)


def test_parallelogram_drawn_flat_is_fitted() -> None:
    """The rows of its closure are chosen along the motion, not in the pose it was drawn in: the motion of the fit is closed."""
    model = flat_parallelogram((0.0, -9.81, 0.0)).replace({"joint.ja.damping": 0.3})
    truth = cb.simulate(model, 1.0, 5e-3, {"joint.ja.angle": -1.0, "joint.jc.angle": -1.0})
    noise = np.random.default_rng(0)
    observed = tuple(
        cb.Observation(f"joint.{j}.angle", truth.time, truth[f"joint.{j}.angle"] + 1e-3 * noise.normal(size=len(truth.time)), 1e-3) for j in ("ja", "jc")
    )
    result = cb.fit(model, cb.Recording("swing", observed), {"joint.ja.damping": cb.Unknown(0.2)}, h=0.02)
    motion = result.motion()
    ends = [motion.frames.H[:, :, motion.structure.body_link[name]] for name in ("b", "c")]
    assert np.abs(np.subtract(*(H[:, 0] + H[:, 3] for H in ends))).max() < 1e-9
    assert abs(result.parameters["joint.ja.damping"].value - 0.3) < 4.0 * result.parameters["joint.ja.damping"].sd  # type: ignore[operator]
