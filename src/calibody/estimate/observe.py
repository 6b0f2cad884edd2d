"""Channels of a motion at its nodes and at the samples, and their derivatives with respect to the nodes' coordinates.

A sample at the time t is the cubic through the four nodes around it (linear interpolation errs by h^2/8 times the acceleration), so the
prediction of all samples is `W o`, `o` the channel at the nodes and W a sparse matrix of Lagrange weights. A rate at node k is
`(rho_(k-1) + rho_k)/2`, at the ends one-sided of second order; rho is the difference of the nodes over h, of a ball `log(R_k'R_(k+1))/h` in the child's axes.

**Orientations.** The nine entries of a rotation matrix are interpolated like everything else, `M = W R` (a rotation up to the same h^4), and compared with the
measured rotation Y where that is a small turn:

    d = log(Y' M),      the fitted sample is y + d

y the measured rotation vector and d the turn from the measured to the predicted orientation, in the axes of the sensor. Nothing is singular as long as the two differ by less than
half a turn, whatever turns either has made. A bias b is a sensor that sits askew, `Y = R exp(b)`: then `d = -b` whatever the motion is.

**Angles in a plane.** Where a body turns about one axis of the world only (all joints between them are slides, and hinges parallel to it), one component says it all. Its
angle is that of R, with the turns that the hinges have counted. Neither the sensor nor the coordinates know how often the mechanism was turned before
the recording began: whole turns between the two at the first samples are left out. The same holds for hinges in `free` coordinates.

**Forces.** A load cell in a loop sees the multiplier of a constraint row, an unknown of the inner nodes only, so W goes from those to the samples. The same holds for accelerometers, whose
second differences only inner nodes have, and for force-torque sensors and reactions of joints, which see what everything below them needs to move as it does (`mechanics/transmitted.py`). A torque sensor in a
drive, or the current of a motor, sees what drives exert: a function of the control, the coordinate and its rate over the intervals, so W goes from those.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import scipy.sparse as sp

from calibody.errors import CalibodyError
from calibody.estimate.held_drive import Held
from calibody.mechanics import channels, host, imu, transmitted
from calibody.mechanics.assembly import Frames, driven_by, exerted, interval_rates, relative_rotation, rows_of
from calibody.mechanics.elements import wrenches
from calibody.mechanics.elements.base import Setting
from calibody.mechanics.plan import plan_of
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.mechanics.sums import NODES
from calibody.mechanics.transmitted import is_transmitted
from calibody.model import Model
from calibody.model.paths import Place
from calibody.recording.orientations import rotations
from calibody.recording.recording import Recording
from calibody.solve.condensed import Sparse
from calibody.spatial import algebra as al
from calibody.steppers.start import stiffened

OBSERVABLE = {
    "joint": ("angle", "position", "rate", "force", "reaction.force", "reaction.torque"),
    "transmission": ("angle", "position", "rate"),
    "path": ("length", "rate"),
    "actuator": ("force",),
    "loop": ("force",),
    "site": ("position", "angle", "angular_rate", "acceleration", "force", "torque", "applied"),
    "body": ("position", "com", "angle"),
    "contact": ("force", "force.normal"),
    "limit": ("force",),
}
INITIAL = "initial."
"""What the paths of values that are known at the start begin with."""
TURN = 2.0 * np.pi
CUT = 1.0
"""rad: the angle that a body has when all its hinges are at zero is taken between -CUT and a turn more, so that none that people choose (multiples of a
quarter turn) is on the edge."""
FIRST = 9
"""Samples from which whole turns are counted: their median is not misled by outliers."""
PARALLEL = 1e-4
"""rad: how far axes that count as parallel may differ, as by digits left out in a file; the angle is then wrong by the square of it."""


@dataclass(frozen=True)
class Driven:
    """What drives do."""

    means: Callable[[], tuple[np.ndarray, np.ndarray]]
    """Mean control (actuators, K - 1) and applied forces (`Structure.applied_rows`, K - 1), when they are asked for."""
    held: Callable[[channels.Channel, str, int], Held | None] = lambda channel, target, row: None
    """Of a channel that reads it, a row of the control or of the applied forces that is known at every instant (`held_drive.py`)."""


@dataclass(frozen=True)
class Data:
    """One observed channel on the mesh of a run."""

    channel: channels.Channel
    y: np.ndarray
    times: np.ndarray
    W: Sparse
    """(samples, K) from the channel at the nodes to the samples."""
    dW: Sparse
    """Its derivative with respect to time: minus the derivative with respect to a delay."""
    rotation: np.ndarray | None = None
    """(3, 3, samples): the measured orientation of which the channel is one component."""
    relative: np.ndarray | float = 1.0
    """(samples,): the sd of each sample over that of the channel."""


@dataclass(frozen=True)
class NodeValues:
    """A scalar channel at K nodes and its gradient: entries (dofs, K), dof of each."""

    value: np.ndarray
    dofs: np.ndarray
    gradient: np.ndarray

    def matrix(self, width: int, W: Sparse) -> Sparse:
        """(samples, K width): W (samples, K) times the derivative with respect to all nodes' unknowns, of which each has `width`, the tangents first."""
        order = np.argsort(self.dofs)
        values = W.data[:, None] * self.gradient[order].T[W.indices]
        columns = W.indices[:, None] * width + self.dofs[order]
        return sp.csr_matrix((values.ravel(), columns.ravel(), W.indptr * len(order)), shape=(W.shape[0], W.shape[1] * width))


