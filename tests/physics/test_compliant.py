"""Compliant contact: static deflection, energy, momentum, rolling, order, coordinates, refusals; and fits through it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibody as cb

GRAVITY, MASS, RADIUS = 9.81, 0.5, 0.05
INERTIA = 2e-4


def ball(**law: Any) -> cb.Model:
    """A ball over the ground."""
    soft = {"law": "compliant", "stiffness": 2e4, "damping": 0.2, "friction": 0.3, "friction_rate": 0.05} | law
    return cb.Model(
        bodies=[cb.Body("ball", mass=MASS, inertia=(INERTIA,) * 3)],
        joints=[cb.Joint("free", "ball", "free")],
        geometries=[cb.Geometry("skin", "ball", "sphere", (RADIUS,))],
        contacts=[cb.Contact("floor", "skin", **soft)],
    )


def falling(height: float, *rate: float) -> dict[str, Any]:
    return {"joint.free.position": (0, 0, RADIUS + height), "joint.free.rate": rate or (0.0,) * 6}


@pytest.mark.parametrize(("law", "deflection"), [
    ({"exponent": 1.5}, (MASS * GRAVITY / 2e4) ** (2 / 3)),
    ({"exponent": 2.0, "stiffness": 2e6, "depth": 1e-3}, None),
    ({"exponent": 2.0, "stiffness": 2e5, "depth": 0.05}, None),
])  # fmt: skip
def test_static_deflection(law: dict[str, float], deflection: float | None) -> None:
    """A ball comes to rest where its weight is carried: by Hertz's law, and by the sphere of radius r0 that is pressed in, `a0 (p^2 - p^3/(3 r0))` and `a0 r0 (p - r0/3)` beyond r0."""
    motion = cb.simulate(ball(**law, damping=20.0), 1.5, h=1e-3, initial=falling(0.002))
    if deflection is None:
        a0, r0 = law["stiffness"], law["depth"]
        inside = [p.real for p in np.roots([-a0 / (3 * r0), a0, 0.0, -MASS * GRAVITY]) if abs(p.imag) < 1e-12 and 0 < p.real < r0]
        deflection = inside[0] if inside else MASS * GRAVITY / (a0 * r0) + r0 / 3
        assert bool(inside) == (r0 != 1e-3)
    assert motion["contact.floor.gap"][-1] == pytest.approx(-float(deflection), rel=1e-6)
    assert motion["contact.floor.force"][-1] == pytest.approx((0.0, 0.0, MASS * GRAVITY), rel=1e-6)
    assert motion["contact.floor.force.normal"][-1] == pytest.approx(MASS * GRAVITY, rel=1e-6)


@pytest.mark.slow
def test_a_box_stands_on_its_corners() -> None:
    """Four of its eight places carry a quarter of the weight each."""
    soft: dict[str, Any] = {"law": "compliant", "stiffness": 1e4, "damping": 20.0}
    model = cb.Model(
        bodies=[cb.Body("box", mass=2.0, inertia=(0.02, 0.02, 0.02))], joints=[cb.Joint("free", "box", "free")],
        geometries=[cb.Geometry("hull", "box", "box", (0.1, 0.1, 0.05))], contacts=[cb.Contact("floor", "hull", radius=0.01, **soft)],
    )  # fmt: skip
    motion = cb.simulate(model, 1.0, h=1e-3, initial={"joint.free.position": (0, 0, 0.05)})
    assert motion["contact.floor.gap"][-1] == pytest.approx(-((2.0 * GRAVITY / 4 / 1e4) ** (2 / 3)), rel=1e-5)
    assert motion["contact.floor.force"][-1, 2] == pytest.approx(2.0 * GRAVITY, rel=1e-6)


def test_energy_is_kept_to_second_order_without_damping_and_falls_with_it() -> None:
    errors = [float(np.ptp(cb.simulate(ball(damping=0.0, friction=0.0), 0.6, h=h, initial=falling(0.05)).energy)) for h in (2e-3, 1e-3, 5e-4)]
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.15)
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.3)
    energy = cb.simulate(ball(), 1.5, h=5e-4, initial=falling(0.05, 1.0, 0, 0, 0, 0, 0)).energy
    assert energy[-1] < energy[0] - 0.05
    assert np.diff(energy[::40]).max() < 2e-4 * energy[0]


def test_restitution_of_slow_impacts() -> None:
    """Of Hunt and Crossley's damping: 1 - 2/3 d u."""
    motion = cb.simulate(ball(damping=0.05, stiffness=2e7), 0.006, h=5e-6, initial=falling(1e-4, 0, 0, -1.0, 0, 0, 0))
    rate = motion["joint.free.rate"][:, 2]
    assert -rate.max() / rate.min() == pytest.approx(1.0 - 2.0 / 3.0 * 0.05, abs=3e-3)


