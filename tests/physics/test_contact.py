"""Contacts in motion: exact solutions, published numbers, laws that must hold, and what a start or a channel says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from contacts import carried, place, planar, single, tossed, trough
from physics.convergence import order

import calibody as cb
from calibody.steppers import contact, contact_piece
from calibody.steppers.impact import impact

G = 9.81


def bounced(t: float, height: float, e: float) -> float:
    """A point that falls from rest and bounces, through its accumulation of bounces."""
    fall = math.sqrt(2.0 * height / G)
    if t < fall:
        return height - 0.5 * G * t * t
    t, v = t - fall, G * fall * e
    while v > 1e-12:
        if t < 2.0 * v / G:
            return v * t - 0.5 * G * t * t
        t, v = t - 2.0 * v / G, v * e
    return 0.0


# -- impacts -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_a_ball_bounces_until_it_rests(coordinates: str) -> None:
    """e = 0.9 from 1 m, 10 s: 3.0e-4 m off at h = 5 ms, of second order, and exactly at rest afterwards."""
    ball = single("sphere", (0.1,), 1.0, (0.004,) * 3, friction=0.3, restitution=0.9)
    steps, errors, motion = (0.02, 0.01, 0.005) if coordinates == "tree" else (0.005,), [], None
    for h in steps:
        motion = cb.simulate(ball, 10.0, h=h, initial={"joint.free.position": (0, 0, 1)}, coordinates=coordinates)
        height = motion["body.block.position"][:, 2] - 0.1
        errors.append(max(abs(z - bounced(t, 0.9, 0.9)) for z, t in zip(height, motion.time, strict=True)))
        assert abs(height[-100:]).max() < 1e-9 and np.ptp(height[-100:]) < 1e-12
        assert np.allclose(motion["contact.floor.force"][-100:], (0, 0, G), atol=1e-9)
    assert errors[-1] < 5e-4 and motion is not None
    assert coordinates == "free" or order(steps, errors) > 1.8
    first = motion.events[0]
    assert first.time == pytest.approx(math.sqrt(1.8 / G), abs=1e-12) and first.contact == "contact.floor" and first.mode == "stick"
    assert first.approach_speed == pytest.approx(math.sqrt(1.8 * G), rel=1e-9) and first.separation_speed == pytest.approx(0.9 * first.approach_speed)
    assert first.normal_impulse == pytest.approx(1.9 * first.approach_speed) and first.energy_lost == pytest.approx(0.9 * G * (1.0 - 0.81))
    assert np.diff(motion.energy).max() < 1e-9


AP_NEWTON = [  # design/contact.md, section 11: v-, n3, d3, friction, impulses (n, t), v+
    ((0.427191647, -2.834010256, -2.000067981), 0.001110112, 0.034963961, 5.0, (0.159903627, -0.006918825), (0.237114046, 1.558946525, -6.781665876)),
    (
        (0.451015916, -2.688673481, -0.977278196), -0.007058557, 0.033333458, 0.011032995 / 0.139274542, (0.139274542, 0.011032995),
        (0.754120167, 1.137550211, -46.664051718),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "n3", "d3", "friction", "impulse", "after"), AP_NEWTON)
def test_two_published_impacts(before: tuple, n3: float, d3: float, friction: float, impulse: tuple, after: tuple) -> None:
    """One sticks, one slides and reverses."""
    J = np.array([(0, 1, n3), (1, 0, d3), (0, 0, 0)])
    mobility = np.diag([1 / 0.0364, 1 / 0.0364, 1 / 1.3468e-5])
    found = impact(J @ mobility @ J.T, (J @ before)[None], np.array([friction]), np.array([0.547]), np.array([False]))
    assert np.allclose(found.impulse[0, :2], impulse, atol=1e-8)
    v = before + mobility @ J.T @ found.impulse[0]
    assert np.allclose(v[:2], after[:2], atol=1e-5) and abs(v[2] - after[2]) < 1e-3
    assert found.factor == 1.0 and found.energy < 0.0


def test_newtons_law_never_makes_energy() -> None:
    """A slanting rod whose slip the impulse turns round: with e = 1 Newton's law would make energy, so less comes back, as much as just does not."""
    c, s = math.cos(math.radians(35)), math.sin(math.radians(35))
    J = np.array([(0, 1, -c), (1, 0, s), (0, 0, 0)])  # lower tip of a rod of half length 1, normal and tangent
    mobility = np.diag([1.0, 1.0, 12.0])
    worst = 0
    for v in np.random.default_rng(0).normal(size=(40, 3)):
        before = (J @ v)[None]
        if before[0, 0] >= 0.0:
            continue
        found = impact(J @ mobility @ J.T, before, np.array([0.6]), np.array([1.0]), np.array([False]))
        assert found.energy <= 0.0 and found.after[0, 0] >= -1e-12
        if found.factor < 1.0:
            worst += 1
            more = impact_energy(J, mobility, before, 0.6, min(1.0, found.factor + 1e-6))
            assert more > 0.0 and abs(found.energy) < 1e-8
    assert worst >= 3


