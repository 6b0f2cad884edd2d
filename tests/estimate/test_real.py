"""Real recordings: multi-arm pendulums (free swings) and a Furuta pendulum, against distances measured with a ruler and independent fits.

One of each here; all of them, singly and jointly, in `tests/experiment/test_shared.py`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import machines
import numpy as np
import pytest
from machines import ARM, FURUTA, MASS, PIVOTS, RADIUS, ROD_LENGTH, arms, arms_unknown, furuta, qube, swing

import calibody as cb


def pivots(shared: Path, *names: str) -> cb.Result:
    return cb.fit(arms(2), [swing(shared, n) for n in names], arms_unknown(2), process_noise="auto", h=0.005)


@pytest.mark.parametrize("name", ["double_id03", "double_id12"])
def test_distance_of_the_pivots(shared: Path, name: str) -> None:
    e = pivots(shared, name).parameters["joint.two.position.z"]
    assert e.value == pytest.approx(PIVOTS[0], rel=0.005) and e.sd is not None and e.sd < 0.002 * PIVOTS[0]


@pytest.mark.parametrize("name", [f"single_id{k:02d}" for k in range(4)])
def test_single_pendulum(shared: Path, name: str) -> None:
    """`J/(m a)` about the pivot."""
    result = cb.fit(arms(1), swing(shared, name), arms_unknown(1), process_noise="auto", h=0.005)
    length = (result.parameters["body.a.inertia.yy"].value + 0.2 * 0.1**2) / (0.2 * 0.1)
    assert result.converged and length == pytest.approx(0.1531, rel=0.005)


# -- Furuta pendulum ---------------------------------------------------------------------------------------------------------------------

CHIRPS = ("r30", "r31", "r32", "r33", "r34")


@cache
def chirps(folder: Path, *names: str) -> cb.Result:
    return cb.fit(furuta(), [qube(folder, n) for n in names], FURUTA, process_noise="auto", h=0.004)


def check_furuta(result: cb.Result) -> None:
    value = {k: e.value for k, e in result.parameters.items()}
    assert result.converged, result.status
    assert value["radius"] == pytest.approx(RADIUS, rel=0.05)
    assert machines.furuta_reduced(value) == pytest.approx(0.0810, rel=0.015)


def test_a_chirp(shared: Path) -> None:
    check_furuta(chirps(shared, "r30"))


@pytest.mark.slow
def test_chirps_jointly_predict_swing_ups(shared: Path) -> None:
    """Free prediction of the pendulum in swing-ups that the fit never saw, against a simulation with datasheet values and no friction."""
    result = chirps(shared, *CHIRPS)
    check_furuta(result)
    arm, rod = ARM * RADIUS**2 / 3, MASS * ROD_LENGTH**2 / 12
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


# -- direct-drive double pendulum --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_motion_near_resonance_is_not_trusted(shared: Path) -> None:
    """Both joints swing in one mode of one frequency: small forces that go with the motion stand for inertias. The comparison with a fit without them says so, which alone comes close to the authors."""
    result = cb.fit(machines.double_drive(), machines.drive_run(shared, "143339").cut(end=5.0), machines.DOUBLE_DRIVE, process_noise="auto", h=0.02)
    assert result.without_forces is not None and abs(result.without_forces.largest[1]) > 3.0
    assert any(note.startswith("The estimates depend on the unmodelled forces") for note in result.notes)
    for name, value in machines.five(result.without_forces.values).items():
        assert value == pytest.approx(machines.AUTHORS[name], rel=0.15), name
