"""A first look: a pendulum whose period is known exactly.

A rigid pendulum of mass m, centre of mass l below the hinge and inertia J about the hinge, let go at the angle a, swings with the period

    T = 4 sqrt(J/(m g l)) K(sin^2(a/2)),     K(k^2) the complete elliptic integral of the first kind.

The stepper is of second order, so halving h divides the error of the period by four.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MASS = 0.4
"""kg"""
LENGTH = 0.3
"""m, from the hinge to the centre of mass"""
INERTIA = 0.012
"""kg m^2, about the centre of mass, in the plane of the swing"""
GRAVITY = 9.81
"""m/s^2"""
START = 2.0
"""rad, from the lowest position"""
DURATION = 10.0
"""s: about six periods"""
STEPS = (0.02, 0.01, 0.005)
"""s: each half of the one before, so that the order shows"""

PENDULUM = f"""\
<mujoco model="pendulum">
  <option gravity="0 0 -{GRAVITY}"/>
  <worldbody>
    <body name="arm">
      <joint name="hinge" type="hinge" axis="0 1 0"/>
      <inertial pos="0 0 -{LENGTH}" mass="{MASS}" diaginertia="{INERTIA} {INERTIA} 0.0004"/>
      <site name="tip" pos="0 0 -{2 * LENGTH}"/>
    </body>
  </worldbody>
</mujoco>
"""


@dataclass(frozen=True)
class Period:
    """The period [s] found with the step h [s], and how far the energy [J] wandered."""

    h: float
    period: float
    error: float
    energy_range: float


def write_pendulum(folder: Path) -> Path:
    """Write `pendulum.xml` into the folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pendulum.xml"
    path.write_text(PENDULUM)
    return path


def exact_period() -> float:
    from scipy.special import ellipk

    J = INERTIA + MASS * LENGTH**2
    return 4.0 * math.sqrt(J / (MASS * GRAVITY * LENGTH)) * float(ellipk(math.sin(START / 2.0) ** 2))


def measured_period(time: np.ndarray, angle: np.ndarray) -> float:
    """Twice the mean time between passages through zero; a cubic spline between the nodes errs by h^4 only."""
    from scipy.interpolate import CubicSpline

    return 2.0 * float(np.diff(CubicSpline(time, angle).roots(extrapolate=False)).mean())


def pendulum_periods(path: Path) -> list[Period]:
    """Simulate the pendulum of the file with each of `STEPS`."""
    import calibody as cb

    model, exact = cb.load(path), exact_period()
    found = []
    for h in STEPS:
        motion = cb.simulate(model, duration=DURATION, h=h, initial={"joint.hinge.angle": START})
        period = measured_period(np.asarray(motion.time), np.asarray(motion["joint.hinge.angle"]))
        found.append(Period(h, period, period - exact, float(np.ptp(motion.energy))))
    return found
