"""Published motions: the error falls as h^2, and the extrapolated limit is the printed value.

The scheme is symmetric in time, so its error is a series in h^2 and repeated Richardson extrapolation applies.
"""

from __future__ import annotations

import numpy as np
import pytest
from physics.convergence import extrapolated, order
from problems import HEAVY_TOP_START, four_bar, four_bar_start, heavy_top, point_pendulum, rates

import calibody as cb


def at(motion: cb.Motion, time: float) -> int:
    return round(time / motion.h)


def test_pendulum() -> None:
    reference = {1.0: (0.986291751131874, -0.165010853125550), 5.0: (-0.942305435043807, -0.334754338413861), 10.0: (-0.275087462576439, -0.961419205099033)}
    steps = (0.02, 0.01, 0.005, 0.0025)
    motions = [cb.simulate(point_pendulum(), 10.0, h) for h in steps]
    for time, exact in reference.items():
        found = [m["body.bob.com"][at(m, time)][:2] for m in motions]
        assert order(steps, [np.abs(x - exact).max() for x in found]) == pytest.approx(2.0, abs=0.1)
        np.testing.assert_allclose(extrapolated(found), exact, atol=1e-8)
    # speed from energy: |v|^2 = -2 g y, started at y = 0
    speed = extrapolated([m["joint.pivot.rate"][-1] for m in motions])
    assert speed**2 == pytest.approx(2.0 * 9.81 * 0.961419205099033, abs=1e-6)


def site_velocity(motion: cb.Motion, index: int) -> np.ndarray:
    """The rod turns about its end: v = omega x r, omega the joint's rate at the node."""
    x, y, _ = motion["site.B0.position"][index]
    w = motion["joint.ground0.rate"][index]
    return np.array([-w * y, w * x])


@pytest.mark.parametrize("coordinates", ["tree", "free"])
def test_double_four_bar(coordinates: str) -> None:
    """Passes the flat configuration, where the loops' equations lose rank, several times."""
    steps = (0.02, 0.01, 0.005, 0.0025)
    motions = [cb.simulate(four_bar(2), 10.0, h, initial=rates(four_bar_start(2)), coordinates=coordinates) for h in steps]
    for time, exact in {1.0: (-0.195020301949, -0.980799205662), 10.0: (0.32845811153, 0.94451853818)}.items():
        found = [m["site.B0.position"][at(m, time)][:2] for m in motions]
        assert order(steps, [np.abs(x - exact).max() for x in found]) == pytest.approx(2.0, abs=0.1)
        np.testing.assert_allclose(extrapolated(found), exact, atol=1e-7)
    velocity = [site_velocity(m, -1) for m in motions]
    exact = (1.42305147019, -0.49486884547)
    assert order(steps, [np.abs(v - exact).max() for v in velocity]) == pytest.approx(2.0, abs=0.1)
    np.testing.assert_allclose(extrapolated(velocity), exact, atol=1e-6)


@pytest.mark.slow
def test_forty_windows() -> None:
    """The official size of the problem: 81 rods, 40 loops. Four steps, as for the small one."""
    exact = (0.180512226681130, 0.983572740583339)
    steps = (0.05, 0.025, 0.0125, 0.00625)
    motions = [cb.simulate(four_bar(40), 10.0, h, initial=rates(four_bar_start(40))) for h in steps]
    found = [m["site.B0.position"][-1][:2] for m in motions]
    assert order(steps, [np.abs(x - exact).max() for x in found]) == pytest.approx(2.0, abs=0.1)
    np.testing.assert_allclose(extrapolated(found), exact, atol=1e-6)


def test_heavy_top() -> None:
    steps = (1e-3, 5e-4, 2.5e-4, 1.25e-4)
    motions = [cb.simulate(heavy_top(), 1.0, h, initial=HEAVY_TOP_START) for h in steps]
    exact = {
        "body.top.com": ((0.605550561377, 0.598957681795, -0.52398302743), 1e-6),
        "joint.tip.orientation": ((-0.708279152974, 0.438781088127, 0.545728396145, 0.089399752824), 1e-6),
        "joint.tip.rate": ((-2.691590912142, 150.0, 4.917260989895), 1e-6),
    }
    for channel, (values, tolerance) in exact.items():
        found = [m[channel][at(m, 0.2)] for m in motions]
        found = [x * np.sign(x @ np.array(values)) for x in found]  # a quaternion and its opposite are one rotation
        errors = [np.abs(x - values).max() for x in found]
        assert order(steps, errors) == pytest.approx(2.0, abs=0.1), channel
        np.testing.assert_allclose(extrapolated(found), values, atol=tolerance, err_msg=channel)
    later = [m["body.top.com"][-1] for m in motions]
    exact_later = (0.173343964098, 0.640088592070, -0.748490791134)
    assert order(steps, [np.abs(x - exact_later).max() for x in later]) == pytest.approx(2.0, abs=0.1)
    np.testing.assert_allclose(extrapolated(later), exact_later, atol=1e-6)
