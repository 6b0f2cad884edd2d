"""The figure of the README: what goes in and what comes out, from the Furuta demo as it is fitted today.

python docs/readme_figure.py            # fits the demo into a temporary folder and writes figures/readme.svg
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from diagram import COLOURS, FOLDER

import calibody as cb
from calibody.estimate.result import Estimate
from calibody.report.numbers import quantity

DEMO, CHANNEL, SECONDS = "furuta", "joint.hinge.angle", 4.0
WIDTH, ROW, TOP = 960, 21, 58
CURVE, LIST = (52, 372), 420
"""Pixels: from where to where the recording is drawn, and where the list begins."""
BAND = (LIST + 300, 3.0)
"""The middle of the column of errors, and how many error bars it shows to either side."""
GREY, BLUE, RED = "#667", COLOURS[0], COLOURS[1]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "calibody", "demo", DEMO, "--out", folder, "--quiet"], check=True)
        found = cb.open(Path(folder) / f"{DEMO}-fit")
        (FOLDER / "readme.svg").write_text(drawn(found), encoding="utf-8")


def drawn(found: cb.Saved) -> str:
    rows = sorted(found.parameters.items(), key=lambda item: item[1].sd is None)
    height = TOP + ROW * len(rows) + 16
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" fill="#223">']
    out.append(f'<rect width="{WIDTH}" height="{height}" rx="8" fill="white"/>')
    out += recording(found, height)
    out += headings()
    for i, (path, e) in enumerate(rows):
        out += parameter(TOP + ROW * i + 14, path, e, found.document["truth"][path])
    return "\n".join([*out, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, anchor: str = "start", colour: str = "#223", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{words}</text>'


def recording(found: cb.Saved, height: float) -> list[str]:
    """The first seconds of one channel: samples, and the fitted motion through them."""
    rows = found.channels
    rows = rows.filter((rows["channel"] == CHANNEL) & (rows["time"] < SECONDS))
    t, measured, fitted = (rows[name].to_numpy() for name in ("time", "measured", "fitted"))
    low, high, bottom = float(measured.min()), float(measured.max()), height - 40
    x = CURVE[0] + (CURVE[1] - CURVE[0]) * t / SECONDS
    span = (bottom - TOP) / (high - low)
    out = [text(CURVE[0], 24, "a recording", size=15), text(CURVE[0], 42, f"{CHANNEL} [rad]: measured, and fitted", colour=GREY)]
    for v in np.arange(np.ceil(low), np.floor(high) + 1.0):
        y = bottom - span * (v - low)
        out += [f'<path d="M{CURVE[0]} {y:.1f}H{CURVE[1]}" stroke="#e3e6ea"/>', text(CURVE[0] - 8, y + 4, f"{v:.0f}", "end", GREY)]
    out += [text(CURVE[0] + (CURVE[1] - CURVE[0]) * s / SECONDS, bottom + 20, f"{s} s", "middle", GREY) for s in range(int(SECONDS) + 1)]
    points = " ".join(f"{a:.1f},{bottom - span * (b - low):.1f}" for a, b in zip(x, fitted, strict=True))
    out.append(f'<polyline points="{points}" fill="none" stroke="{BLUE}" stroke-width="1.6"/>')
    return out + [f'<circle cx="{a:.1f}" cy="{bottom - span * (b - low):.1f}" r="1.7" fill="{RED}"/>' for a, b in zip(x[::3], measured[::3], strict=True)]


def headings() -> list[str]:
    middle, _ = BAND
    out = [text(LIST, 24, "a calibrated model", size=15), text(LIST, 42, "parameter", colour=GREY), text(LIST + 222, 42, "guess", "end", GREY)]
    out += [text(middle, 42, "estimate - truth, in error bars", "middle", GREY, 10), text(WIDTH - 24, 42, "estimate", "end", GREY)]
    return [*out, f'<path d="M{LIST} {TOP - 8}H{WIDTH - 24}" stroke="#ccd"/>']


def parameter(y: float, path: str, e: Estimate, truth: float) -> list[str]:
    """One row: its name, what it was guessed to be, the estimate's 95 % interval about the truth, and the number."""
    middle, most = BAND
    out = [text(LIST, y, path, colour=GREY if e.sd is None else "#223")]
    out.append(text(LIST + 222, y, f"{e.initial / truth:.2g} x" if e.initial else "0", "end", GREY))
    if e.sd is None:
        return [*out, text(WIDTH - 24, y, "the data cannot tell", "end", GREY)]
    unit = 52.0 / most
    z = (e.value - truth) / e.sd
    out.append(f'<path d="M{middle} {y - 14:.1f}v{ROW}" stroke="#223"/>')
    out.append(f'<path d="M{middle + unit * (z - 1.96):.1f} {y - 4:.1f}h{2 * 1.96 * unit:.1f}" stroke="{BLUE}" stroke-width="2"/>')
    out.append(f'<circle cx="{middle + unit * z:.1f}" cy="{y - 4:.1f}" r="3.6" fill="{BLUE}"/>')
    return [*out, text(WIDTH - 24, y, quantity(e.value, e.sd), "end")]


if __name__ == "__main__":
    main()
