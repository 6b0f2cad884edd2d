"""Draws the figures of spook.md: `python docs/spook_figures.py` simulates for about a minute and writes docs/figures/spook-*.svg."""

from __future__ import annotations

import numpy as np
from diagram import Curve, draw

import calibody as cb


def weight() -> cb.Model:
    """2 kg hung on a hinge."""
    return cb.Model("weight", [cb.Body("weight", mass=2.0, inertia=(0.1, 0.1, 0.1))], [cb.Joint("pin", "weight")])


def pendulum() -> cb.Model:
    return cb.Model("pendulum", [cb.Body("rod", mass=1.0, com=(0.0, 0.0, -0.5), inertia=(0.1, 0.1, 0.01))], [cb.Joint("pin", "rod", axis=(0.0, 1.0, 0.0))])


def rotor(**law: float) -> cb.Model:
    """2 kg with 0.03 kg m^2 about a vertical axis."""
    return cb.Model("rotor", [cb.Body("rotor", mass=2.0, inertia=(0.01, 0.02, 0.03))], [cb.Joint("pin", "rotor", **law)])


def compliance() -> None:
    curves = []
    for eps in (2e-6, 5e-6, 1e-5):
        motion = cb.simulate(weight(), 0.1, 2e-4, stepper=cb.Spook(compliance=eps, relaxation=0.01))
        curves.append(Curve(f"{eps:g} m/N", motion.time, 1e6 * motion["body.weight.position"][:, 2]))
    draw("spook-compliance", curves, "time [s]", "sag of the pin [µm]")


def relaxation() -> None:
    curves = []
    for tau in (0.0005, 0.005, 0.02, 0.05):
        motion = cb.simulate(weight(), 0.2, 2e-4, stepper=cb.Spook(compliance=1e-5, relaxation=tau))
        curves.append(Curve(f"tau = {tau:g} s", motion.time[::4], 1e6 * motion["body.weight.position"][::4, 2]))
    draw("spook-relaxation", curves, "time [s]", "sag of the pin [µm]")


def step_size() -> None:
    start = {"joint.pin.angle": 2.0}

    def angles(stepper: str | cb.Spook, h: float) -> np.ndarray:
        return cb.simulate(pendulum(), 2.0, h, start, stepper=stepper)["joint.pin.angle"][:: round(1e-2 / h)]

    def error(stepper: str | cb.Spook, h: float) -> float:
        return float(np.abs(angles(stepper, h) - exact).max())

    exact = (4.0 * angles("variational", 2.5e-4) - angles("variational", 5e-4)) / 3.0
    steps = np.array([1e-2, 5e-3, 2e-3, 1e-3, 5e-4])
    curves = [Curve("variational", steps, np.array([error("variational", h) for h in steps]))]
    for eps in (1e-9, 1e-6, 1e-5):
        stepper = cb.Spook(compliance=eps, angular_compliance=eps)
        curves.append(Curve(f"spook, {eps:g} m/N", steps, np.array([error(stepper, h) for h in steps])))
    draw("spook-step", curves, "step h [s]", "largest error of the angle [rad]", log="xy")


def friction() -> None:
    laws = {
        "viscous": {"damping": 0.02},
        "constant": {"friction": 0.05},
        "by load": {"load_friction": 0.1, "friction_radius": 0.02},
        "Stribeck": {"friction": 0.03, "stribeck": 0.06, "stribeck_rate": 1.5},
    }
    curves = []
    for label, law in laws.items():
        motion = cb.simulate(rotor(**law), 5.0, 1e-2, {"joint.pin.rate": 5.0}, stepper="spook")
        curves.append(Curve(label, motion.time[::5], motion["joint.pin.rate"][::5]))
    draw("spook-friction", curves, "time [s]", "rate [rad/s]")


if __name__ == "__main__":
    for figure in (compliance, relaxation, step_size, friction):
        figure()