@dataclass(frozen=True)
class Sampled:
    """A channel at the samples, its slope in time, and its derivative (samples, K width) with respect to all nodes' unknowns, as a function of `width`."""

    value: np.ndarray
    slope: np.ndarray
    matrix: Callable[[int], Sparse]
    along: Callable[[np.ndarray], np.ndarray]
    """The change of the samples with a change (K,) of the channel at the nodes; of an orientation with its turn (3, K); of a drive's force with a change of all coordinates."""
    by_multipliers: Mapping[int, Sparse] = field(default_factory=dict)
    """Derivatives (samples, K - 2) with respect to the multipliers of constraint rows at the inner nodes."""
    by_control: Mapping[int, Sparse] = field(default_factory=dict)
    """Derivatives (samples, K - 1) with respect to the mean control of actuators, by their index."""
    by_applied: Mapping[int, Sparse] = field(default_factory=dict)
    """Derivatives (samples, K - 1) with respect to applied forces, by their row."""
    by_number: Callable[[Place], np.ndarray | None] = lambda place: None
    """The derivative (samples,) with respect to a number of the model that the channel itself contains; None: it does not."""
    by_timing: Callable[[int, str], np.ndarray | None] = lambda actuator, number: None
    """The derivative (samples,) with respect to the delay or the time constant of an actuator whose control is held; None: it goes by `by_control`."""


# -- which channels --------------------------------------------------------------------------------------------------------------------


def check(model: Model, path: str, beside: Collection[str] = ()) -> channels.Channel:
    """A channel that can be observed, as a scalar, where the channels `beside` are observed too."""
    channel = channels.resolve(model, path)
    if channel.quantity in ("orientation", "pose"):
        raise CalibodyError(
            f'The channel "{path}" says little alone; give all of {", ".join(channel.components)} as columns of "{channel.whole}", '
            f'or the rotation vector "{channel.whole.rpartition(".")[0]}.angle".'
        )
    if channel.components and channel.component is None:
        raise CalibodyError(
            f'The channel "{path}" has {len(channel.components)} components; observe them one by one, for instance "{path}.{channel.components[0]}".'
        )
    if channel.quantity not in OBSERVABLE.get(channel.kind, ()):
        raise CalibodyError(
            f'The channel "{path}" cannot be observed yet; observe angles, orientations and positions of joints, bodies and sites, rates of joints, '
            "gyroscopes, accelerometers and force-torque sensors on sites, forces of actuators, of loops, of contacts that last, and reactions of joints."
        )
    if is_contact_force(channel) and model.tables[channel.kind][channel.name].compliant:
        raise CalibodyError(f'The channel "{path}" cannot be observed yet: {channel.kind}.{channel.name} gives way, and its force follows from the motion.')
    if is_drive(channel) and channel.components:
        raise CalibodyError(f'The channel "{path}" cannot be observed yet; observe forces of drives on hinges and slides.')
    if channel.quantity == "angle" and channel.component is not None and not spatial(channel, beside):
        _check_planar(model, channel)
    return channel


def start_channel(model: Model, path: str) -> channels.Channel:
    """The channel of a value that is known at the start, under a name of its own: no sensor has read it."""
    channel = channels.resolve(model, path)
    if channel.kind != "joint" or channel.components or channel.quantity not in ("angle", "position", "rate"):
        raise CalibodyError(f'An initial value of "{path}" is given; give those of angles, positions and rates of hinges and slides.')
    return replace(channel, path=INITIAL + path)


