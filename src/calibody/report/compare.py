"""Two fits side by side, in one file: what each is worth, how far their parameters are apart, and what each makes of the same recordings.

Parameters that both determine are compared by `z = (b - a)/sqrt(sd_a^2 + sd_b^2)`, as if the two were independent. Fits of the same data are not: their difference is then smaller by chance than this allows, and a z of 3 means
more than it seems.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.errors import CalibodyError
from calibody.experiment import atomic
from calibody.experiment.saved import Saved, open as open_folder
from calibody.report.figures import FEWEST_SAMPLES, MOST_SAMPLES, RUNS, SAMPLES, packed, thinned
from calibody.report.numbers import plain, quantity
from calibody.report.page import environment, facts, json_text, plotly, text_of
from calibody.report.parameters import COVER
from calibody.report.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from calibody.estimate.result import Estimate

NAME = "compare.html"
MARK = '<meta name="generator" content="calibody'
"""What a page of ours has in its head."""
APART = 3.0
"""z from which two values are said to differ."""
WIDTH, HEIGHT, MARGIN = 220, 34, 10


@dataclass(frozen=True)
class Row:
    name: str
    unit: str
    first: str
    second: str
    z: str
    apart: bool
    svg: str


def compare(first: str | Path, second: str | Path, out: str | Path | None = None) -> Path:
    """Write the page (into the second folder, if nothing else is said); gives its path."""
    a, b = open_folder(first), open_folder(second)
    for found in (a, b):
        if not found.finished:
            raise CalibodyError(f'The fit in "{found.folder}" is unfinished; go on with calibody fit --resume before it is compared.')
    if not set(a.parameters) & set(b.parameters) and not set(a.document["fit"]) & set(b.document["fit"]):
        raise CalibodyError(f'The fits in "{a.folder}" and "{b.folder}" have neither a parameter nor a channel in common; give two fits of one mechanism.')
    target = b.folder / NAME if out is None else Path(out)
    if out is not None and target.exists() and MARK not in target.read_text(encoding="utf-8", errors="replace")[:2000]:
        raise CalibodyError(f'"{target}" exists and is no page of calibody; give another name to --out.')
    return atomic.write_text(target, page(a, b))


def page(a: Saved, b: Saved) -> str:
    """The whole page as text."""
    names = [str(a.folder), str(b.folder)] if a.folder.name == b.folder.name else [a.folder.name, b.folder.name]
    rows = parameter_rows(a, b)
    data = {"names": names, "channels": channels(a, b)}
    return (
        environment()
        .get_template("compare.html")
        .render(
            names=names,
            title=(b.document["model"] or {}).get("name") or names[1],
            verdicts=[verdict(a), verdict(b)],
            facts=_facts(a, b),
            rows=rows,
            apart=[r.name for r in rows if r.apart],
            residuals=_residuals(a, b),
            same=_same_data(a, b),
            version=b.document["versions"]["calibody"],
            plain=plain,
            data=json_text(data),
            style=text_of("style.css"),
            scripts=[text_of("theme.js"), text_of("compare.js")],
            plotly=plotly(),
        )
    )


def _facts(a: Saved, b: Saved) -> list[tuple[str, str, str]]:
    ours, theirs = dict(facts(a)), dict(facts(b))
    return [(name, ours.get(name, "–"), theirs.get(name, "–")) for name in dict.fromkeys([*ours, *theirs])]


def _same_data(a: Saved, b: Saved) -> bool:
    return {h for h in a.document["data_sha256"].values() if h} == {h for h in b.document["data_sha256"].values() if h}


def parameter_rows(a: Saved, b: Saved) -> list[Row]:
    """All parameters of either, those of both first."""
    names = sorted(dict.fromkeys([*a.parameters, *b.parameters]), key=lambda n: (n not in a.parameters) + (n not in b.parameters))
    return [_row(name, a.parameters.get(name), b.parameters.get(name)) for name in names]


def _row(name: str, a: Estimate | None, b: Estimate | None) -> Row:
    some = a or b
    assert some is not None
    z = math.nan
    if a is not None and b is not None and a.sd and b.sd:
        z = (b.value - a.value) / math.hypot(a.sd, b.sd)
    said = "" if math.isnan(z) else f"{z:+.1f}".replace("-", "−")
    return Row(name, some.unit, _value(a), _value(b), said, abs(z) > APART, _bars(a, b))


def _value(e: Estimate | None) -> str:
    return "–" if e is None else quantity(e.value, e.sd) + ("" if e.sd is not None else " (no error bar)")


def _bars(a: Estimate | None, b: Estimate | None) -> str:
    """Both values with their 95 % intervals on one scale."""
    both = [(e, 0.0 if e.sd is None else COVER * e.sd, y, kind) for e, y, kind in ((a, 11, "estimate"), (b, 23, "second")) if e is not None]
    low, high = min(e.value - bar for e, bar, _, _ in both), max(e.value + bar for e, bar, _, _ in both)
    span = high - low or abs(high) or 1.0
    low, high = low - 0.06 * span, high + 0.06 * span
    parts = [f'<line class="axis" x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="17" y2="17"/>']
    for e, bar, y, kind in both:
        left, middle, right = (round(MARGIN + (WIDTH - 2 * MARGIN) * (x - low) / (high - low), 1) for x in (e.value - bar, e.value, e.value + bar))
        if bar:
            parts.append(f'<path class="interval {kind}-bar" d="M{left} {y}H{right}M{left} {y - 4}V{y + 4}M{right} {y - 4}V{y + 4}"/>')
        parts.append(f'<circle class="{kind if e.sd is not None else "open"}" cx="{middle}" cy="{y}" r="4"/>')
    label = ", ".join(f"{e.value:.6g}" for e, _, _, _ in both)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _residuals(a: Saved, b: Saved) -> list[dict[str, Any]]:
    """By channel: rms and rms over noise of either."""
    out = []
    for name in dict.fromkeys([*a.document["fit"], *b.document["fit"]]):
        one, two = a.document["fit"].get(name), b.document["fit"].get(name)
        out.append({"channel": name, "unit": (one or two)["unit"], "first": one or {}, "second": two or {}})
    return out


def channels(a: Saved, b: Saved) -> list[dict[str, Any]]:
    """Of every run and channel that both have: what was measured, and both fits."""
    ours, theirs = (found.channels.partition_by("run", "channel", as_dict=True, maintain_order=True) for found in (a, b))
    both = [key for key in ours if key in theirs and key[0] in list(dict.fromkeys(run for run, _ in ours))[:RUNS]]
    most = int(np.clip(SAMPLES // max(1, len(both)), FEWEST_SAMPLES, MOST_SAMPLES))
    return [_channel(key, ours[key], theirs[key], a, most) for key in both]


def _channel(key: Any, ours: Any, theirs: Any, found: Saved, most: int) -> dict[str, Any]:
    start = float(min(ours["time"].min(), theirs["time"].min()))
    out: dict[str, Any] = {
        "run": key[0],
        "channel": key[1],
        "unit": found.document["fit"][key[1]]["unit"],
        "sd": found.document["fit"][key[1]]["runs"][key[0]]["sd"],
    }
    for name, rows in (("first", ours), ("second", theirs)):
        kept = thinned(rows["residual"].to_numpy(), most)
        columns: Mapping[str, np.ndarray] = {c: rows[c].to_numpy()[kept].astype(float) for c in ("time", "measured", "fitted", "residual")}
        out[name] = {"time": packed(columns["time"] - start), **{c: packed(columns[c]) for c in ("measured", "fitted", "residual")}}
    return out
