"""The forces of contact that lasts, as channels have them: of b on a in world axes, of a limit on its coordinate; and by node.

The sum over the places of a contact is what there is to know of redundant ones (`lasting.py`), and what the channels have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from calibody.estimate.contacts.flights import Struck
from calibody.estimate.contacts.lasting import friction_angle, touched
from calibody.estimate.contacts.strikes import STEP
from calibody.estimate.layout import PUSHES, States
from calibody.estimate.observe import Sampled
from calibody.estimate.run import Run
from calibody.mechanics.channels import Channel, resolve
from calibody.mechanics.contact import Spots, basis, cross
from calibody.mechanics.kinematics import Geometry, poses, retract
from calibody.mechanics.structure import Numbers
from calibody.model import Model
from calibody.solve.condensed import Sparse
from calibody.steppers.events import ContactLog


@dataclass(frozen=True, eq=False)
class Pressed:
    """Forces of a run, one after the other as its unknowns are."""

    node: np.ndarray
    """Of the run."""
    spot: np.ndarray
    owner: np.ndarray
    axes: np.ndarray
    """(forces, 3, 3): world force of b on a by the components that are unknown; of a limit the force on its coordinate, in the first place."""
    at: np.ndarray
    """(forces, 3) where they act on a."""


def pressed(run: Struck, spots: Spots, numbers: Numbers, q: np.ndarray) -> Pressed:
    held, e = run.closed, run.closed.pushes
    nodes, at = np.unique(held.node[e], return_inverse=True)
    touch = spots.touch(poses(run.structure, Geometry.of(run.structure, numbers), q[:, nodes]))
    _, rows = touched(run.structure, numbers, spots, q[:, nodes], held.spots[e], at)
    angle = friction_angle(rows, held.of_holds("turn")[e], held.tangents[e])
    axes, where = np.zeros((len(e), 3, 3)), np.zeros((len(e), 3))
    between = len(spots.links[0])
    here, there = np.flatnonzero(held.spots[e] < between), np.flatnonzero(held.spots[e] >= between)
    if len(here):
        spot, k = held.spots[e][here], at[here]
        own, (c, s) = basis(touch.normal[:, spot, k].T), (f(angle[here])[:, None] for f in (np.cos, np.sin))
        own = np.stack([own[:, 0], c * own[:, 1] + s * own[:, 2], c * own[:, 2] - s * own[:, 1]], axis=1)
        axes[here] = spots.side[spot][:, None, None] * own.swapaxes(1, 2)
        where[here] = touch.at_a[:, spot, k].T
    axes[there, 0, 0] = spots.sign[held.spots[e][there] - between]
    return Pressed(held.node[e], held.spots[e], spots.owner[held.spots[e]], axes, where)


def is_contact_force(channel: Channel, model: Model) -> bool:
    """Whether the force of lasting contact is meant, which is unknown; that of compliant contact follows from the motion."""
    touches = channel.kind in ("contact", "limit") and channel.quantity in ("force", "force.normal")
    return touches and not model.tables[channel.kind][channel.name].compliant


def row_of(channel: Channel, model: Model) -> tuple[int, int | None]:
    """The owner of a scalar channel, and which component of the world force it is; None: the normal one."""
    if channel.kind == "limit":
        return len(model.contacts) + [x.name for x in model.limits].index(channel.name), 0
    return [c.name for c in model.contacts].index(channel.name), None if channel.quantity == "force.normal" else channel.component or 0


def shares(found: Pressed, owner: int, component: int | None) -> np.ndarray:
    """(forces, 3): what every unknown force adds to a channel at its node."""
    row = found.axes[:, component] if component is not None else np.tile([1.0, 0.0, 0.0], (len(found.owner), 1))
    return np.where((found.owner == owner)[:, None], row, 0.0)


def slopes(
    run: Struck,
    model: Model,
    numbers: Numbers,
    states: States,
    names: Sequence[str],
    nodes: np.ndarray,
    models: Sequence[tuple[tuple[Model, Numbers], tuple[Model, Numbers], float]],
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of scalar channels of forces at nodes of the run: by its unknowns (channels, nodes, unknowns), and by parameters (channels, nodes, parameters), of which `models` has the model with
    a little more, a little less, and how much."""
    nv, width, force = run.structure.nv, run.closed.width, states.parts.get(PUSHES)
    by_states, by_theta = np.zeros((len(names), len(nodes), run.layout.size)), np.zeros((len(names), len(nodes), len(models)))
    if force is None:
        return by_states, by_theta
    spots, here = run.spots(model), pressed(run, run.spots(model), numbers, states.q)
    member = here.node[None, :] == nodes[:, None]  # (nodes, forces)

    def summed(found: Pressed, owner: int, component: int | None) -> np.ndarray:
        return member @ np.einsum("mj,mj->m", shares(found, owner, component), force)

    turned: list[tuple[Pressed, Pressed]] = []
    for j in range(nv):
        d = np.zeros((nv, run.K))
        d[j] = STEP
        turned.append(tuple(pressed(run, spots, numbers, retract(run.structure, states.q, sign * d)) for sign in (1.0, -1.0)))  # type: ignore[arg-type]
    changed = [(pressed(run, run.spots(a[0]), a[1], states.q), pressed(run, run.spots(b[0]), b[1], states.q), size) for a, b, size in models]
    first = run.layout.place[PUSHES].start
    for c, name in enumerate(names):
        owner, component = row_of(resolve(model, name), model)
        share = shares(here, owner, component)
        for k in range(width):
            by_states[c][:, first + np.arange(len(share)) * width + k] = member * share[:, k]
        for j, (more, less) in enumerate(turned):
            by_states[c, np.arange(len(nodes)), nodes * nv + j] = (summed(more, owner, component) - summed(less, owner, component)) / (2.0 * STEP)
        for p, (more, less, size) in enumerate(changed):
            by_theta[c, :, p] = (summed(more, owner, component) - summed(less, owner, component)) / (2.0 * size)
    return by_states, by_theta