def test_of_second_order() -> None:
    start, exact = falling(0.01, 0.5, 0.1, 0, 0, 3.0, 0), None
    ends = [cb.simulate(ball(), 0.2, h=h, initial=start)["joint.free.position"][-1] for h in (2e-3, 1e-3, 5e-4, 2.5e-4, 3.125e-5)]
    exact = ends.pop()
    errors = [float(np.linalg.norm(end - exact)) for end in ends]
    assert np.log2(errors[0] / errors[-1]) / 3 == pytest.approx(2.0, abs=0.3), errors


def test_a_sliding_ball_comes_to_roll() -> None:
    """Without rolling friction the speed at which it rolls in the end is known: the moment about the place of contact is kept."""
    motion = cb.simulate(ball(stiffness=1e5, damping=5.0, friction_rate=1e-3), 1.5, h=1e-3, initial=falling(-5e-4, 1.0, 0, 0, 0, 0, 0))
    rate = motion["joint.free.rate"][-1]
    rolling = 1.0 / (1.0 + INERTIA / (MASS * RADIUS**2))
    assert rate[0] == pytest.approx(rolling, rel=1e-4)
    assert rate[4] == pytest.approx(rate[0] / RADIUS, rel=1e-6)
    assert motion["contact.floor.slip"][0] == pytest.approx(1.0, rel=5e-3)
    assert motion["contact.floor.slip"][-1] < 1e-4


@pytest.mark.parametrize("shape", ["sphere", pytest.param("box", marks=pytest.mark.slow), pytest.param("capsule", marks=pytest.mark.slow)])
def test_momentum_is_kept_exactly(shape: str) -> None:
    """Two bodies that strike obliquely in free space, with friction."""
    size = {"sphere": (0.05,), "box": (0.06, 0.05, 0.04), "capsule": (0.05, 0.05)}[shape]
    model = cb.Model(
        bodies=[cb.Body("a", mass=0.5, inertia=(2e-4, 3e-4, 2.5e-4), com=(0.01, 0, 0)), cb.Body("b", mass=0.8, inertia=(4e-4, 3e-4, 5e-4))],
        joints=[cb.Joint("fa", "a", "free"), cb.Joint("fb", "b", "free")],
        geometries=[cb.Geometry("one", "a", "sphere", (0.05,)), cb.Geometry("two", "b", shape, size)],
        contacts=[cb.Contact("meet", "one", "two", law="compliant", stiffness=5e4, damping=0.5, friction=0.5, friction_rate=0.01)],
        world=cb.World(gravity=(0.0, 0.0, 0.0)),
    )  # fmt: skip
    start = {"joint.fa.position": (-0.15, 0.03, 0.02), "joint.fa.rate": (1.0, 0, 0, 5.0, 0, 3.0), "joint.fb.rate": (-0.2, 0, 0.1, 0, 2.0, 0)}
    motion = cb.simulate(model, 0.3, h=5e-4, initial=start)
    assert motion["contact.meet.force.normal"].max() > 1.0
    p, L = linear_and_angular(motion, model)
    assert np.abs(p - p[0]).max() < 1e-11
    assert np.abs(L - L[0]).max() < 1e-11


def test_both_coordinates_agree() -> None:
    start = falling(0.005, 0.5, 0.1, 0, 0, 3.0, 0)
    tree, free = (cb.simulate(ball(), 0.3, h=1e-3, initial=start, coordinates=c)["body.ball.position"] for c in ("tree", "free"))
    assert np.abs(free - tree).max() < 1e-9


def linear_and_angular(motion: Any, model: cb.Model) -> tuple[np.ndarray, np.ndarray]:
    """Discrete momentum of bodies in space: of `V E = (H_R - H_L) E/h`, which the scheme keeps."""
    p = L = np.zeros(3)
    for body in model.bodies:
        H = motion.frames.H[:, :, motion.structure.body_link[body.name], :-1]
        c, J = np.array(body.com), np.diag(body.inertia[:3])
        first = body.mass * c
        second = 0.5 * np.trace(J) * np.eye(3) - J + body.mass * np.outer(c, c)
        E = np.block([[second, first[:, None]], [first[None], np.array([[body.mass]])]])
        V = np.diff(H, axis=2) / motion.h
        Y = np.einsum("iak,ab->ibk", V, E)
        p = p + Y[:, 3].T
        M = np.einsum("iak,jak->ijk", H[..., :-1], Y)
        L = L + np.stack([M[1, 2] - M[2, 1], M[2, 0] - M[0, 2], M[0, 1] - M[1, 0]], axis=1)
    return p, L


def test_accelerations_have_it() -> None:
    """Forward and inverse dynamics at one instant."""
    q, v = np.array([0, 0, RADIUS - 1e-3, 1, 0, 0, 0]), np.zeros(6)
    a = cb.forward_dynamics(ball(), q, v)
    assert a[2] == pytest.approx(2e4 * 1e-3**1.5 / MASS - GRAVITY, rel=1e-9)
    assert np.abs(cb.inverse_dynamics(ball(), q, v, a)).max() < 1e-9


