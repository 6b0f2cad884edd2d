"""A real cube that was tossed onto a board: friction, restitution, inertia and the radius of its corners from the poses of several tosses, fitted together.

    python examples/cube_tosses.py FILE.npz [TOSSES] [SAMPLES]

FILE: the tosses of DAIRLab/contact-nets as `key -> (samples, 13)`, position [m] and quaternion first, 148 Hz. Of every toss a window is taken from 8 samples before the first contact to SAMPLES (8) after it: later the cube chatters
to rest, which fits do not know yet. Positions are recorded 2 % short: gravity is that of the flights, 9.61 m/s^2, and the half width that of the cube at rest, 51.25 mm.
Standard deviations are what the model leaves (0.5 mm, 10 mrad), not those of the cameras (0.02 mm).
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.spatial.transform import Rotation

import calibody as cb

RATE, BEFORE = 148.0, 8
HALF = 0.05125
SD = 5e-4, 1e-2


def model() -> cb.Model:
    return cb.Model(
        "cube",
        [cb.Body("cube", mass=0.37, inertia=(8.1e-4,) * 3)],
        [cb.Joint("free", "cube", "free")],
        geometries=[cb.Geometry("hull", "cube", "box", (HALF,) * 3)],
        contacts=[cb.Contact("floor", "hull", friction=0.4, restitution=0.4, radius=0.003)],
        world=cb.World(gravity=(0.0, 0.0, -9.61)),
    )


def lowest(toss: np.ndarray) -> np.ndarray:
    """Height of the lowest corner of a sharp cube at every sample."""
    turned = Rotation.from_quat(toss[:, [4, 5, 6, 3]]).as_matrix()
    return toss[:, 2] - HALF * np.abs(turned[:, 2]).sum(axis=1)


def window(name: str, toss: np.ndarray, after: int) -> cb.Recording | None:
    """From some samples before the first contact to `after` behind it; None where there are too few."""
    touching = np.flatnonzero(lowest(toss) < 0.002)
    if not len(touching) or touching[0] < BEFORE or touching[0] + after >= len(toss):
        return None
    part = toss[touching[0] - BEFORE : touching[0] + after]
    t = np.arange(len(part)) / RATE
    turn = Rotation.from_quat(part[:, [4, 5, 6, 3]]).as_rotvec()
    observed = [cb.Observation(f"body.cube.position.{c}", t, part[:, i], SD[0]) for i, c in enumerate("xyz")]
    return cb.Recording(name, tuple(observed + [cb.Observation(f"body.cube.angle.{c}", t, turn[:, i], SD[1]) for i, c in enumerate("xyz")]))


def main(file: str, tosses: int, after: int) -> None:
    data = np.load(file)
    runs = [run for name in data.files[: 2 * tosses] if (run := window(name, data[name], after)) is not None][:tosses]
    unknowns = {
        "contact.floor.friction": cb.Unknown(0.4),
        "contact.floor.restitution": cb.Unknown(0.4),
        "contact.floor.radius": cb.Unknown(0.003, upper=0.02),
        "inertia": cb.Unknown(8.1e-4, lower=1e-4, places={f"body.cube.inertia.{axis}": "inertia" for axis in ("xx", "yy", "zz")}),
    }
    began = time.process_time()
    result = cb.fit(model(), runs, unknowns, h=1.0 / RATE / 2)
    print(result.status)
    for name, e in result.parameters.items():
        print(f"{name:30} {e.value:10.4g} +- {e.sd if e.sd is None else round(e.sd, 6)}")
    print(*(n for n in result.notes if "is at its" not in n), sep="\n")
    print(f"{len(runs)} tosses, {len(result.events)} impacts, {time.process_time() - began:.0f} CPU s, chi2/dof {result.chi2 / result.dof:.3g}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20, int(sys.argv[3]) if len(sys.argv) > 3 else 8)
