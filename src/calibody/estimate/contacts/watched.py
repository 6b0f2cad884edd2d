"""What a recording says of the pose of a body that flies freely, sample by sample, and how far a swarm of particles is from it (`steppers/flying.py`).

Every direction that the body moves along and every axis that it turns about must be observed, at the same instants: by the joint of that direction, or by the position and the orientation of the body.
Rates of joints are compared where there are any. What sensors do to the channels (bias, gain) is left out: these are the residuals of a search, the fit that follows has them all.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from calibody.estimate.observe import Data
from calibody.estimate.run import Run
from calibody.mechanics.kinematics import Geometry, poses, retract, twists
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import FREE, Numbers
from calibody.steppers.flying import Bodies, Flyer, Swarm, cross, turned

MOST = 200
"""Samples that are compared: of more, every second or third."""
SEEN = 1e-6
"""Cosine by which a direction may be off an axis."""


@dataclass(frozen=True, eq=False)
class Watched:
    """(samples,) times; measured places along the directions of the flyer and rates (rows, samples), orientations (3, 3, samples), and what deviations are multiplied by, zero where nothing is seen."""

    flyer: Flyer
    times: np.ndarray
    along: np.ndarray
    turned: np.ndarray
    along_weight: np.ndarray
    turned_weight: np.ndarray
    rates: np.ndarray
    rates_weight: np.ndarray

    @property
    def period(self) -> float:
        return float(np.median(np.diff(self.times)))

    @classmethod
    def of(cls, flyer: Flyer, run: Run, numbers: Numbers) -> Watched | None:
        """None where the pose is not observed."""
        k, m = len(flyer.along), len(flyer.about)
        data = [d for d in run.data if len(d.times) > 4]
        if not data:
            return None
        times = data[0].times
        data = [d for d in data if np.array_equal(d.times, times)]
        n = len(times)
        self = cls(flyer, times, np.zeros((k, n)), np.repeat(np.eye(3)[:, :, None], n, axis=2), *(np.zeros((rows, n)) for rows in (k, m, k + m, k + m)))
        self._from_joints(run, numbers, data)
        self._from_bodies(run, data)
        seen = (self.along_weight > 0.0).all() and (self.turned_weight > 0.0).all()
        return self.thinned(-(-n // MOST)) if seen else None

    def thinned(self, k: int) -> Watched:
        """Every k-th sample."""
        own = {f.name: getattr(self, f.name)[..., ::k] for f in fields(self) if f.name != "flyer"}
        return replace(self, **own)

    def until(self, end: float) -> Watched:
        """The samples before a time."""
        count = int((self.times < end).sum())
        return replace(self, **{f.name: getattr(self, f.name)[..., :count] for f in fields(self) if f.name != "flyer"})

    def _from_joints(self, run: Run, numbers: Numbers, data: list[Data]) -> None:
        """Of slides and hinges."""
        s, flyer, q = run.structure, self.flyer, np.zeros((run.structure.nq, len(self.times)))
        geometry, found = Geometry.of(s, numbers), []
        for d in data:
            if d.channel.kind == "joint" and not d.channel.components and d.channel.name in s.coordinate_index:
                coordinate = s.coordinate_index[d.channel.name]
                dof = int(plan_of(s).coordinate_dof[coordinate])
                found.append((d, dof, run.weight(d)))
                if d.channel.quantity != "rate":
                    q[s.scalar_positions[coordinate]] = d.y
        if not found or FREE in (u.kind for u in s.units):
            return
        H = poses(s, geometry, q)
        T = twists(s, geometry, H[..., 0])
        place, self.turned[:] = flyer.along @ H[:, 3, flyer.link], H[:, :3, flyer.link]
        for d, dof, weight in found:
            turns, own = bool(T[:3, dof].any()), T[:3, dof] if T[:3, dof].any() else T[3:, dof]
            cosine = (flyer.about if turns else flyer.along) @ own
            row = int(np.argmax(np.abs(cosine)))
            at = row + (len(flyer.along) if turns else 0)
            if d.channel.quantity == "rate":
                self.rates[at], self.rates_weight[at] = cosine[row] * d.y, weight
            elif turns:
                self.turned_weight[row] = weight
            else:
                self.along[row], self.along_weight[row] = place[row], weight

    def _from_bodies(self, run: Run, data: list[Data]) -> None:
        """Of the position and the orientation of the body itself."""
        body = run.structure.tree_units[self.flyer.link].body.name
        for d in data:
            c = d.channel
            if c.kind != "body" or c.name != body or c.component is None:
                continue
            if c.quantity == "position":
                row = int(np.argmax(np.abs(self.flyer.along[:, c.component])))
                if abs(self.flyer.along[row, c.component]) > 1.0 - SEEN:
                    self.along[row], self.along_weight[row] = self.flyer.along[row, c.component] * d.y, run.weight(d)
            elif c.quantity == "angle" and d.rotation is not None and not self.flyer.plane:
                self.turned[:] = d.rotation
                self.turned_weight[c.component] = run.weight(d)

    def residuals(self, bodies: Bodies, s: Swarm, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Of the pose and of the rates of all particles at sample j, (rows, particles) each."""
        A, B = self.flyer.along, self.flyer.about
        apart = rotation_between(s.R, self.turned[..., j])
        pose = np.concatenate([(A @ bodies.origin(s) - self.along[:, j, None]) * self.along_weight[:, j, None], (B @ apart) * self.turned_weight[:, j, None]])
        if not self.rates_weight[:, j].any():
            return pose, np.zeros((0, pose.shape[1]))
        w = bodies.turning(s.R, s.L)
        rates = np.concatenate([A @ bodies.origin_velocity(s, w), B @ w])
        return pose, (rates - self.rates[:, j, None]) * self.rates_weight[:, j, None]

    def around(self, j: int, span: int) -> Start:
        """Pose and velocities at sample j, roughly, from that before it by `span`."""
        i = max(j - span, 0)
        dt = self.times[j] - self.times[i]
        turn = rotation_between(self.turned[..., j : j + 1], self.turned[..., i])[:, 0]
        return Start(
            self.flyer, self.flyer.along.T @ self.along[:, j], self.turned[..., j], self.flyer.along.T @ (self.along[:, j] - self.along[:, i]) / dt, turn / dt
        )


