"""A real cube that was tossed onto a board: friction, restitution, inertia and the radius of its corners from the poses of several tosses, fitted together, and how well other tosses are foretold with them.

    python examples/cube_tosses.py FILE.npz [TOSSES] [SAMPLES] [UNSEEN]

FILE: the tosses of DAIRLab/contact-nets as `key -> (samples, 13)`, position [m] and quaternion first, 148 Hz. Of every toss two windows are taken: from 8 samples before the first contact to SAMPLES (8) after it, whose impacts tell
friction, restitution, inertia and the radius of the corners; and where it slides to rest on a face at the end, which tells the friction of sliding, another number. What is between them, a rocking cube whose corners chatter, is left
out. Positions are recorded 2 % short: gravity is that of the flights, 9.61 m/s^2, and the half width that of the cube at rest, 51.25 mm.
Standard deviations are what the model leaves (0.5 mm, 10 mrad), not those of the cameras (0.02 mm).

Then UNSEEN (0) tosses that the fit has not seen are simulated from their flights alone to their ends, with the numbers found and with those stated by the authors: a sharp cube of 52.4 mm, friction 0.18, restitution 0.125, inertia
8.1e-4 kg m^2.
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
SOON = 0.1
"""After the first contact [s]: what impacts do, before it is chance on which face the cube comes to rest."""
FLAT, MOVING, SLIDES, AFTER = 0.5, 0.05, 14, 6
"""A cube slides on a face: how many degrees it may lean from where it comes to rest, faster than so many m/s, for at least so many samples; and how many samples of rest go with them."""
SLID = 8
"""Tosses whose ends are enough for one number."""
LONG = 40
"""Samples after the first contact that a toss has to have to be foretold."""


def model(half: float = HALF, friction: float = 0.4, restitution: float = 0.4, radius: float = 0.003) -> cb.Model:
    return cb.Model(
        "cube",
        [cb.Body("cube", mass=0.37, inertia=(8.1e-4,) * 3)],
        [cb.Joint("free", "cube", "free")],
        geometries=[cb.Geometry("hull", "cube", "box", (half,) * 3)],
        contacts=[cb.Contact("floor", "hull", friction=friction, restitution=restitution, radius=radius)],
        world=cb.World(gravity=(0.0, 0.0, -9.61)),
    )


STATED = model(0.0524, 0.18, 0.125, 0.0)


def unknowns() -> dict[str, cb.Unknown]:
    return {
        "contact.floor.friction": cb.Unknown(0.4),
        "contact.floor.restitution": cb.Unknown(0.4),
        "contact.floor.radius": cb.Unknown(0.003, upper=0.02),
        "inertia": cb.Unknown(8.1e-4, lower=1e-4, places={f"body.cube.inertia.{axis}": "inertia" for axis in ("xx", "yy", "zz")}),
    }


def lowest(toss: np.ndarray) -> np.ndarray:
    """Height of the lowest corner of a sharp cube at every sample."""
    turned = Rotation.from_quat(toss[:, [4, 5, 6, 3]]).as_matrix()
    return toss[:, 2] - HALF * np.abs(turned[:, 2]).sum(axis=1)


def touches(toss: np.ndarray) -> int | None:
    """The sample of the first contact; None where too little comes before it."""
    touching = np.flatnonzero(lowest(toss) < 0.002)
    return int(touching[0]) if len(touching) and touching[0] >= BEFORE else None


def recorded(name: str, part: np.ndarray) -> cb.Recording:
    t = np.arange(len(part)) / RATE
    turn = Rotation.from_quat(part[:, [4, 5, 6, 3]]).as_rotvec()
    observed = [cb.Observation(f"body.cube.position.{c}", t, part[:, i], SD[0]) for i, c in enumerate("xyz")]
    return cb.Recording(name, tuple(observed + [cb.Observation(f"body.cube.angle.{c}", t, turn[:, i], SD[1]) for i, c in enumerate("xyz")]))


def window(name: str, toss: np.ndarray, after: int) -> cb.Recording | None:
    """From some samples before the first contact to `after` behind it; None where there are too few."""
    first = touches(toss)
    return None if first is None or first + after >= len(toss) else recorded(name, toss[first - BEFORE : first + after])


def slide(name: str, toss: np.ndarray) -> cb.Recording | None:
    """Where it slides on a face until it rests; None where that is short."""
    turned = Rotation.from_quat(toss[:, [4, 5, 6, 3]])
    lean = np.degrees(np.arccos(np.clip(turned.apply(turned[-1].inv().apply([0.0, 0.0, 1.0]))[:, 2], -1.0, 1.0)))
    rocks = np.flatnonzero(lean >= FLAT)
    first = int(rocks[-1]) + 4 if len(rocks) else 0
    speed = np.linalg.norm(np.gradient(toss[:, :2], axis=0), axis=1) * RATE
    moves = np.flatnonzero(speed[first:] > MOVING)
    return None if not len(moves) or moves[-1] < SLIDES else recorded(f"{name} slides", toss[first : first + int(moves[-1]) + AFTER])


def sliding(model: cb.Model, tosses: dict[str, np.ndarray]) -> cb.Result:
    """The friction of sliding from the ends of tosses; it begins with that of impacts."""
    runs = [run for name, toss in tosses.items() if (run := slide(name, toss)) is not None]
    return cb.fit(model, runs, {"contact.floor.sliding_friction": cb.Unknown()}, h=1.0 / RATE)


def fitted(tosses: dict[str, np.ndarray], after: int = 8) -> cb.Result:
    """The first impacts of all tosses together."""
    runs = [run for name, toss in tosses.items() if (run := window(name, toss, after)) is not None]
    return cb.fit(model(), runs, unknowns(), h=1.0 / RATE / 2)


def foretold(model: cb.Model, tosses: dict[str, np.ndarray]) -> np.ndarray:
    """(tosses, 4) mean errors of free simulations from the flights: of the position in % of the width and of the rotation in degrees, over the first `SOON` after the first contact and over all samples."""
    out, follower = [], None
    for name, toss in tosses.items():
        first = touches(toss)
        assert first is not None
        run, flight = recorded(name, toss), (first - 1) / RATE
        follower = follower or cb.fit(model, run.cut(end=flight), {}, h=1.0 / RATE / 4)
        motion = follower.predict(run, flight).motion
        at = np.minimum(np.round(np.arange(len(toss)) / RATE / motion.h).astype(int), len(motion.time) - 1)
        place = np.linalg.norm(motion["body.cube.position"][at] - toss[:, :3], axis=1) / (0.02 * HALF)
        turned = Rotation.from_quat(motion["joint.free.orientation"][at][:, [1, 2, 3, 0]]).inv() * Rotation.from_quat(toss[:, [4, 5, 6, 3]])
        turn, soon = np.degrees(turned.magnitude()), slice(first, first + round(SOON * RATE))
        out.append([place[soon].mean(), turn[soon].mean(), place.mean(), turn.mean()])
    return np.array(out)


def unseen(data: dict[str, np.ndarray], used: int, count: int) -> dict[str, np.ndarray]:
    """The first tosses beyond those used that are long enough."""
    long = {name: toss for name, toss in list(data.items())[used:] if (first := touches(toss)) is not None and first + LONG < len(toss)}
    return dict(list(long.items())[:count])


def main(file: str, count: int, after: int, beyond: int) -> None:
    with np.load(file) as loaded:
        data = {name: loaded[name] for name in loaded.files}
    names = [name for name, toss in data.items() if window(name, toss, after) is not None][:count]
    began = time.process_time()
    result = fitted({name: data[name] for name in names}, after)
    print(result.status)
    for name, e in result.parameters.items():
        print(f"{name:30} {e.value:10.4g} +- {e.sd if e.sd is None else round(e.sd, 6)}")
    print(*(n for n in result.notes if "is at its" not in n), sep="\n")
    print(f"{count} tosses, {len(result.events)} impacts, {time.process_time() - began:.0f} CPU s, chi2/dof {result.chi2 / result.dof:.3g}", flush=True)
    began = time.process_time()
    slid = sliding(result.model, {name: data[name] for name in names[:SLID]})
    estimate = slid.parameters["contact.floor.sliding_friction"]
    print(
        f"{slid.status}: sliding friction {estimate.value:.4g} +- {estimate.sd} from {len(slid.recordings)} slides, {slid.iterations} steps, {time.process_time() - began:.0f} CPU s",
        flush=True,
    )
    if beyond:
        others = unseen(data, list(data).index(names[-1]) + 1, beyond)
        for title, tried in (("fitted, sliding too", slid.model), ("stated", STATED), ("fitted, one friction", result.model)):
            errors = foretold(tried, others)
            (soon, soon_turned, whole, turned), medians = errors.mean(axis=0), np.median(errors, axis=0)
            print(
                f"{title}: {len(errors)} unseen tosses, first 100 ms after contact {soon:.2f} % of the width and {soon_turned:.2f} deg, whole toss {whole:.1f} % (median {medians[2]:.1f}) and "
                f"{turned:.1f} deg (median {medians[3]:.1f})",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1], *(int(given) if given else default for given, default in zip((sys.argv[2:] + [""] * 3)[:3], (20, 8, 0), strict=True)))
