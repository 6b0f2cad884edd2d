"""The derivative of a complementarity problem's solution, by its active set ([marklund2025], appendix D.1).

With the active indices a (z_i basic; the free unknowns of a mixed problem always are) and the others b, the solution obeys

    A y = q,   A = [-M_a, 1_b],   y = (z on a, w on b)

and where no index switches, its tangent is `A y' = q' + M' z`, `z' = y'` on a and 0 on b. This is a linear map of (M', q'), so reverse mode is
its transpose: nothing is differentiated through the pivots.

**Assumptions.** (1) Strict complementarity: no index has z_i = w_i = 0. Where it fails the solution has a kink, and the formula gives the
derivative of one side of it. (2) A is regular: the solution is locally unique. `doubt` says in a sentence whether either fails; a problem
that has no solution has the derivative NaN, so that nobody goes on with it by accident.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from calibody.complementarity import lcp, mlcp
from calibody.complementarity.double import jax

# Margin (in the scaled problem) below which an index counts as switching: rounding of a solution is about 1e-13 there.
STRICT = 1e-9
# Reciprocal condition number of A (its columns scaled to one) below which the solution counts as not locally unique.
REGULAR = 1e-10


def _tangent(M: Any, solution: lcp.Solution, M_dot: Any, q_dot: Any) -> Any:
    y_dot = jnp.linalg.solve(lcp.complementary(M, solution.active), q_dot + M_dot @ solution.z)
    return jnp.where(solution.status == lcp.SOLVED, jnp.where(solution.active, y_dot, 0.0), jnp.nan)


@jax.custom_jvp
def lcp_solution(M: Any, q: Any) -> Any:
    """z of `lcp.solve`, differentiable."""
    return lcp.solve(M, q).z


@lcp_solution.defjvp
def _lcp_jvp(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    solution = lcp.solve(*primals)
    return solution.z, _tangent(primals[0], solution, *tangents)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def mlcp_solution(S: Any, b: Any, free: int, symmetric: bool = False) -> Any:
    """z of `mlcp.solve`, or of `mlcp.solve_symmetric`, differentiable."""
    return _solved(S, b, free, symmetric).z


def _solved(S: Any, b: Any, free: int, symmetric: bool) -> lcp.Solution:
    return mlcp.solve_symmetric(S, b, free) if symmetric else mlcp.solve(S, b, free)


@mlcp_solution.defjvp
def _mlcp_jvp(free: int, symmetric: bool, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    solution = _solved(primals[0], primals[1], free, symmetric)
    return solution.z, _tangent(primals[0], solution, *tangents)


_compiled = jax.jit(mlcp.solve, static_argnums=2)


def doubt(M: Any, q: Any, free: int = 0) -> str | None:
    """Why the derivative at (M, q) cannot be trusted, one sentence; None where it can (host)."""
    M, q = np.asarray(M, dtype=float), np.asarray(q, dtype=float)
    solution = _compiled(M, q, free)
    if int(solution.status) != lcp.SOLVED:
        return f"There is no solution to differentiate: {lcp.SENTENCES[int(solution.status)]}"
    z, w, active = (np.asarray(x) for x in (solution.z, solution.w, solution.active))
    A = np.asarray(lcp.complementary(M, active))
    A = A / np.maximum(np.linalg.norm(A, axis=0), 1e-300)
    if 1.0 / np.linalg.cond(A) < REGULAR:
        return "The solution is not locally unique: the equations of its active set are singular, so that it has no derivative."
    if float(solution.margin) < STRICT:
        size = np.asarray(lcp.scales(M[free:, free:]))
        i = int(np.argmin(np.maximum(z[free:] / size, w[free:] * size)))
        return (
            f"Strict complementarity fails at index {free + i} (z = {z[free + i]:.3g}, w = {w[free + i]:.3g}): the solution has a kink there, "
            "and the derivative is that of one of its sides."
        )
    return None
