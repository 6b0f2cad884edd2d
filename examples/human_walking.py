"""A walk over two force plates in one C3D file, and nothing else: no model, no trial at rest. Joint moments with error bars.

    python examples/human_walking.py gait.c3d

The file is of BMClab's (CC-BY-4.0): 33 markers at 100 Hz, of which four pairs have labels that were cut off to the same four letters, two plates at 1 kHz. The model is made from it: joint centres from the markers of one frame (hips by
their place in the pelvis, knees and ankles half-way between their two sides), segments of the table for the weight on the plates, all above the hips as one. Where the markers are on their segments is told by poses of the step.

Between the instants at which a foot touches the ground beside the plates nothing else pushes: `FROM` to `TO`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import calibody as cb
from calibody.recording.tables import open_table

FROM, TO = 2.17, 3.05
"""Both feet on plates, or in the air [s]."""
STEP = 2.2, 0.485
"""One step, from one contact to that of the other foot: its begin, and its length [s]; the mean force is the weight."""
FRAME = 245
"""Of which the model is made; coordinates are zero there."""
POSES = range(200, 312, 8)
"""Frames that tell where markers are."""
HEIGHT, SEX, GRAVITY = 1.70, "female", 9.81
"""Nobody tells the first two: the table's segments hardly depend on them."""
HIP = (-0.19, 0.36, -0.30)
"""Of a hip from the middle between both ASIS: forwards, outwards and upwards, in widths of the pelvis (Bell, Pedersen and Brand, 1990)."""
TRUNK = ("RASI", "LASI", "VSAC", "C7", "IJ", "PX", "RSHO", "LSHO")
ABOVE = {"trunk": 1, "head": 1, "upper arm": 2, "forearm": 2, "hand": 2}
PLACED, SEEN = 0.015, 0.01
"""How well places of markers are known beforehand, and how far skin moves them [m]."""
ALIKE, RATE = 0.1, 100.0
"""For how long skin moves markers alike [s], and frames per second: as noise that is new in every frame it counts as SEEN sqrt(2 ALIKE RATE)."""
MOMENT, PLATE, POINT, TURN = 60.0, 20.0, 0.01, 2.0
"""Sizes of unknown moments [N m], and what plates may be off by [N, m, N m]."""
SIDES = {"L": (1, "left"), "R": (2, "right")}
"""Plates of the two feet."""
OUTWARDS = {"R": np.array([0.0, 1.0, 0.0]), "L": np.array([0.0, -1.0, 0.0])}
FORWARDS, UPWARDS = np.array([-1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True)
class Walk:
    columns: Mapping[str, np.ndarray]
    mass: float
    """That the plates weigh over a step [kg]."""

    def marker(self, name: str) -> np.ndarray:
        """(frames, 3)"""
        return np.stack([self.columns[f"{name}.{c}"] for c in "xyz"], axis=1)


def walk(path: Path) -> Walk:
    columns = open_table(path).columns
    t = columns["plate.t"]
    over = (t >= STEP[0]) & (t < STEP[0] + STEP[1])
    return Walk(columns, sum(float(np.mean(columns[f"plate.{k}.force.z"][over])) for k, _ in SIDES.values()) / GRAVITY)


# -- the model -------------------------------------------------------------------------------------------------------------------------


def model(w: Walk) -> cb.Model:
    """In the axes of the laboratory at `FRAME`."""
    table, trunk = cb.anthropometry(HEIGHT, w.mass, SEX), [n for n in TRUNK if np.isfinite(w.marker(n)[FRAME]).all()]

    def middle(*names: str) -> np.ndarray:
        return np.mean([w.marker(n)[FRAME] for n in names], axis=0)

    root, top = middle("RASI", "LASI", "VSAC"), middle("C7", "IJ")
    mass, size = sum(count * table[name].mass for name, count in ABOVE.items()), float(np.linalg.norm(top - root))
    bodies = [
        cb.Body(
            "trunk", mass=mass, com=xyz(0.5 * (top - root)), inertia=(0.18 * mass * size**2, 0.18 * mass * size**2, 0.03 * mass * size**2), position=xyz(root)
        )
    ]
    joints = [cb.Joint(f"pelvis_t{c}", "trunk", "slide", axis=xyz(axis)) for c, axis in zip("xyz", np.eye(3), strict=True)]
    joints += [cb.Joint(f"pelvis_r{c}", "trunk", axis=xyz(axis)) for c, axis in zip("xyz", np.eye(3), strict=True)]
    sites = [cb.Site(n, "trunk", xyz(w.marker(n)[FRAME] - root)) for n in trunk]
    width = float(np.linalg.norm(middle("RASI") - middle("LASI")))
    for side in SIDES:
        forwards, outwards, upwards = HIP
        hip = middle("RASI", "LASI") + width * (forwards * FORWARDS + outwards * OUTWARDS[side] + upwards * UPWARDS)
        knee, ankle, toes = (middle(f"{side}{name}_1", f"{side}{name}_2") for name in ("KNE", "ANK", "FOO"))
        chain = (
            ("thigh", "trunk", root, hip, knee, ("THI", "KNE_1", "KNE_2")),
            ("shank", f"{side}_thigh", hip, knee, ankle, ("SHA", "ANK_1", "ANK_2")),
            ("foot", f"{side}_shank", knee, ankle, toes, ("HEE", "TOE", "FOO_1", "FOO_2")),
        )
        for name, parent, before, at, end, markers in chain:
            bodies.append(segment(table[name], f"{side}_{name}", parent, at - before, end - at))
            sites += [cb.Site(f"{side}{n}", f"{side}_{name}", xyz(w.marker(f"{side}{n}")[FRAME] - at)) for n in markers]
        across = {part: (middle(f"{side}{part}_1") - middle(f"{side}{part}_2")) * OUTWARDS[side][1] for part in ("KNE", "ANK")}  # to the right
        axes = {"hip_flexion": ("thigh", (0, 1, 0)), "hip_adduction": ("thigh", (1, 0, 0)), "hip_rotation": ("thigh", (0, 0, 1)), "knee": ("shank", across["KNE"]),
                "ankle": ("foot", across["ANK"]), "inversion": ("foot", (1, 0, 0))}  # fmt: skip
        joints += [cb.Joint(f"{side}_{name}", f"{side}_{body}", axis=xyz(np.asarray(axis) / np.linalg.norm(axis))) for name, (body, axis) in axes.items()]
    return cb.Model("walker", bodies, joints, sites=sites)


def xyz(place: np.ndarray) -> tuple[float, float, float]:
    x, y, z = (float(c) for c in place)
    return x, y, z


def segment(s: cb.Segment, name: str, parent: str, place: np.ndarray, along: np.ndarray) -> cb.Body:
    """A segment of the table from its joint along a direction."""
    d, (across, _, lengthwise) = along / np.linalg.norm(along), s.inertia
    R = across * np.eye(3) - (across - lengthwise) * np.outer(d, d)
    return cb.Body(name, parent, s.mass, xyz(s.com * d), (R[0, 0], R[1, 1], R[2, 2], R[0, 1], R[0, 2], R[1, 2]), xyz(place))


def placed(w: Walk, guess: cb.Model) -> cb.Model:
    """With the places of markers that poses of the walk tell."""
    numbers = 1.0 + np.arange(len(POSES))
    seen = [cb.Observation(f"site.{s.name}.position.{c}", numbers, w.columns[f"{s.name}.{c}"][list(POSES)], sd=SEEN) for s in guess.sites for c in "xyz"]
    unknown = {f"site.{s.name}.position.{c}": cb.Unknown(x, prior=(x, PLACED)) for s in guess.sites for c, x in zip("xyz", s.position, strict=True)}
    result = cb.fit(guess, cb.Recording("poses", tuple(seen), poses=True), unknown)
    return guess.replace({path: e.value for path, e in result.parameters.items()})


# -- the estimate ----------------------------------------------------------------------------------------------------------------------


def moments(path: Path) -> cb.Result:
    w = walk(path)
    person = placed(w, model(w))
    observe = {f"site.{s.name}.position": {"columns": [f"{s.name}.{c}" for c in "xyz"], "sd": SEEN * float(np.sqrt(2.0 * ALIKE * RATE))} for s in person.sites}
    plates = [
        {"body": f"{side}_foot", "force": f"plate.{k}.force.*", "point": f"plate.{k}.point.*", "moment": f"plate.{k}.moment.*", "about": "origin", "sd": PLATE, "sd_point": POINT, "sd_moment": TURN}
        for side, (k, _) in SIDES.items()
    ]  # fmt: skip
    unknown = {"joint.*.force": {"unknown": True, "sd": MOMENT, "correlation_time": ALIKE}}
    run = cb.read(path, observe=observe, drive=unknown, plates=plates, start=FROM, end=TO)
    return cb.fit(person, replace(run, name="walk"), {}, h=1.0 / RATE)


def main(path: Path) -> None:
    result = moments(path)
    motion, mass = result.motion(), sum(b.mass for b in result.model.bodies)
    print(f"{result.status}; {mass:.1f} kg, plates off by at most {max(np.abs(z).max() for z in result.deviations().values()):.1f} of their sd")
    for side, (_, word) in SIDES.items():
        for joint in ("hip_flexion", "knee", "ankle"):
            found = motion[f"joint.{side}_{joint}.force"]
            sd = float(np.median(result.sd(f"joint.{side}_{joint}.force", np.linspace(FROM + 0.1, TO - 0.1, 6))))
            print(f"{word} {joint}: {found.min():.0f} to {found.max():.0f} N m, sd {sd:.0f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
