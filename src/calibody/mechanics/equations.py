"""The discrete equations of the variational scheme and all their derivatives, for many nodes at once (transcription).

At every inner node k, in the coordinates solved for (DESIGN section 3):

    r_k = P_k'[V_k E - V_(k-1) E - (h/2)(F_(k-1) + F_k)] + A_k'[J_a (rho_k - rho_(k-1)) - (h/2)(t_(k-1) + t_k)] - h G_k' lambda_k - h A_k' w_k

Every element contributes a wrench per link and 6x6 blocks (its derivative with respect to twists at k-1, k, k+1). With `W_l` the sum of
the wrenches on link l and `t_j` the twist of dof j, everything below is composite sums over subtrees:

    r_j            = t_j . Wc_j,                       Wc_j = sum of W over the links below j
    dr_j/dq_i      = t_j . Bc_deeper(i,j) t_i          blocks B within one link, summed over the links below both
                   + t_j . B_ab t_i                    blocks between two links a (below j) and b (below i)
                   + [t_i, t_j] . Wc_j                 where dof i carries the axis of dof j along   (node k only)

so a tree of any shape costs (pairs of related dofs) x (nodes), and nothing is unrolled or differentiated through the tree.

Work is in three tiers: `Plan` (index arrays) once per structure; `kinematics` once per point; wrenches and blocks per evaluation.
Rows and columns are dofs; values are struct-of-arrays `(pairs, nodes)` with the pairs listed in `Plan.pairs`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibody.mechanics import assembly
from calibody.mechanics.assembly import Frames
from calibody.mechanics.plan import Plan, plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import TREE, Numbers, Structure, refuse_load_friction
from calibody.mechanics.sums import Sums, project
from calibody.solve.threads import each

# Link-nodes per chunk: small enough that wrenches and blocks (about 1 kB per link and node) stay near the core, large enough that the calls
# into numpy do not count. Measured on chains of 3 and 30 bodies in `free`: 1024 to 16 384 alike within the noise of a shared machine.
CHUNK = 8192


def evaluate(structure: Structure, numbers: Numbers, point: Point, derivatives: bool = True, frames: Frames | None = None) -> Evaluation:
    """Residuals at the inner nodes, constraints at all nodes, and (if asked) every derivative with respect to coordinates and controls; `frames` of the point, if known.

    Works through the nodes in chunks that fit the cache, on all cores.
    """
    refuse_load_friction(structure)
    if structure.coordinates != TREE and point.turns is None and frames is None:
        point = replace(point, turns=assembly.turns_along(structure, numbers, point.q))
    K = point.q.shape[1]
    pieces = chunks(structure, K)
    plan_of(structure).prepare()
    if len(pieces) == 1:
        return _evaluate_chunk(structure, numbers, point, derivatives, frames)

    def evaluated(k: int, end: int) -> Evaluation:
        return _evaluate_chunk(structure, numbers, point.at(slice(k, end), slice(k, end - 1)), derivatives, None if frames is None else frames.cut(k, end))

    first = evaluated(*pieces[0])
    out = _space(first, K)

    def fill(piece: tuple[int, int]) -> None:
        k, end = piece
        part = first if k == 0 else evaluated(k, end)
        first_own, end_own = k + (k > 0), end - (end < K)  # what depends on neighbours is known at the inner nodes of a piece only
        for name, shorter in _ARRAYS.items():
            array = getattr(part, name)
            if array is not None and shorter:
                getattr(out, name)[..., k : end - shorter] = array
            elif array is not None:
                getattr(out, name)[..., first_own:end_own] = array[..., first_own - k : end_own - k]

    each(fill, pieces)
    return out


def chunks(structure: Structure, K: int) -> list[tuple[int, int]]:
    """First node and end of the pieces that K nodes are worked through in; neighbours share two nodes."""
    step = max(64, CHUNK // max(1, len(plan_of(structure).massive)))
    return [(k, min(k + step + 2, K)) for k in range(0, max(K - 2, 1), step)]


# What an evaluation consists of, and how many fewer columns than nodes it has.
_ARRAYS = {"residual": 2, "constraint": 0, "minus": 2, "zero": 2, "plus": 2, "gradient": 0, "apart": 0, "before": 0, "control": 1}


def _space(part: Evaluation, K: int) -> Evaluation:
    """An evaluation of K nodes like the given part, to be filled."""
    arrays = {name: None if (a := getattr(part, name)) is None else np.empty((*a.shape[:-1], K - shorter)) for name, shorter in _ARRAYS.items()}
    return replace(part, **arrays)


def _evaluate_chunk(structure: Structure, numbers: Numbers, point: Point, derivatives: bool, frames: Frames | None) -> Evaluation:
    plan = plan_of(structure)
    f = assembly.frames(structure, numbers, point) if frames is None else frames
    sums, out = contributions(plan, numbers, point, f, derivatives)
    project(plan, f.H, f.T, sums, out)
    if structure.coordinates == TREE:
        assembly.add_tree_forces(plan, out)
    return out


def contributions(plan: Plan, numbers: Numbers, point: Point, f: Frames, derivatives: bool) -> tuple[Sums, Evaluation]:
    """Wrenches and blocks of all elements, not projected yet."""
    K, s = point.q.shape[1], plan.structure
    sums = Sums(plan, K - 2, derivatives)
    out = Evaluation(np.zeros((s.nv, K - 2)), np.zeros((s.nc, K)), *plan.pairs)
    assembly.bodies(plan, numbers, point, f, sums)
    assembly.forces(plan, numbers, point, f, sums)
    assembly.encounters(plan, numbers, point, f, sums)
    assembly.pushes(plan, numbers, point, f, sums)
    assembly.constraints(plan, numbers, point, f, sums, out)
    assembly.joint_forces(plan, numbers, point, f, sums, out)
    return sums, out
