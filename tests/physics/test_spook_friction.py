"""Dry friction as a complementarity problem: it sticks exactly, slides at its limit, and stops when it should."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import DOWN_Z, FURUTA_START, furuta
from scipy.integrate import quad

import calibody as cb

G = 9.81
J = 0.03
"""Inertia of the rotor about its axis [kg m^2]."""


def incline(angle: float, mu: float) -> cb.Model:
    """A block on a plane that falls by `angle` towards +x."""
    block = cb.Body("block", mass=2.0, inertia=(0.01, 0.02, 0.03))
    plane = cb.Joint("plane", "block", "slide", axis=(math.cos(angle), 0.0, -math.sin(angle)), load_friction=mu)
    return cb.Model("incline", [block], [plane], world=DOWN_Z)


def rotor(kind: str = "hinge", **law: Any) -> cb.Model:
    """2 kg that turn about (or slide along) the vertical or horizontal axis of a joint at their centre of mass."""
    axis = (1.0, 0.0, 0.0) if kind == "slide" else (0.0, 0.0, 1.0)
    return cb.Model("rotor", [cb.Body("rotor", mass=2.0, inertia=(0.01, 0.02, J))], [cb.Joint("pin", "rotor", kind, axis=axis, **law)], world=DOWN_Z)


def rates(motion: cb.Motion) -> np.ndarray:
    """Of every step (about z for a ball)."""
    joint = motion.model.joints[0]
    s = motion[f"joint.{joint.name}.{'position' if joint.kind == 'slide' else 'angle'}"]
    return np.diff(s if s.ndim == 1 else s[:, 2]) / motion.h


def stopping_time(motion: cb.Motion) -> float:
    return motion.h * (int(np.flatnonzero(np.abs(rates(motion)) > 1e-6)[-1]) + 1)


@pytest.mark.parametrize("h", [1e-3, 1e-2])
@pytest.mark.parametrize("below", [0.1, 0.9, 0.999])
def test_a_block_sticks_below_the_friction_angle(below: float, h: float) -> None:
    """With S_t = 0 it does not move at all; otherwise it creeps at exactly S_t h f."""
    mu = 0.5
    angle = math.atan(below * mu)
    exact = cb.simulate(incline(angle, mu), 1.0, h, stepper=cb.Spook(slip=0.0))
    assert np.abs(exact["joint.plane.position"]).max() < 1e-12
    creeping = cb.simulate(incline(angle, mu), 1.0, h, stepper=cb.Spook(slip=1e-4))
    np.testing.assert_allclose(rates(creeping)[10:], 1e-4 * h * 2.0 * G * math.sin(angle), rtol=1e-6)


@pytest.mark.parametrize("h", [1e-3, 1e-2])
@pytest.mark.parametrize("above", [1.001, 1.1, 3.0])
def test_a_block_slides_above_the_friction_angle(above: float, h: float) -> None:
    mu = 0.5
    angle = math.atan(above * mu)
    motion = cb.simulate(incline(angle, mu), 1.0, h, stepper="spook")
    acceleration = np.diff(rates(motion)) / h
    np.testing.assert_allclose(acceleration[round(0.2 / h) :], G * (math.sin(angle) - mu * math.cos(angle)), rtol=1e-6, atol=1e-8)


def test_a_block_thrown_uphill_stops_and_stays_or_comes_back() -> None:
    up = -2.0
    for mu, stays in ((0.5, True), (0.2, False)):
        angle = math.radians(20.0)
        motion = cb.simulate(incline(angle, mu), 1.0, 1e-3, {"joint.plane.rate": up}, stepper="spook")
        stop = -up / (G * (math.sin(angle) + mu * math.cos(angle)))
        k = round(stop / 1e-3)
        assert motion["joint.plane.position"].min() == pytest.approx(0.5 * up * stop, rel=5e-3)
        assert rates(motion)[k - 5] < 0.0
        after = rates(motion)[-1]
        assert abs(after) < 1e-7 if stays else after == pytest.approx(G * (math.sin(angle) - mu * math.cos(angle)) * (1.0 - stop), rel=1e-2)


W0 = 5.0
LAWS = {
    "constant": ("hinge", {"friction": 0.05}, J * W0 / 0.05),
    "with viscous friction": ("hinge", {"friction": 0.05, "damping": 0.02}, J / 0.02 * math.log(1.0 + 0.02 * W0 / 0.05)),
    "with a shaft": ("hinge", {"friction": 0.05, "armature": 0.01}, (J + 0.01) * W0 / 0.05),
    "by load": ("hinge", {"load_friction": 0.1, "friction_radius": 0.02}, J * W0 / (0.1 * 0.02 * 2.0 * G)),
    "both": ("hinge", {"friction": 0.02, "load_friction": 0.1, "friction_radius": 0.02}, J * W0 / (0.02 + 0.1 * 0.02 * 2.0 * G)),
    "slide": ("slide", {"load_friction": 0.2}, W0 / (0.2 * G)),
    "slide, constant": ("slide", {"friction": 3.0}, 2.0 * W0 / 3.0),
    "ball": ("ball", {"load_friction": 0.1, "friction_radius": 0.02}, J * W0 / (0.1 * 0.02 * 2.0 * G)),
    "ball, constant": ("ball", {"friction": 0.05}, J * W0 / 0.05),
    "Stribeck": (
        "hinge", {"friction": 0.04, "stribeck": 0.06, "stribeck_rate": 1.5}, quad(lambda w: J / (0.04 + 0.06 * math.exp(-((w / 1.5) ** 2))), 0.0, W0)[0],
    ),
    "Stribeck by load": (
        "hinge", {"load_friction": 0.1, "load_stribeck": 0.2, "stribeck_rate": 1.5, "friction_radius": 0.02},
        quad(lambda w: J / (0.02 * 2.0 * G * (0.1 + 0.2 * math.exp(-((w / 1.5) ** 2)))), 0.0, W0)[0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
def test_a_joint_stops_in_the_analytic_time(name: str) -> None:
    """To within two steps (first order), and then stands."""
    kind, law, expected = LAWS[name]
    for h in (4e-3, 1e-3):
        start = (0.0, 0.0, W0) if kind == "ball" else W0
        n = math.ceil(expected * 1.3 / h)
        motion = cb.simulate(rotor(kind, **law), n * h, h, {"joint.pin.rate": start}, stepper="spook")
        assert stopping_time(motion) == pytest.approx(expected, abs=2.0 * h + 1e-4 * expected)
        assert np.abs(rates(motion)[-20:]).max() < 1e-9


def test_friction_of_a_hinge_takes_the_whole_load() -> None:
    """Appendix F: an overhung weight loads a hinge by r m g + m g l; a torque just below mu times that does not turn it, one just above does."""
    m, l, r, mu = 2.0, 0.3, 0.05, 0.2
    joint = cb.Joint("pin", "arm", load_friction=mu, friction_radius=r)
    model = cb.Model("overhung", [cb.Body("arm", mass=m, com=(l, 0.0, 0.0), inertia=(0.01, 0.02, 0.03))], [joint], world=DOWN_Z)
    limit = mu * (r * m * G + m * G * l)
    inertia = 0.03 + m * l * l
    below, above = (cb.simulate(model, 0.2, 1e-3, drive={"joint.pin.force": x * limit}, stepper="spook")["joint.pin.angle"] for x in (0.99, 1.05))
    assert np.abs(below).max() < 1e-8
    assert above[20] == pytest.approx(0.5 * 0.05 * limit / inertia * 0.02**2, rel=0.1)


def test_a_slide_takes_moments_over_its_length() -> None:
    """A drawer pushed at its centre, its weight off the guide by e: the guide carries m g and the moment m g e over its length."""
    m, e, length, mu = 1.0, 0.2, 0.1, 0.3
    joint = cb.Joint("guide", "drawer", "slide", axis=(1.0, 0.0, 0.0), load_friction=mu, friction_radius=length)
    model = cb.Model("drawer", [cb.Body("drawer", mass=m, com=(0.0, e, 0.0), inertia=(0.01, 0.01, 0.01))], [joint], world=DOWN_Z)
    limit = mu * (m * G + m * G * e / length)
    below, above = (cb.simulate(model, 0.2, 1e-3, drive={"joint.guide.force": x * limit}, stepper="spook")["joint.guide.position"] for x in (0.99, 1.3))
    assert np.abs(below).max() < 1e-7
    assert above[-1] > 1e-3


def test_stiff_joints_cost_nothing() -> None:
    """Doubled rows become dependent as the compliance vanishes; the motion does not notice."""
    angle = math.radians(40.0)
    ends = [cb.simulate(incline(angle, 0.5), 0.2, 1e-3, stepper=cb.Spook(eps, eps))["joint.plane.position"][-1] for eps in (1e-12, 1e-16, 1e-30)]
    np.testing.assert_allclose(ends, ends[0], rtol=1e-8)


def test_friction_without_load_is_no_friction() -> None:
    weightless = rotor(load_friction=0.5).replace({"world.gravity": (0.0, 0.0, 0.0)})
    motion = cb.simulate(weightless, 0.5, 1e-3, {"joint.pin.rate": W0}, stepper="spook")
    assert motion["joint.pin.rate"][-1] == pytest.approx(W0, rel=1e-9)


def test_constant_friction_is_that_of_the_variational_stepper() -> None:
    """The same model in both: one regularises the sign of the rate, the other solves for it."""
    model = furuta(friction=2e-3)
    start = {**FURUTA_START, "joint.hinge2.angle": 2.0}
    paths = ("joint.hinge1.angle", "joint.hinge2.angle")
    smooth = cb.simulate(model, 2.0, 1e-3, start, stepper=cb.Variational(friction_rate=1e-4))
    errors = []
    for h in (4e-4, 1e-4):
        exact = cb.simulate(model, 2.0, h, start, stepper=cb.Spook(1e-10, 1e-10))
        errors.append(max(float(np.abs(exact[p][:: round(2e-3 / h)] - smooth[p][::2]).max()) for p in paths))
    assert errors[1] < 0.4 * errors[0] < 0.1


@pytest.mark.parametrize("name", ["by load", "both", "ball", "slide", "Stribeck by load"])
def test_inverse_dynamics_explains_its_own_motion(name: str) -> None:
    """Nothing is left over but rounding: positions known to 1e-16, differenced twice and divided by the regularisation."""
    kind, law, expected = LAWS[name]
    stepper, h = cb.Spook(compliance=1e-6, angular_compliance=1e-6, slip=1e-2), 2e-3
    motion = cb.simulate(
        rotor(kind, **law), math.ceil(1.2 * expected / h) * h, h, {"joint.pin.rate": (0.0, 0.3, W0) if kind == "ball" else W0}, stepper=stepper
    )
    forces = stepper.inverse_dynamics(motion)
    assert forces.bodies == ("rotor",) and set(forces.friction_joints) == {"pin"}
    assert np.abs(forces.unexplained).max() < 1e-6
    np.testing.assert_allclose(forces.reactions, motion.multipliers[:, 1:-1], atol=1e-5)


def test_inverse_dynamics_finds_a_force_that_the_model_does_not_know() -> None:
    """The motor's torque, left out of what inverse dynamics is told, comes back as the unexplained torque on the two bodies it acts between."""
    model = furuta(load_friction=0.02, friction_radius=0.01).replace({"joint.hinge1.armature": 0.0})
    stepper = cb.Spook(compliance=1e-6, angular_compliance=1e-6, slip=1.0)
    motion = cb.simulate(model, 0.5, 1e-3, FURUTA_START, {"actuator.motor": lambda t: 2.0 * math.sin(20.0 * t)}, stepper)
    known = stepper.inverse_dynamics(motion)
    assert np.abs(known.unexplained).max() < 1e-5
    from dataclasses import replace

    blind = stepper.inverse_dynamics(replace(motion, control=0.0 * motion.control))
    assert blind.bodies == ("arm", "rod")
    torque = 0.1 * motion.control[0, 1:]
    np.testing.assert_allclose(blind.unexplained[0, 5], torque, atol=1e-4)  # about the arm's own axis, which is vertical
    np.testing.assert_allclose(blind.unexplained[1], 0.0, atol=1e-5)