def is_initial(channel: channels.Channel) -> bool:
    """Whether the channel is a value known at the start."""
    return channel.path.startswith(INITIAL)


def turns(channel: channels.Channel) -> bool:
    """Whether the channel is a component of the angular rate of a ball, a free joint or a site."""
    return channel.quantity == "angular_rate" or (
        channel.quantity == "rate" and channel.component is not None and channel.component >= len(channel.components) - 3
    )


def is_force(channel: channels.Channel) -> bool:
    """Whether a multiplier is observed; so is the force on a joint that a drive moves as prescribed (`Structure.holding`)."""
    return channel.kind == "loop" or channel.quantity == "applied"


def is_contact_force(channel: channels.Channel) -> bool:
    """Whether the force of contact that lasts is observed: a force plate, a load cell in a stop."""
    return channel.kind in ("contact", "limit") and channel.quantity in ("force", "force.normal")


def is_drive(channel: channels.Channel) -> bool:
    """Whether the force of drives on a joint is observed, or that of one actuator: a torque sensor in the drive, the current of a motor."""
    return channel.kind in ("joint", "actuator") and channel.quantity == "force"


def is_kinematic(channel: channels.Channel) -> bool:
    """Whether the channel says where the mechanism is or how fast it goes."""
    return not is_inner(channel) and not is_drive(channel)


def is_acceleration(channel: channels.Channel) -> bool:
    """Whether an accelerometer is observed."""
    return channel.quantity == "acceleration"


def is_rate(channel: channels.Channel) -> bool:
    """Whether the channel follows from differences of neighbouring nodes."""
    return channel.quantity in ("rate", "angular_rate")


def is_inner(channel: channels.Channel) -> bool:
    """Whether the channel is known at the inner nodes only: forces, and accelerations, which are second differences."""
    return is_force(channel) or is_acceleration(channel) or is_transmitted(channel) or is_contact_force(channel)


def multiplier(structure: Structure, channel: channels.Channel) -> int:
    """The constraint row whose multiplier a force is."""
    if (held := structure.holding(channel)) is not None:
        return held
    rows = [i for i, owner in enumerate(structure.row_owners) if owner == f"loop.{channel.name}"]
    return rows[channel.component or 0]


def spatial(channel: channels.Channel, observed: Collection[str]) -> bool:
    """Whether the channel is one of the three components of an orientation."""
    return channel.quantity == "angle" and channel.component is not None and all(f"{channel.whole}.{c}" in observed for c in channel.components)


def _check_planar(model: Model, channel: channels.Channel) -> None:
    """A sentence unless the body turns about the component's axis only."""
    alone = f'The channel "{channel.path}" is observed without {" and ".join(c for c in channel.components if not channel.path.endswith(c))}'
    remedy = f'observe all three components, "{channel.whole}" with columns = [...]'
    if channel.kind != "body":
        raise CalibodyError(f"{alone}, but the components of this rotation vector mean little one by one; {remedy}.")
    tree = Structure.build(stiffened(model), TREE)
    numbers = Numbers.of(tree)
    frames = host.configuration(tree, numbers, host.zero_coordinates(tree, numbers)).frames
    link, axis = tree.body_link[channel.name], np.eye(3)[:, channel.component]
    turning = frames.T[:3, tree.dofs_above[link], 0]
    if np.abs(np.cross(turning.T, axis)).max(initial=0.0) > PARALLEL or np.abs(frames.H[:, :3, link, 0] @ axis - axis).max() > PARALLEL:
        raise CalibodyError(f'{alone}, but "{channel.name}" does not turn about {channel.components[channel.component]} of the world only; {remedy}.')  # type: ignore[index]


def check_sensor(model: Model, path: str, kind: str, observed: Collection[str]) -> None:
    """A sentence where a channel's bias, gain or delay has no meaning: orientations have no gain, and one delay for all of their components."""
    channel = channels.resolve(model, path)
    if kind != "bias" and spatial(channel, observed):
        instead = f'its delay is "{channel.whole}.delay"' if kind == "delay" else f'a sensor that sits askew has "{path}.bias"'
        raise CalibodyError(f'"{path}.{kind}" is estimated, but an orientation has no {kind} of one component; {instead}.')


