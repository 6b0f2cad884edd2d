"""A person of 1.80 m and 75 kg sits in a car seat that shakes. Ten numbers of the body that no ruler reaches are looked for in the heights of ten markers alone, in 0.2 s and eight experiments: stiffness of two
discs of the spine, of the soft tissue of pelvis, belly and chest, damping of the belly's, stiffness and damping of both elbows. It is the largest example of [kraus2006], chapter 14, which took 4.5 hours.

    python examples/sitting_human.py

The thesis prints neither geometry nor masses; this twin is our own. 28 bodies, 82 coordinates: car, chassis, seat, back, its chassis and neck protection; head, neck, thorax, lumbus, pelvis, arms, hands,
legs and feet with the table's masses (`cb.anthropometry`), half of the mass of trunk segments and thighs being soft tissue, bodies of their own. Discs are bushings with tension and compression apart [kraus2006, 6.6],
soft tissue hangs on `c_t dp^3 + d_t v`, joints have passive springs, muscles of the trunk keep it upright. The body rests on foam: pads that push back where they are pressed and shear (bushings with `k_minus`).

The recording begins at rest on the seat. Then the car shakes by 5 mm at 20 Hz, each time in another phase (10 cm, as printed, are 161 g), and padded hammers push hands, pelvis, belly and chest with known
forces, each time in another order and direction: by the sensitivities of the true motion, shaking alone leaves the stiffness of soft tissue to 17 to 34 %. Poses and rates at the start are known, as in the thesis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import calibody as cb

HEIGHT, MASS, NECK = 1.80, 75.0, 1.0
SOFT = 0.5
"""Share of soft tissue in the segments that have it."""
RECLINED, THIGH, SHANK, ARM, FOREARM = -20.0, 80.0, 150.0, 150.0, 85.0
"""Turns of segments about the lateral axis [degrees], from upright, forwards."""
SIDES = {"left": 1.0, "right": -1.0}
DIRECTIONS = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
DISC = {"yy": 122000.0, "rxrx": 179.9, "rzrz": 149.0, "xz": 8000.0, "xry": -800.0, "yrx": 450.0, "yrz": 300.0, "zry": -380.0, "rxrz": -1.5}
"""Stiffness of a disc [kraus2006, 6.6], the upper half of a symmetric matrix; z is along the spine."""
DISC_PLUS = {"x": 140000.0, "z": 390000.0, "ry": 151.8}
DISC_MINUS = {"x": 50000.0, "z": 1083000.0, "ry": 185.6}
AXES = ("x", "y", "z", "rx", "ry", "rz")
MARKERS = {
    "breast": ("thorax", 0.08, 0.0, 0.0), "right_shoulder": ("thorax", 0.0, -0.16, 0.14), "left_shoulder": ("thorax", 0.0, 0.16, 0.14), "right_hand": ("right_hand", 0.025, 0.0, 0.0),
    "left_hand": ("left_hand", 0.025, 0.0, 0.0), "right_hip": ("pelvis", 0.0, -0.17, 0.0), "left_hip": ("pelvis", 0.0, 0.17, 0.0), "right_thigh": ("right_thigh", 0.0, 0.0, 0.25),
    "left_thigh": ("left_thigh", 0.0, 0.0, 0.25), "forehead": ("head", 0.08, 0.06, 0.08),
}  # fmt: skip
NUMBERS = {
    # name: (true, first value)
    "pelvis_lumbus": (0.33, 0.67), "lumbus_thorax": (1.0, 2.5), "pelvis_soft": (1e7, 1.3e7), "lumbus_soft": (1e7, 1.3e7), "thorax_soft": (1e7, 1.3e7), "belly_damping": (100.0, 150.0),
    "left_elbow": (50.0, 75.0), "right_elbow": (50.0, 75.0), "left_elbow_damping": (4.0, 6.5), "right_elbow_damping": (4.0, 6.5),
}  # fmt: skip
"""The ten of the thesis' table 14.2. Those of discs are factors of their matrix."""
TORSO = ("pelvis_lumbus", "lumbus_thorax", "thorax_soft", "left_elbow", "right_elbow", "left_elbow_damping")
"""Those that the smaller twin is asked for."""
TRUNK = {"pelvis": "lower trunk", "lumbus": "middle trunk", "thorax": "upper trunk"}
"""Bones and their segments of the table."""
SHAKE, FREQUENCY, HAMMER, PULL = 0.005, 20.0, 500.0, 60.0
"""Of the car [m, Hz]; largest forces on soft tissue and on hands [N]."""
DURATION, RATE, NOISE, FINE = 0.2, 120.0, 1e-3, 32
"""Of a recording: length [s], samples per second, their noise [m], and simulated steps between them."""