BAD = [
    (lambda: cb.Spook(compliance=-1.0), ["compliance=-1.0", "not negative"]),
    (lambda: cb.Spook(relaxation=math.nan), ["relaxation=nan", "finite"]),
    (lambda: cb.Spook(slip="a"), ["slip='a'"]),  # type: ignore[arg-type]
    (lambda: cb.Spook(angular_compliance=0.0), ["angular_compliance=0.0", "1e-12"]),
    (lambda: cb.simulate(rotor(), 1.0, 0.01, stepper="spook", coordinates="tree"), ["'tree'", '"free"']),
    (lambda: cb.simulate(rotor(), 1.0, 0.01, {"joint.pin.rate": 300.0}, stepper="spook"), ["t = 0 s", "joint.pin", "0.01 s", "0.0025 s"]),
    (lambda: cb.simulate(rotor(stiffness=1e6), 1.0, 0.01, {"joint.pin.angle": 0.1}, stepper="spook"), ["At t = ", "joint.pin", "springs are explicit"]),
    (lambda: cb.simulate(rotor(load_friction=0.1), 1.0, 0.01, coordinates="tree"), ["joint.pin.load_friction", 'coordinates = "free"']),
    (lambda: cb.inverse_dynamics(rotor(load_friction=0.1)), ["joint.pin.load_friction", "set it to zero"]),
    (lambda: cb.Spook().inverse_dynamics(cb.simulate(rotor(), 0.1, 0.01)), ["pose of every body", 'coordinates="free"']),
    (lambda: cb.Spook(slip=0.0).inverse_dynamics(cb.simulate(rotor(friction=1.0), 0.1, 0.01, coordinates="free")), ["slip=0.0", "joint.pin"]),
    (lambda: cb.Joint("j", "b", load_friction=-0.1), ["joint.j.load_friction", "not be negative"]),
    (lambda: cb.Joint("j", "b", friction_radius=0.0), ["joint.j.friction_radius", "above zero"]),
    (lambda: cb.Joint("j", "b", "ball", load_stribeck=0.1), ["joint.j", "Stribeck"]),
    (lambda: cb.Joint("j", "b", "free", load_friction=0.1), ["joint.j", "no load"]),
]


