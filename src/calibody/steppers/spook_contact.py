"""Contacts and limits of the regularised stepper: rows of the places that may touch, beside those of frictional joints (`spook_step.py`).

With the gap c of a place, `C v` its rate and `D v` its slip along two directions and their opposites, the complementary rows of a place are

    C v+ + S lam_c + b              = w_c        the normal;   S = (4/h^2) eps Y,  Y = 1/(1 + 4 tau/h),  eps and tau those of the stepper
    D v+ + S_t lam_t + E sig        = w_t        where there is friction, as in a joint
    mu lam_c - E' lam_t + L sig     = w_s

    b = (4/h) Y c - Y C v           where c <= 0: what is inside comes out as exp(-t/tau), and gives way by eps times the force
    b = c/h                         where c > 0: what would be inside at the end of the step ends at the surface
    b = e C v (if that is less)     where c <= 0 and it closes fast: what a restitution e gives back

and all lam, sig, w >= 0. "Fast" is more than `SLOW` times what forces change the rate by in one step; slower ones end without rebound, or nothing would ever rest. A place with a restitution that closes fast is
let inside first (b is then so large that the row is idle), because the share that c/h leaves of the approach is none that could be given back; and S, which is a spring's compliance, takes nothing of what is
thrown back (it is `RIGID` of the place's mobility at most).

The friction of a place is a pyramid: the sum of the absolute values along both directions is at most mu lam_c. The directions are turned so that the first is that of the slip (where it slips slower
than forces alone would make it in one step, of the slip that they make): what slides is braked by mu lam_c against its slip exactly, whatever its direction. Without sliding the pyramid is up to 1.4 times narrower than the cone.

Everything is of the start of a step and of first order; the impact of a step is among its forces, and is up to a step late.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from calibody.errors import SimulationError
from calibody.mechanics import shapes
from calibody.mechanics.contact import Spots, basis, rate_along
from calibody.mechanics.kinematics import Geometry, poses
from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers.events import ContactLog
from calibody.steppers.step import Node

SLOW = 2.0
"""As of the variational stepper (`contact.py`)."""
IDLE = 10.0
"""Times its approach speed: what the row of a place that is let inside leaves it, so that it stays idle although others push."""
RIGID = 1e-6
"""Of the mobility of a place that is thrown back: what is left of its S, so that places which share an impulse have a unique one."""
MOST = 120
"""Places of a model: a step is a dense problem of up to six rows for each."""


class PlaceValues(NamedTuple):
    """Numbers of the places as the compiled step takes them."""

    data: Any
    """Of every kernel (numbers, spots)."""
    sign: Any
    """(limits,) +1 of those that end from below, -1 from above."""
    position: Any
    friction: Any
    """(rubbing places,)"""
    restitution: Any
    """(places,)"""
    softness: Any
    """(2, places) compliance and damping time."""
    slip: Any
    """S_t."""
    slope: Any
    """L."""


class At(NamedTuple):
    """The places at one node."""

    normals: Any
    """(places, nv): C."""
    tangents: Any
    """(2 rubbing, nv): the first directions of all, then the second ones."""
    directions: Any
    """(places, 3, 3) normal and two directions, in the world; of limits the first number is their sign."""
    idle: Any
    """(places,): b."""
    thrown: Any
    """(places,) whether a place is thrown back by its restitution."""


@dataclass(frozen=True, eq=False)
class Places:
    """Which places a mechanism has, and which of them rub. Indices only."""

    spots: Spots
    rubbing: np.ndarray
    """Places with friction."""

    @classmethod
    def of(cls, structure: Structure) -> Places | None:
        """None of a model without contacts and limits."""
        model = structure.model
        soft = next((c.name for c in model.contacts if c.compliant), None)
        if soft is not None:
            raise SimulationError(f'contact.{soft} is compliant, which stepper="spook" does not know; use stepper="variational".')
        if not model.collides:
            return None
        spots = Spots.of(structure)
        if spots.poisson.any():
            owner = spots.owner_name(int(np.argmax(spots.poisson)))
            raise SimulationError(f'{owner} has law = "poisson", and stepper="spook" knows Newton\'s restitution only; use stepper="variational".')
        if spots.count > MOST:
            raise SimulationError(
                f'The contacts and limits of model {model.name!r} are {spots.count} places, and stepper="spook" solves for all of them in every step, at most {MOST}; '
                'leave some out (contacts=False: all of them), or use stepper="variational".'
            )
        return cls(spots, np.flatnonzero(spots.sliding[: len(spots.links[0])] > 0.0))

    @cached_property
    def topology(self) -> tuple:
        s = self.spots
        kernels = tuple((kernel, tuple(a.tolist()), tuple(b.tolist())) for kernel, a, b, _ in s.groups)
        return kernels, tuple(s.coordinate.tolist()), tuple(self.rubbing.tolist())

    @property
    def count(self) -> int:
        return self.spots.count

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.spots.owner_name(k) for k in range(self.count))

    def values(self, compliance: tuple[float, float], relaxation: tuple[float, float], slip: float, slope: float) -> PlaceValues:
        """Compliance and damping time of places, and of directions (limits of hinges)."""
        s = self.spots
        turning = np.zeros(self.count, dtype=bool)
        turning[len(s.links[0]) :] = [s.structure.scalar_coordinates[c].rotational for c in s.coordinate]
        softness = np.where(turning, [[compliance[1]], [relaxation[1]]], [[compliance[0]], [relaxation[0]]])
        slips, slopes = np.full(2 * len(self.rubbing), slip), np.full(len(self.rubbing), slope)
        return PlaceValues(tuple(g[3] for g in s.groups), s.sign, s.position, s.sliding[self.rubbing], s.restitution, softness, slips, slopes)

    # -- one state ---------------------------------------------------------------------------------------------------------------

    def at(self, values: PlaceValues, node: Node, v: Any, free: Any, regularisation: Any, h: Any) -> At:
        """`free`: the velocity after a step without any row; `regularisation`: Y of the places."""
        s = self.spots
        gap, directions, rows = self._touching(values, node)
        limits = values.sign[:, None] * node.A[s.coordinate]
        normals = jnp.concatenate([rows[:, 0], limits])
        signs = values.sign[:, None, None] * np.array([[1.0, 0.0, 0.0]] + [[0.0] * 3] * 2)
        gap = jnp.concatenate([gap, values.sign * (node.s[s.coordinate] - values.position)])
        directions, tangents = self._along_the_slip(directions, rows, v, free)
        rate, change = normals @ v, normals @ (free - v)
        fast = rate < -SLOW * jnp.abs(change)
        inside = regularisation * (4.0 / h * gap - rate)
        thrown = fast & (values.restitution > 0.0)
        inside = jnp.where(thrown, jnp.minimum(inside, values.restitution * rate), inside)
        outside = gap / h + jnp.where(thrown, IDLE * jnp.abs(rate), 0.0)
        return At(normals, tangents, jnp.concatenate([directions, signs]), jnp.where(gap > 0.0, outside, inside), thrown & (gap <= 0.0))

    def _touching(self, values: PlaceValues, node: Node) -> tuple[Any, Any, Any]:
        """Of the places between links: gaps, directions, and rates (places, 3, nv) along them."""
        s, first = self.spots, 0
        gaps: list[Any] = [jnp.zeros(0)]
        directions: list[Any] = [jnp.zeros((0, 3, 3))]
        rows: list[Any] = [jnp.zeros((0, 3, s.structure.nv))]
        for (kernel, a, b, _), data in zip(s.groups, values.data, strict=True):
            first_pose, second = (shapes.Pose(node.H[:, :3, links], node.H[:, 3, links]) for links in (a, b))
            touch, here = shapes.KERNELS[kernel](first_pose, second, data), slice(first, first + len(a))
            axes, moves = basis(touch.normal.T, jnp), (s.above[0][here], s.above[1][here])
            at = touch.at_a.T, touch.at_b.T
            gaps.append(touch.gap)
            directions.append(axes)
            rows.append(jnp.stack([rate_along(axes[:, k], at[0], at[0] if k else at[1], node.T, moves) for k in range(3)], axis=1))
            first += len(a)
        return jnp.concatenate(gaps), jnp.concatenate(directions), jnp.concatenate(rows)

    def _along_the_slip(self, directions: Any, rows: Any, v: Any, free: Any) -> tuple[Any, Any]:
        """Directions with the first across the normal turned into that of the slip, and the rows of places that rub along both."""
        slip, made = (rows[:, 1:] @ x for x in (v, free - v))  # (places, 2)
        slow = jnp.sum(slip**2, axis=1) <= jnp.sum(made**2, axis=1)
        slip = jnp.where(slow[:, None], slip + made, slip)
        length = jnp.sqrt(jnp.sum(slip**2, axis=1, keepdims=True))
        along = jnp.where(length > 0.0, slip / jnp.where(length > 0.0, length, 1.0), np.array([1.0, 0.0]))
        turn = jnp.stack([along, jnp.stack([-along[:, 1], along[:, 0]], axis=1)], axis=1)  # (places, 2, 2)
        directions = jnp.concatenate([directions[:, :1], jnp.einsum("mij,mjk->mik", turn, directions[:, 1:])], axis=1)
        tangents = jnp.einsum("mij,mjk->mik", turn, rows[:, 1:])[self.rubbing]
        return directions, jnp.concatenate([tangents[:, 0], tangents[:, 1]])

    def forces(self, at: At, normal: Any, rub: Any) -> Any:
        """(places, 3) in the world, from multipliers of the normals and of the tangents; of limits on the coordinate, as the first number."""
        r = len(self.rubbing)
        E = np.eye(self.count)[:, self.rubbing]
        local = jnp.stack([normal, E @ rub[:r], E @ rub[r:]], axis=1)
        return jnp.einsum("mi,mij->mj", local, at.directions)

    # -- what is told ------------------------------------------------------------------------------------------------------------

    def log(self, numbers: Numbers, q: np.ndarray, forces: np.ndarray, normal: np.ndarray, nodes: int) -> ContactLog:
        """From forces (steps, places, 3) and their normal parts (steps, places) at the nodes q that the steps began at."""
        s, structure, steps = self.spots, self.spots.structure, len(forces)
        between = len(s.links[0])
        owners = len(structure.model.contacts) + len(structure.model.limits)
        log = ContactLog.empty(owners, structure.n + 1, nodes)
        side = np.where(np.arange(self.count) < between, s.side, 1.0)
        here = slice(0, steps)
        for k in range(self.count):
            log.force[s.owner[k], :, here] += side[k] * forces[:, k].T
            log.normal[s.owner[k], here] += normal[:, k]
        if between:
            x = s.touch(np.asarray(poses(structure, Geometry.of(structure, numbers), q[:, :steps]))).at_a
            for k in range(between):
                f = forces[:, k].T
                wrench = np.concatenate([np.cross(x[:, k], f, axis=0), f])
                for links, sign in zip(s.links, (1.0, -1.0), strict=True):
                    log.wrench[:, links[k], here] += sign * wrench
        return log