# -- the twin --------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placed:
    """A body, the place of its origin in the car at rest, and its turn about the lateral axis [rad]."""

    body: cb.Body
    at: np.ndarray
    pitch: float

    def point(self, x: float, y: float, z: float) -> np.ndarray:
        c, s = math.cos(self.pitch), math.sin(self.pitch)
        return self.at + np.array([c * x + s * z, y, c * z - s * x])

    def seen(self, point: np.ndarray) -> tuple[float, float, float]:
        """A point of the car in the body's own frame."""
        c, s = math.cos(self.pitch), math.sin(self.pitch)
        x, y, z = point - self.at
        return float(c * x - s * z), float(y), float(s * x + c * z)


def turned(angle: float) -> tuple[float, float, float, float]:
    return math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0


class Twin:
    """Bodies placed in the car, with joints and bushings."""

    def __init__(self) -> None:
        self.placed = {"world": Placed(cb.Body("world"), np.zeros(3), 0.0)}
        self.joints: list[cb.Joint] = []
        self.bushings: list[cb.Bushing] = []

    def body(
        self, name: str, parent: str, at: Sequence[float] | np.ndarray, degrees: float, mass: float, com: Sequence[float], inertia: Sequence[float]
    ) -> Placed:
        on, pitch, place = self.placed[parent], math.radians(degrees), np.asarray(at, dtype=float)
        made = cb.Body(name, parent, mass, tuple(com), tuple(inertia), on.seen(place), turned(pitch - on.pitch))  # type: ignore[arg-type]
        self.placed[name] = Placed(made, place, pitch)
        return self.placed[name]

    def slide(self, name: str, axis: tuple[float, float, float], stiffness: float = 0.0, damping: float = 0.0, body: str = "") -> None:
        self.joints.append(cb.Joint(name, body or name, "slide", axis, stiffness=stiffness, damping=damping))

    def hinge(self, name: str, body: str, stiffness: float, damping: float, axis: tuple[float, float, float] = (0.0, 1.0, 0.0)) -> None:
        self.joints.append(cb.Joint(name, body, "hinge", axis, stiffness=stiffness, damping=damping))

    def ball(self, name: str, body: str, stiffness: float, damping: float) -> None:
        for letter, axis in DIRECTIONS.items():
            self.hinge(f"{name}_{letter}", body, stiffness, damping, axis)

    def loose(self, body: str) -> None:
        """Six ways to move against the parent."""
        for letter, axis in DIRECTIONS.items():
            self.slide(f"{body}_{letter}", axis, body=body)
        self.ball(f"{body}_r", body, 0.0, 0.0)

    def soft(self, bone: str, segment: cb.Segment) -> None:
        """The soft tissue of a segment."""
        on, name = self.placed[bone], f"{bone}_soft"
        com = on.body.com
        self.body(name, bone, on.point(*com), math.degrees(on.pitch), SOFT * segment.mass, (0, 0, 0), [SOFT * i for i in segment.inertia])
        self.loose(name)
        self.bushings.append(
            cb.Bushing(name, bone, name, com, stiffness=(0, 0, 0, 100, 100, 100), damping=(100, 100, 100, 1, 1, 1), k3=(1e7, 1e7, 1e7, 0, 0, 0))
        )

    def disc(self, lower: str, upper: str) -> None:
        """Between two bones, where the upper one begins."""
        place = self.placed[upper].body
        self.bushings.append(disc(f"{lower}_{upper}", lower, upper, place.position, place.orientation))

    def model(self) -> cb.Model:
        bodies = [p.body for name, p in self.placed.items() if name != "world"]
        sites = [cb.Site(name, body, place) for name, (body, *place) in MARKERS.items() if body in self.placed]  # type: ignore[arg-type]
        return cb.Model("sitting human", bodies, self.joints, bushings=self.bushings, sites=sites)