def impact_energy(J: np.ndarray, mobility: np.ndarray, before: np.ndarray, friction: float, e: float) -> float:
    """What Newton's law by itself would do to the energy."""
    from calibody.complementarity import cone

    W = J @ mobility @ J.T
    r = before.copy()
    r[0, 0] *= 1.0 + e
    L = cone.solve(W, r, np.array([friction])).L
    return float((0.5 * L * (2.0 * before + (W @ L.ravel()).reshape(1, 3))).sum())


def test_poissons_law() -> None:
    """Of one place without friction it is Newton's; with friction and off the centre it gives back a share of the impulse, not of the speed."""
    J = np.array([(0, 1, -0.8), (1, 0, 0.6), (0, 0, 0)])
    W = J @ np.diag([1.0, 1.0, 12.0]) @ J.T
    before = np.array([[-1.0, 0.4, 0.0]])
    smooth = [impact(W, before, np.zeros(1), np.array([0.5]), np.array([p])) for p in (False, True)]
    assert np.allclose(smooth[0].impulse, smooth[1].impulse)
    rough = impact(W, before, np.array([0.3]), np.array([0.5]), np.array([True]))
    plastic = impact(W, before, np.array([0.3]), np.array([0.0]), np.array([True]))
    assert rough.impulse[0, 0] == pytest.approx(1.5 * plastic.impulse[0, 0]) and plastic.after[0, 0] == pytest.approx(0.0, abs=1e-9)
    assert rough.energy < 0.0
    apart = []
    for slip in np.linspace(0.5, 1.5, 11):  # where the slip reverses during the impact the two laws part
        newton, poisson = (impact(W, np.array([[-1.0, slip, 0.0]]), np.array([0.3]), np.array([0.5]), np.array([p])) for p in (False, True))
        assert newton.after[0, 0] == pytest.approx(0.5) and max(newton.energy, poisson.energy) <= 0.0
        apart.append(abs(poisson.after[0, 0] - 0.5))
    assert max(apart) > 1e-3


# -- rods ----------------------------------------------------------------------------------------------------------------------------


def stewart_rod() -> cb.Model:
    """The published rod: its radius is left out of the arm, which is a ground that is as much higher."""
    body, joints = planar("rod", 1.0, 0.002)
    sites = [cb.Site("one", "rod", (0.25, 0, 0)), cb.Site("two", "rod", (-0.25, 0, 0))]
    contacts = [cb.Contact(s.name, s.name, friction=0.6) for s in sites]
    return cb.Model(bodies=[body], joints=joints, sites=sites, contacts=contacts, world=cb.World(ground_height=0.05))


ROD_START = {"joint.rod.z.position": 1.0, "joint.rod.a.angle": math.pi / 6, "joint.rod.a.rate": 4.0}


