"""Many tosses of one rigid body at once: flights under gravity and single impacts, for searches that need thousands of rough motions and no exact one.

A particle has the place x and the velocity v of the centre of mass, the orientation R and the angular momentum L about the centre of mass, in world axes (arrays with the particles last), and
numbers of its own: mass, inertia, the shapes that touch, friction, restitution. Between impacts

    x += v dt + g dt^2/2,   v += g dt,   w = I^-1 L at exp(w dt/2) R,   R <- exp(w dt) R

which keeps L, and is exact where w is constant: in a plane, and of bodies with three equal moments. Where gaps are negative after a step, the parabola through their values at its beginning, middle
and end says when each came to zero; the earliest is the impact. Its impulses are those of the law of one place alone (`complementarity/single.py`) with Newton's restitution; whether that makes energy is
not looked at. What approaches slower than a fall of `SLOW` does not come back.

A body flies freely (`Flyer.of`) where it is the only one with mass, nothing but gravity acts on it, and its joints let it move in space, or in a plane, as it pleases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from calibody.complementarity.single import alone
from calibody.mechanics import shapes
from calibody.mechanics.contact import Spots, basis
from calibody.mechanics.elements.law import LAW
from calibody.mechanics.kinematics import Geometry, poses, twists
from calibody.mechanics.shapes import Pose
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model
from calibody.model.contact import NEWTON
from calibody.spatial.inertia import symmetric

SLOW = 2e-3
"""Seconds."""
STILL = 1e-9
"""Mobility that a tangent is given along which nothing moves, relative to that of the normal."""
AT_ONCE = 4
"""Impacts of one particle in one step at most."""
EQUAL = 1e-9
"""Relative difference of moments that are equal."""


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Along the first axis."""
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def turned(R: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """`exp(phi) R` of orientations R (3, 3, particles), phi (3, particles)."""
    angle2 = (phi * phi).sum(0)
    angle = np.sqrt(angle2)
    small = angle < 1e-6
    safe = np.where(small, 1.0, angle)
    one, two = np.where(small, 1.0 - angle2 / 6.0, np.sin(safe) / safe), np.where(small, 0.5, (1.0 - np.cos(safe)) / safe**2)
    across = cross(phi[:, None], R)
    return R + one * across + two * cross(phi[:, None], across)


@dataclass(frozen=True)
class Flyer:
    """Which link of a mechanism flies, along and about which axes of the world, and with what it touches."""

    structure: Structure
    link: int
    along: np.ndarray
    """(directions, 3) in which it moves: orthonormal."""
    about: np.ndarray
    """(axes, 3) about which it turns; three, or one across the directions."""
    kept: np.ndarray
    """The spots that are looked at."""

    INERTIAL: ClassVar[np.ndarray] = np.r_[0, 4:13]
    """Where the mass and the inertia are in `vector`."""

    @classmethod
    def of(cls, structure: Structure, model: Model, numbers: Numbers, q: np.ndarray) -> Flyer | None:
        """None where no body flies freely; `q`: any coordinates (nq,)."""
        massive = np.flatnonzero(numbers.inertia[9] != 0.0)
        if len(massive) != 1 or structure.coordinates != TREE or structure.nc or structure.prescribed or not model.contacts or model.limits:
            return None
        acting = np.abs(numbers.law[[LAW.index(f) for f in ("stiffness", "damping", "friction", "armature")]]).any() or np.abs(numbers.ball_law).any()
        others = any(table.shape[1] for name, table in numbers.elements.items() if name != "law")
        spots, link = Spots.of(structure, model), int(massive[0])
        apart = (spots.links[0] != link).any() or (spots.links[1] != structure.n).any()
        if acting or others or apart or any(c.law != NEWTON for c in model.contacts):
            return None
        geometry = Geometry.of(structure, numbers)
        T = twists(structure, geometry, poses(structure, geometry, q))
        turns = (T[:3] != 0.0).any(axis=0)
        along, about = T[3:, ~turns].T, T[:3, turns].T
        orthonormal = all(np.allclose(A @ A.T, np.eye(len(A)), atol=1e-9) for A in (along, about))
        plane = len(along) == 2 and len(about) == 1 and np.allclose(along @ about.T, 0.0, atol=1e-9)
        space = len(along) == 3 and len(about) == 3
        if not (orthonormal and (plane or space)):
            return None
        return cls(structure, link, along, about if plane else np.eye(3), np.arange(spots.count))

    @property
    def plane(self) -> bool:
        return len(self.about) == 1

    @property
    def freedom(self) -> int:
        return len(self.along) + len(self.about)

    def vector(self, model: Model) -> np.ndarray:
        """The numbers of a model that flights and impacts need, which are linear in each of its own."""
        body = model.bodies[self._body]
        spots = Spots.of(self.structure, model)
        parts = [
            np.array([body.mass, *body.com]),
            symmetric(body.inertia).ravel(),
            np.asarray(model.gravity),
            spots.friction[self.kept],
            spots.restitution[self.kept],
        ]
        return np.concatenate([*parts, *(data[:, here].ravel() for (*_, data), here in self._groups(spots))])

    @property
    def _body(self) -> int:
        name = self.structure.tree_units[self.link].body.name
        return next(i for i, b in enumerate(self.structure.model.bodies) if b.name == name)

    def _groups(self, spots: Spots) -> list[tuple[tuple, np.ndarray]]:
        """Every kernel with those of its spots that are kept."""
        out, begin = [], 0
        for group in spots.groups:
            count = group[3].shape[1]
            here = self.kept[(self.kept >= begin) & (self.kept < begin + count)] - begin
            out.append((group, here))
            begin += count
        return out

    def bodies(self, vectors: np.ndarray) -> Bodies:
        """From such numbers (numbers, particles), one column each."""
        m, P, at = len(self.kept), vectors.shape[1], 15
        friction, restitution = vectors[at + 1 : at + 1 + m], vectors[at + 1 + m : at + 1 + 2 * m]
        at, groups = at + 1 + 2 * m, []
        for (kernel, _, _, data), here in self._groups(Spots.of(self.structure)):
            size = len(data) * len(here)
            groups.append((kernel, vectors[at : at + size].reshape(len(data), len(here), P)))
            at += size
        inertia = vectors[4:13].reshape(3, 3, P)
        return Bodies(self, vectors[0], vectors[1:4], inertia, vectors[13:16, 0], groups, np.maximum(friction, 0.0), np.clip(restitution, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class Swarm:
    """Where particles are and how they move."""

    x: np.ndarray
    R: np.ndarray
    v: np.ndarray
    L: np.ndarray

    def of(self, which: np.ndarray) -> Swarm:
        return Swarm(self.x[:, which], self.R[..., which], self.v[:, which], self.L[:, which])

    def put(self, which: np.ndarray, other: Swarm) -> Swarm:
        """With some of them replaced."""
        new = Swarm(self.x.copy(), self.R.copy(), self.v.copy(), self.L.copy())
        for mine, its in ((new.x, other.x), (new.R, other.R), (new.v, other.v), (new.L, other.L)):
            mine[..., which] = its
        return new


class Bodies:
    """The numbers of all particles."""

    def __init__(
        self, flyer: Flyer, mass: np.ndarray, com: np.ndarray, inertia: np.ndarray, gravity: np.ndarray, groups: list[tuple[str, np.ndarray]],
        friction: np.ndarray, restitution: np.ndarray,
    ) -> None:  # fmt: skip
        self.flyer, self.mass, self.com, self.inertia = flyer, mass, com, inertia
        self.groups, self.friction, self.restitution = groups, friction, restitution
        self.project = flyer.along.T @ flyer.along
        self.gravity = self.project @ gravity
        moments = inertia - inertia[0, 0] * np.eye(3)[:, :, None]
        self.steady = flyer.plane or bool(np.abs(moments).max() <= EQUAL * np.abs(inertia).max())
        self.inverse = None if flyer.plane else np.moveaxis(np.linalg.inv(np.moveaxis(inertia, 2, 0)), 0, 2)

    def of(self, which: np.ndarray) -> Bodies:
        new = object.__new__(Bodies)
        new.__dict__.update(self.__dict__)
        new.mass, new.com, new.inertia, new.friction, new.restitution = (
            x[..., which] for x in (self.mass, self.com, self.inertia, self.friction, self.restitution)
        )
        new.groups = [(kernel, data[..., which]) for kernel, data in self.groups]
        new.inverse = None if self.inverse is None else self.inverse[..., which]
        return new

    def turning(self, R: np.ndarray, L: np.ndarray) -> np.ndarray:
        """Angular velocities from angular momenta (3, particles)."""
        if self.inverse is None:
            a = self.flyer.about[0]
            own = np.einsum("ijp,i->jp", R, a)
            return a[:, None] * (a @ L) / np.einsum("ip,ijp,jp->p", own, self.inertia, own)
        return (R * (self.inverse * (R * L[:, None]).sum(0)[None]).sum(1)[None]).sum(1)

    def momenta(self, R: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Angular momenta from angular velocities; in a plane the part about its axis."""
        L = (R * (self.inertia * (R * w[:, None]).sum(0)[None]).sum(1)[None]).sum(1)
        return L if self.inverse is not None else self.flyer.about[0][:, None] * (self.flyer.about[0] @ L)

    def flown(self, s: Swarm, dt: np.ndarray | float) -> Swarm:
        """After dt without impacts; dt may be negative."""
        w = self.turning(s.R, s.L)
        if not self.steady:
            w = self.turning(turned(s.R, 0.5 * dt * w), s.L)
        g = self.gravity[:, None]
        return Swarm(s.x + dt * s.v + 0.5 * dt * dt * g, turned(s.R, dt * w), s.v + dt * g, s.L)

    def origin(self, s: Swarm) -> np.ndarray:
        """(3, particles) of the link."""
        return s.x - (s.R * self.com[None]).sum(1)

    def origin_velocity(self, s: Swarm, w: np.ndarray) -> np.ndarray:
        return s.v - cross(w, (s.R * self.com[None]).sum(1))

    def touch(self, s: Swarm) -> shapes.Touch:
        mine, world = Pose(s.R[:, :, None], self.origin(s)[:, None]), Pose(np.eye(3)[:, :, None, None], np.zeros((3, 1, 1)))
        parts = [shapes.KERNELS[kernel](mine, world, data) for kernel, data in self.groups]
        return parts[0] if len(parts) == 1 else shapes.Touch(*(np.concatenate(x, axis=-2) for x in zip(*parts, strict=True)))

    def gaps(self, s: Swarm) -> np.ndarray:
        return self.touch(s).gap

    def struck(self, s: Swarm, spot: np.ndarray) -> tuple[Swarm, np.ndarray, np.ndarray]:
        """After the impact of one place of each, which of them slip, and which were impacts: that approached."""
        touch, P = self.touch(s), np.arange(len(spot))
        normal, at = touch.normal[:, spot, P] if touch.normal.shape[1] > 1 else touch.normal[:, 0, :] + 0.0 * s.x, touch.at_a[:, spot, P]
        directions = basis(normal.T)  # (particles, 3, 3)
        arm = (at - s.x).T
        lin = directions @ self.project
        ang = np.cross(arm[:, None], directions)
        if self.inverse is None:
            a = self.flyer.about[0]
            ang = (ang @ a)[..., None] * a
        answer = np.stack([self.turning(s.R, ang[:, k].T).T for k in range(3)], axis=1)  # I^-1 of each
        W = np.einsum("pki,pli->pkl", lin, lin) / self.mass[:, None, None] + np.einsum("pki,pli->pkl", ang, answer)
        w = self.turning(s.R, s.L)
        u = np.einsum("pki,ip->pk", lin, s.v) + np.einsum("pki,ip->pk", ang, w)
        fast = u[:, 0] < 0.0
        bounced = np.where(-u[:, 0] > SLOW * np.linalg.norm(self.gravity), self.restitution[spot, P], 0.0)
        r = u.copy()
        r[:, 0] += bounced * np.minimum(u[:, 0], 0.0)
        held = W + STILL * W[:, :1, :1] * np.diag([0.0, 1.0, 1.0])
        mu = self.friction[spot, P]
        impulse = np.where(fast[:, None], alone(held, r, mu), 0.0)
        slips = np.hypot(impulse[:, 1], impulse[:, 2]) >= mu * impulse[:, 0] * (1.0 - 1e-9)
        v = s.v + np.einsum("pki,pk->ip", lin, impulse) / self.mass
        return replace(s, v=v, L=s.L + np.einsum("pki,pk->ip", ang, impulse)), slips, fast


@dataclass(frozen=True, eq=False)
class Log:
    """Impacts of all particles, (most, particles): times (infinite where there is none), spots (of the flyer's), whether they slip, and how the particle goes on from each."""

    times: np.ndarray
    spots: np.ndarray
    slips: np.ndarray
    after: list[list[Swarm]]

    @classmethod
    def empty(cls, most: int, particles: int) -> Log:
        return cls(
            np.full((most, particles), np.inf),
            np.zeros((most, particles), dtype=np.int64),
            np.zeros((most, particles), dtype=bool),
            [[] for _ in range(particles)],
        )

    @property
    def count(self) -> np.ndarray:
        return np.isfinite(self.times).sum(axis=0)


def stepped(bodies: Bodies, s: Swarm, t: float, dt: float, log: Log, keep: bool = False) -> Swarm:
    """From t to t + dt through impacts, which are logged; `keep`: with what comes after each."""
    end = bodies.flown(s, dt)
    gap = bodies.gaps(end)
    which = np.flatnonzero((gap < 0.0).any(axis=0) & np.isinf(log.times[-1]))  # who has had its impacts falls through
    if not len(which):
        return end
    some, own, left, fresh = bodies.of(which), s.of(which), np.full(len(which), dt), end.of(which)
    last = gap[:, which]
    active = np.arange(len(which))
    for _ in range(AT_ONCE):
        part, now, rest = some.of(active), own.of(active), left[active]
        when, spot = _first(part, now, rest, last[:, active])
        hit = np.isfinite(when)
        active, part, now, rest, when, spot = active[hit], part.of(hit), now.of(hit), rest[hit], when[hit], spot[hit]
        if not len(active):
            break
        at = part.flown(now, when)
        after, slips, fast = part.struck(at, spot)
        left[active] = rest - when
        own = own.put(active, after)
        for k in np.flatnonzero(fast):
            p = int(which[active[k]])
            n = int(np.isfinite(log.times[:, p]).sum())
            if n < len(log.times):
                log.times[n, p], log.spots[n, p], log.slips[n, p] = t + dt - left[active[k]], spot[k], slips[k]
                if keep:
                    log.after[p].append(after.of(np.array([k])))
        ended = part.flown(after, left[active])
        fresh = fresh.put(active, ended)
        last[:, active] = part.gaps(ended)
        active = active[(last[:, active] < 0.0).any(axis=0)]
        if not len(active):
            break
    return end.put(which, fresh)


def _first(bodies: Bodies, s: Swarm, dt: np.ndarray, c1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """When each particle first touches in the next dt, at whose end the gaps are c1 (spots, particles), and where; infinite: it does not."""
    c0, half = bodies.gaps(s), bodies.gaps(bodies.flown(s, 0.5 * dt))
    a, b = 2.0 * (c0 + c1) - 4.0 * half, 4.0 * half - 3.0 * c0 - c1
    root = np.sqrt(np.maximum(b * b - 4.0 * a * c0, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        crossed = np.where(b < 0.0, 2.0 * c0 / (root - b), (-b - root) / (2.0 * a))
    crossed = np.where((c1 < 0.0) & (c1 < c0), np.clip(np.nan_to_num(crossed, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0), np.inf)
    spot = np.argmin(crossed, axis=0)
    return crossed[spot, np.arange(len(dt))] * dt, spot
