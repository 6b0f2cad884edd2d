"""A whole motion with contacts: flights and lasting contact in compiled pieces (`contact_piece.py`), impacts and whatever else begins or ends in single steps (`contact.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibody.mechanics import host
from calibody.mechanics.contact import Spots
from calibody.mechanics.structure import Numbers, Structure
from calibody.steppers import contact_piece, contact_step, step
from calibody.steppers.base import Start, Trajectory
from calibody.steppers.contact import CLOSED, Failed, Node, Stepper, gaps_along, refuse_inside
from calibody.steppers.events import ContactLog

# Steps of the first flight after a contact; every further one is twice as long, up to `step.PIECE`.
FIRST_FLIGHT = 8
# Steps with the same places held, nothing struck and nothing cut, after which a piece of lasting contact is tried.
STEADY = 4

Why = Callable[[int, float, step.State], str]


class Run:
    """The nodes of one motion as they are made."""

    def __init__(self, structure: Structure, numbers: Numbers, start: Start, control: np.ndarray, applied: np.ndarray, h: float, delta: float) -> None:
        self.structure, self.numbers, self.control, self.applied, self.h, self.delta = structure, numbers, control, applied, h, delta
        at = host.configuration(structure, numbers, start.q)
        self.active = host.independent_rows(structure, at.G, numbers.softness)
        self.values = step.Values.of(structure, numbers, self.active)
        state = step.first_state(structure, numbers, at, start, h)
        self.n, actuators = applied.shape[1], len(control)
        spots, size = Spots.of(structure), float(step.size_of_dofs(structure, numbers).max(initial=1.0))
        programs = contact_step.compiled_steps(structure, self.values, state, actuators), contact_step.compiled_mobility(structure, self.values, state.node)
        owners = len(structure.model.contacts) + len(structure.model.limits)
        self.contacts = Stepper(structure, numbers, spots, self.values, h, delta, size, *programs, ContactLog.empty(owners, structure.n + 1, self.n + 1))
        self.at = self.contacts.node(state)
        refuse_inside(spots, structure.model, self.at.gaps, size)
        self.q, self.multipliers, self.k, self.flight, self.steady = [start.q[None]], [np.zeros((0, structure.nc))], 0, 0, 0
        self.worth = True  # whether pieces of lasting contact are, as far as is known

    def go(self, why: Why) -> Trajectory:
        failure = None
        while self.k < self.n and failure is None:
            try:
                if self.flight and not self._flown():
                    self.flight = 0
                if self.steady >= STEADY and self.worth and self.k < self.n:
                    self._lasted()
                if not self.flight and self.k < self.n:
                    self._touching()
            except Failed as failed:
                failure = why(failed.status, self.k * self.h, failed.state)
        lam = np.concatenate(self.multipliers).T
        last = lam[:, -1:] if lam.shape[1] else np.zeros((self.structure.nc, 1))
        c = self.contacts
        return Trajectory(np.concatenate(self.q).T, np.concatenate([lam, last], axis=1), c.iterations, self.active, failure, tuple(self._notes()), c.log)

    def _touching(self) -> None:
        """One step with whatever touches."""
        before = self.contacts.held
        node = self.contacts.advance(self.at, self.k, self.control[:, self.k], self.applied[:, self.k])
        held = self.contacts.held
        plain = float(node.state.first) == 0.0 and self.contacts.before == self.h
        self.steady = self.steady + 1 if plain and len(held) and np.array_equal(held, before) else 0
        self._append(np.asarray(node.state.node.q)[None], np.asarray(node.state.multipliers)[None], node)
        self.flight = 0 if len(held) else FIRST_FLIGHT

    def _flown(self) -> bool:
        """A piece without contact; whether all of it was."""
        count = min(self.flight, self.n - self.k, step.PIECE)
        pieces = step.piece(self.control, self.k), step.piece(self.applied, self.k)
        still = np.zeros(self.structure.nv)

        def fly(count: np.int32) -> tuple:
            return self.contacts.steps(self.values, self.at.state, still, *pieces, count, np.float64(self.h), np.float64(self.delta))

        done, state, q, forces, status, used, _ = fly(np.int32(count))
        done, status, q = int(done), int(status), np.asarray(q)
        c = self.contacts
        c.iterations += int(used)
        closed = np.zeros(0, dtype=np.int64)
        if done:
            gaps = gaps_along(c.spots, self.numbers, q[:done].T, np.asarray(self.at.state.node.s))
            closed = np.flatnonzero((gaps < -CLOSED * c.size).any(axis=0))
        if len(closed) and closed[0] < done:
            done = int(closed[0])
            if done:
                _, state, *_ = fly(np.int32(done))
        elif status != step.CONVERGED:
            raise Failed(status, state)
        if done:
            self._append(q[:done], np.asarray(forces)[:done], c.node(state))
            c.before = self.h
        self.flight = min(2 * self.flight, step.PIECE)
        return not len(closed)

    def _lasted(self) -> None:
        """Pieces of lasting contact, as long as the same places are held."""
        c = self.contacts
        self.steady = 0
        if not contact_piece.can_hold(c.spots, c.held):
            return
        held = contact_piece.Held.of(c.spots, c.held)
        run = contact_piece.compiled_piece(self.structure, self.values, held, self.at.state, len(self.control), self.n - self.k)
        if run is None:
            self.worth = False
            return
        count = done = step.PIECE
        while done == count and self.k < self.n:
            count = min(step.PIECE, self.n - self.k)
            pieces = step.piece(self.control, self.k), step.piece(self.applied, self.k)
            forces = np.zeros((len(held.friction), 3))
            forces[: len(c.held)] = c.pushing
            settings = np.float64(self.h), np.float64(self.delta), np.float64(c.size)

            def hold(count: int, pieces: tuple = pieces, forces: np.ndarray = forces, settings: tuple = settings) -> tuple:
                return run(self.values, held, self.at.state, forces, *pieces, np.int32(count), *settings)

            made, state, way, pushing, used = hold(count)
            done, c.iterations = int(made), c.iterations + int(used)
            q = np.asarray(way.q)
            closed = np.zeros(0, dtype=np.int64)
            if done:
                gaps = gaps_along(c.spots, self.numbers, q[:done].T, np.asarray(self.at.state.node.s))
                gaps[c.held] = 0.0
                closed = np.flatnonzero((gaps < -CLOSED * c.size).any(axis=0))
            if len(closed):
                done = int(closed[0])
                _, state, _, pushing, _ = hold(done) if done else (0, self.at.state, None, forces, 0)
            if done:
                c.lasted(self.k, done, np.asarray(way.world), np.asarray(way.normal), np.asarray(way.at), np.asarray(pushing))
                self._append(q[:done], np.asarray(way.multipliers)[:done], c.node(state))

    def _append(self, q: np.ndarray, forces: np.ndarray, node: Node) -> None:
        self.q.append(q)
        self.multipliers.append(forces)
        self.at, self.k = node, self.k + len(q)

    def _notes(self) -> list[str]:
        times = self.contacts.inexact
        if not times:
            return []
        several = f" and in {len(times) - 1} more" if len(times) > 1 else ""
        return [f"Contact forces could not be found to full accuracy in the step at t = {times[0]:.6g} s{several}; a shorter step may help."]


def run(structure: Structure, numbers: Numbers, start: Start, control: np.ndarray, applied: np.ndarray, h: float, delta: float, why: Any) -> Trajectory:
    """As `AbstractStepper.run`, of a model with contacts or limits; `why` makes the sentence of a step that failed."""
    return Run(structure, numbers, start, control, applied, h, delta).go(why)