def measured_rotation(recording: Recording, channel: channels.Channel) -> np.ndarray | None:
    """(3, 3, samples): the orientation of which the channel is one component; None for other channels."""
    if not spatial(channel, recording.channels):
        return None
    parts = [recording[f"{channel.whole}.{c}"] for c in channel.components]
    if any(len(p.times) != len(parts[0].times) or np.any(p.times != parts[0].times) for p in parts):
        raise CalibodyError(f'The components of "{channel.whole}" have different clocks in the run "{recording.name}"; give all three at the same instants.')
    return rotations(np.stack([p.values for p in parts]))


# -- at the nodes ----------------------------------------------------------------------------------------------------------------------


def at_nodes(structure: Structure, model: Model, numbers: Numbers, f: Frames, channel: channels.Channel) -> NodeValues:
    """A scalar channel at every node. For a rate the value is that of the coordinate: `rate_matrix` turns it into rates."""
    if channel.kind in ("joint", "transmission", "path"):
        return _coordinate(structure, numbers, f, coordinate_index(structure, channel))
    if channel.kind == "body" and channel.quantity == "angle":
        return _planar(structure, f, channel)
    body, local = place_of(model, channel)
    link = structure.body_link[body]
    p = al.point(f.pose(link), local)
    dofs = structure.dofs_above[link]
    assert channel.component is not None
    reach = np.array(wrenches.moved(p))[channel.component]  # (6, K)
    return NodeValues(p[channel.component], dofs, np.einsum("tk,tjk->jk", reach, f.T[:, dofs]))


def place_of(model: Model, channel: channels.Channel) -> tuple[str, tuple[float, float, float]]:
    """The body of a point that is observed, and where in it the point is."""
    if channel.kind == "site":
        site = model.tables["site"][channel.name]
        return site.body, site.position
    return channel.name, model.body(channel.name).com if channel.quantity == "com" else (0.0, 0.0, 0.0)


def rate_index(structure: Structure, channel: channels.Channel) -> int:
    """Which of all rates a channel is: those of the scalar coordinates come first, then three of every ball."""
    if not turns(channel):
        return coordinate_index(structure, channel)
    assert channel.component is not None
    return len(structure.scalar_coordinates) + 3 * ball_index(structure, channel) + channel.component - len(channel.components) + 3


def ball_index(structure: Structure, channel: channels.Channel) -> int:
    """Which ball a channel of a joint is of."""
    return next(k for k, b in enumerate(structure.ball_coordinates) if b.joint == channel.name)


def coordinate_index(structure: Structure, channel: channels.Channel) -> int:
    """Which scalar coordinate a channel of a joint is; of a transmission or a path, counted on after these, which of them."""
    if channel.kind in ("transmission", "path"):
        return structure.law_owners.index((channel.kind, channel.name))
    if channel.component is None:
        return structure.coordinate_index[channel.name]
    return next(i for i, c in enumerate(structure.scalar_coordinates) if c.joint == channel.name and c.component == channel.component)


def _coordinate(structure: Structure, numbers: Numbers, f: Frames, c: int) -> NodeValues:
    plan = plan_of(structure)
    if c >= plan.first_path:
        return NodeValues(f.s[c], *rows_of(plan, numbers, f, c))
    if c >= len(plan.coordinate_dof):
        parts = [(_coordinate(structure, numbers, f, j), weight) for j, weight in plan.shares(c)]
        dofs, place = np.unique(np.concatenate([x.dofs for x, _ in parts]), return_inverse=True)
        gradient = np.zeros((len(dofs), f.s.shape[1]))
        np.add.at(gradient, place, np.concatenate([weight * x.gradient for x, weight in parts]))
        return NodeValues(f.s[c], dofs, gradient)
    if structure.coordinates == TREE:
        return NodeValues(f.s[c], plan.coordinate_dof[c : c + 1], np.ones((1, f.s.shape[1])))
    parent, child = plan.coordinate_links[c]
    dofs, values = [], []
    for link, sign in ((child, 1.0), (parent, -1.0)):
        above = structure.dofs_above[link]
        dofs.append(above)
        values.append(sign * np.einsum("tk,tjk->jk", f.gradient[:, c], f.T[:, above]))
    return NodeValues(f.s[c], np.concatenate(dofs), np.concatenate(values))


