"""Joints that a file holds where they are, and that the markers have moved.

Some frames are fitted as poses, the joint locked. What is left of the markers of a frame, r (over their noise), is then described once more, by what the free coordinates u and the locked one, s, would move:

    r = A du + b ds,     A = J Z,     ds = b'P r / b'P b,     P = 1 - A A^+

J are the markers' derivatives with respect to all coordinates, the locked one among them at zero, and Z spans what loops leave free. `b'P b` is the information that the frame has about s; a locked joint without markers
beyond it has none. A joint that is locked at a wrong angle has the same ds in all frames: it is their scatter about the mean that says that it moved, where it takes more of the squares than noise of the size that is
left would (F), and where it is large enough to matter (soft tissue of a running human moves a locked foot by some degrees).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.linalg import null_space

from calibody.estimate.people import exchanged
from calibody.estimate.result import Result
from calibody.mechanics import channels, host
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model
from calibody.model.elements import HINGE, Joint
from calibody.recording.recording import Recording

LEAST_TURN, LEAST_SHIFT = np.deg2rad(5.0), 0.01
"""Standard deviation over frames from which a motion is named [rad, m]: below that, skin moves markers as much."""
CERTAIN = 6.0
"""F from which it is no noise. Noise that is alike in neighbouring frames raises it in none: a frame has a number of its own."""
RANK = 1e-9
"""Of the markers' derivatives: directions below this share of the largest move no marker."""
TELLS = 1e-6
"""Information about a locked coordinate, over that without the others, below which markers say nothing of it."""


def moved(model: Model, recordings: Sequence[Recording]) -> list[str]:
    """A sentence for each locked joint that markers have moved."""
    return [sentence for recording in recordings if model.locked for sentence in _moved(model, recording)]


def _moved(model: Model, recording: Recording) -> Iterator[str]:
    if not any(c.kind == "site" and c.quantity == "position" for c in (channels.resolve(model, o.channel) for o in recording.observations)):
        return
    poses, _ = exchanged.frames(model, recording, np.zeros(0))
    fitted = None if poses is None else exchanged.posed(model, poses)
    if poses is None or fitted is None:
        return
    freed = model.freed
    left, J, Z = _linear(freed, poses, fitted)
    dofs = [_dof(freed, locked.joint) for locked in model.locked]
    for locked, dof in zip(model.locked, dofs, strict=True):
        found = scatter(left, J, [z @ null_space(z[dofs]) for z in Z], dof)
        if found is not None and found[0] > CERTAIN and found[1] > (LEAST_TURN if locked.joint.kind == HINGE else LEAST_SHIFT):
            yield _sentence(locked.joint, recording, found[1])


def _sentence(joint: Joint, recording: Recording, sd: float) -> str:
    turns = joint.kind == HINGE
    size = f"{np.rad2deg(sd):.2g} degrees" if turns else f"{1e3 * sd:.2g} mm"
    return (
        f'"{joint.name}" is locked in the model\'s file, but the markers of the run "{recording.name}" move as if it {"turned" if turns else "moved"} by {size} (standard deviation over frames): '
        "unlock it in the file (<locked>false</locked>), or expect its motion in other joints."
    )


def _dof(freed: Model, joint: Joint) -> int:
    structure = Structure.build(freed, TREE)
    return next(int(structure.v_start[k]) for k, unit in enumerate(structure.units) if unit.joint is not None and unit.joint.name == joint.name)


def _linear(freed: Model, poses: Recording, fitted: Result) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Of every pose: what is left of its markers over their noise, its derivatives with respect to all coordinates, and what loops leave free."""
    structure = Structure.build(freed, TREE)
    numbers, q = Numbers.of(structure), _coordinates(structure, fitted)
    left, derivatives, free = [], [], []
    for k, pose in enumerate(poses.numbered):
        here = host.configuration(structure, numbers, q[:, k])
        H, T = here.frames.H[..., 1], here.frames.T[..., 1]
        r, rows = [], []
        for c in fitted.fit:
            sample, what = np.flatnonzero(c.times == pose), channels.resolve(freed, c.channel)
            if len(sample) and what.kind == "site" and what.component is not None:
                site = freed.tables["site"][what.name]
                link = structure.body_link[site.body]
                above = np.isin(np.arange(structure.nv), structure.dofs_above[link])
                place = H[:, :3, link] @ np.array(site.position) + H[:, 3, link]
                moves = np.where(above, T[3:] + np.cross(T[:3], place[:, None], axis=0), 0.0)
                rows.append(moves[what.component] / c.sd)
                r.append(c.deviation[sample[0]])
        left.append(np.array(r))
        derivatives.append(np.array(rows).reshape(len(r), structure.nv))
        free.append(null_space(here.G) if structure.nc else np.eye(structure.nv))
    return left, derivatives, free


def _coordinates(structure: Structure, fitted: Result) -> np.ndarray:
    """(nq, poses): of the fit, and zero for what was locked in it."""
    own, states = fitted.problem.runs[0].structure, fitted.states[0].q
    start = {unit.joint.name: int(own.q_start[k]) for k, unit in enumerate(own.units) if unit.joint is not None}
    out = np.repeat(host.zero_coordinates(structure, Numbers.of(structure))[:, None], states.shape[1], axis=1)
    for k, unit in enumerate(structure.units):
        if unit.joint is not None and unit.joint.name in start:
            first, width = int(structure.q_start[k]), host.POSITIONS[unit.kind]
            out[first : first + width] = states[start[unit.joint.name] : start[unit.joint.name] + width]
    return out


def scatter(left: Sequence[np.ndarray], J: Sequence[np.ndarray], free: Sequence[np.ndarray], dof: int) -> tuple[float, float] | None:
    """With directions `free` beside it: F of a coordinate that is its own in every pose against one that is alike in all, and its standard deviation over poses; None where fewer than three poses know of it."""
    values, weights, rest, freedom = [], [], 0.0, 0.0
    for r, j, z in zip(left, J, free, strict=True):
        b, (U, size, _) = j[:, dof], np.linalg.svd(j @ z, full_matrices=False)
        Q = U[:, size > RANK * size[0]]
        own, r = b - Q @ (Q.T @ b), r - Q @ (Q.T @ r)
        information = float(own @ own)
        if information <= TELLS * float(b @ b) or len(r) <= Q.shape[1] + 1:
            continue
        ds = float(own @ r) / information
        values.append(ds)
        weights.append(information)
        rest += float(r @ r) - information * ds**2
        freedom += len(r) - Q.shape[1] - 1
    if len(values) < 3:
        return None
    s, w = np.array(values), np.array(weights)
    off = s - np.average(s, weights=w)
    return float(np.sum(w * off**2) / (len(s) - 1) / max(rest / freedom, 1e-300)), float(np.sqrt(np.average(off**2, weights=w)))
