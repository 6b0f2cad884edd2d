"""One configuration of a mechanism on the host, in joint coordinates: mass matrix, constraint Jacobian, projection on closed loops.

Everything that is done once (consistent initial values, redundant rows) or for one point (forward and inverse dynamics) is plain numpy
here; the same formulas as in the kernels, without a time axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibody.errors import SimulationError
from calibody.mechanics import assembly
from calibody.mechanics.assembly import Frames
from calibody.mechanics.elements import body as body_element
from calibody.mechanics.kinematics import difference as difference, retract
from calibody.mechanics.plan import plan_of
from calibody.mechanics.point import Evaluation, Point
from calibody.mechanics.structure import POSITIONS, Numbers, Structure
from calibody.mechanics.sums import Sums, composite
from calibody.spatial import algebra as al

# A row of G counts as dependent when the part of it that the others do not explain is smaller than this, relative to the largest.
DEPENDENT = 1e-9
# Loops closed to this relative accuracy (of the mechanism's size) count as closed.
CLOSED = 1e-11


@dataclass(frozen=True)
class Configuration:
    """Frames, constraints and mass matrix at one q."""

    frames: Frames
    g: np.ndarray
    G: np.ndarray
    C: np.ndarray
    """What the multipliers act through."""
    M: np.ndarray


def configuration(structure: Structure, numbers: Numbers, q: np.ndarray) -> Configuration:
    plan = plan_of(structure)
    nodes = np.repeat(q[:, None], 3, axis=1)
    count = max(1, len(plan.rotational))
    point = Point(nodes, np.zeros((structure.nc, 3)), np.zeros((0, 2)), np.zeros((0, 2)), 1.0, 1.0, np.zeros((count, 3))[: len(plan.rotational)])
    f = assembly.frames(structure, numbers, point)
    out = Evaluation(np.zeros((structure.nv, 1)), np.zeros((structure.nc, 3)), *plan.pairs)
    assembly.constraints(plan, numbers, point, f, Sums(plan, 1, True), out)
    G, C = (out.dense_gradient(1), out.dense_acting(1)) if structure.nc else (np.zeros((0, structure.nv)),) * 2
    return Configuration(f, out.constraint[:, 1], G, C, mass_matrix(structure, numbers, f))


def mass_matrix(structure: Structure, numbers: Numbers, f: Frames, node: int = 0) -> np.ndarray:
    """Of one node."""
    return mass_matrices(structure, numbers, f.H[..., node : node + 1], f.T[..., node : node + 1])[..., 0]


def mass_matrices(structure: Structure, numbers: Numbers, poses: np.ndarray, T: np.ndarray) -> np.ndarray:
    """(nv, nv, nodes): `M_ji = t_j' Nc t_i` with N of the deeper of the two dofs, plus armatures; poses (3, 4, links, nodes) and twists T (6, nv, nodes)."""
    plan = plan_of(structure)
    n, nv, nodes = structure.n, structure.nv, T.shape[2]
    N = np.zeros((6, 6, n + 1, nodes))
    H = al.unpack_pose(poses[:, :, :n])
    if n:
        inertia = tuple(tuple(np.asarray(x)[:, None] for x in row) for row in body_element.matrix(numbers.inertia))
        N[:, :, :n] = np.array(body_element.mixed(H, H, inertia))  # type: ignore[arg-type]
    composite(structure.parent, N)
    M = np.zeros((nv, nv, nodes))
    for i in range(nv):
        X = np.einsum("abm,bm->am", N[:, :, structure.dof_unit[i]], T[:, i])
        above = structure.dofs_above[structure.dof_unit[i]]
        M[above, i] = M[i, above] = np.einsum("ajm,am->jm", T[:, above], X)
    if structure.coordinates == "tree":
        Z = np.eye(nv)[plan.coordinate_dof]
        Z = np.concatenate([Z, structure.combinations @ Z])
        inertia, paths = np.split(plan.coordinate_inertia(numbers), [plan.first_path])
        M += (Z.T @ (inertia[:, None] * Z))[..., None]
        if paths.any():
            none = np.zeros((6, 0, nodes))
            pull = assembly.pulls(plan, numbers, Frames(poses, T, np.zeros((0, nodes)), none, none))
            M += np.einsum("pjm,p,pim->jim", pull, paths, pull)
        for k, dof in enumerate(plan.ball_dof):
            M[range(dof, dof + 3), range(dof, dof + 3)] += numbers.ball_law[3, k]
    return M


def zero_coordinates(structure: Structure, numbers: Numbers) -> np.ndarray:
    """All joints of the tree at their reference, balls at identity, free joints where their spring is relaxed (the pose in the file)."""
    q = np.zeros(structure.nq)
    for i, unit in enumerate(structure.units):
        start = structure.q_start[i]
        if POSITIONS[unit.kind] == 1:
            q[start] = numbers.reference[i]
        elif POSITIONS[unit.kind] == 4:
            q[start] = 1.0
        elif POSITIONS[unit.kind] == 7 and unit.joint is not None:
            q[start : start + 3] = unit.joint.spring_position
            q[start + 3 : start + 7] = al.quaternion_normalised(unit.joint.spring_orientation)
    return q


def _weights(M: np.ndarray, held: np.ndarray, kind: str) -> np.ndarray:
    """The inverse of the metric of a projection, zero for held dofs: identity (euclidean) or the mass matrix."""
    free = ~held
    W = np.zeros_like(M)
    if kind == "mass":
        block = M[np.ix_(free, free)]
        W[np.ix_(free, free)] = np.linalg.pinv(block, rcond=1e-13, hermitian=True)
    else:
        W[free, free] = 1.0
    return W


def closed(structure: Structure, numbers: Numbers, q: np.ndarray, held: np.ndarray, kind: str, size: float, given: np.ndarray | None = None) -> np.ndarray:
    """The nearest coordinates that close all loops, in the metric `kind`, without moving the held dofs; `given`: what is prescribed."""
    if not structure.nc:
        return q
    target = CLOSED * max(size, 1.0)
    best, best_q = np.inf, q
    for _ in range(60):
        c = configuration(structure, numbers, q)
        g = _less(structure, c.g, given)
        error = float(np.abs(g).max())
        if error < best:
            best, best_q = error, q
        if error < target:
            return q
        W = _weights(c.M, held, kind)
        A = c.G @ W @ c.G.T
        step = -W @ c.G.T @ np.linalg.pinv(A, rcond=1e-12, hermitian=True) @ g
        length = float(np.abs(step).max(initial=0.0))
        if length < 1e-15 * (1.0 + np.abs(q).max()):
            break
        q = retract(structure, q[:, None], (step * min(1.0, 0.5 / max(length, 1e-300)))[:, None])[:, 0]
    if best < 1e-9 * max(size, 1.0):
        return best_q
    row = int(np.argmax(np.abs(_less(structure, configuration(structure, numbers, best_q).g, given))))
    raise SimulationError(
        f"{structure.row_owners[row]} cannot close: the nearest configuration still misses by {best:.3g} (m or rad)"
        + (" with the given initial values held; give fewer of them, or others" if held.any() else "; check its anchors and the lengths in the loop")
        + "."
    )


def _less(structure: Structure, g: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """Values of the rows without what is prescribed, a value or a rate each; without any they are what they are."""
    if not structure.prescribed:
        return g
    out = g.copy()
    out[structure.prescribed_rows] -= 0.0 if given is None else given
    return out


def compatible(
    structure: Structure, numbers: Numbers, q: np.ndarray, v: np.ndarray, held: np.ndarray, kind: str, given: np.ndarray | None = None
) -> np.ndarray:
    """The nearest rates that keep all loops closed, without changing the held ones (if that is possible); `given`: the rates of what is prescribed."""
    if not structure.nc:
        return v
    c = configuration(structure, numbers, q)

    def torn(v: np.ndarray) -> np.ndarray:
        return _less(structure, c.G @ v, given)

    for hold in (held, np.zeros_like(held)):
        W = _weights(c.M, hold, kind)
        A = c.G @ W @ c.G.T
        new = v - W @ c.G.T @ np.linalg.pinv(A, rcond=1e-12, hermitian=True) @ torn(v)
        if np.abs(torn(new)).max() <= 1e-9 * max(1.0, np.abs(v).max()):
            return new
        if held.any():
            row = int(np.argmax(np.abs(torn(new))))
            raise SimulationError(f"The given initial rates tear {structure.row_owners[row]} apart; give fewer of them, the others follow from the loop.")
    return new


def independent_rows(structure: Structure, G: np.ndarray, softness: np.ndarray, dependent: float = DEPENDENT) -> np.ndarray:
    """Which constraint rows to keep in one pose: all rows of joints and all compliant ones, and of the loops a largest independent set."""
    return _independent(structure, G, softness, dependent)


# Another choice of rows is taken where it is this many times clearer than the present one: after it the present one is the clearest, so that the choice does not go back and forth.
CLEARER = 3.0


def clearer_rows(structure: Structure, G: np.ndarray, softness: np.ndarray, active: np.ndarray) -> np.ndarray | None:
    """As many rows that are independent of each other far more clearly than those that are kept; None if there are none."""
    best = independent_rows(structure, G, softness)
    if best.sum() != active.sum() or np.array_equal(best, active):
        return None
    rigid = softness[0] == 0.0
    return best if _clear(G[best & rigid]) > CLEARER * _clear(G[active & rigid]) else None


def _clear(G: np.ndarray) -> float:
    """How clearly rows are independent: the smallest singular value."""
    return float(np.linalg.svd(G, compute_uv=False)[-1]) if len(G) else np.inf


def refuse_overdetermined(structure: Structure, G: np.ndarray) -> None:
    """A sentence where loops, or other drives, determine already what a drive prescribes."""
    rows = structure.prescribed_rows
    kept = np.setdiff1d(np.arange(structure.nc), rows)
    for channel, row in zip(structure.prescribed, rows, strict=True):
        before, kept = kept, np.append(kept, row)
        if _rank(G[kept]) == _rank(G[before]):
            raise SimulationError(
                f'Drive "{channel.path}" prescribes what loops, other drives or the world determine already (or the mechanism stands at a dead point for it); leave it out, or start elsewhere.'
            )


def _rank(G: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(G, tol=DEPENDENT * max(float(np.abs(G).max(initial=0.0)), 1e-300))) if len(G) else 0


# Nodes of a motion at which the rows of its loops are looked at.
LOOKS = 9


def independent_along(structure: Structure, numbers: Numbers, q: np.ndarray, resting: np.ndarray) -> np.ndarray:
    """The same for a whole motion (nq, K) that need not close the loops yet: as in the pose, on the way from it to where they are closed, in which most rows
    are independent (a pose in which a mechanism is stretched out has fewer than all others), and of several such choices the one that is clearest where it is least clear."""
    held, rigid = np.zeros(structure.nv, dtype=bool), numbers.softness[0] == 0.0
    G = configuration(structure, numbers, resting).G
    choices, gradients = [independent_rows(structure, G, numbers.softness)], [G]
    if choices[0].all():
        return choices[0]
    for k in np.unique(np.linspace(0, q.shape[1] - 1, LOOKS).round().astype(int)):
        try:
            closest = closed(structure, numbers, q[:, k], held, "euclidean", 1.0)
        except SimulationError:
            continue
        gradients.append(configuration(structure, numbers, closest).G)
        choices.append(independent_rows(structure, gradients[-1], numbers.softness))
    most = max(int(rows.sum()) for rows in choices)
    passed = [G for G, rows in zip(gradients, choices, strict=True) if rows.sum() == most]
    return max((rows for rows in choices if rows.sum() == most), key=lambda rows: min(_clear(G[rows & rigid]) for G in passed))


def _independent(structure: Structure, G: np.ndarray, softness: np.ndarray, dependent: float = DEPENDENT) -> np.ndarray:
    """Rank-revealing QR of what the joints' rows leave of the loops' rows (DESIGN section 3): the rows kept."""
    keep = np.ones(structure.nc, dtype=bool)
    if not structure.nc:
        return keep
    loops = np.array([owner.startswith("loop.") for owner in structure.row_owners]) & (softness[0] == 0.0)
    if not loops.any():
        return keep
    import scipy.linalg  # here, because importing it takes as long as everything else of a small evaluation

    rows = G[loops]
    joints = G[~loops & (softness[0] == 0.0)]
    if len(joints):
        Q, _ = np.linalg.qr(joints.T)
        rows = rows - (rows @ Q) @ Q.T
    _, R, pivot = scipy.linalg.qr(rows.T, mode="economic", pivoting=True)  # pyright: ignore[reportAssignmentType]
    diagonal = np.abs(np.diag(R))
    scale = max(float(np.abs(G[loops]).max()), 1e-300)
    rank = int((diagonal > dependent * scale).sum())
    keep[np.flatnonzero(loops)[pivot[rank:]]] = False
    return keep
