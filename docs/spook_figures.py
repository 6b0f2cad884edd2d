"""Draws the figures of spook.md: `python docs/spook_figures.py` simulates for about a minute and writes docs/figures/spook-*.svg.

The drawing is a few lines of SVG of our own, so that the documentation needs no plotting library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import calibody as cb

FOLDER = Path(__file__).parent / "figures"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 70, 150, 20, 45
COLOURS = ("#1b6ca8", "#d1495b", "#3c8d5a", "#8a5a9e")  # told apart in grey, too


@dataclass(frozen=True)
class Curve:
    label: str
    x: np.ndarray
    y: np.ndarray


def ticks(low: float, high: float, logarithmic: bool) -> list[float]:
    if logarithmic:
        return [float(k) for k in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)]
    raw = (high - low) / 5.0
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1.0, 2.0, 5.0, 10.0) if m * unit >= raw)
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def draw(name: str, curves: Sequence[Curve], x_label: str, y_label: str, logarithmic: bool = False) -> None:
    """One diagram with a legend at the right; both axes logarithmic or neither."""
    xs, ys = ([np.log10(v) if logarithmic else v for v in values] for values in ([c.x for c in curves], [c.y for c in curves]))
    x0, x1 = min(x.min() for x in xs), max(x.max() for x in xs)
    y0, y1 = min(y.min() for y in ys), max(y.max() for y in ys)
    y0, y1 = y0 - 0.05 * (y1 - y0), y1 + 0.05 * (y1 - y0)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + wide * (x - x0) / (x1 - x0), TOP + high * (y1 - y) / (y1 - y0)

    def number(v: float) -> str:
        return f"1e{v:.0f}" if logarithmic else f"{v:.4g}"

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">']
    out.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    for t in ticks(x0, x1, logarithmic):
        px, py = at(t, y0)
        out.append(f'<path d="M{px:.1f} {TOP}V{py:.1f}" stroke="#ddd"/><text x="{px:.1f}" y="{py + 16:.1f}" text-anchor="middle">{number(t)}</text>')
    for t in ticks(y0, y1, logarithmic):
        px, py = at(x0, t)
        out.append(f'<path d="M{px:.1f} {py:.1f}H{LEFT + wide}" stroke="#ddd"/><text x="{px - 6:.1f}" y="{py + 4:.1f}" text-anchor="end">{number(t)}</text>')
    for k, (c, x, y) in enumerate(zip(curves, xs, ys, strict=True)):
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in (at(u, v) for u, v in zip(x, y, strict=True)))
        colour = COLOURS[k % len(COLOURS)]
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        if logarithmic:
            out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in (at(u, v) for u, v in zip(x, y, strict=True))]
        legend = TOP + 14 + 18 * k
        out.append(
            f'<path d="M{LEFT + wide + 10} {legend - 4}h18" stroke="{colour}" stroke-width="3"/><text x="{LEFT + wide + 34}" y="{legend}">{c.label}</text>'
        )
    out.append(f'<rect x="{LEFT}" y="{TOP}" width="{wide}" height="{high}" fill="none" stroke="#888"/>')
    out.append(f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 8}" text-anchor="middle">{x_label}</text>')
    out.append(f'<text transform="translate(16 {TOP + high / 2}) rotate(-90)" text-anchor="middle">{y_label}</text></svg>')
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.svg").write_text("\n".join(out) + "\n", encoding="utf-8")


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
    draw("spook-step", curves, "step h [s]", "largest error of the angle [rad]", logarithmic=True)


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
