"""Diagrams of the documentation: a few lines of SVG of our own, so that it needs no plotting library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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
        each = math.ceil((high - low) / 8.0)
        return [float(k) for k in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1) if k % each == 0]
    raw = (high - low) / 5.0
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1.0, 2.0, 5.0, 10.0) if m * unit >= raw)
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def draw(name: str, curves: Sequence[Curve], x_label: str, y_label: str, log: str = "") -> None:
    """One diagram with a legend at the right; `log` names the axes that are logarithmic."""
    xs = [np.log10(c.x) if "x" in log else np.asarray(c.x, dtype=float) for c in curves]
    ys = [np.log10(c.y) if "y" in log else np.asarray(c.y, dtype=float) for c in curves]
    x0, x1 = min(x.min() for x in xs), max(x.max() for x in xs)
    y0, y1 = min(y.min() for y in ys), max(y.max() for y in ys)
    room = max(0.05 * (y1 - y0), 1e-12 + 1e-3 * abs(y1))
    y0, y1 = y0 - room, y1 + room
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + wide * (x - x0) / (x1 - x0), TOP + high * (y1 - y) / (y1 - y0)

    def number(v: float, logarithmic: bool) -> str:
        return f"1e{v:.0f}" if logarithmic else f"{v:.4g}"

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">']
    out.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    for t in ticks(x0, x1, "x" in log):
        px, py = at(t, y0)
        out.append(
            f'<path d="M{px:.1f} {TOP}V{py:.1f}" stroke="#ddd"/><text x="{px:.1f}" y="{py + 16:.1f}" text-anchor="middle">{number(t, "x" in log)}</text>'
        )
    for t in ticks(y0, y1, "y" in log):
        px, py = at(x0, t)
        out.append(
            f'<path d="M{px:.1f} {py:.1f}H{LEFT + wide}" stroke="#ddd"/><text x="{px - 6:.1f}" y="{py + 4:.1f}" text-anchor="end">{number(t, "y" in log)}</text>'
        )
    for k, (c, x, y) in enumerate(zip(curves, xs, ys, strict=True)):
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in (at(u, v) for u, v in zip(x, y, strict=True)))
        colour = COLOURS[k % len(COLOURS)]
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        if log:
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
