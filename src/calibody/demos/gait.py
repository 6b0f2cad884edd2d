"""A person who walks over two force plates: joint moments with error bars.

Seven segments in the plane of progression: all above the hips as one, thighs, shanks and feet; nine coordinates. Their way is prescribed: the feet stand and swing, the hips follow from where the force acts on the ground,
knees and ankles from both. With the force's place p(t) going from heel to toe and from foot to foot, and h the height of the centre of mass, a pendulum on its head has

    x'' = (g/h) (x - p),    for every frequency w of one stride:  X = (g/h)/(g/h + w^2) P

which is solved with a Fourier series; p is corrected until the force of all segments acts where it should (`WALKED` times). Inverse dynamics then gives the force that the ground has to exert,
which the feet share: over the time in which both stand it goes over from one to the other, and acts under each at the same distance from that foot's own place. What is left at the joints is the truth of their moments.

The recording has markers, with a noise that is larger where more soft tissue is below, and what the two plates read, which is on the feet. Nobody measures the moments: they are unknown drives, of a
stated size and memory. Masses are those of the table and known: estimated in the same fit, they come out wrong by several of their error bars (the likelihood prefers heavier segments, because real moments are
smaller and smoother than forces drawn with that size and memory; `estimate/noise/weighed.py`). `result.weigh` finds them by the plates alone (`estimate/people/weighing.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from calibody.demos.base import Example

if TYPE_CHECKING:
    from calibody.estimate.people.anthropometry import Anthropometry
    from calibody.model import Model

HEIGHT, MASS = 1.75, 70.0
STRIDE, SPEED, STANCE = 1.2, 0.65, 0.6
"""Time of a stride [s], speed [m/s], share of the stride in which a foot stands."""
RATE, FINE = 120.0, 4
"""Frames per second, and instants of the prescribed motion per frame."""
DURATION = 1.5
HIP, ANKLE = 0.87, 0.08
"""Heights of hip and of a standing foot's ankle [m]."""
HEEL, TOE = -0.05, 0.17
"""Ends of a foot, from the ankle [m]."""
CENTRE_OF_MASS = 0.95
"""Of the whole body [m], for the first guess of the hips' way."""
WALKED = 6
START = 0.6
"""How far before the origin it begins [m]."""
SIDES = ("right", "left")
JOINTS = ("forward", "up", "lean", *(f"{side}_{joint}" for side in SIDES for joint in ("hip", "knee", "ankle")))
GRAVITY = 9.81
MOMENT = {"sd": 60, "correlation_time": 0.1}
"""Of the moments at joints: their size [N m], and for how long they stay alike [s]."""
FORCE_SD, TORQUE_SD = 2.0, 1.0
"""Of the plates, N and N m about the origin of the laboratory."""
MARKERS = {
    # name: (body, x, z [m], sd [m])
    "hip": ("trunk", 0.0, 0.02, 0.003),
    "belly": ("trunk", 0.11, 0.2, 0.003),
    "shoulder": ("trunk", 0.0, 0.5, 0.003),
    **{f"{side}_{name}": (f"{side}_{body}", x, z, sd) for side in SIDES for name, body, x, z, sd in (
        ("thigh", "thigh", 0.07, -0.2, 0.004), ("knee", "thigh", 0.0, -0.4, 0.003), ("shin", "shank", 0.05, -0.15, 0.002),
        ("ankle", "shank", 0.0, -0.42, 0.002), ("heel", "foot", HEEL, -0.05, 0.0015), ("toe", "foot", TOE, -0.05, 0.0015))},
}  # fmt: skip


# -- the person ------------------------------------------------------------------------------------------------------------------------


@cache
def table() -> Anthropometry:
    from calibody.estimate.people.anthropometry import anthropometry

    return anthropometry(HEIGHT, MASS, "male")


def trunk() -> tuple[float, float, float]:
    """Mass, height of the centre of mass above the hips, and inertia about it of trunk, head and arms that hang."""
    t = table()
    shoulder = t["trunk"].length
    parts = [(t["trunk"], shoulder - t["trunk"].com), (t["head"], shoulder + 0.1 + t["head"].length - t["head"].com)]
    for name, below in (("upper arm", 0.0), ("forearm", t["upper arm"].length), ("hand", t["upper arm"].length + t["forearm"].length)):
        parts += [(t[name], shoulder - 0.02 - below - t[name].com)] * 2
    mass = sum(s.mass for s, _ in parts)
    height = sum(s.mass * z for s, z in parts) / mass
    return mass, height, sum(s.inertia[1] + s.mass * (z - height) ** 2 for s, z in parts)


