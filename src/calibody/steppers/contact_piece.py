"""Steps of lasting contact in compiled pieces: what rests, slides or rolls with the same places touching all along.

The equations and the Newton iteration are those of `contact.Stepper.hold`, with the complementarity problem of `complementarity/cone.py` inside the loop over steps; only the set of
places is given, and whole steps. A piece ends where one of its steps is not plain: a force is not found at once, or a place that is held carries nothing any more. Whatever else closes
meanwhile is looked for afterwards, as in flights. The step at which a piece ends, impacts and changes of the set belong to the host.

Spots of points against planes (balls, capsules, boxes and rims on the ground) and limits can be held here; `can_hold` says so. All numbers of the spots are arguments, so mechanisms of
equal topology share one program for every padded count of places, whatever stands on what.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from calibody.complementarity import cone
from calibody.mechanics import shapes
from calibody.mechanics.compilation import compiled_before, program
from calibody.mechanics.contact import Spots, basis, rate_along
from calibody.mechanics.structure import Structure
from calibody.solve.dense import factored, put_at, solved
from calibody.steppers.contact import ITERATIONS, RECOVERED, ROUNDING, SETTLED, WORK
from calibody.steppers.step import CONVERGED, PIECE, Node, Program, State, Values, column

POINTS = shapes.point_plane.__name__
# Steps that are worth a program: single ones take a millisecond each, to make it takes some seconds.
WORTH = 4000


class Held(NamedTuple):
    """Places that are held, padded to m: those of points against planes, and limits."""

    links: Any
    """(2, m) of a and b."""
    data: Any
    """(10, m) as `shapes.point_plane` takes it."""
    moves: Any
    """(2, m, nv) 1 where a velocity moves the link of a, of b."""
    limit: Any
    """(m, scalar coordinates) the sign of a limit at its coordinate."""
    position: Any
    """(m,) of limits, times their sign."""
    between: Any
    """(m,) 1 for places between links, 0 for limits."""
    friction: Any
    empty: Any
    """(m,) 1 for what is padding."""

    @classmethod
    def of(cls, spots: Spots, which: np.ndarray) -> Held:
        structure, count, m = spots.structure, len(spots.links[0]), len(which)
        size = next(s for s in cone.SIZES if s >= m)
        group = next((g for g in spots.groups if g[0] == POINTS), None)
        first = _first(spots)
        data, links = np.zeros((10, size)), np.zeros((2, size), dtype=np.int32)
        data[9] = 1.0  # a normal of padding and limits, so that nothing is divided by zero
        moves, limit = np.zeros((2, size, structure.nv)), np.zeros((size, len(structure.scalar_coordinates)))
        position, between, friction, empty = np.zeros(size), np.zeros(size), np.zeros(size), np.ones(size)
        friction[:m], empty[:m] = spots.sliding[which], 0.0
        for i, s in enumerate(which):
            if s < count:
                assert group is not None
                data[:, i], links[:, i], between[i] = group[3][:, s - first], (spots.links[0][s], spots.links[1][s]), 1.0
                moves[:, i] = spots.above[0][s], spots.above[1][s]
            else:
                c = s - count
                limit[i, spots.coordinate[c]], position[i] = spots.sign[c], spots.sign[c] * spots.position[c]
        return cls(links, data, moves, limit, position, between, friction, empty)


def _first(spots: Spots) -> int:
    """The number of the first spot of a point against a plane."""
    first = 0
    for kernel, links, _, _ in spots.groups:
        if kernel == POINTS:
            break
        first += len(links)
    return first


def can_hold(spots: Spots, which: np.ndarray) -> bool:
    """Whether all of these places are of a kind that a compiled piece knows."""
    first, between = _first(spots), len(spots.links[0])
    points = next((len(g[1]) for g in spots.groups if g[0] == POINTS), 0)
    return len(which) <= cone.SIZES[-1] and bool((((which >= first) & (which < first + points)) | (which >= between)).all())


class Done(NamedTuple):
    """Of the steps that a piece made, by step."""

    q: Any
    multipliers: Any
    world: Any
    """(PIECE, m, 3) impulses of b on a in world axes; of limits on the coordinate, first number."""
    normal: Any
    """(PIECE, m)"""
    at: Any
    """(PIECE, m, 3) where they act, at the step's start."""


