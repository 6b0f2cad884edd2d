"""Channels of a motion at its nodes, and their derivatives with respect to the nodes' coordinates.

A sample at the time t is the cubic through the four nodes around it (linear interpolation errs by h^2/8 times the acceleration), so the
prediction of all samples is `W o`, `o` the channel at the nodes and W a sparse matrix of Lagrange weights. A rate at node k is
`(rho_(k-1) + rho_k)/2`, at the ends one-sided of second order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.mechanics import channels
from calibody.mechanics.assembly import Frames
from calibody.mechanics.elements import spring
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import TREE, Structure
from calibody.model import Model
from calibody.solve.condensed import Sparse
from calibody.spatial import algebra as al


@dataclass(frozen=True)
class NodeValues:
    """A scalar channel at K nodes and its gradient: entries (dofs, K), dof of each."""

    value: np.ndarray
    dofs: np.ndarray
    gradient: np.ndarray

    def matrix(self, nv: int) -> Sparse:
        """(K, K nv): derivative with respect to all nodes' tangents."""
        K = len(self.value)
        rows = np.broadcast_to(np.arange(K), self.gradient.shape)
        columns = rows * nv + self.dofs[:, None]
        return sp.csr_matrix((self.gradient.ravel(), (rows.ravel(), columns.ravel())), shape=(K, K * nv))


def check(model: Model, path: str) -> channels.Channel:
    """A channel that can be observed, as a scalar."""
    channel = channels.resolve(model, path)
    if channel.components and channel.component is None:
        raise CalibodyError(
            f'The channel "{path}" has {len(channel.components)} components; observe them one by one, for instance "{path}.{channel.components[0]}".'
        )
    good = {"joint": ("angle", "position", "rate"), "site": ("position",), "body": ("position", "com")}
    if channel.quantity not in good.get(channel.kind, ()) or (channel.kind == "joint" and channel.component is not None):
        raise CalibodyError(
            f'The channel "{path}" cannot be observed yet; observe angles, positions and rates of hinges and slides, or positions of sites and bodies.'
        )
    return channel


def at_nodes(structure: Structure, model: Model, f: Frames, channel: channels.Channel) -> NodeValues:
    """The channel at every node. For a rate the value is that of the coordinate: `rate_matrix` turns it into rates."""
    if channel.kind == "joint":
        return _coordinate(structure, f, channel.name)
    if channel.kind == "site":
        site = model.tables["site"][channel.name]
        body, local = site.body, site.position
    else:
        body, local = channel.name, model.body(channel.name).com if channel.quantity == "com" else (0.0, 0.0, 0.0)
    link = structure.body_link[body]
    p = al.point(f.pose(link), local)
    dofs = structure.dofs_above[link]
    assert channel.component is not None
    reach = np.array(spring.moved(p))[channel.component]  # (6, K)
    return NodeValues(p[channel.component], dofs, np.einsum("tk,tjk->jk", reach, f.T[:, dofs]))


def _coordinate(structure: Structure, f: Frames, joint: str) -> NodeValues:
    plan = plan_of(structure)
    c = structure.coordinate_index[joint]
    if structure.coordinates == TREE:
        return NodeValues(f.s[c], plan.coordinate_dof[c : c + 1], np.ones((1, f.s.shape[1])))
    parent, child = plan.coordinate_links[c]
    dofs, values = [], []
    for link, sign in ((child, 1.0), (parent, -1.0)):
        above = structure.dofs_above[link]
        dofs.append(above)
        values.append(sign * np.einsum("tk,tjk->jk", f.gradient[:, c], f.T[:, above]))
    return NodeValues(f.s[c], np.concatenate(dofs), np.concatenate(values))


def interpolation(nodes: np.ndarray, times: np.ndarray) -> Sparse:
    """(samples, nodes): Lagrange weights of the four nodes around each sample (fewer nodes: all of them)."""
    K = len(nodes)
    order = min(4, K)
    h = nodes[1] - nodes[0]
    position = (times - nodes[0]) / h
    first = np.clip(np.floor(position).astype(np.int64) - (order // 2 - 1), 0, K - order)
    x = position - first
    rows, columns, values = [], [], []
    for a in range(order):
        weight = np.ones_like(x)
        for b in range(order):
            if b != a:
                weight = weight * (x - b) / (a - b)
        rows.append(np.arange(len(times)))
        columns.append(first + a)
        values.append(np.where(np.abs(weight) < 1e-13, 0.0, weight))
    W = sp.csr_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(len(times), K))
    W.eliminate_zeros()
    return W


def rate_matrix(K: int, h: float) -> Sparse:
    """(K, K): central differences, second order at the ends too."""
    inner = np.arange(1, K - 1)
    rows = np.concatenate([inner, inner, [0, 0, 0], [K - 1] * 3])
    columns = np.concatenate([inner - 1, inner + 1, [0, 1, 2], [K - 3, K - 2, K - 1]])
    values = np.concatenate([np.full(K - 2, -0.5), np.full(K - 2, 0.5), [-1.5, 2.0, -0.5], [0.5, -2.0, 1.5]])
    return sp.csr_matrix((values / h, (rows, columns)), shape=(K, K))
