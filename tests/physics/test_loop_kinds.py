"""Loops that are hinges, universal joints, sleeves, guides and points on lines and planes: against the same joints in the tree, and against published mechanisms."""

from __future__ import annotations

import numpy as np
import pytest
from physics.convergence import order
from physics.frames import rotation

import calibody as cb

COORDINATES = pytest.mark.parametrize("coordinates", ["tree", pytest.param("free", marks=pytest.mark.slow)])
AXIS = (0.3, 1.0, 0.4)
INERTIA = (0.03, 0.04, 0.02, 0.001, -0.002, 0.003)


def turn(axis: tuple[float, ...], angle: float) -> tuple[float, ...]:
    a = np.array(axis) / np.linalg.norm(axis)
    return (np.cos(angle / 2), *(np.sin(angle / 2) * a))


def both(kind: str) -> tuple[cb.Model, cb.Model, dict[str, object], dict[str, float]]:
    """A body held by a loop, and by joints of the tree; and a start of each."""
    body = cb.Body("b", mass=1.2, com=(0.1, 0.05, -0.2), inertia=INERTIA)
    frame = cb.along(AXIS)
    R = rotation(frame)
    site = [cb.Site("tip", "b", (0.2, 0.3, 0.1))]
    point = (0.1, -0.05, 0.2)
    loop = cb.Loop("held", kind, "world", "b", anchor1=point, anchor2=point, orientation1=frame, orientation2=frame)
    z, x = tuple(R[:, 2]), tuple(R[:, 0])
    turning, sliding = cb.Joint("turn", "b", axis=z, anchor=point), cb.Joint("slide", "b", "slide", axis=z)
    joints = {"hinge": [turning], "universal": [turning, cb.Joint("second", "b", axis=x, anchor=point)], "cylindrical": [sliding, turning], "slide": [sliding]}[
        kind
    ]
    rates = {"turn": 1.5, "second": -0.8, "slide": 0.4}
    tree = {f"joint.{j.name}.rate": rates[j.name] for j in joints}
    w = sum((rates[j.name] * np.array(j.axis) for j in joints if j.kind == "hinge"), np.zeros(3))
    v = sum((rates[j.name] * np.array(j.axis) for j in joints if j.kind == "slide"), np.zeros(3)) + np.cross(w, -np.array(point))
    return (
        cb.Model("loop", [body], [cb.Joint("float", "b", "free")], [loop], sites=site),
        cb.Model("tree", [body], joints, sites=site),
        {"joint.float.rate": (*v, *w)},
        tree,
    )


@pytest.mark.parametrize("kind", ["hinge", "universal", "cylindrical", "slide"])
def test_a_loop_moves_as_the_joint_does(kind: str) -> None:
    """One scheme: to rounding; and the force that holds it is the reaction of the joint."""
    looped, jointed, start, tree = both(kind)
    a, b = cb.simulate(looped, 0.5, 2e-3, start), cb.simulate(jointed, 0.5, 2e-3, tree)
    assert not a.notes
    np.testing.assert_allclose(a["site.tip.position"], b["site.tip.position"], atol=1e-9)
    reaction = b[f"joint.{jointed.joints[-1].name}.reaction.force"]  # on the body, from the world
    if kind in ("cylindrical", "slide"):
        reaction = reaction @ rotation(cb.along(AXIS))[:, :2]
    np.testing.assert_allclose(-a["loop.held.force"][5:-5], reaction[5:-5], atol=1e-7)


@COORDINATES
def test_points_on_planes_and_lines(coordinates: str) -> None:
    """A block whose corner stays on a tilted plane slides down as an inclined plane says; a bead on a turning line goes out as sinh."""
    angle = 0.4
    plane = cb.Loop("plane", "point", "world", "block", orientation1=turn((0, 1, 0), angle), mask="z")
    block = cb.Model(
        "block",
        [cb.Body("block", mass=2.0)],
        [cb.Joint(c, "block", "slide", axis=a) for c, a in (("x", (1, 0, 0)), ("y", (0, 1, 0)), ("z", (0, 0, 1)))],
        [plane],
    )
    motion = cb.simulate(block, 1.0, 1e-3, coordinates=coordinates)
    down = 0.5 * 9.81 * np.sin(angle) * motion.time**2
    np.testing.assert_allclose(motion["body.block.com"][:, [0, 2]], np.stack([np.cos(angle) * down, -np.sin(angle) * down], axis=1), atol=1e-9)
    np.testing.assert_allclose(np.abs(motion["loop.plane.force"][5:]), 2.0 * 9.81 * np.cos(angle), rtol=1e-9)
    rod = cb.Body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1))
    joints = [cb.Joint("spin", "rod"), *(cb.Joint(c, "bead", "slide", axis=a) for c, a in (("x", (1, 0, 0)), ("y", (0, 1, 0)), ("z", (0, 0, 1))))]
    line = cb.Loop("line", "point", "rod", "bead", mask="yz")
    wire = cb.Model("wire", [rod, cb.Body("bead", mass=0.2)], joints, [line], world=cb.World(gravity=(0, 0, 0)))
    motion = cb.simulate(wire, 1.0, 1e-3, {"joint.x.position": 0.1, "joint.x.rate": 0.0}, {"joint.spin.angle": lambda t: 2.0 * t}, coordinates=coordinates)
    radius = np.linalg.norm(motion["body.bead.com"], axis=1)
    np.testing.assert_allclose(radius, 0.1 * np.cosh(2.0 * motion.time), rtol=2e-6)
    coriolis = 0.2 * 2.0 * 2.0 * 0.2 * np.sinh(2.0 * motion.time)  # m 2 w r', r' = 0.2 sinh
    np.testing.assert_allclose(-motion["loop.line.force.y"][5:-5], coriolis[5:-5], rtol=1e-4)
    np.testing.assert_allclose(motion["joint.spin.force"][5:-5], (coriolis * radius)[5:-5], rtol=1e-4)