def test_stewart_rod_by_the_first_order_scheme() -> None:
    """Printed numbers of the scheme at h = 2.5 ms, to all eight digits."""
    motion = cb.simulate(stewart_rod(), 0.6, h=0.0025, initial=ROD_START, stepper="time_stepping")
    q = place(motion, "rod")
    assert np.allclose(q[160], (-0.02456063, 0.25742661, 2.16485534), atol=6e-9)
    assert np.allclose(q[200], (-0.1792761, 0.11253665, 2.88881477), atol=6e-9)
    assert np.allclose(q[-1], (-0.22929239, 0.05, math.pi), atol=6e-9)
    first = int(np.argmax(motion["contact.one.force.normal"] + motion["contact.two.force.normal"] > 0.0))
    assert motion.time[first + 1] == pytest.approx(0.385)
    assert (motion["contact.one.force.normal"] + motion["contact.two.force.normal"])[first] * 0.0025 == pytest.approx(0.99479272, abs=6e-9)
    rest = cb.simulate(stewart_rod(), 0.6, h=0.001, initial=ROD_START, stepper=cb.TimeStepping())
    assert place(rest, "rod")[-1, 0] == pytest.approx(-0.22666632, abs=6e-9)


def test_stewart_rod_by_impacts_in_time() -> None:
    """Second order at t = 0.5 s, after a located impact; the first-order scheme errs by 2e-3 where this errs by 8e-6."""
    steps = (0.01, 0.005, 0.0025, 0.001)
    at_half = [place(cb.simulate(stewart_rod(), 0.5, h=h, initial=ROD_START), "rod")[-1] for h in (*steps, 0.0005)]
    limit = (4.0 * at_half[-1] - at_half[-2] * 1.0) / 3.0
    errors = [float(np.abs(q - limit).max()) for q in at_half[:-1]]
    assert order(steps, errors) > 1.9 and errors[-1] < 1e-5
    first = place(cb.simulate(stewart_rod(), 0.5, h=0.001, initial=ROD_START, stepper="time_stepping"), "rod")[-1]
    assert np.abs(first - limit).max() > 20.0 * errors[-1]


def test_painleve_rod() -> None:
    """A rod that is dragged on its tip, with so much friction that no sliding solution exists from 45 degrees on: it goes on all the same."""
    body, joints = planar("rod", 1.0, 1 / 3, (0.0, 1.0, 0.0))
    rod = cb.Model(
        bodies=[body], joints=joints, sites=[cb.Site("tip", "rod", (1, 0, 0))], contacts=[cb.Contact("tip", "tip", friction=5 / 3)],
        world=cb.World(gravity=(0, 0, -10)),
    )  # fmt: skip
    start = math.radians(31.0)
    for h, close in ((0.01, 4e-4), (0.002, 1e-4)):
        motion = cb.simulate(rod, 1.2, h=h, initial={"joint.rod.z.position": math.sin(start), "joint.rod.a.angle": start, "joint.rod.x.rate": 30.0})
        q = place(motion, "rod")
        past = int(np.argmax(q[:, 2] >= math.pi / 4))
        assert np.interp(math.pi / 4, q[: past + 1, 2], motion.time[: past + 1]) == pytest.approx(0.81454966, abs=close)
        assert motion["contact.tip.force.normal"][0] == pytest.approx(10.0317166563, abs=1e-6)
        assert motion["contact.tip.gap"].min() > -1e-9