@pytest.mark.parametrize(("action", "words"), BAD)
def test_what_cannot_be_done_is_said_in_a_sentence(action: Any, words: list[str]) -> None:
    with pytest.raises(cb.CalibodyError) as caught:
        action()
    text = str(caught.value)
    assert all(w in text for w in words), text
    assert "nan" not in text.replace("relaxation=nan", "") and text.count("\n") == 0


def test_a_body_without_mass_or_inertia_is_refused() -> None:
    point = cb.Body("bob", mass=1.0, com=(1.0, 0.0, 0.0))
    with pytest.raises(cb.SimulationError, match=r"body\.bob has no inertia about one of its axes.*variational"):
        cb.simulate(cb.Model("m", [point], [cb.Joint("pivot", "bob")]), 1.0, 0.01, stepper="spook")
    solid = cb.Body("block", mass=1.0, inertia=(1.0, 1.0, 1.0))
    with pytest.raises(cb.SimulationError, match=r"body\.block has several joints.*variational"):
        cb.simulate(cb.Model("m", [solid], [cb.Joint("a", "block"), cb.Joint("b", "block", "slide")]), 1.0, 0.01, stepper="spook")
    empty = cb.Body("link", mass=0.0)
    with pytest.raises(cb.SimulationError, match=r"body\.link has no mass.*variational"):
        cb.simulate(
            cb.Model("m", [empty, cb.Body("end", "link", mass=1.0, inertia=(1.0, 1.0, 1.0))], [cb.Joint("a", "link"), cb.Joint("b", "end", axis=(1.0, 0.0, 0.0))]),
            1.0, 0.01, stepper="spook",
        )  # fmt: skip


def test_a_step_without_solution_names_time_and_joint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Friction problems always have a solution, so the solver is made to give up: after one pivot (in a program that nobody else may find)."""
    from calibody.complementarity import lcp
    from calibody.mechanics import compilation

    monkeypatch.setenv("CALIBODY_CACHE", str(tmp_path))
    compilation.forget()
    monkeypatch.setattr(lcp, "LEAST_PIVOTS", 1)
    monkeypatch.setattr(lcp, "PIVOTS_PER_ROW", 0)
    with pytest.raises(cb.SimulationError) as caught:
        cb.simulate(rotor(load_friction=0.1), 1.0, 0.01, {"joint.pin.rate": W0}, stepper="spook")
    assert "At t = 0 s the dry friction of joint.pin cannot be resolved" in str(caught.value)
    compilation.forget()
