"""A running human from markers and force plates: joint moments with error bars, beside what OpenSim made of the same trial.

    python examples/human_running.py FOLDER [filtered] [moments] [free]

FOLDER has the model, markers, forces and OpenSim's results of BMClab's running trial (CC-BY-4.0). Without further words all are done:

- kinematics: every frame on its own, with the markers and weights of OpenSim's setup. Two markers of the right foot have each other's name in every third frame: the fit says so, and what follows has them exchanged there;
- filtered: the recipe of OpenSim, inverse dynamics of its own angles behind its 6 Hz filter, by a motion that is prescribed;
- moments: markers, plates and moments in one estimate, no force on the pelvis;
- free: the same with unknown forces of 50 N and 20 N m on the pelvis.
"""

from __future__ import annotations

import resource
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.signal import butter, sosfiltfilt

import calibody as cb
from calibody.recording.tables import open_table

CUTOFF, ORDER = 6.0, 3
"""Of OpenSim's filter [Hz]: Butterworth, once forwards and once backwards."""
LIKE_WEIGHT = 25.0
"""Weight of OpenSim's setup whose markers have the sd `MARKER`; w times the weight is sd/sqrt(w)."""
MARKER = 0.01
"""[m], where frames are on their own: soft tissue moves by about that. In one estimate of all frames: `soft_tissue`."""
PLATE, POINT, TURN, LASTING = 20.0, 0.01, 2.0, 0.1
"""What the plates may be off by [N, m, N m], and for how long alike [s]."""
SIZES = {"hip": 100.0, "knee": 80.0, "ankle": 80.0, "lumbar": 80.0, "arm": 30.0, "elbow": 15.0, "pro_sup": 3.0}
"""Of the moments [N m]: half of what is usual at most in running."""
MEMORY = 0.1
"""Of the moments [s]."""
ROOT = {"tx": 50.0, "ty": 50.0, "tz": 50.0, "tilt": 20.0, "list": 20.0, "rotation": 20.0}
JUDGED = tuple(f"{joint}_{side}" for joint in ("hip_flexion", "knee_angle", "ankle_angle") for side in "rl")
GRAVITY = 9.81
STEP = 0.3467
"""From the first contact of the right foot to that of the left one [s]: half of a stride, in which the mean force is the weight."""
FROM, TO = 0.02, 0.70
"""Where moments are compared [s]: OpenSim's end at 0.72."""


@dataclass(frozen=True)
class Trial:
    """What the folder has."""

    model: cb.Model
    times: np.ndarray
    markers: dict[str, np.ndarray]
    """(3, frames) [m]"""
    weights: dict[str, float]
    plates: tuple[cb.Plate, ...]
    angles: Mapping[str, np.ndarray]
    moments: Mapping[str, np.ndarray]

    @property
    def mass(self) -> float:
        """That the plates weigh over a stride [kg]."""
        return sum(float(np.trapezoid(p.force[:, 1], p.times)) for p in self.plates) / (2.0 * STEP) / GRAVITY


def trial(folder: Path) -> Trial:
    model, seen = cb.load(folder / "Rajagopal2015_scaled.osim"), open_table(folder / "motion_capture_run.trc").columns
    tasks = [t for t in ET.parse(folder / "opensim_ik_setup.xml").iter("IKMarkerTask") if (t.findtext("apply") or "").strip() == "true"]
    weights = {str(t.get("name")): float(t.findtext("weight") or 0.0) for t in tasks}
    sites = {s.name for s in model.sites}
    markers = {n: np.stack([seen[f"{n}.{c}"] for c in "xyz"]) for n in weights if n in sites and f"{n}.x" in seen}
    forces = open_table(folder / "grf_run.mot").columns
    plates = tuple(plate(forces, side, body) for side, body in (("R", "calcn_r"), ("L", "calcn_l")))
    angles, moments = (open_table(folder / name).columns for name in ("opensim_ik.mot", "opensim_inverse_dynamics.sto"))
    return Trial(model, seen["t"], markers, weights, plates, angles, moments)