# -- sliding, rolling, rest ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 25])
def test_balls_roll_on_a_box_that_slides(count: int) -> None:
    """150 N on the box, 0.4 x 35 kg x g of friction below it; balls that roll on it get 2/7 of its acceleration: 0.7385 and 0.211 m/s^2."""
    model, start = carried(count)
    h, exact = 0.005, (150.0 - 0.4 * 35.0 * G) / (10.0 + 25.0 * 2.0 / 7.0)
    motion = cb.simulate(model, 0.1, h=h, initial=start, drive={"joint.push.force": 150.0})
    for path, a in (("joint.push.position", exact), ("joint.ball0.x.position", 2.0 / 7.0 * exact)):
        x = motion[path]
        assert (x[-1] - 2.0 * x[-2] + x[-3]) / h**2 == pytest.approx(a, rel=1e-4)
    assert np.allclose(motion["contact.ground.force"][5], (-0.4 * 35 * G, 0, 35 * G), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(("friction", "coordinates"), [(0.31, "tree"), (0.30, "tree"), (0.2, "free")])
def test_a_block_on_an_incline(friction: float, coordinates: str) -> None:
    """tan(0.3) = 0.3093: it sticks just above that, and slides with g (sin - mu cos) below."""
    tilt = 0.3
    block = single("box", (0.1, 0.1, 0.05), 2.0, (0.01,) * 3, cb.World(ground_tilt=(0.0, tilt)), friction=friction)
    start = {"joint.free.position": (0.05 * math.sin(tilt), 0, 0.05 * math.cos(tilt)), "joint.free.angle": (0, tilt, 0)}
    motion = cb.simulate(block, 1.0, h=0.005, initial=start, coordinates=coordinates)
    x = motion["body.block.position"]
    assert np.linalg.norm(x[-1] - x[0]) == pytest.approx(max(0.0, 0.5 * G * (math.sin(tilt) - friction * math.cos(tilt))), abs=1e-9)
    assert abs(motion["contact.floor.gap"]).max() < 1e-11
    if friction > math.tan(tilt):
        assert np.allclose(motion["contact.floor.force"][:-1], (0, 0, 2 * G), atol=1e-8) and motion["contact.floor.slip"].max() < 1e-9
    else:
        assert motion["contact.floor.slip"][-2] == pytest.approx(np.linalg.norm(x[-1] - x[-2]) / 0.005)


def test_a_disc_spins_until_it_rolls_or_stops() -> None:
    """On its edge a spinning disc slips until it rolls, with a third of its speed; flat on the ground its rim rubs until it stops."""
    r, m = 0.2, 2.0
    disc = single("cylinder", (r, 0.02), m, (0.25 * m * r * r, 0.25 * m * r * r, 0.5 * m * r * r), friction=0.3)
    upright = {"joint.free.position": (0, 0, r), "joint.free.orientation": (math.sqrt(0.5), math.sqrt(0.5), 0, 0)}
    motion = cb.simulate(disc, 1.0, h=0.002, initial=upright | {"joint.free.rate": (0, 0, 0, 0, 0, 20.0)})
    x = motion["body.block.position"][:, 0]
    assert (x[-1] - x[-2]) / 0.002 == pytest.approx(-20.0 * r / 3.0, rel=1e-4)
    slips = motion["contact.floor.slip"] > 1e-3
    assert motion.time[:-1][slips[:-1]].max() == pytest.approx(20.0 * r / 3.0 / (0.3 * G), abs=0.004)  # v = mu g t until it rolls
    flat = cb.simulate(disc, 0.8, h=0.002, initial={"joint.free.position": (0, 0, 0.02), "joint.free.rate": (0, 0, 0, 0, 0, 20.0)})
    rate = flat["joint.free.rate"][:, 5]
    assert rate[100] == pytest.approx(20.0 - 0.2 * 0.3 * G / (0.5 * r), rel=1e-3)
    assert np.abs(rate[flat.time > 20.0 * 0.5 * r / (0.3 * G) + 0.01]).max() < 1e-9


def test_a_box_falls_flat_tips_slides_and_stops() -> None:
    """Flat: four corners at once, and it stays level. Thrown: it tips, slides and lies still on a face, with its weight on the ground."""
    box = single("box", (0.1, 0.08, 0.06), 1.0, (0.002, 0.003, 0.004), friction=0.3, restitution=0.3, radius=0.005)
    flat = cb.simulate(box, 1.0, h=0.002, initial={"joint.free.position": (0, 0, 0.3)})
    assert np.abs(flat["body.block.angle"]).max() < 1e-11 and flat["body.block.position"][-1, 2] == pytest.approx(0.06, abs=1e-11)
    assert flat.events[0].time == pytest.approx(math.sqrt(0.48 / G), abs=1e-11)
    assert flat.events[0].separation_speed == pytest.approx(0.3 * flat.events[0].approach_speed)
    thrown = cb.simulate(
        box, 2.0, h=0.002, initial={"joint.free.position": (0, 0, 0.3), "joint.free.angle": (0.3, 0.2, 0.4), "joint.free.rate": (1, 0.2, 0, 3, 5, 2)}
    )
    assert np.ptp(thrown["body.block.position"][-100:], axis=0).max() < 1e-10 and np.ptp(abs(thrown["body.block.orientation"][-100:]), axis=0).max() < 1e-10
    assert min(abs(thrown["body.block.position"][-1, 2] - s) for s in (0.06, 0.08, 0.1)) < 1e-10
    assert np.allclose(thrown["contact.floor.force"][-100:-1], (0, 0, G), atol=1e-6)
    assert thrown["contact.floor.gap"].min() > -1e-9 and len(thrown.events) > 3
    table = thrown.to_frame()
    assert {"contact.floor.force.x", "contact.floor.force.normal", "contact.floor.gap", "contact.floor.slip"} <= set(table.columns) and len(table) == len(
        thrown.time
    )
    sliding = cb.simulate(box, 1.0, h=0.002, initial={"joint.free.position": (0, 0, 0.06), "joint.free.rate": (1.2, 0, 0, 0, 0, 0)})
    assert sliding["body.block.position"][-1, 0] == pytest.approx(1.2**2 / (2 * 0.3 * G), abs=2e-3)
    assert np.ptp(sliding["body.block.position"][-100:], axis=0).max() < 1e-11


@pytest.mark.parametrize("tilt", [0.0, 0.1, 0.2, 0.3, 0.4])
def test_a_box_comes_to_rest_on_planes_that_lean(tilt: float) -> None:
    box = single("box", (0.1, 0.08, 0.06), 1.0, (0.002, 0.003, 0.004), cb.World(ground_tilt=(tilt, 0.0)), friction=0.6, restitution=0.2)
    start = {"joint.free.position": (0, 0, 0.25), "joint.free.angle": (0.2 + tilt, 0.1, 0.0)}
    motion = cb.simulate(box, 2.0, h=0.004, initial=start)
    assert np.ptp(motion["body.block.position"][-50:], axis=0).max() < 1e-9 and np.ptp(abs(motion["body.block.orientation"][-50:]), axis=0).max() < 1e-9
    assert np.allclose(motion["contact.floor.force"][-50:-1], (0, 0, G), atol=1e-6)


# -- energy --------------------------------------------------------------------------------------------------------------------------


def _energy_never_rises(seed: int, law: str = "newton") -> int:
    """Impacts take energy; what is left of a rise along the motion is that of flight, which oscillates with h^2 while a body turns."""
    model, start = tossed(seed, law)
    motion = cb.simulate(model, 1.0, h=0.002, initial=start)
    assert all(e.energy_lost >= 0.0 for e in motion.events)
    energy = motion.energy
    assert (energy - np.minimum.accumulate(energy)).max() < 3e-3 * energy[0]
    assert motion["contact.floor.gap"].min() > -1e-7
    return len(motion.events)


def test_energy_of_tosses() -> None:
    assert sum(_energy_never_rises(seed) for seed in range(6)) > 20


@pytest.mark.slow
def test_energy_of_many_tosses() -> None:
    assert sum(_energy_never_rises(seed) for seed in range(500)) > 2000
    assert sum(_energy_never_rises(seed, "poisson") for seed in range(50)) > 200


def test_momentum_between_bodies() -> None:
    """Two balls that meet off centre, with friction, far from everything: what one loses the other gets, linear and angular."""
    model, _ = trough(3)  # the third is not in the way
    model = cb.Model(bodies=model.bodies, joints=model.joints, geometries=model.geometries, contacts=[cb.Contact("pair", "b0", "b1", friction=0.4, restitution=0.6)],
                     world=cb.World(gravity=(0, 0, 0)))  # fmt: skip
    start = {
        "joint.b2.position": (0, 0, 9),
        "joint.b0.position": (0, 0, 0),
        "joint.b1.position": (0.5, 0.03, 0.02),
        "joint.b1.rate": (-2, 0, 0, 3, 1, -2),
        "joint.b1.angle": (0.3, 0.5, 0.1),
    }
    motion = cb.simulate(model, 0.4, h=0.001, initial=start)
    assert 1 <= len(motion.events) <= 3
    p, L = [], []
    for k in (5, -5):
        q = [motion[f"body.b{i}.position"] for i in (0, 1)]
        v = [0.5 * (motion[f"body.b{i}.position"][k + 1] - motion[f"body.b{i}.position"][k - 1]) / 0.001 for i in (0, 1)]
        w = [motion[f"joint.b{i}.rate"][k, 3:] for i in (0, 1)]
        R = [_matrix(motion[f"body.b{i}.orientation"][k]) for i in (0, 1)]
        inertia = [np.diag(b.inertia[:3]) for b in model.bodies]
        p.append(0.5 * (v[0] + v[1]))
        L.append(sum(0.5 * np.cross(q[i][k], v[i]) + R[i] @ inertia[i] @ w[i] for i in (0, 1)))
    assert np.allclose(p[0], p[1], atol=1e-10) and np.allclose(L[0], L[1], atol=1e-5)
    assert np.linalg.norm(motion.events[0].impulse) > 0.1


def _matrix(e: np.ndarray) -> np.ndarray:
    w, x, y, z = e
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                     [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])  # fmt: skip