def _planar(structure: Structure, f: Frames, channel: channels.Channel) -> NodeValues:
    """The angle of a body about an axis of the world that all its hinges are parallel to: that of R nearest to the sum of the hinges' angles."""
    plan, link, a = plan_of(structure), structure.body_link[channel.name], channel.component
    assert a is not None
    R, dofs = f.H[:, :3, link], structure.dofs_above[link]
    i, j = (a + 1) % 3, (a + 2) % 3
    angle = np.arctan2(R[j, i] - R[i, j], R[i, i] + R[j, j])
    counted, unit = np.zeros(len(angle)), link
    while unit < structure.n:
        for c, coordinate in enumerate(structure.scalar_coordinates):
            if coordinate.unit == unit and coordinate.rotational:
                axis = f.T[a, plan.coordinate_dof[c], 0] if structure.coordinates == TREE else f.gradient[a, c, 0]
                counted = counted + np.sign(axis) * f.s[c]
        unit = int(structure.tree_parent[unit])
    zero = (angle[0] - counted[0] + CUT) % TURN - CUT
    return NodeValues(angle + TURN * np.round((counted + zero - angle) / TURN), dofs, f.T[a, dofs])


def orientation(structure: Structure, model: Model, numbers: Numbers, f: Frames, channel: channels.Channel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """R (3, 3, K) of a body, a site or a ball, dofs, and how each of them turns it: w (3, dofs, K) with `dR = [w]x R`."""
    if channel.kind == "body":
        link = structure.body_link[channel.name]
        dofs = structure.dofs_above[link]
        return f.H[:, :3, link], dofs, f.T[:3, dofs]
    if channel.kind == "site":
        site = model.tables["site"][channel.name]
        link = structure.body_link[site.body]
        dofs = structure.dofs_above[link]
        return imu.sensor_axes(f.H[:, :, link], site), dofs, f.T[:3, dofs]
    plan = plan_of(structure)
    k = ball_index(structure, channel)
    parent, child = plan.ball_links[k]
    side = np.einsum("ijk,jl->ilk", f.H[:, :3, parent], numbers.placement[:, :3, structure.ball_coordinates[k].unit])
    above = [np.setdiff1d(structure.dofs_above[x], structure.dofs_above[y]) for x, y in ((child, parent), (parent, child))]
    w = np.concatenate([f.T[:3, above[0]], -f.T[:3, above[1]]], axis=1)
    return np.array(relative_rotation(plan, numbers, f, k)), np.concatenate(above), np.einsum("jik,jdk->idk", side, w)


# -- at the samples --------------------------------------------------------------------------------------------------------------------


def at_samples(
    structure: Structure,
    model: Model,
    numbers: Numbers,
    f: Frames,
    multipliers: np.ndarray,
    d: Data,
    times: np.ndarray,
    W: Sparse,
    dW: Sparse,
    h: float,
    driven: Driven,
) -> Sampled:
    """A channel at its samples, the times, W and dW as those of `d` but with its delay; h is the step between nodes."""
    if is_contact_force(d.channel):
        raise CalibodyError(f'"{d.channel.path}" is observed, which method = "transcription" with contacts that act can do only; leave it out.')
    if is_force(d.channel) or structure.holding(d.channel) is not None:
        row = multiplier(structure, d.channel)
        force = multipliers[row, 1:-1]
        return Sampled(W @ force, dW @ force, lambda width: sp.csr_matrix((len(d.y), multipliers.shape[1] * width)), W.dot, {row: W})
    if is_drive(d.channel):
        return _exerted(structure, numbers, f, d.channel, times, W, dW, h, driven)
    if is_transmitted(d.channel):
        return _transmitted(structure, model, numbers, f, multipliers, d.channel, h, W, dW, driven)
    if is_acceleration(d.channel):
        return _felt(structure, model, numbers, f, d.channel, h, W, dW)
    if d.rotation is not None:
        return _turned(*orientation(structure, model, numbers, f, d.channel), d, W, dW)
    if turns(d.channel):
        return _turning(*orientation(structure, model, numbers, f, d.channel), d.channel, W, dW)
    nodes = at_nodes(structure, model, numbers, f, d.channel)
    return Sampled(W @ nodes.value, dW @ nodes.value, lambda width: nodes.matrix(width, W), W.dot)


def whole_turns(structure: Structure, d: Data, prediction: np.ndarray, each: bool = False) -> np.ndarray | float:
    """What to add to the prediction of an angle whose turns nobody has counted before the recording began; `each`: nor from one sample to the next."""
    counted = d.channel.kind == "transmission" or (structure.coordinates == TREE and d.channel.kind == "joint")
    if d.channel.quantity != "angle" or d.rotation is not None or counted or not len(d.y):
        return 0.0
    if each:
        return TURN * np.round((d.y - prediction) / TURN)
    return TURN * float(np.round(np.median((d.y - prediction)[:FIRST]) / TURN))


def _turned(R: np.ndarray, dofs: np.ndarray, w: np.ndarray, d: Data, W: Sparse, dW: Sparse) -> Sampled:
    """`y + log(Y'M)`, `M = W R`: with S the derivative of one component of log by Y'M, node j turned by w changes it by `tr(S'Y'[w]x R_j)` times its weight."""
    Y, K, component = d.rotation, R.shape[2], d.channel.component
    assert Y is not None and component is not None
    M, rate = (np.einsum("jis,jks->iks", Y, (weights @ R.reshape(9, K).T).T.reshape(3, 3, -1)) for weights in (W, dW))
    S = np.array(al.matrix_log_slope(_rows(M), component))
    entries = W.tocoo()
    B = np.einsum("ike,jle,lke->ije", R[..., entries.col], Y[..., entries.row], S[..., entries.row])  # R_j S' Y'
    by_turn = entries.data * _axial(B)

    def matrix(width: int) -> Sparse:
        values = np.einsum("ie,ide->de", by_turn, w[..., entries.col])
        rows, columns = np.broadcast_to(entries.row, values.shape), entries.col * width + dofs[:, None]
        return sp.csr_matrix((values.ravel(), (rows.ravel(), columns.ravel())), shape=(len(d.y), K * width))

    def along(turn: np.ndarray) -> np.ndarray:
        return np.bincount(entries.row, np.einsum("ie,ie->e", by_turn, turn[:, entries.col]), len(d.y))

    return Sampled(d.y + al.matrix_log(_rows(M))[component], np.einsum("ijs,ijs->s", S, rate), matrix, along)


def _turning(R: np.ndarray, dofs: np.ndarray, w: np.ndarray, channel: channels.Channel, W: Sparse, dW: Sparse) -> Sampled:
    """W times one component of `log(A)`, `A = R_k'R_(k+1)`: with S its derivative by A, turning the nodes k and k + 1 changes it by `tr(S'R_k'[w_(k+1) - w_k]x R_(k+1))`."""
    K, component = R.shape[2], channel.component - len(channel.components) + 3  # type: ignore[operator]
    left, right = R[..., :-1], R[..., 1:]
    A = _rows(np.einsum("jik,jlk->ilk", left, right))
    turned, S = al.matrix_log(A)[component], np.array(al.matrix_log_slope(A, component))
    turn = _axial(np.einsum("ike,lke,jle->ije", right, S, left))  # of R_(k+1) S' R_k'

    def matrix(width: int) -> Sparse:
        k = np.arange(K - 1)
        values = np.stack([np.einsum("ik,idk->dk", sign * turn, w[..., nodes]) for sign, nodes in ((-1.0, slice(0, -1)), (1.0, slice(1, None)))])
        columns = (k + np.array([0, 1])[:, None, None]) * width + dofs[:, None]
        return W @ sp.csr_matrix((values.ravel(), (np.broadcast_to(k, values.shape).ravel(), columns.ravel())), shape=(K - 1, K * width))

    def along(by: np.ndarray) -> np.ndarray:
        return W @ np.einsum("ik,ik->k", turn, np.diff(by, axis=1))

    return Sampled(W @ turned, dW @ turned, matrix, along)


def _felt(structure: Structure, model: Model, numbers: Numbers, f: Frames, channel: channels.Channel, h: float, W: Sparse, dW: Sparse) -> Sampled:
    """W times `u . b` (`imu.py`), u one axis of the sensor: the twist (w, v) of its link changes it by `w_k . (u x b)` and by `u . (w x p + v)` at three nodes.

    `along` takes a change (12, K): the twist of the link, the turn of the sensor alone, and a change of gravity.
    """
    assert channel.component is not None
    site = model.tables["site"][channel.name]
    link = structure.body_link[site.body]
    dofs, K = structure.dofs_above[link], f.H.shape[3]
    p, b = imu.held_up(f.H[:, :, link], site, numbers.gravity, h)
    u = imu.sensor_axes(f.H[:, :, link], site)[:, channel.component, 1:-1]
    value, turn, reach = np.einsum("ik,ik->k", u, b), np.cross(u, b, axis=0), np.array(wrenches.moved(tuple(p)))  # type: ignore[arg-type]
    by_twist = [weight / h**2 * np.einsum("ik,itk->tk", u, reach[..., nodes]) for weight, nodes in zip((1.0, -2.0, 1.0), NODES, strict=True)]
    by_twist[1][:3] += turn

    def matrix(width: int) -> Sparse:
        k = np.arange(K - 2)
        values = np.stack([np.einsum("tk,tjk->jk", by, f.T[:, dofs, nodes]) for by, nodes in zip(by_twist, NODES, strict=True)])
        columns = (k + np.arange(3)[:, None, None]) * width + dofs[:, None]
        return W @ sp.csr_matrix((values.ravel(), (np.broadcast_to(k, values.shape).ravel(), columns.ravel())), shape=(K - 2, K * width))

    def along(change: np.ndarray) -> np.ndarray:
        moved = sum(np.einsum("tk,tk->k", by, change[:6, nodes]) for by, nodes in zip(by_twist, NODES, strict=True))
        return W @ (moved + np.einsum("ik,ik->k", turn, change[6:9, 1:-1]) - np.einsum("ik,ik->k", u, change[9:, 1:-1]))

    return Sampled(W @ value, dW @ value, matrix, along)


def _transmitted(
    structure: Structure,
    model: Model,
    numbers: Numbers,
    f: Frames,
    multipliers: np.ndarray,
    channel: channels.Channel,
    h: float,
    W: Sparse,
    dW: Sparse,
    driven: Driven,
) -> Sampled:
    """W times a component of what goes through a cut (`transmitted.py`). `along` takes twists (6, K) of links, by link."""
    cuts, K = transmitted.cuts(structure, numbers, multipliers, f, h, driven.means()[1] if structure.driven else None), f.H.shape[3]
    value = cuts.value(model, channel)
    pulls = cache(lambda: cuts.pulls(model, channel))

    def matrix(width: int) -> Sparse:
        k, by = np.arange(K - 2), np.zeros((3, structure.nv, K - 2))
        for offset, nodes in enumerate(NODES):
            for link, pull in pulls()[offset].items():
                dofs = structure.dofs_above[link]
                by[offset, dofs] += np.einsum("bm,bjm->jm", pull, f.T[:, dofs, nodes])
        used = np.flatnonzero(np.abs(by).max(axis=(0, 2), initial=0.0) > 0.0)
        columns = (k + np.arange(3)[:, None, None]) * width + used[:, None]
        return W @ sp.csr_matrix((by[:, used].ravel(), (np.broadcast_to(k, columns.shape).ravel(), columns.ravel())), shape=(K - 2, K * width))

    def along(twists: Mapping[int, np.ndarray]) -> np.ndarray:
        moved = np.zeros(K - 2)
        for pulled, nodes in zip(pulls(), NODES, strict=True):
            for link in pulled.keys() & twists.keys():
                moved += np.einsum("bm,bm->m", pulled[link], twists[link][:, nodes])
        return W @ moved

    by_multipliers = {row: W @ sp.diags(by) for row, by in cuts.by_multipliers(model, channel).items()}
    ends = {row: sp.diags(both, [0, 1], shape=(K - 2, K - 1)) for row, both in cuts.by_applied(model, channel).items()}  # type: ignore[arg-type]
    by_applied = {row: W @ both for row, both in ends.items()}
    return Sampled(W @ value, dW @ value, matrix, along, by_multipliers, {}, by_applied, lambda place: W @ cuts.by_number(model, channel, place))  # type: ignore[arg-type]


def _exerted(
    structure: Structure, numbers: Numbers, f: Frames, channel: channels.Channel, times: np.ndarray, W: Sparse, dW: Sparse, h: float, driven: Driven
) -> Sampled:
    """The force of drives at the samples, `t(s, rho, u)` (`elements/law.py`), of one actuator or of all on a joint with what is applied to it: coordinate and rate are W times those of
    the intervals, and so is the control, but for one that is held between its own samples, which is known at every instant (`held_drive.py`)."""
    plan, (control, applied) = plan_of(structure), driven.means()
    names = [a.name for a in structure.model.actuators]
    alone = channel.kind == "actuator"
    on, joint = plan.actuator_coordinate, -1 if alone else coordinate_index(structure, channel)
    acting = {a: share for a, c in enumerate(on) if (share := float(names[a] == channel.name) if alone else dict(plan.shares(c)).get(joint, 0.0))}
    (sm, rho), (sm_slope, rho_slope) = ([weights @ x.T for x in interval_rates(f, h)] for weights in (W, dW))
    sm, rho = sm.T, rho.T
    velocity = -1 if alone else int(plan.coordinate_dof[joint])
    force = slope = np.zeros(len(times))
    if not alone:
        known = driven.held(channel, "applied", velocity)
        force, slope = (W @ applied[velocity], dW @ applied[velocity]) if known is None else (known.value(times), known.slope(times))
    helds = {a: driven.held(channel, "control", a) for a in acting}
    us = {a: W @ control[a] if known is None else known.value(times) for a, known in helds.items()}
    by_control, by_held, by_nodes = {}, {}, {}
    for a, share in acting.items():
        t, t_s, t_rho, t_u = (share * x for x in exerted(plan, numbers, a, sm, rho, us[a]))
        known = helds[a]
        force = force + t
        slope = slope + t_s * sm_slope[:, on[a]] + t_rho * rho_slope[:, on[a]] + t_u * (dW @ control[a] if known is None else known.slope(times))
        by_control[a] = weighed(W, t_u)
        if known is not None:
            by_held[a] = t_u, known
        middle, turned = (sp.diags(ends, [0, 1], shape=(W.shape[1], W.shape[1] + 1)) for ends in ([0.5, 0.5], [-1.0 / h, 1.0 / h]))  # type: ignore[arg-type]
        by_nodes[int(on[a])] = by_nodes.get(int(on[a]), 0.0) + weighed(W @ middle, t_s) + weighed(W @ turned, t_rho)

    def matrix(width: int) -> Sparse:
        nothing = sp.csr_matrix((W.shape[0], f.s.shape[1] * width))
        return sum((_coordinate(structure, numbers, f, c).matrix(width, sp.csr_matrix(by)) for c, by in by_nodes.items()), nothing)

    def along(change: np.ndarray) -> np.ndarray:
        return sum((by @ change[c] for c, by in by_nodes.items()), np.zeros(W.shape[0]))

    def by_number(place: Place) -> np.ndarray | None:
        if place.kind != "actuator" or names.index(place.name) not in acting:
            return None
        a = names.index(place.name)
        found = [(group, e) for group, e in driven_by(plan, a) if place.field in group.type.fields]
        if not found:
            return None
        at = Setting(1.0, control=us[a])
        parts = (g.type.by_numbers(sm[on[a]], rho[on[a]], tuple(numbers.elements[g.name][:, e]), at)[g.type.fields.index(place.field)] for g, e in found)
        return acting[a] * sum(parts) + np.zeros(sm.shape[1])

    def by_timing(a: int, number: str) -> np.ndarray | None:
        if a not in by_held:
            return None
        t_u, known = by_held[a]
        return t_u * (known.by_delay(times) if number == "delay" else known.by_lag(times))

    return Sampled(force, slope, matrix, along, {}, by_control, {} if alone else {velocity: W}, by_number, by_timing)


def _axial(B: np.ndarray) -> np.ndarray:
    """a (3, ...) with `tr(B [w]x) = a . w`."""
    return np.stack([B[1, 2] - B[2, 1], B[2, 0] - B[0, 2], B[0, 1] - B[1, 0]])


def _rows(M: np.ndarray) -> al.Matrix:
    return tuple(map(tuple, M))  # type: ignore[return-value]


def weighed(A: Sparse, weight: np.ndarray) -> Sparse:
    """A with every row times its weight."""
    A = A.tocsr()
    return sp.csr_matrix((A.data * np.repeat(weight, np.diff(A.indptr)), A.indices, A.indptr), shape=A.shape)


def interpolation(nodes: np.ndarray, times: np.ndarray, order: int = 4) -> Sparse:
    """(samples, nodes): Lagrange weights of the `order` nodes around each sample (fewer nodes: all of them)."""
    K = len(nodes)
    order = min(order, K)
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


def mean_matrix(K: int) -> Sparse:
    """(K, K - 1): from the intervals to the nodes, the mean of the two that meet there; at the ends of second order too."""
    inner = np.arange(1, K - 1)
    rows = np.concatenate([inner, inner, [0, 0, K - 1, K - 1]])
    columns = np.concatenate([inner - 1, inner, [0, 1, K - 2, K - 3]])
    return sp.csr_matrix((np.concatenate([np.full(2 * K - 4, 0.5), [1.5, -0.5, 1.5, -0.5]]), (rows, columns)), shape=(K, K - 1))


def rate_matrix(K: int, h: float) -> Sparse:
    """(K, K): from a coordinate at the nodes to its rate."""
    return mean_matrix(K) @ sp.diags([-1.0 / h, 1.0 / h], [0, 1], shape=(K - 1, K))  # type: ignore[arg-type]
