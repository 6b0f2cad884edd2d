"""Whether measured torques are those that the measured motion needs, by inverse dynamics on smoothed positions.

With q, its rate v and acceleration a from a low-pass of the positions, and the torques tau through the same low-pass,

    tau = sum_bodies c_b ID_b(q, v, a) + rest(q, v, a) + stiffness (q - springref) + damping v + friction sign(v)

is linear in the factors c_b of the bodies' masses and, where the model has springs at joints, in their stiffness; the rest (rotors behind gears, springs between points) is the model's. With a payload the factors and the
springs are the model's too, and the payload's mass and its mass times its place come instead. The factor of a single joint, with which its torque is fitted best, tells units and signs (1000: millinewton metres; -1: the other direction); shifting tau by half a sample tells whether a sample is held until the next one
or belongs to its instant; friction and payload are first values for a fit. This is no estimate: noise in the positions makes accelerations wrong, and no error bar says by how much.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from calibody.mechanics.dynamics import forces_along
from calibody.model import Body, Model
from calibody.model.elements import SCALARS
from calibody.recording.filters import lowpass

CUTOFFS = (1.5, 3.0, 6.0, 12.0)
"""Hz: the low-pass of all signals; that with which the motion explains most is taken (accelerations of noisy positions need a low one, quick motions a high one). At most an eighth of
the sampling frequency."""
INSTANTS, EQUATIONS = 60, 300
"""At least so many instants, and so many equations of all joints together, are looked at."""
ENDS = 0.08
"""Share of the recording at each end that is left out: the low-pass is unsure there."""
BETTER = 0.9
"""Square of what is left with a term over that without it, below which the term is there."""
CLEARLY = 0.7
"""The same for joining samples by straight lines instead of holding them, which is what controllers do."""
LITTLE = 0.02
"""Share of a torque that a friction worth knowing has."""
NOTICED = 0.01
"""Share of a torque's size from which dry friction is worth an unknown."""


@dataclass(frozen=True)
class Motion:
    """Positions, rates, accelerations (instants, joints) and torques, low-passed, at some instants; the joints in the order of the model's equations."""

    joints: tuple[str, ...]
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    torque: dict[str, np.ndarray]
    """By "linear" and "zero": the torques if a sample belongs to its instant, and if it is held from then on."""


@dataclass(frozen=True)
class Explained:
    """What the regression found."""

    factor: dict[str, float]
    """By joint: torque over what the model's masses need."""
    left: dict[str, float]
    """By joint: share of the torque (in squares) that is not explained."""
    damping: dict[str, float]
    friction: dict[str, float]
    """By joint, where it makes a difference; in SI units."""
    stiffness: dict[str, float]
    """By joint, where the model has a spring; none with a payload."""
    hold: str
    payload: tuple[float, np.ndarray] | None
    """Mass and centre of mass."""
    little: dict[str, float]
    """By joint: a damping that would be a small part (`LITTLE`) of its torque, to begin with where the regression finds none."""


def in_order(model: Model) -> tuple[str, ...] | None:
    """The joints in the order of the equations; None if there are others than hinges and slides, or closed loops."""
    order = tuple(j.name for body in model.ordered_bodies for j in model.joints_of(body.name))
    return (
        order if order and not model.loops and not model.bushings and all(model.joint(j).kind in SCALARS and not model.joint(j).soft for j in order) else None
    )


