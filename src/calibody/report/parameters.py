"""The table of parameters, each with a row of the forest plot drawn as SVG (it prints, and needs no script)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibody.report.numbers import percent, plain, quantity

if TYPE_CHECKING:
    from calibody.estimate.identifiability import Determined
    from calibody.estimate.result import Estimate
    from calibody.experiment.saved import Saved

WIDTH, HEIGHT, MARGIN = 200, 26, 10
COVER = 1.96
"""Standard deviations of a 95 % interval."""
BOUND_VIEW = 3.0
"""A bound is drawn if it is no further away than this many times the span of the rest."""


TIGHT, MOST_PAIRS = 0.95, 6
"""Correlation from which a pair is named, and how many are."""


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


@dataclass(frozen=True)
class Combination:
    expression: str
    value: str
    unit: str
    truth: str
    score: str


def combinations(found: Saved) -> list[Combination]:
    """What is determined although its parts are not, with its unit and, where a demo knows its parts, the truth."""
    truth = found.document.get("truth") or {}
    out = []
    for d in found.determined:
        true = _true(d, truth)
        score = "" if true is None or not d.sd > 0.0 else f"{(d.value - true) / d.sd:+.1f}".replace("-", "−")
        out.append(Combination(d.expression, quantity(d.value, d.sd), _unit(d, found), "" if true is None else plain(true, 5), score))
    return out


def _unit(d: Determined, found: Saved) -> str:
    """Of a sum that of its first term, which has no coefficient; of a ratio the two units."""
    if d.terms:
        return _unit_of(d.terms[0][0], found)
    above, below = (_unit_of(name, found) for name in d.expression.split(" / ")) if d.expression.count(" / ") == 1 else ("", "")
    return "" if above == below else f"({above or '1'})/({below or '1'})"


def _unit_of(name: str, found: Saved) -> str:
    linear = {".moment.": "kg m", ".origin.": "kg m^2"}  # what the equations are linear in (estimate/inertial.py)
    return found.parameters[name].unit if name in found.parameters else next((unit for word, unit in linear.items() if word in name), "")


def _true(d: Determined, truth: Mapping[str, float]) -> float | None:
    names = [name for name, _ in d.terms] or d.expression.split(" / ")
    if not all(name in truth for name in names):
        return None
    return sum(c * truth[name] for name, c in d.terms) if d.terms else truth[names[0]] / truth[names[1]]


def tight(found: Saved) -> list[str]:
    """Pairs of parameters that the data hardly tell apart, in words, the closest first."""
    names, r = list(found.parameters), found.correlation
    pairs = [(abs(r[i, j]), i, j) for i in range(len(names)) for j in range(i) if abs(r[i, j]) > TIGHT]
    out = []
    for _, i, j in sorted(pairs, reverse=True)[:MOST_PAIRS]:
        sees = (
            "their sum (each in its own scale): one up, the other down" if r[i, j] < 0.0 else "their difference (each in its own scale): both up or both down"
        )
        out.append(
            f"{names[j]} and {names[i]} are correlated by {r[i, j]:.3f}".replace("-", "−") + f": the data see little more than {sees} changes almost nothing."
        )
    if len(pairs) > MOST_PAIRS:
        out.append(f"{len(pairs) - MOST_PAIRS} more pairs beyond ±{TIGHT:g}.")
    return out


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