def _model() -> str:
    mass, height, inertia = trunk()
    sites = {
        body: "".join(f'<site name="{n}" pos="{x} 0 {z}"/>' for n, (b, x, z, _) in MARKERS.items() if b == body) for body in {b for b, *_ in MARKERS.values()}
    }
    legs = "".join(_leg(side, sites) for side in SIDES)
    return (
        '<mujoco model="gait">\n  <compiler inertiafromgeom="false"/>\n  <worldbody>\n'
        f'    <body name="trunk" pos="0 0 {HIP}">\n'
        '      <joint name="forward" type="slide" axis="1 0 0"/><joint name="up" type="slide" axis="0 0 1"/><joint name="lean" type="hinge" axis="0 -1 0"/>\n'
        f'      <inertial pos="0 0 {height:.5f}" mass="{mass:.5f}" diaginertia="{inertia:.5f} {inertia:.5f} {0.15 * inertia:.5f}"/>\n'
        f'      <geom type="capsule" fromto="0 0 0.05 0 0 0.6" size="0.1" contype="0" conaffinity="0"/>{sites["trunk"]}\n'
        f"{legs}    </body>\n  </worldbody>\n</mujoco>\n"
    )


def _leg(side: str, sites: Mapping[str, str]) -> str:
    t = table()
    thigh, shank, foot = t["thigh"], t["shank"], t["foot"]
    across = 0.08 if side == "left" else -0.08

    def body(name: str, place: str, joint: str, axis: str, com: str, mass: float, inertia: tuple[float, ...], shape: str, inside: str) -> str:
        numbers = " ".join(f"{i:.6f}" for i in inertia)
        return (
            f'<body name="{side}_{name}" pos="{place}"><joint name="{side}_{joint}" type="hinge" axis="{axis}"/><inertial pos="{com}" mass="{mass:.5f}" diaginertia="{numbers}"/>'
            f'<geom type="capsule" fromto="{shape}" size="0.04" contype="0" conaffinity="0"/>{sites[f"{side}_{name}"]}\n{inside}</body>\n'
        )

    I = foot.inertia
    sole = body(
        "foot",
        f"0 0 {-shank.length:.5f}",
        "ankle",
        "0 -1 0",
        f"{foot.com + HEEL:.5f} 0 -0.04",
        foot.mass,
        (I[2], I[1], I[0]),
        f"{HEEL} 0 -0.05 {TOE} 0 -0.05",
        "",
    )
    lower = body(
        "shank", f"0 0 {-thigh.length:.5f}", "knee", "0 1 0", f"0 0 {-shank.com:.5f}", shank.mass, shank.inertia, f"0 0 0 0 0 {-shank.length:.5f}", sole
    )
    return body("thigh", f"0 {across} 0", "hip", "0 -1 0", f"0 0 {-thigh.com:.5f}", thigh.mass, thigh.inertia, f"0 0 0 0 0 {-thigh.length:.5f}", lower)


# -- how it walks ----------------------------------------------------------------------------------------------------------------------


def smooth(s: np.ndarray) -> np.ndarray:
    """From 0 to 1 with three derivatives that begin and end at zero."""
    s = np.clip(s, 0.0, 1.0)
    return s**4 * (35.0 - 84.0 * s + 70.0 * s**2 - 20.0 * s**3)


@dataclass(frozen=True)
class Foot:
    x: np.ndarray
    """The ankle's place less the mean progress [m]."""
    z: np.ndarray
    pitch: np.ndarray
    """Toes up [rad]."""
    share: np.ndarray
    """Of the weight."""
    under: np.ndarray
    """Where that is to act, from the ankle [m]."""


