"""What a step with contacts asks of the compiled mechanics: a step with an impulse, how its end answers to impulses, and the mobility at a node.

Both programs know nothing of contacts, so mechanisms of equal topology share them whatever touches what.

- `steps`: the variational steps (`step.py`) of any length from a node whose momentum gets an additional `kick`, and, for a single one, `dq_(k+1)/dp_k`, the answer of its end to
  impulses at its start: the inverse of the step's own Newton matrix at the solution, so that stiff springs, dampers and loops are in it. Flights are the same program without a kick.
- `mobility`: at one node, the map from momenta to velocities that keep all rigid joints and loops,

    [M  -C'] [v  ]   [p]
    [G   0 ] [lam] = [0]        v = P p

  with compliant rows left out: in no time they give way to any impulse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from calibody.mechanics.compilation import program
from calibody.mechanics.structure import Structure
from calibody.solve.dense import factored, solved
from calibody.steppers.step import PIECE, Node, Program, State, Values


def steps(step: Program, values: Values, state: State, kick: Any, control: Any, applied: Any, count: Any, h: Any, delta: Any) -> tuple:
    """As `Program.advance`, from a momentum with the kick; and after a single step (nv, nv) how its coordinates change with the momentum."""
    nv = step.structure.nv
    state = state._replace(p=state.p + kick)
    found = step.advance(values, state, control, applied, count, h, delta)
    new = found[1]
    left, _, J = step.left_right(values, state.node, new.node, control[:, 0], applied[:, 0], h, delta)
    impulse = h * jnp.where(state.first > 0, 0.5, 1.0) * new.multipliers
    _, K = step.equations(values, state, new.node, impulse, left, J, h, delta)
    return *found, solved(factored(K), jnp.eye(K.shape[0])[:, :nv])[:nv]


def mobility(step: Program, values: Values, node: Node) -> Any:
    """P (nv, nv) of the module docstring."""
    s, plan = step.structure, step.plan
    M = step.bodies(values, node, node, 1.0)[2]
    Z, A = (step.combined(values, x, node.pull) for x in (node.Z, node.A))
    M = M + A.T @ (values.coordinate_inertia[:, None] * Z)
    if len(plan.ball_links):
        _, turns = step.ball_node(values, node)
        M = M + jnp.einsum("akj,k,aki->ji", turns, values.ball_law[3], turns)
    if not s.nc:
        return solved(factored(M), jnp.eye(s.nv))
    kept = values.active * (values.softness[0] == 0.0)
    K = jnp.concatenate([jnp.concatenate([M, -(node.C * kept[:, None]).T], axis=1), jnp.concatenate([node.G * kept[:, None], jnp.diag(1.0 - kept)], axis=1)])
    return solved(factored(K), jnp.eye(s.nv + s.nc)[:, : s.nv])[: s.nv]


def compiled_steps(structure: Structure, values: Values, state: State, actuators: int) -> Callable[..., tuple]:
    step = Program(structure)
    pieces = np.zeros((actuators, PIECE)), np.zeros((structure.applied_rows, PIECE))
    arguments = (values, state, np.zeros(structure.nv), *pieces, np.int32(0), np.float64(0.0), np.float64(0.0))
    return program(lambda *a: steps(step, *a), ("contact", structure.topology), arguments)


def compiled_mobility(structure: Structure, values: Values, node: Node) -> Callable[..., Any]:
    step = Program(structure)
    return program(lambda *a: mobility(step, *a), ("mobility", structure.topology), (values, node))