@pytest.mark.parametrize("count", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_spheres_and_capsules_come_to_rest_in_a_trough(count: int) -> None:
    model, start = trough(count)
    duration = 2.0 if count == 3 else 10.0
    motion = cb.simulate(model, duration, h=0.004, initial=start)
    for body in model.bodies:
        assert np.ptp(motion[f"body.{body.name}.position"][-50:], axis=0).max() < 1e-6
    weight = sum(motion[f"contact.{c.name}.force"][-2] for c in model.contacts if c.b.startswith("w"))
    assert np.allclose(weight, (0, 0, count * 0.5 * G), atol=1e-4)
    assert min(motion[f"contact.{c.name}.gap"].min() for c in model.contacts) > (-1e-6 if count == 3 else -5e-4)  # of ten, in a step where they jam


# -- limits --------------------------------------------------------------------------------------------------------------------------


def pendulum(position: float = 0.0, **limit: float) -> cb.Model:
    return cb.Model(
        bodies=[cb.Body("arm", mass=1.0, com=(0, 0, -0.5), inertia=(0.02, 0.02, 0.001))],
        joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.05)],
        limits=[cb.Limit("stop", "hinge", position, "lower", **limit)],
    )


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_a_pendulum_against_a_stop(coordinates: str) -> None:
    """It bounces off its stop, each time with a share of the rate, and comes to rest there."""
    motion = cb.simulate(pendulum(0.3, restitution=0.6), 3.0, h=0.002, initial={"joint.hinge.angle": 1.0}, coordinates=coordinates)
    angle = motion["joint.hinge.angle"] - 0.3
    assert angle.min() > -1e-10 and abs(angle[-100:]).max() < 1e-9
    assert len(motion.events) > 8 and all(e.contact == "limit.stop" for e in motion.events)
    for e in motion.events:
        assert e.separation_speed == pytest.approx(0.6 * e.approach_speed) and e.impulse[0] == pytest.approx(0.27 * 1.6 * e.approach_speed)
    assert motion["limit.stop.gap"] == pytest.approx(angle, abs=1e-12)


