"""The table of parameters, each with a row of the forest plot drawn as SVG (it prints, and needs no script)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibody.report.numbers import percent, plain, quantity

if TYPE_CHECKING:
    from calibody.estimate.result import Estimate
    from calibody.experiment.saved import Saved

WIDTH, HEIGHT, MARGIN = 200, 26, 10
COVER = 1.96
"""Standard deviations of a 95 % interval."""
BOUND_VIEW = 3.0
"""A bound is drawn if it is no further away than this many times the span of the rest."""


@dataclass(frozen=True)
class Row:
    name: str
    unit: str
    value: str
    relative: str
    initial: str
    bounds: str
    naive: str
    discretisation: str
    truth: str
    score: str
    remark: str
    svg: str


def rows(found: Saved) -> list[Row]:
    truth = found.document.get("truth") or {}
    return [_row(name, e, truth.get(name), found.converged) for name, e in found.parameters.items()]


def _row(name: str, e: Estimate, truth: float | None, converged: bool) -> Row:
    remark = "" if e.sd is not None or not converged else e.bounded.replace("<=", "≤").replace(">=", "≥") if e.at_bound else "not determined"
    lower, upper = plain(e.lower, 3), plain(e.upper, 3)
    return Row(
        name=name,
        unit=e.unit,
        value=quantity(e.value, e.sd),
        relative="" if e.sd is None or e.value == 0.0 else percent(e.sd / e.value),
        initial=plain(e.initial),
        bounds="" if math.isinf(e.lower) and math.isinf(e.upper) else f"{lower} … {upper}",
        naive="" if e.sd_naive is None or e.sd is None or abs(e.sd_naive / e.sd - 1.0) < 0.01 else plain(e.sd_naive, 2),
        discretisation="" if e.discretisation_error is None or e.sd is None else plain(e.discretisation_error, 2),
        truth="" if truth is None else plain(truth, 5),
        score="" if truth is None or e.sd is None else f"{(e.value - truth) / e.sd:+.1f}".replace("-", "−"),
        remark=remark,
        svg=forest(e, truth),
    )


def forest(e: Estimate, truth: float | None) -> str:
    """One row: bounds, initial value, estimate with its 95 % interval (and the truth, where a demo knows it)."""
    bar = COVER * e.sd if e.sd is not None and math.isfinite(e.sd) else 0.0
    marks = [e.initial, e.value - bar, e.value + bar, *([] if truth is None else [truth])]
    low, high = min(marks), max(marks)
    span = high - low or abs(e.value) or 1.0
    shown = [b for b in (e.lower, e.upper) if math.isfinite(b) and low - BOUND_VIEW * span <= b <= high + BOUND_VIEW * span]
    low, high = min([low, *shown]), max([high, *shown])
    span = high - low or abs(e.value) or 1.0
    low, high = low - 0.04 * span, high + 0.04 * span

    def x(value: float) -> float:
        return round(MARGIN + (WIDTH - 2 * MARGIN) * (value - low) / (high - low), 1)

    y = HEIGHT / 2
    parts = [f'<line class="axis" x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y}" y2="{y}"/>']
    for b in shown:
        inner = 4 if b == e.lower else -4
        parts.append(f'<path class="bound" d="M{x(b) + inner} {y - 8}H{x(b)}V{y + 8}H{x(b) + inner}"/>')
    parts.append(f'<path class="moved" d="M{x(e.initial)} {y}H{x(e.value)}"/>')
    parts.append(f'<circle class="initial" cx="{x(e.initial)}" cy="{y}" r="4"/>')
    if bar:
        a, b = x(e.value - bar), x(e.value + bar)
        parts.append(f'<path class="interval" d="M{a} {y}H{b}M{a} {y - 4}V{y + 4}M{b} {y - 4}V{y + 4}"/>')
    parts.append(f'<circle class="{"estimate" if e.sd is not None else "open"}" cx="{x(e.value)}" cy="{y}" r="4.5"/>')
    if truth is not None:
        t = x(truth)
        parts.append(f'<path class="truth" d="M{t} {y - 11}l4 -0l-4 6l-4 -6z"/>')
    label = f"initial {e.initial:.6g}, estimate {e.value:.6g}"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