def smoothed(order: tuple[str, ...], times: np.ndarray, positions: dict[str, np.ndarray], torques: dict[str, np.ndarray], cutoff: float) -> Motion:
    """`positions` and `torques` by joint, on one clock [s], in SI units; a joint without a torque is not driven."""
    period = float(np.median(np.diff(times)))
    cutoff = min(cutoff, 1.0 / (8.0 * period))
    span = times[-1] - times[0]
    at = np.linspace(times[0] + ENDS * span, times[-1] - ENDS * span, max(INSTANTS, EQUATIONS // len(order)))
    curves = [lowpass(times, positions[j], cutoff) for j in order]
    q, v, a = (np.stack([c(at, k) for c in curves], axis=1) for k in range(3))
    driven = [lowpass(times, torques[j], cutoff) if j in torques else None for j in order]
    torque = {
        hold: np.stack([np.zeros(len(at)) if c is None else c(at - shift) for c in driven], axis=1) for hold, shift in (("linear", 0.0), ("zero", 0.5 * period))
    }
    return Motion(order, q, v, a, torque)


def explained(model: Model, motion: Motion, payload: Body | None = None) -> Explained:
    """The regression, with the better hold; `payload` is the frame it hangs on, as a body without mass."""
    bare = _without_friction(model)
    own = forces_along(bare, motion.q, motion.v, motion.a)
    springy = [] if payload is not None else _springy(model, motion)
    shared, known = _linear(bare, motion) if payload is None else (_payload_columns(bare, payload, motion, own), own)
    found = {hold: _regressed(motion, motion.torque[hold] - known, motion.torque[hold], shared) for hold in ("zero", "linear")}
    hold = "linear" if found["linear"][0] < CLEARLY * found["zero"][0] else "zero"
    _, left, damping, friction, first = found[hold]
    factor = {j: _factor(motion.torque[hold][:, k], own[:, k], motion.v[:, k]) for k, j in enumerate(motion.joints)}
    carried = (float(first[0]), first[1:4] / first[0]) if payload is not None and first[0] > 0.0 else None
    sizes, rates = (np.sqrt(np.mean(x**2, axis=0)) for x in (motion.torque[hold], motion.v))
    little = {j: LITTLE * float(f / r) for j, f, r in zip(motion.joints, sizes, rates, strict=True) if f > 0.0 and r > 0.0}
    stiffness = dict(zip(springy, map(float, first[len(first) - len(springy) :]), strict=True))
    return Explained(factor, left, damping, friction, stiffness, hold, carried, little)


def unexplained(model: Model, motion: Motion) -> float:
    """Share of all joints' torques that no masses and frictions explain, none of them negative, whichever the torques' sign: a motion that belongs to other joints needs negative ones."""
    shared, known = _linear(_without_friction(model), motion)
    torque = motion.torque["zero"]
    weight = _weights(torque, shared)
    columns = _columns(motion, shared, weight, np.ones(len(motion.joints), dtype=bool))
    scale = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    return min(nnls(columns / scale, ((side * torque - known) * weight).ravel())[1] ** 2 for side in (1.0, -1.0)) / len(torque)


def _without_friction(model: Model) -> Model:
    joints = [dataclasses.replace(j, damping=0.0, friction=0.0, stribeck=0.0, load_friction=0.0, load_stribeck=0.0) for j in model.joints]
    return dataclasses.replace(model, joints=tuple(joints), actuators=())


def _springy(model: Model, motion: Motion) -> list[str]:
    """Joints that have a spring."""
    return [j for j in motion.joints if model.joint(j).stiffness > 0.0]


def _linear(model: Model, motion: Motion) -> tuple[list[np.ndarray], np.ndarray]:
    """What every body that moves needs by itself, and a spring of 1 N m/rad at every joint that has one; and what all the rest of the model needs."""

    def needed(bodies: tuple[Body, ...]) -> np.ndarray:
        return forces_along(dataclasses.replace(model, bodies=bodies, joints=loose), motion.q, motion.v, motion.a)

    springy, loose = _springy(model, motion), tuple(dataclasses.replace(j, stiffness=0.0) for j in model.joints)
    without = tuple(dataclasses.replace(b, mass=0.0, com=(0.0, 0.0, 0.0), inertia=(0.0,) * 6) for b in model.bodies)
    rest = needed(without)
    columns = [needed((*without[:k], b, *without[k + 1 :])) - rest for k, b in enumerate(model.bodies) if b.mass > 0.0]
    each = np.arange(len(motion.joints))
    pulls = [np.where(each == k, motion.q - model.joint(j).springref, 0.0) for k, j in enumerate(motion.joints) if j in springy]
    return [*(c for c in columns if np.any(c)), *pulls], rest


def _payload_columns(model: Model, payload: Body, motion: Motion, own: np.ndarray) -> list[np.ndarray]:
    """What 1 kg in the frame needs, and 1 kg m along each of its axes (that of 1 kg there, less that of 1 kg in the frame and of its distance squared: the inertia is taken away)."""

    def needed(com: tuple[float, ...], inertia: tuple[float, ...]) -> np.ndarray:
        body = dataclasses.replace(payload, mass=1.0, com=com, inertia=inertia)  # type: ignore[arg-type]
        return forces_along(dataclasses.replace(model, bodies=(*(b for b in model.bodies if b.name != payload.name), body)), motion.q, motion.v, motion.a) - own

    small = 1e-3
    first = needed((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    shifted = [needed(tuple(small if i == k else 0.0 for i in range(3)), (0.0, 0.0, 0.0)) for k in range(3)]
    return [first, *((x - first) / small for x in shifted)]


def _factor(torque: np.ndarray, own: np.ndarray, rate: np.ndarray) -> float:
    """Of one joint: torque over what the masses need, friction aside."""
    columns = np.stack([own, rate, np.sign(rate), np.ones(len(own))], axis=1)
    scale = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    return float((np.linalg.lstsq(columns / scale, torque, rcond=None)[0] / scale)[0])


def _regressed(
    motion: Motion, wanted: np.ndarray, torque: np.ndarray, shared: list[np.ndarray]
) -> tuple[float, dict[str, float], dict[str, float], dict[str, float], np.ndarray]:
    """All joints at once, each weighed: first without dry friction, then with it where that helps."""
    count, weight = len(motion.joints), _weights(torque, shared)
    dry = np.zeros(count, dtype=bool)
    x, left = _solved(motion, wanted * weight, shared, weight, dry)
    tried, less = _solved(motion, wanted * weight, shared, weight, ~dry)
    dry = (less < BETTER * left) & (tried[-count:] * weight > NOTICED)
    if dry.any():
        x, left = _solved(motion, wanted * weight, shared, weight, dry)
    first, damping, friction = np.split(x, [len(shared), len(shared) + count])
    rubbing = [j for j, there in zip(motion.joints, dry, strict=True) if there]
    by_joint = [dict(zip(names, map(float, values), strict=True)) for names, values in ((motion.joints, left), (motion.joints, damping), (rubbing, friction))]
    return float(np.sum(left)), by_joint[0], by_joint[1], by_joint[2], first


def _weights(torque: np.ndarray, shared: list[np.ndarray]) -> np.ndarray:
    """By joint: one over its torque; of one that nothing drives, over what the bodies need there."""
    sizes = [np.sqrt(np.mean(x**2, axis=0)) for x in (torque, *shared)]
    return 1.0 / np.maximum(np.where(sizes[0] > 0.0, sizes[0], np.max(sizes, axis=0)), 1e-12)


def _columns(motion: Motion, shared: list[np.ndarray], weight: np.ndarray, dry: np.ndarray) -> np.ndarray:
    """Of the regression: shared; damping; friction of the dry joints."""
    each = np.arange(len(motion.joints))
    own = [np.where(each == k, x, 0.0) for x, which in ((motion.v, each), (np.sign(motion.v), np.flatnonzero(dry))) for k in which]
    return np.stack([(c * weight).ravel() for c in (*shared, *own)], axis=1)


def _solved(motion: Motion, target: np.ndarray, shared: list[np.ndarray], weight: np.ndarray, dry: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and what is left of every joint's torque, in units of its mean square."""
    columns = _columns(motion, shared, weight, dry)
    scale = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    x = np.linalg.lstsq(columns / scale, target.ravel(), rcond=1e-10)[0] / scale
    return x, np.mean((target.ravel() - columns @ x).reshape(target.shape) ** 2, axis=0)
