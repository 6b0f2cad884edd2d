"""How observed channels move with unknown numbers that place things, at fixed coordinates: no kinematics is done again.

A number p moves links by twists (`mechanics/geometry.py`) and points in their bodies by dr. Then, node by node,

    a point                 d = (w x x + v) + R dr
    a body's orientation    dR = [w]x R
    a joint's coordinate    nothing in `tree`, where it is solved for. In `free` it is measured between links:
                            the change of its two sides at fixed links, and ds = g . (t_child - t_parent) where one of these hangs on the world
    a gyroscope             as the orientation of its site, which may turn in its body by an angle of its own
    an accelerometer        as its point and its orientation, and with gravity
    a ball's rotation       likewise: `R = S'R_parent' R_child` turns by `w = S'(R_parent'(w_child - w_parent) - dS)`, dS the turn of its side S

and the samples follow with the weights of the channel itself (`observe.Sampled.along`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibody.estimate.observe import TURN, Data, Sampled, ball_index, coordinate_index, is_contact_force, is_drive, is_force, is_transmitted, place_of, turns
from calibody.estimate.unknowns import Entry, named
from calibody.mechanics import assembly
from calibody.mechanics.assembly import Frames
from calibody.mechanics.channels import Channel
from calibody.mechanics.elements import wrenches
from calibody.mechanics.elements.law import LAW
from calibody.mechanics.geometry import PLACES, Shift, shift_of, turn_of
from calibody.mechanics.parameters import gravity_by
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model
from calibody.model.paths import Place, resolve
from calibody.spatial import algebra as al

STEP = 1e-5
"""m, rad: of the central difference of a joint's two sides in `free`; its error is the square of that."""


@dataclass(frozen=True)
class Moved:
    """What a change of one number by 1 moves."""

    structure: Structure
    model: Model
    numbers: Numbers
    frames: Frames
    place: Place

    @cached_property
    def shift(self) -> Shift | None:
        return shift_of(self.structure, self.numbers, self.model, self.place)

    @cached_property
    def _twist(self) -> np.ndarray:
        assert self.shift is not None
        return self.shift.twists(self.structure, self.frames.H)[1]

    def link(self, link: int) -> np.ndarray | None:
        """(6, K): the twist of a link; None if it stays."""
        return self._twist if self.shift is not None and self.shift.moves(self.structure, link) else None

    def point(self, kind: str, name: str) -> np.ndarray | None:
        """(3,): the change of a site's place, or that of a centre of mass, in its body."""
        field = "position" if kind == "site" else "com"
        same = (self.place.kind, self.place.name, self.place.field) == (kind, name, field)
        return np.eye(3)[self.place.component or 0] if same else None

    @property
    def joints(self) -> bool:
        """Whether joints are measured differently: in `free`, where they are measured."""
        return self.structure.coordinates != TREE and self.place.field in PLACES.get(self.place.kind, ())

    @cached_property
    def coordinates(self) -> np.ndarray:
        """(scalar coordinates, transmissions and paths, K): the change of joint coordinates in `free`, and of lengths of paths."""
        joints = self._measured if self.joints else np.zeros((plan_of(self.structure).first_path, self.frames.s.shape[1]))
        return np.concatenate([joints, self._lengths])

    @property
    def _lengths(self) -> np.ndarray:
        """(paths, K): by what the links move, and by what places the sites of a path in them."""
        s, f, plan = self.structure, self.frames, plan_of(self.structure)
        out = np.zeros((len(s.model.paths), f.s.shape[1]))
        for which, act in assembly.path_acts(plan, self.numbers, f):
            for e, link, W, _ in act.rows(0):
                if (twist := self.link(link)) is not None:
                    out[which[e]] += np.einsum("tk,tk->k", W[0], twist)
        if (self.place.kind, self.place.field) != ("site", "orientation") and any((self.place.kind, self.place.name) in p.placed_by for p in s.model.paths):
            value = float(self.model[self.place.path])
            ends = [Numbers.of(s, self.model.replace({self.place.path: value + sign * STEP}, check=False)) for sign in (1.0, -1.0)]
            out += (assembly.lengths(s, ends[0], f.H) - assembly.lengths(s, ends[1], f.H)) / (2.0 * STEP)
        return out

    @property
    def _measured(self) -> np.ndarray:
        """Joint coordinates in `free`."""
        s, f, plan = self.structure, self.frames, plan_of(self.structure)
        value, zero, ends = float(self.model[self.place.path]), np.zeros((len(plan.rotational), f.s.shape[1])), []
        for sign in (STEP, -STEP):
            numbers = Numbers.of(s, self.model.replace({self.place.path: value + sign}, check=False))
            ends.append(assembly.measured(plan, numbers, f.H, zero)[0])
        change = ends[0] - ends[1]
        out = np.where(plan.rotational[:, None], change - TURN * np.round(change / TURN), change) / (2.0 * STEP)
        for c, links in enumerate(plan.coordinate_links):
            for link, sign in zip(links, (-1.0, 1.0), strict=True):
                if (twist := self.link(link)) is not None:
                    out[c] += sign * np.einsum("tk,tk->k", f.gradient[:, c], twist)
        return assembly.combined(s, out)

    def ball(self, k: int) -> np.ndarray:
        """(3, K): how the rotation of a ball turns in `free`."""
        s, f = self.structure, self.frames
        unit, links = s.ball_coordinates[k].unit, plan_of(s).ball_links[k]
        turn = np.zeros((3, f.H.shape[3]))
        for link, sign in zip(links, (-1.0, 1.0), strict=True):
            if (twist := self.link(link)) is not None:
                turn += sign * np.einsum("jik,jk->ik", f.H[:, :3, links[0]], twist[:3])
        if (self.place.kind, self.place.field) == ("body", "orientation") and s.tree_units[unit].first and s.tree_units[unit].body.name == self.place.name:
            turn -= turn_of(self.model.body(self.place.name).orientation, self.place.component or 0)[:, None]
        return self.numbers.placement[:, :3, unit].T @ turn

    def sensor(self, channel: Channel, link: int, twist: np.ndarray | None) -> np.ndarray | None:
        """The turn (3, K) of a site or of a gyroscope on it, or what `observe._felt` takes for an accelerometer."""
        R, change = self.frames.H[:, :3, link], np.zeros((12, self.frames.H.shape[3]))
        dr, own = self.point("site", channel.name), self.place.kind == "site" and (self.place.name, self.place.field) == (channel.name, "orientation")
        gravity = self.place.kind == "world" and channel.quantity == "acceleration"
        if twist is None and dr is None and not own and not gravity:
            return None
        if twist is not None:
            change[:6] = twist
        if dr is not None:
            change[3:6] += np.einsum("ijk,j->ik", R, dr)
        if own:
            turn = turn_of(self.model.tables["site"][channel.name].orientation, self.place.component or 0)
            change[6:9] = np.einsum("ijk,j->ik", R, turn)
        if gravity:
            change[9:] = gravity_by(self.model, self.place)[:, None]
        return change if channel.quantity == "acceleration" else change[:3] + change[6:9]

    def channel(self, d: Data, reach: np.ndarray | None) -> Any:
        """What `Sampled.along` takes: the change of a channel at the nodes, (K,), the turn (3, K) of an orientation, ...; None if it does not move. `reach` as of `reach_of`."""
        channel, s, f = d.channel, self.structure, self.frames
        if is_force(channel) or is_contact_force(channel) or s.holding(channel) is not None:
            return None
        if is_transmitted(channel):
            return {link: twist for link in range(s.n) if (twist := self.link(link)) is not None} or None
        if is_drive(channel):
            return self.coordinates if self.joints or s.model.paths else None
        if channel.kind == "path":
            return self.coordinates[coordinate_index(s, channel)]
        if channel.kind in ("joint", "transmission"):
            if not self.joints:
                return None
            if d.rotation is not None or turns(channel):
                return self.ball(ball_index(s, channel))
            return self.coordinates[coordinate_index(s, channel)]
        link = s.body_link[place_of(self.model, channel)[0]]
        twist = self.link(link)
        if channel.quantity in ("angular_rate", "acceleration") or (channel.kind, channel.quantity) == ("site", "angle"):
            return self.sensor(channel, link, twist)
        if channel.quantity == "angle":
            return None if twist is None else twist[:3] if d.rotation is not None else twist[channel.component]
        dr = None if channel.quantity == "position" and channel.kind == "body" else self.point(channel.kind, channel.name)
        out = None
        if twist is not None:
            assert reach is not None
            out = np.einsum("tk,tk->k", reach, twist)
        if dr is not None:
            out = (0.0 if out is None else out) + np.einsum("jk,j->k", f.H[channel.component, :3, link], dr)
        return out