@pytest.mark.parametrize(("change", "words"), [
    ({"law": "newton"}, "contact.floor.stiffness is 20000, but its law"),
    ({"restitution": 0.5}, "restitution"),
    ({"exponent": 1.0}, "above 1"),
    ({"friction_rate": 0.0}, "speed above zero"),
    ({"law": "soft"}, "one of newton, poisson, compliant"),
])  # fmt: skip
def test_refusals(change: dict[str, Any], words: str) -> None:
    with pytest.raises(cb.ModelError, match=words):
        ball(**change)


def test_shapes_whose_places_come_and_go_are_refused() -> None:
    with pytest.raises(cb.ModelError, match="come and go"):
        cb.Model(
            bodies=[cb.Body("c", mass=1.0)], joints=[cb.Joint("f", "c", "free")],
            geometries=[cb.Geometry("can", "c", "cylinder", (0.1, 0.1))], contacts=[cb.Contact("floor", "can", law="compliant", stiffness=1.0)],
        )  # fmt: skip


def test_other_methods_say_that_they_do_not_know_it() -> None:
    with pytest.raises(cb.SimulationError, match='is compliant, which stepper="spook" does not know; use stepper="variational"'):
        cb.simulate(ball(), 0.1, h=1e-3, initial=falling(0.01), stepper="spook")
    kept = cb.simulate(ball(), 0.2, h=1e-3, initial=falling(0.001), contacts=False)
    assert kept["contact.floor.gap"].min() > -0.01  # it is a force, and acts all the same


# -- fits ------------------------------------------------------------------------------------------------------------------------------


def seat(**numbers: float) -> cb.Model:
    """A mass that sits on a cushion of a slide which a drive shakes: on from time to time only."""
    cushion: dict[str, Any] = {"law": "compliant", "exponent": 2.0, "depth": 0.02, "stiffness": 4e5, "damping": 1.0, "friction": 0.0} | numbers
    return cb.Model(
        bodies=[cb.Body("chair", mass=5.0), cb.Body("man", mass=2.0)],
        joints=[cb.Joint("lift", "chair", "slide", stiffness=2e4, damping=60.0), cb.Joint("up", "man", "slide")],
        sites=[cb.Site("bottom", "man")],
        geometries=[cb.Geometry("cushion", "chair", "plane", (1.0, 1.0))],
        contacts=[cb.Contact("sits", "bottom", "cushion", **cushion)],
    )


def ride(h: float = 1e-3, sd: float = 2e-5, force_noise: float = 0.0) -> tuple[cb.Model, cb.Recording]:
    rng, model = np.random.default_rng(3), seat()
    t = np.arange(0, 1.5 + 0.5 * h, h)
    push = 250.0 * np.sin(2 * np.pi * 9.0 * t) + 120.0 * np.sin(2 * np.pi * 4.1 * t + 1.0)
    drive = {"joint.lift.force": cb.Signal(t, push, "linear")}
    noisy = {"joint.lift.force": cb.Signal(t, push + force_noise * rng.standard_normal(len(t)), "linear")}
    motion = cb.simulate(model, 1.5, h=h, initial={"joint.up.position": -0.002}, drive=noisy)
    seen = [
        cb.Observation(f"joint.{j}.position", motion.time[::2], motion[f"joint.{j}.position"][::2] + sd * rng.standard_normal(len(motion.time[::2])), sd)
        for j in ("lift", "up")
    ]
    assert (motion["contact.sits.force.normal"] == 0.0).any()
    return model, cb.Recording("ride", tuple(seen), (cb.Drive("joint.lift.force", drive["joint.lift.force"]),))


WRONG = {"contact.sits.stiffness": 7e5, "contact.sits.damping": 0.4, "contact.sits.depth": 0.015, "joint.lift.damping": 90.0}
TRUE = {"contact.sits.stiffness": 4e5, "contact.sits.damping": 1.0, "contact.sits.depth": 0.02, "joint.lift.damping": 60.0}


@pytest.mark.parametrize("how", [{}, {"method": "shooting"}, pytest.param({"process_noise": "auto"}, marks=pytest.mark.slow)])
def test_calibrated(how: dict[str, Any]) -> None:
    """By transcription, without and with unmodelled forces, and by shooting: no events, no other machinery."""
    noise = 2.0 if "process_noise" in how else 0.0
    model, recording = ride(force_noise=noise)
    result = cb.fit(model, recording, WRONG, h=1e-3, **how)
    assert result.converged, result
    for path, true in TRUE.items():
        estimate = result.parameters[path]
        assert estimate.sd is not None
        assert abs(estimate.value - true) <= 3.5 * estimate.sd < 0.7 * true, (path, result)


def test_unknowns_that_a_contact_does_not_have_are_refused() -> None:
    model, recording = ride()
    for path, words in (("contact.sits.restitution", "has no restitution"), ("contact.sits.radius", "stands for none")):
        with pytest.raises(cb.CalibodyError, match=words):
            cb.fit(model, recording, {path: 0.01}, h=1e-3)
    rigid = replace(model, contacts=(cb.Contact("sits", "bottom", "cushion"),))
    with pytest.raises(cb.CalibodyError, match="is rigid and has no stiffness"):
        cb.fit(rigid, recording, {"contact.sits.stiffness": 1.0}, h=1e-3)