def twin() -> cb.Model:
    """With the true numbers."""
    people, t = cb.anthropometry(HEIGHT, MASS, "male"), Twin()
    car(t)
    trunk(t, people)
    head(t, people)
    for name in TRUNK:
        t.soft(name, people[TRUNK[name]])
    for side, sign in SIDES.items():
        leg(t, people, side, sign)
        arm(t, people, side, sign)
    pads(t)
    return valued(t.model(), {name: true for name, (true, _) in NUMBERS.items()})


def torso() -> cb.Model:
    """Ten bodies of them and 33 coordinates: the car, the bones of the trunk, the soft tissue of the chest, both arms. Small enough for many fits; it has what six of the ten numbers are about."""
    people, t = cb.anthropometry(HEIGHT, MASS, "male"), Twin()
    frame(t)
    trunk(t, people)
    t.soft("thorax", people[TRUNK["thorax"]])
    for side, sign in SIDES.items():
        arm(t, people, side, sign)
    pads(t)
    return valued(t.model(), {name: true for name, (true, _) in NUMBERS.items() if name in TORSO})


def frame(t: Twin) -> None:
    t.body("car", "world", (0, 0, -0.4), 0, 1000.0, (0, 0, 0), (400, 1000, 1000))
    t.slide("car", (0, 0, 1))


def car(t: Twin) -> None:
    frame(t)
    t.body("seat_chassis", "car", (0, 0, -0.25), 0, 12.0, (0, 0, 0), (0.4, 0.4, 0.6))
    t.body("seat", "seat_chassis", (0.15, 0, -0.06), 0, 6.0, (0, 0, 0), (0.12, 0.12, 0.2))
    t.slide("seat", (0, 0, 1), 6e4, 1500.0)
    back = t.body("seatback_chassis", "seat_chassis", (-0.15, 0, -0.1), RECLINED, 6.0, (-0.05, 0, 0.3), (0.3, 0.25, 0.1))
    t.hinge("seatback_chassis", "seatback_chassis", 3000.0, 60.0)
    t.body("seatback", "seatback_chassis", back.point(0, 0, 0.35), RECLINED, 5.0, (0, 0, 0), (0.25, 0.2, 0.1))
    t.slide("seatback", (1, 0, 0), 4e4, 600.0)
    t.body("neck_protection", "seatback_chassis", back.point(0, 0, 0.68), RECLINED, 1.5, (0, 0, 0.1), (0.01, 0.01, 0.005))
    t.hinge("neck_protection", "neck_protection", 150.0, 3.0)


def trunk(t: Twin, people: cb.Anthropometry) -> None:
    parent, at = "car", np.array([0.0, 0.0, 0.085])
    for name, segment in ((name, people[TRUNK[name]]) for name in TRUNK):
        bone = t.body(name, parent, at, RECLINED, (1 - SOFT) * segment.mass, (0, 0, segment.length - segment.com), [(1 - SOFT) * i for i in segment.inertia])
        t.loose(name)
        parent, at = name, bone.point(0, 0, segment.length)
    for lower, upper in (("pelvis", "lumbus"), ("lumbus", "thorax")):
        t.disc(lower, upper)
    height = float(np.linalg.norm(t.placed["thorax"].at - t.placed["pelvis"].at))
    t.bushings.append(cb.Bushing("muscles", "pelvis", "thorax", (0, 0, height), stiffness=(0, 0, 0, 400, 400, 200), damping=(0, 0, 0, 20, 20, 10)))