def foot(phase: np.ndarray) -> Foot:
    """One foot that comes down at phase 0."""
    p = phase % 1.0
    swing = np.clip((p - STANCE) / (1.0 - STANCE), 0.0, 1.0)
    length = SPEED * STRIDE
    x = length * (smooth(swing) - p + 0.5 * STANCE)
    bump = (4.0 * swing * (1.0 - swing)) ** 4
    both = STANCE - 0.5
    share = smooth(p / both) * (1.0 - smooth((p - 0.5) / both))
    under = HEEL + 0.03 + (TOE - HEEL - 0.07) * smooth(p / STANCE)
    return Foot(x, ANKLE + 0.07 * bump, -0.5 * bump * np.cos(np.pi * swing), np.where(p < STANCE, share, 0.0), under)


def _derivative(f: np.ndarray, order: int) -> np.ndarray:
    """Of functions with the period of a stride, by their Fourier series."""
    w = 2j * np.pi * np.fft.rfftfreq(f.shape[-1], STRIDE / f.shape[-1])
    return np.fft.irfft(np.fft.rfft(f) * w**order, f.shape[-1])


@dataclass(frozen=True)
class Walk:
    """One stride and what it takes, on a grid of instants. Places and moments are those about an origin that goes along with the mean speed."""

    q: np.ndarray
    """(9, instants), in the order of the model's joints."""
    wrench: Mapping[str, np.ndarray]
    """Of the ground on each foot, (3, instants): force along x and z [N], moment about the y axis through the origin [N m]."""
    moments: Mapping[str, np.ndarray]
    """By joint [N m]."""
    under: Mapping[str, np.ndarray]
    """Where the force acts on each foot, from its ankle [m]."""


def walk(person: Model, count: int) -> Walk:
    """One stride of a person, at so many instants."""
    phase = np.arange(count) / count
    feet = {side: foot(phase + 0.5 * k) for k, side in enumerate(SIDES)}
    wanted = pressed = np.sum([f.share * (f.x + f.under) for f in feet.values()], axis=0)
    hips, q, needed, place = _pressing(person, pressed, feet)
    for _ in range(WALKED - 1):
        pressed = pressed + wanted - place
        hips, q, needed, place = _pressing(person, pressed, feet)
    Fx, Fz = needed[:2]
    shift = place - wanted
    wrench, moments = {}, dict(zip(JOINTS, needed, strict=True))
    for side, f in feet.items():
        wrench[side] = f.share * np.stack([Fx, Fz, -(f.x + f.under + shift) * Fz])
        for joint, (x, z, sign) in _hinges(side, hips, q).items():
            fx, fz, about = wrench[side]
            moments[joint] = moments[joint] - sign * (about - z * fx + x * fz)
    return Walk(q, wrench, {j: m for j, m in moments.items() if "_" in j}, {side: f.under + shift for side, f in feet.items()})


