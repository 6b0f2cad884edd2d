"""Inverse dynamics of the regularised stepper: the forces that a given motion needs beyond the model's own.

With both velocities of a step known, every multiplier is explicit ([marklund2025], equations 2.29 to 2.31):

    lam_A = (a - A v+)/S_A,     lam_c = -(C v+ + Y (4 c/h - C v))/S_c   (one sign: that of the pair which is not zero)

and so is dry friction. With `r = N v+` the rates of a joint's axes, `l = h c + U |lam_c|` its limit, the complementary rows say

    |lam_t,i| = max(|r_i| - sig, 0)/S_t,    sum |lam_t,i| = l + L sig  or  sig = 0 and sum |lam_t,i| <= l

so that sig is the threshold which makes the sum fit; for one axis and L = 0 this is `lam_t = clip(-r/S_t, -l, l)`. What is left over,

    h f = M (v+ - v) - A' lam_A - C' lam_c - N' lam_t - h (f_model + f_gyro)

is the force on every body that nothing in the model explains: zero for the stepper's own motions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from calibody.steppers.spook_rows import Values
from calibody.steppers.spook_step import Pieces, Step


class Forces(NamedTuple):
    """Forces at the inner nodes of a motion (node k from the steps before and after it), time last."""

    unexplained: Any
    """(bodies, 6, nodes): force [N] and torque about the centre of mass [N m], world axes, that the model does not exert."""
    reactions: Any
    """(constraint rows, nodes) [N, N m], in the order of the multipliers of a motion in `free` coordinates."""
    friction: Any
    """(axes with dry friction, nodes) [N, N m]."""
    bodies: tuple[str, ...] = ()
    friction_joints: tuple[str, ...] = ()


def threshold(rates: Any, slip: Any, slope: Any, limit: Any) -> Any:
    """(dry joints,) sig of the module docstring, for the absolute rates (dry joints, 3) of their axes, zero where a joint has fewer.

    With the k largest rates it is `(their sum - S_t l)/(k + S_t L)`; the largest of these over k is the one that fits. An axis that is not
    there adds nothing to the sum and so never gives the largest.
    """
    largest = -jnp.sort(-rates, axis=1)
    candidates = (jnp.cumsum(largest, axis=1) - (slip * limit)[:, None]) / (jnp.arange(1, 4)[None, :] + (slip * slope)[:, None])
    return jnp.maximum(jnp.max(candidates, axis=1), 0.0)


def friction_impulse(step: Step, values: Values, p: Pieces, v: Any, v_next: Any, lam: Any, h: Any) -> Any:
    """(dry axes,) lam_t; `lam` are the impulses of all constraint rows."""
    r = step.rows
    limit, mu = step.limits(values, p, v, h)
    load = jnp.zeros(len(r.dry)).at[r.row_joint].add(values.lever * jnp.abs(lam[r.loaded]))
    rate = p.axes[r.axes] @ v_next
    own = r.axis_joint
    among = np.arange(len(own)) - np.searchsorted(own, own)  # 0, or 0, 1, 2 for the axes of a ball
    padded = jnp.zeros((len(r.dry), 3)).at[own, among].set(jnp.abs(rate))
    slip = values.slip[np.searchsorted(own, np.arange(len(r.dry)))]
    sig = threshold(padded, slip, values.limit_slope, limit + mu * load)
    return -jnp.sign(rate) * jnp.maximum(jnp.abs(rate) - sig[r.axis_joint], 0.0) / values.slip


def free_impulses(step: Step, values: Values, p: Pieces, v: Any, v_next: Any, rate: Any, h: Any) -> tuple[Any, Any]:
    """A and lam_A; `rate` is `N v` with the axes of the step before."""
    A, K, Ka = step.free_rows(values, p, v, rate, h)
    return A, Ka - K * (A @ v_next)


def node_forces(step: Step, values: Values, q_before: Any, q: Any, s: Any, v: Any, v_next: Any, u: Any, applied: Any, h: Any) -> tuple[Any, Any, Any]:
    """Unexplained forces (nv,), reactions (nc,) and friction (axes,) at one node."""
    r = step.rows
    p = step.pieces(values, q, v, s, u, applied)
    rate = step.pieces(values, q_before, v, s, u, applied).axes @ v
    A, lam_A = free_impulses(step, values, p, v, v_next, rate, h)
    Y, S = values.regularisation(h)
    G, g = p.node.G[r.loaded], p.node.g[r.loaded]
    lam_c = -(G @ v_next + Y[r.loaded] * (4.0 / h * g - G @ v)) / S[r.loaded]
    lam = jnp.zeros(step.structure.nc).at[r.holonomic].set(lam_A[: len(r.holonomic)]).at[r.loaded].set(lam_c)
    lam_t = friction_impulse(step, values, p, v, v_next, lam, h) if r.dry else jnp.zeros(0)
    given = A.T @ lam_A + G.T @ lam_c + (p.axes[r.axes].T @ lam_t if r.dry else 0.0)
    return (step.momentum(values, p.R, v_next - v) - given) / h - p.force, lam / h, lam_t / h


def forces(step: Step, values: Values, q: np.ndarray, s: np.ndarray, v: np.ndarray, control: np.ndarray, applied: np.ndarray, h: float) -> tuple:
    """At every inner node: q (nq, K), s (coordinates, K), v (nv, K - 1) per step, control and applied per step."""

    def one(q_before: Any, q: Any, s: Any, v: Any, v_next: Any, u: Any, applied: Any) -> tuple:
        return node_forces(step, values, q_before, q, s, v, v_next, u, applied, h)

    return jax.jit(jax.vmap(one))(q[:, :-2].T, q[:, 1:-1].T, s[:, 1:-1].T, v[:, :-1].T, v[:, 1:].T, control[:, 1:].T, applied[:, 1:].T)
