"""What rolls or glides without slipping: a disc against its equations of motion, Chaplygin's sleigh, and fits of it."""

from __future__ import annotations

import numpy as np
import pytest
from physics.convergence import order
from physics.frames import rotation
from scipy.integrate import solve_ivp

import calibody as cb
from calibody.estimate.recipe import prepared

COORDINATES = pytest.mark.parametrize("coordinates", ["tree", pytest.param("free", marks=pytest.mark.slow)])
RADIUS, MASS, GRAVITY = 0.3, 1.2, 9.81
ACROSS, ALONG = 0.25 * MASS * RADIUS**2, 0.5 * MASS * RADIUS**2


def disc() -> cb.Model:
    body = cb.Body("disc", mass=MASS, inertia=(ACROSS, ACROSS, ALONG))
    return cb.Model("disc", [body], [cb.Joint("float", "disc", "free")], [cb.Loop("roll", "rolling", "disc", length=RADIUS)])


def start(tilt: float, spin: float, yaw: float, fall: float = 0.0) -> tuple[dict[str, object], np.ndarray, np.ndarray]:
    """The axle near y, turned down by `tilt` about x; the disc spins about it, turns about the vertical and falls. Channels, rotation and angular rate (world)."""
    axle = np.array([0.0, np.cos(tilt), -np.sin(tilt)])
    turn = cb.along(tuple(axle))
    R = rotation(turn)
    w = spin * axle + yaw * np.array([0.0, 0.0, 1.0]) + fall * np.array([1.0, 0.0, 0.0])
    u = _upward(axle)
    place = np.array([0.0, 0.0, RADIUS * u[2]])
    return {"joint.float.position": tuple(place), "joint.float.orientation": turn, "joint.float.rate": (*np.cross(w, RADIUS * u), *(R.T @ w))}, R, w


def _upward(axle: np.ndarray) -> np.ndarray:
    v = np.array([0.0, 0.0, 1.0]) - axle[2] * axle
    return v / np.linalg.norm(v)


