"""A page on what to record next: error bars to be expected, what is played, and how it stays within its limits. No plotly: curves are drawn once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibody import __version__
from calibody.experiment import atomic
from calibody.mechanics import channels
from calibody.report.numbers import percent, plain
from calibody.report.page import environment, text_of

if TYPE_CHECKING:
    from calibody.estimate.designs.design import Design
    from calibody.steppers.motion import Motion

WIDTH, HEIGHT, MARGIN = 760, 110, 8
POINTS = 600
"""Of a curve, at most."""
CURVES = 60
"""Drawn, the first ones."""
NEAR = 1.0
"""Of a limit that is drawn: how far beyond the curve at most, in units of its height; one farther away would flatten it."""


@dataclass(frozen=True)
class Curve:
    channel: str
    unit: str
    svg: str
    low: str
    high: str
    """Of its lower and upper edge."""


def write(found: Design, folder: Path) -> Path:
    """`design.html` beside the files of a design; gives its path."""
    return atomic.write_text(folder / "design.html", page(found))


def page(found: Design) -> str:
    """The whole page as text."""
    before = {} if found.before is None else {path: e.sd for path, e in found.before.parameters.items()}
    rows = [(path, e, before.get(path), found.recorded.get(path)) for path, e in found.forecast.parameters.items()]
    shown = [*found.excited, *(path for path in found.limits if path not in found.excited)]
    return (
        environment()
        .get_template("design.html")
        .render(
            title=found.motion.model.name,
            found=found,
            rows=rows,
            has_before=bool(before),
            has_recorded=bool(found.recorded),
            curves=[c for path in shown[:CURVES] if (c := _curve(found, path)) is not None],
            plain=plain,
            percent=percent,
            version=__version__,
            style=text_of("style.css"),
            scripts=[text_of("theme.js")],
        )
    )


def _curve(found: Design, path: str) -> Curve | None:
    motion: Motion = found.motion
    if path.startswith("contact."):
        return None
    t, x = (found.times, found.excited[path]) if path in found.excited else (motion.time, motion[path])
    kept = np.unique(np.linspace(0, len(t) - 1, min(POINTS, len(t))).round().astype(int))
    least, most = float(x.min()), float(x.max())
    span = (most - least) or 1.0
    limits = [v for v in found.limits.get(path, ())[:2] if least - NEAR * span <= v <= most + NEAR * span]
    low, high = min([least, *limits]), max([most, *limits])

    def y(v: float) -> float:
        return round(float(HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (v - low) / ((high - low) or 1.0)), 1)

    line = " ".join(f"{WIDTH * a / t[-1]:.1f},{y(b)}" for a, b in zip(t[kept], x[kept], strict=True))
    bounds = "".join(f'<line class="axis" x1="0" x2="{WIDTH}" y1="{y(v)}" y2="{y(v)}" stroke-dasharray="4 4"/>' for v in limits)
    label = f"{path}: {least:.4g} to {most:.4g}"
    svg = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{label}">{bounds}'
        f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="1.2" vector-effect="non-scaling-stroke"/></svg>'
    )
    return Curve(path, channels.resolve(motion.model, path).unit, svg, plain(low, 3), plain(high, 3))
