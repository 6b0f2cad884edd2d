"""Real recordings: multi-arm pendulums (free swings) and a Furuta pendulum, against distances measured with a ruler and independent fits.

One of each here; all of them, singly and jointly, in `tests/experiment/test_shared.py`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import calibody as cb

PIVOTS = 0.17272
"""Distance between the pivots of the double pendulum [m], measured."""


def double() -> cb.Model:
    """Free swings know ratios only: masses and the second centre of mass are fixed, the rest is relative to them."""
    bodies = [
        cb.Body("a", mass=0.2, com=(0, 0, 0.1), inertia=(1e-3, 1e-3, 1e-3)),
        cb.Body("b", parent="a", position=(0, 0, 0.15), mass=0.05, com=(0, 0, 0.16), inertia=(5e-4, 5e-4, 5e-4)),
    ]
    joints = [cb.Joint("one", "a", axis=(0, 1, 0), damping=1e-4), cb.Joint("two", "b", axis=(0, 1, 0), damping=1e-4)]
    return cb.Model("double", bodies=bodies, joints=joints, world=cb.World(gravity=(0, 0, -9.808)))


UNKNOWN = {
    "joint.two.position.z": cb.Unknown(0.15),
    "body.a.com.z": cb.Unknown(0.1),
    "body.a.inertia.yy": cb.Unknown(1e-3),
    "body.b.inertia.yy": cb.Unknown(5e-4),
    "joint.one.damping": cb.Unknown(1e-4, lower=0.0),
    "joint.two.damping": cb.Unknown(1e-4, lower=0.0),
    "joint.one.friction": cb.Unknown(1e-4),
    "joint.two.friction": cb.Unknown(1e-4),
}


def swing(folder: Path, name: str, sd: float = 1e-4) -> cb.Recording:
    """Every fifth sample (200 Hz); absolute angles, zero upright."""
    t, one, *two = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)[::5].T
    observed = [cb.Observation("joint.one.angle", t, one, sd)] + [cb.Observation("joint.two.angle", t, x - one, sd) for x in two]
    return cb.Recording(name, tuple(observed))


def pivots(folder: Path, *names: str) -> cb.Result:
    return cb.fit(double(), [swing(folder, n) for n in names], UNKNOWN, process_noise="auto", h=0.005)


@pytest.mark.parametrize("name", ["double_id03", "double_id12"])
def test_distance_of_the_pivots(shared: Path, name: str) -> None:
    e = pivots(shared / "data/multiarm_pendulum", name).parameters["joint.two.position.z"]
    assert e.value == pytest.approx(PIVOTS, rel=0.005) and e.sd is not None and e.sd < 0.002 * PIVOTS


@pytest.mark.parametrize("name", [f"single_id{k:02d}" for k in range(4)])
def test_single_pendulum(shared: Path, name: str) -> None:
    """`J/(m a)` about the pivot."""
    model = cb.Model(
        "single",
        bodies=[cb.Body("a", mass=0.2, com=(0, 0, 0.1), inertia=(1e-3, 1e-3, 1e-3))],
        joints=[cb.Joint("one", "a", axis=(0, 1, 0), damping=1e-4)],
        world=cb.World(gravity=(0, 0, -9.808)),
    )
    unknowns = {"body.a.inertia.yy": cb.Unknown(1e-3), "joint.one.damping": cb.Unknown(1e-4, lower=0.0), "joint.one.friction": cb.Unknown(1e-4)}
    result = cb.fit(model, swing(shared / "data/multiarm_pendulum", name), unknowns, process_noise="auto", h=0.005)
    length = (result.parameters["body.a.inertia.yy"].value + 0.2 * 0.1**2) / (0.2 * 0.1)
    assert result.converged and length == pytest.approx(0.1531, rel=0.005)


# -- Furuta pendulum ---------------------------------------------------------------------------------------------------------------------

MASS, ROD, ARM, RADIUS = 0.024, 0.129, 0.095, 0.085
"""Datasheet: mass and length of the pendulum, mass and length of the arm."""


def furuta() -> cb.Model:
    """Motor from the datasheet: km/Rm = 0.042/8.4, km^2/Rm."""
    bodies = [
        cb.Body("arm", mass=ARM, inertia=(1e-4, 1e-4, 5.7e-5)),
        cb.Body("pendulum", parent="arm", position=(RADIUS, 0, 0), mass=MASS, com=(0, 0, -ROD / 2), inertia=(3.3e-5, 3.3e-5, 1e-7)),
    ]
    joints = [cb.Joint("arm", "arm", axis=(0, 0, 1), damping=1e-5, stiffness=5e-4), cb.Joint("pendulum", "pendulum", axis=(1, 0, 0), damping=1e-6)]
    return cb.Model("furuta", bodies=bodies, joints=joints, actuators=[cb.Actuator("motor", "arm", gain=0.005, damping=2.1e-4)])


def qube(folder: Path, name: str) -> cb.Recording:
    """Encoders of 2048 counts: sd of rounding to 3.07 mrad."""
    t, arm, pendulum, volts = np.genfromtxt(folder / f"data/furuta_qube/{name}.csv", delimiter=",", skip_header=1).T
    known = np.isfinite(volts)
    observed = (cb.Observation("joint.arm.angle", t, arm, 8.9e-4), cb.Observation("joint.pendulum.angle", t, pendulum, 8.9e-4))
    return cb.Recording(name, observed, (cb.Drive("actuator.motor", cb.Signal(t[known], volts[known])),))


CHIRPS = ("r30", "r31", "r32", "r33", "r34")
FURUTA = {
    "body.arm.inertia.zz": cb.Unknown(1e-4, lower=0.0),
    "radius": cb.Unknown(0.07, places={"body.pendulum.position.x": "radius"}),
    "length": cb.Unknown(0.06, places={"body.pendulum.com.z": "-length"}),
    "inertia": cb.Unknown(3.3e-5, lower=0.0, places={"body.pendulum.inertia.xx": "inertia", "body.pendulum.inertia.yy": "inertia"}),
    "joint.arm.damping": cb.Unknown(1e-5, lower=0.0),
    "joint.arm.friction": cb.Unknown(1e-4),
    "joint.pendulum.damping": cb.Unknown(1e-6, lower=0.0),
    "joint.pendulum.friction": cb.Unknown(1e-5),
    "joint.arm.stiffness": cb.Unknown(5e-4, lower=0.0),
    "joint.arm.springref": cb.Unknown(0.0, scale=0.1),
    "actuator.motor.delay": cb.Unknown(0.004),
}


@cache
def chirps(folder: Path, *names: str) -> cb.Result:
    return cb.fit(furuta(), [qube(folder, n) for n in names], FURUTA, process_noise="auto", h=0.004)


def check_furuta(result: cb.Result) -> None:
    value = {k: e.value for k, e in result.parameters.items()}
    assert result.converged, result.status
    assert value["radius"] == pytest.approx(RADIUS, rel=0.05)
    assert (value["inertia"] + MASS * value["length"] ** 2) / (MASS * value["length"]) == pytest.approx(0.0810, rel=0.015)


def test_a_chirp(shared: Path) -> None:
    check_furuta(chirps(shared, "r30"))


@pytest.mark.slow
def test_chirps_jointly_predict_swing_ups(shared: Path) -> None:
    """Free prediction of the pendulum in swing-ups that the fit never saw, against a simulation with datasheet values and no friction."""
    result = chirps(shared, *CHIRPS)
    check_furuta(result)
    arm, rod = ARM * RADIUS**2 / 3, MASS * ROD**2 / 12
    inertias = {"body.arm.inertia.zz": arm, "body.arm.inertia.xx": arm, "body.pendulum.inertia.xx": rod, "body.pendulum.inertia.yy": rod}
    sheet = furuta().replace(inertias | {"joint.arm.damping": 0.0, "joint.arm.stiffness": 0.0, "joint.pendulum.damping": 0.0})
    better = []
    for k in range(0, 20, 2):
        run = qube(shared, f"r{k:02d}").cut(end=2.0)
        measured = run["joint.pendulum.angle"]
        start = {c: run[c].values[0] for c in run.channels}
        plain = cb.simulate(sheet, 2.0, 0.002, start, {d.channel: d.signal for d in run.drives})
        rms = float(np.sqrt(np.mean((np.interp(measured.times, plain.time, plain["joint.pendulum.angle"]) - measured.values) ** 2)))
        better.append(rms / result.predict(run, 0.2)["joint.pendulum.angle"].rms)
    assert (np.array(better) > 2.0).sum() >= 5, better