def exact(R: np.ndarray, w: np.ndarray, place: np.ndarray, time: float) -> np.ndarray:
    """The centre after a time, from Newton and Euler with the contact force eliminated: `c' = w x r u`, `I w' + w x I w = -r u x m (c'' - g)`."""

    def rates(_: float, y: np.ndarray) -> np.ndarray:
        R, w = y[:9].reshape(3, 3), y[9:12]
        axle = R[:, 2]
        u = _upward(axle)
        step = 1e-6
        turned = [_upward(axle + s * step * np.cross(w, axle)) for s in (1.0, -1.0)]
        du = (turned[0] - turned[1]) / (2.0 * step)
        inertia = R @ np.diag([ACROSS, ACROSS, ALONG]) @ R.T
        free = np.cross(w, RADIUS * du) + np.array([0.0, 0.0, GRAVITY])
        right = -np.cross(w, inertia @ w) - np.cross(RADIUS * u, MASS * free)
        dw = np.linalg.solve(inertia + MASS * RADIUS**2 * (np.eye(3) - np.outer(u, u)), right)
        return np.concatenate([np.cross(w, R, axisb=0, axisc=0).ravel(), dw, np.cross(w, RADIUS * u)])

    y = solve_ivp(rates, (0.0, time), np.concatenate([R.ravel(), w, place]), "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    return y[12:]


@COORDINATES
def test_a_disc_that_wobbles_as_it_rolls(coordinates: str) -> None:
    """Second order against its equations of motion; on the plane to rounding; the energy stays."""
    initial, R, w = start(0.3, 8.0, 0.7, 0.4)
    centre = exact(R, w, np.array(initial["joint.float.position"]), 1.0)
    steps = [4e-3, 2e-3, 1e-3]
    motions = [cb.simulate(disc(), 1.0, h, initial, coordinates=coordinates) for h in steps]
    errors = [float(np.abs(m["body.disc.com"][-1] - centre).max()) for m in motions]
    assert order(steps, errors) == pytest.approx(2.0, abs=0.1) and errors[-1] < 2e-3, errors
    finest = motions[-1]
    assert np.ptp(finest.energy) < 1e-3 * finest.energy[0]
    assert np.linalg.norm(finest["body.disc.com"][-1, :2]) > 1.0 and not finest.notes


def test_a_coin_rolls_in_a_circle() -> None:
    """Steady: with the tilt t and the turn W about the vertical, moments about the point of contact give the rate about the axle,
    `w3 = (m g r tan t - A W^2 sin t)/((C + m r^2) W)`; the height stays, and the centre goes round with W."""
    tilt, turn = 0.25, 1.5
    about_axle = (MASS * GRAVITY * RADIUS * np.tan(tilt) - ACROSS * turn**2 * np.sin(tilt)) / ((ALONG + MASS * RADIUS**2) * turn)
    initial, _, _ = start(tilt, about_axle + turn * np.sin(tilt), turn)
    motion = cb.simulate(disc(), 1.0, 1e-3, initial)
    assert np.ptp(motion["body.disc.com"][:, 2]) < 2e-6
    radius = float(np.linalg.norm(np.array(initial["joint.float.rate"])[:3])) / turn  # type: ignore[arg-type]
    np.testing.assert_allclose(np.linalg.norm(motion["body.disc.com"][:, :2] - [0.0, radius], axis=1), radius, rtol=1e-4)


# -- Chaplygin's sleigh ------------------------------------------------------------------------------------------------------------------

AHEAD, SLEDGE, MOMENT = 0.2, 2.0, 0.05


def sleigh(ahead: float = AHEAD, moment: float = MOMENT) -> cb.Model:
    body = cb.Body("sleigh", mass=SLEDGE, com=(ahead, 0, 0), inertia=(moment, moment, moment))
    joints = [cb.Joint("x", "sleigh", "slide", axis=(1, 0, 0)), cb.Joint("y", "sleigh", "slide", axis=(0, 1, 0)), cb.Joint("turn", "sleigh", axis=(0, 0, 1))]
    return cb.Model("sleigh", [body], joints, [cb.Loop("blade", "knife", "sleigh")], sites=[cb.Site("bow", "sleigh", (0.5, 0.1, 0.0))])


@COORDINATES
def test_the_sleigh_of_chaplygin(coordinates: str) -> None:
    """`v' = a w^2`, `w' = -m a v w/(J + m a^2)`: second order, energy, and in the end it goes straight with the speed of its energy."""

    def rates(_: float, y: np.ndarray) -> list[float]:
        v, w, angle = y[:3]
        return [AHEAD * w**2, -SLEDGE * AHEAD * v * w / (MOMENT + SLEDGE * AHEAD**2), w, v * np.cos(angle), v * np.sin(angle)]

    end = solve_ivp(rates, (0.0, 2.0), [0.3, 3.0, 0.0, 0.0, 0.0], "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    steps, initial = [1e-2, 5e-3, 2.5e-3], {"joint.x.rate": 0.3, "joint.turn.rate": 3.0}
    motions = [cb.simulate(sleigh(), 2.0, h, initial, coordinates=coordinates) for h in steps]
    errors = [
        float(np.abs([m["joint.turn.angle"][-1] - end[2], m["joint.x.position"][-1] - end[3], m["joint.y.position"][-1] - end[4]]).max()) for m in motions
    ]
    assert order(steps, errors) == pytest.approx(2.0, abs=0.1) and errors[-1] < 1e-3, errors
    long = cb.simulate(sleigh(), 20.0, 5e-3, initial, coordinates=coordinates)
    energy = 0.5 * SLEDGE * (0.3**2 + (AHEAD * 3.0) ** 2) + 0.5 * MOMENT * 9.0
    assert np.abs(long.energy / energy - 1.0).max() < 2e-3
    speed = np.hypot(long["joint.x.rate"][-1], long["joint.y.rate"][-1])
    assert speed == pytest.approx(np.sqrt(2.0 * energy / SLEDGE), rel=2e-3) and abs(long["joint.turn.rate"][-1]) < 1e-3


@COORDINATES
def test_a_sleigh_is_calibrated(coordinates: str) -> None:
    """Where its centre of mass is and its inertia, from places of the bow and a known torque; and the derivatives of its equations."""
    t = np.arange(0.0, 2.0, 0.01)
    torque = cb.Signal(t, 0.4 * np.sin(5.0 * t))
    motion = cb.simulate(sleigh(), 1.98, 1e-3, {"joint.x.rate": 0.5, "joint.turn.rate": 2.0}, {"joint.turn.force": torque})
    random, at = np.random.default_rng(8), motion.time[::20]
    seen = [cb.Observation(f"site.bow.position.{c}", at, motion[f"site.bow.position.{c}"][::20] + 1e-3 * random.normal(size=len(at)), 1e-3) for c in "xy"]
    angle = cb.Observation("joint.turn.angle", at, motion["joint.turn.angle"][::20] + 2e-3 * random.normal(size=len(at)), 2e-3)
    run = cb.Recording("glide", [*seen, angle], (cb.Drive("joint.turn.force", torque),))
    unknowns = {"body.sleigh.com.x": 0.1, "body.sleigh.inertia.zz": 0.08}
    worker, h = prepared(sleigh(0.1, 0.08), [run], unknowns, "none", coordinates, 0.02)
    problem, x = worker.begin(worker.problem(h, worker.noises), theta := np.array([0.1, 0.08]))
    lin, mesh, step = problem.linearise(x, theta), problem.runs[0], 1e-6
    d = random.normal(size=mesh.layout.size)
    high, low = (problem.values([mesh.move(x[0], s * step * d)], theta)[1] for s in (1.0, -1.0))
    np.testing.assert_allclose((high - low) / (2 * step), lin.Cx @ d, atol=1e-5 * np.abs(lin.Cx @ d).max())
    result = cb.fit(sleigh(0.1, 0.08), run, unknowns, coordinates=coordinates, h=0.01)
    assert result.converged, result.status
    for path, true in (("body.sleigh.com.x", AHEAD), ("body.sleigh.inertia.zz", MOMENT)):
        found = result.parameters[path]
        assert found.sd is not None and abs(found.value - true) < 3.5 * found.sd, path


def test_sentences() -> None:
    for sentence, loop in (("it is the radius of the disc", {"kind": "rolling"}), ("rigid and against the world", {"kind": "knife", "compliance": 1.0})):
        with pytest.raises(cb.ModelError, match=sentence):
            cb.Loop("roll", body1="disc", **loop)  # type: ignore[arg-type]
    with pytest.raises(cb.SimulationError, match='rolls or glides, which stepper="spook"'):
        cb.simulate(disc(), 0.1, 0.01, stepper="spook")