def reach_of(structure: Structure, model: Model, frames: Frames, channel: Channel) -> np.ndarray | None:
    """(6, K): how a twist of its link moves an observed point; None for other channels."""
    if channel.kind in ("joint", "transmission", "path") or channel.quantity not in ("position", "com"):
        return None
    body, local = place_of(model, channel)
    return np.array(wrenches.moved(al.point(frames.pose(structure.body_link[body]), local)))[channel.component]


class Placements:
    """All unknown numbers of one run that place things, and what they do to its channels."""

    def __init__(self, structure: Structure, model: Model, numbers: Numbers, frames: Frames, entries: Sequence[Entry], theta: np.ndarray, run: int) -> None:
        self.size = len(entries)
        self.moved: list[tuple[np.ndarray, Moved]] = []
        """Every number, and its slope (unknowns,) with respect to theta."""
        self.felt: list[tuple[np.ndarray, Moved]] = []
        """Numbers that place nothing, but that force-torque sensors feel."""
        slopes: dict[str, np.ndarray] = {}
        known = named(entries, theta, run)
        for k, entry in enumerate(entries):
            if entry.run not in (None, run):
                continue
            for place in entry.places:
                if place.sensor is None:
                    slopes.setdefault(place.path, np.zeros(self.size))[k] += place.slope(theta[k], known)
            if entry.group is not None and entry.member == 0:
                at = slice(k, k + 10)
                for path, row in zip(entry.group.paths, entry.group.jacobian(theta[at]), strict=True):
                    slopes.setdefault(path, np.zeros(self.size))[at] += row
        for path, slope in slopes.items():
            place = resolve(model, path)
            one = slope, Moved(structure, model, numbers, frames, place)
            if (
                place.field in PLACES.get(place.kind, ())
                or place.kind in ("site", "geometry", "world", "actuator")
                or (place.kind, place.field) == ("body", "com")
            ):
                self.moved.append(one)
            elif place.kind != "joint" or place.field not in LAW:  # these act through a cut without being felt there
                self.felt.append(one)

    def samples(self, d: Data, sampled: Sampled) -> dict[int, np.ndarray]:
        """The derivative of a channel's samples with respect to every unknown that moves it."""
        out: dict[int, np.ndarray] = {}
        active = [*self.moved, *self.felt] if is_transmitted(d.channel) else self.moved
        if not active:
            return out
        first = active[0][1]
        reach = reach_of(first.structure, first.model, first.frames, d.channel)
        for slope, moved in active:
            change = moved.channel(d, reach)
            for by in (None if change is None else sampled.along(change), sampled.by_number(moved.place)):
                for k in np.flatnonzero(slope) if by is not None else ():
                    out[int(k)] = out.get(int(k), 0.0) + by * slope[k]
        return out