def test_a_stop_carries_a_torque() -> None:
    """A drive presses the arm against its stop: what the stop gives is the drive less what holds the arm up."""
    model = pendulum()
    motion = cb.simulate(model, 1.0, h=0.005, initial={"joint.hinge.angle": 0.2}, drive={"joint.hinge.force": -2.0})
    assert motion["limit.stop.force"][-2] == pytest.approx(2.0, abs=1e-9) and motion["joint.hinge.angle"][-1] == pytest.approx(0.0, abs=1e-12)


def test_reactions_know_of_contacts() -> None:
    """An arm whose tip rests on the ground: the hinge carries what the ground does not."""
    arm = cb.Model(
        bodies=[cb.Body("arm", mass=2.0, com=(0.5, 0, 0), inertia=(0.1, 0.1, 0.1), position=(0, 0, 0.3))],
        joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0))],
        geometries=[cb.Geometry("tip", "arm", "sphere", (0.05,), (1.0, 0, 0))],
        contacts=[cb.Contact("tip", "tip", friction=0.5)],
    )
    angle = math.asin(0.25)
    for coordinates in ("tree", "free"):
        motion = cb.simulate(arm, 0.2, h=0.002, initial={"joint.hinge.angle": angle}, coordinates=coordinates)
        ground, hinge = motion["contact.tip.force"][50], motion["joint.hinge.reaction.force"][50]
        assert np.allclose(ground + hinge, (0, 0, 2 * G), atol=1e-7)
        # moment about the hinge: weight at 0.5 cos, ground at (cos, -0.3)
        assert ground[2] * math.cos(angle) + 0.3 * ground[0] == pytest.approx(2 * G * 0.5 * math.cos(angle), abs=1e-6)


