"""Recordings with contact that lasts whose truth is known: simulated at a much finer step than fits take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.integrate import solve_ivp

import calibody as cb
from calibody.steppers.motion import Motion


@dataclass(frozen=True)
class Case:
    """A model with its true numbers, a recording of it without noise, and where fits begin."""

    model: cb.Model
    motion: Motion
    channels: dict[str, float]
    """Standard deviations of what is observed."""
    drives: tuple[cb.Drive, ...]
    period: float
    truth: dict[str, float]
    guess: dict[str, float]

    def recording(self, seed: int | None = 0, more: dict[str, float] | None = None) -> cb.Recording:
        """With noise of a seed; None: the motion itself. `more`: further channels and their noise."""
        k = np.arange(0, len(self.motion.time), round(self.period / self.motion.h))
        random, observed = np.random.default_rng(seed), []
        for path, sd in {**self.channels, **(more or {})}.items():
            noise = 0.0 if seed is None else sd * random.standard_normal(len(k))
            observed.append(cb.Observation(path, self.motion.time[k], self.motion[path][k] + noise, sd))
        return cb.Recording(f"{self.model.name}{seed}", tuple(observed), self.drives)

    def fit(self, seed: int | None = 0, **options: object) -> cb.Result:
        return cb.fit(self.model, self.recording(seed), self.guess, **options)  # type: ignore[arg-type]


def deviations(result: cb.Result, truth: dict[str, float]) -> np.ndarray:
    """In standard deviations; infinite of what has none."""
    return np.array([(result.parameters[p].value - v) / (result.parameters[p].sd or 0.0) if result.parameters[p].sd else np.inf for p, v in truth.items()])


PLANE = [cb.Joint("x", "body", "slide", axis=(1, 0, 0)), cb.Joint("z", "body", "slide", axis=(0, 0, 1)), cb.Joint("turn", "body", axis=(0, 1, 0))]
POSE = {"joint.x.position": 2e-4, "joint.z.position": 2e-4, "joint.turn.angle": 2e-3}


def _pushed(path: str, t: np.ndarray, force: np.ndarray) -> tuple[dict, tuple[cb.Drive, ...]]:
    signal = cb.Signal(t, force, "linear")
    return {path: signal}, (cb.Drive(path, signal),)


@cache
def disk(push: bool = True) -> Case:
    """A disk of 0.1 m slides, then rolls, and slips now and then where it is pushed."""
    R, h, end = 0.1, 5e-4, 1.5
    truth = {"body.body.mass": 0.37, "body.body.inertia.yy": 0.5 * 0.37 * R**2, "contact.floor.friction": 0.2}
    body = cb.Body("body", mass=0.37, inertia=(truth["body.body.inertia.yy"],) * 3)
    rim, floor = cb.Geometry("rim", "body", "sphere", (R,)), cb.Contact("floor", "rim", friction=0.2)
    model = cb.Model("disk", [body], PLANE, geometries=[rim], contacts=[floor])
    t = np.arange(0.0, end + 3 * h, h)
    drive, drives = _pushed("joint.x.force", t, (0.6 * np.sin(2 * np.pi * t / 0.9) + 0.2) if push else 0.0 * t)
    motion = cb.simulate(model, end, h=h, initial={"joint.z.position": R, "joint.x.rate": 1.5}, drive=drive)
    guess = {p: v * factor for (p, v), factor in zip(truth.items(), (2.0, 0.5, 0.5), strict=True)}
    return Case(model, motion, POSE, drives if push else (), 0.01, truth, guess)


@cache
def resting() -> Case:
    """A driven pendulum that strikes a stop without rebound and rests on it for a while, twice."""
    h, end = 2.5e-4, 2.0
    truth = {"body.arm.inertia.yy": 0.005, "joint.hinge.damping": 0.01, "limit.stop.position": 0.2}
    arm = cb.Body("arm", mass=0.5, com=(0, 0, -0.2), inertia=(0.005, 0.005, 0.0004))
    hinge = cb.Joint("hinge", "arm", axis=(0, 1, 0), damping=0.01)
    model = cb.Model("resting", [arm], [hinge], limits=[cb.Limit("stop", "hinge", 0.2, "upper")])
    t = np.arange(0.0, end + 3 * h, h)
    drive, drives = _pushed("joint.hinge.force", t, 0.6 * np.sin(2 * np.pi * 0.9 * t) + 0.3)
    motion = cb.simulate(model, end, h=h, initial={"joint.hinge.angle": -0.3}, drive=drive)
    guess = {p: v * factor for (p, v), factor in zip(truth.items(), (2.0, 0.5, 2.0), strict=True)}
    return Case(model, motion, {"joint.hinge.angle": 1e-3}, drives, 0.004, truth, guess)


@cache
def incline() -> Case:
    """A block on an incline sticks, slips down, sticks and slips up as it is pushed."""
    h, end, tilt = 5e-4, 2.0, 0.2
    truth = {"body.body.mass": 2.0, "contact.floor.friction": 0.5}
    block, hull = cb.Body("body", mass=2.0, inertia=(0.01,) * 3), cb.Geometry("hull", "body", "sphere", (0.05,))
    floor, world = cb.Contact("floor", "hull", friction=0.5), cb.World(ground_tilt=(0.0, tilt))
    model = cb.Model("incline", [block], PLANE[:2], geometries=[hull], contacts=[floor], world=world)
    t = np.arange(0.0, end + 3 * h, h)
    drive, drives = _pushed("joint.x.force", t, -11.0 * np.sin(2 * np.pi * 0.8 * t))
    motion = cb.simulate(model, end, h=h, initial={"joint.z.position": 0.05 / np.cos(tilt)}, drive=drive)
    return Case(model, motion, dict(list(POSE.items())[:2]), drives, 0.01, truth, {"body.body.mass": 4.0, "contact.floor.friction": 0.25})


@cache
def falling_flat(sliding: float = 0.0) -> Case:
    """A box falls flat, slides and stops, with the same friction in its impact and after it, or another."""
    h, a = 5e-4, 0.05
    truth = {"contact.floor.friction": 0.3} | ({"contact.floor.sliding_friction": sliding} if sliding else {})
    body, hull = cb.Body("body", mass=1.0, inertia=(2 / 3 * a**2,) * 3), cb.Geometry("hull", "body", "box", (a, a, a))
    model = cb.Model("flat", [body], PLANE, geometries=[hull], contacts=[cb.Contact("floor", "hull", friction=0.3, sliding_friction=sliding)])
    motion = cb.simulate(model, 1.0, h=h, initial={"joint.z.position": a + 0.08, "joint.x.rate": 1.2})
    return Case(model, motion, POSE, (), 0.005, truth, {p: 0.5 * v for p, v in truth.items()})


@cache
def wheel(friction: float = 0.8, tilt: float = 0.15, end: float = 1.0, h: float = 2.5e-4) -> Case:
    """A rimless wheel of six spokes walks down an incline ([fazeli2017], section 5.2.3): each spoke lands without rebound and carries the wheel to the next, sticking or slipping."""
    mass, length, rate = 1.0, 0.2, 3.2
    inertia = 0.35 * mass * length**2
    feet = [cb.Site(f"foot{k}", "body", (length * np.sin(np.pi * k / 3), 0.0, -length * np.cos(np.pi * k / 3))) for k in range(6)]
    contacts = [cb.Contact(f"floor{k}", f"foot{k}", friction=friction) for k in range(6)]
    model = cb.Model(
        "wheel", [cb.Body("body", mass=mass, inertia=(inertia,) * 3)], PLANE, sites=feet, contacts=contacts, world=cb.World(ground_tilt=(0.0, tilt))
    )
    along = np.array([np.cos(tilt), -np.sin(tilt)])
    start = {"joint.x.position": length * np.sin(tilt), "joint.z.position": length * np.cos(tilt), "joint.turn.angle": tilt, "joint.turn.rate": rate}
    start |= dict(zip(("joint.x.rate", "joint.z.rate"), rate * length * along, strict=True))
    motion = cb.simulate(model, end, h=h, initial=start)
    path = "body.body.inertia.yy"
    return Case(model, motion, POSE | {"joint.turn.angle": 1e-3}, (), 0.004, {path: inertia}, {path: 2 * inertia})


@dataclass(frozen=True)
class Played:
    """A motion of another integrator, as far as recordings are made of it."""

    h: float
    time: np.ndarray
    channels: dict[str, np.ndarray]
    landings: tuple[tuple[float, float], ...]
    """(time, normal impulse)."""

    def __getitem__(self, path: str) -> np.ndarray:
        return self.channels[path]


@cache
def sliding_wheel(friction: float = 0.15, tilt: float = 0.25, end: float = 0.6) -> Case:
    """The wheel where every spoke slides down the incline, moved by a Runge-Kutta method of order 8 from landing to landing: friction of our own simulations is of first order.

    With s down the incline, n away from it, a the angle of the spoke that stands behind straight down and c = (mu L cos a + L sin a)/I,

        n = L cos a,   N (1/m + c L sin a) = g cos(tilt) - L cos a a'^2,   a'' = N c,   s'' = g sin(tilt) - mu N/m

    and at a = 30 degrees the next lands, at -30 degrees: with P (1/m + c L sin a) = L a', a' += P c, s' -= mu P/m.
    """
    mass, L, rate, period, step = 1.0, 0.2, 5.5, 0.004, np.pi / 3
    inertia, g, start = 0.7 * mass * L**2, 9.81, rate * L + 0.8

    def lever(a: float) -> float:
        return (friction * L * np.cos(a) + L * np.sin(a)) / inertia

    def flow(_: float, y: np.ndarray) -> list[float]:
        _, a, v, w = y
        N = (g * np.cos(tilt) - L * np.cos(a) * w**2) / (1.0 / mass + lever(a) * L * np.sin(a))
        assert N > 0.0 and v > w * L * np.cos(a) and w > 0.0  # it slides down and goes on
        return [v, w, g * np.sin(tilt) - friction * N / mass, N * lever(a)]

    def lands(_: float, y: np.ndarray) -> float:
        return y[1] - step / 2

    lands.terminal, lands.direction = True, 1.0  # type: ignore[attr-defined]
    times, parts, landings = np.arange(0.0, end, period), [], []
    t, y, k = 0.0, np.array([0.0, 0.0, start, rate]), 0
    while t < end:
        found = solve_ivp(flow, (t, end + period), y, method="DOP853", rtol=1e-11, atol=1e-12, events=lands, dense_output=True)
        inside = times[(times >= t) & (times < found.t[-1])]
        s, a, *_ = found.sol(inside)
        parts.append(np.stack([s, L * np.cos(a), a + k * step]))
        t = float(found.t[-1])
        if found.status != 1:
            break
        s, _, v, w = found.y[:, -1]
        P = L * w / (1.0 / mass + lever(-step / 2) * L * np.sin(-step / 2))
        landings.append((t, float(P)))
        y, k = np.array([s, -step / 2, v - friction * P / mass, w + P * lever(-step / 2)]), k + 1
    s, n, a = np.concatenate(parts, axis=1)
    at = {"joint.x.position": s * np.cos(tilt) + n * np.sin(tilt), "joint.z.position": n * np.cos(tilt) - s * np.sin(tilt), "joint.turn.angle": a + tilt}
    motion = Played(period, times[: len(s)], at, tuple(landings))
    path, case = "body.body.inertia.yy", wheel(friction, tilt, 0.01)
    model = case.model.replace({f"body.body.inertia.{axis}": inertia for axis in ("xx", "yy", "zz")})
    return replace(case, model=model, motion=motion, truth={path: inertia}, guess={path: 2 * inertia})  # type: ignore[arg-type]


@cache
def arm_and_disk() -> Case:
    """A two-link arm pushes a disk against the ground ([fazeli2017], section 6): the disk drops, the arm lands on it, it slides and rolls out of the wedge and leaves the arm, which swings on. Joint
    torques are known; unknown are three numbers of the arm, two of the disk, and friction at both places."""
    R, upper, lower, h, end = 0.06, 0.3, 0.25, 2.5e-4, 0.35
    bodies = [
        cb.Body("upper", mass=1.0, com=(upper / 2, 0, 0), inertia=(0.001, 0.009, 0.009), position=(0, 0, 0.33)),
        cb.Body("fore", parent="upper", mass=0.6, com=(lower / 2, 0, 0), inertia=(0.0005, 0.004, 0.004), position=(upper, 0, 0)),
        cb.Body("body", mass=0.4, inertia=(0.5 * 0.4 * R**2,) * 3),
    ]
    hinges = [cb.Joint(name, body, axis=(0, 1, 0), damping=0.02) for name, body in (("shoulder", "upper"), ("elbow", "fore"))]
    shapes = [cb.Geometry("rim", "body", "sphere", (R,)), cb.Geometry("tip", "fore", "sphere", (0.02,), position=(lower, 0, 0))]
    contacts = [cb.Contact("floor", "rim", friction=0.06), cb.Contact("push", "tip", "rim", friction=0.3)]
    model = cb.Model("arm", bodies, [*hinges, *PLANE], geometries=shapes, contacts=contacts)
    t = np.arange(0.0, end + 3 * h, h)
    torques = {"joint.shoulder.force": -2.0 + 0.3 * np.sin(2 * np.pi * 2 * t), "joint.elbow.force": -0.6 - 0.1 * np.sin(2 * np.pi * 3 * t)}
    drive = {path: cb.Signal(t, values, "linear") for path, values in torques.items()}
    start = {"joint.shoulder.angle": -0.25, "joint.elbow.angle": 1.85, "joint.x.position": 0.35, "joint.z.position": 0.08}
    motion = cb.simulate(model, end, h=h, initial=start, drive=drive)
    truth = {
        "body.upper.inertia.yy": 0.009,
        "body.fore.com.x": lower / 2,
        "body.fore.inertia.yy": 0.004,
        "body.body.mass": 0.4,
        "body.body.inertia.yy": 0.5 * 0.4 * R**2,
    }
    truth |= {"contact.floor.friction": 0.06, "contact.push.friction": 0.3}
    guess = {p: v * factor for (p, v), factor in zip(truth.items(), (1.3, 0.95, 0.8, 1.3, 0.8, 0.8, 1.2), strict=True)}
    channels = {"joint.shoulder.angle": 2e-4, "joint.elbow.angle": 2e-4, "joint.x.position": 1e-4, "joint.z.position": 1e-4, "joint.turn.angle": 1e-3}
    return Case(model, motion, channels, tuple(cb.Drive(path, signal) for path, signal in drive.items()), 0.002, truth, guess)


@cache
def finger() -> Case:
    """A finger of a gripper comes down on a table, wipes it to and fro, and leaves: two hinges with known torques, friction and height of the table unknown beside its outer link."""
    upper, lower, h, end = 0.1, 0.08, 2.5e-4, 1.0
    bodies = [
        cb.Body("proximal", mass=0.12, com=(upper / 2, 0, 0), inertia=(2e-5, 1.5e-4, 1.5e-4), position=(0, 0, 0.12)),
        cb.Body("distal", parent="proximal", mass=0.08, com=(lower / 2, 0, 0), inertia=(1e-5, 6e-5, 6e-5), position=(upper, 0, 0)),
    ]
    hinges = [cb.Joint(name, body, axis=(0, 1, 0), stiffness=0.3, damping=0.004) for name, body in (("base", "proximal"), ("knuckle", "distal"))]
    tip = cb.Geometry("tip", "distal", "sphere", (0.008,), position=(lower, 0, 0))
    model = cb.Model("finger", bodies, hinges, geometries=[tip], contacts=[cb.Contact("table", "tip", friction=0.4)], world=cb.World(ground_height=0.02))
    t = np.arange(0.0, end + 3 * h, h)
    torques = {"joint.base.force": 0.06 - 0.16 * np.cos(2 * np.pi * 1.2 * t), "joint.knuckle.force": 0.25 + 0.09 * np.sin(2 * np.pi * 3.1 * t)}
    drive = {path: cb.Signal(t, values, "linear") for path, values in torques.items()}
    motion = cb.simulate(model, end, h=h, initial={"joint.base.angle": -0.2, "joint.knuckle.angle": 0.9}, drive=drive)
    truth = {"body.distal.mass": 0.08, "body.distal.inertia.yy": 6e-5, "contact.table.friction": 0.4, "world.ground.height": 0.02}
    guess = {p: v * factor for (p, v), factor in zip(truth.items(), (1.5, 2.0, 0.5, 0.9), strict=True)}
    return Case(model, motion, {"joint.base.angle": 5e-4, "joint.knuckle.angle": 5e-4}, tuple(cb.Drive(p, s) for p, s in drive.items()), 0.004, truth, guess)


@cache
def hopper() -> Case:
    """A leg that hops: a body on a guide, a foot on a spring below it, and a known force between them; the foot lands without rebound, stands, and leaves."""
    h, end = 2.5e-4, 1.6
    bodies = [cb.Body("trunk", mass=2.0), cb.Body("foot", parent="trunk", mass=0.3, position=(0, 0, -0.4))]
    joints = [
        cb.Joint("guide", "trunk", "slide", axis=(0, 0, 1), damping=0.5),
        cb.Joint("leg", "foot", "slide", axis=(0, 0, 1), stiffness=900.0, damping=6.0),
    ]
    sole = cb.Geometry("sole", "foot", "sphere", (0.03,))
    model = cb.Model("hopper", bodies, joints, geometries=[sole], contacts=[cb.Contact("ground", "sole")])
    t = np.arange(0.0, end + 3 * h, h)
    drive, drives = _pushed("joint.leg.force", t, 25.0 * np.sin(2 * np.pi * 2.5 * t))
    motion = cb.simulate(model, end, h=h, initial={"joint.guide.position": 0.5}, drive=drive)
    truth = {"body.trunk.mass": 2.0, "body.foot.mass": 0.3, "joint.leg.stiffness": 900.0, "joint.leg.damping": 6.0}
    guess = {p: v * factor for (p, v), factor in zip(truth.items(), (2.0, 0.5, 0.5, 2.0), strict=True)}
    return Case(model, motion, {"joint.guide.position": 5e-4, "joint.leg.position": 5e-4}, drives, 0.004, truth, guess)
