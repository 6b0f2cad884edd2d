"""Motion with contacts and limits: the variational steps of `step.py` with impulses at the nodes, and impacts between them.

**Lasting contact.** At node k impulses L >= 0 of the places that touch are added to the momentum, and the step finds them so that at its end

    0 <= L_n  _|_  gap(q_(k+1)) >= 0,      |L_t| <= mu L_n against the slip J_t (q_(k+1) - q_k)/h

with the gap itself, not its derivative: no drift, and what rests, rests. That is Newton's method: a step with the impulses at hand (`contact_step.steps`), gaps and slips at its end, and how
they answer to impulses, `A = J_(k+1) dq_(k+1)/dp J_k'/h`; the complementarity problem with these (`complementarity/cone.py`) gives the next impulses. The set of places grows until nothing
penetrates.

**Impacts.** A place that closes faster than `SLOW` times what its gap accelerates by in a step is an impact: its time inside the step is found (by steps of shorter length, each with the
lasting contacts in it), the law of impacts (`impact.py`) changes the momentum there, and what is left of the step goes on from it. Slower ones are caught by the lasting contact above, without
rebound; so a ball that bounces ever less comes to rest. A step with more than `MOST` impacts catches everything from there on.

**Depth.** What is inside another already (a start by rounding, a place that came to touch during an impact) is pushed out by the share `RECOVERED` per step only: the whole depth within
what may be a short remainder of a step would be a large velocity.

**Flight.** While nothing touches, whole pieces of steps run as without contacts, and are checked afterwards; a piece is cut where a gap closes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibody.complementarity import cone
from calibody.errors import SimulationError
from calibody.mechanics import assembly
from calibody.mechanics.contact import Spots, cross
from calibody.mechanics.kinematics import Geometry, poses
from calibody.mechanics.plan import plan_of
from calibody.mechanics.shapes import Touch
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model
from calibody.steppers import step
from calibody.steppers.events import SLIP, STICK, ContactLog, Event
from calibody.steppers.impact import impact

# A gap below minus this, relative to the mechanism's size, has closed; at an impact all places below plus a hundred times this touch.
CLOSED = 1e-10
# How deep a start may be inside something, relative to the mechanism's size: what files round to.
INSIDE = 1e-6
# Impacts are faster than this times the change of the gap's rate in one step.
SLOW = 2.0
RECOVERED = 0.2
MOST = 30
# Newton iterations for the impulses of lasting contact, and the change of velocities, relative to the largest, at which they are done.
ITERATIONS, SETTLED = 15, 1e-11
# Of gaps, relative to the mechanism's size.
ROUNDING = 1e-14
# Work of the impulses of lasting contact, relative to the kinetic energy, from which on a step is not believed.
WORK = 0.05
# Steps that fail, or whose contact forces are not found, are cut in halves down to this part of a step; there, the gap is taken to first order.
SMALLEST = 0.04
# Shortest part of a step that is worth a step of its own, relative to the step.
SHORTEST = 1e-9
# Evaluations in the search for the time of an impact.
SEARCH = 60


@dataclass(frozen=True)
class Node:
    """A state of the compiled step and what touches there."""

    state: step.State
    touch: Touch
    gaps: np.ndarray


@dataclass(frozen=True)
class Trial:
    """A step that was tried: where it ends, the impulses (spots held, 3) in it, and how wrong they may be."""

    node: Node
    held: np.ndarray
    impulses: np.ndarray
    directions: np.ndarray
    status: int
    exact: bool


class Failed(Exception):
    """A step without a solution; `status` as of `step.py`."""

    def __init__(self, status: int, state: step.State) -> None:
        super().__init__(status)
        self.status, self.state = status, state


@dataclass
class Stepper:
    """Contacts of one mechanism on their way through time."""

    structure: Structure
    numbers: Numbers
    spots: Spots
    values: step.Values
    h: float
    delta: float
    size: float
    steps: Callable[..., Any]
    mobility: Callable[..., Any]
    log: ContactLog
    iterations: int = 0
    inexact: list[float] = field(default_factory=list)
    """Times of steps whose contact forces were not found to full accuracy."""
    held: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    pushing: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    """World forces [N] of the places held last, to begin with."""
    before: float = 0.0
    """Length of the step that ended at the present node; none of it at a known start and after an impact [s]."""
    covered: float = 0.0
    """The time that the impulses of this step stand for [s]."""

    # -- nodes -------------------------------------------------------------------------------------------------------------------

    def node(self, state: step.State) -> Node:
        touch = self.spots.touch(np.asarray(state.node.H))
        return Node(state, touch, self.spots.gaps(touch, np.asarray(state.node.s)))

    def rows(self, node: Node, which: np.ndarray, normals: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = node.state.node
        return self.spots.rows(node.touch, np.asarray(n.T), np.asarray(n.Z), np.asarray(n.A), which, normals)

    # -- lasting contact ---------------------------------------------------------------------------------------------------------

    def hold(self, a: Node, tau: float, held: np.ndarray, u: np.ndarray, applied: np.ndarray, linear: bool = False) -> Trial:
        """A step of length tau in which the places `held` do not close: their gaps at its end, or (`linear`) what these are to first order from its start."""
        state = a.state
        if not len(held):
            new, status, _ = self._attempt(state, np.zeros(self.structure.nv), u, applied, tau)
            return Trial(self.node(new), held, np.zeros((0, 3)), np.zeros((0, 3, 3)), status, True)
        rates, acts, directions = self.rows(a, held)
        through = acts.reshape(-1, acts.shape[2])
        L = self._first_impulses(held, directions) * 0.5 * (self.before + tau)
        target = np.minimum(a.gaps[held], 0.0) * (1.0 - RECOVERED * tau / self.h)
        friction, exact, b = self.spots.sliding[held], False, a
        status, fastest, known = step.CONVERGED, 0.0, np.zeros_like(L)
        for k in range(ITERATIONS):
            new, status, D = self._attempt(state, through.T @ L.ravel(), u, applied, tau)
            if status not in (step.CONVERGED, step.OPENED):
                if not L.any():
                    break
                L = 0.5 * (L + known) if k else 0.0 * L  # too much of it
                continue
            b, known, moved = self.node(new), L, np.asarray(new.d)
            velocity = rates @ moved / tau
            velocity[:, 0] = (a.gaps[held] - target) / tau + velocity[:, 0] if linear else (b.gaps[held] - target) / tau
            ends = rates if linear else np.concatenate([self.rows(b, held, True)[0][:, :1], rates[:, 1:]], axis=1)
            A = ends.reshape(-1, moved.size) @ D @ through.T / tau
            free = velocity - (A @ L.ravel()).reshape(-1, 3)
            solution = cone.solve(A, free, friction, L)
            change = (A @ (solution.L - L).ravel()).reshape(-1, 3)
            fastest = max(fastest, float(np.abs(free).max()))
            if (np.abs(change).max() <= SETTLED * (fastest + 1e-3 * self.size) + ROUNDING * self.size / tau and k > 0) or np.abs(solution.L - L).max() == 0.0:
                exact = linear or (solution.residual < cone.GOOD and self._passive(state, L, rates @ moved / tau, D / tau))
                break
            state = self._guessed(state, moved + D @ (through.T @ (solution.L - L).ravel()))
            L = solution.L
        return Trial(b, held, L, directions, status, exact)

    @staticmethod
    def _passive(state: step.State, L: np.ndarray, velocity: np.ndarray, mobility: np.ndarray) -> bool:
        """Whether impulses do no work, but for what the bending of surfaces in a step makes of it: solutions of the equations of a step that jump are none of the mechanics."""
        p = np.asarray(state.p)
        return float((L * velocity).sum()) <= WORK * 0.5 * abs(float(p @ mobility @ p))

    def _first_impulses(self, held: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Forces of the step before in the directions of this one; none of places that did not touch."""
        out = np.zeros((len(held), 3))
        before = {int(s): f for s, f in zip(self.held, self.pushing, strict=True)}
        for i, s in enumerate(held):
            if int(s) in before:
                out[i] = directions[i] @ before[int(s)] if directions[i].any() else before[int(s)]
        return out

    def _attempt(self, state: step.State, kick: np.ndarray, u: np.ndarray, applied: np.ndarray, tau: float) -> tuple[step.State, int, np.ndarray]:
        pieces = step.piece(u[:, None], 0), step.piece(applied[:, None], 0)
        _, new, _, _, status, count, D = self.steps(self.values, state, kick, *pieces, np.int32(1), np.float64(tau), np.float64(self.delta))
        self.iterations += int(count)
        return new, int(status), np.asarray(D)

    @staticmethod
    def _guessed(state: step.State, d: np.ndarray) -> step.State:
        """The state with `d` as the displacement that Newton's method begins with."""
        return state._replace(d=d, d_before=d, d_before_that=d)

    def _velocity(self, a: Node) -> tuple[np.ndarray, np.ndarray]:
        P = np.asarray(self.mobility(self.values, a.state.node))
        return P, P @ np.asarray(a.state.p)

    # -- one step ----------------------------------------------------------------------------------------------------------------

    def advance(self, a: Node, k: int, u: np.ndarray, applied: np.ndarray) -> Node:
        """From node k to node k + 1; forces, impulses and events go into the log."""
        left, part, jumps, start = self.h, self.h, 0, a
        held, kinetic, linear = self.held, None, False
        while left > 0.0:
            part = min(part, left)
            try:
                grown, trial, fast = self._grown(a, part, held, u, applied, jumps > MOST, linear)
                if not (trial.exact or len(fast)) and not linear:
                    raise Failed(step.STALLED, trial.node.state)
                if kinetic is None and (len(fast) or len(np.setdiff1d(grown, self.held))):
                    kinetic = self._kinetic(start)
                tau, trial = self._located(a, part, grown, fast, u, applied, linear) if len(fast) else (part, trial)
            except Failed:
                if linear:
                    raise
                linear = part <= SMALLEST * self.h
                part = part if linear else 0.5 * part
                a = self._restarted(a, self._velocity(a)[1] * part, float(a.state.first))
                continue
            held = grown
            if linear:
                self.inexact.append((k + 1) * self.h - left)
                linear, part = False, 4.0 * part
            if tau > 0.0:
                self._record(k, a, trial, tau)
                held = trial.held[trial.impulses[:, 0] > 0.0]
                a, left = trial.node, left - tau
            if len(fast):
                a, held = self._struck(a, k, (k + 1) * self.h - left, fast)
                jumps += 1
            if left < SHORTEST * self.h:
                left = 0.0
            if left > 0.0 or part < self.h or jumps:
                length = max(tau, SHORTEST * self.h)
                d = np.asarray(a.state.d) / length if not len(fast) else self._velocity(a)[1]
                a = self._restarted(a, d * min(part, left or self.h), 1.0)
        self._finish(k, start, a, kinetic)
        return a

    def _finish(self, k: int, start: Node, end: Node, kinetic: float | None) -> None:
        """Impulses of step k become forces; what pushed in its last part is held in the next step."""
        for impulses in (self.log.force[:, :, k], self.log.normal[:, k]):
            impulses /= self.covered or 1.0
        self.covered = 0.0
        pushed = np.abs(self.pushing).max(axis=1, initial=0.0) > 0.0
        self.held, self.pushing = self.held[pushed], self.pushing[pushed]
        if kinetic is not None:
            self.log.kinetic[k], self.log.kinetic[k + 1] = kinetic, self._kinetic(end)

    def _grown(
        self, a: Node, tau: float, held: np.ndarray, u: np.ndarray, applied: np.ndarray, catch: bool, linear: bool
    ) -> tuple[np.ndarray, Trial, np.ndarray]:
        """The places that have to be held in a step of length tau, the step with them, and the places that close too fast for that."""
        rates = None
        while True:
            trial = self.hold(a, tau, held, u, applied, linear)
            if trial.status not in (step.CONVERGED, step.OPENED):
                raise Failed(trial.status, trial.node.state)
            bad = np.flatnonzero(trial.node.gaps < -CLOSED * self.size)
            bad = np.setdiff1d(bad, held)
            if not trial.exact and not linear:
                raise Failed(step.STALLED, trial.node.state)
            if not len(bad):
                return held, trial, bad
            if rates is None:
                rates = self.rows(a, np.arange(self.spots.count), True)[0][:, 0] @ self._velocity(a)[1]
            mean = (trial.node.gaps[bad] - a.gaps[bad]) / tau
            slow = SLOW * 2.0 * np.abs(mean - rates[bad]) * self.h / tau
            touching = a.gaps[bad] <= 100.0 * CLOSED * self.size
            fast = (-mean > slow) & (~touching | (-rates[bad] > slow))
            if catch or not fast.all():
                held = np.union1d(held, bad if catch else bad[~fast]).astype(np.int64)
                continue
            return held, trial, bad

    def _located(self, a: Node, tau: float, held: np.ndarray, fast: np.ndarray, u: np.ndarray, applied: np.ndarray, linear: bool) -> tuple[float, Trial]:
        """The time at which the first of the places `fast` closes, and the step up to it (regula falsi, Illinois)."""
        low, high = 0.0, tau
        f_low = float(a.gaps[fast].min())
        empty = Trial(a, held, np.zeros((len(held), 3)), np.zeros((len(held), 3, 3)), step.CONVERGED, True)
        if f_low <= CLOSED * self.size:
            return 0.0, empty
        trial = self.hold(a, high, held, u, applied, linear)
        f_high, side, t = float(trial.node.gaps[fast].min()), 0, high
        for _ in range(SEARCH):
            t = (low * f_high - high * f_low) / (f_high - f_low)
            t = min(max(t, low + 1e-3 * (high - low)), high - 1e-3 * (high - low))
            trial = self.hold(a, t, held, u, applied, linear)
            if trial.status not in (step.CONVERGED, step.OPENED):
                raise Failed(trial.status, trial.node.state)
            f = float(trial.node.gaps[fast].min())
            if abs(f) <= 1e-3 * CLOSED * self.size or high - low <= SHORTEST * SHORTEST * self.h:
                break
            if f > 0.0:
                low, f_low = t, f
                f_high = 0.5 * f_high if side > 0 else f_high
                side = 1
            else:
                high, f_high = t, f
                f_low = 0.5 * f_low if side < 0 else f_low
                side = -1
        return t, trial

    def _struck(self, a: Node, k: int, time: float, fast: np.ndarray) -> tuple[Node, np.ndarray]:
        """The law of impacts at a node, and which places touch after it."""
        which = np.flatnonzero(a.gaps <= 100.0 * CLOSED * self.size)
        rates, acts, directions = self.rows(a, which)
        P, v = self._velocity(a)
        J, through = rates.reshape(-1, v.size), acts.reshape(-1, v.size)
        before = (J @ v).reshape(-1, 3)
        struck = np.isin(which, fast) & (before[:, 0] < 0.0)
        found = impact(J @ P @ through.T, before, self.spots.friction[which], np.where(struck, self.spots.restitution[which], 0.0), self.spots.poisson[which])
        kick = through.T @ found.impulse.ravel()
        p = np.asarray(a.state.p) + kick
        self._events(k, time, which, struck, before, found, directions, a)
        state = a.state._replace(p=p)
        self.before = 0.0
        stays = which[(found.impulse[:, 0] > 0.0) & (found.after[:, 0] <= 0.0)]
        return Node(state._replace(first=np.float64(1.0)), a.touch, a.gaps), stays

    def _restarted(self, a: Node, d: np.ndarray, first: float) -> Node:
        return Node(self._guessed(a.state, d)._replace(first=np.float64(first)), a.touch, a.gaps)

    def _kinetic(self, a: Node) -> float:
        return 0.5 * float(self._velocity(a)[1] @ np.asarray(a.state.p))

    # -- what is told ------------------------------------------------------------------------------------------------------------

    def _record(self, k: int, a: Node, trial: Trial, tau: float) -> None:
        """Impulses of lasting contact over a part of step k."""
        between = len(self.spots.links[0])
        world = np.where((trial.held < between)[:, None], np.einsum("mi,mij->mj", trial.impulses, trial.directions), trial.impulses)
        cover = 0.5 * (self.before + tau)
        self.held, self.pushing, self.before, self.covered = trial.held, world / cover, tau, self.covered + cover
        self._share(self.log.force, k, a, trial.held, world)
        np.add.at(self.log.normal[:, k], self.spots.owner[trial.held], trial.impulses[:, 0])

    def lasted(self, k: int, steps: int, world: np.ndarray, normal: np.ndarray, at: np.ndarray, pushing: np.ndarray) -> None:
        """Impulses of whole steps from node k on, in which the places held pushed all along: world (steps, places, 3), their normal parts, and where they acted."""
        between, here = len(self.spots.links[0]), slice(k, k + steps)
        for i, spot in enumerate(self.held):
            f, owner = world[:steps, i].T / self.h, self.spots.owner[spot]
            self.log.normal[owner, here] += normal[:steps, i] / self.h
            if spot >= between:
                self.log.force[owner, :, here] += self.spots.sign[spot - between] * f
                continue
            self.log.force[owner, :, here] += self.spots.side[spot] * f
            wrench = np.concatenate([cross(at[:steps, i], f.T), f.T], axis=1).T
            for links, side in zip(self.spots.links, (1.0, -1.0), strict=True):
                self.log.wrench[:, links[spot], here] += side * wrench
        self.pushing = pushing[: len(self.held)]

    def _share(self, target: np.ndarray, k: int, a: Node, which: np.ndarray, world: np.ndarray, at: float = 0.0) -> None:
        """To the contacts, as forces of b on a; and to links, `1 - at` of it at node k and `at` at the next."""
        between = len(self.spots.links[0])
        sign = np.where(which < between, self.spots.side[which], np.append(self.spots.sign, 0.0)[np.maximum(which - between, -1)])
        np.add.at(target[:, :, k], self.spots.owner[which], world * sign[:, None])
        here = which < between
        spots, f = which[here], world[here] / self.h
        x = a.touch.at_a[:, spots].T
        wrench = np.concatenate([cross(x, f), f], axis=1)
        for links, side in zip(self.spots.links, (1.0, -1.0), strict=True):
            for node, share in ((k, 1.0 - at), (k + 1, at)):
                if share and node < self.log.wrench.shape[2]:
                    np.add.at(self.log.wrench[:, :, node].T, links[spots], side * share * wrench)

    def _events(self, k: int, time: float, which: np.ndarray, struck: np.ndarray, before: np.ndarray, found: Any, directions: np.ndarray, a: Node) -> None:
        between, spots = len(self.spots.links[0]), self.spots
        world = np.where((which < between)[:, None], np.einsum("mi,mij->mj", found.impulse, directions), found.impulse)
        self._share(self.log.impulse, k, a, which, world, at=min(max(time / self.h - k, 0.0), 1.0))
        for owner in np.unique(spots.owner[which[struck & (found.impulse[:, 0] > 0.0)]]):
            mine = spots.owner[which] == owner
            fastest = np.flatnonzero(mine)[np.argmin(before[mine, 0])]
            sign = float(spots.side[which[fastest]]) if which[fastest] < between else float(spots.sign[which[fastest] - between])
            slips = np.abs(found.after[mine & (found.impulse[:, 0] > 0.0), 1:]).max(initial=0.0) > 1e-9 * (1.0 + np.abs(before).max())
            e = float(spots.restitution[which[fastest]])
            note = "" if found.factor == 1.0 else f"Restitution {e:g} would have made energy here; {found.factor * e:.4g} is the largest that does not."
            self.log.events.append(
                Event(time, spots.owner_name(int(which[fastest])), SLIP if slips else STICK, _three(sign * world[mine].sum(0)),
                      float(found.impulse[mine, 0].sum()), float(-before[fastest, 0]), float(found.after[fastest, 0]), -found.energy, found.factor * e, note)
            )  # fmt: skip


