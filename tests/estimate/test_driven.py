"""Fits of runs whose drives prescribe motion, push bodies and pull springs: the force of a shaker weighs what it shakes, a noisy force plate stands in for a known force."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.layout import States
from calibody.estimate.problem import Problem
from calibody.estimate.recipe import prepared

COORDINATES = pytest.mark.parametrize("coordinates", ["tree", "free"])


def shaken() -> cb.Model:
    """A pendulum on a sledge."""
    bodies = [cb.Body("sledge", mass=0.8, inertia=(0.01, 0.01, 0.01)), cb.Body("rod", "sledge", mass=0.4, com=(0, 0, -0.25), inertia=(0.004, 0.005, 0.002))]
    joints = [cb.Joint("rail", "sledge", "slide", axis=(1, 0, 0), damping=0.3), cb.Joint("hinge", "rod", axis=(0, 1, 0), damping=0.003)]
    sites = [cb.Site("tip", "rod", (0, 0.02, -0.45)), cb.Site("table", "sledge", (0, 0.1, 0))]
    springs = [cb.Spring("ram", "world", "rod", point1=(0.3, 0, -0.3), point2=(0, 0, -0.2), stiffness=3.0, rest_length=0.2)]
    return cb.Model("shaken", bodies, joints, sites=sites, springs=springs)


def shake(t: np.ndarray | float) -> np.ndarray:
    return 0.05 * np.sin(9.0 * np.asarray(t)) + 0.02 * np.sin(15.0 * np.asarray(t))


def observed(motion: cb.Motion, channels: Sequence[tuple[str, float]], seed: int, every: int = 5) -> list[cb.Observation]:
    random, t = np.random.default_rng(seed), motion.time[::every]
    return [cb.Observation(c, t, motion[c][::every] + sd * random.normal(size=len(t)), sd) for c, sd in channels]


def z(result: cb.Result, truth: cb.Model) -> np.ndarray:
    assert result.converged, result.status
    return np.array([(p.value - truth[name]) / (p.sd or np.nan) for name, p in result.parameters.items()])


TABLE = np.arange(0.0, 2.0 + 1e-9, 2e-3)


@COORDINATES
@pytest.mark.parametrize("site", [False, True])
def test_the_force_of_a_shaker_weighs_what_it_shakes(coordinates: str, site: bool) -> None:
    """Prescribed: the sledge, or a site on it; observed: the angle, and the force that it takes."""
    model, drive = shaken(), "site.table.position.x" if site else "joint.rail.position"
    force = "site.table.applied.x" if site else "joint.rail.force"
    motion = cb.simulate(model, 2.0, 1e-3, {"joint.hinge.angle": 0.3}, {drive: (TABLE, shake(TABLE))})
    run = cb.Recording(
        "shaken", observed(motion, [("joint.hinge.angle", 1e-3), (force, 0.02)], 3), (cb.Drive(drive, cb.Signal(TABLE, shake(TABLE), "linear")),)
    )
    start = {"body.sledge.mass": 2.0, "body.rod.mass": 0.2, "joint.hinge.damping": 0.01, "joint.rail.damping": 0.1}
    result = cb.fit(model, run, start, coordinates=coordinates)
    assert np.abs(z(result, model)).max() < 3.5
    assert (result.parameters["body.sledge.mass"].sd or np.inf) < 0.02
    assert result.motion()[force][100:-100] == pytest.approx(np.interp(result.motion().time, motion.time, motion[force])[100:-100], abs=0.3)


def test_a_motion_that_is_all_prescribed_is_inverse_dynamics() -> None:
    """Nothing but forces is observed."""
    model, slow = shaken(), 0.4 * np.sin(6.0 * TABLE)
    drives = {"joint.rail.position": (TABLE, shake(TABLE)), "joint.hinge.angle": (TABLE, slow)}
    motion = cb.simulate(model, 2.0, 1e-3, drive=drives)
    run = cb.Recording(
        "moved",
        observed(motion, [("joint.rail.force", 0.02), ("joint.hinge.force", 0.005)], 5),
        tuple(cb.Drive(c, cb.Signal(*x, "linear")) for c, x in drives.items()),
    )
    result = cb.fit(model, run, {"body.rod.mass": 1.0, "joint.hinge.damping": 0.0, "body.sledge.mass": 0.3})
    assert np.abs(z(result, model)).max() < 3.5


@COORDINATES
def test_noisy_forces_at_sites_on_bodies_and_of_springs(coordinates: str) -> None:
    """As known as their sd says: masses, the place where one acts, and a stiffness come back, and the derivatives of everything with them are right."""
    model, random, t = shaken(), np.random.default_rng(7), np.arange(0.0, 2.0, 0.01)
    true = {
        "site.tip.force.x": 0.8 * np.sin(4.0 * t), "site.tip.force.own.z": 0.5 * np.cos(11.0 * t), "site.tip.torque.own.y": 0.05 * np.sin(13.0 * t),
        "body.sledge.force.x": 1.5 * np.sin(7.0 * t), "spring.ram.force": 0.6 * np.cos(5.0 * t),
    }  # fmt: skip
    motion = cb.simulate(model, 1.99, 1e-3, {"joint.hinge.angle": 0.3}, {c: (t, y) for c, y in true.items()})
    drives = tuple(cb.Drive(c, cb.Signal(t, y + 0.02 * random.normal(size=len(t))), sd=0.02) for c, y in true.items())
    seen = [("joint.rail.position", 5e-4), ("joint.hinge.angle", 1e-3), ("site.tip.force.x", 0.05)]
    run = cb.Recording("pushed", observed(motion, seen, 11), drives)
    unknowns = {"body.sledge.mass": 1.6, "body.rod.mass": 0.3, "spring.ram.stiffness": 5.0, "site.tip.position.z": -0.3}
    worker, h = prepared(model, [run], unknowns, "none", coordinates, 0.01)
    problem, x = worker.begin(worker.problem(h, worker.noises), theta := np.array([1.6, 0.3, 5.0, -0.3]))
    _check_derivatives(problem, x, theta)
    result = cb.fit(model, run, unknowns, coordinates=coordinates, h=0.005)
    assert np.abs(z(result, model)).max() < 3.5 and 0.7 < result.chi2 / result.dof < 1.3


def _check_derivatives(problem: Problem, x: Sequence[States], theta: np.ndarray) -> None:
    random, run, step = np.random.default_rng(0), problem.runs[0], 1e-6
    lin = problem.linearise(x, theta)
    for block in (*run.layout.blocks, None):
        d, change = np.zeros(run.layout.size), np.zeros(len(theta))
        if block is None:
            change = random.normal(size=len(theta))
        else:
            d[run.layout.place[block.name]] = random.normal(size=block.size)
        ends = [problem.values([run.move(x[0], sign * step * d)], theta + sign * step * change) for sign in (1.0, -1.0)]
        for (high, low), by_states, by_theta in zip(zip(*ends, strict=True), (lin.Fx, lin.Cx), (lin.Ft, lin.Ct), strict=True):
            wanted = by_states @ d + by_theta @ change
            np.testing.assert_allclose(
                (high - low) / (2 * step), wanted, atol=2e-5 * max(1.0, np.abs(wanted).max()), err_msg="theta" if block is None else block.name
            )


def test_sentences() -> None:
    model = shaken()
    motion = cb.simulate(model, 0.5, 1e-3, drive={"joint.rail.position": (TABLE, shake(TABLE))})
    seen, table = observed(motion, [("joint.hinge.angle", 1e-3)], 1), cb.Signal(TABLE, shake(TABLE))
    force, applied = (cb.Observation(c, motion.time, np.zeros(len(motion.time)), 1.0) for c in ("joint.rail.force", "site.table.applied.x"))
    rail = observed(motion, [("joint.rail.position", 1e-3)], 1)
    runs = {
        "and a drive prescribes it": [cb.Recording("r", [*seen, *rail], (cb.Drive("joint.rail.position", table),))],
        "has an sd; leave the sd out": [cb.Recording("r", seen, (cb.Drive("joint.rail.position", table, sd=1e-3),))],
        "prescribe it in all runs": [cb.Recording("r", seen, (cb.Drive("joint.rail.position", table),)), cb.Recording("s", seen)],
        "something else drives it too": [cb.Recording("r", [*seen, force], (cb.Drive("joint.rail.position", table), cb.Drive("joint.rail.force", table)))],
        'prescribe "site.table.position"': [cb.Recording("r", [*seen, applied])],
    }
    for sentence, recordings in runs.items():
        with pytest.raises(cb.CalibodyError, match=sentence):
            cb.fit(model, recordings, {"body.rod.mass": 0.3})
    with pytest.raises(cb.CalibodyError, match='method="shadow" knows drives'):
        cb.fit(model, cb.Recording("r", seen, (cb.Drive("site.tip.force.x", table),)), {"body.rod.mass": 0.3}, method="shadow")
