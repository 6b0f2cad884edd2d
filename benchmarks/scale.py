"""Time per Gauss-Newton iteration against the number of nodes: a driven pendulum, three parameters, 2 000 to 200 000 nodes.

python benchmarks/scale.py               # the table
python benchmarks/scale.py --figure docs/figures/scale.svg
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np

import calibody as cb

COUNTS = (2_000, 6_000, 20_000, 60_000, 200_000)
H = 0.01


def model() -> cb.Model:
    arm = cb.Body("arm", mass=0.4, com=(0, 0, -0.1), inertia=(0.004, 0.004, 0.004))
    return cb.Model("pendulum", bodies=[arm], joints=[cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.002)], actuators=[cb.Actuator("motor", "hinge")])


def measure() -> list[tuple[int, float]]:
    """(nodes, seconds per iteration), the first motion and everything else that a fit does shared out over its iterations."""
    times = H * np.arange(COUNTS[-1] + 2)
    drive = cb.Signal(times, 0.2 * np.sin(5 * times) + 0.1 * np.sin(11 * times))
    motion = cb.simulate(model(), H * COUNTS[-1], H, {"joint.hinge.angle": 0.5}, {"actuator.motor": drive})
    y = motion["joint.hinge.angle"] + 2e-3 * np.random.default_rng(0).normal(size=len(motion.time))
    unknowns = {"body.arm.mass": cb.Unknown(0.5), "body.arm.inertia.yy": cb.Unknown(0.006), "joint.hinge.damping": cb.Unknown(0.003)}
    out = []
    for count in (COUNTS[0], *COUNTS):
        run = cb.Recording("r", (cb.Observation("joint.hinge.angle", motion.time[:count], y[:count], 2e-3),), (cb.Drive("actuator.motor", drive),))
        began = time.perf_counter()
        result = cb.fit(model(), run, unknowns, h=H)
        out.append((count, (time.perf_counter() - began) / max(1, result.iterations)))
        print(
            f"{count:8d} nodes: {result.status}, {result.iterations} iterations of {out[-1][1]:.3f} s, {1e6 * out[-1][1] / count:.1f} us per node", flush=True
        )
    return out[1:]  # the first warms up


def figure(points: list[tuple[int, float]], path: Path) -> None:
    """Both axes logarithmic; the line is proportional to the number of nodes."""
    width, height, margin = 560, 340, 56
    x = np.log10([n for n, _ in points])
    y = np.log10([s for _, s in points])
    low, high = np.floor(y.min()), np.ceil(y.max())

    def place(a: float, b: float) -> tuple[float, float]:
        return margin + (a - 3.0) / 2.6 * (width - 2 * margin), height - margin - (b - low) / max(high - low, 1.0) * (height - 2 * margin)

    slope = float(np.mean(y - x))
    ends = [place(a, a + slope) for a in (x[0], x[-1])]
    parts = [f'<line x1="{ends[0][0]:.1f}" y1="{ends[0][1]:.1f}" x2="{ends[1][0]:.1f}" y2="{ends[1][1]:.1f}" stroke="#999" stroke-dasharray="5 4"/>']
    for a, b in zip(x, y, strict=True):
        cx, cy = place(a, b)
        parts.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="5" fill="#2a6fb0"/>')
    for tick in (3, 4, 5):
        cx, _ = place(tick, low)
        parts.append(f'<text x="{cx:.1f}" y="{height - margin + 20}" text-anchor="middle">{10**tick:,}</text>'.replace(",", " "))
    for tick in np.arange(low, high + 1):
        _, cy = place(3, tick)
        parts.append(f'<text x="{margin - 8}" y="{cy + 4:.1f}" text-anchor="end">{10.0**tick:g}</text>')
    parts.append(f'<rect x="{margin}" y="{margin}" width="{width - 2 * margin}" height="{height - 2 * margin}" fill="none" stroke="#666"/>')
    parts.append(
        f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">nodes</text><text x="{margin}" y="{margin - 14}">seconds per iteration; dashed: proportional</text>'
    )
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">{"".join(parts)}</svg>\n')


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    points = measure()
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    if options.figure:
        figure(points, options.figure)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