# -- what is said --------------------------------------------------------------------------------------------------------------------


def test_a_start_inside_is_refused() -> None:
    ball = single("sphere", (0.1,), 1.0, (0.004,) * 3)
    with pytest.raises(cb.SimulationError, match=r'"shape" is 0\.05 m inside "ground" \(contact\.floor\)'):
        cb.simulate(ball, 1.0, initial={"joint.free.position": (0, 0, 0.05)})
    with pytest.raises(cb.SimulationError, match=r"joint\.hinge starts 0\.1 beyond its lower limit 0 \(limit\.stop\)"):
        cb.simulate(pendulum(), 1.0, initial={"joint.hinge.angle": -0.1})
    through = cb.simulate(ball, 0.5, h=0.01, initial={"joint.free.position": (0, 0, 0.05)}, contacts=False)
    assert through["body.block.position"][-1, 2] < -1.0 and not through.events and "contact.floor.gap" not in through.channels


def test_other_steppers() -> None:
    ball = single("sphere", (0.1,), 1.0, (0.004,) * 3)
    motion = cb.simulate(ball, 0.5, h=0.01, initial={"joint.free.position": (0, 0, 0.3)}, stepper="spook")
    assert motion["body.block.position"][-1, 2] == pytest.approx(0.1, abs=1e-3) and not motion.notes  # more in test_spook_contact.py
    with pytest.raises(cb.SimulationError, match="works in joint coordinates"):
        cb.simulate(ball, 0.5, h=0.01, stepper="time_stepping", coordinates="free")


def test_what_does_not_act_in_a_fit_is_refused() -> None:
    model = pendulum(-1.5, restitution=0.5)
    motion = cb.simulate(model, 1.0, h=0.01, initial={"joint.hinge.angle": 1.0})
    run = cb.Recording("r", (cb.Observation("joint.hinge.angle", motion.time, motion["joint.hinge.angle"], 1e-3),))
    with pytest.raises(cb.CalibodyError, match=r'"limit\.stop\.restitution" cannot be estimated: contacts = "none" leaves them out'):
        cb.fit(model, [run], {"limit.stop.restitution": cb.Unknown(0.5)}, contacts="none")
    with pytest.raises(cb.CalibodyError, match=r'"limit\.stop\.gap" cannot be observed yet'):
        cb.fit(
            model,
            [cb.Recording("r", (cb.Observation("limit.stop.gap", motion.time, motion["limit.stop.gap"], 1e-3),))],
            {"joint.hinge.damping": cb.Unknown(0.1)},
        )
    far, near = (cb.fit(m, [run], {"joint.hinge.damping": cb.Unknown(0.1)}, contacts="none") for m in (model, pendulum(-0.5)))
    assert [n for n in far.notes if "limit.stop" in n] == ["Contacts and limits do not act in this fit (limit.stop)."]
    assert any("The fitted motion of r reaches limit.stop at t = " in n and "do not trust the estimates" in n for n in near.notes)


