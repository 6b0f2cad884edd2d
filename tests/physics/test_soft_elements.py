"""Bushings that are not linear, wobbling masses, and friction that depends on the direction: static deflections, energies, momenta, decays and fits."""

from __future__ import annotations

import numpy as np
import pytest
from physics.convergence import order
from scipy.integrate import solve_ivp

import calibody as cb

COORDINATES = pytest.mark.parametrize("coordinates", ["tree", pytest.param("free", marks=pytest.mark.slow)])
LENGTHWAYS = (0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


def times(k: float) -> tuple[float, ...]:
    return tuple(k * x for x in LENGTHWAYS)


def disc(gravity: float, **law: tuple[float, ...]) -> cb.Model:
    """A weight on a bushing along z."""
    damping = tuple(300.0 if i == 14 else 0.0 for i in range(36))
    weight, rail = cb.Body("w", mass=2.0, inertia=(0.1, 0.1, 0.1)), cb.Joint("z", "w", "slide", axis=(0, 0, 1))
    return cb.Model("disc", [weight], [rail], bushings=[cb.Bushing("disc", "world", "w", damping=damping, **law)], world=cb.World(gravity=(0, 0, gravity)))  # type: ignore[arg-type]


@COORDINATES
def test_static_deflections(coordinates: str) -> None:
    """Tension 140 000 N/m, compression 50 000 N/m; and a cubic spring."""
    for gravity, law, wanted in (
        (9.81, {"k_plus": times(140_000.0), "k_minus": times(50_000.0)}, 2.0 * 9.81 / 140_000.0),
        (-9.81, {"k_plus": times(140_000.0), "k_minus": times(50_000.0)}, -2.0 * 9.81 / 50_000.0),
        (-9.81, {"k3": times(1e7)}, -((2.0 * 9.81 / 1e7) ** (1.0 / 3.0))),
    ):
        rest = cb.simulate(disc(gravity, **law), 2.0, 1e-3, coordinates=coordinates)["joint.z.position"][-1]
        assert rest == pytest.approx(wanted, rel=1e-6)


@COORDINATES
def test_a_duffing_oscillator_at_second_order_keeps_its_energy(coordinates: str) -> None:
    model = disc(0.0, k3=times(800.0), k_plus=times(100.0), k_minus=times(40.0)).replace({"bushing.disc.damping.zz": 0.0})

    def rates(_: float, y: np.ndarray) -> list[float]:
        return [y[1], -((100.0 if y[0] > 0 else 40.0) * y[0] + 800.0 * y[0] ** 3) / 2.0]

    # up to where it first passes zero the law is smooth; beyond it has a kink that a fixed step meets anywhere
    exact = solve_ivp(rates, (0.0, 0.15), [0.3, 0.0], "DOP853", rtol=1e-12, atol=1e-12).y[0, -1]
    steps = [5e-3, 2.5e-3, 1.25e-3]
    motions = [cb.simulate(model, 0.15, h, {"joint.z.position": 0.3}, coordinates=coordinates) for h in steps]
    errors = [abs(m["joint.z.position"][-1] - exact) for m in motions]
    assert order(steps, errors) == pytest.approx(2.0, abs=0.05)
    long = cb.simulate(model, 20.0, 5e-3, {"joint.z.position": 0.3}, coordinates=coordinates)
    assert np.ptp(long.energy) < 0.03 * long.energy[0]
    assert abs(np.mean(long.energy[-400:]) - np.mean(long.energy[:400])) < 1e-3 * long.energy[0]


@COORDINATES
def test_a_wobbling_mass_keeps_momenta(coordinates: str) -> None:
    """Soft tissue on a bone that flies: linear and angular momentum of both stay, energy goes."""
    bodies = [cb.Body("bone", mass=3.0, inertia=(0.05, 0.05, 0.02)), cb.Body("tissue", mass=2.0, com=(0, 0, 0.02), inertia=(0.02, 0.03, 0.02))]
    damping = tuple(15.0 if i == j < 3 else 0.05 if i == j else 0.0 for i in range(6) for j in range(6))
    bushing = cb.Bushing("tissue", "bone", "tissue", k3=(1e6, 1e6, 1e6, 300.0, 300.0, 300.0), damping=damping)
    joints = [cb.Joint(name, body, "free") for name, body in (("a", "bone"), ("b", "tissue"))]
    model = cb.Model("wobbling", bodies, joints, bushings=[bushing], world=cb.World(gravity=(0, 0, 0)))
    motion = cb.simulate(model, 0.5, 1e-3, {"joint.a.rate": (0, 0, 1.0, 2.0, 0, 0), "joint.b.position": (0.01, 0, 0)}, coordinates=coordinates)
    momentum = np.diff(3.0 * motion["body.bone.com"] + 2.0 * motion["body.tissue.com"], axis=0) / motion.h
    np.testing.assert_allclose(momentum, np.tile(momentum[0], (len(momentum), 1)), atol=1e-9)
    assert motion.energy[-1] < 0.9 * motion.energy[0]


@COORDINATES
def test_friction_of_either_direction(coordinates: str) -> None:
    """A block that slides and stops: `v^2/(2 a)` with the friction of its direction; and one that is damped goes `m v/b` of its direction."""
    rail = cb.Joint("x", "b", "slide", axis=(1, 0, 0), friction=3.0, friction_skew=1.0)
    model = cb.Model("block", [cb.Body("b", mass=2.0, inertia=(0.1, 0.1, 0.1))], [rail])
    for sign, force in ((1.0, 4.0), (-1.0, 2.0)):
        motion = cb.simulate(model, 2.0, 1e-3, {"joint.x.rate": 2.0 * sign}, coordinates=coordinates)
        assert motion["joint.x.position"][-1] == pytest.approx(sign * 2.0 * 4.0 / (2.0 * force), rel=2e-3)
    damped = model.replace({"joint.x.friction_skew": 0.0, "joint.x.friction": 0.0, "joint.x.damping": 5.0, "joint.x.damping_skew": -2.0})
    for sign, damping in ((1.0, 3.0), (-1.0, 7.0)):
        motion = cb.simulate(damped, 8.0, 1e-3, {"joint.x.rate": sign}, coordinates=coordinates)
        assert motion["joint.x.position"][-1] == pytest.approx(sign * 2.0 / damping, rel=2e-3)


def test_friction_of_either_direction_comes_back() -> None:
    arm = cb.Body("arm", mass=0.5, com=(0, 0, -0.2), inertia=(0.01, 0.01, 0.002))
    hinge = cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.03, damping_skew=0.01, friction=0.05, friction_skew=-0.02)
    model, t = cb.Model("arm", [arm], [hinge], actuators=[cb.Actuator("motor", "hinge")]), np.arange(0.0, 4.0, 0.01)
    torque = cb.Signal(t, 0.8 * np.sin(2.5 * t) + 0.3 * np.sin(6.0 * t))
    motion = cb.simulate(model, 3.99, 1e-3, drive={"actuator.motor": torque})
    seen = motion["joint.hinge.angle"][::10] + 1e-3 * np.random.default_rng(2).normal(size=400)
    run = cb.Recording("run", (cb.Observation("joint.hinge.angle", motion.time[::10], seen, 1e-3),), (cb.Drive("actuator.motor", torque),))
    names = ("damping", "damping_skew", "friction", "friction_skew")
    result = cb.fit(
        model.replace({f"joint.hinge.{n}": 0.0 for n in names}, check=False),
        run,
        {f"joint.hinge.{n}": cb.Unknown(v) for n, v in zip(names, (0.1, 0.0, 0.1, 0.0), strict=True)},
    )
    assert result.converged
    for n in names:
        found = result.parameters[f"joint.hinge.{n}"]
        assert found.sd is not None and abs(found.value - model[f"joint.hinge.{n}"]) < 3.5 * np.hypot(found.sd, found.discretisation_error or 0.0), n


def test_sentences() -> None:
    for sentence, joint in (("more than its friction", cb.Joint), ("only hinges and slides have a direction", cb.Joint)):
        with pytest.raises(cb.ModelError, match=sentence):
            joint("h", "b", "ball", friction=1.0, friction_skew=0.1) if "direction" in sentence else joint("h", "b", friction=0.1, friction_skew=0.2)
    model = cb.Model("m", [cb.Body("b", mass=1.0, inertia=(0.1, 0.1, 0.1))], [cb.Joint("h", "b", friction=0.2, friction_skew=0.1)])
    with pytest.raises(cb.SimulationError, match="depends on the direction"):
        cb.simulate(model, 0.1, 0.01, stepper="spook")
    with pytest.raises(cb.FormatError, match="friction_skew has no place"):
        model.save("/tmp/never.xml")