def head(t: Twin, people: cb.Anthropometry) -> None:
    chest = people[TRUNK["thorax"]]
    neck = t.body("neck", "thorax", t.placed["thorax"].point(0, 0, chest.length + 0.01), RECLINED + 10, NECK, (0, 0, 0.045), (0.002, 0.002, 0.0015))
    t.loose("neck")
    whole = people["head"]
    share = 1.0 - NECK / whole.mass
    t.body("head", "neck", neck.point(0, 0, 0.09), 0, share * whole.mass, (0.01, 0, whole.length - whole.com), [share * i for i in whole.inertia])
    t.hinge("neck", "head", 60.0, 3.0)
    t.disc("thorax", "neck")


def disc(name: str, lower: str, upper: str, place: tuple, turn: tuple) -> cb.Bushing:
    K = [DISC.get(a + b, DISC.get(b + a, 0.0)) for a in AXES for b in AXES]
    plus, minus = (tuple(part.get(a, 0.0) for a in AXES) for part in (DISC_PLUS, DISC_MINUS))
    return cb.Bushing(name, lower, upper, place, orientation1=turn, stiffness=tuple(K), damping=(300, 300, 300, 1, 1, 1), k_plus=plus, k_minus=minus)


def leg(t: Twin, people: cb.Anthropometry, side: str, sign: float) -> None:
    thigh, shank, foot = people["thigh"], people["shank"], people["foot"]
    upper = t.body(
        f"{side}_thigh", "pelvis", t.placed["pelvis"].point(0, 0.085 * sign, 0), THIGH, (1 - SOFT) * thigh.mass, (0, 0, thigh.com), [(1 - SOFT) * i for i in thigh.inertia]
    )  # fmt: skip
    t.ball(f"{side}_hip", f"{side}_thigh", 60.0, 5.0)
    t.soft(f"{side}_thigh", thigh)
    lower = t.body(f"{side}_shank", f"{side}_thigh", upper.point(0, 0, thigh.length), SHANK, shank.mass, (0, 0, shank.com), shank.inertia)
    t.hinge(f"{side}_knee", f"{side}_shank", 40.0, 4.0)
    t.body(f"{side}_foot", f"{side}_shank", lower.point(0, 0, shank.length), 0, foot.mass, (foot.com - 0.05, 0, -0.04), foot.inertia[::-1])
    t.ball(f"{side}_ankle", f"{side}_foot", 30.0, 2.0)


def arm(t: Twin, people: cb.Anthropometry, side: str, sign: float) -> None:
    upper, fore, hand = people["upper arm"], people["forearm"], people["hand"]
    top = t.body(f"{side}_upper_arm", "thorax", t.placed["thorax"].point(0, 0.18 * sign, 0.157), ARM, upper.mass, (0, 0, upper.com), upper.inertia)
    t.ball(f"{side}_shoulder", f"{side}_upper_arm", 40.0, 3.0)
    low = t.body(f"{side}_forearm", f"{side}_upper_arm", top.point(0, 0, upper.length), FOREARM, fore.mass, (0, 0, fore.com), fore.inertia)
    t.hinge(f"{side}_elbow", f"{side}_forearm", 50.0, 4.0)
    t.body(f"{side}_hand", f"{side}_forearm", low.point(0, 0, fore.length), FOREARM, hand.mass, (0, 0, hand.com), hand.inertia)