@dataclass(frozen=True, eq=False)
class Start:
    """Place of the link, orientation, velocity of the link and angular velocity (world axes) from which particles are displaced."""

    flyer: Flyer
    o: np.ndarray
    R: np.ndarray
    v: np.ndarray
    w: np.ndarray

    def swarm(self, bodies: Bodies, z: np.ndarray) -> Swarm:
        """z (2 freedom, particles): displacements along the directions and about the axes, then those of their rates."""
        A, B = self.flyer.along, self.flyer.about
        parts = np.split(z, np.cumsum([len(A), len(B), len(A)]))
        R = turned(np.repeat(self.R[:, :, None], z.shape[1], axis=2), B.T @ parts[1])
        w = self.w[:, None] + B.T @ parts[3]
        com = (R * bodies.com[None]).sum(1)
        still = self.o[:, None] - A.T @ (A @ self.o)[:, None]  # where it is across the directions
        o = still + A.T @ ((A @ self.o)[:, None] + parts[0])
        return Swarm(o + com, R, self.v[:, None] + A.T @ parts[2] + cross(w, com), bodies.momenta(R, w))

    def moved(self, z: np.ndarray) -> Start:
        A, B = self.flyer.along, self.flyer.about
        parts = np.split(z, np.cumsum([len(A), len(B), len(A)]))
        return Start(
            self.flyer, self.o + A.T @ parts[0], turned(self.R[:, :, None], (B.T @ parts[1])[:, None])[..., 0], self.v + A.T @ parts[2], self.w + B.T @ parts[3]
        )


def rotation_between(R: np.ndarray, to: np.ndarray) -> np.ndarray:
    """(3, particles) rotation vectors in world axes from an orientation (3, 3) to those of particles (3, 3, particles)."""
    D = np.einsum("ikp,jk->ijp", R, to)
    s = 0.5 * np.stack([D[2, 1] - D[1, 2], D[0, 2] - D[2, 0], D[1, 0] - D[0, 1]])
    sine, cosine = np.sqrt((s * s).sum(0)), 0.5 * (D[0, 0] + D[1, 1] + D[2, 2] - 1.0)
    angle = np.arctan2(sine, cosine)
    return s * np.where(sine > 1e-12, angle / np.where(sine > 1e-12, sine, 1.0), 1.0)


def coordinates(flyer: Flyer, numbers: Numbers, o: np.ndarray, R: np.ndarray, near: np.ndarray) -> np.ndarray:
    """(nq, nodes) at which the link has the places o (3, nodes) and orientations R (3, 3, nodes), the nearest to `near` (nq, nodes): hinges count their turns."""
    s = flyer.structure
    geometry, q = Geometry.of(s, numbers), near.copy()
    for _ in range(ROUNDS):
        H = poses(s, geometry, q)
        T = twists(s, geometry, H)
        turn = np.stack([rotation_between(R[..., k : k + 1], H[:, :3, flyer.link, k])[:, 0] for k in range(q.shape[1])], axis=1)
        at = H[:, 3, flyer.link]
        velocity = o - at - np.cross(turn, at, axis=0)  # of the point of the link that is at the world's origin
        d = np.stack([np.linalg.lstsq(T[..., k], np.concatenate([turn[:, k], velocity[:, k]]), rcond=None)[0] for k in range(q.shape[1])], axis=1)
        q = retract(s, q, d)
        if np.abs(d).max() < 1e-10:
            break
    return q


ROUNDS = 12
"""Newton steps to the coordinates of a pose."""