def plate(columns: Mapping[str, np.ndarray], side: str, body: str) -> cb.Plate:
    force, point, moment = (np.stack([columns[f"{side}_ground_{word}{c}"] for c in "xyz"], axis=1) for word in ("force_v", "force_p", "torque_"))
    return cb.Plate(body, columns["time"], force, point, moment, PLATE, POINT, TURN, LASTING)


def observations(t: Trial, times: np.ndarray, sd: float) -> tuple[cb.Observation, ...]:
    return tuple(
        cb.Observation(f"site.{name}.position.{c}", times, places[k], sd=sd * np.sqrt(LIKE_WEIGHT / t.weights[name]))
        for name, places in t.markers.items()
        for k, c in enumerate("xyz")
    )


def kinematics(t: Trial) -> cb.Result:
    """Every frame as a pose of its own."""
    return cb.fit(t.model, cb.Recording("frames", observations(t, 1.0 + np.arange(len(t.times)), MARKER), poses=True), {})


def exchanged(t: Trial, alone: cb.Result) -> Trial:
    """With the markers exchanged that frames on their own show to be."""
    markers = dict(t.markers)
    for mistake in alone.mistakes:
        a, b = (subject.removeprefix("site.") for subject in mistake.subjects)
        here = np.isin(1.0 + np.arange(len(t.times)), mistake.times) if mistake.times else np.ones(len(t.times), dtype=bool)
        markers[a], markers[b] = np.where(here, markers[b], markers[a]), np.where(here, markers[a], markers[b])
    return replace(t, markers=markers)


def soft_tissue(t: Trial, alone: cb.Result) -> float:
    """The sd, of markers with the weight LIKE_WEIGHT, of noise that is new in every frame and at no frequency less than what frames on their own leave [m].

    What soft tissue adds is slow: counted as new in every frame, 7 mm would be taken for known to a tenth of that over the run. The largest ordinate of the residuals' periodogram, that of the lowest frequency,
    says which white noise scatters as much there; frames that are fitted each on its own take their share of it, as many of all numbers as there are coordinates. What is constant in a residual is a marker's place in the model."""
    left = np.array([c.residual * np.sqrt(t.weights[c.channel.split(".")[1]] / LIKE_WEIGHT) for c in alone.fit])
    ordinates = np.mean(np.abs(np.fft.rfft(left, axis=1)) ** 2, axis=0)[1:] / left.shape[1]
    free = len(t.model.joints) - len(t.model.loops)
    return float(np.sqrt(ordinates.max() * len(left) / (len(left) - free)))


def filtered(t: Trial) -> dict[str, np.ndarray]:
    """Moments at OpenSim's instants, from its angles behind its filter."""
    clock = t.angles["time"]
    sections = butter(ORDER, CUTOFF * 2.0 * float(np.median(np.diff(clock))), output="sos")
    drive: dict[str, cb.Signal] = {channel: signal for p in t.plates for channel, signal in p.signals.items()}
    for joint in t.model.joints:
        if joint.name in t.angles:
            turns = joint.kind == "hinge"
            values = sosfiltfilt(sections, np.deg2rad(t.angles[joint.name]) if turns else t.angles[joint.name])
            drive[f"joint.{joint.name}.{'angle' if turns else 'position'}"] = cb.Signal(clock, values)
    motion = cb.simulate(t.model, 0.72, 1.0 / 600.0, {}, drive)
    return {name: np.interp(t.moments["time"], motion.time, motion[f"joint.{name}.force"]) for name in JUDGED}


def moments(t: Trial, root: bool, marker: float, end: float = 0.75) -> cb.Result:
    """Motion and moments in one estimate; the mass is what the plates weigh, and `marker` the markers' noise [m]."""
    share = t.mass / sum(b.mass for b in t.model.bodies)
    weighed = t.model.replace({f"body.{b.name}.mass": share * b.mass for b in t.model.bodies if b.mass})
    carrying = {f"pelvis_{axis}" for axis in ROOT}
    own = [j.name for j in t.model.joints if j.name not in carrying and j.name not in {loop.joint1 for loop in t.model.loops}]
    unknown = [cb.UnknownDrive(f"joint.{j}.force", next(v for k, v in SIZES.items() if j.startswith(k)), MEMORY) for j in own]
    unknown += [cb.UnknownDrive(f"joint.pelvis_{axis}.force", sd, MEMORY) for axis, sd in ROOT.items()] if root else []
    run = cb.Recording("run", observations(t, t.times, marker), start=0.0, end=end, plates=t.plates, unknown=tuple(unknown))
    return cb.fit(weighed, run, {}, h=1.0 / 150.0)


