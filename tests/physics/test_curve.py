"""A slide that follows a hinge along a smooth curve: one degree of freedom, against its own equation of motion."""

from __future__ import annotations

import numpy as np
import pytest
from physics.convergence import order
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicHermiteSpline, CubicSpline

import calibody as cb
from calibody.errors import ModelError

MASS, LENGTH, WAGON, GRAVITY, START = 0.7, 0.4, 1.3, 9.81, 1.1
X = np.array([-1.5, -0.6, 0.2, 0.9, 1.6])
Y = np.array([0.30, 0.05, -0.02, 0.10, 0.25])
SPLINE = CubicSpline(X, Y)
KNOTS = tuple((float(x), float(SPLINE(x)), float(SPLINE(x, 1))) for x in X)


def wagon() -> cb.Model:
    """A wagon on rails, moved along by a pendulum that hangs elsewhere: `x = f(phi)`."""
    bodies = [cb.Body("wagon", mass=WAGON, inertia=(1, 1, 1)), cb.Body("bob", mass=MASS, com=(0, 0, -LENGTH), inertia=(0, 0, 0))]
    joints = [cb.Joint("x", "wagon", "slide", axis=(1, 0, 0)), cb.Joint("phi", "bob", axis=(0, 1, 0))]
    return cb.Model("wagon", bodies, joints, [cb.Loop("cam", "curve", joint1="x", joint2="phi", curve=KNOTS)])


def exact(times: np.ndarray) -> np.ndarray:
    """`(m l^2 + M f'^2) phi'' + M f' f'' phi'^2 = -m g l sin(phi)`."""

    def rates(_: float, y: np.ndarray) -> list[float]:
        d, dd = SPLINE(y[0], 1), SPLINE(y[0], 2)
        return [y[1], float((-MASS * GRAVITY * LENGTH * np.sin(y[0]) - WAGON * d * dd * y[1] ** 2) / (MASS * LENGTH**2 + WAGON * d**2))]

    return solve_ivp(rates, (0.0, times[-1]), [START, 0.0], "DOP853", t_eval=times, rtol=1e-11, atol=1e-12).y[0]


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_the_exact_motion_at_second_order(coordinates: str) -> None:
    steps, errors = [0.01, 0.005, 0.0025, 0.00125], []
    for h in steps:
        motion = cb.simulate(wagon(), 1.0, h, {"joint.phi.angle": START}, coordinates=coordinates)
        assert motion["joint.x.position"] == pytest.approx(SPLINE(motion["joint.phi.angle"]), abs=1e-9)
        errors.append(np.abs(motion["joint.phi.angle"] - exact(motion.time)).max())
    assert order(steps, errors) > 1.9
    assert errors[-1] < 1e-4


def test_beyond_its_knots_a_curve_is_straight() -> None:
    motion = cb.simulate(wagon(), 0.1, 0.001, {"joint.phi.angle": 1.9, "joint.phi.rate": 1.0})
    phi = motion["joint.phi.angle"]
    assert phi.min() > X[-1]
    assert motion["joint.x.position"] == pytest.approx(KNOTS[-1][1] + KNOTS[-1][2] * (phi - X[-1]), abs=1e-9)


def test_the_pieces_are_hermite_cubics() -> None:
    from calibody.formats.functions import Knots

    x = np.linspace(-1.5, 1.6, 57)
    expected = CubicHermiteSpline(*(np.array(column) for column in zip(*KNOTS, strict=True)))(x)
    assert [Knots(KNOTS)(v) for v in x] == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"curve": KNOTS[:1]}, "has 1 knots; give at least two"), ({"curve": KNOTS[::-1]}, "with x increasing"), ({"joint2": ""}, "names no joint2")],
)
def test_mistakes(changes: dict, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        cb.Loop("cam", "curve", **{"joint1": "x", "joint2": "phi", "curve": KNOTS} | changes)