class Places(NamedTuple):
    """Kinematics of what is held at one node."""

    gap: Any
    at_a: Any
    at_b: Any
    directions: Any


def places(held: Held, node: Node) -> Places:
    first, second = (shapes.Pose(node.H[:, :3, k], node.H[:, 3, k]) for k in held.links)
    touch = shapes.point_plane(first, second, held.data)
    gap = held.between * touch.gap + held.limit @ node.s - held.position
    return Places(gap, touch.at_a.T, touch.at_b.T, basis(touch.normal.T, jnp))


def normal_rates(held: Held, node: Node, at: Places, gradient: Any) -> Any:
    """(m, nv) of the gaps; `gradient` that of the joint coordinates."""
    return rate_along(at.directions[:, 0], at.at_a, at.at_b, node.T, (held.moves[0], held.moves[1])) + held.limit @ gradient


def slip_rates(held: Held, node: Node, at: Places) -> Any:
    """(m, 2, nv)"""
    return jnp.stack([rate_along(at.directions[:, k], at.at_a, at.at_a, node.T, (held.moves[0], held.moves[1])) for k in (1, 2)], axis=1)


def to_world(held: Held, directions: Any, L: Any) -> Any:
    return jnp.where(held.between[:, None] > 0.0, jnp.einsum("mi,mij->mj", L, directions), L)


class _Newton(NamedTuple):
    """Iteration for the impulses of one step."""

    k: Any
    guess: State
    L: Any
    new: State
    at: Any
    """The impulses with which `new` was reached."""
    fastest: Any
    status: Any
    settled: Any
    exact: Any
    used: Any


def hold(
    step: Program, values: Values, held: Held, state: State, forces: Any, u: Any, applied: Any, h: Any, delta: Any, size: Any
) -> tuple[State, Any, Places, Any, Any]:
    """One step: its end, the impulses (m, 3), the places at its start, whether it is to be believed, and Newton iterations used."""
    nv, a = step.structure.nv, state.node
    start = places(held, a)
    slips = slip_rates(held, a, start)
    rates = jnp.concatenate([normal_rates(held, a, start, a.Z)[:, None], slips], axis=1)
    through = jnp.concatenate([normal_rates(held, a, start, a.A)[:, None], slips], axis=1).reshape(-1, nv)
    guess = h * jnp.where(held.between[:, None] > 0.0, jnp.einsum("mij,mj->mi", start.directions, forces), forces)
    target = jnp.minimum(start.gap, 0.0) * (1.0 - RECOVERED)
    padding = jnp.diag(jnp.repeat(held.empty, 3))
    count = jnp.sum(1.0 - held.empty).astype(jnp.int32)
    still = jnp.zeros_like(held.friction)

    def iterate(x: _Newton) -> _Newton:
        new, status, used = step.step(values, x.guess._replace(p=state.p + through.T @ x.L.ravel()), u, applied, h, delta)
        left, _, J = step.left_right(values, a, new.node, u, applied, h, delta)
        _, K = step.equations(values, state, new.node, h * new.multipliers, left, J, h, delta)
        D = solved(factored(K), jnp.eye(K.shape[0])[:, :nv])[:nv]
        end, moved = places(held, new.node), new.d
        slip = rates @ moved / h
        velocity = jnp.concatenate([((1.0 - held.empty) * (end.gap - target) / h)[:, None], slip[:, 1:]], axis=1)
        ends = jnp.concatenate([normal_rates(held, new.node, end, new.node.Z)[:, None], slips], axis=1).reshape(-1, nv)
        A = ends @ D @ through.T / h
        free = velocity - (A @ x.L.ravel()).reshape(-1, 3)
        found = cone.solve_in_program(A + padding, free, held.friction, still, x.L, count)
        change = (A @ (found.L - x.L).ravel()).reshape(-1, 3)
        fastest = jnp.maximum(x.fastest, jnp.max(jnp.abs(free)))
        small = (jnp.max(jnp.abs(change)) <= SETTLED * (fastest + 1e-3 * size) + ROUNDING * size / h) & (x.k > 0)
        settled = small | (jnp.max(jnp.abs(found.L - x.L)) == 0.0)
        passive = jnp.sum(x.L * slip) <= WORK * 0.5 * jnp.abs(state.p @ D @ state.p) / h
        guessed = moved + D @ (through.T @ (found.L - x.L).ravel())
        guess = state._replace(d=guessed, d_before=guessed, d_before_that=guessed)
        return _Newton(x.k + 1, guess, found.L, new, x.L, fastest, status, settled, (found.residual < cone.GOOD) & passive, x.used + used)

    def unfinished(x: _Newton) -> Any:
        return ~x.settled & (x.status == CONVERGED) & (x.k < ITERATIONS)

    no = jnp.zeros((), bool)
    zero = jnp.zeros((), jnp.int32)
    x = jax.lax.while_loop(unfinished, iterate, _Newton(zero, state, guess, state, guess, jnp.zeros(()), zero, no, no, zero))
    carries = jnp.all((x.at[:, 0] > 0.0) | (held.empty > 0.0))
    return x.new, x.at, start, x.settled & x.exact & (x.status == CONVERGED) & carries, x.used