def distance(result: cb.Result) -> float:
    """Rms of the distance between markers and their places in the model [m]."""
    return float(np.sqrt(3.0 * np.mean(np.concatenate([c.residual**2 for c in result.fit]))))


def against(t: Trial, times: np.ndarray, found: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """Correlation with OpenSim's moments, and rms of the difference over their peak."""
    clock, out = t.moments["time"], {}
    inside = (clock >= FROM) & (clock <= TO)
    for name, values in found.items():
        theirs, ours = t.moments[f"{name}_moment"][inside], np.interp(clock[inside], times, values)
        out[name] = float(np.corrcoef(theirs, ours)[0, 1]), float(np.sqrt(np.mean((theirs - ours) ** 2)) / np.abs(theirs).max())
    return out


def angles_against(t: Trial, motion: cb.Motion, times: np.ndarray) -> dict[str, float]:
    """Rms of the difference to OpenSim's angles [deg]."""
    return {
        name: float(np.sqrt(np.mean((np.rad2deg(motion[f"joint.{name}.angle"]) - np.interp(times, t.angles["time"], t.angles[name])) ** 2))) for name in JUDGED
    }


def main(folder: Path, parts: list[str]) -> None:
    t = trial(folder)
    print(f"{len(t.markers)} markers, {len(t.times)} frames; the plates weigh {t.mass:.1f} kg, the model has {sum(b.mass for b in t.model.bodies):.1f} kg")
    alone = kinematics(t)
    mended = exchanged(t, alone)
    _told("kinematics", [f"{alone.status}, markers off by {1e3 * distance(alone):.2f} mm", *(m.sentence for m in alone.mistakes), *_angles(t, alone, t.times)])
    alone = kinematics(mended)
    marker = soft_tissue(mended, alone)
    _told("exchanged", [f"{alone.status}, markers off by {1e3 * distance(alone):.2f} mm, their noise {1e3 * marker:.0f} mm", *_angles(t, alone, t.times)])
    for part in parts:
        _told(part, _compared(t, t.moments["time"], filtered(t)) if part == "filtered" else _fitted(mended, part == "free", marker))


def _told(part: str, lines: list[str]) -> None:
    print(
        f"-- {part}: after {time.process_time():.1f} s, at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB",
        *lines,
        sep="\n   ",
        flush=True,
    )


def _compared(t: Trial, times: np.ndarray, found: dict[str, np.ndarray]) -> list[str]:
    return [f"{name}: correlation {c:.4f}, difference {100 * d:.1f} % of the peak" for name, (c, d) in against(t, times, found).items()]


def _angles(t: Trial, result: cb.Result, times: np.ndarray) -> list[str]:
    return [f"{name}: {d:.2f} deg from OpenSim's" for name, d in angles_against(t, result.motion(), times).items()]


def _fitted(t: Trial, root: bool, marker: float) -> list[str]:
    result = moments(t, root, marker)
    motion = result.motion()
    found = {name: motion[f"joint.{name}.force"] for name in JUDGED}
    bars = {name: float(np.median(result.sd(f"joint.{name}.force", np.linspace(0.1, 0.6, 6)))) for name in JUDGED}
    lines = [f"{result.status}, markers off by {1e3 * distance(result):.2f} mm", *_angles(t, result, motion.time), *_compared(t, motion.time, found)]
    lines += [f"{name}: median sd of the moment {sd:.1f} N m" for name, sd in bars.items()]
    lines += [f"{name}: {np.sqrt(np.mean(z**2)):.2f} sd, at most {np.abs(z).max():.2f}" for name, z in result.deviations().items()]
    return lines + [f"pelvis_{axis}: rms {np.sqrt(np.mean(motion[f'joint.pelvis_{axis}.force'] ** 2)):.1f}" for axis in ROOT]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or ["filtered", "moments", "free"])