def along(run: Run, model: Model, numbers: Numbers, states: States, channel: Channel) -> np.ndarray:
    """(inner nodes,) a scalar channel."""
    out = np.zeros(run.inner)
    if isinstance(run, Struck) and PUSHES in states.parts:
        found = pressed(run, run.spots(model), numbers, states.q)
        np.add.at(out, found.node - 1, np.einsum("mj,mj->m", shares(found, *row_of(channel, model)), states.parts[PUSHES]))
    return out


def sampled(run: Run, model: Model, numbers: Numbers, states: States, channel: Channel, W: Sparse, dW: Sparse) -> Sampled:
    """A force that is observed, W and dW from the inner nodes to its samples."""
    force, nv = along(run, model, numbers, states, channel), run.structure.nv

    def matrix(width: int) -> Sparse:
        """By the coordinates, which turn the normal."""
        by = np.zeros((run.inner, nv))
        for j in range(nv):
            d = np.zeros((nv, run.K))
            d[j] = STEP
            ends = [along(run, model, numbers, states.changed(nodes=retract(run.structure, states.q, sign * d)), channel) for sign in (1.0, -1.0)]
            by[:, j] = (ends[0] - ends[1]) / (2.0 * STEP)
        columns = (np.arange(run.inner) + 1)[:, None] * width + np.arange(nv)
        return W @ sp.csr_matrix((by.ravel(), (np.repeat(np.arange(run.inner), nv), columns.ravel())), shape=(run.inner, run.K * width))

    return Sampled(W @ force, dW @ force, matrix, W.dot)


def by_pushes(run: Run, model: Model, numbers: Numbers, states: States, channel: Channel, W: Sparse) -> Sparse | None:
    """(samples, unknowns): its derivative by the forces of holds; None where there are none."""
    if not isinstance(run, Struck) or PUSHES not in states.parts:
        return None
    found, width = pressed(run, run.spots(model), numbers, states.q), run.closed.width
    share = shares(found, *row_of(channel, model))[:, :width]
    columns = np.arange(len(share))[:, None] * width + np.arange(width)
    by = sp.csr_matrix((share.ravel(), (np.repeat(found.node - 1, width), columns.ravel())), shape=(run.inner, len(share) * width))
    return run.layout.across(W @ by, PUSHES)


def logged(run: Struck, model: Model, numbers: Numbers, states: States, log: ContactLog) -> None:
    """The forces at the nodes that are the motion, into the log of a motion on the nodes of the mesh."""
    if PUSHES not in states.parts:
        return
    spots, force = run.spots(model), states.parts[PUSHES]
    found = pressed(run, spots, numbers, states.q)
    world = np.einsum("mij,mj->mi", found.axes, force)
    of_node = np.full(run.K, -1)
    of_node[run.actual] = np.arange(len(run.actual))
    k = of_node[found.node]
    for m in np.flatnonzero(k >= 0):
        log.force[found.owner[m], :, k[m]] += world[m]
        log.normal[found.owner[m], k[m]] += force[m, 0]
        if found.spot[m] < len(spots.links[0]):
            f = spots.side[found.spot[m]] * world[m]
            wrench = np.concatenate([cross(found.at[m][None], f[None])[0], f])
            for links, sign in zip(spots.links, (1.0, -1.0), strict=True):
                log.wrench[:, links[found.spot[m]], k[m]] += sign * wrench
    _first(run, model, log)


def _first(run: Struck, model: Model, log: ContactLog) -> None:
    """At the first node, which has no force of its own, that of the second, for what is closed from the beginning."""
    if any(h.flight == 0 and h.first < 0 for h in run.holds):
        for values in (log.force, log.normal, log.wrench):
            values[..., 0] = values[..., 1]