def piece(step: Program, values: Values, held: Held, state: State, forces: Any, control: Any, applied: Any, count: Any, h: Any, delta: Any, size: Any) -> tuple:
    """Up to `count` steps: how many were made, the state after them, what was on the way, world forces to begin the next with, and Newton iterations."""
    s, m = step.structure, held.friction.shape[0]
    done = Done(jnp.zeros((PIECE, s.nq)), jnp.zeros((PIECE, s.nc)), jnp.zeros((PIECE, m, 3)), jnp.zeros((PIECE, m)), jnp.zeros((PIECE, m, 3)))

    def unfinished(carry: tuple) -> Any:
        return (carry[0] < count) & carry[4]

    def another(carry: tuple) -> tuple:
        i, state, forces, done, _, used = carry
        new, L, start, good, more = hold(step, values, held, state, forces, column(control, i), column(applied, i), h, delta, size)
        world = to_world(held, start.directions, L)
        here = (new.node.q, new.multipliers, world, L[:, 0], start.at_a)
        done = Done(*(put_at(all_, x[None], (i, *[0] * x.ndim)) for all_, x in zip(done, here, strict=True)))
        state, forces = jax.tree.map(lambda x, y: jnp.where(good, x, y), (new, world / h), (state, forces))
        return i + good.astype(jnp.int32), state, forces, done, good, used + more

    i, state, forces, done, _, used = jax.lax.while_loop(
        unfinished, another, (jnp.zeros((), jnp.int32), state, forces, done, jnp.ones((), bool), jnp.zeros((), jnp.int32))
    )
    return i, state, done, forces, used


_asked: dict[tuple, int] = {}
"""Steps that pieces could have made in this process, by program that was not compiled for them."""


def compiled_piece(structure: Structure, values: Values, held: Held, state: State, actuators: int, steps: int) -> Callable[..., tuple] | None:
    """The program for so many steps, or none where single steps cost less than making it."""
    step = Program(structure)
    numbers = np.float64(0.0), np.float64(0.0), np.float64(0.0)
    pieces = np.zeros((actuators, PIECE)), np.zeros((structure.applied_rows, PIECE))
    arguments = (values, held, state, np.zeros((len(held.friction), 3)), *pieces, np.int32(0), *numbers)
    key = ("lasting contact", structure.topology)
    if not compiled_before(key, arguments):
        asked = _asked[key, len(held.friction)] = _asked.get((key, len(held.friction)), 0) + steps
        if asked < WORTH:
            return None
    return program(lambda *a: piece(step, *a), key, arguments)