def pads(t: Twin) -> None:
    """Foam under and behind the body: name, what rests on it, where, on what (a car without a seat is one), its normal's turn [degrees], stiffness."""
    places = [(f"{name}_back", name, (-0.11, 0.0, 0.1), "seatback", RECLINED + 90, 6000.0) for name in ("pelvis", "lumbus", "thorax")]
    for side, sign in SIDES.items():
        places += [
            (f"{side}_ischium", "pelvis", (0.02, 0.06 * sign, -0.085), "seat", 0.0, 7000.0),
            (f"{side}_thigh_near", f"{side}_thigh", (0.08, 0.0, 0.15), "seat", 0.0, 5000.0),
            (f"{side}_thigh_far", f"{side}_thigh", (0.07, 0.0, 0.3), "seat", 0.0, 5000.0),
            (f"{side}_heel", f"{side}_foot", (-0.05, 0.0, -0.08), "car", 0.0, 20000.0),
            (f"{side}_toes", f"{side}_foot", (0.14, 0.0, -0.08), "car", 0.0, 20000.0),
        ]
    for name, body, point, seat, normal, stiffness in places:
        if body not in t.placed:
            continue
        on = seat if seat in t.placed else "car"
        base = t.placed[on]
        place, turn = base.seen(t.placed[body].point(*point)), turned(math.radians(normal) - base.pitch)
        shear, damping = (4000.0, 4000.0, 0, 0, 0, 0), (150.0, 150.0, 150.0, 0, 0, 0)
        t.bushings.append(cb.Bushing(name, on, body, place, point, turn, stiffness=shear, damping=damping, k_minus=(0, 0, stiffness, 0, 0, 0)))


# -- what is unknown -------------------------------------------------------------------------------------------------------------------


def places(name: str) -> dict[str, float]:
    """Where one of the ten stands, and by what it is multiplied there."""
    if name in ("pelvis_lumbus", "lumbus_thorax"):
        whole = {f"stiffness.{a}{b}": DISC[a + b if a + b in DISC else b + a] for a in AXES for b in AXES if a + b in DISC or b + a in DISC}
        whole |= {f"{field}.{a}": k for field, part in (("k_plus", DISC_PLUS), ("k_minus", DISC_MINUS)) for a, k in part.items()}
        return {f"bushing.{name}.{place}": k for place, k in whole.items()}
    if name == "belly_damping":
        return {f"bushing.lumbus_soft.damping.{a}{a}": 1.0 for a in "xyz"}
    if name.endswith("_soft"):
        return {f"bushing.{name}.k3.{a}": 1.0 for a in "xyz"}
    field = "damping" if name.endswith("_damping") else "stiffness"
    return {f"joint.{name.removesuffix('_damping')}.{field}": 1.0}


def valued(model: cb.Model, numbers: Mapping[str, float]) -> cb.Model:
    return model.replace({path: factor * x for name, x in numbers.items() for path, factor in places(name).items()})


def unknowns(names: Sequence[str] = tuple(NUMBERS)) -> dict[str, cb.Unknown]:
    return {name: cb.Unknown(NUMBERS[name][1], lower=0.0, places={path: f"{factor!r} * {name}" for path, factor in places(name).items()}) for name in names}


# -- what is recorded ------------------------------------------------------------------------------------------------------------------


def resting(model: cb.Model, step: float = 0.004) -> dict[str, float]:
    """Coordinates and rates on the seat: the motion has died away."""
    motion = cb.simulate(model, 600 * step, step, drive={"joint.car.position": lambda t: 0.0 * t})
    moving = [j for j in model.joints if j.name != "car"]
    at = {f"joint.{j.name}.{'position' if j.kind == 'slide' else 'angle'}" for j in moving} | {f"joint.{j.name}.rate" for j in moving}
    return {channel: float(motion[channel][-1]) for channel in sorted(at)}


def pushed(force: float, at: float) -> Callable[[np.ndarray], np.ndarray]:
    """A padded hammer for 60 ms from `at` on."""

    def push(t: np.ndarray) -> np.ndarray:
        s = np.clip((np.asarray(t) - at) / 0.06, 0.0, 1.0)
        return force * (4.0 * s * (1.0 - s)) ** 4

    return push


