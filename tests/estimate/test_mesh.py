"""The first mesh and the first motion, steps of inertias, and the seven-joint arm."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import calibody as cb
from calibody.estimate.inertial import Inertia
from calibody.estimate.level import discretisation, second_order
from calibody.estimate.mesh import first_step
from calibody.estimate.nodes import Noise
from calibody.estimate.run import Run
from calibody.estimate.start import first_motion
from calibody.mechanics.structure import Numbers, Structure

ARM = Path(__file__).parents[2] / "benchmarks" / "arm.py"


def hinge() -> cb.Model:
    return cb.Model("m", bodies=[cb.Body("a", mass=1.2, com=(0.1, 0.02, -0.25), inertia=(0.03, 0.04, 0.05))], joints=[cb.Joint("h", "a", axis=(0, 1, 0))])


def recording(frequency: float, period: float, seconds: float = 10.0, sd: float = 1e-3) -> cb.Recording:
    t = np.arange(0.0, seconds, period)
    y = np.sin(2 * np.pi * frequency * t) + sd * np.random.default_rng(0).normal(size=len(t))
    return cb.Recording("r", (cb.Observation("joint.h.angle", t, y, sd),))


def noise() -> Noise:
    return Noise({"joint.h.angle": 1e-3}, frozenset(), {})


@pytest.mark.parametrize(
    ("frequency", "period", "seconds", "h"),
    [
        (1.0, 1e-3, 10.0, 8e-3),  # ten nodes per period of 10 Hz, in powers of two of the sampling period
        (15.0, 1e-3, 10.0, 2e-3),  # a low-pass leaves no more than the noise from 40 Hz on
        (1.0, 1e-2, 10.0, 1e-2),  # a coarser mesh would have fewer than a thousand nodes
        (1.0, 1e-3, 2.5, 2e-3),
    ],
)
def test_the_first_mesh_follows_the_motion(frequency: float, period: float, seconds: float, h: float) -> None:
    assert first_step([recording(frequency, period, seconds)], [noise()]) == pytest.approx(h)


def test_the_first_motion_follows_what_is_faster_than_its_cutoff() -> None:
    model = hinge()
    structure = Structure.build(model, "tree")
    run = Run.of(structure, recording(5.0, 1e-3), 2e-3, noise())
    _, found = first_motion(run, model, Numbers.of(structure), {})
    error = found.q[0] - np.sin(2 * np.pi * 5.0 * run.times)
    assert np.sqrt(np.mean(error**2)) < 0.6e-3  # 10 Hz would leave 40e-3


def test_inertias_go_straight_where_they_can() -> None:
    group = Inertia.of(hinge(), "a")
    rng = np.random.default_rng(0)
    phi = 0.2 * rng.normal(size=10)
    J = group.jacobian(phi, linear=True)
    d = 0.05 * rng.normal(size=10)
    assert group.linear(group.moved(phi, d)) == pytest.approx(group.linear(phi) + J @ d, abs=1e-9)
    far = np.array([-3.0, *np.zeros(9)])  # a straight line would leave what is possible
    assert group.moved(phi, far) == pytest.approx(phi + far)


@pytest.mark.slow
def test_a_seven_joint_arm() -> None:
    spec = importlib.util.spec_from_file_location("arm", ARM)
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    built = bench.arm()
    if built is None:
        pytest.skip("pybullet's data are not installed")
    model, joints, friction = built
    guess, unknowns = bench.guessed(model, joints, friction)
    result = cb.fit(guess, bench.recorded(model, joints, 10.0), unknowns, h=8e-3)
    assert result.converged, result.status
    for path, true in friction.items():
        assert result.parameters[path].value == pytest.approx(true, rel=0.05), path
    assert len(result.determined) > 5 and all(d.terms for d in result.determined)


def test_the_error_of_a_mesh_is_not_small_by_chance() -> None:
    """Of theta_h = 1 + c h^2 it is exact; where changes are erratic, a small last one does not count alone."""
    c = np.array([3.0, -1.0, 0.2])
    smooth = [1.0 + c * h**2 for h in (0.4, 0.2, 0.1)]
    assert second_order(smooth)
    assert np.allclose(discretisation(smooth, True), np.abs(c) * 0.1**2)  # type: ignore[arg-type]
    erratic = [np.array([0.0, 0.0, 0.0]), np.array([4.0, 2.0, -2.0]), np.array([4.1, 0.5, -1.5])]  # the last one's shrank by four
    assert not second_order(erratic)
    assert np.allclose(discretisation(erratic, False), [2.0, 1.5, 1.0])  # type: ignore[arg-type]
    assert discretisation(erratic[:1], False) is None


def test_unknowns_outside_the_equations_of_motion_converge() -> None:
    """A bias and a marker's place: the equations hold exactly, and their size is not that of what the parameters contribute, which is nothing."""
    model = cb.Model(
        "swing",
        [cb.Body("bob", mass=1.0, com=(0.0, 0.0, -1.0))],
        [cb.Joint("pivot", "bob", axis=(0.0, 1.0, 0.0))],
        sites=[cb.Site("tip", "bob", (0.0, 0.0, -1.0))],
    )
    times = np.arange(0.0, 4.0, 0.02)
    angle = 0.1 * np.cos(np.sqrt(9.81) * times)
    noise = 1e-3 * np.random.default_rng(0).normal(size=(2, len(times)))
    seen = (
        cb.Observation("joint.pivot.angle", times, angle + 0.05 + noise[0], 1e-3),
        cb.Observation("site.tip.position.x", times, -1.2 * np.sin(angle) + noise[1], 1e-3),
    )
    result = cb.fit(model, cb.Recording("run", seen), {"joint.pivot.angle.bias": 0.0, "site.tip.position.z": -1.0}, h=0.02)
    assert result.status == "converged" and result.iterations < 10
    for path, true in (("joint.pivot.angle.bias", 0.05), ("site.tip.position.z", -1.2)):
        found = result.parameters[path]
        assert found.sd is not None and abs(found.value - true) < 4.0 * found.sd