def _three(x: np.ndarray) -> tuple[float, float, float]:
    return float(x[0]), float(x[1]), float(x[2])


# -- starts --------------------------------------------------------------------------------------------------------------------------


def refuse_inside(spots: Spots, model: Model, gaps: np.ndarray, size: float) -> None:
    """A sentence where the start is inside something."""
    worst = int(np.argmin(gaps)) if len(gaps) else -1
    if worst < 0 or gaps[worst] >= -INSIDE * size:
        return
    name, deep = spots.owner_name(worst), -float(gaps[worst])
    if name.startswith("limit."):
        limit = model.tables["limit"][name.removeprefix("limit.")]
        raise SimulationError(
            f"joint.{limit.joint} starts {deep:.3g} beyond its {limit.side} limit {limit.position:g} ({name}); start it inside, or move the limit."
        )
    contact = model.tables["contact"][name.removeprefix("contact.")]
    raise SimulationError(
        f'At the start "{contact.a}" is {deep:.3g} m inside "{contact.b}" ({name}); start it outside, or leave contacts out (contacts=False).'
    )


def gaps_along(spots: Spots, numbers: Numbers, q: np.ndarray, near: np.ndarray) -> np.ndarray:
    """(spots, nodes) of coordinates (nq, nodes); `near` the joint coordinates just before the first (whole turns are counted from there)."""
    structure = spots.structure
    touch = spots.touch(poses(structure, Geometry.of(structure, numbers), q))
    if not len(spots.coordinate):
        return touch.gap
    if structure.coordinates == TREE:
        return spots.gaps(touch, q[structure.scalar_positions])
    turns = assembly.turns_along(structure, numbers, q)
    s = assembly.frames_at(structure, numbers, q, turns).s[: len(near)]
    whole = 2.0 * np.pi * np.round((near - s[:, 0]) / (2.0 * np.pi))
    return spots.gaps(touch, s + np.where(plan_of(structure).rotational, whole, 0.0)[:, None])