def shaken(phase: float, still: float) -> Callable[[np.ndarray], np.ndarray]:
    """The car's place; after a while of rest shaking sets in smoothly within 30 ms."""

    def place(t: np.ndarray) -> np.ndarray:
        t = np.asarray(t) - still
        s = np.clip(t / 0.03, 0.0, 1.0)
        return SHAKE * s**4 * (35.0 - 84.0 * s + 70.0 * s**2 - 20.0 * s**3) * np.sin(2.0 * np.pi * FREQUENCY * t + phase)

    return place


def drives(experiment: int, model: cb.Model, still: float) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Of one of eight experiments, on what the model has."""

    def sign(k: int) -> int:
        return -1 if experiment >> k & 1 else 1

    out = {"joint.car.position": shaken(2.0 * np.pi * experiment / 8, still)}
    out["body.left_hand.force.z"] = pushed(PULL * sign(0), 0.02 + 0.01 * (experiment % 3))
    out["body.right_hand.force.z"] = pushed(PULL * sign(1), 0.05)
    for k, body in enumerate(("pelvis_soft", "lumbus_soft", "thorax_soft")):
        size = 1.0 if k == experiment % 3 else 0.5
        out[f"body.{body}.force.z"] = pushed(HAMMER * size * sign((k + experiment) % 3), 0.025 * ((experiment + k) % 4))
    bodies = {b.name for b in model.bodies}
    return {channel: f for channel, f in out.items() if channel.split(".")[1] in bodies}


def recorded(model: cb.Model, start: Mapping[str, float], experiment: int, random: np.random.Generator, fine: int = FINE, still: float = 0.0) -> cb.Recording:
    """Heights of the markers, simulated in so many steps between samples, after so long a rest [s]. With the fit's own steps nothing is left of the discretisation."""
    given = drives(experiment, model, still)
    motion = cb.simulate(model, DURATION, 1.0 / (RATE * fine), initial=start, drive=given)
    t, instants = motion.time[::fine], np.linspace(0.0, DURATION, round(DURATION * RATE) * 16 + 1)
    heights = {f"site.{s.name}.position.z": motion[f"site.{s.name}.position.z"][::fine] for s in model.sites}
    observed = tuple(cb.Observation(channel, t, z + NOISE * random.normal(size=len(t)), sd=NOISE) for channel, z in heights.items())
    driven = tuple(cb.Drive(channel, cb.Signal(instants, f(instants), "linear")) for channel, f in given.items())
    return cb.Recording(f"experiment {experiment + 1}", observed, driven, initial=dict(start))


def shot(model: cb.Model, runs: Sequence[cb.Recording], names: Sequence[str], h: float) -> cb.Result:
    """Single shooting from the first values: the start is known, so only the numbers are free."""
    guess = valued(model, {name: NUMBERS[name][1] for name in names})
    return cb.fit(guess, runs, unknowns(names), method=cb.Shooting(windows=1, h=h))


def fitted(experiments: int = 8, seed: int = 0, h: float = 1.0 / 480.0) -> cb.Result:
    """The ten numbers. With steps of 1/360 s the estimates of eight experiments still move by their scatter when steps are halved."""
    model, random = twin(), np.random.default_rng(seed)
    start = resting(model)
    return shot(model, [recorded(model, start, k, random) for k in range(experiments)], tuple(NUMBERS), h)


if __name__ == "__main__":
    result = fitted()
    print(result)
    for name, (true, _) in NUMBERS.items():
        found = result.parameters[name]
        print(
            f"{name:22} {true:10.4g}",
            "not determined" if found.sd is None else f"{found.value:10.4g} +- {found.sd:.2g}  ({(found.value - true) / found.sd:+.1f})",
        )