def test_a_given_mesh_says_what_half_of_its_step_would_change() -> None:
    """One Gauss-Newton step on the finer mesh foresees the fit there; it is said from 0.3 standard deviations on."""
    times = np.arange(0.0, 3.005, 0.01)
    arm = cb.Body("arm", mass=0.4, com=(0, 0, -0.3), inertia=(0.012, 0.012, 0.0004))
    model = cb.Model("pendulum", [arm], [cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.02, friction=0.03)], actuators=[cb.Actuator("motor", "hinge")])
    torque = cb.Signal(times, 0.8 * np.sin(4 * times) + 0.4 * np.sin(9 * times), hold="linear")
    angle = cb.simulate(model, 3.0, 1e-3, drive={"actuator.motor": torque})["joint.hinge.angle"][::10] + 0.02 * np.random.default_rng(1).normal(size=len(times))
    run = cb.Recording("swing", (cb.Observation("joint.hinge.angle", times, angle, sd=0.02),), (cb.Drive("actuator.motor", torque),))
    guesses = {"body.arm.mass": 0.6, "body.arm.inertia.yy": 0.02, "joint.hinge.damping": 0.03, "joint.hinge.friction": 0.02}
    for noise, h, said in (("none", 0.02, True), ("none", 0.0025, False), (0.02, 0.02, True)):
        coarse, fine = (cb.fit(model, run, guesses, h=step, process_noise=noise) for step in (h, 0.5 * h))
        assert coarse.converged and fine.converged and any("mesh of half the step" in n for n in coarse.notes) is said
        for path, e in coarse.parameters.items():
            moved = abs(fine.parameters[path].value - e.value)
            assert e.discretisation_error is not None and e.sd is not None and abs(e.discretisation_error - moved) < 0.1 * moved + 0.03 * e.sd


def rubbed(times: np.ndarray, frequency: float, offset: float, start: float) -> np.ndarray:
    """Exact motion of a mass on a spring with dry friction, from rest: half periods of a cosine about +-offset = friction over stiffness."""
    out, place = np.empty_like(times), start
    for k in range(int(times[-1] * 2.0 * frequency) + 1):
        side = offset * np.sign(place)
        here = (times >= 0.5 * k / frequency) & (times <= 0.5 * (k + 1) / frequency)
        out[here] = side + (place - side) * np.cos(2.0 * np.pi * frequency * times[here] - np.pi * k)
        place = 2.0 * side - place
    return out


def test_dry_friction_is_of_second_order_in_the_step() -> None:
    """Where a joint turns round within an interval, friction has the impulse of its exact law: halving h divides the error of its limit by four."""
    mass, frequency, offset = 2.0, 1.0, 0.02
    stiffness = mass * (2.0 * np.pi * frequency) ** 2
    times = np.arange(0.0, 4.0001, 0.01)
    slide = cb.Joint("rail", "cart", kind="slide", axis=(1, 0, 0), stiffness=stiffness, friction=0.5)
    model = cb.Model("cart", [cb.Body("cart", mass=mass)], [slide])
    y = rubbed(times, frequency, offset, 1.0) + 1e-5 * np.random.default_rng(0).normal(size=len(times))
    run = cb.Recording("r", (cb.Observation("joint.rail.position", times, y, 1e-5),))
    errors = []
    for h in (0.04, 0.02, 0.01):
        found = cb.fit(model, run, {"joint.rail.friction": 0.5, "joint.rail.stiffness": 1.3 * stiffness}, h=h)
        assert found.converged
        errors.append(found.parameters["joint.rail.friction"].value / (stiffness * offset) - 1.0)
    assert abs(errors[-1]) < 1e-3
    assert all(3.0 < a / b < 5.5 for a, b in pairwise(errors)), errors
