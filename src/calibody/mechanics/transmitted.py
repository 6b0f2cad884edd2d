"""What a body and its parent exert on each other: force and torque through the cut between them, at the inner nodes of a motion.

Everything below the cut needs a wrench to move as it does; what gravity, springs and loops do not give comes through the cut. With `W_l` the wrench of a link's inertia, of gravity,
of the forces between links and of the loops (`assembly.py`; torque about the world's origin first, times h), summed over the links below,

    (N, F)_k = sum_l W_l,k / h          what the parent exerts on the body: joints, drives and friction between them act through the cut and are no part of the sum
    force    = U'F,    torque = U'(N - p x F)

in the axes U of a sensor at the place p. At a site these are the readings of a six-axis force-torque sensor that sits between the site's body and its parent, with MuJoCo's sign; at
the anchor of a joint, in the axes of the world, its reaction. With `a` the covector of one component, (0, u) or (u, p x u), the change of `a . (N, F)` with the twists of the links is

    a . B_lm t_m / h   at three nodes, B the 6x6 blocks of the links below,    and at node k, where u and p move with their link,
    w . (u x F)                                   of a force
    w . (u x (N - p x F) + p x g) + v . g         of a torque,  g = u x F
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from calibody.mechanics import assembly, imu
from calibody.mechanics.assembly import Frames
from calibody.mechanics.channels import Channel
from calibody.mechanics.geometry import PLACES
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import Numbers, Structure
from calibody.mechanics.sums import Sums, composite
from calibody.model import Model
from calibody.model.paths import Place
from calibody.spatial import algebra as al

STEP = 1e-6
"""Of the differences by numbers of the model, relative to the number, or to 1 below it: a wrench is at most quadratic in most of them."""


def is_transmitted(channel: Channel) -> bool:
    """Whether the channel is a component of what goes through a cut."""
    return (channel.kind == "site" and channel.quantity in ("force", "torque")) or channel.quantity.startswith("reaction.")


def is_outside(owner: str) -> bool:
    """Whether the force of a constraint row acts on links from elsewhere than through the cut above them: loops, and what moves sites as prescribed."""
    return owner.startswith(("loop.", "drive.site."))


def wrenches(
    structure: Structure, numbers: Numbers, multipliers: np.ndarray, f: Frames, h: float, derivatives: bool = False, applied: np.ndarray | None = None
) -> Sums:
    """Of every link by itself; `applied` as of a `Point`."""
    plan, K, nothing = plan_of(structure), f.H.shape[3], np.zeros((0, f.H.shape[3]))
    loops = np.array([is_outside(owner) for owner in structure.row_owners], dtype=bool)
    point = Point(nothing, np.where(loops[:, None], multipliers, 0.0), nothing, nothing if applied is None else applied, h, 1.0)
    sums = Sums(plan, K - 2, derivatives)
    out = Evaluation(np.zeros((structure.nv, K - 2)), np.zeros((structure.nc, K)), *plan.pairs)
    assembly.bodies(plan, numbers, point, f, sums)
    assembly.forces(plan, numbers, point, f, sums)
    assembly.encounters(plan, numbers, point, f, sums)
    assembly.pushes(plan, numbers, point, f, sums)
    assembly.constraints(plan, numbers, point, f, sums, out)
    for i in np.flatnonzero(numbers.standing[3]):  # bodies that are fixed to the world: nobody else asks what they weigh
        moment = np.einsum("ijm,j->im", f.H[:, :, i, 1:-1], numbers.standing[:, i])
        sums.wrench[:3, i] -= h * np.cross(moment, numbers.gravity[:, None], axis=0)
        sums.wrench[3:, i] -= h * numbers.standing[3, i] * numbers.gravity[:, None]
    return sums


def through(
    structure: Structure, numbers: Numbers, multipliers: np.ndarray, f: Frames, h: float, contacts: np.ndarray | None = None, applied: np.ndarray | None = None
) -> np.ndarray:
    """(6, n + 1, K - 2): (N, F) through the cut above every link; `contacts`: what these exert on the links, likewise."""
    total = wrenches(structure, numbers, multipliers, f, h, applied=applied).wrench / h
    if contacts is not None:
        total -= contacts[:, : total.shape[1], : total.shape[2]]
    composite(structure.tree_parent, total)
    return total


def below(structure: Structure, link: int) -> list[int]:
    """The links below a cut, that of the cut first."""
    found = {link}
    for i in range(link + 1, structure.n):
        if int(structure.tree_parent[i]) in found:
            found.add(i)
    return sorted(found)


def cut_of(structure: Structure, model: Model, channel: Channel) -> int:
    """The link above which the cut of a channel is."""
    if channel.kind == "site":
        return structure.body_link[model.tables["site"][channel.name].body]
    return next(i for i, unit in enumerate(structure.tree_units) if unit.joint is not None and unit.joint.name == channel.name)


def placed(structure: Structure, model: Model, numbers: Numbers, channel: Channel, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """U (3, 3, K) and p (3, K) of a channel from the poses H (3, 4, K) of its link."""
    if channel.kind == "site":
        site = model.tables["site"][channel.name]
        return imu.sensor_axes(H, site), np.stack(al.point(al.unpack_pose(H), site.position))
    anchor = tuple(numbers.anchor[:, cut_of(structure, model, channel)])
    return np.repeat(np.eye(3)[:, :, None], H.shape[2], axis=2), np.stack(al.point(al.unpack_pose(H), anchor))  # type: ignore[arg-type]


def readings(structure: Structure, model: Model, numbers: Numbers, channel: Channel, H: np.ndarray, wrench: np.ndarray) -> np.ndarray:
    """(3, M): all components of a channel from the poses of its link and (N, F)."""
    U, p = placed(structure, model, numbers, channel, H)
    N, F = wrench[:3], wrench[3:]
    return np.einsum("ick,ik->ck", U, F if channel.quantity.endswith("force") else N - np.cross(p, F, axis=0))


@dataclass(eq=False)
class Cuts:
    """What goes through all cuts of one motion, and how it changes."""

    structure: Structure
    numbers: Numbers
    multipliers: np.ndarray
    alive: weakref.ref[Frames]
    """Its kinematics, for as long as somebody else needs them."""
    h: float
    applied: np.ndarray | None = None
    kept: dict[tuple[str, float], np.ndarray] = field(default_factory=dict)
    """`through` of models with another number, by path and change."""

    @property
    def frames(self) -> Frames:
        found = self.alive()
        assert found is not None
        return found

    @cached_property
    def through(self) -> np.ndarray:
        return through(self.structure, self.numbers, self.multipliers, self.frames, self.h, applied=self.applied)

    @cached_property
    def blocks(self) -> Sums:
        return wrenches(self.structure, self.numbers, self.multipliers, self.frames, self.h, derivatives=True, applied=self.applied)

    def value(self, model: Model, channel: Channel) -> np.ndarray:
        """(M,): one component."""
        link = cut_of(self.structure, model, channel)
        return readings(self.structure, model, self.numbers, channel, self.frames.H[:, :, link, 1:-1], self.through[:, link])[channel.component]

    def _covector(self, model: Model, channel: Channel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """a (6, M), and the axis and the place that it is made of."""
        link = cut_of(self.structure, model, channel)
        U, p = placed(self.structure, model, self.numbers, channel, self.frames.H[:, :, link, 1:-1])
        u = U[:, channel.component]
        return np.concatenate([u, np.cross(p, u, axis=0)] if channel.quantity.endswith("torque") else [np.zeros_like(u), u]), u, p

    def pulls(self, model: Model, channel: Channel) -> list[dict[int, np.ndarray]]:
        """How one component changes with the twists of links at the nodes k-1, k, k+1: (6, M) by link."""
        s, link = self.structure, cut_of(self.structure, model, channel)
        (a, u, p), N, F = self._covector(model, channel), self.through[:3, link], self.through[3:, link]
        torque, turns = channel.quantity.endswith("torque"), channel.kind == "site"  # a reaction is in the axes of the world
        own, g = np.zeros_like(a), np.cross(u, F, axis=0)
        if torque:
            own[:3], own[3:] = np.cross(p, g, axis=0) + turns * np.cross(u, N - np.cross(p, F, axis=0), axis=0), g
        elif turns:
            own[:3] = g
        inside, out = below(s, link), []
        for offset in range(3):
            pulled = {i: np.einsum("am,abm->bm", a, self.blocks.own[offset][:, :, i]) / self.h for i in inside}
            for c, (one, other) in enumerate(plan_of(s).cross):
                if one in inside:
                    pulled[other] = pulled.get(other, 0.0) + np.einsum("am,abm->bm", a, self.blocks.cross[offset][:, :, c]) / self.h
            out.append(pulled)
        out[1][link] = out[1][link] + own
        return out

    def by_multipliers(self, model: Model, channel: Channel) -> dict[int, np.ndarray]:
        """How one component changes with the multipliers of loops: (M,) by row."""
        out: dict[int, np.ndarray] = {}
        if not any(is_outside(owner) for owner in self.structure.row_owners):
            return out
        a, inside = self._covector(model, channel)[0], below(self.structure, cut_of(self.structure, model, channel))
        for group, act in assembly.constraint_acts(plan_of(self.structure), self.numbers, self.frames):
            for first, link, _, A in act.rows(group.row):
                if link in inside and is_outside(self.structure.row_owners[first]):
                    for r, wrench in enumerate(A[..., 1:-1]):
                        out[first + r] = out.get(first + r, 0.0) - np.einsum("tm,tm->m", a[: len(wrench)], wrench)
        return out

    def by_applied(self, model: Model, channel: Channel) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """How one component changes with given forces on bodies and springs, by their row: (M,) of the interval before a node, and of that after it."""
        plan, s = plan_of(self.structure), self.structure
        a, inside, out = self._covector(model, channel)[0], below(s, cut_of(s, model, channel)), {}
        for driven in (*s.pushed, *s.pulled):
            parts = [x for x in assembly.driving_wrenches(plan, self.numbers, self.frames, s.applied_row(driven)) if x[0] in inside]
            before = sum((np.einsum("tm,tm->m", a[: len(right)], right[:, :-1]) for _, _, right in parts), np.zeros(a.shape[1]))
            after = sum((np.einsum("tm,tm->m", a[: len(left)], left[:, 1:]) for _, left, _ in parts), np.zeros(a.shape[1]))
            out[s.applied_row(driven)] = -0.5 * before, -0.5 * after
        return out

    def by_number(self, model: Model, channel: Channel, place: Place) -> np.ndarray:
        """(M,): by a number of the model where all links stay, a central difference; all channels share its evaluations."""
        s, link, ends = self.structure, cut_of(self.structure, model, channel), []
        value = float(model[place.path])  # type: ignore[arg-type]
        step = STEP * max(1.0, abs(value))
        for sign in (step, -step):
            other = model.replace({place.path: value + sign}, check=False)
            numbers = Numbers.of(s, other)
            wrench = self.through
            pushed = any((c.kind, c.name) == (place.kind, place.name) for c in s.driven)
            if pushed or (place.kind != "site" and place.field not in PLACES.get(place.kind, ())):
                key = place.path, sign
                if key not in self.kept:
                    self.kept[key] = through(s, numbers, self.multipliers, self.frames, self.h, applied=self.applied)
                wrench = self.kept[key]
            ends.append(readings(s, other, numbers, channel, self.frames.H[:, :, link, 1:-1], wrench[:, link])[channel.component])
        return (ends[0] - ends[1]) / (2.0 * step)


_cuts: dict[int, Cuts] = {}
"""By the identity of the kinematics of a motion, as long as they live: six channels of a sensor are worked out at once."""


def cuts(structure: Structure, numbers: Numbers, multipliers: np.ndarray, f: Frames, h: float, applied: np.ndarray | None = None) -> Cuts:
    """Of a motion; `applied` if something pushes bodies or pulls springs."""
    key, kept = id(f), _cuts.get(id(f))
    if kept is None or kept.alive() is not f or kept.multipliers is not multipliers or kept.numbers is not numbers or not np.array_equal(kept.applied, applied):  # type: ignore[arg-type]
        alive = weakref.ref(f, lambda _, known=_cuts: known.pop(key, None))
        kept = _cuts[key] = Cuts(structure, numbers, multipliers, alive, h, applied)
    return kept