@pytest.mark.slow
def test_both_coordinates_are_one_scheme() -> None:
    """Two links with a hinge that ends at stops, dropped and tossed: joint coordinates and poses of all bodies give the same motion and the same impacts."""
    moments = (0.02, 0.02, 0.01)
    model = cb.Model(
        bodies=[
            cb.Body("one", mass=1.0, com=(0, 0, -0.15), inertia=moments),
            cb.Body("two", "one", mass=0.7, com=(0, 0, -0.15), inertia=moments, position=(0, 0, -0.3)),
        ],
        joints=[cb.Joint("free", "one", "free"), cb.Joint("knee", "two", axis=(0.2, 1, 0.1), damping=0.02)],
        geometries=[cb.Geometry(n, n, "capsule", (0.05, 0.1), (0, 0, -0.15)) for n in ("one", "two")],
        contacts=[cb.Contact(n, n, friction=0.4, restitution=0.5) for n in ("one", "two")],
        limits=[cb.Limit("stop", "knee", 0.6, restitution=0.3), cb.Limit("back", "knee", -0.1, "lower", restitution=0.3)],
    )
    start = {"joint.free.position": (0, 0, 0.9), "joint.free.angle": (0.3, 0.2, 0.1), "joint.free.rate": (0.5, 0.2, 0, 1, -2, 1)}
    tree, free = (cb.simulate(model, 0.6, h=0.002, initial=start, coordinates=c) for c in ("tree", "free"))
    assert [e.contact for e in tree.events] == [e.contact for e in free.events] and len(tree.events) >= 3
    assert np.allclose([e.time for e in tree.events], [e.time for e in free.events], atol=1e-7)
    assert np.allclose(tree["body.two.position"], free["body.two.position"], atol=1e-6)


# -- lasting contact in compiled pieces ------------------------------------------------------------------------------------------------


def _slides_and_stops() -> tuple[cb.Model, dict[str, tuple[float, ...]]]:
    """A stool on three round feet (whose loads are unique) that slides down a tilted ground, turning, and a slider that falls on its limit."""
    feet = {f"foot{k}": (0.1 * math.cos(2.1 * k), 0.1 * math.sin(2.1 * k), -0.05) for k in range(3)}
    model = cb.Model(
        bodies=[cb.Body("stool", mass=1.0, inertia=(0.002, 0.003, 0.004)), cb.Body("slider", mass=0.5, inertia=(0.001, 0.001, 0.001))],
        joints=[cb.Joint("stool", "stool", "free"), cb.Joint("rail", "slider", "slide", axis=(0, 0, 1))],
        geometries=[cb.Geometry(name, "stool", "sphere", (0.01,), position=at) for name, at in feet.items()],
        contacts=[cb.Contact(name, name, friction=0.35) for name in feet],
        limits=[cb.Limit("end", "rail", -0.02, "lower")],
        world=cb.World(ground_tilt=(0.0, 0.1)),
    )
    return model, {"joint.stool.position": (0.0, 0.0, 0.0705), "joint.stool.rate": (0.8, 0.1, 0.0, 0.0, 0.0, 0.5)}


def test_pieces_of_lasting_contact_are_the_steps_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sliding, turning, coming to rest on a slope, and a limit that carries: compiled pieces give the motion, forces and events of single steps."""
    model, start = _slides_and_stops()
    with monkeypatch.context() as patch:
        patch.setattr(contact_piece, "can_hold", lambda *_: False)
        single = cb.simulate(model, 0.8, 0.002, initial=start)
    monkeypatch.setattr(contact_piece, "WORTH", 0)
    made = []
    lasted = contact.Stepper.lasted
    monkeypatch.setattr(contact.Stepper, "lasted", lambda self, k, steps, *rest: (made.append(steps), lasted(self, k, steps, *rest)))
    pieces = cb.simulate(model, 0.8, 0.002, initial=start)
    assert sum(made) > 200
    assert len(single.events) == len(pieces.events)
    for name in ("body.stool.position", "joint.stool.rate", "joint.rail.position", "contact.foot0.gap"):
        np.testing.assert_allclose(pieces[name], single[name], atol=1e-9, err_msg=name)
    for name in ("contact.foot0.force.normal", "contact.foot2.force.normal", "limit.end.force"):
        np.testing.assert_allclose(pieces[name], single[name], atol=1e-7, err_msg=name)
    total = [sum(m[f"contact.foot{k}.force"] for k in range(3)) for m in (pieces, single)]  # how sticking feet share it is not unique
    np.testing.assert_allclose(*total, atol=1e-7)
    np.testing.assert_allclose(pieces.energy, single.energy, atol=1e-9)
    assert np.abs(pieces["limit.end.force"][-1]).max() == pytest.approx(0.5 * 9.81, rel=1e-9)