# -- car axis --------------------------------------------------------------------------------------------------------------------------


def car_axis() -> cb.Model:
    """IVP test set: two axle ends on springs, the right wheel on a bumpy road; the ground line turns as prescribed and the left end stays orthogonal to it."""
    mass = 10.0 * 1e-4 / 2.0
    ends = [cb.Body(name, mass=mass) for name in ("left", "right")]
    joints = [cb.Joint(f"{b}.{c}", b, "slide", axis=a) for b in ("left", "right") for c, a in (("x", (1, 0, 0)), ("y", (0, 1, 0)))]
    road = cb.Body("road", mass=1.0, inertia=(0.1, 0.1, 0.1))
    loops = [cb.Loop("axle", "distance", "left", "right", length=1.0), cb.Loop("upright", "point", "road", "left", mask="x")]
    springs = [cb.Spring(b, "road", b, point1=p, stiffness=1.0, rest_length=0.5) for b, p in (("left", (0, 0, 0)), ("right", (1, 0, 0)))]
    return cb.Model("car axis", [road, *ends], [cb.Joint("bump", "road"), *joints], loops, springs, world=cb.World(gravity=(0, -1, 0)))


@COORDINATES
def test_the_car_axis_at_second_order(coordinates: str) -> None:
    """Reference values of the test set at t = 3."""
    drive = {"joint.bump.angle": lambda t: float(np.arcsin(0.1 * np.sin(10.0 * t)))}
    start = {"joint.left.y.position": 0.5, "joint.right.x.position": 1.0, "joint.right.y.position": 0.5, "joint.left.x.rate": -0.5, "joint.right.x.rate": -0.5}
    exact, steps, errors = np.array([0.0493455784275, 0.496989460230, 1.04174252488542, 0.373911027265361]), [1e-3, 5e-4, 2.5e-4], []
    for h in steps:
        motion = cb.simulate(car_axis(), 3.0, h, start, drive, coordinates=coordinates)
        errors.append(np.abs([motion[f"joint.{b}.{c}.position"][-1] for b in ("left", "right") for c in "xy"] - exact).max())
    assert order(steps, errors) == pytest.approx(2.0, abs=0.1) and errors[-1] < 1e-4


# -- Bricard ---------------------------------------------------------------------------------------------------------------------------


def bricard() -> cb.Model:
    """Five rods and six hinges, the last of them a loop (IFToMM benchmark A04): one of its equations follows from the others."""
    P = np.array([(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)], dtype=float)
    axes = [(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)]
    thin, long = 0.02 / 12.0, 1.01 / 12.0
    bodies = []
    for i, d in enumerate(np.diff(P, axis=0)):
        inertia = np.where(np.abs(d) > 0.5, thin, long)
        place = P[0] if i == 0 else P[i] - P[i - 1]
        bodies.append(cb.Body(f"rod{i}", "world" if i == 0 else f"rod{i - 1}", mass=1.0, com=tuple(d / 2), inertia=tuple(inertia), position=tuple(place)))
    frame = cb.along(axes[5])
    close = cb.Loop("close", "hinge", "rod4", "world", anchor1=tuple(P[5] - P[4]), anchor2=tuple(P[5]), orientation1=frame, orientation2=frame)
    joints = [cb.Joint(f"j{i}", f"rod{i}", axis=axes[i]) for i in range(5)]
    return cb.Model("bricard", bodies, joints, [close], sites=[cb.Site("P3", "rod2", (0, 0, 1))], world=cb.World(gravity=(0, -9.81, 0)))


BRICARD = {0.5: (0.968284, -1.224625, 0.750147), 1.0: (0.510501, -1.649168, 0.140123), 1.5: (-0.517730, -1.646538, 0.144456)}
"""Another program's, converged in h, to six digits."""


@COORDINATES
def test_the_bricard_mechanism_at_second_order(coordinates: str) -> None:
    steps = [2e-2, 1e-2, 5e-3, 1e-3]
    motions = [cb.simulate(bricard(), 1.6, h, coordinates=coordinates) for h in steps]
    errors = [max(float(np.abs(m["site.P3.position"][round(t / m.h)] - p).max()) for t, p in BRICARD.items()) for m in motions]
    assert order(steps[:3], errors[:3]) == pytest.approx(2.0, abs=0.15) and errors[-1] < 1e-6  # which is as far as the reference goes
    assert np.ptp(motions[-1].energy) < 1e-4
    assert any("1 of its equations follow" in note for note in motions[-1].notes)