def _pressing(person: Model, p: np.ndarray, feet: Mapping[str, Foot]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Hips, joints and generalised forces of the way for p, and where the ground's force then acts."""
    w2 = (2.0 * np.pi * np.fft.rfftfreq(len(p), STRIDE / len(p))) ** 2
    hips = np.fft.irfft(np.fft.rfft(p) / (1.0 + w2 * CENTRE_OF_MASS / GRAVITY), len(p))
    q = _joints(hips, feet)
    needed = _needed(person, q)
    Fx, Fz, turning = needed[:3]  # the root leans about -y
    return hips, q, needed, hips - (q[1] + HIP) * Fx / Fz + turning / Fz


def _joints(hips: np.ndarray, feet: Mapping[str, Foot]) -> np.ndarray:
    """(9, instants): from where hips and feet are."""
    a, b = table()["thigh"].length, table()["shank"].length
    rows = [hips, 0.0 * hips, 0.0 * hips]
    for f in feet.values():
        dx, dz = f.x - hips, HIP - f.z
        knee = np.arccos((dx**2 + dz**2 - a**2 - b**2) / (2.0 * a * b))
        thigh = np.arctan2(dx, dz) + np.arctan2(b * np.sin(knee), a + b * np.cos(knee))
        rows += [thigh, knee, f.pitch - (thigh - knee)]
    return np.array(rows)


def _needed(person: Model, q: np.ndarray) -> np.ndarray:
    """Generalised forces of the prescribed motion; progress at a constant speed takes none."""
    from calibody.mechanics.dynamics import inverse_dynamics_along

    return inverse_dynamics_along(person, q, _derivative(q, 1), _derivative(q, 2))


def _hinges(side: str, hips: np.ndarray, q: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """Place of the hinges of a leg, and 1 if they turn about the y axis, -1 if against it."""
    thigh, knee = (q[JOINTS.index(f"{side}_{name}")] for name in ("hip", "knee"))
    a, b = table()["thigh"].length, table()["shank"].length
    x, z = hips + a * np.sin(thigh), HIP - a * np.cos(thigh)
    shank = thigh - knee
    ankle = x + b * np.sin(shank), z - b * np.cos(shank)
    return {f"{side}_hip": (hips, HIP + 0.0 * hips, -1.0), f"{side}_knee": (x, z, 1.0), f"{side}_ankle": (*ankle, -1.0)}


# -- what is recorded ------------------------------------------------------------------------------------------------------------------


def repeated(values: np.ndarray, count: int) -> np.ndarray:
    """The last axis from one stride to `count` instants."""
    return values[..., np.arange(count) % values.shape[-1]]


def moments(person: Model) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The instants of the frames, and the true moments at them."""
    found, frames = walk(person, round(STRIDE * RATE) * FINE), round(DURATION * RATE) + 1
    return np.arange(frames) / RATE, {joint: repeated(m[::FINE], frames) for joint, m in found.moments.items()}


def _recorded(person: Model, noise: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """The columns: markers, and plates averaged between frames."""
    from calibody.mechanics import host
    from calibody.mechanics.structure import Numbers, Structure

    found, frames = walk(person, round(STRIDE * RATE) * FINE), round(DURATION * RATE) + 1
    t = np.arange(frames) / RATE
    q = repeated(found.q[:, ::FINE], frames)
    q[0] += SPEED * t - START
    structure = Structure.build(person, "tree")
    numbers = Numbers.of(structure)
    H = np.stack([host.configuration(structure, numbers, q[:, k]).frames.H[..., 0] for k in range(frames)], axis=-1)
    yield "t", np.round(t, 6)
    for name, (body, x, z, sd) in MARKERS.items():
        place = H[:, :, structure.body_link[body]].swapaxes(0, 1).T @ np.array([x, 0.0, z, 1.0])
        for axis, values in (("x", place[:, 0]), ("z", place[:, 2])):
            yield f"{name}_{axis}", values + sd * noise.normal(size=frames)
    instants = np.arange(frames * FINE + 1) / (RATE * FINE)
    for side, wrench in found.wrench.items():
        fx, fz, about = repeated(wrench, len(instants))
        about = about - (SPEED * instants - START) * fz
        for column, values, sd in (("fx", fx, FORCE_SD), ("fz", fz, FORCE_SD), ("my", about, TORQUE_SD)):
            means = (0.5 * (values[:-1] + values[1:])).reshape(frames, FINE).mean(axis=1)
            yield f"{side}_{column}", means + sd * noise.normal(size=frames)


def _experiment() -> str:
    lines = [
        "# A person walks over two force plates: what are the moments at hips, knees and ankles?",
        "# calibody fit gait.toml            fits, and writes a folder with the calibrated model and report.html\n",
        '[model]\nfile = "gait.xml"                    # masses of an anthropometric table\n',
        '[[run]]\ndata = "gait.csv"\ntime = "t"\n[run.observe]                        # markers; the noise is larger where more soft tissue is below',
        *(f'"site.{name}.position.{axis}" = {{ column = "{name}_{axis}", sd = {sd} }}' for name, (_, _, _, sd) in MARKERS.items() for axis in "xz"),
        "[run.drive]                          # the plates, whose wrenches act on the feet",
    ]
    for side in SIDES:
        for channel, column, sd in (("force.x", "fx", FORCE_SD), ("force.z", "fz", FORCE_SD), ("torque.y", "my", TORQUE_SD)):
            lines.append(f'"body.{side}_foot.{channel}" = {{ column = "{side}_{column}", hold = "zero", sd = {sd} }}')
    lines.append("# moments that nobody measured: their size [N m], and for how long they stay alike [s]")
    told = ", ".join(f"{key} = {value}" for key, value in MOMENT.items())
    lines += [f'"joint.{side}_{joint}.force" = {{ unknown = true, {told} }}' for side in SIDES for joint in ("hip", "knee", "ankle")]
    return "\n".join(lines) + "\n"


EXAMPLE = Example(name="gait", model=_model(), experiment=_experiment(), truth={}, recorded=lambda person, noise: dict(_recorded(person, noise)))
